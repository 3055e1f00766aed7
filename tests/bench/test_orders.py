# SPDX-License-Identifier: BSD-2-Clause
"""bench-orders runs all of its cases, and an open snapshot keeps no more versions than rows have
changed."""
import json
import os
import subprocess
import sys
import unittest

ORDERS = sys.argv.pop(1)
# A directory in memory: waiting for a disk would take long and test nothing here.
MEMORY = {"TMPDIR": "/dev/shm"} if os.access("/dev/shm", os.W_OK) else {}
CASES = ["load", "status", "old", "scans", "snapshot", "btree"]


def rows(*words):
    result = subprocess.run([ORDERS, "0.004", "1", *words], capture_output=True, text=True,
                            check=True, env={**os.environ, **MEMORY})
    return [json.loads(line) for line in result.stdout.splitlines()]


class Orders(unittest.TestCase):
    def test_all_cases(self):
        found = rows()
        self.assertEqual([r["series"] for r in found if "series" in r], CASES)
        for row in found:
            if "series" in row:
                self.assertEqual([p[0] for p in row["points"]],
                                 [round(0.0004 * (i + 1), 3) for i in range(10)])
        rates = {r["case"]: r["median"] for r in found if "case" in r}
        for case in CASES:
            self.assertGreater(rates[f"{case}: orders"], 0)
        kept = rates["snapshot: versions kept / rows changed"]
        self.assertGreater(kept, 0.5)  # nearly all changed rows have been merged
        self.assertLessEqual(kept, 1)

    def test_one_case(self):
        self.assertEqual({r["series"] for r in rows("load") if "series" in r}, {"load"})


if __name__ == "__main__":
    unittest.main()
