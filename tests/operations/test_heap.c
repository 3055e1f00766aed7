/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Heaps. A record keeps its id each time it moves. A walk meets each record exactly once. Records
 * have the contents of the last commit. When a transaction rolls back, the pages that it has added
 * to a heap stay in the heap. If it has created a heap, all pages of this heap are freed. Room of
 * deleted records is reused. Wrong calls are refused.
 */
#include "history.h"

#include "operations/heap/heap.h"

static struct fixture b;
static lladd_pageno root;
static struct lladd_heap *heap;

static void setup_size(uint32_t size)
{
    fixture_init(&b, size);
    fixture_open(&b);
    struct lladd_txn *txn = fixture_begin(&b);
    ok(txn, lladd_heap_create_open(txn, &root, &heap));
    commit(txn);
}
static void setup(void)
{
    setup_size(4096);
}
static void reopen(void)
{
    ok_db(&b, lladd_heap_open(b.db, root, &heap, &b.err));
}
static void crash(void)
{
    fixture_crash(&b);
    reopen();
}
static void teardown(void)
{
    lladd_heap_close(heap);
    fixture_free(&b);
}

static struct lladd_rid insert(struct lladd_txn *txn, char fill, size_t len)
{
    static unsigned char bytes[65536];
    struct lladd_rid rid = {{0}, 0, 0};
    memset(bytes, fill, len);
    ok(txn, lladd_heap_insert(txn, heap, bytes, len, &rid));
    ck_assert_uint_eq(rid.size, len);
    return rid;
}

static void set(struct lladd_txn *txn, struct lladd_rid rid, char fill, size_t len)
{
    static unsigned char bytes[65536];
    memset(bytes, fill, len);
    ok(txn, lladd_heap_set(txn, heap, rid, bytes, len));
}

static void expect(struct lladd_rid rid, char fill, size_t len)
{
    static unsigned char got[65536], want[65536];
    size_t got_len = 99999;
    memset(want, fill, len);
    ok_db(&b, lladd_heap_get(heap, rid, got, sizeof got, &got_len, &b.err));
    ck_assert_uint_eq(got_len, len);
    ck_assert_mem_eq(got, want, len);
}

static void expect_none(struct lladd_rid rid)
{
    ck_assert_int_eq(lladd_heap_get(heap, rid, NULL, 0, NULL, &b.err), LLADD_OUT_OF_RANGE);
}

/* Returns the number of records that a walk meets. */
static unsigned walk_count(void)
{
    struct lladd_heap_cursor c;
    struct lladd_rid rid;
    struct lladd_record r;
    unsigned n = 0;
    int rc;
    lladd_heap_cursor_open(heap, &c);
    while ((rc = lladd_heap_cursor_next(&c, &rid, &r, &b.err)) == 0) {
        ck_assert_uint_eq(rid.size, r.len);
        n++;
    }
    ck_assert_int_eq(rc, LLADD_END);
    ck_assert_int_eq(lladd_heap_cursor_next(&c, &rid, &r, &b.err), LLADD_END); /* once more */
    lladd_heap_cursor_close(&c);
    return n;
}

/* Returns the tag of a record's slot on its home page; 1: the record has moved. */
static unsigned home_tag(struct lladd_rid rid)
{
    unsigned tag = 99;
    ok_db(&b, lladd_slotted_read(b.db, rid, NULL, 0, NULL, &tag, &b.err));
    return tag;
}

/* ---- records --------------------------------------------------------------------------------- */

START_TEST(insert_get_set_delete)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid a = insert(txn, 'a', 10), z = insert(txn, 'z', 0);
    expect(a, 'a', 10);
    expect(z, 'z', 0);
    commit(txn);
    txn = fixture_begin(&b);
    set(txn, a, 'A', 2000);
    ok(txn, lladd_heap_delete(txn, heap, z));
    expect_none(z);
    abort_txn(txn);
    expect(a, 'a', 10);
    expect(z, 'z', 0);
    txn = fixture_begin(&b);
    set(txn, a, 'A', 2000);
    ok(txn, lladd_heap_delete(txn, heap, z));
    commit(txn);
    crash();
    expect(a, 'A', 2000);
    expect_none(z);
    ck_assert_uint_eq(walk_count(), 1);
}
END_TEST

START_TEST(records_of_every_size_on_every_page_size)
{
    static const uint32_t sizes[] = {4096, 8192, 16384, 32768, 65536};
    setup_size(sizes[_i]);
    uint32_t max = lladd_heap_max(sizes[_i]);
    struct lladd_rid r[64];
    uint32_t n = 0;
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint32_t len = max; len > 0 && n < 60; len = len * 3 / 4, n++)
        r[n] = insert(txn, (char)('a' + n % 26), len);
    lladd_savepoint_id sp;
    struct lladd_rid more;
    ok(txn, lladd_savepoint(txn, &sp));
    refuses(txn, LLADD_TOO_LARGE, lladd_heap_insert(txn, heap, "", max + 1, &more));
    refuses(txn, LLADD_TOO_LARGE, lladd_heap_set(txn, heap, r[0], "", max + 1));
    commit(txn);
    crash();
    uint32_t len = max;
    for (uint32_t i = 0; i < n; i++, len = len * 3 / 4)
        expect(r[i], (char)('a' + i % 26), len);
    /* All records become as long as possible. On each page all but one have to move. */
    txn = fixture_begin(&b);
    for (uint32_t i = 0; i < n; i++)
        set(txn, r[i], 'M', max);
    commit(txn);
    for (uint32_t i = 0; i < n; i++)
        expect(r[i], 'M', max);
    ck_assert_uint_eq(walk_count(), n);
    teardown();
}
END_TEST

/* ---- moving ---------------------------------------------------------------------------------- */

START_TEST(a_record_that_outgrows_its_page_keeps_its_id)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid r = insert(txn, 'r', 100), n1 = insert(txn, '1', 1900),
                     n2 = insert(txn, '2', 1900);
    ck_assert_uint_eq(r.page.v, n2.page.v);
    commit(txn);
    txn = fixture_begin(&b);
    set(txn, r, 'R', 3000);
    ck_assert_uint_eq(home_tag(r), 1);
    expect(r, 'R', 3000);
    ck_assert_uint_eq(walk_count(), 3);
    abort_txn(txn);
    ck_assert_uint_eq(home_tag(r), 0);
    expect(r, 'r', 100);
    txn = fixture_begin(&b);
    set(txn, r, 'R', 3000);
    commit(txn);
    crash();
    expect(r, 'R', 3000);
    txn = fixture_begin(&b);
    set(txn, r, 'S', 3500); /* the record stays on the page to which it has moved */
    expect(r, 'S', 3500);
    set(txn, r, 's', 5);
    expect(r, 's', 5);
    ck_assert_uint_eq(home_tag(r), 1);
    commit(txn);
    /* If that page has no room and the home page has, the record moves home. */
    txn = fixture_begin(&b);
    struct lladd_rid beside = {{0}, 0, 0};
    unsigned char stub[8];
    ok_db(&b, lladd_slotted_read(b.db, r, stub, 8, NULL, NULL, &b.err));
    ok(txn, lladd_slotted_alloc(txn, lladd_page_of(lladd_get48(stub)), NULL, 3400, 0, &beside));
    ok(txn, lladd_heap_delete(txn, heap, n1));
    commit(txn);
    txn = fixture_begin(&b);
    set(txn, r, 'h', 1500);
    ck_assert_uint_eq(home_tag(r), 0);
    expect(r, 'h', 1500);
    expect(n2, '2', 1900);
    ck_assert_uint_eq(walk_count(), 3);
    abort_txn(txn);
    expect(r, 's', 5);
    ck_assert_uint_eq(home_tag(r), 1);
    /* If neither page has room, the record moves to a third page. Deleting it frees its slots on
     * both pages. */
    txn = fixture_begin(&b);
    set(txn, r, 't', 3900);
    ck_assert_uint_eq(home_tag(r), 1);
    expect(r, 't', 3900);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_heap_delete(txn, heap, r));
    expect_none(r);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_heap_delete(txn, heap, r));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_heap_set(txn, heap, r, "x", 1));
    commit(txn);
    ck_assert_uint_eq(walk_count(), 2);
}
END_TEST

/* _i 0: the record is on its home page; 1: it has moved to another page. */
START_TEST(a_part_of_a_record_is_written_and_read)
{
    unsigned char want[3000], got[3000];
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid r = insert(txn, 'r', 100);
    (void)insert(txn, '1', 1900);
    (void)insert(txn, '2', 1900);
    const uint32_t len = _i ? 3000 : 100;
    set(txn, r, 'R', len);
    commit(txn);
    ck_assert_uint_eq(home_tag(r), _i ? 1 : 0);
    txn = fixture_begin(&b);
    ok(txn, lladd_heap_write(txn, heap, r, 40, "part", 4));
    ok(txn, lladd_heap_write(txn, heap, r, len, NULL, 0));
    abort_txn(txn);
    expect(r, 'R', len);
    txn = fixture_begin(&b);
    ok(txn, lladd_heap_write(txn, heap, r, 0, "first", 5));
    ok(txn, lladd_heap_write(txn, heap, r, len - 4, "last", 4));
    static const struct {
        uint32_t offset;
        size_t len;
    } beyond[] = {{0, 3001}, {2999, 2}, {3001, 0}, {UINT32_MAX, 1}, {1, SIZE_MAX}};
    for (unsigned i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        ck_assert_int_eq(lladd_heap_write(txn, heap, r, beyond[i].offset, want, beyond[i].len),
                         LLADD_OUT_OF_RANGE);
        ck_assert_ptr_nonnull(strstr(lladd_txn_error(txn)->message, "are not in the record"));
    }
    commit(txn);
    crash();
    memset(want, 'R', len);
    memcpy(want, "first", 5);
    memcpy(want + len - 4, "last", 4);
    ok_db(&b, lladd_heap_get(heap, r, got, sizeof got, NULL, &b.err));
    ck_assert_mem_eq(got, want, len);
    for (uint32_t at = 0; at <= len; at += 7) {
        memset(got, 0, sizeof got);
        ok_db(&b, lladd_heap_read(heap, r, at, got, len - at, &b.err));
        ck_assert_mem_eq(got, want + at, len - at);
        ok_db(&b, lladd_heap_read(heap, r, at, got, 0, &b.err));
    }
    ck_assert_int_eq(lladd_heap_read(heap, r, len, got, 1, &b.err), LLADD_OUT_OF_RANGE);
    ck_assert_int_eq(lladd_heap_read(heap, r, len + 1, got, 0, &b.err), LLADD_OUT_OF_RANGE);
}
END_TEST

START_TEST(a_moved_record_has_no_second_id)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid r = insert(txn, 'r', 100), n = insert(txn, 'n', 3800), at;
    unsigned char stub[8];
    size_t len;
    set(txn, r, 'R', 3000);
    commit(txn);
    ck_assert_uint_eq(n.page.v, r.page.v);
    ok_db(&b, lladd_slotted_read(b.db, r, stub, 8, &len, NULL, &b.err));
    ck_assert_uint_eq(len, 8);
    at = (struct lladd_rid){lladd_page_of(lladd_get48(stub)), lladd_get16(stub + 6), 0};
    expect_none(at);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_heap_delete(txn, heap, at));
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_heap_set(txn, heap, at, "x", 1));
    commit(txn);
    expect(r, 'R', 3000);
}
END_TEST

START_TEST(a_stub_that_leads_nowhere_is_damage)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid r = insert(txn, 'r', 100);
    unsigned char stub[8];
    lladd_put48(stub, r.page.v);
    lladd_put16(stub + 6, 77);
    ok(txn, lladd_slotted_set(txn, r, stub, 8, 1));
    ck_assert_int_eq(lladd_heap_get(heap, r, NULL, 0, NULL, &b.err), LLADD_CORRUPT_PAGE);
    ck_assert_uint_eq(b.err.page.v, r.page.v);
    lladd_put48(stub, 1);
    ok(txn, lladd_slotted_set(txn, r, stub, 8, 1));
    ck_assert_int_eq(lladd_heap_get(heap, r, NULL, 0, NULL, &b.err), LLADD_CORRUPT_PAGE);
    abort_txn(txn);
}
END_TEST

/* The inventory lists the heap's pages. The only page of the inventory has a link to itself. No
 * call may follow the link for ever. _i: the heap has a record. */
START_TEST(an_inventory_that_does_not_end_is_noticed)
{
    unsigned char next[8];
    struct lladd_heap_cursor c;
    struct lladd_rid rid;
    struct lladd_record r;
    struct lladd_txn *txn = fixture_begin(&b);
    unsigned char byte = 1;
    if (_i)
        insert(txn, 'r', 100);
    lladd_put64(next, root.v);
    fixture_forge(&b, root, LLADD_PAGE_HEADER, next, sizeof next);
    int rc = 0;
    lladd_heap_cursor_open(heap, &c);
    for (unsigned i = 0; i < 10000 && !rc; i++)
        rc = lladd_heap_cursor_next(&c, &rid, &r, &b.err);
    lladd_heap_cursor_close(&c);
    ck_assert_int_eq(rc, LLADD_CORRUPT_PAGE);
    if (!_i)
        refuses(txn, LLADD_CORRUPT_PAGE, lladd_heap_insert(txn, heap, &byte, 1, &rid));
    fixture_forge(&b, root, LLADD_PAGE_HEADER, next, sizeof next);
    commit(txn);
    ck_assert_uint_eq(walk_count(), (unsigned)_i);
}
END_TEST

/* ---- growing --------------------------------------------------------------------------------- */

START_TEST(pages_stay_and_records_go_when_an_insert_is_rolled_back)
{
    struct lladd_txn *txn = fixture_begin(&b), *other = fixture_begin(&b);
    for (int i = 0; i < 200; i++)
        insert(txn, 't', 500);
    struct lladd_rid o = insert(other, 'o', 500);
    commit(other);
    uint64_t pages = fixture_pages_used(&b);
    if (_i)
        abort_txn(txn);
    else
        crash();
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
    expect(o, 'o', 500);
    ck_assert_uint_eq(walk_count(), 1);
    txn = fixture_begin(&b);
    for (int i = 0; i < 190; i++)
        insert(txn, 'n', 500);
    commit(txn);
    ck_assert_uint_le(fixture_pages_used(&b), pages + pages / 4);
    ck_assert_uint_eq(walk_count(), 191);
}
END_TEST

/* _i 0: the transaction that has created the heap aborts; 1: it is open at a crash; 2: it rolls
 * back to a savepoint before the creation, and commits. */
START_TEST(a_heap_that_was_never_committed_leaves_nothing)
{
    uint64_t pages = fixture_pages_used(&b);
    lladd_pageno before = root;
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp;
    lladd_heap_close(heap);
    ok(txn, lladd_savepoint(txn, &sp));
    ok(txn, lladd_heap_create_open(txn, &root, &heap));
    for (int i = 0; i < 100; i++)
        insert(txn, 'x', 1000);
    ck_assert_uint_eq(walk_count(), 100);
    ck_assert_uint_gt(fixture_pages_used(&b), pages + 20);
    if (_i == 0) {
        abort_txn(txn);
        lladd_heap_close(heap);
    } else if (_i == 1) {
        fixture_crash(&b);
    } else {
        ok(txn, lladd_rollback_to(txn, sp));
        commit(txn);
        lladd_heap_close(heap);
    }
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
    /* Another heap may get the same pages. The state of the first heap must not affect it. */
    txn = fixture_begin(&b);
    ok(txn, lladd_heap_create_open(txn, &root, &heap));
    insert(txn, 'y', 1000);
    ck_assert_uint_eq(walk_count(), 1);
    commit(txn);
    ck_assert_uint_eq(walk_count(), 1);
    lladd_heap_close(heap);
    root = before;
    reopen();
    ck_assert_uint_eq(walk_count(), 0);
}
END_TEST

/* The transaction that has created a heap rolls back to a savepoint, and so frees pages of the
 * heap. The heap's state in memory lists these pages, but they must not be used. */
START_TEST(a_rollback_to_a_savepoint_shortens_a_new_heap)
{
    struct lladd_txn *txn = fixture_begin(&b);
    lladd_savepoint_id sp;
    lladd_heap_close(heap);
    ok(txn, lladd_heap_create_open(txn, &root, &heap));
    struct lladd_rid first = insert(txn, '1', 1000);
    for (int round = 0; round < 3; round++) {
        ok(txn, lladd_savepoint(txn, &sp));
        for (int i = 0; i < 60; i++)
            insert(txn, 'x', 1000);
        ok(txn, lladd_rollback_to(txn, sp));
        lladd_pageno taken; /* another transaction allocates the freed pages */
        struct lladd_txn *other = fixture_begin(&b);
        for (int i = 0; i < 5; i++) {
            ok(other, lladd_page_alloc(other, &taken));
            ok(other, lladd_bytes_format(other, taken));
        }
        commit(other);
        for (int i = 0; i < 10 && round < 2; i++) /* the last round inserts nothing more */
            insert(txn, 'k', 1000);
    }
    commit(txn);
    ck_assert_uint_eq(walk_count(), 21);
    txn = fixture_begin(&b);
    for (int i = 0; i < 10; i++)
        insert(txn, 'l', 1000);
    commit(txn);
    crash();
    ck_assert_uint_eq(walk_count(), 31);
    expect(first, '1', 1000);
}
END_TEST

START_TEST(more_pages_than_an_inventory_page_lists)
{
    uint64_t n = ll_inventory_max(4096) * 2 + 50, seed = 9;
    struct lladd_rid some[20];
    struct lladd_txn *txn = fixture_begin(&b);
    for (uint64_t i = 0; i < n; i++) {
        struct lladd_rid r = insert(txn, (char)('a' + i % 26), 3000);
        if (i % (n / 19) == 0)
            some[i / (n / 19)] = r;
        if (i % 100 == 99) {
            commit(txn);
            txn = fixture_begin(&b);
        }
    }
    commit(txn);
    crash();
    ck_assert_uint_eq(walk_count(), n);
    for (uint64_t i = 0; i < 19; i++)
        expect(some[i], (char)('a' + i * (n / 19) % 26), 3000);
    /* After a restart, insertions find the free room, and allocate no pages. */
    uint64_t pages = fixture_pages_used(&b);
    txn = fixture_begin(&b);
    for (uint64_t i = 0; i < n / 2; i++)
        insert(txn, 's', 100 + seeded_next(&seed) % 700);
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), pages);
    txn = fixture_begin(&b);
    ok(txn, lladd_heap_destroy(txn, root));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), 0);
}
END_TEST

START_TEST(room_of_deleted_records_is_reused)
{
    static struct lladd_rid r[2000];
    struct lladd_txn *txn;
    uint64_t pages = 0;
    for (int round = 0; round < 8; round++) {
        txn = fixture_begin(&b);
        for (int i = 0; i < 2000; i++)
            r[i] = insert(txn, 'x', (size_t)(50 + (round * 37 + i) % 300));
        commit(txn);
        if (round == 0)
            pages = fixture_pages_used(&b);
        ck_assert_uint_le(fixture_pages_used(&b), pages * 5 / 4);
        txn = fixture_begin(&b);
        for (int i = 0; i < 2000; i++)
            ok(txn, lladd_heap_delete(txn, heap, r[i]));
        commit(txn);
        if (round % 3 == 2)
            crash();
    }
    ck_assert_uint_eq(walk_count(), 0);
}
END_TEST

/* ---- destroying ------------------------------------------------------------------------------ */

START_TEST(destroy_frees_everything_or_nothing)
{
    uint64_t none = fixture_pages_used(&b) - 1;
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid r = insert(txn, 'r', 100);
    for (int i = 0; i < 300; i++)
        insert(txn, 'x', 900);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_heap_destroy(txn, root));
    ck_assert_int_eq(lladd_heap_get(heap, r, NULL, 0, NULL, &b.err), LLADD_DESTROYED);
    if (_i)
        abort_txn(txn);
    else
        crash();
    expect(r, 'r', 100);
    ck_assert_uint_eq(walk_count(), 301);
    txn = fixture_begin(&b);
    insert(txn, 'y', 900);
    commit(txn);
    txn = fixture_begin(&b);
    ok(txn, lladd_heap_destroy(txn, root));
    commit(txn);
    ck_assert_uint_eq(fixture_pages_used(&b), none);
}
END_TEST

START_TEST(wrong_calls_are_refused)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_heap *mine = heap, *other = NULL;
    lladd_pageno other_root;
    struct lladd_rid r = insert(txn, 'r', 10), o, none = {lladd_page_of(0), 0, 0};
    ok(txn, lladd_heap_create_open(txn, &other_root, &other));
    heap = other;
    o = insert(txn, 'o', 10);
    heap = mine;
    lladd_heap_close(other);
    commit(txn);
    txn = fixture_begin(&b);
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_heap_delete(txn, heap, o)); /* another heap's record */
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_heap_set(txn, heap, o, "x", 1));
    expect_none(o);
    refuses(txn, LLADD_WRONG_TYPE, lladd_heap_delete(txn, heap, none));
    refuses(txn, LLADD_WRONG_TYPE, lladd_heap_destroy(txn, lladd_page_of(1)));
    refuses(txn, LLADD_WRONG_TYPE, lladd_heap_destroy(txn, r.page));
    r.slot = 99;
    refuses(txn, LLADD_OUT_OF_RANGE, lladd_heap_delete(txn, heap, r));
    commit(txn);
    other = NULL;
    const lladd_pageno no_root[] = {lladd_page_of(1), r.page};
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(lladd_heap_open(b.db, no_root[i], &other, &b.err), LLADD_WRONG_TYPE);
    ck_assert_int_eq(lladd_heap_open(b.db, lladd_page_of(1u << 30), &other, &b.err),
                     LLADD_OUT_OF_RANGE);
    ck_assert_ptr_null(other);
    lladd_heap_close(NULL);
}
END_TEST

START_TEST(handles_of_one_heap_share_its_state)
{
    struct lladd_heap *other;
    ok_db(&b, lladd_heap_open(b.db, root, &other, &b.err));
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_rid r = insert(txn, 'r', 10), o;
    ok(txn, lladd_heap_insert(txn, other, "o", 1, &o));
    ck_assert_uint_eq(o.page.v, r.page.v); /* both handles use the same pool of pages */
    commit(txn);
    lladd_heap_close(heap);
    heap = other;
    expect(r, 'r', 10);
    expect(o, 'o', 1);
}
END_TEST

/* The root page of a heap becomes the root page of another heap. The first heap was destroyed (_i
 * 0), or its creation was rolled back. */
START_TEST(a_handle_does_not_work_on_a_later_heap)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_heap *old = heap, *fresh[50];
    lladd_pageno old_root = root, at;
    struct lladd_rid r;
    bool reused = false;
    if (_i) {
        ok(txn, lladd_heap_create_open(txn, &old_root, &old));
        abort_txn(txn);
    } else {
        ok(txn, lladd_heap_destroy(txn, root));
        commit(txn);
    }
    txn = fixture_begin(&b);
    for (int i = 0; i < 50; i++) {
        ok(txn, lladd_heap_create_open(txn, &at, &fresh[i]));
        ok(txn, lladd_heap_insert(txn, fresh[i], "x", 1, &r));
        reused |= at.v == old_root.v;
    }
    ck_assert(reused);
    refuses(txn, LLADD_DESTROYED, lladd_heap_insert(txn, old, "x", 1, &r));
    commit(txn);
    ck_assert_int_eq(lladd_heap_get(old, r, NULL, 0, NULL, &b.err), LLADD_DESTROYED);
    struct lladd_heap_cursor c;
    struct lladd_record rec;
    lladd_heap_cursor_open(old, &c);
    ck_assert_int_eq(lladd_heap_cursor_next(&c, &r, &rec, &b.err), LLADD_DESTROYED);
    lladd_heap_cursor_close(&c);
    for (int i = 0; i < 50; i++)
        lladd_heap_close(fresh[i]);
    if (_i)
        lladd_heap_close(old);
}
END_TEST

START_TEST(a_transaction_of_another_database_is_refused)
{
    struct fixture second;
    struct lladd_rid r = {{0}, 0, 0};
    fixture_init(&second, 4096);
    fixture_open(&second);
    struct lladd_txn *txn = fixture_begin(&second);
    refuses(txn, LLADD_OTHER_DATABASE, lladd_heap_insert(txn, heap, "x", 1, &r));
    refuses(txn, LLADD_OTHER_DATABASE, lladd_heap_set(txn, heap, r, "x", 1));
    refuses(txn, LLADD_OTHER_DATABASE, lladd_heap_write(txn, heap, r, 0, "x", 1));
    refuses(txn, LLADD_OTHER_DATABASE, lladd_heap_add(txn, heap, r, 0, 1));
    refuses(txn, LLADD_OTHER_DATABASE, lladd_heap_delete(txn, heap, r));
    commit(txn);
    fixture_free(&second);
}
END_TEST

/* ---- a walk during changes ------------------------------------------------------------------- */

START_TEST(a_walk_sees_every_lasting_record_once)
{
    enum { N = 400 };
    struct lladd_rid r[N], rid;
    unsigned char seen[N] = {0};
    uint64_t seed = 4;
    struct lladd_txn *txn = fixture_begin(&b);
    for (int i = 0; i < N; i++)
        r[i] = insert(txn, (char)('a' + i % 26), 100);
    commit(txn);
    struct lladd_heap_cursor c;
    struct lladd_record rec;
    int rc, lasting = 0;
    lladd_heap_cursor_open(heap, &c);
    txn = fixture_begin(&b);
    while ((rc = lladd_heap_cursor_next(&c, &rid, &rec, &b.err)) == 0) {
        for (int i = 0; i < N; i += 2) { /* even records are never deleted, but may move */
            if (r[i].page.v == rid.page.v && r[i].slot == rid.slot) {
                ck_assert(!seen[i]);
                ck_assert(rec.bytes[0] == 'a' + i % 26 || rec.bytes[0] == 'G');
                seen[i] = 1;
                lasting++;
            }
        }
        uint64_t x = seeded_next(&seed);
        int i = (int)(x % N);
        if (i % 2 == 0)
            set(txn, r[i], 'G', 100 + (x >> 32) % 900);
        else if (r[i].page.v) {
            ok(txn, lladd_heap_delete(txn, heap, r[i]));
            r[i].page.v = 0;
        }
        if ((x >> 50) % 4 == 0)
            insert(txn, '+', (x >> 20) % 300);
    }
    ck_assert_int_eq(rc, LLADD_END);
    lladd_heap_cursor_close(&c);
    commit(txn);
    ck_assert_int_eq(lasting, N / 2);
}
END_TEST

/* ---- random histories ------------------------------------------------------------------------ */

enum { RECORDS = HISTORY_RECORDS };

struct model {
    struct history h;
    struct lladd_rid rid[RECORDS];
    unsigned moved;
};

static void model_expect(const struct history *h)
{
    const struct model *m = (const struct model *)(const void *)h;
    unsigned n = 0;
    for (int i = 0; i < RECORDS; i++) {
        n += h->now[i].there;
        if (h->now[i].there)
            expect(m->rid[i], h->now[i].fill, h->now[i].len);
    }
    ck_assert_uint_eq(walk_count(), n);
}

static void model_write(struct history *h, int t, uint64_t r)
{
    struct model *m = (struct model *)(void *)h;
    uint32_t i = (uint32_t)(r >> 32) % RECORDS;
    struct version v = {true, (char)('a' + (int)(r & 15)),
                        (uint32_t)(r >> 8) % (r >> 5 & 3 ? 200 : 4000)};
    if (!history_may_write(h, t, i) || (!h->now[i].there && h->base[i].there))
        return; /* another transaction uses the record, or a rollback may restore it with its old
                 * id */
    if (!h->now[i].there) {
        m->rid[i] = insert(h->txn[t], v.fill, v.len);
    } else if ((r >> 50 & 15) < 4) {
        ok(h->txn[t], lladd_heap_delete(h->txn[t], heap, m->rid[i]));
        v.there = false;
    } else {
        set(h->txn[t], m->rid[i], v.fill, v.len);
        m->moved += home_tag(m->rid[i]) == 1;
    }
    /* An id is not reused while a rollback may restore its record. */
    for (uint32_t k = 0; k < RECORDS && v.there; k++)
        ck_assert(k == i || !(h->now[k].there || (h->owner[k] >= 0 && h->base[k].there)) ||
                  m->rid[k].page.v != m->rid[i].page.v || m->rid[k].slot != m->rid[i].slot);
    history_wrote(h, t, i, v);
}

START_TEST(random_histories)
{
    static struct model m;
    m = (struct model){.h = {.records = RECORDS,
                             .txns = 3,
                             .steps = 2500,
                             .end_every = 40,
                             .crash_every = 500,
                             .write = model_write,
                             .expect = model_expect,
                             .reopen = reopen}};
    history_run(&m.h, &b, (uint64_t)_i * 31 + 5);
    ck_assert_uint_gt(m.moved, 50);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heaps");
    TCase *c = tcase_create("heaps");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, insert_get_set_delete);
    tcase_add_loop_test(c, an_inventory_that_does_not_end_is_noticed, 0, 2);
    tcase_add_test(c, a_record_that_outgrows_its_page_keeps_its_id);
    tcase_add_loop_test(c, a_part_of_a_record_is_written_and_read, 0, 2);
    tcase_add_test(c, a_moved_record_has_no_second_id);
    tcase_add_test(c, a_stub_that_leads_nowhere_is_damage);
    tcase_add_loop_test(c, pages_stay_and_records_go_when_an_insert_is_rolled_back, 0, 2);
    tcase_add_loop_test(c, a_heap_that_was_never_committed_leaves_nothing, 0, 3);
    tcase_add_test(c, a_rollback_to_a_savepoint_shortens_a_new_heap);
    tcase_add_test(c, more_pages_than_an_inventory_page_lists);
    tcase_add_test(c, room_of_deleted_records_is_reused);
    tcase_add_loop_test(c, destroy_frees_everything_or_nothing, 0, 2);
    tcase_add_test(c, wrong_calls_are_refused);
    tcase_add_test(c, handles_of_one_heap_share_its_state);
    tcase_add_loop_test(c, a_handle_does_not_work_on_a_later_heap, 0, 2);
    tcase_add_test(c, a_transaction_of_another_database_is_refused);
    tcase_add_test(c, a_walk_sees_every_lasting_record_once);
    tcase_add_loop_test(c, random_histories, 0, 6);
    suite_add_tcase(s, c);
    c = tcase_create("sizes");
    tcase_add_loop_test(c, records_of_every_size_on_every_page_size, 0, 5);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
