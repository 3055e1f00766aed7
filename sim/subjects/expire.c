/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * expire: old backups and the log below them are deleted. The setup makes three backups, of a
 * database that archives. The workload keeps two of them. Then another process makes a backup.
 * Meanwhile the database makes one, too, and an expiry keeps only that one. The backup of the other
 * process must have the log that it needs.
 *
 * After each crash every backup in the store must have the contents after one of the entries, and
 * the log above it: from the end of each backup on, the LSN after each entry can be restored. A
 * backup that was to be kept is in the store. After a recovery an expiry keeps one backup, the next
 * expiry finds nothing to delete, and the archive continues.
 */
#include "sim/subjects/entries.h"
#include "sim/subjects/under.h"

#include <lladd/dst.h>
#include <lladd/extension.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BACKUPS = 3,
    BEFORE = 7,            /* entries of the setup */
    MEANWHILE = BEFORE + 5 /* the last entry that is done during the last backups */
};

/* The setup makes a backup after each of these entries. There is a whole segment of log between the
 * last two. */
static const uint32_t backed_up[BACKUPS] = {1, 2, 6};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->log_segment_min = o->log_segment_max = 4 << 10; /* more segments, with less log */
    return 0;
}

/* ---- the workload ------------------------------------------------------------------------ */

static void label_of(uint32_t entry, char out[16])
{
    (void)snprintf(out, 16, "%u", entry);
}

static int back_up(struct lladd_db *db, uint32_t entry, struct lladd_error *err)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    char label[16];
    label_of(entry, label);
    o.label = label;
    o.world = lladd_sim_world();
    return lladd_backup(db, lladd_sim_store(), &o, NULL, err);
}

static int expire(uint64_t keep, struct lladd_expire_info *info, struct lladd_error *err)
{
    struct lladd_keep k = LLADD_KEEP_INIT;
    *info = (struct lladd_expire_info){.struct_size = sizeof *info};
    k.backups = keep;
    k.world = lladd_sim_world();
    return lladd_archive_expire(lladd_sim_store(), &k, NULL, NULL, info, err);
}

/* Does an entry, stores the log, and frees it in the database. */
static int work(struct ll_sim_work *w, uint32_t entry)
{
    TRY(ll_sim_entry_do(w, entry, 0));
    TRY(ll_sim_entries_store(lladd_sim_archive(), w->err));
    return lladd_checkpoint(w->db, w->err);
}

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    (void)ctx;
    TRY(ll_sim_entries_make(db, err));
    unsigned backups = 0;
    for (uint32_t n = 1; n <= BEFORE; n++) {
        TRY(work(&w, n));
        if (backups < BACKUPS && n == backed_up[backups]) {
            TRY(back_up(db, n, err));
            backups++;
        }
    }
    return 0;
}

/* What happens during the backup of the other process. */
struct beside {
    struct lladd_dst own;      /* observes nothing: it is that of the other process */
    struct lladd_dst *process; /* that of the database */
    struct ll_sim_work *w;
    bool done;
};

static int meanwhile(struct beside *b)
{
    struct lladd_expire_info info;
    b->done = true;
    for (uint32_t n = BEFORE + 2; n <= MEANWHILE; n++)
        TRY(work(b->w, n));
    TRY(back_up(b->w->db, MEANWHILE, b->w->err));
    return expire(1, &info, b->w->err);
}

static int progress(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    struct beside *b = ctx;
    (void)done, (void)all;
    struct lladd_dst *before = lladd_dst_enter(b->process);
    int rc = 0;
    if (strcmp(what, "archive") == 0) /* the backup waits for log in the store */
        rc = ll_sim_entries_store(lladd_sim_archive(), b->w->err);
    else if (!b->done)
        rc = meanwhile(b);
    (void)lladd_dst_enter(before);
    return rc;
}

static void ignore(void *ctx, const char *what)
{
    (void)ctx, (void)what; /* a pause ends at once */
}

static int back_up_outside(struct ll_sim_work *w, uint32_t entry, struct lladd_error *err)
{
    struct lladd_backup_options backup = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_outside_options o = LLADD_OUTSIDE_OPTIONS_INIT;
    struct beside b = {.w = w};
    struct ll_sim_under files;
    struct lladd_store *store = lladd_sim_store();
    char label[16];
    label_of(entry, label);
    backup.label = label;
    backup.world = lladd_sim_world();
    backup.progress = progress;
    backup.progress_ctx = &b;
    o.backup = &backup;
    o.wait_ns = 1; /* the database stores its log before the backup's next look */
    ll_sim_under_init(&files, lladd_db_device(w->db), "");
    files.locked = true;
    b.own = (struct lladd_dst){.planted = lladd_dst_current()->planted, .stuck = ignore};
    b.process = lladd_dst_enter(&b.own);
    int rc = lladd_backup_outside(&files.face, store, &o, NULL, err);
    (void)lladd_dst_enter(b.process);
    return rc;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    struct lladd_expire_info info;
    (void)ctx;
    TRY(expire(2, &info, err));
    if (info.kept != 2 || info.expired != BACKUPS - 2)
        return lladd_error_set(err, LLADD_BAD_STATE, "an expiry keeps %llu backups",
                               (unsigned long long)info.kept);
    TRY(work(&w, BEFORE + 1));
    int rc = back_up_outside(&w, BEFORE + 1, &own);
    return rc ? lladd_error_set(err, rc, "%s", own.message) : 0;
}

/* ---- what the store has ------------------------------------------------------------------ */

enum { MOST = BACKUPS + 4 };

struct looking {
    struct lladd_db *db;
    uint32_t last; /* the last entry of the database */
    lladd_lsn to;  /* how far the store says it can restore */
    struct lladd_backup_info base[MOST];
    unsigned n;
    struct lladd_error *err;
};

static int see_base(void *ctx, const struct lladd_backup_info *info)
{
    struct looking *l = ctx;
    if (l->n == MOST)
        return lladd_error_set(l->err, LLADD_BAD_STATE, "there are too many backups");
    memcpy(&l->base[l->n], info, sizeof *info);
    l->n++;
    return 0;
}

static int see_item(void *ctx, const struct lladd_archive_item *item)
{
    struct looking *l = ctx;
    if (item->kind == LLADD_ARCHIVE_RANGE && item->end.v > l->to.v)
        l->to = item->end;
    return 0;
}

static int look(struct lladd_db *db, struct looking *l, struct lladd_error *err)
{
    *l = (struct looking){.db = db, .err = err};
    TRY(ll_sim_entries_last(db, &l->last, err));
    TRY(lladd_backup_each(lladd_sim_store(), NULL, see_base, l, err));
    return lladd_archive_each(lladd_sim_store(), NULL, see_item, l, err);
}

static uint32_t entry_of(const struct lladd_backup_info *b)
{
    return (uint32_t)strtoul(b->label, NULL, 10);
}

static bool has(const struct looking *l, uint32_t entry)
{
    bool found = false;
    for (unsigned i = 0; i < l->n; i++)
        found = found || entry_of(&l->base[i]) == entry;
    return found;
}

/* The newest backup was made before an expiry kept only this one. */
static int want_kept(const struct looking *l)
{
    bool kept = has(l, MEANWHILE);
    for (unsigned i = 1; i < BACKUPS && !kept; i++)
        if (!has(l, backed_up[i]))
            return lladd_error_set(l->err, LLADD_BAD_STATE,
                                   "the backup after entry %u was to be kept", backed_up[i]);
    return 0;
}

static int want_base(const struct looking *l, const struct lladd_backup_info *b, bool instant)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct ll_sim_shown s;
    o.base = b->name;
    TRY(ll_sim_entries_show(lladd_sim_store(), &o, instant, &s, l->err));
    uint32_t entry = s.has.last.number;
    return entry >= entry_of(b) && entry <= l->last
               ? 0
               : lladd_error_set(l->err, LLADD_BAD_STATE,
                                 "the backup after entry %u has the contents after entry %u",
                                 entry_of(b), entry);
}

/* Restores to the LSN after an entry, with the backup. *there: the store says that it can. */
static int want_entry(const struct looking *l, const struct lladd_backup_info *b, uint32_t entry,
                      bool *there)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_restore_target target = LLADD_RESTORE_TARGET_INIT;
    struct ll_sim_shown s;
    target.kind = LLADD_TO_LSN;
    TRY(ll_sim_entry_end(l->db, entry, &target.lsn, l->err));
    *there = target.lsn.v > b->end.v && target.lsn.v <= l->to.v;
    if (!*there)
        return 0;
    o.base = b->name;
    o.target = &target;
    TRY(ll_sim_entries_show(lladd_sim_store(), &o, entry % 2 == 0, &s, l->err));
    return s.has.last.number == entry
               ? 0
               : lladd_error_set(l->err, LLADD_BAD_STATE,
                                 "the target after entry %u has the contents after entry %u", entry,
                                 s.has.last.number);
}

/* `all`: every entry above each backup. Otherwise only the first one. */
static int want_targets(const struct looking *l, bool all)
{
    for (unsigned i = 0; i < l->n; i++) {
        bool there = false;
        TRY(want_base(l, &l->base[i], i % 2));
        for (uint32_t n = 1; n < l->last && (all || !there); n++)
            TRY(want_entry(l, &l->base[i], n, &there));
    }
    return 0;
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct looking l;
    (void)ctx;
    TRY(look(db, &l, err));
    TRY(want_kept(&l));
    return want_targets(&l, false);
}

/* ---- after the recovery ------------------------------------------------------------------ */

static int expire_again(struct lladd_error *err)
{
    struct lladd_expire_info first, second;
    TRY(expire(1, &first, err));
    TRY(expire(1, &second, err));
    return first.kept == 1 && second.kept == 1 && second.expired == 0 && second.objects == 0
               ? 0
               : lladd_error_set(err, LLADD_BAD_STATE,
                                 "an expiry keeps %llu backups, and the next one deletes %llu "
                                 "objects",
                                 (unsigned long long)first.kept,
                                 (unsigned long long)second.objects);
}

static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct looking l;
    (void)ctx;
    TRY(look(db, &l, err));
    TRY(want_targets(&l, true));
    TRY(expire_again(err));
    TRY(work(&w, l.last + 1));
    lladd_lsn end = lladd_durable_lsn(db);
    TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    TRY(look(db, &l, err));
    if (l.n != 1 || l.to.v < end.v)
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "the store has %u backups, and can restore up to %llu of %llu", l.n,
                               (unsigned long long)l.to.v, (unsigned long long)end.v);
    return want_targets(&l, true);
}

static void init(void *ctx, void *model)
{
    (void)ctx;
    for (uint32_t n = 1; n <= BEFORE; n++)
        ll_sim_entries_add(model, (struct ll_sim_entry){n, 0});
}

const struct lladd_sim_subject ll_sim_subject_expire = {
    .struct_size = sizeof ll_sim_subject_expire,
    .name = "expire",
    .about = "backups expire, and the log that no kept backup needs",
    .configure = configure,
    .setup = setup,
    .run = run,
    .check = check,
    LL_SIM_ENTRIES_MODEL,
    .model_init = init,
    .go_on = go_on,
    .archives = true,
};
