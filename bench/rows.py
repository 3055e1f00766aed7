# SPDX-License-Identifier: BSD-2-Clause
"""Rows of lladd-bench: reads them, and selects the best."""
import json
import statistics

# Engines that promise less than this library, and what they lack.
WEAKER = {"leveldb": "no isolation", "rocksdb-batch": "no isolation",
          "kyotocabinet-hash": "others see changes before the commit",
          "kyotocabinet-tree": "others see changes before the commit"}
# Engines that are not compared with others: a tree without transactions (olc), and an engine that
# shows the cost of an option that is on by default.
ASIDE = {"olc": "in memory: no transactions, no log",
         "lladd-records-atomic": "no page images: for devices that never tear a page",
        "lladd-hash-archived": "its log is archived meanwhile",
        "lladd-dtable-archived": "its log and its runs are archived meanwhile"}
# What peers do besides, where this library's engines of the same names without "-archived" do not.
BESIDES = {"postgresql": "its log is archived meanwhile",
           "sqlite-litestream": "its log is replicated meanwhile"}
NO_LOG = "no log: nothing to replay"
NO_UNDO = "the database is as it was before the commit: nothing to undo"
WEAKER_IN = {("W6", "lmdb"): NO_LOG, ("W6", "tdb"): NO_LOG, ("W9", "lmdb"): NO_UNDO,
             ("W9", "sqlite"): NO_UNDO, ("W9", "rocksdb-txn"): NO_UNDO, ("W9", "tdb"): NO_UNDO}
# Sizes of keys and values, as fields of a row.
INTS = {"key_size": 4, "value_size": 4}
LONGS = {"value_size": 8, "key_size": 8}
BIG = {"value_size": 100}


def read(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f if line.startswith("{")]


def ours(engine):
    return engine.startswith("lladd-")


def family(engine):
    """"bdb" of "bdb-hash"."""
    return engine.split("-")[0]


def query(workload, case, engine, n=None, threads=1, filesystem="disk", **fields):
    """The rows that a target is about. `engine`: a name or a family, or several of these; None: any
    peer. `fields`: further fields that the rows must have, with their values."""
    return {"workload": workload, "case": case, "engine": engine, "n": n, "threads": threads,
            "filesystem": filesystem, "fields": fields}


def is_meant(q, row):
    if "skipped" in row or row["failure"] or row["workload"] == "W10":
        return False
    names = q["engine"] if isinstance(q["engine"], tuple) else (q["engine"],)
    if row["engine"] in ASIDE and row["engine"] not in names:
        return False
    wanted = (not ours(row["engine"]) if q["engine"] is None else
              any(name in (row["engine"], family(row["engine"])) for name in names))
    return (wanted and (row["workload"], row["case"]) == (q["workload"], q["case"]) and
            q["n"] in (None, row["n"]) and row["threads"] == q["threads"] and
            (row["filesystem"] == "tmpfs") == (q["filesystem"] == "tmpfs") and
            all(row[k] == v for k, v in q["fields"].items()))


def best_for(rows, q, field="ops_per_s", better=max):
    """(median, engine) of the best engine among the rows that q means; None: there are none."""
    found = {}
    for row in rows:
        if is_meant(q, row) and row.get(field) is not None:
            found.setdefault(row["engine"], []).append(row[field])
    medians = [(statistics.median(v), e) for e, v in found.items()]
    return better(medians) if medians else None


def peer_of(q, engine):
    return {**q, "engine": engine}


def instructions_of(rows):
    """Returns {engine: {case: instructions an operation}} of W10, in the order of the rows."""
    found = {}
    for row in rows:
        if row["workload"] == "W10" and row.get("instructions_per_op"):
            found.setdefault(row["engine"], {})[row["case"]] = row["instructions_per_op"]
    return found
