/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests the parts of the demonstration in examples/packages: the keys and the operation work, and
 * the comparison of the database with the ledger makes each finding that it claims to make. For
 * each kind of finding, a test causes one kind of damage by ordinary transactions, and expects
 * exactly the findings that follow from this damage.
 */
#include "support/fixtures.h"
#include "verify.h"

#include <check.h>
#include <lladd/extension.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 60u
#define LONG_STANZA 9000u /* longer than a page of 4 KiB */

static char *dir;
static struct store store;
static struct stanzas stanzas;
static struct ledger ledger;

/* ---- fixture: sixty transactions, some of them aborted, all of them in the ledger ------------ */

static void write_file(const char *path)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("\n  \nPackage: a\nVersion: 1\n\nPackage: b\n\r\n\n\nPackage: a\nText: ", f);
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

/* These commits need to survive only a kill of the process. */
static struct lladd_txn *begin(void)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_txn_options options = {.struct_size = sizeof options,
                                        .durability = LLADD_DURABLE_OS};
    struct lladd_txn *txn;
    ck_assert_msg(lladd_begin(store.db, &options, &txn, &err) == 0, "%s", err.message);
    return txn;
}

static void put(struct lladd_txn *txn, uint64_t sequence)
{
    int rc = store_put(&store, txn, &stanzas, sequence);
    ck_assert_msg(rc == 0, "%s", lladd_txn_error(txn)->message);
}

static void count(struct lladd_txn *txn, uint64_t sequence)
{
    int rc = store_count(&store, txn, &stanzas, sequence);
    ck_assert_msg(rc == 0, "%s", lladd_txn_error(txn)->message);
}

static void commit(struct lladd_txn *txn)
{
    ck_assert_int_eq(lladd_commit(txn), 0);
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
        put(txn, i);
        count(txn, i);
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

/* Returns the number of a transaction that aborts on purpose, if `aborts` is true, or else of one
 * that commits. */
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

/* A line of blanks separates stanzas as an empty line does. This is so at the beginning of the
 * file, too, and with DOS line ends. */
START_TEST(stanzas_of_the_file)
{
    static const char *const begins[] = {"Package: a\nVersion: 1\n", "Package: b\n", "Package: a\n",
                                         "Package: last, without a newline"};
    for (size_t i = 0; i < stanzas.count; i++)
        ck_assert_int_eq(strncmp(stanzas.list[i].text, begins[i], strlen(begins[i])), 0);
    ck_assert_uint_eq(stanzas.list[0].len, strlen(begins[0]));
    ck_assert_uint_eq(stanzas.list[1].len, strlen(begins[1]));
    ck_assert_uint_eq(stanzas.list[3].len, strlen(begins[3]));
    ck_assert(stanzas_of(&stanzas, 7).text == stanzas.list[3].text);
}
END_TEST

/* ---- no findings ----------------------------------------------------------------------------- */

START_TEST(all_is_well)
{
    expect_all_well();
    struct verdict v = compare();
    ck_assert_uint_eq(v.elements, v.whole);
}
END_TEST

START_TEST(all_is_well_after_a_kill)
{
    struct lladd_txn *open = begin();
    put(open, one_that(true));
    count(open, one_that(true));
    ck_assert_int_eq(lladd_log_note(open, "test", lladd_span_of("x", 1), NULL), 0);
    struct lladd_txn *txn = begin();
    ck_assert_int_eq(lladd_root_set(txn, "anything", (struct lladd_root_value){1, 2}), 0);
    ck_assert_int_eq(lladd_commit(txn), 0); /* makes the open transaction's records durable, too */
    store_kill(&store);
    open_store();
    expect_all_well();
}
END_TEST

/* Threads that count up and down until `stop` is set. */
struct writers {
    struct lladd_thread threads[2];
    uint64_t stop, written; /* atomic */
};

static void *count_up_and_down(void *arg)
{
    struct writers *w = arg;
    while (!lladd_atomic_load64(&w->stop)) {
        struct tally_count some = {3, {5, 7}}, less = {3, {-5, -7}};
        struct lladd_txn *txn = begin();
        ck_assert_int_eq(lladd_update(txn, store.count, store.tally, &some, sizeof some), 0);
        ck_assert_int_eq(lladd_update(txn, store.count, store.tally, &less, sizeof less), 0);
        lladd_atomic_add64(&w->written, 1);
        commit(txn);
    }
    return NULL;
}

/* Recovery begins at the last checkpoint, and finds records that were written while the checkpoint
 * was taken. It must know the names of their operations before it reads them. */
START_TEST(a_kill_after_a_checkpoint_amid_updates)
{
    enum { ROUNDS = 25 };
    for (int i = 0; i < ROUNDS; i++) {
        struct lladd_error err = LLADD_ERROR_INIT;
        struct writers w = {.stop = 0};
        for (int k = 0; k < 2; k++)
            ck_assert_int_eq(lladd_thread_start(&w.threads[k], count_up_and_down, &w), 0);
        while (lladd_atomic_load64(&w.written) < 100)
            lladd_yield();
        int rc = lladd_checkpoint(store.db, &err);
        lladd_atomic_store64(&w.stop, 1);
        for (int k = 0; k < 2; k++)
            lladd_thread_join(&w.threads[k]);
        ck_assert_msg(rc == 0, "%s", err.message);
        store_kill(&store);
        open_store();
    }
    expect_all_well();
}
END_TEST

/* A transaction has committed, but its commit was not reported. The comparison finds the
 * transaction once. From then on the ledger lists it as committed. */
START_TEST(an_unreported_commit_is_found_once)
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

/* ---- findings -------------------------------------------------------------------------------- */

START_TEST(finds_a_missing_commit)
{
    ledger.state[one_that(true)] = LEDGER_COMMITTED;
    expect_one("was acknowledged and is missing");
}
END_TEST

START_TEST(finds_an_aborted_transaction)
{
    uint64_t i = one_that(true);
    struct lladd_txn *txn = begin();
    put(txn, i);
    count(txn, i);
    commit(txn);
    expect_one("was aborted and is there");
    ledger.state[i] = LEDGER_OPEN;
    expect_one("never committed and is there");
}
END_TEST

/* Counts a stanza without inserting it, as if the database had lost a key that the ledger does not
 * list. The tally shows the loss. */
START_TEST(finds_a_count_without_a_key)
{
    struct lladd_txn *txn = begin();
    count(txn, one_that(false));
    commit(txn);
    expect_one("the tally has ");
}
END_TEST

START_TEST(finds_a_deleted_key)
{
    char key[STANZA_KEY_MAX];
    struct lladd_txn *txn = begin();
    size_t len = stanzas_key(&stanzas, one_that(false), key);
    ck_assert_int_eq(lladd_hash_delete(txn, store.table, key, len), 0);
    commit(txn);
    struct verdict v = compare();
    ck_assert_uint_eq(v.discrepancies, 2);
    ck_assert_ptr_nonnull(strstr(v.shown[0], "was acknowledged and is missing"));
    ck_assert_ptr_nonnull(strstr(v.shown[1], "the tally has "));
}
END_TEST

START_TEST(finds_a_changed_byte)
{
    char key[STANZA_KEY_MAX], changed[LONG_STANZA + 100];
    for (unsigned n = 0; n < 2; n++) { /* a short stanza, and the long one */
        uint64_t i = 2 * n;
        while (ledger_aborts(&ledger, i))
            i += stanzas.count;
        struct stanza text = stanzas_of(&stanzas, i);
        ck_assert_uint_lt(text.len, sizeof changed);
        memcpy(changed, text.text, text.len);
        changed[text.len - 2] ^= 1;
        struct lladd_txn *txn = begin();
        size_t len = stanzas_key(&stanzas, i, key);
        ck_assert_int_eq(lladd_hash_put(txn, store.table, key, len, changed, text.len), 0);
        commit(txn);
        expect_one("differs from the file");
        txn = begin();
        ck_assert_int_eq(lladd_hash_put(txn, store.table, key, len, text.text, text.len), 0);
        commit(txn);
    }
    expect_all_well();
}
END_TEST

START_TEST(finds_a_key_without_an_owner)
{
    static const char *const keys[] = {
        "what?", "a", "a -1", "a 00", "b 99999", "", " ", "c 0", "a 18446744073709551616"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        size_t len = strlen(keys[i]);
        struct lladd_txn *txn = begin();
        ck_assert_int_eq(lladd_hash_insert(txn, store.table, keys[i], len, "x", 1), 0);
        commit(txn);
        expect_one("a key of no transaction");
        txn = begin();
        ck_assert_int_eq(lladd_hash_delete(txn, store.table, keys[i], len), 0);
        commit(txn);
    }
}
END_TEST

/* ---- keys ------------------------------------------------------------------------------------ */

/* The first and the third stanza have the same first field, so they share one sequence of keys. The
 * sequence goes on when the stanzas repeat. */
START_TEST(keys_are_the_first_field_and_a_number)
{
    static const char *const keys[] = {"a 0", "b 0", "a 1", "last, without a newline 0",
                                       "a 2", "b 1", "a 3", "last, without a newline 1"};
    char key[STANZA_KEY_MAX];
    for (uint64_t i = 0; i < 8; i++) {
        size_t len = stanzas_key(&stanzas, i, key);
        ck_assert_uint_eq(len, strlen(keys[i]));
        ck_assert_mem_eq(key, keys[i], len);
    }
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t found = UINT64_MAX;
        size_t len = stanzas_key(&stanzas, i, key);
        ck_assert(stanzas_find(&stanzas, key, len, &found));
        ck_assert_uint_eq(found, i);
    }
}
END_TEST

/* Stanzas with wrong first lines: without a colon, with nothing after the colon, and longer than a
 * key may be. */
START_TEST(keys_of_any_text)
{
    char why[200], key[STANZA_KEY_MAX];
    struct stanzas s;
    char *path = temp_dir_path(dir, "text");
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("no colon here \r\nand more\n\nEmpty:\n\n \tblank: \tfirst\n\n:\n\n", f);
    for (int twice = 0; twice < 2; twice++) {
        for (int i = 0; i < 300; i++)
            fputc('x', f);
        fprintf(f, "%d\n\n", twice);
    }
    ck_assert_int_eq(fclose(f), 0);
    ck_assert_msg(stanzas_read(&s, path, why, sizeof why), "%s", why);
    static const char *const keys[] = {"no colon here 0", " 0", "first 0", " 1"};
    ck_assert_uint_eq(s.count, 6);
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(stanzas_key(&s, i, key), strlen(keys[i]));
        ck_assert_mem_eq(key, keys[i], strlen(keys[i]));
    }
    ck_assert_uint_eq(stanzas_key(&s, 5, key), STANZA_FIELD_MAX + 2);
    ck_assert_int_eq(key[STANZA_FIELD_MAX + 1], '1');
    for (uint64_t i = 0; i < 60; i++) {
        uint64_t found = UINT64_MAX;
        ck_assert(stanzas_find(&s, key, stanzas_key(&s, i, key), &found));
        ck_assert_uint_eq(found, i);
    }
    stanzas_free(&s);
    free(path);
}
END_TEST

/* ---- the tally and its operation ------------------------------------------------------------- */

/* Three transactions count in one cell. When one of them aborts, the counts of the others stay. */
START_TEST(undo_leaves_the_others_alone)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct tally before[TALLY_CELLS], after[TALLY_CELLS];
    ck_assert_int_eq(tally_read(store.db, store.tally, before, &err), 0);
    struct lladd_txn *first = begin(), *second = begin(), *third = begin();
    count(first, 0);
    count(second, 0);
    count(third, 0);
    count(first, 0);
    commit(third);
    ck_assert_int_eq(lladd_abort(first), 0);
    commit(second);
    ck_assert_int_eq(tally_read(store.db, store.tally, after, &err), 0);
    ck_assert_int_eq(after[0].stanzas, before[0].stanzas + 2);
    ck_assert_int_eq(after[0].bytes, before[0].bytes + 2 * (int64_t)stanzas.list[0].len);
    for (uint32_t i = 1; i < TALLY_CELLS; i++)
        ck_assert_int_eq(after[i].stanzas, before[i].stanzas);
}
END_TEST

START_TEST(letters_have_cells)
{
    ck_assert_uint_eq(tally_cell("adduser", 7), 0);
    ck_assert_uint_eq(tally_cell("Zsh", 3), 25);
    ck_assert_uint_eq(tally_cell("", 0), TALLY_CELLS - 1);
    for (int c = 0; c < 256; c++) {
        char text = (char)c;
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        ck_assert(letter == (tally_cell(&text, 1) < TALLY_CELLS - 1));
    }
}
END_TEST

/* If the cell does not exist, the operation refuses it before a record is logged, and the
 * transaction can go on. */
START_TEST(count_refuses_a_cell_that_does_not_exist)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct tally_count wrong = {TALLY_CELLS, {1, 1}};
    struct tally cells[TALLY_CELLS];
    struct lladd_txn *txn = begin();
    ck_assert_int_eq(lladd_update(txn, store.count, store.tally, &wrong, sizeof wrong),
                     LLADD_OUT_OF_RANGE);
    ck_assert_uint_eq(lladd_txn_id(txn).v, 0);
    commit(txn);
    ck_assert_int_eq(tally_read(store.db, lladd_page_of(0), cells, &err), LLADD_WRONG_TYPE);
}
END_TEST

int main(void)
{
    const TTest *const cases[] = {stanzas_of_the_file,
                                  all_is_well,
                                  all_is_well_after_a_kill,
                                  a_kill_after_a_checkpoint_amid_updates,
                                  an_unreported_commit_is_found_once,
                                  finds_a_missing_commit,
                                  finds_an_aborted_transaction,
                                  finds_a_count_without_a_key,
                                  finds_a_deleted_key,
                                  finds_a_changed_byte,
                                  finds_a_key_without_an_owner,
                                  keys_are_the_first_field_and_a_number,
                                  keys_of_any_text,
                                  undo_leaves_the_others_alone,
                                  letters_have_cells,
                                  count_refuses_a_cell_that_does_not_exist};
    Suite *suite = suite_create("packages");
    TCase *tc = tcase_create("packages");
    tcase_add_checked_fixture(tc, setup, teardown);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        tcase_add_test(tc, cases[i]);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
