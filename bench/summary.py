# SPDX-License-Identifier: BSD-2-Clause
"""The table "Each workload once" of docs/benchmarks.md: each line is one measurement and the best
peer that does the same. Five of the lines are also in the README."""
from report import number
from rows import BIG, INTS, WEAKER, WEAKER_IN, best_for, instructions_of, ours, query

MILLION = 1000000
HASH = "lladd-hash"
ARRAY = ("lladd-array", "lladd-records")
ORDERED = ("lladd-dtable", "lladd-btree")


# The text of each line, and its measurement, with the structure that a user would choose.
LINES = [
    ("a million inserts, from creation to close",
     query("W1", "insert", HASH, MILLION, **INTS)),
    ("a million inserts, 200 threads, a transaction each",
     query("W1", "insert", HASH, MILLION, 200, **INTS)),
    ("a million array elements filled, a call for each",
     query("W2", "fill", ARRAY, MILLION)),
    ("array elements overwritten at random", query("W2", "overwrite", ARRAY, MILLION)),
    ("durable transactions, 1 thread", query("W3", "durable", HASH)),
    ("durable transactions, 8 threads", query("W3", "durable", HASH, threads=8)),
    ("durable transactions, 64 threads", query("W3", "durable", HASH, threads=64)),
    ("transactions, log handed to the system", query("W4", "os", HASH)),
    ("transactions, log left in the process", query("W4", "process", HASH)),
    ("cached lookups, 1 thread", query("W5", "lookup", HASH, 500000, **BIG)),
    ("cached lookups, 2 threads", query("W5", "lookup", HASH, 500000, 2, **BIG)),
    ("cached lookups, 200 threads", query("W5", "lookup", HASH, 500000, 200, **BIG)),
    ("transactions replayed after a crash",
     query("W6", "recovery-warm", HASH, 200000)),
    ("random updates of 16 times the cache", query("W7", "update", ARRAY)),
    ("updates rolled back", query("W9", "rollback", HASH)),
    ("ten million ordered rows put, in random order",
     query("W11", "load", ORDERED, 10 * MILLION)),
    ("random lookups among ten million ordered rows",
     query("W11", "lookup", ORDERED, MILLION)),
    ("scans of 100 ordered rows", query("W11", "scan", ORDERED, 100000)),
]

# The README shows these lines, and says that LLADD loses the last one.
FEW = ("a million inserts, from creation to close", "durable transactions, 64 threads",
       "cached lookups, 2 threads", "ten million ordered rows put, in random order",
       "random updates of 16 times the cache")


def compared(rows):
    """[(text, our rate, the best peer's rate, peer)] of the lines measured on both sides."""
    found = []
    for text, mine in LINES:
        peers = [r for r in rows if (mine["workload"], r.get("engine")) not in WEAKER_IN]
        here, peer = best_for(rows, mine), best_for(peers, {**mine, "engine": None})
        if here and peer:
            found.append((text, here[0], peer[0], peer[1]))
    return found


def lines_of(rows, wanted):
    """Markdown; where a peer is ahead the ratio is bold."""
    lines = ["| operations a second | here | best peer | ratio | |",
             "| --- | ---: | ---: | ---: | --- |"]
    for text, here, there, peer in compared(rows):
        if text not in wanted:
            continue
        ratio = f"{here / there:.2g}"
        if here < there:
            ratio = f"**{ratio}**"
        note = WEAKER.get(peer, "")
        lines.append(f"| {text} | {number(here)} | {number(there)} | {ratio} | {peer}"
                     f"{': ' + note if note else ''} |")
    return lines


def updated(text, rows):
    """The table `text` with the lines that these rows can replace."""
    newer = {line.split("|")[1]: line for line in table(rows).splitlines()[2:]}
    return "\n".join(newer.get(line.split("|")[1], line) if line.startswith("|") else line
                     for line in text.splitlines())


def few(rows):
    return "\n".join(lines_of(rows, FEW))


def table(rows):
    lines = lines_of(rows, [text for text, _ in LINES])
    for case, text in [("insert", "instructions an insert"), ("lookup", "instructions a lookup")]:
        counts = {e: c[case] for e, c in instructions_of(rows).items() if case in c}
        peers = [(n, e) for e, n in counts.items() if not ours(e)]
        if HASH in counts and peers:
            there, peer = min(peers)
            ratio = f"{there / counts[HASH]:.2g}"
            ratio = f"**{ratio}**" if there < counts[HASH] else ratio
            lines.append(f"| {text} | {counts[HASH]:.0f} | {there:.0f} | {ratio} | {peer} |")
    return "\n".join(lines)
