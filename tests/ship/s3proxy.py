#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""S3Proxy, an S3 server from Maven's registry, on the loopback interface. It keeps the objects in
files. s3proxy.py PROGRAM FOLDER runs the program (test_s3.c) with such a server; the folder is for
files that are kept. Status 77 and "skip: why" if something is missing."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from s3_server import address, environment

HERE = os.path.dirname(os.path.abspath(__file__))
ACCESS_KEY, SECRET_KEY, BUCKET = "AKIDREAL", "a+real/secret=", "shop"
POLL = 0.1  # seconds between two attempts to reach the server
STARTS = 3  # attempts: another process may take the free port


def skip(why):
    print(f"skip: {why}")
    sys.exit(77)


def classpath(folder):
    """What Java needs to run the server; Maven gets it, at the first time from its registry."""
    for program, package in (("java", "openjdk-17-jdk-headless"), ("mvn", "maven")):
        if not shutil.which(program):
            skip(f"there is no {program} (Debian package {package})")
    folder = os.path.abspath(os.path.join(folder, "s3proxy"))
    os.makedirs(folder, exist_ok=True)
    path, log = (os.path.join(folder, name) for name in ("classpath", "maven.log"))
    for more in (["-o"], []):
        with open(log, "w", encoding="utf-8") as out:
            done = subprocess.run(
                ["mvn", "-B", *more, "-f", os.path.join(HERE, "s3proxy.xml"),
                 "dependency:build-classpath", f"-Dmdep.outputFile={path}"],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
        if done.returncode == 0:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
    return skip(f"Maven cannot get what s3proxy.xml names; see {log}")


class Server:
    """An S3Proxy on a free port, which `start` chooses, with one bucket. Its files are in `top`."""

    def __init__(self, top, java_classpath):
        self.top, self.child, self.port, self.classpath = top, None, 0, java_classpath
        os.makedirs(os.path.join(top, "objects", BUCKET))

    def start(self):
        """Starts it; again with the port and the objects of the first time."""
        for _ in range(STARTS):
            port = self.port or free_port()
            properties = os.path.join(self.top, "properties")
            with open(properties, "w", encoding="ascii") as file:
                file.write(f"s3proxy.authorization=aws-v2-or-v4\ns3proxy.identity={ACCESS_KEY}\n"
                           f"s3proxy.credential={SECRET_KEY}\n"
                           f"s3proxy.endpoint={address(port)}\n"
                           "jclouds.provider=filesystem-nio2\n"
                           f"jclouds.filesystem.basedir={self.top}/objects\n")
            with open(os.path.join(self.top, "server.log"), "a", encoding="utf-8") as log:
                self.child = subprocess.Popen(
                    ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", self.classpath,
                     "org.gaul.s3proxy.Main", "--properties", properties],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            if self.answers(port):
                self.port = port
                return
        with open(os.path.join(self.top, "server.log"), encoding="utf-8") as log:
            raise RuntimeError("the server does not start: " + log.read()[-3000:])

    def answers(self, port):
        """Waits until the server answers. False: it has ended, maybe because the port is taken."""
        while self.child.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", port)):
                    return True
            except OSError:
                try:
                    self.child.wait(timeout=POLL)
                except subprocess.TimeoutExpired:
                    pass
        return False

    def stop(self, how=signal.SIGTERM):
        if self.child and self.child.poll() is None:
            self.child.send_signal(how)
            self.child.wait()

    def environment(self):
        return environment(self.port, ACCESS_KEY, SECRET_KEY)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def calls(program, folder):
    java_classpath = classpath(folder)
    with tempfile.TemporaryDirectory() as top:
        server = Server(top, java_classpath)
        try:
            server.start()
            env = server.environment()
            env.update(TEST_S3_ENDPOINT=env.pop("AWS_ENDPOINT_URL"), TEST_S3_BUCKET=BUCKET,
                       CK_RUN_CASE="contract")
            return subprocess.run([program], env=env).returncode
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(calls(*sys.argv[1:3]))
