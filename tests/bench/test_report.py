# SPDX-License-Identifier: BSD-2-Clause
"""Tests the tables and charts of bench/run with invented rows."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))
import charts  # noqa: E402
import report  # noqa: E402
import summary  # noqa: E402
import tables  # noqa: E402
import targets  # noqa: E402


def row(engine, rate, **other):
    made = {"workload": "W3", "case": "durable", "engine": engine, "version": "1", "settings": "s",
            "level": "disk", "n": int(rate), "ops": int(rate), "records": 1000, "threads": 8,
            "key_size": 8, "value_size": 100, "cache_mib": 64, "filesystem": "ext4", "run": 0,
            "elapsed_s": 1.0, "ops_per_s": rate, "p999_us": 100.0, "failure": None}
    return {**made, **other}


INSTRUCTIONS = {"workload": "W10", "case": "lookup", "engine": "lladd-hash", "failure": None,
                "instructions_per_op": 400.0}


EIGHT = "| durable transactions, 8 threads"


def line_of(text, beginning):
    return next(line for line in text.splitlines() if line.startswith(beginning))


class Tables(unittest.TestCase):
    def test_the_row_we_lose_is_marked(self):
        text = tables.page([row("lladd-hash", 1000.0), row("lladd-array", 900.0),
                            row("leveldb", 2000.0)], [])
        self.assertIn("**lost** 8 threads: 0.5 × leveldb", line_of(text, "| lladd-hash"))
        self.assertNotIn("lost", line_of(text, "| lladd-array"))
        self.assertIn("**2000**", line_of(text, "| leveldb"))

    def test_the_row_we_win_is_not(self):
        text = tables.page([row("lladd-hash", 3000.0), row("leveldb", 2000.0)], [])
        self.assertNotIn("**lost**", text)
        self.assertIn("**3000**", line_of(text, "| lladd-hash"))

    def test_medians_and_spread(self):
        rows = [row("lladd-hash", rate, run=i) for i, rate in enumerate([900.0, 1000.0, 1300.0])]
        self.assertIn("1000 ±20 %", tables.page(rows, []))

    def test_targets_are_met_or_missed(self):
        met = tables.target_table([row("lladd-hash", 2900.0), row("leveldb", 2000.0)])
        self.assertIn("met |", line_of(met, "| W3, 8 threads"))
        missed = tables.target_table([row("lladd-hash", 2700.0), row("leveldb", 2000.0)])
        self.assertIn("**missed** |", line_of(missed, "| W3, 8 threads"))

    def test_goals_stand_beside_the_targets(self):
        tree = {"workload": "W11", "case": "scan", "threads": 1, "n": 100000}
        text = tables.target_table([row("lladd-btree", 200e3, **tree)])
        self.assertIn("| at least 150.0 k/s | met | 300.0 k/s |", line_of(text, "| W11, B+tree"))
        text = tables.target_table([row("lladd-btree", 400e3, **tree)])
        self.assertIn("| 300.0 k/s (reached) |", line_of(text, "| W11, B+tree"))
        rows = [row(e, r, **{**tree, "workload": "W7", "case": "update"})
                for e, r in (("lladd-btree", 150e3), ("sqlite", 100e3))]
        self.assertIn("| at least 1 × 100.0 k/s (sqlite) | met | 2 × 100.0 k/s (sqlite) |",
                      line_of(tables.target_table(rows), "| W7, B+tree"))
        counts = {**INSTRUCTIONS, "engine": "lladd-btree", "instructions_per_op": 650.0}
        self.assertIn("| at most 1200 | met | 700 (reached) |",
                      line_of(tables.target_table([counts]), "| W10"))

    def test_targets_of_the_benches_of_parts(self):
        def own(case, median, target=None):
            return json.dumps({"bench": "weather", "case": case, "unit": "x", "median": median,
                               "min": median, "max": median, "target": target or ""})
        lines = ['{"bench":"weather","series":"lladd-unlogged","points":[[1,2]]}',
                 own("lladd-unlogged: load", 0.9, ">= 0.8"),
                 own("lladd-unlogged: longest batch", 60, "<= 50"), own("lladd-columns: scan", 1)]
        text = targets.own_target_table(lines)
        self.assertEqual(len(text.strip().splitlines()), 4)
        self.assertIn("| 0.9 x | at least 0.8 x | met | 1 x |",
                      line_of(text, "| weather, tuples loaded, not logged"))
        self.assertIn("| at most 50 x | **missed** |", line_of(text, "| weather, longest batch"))
        self.assertEqual(targets.own_target_table(lines[:1]), "")
        self.assertEqual(len(list(report.table(lines))), 5)

    def test_every_target_of_the_benches_of_parts_is_printed(self):
        folder = os.path.dirname(os.path.abspath(targets.__file__))
        for text, bench, case, *_ in targets.OWN:
            with open(os.path.join(folder, f"{bench}.c"), encoding="utf-8") as f:
                self.assertIn(case.split(": ")[-1].split(", ")[-1] + '"', f.read(), text)

    def test_one_engine_is_not_another_with_a_longer_name(self):
        text = tables.target_table([row("lladd-hash-physical", 2500.0), row("leveldb", 2000.0)])
        self.assertEqual(text, "")

    def test_filesystems_are_not_mixed(self):
        text = tables.target_table([row("lladd-hash", 9000.0, filesystem="tmpfs"),
                                    row("leveldb", 2000.0)])
        self.assertNotIn("| W3, 8 threads", text)

    def test_failures_are_named(self):
        text = tables.page([row("lladd-hash", 1000.0), row("tdb", 0, failure="it took longer",
                                                           ops_per_s=None)], [])
        self.assertIn("failed", line_of(text, "| tdb"))
        self.assertIn("- W3 durable tdb, 8 threads, 0: it took longer", text)

    def test_instructions_have_a_table(self):
        text = tables.page([row("lladd-hash", 1.0), INSTRUCTIONS], [])
        self.assertIn("| lladd-hash |  | 400 |", text)
        self.assertIn("| 400 | at most 600 | met | |", line_of(text, "| W10"))

    def test_what_is_missing_is_named(self):
        text = tables.page([row("lladd-hash", 1.0),
                            {"workload": "all", "engine": "tdb", "skipped": "not found"}], [])
        self.assertIn("| tdb | | skipped: not found |", text)

    def test_only_what_is_between_the_markers_is_replaced(self):
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "page.md")
            with open(path, "w", encoding="utf-8") as f:
                f.write("before\n<!-- bench/run: x -->\nold\n<!-- bench/run: end of x -->\nafter\n")
            tables.write(path, "x", "new")
            with open(path, encoding="utf-8") as f:
                self.assertEqual(f.read(), "before\n<!-- bench/run: x -->\nnew\n"
                                           "<!-- bench/run: end of x -->\nafter\n")
            with self.assertRaises(SystemExit):
                tables.write(path, "y", "new")

    def test_a_later_run_replaces_its_workloads_only(self):
        later = {"workload": "W11", "case": "scan", "threads": 1, "n": 100000}
        old = tables.page([row("lladd-hash", 3000.0), row("leveldb", 2000.0),
                           row("lladd-btree", 200e3, **later)], [])
        kept = tables.without(old, ["W11"])
        self.assertNotIn("W11", kept)
        others = tables.page([row("lladd-hash", 3000.0), row("leveldb", 2000.0)], [])
        settings = "### Versions and settings"
        self.assertEqual(kept.split(settings)[0], others.split(settings)[0])
        self.assertEqual(tables.without(old, ["W1"]), old)
        rows = [row("lladd-hash", 2000.0, **later), row("lladd-btree", 200e3, **later)]
        kept = tables.without(tables.page(rows, []), ["W11"], ["lladd-btree"])
        self.assertNotIn("| lladd-btree | 2", kept.split(settings)[0])
        self.assertNotIn("| W11, B+tree, scans of 100", kept)
        self.assertIn("| lladd-hash |", line_of(kept.split(settings)[0], "| lladd-hash"))
        replayed = row("lladd-btree", 1e6, workload="W6", case="recovery-warm", threads=1, n=200000)
        self.assertIn("| W6, transactions replayed", tables.again([replayed]))
        self.assertNotIn("| W6, transactions replayed", tables.again([replayed], True))
        new = tables.again([row("lladd-btree", 100e3, **later)])
        self.assertIn("### W11 scan: scan", new)
        self.assertIn("**missed** |", line_of(new, "| W11, B+tree, scans of 100"))


class Summary(unittest.TestCase):
    def test_a_later_run_replaces_its_lines_only(self):
        old = [row("lladd-hash", 3000.0), row("leveldb", 2000.0),
               row("lladd-hash", 30.0, threads=64), row("leveldb", 20.0, threads=64)]
        text = summary.updated(summary.table(old), [row("lladd-hash", 4000.0),
                                                    row("leveldb", 1000.0)])
        self.assertIn("| 4000 | 1000 | 4 |", line_of(text, EIGHT))
        self.assertIn("| 30 | 20 | 1.5 |", line_of(text, "| durable transactions, 64 threads"))
        self.assertEqual(len(text.splitlines()), 4)

    def test_the_best_peer_and_whether_it_is_ahead(self):
        text = summary.table([row("lladd-hash", 3000.0), row("leveldb", 2000.0),
                              row("tdb", 1000.0)])
        self.assertIn("| 3000 | 2000 | 1.5 | leveldb: no isolation |", line_of(text, EIGHT))
        text = summary.table([row("lladd-hash", 1000.0), row("bdb-hash", 2000.0)])
        self.assertIn("| 1000 | 2000 | **0.5** | bdb-hash |", line_of(text, EIGHT))

    def test_a_peer_does_the_same_work(self):
        rows = [row(e, r, workload="W9", case="rollback", threads=1)
                for e, r in (("lladd-hash", 1000.0), ("lmdb", 9000.0), ("bdb-hash", 500.0))]
        self.assertIn("| 1000 | 500 | 2 | bdb-hash |",
                      line_of(summary.table(rows), "| updates rolled back"))

    def test_instructions_count_the_other_way_round(self):
        text = summary.table([INSTRUCTIONS, {**INSTRUCTIONS, "engine": "lmdb",
                                             "instructions_per_op": 1000.0}])
        self.assertIn("| 400 | 1000 | 2.5 | lmdb |", line_of(text, "| instructions a lookup"))

    def test_the_readme_has_some_of_the_lines(self):
        self.assertTrue(set(summary.FEW) < {text for text, _ in summary.LINES})
        rows = [row("lladd-hash", 3000.0, threads=64), row("leveldb", 2000.0, threads=64),
                row("lladd-hash", 3000.0), row("leveldb", 2000.0)]
        self.assertEqual(len(summary.few(rows).splitlines()), 3)

    def test_without_a_peer_there_is_no_line(self):
        self.assertEqual(len(summary.table([row("lladd-hash", 1000.0)]).splitlines()), 2)


@unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot here")
class Charts(unittest.TestCase):
    def test_a_chart_for_what_was_measured(self):
        rows = [row(e, r * t, threads=t) for e, r in (("lladd-hash", 50.0), ("leveldb", 20.0))
                for t in (1, 8)]
        rows += [INSTRUCTIONS, {"workload": "all", "engine": "tdb", "skipped": "not found"}]
        with tempfile.TemporaryDirectory() as work:
            self.assertEqual([name for name, _ in charts.draw(rows, work)], ["commits"])
            self.assertEqual(sorted(os.listdir(work)), ["commits.svg", "ratios.svg"])
            with open(os.path.join(work, "commits.svg"), encoding="utf-8") as f:
                text = f.read()
        self.assertIn("<svg", text)
        self.assertIn("lladd-hash", text)
        self.assertIn("leveldb", text)

    def test_the_figures_of_a_load(self):
        rows = [{"case": "figure 14: row store, by a cursor, warm, 1 of 16 columns", "median": 0.3},
                {"case": "figure 14: row store, by a cursor, warm, 9 of 16 columns", "median": 0.4},
                {"bench": "tpch", "series": "figure 15: background", "points": [[0, 10], [1, 12]]},
                {"bench": "weather", "series": "rocksdb", "points": [[1, 300], [2, 200]]}]
        with tempfile.TemporaryDirectory() as work:
            path = os.path.join(work, "rows.jsonl")
            with open(path, "w", encoding="utf-8") as f:
                f.write("".join(json.dumps(row) + "\n" for row in rows))
            subprocess.run([sys.executable, charts.__file__, path, work], check=True)
            self.assertEqual(sorted(os.listdir(work)),
                             ["columns.svg", "loading.svg", "rows.jsonl", "weather.svg"])
            for name, has, lacks in (("loading", "figure 15", "rocksdb"),
                                     ("weather", "rocksdb", "figure 15")):
                with open(os.path.join(work, name + ".svg"), encoding="utf-8") as f:
                    text = f.read()
                self.assertIn(has, text)
                self.assertNotIn(lacks, text)

    def test_without_a_peer_there_are_no_ratios(self):
        with tempfile.TemporaryDirectory() as work:
            charts.draw([row("lladd-hash", 50.0)], work)
            self.assertEqual(os.listdir(work), [])


if __name__ == "__main__":
    unittest.main()
