# SPDX-License-Identifier: BSD-2-Clause
"""The generated table lineitem has the distributions that the specification of TPC-H demands, and
the benchmarks that use the table run with a small one."""
import collections
import csv
import datetime
import io
import json
import subprocess
import sys
import unittest

LINEITEM, TPCH = "", ""
ORDERS = 1500  # at the scale that is used here
TODAY = datetime.date(1995, 6, 17)


def rows(*words):
    text = subprocess.run([LINEITEM, *words], capture_output=True, text=True, check=True).stdout
    return list(csv.reader(io.StringIO(text)))


class Lineitem(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rows = rows("0.001")

    def column(self, i, of=str):
        return [of(r[i + 1]) for r in self.rows]

    def test_keys(self):
        self.assertEqual([int(r[0]) for r in self.rows], list(range(1, len(self.rows) + 1)))
        self.assertEqual({len(r) for r in self.rows}, {17})
        lines = collections.Counter(self.column(0, int))
        self.assertEqual(len(lines), ORDERS)
        self.assertEqual(set(lines.values()), set(range(1, 8)))
        self.assertTrue(all(key % 32 < 8 for key in lines))  # 8 of each 32 numbers are keys
        self.assertAlmostEqual(len(self.rows) / ORDERS, 4, delta=0.2)
        self.assertTrue(set(self.column(1, int)) <= set(range(1, 201)))
        self.assertEqual(set(self.column(2, int)), set(range(1, 11)))
        self.assertEqual(len({(r[1], r[4]) for r in self.rows}), len(self.rows))

    def test_money(self):
        quantity, price = self.column(4, int), self.column(5, float)
        self.assertEqual(set(quantity), set(range(1, 51)))
        for part, q, p in zip(self.column(1, int), quantity, price):
            self.assertAlmostEqual(p, q * (90000 + part // 10 % 20001 + 100 * (part % 1000)) / 100)
        self.assertEqual(set(self.column(6)), {f"0.{i:02}" for i in range(11)})
        self.assertEqual(set(self.column(7)), {f"0.{i:02}" for i in range(9)})

    def test_dates(self):
        date = datetime.date.fromisoformat
        for row in self.rows:
            ship, commit, receipt = map(date, row[9:12])
            self.assertIn((receipt - ship).days, range(1, 31))
            self.assertIn((commit - ship).days, range(30 - 121, 90))
            self.assertLessEqual(datetime.date(1992, 1, 2), ship)
            self.assertLessEqual(ship, datetime.date(1998, 12, 1))
            self.assertIn(row[12], "RA" if receipt <= TODAY else "N")
            self.assertEqual(row[13], "O" if ship > TODAY else "F")

    def test_texts(self):
        self.assertEqual(set(self.column(13)),
                         {"DELIVER IN PERSON", "COLLECT COD", "TAKE BACK RETURN", "NONE"})
        self.assertEqual(set(self.column(14)),
                         {"REG AIR", "AIR", "RAIL", "TRUCK", "MAIL", "FOB", "SHIP"})
        self.assertEqual({len(c) for c in self.column(15)}, set(range(10, 44)))
        words = collections.Counter(w for c in self.column(15) for w in c.split()[1:-1])
        self.assertGreater(words["packages"], 5 * words["courts"])
        self.assertGreater(words["furiously"], 100)

    def test_the_same_again_and_others(self):
        self.assertEqual(rows("0.001"), self.rows)
        self.assertEqual(rows("0.001", "l_shipmode"), [[r[0], r[15]] for r in self.rows])
        self.assertNotEqual(rows("0.001", "l_shipmode", "2"), rows("0.001", "l_shipmode"))

    def test_what_makes_no_sense_is_refused(self):
        for words in ([], ["0"], ["x"], ["1000"], ["0.001", "l_nothing"],
                      ["0.001", "l_tax", "1", "2"]):
            self.assertEqual(subprocess.run([LINEITEM, *words], capture_output=True,
                                            check=False).returncode, 2, words)


class Figures(unittest.TestCase):
    def test_all_are_made(self):
        result = subprocess.run([TPCH, "0.002"], capture_output=True, text=True, check=True)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        series = {r["series"]: r["points"] for r in lines if "series" in r}
        cases = {r["case"]: r["median"] for r in lines if "case" in r}
        self.assertEqual(set(series), {"figure 15: background", "figure 16: foreground"})
        for points in series.values():
            self.assertGreater(len(points), 100)
            times = [at for at, _ in points]
            self.assertEqual(sorted(times), times)
        for store in ("row store", "column store"):
            for n in (1, 16):
                for how in ("warm", "cold"):
                    self.assertGreater(
                        cases[f"figure 14: {store}, "
                              f"{'by a cursor' if store[0] == 'r' else 'in batches'}, {how}, "
                              f"{n} of 16 columns"], 0)
        self.assertLess(cases["column store, size"], cases["row store, size"])


if __name__ == "__main__":
    LINEITEM, TPCH = sys.argv[1:3]
    unittest.main(argv=sys.argv[:1])
