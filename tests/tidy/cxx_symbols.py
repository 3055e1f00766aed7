#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""cxx_symbols.py <include dir> <folder of headers> <c++ compiler> <library>...: a C++ program
can link with each function that the public headers declare. The check compiles an object that takes
the address of each function. The object must refer to the functions by their names in C, and the
libraries must define these names.

A function that is declared outside `extern "C"` has another symbol in C++."""
import os
import re
import subprocess
import sys
import tempfile

# Symbols of the compiler's start-up code begin with "_"; those of C++ begin with "_Z".
FOREIGN = re.compile(r"^_(?!Z)")


def declared(text):
    """Returns the names of the library's functions that a header declares."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    return set(re.findall(r"^LLADD_API\b[^;(]*?\b(lladd_\w+)\s*\(", text, re.M))


def nm(*arguments):
    done = subprocess.run(["nm", *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()
            if len(line.split()) > 1}


def defined(libraries):
    """The symbols that a program may refer to: all that a shared library exports. An archive
    repeats these, so only its symbols for simulations count."""
    names = set()
    for library in libraries:
        if ".so" in library:
            names |= nm("-D", "--defined-only", library)
        else:
            names |= {name for name in nm("--defined-only", library)
                      if name.startswith(("lladd_dst_", "lladd_sim_"))}
    return names


def referred(include, headers, names, cxx):
    """Compiles an object that takes the address of every function in `names`. Returns the undefined
    symbols of the object, or None if it does not compile."""
    lines = [f"#include <lladd/{name}>" for name in headers]
    lines += ["extern void *const all[];", "void *const all[] = {"]
    lines += [f"    reinterpret_cast<void *>(&{n})," for n in sorted(names)] + ["};", ""]
    with tempfile.TemporaryDirectory() as folder:
        obj = os.path.join(folder, "all.o")
        done = subprocess.run([cxx, "-std=c++17", "-xc++", "-c", "-I", include, "-o", obj, "-"],
                              input="\n".join(lines), text=True, stderr=subprocess.PIPE)
        if done.returncode:
            print(done.stderr)
            return None
        return {name for name in nm("-u", obj) if not FOREIGN.match(name)}


def complaints(found, names, library):
    """One line for each function that C++ cannot link with."""
    if found is None:
        return ["C++ does not know all functions"]
    said = [f"C++ refers to {name}" for name in sorted(found - names)]
    said += [f"C++ does not refer to {name}" for name in sorted(names - found)]
    return said + [f"no library defines {name}" for name in sorted(names - library)]


def selftest(cxx):
    """The check finds a symbol that is not C's, and a function that no library defines."""
    text = ('#define LLADD_API\nLLADD_API int lladd_made(int);\n'
            'extern "C" {\nLLADD_API int lladd_other(int);\n}\n')
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "lladd"))
        with open(os.path.join(folder, "lladd", "made.h"), "w", encoding="ascii") as file:
            file.write(text)
        names = declared(text)
        found = referred(folder, ["made.h"], names, cxx)
    said = complaints(found, names, {"lladd_made"})
    good = said == ["C++ refers to _Z10lladd_madei",
                    "C++ does not refer to lladd_made", "no library defines lladd_other"]
    if not good:
        print(f"the check does not find what is wrong: {said}")
    return good


def main(include, folder, cxx, *libraries):
    headers, names = [], set()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h") and not name.endswith(("_private.h", "_format.h", "_list.h")):
            headers.append(name)
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                names |= declared(file.read())
    said = complaints(referred(include, headers, names, cxx), names, defined(libraries))
    for line in said:
        print(line)
    print(f"{len(names)} functions")
    good = selftest(cxx) and not said and len(names) > 300
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
