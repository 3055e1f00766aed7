#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The rule "words" refuses each of its words in every kind of text, and accepts other text."""
import os
import sys
import unittest
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import words

# Texts into which a refused word is put: path and text.
PROSE = (
    ("log/a.c", "int x; /* {} writes */\n"),
    ("log/a.c", "/* a comment\n * of lines: {}\n */\n"),
    ("log/a.h", "// by {}\n"),
    ("log/a.c", 'char *m = "not {}, but";\n'),
    ("log/a.c", 'char *m = "a \\"b\\" {}";\n'),
    ("log/a.c", 'char *m = "a\\n{}\\n";\n'),
    ("tests/interop/A.java", "int x; // {}\n"),
    ("tests/a/a.cpp", "/** {}. */\n"),
    ("bench/a.py", "x = 1  # {}\n"),
    ("bench/a.py", '"""A program.\n\nof {}"""\n'),
    ("bench/a.py", "print(f'{{x}} {}')\n"),
    ("bench/a.py", "if x:\n        a()\n    {}()\n"),
    ("runtests", "x=1 # {}\n"),
    ("cmake/a.sh", "echo '{}'\n"),
    ("log/CMakeLists.txt", "# {}\n"),
    ("cmake/a.cmake", "message(STATUS \"{}\")\n"),
    ("new/a.md", "# A page\n\n*{}* reads\n"),
    ("new/a.1", ".B {}\n"),
)
NAMES = (
    ("tests/log/test_a.c", "START_TEST(test_{}_writes)\n{{\n}}\n"),
    ("tests/log/test_a.c", "static void test_for_{}(int x)\n{{\n}}\n"),
    ("tests/log/a.py", "class A:\n    def test_{}(self):\n        pass\n"),
    ("tests/log/CMakeLists.txt", "add_test(NAME log/{}_x COMMAND a)\n"),
)


def found(path, text):
    return [(line, what) for line, rule, what in words.check(path, text) if rule == "words"]


@mock.patch.object(words, "NOT_YET", set())
class Words(unittest.TestCase):
    def test_every_word_is_refused_everywhere(self):
        for word in words.WORDS:
            for form in word, word.capitalize(), word.upper():
                for path, text in PROSE:
                    planted = text.format(form)
                    line = planted[:planted.index(form)].count("\n") + 1
                    self.assertEqual(found(path, planted), [(line, f'"{form}"')], planted)
            for path, text in NAMES:
                self.assertEqual(len(found(path, text.format(word))), 1, text.format(word))

    def test_other_text_is_accepted(self):
        for path, text in PROSE + NAMES:
            for word in "whole", "the", "this", "history", "hers", "shim", "with", "whowas":
                self.assertEqual(found(path, text.format(word)), [], text.format(word))

    def test_code_is_not_prose(self):
        self.assertEqual(found("log/a.c", '#include "log/behind.h"\nint who = his[0];\n'
                                          "char c = '\"'; int he;\n"), [])
        self.assertEqual(found("bench/a.py", "who = his + he\n"), [])
        self.assertEqual(found("log/a.c", "void test_who_writes(void);\n"), [])

    def test_exceptions(self):
        for path in words.EXEMPT:
            self.assertEqual(found(path, "# who\n"), [])
        with mock.patch.object(words, "NOT_YET", {"log", "A.md"}):
            self.assertEqual(found("log/a.c", "/* who */\n"), [])
            self.assertEqual(found("A.md", "who\n"), [])
            self.assertEqual(len(found("tests/log/a.c", "/* who */\n")), 1)
        with mock.patch.object(words, "ALLOWED", {("new/a.md", "Who Let the Bytes Out")}):
            self.assertEqual(found("new/a.md", "[1] Who Let the Bytes Out\nwho\n"),
                             [(2, '"who"')])
            self.assertEqual(len(found("new/b.md", "[1] Who Let the Bytes Out\n")), 1)


if __name__ == "__main__":
    unittest.main()
