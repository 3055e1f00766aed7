/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cooperative scheduler: it finds every interleaving of small programs, and no impossible one.
 * It reports deadlocks and lost wake-ups, with what each thread waits for. Time is virtual. A seed
 * gives the same run again.
 */
#include <check.h>
#include <lladd/error.h>
#include <lladd/sync.h>
#include <sim/schedule.h>
#include <string.h>

static struct lladd_dst dst;
static struct lladd_dst_fibers *fibers;
static struct ll_schedule policy;
static struct ll_all_choices all;
static struct ll_seeded_choices seeded;
static struct lladd_error err;

static void begin_with(enum ll_schedule_policy how, unsigned bound, ll_schedule_choose_fn *choose,
                       void *ctx, uint32_t points)
{
    memset(&dst, 0, sizeof dst);
    ll_schedule_init(&policy, how, bound, 100, choose, ctx);
    struct lladd_dst_schedule cfg = {
        .ctx = &policy, .turn = ll_schedule_turn, .points = points, .steps_max = 100000};
    ck_assert_int_eq(lladd_dst_fibers_new(&cfg, &fibers), 0);
}

/* Runs every schedule with at most `bound` preemptions. */
static void begin_all(unsigned bound, uint32_t points)
{
    ll_all_choices_init(&all);
    begin_with(LL_SCHEDULE_BOUNDED, bound, ll_all_choices_choose, &all, points);
}

static void end_case(void)
{
    ck_assert(!all.differs && !all.no_memory);
    ll_all_choices_free(&all);
    lladd_dst_fibers_free(fibers);
    ck_assert_ptr_null(lladd_dst_current());
}

static int run(void *(*fn)(void *), void *arg)
{
    ll_schedule_begin(&policy);
    err = (struct lladd_error)LLADD_ERROR_INIT;
    return lladd_dst_run(fibers, &dst, fn, arg, &err);
}

/* ---- two counters ---------------------------------------------------------------------------- */

struct shared {
    uint64_t counter;
    struct lladd_mutex mutex;
    bool locks;
    unsigned threads, rounds;
};

static void *increment(void *arg)
{
    struct shared *s = arg;
    for (unsigned i = 0; i < s->rounds; i++) {
        if (s->locks)
            lladd_mutex_lock(&s->mutex);
        uint64_t seen = lladd_atomic_load64(&s->counter);
        lladd_atomic_store64(&s->counter, seen + 1);
        if (s->locks)
            lladd_mutex_unlock(&s->mutex);
    }
    return NULL;
}

static void *count_together(void *arg)
{
    struct shared *s = arg;
    struct lladd_thread threads[3];
    s->counter = 0;
    for (unsigned i = 0; i < s->threads; i++)
        ck_assert_int_eq(lladd_thread_start(&threads[i], increment, s), 0);
    for (unsigned i = 0; i < s->threads; i++)
        lladd_thread_join(&threads[i]);
    return NULL;
}

/* The values of the counters at the end of all runs: one bit per value. */
static uint64_t values(unsigned bound, struct shared *s, unsigned *runs)
{
    uint64_t seen = 0;
    begin_all(bound, 0xffffffff);
    ck_assert_int_eq(lladd_mutex_init(&s->mutex, LLADD_RANK_LEAF, "counter"), 0);
    *runs = 0;
    do {
        ck_assert_int_eq(run(count_together, s), 0);
        seen |= UINT64_C(1) << s->counter;
        ++*runs;
    } while (ll_all_choices_next(&all));
    lladd_mutex_destroy(&s->mutex);
    end_case();
    return seen;
}

START_TEST(a_lost_update_is_found)
{
    struct shared s = {.threads = 2, .rounds = 1};
    unsigned runs;
    ck_assert_uint_eq(values(UINT32_MAX, &s, &runs), 1 << 1 | 1 << 2);
    ck_assert_uint_ge(runs, 6); /* the interleavings of two threads with two accesses each */
    ck_assert_uint_eq(values(1, &s, &runs), 1 << 1 | 1 << 2);
    /* The starting thread only waits, so without preemption the threads run one after the other. */
    ck_assert_uint_eq(values(0, &s, &runs), 1 << 2);
}
END_TEST

/* Two threads make two increments each. Two preemptions give every result that one preemption
 * gives, and also the result 2: a thread overwrites both increments of the other one with a value
 * that it read before them. Three preemptions give 2, 3 and 4. */
START_TEST(what_needs_two_preemptions_is_found_with_two)
{
    struct shared s = {.threads = 2, .rounds = 2};
    unsigned runs, more;
    uint64_t one = values(1, &s, &runs), two = values(2, &s, &more);
    ck_assert_uint_eq(two & 1 << 2, 1 << 2);
    ck_assert_uint_eq(one | two, two);
    ck_assert_uint_gt(more, runs);
    ck_assert_uint_eq(values(3, &s, &runs), 1 << 2 | 1 << 3 | 1 << 4);
}
END_TEST

START_TEST(with_a_mutex_no_update_is_lost)
{
    struct shared s = {.threads = 2, .rounds = 1, .locks = true};
    unsigned runs;
    ck_assert_uint_eq(values(UINT32_MAX, &s, &runs), 1 << 2);
    ck_assert_uint_gt(runs, 6);
    s.threads = 3;
    ck_assert_uint_eq(values(2, &s, &runs), 1 << 3);
}
END_TEST

/* ---- deadlock -------------------------------------------------------------------------------- */

static struct lladd_mutex a;

/* Uses trylock, because debug builds check the order of ranks in a lock, but not in a trylock. */
static void take(struct lladd_mutex *m)
{
    while (!lladd_mutex_trylock(m))
        lladd_yield();
}

struct pair {
    uint32_t a, b; /* 1: taken */
};

static void word_lock(uint32_t *word)
{
    uint32_t none = 0;
    while (!lladd_atomic_cas32(word, &none, 1)) {
        lladd_word_wait(word, 1, 1, 0);
        none = 0;
    }
}

static void word_unlock(uint32_t *word)
{
    lladd_atomic_store32(word, 0);
    lladd_word_wake(word, 1, 1);
}

static void *a_then_b(void *arg)
{
    struct pair *p = arg;
    word_lock(&p->a);
    word_lock(&p->b);
    word_unlock(&p->b);
    word_unlock(&p->a);
    return NULL;
}

static void *b_then_a(void *arg)
{
    struct pair *p = arg;
    word_lock(&p->b);
    word_lock(&p->a);
    word_unlock(&p->a);
    word_unlock(&p->b);
    return NULL;
}

static void *embrace(void *arg)
{
    struct lladd_thread thread;
    memset(arg, 0, sizeof(struct pair));
    ck_assert_int_eq(lladd_thread_start(&thread, b_then_a, arg), 0);
    a_then_b(arg);
    lladd_thread_join(&thread);
    return NULL;
}

START_TEST(a_deadlock_is_found_and_names_the_waiters)
{
    struct pair p;
    unsigned good = 0, dead = 0;
    begin_all(1, 0xffffffff);
    do {
        int rc = run(embrace, &p);
        good += rc == 0;
        dead += rc == LLADD_DEADLOCK;
        ck_assert(rc == 0 || rc == LLADD_DEADLOCK);
        if (rc) {
            ck_assert_ptr_nonnull(strstr(err.message, "fiber 0 waits for"));
            ck_assert_ptr_nonnull(strstr(err.message, "fiber 1 waits for"));
        }
    } while (ll_all_choices_next(&all));
    ck_assert_uint_ge(good, 1);
    ck_assert_uint_ge(dead, 1);
    end_case();
}
END_TEST

static void *never_unlocks(void *arg)
{
    (void)arg;
    take(&a);
    return NULL;
}

static void *waits_for_it(void *arg)
{
    struct lladd_thread thread;
    ck_assert_int_eq(lladd_thread_start(&thread, never_unlocks, arg), 0);
    lladd_thread_join(&thread);
    lladd_mutex_lock(&a);
    return NULL;
}

START_TEST(a_mutex_that_stays_locked_is_named_with_its_owner)
{
    begin_all(0, 0);
    ck_assert_int_eq(lladd_mutex_init(&a, LLADD_RANK_LEAF, "the latch"), 0);
    ck_assert_int_eq(run(waits_for_it, NULL), LLADD_DEADLOCK);
    ck_assert_str_eq(err.message, "fiber 0 waits for mutex \"the latch\", which fiber 1 holds");
    end_case();
}
END_TEST

/* ---- conditions ------------------------------------------------------------------------------ */

struct mailbox {
    struct lladd_mutex mutex;
    struct lladd_cond filled;
    bool full, looks_first;
};

static void *receive(void *arg)
{
    struct mailbox *m = arg;
    lladd_mutex_lock(&m->mutex);
    if (m->looks_first)
        while (!m->full)
            lladd_cond_wait(&m->filled, &m->mutex);
    else
        lladd_cond_wait(&m->filled, &m->mutex);
    lladd_mutex_unlock(&m->mutex);
    return NULL;
}

static void *send(void *arg)
{
    struct mailbox *m = arg;
    struct lladd_thread thread;
    m->full = false;
    ck_assert_int_eq(lladd_mutex_init(&m->mutex, LLADD_RANK_LEAF, "mailbox"), 0);
    ck_assert_int_eq(lladd_cond_init(&m->filled), 0);
    ck_assert_int_eq(lladd_thread_start(&thread, receive, m), 0);
    lladd_mutex_lock(&m->mutex);
    m->full = true;
    lladd_cond_signal(&m->filled);
    lladd_mutex_unlock(&m->mutex);
    lladd_thread_join(&thread);
    lladd_cond_destroy(&m->filled);
    lladd_mutex_destroy(&m->mutex);
    return NULL;
}

static unsigned lost_wakeups(bool looks_first)
{
    struct mailbox m = {.looks_first = looks_first};
    unsigned lost = 0, good = 0;
    begin_all(2, 0);
    do {
        int rc = run(send, &m);
        lost += rc == LLADD_DEADLOCK;
        good += rc == 0;
    } while (ll_all_choices_next(&all));
    ck_assert_uint_ge(good, 1);
    end_case();
    return lost;
}

START_TEST(a_lost_wakeup_is_found)
{
    ck_assert_uint_ge(lost_wakeups(false), 1);
    ck_assert_uint_eq(lost_wakeups(true), 0);
}
END_TEST

/* Which of two sleepers a signal wakes is a choice. */
struct queue {
    struct lladd_mutex mutex;
    struct lladd_cond go;
    unsigned tickets, waiting, first;
};

static void *stand(void *arg, unsigned me)
{
    struct queue *q = arg;
    lladd_mutex_lock(&q->mutex);
    q->waiting++;
    while (q->tickets == 0)
        lladd_cond_wait(&q->go, &q->mutex);
    q->tickets--;
    if (q->first == 0)
        q->first = me;
    lladd_mutex_unlock(&q->mutex);
    return NULL;
}

static void *stand_1(void *arg)
{
    return stand(arg, 1);
}

static void *stand_2(void *arg)
{
    return stand(arg, 2);
}

static void *serve(void *arg)
{
    struct queue *q = arg;
    struct lladd_thread t[2];
    memset(q, 0, sizeof *q);
    ck_assert_int_eq(lladd_mutex_init(&q->mutex, LLADD_RANK_LEAF, "queue"), 0);
    ck_assert_int_eq(lladd_cond_init(&q->go), 0);
    ck_assert_int_eq(lladd_thread_start(&t[0], stand_1, q), 0);
    ck_assert_int_eq(lladd_thread_start(&t[1], stand_2, q), 0);
    for (unsigned i = 0; i < 2; i++) {
        lladd_mutex_lock(&q->mutex);
        while (q->waiting < 2) {
            lladd_mutex_unlock(&q->mutex);
            lladd_yield();
            lladd_mutex_lock(&q->mutex);
        }
        q->tickets++;
        lladd_cond_signal(&q->go);
        lladd_mutex_unlock(&q->mutex);
    }
    lladd_thread_join(&t[0]);
    lladd_thread_join(&t[1]);
    lladd_cond_destroy(&q->go);
    lladd_mutex_destroy(&q->mutex);
    return NULL;
}

START_TEST(any_sleeper_may_be_woken_first)
{
    struct queue q;
    unsigned firsts = 0;
    begin_all(0, 0);
    do {
        ck_assert_int_eq(run(serve, &q), 0);
        firsts |= 1u << q.first;
    } while (ll_all_choices_next(&all));
    ck_assert_uint_eq(firsts, 1 << 1 | 1 << 2);
    end_case();
}
END_TEST

/* ---- time ------------------------------------------------------------------------------------ */

static void *sleeps(void *arg)
{
    uint64_t *woke = arg;
    uint32_t word = 0;
    uint64_t before = lladd_dst_now_ns();
    lladd_word_wait(&word, 0, 1, 3600000000000);
    *woke = lladd_dst_now_ns() - before;
    ck_assert_int_eq(lladd_mutex_init(&a, LLADD_RANK_LEAF, "a"), 0);
    struct lladd_cond c;
    ck_assert_int_eq(lladd_cond_init(&c), 0);
    lladd_mutex_lock(&a);
    ck_assert(!lladd_cond_wait_for(&c, &a, 1000000));
    lladd_mutex_unlock(&a);
    lladd_cond_destroy(&c);
    lladd_mutex_destroy(&a);
    return NULL;
}

START_TEST(an_hour_passes_at_once)
{
    uint64_t slept = 0;
    begin_all(0, 0);
    ck_assert_int_eq(run(sleeps, &slept), 0);
    ck_assert_uint_ge(slept, 3600000000000);
    ck_assert_uint_lt(slept, 3600000001000);
    ck_assert_uint_eq(lladd_dst_now_ns(), 0); /* outside a run */
    end_case();
}
END_TEST

/* Three threads spin, each until another one has set `stage`: none starves. */
struct relay {
    uint32_t stage;
};

static void *second(void *arg)
{
    struct relay *r = arg;
    while (lladd_atomic_load32(&r->stage) != 2)
        lladd_yield();
    return NULL;
}

static void *third(void *arg)
{
    struct relay *r = arg;
    while (lladd_atomic_load32(&r->stage) != 1)
        lladd_cpu_relax();
    lladd_atomic_store32(&r->stage, 2);
    return NULL;
}

static void *spin_together(void *arg)
{
    struct relay *r = arg;
    struct lladd_thread t[2];
    r->stage = 0;
    ck_assert_int_eq(lladd_thread_start(&t[0], second, r), 0);
    ck_assert_int_eq(lladd_thread_start(&t[1], third, r), 0);
    lladd_atomic_store32(&r->stage, 1);
    while (lladd_atomic_load32(&r->stage) != 2)
        lladd_yield();
    lladd_thread_join(&t[0]);
    lladd_thread_join(&t[1]);
    return NULL;
}

START_TEST(a_spinning_thread_gives_way)
{
    struct relay r;
    begin_all(2, 0xffffffff);
    do {
        ck_assert_int_eq(run(spin_together, &r), 0);
    } while (ll_all_choices_next(&all));
    end_case();
    for (uint64_t seed = 0; seed < 200; seed++) {
        seeded.state = seed;
        begin_with(LL_SCHEDULE_PCT, 3, ll_seeded_choices_choose, &seeded, 0xffffffff);
        ck_assert_int_eq(run(spin_together, &r), 0);
        end_case();
    }
}
END_TEST

/* ---- limits ---------------------------------------------------------------------------------- */

static void *for_ever(void *arg)
{
    (void)arg;
    for (;;)
        lladd_yield();
    return NULL;
}

static void *nothing(void *arg)
{
    (void)arg;
    return NULL;
}

static void *inside(void *arg)
{
    (void)arg;
    ck_assert_int_eq(lladd_dst_run(fibers, &dst, nothing, NULL, &err), LLADD_BAD_STATE);
    return NULL;
}

START_TEST(runs_that_do_not_end_are_ended)
{
    begin_all(0, 0);
    ck_assert_int_eq(run(for_ever, NULL), LLADD_TIMEOUT);
    ck_assert_int_eq(run(nothing, NULL), 0); /* and the stacks can be reused */
    ck_assert_int_eq(run(inside, NULL), 0);
    end_case();
}
END_TEST

static int stop(void *ctx, unsigned kind, unsigned n)
{
    (void)kind;
    (void)n;
    return --*(int *)ctx < 0 ? -1 : 0;
}

START_TEST(a_schedule_can_stop_a_run)
{
    struct shared s = {.threads = 2, .rounds = 100};
    int after = 20;
    begin_with(LL_SCHEDULE_BOUNDED, UINT32_MAX, stop, &after, 0xffffffff);
    ck_assert_int_eq(run(count_together, &s), LLADD_END);
    ck_assert_uint_lt(s.counter, 200);
    end_case();
}
END_TEST

static void *lights_out(void *arg)
{
    bool *after = arg;
    lladd_mutex_lock(&a);
    lladd_dst_stop();
    *after = true;
    return NULL;
}

START_TEST(a_fiber_can_stop_the_run_where_it_stands)
{
    bool after = false;
    begin_all(0, 0);
    ck_assert_int_eq(lladd_mutex_init(&a, LLADD_RANK_LEAF, "a"), 0);
    ck_assert_int_eq(run(lights_out, &after), LLADD_END);
    ck_assert(!after);
    lladd_dst_stop(); /* no effect outside a run */
    /* The mutex stays locked for ever, because a run that is stopped leaves everything as it is. */
    ck_assert(!lladd_mutex_trylock(&a));
    end_case();
}
END_TEST

static void *many(void *arg)
{
    struct lladd_thread t[64];
    unsigned *refused = arg;
    *refused = 0;
    for (unsigned i = 0; i < 64; i++) {
        int rc = lladd_thread_start(&t[i], nothing, NULL);
        ck_assert(rc == 0 || rc == LLADD_NO_THREAD);
        *refused += rc != 0;
    }
    for (unsigned i = 0; i < 64; i++)
        lladd_thread_join(&t[i]);
    ck_assert_int_eq(lladd_thread_start(&t[0], nothing, NULL), 0);
    lladd_thread_join(&t[0]);
    return NULL;
}

START_TEST(threads_can_run_out)
{
    unsigned refused;
    begin_all(0, 0);
    ck_assert_int_eq(run(many, &refused), 0);
    ck_assert_uint_gt(refused, 0);
    end_case();
}
END_TEST

/* ---- random schedules ------------------------------------------------------------------------ */

/* Both policies find the lost update, and the same seed gives the same run. */
START_TEST(a_seed_gives_the_same_run_again)
{
    struct shared s = {.threads = 3, .rounds = 3};
    unsigned lost = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        uint64_t counter[2];
        struct lladd_dst_run_stats stats[2];
        for (int again = 0; again < 2; again++) {
            seeded.state = seed;
            begin_with(_i ? LL_SCHEDULE_PCT : LL_SCHEDULE_BOUNDED, _i ? 3 : UINT32_MAX,
                       ll_seeded_choices_choose, &seeded, 0xffffffff);
            ck_assert_int_eq(run(count_together, &s), 0);
            counter[again] = s.counter;
            lladd_dst_run_stats_get(fibers, &stats[again]);
            end_case();
        }
        ck_assert_uint_eq(counter[0], counter[1]);
        ck_assert_mem_eq(&stats[0], &stats[1], sizeof stats[0]);
        lost += counter[0] < 9;
    }
    ck_assert_uint_gt(lost, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedule");
    TCase *t = tcase_create("schedule");
    tcase_add_test(t, a_lost_update_is_found);
    tcase_add_test(t, what_needs_two_preemptions_is_found_with_two);
    tcase_add_test(t, with_a_mutex_no_update_is_lost);
    tcase_add_test(t, a_deadlock_is_found_and_names_the_waiters);
    tcase_add_test(t, a_mutex_that_stays_locked_is_named_with_its_owner);
    tcase_add_test(t, a_lost_wakeup_is_found);
    tcase_add_test(t, any_sleeper_may_be_woken_first);
    tcase_add_test(t, an_hour_passes_at_once);
    tcase_add_test(t, a_spinning_thread_gives_way);
    tcase_add_test(t, runs_that_do_not_end_are_ended);
    tcase_add_test(t, a_schedule_can_stop_a_run);
    tcase_add_test(t, a_fiber_can_stop_the_run_where_it_stands);
    tcase_add_test(t, threads_can_run_out);
    tcase_add_loop_test(t, a_seed_gives_the_same_run_again, 0, 2);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
