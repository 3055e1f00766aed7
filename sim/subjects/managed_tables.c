/* SPDX-License-Identifier: BSD-2-Clause */
/* Managed dTables with keys of 32 bits, of several subjects. */
#include "sim/subjects/managed_tables.h"

#include "sim/subjects/subjects.h"
#include "sim/subjects/subjects.h"

#include <lladd/bytes.h>
#include <string.h>

int ll_sim_managed_make(struct lladd_db *db, const char *name, enum lladd_managed_schedule schedule,
                        uint32_t flags, struct lladd_managed **out, struct lladd_error *err)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.type = LLADD_DTABLE_U32;
    o.schedule = schedule;
    o.flags = flags;
    return lladd_managed_create_open(db, name, &o, out, err);
}

int ll_sim_managed_number(struct lladd_txn *txn, struct lladd_managed *t, uint32_t key,
                          uint32_t *out)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    unsigned char bytes[8];
    size_t len;
    int rc = lladd_managed_get(txn, t, &k, bytes, sizeof bytes, &len);
    *out = rc ? 0 : lladd_get32(bytes);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

int ll_sim_managed_put(struct lladd_txn *txn, struct lladd_managed *t, uint32_t key,
                       uint32_t number)
{
    unsigned char bytes[8];
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    lladd_put32(bytes, number);
    lladd_put32(bytes + 4, ~number);
    struct lladd_dtable_value v =
        number ? lladd_dtable_value_of(bytes, sizeof bytes) : lladd_dtable_tombstone();
    return lladd_managed_put(txn, t, &k, &v);
}

int ll_sim_managed_tidy(struct lladd_managed *t, struct lladd_error *err)
{
    bool more = true;
    while (more)
        TRY(lladd_managed_maintain(t, &more, err));
    return 0;
}

int ll_sim_managed_memory(struct lladd_managed *t, uint64_t bytes, struct lladd_error *err)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.memory_bytes = bytes;
    return lladd_managed_alter(t, LLADD_MANAGED_MEMORY_BYTES, &o, err);
}

int ll_sim_dtable_number(const struct lladd_dtable *t, uint32_t key, uint32_t *out,
                         struct lladd_error *err)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    unsigned char bytes[8] = {0};
    size_t len;
    int rc = lladd_dtable_get(t, &k, bytes, sizeof bytes, &len, err);
    *out = lladd_get32(bytes);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* ---- dumps ----------------------------------------------------------------------------------- */

static int dump_rows(struct lladd_dtable_cursor *c, struct lladd_sink *sink,
                     struct lladd_error *err)
{
    int rc;
    while ((rc = lladd_dtable_next(c, err)) == 0) {
        struct lladd_dtable_key key;
        struct lladd_dtable_value v;
        TRY(lladd_dtable_row(c, &key, &v, err));
        const unsigned char *p = v.bytes.data;
        if (v.bytes.len != 8 || lladd_get32(p) != ~lladd_get32(p + 4))
            return lladd_error_set(err, LLADD_BAD_STATE, "a row that was never put there");
        TRY(lladd_sink_printf(sink, "%u: %u\n", (unsigned)key.number, lladd_get32(p)));
    }
    return rc == LLADD_END ? 0 : rc;
}

static int dump_table(struct lladd_txn *txn, struct lladd_managed *t, struct lladd_sink *sink)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    const struct lladd_dtable *table;
    struct lladd_dtable_cursor *c;
    TRY(lladd_managed_table(txn, t, &table));
    TRY(lladd_dtable_cursor_open(table, 0, &c, err));
    int rc = dump_rows(c, sink, err);
    lladd_dtable_cursor_close(c);
    return rc;
}

int ll_sim_managed_dump(struct lladd_db *db, const char *name, struct lladd_sink *sink,
                        struct lladd_error *err)
{
    struct lladd_managed *t;
    struct lladd_txn *txn;
    TRY(lladd_managed_open(db, name, &t, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = dump_table(txn, t, sink);
    TRY(rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn));
    return lladd_managed_close(t, err);
}

/* ---- the model ------------------------------------------------------------------------------- */

static struct ll_sim_managed_note note_of(struct lladd_span bytes)
{
    struct ll_sim_managed_note n;
    memcpy(&n, bytes.data, sizeof n);
    return n;
}

int ll_sim_managed_put_noted(struct lladd_sim *sim, struct lladd_txn *txn, struct lladd_managed *t,
                             uint32_t key, uint32_t number)
{
    struct ll_sim_managed_note n = {key, number, 0};
    TRY(ll_sim_managed_put(txn, t, key, number));
    return lladd_sim_note(sim, txn, &n, sizeof n);
}

void ll_sim_managed_apply(void *ctx, void *model, struct lladd_span note)
{
    struct ll_sim_managed_rows *r = model;
    struct ll_sim_managed_note n = note_of(note);
    (void)ctx;
    r->number[n.key] = n.number;
    for (uint32_t i = n.key; i < n.to; i++)
        r->number[i] = 0;
}

int ll_sim_managed_model_dump(void *ctx, const void *model, struct lladd_sink *sink)
{
    const struct ll_sim_managed_rows *r = model;
    (void)ctx;
    for (uint32_t i = 0; i < sizeof r->number / sizeof r->number[0]; i++)
        if (r->number[i])
            TRY(lladd_sink_printf(sink, "%u: %u\n", i, r->number[i]));
    return 0;
}

void ll_sim_managed_describe(void *ctx, struct lladd_span note, struct lladd_sink *sink)
{
    struct ll_sim_managed_note n = note_of(note);
    (void)ctx;
    if (n.to)
        (void)lladd_sink_printf(sink, "deletes %u to %u", n.key, n.to);
    else if (n.number)
        (void)lladd_sink_printf(sink, "puts %u under %u", n.number, n.key);
    else
        (void)lladd_sink_printf(sink, "deletes %u", n.key);
}

int ll_sim_managed_pages(void *ctx, struct lladd_db *db, int (*fn)(void *, lladd_pageno), void *arg,
                         struct lladd_error *err)
{
    (void)ctx;
    TRY(lladd_managed_pages(db, fn, arg, err));
    return ll_sim_journal_pages(db, fn, arg, err);
}
