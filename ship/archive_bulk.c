/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores the spools of transactions that have written pages in bulk. A spool is put before the log
 * with the commit or prepare record of its transaction. So a store that has such a record has the
 * spool, too, unless the spool is lost. The files of a spool are deleted as soon as the store has
 * the spool. If a crash follows before the log is put, the spool has no files when the log is put
 * later. So a spool without files is looked for in the store. */
#include "ship/archive_private.h"
#include "ship/image_private.h"

#include <lladd/dst.h>

static bool shipped(const struct lladd_archive *a, uint64_t txn)
{
    const uint64_t *at = (const void *)a->shipped.data;
    for (size_t i = 0; i < a->shipped.len / sizeof *at; i++)
        if (at[i] == txn)
            return true;
    return false;
}

/* Reads a part that the store has. */
static int look_at_part(struct lladd_archive *a, uint64_t txn, uint32_t part, bool *last,
                        struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    struct ll_ship_blk b;
    struct ll_ship_blk_piece piece;
    ll_ship_blk_name(a->timeline, txn, part, name);
    a->object.len = 0;
    int rc = ll_ship_get_all(a->store, name, LL_SHIP_OBJECT_MAX, &a->object, err);
    if (!rc)
        rc = ll_ship_blk_begin(&b, name, a->object.data, a->object.len, err);
    while (!rc)
        rc = ll_ship_blk_next(&b, &piece, err);
    if (rc != LLADD_END)
        return rc;
    *last = b.last;
    return 0;
}

/* Call it for a spool without files. An earlier run may have stored this spool. A transaction that
 * began before the timeline's fork belongs to the origin: its spool is not missing here. */
static int look_in_store(struct lladd_archive *a, uint64_t txn, bool *missing,
                         struct lladd_error *err)
{
    bool last = txn < a->fork;
    int rc = 0;
    for (uint32_t part = 0; !rc && !last; part++)
        rc = look_at_part(a, txn, part, &last, err);
    *missing = rc == LLADD_NOT_FOUND || rc == LLADD_CORRUPT_BACKUP;
    return *missing ? 0 : rc;
}

static int put_parts(struct lladd_archive *a, uint64_t txn, bool *missing, struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX];
    bool last = false;
    int rc = 0;
    for (uint32_t part = 0; !rc && !last; part++) {
        rc = ll_ship_spool_read(a->spool, txn, part, &a->object, &last, err);
        if (rc == LLADD_NOT_FOUND && part == 0)
            return look_in_store(a, txn, missing, err);
        ll_ship_blk_name(a->timeline, txn, part, name);
        if (!rc)
            rc = ll_ship_archive_put(a, name, &a->object, err);
        if (rc == LLADD_EXISTS)
            rc = ll_ship_differs_spool(a, name, txn, part, err);
    }
    *missing = rc == LLADD_NOT_FOUND;
    return *missing ? 0 : rc;
}

/* *missing: neither the database nor the store has the whole spool. */
static int store_spool(struct lladd_archive *a, uint64_t txn, bool *missing,
                       struct lladd_error *err)
{
    *missing = false;
    if (LLADD_PLANTED(LLADD_BUG_SPOOL_LEFT))
        return 0;
    int rc = shipped(a, txn) ? 0 : put_parts(a, txn, missing, err);
    if (!rc && a->db)
        rc = ll_ship_spool_free(a->spool, txn, err);
    if (rc || *missing || shipped(a, txn))
        return rc;
    return ll_ship_append(&a->shipped, &txn, sizeof txn, err);
}

int ll_ship_bulk_segment(struct lladd_archive *a, const struct ll_ship_index *ix,
                         struct lladd_error *err)
{
    const struct ll_ship_index_bulk *bulk = (const void *)ix->bulk.data;
    const uint64_t *ended = (const void *)ix->ended.data;
    int rc = 0;
    for (size_t i = 0; i < ix->bulk.len / sizeof *bulk && !rc; i++) {
        bool missing;
        rc = store_spool(a, bulk[i].txn, &missing, err);
        if (!rc && missing)
            ll_ship_archive_gap(a, bulk[i].lsn.v, ix->stop.v);
    }
    for (size_t i = 0; i < ix->ended.len / sizeof *ended && !rc && a->db; i++)
        rc = ll_ship_spool_free(a->spool, ended[i], err);
    return rc;
}

int ll_ship_bulk_see(void *ctx, const struct ll_ship_record *r, struct lladd_error *err)
{
    struct lladd_archive *a = ctx;
    bool decides = r->kind == LL_SHIP_REC_COMMIT || r->kind == LL_SHIP_REC_PREPARE;
    return decides && ll_ship_spool_has(a->spool, r->txn)
               ? ll_ship_append(&a->seen_bulk, &r->txn, sizeof r->txn, err)
               : 0;
}

int ll_ship_bulk_piece(struct lladd_archive *a, struct lladd_error *err)
{
    const uint64_t *txn = (const void *)a->seen_bulk.data;
    int rc = 0;
    for (size_t i = 0; i < a->seen_bulk.len / sizeof *txn && !rc; i++) {
        bool missing; /* ll_ship_bulk_segment will note the gap */
        rc = store_spool(a, txn[i], &missing, err);
    }
    return rc;
}

struct dropping {
    struct lladd_archive *a;
    uint64_t below;
    struct lladd_error *err;
};

static int drop(void *ctx, uint64_t txn, bool live)
{
    const struct dropping *d = ctx;
    return live || txn >= d->below ? 0 : ll_ship_spool_free(d->a->spool, txn, d->err);
}

int ll_ship_bulk_drop(struct lladd_archive *a, uint64_t below, struct lladd_error *err)
{
    struct dropping d = {a, below, err};
    return a->db ? ll_ship_spool_each(a->spool, drop, &d, err) : 0;
}

struct resuming {
    struct lladd_archive *a;
    struct lladd_error *err;
};

static int free_stored(void *ctx, uint64_t txn, bool live)
{
    const struct resuming *r = ctx;
    bool missing = true;
    int rc = live ? 0 : look_in_store(r->a, txn, &missing, r->err);
    return rc || missing ? rc : ll_ship_spool_free(r->a->spool, txn, r->err);
}

int ll_ship_bulk_resume(struct lladd_archive *a, struct lladd_error *err)
{
    struct resuming r = {a, err};
    return a->db ? ll_ship_spool_each(a->spool, free_stored, &r, err) : 0;
}

int ll_ship_bulk_fork(struct lladd_archive *a, struct lladd_error *err)
{
    struct ll_ship_past past = {.mem = a->mem, .store = a->store};
    struct ll_ship_fork fork;
    a->fork = 0;
    if (a->timeline == 0)
        return 0;
    int rc = ll_ship_past_fork(&past, a->timeline, &fork, err);
    if (!rc)
        a->fork = fork.lsn;
    return rc == LLADD_NOT_FOUND ? 0 : rc; /* the origin's backups are in another store */
}
