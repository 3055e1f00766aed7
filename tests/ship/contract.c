/* SPDX-License-Identifier: BSD-2-Clause */
#include "contract.h"

#include "ship/ship_private.h"
#include "support/fixtures.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int contract_put(struct lladd_store *store, const char *name, const char *text,
                 struct lladd_error *err)
{
    struct lladd_iovec pieces[2] = {{text, 1}, {text + 1, strlen(text) - 1}};
    return store->ops->put(store, name, pieces, 2, err);
}

bool contract_holds(struct lladd_store *store, const char *name, const char *text)
{
    char bytes[64] = "";
    struct lladd_error err = LLADD_ERROR_INIT;
    return store->ops->get(store, name, 0, bytes, strlen(text), &err) == 0 &&
           strcmp(bytes, text) == 0;
}

static int count(void *ctx, const char *name, uint64_t size)
{
    unsigned *n = ctx;
    ck_assert(ll_ship_name_ok(name));
    ck_assert_uint_gt(size, 0);
    ++*n;
    return 0;
}

unsigned contract_listed(struct lladd_store *store, const char *prefix)
{
    unsigned n = 0;
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = store->ops->list(store, prefix, count, &n, &err);
    ck_assert_msg(rc == 0, "list: %s", err.message);
    return n;
}

/* A call that must succeed. */
static void good(int rc, const struct lladd_error *err)
{
    ck_assert_msg(rc == 0, "%d: %s", rc, err->message);
}

void contract_objects(struct lladd_store *store)
{
    char bytes[8];
    struct lladd_error err = LLADD_ERROR_INIT;
    good(contract_put(store, "base/a/manifest", "hello", &err), &err);
    good(contract_put(store, "base/b/manifest", "world", &err), &err);
    good(contract_put(store, "archive", "x!", &err), &err);
    ck_assert(contract_holds(store, "base/a/manifest", "hello"));
    ck_assert_uint_eq(contract_listed(store, ""), 3);
    ck_assert_uint_eq(contract_listed(store, "base/"), 2);
    ck_assert_uint_eq(contract_listed(store, "base/a"), 1);
    ck_assert_uint_eq(contract_listed(store, "nothing"), 0);
    ck_assert_int_eq(contract_put(store, "base/a/manifest", "other", &err), LLADD_EXISTS);
    ck_assert(contract_holds(store, "base/a/manifest", "hello"));
    good(store->ops->get(store, "base/a/manifest", 2, bytes, 3, &err), &err);
    ck_assert_int_eq(memcmp(bytes, "llo", 3), 0);
    ck_assert_int_eq(store->ops->get(store, "base/a/manifest", 3, bytes, 3, &err),
                     LLADD_CORRUPT_BACKUP);
    ck_assert_int_eq(store->ops->get(store, "base/a/manifest", 5, bytes, 1, &err),
                     LLADD_CORRUPT_BACKUP);
    ck_assert_int_eq(store->ops->get(store, "base/c/manifest", 0, bytes, 1, &err), LLADD_NOT_FOUND);
    good(store->ops->remove(store, "base/a/manifest", &err), &err);
    ck_assert_int_eq(store->ops->remove(store, "base/a/manifest", &err), LLADD_NOT_FOUND);
    ck_assert_uint_eq(contract_listed(store, ""), 2);
    good(contract_put(store, "base/a/manifest", "again", &err), &err);
    ck_assert(contract_holds(store, "base/a/manifest", "again"));
    ck_assert_int_eq(contract_put(store, "../escape", "no", &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(contract_put(store, "base/.hidden", "no", &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(contract_put(store, "base//x", "no", &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(store->ops->get(store, "base/?x", 0, bytes, 1, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(store->ops->remove(store, "/archive", &err), LLADD_BAD_ARGUMENT);
}

/* Objects of up to `most` bytes, in pieces of many lengths. */
void contract_sizes(struct lladd_store *store, size_t most)
{
    static const size_t sizes[] = {0, 1, 4096, 65537, SIZE_MAX};
    struct lladd_error err = LLADD_ERROR_INIT;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct lladd_iovec pieces[4];
        char name[40];
        size_t size = sizes[i] < most ? sizes[i] : most;
        unsigned char *bytes = malloc(size + 1), *back = malloc(size + 1);
        ck_assert(bytes && back);
        seeded_fill(i, bytes, size);
        (void)snprintf(name, sizeof name, "size/%zu", size);
        pieces[0] = (struct lladd_iovec){bytes, 0};
        pieces[1] = (struct lladd_iovec){bytes, size / 3};
        pieces[2] = (struct lladd_iovec){bytes + size / 3, size / 2};
        pieces[3] = (struct lladd_iovec){bytes + size / 3 + size / 2, size - size / 3 - size / 2};
        good(store->ops->put(store, name, pieces, 4, &err), &err);
        good(store->ops->get(store, name, 0, back, size, &err), &err);
        ck_assert_int_eq(memcmp(bytes, back, size), 0);
        if (size > 100) {
            good(store->ops->get(store, name, size - 50, back, 50, &err), &err);
            ck_assert_int_eq(memcmp(bytes + size - 50, back, 50), 0);
        }
        ck_assert_int_eq(store->ops->get(store, name, 0, back, size + 1, &err),
                         LLADD_CORRUPT_BACKUP);
        free(bytes);
        free(back);
    }
}

/* Reads an object from its begin to its end, and jumps in it. */
void contract_sequence(struct lladd_store *store)
{
    enum { SIZE = 5000000, PIECE = 10000 };
    static const size_t jumps[][2] = {{10000, 10000},    {4999999, 1},      {20000, 300000},
                                      {320000, 7},       {320007, 3000000}, {0, 5000000},
                                      {3320007, 1679993}};
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char *bytes = malloc(SIZE), *back = malloc(SIZE);
    ck_assert(bytes && back);
    seeded_fill(11, bytes, SIZE);
    struct lladd_iovec piece = {bytes, SIZE};
    good(store->ops->put(store, "long", &piece, 1, &err), &err);
    for (size_t at = 0; at < SIZE; at += PIECE) {
        good(store->ops->get(store, "long", at, back, PIECE, &err), &err);
        ck_assert_int_eq(memcmp(bytes + at, back, PIECE), 0);
    }
    ck_assert_int_eq(store->ops->get(store, "long", SIZE, back, 1, &err), LLADD_CORRUPT_BACKUP);
    for (size_t i = 0; i < sizeof jumps / sizeof jumps[0]; i++) {
        size_t at = jumps[i][0], len = jumps[i][1];
        good(store->ops->get(store, "long", at, back, len, &err), &err);
        ck_assert_int_eq(memcmp(bytes + at, back, len), 0);
    }
    good(store->ops->get(store, "long", 0, back, PIECE, &err), &err);
    good(store->ops->get(store, "long", PIECE, back, PIECE, &err), &err);
    ck_assert_int_eq(store->ops->get(store, "other", 2 * PIECE, back, 1, &err), LLADD_NOT_FOUND);
    good(store->ops->get(store, "long", PIECE, back, PIECE, &err), &err);
    good(store->ops->remove(store, "long", &err), &err);
    ck_assert_int_eq(store->ops->get(store, "long", 2 * PIECE, back, 1, &err), LLADD_NOT_FOUND);
    free(bytes);
    free(back);
}

/* For each object that is listed: was it seen, and is it what it should be? */
struct seen {
    struct lladd_store *store;
    bool *seen;
    unsigned objects, n, stop_at;
};

static int see(void *ctx, const char *name, uint64_t size)
{
    struct seen *s = ctx;
    unsigned i;
    char text[32];
    ck_assert_int_eq(sscanf(name, "many/%u", &i), 1);
    ck_assert_uint_lt(i, s->objects);
    ck_assert(!s->seen[i]);
    s->seen[i] = true;
    (void)snprintf(text, sizeof text, "object %u", i);
    ck_assert_uint_eq(size, strlen(text));
    if (i % 10 == 0)
        ck_assert(contract_holds(s->store, name, text)); /* `list` calls this function */
    return ++s->n == s->stop_at ? 77 : 0;
}

void contract_list(struct lladd_store *store, unsigned objects)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    char name[32], text[32];
    struct seen s = {.store = store, .objects = objects};
    good(contract_put(store, "before", "xx", &err), &err);
    good(contract_put(store, "z/after", "xx", &err), &err);
    for (unsigned i = 0; i < objects; i++) {
        (void)snprintf(name, sizeof name, "many/%u", i);
        (void)snprintf(text, sizeof text, "object %u", i);
        good(contract_put(store, name, text, &err), &err);
    }
    s.seen = calloc(objects, sizeof *s.seen);
    ck_assert_ptr_nonnull(s.seen);
    good(store->ops->list(store, "many/", see, &s, &err), &err);
    ck_assert_uint_eq(s.n, objects);
    memset(s.seen, 0, objects * sizeof *s.seen);
    s.n = 0;
    s.stop_at = objects / 2;
    ck_assert_int_eq(store->ops->list(store, "many/", see, &s, &err), 77);
    ck_assert_uint_eq(s.n, s.stop_at);
    free(s.seen);
}

void contract_taken_names(struct lladd_store *store)
{
    struct lladd_iovec same = {"mine", 4}, other = {"your", 4}, longer = {"mine!", 5};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ll_ship_mem mem = {NULL};
    good(contract_put(store, "archive", "mine", &err), &err);
    good(ll_ship_put(store, mem, "archive", &same, 1, &err), &err);
    ck_assert_int_eq(ll_ship_put(store, mem, "archive", &other, 1, &err), LLADD_EXISTS);
    ck_assert_int_eq(ll_ship_put(store, mem, "archive", &longer, 1, &err), LLADD_EXISTS);
    ck_assert(contract_holds(store, "archive", "mine"));
}
