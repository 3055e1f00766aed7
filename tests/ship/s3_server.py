#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A small S3 server in memory, on the loopback interface, that misbehaves as the name of the bucket
says (FAULTS). It checks the signature of each request, and puts few objects on a page of a list.
s3_server.py PROGRAM runs the program (test_s3.c) with such a server, and with one that uses TLS."""
import hashlib
import hmac
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ACCESS_KEY, SECRET_KEY, TOKEN = "AKIDEXAMPLE", "not/a+real=secret", "the/session+token=="
REGION = "us-east-1"
PAGE = 7
EMPTY = hashlib.sha256(b"").hexdigest()

# What the buckets do. Every other name is a bucket that does not exist.
FAULTS = {
    "good": "nothing is wrong",
    "busy": "answers the first two of equal requests with 503",
    "lost": "carries out the first put of a name, and does not answer",
    "cut": "cuts the first answer to a get or a list short",
    "silent": "never answers",
    "careless": "ignores If-None-Match",
    "whole": "ignores Range",
    "session": "demands a session token",
    "full": "has no space",
    "moved": "is somewhere else",
    "html": "is not S3",
    "half": "lists half an XML document",
    "other": "lists another document",
    "entity": "lists a document that defines an entity",
    "unsized": "lists an object without a size",
    "tokenless": "lists a page that others follow, and does not say how to get them",
    "endless": "lists the same page again and again",
}
LISTS = {
    "half": "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a</Key>",
    "other": "<ListAllMyBucketsResult><IsTruncated>false</IsTruncated></ListAllMyBucketsResult>",
    "entity": "<!DOCTYPE x [<!ENTITY e \"false\">]>"
              "<ListBucketResult><IsTruncated>&e;</IsTruncated></ListBucketResult>",
    "unsized": "<ListBucketResult><IsTruncated>false</IsTruncated>"
               "<Contents><Key>a</Key></Contents></ListBucketResult>",
    "tokenless": "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    "endless": "<ListBucketResult><IsTruncated>true</IsTruncated>"
               "<NextContinuationToken>again</NextContinuationToken></ListBucketResult>",
}


def environment(port, access_key, secret_key):
    """The environment of a program that uses the server on this port of the loopback interface."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith("AWS_") and not name.lower().endswith("_proxy")}
    return dict(clean, AWS_ACCESS_KEY_ID=access_key, AWS_SECRET_ACCESS_KEY=secret_key,
                AWS_ENDPOINT_URL=address(port))


def address(port):
    return f"http:{'//'}127.0.0.1:{port}"


class Error(Exception):
    def __init__(self, status, code, message="as the test wants"):
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


def sign(request, fields, signed, scope):
    """The signature that Amazon's documentation prescribes for these headers."""
    path, _, query = request.path.partition("?")
    date, region, service, _ = scope.split("/")
    headers = "".join(f"{name}:{request.headers[name].strip()}\n" for name in signed.split(";"))
    canonical = "\n".join((request.command, path, "&".join(sorted(query.split("&"))), headers,
                           signed, request.headers["x-amz-content-sha256"]))
    text = "\n".join(("AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope,
                      hashlib.sha256(canonical.encode()).hexdigest()))
    key = b"AWS4" + SECRET_KEY.encode()
    for part in (date, region, service, "aws4_request", text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key.hex()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.serve()

    def do_PUT(self):
        self.serve()

    def do_DELETE(self):
        self.serve()

    def serve(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        _, self.bucket, self.key = (urllib.parse.unquote(path) + "/").split("/", 2)
        self.key = self.key[:-1]
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        try:
            self.check_signature()
            self.carry_out()
        except Error as e:
            self.answer(e.status, f"<Error><Code>{e.code}</Code><Message>{e.message}</Message>"
                                  "</Error>")

    def check_signature(self):
        fields = dict(re.findall(r"(\w+)=([^ ,]+)", self.headers.get("Authorization", "")))
        user, _, scope = fields.get("Credential", "").partition("/")
        signed = fields.get("SignedHeaders", "")
        wanted = {name.lower() for name in self.headers if name.lower().startswith("x-amz-")}
        wanted |= {"host"}
        if not wanted <= set(signed.split(";")):
            raise Error(403, "AccessDenied", f"{wanted} must be signed, not only {signed}")
        if user != ACCESS_KEY:
            raise Error(403, "InvalidAccessKeyId")
        day, region, service, _ = scope.split("/")
        if (region, service) != (REGION, "s3") or not self.headers["x-amz-date"].startswith(day):
            raise Error(400, "AuthorizationHeaderMalformed")
        if not hmac.compare_digest(sign(self, fields, signed, scope), fields["Signature"]):
            raise Error(403, "SignatureDoesNotMatch")
        digest = self.headers["x-amz-content-sha256"]
        if digest not in ("UNSIGNED-PAYLOAD", hashlib.sha256(self.body).hexdigest()):
            raise Error(400, "XAmzContentSHA256Mismatch")
        if self.bucket == "session" and self.headers.get("x-amz-security-token") != TOKEN:
            raise Error(403, "InvalidToken")

    def early(self, times=1):
        """Is this one of the first requests of its kind?"""
        with self.server.lock:
            kind = (self.command, self.path)
            self.server.seen[kind] = self.server.seen.get(kind, 0) + 1
            return self.server.seen[kind] <= times

    def carry_out(self):
        if self.bucket not in FAULTS:
            raise Error(404, "NoSuchBucket")
        if self.bucket == "silent":
            self.server.stopped.wait()
            self.close_connection = True
            return
        if self.bucket == "busy" and self.early(2):
            raise Error(503, "SlowDown")
        if self.bucket == "moved":
            raise Error(301, "PermanentRedirect", "two\nlines")
        if self.bucket == "html":
            self.answer(200 if self.query else 404, "<html><p>Not here</html>")
        elif self.command == "PUT":
            self.put()
        elif self.command == "DELETE":
            with self.server.lock:
                self.server.objects.pop((self.bucket, self.key), None)
            self.answer(204, "")
        elif self.key:
            self.get()
        else:
            self.list()

    def put(self):
        if self.bucket == "full":
            raise Error(507, "InsufficientStorage")
        with self.server.lock:
            taken = (self.bucket, self.key) in self.server.objects
            taken = taken and self.headers.get("If-None-Match") == "*"
            if not taken or self.bucket == "careless":
                self.server.objects[self.bucket, self.key] = self.body
        if self.bucket == "lost" and self.early():
            self.close_connection = True
            return
        if taken and self.bucket != "careless":
            raise Error(412, "PreconditionFailed")
        self.answer(200, "")

    def get(self):
        with self.server.lock:
            self.server.gets += 1
            data = self.server.objects.get((self.bucket, self.key))
            if self.key.endswith("/number-of-gets"):
                data = b"%08d" % self.server.gets
        if data is None:
            raise Error(404, "NoSuchKey")
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not wanted or self.bucket == "whole":
            self.answer(200, data)
            return
        begin, end = int(wanted.group(1)), min(int(wanted.group(2)) + 1, len(data))
        if begin >= len(data):
            raise Error(416, "InvalidRange")
        self.answer(206, data[begin:end],
                    {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"})

    def list(self):
        if self.bucket in LISTS:
            self.answer(200, LISTS[self.bucket])
            return
        prefix, after = self.query.get("prefix", ""), self.query.get("continuation-token", "")
        with self.server.lock:
            keys = sorted(key for bucket, key in self.server.objects
                          if bucket == self.bucket and key.startswith(prefix))
            sizes = {key: len(self.server.objects[self.bucket, key]) for key in keys}
        # The token has characters that must be escaped in a URL.
        keys = [key for key in keys if "=/+ " + key > after] if after else keys
        page, more = keys[:PAGE], len(keys) > PAGE
        text = "".join(f"<Contents><Key>{key}</Key><Size>{sizes[key]}</Size>"
                       "<Owner><ID>owner</ID></Owner></Contents>" for key in page)
        token = f"<NextContinuationToken>=/+ {page[-1]}</NextContinuationToken>" if more else ""
        self.answer(200, '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult>'
                         f"<Name>{self.bucket}</Name><Prefix>{prefix}</Prefix>"
                         f"<IsTruncated>{str(more).lower()}</IsTruncated>{text}{token}"
                         "</ListBucketResult>")

    def answer(self, status, body, headers=()):
        body = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in dict(headers).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.bucket == "cut" and self.command == "GET" and self.early():
            body = body[:len(body) // 2]
            self.close_connection = True
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    """Serves from a thread until `stop`. `certificate`: a file with key and certificate: TLS."""
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, certificate=None):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.stopped = threading.Lock(), threading.Event()
        self.objects, self.seen, self.gets = {}, {}, 0
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    @property
    def port(self):
        return self.server_address[1]

    def environment(self):
        return environment(self.port, ACCESS_KEY, SECRET_KEY)

    def handle_error(self, request, client_address):
        """A client that goes away is no error here."""

    def stop(self):
        self.stopped.set()
        self.shutdown()
        self.thread.join()
        self.server_close()


def certificate(top):
    """A file with a key and its certificate for 127.0.0.1, or None."""
    if not shutil.which("openssl"):
        return None
    key, public, both = (os.path.join(top, name) for name in ("key", "public", "both"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", public], check=True, stderr=subprocess.DEVNULL)
    with open(both, "w", encoding="ascii") as file:
        for name in key, public:
            with open(name, encoding="ascii") as part:
                file.write(part.read())
    return both


def calls(program):
    """Runs the program with two servers, and returns its status."""
    servers = [Server()]
    with tempfile.TemporaryDirectory() as top:
        try:
            env = servers[0].environment()
            env.update(TEST_S3_ENDPOINT=env.pop("AWS_ENDPOINT_URL"), TEST_S3_BUCKET="good")
            path = certificate(top)
            if path:
                servers.append(Server(path))
                env.update(TEST_S3_TLS=f"127.0.0.1:{servers[1].port}", TEST_S3_CERTIFICATE=path)
            return subprocess.run([program], env=env).returncode
        finally:
            for server in servers:
                server.stop()


if __name__ == "__main__":
    sys.exit(calls(sys.argv[1]))
