/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cTables are created, opened and dropped. Rows are written and read; columns are found by their
 * names. Wrong calls are refused.
 */
#include "managed_fixture.h"

#include <lladd/blob.h>
#include <lladd/bytes.h>
#include <lladd/ctable.h>
#include <lladd/hash.h>

static struct fixture b;
static struct lladd_ctable *t;
static const char *const names[] = {"first", "second", "third"};

static struct lladd_ctable_options plain(void)
{
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    o.columns = names;
    o.n_columns = 3;
    o.managed.type = LLADD_DTABLE_U32;
    return o;
}

static void make(const char *name, const struct lladd_ctable_options *o)
{
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_ctable_create(txn, name, o));
    commit(txn);
}

static void begin(void)
{
    struct lladd_ctable_options o = plain();
    managed_init(&b);
    fixture_open(&b);
    make("rows", &o);
    ok_db(&b, lladd_ctable_open(b.db, "rows", &t, &b.err));
}

/* Asserts that every allocated page belongs to a managed table, to a cTable, or to the journal. */
static void no_leaks(void)
{
    struct lladd_root_value root;
    uint64_t n = 0, all = fixture_pages_used(&b);
    struct lladd_hash *journal;
    static const char *const tables[] = {"rows", "other"};
    for (int i = 0; i < 2; i++) {
        int rc = lladd_ctable_pages(b.db, tables[i], fixture_count_page, &n, &b.err);
        ck_assert(rc == 0 || rc == LLADD_NOT_FOUND);
    }
    ok_db(&b, lladd_managed_pages(b.db, fixture_count_page, &n, &b.err));
    ok_db(&b, lladd_root_get(b.db, "journal", &root, &b.err));
    ok_db(&b, lladd_hash_open(b.db, lladd_page_of(root.a), 0, &journal, &b.err));
    ok_db(&b, lladd_hash_pages(journal, fixture_count_page, &n, &b.err));
    lladd_hash_close(journal);
    ck_assert_uint_eq(n, all);
}

static void done(void)
{
    ok_db(&b, lladd_ctable_close(t, &b.err));
    no_leaks();
    fixture_free(&b);
}

static struct lladd_dtable_value text(const char *s)
{
    struct lladd_dtable_value v = {.state = LLADD_DTABLE_ABSENT};
    return s ? lladd_dtable_value_of(s, strlen(s)) : v;
}

static void put(struct lladd_txn *txn, uint32_t k, const char *x, const char *y, const char *z)
{
    const struct lladd_dtable_value v[] = {text(x), text(y), text(z)};
    struct lladd_dtable_key key = lladd_dtable_u32(k);
    ok(txn, lladd_ctable_put(txn, t, &key, v));
}

static void has(struct lladd_txn *txn, uint32_t k, uint32_t column, const char *want)
{
    struct lladd_dtable_key key = lladd_dtable_u32(k);
    char buf[64] = {0};
    size_t len = 0;
    int rc = lladd_ctable_get(txn, t, &key, column, buf, sizeof buf - 1, &len);
    ck_assert_int_eq(rc, want ? 0 : LLADD_NOT_FOUND);
    if (want)
        ck_assert_str_eq(buf, want);
    ck_assert_uint_eq(len, want ? strlen(want) : 0);
}

/* Rows and names are there after a restart; a row without values is a row. */
START_TEST(rows_stay)
{
    struct lladd_ctable_row r = {.n = 0};
    struct lladd_dtable_key key = lladd_dtable_u32(2);
    uint32_t columns[3] = {9, 9, 9};
    begin();
    struct lladd_ctable *again;
    struct lladd_txn *txn = fixture_begin(&b);
    put(txn, 1, "a", "", NULL);
    put(txn, 2, NULL, NULL, NULL);
    commit(txn);
    ok_db(&b, lladd_ctable_open(b.db, "rows", &again, &b.err));
    ck_assert_ptr_eq(again, t);
    ok_db(&b, lladd_ctable_close(again, &b.err));
    fixture_crash(&b);
    ok_db(&b, lladd_ctable_open(b.db, "rows", &t, &b.err));
    ck_assert_uint_eq(lladd_ctable_columns(t), 3);
    ck_assert_str_eq(lladd_ctable_column_name(t, 1), "second");
    ck_assert_ptr_null(lladd_ctable_column_name(t, 3));
    ok_db(&b, lladd_ctable_named(t, (const char *const[]){"third", "first"}, 2, columns, &b.err));
    ck_assert_uint_eq(columns[0], 2);
    ck_assert_uint_eq(columns[1], 0);
    txn = fixture_begin(&b);
    has(txn, 1, 0, "a");
    has(txn, 1, 1, "");
    has(txn, 1, 2, NULL);
    ok(txn, lladd_ctable_lookup(txn, t, &key, columns, 2, &r));
    ck_assert_uint_eq(r.n, 2);
    ck_assert_int_eq(r.values[0].state, LLADD_DTABLE_ABSENT);
    ck_assert_int_eq(r.values[1].state, LLADD_DTABLE_ABSENT);
    key = lladd_dtable_u32(3);
    refuses(txn, LLADD_NOT_FOUND, lladd_ctable_lookup(txn, t, &key, columns, 2, &r));
    ck_assert_uint_eq(r.n, 0);
    lladd_ctable_row_free(&r);
    commit(txn);
    done();
}
END_TEST

/* An update writes one journal entry for any number of changed columns. Two updates of one row
 * conflict. */
START_TEST(updates)
{
    const struct lladd_ctable_change two[] = {{2, text("z")}, {0, text(NULL)}, {2, text("zz")}};
    struct lladd_dtable_key key = lladd_dtable_u32(1), other = lladd_dtable_u32(7);
    struct lladd_managed_stats s = {.struct_size = sizeof s};
    begin();
    struct lladd_txn *txn = fixture_begin(&b);
    put(txn, 1, "a", "b", "c");
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_ctable_update(txn, t, &key, two, 3));
    ok(txn, lladd_ctable_update(txn, t, &other, two, 3));
    has(txn, 1, 2, "zz");
    struct lladd_txn *late = fixture_begin(&b);
    has(late, 1, 2, "c");
    ck_assert_int_eq(lladd_ctable_update(late, t, &key, two, 1), LLADD_CONFLICT);
    commit(txn);
    has(late, 1, 0, "a");
    ck_assert_int_eq(lladd_ctable_delete(late, t, &key), LLADD_CONFLICT);
    abort_txn(late);
    txn = fixture_begin(&b);
    has(txn, 1, 0, NULL);
    has(txn, 1, 1, "b");
    has(txn, 7, 2, "zz");
    has(txn, 7, 1, NULL);
    ok(txn, lladd_ctable_delete(txn, t, &key));
    has(txn, 1, 1, NULL);
    abort_txn(txn);
    ok_db(&b, lladd_managed_stats_get(lladd_ctable_managed(t), &s, NULL, 0, &b.err));
    ck_assert_uint_eq(s.pending_rows, 3);
    done();
}
END_TEST

START_TEST(misuse)
{
    struct lladd_ctable_row r = {.n = 0};
    struct lladd_ctable_cursor *c;
    const struct lladd_ctable_change bad = {3, {LLADD_DTABLE_ABSENT, {NULL, 0}}};
    const struct lladd_ctable_change dead = {1, {LLADD_DTABLE_TOMBSTONE, {NULL, 0}}};
    struct lladd_dtable_key key = lladd_dtable_u32(1), wrong = lladd_dtable_u64(1);
    struct lladd_dtable_value v[3] = {text("a"), text("b"), lladd_dtable_tombstone()};
    uint32_t column = 3;
    begin();
    ck_assert_int_eq(lladd_ctable_named(t, (const char *const[]){"first", "fourth"}, 2,
                                        (uint32_t[2]){0}, &b.err),
                     LLADD_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(b.err.message, "fourth"));
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_NOT_FOUND, lladd_ctable_update(txn, t, &key, &bad, 1));
    refuses(txn, LLADD_NOT_FOUND, lladd_ctable_lookup(txn, t, &key, &column, 1, &r));
    refuses(txn, LLADD_NOT_FOUND, lladd_ctable_cursor_open(txn, t, &column, 1, &c));
    refuses(txn, LLADD_NOT_FOUND, lladd_ctable_get(txn, t, &key, 3, NULL, 0, NULL));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_ctable_update(txn, t, &key, &dead, 1));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_ctable_put(txn, t, &key, v));
    v[2] = text("c");
    refuses(txn, LLADD_WRONG_TYPE, lladd_ctable_put(txn, t, &wrong, v));
    refuses(txn, LLADD_WRONG_TYPE, lladd_ctable_get(txn, t, &wrong, 1, NULL, 0, NULL));
    ok(txn, lladd_ctable_cursor_open(txn, t, &column, 0, &c));
    ck_assert_int_eq(lladd_ctable_row_read(c, &key, NULL, &b.err), LLADD_BAD_STATE);
    ck_assert_int_eq(lladd_ctable_next(c, &b.err), LLADD_END);
    ck_assert_int_eq(lladd_ctable_close(t, &b.err), LLADD_BUSY);
    lladd_ctable_cursor_close(c);
    abort_txn(txn);
    done();
}
END_TEST

static void not_made(int want, const char *name, const char *const *columns, size_t n)
{
    struct lladd_ctable_options o = plain();
    struct lladd_txn *txn = fixture_begin(&b);
    o.columns = columns;
    o.n_columns = n;
    refuses(txn, want, lladd_ctable_create(txn, name, &o));
    commit(txn);
}

START_TEST(created_and_destroyed)
{
    char long_name[260];
    const char **many = calloc(LLADD_DTABLE_COLUMNS_MAX + 1, sizeof *many);
    struct lladd_ctable_options o = plain();
    struct lladd_root_value root;
    struct lladd_ctable *other;
    begin();
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    for (size_t i = 0; i <= LLADD_DTABLE_COLUMNS_MAX; i++)
        many[i] = "c";
    not_made(LLADD_BAD_ARGUMENT, "other", NULL, 3);
    not_made(LLADD_BAD_ARGUMENT, "other", names, 0);
    not_made(LLADD_BAD_ARGUMENT, "other", (const char *const[]){"a", "b", "a"}, 3);
    not_made(LLADD_BAD_ARGUMENT, "other", (const char *const[]){"a", ""}, 2);
    not_made(LLADD_BAD_ARGUMENT, "other", (const char *const[]){"a", NULL}, 2);
    not_made(LLADD_BAD_ARGUMENT, "other", (const char *const[]){"a", long_name}, 2);
    not_made(LLADD_TOO_LARGE, "other", many, LLADD_DTABLE_COLUMNS_MAX + 1);
    not_made(LLADD_BAD_ARGUMENT, "", names, 3);
    not_made(LLADD_BAD_ARGUMENT, long_name, names, 3);
    not_made(LLADD_EXISTS, "rows", names, 3);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_ctable_create(txn, "other", NULL));
    refuses(txn, LLADD_BUSY, lladd_ctable_destroy(txn, "rows"));
    refuses(txn, LLADD_NOT_FOUND, lladd_ctable_destroy(txn, "other"));
    ok(txn, lladd_ctable_create(txn, "other", &o));
    abort_txn(txn);
    ck_assert_int_eq(lladd_root_get(b.db, "ctable:other", &root, &b.err), LLADD_NOT_FOUND);
    make("other", &o);
    managed_close(&b, managed_table(&b, "bare", NULL));
    ck_assert_int_eq(lladd_ctable_open(b.db, "bare", &other, &b.err), LLADD_WRONG_TYPE);
    ck_assert_int_eq(lladd_ctable_open(b.db, "no", &other, &b.err), LLADD_NOT_FOUND);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_NOT_FOUND, lladd_ctable_destroy(txn, "bare"));
    ok(txn, lladd_managed_destroy(txn, "bare"));
    ok(txn, lladd_ctable_destroy(txn, "other"));
    commit(txn);
    ck_assert_int_eq(lladd_ctable_open(b.db, "other", &other, &b.err), LLADD_NOT_FOUND);
    ck_assert_int_eq(lladd_root_get(b.db, "ctable:other", &root, &b.err), LLADD_NOT_FOUND);
    make("other", &o);
    free(many);
    done();
}
END_TEST

/* A cTable is created and opened in one call, which commits. */
START_TEST(created_and_opened)
{
    struct lladd_ctable_options o = plain();
    struct lladd_ctable *other = NULL;
    begin();
    ok_db(&b, lladd_ctable_create_open(b.db, "other", &o, &other, &b.err));
    ck_assert_uint_eq(lladd_ctable_columns(other), 3);
    ok_db(&b, lladd_ctable_close(other, &b.err));
    other = NULL;
    ck_assert_int_eq(lladd_ctable_create_open(b.db, "other", &o, &other, &b.err), LLADD_EXISTS);
    o.n_columns = 0;
    ck_assert_int_eq(lladd_ctable_create_open(b.db, "third", &o, &other, &b.err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_ptr_null(other);
    fixture_crash(&b);
    ok_db(&b, lladd_ctable_open(b.db, "other", &other, &b.err));
    ok_db(&b, lladd_ctable_close(other, &b.err));
    ok_db(&b, lladd_ctable_open(b.db, "rows", &t, &b.err));
    done();
}
END_TEST

/* A cTable is destroyed with the call for managed tables. A rollback restores the whole cTable.
 * After a commit nothing of it is left. */
START_TEST(destroyed_as_a_managed_table)
{
    struct lladd_ctable_options o = plain();
    struct lladd_root_value root;
    struct lladd_ctable *other;
    lladd_savepoint_id sp;
    begin();
    make("other", &o);
    ok_db(&b, lladd_ctable_open(b.db, "other", &other, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    const struct lladd_dtable_value values[] = {text("a"), text("b"), text(NULL)};
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    ok(txn, lladd_ctable_put(txn, other, &key, values));
    commit(txn);
    ok_db(&b, lladd_managed_digest(lladd_ctable_managed(other), &b.err));
    ok_db(&b, lladd_ctable_close(other, &b.err));
    txn = fixture_begin(&b);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_managed_destroy(txn, "other"));
    ok(txn, lladd_rollback_to(txn, sp));
    commit(txn);
    ok_db(&b, lladd_root_get(b.db, "ctable:other", &root, &b.err));
    ok_db(&b, lladd_ctable_open(b.db, "other", &other, &b.err));
    ok_db(&b, lladd_ctable_close(other, &b.err));
    no_leaks();
    txn = fixture_begin(&b);
    ok(txn, lladd_managed_destroy(txn, "other"));
    commit(txn);
    ck_assert_int_eq(lladd_root_get(b.db, "ctable:other", &root, &b.err), LLADD_NOT_FOUND);
    no_leaks();
    managed_close(&b, managed_table(&b, "other", NULL)); /* makes a managed table "other", which has
                                                          * no columns */
    ck_assert_int_eq(lladd_ctable_open(b.db, "other", &other, &b.err), LLADD_WRONG_TYPE);
    done();
}
END_TEST

/* A value that is not a row is reported, and a put can replace it. If the bytes of the column names
 * are damaged, opening the cTable either reports the damage or succeeds. A newer format is
 * refused. */
START_TEST(damage)
{
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    struct lladd_ctable_change change = {0, text("x")};
    struct lladd_dtable_value junk = text("no row");
    struct lladd_ctable_cursor *c;
    const struct lladd_dtable_value *values;
    struct lladd_root_value root;
    unsigned char bytes[64], was[64];
    uint64_t len;
    uint32_t column = 0;
    begin();
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_managed_put(txn, lladd_ctable_managed(t), &key, &junk));
    refuses(txn, LLADD_BAD_RECORD, lladd_ctable_get(txn, t, &key, 0, NULL, 0, NULL));
    refuses(txn, LLADD_BAD_RECORD, lladd_ctable_update(txn, t, &key, &change, 1));
    ok(txn, lladd_ctable_cursor_open(txn, t, &column, 1, &c));
    ok(txn, lladd_ctable_first(c, &b.err));
    ck_assert_int_eq(lladd_ctable_row_read(c, NULL, &values, &b.err), LLADD_BAD_RECORD);
    lladd_ctable_cursor_close(c);
    put(txn, 1, "good", NULL, NULL);
    has(txn, 1, 0, "good");
    commit(txn);
    ok_db(&b, lladd_ctable_close(t, &b.err));
    ok_db(&b, lladd_root_get(b.db, "ctable:rows", &root, &b.err));
    ok_db(&b, lladd_blob_length(b.db, lladd_page_of(root.a), &len, &b.err));
    ck_assert_uint_le(len, sizeof was);
    ok_db(&b, lladd_blob_read(b.db, lladd_page_of(root.a), 0, was, len, NULL, &b.err));
    for (size_t cut = 0; cut <= len; cut++) {
        memcpy(bytes, was, len);
        if (cut < len)
            bytes[cut] = cut == 0 ? 0 : 250;
        txn = fixture_begin(&b);
        ok(txn, lladd_blob_replace(txn, lladd_page_of(root.a), bytes, cut == 1 ? 0 : len));
        commit(txn);
        int rc = lladd_ctable_open(b.db, "rows", &t, &b.err);
        if (rc == 0)
            ok_db(&b, lladd_ctable_close(t, &b.err));
        else
            ck_assert_int_eq(rc, LLADD_BAD_RECORD);
        ck_assert(rc == 0 || cut < len);
    }
    bytes[0] = 2;
    txn = fixture_begin(&b);
    ok(txn, lladd_blob_replace(txn, lladd_page_of(root.a), bytes, len));
    commit(txn);
    ck_assert_int_eq(lladd_ctable_open(b.db, "rows", &t, &b.err), LLADD_NEWER_FORMAT);
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cTables");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, rows_stay);
    tcase_add_test(tc, updates);
    tcase_add_test(tc, misuse);
    tcase_add_test(tc, created_and_destroyed);
    tcase_add_test(tc, created_and_opened);
    tcase_add_test(tc, destroyed_as_a_managed_table);
    tcase_add_test(tc, damage);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
