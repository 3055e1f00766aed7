/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The map and the growing array. Both are compared with a plain model in random histories, and
 * tested in edge cases (key 0, growth, runs that wrap around). Every allocation fails in turn. Then
 * the call returns an error and has changed nothing, and nothing leaks. After a reserve no call
 * fails.
 */
#include "support/fault_alloc.h"
#include "support/fixtures.h"
#include "util/hashmap.h"
#include "util/vec.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct fault_alloc fa;
static struct ll_env env;

static void setup(void)
{
    fault_alloc_init(&fa);
    ll_env_init(&env, &fa.mem, NULL, false);
}

static void teardown(void)
{
    ck_assert_uint_eq(fault_alloc_live(&fa), 0);
}

/* ---- the map ---- */

START_TEST(map_empty)
{
    struct ll_hashmap map;
    size_t cursor = 0;
    uint64_t key, value;
    ll_hashmap_init(&map, &env);
    ck_assert_uint_eq(map.count, 0);
    ck_assert(!ll_hashmap_get(&map, 0, &value));
    ck_assert(!ll_hashmap_get(&map, 1, &value));
    ck_assert_ptr_null(ll_hashmap_get_ptr(&map, 1));
    ck_assert(!ll_hashmap_remove(&map, 0));
    ck_assert(!ll_hashmap_remove(&map, 1));
    ck_assert(!ll_hashmap_next(&map, &cursor, &key, &value));
    ck_assert_uint_eq(fault_alloc_calls(&fa), 0);
    ll_hashmap_free(&map);
}
END_TEST

START_TEST(map_keys_at_the_borders)
{
    static const uint64_t keys[] = {0, 1, 2, UINT64_MAX, UINT64_MAX - 1, 1ull << 32, 1ull << 63};
    enum { KEYS = sizeof keys / sizeof *keys };
    struct ll_hashmap map;
    uint64_t value;
    ll_hashmap_init(&map, &env);
    for (size_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(ll_hashmap_put(&map, keys[i], i), 0);
    ck_assert_uint_eq(map.count, KEYS);
    for (size_t i = 0; i < KEYS; i++) {
        ck_assert(ll_hashmap_get(&map, keys[i], &value));
        ck_assert_uint_eq(value, i);
        *ll_hashmap_find(&map, keys[i]) = 100 + i;
    }
    for (size_t i = 0; i < KEYS; i++) {
        ck_assert(ll_hashmap_get(&map, keys[i], &value));
        ck_assert_uint_eq(value, 100 + i);
        ck_assert(ll_hashmap_remove(&map, keys[i]));
        ck_assert(!ll_hashmap_remove(&map, keys[i]));
        ck_assert(!ll_hashmap_get(&map, keys[i], &value));
    }
    ck_assert_uint_eq(map.count, 0);
    ll_hashmap_free(&map);
}
END_TEST

START_TEST(map_holds_pointers)
{
    struct ll_hashmap map;
    int thing;
    ll_hashmap_init(&map, &env);
    ck_assert_int_eq(ll_hashmap_put_ptr(&map, 17, &thing), 0);
    ck_assert_ptr_eq(ll_hashmap_get_ptr(&map, 17), &thing);
    ck_assert_int_eq(ll_hashmap_put_ptr(&map, 17, NULL), 0);
    ck_assert_uint_eq(map.count, 1);
    ck_assert_ptr_null(ll_hashmap_get_ptr(&map, 17));
    ll_hashmap_free(&map);
}
END_TEST

/* Visits every entry exactly once, and returns their number. */
static size_t count_by_walking(const struct ll_hashmap *map, const bool *present, uint64_t keys)
{
    bool *seen = calloc(keys, sizeof *seen);
    size_t cursor = 0, n = 0;
    uint64_t key, value;
    while (ll_hashmap_next(map, &cursor, &key, &value)) {
        ck_assert_uint_lt(key, keys);
        ck_assert(present[key]);
        ck_assert(!seen[key]);
        seen[key] = true;
        n++;
    }
    free(seen);
    return n;
}

static bool keep_some(void *ctx, uint64_t key, uint64_t value)
{
    bool *gone = ctx;
    ck_assert(!gone[key]);
    ck_assert_uint_eq(value, key + 1000);
    gone[key] = key % 3 == 0;
    return !gone[key];
}

/* The test makes tables of every load, so that some removals close gaps across the end of the
 * table. */
START_TEST(map_retains_what_it_is_told)
{
    enum { KEYS = 400 };
    for (uint64_t n = 1; n < KEYS; n++) {
        bool gone[KEYS] = {false}, present[KEYS] = {false};
        struct ll_hashmap map;
        ll_hashmap_init(&map, &env);
        for (uint64_t key = 0; key < n; key++) {
            ck_assert_int_eq(ll_hashmap_put(&map, key, key + 1000), 0);
            present[key] = key % 3 != 0;
        }
        ll_hashmap_retain(&map, keep_some, gone);
        ck_assert_uint_eq(map.count, n - (n + 2) / 3);
        ck_assert_uint_eq(count_by_walking(&map, present, KEYS), map.count);
        for (uint64_t key = 0; key < n; key++)
            ck_assert_int_eq(ll_hashmap_get(&map, key, &(uint64_t){0}), present[key]);
        ll_hashmap_free(&map);
    }
}
END_TEST

/* There are few keys, so the table is crowded, and removals often close gaps across its end. */
START_TEST(map_against_a_model)
{
    enum { KEYS = 200, STEPS = 20000 };
    bool present[KEYS] = {false};
    uint64_t values[KEYS] = {0};
    size_t count = 0;
    uint64_t state = 11 + (uint64_t)_i;
    struct ll_hashmap map;
    ll_hashmap_init(&map, &env);
    for (int step = 0; step < STEPS; step++) {
        uint64_t key = seeded_next(&state) % KEYS, value;
        if (seeded_next(&state) % 2 == 0) {
            ck_assert_int_eq(ll_hashmap_put(&map, key, (uint64_t)step), 0);
            count += !present[key];
            present[key] = true;
            values[key] = (uint64_t)step;
        } else {
            ck_assert(ll_hashmap_remove(&map, key) == present[key]);
            count -= present[key];
            present[key] = false;
        }
        ck_assert_uint_eq(map.count, count);
        key = seeded_next(&state) % KEYS;
        ck_assert(ll_hashmap_get(&map, key, &value) == present[key]);
        if (present[key])
            ck_assert_uint_eq(value, values[key]);
        if (step % 1000 == 0)
            ck_assert_uint_eq(count_by_walking(&map, present, KEYS), count);
    }
    ck_assert_uint_le(map.capacity, 512);
    ll_hashmap_clear(&map);
    memset(present, 0, sizeof present);
    ck_assert_uint_eq(count_by_walking(&map, present, KEYS), 0);
    ll_hashmap_free(&map);
}
END_TEST

START_TEST(map_grows)
{
    enum { ENTRIES = 100000, STRIDE = 4096 };
    struct ll_hashmap map;
    uint64_t value;
    ll_hashmap_init(&map, &env);
    for (uint64_t i = 0; i < ENTRIES; i++)
        ck_assert_int_eq(ll_hashmap_put(&map, i * STRIDE, i), 0);
    for (uint64_t i = 0; i < ENTRIES; i++) {
        ck_assert(ll_hashmap_get(&map, i * STRIDE, &value));
        ck_assert_uint_eq(value, i);
        ck_assert(!ll_hashmap_get(&map, i * STRIDE + 1, &value));
    }
    ck_assert_uint_eq(map.count, ENTRIES);
    ck_assert_uint_le(map.count, map.capacity - map.capacity / 4);
    ll_hashmap_free(&map);
}
END_TEST

START_TEST(map_out_of_memory)
{
    enum { ENTRIES = 1000 };
    bool ran_dry = false;
    for (uint64_t n = 1; !ran_dry; n++) {
        struct ll_hashmap map;
        uint64_t value;
        ll_hashmap_init(&map, &env);
        fault_alloc_fail(&fa, n, false);
        for (uint64_t key = 1; key <= ENTRIES; key++) {
            size_t before = map.count;
            int rc = ll_hashmap_put(&map, key, key);
            if (rc != 0) {
                ck_assert_int_eq(rc, LLADD_NO_MEMORY);
                ck_assert_uint_eq(map.count, before);
                ck_assert(!ll_hashmap_get(&map, key, &value));
                ck_assert_int_eq(ll_hashmap_put(&map, key, key), 0);
            }
        }
        for (uint64_t key = 1; key <= ENTRIES; key++)
            ck_assert(ll_hashmap_get(&map, key, &value) && value == key);
        ran_dry = fault_alloc_fired(&fa) == 0;
        ll_hashmap_free(&map);
        ck_assert_uint_eq(fault_alloc_live(&fa), 0);
        ck_assert_uint_lt(n, 100);
    }
}
END_TEST

START_TEST(map_reserved_room_is_there)
{
    enum { ENTRIES = 777 };
    struct ll_hashmap map;
    ll_hashmap_init(&map, &env);
    ck_assert_int_eq(ll_hashmap_reserve(&map, ENTRIES), 0);
    fault_alloc_fail(&fa, 1, true);
    for (uint64_t key = 0; key < ENTRIES; key++)
        ck_assert_int_eq(ll_hashmap_put(&map, key, key), 0);
    ck_assert_uint_eq(fault_alloc_fired(&fa), 0);
    ck_assert_int_eq(ll_hashmap_reserve(&map, SIZE_MAX), LLADD_NO_MEMORY);
    ck_assert_uint_eq(map.count, ENTRIES);
    ll_hashmap_free(&map);
}
END_TEST

/* ---- the array ---- */

struct element {
    uint32_t a;
    uint32_t b;
    char c;
};

START_TEST(vec_push_and_remove)
{
    struct ll_vec v;
    ll_vec_init(&v, &env, sizeof(struct element));
    for (uint32_t i = 0; i < 1000; i++) {
        struct element *e = ll_vec_push(&v);
        ck_assert_ptr_nonnull(e);
        ck_assert_uint_eq(e->a | e->b | (unsigned char)e->c, 0);
        e->a = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(((struct element *)ll_vec_at(&v, i))->a, i);
    ll_vec_remove(&v, 0);
    ck_assert_uint_eq(((struct element *)ll_vec_at(&v, 0))->a, 1);
    ck_assert_uint_eq(((struct element *)ll_vec_at(&v, 998))->a, 999);
    ll_vec_remove_unordered(&v, 5);
    ck_assert_uint_eq(((struct element *)ll_vec_at(&v, 5))->a, 999);
    ll_vec_remove_unordered(&v, v.len - 1);
    ck_assert_uint_eq(v.len, 997);
    ll_vec_truncate(&v, 3);
    ck_assert_uint_eq(v.len, 3);
    ck_assert_uint_eq(((struct element *)ll_vec_at(&v, 2))->a, 3);
    ll_vec_free(&v);
    ck_assert_uint_eq(v.len, 0);
    ck_assert_ptr_nonnull(ll_vec_push(&v));
    ll_vec_free(&v);
}
END_TEST

START_TEST(vec_append)
{
    struct ll_vec v;
    uint16_t some[] = {1, 2, 3};
    ll_vec_init(&v, &env, sizeof *some);
    ck_assert_int_eq(ll_vec_append(&v, some, 0), 0);
    ck_assert_uint_eq(fault_alloc_calls(&fa), 0);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(ll_vec_append(&v, some, 3), 0);
    ck_assert_uint_eq(v.len, 300);
    for (size_t i = 0; i < 300; i++)
        ck_assert_uint_eq(*(uint16_t *)ll_vec_at(&v, i), some[i % 3]);
    ck_assert_int_eq(ll_vec_append(&v, some, SIZE_MAX), LLADD_NO_MEMORY);
    ck_assert_uint_eq(v.len, 300);
    ll_vec_free(&v);
}
END_TEST

START_TEST(lower_bound)
{
    struct pair {
        uint64_t key, other;
    } pairs[9];
    for (uint64_t i = 0; i < 9; i++)
        pairs[i] = (struct pair){10 + 2 * i, 0};
    for (size_t n = 0; n <= 9; n++)
        for (uint64_t key = 0; key < 40; key++) {
            size_t at = ll_lower_bound(pairs, n, sizeof *pairs, key);
            ck_assert(at <= n && (at == n || pairs[at].key >= key));
            ck_assert(at == 0 || pairs[at - 1].key < key);
        }
    ck_assert_uint_eq(ll_lower_bound(NULL, 0, sizeof *pairs, 1), 0);
    ck_assert_uint_eq(ll_lower_bound(pairs, 9, sizeof *pairs, UINT64_MAX), 9);
}
END_TEST

START_TEST(vec_out_of_memory)
{
    struct ll_vec v;
    ll_vec_init(&v, &env, 8);
    for (uint64_t i = 0; i < 500; i++) {
        fault_alloc_fail(&fa, 1, false);
        uint64_t *place = ll_vec_push(&v);
        if (!place) {
            ck_assert_uint_eq(v.len, i);
            place = ll_vec_push(&v);
        }
        ck_assert_ptr_nonnull(place);
        *place = i;
    }
    for (uint64_t i = 0; i < 500; i++)
        ck_assert_uint_eq(*(uint64_t *)ll_vec_at(&v, i), i);
    ck_assert_int_eq(ll_vec_reserve(&v, SIZE_MAX), LLADD_NO_MEMORY);
    ck_assert_int_eq(ll_vec_reserve(&v, SIZE_MAX / 8), LLADD_NO_MEMORY);

    fault_alloc_fail(&fa, 0, false);
    ck_assert_int_eq(ll_vec_reserve(&v, 5000), 0);
    fault_alloc_fail(&fa, 1, true);
    while (v.len < 5000)
        ck_assert_ptr_nonnull(ll_vec_push(&v));
    ll_vec_free(&v);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("containers");
    TCase *map = tcase_create("map");
    tcase_add_checked_fixture(map, setup, teardown);
    tcase_add_test(map, map_empty);
    tcase_add_test(map, map_keys_at_the_borders);
    tcase_add_test(map, map_holds_pointers);
    tcase_add_test(map, map_retains_what_it_is_told);
    tcase_add_loop_test(map, map_against_a_model, 0, 4);
    tcase_add_test(map, map_grows);
    tcase_add_test(map, map_out_of_memory);
    tcase_add_test(map, map_reserved_room_is_there);
    suite_add_tcase(suite, map);
    TCase *vec = tcase_create("vec");
    tcase_add_checked_fixture(vec, setup, teardown);
    tcase_add_test(vec, vec_push_and_remove);
    tcase_add_test(vec, vec_append);
    tcase_add_test(vec, lower_bound);
    tcase_add_test(vec, vec_out_of_memory);
    suite_add_tcase(suite, vec);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
