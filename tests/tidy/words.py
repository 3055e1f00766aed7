# SPDX-License-Identifier: BSD-2-Clause
"""The rule "words" of tidy.py: prose names what acts ("the writer", "the caller"). So the rule
refuses the words in WORDS: pronouns for persons, and "behind". It reads

    C, C++, Java     comments and string literals
    Python           comments and strings
    shell, CMake and other scripts, documents, man pages
                     the whole text
    tests/           also the words in the names of test functions and of CMake tests

Files that list the words are in EXEMPT. Folders in NOT_YET are not read.
"""
import io
import os
import re
import tokenize

# Folders, and files of the root, that still have refused words.
NOT_YET = set()
EXEMPT = {"tests/tidy/words.py", "tests/tidy/test_words.py"}
# Text that stays as it is, such as the title of a paper: (path, text).
ALLOWED = {("bench/common_lineitem.c", "before,behind,beneath"),  # the text of TPC-H
           ("bench/charts.py", "graph 1 behind fillcolor"),  # a keyword of gnuplot
           ("docs/dump-format.md", '"he said \\"no\\""')}  # a value

WORDS = ("who", "whose", "whom", "whoever", "somebody", "nobody", "anybody", "someone", "anyone",
         "he", "him", "his", "behind")
WORD = re.compile(r"\b(" + "|".join(WORDS) + r")\b", re.I)
C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# An escape in a literal: the letter of "\nhe" does not belong to the word.
ESCAPE = re.compile(r"\\[abfnrtv0]")
INCLUDE = re.compile(r"^[ ]*#[ ]*include[^\n]*", re.M)
TEST_NAMES = (re.compile(r"\bSTART_TEST\((\w+)\)"),
              re.compile(r"^\s*(?:static )?\w+ \*?(test_\w+)\(", re.M),
              re.compile(r"\bNAME ([\w/]+)"))


def c_prose(text):
    """Yields (line, text) for each comment and each string literal of C, C++ or Java."""
    text = INCLUDE.sub("", text)
    for match in C_TOKEN.finditer(text):
        token = match.group(0)
        if token[0] != "'":
            yield (text.count("\n", 0, match.start()) + 1,
                   ESCAPE.sub("  ", token) if token[0] == '"' else token)


def python_prose(text):
    """Yields (line, text) for each comment and each string of Python."""
    names = {"COMMENT", "STRING", "FSTRING_MIDDLE"}
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        yield 1, text  # no Python
        return
    for token in tokens:
        if tokenize.tok_name[token.type] in names:
            yield token.start[0], ESCAPE.sub("  ", token.string)


def prose(path, text):
    if path.endswith((".c", ".h", ".cc", ".cpp", ".java", ".dox")):
        yield from c_prose(text)
    elif path.endswith(".py"):
        yield from python_prose(text)
    else:
        yield 1, text
    if path.startswith("tests" + os.sep):
        for pattern in TEST_NAMES:
            for match in pattern.finditer(text):
                yield (text.count("\n", 0, match.start(1)) + 1,
                       re.sub(r"[_/]", " ", match.group(1)))


def check(path, text):
    """Yields (line, rule, what) for each word that is refused."""
    if path in EXEMPT or path.split(os.sep)[0] in NOT_YET:
        return
    for allowed_path, allowed in ALLOWED:
        if path == allowed_path:
            text = text.replace(allowed, re.sub(r"[^\n]", " ", allowed))
    for line, piece in prose(path, text):
        for match in WORD.finditer(piece):
            yield line + piece.count("\n", 0, match.start()), "words", f'"{match.group(0)}"'
