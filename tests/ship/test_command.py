#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd backup and lladd restore: test_command.py <lladd>. Backups and restores that are killed at
any moment leave nothing that counts, and can be repeated."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

LLADD = sys.argv[1]


def run(*args):
    done = subprocess.run([LLADD, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Backups(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = temporary.name
        self.db, self.store = self.path("db"), "dir:" + self.path("store")
        self.good("hash", "put", "--create", self.db, "table", "key", "value")

    def path(self, name):
        return os.path.join(self.top, name)

    def good(self, *args, code=0):
        got, out, err = run(*args)
        self.assertEqual(got, code, f"lladd {args}: {out}{err}")
        return out if code == 0 else out + err

    def check(self, name):
        self.assertIn("no damage", self.good("verify", self.path(name)))
        self.assertEqual(self.good("hash", "get", self.path(name), "table", "key"), "value\n")

    def objects(self):
        return [os.path.join(at, name) for at, _, names in os.walk(self.path("store"))
                for name in names]

    def test_round_trip(self):
        self.good("backup", "--label", "first", self.db, self.store)
        made = json.loads(self.good("backup", "--json", "--rate", "100000000", self.db, self.store))
        listed = json.loads(self.good("restore", "--list", "--json", self.store))
        self.assertEqual([b["label"] for b in listed], ["first", ""])
        self.assertEqual(listed[1], made)
        self.assertIn(made["name"], self.good("restore", "--list", self.store))
        self.good("restore", self.store, self.path("copy"))
        self.good("restore", "--base", listed[0]["name"], self.store, self.path("other"))
        self.check("copy")
        self.check("other")
        self.assertIn("LLADD_EXISTS", self.good("restore", self.store, self.path("copy"), code=2))
        self.assertIn("LLADD_NOT_FOUND",
                      self.good("restore", "--base", "none", self.store, self.path("no"), code=2))
        self.assertIn("expected dir:", self.good("backup", self.db, "s3:bucket", code=2))
        self.assertIn("a store and a directory", self.good("restore", self.store, code=2))

    def test_damage_is_named(self):
        self.good("backup", self.db, self.store)
        for path in self.objects():
            name = os.path.basename(path)
            if name in ("archive", "begun", "history"):
                continue
            with open(path, "r+b") as file:
                byte = file.read(1)
                file.seek(0)
                file.write(bytes([byte[0] ^ 1]))
            said = self.good("restore", self.store, self.path("copy"), code=1)
            self.assertIn("LLADD_CORRUPT_BACKUP", said)
            self.assertIn(name, said)
            with open(path, "r+b") as file:
                file.write(byte)
        self.good("restore", self.store, self.path("copy"))
        self.check("copy")

    def kill(self, at, *args):
        """Kills the command after `at` seconds, if it has not ended."""
        child = subprocess.Popen([LLADD, *args], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            child.wait(timeout=at)
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait()

    def test_killed(self):
        for i in range(12):
            self.kill(i * 0.003, "backup", "--rate", "1000000", self.db, self.store)
        self.good("backup", self.db, self.store)
        for backup in json.loads(self.good("restore", "--list", "--json", self.store)):
            self.good("restore", "--base", backup["name"], self.store, self.path(backup["name"]))
            self.check(backup["name"])
        for i in range(12):
            self.kill(i * 0.003, "restore", "--rate", "10000000", self.store, self.path("copy"))
        if not os.path.exists(os.path.join(self.path("copy"), "control")):
            self.good("restore", self.store, self.path("copy"))
        self.check("copy")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
