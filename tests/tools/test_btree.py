#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd btree, and B+trees in a dump: test_btree.py <lladd>.

Every verb, in text, hexadecimal and JSON; wrong command lines; damaged nodes, a node of a newer
format; loads in one transaction and in many."""
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

LLADD = sys.argv[1]
SAMPLES = int(os.environ.get("LLADD_TEST_SAMPLES", "60"))
PAGE = 4096


def run(*args, text=""):
    done = subprocess.run([LLADD, *map(str, args)], input=text.encode("latin-1"),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")


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

    def sound(self, words):
        out = self.good("verify", self.db)
        self.assertIn("\nno damage\n", out)
        self.assertIn(words, out)


class Verbs(Case):
    def put(self, *args, text=""):
        self.assertEqual(self.good("btree", "put", "--create", *args, text=text), "")

    def test_one_key(self):
        self.put(self.db, "t", "alice", "17")
        self.assertEqual(self.good("btree", "get", self.db, "t", "alice"), "17\n")
        self.put(self.db, "t", "alice", "18")
        self.assertEqual(self.good("btree", "get", self.db, "t", "alice"), "18\n")
        self.assertEqual(self.good("btree", "get", self.db, "t", "bob", code=1), "")
        self.assertEqual(self.good("btree", "del", self.db, "t", "bob", code=1), "")
        self.assertEqual(self.good("btree", "del", self.db, "t", "alice"), "")
        self.assertEqual(self.good("btree", "scan", self.db, "t"), "")
        self.assertEqual(self.good("btree", "check", self.db, "t"), "no damage\n")
        self.sound("1 B+tree")

    def test_create(self):
        self.good("btree", "create", "--key-size", 4, self.db, "t")
        self.assertIn("LLADD_EXISTS", self.bad("btree", "create", self.db, "t"))
        self.assertIn("LLADD_KEY_SIZE",
                      self.bad("btree", "create", "--key-size", 994, self.db, "u"))
        self.assertIn("LLADD_KEY_SIZE",
                      self.bad("btree", "create", "--value-size", 1001, self.db, "u"))
        self.assertIn("in this tree they have 4", self.bad("btree", "put", self.db, "t", "k", "v"))
        self.good("btree", "put", self.db, "t", "four", "v" * 5000)
        self.assertEqual(self.good("btree", "get", self.db, "t", "four"), "v" * 5000 + "\n")
        stat = json.loads(self.good("btree", "stat", "--json", self.db, "t"))
        self.assertEqual((stat["rows"], stat["blobs"], stat["levels"], stat["key_size"]),
                         (1, 1, 1, 4))
        self.assertIn("bytes of a value       any\n", self.good("btree", "stat", self.db, "t"))
        self.sound("1 B+tree")

    def test_a_key_that_is_too_long(self):
        self.put(self.db, "t", "k" * 993, "v")
        for args in (["put", "k" * 994, "v"], ["get", "k" * 994], ["del", "k" * 994]):
            err = self.bad("btree", args[0], self.db, "t", *args[1:])
            self.assertIn("a key of 994 bytes: in this database they have at most 993", err)
            self.assertIn("LLADD_TOO_LARGE", err)
        text = dump(structure("btree", "u", [("k" * 994, "v")], key=0, value=0))
        for options in ([], ["--batch", 1]):
            self.assertIn("line 3: a key of 994 bytes",
                          self.bad("load", *options, self.db, text=text))
        self.sound("1 B+tree")

    def test_bytes(self):
        self.put("--hex", self.db, "t", "00ff22", "0a5C")
        self.assertEqual(self.good("btree", "get", "--hex", self.db, "t", "00FF22"), "0a5c\n")
        self.assertEqual(self.good("btree", "scan", self.db, "t"), '"\\x00\\xff\\"" "\\x0a\\\\"\n')
        self.assertEqual(self.good("btree", "scan", "--hex", self.db, "t"), "00ff22 0a5c\n")
        self.put(self.db, "t", "", text="from\nthe\xff input\0")
        self.assertEqual(self.good("btree", "get", self.db, "t", ""), "from\nthe\xff input\0\n")
        for args in (["get", "--hex", self.db, "t", "0"], ["scan", "--hex", "--from", "x", self.db,
                                                           "t"]):
            self.assertIn("not hexadecimal", self.bad("btree", *args))

    def test_json(self):
        self.put(self.db, "t", "k", "v")
        self.assertEqual(json.loads(self.good("btree", "get", "--json", self.db, "t", "k")),
                         {"key": "k", "value": "v"})
        self.assertEqual(json.loads(self.good("btree", "get", "--json", self.db, "t", "x", code=1)),
                         {"value": None})
        self.assertEqual(json.loads(self.good("btree", "scan", "--json", "--hex", self.db, "t")),
                         {"key": "6b", "value": "76"})
        self.assertEqual(json.loads(self.good("btree", "check", "--json", self.db, "t")),
                         {"damaged": False})
        self.assertEqual(json.loads(self.good("dump", "--json", self.db).splitlines()[0]),
                         {"structure": "btree", "name": "t", "count": 1, "key_size": 0,
                          "value_size": 0})

    def test_scan(self):
        keys = ["%03d" % i for i in range(500)]
        self.load(dump(structure("btree", "t", [(k, "v" * 40) for k in keys], key=3, value=40)))

        def scan(*options):
            out = self.good("btree", "scan", *options, self.db, "t")
            return [line.split()[0].strip('"') for line in out.splitlines()]

        self.assertEqual(scan(), keys)
        self.assertEqual(scan("--reverse"), keys[::-1])
        self.assertEqual(scan("--limit", 7), keys[:7])
        self.assertEqual(scan("--limit", 0), [])
        self.assertEqual(scan("--reverse", "--limit", 300), keys[:199:-1])
        self.assertEqual(scan("--from", "100", "--to", "130"), keys[100:130])
        self.assertEqual(scan("--from", "1000", "--to", "102"), ["101"])
        self.assertEqual(scan("--from", "45", "--reverse"), keys[:449:-1])
        self.assertEqual(scan("--from", "45", "--to", "45x"), keys[450:460])
        self.assertEqual(scan("--to", "002"), keys[:2])
        self.assertEqual(scan("--from", "2", "--to", "1"), [])
        self.assertEqual(scan("--from", "9"), [])
        self.assertIn("not a number", self.bad("btree", "scan", "--limit", "x", self.db, "t"))

    def test_no_tree(self):
        self.assertIn("not a directory", self.bad("btree", "get", self.db, "t", "k"))
        self.bad("btree", "put", self.db, "t", "k", "v")
        self.assertFalse(os.path.exists(self.db))
        self.load(dump(structure("list", "l", ["x"])))
        for args in (["put", self.db, "t", "k", "v"], ["del", self.db, "t", "k"],
                     ["scan", self.db, "t"], ["stat", self.db, "t"], ["check", self.db, "t"]):
            self.assertIn("LLADD_NOT_FOUND", self.bad("btree", *args))
        self.assertIn("LLADD_WRONG_TYPE", self.bad("btree", "get", self.db, "l", "k"))
        self.assertIn("LLADD_WRONG_TYPE", self.bad("btree", "put", "--create", self.db, "l", "k",
                                                   "v"))

    def test_command_line(self):
        verbs = "create, get, put, del, scan, stat or check"
        self.assertIn(verbs, self.bad("btree"))
        self.assertIn('not "fetch"', self.bad("btree", "fetch", self.db))
        self.assertIn("an argument is missing", self.bad("btree", "get", self.db, "t"))
        self.assertIn("expected a directory", self.bad("btree", "scan"))
        self.assertIn("too many", self.bad("btree", "del", self.db, "t", "k", "v"))
        self.assertIn("too many", self.bad("btree", "scan", self.db, "t", "k"))
        self.assertEqual(self.good("btree", "--help"), self.good("btree", "scan", "--help"))
        self.assertIn("expected " + verbs, self.bad("btree", "--json", self.db))


class DumpAndLoad(Case):
    PAIRS = [("key %05d" % i, "v" * (i % 300)) for i in range(3000)]

    def test_load_restores_what_dump_wrote(self):
        text = dump(structure("btree", "empty", [], key=0, value=7),
                    structure("btree", "fixed", [("%04d" % i, "12") for i in range(2000)], key=4,
                              value=2),
                    structure("btree", "long", [("a", "x" * 90000), ("b", "")], key=0, value=0),
                    structure("btree", "t", self.PAIRS, key=0, value=0))
        for options in ([], ["--replace"], ["--replace", "--batch", 70]):
            self.load(text, *options)
            self.assertEqual(self.good("dump", self.db), text)
            self.sound("structures: 4 B+trees\n")
        self.good("btree", "put", self.db, "t", "key 01000x", "more")
        self.good("btree", "put", self.db, "empty", "k", "7 bytes")
        self.sound("structures: 4 B+trees\n")

    def test_packed(self):
        self.load(dump(structure("btree", "t", [("%08d" % i, "12345678") for i in range(9000)],
                                 key=8, value=8)))
        stat = json.loads(self.good("btree", "stat", "--json", self.db, "t"))
        self.assertEqual((stat["rows"], stat["levels"], stat["spare"]), (9000, 2, 0))
        self.assertLess(stat["leaves"], 9000 / 140)

    def test_wrong_rows(self):
        old = dump(structure("list", "old", ["stays"]))
        self.load(old)
        for pairs, words in (([("a", "1"), ("a", "2")], "line 4: the key occurs twice"),
                             ([("b", ""), ("a", "")], "line 4: the keys of a B+tree must ascend"),
                             ([("ab", ""), ("a", "")], "line 4: the keys of a B+tree must ascend")):
            text = dump(structure("btree", "t", pairs, key=0, value=0))
            for options in ([], ["--batch", 1], ["--batch", 9]):
                self.assertIn(words, self.bad("load", *options, self.db, text=text))
                self.assertEqual(self.good("dump", self.db), old)
        whole = dump(structure("btree", "t", self.PAIRS[:90], key=0, value=0))
        for n in range(20, len(whole), 701):
            self.bad("load", self.db, text=whole[:n])
            self.bad("load", "--batch", 5, self.db, text=whole[:n])
            self.assertEqual(self.good("dump", self.db), old)
        for key, value in ((9999, 0), (0, 1001), (4294967296, 0)):
            text = dump(structure("btree", "t", [], key=key, value=value))
            self.assertIn("LLADD_KEY_SIZE", self.bad("load", self.db, text=text))
        self.sound("structures: 1 list\n")


class Damage(Case):
    """Pages with a right checksum and wrong contents."""

    def setUp(self):
        super().setUp()
        self.pairs = [("key %05d" % i, "value %05d" % i) for i in range(3000)]
        self.text = dump(structure("btree", "t", self.pairs, key=0, value=0))
        self.load(self.text)
        uuid = json.loads(self.good("stat", "--json", self.db))["uuid"].replace("-", "")
        self.salt = crc32c(bytes.fromhex(uuid))
        with open(os.path.join(self.db, "pages"), "rb") as file:
            self.pages = file.read()

    def page_with(self, text):
        return self.pages.index(text.encode()) // PAGE

    def write(self, number, page):
        page = bytes(4) + page[4:]
        seed = crc32c(struct.pack("<IQ", self.salt, number))
        page = crc32c(page[4:], seed).to_bytes(4, "little") + page[4:]
        with open(os.path.join(self.db, "pages"), "r+b") as file:
            file.seek(number * PAGE)
            file.write(page)

    def change(self, number, at, value):
        page = bytearray(self.pages[number * PAGE:][:PAGE])
        page[at:at + len(value)] = value
        self.write(number, bytes(page))

    def test_a_damaged_leaf(self):
        leaf = self.page_with("value 01500")
        self.change(leaf, 46, b"\xff\xff")
        words = f"page {leaf}: is not a valid node of a B+tree"
        self.assertIn(words, self.bad("btree", "check", self.db, "t", code=1))
        self.assertIn(words, self.bad("btree", "get", self.db, "t", "key 01500", code=1))
        self.assertIn(words, self.bad("btree", "put", self.db, "t", "key 01500", "x", code=1))
        self.assertIn(words, self.bad("btree", "scan", self.db, "t", code=1))
        self.assertIn(words, self.bad("btree", "stat", self.db, "t", code=1))
        self.assertEqual(self.good("btree", "get", self.db, "t", "key 00001"), "value 00001\n")
        self.assertIn(f"page {leaf}", self.good("verify", self.db, code=1))
        self.assertIn(words, self.bad("dump", self.db, code=1))
        code, out, err = run("dump", "--salvage", self.db)
        self.assertEqual(code, 1)
        self.assertIn('"t": rows are left out: ' + words, err)
        left = [tuple(w.strip('"') for w in line.split('" "')) for line in out.splitlines()[2:-2]]
        self.assertTrue(2800 < len(left) < 3000)
        self.assertEqual([p for p in self.pairs if p in set(left)], left)
        self.assertEqual((left[0], left[-1]), (self.pairs[0], self.pairs[-1]))
        self.db += ".new"
        self.load(out)
        self.sound("1 B+tree")

    def test_a_newer_root(self):
        leaf = self.page_with("value 00000")
        number = int.from_bytes(self.pages[leaf * PAGE + 32:][:6], "little")
        self.change(number, 32, b"\x02")
        for verb in (["get", self.db, "t", "k"], ["scan", self.db, "t"], ["check", self.db, "t"],
                     ["put", self.db, "t", "k", "v"]):
            err = self.bad("btree", *verb, code=2)
            self.assertIn("layout 2", err)
            self.assertIn("LLADD_NEWER_FORMAT", err)
        self.write(number, self.pages[number * PAGE:][:PAGE])
        self.assertEqual(self.good("dump", self.db), self.text)

    def test_page(self):
        leaf = self.page_with("value 01500")
        root, right = (int.from_bytes(self.pages[leaf * PAGE + at:][:6], "little")
                       for at in (32, 40))
        out = self.good("page", self.db, root)
        self.assertIn("type        lladd.btree@1", out)
        self.assertIn("keys of 0 bytes, values of 0 (0: any)\n", out)
        top = re.search(r"top node (\d+), level 1, spare page 0\n +0 free pages", out).group(1)
        out = self.good("page", self.db, leaf)
        self.assertIn("type        lladd.btree.node@1", out)
        self.assertIn(f"root {root}, level 0, right {right}, spare 0\n", out)
        self.assertIn("0 ghosts, common prefix", out)
        self.assertRegex(out, rf"\d+: key 9 {b'key 01500'.hex()}, value 11\n")
        self.assertRegex(self.good("page", self.db, top), rf"key .*, child {leaf}\n")

    def test_verify_checks_each_tree(self):
        """The right link of a leaf of the second tree leads to a leaf of the first tree."""
        self.load(dump(structure("btree", "u", [("u%05d" % i, "other %05d" % i)
                                                for i in range(3000)], key=0, value=0)))
        with open(os.path.join(self.db, "pages"), "rb") as file:
            self.pages = file.read()
        self.sound("2 B+trees")
        other = self.page_with("value 01500")
        self.change(self.page_with("other 01500"), 40, other.to_bytes(6, "little"))
        out = self.good("verify", self.db, code=1)
        self.assertIn(f'btree "u": page {other}: is not a valid node of its B+tree\n', out)
        self.assertNotIn('"t": ', out)
        self.assertEqual(self.good("btree", "check", self.db, "t"), "no damage\n")
        self.bad("btree", "check", self.db, "u", code=1)

    def test_sample(self):
        dice = random.Random(4)
        used = [n for n in range(2, len(self.pages) // PAGE)
                if any(self.pages[n * PAGE:][:PAGE])]
        ends = set()
        for turn in range(SAMPLES):
            number = used[turn % len(used)]
            page = bytearray(self.pages[number * PAGE:][:PAGE])
            for _ in range(dice.choice([1, 1, 2, 8])):
                at = dice.choice([dice.randrange(32, 128), dice.randrange(32, PAGE)])
                page[at] = dice.choice([0, 1, 255, page[at] ^ 1 << dice.randrange(8)])
            self.write(number, bytes(page))
            for args in (["verify", self.db], ["dump", "--salvage", self.db],
                         ["btree", "check", self.db, "t"], ["btree", "get", self.db, "t", "key 01"],
                         ["btree", "scan", "--reverse", self.db, "t"],
                         ["page", self.db, str(number)]):
                code, _, err = run(*args)
                self.assertIn(code, (0, 1, 2), f"{args} turn {turn} page {number}: {err}")
                self.assertNotIn("Sanitizer", err)
                ends.add((args[0], args[1], code))
            self.write(number, self.pages[number * PAGE:][:PAGE])
        self.sound("1 B+tree")
        self.assertIn(("verify", self.db, 1), ends)
        self.assertIn(("btree", "check", 1), ends)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
