/* SPDX-License-Identifier: BSD-2-Clause */
/* Builds a run from other tables, for flushes and compactions, in the transaction of the change.
 * For each table, one thread at a time flushes, and one compacts. No latch is held. */
#include "operations/dtables/managed/change.h"

/* Every so many rows or bytes of values: says how far the build is, and ends it if the table is
 * being closed, so that a close does not wait for the whole run. */
#define ROWS_A_STEP 1024u
#define BYTES_A_STEP (256u << 10)

static int step(const struct ll_managed_change *c, uint64_t read, struct lladd_error *err)
{
    struct lladd_managed *t = c->t;
    ll_managed__level_progress(t, c->flush, c->read + read);
    return lladd_atomic_load32(&t->hurry)
               ? lladd_error_set(err, LLADD_BUSY, "table \"%s\" is being closed", t->name)
               : 0;
}

static int add_rows(const struct ll_managed_change *c, struct lladd_dtable_run_builder *b,
                    struct lladd_dtable_cursor *from, bool drop, uint64_t *rows,
                    struct lladd_error *err)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    uint64_t read = 0, bytes = 0; /* bytes: since the last step */
    int rc = lladd_dtable_first(from, err);
    for (; !rc; rc = lladd_dtable_next(from, err)) {
        TRY(lladd_dtable_row(from, &key, &v, err));
        bytes += v.state == LLADD_DTABLE_FOUND ? v.bytes.len : 0;
        if (++read % ROWS_A_STEP == 0 || bytes >= BYTES_A_STEP) {
            TRY(step(c, read, err));
            bytes = 0;
        }
        if (drop && v.state == LLADD_DTABLE_TOMBSTONE)
            continue;
        TRY(lladd_dtable_run_add(b, &key, &v));
        ++*rows;
    }
    return rc == LLADD_END ? 0 : rc;
}

int ll_managed__run_begin(struct ll_managed_change *c, const struct lladd_dtable_config *config,
                          struct lladd_dtable_run_builder **out)
{
    struct lladd_managed *t = c->t;
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    char name[64] = {0};
    size_t len = strlen(t->name);
    memcpy(name, t->name, len < sizeof name ? len : sizeof name - 1);
    o.type = t->order.type;
    o.comparator = t->order.comparator ? t->order.comparator->name : NULL;
    o.config = config;
    o.name = name;
    lladd_mutex_lock(&t->mutex);
    o.block_bytes = t->manifest.block_bytes;
    lladd_mutex_unlock(&t->mutex);
    return lladd_dtable_run_begin(c->txn, &o, out);
}

int ll_managed__run_end(struct ll_managed_change *c, struct lladd_dtable_run_builder *b, int rc,
                        uint64_t n, lladd_pageno *root)
{
    if (!rc && n)
        rc = lladd_dtable_run_finish(b, root);
    if (!rc && n)
        return 0;
    struct lladd_error why = *lladd_txn_error(c->txn);
    int discarded = lladd_dtable_run_discard(b);
    if (rc && !discarded)
        *lladd_txn_error_out(c->txn) = why;
    return discarded ? discarded : rc; /* if the discard failed, pages are still allocated: the
                                        * transaction must not commit */
}

/* Builds a run of all rows and deleted ranges. Leaves out tombstones and deleted ranges if `drop`
 * is set. If nothing is left, builds no run and sets *root to LLADD_NO_PAGE. */
static int build_as(struct ll_managed_change *c, const struct lladd_dtable *from,
                    const struct lladd_dtable_config *config, bool drop, lladd_pageno *root)
{
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    struct lladd_dtable_run_builder *b;
    struct lladd_dtable_cursor *rows;
    uint64_t n = 0;
    root->v = LLADD_NO_PAGE;
    TRY(lladd_dtable_cursor_open(from, LLADD_DTABLE_TOMBSTONES, &rows, err));
    int rc = ll_managed__run_begin(c, config, &b);
    if (!rc) {
        rc = add_rows(c, b, rows, drop, &n, err);
        if (!rc && !drop)
            rc = ll_managed__add_ranges(b, from, &n, err);
        rc = ll_managed__run_end(c, b, rc, n, root);
    }
    lladd_dtable_cursor_close(rows);
    return rc;
}

/* Builds a run with this configuration. If there are deleted ranges to store and the configuration
 * cannot store them, puts a ranges_dtable around the configuration. */
static int build_in(struct ll_managed_change *c, const struct lladd_dtable *from,
                    const struct lladd_dtable_config *config, bool drop, lladd_pageno *root)
{
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    struct lladd_dtable_config *around = NULL;
    bool ranges = false;
    int rc = drop ? 0 : ll_managed__any_ranges(from, &ranges, err);
    if (!rc && ranges && !(config && lladd_dtable_caps_get(config)->ranges))
        rc = ll_managed__around(c->t, "ranges_dtable", config, "ranges", false, &around, err);
    if (!rc)
        rc = build_as(c, from, around ? around : config, drop, root);
    lladd_dtable_config_free(around);
    return rc;
}

/* These are the reasons: the configuration rejects a value; the keys are too far apart; a
 * placeholder does not fit; or the configuration is too large or too deep for a layer around it. */
bool ll_managed__is_refusal(int rc)
{
    return rc == LLADD_REJECTED || rc == LLADD_OUT_OF_RANGE || rc == LLADD_BAD_STATE ||
           rc == LLADD_BAD_CONFIG;
}

const struct lladd_dtable_config *ll_managed__config(const struct lladd_managed *t, bool flush)
{
    return flush || !t->config[1] ? t->config[0] : t->config[1];
}

int ll_managed__run_made(struct ll_managed_change *c, lladd_pageno root,
                         struct ll_managed_run **made)
{
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_managed_run run = {.root = root};
    TRY(ll_managed__run_open(c->t, &run, made, err));
    TRY(lladd_dtable_run_info_get((*made)->table, &info, err));
    (*made)->info.rows = info.rows;
    (*made)->info.tombstones = info.tombstones;
    (*made)->info.bytes = info.bytes;
    (*made)->info.pages = info.pages;
    (*made)->age[0] = c->age[0];
    (*made)->age[1] = c->age[1];
    return 0;
}

/* Builds the run. A configuration may refuse rows that it accepted when they were put. The run is
 * then built as a linear_dtable, which accepts everything, with a ranges_dtable around it if
 * necessary: a flush must not fail again and again because of one row. */
int ll_managed__build(struct ll_managed_change *c, struct lladd_dtable *const *tables, size_t n,
                      const struct lladd_dtable_config *config, bool drop,
                      struct ll_managed_run **made)
{
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    lladd_pageno root = lladd_page_of(LLADD_NO_PAGE);
    struct lladd_dtable *from;
    TRY(lladd_dtable_overlay(c->t->db, tables, n, &from, err));
    int rc = build_in(c, from, config, drop, &root);
    if (ll_managed__is_refusal(rc) && config)
        rc = build_in(c, from, NULL, drop, &root);
    lladd_dtable_close(from);
    return rc || root.v == LLADD_NO_PAGE ? rc : ll_managed__run_made(c, root, made);
}
