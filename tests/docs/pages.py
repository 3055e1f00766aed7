#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the pages at the top and in docs/: what they say about the source tree must be true.
pages.py <root> prints one line for each place that is false, and fails if there is one.
test_pages.py shows that every rule reports a violation.

    link        a link inside the tree leads to a file, and to a heading that is there
    path        a file or folder in backticks exists
    name        an identifier in backticks is in the public headers, an example or the build files
                (lladd_, LLADD_), or somewhere in the sources (ll_, LL_)
    rule        a rule that a page or a source cites has a section in docs/wal-rules.md
    code        a region of C names the file that it comes from, and has the file's text
    index       every page is listed: docs/*.md in docs/README.md, decisions in
                docs/decisions/README.md
    picture     a committed picture shows the texts of its source
    proof       every line of docs/what-happens-when.md and every rule names a test case; every test
                case that a page names exists
    latch       docs/threads.md lists all latches and no others
    format      docs/disk-format.md lists all record kinds, field types, and page types and
                operations of the library, and no others

A comment on the line before the fence of a region says where the region comes from:

    <!-- from lladd/op.h -->             verbatim in that file, apart from white space
    <!-- region examples/counter.c redo op -->   these regions of the file: from a line with
                                     /* [redo] to one with /* [/redo] */, without the marks
    <!-- compiled and run by tests/docs -->, <!-- run by tests/docs -->   see programs.py
"""
import os
import re
import sys

# This page also lists names that do not exist any more.
OLD_NAMES = os.path.join("docs", "api-changes.md")
LAYERS = ["util", "io", "log", "buffer", "recovery", "operations", "db", "inspect", "xa",
          "lladd"]
SOURCE = (".c", ".h")
SKIP = {"build", ".git", "__pycache__"}

FENCE = re.compile(r"^```(\w*)\s*$")
LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(([^)\s]+)\)")
BACKTICK = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"^(?:[\w.-]+/)+[\w.-]*$|^[\w-]+\.(?:c|h|md|py|txt|sh)$")
PUBLIC = re.compile(r"\b(?:lladd|LLADD)_\w+\*?")
INTERNAL = re.compile(r"\b(?:ll|LL)_\w+\*?")
RULE = re.compile(r"\b((?:OP|LOG|BUF|REC|TXN|ERR|API|THR)-[1-9][0-9]?)\b")
RANGE = re.compile(r"\b(OP|LOG|BUF|REC)-(\d) to (?:OP|LOG|BUF|REC)-(\d)\b")
ORIGIN = re.compile(r"^<!-- (from|region) (\S+)((?: \w+)*) -->$")
RUN = re.compile(r"^<!-- (?:compiled and run|run) by tests/docs -->$")
CASE = re.compile(r"`(\w+)/(test_\w+): (\w+)`")


class Tree:
    """The files of the project, read once."""

    def __init__(self, root):
        self.root = root
        self.texts = {}
        self.folders = set()
        for folder, below, names in os.walk(root):
            below[:] = sorted(d for d in below if d not in SKIP and not d.startswith("build"))
            here = os.path.relpath(folder, root)
            self.folders.add("" if here == "." else here)
            for name in names:
                self.texts[os.path.normpath(os.path.join(here, name))] = None

    def text(self, path):
        if self.texts[path] is None:
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
                self.texts[path] = file.read()
        return self.texts[path]

    def has(self, path):
        path = os.path.normpath(path)
        return path in self.texts or path in self.folders

    def files(self, tops, endings):
        return [p for p in sorted(self.texts)
                if p.split(os.sep)[0] in tops and p.endswith(endings)]

    def all_text(self, tops, endings):
        return "\n".join(self.text(p) for p in self.files(tops, endings))

    def pages(self):
        return [p for p in sorted(self.texts) if p.endswith(".md") and
                (os.sep not in p or p.startswith("docs" + os.sep))]


def split_code(text):
    """Returns the prose, with empty lines in the place of code, and the regions as (line, language,
    origin, code)."""
    prose, regions, code = [], [], None
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        match = FENCE.match(line)
        if match and code is None:
            code = (number, match.group(1), lines[number - 2].strip() if number > 1 else "", [])
        elif match:
            regions.append(code[:3] + ("\n".join(code[3]),))
            code = None
        elif code is not None:
            code[3].append(line)
        prose.append("" if match or code is not None else line)
    return prose, regions


def anchors(text):
    """The names that GitHub gives to headings."""
    found = set()
    for line in split_code(text)[0]:
        if line.startswith("#"):
            title = line.lstrip("#").strip().lower().replace("`", "")
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


def check_links(tree, page, prose):
    folder = os.path.dirname(page)
    for number, line in enumerate(prose, 1):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            full = os.path.normpath(os.path.join(folder, path)) if path else page
            if not tree.has(full):
                yield number, "link", f"{target} leads nowhere"
            elif anchor and anchor not in anchors(tree.text(full)):
                yield number, "link", f"{full} has no heading #{anchor}"


def check_words(tree, page, prose, names):
    if page == OLD_NAMES:
        return
    public, internal = names
    for number, line in enumerate(prose, 1):
        for word in BACKTICK.findall(line):
            if PATH.match(word) and "..." not in word and not tree.has(word):
                # Files of a database, and built files, are not files of the tree.
                if not word.startswith(("files/", "build/")) and not word.endswith(".tmp"):
                    yield number, "path", f"{word} does not exist"
            for pattern, known, where in ((PUBLIC, public, "the public headers"),
                                          (INTERNAL, internal, "the sources")):
                for name in pattern.findall(word):
                    # `lladd_pin_*` stands for all names with this beginning.
                    if word.find(name.rstrip("*") + "<") >= 0:
                        continue
                    fine = (any(k.startswith(name[:-1]) for k in known) if name.endswith("*")
                            else name in known)
                    if not fine and not tree.has(word):
                        yield number, "name", f"{name} is not in {where}"


def squeeze(text):
    return " ".join(text.split())


def quoted(text, names):
    """Returns the regions of a source file, without the marks, or None if one of them is not
    there."""
    parts = []
    for name in names:
        pattern = r"^([^\n]*)\[" + name + r"\] ?([^\n]*\n.*?)^[^\n]*\[/" + name + r"\]"
        match = re.search(pattern, text, re.M | re.S)
        if not match:
            return None
        parts.append(re.sub(r"^/\* \*/\n", "", match.group(1) + match.group(2)).strip())
    return "\n\n".join(parts)


def check_code(tree, page, regions):
    for number, language, origin, code in regions:
        if not language:
            yield number, "code", "the region has no language: write c, sh, text..."
        match = ORIGIN.match(origin)
        if not match:
            if language == "c" and not RUN.match(origin):
                yield number, "code", "the region does not say where it comes from"
            continue
        how, path, names = match.groups()
        if path not in tree.texts:
            yield number, "code", f"{path} does not exist"
        elif how == "from" and (not code.strip() or squeeze(code) not in squeeze(tree.text(path))):
            yield number, "code", f"{path} has no such text"
        elif how == "region" and code.strip() != quoted(tree.text(path), names.split()):
            yield number, "code", f"the regions of {path} have another text"


def check_index(tree):
    for page in tree.pages():
        folder, name = os.path.split(page)
        index = os.path.join(folder, "README.md")
        if (folder in ("docs", os.path.join("docs", "decisions")) and name != "README.md" and
                f"({name})" not in tree.text(index)):
            yield index, 1, "index", f"{page} is not listed"


def unescape(text):
    for entity, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&#45;", "-"),
                         ("&#160;", " "), ("&amp;", "&")):
        text = text.replace(entity, char)
    return text


def check_pictures(tree):
    for dot in tree.files({"docs"}, ".dot"):
        svg = dot[:-4] + ".svg"
        wanted = []
        for label in re.findall(r'\blabel="([^"]*)"', tree.text(dot)):
            wanted += [part.strip() for part in label.split("\\n")]
        shown = tree.text(svg) if svg in tree.texts else ""
        shown = [unescape(t).strip() for t in re.findall(r"<text[^>]*>([^<]*)</text>", shown)]
        if not wanted or sorted(wanted) != sorted(shown):
            yield dot, 1, "picture", f"{svg} shows something else: run docs/tools/pictures.sh"


def check_rules(tree, page, prose, known):
    for number, line in enumerate(prose, 1):
        for kind, low, high in RANGE.findall(line):
            for n in range(int(low), int(high) + 1):
                if f"{kind}-{n}" not in known:
                    yield number, "rule", f"{kind}-{n} has no section in docs/wal-rules.md"
        for rule in RULE.findall(line):
            if rule not in known:
                yield number, "rule", f"{rule} has no section in docs/wal-rules.md"


def rules_of(tree):
    page = os.path.join("docs", "wal-rules.md")
    text = tree.text(page) if page in tree.texts else ""
    return set(re.findall(r"^### (\w+-\d+):", text, re.M))


def check_sources_cite(tree, known):
    tops = set(LAYERS) | {"tests", "tools", "examples", "bench", "fuzz", "cmake"}
    for path in tree.files(tops, SOURCE):
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            for rule in RULE.findall(line):
                if rule not in known:
                    yield path, number, "rule", f"{rule} has no section in docs/wal-rules.md"


def case_exists(tree, folder, test, case):
    """Returns true if tests/<folder>/<test>.c or .py has the case, and ctest knows the test."""
    home = os.path.join("tests", folder)
    cmake = os.path.join(home, "CMakeLists.txt")
    if cmake not in tree.texts:
        return False
    # ll_test(NAME test_x ...), or x in a foreach.
    known = re.search(r"\b(?:test_)?" + test[len("test_"):] + r"\b", tree.text(cmake))
    pattern = re.compile(r"^START_TEST\(" + case + r"\)|^ *def " + case + r"\(", re.M)
    files = [os.path.join(home, test + ending) for ending in (".c", ".py")]
    return bool(known) and any(f in tree.texts and pattern.search(tree.text(f)) for f in files)


def check_cases(tree, page, prose):
    for number, line in enumerate(prose, 1):
        for folder, test, case in CASE.findall(line):
            if not case_exists(tree, folder, test, case):
                yield number, "proof", f"there is no {folder}/{test}: {case}"


def check_lines(tree, page, prose):
    rows = 0
    for number, line in enumerate(prose, 1):
        if not line.startswith("|") or line.startswith(("|---", "| What |")):
            continue
        rows += 1
        if not CASE.search(line.rstrip(" |").rpartition("|")[2]):
            yield number, "proof", "the line names no test"
    if not rows:
        yield 1, "proof", "there are no lines"


def check_rule_tests(tree, page, prose):
    for section in re.split(r"^(?=### )", "\n".join(prose), flags=re.M)[1:]:
        if not CASE.search(section):
            yield 1, "proof", f"{section[4:].split(':')[0]} names no test"


def check_latches(tree, page, prose):
    text = tree.all_text(set(LAYERS), ".c")
    there = set(re.findall(r'lladd_mutex_init\([^;]*?"([^"]+)"\)', text, re.S))
    there |= set(re.findall(r'reservations_init\([^;]*?"([^"]+)"\)', text, re.S))
    there |= set(re.findall(r'state_new\([^;]*?"([^"]+)"', text, re.S))
    told, inside = set(), False
    for line in prose:
        inside = line.startswith("| Rank |") or (inside and line.startswith("|"))
        if inside:
            told |= set(re.findall(r"`([a-z][a-z -]*)`", line.split("|")[2]))
    for name in sorted(there ^ told):
        yield 1, "latch", f'"{name}" is {"not listed" if name in there else "no latch"}'
    if not there:
        yield 1, "latch", "there are no latches"


def rows_after(prose, head, columns):
    """The first columns of the table rows that follow the line which begins with `head`."""
    found, inside = [], False
    for line in prose:
        if line.startswith(head):
            inside = True
        elif inside and not line.startswith("|"):
            break
        elif inside and not line.startswith("|---"):
            found.append(tuple(c.strip() for c in line.split("|")[1:1 + columns]))
    return found


def enum_of(text, name):
    body = re.search(r"enum " + name + r" \{(.*?)\};", text, re.S).group(1)
    return {n: int(v) for n, v in re.findall(r"(\w+) = (\d+)", body)}


def check_format(tree, page, prose):
    kinds = enum_of(tree.text(os.path.join("log", "record.h")), "ll_record_kind")
    names = dict(re.findall(r'\[(LL_REC_\w+)\] = "([^"]+)"',
                            tree.text(os.path.join("log", "record.c"))))
    there = {(str(v), names.get(n)) for n, v in kinds.items() if v}
    for number, name in sorted(there ^ set(rows_after(prose, "| Kind | Name", 2))):
        yield 1, "format", f"record kind {number} {name}"
    types = enum_of(tree.text(os.path.join("lladd", "op.h")), "lladd_field_type")
    told = {row[0] for row in rows_after(prose, "| Type | | Bytes", 1)}
    if told != {str(v) for v in types.values() if v}:
        yield 1, "format", f"field types {sorted(told)}"
    base = tree.all_text({"operations"}, ".c")
    there = set(re.findall(r'\.name = "(lladd\.[^"]+)"', base)) | set(
        re.findall(r'_OP\("(lladd\.[^"]+)"', base))
    said = set(re.findall(r"`(lladd(?:\.[a-z_]+)+)`", "\n".join(prose)))
    for name in sorted(there - said):
        yield 1, "format", f"{name} is not described"
    for name in sorted(said - there):
        yield 1, "format", f"{name} does not exist"


SPECIAL = {"what-happens-when.md": check_lines, "threads.md": check_latches,
           "disk-format.md": check_format, "wal-rules.md": check_rule_tests}


def check(root):
    tree = Tree(root)
    headers = [p for p in tree.files({"lladd"}, ".h")
               if not p.endswith(("_private.h", "_format.h"))]
    text = "\n".join(tree.text(p) for p in headers + tree.files({"examples"}, SOURCE)
                     + tree.files({"cmake", "CMakeLists.txt"}, (".cmake", ".txt", ".in")))
    public = set(re.findall(r"\b(?:lladd|LLADD)_\w+", text))
    internal = set(re.findall(r"\b(?:ll|LL)_\w+", tree.all_text(set(LAYERS), SOURCE)
                              + tree.all_text({"cmake"}, ".cmake")))
    known = rules_of(tree)
    yield from check_index(tree)
    yield from check_pictures(tree)
    yield from check_sources_cite(tree, known)
    for page in tree.pages():
        prose, regions = split_code(tree.text(page))
        checks = [check_links(tree, page, prose),
                  check_words(tree, page, prose, (public, internal)),
                  check_rules(tree, page, prose, known), check_code(tree, page, regions),
                  check_cases(tree, page, prose)]
        special = SPECIAL.get(os.path.basename(page))
        if special:
            checks.append(special(tree, page, prose))
        for each in checks:
            for number, rule, what in each:
                yield page, number, rule, what


def main(root):
    pages = len(Tree(root).pages())
    broken = 0
    for page, number, rule, what in check(root):
        print(f"{page}:{number}: {rule}: {what}")
        broken += 1
    print(f"{pages} pages, {broken} places")
    return 1 if broken or not pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
