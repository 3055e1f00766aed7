/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The demonstration's parts: its operation and index do what they say, and its comparison finds
 * everything it claims to find. Each case of the latter plants one kind of damage, with ordinary
 * transactions, and expects that and nothing else.
 */
#include "bucket.h"
#include "support/fixtures.h"
#include "verify.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 60u
#define LONG_STANZA 9000u /* three records on pages of 4 KiB */

static char *dir;
static struct store store;
static struct stanzas stanzas;
static struct ledger ledger;

/* ---- fixture: sixty transactions, some of them aborted, all of them in the ledger ------------ */

static void write_file(const char *path)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("\n  \nPackage: a\nVersion: 1\n\nPackage: b\n\r\n\n\nPackage: long\nText: ", f);
    for (unsigned i = 0; i < LONG_STANZA; i++)
        fputc('a' + (int)(i % 23), f);
    fputs("\n\nPackage: last, without a newline", f);
    ck_assert_int_eq(fclose(f), 0);
}

static void open_store(void)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    char *db = temp_dir_path(dir, "db");
    ck_assert_msg(store_open(&store, db, NULL, NULL, &err) == 0, "%s", err.message);
    free(db);
}

/* Nothing here needs to survive more than the process. */
static struct lladd_txn *begin(void)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn_options options = {.struct_size = sizeof options,
                                        .durability = LLADD_DURABLE_OS};
    struct lladd_txn *txn;
    ck_assert_msg(lladd_begin(store.db, &options, &txn, &err) == 0, "%s", err.message);
    return txn;
}

static struct lladd_rid put(struct lladd_txn *txn, uint64_t sequence)
{
    struct stanza text = stanzas_of(&stanzas, sequence);
    struct lladd_rid rid;
    int rc = store_put(&store, txn, sequence, text.text, text.len, &rid);
    ck_assert_msg(rc == 0, "%s", lladd_txn_error(txn)->message);
    return rid;
}

static void enter(struct lladd_txn *txn, uint64_t sequence, struct lladd_rid rid)
{
    int rc = index_put(&store.index, txn, sequence, rid);
    ck_assert_msg(rc == 0, "%s", lladd_txn_error(txn)->message);
}

static void setup(void)
{
    char why[200];
    dir = temp_dir_new();
    char *path = temp_dir_path(dir, "stanzas");
    write_file(path);
    ck_assert_msg(stanzas_read(&stanzas, path, why, sizeof why), "%s", why);
    free(path);
    ck_assert_uint_eq(stanzas.count, 4);
    ledger = (struct ledger){.n = N, .seed = 7, .state = calloc(N, 1)};
    open_store();
    for (uint64_t i = 0; i < N; i++) {
        struct lladd_txn *txn = begin();
        enter(txn, i, put(txn, i));
        bool aborts = ledger_aborts(&ledger, i);
        ck_assert_int_eq(aborts ? lladd_abort(txn) : lladd_commit(txn), 0);
        ledger_set(&ledger, i, aborts ? LEDGER_ABORTED : LEDGER_COMMITTED);
    }
    ck_assert_uint_gt(ledger.aborted, 0);
}

static void teardown(void)
{
    ck_assert_int_eq(store_close(&store), 0);
    stanzas_free(&stanzas);
    free(ledger.state);
    temp_dir_remove(dir);
}

/* Some transaction that was aborted on purpose, or committed. */
static uint64_t one_that(bool aborts)
{
    uint64_t i = 0;
    while (ledger_aborts(&ledger, i) != aborts)
        i++;
    ck_assert_uint_lt(i, N);
    return i;
}

static struct verdict compare(void)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct verdict v;
    ck_assert_msg(verify(&store, &stanzas, &ledger, &v, &err) == 0, "%s", err.message);
    return v;
}

static void expect_one(const char *words)
{
    struct verdict v = compare();
    ck_assert_uint_eq(v.discrepancies, 1);
    ck_assert_msg(strstr(v.shown[0], words) != NULL, "%s", v.shown[0]);
}

static void expect_all_well(void)
{
    struct verdict v = compare();
    ck_assert_msg(v.discrepancies == 0, "%s", v.shown[0]);
    ck_assert_uint_eq(v.whole, ledger.committed);
    ck_assert_uint_eq(v.nothing, ledger.aborted);
    ck_assert_uint_eq(v.whole + v.nothing, N);
    ck_assert_uint_eq(v.found, 0);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Blank lines are lines of blanks, also at the beginning, and with the ends of lines of DOS. */
START_TEST(stanzas_of_the_file)
{
    static const char *const begins[] = {"Package: a\nVersion: 1\n", "Package: b\n",
                                         "Package: long\n", "Package: last, without a newline"};
    for (size_t i = 0; i < stanzas.count; i++)
        ck_assert_int_eq(strncmp(stanzas.list[i].text, begins[i], strlen(begins[i])), 0);
    ck_assert_uint_eq(stanzas.list[0].len, strlen(begins[0]));
    ck_assert_uint_eq(stanzas.list[1].len, strlen(begins[1]));
    ck_assert_uint_eq(stanzas.list[3].len, strlen(begins[3]));
    ck_assert(stanzas_of(&stanzas, 7).text == stanzas.list[3].text);
}
END_TEST

/* ---- what is well ---------------------------------------------------------------------------- */

START_TEST(all_is_well)
{
    expect_all_well();
    struct verdict v = compare();
    ck_assert_uint_gt(v.records, v.whole); /* the long one takes several */
}
END_TEST

START_TEST(all_is_well_after_a_kill)
{
    struct lladd_txn *open = begin();
    enter(open, one_that(true), put(open, one_that(true)));
    ck_assert_int_eq(lladd_log_note(open, "test", lladd_span_of("x", 1), NULL), 0);
    struct lladd_txn *txn = begin();
    ck_assert_int_eq(lladd_root_set(txn, "anything", (struct lladd_root_value){1, 2}), 0);
    ck_assert_int_eq(lladd_commit(txn), 0); /* and with it what the open one has logged */
    index_close(&store.index);
    lladd_kill(store.db);
    open_store();
    expect_all_well();
}
END_TEST

/* Sets entries far behind the sixty until it is told to stop. */
struct writers {
    struct lladd_thread threads[2];
    uint64_t stop, written; /* atomic */
};

static void *write_entries(void *arg)
{
    struct writers *w = arg;
    struct lladd_rid rid = {lladd_page_of(1), 2, 3};
    while (!lladd_atomic_load64(&w->stop)) {
        struct lladd_txn *txn = begin();
        enter(txn, N + lladd_atomic_add64(&w->written, 1), rid);
        ck_assert_int_eq(lladd_commit(txn), 0);
    }
    return NULL;
}

/* Whoever recovers begins to read at the last checkpoint, and finds records there that were written
 * while it was taken: he has to know the names of their operations by then. */
START_TEST(a_kill_after_a_checkpoint_amid_updates)
{
    enum { ROUNDS = 25 };
    for (int i = 0; i < ROUNDS; i++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        struct writers w = {.stop = 0};
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(lladd_thread_start(&w.threads[k], write_entries, &w), 0);
        while (lladd_atomic_load64(&w.written) < 100)
            lladd_yield();
        int rc = lladd_checkpoint(store.db, &err);
        lladd_atomic_store64(&w.stop, 1);
        for (int k = 0; k < 2; k++)
            lladd_thread_join(&w.threads[k]);
        ck_assert_msg(rc == 0, "%s", err.message);
        index_close(&store.index);
        lladd_kill(store.db);
        open_store();
    }
    expect_all_well();
}
END_TEST

/* A commit that nobody had heard of: found once, and owed from then on. */
START_TEST(found_and_then_owed)
{
    uint64_t i = one_that(false);
    ledger.state[i] = LEDGER_OPEN;
    ledger.committed--;
    struct verdict v = compare();
    ck_assert_uint_eq(v.discrepancies, 0);
    ck_assert_uint_eq(v.found, 1);
    ck_assert_uint_eq(ledger.state[i], LEDGER_COMMITTED);
    expect_all_well();
}
END_TEST

/* ---- what is found --------------------------------------------------------------------------- */

START_TEST(finds_what_is_missing)
{
    ledger.state[one_that(true)] = LEDGER_COMMITTED;
    expect_one("was acknowledged and is missing");
}
END_TEST

START_TEST(finds_what_was_aborted)
{
    uint64_t i = one_that(true);
    struct lladd_txn *txn = begin();
    enter(txn, i, put(txn, i));
    ck_assert_int_eq(lladd_commit(txn), 0);
    expect_one("was aborted and is there");
    ledger.state[i] = LEDGER_OPEN;
    expect_one("never committed and is there");
}
END_TEST

START_TEST(finds_a_record_without_index_entry)
{
    struct lladd_txn *txn = begin();
    put(txn, one_that(true));
    ck_assert_int_eq(lladd_commit(txn), 0);
    expect_one("the index has nothing of it");
}
END_TEST

START_TEST(finds_a_record_that_is_there_twice)
{
    struct lladd_txn *txn = begin();
    put(txn, one_that(false));
    ck_assert_int_eq(lladd_commit(txn), 0);
    expect_one("the index has all of it");
}
END_TEST

START_TEST(finds_an_entry_that_leads_elsewhere)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_rid rid;
    uint64_t i = one_that(false), other = i + 1;
    while (ledger_aborts(&ledger, other))
        other++;
    ck_assert_int_eq(index_get(&store.index, other, &rid, &err), 0);
    struct lladd_txn *txn = begin();
    enter(txn, i, rid);
    ck_assert_int_eq(lladd_commit(txn), 0);
    expect_one("do not fit together");
}
END_TEST

/* One byte of the text: the walk through the heap sees it, and the one through the index. */
START_TEST(finds_a_changed_byte)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_rid rid;
    unsigned char record[5000];
    size_t len;
    uint64_t i = one_that(false);
    ck_assert_int_eq(index_get(&store.index, i, &rid, &err), 0);
    ck_assert_int_eq(lladd_heap_get(store.db, store.heap, rid, record, sizeof record, &len, &err),
                     0);
    record[len - 1] ^= 1;
    struct lladd_txn *txn = begin();
    ck_assert_int_eq(lladd_heap_set(txn, store.heap, rid, record, len), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    struct verdict v = compare();
    ck_assert_uint_eq(v.discrepancies, 2);
    ck_assert_ptr_nonnull(strstr(v.shown[0], "differ from the file"));
    ck_assert_ptr_nonnull(strstr(v.shown[1], "differs from the file"));
}
END_TEST

START_TEST(finds_a_record_of_nobody)
{
    struct lladd_rid rid;
    struct lladd_txn *txn = begin();
    ck_assert_int_eq(lladd_heap_insert(txn, store.heap, "what?", 5, &rid), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    expect_one("nobody wrote");
}
END_TEST

/* The last record of a chain is gone: both walks see it. */
START_TEST(finds_a_stanza_that_ends_early)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_rid rid;
    unsigned char bytes[5000];
    struct piece p;
    uint64_t i = 2; /* the long one */
    while (ledger_aborts(&ledger, i))
        i += stanzas.count;
    ck_assert_int_eq(index_get(&store.index, i, &rid, &err), 0);
    for (;;) {
        struct lladd_record record = {bytes, 0, 0};
        size_t len;
        ck_assert_int_eq(lladd_heap_get(store.db, store.heap, rid, bytes, sizeof bytes, &len, &err),
                         0);
        record.len = (uint32_t)len;
        ck_assert(piece_parse(&record, &p));
        if (p.next.page.v == 0)
            break;
        rid = p.next;
    }
    struct lladd_txn *txn = begin();
    ck_assert_int_eq(lladd_heap_delete(txn, store.heap, rid), 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_uint_eq(compare().discrepancies, 1);
}
END_TEST

/* ---- the index and its operation ------------------------------------------------------------- */

/* Several extents further on: it grows there, and is found again. */
START_TEST(index_grows)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t far = 3 * 64 * (uint64_t)bucket_capacity(lladd_page_size(store.db)) + 5;
    struct lladd_rid rid = {lladd_page_of(77), 3, 4}, got;
    struct lladd_txn *txn = begin();
    ck_assert_int_eq(index_get(&store.index, far, &got, &err), LLADD_NOT_FOUND);
    enter(txn, far, rid);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(store_close(&store), 0);
    open_store();
    ck_assert_int_eq(index_get(&store.index, far, &got, &err), 0);
    ck_assert_uint_eq(got.page.v, 77);
    ck_assert_uint_eq(got.slot, 3);
    ck_assert_uint_eq(got.size, 4);
    ck_assert_int_eq(index_get(&store.index, far - 1, &got, &err), LLADD_NOT_FOUND);
    ck_assert_int_eq(index_get(&store.index, far + 1, &got, &err), LLADD_NOT_FOUND);
}
END_TEST

/* Neighbours on one page, ended the other way round than they began. */
START_TEST(undo_leaves_the_neighbours_alone)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_rid a = {lladd_page_of(1), 1, 1}, b = {lladd_page_of(2), 2, 2}, got;
    struct lladd_txn *first = begin(), *second = begin(), *third = begin();
    enter(first, N + 1, a);
    enter(second, N + 2, b);
    enter(first, N + 1, b); /* its undo goes back to a, and further */
    enter(third, N + 3, a);
    ck_assert_int_eq(lladd_commit(third), 0);
    ck_assert_int_eq(lladd_abort(first), 0);
    ck_assert_int_eq(lladd_commit(second), 0);
    ck_assert_int_eq(index_get(&store.index, N + 1, &got, &err), LLADD_NOT_FOUND);
    ck_assert_int_eq(index_get(&store.index, N + 2, &got, &err), 0);
    ck_assert_uint_eq(got.page.v, 2);
    ck_assert_int_eq(index_get(&store.index, N + 3, &got, &err), 0);
    ck_assert_uint_eq(got.page.v, 1);
}
END_TEST

/* Refused before anything is logged; the transaction goes on. */
START_TEST(put_refuses_no_page)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_rid nowhere = {lladd_page_of(0), 1, 1}, got;
    struct lladd_txn *txn = begin();
    ck_assert_int_eq(index_put(&store.index, txn, N, nowhere), LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0);
    ck_assert_int_eq(lladd_commit(txn), 0);
    ck_assert_int_eq(index_get(&store.index, N, &got, &err), LLADD_NOT_FOUND);
}
END_TEST

int main(void)
{
    const TTest *const cases[] = {stanzas_of_the_file,
                                  all_is_well,
                                  all_is_well_after_a_kill,
                                  a_kill_after_a_checkpoint_amid_updates,
                                  found_and_then_owed,
                                  finds_what_is_missing,
                                  finds_what_was_aborted,
                                  finds_a_record_without_index_entry,
                                  finds_a_record_that_is_there_twice,
                                  finds_an_entry_that_leads_elsewhere,
                                  finds_a_changed_byte,
                                  finds_a_record_of_nobody,
                                  finds_a_stanza_that_ends_early,
                                  index_grows,
                                  undo_leaves_the_neighbours_alone,
                                  put_refuses_no_page};
    Suite *suite = suite_create("packages");
    TCase *tc = tcase_create("packages");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tcase_add_test(tc, cases[i]);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
