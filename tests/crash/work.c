/* SPDX-License-Identifier: BSD-2-Clause */
/* What the processes do with the database: transactions of workers, prepared transactions,
 * transactions that never end, pins, and checkpoints. */
#include "support/fixtures.h"
#include "world.h"

#include <lladd/blob.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/journal.h>
#include <lladd/lock.h>
#include <lladd/log_read.h>
#include <lladd/records.h>
#include <lladd/sync.h>
#include <stdlib.h>
#include <string.h>

static uint64_t below(uint64_t *rng, uint64_t n)
{
    return seeded_next(rng) % n;
}

/* ---- one worker's transaction ---------------------------------------------------------------- */

static int not_found_is_fine(int rc)
{
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

static int do_blob(struct session *s, struct lladd_txn *txn, unsigned w, const struct act *a,
                   const void *bytes)
{
    uint64_t len;
    int rc = lladd_blob_length(s->db, s->blobs[w], &len, lladd_txn_error_out(txn));
    if (rc != 0)
        return rc;
    uint64_t at = a->at % (len + 1);
    switch (a->kind) {
    case ACT_BLOB_WRITE:
        return lladd_blob_write(txn, s->blobs[w], at, bytes, a->len);
    case ACT_BLOB_CUT:
        return lladd_blob_truncate(txn, s->blobs[w], at);
    default:
        return lladd_blob_replace(txn, s->blobs[w], bytes, a->len);
    }
}

static int do_row(struct session *s, struct lladd_txn *txn, uint32_t key, uint32_t n)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    unsigned char value[4];
    lladd_put32(value, n);
    struct lladd_dtable_value v =
        n ? lladd_dtable_value_of(value, sizeof value) : lladd_dtable_tombstone();
    return lladd_managed_put(txn, s->rows, &k, &v);
}

static int do_act(struct session *s, struct lladd_txn *txn, unsigned w, uint32_t n,
                  const struct act *a, const void *bytes)
{
    struct key k = key_of('W', w, a->at);
    switch (a->kind) {
    case ACT_PUT:
        return lladd_hash_put(txn, s->hash, &k, sizeof k, bytes, a->len);
    case ACT_DELETE:
        return not_found_is_fine(lladd_hash_delete(txn, s->hash, &k, sizeof k));
    case ACT_ADD:
        return lladd_counter_add(txn, s->page, 8 * w, a->len);
    case ACT_SET:
        return lladd_bytes_set(txn, s->page, (1 + w) * BYTES + a->at, bytes, a->len);
    case ACT_APPEND:
        return lladd_journal_append(txn, s->tags[w], lladd_span_of(bytes, a->len), NULL);
    case ACT_DISCARD:
        return lladd_journal_discard(txn, s->tags[w], lladd_lsn_of(0));
    case ACT_ROW:
        return do_row(s, txn, w * 1000 + a->at, n);
    case ACT_ROW_DELETE:
        return do_row(s, txn, w * 1000 + a->at, 0);
    default:
        return do_blob(s, txn, w, a, bytes);
    }
}

static const char *const act_names[ACT_KINDS] = {
    "put",        "delete",   "add",          "set", "append to the journal", "discard",
    "blob write", "blob cut", "blob replace", "row", "delete a row"};

static int do_acts(struct session *s, struct lladd_txn *txn, unsigned w, uint32_t n)
{
    struct act acts[ACTS];
    unsigned count = acts_of(s->plan, w, n, acts);
    lladd_savepoint_id sp = 0;
    int rc = 0;
    for (unsigned i = 0; rc == 0 && i < count; i++) {
        void *bytes = malloc(acts[i].len + 1);
        if (!bytes)
            abort();
        act_bytes(s->plan, w, n, i, &acts[i], bytes);
        if (acts[i].detour && !sp)
            rc = lladd_savepoint(txn, &sp);
        if (rc == 0 && !acts[i].detour && sp) {
            must_txn(s, lladd_rollback_to(txn, sp), "rollback to a savepoint", txn);
            sp = 0;
        }
        if (rc == 0)
            rc = do_act(s, txn, w, n, &acts[i], bytes);
        if (rc != 0 && !refused(s, rc))
            must_txn(s, rc, act_names[acts[i].kind], txn);
        free(bytes);
    }
    struct key k = key_of('N', w, 0);
    unsigned char value[4];
    lladd_put32(value, n);
    return rc ? rc : lladd_hash_put(txn, s->hash, &k, sizeof k, value, sizeof value);
}

/* Commits, and records what is promised. The promise depends on the durability and on power
 * failures. */
static int commit(struct session *s, struct lladd_txn *txn, unsigned w, uint32_t n,
                  enum lladd_durability durability)
{
    struct oracle *o = s->oracle;
    struct lladd_error err = LLADD_ERROR_INIT;
    bool asynchronous = durability == LLADD_DURABILITY_DEFAULT;
    lladd_lsn lsn;
    atomic_store(&o->worker[w].issued, n);
    int rc = asynchronous ? lladd_commit_async(txn, &lsn) : lladd_commit(txn);
    if (rc != 0)
        return rc;
    if (asynchronous && n % 3 == 0)
        must(o, lladd_wait_durable(s->db, lsn, &err), "wait", &err);
    bool sure = asynchronous                     ? n % 3 == 0
                : durability == LLADD_DURABLE    ? true
                : durability == LLADD_DURABLE_OS ? !(s->plan->features & WITH_POWER)
                                                 : false;
    if (sure)
        atomic_store(&o->worker[w].sure, n);
    return 0;
}

static enum lladd_durability durability_of(const struct plan *p, unsigned w, uint32_t n)
{
    uint64_t r = mix(p->seed, 'd', w, n) % 8;
    return !(p->features & WITH_RELAXED) || r > 3 ? LLADD_DURABLE : (enum lladd_durability)r;
}

/* Makes the changes of transaction n and rolls them back. */
static int do_nothing(struct session *s, unsigned w, uint32_t n)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    must(s->oracle, lladd_begin(s->db, NULL, &txn, &err), "begin", &err);
    int rc = do_acts(s, txn, w, n);
    if (rc != 0 && !refused(s, rc))
        must_txn(s, rc, "work", txn);
    must_txn(s, lladd_abort(txn), "abort", txn);
    return rc;
}

int work_one(struct session *s, unsigned w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn_options how = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    unsigned char value[4] = {0};
    size_t len;
    struct key k = key_of('N', w, 0);
    int rc = lladd_hash_get(s->hash, &k, sizeof k, value, sizeof value, &len, &err);
    must(s->oracle, not_found_is_fine(rc), "get", &err);
    uint32_t n = lladd_get32(value) + 1;
    rc = mix(s->plan->seed, s->life, w, n) % 8 == 0 ? do_nothing(s, w, n) : 0;
    if (rc != 0)
        return rc;
    how.durability = durability_of(s->plan, w, n);
    must(s->oracle, lladd_begin(s->db, &how, &txn, &err), "begin", &err);
    rc = do_acts(s, txn, w, n);
    if (rc == 0)
        rc = commit(s, txn, w, n, how.durability);
    if (rc == 0)
        return 0;
    if (!refused(s, rc))
        must_txn(s, rc, "work", txn);
    must_txn(s, lladd_abort(txn), "abort", txn);
    return rc;
}

/* ---- prepared transactions ------------------------------------------------------------------- */

struct lladd_gid gid_of(unsigned slot, uint32_t serial)
{
    struct lladd_gid gid = {.format = 0x4c4c};
    int n = snprintf((char *)gid.data, sizeof gid.data, "slot %u, transaction %u", slot, serial);
    gid.gtrid_length = 5;
    gid.bqual_length = (uint32_t)n - 5;
    return gid;
}

/* Rolls back a transaction that was refused. */
static void roll_back(struct session *s, struct lladd_txn *txn, int rc)
{
    if (!refused(s, rc))
        must_txn(s, rc, "work in doubt", txn);
    must_txn(s, lladd_abort(txn), "abort", txn);
}

static void prepare(struct session *s, unsigned slot)
{
    struct slot *o = &s->oracle->slot[slot];
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    uint32_t serial = atomic_load(&o->serial) + 1;
    unsigned char entry[8]; /* slot and serial */
    lladd_put32(entry, slot);
    lladd_put32(entry + 4, serial);
    struct key k = key_of('D', slot, 0);
    struct lladd_gid gid = gid_of(slot, serial);
    must(s->oracle, lladd_begin(s->db, NULL, &txn, &err), "begin", &err);
    int rc = lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id('D'), lladd_lock_id(slot)),
                                LLADD_LOCK_X, LLADD_LOCK_TRY);
    if (rc == 0)
        rc = lladd_hash_put(txn, s->hash, &k, sizeof k, entry + 4, 4);
    if (rc == 0)
        rc = lladd_counter_add(txn, s->page, 8 * (WORKERS + slot), 1);
    if (rc == 0 && (s->plan->features & WITH_JOURNAL))
        rc = lladd_journal_append(txn, s->doubts, lladd_span_of(entry, sizeof entry), NULL);
    if (rc == 0 && (s->plan->features & WITH_MANAGED))
        rc = do_row(s, txn, 900000 + slot, serial);
    if (rc == 0) {
        atomic_store(&o->serial, serial);
        atomic_store(&o->state, DOUBT_PREPARING);
        rc = lladd_prepare(txn, &gid);
    }
    if (rc != 0) {
        roll_back(s, txn, rc);
        if (atomic_load(&o->state) == DOUBT_PREPARING)
            atomic_store(&o->state, DOUBT_NONE);
        return;
    }
    atomic_store(&o->state, DOUBT_PREPARED);
    s->held[slot] = txn;
}

static void decide(struct session *s, unsigned slot, bool commits)
{
    struct slot *o = &s->oracle->slot[slot];
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn = s->held[slot];
    struct lladd_gid gid = gid_of(slot, atomic_load(&o->serial));
    if (!txn)
        must(s->oracle, lladd_in_doubt_claim(s->db, &gid, &txn, &err), "claim", &err);
    s->held[slot] = NULL;
    atomic_store(&o->state, commits ? DOUBT_COMMITTING : DOUBT_ABORTING);
    if (!commits) { /* until a later record is durable, a crash can leave the transaction in doubt
                     * again */
        must_txn(s, lladd_abort(txn), "abort in doubt", txn);
        return;
    }
    must_txn(s, lladd_commit(txn), "commit in doubt", txn);
    atomic_fetch_add(&o->commits, 1);
    atomic_store(&o->committed, atomic_load(&o->serial));
    atomic_store(&o->state, DOUBT_NONE);
}

static void doubts(struct session *s, uint64_t *rng)
{
    unsigned slot = (unsigned)below(rng, SLOTS);
    uint32_t state = atomic_load(&s->oracle->slot[slot].state);
    if (state == DOUBT_NONE)
        prepare(s, slot);
    else if (state == DOUBT_PREPARED && below(rng, 2))
        decide(s, slot, below(rng, 2));
}

/* ---- losers ---------------------------------------------------------------------------------- */

struct loser {
    struct lladd_txn *txn;
    unsigned index;
    uint32_t done;
};

/* Returns false if the transaction cannot add any more changes. */
static bool loser_goes_on(struct session *s, struct loser *l, uint64_t *rng)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    lladd_savepoint_id sp;
    unsigned char value[256];
    if (!l->txn)
        must(s->oracle, lladd_begin(s->db, NULL, &l->txn, &err), "begin", &err);
    for (uint64_t i = 1 + below(rng, s->plan->loser_size); i > 0; i--) {
        struct key k = key_of('L', l->index, l->done++ % 2000);
        bool back = below(rng, 16) == 0;
        seeded_fill(*rng, value, sizeof value);
        int rc = back ? lladd_savepoint(l->txn, &sp) : 0;
        if (rc == 0)
            rc = lladd_hash_put(l->txn, s->hash, &k, sizeof k, value, below(rng, sizeof value));
        if (rc == 0)
            rc = lladd_counter_add(l->txn, s->page, 8 * (WORKERS + SLOTS + l->index), 1);
        if (rc == 0 && back)
            must_txn(s, lladd_rollback_to(l->txn, sp), "rollback to a savepoint", l->txn);
        if (rc == 0)
            continue;
        if (!refused(s, rc))
            must_txn(s, rc, "work", l->txn);
        return false;
    }
    return true;
}

/* ---- pins ------------------------------------------------------------------------------------ */

static void pins(struct session *s, uint64_t *rng)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned i = (unsigned)below(rng, PINS);
    struct oracle *o = s->oracle;
    char name[8];
    (void)snprintf(name, sizeof name, "p%u", i);
    bool there = atomic_load(&o->pin[i].lsn);
    lladd_lsn at = lladd_durable_lsn(s->db);
    atomic_store(&o->pin[i].sure, 0);
    int rc = there ? lladd_pin_clear(s->db, name, &err) : lladd_pin_set(s->db, name, at, &err);
    if (there)
        rc = not_found_is_fine(rc); /* a process may have died after it cleared the pin */
    bool gone = !there && rc == LLADD_OUT_OF_RANGE; /* a checkpoint has truncated the log first */
    if (rc != 0 && !gone && !refused(s, rc))
        must(o, rc, there ? "clear a pin" : "set a pin", &err);
    if (rc != 0)
        return;
    atomic_store(&o->pin[i].lsn, there ? 0 : at.v);
    atomic_store(&o->pin[i].sure, 1);
}

/* ---- entry points ---------------------------------------------------------------------------- */

struct worker {
    struct session *s;
    unsigned w, steps;
};

/* Three refusals in a row, with a checkpoint between them, mean that there is no more room. */
static bool worker_step(struct session *s, unsigned w, unsigned *stuck)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    if (work_one(s, w) == 0) {
        *stuck = 0;
        return true;
    }
    int rc = lladd_checkpoint(s->db, &err);
    if (!no_space(s, rc))
        must(s->oracle, rc, "checkpoint when refused", &err);
    return ++*stuck < 3;
}

static void *run_worker(void *arg)
{
    struct worker *me = arg;
    unsigned stuck = 0;
    for (unsigned i = 0; i < me->steps && worker_step(me->s, me->w, &stuck); i++) {
    }
    return NULL;
}

/* Digests, combines, or frees a run. At the limit of the log only digests must succeed (REC-3). */
static int maintain_rows(struct session *s, struct lladd_error *err)
{
    bool more;
    int rc = lladd_managed_maintain(s->rows, &more, err);
    if (rc == LLADD_LOG_FULL && refused(s, rc))
        rc = lladd_managed_digest(s->rows, err);
    return rc;
}

/* Checkpoints, digests and cleaning. At the limit of the log these must succeed. */
static void upkeep(struct session *s, uint64_t *rng)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    bool more;
    int rc = 0;
    uint64_t what = below(rng, 24);
    if (what == 0)
        rc = lladd_checkpoint(s->db, &err);
    else if (what == 1)
        rc = lladd_maintain(s->db, &more, &err);
    else if (what < 4 && (s->plan->features & WITH_MANAGED))
        rc = maintain_rows(s, &err);
    else if (what == 4 && (s->plan->features & WITH_MANAGED))
        rc = lladd_managed_digest(s->rows, &err);
    else if (what == 5 && (s->plan->features & WITH_JOURNAL))
        rc = lladd_journal_clean(s->db, 0, lladd_object_applied_lsn(s->db), &more, &err);
    static const char *const names[] = {"checkpoint",    "maintain", "maintain rows",
                                        "maintain rows", "digest",   "clean the journal"};
    if (rc != 0 && !no_space(s, rc) && !(what >= 2 && rc == LLADD_BUSY && refused(s, rc)))
        must(s->oracle, rc, names[what], &err);
}

/* In a round that fills the disk, limits the disk once so that `room` bytes are left. */
static void fill_disk(struct session *s, uint64_t room)
{
    if (!(s->plan->features & WITH_FULL) || atomic_load(&s->oracle->capacity) != UINT64_MAX)
        return;
    uint64_t capacity = crash_device_used(s->dir) + room;
    atomic_store(&s->oracle->capacity, capacity);
    crash_device_capacity(s->device, capacity);
}

void work(struct session *s)
{
    uint64_t rng = mix(s->plan->seed, 'w', s->life, 0);
    unsigned features = s->plan->features, steps = s->plan->steps, stuck[WORKERS] = {0};
    bool alone = !(features & WITH_THREADS), more = true;
    uint64_t full_at = below(&rng, steps), room = below(&rng, 65536);
    struct loser losers[4] = {{0}};
    struct worker workers[WORKERS];
    struct lladd_thread threads[WORKERS] = {0};
    for (unsigned w = 0; w < WORKERS && !alone; w++) {
        workers[w] = (struct worker){s, w, steps};
        if (lladd_thread_start(&threads[w], run_worker, &workers[w]) != 0)
            fail(s->oracle, "threads", "no thread");
    }
    for (unsigned i = 0; i < steps && more; i++) {
        if (i == full_at)
            fill_disk(s, room);
        for (unsigned w = 0; w < WORKERS && alone; w++)
            more = worker_step(s, w, &stuck[w]) && more;
        if ((features & WITH_DOUBT) && below(&rng, 3) == 0)
            doubts(s, &rng);
        if ((features & WITH_PINS) && below(&rng, 32) == 0)
            pins(s, &rng);
        unsigned l = (unsigned)below(&rng, 4);
        losers[l].index = l;
        if (l < s->plan->losers && below(&rng, 3) == 0)
            (void)loser_goes_on(s, &losers[l], &rng);
        upkeep(s, &rng);
    }
    for (unsigned w = 0; w < WORKERS && !alone; w++)
        lladd_thread_join(&threads[w]);
    if (features & WITH_JOURNAL) /* so that all entries are in the files, and not only in the log's
                                  * buffer */
        (void)work_one(s, 0);
}

/* ---- making room ----------------------------------------------------------------------------- */

static void discard_all(struct session *s)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    o.frees_log = true; /* at the limit of the log, only transactions that free log may run */
    must(s->oracle, lladd_begin(s->db, &o, &txn, &err), "begin", &err);
    for (unsigned w = 0; w < WORKERS; w++)
        must_txn(s, lladd_journal_discard(txn, s->tags[w], lladd_lsn_of(0)), "last discard", txn);
    must_txn(s, lladd_journal_discard(txn, s->doubts, lladd_lsn_of(0)), "last discard", txn);
    must_txn(s, lladd_commit(txn), "last discard", txn);
}

void work_relieve(struct session *s)
{
    struct oracle *o = s->oracle;
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t rng = mix(s->plan->seed, 'r', s->life, 0);
    struct lladd_txn *txn;
    struct key k = key_of('Z', 0, 0);
    char name[8];
    for (unsigned i = 0; i < SLOTS; i++) {
        if (atomic_load(&o->slot[i].state) == DOUBT_PREPARED)
            decide(s, i, below(&rng, 2));
    }
    for (unsigned i = 0; i < PINS; i++) {
        (void)snprintf(name, sizeof name, "p%u", i);
        int rc = lladd_pin_clear(s->db, name, &err);
        must(o, not_found_is_fine(rc), "clear the last pin", &err);
    }
    must(o, lladd_checkpoint(s->db, &err), "last checkpoint", &err);
    discard_all(s);
    must(o, lladd_managed_digest(s->rows, &err), "last digest", &err);
    must(o, lladd_checkpoint(s->db, &err), "last checkpoint", &err);
    must(o, lladd_begin(s->db, NULL, &txn, &err), "begin", &err);
    must_txn(s, lladd_hash_put(txn, s->hash, &k, sizeof k, "z", 1), "last put", txn);
    must_txn(s, lladd_commit(txn), "last put", txn);
}
