/* SPDX-License-Identifier: BSD-2-Clause */
/* cache_dtable: keeps looked-up rows in memory (Anvil paper, section 5.2).
 *
 * The layer is useful above a base with slow lookups, e.g. a base that adds up deltas or decodes
 * words. The layer stores nothing on disk. It also remembers which keys are absent, but it
 * remembers no errors. Runs are immutable, so entries never become stale. Cursors and accesses by
 * place do not use the cache.
 *
 * A key's hash chooses one of up to PARTS parts. Each part has a mutex, and keeps the rows that
 * were looked up last, up to its share of "cache_size" rows and of "cache_bytes" bytes. A thread
 * holds the mutex while it finds and copies a row, never while it asks the base. */
#include "operations/dtables/class/classes.h"

#include <lladd/extension.h>
#include <lladd/sync.h>

enum { PARTS = 16, ROWS_IN_PART = 16, RANK = LLADD_RANK_EXTENSION + 70 };

struct row {
    struct row *chain, *newer, *older;
    uint64_t hash;
    struct lladd_dtable_key key;
    enum lladd_dtable_state state;
    size_t len, room; /* room: bytes of the whole allocation */
    unsigned char bytes[]; /* bytes of the value, then of the key */
};

/* Every member is protected by the mutex. */
struct part {
    struct lladd_mutex mutex;
    struct row **table, *newest, *oldest;
    size_t slots, n; /* slots: a power of two */
    uint64_t bytes;
};

struct reader {
    struct lladd_dtable base;
    struct part *parts;
    unsigned n;
    uint64_t most_rows, most_bytes; /* limits of one part */
};

/* ---- opened ---------------------------------------------------------------------------------- */

static void close(struct lladd_dtable *base)
{
    struct reader *r = (struct reader *)base;
    for (unsigned i = 0; i < r->n; i++) {
        struct part *p = &r->parts[i];
        for (struct row *row = p->newest, *older; row; row = older) {
            older = row->older;
            lladd_mem_free(base->db, row);
        }
        lladd_mem_free(base->db, p->table);
        lladd_mutex_destroy(&p->mutex);
    }
    lladd_mem_free(base->db, r->parts);
}

static int open_part(const struct reader *r, struct part *p)
{
    *p = (struct part){.slots = 16};
    p->table = lladd_mem_alloc(r->base.db, p->slots * sizeof(struct row *));
    if (!p->table || lladd_mutex_init(&p->mutex, RANK, "row cache")) {
        lladd_mem_free(r->base.db, p->table);
        return LLADD_NO_MEMORY;
    }
    memset(p->table, 0, p->slots * sizeof(struct row *));
    return 0;
}

/* A small cache has one part, so that it keeps exactly the rows that were looked up last. */
static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    uint64_t rows = (uint64_t)lladd_dtable_param_int(base->config, "cache_size");
    unsigned parts = rows < PARTS * ROWS_IN_PART ? 1 : PARTS;
    r->most_rows = rows / parts;
    r->most_bytes = (uint64_t)lladd_dtable_param_int(base->config, "cache_bytes") / parts;
    r->parts = lladd_mem_alloc(base->db, parts * sizeof *r->parts);
    int rc = r->parts ? 0 : LLADD_NO_MEMORY;
    for (; r->n < parts && !rc; r->n += !rc)
        rc = open_part(r, &r->parts[r->n]);
    if (rc) {
        close(base);
        return lladd_error_set(err, rc, "out of memory for a cache_dtable");
    }
    return 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct row *find_row(const struct reader *r, const struct part *p, uint64_t hash,
                            const struct lladd_dtable_key *key)
{
    struct row *row = p->table[(hash >> 8) & (p->slots - 1)];
    while (row &&
           (row->hash != hash || lladd_dtable_compare(&r->base.order, &row->key, key) != 0))
        row = row->chain;
    return row;
}

static void take_out(struct part *p, struct row *row)
{
    if (row->newer)
        row->newer->older = row->older;
    else
        p->newest = row->older;
    if (row->older)
        row->older->newer = row->newer;
    else
        p->oldest = row->newer;
}

static void put_first(struct part *p, struct row *row)
{
    row->newer = NULL;
    row->older = p->newest;
    if (p->newest)
        p->newest->newer = row;
    else
        p->oldest = row;
    p->newest = row;
}

/* Copies the row into the pin and makes it the newest row, if it is cached. */
static bool recall(const struct reader *r, struct part *p, uint64_t hash,
                   const struct lladd_dtable_key *key, struct lladd_dtable_pin *pin,
                   struct lladd_dtable_value *out)
{
    lladd_mutex_lock(&p->mutex);
    struct row *row = find_row(r, p, hash, key);
    unsigned char *copy = row ? lladd_dtable_room(r->base.db, pin, row->len) : NULL;
    if (copy) { /* Without memory for the copy, the caller asks the base. */
        if (p->newest != row) {
            take_out(p, row);
            put_first(p, row);
        }
        lladd_copy(copy, row->bytes, row->len);
        out->state = row->state;
        out->bytes = lladd_span_of(copy, row->len);
    }
    lladd_mutex_unlock(&p->mutex);
    return copy != NULL;
}

/* Removes a row from the list and its chain. */
static void forget(struct part *p, struct row *row)
{
    struct row **at = &p->table[(row->hash >> 8) & (p->slots - 1)];
    while (*at != row)
        at = &(*at)->chain;
    *at = row->chain;
    take_out(p, row);
    p->n--;
    p->bytes -= row->room;
}

/* Returns memory for a row, or NULL. Removes the oldest row and returns its memory, if the part is
 * full and this memory is large enough. */
static struct row *room_for(const struct reader *r, struct part *p, size_t bytes)
{
    struct row *old = p->n == r->most_rows ? p->oldest : NULL;
    if (old && old->room - sizeof *old >= bytes) {
        forget(p, old);
        return old;
    }
    size_t room = sizeof *old + ((bytes + 15) & ~(size_t)15);
    struct row *row = room <= r->most_bytes ? lladd_mem_alloc(r->base.db, room) : NULL;
    if (row)
        row->room = room;
    return row;
}

/* Doubles the slots. If there is no memory for this, the chains grow longer. */
static void widen(const struct reader *r, struct part *p)
{
    size_t slots = p->slots * 2;
    struct row **table = lladd_mem_alloc(r->base.db, slots * sizeof *table);
    if (!table)
        return;
    memset(table, 0, slots * sizeof *table);
    for (struct row *row = p->oldest; row; row = row->newer) {
        struct row **slot = &table[(row->hash >> 8) & (slots - 1)];
        row->chain = *slot;
        *slot = row;
    }
    lladd_mem_free(r->base.db, p->table);
    p->table = table;
    p->slots = slots;
}

/* Caches a row, and evicts the least recently used rows above the limits. Does nothing if there is
 * no memory for the row. */
static void keep(const struct reader *r, struct part *p, uint64_t hash,
                 const struct lladd_dtable_key *key, const struct lladd_dtable_value *v)
{
    size_t len = v->state == LLADD_DTABLE_FOUND ? v->bytes.len : 0;
    size_t more = r->base.order.type >= LLADD_DTABLE_STRING ? key->bytes.len : 0;
    struct row *gone = NULL, *row = NULL;
    lladd_mutex_lock(&p->mutex);
    if (!find_row(r, p, hash, key)) /* another thread may have cached the row meanwhile */
        row = room_for(r, p, len + more);
    if (row) {
        if (p->n >= p->slots && p->slots < SIZE_MAX / 64)
            widen(r, p);
        struct row **slot = &p->table[(hash >> 8) & (p->slots - 1)];
        *row = (struct row){.chain = *slot,
                            .hash = hash,
                            .key = *key,
                            .state = v->state,
                            .len = len,
                            .room = row->room};
        lladd_copy(row->bytes, v->bytes.data, len);
        lladd_copy(row->bytes + len, key->bytes.data, more);
        row->key.bytes = lladd_span_of(row->bytes + len, more);
        *slot = row;
        put_first(p, row);
        p->n++;
        p->bytes += row->room;
    }
    while (p->n > r->most_rows || p->bytes > r->most_bytes) {
        struct row *old = p->oldest;
        forget(p, old);
        old->chain = gone;
        gone = old;
    }
    lladd_mutex_unlock(&p->mutex);
    for (struct row *next; gone; gone = next) {
        next = gone->chain;
        lladd_mem_free(r->base.db, gone);
    }
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    uint64_t hash = lladd_dtable_hash(&base->order, key);
    struct part *p = &r->parts[hash % r->n];
    if (recall(r, p, hash, key, pin, out))
        return 0;
    int rc = lladd_dtable_ask(base->base, key, pin, out, err);
    if (!rc)
        keep(r, p, hash, key, out);
    return rc;
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table that lookups read"},
    {"cache_size", LLADD_DTABLE_PARAM_INT, false, 1024, 1, INT64_C(1) << 30, "rows that are kept"},
    {"cache_bytes", LLADD_DTABLE_PARAM_INT, false, 1 << 20, 0, INT64_C(1) << 40,
     "bytes of the rows that are kept"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_cache = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "cache_dtable",
    .version = 1,
    .about = "keeps rows that were looked up",
    .params = params,
    .reader_size = sizeof(struct reader),
    .open = open,
    .close = close,
    .lookup = lookup,
};
