#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""symbols.py exports <shared library>: the library exports symbols lladd_*, and no others (LLADD_*,
the names of symbol versions, do not count).
symbols.py globals <archive>: no object in the archive has writable variables, so that two databases
in one process share nothing. There is one exception: a thread-local variable counts the pages and
latches that the thread holds (util/held.h), those of one database at a time.
symbols.py plain <archive>: no object in the archive refers to the instrumented build.
symbols.py selftest <c compiler>: tests that each check finds violations."""
import os
import re
import subprocess
import sys
import tempfile


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def foreign_exports(library):
    names = [line.split()[-1].split("@")[0]
             for line in run("nm", "-D", "--defined-only", library).splitlines()]
    ours = [name for name in names if name.startswith("lladd_")]
    return len(ours), [name for name in names
                       if not name.startswith("lladd_") and not name.startswith("LLADD_")]


PER_THREAD = "ll_held"
# Writable at run time; .data.rel.ro holds constants with addresses in them.
WRITABLE = re.compile(r"^\.(data|bss|tdata|tbss)(?!\.rel\.ro)(\.|$)")


def writable_symbols(archive):
    """Returns the number of objects, and (object, symbol) for each variable that can be written."""
    found, obj, objects = [], "?", 0
    for line in run("objdump", "-t", archive).splitlines():
        if ":     file format" in line:
            obj = line.split(":")[0]
            objects += 1
            continue
        # A line has the address, seven columns of flags, the section, the size and the name.
        # Flag 5 is "d" for the symbol of a section, which is not a variable.
        match = re.match(r"[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)\s+(.*)", line)
        if (match and match.group(1)[5] != "d" and WRITABLE.match(match.group(2)) and
                match.group(4).split()[-1] != PER_THREAD):
            found.append((obj, match.group(4)))
    return objects, found


def instrumented_symbols(archive):
    """The number of objects, and the symbols of the instrumented build that they define or use."""
    lines = run("nm", archive).splitlines()
    names = {line.split()[-1] for line in lines if line.split()}
    return (len([line for line in lines if line.endswith(".o:")]),
            sorted(name for name in names
                   if name.startswith(("lladd_dst", "ll_fibers", "ll_sync_swap"))))


def selftest(compiler):
    with tempfile.TemporaryDirectory() as folder:
        source, obj = os.path.join(folder, "a.c"), os.path.join(folder, "a.o")
        library = os.path.join(folder, "a.so")
        with open(source, "w", encoding="ascii") as file:
            file.write("int lladd_x(void) { static int n; return ++n; }\n"
                       "int stranger(void) { return 0; }\n"
                       "static _Thread_local int t; int lladd_t(void) { return ++t; }\n"
                       "int written = 5;\n"
                   "int lladd_dst_x(void); int lladd_y(void) { return lladd_dst_x(); }\n"
                       "const char *const lladd_names[] = {\"a\", \"b\"};\n")
        run(compiler, "-fPIC", "-c", source, "-o", obj)
        run(compiler, "-shared", obj, "-o", library)
        ours, foreign = foreign_exports(library)
        objects, found = writable_symbols(obj)
        # A static local is n.0 for gcc and lladd_x.n for clang.
        names = sorted([part for part in name.split(".") if not part.isdigit()][-1]
                       for _, name in found)
        good = (instrumented_symbols(obj)[1] == ["lladd_dst_x"] and ours == 4 and
                sorted(foreign) == ["stranger", "written"] and objects == 1 and
                names == ["n", "t", "written"])
        if not good:
            print(ours, foreign, objects, names)
        return 0 if good else 1


def main(what, path):
    if what == "selftest":
        return selftest(path)
    if what == "exports":
        ours, foreign = foreign_exports(path)
        for name in foreign:
            print(f"exported, but not named lladd_*: {name}")
        print(f"{ours} symbols lladd_*, {len(foreign)} others")
        return 1 if foreign or not ours else 0
    if what == "plain":
        objects, names = instrumented_symbols(path)
        for name in names:
            print(f"of the instrumented build: {name}")
        print(f"{objects} objects, {len(names)} symbols")
        return 1 if names or not objects else 0
    objects, found = writable_symbols(path)
    for obj, name in found:
        print(f"{obj}: {name} can be written")
    print(f"{objects} objects, {len(found)} variables")
    return 1 if found or not objects else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
