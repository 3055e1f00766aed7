# SPDX-License-Identifier: BSD-2-Clause
"""bench-weather makes the tuples that it describes, loads all stores and reads them back, and its
rows become the charts and the table of docs/levels.md."""
import collections
import csv
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

WEATHER = sys.argv.pop(1)
sys.path.insert(0, sys.argv.pop(1))
import charts  # noqa: E402
import tables  # noqa: E402

# A directory in memory: waiting for a disk would take long and test nothing here.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
OURS = ["lladd-unlogged", "lladd-journal", "lladd-rows", "lladd-columns"]


def run(*words):
    return subprocess.run([WEATHER, *words], capture_output=True, text=True, check=False)


def rows(*words):
    result = run(*words)
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


class Tuples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = run("0.01", "1", "tuples").stdout
        cls.tuples = [tuple(map(int, r)) for r in csv.reader(io.StringIO(cls.text))]

    def stations(self):
        found = collections.defaultdict(list)
        for reading in sorted(self.tuples):
            found[reading[4]].append(reading)
        return found

    def test_the_same_again(self):
        self.assertEqual(run("0.01", "1", "tuples").stdout, self.text)

    def test_random_order(self):
        self.assertEqual(len(self.tuples), 10000)
        self.assertEqual(len({t[:3] for t in self.tuples}), 10000)
        followed = sum(a[4] == b[4] for a, b in zip(self.tuples, self.tuples[1:]))
        self.assertAlmostEqual(followed / 10000, 1 / 5, delta=0.05)  # five stations

    def test_a_station_has_one_position(self):
        stations = self.stations()
        self.assertEqual([len(s) for s in stations.values()], [2000] * 5)
        self.assertEqual(len({s[0][:2] for s in stations.values()}), 5)
        for station in stations.values():
            self.assertEqual(len({(*t[:2], t[5]) for t in station}), 1)
            self.assertTrue(-18000 <= station[0][0] < 18000 and -9000 <= station[0][1] < 9000)

    def test_readings_change_as_described(self):
        late = turned = quick = changed = gusts = 0
        for station in self.stations().values():
            for a, b in zip(station, station[1:]):
                self.assertIn(b[2] - a[2], range(3600, 4200))
                self.assertLessEqual(abs(b[6] - a[6]), 30)
                self.assertIn((b[7] - a[7]) % 360, (0, 10, 20, 340, 350))
                self.assertLessEqual(abs(b[8] - a[8]), 3)
                self.assertTrue(b[9] == -9999 or b[9] in range(2 * b[8], 2 * b[8] + 20))
                late += b[2] - a[2] > 3600
                turned += b[7] != a[7]
                quick += b[8] != a[8]
                changed += b[3] != a[3]
                gusts += b[9] != -9999
        for count, part in ((late, 1 / 10), (turned, 4 / 15), (quick, 3 / 7),
                            (changed, 39 / 320), (gusts, 1 / 10)):
            self.assertAlmostEqual(count / 9995, part, delta=0.03)

    def test_what_makes_no_sense_is_refused(self):
        for words in (["0"], ["x"], ["1", "0"], ["1", "1", "nothing"], ["-1"]):
            result = run(*words)
            self.assertEqual((result.returncode, result.stdout), (2, ""), words)
            self.assertIn("usage", result.stderr)


class Stores(unittest.TestCase):
    def test_every_store(self):
        """The program checks each lookup, and the number and a sum of all tuples."""
        with tempfile.TemporaryDirectory(dir=MEMORY) as work:
            os.environ["TMPDIR"] = work
            peers = [c for c in run("0").stderr.split("cases: ")[1].split()
                     if c not in ("model", "tuples", "rocksdb-direct", *OURS)]
            found = rows("0.06", "4", *OURS, *peers)
            self.assertEqual(os.listdir(work), [])
        series = {r["series"]: r["points"] for r in found if "series" in r}
        figures = {r["case"]: r["median"] for r in found if "case" in r}
        self.assertEqual(set(series), {*OURS, *peers})
        for points in series.values():
            self.assertEqual([round(x, 3) for x, _ in points],
                             [round(0.006 * (i + 1), 3) for i in range(10)])
        for store in series:
            whats = ["load", "longest batch", "batches, p99.9", "on disk", "memory"]
            whats += ["one column"] if store == "lladd-columns" else [
                "lookups as loaded", "scan as loaded", "lookups", "scan"]
            for what in whats:
                self.assertGreater(figures[f"{store}: {what}"], 0)
        for store in ("lladd-unlogged", "lladd-journal", "lladd-columns"):
            self.assertGreater(figures[f"{store}: digests"], 1)
            self.assertGreater(figures[f"{store}: raw size / size on disk"], 4)
        self.assertLess(figures["lladd-rows: raw size / size on disk"], 1.1)
        if "rocksdb" in peers:
            self.assertGreater(figures["lladd-unlogged / rocksdb: load"], 0)

    def test_the_model_and_its_page(self):
        with tempfile.TemporaryDirectory(dir=MEMORY) as work:
            os.environ["TMPDIR"] = work
            found = rows("0.06", "4", "model")
            points = [r["levels"] for r in found if "levels" in r]
            self.assertEqual([p["r"] for p in points], [2, 3, 4.5, 7, 10, 15, 20, 30])
            for p in points:
                self.assertGreater(p["rate"], 0)
                self.assertGreater(p["rate_model"], 0)
                self.assertLess(p["copies"], 2 * p["copies_model"] + 1)
            self.assertGreater(points[-1]["copies"], 2 * points[0]["copies"])
            page = os.path.join(work, "page.md")
            with open(page, "w", encoding="utf-8") as f:
                f.write("a\n<!-- bench/run: levels -->\n<!-- bench/run: end of levels -->\nb\n")
            tables.write(page, "levels", tables.levels(found))
            with open(page, encoding="utf-8") as f:
                text = f.read()
            self.assertEqual(text.count("\n| "), 2 + len(points))
            if shutil.which("gnuplot"):
                charts.draw_figures(found, work)
                self.assertTrue(os.path.exists(os.path.join(work, "levels.svg")))


if __name__ == "__main__":
    unittest.main()
