/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the store of a simulation promises, in a run and after each crash during a put or a removal.
 * After each crash an object is either whole or not there. The effect of a put that has returned
 * stays, and so does that of a removal.
 */
#include "verdicts.h"

#include <check.h>
#include <lladd/pages.h>
#include <lladd/ship.h>
#include <lladd/sim.h>
#include <string.h>

enum { LONG = 3000 };

static unsigned char bytes[LONG];

static int expect(int rc, int want, const char *what, struct lladd_error *err)
{
    return rc == want ? 0 : lladd_error_set(err, LLADD_BAD_STATE, "%s returned %d", what, rc);
}

static int put(const char *name, size_t len, struct lladd_error *err)
{
    struct lladd_store *s = lladd_sim_store();
    struct lladd_iovec pieces[] = {{bytes, len / 2}, {bytes + len / 2, len - len / 2}};
    return s->ops->put(s, name, pieces, 2, err);
}

/* The number of objects that were listed, and the sum of their sizes. */
struct seen {
    unsigned n;
    uint64_t bytes;
};

static int see(void *ctx, const char *name, uint64_t size)
{
    struct seen *seen = ctx;
    if (strncmp(name, "a/", 2) != 0)
        return LLADD_BAD_STATE;
    seen->n++;
    seen->bytes += size;
    return 0;
}

static int look(const char *prefix, struct seen *seen, struct lladd_error *err)
{
    struct lladd_store *s = lladd_sim_store();
    *seen = (struct seen){0, 0};
    return s->ops->list(s, prefix, see, seen, err);
}

/* Calls that change nothing. */
static int ask(struct lladd_error *err)
{
    struct lladd_store *s = lladd_sim_store();
    struct lladd_error own = LLADD_ERROR_INIT;
    struct seen seen;
    unsigned char got[LONG];
    int rc = expect(put("a/one", 8, &own), LLADD_EXISTS, "put of a taken name", err);
    if (!rc)
        rc = s->ops->get(s, "a/one", 0, got, LONG, err);
    if (!rc)
        rc = expect(memcmp(got, bytes, LONG), 0, "memcmp", err);
    if (!rc)
        rc = expect(s->ops->get(s, "a/one", 1, got, LONG, &own), LLADD_CORRUPT_BACKUP,
                    "get beyond the end", err);
    if (!rc)
        rc = expect(s->ops->get(s, "a/three", 0, got, 1, &own), LLADD_NOT_FOUND, "get", err);
    if (!rc)
        rc = expect(s->ops->remove(s, "a/three", &own), LLADD_NOT_FOUND, "remove", err);
    if (!rc)
        rc = look("a/o", &seen, err);
    if (!rc)
        rc = expect((int)(seen.n * LONG - seen.bytes), 0, "list", err);
    lladd_sim_store_away(true);
    if (!rc)
        rc = expect(put("a/three", 8, &own), LLADD_STORE_FAILED, "put while away", err);
    if (!rc)
        rc = expect(look("a/", &seen, &own), LLADD_STORE_FAILED, "list while away", err);
    lladd_sim_store_away(false);
    return rc;
}

static int begin(struct lladd_sim *sim, struct lladd_db *db, const char *root,
                 struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = lladd_sim_begin(sim, db, NULL, &txn, err);
    if (!rc)
        rc = lladd_root_set(txn, root, (struct lladd_root_value){1, 0});
    return rc ? rc : lladd_sim_commit(sim, txn);
}

/* Roots say which calls of the store have returned, and that a removal is about to begin. */
static int run(void *ctx, struct lladd_sim *sim, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_store *s = lladd_sim_store();
    (void)ctx;
    int rc = put("a/one", LONG, err);
    if (!rc)
        rc = begin(sim, db, "one", err);
    if (!rc)
        rc = ask(err);
    if (!rc)
        rc = put("a/two", 16, err);
    if (!rc)
        rc = begin(sim, db, "two", err);
    if (!rc)
        rc = begin(sim, db, "going", err);
    if (!rc)
        rc = s->ops->remove(s, "a/two", err);
    return rc ? rc : begin(sim, db, "none", err);
}

static bool has(struct lladd_db *db, const char *root)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value v;
    return lladd_root_get(db, root, &v, &err) == 0;
}

static int check(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct seen one, two;
    (void)ctx;
    int rc = look("a/one", &one, err);
    if (!rc)
        rc = look("a/two", &two, err);
    if (rc)
        return rc;
    bool fine = one.bytes == one.n * (uint64_t)LONG && two.bytes == two.n * 16;
    fine = fine && one.n >= has(db, "one") && two.n + has(db, "going") >= has(db, "two");
    fine = fine && !(two.n && has(db, "none"));
    return fine ? 0
                : lladd_error_set(err, LLADD_BAD_STATE,
                                  "the store has %u objects of %u bytes, and %u of %u", one.n,
                                  (unsigned)one.bytes, two.n, (unsigned)two.bytes);
}

static const struct lladd_sim_subject subject = {
    .struct_size = sizeof subject,
    .name = "store",
    .about = "objects are put into the store, and removed",
    .run = run,
    .check = check,
};

START_TEST(objects_are_whole_after_each_crash)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_report *r;
    b.depth = 1;
    memset(bytes, 'x', sizeof bytes);
    ck_assert_msg(lladd_sim_explore(&subject, &b, &r, &err) == 0, "%s", err.message);
    ll_expect_none("store", r->failures, r->n_failures);
    ck_assert(r->complete);
    ck_assert_uint_gt(r->states, 100);
    lladd_sim_report_free(r);
}
END_TEST

/* The calls of a put fail, too. */
START_TEST(each_call_of_the_store_fails)
{
    struct lladd_sim_bounds b = LLADD_SIM_BOUNDS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_sim_errors_report *r;
    b.flags = LLADD_SIM_NO_COVERAGE;
    memset(bytes, 'x', sizeof bytes);
    ck_assert_msg(lladd_sim_errors(&subject, &b, &r, &err) == 0, "%s", err.message);
    ll_expect_none("store", r->failures, r->n_failures);
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_RENAME].returned, 0);
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_LIST].returned, 0);
    ck_assert_uint_gt(r->faults[LLADD_SIM_FAULT_UNLINK].returned, 0);
    lladd_sim_errors_free(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("store");
    TCase *t = tcase_create("store");
    tcase_add_test(t, objects_are_whole_after_each_crash);
    tcase_add_test(t, each_call_of_the_store_fails);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
