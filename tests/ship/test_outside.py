#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd backup of a database that another process has open and archives:
test_outside.py <archiver> <archived> <lladd>. The backup is killed at any moment, and so is the
process that archives; the archive stands still; the process does not archive into the store."""
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import unittest

ARCHIVER, ARCHIVED, LLADD = sys.argv[1:4]
TRIES = 50


class Outside(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = temporary.name
        self.db = os.path.join(self.top, "db")
        self.store = "dir:" + os.path.join(self.top, "store")
        self.children = []
        self.copies = 0
        self.addCleanup(self.end_all)

    def end_all(self):
        for child in self.children:
            child.kill()
            child.wait()

    def start(self):
        """A process that commits and archives all the time; returns when the store has log."""
        child = subprocess.Popen([ARCHIVER, self.db, self.store, "1000000"],
                                 stdout=subprocess.DEVNULL)
        self.children.append(child)
        while not self.segments():
            self.assertIsNone(child.poll())
        return child

    def segments(self):
        try:
            return [name for name in os.listdir(os.path.join(self.store[4:], "t00000000", "log"))
                    if name.endswith(".seg")]
        except FileNotFoundError:
            return []

    def run_lladd(self, *args):
        done = subprocess.run([LLADD, *args], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def good(self, *args):
        code, said = self.run_lladd(*args)
        self.assertEqual(code, 0, f"{args}: {said}")
        return said

    def bases(self):
        """The complete backups, and the other ones."""
        top = os.path.join(self.store[4:], "base")
        names = os.listdir(top) if os.path.isdir(top) else []
        whole = [n for n in names if os.path.exists(os.path.join(top, n, "manifest"))]
        return whole, [n for n in names if n not in whole and os.listdir(os.path.join(top, n))]

    def check_restored(self, *target):
        self.copies += 1
        copy = os.path.join(self.top, f"copy{self.copies}")
        self.good("restore", *target, self.store, copy)
        self.good("recover", copy)
        self.assertIn("no damage", self.good("verify", copy))

    def test_beside(self):
        child = self.start()
        ends = []
        for label in ("one", "two", "three"):
            made = json.loads(self.good("backup", "--json", "--label", label, self.db, self.store))
            self.assertEqual((made["damaged_pages"], made["label"]), (0, label))
            ends.append(made["end"])
            self.check_restored("--to", "base")
        self.assertEqual(ends, sorted(set(ends)))
        child.kill()
        child.wait()
        self.check_restored("--to", "base")
        self.check_restored("--to", "end")
        self.good("archive", "check", self.store)

    def test_the_backup_is_killed(self):
        rng = random.Random(11)
        self.start()
        for _ in range(10):
            backup = subprocess.Popen([LLADD, "backup", self.db, self.store],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                backup.wait(timeout=rng.random() * 0.1)
            except subprocess.TimeoutExpired:
                backup.kill()
            backup.wait()
        whole, _ = self.bases()
        listed = json.loads(self.good("restore", "--list", "--json", self.store))
        self.assertEqual(sorted(b["name"] for b in listed), sorted(whole))
        self.good("backup", self.db, self.store)
        self.check_restored("--to", "base")

    def test_the_archiver_is_killed(self):
        """While the pages are copied, at a rate that leaves time for it."""
        child = self.start()
        backup = subprocess.Popen([LLADD, "backup", "--rate", "100000", self.db, self.store],
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        while backup.poll() is None and not self.bases()[1]:
            pass
        child.kill()
        child.wait()
        said = backup.communicate()[0]
        self.assertIn(backup.returncode, (0, 2), said)
        if backup.returncode:
            self.assertIn("has ended", said)
        whole, rest = self.bases()
        self.assertEqual((len(whole), rest), (backup.returncode == 0, []))
        self.good("backup", self.db, self.store)  # no process has it open any more
        self.check_restored("--to", "base")

    def test_the_archive_stands_still(self):
        child = self.start()
        for _ in range(TRIES):
            child.send_signal(signal.SIGSTOP)
            code, said = self.run_lladd("backup", "--wait", "1", self.db, self.store)
            child.send_signal(signal.SIGCONT)
            if code:
                break
        self.assertEqual(code, 2, said)
        self.assertIn("archived nothing into this store for 1 s", said)
        self.assertEqual(self.bases()[1], [])
        self.good("backup", self.db, self.store)
        self.check_restored("--to", "base")

    def test_another_store(self):
        other = "dir:" + os.path.join(self.top, "other")
        child = subprocess.Popen([ARCHIVED, self.db, self.store], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.children.append(child)
        child.stdin.write("put a 1\nmark begun\n")
        child.stdin.flush()
        self.assertEqual([child.stdout.readline() for _ in range(2)], ["ok\n"] * 2)
        code, said = self.run_lladd("backup", self.db, other)
        self.assertEqual(code, 2, said)
        self.assertIn("does not archive it into this store", said)
        self.good("backup", self.db, self.store)
        child.communicate("put b 2\n")
        self.assertEqual(child.returncode, 0)
        self.copies = 0
        copy = os.path.join(self.top, "copy")
        self.good("restore", self.store, copy)
        self.assertIn("1", self.good("hash", "get", copy, "table", "a"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
