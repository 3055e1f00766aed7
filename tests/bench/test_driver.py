# SPDX-License-Identifier: BSD-2-Clause
"""Runs every workload of the command lladd-bench with every engine, with tiny sizes."""
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

BENCH = ""
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, SOURCES)
import rows as measurements  # noqa: E402
import targets  # noqa: E402
# A directory in memory: waiting for a disk would take long and test nothing here.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
FIELDS = {
    "workload", "case", "engine", "version", "settings", "level", "n", "ops", "records", "threads",
    "key_size", "value_size", "cache_mib", "filesystem", "run", "time", "elapsed_s", "ops_per_s",
    "p50_us", "p99_us", "p999_us", "cpu_us_per_op", "log_bytes_per_op", "written_bytes_per_op",
    "device_bytes_per_op", "syncs_per_op", "pages_read_per_op", "pages_written_per_op", "retries",
    "close_s", "peak_memory_mib", "slice_s", "slices", "checkpoint_from_s", "checkpoint_to_s",
    "failure"}
OURS = ["lladd-hash", "lladd-hash-physical", "lladd-array", "lladd-array-bulk", "lladd-records",
        "lladd-records-atomic", "lladd-dtable", "lladd-btree", "lladd-btree-many",
        "lladd-hash-archived", "lladd-dtable-archived"]
# Peers that take part in W12 alone. Other processes do a part of their work, so the driver counts
# only the time and the device's bytes, unless it copies the files itself. It counts nothing else of
# backups beside transactions either, because both share a process.
BACKED_UP = ["postgresql", "sqlite-litestream"]
UNCOUNTED = {"cpu_us_per_op", "written_bytes_per_op", "log_bytes_per_op", "syncs_per_op"}
WORKLOADS = [f"W{i}" for i in range(1, 10)] + ["W11", "W12"]
# The cases that each of our engines must report over all workloads, so that none is missed.
CASES = {
    "lladd-hash": {"insert", "durable", "async", "os", "process", "lookup", "lookup-64",
                   "recovery-warm", "recovery-cold", "update", "peak", "half-load",
                   "half-load-checkpoints", "half-load-natural", "rollback"},
    "lladd-array": {"fill", "overwrite", "durable", "async", "os", "process", "lookup",
                    "recovery-warm", "recovery-cold", "update", "peak", "half-load",
                    "half-load-checkpoints", "half-load-natural", "rollback"},
}
# The rows of W12, of which the case has only one name.
BACKUPS = {"copy", "backup", "commits", "commits-backup", "backup-busy"}
for cases in CASES.values():
    cases |= BACKUPS
CASES["lladd-records"] = CASES["lladd-array-bulk"] = CASES["lladd-array"]
CASES["lladd-records-atomic"] = CASES["lladd-array"]
# One transaction at a time can change it.
CASES["lladd-hash-physical"] = CASES["lladd-hash"] - BACKUPS - {"peak", "half-load",
                                                                "half-load-checkpoints",
                                                                "half-load-natural"}
CASES["lladd-dtable"] = (CASES["lladd-hash"] - {"lookup-64"}) | {"fill", "overwrite", "load",
                                                                 "scan"}
CASES["lladd-btree"] = CASES["lladd-hash"] | {"fill", "overwrite", "load", "scan"}
CASES["lladd-btree-many"] = CASES["lladd-btree"]
CASES["lladd-hash-archived"] = CASES["lladd-hash"]
CASES["lladd-dtable-archived"] = CASES["lladd-dtable"]


def run(*words):
    return subprocess.run([BENCH, *words], capture_output=True, text=True, check=False)


def engines():
    """The engines that --list names as present."""
    lines = run("--list").stdout.split("engines:\n")[1].splitlines()
    return [line.split()[0] for line in lines
            if line.startswith("  ") and not line.startswith("   ") and "skipped" not in line]


def processes_that_name(directory):
    """The command lines of the processes that have an argument with this directory."""
    found = []
    for name in os.listdir("/proc"):
        try:
            with open(os.path.join("/proc", name, "cmdline"), "rb") as f:
                line = f.read().decode(errors="replace")
        except OSError:
            continue  # not a process, or one that has ended
        if directory in line:
            found.append(line.replace("\0", " "))
    return found


def whole_plan():
    """The steps of bench/run and of bench/run --figures. (The file bench/run is loaded by its path,
    because it has no suffix.)"""
    loader = importlib.machinery.SourceFileLoader("plan", os.path.join(SOURCES, "run"))
    plan = importlib.util.module_from_spec(importlib.util.spec_from_loader("plan", loader))
    loader.exec_module(plan)
    return plan.FULL + plan.FIGURES


class Driver(unittest.TestCase):
    def rows(self, *words, status=0):
        """The rows that a run writes with --json. The run must remove its databases."""
        with tempfile.TemporaryDirectory(dir=MEMORY) as work:
            path = os.path.join(work, "out.jsonl")
            where = os.path.join(work, "databases")
            os.mkdir(where)
            os.chmod(work, 0o711)  # another user may run a server
            result = run("--json", path, "--dir", where, *words)
            self.assertEqual(result.returncode, status, result.stderr + result.stdout)
            self.assertEqual(os.listdir(where), [])
            self.assertEqual(processes_that_name(where), [])
            with open(path, encoding="utf-8") as f:
                return [json.loads(line) for line in f]

    def check(self, rows):
        for row in rows:
            if "skipped" in row:
                self.assertEqual(set(row), {"workload", "engine", "skipped"})
                continue
            self.assertEqual(set(row), FIELDS)
            self.assertIsNone(row["failure"], row)
            self.assertGreater(row["ops"], 0, row)
            self.assertGreater(row["elapsed_s"], 0, row)
            self.assertGreater(row["ops_per_s"], 0, row)
            self.assertTrue(row["settings"] and row["version"], row)
            if row["engine"] in BACKED_UP:
                self.assertIsNone(row["peak_memory_mib"], row)
            else:
                self.assertGreater(row["peak_memory_mib"], 0, row)
            apart = row["engine"] in BACKED_UP and row["case"] != "copy"
            if apart or row["case"] == "backup-busy":
                self.assertEqual({row[field] for field in UNCOUNTED}, {None}, row)
            else:
                self.assertGreaterEqual(row["cpu_us_per_op"], 0, row)
                self.assertGreaterEqual(row["syncs_per_op"], 0, row)


class Usage(Driver):
    def refused(self, words, *texts):
        result = run(*words)
        self.assertEqual(result.returncode, 2, words)
        for text in texts:
            self.assertIn(text, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_list_has_everything(self):
        text = run("--list").stdout
        for name in WORKLOADS:
            self.assertIn(f"  {name}.", text)
        for name in OURS:
            self.assertIn(f"  {name} ", text)
        for name in ("bdb", "lmdb", "sqlite", "wiredtiger", "rocksdb", "leveldb", "kyotocabinet",
                     "tdb", *BACKED_UP):
            self.assertIn(name, text)  # present, or listed as skipped

    def test_help_names_every_option(self):
        result = run("--help")
        self.assertEqual(result.returncode, 0)
        for option in ("list", "engine", "threads", "n", "records", "key", "value", "cache",
                       "seconds", "runs", "limit", "dir", "json", "dry-run", "help"):
            self.assertIn(f"--{option}", result.stdout)

    def test_what_makes_no_sense_is_refused(self):
        self.refused(["W33"], "no such workload", "W33")
        self.refused(["W1.fill"], "no such workload", "W1.fill")
        self.refused([], "no workload given")
        self.refused(["W1", "--engine", "lladd-hsah"], "no such engine", "lladd-hsah")
        self.refused(["W1", "--engine", ""], "no such engine")
        for threads in ("0", "1,,2", "x", "1,-2", "1001", ""):
            self.refused(["W1", "--threads", threads], "--threads")
        self.refused(["W1", "--n", "10x"], "--n", "10x")
        self.refused(["W1", "--key", "5"], 'invalid value for --key: "5"')
        self.refused(["W1", "--value", "4097"], "--value")
        self.refused(["W1", "--runs", "0"], "--runs")
        self.refused(["W1", "--dir", "/no/such/place"], "no such directory")
        self.refused(["W1", "--json", "/no/such/place/x"],
                     'cannot write to "/no/such/place/x": No such file')
        self.refused(["W1", "--frobnicate"], "frobnicate")

    def test_a_family_is_all_of_its_engines(self):
        rows = self.rows("W9", "--engine", "lladd", "--n", "10", "--records", "10")
        self.assertEqual({r["engine"] for r in rows}, set(OURS))

    def test_lists_give_a_row_for_each(self):
        rows = self.rows("W1", "--engine", "lladd-hash", "--n", "100,200", "--threads", "1,3",
                         "--runs", "2")
        self.check(rows)
        self.assertEqual(sorted((r["n"], r["threads"], r["run"]) for r in rows),
                         sorted((n, t, k) for n in (100, 200) for t in (1, 3) for k in (0, 1)))

    def test_a_dry_run_measures_nothing(self):
        rows = self.rows("W7", "W11", "--engine", "lladd-btree", "--dry-run")
        self.assertEqual([(r["case"], r["n"], r["ops_per_s"]) for r in rows],
                         [("update", 200000, None), ("load", 10000000, None),
                          ("lookup", 1000000, None), ("scan", 100000, None)])

    def test_the_plan_measures_what_the_targets_need(self):
        rows = []
        for workload, words in whole_plan():
            if workload != "W10":
                where = "tmpfs" if "TMPFS" in words else "disk"
                result = run("--dry-run", "--json", "-", *words.replace("--dir TMPFS", "").split())
                self.assertEqual(result.returncode, 0, result.stderr)
                rows += [{**json.loads(line), "filesystem": where}
                         for line in result.stdout.splitlines()]
        rows += [{**row, "case": case} for row in rows if row["workload"] == "W12"
                 for case in BACKUPS - {row["case"]}]
        names = engines()
        here = set(names) | {measurements.family(name) for name in names}
        planned = {name for _, words in whole_plan() if "--engine" in words
                   for name in words.split("--engine ")[1].split()[0].split(",")}
        for text, measured, target, *_ in targets.AT_LEAST + targets.AT_MOST:
            wanted = [measured]
            other = target[1] if isinstance(target, tuple) else ()
            if isinstance(other, dict):
                wanted.append(other)
            elif isinstance(target, tuple) and planned <= here:
                wanted.append(measurements.peer_of(measured, other))
            for query in wanted:
                self.assertTrue(any(measurements.is_meant(query, row) for row in rows),
                                (text, query))

    def test_json_to_standard_output_is_all_there_is(self):
        result = run("W1", "--engine", "lladd-hash", "--n", "100", "--threads", "1", "--json", "-")
        self.assertEqual(result.returncode, 0)
        self.check([json.loads(line) for line in result.stdout.splitlines()])

    def test_rows_that_cannot_be_written(self):
        result = run("W1", "--engine", "lladd-hash", "--n", "100", "--threads", "1", "--json",
                     "/dev/full")
        self.assertEqual(result.returncode, 1)
        self.assertIn("not all rows were written to /dev/full", result.stderr)


class Ours(Driver):
    def test_every_workload(self):
        rows = self.rows(*WORKLOADS, "--engine", "lladd", "--n", "600", "--records", "1000",
                         "--threads", "1,4", "--seconds", "1")
        self.check(rows)
        for engine in OURS:
            found = {r["case"] for r in rows if r["engine"] == engine and "skipped" not in r}
            self.assertEqual(found, CASES[engine], engine)

    def test_what_is_counted_is_there(self):
        rows = self.rows("W3.durable", "W6.recovery-warm", "--engine", "lladd-hash", "--n", "200",
                         "--records", "1000", "--threads", "1")
        self.check(rows)
        commits, recovery = rows
        self.assertGreaterEqual(commits["syncs_per_op"], 1)  # each commit is made durable by itself
        self.assertGreater(commits["log_bytes_per_op"], 200)  # 100 bytes before and 100 after
        self.assertGreaterEqual(commits["written_bytes_per_op"], commits["log_bytes_per_op"])
        self.assertGreater(commits["p999_us"], 0)
        self.assertGreaterEqual(commits["p999_us"], commits["p50_us"])
        self.assertGreater(recovery["log_bytes_per_op"], 200)

    def test_throughput_over_time(self):
        rows = self.rows("W8", "--engine", "lladd-hash", "--records", "1000", "--seconds", "1")
        self.check(rows)
        peak = rows[0]
        self.assertEqual(peak["case"], "peak")
        self.assertLessEqual(sum(peak["slices"]), peak["ops"])
        self.assertGreater(sum(peak["slices"]), peak["ops"] / 2)
        self.assertLess(peak["checkpoint_from_s"], peak["checkpoint_to_s"])


class Peers(Driver):
    def test_every_workload(self):
        peers = [e for e in engines() if not e.startswith("lladd-")]
        if not peers:
            self.skipTest("no peers here")
        timed = [w for w in WORKLOADS if w not in ("W8", "W12")]
        rows = self.rows(*timed, "--engine", ",".join(peers), "--n", "200", "--records", "500",
                         "--threads", "1,4")
        self.check(rows)
        for engine in peers:
            found = {r["workload"] for r in rows if r["engine"] == engine and "skipped" not in r}
            if engine == "olc":
                self.assertEqual({"W1", "W2", "W5", "W11"}, found)
            elif engine in BACKED_UP:
                self.assertEqual(set(), found)
            else:
                self.assertLessEqual({"W3", "W4", "W5", "W6", "W7", "W9"}, found, engine)
            if engine in ("bdb-btree", "lmdb", "sqlite", "wiredtiger", "leveldb"):
                self.assertIn("W11", found, engine)

    def test_checkpoints(self):
        one_each = [e for e in engines() if e in ("bdb-hash", "sqlite", "wiredtiger", "rocksdb-txn",
                                                  "kyotocabinet-hash")]
        if not one_each:
            self.skipTest("no peers here")
        rows = self.rows("W8", "--engine", ",".join(one_each), "--records", "500", "--seconds",
                         "1")
        self.check(rows)
        self.assertEqual(len(rows), 4 * len(one_each))

    def test_backups(self):
        peers = [e for e in engines() if e in ("bdb-btree", "lmdb", "sqlite", "wiredtiger",
                                               *BACKED_UP)]
        if not peers:
            self.skipTest("no peers here")
        rows = self.rows("W12", "--engine", ",".join(peers), "--records", "500", "--seconds", "1")
        self.check(rows)
        for engine in peers:
            self.assertEqual({r["case"] for r in rows if r["engine"] == engine}, BACKUPS, engine)

    def test_servers_end_with_a_measurement_that_takes_too_long(self):
        peers = [e for e in engines() if e in BACKED_UP]
        if not peers:
            self.skipTest("no peers here")
        rows = self.rows("W12", "--engine", ",".join(peers), "--records", "500", "--seconds", "60",
                         "--limit", "6", status=1)
        failed = [r["engine"] for r in rows if "longer than --limit" in (r["failure"] or "")]
        self.assertEqual(set(failed), set(peers))


class Failures(Driver):
    def test_what_takes_too_long_is_a_row(self):
        rows = self.rows("W3.durable", "--engine", "lladd-hash,lladd-array", "--seconds", "30",
                         "--records", "100", "--threads", "1", "--limit", "1", status=1)
        self.assertEqual([r["engine"] for r in rows], ["lladd-hash", "lladd-array"])
        for row in rows:
            self.assertEqual(set(row), FIELDS)
            self.assertIn("longer than --limit", row["failure"])
            self.assertIsNone(row["ops_per_s"])

    def test_an_engine_that_fails_says_why(self):
        with tempfile.TemporaryDirectory() as work:
            result = subprocess.run(
                ["bash", "-c", 'ulimit -f 256; exec "$@"', "bash", BENCH, "W1", "--engine",
                 "lladd-hash", "--n", "100000", "--threads", "1", "--json", "-", "--dir", work],
                capture_output=True, text=True, check=False)
        row = json.loads(result.stdout)
        self.assertEqual(result.returncode, 1)
        self.assertIn("signal 25", row["failure"])  # SIGXFSZ: a file has reached the limit


if __name__ == "__main__":
    BENCH = sys.argv.pop(1)
    CLASS = {"usage": "Usage", "lladd": "Ours", "peers": "Peers", "failures": "Failures"}
    unittest.main(argv=[sys.argv[0], CLASS[sys.argv[1]]])
