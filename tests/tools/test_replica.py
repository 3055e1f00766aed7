#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd replica: test_replica.py <lladd>.

Events that this program writes by itself, as docs/replication.md says, are applied through a pipe,
in one piece and in several, checked, and printed. Streams that are cut off, damaged or wrong; a row
that differs; a process that is killed while it applies."""
import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

from dumps import crc32c

LLADD = sys.argv[1]
BEGIN, COMMIT, ABORT, PUT, DELETE, RANGE, MARK = range(1, 8)
NONE, FOUND = 1, 2
U32, STRING = 1, 4


def event(kind, position, txn=0, table="", key=None, to=None, before=None, after=None, type=U32):
    def key_bytes(k):
        return b"" if k is None else struct.pack("<Q", k) if type == U32 else k.encode()

    def value(v):
        return (0, b"") if v is None else (NONE, b"") if v is NONE else (FOUND, v.encode())

    was, now = value(before), value(after)
    name = table.encode() + b"\0" if table else b""
    body = name + key_bytes(key) + key_bytes(to) + was[1] + now[1]
    flags = was[0] | now[0] << 2 | (key is not None) << 4 | (to is not None) << 5
    head = struct.pack("<IQQBBBBBBHHHII", crc32c(body), position, txn, 1, kind,
                       type if key is not None or to is not None else 0, flags, len(name), 0,
                       len(key_bytes(key)), len(key_bytes(to)), 0, len(was[1]), len(now[1]))
    return struct.pack("<I", crc32c(head)) + head + body


def tree(folder):
    seen = hashlib.sha256()
    for base, below, names in os.walk(folder):
        below.sort()
        for name in sorted(names):
            with open(os.path.join(base, name), "rb") as file:
                seen.update(name.encode() + b"\0" + file.read() + b"\0")
    return seen.hexdigest()


FIRST = [event(MARK, 1, 1), event(BEGIN, 10, 1), event(PUT, 11, 1, "rows", 5, after="five"),
         event(BEGIN, 12, 2), event(PUT, 13, 2, "rows", 6, before=NONE, after="six"),
         event(COMMIT, 14, 1), event(PUT, 15, 2, "names", "key", type=STRING, after="value")]
SECOND = [event(DELETE, 16, 2, "rows", 5, before="five"), event(COMMIT, 17, 2),
          event(BEGIN, 18, 3), event(RANGE, 19, 3, "rows", 1, 7), event(ABORT, 20, 3)]


class Replica(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.db = os.path.join(temporary.name, "db")
        for name, key in (("rows", "u32"), ("names", "string")):
            self.lladd("dtable", "create", "--unlogged", "--key", key, self.db, name)

    def lladd(self, *args, events=b"", code=0):
        done = subprocess.run([LLADD, *map(str, args)], input=events, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False)
        out, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, code, f"{args}: {out}{err}")
        return out + err

    def apply(self, events, *options, code=0):
        return self.lladd("replica", "apply", *options, self.db, "r", events=b"".join(events),
                          code=code)

    def make(self, events):
        return self.apply(events, "--tables", "rows,names", "--source", "a shop")

    def scan(self, table):
        return self.lladd("dtable", "scan", "--csv", self.db, table).splitlines()

    def status(self, *options):
        return json.loads(self.lladd("replica", "status", "--json", *options, self.db, "r"))

    def test_apply(self):
        self.assertIn("applied up to             15", self.make(FIRST))
        self.assertEqual((self.scan("rows"), self.scan("names")), (["5,five"], []))
        s = self.status()
        self.assertEqual((s["name"], s["source"], s["from"], s["durable"]), ("r", "a shop", 12, 12))
        self.assertEqual([t["name"] for t in s["tables"]], ["rows", "names"])
        # the source sends from position 12 on; sending all again is right, too
        for stream in (FIRST[3:] + SECOND, FIRST + SECOND):
            self.apply(stream)
            self.assertEqual((self.scan("rows"), self.scan("names")), (["6,six"], ["key,value"]))
            self.assertEqual(self.status()["from"], 21)
        text = self.lladd("replica", "status", self.db)
        self.assertIn("replica r\n", text)
        self.assertIn("next event needed         21\n", text)
        self.assertIn("no damage", self.lladd("verify", self.db))

    def test_options(self):
        self.assertIn("name its tables", self.apply(FIRST, code=2))
        self.make(FIRST)
        self.assertIn("LLADD_OTHER_DATABASE", self.apply([], "--source", "another", code=2))
        self.assertIn("LLADD_BAD_ARGUMENT", self.apply([], "--tables", "rows", code=2))
        out = self.apply(FIRST + SECOND, "--batch", 1, "--buffer", 1, "--compare", "--json")
        self.assertEqual(json.loads(out)["transactions"], 1)
        for wrong in (["nothing"], [], ["apply", self.db], ["dump"], ["apply", "--batch", "0"]):
            self.lladd("replica", *wrong, code=2)
        self.assertIn("--tables", self.lladd("replica", "--help"))

    def test_wrong_streams(self):
        self.make(FIRST)
        stream = b"".join(FIRST + SECOND)
        self.assertIn("end in an event, at byte", self.apply([stream[:-1]], code=1))
        self.assertEqual(self.scan("rows"), ["6,six"])
        damaged = bytearray(stream)
        damaged[len(FIRST[0]) + 20] ^= 1
        err = self.apply([bytes(damaged)], code=1)
        self.assertIn(f"byte {len(FIRST[0])} of the events", err)
        self.assertIn("LLADD_BAD_RECORD", err)
        self.assertIn("is not open", self.apply([event(COMMIT, 30, 9)], code=1))
        self.assertIn("copy the tables anew", self.apply([event(MARK, 90, 80)], code=2))

    def test_check(self):
        self.make(FIRST)
        before = tree(self.db)
        good = b"".join(FIRST + SECOND)
        out = self.lladd("replica", "check", self.db, "r", events=good)
        self.assertIn("applied up to             20", out)
        wrong = b"".join(FIRST + [event(DELETE, 16, 2, "rows", 5, before="cinq")] + SECOND[1:])
        err = self.lladd("replica", "check", self.db, "r", events=wrong, code=1)
        self.assertIn('table "rows" differs from its source at position 16', err)
        self.assertIn("key 5 has another value", err)
        self.assertEqual(tree(self.db), before)
        self.assertIn("LLADD_DIVERGED", self.apply([wrong], "--compare", code=1))
        self.apply([wrong])
        self.assertEqual(self.scan("rows"), ["6,six"])

    def test_dump(self):
        stream = b"".join(FIRST + SECOND)
        lines = self.lladd("replica", "dump", "-", events=stream).splitlines()
        self.assertEqual(len(lines), len(FIRST + SECOND))
        self.assertEqual(lines[0], "1 mark 1")
        self.assertEqual(lines[4], '13 put 2 rows 6 "six" before -')
        self.assertEqual(lines[6], '15 put 2 names "key" "value"')
        self.assertEqual(lines[7], '16 delete 2 rows 5 before "five"')
        self.assertEqual(lines[10], "19 delete-range 3 rows 1 7")
        path = os.path.join(os.path.dirname(self.db), "events")
        with open(path, "wb") as file:
            file.write(stream)
        lines = self.lladd("replica", "dump", "--json", path).splitlines()
        self.assertEqual(json.loads(lines[4]), {"position": 13, "kind": "put", "transaction": 2,
                                                "table": "rows", "key": 6, "before": None,
                                                "after": "six"})
        self.assertIn("15 put 2 names 6b6579 76616c7565\n",
                      self.lladd("replica", "dump", "--hex", path))
        self.lladd("replica", "dump", path + "x", code=2)

    def test_pipe_and_kill(self):
        """A process applies what comes through a pipe, and is killed; the next one goes on."""
        self.make([])
        want = {}
        position = 0
        stream = []
        for n in range(1, 1200):
            key, position = n * 7 % 100, position + 3
            stream += [event(BEGIN, position, n), event(PUT, position + 1, n, "rows", key,
                                                        after=str(n)),
                       event(COMMIT, position + 2, n)]
            want[key] = str(n)
        for size in (500, 1500, len(stream)):
            start = self.status()["from"]
            process = subprocess.Popen([LLADD, "replica", "apply", self.db, "r"],
                                       stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
            rest = [e for e in stream if struct.unpack_from("<Q", e, 8)[0] >= start]
            process.stdin.write(b"".join(rest[:size]))
            process.stdin.flush()
            if size < len(stream):
                process.send_signal(signal.SIGKILL)
            process.stdin.close()
            process.wait()
        self.assertEqual(sorted(self.scan("rows")),
                         sorted(f"{key},{n}" for key, n in want.items()))
        self.assertIn("no damage", self.lladd("verify", self.db))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
