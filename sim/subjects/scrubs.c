/* SPDX-License-Identifier: BSD-2-Clause */
/* See scrubs.h. The disk loses a write when the bytes that the page had before are written to the
 * page file past the library. */
#include "sim/subjects/scrubs.h"

#include "sim/subjects/entries.h"

#include <lladd/bulk.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <string.h>

/* ---- findings ---------------------------------------------------------------------------- */

int ll_sim_scrub_begin(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    o.world = lladd_sim_world();
    TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    return lladd_backup(db, lladd_sim_store(), &o, NULL, err);
}

struct found {
    uint64_t repaired, damaged;
    const uint64_t *expected; /* pages with lost writes */
    unsigned n;
    struct lladd_error *err;
};

/* LLADD_CORRUPT_PAGE: with --damage, a scrub may find pages that were damaged. */
static int see(void *ctx, const struct lladd_finding *f)
{
    struct found *found = ctx;
    bool expected = false;
    for (unsigned i = 0; i < found->n; i++)
        expected = expected || found->expected[i] == f->page.v;
    found->repaired += f->kind == LLADD_FINDING_REPAIR;
    found->damaged += f->kind == LLADD_FINDING_DAMAGE;
    return expected ? 0
                    : lladd_error_set(found->err, LLADD_CORRUPT_PAGE, "a scrub finds page %llu: %s",
                                      (unsigned long long)f->page.v, f->message);
}

static int scrub(struct lladd_archive *a, struct found *found, struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT, told = LLADD_ERROR_INIT;
    struct lladd_scrub_options o = LLADD_SCRUB_OPTIONS_INIT;
    found->err = &told;
    o.finding = see;
    o.finding_ctx = found;
    int rc = lladd_scrub(a, &o, NULL, &own);
    return rc ? lladd_error_set(err, rc, "%s", told.code ? told.message : own.message) : 0;
}

int ll_sim_scrub_nothing(struct lladd_archive *a, struct lladd_error *err)
{
    struct found found = {.n = 0};
    return scrub(a, &found, err);
}

/* ---- lost writes ------------------------------------------------------------------------- */

enum { LOGGED, BULK, RAW, KINDS, AT = 16, LEN = 200 };

static const unsigned kinds[KINDS] = {LLADD_EXTENT_PAGED, LLADD_EXTENT_BULK, LLADD_EXTENT_RAW};

struct losing {
    struct lladd_db *db;
    struct lladd_file *file; /* the page file */
    unsigned char *old;      /* for each page: its bytes before the write that is lost */
    uint64_t page[KINDS];
    struct lladd_error *err;
};

static int fail(struct losing *l, int rc, const char *what)
{
    return lladd_error_set(l->err, LLADD_BAD_STATE, "the page file cannot be %s: error %d", what,
                           -rc);
}

static int read_old(struct losing *l)
{
    struct lladd_device *dev = lladd_db_device(l->db);
    size_t size = lladd_page_size(l->db);
    for (unsigned i = 0; i < KINDS; i++) {
        int64_t got = dev->ops->pread(dev, l->file, l->old + i * size, size, l->page[i] * size);
        if (got != (int64_t)size)
            return fail(l, got < 0 ? (int)got : 0, "read");
    }
    return 0;
}

static int write_old(struct losing *l)
{
    struct lladd_device *dev = lladd_db_device(l->db);
    size_t size = lladd_page_size(l->db);
    int rc = 0;
    for (unsigned i = 0; i < KINDS && !rc; i++) {
        struct lladd_iovec piece = {l->old + i * size, size};
        rc = dev->ops->pwritev(dev, l->file, &piece, 1, l->page[i] * size);
    }
    if (!rc)
        rc = dev->ops->sync(dev, l->file);
    return rc ? fail(l, rc, "written") : 0;
}

static int write_bulk(struct lladd_txn *txn, lladd_pageno page, bool raw, char letter)
{
    struct lladd_db *db = lladd_txn_db(txn);
    size_t size = lladd_page_size(db);
    unsigned char *bytes = lladd_mem_alloc(db, size);
    if (!bytes)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_NO_MEMORY, "out of memory");
    memset(bytes, 0, size);
    memset(bytes + LLADD_PAGE_HEADER + AT, letter, LEN);
    int rc = lladd_bulk_write(txn, page, 1, raw ? NULL : "lladd.bytes", bytes);
    lladd_mem_free(db, bytes);
    return rc ? rc : lladd_bulk_sync(txn);
}

static int write_all(struct losing *l, struct lladd_txn *txn, char letter)
{
    unsigned char text[LEN];
    memset(text, letter, LEN);
    TRY(lladd_bytes_set(txn, lladd_page_of(l->page[LOGGED]), AT, text, LEN));
    TRY(write_bulk(txn, lladd_page_of(l->page[BULK]), false, letter));
    return write_bulk(txn, lladd_page_of(l->page[RAW]), true, letter);
}

static int make(struct losing *l, struct lladd_txn *txn)
{
    for (unsigned i = 0; i < KINDS; i++) {
        lladd_pageno first;
        TRY(lladd_extent_alloc(txn, 1, kinds[i], &first));
        l->page[i] = first.v;
    }
    TRY(lladd_bytes_format(txn, lladd_page_of(l->page[LOGGED])));
    return write_all(l, txn, 'p');
}

static int change(struct losing *l, struct lladd_txn *txn)
{
    return write_all(l, txn, 'q');
}

static int drop(struct losing *l, struct lladd_txn *txn)
{
    for (unsigned i = 0; i < KINDS; i++)
        TRY(lladd_extent_free(txn, lladd_page_of(l->page[i]), 1));
    return 0;
}

/* In a transaction of its own, and with a checkpoint after it. */
static int then(struct losing *l, int (*what)(struct losing *, struct lladd_txn *))
{
    struct lladd_txn *txn;
    TRY(lladd_begin(l->db, NULL, &txn, l->err));
    int rc = what(l, txn);
    if (rc)
        return ll_sim_give_up(NULL, txn, rc, l->err);
    rc = lladd_commit(txn);
    return rc ? lladd_error_set(l->err, rc, "the commit fails") : lladd_checkpoint(l->db, l->err);
}

static int lose(struct losing *l)
{
    struct found found = {.expected = l->page, .n = KINDS};
    TRY(then(l, make));
    TRY(read_old(l));
    TRY(then(l, change));
    TRY(write_old(l));
    TRY(scrub(lladd_sim_archive(), &found, l->err));
    if (found.repaired != KINDS - 1 || found.damaged != 1)
        return lladd_error_set(l->err, LLADD_BAD_STATE,
                               "three writes were lost; a scrub repairs %llu pages, and finds %llu "
                               "damaged",
                               (unsigned long long)found.repaired,
                               (unsigned long long)found.damaged);
    return then(l, drop);
}

int ll_sim_scrub_lost(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_device *dev = lladd_db_device(db);
    struct losing l = {.db = db, .err = err};
    int rc = dev->ops->open(dev, "pages", 0, &l.file);
    if (rc)
        return fail(&l, rc, "opened");
    l.old = lladd_mem_alloc(db, KINDS * lladd_page_size(db));
    rc = l.old ? lose(&l) : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    lladd_mem_free(db, l.old);
    int late = dev->ops->close(dev, l.file);
    return rc || !late ? rc : fail(&l, late, "closed");
}

int ll_sim_scrub_go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_archive *a = lladd_sim_archive();
    (void)ctx;
    TRY(ll_sim_scrub_nothing(a, err));
    TRY(ll_sim_scrub_lost(db, err));
    TRY(ll_sim_entries_store(a, err));
    return ll_sim_scrub_nothing(a, err);
}
