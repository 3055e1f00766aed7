#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs examples/indexed in the simulator. The example recovers from every crash, also with two
threads. The simulator must find two bugs. With the first, -DSTALE, the entry of an old value stays
in the index; the second is made in a copy, in which changes do not lock the values of their
entries.

indexed.py <root> <lladd-sim> <c compiler>"""
import os
import shutil
import sys
import tempfile

from mistakes import compile_in, simulate

SOURCES = ("indexed.c", "subject.c")
ONE = ":indexed --depth 1 --atomic-pages"
TWO = ":indexed.threads --interleave --preemptions 1 --depth 1 --atomic-pages"
LOCK = "    TRY(lock_value(txn, ix, value.data, value.len, LLADD_LOCK_X));\n"
LOCKS = 2  # for an insertion and for a removal


def build(folder, root, cc, flags):
    shutil.copytree(os.path.join(root, "examples", "indexed"), folder)
    compile_in(folder, cc, root, [*flags, *SOURCES], "indexed.so")


def passes(folder, sim, how):
    code, out = simulate(folder, sim, "indexed.so", how)
    if code or ": passed" not in out:
        sys.exit(f"{how}: status {code}:\n{out}")


def fails(folder, sim, how, text):
    code, out = simulate(folder, sim, "indexed.so", how)
    if code != 1 or text not in out:
        sys.exit(f"{how}: status {code}, and not {text}:\n{out}")


def unlock(folder, root, cc):
    """Removes the locks from the copy, and builds it again."""
    path = os.path.join(folder, "indexed.c")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(LOCK) != LOCKS:
        sys.exit(f"indexed.c has {text.count(LOCK)} places that lock a value")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(LOCK, ""))
    compile_in(folder, cc, root, SOURCES, "indexed.so")


def main(root, sim, cc):
    folder = tempfile.mkdtemp(prefix="lladd-indexed-")
    right, wrong = os.path.join(folder, "right"), os.path.join(folder, "wrong")
    try:
        build(right, root, cc, [])
        passes(right, sim, ONE)
        passes(right, sim, TWO)
        build(wrong, root, cc, ["-DSTALE"])
        fails(wrong, sim, ONE, "x: 0 1 y: 0 2 3 ")  # row 0 has moved from x to y
        unlock(right, root, cc)
        fails(right, sim, TWO, "O2 contents objects")
    finally:
        shutil.rmtree(folder)
    print("examples/indexed passes, and fails with each of its bugs")


if __name__ == "__main__":
    main(*sys.argv[1:4])
