/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power failures (REC-1). They come at device calls of a workload, then at device calls of the
 * recovery, then at device calls of the recovery from that second crash. After each recovery the
 * database must have one of the possible states (history.h), and accept new transactions.
 *
 * One run of the workload gives all its crash states. Before a device call, the device computes
 * what a crash would leave. This state is stored with a copy of the model at that moment. Equal
 * states are examined once. The recoveries from these states give the next generation of states.
 */
#include "support/fixtures.h"
#include "workload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state after a crash, and the model that it must match. */
struct crash {
    struct crash *next;
    struct lladd_device *dev;
    struct history h;
    unsigned depth; /* number of crashes so far */
    char where[96];
};

/* Which crash states a generation takes from each device call. */
struct plan {
    unsigned depth;   /* number of generations */
    unsigned subsets; /* random states per call; in every second of them, writes are torn */
    /* Not every device call gives states: in the workload one call in `first_one_in` does, in
     * recoveries one call in `one_in`. */
    unsigned first_one_in, one_in;
    bool kill;                     /* take the state in which all writes survive, too */
    bool full;                     /* the disk is full when the database is opened again */
    /* The workload; NULL: workload_run. */
    int (*play)(struct fixture *, struct history *, struct lladd_error *);
};

struct explorer {
    struct plan plan;
    struct fixture r; /* gets a new fault device for each state */
    struct crash *todo;
    uint64_t *seen;
    size_t n_seen, cap_seen;
    struct history *h; /* the history of the current run */
    unsigned depth;
    const char *where;
    uint64_t seed;
    bool synced; /* the previous call was a sync */
    unsigned states, recovered, same;
};

/* ---- states that are equal --------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

struct hashing {
    struct lladd_device *dev;
    const char *dir;
    uint64_t sum; /* sum of the files' hashes, so that the order of files does not matter */
};

static int hash_name(void *ctx, const char *name)
{
    struct hashing *s = ctx;
    char path[300];
    struct lladd_file *f;
    uint64_t size, hash = UINT64_C(0xcbf29ce484222325);
    snprintf(path, sizeof path, "%s%s%s", s->dir, *s->dir ? "/" : "", name);
    hash = mix(hash, path, strlen(path));
    int rc = s->dev->ops->open(s->dev, path, LLADD_OPEN_READ_ONLY, &f);
    if (rc == -EISDIR) {
        struct hashing below = {s->dev, path, 0};
        ck_assert_int_eq(s->dev->ops->list(s->dev, path, hash_name, &below), 0);
        s->sum += hash + below.sum;
        return 0;
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(s->dev->ops->size(s->dev, f, &size), 0);
    unsigned char *bytes = malloc(size + 8);
    ck_assert_int_eq(s->dev->ops->pread(s->dev, f, bytes, size, 0), (int64_t)size);
    for (uint64_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    s->sum += mix(hash, &size, sizeof size);
    free(bytes);
    ck_assert_int_eq(s->dev->ops->close(s->dev, f), 0);
    return 0;
}

static uint64_t hash_of(struct lladd_device *dev, const struct history *h)
{
    struct hashing all = {dev, "", 0};
    ck_assert_int_eq(dev->ops->list(dev, "", hash_name, &all), 0);
    uint64_t hash = mix(all.sum, &h->acked, sizeof h->acked);
    hash = mix(hash, &h->n_states, sizeof h->n_states);
    for (unsigned i = 0; i < h->n_prepared; i++)
        hash = mix(hash, &h->prepared[i].fate, sizeof h->prepared[i].fate);
    return hash;
}

/* Returns whether the state was seen before, and adds it to the set. */
static bool seen(struct explorer *e, uint64_t hash)
{
    if (2 * e->n_seen >= e->cap_seen) {
        size_t cap = e->cap_seen ? 2 * e->cap_seen : 4096;
        uint64_t *fresh = calloc(cap, sizeof *fresh);
        for (size_t i = 0; i < e->cap_seen; i++) {
            size_t at = e->seen[i] % cap;
            while (e->seen[i] && fresh[at])
                at = (at + 1) % cap;
            if (e->seen[i])
                fresh[at] = e->seen[i];
        }
        free(e->seen);
        e->seen = fresh;
        e->cap_seen = cap;
    }
    hash |= 1;
    size_t at = hash % e->cap_seen;
    while (e->seen[at] && e->seen[at] != hash)
        at = (at + 1) % e->cap_seen;
    bool there = e->seen[at] != 0;
    e->seen[at] = hash;
    e->n_seen += !there;
    return there;
}

/* ---- collecting -------------------------------------------------------------------------- */

static void collect(struct explorer *e, const struct fault_crash *how, uint64_t call,
                    const char *mode)
{
    struct crash *c = calloc(1, sizeof *c);
    ck_assert_ptr_nonnull(c);
    ck_assert_int_eq(lladd_device_memory(&c->dev), 0);
    fault_device_crash(e->r.fd, how, c->dev);
    if (seen(e, hash_of(c->dev, e->h))) {
        e->same++;
        lladd_device_close(c->dev);
        free(c);
        return;
    }
    history_copy(&c->h, e->h);
    c->depth = e->depth + 1;
    snprintf(c->where, sizeof c->where, "%s/%llu%s", e->where, (unsigned long long)call, mode);
    c->next = e->todo;
    e->todo = c;
    e->states++;
}

static void before_call(void *ctx, uint64_t number, unsigned kind, const char *name)
{
    struct explorer *e = ctx;
    (void)name;
    if (kind & (FAULT_CLOSE | FAULT_PREAD | FAULT_SIZE | FAULT_LIST))
        return;
    bool durable_changed = e->synced;
    e->synced = kind & (FAULT_SYNC | FAULT_SYNC_DIR);
    unsigned one_in = e->depth ? e->plan.one_in : e->plan.first_one_in;
    if (one_in > 1 && seeded_next(&e->seed) % one_in != 0)
        return;
    if (durable_changed)
        collect(e, &fault_power, number, "");
    if (fault_device_pending(e->r.fd) == 0)
        return;
    if (e->plan.kill)
        collect(e, &fault_kill, number, "k");
    for (unsigned i = 0; i < e->plan.subsets; i++) {
        struct fault_crash some = {FAULT_SUBSET, seeded_next(&e->seed), i % 2 == 1};
        collect(e, &some, number, i % 2 ? "t" : "s");
    }
}

/* Puts the fixture on a device. */
static void mount(struct explorer *e, struct lladd_device *dev)
{
    fault_device_free(e->r.fd);
    lladd_device_close(e->r.base);
    e->r.base = dev;
    e->r.fd = fault_device_new(dev);
    e->r.options.device = fault_device_dev(e->r.fd);
}

static void recover(struct explorer *e, struct crash *c)
{
    e->depth = c->depth;
    e->where = c->where;
    e->h = &c->h;
    c->h.where = c->where;
    mount(e, c->dev);
    e->synced = false;
    if (e->plan.full)
        fault_device_capacity(e->r.fd, fault_device_bytes(e->r.fd));
    if (c->depth < e->plan.depth)
        fault_device_hook(e->r.fd, before_call, e);
    int rc = fixture_try_open(&e->r);
    ck_assert_msg(rc == 0, "%s: open: %s: %s", c->where, lladd_code_name(rc), e->r.err.message);
    fault_device_hook(e->r.fd, NULL, NULL);
    history_check(&c->h, e->r.db);
    fault_device_capacity(e->r.fd, UINT64_MAX);
    history_go_on(&c->h, e->r.db);
    if (e->recovered++ % 4 == 0) { /* after a clean close, the next open has nothing to recover */
        fixture_reopen(&e->r);
        ck_assert_uint_eq(fixture_stats(&e->r).recovered_undone_txns, 0);
        ck_assert_uint_eq(fixture_stats(&e->r).recovered_redone, 0);
        history_check(&c->h, e->r.db);
    }
    lladd_db_kill(e->r.db);
    e->r.db = NULL;
    history_free(&c->h);
    free(c);
}

/* Asserts that the workload has used all mechanisms that it is meant to use. */
static void expect_everything_covered(struct explorer *e, uint32_t open_flags)
{
    struct lladd_stats s = fixture_stats(&e->r);
    ck_assert_uint_gt(s.evictions, W_PAGES);
    ck_assert_uint_gt(s.checkpoints, 3);
    ck_assert(open_flags ? s.page_images == 0 : s.page_images > 10);
    ck_assert_uint_gt(s.log_oldest, 5 * 4096);
    ck_assert_uint_gt(s.log_tail, s.log_oldest + 4096);
}

static void explore_with(struct explorer *e, const struct plan *plan, unsigned fixture_flags,
                         uint32_t open_flags)
{
    struct history h;
    memset(e, 0, sizeof *e);
    e->plan = *plan;
    e->seed = 1;
    fixture_init(&e->r, fixture_flags);
    workload_options(&e->r);
    e->r.options.flags |= open_flags;
    fixture_open(&e->r);
    workload_prepare(&e->r, &h);
    e->h = &h;
    e->where = "w";
    fault_device_hook(e->r.fd, before_call, e);
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = plan->play ? plan->play(&e->r, &h, &err) : workload_run(&e->r, &h, &err);
    ck_assert_msg(rc == 0, "the workload itself: %d %s", rc, err.message);
    if (!plan->play)
        expect_everything_covered(e, open_flags);
    fixture_close(&e->r);
    history_free(&h);
    while (e->todo) {
        struct crash *c = e->todo;
        e->todo = c->next;
        recover(e, c);
    }
    fprintf(stderr, "%u crash states, %u of them equal to others\n", e->states + e->same, e->same);
    free(e->seen);
    fixture_free(&e->r);
}

static void explore(struct explorer *e, const struct plan *plan, unsigned fixture_flags)
{
    explore_with(e, plan, fixture_flags, 0);
}

static bool nightly(void)
{
    return getenv("LLADD_NIGHTLY") != NULL;
}

/* Runs the workload until a power failure at its n-th call. Leaves the device after the crash
 * `how`, and no handle. Returns false if the workload has fewer calls. */
static bool workload_until(struct explorer *e, struct history *h, uint64_t n, unsigned flags,
                           const struct fault_crash *how)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    fixture_init(&e->r, flags);
    workload_options(&e->r);
    fixture_open(&e->r);
    workload_prepare(&e->r, h);
    fault_device_crash_at(e->r.fd, n);
    int rc = workload_run(&e->r, h, &err);
    bool crashed = fault_device_crashed(e->r.fd);
    ck_assert_msg(crashed == (rc != 0), "call %llu: %d %s", (unsigned long long)n, rc, err.message);
    fixture_crash(&e->r, how);
    return crashed;
}

/* ---- cases ------------------------------------------------------------------------------- */

/* Instrumented builds are for the code of recovery, which is much the same for all states. So in
 * the larger cases they examine only one crash state in ONE_IN. */
#ifdef LL_TEST_SHORT
#define ONE_IN 4
#else
#define ONE_IN 1
#endif

START_TEST(power_fails_at_every_call)
{
    struct explorer e;
    struct plan plan = {.depth = 1, .kill = true, .subsets = nightly() ? 40 : 4};
    explore(&e, &plan, _i ? FIXTURE_RESERVED : 0);
    ck_assert_uint_gt(e.recovered, 200);
}
END_TEST

START_TEST(power_fails_at_every_call_of_recovery_too)
{
    struct explorer e;
    struct plan plan = {.depth = 2, .first_one_in = ONE_IN};
    explore(&e, &plan, _i ? FIXTURE_RESERVED : 0);
    ck_assert_uint_gt(e.recovered, 500 / ONE_IN);
}
END_TEST

START_TEST(power_fails_a_third_time)
{
    struct explorer e;
    struct plan plan = {.depth = 3, .subsets = 1, .kill = true, .one_in = 17};
    plan.first_one_in = 13 * ONE_IN * ONE_IN;
    if (nightly())
        plan.first_one_in = plan.one_in = 1;
    explore(&e, &plan, 0);
    ck_assert_uint_gt(e.recovered, 200 / ONE_IN);
}
END_TEST

/* REC-4. The process dies, and its unsynced writes can be read. Then the power fails, at every call
 * of the recovery, which reads these writes, and also after the recovery, which has made them
 * durable. */
START_TEST(power_fails_after_the_process_was_killed)
{
    unsigned runs = 0;
    uint64_t by = nightly() ? 1 : 17;
    for (uint64_t n = 1;; n += by) {
        struct explorer e = {.plan = {.depth = 1}, .seed = n, .where = "killed"};
        struct history h, kept;
        bool crashed = workload_until(&e, &h, n, runs % 2 ? FIXTURE_RESERVED : 0, &fault_kill);
        history_copy(&kept, &h);
        e.h = &kept;
        e.synced = true;
        h.where = kept.where = "killed";
        fault_device_hook(e.r.fd, before_call, &e);
        fixture_open(&e.r);
        fault_device_hook(e.r.fd, NULL, NULL);
        history_check(&h, e.r.db); /* the state that this recovery has shown must stay */
        fixture_crash(&e.r, &fault_power);
        fixture_open(&e.r);
        history_check(&h, e.r.db);
        history_go_on(&h, e.r.db);
        fixture_close(&e.r);
        while (e.todo) {
            struct crash *c = e.todo;
            e.todo = c->next;
            recover(&e, c);
        }
        history_free(&h);
        history_free(&kept);
        free(e.seen);
        fixture_free(&e.r);
        runs++;
        if (!crashed)
            break;
    }
    ck_assert_uint_gt(runs, 10);
}
END_TEST

/* If pages cannot be torn, they need no images, and redo starts at the oldest recLSN. */
START_TEST(power_fails_over_pages_that_cannot_tear)
{
    struct explorer e;
    struct plan plan = {.depth = 1, .kill = true};
    explore_with(&e, &plan, 0, LLADD_OPT_ATOMIC_PAGES);
    ck_assert_uint_gt(e.recovered, 100);
}
END_TEST

/* A rollback on a full disk changes pages. A checkpoint has truncated the part of the log that had
 * the bases of these pages. There is no room for images, so the double-write area must protect the
 * pages (REC-3). */
static int play_full_disk(struct fixture *r, struct history *h, struct lladd_error *err)
{
    struct step *t, *glutton, *kept;
    char noise[600] = {0};
    int rc = step_begin(h, r->db, NULL, &t);
    for (unsigned i = 0; !rc && i < 20; i++) /* makes the log so long that the bases of the pages
                                              * can be truncated; the transaction t does not keep
                                              * them */
        rc = lladd_log_note(t->txn, "noise", lladd_span_of(noise, sizeof noise), NULL);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(step_commit(t), 0);
    rc = step_begin(h, r->db, NULL, &t);
    for (size_t i = 0; !rc && i < h->n_cells; i += 2) /* changes two sectors of each page */
        rc = step_add(t, i, 1000);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(step_begin(h, r->db, NULL, &kept), 0);
    ck_assert_int_eq(step_add(kept, 1, 7), 0);
    ck_assert_int_eq(step_commit(kept), 0);
    ck_assert_int_eq(lladd_checkpoint(r->db, err), 0);
    fault_device_capacity(r->fd, fault_device_bytes(r->fd));
    ck_assert_int_eq(step_begin(h, r->db, NULL, &glutton), 0);
    ck_assert_int_eq(step_add(glutton, 1, 1), 0);
    /* Notes reserve nothing for undo, so they can use up all log space. */
    for (size_t len = sizeof noise; len > 0; len /= 4) {
        do {
            rc = lladd_log_note(glutton->txn, "noise", lladd_span_of(noise, len), NULL);
        } while (!rc);
        ck_assert_int_eq(rc, LLADD_NO_SPACE);
    }
    uint64_t images = fixture_stats(r).page_images;
    ck_assert_int_eq(step_abort(t), 0);
    ck_assert_uint_lt(fixture_stats(r).page_images, images + W_PAGES * 3 / 4);
    ck_assert_int_eq(step_abort(glutton), 0);
    ck_assert_int_eq(lladd_checkpoint(r->db, err), 0);
    fault_device_capacity(r->fd, UINT64_MAX);
    return 0;
}

START_TEST(power_fails_while_a_full_disk_allows_no_page_images)
{
    struct explorer e;
    struct plan plan = {.depth = 1, .kill = true, .subsets = 8 / ONE_IN, .play = play_full_disk};
    plan.full = _i & 2;
    explore(&e, &plan, _i & 1 ? FIXTURE_RESERVED : 0);
    ck_assert_uint_gt(e.recovered, 50);
}
END_TEST

/* After any crash during the creation, open finds the database or creates it again. */
START_TEST(power_fails_while_the_database_is_made)
{
    static const struct fault_crash modes[] = {
        {FAULT_POWER, 0, false},  {FAULT_KILL, 0, false},  {FAULT_SUBSET, 1, true},
        {FAULT_SUBSET, 2, false}, {FAULT_SUBSET, 3, true}, {FAULT_SUBSET, 4, false},
        {FAULT_SUBSET, 5, true},  {FAULT_SUBSET, 6, true}}; /* few seeds are enough, because the
                                                             * order of only a few calls matters in
                                                             * a creation */
    unsigned refused = 0;
    for (unsigned m = 0; m < sizeof modes / sizeof *modes; m++) {
        for (uint64_t n = 1;; n++) {
            struct fixture r;
            fixture_init(&r, 0);
            r.options.log_segment_min = r.options.log_segment_max = 4096;
            fault_device_crash_at(r.fd, n);
            int rc = fixture_try_open(&r);
            bool crashed = fault_device_crashed(r.fd);
            ck_assert(crashed || rc == 0);
            refused += rc != 0;
            if (r.db)
                lladd_db_kill(r.db);
            r.db = NULL;
            fault_device_power_cycle(r.fd, &modes[m]);
            if (n % 3 == 0) { /* the next open crashes too */
                fault_device_crash_at(r.fd, n / 3);
                if (fixture_try_open(&r) == 0) {
                    lladd_db_kill(r.db);
                    r.db = NULL;
                }
                fault_device_power_cycle(r.fd, &modes[m]);
            }
            rc = fixture_try_open(&r);
            ck_assert_msg(rc == 0, "mode %u, call %llu: %s", m, (unsigned long long)n,
                          r.err.message);
            struct cell c = cell_of(fixture_page(&r), 0);
            fixture_set(&r, c, 5);
            fixture_reopen(&r);
            fixture_expect(&r, c, 5);
            fixture_free(&r);
            if (!crashed)
                break;
        }
    }
    ck_assert_uint_gt(refused, 50);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("crash");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, power_fails_at_every_call, 0, 2);
    tcase_add_loop_test(tc, power_fails_at_every_call_of_recovery_too, 0, 1);
    tcase_add_test(tc, power_fails_a_third_time);
    tcase_add_test(tc, power_fails_after_the_process_was_killed);
    tcase_add_test(tc, power_fails_over_pages_that_cannot_tear);
    tcase_add_loop_test(tc, power_fails_while_a_full_disk_allows_no_page_images, 0, 4);
    tcase_add_test(tc, power_fails_while_the_database_is_made);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
