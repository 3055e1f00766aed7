#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""cxx_symbols.py <include dir> <folder of headers> <c++ compiler> <library>...: each function that
the public headers declare can be linked with from C++. An object that takes the address of every
one of them refers to the functions by their names in C, and the libraries define these.

C++ cannot take the address of a function that has the name of a struct (<lladd/cplusplus.h>) by
that name: its name in C++ ends in "_", and the declaration must give it the symbol of C
(LLADD_SYMBOL)."""
import os
import re
import subprocess
import sys
import tempfile

# C++'s own, and of the compiler's start-up code.
FOREIGN = re.compile(r"^(_|__gxx_personality)")


def declared(text):
    """The names of the functions that a header declares as the library's."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    return set(re.findall(r"^LLADD_API\b[^;(]*?\b(lladd_\w+)\s*\(", text, re.M))


def macros(text):
    """The functions that are macros in C++, with a "_" in the end."""
    return set(re.findall(r"^#define (lladd_\w+)\(\.\.\.\) \1_\(__VA_ARGS__\)$", text, re.M))


def nm(*arguments):
    done = subprocess.run(["nm", *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()
            if len(line.split()) > 1}


def defined(libraries):
    """What a program may refer to: of a shared library what it exports, of an archive, which has
    everything, what only simulations have."""
    names = set()
    for library in libraries:
        if ".so" in library:
            names |= nm("-D", "--defined-only", library)
        else:
            names |= {name for name in nm("--defined-only", library)
                      if name.startswith(("lladd_dst_", "lladd_sim_"))}
    return names


def referred(include, headers, names, hidden, cxx):
    """The undefined symbols of an object that takes the addresses of all; None if it does not
    compile."""
    lines = [f"#include <lladd/{name}>" for name in headers]
    lines += ["extern void *const all[];", "void *const all[] = {"]
    lines += [f"    reinterpret_cast<void *>(&{n + '_' if n in hidden else n})," for n in
              sorted(names)] + ["};", ""]
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
    said = [f"C++ refers to {name}: LLADD_SYMBOL is missing" for name in sorted(found - names)]
    said += [f"C++ does not refer to {name}" for name in sorted(names - found)]
    return said + [f"no library defines {name}" for name in sorted(names - library)]


def selftest(cxx):
    """What is wrong is found: a symbol that is not C's, and a function that is nowhere."""
    text = ('extern "C" {\n#define LLADD_API\n#define lladd_made(...) lladd_made_(__VA_ARGS__)\n'
            "struct lladd_made {\n    int n;\n};\n"
            "LLADD_API int lladd_made(struct lladd_made *);\nLLADD_API int lladd_other(int);\n}\n")
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "lladd"))
        with open(os.path.join(folder, "lladd", "made.h"), "w", encoding="ascii") as file:
            file.write(text)
        names, hidden = declared(text), macros(text)
        found = referred(folder, ["made.h"], names, hidden, cxx)
    said = complaints(found, names, {"lladd_made"})
    good = said == ["C++ refers to lladd_made_: LLADD_SYMBOL is missing",
                    "C++ does not refer to lladd_made", "no library defines lladd_other"]
    if not good:
        print(f"the check does not find what is wrong: {said}")
    return good


def main(include, folder, cxx, *libraries):
    headers, names, hidden = [], set(), set()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h") and not name.endswith(("_private.h", "_format.h", "_list.h")):
            headers.append(name)
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            names |= declared(text)
            hidden |= macros(text)
    said = complaints(referred(include, headers, names, hidden, cxx), names, defined(libraries))
    for line in said:
        print(line)
    print(f"{len(names)} functions, {len(names & hidden)} with the name of a struct")
    good = selftest(cxx) and not said and len(names) > 300 and len(names & hidden) > 15
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
