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


def family(engine):
    """"bdb" of "bdb-hash"."""
    return engine.split("-")[0]


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

def query(workload, case, engine, n=None, threads=1, filesystem="disk", **fields):
    """What a target speaks of. Engine: a name or a family, several of them, or None: any peer;
    fields: others of the row, which must be equal."""
    return {"workload": workload, "case": case, "engine": engine, "n": n, "threads": threads,
            "filesystem": filesystem, "fields": fields}


def is_meant(q, row):
    if "skipped" in row or row["failure"] or row["workload"] == "W10":
        return False
    names = q["engine"] if isinstance(q["engine"], tuple) else (q["engine"],)
    wanted = (not ours(row["engine"]) if q["engine"] is None else
              any(name in (row["engine"], family(row["engine"])) for name in names))
    return (wanted and (row["workload"], row["case"]) == (q["workload"], q["case"]) and
            q["n"] in (None, row["n"]) and row["threads"] == q["threads"] and
            (row["filesystem"] == "tmpfs") == (q["filesystem"] == "tmpfs") and
            all(row[k] == v for k, v in q["fields"].items()))


def best_for(rows, q, field="ops_per_s", better=max):
    """(median, engine) of the best engine that is meant."""
    found = {}
    for row in rows:
        if is_meant(q, row) and row.get(field) is not None:
            found.setdefault(row["engine"], []).append(row[field])
    medians = [(statistics.median(v), e) for e, v in found.items()]
    return better(medians) if medians else None


def peer_of(q, engine):
    return {**q, "engine": engine}


INTS = {"key_size": 4, "value_size": 4}
LONGS = {"value_size": 8, "key_size": 8}
BIG = {"value_size": 100}
IN_PLACE = ("bdb", "lmdb", "sqlite", "wiredtiger", "kyotocabinet", "tdb")
MILLION = 1000000


def w1(engine, n, threads=1, fields=None):
    return query("W1", "insert", engine, n, threads, **(fields or INTS))


def w5(case, n, threads=1, **fields):
    return query("W5", case, "lladd-hash", n, threads, **fields)


# Text, what is measured, and what it should be: at least so many a second; (factor, peer): at least
# so many times that peer (None: the best); (factor, other): so many times that other measurement.
AT_LEAST = [
    ("W1, 1 million", w1("lladd-hash", MILLION), 4e6),
    ("W1, 1 million", w1("lladd-hash", MILLION), (8, ("bdb-hash",))),
    ("W1, 1 million", w1("lladd-hash", MILLION), (1.5, ("tdb",))),
    ("W1, 100 thousand", w1("lladd-hash", 100000), (8, ("bdb-hash",))),
    ("W1, 100 thousand", w1("lladd-hash", 100000), (1, None)),
    ("W1, 5 million", w1("lladd-hash", 5 * MILLION), (8, ("bdb-hash",))),
    ("W1, 5 million", w1("lladd-hash", 5 * MILLION), (1, None)),
    ("W1, 5 million, by the rate with 1 million", w1("lladd-hash", 5 * MILLION),
     (5 / 5.5, w1("lladd-hash", MILLION))),
    ("W1, 1 million, physical", w1("lladd-hash-physical", MILLION), (4, ("bdb-hash",))),
    ("W1, 200 threads", w1("lladd-hash", MILLION, 200), (1, None)),
    ("W2 fill, 1 million, an element a call",
     query("W2", "fill", ("lladd-array", "lladd-records"), MILLION), 8e6),
    ("W2 fill, 1 million", query("W2", "fill", ("lladd-array",), MILLION),
     (8, ("bdb-recno", "bdb-queue"))),
    ("W2 fill, 1 million, many a call", query("W2", "fill", "lladd-array-bulk", MILLION),
     (1, None)),
    ("W2 overwrite", query("W2", "overwrite", "lladd", MILLION), 4e6),
    ("W3, 8 threads", query("W3", "durable", "lladd-hash", threads=8), (1.2, None)),
    ("W3, 64 threads", query("W3", "durable", "lladd-hash", threads=64), (2, None)),
    ("W3, asynchronous", query("W3", "async", "lladd"), 1.5e6),
    ("W3, tmpfs", query("W3", "durable", "lladd", filesystem="tmpfs"), 600e3),
    ("W3, tmpfs, 8 threads", query("W3", "durable", "lladd", threads=8, filesystem="tmpfs"),
     350e3),
    ("W4, log to the operating system", query("W4", "os", "lladd"), 700e3),
    ("W4, log in the process", query("W4", "process", "lladd"), 3e6),
    ("W5", w5("lookup", 500000, **BIG), 2.6e6),
    ("W5, 2 threads", w5("lookup", 500000, 2, **BIG), 5e6),
    ("W5, 200 threads", w5("lookup", 500000, 200, **BIG), 4.8e6),
    ("W5, 64 keys a call", w5("lookup-64", 500000, **BIG), 8e6),
    ("lookups, 1 million of 8 bytes", w5("lookup", MILLION, records=MILLION, **LONGS), 5e6),
    ("lookups, 64 a call by one a call, 5 million of 8 bytes",
     w5("lookup-64", MILLION, records=5 * MILLION, **LONGS),
     (3, w5("lookup", MILLION, records=5 * MILLION, **LONGS))),
    ("lookups, 2 threads by one, 8 bytes", w5("lookup", 500000, 2, **LONGS),
     (1.7, w5("lookup", 500000, **LONGS))),
    ("lookups, 250 threads by two, 8 bytes", w5("lookup", 500000, 250, **LONGS),
     (1 / 1.1, w5("lookup", 500000, 2, **LONGS))),
    ("W6, transactions replayed", query("W6", "recovery-warm", "lladd", 200000), 8e6),
    ("W7, to the best in place", query("W7", "update", "lladd"), (2, IN_PLACE)),
    ("W9", query("W9", "rollback", "lladd"), 3e6),
]
# Text, what is measured, which field, and the most it should be.
AT_MOST = [
    ("W1, log bytes an insert", w1("lladd-hash", MILLION), "log_bytes_per_op", 90),
    ("W6, log bytes a 100-byte overwrite", query("W6", "recovery-warm", "lladd", 200000),
     "log_bytes_per_op", 250),
    ("W6, seconds until the first read, 200 thousand",
     query("W6", "recovery-warm", "lladd", 200000), "elapsed_s", 0.2),
    ("W7, page-file writes an update", query("W7", "update", "lladd"), "pages_written_per_op",
     1.2),
]


def wanted_rate(rows, measured, target):
    """(rate, text) it should reach; None if what it is compared with was not measured."""
    if not isinstance(target, tuple):
        return target, f"{number(target)}/s"
    factor, other = target
    if isinstance(other, dict):
        base = best_for(rows, other)
        return base and (factor * base[0], f"{factor:.2g} × {number(base[0])}/s")
    base = best_for(rows, peer_of(measured, other))
    return base and (factor * base[0], f"{factor} × {number(base[0])}/s ({base[1]})")


def target_table(rows):
    lines = []
    for text, measured, target in AT_LEAST:
        mine, wanted = best_for(rows, measured), wanted_rate(rows, measured, target)
        if mine and wanted:
            lines.append(verdict(f"{text} ({mine[1]})", f"{number(mine[0])}/s",
                                 f"at least {wanted[1]}", mine[0] >= wanted[0]))
    for text, measured, field, most in AT_MOST:
        mine = best_for(rows, measured, field, min)
        if mine:
            lines.append(verdict(f"{text} ({mine[1]})", number(mine[0]), f"at most {most}",
                                 mine[0] <= most))
    lines += latency_lines(rows)
    if not lines:
        return ""
    return "\n".join(["### Targets", "", "| | here | target | |", "| --- | ---: | --- | --- |",
                      *lines])


def verdict(text, here, target, met):
    return f"| {text} | {here} | {target} | {'met' if met else '**missed**'} |"


def latency_lines(rows):
    """W8: p99.9 with checkpoints by p99.9 without."""
    cases = ("half-load-checkpoints", "half-load")
    found = [best_for(rows, query("W8", case, "lladd-hash", threads=8), "p999_us", min)
             for case in cases]
    if None in found:
        return []
    with_them, without = found[0][0], found[1][0]
    return [verdict("W8, p99.9 during checkpoints (lladd-hash)", f"{number(with_them)} µs",
                    f"at most 3 × {number(without)} µs", with_them <= 3 * without)]


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
    table = target_table(rows)
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
