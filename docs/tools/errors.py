#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""errors.py [error_list.h]: prints docs/errors.md from the table of error codes.

The table has what every code means; what is said here is about the roots, of which there are few.
A root that this file does not know, or knows and the table does not, ends the program."""
import os
import re
import sys

HEAD = """\
# Errors

<!-- Printed by docs/tools/errors.py from lladd/error_list.h; do not edit. -->

A call returns 0 or one of the negative codes below. The hundreds of a code are its *root*, and the
root says what the caller should do; `lladd_code_root(code)` gives it. A code keeps its number for
ever; numbers that are not in this table were never used.

Where to find out more about an error:

| The call that failed | Look at |
|---|---|
| has a transaction as argument | `lladd_txn_error(txn)`, until the next call on the transaction |
| has a `struct lladd_error *` as last argument (it may be NULL) | that struct |
| has consumed its transaction (commit, abort) | `lladd_db_error(db, &err)`: the poison's cause |

`struct lladd_error` has the code, the operating system's `errno` if there was one, the source file
and line that reported the error, the LSN and the page that the error is about, if any, and one line
of text that names the file, page or LSN. A call that succeeds leaves the struct as it was.
`lladd_code_name` and `lladd_code_text` give a code's name and meaning.

`LLADD_DEADLOCK`, `LLADD_CONFLICT` and `LLADD_TIMEOUT` come from the [lock manager](locks.md) and
structures. Of the core's calls, only `lladd_txn_take` returns one of these codes: `LLADD_TIMEOUT`.
"""

# What the caller does, by root.
ADVICE = {
    "RETRY": """\
The transaction is as it was before the call. Abort it and run it again from the start. After
`LLADD_LOG_FULL`, `LLADD_BUSY` and `LLADD_TIMEOUT` you may also wait and repeat the call. After
`LLADD_TAKEN` another thread has the transaction and ends it
([threads.md](threads.md#taking-a-transaction-over)): begin a new transaction.""",
    "ANSWER": """\
The code is the answer to the call, not a fault. The call has changed nothing.""",
    "MISUSE": """\
The program, its options or its registrations are wrong, or it was pointed at the wrong directory.
The call has changed nothing (API-1), and its transaction can go on.""",
    "RESOURCE": """\
The call has changed nothing (API-1). The transaction is usable: commit it as it is, abort it (which
needs only reserved resources, REC-3), roll it back to a savepoint, or repeat the call when more of
the resource is available.""",
    "DATA": """\
Stored bytes cannot be read or contradict each other, and could not be rebuilt from the log. The
message names file, page or LSN. The handle stays usable for undamaged data. `lladd verify` checks
the whole database. `lladd_open` refuses a damaged log before it changes anything.""",
    "POISONED": """\
The library no longer knows what is on the disk, or one of its invariants does not hold. Every later
call on the handle returns the first error, no commit is acknowledged, and no write or sync is tried
again (LOG-4). Earlier acknowledged commits are safe. A commit that returned one of these codes may
or may not have happened. Close the handle and open the database again: recovery reads what is on
the disk.""",
}

ROOT = re.compile(r'X\(LLADD_ROOT_(\w+), (\d+), "([^"]*)"\)')
CODE = re.compile(r'X\((LLADD_\w+), (-\d+), (\w+), "([^"]*)"\)')


def table(text):
    """Roots as (name, number, text), codes as (name, number, root, text), checked."""
    roots = [(name, int(number), what) for name, number, what in ROOT.findall(text)]
    codes = [(name, int(number), root, what) for name, number, root, what in CODE.findall(text)]
    if {name for name, _, _ in roots} != set(ADVICE):
        sys.exit("the roots of the table are not the ones errors.py has something to say about")
    base = {name: number for name, number, _ in roots}
    for name, number, root, _ in codes:
        if root not in base or not base[root] < -number < base[root] + 100:
            sys.exit(f"{name} {number} does not lie below its root")
    if len({number for _, number, _, _ in codes}) != len(codes) or not codes:
        sys.exit("a number is given twice, or there are none")
    return roots, codes


def page(text):
    roots, codes = table(text)
    out = [HEAD]
    for root, number, what in roots:
        out.append(f"## {number}: {what}\n\n`LLADD_ROOT_{root}`\n\n{ADVICE[root]}\n")
        out.append("| Code | Number | Meaning |\n|---|---|---|")
        out += [f"| `{name}` | {n} | {why} |" for name, n, r, why in codes if r == root]
        out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(
        here, os.pardir, os.pardir, "lladd", "error_list.h")
    with open(path, encoding="utf-8") as file:
        print(page(file.read()), end="")
