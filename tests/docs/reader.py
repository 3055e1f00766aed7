#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A second reader of the disk format, written from docs/disk-format.md alone.

reader.py <directory> reads a database that no process has open and prints its contents, a line for
each item. It ends with a message if the bytes differ from the document. It checks the document,
so it is strict where the library is tolerant."""
import os
import struct
import sys

NONE48 = (1 << 48) - 1
NO_PAGE = (1 << 64) - 1
(UPDATE, CLR, CLR_END, UNDO_ONLY, ACTION_END, COMMIT, END, PREPARE, BLOB, IMAGE, OBJECT,
 OBJECT_CLR, CATALOGUE, BEGIN, DATA, CHECKPOINT, SEAL, REDO_BARRIER, PIN, HEURISTIC) = range(1, 21)
NOTE = 22
OF_TXN = {UPDATE, CLR, CLR_END, UNDO_ONLY, ACTION_END, COMMIT, END, PREPARE, BLOB, OBJECT,
          OBJECT_CLR, REDO_BARRIER, NOTE}
OPERATION, PAGE_TYPE, CLASS, PARTICIPANT, TAG = range(1, 6)
WANTS = {UPDATE: OPERATION, CLR: OPERATION, CLR_END: OPERATION, UNDO_ONLY: OPERATION,
         BLOB: PARTICIPANT, OBJECT: CLASS, OBJECT_CLR: CLASS, NOTE: TAG}
FIELD_BYTES = {1: 1, 2: 2, 3: 4, 4: 8, 5: 8, 6: 8, 7: 8}


def need(condition, what):
    if not condition:
        sys.exit(f"not as documented: {what}")


def crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
        table.append(byte)
    return table


CRC = crc_table()


def crc32c(data, seed=0):
    crc = seed ^ 0xffffffff
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xffffffff


def u(data, at, size):
    return int.from_bytes(data[at:at + size], "little")


def lz4_block(data, size):
    """One LZ4 block, as the LZ4 project documents it."""
    out, at = bytearray(), 0

    def length(n):
        nonlocal at
        while n >= 15:
            more = data[at]
            at += 1
            n += more
            if more < 255:
                break
        return n

    while at < len(data):
        token = data[at]
        at += 1
        n = length(token >> 4)
        out += data[at:at + n]
        at += n
        if at == len(data):
            break
        offset = u(data, at, 2)
        at += 2
        n = length(token & 15) + 4
        need(0 < offset <= len(out), "an LZ4 offset")
        for _ in range(n):
            out.append(out[-offset])
    need(len(out) == size, f"an image of {len(out)} bytes instead of {size}")
    return bytes(out)


# ---- control ----

class Control:
    def __init__(self, folder):
        with open(os.path.join(folder, "control"), "rb") as file:
            data = file.read()
        copies = [c for c in (data[:256], data[4096:4352])
                  if u(c, 0, 4) == crc32c(c[4:]) and c[4:8] == b"LLDB"]
        need(copies, "control has no good copy")
        c = max(copies, key=lambda copy: u(copy, 56, 8))
        (self.format, self.page_size) = struct.unpack_from("<II", c, 8)
        features = struct.unpack_from("<QQQ", c, 16)
        self.uuid = c[40:56]
        (self.seq, self.incarnation, self.checkpoint, self.redo, self.watermark, self.end,
         flags, zero, self.created) = struct.unpack_from("<QQQQQQIIq", c, 56)
        self.outcomes = features[2] & 1 == 1
        in_use = 0 if flags & 1 else 2
        need(self.format == 1 and features in ((0, 0, in_use), (0, 0, in_use + 1)),
             "format or features")
        need(self.page_size in (4096, 8192, 16384, 32768, 65536), "page size")
        need(zero == 0 and not any(c[136:]) and flags < 4, "reserved bytes of control")
        self.clean = bool(flags & 1)
        self.salt = crc32c(self.uuid)

    def record_salt(self, incarnation):
        return crc32c(self.uuid + struct.pack("<Q", incarnation))

    def uuid_hash(self):
        m = (1 << 64) - 1
        h = u(self.uuid, 0, 8) * 0x9e3779b97f4a7c15 & m
        return (h ^ h >> 32) + (u(self.uuid, 8, 8) * 0xc2b2ae3d27d4eb4f & m) & m


# ---- the log ----

class Segment:
    def __init__(self, control, path):
        with open(path, "rb") as file:
            self.data = file.read()
        name = int(os.path.basename(path)[:16], 16)
        self.block = min(65536, len(self.data))
        self.room = self.block - 64
        self.first, self.cut, self.incarnation = name, name, 0
        head = self.header(control, 0)
        need(head is not None and self.first == name, f"{path}: header 0")
        self.end = self.first + len(self.data) // self.block * self.room
        self.salt = control.record_salt(self.incarnation)

    def header(self, control, index):
        """Returns where the first record of a block begins, or None if nothing was written to the
        block since the file got this name."""
        h = self.data[index * self.block:index * self.block + 64]
        if not any(h) and index:
            return None
        need(u(h, 0, 4) == crc32c(h[4:]) and h[4:8] == b"LLB1", f"block header {index}")
        (inc, lsn, first_record, block, first, cut, size, number, uuid) = struct.unpack_from(
            "<QQIIQQIIQ", h, 8)
        if index == 0:
            self.incarnation, self.first, self.cut = inc, first, cut
        elif (inc, first) != (self.incarnation, self.first):
            return None  # the header is from an earlier use of the file
        need(lsn == self.first + index * self.room and block == self.block and number == index
             and size == len(self.data) and uuid == control.uuid_hash()
             and self.cut <= self.first, f"fields of block header {index}")
        return first_record


class Log:
    def __init__(self, folder, control):
        self.control = control
        files = sorted(f for f in os.listdir(os.path.join(folder, "log")) if f.endswith(".seg"))
        self.segments = [Segment(control, os.path.join(folder, "log", f)) for f in files]
        need(self.segments, "there are no segments")

    def bytes_at(self, lsn, size):
        out = b""
        while len(out) < size:
            s = next((s for s in self.segments if s.first <= lsn < s.end), None)
            if s is None:
                return None
            index, into = divmod(lsn - s.first, s.room)
            if s.header(self.control, index) is None:
                return None
            part = s.data[index * s.block + 64 + into:
                          index * s.block + 64 + min(s.room, into + size - len(out))]
            out += part
            lsn += len(part)
        return out

    def segment_at(self, lsn):
        return next((s for s in self.segments if s.first <= lsn < s.end), None)

    def first_lsn(self):
        """The LSN of the oldest record that can be found."""
        for s in self.segments:
            for index in range(len(s.data) // s.block):
                offset = s.header(self.control, index)
                if offset is None:
                    break
                if offset < 0xfffffffe:
                    return s.first + index * s.room + offset
        sys.exit("not as documented: no block says where a record begins")

    def records(self):
        at = self.first_lsn()
        while True:
            record = self.read(at)
            if record is None:
                gap = next((s for s in self.segments if s.cut == at and s.first > at), None)
                if gap is None:
                    break
                at = gap.first
                continue
            self.check_block(at, record.size)
            yield record
            at += record.size
        self.end = at

    def check_block(self, lsn, size):
        """Checks the block that has this LSN: its header names this record or an earlier one as the
        block's first."""
        s = self.segment_at(lsn)
        index, into = divmod(lsn - s.first, s.room)
        offset = s.header(self.control, index)
        need(offset <= into or offset == 0xfffffffe, f"first record of the block of LSN {lsn}")

    def read(self, lsn):
        head = self.bytes_at(lsn, 40)
        if head is None or u(head, 8, 8) != lsn:
            return None
        size = u(head, 4, 3)
        if size < 40 or size % 8:
            return None
        data = self.bytes_at(lsn, size)
        if data is None or u(data, 0, 4) != crc32c(data[4:], self.segment_at(lsn).salt):
            return None
        return Record(lsn, data)


class Record:
    def __init__(self, lsn, data):
        self.lsn, self.size = lsn, len(data)
        self.kind, self.flags, form = data[7], data[16], data[17]
        self.op = u(data, 18, 2)
        self.wide = form & 1
        padding = form >> 1 & 7
        self.undo_next = 0
        if self.wide:
            (self.depth, self.prev, self.txn, self.page_prev,
             page) = struct.unpack_from("<IQQQQ", data, 20)
            redo_len, zero = struct.unpack_from("<II", data, 56)
            self.undo_next = u(data, 64, 8)
            need(zero == 0 and not form & 16, f"wide record {lsn}")
            self.page = None if page == NO_PAGE else page
            head = 72
        else:
            prev, txn, page_prev = struct.unpack_from("<III", data, 20)
            self.depth = form >> 5
            self.prev = lsn - 8 * prev if prev else 0
            self.txn = 0 if txn == 0xffffffff else lsn - 8 * txn
            self.page_prev = lsn - 8 * page_prev if page_prev else 0
            page = u(data, 32, 6)
            self.page = None if page == NONE48 else page
            redo_len, head = u(data, 38, 2), 40
            if form & 16:
                self.undo_next, head = u(data, 40, 8), 48
        self.redo = data[head:head + redo_len]
        self.undo = data[head + redo_len:len(data) - padding]
        need(head + redo_len + len(self.undo) + padding == len(data), f"spans of record {lsn}")
        need(not any(data[len(data) - padding:]) if padding else True, f"padding of record {lsn}")
        need((self.txn != 0) == (self.kind in OF_TXN) or self.kind == HEURISTIC,
             f"transaction of record {lsn}")


# ---- what records mean ----

class Name:
    def __init__(self, data, at=0):
        (self.number, self.version) = struct.unpack_from("<II", data, at)
        self.kind, length, redo, undo = data[at + 8:at + 12]
        self.name = data[at + 12:at + 12 + length].decode("ascii")
        at += 12 + length
        self.fields = []
        for count in (redo, undo):
            fields = []
            for _ in range(count):
                kind, n = data[at], data[at + 1]
                fields.append((data[at + 2:at + 2 + n].decode("ascii"), kind))
                at += 2 + n
            self.fields.append(fields)
        self.page_type = u(data, at, 4)
        need(at + 4 == len(data), f"length of catalogue entry {self.name}")
        need(1 <= self.kind <= 5 and 1 <= self.number <= 65535, f"catalogue entry {self.name}")


def fits(fields, data):
    """Returns true if the bytes have this layout. Without a layout, any bytes fit."""
    at = 0
    for _, kind in fields:
        if kind in FIELD_BYTES:
            at += FIELD_BYTES[kind]
        elif kind == 8:
            at += 2 + u(data, at, 2)
        else:
            at = max(at, len(data))
    return not fields or at == len(data)


class Meaning:
    """What the log says. The constructor goes through the records once."""

    def __init__(self, control, log):
        self.control, self.names, self.kinds = control, {}, {}
        self.images, self.pins, self.prepared, self.open = {}, {}, {}, {}
        self.blobs, self.blobs_of = [], {}
        self.outcomes = {}
        self.notes, self.barriers, self.wide, self.checkpoints, self.deepest = [], [], 0, 0, 0
        self.lsns = set()
        for record in log.records():
            self.lsns.add(record.lsn)
            self.see(record)
        self.end = log.end

    def see(self, r):
        self.kinds[r.kind] = self.kinds.get(r.kind, 0) + 1
        self.wide += r.wide
        self.deepest = max(self.deepest, r.depth)
        if r.kind in OF_TXN:
            self.open[r.txn] = r.kind
            need(r.prev == 0 if r.txn == r.lsn else r.txn <= r.prev < r.lsn, f"prev of {r.lsn}")
        if r.kind in WANTS or (r.kind == ACTION_END and r.op):
            name = self.names.get(r.op)
            need(name and name.kind == WANTS.get(r.kind, OPERATION), f"op {r.op} of record {r.lsn}")
            if r.kind in (UPDATE, UNDO_ONLY):
                for fields, data in zip(name.fields, (r.redo, r.undo)):
                    need(fits(fields, data) or not data, f"bytes of {r.lsn} {name.name}")
        handler = getattr(self, f"see_{r.kind}", None)
        if handler:
            handler(r)
        elif r.kind == COMMIT and r.redo:
            self.outcome(r.redo, r.lsn, (1,))
        elif r.kind in (COMMIT, END, BEGIN):
            need(not r.redo and not r.undo, f"payload of {r.lsn}, kind {r.kind}")
        if r.kind in (COMMIT, END):
            del self.open[r.txn]
            self.prepared.pop(r.txn, None)

    def see_1(self, r):
        need(r.page is not None, f"page of {r.lsn}")
        need(bool(r.flags & 4) <= (r.page_prev == 0), f"page_prev of {r.lsn}")

    def see_2(self, r):
        need(r.page is not None and not r.redo, f"clr {r.lsn}")

    def see_3(self, r):
        need(len(r.redo) in (0, 4, 8) and not r.undo, f"clr-end {r.lsn}")

    def see_5(self, r):
        need(len(r.redo) == 8, f"action-end {r.lsn}")

    def see_8(self, r):
        fmt, gtrid, bqual, when, blobs, owner = struct.unpack_from("<qIIqIB", r.redo)
        need(len(r.redo) == 29 + gtrid + bqual + owner, f"prepare record {r.lsn}")
        text = r.redo[29:].decode("latin-1")
        self.prepared[r.txn] = (fmt, text[:gtrid], text[gtrid:gtrid + bqual], text[gtrid + bqual:])
        need(blobs == self.blobs_of.pop(r.txn, 0), f"blobs of prepare record {r.lsn}")
        need(when > 0, f"time of prepare record {r.lsn}")

    def see_9(self, r):
        total, at = struct.unpack_from("<II", r.redo)
        need(at + len(r.redo) - 8 <= total, f"blob {r.lsn}")
        self.blobs.append((self.names[r.op].name, total, at, r.redo[8:]))
        self.blobs_of[r.txn] = self.blobs_of.get(r.txn, 0) + 1

    def see_10(self, r):
        kind, flags, begin, hole = struct.unpack_from("<HHII", r.redo)
        size = self.control.page_size
        need(flags == 0 and 32 <= begin <= size and begin + hole <= size, f"image {r.lsn}")
        body = r.redo[12:]
        if r.flags & 8:
            body = lz4_block(body, size - 32 - hole)
        need(len(body) == size - 32 - hole, f"image {r.lsn}")
        need(self.names[kind].kind == PAGE_TYPE, f"page type of image {r.lsn}")
        self.images[r.page] = self.images.get(r.page, 0) + 1

    def see_13(self, r):
        name = Name(r.redo)
        need(name.number == r.op, f"number of catalogue record {r.lsn}")
        self.learn(name)

    def learn(self, name):
        known = self.names.setdefault(name.number, name)
        need((known.name, known.kind, known.version) == (name.name, name.kind, name.version),
             f"two names for number {name.number}")

    def see_15(self, r):
        at = 0
        while at < len(r.redo):
            part, length = r.redo[at], u(r.redo, at + 1, 4)
            data = r.redo[at + 5:at + 5 + length]
            need(len(data) == length and part in (1, 2, 3, 4, 5, 6), f"checkpoint data {r.lsn}")
            if part == 2:
                self.learn(Name(data))
            elif part == 4:
                self.pins[data[8:].decode("ascii")] = u(data, 0, 8)
            elif part == 6:
                self.outcome(data, r.lsn, (1, 2))
            else:
                need(length == {1: 44, 3: 24, 5: 8}[part], f"part {part} of {r.lsn}")
            at += 5 + length

    def see_16(self, r):
        need(len(r.redo) == 16, f"checkpoint-end {r.lsn}")
        self.checkpoints += 1
        self.last_checkpoint = struct.unpack("<QQ", r.redo)

    def see_17(self, r):
        need(len(r.redo) == 8 and u(r.redo, 0, 8) <= r.lsn, f"seal {r.lsn}")

    def see_18(self, r):
        need(len(r.redo) == 16, f"redo barrier {r.lsn}")
        self.barriers.append(struct.unpack("<QQ", r.redo))

    def see_19(self, r):
        name = r.redo[8:].decode("ascii")
        lsn = u(r.redo, 0, 8)
        if lsn:
            self.pins[name] = lsn
        else:
            self.pins.pop(name, None)

    def see_20(self, r):
        need(self.control.outcomes, "a heuristic record without the feature")
        need((r.txn == 0) == (r.redo[0] == 0), f"transaction of heuristic record {r.lsn}")
        self.outcome(r.redo, r.lsn, (0, 2))
        if r.txn:
            self.open[r.txn] = r.kind
            self.prepared.pop(r.txn, None)

    def outcome(self, data, lsn, allowed):
        need(data[0] in allowed and u(data, 1, 8) > 0, f"heuristic outcome {lsn}")
        fmt, gtrid, bqual, when, blobs, owner = struct.unpack_from("<qIIqIB", data, 9)
        need(len(data) == 38 + gtrid + bqual + owner and blobs == 0 and when > 0, f"outcome {lsn}")
        text = data[38:].decode("latin-1")
        gid = (fmt, text[:gtrid], text[gtrid:gtrid + bqual])
        self.outcomes.pop(gid, None)
        if data[0]:
            self.outcomes[gid] = data[0]

    def see_22(self, r):
        self.notes.append((self.names[r.op].name, r.redo))


# ---- pages ----

class Pages:
    def __init__(self, folder, control, meaning):
        with open(os.path.join(folder, "pages"), "rb") as file:
            self.data = file.read()
        self.size, self.control, self.meaning = control.page_size, control, meaning
        need(len(self.data) % self.size == 0, "the page file has a part of a page")
        self.count = len(self.data) // self.size
        self.span = (self.size - 64) // 2 * 8

    def page(self, n):
        return self.data[n * self.size:(n + 1) * self.size]

    def use(self, n):
        """What the allocation bitmap says: 0 free, 1 raw, 2 allocated, 3 freed."""
        group, index = divmod(n, self.span)
        data = self.page(group * self.span or 1)
        bit = [data[64 + plane * self.span // 8 + index // 8] >> index % 8 & 1 for plane in (0, 1)]
        return bit[0] << 1 | bit[1]

    def type_of(self, n):
        number = u(self.page(n), 4, 2)
        return self.meaning.names[number].name if number else None

    def check(self, n):
        """Checks the header of page n. Returns the page's type, or None if all bytes of the page
        are 0."""
        data = self.page(n)
        if not any(data):
            return None
        need(u(data, 0, 4) == crc32c(data[4:], crc32c(struct.pack("<IQ", self.control.salt, n))),
             f"checksum of page {n}")
        lsn, base, number = struct.unpack_from("<QQQ", data, 8)
        need(number == n and u(data, 6, 2) == 0, f"header of page {n}")
        need(base <= lsn < self.meaning.end, f"LSNs of page {n}")
        need(self.meaning.names[u(data, 4, 2)].kind == PAGE_TYPE, f"type of page {n}")
        return self.type_of(n)

    def roots(self):
        at = 0
        while True:
            data = self.page(at)
            need(u(data, 40, 4) == self.span and u(data, 44, 4) == 0, f"root page {at}")
            for entry in range(48, self.size - 79, 80):
                if data[entry] == 1:
                    name = data[entry + 17:entry + 80].rstrip(b"\0").decode("ascii")
                    yield name, u(data, entry + 1, 8), u(data, entry + 9, 8)
            at = u(data, 32, 8)
            if at == 0:
                return

    def slots(self, n):
        """Returns (slot, tag, contents) for each record of a slotted page. Checks what the page's
        header says."""
        data = self.page(n)
        slots, unused, area, holes, ghosts, idle = struct.unpack_from("<HHHHHH", data, 32)
        there, occupied, given, gain = [], 0, 0, 0
        for s in range(slots):
            word, length, cap = struct.unpack_from("<HHH", data, 56 + 6 * s)
            at, ghost, tag, cap = (word & 0x3fff) * 4, word >> 15, cap & 3, cap & ~3
            if at == 0:
                continue
            need(at >= self.size - area and at + cap <= self.size and length <= cap and cap >= 8,
                 f"slot {s} of page {n}")
            occupied += cap
            given += ghost
            gain += cap if ghost else cap - max(8, (length + 3) // 4 * 4)
            there.append((s, tag, data[at:at + length], ghost))
        need(occupied + holes == area and slots - len(there) == unused and given == ghosts
             and gain == idle, f"counts of slotted page {n}")
        return [(s, tag, data) for s, tag, data, ghost in there if not ghost]

    def heap(self, first):
        """Yields every record of a heap. A record that has moved is read through its stub."""
        at = first
        while True:
            data = self.page(at)
            need(self.type_of(at) == "lladd.heap" and u(data, 40, 8) == first, f"inventory {at}")
            for i in range(u(data, 48, 4)):
                n = u(data, 56 + 8 * i, 6)
                need(u(self.page(n), 48, 8) == at << 16 | i, f"owner of page {n}")
                for slot, tag, contents in self.slots(n):
                    if tag == 1:
                        page, there = u(contents, 0, 6), u(contents, 6, 2)
                        moved = {s: (t, c) for s, t, c in self.slots(page)}[there]
                        need(moved[0] == 2 and (u(moved[1], 0, 6), u(moved[1], 6, 2)) == (n, slot),
                             f"stub {n}.{slot}")
                        contents = moved[1][8:]
                    if tag != 2:
                        yield n, slot, tag, contents
            at = u(data, 32, 8)
            if at == 0:
                return

    def fixed(self, n):
        data = self.page(n)
        size, slots, used, given, zero = struct.unpack_from("<HHHHQ", data, 32)
        plane = (slots + 63) // 64 * 8
        bits = [[data[48 + p * plane + s // 8] >> s % 8 & 1 for s in range(slots)] for p in (0, 1)]
        need(zero == 0 and sum(bits[0]) == used and sum(bits[1]) == given, f"fixed page {n}")
        for s in range(slots):
            if bits[0][s] and not bits[1][s]:
                at = 48 + 2 * plane + s * size
                yield s, data[at:at + size]


def check_dwb(folder, control):
    with open(os.path.join(folder, "dwb"), "rb") as file:
        data = file.read()
    need(len(data) == 17 * control.page_size, "size of dwb")
    size = control.page_size
    if any(data[:size]) and any(data[size:2 * size]):
        need(data[:size] == data[size:2 * size], "headers of dwb differ")
        need(data[:8] == b"LLADDdwb" and u(data, 8, 4) == 3 and u(data, 12, 4) == control.salt
             and u(data, 16, 4) == size and u(data, 20, 4) <= 15, "header of dwb")


def show(data):
    return "".join(chr(b) if 32 <= b < 127 else f"\\x{b:02x}" for b in data)


def main(folder):
    control = Control(folder)
    log = Log(folder, control)
    meaning = Meaning(control, log)
    print(f"control clean={int(control.clean)} incarnation={control.incarnation} "
          f"page_size={control.page_size}")
    need(control.checkpoint in meaning.lsns, "the checkpoint's LSN is no record")
    need(control.watermark <= meaning.end, "the watermark lies beyond the end")
    if control.clean:
        need(control.end == meaning.end, f"the log ends at {meaning.end}, not {control.end}")
    print("kinds " + " ".join(str(k) for k in sorted(meaning.kinds)))
    print(f"log wide={meaning.wide} deepest={meaning.deepest} checkpoints={meaning.checkpoints}")
    for name in sorted(meaning.names.values(), key=lambda n: n.number):
        print(f"name {name.number} kind={name.kind} {name.name} {name.version}")
    need(sorted(meaning.names) == list(range(1, len(meaning.names) + 1)), "numbers are not dense")
    for name, lsn in sorted(meaning.pins.items()):
        print(f"pin {name} {lsn}")
    for tag, data in meaning.notes:
        print(f"note {tag} {len(data)} {show(data[:16])}")
    for txn, gid in sorted(meaning.prepared.items()):
        print(f"prepared {gid[0]} {gid[1]} {gid[2]} {gid[3]}")
    for gid, outcome in sorted(meaning.outcomes.items()):
        print(f"outcome {gid[0]} {gid[1]} {gid[2]} {outcome}")
    for name, total, at, data in meaning.blobs:
        print(f"blob {name} {total} {at} {len(data)}")
    for first, n in meaning.barriers:
        print(f"redo barrier {first} {n}")
    for page, n in sorted(meaning.images.items()):
        print(f"image {page} {n}")
    check_dwb(folder, control)
    if not control.clean:
        return  # pages may be older than the log
    pages = Pages(folder, control, meaning)
    for n in range(pages.count):
        if pages.use(n) == 1:
            print(f"page {n} raw {show(pages.page(n)[:8])}")
            continue
        kind = pages.check(n)
        if kind:
            print(f"page {n} {kind} use={pages.use(n)}")
        if kind == "lladd.fixed":
            for slot, data in pages.fixed(n):
                print(f"fixed {n}.{slot} {show(data)}")
        elif kind == "lladd.slotted":
            pages.slots(n)
    for name, a, b in pages.roots():
        print(f"root {name} {a} {b}")
        if a and a < pages.count and pages.type_of(a) == "lladd.bytes":
            print(f"bytes {name} {show(pages.page(a)[32:48])}")
        if a and a < pages.count and pages.type_of(a) == "lladd.heap":
            for n, slot, tag, data in pages.heap(a):
                print(f"heap {name} {n}.{slot} tag={tag} {len(data)} {show(data[:12])}")


if __name__ == "__main__":
    main(sys.argv[1])
