#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd journal: test_journal.py <lladd>.

The tags are those of managed dTables. Entries of one table, in text and JSON, from an LSN on, after
a digest has discarded them, and after log was truncated."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LLADD = sys.argv[1]
TAG = "managed:rows"


def run(*args, text=""):
    done = subprocess.run([LLADD, *map(str, args)], input=text.encode("latin-1"),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode("latin-1"), done.stderr.decode("latin-1")


class Journal(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.db = os.path.join(temporary.name, "db")
        self.good("dtable", "create", "--memory", "100000", self.db, "rows")

    def good(self, *args, code=0, text=""):
        got, out, err = run(*args, text=text)
        self.assertEqual(got, code, f"lladd {args}: {out}{err}")
        return out

    def put(self, key, value):
        self.good("dtable", "put", self.db, "rows", key, value)

    def tags(self):
        return {t["name"]: t for t in json.loads(self.good("journal", "--json", self.db))["tags"]}

    def entries(self, *options):
        out = self.good("journal", "--json", *options, self.db, TAG)
        return [json.loads(line) for line in out.splitlines()]

    def test_tags(self):
        self.put("a", "1")
        self.put("b", "2")
        tag = self.tags()[TAG]
        self.assertEqual(tag["entries"], 2)
        self.assertEqual(tag["newest"], self.entries()[-1]["commit"])
        out = self.good("journal", self.db).splitlines()
        self.assertEqual(out[0].split()[-2:], ["name", "(owner)"])
        self.assertIn(f" {TAG} ({tag['owner']})", out[-1])

    def test_entries(self):
        for i in range(5):
            self.put(f"key{i}", f"value{i}")
        rows = self.entries()
        self.assertEqual(len(rows), 5)
        self.assertEqual(rows, sorted(rows, key=lambda r: r["commit"]))
        self.assertTrue(all(r["lsn"] < r["commit"] for r in rows))
        self.assertEqual(self.entries("--since", rows[2]["commit"]), rows[2:])
        self.assertEqual(self.entries("--since", rows[2]["commit"] + 1), rows[3:])
        out = self.good("journal", self.db, TAG).splitlines()
        self.assertEqual(len(out), 5)
        self.assertIn("key3", out[3])
        self.assertIn("value3", out[3])
        self.assertEqual(out[3].split()[:2], [str(rows[3]["commit"]), str(rows[3]["lsn"])])

    def fill(self, n):
        rows = "".join(f"key{i},{'x' * 60000}\n" for i in range(n))
        self.good("dtable", "put", "--csv", "--batch", "20", self.db, "rows", text=rows)
        self.good("dtable", "maintain", self.db, "rows")
        self.assertEqual(self.tags()[TAG]["entries"], 0)

    def test_discarded_entries_are_there_until_the_log_is_truncated(self):
        self.put("a", "1")
        first = self.entries()
        self.fill(2)
        self.assertEqual(len(self.entries()), 3)
        self.assertEqual(self.entries()[:1], first)
        # A checkpoint truncates the log when its thread comes to it.
        rounds, code = 0, 0
        while code == 0 and rounds < 20:
            rounds += 1
            self.fill(200)
            code, out, err = run("journal", "--since", first[0]["commit"], self.db, TAG)
        self.assertEqual((code, out), (2, ""))
        self.assertIn("the log begins at", err)
        rows = self.entries()
        self.assertLess(len(rows), 3 + 200 * rounds)
        self.assertGreater(len(rows), 0)
        self.assertEqual(rows, self.entries("--since", rows[0]["commit"]))

    def test_mistakes(self):
        code, out, err = run("journal", self.db, "managed:other")
        self.assertEqual((code, out), (1, ""))
        self.assertIn('there is no tag "managed:other"', err)
        self.assertEqual(run("journal", "--since", "soon", self.db, TAG)[0], 2)
        self.assertEqual(run("journal", self.db + "x")[0], 2)
        self.assertEqual(run("journal")[0], 2)
        self.assertIn("usage: lladd journal", self.good("journal", "--help"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
