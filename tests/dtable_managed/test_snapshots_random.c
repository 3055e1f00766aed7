/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open snapshots of a managed dTable are compared with copies of a model, by lookups and by cursors
 * that stay open, while rows and ranges are put, digested and combined at random.
 */
#include "managed_fixture.h"

#include <stdio.h>

static struct fixture b;
static struct lladd_managed *t;

enum { KEYS = 60, SNAPSHOTS = 5 };
#ifdef LL_TEST_SHORT
enum { STEPS = 1000 };
#else
enum { STEPS = 8000 };
#endif

struct image {
    uint8_t value[KEYS]; /* 0: no row */
};
static struct watcher {
    struct lladd_managed_snapshot *s;
    const struct lladd_dtable *table;
    struct image was;
    struct lladd_dtable_cursor *c;
    int place; /* of the cursor: a key, -1, or KEYS */
} watchers[SNAPSHOTS];
static struct image now;
static uint64_t seed, position;
static bool unlogged, ranges;

static unsigned draw(unsigned below)
{
    return (unsigned)(seeded_next(&seed) % below);
}

static void put_some(void)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct image next = now;
    struct lladd_managed_position p = {++position, 0};
    if (unlogged)
        ok(txn, lladd_managed_position_set(txn, t, &p));
    for (unsigned n = 1 + draw(6); n; n--) {
        uint32_t key = draw(KEYS), to = key + 1 + draw(10);
        char text[8];
        unsigned value = draw(4) ? 1 + draw(250) : 0;
        if (draw(12) == 0 && ranges) {
            struct lladd_dtable_key first = lladd_dtable_u32(key), end = lladd_dtable_u32(to);
            ok(txn, lladd_managed_delete_range(txn, t, &first, &end));
            for (uint32_t i = key; i < to && i < KEYS; i++)
                next.value[i] = 0;
            continue;
        }
        (void)snprintf(text, sizeof text, "%u", value);
        managed_put(txn, t, key, value ? text : NULL);
        next.value[key] = (uint8_t)value;
    }
    if (draw(6) == 0) {
        abort_txn(txn);
        return;
    }
    commit(txn);
    now = next;
}

static void compare(const struct lladd_dtable_value *v, unsigned value)
{
    char text[8];
    size_t len = (size_t)snprintf(text, sizeof text, "%u", value);
    ck_assert_int_eq(v->state == LLADD_DTABLE_FOUND, value != 0);
    if (value == 0)
        return;
    ck_assert_uint_eq(v->bytes.len, len);
    ck_assert_int_eq(memcmp(v->bytes.data, text, len), 0);
}

static void look_up(const struct watcher *w)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value v;
    uint32_t at = draw(KEYS);
    struct lladd_dtable_key key = lladd_dtable_u32(at);
    ok_db(&b, lladd_dtable_lookup(w->table, &key, &pin, &v, &b.err));
    compare(&v, w->was.value[at]);
    lladd_dtable_unpin(&pin);
}

static void move(struct watcher *w)
{
    int by = draw(2) ? 1 : -1;
    for (unsigned n = 1 + draw(40); n; n--) {
        struct lladd_dtable_key key;
        struct lladd_dtable_value v;
        int rc = by > 0 ? lladd_dtable_next(w->c, &b.err) : lladd_dtable_prev(w->c, &b.err);
        do
            w->place += w->place == (by > 0 ? KEYS : -1) ? 0 : by;
        while (w->place >= 0 && w->place < KEYS && !w->was.value[w->place]);
        if (w->place < 0 || w->place == KEYS) {
            ck_assert_int_eq(rc, LLADD_END);
            return;
        }
        ck_assert_msg(rc == 0, "%s: %s", lladd_code_name(rc), b.err.message);
        ok_db(&b, lladd_dtable_row(w->c, &key, &v, &b.err));
        ck_assert_int_eq((int)key.number, w->place);
        compare(&v, w->was.value[w->place]);
    }
}

static void open_or_close(struct watcher *w)
{
    if (w->s) {
        bool first = draw(2);
        if (first)
            lladd_dtable_cursor_close(w->c);
        lladd_managed_snapshot_close(w->s);
        if (!first)
            lladd_dtable_cursor_close(w->c);
        *w = (struct watcher){.s = NULL};
        return;
    }
    *w = (struct watcher){.s = managed_snapshot(&b), .was = now, .place = -1};
    w->table = managed_snapshot_table(&b, w->s, t);
    ok_db(&b, lladd_dtable_cursor_open(w->table, 0, &w->c, &b.err));
}

static void maintain(void)
{
    switch (draw(4)) {
    case 0:
        ok_db(&b, lladd_managed_combine(t, draw(4), &b.err));
        break;
    case 1:
        managed_tidy(&b, t);
        break;
    default:
        ok_db(&b, lladd_managed_digest(t, &b.err));
    }
}

/* For every schedule, logged and unlogged, with deleted ranges and without. Merges build
 * differences only without them. */
START_TEST(at_random)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.schedule = (enum lladd_managed_schedule)(_i / 2 % 4);
    ranges = _i / 8;
    unlogged = _i % 2;
    o.flags = unlogged ? LLADD_MANAGED_UNLOGGED : 0;
    t = managed_begin(&b, &o);
    position = 0;
    seed = 7 + (uint64_t)_i;
    now = (struct image){.value = {0}};
    memset(watchers, 0, sizeof watchers);
    for (unsigned i = 0; i < STEPS; i++) {
        struct watcher *w = &watchers[draw(SNAPSHOTS)];
        unsigned what = draw(16);
        if (what < 6)
            put_some();
        else if (what < 8)
            maintain();
        else if (what == 8)
            open_or_close(w);
        else if (w->s && what < 12)
            look_up(w);
        else if (w->s)
            move(w);
    }
    for (int i = 0; i < SNAPSHOTS; i++) {
        if (!watchers[i].s)
            continue;
        lladd_dtable_cursor_close(watchers[i].c);
        lladd_managed_snapshot_close(watchers[i].s);
    }
    managed_nothing_held(&b, t);
    managed_done(&b, t);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("managed dTables: open snapshots at random");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, at_random, 0, 16);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
