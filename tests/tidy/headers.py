#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""headers.py <include dir> <folder of headers> <c compiler> <c++ compiler>: each public header
compiles by itself, as strict C11 and as C++17, without a warning. A C++ program can declare a
variable of every struct, union and enum by the name alone, because no function of the same name
hides the type."""
import os
import re
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-fsyntax-only"]


def public(name):
    return name.endswith(".h") and not name.endswith(("_private.h", "_format.h"))


def complaints(command, source):
    """The compiler's output, or None if it succeeds."""
    done = subprocess.run(command, input=source, text=True, stderr=subprocess.PIPE)
    return done.stderr if done.returncode != 0 else None


# C++ code that names structs without the word "struct", and calls functions that fill them.
CALLS = """
int call(lladd_managed *t, lladd_db *db, lladd_txn *txn) {
    lladd_managed_stats s{};
    lladd_stats all{};
    lladd_txn_now now{};
    lladd_dtable_value v = lladd_dtable_value_of("a", 1);
    s.struct_size = sizeof s;
    all.struct_size = sizeof(lladd_stats);
    return lladd_managed_stats_get(t, &s, nullptr, 0, nullptr) + lladd_stats_get(db, &all) +
           lladd_txn_now_get(txn, &now) + (int)v.bytes.len;
}
"""


def types_of(text):
    """Returns two sets of names of structs, unions and enums in a header: the complete types, and
    all types."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    names = re.findall(r"^(?:typedef )?(?:struct|union|enum) (lladd_\w+)\s*([{;])", text, re.M)
    return {name for name, how in names if how == "{"}, {name for name, _ in names}


def variables(headers, texts):
    """Returns a C++ file that declares a variable of each type, or a pointer if the type is
    incomplete, and the number of types."""
    complete, all_types = set(), set()
    for text in texts:
        here, known = types_of(text)
        complete |= here
        all_types |= known
    lines = [f"#include <lladd/{name}>" for name in headers]
    for name in sorted(all_types):
        lines.append(f"extern {name} {'' if name in complete else '*'}a_{name};")
    return "\n".join(lines) + CALLS, len(all_types)


def hidden_types(include, folder, headers, cxx):
    """The number of errors in C++; also checks that a type that a function hides is found."""
    command = [cxx, "-std=c++17", "-xc++"] + WARNINGS + ["-Wno-redundant-decls", "-I", include, "-"]
    texts = []
    for name in headers:
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            texts.append(file.read())
    source, n = variables(headers, texts)
    said = complaints(command, source)
    if said is not None:
        print(f"{said}C++ cannot declare variables of all structs by their names")
    hides = "struct lladd_hidden {\n int n;\n};\nint lladd_hidden(struct lladd_hidden *);\n"
    made = hides + "\n".join(variables([], [hides])[0].splitlines()[:1])
    if complaints(command, made) is None:
        print("a struct that a function hides is not found")
        return 1
    return (said is not None) + (n < 150)


def main(include, folder, cc, cxx):
    failed = checked = 0
    languages = [[cc, "-std=c11", "-xc"], [cxx, "-std=c++17", "-xc++"]]
    for name in sorted(filter(public, os.listdir(folder))):
        for language in languages:
            # Included twice, because the guard must work (error_list.h needs none).
            source = f"#include <lladd/{name}>\n#include <lladd/{name}>\nint main(void);\n"
            checked += 1
            said = complaints(language + WARNINGS + ["-I", include, "-"], source)
            if said is not None:
                print(f"{said}<lladd/{name}> does not compile with {' '.join(language[:2])}")
                failed += 1
    headers = [name for name in sorted(filter(public, os.listdir(folder)))
               if name != "error_list.h"]
    failed += hidden_types(include, folder, headers, cxx)
    # A header that does not exist must fail the check.
    for language in languages:
        absent = "#include <lladd/absent.h>\n"
        if complaints(language + WARNINGS + ["-I", include, "-"], absent) is None:
            print("a header that is not there compiles")
            failed += 1
    print(f"{checked} compilations, {failed} failed")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
