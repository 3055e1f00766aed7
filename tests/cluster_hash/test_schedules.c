/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The cluster hash table under random schedules, in which the network misbehaves and nodes crash.
 * At the end of each schedule
 * - all servers agree, and no transaction is in doubt;
 * - no client waits;
 * - the sum of the accounts is right, and each acknowledged change was made once;
 * - every audit has seen the accounts at one moment.
 *
 *     test_schedules [first seed] [how many]       "4711 1" runs only the schedule of seed 4711
 */
#include "clients.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t first_seed = 1;
static unsigned schedules =
#ifdef LL_TEST_SHORT
    300;
#else
    2000;
#endif

static struct {
    uint64_t transfers, audits, ones, failures, unknown, crashes, lost, repeated, overtook, delayed,
        astray, inquiries, read_only, one_phase;
} total;

static void add(const struct world *w, const struct clients *b)
{
    total.transfers += b->transfers;
    total.audits += b->audits;
    total.ones += b->ones;
    total.failures += b->failures;
    total.unknown += b->unknown;
    total.crashes += w->happened.crashes;
    total.lost += w->happened.lost;
    total.repeated += w->happened.repeated;
    total.overtook += w->happened.overtook;
    total.delayed += w->happened.delayed;
    total.astray += w->happened.astray;
    for (size_t i = 0; i < w->options.servers; i++) {
        struct participant_counts counts;
        participant_count(w->servers[i].participant, &counts);
        total.inquiries += counts.inquiries;
        total.read_only += counts.read_only;
        total.one_phase += counts.one_phase;
    }
}

/* Draws the rate of each kind of fault in this schedule; it may be 0. */
static void draw_faults(struct world *w)
{
    static const unsigned rates[] = {0, 0, 0, 10, 40, 200};
    unsigned *faults[] = {&w->lose, &w->repeat, &w->overtake, &w->delay, &w->astray};
    for (unsigned i = 0; i < sizeof faults / sizeof *faults; i++)
        *faults[i] = rates[world_below(w, sizeof rates / sizeof *rates)];
}

static void crash_a_node(struct world *w, struct clients *b)
{
    size_t all = w->options.servers + w->options.coordinators, at = world_below(w, all);
    struct node *n =
        at < w->options.servers ? &w->servers[at] : &w->coordinators[at - w->options.servers];
    if (!n->db) {
        world_restart(w, n);
        return;
    }
    world_crash(w, n);
    if (!n->is_server)
        clients_lose(b, n->index);
    if (world_below(w, 2))
        world_restart(w, n);
}

static void run(uint64_t seed)
{
    struct world w;
    struct clients b;
    world_init(&w, &(struct world_options){.seed = seed,
                                           .servers = 3,
                                           .coordinators = 1 + seed % 2,
                                           .replicas = 1 + seed / 2 % 2});
    clients_init(&b, &w);
    draw_faults(&w);
    unsigned crashes = seed % 4 ? 40 + (unsigned)world_below(&w, 400) : 0;
    for (unsigned i = 0; i < 2000; i++) {
        world_step(&w);
        clients_step(&b);
        if (crashes && world_below(&w, crashes) == 0)
            crash_a_node(&w, &b);
    }
    w.lose = w.repeat = w.overtake = w.delay = w.astray = 0;
    for (size_t i = 0; i < w.options.coordinators; i++)
        if (!w.coordinators[i].db)
            world_restart(&w, &w.coordinators[i]);
    clients_finish(&b);
    world_settle(&w);
    clients_check(&b);
    add(&w, &b);
    world_free(&w);
}

START_TEST(all_agree_whatever_happens)
{
    for (unsigned i = 0; i < schedules; i++)
        run(first_seed + i);
    printf("%u schedules: %llu transfers, %llu audits, %llu changes of one account, %llu "
           "failed, %llu unknown\n",
           schedules, (unsigned long long)total.transfers, (unsigned long long)total.audits,
           (unsigned long long)total.ones, (unsigned long long)total.failures,
           (unsigned long long)total.unknown);
    printf("%llu crashes; messages: %llu lost, %llu repeated, %llu overtook, %llu delayed, "
           "%llu astray; %llu inquiries\n",
           (unsigned long long)total.crashes, (unsigned long long)total.lost,
           (unsigned long long)total.repeated, (unsigned long long)total.overtook,
           (unsigned long long)total.delayed, (unsigned long long)total.astray,
           (unsigned long long)total.inquiries);
    if (schedules < 100)
        return;
    /* A fault that never happened, or a path that was never taken, was not tested. */
    ck_assert_uint_gt(total.transfers, 3 * schedules);
    ck_assert_uint_gt(total.audits, schedules / 10);
    ck_assert_uint_gt(total.one_phase, schedules / 10);
    ck_assert_uint_gt(total.read_only, schedules / 10);
    ck_assert_uint_gt(total.crashes, schedules);
    ck_assert_uint_gt(total.lost, schedules);
    ck_assert_uint_gt(total.repeated, schedules);
    ck_assert_uint_gt(total.overtook, schedules);
    ck_assert_uint_gt(total.delayed, schedules);
    ck_assert_uint_gt(total.astray, 0);
    ck_assert_uint_gt(total.inquiries, schedules / 10);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        first_seed = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        schedules = (unsigned)strtoul(argv[2], NULL, 10);
    Suite *suite = suite_create("schedules");
    TCase *tc = tcase_create("random");
    tcase_add_test(tc, all_agree_whatever_happens);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
