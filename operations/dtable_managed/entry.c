/* SPDX-License-Identifier: BSD-2-Clause */
/* An entry of the journal: u8 version and kind (1 value, 2 tombstone), the key: u32, or u64, or u16
 * bytes and these; the value to the end. */
#include "operations/dtable_managed/managed.h"

enum { VALUE = 1, DELETED = 2, HEAD_MAX = 9 };

int ll_managed__entry_put(struct ll_use *u, const struct lladd_dtable_key *key,
                          const struct lladd_dtable_value *v, struct lladd_span *out)
{
    bool bytes = key->type >= LLADD_DTABLE_STRING;
    size_t value = v->state == LLADD_DTABLE_FOUND ? v->bytes.len : 0;
    size_t want = HEAD_MAX + (bytes ? key->bytes.len : 0) + value, n = 1;
    if (want > u->cap_scratch) {
        unsigned char *p = lladd_resize(u->t->db, u->scratch, want + 64);
        if (!p)
            return LLADD_NO_MEMORY;
        u->scratch = p;
        u->cap_scratch = want + 64;
    }
    unsigned char *p = u->scratch;
    p[0] = v->state == LLADD_DTABLE_FOUND ? VALUE : DELETED;
    if (bytes) {
        lladd_put16(p + n, (uint16_t)key->bytes.len);
        lladd_copy(p + n + 2, key->bytes.data, key->bytes.len);
        n += 2 + key->bytes.len;
    } else if (key->type == LLADD_DTABLE_U32) {
        lladd_put32(p + n, (uint32_t)key->number);
        n += 4;
    } else {
        lladd_put64(p + n, key->number);
        n += 8;
    }
    lladd_copy(p + n, v->bytes.data, value);
    *out = lladd_span_of(p, n + value);
    return 0;
}

bool ll_managed__entry_get(const struct lladd_dtable_order *order, struct lladd_span s,
                           struct lladd_dtable_key *key, struct lladd_dtable_value *v)
{
    const unsigned char *p = s.data;
    size_t head = order->type == LLADD_DTABLE_U32 ? 5 : order->type < LLADD_DTABLE_STRING ? 9 : 3;
    if (s.len < head || (p[0] != VALUE && p[0] != DELETED))
        return false;
    *key = (struct lladd_dtable_key){order->type, 0, {NULL, 0}};
    if (head == 5) {
        key->number = lladd_get32(p + 1);
    } else if (head == 9) {
        key->number = lladd_get64(p + 1);
    } else {
        key->bytes = lladd_span_of(p + 3, lladd_get16(p + 1));
        head += key->bytes.len;
        if (s.len < head)
            return false;
    }
    if (p[0] == DELETED && s.len != head)
        return false;
    *v = p[0] == DELETED ? lladd_dtable_tombstone() : lladd_dtable_value(p + head, s.len - head);
    return lladd_dtable_check_key(order, key, NULL) == 0;
}

int ll_managed__restore(struct lladd_managed *t, struct ll_mem_part *part,
                        const struct lladd_journal_entry *e, struct lladd_error *err)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    uint32_t before;
    if (!ll_managed__entry_get(&t->order, e->bytes, &key, &v))
        return lladd_error_set(err, LLADD_BAD_RECORD,
                               "table \"%s\": the entry at LSN %llu makes no sense", t->name,
                               (unsigned long long)e->lsn.v);
    lladd_mutex_lock(&t->mutex);
    uint32_t node = part->segment || ll_managed__mem_segment(part, 0)
                        ? ll_managed__mem_node(part->m, &key)
                        : 0;
    int rc = node ? ll_managed__mem_push(part, node, &v, &before) : LLADD_NO_MEMORY;
    lladd_mutex_unlock(&t->mutex);
    return rc ? ll_managed__no_memory(err) : 0;
}
