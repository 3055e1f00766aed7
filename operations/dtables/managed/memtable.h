/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_MANAGED_MEMTABLE_H
#define LL_OPERATIONS_DTABLE_MANAGED_MEMTABLE_H
/* What a memtable consists of. memtable.c explains it; memrange.c explains ranges. */
#include "operations/dtables/managed/managed.h"

struct ll_mem_node {
    uint32_t newest, next; /* atomic */
    unsigned char key[];
};
struct ll_mem_version {
    uint32_t segment, older, len;
    unsigned char bytes[];
};
struct ll_mem_segment {
    uint32_t part, dead, before, zero; /* dead (rolled back): atomic */
    lladd_savepoint_id next;
};
enum { LL_MEM_VERSION = 12 }; /* bytes of a version without its value */
#define LL_MEM_TOMBSTONE (UINT32_C(1) << 31)

enum { LL_MEM_UNIT = 4, LL_MEM_CHUNK_BITS = 24 };
static inline void *ll_managed__mem_at(const struct ll_memtable *m, uint32_t offset)
{
    uint32_t units = offset & ((UINT32_C(1) << LL_MEM_CHUNK_BITS) - 1);
    return m->chunks[offset >> LL_MEM_CHUNK_BITS] + (size_t)units * LL_MEM_UNIT;
}
/* Returns the key of a node, for keys that are bytes. */
static inline struct lladd_span ll_managed__mem_bytes(const struct ll_mem_node *n)
{
    uint32_t len;
    memcpy(&len, n->key, sizeof len);
    return lladd_span_of(n->key + sizeof len, len);
}
/* Allocates from the chunks. `wide`: aligned to eight bytes. 0: no memory. */
uint32_t ll_managed__mem_take(struct ll_memtable *, size_t bytes, bool wide);
/* Makes a node for the list, complete except for its link. 0: no memory. */
uint32_t ll_managed__mem_new_node(struct ll_memtable *, const struct ll_mem_list *,
                                  const struct lladd_dtable_key *);

/* ---- memindex.c ------------------------------------------------------------------------------ */

int ll_managed__mem_compare(const struct ll_memtable *, const struct ll_mem_node *,
                            const struct lladd_dtable_key *);
int ll_managed__list_begin(struct ll_memtable *, struct ll_mem_list *);
/* Returns the node of a key, and creates it if necessary. With `inherits`, a new node gets the
 * versions of the node before it. 0: no memory. */
uint32_t ll_managed__list_node(struct ll_memtable *, struct ll_mem_list *,
                               const struct lladd_dtable_key *, bool inherits);
uint32_t ll_managed__list_not_before(const struct ll_memtable *, const struct ll_mem_list *,
                                     const struct lladd_dtable_key *);
uint32_t ll_managed__list_not_after(const struct ll_memtable *, const struct ll_mem_list *,
                                     const struct lladd_dtable_key *, bool at);

/* ---- memtable.c ------------------------------------------------------------------------------ */

/* ll_managed__mem_committed returns the newest version of a node that was committed in
 * (after, upto], and its commit. ll_managed__mem_mine returns the part's own newest version of a
 * node. 0: none. */
uint32_t ll_managed__mem_committed(const struct ll_memtable *, uint32_t node, uint64_t after,
                                   uint64_t upto, uint64_t *commit);
uint32_t ll_managed__mem_mine(const struct ll_mem_part *, uint32_t node);
/* Returns the part of a version. *counts: the version's segment is not rolled back. */
const struct ll_mem_part *ll_managed__mem_part_of(const struct ll_memtable *,
                                                  const struct ll_mem_version *, bool *counts);

/* ---- memrange.c ------------------------------------------------------------------------------ */

/* Like ll_managed__mem_committed and ll_managed__mem_mine, for the endpoint that decides whether
 * the key is deleted. */
uint32_t ll_managed__mem_gone(const struct ll_memtable *, const struct lladd_dtable_key *,
                              uint64_t after, uint64_t upto, uint64_t *commit);
uint32_t ll_managed__mem_gone_mine(const struct ll_mem_part *, const struct lladd_dtable_key *);

#endif
