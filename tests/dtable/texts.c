/* SPDX-License-Identifier: BSD-2-Clause */
/* See texts.h. */
#include "texts.h"

#include <string.h>

static int caseless(void *ctx, struct lladd_span x, struct lladd_span y)
{
    const unsigned char *p = x.data, *q = y.data;
    (void)ctx;
    for (size_t i = 0; i < x.len && i < y.len; i++)
        if ((p[i] | 32) != (q[i] | 32))
            return (p[i] | 32) - (q[i] | 32);
    return x.len < y.len ? -1 : x.len > y.len;
}

static uint64_t caseless_hash(void *ctx, struct lladd_span x)
{
    const unsigned char *p = x.data;
    uint64_t h = 7;
    (void)ctx;
    for (size_t i = 0; i < x.len; i++)
        h = h * 31 + (p[i] | 32);
    return h;
}

const struct lladd_dtable_comparator no_case = {
    .struct_size = sizeof no_case, .name = "no-case", .compare = caseless, .hash = caseless_hash};

struct lladd_dtable *open_run(struct fixture *b, lladd_pageno root)
{
    struct lladd_dtable *t;
    ok_db(b, lladd_dtable_run_open(b->db, root, &t, &b->err));
    return t;
}

struct lladd_dtable_run_builder *begin_run(struct lladd_txn *txn, enum lladd_dtable_type type,
                                           const char *config)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    o.type = type;
    o.text = config;
    o.block_bytes = 4096;
    ok(txn, lladd_dtable_run_begin(txn, &o, &run));
    return run;
}

int add_text(struct lladd_dtable_run_builder *run, uint32_t key, const char *value)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    struct lladd_dtable_value v =
        value ? lladd_dtable_value_of(value, strlen(value)) : lladd_dtable_tombstone();
    return lladd_dtable_run_add(run, &k, &v);
}

struct lladd_dtable *run_of(struct fixture *b, const char *config, uint32_t first,
                            const char *const *values)
{
    struct lladd_txn *txn = fixture_begin(b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, config);
    lladd_pageno root;
    for (uint32_t i = 0; values[i]; i++)
        if (strcmp(values[i], "(none)") != 0)
            ok(txn, add_text(run, first + i, strcmp(values[i], "(gone)") ? values[i] : NULL));
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    return open_run(b, root);
}

enum lladd_dtable_state state_of(struct fixture *b, const struct lladd_dtable *t, uint32_t key,
                                 char *text)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    struct lladd_dtable_value v;
    ok_db(b, lladd_dtable_lookup(t, &k, &pin, &v, &b->err));
    if (text && v.state == LLADD_DTABLE_FOUND) {
        memcpy(text, v.bytes.data, v.bytes.len);
        text[v.bytes.len] = 0;
    }
    lladd_dtable_unpin(&pin);
    return v.state;
}
