# SPDX-License-Identifier: BSD-2-Clause
"""The project's targets for the workloads, and whether the rows reach them."""
import json

import report
from rows import BIG, INTS, LONGS, WEAKER, best_for, instructions_of, peer_of, query

number = report.number
IN_PLACE = ("bdb", "lmdb", "sqlite", "wiredtiger", "kyotocabinet", "tdb")
# Peers with isolation: those that promise what this library promises.
TRANSACTIONAL = ("bdb-hash", "bdb-btree", "lmdb", "sqlite", "wiredtiger", "rocksdb-txn", "tdb")
assert not set(TRANSACTIONAL) & set(WEAKER)
MILLION = 1000000
TARGETS_HEAD = "| | here | target | | goal |\n| --- | ---: | --- | --- | --- |"


def w1(engine, n, threads=1, fields=None):
    return query("W1", "insert", engine, n, threads, **(fields or INTS))


def w5(case, n, threads=1, **fields):
    return query("W5", case, "lladd-hash", n, threads, **fields)


def w11(case, n):
    return query("W11", case, "lladd-dtable", n)


# Peers that write sorted runs, as the table of W11 does.
RUNS = ("leveldb", "rocksdb")


def btree(workload, case, n, threads=1, engine="lladd-btree", **fields):
    return query(workload, case, engine, n, threads, **fields)


# (text, measurement, target), and a goal, if there is one. The target is the lowest allowed rate,
# in one of three forms: operations a second; (factor, peers), a multiple of the best rate of these
# peers, or of all peers if None; (factor, measurement), a multiple of the rate of another
# measurement. The goal has the same forms.
AT_LEAST = [
    ("W1, 1 million", w1("lladd-hash", MILLION), 4e6),
    ("W1, 1 million", w1("lladd-hash", MILLION), (8, ("bdb-hash",))),
    ("W1, 1 million", w1("lladd-hash", MILLION), (1.5, ("tdb",))),
    ("W1, 100 thousand", w1("lladd-hash", 100000), (8, ("bdb-hash",))),
    ("W1, 100 thousand", w1("lladd-hash", 100000), (1, None)),
    ("W1, 5 million", w1("lladd-hash", 5 * MILLION), (8, ("bdb-hash",))),
    ("W1, 5 million", w1("lladd-hash", 5 * MILLION), (1, None)),
    ("W1, 5 million, compared with the rate of 1 million", w1("lladd-hash", 5 * MILLION),
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
    ("W3, 1 thread", query("W3", "durable", ("lladd-hash", "lladd-records")), (1, None)),
    ("W3, 8 threads", query("W3", "durable", ("lladd-hash", "lladd-records"), threads=8),
     (1.4, None)),
    ("W3, 64 threads", query("W3", "durable", "lladd-hash", threads=64), (2, None)),
    ("W3, asynchronous", query("W3", "async", "lladd"), 1.2e6),
    ("W3, tmpfs", query("W3", "durable", "lladd", filesystem="tmpfs"), 600e3),
    ("W3, tmpfs, 8 threads", query("W3", "durable", "lladd", threads=8, filesystem="tmpfs"),
     350e3),
    ("W4, log to the operating system", query("W4", "os", "lladd"), (1.2, TRANSACTIONAL)),
    ("W4, log to the operating system, 2 threads", query("W4", "os", "lladd", threads=2),
     (1.2, TRANSACTIONAL)),
    ("W4, log in the process, 2 threads", query("W4", "process", "lladd", threads=2),
     (2, TRANSACTIONAL)),
    ("W5", w5("lookup", 500000, **BIG), 2.6e6),
    ("W5, 2 threads", w5("lookup", 500000, 2, **BIG), 5e6),
    ("W5, 200 threads", w5("lookup", 500000, 200, **BIG), 4.8e6),
    ("W5, 64 keys a call", w5("lookup-64", 500000, **BIG), 8e6),
    ("lookups, 1 million of 8 bytes", w5("lookup", MILLION, records=MILLION, **LONGS), 5e6),
    ("lookups, 64 a call compared with one, 5 million of 8 bytes",
     w5("lookup-64", MILLION, records=5 * MILLION, **LONGS),
     (3, w5("lookup", MILLION, records=5 * MILLION, **LONGS))),
    ("lookups, 2 threads compared with one, 8 bytes", w5("lookup", 500000, 2, **LONGS),
     (1.7, w5("lookup", 500000, **LONGS))),
    ("lookups, 250 threads compared with two, 8 bytes", w5("lookup", 500000, 250, **LONGS),
     (1 / 1.1, w5("lookup", 500000, 2, **LONGS))),
    ("W6, transactions replayed", query("W6", "recovery-warm", "lladd", 200000), 8e6),
    ("W7, compared with the best peer that updates in place",
     query("W7", "update", ("lladd-hash", "lladd-array", "lladd-records")), (2, IN_PLACE)),
    ("W7, ordered", query("W7", "update", "lladd-dtable"), (1, ("leveldb",))),
    ("W9", query("W9", "rollback", ("lladd-hash", "lladd-array", "lladd-records")), 3e6),
    ("W9, hash", query("W9", "rollback", "lladd-hash"), (0.6, ("wiredtiger",))),
    ("W11, load", w11("load", 10 * MILLION), (1, RUNS)),
    ("W11, 1 million lookups", w11("lookup", MILLION), (1, RUNS)),
    ("W11, 10 million lookups", w11("lookup", 10 * MILLION), (1, RUNS)),
    ("W11, scans of 100", w11("scan", 100000), (1, RUNS)),
    ("W1, B+tree, 1 million in random order", btree("W1", "insert", MILLION, **INTS), 1.7e6,
     2.5e6),
    ("W1, B+tree, 10 million in random order", btree("W1", "insert", 10 * MILLION, **INTS), 1.2e6,
     2.5e6),
    ("W2 fill, B+tree, ascending, a row a call", btree("W2", "fill", MILLION), 3.5e6, 5e6),
    ("W2 fill, B+tree, ascending, many a call",
     btree("W2", "fill", MILLION, engine="lladd-btree-many"), 6e6, 12e6),
    ("W5, B+tree", btree("W5", "lookup", 500000, **BIG), 2.2e6, 3e6),
    ("W5, B+tree, 2 threads compared with one", btree("W5", "lookup", 500000, 2, **BIG),
     (1.8, btree("W5", "lookup", 500000, **BIG))),
    ("W5, B+tree, 200 threads compared with two", btree("W5", "lookup", 500000, 200, **BIG),
     (1 / 1.1, btree("W5", "lookup", 500000, 2, **BIG))),
    ("W7, B+tree", btree("W7", "update", None), (1, ("bdb", "sqlite")), (2, ("bdb", "sqlite"))),
    ("W12, backup of an idle database, compared with a copy of its files",
     query("W12", "backup", "lladd-hash", threads=8),
     (0.8, query("W12", "copy", "lladd-hash", threads=8))),
    ("W12, commits beside backups, compared with those without",
     query("W12", "commits-backup", "lladd-hash", threads=8),
     (0.8, query("W12", "commits", "lladd-hash", threads=8))),
    ("W3, 8 threads, archived, compared with not archived",
     query("W3", "durable", "lladd-hash-archived", threads=8),
     (0.95, query("W3", "durable", "lladd-hash", threads=8))),
    ("W11, load, archived, compared with not archived",
     query("W11", "load", "lladd-dtable-archived", 10 * MILLION),
     (0.6, w11("load", 10 * MILLION))),
    ("W11, B+tree, load", btree("W11", "load", 10 * MILLION), 1e6),
    ("W11, B+tree, scans of 100", btree("W11", "scan", 100000), 150e3, 300e3),
]
# Text, measurement, field, the maximum, and the goal, if there is one.
AT_MOST = [
    ("W1, log bytes an insert", w1("lladd-hash", MILLION), "log_bytes_per_op", 90),
    ("W1, B+tree, log bytes an insert of 8 and 8 bytes",
     btree("W1", "insert", MILLION, **LONGS), "log_bytes_per_op", 90, 80),
    ("W6, log bytes a 100-byte overwrite", query("W6", "recovery-warm", "lladd", 200000),
     "log_bytes_per_op", 250),
    ("W6, seconds until the first read, 200 thousand",
     query("W6", "recovery-warm", "lladd", 200000), "elapsed_s", 0.2),
    ("W7, page-file writes an update", query("W7", "update", "lladd"), "pages_written_per_op",
     1.2),
]

# The targets of bench-weather, bench-orders and bench-codec: text, bench, case, and the goal, if
# there is one. The bench prints the target itself, if it measures the size for which the target is.
OWN = [
    ("weather, tuples loaded, not logged", "weather", "lladd-unlogged: load", 1),
    ("weather, compared with RocksDB", "weather", "lladd-unlogged / rocksdb: load"),
    ("weather, longest batch of a thousand", "weather", "lladd-unlogged: longest batch"),
    ("weather, memory in all", "weather", "lladd-unlogged: memory"),
    ("weather, raw size compared with the size on the disk", "weather",
     "lladd-unlogged: raw size / size on disk", 7),
    ("weather, lookups compared with RocksDB", "weather", "lladd-unlogged / rocksdb: lookups"),
    ("weather, tuples scanned", "weather", "lladd-unlogged: scan"),
    ("weather, values of one column", "weather", "lladd-columns: one column"),
    ("weather, tuples loaded, logged", "weather", "lladd-journal: load"),
    ("orders, versions kept for a snapshot, compared with the changed rows", "orders",
     "snapshot: versions kept / rows changed"),
    ("codec, one column, compressed", "codec", "for, slowly growing, 1 column, in"),
    ("codec, one column, decompressed", "codec", "for, slowly growing, 1 column, out"),
    ("codec, ten columns, compressed", "codec", "for, slowly growing, 10 columns, in"),
    ("codec, ten columns, decompressed", "codec", "for, slowly growing, 10 columns, out"),
    ("codec, one column of random bits, compressed", "codec", "for, 12 random bits, 1 column, in"),
    ("codec, one column of random bits, decompressed", "codec",
     "for, 12 random bits, 1 column, out"),
    ("codec, ten columns of random bits, compressed", "codec",
     "for, 12 random bits, 10 columns, in"),
    ("codec, ten columns of random bits, decompressed", "codec",
     "for, 12 random bits, 10 columns, out"),
]


def own_target_table(lines):
    """The table of OWN, from the JSON lines of the benches; "" if none of the targets was
    measured."""
    rows = {(row["bench"], row["case"]): row
            for row in (json.loads(line) for line in lines if line.startswith("{"))
            if "case" in row}
    found = []
    for text, bench, case, *goals in OWN:
        row = rows.get((bench, case), {})
        bound = report.bound_of(row, {})
        if bound:
            unit = f" {row['unit']}" if row["unit"] else ""
            goal = goals and (f"{number(goals[0])}{unit}", row["median"] >= goals[0])
            sign = "at least" if bound[0] == ">=" else "at most"
            found.append(verdict(text, f"{number(row['median'])}{unit}",
                                 f"{sign} {number(bound[1])}{unit}",
                                 report.met(row["median"], bound), goal or None))
    return "\n".join(["", "", TARGETS_HEAD, *found]) if found else ""


def wanted_rate(rows, measured, target):
    """The (rate, text) of a target; None if the other side was not measured."""
    if not isinstance(target, tuple):
        return target, f"{number(target)}/s"
    factor, other = target
    if isinstance(other, dict):
        base = best_for(rows, other)
        return base and (factor * base[0], f"{factor:.2g} × {number(base[0])}/s")
    base = best_for(rows, peer_of(measured, other))
    return base and (factor * base[0], f"{factor} × {number(base[0])}/s ({base[1]})")


def target_table(rows, partly=False):
    """`partly`: only some engines were measured. Targets for the library's best engine are left
    out."""
    def left_out(measured):
        return partly and measured["engine"] == "lladd"

    lines = []
    for text, measured, target, *goals in AT_LEAST:
        mine, wanted = best_for(rows, measured), wanted_rate(rows, measured, target)
        if mine and wanted and not left_out(measured):
            goal = wanted_rate(rows, measured, goals[0]) if goals else None
            lines.append(verdict(f"{text} ({mine[1]})", f"{number(mine[0])}/s",
                                 f"at least {wanted[1]}", mine[0] >= wanted[0],
                                 goal and (goal[1], mine[0] >= goal[0])))
    for text, measured, field, most, *goals in AT_MOST:
        mine = best_for(rows, measured, field, min)
        if mine and not left_out(measured):
            lines.append(at_most(f"{text} ({mine[1]})", number(mine[0]), mine[0], most, *goals))
    lines += latency_lines(rows) + instruction_lines(rows)
    if not lines:
        return ""
    return "\n".join(["### Targets", "", TARGETS_HEAD, *lines])


def verdict(text, here, target, met, goal=None):
    """`goal`: (text, whether it is reached), or None."""
    further = f" {goal[0]}{' (reached)' if goal[1] else ''}" if goal else ""
    return f"| {text} | {here} | {target} | {'met' if met else '**missed**'} |{further} |"


def at_most(text, here, value, most, goal=None):
    return verdict(text, here, f"at most {most}", value <= most, goal and (goal, value <= goal))


def latency_lines(rows):
    """W8: p99.9 with checkpoints, compared with p99.9 without."""
    cases = ("half-load-natural", "half-load")
    found = [best_for(rows, query("W8", case, "lladd-hash", threads=8), "p999_us", min)
             for case in cases]
    if None in found:
        return []
    with_them, without = found[0][0], found[1][0]
    return [verdict("W8, p99.9 during checkpoints (lladd-hash)", f"{number(with_them)} µs",
                    f"at most 3 × {number(without)} µs", with_them <= 3 * without)]


def instruction_lines(rows):
    """W10: instructions an operation."""
    targets = [("lladd-hash", "insert", "an insert", 1000),
               ("lladd-hash", "lookup", "a lookup", 600),
               ("lladd-btree", "lookup", "a lookup", 1200, 700)]
    found = instructions_of(rows)
    return [at_most(f"W10, instructions {text} ({engine})", f"{found[engine][case]:.0f}",
                    found[engine][case], *limits)
            for engine, case, text, *limits in targets if case in found.get(engine, {})]
