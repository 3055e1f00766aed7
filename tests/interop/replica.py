#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A replica of PostgreSQL (examples/postgres_replica), with a real server and kill -9.

    replica.py [--build FOLDER] short | full | SEED

Programs write to two tables of a server. Meanwhile the adapter or the server is killed, and started
again. In between, and at the end, the replica must have the rows that a SELECT of the server has.
Prints "pass NAME" or "FAIL NAME: why", and ends with status 77 if a requirement is missing
("skip: why"). The server listens to a socket in a temporary folder only."""
import glob
import os
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 1200  # seconds until a program counts as hanging
USER = "postgres"  # PostgreSQL refuses to run as root; Debian's packages make this user
TABLES = """
CREATE TABLE items (name text, id int PRIMARY KEY, price numeric, note text, at timestamptz,
                    twice numeric GENERATED ALWAYS AS (price * 2) STORED);
ALTER TABLE items ALTER note SET STORAGE EXTERNAL;
ALTER TABLE items REPLICA IDENTITY FULL;
CREATE TABLE tags (tag text PRIMARY KEY, n bigint, flags bit(3)[], raw bytea);
INSERT INTO items SELECT 'before ' || i, i, i / 7.0, NULL, now() FROM generate_series(0, 9999) i;
INSERT INTO tags VALUES ('before', -1, NULL, '\\x00ff');
CREATE PUBLICATION shop FOR TABLE items, tags;
"""
ROWS = {"items": "SELECT name, id, price, note, at FROM items",
        "tags": "SELECT tag, n, flags, raw FROM tags"}
KEYS = 150
# Tables, changes, and what the adapter says. Without changes it refuses the table.
REFUSED = [
    (["CREATE TABLE {} (id int PRIMARY KEY)"],
     ["INSERT INTO {} VALUES (1)", "ALTER TABLE {} ADD more text"], "its columns have changed"),
    (["CREATE TABLE {} (id int PRIMARY KEY)"], ["INSERT INTO {} VALUES (-1)"], "a negative key"),
    (["CREATE TABLE {} (id int PRIMARY KEY, n int, long text)",
      "ALTER TABLE {} ALTER long SET STORAGE EXTERNAL",
      "INSERT INTO {} VALUES (1, 1, repeat('x', 10000))"],
     ["UPDATE {} SET n = 2"], "REPLICA IDENTITY FULL"),
    (["CREATE TABLE {} (a int, b int, PRIMARY KEY (a, b))"], [], "a primary key of one column")]


class Failed(Exception):
    pass


def program(name):
    found = shutil.which(name)
    return found or max(glob.glob("/usr/lib/postgresql/*/bin/" + name), default=None)


def as_user(command):
    if os.getuid() != 0:
        return command
    return ["setpriv", "--reuid=" + USER, "--regid=" + USER, "--clear-groups"] + command


def missing(build):
    if not program("postgres"):
        return "there is no PostgreSQL (Debian package postgresql)"
    if not os.access(os.path.join(build, "examples", "postgres-replica"), os.X_OK):
        return "the adapter is not built: no libpq (Debian package libpq-dev), or no debug build"
    if os.getuid() != 0:
        return None
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return "there is no user postgres that could run PostgreSQL"
    return None if shutil.which("setpriv") else "root needs setpriv (Debian package util-linux)"


class Server:
    """A cluster of its own. Written bytes survive the death of a process even without fsync."""

    def __init__(self, folder):
        self.folder = folder
        self.data = os.path.join(folder, "server")
        self.log = open(os.path.join(folder, "server.log"), "ab")
        self.process = None
        os.mkdir(self.data)
        if os.getuid() == 0:
            os.chmod(folder, 0o755)
            shutil.chown(self.data, USER)
        self.call(as_user([program("initdb"), "-D", self.data, "-U", USER, "-A", "trust", "-E",
                           "UTF8", "--locale=C", "--no-sync"]))
        self.start()

    def call(self, command):
        subprocess.run(command, stdout=self.log, stderr=self.log, check=True, cwd=self.data)

    def start(self):
        """Starts the server, also while processes of a server that was killed are still there."""
        command = as_user([program("postgres"), "-D", self.data, "-k", self.data, "-c",
                           "listen_addresses=", "-c", "wal_level=logical", "-c", "fsync=off",
                           "-c", "shared_buffers=8MB", "-c", "max_wal_senders=10"])
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if not self.process or self.process.poll() is not None:
                self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log,
                                                stdin=subprocess.DEVNULL)
            if subprocess.run(self.psql("SELECT 1"), stdout=self.log, stderr=self.log,
                              check=False).returncode == 0:
                return
            time.sleep(0.1)
        raise Failed("the server does not start")

    def psql(self, *commands):
        words = [program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.data,
                 "-U", USER, "-d", "postgres"]
        for command in commands:
            words += ["-c", command]
        return words

    def ask(self, *commands):
        done = subprocess.run(self.psql(*commands), capture_output=True, text=True, check=False,
                              timeout=LIMIT)
        if done.returncode:
            raise Failed(done.stderr.strip())
        return done.stdout

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
        self.log.close()


def literal(rng):
    kind = rng.randrange(6)
    if kind == 0:
        return "NULL"
    if kind == 1:  # stored apart from the row
        return "repeat('%d long ', %d)" % (rng.randrange(100), rng.randrange(300, 3000))
    return rng.choice([r"E'a\tb\n\\N'", "''", "'d\u00fc\u00df'", "'x'", r"E'\\\r\b'"])


def statement(rng):
    one, other = rng.randrange(KEYS), rng.randrange(KEYS)
    kind = rng.randrange(12)
    if kind < 4:
        return ("INSERT INTO items VALUES ('item', %d, %d / 3.0, %s, now()) ON CONFLICT (id) DO "
                "UPDATE SET note = excluded.note, at = now();"
                % (one, rng.randrange(10 ** 6), literal(rng)))
    if kind < 6:
        return "UPDATE items SET price = price + 1 WHERE id BETWEEN %d AND %d;" % (one, one + 5)
    if kind == 6:  # the key changes
        return ("UPDATE items SET id = %d WHERE id = %d AND NOT EXISTS "
                "(SELECT 1 FROM items WHERE id = %d);" % (other, one, other))
    if kind == 7:
        return "DELETE FROM items WHERE id = %d;" % one
    if kind < 10:
        return ("INSERT INTO tags VALUES ('tag %d', %d, '{101,010}', '\\x%02x') ON CONFLICT (tag) "
                "DO UPDATE SET n = tags.n + 1;" % (one, one, other))
    if kind == 10:
        return "UPDATE tags SET tag = tag || '+' WHERE tag = 'tag %d';" % one
    return ("TRUNCATE tags;" if rng.randrange(10) == 0 else
            "DELETE FROM tags WHERE tag = 'tag %d';" % one)


def transaction(rng):
    words = ["BEGIN;"] + [statement(rng) for _ in range(rng.randrange(1, 8))]
    if rng.randrange(6) == 0:
        words += ["SAVEPOINT s;", statement(rng), "ROLLBACK TO s;"]
    words.append("ROLLBACK;" if rng.randrange(8) == 0 else "COMMIT;")
    return " ".join(words) + "\n"


class Writer:
    """A psql with transactions. Statements may fail: of a deadlock, or when the server is killed.
    Each transaction has a line of output at its end, so it is known how many have ended."""

    def __init__(self, server, rng, n):
        path = os.path.join(server.folder, "writer.%d.sql" % rng.randrange(10 ** 9))
        with open(path, "w", encoding="utf-8") as script:
            for i in range(n):
                script.write(transaction(rng) + "\\echo %d\n" % i)
        command = [w for w in server.psql() if w != "ON_ERROR_STOP=1" and w != "-v"]
        self.process = subprocess.Popen(command + ["-f", path], stdout=subprocess.PIPE,
                                        stderr=server.log, text=True)

    def pass_some(self, n):
        for _ in range(n):
            if not self.process.stdout.readline():
                return

    def end(self):
        self.process.communicate(timeout=LIMIT)


class Case:
    def __init__(self, build, folder, seed):
        self.build, self.folder = build, folder
        self.rng = random.Random(seed)
        self.db = os.path.join(folder, "shop")
        self.server = Server(folder)
        self.adapters = 0

    def adapter(self, *options, name="shop"):
        """Starts the adapter of a publication, with a slot and a database of that name, when
        the server has noticed the end of the one before. A small lag makes it tell the server soon
        what it may forget."""
        self.wait_for_slots("NOT active")
        self.adapters += 1
        log = os.path.join(self.folder, "adapter.%d.log" % self.adapters)
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [os.path.join(self.build, "examples", "postgres-replica"), "--lag",
                 str(self.rng.choice([1000, 20000, 1000000])), *options,
                 os.path.join(self.folder, name), name, name,
                 "host=%s user=%s dbname=postgres" % (self.server.data, USER)],
                stdout=file, stderr=file)
        return process, log

    def wait_for_slots(self, state, process=None):
        """Waits until there is no slot in another state. The process must not end before."""
        while self.server.ask("SELECT 1 FROM pg_replication_slots WHERE NOT (%s)" % state):
            if process and process.poll() is not None:
                raise Failed("the adapter has ended too early")

    def said(self, log):
        with open(log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def catch_up(self, name="shop"):
        """Runs the adapter until it has everything."""
        process, log = self.adapter(
            "--until", self.server.ask("SELECT pg_current_wal_flush_lsn()").strip(), name=name)
        code = process.wait(LIMIT)
        if code:
            raise Failed("the adapter ended with status %d: %s" % (code, self.said(log)))

    def expect(self, message, name="shop"):
        """The adapter must end, and say why."""
        process, log = self.adapter(name=name)
        if process.wait(LIMIT) != 1 or message not in self.said(log):
            raise Failed("expected \"%s\": %s" % (message, self.said(log)))

    def compare(self):
        settings = "SET datestyle = ISO; SET timezone = UTC; SET extra_float_digits = 3"
        for table, query in ROWS.items():
            want = self.server.ask(settings, "COPY (%s) TO STDOUT" % query).splitlines()
            done = subprocess.run([os.path.join(self.build, "tools", "lladd"), "dtable", "scan",
                                   "--hex", "--csv", self.db, table],
                                  capture_output=True, text=True, check=False, timeout=LIMIT)
            if done.returncode:
                raise Failed("lladd dtable scan: " + done.stderr)
            got = [line.split(",") for line in done.stdout.splitlines()]
            rows = [bytes.fromhex(value).decode() for _, value in got]
            self.compare_keys(table, [key for key, _ in got], rows)
            if sorted(rows) != sorted(want):
                raise Failed("table %s: only here %s, only there %s" %
                             (table, sorted(set(rows) - set(want))[:3],
                              sorted(set(want) - set(rows))[:3]))

    def compare_keys(self, table, keys, rows):
        for key, row in zip(keys, rows):
            good = (key == row.split("\t")[1] if table == "items" else
                    bytes.fromhex(key).decode() == row.split("\t")[0])
            if not good:
                raise Failed("table %s: the row %s has the key %s" % (table, row[:100], key))

    def confirmed(self):
        return self.server.ask("SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots")

    def kill_during(self, victim, n):
        """Kills the adapter or the server while two programs write."""
        writers = [Writer(self.server, self.rng, n) for _ in range(2)]
        process, _ = self.adapter()
        writers[0].pass_some(self.rng.randrange(n))
        if victim == "adapter":
            process.kill()
            process.wait()
            for writer in writers:
                writer.end()
            return
        self.server.kill()
        for writer in writers:
            writer.end()
        if process.wait(LIMIT) == 0:
            raise Failed("the adapter did not notice the end of the server")
        self.server.start()

    def kill_in_copy(self):
        """Kills the adapter when its slot exists, so most often while it copies the tables. The
        next copy must not keep rows of this one that were deleted since."""
        process, log = self.adapter()
        while self.server.ask("SELECT count(*) FROM pg_replication_slots").strip() == "0":
            if process.poll() is not None:
                raise Failed("the adapter ended: " + self.said(log))
        process.kill()
        process.wait()
        self.server.ask("DELETE FROM items WHERE id % 2 = 0")

    def run(self, rounds, n):
        self.server.ask(TABLES)
        self.kill_in_copy()
        first = None
        for i in range(rounds):
            self.kill_during("server" if i % 3 == 2 else "adapter", n)
            if self.rng.randrange(3) or i + 1 == rounds:
                self.catch_up()
                self.compare()
                first = first or float(self.confirmed())
        if rounds > 3 and float(self.confirmed()) <= first:
            raise Failed("the slot has not advanced")
        for i, what in enumerate(REFUSED):
            self.refuse("refused%d" % i, *what)
        self.forget()

    def refuse(self, name, table, changes, message):
        """A table that is copied, and then has a change that the adapter cannot take over."""
        self.server.ask(*[sql.format(name) for sql in table],
                        "CREATE PUBLICATION %s FOR TABLE %s" % (name, name))
        if changes:
            self.catch_up(name)
            self.server.ask(*[sql.format(name) for sql in changes])
        self.expect(message, name)

    def forget(self):
        """The server has thrown away what the replica needs."""
        self.wait_for_slots("NOT active")
        self.server.ask("UPDATE items SET price = 0",
                        "SELECT pg_replication_slot_advance('shop', pg_current_wal_lsn())")
        self.expect("copy the tables anew")


def run(build, seed, rounds, n):
    folder = tempfile.mkdtemp(prefix="lladd-interop-replica-")
    case = None
    try:
        case = Case(build, folder, seed)
        case.run(rounds, n)
        print("pass postgres-replica/%d: %d kills" % (seed, rounds), flush=True)
        good = True
    except (Failed, subprocess.SubprocessError, ValueError) as why:
        print("FAIL postgres-replica/%d: %s; %s" % (seed, " ".join(str(why).split()), folder),
              flush=True)
        good = False
    finally:
        if case:
            case.server.stop()
    if good:
        shutil.rmtree(folder)
    return good


def main(words):
    build = os.path.join(TOP, "build", "debug")
    if len(words) > 1 and words[0] == "--build":
        build = os.path.abspath(words[1])
        words = words[2:]
    if len(words) != 1 or not (words[0] in ("short", "full") or words[0].isdigit()):
        print(__doc__, file=sys.stderr)
        return 2
    why = missing(build)
    if why:
        print("skip: " + why)
        return 77
    if words[0].isdigit():
        return 0 if run(build, int(words[0]), 8, 60) else 1
    seeds, rounds, n = (range(1, 3), 5, 40) if words[0] == "short" else (range(1, 7), 20, 150)
    return 0 if all([run(build, seed, rounds, n) for seed in seeds]) else 1


sys.exit(main(sys.argv[1:]))
