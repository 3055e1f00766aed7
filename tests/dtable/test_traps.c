/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests where the class of a dTable can easily make mistakes: cursors at the ends, merged cursors
 * that change direction, placeholders, redo after a page was reused. More of these tests are in
 * test_run.c and test_classes.c.
 */
#include "model.h"
#include "texts.h"

#include <lladd/blob.h>
#include <lladd/bytes.h>
#include <lladd/records.h>

static struct fixture b;

#define EXCEPTION \
    "class(dt) exception_dtable config [ \"base\" class(dt) array_dtable \"base_config\" config " \
    "[ \"value_size\" int 1 ] \"alt\" class(dt) linear_dtable \"reject_value\" string \"_\" ]"
/* Classes of every kind: some find places, some have cursors of their own, and some use the places
 * and cursors of their base. */
static const char *const kinds[] = {
    "class(dt) linear_dtable",
    "class(dt) fixed_dtable config [ \"value_size\" int 1 ]",
    "class(dt) array_dtable config [ \"value_size\" int 1 ]",
    "class(dt) btree_dtable config [ \"base\" class(dt) linear_dtable ]",
    "class(dt) btree_dtable config [ \"base\" class(dt) array_dtable ]",
    "class(dt) bloom_dtable config [ \"base\" class(dt) fixed_dtable ]",
    "class(dt) dictionary_dtable config [ \"values\" words [ \"a\" \"b\" \"c\" \"d\" \"e\" \"f\" "
    "\"g\" \"h\" \"i\" ] \"base\" class(dt) array_dtable ]",
    "class(dt) ustring_dtable config [ \"base\" class(dt) linear_dtable ]",
    "class(dt) cache_dtable config [ \"base\" class(dt) linear_dtable ]",
    "class(dt) compress_dtable config [ \"base\" class(dt) linear_dtable ]",
    "class(dt) auto_dtable",
    "class(dt) exist_dtable config [ \"base\" class(dt) array_dtable \"base_config\" config [ "
    "\"tag_byte\" bool false \"hole_value\" string \"?\" ] \"tombstones\" class(dt) "
    "linear_dtable ]",
    "class(dt) ranges_dtable config [ \"base\" class(dt) array_dtable \"ranges\" class(dt) "
    "linear_dtable ]",
    "class(dt) keydiv_dtable config [ \"divider\" int 55 \"below\" class(dt) array_dtable "
    "\"from\" class(dt) linear_dtable ]",
    "class(dt) multicolumn_dtable config [ \"columns\" words [ \"u8\" ] ]",
    EXCEPTION,
};
enum { KINDS = sizeof kinds / sizeof kinds[0], ROWS = 9 };

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

/* Makes a run: the keys 10, 20, ... 90 with the values a, b, ... i. */
static struct lladd_dtable *tens(const char *config, lladd_pageno *root)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, config);
    for (uint32_t i = 1; i <= ROWS; i++) {
        const char value[2] = {(char)('a' + i - 1), 0};
        ok(txn, add_text(run, 10 * i, value));
    }
    ok(txn, lladd_dtable_run_finish(run, root));
    commit(txn);
    return open_run(&b, *root);
}

/* Checks that the cursor is at row i of a run that `tens` has made. */
static void is_at(struct lladd_dtable_cursor *c, uint32_t i)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
    ck_assert_uint_eq(key.number, 10 * i);
    ck_assert_int_eq(v.state, LLADD_DTABLE_FOUND);
    ck_assert_uint_eq(v.bytes.len, 1);
    ck_assert_int_eq(*(const char *)v.bytes.data, (char)('a' + i - 1));
}

/* ---- cursors --------------------------------------------------------------------------------- */

START_TEST(seek_of_an_absent_key_finds_its_neighbours)
{
    lladd_pageno root;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable *t = tens(kinds[_i], &root);
    ok_db(&b, lladd_dtable_cursor_open(t, 0, &c, &b.err));
    for (uint32_t number = 0; number <= 10 * ROWS + 15; number++) {
        struct lladd_dtable_key key = lladd_dtable_u32(number);
        uint32_t after = (number + 9) / 10, before = number / 10;
        after = after ? after : 1;
        before = before < ROWS ? before : ROWS;
        ck_assert_int_eq(lladd_dtable_seek(c, &key, &b.err), after <= ROWS ? 0 : LLADD_END);
        if (after <= ROWS)
            is_at(c, after);
        ck_assert_int_eq(lladd_dtable_seek_for_prev(c, &key, &b.err), before ? 0 : LLADD_END);
        if (before)
            is_at(c, before);
    }
    lladd_dtable_cursor_close(c);
    lladd_dtable_close(t);
}
END_TEST

START_TEST(a_cursor_before_the_first_row_has_no_row)
{
    lladd_pageno root;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key;
    struct lladd_dtable *t = tens(kinds[_i], &root);
    ok_db(&b, lladd_dtable_cursor_open(t, 0, &c, &b.err));
    for (int twice = 0; twice < 2; twice++) {
        ok_db(&b, lladd_dtable_first(c, &b.err));
        is_at(c, 1);
        ck_assert_int_eq(lladd_dtable_prev(c, &b.err), LLADD_END);
        ck_assert_int_eq(lladd_dtable_row(c, &key, NULL, &b.err), LLADD_BAD_STATE);
        ck_assert_int_eq(lladd_dtable_prev(c, &b.err), LLADD_END);
        ok_db(&b, lladd_dtable_next(c, &b.err));
        is_at(c, 1);
        ok_db(&b, lladd_dtable_last(c, &b.err));
        ck_assert_int_eq(lladd_dtable_next(c, &b.err), LLADD_END);
        ok_db(&b, lladd_dtable_prev(c, &b.err));
        is_at(c, ROWS);
    }
    lladd_dtable_cursor_close(c);
    lladd_dtable_close(t);
}
END_TEST

/* Each of three tables has every third row; a fourth table is empty. The cursor changes its
 * direction at each row. */
START_TEST(merged_cursors_change_direction)
{
    struct lladd_dtable *parts[4], *all;
    struct lladd_dtable_cursor *c;
    for (int i = 0; i < 4; i++)
        ok_db(&b, lladd_dtable_memory(b.db, LLADD_DTABLE_U32, NULL, &parts[i], &b.err));
    for (uint32_t i = 1; i <= ROWS; i++) {
        const char value = (char)('a' + i - 1);
        struct lladd_dtable_key key = lladd_dtable_u32(10 * i);
        struct lladd_dtable_value v = lladd_dtable_value_of(&value, 1);
        struct lladd_dtable_value older = lladd_dtable_value_of("!", 1);
        ok_db(&b, lladd_dtable_put(parts[i % 3], &key, &v, &b.err));
        if (i % 3 == 0) /* hidden by the newer one */
            ok_db(&b, lladd_dtable_put(parts[1], &key, &older, &b.err));
    }
    ok_db(&b, lladd_dtable_overlay(b.db, parts, 4, &all, &b.err));
    ok_db(&b, lladd_dtable_cursor_open(all, 0, &c, &b.err));
    for (uint32_t i = 1; i <= ROWS; i++) {
        ok_db(&b, lladd_dtable_next(c, &b.err));
        is_at(c, i);
        if (i == 1)
            continue;
        ok_db(&b, lladd_dtable_prev(c, &b.err));
        is_at(c, i - 1);
        ok_db(&b, lladd_dtable_next(c, &b.err));
        is_at(c, i);
    }
    for (uint32_t i = ROWS - 1; i >= 1; i--) {
        ok_db(&b, lladd_dtable_prev(c, &b.err));
        is_at(c, i);
        ok_db(&b, lladd_dtable_next(c, &b.err));
        is_at(c, i + 1);
        ok_db(&b, lladd_dtable_prev(c, &b.err));
        is_at(c, i);
    }
    lladd_dtable_cursor_close(c);
    lladd_dtable_close(all);
    for (int i = 0; i < 4; i++)
        lladd_dtable_close(parts[i]);
}
END_TEST

/* A table with the rows of another one; its cursors count their steps. */
struct asked {
    struct lladd_dtable base;
    const struct lladd_dtable *of;
    uint64_t *steps;
};
struct asked_cursor {
    struct lladd_dtable_cursor *rows;
};

static int asked_lookup(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                        struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                        struct lladd_error *err)
{
    return lladd_dtable_ask(((const struct asked *)t)->of, key, pin, out, err);
}

static int asked_open(const struct lladd_dtable *t, void *cursor, struct lladd_error *err)
{
    struct asked_cursor *c = cursor;
    return lladd_dtable_cursor_open(((const struct asked *)t)->of, LLADD_DTABLE_TOMBSTONES,
                                    &c->rows, err);
}

static void asked_close(const struct lladd_dtable *t, void *cursor)
{
    (void)t;
    lladd_dtable_cursor_close(((struct asked_cursor *)cursor)->rows);
}

static int asked_seek(const struct lladd_dtable *t, void *cursor, enum lladd_dtable_where where,
                      const struct lladd_dtable_key *key, struct lladd_error *err)
{
    (void)t;
    return lladd_dtable_go(((struct asked_cursor *)cursor)->rows, where, key, err);
}

static int asked_step(const struct lladd_dtable *t, void *cursor, bool forward,
                      struct lladd_error *err)
{
    struct lladd_dtable_cursor *rows = ((struct asked_cursor *)cursor)->rows;
    struct lladd_dtable_value v;
    ++*((const struct asked *)t)->steps;
    int rc = lladd_dtable_row(rows, NULL, &v, err); /* the cursor has a row, even if only the
                                                     * leading table's cursor was moved */
    if (rc)
        return rc;
    ck_assert_int_ne((int)v.state, LLADD_DTABLE_ABSENT);
    return forward ? lladd_dtable_next(rows, err) : lladd_dtable_prev(rows, err);
}

static int asked_row(const struct lladd_dtable *t, void *cursor, struct lladd_dtable_key *key,
                     struct lladd_dtable_value *value, struct lladd_error *err)
{
    (void)t;
    return lladd_dtable_row(((struct asked_cursor *)cursor)->rows, key, value, err);
}

static bool asked_lead(const struct lladd_dtable *t, void *cursor, struct lladd_dtable_lead *out)
{
    (void)t;
    return lladd_dtable_cursor_lead(((struct asked_cursor *)cursor)->rows, out);
}

static const struct lladd_dtable_class asked_class = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "asked_dtable",
    .version = 1,
    .lookup = asked_lookup,
    .cursor_size = sizeof(struct asked_cursor),
    .cursor_open = asked_open,
    .cursor_close = asked_close,
    .cursor_seek = asked_seek,
    .cursor_step = asked_step,
    .cursor_row = asked_row,
    .cursor_lead = asked_lead,
};

/* Makes a table with thousands of rows, and two newer tables with a few rows. Rows of the large
 * table are between, before and after the few rows. Some of the few keys are in the large table. */
static void many_below_few(const char *config, struct model *m, struct lladd_dtable *parts[3])
{
    struct shape shape = {LLADD_DTABLE_U32, 4000, 100, 3, 20, false};
    lladd_pageno root;
    rows_init(m, shape.type);
    parts[2] = rows_run(&b, m, config, &shape, 5, &root);
    for (int i = 0; i < 2; i++)
        ok_db(&b, lladd_dtable_memory(b.db, LLADD_DTABLE_U32, NULL, &parts[i], &b.err));
    for (uint32_t i = 0; i < 30; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(400 + 211 * i);
        struct lladd_dtable_value v =
            i % 5 == 3 ? lladd_dtable_tombstone() : lladd_dtable_value_of("newer", 5);
        struct lladd_dtable_value older = lladd_dtable_value_of("older", 5);
        if (i % 3 == 0)
            ok_db(&b, lladd_dtable_put(parts[1], &key, &older, &b.err));
        ok_db(&b, lladd_dtable_put(parts[i % 3 == 0 ? 0 : i % 2], &key, &v, &b.err));
        rows_put(m, &key, &v);
    }
}

/* Walks over all rows from one end to the other. Returns how many steps the cursors of the table
 * have made. */
static uint64_t steps_for_all(const struct asked *t, bool forward, size_t rows)
{
    struct lladd_dtable_cursor *c;
    uint64_t before = *t->steps;
    size_t n = 0;
    ok_db(&b, lladd_dtable_cursor_open(&t->base, LLADD_DTABLE_TOMBSTONES, &c, &b.err));
    int rc = forward ? lladd_dtable_first(c, &b.err) : lladd_dtable_last(c, &b.err);
    for (; rc == 0; n++)
        rc = forward ? lladd_dtable_next(c, &b.err) : lladd_dtable_prev(c, &b.err);
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_uint_eq(n, rows);
    lladd_dtable_cursor_close(c);
    return *t->steps - before;
}

/* During long moves in either direction, only the cursor of one table is moved, not those of all
 * tables. */
START_TEST(long_moves_use_one_cursor)
{
    static const char *const configs[] = {
        "class(dt) linear_dtable",
        "class(dt) exception_dtable config [ \"base\" class(dt) array_dtable \"alt\" class(dt) "
        "linear_dtable \"reject_value\" string \"_____\" ]",
        "class(dt) cache_dtable config [ \"base\" class(dt) ustring_dtable \"base_config\" config "
        "[ \"base\" class(dt) linear_dtable ] ]"};
    struct lladd_dtable *parts[3], *all;
    struct model m;
    uint64_t steps = 0;
    many_below_few(configs[_i], &m, parts);
    ok_db(&b, lladd_dtable_overlay(b.db, parts, 3, &all, &b.err));
    rows_check(&m, all, 77 + (uint64_t)_i, 4000);
    struct asked asked = {
        .base = {.kind = &asked_class, .db = b.db, .order = m.order}, .of = all, .steps = &steps};
    rows_check(&m, &asked.base, 99 + (uint64_t)_i, 4000);
    uint64_t forward = steps_for_all(&asked, true, m.n), back = steps_for_all(&asked, false, m.n);
    ck_assert_uint_lt(forward, m.n / 2);
    ck_assert_uint_lt(back, m.n / 2);
    lladd_dtable_close(all);
    for (int i = 0; i < 3; i++)
        lladd_dtable_close(parts[i]);
    rows_free(&m);
}
END_TEST

/* During long moves in one direction only one table's cursor moves. After a change of direction,
 * the cursor sees rows that were put into another table meanwhile. */
START_TEST(long_moves_change_direction)
{
    enum { ROWS_BELOW = 1000, AT = 500, FAR = 100 };
    struct lladd_dtable *parts[2], *all;
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key;
    uint64_t steps = 0;
    lladd_pageno root;
    struct model m;
    struct shape shape = {LLADD_DTABLE_U32, ROWS_BELOW, 0, 1, 0, false};
    rows_init(&m, shape.type);
    parts[1] = rows_run(&b, &m, "class(dt) linear_dtable", &shape, 5, &root);
    ok_db(&b, lladd_dtable_memory(b.db, LLADD_DTABLE_U32, NULL, &parts[0], &b.err));
    ok_db(&b, lladd_dtable_overlay(b.db, parts, 2, &all, &b.err));
    struct asked asked = {
        .base = {.kind = &asked_class, .db = b.db, .order = m.order}, .of = all, .steps = &steps};
    ok_db(&b, lladd_dtable_cursor_open(&asked.base, 0, &c, &b.err));
    key = lladd_dtable_u32(AT);
    ok_db(&b, lladd_dtable_seek(c, &key, &b.err));
    uint64_t at = AT, began = 0;
    while (at < AT + FAR) {
        ok_db(&b, lladd_dtable_next(c, &b.err));
        at++;
        began = steps == at - AT ? at : began; /* up to this row, `asked` has counted each step */
    }
    ck_assert_uint_lt(steps, FAR / 2);
    for (int turn = 0; turn < 3; turn++) {
        uint64_t asked_for = steps;
        for (; at > began; at--)
            ok_db(&b, lladd_dtable_prev(c, &b.err));
        ok_db(&b, lladd_dtable_row(c, &key, NULL, &b.err));
        ck_assert_uint_eq(key.number, at);
        for (; at < AT + FAR; at++)
            ok_db(&b, lladd_dtable_next(c, &b.err));
        ck_assert_uint_lt(steps - asked_for, FAR); /* most moves moved only one table's cursor */
    }
    /* Up to here, one table's cursor was moved in one direction. The direction now changes. */
    for (int forward = 0; forward < 2; forward++) {
        struct lladd_dtable_value v = lladd_dtable_value_of("new", 3), there;
        key = lladd_dtable_u32((uint32_t)(forward ? at + 1 : at - 1));
        ok_db(&b, lladd_dtable_put(parts[0], &key, &v, &b.err));
        ok_db(&b, forward ? lladd_dtable_next(c, &b.err) : lladd_dtable_prev(c, &b.err));
        ok_db(&b, lladd_dtable_row(c, &key, &there, &b.err));
        ck_assert_uint_eq(key.number, forward ? at + 1 : at - 1);
        ck_assert(there.bytes.len == 3 && memcmp(there.bytes.data, "new", 3) == 0);
        for (at--; !forward && at > AT; at--)
            ok_db(&b, lladd_dtable_prev(c, &b.err));
    }
    lladd_dtable_cursor_close(c);
    lladd_dtable_close(all);
    for (int i = 0; i < 2; i++)
        lladd_dtable_close(parts[i]);
    rows_free(&m);
}
END_TEST

/* ---- exceptions ------------------------------------------------------------------------------ */

static void expect(const struct lladd_dtable *t, uint32_t number, const char *want)
{
    char got[64];
    size_t len;
    struct lladd_dtable_key key = lladd_dtable_u32(number);
    ok_db(&b, lladd_dtable_get(t, &key, got, sizeof got, &len, &b.err));
    ck_assert_uint_eq(len, strlen(want));
    ck_assert_int_eq(memcmp(got, want, len), 0);
}

/* Flips the lowest bit of the first byte of the text, at each place of the text in the page
 * file. */
static void forge_pages(const char *what)
{
    size_t len = strlen(what);
    unsigned char page[4096];
    struct lladd_iovec piece = {page, sizeof page};
    struct lladd_file *file;
    bool found = false;
    ck_assert_int_eq(b.base->ops->open(b.base, "pages", 0, &file), 0);
    for (uint64_t at = 0; b.base->ops->pread(b.base, file, page, sizeof page, at) == sizeof page;
         at += sizeof page)
        for (size_t i = 0; i + len <= sizeof page; i++)
            if (memcmp(page + i, what, len) == 0) {
                page[i] ^= 1;
                found = true;
                ck_assert_int_eq(b.base->ops->pwritev(b.base, file, &piece, 1, at), 0);
            }
    ck_assert(found);
    ck_assert_int_eq(b.base->ops->close(b.base, file), 0);
}

/* A value that equals the placeholder is returned. If an exception cannot be read, the lookup
 * fails. It must not return the placeholder that is stored in its place. */
START_TEST(an_unreadable_exception_is_an_error)
{
    lladd_pageno root;
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, EXCEPTION);
    char got[64];
    size_t len;
    ok(txn, add_text(run, 1, "x"));
    ok(txn, add_text(run, 2, "_"));
    ok(txn, add_text(run, 3, "what is too long for the array"));
    ok(txn, add_text(run, 4, ""));
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct lladd_dtable *t = open_run(&b, root);
    expect(t, 1, "x");
    expect(t, 2, "_");
    expect(t, 3, "what is too long for the array");
    expect(t, 4, "");
    lladd_dtable_close(t);
    fixture_close(&b);
    forge_pages("what is too long");
    fixture_open(&b);
    t = open_run(&b, root);
    expect(t, 1, "x");
    struct lladd_dtable_key key = lladd_dtable_u32(3);
    ck_assert_int_eq(lladd_dtable_get(t, &key, got, sizeof got, &len, &b.err), LLADD_CORRUPT_RUN);
    ck_assert_ptr_nonnull(strstr(b.err.message, "linear_dtable"));
    lladd_dtable_close(t);
    fixture_close(&b);
    forge_pages("vhat is too long"); /* restores the text */
    fixture_open(&b);
}
END_TEST

/* ---- pages and bytes ------------------------------------------------------------------------- */

/* Pages are changed, freed, and allocated again for a run. The log that redo reads still has the
 * changes. Redo must not apply them to the run. */
START_TEST(redo_skips_old_changes_of_reused_pages)
{
    enum { PAGES = 40 };
    struct model m;
    static const struct shape many = {LLADD_DTABLE_U32, 3000, 10, 3, 6, false};
    lladd_pageno first, root;
    unsigned char noise[500];
    memset(noise, 0xa5, sizeof noise);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_extent_alloc(txn, PAGES, LLADD_EXTENT_PAGED, &first));
    for (uint64_t i = 0; i < PAGES; i++) {
        ok(txn, lladd_bytes_format(txn, lladd_page_of(first.v + i)));
        ok(txn, lladd_bytes_set(txn, lladd_page_of(first.v + i), 100, noise, sizeof noise));
    }
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_extent_free(txn, first, PAGES));
    commit(txn);
    rows_init(&m, many.type);
    lladd_dtable_close(rows_run(&b, &m, "class(dt) linear_dtable", &many, 3, &root));
    bool reused = false;
    struct lladd_dtable *t = open_run(&b, root);
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    ok_db(&b, lladd_dtable_run_info_get(t, &info, &b.err));
    ck_assert_uint_gt(info.pages, 3);
    lladd_dtable_close(t);
    for (uint64_t i = 0; i < PAGES && !reused; i++) {
        enum lladd_page_use use;
        ok_db(&b, lladd_page_use_get(b.db, lladd_page_of(first.v + i), &use, &b.err));
        reused = use == LLADD_USE_PAGED || use == LLADD_USE_RAW;
    }
    ck_assert(reused);
    fixture_crash(&b);
    t = open_run(&b, root);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    rows_check(&m, t, 1, 100);
    lladd_dtable_close(t);
    rows_free(&m);
}
END_TEST

/* Numbers are little-endian and of the width that docs/disk-format.md states, on every machine. */
START_TEST(bytes_are_those_of_the_format)
{
    lladd_pageno root;
    unsigned char bytes[48];
    lladd_dtable_close(tens(kinds[0], &root));
    ok_db(&b, lladd_blob_read(b.db, root, 0, bytes, sizeof bytes, NULL, &b.err));
    ck_assert_int_eq(memcmp(bytes, "LLADDrun", 8), 0);
    static const unsigned char rows[16] = {ROWS}; /* u64 number of rows, u64 number of tombstones,
                                                   * which is 0 */
    static const unsigned char type[4] = {LLADD_DTABLE_U32};
    ck_assert_int_eq(memcmp(bytes + 8, "\1\0\0\0", 4), 0); /* u32 version */
    ck_assert_int_eq(memcmp(bytes + 12, type, 2), 0);
    ck_assert_int_eq(memcmp(bytes + 24, rows, sizeof rows), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dtable.traps");
    TCase *tc = tcase_create("traps");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, seek_of_an_absent_key_finds_its_neighbours, 0, KINDS);
    tcase_add_loop_test(tc, a_cursor_before_the_first_row_has_no_row, 0, KINDS);
    tcase_add_test(tc, merged_cursors_change_direction);
    tcase_add_loop_test(tc, long_moves_use_one_cursor, 0, 3);
    tcase_add_test(tc, long_moves_change_direction);
    tcase_add_test(tc, an_unreadable_exception_is_an_error);
    tcase_add_test(tc, redo_skips_old_changes_of_reused_pages);
    tcase_add_test(tc, bytes_are_those_of_the_format);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
