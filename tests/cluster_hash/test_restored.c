/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A server or a coordinator is restored from a backup (lladd/ship.h). Then it is not valid to
 * presume that an unknown transaction was aborted: the transaction may have committed between the
 * backup and the restore. So a transaction of an earlier timeline stays in doubt until an
 * administrator decides.
 */
#include "clients.h"
#include "memory_store.h"
#include "support/fixtures.h"

#include <lladd/twophase.h>
#include <stdio.h>

static struct world w;
static struct memory_store store;

static void begin_case(void)
{
    memory_store_init(&store);
    world_init(&w, &(struct world_options){
                       .seed = 11, .servers = 2, .coordinators = 1, .replicas = 1});
    world_settle(&w);
}

static void pass(uint64_t ms)
{
    for (uint64_t end = w.now_ms + ms; w.now_ms < end;)
        world_step(&w);
}

/* The coordinator may not have noticed yet that a server was down. */
static void settle(void)
{
    world_settle(&w);
    pass(3000);
    world_settle(&w);
}

static void end_case(void)
{
    world_settle(&w);
    world_free(&w);
    memory_store_free(&store);
}

static struct coordinator *c(void)
{
    return world_coordinator(&w, 0);
}

/* ---- transactions ---------------------------------------------------------------------------- */

struct answer {
    struct call call;
    unsigned char value[16];
    unsigned times;
};

static void done(struct call *call)
{
    ((struct answer *)call->ctx)->times++;
}

static void ask(struct answer *a)
{
    memset(a, 0, sizeof *a);
    a->call = (struct call){.buf = a->value, .size = sizeof a->value, .done = done, .ctx = a};
}

static int await(const struct answer *a)
{
    uint64_t since = w.now_ms;
    while (!a->times) {
        ck_assert_msg(w.now_ms < since + 60000, "no answer came in a minute");
        world_step(&w);
    }
    return a->call.code;
}

/* Makes the first key with this letter that belongs to the server. */
static size_t key_at(size_t server, char letter, char key[8])
{
    for (unsigned i = 0;; i++) {
        int len = snprintf(key, 8, "%c%u", letter, i);
        if (coordinator_place(2, key, (size_t)len, 0) == server)
            return (size_t)len;
    }
}

/* A transaction that writes at both servers. */
static struct global *write_both(char letter)
{
    struct global *g = coordinator_begin(c());
    ck_assert_ptr_nonnull(g);
    for (size_t server = 0; server < 2; server++) {
        char key[8];
        size_t len = key_at(server, letter, key);
        ck_assert_int_eq(coordinator_put(c(), g, key, len, "value", 5), 0);
    }
    return g;
}

static void expect_both(char letter, int code)
{
    for (size_t server = 0; server < 2; server++) {
        struct global *g = coordinator_begin(c());
        struct answer a;
        char key[8];
        size_t len = key_at(server, letter, key);
        ask(&a);
        coordinator_get(c(), g, &a.call, key, len, false);
        ck_assert_int_eq(await(&a), code);
        coordinator_abort(c(), g);
    }
}

static void wait_until_prepared(const struct answer *a)
{
    while (world_counts(&w, 0).prepared == 0) {
        ck_assert_msg(a->times == 0, "the transaction has ended: %d", a->call.code);
        world_step(&w);
    }
}

/* ---- backups --------------------------------------------------------------------------------- */

static void back_up(struct node *n)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    o.world = &n->chance.world;
    ck_assert_msg(lladd_backup(n->db, &store.base, &o, NULL, &err) == 0, "%s", err.message);
}

/* The node is down. Its database becomes what the backup has. */
static void restore(struct node *n)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_ptr_null(n->db);
    fault_device_free(n->fd);
    lladd_device_close(n->base);
    ck_assert_int_eq(lladd_device_memory(&n->base), 0);
    o.world = &n->chance.world;
    ck_assert_msg(lladd_restore(&store.base, &o, n->base, NULL, &err) == 0, "%s", err.message);
    n->fd = fault_device_new(n->base);
    n->options.device = fault_device_dev(n->fd);
}

/* Ten seconds pass on the world's clock. Server 0 asks about its transaction in doubt, and gets no
 * answer. */
static void expect_no_answer(void)
{
    struct coordinator_counts counts;
    pass(10000);
    ck_assert_uint_eq(world_counts(&w, 0).prepared, 1);
    coordinator_count(c(), &counts);
    ck_assert_uint_ge(counts.unanswered, 2);
}

static int claim(void *ctx, const struct lladd_in_doubt_info *info)
{
    *(struct lladd_gid *)ctx = info->gid;
    return 0;
}

/* Does what `lladd resolve --commit` does at server 0. */
static void commit_by_hand(void)
{
    struct node *n = &w.servers[0];
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_gid gid = {.gtrid_length = 0};
    struct lladd_txn *txn;
    world_crash(&w, n);
    ck_assert_int_eq(lladd_open(NULL, &n->options, &n->db, &err), 0);
    ck_assert_int_eq(lladd_in_doubt_each(n->db, claim, &gid, &err), 0);
    ck_assert_uint_eq(gid.bqual_length, 0); /* it was prepared on timeline 0 */
    ck_assert_int_eq(lladd_in_doubt_claim(n->db, &gid, &txn, &err), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_close(n->db), 0);
    n->db = NULL;
    world_restart(&w, n);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* All servers have acknowledged the commit, and the coordinator has removed its decision. Then one
 * server is restored to a state in which it had only prepared the transaction. */
START_TEST(a_restored_server_keeps_in_doubt_what_its_coordinator_has_forgotten)
{
    struct answer a;
    begin_case();
    struct global *g = write_both('a');
    ask(&a);
    coordinator_commit(c(), g, &a.call);
    wait_until_prepared(&a);
    back_up(&w.servers[0]);
    ck_assert_int_eq(await(&a), 0);
    settle();
    world_crash(&w, &w.servers[0]);
    restore(&w.servers[0]);
    world_restart(&w, &w.servers[0]);
    ck_assert_uint_eq(lladd_db_timeline(w.servers[0].db), 1);
    expect_no_answer();
    commit_by_hand();
    settle();
    expect_both('a', 0);
    end_case();
}
END_TEST

/* What a restored server prepares afterwards belongs to its new timeline. */
START_TEST(a_restored_server_gets_answers_about_later_transactions)
{
    struct answer a;
    begin_case();
    back_up(&w.servers[0]);
    world_crash(&w, &w.servers[0]);
    restore(&w.servers[0]);
    settle();
    struct global *g = write_both('a');
    ask(&a);
    coordinator_commit(c(), g, &a.call);
    wait_until_prepared(&a);
    ck_assert_uint_eq(a.times, 0); /* with this seed a server prepares before it is decided */
    world_crash(&w, &w.coordinators[0]);
    world_crash(&w, &w.servers[0]); /* the timeline comes from the log */
    settle();
    expect_both('a', LLADD_NOT_FOUND);
    end_case();
}
END_TEST

/* The decision is durable, and the coordinator is restored to a state before it. */
START_TEST(a_restored_coordinator_presumes_nothing_about_earlier_transactions)
{
    struct answer a;
    begin_case();
    back_up(&w.coordinators[0]);
    struct global *g = write_both('a');
    ask(&a);
    coordinator_commit(c(), g, &a.call);
    ck_assert_int_eq(await(&a), 0);
    world_crash(&w, &w.servers[0]); /* the decision cannot have reached the server yet */
    while (world_counts(&w, 1).prepared)
        world_step(&w);
    world_crash(&w, &w.coordinators[0]);
    restore(&w.coordinators[0]);
    world_restart(&w, &w.coordinators[0]);
    world_restart(&w, &w.servers[0]);
    expect_no_answer();
    world_crash(&w, &w.coordinators[0]); /* the next incarnation presumes nothing, either */
    world_restart(&w, &w.coordinators[0]);
    expect_no_answer();
    commit_by_hand();
    settle();
    expect_both('a', 0);
    end_case();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restored");
    TCase *tc = tcase_create("restored");
    tcase_add_test(tc, a_restored_server_keeps_in_doubt_what_its_coordinator_has_forgotten);
    tcase_add_test(tc, a_restored_server_gets_answers_about_later_transactions);
    tcase_add_test(tc, a_restored_coordinator_presumes_nothing_about_earlier_transactions);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
