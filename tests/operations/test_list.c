/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists: order, stable ids, removal and rollback next to other transactions' items, splices, and
 * walks during changes. After every step the chain of items is whole in both directions, and
 * contains every stored item. Every page is freed. A call that fails has changed nothing.
 */
#include "op_fixture.h"

#include "operations/list/list.h"

#include <lladd/heap.h>

static struct fixture b;
static lladd_pageno root;
static struct lladd_list *list;

static void setup_sized(uint32_t page_size)
{
    fixture_init(&b, page_size);
    b.options.cache_bytes = 4u << 20;
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_list_create(txn, &root));
    commit(txn);
    ok_db(&b, lladd_list_open(b.db, root, &list, &b.err));
}

static void setup(void)
{
    setup_sized(4096);
}

static void teardown(void)
{
    lladd_list_close(list);
    fixture_free(&b);
}

static void crash(void)
{
    lladd_list_close(list);
    fixture_crash(&b);
    ok_db(&b, lladd_list_open(b.db, root, &list, &b.err));
}

static const struct lladd_item NONE = {{UINT64_MAX}, 0};

static struct lladd_item put(struct lladd_txn *txn, struct lladd_item after, const char *text)
{
    struct lladd_item got = NONE;
    ok(txn, lladd_list_insert(txn, list, after, text, strlen(text), &got));
    return got;
}

static struct lladd_item append(struct lladd_txn *txn, const char *text)
{
    struct lladd_item got = NONE;
    ok(txn, lladd_list_append(txn, list, text, strlen(text), &got));
    return got;
}

/* Asserts that the items of the list, each of one letter, are `want` in order, and that the list
 * passes its check. */
static void in_order(struct lladd_list *l, const char *want)
{
    char got[200];
    size_t n = 0, len;
    uint64_t count;
    struct lladd_item at = NONE;
    int rc;
    while ((rc = lladd_list_next(l, at, &at, got + n, 1, &len, &b.err)) == 0) {
        ck_assert_uint_eq(len, 1);
        ck_assert_uint_lt(++n, sizeof got);
    }
    ck_assert_int_eq(rc, LLADD_END);
    got[n] = 0;
    ck_assert_str_eq(got, want);
    ok_db(&b, lladd_list_count(l, &count, &b.err));
    ck_assert_uint_eq(count, n);
    ok_db(&b, lladd_list_check(l, &b.err));
}

static void is(const char *want)
{
    in_order(list, want);
}

static uint64_t pages_of(struct lladd_list *l)
{
    uint64_t n = 0;
    ok_db(&b, lladd_list_pages(l, fixture_count_page, &n, &b.err));
    return n;
}

/* Returns the number of stored items. Removed items count until they are swept. */
static uint64_t stored(void)
{
    struct lladd_page *page;
    struct lladd_heap_cursor c;
    struct lladd_heap *heap;
    struct lladd_record r;
    struct lladd_rid rid;
    uint64_t n = 0;
    ok_db(&b, lladd_page_fix(b.db, root, LLADD_LATCH_SHARED, &page, &b.err));
    lladd_pageno at = lladd_page_of(lladd_get64(page->bytes + LIST_HEAP));
    lladd_page_unfix(b.db, page, LLADD_LATCH_SHARED);
    ok_db(&b, lladd_heap_open(b.db, at, &heap, &b.err));
    lladd_heap_cursor_open(heap, &c);
    while (lladd_heap_cursor_next(&c, &rid, &r, &b.err) == 0)
        n++;
    lladd_heap_cursor_close(&c);
    lladd_heap_close(heap);
    return n;
}

/* ---- hostile pages --------------------------------------------------------------------------- */

static bool is_z(void *ctx, struct lladd_span item)
{
    (void)ctx;
    return memcmp(item.data, "z", 1) == 0;
}

/* The link of the last item names the second item. No call may follow this ring for ever. */
START_TEST(a_ring_is_noticed)
{
    uint64_t n;
    struct lladd_txn *txn = fixture_begin(&b);
    append(txn, "a");
    struct lladd_item second = append(txn, "b"), found = NONE;
    for (int i = 0; i < 300 * _i; i++)
        append(txn, "c");
    struct lladd_item last = append(txn, "d");
    struct ll_list_link link = {last, second, ITEM_NEXT};
    ok(txn, lladd_update(txn, ll_operations__list_id(ll_lists_of(b.db), LL_LIST_LINK), last.page,
                         &link, sizeof link));
    ck_assert_int_eq(lladd_list_count(list, &n, &b.err), LLADD_CORRUPT_PAGE);
    ck_assert_int_eq(lladd_list_find(list, NONE, is_z, NULL, &found, &b.err), LLADD_CORRUPT_PAGE);
    ck_assert_int_eq(lladd_list_check(list, &b.err), LLADD_CORRUPT_PAGE);
    if (_i == 0) { /* a ring of removed items */
        ok(txn, lladd_list_delete(txn, list, second));
        link = (struct ll_list_link){second, second, ITEM_NEXT};
        ok(txn, lladd_update(txn, ll_operations__list_id(ll_lists_of(b.db), LL_LIST_LINK),
                             second.page, &link, sizeof link));
        char c;
        size_t len;
        ck_assert_int_eq(lladd_list_next(list, NONE, &found, &c, 1, &len, &b.err), 0);
        ck_assert_int_eq(lladd_list_next(list, found, &found, &c, 1, &len, &b.err),
                         LLADD_CORRUPT_PAGE);
    }
    abort_txn(txn);
    is("");
}
END_TEST

/* The page of an item does not belong to a heap. */
START_TEST(a_page_without_a_heap_is_an_error_with_a_message)
{
    lladd_pageno heap;
    b.err.code = 0;
    ck_assert_int_eq(ll_operations__list_heap_of(b.db, 5, &heap, &b.err), LLADD_WRONG_TYPE);
    ck_assert_int_eq(b.err.code, LLADD_WRONG_TYPE);
    ck_assert_str_ne(b.err.message, "");
}
END_TEST

/* ---- order ----------------------------------------------------------------------------------- */

START_TEST(keeps_the_order)
{
    struct lladd_txn *txn = fixture_begin(&b);
    is("");
    struct lladd_item c = put(txn, NONE, "c"), a = put(txn, NONE, "a"), e = append(txn, "e");
    struct lladd_item x = put(txn, a, "b"), d = put(txn, c, "d");
    put(txn, e, "f");
    is("abcdef");
    commit(txn);
    crash();
    is("abcdef");
    txn = fixture_begin(&b);
    ok(txn, lladd_list_delete(txn, list, a));
    ok(txn, lladd_list_delete(txn, list, d));
    is("bcef");
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_delete(txn, list, a));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_insert(txn, list, a, "x", 1, &c));
    commit(txn);
    is("bcef");
    crash();
    is("bcef");
    txn = fixture_begin(&b);
    ok(txn, lladd_list_write(txn, list, x, 0, "X", 1));
    is("Xcef");
    abort_txn(txn);
    is("bcef");
}
END_TEST

START_TEST(items_of_every_length)
{
    uint32_t max = lladd_list_item_max(b.db);
    unsigned char *bytes = malloc(max), *got = malloc(max);
    uint32_t lens[] = {0, 1, 488, 489, 490, 2000, max - 1, max};
    struct lladd_item items[8], at = NONE;
    size_t len;
    ck_assert(bytes && got);
    seeded_fill(1, bytes, max);
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < 8; i++)
        ok(txn, lladd_list_append(txn, list, bytes, lens[i], &items[i]));
    refuses(txn, LLADD_TOO_LARGE, lladd_list_append(txn, list, bytes, max + 1, &at));
    commit(txn);
    crash();
    at = NONE;
    for (int i = 0; i < 8; i++) {
        memset(got, 0, max);
        ok_db(&b, lladd_list_next(list, at, &at, got, max, &len, &b.err));
        ck_assert(ll_list_same(at, items[i]));
        ck_assert_uint_eq(len, lens[i]);
        ck_assert_mem_eq(got, bytes, len);
    }
    ok_db(&b, lladd_list_get(list, items[7], got, 5, &len, &b.err));
    ck_assert_uint_eq(len, max);
    txn = fixture_begin(&b);
    ok(txn, lladd_list_write(txn, list, items[7], 10, bytes + 50, max - 50));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_write(txn, list, items[7], max, bytes, 1));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_write(txn, list, items[7], max + 1, bytes, 0));
    ok_db(&b, lladd_list_get(list, items[7], got, max, &len, &b.err));
    ck_assert_mem_eq(got + 10, bytes + 50, max - 50);
    abort_txn(txn);
    ok_db(&b, lladd_list_get(list, items[7], got, max, &len, &b.err));
    ck_assert_mem_eq(got, bytes, max);
    ok_db(&b, lladd_list_check(list, &b.err));
    free(bytes);
    free(got);
}
END_TEST

static bool is_letter(void *ctx, struct lladd_span item)
{
    return item.len == 1 && *(const char *)item.data == *(const char *)ctx;
}

START_TEST(finds_the_next_matching_item)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_item got;
    append(txn, "a");
    struct lladd_item y = append(txn, "b");
    append(txn, "a");
    struct lladd_item z = append(txn, "b");
    ok_db(&b, lladd_list_find(list, NONE, is_letter, (char[]){"b"}, &got, &b.err));
    ck_assert(ll_list_same(got, y));
    ok_db(&b, lladd_list_find(list, got, is_letter, (char[]){"b"}, &got, &b.err));
    ck_assert(ll_list_same(got, z));
    ck_assert_int_eq(lladd_list_find(list, got, is_letter, (char[]){"b"}, &got, &b.err),
                     LLADD_NOT_FOUND);
    ok(txn, lladd_list_delete(txn, list, y));
    ok_db(&b, lladd_list_find(list, NONE, is_letter, (char[]){"b"}, &got, &b.err));
    ck_assert(ll_list_same(got, z));
    commit(txn);
}
END_TEST

/* Two transactions insert and remove adjacent items. _i & 1: the first one aborts; _i & 2: the
 * second one aborts; _i & 4: a crash follows. */
START_TEST(adjacent_items_of_two_transactions)
{
    struct lladd_txn *first = fixture_begin(&b), *second;
    struct lladd_item x = append(first, "x"), y = append(first, "y"), z = append(first, "z");
    commit(first);
    first = fixture_begin(&b);
    second = fixture_begin(&b);
    struct lladd_item a = put(first, x, "a"), c = put(second, a, "c");
    put(first, c, "d");
    is("xacdyz");
    ok(second, lladd_list_delete(second, list, y));
    ok(first, lladd_list_delete(first, list, z));
    put(first, c, "e");
    is("xaced");
    if (_i & 1)
        abort_txn(first);
    else
        commit(first);
    is(_i & 1 ? "xcz" : "xaced");
    if (_i & 2)
        abort_txn(second);
    else
        commit(second);
    static const char *const want[] = {"xaced", "xcz", "xaedy", "xyz"};
    is(want[_i & 3]);
    if (_i & 4)
        crash();
    is(want[_i & 3]);
    struct lladd_txn *txn = fixture_begin(&b); /* its insertions sweep removed items */
    append(txn, "k");
    put(txn, x, "l");
    commit(txn);
    ok_db(&b, lladd_list_check(list, &b.err));
}
END_TEST

/* Recovery removes the items of a loser. Committed items between them stay. */
START_TEST(committed_items_between_those_of_a_loser)
{
    struct lladd_txn *loser = fixture_begin(&b), *winner = fixture_begin(&b);
    struct lladd_item x = append(winner, "x");
    commit(winner);
    struct lladd_item a = put(loser, x, "a"), c = put(loser, a, "c");
    winner = fixture_begin(&b);
    put(winner, a, "b");
    put(winner, c, "d");
    ok(loser, lladd_list_delete(loser, list, x));
    is("abcd");
    commit(winner);
    crash();
    is("xbd");
    winner = fixture_begin(&b);
    put(winner, x, "m");
    commit(winner);
    is("xmbd");
    ck_assert_uint_le(stored(), 5); /* the insertion has swept item a */
}
END_TEST

START_TEST(savepoints)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_item x = append(txn, "x"), y = append(txn, "y");
    lladd_savepoint_id sp;
    commit(txn);
    txn = fixture_begin(&b);
    struct lladd_item a = put(txn, x, "a");
    ok(txn, lladd_savepoint(txn, &sp));
    put(txn, a, "b");
    ok(txn, lladd_list_delete(txn, list, a));
    ok(txn, lladd_list_delete(txn, list, y));
    append(txn, "z");
    is("xbz");
    ok(txn, lladd_rollback_to(txn, sp));
    is("xay");
    put(txn, a, "c");
    append(txn, "d");
    is("xacyd");
    commit(txn);
    crash();
    is("xacyd");
}
END_TEST

/* A transaction in doubt has removed an item. Other transactions must not sweep that item. */
START_TEST(a_removal_in_doubt)
{
    struct lladd_gid gid = fixture_gid("list");
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_item x = append(txn, "x"), y = append(txn, "y"), z = append(txn, "z");
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_list_delete(txn, list, y));
    put(txn, x, "a");
    ok(txn, lladd_prepare(txn, &gid));
    crash();
    txn = fixture_begin(&b);
    ok(txn, lladd_list_delete(txn, list, z));
    put(txn, x, "b");
    commit(txn);
    ok_db(&b, lladd_in_doubt_claim(b.db, &gid, &txn, &b.err));
    if (_i)
        abort_txn(txn);
    else
        commit(txn);
    is(_i ? "xby" : "xba");
}
END_TEST

/* ---- room ------------------------------------------------------------------------------------ */

/* A queue of a thousand items does not grow with use. */
START_TEST(a_queue_stays_small)
{
    char item[50] = "queue";
    struct lladd_item at, tail;
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < 1000; i++)
        ok(txn, lladd_list_append(txn, list, item, sizeof item, &tail));
    commit(txn);
    uint64_t pages = fixture_pages_used(&b);
    for (int i = 0; i < 3000; i++) {
        txn = fixture_begin(&b);
        ok_db(&b, lladd_list_next(list, NONE, &at, NULL, 0, NULL, &b.err));
        ok(txn, lladd_list_delete(txn, list, at));
        ok(txn, lladd_list_append(txn, list, item, sizeof item, &tail));
        commit(txn);
    }
    ck_assert_uint_le(stored(), 1010);
    ck_assert_uint_le(fixture_pages_used(&b), pages + pages / 2);
    ok_db(&b, lladd_list_check(list, &b.err));
    ck_assert_uint_eq(fixture_pages_used(&b), pages_of(list));
}
END_TEST

START_TEST(all_items_are_removed)
{
    struct lladd_item at = NONE;
    char item[100] = "x";
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < 300; i++)
        ok(txn, lladd_list_append(txn, list, item, sizeof item, &at));
    commit(txn);
    txn = fixture_begin(&b);
    while (lladd_list_next(list, NONE, &at, NULL, 0, NULL, &b.err) == 0)
        ok(txn, lladd_list_delete(txn, list, at));
    ck_assert_uint_eq(stored(), 300); /* a rollback may need the removed items */
    if (_i)
        abort_txn(txn);
    else
        commit(txn);
    uint64_t n;
    ok_db(&b, lladd_list_count(list, &n, &b.err));
    ck_assert_uint_eq(n, _i ? 300 : 0);
    for (int i = 0; i < 100; i++) {
        txn = fixture_begin(&b);
        ok(txn, lladd_list_append(txn, list, item, sizeof item, &at));
        ok(txn, lladd_list_delete(txn, list, at));
        commit(txn);
    }
    ck_assert_uint_le(stored(), _i ? 305 : 5);
    ok_db(&b, lladd_list_check(list, &b.err));
}
END_TEST

/* ---- whole lists ----------------------------------------------------------------------------- */

START_TEST(a_list_is_created_and_rolled_back)
{
    uint64_t used = fixture_pages_used(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_list *other;
    lladd_pageno page;
    struct lladd_item at;
    lladd_savepoint_id sp;
    char item[500] = "x";
    ok(txn, lladd_list_create(txn, &page));
    ok_db(&b, lladd_list_open(b.db, page, &other, &b.err));
    for (int i = 0; i < 60; i++)
        ok(txn, lladd_list_append(txn, other, item, sizeof item, &at));
    ok(txn, lladd_savepoint(txn, &sp));
    for (int i = 0; i < 60; i++)
        ok(txn, lladd_list_insert(txn, other, at, item, sizeof item, &at));
    ok(txn, lladd_list_delete(txn, other, at));
    ok(txn, lladd_rollback_to(txn, sp));
    uint64_t n;
    ok_db(&b, lladd_list_count(other, &n, &b.err));
    ck_assert_uint_eq(n, 60);
    ok_db(&b, lladd_list_check(other, &b.err));
    lladd_list_close(other);
    if (_i == 0) {
        abort_txn(txn);
    } else if (_i == 1) {
        crash();
    } else {
        commit(txn);
        ok_db(&b, lladd_list_open(b.db, page, &other, &b.err));
        ok_db(&b, lladd_list_check(other, &b.err));
        ck_assert_uint_eq(fixture_pages_used(&b), used + pages_of(other));
        txn = fixture_begin(&b);
        ok(txn, lladd_list_destroy(txn, page));
        refuses(txn, LLADD_DESTROYED, lladd_list_append(txn, other, item, 1, &at));
        refuses(txn, LLADD_DESTROYED, lladd_list_destroy(txn, page));
        ck_assert_int_eq(lladd_list_next(other, NONE, &at, NULL, 0, NULL, &b.err), LLADD_DESTROYED);
        abort_txn(txn);
        ok_db(&b, lladd_list_check(other, &b.err));
        txn = fixture_begin(&b);
        ok(txn, lladd_list_destroy(txn, page));
        commit(txn);
        ck_assert_int_eq(lladd_list_count(other, &n, &b.err), LLADD_DESTROYED);
        lladd_list_close(other);
    }
    ck_assert_uint_eq(fixture_pages_used(&b), used);
    is("");
}
END_TEST

START_TEST(a_list_is_spliced)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_list *other;
    lladd_pageno page;
    append(txn, "a");
    struct lladd_item last = append(txn, "b");
    ok(txn, lladd_list_create(txn, &page));
    commit(txn);
    ok_db(&b, lladd_list_open(b.db, page, &other, &b.err));
    txn = fixture_begin(&b);
    struct lladd_item c, d;
    ok(txn, lladd_list_append(txn, other, "c", 1, &c));
    ok(txn, lladd_list_append(txn, other, "d", 1, &d));
    commit(txn);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_list_splice(txn, list, list));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_delete(txn, list, c));
    ok(txn, lladd_list_splice(txn, list, other));
    is("abcd");
    in_order(other, "");
    append(txn, "e");
    put(txn, c, "f");
    ok(txn, lladd_list_delete(txn, list, d));
    ok(txn, lladd_list_append(txn, other, "g", 1, &d));
    is("abcfe");
    in_order(other, "g");
    if (_i == 0) {
        commit(txn);
        is("abcfe");
        in_order(other, "g");
        txn = fixture_begin(&b);
        ok(txn, lladd_list_splice(txn, other, list));
        put(txn, LLADD_ITEM_NONE, "h");
        commit(txn);
        is("h");
        in_order(other, "gabcfe");
    } else {
        if (_i == 1) {
            abort_txn(txn);
        } else {
            lladd_list_close(list);
            lladd_list_close(other);
            fixture_crash(&b);
            ok_db(&b, lladd_list_open(b.db, root, &list, &b.err));
            ok_db(&b, lladd_list_open(b.db, page, &other, &b.err));
        }
        is("ab");
        in_order(other, "cd");
        txn = fixture_begin(&b);
        put(txn, last, "z");
        commit(txn);
        is("abz");
    }
    ck_assert_uint_eq(fixture_pages_used(&b), pages_of(list) + pages_of(other));
    lladd_list_close(other);
}
END_TEST

/* A list can contain the items of 500 lists, including its own items. One more splice is refused.
 * The refused splice changes nothing, and does not keep other transactions from using the lists. */
START_TEST(a_splice_of_too_many_lists_is_refused)
{
    struct lladd_list *other;
    struct lladd_item at;
    lladd_pageno page;
    uint64_t n;
    struct lladd_txn *txn = fixture_begin(&b), *second;
    ok(txn, lladd_list_create(txn, &page));
    ok_db(&b, lladd_list_open(b.db, page, &other, &b.err));
    ok(txn, lladd_list_splice(txn, list, other)); /* `other` is empty, so nothing changes */
    for (int i = 0; i < 499; i++) {
        ok(txn, lladd_list_append(txn, other, "x", 1, &at));
        ok(txn, lladd_list_splice(txn, list, other));
    }
    ok(txn, lladd_list_append(txn, other, "y", 1, &at));
    commit(txn);
    txn = fixture_begin(&b), second = fixture_begin(&b);
    refuses(txn, LLADD_TOO_LARGE, lladd_list_splice(txn, list, other));
    ok(txn, lladd_list_append(txn, _i ? other : list, "a", 1, &at));
    ok(second, lladd_list_append(second, _i ? other : list, "b", 1, &at));
    commit(second);
    ck_assert_int_eq(lladd_abort(txn), 0);
    ok_db(&b, lladd_list_count(list, &n, &b.err));
    ck_assert_uint_eq(n, _i ? 499 : 500);
    in_order(other, _i ? "yb" : "y");
    ok_db(&b, lladd_list_check(list, &b.err));
    ok_db(&b, lladd_list_check(other, &b.err));
    txn = fixture_begin(&b);
    ok(txn, lladd_list_destroy(txn, root));
    ok(txn, lladd_list_destroy(txn, page));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
    lladd_list_close(other);
}
END_TEST

START_TEST(wrong_arguments)
{
    struct fixture other;
    struct lladd_item at = {{12345}, 1}, got;
    size_t len;
    struct lladd_list *l = NULL;
    lladd_pageno page = fixture_page(&b, "lladd.slotted");
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid rid;
    ok(txn, lladd_slotted_alloc(txn, page, NULL, 100, 0, &rid));
    struct lladd_item x = append(txn, "x"), stale = x;
    stale.slot += 1u << 16; /* an item that names another use of the slot */
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_insert(txn, list, at, "y", 1, &got));
    at = (struct lladd_item){page, rid.slot}; /* an item that names a record of another kind */
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_delete(txn, list, at));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_delete(txn, list, stale));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_delete(txn, list, NONE));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_list_write(txn, list, at, 0, "y", 1));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_list_append(txn, list, NULL, 1, &got));
    refuses(txn, LLADD_BAD_ARGUMENT, lladd_list_write(txn, list, x, 0, NULL, 1));
    refuses(txn, LLADD_WRONG_TYPE, lladd_list_destroy(txn, page));
    ck_assert_int_eq(lladd_list_get(list, stale, NULL, 0, &len, &b.err), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(lladd_list_next(list, at, &got, NULL, 0, &len, &b.err), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(lladd_list_open(b.db, page, &l, &b.err), LLADD_WRONG_TYPE);
    is("x");
    commit(txn);
    fixture_init(&other, 4096);
    fixture_open(&other);
    txn = fixture_begin(&other);
    refuses(txn, LLADD_OTHER_DATABASE, lladd_list_append(txn, list, "y", 1, &got));
    refuses(txn, LLADD_OTHER_DATABASE, lladd_list_delete(txn, list, x));
    refuses(txn, LLADD_OTHER_DATABASE, lladd_list_write(txn, list, x, 0, "y", 1));
    abort_txn(txn);
    fixture_free(&other);
    is("x");
}
END_TEST

/* ---- random transactions and a model --------------------------------------------------------- */

enum { ITEMS = 400 };

struct model {
    size_t n;
    struct lladd_item item[ITEMS];
    uint32_t word[ITEMS]; /* the first bytes of each item */
};
static struct model now, committed, saved;

static void model_insert(struct model *m, size_t at, struct lladd_item item, uint32_t word)
{
    memmove(m->item + at + 1, m->item + at, (m->n - at) * sizeof m->item[0]);
    memmove(m->word + at + 1, m->word + at, (m->n - at) * sizeof m->word[0]);
    m->item[at] = item;
    m->word[at] = word;
    m->n++;
}

static void model_remove(struct model *m, size_t at)
{
    m->n--;
    memmove(m->item + at, m->item + at + 1, (m->n - at) * sizeof m->item[0]);
    memmove(m->word + at, m->word + at + 1, (m->n - at) * sizeof m->word[0]);
}

static void compare(const struct model *m)
{
    struct lladd_item at = NONE;
    uint32_t word;
    size_t len;
    for (size_t i = 0; i < m->n; i++) {
        ok_db(&b, lladd_list_next(list, at, &at, &word, sizeof word, &len, &b.err));
        ck_assert(ll_list_same(at, m->item[i]));
        ck_assert_uint_eq(word, m->word[i]);
    }
    ck_assert_int_eq(lladd_list_next(list, at, &at, NULL, 0, NULL, &b.err), LLADD_END);
    ok_db(&b, lladd_list_check(list, &b.err));
    ck_assert_uint_eq(fixture_pages_used(&b), pages_of(list));
}

static void change_one(struct lladd_txn *txn, uint64_t r, uint64_t r2)
{
    static unsigned char bytes[1000];
    uint32_t word = (uint32_t)r2;
    size_t len = 4 + (r2 >> 32) % (r % 5 ? 60 : 900), at = now.n ? (r >> 8) % (now.n + 1) : 0;
    struct lladd_item got;
    memset(bytes, (int)r2, sizeof bytes);
    memcpy(bytes, &word, sizeof word);
    bool insert = r % 16 < (now.n < ITEMS / 2 ? 10 : 5);
    if (now.n == 0 || (insert && now.n < ITEMS)) {
        if (r % 3 == 0)
            at = now.n;
        if (r % 3 == 0)
            ok(txn, lladd_list_append(txn, list, bytes, len, &got));
        else
            ok(txn, lladd_list_insert(txn, list, at ? now.item[at - 1] : NONE, bytes, len, &got));
        model_insert(&now, at, got, word);
        return;
    }
    at = (r >> 8) % now.n;
    if (r % 16 < 12) {
        ok(txn, lladd_list_delete(txn, list, now.item[at]));
        model_remove(&now, at);
    } else {
        ok(txn, lladd_list_write(txn, list, now.item[at], 0, &word, sizeof word));
        now.word[at] = word;
    }
}

static void some_transaction(uint64_t *seed)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp = 0;
    bool has_sp = false;
    uint64_t steps = 1 + seeded_next(seed) % 20;
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t r = seeded_next(seed);
        if (r % 11 == 0 && has_sp) {
            ok(txn, lladd_rollback_to(txn, sp));
            now = saved;
        } else if (r % 11 == 1) {
            ok(txn, lladd_savepoint(txn, &sp));
            has_sp = true;
            saved = now;
        }
        uint64_t r2 = seeded_next(seed);
        change_one(txn, seeded_next(seed), r2);
    }
    uint64_t r = seeded_next(seed);
    if (r % 4 == 0) {
        abort_txn(txn);
        now = committed;
    } else if (r % 32 == 1) {
        crash();
        now = committed;
    } else {
        commit(txn);
        committed = now;
    }
    if (r % 32 == 2)
        crash();
}

START_TEST(random_transactions_match_a_model)
{
    uint64_t seed = (uint64_t)_i + 1;
    setup_sized(_i % 3 == 2 ? 16384 : 4096);
    now.n = committed.n = 0;
    for (int round = 0; round < 300; round++) {
        some_transaction(&seed);
        if (round % 10 == 0)
            compare(&now);
    }
    compare(&now);
    teardown();
}
END_TEST

/* ---- failures -------------------------------------------------------------------------------- */

static int failing_work(struct lladd_txn *txn)
{
    static unsigned char bytes[3000];
    uint32_t word = 7;
    struct lladd_item got;
    for (int i = 0; i < 30; i++) {
        size_t at = now.n ? (size_t)i * 7 % now.n : 0;
        size_t len = i % 2 ? 100 : 2900;
        memcpy(bytes, &word, sizeof word);
        int rc = lladd_list_insert(txn, list, at ? now.item[at - 1] : NONE, bytes, len, &got);
        if (rc)
            return rc;
        model_insert(&now, at, got, word);
        if (i % 3 == 2) {
            rc = lladd_list_delete(txn, list, now.item[at / 2]);
            if (rc)
                return rc;
            model_remove(&now, at / 2);
        }
    }
    return 0;
}

static void prepare_failure(void)
{
    setup();
    uint64_t seed = 5;
    now.n = 0;
    for (int i = 0; i < 3; i++) {
        struct lladd_txn *txn = fixture_begin(&b);
        for (int k = 0; k < 10; k++) {
            uint64_t r2 = seeded_next(&seed);
            change_one(txn, seeded_next(&seed), r2);
        }
        commit(txn);
    }
    committed = now;
}

static bool failed; /* a memory allocation has failed in the last failing_run */

static int failing_run(void)
{
    struct lladd_txn *txn = NULL;
    int rc = lladd_begin(b.db, NULL, &txn, &b.err);
    if (rc)
        return rc;
    rc = failing_work(txn);
    if (rc)
        ck_assert_int_eq(lladd_txn_error(txn)->code, rc);
    if (rc) {
        ck_assert_int_eq(lladd_db_error(b.db, &b.err), 0);
        abort_txn(txn); /* succeeds even without memory and space (REC-3) */
        now = committed;
    } else {
        commit(txn);
    }
    failed = fault_alloc_fired(&b.mem) > 0;
    fault_alloc_fail(&b.mem, 0, false);
    fault_device_capacity(b.fd, UINT64_MAX);
    return rc;
}

START_TEST(without_memory)
{
    bool more = true;
    int refused = 0;
    for (uint64_t n = 1; more; n++) {
        prepare_failure();
        fault_alloc_fail(&b.mem, n, _i);
        int rc = failing_run();
        ck_assert_msg(rc == 0 || rc == LLADD_NO_MEMORY, "%s", lladd_code_name(rc));
        more = failed;
        refused += rc != 0;
        compare(&now);
        crash();
        compare(&now);
        teardown();
    }
    ck_assert_int_gt(refused, 0);
}
END_TEST

START_TEST(without_space)
{
    int refused = 0;
    prepare_failure();
    uint64_t from = fault_device_bytes(b.fd);
    ck_assert_int_eq(failing_run(), 0);
    uint64_t to = fault_device_bytes(b.fd);
    teardown();
    for (uint64_t size = from; size <= to; size += (to - from) / 30 + 1) {
        prepare_failure();
        fault_device_capacity(b.fd, size);
        int rc = failing_run();
        ck_assert_msg(rc == 0 || lladd_code_root(rc) == LLADD_ROOT_RESOURCE ||
                          lladd_code_root(rc) == LLADD_ROOT_RETRY,
                      "%s", lladd_code_name(rc));
        refused += rc != 0;
        compare(&now);
        crash();
        compare(&now);
        teardown();
    }
    ck_assert_int_gt(refused, 0);
}
END_TEST

/* After an error of a call, the transaction still has its earlier changes, and can go on. */
START_TEST(a_transaction_goes_on_after_an_error)
{
    prepare_failure();
    for (uint64_t n = 1; n < 60; n++) {
        struct lladd_txn *txn = fixture_begin(&b);
        fault_alloc_fail(&b.mem, n, false);
        int rc = failing_work(txn);
        fault_alloc_fail(&b.mem, 0, false);
        ck_assert(rc == 0 || rc == LLADD_NO_MEMORY);
        compare(&now);
        commit(txn);
        compare(&now);
        while (now.n > 40) {
            txn = fixture_begin(&b);
            ok(txn, lladd_list_delete(txn, list, now.item[now.n / 2]));
            model_remove(&now, now.n / 2);
            commit(txn);
        }
    }
    teardown();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("list");
    TCase *c = tcase_create("list");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, a_ring_is_noticed, 0, 2);
    tcase_add_test(c, a_page_without_a_heap_is_an_error_with_a_message);
    tcase_add_test(c, keeps_the_order);
    tcase_add_test(c, items_of_every_length);
    tcase_add_test(c, finds_the_next_matching_item);
    tcase_add_loop_test(c, adjacent_items_of_two_transactions, 0, 8);
    tcase_add_test(c, committed_items_between_those_of_a_loser);
    tcase_add_test(c, savepoints);
    tcase_add_loop_test(c, a_removal_in_doubt, 0, 2);
    tcase_add_test(c, a_queue_stays_small);
    tcase_add_loop_test(c, all_items_are_removed, 0, 2);
    tcase_add_loop_test(c, a_list_is_created_and_rolled_back, 0, 3);
    tcase_add_loop_test(c, a_list_is_spliced, 0, 3);
    tcase_add_loop_test(c, a_splice_of_too_many_lists_is_refused, 0, 2);
    tcase_add_test(c, wrong_arguments);
    suite_add_tcase(s, c);
    TCase *own = tcase_create("own");
    tcase_add_loop_test(own, random_transactions_match_a_model, 0, 6);
    tcase_add_loop_test(own, without_memory, 0, 2);
    tcase_add_test(own, without_space);
    tcase_add_test(own, a_transaction_goes_on_after_an_error);
    suite_add_tcase(s, own);
    return fixture_run(s);
}
