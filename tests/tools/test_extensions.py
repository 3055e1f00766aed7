#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd verify with the checks that extensions bring:
test_extensions.py <lladd> <make_ordered> <ordered-ops.so> <bad_plugin.so>.

examples/ordered is checked like one of the library's own structures, undamaged and with planted
damage. A check that breaks a rule is reported."""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

from dumps import crc32c

LLADD, MAKE, ORDERED, BAD = sys.argv[1:5]
PAGE = 4096
HEAD = 32  # bytes of a page header


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.db = os.path.join(temporary.name, "db")

    def make(self, kind):
        said = subprocess.run([MAKE, kind, self.db], check=True, text=True, stdout=subprocess.PIPE)
        self.leaf = int(said.stdout)

    def verify(self, *args, code, plugin=ORDERED, mistake=""):
        ops = ["--ops", plugin] if plugin else []
        done = subprocess.run([LLADD, "verify", *ops, *args, self.db], text=True,
                              env=dict(os.environ, LLADD_TEST_MISTAKE=mistake),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code == 2 else done.stdout

    def write(self, number, at, put):
        """Changes bytes of a page and corrects its checksum."""
        said = subprocess.run([LLADD, "stat", "--json", self.db], check=True,
                              stdout=subprocess.PIPE).stdout
        salt = crc32c(bytes.fromhex(json.loads(said)["uuid"].replace("-", "")))
        with open(os.path.join(self.db, "pages"), "r+b") as file:
            file.seek(number * PAGE)
            page = bytearray(file.read(PAGE))
            page[at:at + len(put)] = put
            seed = crc32c(struct.pack("<IQ", salt, number))
            page[0:4] = crc32c(bytes(page[4:]), seed).to_bytes(4, "little")
            file.seek(number * PAGE)
            file.write(page)


class Ordered(Case):
    def test_sound(self):
        self.make("sound")
        out = self.verify(code=0)
        self.assertIn("structures: 1 hash table, 1 example.ordered\nno damage\n", out)
        said = json.loads(self.verify("--json", code=0))
        self.assertEqual(said["findings"], [])
        self.assertEqual(said["structures"]["extensions"], {"example.ordered": 1})
        self.assertEqual(said["structures"]["not_checked"], 0)
        # Without the plug-in the structure is not checked.
        out = self.verify(code=3, plugin=None)
        self.assertIn('root "ordered" does not lead to one of the library', out)
        said = json.loads(self.verify("--json", code=3, plugin=None))
        self.assertEqual(said["structures"]["extensions"], {})

    def test_two_roots(self):
        self.make("two")
        self.assertIn("structures: 1 hash table, 2 example.ordered\n", self.verify(code=0))

    def test_after_a_crash(self):
        """A loser is undone before the check, by the plug-in's own operations."""
        self.make("doubt")
        self.assertIn("1 example.ordered\n", self.verify(code=0))

    def test_stray_key(self):
        """Every page is valid; the structure is damaged."""
        self.make("stray")
        said = json.loads(self.verify("--json", code=1))
        self.assertEqual([(f["kind"], f["code"], f["page"], f["message"])
                          for f in said["findings"]],
                         [("damage", "LLADD_CORRUPT_PAGE", self.leaf,
                           f'example.ordered "ordered": page {self.leaf}: has a key that does not '
                           "belong there")])
        self.assertEqual((said["damage"], said["leaked_pages"]), (1, 0))
        self.verify(code=3, plugin=None)

    def test_leak(self):
        self.make("leak")
        said = json.loads(self.verify("--json", code=1))
        self.assertEqual([f["kind"] for f in said["findings"]], ["leak"])
        self.assertEqual(said["leaked_pages"], 1)

    def test_damaged_page(self):
        """A leaf says that it has room for no entry. The checksum of the leaf is right."""
        self.make("sound")
        self.write(self.leaf, HEAD + 2, b"\0\0")  # room for no entry
        said = json.loads(self.verify("--json", code=1))
        self.assertIn((self.leaf, f'example.ordered "ordered": page {self.leaf}: is not a page of '
                       "an ordered structure"),
                      [(f["page"], f["message"]) for f in said["findings"]])
        self.assertEqual(said["leaked_pages"], 0)  # not all pages of the structure could be listed

    def test_bytes_at_random(self):
        """A leaf has a bad checksum. Either the log restores the leaf, or the check finds the
        damage."""
        self.make("sound")
        with open(os.path.join(self.db, "pages"), "r+b") as file:
            file.seek(self.leaf * PAGE + 900)
            file.write(b"x" * 100)
        self.assertIn(f"page {self.leaf}", self.verify(code=1))


class Mistakes(Case):
    """Each mistake of a check is reported. If later findings would be unreliable, verify ends."""

    def setUp(self):
        super().setUp()
        self.make("sound")

    def test_checks_that_break_rules_end_verify(self):
        for mistake, says in (("hold", "holds a page when it returns"),
                              ("change", "has changed the database"),
                              ("open", "has left a transaction open")):
            said = self.verify(code=2, plugin=BAD, mistake=mistake)
            self.assertIn(f'check of "test.bad", for root "ordered", {says}', said)
        self.assertIn("no memory for the check", self.verify(code=2, plugin=BAD, mistake="memory"))

    def test_findings_of_checks_are_reported(self):
        for mistake, says in (("number", "check has returned -7"), ("silent", "check: "),
                              ("beyond", "beyond the end of the page file"),
                              ("twice", "belongs to it and to something else"),
                              ("listing", "its list is broken")):
            said = json.loads(self.verify("--json", code=1, plugin=BAD, mistake=mistake))
            found = [f for f in said["findings"] if f["kind"] == "damage"]
            self.assertEqual(len(found), 1, said)
            self.assertIn(says, found[0]["message"])
            self.assertEqual(found[0]["code"], "LLADD_CORRUPT_PAGE")

    def test_what_is_not_checked(self):
        out = self.verify(code=3, plugin=BAD, mistake="config")
        self.assertIn('test.bad "ordered" cannot be checked here: its layers', out)

    def test_check_that_lists_no_pages(self):
        """If a check lists no pages, pages without an owner are counted, but are no leak."""
        said = json.loads(self.verify("--json", code=0, plugin=BAD, mistake="unlisted"))
        self.assertGreater(said["structures"]["unowned_pages"], 3)
        self.assertEqual(said["leaked_pages"], 0)
        # This check lists only the root, so the leaves have no owner.
        said = json.loads(self.verify("--json", code=1, plugin=BAD))
        self.assertGreater(said["leaked_pages"], 3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
