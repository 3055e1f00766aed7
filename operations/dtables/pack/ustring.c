/* SPDX-License-Identifier: BSD-2-Clause */
/* ustring_dtable: stores each distinct value once (Anvil paper, section 5.1, "unique-string").
 *
 * Values are numbered from 0 in the order in which they first occur. The base has the numbers,
 * little-endian, in "bytes" bytes each. If "bytes" is 0, each number takes as few bytes as it
 * needs. The stream "words" has the values, next to each other. The stream "ends" has a cell for
 * each 16 values: the u64 offset of the first value in "words", and the u32 length of each value.
 *
 * The builder remembers up to "window_bytes" of values. Beyond that it forgets the oldest value,
 * unless the value has occurred again; then the value goes to the end of the queue (second chance).
 * A forgotten value that occurs again gets another number: the table is still correct, and slightly
 * larger. A value that takes more than an eighth of the window is never remembered.
 *
 * If the base rejects a number, the value is rejected too and gets no number. The placeholder of an
 * exception_dtable above must never be rejected. Therefore the values that are tried at
 * configuration get the first numbers; the values of rows get later numbers. */
#include "operations/dtables/class/classes.h"

#include <lladd/extension.h>

enum { GROUP = 16, CELL = 8 + 4 * GROUP };

/* A remembered value. All are in a queue; a new value is added at its end. */
struct word {
    struct word *chain, *next;
    uint64_t hash, number;
    size_t len;
    bool met; /* has occurred again since it was put into the queue */
    unsigned char bytes[];
};

struct builder {
    struct lladd_dtable_builder base;
    struct lladd_dtable_writer *words, *ends;
    struct word **table, *first, *last;
    size_t slots, n; /* slots: a power of two */
    uint64_t kept, window, numbers, bytes; /* kept: bytes of the remembered values */
    unsigned char cell[CELL];
};

struct reader {
    struct lladd_dtable base;
    const struct lladd_dtable_source *words, *ends;
    uint64_t numbers;
    uint32_t block_size;
};

/* ---- configuration --------------------------------------------------------------------------- */

/* Placeholders that were promised a number: for each a u32 length, then the bytes. */
struct promised {
    uint32_t n;
    size_t len;
    unsigned char bytes[];
};

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    int64_t bytes = lladd_dtable_param_int(c, "bytes");
    bool sized = caps->value_size != LLADD_DTABLE_ANY_SIZE;
    if (bytes < 0)
        bytes = sized && caps->value_size >= 1 && caps->value_size <= 4 ? (int64_t)caps->value_size
                                                                        : 4;
    if (sized && caps->value_size != (uint64_t)bytes)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "ustring_dtable: its base has values of %llu bytes, and numbers "
                               "have %lld",
                               (unsigned long long)caps->value_size, (long long)bytes);
    lladd_dtable_settle_int(c, "bytes", bytes);
    lladd_dtable_config_state_set(c, NULL);
    int rc = bytes ? ll_settle_base(c, caps, (uint64_t)bytes, err) : 0;
    caps->value_size = LLADD_DTABLE_ANY_SIZE;
    caps->empty = true;
    caps->all_values = false; /* numbers may run out */
    return rc;
}

/* Encodes a number for the base; returns its length, 0 if the number is too large. */
static size_t put_number(unsigned char room[8], uint64_t number, uint64_t bytes)
{
    size_t need = 1;
    while (need < 5 && number >> (8 * need))
        need++;
    lladd_put64(room, number);
    return bytes == 0 && need <= 4 ? need : need <= bytes ? (size_t)bytes : 0;
}

static bool is_promised(const struct promised *p, struct lladd_span v)
{
    for (size_t at = 0; p && at < p->len; at += 4 + lladd_get32(p->bytes + at))
        if (lladd_get32(p->bytes + at) == v.len &&
            (v.len == 0 || memcmp(p->bytes + at + 4, v.data, v.len) == 0))
            return true;
    return false;
}

static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    const struct promised *old = lladd_dtable_config_state(c);
    struct lladd_dtable_config *base = lladd_dtable_param_child(c, "base");
    unsigned char room[8];
    if (v->state != LLADD_DTABLE_FOUND)
        return lladd_dtable_accepts(base, v, err);
    if (is_promised(old, v->bytes))
        return 0;
    /* After the configuration is done, the answer only says whether the base can have numbers at
     * all. Only placeholders are promised a number; other numbers may run out while a run is
     * built. */
    bool later = lladd_dtable_config_done(c);
    size_t len = old ? old->len : 0, more = len + 4 + v->bytes.len;
    size_t n = put_number(room, old && !later ? old->n : 0,
                          (uint64_t)lladd_dtable_param_int(c, "bytes"));
    struct lladd_dtable_value number = lladd_dtable_value_of(room, n);
    int rc = n ? lladd_dtable_accepts(base, &number, err) : LLADD_DTABLE_REJECT;
    if (rc || later)
        return rc;
    struct promised *p = lladd_mem_alloc(lladd_dtable_config_db(c), sizeof *p + more);
    if (!p)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a ustring_dtable");
    p->n = old ? old->n + 1 : 1;
    p->len = more;
    if (len)
        memcpy(p->bytes, old->bytes, len);
    lladd_put32(p->bytes + len, (uint32_t)v->bytes.len);
    lladd_copy(p->bytes + len + 4, v->bytes.data, v->bytes.len);
    lladd_dtable_config_state_set(c, p);
    return 0;
}

/* ---- building -------------------------------------------------------------------------------- */

static int no_memory(const struct builder *b)
{
    return lladd_error_set(b->base.error, LLADD_NO_MEMORY, "out of memory for a ustring_dtable");
}

static struct word *find_word(const struct builder *b, uint64_t hash, struct lladd_span v)
{
    struct word *w = b->slots ? b->table[hash & (b->slots - 1)] : NULL;
    while (w && (w->hash != hash || w->len != v.len ||
                 (v.len && memcmp(w->bytes, v.data, v.len) != 0)))
        w = w->chain;
    return w;
}

static int more_slots(struct builder *b)
{
    size_t slots = b->slots ? b->slots * 2 : 64;
    struct word **table = lladd_mem_alloc(b->base.db, slots * sizeof *table);
    if (!table)
        return no_memory(b);
    memset(table, 0, slots * sizeof *table);
    for (struct word *w = b->first; w; w = w->next) {
        w->chain = table[w->hash & (slots - 1)];
        table[w->hash & (slots - 1)] = w;
    }
    lladd_mem_free(b->base.db, b->table);
    b->table = table;
    b->slots = slots;
    return 0;
}

static void append(struct builder *b, struct word *w)
{
    w->next = NULL;
    if (b->last)
        b->last->next = w;
    else
        b->first = w;
    b->last = w;
}

/* Forgets values, the oldest first, until there is room for `room` bytes. A value that has occurred
 * again goes to the end of the queue instead, once. */
static void forget(struct builder *b, uint64_t room)
{
    while (b->first && b->kept + room > b->window) {
        struct word *w = b->first;
        b->first = w->next;
        b->last = w->next ? b->last : NULL;
        if (w->met) {
            w->met = false;
            append(b, w);
            continue;
        }
        struct word **at = &b->table[w->hash & (b->slots - 1)];
        while (*at != w)
            at = &(*at)->chain;
        *at = w->chain;
        b->kept -= sizeof *w + w->len;
        b->n--;
        lladd_mem_free(b->base.db, w);
    }
}

static int remember(struct builder *b, uint64_t hash, struct lladd_span v, uint64_t number)
{
    size_t size = sizeof(struct word) + v.len;
    if (size > b->window / 8)
        return 0;
    forget(b, size);
    int rc = b->n >= b->slots ? more_slots(b) : 0;
    struct word *w = rc ? NULL : lladd_mem_alloc(b->base.db, size);
    if (!w)
        return rc ? rc : no_memory(b);
    struct word **slot = &b->table[hash & (b->slots - 1)];
    *w = (struct word){.chain = *slot, .hash = hash, .number = number, .len = v.len};
    lladd_copy(w->bytes, v.data, v.len);
    *slot = w;
    append(b, w);
    b->kept += size;
    b->n++;
    return 0;
}

/* Stores the value with the next number, and remembers it. */
static int store(struct builder *b, uint64_t hash, struct lladd_span v)
{
    unsigned in_cell = (unsigned)(b->numbers % GROUP);
    int rc = remember(b, hash, v, b->numbers);
    if (in_cell == 0) {
        memset(b->cell, 0, CELL);
        lladd_put64(b->cell, lladd_dtable_written(b->words));
    }
    lladd_put32(b->cell + 8 + 4 * in_cell, (uint32_t)v.len);
    rc = rc ? rc : lladd_dtable_write(b->words, v.data, v.len);
    if (!rc && in_cell == GROUP - 1)
        rc = lladd_dtable_write_cell(b->ends, b->cell, CELL);
    b->numbers++;
    return rc;
}

/* Any hash function will do, because hashes are not stored. */
static uint64_t hash_of(struct lladd_span v)
{
    static const struct lladd_dtable_order bytes = {LLADD_DTABLE_BYTES, NULL};
    struct lladd_dtable_key key = {LLADD_DTABLE_BYTES, 0, v};
    return lladd_dtable_hash(&bytes, &key);
}

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    const struct promised *p = lladd_dtable_config_state(base->config);
    b->window = (uint64_t)lladd_dtable_param_int(base->config, "window_bytes");
    b->bytes = (uint64_t)lladd_dtable_param_int(base->config, "bytes");
    int rc = lladd_dtable_stream(base, "words", &b->words);
    rc = rc ? rc : lladd_dtable_stream(base, "ends", &b->ends);
    for (size_t at = 0; p && at < p->len && !rc; at += 4 + lladd_get32(p->bytes + at)) {
        struct lladd_span v = lladd_span_of(p->bytes + at + 4, lladd_get32(p->bytes + at));
        rc = store(b, hash_of(v), v);
    }
    return rc;
}

/* Returns the number promised to the value, or UINT64_MAX. */
static uint64_t promised_number(const struct builder *b, struct lladd_span v)
{
    const struct promised *p = lladd_dtable_config_state(b->base.config);
    uint64_t number = 0;
    for (size_t at = 0; p && at < p->len; at += 4 + lladd_get32(p->bytes + at), number++)
        if (lladd_get32(p->bytes + at) == v.len &&
            (v.len == 0 || memcmp(p->bytes + at + 4, v.data, v.len) == 0))
            return number;
    return UINT64_MAX;
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    if (value->state != LLADD_DTABLE_FOUND)
        return lladd_dtable_add(base->base, key, value);
    uint64_t hash = hash_of(value->bytes), promise = promised_number(b, value->bytes);
    struct word *w = promise == UINT64_MAX ? find_word(b, hash, value->bytes) : NULL;
    unsigned char room[8];
    bool known = w || promise != UINT64_MAX;
    size_t n = put_number(room, w ? w->number : known ? promise : b->numbers, b->bytes);
    struct lladd_dtable_value number = lladd_dtable_value_of(room, n);
    TRY(n ? lladd_dtable_add(base->base, key, &number) : LLADD_DTABLE_REJECT);
    if (w)
        w->met = true;
    return known ? 0 : store(b, hash, value->bytes);
}

/* Footer: u64 numbers, u64 bytes of their values. */
static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    unsigned char footer[16];
    int rc = b->numbers % GROUP ? lladd_dtable_write_cell(b->ends, b->cell, CELL) : 0;
    lladd_put64(footer, b->numbers);
    lladd_put64(footer + 8, lladd_dtable_written(b->words));
    return rc ? rc : lladd_dtable_footer(base, footer, sizeof footer);
}

static void discard(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    for (struct word *w = b->first, *next; w; w = next) {
        next = w->next;
        lladd_mem_free(base->db, w);
    }
    lladd_mem_free(base->db, b->table);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    TRY(lladd_dtable_source_open(base, "words", &r->words, err));
    TRY(lladd_dtable_source_open(base, "ends", &r->ends, err));
    if (base->footer.len != 16)
        return lladd_dtable_corrupt(base, err, "its footer has the wrong length");
    r->numbers = lladd_get64(base->footer.data);
    r->block_size = lladd_dtable_source_block(r->ends);
    uint64_t cells = r->numbers / GROUP + (r->numbers % GROUP != 0), per = r->block_size / CELL;
    uint64_t bytes = lladd_get64((const unsigned char *)base->footer.data + 8);
    if (r->numbers > UINT64_C(1) << 32 || lladd_dtable_source_size(r->words) != bytes ||
        (cells + per - 1) / per != lladd_dtable_source_blocks(r->ends) ||
        lladd_dtable_source_size(r->ends) / CELL < cells)
        return lladd_dtable_corrupt(base, err, "its number of values is wrong");
    return 0;
}

/* Reads the number first: the other reads replace the pin's block 1, which may hold the base's
 * value. A key in the pin's block 0 stays valid. */
static int decode(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *value,
                  struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    const unsigned char *cell, *bytes;
    size_t n = value->bytes.len;
    (void)key;
    uint64_t number = n >= 1 && n <= 4 ? lladd_get_few(value->bytes.data, n) : UINT64_MAX;
    if (number >= r->numbers)
        return lladd_dtable_corrupt(base, err, "a number that no value has");
    TRY(lladd_dtable_cell(pin, 1, r->ends, r->block_size, CELL, number / GROUP, &cell, err));
    uint64_t from = lladd_get64(cell);
    for (unsigned i = 0; i < number % GROUP; i++)
        from += lladd_get32(cell + 8 + 4 * i);
    size_t len = lladd_get32(cell + 8 + 4 * (number % GROUP));
    int rc = lladd_dtable_read(pin, 1, r->words, from, len, &bytes, err);
    value->bytes = lladd_span_of(bytes, len);
    return rc;
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for the numbers"},
    {"bytes", LLADD_DTABLE_PARAM_INT, false, -1, -1, 4,
     "bytes of a number; 0: as few as each needs; -1: as many as the base's values have, or 4"},
    {"window_bytes", LLADD_DTABLE_PARAM_INT, false, 4 << 20, 0, INT64_C(1) << 40,
     "bytes of the values that are remembered while a run is built"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_ustring = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "ustring_dtable",
    .version = 1,
    .about = "values that repeat, stored once",
    .params = params,
    .configure = configure,
    .accepts = accepts,
    .builder_size = sizeof(struct builder),
    .begin = begin,
    .add = add,
    .finish = finish,
    .discard = discard,
    .reader_size = sizeof(struct reader),
    .open = open,
    .decode = decode,
};
