#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""House rules that a program can check. tidy.py <root> prints one line for each violation, and
fails if there is any. test_tidy.py tests every rule.

    include-up       no "../" in an #include
    private          a *_private.h is included from its own folder (and its own tests) only
    format           the same for a *_format.h, but tools, fuzzers, tests and bench/ may include it
    public-only      operations/, xa/ and examples/ include <...> and headers of their own folder,
                     but no headers of other layers
    spdx             one of the first two lines of the file names the licence
    length           in code, no file above 900 lines (unless it is generated) and, except in Java,
                     no line above 100 columns
    debt             no notes about unfinished work: the usual four words
    dead             no code switched off by the preprocessor
    noise            the library does not end the process, print, or use <assert.h>
    unsafe           no functions that write to a buffer without knowing its size
    sync             the library synchronises through <lladd/sync.h> (THR-1)
    look             a thread that wakes sleepers first changes the word that they sleep on, and
                     then looks for sleepers: with lladd_atomic_look32, not with lladd_atomic_load32
    use              a public function that returns a code and takes a transaction begins with
                     LLADD_USE (or LL_USE), so that no other thread uses the transaction meanwhile
    docstring        every function of a public header has its own docstring, directly above it; a
                     docstring above a group of functions counts for the first one only
    sleep            nothing sleeps to wait for something else
    limit            no test has a time limit of its own, because ll_test_properties sets one for
                     all; a wait in a test or in runtests has no limit, or one of at least ten
                     minutes
    typedef          no typedef of a struct, union or enum but in lladd/types.h and xa/xa.h
    space            no tabs, no blanks at the end of a line, a newline at the end of the file
    machine          no path that exists on one machine only
    address          no URL to fetch anything from: registries are used by name
    words            prose names what acts: no pronoun stands for it (words.py has the list)
"""
import os
import re
import sys

import words

LIBRARY = {"util", "io", "log", "buffer", "recovery", "operations", "db", "inspect",
           "lladd", "sim", "xa", "ship"}
FOLDERS = LIBRARY | {"tools", "examples", "bench", "fuzz", "tests", "cmake", "docs", ".ci"}
DOCUMENTS = (".md", ".1", ".dox", ".pml", ".dot")
LINES_MAX = 900
COLUMNS_MAX = 100

# The file that aborts a debug build, and those that implement synchronisation.
NOISE_EXEMPT = {"util/assert.c"}
SYNC_EXEMPT = {"lladd/sync.h", "util/sync.c"}
# The file that sets Check's time limits.
LIMIT_EXEMPT = {"tests/support/check_hooks.c"}
# The names in xa.h are defined by X/Open.
TYPEDEF_EXEMPT = {"lladd/types.h", "xa/xa.h"}

# This function may look for sleepers without a barrier, because their wait has a time limit.
LOOK_EXEMPT = {("log/reserve.c", "finish")}
# This file implements LLADD_USE.
USE_EXEMPT = {"db/guard.c"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
DEBT = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK")) + r")\b")
DEAD = re.compile(r"^\s*#\s*if\s+(0|false)\b")
NOISE = re.compile(r"(?<![\w.>])(abort|exit|_exit|_Exit|quick_exit|printf|vprintf|fprintf|vfprintf|"
                   r"dprintf|puts|fputs|putchar|perror|assert)\s*\(")
UNSAFE = re.compile(r"(?<![\w.>])(strcpy|strcat|sprintf|vsprintf|gets|alloca)\s*\(")
SYNC = re.compile(r"(?<![\w.>])(pthread_\w+|sem_\w+|__atomic_\w+|__sync_\w+|atomic_\w+)\s*\(")
LOAD = r"\blladd_atomic_load(?:32|64)(?:_relaxed)?\s*\("
LOOK = re.compile(LOAD + r"[^;{}]*?\b\w*(?:sleepers|asleep|starving|takers)\b|"
                  r"\bif\s*\([^;{}]*?" + LOAD + r"[^;{}]*\)\s*(?:\{[^{}]*?|return;[^{}]*?)?"
                  r"\blladd_word_wake\s*\(")
FUNCTION = re.compile(r"^[a-z][^\n;]*?\b(\w+)\(", re.M)
DECLARED = re.compile(r"^(?:LLADD_API|(?:static )?inline|LLADD_UNSEEN_)\s[^;{=]*?"
                      r"\b(lladd_\w+)\(", re.M)
DOCSTRING = re.compile(r"/\*\*(?!/)(?:(?!\*/)(?!@file|@cond|@endcond).)+\*/\n\Z", re.S)
HIDDEN = re.compile(r"/\*\* @cond \*/.*?/\*\* @endcond \*/", re.S)
SLEEP = re.compile(r"(?<![\w.>])(sleep|usleep|nanosleep|clock_nanosleep)\s*\(")
LIMIT = re.compile(r"\btcase_set_timeout\s*\(|\bTIMEOUT\s+\d")
# A limit of one wait, with its number: in seconds, and in milliseconds.
WAIT_S = re.compile(r"(?:\btimeout=|(?<![-\w])limit=|\b\w*SECONDS\s*=\s*|\bTIMEOUT_S\s*=\s*|"
                    r"\.tv_sec\s*\+=\s*|\btimeout\s+(?:-\S+\s+)*|"
                    r"\.(?:wait|join|first|stop|settimeout|set\w*Timeout)\(\s*)(\d[\d_]*)")
WAIT_MS = re.compile(r"\b\w+_MS\s*=\s*(\d[\d_]*)")
WAIT_SECONDS_MIN = 600
TYPEDEF = re.compile(r"^\s*typedef\s+(struct|union|enum)\b")
USE = re.compile(r"^int (lladd_\w+)\(([^;{)]*\bstruct lladd_txn \*(\w+)[^;{)]*)\)\n"
                 r"\{\n([^\n]*)", re.M)
MACHINE = re.compile(r"/(work|home|Users|root)/[A-Za-z0-9_.-]+")
ADDRESS = re.compile(r"https?:" + "//[A-Za-z0-9.-]+")
SPDX = "SPDX-License-" + "Identifier: BSD-2-Clause"


def files(root):
    """The text files that the rules apply to, as paths relative to root."""
    for name in sorted(os.listdir(root)):
        if os.path.isfile(os.path.join(root, name)) and wanted(name):
            yield name
    for top in sorted(FOLDERS):
        for folder, below, names in os.walk(os.path.join(root, top)):
            below[:] = sorted(d for d in below if not d.startswith("__") and d != "corpus")
            for name in sorted(names):
                if wanted(name):
                    yield os.path.relpath(os.path.join(folder, name), root)


def wanted(name):
    if name in {"runtests", "quickstart", "run", "install-peers", ".clang-format",
                "CMakeLists.txt"}:
        return True
    return name.endswith((".c", ".h", ".cc", ".cpp", ".py", ".sh", ".cmake", ".in", ".map", ".md",
                          ".java", ".1", ".dox", ".pml", ".dot"))


def without_comments(text):
    """C source with comments and the insides of strings blanked out, lines kept."""
    def blank(match):
        s = match.group(0)
        if s[0] == "/":
            return re.sub(r"[^\n]", " ", s)
        return s[0] + re.sub(r"[^\n]", " ", s[1:-1]) + s[0]
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, blank, text, flags=re.S)


def owner(path):
    """The folder a file belongs to; tests/log belongs to log."""
    parts = path.split(os.sep)
    return parts[1] if parts[0] == "tests" and len(parts) > 2 else parts[0]


def check_include(path, quote, name):
    top = path.split(os.sep)[0]
    if "../" in name:
        yield "include-up", f'"{name}" goes up'
    target = name.split("/")[0] if "/" in name else owner(path)
    foreign = target != owner(path)
    if name.endswith("_private.h") and foreign:
        yield "private", f"{name} belongs to {target}/"
    if name.endswith("_format.h") and foreign and top not in {"tools", "fuzz", "tests", "bench"}:
        yield "format", f"{name} belongs to {target}/"
    if top in {"operations", "xa", "examples"} and quote == '"' and foreign:
        yield "public-only", f"{name} is not public"


def check_use(path, text):
    if path.split(os.sep)[0] not in {"db", "inspect", "operations"} or path in USE_EXEMPT:
        return
    for match in USE.finditer(text):
        if not re.fullmatch(r" +(LL|LLADD)_USE\(" + match.group(3) + r"\);", match.group(4)):
            yield text.count("\n", 0, match.start()) + 1, "use", f"{match.group(1)}()"


def check_docstring(path, text):
    if not re.fullmatch(r"lladd/\w+\.h", path):
        return
    hidden = [match.span() for match in HIDDEN.finditer(text)]
    for match in DECLARED.finditer(text):
        start = match.start()
        if any(begin < start < end for begin, end in hidden):
            continue
        if not DOCSTRING.search(text[max(0, start - 4000):start]):
            yield text.count("\n", 0, start) + 1, "docstring", f"{match.group(1)}()"


def check_look(path, text):
    if path.split(os.sep)[0] not in LIBRARY:
        return
    code = without_comments(text)
    for match in LOOK.finditer(code):
        inside = FUNCTION.findall(code, 0, match.start())
        if (path, inside[-1] if inside else "") not in LOOK_EXEMPT:
            yield (code.count("\n", 0, match.start()) + 1, "look",
                   "looks for sleepers without lladd_atomic_look32")


def check_c(path, text):
    library = path.split(os.sep)[0] in LIBRARY
    top = path.split(os.sep)[0]
    for number, line in enumerate(text.split("\n"), 1):
        match = INCLUDE.match(line)
        if match:
            for rule, what in check_include(path, match.group(1), match.group(2)):
                yield number, rule, what
    for number, line in enumerate(without_comments(text).split("\n"), 1):
        if DEAD.match(line):
            yield number, "dead", "code that is switched off"
        if (library or top == "tests") and SLEEP.search(line):
            yield number, "sleep", "waits by sleeping"
        if not library:
            continue
        if path not in NOISE_EXEMPT and NOISE.search(line):
            yield number, "noise", f"{NOISE.search(line).group(1)}() in the library"
        if UNSAFE.search(line):
            yield number, "unsafe", f"{UNSAFE.search(line).group(1)}()"
        if path not in SYNC_EXEMPT and SYNC.search(line):
            yield number, "sync", f"{SYNC.search(line).group(1)}() outside <lladd/sync.h>"
        if path not in TYPEDEF_EXEMPT and TYPEDEF.match(line):
            yield number, "typedef", "a typedef of a struct, union or enum"


def limits(line):
    """The time limits in a line of a test that are not allowed."""
    for match in LIMIT.finditer(line):
        yield match.group(0)
    for pattern, unit in ((WAIT_S, 1), (WAIT_MS, 1000)):
        for match in pattern.finditer(line):
            if int(match.group(1).replace("_", "")) < WAIT_SECONDS_MIN * unit:
                yield match.group(0)


def check_text(path, text):
    lines = text.split("\n")
    code = not path.endswith(DOCUMENTS)
    if not path.endswith((".md", ".pc.in")):
        if not any(SPDX in line for line in lines[:2]):
            yield 1, "spdx", "no licence line"
    generated = "do not edit" in text[:400]
    if code and len(lines) - 1 > LINES_MAX and not generated:
        yield 1, "length", f"{len(lines) - 1} lines"
    if text and not text.endswith("\n"):
        yield len(lines), "space", "no newline at the end"
    for number, line in enumerate(lines, 1):
        if code and len(line) > COLUMNS_MAX and not path.endswith(".java"):
            yield number, "length", f"{len(line)} columns"
        if "\t" in line:
            yield number, "space", "a tab"
        if line != line.rstrip():
            yield number, "space", "blanks at the end"
        if DEBT.search(line):
            yield number, "debt", DEBT.search(line).group(1)
        if (path.startswith("tests/") or path == "runtests") and path not in LIMIT_EXEMPT:
            for what in limits(line):
                yield number, "limit", what
        if code and ADDRESS.search(line):
            yield number, "address", ADDRESS.search(line).group(0)
        if MACHINE.search(line):
            yield number, "machine", MACHINE.search(line).group(0)


def check_file(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    yield from check_text(path, text)
    yield from words.check(path, text)
    if path.endswith((".c", ".h", ".cc", ".cpp")):
        yield from check_c(path, text)
        yield from check_look(path, text)
        yield from check_use(path, text)
        yield from check_docstring(path, text)


def main(root):
    broken = checked = 0
    for path in files(root):
        checked += 1
        for number, rule, what in check_file(root, path):
            print(f"{path}:{number}: {rule}: {what}")
            broken += 1
    print(f"{checked} files, {broken} places")
    return 1 if broken or not checked else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
