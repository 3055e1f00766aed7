/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Threads allocate pages, insert into a heap, add to a counter, use slotted pages and walk through
 * the heap, all at the same time, and commit or roll back. No page or slot has two owners, no
 * change is lost, and threads that insert do not all wait for one page. Runs under TSan.
 */
#include "op_fixture.h"

#include "operations/heap/heap.h"

enum { THREADS = 4 };

static struct fixture b;
static lladd_pageno root, page;
static struct lladd_heap *heap;
static struct lladd_mutex model_mutex;

struct worker {
    struct lladd_thread thread;
    uint64_t seed;
    int id;
    int64_t sum;
    unsigned inserted, deleted;
    struct lladd_rid mine[4000];
    unsigned n_mine;
};

static struct worker workers[THREADS];

static void setup(void)
{
    fixture_init_threads(&b);
    fixture_open(&b);
    page = fixture_page(&b, "lladd.bytes");
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_heap_create_open(txn, &root, &heap));
    commit(txn);
    ck_assert_int_eq(lladd_mutex_init(&model_mutex, LLADD_RANK_LEAF, "model"), 0);
}

static void crash(void)
{
    fixture_crash(&b);
    ok_db(&b, lladd_heap_open(b.db, root, &heap, &b.err));
}

static void teardown(void)
{
    lladd_heap_close(heap);
    lladd_mutex_destroy(&model_mutex);
    fixture_free(&b);
}

static void run(void *(*fn)(void *))
{
    memset(workers, 0, sizeof workers);
    for (int i = 0; i < THREADS; i++) {
        workers[i].id = i;
        workers[i].seed = (uint64_t)i * 77 + 1;
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, fn, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        lladd_thread_join(&workers[i].thread);
}

/* ---- pages ----------------------------------------------------------------------------------- */

enum { PAGES = 20000 };
static unsigned char owned[PAGES];

static void take(lladd_pageno first, uint64_t n)
{
    lladd_mutex_lock(&model_mutex);
    for (uint64_t i = 0; i < n; i++) {
        ck_assert_uint_lt(first.v + i, PAGES);
        ck_assert_msg(!owned[first.v + i], "page %llu has two owners",
                      (unsigned long long)(first.v + i));
        owned[first.v + i] = 1;
    }
    lladd_mutex_unlock(&model_mutex);
}

static void give(lladd_pageno first, uint64_t n)
{
    lladd_mutex_lock(&model_mutex);
    memset(&owned[first.v], 0, n);
    lladd_mutex_unlock(&model_mutex);
}

static void *allocate(void *arg)
{
    struct worker *w = arg;
    for (int round = 0; round < 60; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        lladd_pageno got[12];
        uint64_t n[12];
        int count = 2 + (int)(seeded_next(&w->seed) % 10);
        for (int i = 0; i < count; i++) {
            n[i] = i % 4 ? 1 : 1 + seeded_next(&w->seed) % 20;
            ok(txn, lladd_extent_alloc(txn, n[i], LLADD_EXTENT_PAGED, &got[i]));
            take(got[i], n[i]);
        }
        if (round % 3 == 0) {
            for (int i = 0; i < count; i++)
                give(got[i], n[i]); /* before the abort: after it another thread can get the page */
            abort_txn(txn);
            continue;
        }
        commit(txn);
        txn = fixture_begin(&b);
        for (int i = 0; i < count; i++)
            ok(txn, lladd_extent_free(txn, got[i], n[i]));
        if (round % 3 == 1) {
            abort_txn(txn);
            txn = fixture_begin(&b);
            for (int i = 0; i < count; i++)
                ok(txn, lladd_extent_free(txn, got[i], n[i]));
        }
        for (int i = 0; i < count; i++)
            give(got[i], n[i]);
        commit(txn);
    }
    return NULL;
}

START_TEST(no_page_has_two_owners)
{
    uint64_t used = 0;
    memset(owned, 0, sizeof owned);
    run(allocate);
    for (uint64_t p = 0; p < lladd_page_count(b.db); p++) {
        enum lladd_page_use use;
        ok_db(&b, lladd_page_use_get(b.db, lladd_page_of(p), &use, &b.err));
        used += use == LLADD_USE_PAGED;
    }
    ck_assert_uint_eq(used, 2);                       /* `page`, and the heap's root page */
    ck_assert_uint_lt(lladd_page_count(b.db), PAGES); /* freed pages were reused */
}
END_TEST

/* Each thread has an extent, and replaces it with another, with relaxed durability. The device has
 * room for two extents per thread. So an allocation always succeeds, sometimes only after a
 * sync. */
enum { EXTENT = 100, REPLACED = 60 };

static void *replaces_extents(void *arg)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    lladd_pageno live = {0};
    (void)arg;
    o.durability = LLADD_DURABLE_LATER;
    for (int i = 0; i < REPLACED; i++) {
        struct lladd_txn *txn;
        ck_assert_int_eq(lladd_begin(b.db, &o, &txn, NULL), 0);
        if (live.v)
            ok(txn, lladd_extent_free(txn, live, EXTENT));
        ok(txn, lladd_extent_alloc(txn, EXTENT, LLADD_EXTENT_PAGED, &live));
        commit(txn);
    }
    return NULL;
}

START_TEST(relaxed_commits_on_a_full_device)
{
    uint64_t room = 2 * THREADS * EXTENT + 64; /* more pages, because some are lost to
                                                * fragmentation */
    fault_device_capacity(b.fd, fault_device_bytes(b.fd) + room * 4096);
    run(replaces_extents);
    fault_device_capacity(b.fd, UINT64_MAX);
}
END_TEST

/* ---- one counter ----------------------------------------------------------------------------- */

static void *count(void *arg)
{
    struct worker *w = arg;
    for (int round = 0; round < 200; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        int64_t delta = (int64_t)(seeded_next(&w->seed) % 100) - 50;
        for (int i = 0; i < 5; i++)
            ok(txn, lladd_counter_add(txn, page, 0, delta));
        if (round % 3) {
            commit(txn);
            w->sum += 5 * delta;
        } else {
            abort_txn(txn);
        }
    }
    return NULL;
}

START_TEST(all_threads_add_to_one_counter)
{
    int64_t sum = 0, want = 0;
    run(count);
    for (int i = 0; i < THREADS; i++)
        want += workers[i].sum;
    for (int round = 0; round < 2; round++) {
        ok_db(&b, lladd_counter_get(b.db, page, 0, &sum, &b.err));
        ck_assert_int_eq(sum, want);
        crash();
    }
}
END_TEST

/* ---- one heap -------------------------------------------------------------------------------- */

static void change(struct worker *w, struct lladd_txn *txn, unsigned n)
{
    unsigned char bytes[2000];
    for (unsigned i = 0; i < n; i++) {
        uint64_t r = seeded_next(&w->seed);
        size_t len = 8 + (r >> 8) % (r >> 3 & 7 ? 200 : 1900);
        memset(bytes, 'a' + w->id, sizeof bytes);
        unsigned k = w->n_mine ? (unsigned)(r >> 32) % w->n_mine : 0;
        if (w->n_mine == 0 || r % 4 < 2) {
            ok(txn, lladd_heap_insert(txn, heap, bytes, len, &w->mine[w->n_mine++]));
        } else if (r % 4 == 2) {
            ok(txn, lladd_heap_set(txn, heap, w->mine[k], bytes, len));
        } else {
            ok(txn, lladd_heap_delete(txn, heap, w->mine[k]));
            w->mine[k] = w->mine[--w->n_mine];
        }
    }
}

static void walk(struct worker *w)
{
    struct lladd_heap_cursor c;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_rid rid;
    struct lladd_record r;
    unsigned own = 0;
    int rc;
    lladd_heap_cursor_open(heap, &c);
    while ((rc = lladd_heap_cursor_next(&c, &rid, &r, &err)) == 0)
        own += r.bytes[0] == 'a' + w->id;
    ck_assert_msg(rc == LLADD_END, "%s", err.message);
    lladd_heap_cursor_close(&c);
    ck_assert_uint_eq(own, w->n_mine); /* the walk has met all own records */
}

static void *use_heap(void *arg)
{
    struct worker *w = arg;
    static _Thread_local struct lladd_rid saved[sizeof w->mine / sizeof w->mine[0]];
    for (int round = 0; round < 40; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        unsigned n = w->n_mine;
        memcpy(saved, w->mine, sizeof saved);
        change(w, txn, 20);
        if (round % 4 == 3) {
            abort_txn(txn);
            memcpy(w->mine, saved, sizeof saved);
            w->n_mine = n;
        } else {
            commit(txn);
        }
        if (round % 10 == 9)
            walk(w);
    }
    return NULL;
}

START_TEST(all_threads_use_one_heap)
{
    run(use_heap);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < THREADS; i++) {
            walk(&workers[i]);
            for (unsigned k = 0; k < workers[i].n_mine; k++) {
                unsigned char c = 0;
                ok_db(&b, lladd_heap_get(heap, workers[i].mine[k], &c, 1, NULL, &b.err));
                ck_assert_int_eq(c, 'a' + workers[i].id);
            }
        }
        crash();
    }
}
END_TEST

/* While one insert waits for a page that is held, another insert uses another page. */
static uint32_t finished;

static void *insert_one(void *arg)
{
    struct worker *w = arg;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_heap_insert(txn, heap, "b", 1, &w->mine[0]));
    commit(txn);
    lladd_atomic_add32(&finished, 1);
    lladd_word_wake(&finished, 1, UINT32_MAX);
    return NULL;
}

START_TEST(inserters_use_different_pages)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid r;
    struct lladd_page *held;
    ok(txn, lladd_heap_insert(txn, heap, "a", 1, &r));
    commit(txn);
    finished = 0;
    memset(workers, 0, sizeof workers);
    ok_db(&b, lladd_page_fix(b.db, r.page, LLADD_LATCH_SHARED, &held, &b.err));
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(lladd_thread_start(&workers[i].thread, insert_one, &workers[i]), 0);
    while (lladd_atomic_load32(&finished) == 0) /* until one insert ends while the page is held */
        lladd_word_wait(&finished, 0, UINT32_MAX, 0);
    lladd_page_unfix(b.db, held, LLADD_LATCH_SHARED);
    for (int i = 0; i < 2; i++)
        lladd_thread_join(&workers[i].thread);
    ck_assert_uint_ne(workers[0].mine[0].page.v, workers[1].mine[0].page.v);
}
END_TEST

/* ---- one slotted page ------------------------------------------------------------------------ */

static void *use_page(void *arg)
{
    struct worker *w = arg;
    for (int round = 0; round < 80; round++) {
        struct lladd_txn *txn = fixture_begin(&b);
        struct lladd_rid r[8];
        unsigned char bytes[400], got[400];
        unsigned n = 0;
        memset(bytes, w->id, sizeof bytes);
        for (int i = 0; i < 8; i++) {
            size_t len = seeded_next(&w->seed) % sizeof bytes;
            int rc = lladd_slotted_alloc(txn, page, bytes, len, 0, &r[n]);
            if (rc == LLADD_PAGE_FULL)
                continue;
            ck_assert_int_eq(rc, 0);
            n++;
        }
        for (unsigned i = 0; i < n; i++) {
            struct lladd_error err = LLADD_ERROR_INIT;
            size_t len;
            ck_assert_int_eq(lladd_slotted_read(b.db, r[i], got, sizeof got, &len, NULL, &err), 0);
            ck_assert_uint_eq(len, r[i].size);
            ck_assert_mem_eq(got, bytes, len);
        }
        if (round % 2) {
            abort_txn(txn);
            continue;
        }
        commit(txn);
        txn = fixture_begin(&b);
        for (unsigned i = 0; i < n; i++)
            ok(txn, lladd_slotted_free(txn, r[i]));
        if (round % 4 == 0) {
            abort_txn(txn);
            txn = fixture_begin(&b);
            for (unsigned i = 0; i < n; i++)
                ok(txn, lladd_slotted_free(txn, r[i]));
        }
        commit(txn);
    }
    return NULL;
}

START_TEST(all_threads_use_one_slotted_page)
{
    page = fixture_page(&b, "lladd.slotted");
    run(use_page);
    struct lladd_page *held;
    struct lladd_record r;
    ok_db(&b, lladd_page_fix(b.db, page, LLADD_LATCH_SHARED, &held, &b.err));
    struct lladd_view v = lladd_page_view(held);
    for (uint32_t s = 0; s < lladd_slotted_slots(v); s++)
        ck_assert(!lladd_slotted_record(v, s, &r));
    lladd_page_unfix(b.db, held, LLADD_LATCH_SHARED);
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

static void *use_roots(void *arg)
{
    struct worker *w = arg;
    for (int i = 0; i < 60; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        char name[] = "worker A name 00";
        name[7] = (char)('A' + w->id);
        name[14] = (char)('0' + i / 10);
        name[15] = (char)('0' + i % 10);
        ok(txn, lladd_root_set(txn, name, (struct lladd_root_value){(uint64_t)i, 0}));
        if (i % 3 == 2)
            abort_txn(txn);
        else
            commit(txn);
    }
    return NULL;
}

static int count_root(void *ctx, const char *name, struct lladd_root_value v)
{
    ck_assert_uint_ne(v.a % 3, 2);
    ck_assert_int_eq(strncmp(name, "worker ", 7), 0);
    ++*(int *)ctx;
    return 0;
}

START_TEST(all_threads_name_roots)
{
    int n = 0;
    run(use_roots);
    ok_db(&b, lladd_root_each(b.db, count_root, &n, &b.err));
    ck_assert_int_eq(n, THREADS * 40);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("threads");
    TCase *c = tcase_create("threads");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, no_page_has_two_owners);
    tcase_add_test(c, relaxed_commits_on_a_full_device);
    tcase_add_test(c, all_threads_add_to_one_counter);
    tcase_add_test(c, all_threads_use_one_heap);
    tcase_add_test(c, inserters_use_different_pages);
    tcase_add_test(c, all_threads_use_one_slotted_page);
    tcase_add_test(c, all_threads_name_roots);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
