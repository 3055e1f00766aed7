#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every rule of tidy.py finds a violation, and accepts correct text."""
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tidy

HEAD = "/* SPDX-License-" + "Identifier: BSD-2-Clause */\n"


class Rules(unittest.TestCase):
    def found(self, path, body, head=HEAD):
        with tempfile.TemporaryDirectory() as root:
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(head + body)
            self.assertIn(path, list(tidy.files(root)))
            return {rule for _, rule, _ in tidy.check_file(root, path)}

    def test_good_file(self):
        self.assertEqual(self.found("log/log.c", '#include "log/log_private.h"\n\n'
                                    '#include <stdio.h>\n/* abort() is for others */\n'
                                    'int f(void)\n{\n    return snprintf(b, 9, "exit(1)");\n}\n'),
                         set())

    def test_include_up(self):
        self.assertIn("include-up", self.found("log/a.c", '#include "../util/env.h"\n'))

    def test_private(self):
        body = '#include "buffer/buffer_private.h"\n'
        self.assertIn("private", self.found("log/a.c", body))
        self.assertIn("private", self.found("tools/a.c", body))
        self.assertIn("private", self.found("tests/log/a.c", body))
        self.assertIn("private", self.found("buffer/a.c", "#include <db/db_private.h>\n"))
        self.assertEqual(self.found("buffer/a.c", body), set())
        self.assertEqual(self.found("tests/buffer/a.c", body), set())

    def test_format(self):
        body = '#include "log/log_format.h"\n'
        self.assertIn("format", self.found("buffer/a.c", body))
        self.assertEqual(self.found("log/a.c", body), set())
        self.assertEqual(self.found("tools/a.c", body), set())
        self.assertEqual(self.found("fuzz/a.c", body), set())

    def test_public_only(self):
        for folder in ("operations", "examples"):
            self.assertIn("public-only", self.found(folder + "/a.c", '#include "util/env.h"\n'))
            self.assertEqual(self.found(folder + "/a.c", '#include <lladd/lladd.h>\n'
                                        '#include <math.h>\n#include "own.h"\n'), set())
        self.assertIn("public-only",
                      self.found("operations/hash/a.c", '#include "recovery/core.h"\n'))

    def test_docstring(self):
        a, b = "LLADD_API int lladd_a(void);\n", "LLADD_API int lladd_b(void);\n"
        body = "{\n    return 0;\n}\n"
        good = "/** Does a. */\n" + a + "/** Does b,\n *  and more. */\n" + b
        self.assertEqual(self.found("lladd/a.h", good), set())
        self.assertEqual(self.found("lladd/a.h", "/** @cond */\ninline int lladd_a()\n" + body +
                                    "/** @endcond */\n"), set())
        self.assertEqual(self.found("log/a.h", a), set())
        for bad in (a, "/** Do a and b. */\n" + a + b, "/** Does a. */\n\n" + a, "/* why */\n" + a,
                    "/**\n * @file\n */\n" + a, "static inline int lladd_a(void)\n" + body,
                    "/** Does a. */\n#ifdef A\n" + a + "#endif\n"):
            self.assertIn("docstring", self.found("lladd/a.h", bad))

    def test_address(self):
        self.assertIn("address", self.found("bench/install-peers", "curl https:" + "//a.b/c\n",
                                            "# SPDX-License-" + "Identifier: BSD-2-Clause\n"))

    def test_limit(self):
        self.assertIn("limit", self.found("tests/log/a.c", "    tcase_set_time" + "out(tc, 60);\n"))
        self.assertIn("limit", self.found("tests/log/CMakeLists.txt", "ll_test(NAME a TIME" +
                                          "OUT 60)\n", "# SPDX-License-" +
                                          "Identifier: BSD-2-Clause\n"))
        head = {"py": "# " + HEAD[3:-4] + "\n", "java": "// " + HEAD[3:-4] + "\n"}
        head["sh"] = head["py"]
        for path, limit, few, enough in (
                ("tests/a/a.py", "run(time" + "out={})", "60", "600"),
                ("tests/a/a.py", "child.wa" + "it({})", "60", "600"),
                ("tests/a/a.py", "thread.jo" + "in( {})", "59.5", "600.5"),
                ("tests/a/a.py", "process.fi" + "rst({})", "60", "6000"),
                ("tests/a/a.py", "process.st" + "op({})", "60", "6000"),
                ("tests/a/a.py", "socket.settime" + "out({})", "1", "600"),
                ("tests/a/a.sh", "local lim" + "it={}", "60", "3600"),
                ("tests/a/a.sh", "time" + "out -k9 {} ls", "60", "3600"),
                ("runtests", "fuzzer -time" + "out={}", "25", "600"),
                ("tests/a/a.c", "enum {{ AWAIT_SEC" + "ONDS = {} }};", "599", "600"),
                ("tests/a/a.c", "until.tv_" + "sec += {};", "10", "600"),
                ("tests/a/a.java", "long A_" + "MS = {};", "10_000", "600_000"),
                ("tests/a/a.java", "long A_" + "MS = {};", "599999", "600000"),
                ("tests/a/a.java", "int TIMEOUT_" + "S = {};", "120", "3600"),
                ("tests/a/a.java", "source.setSocketTime" + "out({});", "30", "600")):
            top = head.get(path.split(".")[-1], HEAD)
            self.assertIn("limit", self.found(path, limit.format(few) + "\n", top), limit)
            self.assertEqual(self.found(path, limit.format(enough) + "\n", top), set(), limit)
        self.assertEqual(self.found("tests/a/a.py", "run('--lim" + "it=1')\n", head["py"]), set())
        self.assertEqual(self.found("examples/a.py", "run(time" + "out" + "=60)\n", head["py"]),
                         set())

    def test_spdx(self):
        self.assertIn("spdx", self.found("log/a.c", "int x;\n", head=""))
        self.assertIn("spdx", self.found("log/CMakeLists.txt", "a()\n", head=""))
        self.assertEqual(self.found("docs/a.md", "words\n", head=""), set())
        self.assertEqual(self.found("cmake/a.py", "x = 1\n", head="#!/usr/bin/env python3\n# " +
                                    HEAD[3:-4] + "\n"), set())

    def test_length(self):
        self.assertIn("length", self.found("log/a.c", "int x;\n" * 900))
        self.assertEqual(self.found("log/a.c", "int x;\n" * 899), set())
        self.assertEqual(self.found("log/a.h", "/* do not edit */\n" + "int x;\n" * 950), set())
        self.assertIn("length", self.found("log/a.c", "int " + "x" * 97 + ";\n"))

    def test_debt(self):
        for word in ("TO" + "DO", "FIX" + "ME", "X" * 3, "HA" + "CK"):
            self.assertIn("debt", self.found("log/a.c", f"/* {word}: later */\n"))
        self.assertEqual(self.found("tests/a/a.c", 'char *t = "tmp-XXXXXX";\n'), set())

    def test_dead(self):
        self.assertIn("dead", self.found("tests/a/a.c", "#if 0\n#endif\n"))
        self.assertIn("dead", self.found("log/a.c", "  # if 0 /* why */\n#endif\n"))

    def test_noise(self):
        for call in ("abort()", "exit(1)", "printf(\"x\")", "fprintf(stderr, \"x\")", "puts(s)",
                     "assert(x)", "perror(s)", "_exit(2)"):
            self.assertIn("noise", self.found("log/a.c", f"void f(void)\n{{\n    {call};\n}}\n"))
            self.assertEqual(self.found("tools/a.c", f"void f(void)\n{{\n    {call};\n}}\n"), set())
        self.assertEqual(self.found("log/a.c", "int f(void)\n{\n    LL_ASSERT(x);\n"
                                    "    o->abort(x);\n    return lladd_abort(txn);\n}\n"), set())
        self.assertEqual(self.found("util/assert.c", "void f(void)\n{\n    abort();\n}\n"), set())

    def test_unsafe(self):
        self.assertIn("unsafe", self.found("io/a.c", "void f(void)\n{\n    strcpy(a, b);\n}\n"))

    def test_sync(self):
        body = "void f(void)\n{\n    pthread_mutex_lock(&m);\n}\n"
        self.assertIn("sync", self.found("io/a.c", body))
        self.assertIn("sync", self.found("io/a.c", "int f(void)\n{\n"
                                         "    return __atomic_load_n(p, __ATOMIC_RELAXED);\n}\n"))
        self.assertEqual(self.found("util/sync.c", body), set())
        self.assertEqual(self.found("tests/io/a.c", body), set())

    def test_look(self):
        for load, count in ("load32", 1), ("load64", 1), ("load32_relaxed", 1), ("look32", 0):
            for body in (f"if (LIKELY(lladd_atomic_{load}(&l->sleepers[b - 1])))\n        f();",
                         f"uint32_t n = lladd_atomic_{load}(&b->writer_asleep);",
                         f"n = lladd_atomic_{load}(\n            &log->starving);",
                         f"if (lladd_atomic_{load}(&t->takers) == 0)\n        return;",
                         f"if (lladd_atomic_{load}(&l->n))\n        lladd_word_wake(&l->w, 1, 1);",
                         f"if (a &&\n        lladd_atomic_{load}(&l->n) != 0) {{\n        f();\n"
                         "        lladd_word_wake(&l->w, 1, 1);\n    }",
                         f"if (lladd_atomic_{load}(&l->n) == 0)\n        return;\n"
                         "    lladd_word_wake(&l->w, 1, 1);"):
                body = "void finish(void)\n{\n    " + body + "\n}\n"
                for path in "log/a.c", "operations/a.c", "lladd/a.h":
                    self.assertEqual("look" in self.found(path, body), count == 1, body)
                self.assertEqual(self.found("tests/log/a.c", body), set())
        body = "{\n    if (lladd_atomic_load32(&l->starving))\n        f(l);\n}\n"
        self.assertEqual(self.found("log/reserve.c", "void finish(void)\n" + body), set())
        self.assertIn("look", self.found("log/reserve.c", "void finish(void);\nvoid g(void)\n" +
                                         body))
        body = ("void f(void)\n{\n    while (lladd_atomic_load32(&x))\n"
                "        lladd_word_wait(&x, 1, 1, 0);\n    lladd_atomic_add32(&l->sleepers, 1);\n"
                "    /* lladd_atomic_load32(&l->sleepers) */\n    lladd_word_wake(&x, 1, 1);\n}\n")
        self.assertEqual(self.found("log/a.c", body), set())

    def test_use(self):
        head = "int lladd_put(struct lladd_txn *t,\n              int n)\n{\n"
        for path in ("operations/a.c", "db/a.c"):
            self.assertIn("use", self.found(path, head + "    return n;\n}\n"))
            self.assertIn("use", self.found(path, head + "    LLADD_USE(txn);\n}\n"))
            self.assertEqual(self.found(path, head + "    LLADD_USE(t);\n}\n"), set())
        self.assertEqual(self.found("xa/a.c", head + "    return n;\n}\n"), set())
        self.assertEqual(self.found("db/a.c", "int ll_put(struct lladd_txn *t)\n{\n}\n"), set())

    def test_sleep(self):
        body = "void f(void)\n{\n    usleep(10);\n}\n"
        self.assertIn("sleep", self.found("log/a.c", body))
        self.assertIn("sleep", self.found("tests/log/a.c", body))

    def test_typedef(self):
        self.assertIn("typedef", self.found("log/a.h", "typedef struct a a_t;\n"))
        self.assertEqual(self.found("log/a.h", "typedef int fn(void);\n"), set())
        self.assertEqual(self.found("lladd/types.h", "typedef struct {\n} x;\n"), set())

    def test_space(self):
        self.assertIn("space", self.found("log/a.c", "\tint x;\n"))
        self.assertIn("space", self.found("log/a.c", "int x; \n"))
        self.assertIn("space", self.found("log/a.c", "int x;"))

    def test_machine(self):
        self.assertIn("machine", self.found("docs/a.md", "see /ho" + "me/user/x\n"))
        self.assertIn("machine", self.found("bench/a.py", "'/wo" + "rk/main'\n"))


class Main(unittest.TestCase):
    def test_nothing_to_check_is_a_failure(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(tidy.main(root), 1)


if __name__ == "__main__":
    unittest.main()
