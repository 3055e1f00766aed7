#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""sim_report.py <report> [<least>]: sums up what lladd-sim --report has written, one JSON object a
line. Exit status 1 if a subject failed, none was explored, or there were fewer crash states (with
--damage: damages) than <least>."""
import json
import sys


def main(path, least="0"):
    with open(path, encoding="utf-8") as file:
        subjects = [json.loads(line) for line in file]
    states = sum(s.get("states", s.get("done", 0)) for s in subjects)
    damaged = any(s.get("mode") == "damage" for s in subjects)
    failures = [(s["subject"], f) for s in subjects for f in s["failures"]]
    for name, f in failures:
        print(f"{name}: {f['oracle']}: {f['message']}, token {f['token'] or 'none'}")
    cut = [s["subject"] for s in subjects if not s["complete"]]
    if cut:
        print(f"stopped by a bound: {' '.join(cut)}")
    deepest = max((len(s.get("depth_states", [])) for s in subjects), default=0)
    seconds = sum(s["nanoseconds"] for s in subjects) / 1e9
    schedules = sum(s.get("schedules", 0) for s in subjects)
    print(f"{len(subjects)} subjects, " + (f"{schedules:,} schedules, " if schedules else "") +
          (f"{states:,} damages" if damaged else
           f"{states:,} crash states, up to {deepest} crashes in a row") + f", {seconds:.0f} s")
    return 1 if failures or not subjects or states < int(least) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
