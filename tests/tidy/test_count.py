#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests how `runtests` counts every way in which a ctest test can end."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "cmake"))
import count_tests


def case(name, status, inside="", output=""):
    return (f'<testcase name="{name}" classname="{name}" time="0" status="{status}">{inside}'
            f"<properties/><system-out>{output}</system-out></testcase>")


class Counting(unittest.TestCase):
    def counts(self, *cases):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write("<testsuite>" + "".join(cases) + "</testsuite>")
            file.flush()
            return count_tests.count(file.name)

    def test_plain(self):
        self.assertEqual(self.counts(case("a", "run"), case("b", "run")), (2, 0, 0, []))
        self.assertEqual(self.counts(case("a", "fail", '<failure message="Exit 3"/>')),
                         (0, 1, 0, ["failed a Exit 3"]))

    def test_check(self):
        good = "Running suite(s): x\n100%: Checks: 12, Failures: 0, Errors: 0\n"
        bad = "75%: Checks: 4, Failures: 1, Errors: 0\ntest.c:5: no\n"
        self.assertEqual(self.counts(case("a", "run", "", good)), (12, 0, 0, []))
        self.assertEqual(self.counts(case("a", "fail", '<failure message=""/>', bad)),
                         (3, 1, 0, ["failed a 1 of 4 cases",
                                    "| 75%: Checks: 4, Failures: 1, Errors: 0",
                                    "| test.c:5: no"]))

    def test_bad_end(self):
        good = "100%: Checks: 12, Failures: 0, Errors: 0\n"
        leak = case("a", "fail", '<failure message="Failed"/>', good)
        self.assertEqual(self.counts(leak),
                         (12, 1, 0, ["failed a Failed", "| " + good.rstrip()]))
        self.assertEqual(self.counts(case("a", "fail", '<failure message="Timeout"/>', "Running")),
                         (0, 1, 0, ["failed a Timeout", "| Running"]))
        self.assertEqual(self.counts(case("a", "notrun"))[:3], (0, 1, 0))

    def test_vacuous(self):
        none = "100%: Checks: 0, Failures: 0, Errors: 0\n"
        self.assertEqual(self.counts(case("a", "run", "", none)),
                         (0, 1, 0, ["failed a ran no case", "| " + none.rstrip()]))

    def test_skipped(self):
        skip = case("a", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>',
                    "skip: no second disk\n")
        self.assertEqual(self.counts(skip), (0, 0, 1, ["skipped a no second disk"]))
        self.assertEqual(self.counts(case("a", "disabled")), (0, 0, 1, ["skipped a disabled"]))

    def test_unittest(self):
        self.assertEqual(self.counts(case("a", "run", "", "....\nRan 4 tests in 0.1s\nOK\n")),
                         (4, 0, 0, []))
        bad = "..F.\nRan 4 tests in 0.1s\n\nFAILED (failures=1, errors=1)\n"
        self.assertEqual(self.counts(case("a", "fail", '<failure message=""/>', bad))[:3],
                         (2, 2, 0))


if __name__ == "__main__":
    unittest.main()
