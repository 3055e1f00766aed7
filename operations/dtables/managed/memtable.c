/* SPDX-License-Identifier: BSD-2-Clause */
/* Versions of rows in memory. Deleted ranges have versions too: see memrange.c.
 *
 *   node     u32 newest version, u32 next node, key: 4 or 8 bytes of a number, or u32 length and
 *            bytes; memindex.c finds nodes
 *   version  u32 segment, u32 next older version, u32 length of the value or LL_MEM_TOMBSTONE,
 *            value. If the table has a comparator, different keys may compare equal, and the key
 *            that the version was put with follows: u16 length (SAME: the node's key), key
 *   segment  u32 part, u32 1 if rolled back, u32 the part's previous segment, u32 0, u64 number of
 *            the next savepoint when the segment was begun
 *
 * An offset counts units of four bytes in its lower 24 bits; its upper eight bits are the number of
 * the chunk. Chunks double in size, from 8 KiB to 64 MiB; a row that needs more gets a chunk of its
 * own size.
 *
 *   MEM-1  A node or version is complete before a link to it is stored. Nothing moves.
 *   MEM-2  A version does not count if it is rolled back or aborted, or belongs to a range deletion
 *          that is about to be refused (memrange.c). Of the other versions in a chain, the
 *          committed ones are in descending order of their commits. The versions before these in
 *          the chain, if any, are of one transaction in progress.
 *   MEM-3  `logged` stores the commit in the part. Thus all versions of the part get their commit
 *          in one step. No snapshot includes this commit before the core makes it visible.
 *   MEM-4  A row is shown with the key that the shown version was put with. The node's key may come
 *          from a transaction that aborted. */
#include "operations/dtables/managed/memtable.h"

enum { UNIT = LL_MEM_UNIT, FIRST_UNITS = 2048, DOUBLINGS = 13 };
enum { KEY_LENGTH = 2, SAME = 0xffff }; /* SAME is greater than any key length */

static inline void *at(const struct ll_memtable *m, uint32_t offset)
{
    return ll_managed__mem_at(m, offset);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static int new_chunk(struct ll_memtable *m, uint64_t units)
{
    unsigned doublings = m->n_chunks < DOUBLINGS ? m->n_chunks : DOUBLINGS;
    uint64_t size = (uint64_t)FIRST_UNITS << doublings;
    size = size < units ? units : size;
    if (m->n_chunks == LL_MEM_CHUNKS || size > SIZE_MAX / UNIT || size > UINT32_MAX)
        return LLADD_NO_MEMORY;
    unsigned char *chunk = lladd_mem_alloc(m->db, (size_t)size * UNIT);
    if (!chunk)
        return LLADD_NO_MEMORY;
    m->chunks[m->n_chunks++] = chunk;
    m->fill = 0;
    m->room = (uint32_t)size;
    return 0;
}

uint32_t ll_managed__mem_take(struct ll_memtable *m, size_t bytes, bool wide)
{
    uint64_t units = ((uint64_t)bytes + UNIT - 1) / UNIT;
    uint32_t from = m->fill + (wide ? m->fill & 1 : 0);
    if (units > (uint64_t)m->room - (from < m->room ? from : m->room)) {
        if (new_chunk(m, units))
            return 0;
        from = 0;
    }
    m->fill = from + (uint32_t)units;
    lladd_atomic_store64_relaxed(&m->bytes, m->bytes + units * UNIT);
    return (m->n_chunks - 1) << LL_MEM_CHUNK_BITS | from;
}

void ll_managed__mem_drop(struct ll_memtable *m)
{
    if (!m || lladd_atomic_sub64(&m->refs, 1) != 1)
        return;
    for (uint32_t i = 0; i < m->n_chunks; i++)
        lladd_mem_free(m->db, m->chunks[i]);
    ll_managed__filters_free(m);
    lladd_mem_free(m->db, m);
}

int ll_managed__mem_new(struct lladd_db *db, const struct lladd_dtable_order *order,
                        struct ll_memtable **out)
{
    struct ll_memtable *m = lladd_mem_alloc(db, sizeof *m);
    if (!m)
        return LLADD_NO_MEMORY;
    memset(m, 0, sizeof *m);
    m->db = db;
    m->order = *order;
    m->refs = 1;
    m->key_range = (struct lladd_dtable_key_range)LLADD_DTABLE_KEY_RANGE_EMPTY;
    uint32_t none = ll_managed__mem_take(m, UNIT, false); /* not used, because offset 0 means
                                                           * "none" */
    (void)none;
    if (m->n_chunks == 0 || ll_managed__list_begin(m, &m->rows)) {
        ll_managed__mem_drop(m);
        return LLADD_NO_MEMORY;
    }
    *out = m;
    return 0;
}

/* ---- keys ------------------------------------------------------------------------------------ */

struct lladd_dtable_key ll_managed__mem_key(const struct ll_memtable *m, uint32_t offset)
{
    const struct ll_mem_node *n = at(m, offset);
    struct lladd_dtable_key k = {m->order.type, 0, {NULL, 0}};
    uint32_t small;
    if (m->order.type >= LLADD_DTABLE_STRING) {
        k.bytes = ll_managed__mem_bytes(n);
    } else if (m->order.type == LLADD_DTABLE_U32) {
        memcpy(&small, n->key, sizeof small);
        k.number = small;
    } else {
        memcpy(&k.number, n->key, sizeof k.number);
    }
    return k;
}

/* Returns how many bytes a version takes for the key that it is put with. *same: the key is the
 * node's. */
static size_t own_key(const struct ll_memtable *m, const struct ll_mem_node *n,
                      const struct lladd_dtable_key *key, bool *same)
{
    *same = true;
    if (!m->order.comparator)
        return 0;
    struct lladd_span first = ll_managed__mem_bytes(n);
    *same = first.len == key->bytes.len &&
            (first.len == 0 || memcmp(first.data, key->bytes.data, first.len) == 0);
    return *same ? KEY_LENGTH : KEY_LENGTH + key->bytes.len;
}

static size_t value_len(const struct ll_mem_version *v)
{
    return v->len == LL_MEM_TOMBSTONE ? 0 : v->len;
}

static struct lladd_dtable_key key_of(const struct ll_memtable *m, uint32_t node,
                                      const struct ll_mem_version *v)
{
    struct lladd_dtable_key k = ll_managed__mem_key(m, node);
    const unsigned char *own = v->bytes + value_len(v);
    if (m->order.comparator && lladd_get16(own) != SAME)
        k.bytes = lladd_span_of(own + KEY_LENGTH, lladd_get16(own));
    return k;
}

uint32_t ll_managed__mem_not_before(const struct ll_memtable *m, const struct lladd_dtable_key *key)
{
    return ll_managed__list_not_before(m, &m->rows, key);
}

uint32_t ll_managed__mem_find(const struct ll_memtable *m, const struct lladd_dtable_key *key)
{
    if (!ll_managed__mem_may_have(m, key) || !ll_managed__filter_may_have(m, key))
        return 0;
    uint32_t found = ll_managed__list_not_before(m, &m->rows, key);
    return found && ll_managed__mem_compare(m, at(m, found), key) == 0 ? found : 0;
}

uint32_t ll_managed__mem_not_after(const struct ll_memtable *m, const struct lladd_dtable_key *key,
                                   bool here)
{
    return ll_managed__list_not_after(m, &m->rows, key, here);
}

uint32_t ll_managed__mem_next(const struct ll_memtable *m, uint32_t node)
{
    const struct ll_mem_node *n = at(m, node);
    return lladd_atomic_load32(&n->next);
}

void ll_managed__mem_next_soon(const struct ll_memtable *m, uint32_t node)
{
    enum { LINE = 64 };
    const char *next = at(m, ll_managed__mem_next(m, node));
    __builtin_prefetch(next);
    __builtin_prefetch(next + LINE); /* usually the node's version */
}

uint32_t ll_managed__mem_first(const struct ll_memtable *m)
{
    return ll_managed__mem_next(m, m->rows.first);
}

uint32_t ll_managed__mem_new_node(struct ll_memtable *m, const struct ll_mem_list *l,
                                  const struct lladd_dtable_key *key)
{
    bool bytes = m->order.type >= LLADD_DTABLE_STRING;
    size_t len = bytes                               ? sizeof(uint32_t) + key->bytes.len
                 : m->order.type == LLADD_DTABLE_U32 ? sizeof(uint32_t)
                                                     : sizeof(uint64_t);
    uint32_t offset = ll_managed__mem_take(m, sizeof(struct ll_mem_node) + len, false);
    if (!offset)
        return 0;
    struct ll_mem_node *node = at(m, offset);
    *node = (struct ll_mem_node){.newest = 0};
    if (bytes) {
        uint32_t n = (uint32_t)key->bytes.len;
        memcpy(node->key, &n, sizeof n);
        lladd_copy(node->key + sizeof n, key->bytes.data, n);
    } else if (len == sizeof(uint32_t)) {
        uint32_t small = (uint32_t)key->number;
        memcpy(node->key, &small, sizeof small);
    } else {
        memcpy(node->key, &key->number, sizeof key->number);
    }
    if (l == &m->rows) { /* done before the node can be found */
        m->keys++;
        lladd_dtable_key_range_widen(&m->key_range, lladd_dtable_prefix(&m->order, key));
        ll_managed__filter_add(m, key);
    }
    return offset;
}

uint32_t ll_managed__mem_node(struct ll_mem_part *p, const struct lladd_dtable_key *key)
{
    uint64_t before = p->m->bytes;
    uint32_t node = ll_managed__list_node(p->m, &p->m->rows, key, false);
    p->bytes += p->m->bytes - before;
    return node;
}

/* ---- versions -------------------------------------------------------------------------------- */

struct ll_mem_part *ll_managed__mem_part(struct ll_memtable *m)
{
    return ll_managed__mem_part_of_size(m, sizeof(struct ll_mem_part));
}

struct ll_mem_part *ll_managed__mem_part_of_size(struct ll_memtable *m, size_t size)
{
    uint32_t offset = ll_managed__mem_take(m, size, true);
    if (!offset)
        return NULL;
    struct ll_mem_part *p = at(m, offset);
    memset(p, 0, size);
    p->m = m;
    p->bytes = size;
    p->self = offset;
    lladd_atomic_add64(&m->writers, 1);
    return p;
}

uint32_t ll_managed__mem_segment(struct ll_mem_part *p, lladd_savepoint_id next)
{
    uint32_t offset = ll_managed__mem_take(p->m, sizeof(struct ll_mem_segment), true);
    if (!offset)
        return 0;
    struct ll_mem_segment *s = at(p->m, offset);
    *s = (struct ll_mem_segment){.part = p->self, .before = p->segment, .next = next};
    p->segment = offset;
    p->bytes += sizeof *s;
    return offset;
}

bool ll_managed__mem_segment_is(const struct ll_mem_part *p, lladd_savepoint_id next)
{
    if (!p->segment)
        return false;
    const struct ll_mem_segment *s = at(p->m, p->segment);
    return s->next == next && !lladd_atomic_load32(&s->dead);
}

void ll_managed__mem_undo(struct ll_mem_part *p, lladd_savepoint_id to)
{
    for (uint32_t i = p->segment; i;) {
        struct ll_mem_segment *s = at(p->m, i);
        if (s->next <= to)
            break;
        lladd_atomic_store32(&s->dead, 1);
        i = s->before;
    }
}

int ll_managed__mem_push(struct ll_mem_part *p, uint32_t node, const struct lladd_dtable_key *key,
                         const struct lladd_dtable_value *v, uint32_t *before)
{
    struct ll_memtable *m = p->m;
    struct ll_mem_node *n = at(m, node);
    bool found = v->state == LLADD_DTABLE_FOUND;
    size_t len = found ? v->bytes.len : 0;
    bool same;
    size_t more = own_key(m, n, key, &same);
    uint64_t bytes = m->bytes;
    uint32_t offset = ll_managed__mem_take(m, LL_MEM_VERSION + len + more, false);
    if (!offset)
        return LLADD_NO_MEMORY;
    struct ll_mem_version *to = at(m, offset);
    to->segment = p->segment;
    to->len = found ? (uint32_t)len : LL_MEM_TOMBSTONE;
    to->older = *before = n->newest;
    lladd_copy(to->bytes, v->bytes.data, len);
    if (more)
        lladd_put16(to->bytes + len, same ? SAME : (uint16_t)key->bytes.len);
    if (!same)
        lladd_copy(to->bytes + len + KEY_LENGTH, key->bytes.data, key->bytes.len);
    /* The segment's previous version leaves the chain; only ll_managed__mem_unpush needs it. */
    if (n->newest && ((struct ll_mem_version *)at(m, n->newest))->segment == p->segment)
        to->older = ((struct ll_mem_version *)at(m, n->newest))->older;
    lladd_atomic_store32(&n->newest, offset);
    p->bytes += m->bytes - bytes;
    p->rows++;
    return 0;
}

void ll_managed__mem_unpush(struct ll_mem_part *p, uint32_t node, uint32_t before)
{
    struct ll_mem_node *n = at(p->m, node);
    p->rows--; /* the memory stays in use */
    lladd_atomic_store32(&n->newest, before);
}

static inline const struct ll_mem_part *part_of(const struct ll_memtable *m,
                                                const struct ll_mem_version *v, bool *counts)
{
    const struct ll_mem_segment *s = at(m, v->segment);
    *counts = !lladd_atomic_load32(&s->dead);
    return at(m, s->part);
}

const struct ll_mem_part *ll_managed__mem_part_of(const struct ll_memtable *m,
                                                  const struct ll_mem_version *v, bool *counts)
{
    return part_of(m, v, counts);
}

/* Returns the newest version committed in (after, upto], or NULL. *offset: its offset; *when: its
 * commit. */
static inline const struct ll_mem_version *committed(const struct ll_memtable *m, uint32_t node,
                                                     uint64_t after, uint64_t upto,
                                                     uint32_t *offset, uint64_t *when)
{
    const struct ll_mem_node *n = at(m, node);
    const struct ll_mem_version *v;
    for (uint32_t i = lladd_atomic_load32(&n->newest); i; i = v->older) {
        bool counts;
        v = at(m, i);
        uint64_t commit = lladd_atomic_load64(&part_of(m, v, &counts)->commit);
        if (!counts || commit == 0 || commit > upto)
            continue;
        *when = commit;
        *offset = i;
        return commit > after ? v : NULL;
    }
    return NULL;
}

uint32_t ll_managed__mem_committed(const struct ll_memtable *m, uint32_t node, uint64_t after,
                                   uint64_t upto, uint64_t *commit)
{
    uint32_t offset;
    return committed(m, node, after, upto, &offset, commit) ? offset : 0;
}

uint32_t ll_managed__mem_mine(const struct ll_mem_part *p, uint32_t node)
{
    const struct ll_mem_node *n = at(p->m, node);
    const struct ll_mem_version *v;
    if (lladd_atomic_load64(&p->commit) == LL_MANAGED_TAKEN_BACK)
        return 0;
    for (uint32_t i = lladd_atomic_load32(&n->newest); i; i = v->older) {
        bool counts;
        v = at(p->m, i);
        if (part_of(p->m, v, &counts) == p && counts) /* skips newer versions of other parts */
            return i;
    }
    return 0;
}

static void show(const struct ll_mem_version *v, struct lladd_dtable_value *out)
{
    *out = v->len == LL_MEM_TOMBSTONE ? lladd_dtable_tombstone()
                                      : lladd_dtable_value_of(v->bytes, v->len);
}

static inline bool has_ranges(const struct ll_memtable *m)
{
    return lladd_atomic_load32(&m->has_ranges) != 0;
}

bool ll_managed__mem_seen(const struct ll_memtable *m, uint32_t node, uint64_t after, uint64_t upto,
                          struct lladd_dtable_key *key, struct lladd_dtable_value *out)
{
    uint64_t when = 0, since = 0;
    uint32_t row = 0;
    const struct ll_mem_version *v = committed(m, node, after, upto, &row, &when);
    if (v && has_ranges(m)) {
        struct lladd_dtable_key at_key = ll_managed__mem_key(m, node);
        uint32_t gone = ll_managed__mem_gone(m, &at_key, after, upto, &since);
        if (gone && (since > when || (since == when && gone > row)))
            return false;
    }
    if (v)
        show(v, out);
    if (v && key)
        *key = key_of(m, node, v);
    return v != NULL;
}

bool ll_managed__mem_ask(const struct ll_memtable *m, const struct lladd_dtable_key *key,
                         uint64_t after, uint64_t upto, struct lladd_dtable_value *out)
{
    uint64_t since;
    uint32_t node = ll_managed__mem_find(m, key);
    if (node && ll_managed__mem_seen(m, node, after, upto, NULL, out))
        return true;
    if (!has_ranges(m) || !ll_managed__mem_gone(m, key, after, upto, &since))
        return false;
    *out = lladd_dtable_tombstone();
    return true;
}

bool ll_managed__mem_own(const struct ll_mem_part *p, uint32_t node, struct lladd_dtable_key *key,
                         struct lladd_dtable_value *out)
{
    uint32_t row = ll_managed__mem_mine(p, node);
    if (row && p->ranges) {
        struct lladd_dtable_key at_key = ll_managed__mem_key(p->m, node);
        if (ll_managed__mem_gone_mine(p, &at_key) > row)
            return false;
    }
    if (row)
        show(at(p->m, row), out);
    if (row && key)
        *key = key_of(p->m, node, at(p->m, row));
    return row != 0;
}

bool ll_managed__mem_ask_own(const struct ll_mem_part *p, const struct lladd_dtable_key *key,
                             struct lladd_dtable_value *out)
{
    uint32_t node = ll_managed__mem_find(p->m, key);
    if (node && ll_managed__mem_own(p, node, NULL, out))
        return true;
    if (!ll_managed__mem_gone_mine(p, key))
        return false;
    *out = lladd_dtable_tombstone();
    return true;
}

int ll_managed__mem_writer(const struct ll_memtable *m, uint32_t node, const struct ll_mem_part *p,
                           uint64_t *commit)
{
    const struct ll_mem_node *n = at(m, node);
    const struct ll_mem_version *v;
    int found = LL_MEM_NO_WRITER;
    for (uint32_t i = lladd_atomic_load32(&n->newest); i; i = v->older) {
        bool counts;
        v = at(m, i);
        const struct ll_mem_part *part = part_of(m, v, &counts);
        uint64_t when = lladd_atomic_load64(&part->commit);
        if (!counts || when == LL_MANAGED_TAKEN_BACK)
            continue;
        if (part == p)
            return LL_MEM_MINE;
        if (when) {
            *commit = when;
            return found == LL_MEM_OTHER ? found : LL_MEM_COMMITTED;
        }
        found = LL_MEM_OTHER;
    }
    return found;
}

void ll_managed__mem_end(struct lladd_managed *t, struct ll_mem_part *p, uint64_t commit)
{
    struct ll_memtable *m = p->m;
    lladd_atomic_store64(&p->commit, commit);
    lladd_atomic_count64(&t->pending_bytes, p->bytes); /* counted even if the transaction aborted */
    if (commit != LL_MANAGED_TAKEN_BACK && (p->rows || t->unlogged)) {
        lladd_atomic_count64(&t->pending_rows, p->rows);
        lladd_atomic_max64(&t->newest, commit);
        lladd_atomic_max64(&m->newest, commit);
    }
    /* The last access to the memtable in this function: a memtable without writers may be digested
     * and freed. */
    lladd_atomic_sub64(&m->writers, 1);
}
