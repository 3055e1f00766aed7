/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffer manager on a hostile page file. The input is a byte of flags, a byte that selects the
 * changes, a length n, an unused byte, n bytes for the header of the double-write area, then the
 * contents of the page file. Missing bytes are zeros; with SHORTER, the page file is shorter
 * instead. With FIX_AREA the header gets the right checksum. Without KEEP_FIELDS it also gets valid
 * fields before the count of copies, and a count less than 256.
 *
 * There must be no crash or access out of bounds. A page is returned only if it is all zeros or has
 * the right number and checksum; otherwise the error is LLADD_CORRUPT_PAGE. An invalid page that is
 * requested for redo is returned as zeros. If the double-write area is not refused, all pages are
 * changed and flushed; then each page in the file must have the right number and checksum.
 */
#include "fuzz.h"
#include "buffer/buffer.h"
#include "io/io.h"
#include "util/crc32c.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, PAGES_MAX = 6, SALT = 7, DWB_PAGES = 16 };
enum { FIX_PAGES = 1, FIX_AREA = 2, RESERVED = 4, SHORTER = 8, KEEP_FIELDS = 16 };

static bool refused; /* the double-write area was refused */

static int may_write(void *ctx, lladd_pageno n, lladd_lsn lsn, lladd_lsn *durable,
                     struct lladd_error *err)
{
    (void)ctx, (void)n, (void)lsn, (void)err;
    durable->v = UINT64_MAX;
    return 0;
}

static void store(struct lladd_device *dev, const char *name, const unsigned char *bytes, size_t n)
{
    struct lladd_file *file;
    MUST(dev->ops->open(dev, name, LLADD_OPEN_CREATE, &file) == 0);
    MUST(ll_io_pwrite(dev, file, bytes, n, 0) == 0);
    MUST(ll_io_close(dev, file) == 0);
}

static void load(struct lladd_device *dev, uint64_t page, unsigned char *bytes)
{
    struct lladd_file *file;
    MUST(dev->ops->open(dev, "pages", LLADD_OPEN_READ_ONLY, &file) == 0);
    int64_t got = ll_io_pread(dev, file, bytes, PAGE, page * PAGE);
    MUST(got >= 0);
    memset(bytes + got, 0, PAGE - (size_t)got);
    MUST(ll_io_close(dev, file) == 0);
}

/* Must the library accept the page? Decided without the library's own check. */
static bool is_sound(uint64_t n, const unsigned char *bytes)
{
    unsigned char identity[12];
    bool zeros = true;
    for (unsigned i = 0; i < PAGE; i++)
        zeros = zeros && bytes[i] == 0;
    lladd_put32(identity, SALT);
    lladd_put64(identity + 4, n);
    uint32_t crc = ll_crc32c_portable(ll_crc32c_portable(0, identity, 12), bytes + 4, PAGE - 4);
    return zeros || (crc == lladd_get32(bytes) && lladd_get64(bytes + 24) == n);
}

static void make_area(struct lladd_device *dev, const uint8_t *data, size_t size, unsigned flags)
{
    static unsigned char area[(DWB_PAGES + 1) * PAGE];
    memset(area, 0, sizeof area);
    memcpy(area, data, size);
    if ((flags & FIX_AREA) && !(flags & KEEP_FIELDS)) {
        memcpy(area, "LLADDdwb", 8);
        lladd_put32(area + 8, 1);
        lladd_put32(area + 12, SALT);
        lladd_put32(area + 16, PAGE);
        area[21] = area[22] = area[23] = 0;
    }
    if (flags & FIX_AREA) { /* the header's checksum, and every second copy of a page */
        unsigned two = lladd_get32(area + 8) == 3;
        for (uint64_t i = 0; i < DWB_PAGES - two; i++) {
            unsigned char *copy = area + (i + 1 + two) * PAGE;
            unsigned char *entry = area + 24 + i * 12;
            lladd_put64(copy + 8, 5);
            lladd_put64(copy + 24, lladd_get64(entry));
            lladd_put32(copy,
                        ll_page_crc(SALT, ll_double_write_page(area, (uint32_t)i), copy, PAGE));
            if (i % 2 == 0)
                lladd_put32(entry + 8, lladd_get32(copy));
        }
        lladd_put32(area + PAGE - 4, ll_crc32c(0, area, PAGE - 4));
        if (two)
            memcpy(area + PAGE, area, PAGE);
    }
    store(dev, "dwb", area, sizeof area);
}

static void make_pages(struct lladd_device *dev, const uint8_t *data, size_t size, unsigned flags)
{
    static unsigned char pages[PAGES_MAX * PAGE];
    size = size < sizeof pages ? size : sizeof pages;
    memset(pages, 0, sizeof pages);
    memcpy(pages, data, size);
    for (uint64_t n = 0; (flags & FIX_PAGES) && n < PAGES_MAX; n += 2) {
        unsigned char *page = pages + n * PAGE;
        lladd_put64(page + 24, n);
        lladd_put32(page, ll_page_crc(SALT, lladd_page_of(n), page, PAGE));
    }
    store(dev, "pages", pages, flags & SHORTER ? size : sizeof pages);
}

static void read_all(struct ll_buffer *b, struct lladd_device *dev)
{
    unsigned char stored[PAGE], bulk[PAGE];
    for (uint64_t n = 0; n < ll_buffer_page_count(b); n++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        struct ll_frame *f;
        load(dev, n, stored);
        int rc = ll_buffer_fix(b, lladd_page_of(n), LL_FIX_SHARED, &f, &err);
        MUST((rc == 0) == is_sound(n, stored));
        MUST(rc == ll_buffer_bulk_read(b, lladd_page_of(n), 1, bulk, true, NULL));
        if (rc == 0) {
            MUST(memcmp(f->page.bytes, stored, PAGE) == 0 && memcmp(bulk, stored, PAGE) == 0);
            ll_buffer_unfix(b, f, LL_FIX_SHARED);
        } else {
            MUST(rc == LLADD_CORRUPT_PAGE && err.page.v == n && err.message[0]);
        }
    }
}

/* Changes each page as redo does. An invalid page is returned as zeros, without a base. */
static void change_all(struct ll_buffer *b, struct lladd_device *dev, uint8_t dice)
{
    unsigned char stored[PAGE];
    uint64_t count = ll_buffer_page_count(b);
    for (uint64_t n = 0; n < count + 1; n++) {
        struct ll_frame *f;
        unsigned how = LL_FIX_EXCLUSIVE | LL_FIX_REDO;
        load(dev, n, stored);
        bool sound = is_sound(n, stored);
        MUST(ll_buffer_fix(b, lladd_page_of(n), how, &f, NULL) == 0);
        MUST(((f->flags & LL_FRAME_BASELESS) == 0) == sound);
        for (unsigned i = 0; !sound && i < PAGE; i++)
            MUST(f->page.bytes[i] == 0);
        ll_buffer_dirty(b, f, lladd_lsn_of(n + 1));
        f->page.bytes[LLADD_PAGE_HEADER + dice % 32] ^= dice;
        ll_page_set_lsn(f->page.bytes, lladd_lsn_of(n + 1));
        ll_page_set_base(f->page.bytes, lladd_lsn_of((dice >> (n % 8)) & 1 ? 0 : n + 1));
        ll_buffer_unfix(b, f, how);
    }
}

static void check_all(struct ll_buffer *b, struct lladd_device *dev)
{
    unsigned char stored[PAGE];
    for (uint64_t n = 0; n < ll_buffer_page_count(b); n++) {
        load(dev, n, stored);
        MUST(is_sound(n, stored));
    }
}

bool fuzz_refused(void)
{
    return refused;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    unsigned flags = data[0];
    uint8_t dice = data[1];
    size_t header = data[2] < size - 4 ? data[2] : size - 4;
    struct lladd_device *dev;
    struct ll_env env;
    struct ll_buffer *b;
    struct lladd_error err = LLADD_ERROR_INIT;
    MUST(lladd_device_memory(&dev) == 0);
    ll_env_init(&env, NULL, NULL, false);
    make_area(dev, data + 4, header, flags);
    make_pages(dev, data + 4 + header, size - 4 - header, flags);

    struct ll_poison poison;
    ll_poison_init(&poison);
    struct ll_buffer_config cfg = {
        .env = &env,
        .poison = &poison,
        .dev = dev,
        .name = "pages",
        .dwb_name = "dwb",
        .page_size = PAGE,
        .budget = flags & RESERVED ? 1 << 20 : 8 * PAGE + 16384,
        .salt = SALT,
        .frames = flags & RESERVED && sizeof(void *) >= 8 ? LL_FRAMES_RESERVED
                                                            : LL_FRAMES_HEAP,
        .recovery = {.may_write = may_write},
    };
    MUST(ll_buffer_open(&cfg, &b, &err) == 0);
    uint64_t restored;
    int rc = ll_buffer_double_write_restore(b, &restored, &err);
    MUST(rc == 0 || (err.code == rc && err.message[0] &&
                     (rc == LLADD_FOREIGN_FILE || rc == LLADD_NEWER_FORMAT ||
                      rc == LLADD_CORRUPT_PAGE)));
    refused = rc != 0;
    read_all(b, dev);
    ll_buffer_protect(b, lladd_lsn_of(1));
    MUST(ll_buffer_drop(b, lladd_page_of(0), UINT64_MAX) == 0);
    if (rc == 0 && ll_buffer_page_count(b) <= 2 * PAGES_MAX) {
        change_all(b, dev, dice);
        lladd_lsn all = lladd_lsn_of(UINT64_MAX);
        MUST(ll_buffer_flush(b, all, &err) == 0);
        check_all(b, dev);
    }
    ll_buffer_close(b);
    lladd_device_close(dev);
    return 0;
}
