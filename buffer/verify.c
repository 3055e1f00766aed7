/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verify: checks that bytes are page n of this database (BUF-2).
 *
 * The checksum covers the salt, the page number and all bytes after the checksum. So a page of
 * another database and a page written to the wrong place fail this check. The page number is in the
 * header as well, so that the message can say which page was found. A page of zeros was never
 * formatted and has no checksum. A page with a correct checksum must also be neither older than its
 * last known write (write_history.c) nor newer than the log. A page that is newer than the log
 * shows that the log may have lost acknowledged commits; such a page is not repaired.
 */
#include "buffer/buffer_private.h"
#include "util/crc32c.h"

#include <stdio.h>

bool ll_page_is_zero(const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

uint32_t ll_page_crc(uint32_t salt, lladd_pageno n, const void *bytes, uint32_t page_size)
{
    unsigned char identity[12];
    lladd_put32(identity, salt);
    lladd_put64(identity + 4, n.v);
    uint32_t crc = ll_crc32c(0, identity, sizeof identity);
    return ll_crc32c(crc, (const unsigned char *)bytes + 4, page_size - 4);
}

int ll_page_verify(uint32_t salt, lladd_pageno n, const void *bytes, uint32_t page_size,
                   const char *file, struct lladd_error *err)
{
    uint32_t crc = ll_page_crc(salt, n, bytes, page_size);
    uint64_t number = ll_page_number(bytes);
    unsigned long long shown = n.v;
    if (LL_LIKELY(crc == ll_page_checksum(bytes) && number == n.v) ||
        LLADD_PLANTED(LLADD_BUG_PAGE_CRC))
        return 0;
    if (ll_page_is_zero(bytes, page_size))
        return 0;
    if (number != n.v &&
        ll_page_crc(salt, lladd_page_of(number), bytes, page_size) == ll_page_checksum(bytes))
        return ll_fail_page(err, LLADD_CORRUPT_PAGE, n,
                            "\"%s\": the place of page %llu holds page %llu", file, shown,
                            (unsigned long long)number);
    return ll_fail_page(err, LLADD_CORRUPT_PAGE, n,
                        "\"%s\": page %llu has checksum %08x instead of %08x", file, shown,
                        ll_page_checksum(bytes), crc);
}

static int verify_age(struct ll_buffer *b, uint64_t n, lladd_lsn lsn, struct lladd_error *err)
{
    uint64_t written = ll_buffer__history_last(b, n);
    if (LL_LIKELY(lsn.v >= written))
        return 0;
    lladd_atomic_count64(&b->count.lost_writes, 1);
    return ll_fail_page(err, LLADD_CORRUPT_PAGE, lladd_page_of(n),
                        "\"%s\": page %llu has page LSN %llu, but was written with %llu: that "
                        "write was lost",
                        b->cfg.name, (unsigned long long)n, (unsigned long long)lsn.v,
                        (unsigned long long)written);
}

/* No page is written before its records are durable (BUF-1). So if recovery did not find the record
 * at the page LSN, the log has lost a durable part (LOG-3). The page may have changes that cannot
 * be undone. */
int ll_buffer__verify(struct ll_buffer *b, uint64_t n, const unsigned char *bytes,
                      struct lladd_error *err)
{
    int rc = ll_page_verify(b->cfg.salt, lladd_page_of(n), bytes, b->page_size, b->cfg.name, err);
    lladd_lsn lsn = ll_page_lsn(bytes);
    if (rc == 0)
        rc = verify_age(b, n, lsn, err);
    if (rc || lsn.v == 0 || !b->cfg.recovery.lost ||
        !b->cfg.recovery.lost(b->cfg.recovery.ctx, lsn))
        return rc;
    return ll_fail_page(err, LLADD_LOG_LOST, lladd_page_of(n),
                        "the log has lost its end: page %llu of \"%s\" has page LSN %llu, and "
                        "the log was cut off there",
                        (unsigned long long)n, b->cfg.name, (unsigned long long)lsn.v);
}

void ll_buffer__seal(const struct ll_buffer *b, uint64_t n, unsigned char *bytes)
{
    if (ll_page_lsn(bytes).v == 0 && ll_page_is_zero(bytes, b->page_size))
        return;
    ll_page_set_number(bytes, n);
    lladd_put32(bytes, ll_page_crc(b->cfg.salt, lladd_page_of(n), bytes, b->page_size));
}

int ll_buffer__read_pages(struct ll_buffer *b, uint64_t first, uint64_t n, unsigned char *bytes,
                          struct lladd_error *err)
{
    size_t len = (size_t)n * b->page_size;
    lladd_atomic_count64(&b->count.reads, 1);
    if (n == 1) /* prefetches the page's line of the write history into the processor's cache; for a
                 * bulk read this would not pay */
        ll_buffer__expect_read(b, first);
    int64_t got = ll_point(b->env, "buffer.load");
    if (got == 0)
        got = ll_io_pread(b->cfg.dev, b->file, bytes, len, first * b->page_size);
    if (got < 0) {
        char what[64];
        (void)snprintf(what, sizeof what, "read page %llu of", (unsigned long long)first);
        int rc = ll_fail_io(err, (int)got, false, what, b->cfg.name);
        if (err)
            err->page.v = first;
        return rc;
    }
    memset(bytes + got, 0, len - (size_t)got);
    return 0;
}
