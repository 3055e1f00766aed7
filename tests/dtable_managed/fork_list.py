#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""fork_list.py <folder of headers> <test_fork.c> checks that the test of a forked process makes
each call of dTables, managed tables and cTables that returns a code, except those in WITHOUT."""
import os
import re
import sys

HEADERS = ("dtable.h", "dtable_managed.h", "ctable.h", "dtable_row.h")
# These calls have no handle. They use only the caller's memory, or options before open.
WITHOUT = {"lladd_dtable_row_size", "lladd_dtable_row_unpack", "lladd_managed_register"}


def calls(header):
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    return set(re.findall(r"^LLADD_API int (lladd_\w+)\(", text, re.M))


def missing(folder, test):
    found = set()
    for name in HEADERS:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            found |= calls(file.read())
    asked = set(re.findall(r"FORKED\((lladd_\w+)\(", test))
    return sorted(found - WITHOUT - asked), len(found)


def main(folder, path):
    with open(path, encoding="utf-8") as file:
        test = file.read()
    absent, n = missing(folder, test)
    for name in absent:
        print(f"{name} is not in {os.path.basename(path)}")
    # Takes one call out of the test. Exactly that call must be reported.
    blind, _ = missing(folder, test.replace("FORKED(lladd_dtable_get(", ""))
    return 1 if absent or n < 80 or blind != ["lladd_dtable_get"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
