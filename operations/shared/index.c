/* SPDX-License-Identifier: BSD-2-Clause */
/* See index.h. Keys may be regular (LSNs, page numbers), so they are mixed before they select a
 * chain. */
#include "operations/shared/index.h"

#include <string.h>

static size_t head_of(const struct ll_index *m, uint64_t key)
{
    key ^= key >> 32;
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key >> 32) & (m->n_heads - 1);
}

struct ll_index_node *ll_operations__index_find(const struct ll_index *m, uint64_t key)
{
    struct ll_index_node *n = m->n_heads ? m->heads[head_of(m, key)] : NULL;
    while (n && n->key != key)
        n = n->next;
    return n;
}

int ll_operations__index_room(struct lladd_db *db, struct ll_index *m)
{
    if (m->n < m->n_heads)
        return 0;
    struct ll_index to = {.n_heads = m->n_heads ? m->n_heads * 2 : 16};
    to.heads = lladd_mem_alloc(db, to.n_heads * sizeof(struct ll_index_node *));
    if (!to.heads)
        return m->n_heads ? 0 : LLADD_NO_MEMORY;
    memset(to.heads, 0, to.n_heads * sizeof(struct ll_index_node *));
    for (size_t i = 0; i < m->n_heads; i++)
        for (struct ll_index_node *n = m->heads[i], *next; n; n = next) {
            next = n->next;
            ll_operations__index_add(&to, n);
        }
    lladd_mem_free(db, m->heads);
    *m = to;
    return 0;
}

void ll_operations__index_add(struct ll_index *m, struct ll_index_node *n)
{
    struct ll_index_node **head = &m->heads[head_of(m, n->key)];
    n->next = *head;
    *head = n;
    m->n++;
}

void ll_operations__index_drop(struct ll_index *m, struct ll_index_node *n)
{
    struct ll_index_node **at = &m->heads[head_of(m, n->key)];
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    m->n--;
}

struct ll_index_node *ll_operations__index_next(const struct ll_index *m,
                                                const struct ll_index_node *n)
{
    size_t i = 0;
    if (n && n->next)
        return n->next;
    if (n)
        i = head_of(m, n->key) + 1;
    while (i < m->n_heads && !m->heads[i])
        i++;
    return i < m->n_heads ? m->heads[i] : NULL;
}

void ll_operations__index_free(struct lladd_db *db, struct ll_index *m)
{
    lladd_mem_free(db, m->heads);
    *m = (struct ll_index){NULL, 0, 0};
}
