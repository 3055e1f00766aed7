/* SPDX-License-Identifier: BSD-2-Clause */
/* Filters of a memtable. Without filters, each key that is looked up or written would cost a search
 * of the memtable, even if the memtable does not have the key. A search takes microseconds if the
 * memtable has half a million rows.
 *
 * A memtable has several Bloom filters, each four times as large as the one before. New keys are
 * added to the newest filter; a lookup checks the filters until the key passes one. A key sets up
 * to four bits of one word in a filter. A filter has at least twelve bits per key; about one absent
 * key in a hundred passes a full filter.
 *
 *   FIL-1  A key is in the filters before its node can be found. There are three kinds of threads
 *          that must find the node: a thread that knows of the key's commit, one that holds the
 *          table's mutex, and one that wrote the key itself. Each of these sees the key's bits.
 *   FIL-2  If a filter is full and no other can be made, the memtable's filters are no longer used,
 *          and every key is searched for. */
#include "operations/dtables/managed/managed.h"

#include <lladd/dtable_class.h>

enum { FIRST_WORDS = 256, TIMES = 4, KEYS_A_WORD = 5 };

struct ll_mem_filter {
    uint64_t words, keys; /* keys: added so far; under the table's mutex */
    uint64_t word[];      /* atomic */
};

static uint64_t word_of(const struct ll_mem_filter *f, uint64_t hash)
{
    return (hash >> 32) * f->words >> 32;
}

static uint64_t bits_of(uint64_t hash)
{
    return UINT64_C(1) << (hash & 63) | UINT64_C(1) << (hash >> 6 & 63) |
           UINT64_C(1) << (hash >> 12 & 63) | UINT64_C(1) << (hash >> 18 & 63);
}

/* Returns the newest filter if it has room for a key, otherwise a new filter. NULL: no memory, or
 * LL_MEM_FILTERS filters are full. */
static struct ll_mem_filter *with_room(struct ll_memtable *m)
{
    uint32_t n = m->n_filters;
    struct ll_mem_filter *f = n ? m->filters[n - 1] : NULL;
    if (f && f->keys < f->words * KEYS_A_WORD)
        return f;
    uint64_t words = f ? f->words * TIMES : FIRST_WORDS;
    if (n == LL_MEM_FILTERS || words > UINT32_MAX)
        return NULL;
    size_t size = sizeof *f + (size_t)words * sizeof f->word[0];
    f = lladd_mem_alloc(m->db, size);
    if (!f)
        return NULL;
    memset(f, 0, size);
    f->words = words;
    m->filters[n] = f;
    lladd_atomic_store64_relaxed(&m->bytes, m->bytes + size);
    lladd_atomic_store32(&m->n_filters, n + 1);
    return f;
}

void ll_managed__filter_add(struct ll_memtable *m, const struct lladd_dtable_key *key)
{
    struct ll_mem_filter *f = lladd_atomic_load32(&m->unfiltered) ? NULL : with_room(m);
    if (!f) {
        lladd_atomic_store32(&m->unfiltered, 1);
        return;
    }
    uint64_t hash = lladd_dtable_hash(&m->order, key), i = word_of(f, hash);
    lladd_atomic_store64(&f->word[i], lladd_atomic_load64(&f->word[i]) | bits_of(hash));
    f->keys++;
}

bool ll_managed__filter_may_have(const struct ll_memtable *m, const struct lladd_dtable_key *key)
{
    uint32_t n = lladd_atomic_load32(&m->n_filters);
    if (lladd_atomic_load32(&m->unfiltered))
        return true;
    uint64_t hash = n ? lladd_dtable_hash(&m->order, key) : 0, bits = bits_of(hash);
    while (n-- > 0) {
        const struct ll_mem_filter *f = m->filters[n];
        if ((lladd_atomic_load64(&f->word[word_of(f, hash)]) & bits) == bits)
            return true;
    }
    return false;
}

void ll_managed__filters_free(struct ll_memtable *m)
{
    for (uint32_t i = 0; i < m->n_filters; i++)
        lladd_mem_free(m->db, m->filters[i]);
}
