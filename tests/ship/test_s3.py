#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The lladd command and a store in S3: test_s3.py <lladd>. The server is that of s3_server.py."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import s3_server

LLADD = sys.argv[-1]


class S3(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.top = temporary.name
        self.server = s3_server.Server()
        self.addCleanup(self.server.stop)
        self.db = self.path("db")
        self.good("hash", "put", "--create", self.db, "table", "key", "value")

    def path(self, name):
        return os.path.join(self.top, name)

    def run_with(self, env, *args):
        done = subprocess.run([LLADD, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=env)
        self.assertNotIn(s3_server.SECRET_KEY.encode(), done.stdout + done.stderr)
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def good(self, *args, code=0, **more):
        got, out, err = self.run_with(dict(self.server.environment(), **more), *args)
        self.assertEqual(got, code, f"lladd {args}: {out}{err}")
        return out if code == 0 else out + err

    def test_round_trip(self):
        store = "s3://good/shop"
        made = json.loads(self.good("backup", "--json", self.db, store))
        self.good("hash", "put", self.db, "table", "key", "new")
        self.good("archive", "push", self.db, store)
        for word in ("compared", "findings", "lost_pages"):  # of the backup, and not of the list
            del made[word]
        self.assertEqual(json.loads(self.good("restore", "--list", "--json", store)), [made])
        self.good("restore", store, self.path("old"))
        self.good("restore", "--to", "end", store, self.path("new"))
        self.assertEqual(self.good("hash", "get", self.path("old"), "table", "key"), "value\n")
        self.assertEqual(self.good("hash", "get", self.path("new"), "table", "key"), "new\n")
        self.assertEqual(self.good("hash", "get", "--from", store, "--to", "end", "table", "key"),
                         "new\n")
        self.assertIn(made["name"], self.good("archive", "list", store))
        self.good("scrub", self.db, store)
        # The same objects in a directory are the same store.
        for (_, key), data in self.server.objects.items():
            name = key.partition("/")[2]
            if not name.startswith("."):
                os.makedirs(os.path.dirname(self.path("copy/" + name)), exist_ok=True)
                with open(self.path("copy/" + name), "wb") as file:
                    file.write(data)
        self.assertEqual(self.good("archive", "list", "--json", "dir:" + self.path("copy")),
                         self.good("archive", "list", "--json", store))

    def test_options(self):
        store, endpoint = "s3://good/shop", s3_server.address(self.server.port)
        self.good("backup", "--endpoint", endpoint, "--region", "us-east-1", self.db, store,
                  AWS_REGION="eu-west-1", AWS_ENDPOINT_URL_S3="127.0.0.1:1")
        self.good("verify", "--endpoint", endpoint, "--from", store)
        said = self.good("restore", "--list", "--region", "eu-west-1", store, code=2)
        self.assertIn("AuthorizationHeaderMalformed", said)
        said = self.good("restore", "--list", "--host-style", "--endpoint",
                         f"127.0.0.1:{self.server.port}", store, code=2, AWS_MAX_ATTEMPTS="1")
        self.assertIn("good.127.0.0.1", said)
        for verb in "backup", "restore", "archive", "scrub":
            self.assertIn("s3://BUCKET/PREFIX", self.good(verb, "--help"))

    def test_what_the_command_says(self):
        env = self.server.environment()
        del env["AWS_SECRET_ACCESS_KEY"]
        got, out, err = self.run_with(env, "backup", self.db, "s3://good/shop")
        self.assertEqual((got, out), (2, ""))
        self.assertIn("AWS_SECRET_ACCESS_KEY", err)
        for bucket, words in (("nowhere", "NoSuchBucket"), ("full", "LLADD_NO_SPACE"),
                              ("careless", "If-None-Match"), ("moved", "HTTP status 301")):
            said = self.good("backup", self.db, f"s3://{bucket}/shop", code=2)
            self.assertIn(words, said)
            self.assertIn(f"s3://{bucket}/shop/", said)
        said = self.good("restore", "--list", "--json", "s3://good/shop", code=2,
                         AWS_SESSION_TOKEN="x y")
        self.assertEqual(json.loads(said)["error"]["code"], "LLADD_BAD_ARGUMENT")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
