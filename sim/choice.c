/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * choice: where a run could go on in several ways, it asks a question here, and the answer decides.
 * Runs with the same seed and the same answers are equal.
 *
 * The answers so far form a row. In an enumeration, the first run gets the first answer to each
 * question. For the next run, answers are dropped from the end of the row until the last one has a
 * next possible answer, which replaces it. A replay gets its answers from a given row. A random run
 * (random.c) draws them.
 *
 * A token identifies a failing run. It has these fields, and is written as base64url:
 *
 *   u8       version | kind << 4
 *   3 bytes  the low bytes of the hash of the subject's name
 *   3 bytes  the low bytes of the hash of the recording
 *   varint   flags << 1 | 1 if a seed follows
 *   varint   the seed, if it follows
 *   for each answer that is not 0:
 *     varint   answer << 2 | min(z, 3); z is the number of zeros directly before the answer
 *     varint   z - 3, if z is at least 3
 *   2 bytes  the low bytes of the hash of all preceding bytes
 *
 * Nearly all answers of a row are 0, the ordinary answer, so the token is short. Zeros at the end
 * of the row are left out.
 */
#include "sim/sim_private.h"

#include <stdlib.h>

/* ---- choosing ---------------------------------------------------------------------------- */

/* Rows are allocated with malloc, not from an arena, since a row is used by many runs. */
static struct ll_sim_choice *choice_add(struct ll_sim_choices *c)
{
    if (c->count == c->capacity) {
        uint32_t larger = c->capacity ? 2 * c->capacity : 64;
        struct ll_sim_choice *at = realloc(c->at, larger * sizeof *at);
        if (!at)
            return NULL;
        c->at = at;
        c->capacity = larger;
    }
    return &c->at[c->count++];
}

/* Returns a value below n. In at least c->plain of 4 cases it is 0. */
static uint32_t draw(struct ll_sim_choices *c, uint32_t n)
{
    c->drawn = ll_sim_mix(c->drawn, n);
    uint32_t coin = (uint32_t)(c->drawn >> 60) % 4;
    return coin < c->plain ? 0 : (uint32_t)((c->drawn & UINT32_MAX) % n);
}

uint32_t ll_sim_choose(struct lladd_sim *sim, enum ll_sim_choice_kind kind, uint32_t n,
                       uint32_t first, uint32_t limit)
{
    struct ll_sim_choices *c = &sim->choices;
    c->asked++;
    if (c->pos < c->count) {
        struct ll_sim_choice *given = &c->at[c->pos++];
        given->kind = (uint8_t)kind; /* a token does not store the kind */
        return given->value < n ? given->value : n - 1;
    }
    struct ll_sim_choice *fresh = choice_add(c);
    uint32_t value = c->mode == LL_SIM_TAKE ? 0 : first;
    if (c->mode == LL_SIM_DRAW && limit > first)
        value += draw(c, limit - first);
    if (!fresh) {
        sim->running->failed = LLADD_NO_MEMORY;
        return value;
    }
    *fresh = (struct ll_sim_choice){value, c->mode == LL_SIM_ENUMERATE ? limit : n, (uint8_t)kind};
    c->pos = c->count;
    return value;
}

int ll_sim_choice_push(struct lladd_sim *sim, enum ll_sim_choice_kind kind, uint32_t value)
{
    struct ll_sim_choice *fresh = choice_add(&sim->choices);
    if (!fresh)
        return LLADD_NO_MEMORY;
    *fresh = (struct ll_sim_choice){value, 0, (uint8_t)kind};
    sim->choices.pos = sim->choices.count;
    return 0;
}

bool ll_sim_choices_next(struct ll_sim_choices *c, uint32_t base)
{
    while (c->count > base) {
        struct ll_sim_choice *last = &c->at[c->count - 1];
        if (last->value + 1 < last->limit) {
            last->value++;
            c->pos = base;
            return true;
        }
        c->count--;
    }
    c->pos = base;
    return false;
}

void ll_sim_choices_free(struct ll_sim_choices *c)
{
    free(c->at);
    memset(c, 0, sizeof *c);
}

/* ---- tokens ------------------------------------------------------------------------------ */

enum {
    TOKEN_VERSION = 2, /* version 1 had one byte of flags, which is not enough */
    TOKEN_BYTES = LLADD_SIM_TOKEN_MAX / 4 * 3,
    AT_SUBJECT = 1,
    AT_RECORDING = 4,
    AT_REST = 7,
    CHECK = 2,
    HAS_SEED = 1,
    KIND_SHIFT = 4,
    KIND_MAX = LL_SIM_TOKEN_INTERLEAVE,
    MANY_ZEROS = 3
};

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

struct bytes {
    unsigned char at[TOKEN_BYTES + 1];
    uint32_t len, pos;
    bool bad; /* a write had no room, or a read went beyond the end */
};

static void put_byte(struct bytes *b, unsigned v)
{
    if (b->len >= TOKEN_BYTES)
        b->bad = true;
    else
        b->at[b->len++] = (unsigned char)v;
}

static void put_varint(struct bytes *b, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        put_byte(b, (unsigned)(v & 127) | 128);
    put_byte(b, (unsigned)v);
}

static uint64_t get_varint(struct bytes *b)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (b->pos >= b->len)
            break;
        unsigned byte = b->at[b->pos++];
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return v;
    }
    b->bad = true;
    return 0;
}

static void put_hash(unsigned char *to, uint64_t hash, int n)
{
    for (int i = 0; i < n; i++)
        to[i] = (unsigned char)(hash >> (8 * i));
}

static void to_text(const struct bytes *b, char *out)
{
    for (uint32_t i = 0; i < b->len; i += 3) {
        uint32_t left = b->len - i;
        uint32_t v = (uint32_t)b->at[i] << 16 | (left > 1 ? (uint32_t)b->at[i + 1] << 8 : 0) |
                     (left > 2 ? b->at[i + 2] : 0);
        for (uint32_t j = 0; j < (left > 2 ? 4 : left + 1); j++)
            *out++ = letters[v >> (18 - 6 * j) & 63];
    }
    *out = '\0';
}

bool ll_sim_token_encode(const struct lladd_sim_subject *subject, const struct ll_sim_vector *v,
                         char out[LLADD_SIM_TOKEN_MAX + 1])
{
    struct bytes b = {.len = AT_REST};
    b.at[0] = (unsigned char)(TOKEN_VERSION | v->kind << KIND_SHIFT);
    put_hash(b.at + AT_SUBJECT, ll_sim_hash(subject->name, strlen(subject->name)), 3);
    put_hash(b.at + AT_RECORDING, v->recording, 3);
    put_varint(&b, (uint64_t)v->flags << 1 | (v->seed != 1 ? HAS_SEED : 0));
    if (v->seed != 1)
        put_varint(&b, v->seed);
    uint32_t zeros = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        if (v->value[i] == 0) {
            zeros++;
            continue;
        }
        put_varint(&b, (uint64_t)v->value[i] << 2 | (zeros < MANY_ZEROS ? zeros : MANY_ZEROS));
        if (zeros >= MANY_ZEROS)
            put_varint(&b, zeros - MANY_ZEROS);
        zeros = 0;
    }
    uint64_t check = ll_sim_hash(b.at, b.len);
    for (int i = 0; i < CHECK; i++)
        put_byte(&b, (unsigned)(check >> (8 * i) & 255));
    if (b.bad)
        return false;
    to_text(&b, out);
    return true;
}

static int from_text(const char *token, struct bytes *b, struct lladd_error *err)
{
    size_t len = strlen(token);
    if (len > LLADD_SIM_TOKEN_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a token has at most %u characters, this has %zu",
                               LLADD_SIM_TOKEN_MAX, len);
    uint32_t v = 0;
    for (size_t i = 0; i < len; i++) {
        const char *letter = strchr(letters, token[i]);
        if (!letter)
            return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                   "character %zu cannot be part of a token", i + 1);
        v = v << 6 | (uint32_t)(letter - letters);
        if (i % 4 > 0)
            put_byte(b, v >> (6 - 2 * (i % 4)) & 255);
    }
    /* The last character may have bits that belong to no byte. They must be 0. */
    uint32_t lost = len % 4 == 2 ? v & 15 : len % 4 == 3 ? v & 3 : len % 4;
    if (lost || b->len < AT_REST + CHECK)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "invalid token: it is cut off");
    uint64_t check = ll_sim_hash(b->at, b->len - CHECK);
    unsigned char expected[CHECK];
    put_hash(expected, check, CHECK);
    if (memcmp(b->at + b->len - CHECK, expected, CHECK) != 0)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the token is damaged: its check fails");
    b->len -= CHECK;
    return 0;
}

static int get_values(struct bytes *b, struct ll_sim_vector *v, struct lladd_error *err)
{
    while (b->pos < b->len) {
        uint64_t both = get_varint(b);
        uint64_t zeros = both & 3;
        if (zeros == MANY_ZEROS)
            zeros += get_varint(b);
        if (b->bad || both >> 2 > UINT32_MAX || zeros >= LL_SIM_VECTOR_MAX - v->count)
            return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                   "invalid token: expected a list of choices");
        while (zeros-- > 0)
            v->value[v->count++] = 0;
        v->value[v->count++] = (uint32_t)(both >> 2);
    }
    return 0;
}

int ll_sim_token_decode(const struct lladd_sim_subject *subject, const char *token,
                        struct ll_sim_vector *out, struct lladd_error *err)
{
    struct bytes b = {.len = 0};
    unsigned char name[3];
    int rc = from_text(token, &b, err);
    if (rc)
        return rc;
    unsigned version = b.at[0] & ((1u << KIND_SHIFT) - 1), kind = b.at[0] >> KIND_SHIFT;
    if (version != TOKEN_VERSION || kind > KIND_MAX)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "the token is of format %u and kind %u; this simulator knows format "
                               "%u, and kinds up to %u",
                               version, kind, TOKEN_VERSION, KIND_MAX);
    put_hash(name, ll_sim_hash(subject->name, strlen(subject->name)), 3);
    if (memcmp(name, b.at + AT_SUBJECT, sizeof name) != 0)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the token is not of subject \"%s\"",
                               subject->name);
    memset(out, 0, sizeof *out);
    out->kind = (uint8_t)kind;
    out->recording = (uint32_t)b.at[AT_RECORDING] | (uint32_t)b.at[AT_RECORDING + 1] << 8 |
                     (uint32_t)b.at[AT_RECORDING + 2] << 16;
    b.pos = AT_REST;
    uint64_t flags = get_varint(&b);
    out->flags = (uint32_t)(flags >> 1);
    out->seed = flags & HAS_SEED ? get_varint(&b) : 1;
    return get_values(&b, out, err);
}
