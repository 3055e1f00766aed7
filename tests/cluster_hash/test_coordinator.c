/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests a coordinator and its servers in a world (world.h) with one failure at a time:
 * - a server disappears or falls silent;
 * - a coordinator is copied;
 * - a server opens the database of another server;
 * - the cluster gets another shape.
 * In no case does a client wait for ever.
 */
#include "clients.h"
#include "support/fixtures.h"

#include <errno.h>
#include <stdio.h>

static struct world w;

static void begin_case(size_t replicas)
{
    world_init(&w, &(struct world_options){
                       .seed = 11, .servers = 3, .coordinators = 1, .replicas = replicas});
    world_settle(&w);
}

static struct coordinator *c(void)
{
    return world_coordinator(&w, 0);
}

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

/* Runs the world until the call is answered. Returns how many milliseconds this took, on the
 * world's clock. */
static uint64_t await(struct answer *a)
{
    uint64_t since = w.now_ms;
    while (!a->times) {
        ck_assert_msg(w.now_ms < since + 60000, "no answer came in a minute");
        world_step(&w);
    }
    ck_assert_uint_eq(a->times, 1);
    return w.now_ms - since;
}

/* Makes a key that belongs to this server. */
static size_t key_at(size_t server, char key[8])
{
    for (unsigned i = 0;; i++) {
        (void)snprintf(key, 8, "k%u", i);
        if (coordinator_place(3, key, strlen(key), 0) == server)
            return strlen(key);
    }
}

static int put(struct global *g, size_t server)
{
    char key[8];
    size_t len = key_at(server, key);
    return coordinator_put(c(), g, key, len, "value", 5);
}

static int commit(struct global *g)
{
    struct answer a;
    ask(&a);
    coordinator_commit(c(), g, &a.call);
    await(&a);
    return a.call.code;
}

static int get(struct global *g, size_t server)
{
    struct answer a;
    char key[8];
    size_t len = key_at(server, key);
    ask(&a);
    coordinator_get(c(), g, &a.call, key, len, false);
    await(&a);
    return a.call.code;
}

static struct coordinator_counts counts(void)
{
    struct coordinator_counts n;
    coordinator_count(c(), &n);
    return n;
}

/* ---- servers that fail ----------------------------------------------------------------------- */

START_TEST(no_client_waits_for_a_server_that_is_gone)
{
    begin_case(1);
    struct global *open = coordinator_begin(c());
    ck_assert_int_eq(put(open, 0), 0);
    ck_assert_int_eq(put(open, 1), 0);
    world_crash(&w, &w.servers[1]);
    ck_assert_int_eq(commit(open), LLADD_BUSY);
    struct global *other = coordinator_begin(c());
    ck_assert_int_eq(put(other, 1), LLADD_BUSY);
    ck_assert_int_eq(get(other, 0), LLADD_BUSY); /* `other` can only be rolled back */
    coordinator_abort(c(), other);
    other = coordinator_begin(c()); /* a transaction that does not need the server goes on */
    ck_assert_int_eq(put(other, 0), 0);
    ck_assert_int_eq(put(other, 2), 0);
    ck_assert_int_eq(commit(other), 0);
    world_settle(&w);
    world_free(&w);
}
END_TEST

/* With w.lose = 1 every message is lost, and all connections stay open. */
START_TEST(no_client_waits_for_a_silent_server)
{
    begin_case(1);
    struct global *g = coordinator_begin(c());
    ck_assert_int_eq(get(g, 0), LLADD_NOT_FOUND);
    w.lose = 1;
    int code = get(g, 1);
    ck_assert_msg(code == LLADD_TIMEOUT || code == LLADD_BUSY, "%d", code);
    coordinator_abort(c(), g);
    w.lose = 0;
    world_settle(&w);
    g = coordinator_begin(c());
    ck_assert_int_eq(put(g, 0), 0);
    ck_assert_int_eq(put(g, 1), 0);
    w.lose = 1;
    code = commit(g);
    ck_assert_msg(code == LLADD_TIMEOUT || code == LLADD_BUSY, "%d", code);
    world_settle(&w);
    g = coordinator_begin(c());
    ck_assert_int_eq(put(g, 2), 0);
    w.lose = 1;
    ck_assert_int_eq(commit(g), CLUSTER_UNKNOWN); /* the transaction's only server cannot answer */
    world_settle(&w);
    g = coordinator_begin(c());
    ck_assert_int_eq(get(g, 2), LLADD_NOT_FOUND); /* g only reads, so its outcome is never
                                                   * unknown */
    w.lose = 1;
    code = commit(g);
    ck_assert_msg(code == LLADD_TIMEOUT || code == LLADD_BUSY, "%d", code);
    world_settle(&w);
    ck_assert_uint_eq(counts().unknown, 1);
    world_free(&w);
}
END_TEST

START_TEST(one_replica_is_enough_to_read)
{
    begin_case(2);
    struct global *g = coordinator_begin(c());
    ck_assert_int_eq(put(g, 1), 0);
    ck_assert_int_eq(commit(g), 0);
    world_settle(&w);
    world_crash(&w, &w.servers[1]);
    while (counts().up == 3)
        world_step(&w);
    g = coordinator_begin(c());
    ck_assert_int_eq(get(g, 1), 0);
    ck_assert_int_eq(put(g, 1), LLADD_BUSY); /* a write needs all replicas */
    coordinator_abort(c(), g);
    world_settle(&w);
    world_free(&w);
}
END_TEST

/* ---- decisions ------------------------------------------------------------------------------- */

START_TEST(a_decision_is_delivered_although_both_sides_crash)
{
    begin_case(1);
    struct global *g = coordinator_begin(c());
    ck_assert_int_eq(put(g, 0), 0);
    ck_assert_int_eq(put(g, 1), 0);
    ck_assert_int_eq(commit(g), 0);
    world_crash(&w, &w.servers[0]); /* the decision cannot have reached the server yet */
    world_crash(&w, &w.coordinators[0]);
    world_crash(&w, &w.servers[1]);
    world_restart(&w, &w.servers[0]);
    ck_assert_uint_eq(world_counts(&w, 0).prepared, 1);
    world_settle(&w);
    g = coordinator_begin(c());
    ck_assert_int_eq(get(g, 0), 0);
    ck_assert_int_eq(get(g, 1), 0);
    ck_assert_int_eq(commit(g), 0);
    world_settle(&w);
    world_free(&w);
}
END_TEST

START_TEST(what_was_not_decided_is_presumed_aborted)
{
    begin_case(1);
    struct answer a;
    struct global *g = coordinator_begin(c());
    ck_assert_int_eq(put(g, 0), 0);
    ck_assert_int_eq(put(g, 1), 0);
    ask(&a);
    coordinator_commit(c(), g, &a.call);
    while (world_counts(&w, 0).prepared + world_counts(&w, 1).prepared == 0)
        world_step(&w);
    if (a.times == 0) {
        world_crash(&w, &w.coordinators[0]);
        world_settle(&w);
        g = coordinator_begin(c());
        ck_assert_int_eq(get(g, 0), LLADD_NOT_FOUND);
        ck_assert_int_eq(get(g, 1), LLADD_NOT_FOUND);
        coordinator_abort(c(), g);
    }
    ck_assert_uint_eq(a.times, 0); /* with this seed a server prepares before the client is
                                    * answered */
    world_settle(&w);
    world_free(&w);
}
END_TEST

/* The coordinator's log fails while the decision is written. The client gets an unknown outcome,
 * and no server gets a decision from this incarnation. The next incarnation finds out what was
 * decided. */
START_TEST(a_coordinator_with_a_failed_log_reports_an_unknown_outcome)
{
    begin_case(1);
    struct answer a;
    struct global *g = coordinator_begin(c()), *waits = coordinator_begin(c());
    ck_assert_int_eq(put(g, 0), 0);
    ck_assert_int_eq(put(g, 1), 0);
    ck_assert_int_eq(put(waits, 1), 0);
    fault_device_fail(w.coordinators[0].fd, 1, FAULT_SYNC, EIO, true);
    ask(&a);
    coordinator_commit(c(), g, &a.call);
    await(&a);
    ck_assert_int_eq(a.call.code, CLUSTER_UNKNOWN);
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_code_root(coordinator_error(c(), &err)), LLADD_ROOT_POISONED);
    ck_assert_ptr_null(coordinator_begin(c()));
    ck_assert_int_eq(commit(waits), err.code);
    world_run(&w, 2000);
    /* The server was not told to abort, since the decision to commit may be durable. */
    ck_assert_uint_eq(world_counts(&w, 0).prepared, 1);
    fault_device_fail(w.coordinators[0].fd, 0, 0, 0, false);
    world_crash(&w, &w.coordinators[0]);
    world_settle(&w);
    g = coordinator_begin(c());
    int first = get(g, 0), second = get(g, 1);
    ck_assert_int_eq(first, second);
    coordinator_abort(c(), g);
    world_settle(&w);
    world_free(&w);
}
END_TEST

START_TEST(misuse_is_an_error_and_ends_in_rollback)
{
    begin_case(1);
    static unsigned char large[WIRE_VALUE_MAX + 1];
    struct global *g = coordinator_begin(c());
    ck_assert_int_eq(coordinator_put(c(), g, "", 0, "v", 1), LLADD_KEY_SIZE);
    ck_assert_int_eq(commit(g), LLADD_KEY_SIZE);
    g = coordinator_begin(c());
    ck_assert_int_eq(coordinator_put(c(), g, large, WIRE_KEY_MAX + 1, "v", 1), LLADD_KEY_SIZE);
    coordinator_abort(c(), g);
    g = coordinator_begin(c());
    ck_assert_int_eq(put(g, 0), 0);
    ck_assert_int_eq(coordinator_put(c(), g, "k", 1, large, sizeof large), LLADD_TOO_LARGE);
    ck_assert_int_eq(commit(g), LLADD_TOO_LARGE);
    g = coordinator_begin(c());
    ck_assert_int_eq(get(g, 0), LLADD_NOT_FOUND);
    struct answer a;
    char key[8];
    size_t len = key_at(1, key);
    ask(&a);
    coordinator_get(c(), g, &a.call, key, len, false);
    ck_assert_int_eq(commit(g), LLADD_BAD_STATE); /* an answer is still pending */
    ck_assert_uint_eq(a.times, 1);
    ck_assert_int_eq(a.call.code, LLADD_BAD_STATE);
    g = coordinator_begin(c()); /* puts a key of the greatest allowed length */
    ck_assert_int_eq(coordinator_put(c(), g, large, WIRE_KEY_MAX, large, 3000), 0);
    ck_assert_int_eq(commit(g), 0);
    world_settle(&w);
    world_free(&w);
}
END_TEST

/* ---- impostors ------------------------------------------------------------------------------- */

START_TEST(a_copied_coordinator_is_found_out_and_stops)
{
    begin_case(1);
    /* The copy is made between two incarnations of the coordinator. So the next incarnation of the
     * copy and that of the original have the same number. */
    struct node *real = &w.coordinators[0], *copy = &w.coordinators[1];
    world_crash(&w, real);
    memcpy(copy, real, sizeof *copy);
    ck_assert_int_eq(lladd_device_memory(&copy->base), 0);
    static const struct fault_crash kill = {FAULT_KILL, 0, false};
    fault_device_crash(real->fd, &kill, copy->base);
    copy->fd = fault_device_new(copy->base);
    copy->index = 1;
    copy->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    copy->options = real->options;
    copy->options.registry = NULL;
    copy->options.device = fault_device_dev(copy->fd);
    test_world_init(&copy->chance, 99);
    copy->options.world = &copy->chance.world;
    ck_assert_int_eq(participant_register(&copy->options, NULL), 0);
    world_restart(&w, real);
    world_settle(&w);
    w.options.coordinators = 2;
    world_restart(&w, copy);
    struct lladd_error err = LLADD_ERROR_INIT;
    for (unsigned i = 0; i < 100000 && !coordinator_error(copy->coordinator, &err); i++)
        world_step(&w);
    ck_assert_int_eq(err.code, LLADD_LOCKED);
    ck_assert_ptr_null(coordinator_begin(copy->coordinator));
    struct global *g = coordinator_begin(c()); /* the original is not disturbed */
    ck_assert_int_eq(put(g, 0), 0);
    ck_assert_int_eq(put(g, 1), 0);
    ck_assert_int_eq(commit(g), 0);
    world_settle(&w);
    world_free(&w);
}
END_TEST

START_TEST(a_server_with_the_database_of_another_is_not_used)
{
    begin_case(1);
    world_crash(&w, &w.servers[0]);
    world_crash(&w, &w.servers[1]);
    struct fault_device *fd = w.servers[0].fd;
    w.servers[0].options.device = fault_device_dev(w.servers[1].fd);
    world_restart(&w, &w.servers[0]);
    world_run(&w, 3000);
    ck_assert_uint_eq(counts().up, 1); /* only the last of the three servers is connected */
    struct global *g = coordinator_begin(c());
    ck_assert_int_eq(put(g, 0), LLADD_BUSY);
    coordinator_abort(c(), g);
    participant_kill(w.servers[0].participant);
    lladd_db_kill(w.servers[0].db);
    w.servers[0].participant = NULL;
    w.servers[0].db = NULL;
    w.servers[0].options.device = fault_device_dev(fd);
    world_settle(&w);
    ck_assert_uint_eq(counts().up, 3);
    world_free(&w);
}
END_TEST

START_TEST(a_cluster_of_another_shape_is_refused)
{
    begin_case(1);
    world_crash(&w, &w.coordinators[0]);
    struct coordinator_options shape = {.servers = 3, .replicas = 2};
    struct coordinator_io io = {.ctx = NULL};
    struct coordinator *out = NULL;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    ck_assert_int_eq(lladd_open(NULL, &w.coordinators[0].options, &db, &err), 0);
    ck_assert_int_eq(coordinator_open(db, &shape, &io, &out, &err), LLADD_BAD_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(err.message, "3 servers and 1 replicas"));
    shape.replicas = 4;
    ck_assert_int_eq(coordinator_open(db, &shape, &io, &out, &err), LLADD_BAD_ARGUMENT);
    shape.servers = 0;
    ck_assert_int_eq(coordinator_open(db, &shape, &io, &out, &err), LLADD_BAD_ARGUMENT);
    ck_assert_ptr_null(out);
    ck_assert_int_eq(lladd_close(db), 0);
    world_settle(&w);
    world_free(&w);
}
END_TEST

/* The placement of keys is part of the format. Another program has computed the places that the
 * test expects. */
START_TEST(keys_stay_where_they_are)
{
    ck_assert_uint_eq(coordinator_place(3, "a", 1, 0), 1);
    ck_assert_uint_eq(coordinator_place(3, "a", 1, 1), 2);
    ck_assert_uint_eq(coordinator_place(3, "acc000000042", 12, 0), 0);
    ck_assert_uint_eq(coordinator_place(7, "acc000000042", 12, 0), 0);
    unsigned n[3] = {0, 0, 0};
    for (unsigned i = 0; i < 30000; i++) {
        char key[16];
        int len = snprintf(key, sizeof key, "acc%09u", i);
        n[coordinator_place(3, key, (size_t)len, 0)]++;
    }
    for (unsigned i = 0; i < 3; i++)
        ck_assert_msg(n[i] > 9500 && n[i] < 10500, "server %u has %u of 30000", i, n[i]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("coordinator");
    TCase *tc = tcase_create("one thing at a time");
    tcase_add_test(tc, no_client_waits_for_a_server_that_is_gone);
    tcase_add_test(tc, no_client_waits_for_a_silent_server);
    tcase_add_test(tc, one_replica_is_enough_to_read);
    tcase_add_test(tc, a_decision_is_delivered_although_both_sides_crash);
    tcase_add_test(tc, what_was_not_decided_is_presumed_aborted);
    tcase_add_test(tc, a_coordinator_with_a_failed_log_reports_an_unknown_outcome);
    tcase_add_test(tc, misuse_is_an_error_and_ends_in_rollback);
    tcase_add_test(tc, a_copied_coordinator_is_found_out_and_stops);
    tcase_add_test(tc, a_server_with_the_database_of_another_is_not_used);
    tcase_add_test(tc, a_cluster_of_another_shape_is_refused);
    tcase_add_test(tc, keys_stay_where_they_are);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
