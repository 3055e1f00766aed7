/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The n-th device call or the n-th allocation of a workload fails, for every n. Either this call
 * alone fails, or this call and all later ones. The result is an error code, and nothing leaks. A
 * call that fails for lack of memory has changed nothing, and can be repeated. When the file is
 * opened again, flushed pages are there. The tests run in memory, with both frame providers
 * (buffer/buffer.c).
 */
#include "buffer_fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 16, ALL = 60 };

struct work {
    struct fixture *r;
    uint64_t value[ALL];   /* what each page holds now */
    uint64_t flushed[ALL]; /* the newest value of each page that is known to be durable */
    uint64_t next;
    bool created;
    bool forever;
    bool patient; /* calls that fail for lack of memory are repeated */
    uint64_t failures;
};

/* Counts a failure, and checks that the error describes it. Returns rc. */
static int bad(struct work *w, int rc)
{
    if (rc == 0)
        return 0;
    w->failures++;
    ck_assert_ptr_nonnull(lladd_code_name(rc));
    ck_assert_int_eq(rc, w->r->err.code);
    ck_assert_int_ne(w->r->err.message[0], 0);
    return rc;
}

static int change(struct work *w, uint64_t n)
{
    struct fixture *r = w->r;
    struct ll_frame *f;
    bool fresh = n >= ll_buffer_page_count(r->b);
    unsigned how = LL_FIX_EXCLUSIVE | (fresh ? LL_FIX_FRESH : 0);
    int rc = ll_buffer_fix(r->b, lladd_page_of(n), how, &f, &r->err);
    if (rc != 0)
        return bad(w, rc);
    ck_assert_uint_eq(fixture_value(f->page.bytes, FIXTURE_PAGE), w->value[n]);
    w->value[n] = ++w->next;
    /* Every third page is written through the double-write area. */
    ll_buffer_protect(r->b, lladd_lsn_of(2));
    uint64_t lsn = fixture_change(r, f, w->value[n]);
    ll_page_set_base(f->page.bytes, lladd_lsn_of(n % 3 == 0 ? 1 : lsn));
    ll_buffer_unfix(r->b, f, LL_FIX_EXCLUSIVE);
    return 0;
}

static int look(struct work *w, uint64_t n)
{
    struct fixture *r = w->r;
    struct ll_frame *f;
    int rc = ll_buffer_fix(r->b, lladd_page_of(n), LL_FIX_SHARED, &f, &r->err);
    if (rc != 0)
        return bad(w, rc);
    ck_assert_uint_eq(fixture_value(f->page.bytes, FIXTURE_PAGE), w->value[n]);
    ll_buffer_unfix(r->b, f, LL_FIX_SHARED);
    return 0;
}

static int flush(struct work *w)
{
    lladd_lsn all = lladd_lsn_of(UINT64_MAX);
    int rc = bad(w, ll_buffer_flush(w->r->b, all, &w->r->err));
    if (rc == 0)
        memcpy(w->flushed, w->value, sizeof w->flushed);
    return rc;
}

static int extend(struct work *w)
{
    struct fixture *r = w->r;
    return bad(w, ll_buffer_extend(r->b, ll_buffer_page_count(r->b) + 20, &r->err));
}

static int bulk(struct work *w, bool write)
{
    enum { FIRST = 40, N = 4 };
    struct fixture *r = w->r;
    unsigned char bytes[N * FIXTURE_PAGE];
    memset(bytes, 0, sizeof bytes);
    for (uint64_t i = 0; i < N; i++)
        fixture_stamp(bytes + i * FIXTURE_PAGE, FIXTURE_PAGE, FIRST + i, 1, w->value[FIRST + i]);
    lladd_pageno first = lladd_page_of(FIRST);
    return bad(w, write ? fixture_bulk(r, first, N, bytes, true)
                        : ll_buffer_bulk_read(r->b, first, N, bytes, true, &r->err));
}

static int restore(struct work *w)
{
    return bad(w, ll_buffer_double_write_restore(w->r->b, NULL, &w->r->err));
}

static int reopen(struct work *w)
{
    struct fixture *r = w->r;
    if (r->b)
        ll_buffer_close(r->b);
    r->b = NULL;
    memcpy(w->value, w->flushed, sizeof w->value);
    return bad(w, ll_buffer_open(&r->cfg, &r->b, &r->err));
}

static int create(struct work *w)
{
    struct fixture *r = w->r;
    r->cfg.create = true;
    int rc = bad(w, ll_buffer_open(&r->cfg, &r->b, &r->err));
    r->cfg.create = false;
    w->created = rc == 0;
    return rc;
}

static int step(struct work *w)
{
    bool more;
    return bad(w, ll_buffer_step(w->r->b, &more, &w->r->err));
}

/* If `patient`, repeats a call that fails for lack of memory, at most three times. If the call
 * still fails, the function that contains DO returns the error. */
#define DO(call) \
    do { \
        int do_rc = (call); \
        for (int i = 0; do_rc == LLADD_NO_MEMORY && w->patient && i < 3; i++) \
            do_rc = (call); \
        if (do_rc != 0) \
            return do_rc; \
    } while (0)

static int run(struct work *w)
{
    DO(create(w));
    for (uint64_t n = 0; n < 30; n++)
        DO(change(w, n));
    DO(flush(w));
    DO(extend(w));
    for (uint64_t n = 0; n < 40; n++)
        DO(change(w, (n * 7) % 40));
    for (uint64_t n = 0; n < 40; n++)
        DO(look(w, n));
    DO(flush(w));
    DO(bulk(w, true));
    DO(bulk(w, false));
    for (uint64_t n = 0; n < 40; n++)
        DO(change(w, n));
    DO(step(w));
    DO(flush(w));
    DO(reopen(w));
    DO(restore(w));
    for (uint64_t n = 0; n < 40; n++)
        DO(look(w, n));
    for (uint64_t n = 39; n > 0; n--)
        DO(change(w, n));
    DO(flush(w));
    return 0;
}

static void begin(struct work *w, struct fixture *r, int kind)
{
    memset(w, 0, sizeof *w);
    w->r = r;
    fixture_init(r, kind, PAGES);
    r->cfg.dwb_name = "dwb";
}

/* Opens the file without failures. Asserts that each page has the newest value that is known to be
 * durable, or a newer value. */
static void look_back(struct work *w)
{
    struct fixture *r = w->r;
    if (r->b)
        ll_buffer_close(r->b);
    r->b = NULL;
    r->cfg.create = false;
    ll_poison_init(&r->poison);
    int rc = ll_buffer_open(&r->cfg, &r->b, &r->err);
    if (!w->created) {
        /* The failed creation has removed the file, unless the device fails for ever. */
        ck_assert(rc == LLADD_MISSING_FILE || w->forever);
        if (rc == 0)
            ll_buffer_close(r->b);
        (void)r->base->ops->unlink(r->base, "pages");
        (void)r->base->ops->unlink(r->base, "dwb");
        fixture_create(r);
        rc = 0;
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(ll_buffer_double_write_restore(r->b, NULL, &r->err), 0);
    for (uint64_t n = 0; n < ll_buffer_page_count(r->b) && n < ALL; n++)
        ck_assert_uint_ge(fixture_get(r, n), w->flushed[n]);
    fixture_close(r);
}

/* ---- device calls ---- */

START_TEST(every_device_call_fails)
{
    int kind = _i % 2;
    bool forever = _i >= 2;
    uint64_t n = 1, fired = 1;
    for (; fired > 0; n++) {
        struct fixture r;
        struct work w;
        begin(&w, &r, kind);
        w.forever = forever;
        fault_device_fail(r.fault, n, FAULT_ANY, EIO, forever);
        int rc = run(&w);
        fired = fault_device_fired(r.fault);
        ck_assert(rc == 0 || fired > 0);
        ck_assert(rc != 0 || fired == 0 || !forever); /* a bulk read tries once more */
        if (rc != 0) {
            enum lladd_root root = lladd_code_root(rc);
            ck_assert(root == LLADD_ROOT_POISONED || root == LLADD_ROOT_DATA);
            if (r.b && root == LLADD_ROOT_POISONED && ll_poisoned(&r.poison))
                ck_assert_int_eq(fixture_try(&r, 0, LL_FIX_SHARED), rc);
        }
        fault_device_fail(r.fault, 0, FAULT_ANY, 0, false);
        look_back(&w);
    }
    ck_assert_uint_gt(n, 150);
}
END_TEST

/* The power fails, in turn, at every call. Only the pages that are written through the double-write
 * area are checked. The other pages may be torn, because in a database images in the log would
 * protect them. */
START_TEST(the_power_fails_at_every_call)
{
    bool crashed = true;
    uint64_t n = 1;
    for (; crashed; n++) {
        struct fixture r;
        struct work w;
        begin(&w, &r, _i);
        fault_device_crash_at(r.fault, n);
        int rc = run(&w);
        crashed = fault_device_crashed(r.fault);
        ck_assert_int_eq(rc != 0, crashed);
        if (r.b)
            ll_buffer_close(r.b);
        r.b = NULL;
        ll_poison_init(&r.poison);
        fault_device_power_cycle(r.fault, &(struct fault_crash){FAULT_SUBSET, n, true});
        rc = ll_buffer_open(&r.cfg, &r.b, &r.err);
        if (rc == 0 && w.flushed[0] != 0) {
            ck_assert_int_eq(ll_buffer_double_write_restore(r.b, NULL, &r.err), 0);
            for (uint64_t p = 0; p < ll_buffer_page_count(r.b); p += 3)
                ck_assert_uint_ge(fixture_get(&r, p), p < ALL ? w.flushed[p] : 0);
        } else if (rc != 0) {
            ck_assert_uint_eq(w.flushed[0], 0);
        }
        fixture_close(&r);
    }
    ck_assert_uint_gt(n, 150);
}
END_TEST

/* ---- allocations ---- */

START_TEST(every_allocation_fails)
{
    int kind = _i % 2;
    bool forever = _i >= 2;
    uint64_t n = 1, fired = 1, survived = 0;
    for (; fired > 0; n++) {
        struct fixture r;
        struct work w;
        begin(&w, &r, kind);
        w.patient = !forever;
        w.forever = forever;
        fault_alloc_fail(&r.mem, n, forever);
        int rc = run(&w);
        fired = fault_alloc_fired(&r.mem);
        ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
        ck_assert(rc == 0 || forever); /* one failure must not make the call fail */
        ck_assert(!ll_poisoned(&r.poison));
        survived += rc == 0;
        fault_alloc_fail(&r.mem, 0, false);
        if (rc != 0 && r.b) { /* work can go on */
            ck_assert_int_eq(flush(&w), 0);
            for (uint64_t p = 0; p < ll_buffer_page_count(r.b) && p < ALL; p++)
                ck_assert_int_eq(look(&w, p), 0);
        }
        look_back(&w);
    }
    ck_assert_uint_gt(n, 8);
    ck_assert_uint_gt(survived, forever ? 0 : 8);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("buffer: faults");
    TCase *t = tcase_create("every n");
    tcase_add_loop_test(t, every_device_call_fails, 0, 4);
    tcase_add_loop_test(t, the_power_fails_at_every_call, 0, FIXTURE_HEAP_FILES);
    tcase_add_loop_test(t, every_allocation_fails, 0, 4);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
