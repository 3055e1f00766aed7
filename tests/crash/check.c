/* SPDX-License-Identifier: BSD-2-Clause */
/* Checks that the database contains everything that was promised, and nothing that was not
 * requested. */
#include "world.h"

#include <lladd/blob.h>
#include <lladd/bytes.h>
#include <lladd/inspect.h>
#include <lladd/journal.h>
#include <lladd/lock.h>
#include <lladd/records.h>
#include <stdlib.h>
#include <string.h>

/* ---- in doubt -------------------------------------------------------------------------------- */

struct found {
    struct session *s;
    bool in_doubt[SLOTS];
};

static int find_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    struct found *f = ctx;
    for (unsigned i = 0; i < SLOTS; i++) {
        struct lladd_gid gid = gid_of(i, atomic_load(&f->s->oracle->slot[i].serial));
        if (info->gid.format == gid.format && info->gid.gtrid_length == gid.gtrid_length &&
            info->gid.bqual_length == gid.bqual_length &&
            memcmp(info->gid.data, gid.data, gid.gtrid_length + gid.bqual_length) == 0) {
            if (f->in_doubt[i])
                fail(f->s->oracle, "in doubt", "slot %u twice", i);
            f->in_doubt[i] = true;
            return 0;
        }
    }
    fail(f->s->oracle, "in doubt", "\"%.*s\" is in doubt",
         (int)(info->gid.gtrid_length + info->gid.bqual_length), info->gid.data);
}

static bool is_locked(struct session *s, unsigned slot)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn *txn;
    must(s->oracle, lladd_begin(s->db, NULL, &txn, &err), "begin", &err);
    int rc = lladd_lock_acquire(txn, LLADD_LOCK_NAME(lladd_lock_id('D'), lladd_lock_id(slot)),
                                LLADD_LOCK_X, LLADD_LOCK_TRY);
    if (rc != LLADD_BUSY)
        must_txn(s, rc, "lock", txn);
    must_txn(s, lladd_abort(txn), "abort", txn);
    return rc == LLADD_BUSY;
}

static void settle(struct session *s, unsigned i, bool in_doubt)
{
    struct slot *o = &s->oracle->slot[i];
    uint32_t state = atomic_load(&o->state), serial = atomic_load(&o->serial);
    if (in_doubt ? state == DOUBT_NONE : state == DOUBT_PREPARED)
        fail(s->oracle, "in doubt", "slot %u, transaction %u is %sin doubt", i, serial,
             in_doubt ? "" : "not ");
    if (!in_doubt && state == DOUBT_COMMITTING) {
        atomic_fetch_add(&o->commits, 1);
        atomic_store(&o->committed, serial);
    }
    atomic_store(&o->state, in_doubt ? DOUBT_PREPARED : DOUBT_NONE);
    if (is_locked(s, i) != in_doubt)
        fail(s->oracle, "locks", "slot %u is %slocked", i, in_doubt ? "not " : "");
}

static void check_row(struct session *s, struct lladd_txn *txn, uint32_t key, uint32_t expected)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    unsigned char value[4] = {0};
    size_t len = 0;
    int rc = lladd_managed_get(txn, s->rows, &k, value, sizeof value, &len);
    uint32_t n = lladd_get32(value);
    if (rc != LLADD_NOT_FOUND)
        must_txn(s, rc, "managed get", txn);
    if (rc == LLADD_NOT_FOUND ? expected != 0 : n != expected || len != sizeof value)
        fail(s->oracle, "contents: row", "row %u: %u instead of %u (%zu bytes)", key, n, expected,
             len);
}

static void check_slot(struct session *s, struct lladd_txn *txn, unsigned i, uint64_t *elements)
{
    struct slot *o = &s->oracle->slot[i];
    struct lladd_error err = LLADD_ERROR_INIT;
    struct key k = key_of('D', i, 0);
    bool in_doubt = atomic_load(&o->state) == DOUBT_PREPARED;
    uint32_t committed = atomic_load(&o->committed);
    unsigned char bytes[4] = {0};
    uint32_t expected = in_doubt ? atomic_load(&o->serial) : committed;
    size_t len;
    int64_t count;
    int rc = lladd_hash_get(s->hash, &k, sizeof k, bytes, sizeof bytes, &len, &err);
    if (rc != LLADD_NOT_FOUND)
        must(s->oracle, rc, "get", &err);
    uint32_t value = lladd_get32(bytes);
    if (value != expected)
        fail(s->oracle, "contents: slot", "slot %u: %u instead of %u", i, value, expected);
    *elements += expected != 0;
    rc = lladd_counter_get(s->db, s->page, 8 * (WORKERS + i), &count, &err);
    must(s->oracle, rc, "counter", &err);
    if (count != (int64_t)atomic_load(&o->commits) + in_doubt)
        fail(s->oracle, "contents: slot", "slot %u: counted %lld", i, (long long)count);
    if (s->plan->features & WITH_MANAGED)
        check_row(s, txn, 900000 + i, committed);
}

/* ---- the journal ----------------------------------------------------------------------------- */

/* The live entries of a worker's tag, in the order of the acts that appended them. */
struct replay {
    struct session *s;
    unsigned w;
    uint32_t n, last; /* next transaction and act */
    unsigned act;
};

static bool next_append(struct replay *r, struct act *out)
{
    for (; r->n <= r->last; r->n++, r->act = 0) {
        struct act acts[ACTS];
        unsigned count = acts_of(r->s->plan, r->w, r->n, acts);
        for (; r->act < count; r->act++) {
            if (acts[r->act].kind == ACT_APPEND && !acts[r->act].detour) {
                *out = acts[r->act++];
                return true;
            }
        }
    }
    return false;
}

static int check_entry(void *ctx, const struct lladd_journal_entry *e, struct lladd_error *err)
{
    struct replay *r = ctx;
    struct act a;
    (void)err;
    if (!next_append(r, &a))
        fail(r->s->oracle, "contents: journal", "worker %u: an entry too many", r->w);
    unsigned char *bytes = malloc(a.len);
    if (!bytes)
        abort();
    act_bytes(r->s->plan, r->w, r->n, r->act - 1, &a, bytes);
    if (e->bytes.len != a.len || memcmp(e->bytes.data, bytes, a.len) != 0)
        fail(r->s->oracle, "contents: journal", "worker %u: the entry of transaction %u differs",
             r->w, r->n);
    free(bytes);
    return 0;
}

static void check_journal(struct session *s, unsigned w, uint32_t from, uint32_t n)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct replay r = {s, w, from, n, 0};
    struct act a;
    must(s->oracle, lladd_journal_replay(s->db, s->tags[w], check_entry, &r, &err), "replay", &err);
    if (next_append(&r, &a))
        fail(s->oracle, "contents: journal", "worker %u: the entry of transaction %u is missing", w,
             r.n);
}

struct doubt_entries {
    struct session *s;
    uint32_t count[SLOTS];
    bool newest[SLOTS];
};

static int count_entry(void *ctx, const struct lladd_journal_entry *e, struct lladd_error *err)
{
    struct doubt_entries *d = ctx;
    (void)err;
    if (e->bytes.len != 8)
        fail(d->s->oracle, "contents: journal", "an entry of %zu bytes", e->bytes.len);
    const unsigned char *bytes = e->bytes.data;
    uint32_t entry[2] = {lladd_get32(bytes), lladd_get32(bytes + 4)};
    if (entry[0] >= SLOTS || entry[1] > atomic_load(&d->s->oracle->slot[entry[0]].committed))
        fail(d->s->oracle, "contents: journal", "an entry of slot %u, transaction %u", entry[0],
             entry[1]);
    d->count[entry[0]]++;
    d->newest[entry[0]] |= entry[1] == atomic_load(&d->s->oracle->slot[entry[0]].committed);
    return 0;
}

static void check_doubt_entries(struct session *s)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct doubt_entries d = {.s = s};
    must(s->oracle, lladd_journal_replay(s->db, s->doubts, count_entry, &d, &err), "replay", &err);
    for (unsigned i = 0; i < SLOTS; i++) {
        uint32_t commits = atomic_load(&s->oracle->slot[i].commits);
        if (d.count[i] != commits || (commits > 0 && !d.newest[i]))
            fail(s->oracle, "contents: journal", "slot %u: %u entries of %u commits", i, d.count[i],
                 commits);
    }
}

/* ---- a worker -------------------------------------------------------------------------------- */

static uint32_t count_of(struct session *s, unsigned w)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct key k = key_of('N', w, 0);
    unsigned char value[4] = {0};
    size_t len;
    int rc = lladd_hash_get(s->hash, &k, sizeof k, value, sizeof value, &len, &err);
    if (rc != LLADD_NOT_FOUND)
        must(s->oracle, rc, "get", &err);
    uint32_t n = lladd_get32(value);
    uint32_t sure = atomic_load(&s->oracle->worker[w].sure);
    uint32_t issued = atomic_load(&s->oracle->worker[w].issued);
    if (n < sure || n > issued)
        fail(s->oracle, n < sure ? "contents: a commit is lost" : "contents: never committed",
             "worker %u: transaction %u is the last one there, %u acknowledged, %u issued", w, n,
             sure, issued);
    return n;
}

static void check_value(struct session *s, unsigned w, unsigned i, const struct model *m)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct key k = key_of('W', w, i);
    static unsigned char found[65536], wanted[65536];
    size_t len;
    int rc = lladd_hash_get(s->hash, &k, sizeof k, found, sizeof found, &len, &err);
    if (rc != LLADD_NOT_FOUND)
        must(s->oracle, rc, "get", &err);
    if ((rc == 0) != (m->value_n[i] != 0))
        fail(s->oracle, "contents: value", "worker %u, key %u is %sthere", w, i, rc ? "not " : "");
    if (rc != 0)
        return;
    struct act acts[ACTS];
    (void)acts_of(s->plan, w, m->value_n[i], acts);
    const struct act *a = &acts[m->value_act[i]];
    act_bytes(s->plan, w, m->value_n[i], m->value_act[i], a, wanted);
    if (len != a->len || memcmp(found, wanted, len) != 0)
        fail(s->oracle, "contents: value", "worker %u, key %u is not what transaction %u has put",
             w, i, m->value_n[i]);
}

static void check_blob(struct session *s, unsigned w, const struct model *m)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t len;
    must(s->oracle, lladd_blob_check(s->db, s->blobs[w], &err), "blob check", &err);
    must(s->oracle, lladd_blob_length(s->db, s->blobs[w], &len, &err), "blob length", &err);
    if (len != m->blob_len)
        fail(s->oracle, "contents: blob", "worker %u: %llu bytes instead of %u", w,
             (unsigned long long)len, m->blob_len);
    unsigned char *bytes = malloc(len + 1);
    if (!bytes)
        abort();
    must(s->oracle, lladd_blob_read(s->db, s->blobs[w], 0, bytes, len, NULL, &err), "blob read",
         &err);
    if (len > 0 && memcmp(bytes, m->blob, len) != 0)
        fail(s->oracle, "contents: blob", "worker %u: other bytes", w);
    free(bytes);
}

static uint64_t check_worker(struct session *s, struct lladd_txn *txn, unsigned w, uint32_t n)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct model m;
    unsigned char bytes[BYTES];
    int64_t counter;
    uint64_t elements = n > 0;
    model_of(s->plan, w, n, &m);
    for (unsigned i = 0; i < KEYS; i++) {
        check_value(s, w, i, &m);
        elements += m.value_n[i] != 0;
    }
    must(s->oracle, lladd_counter_get(s->db, s->page, 8 * w, &counter, &err), "counter", &err);
    int rc = lladd_bytes_get(s->db, s->page, (1 + w) * BYTES, bytes, sizeof bytes, &err);
    must(s->oracle, rc, "bytes", &err);
    if (counter != m.counter || memcmp(bytes, m.bytes, sizeof bytes) != 0)
        fail(s->oracle, "contents: page", "worker %u: counter %lld instead of %lld, or bytes", w,
             (long long)counter, (long long)m.counter);
    for (uint32_t i = 0; i < ROWS && (s->plan->features & WITH_MANAGED); i++)
        check_row(s, txn, w * 1000 + i, m.row_n[i]);
    check_journal(s, w, m.journal_from, n);
    check_blob(s, w, &m);
    model_end(&m);
    return elements;
}

/* ---- entry points ---------------------------------------------------------------------------- */

static void check_pins(struct session *s)
{
    for (unsigned i = 0; i < PINS; i++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        struct lladd_log_cursor *cursor;
        struct lladd_log_entry e;
        uint64_t lsn = atomic_load(&s->oracle->pin[i].lsn);
        if (lsn == 0 || !atomic_load(&s->oracle->pin[i].sure))
            continue;
        int rc = lladd_log_open(s->db, lladd_lsn_of(lsn), NULL, &cursor, &err);
        must(s->oracle, rc, "pinned log", &err);
        rc = lladd_log_next(cursor, &e, &err);
        if (rc != LLADD_END)
            must(s->oracle, rc, "pinned log", &err);
        lladd_log_close(cursor);
    }
}

static void check_losers(struct session *s)
{
    for (unsigned i = 0; i < 4; i++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        int64_t count;
        int rc = lladd_counter_get(s->db, s->page, 8 * (WORKERS + SLOTS + i), &count, &err);
        must(s->oracle, rc, "counter", &err);
        if (count != 0)
            fail(s->oracle, "contents: loser", "%lld of loser %u", (long long)count, i);
    }
}

void check(struct session *s)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct found f = {.s = s};
    struct lladd_txn *txn;
    uint64_t elements = 0, count;
    atomic_store(&s->oracle->stage, STAGE_CHECKING);
    must(s->oracle, lladd_in_doubt_each(s->db, find_doubt, &f, &err), "in doubt", &err);
    must(s->oracle, lladd_begin(s->db, NULL, &txn, &err), "begin", &err);
    for (unsigned i = 0; i < SLOTS; i++) {
        settle(s, i, f.in_doubt[i]);
        check_slot(s, txn, i, &elements);
    }
    for (unsigned w = 0; w < WORKERS; w++) {
        uint32_t n = count_of(s, w);
        elements += check_worker(s, txn, w, n);
        atomic_store(&s->oracle->worker[w].sure, n); /* what recovery has found is durable */
        atomic_store(&s->oracle->worker[w].issued, n);
    }
    must_txn(s, lladd_abort(txn), "abort", txn);
    if (s->plan->features & WITH_JOURNAL)
        check_doubt_entries(s);
    check_losers(s);
    check_pins(s);
    must(s->oracle, lladd_hash_check(s->hash, &err), "hash check", &err);
    must(s->oracle, lladd_hash_count(s->hash, &count, &err), "hash count", &err);
    if (count != elements)
        fail(s->oracle, "contents: elements", "%llu instead of %llu", (unsigned long long)count,
             (unsigned long long)elements);
}

/* ---- the files ------------------------------------------------------------------------------- */

struct findings {
    struct oracle *oracle;
    bool closed;
};

static int judge(void *ctx, const struct lladd_finding *f)
{
    const struct findings *all = ctx;
    bool bad = f->kind == LLADD_FINDING_DAMAGE || (f->kind == LLADD_FINDING_REPAIR && all->closed);
    if (bad)
        fail(all->oracle, all->closed ? "verify after a close" : "verify after a crash",
             "%s in %s, page %lld, LSN %llu: %s", lladd_code_name(f->code), f->file,
             (long long)f->page.v, (unsigned long long)f->lsn.v, f->message);
    return 0;
}

void check_files(struct oracle *o, const char *dir, bool closed)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_verified verified = {.struct_size = sizeof verified};
    struct lladd_inspect *view;
    struct findings all = {o, closed};
    must(o, lladd_journal_register(&options, &err), "register", &err);
    must(o, lladd_managed_register(&options, &err), "register", &err);
    must(o, lladd_lock_register(&options, &err), "register", &err);
    int rc = lladd_inspect_open(dir, &options, &view, &err);
    lladd_options_release(&options);
    bool half_made = rc == LLADD_NOT_A_DATABASE || rc == LLADD_CORRUPT_CONTROL;
    if (half_made && !atomic_load(&o->made)) /* the creation was not finished, so the next open
                                              * starts it again */
        return;
    must(o, rc, "inspect", &err);
    must(o, lladd_inspect_verify(view, judge, &all, &verified, &err), "verify", &err);
    lladd_inspect_close(view);
}
