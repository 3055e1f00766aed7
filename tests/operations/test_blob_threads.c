/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blobs and threads. In the first test, each thread creates and replaces a blob of its own, and
 * commits or rolls back. In the second test, one thread replaces, truncates and extends a blob, and
 * the other threads read this blob. All bytes that a reader gets from one page must belong to one
 * version of the page. Runs under TSan.
 */
#include "op_fixture.h"

#include "operations/blob/blob.h"

enum { MOST = 64, PIECE = 4048 /* contents of a data page */ };

static struct fixture b;

struct worker {
    struct lladd_thread thread;
    uint64_t seed;
    int id, rounds;
    lladd_pageno root;
    size_t len;
    unsigned char letter;
};

static struct worker workers[MOST];
static lladd_pageno shared;
static uint32_t writing;

static void setup(void)
{
    fixture_init_threads(&b);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

static void run(int n, void *(*fn)(void *))
{
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < n; i++) {
        workers[i].id = i;
        workers[i].rounds = n == MOST ? 3 : 12;
        workers[i].seed = (uint64_t)i * 77 + 1;
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, fn, &workers[i]), 0);
    }
    for (int i = 0; i < n; i++)
        lladd_thread_join(&workers[i].thread);
}

static void filled_with(lladd_pageno root, size_t len, unsigned char letter)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t n = 0;
    unsigned char *p = malloc(len + 1);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(lladd_blob_read(b.db, root, 0, p, len + 1, &n, &err), 0);
    ck_assert_uint_eq(n, len);
    size_t same = 0;
    while (same < len && p[same] == letter)
        same++;
    ck_assert_uint_eq(same, len);
    free(p);
}

/* Repeats `call` as long as it returns LLADD_BUSY. It does so while another thread reads an old
 * copy of a page that the call wants to allocate. */
#define again(txn, call) \
    do { \
        int again_rc; \
        while ((again_rc = (call)) == LLADD_BUSY) { \
        } \
        ck_assert_msg(again_rc == 0, "%s", lladd_txn_error(txn)->message); \
    } while (0)

static void *write_own(void *arg)
{
    struct worker *w = arg;
    static _Thread_local unsigned char bytes[120000];
    for (int round = 0; round < w->rounds; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        uint64_t r = seeded_next(&w->seed);
        size_t len = (r >> 8) % (r % 3 ? 9000 : sizeof bytes);
        unsigned char letter = (unsigned char)(w->id * 16 + round + 1);
        lladd_pageno root = w->root;
        memset(bytes, letter, len);
        if (!root.v)
            again(txn, lladd_blob_create(txn, bytes, len, &root));
        else
            again(txn, lladd_blob_replace(txn, root, bytes, len));
        filled_with(root, len, letter);
        if (r >> 60 < 4) {
            abort_txn(txn);
            continue;
        }
        commit(txn);
        w->root = root;
        w->len = len;
        w->letter = letter;
    }
    if (w->root.v)
        filled_with(w->root, w->len, w->letter);
    return NULL;
}

static const int counts[] = {2, 8, 64};

START_TEST(each_thread_has_a_blob)
{
    uint64_t used = 0;
    run(counts[_i], write_own);
    fixture_crash(&b);
    for (int i = 0; i < counts[_i]; i++) {
        if (!workers[i].root.v)
            continue;
        filled_with(workers[i].root, workers[i].len, workers[i].letter);
        ok_db(&b, lladd_blob_check(b.db, workers[i].root, &b.err));
        struct lladd_txn *txn = fixture_begin(&b);
        ok(txn, lladd_blob_destroy(txn, workers[i].root));
        commit(txn);
    }
    for (uint64_t p = 0; p < lladd_page_count(b.db); p++) {
        enum lladd_page_use use;
        ok_db(&b, lladd_page_use_get(b.db, lladd_page_of(p), &use, &b.err));
        used += use == LLADD_USE_PAGED;
    }
    ck_assert_uint_eq(used, 0);
}
END_TEST

/* Changes the shared blob; only one thread does this. All bytes of the blob are the same letter, or
 * zeros after a truncation. */
static void change_shared(struct worker *w)
{
    static unsigned char bytes[150000];
    for (int round = 0; round < 25; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        uint64_t r = seeded_next(&w->seed);
        memset(bytes, 'a' + round % 26, sizeof bytes);
        if (r % 4 == 0)
            ok(txn, lladd_blob_truncate(txn, shared, (r >> 8) % sizeof bytes));
        else if (r % 4 == 1)
            ok(txn, lladd_blob_truncate(txn, shared, sizeof bytes));
        lladd_blob_bulk_from(b.db, r % 3 ? 1 : UINT64_MAX);
        again(txn, lladd_blob_replace(txn, shared, bytes, sizeof bytes));
        if (r >> 60 < 5)
            abort_txn(txn);
        else
            commit(txn);
    }
    lladd_atomic_store32(&writing, 0);
}

/* Worker 0 changes the blob, and the other workers read it. The bytes that a reader gets from one
 * page must all be the same letter, or that letter and then zeros. */
static void *read_shared(void *arg)
{
    struct worker *w = arg;
    unsigned char bytes[3 * PIECE];
    struct lladd_error err = LLADD_ERROR_INIT;
    if (w->id == 0) {
        change_shared(w);
        return NULL;
    }
    while (lladd_atomic_load32(&writing)) {
        /* The root page has the first 3840 bytes. */
        uint64_t from = 3840 + seeded_next(&w->seed) % 30 * PIECE, n = 0;
        ck_assert_int_eq(lladd_blob_read(b.db, shared, from, bytes, sizeof bytes, &n, &err), 0);
        bool fine = true;
        for (size_t i = 0; i < n; i++)
            fine = fine && (bytes[i] == bytes[i / PIECE * PIECE] || bytes[i] == 0);
        ck_assert(fine);
        ck_assert_int_eq(lladd_blob_length(b.db, shared, &n, &err), 0);
    }
    return NULL;
}

START_TEST(a_blob_is_read_while_it_is_replaced)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_blob_create(txn, NULL, 150000, &shared));
    commit(txn);
    lladd_atomic_store32(&writing, 1);
    run(_i ? 8 : 2, read_shared);
    ok_db(&b, lladd_blob_check(b.db, shared, &b.err));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("blob threads");
    TCase *c = tcase_create("threads");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, each_thread_has_a_blob, 0, 3);
    tcase_add_loop_test(c, a_blob_is_read_while_it_is_replaced, 0, 2);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
