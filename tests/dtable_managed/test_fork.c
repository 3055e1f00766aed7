/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A forked process has the handle's memory, but not its threads and files. The test makes, in the
 * forked process, each call on dTables, managed tables and cTables that returns a code and uses the
 * handle. Each of these calls must return LLADD_FORKED before it takes a mutex, because a thread of
 * the parent may have held this mutex at the fork. The parent is not affected. fork_list.py checks
 * that each of these calls is in this test.
 */
#include "managed_fixture.h"

#include <lladd/ctable.h>
#include <lladd/dtable_class.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fixture b;
static unsigned wrong;

/* The parent's state at the fork. */
static struct parent {
    struct lladd_txn *txn;
    struct lladd_managed *rows;
    struct lladd_ctable *people;
    struct lladd_ctable_cursor *of_people;
    const struct lladd_dtable *seen; /* the table `rows` as the transaction sees it */
    struct lladd_managed_snapshot *snapshot;
    const struct lladd_dtable *as_it_was; /* the table `rows` as the snapshot sees it */
    struct lladd_dtable_cursor *of_snapshot;
    struct lladd_dtable_cursor *cursor, *of_run;
    struct lladd_dtable *run, *memory;
    struct lladd_dtable_config *config;
    struct lladd_dtable_run_builder *builder;
    lladd_pageno root;
} p;

#define FORKED(call) \
    do { \
        int forked_rc = (call); \
        if (forked_rc != LLADD_FORKED) { \
            fprintf(stderr, "%s: %s\n", #call, forked_rc ? lladd_code_name(forked_rc) : "done"); \
            wrong++; \
        } \
    } while (0)

static int none_of_it(void *ctx, lladd_pageno page)
{
    (void)ctx;
    (void)page;
    return 0;
}
static int no_name(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return 0;
}
static int swallow(void *ctx, const void *bytes, size_t len)
{
    (void)ctx;
    (void)bytes;
    (void)len;
    return 0;
}
static int by_bytes(void *ctx, struct lladd_span x, struct lladd_span y)
{
    (void)ctx;
    return x.len < y.len ? -1 : x.len > y.len;
}
static const struct lladd_dtable_comparator comparator = {
    .struct_size = sizeof comparator, .name = "by-length", .compare = by_bytes};

static void configurations(void)
{
    struct lladd_sink sink = {.ctx = NULL, .write = swallow};
    struct lladd_span s = lladd_span_of("x", 1);
    struct lladd_dtable_config *c;
    char *text;
    FORKED(lladd_dtable_config_parse(b.db, "class(dt) linear_dtable", &c, &b.err));
    FORKED(lladd_dtable_config_new(b.db, "array_dtable", &c, &b.err));
    FORKED(lladd_dtable_config_set_bool(p.config, "tag_byte", true, &b.err));
    FORKED(lladd_dtable_config_set_int(p.config, "value_size", 1, &b.err));
    FORKED(lladd_dtable_config_set_bytes(p.config, "hole_value", s, &b.err));
    FORKED(lladd_dtable_config_add_word(p.config, "words", s, &b.err));
    FORKED(lladd_dtable_config_set_child(p.config, "base", NULL, &b.err));
    FORKED(lladd_dtable_config_check(p.config, 0, &b.err));
    FORKED(lladd_dtable_config_settled(p.config, &b.err));
    FORKED(lladd_dtable_config_deletes(p.config, &b.err));
    FORKED(lladd_dtable_config_print(p.config, &sink));
    FORKED(lladd_dtable_config_text(p.config, &text, &b.err));
}

static void runs(void)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct lladd_dtable_key key = lladd_dtable_u32(9);
    struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    struct lladd_dtable_run_builder *builder;
    struct lladd_dtable_order order;
    struct lladd_dtable *t, *const one[] = {p.run};
    lladd_pageno root;
    bool there;
    o.type = LLADD_DTABLE_U32;
    FORKED(lladd_dtable_run_begin(p.txn, &o, &builder));
    FORKED(lladd_dtable_run_add(p.builder, &key, &v));
    FORKED(lladd_dtable_run_add_range(p.builder, &key, NULL));
    FORKED(lladd_dtable_run_finish(p.builder, &root));
    FORKED(lladd_dtable_run_discard(p.builder));
    FORKED(lladd_dtable_run_open(b.db, p.root, &t, &b.err));
    FORKED(lladd_dtable_run_there(b.db, p.root, &there, &b.err));
    FORKED(lladd_dtable_run_free(p.txn, p.root));
    FORKED(lladd_dtable_run_info_get(p.run, &info, &b.err));
    FORKED(lladd_dtable_run_pages(b.db, p.root, none_of_it, NULL, &b.err));
    FORKED(lladd_dtable_run_check(p.run, &b.err));
    FORKED(lladd_dtable_memory(b.db, LLADD_DTABLE_U32, NULL, &t, &b.err));
    FORKED(lladd_dtable_put(p.memory, &key, &v, &b.err));
    FORKED(lladd_dtable_overlay(b.db, one, 1, &t, &b.err));
    FORKED(lladd_dtable_version(b.db, one[0], one[0], &t, &b.err));
    FORKED(lladd_dtable_comparator_add(b.db, &comparator, &b.err));
    FORKED(lladd_dtable_class_add(b.db, p.run->kind, &b.err));
    FORKED(lladd_dtable_order_of(b.db, LLADD_DTABLE_U32, NULL, &order, &b.err));
}

static void reads(const struct lladd_dtable *t, struct lladd_dtable_cursor *c)
{
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_columns none = {.pins = pins};
    struct lladd_dtable_batch batch = {.n = 0};
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    struct lladd_dtable_interval interval;
    struct lladd_dtable_value v;
    enum lladd_dtable_state state;
    struct lladd_dtable_cursor *another;
    size_t len;
    FORKED(lladd_dtable_lookup(t, &key, &pins[0], &v, &b.err));
    FORKED(lladd_dtable_get(t, &key, NULL, 0, &len, &b.err));
    FORKED(lladd_dtable_interval_at(t, &key, pins, &interval, &b.err));
    FORKED(lladd_dtable_at(t, 0, &pins[0], &key, &v, &b.err));
    FORKED(lladd_dtable_cursor_open(t, 0, &another, &b.err));
    FORKED(lladd_dtable_first(c, &b.err));
    FORKED(lladd_dtable_last(c, &b.err));
    FORKED(lladd_dtable_next(c, &b.err));
    FORKED(lladd_dtable_prev(c, &b.err));
    FORKED(lladd_dtable_seek(c, &key, &b.err));
    FORKED(lladd_dtable_seek_for_prev(c, &key, &b.err));
    FORKED(lladd_dtable_row(c, &key, &v, &b.err));
    FORKED(lladd_dtable_next_n(c, 3, &batch, &b.err));
    FORKED(lladd_dtable_lookup_columns(t, &key, &none, &state, &b.err));
    FORKED(lladd_dtable_row_columns(c, &none, &state, &b.err));
}

static void managed(void)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed_stats stats = {.struct_size = sizeof stats};
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    struct lladd_managed_row row = {key, v};
    struct lladd_managed_position position = {1, 1};
    struct lladd_managed_snapshot *snapshot;
    const struct lladd_dtable *seen;
    struct lladd_managed *t;
    char *strings;
    size_t len;
    bool more;
    o.type = LLADD_DTABLE_U32;
    FORKED(lladd_managed_create(p.txn, "new", &o));
    FORKED(lladd_managed_destroy(p.txn, "closed"));
    FORKED(lladd_managed_create_open(b.db, "new", &o, &t, &b.err));
    FORKED(lladd_managed_open(b.db, "closed", &t, &b.err));
    FORKED(lladd_managed_open(b.db, "rows", &t, &b.err));
    FORKED(lladd_managed_alter(p.rows, LLADD_MANAGED_EVERY, &o, &b.err));
    FORKED(lladd_managed_settings(p.rows, &o, &strings, &b.err));
    FORKED(lladd_managed_each(b.db, no_name, NULL, &b.err));
    FORKED(lladd_managed_put(p.txn, p.rows, &key, &v));
    FORKED(lladd_managed_put_many(p.txn, p.rows, &row, 1, NULL));
    FORKED(lladd_managed_position_set(p.txn, p.rows, &position));
    FORKED(lladd_managed_position_get(p.rows, false, &position, &b.err));
    FORKED(lladd_managed_delete_range(p.txn, p.rows, &key, NULL));
    FORKED(lladd_managed_lookup(p.txn, p.rows, &key, &pin, &v));
    FORKED(lladd_managed_get(p.txn, p.rows, &key, NULL, 0, &len));
    FORKED(lladd_managed_table(p.txn, p.rows, &seen));
    FORKED(lladd_managed_snapshot_open(b.db, &snapshot, &b.err));
    FORKED(lladd_managed_snapshot_table(p.snapshot, p.rows, &seen, &b.err));
    lladd_managed_snapshot_close(p.snapshot); /* does nothing */
    FORKED(lladd_managed_lock(p.txn, p.rows, &key, LLADD_LOCK_S, LLADD_LOCK_TRY));
    FORKED(lladd_managed_maintain(p.rows, &more, &b.err));
    FORKED(lladd_managed_digest(p.rows, &b.err));
    FORKED(lladd_managed_combine(p.rows, 0, &b.err));
    FORKED(lladd_managed_threads(b.db, 1, &b.err));
    FORKED(lladd_managed_stats_get(p.rows, &stats, NULL, 0, &b.err));
    FORKED(lladd_managed_pages(b.db, none_of_it, NULL, &b.err));
    FORKED(lladd_managed_close(p.rows, &b.err));
}

static void columns(void)
{
    static const char *const names[] = {"a"};
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    struct lladd_ctable_change change = {.column = 0, .value = v};
    struct lladd_ctable_row row = {.n = 0};
    struct lladd_ctable_batch batch = {.n = 0};
    const struct lladd_dtable_value *values;
    struct lladd_ctable_cursor *c;
    struct lladd_ctable *t;
    uint32_t column = 0;
    size_t len;
    o.columns = names;
    o.n_columns = 1;
    o.managed.type = LLADD_DTABLE_U32;
    FORKED(lladd_ctable_create(p.txn, "new", &o));
    FORKED(lladd_ctable_alter(p.people, 0, &o, &b.err));
    FORKED(lladd_ctable_destroy(p.txn, "people"));
    FORKED(lladd_ctable_create_open(b.db, "new", &o, &t, &b.err));
    FORKED(lladd_ctable_open(b.db, "people", &t, &b.err));
    FORKED(lladd_ctable_pages(b.db, "people", none_of_it, NULL, &b.err));
    FORKED(lladd_ctable_named(p.people, names, 1, &column, &b.err));
    FORKED(lladd_ctable_put(p.txn, p.people, &key, &v));
    FORKED(lladd_ctable_update(p.txn, p.people, &key, &change, 1));
    FORKED(lladd_ctable_delete(p.txn, p.people, &key));
    FORKED(lladd_ctable_lookup(p.txn, p.people, &key, &column, 1, &row));
    FORKED(lladd_ctable_get(p.txn, p.people, &key, 0, NULL, 0, &len));
    FORKED(lladd_ctable_cursor_open(p.txn, p.people, &column, 1, &c));
    FORKED(lladd_ctable_first(p.of_people, &b.err));
    FORKED(lladd_ctable_last(p.of_people, &b.err));
    FORKED(lladd_ctable_next(p.of_people, &b.err));
    FORKED(lladd_ctable_prev(p.of_people, &b.err));
    FORKED(lladd_ctable_seek(p.of_people, &key, &b.err));
    FORKED(lladd_ctable_seek_for_prev(p.of_people, &key, &b.err));
    FORKED(lladd_ctable_row_read(p.of_people, &key, &values, &b.err));
    FORKED(lladd_ctable_next_n(p.of_people, 3, 0, &batch, &b.err));
    FORKED(lladd_ctable_close(p.people, &b.err));
}

static void prepare(void)
{
    static const char *const names[] = {"a"};
    struct lladd_dtable_run_options r = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_ctable_options o = LLADD_CTABLE_OPTIONS_INIT;
    struct lladd_dtable_key key = lladd_dtable_u32(1);
    struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    uint32_t column = 0;
    fixture_open(&b);
    p = (struct parent){.rows = managed_table(&b, "rows", NULL)};
    managed_close(&b, managed_table(&b, "closed", NULL));
    for (int i = 0; i < 2; i++) {
        managed_fill(&b, p.rows, i ? "2=b" : "1=a");
        ok_db(&b, lladd_managed_digest(p.rows, &b.err));
    }
    o.columns = names;
    o.n_columns = 1;
    o.managed.type = r.type = LLADD_DTABLE_U32;
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_ctable_create(txn, "people", &o));
    ok(txn, lladd_dtable_run_begin(txn, &r, &p.builder));
    ok(txn, lladd_dtable_run_add(p.builder, &key, &v));
    ok(txn, lladd_dtable_run_finish(p.builder, &p.root));
    commit(txn);
    ok_db(&b, lladd_ctable_open(b.db, "people", &p.people, &b.err));
    ok_db(&b, lladd_dtable_run_open(b.db, p.root, &p.run, &b.err));
    ok_db(&b, lladd_dtable_memory(b.db, LLADD_DTABLE_U32, NULL, &p.memory, &b.err));
    ok_db(&b, lladd_dtable_config_new(b.db, "array_dtable", &p.config, &b.err));
    ok_db(&b, lladd_dtable_cursor_open(p.run, 0, &p.of_run, &b.err));
    ok_db(&b, lladd_dtable_first(p.of_run, &b.err));
    ok_db(&b, lladd_managed_snapshot_open(b.db, &p.snapshot, &b.err));
    ok_db(&b, lladd_managed_snapshot_table(p.snapshot, p.rows, &p.as_it_was, &b.err));
    ok_db(&b, lladd_dtable_cursor_open(p.as_it_was, 0, &p.of_snapshot, &b.err));
    ok_db(&b, lladd_dtable_first(p.of_snapshot, &b.err));
    p.txn = fixture_begin(&b);
    ok(p.txn, lladd_ctable_put(p.txn, p.people, &key, &v));
    ok(p.txn, lladd_managed_put(p.txn, p.rows, &key, &v));
    ok(p.txn, lladd_managed_table(p.txn, p.rows, &p.seen));
    ok(p.txn, lladd_dtable_cursor_open(p.seen, 0, &p.cursor, &b.err));
    ok(p.txn, lladd_dtable_first(p.cursor, &b.err));
    ok(p.txn, lladd_ctable_cursor_open(p.txn, p.people, &column, 1, &p.of_people));
    ok(p.txn, lladd_ctable_first(p.of_people, &b.err));
    ok(p.txn, lladd_dtable_run_begin(p.txn, &r, &p.builder));
}

static void finish(void)
{
    struct lladd_dtable_key key = lladd_dtable_u32(9);
    struct lladd_dtable_value v = lladd_dtable_value_of("v", 1);
    lladd_pageno root;
    ok(p.txn, lladd_dtable_run_add(p.builder, &key, &v));
    ok(p.txn, lladd_dtable_run_finish(p.builder, &root));
    ok(p.txn, lladd_dtable_next(p.cursor, &b.err));
    lladd_dtable_cursor_close(p.cursor);
    lladd_dtable_cursor_close(p.of_run);
    lladd_ctable_cursor_close(p.of_people);
    managed_sees(p.txn, p.rows, "1=v 2=b");
    commit(p.txn);
    ok_db(&b, lladd_dtable_next(p.of_snapshot, &b.err));
    lladd_dtable_cursor_close(p.of_snapshot);
    managed_snapshot_sees(&b, p.snapshot, p.rows, "1=a 2=b");
    lladd_managed_snapshot_close(p.snapshot);
    lladd_dtable_close(p.run);
    lladd_dtable_close(p.memory);
    lladd_dtable_config_free(p.config);
    ok_db(&b, lladd_ctable_close(p.people, &b.err));
    ok_db(&b, lladd_managed_combine(p.rows, 0, &b.err));
    managed_expect(&b, p.rows, "1=v 2=b");
    managed_close(&b, p.rows);
    fixture_check(&b);
}

/* _i 1: the handle has threads, and a word that the kernel clears in the child (lladd_db_alive).
 * _i 0: the handle has no such word, and process ids are compared. */
START_TEST(a_child_is_refused_everywhere)
{
    int status = -1;
    (_i ? fixture_init_threads : managed_init)(&b);
    if (_i)
        ok_db(&b, lladd_managed_register(&b.options, &b.err));
    ok_db(&b, lladd_lock_register(&b.options, &b.err));
    prepare();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        configurations();
        runs();
        reads(p.run, p.of_run);
        reads(p.seen, p.cursor);
        reads(p.as_it_was, p.of_snapshot);
        managed();
        columns();
        _exit(wrong ? 1 : 0);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%#x", (unsigned)status);
    finish();
    fixture_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable_managed.fork");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, a_child_is_refused_everywhere, 0, 2);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
