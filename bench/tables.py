# SPDX-License-Identifier: BSD-2-Clause
"""Tables of docs/benchmarks.md, from the rows of lladd-bench."""
import collections
import datetime
import json
import os
import platform
import statistics

import report

number = report.number
# Cases in which engines without transactions, or without isolation, have an easier life.
WEAKER = {"leveldb": "no isolation", "rocksdb-batch": "no isolation",
          "kyotocabinet-hash": "others see changes before the commit",
          "kyotocabinet-tree": "others see changes before the commit"}
NO_LOG = "no log: nothing to replay"
NO_UNDO = "the database is as it was before the commit: nothing to undo"
WEAKER_IN = {("W6", "lmdb"): NO_LOG, ("W6", "tdb"): NO_LOG, ("W9", "lmdb"): NO_UNDO,
             ("W9", "sqlite"): NO_UNDO, ("W9", "rocksdb-txn"): NO_UNDO, ("W9", "tdb"): NO_UNDO}


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.startswith("{")]


def ours(engine):
    return engine.startswith("lladd-")


def group_of(row):
    """Rows that may be compared: everything is equal but engine, threads and run."""
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
    """Of cases with a length in seconds the number of operations is a result."""
    return row["workload"] in ("W3", "W4", "W8")


def collect(rows):
    """{group: {engine: {(n, threads): Cell}}}, in the order of the rows."""
    groups = {}
    for row in rows:
        if "skipped" in row or row["workload"] == "W10":
            continue
        engines = groups.setdefault(group_of(row), {})
        n = 0 if by_time(row) else row["n"]
        if row["case"] == "lookup-64":
            n = round(n, -4) or n  # whole groups of 64
        cells = engines.setdefault(row["engine"], {})
        cells.setdefault((n, row["threads"]), Cell()).add(row)
    return groups


def best_of(engines, column, wanted):
    rates = [(cells[column].median("ops_per_s"), e) for e, cells in engines.items()
             if column in cells and wanted(e) and cells[column].median("ops_per_s")]
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
    """Where the best of our engines is behind the best peer, said of that engine."""
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
    # Details are those of the column that most engines have, the last one of these.
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
                    WEAKER_IN.get((group[0], engine)) or WEAKER.get(engine, ""))
        lines.append("| " + " | ".join(line) + " |")
    note = f"Details: {names[last]}." if len(columns) > 1 else ""
    return "\n".join(lines) + ("\n\n" + note if note else "")


TITLES = {
    "insert": "inserts, int to int, in one transaction a thread, creation to clean close",
    "fill": "an array of ints filled in one transaction, creation to clean close",
    "overwrite": "ints of an array overwritten in one transaction, opening to clean close",
    "durable": "durable transactions of one update",
    "async": "the same, at most 1000 in flight",
    "os": "the same, the log handed to the operating system",
    "process": "the same, the log left in the process",
    "lookup": "cached random lookups",
    "lookup-64": "the same, 64 keys a call",
    "recovery-warm": "transactions replayed after kill -9, until the first read",
    "recovery-cold": "the same, nothing cached",
    "update": "random updates, the cache a fraction of the data",
    "peak": "durable transactions while a checkpoint runs, full load",
    "half-load": "the same at half of that load, no checkpoint",
    "half-load-checkpoints": "the same at half of that load, checkpoint after checkpoint",
    "rollback": "updates of one transaction rolled back",
}


def title(group):
    workload, case, filesystem, records, key, value, cache, _ = group
    parts = [f"{key} to {value} bytes", filesystem, f"cache {cache} MiB"]
    if records:
        parts.insert(0, f"{records:,} records")
    return f"### {workload} {case}: {TITLES.get(case, case)}\n\n{', '.join(parts)}."


def instruction_table(rows):
    found = collections.OrderedDict()
    for row in rows:
        if row["workload"] == "W10" and row.get("instructions_per_op"):
            found.setdefault(row["engine"], {})[row["case"]] = row["instructions_per_op"]
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
    lines = ["### Versions and settings", "", "| engine | version | settings |",
             "| --- | --- | --- |"]
    lines += [f"| {e} | {v} | {s} |" for e, (v, s) in seen.items()]
    missing = {(r["engine"], r["skipped"]) for r in rows
               if "skipped" in r and r["workload"] == "all"}
    lines += [f"| {e} | | skipped: {why} |" for e, why in sorted(missing)]
    return "\n".join(lines)


# ---- targets ---------------------------------------------------------------------------------

def rate_of(groups, workload, case, engine, n, threads, filesystem=None):
    """The best rate any group has for it; engine None: the best peer, a prefix: the best of it."""
    found = []
    for group, engines in groups.items():
        if group[:2] != (workload, case) or (filesystem and group[2] != filesystem):
            continue
        if not filesystem and group[2] == "tmpfs" and workload == "W3":
            continue
        for name, cells in engines.items():
            wanted = not ours(name) if engine is None else name.startswith(engine)
            for (size, t), cell in cells.items():
                rate = cell.median("ops_per_s")
                if wanted and t == threads and (n is None or size == n) and rate:
                    found.append((rate, name))
    return max(found) if found else None


# Text; workload, case, ours, operations (None: any), threads, filesystem; at least so many a
# second; at least so many times a peer (None: the best one).
TARGETS = [
    ("W1, 1 million", ("W1", "insert", "lladd-hash", 1000000, 1, None), 4e6, []),
    ("W1, 1 million, to Berkeley DB's hash", ("W1", "insert", "lladd-hash", 1000000, 1, None),
     None, [(8, "bdb-hash")]),
    ("W1, 1 million, to TDB", ("W1", "insert", "lladd-hash", 1000000, 1, None), None,
     [(1.5, "tdb")]),
    ("W1, 5 million", ("W1", "insert", "lladd-hash", 5000000, 1, None), None, [(1, None)]),
    ("W1, 200 threads", ("W1", "insert", "lladd-hash", 1000000, 200, None), None, [(1, None)]),
    ("W2 fill, an element a call", ("W2", "fill", "lladd-array", 1000000, 1, None), 8e6, []),
    ("W2 fill, many a call, to the best peer",
     ("W2", "fill", "lladd-array-bulk", 1000000, 1, None), None, [(1, None)]),
    ("W2 overwrite", ("W2", "overwrite", "lladd-array", 1000000, 1, None), 4e6, []),
    ("W3, 8 threads", ("W3", "durable", "lladd-hash", None, 8, None), None, [(1.2, None)]),
    ("W3, 64 threads", ("W3", "durable", "lladd-hash", None, 64, None), None, [(2, None)]),
    ("W3, asynchronous", ("W3", "async", "lladd", None, 1, None), 1.5e6, []),
    ("W3, tmpfs, 1 thread", ("W3", "durable", "lladd", None, 1, "tmpfs"), 600e3, []),
    ("W3, tmpfs, 8 threads", ("W3", "durable", "lladd", None, 8, "tmpfs"), 350e3, []),
    ("W4, log to the operating system", ("W4", "os", "lladd", None, 1, None), 700e3, []),
    ("W4, log in the process", ("W4", "process", "lladd", None, 1, None), 3e6, []),
    ("W5, 1 thread", ("W5", "lookup", "lladd-hash", 500000, 1, None), 2.6e6, []),
    ("W5, 2 threads", ("W5", "lookup", "lladd-hash", 500000, 2, None), 5e6, []),
    ("W5, 200 threads", ("W5", "lookup", "lladd-hash", 500000, 200, None), 4.8e6, []),
    ("W5, 64 keys a call", ("W5", "lookup-64", "lladd-hash", 500000, 1, None), 8e6, []),
    ("W6, 200 thousand", ("W6", "recovery-warm", "lladd", 200000, 1, None), 8e6, []),
    ("W7, to the best in place", ("W7", "update", "lladd", None, 1, None), None,
     [(2, ("bdb", "lmdb", "sqlite", "wiredtiger", "kyotocabinet", "tdb"))]),
    ("W9", ("W9", "rollback", "lladd", None, 1, None), 3e6, []),
]


def peer_rate(groups, query, peer):
    workload, case, _, n, threads, filesystem = query
    names = peer if isinstance(peer, tuple) else (peer,)
    rates = [rate_of(groups, workload, case, name, n, threads, filesystem) for name in names]
    return max((r for r in rates if r), default=None)


def target_table(rows, groups):
    lines = ["### Targets", "", "| | here | target | best peer | |",
             "| --- | ---: | --- | --- | --- |"]
    for text, query, least, ratios in TARGETS:
        mine = rate_of(groups, *query)
        best = peer_rate(groups, query, None)
        if not mine:
            continue
        shown = f"{number(best[0])} ({best[1]})" if best else ""
        if least:
            met, wanted = mine[0] >= least, f"{number(least)}/s"
        else:
            factor, peer = ratios[0]
            other = peer_rate(groups, query, peer)
            if not other:
                continue
            met = mine[0] >= factor * other[0]
            wanted = f"{factor} × {other[1]}, {number(factor * other[0])}/s"
        lines.append(f"| {text} ({mine[1]}) | {number(mine[0])} | {wanted} | {shown} | "
                     f"{'met' if met else '**missed**'} |")
    return "\n".join(lines + latency_lines(groups)) if len(lines) > 4 else ""


def latency_lines(groups):
    """W8: p99.9 with checkpoints by p99.9 without."""
    found = {}
    for group, engines in groups.items():
        if group[0] == "W8":
            for cells in (engines.get("lladd-hash", {}),):
                for cell in cells.values():
                    found[group[1]] = cell.median("p999_us")
    with_them, without = found.get("half-load-checkpoints"), found.get("half-load")
    if not with_them or not without:
        return []
    met = "met" if with_them <= 3 * without else "**missed**"
    return [f"| W8, p99.9 during checkpoints (lladd-hash) | {number(with_them)} µs | at most 3 × "
            f"{number(without)} µs | | {met} |"]


# ---- the page --------------------------------------------------------------------------------

def machine():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return (f"Measured on {datetime.date.today().isoformat()}: {os.cpu_count()} processors "
            f"({model}), Linux {platform.release()}. Medians; ± is half of what lies between the "
            f"smallest and the largest; the best of each column is bold, and a column in which a "
            f"peer is ahead is marked as lost.")


def page(rows, drawn):
    groups = collect(rows)
    parts = [machine()]
    table = target_table(rows, groups)
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


def own(path):
    with open(path, encoding="utf-8") as f:
        return "\n".join(report.table(f))


def write(path, name, text):
    """Replaces what is between the markers of that name."""
    begin, end = f"<!-- bench/run: {name} -->", f"<!-- bench/run: end of {name} -->"
    with open(path, encoding="utf-8") as f:
        old = f.read()
    if begin not in old or end not in old:
        raise SystemExit(f"{path}: {begin} and {end} are not there")
    head, rest = old.split(begin, 1)
    _, tail = rest.split(end, 1)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"{head}{begin}\n{text}\n{end}{tail}")
