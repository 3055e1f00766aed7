/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index of a memtable finds each key, whatever the keys have in common, and in whatever order
 * they come; also while a thread adds keys.
 */
#include "index_keys.h"
#include "managed_fixture.h"

#include "operations/dtables/managed/memtable.h"

#include <lladd/sync.h>
#include <stdio.h>

static struct fixture b;
static struct ll_memtable *m;
static struct ll_mem_part *part;
static const struct lladd_dtable_order by_bytes = {LLADD_DTABLE_BYTES, NULL};

static void begin(const struct lladd_dtable_order *order)
{
    managed_init(&b);
    fixture_open(&b);
    ck_assert_int_eq(ll_managed__mem_new(b.db, order, &m), 0);
    part = ll_managed__mem_part(m);
    ck_assert_ptr_nonnull(part);
}

static void end(void)
{
    ll_managed__mem_drop(m);
    fixture_free(&b);
}

/* ---- one thread ------------------------------------------------------------------------------ */

enum { KEYS = 3000 };

/* The keys in order, without equal ones. */
struct model {
    struct test_key keys[KEYS];
    size_t n;
};
static struct model model;

static int compare(const void *a, const void *b_)
{
    const struct test_key *x = a, *y = b_;
    return lladd_dtable_compare_bytes(&by_bytes, lladd_span_of(x->bytes, x->len),
                                      lladd_span_of(y->bytes, y->len));
}

static void model_of(enum family family, uint32_t (*order)(uint32_t), uint32_t n)
{
    struct test_key *keys = model.keys;
    for (uint32_t i = 0; i < n; i++)
        (void)make_key(family, order(i), &keys[i]);
    qsort(keys, n, sizeof keys[0], compare);
    model.n = 0;
    for (uint32_t i = 0; i < n; i++)
        if (model.n == 0 || compare(&keys[model.n - 1], &keys[i]))
            keys[model.n++] = keys[i];
}

/* Is the node that of key i of the model? For i == n or -1: is there none? */
static void expect(uint32_t node, size_t i)
{
    if (i >= model.n) {
        ck_assert_uint_eq(node, 0);
        return;
    }
    const struct test_key *k = &model.keys[i];
    ck_assert_uint_ne(node, 0);
    struct lladd_dtable_key found = ll_managed__mem_key(m, node);
    ck_assert_uint_eq(found.bytes.len, k->len);
    ck_assert(k->len == 0 || memcmp(found.bytes.data, k->bytes, k->len) == 0);
}

/* Asks for a key in each way. */
static void ask(const struct test_key *k)
{
    struct lladd_dtable_key key = lladd_dtable_bytes(k->bytes, k->len);
    size_t low = 0, high = model.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&model.keys[middle], k) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    bool has = low < model.n && compare(&model.keys[low], k) == 0;
    expect(ll_managed__mem_find(m, &key), has ? low : model.n);
    expect(ll_managed__mem_not_before(m, &key), low);
    expect(ll_managed__mem_not_after(m, &key, false), low - 1);
    expect(ll_managed__mem_not_after(m, &key, true), has ? low : low - 1);
}

static void ask_all(enum family family)
{
    struct test_key k;
    uint32_t node = ll_managed__mem_first(m);
    for (size_t i = 0; i <= model.n; i++, node = node ? ll_managed__mem_next(m, node) : 0)
        expect(node, i);
    expect(ll_managed__mem_not_after(m, NULL, false), model.n - 1);
    for (size_t i = 0; i < model.n; i++) { /* the keys, and keys that begin as they do */
        k = model.keys[i];
        ask(&k);
        k.bytes[k.len++] = 0;
        ask(&k);
        for (k.len--; k.len > 0 && k.len + 12 > model.keys[i].len; k.len--)
            ask(&k);
    }
    for (uint32_t i = 0; i < 100; i++) { /* keys of other families */
        (void)make_key((enum family)((family + 1 + i % (FAMILIES - 1)) % FAMILIES), i * 1009, &k);
        ask(&k);
    }
    for (int c = 0; c < 256; c += 5) {
        k = (struct test_key){2, {(unsigned char)c, 'u'}};
        ask(&k);
    }
}

static uint32_t ascending(uint32_t i)
{
    return i;
}

static uint32_t descending(uint32_t i)
{
    return KEYS - 1 - i;
}

static uint32_t scattered(uint32_t i)
{
    return (uint32_t)((uint64_t)i * 1811 % KEYS);
}

static uint32_t (*const orders[])(uint32_t) = {ascending, descending, scattered};
enum { ORDERS = sizeof orders / sizeof orders[0] };

/* _i: a family and an order. */
START_TEST(keys_are_found)
{
    static const uint32_t moments[] = {1, 2, 31, 32, 33, 34, 64, 200, 700, KEYS};
    enum family family = (enum family)(_i / ORDERS);
    uint32_t (*order)(uint32_t) = orders[_i % ORDERS];
    struct test_key k;
    begin(&by_bytes);
    for (size_t n = 0, i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        for (; n < moments[i]; n++) {
            struct lladd_dtable_key key = make_key(family, order((uint32_t)n), &k);
            uint32_t node = ll_managed__mem_node(part, &key);
            ck_assert_uint_ne(node, 0);
            ck_assert_uint_eq(ll_managed__mem_node(part, &key), node);
        }
        model_of(family, order, moments[i]);
        ask_all(family);
    }
    ck_assert_uint_eq(m->keys, model.n);
    end();
}
END_TEST

/* Backward, byte by byte. */
static int compare_backward(void *ctx, struct lladd_span a, struct lladd_span c)
{
    const unsigned char *x = a.data, *y = c.data;
    (void)ctx;
    for (size_t i = 0; i < a.len && i < c.len; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? 1 : -1;
    return a.len < c.len ? 1 : a.len > c.len ? -1 : 0;
}

/* The bytes of a key say nothing about the order of a comparator. */
START_TEST(comparators_order_keys)
{
    static const struct lladd_dtable_comparator backward = {
        .struct_size = sizeof backward, .name = "backward", .compare = compare_backward};
    const struct lladd_dtable_order order = {LLADD_DTABLE_BYTES, &backward};
    struct test_key k;
    begin(&order);
    for (uint32_t i = 0; i < KEYS; i++) {
        struct lladd_dtable_key key = make_key(WEATHER, scattered(i), &k);
        ck_assert_uint_ne(ll_managed__mem_node(part, &key), 0);
    }
    model_of(WEATHER, scattered, KEYS);
    uint32_t node = ll_managed__mem_first(m);
    for (size_t i = model.n; i-- > 0; node = ll_managed__mem_next(m, node)) {
        struct lladd_dtable_key key = lladd_dtable_bytes(model.keys[i].bytes, model.keys[i].len);
        expect(node, i);
        expect(ll_managed__mem_find(m, &key), i);
    }
    end();
}
END_TEST

/* ---- strangers ------------------------------------------------------------------------------- */

enum { STRANGER_MOMENTS = 150, PLACES = 3, STRANGE_WAYS = 3, ROW = 200 };

/* Adds a key and, as a put does, takes memory for a row, so that the next key gets a slot. Adds the
 * key only once, because a full root gets another one above it even if the key is there. */
static void add_row(const struct test_key *k)
{
    struct lladd_dtable_key key = lladd_dtable_bytes(k->bytes, k->len);
    uint32_t node = ll_managed__mem_node(part, &key);
    ck_assert_uint_ne(node, 0);
    ck_assert_uint_ne(ll_managed__mem_take(m, ROW, false), 0);
    ck_assert_uint_eq(ll_managed__mem_find(m, &key), node);
    model.keys[model.n++] = *k;
}

/* Makes a key like key i of the family, with a greater or a smaller byte at the beginning, in the
 * middle or near the end; or cuts it there. */
static struct test_key stranger(enum family family, uint32_t i, int place, int way)
{
    struct test_key k;
    (void)make_key(family, i, &k);
    size_t at = place == 0 ? 0 : place == 1 ? k.len / 2 : k.len - (k.len < 3 ? k.len : 3);
    k.bytes[at] = way ? 0xff : 0;
    k.len = way == 2 || k.len == 0 ? at + 1 : k.len;
    return k;
}

/* Asserts that the list has the keys that were added, in order, and that each is found. */
static void expect_all(void)
{
    size_t n = 0;
    qsort(model.keys, model.n, sizeof model.keys[0], compare);
    for (size_t i = 0; i < model.n; i++)
        if (n == 0 || compare(&model.keys[n - 1], &model.keys[i]))
            model.keys[n++] = model.keys[i];
    model.n = n;
    uint32_t node = ll_managed__mem_first(m);
    for (size_t i = 0; i <= n; i++, node = node ? ll_managed__mem_next(m, node) : 0)
        expect(node, i);
    for (size_t i = 0; i < n; i++) {
        struct lladd_dtable_key key = lladd_dtable_bytes(model.keys[i].bytes, model.keys[i].len);
        expect(ll_managed__mem_find(m, &key), i);
    }
}

/* Adds n keys, then a stranger and a further key. */
static void meet(enum family family, uint32_t (*order)(uint32_t), uint32_t n,
                 const struct test_key *strange)
{
    struct test_key k;
    ck_assert_int_eq(ll_managed__mem_new(b.db, &by_bytes, &m), 0);
    part = ll_managed__mem_part(m);
    model.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        (void)make_key(family, order(i), &k);
        add_row(&k);
    }
    add_row(strange);
    (void)make_key(family, order(n), &k);
    add_row(&k);
    expect_all();
    ask(strange);
    ll_managed__mem_drop(m);
}

/* A key that does not begin as the others do comes at any moment: also when the first leaf is full,
 * and the index gets the first root above it. _i: a family and an order. */
START_TEST(strangers_come_at_any_moment)
{
    enum family family = (enum family)(_i / ORDERS);
    uint32_t (*order)(uint32_t) = orders[_i % ORDERS];
    managed_init(&b);
    fixture_open(&b);
    for (uint32_t n = 1; n < STRANGER_MOMENTS; n++)
        for (int i = 0; i < PLACES * STRANGE_WAYS; i++) {
            struct test_key k = stranger(family, order(n), i % PLACES, i / PLACES);
            meet(family, order, n, &k);
        }
    fixture_free(&b);
}
END_TEST

/* Key 100 does not begin as the keys before it do. It comes when there are 30 to 34 of them: one of
 * these numbers fills the first leaf of the memtable's index. */
START_TEST(a_key_that_begins_otherwise)
{
    const unsigned first = 70 - (unsigned)_i;
    enum { ROWS = 40 };
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char text[16], row[200] = "row", out[sizeof row];
    struct lladd_dtable_value value = lladd_dtable_value_of(row, sizeof row);
    struct lladd_managed *t;
    size_t len;
    managed_init(&b);
    fixture_open(&b);
    o.type = LLADD_DTABLE_STRING;
    t = managed_table(&b, "rows", &o);
    struct lladd_txn *txn = fixture_begin(&b);
    for (unsigned i = 0; i < 2 * ROWS; i++) {
        (void)snprintf(text, sizeof text, "%010u", first + i % ROWS);
        struct lladd_dtable_key key = lladd_dtable_string(text);
        if (i < ROWS)
            ok(txn, lladd_managed_put(txn, t, &key, &value));
        ok(txn, lladd_managed_get(txn, t, &key, out, sizeof out, &len));
        ck_assert_uint_eq(len, sizeof row);
    }
    commit(txn);
    ok_db(&b, lladd_managed_digest(t, &b.err));
    managed_done(&b, t);
}
END_TEST

/* ---- memory ---------------------------------------------------------------------------------- */

/* Blocks that are replaced stay allocated. They are few. */
START_TEST(memory_of_keys)
{
    enum { NODE = 8 + 4, FILTER = 4 };
    enum family family = (enum family)(_i / ORDERS);
    struct test_key k;
    uint64_t bytes = 0;
    begin(&by_bytes);
    for (uint32_t i = 0; i < KEYS; i++) {
        struct lladd_dtable_key key = make_key(family, orders[_i % ORDERS](i), &k);
        ck_assert_uint_ne(ll_managed__mem_node(part, &key), 0);
    }
    model_of(family, orders[_i % ORDERS], KEYS);
    for (size_t i = 0; i < model.n; i++)
        bytes += NODE + (model.keys[i].len + 3) / 4 * 4 + FILTER;
    ck_assert_uint_le(m->bytes, bytes + 32 * model.n);
    end();
}
END_TEST

/* ---- threads --------------------------------------------------------------------------------- */

enum { READERS = 2, ROUNDS = 5 };

struct readers {
    enum family family;
    uint32_t n; /* atomic: so many keys have been added */
};

static bool is(uint32_t node, const struct lladd_dtable_key *key)
{
    return node && ll_managed__mem_compare(m, ll_managed__mem_at(m, node), key) == 0;
}

static void *read_keys(void *arg)
{
    struct readers *r = arg;
    struct test_key k;
    uint32_t n;
    for (uint32_t i = 1; (n = lladd_atomic_load32(&r->n)) < KEYS; i = i * 1664525u + 1013904223u) {
        struct lladd_dtable_key key = make_key(r->family, scattered(i % (n ? n : 1)), &k);
        if (n) {
            sure(is(ll_managed__mem_find(m, &key), &key), "find");
            sure(is(ll_managed__mem_not_before(m, &key), &key), "not before");
            sure(is(ll_managed__mem_not_after(m, &key, true), &key), "not after");
        }
        key = make_key((enum family)(i % FAMILIES), i, &k);
        uint32_t node = ll_managed__mem_not_before(m, &key);
        sure(!node || ll_managed__mem_compare(m, ll_managed__mem_at(m, node), &key) >= 0,
             "a key after another one");
        node = ll_managed__mem_not_after(m, &key, false);
        sure(!node || ll_managed__mem_compare(m, ll_managed__mem_at(m, node), &key) < 0,
             "a key before another one");
    }
    return NULL;
}

/* _i: a family. */
START_TEST(readers_find_keys_meanwhile)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct lladd_thread threads[READERS];
        struct readers r = {(enum family)_i, 0};
        struct test_key k;
        begin(&by_bytes);
        memset(threads, 0, sizeof threads);
        for (int i = 0; i < READERS; i++)
            ck_assert_int_eq(lladd_thread_start(&threads[i], read_keys, &r), 0);
        for (uint32_t i = 0; i < KEYS; i++) {
            struct lladd_dtable_key key = make_key(r.family, scattered(i), &k);
            sure(ll_managed__mem_node(part, &key) != 0, "memory");
            lladd_atomic_store32(&r.n, i + 1);
        }
        for (int i = 0; i < READERS; i++)
            lladd_thread_join(&threads[i]);
        end();
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("index of a memtable");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, keys_are_found, 0, FAMILIES * ORDERS);
    tcase_add_test(tc, comparators_order_keys);
    tcase_add_loop_test(tc, strangers_come_at_any_moment, 0, FAMILIES * ORDERS);
    tcase_add_loop_test(tc, a_key_that_begins_otherwise, 0, 5);
    tcase_add_loop_test(tc, memory_of_keys, 0, FAMILIES * ORDERS);
    suite_add_tcase(s, tc);
    TCase *threads = tcase_create("threads");
    tcase_add_loop_test(threads, readers_find_keys_meanwhile, 0, FAMILIES);
    suite_add_tcase(s, threads);
    return fixture_run(s);
}
