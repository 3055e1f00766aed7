/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blobs. Tests sizes around every boundary, ranges, appends, zeros that are not stored, and lengths
 * near 2^48. Readers see no difference between contents that are logged and contents that are not.
 * After a crash or a rollback, also one to a savepoint, a blob has either its old contents or its
 * new ones. Every page is freed. A call that fails has changed nothing.
 */
#include "op_fixture.h"

#include "operations/blob/blob.h"
#include "support/holder.h"

#include <errno.h>
#include <lladd/stats.h>

static struct fixture b;

static void setup_sized(uint32_t page_size)
{
    fixture_init(&b, page_size);
    b.options.cache_bytes = 4u << 20;
    fixture_open(&b);
}

/* ---- contents -------------------------------------------------------------------------------- */

/* Returns bytes that are generated from the seed. */
static unsigned char *made(uint64_t seed, size_t len)
{
    unsigned char *p = malloc(len ? len : 1);
    ck_assert_ptr_nonnull(p);
    seeded_fill(seed + 1, p, len);
    return p;
}

static lladd_pageno create(struct lladd_txn *txn, uint64_t seed, size_t len)
{
    unsigned char *p = made(seed, len);
    lladd_pageno root;
    ok(txn, lladd_blob_create(txn, p, len, &root));
    free(p);
    return root;
}

/* Asserts that the blob has these bytes and this length, and passes its check. */
static void is(lladd_pageno root, const unsigned char *want, uint64_t len)
{
    uint64_t got = UINT64_MAX;
    unsigned char *p = malloc(len + 1);
    ck_assert_ptr_nonnull(p);
    ok_db(&b, lladd_blob_length(b.db, root, &got, &b.err));
    ck_assert_uint_eq(got, len);
    ok_db(&b, lladd_blob_check(b.db, root, &b.err));
    ok_db(&b, lladd_blob_read(b.db, root, 0, p, len + 1, &got, &b.err));
    ck_assert_uint_eq(got, len);
    ck_assert(len == 0 || memcmp(p, want, len) == 0);
    free(p);
}

static void is_made(lladd_pageno root, uint64_t seed, size_t len)
{
    unsigned char *want = made(seed, len);
    is(root, want, len);
    free(want);
}

static uint64_t pages_of(lladd_pageno root)
{
    uint64_t n = 0;
    ok_db(&b, lladd_blob_pages(b.db, root, fixture_count_page, &n, &b.err));
    return n;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Sizes around every boundary of the layout, up to the second tree. */
static size_t size_at(uint32_t page_size, int i)
{
    size_t head = ll_blob_head_room(page_size), room = ll_blob_page_room(page_size);
    size_t at[] = {1,
                   head,
                   head + room,
                   head + 2 * room,
                   1u << 20,
                   head + (1u << 20),
                   head + BLOB_DIRECT * room,
                   head + (BLOB_DIRECT + 1) * room,
                   head + (BLOB_DIRECT + ll_blob_fan(page_size)) * room};
    int k = i / 3;
    return k < (int)(sizeof at / sizeof at[0]) ? at[k] + (size_t)(i % 3) - 1 : SIZE_MAX;
}

static void one_size(uint32_t page_size, size_t len, uint64_t bulk_from)
{
    uint64_t data = ll_blob_pages_for(page_size, len), fan = ll_blob_fan(page_size);
    uint64_t index = data <= BLOB_DIRECT ? 0 : data <= BLOB_DIRECT + fan ? 1 : 3;
    lladd_blob_bulk_from(b.db, bulk_from);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root = create(txn, len, len);
    is_made(root, len, len);
    commit(txn);
    ck_assert_uint_eq(pages_of(root), 1 + data + index);
    ck_assert_uint_eq(fixture_pages_used(&b), 1 + data + index);
    fixture_crash(&b);
    is_made(root, len, len);
    txn = fixture_begin(&b);
    ok(txn, lladd_blob_destroy(txn, root));
    refuses(txn, LLADD_DESTROYED, lladd_blob_append(txn, root, "x", 1));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
}

START_TEST(blobs_of_every_size)
{
    size_t len = size_at(4096, _i);
    setup_sized(4096);
    one_size(4096, len, 1);
    one_size(4096, len, UINT64_MAX);
    one_size(4096, len, 0);
    fixture_free(&b);
}
END_TEST

START_TEST(blobs_on_large_pages)
{
    uint32_t page_size = _i ? 65536 : 16384;
    setup_sized(page_size);
    for (int i = 0; i < 24; i++)
        one_size(page_size, size_at(page_size, i), i % 2 ? 0 : i % 4 ? 1 : UINT64_MAX);
    fixture_free(&b);
}
END_TEST

START_TEST(a_blob_wastes_little_space)
{
    setup_sized(4096);
    struct lladd_txn *txn = fixture_begin(&b);
    for (size_t len = 20000; len < 3u << 20; len += len / 3 + 1111) {
        lladd_pageno root = create(txn, len, len);
        ck_assert_uint_le(pages_of(root) * 4096, len + len / 4);
        ok(txn, lladd_blob_destroy(txn, root));
    }
    abort_txn(txn);
    fixture_free(&b);
}
END_TEST

/* ---- ranges ---------------------------------------------------------------------------------- */

START_TEST(replaces_and_reads_ranges)
{
    enum { LEN = 300000 };
    setup_sized(4096);
    lladd_blob_bulk_from(b.db, _i ? 1 : UINT64_MAX);
    unsigned char *want = made(1, LEN), *more = made(2, LEN), got[5000];
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root = create(txn, 1, LEN);
    /* The root page has 3840 bytes of the contents, and a data page 4048. The data pages from byte
     * 133376 on are listed in an index page. */
    static const struct {
        size_t at, len;
    } ranges[] = {{0, 1},        {0, LEN},       {3839, 1},     {3840, 1},      {3839, 2},
                  {3840, 4048},  {3841, 4048},   {3840, 4049},  {7888, 4048},   {7887, 4050},
                  {1000, 20000}, {LEN - 1, 1},   {LEN - 1, 50}, {LEN + 49, 1},  {LEN + 50, 4048},
                  {133376, 1},   {133375, 9000}, {50, 0},       {0, LEN + 4098}};
    size_t len = LEN;
    want = realloc(want, LEN + 10000);
    ck_assert_ptr_nonnull(want);
    more = realloc(more, LEN + 10000);
    ck_assert_ptr_nonnull(more);
    seeded_fill(77, more + LEN, 10000);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        ok(txn, lladd_blob_write(txn, root, ranges[i].at, more + i, ranges[i].len));
        memcpy(want + ranges[i].at, more + i, ranges[i].len);
        len = ranges[i].at + ranges[i].len > len ? ranges[i].at + ranges[i].len : len;
        is(root, want, len);
    }
    commit(txn);
    for (size_t at = 0; at < len; at += 3777) {
        uint64_t n;
        ok_db(&b, lladd_blob_read(b.db, root, at, got, sizeof got, &n, &b.err));
        ck_assert_uint_eq(n, len - at < sizeof got ? len - at : sizeof got);
        ck_assert_mem_eq(got, want + at, n);
    }
    fixture_crash(&b);
    is(root, want, len);
    free(want);
    free(more);
    fixture_free(&b);
}
END_TEST

/* An append does not copy the blob, so the log gets only a little more than twice the appended
 * bytes. */
START_TEST(appending_does_not_copy_the_blob)
{
    setup_sized(4096);
    struct lladd_stats before = {.struct_size = sizeof before}, after = before;
    unsigned char *want = made(3, 200000);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root;
    ok(txn, lladd_blob_create(txn, NULL, 0, &root));
    commit(txn);
    ok_db(&b, lladd_stats_get(b.db, &before));
    txn = fixture_begin(&b);
    for (size_t len = 0; len < 200000; len += 1000)
        ok(txn, lladd_blob_append(txn, root, want + len, 1000));
    commit(txn);
    ok_db(&b, lladd_stats_get(b.db, &after));
    /* For a new page the log gets its contents. For an old page the log gets the new bytes and the
     * old bytes, which are zeros. */
    ck_assert_uint_lt(after.log_bytes - before.log_bytes, 2 * 200000 + 200 * 220);
    is(root, want, 200000);
    free(want);
    fixture_free(&b);
}
END_TEST

START_TEST(large_values_are_not_logged)
{
    enum { LEN = 4 << 20 };
    setup_sized(4096);
    struct lladd_stats before = {.struct_size = sizeof before}, after = before;
    unsigned char *p = made(4, LEN);
    lladd_pageno root;
    for (int round = 0; round < 2; round++) {
        ok_db(&b, lladd_stats_get(b.db, &before));
        struct lladd_txn *txn = fixture_begin(&b);
        if (round)
            ok(txn, lladd_blob_replace(txn, root, p + 1, LEN - 1));
        else
            ok(txn, lladd_blob_create(txn, p, LEN, &root));
        commit(txn);
        ok_db(&b, lladd_stats_get(b.db, &after));
        ck_assert_uint_lt(after.log_bytes - before.log_bytes, 20000);
        fixture_crash(&b);
        is(root, p + round, LEN - (size_t)round);
    }
    ck_assert_uint_eq(fixture_pages_used(&b), pages_of(root));
    free(p);
    fixture_free(&b);
}
END_TEST

/* All pages that a transaction has written without logging are made durable by one sync, before the
 * commit record. */
START_TEST(a_commit_syncs_the_pages_once)
{
    setup_sized(4096);
    lladd_blob_bulk_from(b.db, 20000);
    struct lladd_stats before = {.struct_size = sizeof before}, after = before;
    lladd_pageno root[5];
    struct lladd_gid gid = fixture_gid("blobs");
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < 5; i++)
        root[i] = create(txn, (uint64_t)i, 100000);
    ok_db(&b, lladd_stats_get(b.db, &before));
    if (_i) {
        ok(txn, lladd_prepare(txn, &gid));
    } else {
        commit(txn);
    }
    ok_db(&b, lladd_stats_get(b.db, &after));
    ck_assert_uint_eq(after.page_syncs - before.page_syncs, 1);
    fixture_crash(&b);
    if (_i) {
        ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
        commit(txn);
    }
    for (int i = 0; i < 5; i++)
        is_made(root[i], (uint64_t)i, 100000);
    fixture_free(&b);
}
END_TEST

/* If the sync fails, the commit fails and poisons the handle. */
START_TEST(a_commit_fails_if_its_sync_fails)
{
    setup_sized(4096);
    lladd_blob_bulk_from(b.db, 20000);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root = create(txn, 1, 100);
    commit(txn);
    txn = fixture_begin(&b);
    unsigned char *p = made(2, 100000);
    ok(txn, lladd_blob_replace(txn, root, p, 100000));
    fault_device_fail(b.fd, 1, FAULT_SYNC, EIO, false);
    ck_assert_int_eq(lladd_commit(txn), LLADD_WRITE_FAILED);
    ck_assert_int_eq(lladd_db_error(b.db, &b.err), LLADD_WRITE_FAILED);
    fixture_crash(&b);
    is_made(root, 1, 100);
    free(p);
    fixture_free(&b);
}
END_TEST

/* ---- truncating ------------------------------------------------------------------------------ */

START_TEST(truncated_and_extended_again)
{
    static const size_t cuts[] = {2900000, 2862593, 2862592, 200000, 133376, 133375, 7889,
                                  7888,    3841,    3840,    3839,   1,      0};
    setup_sized(4096);
    unsigned char *want = made(1, 3000000);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root = create(txn, 1, 3000000);
    size_t len = 3000000;
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        ok(txn, lladd_blob_truncate(txn, root, cuts[i]));
        is(root, want, cuts[i]);
        ok(txn, lladd_blob_truncate(txn, root, cuts[i] + 5000)); /* zeros, not the old bytes */
        memset(want + cuts[i], 0, 5000);
        len = cuts[i] + 5000;
        is(root, want, len);
        uint64_t kept = ll_blob_pages_for(4096, cuts[i]);
        ck_assert_uint_le(pages_of(root), 1 + kept + (kept > BLOB_DIRECT ? 3 : 0));
    }
    commit(txn);
    fixture_crash(&b);
    is(root, want, len);
    ck_assert_uint_eq(fixture_pages_used(&b), 1);
    free(want);
    fixture_free(&b);
}
END_TEST

START_TEST(lengths_near_the_limit)
{
    unsigned char got[10000], *p = made(9, 10000);
    static const uint64_t lens[] = {LLADD_BLOB_MAX, LLADD_BLOB_MAX - 1, UINT64_C(1) << 47,
                                    (UINT64_C(1) << 40) + 12345, UINT64_C(1) << 31};
    setup_sized(_i ? 65536 : 4096);
    struct lladd_txn *txn = fixture_begin(&b);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        uint64_t len = lens[i], n;
        lladd_pageno root;
        ok(txn, lladd_blob_create(txn, NULL, 5, &root));
        ok(txn, lladd_blob_truncate(txn, root, len));
        ck_assert_uint_eq(pages_of(root), 1);
        ok(txn, lladd_blob_write(txn, root, len - 10000, p, 10000));
        ok(txn, lladd_blob_write(txn, root, len / 3, p, 10000));
        ck_assert_uint_lt(pages_of(root), 20);
        ok_db(&b, lladd_blob_read(b.db, root, len - 9000, got, sizeof got, &n, &b.err));
        ck_assert_uint_eq(n, 9000);
        ck_assert_mem_eq(got, p + 1000, 9000);
        ok_db(&b, lladd_blob_read(b.db, root, len / 3 - 1, got, sizeof got, NULL, &b.err));
        ck_assert_uint_eq(got[0], 0);
        ck_assert_mem_eq(got + 1, p, 9999);
        ok_db(&b, lladd_blob_length(b.db, root, &n, &b.err));
        ck_assert_uint_eq(n, len);
        ok_db(&b, lladd_blob_check(b.db, root, &b.err));
        if (len == LLADD_BLOB_MAX) {
            refuses(txn, LLADD_TOO_LARGE, lladd_blob_append(txn, root, p, 1));
            refuses(txn, LLADD_TOO_LARGE, lladd_blob_write(txn, root, len - 1, p, 2));
        }
        ok(txn, lladd_blob_truncate(txn, root, len - 5000));
        ok_db(&b, lladd_blob_read(b.db, root, len - 10000, got, 5000, NULL, &b.err));
        ck_assert_mem_eq(got, p, 5000);
        ok(txn, lladd_blob_truncate(txn, root, len / 3 + 1));
        ok_db(&b, lladd_blob_check(b.db, root, &b.err));
        ok(txn, lladd_blob_destroy(txn, root));
    }
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
    free(p);
    fixture_free(&b);
}
END_TEST

/* ---- wrong calls ----------------------------------------------------------------------------- */

START_TEST(wrong_arguments)
{
    setup_sized(4096);
    unsigned char byte = 1;
    uint64_t n;
    lladd_pageno other = fixture_page(&b, "lladd.bytes"), root;
    struct lladd_txn *txn = fixture_begin(&b);
    root = create(txn, 1, 10);
    commit(txn);
    uint64_t used = fixture_pages_used(&b);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_TOO_LARGE, lladd_blob_create(txn, NULL, LLADD_BLOB_MAX + 1, &other));
    refuses(txn, LLADD_TOO_LARGE, lladd_blob_create(txn, &byte, UINT64_MAX, &other));
    refuses(txn, LLADD_WRONG_TYPE, lladd_blob_append(txn, other, &byte, 1));
    refuses(txn, LLADD_WRONG_TYPE, lladd_blob_destroy(txn, other));
    refuses(txn, LLADD_WRONG_TYPE, lladd_blob_append(txn, lladd_page_of(0), &byte, 1));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_blob_write(txn, root, 11, &byte, 1));
    refuses(txn, LLADD_TOO_LARGE, lladd_blob_write(txn, root, UINT64_MAX, &byte, 1));
    refuses(txn, LLADD_TOO_LARGE, lladd_blob_write(txn, root, 10, &byte, UINT64_MAX));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_blob_append(txn, root, NULL, 1));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_blob_replace(txn, root, NULL, 1));
    refuses(txn, LLADD_TOO_LARGE, lladd_blob_truncate(txn, root, LLADD_BLOB_MAX + 1));
    ok(txn, lladd_blob_append(txn, root, NULL, 0));
    commit(txn);
    is_made(root, 1, 10);
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    ck_assert_int_eq(lladd_blob_read(b.db, root, 5, &byte, 6, NULL, &b.err), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(lladd_blob_read(b.db, root, 11, &byte, 1, NULL, &b.err), LLADD_OUT_OF_RANGE);
    ok_db(&b, lladd_blob_read(b.db, root, 11, &byte, 1, &n, &b.err));
    ck_assert_uint_eq(n, 0);
    ck_assert_int_eq(lladd_blob_length(b.db, other, &n, &b.err), LLADD_WRONG_TYPE);
    ck_assert_int_eq(lladd_blob_length(b.db, lladd_page_of(UINT64_MAX), &n, &b.err),
                     LLADD_OUT_OF_RANGE);
    fixture_free(&b);
}
END_TEST

START_TEST(a_destroyed_blob_is_refused)
{
    setup_sized(4096);
    uint64_t n;
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root = create(txn, 1, 20000);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_blob_destroy(txn, root));
    refuses(txn, LLADD_DESTROYED, lladd_blob_destroy(txn, root));
    refuses(txn, LLADD_DESTROYED, lladd_blob_truncate(txn, root, 0));
    ck_assert_int_eq(lladd_blob_length(b.db, root, &n, &b.err), LLADD_DESTROYED);
    ck_assert_int_eq(lladd_blob_check(b.db, root, &b.err), LLADD_DESTROYED);
    abort_txn(txn);
    is_made(root, 1, 20000);
    txn = fixture_begin(&b);
    ok(txn, lladd_blob_destroy(txn, root));
    commit(txn);
    ck_assert_int_eq(lladd_blob_length(b.db, root, &n, &b.err), LLADD_DESTROYED);
    lladd_pageno page = fixture_page(&b, "lladd.bytes"); /* gets the first free page */
    (void)page;
    int rc = lladd_blob_length(b.db, root, &n, &b.err);
    ck_assert(rc == LLADD_DESTROYED || rc == LLADD_WRONG_TYPE);
    fixture_free(&b);
}
END_TEST

/* A page of the blob is free (_i 0), or belongs to another structure (_i 1). The check must find
 * both. A read must find the second. */
START_TEST(a_foreign_page_is_noticed)
{
    setup_sized(4096);
    unsigned char got[20000];
    struct ll_blob_run r;
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root = create(txn, 1, 20000);
    ok_db(&b, ll_operations__blob_find(b.db, root, 2, 1, &r, &b.err));
    if (_i)
        ok(txn, lladd_bytes_format(txn, r.first));
    else
        ok(txn, lladd_page_free(txn, r.first));
    ck_assert_int_eq(lladd_blob_check(b.db, root, &b.err), LLADD_CORRUPT_PAGE);
    if (_i)
        ck_assert_int_eq(lladd_blob_read(b.db, root, 0, got, sizeof got, NULL, &b.err),
                         LLADD_CORRUPT_PAGE);
    abort_txn(txn);
    fixture_free(&b);
}
END_TEST

/* ---- rollback -------------------------------------------------------------------------------- */

START_TEST(all_changes_are_rolled_back)
{
    setup_sized(4096);
    lladd_blob_bulk_from(b.db, _i % 2 ? 1 : UINT64_MAX);
    unsigned char *p = made(2, 3000000);
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root = create(txn, 1, 400000), other;
    commit(txn);
    uint64_t used = fixture_pages_used(&b);
    lladd_savepoint_id sp;
    txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    for (int round = 0; round < 2; round++) {
        ok(txn, lladd_blob_write(txn, root, 1000, p, 300000));
        ok(txn, lladd_blob_append(txn, root, p, 2700000));
        ok(txn, lladd_blob_truncate(txn, root, 200000));
        ok(txn, lladd_blob_write(txn, root, 100000, p, 100000));
        ok(txn, lladd_blob_replace(txn, root, p, 150));
        ok(txn, lladd_blob_append(txn, root, p, 500000));
        ok(txn, lladd_blob_create(txn, p, 150000, &other));
        ok(txn, lladd_blob_destroy(txn, root));
        if (round == 0) {
            ok(txn, lladd_rollback_to(txn, sp));
            is_made(root, 1, 400000);
            ck_assert_uint_eq(fixture_pages_used(&b), used);
        }
    }
    if (_i / 2)
        fixture_crash(&b);
    else
        abort_txn(txn);
    is_made(root, 1, 400000);
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    free(p);
    fixture_free(&b);
}
END_TEST

/* ---- random changes and a model -------------------------------------------------------------- */

enum { MODEL_MAX = 400000, BLOBS = 3 };

struct model {
    bool there;
    lladd_pageno root;
    size_t len;
    unsigned char bytes[MODEL_MAX];
};
static struct model now[BLOBS], committed[BLOBS], saved[BLOBS];

static size_t some_len(uint64_t r)
{
    return (r >> 8) % (r % 3 ? 6000 : 100000);
}

static void change_one(struct lladd_txn *txn, struct model *m, uint64_t r, const unsigned char *p)
{
    size_t n = some_len(r), at = m->len ? (r >> 20) % (m->len + 1) : 0;
    if (!m->there) {
        ok(txn, lladd_blob_create(txn, r % 5 ? p : NULL, n, &m->root));
        if (r % 5)
            memcpy(m->bytes, p, n);
        else
            memset(m->bytes, 0, n);
        m->len = n;
        m->there = true;
        return;
    }
    switch (r >> 56 & 7) {
    case 0:
        ok(txn, lladd_blob_destroy(txn, m->root));
        m->there = false;
        break;
    case 1:
        n = r % 2 ? n : (r >> 30) % MODEL_MAX;
        ok(txn, lladd_blob_truncate(txn, m->root, n));
        if (n > m->len)
            memset(m->bytes + m->len, 0, n - m->len);
        m->len = n;
        break;
    case 2:
        ok(txn, lladd_blob_replace(txn, m->root, p, n));
        memcpy(m->bytes, p, n);
        m->len = n;
        break;
    case 3:
    case 4:
        at = m->len;
        n = n < MODEL_MAX - at ? n : MODEL_MAX - at;
        ok(txn, lladd_blob_append(txn, m->root, p, n));
        memcpy(m->bytes + at, p, n);
        m->len += n;
        break;
    default:
        n = n < MODEL_MAX - at ? n : MODEL_MAX - at;
        ok(txn, lladd_blob_write(txn, m->root, at, p, n));
        memcpy(m->bytes + at, p, n);
        m->len = at + n > m->len ? at + n : m->len;
    }
}

static void compare_all(const struct model *m)
{
    uint64_t pages = 0;
    for (int i = 0; i < BLOBS; i++) {
        if (!m[i].there)
            continue;
        is(m[i].root, m[i].bytes, m[i].len);
        pages += pages_of(m[i].root);
    }
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
}

static void some_transaction(uint64_t *seed, const unsigned char *p)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp = 0;
    bool has_sp = false;
    uint64_t steps = 1 + seeded_next(seed) % 8;
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t r = seeded_next(seed);
        if (r % 7 == 0 && has_sp) {
            ok(txn, lladd_rollback_to(txn, sp));
            memcpy(now, saved, sizeof now);
        } else if (r % 7 == 1) {
            ok(txn, lladd_savepoint(txn, &sp));
            has_sp = true;
            memcpy(saved, now, sizeof now);
        }
        change_one(txn, &now[r % BLOBS], seeded_next(seed), p + (r >> 40) % 5000);
    }
    uint64_t r = seeded_next(seed);
    if (r % 4 == 0) {
        abort_txn(txn);
        memcpy(now, committed, sizeof now);
    } else if (r % 16 == 1) {
        fixture_crash(&b);
        memcpy(now, committed, sizeof now);
    } else {
        commit(txn);
        memcpy(committed, now, sizeof now);
    }
    if (r % 16 == 2)
        fixture_crash(&b);
    if (r % 16 == 3) {
        fixture_close(&b);
        fixture_open(&b);
    }
}

START_TEST(random_changes_match_a_model)
{
    uint64_t seed = (uint64_t)_i + 1;
    unsigned char *p = made(seed, 110000);
    setup_sized(_i % 3 == 2 ? 16384 : 4096);
    memset(now, 0, sizeof now);
    memset(committed, 0, sizeof committed);
    for (int round = 0; round < 120; round++) {
        uint64_t r = seeded_next(&seed);
        lladd_blob_bulk_from(b.db, r % 4 == 0 ? UINT64_MAX : r % 4 == 1 ? 1 : (r >> 9) % 30000);
        some_transaction(&seed, p);
        if (round % 5 == 0)
            compare_all(now);
    }
    compare_all(now);
    free(p);
    fixture_free(&b);
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

/* Makes several calls that change a blob, until one fails. The model gets the changes of the calls
 * that succeed. `what` is 1: write, 2: append, 3: truncate to length `at`, 4: replace. */
static int work(struct lladd_txn *txn, struct model *m, const unsigned char *p)
{
    static const struct {
        int what;
        size_t at, n;
    } steps[] = {{1, 2000, 30000}, {2, 0, 90000},  {3, 50000, 0}, {1, 10000, 40000},
                 {4, 0, 3000},     {2, 0, 200000}, {3, 300000, 0}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        size_t at = steps[i].what == 2 ? m->len : steps[i].at, n = steps[i].n;
        int rc = steps[i].what == 1   ? lladd_blob_write(txn, m->root, at, p, n)
                 : steps[i].what == 2 ? lladd_blob_append(txn, m->root, p, n)
                 : steps[i].what == 3 ? lladd_blob_truncate(txn, m->root, at)
                                      : lladd_blob_replace(txn, m->root, p, n);
        if (rc)
            return rc;
        if (steps[i].what == 3 && at > m->len)
            memset(m->bytes + m->len, 0, at - m->len);
        memcpy(m->bytes + at, p, n);
        m->len = steps[i].what == 3 || steps[i].what == 4 ? at + n
                 : at + n > m->len                        ? at + n
                                                          : m->len;
    }
    return 0;
}

static void prepare_failure(const unsigned char *p)
{
    fixture_init(&b, 4096);
    b.options.cache_bytes = 1u << 20;
    fixture_open(&b);
    lladd_blob_bulk_from(b.db, 20000);
    struct lladd_txn *txn = fixture_begin(&b);
    memcpy(now[0].bytes, p, 20000);
    now[0].len = 20000;
    ok(txn, lladd_blob_create(txn, p, 20000, &now[0].root));
    commit(txn);
    memcpy(&committed[0], &now[0], sizeof now[0]);
}

/* Runs the steps in one transaction, which commits the steps that succeeded. *met is true if a
 * memory allocation has failed; a call may succeed all the same. */
static int failing_run(const unsigned char *p, bool *met)
{
    struct lladd_txn *txn = NULL;
    *met = true;
    int rc = lladd_begin(b.db, NULL, &txn, &b.err);
    if (rc)
        return rc;
    rc = work(txn, &now[0], p);
    if (rc)
        ck_assert_int_eq(lladd_txn_error(txn)->code, rc);
    *met = fault_alloc_fired(&b.mem) > 0;
    fault_alloc_fail(&b.mem, 0, false);
    fault_device_capacity(b.fd, UINT64_MAX);
    ck_assert_int_eq(lladd_db_error(b.db, &b.err), 0);
    is(now[0].root, now[0].bytes, now[0].len);
    commit(txn);
    return rc;
}

static void after_failure(void)
{
    is(now[0].root, now[0].bytes, now[0].len);
    ck_assert_uint_eq(fixture_pages_used(&b), pages_of(now[0].root));
    fixture_crash(&b);
    is(now[0].root, now[0].bytes, now[0].len);
    ck_assert_uint_eq(fixture_pages_used(&b), pages_of(now[0].root));
    fixture_free(&b);
}

START_TEST(without_memory)
{
    unsigned char *p = made(5, 200000);
    bool more = true;
    int refused = 0;
    for (uint64_t n = 1; more; n++) {
        prepare_failure(p);
        fault_alloc_fail(&b.mem, n, _i);
        int rc = failing_run(p, &more);
        ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
        refused += rc != 0;
        after_failure();
    }
    ck_assert_int_gt(refused, 5);
    free(p);
}
END_TEST

START_TEST(without_space)
{
    bool met;
    unsigned char *p = made(5, 200000);
    int refused = 0;
    prepare_failure(p);
    uint64_t from = fault_device_bytes(b.fd);
    ck_assert_int_eq(failing_run(p, &met), 0);
    uint64_t to = fault_device_bytes(b.fd);
    after_failure();
    ck_assert_uint_gt(to, from);
    for (uint64_t size = from; size <= to; size += (to - from) / 40 + 1) {
        prepare_failure(p);
        fault_device_capacity(b.fd, size);
        int rc = failing_run(p, &met);
        ck_assert_msg(rc == 0 || lladd_code_root(rc) == LLADD_ROOT_RESOURCE ||
                          lladd_code_root(rc) == LLADD_ROOT_RETRY,
                      "%s", lladd_code_name(rc));
        refused += rc != 0;
        after_failure();
    }
    ck_assert_int_gt(refused, 5);
    free(p);
}
END_TEST

/* While a thread reads a freed page, a large write that allocates the page returns LLADD_BUSY. It
 * succeeds when it is repeated later. */
START_TEST(a_large_write_is_busy_while_its_page_is_read)
{
    setup_sized(4096);
    lladd_blob_bulk_from(b.db, 20000);
    unsigned char *p = made(1, 300000);
    struct ll_blob_run r;
    struct holder looks;
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root = create(txn, 1, 300000), again;
    commit(txn);
    ok_db(&b, ll_operations__blob_find(b.db, root, 3, 1, &r, &b.err));
    ck_assert_int_eq(holder_begin(&looks, b.db, r.first, LLADD_LATCH_SHARED), 0);
    txn = fixture_begin(&b);
    ok(txn, lladd_blob_destroy(txn, root));
    commit(txn);
    txn = fixture_begin(&b);
    uint64_t used = 0;
    int rc = 0;
    while (rc == 0 && used < 1000) { /* until a blob gets the page */
        rc = lladd_blob_create(txn, p, 70000, &again);
        used = rc ? used : fixture_pages_used(&b);
    }
    ck_assert_int_eq(rc, LLADD_BUSY);
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    holder_end(&looks);
    ok(txn, lladd_blob_create(txn, p, 70000, &again));
    commit(txn);
    is(again, p, 70000);
    free(p);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("blob");
    TCase *c = tcase_create("blob");
    tcase_add_loop_test(c, blobs_of_every_size, 0, 27);
    tcase_add_loop_test(c, blobs_on_large_pages, 0, 2);
    tcase_add_test(c, a_blob_wastes_little_space);
    tcase_add_loop_test(c, replaces_and_reads_ranges, 0, 2);
    tcase_add_test(c, appending_does_not_copy_the_blob);
    tcase_add_test(c, large_values_are_not_logged);
    tcase_add_loop_test(c, a_commit_syncs_the_pages_once, 0, 2);
    tcase_add_test(c, a_commit_fails_if_its_sync_fails);
    tcase_add_test(c, truncated_and_extended_again);
    tcase_add_loop_test(c, lengths_near_the_limit, 0, 2);
    tcase_add_test(c, wrong_arguments);
    tcase_add_test(c, a_destroyed_blob_is_refused);
    tcase_add_loop_test(c, a_foreign_page_is_noticed, 0, 2);
    tcase_add_loop_test(c, all_changes_are_rolled_back, 0, 4);
    tcase_add_loop_test(c, random_changes_match_a_model, 0, 6);
    tcase_add_loop_test(c, without_memory, 0, 2);
    tcase_add_test(c, without_space);
    tcase_add_test(c, a_large_write_is_busy_while_its_page_is_read);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
