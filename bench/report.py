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


def bound_of(row, medians):
    """The bound of a row's target, as (sign, number); None if there is none. A target is '<= 80',
    '<= 80 + 2 %', or '<= direct + 5 %': in the row "NAME: lookup", `direct` stands for the median
    of the row "direct: lookup"."""
    parts = re.fullmatch(r"(<=|<|>=|)\s*(.+?)(?:\s*([+-]\s*[0-9.]+) %)?", row.get("target") or "")
    if not parts:
        return None
    sign, base, percent = parts.groups()
    if re.fullmatch(r"[0-9.]+(e[+-]?[0-9]+)?", base):
        bound = float(base)
    else:
        other = f"{base}: {row['case'].rpartition(': ')[2]}"
        bound = medians.get((row["bench"], other))
    if bound is None:
        return None
    return sign, bound * (1 + float((percent or "0").replace(" ", "")) / 100)


def met(median, bound):
    """Whether a target is met; None if there is none, or none that can be compared."""
    if not bound:
        return None
    sign, number_ = bound
    return {"<=": median <= number_, "<": median < number_, ">=": median >= number_,
            "": abs(median - number_) < 0.01}[sign]


def table(lines):
    yield "| bench | case | median | spread | unit | target | limit here | |"
    yield "| --- | --- | ---: | --- | --- | --- | --- | --- |"
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    rows = [row for row in rows if "case" in row]  # the others are for charts
    medians = {(row["bench"], row["case"]): row["median"] for row in rows}
    for row in rows:
        bound = bound_of(row, medians)
        verdict = {True: "met", False: "**missed**", None: ""}[met(row["median"], bound)]
        target = row.get("target", "")
        if bound and len(target.split()) == 2 and target.split()[1][0].isdigit():
            target = f"{bound[0]} {number(bound[1])}"
        spread = f"{number(row['min'])} to {number(row['max'])}"
        yield (f"| {row['bench']} | {row['case']} | {number(row['median'])} | {spread} | "
               f"{row['unit']} | {target} | {row.get('limit', '')} | {verdict} |")


def main():
    for line in table(sys.stdin):
        print(line)


if __name__ == "__main__":
    main()
