/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash map from numbers to nodes, which are embedded in the caller's structs. The numbers are
 * LSNs, so they are mixed before they select a chain. */
#include "operations/journal/table.h"

static size_t head_of(const struct ll_journal_map *m, uint64_t key)
{
    key ^= key >> 32;
    key *= UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(key >> 32) & (m->n_heads - 1);
}

struct ll_journal_node *ll_operations__journal_map_find(const struct ll_journal_map *m,
                                                        uint64_t key)
{
    struct ll_journal_node *n = m->n_heads ? m->heads[head_of(m, key)] : NULL;
    while (n && n->key != key)
        n = n->next;
    return n;
}

int ll_operations__journal_map_room(struct lladd_db *db, struct ll_journal_map *m)
{
    if (m->n < m->n_heads)
        return 0;
    struct ll_journal_map to = {.n_heads = m->n_heads ? m->n_heads * 2 : 16};
    to.heads = lladd_mem_alloc(db, to.n_heads * sizeof(struct ll_journal_node *));
    if (!to.heads)
        return LLADD_NO_MEMORY;
    memset(to.heads, 0, to.n_heads * sizeof(struct ll_journal_node *));
    for (size_t i = 0; i < m->n_heads; i++)
        for (struct ll_journal_node *n = m->heads[i], *next; n; n = next) {
            next = n->next;
            ll_operations__journal_map_add(&to, n);
        }
    lladd_mem_free(db, m->heads);
    *m = to;
    return 0;
}

void ll_operations__journal_map_add(struct ll_journal_map *m, struct ll_journal_node *n)
{
    struct ll_journal_node **head = &m->heads[head_of(m, n->key)];
    n->next = *head;
    *head = n;
    m->n++;
}

void ll_operations__journal_map_drop(struct ll_journal_map *m, struct ll_journal_node *n)
{
    struct ll_journal_node **at = &m->heads[head_of(m, n->key)];
    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
    m->n--;
}

struct ll_journal_node *ll_operations__journal_map_next(const struct ll_journal_map *m,
                                                        const struct ll_journal_node *n)
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

void ll_operations__journal_map_free(struct lladd_db *db, struct ll_journal_map *m)
{
    lladd_mem_free(db, m->heads);
    *m = (struct ll_journal_map){NULL, 0, 0};
}
