#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The lladd command as its users run it: test_tools.py <lladd> <make_db> <plugin.so>.

Tests the output for databases in every state, as text and as JSON, and the exit codes. Reading
changes nothing. Damage anywhere is reported in the right file, and the command continues. A
database in use is not reported as damaged. make_db.c makes the databases, always the same."""
import fcntl
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

LLADD, MAKE_DB, PLUGIN = sys.argv[1:4]
TIME = "2009-02-13 23:31:30 UTC"
GID1, GID2 = "7:6f726465722d31:6231", "7:6f726465722d32:6231"
LOOKING = ["stat", "log", "verify", "ops", "in-doubt"]
MORE = ["page", "recover", "resolve", "dump", "load", "hash", "dtable", "backup", "restore",
        "archive"]


def run(*args, stdout=subprocess.PIPE):
    done = subprocess.run([LLADD, *map(str, args)], stdout=stdout, stderr=subprocess.PIPE,
                          errors="surrogateescape")
    return done.returncode, done.stdout, done.stderr


def numbers_out(text):
    """Replaces every number by N, and every sequence of blanks by one."""
    return re.sub(r" +", " ", re.sub(r"\b(?:[0-9a-f]{8,16}|\d+(?:\.\d+)?)\b", "N", text))


def tree(folder):
    """A hash of all files in a directory."""
    seen = hashlib.sha256()
    for base, below, names in sorted(os.walk(folder)):
        below.sort()
        for name in sorted(names):
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                seen.update(os.path.relpath(path, folder).encode() + b"\0" + file.read() + b"\0")
    return seen.hexdigest()


class Made:
    """One database of each kind, made once. Tests that change a database change a copy."""

    def __init__(self, folder):
        self.folder = folder
        self.where = {}
        for kind in ("clean", "crashed", "prepared", "pinned", "long", "negative"):
            said = subprocess.run([MAKE_DB, kind, self.path(kind)], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout
            self.where[kind] = dict((a, int(b)) for a, b in map(str.split, said.splitlines()))

    def path(self, kind):
        return os.path.join(self.folder, kind)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.made = Made(cls.temporary.name)
        cls.copies = 0

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def copy(self, kind):
        type(self).copies += 1
        to = os.path.join(self.temporary.name, f"copy{self.copies}")
        shutil.copytree(self.made.path(kind), to)
        return to

    def good(self, *args, code=0):
        """Runs the command, which must succeed, and returns its standard output."""
        got, out, err = run(*args)
        self.assertEqual(got, code, f"lladd {args}: {out}{err}")
        return out

    def bad(self, *args, code):
        """Runs the command, which must fail, and returns its standard error."""
        got, out, err = run(*args)
        self.assertEqual(got, code, f"lladd {args}: {out}{err}")
        return err

    def json(self, *args, code=0):
        return json.loads(self.good(*args, "--json", code=code))

    def lines(self, *args, code=0):
        out = self.good("log", *args, "--json", code=code)
        return [json.loads(line) for line in out.splitlines()]


class CommandLine(Case):
    def test_help(self):
        out = self.good("--help")
        for verb in LOOKING + MORE:
            self.assertIn(f"\n  {verb} ", out)
            said = self.good(verb, "--help")
            self.assertTrue(said.startswith(f"usage: lladd {verb} "), said)
            self.assertIn("Exit status", said)
            self.assertEqual(said, self.good("help", verb))
            self.assertLessEqual(max(map(len, said.splitlines())), 100)
        self.assertEqual(out, self.good("help"))
        self.assertEqual(out, self.good("-h"))
        self.assertEqual(self.good("stat", "--help"), self.good("stat", "-h"))
        self.assertRegex(self.good("--version"), r"^lladd \d+\.\d+\.\d+\n$")

    def test_manual(self):
        """Every verb, option and kind of record is in the manual."""
        here = os.path.dirname(os.path.abspath(__file__))
        path = os.path.join(here, "..", "..", "docs", "man", "lladd.1")
        with open(path, encoding="ascii") as file:
            manual = file.read().replace("\\-", "-")
        for verb in LOOKING + MORE:
            self.assertIn(f".B lladd {verb}\n", manual)
            self.assertIn(f".TP\n.B {verb}\n", manual)
            for option in re.findall(r"--[a-z-]+", self.good(verb, "--help")):
                self.assertIn(option, manual, verb)
        for kind in {r["kind"] for r in self.lines(self.made.path("crashed"))[:-1]}:
            self.assertRegex(manual, rf"[\" ]{kind}[\" \n]")

    def test_mistakes(self):
        clean = self.made.path("clean")
        self.assertIn("no verb \"frobnicate\"", self.bad("frobnicate", code=2))
        self.assertIn("usage:", self.bad(code=2))
        self.assertIn("expected a directory", self.bad("stat", code=2))
        self.assertIn("too many arguments", self.bad("stat", clean, clean, code=2))
        self.assertIn("an argument is missing", self.bad("page", clean, code=2))
        self.assertIn("\"x\" is not a number", self.bad("page", clean, "x", code=2))
        self.assertIn("\"-1\" is not a number", self.bad("page", clean, "--", "-1", code=2))
        self.assertIn("--help", self.bad("stat", "--frobnicate", clean, code=2))
        self.assertIn("not a number", self.bad("log", "--txn", "abc", clean, code=2))
        self.assertIn("no kind of record \"dates\"",
                      self.bad("log", "--kind", "dates", clean, code=2))
        self.assertIn("cannot load", self.bad("stat", "--ops", "/nowhere.so", clean, code=2))
        self.assertIn("--commit, --abort or", self.bad("resolve", clean, GID1, code=2))
        self.assertIn("--commit, --abort or",
                      self.bad("resolve", "--commit", "--abort", clean, GID1, code=2))
        for number in ("", " 5", "+5", "0x", "1e3", "5x", str(2**64)):
            self.assertIn("is not a number", self.bad("log", "--from", number, clean, code=2))
        self.assertIn("lladd page: invalid option", self.bad("page", clean, "-1", code=2))
        self.assertIn("not a global id", self.bad("resolve", "--commit", clean, "xyz", code=2))

    def test_no_database(self):
        empty = tempfile.mkdtemp(dir=self.temporary.name)
        for verb in LOOKING:
            self.assertIn("no database", self.bad(verb, empty, code=2))
            self.assertIn("not a directory", self.bad(verb, empty + "/nowhere", code=2))
            said = self.json(verb, empty, code=2)["error"]
            self.assertEqual(said["code"], "LLADD_NOT_A_DATABASE")
        self.assertIn("no database", self.bad("recover", empty, code=2))
        self.assertIn("no database", self.bad("resolve", "--abort", empty, GID1, code=2))
        self.assertEqual(os.listdir(empty), [])
        self.bad("recover", empty + "/nowhere", code=2)
        self.assertFalse(os.path.exists(empty + "/nowhere"))

    def test_output_that_cannot_be_written(self):
        with open("/dev/full", "w") as full:
            for verb in LOOKING:
                code, _, err = run(verb, self.made.path("clean"), stdout=full)
                self.assertEqual(code, 2)
                self.assertIn("cannot write", err)


class Looking(Case):
    def test_stat_clean(self):
        out = self.good("stat", self.made.path("clean"))
        out = re.sub(r"(  log/\S+ +\S+ KiB\n)+", r"\1", out)  # their number varies
        self.assertEqual(numbers_out(out.split("\n", 1)[1]), """\
 uuid N-N-N-N-8899aabbccddeeff
 created N-N-N N:N:N UTC
 state closed cleanly
 page size N bytes

Files
 control N KiB
 dwb N KiB
 lock N bytes
 log/N.seg N KiB
 pages N KiB N pages of N bytes

Log
 readable LSN N to N, N KiB in N segments
 its end closed cleanly at LSN N ("log/N.seg", byte N)
 checkpoint LSN N; redo starts at N
 known durable below LSN N

Next open
 nothing to recover

What keeps the log, the oldest LSN first
 LSN age
 N N KiB checkpoint
 - ? class test.memory (only the application knows what it needs)
""".replace("N-N-N-N-8899aabbccddeeff", numbers_out("00112233-4455-6677-8899-aabbccddeeff")))
        self.assertIn(TIME, out)

    def test_stat_crashed(self):
        where = self.made.where["crashed"]
        out = self.good("stat", self.made.path("crashed"))
        self.assertIn("not closed cleanly: the next open recovers it", out)
        self.assertRegex(out, r"redo +\d+ records, .*; 6 about 3 pages\n")
        self.assertRegex(out, r"undo +2 transactions, ")
        self.assertRegex(out, r"in doubt +1 prepared transaction\n")
        self.assertRegex(out, rf"\n +{where['active']} +\d+ +1  active\n")
        self.assertIn(f"prepared {TIME}, gid {GID1}, owner the till", out)
        self.assertRegex(out, rf"\n +{where['active']} +\d+ bytes  transaction {where['active']}\n")
        self.assertIn(f" bytes  prepared {where['prepared']}, gid {GID1}\n", out)
        s = self.json("stat", self.made.path("crashed"))
        self.assertEqual((s["clean"], s["in_use"], s["log"]["end_kind"]), (False, False, "open"))
        self.assertEqual(s["next_open"]["losers"], 2)
        self.assertEqual([t["id"] for t in s["transactions"] if t["prepared"]], [where["prepared"]])
        self.assertEqual(s["pinners"][0], {"kind": "checkpoint", "lsn": s["log"]["redo"],
                                           "age_bytes": s["log"]["end"] - s["log"]["redo"]})

    def test_stat_foreign_file(self):
        db = self.copy("clean")
        os.mkfifo(db + "/pipe")
        self.assertNotIn("pipe", self.good("stat", db))
        self.good("verify", db, code=3)

    def test_stat_pinned(self):
        pinned = self.made.where["pinned"]["aborted"]
        out = self.good("stat", self.made.path("pinned"))
        self.assertRegex(out, rf"LSN +age\n +{pinned} .* pin \"backup\"\n")

    def test_journal(self):
        """stat names what keeps the log. A database with a journal has no damaged structure."""
        db = self.made.path("journal")
        subprocess.run([MAKE_DB, "--journal", db], check=True)
        before = tree(db)
        out = self.good("stat", db)
        self.assertIn(" class journal, see below\n", out)
        self.assertRegex(out, r"\nWhat is live in the journal\n +from LSN +entries +bytes +tag\n"
                         r"( +\d+ .*\n){2}$")
        self.assertRegex(out, r"\n +\d+ +5 +500 bytes  \"orders\" of \"shop\"\n")
        self.assertRegex(out, r"\n +\d+ +7 +700 bytes  \"bulk\" of \"shop\"\n")
        tags = {row["name"]: row for row in self.json("stat", db)["journal"]}
        self.assertEqual([tags["orders"]["entries"], tags["bulk"]["bytes"]], [5, 700])
        self.assertLess(tags["orders"]["oldest"], tags["bulk"]["oldest"])
        self.assertEqual(tree(db), before)
        self.assertNotIn("journal", self.json("stat", self.made.path("clean")))
        self.good("verify", db)
        self.good("recover", db)
        self.good("verify", db)
        page = os.path.join(db, "pages")
        with open(page, "r+b") as file:
            file.truncate(4096)
        self.assertIn("  cannot be listed: ", self.good("stat", db))
        self.assertIn("error", self.json("stat", db)["journal"])

    def test_run(self):
        """A sorted run is a structure: checked, with pages of its own, and left out of dumps."""
        db = self.made.path("run")
        subprocess.run([MAKE_DB, "--run", db], check=True)
        self.assertIn("\nstructures: 1 run\n", self.good("verify", db))
        self.assertEqual(self.json("verify", db)["structures"]["runs"], 1)
        self.assertNotIn("rows", self.good("dump", db))
        self.assertIn("is not an array, hash table", self.bad("dump", db, "rows", code=2))
        page = os.path.join(db, "pages")
        with open(page, "r+b") as file:
            at = file.read().index(b"the valuethe value")
            file.seek(at)
            file.write(b"X")
        out = self.good("verify", db, code=1)
        self.assertRegex(out, r"damage +pages, page \d+: run \"rows\": .*stream values")

    def test_log(self):
        out = self.good("log", self.made.path("crashed"))
        what = [re.sub(r"^ *\d+ +\d+ +\S+ +\S+ +\d+ ", "", line) for line in out.splitlines()]
        self.assertRegex(what[0], r"^ *LSN +size +txn +prev +d kind +page +operation and fields$")
        self.assertIn("update                  2  test.tally@3 delta=5 why=\"first\" | "
                      "undo delta=5", what)
        self.assertIn("update                  2  lladd.set@1 offset=64 bytes=68656c6c6f | undo "
                      "offset=64 bytes=0000000000", what)
        self.assertIn("note                    -  test.note@1 bytes=\"mind the gap\"", what)
        self.assertIn(f"prepare                 -  gid={GID1} prepared_us=1234567890123456 "
                      "owner=\"the till\"", what)
        tail = [line.split()[0] for line in what[-9:-1]]
        self.assertEqual(tail, "update update prepare seal update update commit seal".split())
        self.assertTrue(what[-1].startswith("end of the log: nothing follows LSN "))

    def test_log_filters(self):
        db, where = self.made.path("clean"), self.made.where["clean"]
        every = self.lines(db)
        self.assertEqual(list(every[-1]), ["end"])
        every = every[:-1]
        self.assertEqual(sorted(r["lsn"] for r in every), [r["lsn"] for r in every])
        for options, fits in (
                (["--txn", where["aborted"]], lambda r: r.get("txn") == where["aborted"]),
                (["--page", where["bytes"]], lambda r: r.get("page") == where["bytes"]),
                (["--op", "test.tally"], lambda r: r.get("op") == "test.tally"),
                (["--kind", "clr"], lambda r: r["kind"] == "clr"),
                (["--from", where["aborted"]], lambda r: r["lsn"] >= where["aborted"]),
                (["--to", where["aborted"]], lambda r: r["lsn"] < where["aborted"]),
                (["--kind", "update", "--op", "lladd.set"],
                 lambda r: r["kind"] == "update" and r.get("op") == "lladd.set")):
            got = self.lines(*options, db)
            self.assertEqual(got[:-1], [r for r in every if fits(r)], options)
            self.assertGreater(len(got), 1, options)
        self.assertEqual(self.lines("--last", 3, db)[:-1], every[-3:])
        self.assertEqual(self.lines("--from", hex(where["aborted"]), db),
                         self.lines("--from", where["aborted"], db))
        self.assertEqual(self.lines("--from", "0" + str(where["aborted"]), db),
                         self.lines("--from", where["aborted"], db))
        for beyond in (every[-1]["lsn"] + 1, 2**48, 2**63, 2**64 - 8, 2**64 - 1):
            self.assertEqual(self.lines("--from", beyond, db)[:-1], [])
            self.assertEqual(self.lines("--to", beyond, db)[:-1], every)
        self.assertEqual(self.good("log", "--to", 0, db).count("\n"), 1)
        self.assertEqual(self.lines("--last", 0, db)[:-1], [])
        self.assertEqual(self.lines("--last", 2, "--kind", "clr", db)[:-1],
                         [r for r in every if r["kind"] == "clr"][-2:])
        tally = [r for r in every if r.get("op") == "test.tally" and r["kind"] == "update"]
        self.assertEqual(tally[0]["redo"], {"delta": 5, "why": "first"})
        self.assertEqual(tally[0]["undo"], {"delta": 5})
        self.assertEqual(tally[0]["version"], 3)
        self.assertIn("undo-page", tally[0]["flags"])

    def test_log_statistics(self):
        db = self.made.path("clean")
        every = self.lines(db)[:-1]
        rows = self.lines("--stats", db)[:-1]
        self.assertEqual(sum(r["records"] for r in rows), len(every))
        self.assertEqual(sum(r["bytes"] for r in rows), sum(r["size"] for r in every))
        self.assertEqual([r["records"] for r in rows if r.get("op") == "test.tally"
                          and r["kind"] == "clr"], [1])
        self.assertRegex(self.good("log", "--stats", db), r"records +bytes +mean +share +kind")

    def test_log_bytes(self):
        db = self.made.path("clean")
        out = self.good("log", "--bytes", "--op", "test.tally", "--last", 2, db)
        self.assertIn("61 20 6d 69 73 74 61 6b  ........a mistak", out)
        self.assertIn("    undo, 8 bytes\n", out)
        out = self.good("log", "--op", "lladd.slotted.alloc", self.made.path("clean"))
        self.assertIn("length=300 bytes=\"" + 71 * "z" + "...\" | undo slot=", out)
        out = self.good("log", "--bytes", "--op", "lladd.slotted.alloc", self.made.path("clean"))
        self.assertIn("length=300 bytes=\"" + 300 * "z" + "\" | undo slot=", out)

    def test_page(self):
        db, where = self.made.path("clean"), self.made.where["clean"]
        out = self.good("page", db, where["slotted"])
        self.assertIn("type        lladd.slotted@1", out)
        self.assertIn("checksum    ", out)
        self.assertIn(", right\n", out)
        self.assertIn("use         allocated\n", out)
        self.assertIn("owner 77, ", out)
        out = self.good("page", db, where["bytes"])
        self.assertIn("68 65 6c 6c 6f 00", out)
        self.assertIn("hello...", out)
        self.assertIn("  *\n", out)
        self.assertIn("raw: in an extent", self.good("page", db, where["raw"]))
        self.assertIn("written in bulk", self.good("page", db, where["bulk"]))
        self.assertIn("the library's own", self.good("page", db, 0))
        self.assertIn("never formatted", self.good("page", db, 15))
        self.assertIn("there is no page 16", self.bad("page", db, 16, code=2))
        self.bad("page", db, 2**64 - 1, code=2)
        self.bad("page", db, 2**64, code=2)

    def test_page_history(self):
        db, where = self.made.path("clean"), self.made.where["clean"]
        out = self.good("page", "--history", db, where["bytes"])
        self.assertIn("page was", out)
        said = re.findall(r"^ *(\d+) +\d+ +\d+ +(\d+|-) +\d (\S+)", out, re.M)
        # The previous page LSN of each record is the LSN of the record before.
        self.assertGreater(len(said), 3)
        for before, after in zip(said, said[1:]):
            self.assertEqual(after[1], before[0])
        page = self.json("page", "--history", db, where["bytes"])
        self.assertEqual(page["lsn"], page["history"][-1]["lsn"])
        self.assertEqual(page["type"], "lladd.bytes")

    def test_page_newer(self):
        db, where = self.made.path("crashed"), self.made.where["crashed"]
        self.assertRegex(self.good("page", db, where["bytes"]),
                         r"newer +the log has 4 newer records about it, up to LSN \d+")

    def test_ops(self):
        db = self.made.path("long")
        out = self.good("ops", db)
        self.assertRegex(out, r"operation +- +\d+ +\d+  test\.tally@3  \(not known here\)\n"
                              r" +page: lladd\.bytes\n"
                              r" +redo: i64 delta, text why\n +undo: i64 delta\n")
        self.assertNotIn("not known here", self.good("ops", "--ops", PLUGIN, db))
        names = self.json("ops", self.made.path("clean"))["names"]
        self.assertEqual([n["number"] for n in names], list(range(1, len(names) + 1)))
        tally = [n for n in names if n["name"] == "test.tally"][0]
        self.assertEqual((tally["known"], tally["version"], tally["records"]), (False, 3, 3))
        self.assertEqual(tally["redo"], [{"name": "delta", "type": "i64"},
                                         {"name": "why", "type": "text"}])
        self.assertEqual(tally["page_type"], "lladd.bytes")
        self.assertEqual({n["page_type"] for n in names if n["name"] == "lladd.slotted.alloc"},
                         {"lladd.slotted"})
        record = self.lines("--kind", "catalogue", "--op", "test.tally",
                            self.made.path("clean"))[0]
        self.assertEqual(record["lsn"], tally["first"])

    def test_plugin_describes(self):
        out = self.good("log", "--ops", PLUGIN, "--op", "test.tally", self.made.path("clean"))
        self.assertIn("delta=5 why=\"first\" (tally +5)", out)

    def test_verify(self):
        for kind in self.made.where:
            out = self.good("verify", self.made.path(kind), code=3)
            self.assertRegex(out, r"^(note    .*\n)?"
                                  r"checked: \d+ records in \d+ log segments?, 16 pages \(.*\)\n"
                                  r"structures: .*\nno damage.*\n$")
            # Changes since the last checkpoint need the application's operations.
            if kind != "long":
                self.assertIn("structures: not checked: log needs ", out)
            self.assertEqual(out.endswith("\nno damage\n"), "not checked: log" not in out)
            # Only the application knows what is on a page of bytes. verify names the root of the
            # page, and its status says that something was not checked.
            said = self.json("verify", "--ops", PLUGIN, self.made.path(kind), code=3)
            self.assertEqual([(f["kind"], f["message"]) for f in said["findings"]],
                             [("note", 'root "bytes" does not lead to one of the library\'s '
                               'structures: it was not checked')])
            self.assertEqual(said["structures"]["other_roots"], 1)
            self.assertEqual(said["structures"]["not_checked"], 1)
            self.assertEqual(said["structures"]["unowned_pages"], 8)
            self.assertEqual(said["leaked_pages"], 0)
            self.assertEqual(said["checked"]["raw_pages"], 2)

    def test_structures_in_doubt(self):
        """Verbs that recover in memory (peek.c) see what transactions in doubt have changed."""
        for verb in ("dump", "verify"):
            for kind, doubts in (("crashed", "1 transaction"), ("prepared", "2 transactions")):
                self.assertIn(f"lladd {verb}: the changes of {doubts} in doubt are visible\n",
                              run(verb, "--ops", PLUGIN, self.made.path(kind))[2])
            self.assertNotIn("in doubt", run(verb, "--ops", PLUGIN, self.made.path("clean"))[2])

    def test_several_readers(self):
        """A verb that recovers in memory keeps out only verbs that would change the files."""
        db = self.copy("crashed")
        args = ["--ops", PLUGIN, db]
        with open(db + "/lock", "rb") as lock:
            fcntl.lockf(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as peek.c does
            for _ in range(2):
                self.good("dump", *args)
                self.assertNotIn("is in use", self.good("verify", *args, code=3))
            self.assertIn("LLADD_LOCKED", self.bad("recover", *args, code=2))
        self.good("recover", *args)

    def test_in_doubt(self):
        self.assertEqual(self.good("in-doubt", self.made.path("clean")),
                         "no transaction is in doubt\n")
        out = self.good("in-doubt", self.made.path("prepared")).splitlines()
        self.assertEqual([line.split()[-1] for line in out], ["id", GID1, GID2])
        self.assertTrue(out[1].startswith(TIME))
        self.assertIn("the till", out[1])
        rows = self.json("in-doubt", self.made.path("prepared"))["in_doubt"]
        self.assertEqual([row["gid"] for row in rows], [GID1, GID2])

    def test_name_that_is_no_text(self):
        db = self.copy("clean") + "\udcff"
        os.rename(db[:-1], db)
        self.assertEqual(self.json("stat", db)["directory"], {"hex": os.fsencode(db).hex()})
        self.assertIn("hex", self.json("stat", db + "x", code=2)["error"]["directory"])
        for verb in LOOKING:
            self.good(verb, "--json", db, code=3 if verb == "verify" else 0)

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_no_rights(self):
        db = self.copy("clean")
        os.chmod(db + "/pages", 0)
        self.assertIn("not everything could be read", self.bad("verify", db, code=2))
        os.chmod(db + "/control", 0)
        self.assertIn("Permission denied", self.bad("verify", db, code=2))

    def test_reading_verbs_change_nothing(self):
        for kind in self.made.where:
            db = self.made.path(kind)
            before = tree(db)
            for verb in LOOKING:
                self.good(verb, db, code=3 if verb == "verify" else 0)
                self.good(verb, "--json", db, code=3 if verb == "verify" else 0)
            self.good("page", "--history", "--bytes", db, 2)
            run("recover", "--dry-run", db)
            self.assertEqual(tree(db), before)


class Doing(Case):
    def test_dry_run(self):
        db, where = self.made.path("crashed"), self.made.where["crashed"]
        out = self.good("recover", "--dry-run", db, code=1)
        self.assertIn("MISSING: operation \"test.tally\" version 3; give it with --ops", out)
        out = self.good("recover", "--dry-run", "--ops", PLUGIN, db)
        self.assertNotIn("MISSING", out)
        self.assertIn("committed since the checkpoint: 1\nto be rolled back: 2\n"
                      f"  transaction {where['active']}, ", out)
        self.assertIn(f"in doubt: 1\n  transaction {where['prepared']}, gid {GID1}", out)
        self.assertIn("records for redo: 6, about 3 pages: 0..2\n", out)
        self.assertEqual(where["bytes"], 2)
        plan = self.json("recover", "--dry-run", "--ops", PLUGIN, db)
        self.assertEqual(plan["redo_pages"], [0, 1, 2])
        self.assertEqual((len(plan["winners"]), len(plan["losers"])), (1, 2))

    def test_recover(self):
        db = self.copy("crashed")
        plan = self.json("recover", "--dry-run", "--ops", PLUGIN, db)
        self.assertIn("log needs operation \"test.tally\" version 3",
                      self.bad("recover", db, code=2))
        # The open that failed held the lock for a moment, and left its process number in the lock
        # file.
        shutil.copy(self.made.path("crashed") + "/lock", db)
        self.assertEqual(tree(db), tree(self.made.path("crashed")))
        out = self.good("recover", "--ops", PLUGIN, db)
        self.assertIn("analysis: ", out)
        self.assertIn("2 transactions rolled back, 1 in doubt", out)
        for loser in plan["losers"]:
            self.assertIn(f"undone: transaction {loser['txn']}\n", out)
        self.assertIn("state           closed cleanly", self.good("stat", db))
        self.assertEqual(len(self.json("in-doubt", db)["in_doubt"]), 1)
        self.good("verify", db, code=3)
        again = self.json("recover", "--ops", PLUGIN, db)
        self.assertEqual((again["redone"], again["rolled_back"]), (0, 0))

    def test_resolve_heuristically(self):
        db = self.copy("prepared")
        self.assertEqual(
            self.good("resolve", "--ops", PLUGIN, "--abort", "--heuristic", db, GID1),
            f"aborted heuristically {GID1}\n")
        self.good("resolve", "--ops", PLUGIN, "--heuristic", "--commit", db, GID2)
        told = self.json("in-doubt", db)
        self.assertEqual(told["in_doubt"], [])
        self.assertEqual({(r["gid"], r["outcome"]) for r in told["heuristic"]},
                         {(GID1, "aborted"), (GID2, "committed")})
        out = self.good("in-doubt", db).splitlines()
        self.assertEqual(len(out), 3)
        self.assertIn("aborted", [line for line in out if GID1 in line][0])
        # A later resolve fails with the known outcome in its message, and changes nothing.
        self.assertIn("has aborted it",
                      self.bad("resolve", "--ops", PLUGIN, "--commit", db, GID1, code=1))
        self.good("verify", db, code=3)
        log = self.good("log", "--kind", "heuristic", db)
        self.assertIn("aborted by decision", log)
        self.assertEqual(self.good("resolve", "--ops", PLUGIN, "--forget", db, GID1),
                         f"forgotten {GID1}\n")
        self.bad("resolve", "--ops", PLUGIN, "--forget", db, GID1, code=1)
        self.bad("resolve", "--ops", PLUGIN, "--forget", "--heuristic", db, GID2, code=2)
        told = self.json("in-doubt", db)["heuristic"]
        self.assertEqual([r["gid"] for r in told], [GID2])

    def test_resolve_takes_ids_that_begin_with_a_minus(self):
        db = self.copy("prepared")
        least = "-9223372036854775808:00:"
        for args in (["--abort", db, least], ["--heuristic", "--abort", db, least],
                     [db, least, "--commit"], ["--forget", db, "-7:aa:bb"],
                     ["--abort", "--", db, least]):
            self.assertIn("under this", self.bad("resolve", "--ops", PLUGIN, *args, code=1))
        self.bad("resolve", "--abort", db, "-7", code=2)
        self.assertIn("argument is missing", self.bad("resolve", "--abort", least, code=2))

    def test_resolve_commits_by_an_id_that_begins_with_a_minus(self):
        db = self.copy("negative")
        gid = self.json("in-doubt", db)["in_doubt"][0]["gid"]
        self.assertTrue(gid.startswith("-7:"), gid)
        self.assertEqual(self.good("resolve", "--ops", PLUGIN, "--commit", db, gid),
                         f"committed {gid}\n")
        self.assertEqual(self.json("in-doubt", db)["in_doubt"], [])
        out = self.good("page", db, self.made.where["negative"]["bytes"])
        self.assertIn("000020  69 00 00 00 00 00 00 00", out)  # 0x69 is 5 + 100

    def test_resolve(self):
        db = self.copy("prepared")
        # resolve may have to undo, so it needs the operation.
        self.assertIn("not registered", self.bad("resolve", "--abort", db, GID1, code=2))
        self.assertEqual(self.good("resolve", "--ops", PLUGIN, "--abort", db, GID1),
                         f"aborted {GID1}\n")
        self.assertEqual([r["gid"] for r in self.json("in-doubt", db)["in_doubt"]], [GID2])
        self.bad("resolve", "--ops", PLUGIN, "--abort", db, GID1, code=1)
        said = self.json("resolve", "--ops", PLUGIN, "--commit", db, GID2)
        self.assertEqual(said, {"gid": GID2, "outcome": "committed", "heuristic": False})
        self.assertEqual(self.json("in-doubt", db)["in_doubt"], [])
        # 0x69 is 5 of the first transaction and 100 of the committed one.
        out = self.good("page", db, self.made.where["prepared"]["bytes"])
        self.assertIn("000020  69 00 00 00 00 00 00 00", out)


class AtWork(Case):
    def start(self, *args):
        child = subprocess.Popen([MAKE_DB, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)
        while child.stdout.readline().strip() != "ready":
            self.assertIsNone(child.poll())
        return child

    def end(self, child):
        child.stdin.close()
        child.stdout.close()
        self.assertEqual(child.wait(), 0)

    def test_in_use(self):
        db = os.path.join(self.temporary.name, "held")
        child = self.start("--hold", "crashed", db)
        try:
            out = self.good("stat", db)
            self.assertIn(f"in use by process {child.pid}\n", out)
            self.assertIn("if the process that uses it died now:", out)
            self.assertIn("lladd_stats_get, checkpoint_written of checkpoint_pages", out)
            self.assertEqual(self.json("stat", db)["pid"], child.pid)
            self.assertIn("not checked: the database is in use",
                          self.good("verify", db, code=3))
            for args in (["dump", db], ["load", db, "/dev/null"], ["hash", "get", db, "t", "k"],
                         ["hash", "put", db, "t", "k", "v"]):
                self.assertIn(f"in process {child.pid} (LLADD_LOCKED)",
                              self.bad(args[0], "--ops", PLUGIN, *args[1:], code=2)
                              if args[0] != "hash" else
                              self.bad(*args[:2], "--ops", PLUGIN, *args[2:], code=2))
            self.good("log", db)
            self.assertEqual(len(self.json("in-doubt", db)["in_doubt"]), 1)
            self.assertIn(str(child.pid), self.bad("recover", "--ops", PLUGIN, db, code=2))
        finally:
            self.end(child)
        self.assertIn("not closed cleanly", self.good("stat", db))

    def test_churn(self):
        """While pages and log are written and truncated, there is never damage."""
        db = self.copy("clean")
        child = self.start("--churn", db)
        try:
            checkpoints, rounds = set(), 0
            while rounds < 25 or len(checkpoints) < 4:
                rounds += 1
                self.assertLess(rounds, 1000)
                self.good("verify", db, code=3)
                checkpoints.add(self.json("stat", db)["log"]["checkpoint"])
                self.good("page", db, self.made.where["clean"]["bytes"])
                self.good("ops", db)
                last = self.lines("--last", 5, db)
                # A checkpoint may truncate some of these records before they are read; then the
                # command reports this.
                self.assertTrue(len(last) == 6 or (len(last) < 6 and "recycled" in last[-1]["end"]),
                                last)
                shown = [r["lsn"] for r in self.lines(db)[:-1]]
                self.assertEqual(shown, sorted(set(shown)))
        finally:
            self.end(child)
        self.good("verify", db, code=3)


class Damaged(Case):
    def flip(self, path, at, mask=1):
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ mask]))

    def test_page(self):
        db, where = self.copy("clean"), self.made.where["clean"]
        at = where["bulk"] * 4096 + 77
        self.flip(db + "/pages", at)
        self.assertEqual(
            re.sub(r"[0-9a-f]{8}", "XXXXXXXX", self.good("verify", db, code=1).splitlines()[0]),
            f"damage  pages, byte {where['bulk'] * 4096}, page {where['bulk']}: \"pages\": page "
            f"{where['bulk']} has checksum XXXXXXXX instead of XXXXXXXX; the log holds no base to "
            "rebuild it from")
        out = self.good("page", db, where["bulk"], code=1)
        self.assertIn("WRONG: it should be", out)
        self.assertIn("DAMAGED", out)
        found = self.json("verify", db, code=1)["findings"][0]
        self.assertEqual((found["kind"], found["code"], found["file"], found["page"]),
                         ("damage", "LLADD_CORRUPT_PAGE", "pages", where["bulk"]))
        self.good("stat", db)  # stat does not read this page

    def test_log(self):
        db, where = self.copy("clean"), self.made.where["clean"]
        record = self.lines("--txn", where["aborted"], db)[0]
        stat = self.json("stat", db)
        name = [f["name"] for f in stat["files"] if f["name"].startswith("log/")][0]
        # In the first segment, payload byte n - 8 comes after one block header.
        at = record["lsn"] - 8 + 64
        self.flip(os.path.join(db, name), at + 20)
        out = self.good("verify", db, code=1)
        self.assertIn(f"damage  {name}, byte {at}, LSN {record['lsn']}: the log is damaged", out)
        out = self.good("log", db, code=1)
        self.assertRegex(out.splitlines()[-1], rf"^DAMAGED: .* LSN {record['lsn']} \({name}\)")
        self.assertEqual(self.lines(db, code=1)[-1]["end"]["lsn"], record["lsn"])
        self.good("ops", db, code=1)
        self.good("stat", db)  # the checkpoint comes after the damage

    def test_log_after_checkpoint(self):
        db = self.copy("clean")
        stat = self.json("stat", db)
        name = [f["name"] for f in stat["files"] if f["name"].startswith("log/")][0]
        self.flip(os.path.join(db, name), stat["log"]["checkpoint"] - 8 + 64 + 20)
        self.assertIn("the log is damaged", self.good("stat", db, code=1))
        self.assertEqual(self.json("stat", db, code=1)["log"]["end_kind"], "damaged")
        self.good("recover", "--dry-run", db, code=1)
        code, out, err = run("in-doubt", db)
        self.assertEqual((code, out), (1, ""))
        self.assertIn("there may be more: the log is damaged", err)
        self.assertEqual(self.json("in-doubt", db, code=1),
                         {"in_doubt": [], "heuristic": [], "complete": False})
        self.assertIn("LLADD_CORRUPT_LOG", self.bad("recover", "--ops", PLUGIN, db, code=1))

    def test_torn_tail(self):
        db = self.copy("crashed")
        last = self.lines("--kind", "commit", "--last", 1, db)[0]
        stat = self.json("stat", db)
        name = [f["name"] for f in stat["files"] if f["name"].startswith("log/")][0]
        with open(os.path.join(db, name), "r+b") as file:
            file.seek(last["lsn"] - 8 + 64 + 24)
            file.write(bytes(200))
        out = self.good("log", db)
        self.assertRegex(out.splitlines()[-1], rf"^end of the log: torn tail at LSN {last['lsn']} ")
        self.assertIn("normal after a crash", out)
        self.assertTrue(self.good("verify", db, code=3).startswith("note    " + name))

    def test_log_without_its_end(self):
        """The tail looks torn, but a page was written when more of the log was durable."""
        db = self.copy("crashed")
        last = self.lines("--kind", "commit", "--last", 1, db)[0]
        stat = self.json("stat", db)
        name = [f["name"] for f in stat["files"] if f["name"].startswith("log/")][0]
        self.good("verify", db, code=3)
        self.flip(os.path.join(db, name), last["lsn"] - 8 + 64 + 24)
        with open(db + "/control", "r+b") as file:
            file.seek(40)
            salt = crc32c(file.read(16))
            witness = b"LLDW" + struct.pack("<QQQ", last["lsn"] + 8, 1, last["lsn"]) + bytes(32)
            file.seek(8192)
            file.write(crc32c(witness, salt).to_bytes(4, "little") + witness)
        self.assertIn("damage  control, byte 8192: the log has lost its end: page 1 of \"pages\" "
                      f"was written with page LSN {last['lsn']}", self.good("verify", db, code=1))
        found = self.json("verify", db, code=1)["findings"]
        self.assertIn(("damage", "LLADD_LOG_LOST", "control"),
                      [(f["kind"], f.get("code"), f["file"]) for f in found])
        self.assertIn("LLADD_LOG_LOST", self.bad("recover", "--ops", PLUGIN, db, code=1))

    def test_control(self):
        db = self.copy("clean")
        self.flip(db + "/control", 20)
        self.assertIn("copy 1 is damaged, the other one is used", self.good("stat", db))
        self.assertIn("repair  control, byte 0: copy 1", self.good("verify", db, code=1))
        self.flip(db + "/control", 4096 + 20)
        self.assertIn("LLADD_CORRUPT_CONTROL", self.bad("stat", db, code=2))
        self.assertIn("damage  control, byte 0", self.good("verify", db, code=1))
        self.assertEqual(self.json("verify", db, code=1)["damage"], 1)
        os.unlink(db + "/control")
        self.assertIn("\"control\" is missing", self.bad("stat", db, code=2))
        self.assertIn("\"control\" is missing", self.good("verify", db, code=1))

    def test_newer_format(self):
        db = self.copy("clean")
        with open(db + "/control", "r+b") as file:
            for at in (0, 4096):
                file.seek(at)
                block = bytearray(file.read(256))
                block[8] = 99
                block[0:4] = crc32c(bytes(block[4:])).to_bytes(4, "little")
                file.seek(at)
                file.write(block)
        for verb in LOOKING:
            self.assertIn("format version 99", self.bad(verb, db, code=2))

    def test_damage_in_every_file(self):
        """A sample of the damages of test_damage.c, through the command, on files."""
        for kind in ("clean", "crashed"):
            db = self.copy(kind)
            for base, _, names in sorted(os.walk(db)):
                for name in sorted(names):
                    path = os.path.join(base, name)
                    size = os.path.getsize(path)
                    for at in sorted({3, 9, 50, 4100, size // 3, size - 2} & set(range(size))):
                        self.flip(path, at, 0x20)
                        for verb in ("verify", "stat", "log"):
                            code, out, err = run(verb, db)
                            self.assertIn(code, (0, 1, 2, 3) if verb == "verify" else (0, 1, 2),
                                          f"{path} {at} {verb}: {err}")
                            self.assertNotIn("Sanitizer", err)
                            if verb == "verify" and code == 1:
                                self.assertIn(os.path.relpath(path, db), out)
                        self.flip(path, at, 0x20)
            self.good("verify", db, code=3)


def crc32c(data, before=0):
    crc = before ^ 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
