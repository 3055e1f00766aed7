#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks the section "Mistakes, and what is said of them" of docs/simulator.md: examples/ring and
examples/ordered pass as they are. Each mistake of the table is made in a copy, and the simulator
prints every text that the table quotes.

mistakes.py <root> <lladd-sim> <c compiler>"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tutorial

PAGE = os.path.join("docs", "simulator.md")
HEADING = "Mistakes, and what is said of them"
RING = ("ring.c", "page.c", "subject.c")
ORDERED = ("ordered.c", "page.c", "subject.c")
EXPLORE, CONTRACT = ":ring --depth 2", ":ring --contract"
PASSES = {"ring": (EXPLORE, CONTRACT, ":ring.threads --interleave --preemptions 1 --depth 1"),
          "ordered": (":ordered --depth 2", ":ordered --contract",
                      ":ordered.threads --interleave --preemptions 1 --depth 1")}
SOURCES = {"ring": RING, "ordered": ORDERED}
MISTAKES_MIN = 15

# A mistake's name in the table: file, right text, wrong text, options of the simulator.
MISTAKES = {
    "an undo does not take back all of its redo":
        ("page.c", "lladd_get64(body + at) - lladd_get64((const char *)undo.data + at));",
         "lladd_get64(body + at) - lladd_get64((const char *)undo.data + at) * (at != COUNT));",
         CONTRACT),
    "a `compensate` does nothing":
        ("ring.c", "return change(txn, lladd_page_of(lladd_get64(b)), lladd_get64(b + 8), &gap);",
         "(void)b;\n    (void)gap;\n    return 0;", EXPLORE),
    "a redo reads a global":
        ("page.c", "    memcpy(body + slot_at(body, lladd_get16(b)), b + 2, redo.len - 2);\n",
         "    static unsigned char calls;\n"
         "    memcpy(body + slot_at(body, lladd_get16(b)), b + 2, redo.len - 2);\n"
         "    body[slot_at(body, lladd_get16(body + 2))] = ++calls;\n", CONTRACT),
    "a `validate` accepts anything":
        ("page.c", "return items_sane(page) && bytes.len == SET_HEAD + (size_t)lladd_get16(body) "
         "&&\n           lladd_get16(bytes.data) < lladd_get16(body + 2);",
         "(void)bytes;\n    return body != NULL;", CONTRACT),
    "`record_max` is too small":
        ("page.c", ".record_max = 2 * (SET_HEAD + RING_ITEM_MAX),", ".record_max = 16,", EXPLORE),
    "`redo_fields` are not what `prepare` has written":
        ("page.c", '{"state", LLADD_FIELD_U8},', '{"state", LLADD_FIELD_BYTES16},', CONTRACT),
    "a page is left fixed":
        ("ring.c", "        rc = change_held(txn, &p, set, move, c);\n    place_unfix(db, &p);",
         "        rc = change_held(txn, &p, set, move, c);\n    if (rc || !c->out)\n"
         "        place_unfix(db, &p);", EXPLORE),
    "`undo_pages_max` is too small":
        ("page.c", ".undo_pages_max = 2, ", ".undo_pages_max = 1, ", EXPLORE),
    "a thread waits for a lock that another transaction of the same thread holds":
        ("ring.c", "int rc = lock_item(txn, ring, *number, LLADD_LOCK_X, LLADD_LOCK_TRY);",
         "int rc = lock_item(txn, ring, *number, LLADD_LOCK_X, LLADD_LOCK_WAIT);", EXPLORE),
    "the log space is asked for one record of two":
        ("ring.c", "const struct lladd_log_need needs[] = {{set, 1}, {move, 1}};\n"
         "    TRY(lladd_log_credit_all(txn, needs, 2));", "TRY(lladd_log_credit(txn, set, 1));",
         EXPLORE),
    "a page is changed that is latched shared":
        ("ring.c", "struct place p = {.latch = LLADD_LATCH_EXCLUSIVE};",
         "struct place p = {.latch = LLADD_LATCH_SHARED};", EXPLORE),
    "the slot of an item that an open transaction has taken is freed":
        ("ring.c", "int rc = state == FILLED || lladd_lock_held(txn, name) != LLADD_LOCK_NONE\n"
         "                 ? LLADD_BUSY\n"
         "                 : lladd_lock_acquire(txn, name, LLADD_LOCK_S, LLADD_LOCK_TRY);",
         "int rc = state == FILLED ? LLADD_BUSY : 0;", EXPLORE),
}


def table(text):
    """The texts that the page quotes for each mistake."""
    section = text.split(f" {HEADING}\n", 1)
    if len(section) != 2:
        sys.exit(f"{PAGE} has no section \"{HEADING}\"")
    rows = re.findall(r"^\| (.*?) \| `(ring|ordered)` \| .*? \| (.*) \|$",
                      section[1].split("\n## ", 1)[0], re.M)
    said = {}
    for what, where, says in rows:
        names = tutorial.MISTAKES if where == "ordered" else MISTAKES
        if what not in names or what in said:
            sys.exit(f"{PAGE}: \"{what}\" is no mistake of {where}, or is there twice")
        said[what] = re.findall(r"`([^`]+)`", says)
    missing = (set(MISTAKES) | set(tutorial.MISTAKES)) - set(said)
    if missing:
        sys.exit(f"{PAGE} lacks {sorted(missing)}")
    if len(said) < MISTAKES_MIN:
        sys.exit(f"{PAGE} has {len(said)} mistakes, fewer than {MISTAKES_MIN}")
    return said


def compile_in(folder, cc, root, sources, name):
    """Makes the subject's shared object."""
    done = subprocess.run([cc, "-shared", "-fPIC", "-I", root, "-o", name, *sources], cwd=folder,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"{folder}: {done.stdout}")


def simulate(folder, sim, name, how):
    """Runs the simulator once. Returns the exit status and the output."""
    subject, *options = how.split()
    done = subprocess.run([sim, f"./{name}{subject}", *options], cwd=folder, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def objection(out):
    """Returns the parts of a contract report that are about operations that broke a promise, or the
    whole report if there are none."""
    parts = re.split(r"^(?=\S+ version \d+$)", out, flags=re.M)
    broken = [part for part in parts if "BROKEN" in part]
    return "".join(broken) if broken else out


def make(folder, what):
    """Makes the mistake in a copy of examples/ring."""
    name, right, wrong, _ = MISTAKES[what]
    path = os.path.join(folder, name)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if text.count(right) != 1:
        sys.exit(f"{what}: {name} has {text.count(right)} places for it")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text.replace(right, wrong))


def try_one(folder, what, texts, root, sim, cc):
    """Makes the mistake and looks for the texts."""
    ordered = what in tutorial.MISTAKES
    example = "ordered" if ordered else "ring"
    wrong = os.path.join(folder, "wrong")
    shutil.copytree(os.path.join(root, "examples", example), wrong)
    (tutorial.make if ordered else make)(wrong, what)
    compile_in(wrong, cc, root, SOURCES[example], example + ".so")
    how = (tutorial.MISTAKES if ordered else MISTAKES)[what][3]
    code, out = simulate(wrong, sim, example + ".so", how)
    said = objection(out)
    lost = [text for text in texts if text not in said]
    if not code or not texts or lost:
        sys.exit(f"{what}: exit status {code}, and it does not say {lost}:\n{out}")
    shutil.rmtree(wrong)
    if "--print" in sys.argv:
        print(f"== {what}\n{said}")


def try_right(folder, example, root, sim, cc):
    """Checks that the example passes as it is."""
    right = os.path.join(folder, example)
    shutil.copytree(os.path.join(root, "examples", example), right)
    compile_in(right, cc, root, SOURCES[example], example + ".so")
    for how in PASSES[example]:
        code, out = simulate(right, sim, example + ".so", how)
        if code:
            sys.exit(f"{example}.so{how} does not pass:\n{out}")


def main(root, sim, cc):
    with open(os.path.join(root, PAGE), encoding="utf-8") as file:
        said = table(file.read())
    folder = tempfile.mkdtemp(prefix="lladd-mistakes-")
    try:
        for example in PASSES:
            try_right(folder, example, root, sim, cc)
        for what, texts in said.items():
            try_one(folder, what, texts, root, sim, cc)
    finally:
        shutil.rmtree(folder)
    print(f"examples/ring and examples/ordered pass, and {len(said)} mistakes do not")


if __name__ == "__main__":
    main(*[os.path.abspath(a) if os.path.exists(a) else a for a in sys.argv[1:4]])
