#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""subjects.py <source> <lladd-sim>: the recovery simulator must have a subject for every
operation, page type and object class of the library. (The exploration of a subject fails unless
all paths run.)

The program finds the descriptors in the sources, where they are initialised. A page type has a
subject if an operation on it has one. A page type without operations is written in bulk, so that
its pages are never redone or undone. Operations that only earlier versions logged need no subject,
because no workload runs them. The program does not see their descriptors, which are elements of
arrays.

subjects.py selftest"""
import os
import re
import subprocess
import sys

# Folders with operations that are examples or tests, not the library's.
OUTSIDE = {"bench", "build", "cmake", "docs", "examples", "fuzz", "quickstart", "sim", "tests",
           "tools"}
DESCRIPTOR = re.compile(
    r"^(?:static )?const struct lladd_(op|page_type|object_class) \w+ =\s*(.*?);$",
    re.MULTILINE | re.DOTALL)
NAME = re.compile(r'\.name = "([^"]+)"')
LITERAL = re.compile(r'"([^"]+)"')
PAGE_TYPE = re.compile(r'\.page_type = "([^"]+)"')


def descriptors(text):
    """Returns (kind, name, page type or None) for each descriptor in a source file."""
    for kind, body in DESCRIPTOR.findall(text):
        name = NAME.search(body) or LITERAL.search(body)
        if name:
            page_type = PAGE_TYPE.search(body)
            yield kind, name.group(1), page_type and page_type.group(1)


def sources(root):
    for folder in sorted(os.listdir(root)):
        if folder in OUTSIDE or folder.startswith(".") or not os.path.isdir(f"{root}/{folder}"):
            continue
        for at, _, files in os.walk(f"{root}/{folder}"):
            yield from (os.path.join(at, f) for f in sorted(files) if f.endswith(".c"))


def missing(found, subjects):
    """The descriptors that no subject runs, as text."""
    on = {page_type for kind, name, page_type in found if kind == "op" and name in subjects}
    changed = {page_type for kind, _, page_type in found if kind == "op"}
    for kind, name, _ in sorted(set(found), key=str):
        if kind == "page_type" and (name in on or name not in changed):
            continue
        if name not in subjects:
            yield f'{kind} "{name}" has no subject in sim/subjects/'


def selftest():
    text = """
const struct lladd_op a = {
    .name = "x.a",
    .page_type = "x",
};
static const struct lladd_op b = MACRO("x.b", 7);
const struct lladd_page_type t = {
    .name = "x",
};
const struct lladd_object_class c = {.name = "x.c"};
    const struct lladd_op *op = name->desc;
"""
    found = list(descriptors(text))
    assert found == [("op", "x.a", "x"), ("op", "x.b", None), ("page_type", "x", None),
                     ("object_class", "x.c", None)], found
    assert list(missing(found, {"x.a", "x.b", "x.c"})) == []
    assert len(list(missing(found, {"x.a"}))) == 2
    assert len(list(missing(found, set()))) == 4
    return 0


def main(root, program):
    listed = subprocess.run([program, "--operations"], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    subjects = {line.split()[1] for line in listed.splitlines()}
    found = []
    for path in sources(root):
        with open(path, encoding="utf-8") as file:
            found += descriptors(file.read())
    if len(found) < 20 or not subjects:
        print(f"{len(found)} descriptors, {len(subjects)} operations: this cannot be all")
        return 1
    complaints = list(missing(found, subjects))
    print("\n".join(complaints) if complaints else f"{len(found)} descriptors have subjects")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(selftest() if sys.argv[1:] == ["selftest"] else main(*sys.argv[1:]))
