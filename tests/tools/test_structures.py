#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What users see of arrays, lists, blobs and hash tables: test_structures.py <lladd> <make_db>.

Text that is loaded is dumped again unchanged. Wrong text is refused with the line and with what
was expected there, and changes nothing. Reading changes nothing on disk, even after a crash. verify
checks every structure, and reports pages without an owner."""
import hashlib
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

from dumps import crc32c, dump, structure

LLADD, MAKE_DB = sys.argv[1:3]

PARTS = [
    structure("array", "numbers", ["\x01\0\0\0", 2, "\0\0\0\x02"], element=4),
    structure("hash", "people", [("alice", "17")], key=0, value=0),
    structure("blob", "picture", ["x" * 1024, "y" * 76]),
    structure("list", "steps", ["first", "", "last"]),
]
SMALL = dump(*PARTS)
SAMPLES = int(os.environ.get("LLADD_TEST_SAMPLES", "60"))


def run(*args, text=""):
    done = subprocess.run([LLADD, *map(str, args)], input=text.encode("latin-1"),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")


def tree(folder):
    """A hash of all files in a directory."""
    seen = hashlib.sha256()
    for base, below, names in os.walk(folder):
        below.sort()
        for name in sorted(names):
            with open(os.path.join(base, name), "rb") as file:
                seen.update(name.encode() + b"\0" + file.read() + b"\0")
    return seen.hexdigest()


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.db = os.path.join(temporary.name, "db")

    def good(self, *args, text="", code=0):
        got, out, err = run(*args, text=text)
        self.assertEqual(got, code, f"lladd {args}: {out}{err}")
        return out

    def bad(self, *args, text="", code=2):
        got, out, err = run(*args, text=text)
        self.assertEqual(got, code, f"lladd {args}: {out}{err}")
        return err

    def load(self, text, *options):
        self.good("load", "--create", *options, self.db, text=text)

    def dumped(self):
        return self.good("dump", self.db)

    def sound(self, *words):
        """verify finds no damage, and has checked the structures in `words`."""
        out = self.good("verify", self.db)
        self.assertIn("\nno damage\n", out)
        self.assertNotIn("outside of structures", out)
        for word in words:
            self.assertIn(word, out)


class DumpAndLoad(Case):
    def test_load_restores_what_dump_wrote(self):
        self.load(SMALL)
        self.assertEqual(self.dumped(), SMALL)
        self.sound("structures: 1 array, 1 list, 1 blob, 1 hash table\n")
        self.assertEqual(self.good("dump", self.db, "people", "numbers"), dump(PARTS[1], PARTS[0]))

    def test_example_of_the_format_page(self):
        """The example in docs/dump-format.md."""
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "..", "..", "docs", "dump-format.md"),
                  encoding="utf-8") as file:
            text = re.search(r"```text\n(lladd dump 1\n.*?)```", file.read(), re.S).group(1)
        self.load(text)
        got = self.dumped()
        structures = re.findall(r"(?:array|hash|list|blob) .*?end \d+ ", text, re.S)
        for one in structures:  # compares single lines, because a hash table has no order
            head, *lines = one.splitlines()[:-1]
            self.assertIn("\n" + head + "\n", got)
            for line in lines:
                self.assertIn("\n" + line + "\n", got)
        self.assertEqual(len(structures), 4)
        self.assertEqual(len(got), len(text))

    def test_batches(self):
        for batch in (1, 2, 3, 100):
            self.load(SMALL, "--replace", "--batch", batch)
            self.assertEqual(self.dumped(), SMALL)
            self.sound("structures: 1 array, 1 list, 1 blob, 1 hash table\n")

    def test_every_byte(self):
        """Keys, values, elements and names may contain any bytes."""
        everything = "".join(map(chr, range(256)))
        name = "".join(map(chr, range(1, 63))) + '"'
        text = dump(structure("hash", name, [(everything, everything[::-1])], key=0, value=0),
                    structure("array", "a", [everything], element=256),
                    structure("list", "l", [everything, everything]),
                    structure("blob", "b", [everything]))
        self.load(text)
        got = self.dumped()
        self.assertEqual(sorted(got.splitlines()), sorted(text.splitlines()))
        self.assertTrue(got.isascii())

    def test_zeros(self):
        """Zeros of arrays and blobs; a piece is written as zeros only if all its bytes are zero."""
        text = dump(structure("array", "a", [7, "1234", 10**7], element=4),
                    structure("blob", "b", ["x" * 1024, 2048, "y" + 1023 * "\0", 10**7]))
        self.load(text)
        self.assertEqual(self.dumped(), text)
        self.load(dump(structure("blob", "b", ["x" * 1024, "\0" * 1000, "\0" * 1048,
                                               "y" + 1023 * "\0", 10**7])), "--replace")
        self.assertEqual(self.dumped(), text)
        self.sound("1 array, 1 blob")

    def test_empty_ones(self):
        text = dump(structure("array", "a", [], element=3), structure("blob", "b", []),
                    structure("hash", "c", [], key=4, value=0), structure("list", "d", []))
        self.load(text)
        self.assertEqual(self.dumped(), text)
        self.load(dump(structure("hash", "e", [("", "")], key=0, value=0)))
        self.assertEqual(self.good("dump", self.db, "e"),
                         dump(structure("hash", "e", [("", "")], key=0, value=0)))
        self.sound()

    def test_many(self):
        dice = random.Random(1)
        pairs = [(f"key {i}", "v" * dice.randrange(200)) for i in range(3000)]
        fixed = [(i.to_bytes(4, "little").decode("latin-1"), "1234") for i in range(3000)]
        elements = ["%08d" % dice.randrange(10**8) for _ in range(2000)] + [5000]
        text = dump(structure("array", "a", elements, element=8),
                    structure("hash", "h", pairs, key=0, value=0),
                    structure("hash", "i", fixed, key=4, value=4),
                    structure("list", "l", [p[1] for p in pairs]))
        self.load(text)
        got = self.dumped()
        # A table has no order, so compare its lines as a set, without the checksum.
        plain = [re.sub(r" crc .*", "", line) for line in text.splitlines()]
        self.assertEqual(sorted(re.sub(r" crc .*", "", line) for line in got.splitlines()),
                         sorted(plain))
        self.sound("1 array, 1 list, 2 hash tables")
        again = self.db + "2"
        self.good("load", "--create", "--batch", 500, again, text=got)
        self.assertEqual(sorted(self.good("dump", again).splitlines()[1:4000:7]),
                         sorted(set(self.good("dump", again).splitlines()[1:4000:7])))
        self.good("verify", again)

    def test_replace(self):
        self.load(SMALL)
        self.assertIn('standard input, line 2: "numbers" already exists (--replace',
                      self.bad("load", self.db, text=SMALL))
        other = dump(structure("list", "numbers", ["now", "a", "list"]))
        self.load(other, "--replace")
        self.assertEqual(self.good("dump", self.db, "numbers"), other)
        self.sound("structures: 2 lists, 1 blob, 1 hash table\n")

    def test_json(self):
        said = json.loads(self.good("load", "--json", "--create", self.db, text=SMALL))
        self.assertEqual(said, {"structures": 4, "records": 9})
        lines = [json.loads(line) for line in self.good("dump", "--json", self.db).splitlines()]
        self.assertEqual(lines[0], {"structure": "array", "name": "numbers", "count": 4,
                                    "element_size": 4})
        self.assertEqual(lines[1], {"element": {"hex": "01000000"}})
        self.assertIn({"key": "alice", "value": "17"}, lines)
        self.assertIn({"item": "first"}, lines)
        said = json.loads(self.good("verify", "--json", self.db))
        self.assertEqual(said["structures"], {"arrays": 1, "lists": 1, "blobs": 1,
                                              "hash_tables": 1, "btrees": 0, "runs": 0,
                                              "extensions": {}, "other_roots": 0,
                                              "not_checked": 0, "unowned_pages": 0})

    def test_no_such_root(self):
        self.load(SMALL)
        self.assertIn("LLADD_NOT_FOUND", self.bad("dump", self.db, "nothing"))
        self.assertIn("LLADD_NOT_A_DATABASE", self.bad("dump", os.path.dirname(self.db)))
        self.assertIn("not a directory", self.bad("dump", self.db + "x"))
        self.assertIn("LLADD_NOT_A_DATABASE",
                      self.bad("load", os.path.dirname(self.db), text=SMALL))
        self.assertIn("No such file", self.bad("load", self.db, "/nowhere"))
        self.assertIn("Is a directory", self.bad("load", self.db, "/"))
        self.assertIn("too many", self.bad("load", self.db, "a", "b"))
        self.assertIn("not a number", self.bad("load", "--batch", "x", self.db))
        self.assertIn("0 is not between 1 and", self.bad("load", "--batch", "0", self.db))
        self.assertIn("4294967296 is not between 0 and 4294967295",
                      self.bad("hash", "put", "--key-size", "4294967296", self.db, "1", "a", "b"))

    def test_output_that_cannot_be_written(self):
        self.load(SMALL)
        with open("/dev/full", "w") as full:
            for args in (["dump", self.db], ["hash", "scan", self.db, "people"]):
                done = subprocess.run([LLADD, *args], stdout=full, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 2)


class Refused(Case):
    """Mistakes are reported with their lines; the database is unchanged."""

    def setUp(self):
        super().setUp()
        self.load(dump(structure("list", "old", ["stays"])))
        self.before = self.dumped()

    def refuse(self, text, *words, options=()):
        # With --batch the structures before the mistake stay.
        for more in ((),) if "\nend " in text else ((), ("--batch", 1)):
            err = self.bad("load", *options, *more, self.db, text=text)
            for word in words:
                self.assertIn(word, err)
        self.assertEqual(self.dumped(), self.before)

    def test_cut_off(self):
        one = dump(PARTS[1])
        lines = one.splitlines(keepends=True)
        for n in range(len(lines)):
            self.refuse("".join(lines[:n]), f"line {max(n + 1, 1)}: the file is")
        for n in range(5, len(one), 11):
            self.refuse(one[:n], "standard input, line ")
        self.sound("1 list")

    def test_messages_about_malformed_text(self):
        head = 'hash "h" key 2 value 0 count 1'
        first = "lladd dump 1\n"
        for text, words in (
                ("", "line 1: the file is empty"),
                ("lladd dump 2\n",
                 "line 1: the format has version 2, this program reads version 1"),
                ("LLADD dump 1\n", 'line 1: expected "lladd dump 1", found LLADD dump 1'),
                ("lladd dump 1\r\n", r"line 1: expected the end of the line, found \x0d"),
                (first + "tree", "line 2: the file ends in the middle of a line"),
                (first + 'tree "t"\n', "line 2: expected array, hash, btree, list, blob or done"),
                (first + "list x\n", "line 2: expected a name in quotation marks, found x"),
                (first + 'list ""\n', "line 2: a name has 1 to 63 bytes"),
                (first + 'list "%s"\n' % (64 * "n"), "line 2: a name has 1 to 63 bytes"),
                (first + 'list "a\\x00b"\n', "line 2: a name has"),
                (first + 'list "a"\n', 'expected " count " and how many, found the end of'),
                (first + 'list "a" count 01\n', "expected a count, found 01"),
                (first + 'list "a" count -1\n', "expected a count, found -1"),
                (first + 'list "a" count 18446744073709551616\n', "expected a count, found 1844"),
                (first + 'array "a" element 0 count 1\n', "an element of 0 bytes"),
                (first + 'array "a" element 5000 count 1\n', "elements have 5000 bytes; the pages"),
                (first + 'array "a" element 9 count 99999999999999999\n', "LLADD_TOO_LARGE"),
                (first + 'hash "a" key 9999 value 0 count 1\n', "LLADD_KEY_SIZE"),
                (first + 'hash "a" key 4294967296 value 0 count 1\n', "LLADD_KEY_SIZE"),
                (first + 'list "lladd.load" count 0\n',
                 'the name "lladd.load" is reserved for lladd load'),
                (first + head + '\n"abc" "x"\n', "line 3: a key of 3 bytes instead of 2"),
                (first + head + '\n"ab"\n', "line 3: expected a blank and a value"),
                (first + head + '\n"ab" "x" \n', "line 3: expected the end of the line, found "),
                (first + head + '\n"ab\n', "line 3: expected a closing quotation mark"),
                (first + head + '\n"a\\b" ""\n', "expected a printable character"),
                (first + head + '\n"a\\xFF" ""\n', "expected a printable character"),
                (first + head + '\n"a\xff" ""\n', r"found \xff"),
                (first + head + '\n"a\t" ""\n', r"found \x09"),
                (first + head + '\n"ab" ""\n"cd" ""\n',
                 "line 4: more than the count in the first line, 1"),
                (first + head.replace("1", "2") + '\n"ab" ""\n"ab" ""\n',
                 "line 4: the key occurs twice"),
                (first + head + "\nzeros 1\n", 'only an array or a blob may have a line "zeros"'),
                (first + 'array "a" element 1 count 3\nzeros 0\n',
                 "line 3: the number of zeros must be at least 1"),
                (first + 'array "a" element 1 count 3\nzeros 4\n',
                 "line 3: more than the count in the first line, 3"),
                (first + 'array "a" element 1 count 3\n"ab"\n', "an element of 2 bytes instead"),
                (first + PARTS[1].replace("end 1", "end 2"),
                 "line 4: the first line states a count of 1, the end 2; 1 were read"),
                (first + PARTS[1].replace("17", "18"), "line 4: expected the checksum "),
                (first + PARTS[1] + "done 2\n", "line 5: 1 structures instead of 2"),
                (dump(PARTS[1]) + "\n", "line 6: expected the end of the file"),
                (dump(PARTS[1], PARTS[1]), '"people" already exists')):
            err = self.bad("load", self.db, text=text)
            self.assertIn(words, err)
            self.assertEqual(self.dumped(), self.before, words)
        self.sound("1 list")

    def test_second_structure_has_a_wrong_checksum(self):
        good, broken = PARTS[0], PARTS[1].replace("17", "18")
        self.bad("load", self.db, text=dump(good, broken))
        self.assertEqual(self.dumped(), self.before)
        self.assertIn("checksum", self.bad("load", "--batch", 1, self.db, text=dump(good, broken)))
        self.assertEqual(self.dumped(), dump(good, structure("list", "old", ["stays"])))
        self.sound("1 array, 1 list\n")

    def test_malformed_text_replaces_nothing(self):
        new = structure("list", "old", ["new", "ones"])
        text = dump(new.replace("ones", "tens"))
        self.refuse(text, "checksum", options=["--replace"])
        self.refuse(text, "checksum", options=["--replace", "--batch", 1])
        self.sound("1 list")


class AfterACrash(Case):
    def kill_in_the_middle(self):
        """A load in batches is killed: some batches are committed, but there is no name."""
        pairs = [(f"k{i}", "v" * 100) for i in range(400)]
        text = dump(structure("hash", "half", pairs, key=0, value=0))
        child = subprocess.Popen([LLADD, "load", "--batch", "10", self.db], stdin=subprocess.PIPE)
        child.stdin.write(text[:3 * len(text) // 4].encode())
        child.stdin.flush()
        # When the log has grown so much, load has read and committed most of the file.
        while True:
            out = json.loads(run("stat", "--json", self.db)[1])
            if out["in_use"] and out["next_open"]["commits"] > 5:
                break
            self.assertIsNone(child.poll())
        child.kill()
        child.wait()
        child.stdin.close()
        return text

    def test_killed_while_loading(self):
        self.load(dump(PARTS[3]))
        text = self.kill_in_the_middle()
        before = tree(self.db)
        self.assertEqual(self.good("dump", self.db, "steps"), dump(PARTS[3]))
        self.assertIn("1 list, 1 hash table", self.good("verify", self.db))
        self.assertIn("LLADD_NOT_FOUND", self.bad("hash", "scan", self.db, "half"))
        self.assertRegex(self.good("hash", "get", self.db, "lladd.load", "k0"), "^v+\n$")
        self.assertEqual(tree(self.db), before)
        self.assertFalse(json.loads(self.good("stat", "--json", self.db))["clean"])
        # The next load removes what was left, and its pages are reused.
        self.load(text)
        self.assertEqual(self.good("hash", "get", self.db, "half", "k399"), 100 * "v" + "\n")
        self.sound("1 list, 1 hash table")

    def test_scan_keeps_other_programs_out(self):
        pairs = [(f"k{i}", "v" * 100) for i in range(2000)]
        self.load(dump(structure("hash", "h", pairs, key=0, value=0)))
        child = subprocess.Popen([LLADD, "hash", "scan", self.db, "h"], stdout=subprocess.PIPE)
        try:
            child.stdout.read(10)  # scan waits until its pipe is read
            self.assertIn("another process inspects the database", self.bad("recover", self.db))
            self.assertEqual(self.good("hash", "get", self.db, "h", "k7"), 100 * "v" + "\n")
            self.assertFalse(json.loads(self.good("stat", "--json", self.db))["in_use"])
        finally:
            child.stdout.read()
            child.stdout.close()
        self.assertEqual(child.wait(), 0)
        self.good("recover", self.db)


class Verify(Case):
    def test_leak(self):
        self.load(SMALL)
        subprocess.run([MAKE_DB, "--forget", self.db, "people"], check=True)
        out = self.good("verify", self.db, code=1)
        self.assertRegex(out, r"leak    pages, page \d+: \d+ allocated pages \([0-9, to]+\): every "
                              "root leads to a structure, but none contains them\n")
        self.assertRegex(out, r"; \d+ pages outside of structures\n\d+ pages lost\n$")
        said = json.loads(self.good("verify", "--json", self.db, code=1))
        self.assertEqual(said["findings"][0]["kind"], "leak")
        self.assertEqual(said["leaked_pages"], said["structures"]["unowned_pages"])
        self.assertEqual(said["damage"], 0)
        # An unknown structure may own the pages.
        subprocess.run([MAKE_DB, "--root", self.db, "mine"], check=True)
        out = self.good("verify", self.db)
        self.assertRegex(out, r"; 1 root of unknown structures; "
                              r"\d+ pages outside of structures\nno damage\n")

    def test_table_that_is_destroyed_in_steps(self):
        """A partly destroyed table owns its remaining pages, and can only be destroyed."""
        pairs = [(f"key {i}", f"{i:0500}") for i in range(200)]
        self.load(dump(structure("hash", "people", pairs, key=0, value=0), PARTS[0]))
        subprocess.run([MAKE_DB, "--begin-end", self.db, "people"], check=True)
        self.sound("1 hash table")
        code, out, err = run("dump", self.db)
        self.assertEqual((code, out), (0, dump(PARTS[0])))
        self.assertEqual(err, 'lladd dump: "people" is left out: it is being destroyed\n')
        self.good("load", "--replace", self.db, text=SMALL)
        self.sound()
        self.assertEqual(self.dumped(), SMALL)

    def test_regions(self):
        """Regions own their pages. They are no structures, so they cannot be dumped."""
        subprocess.run([MAKE_DB, "--regions", self.db], check=True)
        self.sound("1 hash table")
        code, out, err = run("dump", self.db)
        self.assertEqual((code, out), (0, dump()))
        self.assertEqual(err, 'lladd dump: "lladd.regions" is left out: it lists pages of this '
                              'database\n')
        subprocess.run([MAKE_DB, "--free-last", self.db], check=True)
        out = self.good("verify", self.db, code=1)
        self.assertRegex(out, r'region "lladd.regions": page \d+ belongs to it, but is not '
                              r'allocated')

    def test_bwtree(self):
        """A logged Bw-tree and the store own their pages. verify reads the tree."""
        subprocess.run([MAKE_DB, "--bwtree", self.db], check=True)
        self.sound("structures: 2 lladd.bwtree\n")
        self.assertIn('"bw:index" is left out', run("dump", self.db)[2])
        pages = os.path.join(self.db, "pages")
        with open(pages, "rb") as file:
            at = file.read().index(b"value")
        with open(pages, "r+b") as file:
            file.seek(at)
            file.write(b"Value")
        self.assertIn("damage  pages", self.good("verify", self.db, code=1))

    def test_page_taken_away(self):
        self.load(SMALL)
        subprocess.run([MAKE_DB, "--free-last", self.db], check=True)
        out = self.good("verify", self.db, code=1)
        self.assertRegex(out, r'damage  pages, page \d+: \w+ "\w+": page \d+ belongs to it, but '
                              r'is not allocated|'
                              r'damage  pages, page \d+: \w+ "\w+": .*not allocated')

    def test_two_names(self):
        self.load(SMALL)
        subprocess.run([MAKE_DB, "--alias", self.db, "people"], check=True)
        self.sound("1 array, 1 list, 1 blob, 1 hash table\n")

    def test_damaged_page(self):
        self.load(dump(structure("blob", "b", ["x" * 1000] * 20)))
        with open(os.path.join(self.db, "pages"), "r+b") as file:
            whole = file.read()
            at = [p for p in range(0, len(whole), 4096) if whole[p + 200:p + 210] == b"x" * 10][-1]
            file.seek(at + 300)
            file.write(b"y")
        # Once the log is truncated at a checkpoint, it has no base image of the page.
        code, out, _ = run("verify", self.db)
        self.assertEqual(code, 1)
        self.assertIn(f"page {at // 4096}", out)


class Salvage(Case):
    """A byte of a page is wrong, and there is no log to rebuild the page from."""

    def setUp(self):
        super().setUp()
        self.new = self.db + ".new"
        self.elements = ["%08d" % i for i in range(3000)]
        self.pairs = {f"key {i:04}": f"value of {i:04}" for i in range(2000)}
        self.items = [f"item {i:04} " + "i" * 100 for i in range(300)]
        self.blob = "".join("<%06d>" % i for i in range(4000))
        self.load(dump(structure("array", "a", self.elements, element=8),
                       structure("blob", "b", [self.blob]),
                       structure("hash", "h", list(self.pairs.items()), key=0, value=0),
                       structure("list", "l", self.items)))

    def flip(self, *places):
        """Changes a byte at each place: an offset, or a text."""
        with open(os.path.join(self.db, "pages"), "r+b") as file:
            whole = file.read()
            for place in places:
                at = place if isinstance(place, int) else whole.index(place.encode("latin-1"))
                file.seek(at)
                file.write(bytes([whole[at] ^ 1]))

    def damage(self, *places):
        """Changes bytes as flip() does, and destroys the log from which the pages could be
        rebuilt."""
        self.flip(*places)
        # Log before the start of redo is read only to rebuild a page.
        need = json.loads(self.good("stat", "--json", self.db))["log"]["redo"]
        logs = os.path.join(self.db, "log")
        segment = os.path.join(logs, sorted(os.listdir(logs))[0])
        self.assertLess(need, os.path.getsize(segment))
        with open(segment, "r+b") as file:
            for at in range(4096, need - 4096, 100):
                if at % 65536 >= 64:  # no header of a block
                    file.seek(at)
                    file.write(b"damage")

    def salvage(self, *options):
        code, out, err = run("dump", "--salvage", *options, self.db)
        self.assertEqual(code, 1, out + err)
        self.assertIn("\ndone ", out, err)
        self.good("load", "--create", self.new, text=out)
        self.good("verify", self.new)
        return out, err

    def part(self, out, kind):
        return re.search(rf"^{kind} .*?^end ", out, re.S | re.M).group(0).splitlines()[1:-1]

    def test_salvage_without_damage(self):
        whole = self.dumped()
        self.assertEqual(self.good("dump", "--salvage", self.db), whole)
        code, _, err = run("dump", "--salvage", "--salvage", "--jsonn", self.db)
        self.assertEqual(code, 2, err)

    def test_one_damaged_page_of_each_structure(self):
        self.damage("00001500", "<002000>", "value of 1000", "item 0150 ")
        self.bad("dump", self.db, code=1)
        out, err = self.salvage()
        elements = self.part(out, "array")
        kept = [e.strip('"') for e in elements if not e.startswith("zeros")]
        gone = sum(int(e.split()[1]) for e in elements if e.startswith("zeros"))
        self.assertEqual(len(kept) + gone, 3000)
        self.assertTrue(0 < gone <= 512, gone)
        at = int(re.search(r'"a": elements (\d+) to (\d+) are left out, zeros', err).group(1))
        self.assertEqual(kept, self.elements[:at] + self.elements[at + gone:])
        self.assertIn(f"elements {at} to {at + gone - 1} ", err)
        pairs = dict(re.findall(r'^"(key \d+)" "(.*)"$', out, re.M))
        self.assertTrue(1500 < len(pairs) < 2000, len(pairs))
        self.assertTrue(all(self.pairs[k] == v for k, v in pairs.items()))
        self.assertNotIn("key 1000", pairs)
        self.assertIn('"h": elements are left out: ', err)
        items = [i.strip('"') for i in self.part(out, "list")]
        self.assertEqual(items, self.items[:len(items)])
        self.assertTrue(100 < len(items) <= 150, len(items))
        self.assertIn('"l": everything after the damage is left out: ', err)
        self.assertRegex(err, r'"b": bytes \d+ to \d+ are left out, zeros stand for them: ')
        text = self.good("dump", self.new, "b")
        self.assertIn(f'blob "b" count {len(self.blob)}\n', text)
        for left in ("<000000>", "<003999>"):
            self.assertIn(left, text)
        self.assertNotIn("<002000>", text)

    def test_one_damaged_bucket_of_a_table(self):
        """A damaged bucket does not affect the other buckets, not even the next one to be split and
        the last one."""
        path = os.path.join(self.db, "pages")
        with open(path, "rb") as file:
            whole = file.read()
        pages = {at.start() // 4096 for at in re.finditer(b"value of", whole)}
        self.assertGreater(len(pages), 10)
        least = 2000 - 2 * 4096 // 25  # a key and a value are 25 bytes
        for page in sorted(pages):
            self.damage(page * 4096 + 300)
            code, out, err = run("dump", "--salvage", self.db, "h")
            pairs = dict(re.findall(r'^"(key \d+)" "(.*)"$', out, re.M))
            self.assertEqual(code, 1, err)
            self.assertTrue(least <= len(pairs) < 2000, f"page {page}: {len(pairs)}, {err}")
            self.assertTrue(all(self.pairs[k] == v for k, v in pairs.items()))
            with open(path, "wb") as file:
                file.write(whole)

    def test_damaged_first_page_of_a_list(self):
        self.damage("item 0000 ")
        out, err = self.salvage()
        self.assertIn('"l"', err)
        self.assertEqual(len(self.part(out, "array")), 2999 + 1)

    def test_damaged_pages_of_root_names(self):
        """Without these pages, and without log that has them, the database does not open: status
        1, and no complete text."""
        name = b"a name that is there once"
        text = dump(structure("list", name.decode(), ["one", "two"]))
        self.good("load", self.db, text=text)
        self.damage(name.decode())
        folder = os.path.join(self.db, "log")
        for file in os.listdir(folder):
            with open(os.path.join(folder, file), "rb+") as segment:
                whole = segment.read()
                segment.seek(0)
                segment.write(whole.replace(name, b"x" * len(name)))
        code, out, err = run("dump", "--salvage", self.db)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("LLADD_CORRUPT_", err)

    def table(self, name, rows, *options):
        """Puts rows into a managed dTable, made if it does not exist, and digests them."""
        run("dtable", "create", *options, self.db, name)
        head = "key,A,B\n" if "--columns" in options else ""
        self.good("dtable", "put", "--csv", self.db, name,
                  text=head + "".join(f"{k},{v}\n" for k, v in rows))
        self.good("dtable", "maintain", self.db, name)

    def scanned(self, name, *ends):
        """The rows that scan --salvage prints, and what it says."""
        code, out, err = run("dtable", "scan", "--csv", "--salvage", self.db, name, *ends)
        self.assertEqual(code, 1 if err else 0, err)
        return out.splitlines(), err

    def left_out(self, name, rows, key):
        """Asserts that all rows are printed in order, except those between two keys. Returns the
        rows that were left out."""
        printed, err = self.scanned(name)
        said = re.fullmatch(rf"lladd dtable scan: rows after {key} and before {key} are left out: "
                            r".*checksum.*\n", err)
        self.assertTrue(said, err)
        before, after = said.group(1), said.group(2)
        lines = [f"{k},{v}" for k, v in rows]
        gone = [f"{k},{v}" for k, v in rows if before < str(k) < after]
        self.assertEqual(printed, [line for line in lines if line not in set(gone)])
        self.assertTrue(gone)
        return gone

    def test_rows_of_tables(self):
        """A damaged run: scan reports it, and with --salvage goes on after it."""
        rows = [(f"k{i:05}", f"row {i:05}") for i in range(6000)]
        cells = [(i, f"left {i:05},right {i:05}") for i in range(10000, 14000)]
        self.table("t", rows)
        self.table("c", cells, "--columns", "A,B", "--key", "u64")
        self.assertEqual(self.scanned("t"), ([f"{k},{v}" for k, v in rows], ""))
        self.flip("row 03000", "right 12000")
        code, out, err = run("dtable", "scan", "--csv", self.db, "t")
        self.assertEqual(code, 1)
        self.assertIn('run "t" of page ', err)
        self.assertIn("LLADD_CORRUPT_RUN", err)
        self.assertTrue(out.startswith("k00000,row 00000\n") and "03000" not in out)
        gone = self.left_out("t", rows, r'"(k\d+)"')
        self.assertIn("k03000,row 03000", gone)
        self.assertLess(len(gone), 3000)
        printed, err = self.scanned("c")
        self.assertEqual(printed[0], "key,A,B")
        self.assertEqual(printed[1], "10000,left 10000,right 10000")
        self.assertEqual(printed[-1], "13999,left 13999,right 13999")
        self.assertRegex(err, r"rows after 1[12]\d+ and before 1[23]\d+ are left out: ")
        self.assertEqual(self.scanned("c", 13000, 13002),
                         (["key,A,B"] + [f"{i},left {i},right {i}" for i in range(13000, 13003)],
                          ""))

    def test_two_damaged_places_of_a_table(self):
        """The rows between the two places are printed, also with FROM and TO."""
        rows = [(f"k{i:05}", f"row {i:05}") for i in range(9000)]
        self.table("t", rows)
        self.flip("row 01000", "row 08000")
        gone = self.left_out("t", rows, r'"(k\d+)"')
        self.assertIn("k04500,row 04500", gone)
        self.assertEqual(self.scanned("t", "k04000", "k05000"),
                         ([f"{k},{v}" for k, v in rows[4000:5001]], ""))

    def test_an_older_run_does_not_replace_a_damaged_one(self):
        rows = [(f"k{i:05}", f"row {i:05}") for i in range(3000)]
        newer = [(f"k{i:05}", f"new {i:05}") for i in range(500, 2500)]
        self.table("t", rows)
        self.table("t", newer)
        self.flip("new 01500")
        gone = self.left_out("t", rows[:500] + newer + rows[2500:], r'"(k\d+)"')
        self.assertIn("k01500,new 01500", gone)
        # The first row of the newer run is damaged, so all rows before the end of the damage are
        # left out.
        self.flip("new 00500")
        printed, err = self.scanned("t")
        self.assertRegex(err, r'rows before "k\d+" are left out: ')
        self.assertEqual(printed[-1], "k02999,row 02999")
        self.assertNotIn("k01500,row 01500", printed)

    def test_the_ends_of_a_table_are_damaged(self):
        rows = [(f"k{i:05}", f"row {i:05}") for i in range(3000)]
        self.table("t", rows)
        self.flip("row 00000")
        printed, err = self.scanned("t")
        self.assertRegex(err, r'rows before "k\d+" are left out: ')
        self.assertEqual(printed[-1], "k02999,row 02999")
        self.flip("row 02999")
        printed, err = self.scanned("t")
        self.assertEqual(printed, [])
        self.assertRegex(err, r"scan: rows are left out: ")

    def test_dump_names_the_command_for_tables(self):
        """Managed dTables are not in the text: a database that is loaded from the text has no
        tables, and no damage."""
        self.table("t", [("k", "v")])
        self.table("c", [("k", "v,w")], "--columns", "A,B")
        for options in ([], ["--salvage"]):
            command = " ".join(["lladd dtable scan --csv", *options])
            code, out, err = run("dump", *options, self.db)
            self.assertEqual(code, 0, err)
            for name in ("t", "c"):
                self.assertIn(f'the managed dTable "{name}" is left out: "{command}" writes', err)
            self.assertEqual(re.findall(r'^(\w+) ".*?" (?:count|key|element)', out, re.M),
                             ["array", "blob", "hash", "list"])
            self.good("load", "--create", "--replace", self.new, text=out)
            self.assertIn("\nno damage\n", self.good("verify", self.new))

    def test_commands_of_the_page_for_operators(self):
        """The commands in docs/what-happens-when.md for an operator."""
        here = os.path.dirname(os.path.abspath(__file__))
        with open(os.path.join(here, "..", "..", "docs", "what-happens-when.md"),
                  encoding="utf-8") as file:
            book = re.findall(r"<!-- run by tests/tools -->\n```sh\n(.*?)```", file.read(), re.S)
        rows = [(f"k{i:05}", f"row {i:05}") for i in range(3000)]
        self.table("orders", rows)
        self.damage("value of 0700", "row 01500")
        folder = os.path.dirname(self.db)
        seen = []
        for line in "".join(book).splitlines():
            command, _, status = line.partition("#")
            want = int(re.search(r"status (\d)", status).group(1)) if "status" in status else 0
            path = os.path.dirname(os.path.abspath(LLADD)) + os.pathsep + os.environ["PATH"]
            env = dict(os.environ, PATH=path)
            done = subprocess.run(["sh", "-c", command], cwd=folder, env=env,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, want, line + done.stdout.decode("latin-1"))
            seen.append(command)
        self.assertTrue(any("--salvage" in c for c in seen) and any(" load " in c for c in seen))
        self.db = os.path.join(folder, "new")
        self.assertTrue(2000 < len(self.scanned("orders")[0]) < 3000)


class HostileBytes(Case):
    """Pages with a valid checksum and wrong contents. No command that reads them crashes or hangs,
    and each reports something."""

    def setUp(self):
        super().setUp()
        pairs = [(f"key {i}", f"{i}" * (i % 40)) for i in range(120)]
        self.load(dump(structure("array", "a", ["%04d" % i for i in range(1500)], element=4),
                       structure("hash", "f", [("%04d" % i, "12") for i in range(700)], key=4,
                                 value=2),
                       structure("hash", "v", pairs + [("long", "z" * 9000)], key=0, value=0),
                       structure("list", "l", ["item" * (i % 300) for i in range(60)]),
                       structure("blob", "b", ["b" * 1024] * 80)))
        uuid = json.loads(self.good("stat", "--json", self.db))["uuid"].replace("-", "")
        self.salt = crc32c(bytes.fromhex(uuid))
        with open(os.path.join(self.db, "pages"), "rb") as file:
            self.pages = file.read()

    def write(self, number, page):
        page = bytes(4) + page[4:]
        seed = crc32c(struct.pack("<IQ", self.salt, number))
        page = crc32c(page[4:], seed).to_bytes(4, "little") + page[4:]
        with open(os.path.join(self.db, "pages"), "r+b") as file:
            file.seek(number * 4096)
            file.write(page)

    def test_sample(self):
        dice = random.Random(4)
        used = [n for n in range(len(self.pages) // 4096) if any(self.pages[n * 4096:][:4096])]
        page = self.pages[used[3] * 4096:][:4096]
        self.write(used[3], page)  # checks that this class computes checksums correctly
        self.sound("1 array, 1 list, 1 blob, 2 hash tables")
        ends = set()
        for turn in range(SAMPLES):
            number = used[turn % len(used)] if turn < 2 * len(used) else dice.choice(used)
            was = self.pages[number * 4096:][:4096]
            page = bytearray(was)
            # Most changes are in the first bytes after the page header, where roots and heads are.
            for _ in range(dice.choice([1, 1, 2, 8])):
                at = dice.choice([dice.randrange(32, 128), dice.randrange(32, 4096)])
                page[at] = dice.choice([0, 1, 255, page[at] ^ 1 << dice.randrange(8)])
            self.write(number, bytes(page))
            for args in (["verify", self.db], ["dump", self.db],
                         ["hash", "get", self.db, "v", "long"]):
                try:
                    code, _, err = run(*args)
                except subprocess.TimeoutExpired:
                    # An array or blob may be terabytes of zeros, and valid.
                    self.assertEqual((args[0], run("verify", self.db)[0]), ("dump", 0))
                    continue
                self.assertIn(code, (0, 1, 2), f"{args} turn {turn} page {number}: {err}")
                self.assertNotIn("Sanitizer", err)
                ends.add((args[0], code))
            self.write(number, was)
        self.sound("1 array, 1 list, 1 blob, 2 hash tables")
        self.assertIn(("verify", 1), ends)
        self.assertIn(("dump", 1), ends)


class Hash(Case):
    def put(self, *args, text=""):
        self.assertEqual(self.good("hash", "put", "--create", *args, text=text), "")

    def test_one_key(self):
        self.put(self.db, "t", "alice", "17")
        self.assertEqual(self.good("hash", "get", self.db, "t", "alice"), "17\n")
        self.put(self.db, "t", "alice", "18")
        self.assertEqual(self.good("hash", "get", self.db, "t", "alice"), "18\n")
        self.assertEqual(self.good("hash", "get", self.db, "t", "bob", code=1), "")
        self.assertEqual(self.good("hash", "del", self.db, "t", "bob", code=1), "")
        self.assertEqual(self.good("hash", "scan", self.db, "t"), '"alice" "18"\n')
        self.assertEqual(self.good("hash", "del", self.db, "t", "alice"), "")
        self.assertEqual(self.good("hash", "scan", self.db, "t"), "")
        self.sound("1 hash table")

    def test_bytes(self):
        self.put("--hex", self.db, "t", "00ff22", "0a5C")
        self.assertEqual(self.good("hash", "get", "--hex", self.db, "t", "00FF22"), "0a5c\n")
        self.assertEqual(self.good("hash", "scan", self.db, "t"), '"\\x00\\xff\\"" "\\x0a\\\\"\n')
        self.assertEqual(self.good("hash", "scan", "--hex", self.db, "t"), "00ff22 0a5c\n")
        self.put(self.db, "t", "k", text="bytes\0from\nthe\xff input\n")
        self.assertEqual(self.good("hash", "get", self.db, "t", "k"),
                         "bytes\0from\nthe\xff input\n\n")
        self.put("--hex", self.db, "t", "6b", text="6869\n")
        self.assertEqual(self.good("hash", "get", self.db, "t", "k"), "hi\n")
        self.put(self.db, "t", "", "")
        self.assertEqual(self.good("hash", "get", self.db, "t", ""), "\n")
        for wrong in ("0", "zz", "00 "):
            self.assertIn("not hexadecimal",
                          self.bad("hash", "get", "--hex", self.db, "t", wrong))
        self.assertIn("not hexadecimal",
                      self.bad("hash", "put", "--hex", self.db, "t", "6b", text="686"))

    def test_json(self):
        self.put(self.db, "t", "k", "v")
        self.assertEqual(json.loads(self.good("hash", "get", "--json", self.db, "t", "k")),
                         {"key": "k", "value": "v"})
        self.assertEqual(json.loads(self.good("hash", "get", "--json", self.db, "t", "x", code=1)),
                         {"value": None})
        self.assertEqual(json.loads(self.good("hash", "scan", "--json", "--hex", self.db, "t")),
                         {"key": "6b", "value": "76"})

    def test_sizes(self):
        self.put("--key-size", 4, "--value-size", "2", self.db, "t", "four", "ab")
        self.assertEqual(self.dumped(),
                         dump(structure("hash", "t", [("four", "ab")], key=4, value=2)))
        for args in (["put", self.db, "t", "five5", "ab"], ["put", self.db, "t", "four", "abc"],
                     ["get", self.db, "t", "five5"], ["del", self.db, "t", "x"]):
            self.assertIn("LLADD_KEY_SIZE", self.bad("hash", *args))
        self.assertIn("LLADD_KEY_SIZE",
                      self.bad("hash", "put", "--create", "--key-size", 9999, self.db, "u", "k",
                               "v"))
        self.assertIn("not a number", self.bad("hash", "put", "--key-size", "x", self.db, "u"))
        # The command that was refused has not made the structure.
        self.assertIn("LLADD_NOT_FOUND", self.bad("hash", "scan", self.db, "u"))

    def test_no_table(self):
        self.assertIn("not a directory", self.bad("hash", "get", self.db, "t", "k"))
        self.bad("hash", "put", self.db, "t", "k", "v")
        self.assertFalse(os.path.exists(self.db))
        self.load(dump(PARTS[0]))
        self.assertIn("LLADD_NOT_FOUND", self.bad("hash", "put", self.db, "t", "k", "v"))
        self.assertIn("LLADD_NOT_FOUND", self.bad("hash", "del", self.db, "t", "k"))
        self.assertIn("LLADD_WRONG_TYPE", self.bad("hash", "get", self.db, "numbers", "k"))
        self.assertIn("LLADD_WRONG_TYPE", self.bad("hash", "put", "--create", self.db, "numbers",
                                                   "k", "v"))

    def test_command_line(self):
        self.assertIn("get, put, del or scan", self.bad("hash"))
        self.assertIn('not "fetch"', self.bad("hash", "fetch", self.db))
        self.assertIn("an argument is missing", self.bad("hash", "get", self.db, "t"))
        self.assertIn("expected a directory", self.bad("hash", "scan"))
        self.assertIn("too many", self.bad("hash", "del", self.db, "t", "k", "v"))
        self.assertEqual(self.good("hash", "--help"), self.good("hash", "get", "--help"))
        self.assertIn("expected get, put, del or scan", self.bad("hash", "--json", self.db))


class InDoubt(Case):
    def test_a_managed_table_is_checked_all_the_same(self):
        """The transaction in doubt keeps the table open, which is not a fault."""
        subprocess.run([MAKE_DB, "--doubt", self.db], check=True)
        self.assertTrue(self.good("verify", self.db).endswith("\nno damage\n"))

    def test_a_managed_table_that_is_being_made_is_no_damage(self):
        """The existence of the table is in doubt, too, so the table is reported as not checked."""
        subprocess.run([MAKE_DB, "--doubt-makes", self.db], check=True)
        out = self.good("verify", self.db, code=3)
        self.assertRegex(out, r'note    pages, page \d+: managed dTable "more" cannot be checked '
                              r'here: tag "managed:more" is being changed\n')
        self.assertTrue(out.endswith("\nno damage\n"))

    def test_a_managed_table_that_is_being_dropped_is_no_damage(self):
        subprocess.run([MAKE_DB, "--doubt-drops", self.db], check=True)
        self.assertTrue(self.good("verify", self.db).endswith("\nno damage\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
