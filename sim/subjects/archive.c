/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * archive: the log is archived while its segments are used again. The setup makes a backup. Then
 * the workload alternates entries with steps of the archive and with checkpoints, which free log.
 * During some entries the store is away, and during later entries it is full. One transaction stays
 * open, one is prepared, and one is rolled back.
 *
 * After each crash, the store must be able to restore what it says it can restore. The check
 * restores to the end of the archived log, and to the LSN after the last entry but one. Then the
 * archive stores the rest of the log, and the check restores to the LSN after each entry, and to
 * a time. Each restored database must have the contents after its entry. A scrub must find nothing.
 * At last the store loses a segment: then a restore to the end of the log must be refused. During
 * the workload a read of the log gives a wrong byte: the archive must not store it.
 *
 * archive.filtered: the same. All that is stored passes through a filter, which gets back each
 * block in its place in its object, or refuses it.
 */
#include "sim/subjects/entries.h"
#include "sim/subjects/scrubs.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BEFORE = 2, /* entries of the setup */
    OPEN_AFTER = 3,
    PREPARED_AFTER = 4,
    ROLLED_BACK_AFTER = 5,
    AWAY_AFTER = 6, /* the store is away after this entry, and full after the entries FULL_FROM to
                     * FULL_TO */
    FULL_FROM = 7,
    FULL_TO = 9,
    MISREAD_AFTER = 5,
    LAST = 11,
    FIRST_US = 1000, /* the times of two marks */
    LATER_US = 2000
};

static int configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    (void)ctx;
    (void)err;
    o->log_segment_min = o->log_segment_max = 4 << 10; /* more segments, with less log */
    return 0;
}

static int want_no_gap(struct lladd_error *err)
{
    struct lladd_archive_status s = {.struct_size = sizeof s};
    TRY(lladd_archive_status_get(lladd_sim_archive(), &s, err));
    return s.gap ? lladd_error_set(err, LLADD_BAD_STATE, "the archive has a gap from %llu to %llu",
                                   (unsigned long long)s.gap_from.v, (unsigned long long)s.gap_to.v)
                 : 0;
}

/* ---- the workload ------------------------------------------------------------------------ */

static int setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    (void)ctx;
    TRY(ll_sim_entries_make(db, err));
    TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    for (uint32_t n = 1; n <= BEFORE; n++)
        TRY(ll_sim_entry_do(&w, n, 0));
    o.world = lladd_sim_world();
    TRY(lladd_backup(db, lladd_sim_store(), &o, NULL, err));
    return ll_sim_entries_store(lladd_sim_archive(), err);
}

/* A step that must fail with one of these errors leaves the archive as it was. */
static int step_in_vain(int code, int other, struct lladd_error *err)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    bool more;
    int rc = lladd_archive_step(lladd_sim_archive(), &more, &own);
    if (rc && (rc == code || rc == other))
        return 0;
    return rc ? lladd_error_set(err, rc, "%s", own.message)
              : lladd_error_set(err, LLADD_BAD_STATE,
                                "a step succeeds without a store, or with log that was misread");
}

static int archive_after(uint32_t n, struct lladd_db *db, struct lladd_error *err)
{
    bool away = n == AWAY_AFTER, full = n >= FULL_FROM && n <= FULL_TO;
    lladd_sim_store_away(away);
    lladd_sim_store_full(full);
    TRY(away || full ? step_in_vain(LLADD_STORE_FAILED, LLADD_NO_SPACE, err)
                     : ll_sim_entries_store(lladd_sim_archive(), err));
    return n % 2 ? lladd_checkpoint(db, err) : 0;
}

static int beside(struct ll_sim_work *w, uint32_t n)
{
    if (n == OPEN_AFTER)
        return ll_sim_entry_open(w);
    if (n == PREPARED_AFTER)
        return ll_sim_entry_prepare(w);
    return n == ROLLED_BACK_AFTER ? ll_sim_entry_roll_back(w) : 0;
}

static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.sim = sim, .db = db, .err = err};
    (void)ctx;
    for (uint32_t n = BEFORE + 1; n <= LAST; n++) {
        TRY(ll_sim_entry_do(&w, n, 0));
        TRY(beside(&w, n));
        if (n == MISREAD_AFTER && lladd_sim_misread_log(sim))
            TRY(step_in_vain(LLADD_CORRUPT_LOG, 0, err));
        TRY(archive_after(n, db, err));
    }
    return want_no_gap(err);
}

/* ---- targets ----------------------------------------------------------------------------- */

struct targets {
    uint32_t last;     /* the last entry of the database */
    lladd_lsn to, end; /* to: how far the store says it can restore; end: the end of the backup */
    bool resolved;     /* true if the prepared transaction was ended after the recovery */
    struct lladd_error *err;
};

static int see_item(void *ctx, const struct lladd_archive_item *item)
{
    struct targets *t = ctx;
    if (item->kind == LLADD_ARCHIVE_RANGE && item->end.v > t->to.v)
        t->to = item->end;
    return 0;
}

static int see_base(void *ctx, const struct lladd_backup_info *info)
{
    ((struct targets *)ctx)->end = info->end;
    return 0;
}

static int find(struct lladd_db *db, bool resolved, struct targets *t, struct lladd_error *err)
{
    *t = (struct targets){.resolved = resolved, .err = err};
    TRY(ll_sim_entries_last(db, &t->last, err));
    TRY(lladd_backup_each(lladd_sim_store(), NULL, see_base, t, err));
    return lladd_archive_each(lladd_sim_store(), NULL, see_item, t, err);
}

static int wrong(const struct targets *t, const char *what, uint32_t entry,
                 const struct ll_sim_shown *s)
{
    return lladd_error_set(t->err, LLADD_BAD_STATE,
                           "%s (entry %u, LSN %llu) has the contents after entry %u, with %u "
                           "transactions in doubt; the database has entry %u",
                           what, entry, (unsigned long long)s->end.v, s->has.last.number,
                           s->in_doubt, t->last);
}

/* Restores to the LSN after this entry, and checks the contents. From entry PREPARED_AFTER on, the
 * prepared transaction must be in doubt there. */
static int want_entry(const struct targets *t, uint32_t entry, lladd_lsn lsn)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_restore_target target = LLADD_RESTORE_TARGET_INIT;
    struct ll_sim_shown s;
    target.kind = LLADD_TO_LSN;
    target.lsn = lsn;
    o.target = &target;
    TRY(ll_sim_entries_show(lladd_sim_store(), &o, entry % 2 == 0, &s, t->err));
    uint32_t doubt = entry >= PREPARED_AFTER;
    bool fits = t->resolved && entry + 1 >= t->last
                    ? s.in_doubt <= doubt /* the transaction was ended after the crash */
                    : s.in_doubt == doubt && s.has.doubt == doubt;
    return s.has.last.number == entry && fits ? 0 : wrong(t, "the target", entry, &s);
}

/* Restores the end of the archived log, which must have the contents after one of the entries. */
static int want_end(const struct targets *t)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_restore_target target = LLADD_RESTORE_TARGET_INIT;
    struct ll_sim_shown s;
    target.kind = LLADD_TO_END;
    o.target = &target;
    TRY(ll_sim_entries_show(lladd_sim_store(), &o, t->last % 2, &s, t->err));
    uint32_t last = s.has.last.number;
    bool fits = t->resolved || s.in_doubt == s.has.doubt;
    if (!t->resolved && last != PREPARED_AFTER)
        fits = fits && s.has.doubt == (last > PREPARED_AFTER);
    return last >= BEFORE && last <= t->last && fits ? 0
                                                     : wrong(t, "the end of the log", last, &s);
}

/* Restores to the LSN after entry `only`, or after each entry if `only` is 0. Leaves out each LSN
 * to which the store says it cannot restore. */
static int want_targets(const struct targets *t, struct lladd_db *db, uint32_t only)
{
    for (uint32_t n = BEFORE; n < t->last; n++) {
        lladd_lsn lsn;
        TRY(ll_sim_entry_end(db, n, &lsn, t->err));
        if ((!only || n == only) && lsn.v >= t->end.v && lsn.v <= t->to.v)
            TRY(want_entry(t, n, lsn));
    }
    return want_end(t);
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct targets t;
    (void)ctx;
    TRY(find(db, false, &t, err));
    return want_targets(&t, db, t.last - 1);
}

/* ---- a time, and a gap ------------------------------------------------------------------- */

/* Writes a mark of a later time than all marks of the archive, because the clock of a simulation
 * stands still. For the same reason the archive itself writes one mark for each handle at most. */
static int mark_at(uint64_t time_us, struct lladd_db *db, struct lladd_error *err)
{
    unsigned char mark[24] = "LLMARK1"; /* then LSN 0: the end of the mark's own record */
    struct lladd_txn *txn;
    lladd_lsn lsn;
    lladd_put64(mark + 16, time_us);
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = lladd_log_note(txn, "lladd.time", lladd_span_of(mark, sizeof mark), &lsn);
    return rc ? ll_sim_give_up(NULL, txn, rc, err) : lladd_commit(txn);
}

/* Restores to a time between the two marks of go_on. */
static int want_time(const struct targets *t, uint32_t entry)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_restore_target target = LLADD_RESTORE_TARGET_INIT;
    struct ll_sim_shown s;
    target.kind = LLADD_TO_TIME;
    target.time_us = (FIRST_US + LATER_US) / 2;
    o.target = &target;
    TRY(ll_sim_entries_show(lladd_sim_store(), &o, false, &s, t->err));
    return s.has.last.number == entry ? 0 : wrong(t, "the time", entry, &s);
}

/* Looks for the lowest whole segment that begins at `above` or higher, and below `first`. */
struct sought {
    uint64_t above, first;
};

static int see_segment(void *ctx, const char *name, uint64_t size)
{
    struct sought *s = ctx;
    const char *log = strstr(name, "/log/");
    uint64_t first = log && strstr(log, ".seg") ? strtoull(log + strlen("/log/"), NULL, 16) : 0;
    (void)size;
    if (first >= s->above && first < s->first)
        s->first = first;
    return 0;
}

/* The store loses the first segment that begins after the end of the backup. */
static int lose_segment(const struct targets *t, bool *lost)
{
    struct lladd_store *store = lladd_sim_store();
    struct sought s = {t->end.v, t->to.v};
    char name[64];
    TRY(store->ops->list(store, "t", see_segment, &s, t->err));
    *lost = s.first < t->to.v;
    (void)snprintf(name, sizeof name, "t00000000/log/%016llx.seg", (unsigned long long)s.first);
    return *lost ? store->ops->remove(store, name, t->err) : 0;
}

/* If the store lacks log after the backup, the log after the gap cannot be restored. */
static int want_gap(const struct targets *t)
{
    struct lladd_error own = LLADD_ERROR_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_restore_target target = LLADD_RESTORE_TARGET_INIT;
    struct lladd_device *device;
    bool lost;
    TRY(lose_segment(t, &lost));
    if (!lost)
        return 0;
    target.kind = LLADD_TO_LSN;
    target.lsn = t->to;
    o.target = &target;
    int rc = lladd_store_device(lladd_sim_store(), &o, &device, &own);
    if (rc == 0)
        lladd_store_device_close(device);
    return rc == LLADD_OUT_OF_RANGE
               ? 0
               : lladd_error_set(t->err, rc ? rc : LLADD_BAD_STATE,
                                 "a target after a gap in the log is not refused: %s",
                                 rc ? own.message : "it can be restored");
}

/* ---- after the recovery ------------------------------------------------------------------ */

/* The archive continues, and must store all log without a gap. */
static int go_on(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct ll_sim_work w = {.db = db, .err = err};
    struct targets t;
    uint32_t last;
    (void)ctx;
    TRY(ll_sim_entries_last(db, &last, err));
    TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    TRY(mark_at(FIRST_US, db, err));
    TRY(ll_sim_entry_do(&w, last + 1, 0));
    TRY(mark_at(LATER_US, db, err));
    lladd_lsn end = lladd_durable_lsn(db);
    TRY(ll_sim_entries_store(lladd_sim_archive(), err));
    TRY(want_no_gap(err));
    TRY(find(db, true, &t, err));
    TRY(ll_sim_scrub_nothing(lladd_sim_archive(), err));
    if (t.to.v < end.v)
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "all log is stored, and the store can restore up to %llu of %llu",
                               (unsigned long long)t.to.v, (unsigned long long)end.v);
    TRY(want_targets(&t, db, 0));
    TRY(want_time(&t, last));
    return want_gap(&t);
}

static void init(void *ctx, void *model)
{
    (void)ctx;
    for (uint32_t n = 1; n <= BEFORE; n++)
        ll_sim_entries_add(model, (struct ll_sim_entry){n, 0});
}

/* ---- a filter ---------------------------------------------------------------------------- */

enum { SEAL = 8 };

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(1099511628211); /* FNV-1a */
    return hash;
}

/* A number for the place of the block. */
static uint64_t place_of(const struct lladd_filter_block *b)
{
    uint64_t hash = mix(UINT64_C(14695981039346656037), b->object, strlen(b->object));
    hash = mix(hash, &b->offset, sizeof b->offset);
    return mix(hash, &b->size, sizeof b->size) | 1;
}

/* Does the same to scrambled bytes as to plain ones: gives back the others. */
static void scramble(uint64_t key, const unsigned char *from, size_t len, unsigned char *to)
{
    for (size_t i = 0; i < len; i++) {
        key ^= key << 13;
        key ^= key >> 7;
        key ^= key << 17;
        to[i] = from[i] ^ (unsigned char)key;
    }
}

static int seal(void *ctx, const struct lladd_filter_block *b, const void *bytes, size_t len,
                void *to, size_t room, size_t *made, struct lladd_error *err)
{
    uint64_t place = place_of(b);
    (void)ctx;
    if (room < len + SEAL)
        return lladd_error_set(err, LLADD_STORE_FAILED, "no room for a seal");
    lladd_put64(to, mix(place, bytes, len));
    scramble(place, bytes, len, (unsigned char *)to + SEAL);
    *made = len + SEAL;
    return 0;
}

static int unseal(void *ctx, const struct lladd_filter_block *b, const void *bytes, size_t len,
                  void *to, size_t room, size_t *made, struct lladd_error *err)
{
    uint64_t place = place_of(b);
    (void)ctx;
    if (len != room + SEAL)
        return lladd_error_set(err, LLADD_OTHER_FILTER, "a block has a wrong length");
    scramble(place, (const unsigned char *)bytes + SEAL, room, to);
    *made = room;
    return lladd_get64(bytes) == mix(place, to, room)
               ? 0
               : lladd_error_set(err, LLADD_OTHER_FILTER, "a block is not in its place");
}

static const struct lladd_store_filter sealing = {
    .struct_size = sizeof sealing, .name = "seal", .out = seal, .in = unseal};

#define MEMBERS \
    .configure = configure, .setup = setup, .run = run, .check = check, LL_SIM_ENTRIES_MODEL, \
    .model_init = init, .go_on = go_on, .archives = true

const struct lladd_sim_subject ll_sim_subject_archive = {
    .struct_size = sizeof ll_sim_subject_archive,
    .name = "archive",
    .about = "the log is archived while it is used again; each entry is a target",
    MEMBERS,
};

const struct lladd_sim_subject ll_sim_subject_archive_filtered = {
    .struct_size = sizeof ll_sim_subject_archive_filtered,
    .name = "archive.filtered",
    .about = "the same, and a filter encrypts what is stored",
    .filter = &sealing,
    MEMBERS,
};
