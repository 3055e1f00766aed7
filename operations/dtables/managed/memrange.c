/* SPDX-License-Identifier: BSD-2-Clause */
/* Versions of deleted ranges (range tombstones) in memory.
 *
 * A second list has the *endpoints* of deleted ranges. Each endpoint has a chain of versions, like
 * a row. A version of an endpoint deletes the keys from this endpoint up to the next one. The
 * list's first node stands for the keys before all endpoints. To delete a range, the transaction
 * adds endpoints at the range's two ends, unless they exist. A new endpoint divides an interval, so
 * it gets the versions of the endpoint before it. Then the endpoint at the beginning of the range
 * gets a version, and so does each endpoint inside the range.
 *
 * A deletion adds at most two nodes, and a version for each endpoint inside the range. The cost
 * depends on how many deleted ranges in memory overlap the range, not on the number of rows.
 * Endpoints stay until the memtable is freed, because a reader may see that only one side of an
 * endpoint is deleted. Ranges that overlap many others therefore take more and more memory. This
 * memory counts towards the digest trigger, and a digest merges ranges. A lookup searches for one
 * endpoint, and sees the newest version of its chain first.
 *
 *   RNG-1  Each deletion of a range begins a new segment. If the deletion is refused, the
 *          transaction marks this segment, which has no other versions yet, as rolled back.
 *   RNG-2  Offsets grow: of two versions of one transaction, the later one has the larger offset.
 *   RNG-3  A key that a transaction has written or deleted stays claimed by this transaction.
 *          Another transaction may delete a range with this key, and thus add a newer version. The
 *          key stays claimed even so, and the deletion will be refused (ll_managed__mem_writer). */
#include "operations/dtables/managed/memtable.h"

static struct ll_mem_node *node_at(const struct ll_memtable *m, uint32_t offset)
{
    return ll_managed__mem_at(m, offset);
}

/* Returns the last endpoint at or before the key, or the first node. The list of endpoints must
 * exist. */
static uint32_t endpoint_of(const struct ll_memtable *m, const struct lladd_dtable_key *key)
{
    uint32_t found = key ? ll_managed__list_not_after(m, &m->endpoints, key, true) : 0;
    return found ? found : m->endpoints.first;
}

/* ---- deleting -------------------------------------------------------------------------------- */

int ll_managed__mem_delete(struct ll_mem_part *p, const struct lladd_dtable_key *from,
                           const struct lladd_dtable_key *to, lladd_savepoint_id next)
{
    struct ll_memtable *m = p->m;
    uint32_t begin = 0, end = 0;
    if (!m->endpoints.first && ll_managed__list_begin(m, &m->endpoints))
        return LLADD_NO_MEMORY;
    lladd_atomic_store32(&m->has_ranges, 1);
    if (!ll_managed__mem_segment(p, next))
        return LLADD_NO_MEMORY;
    uint64_t before = m->bytes;
    begin = from ? ll_managed__list_node(m, &m->endpoints, from, true) : m->endpoints.first;
    if (begin && to)
        end = ll_managed__list_node(m, &m->endpoints, to, true);
    bool all = begin && (end || !to);
    for (uint32_t i = begin; all && i != end; i = ll_managed__mem_next(m, i)) {
        uint32_t offset = ll_managed__mem_take(m, LL_MEM_VERSION, false);
        all = offset != 0;
        if (!all)
            break;
        struct ll_mem_version *v = ll_managed__mem_at(m, offset);
        *v = (struct ll_mem_version){p->segment, node_at(m, i)->newest, LL_MEM_TOMBSTONE};
        lladd_atomic_store32(&node_at(m, i)->newest, offset);
    }
    p->bytes += m->bytes - before;
    p->rows++;
    p->ranges++;
    if (!all)
        ll_managed__mem_undelete(p);
    return all ? 0 : LLADD_NO_MEMORY;
}

void ll_managed__mem_undelete(struct ll_mem_part *p)
{
    struct ll_mem_segment *s = ll_managed__mem_at(p->m, p->segment);
    lladd_atomic_store32(&s->dead, 1);
    p->rows--; /* the memory stays in use */
}

/* ---- conflicts ------------------------------------------------------------------------------- */

/* Looks at the newest version of the node that another transaction has written. Is this version a
 * conflict? `older_than_mine` is for endpoints in the part's own memtable. With it, only versions
 * older than the part's own version count: a transaction that writes later sees this part's range,
 * and gives up. */
static int foreign(const struct ll_memtable *m, uint32_t node, const struct ll_mem_part *p,
                   bool older_than_mine, uint64_t snapshot)
{
    const struct ll_mem_version *v;
    bool mine = !older_than_mine;
    for (uint32_t i = lladd_atomic_load32(&node_at(m, node)->newest); i; i = v->older) {
        bool counts;
        v = ll_managed__mem_at(m, i);
        const struct ll_mem_part *part = ll_managed__mem_part_of(m, v, &counts);
        uint64_t commit = lladd_atomic_load64(&part->commit);
        mine = mine || part == p;
        if (!counts || part == p || !mine || commit == LL_MANAGED_TAKEN_BACK)
            continue;
        return !commit ? LL_MEM_OTHER : commit > snapshot ? LL_MEM_COMMITTED : LL_MEM_NO_WRITER;
    }
    return LL_MEM_NO_WRITER;
}

static bool is_before(const struct ll_memtable *m, uint32_t node, const struct lladd_dtable_key *to)
{
    struct lladd_dtable_key key = ll_managed__mem_key(m, node);
    return !to || lladd_dtable_compare(&m->order, &key, to) < 0;
}

int ll_managed__mem_others(const struct ll_memtable *m, const struct ll_mem_part *p,
                           const struct lladd_dtable_key *from, const struct lladd_dtable_key *to,
                           uint64_t snapshot)
{
    bool own = p->m == m;
    /* The usual case: no other transaction writes to the memtable, and no commit in it is newer
     * than the snapshot. The loads must be in this order, because a transaction that ends sets
     * `newest` before it decrements `writers`. */
    if (lladd_atomic_load64(&m->writers) == own && lladd_atomic_load64(&m->newest) <= snapshot)
        return LL_MEM_NO_WRITER;
    int found = LL_MEM_NO_WRITER;
    uint32_t i = from ? ll_managed__mem_not_before(m, from) : ll_managed__mem_first(m);
    for (; i && found == LL_MEM_NO_WRITER && is_before(m, i, to); i = ll_managed__mem_next(m, i))
        found = foreign(m, i, p, false, snapshot);
    if (found != LL_MEM_NO_WRITER || !lladd_atomic_load32(&m->has_ranges))
        return found;
    i = endpoint_of(m, from);
    do {
        found = foreign(m, i, p, own, snapshot);
        i = ll_managed__mem_next(m, i);
    } while (i && found == LL_MEM_NO_WRITER && is_before(m, i, to));
    return found;
}

int ll_managed__mem_range_writer(const struct ll_memtable *m, const struct lladd_dtable_key *key,
                                 const struct ll_mem_part *p, uint64_t *commit)
{
    return lladd_atomic_load32(&m->has_ranges)
               ? ll_managed__mem_writer(m, endpoint_of(m, key), p, commit)
               : LL_MEM_NO_WRITER;
}

/* ---- lookups --------------------------------------------------------------------------------- */

uint32_t ll_managed__mem_gone(const struct ll_memtable *m, const struct lladd_dtable_key *key,
                              uint64_t after, uint64_t upto, uint64_t *commit)
{
    return ll_managed__mem_committed(m, endpoint_of(m, key), after, upto, commit);
}

uint32_t ll_managed__mem_gone_mine(const struct ll_mem_part *p, const struct lladd_dtable_key *key)
{
    return p->ranges ? ll_managed__mem_mine(p, endpoint_of(p->m, key)) : 0;
}

static bool is_after(const struct ll_memtable *m, uint32_t node, const struct lladd_dtable_key *key)
{
    struct lladd_dtable_key own = ll_managed__mem_key(m, node);
    return lladd_dtable_compare(&m->order, &own, key) > 0;
}

void ll_managed__mem_interval(const struct ll_memtable *m, const struct lladd_dtable_key *key,
                              uint64_t after, uint64_t upto, const struct ll_mem_part *own,
                              struct lladd_dtable_interval *out)
{
    uint64_t commit;
    uint32_t i = endpoint_of(m, key), next = ll_managed__mem_next(m, i);
    /* Endpoints may have been added since the search. Moves on to the last one at or before the
     * key. */
    while (next && key && !is_after(m, next, key)) {
        i = next;
        next = ll_managed__mem_next(m, i);
    }
    *out = (struct lladd_dtable_interval){.has_from = i != m->endpoints.first, .has_to = next != 0};
    out->deleted = (own ? ll_managed__mem_mine(own, i)
                        : ll_managed__mem_committed(m, i, after, upto, &commit)) != 0;
    if (out->has_from)
        out->from = ll_managed__mem_key(m, i);
    if (out->has_to)
        out->to = ll_managed__mem_key(m, next);
}
