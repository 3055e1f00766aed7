#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the demonstration as a command. The demonstration loads a file although it is killed several
times, its figures add up, and wrong input gets a message and exit status 2.

    test_quickstart.py load|input|script <packages program> <quickstart script> [<lladd tool>]
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

TRANSACTIONS = 3000
KILLS = 3


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def number(text):
    return int(text.replace(",", ""))


def stanza_file(folder):
    """Stanzas of many lengths; some are longer than a page."""
    path = os.path.join(folder, "stanzas")
    with open(path, "w", encoding="utf-8") as file:
        for i in range(97):
            file.write(f"Package: p{i}\nText: {'abcdefghij' * (i * i % 601)}\n\n")
    return path


def expect(condition, *what):
    if not condition:
        print(*what)
        sys.exit(1)


def case_load(packages, _script, folder, tool):
    path = stanza_file(folder)
    status, out, err = run(packages, path, "--dir", os.path.join(folder, "db"), "--transactions",
                           str(TRANSACTIONS), "--kills", str(KILLS), "--threads", "3",
                           *(("--lladd", tool) if tool else ()))
    print(out, err)
    expect(status == 0, "exit status", status)
    expect(err == "", "said on stderr:", err)
    lines = out.splitlines()
    expect(len(lines) <= 45 and max(map(len, lines)) <= 120, "more than a screen")
    recoveries = re.findall(r"^Kill \d+ +after ([\d,]+) acknowledged.*; recovery took [\d.]+ s\n"
                            r"  analysis +[\d,]+ log records .* checkpoint: [\d,]+ commits, "
                            r"[\d,]+ unfinished\n"
                            r"  redo, undo +[\d,]+ records applied .*; [\d,]+ transactions rolled",
                            out, re.M)
    expect(len(recoveries) == KILLS, "the number of recoveries is wrong:", recoveries)
    compared = [tuple(number(n or "0") for n in m) for m in
                re.findall(r"compared +([\d,]+) committed: whole; ([\d,]+) aborted: no trace"
                           r"(?:; ([\d,]+) in flight had committed: whole)?$", out, re.M)]
    expect(len(compared) == KILLS + 1, "the number of comparisons is wrong:", compared)
    for acknowledged, (committed, aborted, _) in zip(recoveries, compared):
        expect(committed + aborted == number(acknowledged), "the sum is wrong:", compared)
    committed, aborted, found = compared[-1]
    expect(committed + aborted == TRANSACTIONS and found == 0, "the sum is wrong:", compared)
    expect(aborted > TRANSACTIONS // 50, "hardly any transaction was aborted:", compared)
    expect("no discrepancy" in out, "no result")
    if tool:
        last = out[out.index("Last one"):]
        expect(re.search(r"packages\.count@1\s+cell=\d+\s+stanzas=1\s+bytes=\d+", last),
               "the last transaction has no record of the example's operation")
        # The text names the record of the insertion, or the later records of a split that the
        # insertion caused.
        expect("lladd.hash." in last, "the last transaction has no record of the hash table")


def case_input(packages, _script, folder, _tool):
    good = stanza_file(folder)
    made = {"empty": b"", "blank": b"\n \n\t\r\n", "binary": b"Package: a\n\0\n"}
    for name, content in made.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)
    full = os.path.join(folder, "full")
    os.mkdir(full)
    shutil.copy(good, full)
    db = ("--dir", os.path.join(folder, "db"))
    for words, *command in (
            ("cannot be opened: No such file", os.path.join(folder, "missing"), *db),
            ("is empty", os.path.join(folder, "empty"), *db),
            ("is empty", os.path.join(folder, "blank"), *db),
            ("not text", os.path.join(folder, "binary"), *db),
            ("is a directory", folder, *db),
            ("is not empty", good, "--dir", full),
            ("No such file", good, "--dir", os.path.join(folder, "no", "where")),
            ("of disk", good, *db, "--transactions", "1000000000"),
            ("not a number in range: 0", good, *db, "--transactions", "0"),
            ("not a number in range: 12x", good, *db, "--threads", "12x"),
            ("not a number in range: -1", good, *db, "--kills", "-1"),
            ("more kills than", good, *db, "--kills", "11", "--transactions", "10"),
            ("unknown option", good, *db, "--what"),
            ("one FILE", *db),
            ("one FILE", good, good, *db),
            ("one FILE", good)):
        status, out, err = run(packages, *command)
        expect(status == 2, command, "exit status", status, out, err)
        expect(words in err, command, "said", repr(err), "not", repr(words))
        expect(out == "", command, "began to work:", out)


def case_script(_packages, script, folder, _tool):
    """The script refuses wrong input before it installs or builds anything."""
    empty = os.path.join(folder, "empty")
    open(empty, "wb").close()
    for words, *arguments in (
            ("no such file", os.path.join(folder, "missing")),
            ("is a directory", folder),
            ("is empty", empty),
            ("more than one file", "a", "b"),
            ("unknown option --what", "--what"),
            ("--kills needs a value", "--kills")):
        status, out, err = run("bash", script, *arguments)
        expect(status == 2, arguments, "exit status", status, out, err)
        expect(words in err, arguments, "said", repr(err), "not", repr(words))
    status, out, _ = run("bash", script, "--help")
    expect(status == 0 and "--transactions" in out, "no help")


def main(case, packages, script, tool=None):
    folder = tempfile.mkdtemp(prefix="lladd-quickstart-test.")
    try:
        {"load": case_load, "input": case_input, "script": case_script}[case](
            packages, script, folder, tool)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
