# SPDX-License-Identifier: BSD-2-Clause
"""Writes dumps by docs/dump-format.md, independently of the library's tools."""


def table():
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        yield byte


TABLE = list(table())


def crc32c(data, seed=0):
    crc = seed ^ 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xffffffff


def escape(data):
    """A string in quotation marks; str stands for its Latin-1 bytes."""
    if isinstance(data, str):
        data = data.encode("latin-1")
    return '"' + "".join("\\" + chr(b) if b in b'"\\' else
                         chr(b) if 0x20 <= b < 0x7f else f"\\x{b:02x}" for b in data) + '"'


def structure(kind, name, records, count=None, **sizes):
    """The lines of a structure. A record is a string, a pair (hash), or a number of zeros
    (array).
    """
    many = sum(r if isinstance(r, int) else len(r) if kind == "blob" else 1 for r in records)
    words = "".join(f" {what} {size}" for what, size in sizes.items())
    lines = [f"{kind} {escape(name)}{words} count {many if count is None else count}"]
    for r in records:
        lines.append(f"zeros {r}" if isinstance(r, int) else
                     f"{escape(r[0])} {escape(r[1])}" if isinstance(r, tuple) else escape(r))
    body = "\n".join(lines) + "\n"
    return body + f"end {many} crc {crc32c(body.encode()):08x}\n"


def dump(*structures):
    return "lladd dump 1\n" + "".join(structures) + f"done {len(structures)}\n"
