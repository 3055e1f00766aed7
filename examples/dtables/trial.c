/* SPDX-License-Identifier: BSD-2-Clause */
/* Fills tables, measures them and prints the results; see trial.h. */
#include "trial.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { LOOKUPS = 200000 };

uint64_t drawn(uint64_t what, uint64_t of)
{
    uint64_t x = what * UINT64_C(0x9e3779b97f4a7c15) + of * UINT64_C(0xd1b54a32d192ed03);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

double seconds(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        return 0;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- building -------------------------------------------------------------------------------- */

static int add_rows(struct lladd_dtable_run_builder *run, const struct rows *rows, uint32_t *at)
{
    for (*at = 0; *at < rows->keys; ++*at) {
        struct lladd_dtable_key key = lladd_dtable_u32(*at);
        struct lladd_span v;
        if (!rows->value(rows->ctx, *at, &v))
            continue;
        struct lladd_dtable_value value = lladd_dtable_value_of(v.data, v.len);
        TRY(lladd_dtable_run_add(run, &key, &value));
    }
    return 0;
}

static int build(struct lladd_txn *txn, const struct rows *rows, const char *text,
                 lladd_pageno *root, uint32_t *at)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    o.type = LLADD_DTABLE_U32;
    o.text = text;
    TRY(lladd_dtable_run_begin(txn, &o, &run));
    int rc = add_rows(run, rows, at);
    if (!rc)
        rc = lladd_dtable_run_finish(run, root);
    if (rc)
        TRY(lladd_dtable_run_discard(run));
    return rc;
}

/* ---- lookups --------------------------------------------------------------------------------- */

int look_up(const struct lladd_dtable *t, const struct rows *rows, struct lladd_error *err)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    int rc = 0;
    for (uint64_t i = 0; !rc && i < LOOKUPS; i++) {
        uint32_t number = (uint32_t)(drawn(i, 1) % rows->keys);
        struct lladd_dtable_key key = lladd_dtable_u32(number);
        struct lladd_dtable_value is;
        struct lladd_span want;
        bool there = rows->value(rows->ctx, number, &want);
        rc = lladd_dtable_lookup(t, &key, &pin, &is, err);
        if (!rc && (there != (is.state == LLADD_DTABLE_FOUND) ||
                    (there && (is.bytes.len != want.len ||
                               memcmp(is.bytes.data, want.data, want.len) != 0))))
            rc = lladd_error_set(err, LLADD_BUG, "key %" PRIu32 " has another value", number);
    }
    lladd_dtable_unpin(&pin);
    return rc;
}

int time_lookups(const struct lladd_dtable *t, uint64_t from, uint64_t keys, double *out,
                 struct lladd_error *err)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value v;
    double begin = seconds();
    int rc = 0;
    for (uint64_t i = 0; !rc && i < LOOKUPS; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32((uint32_t)(from + drawn(i, 2) % keys));
        rc = lladd_dtable_lookup(t, &key, &pin, &v, err);
    }
    *out = (seconds() - begin) / LOOKUPS * 1e6;
    lladd_dtable_unpin(&pin);
    return rc;
}

void print_line(const struct rows *rows, const char *about, uint64_t bytes, double there,
                double absent)
{
    printf("  %-46s %7.2f MiB %6.2f bytes a row %6.2f us, absent %5.2f us\n", about,
           (double)bytes / 1048576, (double)bytes / (double)rows->n, there, absent);
}

void print_refused(const char *about, uint32_t key)
{
    printf("  %-46s cannot store the row of key %" PRIu32 "\n", about, key);
}

static int measure(const struct lladd_dtable *t, const struct rows *rows, const char *about,
                   struct lladd_error *err)
{
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    double there, absent;
    TRY(lladd_dtable_run_check(t, err)); /* this also loads all blocks into memory */
    TRY(look_up(t, rows, err));
    TRY(lladd_dtable_run_info_get(t, &info, err));
    TRY(time_lookups(t, 0, rows->keys, &there, err));
    TRY(time_lookups(t, rows->keys, rows->keys, &absent, err));
    print_line(rows, about, info.bytes, there, absent);
    return 0;
}

/* ---- a trial --------------------------------------------------------------------------------- */

int end(struct lladd_txn *txn, int rc, struct lladd_error *err)
{
    if (!rc)
        return lladd_commit(txn);
    *err = *lladd_txn_error(txn);
    TRY(lladd_abort(txn));
    return rc;
}

static int free_run(struct lladd_db *db, lladd_pageno root, struct lladd_error *err)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(db, NULL, &txn, err));
    return end(txn, lladd_dtable_run_free(txn, root), err);
}

int trial(struct lladd_db *db, const struct rows *rows, const struct configuration *c,
          struct lladd_error *err)
{
    struct lladd_txn *txn;
    struct lladd_dtable *t;
    lladd_pageno root;
    uint32_t at = 0;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = end(txn, build(txn, rows, c->text, &root, &at), err);
    if (rc == LLADD_REJECTED) {
        print_refused(c->about, at);
        return 0;
    }
    TRY(rc);
    TRY(lladd_dtable_run_open(db, root, &t, err));
    rc = measure(t, rows, c->about, err);
    lladd_dtable_close(t);
    return rc ? rc : free_run(db, root, err);
}
