#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every exported function is documented: docstrings.py <folder of headers>.

Its declaration follows a docstring, directly or in a block of declarations without an empty line
that begins with one. selftest shows that the check can fail."""
import os
import re
import sys

START = re.compile(r"^LLADD_API\s")


def public(name):
    return name.endswith(".h") and not name.endswith(("_private.h", "_format.h"))


def undocumented(text):
    """Yields (line, declaration) of what begins a paragraph without a docstring."""
    said = opened = False
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if opened:
            opened = "*/" not in stripped
        elif stripped.startswith("/**"):
            # A comment about the file is about nothing below it.
            said, opened = True, "*/" not in stripped
        elif not stripped:
            said = False
        elif START.match(line) and not said:
            yield number, stripped


def selftest():
    good = "/** Does it. */\nLLADD_API int a(void);\nLLADD_API int b(void);\n"
    bad = good + "\nLLADD_API int c(void);\n\n/* why */\nLLADD_API int d(void);\n"
    if list(undocumented(good)):
        sys.exit("a documented declaration is found")
    if [line for line, _ in undocumented(bad)] != [5, 8]:
        sys.exit("an undocumented declaration is not found")


def main(folder):
    selftest()
    found = headers = 0
    for name in sorted(filter(public, os.listdir(folder))):
        headers += 1
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for number, what in undocumented(file.read()):
                print(f"{name}:{number}: nothing is said about: {what}")
                found += 1
    print(f"{headers} headers, {found} places")
    return 1 if found or not headers else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
