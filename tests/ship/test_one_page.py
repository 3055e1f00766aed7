#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd verify --archive and lladd restore --page: test_one_page.py <lladd> <make_db> <plugin.so>
<backup.md>. Each page of a database is damaged, or loses a write: the first command finds it, the
second one restores it."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LLADD, MAKE_DB, PLUGIN, GUIDE = sys.argv[1:5]
PAGE = 4096


def run(*args):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Pages(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = temporary.name
        self.db, self.store = self.path("db"), "dir:" + self.path("store")

    def path(self, name):
        return os.path.join(self.top, name)

    def good(self, *args, code=0):
        got, out, err = run(LLADD, *args)
        self.assertEqual(got, code, f"lladd {args}: {out}{err}")
        return out if code == 0 else out + err

    def pages(self):
        with open(self.path("db/pages"), "rb") as file:
            data = file.read()
        return [data[at:at + PAGE] for at in range(0, len(data), PAGE)]

    def write(self, number, data):
        with open(self.path("db/pages"), "r+b") as file:
            file.seek(number * PAGE)
            file.write(data)

    def compare(self, codes=(0,), ops=()):
        code, out, err = run(LLADD, "verify", "--json", *ops, "--archive", self.store, self.db)
        self.assertIn(code, codes, out + err)
        return json.loads(out)

    def make(self):
        """A database that was changed after its backup, and its pages at the time of the backup."""
        for i in range(40):
            self.good("hash", "put", "--create", self.db, "table", f"key-{i}", "old" * 20)
        self.good("backup", self.db, self.store)
        before = self.pages()
        for i in range(40):
            self.good("hash", "put", self.db, "table", f"key-{i}", "new" * 30)
        self.good("archive", "push", self.db, self.store)
        self.rows = self.good("hash", "scan", self.db, "table")
        return before

    def check(self):
        self.assertEqual(self.compare()["archive"]["lost"], 0)
        self.assertEqual(self.good("hash", "scan", self.db, "table"), self.rows)

    def test_lost_writes(self):
        before, tried = self.make(), 0
        self.assertIn("archive: 0 lost writes",
                      self.good("verify", "--archive", self.store, self.db))
        for number, (old, new) in enumerate(zip(before, self.pages())):
            if old == new or not any(old):
                continue
            objects = sorted(os.walk(self.path("store")))
            self.write(number, old)
            said = self.compare(codes=(1,))
            self.assertEqual([f["page"] for f in said["findings"]
                              if "a write was lost" in f["message"] and "page" in f], [number])
            self.assertEqual(said["archive"]["lost"], 1)
            self.assertEqual(self.pages()[number], old)
            self.assertEqual(sorted(os.walk(self.path("store"))), objects)
            got = json.loads(self.good("restore", "--json", "--page", str(number), self.store,
                                       self.db))
            self.assertEqual((got["page"], got["raw"], got["changed"]), (number, False, True))
            self.assertGreater(got["lsn"], got["before"])
            self.check()
            tried += 1
        self.assertGreater(tried, 1)

    def test_damaged_pages(self):
        self.make()
        for number, page in enumerate(self.pages()):
            if not any(page):
                continue
            self.write(number, b"\x5a" * PAGE)
            self.assertIn("was damaged: restored",
                          self.good("restore", "--page", str(number), self.store, self.db))
            self.assertNotEqual(self.pages()[number], b"\x5a" * PAGE)
            self.check()
        said = self.good("restore", "--page", "1", self.store, self.db)
        self.assertIn("page 1 is as the log and the archive say", said)

    def test_a_page_of_the_past(self):
        before = self.make()
        out = self.path("page")
        used = 0
        for number, page in enumerate(before):
            code, _, err = run(LLADD, "restore", "--page", str(number), "--out", out, self.store)
            if code:
                self.assertEqual((code, "not in use" in err), (2, True), err)
                continue
            used += 1
            with open(out, "rb") as file:
                self.assertEqual(file.read(), page)
            os.unlink(out)
            self.good("restore", "--page", str(number), "--out", out, "--to", "end", self.store)
            with open(out, "rb") as file:
                self.assertEqual(file.read()[24:], self.pages()[number][24:])
            os.unlink(out)
        self.assertGreater(used, 3)
        self.good("restore", "--page", "1", "--out", out, self.store)
        self.assertIn("LLADD_EXISTS",
                      self.good("restore", "--page", "1", "--out", out, self.store, code=2))
        self.assertIn("LLADD_NO_ACCESS", self.good("restore", "--page", "1", "--out",
                                                   self.path("no/page"), self.store, code=2))

    def test_raw_pages(self):
        ops = ("--ops", PLUGIN)
        code, out, err = run(MAKE_DB, "clean", self.db)
        self.assertEqual(code, 0, err)
        raw = int(re.search(r"^raw (\d+)$", out, re.M).group(1)) + 1
        self.good("backup", *ops, self.db, self.store)
        self.assertEqual(self.compare(codes=(0, 3), ops=ops)["archive"]["lost"], 0)
        was = self.pages()[raw]
        self.write(raw, b"\x11" * PAGE)
        said = self.compare(codes=(1,), ops=ops)
        self.assertEqual([f["page"] for f in said["findings"] if f["kind"] == "damage"], [raw])
        self.good("restore", "--page", str(raw), "--out", self.path("raw"), *ops, self.store)
        with open(self.path("raw"), "rb") as file:
            self.assertEqual(file.read(), was)
        got = json.loads(self.good("restore", "--json", "--page", str(raw), *ops, self.store,
                                   self.db))
        self.assertEqual((got["raw"], got["changed"]), (True, True))
        self.assertEqual(self.pages()[raw], was)
        self.assertEqual(self.compare(codes=(0, 3), ops=ops)["archive"]["lost"], 0)
        got = json.loads(self.good("restore", "--json", "--page", str(raw), *ops, self.store,
                                   self.db))
        self.assertFalse(got["changed"])

    def test_wrong_calls(self):
        self.make()
        self.assertIn("is not in use", self.good("restore", "--page", "15", self.store, self.db,
                                                 code=2))
        self.assertIn("there is no page", self.good("restore", "--page", "100000", self.store,
                                                    self.db, code=2))
        self.assertIn("newest state", self.good("restore", "--page", "1", "--to", "end", self.store,
                                                self.db, code=2))
        self.assertIn("--out needs --page", self.good("restore", "--out", self.path("x"),
                                                      self.store, code=2))
        self.assertIn("no directory", self.good("restore", "--page", "1", "--out", self.path("x"),
                                                self.store, self.db, code=2))
        self.assertIn("a store and a directory",
                      self.good("restore", "--page", "1", self.store, code=2))
        self.assertIn("no directory", self.good("restore", "--list", "--page", "1", self.store,
                                                code=2))
        self.assertIn("not a number", self.good("restore", "--page", "one", self.store, self.db,
                                                code=2))
        self.assertIn("with a store", self.good("verify", "--archive", self.store, "--from",
                                                self.store, code=2))
        self.assertIn("expected dir:", self.good("verify", "--archive", "ftp:x", self.db, code=2))
        other = self.path("other")
        self.good("hash", "put", "--create", other, "table", "key", "value")
        self.assertIn("LLADD_OTHER_DATABASE",
                      self.good("verify", "--archive", self.store, other, code=2))
        self.assertIn("no backup", self.good("verify", "--archive", "dir:" + self.path("none"),
                                             other, code=3))

    def test_a_database_in_use(self):
        ops = ("--ops", PLUGIN)
        child = subprocess.Popen([MAKE_DB, "--hold", "clean", self.db], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        while child.stdout.readline() != b"ready\n":
            self.assertIsNone(child.poll())
        self.assertIn("archive: not compared: the database is in use",
                      self.good("verify", *ops, "--archive", self.store, self.db, code=3))
        self.assertIn("LLADD_LOCKED", self.good("restore", "--page", "1", *ops, self.store, self.db,
                                                code=2))
        child.communicate()
        self.assertEqual(child.returncode, 0)

    def test_the_store_is_damaged(self):
        before = self.make()
        number = next(n for n, new in enumerate(self.pages())
                      if n and new != before[n] and any(before[n]))
        self.write(number, before[number])
        base = os.path.join(self.path("store/base"), os.listdir(self.path("store/base"))[0])
        shutil.copytree(self.path("store"), self.path("kept"))
        for name in ("pages.idx", "manifest"):
            with open(os.path.join(base, name), "r+b") as file:
                file.write(b"damage!")
            self.assertIn("LLADD_CORRUPT_BACKUP",
                          self.good("verify", "--archive", self.store, self.db, code=2))
            shutil.copy(os.path.join(base.replace("store", "kept"), name), os.path.join(base, name))
        self.good("restore", "--page", str(number), self.store, self.db)
        self.check()

    def test_the_recipe(self):
        """The commands of the guide, in folders of the test."""
        with open(GUIDE, encoding="utf-8") as file:
            section = re.search(r"^### Restore one page$(.*?)^##", file.read(), re.M | re.S)
        script = "".join(re.findall(r"^```sh\n(.*?)^```", section.group(1), re.M | re.S))
        self.assertIn("restore --page", script)
        script = re.sub(r"(?<![\w/])/(srv|backup)/", lambda m: f"{self.top}/{m.group(1)}/", script)
        script, n = re.subn(r"^(.*?) +# prints (.*)$", r'test "$(\1)" = "\2"', script, flags=re.M)
        self.assertGreater(n, 0)
        for folder in ("srv", "backup"):
            os.mkdir(self.path(folder))
        tools = os.path.dirname(os.path.abspath(LLADD))
        done = subprocess.run(["bash", "-xeu", "-o", "pipefail", "-c", script], cwd=self.top,
                              env=dict(os.environ, PATH=tools + ":" + os.environ["PATH"]),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
