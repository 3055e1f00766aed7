# SPDX-License-Identifier: BSD-2-Clause
"""The fuzzers' initial inputs are those that fuzz/make_corpus.py writes."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MAKE_DB = sys.argv.pop(1)


def contents(folder):
    """The inputs of a fuzzer: name -> bytes."""
    found = {}
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            found[name] = file.read()
    return found


class Corpus(unittest.TestCase):
    def test_the_inputs_are_those_that_the_program_writes(self):
        with tempfile.TemporaryDirectory() as work:
            subprocess.run([sys.executable, "-B", os.path.join(ROOT, "fuzz", "make_corpus.py"),
                            MAKE_DB, work], check=True, stdout=subprocess.DEVNULL)
            fuzzers = os.listdir(work)
            self.assertIn("fuzz_page", fuzzers)
            for fuzzer in fuzzers:
                with self.subTest(fuzzer):
                    here = contents(os.path.join(ROOT, "fuzz", "corpus", fuzzer))
                    made = contents(os.path.join(work, fuzzer))
                    self.assertEqual(sorted(here), sorted(made))
                    self.assertEqual([n for n in made if made[n] != here[n]], [])


if __name__ == "__main__":
    unittest.main()
