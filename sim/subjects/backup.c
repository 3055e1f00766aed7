/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * backup: a backup while transactions run. Before each object that the backup stores, and after
 * each step of its progress, the workload commits an entry, rolls a transaction back, or prepares
 * one. One transaction is open all the time. Then a second backup fails because the store goes
 * away.
 *
 * backup.outside: the same by another process, which only sees the files of the database and the
 * store. The database archives, and stores its log only when the backup waits for it. The workload
 * also goes on while the pages are read, a few at a time, and takes checkpoints.
 *
 * After each crash, every backup with a manifest must have the contents after one of the entries.
 * This entry is the last one that had committed before the backup began, or a later one that the
 * recovered database has. Without its manifest, a backup does not exist. After a recovery a new
 * backup succeeds.
 */
#include "sim/subjects/entries.h"
#include "sim/subjects/under.h"

#include <lladd/dst.h>
#include <lladd/extension.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BEFORE = 2, LAST = 10, ROLLED_BACK_AFTER = 4, PREPARED_AFTER = 6, OBJECTS = 4 };
enum { AT_ONCE = 4 * 4096 }; /* bytes of pages in one read from outside */

/* A store that runs a part of the workload before each put. */
struct busy {
    struct lladd_store face; /* must be first */
    struct lladd_store *inside;
    bool outside;              /* the backup is made from outside */
    struct ll_sim_under files; /* the files of the database, as the backup from outside sees them */
    struct lladd_dst own;      /* observes nothing: the backup is made by another process */
    struct lladd_dst *process; /* that of the database */
    struct ll_sim_work *w;
    uint32_t entry; /* the last entry */
    uint32_t puts;
    uint32_t away_after; /* number of puts before the store goes away; 0: the store stays */
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    /* The open transaction begins in a segment below that in which redo starts. */
    o->log_segment_min = o->log_segment_max = 4 << 10;
    return 0;
}

/* ---- work beside a backup ---------------------------------------------------------------- */

static int next_entry(struct busy *b)
{
    if (b->entry == LAST)
        return 0;
    TRY(ll_sim_entry_do(b->w, b->entry + 1, 0));
    b->entry++;
    if (b->outside && b->entry % 2)
        TRY(lladd_checkpoint(b->w->db, b->w->err));
    if (b->entry == ROLLED_BACK_AFTER)
        return ll_sim_entry_roll_back(b->w);
    return b->entry == PREPARED_AFTER ? ll_sim_entry_prepare(b->w) : 0;
}

/* Does something in the process of the database. */
static int work_with(struct busy *b, int (*what)(struct busy *))
{
    struct lladd_dst *before = b->outside ? lladd_dst_enter(b->process) : NULL;
    int rc = what(b);
    if (b->outside)
        (void)lladd_dst_enter(before);
    return rc;
}

static int work(void *ctx)
{
    return work_with(ctx, next_entry);
}

static int archive(struct busy *b)
{
    return ll_sim_entries_store(lladd_sim_archive(), b->w->err);
}

static int progress(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    (void)done, (void)all;
    return strcmp(what, "archive") == 0 ? work_with(ctx, archive) : work(ctx);
}

static int go_away(struct busy *b)
{
    (void)b;
    lladd_sim_store_away(true);
    return 0;
}

static int busy_put(struct lladd_store *store, const char *name, const struct lladd_iovec *pieces,
                    int n, struct lladd_error *err)
{
    struct busy *b = (struct busy *)store;
    int rc = work(b);
    if (rc)
        return lladd_error_set(err, rc, "%s", b->w->err->message);
    if (b->away_after && ++b->puts > b->away_after)
        (void)work_with(b, go_away);
    if (b->outside && strstr(name, "/control")) /* the pages follow */
        b->files.on_read = work;
    return b->inside->ops->put(b->inside, name, pieces, n, err);
}

static int busy_get(struct lladd_store *store, const char *name, uint64_t offset, void *bytes,
                    size_t len, struct lladd_error *err)
{
    struct lladd_store *inside = ((struct busy *)store)->inside;
    return inside->ops->get(inside, name, offset, bytes, len, err);
}

static int busy_list(struct lladd_store *store, const char *prefix, lladd_store_list_fn *fn,
                     void *ctx, struct lladd_error *err)
{
    struct lladd_store *inside = ((struct busy *)store)->inside;
    return inside->ops->list(inside, prefix, fn, ctx, err);
}

static int busy_remove(struct lladd_store *store, const char *name, struct lladd_error *err)
{
    struct lladd_store *inside = ((struct busy *)store)->inside;
    return inside->ops->remove(inside, name, err);
}

static const struct lladd_store_ops busy_ops = {
    .struct_size = sizeof busy_ops,
    .put = busy_put,
    .get = busy_get,
    .list = busy_list,
    .remove = busy_remove,
};

static void ignore(void *ctx, const char *what)
{
    (void)ctx, (void)what; /* a pause ends at once */
}

static int back_up_outside(struct busy *b, struct lladd_db *db, struct lladd_store *store,
                           const struct lladd_backup_options *backup, struct lladd_error *err)
{
    struct lladd_outside_options o = LLADD_OUTSIDE_OPTIONS_INIT;
    o.backup = backup;
    o.wait_ns = 1; /* the database stores its log before the backup's next look */
    ll_sim_under_init(&b->files, lladd_db_device(db), "");
    b->files.locked = true;
    b->files.ctx = b;
    b->files.most = AT_ONCE;
    b->own = (struct lladd_dst){.planted = lladd_dst_current()->planted, .stuck = ignore};
    b->process = lladd_dst_enter(&b->own);
    int rc = lladd_backup_outside(&b->files.face, store, &o, NULL, err);
    (void)lladd_dst_enter(b->process);
    return rc;
}

/* Makes a backup with the number of the last entry as its label. */
static int back_up(struct busy *b, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_store *store = b->w ? &b->face : b->inside;
    char label[16];
    (void)snprintf(label, sizeof label, "%u", b->entry);
    o.label = label;
    o.world = lladd_sim_world();
    if (b->w) {
        o.progress = progress;
        o.progress_ctx = b;
    }
    return b->outside ? back_up_outside(b, db, store, &o, err)
                      : lladd_backup(db, store, &o, NULL, err);
}

/* ---- the workload ------------------------------------------------------------------------ */

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    TRY(ll_sim_entries_make(db, err));
    return ctx ? ll_sim_entries_store(lladd_sim_archive(), err) : 0;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_error beside = LLADD_ERROR_INIT, away = LLADD_ERROR_INIT;
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct busy b = {.face = {&busy_ops}, .inside = lladd_sim_store(), .outside = ctx, .w = &w};
    TRY(ll_sim_entry_open(&w));
    for (; b.entry < BEFORE; b.entry++)
        TRY(ll_sim_entry_do(&w, b.entry + 1, 0));
    w.err = &beside; /* receives errors of the work in the store's calls */
    TRY(back_up(&b, db, err));
    b.away_after = OBJECTS;
    int rc = back_up(&b, db, &away);
    lladd_sim_store_away(false);
    if (rc == LLADD_STORE_FAILED)
        return 0;
    return rc ? lladd_error_set(err, rc, "%s", away.message)
              : lladd_error_set(err, LLADD_BAD_STATE, "a backup is complete without a store");
}

/* ---- the backups in the store ------------------------------------------------------------ */

struct checking {
    uint32_t last; /* the last entry of the database */
    uint32_t backups;
    bool resolved; /* true if the prepared transaction was ended after the recovery */
    struct lladd_error *err;
};

/* Returns true if the right transactions are in doubt in this backup. One transaction is prepared
 * after entry PREPARED_AFTER, so a backup that ends with this entry may have it in doubt or not. */
static bool doubt_fits(const struct ll_sim_shown *s)
{
    uint32_t last = s->has.last.number;
    return s->in_doubt == s->has.doubt &&
           (last == PREPARED_AFTER || s->has.doubt == (last > PREPARED_AFTER));
}

static int see_backup(void *ctx, const struct lladd_backup_info *info)
{
    struct checking *c = ctx;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct ll_sim_shown shown;
    uint32_t first = (uint32_t)strtoul(info->label, NULL, 10);
    c->backups++;
    o.base = info->name;
    TRY(ll_sim_entries_show(lladd_sim_store(), &o, c->backups % 2 == 0, &shown, c->err));
    uint32_t last = shown.has.last.number;
    if (last < first || last > c->last)
        return lladd_error_set(c->err, LLADD_CORRUPT_PAGE,
                               "the backup has the contents after entry %u; it was begun after "
                               "entry %u, and the database has entry %u",
                               last, first, c->last);
    if (info->damaged_pages)
        return lladd_error_set(c->err, LLADD_CORRUPT_PAGE, "the backup has damaged pages");
    return c->resolved || doubt_fits(&shown)
               ? 0
               : lladd_error_set(c->err, LLADD_CORRUPT_PAGE,
                                 "the backup after entry %u has %u transactions in doubt", last,
                                 shown.in_doubt);
}

static int check_all(struct lladd_db *db, bool resolved, uint32_t *backups, struct lladd_error *err)
{
    struct checking c = {.resolved = resolved, .err = err};
    struct lladd_device *none;
    TRY(ll_sim_entries_last(db, &c.last, err));
    TRY(lladd_backup_each(lladd_sim_store(), NULL, see_backup, &c, err));
    *backups = c.backups;
    if (c.backups)
        return 0;
    struct lladd_error own = LLADD_ERROR_INIT;
    int rc = lladd_store_device(lladd_sim_store(), NULL, &none, &own);
    if (!rc)
        lladd_store_device_close(none);
    return rc == LLADD_NOT_FOUND
               ? 0
               : lladd_error_set(err, LLADD_BAD_STATE,
                                 "a store without a complete backup gives one: %s", own.message);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    uint32_t backups;
    (void)ctx;
    return check_all(db, false, &backups, err);
}

/* Makes another backup in the recovered database, where the transaction in doubt was ended. */
static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct busy b = {.inside = lladd_sim_store(), .outside = ctx};
    uint32_t before, after;
    TRY(check_all(db, false, &before, err));
    TRY(ll_sim_entries_last(db, &b.entry, err));
    if (b.outside) {
        /* A backup from outside repairs nothing. With --damage there may be something to repair. */
        TRY(lladd_scrub(lladd_sim_archive(), NULL, NULL, err));
        TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    }
    TRY(back_up(&b, db, err));
    TRY(check_all(db, true, &after, err));
    return after == before + 1
               ? 0
               : lladd_error_set(err, LLADD_BAD_STATE, "after one more backup of %u there are %u",
                                 before, after);
}

#define MEMBERS \
    .configure = configure, .setup = setup, .run = run, .check = check, LL_SIM_ENTRIES_MODEL, \
    .go_on = go_on

const struct lladd_sim_subject ll_sim_subject_backup = {
    .struct_size = sizeof ll_sim_subject_backup,
    .name = "backup",
    .about = "a backup beside transactions, and one that fails",
    MEMBERS,
};

/* Any context says that the backups are made from outside. */
static const char outside[] = "outside";

const struct lladd_sim_subject ll_sim_subject_backup_outside = {
    .struct_size = sizeof ll_sim_subject_backup_outside,
    .name = "backup.outside",
    .about = "the same from outside, of a database that archives",
    .ctx = (void *)(uintptr_t)outside,
    MEMBERS,
    .archives = true,
};
