/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * records: records of any length on a slotted page. Transactions that store, change, lengthen and
 * give up records, side by side on one page; one rolls back, one stays open.
 *
 * A transaction's records are its own, so each has names for them: 0 to RECORDS - 1, which the page
 * knows by a byte at the beginning of each record.
 */
#include "sim/subjects/subjects.h"

#include <lladd/records.h>

#include <string.h>

enum { RECORDS = 6, LONGEST = 60 };

struct contents {
    unsigned char len[RECORDS]; /* 0: there is none */
    char text[RECORDS][LONGEST];
};

/* The whole record as it is now. */
struct step {
    unsigned char record, len;
    char text[LONGEST];
};

struct work {
    struct lladd_sim *sim;
    struct lladd_db *db;
    struct lladd_error *err;
    lladd_pageno page;
    struct lladd_rid rid[RECORDS];
};

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    (void)ctx;
    TRY(ll_sim_pages_make(db, 1, &page, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_slotted_format(txn, page, 1);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* ---- the workload ------------------------------------------------------------------------ */

/* What a record of this number and length says: the number, then letters. */
static size_t text_of(unsigned record, char letter, size_t len, char out[LONGEST])
{
    memset(out, letter, len);
    out[0] = (char)('0' + record);
    return len;
}

static int note(struct work *w, struct lladd_txn *txn, unsigned record, const char *text,
                size_t len)
{
    struct step s;
    memset(&s, 0, sizeof s);
    s.record = (unsigned char)record;
    s.len = (unsigned char)len;
    if (len)
        memcpy(s.text, text, len);
    return lladd_sim_note(w->sim, txn, &s, sizeof s);
}

static int store(struct work *w, struct lladd_txn *txn, unsigned record, char letter, size_t len)
{
    char text[LONGEST];
    text_of(record, letter, len, text);
    TRY(lladd_slotted_alloc(txn, w->page, text, len, 1, &w->rid[record]));
    return note(w, txn, record, text, len);
}

static int change(struct work *w, struct lladd_txn *txn, unsigned record, char letter, size_t len)
{
    char text[LONGEST];
    text_of(record, letter, len, text);
    TRY(lladd_slotted_set(txn, w->rid[record], text, len, 1));
    return note(w, txn, record, text, len);
}

static int give_up(struct work *w, struct lladd_txn *txn, unsigned record)
{
    TRY(lladd_slotted_free(txn, w->rid[record]));
    return note(w, txn, record, NULL, 0);
}

static int stores(struct work *w, struct lladd_txn *txn)
{
    TRY(store(w, txn, 0, 'a', 20));
    TRY(store(w, txn, 1, 'b', 40));
    TRY(store(w, txn, 2, 'c', 10));
    return lladd_sim_commit(w->sim, txn);
}

static int rolls_back(struct work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 1, 'x', 60));
    TRY(give_up(w, txn, 0));
    TRY(store(w, txn, 3, 'y', 30));
    return lladd_sim_abort(w->sim, txn);
}

static int changes(struct work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 1, 'd', 12));
    TRY(give_up(w, txn, 2));
    TRY(store(w, txn, 4, 'e', 33));
    return lladd_sim_commit(w->sim, txn);
}

static int stays_open(struct work *w, struct lladd_txn *txn)
{
    TRY(change(w, txn, 0, 'z', 50));
    TRY(store(w, txn, 5, 'z', 8));
    return 0;
}

static int in_txn(struct work *w, int (*what)(struct work *, struct lladd_txn *))
{
    struct lladd_txn *txn;
    TRY(lladd_sim_begin(w->sim, w->db, NULL, &txn, w->err));
    int rc = what(w, txn);
    return rc ? ll_sim_give_up(w->sim, txn, rc, w->err) : 0;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_pages_find(db, &w.page, err));
    TRY(in_txn(&w, stores));
    TRY(in_txn(&w, rolls_back));
    TRY(in_txn(&w, stays_open));
    TRY(lladd_checkpoint(db, err));
    return in_txn(&w, changes);
}

/* ---- what should be there ---------------------------------------------------------------- */

static void apply(void *ctx, void *model, struct lladd_span bytes)
{
    struct contents *c = model;
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    memset(c->text[s.record], 0, LONGEST);
    memcpy(c->text[s.record], s.text, s.len);
    c->len[s.record] = s.len;
}

static int write_down(const struct contents *c, struct lladd_sink *sink)
{
    int rc = 0;
    for (unsigned i = 0; !rc && i < RECORDS; i++)
        rc = lladd_sink_printf(sink, "%.*s ", c->len[i], c->text[i]);
    return rc;
}

static int model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    (void)ctx;
    return write_down(model, sink);
}

/* Every record of the page, at its number; false if one is none of ours, or there twice. */
static bool read_page(struct lladd_view view, struct contents *c)
{
    struct lladd_record r;
    for (uint32_t slot = 0; slot < lladd_slotted_slots(view); slot++) {
        if (!lladd_slotted_record(view, slot, &r))
            continue;
        unsigned i = r.len ? (unsigned)(r.bytes[0] - '0') : RECORDS;
        if (i >= RECORDS || r.len > LONGEST || c->len[i])
            return false;
        memcpy(c->text[i], r.bytes, r.len);
        c->len[i] = (unsigned char)r.len;
    }
    return true;
}

static int dump(void *ctx, struct lladd_db *db, struct lladd_sink *sink, struct lladd_error *err)
{
    struct contents c;
    struct lladd_page *page;
    lladd_pageno number;
    (void)ctx;
    memset(&c, 0, sizeof c);
    TRY(ll_sim_pages_find(db, &number, err));
    TRY(lladd_fix(db, number, LLADD_LATCH_SHARED, &page, err));
    bool ours = read_page(lladd_page_view(page), &c);
    lladd_unfix(db, page, LLADD_LATCH_SHARED);
    return ours ? write_down(&c, sink)
                : lladd_error_set(err, LLADD_BAD_STATE, "the page holds a record that nobody made");
}

static void describe(void *ctx, struct lladd_span bytes, struct lladd_sink *sink)
{
    struct step s;
    (void)ctx;
    memcpy(&s, bytes.data, sizeof s);
    (void)lladd_sink_printf(sink, s.len ? "makes record %u \"%.*s\"" : "gives up record %u",
                            s.record, s.len, s.text);
}

static int pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                 struct lladd_error *err)
{
    lladd_pageno page;
    (void)ctx;
    TRY(ll_sim_pages_find(db, &page, err));
    return fn(arg, page);
}

static const char *const operations[] = {"lladd.slotted.alloc", "lladd.slotted.free",
                                         "lladd.slotted.set", NULL};

const struct lladd_sim_subject ll_sim_subject_records = {
    .struct_size = sizeof ll_sim_subject_records,
    .name = "records",
    .about = "records of any length on a slotted page",
    .setup = setup,
    .run = run,
    .dump = dump,
    .model_size = sizeof(struct contents),
    .model_apply = apply,
    .model_dump = model_dump,
    .describe = describe,
    .pages = pages,
    .operations = operations,
};
