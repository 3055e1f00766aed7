#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Checks docs/tutorial-tree.md: its listings are one file, which is compiled, run and simulated
with exactly the commands of the page. Every line that the page quotes is in the output. Each
mistake of the page's table is made, and the simulator says what the table quotes.

tutorial_tree.py <root> <liblladd.so> <lladd-sim> <c compiler>"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from pages import RUN, split_code

PAGE = os.path.join("docs", "tutorial-tree.md")
SOURCE = os.path.join("examples", "sorted", "sorted.c")
MISTAKES_MIN = 5
PC = "Name: {}\nDescription: of the build\nVersion: 0\nCflags: -I{}\nLibs: -L{} -llladd\n"


def sh(commands, folder, env):
    """Runs one script. Returns the exit status and the output."""
    done = subprocess.run(["sh", "-ec", commands], cwd=folder, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout


def page(root):
    """The program, the commands that run and simulate it, the quoted lines, and the table of
    mistakes."""
    with open(os.path.join(root, PAGE), encoding="utf-8") as file:
        text = file.read()
    regions = split_code(text)[1]
    program = "\n\n".join(code for _, language, _, code in regions if language == "c")
    commands = [code for _, language, origin, code in regions
                if language == "sh" and RUN.match(origin)]
    quoted = [line for _, language, _, code in regions if language == "text"
              for line in code.split("\n") if line]
    table = re.findall(r"^\| `\w+` \| `(.+?)` \| (?:`(.+?)`|nothing) \| `(.+?)` \|$", text, re.M)
    if len(commands) != 2 or not quoted or len(table) < MISTAKES_MIN:
        sys.exit(f"{PAGE} has {len(commands)} scripts, {len(quoted)} quoted lines and "
                 f"{len(table)} mistakes")
    return program + "\n", commands, quoted, table


def is_whole(root, program):
    """Checks that the listings together are the whole example."""
    with open(os.path.join(root, SOURCE), encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"^/\* \[/\w+\] \*/\n", "", text, flags=re.M)
    text = re.sub(r"^/\* \[\w+\] ", "/* ", text, flags=re.M)
    if text.split() != program.split():
        sys.exit(f"{PAGE} does not have all of {SOURCE} in its order")


def write(folder, program):
    with open(os.path.join(folder, "sorted.c"), "w", encoding="utf-8") as file:
        file.write(program)


def replay(folder, env, out):
    """Replays the failure that the output reports; returns what the replay prints."""
    token = re.search(r"^ +token (\S+)$", out, re.M)
    if not token:
        sys.exit(f"there is no token:\n{out}")
    return sh(f"lladd-sim ./by_slot.so:sorted --replay {token.group(1)}", folder, env)[1]


def main(root, lib, sim, cc):
    program, (uses, commands), quoted, table = page(root)
    is_whole(root, program)
    folder = tempfile.mkdtemp(prefix="lladd-tutorial-tree-")
    try:
        os.symlink(shutil.which(cc) or cc, os.path.join(folder, "cc"))
        os.symlink(os.path.abspath(sim), os.path.join(folder, "lladd-sim"))
        libs = os.path.dirname(os.path.abspath(lib))
        for name in ("lladd", "lladd-sim"):
            with open(os.path.join(folder, name + ".pc"), "w", encoding="utf-8") as file:
                file.write(PC.format(name, os.path.abspath(root), libs))
        env = dict(os.environ, PKG_CONFIG_PATH=folder, LD_LIBRARY_PATH=libs,
                   PATH=folder + os.pathsep + os.environ["PATH"])
        write(folder, program)
        code, used = sh(uses, folder, env)
        if code:
            sys.exit(f"the commands of {PAGE} end with {code}:\n{used}")
        code, out = sh(commands, folder, env)
        if code or out.count(": passed") != 2 or "broken\n" not in out or "failed\n" not in out:
            sys.exit(f"the commands of {PAGE} end with {code}:\n{out}")
        out += used + replay(folder, env, out)
        lost = [line for line in quoted if line not in out]
        if lost:
            sys.exit(f"{PAGE} quotes {lost}, which the output does not have:\n{out}")
        build = commands.split("\n")[0]
        for right, wrong, says in table:
            if program.count(right) != 1:
                sys.exit(f"{PAGE} has {program.count(right)} places with {right}")
            write(folder, program.replace(right, wrong))
            code, out = sh(f"{build} && lladd-sim ./sorted.so:sorted --depth 1", folder, env)
            if code != 1 or says not in out:
                sys.exit(f"{wrong} instead of {right}: status {code}, not {says}:\n{out}")
    finally:
        shutil.rmtree(folder)
    print(f"the program of {PAGE} passes, and {len(table)} mistakes do not")


if __name__ == "__main__":
    main(*sys.argv[1:5])
