/* SPDX-License-Identifier: BSD-2-Clause */
/* The open master transactions (REP-1). The events of each one are kept as bytes in memory. When
 * they are more than `buffer_bytes`, they are moved to a blob, and the next ones are kept in memory
 * again. The blob has a named root. So tools find the owner of its pages, and the next open finds
 * the blobs that a crash has left. */
#include "operations/replica/replica.h"

#include <lladd/blob.h>
#include <stdio.h>

enum { CHUNK = 256 << 10 }; /* bytes of a blob that are read at once */

/* ---- lists ----------------------------------------------------------------------------------- */

static void append(struct ll_replica_masters *list, struct ll_replica_master *m)
{
    m->prev = list->last;
    m->next = NULL;
    *(list->last ? &list->last->next : &list->first) = m;
    list->last = m;
    list->n++;
}

static void take_out(struct ll_replica_masters *list, struct ll_replica_master *m)
{
    *(m->prev ? &m->prev->next : &list->first) = m->next;
    *(m->next ? &m->next->prev : &list->last) = m->prev;
    list->n--;
}

struct ll_replica_master *ll_replica__open(struct lladd_replica *r, uint64_t txn, uint64_t begin,
                                           struct lladd_error *err)
{
    struct ll_replica_master *m = NULL;
    if (ll_operations__index_room(r->db, &r->index) == 0)
        m = lladd_mem_alloc(r->db, sizeof *m);
    if (!m) {
        (void)ll_replica__no_memory(err);
        return NULL;
    }
    *m = (struct ll_replica_master){.node.key = txn, .begin = begin};
    ll_operations__index_add(&r->index, &m->node);
    append(&r->open, m);
    return m;
}

void ll_replica__end(struct lladd_replica *r, struct ll_replica_master *m, uint64_t at,
                     bool aborted)
{
    ll_operations__index_drop(&r->index, &m->node);
    take_out(&r->open, m);
    m->aborted = aborted;
    m->end.commit = at;
    m->end.from = r->open.first ? r->open.first->begin : at + 1;
    if (!r->ended.first) {
        r->ended_ns = lladd_now_ns(r->db);
        r->ended_bytes = 0;
    }
    r->ended_bytes += aborted ? 0 : m->len + m->spilled;
    append(&r->ended, m);
}

void ll_replica__forget(struct lladd_replica *r, struct ll_replica_masters *list)
{
    for (struct ll_replica_master *m = list->first, *next; m; m = next) {
        next = m->next;
        r->buffered -= m->len + m->spilled;
        r->spilled -= m->spilled;
        lladd_mem_free(r->db, m->bytes);
        lladd_mem_free(r->db, m);
    }
    *list = (struct ll_replica_masters){0};
}

/* ---- blobs ----------------------------------------------------------------------------------- */

void ll_replica__slot_name(const struct lladd_replica *r, uint32_t slot,
                           char out[LLADD_ROOT_NAME_MAX + 1])
{
    (void)snprintf(out, LLADD_ROOT_NAME_MAX + 1, LL_REPLICA_ROOT "%s:%u", r->name, (unsigned)slot);
}

static bool slot_used(const struct ll_replica_masters *list, uint32_t slot)
{
    for (const struct ll_replica_master *m = list->first; m; m = m->next)
        if (m->slot == slot)
            return true;
    return false;
}

struct spill {
    struct lladd_replica *r;
    const struct ll_replica_master *m;
    uint32_t slot;
    lladd_pageno blob;
};

static int spill_in(void *ctx, struct lladd_txn *txn)
{
    struct spill *s = ctx;
    char name[LLADD_ROOT_NAME_MAX + 1];
    if (s->m->slot)
        return lladd_blob_append(txn, s->blob, s->m->bytes, s->m->len);
    ll_replica__slot_name(s->r, s->slot, name);
    TRY(lladd_blob_create(txn, s->m->bytes, s->m->len, &s->blob));
    return lladd_root_set(txn, name, (struct lladd_root_value){s->blob.v, 0});
}

static int spill(struct lladd_replica *r, struct ll_replica_master *m, struct lladd_error *err)
{
    struct spill s = {r, m, m->slot, m->blob};
    while (!s.slot || (!m->slot && (slot_used(&r->open, s.slot) || slot_used(&r->ended, s.slot))))
        s.slot++;
    TRY(ll_replica__in_txn(r, LLADD_DURABLE_LATER, spill_in, &s, NULL, err));
    m->slot = s.slot;
    m->blob = s.blob;
    m->spilled += m->len;
    r->spilled += m->len;
    m->len = 0;
    return 0;
}

int ll_replica__unspill(struct lladd_txn *txn, struct lladd_replica *r,
                        const struct ll_replica_master *m)
{
    char name[LLADD_ROOT_NAME_MAX + 1];
    if (!m->slot)
        return 0;
    ll_replica__slot_name(r, m->slot, name);
    TRY(lladd_blob_destroy(txn, m->blob));
    return lladd_root_delete(txn, name);
}

/* ---- events ---------------------------------------------------------------------------------- */

int ll_replica__keep(struct lladd_replica *r, struct ll_replica_master *m,
                     const struct lladd_replica_event *e, struct lladd_error *err)
{
    struct lladd_replica_event kept = *e;
    if (!r->check)
        kept.before = (struct lladd_dtable_value){0};
    const size_t n = ll_replica__size(&kept);
    if (m->len && m->len + n > r->buffer_bytes)
        TRY(spill(r, m, err));
    if (ll_operations__grow(r->db, &m->bytes, m->len + n, &m->room, 1))
        return ll_replica__no_memory(err);
    ll_replica__write(&kept, m->bytes + m->len);
    m->len += n;
    r->buffered += n;
    return 0;
}

/* Calls `fn` for the whole events in the bytes. *used gets the number of their bytes, and *needed
 * how many the next event has; 0: no event is cut off. */
static int replay_bytes(const unsigned char *bytes, size_t len,
                        const struct ll_replica_replay *to, size_t *used, size_t *needed,
                        struct lladd_error *err)
{
    *used = *needed = 0;
    while (*used < len) {
        struct lladd_replica_event e;
        size_t n;
        int rc =
            lladd_replica_decode(lladd_span_of(bytes + *used, len - *used), &e, &n, err);
        if (rc == LLADD_END) {
            *needed = n;
            return 0;
        }
        rc = rc ? rc : to->fn(to->ctx, &e);
        if (rc)
            return rc;
        *used += n;
    }
    return 0;
}

/* Replays the blob. An event may be cut by the end of a chunk: then the next chunk begins with
 * it. */
static int replay_blob(struct lladd_replica *r, const struct ll_replica_master *m,
                       const struct ll_replica_replay *to, unsigned char **chunk,
                       struct lladd_error *err)
{
    size_t room = 0, used, needed = CHUNK;
    for (uint64_t at = 0; at < m->spilled; at += used) {
        uint64_t got = m->spilled - at;
        if (needed < CHUNK)
            needed = CHUNK;
        if (ll_operations__grow(r->db, chunk, needed, &room, 1))
            return ll_replica__no_memory(err);
        got = got < needed ? got : needed;
        TRY(lladd_blob_read(r->db, m->blob, at, *chunk, got, NULL, err));
        TRY(replay_bytes(*chunk, (size_t)got, to, &used, &needed, err));
        TRY(to->flush(to->ctx));
        if (!used && got == m->spilled - at)
            return lladd_error_set(err, LLADD_BAD_RECORD,
                                   "replica \"%s\": the blob at page %llu ends in an event",
                                   r->name, (unsigned long long)m->blob.v);
    }
    return 0;
}

int ll_replica__replay(struct lladd_replica *r, const struct ll_replica_master *m,
                       const struct ll_replica_replay *to, struct lladd_error *err)
{
    unsigned char *chunk = NULL;
    size_t used, needed;
    int rc = m->spilled ? replay_blob(r, m, to, &chunk, err) : 0;
    lladd_mem_free(r->db, chunk);
    return rc ? rc : replay_bytes(m->bytes, m->len, to, &used, &needed, err);
}
