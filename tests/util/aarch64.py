#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""aarch64.py <folder of sources> <include dir>...: clang compiles util/crc32c.c for aarch64
without a warning, and uses the processor's instruction. For aarch64, clang and gcc differ in the
names of the intrinsics, and in the instructions that a single function may use.

aarch64.py --library <folder of sources>: clang reads every source file of the library, of the
simulator and of the XA module for aarch64 without a warning.

The status is 77 (skipped) if clang or the headers of the C library for aarch64 (Debian:
libc6-dev-arm64-cross) are missing; with --library also if LZ4's header is missing."""
import os
import shutil
import subprocess
import sys
import tempfile

HEADERS = "/usr/aarch64-linux-gnu/include"
LZ4 = "/usr/include/lz4.h"  # the same for every processor
FOLDERS = ["util", "io", "log", "buffer", "recovery", "operations", "db", "inspect", "xa", "sim"]
CLANGS = ["clang"] + [f"clang-{n}" for n in range(22, 13, -1)]
FLAGS = ["--target=aarch64-linux-gnu", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror",
         "-isystem", HEADERS, "-xc"]
WARNINGS = ["-D_GNU_SOURCE", "-Wshadow", "-Wconversion", "-Wstrict-prototypes",
            "-Wmissing-prototypes"]
# clang must refuse both: an intrinsic without its declaration, and an instruction that is not
# allowed.
WRONG = ["unsigned f(unsigned c) { return __crc32cd(c, 1); }\n",
         "void f(void) { __asm__(\"crc32cx w0, w0, x1\"); }\n"]


def compiled(clang, arguments, source, end):
    """Returns two values: the compiler's output, or None if the compiler succeeds, and the file
    that it has written."""
    with tempfile.TemporaryDirectory() as folder:
        to = os.path.join(folder, "out")
        done = subprocess.run([clang] + FLAGS + arguments + [end, "-o", to, source[0]],
                              input=source[1], text=True, stderr=subprocess.PIPE)
        if done.returncode:
            return done.stderr, b""
        with open(to, "rb") as file:
            return None, file.read()


def library(clang, root):
    if not os.path.isfile(LZ4):
        print(f"skip: no {LZ4}")
        return 77
    files = [os.path.join(folder, name) for top in FOLDERS
             for folder, _, names in os.walk(os.path.join(root, top))
             for name in sorted(names) if name.endswith(".c")]
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(LZ4, os.path.join(folder, "lz4.h"))
        done = subprocess.run([clang] + FLAGS + WARNINGS + ["-isystem", folder, "-I", root,
                                                            "-fsyntax-only"] + files)
    print(f"{len(files)} files read")
    return 1 if done.returncode or not files else 0


def main(root, *include):
    clang = next(filter(shutil.which, CLANGS), None)
    if not clang or not os.path.isdir(HEADERS):
        print(f"skip: {'no headers in ' + HEADERS if clang else 'no clang'}")
        return 77
    if root == "--library":
        return library(clang, *include)
    failed = 0
    where = [word for folder in include for word in ("-I", folder)]
    source = (os.path.join(root, "util", "crc32c.c"), None)
    said, made = compiled(clang, where, source, "-c")
    if said is not None or not made:
        print(f"{said}{clang} does not compile util/crc32c.c for aarch64")
        failed += 1
    if b"crc32cx" not in compiled(clang, where, source, "-S")[1]:
        print("the instruction crc32cx is not used")
        failed += 1
    for text in WRONG:
        if compiled(clang, [], ("-", text), "-c")[0] is None:
            print(f"{clang} compiles what it must refuse: {text}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
