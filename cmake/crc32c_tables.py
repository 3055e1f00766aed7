#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints util/crc32c_tables.h. A test compares the output with that file (tests/tidy).

Here bit i of a polynomial over GF(2) stands for x^i. The tables that are printed are bit-reversed
(x^31 in bit 0), as in CRC-32C and in the processors' instructions.
"""

POLY = 0x11EDC6F41  # Castagnoli
LANE_WORDS_MAX = 170  # three lanes of 170 words are 4080 of a page's 4096 bytes


def x_to(n):
    """x^n mod POLY; n may be negative (POLY has a constant term, so x has an inverse)."""
    r = 1
    for _ in range(abs(n)):
        if n > 0:
            r <<= 1
            if r >> 32:
                r ^= POLY
        else:
            if r & 1:
                r ^= POLY
            r >>= 1
    return r


def reflect(v):
    return int(f"{v:032b}"[::-1], 2)


def slices():
    """Table k maps a byte to its effect after k more bytes of zeros."""
    first = []
    for byte in range(256):
        r = byte
        for _ in range(8):
            r = (r >> 1) ^ (reflect(POLY & 0xFFFFFFFF) if r & 1 else 0)
        first.append(r)
    tables = [first]
    for _ in range(7):
        last = tables[-1]
        tables.append([(v >> 8) ^ first[v & 0xFF] for v in last])
    return tables


def rows(values, indent, end=""):
    lines = []
    for i in range(0, len(values), 7):
        lines.append(indent + ", ".join(f"0x{v:08x}" for v in values[i:i + 7]) + ",")
    lines[-1] = lines[-1][:-1] + end
    return "\n".join(lines)


print("""/* SPDX-License-Identifier: BSD-2-Clause */
/* Written by cmake/crc32c_tables.py; do not edit. */
/* clang-format off */
#ifndef LL_UTIL_CRC32C_TABLES_H
#define LL_UTIL_CRC32C_TABLES_H
#include <stdint.h>

/* [k][b]: the effect of byte b when k more bytes follow it. */
static const uint32_t crc32c_slices[8][256] = {""")
for number, table in enumerate(slices()):
    print("    {")
    print(rows(table, " " * 8))
    print("    }" + ("," if number < 7 else ""))
print("};")
print(f"""
#define CRC32C_LANE_WORDS_MAX {LANE_WORDS_MAX}

/* [n]: x^(64n - 33), the factor that carries a CRC over the 8n bytes after it (crc32c.c). */
static const uint32_t crc32c_carry[2 * CRC32C_LANE_WORDS_MAX + 1] = {{""")
print(rows([reflect(x_to(64 * n - 33)) for n in range(2 * LANE_WORDS_MAX + 1)], " " * 4))
print("""};

#endif""")
