/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stale: log segments that one recovery makes and the next recovery uses. The log has small
 * segments. The rollback of the losers and of the transactions in doubt needs more log than one
 * such segment holds, so recovery makes several segments in advance, each larger than the previous
 * one. If this recovery crashes before it has written records to these segments, the next recovery
 * finds them and uses them.
 */
#include "sim/subjects/subjects.h"

#include <string.h>

enum { ROWS = 12, ROW_BYTES = 600, PAGE_ROWS = 6, ROW_AT = 16 };

struct contents {
    int64_t row[ROWS];
};

struct step {
    uint32_t row, zero;
    int64_t value;
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->log_segment_min = 4 << 10;
    o->log_segment_max = 16 << 10;
    return 0;
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    lladd_pageno first;
    (void)ctx;
    return ll_sim_pages_make(db, ROWS / PAGE_ROWS, &first, err);
}

static lladd_pageno page_of(lladd_pageno first, uint32_t row, uint32_t *offset)
{
    *offset = ROW_AT + row % PAGE_ROWS * ROW_BYTES;
    return lladd_page_of(first.v + row / PAGE_ROWS);
}

static int set(struct ll_sim_work *w, struct lladd_txn *txn, uint32_t row, int64_t value)
{
    int64_t bytes[ROW_BYTES / sizeof(int64_t)];
    struct step s;
    uint32_t offset;
    lladd_pageno page = page_of(w->first, row, &offset);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        bytes[i] = value;
    TRY(lladd_bytes_set(txn, page, offset, bytes, sizeof bytes));
    memset(&s, 0, sizeof s);
    s.row = row;
    s.value = value;
    return lladd_sim_note(w->sim, txn, &s, sizeof s);
}

/* Changes the rows from `from` to `to` - 1 in one transaction, and does not end it. If `gid` is not
 * NULL, prepares the transaction, so that it is in doubt. */
static int change(struct ll_sim_work *w, uint32_t from, uint32_t to, int64_t value,
                  const struct lladd_gid *gid)
{
    struct lladd_txn *txn;
    int rc = 0;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    for (uint32_t row = from; !rc && row < to; row++)
        rc = set(w, txn, row, value + row);
    if (!rc && gid)
        rc = lladd_sim_prepare(w->sim, txn, gid);
    if (rc)
        *w->err = *lladd_txn_error(txn);
    return rc;
}

static int commits(struct ll_sim_work *w, struct lladd_txn *txn)
{
    TRY(set(w, txn, ROWS - 1, 77));
    return lladd_sim_commit(w->sim, txn);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_gid gid = {.format = 7, .gtrid_length = 5, .bqual_length = 0};
    (void)ctx;
    memcpy(gid.data, "stale", 5);
    TRY(ll_sim_pages_find(db, &w.first, err));
    TRY(lladd_checkpoint(db, err));
    TRY(change(&w, 0, 7, 1000, NULL));
    TRY(change(&w, 7, ROWS - 1, 2000, &gid));
    return ll_sim_in_txn(&w, commits); /* makes the records of the open transaction durable, too */
}

static void apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct contents *c = model;
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    c->row[s.row] = s.value;
}

static int write_down(const struct contents *c, struct lladd_sink *sink)
{
    for (uint32_t i = 0; i < ROWS; i++)
        TRY(lladd_sink_printf(sink, "%lld ", (long long)c->row[i]));
    return 0;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    (void)ctx;
    return write_down(model, sink);
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct contents c;
    lladd_pageno first;
    (void)ctx;
    memset(&c, 0, sizeof c);
    TRY(ll_sim_pages_find(db, &first, err));
    for (uint32_t row = 0; row < ROWS; row++) {
        int64_t bytes[ROW_BYTES / sizeof(int64_t)];
        uint32_t offset;
        lladd_pageno page = page_of(first, row, &offset);
        TRY(lladd_bytes_get(db, page, offset, bytes, sizeof bytes, err));
        c.row[row] = bytes[0];
        for (size_t i = 1; i < sizeof bytes / sizeof *bytes; i++)
            if (bytes[i] != bytes[0])
                return lladd_error_set(err, LLADD_CORRUPT_PAGE, "the words of row %u differ", row);
    }
    return write_down(&c, sink);
}

static void describe(void *ctx, struct lladd_span bytes, struct lladd_sink *sink)
{
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    (void)lladd_sink_printf(sink, "sets row %u to %lld", s.row, (long long)s.value);
}

static const char *const operations[] = {"lladd.set.long", NULL};

const struct lladd_sim_subject ll_sim_subject_stale = {
    .struct_size = sizeof ll_sim_subject_stale,
    .name = "stale",
    .about = "recoveries that make several log segments, and crash before they use them",
    .configure = configure,
    .setup = setup,
    .run = run,
    .dump = dump,
    .model_size = sizeof(struct contents),
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .pages = ll_sim_pages_each,
    .operations = operations,
};
