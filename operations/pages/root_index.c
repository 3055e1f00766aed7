/* SPDX-License-Identifier: BSD-2-Clause */
/* The index of root names: from a name's hash to the page of the chain that has its entry.
 *
 * The chain of root pages has no order, so a lookup without the index walks along the chain. The
 * first lookup fills the index by one such walk; later each new name is added. A page from the
 * index is a hint: a rollback may have removed the entry, and two names may have one hash. If
 * the page does not have the name, or if there is no memory for the index, the lookup walks
 * along the chain. */
#include "operations/pages/root_index.h"

#include "operations/hash/siphash.h"

#include <lladd/extension.h>
#include <string.h>

int ll_operations__root_index_init(struct ll_root_index *x, struct lladd_db *db)
{
    *x = (struct ll_root_index){.db = db};
    return lladd_mutex_init(&x->mutex, LLADD_RANK_LEAF, "names of roots");
}

void ll_operations__root_index_free(struct ll_root_index *x)
{
    lladd_mem_free(x->db, x->places);
    lladd_mutex_destroy(&x->mutex);
}

uint64_t ll_operations__root_hash(const char *name)
{
    static const struct ll_siphash_key key = {0, 0};
    uint64_t hash = ll_siphash_any(&key, name, strlen(name));
    return hash ? hash : 1;
}

/* The place of the hash, or the unused place where the hash belongs. At least half of the table is
 * unused. */
static struct ll_root_place *place_of(struct ll_root_place *places, size_t cap, uint64_t hash)
{
    size_t i = (size_t)hash & (cap - 1);
    while (places[i].hash && places[i].hash != hash)
        i = (i + 1) & (cap - 1);
    return &places[i];
}

int ll_operations__root_index_get(struct ll_root_index *x, uint64_t hash, lladd_pageno *out)
{
    lladd_mutex_lock(&x->mutex);
    int rc = x->complete ? LLADD_NOT_FOUND : LLADD_BUSY;
    const struct ll_root_place *p = x->cap ? place_of(x->places, x->cap, hash) : NULL;
    if (p && p->hash) {
        *out = lladd_page_of(p->page);
        rc = 0;
    }
    lladd_mutex_unlock(&x->mutex);
    return rc;
}

static int grow(struct ll_root_index *x)
{
    size_t cap = x->cap ? 2 * x->cap : 64;
    struct ll_root_place *fresh = lladd_mem_alloc(x->db, cap * sizeof *fresh);
    if (!fresh)
        return LLADD_NO_MEMORY;
    memset(fresh, 0, cap * sizeof *fresh);
    for (size_t i = 0; i < x->cap; i++)
        if (x->places[i].hash)
            *place_of(fresh, cap, x->places[i].hash) = x->places[i];
    lladd_mem_free(x->db, x->places);
    x->places = fresh;
    x->cap = cap;
    return 0;
}

int ll_operations__root_index_put(struct ll_root_index *x, uint64_t hash, lladd_pageno page)
{
    lladd_mutex_lock(&x->mutex);
    int rc = 2 * (x->n + 1) > x->cap ? grow(x) : 0;
    if (rc) {
        lladd_mem_free(x->db, x->places);
        x->places = NULL;
        x->n = x->cap = 0;
        x->complete = false;
    } else {
        struct ll_root_place *p = place_of(x->places, x->cap, hash);
        x->n += p->hash == 0;
        *p = (struct ll_root_place){hash, page.v};
    }
    lladd_mutex_unlock(&x->mutex);
    return rc;
}

void ll_operations__root_index_complete(struct ll_root_index *x)
{
    lladd_mutex_lock(&x->mutex);
    x->complete = true;
    lladd_mutex_unlock(&x->mutex);
}
