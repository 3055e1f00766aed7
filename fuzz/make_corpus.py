#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""make_corpus.py <make_db> [folder]: writes the fuzzers' initial inputs.

<make_db> is build/debug/tests/tools/tools-make_db, which makes equal databases every time. So the
inputs are also equal every time. An input is fuzz/corpus/<fuzzer>/<what it is>. Each fuzzer's first
comment says what its input means. Most inputs pass the first check, and so reach the code after
it. The library refuses the inputs refused-* at the first check; standalone_main.c tests these names
with the option -names=1."""
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

PAGE, CONTROL, COPY = 4096, 256, 4096
FILE_MAX, SUM_MAX = 8 << 10, 100 << 10


def made(make_db, folder, kind):
    """The files of a database: name -> bytes."""
    path = os.path.join(folder, kind)
    subprocess.run([make_db, kind, path], check=True, stdout=subprocess.DEVNULL)
    files = {}
    for base, _, names in os.walk(path):
        for name in names:
            full = os.path.join(base, name)
            with open(full, "rb") as file:
                files[os.path.relpath(full, path)] = file.read()
    return files


def control_seeds(bases):
    fix = 1
    for kind, files in bases.items():
        first = files["control"][:CONTROL]
        second = files["control"][COPY:COPY + CONTROL]
        yield kind, bytes([0]) + first + second
        yield kind + "-first-only", bytes([0]) + first
        yield kind + "-first-torn", bytes([0]) + first[:100] + bytes(156) + second
        yield kind + "-second-torn", bytes([0]) + first + second[:100] + bytes(156)
        # One field at a time has an unusual value. With `fix` the fuzzer corrects the checksum.
        for at, size, value in ((8, 4, 2), (8, 4, 0), (12, 4, 5000), (12, 4, 65536), (16, 8, 1),
                                (32, 8, 1), (56, 8, 2**64 - 1), (72, 8, 0), (80, 8, 2**63),
                                (104, 4, 3), (120, 8, 7), (136, 8, 1)):
            if kind == "clean":
                odd = bytearray(first)
                odd[at:at + size] = value.to_bytes(size, "little")
                yield f"field-{at}-is-{value:x}", bytes([fix]) + bytes(odd) + second


def log_seeds():
    headers, records, whole, clean, watermark = 1, 2, 4, 8, 16
    dice = random.Random(1)

    def change(at, what, value):
        return struct.pack("<HBB", at, what, value)

    put, flip, zeros, move = range(4)
    for flags in (0, clean, watermark, headers | records):
        yield f"unchanged-{flags}", bytes([flags])
        yield f"torn-{flags}", bytes([flags]) + change(4096 + 1500, zeros, 200)
        yield f"hole-{flags}", bytes([flags]) + change(800, zeros, 255)
        yield f"bit-{flags}", bytes([flags]) + change(700, flip, 4)
    for segment in range(2):  # every eighth byte of a header, with a corrected checksum
        for at in range(8, 64, 8):
            yield (f"header-{segment}-{at}",
                   bytes([headers]) + change(segment * 4096 + at, flip, 1 << at % 7))
    for n in range(24):  # random words of the log; `move` gives a record another record's head
        some = b"".join(change(64 + 8 * dice.randrange(1000), dice.choice([put, flip, move]),
                               dice.randrange(256)) for _ in range(1 + n % 4))
        yield f"records-{n}", bytes([headers | records | (clean if n % 3 else watermark)]) + some
    yield "whole-zeros", bytes([whole]) + bytes(300)
    yield "whole-text", bytes([whole | headers]) + b"no log, but text. " * 20


def page_seeds(bases):
    pages, area, reserved, shorter, keep = 1, 2, 4, 8, 16
    for kind, files in bases.items():
        content, dwb = files["pages"], files["dwb"]
        for n in (0, 2):
            some = content[n * PAGE:n * PAGE + 2000]
            for flags in (0, pages, pages | area | reserved, pages | shorter):
                head = dwb[:200] if flags & area else b""
                yield (f"{kind}-{n}-{flags}",
                       bytes([flags, 37 * (n + 1), len(head), 0]) + head + some)
    # Headers of the area, with copies of 14 pages; 6 of these pages are in the page file. The
    # fuzzer writes the fields before the count of copies, or (`keep`) keeps those of the seed.
    entries = b"".join(struct.pack("<QI", page, 0) for page in range(14))
    for count in (0, 1, 2, 14, 16, 17, 255):
        name = f"area-count-{count}" if count <= 16 else f"refused-area-count-{count}"
        yield name, bytes([area | pages, 9, 192, 0]) + bytes(20) + bytes([count, 0, 0, 0]) + entries
    for name, fields in (("area-old", (1, 7, PAGE, 16)), ("area-256", (2, 7, PAGE, 256)),
                         ("area-new", (3, 7, PAGE, 255)), ("area-new-one", (3, 7, PAGE, 1)),
                         ("refused-area-old-17", (1, 7, PAGE, 17)),
                         ("refused-area-257", (2, 7, PAGE, 257)),
                         ("refused-area-new-256", (3, 7, PAGE, 256)),
                         ("refused-area-newer", (4, 7, PAGE, 1)),
                         ("refused-area-salt", (2, 8, PAGE, 1)),
                         ("refused-area-page-size", (2, 7, 2 * PAGE, 1))):
        header = struct.pack("<8s4I", b"LLADDdwb", *fields) + entries
        yield name, bytes([area | keep | pages, 9, len(header), 0]) + header


def open_seeds(bases):
    dice = random.Random(2)
    flip, put, zeros, cut, copy, small = range(6)
    for crashed, kind in enumerate(("clean", "crashed")):
        yield kind, bytes([crashed])
        for n in range(len(bases[kind])):
            for what in (zeros, cut, copy):
                at = dice.randrange(1 << 24) & ~63
                yield (f"{kind}-file-{n}-{what}",
                       bytes([crashed, n, at & 255, at >> 8 & 255, at >> 16, what, 8 + n]))
        for flags in (2, 4, 8, 14):  # corrected checksums: the code after their check is reached
            for n in range(14):
                seed = bytes([crashed | flags])
                for _ in range(1 + n % 3):
                    at = dice.randrange(1 << 14) & ~7
                    seed += bytes([dice.randrange(8), at & 255, at >> 8 & 255, 0,
                                   dice.choice([flip, put, small]), dice.randrange(256)])
                yield f"{kind}-forged-{flags}-{n}", seed


def dump_seeds():
    fix = b"\x01"
    parts = [('array "a" element 2 count 5', ['"ab"', "zeros 2", '"\\x00\\xff"', "zeros 1"], 5),
             ('hash "h" key 0 value 0 count 2', ['"k\\"" ""', '"" "v\\\\"'], 2),
             ('hash "f" key 2 value 1 count 1', ['"ab" "c"'], 1),
             ('list "l" count 2', ['"one"', '""'], 2),
             ('blob "b" count 7', ['"xyz"', "zeros 3", '"\\x7f"'], 7),
             ('btree "t" key 0 value 0 count 2', ['"" "v\\\\"', '"k\\"" ""'], 2),
             ('btree "u" key 2 value 1 count 2', ['"ab" "c"', '"ac" "d"'], 2)]
    texts = ["\n".join([head, *lines, f"end {count} crc 00000000"]) + "\n"
             for head, lines, count in parts]
    whole = "lladd dump 1\n" + "".join(texts) + f"done {len(texts)}\n"
    yield "whole", fix + whole.encode()
    yield "nothing", fix + b"lladd dump 1\ndone 0\n"
    yield "checksums-wrong", b"\0" + whole.encode()
    for n, text in enumerate(texts):
        one = "lladd dump 1\n" + text + "done 1\n"
        yield f"one-{n}", fix + one.encode()
        yield f"cut-off-{n}", fix + one[:-9].encode()
        yield f"too-many-{n}", fix + one.replace("end ", '"ab"\nend ').encode()
        yield f"count-{n}", fix + one.replace("count ", "count 1844674407370955161").encode()


def structure_seeds():
    commit, physical, destroy, reverse, bulk = 1, 2, 4, 8, 16
    dice = random.Random(3)
    head = 64  # in the third byte of a change: the change is in the headers of the page
    for flags in (0, commit, physical, commit | destroy, physical | destroy | reverse,
                  commit | bulk | destroy):
        yield f"unchanged-{flags}", bytes([flags])
        for n in range(10):
            seed = bytes([flags])
            for _ in range(1 + n % 4):
                seed += bytes([dice.randrange(256), dice.randrange(256),
                               dice.randrange(16) | dice.choice([0, head, head]),
                               dice.randrange(8), dice.randrange(256)])
            yield f"changed-{flags}-{n}", seed


def cluster_seeds():
    """Pieces for a server (flags 1) and for a coordinator (2); with 4 the log becomes durable."""
    def piece(kind, body):
        return bytes([1 + len(body), kind]) + body

    def txn(sequence, incarnation=1):
        return struct.pack("<QQ", incarnation, sequence)

    key, value = struct.pack("<H", 1) + b"k", struct.pack("<I", 5) + b"value"
    get = piece(3, txn(1) + struct.pack("<IB", 1, 1) + key)
    put = piece(4, txn(1) + key + value)
    prepare, one = (piece(kind, txn(1) + struct.pack("<I", 2)) for kind in (6, 7))
    commit, abort = piece(8, txn(1)), piece(9, txn(1))
    other = piece(4, txn(2) + key + value)
    to_server = {"committed": get + put + prepare + commit + commit, "one-phase": get + put + one,
                 "aborted": put + abort, "waits": put + other + prepare, "ping": piece(2, b""),
                 "half": put + prepare, "deleted": piece(5, txn(1) + key) + piece(5, txn(1) + key)}
    for name, pieces in to_server.items():
        yield f"server-{name}", bytes([5]) + pieces
        yield f"server-{name}-not-durable", bytes([1]) + pieces
    result = piece(68, txn(1) + struct.pack("<Ii", 1, 0) + value)
    votes = [piece(69, txn(2) + struct.pack("<Bi", verdict, 0)) for verdict in range(4)]
    yield "coordinator-answered", bytes([6]) + result + votes[3]
    yield "coordinator-refused", bytes([6]) + piece(66, struct.pack("<iI", -307, 2) + b"no")
    asked = piece(71, txn(1)) + piece(71, txn(9)) + piece(70, txn(2))
    yield "coordinator-asked", bytes([6]) + asked
    for verdict, vote in enumerate(votes):
        yield f"coordinator-vote-{verdict}", bytes([2]) + vote


def lock_seeds():
    intends, shared, reads_and_intends, update, exclusive = 2, 3, 4, 5, 6

    def number(n):
        return struct.pack("<BQ", 0, n)

    def text(t):
        return struct.pack("<BI", 1, len(t)) + t

    def entry(mode, same, rest):
        return struct.pack("<BII", mode, same, len(rest)) + rest

    table = entry(intends, 0, number(1))
    whole = {
        "empty": b"",
        "rows": table + entry(exclusive, 9, number(1)) + entry(exclusive, 9, number(2)),
        "near": table + entry(exclusive, 9, number(256)) + entry(update, 10, number(513)[1:]),
        "texts": table + entry(exclusive, 9, text(b"")) + entry(exclusive, 9, text(b"a" * 40)),
        "deep": table + entry(intends, 9, number(2)) + entry(exclusive, 18, text(b"key")),
        "reading": entry(1, 0, number(1)) + entry(shared, 9, number(5)),
        "both": entry(reads_and_intends, 0, number(1)) + entry(exclusive, 9, number(5)),
        "orphan": entry(exclusive, 0, number(1) + number(2)),
        "weak-parent": entry(1, 0, number(1)) + entry(exclusive, 9, number(2)),
        "twice": table + table,
        "no-mode": entry(0, 0, number(1)) + entry(7, 0, number(2)),
        "long": entry(exclusive, 0, struct.pack("<BI", 1, 2**32 - 1)),
        "shared-too-much": table + entry(exclusive, 10, number(1)),
    }
    for name, locks in whole.items():
        yield name, b"\xff\x01" + locks
        yield f"{name}-cut", b"\xff\x01" + locks[:-1]
        yield f"{name}-not-serialisable", b"\xff\x00" + locks
        yield f"{name}-two", b"\x80\x01" + locks + b"\x01" + locks


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def dtable_seeds():
    """The first byte selects: 0 a configuration, 1 a descriptor, 2 contents of a run, 3 a packed
    row. For contents, the second byte selects the dTable that reads them."""
    texts = {
        "paper": 'config [ "base" class(dt) exception_dtable "base_config" config [ "base" '
                 'class(dt) array_dtable "base_config" config [ "value_size" int 5 ] "alt" '
                 'class(dt) linear_dtable # the rest\n "reject_value" string "_____" ] ]',
        "short": "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]",
        "words": 'class(dt) dictionary_dtable config [ "values" words [ "a\\x00" "b" ] '
                 '"passthrough_value" blob ff "base" class(dt) fixed_dtable ]',
        "order": 'config [ "base_config" config [ "bytes" int 0x2 "base" class(dt) empty_dtable ] '
                 '"base" class(dt) smallint_dtable ]',
        "layers": 'class(dt) column_dtable config [ "base" class(dt) linear_dtable "columns" '
                  'words [ "0" "2 1" ] "groups" layers [ class(dt) array_dtable config [ '
                  '"value_size" int 4 ] class(dt) linear_dtable ] ]',
        "unclosed": 'class(dt) usstate_dtable config [ "base" class(dt) array_dtable',
    }
    for name, text in texts.items():
        bad = "refused-" if name == "unclosed" else ""
        yield f"{bad}config-{name}", b"\0" + text.encode()

    def counted(data):
        return struct.pack("<I", len(data)) + data + b"\0"

    head = struct.pack("<IHHQQQQIIIIQ", 1, 1, 0, 7, 3, 1, 20, 1, 4064, 1, 1, 0)
    key = struct.pack("<Q", 5) + counted(b"")
    body = (counted(b"name") + counted(b"") + counted(b"class(dt) linear_dtable") + key + key +
            struct.pack("<I", 1) + counted(b"foot"))
    stream = struct.pack("<I", 0) + counted(b"keys") + struct.pack("<QIQII", 30, 1, 9, 1, 77)
    yield "descriptor", b"\1" + head + body + stream
    yield "refused-descriptor-short", b"\1" + (head + body)[:-9]

    def piece(data):
        assert len(data) % 16 == 0
        return bytes([len(data) // 16]) + data

    def padded(data):
        return data + bytes(-len(data) % 16)

    index = struct.pack("<QQ", 1, 0)
    foot = struct.pack("<QQQB7x", 3, 1, 16, 1) + index
    rows = struct.pack("<QQIBBH", 0, 1, 3, 1, 1, 0) + bytes([0, 8, 1, 9, 2, 16])
    yield "linear", b"\2\0" + piece(foot) + piece(padded(rows)) + piece(b"abcdefgh" * 2)
    odd = struct.pack("<QQIBBH", 0, 1, 3, 8, 8, 0) + bytes(range(48))
    yield "linear-odd", b"\2\0" + piece(foot) + piece(padded(odd)) + piece(b"abcdefgh" * 2)
    cells = struct.pack("<QQIIQ", 1, 16, 1, 1, 9)
    filled = piece(cells) + bytes(2) + piece(b"\2a\0\0\1b\2c" * 4)
    yield "array", b"\2\2" + filled + bytes(4)
    # These dTables have one layer below. Its pieces come first: a footer and eleven streams.
    words = struct.pack("<QQ", 3, 16)
    ends = struct.pack("<QIII", 0, 1, 0, 7) + bytes(13 * 4)
    numbers = struct.pack("<QQIBBH", 0, 5, 3, 1, 1, 0) + bytes([0, 2, 1, 4, 2, 6])
    below = piece(foot) + piece(padded(numbers)) + piece(b"\0\2\1\3" * 4) + bytes(9)
    yield "strings", (b"\2\7" + below + piece(words) + bytes(7) +
                      piece(b"abcdefgh" * 2) + piece(padded(ends)))
    marks = struct.pack("<QQ", 1, 16)
    wide = struct.pack("<QQIIQ", 1, 16, 4, 0, 9)
    deltas = piece(wide) + bytes(2) + piece(struct.pack("<I", 3) * 16) + bytes(8)
    yield "differences", (b"\2\10" + deltas + piece(marks) + bytes(9) +
                          piece(struct.pack("<I", 1000) * 4))
    yield "tombstones", b"\2\12" + filled + bytes(8) + piece(foot) + piece(padded(rows))
    yield "ranges", (b"\2\13" + piece(foot) + piece(padded(rows)) + piece(b"abcdefgh" * 2) +
                     bytes(9) + filled)
    # The array has a key that is too large for a u32.
    yield "ranges-key", (b"\2\13" + piece(foot) + piece(padded(rows)) + piece(b"abcdefgh" * 2) +
                         bytes(9) + piece(struct.pack("<QQIIQ", 2**32, 16, 1, 1, 9)) + filled[33:])
    # The length of a ranges_dtable's footer is no multiple of 16. The footer therefore comes last:
    # the end of the input ends it.
    begins = struct.pack("<QQIBBH", 0, 20, 3, 1, 1, 0) + bytes([0, 5, 4, 10, 8, 15])
    ends = b"".join(struct.pack("<BI", there, end) for there, end in ((1, 22), (1, 26), (0, 0)))
    both = (piece(foot) + piece(padded(rows)) + piece(b"abcdefgh" * 2) + bytes(9) +
            piece(foot) + piece(padded(begins)) + piece(padded(ends)) + bytes(9))
    yield "deleted", b"\2\20" + both + b"\1" + struct.pack("<QB", 3, 0)
    yield "deleted-first", b"\2\20" + both + b"\1" + struct.pack("<QBBI", 4, 1, 1, 7)
    yield "deleted-twice", b"\2\20" + both + b"\1" + struct.pack("<QBBI", 4, 1, 1, 24)
    # The rows of `absent` are values, which is damage, or tombstones.
    yield "versions-values", b"\2\21" + both
    gone = struct.pack("<QQIBBH", 0, 4, 3, 1, 1, 0) + bytes([0, 1, 1, 1, 2, 1])
    yield "versions", (b"\2\21" + piece(foot) + piece(padded(rows)) + piece(b"abcdefgh" * 2) +
                       bytes(9) + piece(foot) + piece(padded(gone)) + piece(b"") + bytes(8))
    # Sixteen times "\2a" in LZ4: 6 literals, 21 bytes copied from two bytes before, 5 literals.
    for name, block in (("packed", b"\x6f\2a\2a\2a\2\0\2\x50a\2a\2a"), ("unpacked", b"\2a" * 16)):
        tail = struct.pack("<IIQ", len(block), crc32c(block), 32)
        yield name, b"\2\14" + piece(cells) + bytes(2) + piece(block + tail)
    # The last block and its checksum: one byte is wrong, or the array has no block.
    wrong = block[:13] + b"q" + block[14:]
    yield "unpacked-wrong", b"\2\14" + piece(cells) + bytes(2) + piece(wrong + tail) + bytes(4)
    yield "refused-no-block", b"\2\14" + piece(cells) + bytes(3) + piece(block + tail)
    rows = struct.pack("<QQIBBH", 0, 1, 3, 1, 1, 0) + bytes([0, 0, 1, 0, 2, 0])
    # form, b, w, e, items, base, bytes of an item or of all (auto.h); then the data and the items
    forms = {
        "constant": (0, 0, 0, 0, 1, 0, 3, b"abc"),
        "runs": (1, 0, 0, 1, 2, 0, 5, struct.pack("<HH", 2, 3) + b"\2\5abcde"),
        "numbers": (2, 3, 4, 0, 1, 100, 7, b"\xb9\0" + struct.pack("<H", 1) + b"abcdefg"),
        "deltas": (3, 3, 2, 0, 0, 2**64 - 2, 0, struct.pack("<Q", 5000) + b"\x50\1"),
        "dictionary": (4, 1, 0, 1, 2, 0, 5, b"\5\2\5abcde"),
        "plain": (5, 0, 0, 1, 3, 0, 6, b"\1\1\6abcdef")}
    for name, (form, bits, width, ends, items, base, size, more) in forms.items():
        segment = struct.pack("<BBBBHHQII", form, bits, width, ends, 3, items, base, size, 0) + more
        yield "auto-" + name, (b"\2\15" + piece(foot + struct.pack("<QQ", 3, 1)) +
                               piece(padded(rows)) + piece(padded(segment)) + bytes(8) +
                               piece(bytes(16)))
    # The base has the keys, the group has packed rows of two columns. The footer comes last, as in
    # "deleted": it has 24 bytes.
    base = piece(struct.pack("<QQIIQ", 1, 3, 0, 1, 3)) + bytes(2) + piece(b"\2" * 16) + bytes(8)
    ends = struct.pack("<QQIBBH", 0, 1, 3, 1, 1, 0) + bytes([0, 20, 1, 40, 2, 60])
    group = (piece(foot) + piece(padded(ends)) + piece(padded(b"\1\2\0\3\2\4abcd" * 3)) + bytes(9))
    yield "columns", b"\2\17" + base + group + b"\2" + struct.pack("<QIIQ", 3, 1, 0, 3)
    packed = {"row": b"\1\3\0\5\2\2\4abcd", "none": b"\1\0\0",
              "long": b"\x11\1\0\1\0\1" + b"x" * 256,
              "ends": b"\1\2\0\3\4\2abcd", "trailing": b"\1\1\0\1\xff", "newer": b"\2\0\0"}
    for name, row in packed.items():
        bad = name in ("ends", "trailing", "newer")
        yield f"refused-packed-{name}" if bad else f"packed-{name}", b"\3" + row


def journal_seeds():
    def number(n):
        out = b""
        while n >= 0x80:
            out, n = out + bytes([n & 0x7f | 0x80]), n >> 7
        return out + bytes([n])

    tag, other = number(3152), number(70000)
    records = {
        "entry": b"\x01" + tag + b"bytes", "empty-entry": b"\x01" + tag, "make": b"\x02name",
        "release": b"\x03" + tag, "discard": b"\x04" + tag + number(1) + number(2**40),
        "rollover": b"\x05" + tag + other + number(5) + number(6),
        "annul": b"\x06" + number(8) + number(99), "clean": b"\x07" + tag + number(5) + number(6),
        "again": b"\x08" + tag + number(6) + b"bytes", "backwards": b"\x06" + number(9) + number(8),
        "long-number": b"\x03" + b"\xff" * 9 + b"\x01", "too-long": b"\x03" + b"\xff" * 9 + b"\x02",
        "padded": b"\x03\x81\x00", "unknown": b"\x09" + tag}
    for name, record in records.items():
        yield f"record-{name}", b"\0" + record
        yield f"record-{name}-cut", b"\0" + record[:-1]
    rows = {"row": struct.pack("<BBQQ", 1, 4, 3152, 77) + b"shop",
            "newer": struct.pack("<BBQQ", 2, 0, 3152, 77),
            "no-tag": struct.pack("<BBQQ", 1, 0, 0, 77),
            "zero": struct.pack("<BBQQ", 1, 2, 1, 77) + b"a\0"}
    for name, row in rows.items():
        yield f"row-{name}", b"\1" + row
        yield f"row-{name}-cut", b"\1" + row[:-1]
    head = struct.pack("<BQQ", 1, 4000, 5000)
    part = struct.pack("<QQQQQ", 3152, 4000, 5000, 3, 30)
    change = struct.pack("<BQQQQBB", 4, 3152, 4500, 3900, 0, 1, 1) + b"on"
    blobs = {
        "part": head + struct.pack("<I", 1) + part + struct.pack("<I", 0),
        "both": head + struct.pack("<I", 1) + part + struct.pack("<I", 1) + change,
        "twice": head + struct.pack("<I", 2) + part * 2 + struct.pack("<I", 0),
        "many": head + struct.pack("<I", 2**32 - 1) + part,
        "rollover": head + struct.pack("<II", 0, 1) + b"\x05" + change[1:],
        "newer": b"\x02" + head[1:], "long": head + struct.pack("<II", 0, 0) + b"x"}
    for name, blob in blobs.items():
        yield f"blob-{name}", b"\2" + blob
        yield f"blob-{name}-cut", b"\2" + blob[:-1]


def managed_seeds():
    def row(runs=(), doomed=(), config=b"", version=1, generation=9, every=4):
        out = struct.pack("<BBBBIII", version, 1, 0, 0, len(runs), len(doomed), every)
        out += struct.pack("<10Q", 77, 1000, 32 << 20, 0, 0, generation, 3, 1, 1, 0)
        for text in (b"", config, b""):
            out += struct.pack("<I", len(text)) + text
        out += b"".join(struct.pack("<6Q", *run) for run in runs)
        return out + b"".join(struct.pack("<Q", page) for page in doomed)

    two = ((30, 8, 5, 1, 100, 2), (20, 4, 50, 0, 1000, 3))
    rows = {"empty": row(), "runs": row(two, (10, 11), b"class(dt) linear_dtable"),
            "order": row(two[::-1]), "generation": row(two, generation=8),
            "newer": row(version=2), "never": row(every=0), "zero": row(config=b"a\0")}
    for name, seed in rows.items():
        yield f"row-{name}", b"\0" + seed
        yield f"row-{name}-cut", b"\0" + seed[:-1]
    entries = {"u32": b"\1\1" + struct.pack("<I", 5) + b"value",
               "u64": b"\2\2" + struct.pack("<Q", 5), "nan": b"\3\1" + b"\xff" * 8,
               "string": b"\4\1" + struct.pack("<H", 3) + b"keyvalue",
               "bytes": b"\5\2" + struct.pack("<H", 0),
               "range": b"\1\3\3" + struct.pack("<II", 5, 9), "all": b"\2\3\0",
               "backwards": b"\1\3\3" + struct.pack("<II", 9, 5),
               "from": b"\3\3\1" + struct.pack("<Q", 1 << 63),
               "to": b"\4\3\2" + struct.pack("<H", 3) + b"key",
               "ends": b"\5\3\3" + struct.pack("<HHB", 0, 1, 7), "sides": b"\1\3\7",
               "long": b"\5\1\xff\xff" + b"x" * 40}
    for name, seed in entries.items():
        yield f"entry-{name}", seed
        yield f"entry-{name}-cut", seed[:-1]


def btree_seeds():
    """Records for a node (fuzz/fuzz_btree.c), and a leaf's bytes."""
    def entry(key, value, cap=None):
        cap = len(value) if cap is None else cap
        return struct.pack("<HHH", len(key), len(value), cap) + key + value

    def record(op, redo):
        return struct.pack("<BH", op, len(redo)) + redo

    def fill(level, low, high, *entries):
        return (struct.pack("<QQBBHH", 2, 0, level, 0, len(low), 65535 if high is None
                            else len(high)) + low + (high or b"") + b"".join(entries))

    rows = [entry(b"key%d" % i, b"value" * i) for i in range(9)]
    leaf = record(0, fill(0, b"", None, *rows))
    inner = record(0, fill(1, b"a", b"z", *[entry(key, struct.pack("<Q", 7)[:6])
                                            for key in (b"", b"c", b"p")]))
    change = {"put": (3, struct.pack("<H", 32768 + 9) + entry(b"key9", b"new")),
              "replace": (3, struct.pack("<H", 4) + entry(b"key4", b"x" * 99)),
              "remove": (4, struct.pack("<HB", 3, 1)), "mark": (5, struct.pack("<HB", 3, 1)),
              "restore": (6, struct.pack("<H", 2) + entry(b"key2", b"old", 10)),
              "narrow": (1, struct.pack("<HQ", 4, 8) + b"key35"),
              "clear": (7, struct.pack("<HH", 3, 1))}
    for name, (op, redo) in change.items():
        yield f"leaf-{name}", b"\1" + leaf + record(op, redo)
    change["insert"] = (11, struct.pack("<HH", 9, 4) + b"key9new")
    yield "leaf-insert", b"\1" + leaf + record(*change["insert"])
    rows = b"".join(struct.pack("<HHH", 2 + 3 * i, 5, 2) + b"key%dxvv" % (2 * i + 1)
                    for i in range(4))
    yield "leaf-rows", b"\1" + leaf + record(12, rows)
    del change["put"]
    short = [struct.pack("<HH", 1 + 16384 * (i % 2), 2) + b"\5\0" * (i % 2) + b"%dvv" % i
             for i in range(9)]
    yield "leaf-short", b"\1" + record(10, fill(0, b"key", b"key9", *short))
    # The insertion comes first, because narrow and clear take rows away.
    every = b"".join(record(*r) for r in (change.pop("insert"), *change.values()))
    yield "leaf-all", b"\1" + leaf + every
    yield "inner-index", b"\1" + inner + record(2, struct.pack("<HQ", 2, 9) + b"k")
    yield "inner-narrow", b"\1" + inner + record(1, struct.pack("<HQ", 2, 9) + b"p")
    yield "format", b"\1" + record(9, fill(0, b"a", b"b", entry(b"aa", b"")))
    empty = struct.pack("<6sBB6sHHHHHH6s", b"\2", 0, 0, b"", 0, 0, 0, 0, 0, 65535, b"")
    yield "page", b"\0\0\xff\xff" + empty
    page = bytearray(4064)
    page[:32] = struct.pack("<6sBB6sHHHHHH6s", b"\2", 0, 0, b"", 1, 0, 0, 11, 0, 65535, b"")
    page[32:38] = b"\0yek" + struct.pack("<H", 4085)
    page[-11:] = entry(b"key", b"vv")
    yield "page-row", b"\0\0\xff\xff" + bytes(page)


def manifest_seeds():
    fix, whole = 1, 2
    put, flip, number, away, twice = range(5)

    def change(at, what, value):
        return struct.pack("<HBB", at, what, value)

    yield "unchanged", bytes([0])
    yield "unchanged-fixed", bytes([fix])
    yield "damaged", bytes([0]) + change(200, flip, 1)
    yield "empty", bytes([whole])
    yield "newer", bytes([fix]) + change(13, put, ord("2"))
    # Each field gets each of the unusual numbers in turn.
    for n, at in enumerate(range(80, 560, 24)):
        yield f"number-{at}", bytes([fix]) + change(at, number, n)
    for n in range(3, 18):
        yield f"line-{n}-away", bytes([fix]) + change(0, away, n)
        yield f"line-{n}-twice", bytes([fix]) + change(0, twice, n)
    head = b"LLADD backup 1\nname x\nuuid " + b"42" * 16 + b"\npage_size 4096\ntimeline 0\n"
    numbers = b"from 8\nredo 8\nend 16\npages 3\nstored 0\ndamaged 0\nbegun_us 1\nended_us 2\n"
    text = head + numbers + b"heuristic 0\ncontrol 00000000\nindex 0 00000000\n"
    yield "other-name", bytes([fix | whole]) + text
    yield "other-name-log", bytes([fix | whole]) + text + b"log 8 4096 0 4096 00000000\n"
    yield "text", bytes([fix | whole]) + b"LLADD backup 1\n" * 20


def pages_index_seeds():
    frames = 1
    first, pages, part, offset, size, crc, zero, away, twice, swap = range(10)

    def change(entry, what, value):
        return struct.pack("<HBB", entry, what, value)

    yield "unchanged", bytes([0])
    yield "unchanged-frames", bytes([frames])
    yield "crc", bytes([0]) + change(0, crc, 0)
    yield "shorter-frame", bytes([frames]) + change(0, size, 127)
    yield "entry-away", bytes([0]) + change(1, away, 0)
    yield "entry-twice", bytes([0]) + change(0, twice, 0)
    yield "entries-swapped", bytes([0]) + change(0, swap, 1)
    yield "other-bytes", bytes([frames]) + change(1, offset, 0)
    for what in (first, pages, part, offset, size):
        for value in (0, 7, 10, 17, 21):
            yield f"field-{what}-{value}", bytes([frames]) + change(0, what, value)
    yield "all-away", bytes([0]) + change(0, away, 0) * 8
    yield "many", bytes([frames]) + b"".join(change(i, twice, 0) for i in range(40))


def segment_index_seeds():
    whole, time, check = 1, 2, 4
    put, add, high, cut = range(4)

    def change(at, what, value):
        return struct.pack("<HBB", at, what, value)

    yield "unchanged", bytes([0])
    yield "unchanged-time", bytes([time])
    yield "unchanged-check", bytes([check])
    for at in range(0, 112, 8):  # the fields of the head
        for what, value in ((add, 127), (add, 129), (high, 0), (high, 33)):
            yield f"head-{at}-{what}-{value}", bytes([check]) + change(at, what, value)
    for at in (112, 120, 136, 137, 145, 153, 161, 169, 177):
        yield f"entry-{at}", bytes([time | check]) + change(at, add, 200)
        yield f"high-{at}", bytes([check]) + change(at, high, 0)
    yield "newer", bytes([check]) + change(6, put, ord("2"))
    yield "cut-head", bytes([0]) + change(50, cut, 0)
    yield "cut-entry", bytes([check]) + change(200, cut, 0)
    yield "nothing", bytes([whole])


def multicolumn_seeds():
    """The first byte selects: 0 a segment, 1 a page, 2 numbers (fuzz/fuzz_multicolumn.c)."""
    def segment(codec, width, rows, own, data, exceptions=b""):
        code = {1: 0, 2: 1, 4: 2, 8: 3}[width]
        return (bytes([0, codec, code]) + struct.pack("<HBB", rows - 1, own, len(exceptions)) +
                data + exceptions)

    def padded(data):
        return data + bytes(-len(data) % 8)

    nop, frame, runs, words, steps = range(5)
    yield "nop", segment(nop, 4, 3, 0, bytes(range(12)))
    two = padded(struct.pack("<II", 100, 200) + bytes([3, 1]))
    yield "for", segment(frame, 4, 300, 0, two + bytes(range(96)) + bytes(range(32)))
    odd = padded(struct.pack("<II", 100, 200) + bytes([3, 1, 2, 0]))
    yield "for-exceptions", segment(frame, 4, 300, 1, odd + bytes(range(128)),
                                    bytes([5, 77]) + struct.pack("<II", 7, 2**32 - 1))
    yield "for-wide", segment(frame, 8, 4, 0,
                              padded(struct.pack("<QB", 1, 64)) + bytes(range(256)) * 8)
    yield "rle", segment(runs, 2, 5, 0,
                         padded(struct.pack("<H", 2)) + struct.pack("<HHHH", 7, 9, 3, 5))
    yield "refused-rle", segment(runs, 2, 5, 0,
                                 padded(struct.pack("<H", 2)) + struct.pack("<HHHH", 7, 9, 5, 5))
    yield "dict", segment(words, 8, 10, 2,
                          padded(struct.pack("<H", 3)) + struct.pack("<QQQ", 1, 2, 9) +
                          b"\1\0" * 16)
    yield "delta", segment(steps, 1, 10, 0, padded(bytes([250, 1, 4])) + bytes(range(32)))
    yield "delta-even", segment(steps, 4, 256, 0, padded(struct.pack("<IIB", 5, 3, 0)))

    def page(flags, rows, entries, front, parts):
        at = 16 + 4 * entries + len(front)
        body = front + bytes(-at % 8)
        at += -at % 8
        heads = b""
        for codec, own, data in parts:
            heads += struct.pack("<HBB", at, codec, own)
            body += padded(data)
            at += len(padded(data))
        return struct.pack("<BBHBBHHIH", 1, flags, rows, entries, 0, at, at, 0, 0) + heads + body

    good = page(0, 3, 2, b"", [(nop, 0, struct.pack("<QQQ", 1, 5, 9)),
                               (runs, 0, padded(struct.pack("<H", 1)) + struct.pack("<IH", 7, 3))])
    yield "page", b"\1\0" + good
    yield "refused-page-version", b"\1\0\2" + good[1:]
    yield "page-free", b"\1\0" + good[:8] + struct.pack("<H", len(good) + 8) + good[10:] + bytes(8)
    front = bytes([2, 1, 1]) + struct.pack("<HH", 1, 3) + b"abc"
    yield "page-keys", b"\1\2" + page(7, 2, 3, front, [(nop, 0, bytes(4)), (nop, 0, bytes(8)),
                                                      (nop, 0, bytes(16))])
    yield "page-fields", b"\1\1" + page(0, 2, 5, b"", [(nop, 0, struct.pack("<II", 1, 2)),
                                                      (nop, 0, bytes(4)), (nop, 0, bytes(2)),
                                                      (nop, 0, bytes(16)), (nop, 0, bytes(16))])
    dice = random.Random(3)
    yield "numbers", b"\2\2" + b"".join(struct.pack("<I", 9 + i // 7) for i in range(300))
    yield "numbers-spread", b"\2\1" + dice.randbytes(700)
    yield "numbers-wide", b"\2\3" + b"".join(struct.pack("<Q", i * 2**40) for i in range(60))


def replica_seeds():
    raw, right, script = 0, 1, 2

    def event(kind, position, txn, table=b"", type=0, key=None, to=None, before=(0, b""),
              after=(0, b"")):
        body = (table + b"\0" if table else b"") + (key or b"") + (to or b"") + before[1] + after[1]
        flags = before[0] | after[0] << 2 | (key is not None) << 4 | (to is not None) << 5
        head = struct.pack("<IQQBBBBBBHHHII", crc32c(body), position, txn, 1, kind, type, flags,
                           len(table) + 1 if table else 0, 0, len(key or b""), len(to or b""), 0,
                           len(before[1]), len(after[1]))
        return struct.pack("<I", crc32c(head)) + head + body

    def number(n):
        return struct.pack("<Q", n)

    begin, commit, abort, put, delete, range_, mark = 1, 2, 3, 4, 5, 6, 7
    found, none = 2, 1
    events = {
        "begin": event(begin, 1, 7), "commit": event(commit, 9, 7), "abort": event(abort, 9, 2**63),
        "mark": event(mark, 4, 2),
        "put": event(put, 2, 7, b"t", 1, number(5), after=(found, b"value")),
        "put-before": event(put, 2, 7, b"t", 5, b"\0key", before=(found, b"was"),
                            after=(found, b"")),
        "put-new": event(put, 2, 7, b"t", 4, b"key", before=(none, b""), after=(found, b"v")),
        "delete": event(delete, 2, 7, b"t", 2, number(2**64 - 1)),
        "delete-double": event(delete, 2, 7, b"t", 3, number(2**63 + 9), before=(found, b"w")),
        "range": event(range_, 2, 7, b"t", 1, number(1), number(9)),
        "range-to": event(range_, 2, 7, b"t", 4, None, b"z"),
        "range-all": event(range_, 2, 7, b"t")}
    for name, one in events.items():
        yield name, bytes([raw]) + one
        yield f"right-{name}", bytes([right]) + one
    yield "many", bytes([raw]) + b"".join(events.values())
    yield "cut", bytes([raw]) + events["begin"] + events["put"][:-1]
    newer = bytearray(events["put"])
    newer[24] = 2
    yield "right-newer", bytes([right]) + bytes(newer)
    yield "last-position", bytes([raw]) + event(mark, 2**64 - 1, 1)
    # A command: kind, step of the position, transaction, key; bits of the transaction select the
    # table.
    plain = [(begin, 1, 1, 0), (put, 1, 1, 3), (begin, 2, 2, 0), (put, 1, 0x12, 3),
             (commit, 1, 2, 0), (range_, 1, 1, 1), (delete, 1, 0x11, 4), (mark, 1, 0, 0),
             (commit, 3, 1, 0)]
    scripts = {"plain": plain, "aborted": plain[:2] + [(abort, 1, 1, 0)],
               "twice": plain[:2] + 2 * [(commit, 1, 1, 0)], "back": plain[:1] + [(put, 0, 1, 3)],
               "unknown": [(put, 1, 3, 3)], "table": plain[:1] + [(put, 1, 0x31, 3)],
               "type": plain[:1] + [(put, 1, 0x81, 3)], "mark": [(mark, 1, 9, 0)],
               "again": plain + [(0, 0, 0, 0)] + plain}
    for name, commands in scripts.items():
        yield f"script-{name}", bytes([script]) + b"".join(bytes(c) for c in commands)


def main(make_db, folder):
    with tempfile.TemporaryDirectory() as work:
        bases = {kind: made(make_db, work, kind) for kind in ("clean", "crashed")}
    total = 0
    for fuzzer, seeds in (("fuzz_control", control_seeds(bases)), ("fuzz_log", log_seeds()),
                          ("fuzz_page", page_seeds(bases)), ("fuzz_open", open_seeds(bases)),
                          ("fuzz_dump", dump_seeds()), ("fuzz_structures", structure_seeds()),
                          ("fuzz_btree", btree_seeds()),
                          ("fuzz_cluster", cluster_seeds()), ("fuzz_locks", lock_seeds()),
                          ("fuzz_dtable", dtable_seeds()),
                          ("fuzz_multicolumn", multicolumn_seeds()),
                          ("fuzz_journal", journal_seeds()),
                          ("fuzz_managed", managed_seeds()),
                          ("fuzz_replica", replica_seeds()),
                          ("fuzz_manifest", manifest_seeds()),
                          ("fuzz_pages_index", pages_index_seeds()),
                          ("fuzz_segment_index", segment_index_seeds())):
        path = os.path.join(folder, fuzzer)
        shutil.rmtree(path, ignore_errors=True)  # removes also the inputs that a fuzzer has found
        os.makedirs(path)
        for name, seed in seeds:
            if len(seed) > FILE_MAX:
                sys.exit(f"{fuzzer}/{name} has {len(seed)} bytes")
            total += len(seed)
            with open(os.path.join(path, name), "xb") as file:
                file.write(seed)
    if total > SUM_MAX:
        sys.exit(f"{total} bytes are too many")
    print(f"{total} bytes")


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else os.path.join(here, "corpus"))
