/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile control blocks. The input is a byte of flags, then two copies of the control block. With
 * FIX, each complete copy gets a good checksum and magic, so that the decoder must check the other
 * fields.
 *
 * The decoder must not crash or read out of bounds. A block that it accepts must be consistent, and
 * must be the same after encoding and decoding. If both copies are good, the newer copy must be
 * used.
 */
#include "fuzz.h"
#include "io/io.h"
#include "recovery/core.h"
#include "util/crc32c.h"

#include <lladd/bytes.h>
#include <stdlib.h>
#include <string.h>

enum { FIX = 1, FILE_MAX = 2 * LL_CONTROL_COPY };

static bool power_of_two(uint32_t v)
{
    return v && (v & (v - 1)) == 0;
}

static int decode(const unsigned char *bytes, struct ll_control *c)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = ll_control_decode(bytes, c, &err);
    if (rc) {
        MUST(rc == LLADD_NOT_A_DATABASE || rc == LLADD_CORRUPT_CONTROL || rc == LLADD_NEWER_FORMAT);
        MUST(err.code == rc && err.message[0]);
        return rc;
    }
    MUST(c->format >= 1 && c->format <= LL_FORMAT_VERSION);
    MUST((c->incompatible & ~LL_FEATURES_KNOWN) == 0);
    MUST(power_of_two(c->page_size) && c->page_size >= 4096 && c->page_size <= 65536);
    unsigned char again[LL_CONTROL_BYTES], thrice[LL_CONTROL_BYTES];
    struct ll_control same;
    ll_control_encode(c, again);
    MUST(ll_control_decode(again, &same, NULL) == 0);
    ll_control_encode(&same, thrice);
    MUST(memcmp(again, thrice, sizeof again) == 0);
    MUST(same.seq == c->seq && same.checkpoint.v == c->checkpoint.v && same.clean == c->clean);
    return 0;
}

static void fix(unsigned char *bytes)
{
    memcpy(bytes + 4, "LLDB", 4);
    lladd_put32(bytes, ll_crc32c(0, bytes + 4, LL_CONTROL_BYTES - 4));
}

/* Reads the file with ll_control_read, which lladd_open calls. */
static void read_file(const unsigned char *bytes, size_t size, const struct ll_control copies[2],
                      const int good[2])
{
    struct lladd_device *dev;
    struct lladd_file *file;
    struct ll_control c;
    struct lladd_error err = LLADD_ERROR_INIT;
    MUST(lladd_device_memory(&dev) == 0);
    MUST(ll_io_open(dev, "control", LLADD_OPEN_CREATE, &file) == 0);
    MUST(ll_io_pwrite(dev, file, bytes, size, 0) == 0);
    int rc = ll_control_read(dev, file, &c, &err);
    MUST(rc == (rc ? err.code : 0));
    bool newer = good[0] == LLADD_NEWER_FORMAT || good[1] == LLADD_NEWER_FORMAT;
    MUST((rc == LLADD_NEWER_FORMAT) == newer);
    MUST(newer || (rc == 0) == (good[0] == 0 || good[1] == 0));
    for (int i = 0; rc == 0 && i < 2; i++)
        MUST(good[i] || c.seq >= copies[i].seq);
    MUST(ll_io_close(dev, file) == 0);
    lladd_device_close(dev);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned char bytes[FILE_MAX] = {0};
    struct ll_control copies[2];
    int good[2] = {LLADD_CORRUPT_CONTROL, LLADD_CORRUPT_CONTROL};
    if (size < 1)
        return 0;
    unsigned flags = data[0];
    size_t len = size - 1 < FILE_MAX ? size - 1 : FILE_MAX;
    /* In the file, unused bytes separate the two copies. The input does not contain them. */
    size_t first = len < LL_CONTROL_BYTES ? len : LL_CONTROL_BYTES;
    memcpy(bytes, data + 1, first);
    size_t second = len - first < LL_CONTROL_BYTES ? len - first : LL_CONTROL_BYTES;
    memcpy(bytes + LL_CONTROL_COPY, data + 1 + first, second);
    size_t file = second ? LL_CONTROL_COPY + second : first;
    for (int i = 0; i < 2; i++) {
        unsigned char *copy = bytes + (size_t)i * LL_CONTROL_COPY;
        bool whole = file >= (size_t)i * LL_CONTROL_COPY + LL_CONTROL_BYTES;
        if (whole && (flags & FIX))
            fix(copy);
        if (whole)
            good[i] = decode(copy, &copies[i]);
    }
    read_file(bytes, file, copies, good);
    return 0;
}
