#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd replica tail: test_replica_tail.py <lladd>.

One database is the source, another one has the replica, and events go through a pipe: all of them,
from a position, following, with refusals, and with processes that are killed at both ends. With
LLADD_NIGHTLY there are more kills; LLADD_SEED=N chooses other places."""
import fcntl
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

LLADD = sys.argv[1]
TABLES = ("rows", "more")
COMMIT, PUT, MARK = 2, 4, 7
ROUNDS = 300 if os.environ.get("LLADD_NIGHTLY") else 12


class Tail(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.a, self.b = (os.path.join(temporary.name, name) for name in "ab")
        for table in TABLES:
            self.lladd("dtable", "create", "--key", "u32", self.a, table)
            self.lladd("dtable", "create", "--unlogged", "--key", "u32", self.b, table)

    def lladd(self, *args, text="", code=0):
        done = subprocess.run([LLADD, *map(str, args)], input=text.encode(), capture_output=True,
                              check=False)
        err = done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{args}: {err}")
        return err if code else done.stdout.decode(errors="replace")

    def put(self, table, rows, batch=1000):
        self.lladd("dtable", "put", "--csv", "--batch", batch, self.a, table,
                   text="".join(f"{k}\n" if v is None else f"{k},{v}\n" for k, v in rows))

    def where(self):
        """Opens the replica."""
        return json.loads(self.lladd("replica", "apply", "--json", "--tables", ",".join(TABLES),
                                     self.b, "r"))

    def tail(self, *options, **more):
        return subprocess.Popen([LLADD, "replica", "tail", "--tables", ",".join(TABLES),
                                 *map(str, options), self.a, "r"], stdout=subprocess.PIPE, **more)

    def events(self, *options):
        """The events as text, without their positions."""
        tail = self.tail(*options)
        dump = subprocess.run([LLADD, "replica", "dump", "-"], stdin=tail.stdout,
                              capture_output=True, check=True)
        tail.stdout.close()
        self.assertEqual(tail.wait(), 0)
        words = [line.split() for line in dump.stdout.decode().splitlines()]
        return [" ".join([w[1], *w[3:]]) for w in words if w[1] != "mark"]

    def catch_up(self):
        """What docs/replication.md says."""
        at = self.where()
        tail = self.tail("--from", at["from"], "--acknowledge", at["durable"])
        apply = subprocess.run([LLADD, "replica", "apply", self.b, "r"], stdin=tail.stdout,
                               capture_output=True, check=False)
        tail.stdout.close()
        self.assertEqual((tail.wait(), apply.returncode), (0, 0), apply.stderr)
        for table in TABLES:
            self.assertEqual(*(self.lladd("dtable", "scan", db, table) for db in (self.a, self.b)))

    def test_once(self):
        self.put("rows", [(1, "one"), (2, "two")])
        self.put("more", [(1, "eins")])
        first = ['begin', 'put rows 1 "one"', 'put rows 2 "two"', 'commit',
                 'begin', 'put more 1 "eins"', 'commit']
        self.assertEqual(self.events(), first)
        self.catch_up()
        at = self.where()["from"]
        self.assertEqual(self.events("--from", at), [])
        self.put("rows", [(1, None)])
        self.lladd("dtable", "del", "--range", self.a, "more", 1, 5)
        self.assertEqual(self.events("--from", at), ['begin', 'delete rows 1', 'commit', 'begin',
                                                     'delete-range more 1 5', 'commit'])
        self.lladd("dtable", "maintain", self.a, "rows")
        self.assertEqual(self.events()[:len(first)], first)
        self.catch_up()

    def test_acknowledge(self):
        """What a replica has durably moves the pin of the next call."""
        def pinned():
            pins = [p for p in json.loads(self.lladd("stat", "--json", self.a))["pinners"]
                    if p.get("name") == "replica.r"]
            return pins[0]["lsn"]
        self.catch_up()
        before = pinned()
        self.put("rows", [(k, "v" * 1000) for k in range(2000)], 100)
        self.catch_up()
        self.assertEqual(pinned(), before)
        self.catch_up()
        self.assertGreater(pinned(), before + (1 << 20))
        self.put("rows", [(1, "one")])
        self.catch_up()

    def test_refusals(self):
        def refused(word, *args):
            self.assertIn(word, self.lladd("replica", "tail", *args, code=2))
        refused("--tables", self.a, "r")
        refused("--json", "--json", "--tables", "rows", self.a, "r")
        refused("LLADD_NOT_FOUND", "--tables", "rows,nothing", self.a, "r")
        refused("LLADD_BAD_STATE", "--tables", "rows", self.b, "r")
        refused("--follow", "--follow", "0", "--tables", "rows", self.a, "r")
        refused("an argument is missing", "--tables", "rows", self.a)
        master, terminal = os.openpty()
        for out, word in ((os.open("/dev/full", os.O_WRONLY), b"cannot be written"),
                          (terminal, b"events are bytes")):
            done = subprocess.run([LLADD, "replica", "tail", "--tables", "rows", self.a, "r"],
                                  stdout=out, stderr=subprocess.PIPE, check=False)
            os.close(out)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(word, done.stderr)
        os.close(master)
        with open(os.path.join(self.a, "lock"), "rb+") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            refused("LLADD_LOCKED", "--tables", "rows", self.a, "r")

    def next_event(self, tail):
        """Returns (kind, position) of the next event in the pipe."""
        head = tail.stdout.read(44)
        self.assertEqual(len(head), 44, "the events have ended")
        _, _, position, _, _, kind, _, _, name, _, key, to, _, was, now = struct.unpack(
            "<IIQQBBBBBBHHHII", head)
        tail.stdout.read(name + key + to + was + now)
        return kind, position

    def test_follow(self):
        """What is written while nothing else has the database open comes later."""
        self.put("rows", [(1, "one")])
        with open(os.path.join(self.a, "lock"), "rb+") as lock:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            tail = self.tail("--follow", 1, stderr=subprocess.PIPE)
            self.addCleanup(tail.kill)
            self.assertIn(b"in use; waiting", tail.stderr.readline())
        seen = 0
        for n in range(3):
            kinds = []
            while kinds[-1:] != [MARK]:
                kind, position = self.next_event(tail)
                self.assertGreater(position + (kind == PUT), seen)
                seen = position
                kinds.append(kind)
            self.assertEqual(kinds.count(COMMIT), 1)
            while subprocess.run([LLADD, "dtable", "put", self.a, "rows", str(n), "x"],
                                 stderr=subprocess.DEVNULL, check=False).returncode:
                pass  # it is in use until the look ends
        tail.stdout.close()
        self.assertIn(b"cannot be written", tail.stderr.read())
        tail.stderr.close()
        self.assertEqual(tail.wait(), 2)
        self.assertIn("clean", self.lladd("stat", self.a))

    def kill_one(self, rng):
        """Kills one of the processes, or both, after a number of bytes in the pipe."""
        at = self.where()
        tail = self.tail("--from", at["from"], "--acknowledge", at["durable"],
                         stderr=subprocess.DEVNULL)
        apply = subprocess.Popen([LLADD, "replica", "apply", "--batch", str(rng.randrange(1, 9)),
                                  self.b, "r"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        victim, other = rng.choice([(tail, apply), (apply, tail)])
        try:
            apply.stdin.write(tail.stdout.read(rng.randrange(60000)))
            apply.stdin.flush()
        except BrokenPipeError:
            self.fail("apply has ended by itself")
        victim.send_signal(signal.SIGKILL)
        if rng.randrange(4) == 0:
            other.send_signal(signal.SIGKILL)
        elif victim is tail and rng.randrange(2):  # the rest of the pipe arrives
            apply.stdin.write(tail.stdout.read())
        tail.stdout.close()
        try:
            apply.stdin.close()
        except BrokenPipeError:
            pass  # apply was killed
        victim.wait()
        # the other one has met the end of the pipe, or has ended before
        self.assertIn(other.wait(), (-signal.SIGKILL, 0, 1, 2))

    def test_killed_pipes(self):
        seed = int(os.environ.get("LLADD_SEED", "1"))
        rng = random.Random(seed)
        for n in range(ROUNDS):
            for _ in range(2):
                self.put(rng.choice(TABLES), [(rng.randrange(300), rng.choice([None, n, "x" * 99]))
                                              for _ in range(rng.randrange(300))],
                         rng.randrange(1, 40))
            if rng.randrange(4) == 0:
                self.lladd("dtable", "maintain", rng.choice([self.a, self.b]), rng.choice(TABLES))
            self.kill_one(rng)
            if n % 4 == 3:
                self.catch_up()
        for db in (self.a, self.b):
            self.assertIn("no damage", self.lladd("verify", db))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
