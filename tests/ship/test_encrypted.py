#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the example of an encrypted store: test_encrypted.py <lladd> <encrypted>."""
import os
import subprocess
import sys
import tempfile
import unittest

LLADD, ENCRYPTED = sys.argv[1:3]


class Encrypted(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = temporary.name
        self.key("key", 7)
        self.run_ok(LLADD, "hash", "put", "--create", "shop", "table", "order-1", "paid")
        self.run_ok(ENCRYPTED, "backup", "shop", "dir:store", "key")

    def key(self, name, byte):
        with open(os.path.join(self.top, name), "wb") as file:
            file.write(bytes([byte]) * 32)

    def run_it(self, *command):
        return subprocess.run(command, cwd=self.top, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)

    def run_ok(self, *command):
        done = self.run_it(*command)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def fails(self, *command):
        done = self.run_it(*command)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertIn("LLADD_OTHER_FILTER", done.stdout)
        return done.stdout

    def test_a_backup_is_restored_with_the_key(self):
        self.run_ok(ENCRYPTED, "restore", "dir:store", "copy", "key")
        self.assertEqual(self.run_ok(LLADD, "hash", "get", "copy", "table", "order-1").strip(),
                         "paid")

    def test_another_key(self):
        self.key("other", 8)
        self.assertIn("another key", self.fails(ENCRYPTED, "restore", "dir:store", "x", "other"))
        self.assertIn("another key", self.fails(ENCRYPTED, "backup", "shop", "dir:store", "other"))

    def test_the_store_has_nothing_that_can_be_read(self):
        for folder, _, names in os.walk(os.path.join(self.top, "store")):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    stored = file.read()
                self.assertTrue(stored.startswith(b"LLFILT1\0aes-256-gcm\0"), name)
                self.assertNotIn(b"paid", stored)

    def test_a_check(self):
        self.assertEqual(self.run_ok(ENCRYPTED, "check", "dir:store", "key"), "")
        for folder, _, names in os.walk(os.path.join(self.top, "store")):
            if "control" in names:
                os.remove(os.path.join(folder, "control"))
        done = self.run_it(ENCRYPTED, "check", "dir:store", "key")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/control: ", done.stdout)

    def test_each_command_says_which_filter(self):
        store = "dir:store"
        for command in (["backup", "shop", store], ["restore", "--list", store],
                        ["restore", store, "copy"],
                        ["archive", "list", store], ["archive", "check", store],
                        ["archive", "expire", "--keep", "1", store], ["archive", "roll", store],
                        ["archive", "push", "shop", store], ["archive", "adopt", "shop", store],
                        ["scrub", "shop", store], ["verify", "--archive", store, "shop"],
                        ["hash", "get", "--from", store, "table", "order-1"]):
            with self.subTest(command=command):
                done = self.run_it(LLADD, *command)
                self.assertEqual(done.returncode, 2, done.stdout)
                self.assertIn("LLADD_OTHER_FILTER", done.stdout)
                self.assertIn("aes-256-gcm", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
