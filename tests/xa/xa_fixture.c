/* SPDX-License-Identifier: BSD-2-Clause */
#include "xa_fixture.h"

#include <lladd/pages.h>
#include <lladd/records.h>

const struct fault_crash fixture_power = {FAULT_POWER, 0, false};
const struct fault_crash fixture_kill = {FAULT_KILL, 0, false};

static void make_page(struct fixture *b)
{
    struct lladd_db *db;
    struct lladd_txn *txn;
    ck_assert_int_eq(lladd_open("db", &b->options, &db, &b->err), 0);
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, &b->err), 0);
    ck_assert_int_eq(lladd_page_alloc(txn, &b->page), 0);
    ck_assert_int_eq(lladd_page_format(txn, b->page, "lladd.bytes"), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_close(db), 0);
}

void fixture_init(struct fixture *b)
{
    memset(b, 0, sizeof *b);
    fault_alloc_init(&b->mem);
    ck_assert_int_eq(lladd_device_memory(&b->base), 0);
    b->fd = fault_device_new(b->base);
    b->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    b->options.device = fault_device_dev(b->fd);
    b->options.allocator = &b->mem.mem;
    b->options.cache_bytes = 256 << 10;
    b->options.log_ring_bytes = 64 << 10;
    b->options.log_segment_min = b->options.log_segment_max = 64 << 10;
    b->options.frames = LLADD_FRAMES_HEAP;
    b->options.flags = LLADD_OPT_NO_THREADS;
    make_page(b);
    ck_assert_int_eq(lladd_xa_options(RMID, &b->options), 0);
}

void fixture_free(struct fixture *b)
{
    gives(XA_OK, xa_close("", RMID, TMNOFLAGS));
    ck_assert_ptr_null(lladd_xa_db(RMID));
    ck_assert_int_eq(lladd_xa_options(RMID, NULL), 0);
    ck_assert_uint_eq(fault_device_open_files(b->fd), 0);
    ck_assert_uint_eq(fault_alloc_live(&b->mem), 0);
    fault_device_free(b->fd);
    lladd_device_close(b->base);
}

void fixture_open_as(struct fixture *b, int rmid, const char *info)
{
    char text[MAXINFOSIZE];
    (void)b;
    ck_assert_uint_lt(strlen(info), sizeof text);
    memcpy(text, info, strlen(info) + 1); /* the argument in the standard is not const */
    gives(XA_OK, xa_open(text, rmid, TMNOFLAGS));
}

void fixture_open(struct fixture *b)
{
    fixture_open_as(b, RMID, "dir=db");
}

void fixture_close(struct fixture *b)
{
    (void)b;
    gives(XA_OK, xa_close("", RMID, TMNOFLAGS));
}

void fixture_crash(struct fixture *b, const struct fault_crash *how)
{
    struct lladd_device *left;
    ck_assert_int_eq(lladd_device_memory(&left), 0);
    fault_device_crash(b->fd, how, left);
    fixture_close(b);
    ck_assert_ptr_null(lladd_xa_db(RMID));
    ck_assert_uint_eq(fault_device_open_files(b->fd), 0);
    fault_device_free(b->fd);
    lladd_device_close(b->base);
    b->base = left;
    b->fd = fault_device_new(left);
    b->options.device = fault_device_dev(b->fd);
}

XID fixture_xid(const char *text)
{
    XID x;
    memset(&x, 0, sizeof x);
    size_t n = strlen(text);
    x.formatID = 4711;
    x.gtrid_length = (long)n;
    x.bqual_length = 2;
    memcpy(x.data, text, n);
    memcpy(x.data + n, "q", 2); /* with its final 0 byte */
    return x;
}

bool fixture_same(const XID *a, const XID *b)
{
    return a->formatID == b->formatID && a->gtrid_length == b->gtrid_length &&
           a->bqual_length == b->bqual_length &&
           memcmp(a->data, b->data, (size_t)(a->gtrid_length + a->bqual_length)) == 0;
}

void fixture_add(struct fixture *b, unsigned cell, int64_t delta)
{
    fixture_add_in(b, lladd_xa_txn(RMID), cell, delta);
}

void fixture_add_in(struct fixture *b, struct lladd_txn *txn, unsigned cell, int64_t delta)
{
    ck_assert_ptr_nonnull(txn);
    ck_assert_int_eq(lladd_counter_add(txn, b->page, 64 + cell * 8, delta), 0);
}

int64_t fixture_get(struct fixture *b, unsigned cell)
{
    int64_t v = 0;
    ck_assert_int_eq(lladd_counter_get(lladd_xa_db(RMID), b->page, 64 + cell * 8, &v, &b->err), 0);
    return v;
}

void fixture_work(struct fixture *b, XID *xid, unsigned cell, int64_t delta)
{
    gives(XA_OK, xa_start(xid, RMID, TMNOFLAGS));
    fixture_add(b, cell, delta);
    gives(XA_OK, xa_end(xid, RMID, TMSUCCESS));
}

void fixture_prepared(struct fixture *b, XID *xid, unsigned cell, int64_t delta)
{
    fixture_work(b, xid, cell, delta);
    gives(XA_OK, xa_prepare(xid, RMID, TMNOFLAGS));
}
