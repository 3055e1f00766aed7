#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Backup, archive and restore with a real S3 server, which is killed meanwhile: test_s3proxy.py
<lladd> <archiver> <build folder>. s3proxy.py says where the server comes from."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import s3proxy

RUN = 1  # seconds until a process is killed


class Real(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.server = s3proxy.Server(cls.place.name, CLASSPATH)
        cls.addClassCleanup(cls.server.stop)
        cls.server.start()

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = temporary.name
        self.db = self.path("db")
        self.store = f"s3://{s3proxy.BUCKET}/{self.id().rpartition('.')[2]}"

    def path(self, name):
        return os.path.join(self.top, name)

    def good(self, *args, code=0, program=None, **more):
        done = subprocess.run([program or LLADD, *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=dict(self.server.environment(), **more))
        out, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, code, f"lladd {args}: {out}{err}")
        return out if code == 0 else out + err

    def put(self, value, *options):
        self.good("hash", "put", *options, self.db, "table", "key", value)
        return json.loads(self.good("stat", "--json", self.db))["log"]["end"]

    def check(self, name, value):
        self.assertIn("no damage", self.good("verify", self.path(name)))
        self.assertEqual(self.good("hash", "get", self.path(name), "table", "key"), value + "\n")

    def test_backup_archive_restore(self):
        self.put("first", "--create")
        made = json.loads(self.good("backup", "--json", self.db, self.store))
        ends = {value: self.put(value) for value in ("one", "two", "three")}
        self.good("archive", "push", self.db, self.store)
        for word in ("compared", "findings", "lost_pages"):  # of the backup, and not of the list
            del made[word]
        self.assertEqual(json.loads(self.good("restore", "--list", "--json", self.store)), [made])
        self.good("restore", self.store, self.path("base"))
        self.check("base", "first")
        for value, end in ends.items():
            self.good("restore", "--to", str(end), self.store, self.path(value))
            self.check(value, value)
        listed = json.loads(self.good("archive", "list", "--json", self.store))
        self.assertEqual(listed["timelines"][0]["ranges"],
                         [{"from": made["end"], "end": ends["three"]}])
        self.assertEqual(self.good("hash", "get", "--from", self.store, "--to", str(ends["two"]),
                                   "table", "key"), "two\n")
        self.assertIn("no damage", self.good("verify", "--from", self.store, "--to", "end"))
        self.assertIn("0 lost writes", self.good("scrub", self.db, self.store))

    def test_an_archiver(self):
        """A process that archives, to its end and on after a kill; its log makes one chain."""
        child = subprocess.Popen([ARCHIVER, self.db, self.store, "100000"],
                                 stdout=subprocess.DEVNULL, env=self.server.environment())
        try:
            child.wait(timeout=RUN)
            self.fail("the archiver has ended by itself")
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait()
        self.assertIn("done", self.good(self.db, self.store, "50", program=ARCHIVER))
        said = json.loads(self.good("archive", "push", "--json", self.db, self.store))
        self.assertFalse(said["gap"])

    def test_the_server_is_killed(self):
        """A backup that loses the server fails, and says so; with the server back, it succeeds."""
        self.put("first", "--create")
        child = subprocess.Popen(
            [LLADD, "backup", "--rate", "20000", self.db, self.store], stderr=subprocess.PIPE,
            env=dict(self.server.environment(), AWS_MAX_ATTEMPTS="2"))
        begun = os.path.join(self.server.top, "objects", s3proxy.BUCKET,
                             self.store.rpartition("/")[2], "base")
        while child.poll() is None and not os.path.exists(begun):
            os.sched_yield()
        self.server.stop(signal.SIGKILL)
        said = child.communicate()[1].decode()
        try:
            self.assertEqual(child.returncode, 2, said)
            self.assertIn(self.store, said)
            self.assertIn("LLADD_STORE_FAILED", said)
            self.assertIn("127.0.0.1", self.good("restore", "--list", self.store, code=2,
                                                 AWS_MAX_ATTEMPTS="1"))
        finally:
            self.server.start()
        self.assertEqual(json.loads(self.good("restore", "--list", "--json", self.store)), [])
        self.good("backup", self.db, self.store)
        self.good("restore", self.store, self.path("copy"))
        self.check("copy", "first")

    def test_wrong_key_and_missing_bucket(self):
        self.put("first", "--create")
        said = self.good("backup", self.db, self.store, code=2, AWS_SECRET_ACCESS_KEY="guessed")
        self.assertIn("SignatureDoesNotMatch", said)
        self.assertIn("LLADD_NO_ACCESS", said)
        self.assertNotIn("guessed", said)
        said = self.good("backup", self.db, "s3://no-such-bucket/x", code=2)
        self.assertIn("NoSuchBucket", said)
        self.assertIn("s3://no-such-bucket/x/", said)


if __name__ == "__main__":
    LLADD, ARCHIVER = sys.argv[1:3]
    CLASSPATH = s3proxy.classpath(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
