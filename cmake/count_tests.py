#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""count_tests.py <junit.xml>: "passed failed skipped" of a ctest run, then a line for each test
that failed or was skipped: "failed NAME WHY" or "skipped NAME WHY". After a failed test come the
last lines of its output, each after "| ".

A Check program counts with its cases, a Python unittest with its tests, any other test as one. A
test that ends badly without a failed case (a crash, a leak, a time-out) is one failure; so is a
program that ran no case at all."""
import re
import sys
import xml.etree.ElementTree

END_LINES = 25

CHECK = re.compile(r"^\d+%: Checks: (\d+), Failures: (\d+), Errors: (\d+)", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in ", re.M)
SKIP_REASON = re.compile(r"^skip(?:ped)?: *(.+)$", re.M | re.I)
UNITTEST_BAD = re.compile(r"^FAILED \((.*)\)$", re.M)


def cases_of(output):
    """(cases, failed cases) that the program itself reports, or None."""
    reports = CHECK.findall(output)
    if reports:
        cases = sum(int(r[0]) for r in reports)
        return cases, sum(int(r[1]) + int(r[2]) for r in reports)
    ran = UNITTEST.findall(output)
    bad = sum(int(n) for said in UNITTEST_BAD.findall(output)
              for n in re.findall(r"(?:failures|errors)=(\d+)", said))
    return (sum(map(int, ran)), bad) if ran else None


def judge(case):
    """(passed, failed, skipped, why) of one ctest test."""
    output = "".join(case.itertext())
    failure, skipped = case.find("failure"), case.find("skipped")
    status = case.get("status")
    if skipped is not None or status == "disabled":
        said = SKIP_REASON.search(output)
        message = skipped.get("message") if skipped is not None else "disabled"
        return 0, 0, 1, said.group(1) if said else message or "no reason given"
    bad = failure is not None or status != "run"
    cases = cases_of(output)
    if cases is None:
        why = (failure.get("message") if failure is not None else status) or "failed"
        return (0, 1, 0, why) if bad else (1, 0, 0, "")
    total, failed = cases
    if total == 0:
        return 0, 1, 0, "ran no case"
    if bad and failed == 0:
        return total, 1, 0, (failure.get("message") if failure is not None else "") or "ended badly"
    return total - failed, failed, 0, f"{failed} of {total} cases" if failed else ""


def end_of(case):
    """The last lines of a test's output."""
    output = case.find("system-out")
    said = (output.text or "").rstrip().split("\n") if output is not None else []
    return ["| " + line for line in said[-END_LINES:] if line]


def count(path):
    passed = failed = skipped = 0
    lines = []
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        p, f, s, why = judge(case)
        passed, failed, skipped = passed + p, failed + f, skipped + s
        if f or s:
            lines.append(f"{'failed' if f else 'skipped'} {case.get('name')} {why}")
        if f:
            lines += end_of(case)
    return passed, failed, skipped, lines


if __name__ == "__main__":
    p, f, s, notes = count(sys.argv[1])
    print(p, f, s)
    for note in notes:
        print(note)
