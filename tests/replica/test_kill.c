/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * kill -9 of a process that applies a stream to a replica, with real files and options drawn from a
 * seed. The child tells its parent through a pipe which position the source may forget. The parent
 * kills the child after a number of such messages, opens the database, and checks that each table
 * has the rows of its own position, and that no event is asked for that was forgotten. The next
 * child goes on in the same directory. In the end the replica has all rows. With LLADD_NIGHTLY
 * there are a thousand kills. LLADD_SEED=N runs one seed.
 */
#include "replica_source.h"
#include "support/fixtures.h"
#include "support/killed.h"
#include "support/random_options.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EVENTS = 3000, ROUNDS = 10, LIMIT = 8 << 20 };

struct ack {
    uint64_t durable;
    uint64_t all; /* the child has applied the whole stream */
};

static struct lladd_options options_for(uint64_t seed)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    random_options(seed, LIMIT, &o);
    if (lladd_replica_register(&o, NULL))
        abort();
    return o;
}

static struct lladd_replica_options replica_options_for(uint64_t seed)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    o.tables = source_tables;
    o.batch = (uint32_t)(1 + seed % 3);
    o.lag_bytes = seed % 2 ? 200 : 500;
    o.buffer_bytes = seed % 3 ? 400 : 0;
    o.flags = seed % 5 ? 0 : LLADD_REPLICA_CHECK;
    return o;
}

/* ---- the child ------------------------------------------------------------------------------- */

#define CHILD(call) \
    do { \
        struct lladd_error child_err = LLADD_ERROR_INIT, *err = &child_err; \
        int child_rc = (call); \
        if (child_rc) { \
            fprintf(stderr, "child: %s: %d: %s\n", #call, child_rc, err->message); \
            _exit(3); \
        } \
    } while (0)

/* argv: child, directory, seed, file descriptor */
static int child(char **argv)
{
    uint64_t seed = strtoull(argv[3], NULL, 10), rng = seed, from;
    int fd = atoi(argv[4]);
    struct lladd_options o = options_for(seed);
    struct lladd_replica_options ro = replica_options_for(seed);
    struct lladd_replica *r;
    struct lladd_db *db;
    struct source s;
    struct ack a = {0, 0};
    source_make(&s, seed, EVENTS, true);
    CHILD(lladd_open(argv[2], &o, &db, err));
    CHILD(lladd_replica_open(db, "r", &ro, &r, err));
    CHILD(lladd_managed_threads(db, 2, err));
    CHILD(lladd_replica_from(r, &from));
    for (size_t i = source_find(&s, from), done; i < s.n; i += done) {
        size_t n = 1 + seeded_next(&rng) % 9;
        CHILD(lladd_replica_apply(r, s.events + i, n < s.n - i ? n : s.n - i, &done, err));
        if (seeded_next(&rng) % 8 == 0)
            CHILD(lladd_checkpoint(db, err));
        CHILD(lladd_replica_durable(r, &a.durable, err));
        killed_tell(fd, &a, sizeof a);
    }
    a.all = 1;
    killed_tell(fd, &a, sizeof a);
    for (;;)
        (void)pause(); /* until it is killed */
}

/* ---- the parent ------------------------------------------------------------------------------ */

/* Starts a child, and kills it after `count` messages, or when it has applied all. */
static bool run_and_kill(const char *dir, uint64_t seed, uint64_t count, struct ack *a)
{
    struct killed child = killed_start(dir, seed);
    struct ack last;
    a->all = 0;
    for (uint64_t seen = 0; seen < count && !a->all; seen++)
        ck_assert_msg(killed_hear(&child, a, sizeof *a), "the child has ended by itself");
    killed_kill(&child);
    while (killed_hear(&child, &last, sizeof last))
        *a = last; /* the child wrote it before it died */
    killed_close(&child);
    return a->all != 0;
}

static struct lladd_db *open_db(const char *dir, uint64_t seed)
{
    struct lladd_options o = options_for(seed);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    ck_assert_msg(lladd_open(dir, &o, &db, &err) == 0, "%s", err.message);
    lladd_options_release(&o);
    return db;
}

static void make(const char *dir, uint64_t seed)
{
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_db *db = open_db(dir, seed);
    struct lladd_txn *txn;
    m.type = LLADD_DTABLE_U32;
    m.flags = LLADD_MANAGED_UNLOGGED;
    m.schedule = seed % 2 ? LLADD_MANAGED_LEVELS : LLADD_MANAGED_RULER;
    m.memory_bytes = 4000;
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    for (unsigned i = 0; i < SOURCE_TABLES; i++)
        ck_assert_int_eq(lladd_managed_create(txn, source_tables[i], &m), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(lladd_close(db), 0);
}

/* The rows of a table as source_rows writes them; the caller frees the text. */
static char *rows_of(struct lladd_db *db, struct lladd_managed *t)
{
    char *text = calloc(SOURCE_KEYS, 24), *at = text;
    struct lladd_txn *txn;
    ck_assert_int_eq(lladd_begin(db, NULL, &txn, NULL), 0);
    for (uint32_t k = 0; k < SOURCE_KEYS; k++) {
        struct lladd_dtable_key key = lladd_dtable_u32(k);
        char value[16];
        size_t len;
        int rc = lladd_managed_get(txn, t, &key, value, sizeof value, &len);
        ck_assert(rc == 0 || rc == LLADD_NOT_FOUND);
        if (!rc)
            at += sprintf(at, "%s%u=%.*s", at == text ? "" : " ", (unsigned)k, (int)len, value);
    }
    ck_assert_int_eq(lladd_commit(txn), 0);
    return text;
}

static void expect_rows(struct lladd_db *db, const struct source *s, const char *table,
                        struct lladd_managed *t, uint64_t position)
{
    char *is = rows_of(db, t), *should = source_rows(s, table, position);
    ck_assert_str_eq(is, should);
    free(is);
    free(should);
}

static void check_all(const char *dir, uint64_t seed, const struct source *s, uint64_t durable)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_replica_options ro = replica_options_for(seed);
    struct lladd_managed *tables[SOURCE_TABLES];
    struct lladd_replica *r;
    uint64_t from;
    struct lladd_db *db = open_db(dir, seed);
    for (unsigned i = 0; i < SOURCE_TABLES; i++) {
        struct lladd_managed_position at;
        ck_assert_int_eq(lladd_managed_open(db, source_tables[i], &tables[i], &err), 0);
        ck_assert_int_eq(lladd_managed_position_get(tables[i], false, &at, &err), 0);
        expect_rows(db, s, source_tables[i], tables[i], at.commit);
    }
    ck_assert_msg(lladd_replica_open(db, "r", &ro, &r, &err) == 0, "%s", err.message);
    ck_assert_int_eq(lladd_replica_from(r, &from), 0);
    ck_assert_msg(from >= durable, "%llu is asked for; the source has forgotten up to %llu",
                  (unsigned long long)from, (unsigned long long)durable);
    lladd_db_kill(db); /* no clean close, so the next child recovers again */
}

/* Sends the rest, and compares all rows. */
static void finish(const char *dir, uint64_t seed, const struct source *s)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_replica_options ro = replica_options_for(seed);
    struct lladd_replica *r;
    struct lladd_managed *t;
    uint64_t from;
    size_t done;
    struct lladd_db *db = open_db(dir, seed);
    ck_assert_msg(lladd_replica_open(db, "r", &ro, &r, &err) == 0, "%s", err.message);
    ck_assert_int_eq(lladd_replica_from(r, &from), 0);
    size_t i = source_find(s, from);
    ck_assert_msg(lladd_replica_apply(r, s->events + i, s->n - i, &done, &err) == 0, "%s",
                  err.message);
    ck_assert_int_eq(lladd_replica_wait(r, source_end(s), 0, &err), 0);
    for (unsigned k = 0; k < SOURCE_TABLES; k++) {
        ck_assert_int_eq(lladd_managed_open(db, source_tables[k], &t, &err), 0);
        expect_rows(db, s, source_tables[k], t, source_end(s));
        ck_assert_int_eq(lladd_managed_close(t, &err), 0);
    }
    ck_assert_int_eq(lladd_replica_close(r, &err), 0);
    ck_assert_int_eq(lladd_close(db), 0);
}

/* _i: the seed */
START_TEST(a_killed_replica_goes_on)
{
    char *dir = temp_dir_new();
    uint64_t seed = (uint64_t)_i, rng = seed, durable = 0;
    struct lladd_options o = options_for(seed);
    struct source s;
    random_options_print(seed, &o);
    lladd_options_release(&o);
    source_make(&s, seed, EVENTS, true);
    make(dir, seed);
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct ack a = {0, 0};
        bool all = run_and_kill(dir, seed, 1 + seeded_next(&rng) % 80, &a);
        durable = a.durable > durable ? a.durable : durable;
        check_all(dir, seed, &s, durable);
        ck_assert(!all || round > 2); /* the stream is long enough */
    }
    finish(dir, seed, &s);
    source_free(&s);
    temp_dir_remove(dir);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "child") == 0)
        return child(argv);
    Suite *suite = suite_create("kill");
    TCase *tc = tcase_create("all");
    const char *one = getenv("LLADD_SEED");
    int first = one ? atoi(one) : 1, seeds = getenv("LLADD_NIGHTLY") ? 100 : 3;
    tcase_add_loop_test(tc, a_killed_replica_goes_on, first, one ? first + 1 : first + seeds);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
