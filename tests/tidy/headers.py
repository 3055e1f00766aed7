#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""headers.py <include dir> <folder of headers> <c compiler> <c++ compiler>: each public header
compiles as the only thing in a file, as strict C11 and as C++17, without a warning."""
import os
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsyntax-only"]


def public(name):
    return name.endswith(".h") and not name.endswith(("_private.h", "_format.h"))


def complaints(command, source):
    """What the compiler says, or None if it is content."""
    done = subprocess.run(command, input=source, text=True, stderr=subprocess.PIPE)
    return done.stderr if done.returncode != 0 else None


def main(include, folder, cc, cxx):
    failed = checked = 0
    languages = [[cc, "-std=c11", "-xc"], [cxx, "-std=c++17", "-xc++"]]
    for name in sorted(filter(public, os.listdir(folder))):
        for language in languages:
            # Twice: the guard works (or, error_list.h, is not needed).
            source = f"#include <lladd/{name}>\n#include <lladd/{name}>\nint main(void);\n"
            checked += 1
            said = complaints(language + WARNINGS + ["-I", include, "-"], source)
            if said is not None:
                print(f"{said}<lladd/{name}> does not compile with {' '.join(language[:2])}")
                failed += 1
    # And the check can fail.
    for language in languages:
        absent = "#include <lladd/absent.h>\n"
        if complaints(language + WARNINGS + ["-I", include, "-"], absent) is None:
            print("a header that is not there compiles")
            failed += 1
    print(f"{checked} compilations, {failed} failed")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
