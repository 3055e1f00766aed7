#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What is lost when something is lost: a test for each row of the table in docs/backup.md.
test_losses.py <lladd> <archived>.

The database has a table that examples/archived has written: some keys before a backup, and some
after it. A file or a directory then disappears."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

LLADD, ARCHIVED = sys.argv[1:3]
BEFORE, AFTER = range(0, 20), range(20, 60)


def run(program, *args, text=""):
    done = subprocess.run([program, *args], input=text, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


class Losses(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = temporary.name
        self.db, self.store = self.path("db"), "dir:" + self.path("store")
        self.work(self.puts(BEFORE) + "backup first\n" + self.puts(AFTER))

    def path(self, *parts):
        return os.path.join(self.top, *parts)

    def good(self, *args, code=0):
        got, out = run(LLADD, *args)
        self.assertEqual(got, code, f"lladd {args}: {out}")
        return out

    def work(self, commands, expect=0):
        got, out = run(ARCHIVED, self.db, self.store, text=commands)
        self.assertEqual(got, expect, out)
        return out

    @staticmethod
    def puts(numbers):
        return "".join(f"put key-{i:03} {i}\n" for i in numbers)

    def keys(self, db):
        """The numbers of the keys that a database has; it has no damage."""
        self.assertIn("no damage", self.good("verify", db))
        rows = self.good("hash", "scan", db, "table").splitlines()
        return sorted(int(row.split("key-")[1][:3]) for row in rows)

    def restored(self, *options):
        copy = tempfile.mkdtemp(dir=self.top)
        self.good("restore", *options, self.store, copy)
        return self.keys(copy)

    def expect_all(self, keys):
        self.assertEqual(keys, [*BEFORE, *AFTER])

    def expect_stored(self, keys):
        """What was committed before the backup, and what the archive has stored of the rest."""
        self.assertEqual(keys, list(range(len(keys))))
        self.assertGreaterEqual(len(keys), len(BEFORE))

    def objects(self, part):
        return sorted(os.path.join(at, name) for at, _, names in os.walk(self.path("store"))
                      for name in names if part in os.path.join(at, name))

    def test_the_disk(self):
        shutil.rmtree(self.db)
        self.expect_stored(self.restored("--to", "end"))
        self.assertEqual(self.restored(), list(BEFORE))

    def test_the_page_file(self):
        os.unlink(self.path("db", "pages"))
        self.good("verify", self.db, code=1)
        self.good("archive", "push", self.db, self.store)
        self.expect_all(self.restored("--to", "end"))

    def test_the_control_file(self):
        os.unlink(self.path("db", "control"))
        self.good("verify", self.db, code=1)
        self.good("archive", "push", self.db, self.store, code=1)
        self.expect_stored(self.restored("--to", "end"))

    def test_the_double_write_file(self):
        os.unlink(self.path("db", "dwb"))
        self.good("verify", self.db, code=1)
        self.good("archive", "push", self.db, self.store)
        self.expect_all(self.restored("--to", "end"))

    def test_a_segment_of_the_log(self):
        self.good("archive", "push", self.db, self.store)
        for name in os.listdir(self.path("db", "log")):
            os.unlink(self.path("db", "log", name))
        self.good("verify", self.db, code=1)
        self.expect_all(self.restored("--to", "end"))

    def adopt(self, db):
        """Takes the archive over; returns the number of the new timeline."""
        said = json.loads(self.good("archive", "adopt", "--json", db, self.store))
        self.assertEqual((said["adopted"], said["needs_backup"]), (True, False))
        return str(said["timeline"])

    def test_the_claim(self):
        """The archive cannot tell the database from a copy of it, and stores nothing more. The
        database itself goes on, and takes the archive over."""
        self.good("archive", "push", self.db, self.store) # the archive goes beyond the backup
        shutil.rmtree(self.path("db", "files"))
        self.work(self.puts([60]))
        self.assertEqual(len(self.keys(self.db)), 61)
        self.assertIn("LLADD_DIVERGED", self.good("archive", "push", self.db, self.store, code=2))
        timeline = self.adopt(self.db)
        self.assertEqual(len(self.restored("--to", "end", "--timeline", timeline)), 61)
        self.work(self.puts([61]))
        self.good("archive", "push", self.db, self.store)
        self.assertEqual(len(self.restored("--to", "end", "--timeline", timeline)), 62)
        self.assertIn("nothing was adopted",
                      self.good("archive", "adopt", self.db, self.store))

    def test_the_claim_with_another_store(self):
        """Or the database archives into another store, and needs a new backup there."""
        shutil.rmtree(self.path("db", "files"))
        self.work(self.puts([60]))
        self.store = "dir:" + self.path("other")
        self.work("backup second\n" + self.puts([61]))
        self.good("archive", "push", self.db, self.store)
        self.assertEqual(len(self.restored("--to", "end")), 62)

    def test_a_copy(self):
        """Two copies of the database: both have a future in the store."""
        shutil.copytree(self.db, self.path("copy"))
        self.work(self.puts([60]) + "mark claimed\n") # a mark needs a claim
        self.good("archive", "push", self.db, self.store)
        original, self.db = self.db, self.path("copy")
        self.work(self.puts([61, 62]))
        self.assertIn("LLADD_DIVERGED", self.good("archive", "push", self.db, self.store, code=2))
        timeline = self.adopt(self.db)
        self.work(self.puts([63]))
        self.good("archive", "push", self.db, self.store)
        self.db = original
        self.work(self.puts([64]))
        self.good("archive", "push", self.db, self.store)
        self.assertEqual(self.restored("--to", "end"), [*BEFORE, *AFTER, 60, 64])
        self.assertEqual(self.restored("--to", "end", "--timeline", timeline),
                         [*BEFORE, *AFTER, 61, 62, 63])

    def test_the_store(self):
        """The database loses nothing. It needs a new backup."""
        shutil.rmtree(self.path("store"))
        self.work("backup second\n" + self.puts([60]))
        self.good("archive", "push", self.db, self.store)
        self.assertEqual(len(self.restored("--to", "end")), 61)

    def test_an_object_of_a_backup(self):
        for part in ("pages.0", "pages.idx", "control", "log."):
            victim = self.objects(os.path.join("base", ""))
            victim = [path for path in victim if os.path.basename(path).startswith(part)][0]
            os.rename(victim, self.path("away"))
            out = self.good("restore", self.store, self.path("copy"), code=1)
            self.assertIn("LLADD_CORRUPT_BACKUP", out)
            self.assertIn(part, out)
            os.rename(self.path("away"), victim)
        os.unlink(self.objects("pages.0")[0])
        self.work("backup second\n")
        self.expect_all(self.restored())

    def test_a_manifest(self):
        """Without its manifest a backup is incomplete, so it is not listed."""
        os.unlink(self.objects("manifest")[0])
        self.assertIn("LLADD_NOT_FOUND",
                      self.good("restore", self.store, self.path("copy"), code=2))
        self.work("backup second\n")
        self.expect_all(self.restored())

    def test_a_segment_of_the_archive(self):
        self.good("archive", "push", self.db, self.store)
        for path in self.objects(os.path.join("log", "")):
            if path.endswith((".seg", ".part")):
                os.unlink(path)
        self.assertEqual(self.restored(), list(BEFORE))
        self.work("backup second\n" + self.puts([60]))
        self.expect_all(self.restored())

    def test_an_index_of_the_archive(self):
        """It is made again from its segment."""
        self.good("archive", "push", self.db, self.store)
        for path in self.objects(".idx"):
            if os.path.dirname(path).endswith("idx"):
                os.unlink(path)
        self.expect_all(self.restored("--to", "end"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
