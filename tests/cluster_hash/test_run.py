#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The cluster hash table with real processes and real sockets.

    test_run.py story|copies|sockets|resolve <run> <folder of the programs> [<lladd tool>]
"""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile


def expect(condition, *what):
    if not condition:
        print(*what)
        sys.exit(1)


def story(run, programs, folder):
    """A shorter run of the demonstration. The report has all parts, and the checks of the
    demonstration succeed."""
    done = subprocess.run([run, "--programs", programs, "--seconds", "6", "--pace", "0.6",
                           "--accounts", "40", "--threads", "4", "--dir",
                           os.path.join(folder, "new")], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(done.stdout)
    expect(done.returncode == 0, "exit status", done.returncode)
    result = re.search(r"^Result +([\d,]+) transfers acknowledged; killed: the bank (\d+) times, "
                       r"servers (\d+), (\d+), (\d+) times; (\d+) transactions", done.stdout, re.M)
    expect(result, "no result")
    expect(sum(int(n) for n in result.groups()[1:5]) >= 3, "too few processes were killed")
    expect("Audit      the sum is 40,000" in done.stdout, "no audit")
    expect("all copies agree, nothing is in doubt" in done.stdout, "nothing was compared")


class Server:
    def __init__(self, programs, folder, *more):
        self.popen = subprocess.Popen([os.path.join(programs, "cluster-server"), "--dir", folder,
                                       "--until-eof", *more], text=True, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE)
        words = self.popen.stdout.readline().split()
        expect(words[:1] == ["listening"], "the server does not start")
        self.port = int(words[1])

    def stop(self):
        self.popen.stdin.close()
        status = self.popen.wait()
        self.popen.stdout.close()
        return status


def teller(programs, command, folder, port, *more):
    done = subprocess.run([os.path.join(programs, "cluster-teller"), command, "--dir", folder,
                           "--server", f"127.0.0.1:{port}", "--accounts", "20", *more], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.returncode, done.stdout, done.stderr


def copies(_run, programs, folder):
    """The directory of a coordinator is copied: the server admits only one of the two coordinators,
    and tells the other one why. A directory that is open cannot be opened again."""
    server = Server(programs, os.path.join(folder, "server"))
    first, copy = os.path.join(folder, "first"), os.path.join(folder, "copy")
    status, out, err = teller(programs, "work", first, server.port, "--seconds", "1")
    expect(status == 0, out, err)
    shutil.copytree(first, copy)
    status, out, err = teller(programs, "audit", first, server.port)
    expect(status == 0 and out.startswith("sum 20000 of 20000"), out, err)
    status, out, err = teller(programs, "audit", copy, server.port)
    expect(status == 1 and "LLADD_LOCKED" in err and "copy" in err, status, out, err)
    busy = subprocess.run([os.path.join(programs, "cluster-server"), "--dir",
                           os.path.join(folder, "server")], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    expect(busy.returncode == 1 and "LLADD_LOCKED" in busy.stderr, busy.stderr)
    status, out, err = teller(programs, "audit", first, server.port, "--replicas", "2")
    expect(status == 1 and "LLADD_BAD_ARGUMENT" in err, status, out, err)
    expect(server.stop() == 0, "the server did not end well")


def sockets(_run, programs, folder):
    """A server goes on serving after half a frame, excessive lengths and noise on its port, and
    while many clients are connected and silent."""
    server = Server(programs, os.path.join(folder, "server"))
    for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00\x00\x10\x00" + b"x" * 500,
                  b"\x14\x00\x00\x00" + b"\x02" + bytes(19), os.urandom(5000)):
        with socket.create_connection(("127.0.0.1", server.port)) as s:
            s.sendall(noise)
            s.shutdown(socket.SHUT_WR)
            answer = b""
            try:
                while piece := s.recv(65536):
                    answer += piece
            except ConnectionResetError:
                pass
            expect(len(answer) < 300, "a long answer to noise:", answer)
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    status, out, err = teller(programs, "work", os.path.join(folder, "c"), server.port,
                              "--seconds", "1")
    expect(status == 0 and out.splitlines()[-1].startswith("total "), status, out, err)
    expect(int(out.split()[out.split().index("total") + 1]) > 0, "no transfers", out)
    for s in silent:
        s.close()
    expect(server.stop() == 0, "the server did not end well")
    wrong = subprocess.run([os.path.join(programs, "cluster-server"), "--port", "99999", "--dir",
                            "x"], capture_output=True, text=True, check=False)
    expect(wrong.returncode == 2 and "usage" in wrong.stderr, wrong)


def in_doubt(tool, folder):
    said = subprocess.run([tool, "in-doubt", "--json", folder], text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    return re.findall(r'"gid": *"([^"]+)"', said)


def resolve(_run, programs, folder):
    """A coordinator is killed and does not come back: `lladd resolve` ends the transactions that
    the coordinator has left in doubt, and releases their locks."""
    tool = sys.argv[4]
    dirs = [os.path.join(folder, f"server-{i}") for i in range(2)]
    left = []
    for attempt in range(50):
        servers = [Server(programs, path) for path in dirs]
        ports = [word for s in servers for word in ("--server", f"127.0.0.1:{s.port}")]
        command = [os.path.join(programs, "cluster-teller"), "work", "--dir",
                   os.path.join(folder, f"coordinator-{attempt}"), *ports, "--accounts", "20",
                   "--until-eof", "--across"]
        with subprocess.Popen(command, text=True, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as bank:
            while not bank.stdout.readline().startswith("done"):
                expect(bank.poll() is None, "the bank has ended")
            bank.kill()
        for server in servers:
            server.popen.kill()
            server.popen.wait()
            server.popen.stdin.close()
            server.popen.stdout.close()
        left = [in_doubt(tool, path) for path in dirs]
        if any(left):
            break
    expect(any(left), "nothing was ever in doubt")
    for path, gids in zip(dirs, left):
        for gid in gids:
            subprocess.run([tool, "resolve", "--abort", path, gid], check=True,
                           stdout=subprocess.PIPE)
        expect(not in_doubt(tool, path), "still in doubt")
        said = subprocess.run([tool, "verify", path], text=True, check=True,
                              stdout=subprocess.PIPE).stdout
        expect("not checked" not in said and "no damage" in said, said)


def main():
    case, run, programs = sys.argv[1:4]
    folder = tempfile.mkdtemp(prefix="lladd-cluster-")
    try:
        globals()[case](run, programs, folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
