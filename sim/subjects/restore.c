/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * restore: a database is restored to a target in the past, into a directory of the same disk. The
 * copy and the original then get different entries, and both archive into the same store. The store
 * also has a backup of the original from after the fork, which the copy must not use: a scrub of
 * the copy finds nothing. The copy keeps no log for the archive of the original. Another database
 * is refused by the store.
 *
 * After each crash either the copy cannot be opened, or it has the entries up to the target and
 * after them only entries of its own. In the store, the copy's timeline has no later entry of the
 * original, and the original's timeline has no entry of the copy. If the restore was not complete,
 * a second restore succeeds. If it was complete, a second restore is refused and changes nothing.
 */
#include "sim/subjects/entries.h"
#include "sim/subjects/scrubs.h"
#include "sim/subjects/under.h"

#include <lladd/device.h>
#include <lladd/dst.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <string.h>

enum {
    BASE = 2,   /* the backup is made after this entry */
    TARGET = 3, /* the copy has the entries up to this one */
    BEFORE = 5, /* entries of the setup */
    LAST = 6,
    COPY_LAST = 5
};
#define FOLDER "copy"

/* ---- the copy ---------------------------------------------------------------------------- */

static int restore(struct ll_sim_under *copy, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_restore_target target = LLADD_RESTORE_TARGET_INIT;
    target.kind = LLADD_TO_LSN;
    TRY(ll_sim_entry_end(db, TARGET, &target.lsn, err));
    o.target = &target;
    o.world = lladd_sim_world();
    return lladd_restore(lladd_sim_store(), &o, &copy->face, NULL, err);
}

/* The copy's log has the pin of the original's archive, which no archive of the copy moves. */
static int want_no_pin(struct lladd_db *db, struct lladd_error *err)
{
    lladd_lsn lsn;
    int rc = lladd_pin_get(db, "lladd.archive.0", &lsn, err);
    return rc == LLADD_NOT_FOUND ? 0
           : rc                  ? rc
                                 : lladd_error_set(err, LLADD_BAD_STATE,
                                                   "the copy keeps log for the original's archive");
}

static int work_in_copy(struct lladd_db *db, struct lladd_archive *a, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    int rc = want_no_pin(db, err);
    if (!rc)
        rc = ll_sim_entries_store(a, err);
    if (!rc)
        rc = ll_sim_scrub_nothing(a, err);
    for (uint32_t n = TARGET + 1; !rc && n <= COPY_LAST; n++) {
        rc = ll_sim_entry_do(&w, n, 1);
        if (!rc)
            rc = ll_sim_entries_store(a, err);
    }
    return rc;
}

static int open_copy(struct lladd_options *o, struct lladd_store *store,
                     const struct lladd_environment *world, struct lladd_error *err)
{
    struct lladd_archive_options archive = LLADD_ARCHIVE_OPTIONS_INIT;
    struct lladd_archive *a;
    struct lladd_db *db;
    archive.world = o->world = world;
    TRY(lladd_ship_register(o, store, &archive, &a, err));
    int rc = lladd_open(NULL, o, &db, err);
    if (!rc) {
        rc = work_in_copy(db, a, err);
        int closed = lladd_close(db);
        if (!rc && closed)
            rc = lladd_error_set(err, closed, "the copy cannot be closed");
    }
    lladd_options_release(o);
    lladd_archive_free(a);
    return rc;
}

static void other_options(struct lladd_options *o, struct lladd_device *device)
{
    o->device = device;
    o->flags = LLADD_OPT_NO_THREADS;
    o->cache_bytes = 256 << 10;
    o->log_ring_bytes = 64 << 10;
    o->log_segment_min = o->log_segment_max = 8 << 10;
    o->frames = LLADD_FRAMES_HEAP;
    o->redo_threads = 1;
}

/* The copy is another database than the one that is simulated, so the simulator must not see what
 * the library does in the copy. It does see the calls of the device. */
static int use_copy(struct ll_sim_under *copy, struct lladd_error *err)
{
    struct lladd_dst own = {.planted = lladd_dst_current()->planted};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_store *store = lladd_sim_store();
    const struct lladd_environment *world = lladd_sim_world();
    other_options(&o, &copy->face);
    o.flags |= LLADD_OPT_MUST_EXIST;
    struct lladd_dst *before = lladd_dst_enter(&own);
    int rc = open_copy(&o, store, world, err);
    (void)lladd_dst_enter(before);
    return rc;
}

/* ---- another database -------------------------------------------------------------------- */

static int back_up_other(struct lladd_options *o, struct lladd_store *store,
                         const struct lladd_environment *world, struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    struct lladd_backup_options backup = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_db *db;
    backup.world = o->world = world;
    TRY(lladd_open(NULL, o, &db, err));
    int rc = lladd_backup(db, store, &backup, NULL, &own);
    lladd_db_kill(db);
    return rc == LLADD_OTHER_DATABASE
               ? 0
               : lladd_error_set(err, rc ? rc : LLADD_BAD_STATE,
                                 "the store takes a backup of another database: %s", own.message);
}

/* A store is for one database: its object "archive" says for which one. */
static int refuse_other(struct lladd_error *err)
{
    struct lladd_dst own = {.planted = lladd_dst_current()->planted};
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_store *store = lladd_sim_store();
    const struct lladd_environment *world = lladd_sim_world();
    struct lladd_device *memory;
    if (lladd_device_memory(&memory))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    other_options(&o, memory);
    struct lladd_dst *before = lladd_dst_enter(&own);
    int rc = back_up_other(&o, store, world, err);
    (void)lladd_dst_enter(before);
    lladd_device_close(memory);
    return rc;
}

/* ---- the workload ------------------------------------------------------------------------ */

static int back_up(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    o.world = lladd_sim_world();
    return lladd_backup(db, lladd_sim_store(), &o, NULL, err);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct ll_sim_under copy;
    (void)ctx;
    ll_sim_under_init(&copy, lladd_db_device(db), FOLDER);
    if (ll_sim_under_make(&copy))
        return lladd_error_set(err, LLADD_BAD_STATE, "the folder of the copy cannot be made");
    TRY(ll_sim_entries_make(db, err));
    for (uint32_t n = 1; n <= BEFORE; n++) {
        TRY(ll_sim_entries_store(lladd_sim_archive(), err));
        TRY(ll_sim_entry_do(&w, n, 0));
        if (n == BASE || n == BEFORE)
            TRY(back_up(db, err));
    }
    TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    return refuse_other(err);
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct ll_sim_under copy;
    (void)ctx;
    ll_sim_under_init(&copy, lladd_db_device(db), FOLDER);
    TRY(restore(&copy, db, err));
    TRY(ll_sim_entry_do(&w, LAST, 0));
    TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    return use_copy(&copy, err);
}

/* ---- what there is ----------------------------------------------------------------------- */

/* Returns true if these are contents of the copy: the original's entries up to the target, and
 * after them only entries of the copy. */
static bool is_copy(const struct ll_sim_entries *has)
{
    uint32_t last = has->last.number;
    return last >= TARGET && last <= COPY_LAST && has->last.variant == (last > TARGET);
}

static int wrong(const char *what, uint32_t timeline, const struct ll_sim_entries *has,
                 struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_BAD_STATE, "%s on timeline %u has the entry %u.%u", what,
                           timeline, has->last.number, has->last.variant);
}

/* "control" is written last. So if another file is missing, there must be no "control". */
static int want_no_control(struct ll_sim_under *copy, struct lladd_error *err)
{
    struct lladd_device *dev = &copy->face;
    struct lladd_file *file;
    if (dev->ops->open(dev, "control", LLADD_OPEN_READ_ONLY, &file))
        return 0;
    int rc = dev->ops->close(dev, file);
    return lladd_error_set(err, rc ? rc : LLADD_BAD_STATE,
                           "the copy has \"control\" before its other files");
}

/* *there becomes true if the restore was complete. */
static int look_at_copy(struct lladd_db *db, bool *there, struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    struct ll_sim_under copy;
    struct ll_sim_shown shown;
    ll_sim_under_init(&copy, lladd_db_device(db), FOLDER);
    int rc = ll_sim_entries_look(&copy.face, true, &shown, &own);
    *there = rc == 0;
    if (rc == LLADD_MISSING_FILE)
        return want_no_control(&copy, err);
    if (rc == LLADD_NOT_A_DATABASE || rc == LLADD_CORRUPT_CONTROL)
        return 0; /* "control" is missing or cut off */
    if (rc)
        return lladd_error_set(err, rc, "the copy: %s", own.message);
    return is_copy(&shown.has) ? 0 : wrong("the copy", 1, &shown.has, err);
}

struct timelines {
    uint32_t n; /* number of timelines of copies */
    struct lladd_error *err;
};

static int see_timeline(void *ctx, const struct lladd_archive_item *item)
{
    struct timelines *t = ctx;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_restore_target target = LLADD_RESTORE_TARGET_INIT;
    struct ll_sim_shown s;
    if (item->kind != LLADD_ARCHIVE_TIMELINE)
        return 0;
    target.kind = LLADD_TO_END;
    target.timeline = item->timeline;
    o.target = &target;
    t->n += item->timeline > 0;
    TRY(ll_sim_entries_show(lladd_sim_store(), &o, item->timeline % 2, &s, t->err));
    bool fine = item->timeline ? is_copy(&s.has)
                               : s.has.last.number >= BEFORE && s.has.last.variant == 0;
    return fine ? 0 : wrong("the store", item->timeline, &s.has, t->err);
}

static int look(struct lladd_db *db, bool *there, uint32_t *timelines, struct lladd_error *err)
{
    struct timelines t = {0, err};
    TRY(look_at_copy(db, there, err));
    TRY(lladd_archive_each(lladd_sim_store(), NULL, see_timeline, &t, err));
    *timelines = t.n;
    return *there && !t.n ? lladd_error_set(err, LLADD_BAD_STATE,
                                            "the copy was restored, and the store has no timeline "
                                            "of it")
                          : 0;
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    uint32_t timelines;
    bool there;
    (void)ctx;
    return look(db, &there, &timelines, err);
}

static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    struct ll_sim_work w = {.db = db, .err = err};
    struct ll_sim_under copy;
    uint32_t before, after, last;
    bool there, now;
    (void)ctx;
    ll_sim_under_init(&copy, lladd_db_device(db), FOLDER);
    TRY(look(db, &there, &before, err));
    int rc = restore(&copy, db, &own);
    if (rc != (there ? LLADD_EXISTS : 0))
        return lladd_error_set(err, rc ? rc : LLADD_BAD_STATE,
                               "a second restore %s an existing database: %s",
                               there ? "into" : "without", own.message);
    TRY(look(db, &now, &after, err));
    TRY(ll_sim_entries_last(db, &last, err));
    TRY(ll_sim_entry_do(&w, last + 1, 0));
    return now && after == before + !there
               ? 0
               : lladd_error_set(err, LLADD_BAD_STATE,
                                 "after a second restore the copy is %sthere, on timeline %u "
                                 "after %u",
                                 now ? "" : "not ", after, before);
}

static void init(void *ctx, void *model)
{
    (void)ctx;
    for (uint32_t n = 1; n <= BEFORE; n++)
        ll_sim_entries_add(model, (struct ll_sim_entry){n, 0});
}

const struct lladd_sim_subject ll_sim_subject_restore = {
    .struct_size = sizeof ll_sim_subject_restore,
    .name = "restore",
    .about = "a database is restored to a target, and goes on beside the original",
    .setup = setup,
    .run = run,
    .check = check,
    LL_SIM_ENTRIES_MODEL,
    .model_init = init,
    .go_on = go_on,
    .archives = true,
};
