/* SPDX-License-Identifier: BSD-2-Clause */
/* See db_fixture.h. */
#include "db_fixture.h"

#include "support/fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct fault_crash fault_power = {FAULT_POWER, 0, false};
const struct fault_crash fault_kill = {FAULT_KILL, 0, false};

void fixture_init(struct fixture *r, unsigned kind)
{
    memset(r, 0, sizeof *r);
    r->kind = kind;
    if (kind & FIXTURE_FILES) {
        r->dir = temp_dir_new();
    } else {
        ck_assert_int_eq(lladd_device_memory(&r->base), 0);
        r->fd = fault_device_new(r->base);
    }
    fault_alloc_init(&r->mem);
    test_world_init(&r->world, 7);
    r->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    r->options.device = r->fd ? fault_device_dev(r->fd) : NULL;
    r->options.allocator = &r->mem.mem;
    r->options.world = &r->world.world;
    r->options.flags = kind & FIXTURE_THREADS ? 0 : LLADD_OPT_NO_THREADS;
    r->options.frames =
        kind & FIXTURE_RESERVED && LL_TEST_CAN_RESERVE ? LLADD_FRAMES_RESERVED : LLADD_FRAMES_HEAP;
    r->options.cache_bytes = 1u << 20;
    r->options.log_ring_bytes = 128u << 10;
    r->options.log_segment_min = 16u << 10;
    r->options.log_segment_max = 64u << 10;
    ck_assert_int_eq(lladd_register_extension(&r->options, &test_extension, &r->err), 0);
}

void fixture_free(struct fixture *r)
{
    if (r->db)
        fixture_close(r);
    lladd_options_release(&r->options);
    if (r->fd) {
        ck_assert_uint_eq(fault_device_open_files(r->fd), 0);
        fault_device_free(r->fd);
        lladd_device_close(r->base);
    }
    ck_assert_uint_eq(fault_alloc_live(&r->mem), 0);
    test_world_free(&r->world);
    temp_dir_remove(r->dir);
    free(r->trace);
    r->trace = NULL;
}

static void add_line(void *ctx, const char *line)
{
    struct fixture *r = ctx;
    size_t len = strlen(line);
    if (r->trace_len + len + 2 > r->trace_cap) {
        r->trace_cap = 2 * (r->trace_len + len + 2);
        r->trace = realloc(r->trace, r->trace_cap);
        ck_assert_ptr_nonnull(r->trace);
    }
    memcpy(r->trace + r->trace_len, line, len);
    r->trace_len += len;
    memcpy(r->trace + r->trace_len++, "\n", 2);
}

void fixture_want_trace(struct fixture *r)
{
    r->options.trace = add_line;
    r->options.callback_ctx = r;
}

int fixture_try_open(struct fixture *r)
{
    ck_assert_ptr_null(r->db);
    r->trace_len = 0;
    if (r->trace)
        r->trace[0] = 0;
    r->err = (struct lladd_error)LLADD_ERROR_INIT;
    int rc = lladd_open(r->dir, &r->options, &r->db, &r->err);
    if (rc) {
        ck_assert_ptr_null(r->db);
        ck_assert_int_eq(r->err.code, rc);
        ck_assert_str_ne(r->err.message, "");
        ck_assert_ptr_nonnull(r->err.source);
        return rc;
    }
    r->ids = test_ids_of(r->db);
    return 0;
}

void fixture_open(struct fixture *r)
{
    ok_db(r, fixture_try_open(r));
}

void fixture_close(struct fixture *r)
{
    struct lladd_db *db = r->db;
    r->db = NULL;
    done(lladd_close(db));
    /* A clean close makes all changes durable, so the power may fail after it. */
    if (r->fd && r->options.device == fault_device_dev(r->fd))
        fault_device_power_cycle(r->fd, &fault_power);
}

void fixture_crash(struct fixture *r, const struct fault_crash *how)
{
    struct lladd_db *db = r->db;
    r->db = NULL;
    lladd_db_kill(db);
    if (r->fd)
        fault_device_power_cycle(r->fd, how);
}

void fixture_reopen(struct fixture *r)
{
    fixture_close(r);
    fixture_open(r);
}

struct lladd_txn *fixture_begin_with(struct fixture *r, const struct lladd_txn_options *o)
{
    struct lladd_txn *txn = NULL;
    ok_db(r, lladd_begin(r->db, o, &txn, &r->err));
    return txn;
}

struct lladd_txn *fixture_begin(struct fixture *r)
{
    return fixture_begin_with(r, NULL);
}

void fixture_pages(struct fixture *r, lladd_pageno *out, size_t n)
{
    struct lladd_txn *txn = fixture_begin(r);
    for (size_t i = 0; i < n; i++) {
        ok(txn, lladd_page_alloc(txn, &out[i]));
        ok(txn, cells_format(txn, out[i]));
    }
    done(lladd_commit(txn));
}

lladd_pageno fixture_page(struct fixture *r)
{
    lladd_pageno page;
    fixture_pages(r, &page, 1);
    return page;
}

void fixture_set(struct fixture *r, struct cell c, uint64_t value)
{
    struct lladd_txn *txn = fixture_begin(r);
    ok(txn, cell_put(txn, c, value));
    done(lladd_commit(txn));
}

void fixture_expect(struct fixture *r, struct cell c, uint64_t value)
{
    ck_assert_uint_eq(cell_get(r->db, c), value);
}

static void fill_some(struct fixture *r, lladd_pageno scratch, uint64_t value)
{
    struct lladd_txn *txn = fixture_begin(r);
    ok(txn, cell_put_wide(txn, cell_of(scratch, 1), value, WIDE_MAX));
    done(lladd_commit(txn));
}

void fixture_fill_log(struct fixture *r, lladd_pageno scratch, uint64_t bytes)
{
    uint64_t end = fixture_stats(r).log_tail + bytes;
    while (fixture_stats(r).log_tail < end)
        fill_some(r, scratch, 1);
}

void fixture_forget_log(struct fixture *r, lladd_pageno scratch)
{
    uint64_t end = fixture_stats(r).log_tail;
    do {
        for (unsigned i = 0; i < 10; i++) {
            fill_some(r, scratch, i);
            ok_db(r, lladd_checkpoint(r->db, &r->err));
        }
        fixture_reopen(r);
    } while (fixture_stats(r).log_oldest < end);
}

void fixture_fuzzy_checkpoint(struct fixture *r, lladd_pageno scratch)
{
    uint64_t before = fixture_stats(r).checkpoints;
    for (unsigned i = 0; fixture_stats(r).checkpoints == before; i++) {
        struct lladd_txn *txn = fixture_begin(r);
        ok(txn, cell_put_wide(txn, cell_of(scratch, 40), i, 1500));
        done(lladd_commit_async(txn, NULL));
        ok_db(r, lladd_maintain(r->db, NULL, &r->err));
        ck_assert_uint_lt(i, 1000);
    }
}

struct lladd_stats fixture_stats(struct fixture *r)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_stats_get(r->db, &s), 0);
    return s;
}

/* Returns the device on which the database's files are. With FIXTURE_FILES this is a new device for
 * the directory, and *own becomes the device, too, which the caller closes. Otherwise *own becomes
 * NULL. */
static struct lladd_device *device_of(struct fixture *r, struct lladd_device **own)
{
    *own = NULL;
    if (r->base)
        return r->base;
    ck_assert_int_eq(lladd_device_posix(r->dir, false, own, NULL), 0);
    return *own;
}

unsigned char *fixture_file(struct fixture *r, const char *name, size_t *len)
{
    struct lladd_device *own, *dev = device_of(r, &own);
    struct lladd_file *f;
    unsigned char *bytes = NULL;
    uint64_t size = 0;
    int rc = dev->ops->open(dev, name, LLADD_OPEN_READ_ONLY, &f);
    if (rc == 0) {
        ck_assert_int_eq(dev->ops->size(dev, f, &size), 0);
        bytes = malloc(size + 1);
        ck_assert_ptr_nonnull(bytes);
        ck_assert_int_eq(dev->ops->pread(dev, f, bytes, size, 0), (int64_t)size);
        ck_assert_int_eq(dev->ops->close(dev, f), 0);
    }
    lladd_device_close(own);
    *len = size;
    return bytes;
}

void fixture_file_write(struct fixture *r, const char *name, const void *bytes, size_t len,
                        uint64_t off)
{
    struct lladd_device *own, *dev = device_of(r, &own);
    struct lladd_file *f;
    struct lladd_iovec piece = {bytes, len};
    ck_assert_int_eq(dev->ops->open(dev, name, LLADD_OPEN_CREATE, &f), 0);
    if (len)
        ck_assert_int_eq(dev->ops->pwritev(dev, f, &piece, 1, off), 0);
    ck_assert_int_eq(dev->ops->close(dev, f), 0);
    lladd_device_close(own);
    if (r->fd) { /* the crash model must know the new contents of the file */
        ck_assert_ptr_null(r->db);
        fault_device_free(r->fd);
        r->fd = fault_device_new(r->base);
        r->options.device = fault_device_dev(r->fd);
    }
}

struct lladd_gid gid_of(const char *text)
{
    struct lladd_gid gid = {.format = 1, .gtrid_length = (uint32_t)strlen(text)};
    memcpy(gid.data, text, gid.gtrid_length);
    return gid;
}

void fixture_maintain(struct fixture *r)
{
    bool more = true;
    for (int i = 0; more && i < 10000; i++)
        ok_db(r, lladd_maintain(r->db, &more, &r->err));
    ck_assert(!more);
}

/* ---- two-phase commit ---- */

struct lladd_txn *fixture_prepared(struct fixture *r, const char *name, struct cell cell,
                                   uint64_t value)
{
    struct lladd_gid gid = gid_of(name);
    struct lladd_txn *txn = fixture_begin(r);
    ok(txn, cell_put(txn, cell, value));
    ok(txn, lladd_prepare(txn, &gid));
    return txn;
}

struct lladd_txn *fixture_claim(struct fixture *r, const char *name)
{
    struct lladd_gid gid = gid_of(name);
    struct lladd_txn *txn = NULL;
    ok_db(r, lladd_in_doubt_claim(r->db, &gid, &txn, &r->err));
    return txn;
}

static int add_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    struct fixture_doubts *d = ctx;
    ck_assert_uint_lt(d->n, sizeof d->info / sizeof d->info[0]);
    d->info[d->n++] = *info;
    return 0;
}

struct fixture_doubts fixture_in_doubt(struct fixture *r)
{
    struct fixture_doubts d = {.n = 0};
    ok_db(r, lladd_in_doubt_each(r->db, add_doubt, &d, &r->err));
    return d;
}
