#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd-sim as its users run it: test_command.py <lladd-sim> <bad_subjects.so>.

Options that contradict each other or mean nothing are refused, with the reason. A subject that
crashes, does not end, leaks or is not deterministic is reported by name, and the next one runs.
Every mode writes its report as text, as JSON and to a file. Invalid tokens are refused."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

SIM, PLUGIN = sys.argv[1:3]


def run(*args):
    done = subprocess.run([SIM, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def of(name):
    return f"{PLUGIN}:{name}"


class Refused(unittest.TestCase):
    def refused(self, says, *args):
        code, out, err = run(*args)
        self.assertEqual((code, out), (2, ""), args)
        self.assertIn(says, err, args)
        self.assertEqual(err.count("\n"), 1, err)

    def test_modes_that_contradict(self):
        modes = ["errors", "damage", "random", "contract", "list", "operations", "help"]
        for i, one in enumerate(modes):
            for other in modes[i + 1:]:
                self.refused(f"--{other} contradicts --{one}", f"--{one}", f"--{other}", "small")
            self.refused("contradicts", f"--{one}", "--replay", "AAAA", "small")

    def test_options_that_mean_nothing(self):
        explore = ["--depth=1", "--full-product", "--atomic-pages", "--atomic-turns", "--instant",
                   "--no-power", "--no-kill", "--no-coverage", "--states=1", "--seconds=1",
                   "--failures=1", "--seed=2", "--plant=clr"]
        only_errors = ["--points=1", "--samples=1", "--every=1"]
        for option in only_errors:
            self.refused("needs --errors", option, "small")
        wrong = {"errors": ["--depth=1"],
                 "damage": only_errors + ["--depth=1", "--full-product", "--atomic-turns",
                                         "--no-coverage"],
                 "random": only_errors + ["--full-product"],
                 "contract": only_errors + [o for o in explore if "seed" not in o],
                 "list": only_errors + explore + ["--json", "--all", "--limit=1", "--report=x"],
                 "operations": explore[:1], "help": explore[:1]}
        for mode, options in wrong.items():
            for option in options:
                self.refused(f"{option.split('=')[0]} cannot be used with --{mode}", f"--{mode}",
                             option)
        for option in only_errors + [o for o in explore if "plant" not in o] + ["--all"]:
            self.refused("cannot be used with --replay", "--replay", "AAAA", option)

    def test_options_that_contradict(self):
        self.refused("--no-power contradicts --no-kill", "--no-power", "--no-kill", "small")
        self.refused("--atomic-pages contradicts --atomic-turns", "--atomic-turns",
                     "--atomic-pages", "small")
        self.refused("--depth is given twice", "--depth=1", "--depth=2", "small")
        self.refused("--random is given twice", "--random", "--random", "small")
        self.refused("--all is given", "--all", "small")
        self.refused("a token belongs to one subject", "--replay", "AAAA", "small", "counters")
        self.refused("a token belongs to one subject", "--replay", "AAAA", PLUGIN)
        self.refused("expected a subject")
        self.refused("this mode takes none", "--list", "small")

    def test_numbers(self):
        for bad in ["--depth=0", "--depth=9", "--depth=", "--depth=x", "--depth=1x", "--depth=-1",
                    "--states=0", "--seconds=0", "--failures=0", "--seed=0", "--limit=0",
                    "--states=99999999999999999999", "--failures=4294967296"]:
            self.refused("it takes a number from 1 to", bad, "small")
        self.refused("from 0 to", "--errors", "--samples=-1", "small")

    def test_names(self):
        self.refused("there is no such subject", "absent")
        self.refused("there is no such subject in it", of("absent"))
        self.refused("there is no such bug", "--plant", "nothing", "small")
        self.refused("cannot open", "./not-there.so")
        self.refused("No such file", "--report", "/nowhere/at/all", "small")

    def test_what_is_no_option(self):
        code, out, err = run("--deep", "small")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("unrecognized option", err)

    def test_tokens(self):
        code, out, _ = run(of("broken"))
        self.assertEqual(code, 1)
        token = re.search(r"token (\S+)", out).group(1)
        self.assertLessEqual(len(token), 64)
        code, out, _ = run("--replay", token, of("broken"))
        self.assertEqual(code, 1)
        self.assertIn("O1 lost objects", out)
        self.refused("the token is not of subject \"right\"", "--replay", token, of("right"))
        self.refused("the token is not of subject \"small\"", "--replay", token, "small")
        damaged = token[:8] + ("B" if token[8] != "B" else "C") + token[9:]
        self.refused("the token is damaged", "--replay", damaged, of("broken"))
        self.refused("cut off", "--replay", token[:5], of("broken"))
        self.refused("cannot be part of a token", "--replay", "what?", of("broken"))
        self.refused("at most 64 characters", "--replay", "A" * 65, of("broken"))


class Bad(unittest.TestCase):
    """Bad subjects are reported by name, with what is wrong."""

    def found(self, name, says, *options):
        code, out, err = run(*options, of(name))
        self.assertEqual((code, err), (1, ""), out)
        self.assertRegex(out, f"(?m)^(errors in )?subject {name}(, at random)?: FAILED")
        self.assertIn(says, out)
        return out

    def test_one_that_crashes(self):
        for mode in [], ["--errors"], ["--random"], ["--contract"]:
            self.found("crashes", "the subject crashed: signal 6", *mode)

    def test_one_that_crashes_in_a_callback(self):
        for mode in [], ["--errors"], ["--random"]:
            self.found("small-record", "the subject crashed: signal 11, Segmentation fault, "
                       'in prepare of "app.add" on page', *mode)
        code, out, _ = run("--json", of("small-record"))
        self.assertEqual(code, 1)
        self.assertIn('in prepare of "app.add" on page',
                      json.loads(out)["failures"][0]["message"])

    def test_one_that_does_not_end(self):
        self.found("hangs", "the subject has not ended within 1 s", "--limit", 1)

    def test_time_is_up_for_one_that_does_not_end(self):
        says = "the subject has not ended: its time was up, and it made no more device calls"
        runs = [("hangs", says), ("hangs", says, "--random"), ("hangs", says, "--errors"),
                ("hangs", says, "--damage"), ("threads-hang", says, "--interleave"),
                # Calls of an operation do not count as progress. The time is up in one or after it.
                ("refused", says)]
        with ThreadPoolExecutor(len(runs)) as pool:  # the threads only wait
            for done in [pool.submit(self.found, *r, "--seconds", 1) for r in runs]:
                out = done.result()
        self.assertRegex(out, r', (in|after) prepare of "app\.add"')

    def test_one_that_does_not_say_why(self):
        self.found("speechless",
                   'O16 workload objects: LLADD_PAGE_FULL: operation "app.add" refused')
        code, out, _ = run(of("check-speechless"))
        self.assertEqual(code, 1)
        self.assertRegex(out, r'O3 check objects: LLADD_BAD_STATE: .+; no message was given, and '
                         r'the last callback was (redo|undo|prepare) of "[a-z.]+"; '
                         r'undone: app\.add\n')

    def test_a_setup_that_fails(self):
        """A failing workload is reported by name, in every mode."""
        self.found("setup-speechless", "O16 workload objects: LLADD_BUSY: the subject's setup "
                   "failed: ")
        self.found("setup-holds", "O16 workload objects: LLADD_BAD_STATE: the subject's setup has "
                   "left a page fixed")
        for name in "setup-speechless", "setup-holds":
            code, out, err = run("--contract", of(name))
            self.assertEqual((code, out), (2, ""))
            self.assertRegex(err, f"^lladd-sim: {name}: its setup failed: LLADD_[A-Z_]+: .*\n$")

    def test_promises_of_a_workload_that_fails(self):
        """The contract checks give the reason, like the other modes."""
        for name, says in (("fails", "LLADD_BUSY: the workload fails as the test wants"),
                           ("speechless", 'LLADD_PAGE_FULL: operation "app.add" refused')):
            code, out, err = run("--contract", of(name))
            self.assertEqual((code, out), (2, ""))
            self.assertIn(f"lladd-sim: {name}: its workload failed: {says}", err)

    def test_one_that_waits_for_itself(self):
        says = "the only thread waits for ever for a lock: "
        for mode in [], ["--errors"], ["--random"]:
            self.found("waits", f"O17 deadlock objects: {says}", *mode)
        code, out, err = run("--contract", of("waits"))
        self.assertEqual((code, out), (2, ""))
        self.assertIn(f"its workload does not end: O17 deadlock: {says}", err)

    def test_one_that_does_not_say_how_many_records_at_a_time(self):
        self.found("no-credit-max", 'O16 workload objects: LLADD_TOO_LARGE: operation "app.add": '
                   "log space for 3 records at a time is requested, but its credit_max is 1")

    def test_one_that_loops(self):
        self.found("loops", "O13 loop objects: the workload made more than")

    def test_one_that_leaks(self):
        self.found("leaks", "O12 memory objects: ")
        self.found("leaks-page", "O10 leak objects: ")

    def test_redo_with_side_effects(self):
        self.found("impure", " objects: ")
        # In a build with assertions the workload fails before the operation has a sample.
        code, out, err = run("--contract", of("impure"))
        if code == 1:
            self.assertRegex(out, r"app\.add version 1\n(  .*\n)*  pure +BROKEN")
        else:
            self.assertRegex(err, r'impure: its workload failed: LLADD_BUG: operation '
                             r'"app\.add" .*: redo is not pure')

    def test_one_that_is_another_each_time(self):
        self.found("another-each-time",
                   "O14 determinism objects: LLADD_BUG: the workload is not deterministic")

    def test_one_that_fails(self):
        self.found("fails",
                   "O16 workload objects: LLADD_BUSY: the workload fails as the test wants; the "
                   'last callback was redo of "lladd.root.put"')

    def test_the_others_have_their_turn(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "report")
            code, out, _ = run("--json", "--report", file, of("crashes"), of("right"),
                               of("crashes"))
            with open(file, encoding="utf-8") as written:
                self.assertEqual(written.read(), out)
        self.assertEqual(code, 1)
        said = [json.loads(line) for line in out.splitlines()]
        self.assertEqual([s["subject"] for s in said], ["crashes", "right", "crashes"])
        self.assertEqual([len(s["failures"]) for s in said], [1, 0, 1])
        self.assertEqual(said[0]["failures"][0]["oracle"], "crash")
        self.assertFalse(said[0]["complete"])


class Reports(unittest.TestCase):
    def test_every_mode_writes_text_json_and_a_file(self):
        modes = {"": ["--depth", 1], "--errors": ["--states", 50], "--damage": ["--states", 50],
                 "--random": ["--states", 50], "--contract": []}
        for mode, options in modes.items():
            words = [mode] * bool(mode) + options + ["small"]
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "report")
                code, out, err = run("--report", file, *words)
                self.assertEqual((code, err), (0, ""), mode)
                self.assertIn("\n", out)
                self.assertNotIn("{", out)
                with open(file, encoding="utf-8") as written:
                    told = json.loads(written.read())
            code, out, err = run("--json", *words)
            self.assertEqual((code, err), (0, ""), mode)
            self.assertEqual(json.loads(out).keys(), told.keys(), mode)

    def test_lists(self):
        code, out, _ = run("--list")
        self.assertEqual(code, 0)
        self.assertIn("\ncounters ", out)
        code, out, _ = run("--operations")
        self.assertEqual(code, 0)
        self.assertIn("lladd.counter.add", out)
        code, out, _ = run("--help")
        self.assertEqual(code, 0)
        for option in re.findall(r"--[a-z-]+", out):
            self.assertIn(option, MANUAL)

    def test_time_is_a_bound(self):
        code, out, _ = run("--seconds", 1, "--json", "--depth", 8, "extents")
        self.assertEqual(code, 0)
        self.assertFalse(json.loads(out)["complete"])


with open(sys.argv[3], encoding="utf-8") as manual:
    MANUAL = manual.read().replace("\\-", "-")

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
