/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A committed run is still there after a close, and after a power failure. After an abort, a
 * discard, or a power failure before the commit, all pages of the run are free again. Invalid keys
 * are refused. A message about damage names the run and the block. If memory is missing or a read
 * fails, nothing is lost, and nothing stays allocated.
 */
#include "model.h"
#include "texts.h"

#include <errno.h>

#include <lladd/bytes.h>
#include <stdio.h>

static struct fixture b;
static const char two_layers[] =
    "config [ \"base\" class(dt) exception_dtable \"base_config\" config [ "
    "\"base\" class(dt) array_dtable \"base_config\" config [ \"value_size\" int 5 ] "
    "\"alt\" class(dt) linear_dtable \"reject_value\" string \"_____\" ] ]";
static const char compressed[] =
    "class(dt) exception_dtable config [ \"base\" class(dt) compress_dtable \"base_config\" config "
    "[ \"base\" class(dt) array_dtable ] \"alt\" class(dt) compress_dtable \"alt_config\" config [ "
    "\"base\" class(dt) linear_dtable ] \"reject_value\" string \"_____\" ]";
static const char columns[] =
    "class(dt) exception_dtable config [ \"base\" class(dt) multicolumn_dtable \"base_config\" "
    "config [ \"columns\" words [ \"u8\" \"u32\" ] ] \"alt\" class(dt) linear_dtable "
    "\"reject_value\" string \"_____\" ]";
static const char *const either[] = {two_layers, compressed, columns};
static const struct shape plain = {LLADD_DTABLE_U32, 400, 10, 3, 6, false};

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

/* ---- commit and abort ------------------------------------------------------------------------ */

START_TEST(runs_survive_a_close_and_a_crash)
{
    struct model m;
    lladd_pageno root;
    rows_init(&m, plain.type);
    lladd_dtable_close(rows_run(&b, &m, two_layers, &plain, 5, &root));
    for (int how = 0; how < 3; how++) {
        if (how == 0) {
            fixture_close(&b);
            fixture_open(&b);
        } else {
            fixture_crash(&b);
        }
        struct lladd_dtable *t = open_run(&b, root);
        rows_check(&m, t, 1, 300);
        struct lladd_dtable_run_info info = {.struct_size = sizeof info};
        ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
        ck_assert_str_eq(info.name, "model");
        ck_assert_ptr_nonnull(strstr(info.config, "\"holes_per_row\" int 16"));
        lladd_dtable_close(t);
    }
    rows_free(&m);
}
END_TEST

static void build_some(struct lladd_txn *txn, struct lladd_dtable_run_builder **run, uint32_t rows)
{
    *run = begin_run(txn, LLADD_DTABLE_U32, two_layers);
    for (uint32_t i = 0; i < rows; i++)
        ok(txn, add_text(*run, i, i % 3 ? "12345" : "a longer one, for the other table"));
}

/* The run is so long that each stream has several extents. */
START_TEST(discarded_aborted_and_freed_runs_leave_no_pages)
{
    uint64_t before = fixture_pages_used(&b);
    struct lladd_dtable_run_builder *run;
    lladd_pageno root;
    for (int how = 0; how < 4; how++) {
        struct lladd_txn *txn = fixture_begin(&b);
        build_some(txn, &run, 60000);
        if (how == 0) {
            ck_assert_int_eq(lladd_dtable_run_discard(run), 0);
            commit(txn);
        } else {
            ok(txn, lladd_dtable_run_finish(run, &root));
            if (how == 1) {
                abort_txn(txn);
            } else if (how == 2) {
                fixture_crash(&b);
            } else {
                commit(txn);
                txn = fixture_begin(&b);
                ok(txn, lladd_dtable_run_free(txn, root));
                commit(txn);
            }
        }
        ck_assert_uint_eq(fixture_pages_used(&b), before);
    }
}
END_TEST

static int note_page(void *ctx, lladd_pageno page)
{
    (void)page;
    ++*(uint64_t *)ctx;
    return 0;
}

START_TEST(a_run_takes_only_the_pages_it_needs)
{
    uint64_t before = fixture_pages_used(&b), pages = 0;
    struct lladd_dtable_run_builder *run;
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_pageno root;
    build_some(txn, &run, 60000);
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    ok_db(&b, lladd_dtable_run_pages(b.db, root, note_page, &pages, &b.err));
    ck_assert_uint_eq(fixture_pages_used(&b) - before, pages);
    struct lladd_dtable *t = open_run(&b, root);
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
    ck_assert_uint_eq(info.rows, 60000);
    ck_assert_uint_le(info.pages * 4064, info.bytes + 6 * 4064); /* except for the ends of
                                                                  * streams */
    lladd_dtable_close(t);
}
END_TEST

START_TEST(open_runs_are_not_freed)
{
    struct model m;
    lladd_pageno root;
    rows_init(&m, plain.type);
    struct lladd_dtable *t = rows_run(&b, &m, two_layers, &plain, 5, &root);
    struct lladd_txn *txn = fixture_begin(&b);
    refuses(txn, LLADD_BUSY, lladd_dtable_run_free(txn, root));
    lladd_dtable_close(t);
    ok(txn, lladd_dtable_run_free(txn, root));
    ck_assert_int_eq(lladd_dtable_run_open(b.db, root, &t, &b.err), LLADD_DESTROYED);
    abort_txn(txn);
    lladd_dtable_close(open_run(&b, root));
    rows_free(&m);
}
END_TEST

/* ---- keys and values that are refused -------------------------------------------------------- */

START_TEST(invalid_keys)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_DOUBLE, NULL);
    struct lladd_dtable_value v = lladd_dtable_value_of("x", 1);
    struct lladd_dtable_key k = lladd_dtable_u32(1);
    refuses(txn, LLADD_WRONG_TYPE, lladd_dtable_run_add(run, &k, &v));
    k = lladd_dtable_double(-1);
    ok(txn, lladd_dtable_run_add(run, &k, &v));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_dtable_run_add(run, &k, &v)); /* not ascending */
    k = lladd_dtable_double(-0.0);
    ok(txn, lladd_dtable_run_add(run, &k, &v));
    k = lladd_dtable_double(0.0); /* compares equal to -0.0 */
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_dtable_run_add(run, &k, &v));
    double nan = 0.0;
    k = lladd_dtable_double(nan / nan);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_dtable_run_add(run, &k, &v));
    k = lladd_dtable_double(-(nan / nan));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_dtable_run_add(run, &k, &v));
    k = lladd_dtable_double(1.0 / (nan + 0.0));
    ok(txn, lladd_dtable_run_add(run, &k, &v));
    ck_assert(lladd_dtable_as_double(&k) > 1e308);
    lladd_pageno root;
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct lladd_dtable *t = open_run(&b, root);
    for (int i = 0; i < 2; i++) {
        k = lladd_dtable_double(i ? 0.0 : -0.0);
        ok_db(&b, lladd_dtable_get(t, &k, NULL, 0, NULL, &b.err));
    }
    k = lladd_dtable_double(nan / nan);
    ck_assert_int_eq(lladd_dtable_get(t, &k, NULL, 0, NULL, &b.err), LLADD_BAD_ARGUMENT);
    lladd_dtable_close(t);
}
END_TEST

START_TEST(invalid_strings_and_bytes)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_STRING, NULL);
    struct lladd_dtable_value v = lladd_dtable_value_of("x", 1);
    static char large[LLADD_DTABLE_KEY_MAX + 2];
    memset(large, 'a', sizeof large - 1);
    struct lladd_dtable_key k = lladd_dtable_string(large);
    refuses(txn, LLADD_TOO_LARGE, lladd_dtable_run_add(run, &k, &v));
    k.bytes.len--;
    ok(txn, lladd_dtable_run_add(run, &k, &v));
    k = lladd_dtable_string("b");
    k.bytes = lladd_span_of("b\0c", 3);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_dtable_run_add(run, &k, &v));
    v.state = LLADD_DTABLE_ABSENT;
    k = lladd_dtable_string("c");
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_dtable_run_add(run, &k, &v));
    ck_assert_int_eq(lladd_dtable_run_discard(run), 0);
    abort_txn(txn);
}
END_TEST

/* The keys have the maximum length, and a value takes several blocks. */
START_TEST(long_keys_and_values)
{
    enum { N = 20, LEN = 100000 };
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_BYTES, NULL);
    static unsigned char key[LLADD_DTABLE_KEY_MAX], value[LEN];
    lladd_pageno root;
    seeded_fill(7, value, LEN);
    for (unsigned i = 0; i < N; i++) {
        key[sizeof key - 1] = (unsigned char)i;
        struct lladd_dtable_key k = lladd_dtable_bytes(key, sizeof key);
        struct lladd_dtable_value v = lladd_dtable_value_of(value + i, LEN - 1000 * i - i);
        ok(txn, lladd_dtable_run_add(run, &k, &v));
    }
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct lladd_dtable *t = open_run(&b, root);
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    for (unsigned i = 0; i < N + 1; i++) {
        key[sizeof key - 1] = (unsigned char)i;
        struct lladd_dtable_key k = lladd_dtable_bytes(key, sizeof key);
        struct lladd_dtable_value v;
        ok_db(&b, lladd_dtable_lookup(t, &k, &pin, &v, &b.err));
        ck_assert_int_eq(v.state, i < N ? LLADD_DTABLE_FOUND : LLADD_DTABLE_ABSENT);
        if (i == N)
            break;
        ck_assert_uint_eq(v.bytes.len, LEN - 1000 * i - i);
        ck_assert_int_eq(memcmp(v.bytes.data, value + i, v.bytes.len), 0);
    }
    lladd_dtable_unpin(&pin);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    lladd_dtable_close(t);
}
END_TEST

/* ---- special values -------------------------------------------------------------------------- */

/* Filters and indexes have the keys of tombstones. A tombstone ends the search. It is not an empty
 * value. */
START_TEST(tombstones_hide_older_rows)
{
    static const char *const configs[] = {
        "class(dt) linear_dtable", "class(dt) fixed_dtable config [ \"value_size\" int 0 ]",
        "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]",
        "class(dt) btree_dtable config [ \"base\" class(dt) linear_dtable ]"};
    static const char *const old[] = {"old", "older", "oldest", NULL};
    static const char *const new[] = {"", "(gone)", "(none)", NULL};
    struct lladd_dtable *below = run_of(&b, configs[0], 5, old);
    char text[64];
    for (int i = 0; i < 4; i++) {
        struct lladd_dtable *both[2] = {run_of(&b, configs[i], 5, new), below}, *over;
        ok_db(&b, lladd_dtable_overlay(b.db, both, 2, &over, &b.err));
        ck_assert_int_eq(state_of(&b, over, 5, text), LLADD_DTABLE_FOUND);
        ck_assert_str_eq(text, "");
        ck_assert_int_eq(state_of(&b, over, 6, text), LLADD_DTABLE_TOMBSTONE);
        ck_assert_int_eq(state_of(&b, over, 7, text), LLADD_DTABLE_FOUND);
        ck_assert_str_eq(text, "oldest");
        ck_assert_int_eq(state_of(&b, over, 8, text), LLADD_DTABLE_ABSENT);
        lladd_dtable_close(over);
        lladd_dtable_close(both[0]);
    }
    lladd_dtable_close(below);
}
END_TEST

/* A value that is reserved for another use is rejected, and so is a value that cannot be stored. A
 * layer above can handle the rejection. */
START_TEST(reserved_values)
{
    static const char array[] = "class(dt) array_dtable config [ \"tag_byte\" bool false "
                                "\"hole_value\" string \"--\" ]";
    static const char taken[] =
        "class(dt) exception_dtable config [ \"base\" class(dt) array_dtable \"base_config\" "
        "config [ \"tag_byte\" bool false \"hole_value\" string \"--\" ] "
        "\"alt\" class(dt) linear_dtable \"reject_value\" string \"??\" ]";
    static const char *const values[] = {"ab", "--", "(none)", "(gone)", "??", "cde", NULL};
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, array);
    ok(txn, add_text(run, 1, "ab"));
    refuses(txn, LLADD_REJECTED, add_text(run, 2, "--"));
    refuses(txn, LLADD_REJECTED, add_text(run, 2, NULL));
    refuses(txn, LLADD_REJECTED, add_text(run, 2, "abc"));
    ok(txn, add_text(run, 3, "cd"));
    ck_assert_int_eq(lladd_dtable_run_discard(run), 0);
    abort_txn(txn);
    struct lladd_dtable *t = run_of(&b, taken, 100, values);
    for (uint32_t i = 0; values[i]; i++) {
        char text[64] = "";
        enum lladd_dtable_state want = i == 2   ? LLADD_DTABLE_ABSENT
                                       : i == 3 ? LLADD_DTABLE_TOMBSTONE
                                                : LLADD_DTABLE_FOUND;
        ck_assert_int_eq(state_of(&b, t, 100 + i, text), want);
        if (want == LLADD_DTABLE_FOUND) /* "??" is a value like any other */
            ck_assert_str_eq(text, values[i]);
    }
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    lladd_dtable_close(t);
}
END_TEST

/* Every layer below is asked whether it can store the placeholder, and stores it in its own
 * form. */
START_TEST(placeholders)
{
    static const char text[] =
        "class(dt) exception_dtable config [ \"base\" class(dt) smallint_dtable \"base_config\" "
        "config [ \"base\" class(dt) array_dtable \"bytes\" int 3 ] "
        "\"alt\" class(dt) linear_dtable \"reject_value\" blob %s ]";
    static const char *const good[] = {"ffffff00", "00000000", NULL}, *const bad[] = {
                                                                          "00ffff01", "ffffffff",
                                                                          "ffffff", "empty", NULL};
    struct lladd_dtable_config *c;
    char full[400];
    for (int i = 0; good[i]; i++) {
        snprintf(full, sizeof full, text, good[i]);
        ok_db(&b, lladd_dtable_config_parse(b.db, full, &c, &b.err));
        /* The smallint_dtable settles the size of the cells. */
        ck_assert_int_eq(lladd_dtable_param_int(
                             lladd_dtable_param_child(lladd_dtable_param_child(c, "base"), "base"),
                             "value_size"),
                         3);
        lladd_dtable_config_free(c);
    }
    for (int i = 0; bad[i]; i++) {
        snprintf(full, sizeof full, text, bad[i]);
        ck_assert_int_eq(lladd_dtable_config_parse(b.db, full, &c, &b.err), LLADD_BAD_CONFIG);
        ck_assert_ptr_nonnull(strstr(b.err.message, "cannot store the reject_value"));
    }
    static const char states[] =
        "class(dt) exception_dtable config [ \"base\" class(dt) usstate_dtable \"base_config\" "
        "config [ \"base\" class(dt) array_dtable \"base_config\" config [ \"tag_byte\" bool false "
        "\"hole_value\" blob fe \"tombstone_value\" blob ff ] \"passthrough_value\" blob fd ] "
        "\"alt\" class(dt) linear_dtable \"reject_value\" blob fd ]";
    static const char *const values[] = {"CA", "Paris", "\xfd", "(none)", "(gone)", "NY", "", NULL};
    struct lladd_dtable *t = run_of(&b, states, 7, values);
    for (uint32_t i = 0; values[i]; i++) {
        char found[64] = "(none)";
        enum lladd_dtable_state state = state_of(&b, t, 7 + i, found);
        ck_assert_str_eq(state == LLADD_DTABLE_TOMBSTONE ? "(gone)" : found, values[i]);
    }
    lladd_dtable_close(t);
}
END_TEST

START_TEST(sparse_arrays)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run =
        begin_run(txn, LLADD_DTABLE_U32, "class(dt) array_dtable");
    ok(txn, add_text(run, 0, "a"));
    ok(txn, add_text(run, 60000, "a"));
    refuses(txn, LLADD_OUT_OF_RANGE, add_text(run, 4000000000u, "a"));
    ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "holes"));
    refuses(txn, LLADD_BAD_STATE, add_text(run, 60001, "a"));
    ck_assert_int_eq(lladd_dtable_run_discard(run), 0);
    abort_txn(txn);
}
END_TEST

/* The number of keys determines the size of a filter. */
START_TEST(size_of_a_filter)
{
    uint64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        struct lladd_dtable_run_builder *run =
            begin_run(txn, LLADD_DTABLE_U32,
                      "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]");
        struct lladd_dtable_run_info info = {.struct_size = sizeof info};
        lladd_pageno root;
        for (uint32_t k = 0; k < (i ? 50000u : 100u); k++)
            ok(txn, add_text(run, 2 * k, ""));
        ok(txn, lladd_dtable_run_finish(run, &root));
        commit(txn);
        struct lladd_dtable *t = open_run(&b, root);
        ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
        bytes[i] = info.bytes;
        unsigned in_vain = 0;
        for (uint32_t k = 0; k < 50000; k++) {
            struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
            struct lladd_dtable_key key = lladd_dtable_u32(2 * k + 1);
            struct lladd_dtable_value v;
            ok_db(&b, lladd_dtable_lookup(t, &key, &pin, &v, &b.err));
            ck_assert_int_eq(v.state, LLADD_DTABLE_ABSENT);
            in_vain += pin.held_[0] != NULL; /* counts the lookups that have read a block */
            lladd_dtable_unpin(&pin);
        }
        ck_assert_uint_le(in_vain, 50000 / 40);
        lladd_dtable_close(t);
    }
    ck_assert_uint_lt(bytes[0], 2000);
    ck_assert_uint_gt(bytes[1], 50000 * 10 / 8);
}
END_TEST

/* ---- memory, reads, damage ------------------------------------------------------------------- */

static const char *const lives[] = {
    "class(dt) bloom_dtable config [ \"base\" class(dt) exception_dtable \"base_config\" config [ "
    "\"base\" class(dt) btree_dtable \"base_config\" config [ \"base\" class(dt) fixed_dtable "
    "\"base_config\" config [ \"value_size\" int 2 ] ] \"alt\" class(dt) linear_dtable "
    "\"reject_value\" string \"??\" ] ]",
    "class(dt) cache_dtable config [ \"base\" class(dt) keydiv_dtable \"base_config\" config [ "
    "\"below\" class(dt) exist_dtable \"below_config\" config [ \"base\" class(dt) "
    "ustring_dtable \"base_config\" config [ \"base\" class(dt) linear_dtable ] \"tombstones\" "
    "class(dt) fixed_dtable ] \"from\" class(dt) exception_dtable \"from_config\" config [ "
    "\"base\" class(dt) deltaint_dtable \"base_config\" config [ \"base\" class(dt) "
    "fixed_dtable ] \"alt\" class(dt) linear_dtable \"reject_value\" string \"????\" ] "
    "\"divider\" int 4500 ] ]",
    ("class(dt) compress_dtable config [ \"base\" class(dt) bloom_dtable \"base_config\" config [ "
     "\"base\" class(dt) linear_dtable ] ]"),
    "class(dt) auto_dtable",
    "class(dt) exception_dtable config [ \"base\" class(dt) multicolumn_dtable \"base_config\" "
    "config [ \"columns\" words [ \"u16\" ] ] \"alt\" class(dt) linear_dtable \"reject_value\" "
    "string \"??\" ]",
};

/* Builds, opens, scans and queries a run, and returns the first error. If the run cannot be built,
 * the transaction is aborted. */
static int whole_life(const char *text, bool *built)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    struct lladd_dtable *t;
    struct lladd_dtable_cursor *c;
    struct lladd_txn *txn;
    lladd_pageno root;
    o.type = LLADD_DTABLE_U32;
    o.text = text;
    o.block_bytes = 4096;
    int rc = lladd_begin(b.db, NULL, &txn, &b.err);
    if (rc)
        return rc;
    rc = lladd_dtable_run_begin(txn, &o, &run);
    if (!rc) {
        for (uint32_t i = 0; i < 3000 && !rc; i++)
            rc = add_text(run, i * 3, i % 5 ? "ab" : "something else");
        if (!rc)
            rc = lladd_dtable_run_finish(run, &root);
        if (rc) {
            ck_assert_int_eq(lladd_txn_error(txn)->code, rc);
            (void)lladd_dtable_run_discard(run);
        }
    }
    *built = !rc;
    if (rc) {
        (void)lladd_abort(txn);
        return rc;
    }
    commit(txn);
    rc = lladd_dtable_run_open(b.db, root, &t, &b.err);
    if (!rc) {
        rc = lladd_dtable_cursor_open(t, 0, &c, &b.err);
        if (!rc) {
            unsigned n = 0;
            while ((rc = lladd_dtable_next(c, &b.err)) == 0)
                n++;
            if (rc == LLADD_END)
                ck_assert_uint_eq(n, 3000);
            rc = rc == LLADD_END ? 0 : rc;
            lladd_dtable_cursor_close(c);
        }
        for (uint32_t i = 0; i < 9000 && !rc; i += 300) {
            struct lladd_dtable_key key = lladd_dtable_u32(i);
            rc = lladd_dtable_get(t, &key, NULL, 0, NULL, &b.err);
        }
        lladd_dtable_close(t);
    }
    return rc;
}

START_TEST(memory_runs_out)
{
    uint64_t before = fixture_pages_used(&b), refused = 0;
    for (uint64_t n = 1;; n++) {
        bool built = false;
        fault_alloc_fail(&b.mem, n, false);
        int rc = whole_life(lives[_i], &built);
        uint64_t fired = fault_alloc_fired(&b.mem);
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
        refused += rc != 0;
        if (!built)
            ck_assert_uint_eq(fixture_pages_used(&b), before);
        before = fixture_pages_used(&b);
        if (fired == 0)
            break;
    }
    ck_assert_uint_ge(refused, 50);
}
END_TEST

START_TEST(reads_fail)
{
    struct model m;
    lladd_pageno root;
    unsigned failed = 0;
    rows_init(&m, plain.type);
    lladd_dtable_close(rows_run(&b, &m, either[_i], &plain, 5, &root));
    for (uint64_t n = 1;; n++) {
        struct lladd_dtable *t = NULL;
        fixture_close(&b);
        fixture_open(&b);
        fault_device_fail(b.fd, n, FAULT_PREAD, EIO, false);
        int rc = lladd_dtable_run_open(b.db, root, &t, &b.err);
        if (!rc)
            rc = lladd_dtable_run_check(t, &b.err);
        if (!rc || !t) /* checks again, with some blocks in the cache */
            rc = rc ? rc : lladd_dtable_run_check(t, &b.err);
        uint64_t fired = fault_device_fired(b.fd);
        fault_device_fail(b.fd, 0, FAULT_PREAD, EIO, false);
        if (rc) {
            ck_assert_int_eq(rc, LLADD_READ_FAILED);
            failed++;
        }
        if (t)
            rows_check(&m, t, n, 100); /* the next read succeeds: nothing was cached for the failed
                                        * read */
        lladd_dtable_close(t);
        if (fired == 0)
            break;
    }
    ck_assert_uint_ge(failed, 5);
    rows_free(&m);
}
END_TEST

static int note_first(void *ctx, lladd_pageno page)
{
    lladd_pageno *pages = ctx;
    if (pages[0].v < 30)
        pages[++pages[0].v] = page;
    return 0;
}

/* Damages each page besides the descriptor's (at most 29 pages): flips a bit, then stores the bytes
 * of a page of another run in the page. */
START_TEST(damage_is_named)
{
    struct model m, other;
    lladd_pageno root, second, pages[32] = {{0}}, others[32] = {{0}};
    rows_init(&m, plain.type);
    rows_init(&other, plain.type);
    lladd_dtable_close(rows_run(&b, &m, either[_i], &plain, 5, &root));
    lladd_dtable_close(rows_run(&b, &other, either[_i], &plain, 6, &second));
    ok_db(&b, lladd_dtable_run_pages(b.db, root, note_first, pages, &b.err));
    ok_db(&b, lladd_dtable_run_pages(b.db, second, note_first, others, &b.err));
    ck_assert_uint_ge(pages[0].v, 3);
    fixture_close(&b);
    struct lladd_file *file;
    ck_assert_int_eq(b.base->ops->open(b.base, "pages", 0, &file), 0);
    for (uint64_t i = 1; i < pages[0].v; i++) {
        unsigned char was[4096], now[4096];
        struct lladd_iovec piece = {was, sizeof was};
        uint64_t at = pages[i].v * 4096;
        ck_assert_int_eq(b.base->ops->pread(b.base, file, was, sizeof was, at), sizeof was);
        for (int how = 0; how < 2; how++) {
            memcpy(now, was, sizeof now);
            if (how == 0)
                now[40] ^= 4;
            else
                ck_assert_int_eq(
                    b.base->ops->pread(b.base, file, now, sizeof now, others[i].v * 4096),
                    sizeof now);
            piece.data = now;
            ck_assert_int_eq(b.base->ops->pwritev(b.base, file, &piece, 1, at), 0);
            fixture_open(&b);
            struct lladd_dtable *t;
            int rc = lladd_dtable_run_open(b.db, root, &t, &b.err);
            if (!rc) {
                rc = lladd_dtable_run_check(t, &b.err);
                lladd_dtable_close(t);
            }
            ck_assert_msg(rc == LLADD_CORRUPT_RUN, "page %llu, %d: %d", (unsigned long long)i, how,
                          rc);
            ck_assert_ptr_nonnull(strstr(b.err.message, "run \"model\""));
            ck_assert_ptr_nonnull(strstr(b.err.message, ", block "));
            ck_assert_uint_eq(b.err.page.v, pages[i].v);
            fixture_close(&b);
        }
        piece.data = was;
        ck_assert_int_eq(b.base->ops->pwritev(b.base, file, &piece, 1, at), 0);
    }
    ck_assert_int_eq(b.base->ops->close(b.base, file), 0);
    fixture_open(&b);
    rows_free(&m);
    rows_free(&other);
}
END_TEST

/* ---- the cache ------------------------------------------------------------------------------- */

START_TEST(memory_is_bounded)
{
    struct model m;
    lladd_pageno root;
    struct lladd_dtable_cache_stats s = {.struct_size = sizeof s};
    static const struct shape many = {LLADD_DTABLE_U32, 3000, 10, 3, 6, false};
    rows_init(&m, plain.type);
    struct lladd_dtable *t = rows_run(&b, &m, "class(dt) linear_dtable", &many, 5, &root);
    lladd_dtable_cache_limit(b.db, 20000);
    rows_check(&m, t, 1, 500);
    lladd_dtable_cache_stats_get(b.db, &s);
    ck_assert_uint_le(s.used, 20000);
    ck_assert_uint_ge(s.evictions, 100);
    /* Pinned blocks are not evicted. If all blocks are pinned, a lookup fails until one is
     * unpinned. */
    struct lladd_dtable_pin pins[4] = {{.db_ = NULL}};
    int rc = 0;
    for (unsigned i = 0; i < 4 && !rc; i++) {
        struct lladd_dtable_value v;
        rc = lladd_dtable_lookup(t, &m.rows[m.n * i / 4].key, &pins[i], &v, &b.err);
    }
    ck_assert_int_eq(rc, LLADD_NO_FRAME);
    for (int i = 0; i < 4; i++)
        lladd_dtable_unpin(&pins[i]);
    rows_check(&m, t, 2, 100);
    /* The open run alone needs more memory than this limit. The cache has a few blocks
     * nevertheless. */
    lladd_dtable_cache_limit(b.db, 1);
    rows_check(&m, t, 3, 100);
    lladd_dtable_close(t);
    lladd_dtable_cache_stats_get(b.db, &s);
    ck_assert_uint_eq(s.used, 0);
    rows_free(&m);
}
END_TEST

/* The lookup of an exception must not release the block with the key. In a small cache, another
 * block would soon take the place of that block. */
START_TEST(keys_stay_while_exceptions_are_looked_up)
{
    static const char config[] =
        "class(dt) exception_dtable config [ \"base\" class(dt) fixed_dtable \"base_config\" "
        "config [ \"value_size\" int 5 ] \"alt\" class(dt) linear_dtable "
        "\"reject_value\" string \"_____\" ]";
    static const struct shape words = {LLADD_DTABLE_STRING, 4000, 10, 3, 0, false};
    struct model m;
    lladd_pageno root;
    rows_init(&m, LLADD_DTABLE_STRING);
    struct lladd_dtable *t = rows_run(&b, &m, config, &words, 7, &root);
    ck_assert_ptr_nonnull(t);
    lladd_dtable_cache_limit(b.db, 40000);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    rows_check(&m, t, 3, 2000);
    lladd_dtable_close(t);
    rows_free(&m);
}
END_TEST

static void put_in_memory(struct lladd_dtable *t, struct lladd_dtable_key key, const char *value)
{
    struct lladd_dtable_value v = lladd_dtable_value_of(value, strlen(value));
    ok_db(&b, lladd_dtable_put(t, &key, &v, &b.err));
}

static void says(const struct lladd_dtable *t, struct lladd_dtable_key key, const char *value)
{
    char text[20] = "";
    size_t len = 0;
    int rc = lladd_dtable_get(t, &key, text, sizeof text - 1, &len, &b.err);
    ck_assert_msg(rc == (value ? 0 : LLADD_NOT_FOUND), "%s", lladd_code_name(rc));
    ck_assert_str_eq(value ? text : "", value ? value : "");
}

/* An overlay asks a table only if the key is within the table's range of keys. The right row is
 * also found if a table is empty or gets rows later, and for the least and the greatest key. */
START_TEST(an_overlay_skips_tables)
{
    static const char *const low[] = {"a", "b", "c", NULL}, *const high[] = {"x", "(gone)", NULL};
    static const char *const none[] = {NULL};
    struct lladd_dtable *parts[4], *all;
    struct lladd_dtable_cursor *c;
    ok_db(&b, lladd_dtable_memory(b.db, LLADD_DTABLE_U32, NULL, &parts[0], &b.err));
    parts[1] = run_of(&b, "class(dt) linear_dtable", 10, none);
    parts[2] = run_of(&b, "class(dt) linear_dtable", 12, high);
    parts[3] = run_of(&b, "class(dt) linear_dtable", 10, low);
    ok_db(&b, lladd_dtable_overlay(b.db, parts, 4, &all, &b.err));
    says(all, lladd_dtable_u32(9), NULL);
    says(all, lladd_dtable_u32(10), "a");
    says(all, lladd_dtable_u32(11), "b");
    says(all, lladd_dtable_u32(12), "x");
    says(all, lladd_dtable_u32(13), NULL);
    says(all, lladd_dtable_u32(14), NULL);
    put_in_memory(parts[0], lladd_dtable_u32(11), "new");
    says(all, lladd_dtable_u32(10), "a");
    says(all, lladd_dtable_u32(11), "new");
    says(all, lladd_dtable_u32(12), "x");
    put_in_memory(parts[0], lladd_dtable_u32(0), "least");
    put_in_memory(parts[0], lladd_dtable_u32(UINT32_MAX), "most");
    says(all, lladd_dtable_u32(0), "least");
    says(all, lladd_dtable_u32(UINT32_MAX), "most");
    says(all, lladd_dtable_u32(UINT32_MAX - 1), NULL);
    ok_db(&b, lladd_dtable_cursor_open(all, 0, &c, &b.err));
    unsigned rows = 0;
    for (int rc = lladd_dtable_first(c, &b.err); rc != LLADD_END;
         rc = lladd_dtable_next(c, &b.err), rows++)
        ok_db(&b, rc);
    ck_assert_uint_eq(rows, 5);
    lladd_dtable_cursor_close(c);
    lladd_dtable_close(all);
    for (int i = 0; i < 4; i++)
        lladd_dtable_close(parts[i]);
}
END_TEST

/* Keys of other types, in memory: doubles of both signs, and strings with equal beginnings. */
START_TEST(an_overlay_skips_memory_tables)
{
    static const double numbers[] = {-1e300, -1, 0, 1e-300, 7};
    static const char *const texts[] = {"", "a", "beginning", "beginning and more", "beginning2"};
    for (int kind = 0; kind < 2; kind++) {
        struct lladd_dtable *parts[2], *all;
        for (int i = 0; i < 2; i++)
            ok_db(&b, lladd_dtable_memory(b.db, kind ? LLADD_DTABLE_STRING : LLADD_DTABLE_DOUBLE,
                                          NULL, &parts[i], &b.err));
        ok_db(&b, lladd_dtable_overlay(b.db, parts, 2, &all, &b.err));
        for (int n = 0; n < 5; n++) { /* outwards: 2, 3, 1, 4, 0 */
            int k = 2 + (n % 2 ? (n + 1) / 2 : -n / 2);
            struct lladd_dtable_key key =
                kind ? lladd_dtable_string(texts[k]) : lladd_dtable_double(numbers[k]);
            says(all, key, NULL);
            put_in_memory(parts[n % 2], key, "here");
            says(all, key, "here");
        }
        lladd_dtable_close(all);
        lladd_dtable_close(parts[0]);
        lladd_dtable_close(parts[1]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable.run");
    TCase *tc = tcase_create("run");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, runs_survive_a_close_and_a_crash);
    tcase_add_test(tc, discarded_aborted_and_freed_runs_leave_no_pages);
    tcase_add_test(tc, a_run_takes_only_the_pages_it_needs);
    tcase_add_test(tc, open_runs_are_not_freed);
    tcase_add_test(tc, invalid_keys);
    tcase_add_test(tc, invalid_strings_and_bytes);
    tcase_add_test(tc, long_keys_and_values);
    tcase_add_test(tc, tombstones_hide_older_rows);
    tcase_add_test(tc, reserved_values);
    tcase_add_test(tc, placeholders);
    tcase_add_test(tc, size_of_a_filter);
    tcase_add_test(tc, sparse_arrays);
    tcase_add_loop_test(tc, memory_runs_out, 0, sizeof lives / sizeof lives[0]);
    tcase_add_loop_test(tc, reads_fail, 0, sizeof either / sizeof either[0]);
    tcase_add_loop_test(tc, damage_is_named, 0, sizeof either / sizeof either[0]);
    tcase_add_test(tc, memory_is_bounded);
    tcase_add_test(tc, keys_stay_while_exceptions_are_looked_up);
    tcase_add_test(tc, an_overlay_skips_tables);
    tcase_add_test(tc, an_overlay_skips_memory_tables);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
