#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""docs/simulator.md quotes the output of examples/simulate. The output must have the quoted lines,
in their order, except for numbers and tokens. The simulator must find the mistake of the broken
operation after at most twice as many crash states as the page says. The right operation passes.

test_tutorial.py <root> <simulate>"""
import os
import re
import subprocess
import sys


def run(program, which):
    done = subprocess.run([program, which], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.split("\n")


def states(lines):
    """The number of crash states that a report says."""
    return int(re.search(r"^ *crash states: (\d+)", "\n".join(lines), re.M).group(1))


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
    """Returns the first line of the block that the output does not have, or None."""
    at = 0
    for line in block:
        while at < len(said) and shape(said[at]) != shape(line):
            at += 1
        if at == len(said):
            return line
        at += 1
    return None


def main(root, program):
    status, said = run(program, "broken")
    if status != 1:
        sys.exit(f"the broken operation: status {status}\n" + "\n".join(said))
    blocks = quoted(os.path.join(root, "docs", "simulator.md"))
    if len(blocks) != 3:
        sys.exit(f"docs/simulator.md quotes {len(blocks)} times")
    for block in blocks:
        missing = follow(block, said)
        if missing is not None:
            sys.exit(f"it does not say {missing!r}:\n" + "\n".join(said))
    tried, expected = states(said), states(blocks[1])
    if tried > 2 * expected:
        sys.exit(f"it took {tried} crash states, and the page says {expected}")
    status, said = run(program, "right")
    if status != 0 or not any("everything within the bounds" in line for line in said):
        sys.exit(f"the right operation: status {status}\n" + "\n".join(said))
    print(f"caught after {tried} crash states")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
