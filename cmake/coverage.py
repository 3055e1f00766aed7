#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""coverage.py <build folder> <source folder>...: runs lcov over a coverage build, prints the share
of executed lines, per folder and in all, and the share of executed functions in all, and leaves an
HTML report in <build folder>/report."""
import os
import re
import subprocess
import sys


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


def tolerance():
    """lcov 2 stops at oddities that lcov 1 did not mention."""
    version = re.search(r"version (\d+)", run("lcov", "--version"))
    if version and int(version.group(1)) >= 2:
        return ["--ignore-errors", "mismatch,inconsistent,unused,empty,gcov,source,negative"]
    return []


def records(path):
    """(source file, {line: count}, {function: count}) of each file in a tracefile."""
    name, lines, functions = None, {}, {}
    with open(path, encoding="utf-8") as file:
        for text in file:
            key, _, rest = text.rstrip("\n").partition(":")
            if key == "SF":
                name, lines, functions = os.path.realpath(rest), {}, {}
            elif key == "DA":
                number, count = rest.split(",")[:2]
                lines[int(number)] = int(count)
            elif key == "FNDA":
                count, function = rest.split(",")[:2]
                functions[function] = int(count)
            elif key == "end_of_record":
                yield name, lines, functions


def merged(path):
    """Merges the records of each file: a header that is reached through the symbolic links of
    several layers has several records."""
    files = {}
    for name, lines, functions in records(path):
        into = files.setdefault(name, ({}, {}))
        for found, place in ((lines, into[0]), (functions, into[1])):
            for key, count in found.items():
                place[key] = place.get(key, 0) + count
    return files


def main(build, folders):
    source = os.path.realpath(os.getcwd())
    report = os.path.join(build, "report")
    everything, ours = os.path.join(build, "all.info"), os.path.join(build, "library.info")
    run("lcov", "--capture", "--directory", build, "--base-directory", source, "--output-file",
        everything, *tolerance())
    files = merged(everything)

    total = [0, 0, 0, 0]
    rows = []
    for folder in folders:
        row = [0, 0, 0, 0]
        for name, (lines, functions) in files.items():
            if name.startswith(os.path.join(source, folder) + os.sep):
                row[0] += sum(1 for count in lines.values() if count)
                row[1] += len(lines)
                row[2] += sum(1 for count in functions.values() if count)
                row[3] += len(functions)
        rows.append((folder, row))
        total = [a + b for a, b in zip(total, row)]
    if total[1] == 0:
        sys.exit("no line of the library was compiled for coverage")
    for folder, row in rows:
        if row[1]:
            print(f"{folder + '/':<12} {100 * row[0] / row[1]:6.2f} %  {row[0]} of {row[1]} lines")
    print(f"functions: {100 * total[2] / max(total[3], 1):.2f} % ({total[2]} of {total[3]})")
    print(f"lines: {100 * total[0] / total[1]:.2f} % ({total[0]} of {total[1]})")

    with open(ours, "w", encoding="utf-8") as file:
        for name, (lines, _) in sorted(files.items()):
            if any(name.startswith(os.path.join(source, f) + os.sep) for f in folders):
                file.write(f"TN:\nSF:{name}\n")
                file.writelines(f"DA:{n},{c}\n" for n, c in sorted(lines.items()))
                file.write("end_of_record\n")
    run("genhtml", "--quiet", "--output-directory", report, "--prefix", source, ours,
        *tolerance())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
