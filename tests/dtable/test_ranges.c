/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deleted ranges: the class that stores them, and overlays of tables, some of which have ranges.
 * Lookups, cursors in both directions and intervals are compared with a model.
 */
#include "model.h"
#include "texts.h"

#include <lladd/blob.h>
#include <lladd/dtable_row.h>
#include <stdio.h>

enum { KEYS = 60, LAYERS = 4, RANGES = 8 };
#ifdef LL_TEST_SHORT
enum { SEEDS = 12, MOVES = 150 };
#else
enum { SEEDS = 60, MOVES = 400 };
#endif

#define LINEAR "class(dt) linear_dtable"
#define OVER(base, ranges) \
    "class(dt) ranges_dtable config [ \"base\" " base " \"ranges\" " ranges " ]"
/* The text of a layer and its parameters, where the layer is the parameter "base" or "ranges" of
 * another layer. */
#define BASE(class_name, config) class_name " \"base_config\" config [ " config " ]"
#define AND_RANGES(class_name, config) class_name " \"ranges_config\" config [ " config " ]"

static struct fixture b;

/* ---- keys ------------------------------------------------------------------------------------ */

static int backwards(void *ctx, struct lladd_span a, struct lladd_span z)
{
    size_t n = a.len < z.len ? a.len : z.len;
    int order = n ? memcmp(z.data, a.data, n) : 0;
    (void)ctx;
    return order ? order : z.len < a.len ? -1 : z.len > a.len;
}
static const struct lladd_dtable_comparator reversed = {
    .struct_size = sizeof reversed, .name = "backwards", .compare = backwards};

static const struct kind {
    enum lladd_dtable_type type;
    const char *comparator, *config[LAYERS];
} kinds[] = {
    {LLADD_DTABLE_U32,
     NULL,
     {OVER(LINEAR, LINEAR), OVER("class(dt) array_dtable", LINEAR),
      "class(dt) compress_dtable config [ \"base\" class(dt) ranges_dtable \"base_config\" "
      "config [ \"base\" class(dt) auto_dtable \"ranges\" class(dt) auto_dtable ] ]",
      LINEAR}},
    {LLADD_DTABLE_U64,
     NULL,
     {OVER("class(dt) fixed_dtable",
           "class(dt) array_dtable"), /* has holes between the rows for ranges */
      LINEAR, OVER(LINEAR, LINEAR),
      OVER(BASE("class(dt) exist_dtable", "\"base\" class(dt) array_dtable \"tombstones\" " LINEAR),
           AND_RANGES("class(dt) btree_dtable", "\"base\" " LINEAR))}},
    {LLADD_DTABLE_DOUBLE, NULL, {OVER(LINEAR, LINEAR), OVER(LINEAR, LINEAR), LINEAR, LINEAR}},
    {LLADD_DTABLE_STRING,
     NULL,
     {OVER(BASE("class(dt) bloom_dtable", "\"base\" " LINEAR), LINEAR), OVER(LINEAR, LINEAR),
      OVER(LINEAR, LINEAR), OVER(LINEAR, LINEAR)}},
    {LLADD_DTABLE_BYTES,
     "backwards",
     {OVER(LINEAR, LINEAR), LINEAR, OVER(LINEAR, LINEAR), OVER(LINEAR, LINEAR)}},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* Returns the i-th key, or if `before`, a key between the i-th key and the previous one. */
static struct lladd_dtable_key key_of(const struct kind *k, unsigned i, bool before, char text[16])
{
    switch (k->type) {
    case LLADD_DTABLE_U32:
        return lladd_dtable_u32(2 * i + 1 - before);
    case LLADD_DTABLE_U64:
        return lladd_dtable_u64(2 * i + 1 - before);
    case LLADD_DTABLE_DOUBLE:
        return lladd_dtable_double((double)i - 20 - (before ? 0.5 : 0));
    case LLADD_DTABLE_STRING:
        snprintf(text, 16, before ? "%03u~" : "%03u", i + !before);
        return lladd_dtable_string(text);
    default:
        snprintf(text, 16, before ? "%03u~" : "%03u", 900 - i);
        return lladd_dtable_bytes(text, strlen(text));
    }
}

/* ---- the model ------------------------------------------------------------------------------- */

struct range {
    unsigned from, to; /* keys [from, to) are in it */
    bool open_from, open_to, before_from, before_to;
};
struct layer {
    enum lladd_dtable_state row[KEYS];
    struct range ranges[RANGES];
    unsigned n;
    lladd_pageno root;
    struct lladd_dtable *table;
};
struct stack {
    const struct kind *kind;
    uint64_t seed;
    struct layer layers[LAYERS];
    unsigned first; /* the newest that counts */
};

static unsigned draw(struct stack *s, unsigned below)
{
    return (unsigned)(seeded_next(&s->seed) % below);
}

static bool deleted(const struct layer *l, unsigned i)
{
    for (unsigned k = 0; k < l->n; k++)
        if (l->ranges[k].from <= i && i < l->ranges[k].to)
            return true;
    return false;
}

/* Returns the state of a key. *layer becomes the layer that has the key's row. It becomes LAYERS if
 * no layer has a row, or if a range has deleted the key. */
static enum lladd_dtable_state state_at(const struct stack *s, unsigned i, unsigned *layer)
{
    for (*layer = s->first; *layer < LAYERS; ++*layer) {
        if (s->layers[*layer].row[i] != LLADD_DTABLE_ABSENT)
            return s->layers[*layer].row[i];
        if (deleted(&s->layers[*layer], i)) {
            *layer = LAYERS;
            return LLADD_DTABLE_TOMBSTONE;
        }
    }
    return LLADD_DTABLE_ABSENT;
}

/* Draws ascending ranges, with at least one key between two of them. */
static void draw_ranges(struct stack *s, struct layer *l)
{
    unsigned at = draw(s, 20), most = draw(s, RANGES);
    for (l->n = 0; l->n < most && at < KEYS; l->n++) {
        struct range *r = &l->ranges[l->n];
        unsigned len = draw(s, 3) ? draw(s, 6) : draw(s, 30);
        *r = (struct range){
            .from = at, .to = at + 1 + len, .before_from = draw(s, 2), .before_to = draw(s, 2)};
        if (l->n == 0 && draw(s, 4) == 0) {
            r->open_from = true;
            r->from = 0;
        }
        if (r->to >= KEYS) {
            r->open_to = true;
            r->to = KEYS;
        }
        at = r->to + 1 + draw(s, 12);
    }
}

static void build(struct stack *s, unsigned i)
{
    struct layer *l = &s->layers[i];
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    struct lladd_txn *txn = fixture_begin(&b);
    unsigned more = draw(s, 5);
    bool first = draw(s, 2);
    o.type = s->kind->type;
    o.comparator = s->kind->comparator;
    o.text = s->kind->config[i];
    o.block_bytes = 4096;
    l->n = 0;
    if (strstr(o.text, "ranges"))
        draw_ranges(s, l);
    ok(txn, lladd_dtable_run_begin(txn, &o, &run));
    for (unsigned pass = 0; pass < 2; pass++) {
        char text[16], end[16], value[8];
        for (unsigned k = 0; k < KEYS && (pass == 0) == first; k++) {
            struct lladd_dtable_key key = key_of(s->kind, k, false, text);
            snprintf(value, sizeof value, "%u-%02u", i, k);
            struct lladd_dtable_value v = lladd_dtable_value_of(value, 4);
            l->row[k] = draw(s, 6) > more ? LLADD_DTABLE_FOUND
                        : draw(s, 4) == 0 ? LLADD_DTABLE_TOMBSTONE
                                          : LLADD_DTABLE_ABSENT;
            if (l->row[k] == LLADD_DTABLE_TOMBSTONE)
                v = lladd_dtable_tombstone();
            if (l->row[k] != LLADD_DTABLE_ABSENT)
                ok(txn, lladd_dtable_run_add(run, &key, &v));
        }
        for (unsigned k = 0; k < l->n && (pass == 0) != first; k++) {
            const struct range *r = &l->ranges[k];
            struct lladd_dtable_key from = key_of(s->kind, r->from, r->before_from, text),
                                    to = key_of(s->kind, r->to, r->before_to, end);
            ok(txn, lladd_dtable_run_add_range(run, r->open_from ? NULL : &from,
                                               r->open_to ? NULL : &to));
        }
    }
    ok(txn, lladd_dtable_run_finish(run, &l->root));
    commit(txn);
    ok_db(&b, lladd_dtable_run_open(b.db, l->root, &l->table, &b.err));
    ok_db(&b, lladd_dtable_run_check(l->table, &b.err));
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    ok_db(&b, lladd_dtable_run_info_get(l->table, &info, &b.err));
    ck_assert_uint_eq(info.ranges, l->n);
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void same_value(const struct stack *s, unsigned i, const struct lladd_dtable_value *v)
{
    char value[24];
    unsigned layer;
    ck_assert_int_eq(v->state, state_at(s, i, &layer));
    if (v->state != LLADD_DTABLE_FOUND)
        return;
    snprintf(value, sizeof value, "%u-%02u", layer, i);
    ck_assert_uint_eq(v->bytes.len, 4);
    ck_assert_int_eq(memcmp(v->bytes.data, value, 4), 0);
}

static void check_lookups(struct stack *s, const struct lladd_dtable *t)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_columns none = {.pins = &pin};
    for (unsigned i = 0; i < KEYS; i++) {
        char text[16];
        struct lladd_dtable_value v;
        enum lladd_dtable_state state;
        struct lladd_dtable_key key = key_of(s->kind, i, false, text);
        ok_db(&b, lladd_dtable_lookup(t, &key, &pin, &v, &b.err));
        same_value(s, i, &v);
        ok_db(&b, lladd_dtable_lookup_columns(t, &key, &none, &state, &b.err));
        ck_assert_int_eq(state, v.state);
    }
    lladd_dtable_unpin(&pin);
}

static bool shown(const struct stack *s, unsigned i, bool all)
{
    unsigned layer;
    enum lladd_dtable_state state = state_at(s, i, &layer);
    return layer < LAYERS && (all ? state != LLADD_DTABLE_ABSENT : state == LLADD_DTABLE_FOUND);
}

/* Returns the first row from i on, in steps of `by`, that a cursor shows, or -1. */
static int next_shown(const struct stack *s, int i, int by, bool all)
{
    while (i >= 0 && i < KEYS && !shown(s, (unsigned)i, all))
        i += by;
    return i >= 0 && i < KEYS ? i : -1;
}

static void arrive(const struct stack *s, struct lladd_dtable_cursor *c, int rc, int want)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value v;
    char text[16];
    ck_assert_msg(rc == (want < 0 ? LLADD_END : 0), "%s: %s", lladd_code_name(rc), b.err.message);
    if (want < 0)
        return;
    ok_db(&b, lladd_dtable_row(c, &key, &v, &b.err));
    struct lladd_dtable_key expected = key_of(s->kind, (unsigned)want, false, text);
    ck_assert_int_eq(lladd_dtable_compare(&s->layers[0].table->order, &key, &expected), 0);
    same_value(s, (unsigned)want, &v);
}

static void check_cursor(struct stack *s, const struct lladd_dtable *t, bool all)
{
    struct lladd_dtable_cursor *c;
    int at = -1;
    ok_db(&b, lladd_dtable_cursor_open(t, all ? LLADD_DTABLE_TOMBSTONES : 0, &c, &b.err));
    for (unsigned i = 0; i < MOVES; i++) {
        unsigned k = draw(s, KEYS), how = draw(s, 12);
        bool before = draw(s, 2);
        char text[16];
        struct lladd_dtable_key key = key_of(s->kind, k, before, text);
        int rc, want, end = KEYS;
        if (how == 0) {
            rc = lladd_dtable_first(c, &b.err);
            want = next_shown(s, 0, 1, all);
        } else if (how == 1) {
            rc = lladd_dtable_last(c, &b.err);
            want = next_shown(s, KEYS - 1, -1, all);
            end = -1;
        } else if (how == 2) {
            rc = lladd_dtable_seek(c, &key, &b.err);
            want = next_shown(s, (int)k, 1, all);
        } else if (how == 3) {
            rc = lladd_dtable_seek_for_prev(c, &key, &b.err);
            want = next_shown(s, (int)k - before, -1, all);
            end = -1;
        } else if (how < 8) {
            rc = lladd_dtable_next(c, &b.err);
            want = next_shown(s, at + 1, 1, all);
        } else {
            rc = lladd_dtable_prev(c, &b.err);
            want = next_shown(s, at - 1, -1, all);
            end = -1;
        }
        arrive(s, c, rc, want);
        at = want < 0 ? end : want;
    }
    lladd_dtable_cursor_close(c);
}

/* The interval around each key says whether one of the layers deletes the key. */
static void check_intervals(const struct stack *s, const struct lladd_dtable *t, unsigned to)
{
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    for (unsigned i = 0; i < KEYS; i++) {
        struct lladd_dtable_interval st;
        char text[16];
        bool gone = false;
        struct lladd_dtable_key key = key_of(s->kind, i, false, text);
        for (unsigned k = s->first; k < to; k++)
            gone = gone || deleted(&s->layers[k], i);
        ok_db(&b, lladd_dtable_interval_at(t, &key, pins, &st, &b.err));
        ck_assert_int_eq(st.deleted, gone);
        ck_assert(!st.has_from || lladd_dtable_compare(&t->order, &st.from, &key) <= 0);
        ck_assert(!st.has_to || lladd_dtable_compare(&t->order, &key, &st.to) < 0);
    }
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
}

static void check_all(struct stack *s, const struct lladd_dtable *t)
{
    check_lookups(s, t);
    check_cursor(s, t, true);
    check_cursor(s, t, false);
    check_intervals(s, t, LAYERS);
}

static void check_stack(const struct kind *kind, uint64_t seed)
{
    struct stack s = {.kind = kind, .seed = seed};
    struct lladd_dtable *tables[LAYERS], *all, *inner[2], *outer;
    for (unsigned i = 0; i < LAYERS; i++) {
        build(&s, i);
        tables[i] = s.layers[i].table;
    }
    for (s.first = 0; s.first < LAYERS; s.first++) {
        ok_db(&b, lladd_dtable_overlay(b.db, tables + s.first, LAYERS - s.first, &all, &b.err));
        check_all(&s, all);
        lladd_dtable_close(all);
    }
    s.first = 0; /* an overlay of overlays, with the same rows */
    ok_db(&b, lladd_dtable_overlay(b.db, tables, 2, &inner[0], &b.err));
    ok_db(&b, lladd_dtable_overlay(b.db, tables + 2, 2, &inner[1], &b.err));
    ok_db(&b, lladd_dtable_overlay(b.db, inner, 2, &outer, &b.err));
    check_intervals(&s, inner[0], 2);
    check_all(&s, outer);
    lladd_dtable_close(outer);
    lladd_dtable_close(inner[0]);
    lladd_dtable_close(inner[1]);
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < LAYERS; i++) {
        lladd_dtable_close(tables[i]);
        ok(txn, lladd_dtable_run_free(txn, s.layers[i].root));
    }
    commit(txn);
}

static void setup(void)
{
    fixture_init(&b, 4096);
    fixture_open(&b);
    ok_db(&b, lladd_dtable_comparator_add(b.db, &reversed, &b.err));
}

static void teardown(void)
{
    fixture_free(&b);
}

START_TEST(ranges_in_an_overlay)
{
    uint64_t before = fixture_pages_used(&b);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        check_stack(&kinds[_i], seed);
    ck_assert_uint_eq(fixture_pages_used(&b), before);
}
END_TEST

/* ---- edges ----------------------------------------------------------------------------------- */

static int add_range(struct lladd_dtable_run_builder *run, int64_t from, int64_t to)
{
    struct lladd_dtable_key a = lladd_dtable_u32((uint32_t)from),
                            z = lladd_dtable_u32((uint32_t)to);
    return lladd_dtable_run_add_range(run, from < 0 ? NULL : &a, to < 0 ? NULL : &z);
}

START_TEST(ranges_ascend_and_do_not_touch)
{
    struct lladd_dtable_key wrong = lladd_dtable_u64(7);
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, OVER(LINEAR, LINEAR));
    ck_assert_int_eq(add_range(run, 5, 5), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(add_range(run, 5, 4), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_dtable_run_add_range(run, &wrong, NULL), LLADD_WRONG_TYPE);
    ok(txn, add_range(run, -1, 5));
    ck_assert_int_eq(add_range(run, -1, 9), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(add_range(run, 5, 9), LLADD_BAD_ARGUMENT);
    ok(txn, add_range(run, 6, 9));
    ok(txn, add_range(run, 4000000000u, -1));
    ck_assert_int_eq(add_range(run, 4100000000u, -1), LLADD_BAD_ARGUMENT);
    lladd_pageno root;
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct lladd_dtable *t = open_run(&b, root);
    ck_assert_int_eq(state_of(&b, t, 0, NULL), LLADD_DTABLE_TOMBSTONE);
    ck_assert_int_eq(state_of(&b, t, 5, NULL), LLADD_DTABLE_ABSENT);
    ck_assert_int_eq(state_of(&b, t, 8, NULL), LLADD_DTABLE_TOMBSTONE);
    ck_assert_int_eq(state_of(&b, t, 9, NULL), LLADD_DTABLE_ABSENT);
    ck_assert_int_eq(state_of(&b, t, UINT32_MAX, NULL), LLADD_DTABLE_TOMBSTONE);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    lladd_dtable_close(t);
}
END_TEST

START_TEST(only_a_ranges_dtable_accepts_ranges)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, LINEAR);
    ck_assert_int_eq(add_range(run, 1, 5), LLADD_REJECTED);
    ok(txn, add_text(run, 3, "c"));
    lladd_pageno root;
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
}
END_TEST

static void refused(const char *config, const char *why)
{
    struct lladd_dtable_config *c = NULL;
    int rc = lladd_dtable_config_parse(b.db, config, &c, &b.err);
    if (!rc)
        rc = lladd_dtable_config_check(c, LLADD_DTABLE_U32, &b.err);
    ck_assert_int_eq(rc, LLADD_BAD_CONFIG);
    ck_assert_msg(strstr(b.err.message, why), "%s", b.err.message);
    lladd_dtable_config_free(c);
}

START_TEST(a_ranges_dtable_is_at_the_top)
{
    refused("class(dt) bloom_dtable config [ \"base\" " BASE(
                "class(dt) ranges_dtable", "\"base\" " LINEAR " \"ranges\" " LINEAR) " ]",
            "at the top");
    refused("class(dt) exist_dtable config [ \"base\" " LINEAR " \"tombstones\" class(dt) "
            "ranges_dtable \"tombstones_config\" config [ \"base\" " LINEAR " \"ranges\" " LINEAR
            " ] ]",
            "at the top");
    refused(OVER(BASE("class(dt) ranges_dtable", "\"base\" " LINEAR " \"ranges\" " LINEAR), LINEAR),
            "at the top");
    refused(OVER(LINEAR,
                 AND_RANGES("class(dt) ranges_dtable", "\"base\" " LINEAR " \"ranges\" " LINEAR)),
            "at the top");
    refused(OVER(LINEAR, AND_RANGES("class(dt) fixed_dtable", "\"value_size\" int 5")),
            "values of any size");
    refused(OVER(LINEAR, "class(dt) empty_dtable"), "values of any size");
    refused("class(dt) ranges_dtable config [ \"base\" " LINEAR " ]", "expects \"ranges\"");
}
END_TEST

/* If the footer has a wrong number of ranges, the error names the class of the layer. */
START_TEST(damage_is_reported_with_the_class)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run = begin_run(txn, LLADD_DTABLE_U32, OVER(LINEAR, LINEAR));
    for (uint32_t i = 0; i < 3000; i++)
        ok(txn, add_range(run, 10 * i, 10 * i + 5));
    lladd_pageno root;
    ok(txn, lladd_dtable_run_finish(run, &root));
    commit(txn);
    struct lladd_dtable *t = open_run(&b, root);
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    ck_assert_int_eq(state_of(&b, t, 29994, NULL), LLADD_DTABLE_TOMBSTONE);
    ck_assert_int_eq(state_of(&b, t, 29995, NULL), LLADD_DTABLE_ABSENT);
    t->ranges--; /* as if the footer stated one range less */
    ck_assert_int_eq(lladd_dtable_run_check(t, &b.err), LLADD_CORRUPT_RUN);
    ck_assert_msg(strstr(b.err.message, "ranges_dtable") &&
                      strstr(b.err.message, "number of ranges"),
                  "%s", b.err.message);
    lladd_dtable_close(t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dTables: ranges");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, ranges_in_an_overlay, 0, KINDS);
    tcase_add_test(tc, ranges_ascend_and_do_not_touch);
    tcase_add_test(tc, only_a_ranges_dtable_accepts_ranges);
    tcase_add_test(tc, a_ranges_dtable_is_at_the_top);
    tcase_add_test(tc, damage_is_reported_with_the_class);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
