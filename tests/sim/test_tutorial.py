#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/simulator.md quotes the output of examples/simulate: line by line, in that order, except
numbers and tokens. The broken operation is caught in less than a second; the right one passes.

test_tutorial.py <root> <simulate> [--slow: no limit of time, for instrumented builds]"""
import os
import re
import resource
import subprocess
import sys

SECONDS = 1.0


def run(program, which):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([program, which], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.returncode, done.stdout.split("\n"), took


def shape(line):
    """The line without the parts that differ between builds."""
    line = re.sub(r"token \S+", "token T", line.strip())
    line = re.sub(r"\b0x[0-9a-f]{2}\b|\b[0-9a-f]{16}\b|\d+(\.\d+)?", "N", line)
    return re.sub(r"\s+", " ", line)


def quoted(page):
    with open(page, encoding="utf-8") as file:
        return [block.rstrip("\n").split("\n")
                for block in re.findall(r"^```text\n(.*?)^```", file.read(), re.M | re.S)]


def follow(block, said):
    """The first line of the block that is missing in the output, or None."""
    at = 0
    for line in block:
        while at < len(said) and shape(said[at]) != shape(line):
            at += 1
        if at == len(said):
            return line
        at += 1
    return None


def main(root, program, slow):
    status, said, took = run(program, "broken")
    if status != 1:
        sys.exit(f"the broken operation: status {status}\n" + "\n".join(said))
    blocks = quoted(os.path.join(root, "docs", "simulator.md"))
    if len(blocks) != 3:
        sys.exit(f"docs/simulator.md quotes {len(blocks)} times")
    for block in blocks:
        missing = follow(block, said)
        if missing is not None:
            sys.exit(f"it does not say {missing!r}:\n" + "\n".join(said))
    if took > SECONDS and not slow:
        sys.exit(f"it took {took:.2f} s")
    status, said, _ = run(program, "right")
    if status != 0 or not any("everything within the bounds" in line for line in said):
        sys.exit(f"the right operation: status {status}\n" + "\n".join(said))
    print(f"caught in {took:.2f} s")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "--slow" in sys.argv)
