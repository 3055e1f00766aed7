#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""doxygen.py <doxygen> <Doxyfile>: doxygen makes the reference without a
warning, the reference has all groups, and a wrong docstring is noticed."""
import os
import re
import subprocess
import sys
import tempfile


def run(doxygen, config):
    done = subprocess.run([doxygen, "-"], input=config, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def main(doxygen, path):
    with open(path, encoding="utf-8") as file:
        config = file.read()
    code, said = run(doxygen, config)
    if code or said.strip():
        sys.exit(f"doxygen ended with {code}:\n{said}")
    out = re.search(r"^OUTPUT_DIRECTORY\s*=\s*(\S+)", config, re.M).group(1)
    for group in ("util", "io", "log", "buffer", "recovery", "operations", "db", "inspect",
                  "xa", "lladd"):
        if not os.path.exists(os.path.join(out, "html", f"group__{group}.html")):
            sys.exit(f"there is no group {group}")
    # doxygen must refuse a header that describes a parameter which the function does not have.
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "bad.h"), "w", encoding="utf-8") as file:
            file.write("/** @file */\n/** Bad. @param nothing such */\nint bad(int something);\n")
        config = re.sub(r"^INPUT .*$", f"INPUT = {folder}", config, flags=re.M)
        config = re.sub(r"^OUTPUT_DIRECTORY .*$", f"OUTPUT_DIRECTORY = {folder}", config,
                        flags=re.M)
        code, said = run(doxygen, config)
        if code == 0 or "nothing" not in said:
            sys.exit(f"doxygen is content with a wrong docstring:\n{said}")
    print("the reference is complete")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
