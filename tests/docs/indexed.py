#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""examples/indexed in the simulator: it recovers from every crash. With the planted bug, the entry
of an old value that stays, the simulator says which contents are wrong, and they include it.

indexed.py <root> <lladd-sim> <c compiler>"""
import os
import shutil
import sys
import tempfile

from mistakes import compile_in, simulate

SOURCES = ("indexed.c", "subject.c")
HOW = ":indexed --depth 1 --atomic-pages"


def run(folder, root, sim, cc, flags):
    shutil.copytree(os.path.join(root, "examples", "indexed"), folder)
    compile_in(folder, cc, root, [*flags, *SOURCES], "indexed.so")
    return simulate(folder, sim, "indexed.so", HOW)


def main(root, sim, cc):
    folder = tempfile.mkdtemp(prefix="lladd-indexed-")
    try:
        code, out = run(os.path.join(folder, "right"), root, sim, cc, [])
        if code or "subject indexed: passed" not in out:
            sys.exit(f"status {code}:\n{out}")
        code, out = run(os.path.join(folder, "wrong"), root, sim, cc, ["-DSTALE"])
        # Row 0 has moved from x to y; the index still has it at x.
        if code != 1 or "O2 contents objects" not in out or "x: 0 1 y: 0 2 3 " not in out:
            sys.exit(f"the planted bug: status {code}:\n{out}")
    finally:
        shutil.rmtree(folder)
    print("examples/indexed passes, and not with its planted bug")


if __name__ == "__main__":
    main(*sys.argv[1:4])
