/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Epochs: an object is released when no thread can read it any more, and then soon. A thread that
 * is parked in an epoch keeps all that is retired meanwhile, and nothing else; a thread that is
 * parked outside delays nothing. There is a slot for each thread that comes. Runs under ASan and
 * TSan, which see a release that comes too early. tests/sim/test_epoch.c tries the orders of a few
 * threads.
 */
#include "db_fixture.h"
#include "support/fixtures.h"

#include <lladd/epoch.h>
#include <lladd/sync.h>
#include <stdlib.h>

enum { SWEEP = 64, SWEEP_BYTES = 256 << 10, SLOTS = 32, THREADS = 6, WORDS = 4, SWAPS = 4000 };

struct object {
    struct lladd_retired retired;
    uint64_t value, twice;
};

static struct fixture r;
static struct lladd_epochs *epochs;
static uint64_t released; /* atomic */

static void begin_case(void)
{
    fixture_init(&r, 0);
    fixture_open(&r);
    ck_assert_int_eq(lladd_epochs_create(r.db, &epochs, &r.err), 0);
    lladd_atomic_store64(&released, 0);
}

static void end_case(void)
{
    lladd_epochs_destroy(epochs);
    fixture_free(&r); /* asserts that nothing has leaked */
}

static struct object *new_object(uint64_t value)
{
    struct object *o = lladd_mem_alloc(r.db, sizeof *o);
    sure(o != NULL, "memory");
    o->value = value;
    o->twice = 2 * value;
    return o;
}

/* Nothing may read the object: the allocator overwrites or unmaps it. */
static void release(void *ctx, struct lladd_retired *retired)
{
    struct object *o = (struct object *)retired;
    sure(ctx == &r, "another context");
    o->value = o->twice = UINT64_MAX;
    (void)lladd_atomic_add64(&released, 1);
    lladd_mem_free(r.db, o);
}

static struct lladd_epoch *enter(void)
{
    struct lladd_epoch *in = lladd_epoch_enter(epochs);
    sure(in != NULL, "an epoch");
    return in;
}

static void retire(struct lladd_epoch *in, size_t bytes)
{
    lladd_epoch_retire(epochs, in, &new_object(1)->retired, bytes, release, &r);
}

/* Each object is retired in a stay of its own. */
static void retire_some(unsigned n, size_t bytes)
{
    for (unsigned i = 0; i < n; i++) {
        struct lladd_epoch *in = enter();
        retire(in, bytes);
        lladd_epoch_leave(epochs, in);
    }
}

static void expect(uint64_t want_released, uint64_t want_waiting)
{
    ck_assert_uint_eq(lladd_atomic_load64(&released), want_released);
    ck_assert_uint_eq(lladd_epochs_waiting(epochs), want_waiting);
}

/* ---- one thread ------------------------------------------------------------------------------ */

START_TEST(a_slot_is_swept_after_64_objects)
{
    begin_case();
    retire_some(SWEEP - 1, 100);
    expect(0, (SWEEP - 1) * 100);
    retire_some(1, 100);
    expect(SWEEP, 0);
    /* A thread is in its own epoch, too. */
    struct lladd_epoch *in = enter();
    for (int i = 0; i < 3 * SWEEP; i++)
        retire(in, 100);
    expect(SWEEP, 3 * SWEEP * 100);
    lladd_epoch_leave(epochs, in);
    expect(4 * SWEEP, 0);
    end_case();
}
END_TEST

START_TEST(a_slot_is_swept_after_256_kib)
{
    begin_case();
    retire_some(1, SWEEP_BYTES - 1);
    expect(0, SWEEP_BYTES - 1);
    retire_some(1, 1);
    expect(2, 0);
    end_case();
}
END_TEST

START_TEST(sweeps_and_destruction_release_the_rest)
{
    begin_case();
    retire_some(10, 7);
    expect(0, 70);
    lladd_epochs_sweep(epochs);
    expect(10, 0);
    retire_some(10, 7);
    struct lladd_epoch *in = enter();
    lladd_epochs_sweep(epochs); /* the slot is in use, and is left out */
    expect(10, 70);
    lladd_epoch_leave(epochs, in);
    lladd_epochs_destroy(epochs);
    ck_assert_uint_eq(lladd_atomic_load64(&released), 20);
    epochs = NULL;
    end_case();
}
END_TEST

#ifdef LLADD_DEBUG
static void destroy(void *arg)
{
    (void)arg;
    lladd_epochs_destroy(epochs);
}

START_TEST(destruction_notices_a_stay)
{
    begin_case();
    struct lladd_epoch *in = enter();
    ck_assert(dies_saying(destroy, NULL, "epochs are destroyed before all stays were left"));
    lladd_epoch_leave(epochs, in);
    end_case();
}
END_TEST
#endif

/* ---- slots ----------------------------------------------------------------------------------- */

START_TEST(each_stay_has_a_slot_of_its_own)
{
    enum { STAYS = 3 * SLOTS + 1 };
    struct lladd_epoch *in[STAYS];
    bool taken[4 * SLOTS] = {false};
    begin_case();
    for (int i = 0; i < STAYS; i++) {
        in[i] = enter();
        unsigned slot = lladd_epoch_slot(in[i]);
        ck_assert_uint_lt(slot, (unsigned)(i / SLOTS + 1) * SLOTS);
        ck_assert(!taken[slot]);
        taken[slot] = true;
        retire(in[i], 1);
    }
    lladd_epochs_sweep(epochs);
    expect(0, STAYS);
    for (int i = 0; i < STAYS; i++)
        lladd_epoch_leave(epochs, in[i]);
    lladd_epochs_sweep(epochs);
    expect(STAYS, 0);
    /* A slot of the first block serves the next stay. */
    in[0] = enter();
    ck_assert_uint_lt(lladd_epoch_slot(in[0]), SLOTS);
    lladd_epoch_leave(epochs, in[0]);
    end_case();
}
END_TEST

START_TEST(without_memory_no_more_threads_enter)
{
    struct lladd_epoch *in[SLOTS + 1];
    struct lladd_epochs *none;
    begin_case();
    for (int i = 0; i < SLOTS; i++)
        in[i] = enter();
    fault_alloc_fail(&r.mem, 1, true);
    ck_assert_ptr_null(lladd_epoch_enter(epochs));
    ck_assert_int_eq(lladd_epochs_create(r.db, &none, &r.err), LLADD_NO_MEMORY);
    ck_assert_ptr_null(none);
    lladd_epoch_leave(epochs, in[5]); /* its slot is free for another thread */
    in[5] = enter();
    fault_alloc_fail(&r.mem, 2, false);
    ck_assert_int_eq(lladd_epochs_create(r.db, &none, &r.err), LLADD_NO_MEMORY);
    fault_alloc_fail(&r.mem, 0, false);
    in[SLOTS] = enter();
    for (int i = 0; i <= SLOTS; i++)
        lladd_epoch_leave(epochs, in[i]);
    end_case();
}
END_TEST

/* ---- parked threads -------------------------------------------------------------------------- */

static struct lladd_mutex mutex;
static struct lladd_cond cond;
static unsigned stage; /* under the mutex */

static void go_to(unsigned next)
{
    lladd_mutex_lock(&mutex);
    stage = next;
    lladd_cond_broadcast(&cond);
    lladd_mutex_unlock(&mutex);
}

static void wait_for(unsigned want)
{
    lladd_mutex_lock(&mutex);
    while (stage < want)
        lladd_cond_wait(&cond, &mutex);
    lladd_mutex_unlock(&mutex);
}

static uint64_t shared; /* atomic: struct object * */

/* Parks in an epoch with an object that is retired meanwhile, then outside. */
static void *parks(void *arg)
{
    (void)arg;
    struct lladd_epoch *in = enter();
    const struct object *o = (const struct object *)(uintptr_t)lladd_atomic_look64(&shared);
    go_to(1);
    wait_for(2);
    sure(o->value == 7 && o->twice == 14, "an object was released under a parked thread");
    lladd_epoch_leave(epochs, in);
    go_to(3);
    wait_for(4);
    return NULL;
}

START_TEST(a_parked_thread_keeps_what_it_may_see)
{
    struct lladd_thread thread;
    begin_case();
    stage = 0;
    ck_assert_int_eq(lladd_mutex_init(&mutex, LLADD_RANK_EXTENSION, "test"), 0);
    ck_assert_int_eq(lladd_cond_init(&cond), 0);
    lladd_atomic_store64(&shared, (uintptr_t)new_object(7));
    retire_some(10, 1); /* before the thread enters */
    lladd_epochs_sweep(epochs);
    retire_some(10, 1);
    ck_assert_int_eq(lladd_thread_start(&thread, parks, NULL), 0);
    wait_for(1);
    struct lladd_epoch *in = enter();
    uint64_t old = lladd_atomic_exchange64(&shared, 0);
    lladd_epoch_retire(epochs, in, &((struct object *)(uintptr_t)old)->retired, 1, release, &r);
    lladd_epoch_leave(epochs, in);
    retire_some(10 * SWEEP, 1);
    lladd_epochs_sweep(epochs);
    /* The last ten before it entered may have the number of its epoch. */
    ck_assert_uint_le(lladd_atomic_load64(&released), 20);
    ck_assert_uint_ge(lladd_epochs_waiting(epochs), 10 * SWEEP + 1);
    go_to(2);
    wait_for(3); /* it has left the epoch, and is parked again */
    retire_some(SWEEP, 1);
    lladd_epochs_sweep(epochs);
    expect(20 + 1 + 11 * SWEEP, 0);
    go_to(4);
    lladd_thread_join(&thread);
    lladd_cond_destroy(&cond);
    lladd_mutex_destroy(&mutex);
    end_case();
}
END_TEST

static void *retires_and_ends(void *arg)
{
    (void)arg;
    retire_some(1000, 1000);
    return NULL;
}

/* What piled up in the slot of a thread that has ended is released by the next thread that sweeps
 * its own slot. */
START_TEST(a_sweep_takes_along_what_piled_up)
{
    struct lladd_thread thread;
    begin_case();
    struct lladd_epoch *in = enter();
    ck_assert_int_eq(lladd_thread_start(&thread, retires_and_ends, NULL), 0);
    lladd_thread_join(&thread);
    expect(0, 1000 * 1000);
    lladd_epoch_leave(epochs, in);
    expect(0, 1000 * 1000);
    retire_some(SWEEP - 1, 1);
    expect(0, 1000 * 1000 + SWEEP - 1);
    retire_some(1, 1);
    expect(1000 + SWEEP, 0);
    end_case();
}
END_TEST

/* ---- many threads ---------------------------------------------------------------------------- */

static uint64_t words[WORDS]; /* atomic: struct object * */

struct job {
    struct lladd_thread thread;
    uint64_t seed;
};

static void look(const uint64_t *word)
{
    const struct object *o = (const struct object *)(uintptr_t)lladd_atomic_look64(word);
    sure(o->twice == 2 * o->value && o->value != UINT64_MAX, "an object was released too early");
}

static void swap(struct lladd_epoch *in, uint64_t *word, uint64_t value)
{
    struct object *o = new_object(value);
    uint64_t was = lladd_atomic_look64(word);
    if (!lladd_atomic_cas64(word, &was, (uintptr_t)o)) {
        lladd_mem_free(r.db, o);
        return;
    }
    lladd_epoch_retire(epochs, in, &((struct object *)(uintptr_t)was)->retired, sizeof *o, release,
                       &r);
}

static void *read_and_swap(void *arg)
{
    struct job *j = arg;
    for (unsigned i = 0; i < SWAPS; i++) {
        uint64_t random = seeded_next(&j->seed);
        struct lladd_epoch *in = enter();
        look(&words[random % WORDS]);
        if (random & 64)
            swap(in, &words[random >> 8 & (WORDS - 1)], random >> 16);
        look(&words[random >> 4 & (WORDS - 1)]);
        lladd_epoch_leave(epochs, in);
        if (random % 512 == 0)
            lladd_epochs_sweep(epochs);
    }
    return NULL;
}

START_TEST(threads_never_see_a_released_object)
{
    struct job jobs[THREADS];
    begin_case();
    for (int i = 0; i < WORDS; i++)
        lladd_atomic_store64(&words[i], (uintptr_t)new_object(1));
    for (unsigned i = 0; i < THREADS; i++) {
        jobs[i].seed = i + 1;
        ck_assert_int_eq(lladd_thread_start(&jobs[i].thread, read_and_swap, &jobs[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        lladd_thread_join(&jobs[i].thread);
    ck_assert_uint_gt(lladd_atomic_load64(&released), SWAPS / 4);
    lladd_epochs_sweep(epochs);
    ck_assert_uint_eq(lladd_epochs_waiting(epochs), 0);
    for (int i = 0; i < WORDS; i++)
        lladd_mem_free(r.db, (void *)(uintptr_t)lladd_atomic_load64(&words[i]));
    end_case();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("epochs");
    TCase *c = tcase_create("epochs");
    tcase_add_test(c, a_slot_is_swept_after_64_objects);
    tcase_add_test(c, a_slot_is_swept_after_256_kib);
    tcase_add_test(c, sweeps_and_destruction_release_the_rest);
#ifdef LLADD_DEBUG
    tcase_add_test(c, destruction_notices_a_stay);
#endif
    tcase_add_test(c, each_stay_has_a_slot_of_its_own);
    tcase_add_test(c, without_memory_no_more_threads_enter);
    tcase_add_test(c, a_parked_thread_keeps_what_it_may_see);
    tcase_add_test(c, a_sweep_takes_along_what_piled_up);
    tcase_add_test(c, threads_never_see_a_released_object);
    suite_add_tcase(s, c);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
