#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""lladd backup, lladd restore and lladd archive: test_command.py <lladd>. Backups, restores and
pushes that are killed at any moment can be repeated. Every backup that is listed is complete, and
every copy with a file "control" is complete."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

LLADD = sys.argv[1]


def run(*args):
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run([LLADD, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Backups(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = temporary.name
        self.db, self.store = self.path("db"), "dir:" + self.path("store")
        self.good("hash", "put", "--create", self.db, "table", "key", "value")

    def path(self, name):
        return os.path.join(self.top, name)

    def good(self, *args, code=0):
        got, out, err = run(*args)
        self.assertEqual(got, code, f"lladd {args}: {out}{err}")
        return out if code == 0 else out + err

    def check(self, name):
        self.assertIn("no damage", self.good("verify", self.path(name)))
        self.assertEqual(self.good("hash", "get", self.path(name), "table", "key"), "value\n")

    def objects(self):
        return [os.path.join(at, name) for at, _, names in os.walk(self.path("store"))
                for name in names]

    def test_round_trip(self):
        self.good("backup", "--label", "first", self.db, self.store)
        made = json.loads(self.good("backup", "--json", "--rate", "100000000", self.db, self.store))
        listed = json.loads(self.good("restore", "--list", "--json", self.store))
        self.assertEqual([b["label"] for b in listed], ["first", ""])
        self.assertEqual(listed[1], {name: made[name] for name in listed[1]})
        self.assertEqual((made["findings"], made["lost_pages"], made["compared"]), ([], 0, True))
        self.assertIn(made["name"], self.good("restore", "--list", self.store))
        self.good("restore", self.store, self.path("copy"))
        self.good("restore", "--base", listed[0]["name"], self.store, self.path("other"))
        self.check("copy")
        self.check("other")
        self.assertIn("timeline        2: a restored copy", self.good("stat", self.path("other")))
        self.assertEqual([json.loads(self.good("stat", "--json", self.path(name)))["timeline"]
                          for name in ("db", "copy", "other")], [0, 1, 2])
        self.assertNotIn("timeline", self.good("stat", self.db))
        self.assertIn("LLADD_EXISTS", self.good("restore", self.store, self.path("copy"), code=2))
        self.assertIn("LLADD_NOT_FOUND",
                      self.good("restore", "--base", "none", self.store, self.path("no"), code=2))
        self.assertIn("expected dir:", self.good("backup", self.db, "s3:bucket", code=2))
        # Without S3 in the library, and without credentials (test_s3.py has more).
        self.assertRegex(self.good("backup", self.db, "s3://bucket", code=2),
                         "built without S3|no credentials for")
        self.assertIn("a store and a directory", self.good("restore", self.store, code=2))
        # No verb makes a store in order to read it.
        self.assertIn("LLADD_NOT_FOUND", self.good("restore", "dir:" + self.path("wrong"),
                                                   self.path("no"), code=2))
        self.assertFalse(os.path.exists(self.path("wrong")))

    def test_a_store_inside_the_database(self):
        os.symlink(self.db, self.path("link"))
        for at in ("db", "db/store", "db/files/store", "link/store", "db/../db/store"):
            for command in (["backup"], ["archive", "push"]):
                said = self.good(*command, self.db, "dir:" + self.path(at), code=2)
                self.assertIn("inside the directory of the database", said)
        self.assertFalse(os.path.exists(self.path("db/store")))
        self.good("backup", self.db, "dir:" + self.path("db-store")) # only begins with its name
        self.check("db")

    def test_errors_in_json(self):
        """A store that cannot be opened is told like any other error."""
        nowhere = "dir:" + self.path("no/where")
        for args in (["backup", self.db, nowhere], ["restore", nowhere, self.path("copy")],
                     ["restore", "--list", nowhere], ["restore", "--page", "3", nowhere, self.db],
                     ["archive", "list", nowhere], ["archive", "check", nowhere],
                     ["archive", "expire", "--keep", "1", nowhere], ["archive", "roll", nowhere],
                     ["archive", "push", self.db, nowhere], ["archive", "adopt", self.db, nowhere],
                     ["scrub", self.db, nowhere], ["dump", "--from", nowhere]):
            at = 2 if args[0] == "archive" else 1
            got, out, err = run(*args[:at], "--json", *args[at:])
            self.assertEqual(got, 2, args)
            self.assertEqual(json.loads(out)["error"]["code"], "LLADD_STORE_FAILED", args)
            self.assertEqual(err, "", args)

    def test_a_damaged_manifest_is_listed(self):
        names = [json.loads(self.good("backup", "--json", self.db, self.store))["name"]
                 for _ in range(2)]
        self.archive()
        with open(os.path.join(self.path("store"), "base", names[1], "manifest"), "r+b") as file:
            file.seek(20)
            file.write(b"?")
        for verb in (["restore", "--list"], ["archive", "list"]):
            said = self.good(*verb, self.store, code=1)
            self.assertIn(names[0] + "  ", said)
            self.assertIn(names[1] + "/manifest", said)
        listed = json.loads(run("archive", "list", "--json", self.store)[1])
        self.assertEqual([b["name"] for b in listed["backups"]], names[:1])
        self.assertIn(names[1] + "/manifest", listed["damaged"])
        self.good("restore", "--to", "end", self.store, self.path("copy"))
        self.check("copy")

    def test_threads(self):
        made = json.loads(self.good("backup", "--json", "--threads", "3", self.db, self.store))
        self.good("restore", "--threads", "4", self.store, self.path("copy"))
        self.check("copy")
        said = json.loads(self.good("archive", "check", "--json", "--threads", "4", self.store))
        self.assertEqual([said["backup"], said["damage"]], [made["name"], 0])
        self.good("archive", "roll", "--threads", "2", self.store)
        for wrong in ("0", "257", "two"):
            said = self.good("backup", "--threads", wrong, self.db, self.store, code=2)
            self.assertIn("--threads", said)

    def test_a_backup_has_the_journal(self):
        """A journal that was never cut needs all log, from LSN 0 on."""
        self.good("dtable", "create", self.db, "rows")
        for i in range(20):
            self.good("dtable", "put", self.db, "rows", f"key {i}", f"value {i}")
        self.good("backup", self.db, self.store)
        self.good("restore", self.store, self.path("copy"))
        self.assertEqual(self.good("dtable", "get", self.path("copy"), "rows", "key 7"),
                         "value 7\n")
        self.check("copy")

    def test_damage_is_named(self):
        self.good("backup", self.db, self.store)
        for path in self.objects():
            name = os.path.basename(path)
            if name in ("archive", "begun", "history"):
                continue
            with open(path, "r+b") as file:
                byte = file.read(1)
                file.seek(0)
                file.write(bytes([byte[0] ^ 1]))
            said = self.good("restore", self.store, self.path("copy"), code=1)
            self.assertIn("LLADD_CORRUPT_BACKUP", said)
            self.assertIn(name, said)
            with open(path, "r+b") as file:
                file.write(byte)
        self.good("restore", self.store, self.path("copy"))
        self.check("copy")

    def archive(self):
        self.good("archive", "push", self.db, self.store)

    def put(self, value):
        self.good("hash", "put", self.db, "table", "key", value)
        return json.loads(self.good("stat", "--json", self.db))["log"]["end"]

    def test_targets(self):
        made = json.loads(self.good("backup", "--json", self.db, self.store))
        ends = {value: self.put(value) for value in ("one", "two", "three")}
        self.archive()
        for value, end in ends.items():
            self.good("restore", "--to", str(end), self.store, self.path(value))
            self.assertEqual(self.good("hash", "get", self.path(value), "table", "key"),
                             value + "\n")
        self.good("restore", "--to", "lsn:" + str(made["end"]), self.store, self.path("first"))
        self.check("first")
        end = json.loads(self.good("restore", "--json", "--to", "end", self.store,
                                       self.path("end")))
        self.assertEqual((end["end"], end["in_doubt"]), (ends["three"], []))
        said = self.good("restore", "--to", str(ends["three"] + 8), self.store, self.path("no"),
                         code=2)
        self.assertIn("LLADD_OUT_OF_RANGE", said)
        self.assertIn(f"{made['end']}-{ends['three']}", said)
        said = self.good("restore", "--to", "2020-01-01T10:00:00", self.store, self.path("no"),
                         code=2)
        self.assertIn("no backup had ended", said)
        said = self.good("restore", "--to", "mark:none", self.store, self.path("no"), code=2)
        self.assertIn("no mark", said)
        for wrong in ("soon", "2020-01-01", "2020-01-01T1", "-1"):
            self.good("restore", "--to", wrong, self.store, self.path("no"), code=2)
        self.assertIn("LLADD_EXISTS", self.good("restore", "--to", "end", self.store,
                                                self.path("one"), code=2))
        self.assertIn("no timeline 77", self.good("restore", "--to", "end", "--timeline", "77",
                                                  self.store, self.path("no"), code=2))

    def test_looking_into_a_store(self):
        made = json.loads(self.good("backup", "--json", self.db, self.store))
        ends = {value: self.put(value) for value in ("one", "two")}
        self.archive()
        source = ["--from", self.store, "--to"]
        for value, end in ends.items():
            target = source + [str(end)]
            self.assertEqual(self.good("hash", "get", *target, "table", "key"), value + "\n")
            self.assertIn("no damage", self.good("verify", *target))
            self.assertIn(f'"key" "{value}"', self.good("dump", *target))
            self.assertEqual(self.good("dump", *target), self.good("dump", *target, "table"))
        self.assertEqual(self.good("hash", "get", "--from", self.store, "table", "key"), "value\n")
        self.assertEqual(self.good("hash", "scan", *source, "end", "table"), '"key" "two"\n')
        self.assertEqual(self.good("dtable", "stat", *source, "end"), "")
        for change in (["hash", "put", *source, "end", "table", "key", "x"],
                       ["hash", "put", "--create", *source, "end", "table", "key", "x"],
                       ["hash", "del", *source, "end", "table", "key"],
                       ["dtable", "create", *source, "end", "table"]):
            self.assertIn("LLADD_READ_ONLY", self.good(*change, code=2))
        self.assertIn("LLADD_OUT_OF_RANGE", self.good("verify", *source, "8", code=2))
        self.assertIn("need --from", self.good("verify", "--to", "end", self.db, code=2))
        self.assertEqual(sorted(os.listdir(self.top)), ["db", "store"])
        listed = json.loads(self.good("archive", "list", "--json", self.store))
        self.assertEqual(listed["backups"], [{name: made[name] for name in listed["backups"][0]}])
        self.assertEqual(listed["timelines"],
                         [{"timeline": 0, "ranges": [{"from": made["end"], "end": ends["two"]}],
                           "gaps": [], "marks": []}])
        text = self.good("archive", "list", self.store)
        self.assertIn(f"LSN {made['end']} to {ends['two']}", text)
        self.assertIn(made["name"], text)
        self.assertIn("expected list", self.good("archive", "lost", self.store, code=2))

    def test_an_expected_lsn(self):
        made = json.loads(self.good("backup", "--json", self.db, self.store))
        end = self.put("one")
        self.archive()
        restore = ["restore", "--to", "end", "--expect-lsn"]
        source = ["--from", self.store, "--to", "end", "--expect-lsn"]
        self.good(*restore, str(end), self.store, self.path("one"))
        self.assertEqual(self.good("hash", "get", *source, str(end), "table", "key"), "one\n")
        self.good("restore", "--expect-lsn", str(end), self.store, self.path("base"))
        self.check("base")
        message = f"up to LSN {end}, and LSN {end + 8} is expected"
        said = self.good(*restore, str(end + 8), self.store, self.path("no"), code=2)
        self.assertIn("LLADD_OUT_OF_RANGE", said)
        self.assertIn(message, said)
        self.assertEqual(os.listdir(self.path("no")) if os.path.exists(self.path("no")) else [], [])
        for verb in (["verify"], ["dump"], ["hash", "scan"], ["dtable", "scan"]):
            tables = ["table"] if len(verb) > 1 else []
            self.assertIn(message, self.good(*verb, *source, str(end + 8), *tables, code=2))
        for path in self.objects():
            if path.endswith((".part", ".seg")):
                os.unlink(path)
        self.good("restore", "--to", "end", self.store, self.path("lost"))
        self.assertIn(f"up to LSN {made['end']}, and LSN {end} is expected",
                      self.good(*restore, str(end), self.store, self.path("no"), code=2))
        for wrong in ("soon", "-1", "0", ""):
            self.good(*restore, wrong, self.store, self.path("no"), code=2)
        self.assertIn("need --from", self.good("verify", "--expect-lsn", "8", self.db, code=2))

    def test_damage_in_the_archive(self):
        self.good("backup", self.db, self.store)
        self.put("one")
        self.archive()
        for path in self.objects():
            if not path.endswith(".part"):
                continue
            with open(path, "r+b") as file:
                file.seek(-10, os.SEEK_END)
                byte = file.read(1)
                file.seek(-10, os.SEEK_END)
                file.write(bytes([byte[0] ^ 1]))
            said = self.good("hash", "get", "--from", self.store, "--to", "end", "table", "key",
                             code=1)
            self.assertIn(os.path.basename(path), said)

    def test_archive(self):
        self.good("archive", "push", self.db, self.store)
        self.good("hash", "put", self.db, "table", "other", "value")
        said = json.loads(self.good("archive", "push", "--json", self.db, self.store))
        self.assertFalse(said["gap"])
        self.assertGreater(said["objects"], 0)
        self.assertEqual(json.loads(self.good("archive", "push", "--json", self.db, self.store)),
                         {"stored": said["stored"], "objects": 0, "stored_bytes": 0, "gap": False})
        self.assertTrue([path for path in self.objects() if path.endswith(".part")])
        shutil.copytree(self.path("db"), self.path("half"))
        os.unlink(os.path.join(self.path("half"), "pages"))
        self.good("archive", "push", self.path("half"), "dir:" + self.path("other"))
        os.unlink(os.path.join(self.path("half"), "control"))
        self.assertIn("LLADD_MISSING_FILE",
                      self.good("archive", "push", self.path("half"), self.store, code=1))
        self.assertIn("no archive is attached", self.good("archive", "detach", self.db, code=2))
        self.assertIn("adopt or detach", self.good("archive", "pull", self.db, code=2))
        self.check("db")

    def test_adopt(self):
        """The verb itself; test_losses.py has copies and lost claims."""
        self.assertIn("LLADD_NOT_FOUND", self.good("archive", "adopt", self.db, self.store, code=2))
        made = json.loads(self.good("backup", "--json", self.db, self.store))
        end = self.put("one")
        said = json.loads(self.good("archive", "adopt", "--json", self.db, self.store))
        self.assertEqual(said, {"adopted": False, "timeline": 0, "parent": 0, "fork": 0,
                                "stored": end, "needs_backup": False, "in_doubt": []})
        self.assertIn("nothing was adopted", self.good("archive", "adopt", self.db, self.store))
        listed = json.loads(self.good("archive", "list", "--json", self.store))
        self.assertEqual([t["ranges"] for t in listed["timelines"]],
                         [[{"from": made["end"], "end": end}]])
        self.good("hash", "put", "--create", self.path("other"), "table", "key", "value")
        self.assertIn("LLADD_OTHER_DATABASE",
                      self.good("archive", "adopt", self.path("other"), self.store, code=2))
        os.mkdir(self.path("empty"))
        self.good("archive", "adopt", self.path("empty"), self.store, code=1)
        self.assertEqual(os.listdir(self.path("empty")), [])
        for wrong in ([], [self.db], [self.path("none"), self.store], [self.db, "s3:bucket"],
                      [self.db, self.store, "more"], ["--to", "end", self.db, self.store]):
            self.good("archive", "adopt", *wrong, code=2)
        self.assertIn("adopt [options]", self.good("archive", "--help"))

    def test_scrub(self):
        pages = self.path("db/pages")
        self.assertIn("no backup", self.good("scrub", self.db, self.store))
        self.good("backup", self.db, self.store)
        self.good("hash", "put", self.db, "table", "key", "value")
        self.archive()
        said = json.loads(self.good("scrub", "--json", "--rate", "100000000", self.db, self.store))
        self.assertEqual(said["findings"], [])
        self.assertTrue(said["compared"])
        with open(pages, "rb") as file:
            whole = file.read()
        for page in range(said["pages"]):
            with open(pages, "r+b") as file:
                file.seek(page * 4096 + 2000)
                file.write(b"damage")
            got, out, err = run("scrub", self.db, self.store)
            # Nothing needs a page that was never written.
            expected = 1 if any(whole[page * 4096:page * 4096 + 4096]) else 0
            self.assertEqual(got, expected, f"page {page}: {out}{err}")
            self.check("db")
        self.assertIn("expected dir:", self.good("scrub", self.db, "s3:bucket", code=2))

    def test_a_backup_finds_a_lost_write(self):
        pages = self.path("db/pages")
        self.good("backup", self.db, self.store)
        with open(pages, "rb") as file:
            old = file.read()
        self.good("hash", "put", self.db, "table", "key", "a value that the disk loses")
        with open(pages, "rb") as file:
            new = file.read()
        changed = [at for at in range(4096, len(old), 4096)
                   if old[at:at + 4096] != new[at:at + 4096] and any(old[at:at + 4096])]
        self.assertNotEqual(changed, [])
        for at in changed:
            with open(pages, "r+b") as file:
                file.seek(at)
                file.write(old[at:at + 4096])
            said = json.loads(self.good("backup", "--json", self.db, self.store, code=1))
            self.assertEqual((said["lost_pages"], said["compared"]), (1, True))
            self.assertEqual([f["page"] for f in said["findings"]], [at // 4096])
            with open(pages, "wb") as file:
                file.write(new)

    def test_check(self):
        self.assertIn("LLADD_NOT_FOUND", self.good("archive", "check", self.store, code=2))
        made = json.loads(self.good("backup", "--json", self.db, self.store))
        self.assertIn("no damage", self.good("archive", "check", self.store))
        end = self.put("two")
        self.archive()
        before = sorted(self.objects())
        said = json.loads(self.good("archive", "check", "--json", "--rate", "100000000", "--memory",
                                    "70000000", "--base", made["name"], self.store))
        self.assertEqual((said["findings"], said["backup"], said["damage"], said["restored"]),
                         ([], made["name"], 0, end))
        self.assertEqual(said["structures"]["hash_tables"], 1)
        self.assertEqual(sorted(self.objects()), before)
        for path in before:
            name = os.path.relpath(path, self.path("store"))
            if os.path.basename(path) in ("begun", "claim.1"):
                continue
            with open(path, "r+b") as file:
                byte = file.read(1)
                file.seek(0)
                file.write(bytes([byte[0] ^ 1]))
            said = json.loads(run("archive", "check", "--json", self.store)[1])
            self.assertIn(name, [finding["file"] for finding in said["findings"]])
            self.assertIn(name, self.good("archive", "check", self.store, code=1))
            with open(path, "r+b") as file:
                file.write(byte)
        self.assertIn("LLADD_NOT_FOUND",
                      self.good("archive", "check", "--base", "none", self.store, code=2))
        self.assertIn("expected dir:", self.good("archive", "check", "s3:bucket", code=2))

    def test_expire(self):
        names = []
        for value in ("one", "two", "three"):
            names.append(json.loads(self.good("backup", "--json", self.db, self.store))["name"])
            self.put(value)
            self.archive()
        kept = lambda: [b["name"] for b in
                        json.loads(self.good("restore", "--list", "--json", self.store))]
        for wrong in (["--keep", "0"], ["--keep-since", "soon"], []):
            self.good("archive", "expire", *wrong, self.store, code=2)
        would = self.good("archive", "expire", "--keep", "2", "--dry-run", self.store)
        self.assertIn(names[0] + "/manifest", would)
        self.assertIn("would delete 1 backup of 3", would)
        self.assertEqual(kept(), names)
        said = json.loads(self.good("archive", "expire", "--keep", "2", "--json", self.store))
        self.assertEqual((said["kept"], said["expired"]), (2, 1))
        self.assertEqual(said["objects"], len(said["deleted"]))
        self.assertEqual(kept(), names[1:])
        self.good("archive", "expire", "--keep-since", "2020-01-01T00:00:00", self.store)
        self.assertEqual(kept(), names[1:])
        self.assertIn("deleted 1 backup of 2", self.good("archive", "expire", "--keep-since",
                                                         "2199-01-01T00:00:00", self.store))
        self.assertEqual(kept(), names[2:])
        self.good("restore", "--to", "end", self.store, self.path("copy"))
        self.assertEqual(self.good("hash", "get", self.path("copy"), "table", "key"), "three\n")
        self.good("archive", "check", self.store)

    def test_expire_killed(self):
        for i in range(6):
            for _ in range(3):
                self.good("backup", self.db, self.store)
            self.put(f"value {i}")
            self.archive()
            self.kill(0.002 + i * 0.002, "archive", "expire", "--keep", "1", self.store)
            for backup in json.loads(self.good("restore", "--list", "--json", self.store)):
                self.good("archive", "check", "--base", backup["name"], self.store)
            self.assertEqual(self.good("hash", "get", "--from", self.store, "--to", "end", "table",
                                       "key"), f"value {i}\n")
        self.good("archive", "expire", "--keep", "1", self.store)
        self.assertEqual(len(json.loads(self.good("restore", "--list", "--json", self.store))), 1)

    def test_roll(self):
        first = json.loads(self.good("backup", "--json", self.db, self.store))
        self.put("one")
        end = self.put("two")
        self.archive()
        made = json.loads(self.good("archive", "roll", "--json", "--label", "rolled", "--rate",
                                    "100000000", self.store))
        self.assertEqual((made["end"], made["label"]), (end, "rolled"))
        self.assertNotEqual(made["name"], first["name"])
        self.assertIn("no log above", self.good("archive", "roll", self.store))
        self.good("archive", "expire", "--keep", "1", self.store)
        self.good("restore", self.store, self.path("copy"))
        self.assertEqual(self.good("hash", "get", self.path("copy"), "table", "key"), "two\n")
        self.assertIn("no damage", self.good("verify", self.path("copy")))
        end = self.put("three")
        self.archive()
        self.good("restore", "--to", "end", self.store, self.path("later"))
        self.assertEqual(self.good("hash", "get", self.path("later"), "table", "key"), "three\n")
        self.assertIn(f"up to LSN {end}", self.good("archive", "roll", self.store))
        self.good("archive", "check", self.store)
        self.assertIn("LLADD_NOT_FOUND",
                      self.good("archive", "roll", "--base", "none", self.store, code=2))

    def test_a_rolled_backup_has_the_journal(self):
        """The rows of a managed dTable are in the journal, so the log with them is needed."""
        self.good("dtable", "create", self.db, "rows")
        for i in range(20):
            self.good("dtable", "put", self.db, "rows", f"key {i}", f"value {i}")
        self.good("backup", self.db, self.store)
        for i in range(20, 40):
            self.good("dtable", "put", self.db, "rows", f"key {i}", f"value {i}")
        self.archive()
        self.good("archive", "roll", self.store)
        self.good("archive", "expire", "--keep", "1", self.store)
        self.good("archive", "check", self.store)
        self.good("restore", self.store, self.path("copy"))
        for i in range(0, 40, 3):
            self.assertEqual(self.good("dtable", "get", self.path("copy"), "rows", f"key {i}"),
                             f"value {i}\n")

    def test_roll_killed(self):
        self.good("backup", self.db, self.store)
        for i in range(8):
            self.put(f"value {i}")
            self.archive()
            self.kill(0.003 + i * 0.004, "archive", "roll", self.store)
            self.good("archive", "check", self.store)
        self.good("archive", "roll", self.store)
        self.good("restore", self.store, self.path("copy"))
        self.assertEqual(self.good("hash", "get", self.path("copy"), "table", "key"), "value 7\n")

    def test_archive_killed(self):
        for i in range(30):
            self.good("hash", "put", self.db, "table", "key%d" % i, "value" * 1000)
            self.kill(i * 0.0005, "archive", "push", self.db, self.store)
        self.good("archive", "push", self.db, self.store)
        self.check("db")

    def kill(self, at, *args):
        """Kills the command after `at` seconds, if it has not ended."""
        child = subprocess.Popen([LLADD, *args], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        try:
            child.wait(timeout=at)
        except subprocess.TimeoutExpired:
            child.kill()
        child.wait()

    def test_killed(self):
        for i in range(12):
            self.kill(i * 0.003, "backup", "--rate", "1000000", self.db, self.store)
        self.good("backup", self.db, self.store)
        for backup in json.loads(self.good("restore", "--list", "--json", self.store)):
            self.good("restore", "--base", backup["name"], self.store, self.path(backup["name"]))
            self.check(backup["name"])
        for i in range(12):
            self.kill(i * 0.003, "restore", "--rate", "10000000", self.store, self.path("copy"))
        if not os.path.exists(os.path.join(self.path("copy"), "control")):
            self.good("restore", self.store, self.path("copy"))
        self.check("copy")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
