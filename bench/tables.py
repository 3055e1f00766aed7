# SPDX-License-Identifier: BSD-2-Clause
"""Tables of docs/benchmarks.md, from the rows of lladd-bench."""
import datetime
import os
import platform
import re
import statistics

import report
from rows import ASIDE, BESIDES, WEAKER, WEAKER_IN, instructions_of, ours
from targets import own_target_table, target_table

number = report.number


def group_of(row):
    """The key of rows that may be compared: they differ only in engine, n, threads and run."""
    return tuple(row.get(k) for k in ("workload", "case", "filesystem", "records", "key_size",
                                      "value_size", "cache_mib", "level"))


class Cell:
    """One engine at one size and one number of threads, over its runs."""

    def __init__(self):
        self.rows = []
        self.failure = None

    def add(self, row):
        if row["failure"]:
            self.failure = row["failure"]
        else:
            self.rows.append(row)

    def median(self, field):
        values = [r[field] for r in self.rows if r.get(field) is not None]
        return statistics.median(values) if values else None

    def shown(self):
        rate = self.median("ops_per_s")
        if rate is None:
            return "failed" if self.failure else ""
        rates = [r["ops_per_s"] for r in self.rows]
        spread = (max(rates) - min(rates)) / rate * 50 if rate else 0
        return number(rate) + (f" ±{spread:.0f} %" if len(rates) > 1 else "")


def by_time(row):
    """Whether the case runs for a number of seconds, so that its number of operations is a
    result."""
    return row["workload"] in ("W3", "W4", "W8", "W12")


def collect(rows):
    """{group: {engine: {(n, threads): Cell}}}, in the order of the rows."""
    groups = {}
    for row in rows:
        if "skipped" in row or row["workload"] == "W10":
            continue
        engines = groups.setdefault(group_of(row), {})
        n = 0 if by_time(row) else row["n"]
        cells = engines.setdefault(row["engine"], {})
        cells.setdefault((n, row["threads"]), Cell()).add(row)
    return groups


def best_of(engines, column, wanted):
    rates = [(cells[column].median("ops_per_s"), e) for e, cells in engines.items()
             if column in cells and wanted(e) and e not in ASIDE and
             cells[column].median("ops_per_s")]
    return max(rates) if rates else None


def heading(column, columns):
    n, threads = column
    parts = []
    if len({c[0] for c in columns}) > 1:
        parts.append(number(n))
    if len({c[1] for c in columns}) > 1 or not parts:
        parts.append(f"{threads} thread{'s' if threads > 1 else ''}")
    return ", ".join(parts)


def lost_at(engines, engine, columns, column_names):
    """A note on each column in which `engine` is the best of ours, but a peer is faster."""
    lost = []
    for column in columns:
        mine = best_of(engines, column, ours)
        peer = best_of(engines, column, lambda e: not ours(e))
        if mine and peer and mine[1] == engine and mine[0] < peer[0]:
            lost.append(f"**lost** {column_names[column]}: {mine[0] / peer[0]:.2g} × {peer[1]}")
    return "; ".join(lost)


DETAILS = [("p50_us", "p50 µs"), ("p99_us", "p99 µs"), ("p999_us", "p99.9 µs"),
           ("cpu_us_per_op", "CPU µs"), ("log_bytes_per_op", "log B"),
           ("device_bytes_per_op", "device B"), ("syncs_per_op", "syncs"),
           ("pages_read_per_op", "pages in"), ("pages_written_per_op", "pages out"),
           ("peak_memory_mib", "MiB")]


def one_table(group, engines):
    columns = sorted({c for cells in engines.values() for c in cells})
    names = {c: heading(c, columns) for c in columns}
    best = {c: best_of(engines, c, lambda e: True) for c in columns}
    # Details are from the column that most engines have; of several such columns, from the last.
    last = max(columns, key=lambda c: (sum(c in cells for cells in engines.values()), c))
    used = [d for d in DETAILS
            if any(cells[last].median(d[0]) for cells in engines.values() if last in cells)]
    head = ["engine", *(f"{names[c]}, 1/s" for c in columns), *(d[1] for d in used), ""]
    lines = ["| " + " | ".join(head) + " |",
             "| --- |" + " ---: |" * (len(columns) + len(used)) + " --- |"]
    for engine, cells in engines.items():
        line = [engine]
        for c in columns:
            text = cells[c].shown() if c in cells else ""
            line.append(f"**{text}**" if best[c] and best[c][1] == engine else text)
        for field, _ in used:
            value = cells[last].median(field) if last in cells else None
            line.append("" if value is None else number(value) if value else "0")
        line.append(lost_at(engines, engine, columns, names) or
                    WEAKER_IN.get((group[0], engine)) or WEAKER.get(engine) or
                    ASIDE.get(engine) or BESIDES.get(engine, ""))
        lines.append("| " + " | ".join(line) + " |")
    note = f"Details: {names[last]}." if len(columns) > 1 else ""
    return "\n".join(lines) + ("\n\n" + note if note else "")


TITLES = {
    "insert": "inserts, int to int, in one transaction a thread, creation to clean close",
    "fill": "an array of ints filled in one transaction, creation to clean close",
    "overwrite": "ints of an array overwritten in one transaction, opening to clean close",
    "durable": "durable transactions of one update",
    "async": "durable transactions of one update, at most 1000 in flight",
    "os": "transactions of one update, the log handed to the operating system",
    "process": "transactions of one update, the log left in the process",
    "lookup": "cached random lookups",
    "lookup-64": "cached random lookups, 64 keys a call",
    "recovery-warm": "transactions replayed after kill -9, until the first read",
    "recovery-cold": "transactions replayed after kill -9, nothing cached",
    "update": "random updates, the cache a fraction of the data",
    "peak": "durable transactions while a checkpoint runs, full load",
    "half-load": "durable transactions at half of the peak load, no checkpoint",
    "half-load-checkpoints":
        "durable transactions at half of the peak load, checkpoint after checkpoint",
    "half-load-natural":
        "durable transactions at half of the peak load, a checkpoint after 16 MiB of log",
    "rollback": "updates of one transaction rolled back",
    "copy": "MiB a second of a closed database, its files copied and synced",
    "backup": "MiB a second of an open database that is backed up while it is idle",
    "backup-busy": "MiB a second of a database that is backed up beside transactions",
    "commits": "durable transactions of one update, no backup",
    "commits-backup": "durable transactions of one update while backups are made",
}


def title(group):
    workload, case, filesystem, records, key, value, cache, _ = group
    parts = [f"{key} to {value} bytes", filesystem, f"cache {cache} MiB"]
    if records:
        parts.insert(0, f"{records:,} records")
    return f"### {workload} {case}: {TITLES.get(case, case)}\n\n{', '.join(parts)}."


def instruction_table(rows):
    found = instructions_of(rows)
    if not found:
        return []
    lines = ["### W10: instructions an operation (callgrind)", "",
             "| engine | insert, one transaction | lookup |", "| --- | ---: | ---: |"]
    for engine, cases in found.items():
        shown = [f"{cases[c]:.0f}" if c in cases else "" for c in ("insert", "lookup")]
        lines.append(f"| {engine} | {shown[0]} | {shown[1]} |")
    return ["\n".join(lines)]


def settings_table(rows):
    seen = {}
    for row in rows:
        if row.get("settings"):
            seen[row["engine"]] = (row["version"], row["settings"])
    lines = ["### Versions and settings", "",
             "A setting after `disk:`, `OS:` or `process:` is used at that level of durability "
             "only.", "", "| engine | version | settings |", "| --- | --- | --- |"]
    lines += [f"| {e} | {v} | {s} |" for e, (v, s) in seen.items()]
    missing = {(r["engine"], r["skipped"]) for r in rows
               if "skipped" in r and r["workload"] == "all"}
    lines += [f"| {e} | | skipped: {why} |" for e, why in sorted(missing)]
    return "\n".join(lines)


# ---- the page --------------------------------------------------------------------------------

def machine():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return (f"Measured on {datetime.date.today().isoformat()}: {os.cpu_count()} processors "
            f"({model}), Linux {platform.release()}. The rates are medians; ± is half the distance "
            f"between the smallest and the largest. The best of each column is bold, and a column "
            f"in which a peer is ahead is marked as lost.")


def page(rows, drawn, partly=False):
    groups = collect(rows)
    parts = [machine()]
    table = target_table(rows, partly)
    parts += [table] if table else []
    parts += [f"![{text}](charts/{name}.svg)" for name, text in drawn]
    parts += [title(g) + "\n\n" + one_table(g, e) for g, e in groups.items()]
    parts += instruction_table(rows)
    parts.append(settings_table(rows))
    failures = [f"- {r['workload']} {r['case']} {r['engine']}, {r['threads']} threads, "
                f"{r['n']:,}: {r['failure']}" for r in rows if r.get("failure") and "n" in r]
    if failures:
        parts.append("### Failed\n\n" + "\n".join(failures))
    return "\n\n".join(parts)


def levels(rows):
    """The table of docs/levels.md, from the rows of bench-weather's case `model`."""
    costs = next(row["costs"] for row in rows if "costs" in row)
    lines = [f"Measured on {datetime.date.today().isoformat()} with {costs['tuples'] / 1e6:g} "
             f"million tuples and {costs['processors']} processors.\nProcessor time of a tuple: "
             f"{costs['put_ns']} ns to put it, {costs['from_memory_ns']} ns to merge it from "
             f"memory, {costs['from_run_ns']} ns to merge it from a run.\nIn memory it takes "
             f"{costs['memory_bytes']:.0f} bytes.", "",
             "| R | C0, MiB | R at the end | copies of a tuple | model | bytes written for it | "
             "tuples/s | model | MB/s, the paper's measure |",
             "| ---: |" + " ---: |" * 8]
    for p in (row["levels"] for row in rows if "levels" in row):
        lines.append(f"| {p['r']:g} | {p['memory_mib']:.1f} | {p['r_measured']:.1f} | "
                     f"{p['copies']:.1f} | {p['copies_model']:.1f} | {p['bytes']:.0f} | "
                     f"{number(p['rate'])} | {number(p['rate_model'])} | {p['paper_mb']} |")
    return "\n".join(lines)


def own(path):
    with open(path, encoding="utf-8") as f:
        lines = list(f)
    return "\n".join(report.table(lines)) + own_target_table(lines)


def edit(path, name, change):
    """Replaces the text between the markers of that name with change(text)."""
    begin, end = f"<!-- bench/run: {name} -->", f"<!-- bench/run: end of {name} -->"
    with open(path, encoding="utf-8") as f:
        old = f.read()
    if begin not in old or end not in old:
        raise SystemExit(f"{path}: {begin} and {end} are not there")
    head, rest = old.split(begin, 1)
    text, tail = rest.split(end, 1)
    text = change(text.strip("\n"))
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{head}{begin}\n{text}\n{end}{tail}" if text else f"{head}{begin}\n{end}{tail}")


def write(path, name, text):
    edit(path, name, lambda old: text)


# ---- a later run of some workloads ------------------------------------------------------------

def again(rows, partly=False):
    """The tables of a later run of only some workloads; `partly`: of only some engines."""
    return ("### A later run of some workloads\n\nThe charts do not have these rows.\n\n" +
            page(rows, [], partly))


def without(text, workloads, engines=()):
    """A page without the tables and the targets of these workloads. With `engines`, it loses only
    their rows and targets."""
    heads = tuple(f"### {w} " for w in workloads)
    targets = tuple(f"| {w}{c}" for w in workloads for c in ", ")
    rows = tuple(f"| {e} |" for e in engines)
    sections = re.split(r"\n\n(?=### )", text)
    lines = []
    for section in sections:
        measured = section.startswith(heads)
        if measured and not engines:
            continue
        kept = section.splitlines()
        if measured:
            kept = [line for line in kept if not line.startswith(rows)]
        lines += ["", *kept] if lines else kept
    named = tuple(f"({e})" for e in engines)
    return "\n".join(line for line in lines if not line.startswith(targets) or
                     engines and not any(n in line.split("|")[1] for n in named))
