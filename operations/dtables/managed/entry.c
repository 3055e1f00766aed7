/* SPDX-License-Identifier: BSD-2-Clause */
/* The format of a journal entry: u8 kind, then
 *
 *   1  a row: the key (u32, or u64, or u16 length and bytes); then the value, up to the end
 *   2  a tombstone: the key
 *   3  a deleted range: u8 flags (1: `from` follows, 2: `to` follows); then the keys that follow.
 *      The range has the keys with from <= key < to. If a key is left out, the range is open at
 *      that end */
#include "operations/dtables/managed/managed.h"

enum { VALUE = 1, DELETED = 2, RANGE = 3, KEY_HEAD_MAX = 8, HAS_FROM = 1, HAS_TO = 2 };

static unsigned char *room(struct ll_use *u, size_t want)
{
    if (want <= u->cap_scratch)
        return u->scratch;
    unsigned char *p = lladd_mem_resize(u->t->db, u->scratch, want + 64);
    if (!p)
        return NULL;
    u->scratch = p;
    u->cap_scratch = want + 64;
    return p;
}

static size_t put_key(unsigned char *p, const struct lladd_dtable_key *key)
{
    if (key->type == LLADD_DTABLE_U32) {
        lladd_put32(p, (uint32_t)key->number);
        return 4;
    }
    if (key->type < LLADD_DTABLE_STRING) {
        lladd_put64(p, key->number);
        return 8;
    }
    lladd_put16(p, (uint16_t)key->bytes.len);
    lladd_copy(p + 2, key->bytes.data, key->bytes.len);
    return 2 + key->bytes.len;
}

/* Reads a key. Returns the bytes read, or 0 if there is no valid key. */
static size_t get_key(const struct lladd_dtable_order *order, struct lladd_span s,
                      struct lladd_dtable_key *key)
{
    const unsigned char *p = s.data;
    size_t head = order->type == LLADD_DTABLE_U32 ? 4 : order->type < LLADD_DTABLE_STRING ? 8 : 2;
    if (s.len < head)
        return 0;
    *key = (struct lladd_dtable_key){order->type, 0, {NULL, 0}};
    if (head == 4) {
        key->number = lladd_get32(p);
    } else if (head == 8) {
        key->number = lladd_get64(p);
    } else {
        key->bytes = lladd_span_of(p + 2, lladd_get16(p));
        head += key->bytes.len;
    }
    return head <= s.len && lladd_dtable_check_key(order, key, NULL) == 0 ? head : 0;
}

int ll_managed__entry_put(struct ll_use *u, const struct lladd_dtable_key *key,
                          const struct lladd_dtable_value *v, struct lladd_span *out)
{
    bool bytes = key->type >= LLADD_DTABLE_STRING;
    size_t value = v->state == LLADD_DTABLE_FOUND ? v->bytes.len : 0;
    unsigned char *p = room(u, 1 + KEY_HEAD_MAX + (bytes ? key->bytes.len : 0) + value);
    if (!p)
        return LLADD_NO_MEMORY;
    p[0] = v->state == LLADD_DTABLE_FOUND ? VALUE : DELETED;
    size_t n = 1 + put_key(p + 1, key);
    lladd_copy(p + n, v->bytes.data, value);
    *out = lladd_span_of(p, n + value);
    return 0;
}

int ll_managed__entry_put_range(struct ll_use *u, const struct lladd_dtable_key *from,
                                const struct lladd_dtable_key *to, struct lladd_span *out)
{
    size_t n = 2;
    unsigned char *p = room(u, n + 2 * (KEY_HEAD_MAX + LLADD_DTABLE_KEY_MAX));
    if (!p)
        return LLADD_NO_MEMORY;
    p[0] = RANGE;
    p[1] = (unsigned char)((from ? HAS_FROM : 0) | (to ? HAS_TO : 0));
    n += from ? put_key(p + n, from) : 0;
    n += to ? put_key(p + n, to) : 0;
    *out = lladd_span_of(p, n);
    return 0;
}

static bool get_range(const struct lladd_dtable_order *order, struct lladd_span s,
                      struct ll_entry *e)
{
    const unsigned char *p = s.data;
    size_t at = 2, n;
    if (s.len < at || p[1] & ~(HAS_FROM | HAS_TO))
        return false;
    e->has_from = p[1] & HAS_FROM;
    e->has_to = p[1] & HAS_TO;
    if (e->has_from) {
        n = get_key(order, lladd_span_of(p + at, s.len - at), &e->key);
        at += n;
        if (n == 0)
            return false;
    }
    if (e->has_to) {
        n = get_key(order, lladd_span_of(p + at, s.len - at), &e->to);
        at += n;
        if (n == 0)
            return false;
    }
    return at == s.len &&
           (!e->has_from || !e->has_to || lladd_dtable_compare(order, &e->key, &e->to) < 0);
}

bool ll_managed__entry_get(const struct lladd_dtable_order *order, struct lladd_span s,
                           struct ll_entry *e)
{
    const unsigned char *p = s.data;
    *e = (struct ll_entry){.range = s.len && p[0] == RANGE};
    if (e->range)
        return get_range(order, s, e);
    if (s.len == 0 || (p[0] != VALUE && p[0] != DELETED))
        return false;
    size_t n = get_key(order, lladd_span_of(p + 1, s.len - 1), &e->key), head = 1 + n;
    if (n == 0 || (p[0] == DELETED && s.len != head))
        return false;
    e->value = p[0] == DELETED ? lladd_dtable_tombstone()
                               : lladd_dtable_value_of(p + head, s.len - head);
    return true;
}

/* Called under the table's mutex. */
static int apply(struct ll_mem_part *part, const struct ll_entry *e)
{
    uint32_t before;
    if (e->range)
        return ll_managed__mem_delete(part, e->has_from ? &e->key : NULL,
                                      e->has_to ? &e->to : NULL, 0);
    uint32_t node = part->segment || ll_managed__mem_segment(part, 0)
                        ? ll_managed__mem_node(part, &e->key)
                        : 0;
    return node ? ll_managed__mem_push(part, node, &e->key, &e->value, &before) : LLADD_NO_MEMORY;
}

int ll_managed__restore(struct lladd_managed *t, struct ll_mem_part *part,
                        const struct lladd_journal_entry *entry, struct lladd_error *err)
{
    struct ll_entry e;
    if (!ll_managed__entry_get(&t->order, entry->bytes, &e))
        return lladd_error_set(
            err, LLADD_BAD_RECORD,
            "table \"%s\": invalid entry at LSN %llu: expected a row or a deleted range", t->name,
            (unsigned long long)entry->lsn.v);
    lladd_mutex_lock(&t->mutex);
    int rc = apply(part, &e);
    lladd_mutex_unlock(&t->mutex);
    return rc ? ll_managed__no_memory(err) : 0;
}
