/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks through a table, and counting.
 *
 * The order is that of the hashes with their bits reversed. In this order bucket b of level n is an
 * interval: all values that begin with the n bits of b, reversed. A split cuts an interval in two,
 * a merge joins two neighbours, and the order of elements never changes. So a position, which is a
 * reversed hash, is enough state for a walk. The walk copies the elements at or after the position
 * from the position's bucket, and continues at the end of the bucket's interval. */
#include "operations/hash/table.h"

#include <lladd/blob.h>

#include <string.h>

#define HEAD_BYTES 8u /* before each element in the buffer: u32 key length, u32 value length, each
                       * with HB_BLOB */

static uint64_t reverse(uint64_t x)
{
    x = (x >> 1 & UINT64_C(0x5555555555555555)) | (x & UINT64_C(0x5555555555555555)) << 1;
    x = (x >> 2 & UINT64_C(0x3333333333333333)) | (x & UINT64_C(0x3333333333333333)) << 2;
    x = (x >> 4 & UINT64_C(0x0f0f0f0f0f0f0f0f)) | (x & UINT64_C(0x0f0f0f0f0f0f0f0f)) << 4;
    return __builtin_bswap64(x);
}

/* `from` is 0 if all of the bucket's elements are at or after the position, else the position. */
typedef int page_fn(void *ctx, struct ll_hash_table *, struct lladd_view, uint64_t from,
                    struct lladd_error *);

/* Calls fn for each page of the bucket with the position `from`, under a shared latch. *next: the
 * end of the bucket's interval; 0 after the last bucket. */
static int visit(struct ll_hash_table *t, uint64_t from, uint64_t *next, page_fn *fn, void *ctx,
                 struct lladd_error *err)
{
    struct lladd_page *head, *page, *after = NULL;
    TRY(ll_hash__fix_bucket(t, reverse(from), LLADD_LATCH_SHARED, &head, err));
    unsigned level = head->bytes[HB_LEVEL];
    uint64_t begin = reverse(lladd_get48(head->bytes + HB_BUCKET));
    *next = level ? begin + (UINT64_C(1) << (64 - level)) : 0;
    page = head;
    int rc = 0;
    for (uint64_t steps = 0; !rc; steps++) {
        rc = fn(ctx, t, lladd_page_view(page), from == begin ? 0 : from, err);
        if (!rc)
            rc = ll_hash__fix_next(t, head, page, LLADD_LATCH_SHARED, &after, err);
        if (page != head)
            lladd_page_unfix(t->db, page, LLADD_LATCH_SHARED);
        page = head;
        if (!rc)
            page = after;
        if (!rc && steps > lladd_page_count(t->db))
            rc = ll_hash__corrupt(err, head->number, "the chain of its bucket does not end");
    }
    if (page != head)
        lladd_page_unfix(t->db, page, LLADD_LATCH_SHARED);
    lladd_page_unfix(t->db, head, LLADD_LATCH_SHARED);
    return rc == LLADD_END ? 0 : rc;
}

/* Is the entry an element at or after the position? */
static bool wanted(const struct ll_hash_table *t, const struct hb_entry *e, uint64_t from)
{
    return !(e->tag & HB_GHOST) &&
           (from == 0 || reverse(ll_hash__of(t, e->key, e->key_len)) >= from);
}

/* ---- counting -------------------------------------------------------------------------------- */

static int count_page(void *ctx, struct ll_hash_table *t, struct lladd_view v, uint64_t from,
                      struct lladd_error *err)
{
    uint64_t *sum = ctx;
    (void)err;
    if (from == 0) {
        *sum += hb_get(v.bytes, HB_LIVE);
        return 0;
    }
    for (uint32_t i = 0; i < hb_get(v.bytes, HB_SLOTS); i++) {
        struct hb_entry e;
        *sum += ll_hash__entry(v, i, &e) && wanted(t, &e, from);
    }
    return 0;
}

int lladd_hash_count(struct lladd_hash *h, uint64_t *out, struct lladd_error *err)
{
    uint64_t sum = 0, at = 0;
    int rc;
    do
        rc = visit(h->table, at, &at, count_page, &sum, err);
    while (!rc && at);
    if (!rc)
        *out = sum;
    return rc;
}

/* ---- walking --------------------------------------------------------------------------------- */

/* Indices in private_ of a cursor. */
enum { W_POSITION, W_STATE, W_AT, W_FILLED };
enum { BEFORE, UNDER_WAY, OVER, STUCK /* the bucket at the position could not be read */ };

static int want_room(struct ll_hash_table *t, struct lladd_hash_cursor *w, uint64_t need,
                     struct lladd_error *err)
{
    if (w->size - w->private_[W_FILLED] >= need)
        return 0;
    uint64_t size = 2 * w->private_[W_FILLED] + need + lladd_page_size(t->db);
    unsigned char *p = size <= SIZE_MAX ? lladd_mem_resize(t->db, w->buffer, (size_t)size) : NULL;
    if (!p)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a walk");
    w->buffer = p;
    w->size = (size_t)size;
    return 0;
}

static int copy_page(void *ctx, struct ll_hash_table *t, struct lladd_view v, uint64_t from,
                     struct lladd_error *err)
{
    struct lladd_hash_cursor *w = ctx;
    for (uint32_t i = 0; i < hb_get(v.bytes, HB_SLOTS); i++) {
        struct hb_entry e;
        if (!ll_hash__entry(v, i, &e) || !wanted(t, &e, from))
            continue;
        size_t key = HB_LEN(e.key_len), value = HB_LEN(e.value_len);
        size_t need = HEAD_BYTES + key + value;
        TRY(want_room(t, w, need, err));
        unsigned char *to = w->buffer + w->private_[W_FILLED];
        lladd_put32(to, e.key_len);
        lladd_put32(to + 4, e.value_len);
        lladd_copy(to + HEAD_BYTES, e.key, key);
        lladd_copy(to + HEAD_BYTES + key, e.value, value);
        w->private_[W_FILLED] += need;
    }
    return 0;
}

static int fill(struct ll_hash_table *t, struct lladd_hash_cursor *w, struct lladd_error *err)
{
    uint64_t next = 0;
    w->private_[W_AT] = w->private_[W_FILLED] = 0;
    int rc = visit(t, w->private_[W_POSITION], &next, copy_page, w, err);
    if (rc) {
        w->private_[W_FILLED] = 0; /* the next call reads the same bucket */
        w->private_[W_STATE] = STUCK;
        return rc;
    }
    w->private_[W_POSITION] = next;
    w->private_[W_STATE] = next ? UNDER_WAY : OVER;
    return 0;
}

struct walker {
    struct ll_hash_reader reader; /* first member */
    struct lladd_hash_cursor *walk;
    uint64_t key_len, value_len;
};

/* Stores key and value of an element with a part in a blob after the buffer's contents. */
static int see(struct ll_hash_reader *r, const struct hb_entry *e, struct lladd_error *err)
{
    struct walker *w = (struct walker *)r;
    bool key_blob = (e->key_len & HB_BLOB) != 0, value_blob = (e->value_len & HB_BLOB) != 0;
    const unsigned char *key_ref = e->key + HB_KEY_REF - HB_VALUE_REF;
    w->key_len = key_blob ? lladd_get64(key_ref) : HB_LEN(e->key_len);
    w->value_len = value_blob ? lladd_get64(e->value) : HB_LEN(e->value_len);
    if (w->key_len > UINT32_MAX || w->value_len > LLADD_BLOB_MAX)
        return ll_hash__corrupt(err, r->table->root,
                                "hash table: a key or value is longer than allowed");
    TRY(want_room(r->table, w->walk, w->key_len + w->value_len, err));
    unsigned char *key = w->walk->buffer + w->walk->private_[W_FILLED], *value = key + w->key_len;
    if (key_blob)
        ll_hash__set_part(&r->key_part, key_ref, key, w->key_len);
    else
        lladd_copy(key, e->key, (size_t)w->key_len);
    if (value_blob)
        ll_hash__set_part(&r->value_part, e->value, value, w->value_len);
    else
        lladd_copy(value, e->value, (size_t)w->value_len);
    return 0;
}

/* Reads the present value of the element at W_AT in the buffer. LLADD_NOT_FOUND: the element has
 * been removed since its page was copied. */
static int read_element(struct ll_hash_table *t, struct lladd_hash_cursor *w,
                        struct lladd_span *key, struct lladd_span *value, struct lladd_error *err)
{
    unsigned char bytes[LL_HASH_INLINE_MAX]; /* a copy: the buffer may move */
    struct hb_key k = {.bytes = bytes};
    struct walker walker = {.reader = {.table = t, .key = &k, .see = see}, .walk = w};
    const unsigned char *p = w->buffer + w->private_[W_AT];
    k.len = (uint16_t)lladd_get32(p);
    memcpy(bytes, p + HEAD_BYTES, HB_LEN(k.len));
    walker.reader.hash = ll_hash__of(t, bytes, k.len);
    k.tag = hb_tag(walker.reader.hash);
    TRY(ll_hash__read(&walker.reader, err));
    *key = lladd_span_of(w->buffer + w->private_[W_FILLED], (size_t)walker.key_len);
    *value = lladd_span_of((const unsigned char *)key->data + walker.key_len,
                           (size_t)walker.value_len);
    return 0;
}

int lladd_hash_cursor_next(struct lladd_hash *h, struct lladd_hash_cursor *w,
                           struct lladd_span *key, struct lladd_span *value,
                           struct lladd_error *err)
{
    for (;;) {
        if (w->private_[W_AT] == w->private_[W_FILLED] && w->private_[W_STATE] == OVER)
            return LLADD_END;
        if (w->private_[W_AT] == w->private_[W_FILLED])
            TRY(fill(h->table, w, err));
        if (w->private_[W_AT] == w->private_[W_FILLED])
            continue;
        const unsigned char *p = w->buffer + w->private_[W_AT];
        uint32_t key_len = lladd_get32(p), value_len = lladd_get32(p + 4);
        size_t len = HEAD_BYTES + HB_LEN(key_len) + HB_LEN(value_len);
        int rc = 0;
        if ((key_len | value_len) & HB_BLOB) {
            rc = read_element(h->table, w, key, value, err);
        } else {
            *key = lladd_span_of(p + HEAD_BYTES, key_len);
            *value = lladd_span_of(p + HEAD_BYTES + key_len, value_len);
        }
        if (rc != LLADD_NO_MEMORY) /* without memory, the next call tries again */
            w->private_[W_AT] += len;
        if (rc != LLADD_NOT_FOUND)
            return rc;
    }
}

int lladd_hash_cursor_skip(struct lladd_hash *h, struct lladd_hash_cursor *w,
                           struct lladd_error *err)
{
    struct ll_hash_table *t = h->table;
    uint64_t n, next, hash = reverse(w->private_[W_POSITION]);
    if (w->private_[W_STATE] != STUCK)
        return 0; /* only one element could not be read, and lladd_hash_cursor_next has skipped
                   * it */
    TRY(ll_hash__buckets(t, &n, err));
    /* Copies the elements of the pages before the damaged one. The interval's end follows from the
     * number of buckets. */
    int rc = visit(t, w->private_[W_POSITION], &next, copy_page, w, err);
    if (rc && lladd_code_root(rc) != LLADD_ROOT_DATA) {
        w->private_[W_FILLED] = 0;
        return rc;
    }
    uint64_t bucket = ll_hash__bucket(hash, n);
    unsigned level = ll_hash__level(bucket, n);
    next = level ? reverse(bucket) + (UINT64_C(1) << (64 - level)) : 0;
    w->private_[W_POSITION] = next;
    w->private_[W_STATE] = next ? UNDER_WAY : OVER;
    return 0;
}

void lladd_hash_cursor_close(struct lladd_hash *h, struct lladd_hash_cursor *w)
{
    lladd_mem_free(h->table->db, w->buffer);
    memset(w, 0, sizeof *w);
}
