#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Compiles and runs the regions of README.md and docs/getting-started.md that say so, against an
installed library and with exactly the commands of the pages. Also runs the lines of
docs/getting-started.md that begin with "lladd".

programs.py <root> <build folder> <cmake> <c compiler>"""
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

from pages import RUN, split_code

PAGES = ("README.md", os.path.join("docs", "getting-started.md"))


def run(what, command, cwd, env, expect=0):
    done = subprocess.run(command, cwd=cwd, env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != expect:
        sys.exit(f"{what} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def text_of(root, page):
    with open(os.path.join(root, page), encoding="utf-8") as file:
        return file.read()


def regions(root):
    """The regions of both pages by language; each language has one region."""
    found = [(language, code) for page in PAGES
             for _, language, origin, code in split_code(text_of(root, page))[1]
             if RUN.match(origin)]
    by_language = dict(found)
    if len(by_language) != len(found) or set(by_language) != {"c", "sh", "cmake"}:
        sys.exit(f"{PAGES} have regions {[language for language, _ in found]}")
    return by_language


def relocate(path, prefix):
    """Replaces the prefix in a .pc file."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    lines = [f"prefix={prefix}" if line.startswith("prefix=") else line for line in lines]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def commands(root):
    """The lines that begin with "lladd", without their comments."""
    lines = [line.partition("#")[0].strip() for line in text_of(root, PAGES[1]).split("\n")
             if line.startswith("    lladd ")]
    if not lines:
        sys.exit(f"{PAGES[1]} has no line for the command")
    return lines


def expect_run(number, said):
    if said != f"run {number}\n":
        sys.exit(f"run {number} says {said!r}")


def main(root, build, cmake, cc):
    code = regions(root)
    folder = tempfile.mkdtemp(prefix="lladd-docs-")
    try:
        prefix = os.path.join(folder, "prefix")
        run("installing", [cmake, "--install", build, "--prefix", prefix], folder, None)
        libs = [os.path.join(prefix, d) for d in os.listdir(prefix) if d.startswith("lib")]
        lib = next(path for base in libs for path, _, names in os.walk(base)
                   if "liblladd.so" in names)
        relocate(os.path.join(lib, "pkgconfig", "lladd.pc"), prefix)
        env = dict(os.environ, CC=cc, LD_LIBRARY_PATH=lib, CMAKE_PREFIX_PATH=prefix,
                   PKG_CONFIG_PATH=os.path.join(lib, "pkgconfig"))
        with open(os.path.join(folder, "runs.c"), "w", encoding="utf-8") as file:
            file.write(code["c"])
        with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write(code["cmake"])
        # The page says "cc"; here it is the compiler that built the library.
        tools = os.path.join(folder, "bin")
        os.mkdir(tools)
        os.symlink(shutil.which(cc) or cc, os.path.join(tools, "cc"))
        env["PATH"] = tools + os.pathsep + env["PATH"]
        run("the region in sh", ["sh", "-ec", code["sh"]], folder, env)
        expect_run(1, run("the program", ["./runs"], folder, env))
        expect_run(2, run("the program", ["./runs"], folder, env))
        run("cmake", [cmake, "-S", ".", "-B", "other"], folder, env)
        run("building with cmake", [cmake, "--build", "other"], folder, env)
        expect_run(3, run("the program built with cmake", ["other/runs"], folder, env))
        command = os.path.join(prefix, "bin", "lladd")
        for line in commands(root) if os.path.exists(command) else []:
            words = shlex.split(line)
            said = run(line, [command] + words[1:], folder, env).strip()
            quiet = len(words) > 2 and words[2] in ("put", "create")  # these print nothing
            if not said and not quiet:
                sys.exit(f"{line} says nothing")
        # A command that must fail: no directory can be made below a file.
        os.rename(os.path.join(folder, "runs.db"), os.path.join(folder, "moved.db"))
        with open(os.path.join(folder, "runs.db"), "w", encoding="utf-8") as file:
            file.write("not a directory")
        said = run("the program on a file", ["./runs"], folder, env, expect=1)
        if "runs.db" not in said:
            sys.exit(f"the program on a file says {said!r}")
    finally:
        shutil.rmtree(folder)
    print("the program of README.md runs, linked by pkg-config and by CMake")


if __name__ == "__main__":
    main(*sys.argv[1:5])
