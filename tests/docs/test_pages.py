#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The rules of pages.py accept a small tree without violations. Each entry of BAD makes one
violation in this tree, and names the rule that must refuse it."""
import os
import sys
import tempfile

from pages import check

GOOD = {
    "README.md": "# A\n\nSee [rules](docs/wal-rules.md#op-1-no) and `log/log.h`, "
                 "[t](docs/threads.md), [w](docs/what-happens-when.md),\n[r](docs/wal-rules.md), "
                 "[f](docs/disk-format.md), `lladd_go`, `ll_log_go`, OP-1.\n\n"
                 "<!-- from lladd/op.h -->\n```c\nint lladd_go(void);\n```\n\n"
                 "<!-- region examples/a.c one two -->\n```c\n/* Why. */\nint main;\n\n"
                 "int two;\n```\n",
    "SECURITY.md": "See [rules](docs/wal-rules.md).\n",
    "docs/README.md": "[t](threads.md), [w](what-happens-when.md), [r](wal-rules.md),\n"
                      "[f](disk-format.md)\n",
    "docs/wal-rules.md": "### OP-1: no\n\n`log/test_log: it_does`\n",
    "docs/threads.md": "| Rank | Name |\n|---|---|\n| 1 | `ring` |\n",
    "docs/what-happens-when.md": "| What | Proof |\n|---|---|\n| it | `log/test_log: it_does` |\n",
    "docs/disk-format.md": "| Kind | Name |\n|---|---|\n| 1 | update |\n\n"
                           "| Type | | Bytes |\n|---|---|---|\n| 1 | u8 | 1 |\n\n`lladd.set`\n",
    "docs/decisions/README.md": "- [one](one.md)\n",
    "docs/decisions/one.md": "# One\n",
    "docs/pictures/p.dot": 'digraph p { a [label="one\\ntwo"] }\n',
    "docs/pictures/p.svg": "<svg><text x='1'>one</text><text>two</text></svg>\n",
    "lladd/op.h": "enum lladd_field_type {\n    LLADD_FIELD_U8 = 1,\n};\n\nint lladd_go(void);\n",
    "log/log.h": "int ll_log_go(void); /* OP-1 */\n",
    "log/log.c": 'int a = lladd_mutex_init(&m, 1,\n    "ring");\n',
    "log/record.h": "enum ll_record_kind {\n    LL_REC_UPDATE = 1,\n};\n",
    "log/record.c": '    [LL_REC_UPDATE] = "update",\n',
    "operations/pages/bytes.c": '    .name = "lladd.set",\n',
    "examples/a.c": "int no;\n/* [one] Why. */\nint main;\n/* [/one] */\n/* [two] */\nint two;\n"
                    "/* [/two] */\n",
    "tests/log/CMakeLists.txt": "ll_test(NAME test_log)\n",
    "tests/log/test_log.c": "START_TEST(it_does)\n",
}

# The change of one file, and the rule that must refuse it.
BAD = [
    ("README.md", "docs/threads.md", "docs/thread.md", "link"),
    ("README.md", "#op-1-no", "#op-2", "link"),
    ("README.md", "`log/log.h`", "`log/lag.h`", "path"),
    ("README.md", "`log/log.h`", "`logs/`", "path"),
    ("README.md", "`lladd_go`", "`lladd_went`", "name"),
    ("README.md", "`ll_log_go`", "`ll_log_went`", "name"),
    ("README.md", "`lladd_go`", "`lladd_went_*`", "name"),
    ("README.md", "OP-1.", "OP-7.", "rule"),
    ("README.md", "OP-1.", "OP-1 to OP-2.", "rule"),
    ("log/log.h", "OP-1", "OP-9", "rule"),
    ("README.md", "int lladd_go(void);", "long lladd_go(void);", "code"),
    ("README.md", "int main;", "int mine;", "code"),
    ("README.md", "<!-- from lladd/op.h -->", "", "code"),
    ("README.md", "from lladd/op.h", "from lladd/no.h", "code"),
    ("README.md", "one two -->\n```c", "one two -->\n```", "code"),
    ("README.md", "one two -->", "one -->", "code"),
    ("README.md", "one two -->", "one three -->", "code"),
    ("SECURITY.md", "docs/wal-rules.md", "docs/rules.md", "link"),
    ("docs/README.md", "(threads.md)", "(wal-rules.md)", "index"),
    ("docs/decisions/README.md", "(one.md)", "(README.md)", "index"),
    ("docs/pictures/p.svg", "two", "three", "picture"),
    ("docs/pictures/p.dot", "two", "three", "picture"),
    ("docs/what-happens-when.md", "it_does", "it_did", "proof"),
    ("docs/what-happens-when.md", "`log/test_log: it_does`", "some test", "proof"),
    ("docs/what-happens-when.md", "| it | `log/test_log: it_does` |\n", "", "proof"),
    ("tests/log/CMakeLists.txt", "test_log", "test_other", "proof"),
    ("tests/log/test_log.c", "it_does", "it_did", "proof"),
    ("docs/wal-rules.md", "`log/test_log: it_does`", "", "proof"),
    ("docs/wal-rules.md", "it_does", "it_did", "proof"),
    ("docs/threads.md", "`ring`", "`wheel`", "latch"),
    ("log/log.c", '"ring"', '"wheel"', "latch"),
    ("docs/disk-format.md", "| 1 | update |", "| 2 | update |", "format"),
    ("log/record.h", "= 1", "= 2", "format"),
    ("lladd/op.h", "LLADD_FIELD_U8 = 1", "LLADD_FIELD_U8 = 1, LLADD_FIELD_U16 = 2", "format"),
    ("docs/disk-format.md", "`lladd.set`", "nothing", "format"),
    ("operations/pages/bytes.c", "lladd.set", "lladd.get", "format"),
]


def found_in(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        return list(check(root))


def main():
    failed = 0
    for page, number, rule, what in found_in(GOOD):
        print(f"a good tree: {page}:{number}: {rule}: {what}")
        failed += 1
    for path, old, new, rule in BAD:
        assert old in GOOD[path], (path, old)
        files = dict(GOOD)
        files[path] = files[path].replace(old, new)
        rules = {r for _, _, r, _ in found_in(files)}
        if rule not in rules:
            print(f"{path}: {old!r} -> {new!r}: found {sorted(rules)}, not {rule}")
            failed += 1
    print(f"{len(BAD)} ways to be wrong, {failed} not noticed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
