#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks docs/logical-undo.md: examples/ordered is built and simulated with exactly the commands of
the page, against an installed library. Each mistake of the page's table is made, and the oracle
that the table names must report it.

tutorial.py <root> <build folder> <cmake> <c compiler>"""
import os
import re
import shutil
import sys
import tempfile

from pages import RUN, split_code
from programs import relocate, run

PAGE = os.path.join("docs", "logical-undo.md")

# A mistake's name in the table: file, right text, wrong text, options of the simulator.
EXPLORE, INTERLEAVE = ":ordered --depth 2", ":ordered.threads --interleave --depth 1 " \
    "--random-schedules --schedules 3000"
MISTAKES = {
    "a ghost is purged without asking for its lock":
        ("ordered.c", "lladd_lock_acquire(txn, name, LLADD_LOCK_S, LLADD_LOCK_TRY)", "0", EXPLORE),
    "`undo_log_max` forgets the 128 bytes of the record":
        ("page.c", ".undo_log_max = ENTRY + 128,", ".undo_log_max = ENTRY,", EXPLORE),
    "`compensate` looks on the page where the key was":
        ("ordered.c", "lladd_page_of(lladd_get64(b)), key_of(b + 8), LLADD_LATCH_EXCLUSIVE,",
         "lladd_page_of(lladd_get64(b)), key_of(b + 8) / 2, LLADD_LATCH_EXCLUSIVE,", EXPLORE),
    "the log space is not asked for":
        ("ordered.c", "TRY(lladd_log_credit(txn, set, 1));", "", EXPLORE),
    "a split is not closed":
        ("ordered.c", "    *done = true;\n    return lladd_nta_end(txn, action, LLADD_NO_OP, NULL, "
         "0);\n}\n\nstatic int split_with", "    (void)action;\n    *done = true;\n    return 0;\n}"
         "\n\nstatic int split_with", EXPLORE),
    "the latches are released before the action ends":
        ("ordered.c", "    split_unfix(db, &s);\n    int rest = lladd_log_credit(txn, op, 0);\n",
         "    split_unfix(db, &s);\n    int rest = lladd_log_credit(txn, op, 0);\n    if (!rc && "
         "*done)\n        rc = lladd_nta_end(txn, action, LLADD_NO_OP, NULL, 0);\n", INTERLEAVE),
    "the index page is unlatched before the leaf is latched":
        ("ordered.c", "    if (!rc)\n        rc = fix(db, lladd_page_of(value_of(entry_at("
         "lladd_page_body(top), at))), latch, leaf, err);\n    lladd_page_unfix(db, top, "
         "LLADD_LATCH_SHARED);\n    return rc;\n",
         "    uint64_t child = rc ? 0 : value_of(entry_at(lladd_page_body(top), at));\n"
         "    lladd_page_unfix(db, top, LLADD_LATCH_SHARED);\n"
         "    return rc ? rc : fix(db, lladd_page_of(child), latch, leaf, err);\n", INTERLEAVE),
}


def table(text):
    """The oracles that the page names for each mistake; one of them must report it."""
    rows = re.findall(r"^\| (.*?) \| (O\d+.*)\|$", text, re.M)
    return {what: "|".join(re.findall(r"O\d+", says)) for what, says in rows}


def make(folder, what):
    """Makes the mistake in a copy of the example."""
    name, right, wrong, _ = MISTAKES[what]
    path = os.path.join(folder, name)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(right) != 1:
        sys.exit(f"{what}: {name} has {text.count(right)} places for it")
    text = text.replace(right, wrong)
    if what == "the latches are released before the action ends":
        end = ("    *done = true;\n    return lladd_nta_end(txn, action, LLADD_NO_OP, NULL, 0);\n"
               "}\n\nstatic int split_with")
        text = text.replace(end, "    *done = true;\n    return 0;\n}\n\nstatic int split_with")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def commands(root):
    """The commands that the page runs, and its table."""
    with open(os.path.join(root, PAGE), encoding="utf-8") as file:
        text = file.read()
    runs = [code for _, language, origin, code in split_code(text)[1]
            if RUN.match(origin) and language == "sh"]
    if len(runs) != 1:
        sys.exit(f"{PAGE} has {len(runs)} regions that are run")
    said = table(text)
    if set(said) != set(MISTAKES):
        sys.exit(f"{PAGE} and this test differ in {sorted(set(said) ^ set(MISTAKES))}")
    return runs[0], said


def main(root, build, cmake, cc):
    code, said = commands(root)
    folder = tempfile.mkdtemp(prefix="lladd-tutorial-")
    try:
        prefix = os.path.join(folder, "prefix")
        run("installing", [cmake, "--install", build, "--prefix", prefix], folder, None)
        config = next(path for path, _, names in os.walk(prefix) if "lladd-sim.pc" in names)
        for name in ("lladd.pc", "lladd-sim.pc"):
            relocate(os.path.join(config, name), prefix)
        tools = os.path.join(folder, "bin")
        os.mkdir(tools)
        os.symlink(shutil.which(cc) or cc, os.path.join(tools, "cc"))
        path = os.pathsep.join([tools, os.path.join(prefix, "bin"), os.environ["PATH"]])
        env = dict(os.environ, PKG_CONFIG_PATH=config, PATH=path)
        source = os.path.join(root, "examples", "ordered")
        right = os.path.join(folder, "right")
        shutil.copytree(source, right)
        out = run("the region in sh", ["sh", "-ec", code], right, env)
        if out.count(": passed") != 2:
            sys.exit(f"the simulator says:\n{out}")
        build_it = code.strip().split("\n")[0]
        for what, oracle in said.items():
            wrong = os.path.join(folder, "wrong")
            shutil.copytree(source, wrong)
            make(wrong, what)
            run(what, ["sh", "-ec", build_it], wrong, env)
            out = run(what, ["sh", "-ec", "lladd-sim ./ordered.so" + MISTAKES[what][3]], wrong,
                      env, expect=1)
            if not re.search(rf"^ +({oracle})\b", out, re.M):
                sys.exit(f"{what}: {oracle} does not report it:\n{out}")
            shutil.rmtree(wrong)
    finally:
        shutil.rmtree(folder)
    print(f"examples/ordered passes, and {len(said)} mistakes do not")


if __name__ == "__main__":
    main(*sys.argv[1:5])
