#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Runs the commands of docs/backup.md that claim to be run by tests/ship, in the order of the page,
each recipe in folders of its own: test_recipes.py <page> <lladd> <archived>.

A line that ends with "# prints TEXT" must print TEXT; every command must succeed. /srv and /backup
stand for folders of the test."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

PAGE, PROGRAMS = sys.argv[1], sys.argv[2:4]
RECIPE = re.compile(r"^### (.*?)\n(.*?)(?=^##|\Z)", re.M | re.S)
BLOCK = re.compile(r"^<!-- run by tests/ship -->\n```sh\n(.*?)^```", re.M | re.S)
PRINTS = re.compile(r"^(.*?) +# prints (.*)$")


def recipes():
    """The recipes with commands: title and script."""
    with open(PAGE, encoding="utf-8") as file:
        found = [(title, "".join(BLOCK.findall(text)))
                 for title, text in RECIPE.findall(file.read())]
    return [(title, script) for title, script in found if script]


def checked(script):
    """The script, with a comparison for each line that says what it prints."""
    lines = []
    for line in script.split("\n"):
        prints = PRINTS.match(line)
        lines.append(f'out="$({prints.group(1)})"; test "$out" = "{prints.group(2)}"'
                     if prints else line)
    return "\n".join(lines)


class Recipes(unittest.TestCase):
    def test_recipes(self):
        self.assertGreaterEqual(len(recipes()), 2)
        for title, script in recipes():
            with self.subTest(title), tempfile.TemporaryDirectory() as top:
                self.run_script(top, script)

    def run_script(self, top, script):
        self.assertIn("# prints", script)
        for folder in ("srv", "backup"):
            os.mkdir(os.path.join(top, folder))
        script = re.sub(r"(?<![\w/])/(srv|backup)/", lambda m: f"{top}/{m.group(1)}/",
                        checked(script))
        path = os.pathsep.join([os.path.dirname(os.path.abspath(p)) for p in PROGRAMS] +
                               [os.environ["PATH"]])
        done = subprocess.run(["bash", "-xeu", "-o", "pipefail", "-c", script], cwd=top,
                              env=dict(os.environ, PATH=path), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
