#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The example programs print the expected text, in the first run and in the next.

test_examples.py <folder of the programs>"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def run(program, *args, expect=0):
    done = subprocess.run([program, *args], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    if done.returncode != expect:
        sys.exit(f"{program} ended with {done.returncode}: {done.stdout}")
    return done.stdout


def same(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r} instead of {want!r}")


def hello(program, folder):
    db = os.path.join(folder, "hello")
    same("hello", run(program, db, "Ada was here"), "Ada was here\n")
    same("hello", run(program, db, "Bob, too"), "Ada was here\nBob, too\n")
    if "DIR TEXT" not in run(program, expect=1):
        sys.exit("hello without arguments does not say what it wants")


def counter(program, folder):
    db = os.path.join(folder, "counter")
    for number in (1, 2, 3):
        same("counter", run(program, db), f"this is run number {number}\n")
    with open(os.path.join(folder, "file"), "w", encoding="utf-8") as file:
        file.write("no directory")
    if "LLADD_" not in run(program, os.path.join(folder, "file"), expect=1):
        sys.exit("counter does not say what is wrong")


def transfer(program, folder):
    db = os.path.join(folder, "transfer")
    same("transfer", run(program, db),
         "transfer 1: 60 done\ntransfer 2: 50 refused\ntransfer 3: 35 done\n"
         "alice: 2\nbob: 95\nbank: 3\nnumbers drawn: 3\n")
    same("transfer", run(program, db),
         "transfer 4: 60 refused\ntransfer 5: 50 refused\ntransfer 6: 35 refused\n"
         "alice: 2\nbob: 95\nbank: 3\nnumbers drawn: 6\n")


def reserve(program, folder):
    db = os.path.join(folder, "reserve")
    same("reserve", run(program, db),
         "both have reserved: 5 free, 5 sold\nrefused: 5 seats are left\n"
         "one is rolled back: 8 free, 2 sold\n")
    same("reserve", run(program, db),
         "both have reserved: 3 free, 7 sold\nrefused: 3 seats are left\n"
         "one is rolled back: 6 free, 4 sold\n")


def locked_table(program, folder):
    db = os.path.join(folder, "locked_table")
    for _ in range(2):
        same("locked_table", run(program, db),
             "before: 1000\nafter 400 moves: 1000\nlocked now: 0\n")


def range_locks(program, folder):
    db = os.path.join(folder, "range_locks")
    for _ in range(2):
        same("range_locks", run(program, db),
             "a deletion that is rolled back, without locks: 0, then 1: a phantom\n"
             "an insertion, without locks: 1, then 2: a phantom\n"
             "a deletion that is rolled back, with locks: 1, then 1\n"
             "an insertion, with locks: 1, then 1\n"
             "240 transactions of 4 threads: 0 phantoms\nno day is overbooked\nlocked now: 0\n")


def on_call(program, folder):
    db = os.path.join(folder, "on_call")
    for _ in range(2):
        out = run(program, db)
        if not re.fullmatch(r"snapshots alone:\n  on call: 0\nsnapshots and locks:\n"
                            r"  doctor 1 stays: X on \{.*\}: in the way .*\n  on call: 1\n", out):
            sys.exit(f"on_call: {out}")


def members(program, folder):
    db = os.path.join(folder, "members")
    for _ in range(2):
        same("members", run(program, db),
             "7 is a member\n8 is no member\n7000 is a member, the 1000th\n"
             "100000 rows in 782 KiB\n")


def indexed(program, folder):
    db = os.path.join(folder, "indexed")
    seen = "city Paris: 1 3\ncity Rome: 2\ncities from O to Rome: 1 3\nemail ada: 1\n"
    for _ in range(2):
        same("indexed", run(program, db),
             "a unique index on cities: LLADD_EXISTS\na second ada: LLADD_EXISTS\n"
             f"{seen}{seen}city Rome: 2\na row that has changed since: LLADD_CONFLICT\n"
             "the indexes agree with the table\n")


def ring_queue(program, folder):
    db = os.path.join(folder, "ring-queue")
    same("ring-queue", run(program, db, "put", "one", "two"), "")
    same("ring-queue", run(program, db, "take"), "one\n")
    same("ring-queue", run(program, db, "put", "three"), "")
    same("ring-queue", run(program, db, "put", "four", "x" * 32, expect=1),
         "LLADD_TOO_LARGE: the word is too long\n")
    same("ring-queue", run(program, db, "take"), "two\n")
    same("ring-queue", run(program, db, "take"), "three\n")
    same("ring-queue", run(program, db, "take", expect=1),
         "LLADD_NOT_FOUND: there is no item to take\n")
    if "usage" not in run(program, db, "put", expect=2):
        sys.exit("ring-queue does not say how it is used")


def dtables(program, folder):
    db = os.path.join(folder, "dtables")
    if "usage" not in run(program, db, "many", expect=2):
        sys.exit("dtables does not say how it is used")
    for _ in range(2):
        out = run(program, db, "5000")
        parts = re.split(r"^(\w.*)\n", out, flags=re.M)[1:]
        size = {}
        for head, lines in zip(parts[::2], parts[1::2]):
            for line in lines.splitlines():
                row = re.fullmatch(r"  (.+?) +([0-9.]+) MiB +([0-9.]+) bytes a row +[0-9.]+ us, "
                                   r"absent +[0-9.]+ us", line)
                if row:
                    size[len(size), head.split(",")[0], row[1]] = float(row[3])
                elif not re.fullmatch(r"    \w+: [0-9.]+ ns a value when all are read|"
                                      r"  .*array +cannot store the row of key 0", line):
                    sys.exit(f"dtables: {line}")
        smaller(size, "linear", "Bloom filter, states in an array (figure 8)", 2)
        smaller(size, "time: array", "time: differences, exceptions apart (figure 9)", 1.5)
        smaller(size, "column store, linear", "column store, states as in figure 8", 1.75)
        smaller(size, "column store, arrays", "column store, time as in figure 9", 1.2)
        if out.count("differences in two bytes, array          cannot store the row of key") != 2:
            sys.exit(f"dtables stores what is too large: {out}")


def smaller(size, one, other, times):
    """Looks at each part of the output (about runs, managed tables and cTables) that has both rows.
    Asserts that there `one` is at least `times` times as large as `other`.
    """
    pairs = list(zip([v for k, v in size.items() if k[2] == one],
                     [v for k, v in size.items() if k[2] == other]))
    if not pairs or any(b * times > a for a, b in pairs):
        sys.exit(f"dtables: {other} is not so small: {size}")


def main(programs):
    folder = tempfile.mkdtemp(prefix="lladd-examples-")
    try:
        for example in (hello, counter, transfer, reserve, locked_table, range_locks, on_call,
                        members, indexed, dtables):
            example(os.path.join(programs, example.__name__), folder)
        ring_queue(os.path.join(programs, "ring-queue"), folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1])
