#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_syntax.py <build folder> <jobs>: checks every file of a configured build with the build's
compiler, without generating code. A file that several targets compile is checked once, with the
flags of the first target. Warnings are errors. The last line of the output has the number of
files."""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys


def check(entry):
    """0 if the file has no warnings; otherwise prints the compiler's output."""
    words = shlex.split(entry["command"])
    at = words.index("-o")
    command = words[:at] + words[at + 2:] + ["-fsyntax-only"]
    done = subprocess.run(command, cwd=entry["directory"], check=False, capture_output=True,
                          text=True)
    if done.returncode or done.stderr:
        print(done.stderr, end="", flush=True)
    return done.returncode


def main():
    """The status for the shell."""
    with open(os.path.join(sys.argv[1], "compile_commands.json"), encoding="utf-8") as f:
        entries = list({entry["file"]: entry for entry in reversed(json.load(f))}.values())
    with concurrent.futures.ThreadPoolExecutor(int(sys.argv[2])) as pool:
        bad = sum(1 for rc in pool.map(check, entries) if rc)
    print(f"{len(entries)} files checked, {bad} of them with an error")
    return 1 if bad or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
