/* SPDX-License-Identifier: BSD-2-Clause */
#include "numbered.h"

#include "calls.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/device.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE = 300, BLOCK = 1 << 16 };

/* ---- a run ---------------------------------------------------------------------------------- */

struct lladd_txn *run_begin(struct run *r)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    OK(lladd_begin(r->db, NULL, &txn, &err));
    return txn;
}

static void make_table(struct run *r)
{
    struct lladd_hash_options h = LLADD_HASH_OPTIONS_INIT;
    lladd_pageno root;
    h.key_size = 8;
    struct lladd_txn *txn = run_begin(r);
    ck_assert_int_eq(lladd_hash_create(txn, &h, &root), 0);
    ck_assert_int_eq(lladd_root_set(txn, "table", (struct lladd_root_value){root.v, 0}), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
}

void run_open(struct run *r, struct lladd_device *dev, unsigned flags)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value root;
    r->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    r->options.device = dev;
    r->options.flags = flags | LLADD_OPT_NO_THREADS;
    r->options.log_segment_min = r->options.log_segment_max = r->segment;
    r->options.cache_bytes = 1u << 20;
    if (r->world) {
        struct lladd_archive_options a = LLADD_ARCHIVE_OPTIONS_INIT;
        a.world = r->world;
        OK(lladd_ship_register(&r->options, &r->store->base, &a, &r->archive, &err));
    }
    OK(lladd_open(NULL, &r->options, &r->db, &err));
    if (lladd_root_get(r->db, "table", &root, &err) == LLADD_NOT_FOUND) {
        OK(lladd_pin_set(r->db, "all the log", lladd_lsn_of(8), &err));
        make_table(r);
    }
    OK(lladd_root_get(r->db, "table", &root, &err));
    OK(lladd_hash_open(r->db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &r->table, &err));
}

static void free_options(struct run *r)
{
    lladd_options_release(&r->options);
    lladd_archive_free(r->archive);
    r->archive = NULL;
}

void run_close(struct run *r)
{
    lladd_hash_close(r->table);
    ck_assert_int_eq(lladd_close(r->db), 0);
    free_options(r);
}

void run_kill(struct run *r)
{
    lladd_hash_close(r->table);
    lladd_db_kill(r->db);
    free_options(r);
}

/* The value of row `row` after transaction `number`. */
static size_t value_of(uint64_t variant, uint64_t row, uint64_t number, unsigned char out[VALUE])
{
    size_t len = 16 + (row * 31 + number * 7) % (VALUE - 16);
    memset(out, (int)(row * 5 + number * 11 + variant * 101), len);
    return len;
}

void run_put(struct run *r, struct lladd_txn *txn, uint64_t row, uint64_t number)
{
    unsigned char value[VALUE];
    size_t len = value_of(r->variant, row, number, value);
    ck_assert_int_eq(lladd_hash_put(txn, r->table, &row, sizeof row, value, len), 0);
}

/* Does transaction `number` replace this older row? Does it delete it? */
static bool replaces(uint64_t number, uint64_t row)
{
    return row + 3 == number && number % 3 == 0;
}

static bool deletes(uint64_t number, uint64_t row)
{
    return row + 5 == number && number % 4 == 0;
}

static void work(struct run *r)
{
    uint64_t zero = 0, number = ++r->number;
    ck_assert_uint_lt(number, RUN_MOST);
    struct lladd_txn *txn = run_begin(r);
    ck_assert_int_eq(lladd_hash_put(txn, r->table, &zero, sizeof zero, &number, sizeof number), 0);
    run_put(r, txn, number, number);
    for (uint64_t row = 1; row < number; row++) {
        if (deletes(number, row))
            ck_assert_int_eq(lladd_hash_delete(txn, r->table, &row, sizeof row), 0);
        else if (replaces(number, row))
            run_put(r, txn, row, number);
    }
    ck_assert_int_eq(lladd_commit(txn), 0);
    r->variants[number] = r->variant;
    r->end[number] = lladd_durable_lsn(r->db).v;
}

void run_work_to(struct run *r, uint64_t number)
{
    while (r->number < number)
        work(r);
}

static void get_row(struct run *r, uint64_t row, unsigned char *out, size_t *len, bool *there)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = lladd_hash_get(r->table, &row, sizeof row, out, VALUE, len, &err);
    ck_assert_msg(rc == 0 || rc == LLADD_NOT_FOUND, "%s", err.message);
    *there = rc == 0;
}

void run_check(struct run *opened, const struct run *r, uint64_t number)
{
    unsigned char want[VALUE], got[VALUE];
    uint64_t counter;
    size_t len, want_len;
    bool there;
    get_row(opened, 0, got, &len, &there);
    ck_assert(there == (number > 0));
    if (there) {
        memcpy(&counter, got, sizeof counter);
        ck_assert_uint_eq(counter, number);
    }
    get_row(opened, RUN_LOSER, got, &len, &there);
    ck_assert(!there);
    for (uint64_t row = 1; row <= number + 6; row++) {
        uint64_t last = row;
        bool gone = row > number;
        for (uint64_t k = row + 1; k <= number && k <= row + 5; k++) {
            gone = gone || deletes(k, row);
            last = !gone && replaces(k, row) ? k : last;
        }
        get_row(opened, row, got, &len, &there);
        ck_assert_msg(there == !gone, "row %u after transaction %u", (unsigned)row,
                      (unsigned)number);
        want_len = gone ? 0 : value_of(r->variants[last], row, last, want);
        ck_assert(gone || (len == want_len && memcmp(got, want, len) == 0));
    }
}

/* ---- an archive ----------------------------------------------------------------------------- */

struct segments {
    uint64_t first[RUN_MOST];
    unsigned n;
};

void run_read_file(struct lladd_device *dev, const char *name, void *out, size_t len)
{
    struct lladd_file *file;
    ck_assert_int_eq(dev->ops->open(dev, name, LLADD_OPEN_READ_ONLY, &file), 0);
    ck_assert_int_eq(dev->ops->pread(dev, file, out, len, 0), (int64_t)len);
    ck_assert_int_eq(dev->ops->close(dev, file), 0);
}

static int see_segment(void *ctx, const char *name)
{
    struct segments *s = ctx;
    if (strlen(name) == 20 && strcmp(name + 16, ".seg") == 0) {
        ck_assert_uint_lt(s->n, RUN_MOST);
        s->first[s->n++] = strtoull(name, NULL, 16);
    }
    return 0;
}

int run_by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

void run_store_object(struct run *r, const char *name, const void *bytes, size_t len)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_iovec piece = {bytes, len};
    int rc = r->store->base.ops->put(&r->store->base, name, &piece, 1, &err);
    ck_assert(rc == 0 || rc == LLADD_EXISTS);
}

static size_t block(const struct run *r)
{
    return r->segment < BLOCK ? r->segment : BLOCK;
}

uint64_t run_segment_end(const struct run *r, uint64_t first)
{
    return first + r->segment / block(r) * (block(r) - 64);
}

/* Offset in the segment's file at which the log below the LSN ends. */
static size_t bytes_below(const struct run *r, uint64_t first, uint64_t lsn)
{
    size_t at = (size_t)(lsn - first), payload = block(r) - 64, rest = at % payload;
    return at / payload * block(r) + (rest ? 64 + rest : 0);
}

/* Stores a segment: whole, or with `to` the part of it below that LSN. */
static void store_segment(struct run *r, uint32_t timeline, uint64_t first, uint64_t to)
{
    static unsigned char bytes[RUN_SEGMENT_MOST];
    char name[100];
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)first);
    run_read_file(r->options.device, name, bytes, r->segment);
    (void)snprintf(name, sizeof name, "t%08x/log/%016llx.seg", timeline, (unsigned long long)first);
    if (!to)
        run_store_object(r, name, bytes, r->segment);
    for (uint64_t from = first; from < to;) { /* in two parts */
        uint64_t end = from == first && to - first >= 16 ? first + (to - first) / 16 * 8 : to;
        (void)snprintf(name, sizeof name, "t%08x/log/%016llx.%016llx-%016llx.part", timeline,
                       (unsigned long long)first, (unsigned long long)from,
                       (unsigned long long)end);
        size_t begin = bytes_below(r, first, from);
        run_store_object(r, name, bytes + begin, bytes_below(r, first, end) - begin);
        from = end;
    }
}

/* If the library does not archive the run, this function stores the segments itself. It goes down
 * from the end of the log, from each segment to the one before its cut. Between these there may be
 * segments that the log has never used. */
void run_archive(struct run *r, uint32_t timeline)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    for (bool more = r->archive != NULL; more;)
        OK(lladd_archive_step(r->archive, &more, &err));
    if (r->archive)
        return;
    struct segments s = {.n = 0};
    struct lladd_device *dev = r->options.device;
    uint64_t durable = lladd_durable_lsn(r->db).v, end = durable;
    ck_assert_int_eq(dev->ops->list(dev, "log", see_segment, &s), 0);
    qsort(s.first, s.n, sizeof s.first[0], run_by_number);
    for (unsigned i = s.n; i > 0; i--) {
        unsigned char header[64];
        char name[40];
        if (s.first[i - 1] >= end)
            continue;
        bool closed = end != durable || run_segment_end(r, s.first[i - 1]) == durable;
        store_segment(r, timeline, s.first[i - 1], closed ? 0 : durable);
        (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)s.first[i - 1]);
        run_read_file(dev, name, header, sizeof header);
        end = lladd_get64(header + 40);
    }
}
