#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The lladd command on large databases: test_large.py <lladd> <make_db> <plugin.so>.

The command works on a log that is larger than the memory that it may use. It does not report a
lack of space as damage. It shows its progress on a terminal, and does not write it to a pipe."""
import os
import pty
import re
import resource
import subprocess
import sys
import tempfile
import unittest

from dumps import dump, structure

LLADD, MAKE_DB, PLUGIN = sys.argv[1:4]
MEMORY = 64 << 20  # the least that --memory accepts
LOG_MIB = 160      # the pages take about as many mebibytes
GONE = "\r\x1b[K"


def limit():
    """Limits private writable memory, including the heap (setrlimit(2), RLIMIT_DATA)."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def run(*args, bound=False, env=None, text=None):
    return subprocess.run([LLADD, *args], input=text or "", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, preexec_fn=limit if bound else None, text=True,
                          env=dict(os.environ, **env) if env else None)


def can_be_bound():
    """False under a sanitizer, which needs more memory than the limit."""
    return run("--help", bound=True).returncode == 0


class Large(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.db = os.path.join(cls.temporary.name, "large")
        subprocess.run([MAKE_DB, "--large", str(LOG_MIB), cls.db], check=True)
        log = os.path.join(cls.db, "log")
        assert sum(os.path.getsize(os.path.join(log, f)) for f in os.listdir(log)) > 2 * MEMORY

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def look(self, *args, env=None):
        done = run(args[0], "--memory", str(MEMORY), *args[1:], self.db, bound=can_be_bound(),
                   env=env)
        return done.returncode, done.stdout, done.stderr

    def test_verify(self):
        code, out, err = self.look("verify")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("\nno damage\n", out)
        self.assertNotIn("structures: not checked", out)

    def test_dump(self):
        code, out, err = self.look("dump")
        self.assertEqual((code, err), (0, ""))
        self.assertTrue(out)

    def test_temporary_files_are_removed(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(self.look("verify", env={"TMPDIR": folder})[0], 0)
            self.assertEqual(os.listdir(folder), [])

    def test_no_folder_for_temporary_files(self):
        """If the folder is missing, verify does not report damage. It reports that it could not
        read everything."""
        code, out, err = self.look("verify", env={"TMPDIR": "/nowhere/at/all"})
        self.assertEqual(code, 2)
        self.assertIn("not everything could be read", err)
        self.assertIn("structures: not checked: ", out)
        self.assertNotIn("damaged place", out)
        self.assertNotIn("\nno damage\n", out)

    def test_memory_limit_is_too_low(self):
        done = run("verify", "--memory", str(MEMORY - 1), self.db)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn(f"--memory: at least {MEMORY}", done.stderr)


class Progress(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.db = os.path.join(temporary.name, "db")
        self.text = os.path.join(temporary.name, "text")
        with open(self.text, "w", encoding="latin-1") as file:
            file.write(dump(structure("hash", "people", [("alice", "17")], key=0, value=0)))
        subprocess.run([LLADD, "load", "--create", self.db, self.text], check=True)

    def on_terminal(self, *args, text=None):
        """Returns what the command writes to a terminal as standard error. Asserts that the
        standard output is the usual one."""
        mine, its = pty.openpty()
        with subprocess.Popen([LLADD, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=its) as child:
            os.close(its)
            child.stdin.write((text or "").encode())
            child.stdin.close()
            seen = b""
            while True:
                try:
                    more = os.read(mine, 4096)
                except OSError:  # the other end is closed
                    break
                if not more:
                    break
                seen += more
            self.out = child.stdout.read().decode()
        os.close(mine)
        self.assertEqual(child.returncode, 0)
        return seen.decode()

    def check(self, *args, says, verb=None, text=None):
        """The command shows the progress only on a terminal, and erases it at the end."""
        seen = self.on_terminal(*args, text=text)
        for what in says:
            self.assertIn(f"{GONE}lladd {verb or args[0]}: {what}", seen)
        self.assertTrue(seen.endswith(GONE), seen)
        done = run(*args, text=text)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_verify(self):
        out = self.check("verify", self.db, says=["reading the log", "checking the pages 0 %",
                                                  "hash people"])
        self.assertEqual(out, self.out)

    def test_dump(self):
        self.assertEqual(self.check("dump", self.db, says=["people 100 %"]), self.out)

    def test_load(self):
        self.check("load", "--replace", self.db, self.text, says=["people 100 %"])

    def test_verbs_that_read_the_log(self):
        for args in (["log", "--stats"], ["ops"], ["recover", "--dry-run"]):
            self.assertEqual(self.check(*args, self.db, says=["reading the log"]), self.out)

    def test_page(self):
        """lladd page reads the log for newer records, and again for the history."""
        db = self.db + ".crashed"
        made = subprocess.run([MAKE_DB, "crashed", db], check=True, stdout=subprocess.PIPE,
                              text=True).stdout
        page = re.search(r"^bytes (\d+)$", made, re.M).group(1)
        for args in (["page"], ["page", "--history"], ["page", "--history", "--json"]):
            self.assertEqual(self.check(*args, db, page, says=["reading the log"]), self.out)
        seen = self.on_terminal("page", "--history", db, page)
        # The progress is erased after the first walk, which begins at redo. The second walk begins
        # with the log.
        self.assertIn(GONE + GONE + "lladd page: reading the log 0 %", seen)

    def test_dtable(self):
        db = self.db + ".tables"
        for table, options in (("t", []), ("c", ["--columns", "A,B"])):
            run("dtable", "create", *options, db, table)
            head = "key,A,B\n" if table == "c" else ""
            more = ",y" if table == "c" else ""
            text = head + "".join(f"k{i},x{more}\n" for i in range(300))
            for batch in ([], ["--batch", "7"]):
                self.check("dtable", "put", "--csv", *batch, db, table, verb="dtable put --csv",
                           says=["rows 1"], text=text)
            self.assertEqual(self.check("dtable", "scan", "--csv", db, table,
                                        verb="dtable scan", says=["rows 1"]), self.out)
            self.assertEqual(len(self.out.splitlines()), 300 + len(head.splitlines()))
            self.check("dtable", "maintain", db, table, verb="dtable maintain",
                       says=["flushing the journal", "compacting runs"])
            self.check("dtable", "maintain", "--combine", db, table, verb="dtable maintain",
                       says=["flushing the journal", "compacting all runs", "compacting runs"])

    def test_recover(self):
        db = self.db + ".crashed"
        subprocess.run([MAKE_DB, "crashed", db], check=True, stdout=subprocess.DEVNULL)
        seen = self.on_terminal("recover", "--ops", PLUGIN, db)
        for text in ("reading the log", "recovery, undo"):
            self.assertIn(f"{GONE}lladd recover: {text}", seen)
        self.assertTrue(seen.endswith(GONE))
        self.assertIn("analysis: ", self.out)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
