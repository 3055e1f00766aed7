/* SPDX-License-Identifier: BSD-2-Clause */
/* Linear hash tables (LLADD paper, section 4.1). This file has the calls of lladd/hash.h for keys
 * and values; page.c has the pages, table.c the state in memory, find.c the path to a bucket and
 * through its chain, split.c splits and merges, insert.c the fast path of insertion.
 *
 * A change of a key is one update of a page of its bucket. `prepare` searches the page under its
 * latch, and either drafts the record or returns why it cannot. In the second case the caller tries
 * again. If the page is not that of the key's bucket, the caller uses the present number of
 * buckets. If there are overflow pages, the caller searches the chain with the head page latched.
 * If there is no room, the caller makes room first.
 *
 * Logical undo searches the table for the key (undo.c). The undo logs at most one record, which has
 * no undo, and does nothing if the change is already undone; so recovery can repeat the undo. Undo
 * needs no room: a removal leaves a ghost with all its bytes, and a shorter value leaves slack.
 * While the change may still be rolled back, no entry of another key gets the space of the ghost or
 * the slack (table.c, reservations).
 *
 * A transaction that has the table alone (table.c) uses physical undo. With fixed lengths, the
 * record has the slot before and after the change. Otherwise the change is made on a copy of the
 * page, and the record has the bytes that differ. */
#include "operations/hash/table.h"

#include <lladd/blob.h>
#include <lladd/hash.h>

#include <string.h>

/* The share of a page that its elements take decides on the next step. If the share is more than
 * 4/5, a split is needed; if it is at most 1/4, a merge. If it is less than 1/2 on a page of a
 * chain, the chain should be shortened. */
#define SPLIT_NUM 4
#define SPLIT_DEN 5
#define MERGE_DEN 4
#define SHORTEN_NUM 1
#define SHORTEN_DEN 2
#define TOUCHED 128u /* bytes of slots to prefetch, at least */

/* ---- arguments ------------------------------------------------------------------------------- */

static int table_of(const struct lladd_hash *h, struct ll_hash_table **out, struct lladd_error *err)
{
    if (!h || !h->table)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the hash table is NULL");
    *out = h->table;
    return 0;
}

static int wrong_size(struct lladd_error *err, const char *what, size_t len, uint32_t size)
{
    return lladd_error_set(err, LLADD_KEY_SIZE, "a %s of %zu bytes: in this table they have %u",
                           what, len, size);
}

static int too_large(struct lladd_error *err, const char *what, size_t len)
{
    return lladd_error_set(err, LLADD_TOO_LARGE, "a %s of %zu bytes is too long", what, len);
}

/* The reference of a long key has two hashes with different seeds, and the length. Without the
 * table's seed an adversary cannot find two long keys with equal references, and accidental
 * collisions are practically impossible. */
static void long_key(const struct ll_hash_table *t, const void *key, size_t len, struct hb_key *out,
                     uint64_t hash)
{
    struct ll_siphash_key other = {~t->seed.k0, t->seed.k1};
    lladd_put64(out->ref, hash);
    lladd_put64(out->ref + 8, ll_siphash_rounds(&other, key, len, 2, 4));
    lladd_put64(out->ref + 16, len);
    lladd_put64(out->ref + 24, 0); /* the blob, once it exists */
    out->bytes = out->ref;
    out->len = HB_KEY_REF | HB_BLOB;
}

static inline int key_of(struct ll_hash_table *t, const void *key, size_t len, struct hb_key *out,
                         uint64_t *hash, struct lladd_error *err)
{
    if (t->key_size ? len != t->key_size : len > UINT32_MAX)
        return t->key_size ? wrong_size(err, "key", len, t->key_size) : too_large(err, "key", len);
    *hash = ll_siphash(&t->seed, key, len);
    out->bytes = key;
    out->len = (uint16_t)len;
    out->tag = hb_tag(*hash);
    if (__builtin_expect(len > LL_HASH_INLINE_MAX, 0))
        long_key(t, key, len, out, *hash);
    return 0;
}

static int value_of(struct ll_hash_table *t, const void *value, size_t len, struct hb_change *c,
                    struct lladd_error *err)
{
    const uint64_t most = LLADD_BLOB_MAX;
    if (t->value_size ? len != t->value_size : len > most)
        return t->value_size ? wrong_size(err, "value", len, t->value_size)
                             : too_large(err, "value", len);
    c->value = value;
    c->value_len = len > LL_HASH_INLINE_MAX ? HB_VALUE_REF | HB_BLOB : (uint16_t)len;
    return 0;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Prefetches what a search reads first: the page's header and, with fixed lengths, the slots from
 * the key's home on. */
static inline void touch(struct ll_hash_table *t, lladd_pageno page, uint16_t tag)
{
    uint32_t size = 2 + t->key_size + t->value_size, at = HB_ENTRIES - LLADD_PAGE_HEADER;
    if (!t->fixed)
        lladd_prefetch_line(t->db, page, 0);
    else
        lladd_prefetch_lines(t->db, page, at + ll_hash__fixed_home(tag, t->fixed_slots) * size,
                             2 * size > TOUCHED ? 2 * size : TOUCHED);
}

static int not_found(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NOT_FOUND, "there is no such key");
}

struct looker {
    struct ll_hash_reader reader; /* first member */
    lladd_hash_value_fn *fn;
    void *ctx;
    unsigned char *copy; /* copy of a value in a blob */
};

static int look_at(struct ll_hash_reader *r, const struct hb_entry *e, struct lladd_error *err)
{
    struct looker *l = (struct looker *)r;
    if (!(e->value_len & HB_BLOB))
        return l->fn(l->ctx, lladd_span_of(e->value, HB_LEN(e->value_len)));
    uint64_t len = lladd_get64(e->value);
    unsigned char *copy =
        len <= SIZE_MAX ? lladd_mem_resize(r->table->db, l->copy, (size_t)len) : NULL;
    if (!copy)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a value");
    l->copy = copy;
    ll_hash__set_part(&r->value_part, e->value, copy, len);
    return 0;
}

int lladd_hash_get_in_place(struct lladd_hash *h, const void *key, size_t key_len,
                            lladd_hash_value_fn *fn, void *ctx, struct lladd_error *err)
{
    struct ll_hash_table *t = NULL;
    struct hb_key k;
    struct looker l = {.reader = {.key = &k, .see = look_at}, .fn = fn, .ctx = ctx};
    TRY(table_of(h, &t, err));
    TRY(key_of(t, key, key_len, &k, &l.reader.hash, err));
    l.reader.table = t;
    int rc = ll_hash__read(&l.reader, err);
    if (!rc && l.reader.value_part.n)
        rc = fn(ctx, lladd_span_of(l.copy, (size_t)l.reader.value_part.n));
    lladd_mem_free(t->db, l.copy);
    return rc == LLADD_NOT_FOUND ? not_found(err) : rc;
}

struct getter {
    struct ll_hash_reader reader; /* first member */
    unsigned char *buf;
    size_t size, len;
};

static int copy_out(struct ll_hash_reader *r, const struct hb_entry *e, struct lladd_error *err)
{
    struct getter *g = (struct getter *)r;
    bool blob = (e->value_len & HB_BLOB) != 0;
    uint64_t len = blob ? lladd_get64(e->value) : HB_LEN(e->value_len);
    if (len > SIZE_MAX)
        return lladd_error_set(err, LLADD_TOO_LARGE,
                               "a value of %llu bytes is too long for a size_t",
                               (unsigned long long)len);
    g->len = (size_t)len;
    size_t n = g->len < g->size ? g->len : g->size;
    if (blob)
        ll_hash__set_part(&r->value_part, e->value, g->buf, n);
    else
        lladd_copy(g->buf, e->value, n);
    return 0;
}

static int get_latched(struct ll_hash_table *t, const struct hb_key *k, uint64_t hash, void *buf,
                       size_t size, size_t *len, struct lladd_error *err)
{
    struct getter g = {
        .reader = {.table = t, .key = k, .hash = hash, .see = copy_out}, .buf = buf, .size = size};
    int rc = ll_hash__read(&g.reader, err);
    if (len && !rc)
        *len = g.len;
    return rc;
}

/* Looks the key up. `page` was its bucket's page a moment ago and has been prefetched. */
static inline int get(struct ll_hash_table *t, const struct hb_key *k, uint64_t hash,
                      lladd_pageno page, void *buf, size_t size, size_t *len,
                      struct lladd_error *err)
{
    int rc = ll_hash__read_optimistic(t, k, hash, page, buf, size, len);
    return __builtin_expect(rc == LLADD_BUSY, 0) ? get_latched(t, k, hash, buf, size, len, err)
                                                 : rc;
}

int lladd_hash_get(struct lladd_hash *h, const void *key, size_t key_len, void *buf, size_t size,
                   size_t *len, struct lladd_error *err)
{
    struct ll_hash_table *t = NULL;
    struct hb_key k;
    uint64_t hash = 0, n = 0;
    TRY(table_of(h, &t, err));
    TRY(key_of(t, key, key_len, &k, &hash, err));
    TRY(ll_hash__buckets(t, &n, err));
    lladd_pageno page = ll_operations__extents_page(&t->run, ll_hash__bucket(hash, n));
    touch(t, page, k.tag);
    int rc = get(t, &k, hash, page, buf, size, len, err);
    return rc == LLADD_NOT_FOUND ? not_found(err) : rc;
}

/* ---- many keys at once ----------------------------------------------------------------------- */

#define AHEAD 16u /* the number of keys with prefetched pages */

struct asked {
    struct hb_key key;
    uint64_t hash;
    lladd_pageno page;
    int rc;
};

static inline void ask(struct ll_hash_table *t, const struct lladd_hash_query *q, uint64_t buckets,
                       struct asked *a)
{
    a->rc = key_of(t, q->key, q->key_len, &a->key, &a->hash, NULL);
    if (a->rc)
        return;
    a->page = ll_operations__extents_page(&t->run, ll_hash__bucket(a->hash, buckets));
    touch(t, a->page, a->key.tag);
}

/* The prefetches make the cache misses of several keys overlap. */
int lladd_hash_get_many(struct lladd_hash *h, struct lladd_hash_query *q, size_t n,
                        struct lladd_error *err)
{
    struct ll_hash_table *t = NULL;
    struct lladd_error one = LLADD_ERROR_INIT, why = LLADD_ERROR_INIT;
    struct asked asked[AHEAD];
    uint64_t buckets;
    int first = 0;
    TRY(table_of(h, &t, err));
    TRY(ll_hash__buckets(t, &buckets, err));
    for (size_t i = 0; i < n && i < AHEAD; i++)
        ask(t, &q[i], buckets, &asked[i]);
    for (size_t i = 0; i < n; i++) {
        struct asked *a = &asked[i % AHEAD];
        if (a->rc) /* calls it again, for the message */
            a->rc = key_of(t, q[i].key, q[i].key_len, &a->key, &a->hash, &one);
        else
            a->rc = get(t, &a->key, a->hash, a->page, q[i].buf, q[i].size, &q[i].len, &one);
        q[i].rc = a->rc;
        if (__builtin_expect(a->rc && a->rc != LLADD_NOT_FOUND && !first, 0)) {
            first = a->rc;
            why = one;
        }
        if (n - i > AHEAD)
            ask(t, &q[i + AHEAD], buckets, a);
    }
    if (first && err)
        *err = why;
    return first;
}

/* ---- changing -------------------------------------------------------------------------------- */

static const struct lladd_op *op_of(const struct ll_hashes *h, lladd_op_id id)
{
    return id == h->put ? &ll_hash__put : &ll_hash__remove;
}

/* Runs `prepare` on the page, changes a copy, and logs the bytes in which the two differ. */
static int change_bytes(struct hb_change *c, const struct lladd_op *op, struct lladd_page *held)
{
    struct ll_hash_table *t = c->table;
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    uint32_t size = held->size;
    unsigned char *memory = lladd_mem_alloc(t->db, size + op->record_max);
    if (!memory)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a bucket");
    struct lladd_draft d = {.bytes = memory + size, .max = op->record_max, .error = err};
    int rc = op->prepare(op->ctx, lladd_page_view(held), lladd_span_of(&c, sizeof c), &d);
    if (!rc) {
        struct lladd_page copy = *held;
        copy.bytes = memory;
        memcpy(memory, held->bytes, size);
        op->redo(&copy, lladd_span_of(d.bytes, d.redo_len));
        rc = ll_hash__write(c->txn, t, held, memory);
    }
    lladd_mem_free(t->db, memory);
    return rc;
}

static int change_held(struct hb_change *c, lladd_op_id op, struct lladd_page *held, bool physical)
{
    struct ll_hash_table *t = c->table;
    c->op = op_of(t->hashes, op);
    if (physical && !t->fixed)
        return change_bytes(c, c->op, held);
    return lladd_update_page(c->txn, physical ? t->hashes->slot : op, held, &c, sizeof c);
}

/* Inserts into a chain that does not have the key, on the first page with room. */
static int insert_somewhere(struct hb_change *c, lladd_op_id op, struct lladd_page *head,
                            bool physical)
{
    struct lladd_page *page = head, *next;
    for (;;) {
        int rc = change_held(c, op, page, physical);
        bool full = rc == LLADD_BUSY && c->answer == HB_FULL;
        if (full)
            rc = ll_hash__fix_next(c->table, head, page, LLADD_LATCH_EXCLUSIVE, &next,
                                   lladd_txn_error_out(c->txn));
        if (page != head)
            lladd_page_unfix(c->table->db, page, LLADD_LATCH_EXCLUSIVE);
        if (full && rc == LLADD_END)
            return LLADD_BUSY;
        if (!full || rc)
            return rc;
        page = next;
    }
}

/* The general path: latches the head and searches the chain. LLADD_BUSY: see c->answer. */
static int change_in_chain(struct hb_change *c, lladd_op_id op, bool physical)
{
    struct ll_hash_table *t = c->table;
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    struct ll_hash_found f = {.latch = LLADD_LATCH_EXCLUSIVE};
    lladd_op_id logged = !physical ? op : t->fixed ? t->hashes->slot : t->hashes->bytes;
    TRY(ll_hash__fix_to_change(c->txn, t, c->hash, logged, &f.head));
    c->chain = true;
    int rc = ll_hash__find_in_chain(t, &f, &c->key, err);
    bool held = rc == 0 || rc == LLADD_END;
    if (rc == 0) {
        rc = change_held(c, op, f.page, physical);
    } else if (rc == LLADD_END) {
        if (f.page != f.head)
            lladd_page_unfix(t->db, f.page, LLADD_LATCH_EXCLUSIVE);
        f.page = f.head;
        rc = op == t->hashes->put ? insert_somewhere(c, op, f.head, physical)
                                     : change_held(c, op, f.head, physical);
    }
    if (held && f.page != f.head)
        lladd_page_unfix(t->db, f.page, LLADD_LATCH_EXCLUSIVE);
    lladd_page_unfix(t->db, f.head, LLADD_LATCH_EXCLUSIVE);
    int rest = lladd_log_credit(c->txn, logged, 0);
    return rc ? rc : rest;
}

/* Updates the page that is the bucket according to memory. */
static inline int attempt(struct hb_change *c, lladd_op_id op, bool physical)
{
    struct ll_hash_table *t = c->table;
    c->chain = false;
    c->answer = HB_DONE;
    return lladd_update(c->txn, physical ? t->hashes->slot : op, c->page, &c, sizeof c);
}

/* Tries the change until c->answer is not HB_MOVED. 0: c->answer is HB_DONE, or says why the change
 * is not made. */
static int change(struct hb_change *c, lladd_op_id op, bool physical)
{
    struct ll_hash_table *t = c->table;
    struct lladd_error *err = lladd_txn_error_out(c->txn);
    for (unsigned tries = 0;;) {
        uint64_t n;
        TRY(ll_hash__buckets(t, &n, err));
        c->op = op_of(t->hashes, op);
        int rc = 0;
        if (physical && !t->fixed) {
            c->answer = HB_DONE;
            rc = change_in_chain(c, op, true);
        } else {
            if (n != c->buckets)
                c->page = ll_operations__extents_page(&t->run, ll_hash__bucket(c->hash, n));
            c->buckets = n;
            rc = attempt(c, op, physical);
            if (rc == LLADD_BUSY && c->answer == HB_CHAINED)
                rc = change_in_chain(c, op, physical);
        }
        if (rc == LLADD_WRONG_TYPE && c->answer == HB_DONE)
            c->answer = HB_MOVED;
        else if (rc != LLADD_BUSY || c->answer == HB_DONE)
            return rc;
        if (c->answer != HB_MOVED)
            return 0;
        c->buckets = 0; /* the bucket's page may be another one, even with the same number of
                         * buckets */
        TRY(ll_hash__again(t, n, &tries, err));
    }
}

/* Ignores the failure of a split, merge or clearing: the change does not depend on it, and a later
 * change tries again. A poisoned handle is reported. */
static int reshape(int rc)
{
    return lladd_code_root(rc) == LLADD_ROOT_POISONED ? rc : 0;
}

static __attribute__((noinline)) int split_or_clear(struct hb_change *c, bool physical)
{
    if (c->full * SPLIT_DEN <= c->of * SPLIT_NUM)
        return reshape(ll_hash__clear(c->txn, c->table, c->hash, physical));
    return reshape(ll_hash__split(c->txn, c->table, physical));
}

static inline int grown(struct hb_change *c, bool physical)
{
    bool fine = c->full * SPLIT_DEN <= c->of * SPLIT_NUM && c->empty * 8 >= c->of;
    return __builtin_expect(fine, 1) ? 0 : split_or_clear(c, physical);
}

/* Finds the key's bucket and prefetches its page, so that the cache miss overlaps with the work
 * before the lookup. */
static inline int aim(struct hb_change *c, const void *key, size_t key_len, struct lladd_error *err)
{
    uint64_t n;
    TRY(ll_hash__buckets(c->table, &n, err));
    TRY(key_of(c->table, key, key_len, &c->key, &c->hash, err));
    c->page = ll_operations__extents_page(&c->table->run, ll_hash__bucket(c->hash, n));
    c->buckets = n;
    touch(c->table, c->page, c->key.tag);
    return 0;
}

static inline int table_for(struct lladd_txn *txn, struct lladd_hash *h, struct ll_hash_table **t)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    TRY(table_of(h, t, err));
    if (__builtin_expect(lladd_txn_db(txn) != (*t)->db, 0))
        return lladd_error_set(err, LLADD_OTHER_DATABASE,
                               "the transaction and the hash table are of different databases");
    return 0;
}

/* Checks the arguments; *physical: the kind of undo. */
static inline int begin(struct lladd_txn *txn, struct lladd_hash *h, const void *key,
                        size_t key_len, struct hb_change *c, bool *physical)
{
    int rc = table_for(txn, h, &c->table);
    c->txn = txn;
    c->revive = c->inserted = false;
    if (!rc)
        rc = aim(c, key, key_len, lladd_txn_error_out(txn));
    return rc ? rc : ll_hash__how(txn, c->table, physical);
}

/* The caller's key and value, to store in blobs. */
struct given {
    const void *key, *value;
    size_t key_len, value_len;
    unsigned char ref[HB_VALUE_REF];
};

/* Creates the blob of a long key, unless an earlier attempt has. */
static int want_key(struct hb_change *c, const struct given *g)
{
    lladd_pageno blob;
    if (!(c->key.len & HB_BLOB) || lladd_get64(c->key.ref + HB_KEY_REF - 8))
        return 0;
    int rc = lladd_blob_create(c->txn, g->key, g->key_len, &blob);
    if (!rc)
        lladd_put64(c->key.ref + HB_KEY_REF - 8, blob.v);
    return rc;
}

static int want_value(struct hb_change *c, struct given *g)
{
    lladd_pageno blob;
    if (!(c->value_len & HB_BLOB))
        return 0;
    TRY(lladd_blob_create(c->txn, g->value, g->value_len, &blob));
    lladd_put64(g->ref, g->value_len);
    lladd_put64(g->ref + 8, blob.v);
    c->value = g->ref;
    return 0;
}

/* Destroys the blobs to which no entry refers any more. One of them may be the blob that an earlier
 * attempt created for the key: if another transaction has inserted the key meanwhile, no entry
 * refers to this blob. */
static int drop_gone(struct hb_change *c)
{
    uint64_t unused = c->key.len & HB_BLOB ? lladd_get64(c->key.ref + HB_KEY_REF_SAME) : 0;
    const lladd_pageno gone[] = {c->gone_key, c->gone_value, lladd_page_of(unused)};
    int rc = 0;
    for (int i = 0; i < 3 && !rc; i++)
        rc = gone[i].v ? lladd_blob_destroy(c->txn, gone[i]) : 0;
    return rc;
}

/* Makes room. The first attempt is a clearing; the second is a split, if elements fill more than
 * 4/5 of the page. Later attempts add overflow pages. */
static int want_room(struct hb_change *c, bool physical, unsigned tried)
{
    struct ll_hash_table *t = c->table;
    if (tried == 0)
        return reshape(ll_hash__clear(c->txn, t, c->hash, physical));
    if (tried == 1)
        return c->full * SPLIT_DEN > c->of * SPLIT_NUM
                   ? reshape(ll_hash__split(c->txn, t, physical))
                   : 0;
    return ll_hash__make_room(c->txn, t, c, physical);
}

/* Puts the element. On success c->answer is HB_DONE or HB_PRESENT. */
static int store(struct hb_change *c, const struct given *g, bool physical)
{
    struct ll_hash_table *t = c->table;
    unsigned tried = 0;
    for (;;) {
        int rc = change(c, t->hashes->put, physical);
        if (rc)
            return rc;
        switch (c->answer) {
        case HB_DONE:
            return c->inserted ? grown(c, physical) : drop_gone(c);
        case HB_PRESENT:
            return 0;
        case HB_REVIVE:
            /* The other transaction's reservation may end first, so this one reserves the key. */
            c->revive = true;
            rc = physical ? 0 : ll_hash__reserve(c->txn, t, c->hash);
            break;
        case HB_KEYLESS:
            rc = want_key(c, g);
            break;
        default:
            rc = want_room(c, physical, tried++);
        }
        if (rc)
            return rc;
    }
}

/* With blobs, a change has several steps; a failure rolls all of them back. */
static int store_any(struct hb_change *c, struct given *g, bool physical)
{
    lladd_savepoint_id before;
    TRY(lladd_savepoint(c->txn, &before));
    int rc = want_value(c, g);
    if (!rc)
        rc = store(c, g, physical);
    bool unused = c->answer == HB_PRESENT && (c->value_len | c->key.len) & HB_BLOB;
    if (rc || unused) {
        struct lladd_error why = *lladd_txn_error(c->txn);
        int undone = lladd_rollback_to(c->txn, before);
        if (undone)
            return undone;
        *lladd_txn_error_out(c->txn) = why;
    }
    int released = lladd_savepoint_release(c->txn, before);
    return rc ? rc : released;
}

/* Puts an element into a table with fixed lengths: entries have no blobs, and usually one update is
 * enough. */
static inline int store_fixed(struct hb_change *c, bool physical)
{
    if (!physical) {
        int rc = attempt(c, c->table->hashes->put, false);
        if (__builtin_expect(rc == 0, 1))
            return c->inserted ? grown(c, false) : 0;
        if (rc != LLADD_WRONG_TYPE && rc != LLADD_BUSY)
            return rc;
        if (c->answer == HB_PRESENT)
            return 0;
    }
    return store(c, NULL, physical);
}

static __attribute__((noinline)) int store_long(struct hb_change *c, struct given *g, bool physical)
{
    /* A value that gets shorter leaves slack, which undo may need. */
    int rc = !physical && !c->only ? ll_hash__reserve(c->txn, c->table, c->hash) : 0;
    return rc ? rc : store_any(c, g, physical);
}

/* `only`: if the key has an element, the element is not replaced, and its value is copied to c->old
 * (nullable). */
static inline int put(struct lladd_txn *txn, struct lladd_hash *h, const void *key, size_t key_len,
                      const void *value, size_t value_len, bool only, struct hb_change *c)
{
    bool physical;
    int rc = begin(txn, h, key, key_len, c, &physical);
    c->only = only;
    if (!rc)
        rc = value_of(c->table, value, value_len, c, lladd_txn_error_out(txn));
    if (rc)
        return rc;
    if (__builtin_expect(c->table->fixed, 1))
        return store_fixed(c, physical);
    struct given g = {key, value, key_len, value_len, {0}};
    return store_long(c, &g, physical);
}

static int exists(struct lladd_txn *txn)
{
    return lladd_error_set(lladd_txn_error_out(txn), LLADD_EXISTS, "the key already exists");
}

int lladd_hash_insert(struct lladd_txn *txn, struct lladd_hash *h, const void *key, size_t key_len,
                      const void *value, size_t value_len)
{
    LLADD_USE(txn);
    struct hb_change c;
    c.old = NULL;
    int rc = put(txn, h, key, key_len, value, value_len, true, &c);
    return rc || __builtin_expect(c.inserted, 1) ? rc : exists(txn);
}

/* Inserts one of many elements into a table with fixed lengths; aim() was called before. */
static int insert_aimed(struct hb_change *c, const struct lladd_hash_element *e)
{
    bool physical;
    int rc = ll_hash__how(c->txn, c->table, &physical);
    if (!rc)
        rc = value_of(c->table, e->value, e->value_len, c, lladd_txn_error_out(c->txn));
    if (!rc)
        rc = store_fixed(c, physical);
    return rc || c->inserted ? rc : exists(c->txn);
}

/* Has the same result as inserting the elements one by one. Prefetches the pages of the following
 * keys. */
int lladd_hash_insert_many(struct lladd_txn *txn, struct lladd_hash *h,
                           const struct lladd_hash_element *e, size_t n, size_t *done)
{
    LLADD_USE(txn);
    struct ll_hash_table *t = NULL;
    /* lladd_hash_insert finds and reports a wrong key when it is that key's turn. */
    struct lladd_error ignored = LLADD_ERROR_INIT;
    struct hb_change ahead[AHEAD];
    bool aimed[AHEAD];
    int rc = table_for(txn, h, &t);
    size_t sent = 0, i = 0;
    for (; !rc && i < n; i++) {
        for (; t->fixed && sent < n && sent - i < AHEAD; sent++) {
            struct hb_change *next = &ahead[sent % AHEAD];
            next->table = t;
            next->txn = txn;
            next->old = NULL;
            next->only = true;
            next->revive = next->inserted = false;
            aimed[sent % AHEAD] = aim(next, e[sent].key, e[sent].key_len, &ignored) == 0;
        }
        if (t->fixed && aimed[i % AHEAD])
            rc = insert_aimed(&ahead[i % AHEAD], &e[i]);
        else
            rc = lladd_hash_insert(txn, h, e[i].key, e[i].key_len, e[i].value, e[i].value_len);
    }
    if (done)
        *done = rc && i ? i - 1 : i;
    return rc;
}

int lladd_hash_put(struct lladd_txn *txn, struct lladd_hash *h, const void *key, size_t key_len,
                   const void *value, size_t value_len)
{
    LLADD_USE(txn);
    bool replaced;
    return lladd_hash_put_report(txn, h, key, key_len, value, value_len, &replaced);
}

int lladd_hash_put_report(struct lladd_txn *txn, struct lladd_hash *h, const void *key,
                          size_t key_len, const void *value, size_t value_len, bool *replaced)
{
    LLADD_USE(txn);
    struct hb_change c;
    int rc = put(txn, h, key, key_len, value, value_len, false, &c);
    *replaced = !rc && !c.inserted;
    return rc;
}

int lladd_hash_insert_if_absent(struct lladd_txn *txn, struct lladd_hash *h, const void *key,
                                size_t key_len, const void *value, size_t value_len, bool *inserted,
                                void *buf, size_t size, size_t *len)
{
    LLADD_USE(txn);
    struct hb_change c;
    int rc;
    do {
        c.old = size ? buf : NULL;
        c.old_size = size;
        rc = put(txn, h, key, key_len, value, value_len, true, &c);
        *inserted = !rc && c.inserted;
        if (rc || *inserted)
            return rc;
        if (c.old_blob) /* if the element has been removed since (LLADD_NOT_FOUND), the loop inserts
                         * again */
            rc = get_latched(c.table, &c.key, c.hash, buf, size, len, lladd_txn_error_out(txn));
        else if (len)
            *len = c.old_len;
    } while (rc == LLADD_NOT_FOUND);
    return rc;
}

static int take_away(struct hb_change *c, bool physical)
{
    lladd_savepoint_id before;
    bool careful = !c->table->fixed;
    if (careful)
        TRY(lladd_savepoint(c->txn, &before));
    int rc = change(c, c->table->hashes->remove, physical);
    if (!rc && c->answer == HB_DONE)
        rc = drop_gone(c);
    return careful ? ll_operations__step_end(c->txn, before, rc) : rc;
}

/* Adapts the table's shape after a removal. A merge does not shorten this bucket's chain, unless it
 * happens to merge this bucket. */
static int shrunk(struct hb_change *c, bool physical)
{
    int rc = 0;
    if (c->chain && !physical && c->full * SHORTEN_DEN < c->of * SHORTEN_NUM)
        rc = reshape(ll_hash__shorten(c->txn, c->table, c->hash));
    return rc || c->full * MERGE_DEN > c->of ? rc
                                             : reshape(ll_hash__merge(c->txn, c->table, physical));
}

int lladd_hash_delete(struct lladd_txn *txn, struct lladd_hash *h, const void *key, size_t key_len)
{
    LLADD_USE(txn);
    struct hb_change c;
    bool physical;
    TRY(begin(txn, h, key, key_len, &c, &physical));
    if (!physical)
        TRY(ll_hash__reserve(txn, c.table, c.hash));
    TRY(take_away(&c, physical));
    if (c.answer == HB_ABSENT)
        return not_found(lladd_txn_error_out(txn));
    return shrunk(&c, physical);
}
