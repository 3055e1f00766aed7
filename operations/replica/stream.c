/* SPDX-License-Identifier: BSD-2-Clause */
/* Events as bytes (docs/replication.md). The head has a checksum of its own, so that a damaged
 * length is noticed before the reader waits for so many bytes. Each event has exactly one form:
 * what decodes, encodes to the same bytes. */
#include "operations/replica/replica.h"

#include <lladd/op.h>

enum {
    STREAM_VERSION = 1,
    HEAD = 44,
    NUMBER = 8, /* bytes of a number key */
    /* bits of the head's flags */
    BEFORE_SHIFT = 0,
    AFTER_SHIFT = 2,
    STATE_MASK = 3,
    HAS_KEY = 1 << 4,
    HAS_TO = 1 << 5,
    FLAGS = (1 << 6) - 1
};

/* ---- what an event may be -------------------------------------------------------------------- */

static int bad(struct lladd_error *err, const struct lladd_replica_event *e, const char *what)
{
    return lladd_error_set(err, LLADD_BAD_ARGUMENT, "an event at position %llu %s",
                           (unsigned long long)e->position, what);
}

static int valid_key(const struct lladd_replica_event *e, const struct lladd_dtable_key *key,
                     struct lladd_error *err)
{
    struct lladd_dtable_order order = {.type = key->type};
    struct lladd_error why = LLADD_ERROR_INIT;
    if (!lladd_dtable_type_name(key->type))
        return bad(err, e, "has a key of an unknown type");
    return lladd_dtable_check_key(&order, key, &why)
               ? lladd_error_set(err, LLADD_BAD_ARGUMENT, "an event at position %llu has %s",
                                 (unsigned long long)e->position, why.message)
               : 0;
}

static int valid_value(const struct lladd_replica_event *e, const struct lladd_dtable_value *v,
                       struct lladd_error *err)
{
    if (v->state > LLADD_DTABLE_FOUND)
        return bad(err, e, "has a value in an unknown state");
    return v->state == LLADD_DTABLE_FOUND && v->bytes.len > LLADD_DTABLE_VALUE_MAX
               ? bad(err, e, "has a value that is too long")
               : 0;
}

/* Of an event that changes nothing: it has neither table nor keys nor values. */
static int valid_plain(const struct lladd_replica_event *e, struct lladd_error *err)
{
    return e->table || e->key.type || e->to.type || e->before.state || e->after.state
               ? bad(err, e, "has a table, a key or a value, and is no change")
               : 0;
}

static int valid_keys(const struct lladd_replica_event *e, struct lladd_error *err)
{
    bool range = e->kind == LLADD_REPLICA_DELETE_RANGE;
    if (!range && (!e->key.type || e->to.type))
        return bad(err, e, "needs one key");
    if (e->key.type && e->to.type && e->key.type != e->to.type)
        return bad(err, e, "has keys of two types");
    if (e->key.type)
        TRY(valid_key(e, &e->key, err));
    return e->to.type ? valid_key(e, &e->to, err) : 0;
}

int ll_replica__valid(const struct lladd_replica_event *e, struct lladd_error *err)
{
    if (e->kind < LLADD_REPLICA_BEGIN || e->kind > LLADD_REPLICA_MARK)
        return bad(err, e, "is of an unknown kind");
    if (!e->position)
        return bad(err, e, "has no position");
    if (e->position == UINT64_MAX) /* the replica also counts with the next one */
        return bad(err, e, "has the last position there is");
    if (!ll_replica__changes(e->kind))
        return valid_plain(e, err);
    size_t name = e->table ? strlen(e->table) : 0;
    if (!name || name > LLADD_MANAGED_NAME_MAX)
        return bad(err, e, "has a table's name that is empty or too long");
    TRY(valid_keys(e, err));
    if (e->kind == LLADD_REPLICA_DELETE_RANGE && e->before.state)
        return bad(err, e, "deletes a range and has a row before the change");
    if ((e->kind == LLADD_REPLICA_PUT) != (e->after.state == LLADD_DTABLE_FOUND) ||
        e->after.state == LLADD_DTABLE_TOMBSTONE)
        return bad(err, e, "has a value after the change that does not fit its kind");
    TRY(valid_value(e, &e->before, err));
    return valid_value(e, &e->after, err);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The parts of an event after the head. */
enum { NAME, KEY, TO, BEFORE, AFTER, PARTS };
struct parts {
    struct lladd_span part[PARTS];
    unsigned char numbers[2][NUMBER];
};

static struct lladd_span key_part(const struct lladd_dtable_key *key, unsigned char number[NUMBER])
{
    if (!key->type || key->type >= LLADD_DTABLE_STRING)
        return key->type ? key->bytes : lladd_span_of(NULL, 0);
    lladd_put64(number, key->number);
    return lladd_span_of(number, NUMBER);
}

static struct lladd_span value_part(const struct lladd_dtable_value *v)
{
    return v->state == LLADD_DTABLE_FOUND ? v->bytes : lladd_span_of(NULL, 0);
}

static void take_apart(const struct lladd_replica_event *e, struct parts *p)
{
    /* the name has its zero byte, so that a reader can use the string where it is */
    p->part[NAME] = lladd_span_of(e->table, e->table ? strlen(e->table) + 1 : 0);
    p->part[KEY] = key_part(&e->key, p->numbers[0]);
    p->part[TO] = key_part(&e->to, p->numbers[1]);
    p->part[BEFORE] = value_part(&e->before);
    p->part[AFTER] = value_part(&e->after);
}

static void make_head(const struct lladd_replica_event *e, const struct parts *p,
                      unsigned char head[HEAD])
{
    uint32_t crc = 0;
    for (unsigned i = 0; i < PARTS; i++)
        if (p->part[i].len)
            crc = lladd_crc32c(crc, p->part[i].data, p->part[i].len);
    memset(head, 0, HEAD);
    lladd_put32(head + 4, crc);
    lladd_put64(head + 8, e->position);
    lladd_put64(head + 16, e->txn);
    head[24] = STREAM_VERSION;
    head[25] = (unsigned char)e->kind;
    head[26] = (unsigned char)(e->key.type ? e->key.type : e->to.type);
    head[27] = (unsigned char)((unsigned)e->before.state << BEFORE_SHIFT |
                               (unsigned)e->after.state << AFTER_SHIFT |
                               (e->key.type ? HAS_KEY : 0) | (e->to.type ? HAS_TO : 0));
    head[28] = (unsigned char)p->part[NAME].len;
    lladd_put16(head + 30, (uint16_t)p->part[KEY].len);
    lladd_put16(head + 32, (uint16_t)p->part[TO].len);
    lladd_put32(head + 36, (uint32_t)p->part[BEFORE].len);
    lladd_put32(head + 40, (uint32_t)p->part[AFTER].len);
    lladd_put32(head, lladd_crc32c(0, head + 4, HEAD - 4));
}

size_t ll_replica__size(const struct lladd_replica_event *e)
{
    struct parts p;
    size_t n = HEAD;
    take_apart(e, &p);
    for (unsigned i = 0; i < PARTS; i++)
        n += p.part[i].len;
    return n;
}

void ll_replica__write(const struct lladd_replica_event *e, unsigned char *to)
{
    struct parts p;
    take_apart(e, &p);
    make_head(e, &p, to);
    to += HEAD;
    for (unsigned i = 0; i < PARTS; i++)
        if (p.part[i].len) {
            memcpy(to, p.part[i].data, p.part[i].len);
            to += p.part[i].len;
        }
}

int lladd_replica_encode(const struct lladd_replica_event *e, struct lladd_sink *sink)
{
    struct parts p;
    unsigned char head[HEAD];
    TRY(ll_replica__valid(e, NULL));
    take_apart(e, &p);
    make_head(e, &p, head);
    TRY(lladd_sink_write(sink, head, HEAD));
    for (unsigned i = 0; i < PARTS; i++)
        if (p.part[i].len)
            TRY(lladd_sink_write(sink, p.part[i].data, p.part[i].len));
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int damaged(struct lladd_error *err, const unsigned char *head, const char *what)
{
    return lladd_error_set(err, LLADD_BAD_RECORD,
                           "bytes that should be the event at position %llu %s",
                           (unsigned long long)lladd_get64(head + 8), what);
}

static struct lladd_dtable_key key_of(const unsigned char *head, struct lladd_span part)
{
    struct lladd_dtable_key key = {.type = (enum lladd_dtable_type)head[26]};
    if (key.type < LLADD_DTABLE_STRING)
        key.number = lladd_get64(part.data);
    else
        key.bytes = part;
    return key;
}

static struct lladd_dtable_value value_of(unsigned state, struct lladd_span part)
{
    struct lladd_dtable_value v = {.state = (enum lladd_dtable_state)(state & STATE_MASK)};
    if (v.state == LLADD_DTABLE_FOUND)
        v.bytes = part;
    return v;
}

/* Do the lengths and flags of the head fit each other? */
static bool shape_fits(const unsigned char *head, const struct parts *p)
{
    unsigned flags = head[27], before = flags >> BEFORE_SHIFT & STATE_MASK,
             after = flags >> AFTER_SHIFT & STATE_MASK;
    bool has_key = flags & HAS_KEY, has_to = flags & HAS_TO;
    bool number = head[26] && head[26] < LLADD_DTABLE_STRING;
    if (flags & ~(unsigned)FLAGS || head[29] || lladd_get16(head + 34))
        return false;
    if ((has_key || has_to) != (head[26] != 0))
        return false;
    if ((!has_key && p->part[KEY].len) || (!has_to && p->part[TO].len))
        return false;
    if (number &&
        ((has_key && p->part[KEY].len != NUMBER) || (has_to && p->part[TO].len != NUMBER)))
        return false;
    return (before == LLADD_DTABLE_FOUND || !p->part[BEFORE].len) &&
           (after == LLADD_DTABLE_FOUND || !p->part[AFTER].len);
}

static int put_together(const unsigned char *head, const struct parts *p,
                        struct lladd_replica_event *e, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct lladd_span name = p->part[NAME];
    if (!shape_fits(head, p) ||
        (name.len && memchr(name.data, 0, name.len) != (const char *)name.data + name.len - 1))
        return damaged(err, head, "have lengths and flags that do not fit each other");
    memset(e, 0, sizeof *e);
    e->kind = (enum lladd_replica_kind)head[25];
    e->position = lladd_get64(head + 8);
    e->txn = lladd_get64(head + 16);
    e->table = name.len ? name.data : NULL;
    if (head[27] & HAS_KEY)
        e->key = key_of(head, p->part[KEY]);
    if (head[27] & HAS_TO)
        e->to = key_of(head, p->part[TO]);
    e->before = value_of(head[27] >> BEFORE_SHIFT, p->part[BEFORE]);
    e->after = value_of(head[27] >> AFTER_SHIFT, p->part[AFTER]);
    return ll_replica__valid(e, &why) ? lladd_error_set(err, LLADD_BAD_RECORD, "%s", why.message)
                                      : 0;
}

static int cut_off(size_t needed, size_t *used, struct lladd_error *err)
{
    *used = needed;
    return lladd_error_set(err, LLADD_END, "an event is cut off; it needs %zu bytes", needed);
}

int lladd_replica_decode(struct lladd_span bytes, struct lladd_replica_event *out, size_t *used,
                         struct lladd_error *err)
{
    const unsigned char *head = bytes.data;
    struct parts p;
    if (bytes.len < HEAD)
        return cut_off(HEAD, used, err);
    if (lladd_get32(head) != lladd_crc32c(0, head + 4, HEAD - 4))
        return damaged(err, head, "have a head with a wrong checksum");
    if (head[24] > STREAM_VERSION)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "an event is from a newer version: format %u; %d is known", head[24],
                               STREAM_VERSION);
    const size_t lengths[PARTS] = {head[28], lladd_get16(head + 30), lladd_get16(head + 32),
                                   lladd_get32(head + 36), lladd_get32(head + 40)};
    if (head[24] != STREAM_VERSION || lengths[BEFORE] > LLADD_DTABLE_VALUE_MAX ||
        lengths[AFTER] > LLADD_DTABLE_VALUE_MAX)
        return damaged(err, head, "have a version or a length that no event has");
    size_t at = HEAD;
    for (unsigned i = 0; i < PARTS; at += lengths[i++])
        p.part[i] = lladd_span_of(at + lengths[i] <= bytes.len ? head + at : NULL, lengths[i]);
    if (at > bytes.len)
        return cut_off(at, used, err);
    if (lladd_get32(head + 4) != lladd_crc32c(0, head + HEAD, at - HEAD))
        return damaged(err, head, "have a wrong checksum");
    TRY(put_together(head, &p, out, err));
    *used = at;
    return 0;
}
