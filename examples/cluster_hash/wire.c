/* SPDX-License-Identifier: BSD-2-Clause */
/* A table says which fields each message has. One function, `body`, goes through the fields of a
 * message; writing, measuring and reading call it with different cursors, so all three always agree
 * on the format. */
#include "wire.h"

#include <lladd/bytes.h>
#include <stdlib.h>

#define MESSAGE_ROW(name, number, fields) {number, fields, #name},
static const struct row {
    unsigned type, fields;
    const char *name;
} rows[] = {MESSAGES_TO_SERVER(MESSAGE_ROW) MESSAGES_TO_COORDINATOR(MESSAGE_ROW)};
#undef MESSAGE_ROW

static const struct row *row_of(unsigned type)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == type)
            return &rows[i];
    return NULL;
}

const char *message_name(unsigned type)
{
    const struct row *row = row_of(type);
    return row ? row->name : NULL;
}

bool message_is_for_server(enum message_type type)
{
    return type < MESSAGE_WELCOME;
}

/* ---- the walk ------------------------------------------------------------------------------- */

enum walk { MEASURE, WRITE, READ };

struct cursor {
    enum walk walk;
    unsigned char *to;         /* WRITE */
    const unsigned char *from; /* READ */
    size_t at;                 /* number of bytes passed so far */
    size_t len;                /* READ: number of bytes of the frame */
    bool bad;
};

/* Gets the offset of the next n bytes. False: the cursor only measures, or the frame is too
 * short. */
static bool take(struct cursor *c, size_t n, size_t *at)
{
    *at = c->at;
    if (c->walk == READ && (c->bad || c->len - c->at < n)) {
        c->bad = true;
        return false;
    }
    c->at += n;
    return c->walk != MEASURE;
}

static void word(struct cursor *c, unsigned bytes, uint64_t *v)
{
    size_t at;
    if (!take(c, bytes, &at))
        return;
    if (c->walk == READ)
        *v = 0;
    for (unsigned i = 0; i < bytes; i++)
        if (c->walk == READ)
            *v |= (uint64_t)c->from[at + i] << (8 * i);
        else
            c->to[at + i] = (unsigned char)(*v >> (8 * i));
}

static void word32(struct cursor *c, uint32_t *v)
{
    uint64_t wide = *v;
    word(c, 4, &wide);
    *v = (uint32_t)wide;
}

/* A one-byte number that must be at most `max`. */
static unsigned small(struct cursor *c, unsigned v, unsigned max)
{
    uint64_t wide = v;
    word(c, 1, &wide);
    if (c->walk == READ && wide > max)
        c->bad = true;
    return c->bad ? 0 : (unsigned)wide;
}

static void bytes16(struct cursor *c, unsigned char *v)
{
    size_t at;
    if (!take(c, 16, &at))
        return;
    if (c->walk == READ)
        memcpy(v, c->from + at, 16);
    else
        memcpy(c->to + at, v, 16);
}

static void span(struct cursor *c, unsigned width, size_t min, size_t max, struct lladd_span *v)
{
    uint64_t len = v->len;
    size_t at;
    word(c, width, &len);
    if (c->walk == READ && (c->bad || len < min || len > max)) {
        c->bad = true;
        return;
    }
    if (!take(c, (size_t)len, &at))
        return;
    if (c->walk == READ)
        *v = lladd_span_of(c->from + at, (size_t)len);
    else if (len)
        memcpy(c->to + at, v->data, (size_t)len);
}

static void hello(struct cursor *c, struct message *m)
{
    uint32_t magic = WIRE_MAGIC;
    word32(c, &magic);
    word32(c, &m->version); /* decoded without a check, so that another version is refused with its
                             * number and not as a malformed frame */
    bytes16(c, m->uuid);
    word(c, 8, &m->incarnation);
    word(c, 8, &m->instance);
    c->bad = c->bad || magic != WIRE_MAGIC;
}

static void body(struct cursor *c, unsigned fields, struct message *m)
{
    if (fields & WIRE_HELLO)
        hello(c, m);
    if (fields & WIRE_SERVER)
        bytes16(c, m->uuid);
    if (fields & WIRE_ATTEMPT)
        word(c, 8, &m->attempt);
    if (fields & WIRE_TXN) {
        word(c, 8, &m->txn.incarnation);
        word(c, 8, &m->txn.sequence);
    }
    if (fields & WIRE_REQUEST)
        word32(c, &m->request);
    if (fields & WIRE_OPS)
        word32(c, &m->ops);
    if (fields & WIRE_UPDATE)
        m->update = small(c, m->update, 1);
    if (fields & WIRE_VERDICT)
        m->verdict = (enum verdict)small(c, m->verdict, VERDICT_COMMITTED);
    if (fields & WIRE_CODE) {
        uint32_t code = (uint32_t)m->code;
        word32(c, &code);
        m->code = (int32_t)code;
        c->bad = c->bad || (m->code && !lladd_code_name(m->code));
    }
    if (fields & WIRE_KEY)
        span(c, 2, 1, WIRE_KEY_MAX, &m->key);
    if (fields & WIRE_VALUE)
        span(c, 4, 0, WIRE_VALUE_MAX, &m->value);
    if (fields & WIRE_DELTA) {
        uint64_t delta = (uint64_t)m->delta;
        word(c, 8, &delta);
        m->delta = (int64_t)delta;
    }
    if (fields & WIRE_TEXT)
        span(c, 4, 0, WIRE_TEXT_MAX, &m->text);
    if (fields & WIRE_TIMELINE)
        word32(c, &m->timeline);
}

static unsigned head(struct cursor *c, struct message *m)
{
    uint64_t type = m->type, zeros = 0;
    word(c, 1, &type);
    word(c, 3, &zeros);
    word(c, 8, &m->number);
    word(c, 8, &m->session);
    c->bad = c->bad || zeros;
    return (unsigned)type;
}

size_t message_size(const struct message *m)
{
    struct message copy = *m;
    struct cursor c = {.walk = MEASURE};
    body(&c, row_of(m->type)->fields, &copy);
    return WIRE_LENGTH + WIRE_HEAD + c.at;
}

void message_encode(const struct message *m, unsigned char *out)
{
    struct message copy = *m;
    struct cursor c = {.walk = WRITE, .to = out + WIRE_LENGTH};
    head(&c, &copy);
    body(&c, row_of(m->type)->fields, &copy);
    lladd_put32(out, (uint32_t)c.at);
}

int message_decode(const unsigned char *frame, size_t len, struct message *out)
{
    struct cursor c = {.walk = READ, .from = frame, .len = len};
    *out = (struct message){.number = 0};
    unsigned type = head(&c, out);
    const struct row *row = c.bad ? NULL : row_of(type);
    if (!row)
        return LLADD_BAD_ARGUMENT;
    out->type = (enum message_type)type;
    body(&c, row->fields, out);
    return c.bad || c.at != len ? LLADD_BAD_ARGUMENT : 0;
}

/* ---- streams -------------------------------------------------------------------------------- */

/* Allocates memory only for bytes that have arrived, not for the announced length. */
static int keep(struct frame_reader *r, const unsigned char *bytes, size_t len)
{
    if (r->capacity - r->len < len) {
        size_t capacity = r->len + len < 4096 ? 4096 : 2 * (r->len + len);
        unsigned char *grown = realloc(r->bytes, capacity);
        if (!grown)
            return LLADD_NO_MEMORY;
        r->bytes = grown;
        r->capacity = capacity;
    }
    if (len)
        memcpy(r->bytes + r->len, bytes, len);
    r->len += len;
    return 0;
}

int frame_reader_feed(struct frame_reader *r, const unsigned char *bytes, size_t len, frame_fn *fn,
                      void *ctx)
{
    int rc = keep(r, bytes, len);
    size_t at = 0;
    while (!rc && r->len - at >= WIRE_LENGTH) {
        uint32_t frame = lladd_get32(r->bytes + at);
        if (frame < WIRE_HEAD || frame > WIRE_FRAME_MAX)
            return LLADD_TOO_LARGE;
        if (r->len - at - WIRE_LENGTH < frame)
            break;
        rc = fn(ctx, r->bytes + at + WIRE_LENGTH, frame);
        at += WIRE_LENGTH + frame;
    }
    if (at) {
        memmove(r->bytes, r->bytes + at, r->len - at);
        r->len -= at;
    }
    return rc;
}

void frame_reader_free(struct frame_reader *r)
{
    free(r->bytes);
    *r = (struct frame_reader){.bytes = NULL};
}

/* ---- sessions ------------------------------------------------------------------------------- */

enum channel_verdict channel_receive(struct channel *c, const struct message *m)
{
    if (m->session != c->session || m->number <= c->received)
        return CHANNEL_REPEATED;
    if (m->number != c->received + 1)
        return CHANNEL_GAP;
    c->received++;
    return CHANNEL_NEXT;
}

void channel_stamp(struct channel *c, struct message *m)
{
    m->number = ++c->sent;
    m->session = c->session;
}
