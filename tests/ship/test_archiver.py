#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Processes with an archive, and lladd archive: test_archiver.py <archiver> <lladd>. A process that
archives is killed at any moment. The next process continues the archive, and the segments in the
store form a chain without a gap. Of two copies of a database one stops. A detach ends the
archive."""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

ARCHIVER, LLADD = sys.argv[1:3]


class Archiver(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.db = os.path.join(temporary.name, "db")
        self.copy = os.path.join(temporary.name, "copy")
        self.store = "dir:" + os.path.join(temporary.name, "store")

    def good(self, *args, code=0):
        done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        said = done.stdout.decode() + done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{args}: {said}")
        return said

    def killed(self, seconds):
        """Runs the archiver, and kills it after this time."""
        child = subprocess.Popen([ARCHIVER, self.db, self.store, "100000"],
                                 stdout=subprocess.DEVNULL)
        try:
            child.wait(timeout=seconds)
            self.fail("the archiver has ended by itself")
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait()

    def test_killed(self):
        rng = random.Random(7)
        for _ in range(10):
            self.killed(rng.random() * 0.3)
        self.assertIn("done", self.good(ARCHIVER, self.db, self.store, "20"))
        said = json.loads(self.good(LLADD, "archive", "push", "--json", self.db, self.store))
        self.assertFalse(said["gap"])
        self.check_chain(os.path.join(self.store[4:], "t00000000", "log"))
        self.assertIn("no damage", self.good(LLADD, "verify", self.db))

    def check_chain(self, log):
        """Each segment's cut (at byte 40) is in, or at the end of, the one before."""
        before = None
        for name in sorted(os.listdir(log)):
            if not name.endswith(".seg"):
                continue
            with open(os.path.join(log, name), "rb") as file:
                head = file.read(64)
            first, cut, size = (int.from_bytes(head[at:at + n], "little")
                                for at, n in ((32, 8), (40, 8), (48, 4)))
            if before:
                self.assertTrue(before[0] < cut <= before[1], name)
            before = first, first + size - 64
        self.assertIsNotNone(before)

    def test_a_copy_stops_and_an_archive_ends(self):
        self.good(ARCHIVER, self.db, self.store, "50")
        shutil.copytree(self.db, self.copy)
        self.good(ARCHIVER, self.db, self.store, "50")
        self.assertIn("another copy", self.good(ARCHIVER, self.copy, self.store, "5", code=1))
        self.assertIn("LLADD_DIVERGED",
                      self.good(LLADD, "archive", "push", self.copy, self.store, code=2))
        self.assertIn("lladd.archive.0", self.good(LLADD, "stat", self.db))
        self.assertIn("detached", self.good(LLADD, "archive", "detach", self.db))
        self.assertNotIn("lladd.archive.0", self.good(LLADD, "stat", self.db))
        self.good(LLADD, "archive", "detach", self.db, code=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
