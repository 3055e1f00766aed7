/* SPDX-License-Identifier: BSD-2-Clause */
/* Creating tables, and handles. Until the creating transaction has committed, no other transaction
 * may use the new table. */
#include "operations/hash/table.h"

#include <string.h>

static int check_options(struct lladd_txn *txn, const struct lladd_hash_options *o)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    uint32_t most = lladd_page_size(lladd_txn_db(txn)) / 4;
    if (most > LL_HASH_INLINE_MAX)
        most = LL_HASH_INLINE_MAX;
    if (o->key_size > most || o->value_size > most)
        return lladd_error_set(err, LLADD_KEY_SIZE,
                               "keys of %u and values of %u bytes: at most %u, or 0 for any",
                               o->key_size, o->value_size, most);
    return 0;
}

void ll_hash__head(const struct ll_hash_table *t, unsigned char head[HB_HEAD_BYTES], unsigned level,
                   uint64_t bucket, unsigned flags, uint64_t next)
{
    lladd_put48(head, t->root.v);
    head[HB_LEVEL - HB_ROOT] = (unsigned char)level;
    head[HB_FLAGS - HB_ROOT] = (unsigned char)flags;
    lladd_put48(head + HB_BUCKET - HB_ROOT, bucket);
    lladd_put16(head + HB_KEY - HB_ROOT, (uint16_t)t->key_size);
    lladd_put48(head + HB_NEXT - HB_ROOT, next);
    lladd_put16(head + HB_VALUE - HB_ROOT, (uint16_t)t->value_size);
}

static uint64_t buckets_for(struct ll_hash_table *t, uint64_t expected)
{
    uint32_t page = lladd_page_size(t->db);
    uint64_t each = t->fixed ? ll_hash__fixed_slots(page, t->key_size, t->value_size)
                             : ll_hash__var_bytes(page) / 64;
    uint64_t n = expected / (each * 2 / 3 + 1) + 1;
    return n >> (HB_LEVEL_MAX - 1) ? UINT64_C(1) << (HB_LEVEL_MAX - 1) : n;
}

static int make_buckets(struct lladd_txn *txn, struct ll_hash_table *t, uint64_t n)
{
    unsigned char count[8];
    int rc = ll_operations__extents_grow(txn, &t->run, n);
    for (uint64_t b = 0; b < n && !rc; b++) {
        struct hb_fill f = {.len = 0};
        ll_hash__head(t, f.head, ll_hash__level(b, n), b, 0, 0);
        rc = lladd_update(txn, t->hashes->bucket, ll_operations__extents_page(&t->run, b), &f,
                          sizeof f);
    }
    lladd_put64(count, n);
    return rc ? rc : lladd_update(txn, t->hashes->count, t->root, count, sizeof count);
}

static int create(struct lladd_txn *txn, struct ll_hashes *h, const struct lladd_hash_options *o,
                  lladd_pageno *root)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    unsigned char format[8 + HR_SEED_BYTES];
    struct ll_hash_table *t;
    lladd_put32(format, o->key_size);
    lladd_put32(format + 4, o->value_size);
    int rc = lladd_random_bytes(h->db, format + 8, HR_SEED_BYTES);
    if (rc)
        return lladd_error_set(err, LLADD_NO_ACCESS, "no random bytes for a hash table");
    TRY(lladd_page_alloc(txn, root));
    TRY(lladd_update(txn, h->format, *root, format, sizeof format));
    TRY(ll_operations__extents_create(txn, *root, HR_RUN - LLADD_PAGE_HEADER));
    if (ll_hash__new_table(h, *root, &t))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a hash table");
    TRY(ll_hash__claim(txn, t));
    t->key_size = o->key_size;
    t->value_size = o->value_size;
    t->fixed = t->key_size && t->value_size;
    rc = ll_operations__extents_open(&t->run, h->db, *root, HR_RUN - LLADD_PAGE_HEADER, err);
    t->loaded = !rc;
    return rc ? rc : make_buckets(txn, t, buckets_for(t, o->expected));
}

int lladd_hash_create(struct lladd_txn *txn, const struct lladd_hash_options *options,
                      lladd_pageno *root)
{
    LLADD_USE(txn);
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    lladd_savepoint_id before;
    lladd_pageno made;
    if (options)
        memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    TRY(check_options(txn, &o));
    TRY(lladd_savepoint(txn, &before));
    int rc = create(txn, ll_hashes_of(lladd_txn_db(txn)), &o, &made);
    rc = ll_operations__step_end(txn, before, rc);
    if (!rc)
        *root = made;
    return rc;
}

int lladd_hash_open(struct lladd_db *db, lladd_pageno root, unsigned flags, struct lladd_hash **out,
                    struct lladd_error *err)
{
    struct ll_hashes *h = ll_hashes_of(db);
    struct ll_hash_table *t;
    uint64_t n;
    bool physical = flags == LLADD_HASH_PHYSICAL;
    if (flags & ~(unsigned)LLADD_HASH_PHYSICAL)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "unknown flags %#x", flags);
    struct lladd_page *page; /* check the page even if the table is in memory */
    TRY(ll_operations__fix(db, root, ll_hash__root_page.name, LLADD_LATCH_SHARED, &page, err));
    lladd_page_unfix(db, page, LLADD_LATCH_SHARED);
    if (ll_hash__find_table(h, root, &t))
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a hash table");
    TRY(ll_hash__buckets(t, &n, err));
    struct lladd_hash *handle = lladd_mem_alloc(db, sizeof *handle);
    if (!handle)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a hash table");
    handle->table = t;
    lladd_mutex_lock(&h->mutex);
    bool agree = t->handles == 0 || t->physical == physical;
    if (agree) {
        t->physical = physical;
        t->handles++;
    }
    lladd_mutex_unlock(&h->mutex);
    if (!agree) {
        lladd_mem_free(db, handle);
        return lladd_error_set(err, LLADD_BAD_STATE,
                               "the hash table is open with the other kind of undo");
    }
    *out = handle;
    return 0;
}

void lladd_hash_close(struct lladd_hash *h)
{
    if (!h)
        return;
    struct ll_hash_table *t = h->table;
    lladd_mutex_lock(&t->hashes->mutex);
    t->handles--;
    lladd_mutex_unlock(&t->hashes->mutex);
    lladd_mem_free(t->db, h);
}

int lladd_hash_create_open(struct lladd_txn *txn, const struct lladd_hash_options *options,
                           unsigned flags, lladd_pageno *root, struct lladd_hash **out)
{
    LLADD_USE(txn);
    struct lladd_hash *made = NULL;
    lladd_savepoint_id before;
    lladd_pageno page;
    TRY(lladd_savepoint(txn, &before));
    int rc = lladd_hash_create(txn, options, &page);
    if (!rc)
        rc = lladd_hash_open(lladd_txn_db(txn), page, flags, &made, lladd_txn_error_out(txn));
    rc = ll_operations__step_end(txn, before, rc);
    if (rc) {
        lladd_hash_close(made);
        return rc;
    }
    *root = page;
    *out = made;
    return 0;
}

uint32_t lladd_hash_key_size(const struct lladd_hash *h)
{
    return h->table->key_size;
}

uint32_t lladd_hash_value_size(const struct lladd_hash *h)
{
    return h->table->value_size;
}
