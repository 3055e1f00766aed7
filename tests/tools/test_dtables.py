#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What users see of managed dTables: test_dtables.py <lladd> <make_db>.

Rows that were put are found again by their keys and in order. They are printed as CSV and as JSON,
before and after digests.
Wrong input is refused with its line and the reason, and changes nothing. Reading changes nothing
on disk. verify knows the owners of the pages."""
import csv
import hashlib
import io
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest

LLADD, MAKE_DB = sys.argv[1:3]
STATES = """
config [ "base" class(dt) bloom_dtable "base_config" config [
    "base" class(dt) exception_dtable "base_config" config [
        "base" class(dt) usstate_dtable "base_config" config [
            "base" class(dt) array_dtable "base_config" config [ "value_size" int 1 ]
            "passthrough_value" blob fd ]
        "alt" class(dt) linear_dtable "reject_value" blob fd ] ] ]
"""


def tree(folder):
    seen = hashlib.sha256()
    for base, below, names in os.walk(folder):
        below.sort()
        for name in sorted(names):
            with open(os.path.join(base, name), "rb") as file:
                seen.update(name.encode() + b"\0" + file.read() + b"\0")
    return seen.hexdigest()


class Tables(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.db = os.path.join(self.folder, "db")

    def run_it(self, what, *args, text="", code=0):
        done = subprocess.run([LLADD, "dtable", what, *map(str, args)],
                              input=text.encode("latin-1"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        out, err = done.stdout.decode("latin-1"), done.stderr.decode("latin-1")
        self.assertEqual(done.returncode, code, f"dtable {what} {args}: {out}{err}")
        return out, err

    def good(self, what, *args, text="", code=0):
        return self.run_it(what, *args, text=text, code=code)[0]

    def bad(self, what, *args, text=""):
        return self.run_it(what, *args, text=text, code=2)[1]

    def file(self, text):
        path = os.path.join(self.folder, "file")
        with open(path, "w", encoding="latin-1") as file:
            file.write(text)
        return path

    def verify(self):
        done = subprocess.run([LLADD, "verify", self.db], stdout=subprocess.PIPE, check=False,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("no damage", done.stdout)
        self.assertNotIn("outside of structures", done.stdout)

    def test_rows(self):
        self.good("create", self.db, "names")
        self.good("put", self.db, "names", "b", "bee")
        self.good("put", self.db, "names", "a", text="from standard input")
        self.good("put", "--hex", self.db, "names", "6300ff".replace("00", "01"), "00ff")
        for digested in (False, True):
            before = tree(self.db)
            self.assertEqual(self.good("get", self.db, "names", "a"), "from standard input\n")
            self.assertEqual(self.good("get", "--hex", self.db, "names", "6301ff"), "00ff\n")
            self.assertEqual(self.good("scan", self.db, "names"),
                             '"a" "from standard input"\n"b" "bee"\n"c\\x01\\xff" "\\x00\\xff"\n')
            self.assertEqual(self.good("scan", self.db, "names", "aa", "c"), '"b" "bee"\n')
            self.assertEqual(json.loads(self.good("get", "--json", self.db, "names", "b")),
                             {"key": "b", "value": "bee"})
            self.good("get", self.db, "names", "x", code=1)
            self.assertEqual(tree(self.db), before)
            self.verify()
            if not digested:
                self.good("maintain", self.db, "names")
        self.good("del", self.db, "names", "b")
        self.good("del", self.db, "names", "b", code=1)
        self.good("get", self.db, "names", "b", code=1)

    def test_csv(self):
        """Puts random rows, with several digests, and compares the table with a dictionary."""
        draw = random.Random(1)
        want = {}
        self.good("create", "--key", "u64", "--every", 2, self.db, "t")
        for _ in range(4):
            lines = io.StringIO()
            every = draw.random() < 0.5  # all in quotation marks: otherwise a CR might end a line
            rows = csv.writer(lines, lineterminator=draw.choice(["\n", "\r\n"]),
                              quoting=csv.QUOTE_ALL if every else csv.QUOTE_MINIMAL)
            for _ in range(200):
                key = draw.choice([draw.randrange(300), draw.randrange(2**64)])
                if draw.random() < 0.2:
                    rows.writerow([key])
                    want.pop(key, None)
                else:
                    letters = 'ab,"\n é' + "\r" * every
                    value = "".join(draw.choice(letters) for _ in range(draw.randrange(9)))
                    rows.writerow([key, value])
                    want[key] = value
            self.good("put", "--csv", *draw.choice([[], ["--batch", 7]]), self.db, "t",
                      text=lines.getvalue())
            out = self.good("scan", "--csv", self.db, "t")
            got = [(int(k), v) for k, v in csv.reader(io.StringIO(out, newline=""))]
            self.assertEqual(got, sorted(want.items()))
            self.good("maintain", self.db, "t")
        self.good("maintain", "--combine", self.db, "t")
        said = json.loads(self.good("stat", "--json", self.db, "t"))
        self.assertEqual([r["rows"] for r in said["runs"]], [len(want)])
        self.assertEqual(said["runs"][0]["tombstones"], 0)
        self.verify()

    def test_keys(self):
        for kind, keys, wrong in (("u32", [0, 7, 4294967295], ["-1", "4294967296", "1.5", "", "x"]),
                                  ("u64", [0, 18446744073709551615], ["18446744073709551616"]),
                                  ("double", [-1e300, -0.5, 0.25, 3.0], ["nan", "1x", ""]),
                                  ("bytes", ["", "a", "b"], [])):
            self.good("create", "--key", kind, self.db, kind)
            self.assertIn("LLADD_EXISTS", self.bad("create", self.db, kind))
            for key in reversed(keys):
                self.good("put", "--", self.db, kind, key, f"value of {key}")
            out = self.good("scan", "--json", self.db, kind)
            rows = [json.loads(line) for line in out.splitlines()]
            self.assertEqual([r["value"] for r in rows], [f"value of {key}" for key in keys])
            for key in wrong:
                self.assertIn("LLADD_BAD_ARGUMENT", self.bad("get", "--", self.db, kind, key))

    def test_mistakes(self):
        self.good("create", "--key", "u32", self.db, "t")
        self.good("put", self.db, "t", 1, "one")
        before = self.good("scan", self.db, "t")
        self.good("put", "--csv", self.db, "t", text="\n\r\n")  # empty lines are no rows
        self.assertEqual(self.good("scan", self.db, "t"), before)
        self.assertIn("nosuch", self.bad("get", self.db, "nosuch", "1"))
        for text, why in (("2,two\n3,a,b\n", "line 2: the row has more than two fields"),
                          ('2,"two\n', "line 1: a quotation mark that is never closed"),
                          ("2,two\n\n\"3\" ,x\n", "line 3:"),
                          ('2,t"wo\n', "line 1: a quotation mark inside a field"),
                          ("2,two\nx,y\n", "line 2: \"x\" is not a number")):
            self.assertIn(why, self.bad("put", "--csv", self.db, "t", text=text))
            self.assertEqual(self.good("scan", self.db, "t"), before)
        self.assertIn("there is no \"u16\"", self.bad("create", "--key", "u16", self.db, "x"))
        self.assertIn("there is no \"soon\"",
                      self.bad("create", "--schedule", "soon", self.db, "x"))
        self.assertIn("not \"frobnicate\"", self.bad("frobnicate", self.db))
        self.assertIn("No such file", self.bad("create", "--config", self.db + "x", self.db, "x"))

    def test_wrong_configurations(self):
        """create and config-check refuse the same texts, name the place, and leave nothing."""
        with_a_size = 'class(dt) array_dtable config [ "value_size" int 2 "tag_byte" bool false ]'
        below = with_a_size.replace("config", '"base_config" config')
        for text, why, fine in (
                ("class(dt)\narray_dtable", "line 2, column 1: array_dtable", "run"),
                (f'class(dt) bloom_dtable config [ "base"\n{below} ]',
                 "line 2, column 11: array_dtable", "column"),
                ("class(dt) linear_dtable\n config", "line 2, column 8", None)):
            path = self.file(text)
            self.assertIn(why, self.bad("config-check", "--key", "u32", path))
            self.assertIn(why, self.bad("create", "--key", "u32", "--config", path, self.db, "t"))
            self.assertIn("combine_config: " + why, self.bad(
                "create", "--key", "u32", "--combine-config", path, self.db, "t"))
            self.assertFalse(os.path.exists(self.db))
            if fine:
                self.good("config-check", "--key", "u32", "--for", fine, path)
            if fine != "column":
                self.assertIn('group "b": ' + why, self.bad(
                    "create", "--key", "u32", "--columns", "a,b", "--group", f"b={path}",
                    self.db, "t"))
                self.assertFalse(os.path.exists(self.db))
        self.good("create", "--key", "u32", self.db, "t")
        before = tree(self.db)
        self.bad("create", "--key", "u32", "--config", path, self.db, "u")
        self.assertEqual(tree(self.db), before)
        for text, layers in (('smallint_dtable config [ "bytes" int 2 "base"', "array_dtable"),
                             ('usstate_dtable config [ "base"', "array_dtable"),
                             ('ustring_dtable config [ "base"', "fixed_dtable"),
                             ('deltaint_dtable config [ "base"', "array_dtable")):
            path = self.file(f"class(dt) {text} class(dt) {layers} ]")
            self.good("config-check", "--key", "u32", path)
            self.good("create", "--key", "u32", "--config", path, self.db, text.split()[0])

    def test_states(self):
        """The customers by state of the Anvil paper, with a graph."""
        config = self.file(STATES)
        self.good("create", "--key", "u32", "--config", config, self.db, "customers")
        rows = "".join(f"{n},{'Canada' if n % 50 == 0 else 'CA' if n % 3 else 'NY'}\n"
                       for n in range(1000, 2000))
        self.good("put", "--csv", self.db, "customers", text=rows)
        self.good("maintain", self.db, "customers")
        self.assertEqual(self.good("scan", "--csv", self.db, "customers"), rows)
        out = self.good("stat", self.db)
        self.assertRegex(out, r"run 1 +1000 +0 .*bloom_dtable, filter of 10 bits a key")
        drawn = self.good("stat", "--graph", self.db)
        self.assertTrue(drawn.startswith("digraph") and drawn.endswith("}\n"))
        for label in ("customers", "1000 rows", "exception_dtable", "usstate_dtable",
                      "array_dtable", "linear_dtable", "bits_per_key 10"):
            self.assertIn(label, drawn)
        names = set(re.findall(r'^  ("[^"]*") \[', drawn, re.M))
        for a, b in re.findall(r'("[^"]*") -> ("[^"]*")', drawn):
            self.assertTrue(a in names and b in names, drawn)
        self.verify()

    def test_filters(self):
        """stat measures how many absent keys a Bloom filter answers."""
        for bits, least, most in ((1, 20, 75), (10, 96, 100), (24, 99, 100)):
            config = self.file(f'class(dt) bloom_dtable config [ "bits_per_key" int {bits} '
                               f'"base" class(dt) linear_dtable ]')
            for kind in ("u64", "string"):
                name = f"{kind}{bits}"
                self.good("create", "--key", kind, "--config", config, self.db, name)
                rows = "".join(f"{n * 7919 + n % 13},x\n" for n in range(3000))
                self.good("put", "--csv", self.db, name, text=rows)
                self.good("maintain", self.db, name)
                run = json.loads(self.good("stat", "--json", self.db, name))["runs"][0]
                self.assertEqual(run["filter_bits_per_key"], bits)
                asked, passed = run["filter_probed_absent"], run["filter_let_pass"]
                self.assertGreaterEqual(asked, 2900)
                self.assertLessEqual(passed, asked * (1 - least / 100))
                self.assertGreaterEqual(passed, asked * (1 - most / 100))
                rate = 100 * (asked - passed) / asked
                said = f"answers {rate:.1f} % of {asked} absent keys"
                self.assertIn(said, self.good("stat", self.db, name))
                self.assertIn(said, self.good("stat", "--graph", self.db, name))

    def test_columns(self):
        """Columns of a cTable are read by name, one at a time, as CSV and as JSON, before and after
        digests."""
        self.good("create", "--key", "u32", "--columns", "name,city,born", self.db, "people")
        self.good("put", self.db, "people", 7, "name=Ada", "born=1815", "city=")
        self.good("put", self.db, "people", 9, "name=a, \"b\"")
        self.good("put", self.db, "people", 8)
        for digested in (False, True):
            self.assertEqual(self.good("scan", "--csv", self.db, "people"),
                             'key,name,city,born\n7,Ada,"",1815\n8,,,\n9,"a, ""b""",,\n')
            self.assertEqual(self.good("scan", self.db, "people", 7, 8),
                             '7 name="Ada" city="" born="1815"\n8\n')
            self.assertEqual(self.good("scan", "--columns", "born,name", "--csv", self.db,
                                       "people", 7, 7), "key,born,name\n7,1815,Ada\n")
            self.assertEqual(self.good("get", "--columns", "name", self.db, "people", 7), "Ada\n")
            self.assertEqual(json.loads(self.good("get", "--json", self.db, "people", 7)),
                             {"key": 7, "columns": [{"name": "name", "value": "Ada"},
                                                    {"name": "city", "value": ""},
                                                    {"name": "born", "value": "1815"}]})
            self.assertEqual(json.loads(self.good("get", "--json", "--columns", "city", self.db,
                                                  "people", 9))["columns"],
                             [{"name": "city", "value": None}])
            self.good("get", "--columns", "city", self.db, "people", 9, code=1)
            self.good("get", self.db, "people", 1, code=1)
            self.verify()
            if not digested:
                self.good("maintain", self.db, "people")
        self.good("put", self.db, "people", 7, "born")
        self.assertEqual(self.good("get", self.db, "people", 7), '7 name="Ada" city=""\n')
        self.good("del", self.db, "people", 7)
        self.good("get", self.db, "people", 7, code=1)
        said = json.loads(self.good("stat", "--json", self.db, "people"))
        self.assertEqual(said["columns"], ["name", "city", "born"])
        self.assertIn("columns name, city, born", self.good("stat", self.db))
        self.assertIn("columns name, city, born", self.good("stat", "--graph", self.db))

    def test_pages(self):
        """page shows the pages of columns of all runs, column by column."""
        config = self.file('class(dt) exception_dtable config [ "base" class(dt) '
                           'multicolumn_dtable "base_config" config [ "rows" bool true "columns" '
                           'words [ "text12" "u16" ] ] "alt" class(dt) linear_dtable '
                           '"reject_value" blob 010000 ]')
        self.good("create", "--key", "u32", "--columns", "name,city", "--config", config, self.db,
                  "people")
        self.assertIn('"people" has no page 0 of columns; it has 0',
                      self.bad("page", self.db, "people", 0))
        rows = "".join(f"{key},{'ab' if key % 3 else 'b'},{key % 7 + 10}\n"
                       for key in range(1, 3001))
        self.good("put", "--csv", self.db, "people", text="key,name,city\n" + rows)
        self.good("put", self.db, "people", 3001, "name=cc")
        self.good("maintain", self.db, "people")
        self.good("put", self.db, "people", 4000, "name=too long a text for the column")
        self.good("put", self.db, "people", 4001, "city=xy")
        self.good("maintain", self.db, "people")
        before = tree(self.db)
        seen, newest = 0, None
        for number in range(100):
            done = json.loads(self.good("page", "--json", self.db, "people", number))
            newest = newest if newest is not None else done["run"]
            names = [column["name"] for column in done["columns"]]
            self.assertEqual(names, ["key 0", "name", "city"])
            self.assertEqual([column["type"] for column in done["columns"]],
                             ["u64", "text12", "u16"])
            self.assertEqual(int(done["columns"][0]["smallest"]), 4000 if number == 0 else seen + 1)
            if number:
                self.assertEqual(done["first"], seen)
                seen += done["rows"]
            else:
                self.assertEqual((done["rows"], done["page"], done["pages"]), (2, 0, 1))
            self.assertLessEqual(done["used"], done["bytes"])
            if seen == 3001:
                break
        self.assertEqual(seen, 3001)
        self.assertGreater(newest, done["run"])
        self.assertEqual(done["columns"][2]["absent"], 1)
        text = self.good("page", self.db, "people", 0)
        self.assertRegex(text, r"^run \d+, page 0 of 1: 2 rows from place 0, 0 tombstones\n")
        self.assertRegex(text, r"\n  key 0 +u64 +\w+ +\d+ +0 +0 +4000 +4001\n")
        self.assertRegex(text, r"\n  city +u16 +\w+ +\d+ +0 +1 ")
        self.assertIn("has no page 77", self.bad("page", self.db, "people", 77))
        self.assertIn("is not the number of a page", self.bad("page", self.db, "people", "x"))
        self.assertEqual(self.good("get", self.db, "people", 4000),
                         '4000 name="too long a text for the column"\n')
        self.assertEqual(self.good("get", "--columns", "city", self.db, "people", 8), "11\n")
        self.assertEqual(tree(self.db), before)
        self.verify()

    def test_columns_csv(self):
        """Puts random rows into a column store, with several digests, and compares the store with a
        dictionary."""
        draw = random.Random(2)
        names = ["state", "n", "text"]
        config = self.file(STATES[STATES.index('"base" class(dt) exception'):].rsplit("]", 2)[0]
                           .join(("config [ ", " ]")))
        self.good("create", "--key", "u32", "--every", 2, "--columns", ",".join(names),
                  "--group", f"state={config}", "--group", "n,text=" + os.devnull, self.db, "t",
                  code=2)
        linear = os.path.join(self.folder, "linear")
        with open(linear, "w", encoding="ascii") as file:
            file.write("class(dt) linear_dtable")
        self.good("create", "--key", "u32", "--every", 2, "--columns", ",".join(names),
                  "--group", f"state={config}", "--group", f"n,text={linear}",
                  "--keys", linear, self.db, "t")
        want = {}
        for _ in range(4):
            some = draw.sample(names, draw.randrange(1, 4))
            lines = ["key," + ",".join(some)]
            for _ in range(150):
                key = draw.randrange(200)
                if draw.random() < 0.2:
                    lines.append(f"{key}")
                    want.pop(key, None)
                    continue
                row = want.setdefault(key, dict.fromkeys(names, ""))
                for name in some:
                    row[name] = draw.choice(["", '""', "CA", "NY", "Canada", '"a,b"'])
                lines.append(f"{key}," + ",".join(row[name] for name in some))
            self.good("put", "--csv", *draw.choice([[], ["--batch", 7]]), self.db, "t",
                      text="\n".join(lines) + "\n")
            out = self.good("scan", "--csv", self.db, "t").splitlines()
            self.assertEqual(out[0], "key," + ",".join(names))
            self.assertEqual(out[1:], [f"{k}," + ",".join(row[name] for name in names)
                                       for k, row in sorted(want.items())])
            self.good("maintain", self.db, "t")
        drawn = self.good("stat", "--graph", self.db)
        for label in ("column_dtable", "usstate_dtable"):
            self.assertIn(label, drawn)
        self.verify()

    def test_columns_mistakes(self):
        self.good("create", "--columns", "a,b", self.db, "t")
        self.good("create", self.db, "plain")
        self.good("put", self.db, "t", "k", "a=1")
        before = self.good("scan", self.db, "t")
        for what, why in ((["put", self.db, "t", "k", "c=1"], 'has no column "c"'),
                          (["get", "--columns", "c", self.db, "t", "k"], 'has no column "c"'),
                          (["put", self.db, "plain", "k", "a=1", "b=2"], "has no columns"),
                          (["scan", "--columns", "a", self.db, "plain"], "has no columns"),
                          (["create", "--columns", "a,a", self.db, "x"], 'both called "a"'),
                          (["create", "--columns", "a,", self.db, "x"], "its name has 1 to"),
                          (["create", "--columns", "a", "--group", "b=" + self.file(""), self.db,
                            "x"], "BAD"),
                          (["create", "--columns", "a", "--group", "b", self.db, "x"],
                           "COLUMNS=FILE")):
            self.assertIn(why, self.bad(*what))
        for text, why in (("key,c\n", "line 1: "), ("key,a,a\n", "line 1: a column is named twice"),
                          ("key,a\nx,1,2\n",
                           "line 2: the row has 3 fields, but the first line has 2"),
                          ("key,a\nx,1\ny,\"\n", "line 3: a quotation mark")):
            self.assertIn(why, self.bad("put", "--csv", self.db, "t", text=text))
            self.assertEqual(self.good("scan", self.db, "t"), before)

    def test_ranges(self):
        for kind, keys, gone in (("u32", [1, 5, 9, 10, 70], ("5", "10")),
                                 ("string", ["a", "b", "bb", "c"], ("b", "c"))):
            self.good("create", "--key", kind, self.db, kind)
            rows = [f"{key},x\n" for key in keys]
            self.good("put", "--csv", self.db, kind, text="".join(rows))
            self.good("maintain", self.db, kind)
            self.good("del", "--range", self.db, kind, *gone)
            left = [rows[0]] + rows[3:]
            for digested in (False, True):
                self.assertEqual(self.good("scan", "--csv", self.db, kind), "".join(left))
                self.good("get", self.db, kind, gone[0], code=1)
                self.assertEqual(self.good("get", self.db, kind, gone[1]), "x\n")
                self.verify()
                if not digested:
                    self.good("maintain", self.db, kind)
            self.assertRegex(self.good("stat", self.db, kind), "ranges_dtable, 1 range deleted")
            stat = json.loads(self.good("stat", "--json", self.db, kind))
            self.assertEqual([run.get("ranges") for run in stat["runs"]], [1, None])
            self.good("maintain", "--combine", self.db, kind)
            self.assertNotIn("deleted", self.good("stat", self.db, kind))
            self.good("del", "--range", self.db, kind, "", gone[1])
            self.assertEqual(self.good("scan", "--csv", self.db, kind), "".join(left[1:]))
            self.good("del", "--range", self.db, kind, gone[1])
            self.assertEqual(self.good("scan", "--csv", self.db, kind), "")
        self.good("del", "--range", self.db, "u32")
        self.assertIn("LLADD_BAD_ARGUMENT", self.bad("del", "--range", self.db, "u32", "7", "3"))
        self.bad("del", "--range", self.db, "u32", "x")
        self.bad("del", "--range", self.db, "u32", "1", "2", "3")

    def test_alter(self):
        """alter changes only the options on its command line. They apply to runs that are made
        later."""
        def settings(name):
            return json.loads(self.good("stat", "--json", self.db, name))["settings"]
        self.good("create", "--key", "u32", "--every", 3, self.db, "t")
        self.good("put", "--csv", self.db, "t", text="1,one\n2,two\n")
        self.good("maintain", self.db, "t")
        before = settings("t")
        self.assertEqual((before["schedule"], before["every"], before["config"]),
                         ("ruler", 3, None))
        self.assertIn("no option to change", self.bad("alter", self.db, "t"))
        self.assertIn("line 1, column 11: fixed_dtable", self.bad(
            "alter", "--rows", 5, "--config", self.file("class(dt) fixed_dtable"), self.db, "t"))
        self.assertIn("has no columns", self.bad("alter", "--keys", os.devnull, self.db, "t"))
        self.bad("alter", "--rows", 5, "--every", 1, self.db, "t")
        self.assertEqual(settings("t"), before)
        path = self.file('class(dt) bloom_dtable config [ "base" class(dt) linear_dtable ]')
        self.good("alter", "--config", path, "--rows", 5, "--interval", 60, self.db, "t")
        now = settings("t")
        self.assertIn("bloom_dtable", now.pop("config"))
        self.assertEqual(now, {**{k: v for k, v in before.items() if k != "config"},
                               "rows": 5, "interval_ns": 60 * 10**9})
        self.assertIn("schedule ruler, every 3; digest after 32.0 MiB, 5 rows, 60 s",
                      self.good("stat", self.db, "t"))
        self.good("put", "--csv", self.db, "t", text="3,three\n")
        self.good("maintain", self.db, "t")
        out = self.good("stat", self.db, "t")
        self.assertRegex(out, "(?s)run 2 [^\n]*bloom_dtable.*run 1 ")
        self.assertEqual(self.good("scan", "--csv", self.db, "t"), "1,one\n2,two\n3,three\n")
        self.good("create", "--key", "u32", "--columns", "a,b", self.db, "c")
        self.good("put", self.db, "c", 1, "a=x", "b=y")
        self.bad("alter", "--group", f"a={path}", "--every", 1, self.db, "c")
        self.assertIsNone(settings("c")["config"])
        self.good("alter", "--group", f"a={path}", "--every", 9, self.db, "c")
        self.assertIn("column_dtable", settings("c")["config"])
        self.assertEqual(settings("c")["every"], 9)
        self.good("maintain", self.db, "c")
        self.assertIn("column_dtable", self.good("stat", "--graph", self.db, "c"))
        self.assertEqual(self.good("get", "--columns", "b", self.db, "c", 1), "y\n")
        self.verify()

    def test_unlogged(self):
        """Only a program that has the source of the rows changes an unlogged table."""
        def stat(name):
            return json.loads(self.good("stat", "--json", self.db, name))
        self.good("create", "--key", "u32", "--unlogged", "--schedule", "levels", self.db, "t")
        self.good("create", "--key", "u32", self.db, "logged")
        self.assertTrue(stat("t")["settings"]["unlogged"])
        self.assertEqual(stat("t")["position"], {"commit": 0, "from": 0})
        self.assertFalse(stat("logged")["settings"]["unlogged"])
        self.assertNotIn("position", stat("logged"))
        self.assertNotIn("unlogged", self.good("stat", self.db, "logged"))
        subprocess.run([MAKE_DB, "--send", self.db], check=True)
        self.assertEqual(stat("t")["position"], {"commit": 20, "from": 15})
        self.assertIn("\n  unlogged; has the source's transactions up to 20, the others begin "
                      "at 15\n", self.good("stat", self.db, "t"))
        self.assertEqual(self.good("get", self.db, "t", 7), "seven\n")
        for args in (("put", self.db, "t", 1, "one"), ("put", "--csv", self.db, "t"),
                     ("del", self.db, "t", 7), ("del", self.db, "t", 1),
                     ("del", "--range", self.db, "t")):
            self.assertIn('table "t" is unlogged: only the program that has the source of its rows '
                          "can change it", self.bad(*args, text="1,one\n"))
        self.assertEqual(self.good("scan", "--csv", self.db, "t"), "7,seven\n")
        self.good("alter", "--schedule", "ruler", self.db, "t")
        self.good("maintain", "--combine", self.db, "t")
        self.assertTrue(stat("t")["settings"]["unlogged"])
        self.assertEqual(stat("t")["position"], {"commit": 20, "from": 15})
        self.assertIn("cannot be changed",
                      self.bad("alter", "--unlogged", "--every", 3, self.db, "t"))
        self.good("create", "--key", "u32", "--unlogged", "--columns", "a,b", self.db, "c")
        self.assertTrue(stat("c")["settings"]["unlogged"])
        self.assertIn("is unlogged", self.bad("put", self.db, "c", 1, "a=x"))
        self.verify()

    def test_obsolete(self):
        """A program has ended with an open snapshot. stat shows the run that was kept for it, and
        maintain frees the run."""
        self.good("create", "--key", "u32", self.db, "t")
        self.assertNotIn("obsolete", self.good("stat", self.db, "t"))
        subprocess.run([MAKE_DB, "--keep", self.db], check=True)
        self.assertIn("\n  1 obsolete run, to be freed by maintain\n",
                      self.good("stat", self.db, "t"))
        self.assertEqual(json.loads(self.good("stat", "--json", self.db, "t"))["doomed"], 1)
        self.verify()
        self.good("maintain", self.db, "t")
        self.assertNotIn("obsolete", self.good("stat", self.db, "t"))
        self.assertEqual(self.good("get", self.db, "t", 7), "seven\n")
        self.verify()

    def test_block_bytes(self):
        """--block-bytes of create and alter."""
        def size():
            return json.loads(self.good("stat", "--json", self.db, "t"))["settings"]["block_bytes"]
        self.assertIn("blocks of 5000 bytes",
                      self.bad("create", "--block-bytes", 5000, self.db, "t"))
        self.assertFalse(os.path.exists(self.db))
        self.good("create", "--key", "u32", "--block-bytes", 65536, self.db, "t")
        self.assertEqual(size(), 65536)
        self.assertIn("; blocks of 64.0 KiB\n", self.good("stat", self.db, "t"))
        self.bad("alter", "--block-bytes", 2 << 20, self.db, "t")
        self.bad("alter", "--block-bytes", "many", self.db, "t")
        self.assertEqual(size(), 65536)
        self.good("alter", "--every", 7, self.db, "t")
        self.assertEqual(size(), 65536)
        self.good("put", self.db, "t", 1, "one")
        self.good("maintain", self.db, "t")
        self.good("alter", "--block-bytes", 0, self.db, "t")
        self.assertEqual(size(), 0)
        self.assertNotIn("blocks of", self.good("stat", self.db, "t"))
        self.good("put", self.db, "t", 2, "two")
        self.good("maintain", self.db, "t")
        self.assertEqual(self.good("scan", "--csv", self.db, "t"), "1,one\n2,two\n")
        self.verify()

    def test_levels(self):
        """stat names the components of a table with the schedule of levels."""
        def levels():
            return json.loads(self.good("stat", "--json", self.db, "t")).get("levels")
        self.good("create", "--key", "u32", "--schedule", "levels", "--memory", 8000, self.db, "t")
        self.assertEqual(levels()["c1"], 0)
        self.assertIn("schedule levels", self.good("stat", self.db, "t"))
        line = "x" * 100
        rows = [f"{key},{line}\n" for key in range(1000)]
        self.good("put", "--csv", self.db, "t", text="".join(rows))
        now = levels()
        self.assertGreater(now["c0_front"], 100_000)
        self.assertEqual([now[k] for k in ("c0_frozen", "c1", "c1_merging", "c2")], [0, 0, 0, 0])
        self.good("maintain", self.db, "t")
        now = levels()
        self.assertGreater(now["c2"], 100_000)
        self.assertEqual([now[k] for k in ("c0_front", "c1", "c1_merging")], [0, 0, 0])
        self.assertGreater(now["level_bytes"], 8000)
        self.good("put", "--csv", self.db, "t", text="".join(rows[:20]))
        self.good("maintain", self.db, "t")
        now = levels()
        self.assertGreater(now["c1"], 2000)
        self.assertLess(now["c1"], now["level_bytes"])
        self.assertGreater(now["c2"], 100_000)
        self.assertRegex(self.good("stat", self.db, "t"),
                         r"C0 0 bytes \(frozen 0 bytes\), C1 [0-9.]+ KiB, C1' 0 bytes, "
                         r"C2 [0-9.]+ KiB; C1 is combined at [0-9.]+ KiB\n")
        self.good("alter", "--schedule", "ruler", self.db, "t")
        self.assertIsNone(levels())
        self.good("alter", "--schedule", "levels", self.db, "t")
        self.assertEqual(levels()["c2"], now["c2"])
        self.assertEqual(self.good("scan", "--csv", self.db, "t"), "".join(rows))
        self.verify()

    def test_config(self):
        path = self.file(STATES)
        out = self.good("config-check", "--key", "u32", path)
        self.assertIn('"bits_per_key" int 10', out)
        self.assertEqual(self.good("config-check", self.file(out)), out)
        self.assertIn("LLADD_BAD_CONFIG", self.bad("config-check", "--key", "string", path))
        self.assertIn("line 2, column 10: expected a parameter", self.bad("config-check", "-",
                                                             text="\nconfig [ \"a\" class x ]"))
        self.assertIn("LLADD_BAD_CONFIG",
                      self.bad("create", "--key", "string", "--config", path, self.db, "t"))


unittest.main(argv=sys.argv[:1])
