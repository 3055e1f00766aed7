/* SPDX-License-Identifier: BSD-2-Clause */
/* Splits, merges and chains.
 *
 * A split of bucket b in a table of n buckets, without chains and with logical undo, is four log
 * records. The table is consistent after each of them, so they have no undo:
 *
 *   format   Page n becomes an empty bucket of the next level. It is closed, and beyond the number
 *            of buckets, so no thread uses it. The thread holds no latch yet, because it may wait
 *            (BUF-3).
 *   widen    Page n is opened, with the entries that move to it.
 *   narrow   Page b loses these entries and gets the next level too: now the split has happened.
 *   buckets  The root page says n + 1. If a crash comes before this record, the level of b shows
 *            that the split has happened (table.c).
 *
 * A merge of the last bucket into its parent is similar. `narrow` drops the parent's ghosts without
 * reservations. `widen` gives the parent the entries of the last bucket and the lower level: now
 * the merge has happened. Another `narrow` closes the last page, and `buckets` lowers the number.
 * With logical undo, splits and merges stay even if the transaction rolls back.
 *
 * With physical undo a split logs `bytes` instead of `narrow` and `buckets`, and there are no
 * merges (ll_hash__merge says why).
 *
 * Buckets with chains are *rebuilt*: the thread reads their entries, writes them to new pages,
 * and then latches the heads and changes them byte by byte. Under the latches the thread first
 * reads the entries again; if they have changed, the thread rolls back and repeats. With logical
 * undo a rebuild is a nested top action that ends before the latches are released; with physical
 * undo it is part of the transaction.
 *
 * Ghosts with a reservation move, too (table.c); all other ghosts are dropped. The mutex `shape`
 * lets one thread at a time split, merge or rebuild. A thread that does not get `shape` at once
 * skips the split, the merge or the shortening; it waits for `shape` only if it must make room. A
 * thread latches the lower bucket first, then the higher bucket, then the root page; it latches a
 * page of a chain only while it holds the head of the bucket. */
#include "operations/hash/table.h"

#include <string.h>

#define REBUILD_TRIES 64
#define MERGED_NUM 3 /* two buckets are merged if they fill at most 3/4 of one page */
#define MERGED_DEN 4

/* ---- helpers --------------------------------------------------------------------------------- */

int ll_hash__write(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *held,
                   const unsigned char *image)
{
    struct hb_bytes args = {image};
    return lladd_update_page(txn, t->hashes->bytes, held, &args, sizeof args);
}

/* Is the page the head of bucket b, with this level? */
static bool is_head(const struct ll_hash_table *t, struct lladd_view v, uint64_t b, unsigned level)
{
    return ll_hash__is_bucket(t, v, b) && v.bytes[HB_LEVEL] == level &&
           lladd_get48(v.bytes + HB_BUCKET) == b;
}

/* Fixes the head of bucket b. LLADD_CONFLICT: the page is not this head, because the table has
 * changed or the number of buckets in memory is wrong. */
static int fix_head(struct ll_hash_table *t, uint64_t b, unsigned level, enum lladd_latch latch,
                    struct lladd_page **out, struct lladd_error *err)
{
    int rc = lladd_page_fix(t->db, ll_operations__extents_page(&t->run, b), latch, out, err);
    if (rc || is_head(t, lladd_page_view(*out), b, level))
        return rc;
    lladd_page_unfix(t->db, *out, latch);
    return LLADD_CONFLICT;
}

static unsigned top_bit(uint64_t n)
{
    return 63 - (unsigned)__builtin_clzll(n);
}

/* Narrows a page; undo restores the changed bytes. */
static int narrow_bytes(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *held,
                        unsigned level, const struct hb_sorted *s)
{
    struct lladd_page copy = *held;
    copy.bytes = s->image;
    memcpy(copy.bytes, held->bytes, held->size);
    copy.bytes[HB_LEVEL] = (unsigned char)level;
    if (t->fixed)
        ll_hash__fixed_drop(copy.bytes, s->drop);
    else
        ll_hash__var_drop(copy.bytes, copy.size, s->drop, s->trim);
    return ll_hash__write(txn, t, held, copy.bytes);
}

static int narrow(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *held,
                  unsigned level, const struct hb_sorted *s, bool close)
{
    struct hb_narrow args = {level, close, s->drop, t->fixed ? NULL : s->trim};
    return lladd_update_page(txn, t->hashes->narrow, held, &args, sizeof args);
}

static int widen(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *held,
                 unsigned level, const unsigned char *packed, size_t len)
{
    struct hb_fill args = {.level = level, .packed = packed, .len = len};
    return lladd_update_page(txn, t->hashes->widen, held, &args, sizeof args);
}

static int write_count(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *root,
                       uint64_t n)
{
    unsigned char count[8];
    lladd_put64(count, n);
    return lladd_update_page(txn, t->hashes->count, root, count, sizeof count);
}

static int count_bytes(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *root,
                       uint64_t n, unsigned char *image)
{
    memcpy(image, root->bytes, root->size);
    lladd_put64(image + HR_BUCKETS, n);
    return ll_hash__write(txn, t, root, image);
}

/* Releases the log credit taken for a change: a thread that has credit must not wait (BUF-3). */
static int put_down(struct lladd_txn *txn, const struct ll_hash_table *t, int rc)
{
    int rest = lladd_log_credit(txn, t->hashes->bucket, 0);
    return rc ? rc : rest;
}

/* ---- a split without chains ------------------------------------------------------------------ */

/* Logs the records of a split. The caller holds all latches. The new page needs no undo even with
 * physical undo: after a rollback it is beyond the number of buckets. */
static int split_records(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *old,
                         struct lladd_page *fresh, struct lladd_page *root,
                         const struct hb_sorted *s, uint64_t n, bool physical)
{
    unsigned level = top_bit(n) + 1;
    TRY(widen(txn, t, fresh, level, s->packed, s->len));
    TRY(physical ? narrow_bytes(txn, t, old, level, s) : narrow(txn, t, old, level, s, false));
    ll_hash__set_buckets(t, n + 1);
    lladd_atomic_add64(&t->splits, 1);
    return physical ? count_bytes(txn, t, root, n + 1, s->image) : write_count(txn, t, root, n + 1);
}

static int split_held(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *old,
                      struct hb_sorted *s, uint64_t n, bool physical)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *fresh, *root;
    TRY(ll_hash__sort(t, lladd_page_view(old), UINT64_C(1) << top_bit(n), s, err));
    TRY(lladd_page_fix(t->db, ll_operations__extents_page(&t->run, n), LLADD_LATCH_EXCLUSIVE,
                       &fresh, err));
    int rc = lladd_page_fix(t->db, t->root, LLADD_LATCH_EXCLUSIVE, &root, err);
    if (!rc) {
        rc = split_records(txn, t, old, fresh, root, s, n, physical);
        lladd_page_unfix(t->db, root, LLADD_LATCH_EXCLUSIVE);
    }
    lladd_page_unfix(t->db, fresh, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

/* Checks that the bucket to split has no chain. LLADD_END: it has one. */
static int split_may_be_plain(struct ll_hash_table *t, uint64_t n, struct lladd_error *err)
{
    struct lladd_page *old;
    const uint64_t b = n - (UINT64_C(1) << top_bit(n));
    TRY(fix_head(t, b, top_bit(n), LLADD_LATCH_SHARED, &old, err));
    int rc = lladd_get48(old->bytes + HB_NEXT) ? LLADD_END : 0;
    lladd_page_unfix(t->db, old, LLADD_LATCH_SHARED);
    return rc;
}

/* Formats the new bucket's page, and takes log credit for the other records. */
static int split_prepare(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t n, bool physical)
{
    struct hb_fill f = {.packed = NULL};
    ll_hash__head(t, f.head, top_bit(n) + 1, n, HB_CLOSED, 0);
    TRY(lladd_update(txn, t->hashes->bucket, ll_operations__extents_page(&t->run, n), &f,
                     sizeof f));
    const struct lladd_log_need logical_needs[] = {
        {t->hashes->widen, 1}, {t->hashes->narrow, 1}, {t->hashes->count, 1}};
    const struct lladd_log_need physical_needs[] = {{t->hashes->widen, 1},
                                                    {t->hashes->bytes, 2}};
    return physical ? lladd_log_credit_all(txn, physical_needs, 2)
                    : lladd_log_credit_all(txn, logical_needs, 3);
}

/* Splits without chains. LLADD_END: there is a chain. */
static int split_plain(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t n, bool physical)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *old;
    TRY(split_may_be_plain(t, n, err));
    struct hb_sorted *s = ll_hash__sorted_new(t, lladd_page_size(t->db));
    if (!s)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a split");
    int rc = split_prepare(txn, t, n, physical);
    if (!rc)
        rc = fix_head(t, n - (UINT64_C(1) << top_bit(n)), top_bit(n), LLADD_LATCH_EXCLUSIVE, &old,
                      err);
    if (!rc) {
        rc =
            lladd_get48(old->bytes + HB_NEXT) ? LLADD_END : split_held(txn, t, old, s, n, physical);
        lladd_page_unfix(t->db, old, LLADD_LATCH_EXCLUSIVE);
    }
    lladd_mem_free(t->db, s);
    return put_down(txn, t, rc);
}

/* ---- a merge without chains ------------------------------------------------------------------ */

static bool merge_fits(const struct ll_hash_table *t, const struct hb_sorted *parent,
                       const struct hb_sorted *last)
{
    if (t->fixed)
        return (parent->kept + last->moved) * MERGED_DEN <= t->fixed_slots * MERGED_NUM;
    return (parent->kept_bytes + last->len + (uint64_t)HB_VAR_DIR * last->moved) * MERGED_DEN <=
           (uint64_t)ll_hash__var_bytes(lladd_page_size(t->db)) * MERGED_NUM;
}

static int merge_records(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *parent,
                         struct lladd_page *last, struct lladd_page *root, struct hb_sorted *p,
                         struct hb_sorted *l, uint64_t n)
{
    unsigned level = top_bit(n - 1);
    TRY(narrow(txn, t, parent, level + 1, p, false));
    TRY(widen(txn, t, parent, level, l->packed, l->len));
    ll_hash__set_buckets(t, n - 1);
    lladd_atomic_add64(&t->merges, 1);
    int rc = narrow(txn, t, last, level + 1, l, true);
    return rc ? rc : write_count(txn, t, root, n - 1);
}

static int merge_held(struct lladd_txn *txn, struct ll_hash_table *t, struct lladd_page *parent,
                      struct lladd_page *last, struct hb_sorted *p, struct hb_sorted *l, uint64_t n)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *root;
    if (lladd_get48(parent->bytes + HB_NEXT) || lladd_get48(last->bytes + HB_NEXT))
        return LLADD_END;
    int rc = ll_hash__sort(t, lladd_page_view(parent), 0, p, err);
    if (!rc)
        rc = ll_hash__sort(t, lladd_page_view(last), UINT64_C(1) << top_bit(n - 1), l, err);
    if (rc || !merge_fits(t, p, l))
        return rc;
    TRY(lladd_page_fix(t->db, t->root, LLADD_LATCH_EXCLUSIVE, &root, err));
    rc = merge_records(txn, t, parent, last, root, p, l, n);
    lladd_page_unfix(t->db, root, LLADD_LATCH_EXCLUSIVE);
    return rc;
}

/* Merges without chains. LLADD_END: there is a chain. */
static int merge_plain(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t n)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *parent, *last;
    const struct lladd_log_need needs[] = {
        {t->hashes->widen, 1}, {t->hashes->narrow, 2}, {t->hashes->count, 1}};
    TRY(lladd_log_credit_all(txn, needs, 3));
    struct hb_sorted *p = ll_hash__sorted_new(t, lladd_page_size(t->db));
    struct hb_sorted *l = p ? ll_hash__sorted_new(t, lladd_page_size(t->db)) : NULL;
    int rc = 0;
    if (!l)
        rc = lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a merge");
    if (!rc)
        rc = fix_head(t, ll_hash__parent(n - 1), top_bit(n - 1) + 1, LLADD_LATCH_EXCLUSIVE, &parent,
                      err);
    if (!rc) {
        rc = fix_head(t, n - 1, top_bit(n - 1) + 1, LLADD_LATCH_EXCLUSIVE, &last, err);
        if (!rc) {
            rc = merge_held(txn, t, parent, last, p, l, n);
            lladd_page_unfix(t->db, last, LLADD_LATCH_EXCLUSIVE);
        }
        lladd_page_unfix(t->db, parent, LLADD_LATCH_EXCLUSIVE);
    }
    lladd_mem_free(t->db, l);
    lladd_mem_free(t->db, p);
    return put_down(txn, t, rc);
}

/* ---- rebuilding ------------------------------------------------------------------------------ */

enum { STAY, GO }; /* STAY: the bucket with the lower number; GO: the new bucket of a split */

/* The contents of buckets; indices are STAY and GO. */
struct contents {
    unsigned char *bytes[2]; /* packed entries */
    size_t len[2], cap[2];
    uint64_t *chain; /* the present overflow pages */
    size_t n_chain, cap_chain;
    uint64_t pages[2]; /* pages that the layout takes, head included; 0: no such bucket */
};

struct rebuild {
    struct ll_hash_table *t;
    struct lladd_txn *txn;
    bool physical;
    enum { SPLIT, MERGE, ROOM } what;
    uint64_t low, high;             /* buckets; `high` only for a split or a merge */
    unsigned level;                 /* level of the present heads */
    uint64_t n;                     /* present number of buckets */
    const struct hb_change *change; /* ROOM; NULL: shorten the chain */
    struct contents seen, now;
    uint64_t *fresh; /* new overflow pages */
    unsigned char *image;
};

static int no_memory(const struct rebuild *r)
{
    return lladd_error_set(lladd_txn_error_out(r->txn), LLADD_NO_MEMORY,
                           "out of memory for buckets");
}

static void contents_free(struct ll_hash_table *t, struct contents *c)
{
    lladd_mem_free(t->db, c->bytes[STAY]);
    lladd_mem_free(t->db, c->bytes[GO]);
    lladd_mem_free(t->db, c->chain);
    memset(c, 0, sizeof *c);
}

static int add_entry(const struct rebuild *r, struct contents *c, int to, const struct hb_entry *e)
{
    size_t need = ll_hash__pack_size(r->t->fixed, e);
    if (ll_operations__grow(r->t->db, &c->bytes[to], c->len[to] + need, &c->cap[to], 1))
        return no_memory(r);
    ll_hash__pack(c->bytes[to] + c->len[to], r->t->fixed, e);
    c->len[to] += need;
    return 0;
}

static bool same_key(const struct hb_key *k, const struct hb_entry *e)
{
    size_t n = k->len & HB_BLOB ? HB_KEY_REF_SAME : k->len;
    return k->len == e->key_len && k->tag == (e->tag & (HB_GHOST - 1)) &&
           memcmp(k->bytes, e->key, n) == 0;
}

static int add_page(const struct rebuild *r, struct contents *c, struct lladd_view v)
{
    int rc = 0;
    if (!ll_hash__fine(v))
        return ll_hash__corrupt(lladd_txn_error_out(r->txn), v.number, "is not a valid bucket");
    for (uint32_t i = 0; i < hb_get(v.bytes, HB_SLOTS) && !rc; i++) {
        struct hb_entry e;
        if (!ll_hash__entry(v, i, &e))
            continue;
        uint64_t hash = ll_hash__of(r->t, e.key, e.key_len);
        if (!ll_hash__held(r->t, hash)) {
            if (e.tag & HB_GHOST)
                continue;
            e.cap = HB_LEN(e.value_len);
        }
        if (r->change && !r->t->fixed && same_key(&r->change->key, &e) &&
            e.cap < HB_LEN(r->change->value_len))
            e.cap = HB_LEN(r->change->value_len);
        rc = add_entry(r, c, r->what == SPLIT && hash >> r->level & 1 ? GO : STAY, &e);
    }
    return rc;
}

static int add_chain_page(const struct rebuild *r, struct contents *c, lladd_pageno page)
{
    if (ll_operations__grow(r->t->db, &c->chain, c->n_chain + 1, &c->cap_chain, sizeof *c->chain))
        return no_memory(r);
    c->chain[c->n_chain++] = page.v;
    return 0;
}

/* Adds the contents of a bucket; the caller holds its head. */
static int add_bucket(const struct rebuild *r, struct contents *c, const struct lladd_page *head)
{
    struct ll_hash_table *t = r->t;
    struct lladd_error *err = lladd_txn_error_out(r->txn);
    struct lladd_page *page, *next;
    TRY(add_page(r, c, lladd_page_view(head)));
    int rc = ll_hash__fix_next(t, head, head, LLADD_LATCH_SHARED, &page, err);
    while (!rc) {
        rc = add_chain_page(r, c, page->number);
        if (!rc)
            rc = add_page(r, c, lladd_page_view(page));
        if (!rc && c->n_chain > lladd_page_count(t->db))
            rc = ll_hash__corrupt(err, head->number, "the chain of its bucket does not end");
        if (!rc)
            rc = ll_hash__fix_next(t, head, page, LLADD_LATCH_SHARED, &next, err);
        lladd_page_unfix(t->db, page, LLADD_LATCH_SHARED);
        page = next;
    }
    return rc == LLADD_END ? 0 : rc;
}

/* The number of bytes, in whole packed entries at p, that fit on one page; *left: the room that
 * these entries leave. */
static size_t page_full(const struct rebuild *r, const unsigned char *p, size_t n, uint32_t *left)
{
    struct ll_hash_table *t = r->t;
    uint32_t page_size = lladd_page_size(t->db);
    uint32_t room = t->fixed ? t->fixed_slots : ll_hash__var_bytes(page_size);
    size_t at = 0;
    while (at < n) {
        uint32_t need = 1, len = 2 + t->key_size + t->value_size;
        if (!t->fixed) {
            uint32_t key = HB_LEN(lladd_get16(p + at + 2));
            len = HB_VAR_HEAD + key + HB_LEN(lladd_get16(p + at + 4));
            need = HB_VAR_HEAD + HB_VAR_DIR + key + lladd_get16(p + at + 6);
        }
        if (need > room)
            break;
        room -= need;
        at += len;
    }
    *left = room;
    return at;
}

/* The room that a layout must leave on the last page: enough for the change, or enough that a
 * shortened chain does not grow again at once. */
static uint32_t room_wanted(const struct rebuild *r)
{
    const struct ll_hash_table *t = r->t;
    uint32_t of = t->fixed ? t->fixed_slots : ll_hash__var_bytes(lladd_page_size(t->db));
    if (!r->change)
        return of / 4;
    return t->fixed ? 1
                    : HB_VAR_HEAD + HB_VAR_DIR + HB_LEN(r->change->key.len) +
                          HB_LEN(r->change->value_len);
}

static void lay_out(const struct rebuild *r, struct contents *c)
{
    for (int to = STAY; to <= GO; to++) {
        uint32_t left, need = 0;
        c->pages[to] = 0;
        if (to == GO && r->what != SPLIT)
            continue;
        if (r->what == ROOM)
            need = room_wanted(r);
        size_t at = 0;
        do {
            at += page_full(r, c->bytes[to] + at, c->len[to] - at, &left);
            c->pages[to]++;
        } while (at < c->len[to]);
        if (left < need)
            c->pages[to]++;
    }
}

/* Reads the buckets; the caller holds their heads. */
static int look(const struct rebuild *r, struct contents *c, const struct lladd_page *low,
                const struct lladd_page *high)
{
    c->len[STAY] = c->len[GO] = c->n_chain = 0;
    TRY(add_bucket(r, c, low));
    if (r->what == MERGE)
        TRY(add_bucket(r, c, high));
    lay_out(r, c);
    return 0;
}

static bool same_contents(const struct contents *a, const struct contents *b)
{
    for (int to = STAY; to <= GO; to++)
        if (a->len[to] != b->len[to] || a->pages[to] != b->pages[to] ||
            (a->len[to] && memcmp(a->bytes[to], b->bytes[to], a->len[to]) != 0))
            return false;
    return a->n_chain == b->n_chain &&
           (a->n_chain == 0 || memcmp(a->chain, b->chain, a->n_chain * sizeof *a->chain) == 0);
}

static int fix_heads(const struct rebuild *r, enum lladd_latch latch, struct lladd_page **low,
                     struct lladd_page **high)
{
    struct ll_hash_table *t = r->t;
    struct lladd_error *err = lladd_txn_error_out(r->txn);
    *high = NULL;
    int rc = fix_head(t, r->low, r->level, latch, low, err);
    if (!rc && r->what == MERGE && (rc = fix_head(t, r->high, r->level, latch, high, err)) != 0)
        lladd_page_unfix(t->db, *low, latch);
    return rc;
}

static void unfix_heads(const struct rebuild *r, enum lladd_latch latch, struct lladd_page *low,
                        struct lladd_page *high)
{
    if (high)
        lladd_page_unfix(r->t->db, high, latch);
    lladd_page_unfix(r->t->db, low, latch);
}

static int peek(struct rebuild *r)
{
    struct lladd_page *low, *high;
    TRY(fix_heads(r, LLADD_LATCH_SHARED, &low, &high));
    int rc = look(r, &r->seen, low, high);
    unfix_heads(r, LLADD_LATCH_SHARED, low, high);
    return rc;
}

static unsigned new_level(const struct rebuild *r)
{
    return r->what == SPLIT ? r->level + 1 : r->what == MERGE ? r->level - 1 : r->level;
}

/* Writes the new overflow pages of one bucket. *first becomes the number of the first one, or 0 if
 * there is none; *head becomes the number of bytes of entries that belong on the head page. */
static int write_chain(struct rebuild *r, int to, uint64_t bucket, size_t *next_fresh,
                       uint64_t *first, size_t *head)
{
    const struct contents *c = &r->seen;
    uint32_t left;
    size_t at = page_full(r, c->bytes[to], c->len[to], &left), n = (size_t)c->pages[to] - 1;
    const uint64_t *pages = r->fresh + *next_fresh;
    int rc = 0;
    *head = at;
    *next_fresh += n;
    *first = n ? pages[0] : 0;
    for (size_t i = 0; i < n && !rc; i++) {
        struct hb_fill f = {.packed = c->bytes[to] + at};
        f.len = page_full(r, f.packed, c->len[to] - at, &left);
        at += f.len;
        ll_hash__head(r->t, f.head, new_level(r), bucket, HB_OVERFLOW,
                      i + 1 < n ? pages[i + 1] : 0);
        rc = lladd_update(r->txn, r->t->hashes->bucket, lladd_page_of(pages[i]), &f, sizeof f);
    }
    return rc;
}

/* Allocates new overflow pages, frees the old ones, and writes the pages that no other thread uses
 * yet. */
static int write_fresh(struct rebuild *r, uint64_t first[2], size_t head[2])
{
    struct ll_hash_table *t = r->t;
    const struct contents *c = &r->seen;
    size_t next = 0, n = (size_t)(c->pages[STAY] - 1 + (c->pages[GO] ? c->pages[GO] - 1 : 0));
    int rc = 0;
    lladd_mem_free(t->db, r->fresh);
    r->fresh = lladd_mem_alloc(t->db, (n + 1) * sizeof *r->fresh);
    if (!r->fresh)
        return no_memory(r);
    for (size_t i = 0; i < n && !rc; i++) {
        lladd_pageno page = {0};
        rc = lladd_page_alloc(r->txn, &page);
        r->fresh[i] = page.v;
    }
    for (size_t i = 0; i < c->n_chain && !rc; i++)
        rc = lladd_page_free(r->txn, lladd_page_of(c->chain[i]));
    if (!rc)
        rc = write_chain(r, STAY, r->low, &next, &first[STAY], &head[STAY]);
    if (rc || r->what != SPLIT)
        return rc;
    TRY(write_chain(r, GO, r->high, &next, &first[GO], &head[GO]));
    struct hb_fill f = {.packed = c->bytes[GO], .len = head[GO]};
    ll_hash__head(t, f.head, new_level(r), r->high, HB_CLOSED, first[GO]);
    return lladd_update(r->txn, t->hashes->bucket,
                        ll_operations__extents_page(&t->run, r->high), &f, sizeof f);
}

static int write_head(struct rebuild *r, struct lladd_page *held, uint64_t bucket, unsigned flags,
                      uint64_t next, const unsigned char *packed, size_t len)
{
    struct hb_fill f = {.packed = packed, .len = len};
    struct lladd_page copy = *held;
    unsigned char *redo = r->image + held->size;
    copy.bytes = r->image;
    memcpy(copy.bytes, held->bytes, LLADD_PAGE_HEADER);
    ll_hash__head(r->t, f.head, flags & HB_CLOSED ? r->level : new_level(r), bucket, flags, next);
    memcpy(redo, f.head, HB_HEAD_BYTES);
    if (len)
        memcpy(redo + HB_HEAD_BYTES, packed, len);
    memset(lladd_page_body(&copy), 0, lladd_body_size(copy.size));
    ll_hash__bucket_format.redo(&copy, lladd_span_of(redo, HB_HEAD_BYTES + len));
    return ll_hash__write(r->txn, r->t, held, r->image);
}

static int write_root(struct rebuild *r, struct lladd_page *root, uint64_t n)
{
    memcpy(r->image, root->bytes, root->size);
    lladd_put64(r->image + HR_BUCKETS, n);
    return ll_hash__write(r->txn, r->t, root, r->image);
}

static int write_heads(struct rebuild *r, struct lladd_page *low, struct lladd_page *high,
                       struct lladd_page *root, const uint64_t first[2], const size_t head[2])
{
    struct ll_hash_table *t = r->t;
    uint64_t n = r->what == SPLIT ? r->n + 1 : r->n - 1;
    int rc = write_head(r, low, r->low, 0, first[STAY], r->seen.bytes[STAY], head[STAY]);
    if (!rc && r->what == SPLIT)
        rc = write_head(r, high, r->high, 0, first[GO], r->seen.bytes[GO], head[GO]);
    if (!rc && r->what == MERGE)
        rc = write_head(r, high, r->high, HB_CLOSED, 0, NULL, 0);
    if (!rc && r->what != ROOM)
        rc = write_root(r, root, n);
    if (rc || r->what == ROOM)
        return rc;
    ll_hash__set_buckets(t, n);
    lladd_atomic_add64(r->what == SPLIT ? &t->splits : &t->merges, 1);
    return 0;
}

/* Latches the heads and completes the change. LLADD_CONFLICT: the buckets have changed
 * meanwhile. */
static int switch_over(struct rebuild *r, const uint64_t first[2], const size_t head[2],
                       struct lladd_action *action)
{
    struct ll_hash_table *t = r->t;
    struct lladd_error *err = lladd_txn_error_out(r->txn);
    struct lladd_page *low, *high, *root = NULL;
    /* Records for one head, or for two heads and the root page, and for the end of the nested top
     * action. The end is logged under the latches: once they are released, other transactions may
     * change the pages, and page undo would be wrong. */
    const struct lladd_log_need needs[] = {{t->hashes->bytes, r->what == ROOM ? 1 : 3},
                                           {LLADD_NO_OP, r->physical ? 0 : 1}};
    int rc = lladd_log_credit_all(r->txn, needs, 2);
    if (!rc)
        rc = fix_heads(r, LLADD_LATCH_EXCLUSIVE, &low, &high);
    if (rc)
        return put_down(r->txn, t, rc);
    rc = look(r, &r->now, low, high);
    if (!rc && !same_contents(&r->seen, &r->now))
        rc = LLADD_CONFLICT;
    if (!rc && r->what == SPLIT)
        rc = lladd_page_fix(t->db, ll_operations__extents_page(&t->run, r->high),
                            LLADD_LATCH_EXCLUSIVE, &high, err);
    if (!rc && r->what != ROOM)
        rc = lladd_page_fix(t->db, t->root, LLADD_LATCH_EXCLUSIVE, &root, err);
    if (!rc) {
        rc = write_heads(r, low, high, root, first, head);
        if (!rc && !r->physical)
            rc = lladd_nta_end(r->txn, action, LLADD_NO_OP, NULL, 0);
        if (rc) /* The rollback that follows undoes the bytes. */
            ll_hash__forget(t);
    }
    if (root)
        lladd_page_unfix(t->db, root, LLADD_LATCH_EXCLUSIVE);
    unfix_heads(r, LLADD_LATCH_EXCLUSIVE, low, high);
    return put_down(r->txn, t, rc);
}

static int rebuild_once(struct rebuild *r)
{
    struct lladd_savepoint_pair {
        lladd_savepoint_id id;
        struct lladd_action action;
    } open;
    uint64_t first[2] = {0, 0};
    size_t head[2] = {0, 0};
    TRY(peek(r));
    TRY(r->physical ? lladd_savepoint(r->txn, &open.id) : lladd_nta_begin(r->txn, &open.action));
    int rc = write_fresh(r, first, head);
    if (!rc)
        rc = switch_over(r, first, head, &open.action);
    return r->physical ? ll_operations__step_end(r->txn, open.id, rc)
                       : ll_operations__action_all_or_nothing(r->txn, &open.action, rc);
}

static int rebuild(struct rebuild *r)
{
    struct ll_hash_table *t = r->t;
    uint32_t page = lladd_page_size(t->db);
    r->image = lladd_mem_alloc(t->db, 2 * (size_t)page);
    int rc = r->image ? LLADD_CONFLICT : no_memory(r);
    for (int i = 0; i < REBUILD_TRIES && rc == LLADD_CONFLICT; i++)
        rc = rebuild_once(r);
    lladd_mem_free(t->db, r->image);
    lladd_mem_free(t->db, r->fresh);
    contents_free(t, &r->seen);
    contents_free(t, &r->now);
    return rc;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* One split, under `shape`. Does nothing if the number of buckets is unsure (table.c), because the
 * root page might get a wrong number. */
static int split_step(struct lladd_txn *txn, struct ll_hash_table *t, bool physical)
{
    uint64_t n;
    int rc = ll_hash__buckets(t, &n, lladd_txn_error_out(txn));
    if (rc || lladd_atomic_load32(&t->unsure) || (n + 1) >> (HB_LEVEL_MAX - 1))
        return rc;
    TRY(ll_operations__extents_grow(txn, &t->run, n + 1));
    rc = split_plain(txn, t, n, physical);
    if (rc != LLADD_END)
        return rc;
    struct rebuild r = {.t = t,
                        .txn = txn,
                        .physical = physical,
                        .what = SPLIT,
                        .low = n - (UINT64_C(1) << top_bit(n)),
                        .high = n,
                        .level = top_bit(n),
                        .n = n};
    return rebuild(&r);
}

static int merge_rebuilt(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t n)
{
    struct rebuild r = {.t = t,
                        .txn = txn,
                        .what = MERGE,
                        .low = ll_hash__parent(n - 1),
                        .high = n - 1,
                        .level = top_bit(n - 1) + 1,
                        .n = n};
    /* Merges only if the entries of both buckets fit on 3/4 of one page. */
    struct contents c = {.n_chain = 0};
    struct lladd_page *low, *high;
    uint32_t left = 0;
    TRY(fix_heads(&r, LLADD_LATCH_SHARED, &low, &high));
    int rc = look(&r, &c, low, high);
    unfix_heads(&r, LLADD_LATCH_SHARED, low, high);
    size_t all = c.len[STAY];
    if (!rc && page_full(&r, c.bytes[STAY], all, &left) < all)
        left = 0;
    contents_free(t, &c);
    uint32_t of = t->fixed ? t->fixed_slots : ll_hash__var_bytes(lladd_page_size(t->db));
    return rc || left < of - of / MERGED_DEN * MERGED_NUM ? rc : rebuild(&r);
}

static int merge_step(struct lladd_txn *txn, struct ll_hash_table *t)
{
    uint64_t n;
    int rc = ll_hash__buckets(t, &n, lladd_txn_error_out(txn));
    if (rc || lladd_atomic_load32(&t->unsure) || n == 1)
        return rc;
    rc = merge_plain(txn, t, n);
    return rc == LLADD_END ? merge_rebuilt(txn, t, n) : rc;
}

/* Unlocks `shape`. A conflict is no error: the number of buckets is read again at next use. */
static int settle(struct ll_hash_table *t, int rc)
{
    if (rc == LLADD_CONFLICT)
        ll_hash__forget(t);
    lladd_mutex_unlock(&t->shape);
    return rc == LLADD_CONFLICT ? 0 : rc;
}

int ll_hash__split(struct lladd_txn *txn, struct ll_hash_table *t, bool physical)
{
    if (!lladd_mutex_trylock(&t->shape))
        return 0;
    return settle(t, split_step(txn, t, physical));
}

int ll_hash__merge(struct lladd_txn *txn, struct ll_hash_table *t, bool physical)
{
    /* A page must not be formatted while it has changes that may still be undone. With physical
     * undo a bucket that is merged and split again would have such changes. */
    if (physical || !lladd_mutex_trylock(&t->shape))
        return 0;
    return settle(t, merge_step(txn, t));
}

/* Drops ghosts and slack without reservations. *freed: the number of ghosts dropped and of entries
 * that lost slack. For logical undo. */
static int clear(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t hash, uint32_t *freed)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *page;
    *freed = 0;
    struct hb_sorted *s = ll_hash__sorted_new(t, lladd_page_size(t->db));
    int rc = s ? ll_hash__fix_to_change(txn, t, hash, t->hashes->narrow, &page)
               : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a bucket");
    if (!rc) {
        rc = ll_hash__sort(t, lladd_page_view(page), 0, s, err);
        if (!rc && s->dropped + s->trimmed)
            rc = narrow(txn, t, page, page->bytes[HB_LEVEL], s, false);
        lladd_page_unfix(t->db, page, LLADD_LATCH_EXCLUSIVE);
        *freed = rc ? 0 : s->dropped + s->trimmed;
    }
    lladd_mem_free(t->db, s);
    return LLADD_PLANTED(LLADD_BUG_CREDIT_HELD) ? rc : put_down(txn, t, rc);
}

int ll_hash__clear(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t hash, bool physical)
{
    uint32_t freed;
    return physical ? 0 : clear(txn, t, hash, &freed);
}

/* Shortens a chain by one rebuild, if possible. The caller holds `shape`. */
static int shorten_step(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t hash)
{
    struct lladd_page *head;
    TRY(ll_hash__fix_bucket(t, hash, LLADD_LATCH_SHARED, &head, lladd_txn_error_out(txn)));
    struct rebuild r = {.t = t,
                        .txn = txn,
                        .what = ROOM,
                        .low = lladd_get48(head->bytes + HB_BUCKET),
                        .level = head->bytes[HB_LEVEL]};
    struct contents c = {.n_chain = 0};
    int rc = look(&r, &c, head, NULL);
    lladd_page_unfix(t->db, head, LLADD_LATCH_SHARED);
    bool shorter = !rc && c.pages[STAY] < 1 + c.n_chain;
    contents_free(t, &c);
    return shorter ? rebuild(&r) : rc;
}

int ll_hash__shorten(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t hash)
{
    if (!lladd_mutex_trylock(&t->shape))
        return 0;
    return settle(t, shorten_step(txn, t, hash));
}

int ll_hash__make_room(struct lladd_txn *txn, struct ll_hash_table *t, const struct hb_change *c,
                       bool physical)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct lladd_page *head;
    uint32_t freed = 0;
    int rc = physical ? 0 : clear(txn, t, c->hash, &freed);
    if (rc || freed)
        return rc;
    TRY(ll_hash__fix_bucket(t, c->hash, LLADD_LATCH_SHARED, &head, err));
    struct rebuild r = {.t = t,
                        .txn = txn,
                        .physical = physical,
                        .what = ROOM,
                        .low = lladd_get48(head->bytes + HB_BUCKET),
                        .level = head->bytes[HB_LEVEL],
                        .change = c};
    lladd_page_unfix(t->db, head, LLADD_LATCH_SHARED);
    /* Chains change only under this mutex, so the pages found in a chain still belong to it when
     * they are freed. */
    lladd_mutex_lock(&t->shape);
    rc = rebuild(&r);
    lladd_mutex_unlock(&t->shape);
    /* After a conflict there may be room: the bucket may have been split meanwhile. */
    return rc == LLADD_CONFLICT ? 0 : rc;
}
