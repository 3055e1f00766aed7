/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Epochs, in every order of a few threads: a reader, a writer that replaces objects and retires
 * them, and a thread that sweeps. Every access to a shared word is a point where another thread may
 * go on. No reader ever sees a released object, and at the end all are released.
 */
#include "db_fixture.h"

#include <lladd/dst.h>
#include <lladd/epoch.h>
#include <lladd/sync.h>
#include <sim/schedule.h>

enum { OBJECTS = 4, THREADS = 3, SWEEP_BYTES = 256 << 10 };

struct object {
    struct lladd_retired retired;
    uint64_t released;
};

static struct fixture r;
static struct lladd_epochs *epochs;
static struct object objects[OBJECTS];
static uint64_t word, next, seen_released;

static void release(void *ctx, struct lladd_retired *retired)
{
    (void)ctx;
    lladd_atomic_store64(&((struct object *)retired)->released, 1);
}

static void *reads(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        struct lladd_epoch *in = lladd_epoch_enter(epochs);
        struct object *o = (struct object *)(uintptr_t)lladd_atomic_look64(&word);
        seen_released |= lladd_atomic_load64(&o->released);
        lladd_epoch_leave(epochs, in);
    }
    return NULL;
}

/* Retires with so many bytes that every leave sweeps. */
static void *replaces(void *arg)
{
    (void)arg;
    for (int i = 0; i + 1 < OBJECTS; i++) {
        struct lladd_epoch *in = lladd_epoch_enter(epochs);
        struct object *mine = &objects[lladd_atomic_add64(&next, 1)];
        struct object *old = (void *)(uintptr_t)lladd_atomic_exchange64(&word, (uintptr_t)mine);
        lladd_epoch_retire(epochs, in, &old->retired, SWEEP_BYTES, release, NULL);
        lladd_epoch_leave(epochs, in);
    }
    return NULL;
}

static void *sweeps(void *arg)
{
    (void)arg;
    lladd_epochs_sweep(epochs);
    return NULL;
}

static void *all(void *arg)
{
    static void *(*const jobs[THREADS])(void *) = {reads, replaces, sweeps};
    struct lladd_thread threads[THREADS];
    (void)arg;
    for (int i = 0; i < THREADS; i++)
        if (lladd_thread_start(&threads[i], jobs[i], NULL))
            lladd_dst_stop();
    for (int i = 0; i < THREADS; i++)
        lladd_thread_join(&threads[i]);
    return NULL;
}

static void run_once(struct lladd_dst_fibers *fibers, struct ll_schedule *policy)
{
    struct lladd_dst dst = {0};
    for (int i = 0; i < OBJECTS; i++)
        objects[i].released = 0;
    word = (uintptr_t)&objects[0];
    next = 1;
    seen_released = 0;
    ll_schedule_begin(policy);
    int rc = lladd_dst_run(fibers, &dst, all, NULL, &r.err);
    ck_assert_msg(rc == 0, "%s", r.err.message);
    ck_assert_msg(!seen_released, "a reader has seen a released object");
    lladd_epochs_sweep(epochs);
    ck_assert_uint_eq(lladd_epochs_waiting(epochs), 0);
    for (int i = 0; i + 1 < OBJECTS; i++)
        ck_assert_uint_eq(objects[i].released, 1);
    ck_assert_uint_eq(objects[OBJECTS - 1].released, 0);
}

static struct lladd_dst_fibers *begin_case(struct ll_schedule *policy)
{
    struct lladd_dst_schedule cfg = {
        .ctx = policy, .turn = ll_schedule_turn, .points = UINT32_MAX, .steps_max = 100000};
    struct lladd_dst_fibers *fibers;
    fixture_init(&r, 0);
    fixture_open(&r);
    ck_assert_int_eq(lladd_epochs_create(r.db, &epochs, &r.err), 0);
    ck_assert_int_eq(lladd_dst_fibers_new(&cfg, &fibers), 0);
    return fibers;
}

static void end_case(struct lladd_dst_fibers *fibers)
{
    lladd_dst_fibers_free(fibers);
    lladd_epochs_destroy(epochs);
    fixture_free(&r);
}

/* Every schedule with one preemption. */
START_TEST(in_every_order_nothing_is_released_too_early)
{
    struct ll_all_choices choices;
    struct ll_schedule policy;
    unsigned runs = 0;
    ll_all_choices_init(&choices);
    ll_schedule_init(&policy, LL_SCHEDULE_BOUNDED, 1, 0, ll_all_choices_choose, &choices);
    struct lladd_dst_fibers *fibers = begin_case(&policy);
    do {
        run_once(fibers, &policy);
        runs++;
    } while (ll_all_choices_next(&choices));
    ck_assert(!choices.differs && !choices.no_memory);
    ck_assert_uint_gt(runs, 1000);
    ll_all_choices_free(&choices);
    end_case(fibers);
}
END_TEST

/* Random priorities, for orders that need more preemptions. */
START_TEST(nor_in_random_orders)
{
    enum { RUNS = 20000 };
    struct ll_seeded_choices choices = {.state = 1};
    struct ll_schedule policy;
    ll_schedule_init(&policy, LL_SCHEDULE_PCT, 4, 400, ll_seeded_choices_choose, &choices);
    struct lladd_dst_fibers *fibers = begin_case(&policy);
    for (unsigned i = 0; i < RUNS; i++)
        run_once(fibers, &policy);
    end_case(fibers);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("epochs, in every order");
    TCase *c = tcase_create("orders");
    tcase_add_test(c, in_every_order_nothing_is_released_too_early);
    tcase_add_test(c, nor_in_random_orders);
    suite_add_tcase(s, c);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
