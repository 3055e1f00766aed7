#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Turns the benches' JSON lines (standard input) into the table of docs/benchmarks.md.

    for b in core fix commit; do build/release/bench/bench-$b; done | bench/report.py
"""
import json
import re
import sys


def number(value):
    if value >= 1e6:
        return f"{value / 1e6:.2f} M"
    if value >= 1e4:
        return f"{value / 1e3:.1f} k"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def met(median, target):
    """Whether a target such as '<= 80' or '>= 10000000' is met; None if it says nothing."""
    parts = re.fullmatch(r"(<=|<|>=|)\s*([0-9.e+]+)", target or "")
    if not parts:
        return None
    bound = float(parts.group(2))
    return {"<=": median <= bound, "<": median < bound, ">=": median >= bound,
            "": abs(median - bound) < 0.01}[parts.group(1)]


def table(lines):
    yield "| bench | case | median | spread | unit | target | limit here | |"
    yield "| --- | --- | ---: | --- | --- | --- | --- | --- |"
    for line in lines:
        if not line.startswith("{"):
            continue
        row = json.loads(line)
        verdict = {True: "met", False: "**missed**", None: ""}[met(row["median"],
                                                                    row.get("target"))]
        target = row.get("target", "")
        words = target.split()
        if len(words) == 2:
            target = f"{words[0]} {number(float(words[1]))}"
        spread = f"{number(row['min'])} to {number(row['max'])}"
        yield (f"| {row['bench']} | {row['case']} | {number(row['median'])} | {spread} | "
               f"{row['unit']} | {target} | {row.get('limit', '')} | {verdict} |")


def main():
    for line in table(sys.stdin):
        print(line)


if __name__ == "__main__":
    main()
