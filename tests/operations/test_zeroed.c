/* SPDX-License-Identifier: BSD-2-Clause */
/* A page in use that is all zeros is damage. Each structure in the table `kinds` must report such
 * damage, for each of its pages. */
#include "op_fixture.h"

#include <lladd/array.h>
#include <lladd/blob.h>
#include <lladd/hash.h>
#include <lladd/heap.h>
#include <lladd/journal.h>
#include <lladd/list.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <stdio.h>

enum { ELEMENTS = 900, BLOB = 60000, RECORDS = 20, REGIONS = 60 };

struct structure {
    struct fixture fixture;
    lladd_pageno root;
    struct lladd_rid rid[ELEMENTS];
};

/* A kind of structure. `read` reads all of it, and `change` changes all of it. Both return 0 or the
 * error of the first call that fails. */
struct kind {
    const char *name;
    void (*make)(struct structure *, struct lladd_txn *);
    int (*read)(struct structure *);
    int (*change)(struct structure *, struct lladd_txn *);
};

static void fill(unsigned char *bytes, size_t len, uint32_t i)
{
    memset(bytes, (int)(i % 251), len);
    lladd_put32(bytes, i);
}

/* ---- hash tables ----------------------------------------------------------------------------- */

static void make_hash(struct structure *s, struct lladd_txn *txn, bool fixed)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    unsigned char value[40];
    struct lladd_hash *h;
    o.key_size = fixed ? 4 : 0;
    o.value_size = fixed ? sizeof value : 0;
    ok(txn, lladd_hash_create(txn, &o, &s->root));
    ok_db(&s->fixture, lladd_hash_open(s->fixture.db, s->root, 0, &h, &s->fixture.err));
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        fill(value, sizeof value, i);
        ok(txn, lladd_hash_insert(txn, h, &i, sizeof i, value, sizeof value));
    }
    lladd_hash_close(h);
}

static void make_fixed_hash(struct structure *s, struct lladd_txn *txn)
{
    make_hash(s, txn, true);
}

static void make_var_hash(struct structure *s, struct lladd_txn *txn)
{
    make_hash(s, txn, false);
}

static int read_hash(struct structure *s)
{
    struct lladd_hash *h;
    unsigned char value[40];
    size_t len;
    uint64_t n;
    int rc = lladd_hash_open(s->fixture.db, s->root, 0, &h, &s->fixture.err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < ELEMENTS && !rc; i++)
        rc = lladd_hash_get(h, &i, sizeof i, value, sizeof value, &len, &s->fixture.err);
    int counted = lladd_hash_count(h, &n, &s->fixture.err);
    int checked = lladd_hash_check(h, &s->fixture.err);
    ck_assert_int_eq(counted, rc);
    ck_assert_int_eq(checked, rc);
    lladd_hash_close(h);
    return rc;
}

static int change_hash(struct structure *s, struct lladd_txn *txn)
{
    struct lladd_hash *h;
    unsigned char value[40] = {0};
    int rc = lladd_hash_open(s->fixture.db, s->root, 0, &h, &s->fixture.err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < ELEMENTS && !rc; i++)
        rc = lladd_hash_put(txn, h, &i, sizeof i, value, sizeof value);
    lladd_hash_close(h);
    return rc;
}

/* ---- heaps and lists ------------------------------------------------------------------------- */

static void make_heap(struct structure *s, struct lladd_txn *txn)
{
    unsigned char record[100];
    struct lladd_heap *h;
    ok(txn, lladd_heap_create_open(txn, &s->root, &h));
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        fill(record, sizeof record, i);
        ok(txn, lladd_heap_insert(txn, h, record, sizeof record, &s->rid[i]));
    }
    lladd_heap_close(h);
}

static int read_heap(struct structure *s)
{
    unsigned char record[100];
    struct lladd_heap *h;
    size_t len;
    int rc = lladd_heap_open(s->fixture.db, s->root, &h, &s->fixture.err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < ELEMENTS && !rc; i++)
        rc = lladd_heap_get(h, s->rid[i], record, sizeof record, &len, &s->fixture.err);
    struct lladd_heap_cursor c;
    struct lladd_rid rid;
    struct lladd_record r;
    int walked = 0;
    lladd_heap_cursor_open(h, &c);
    while (!walked)
        walked = lladd_heap_cursor_next(&c, &rid, &r, &s->fixture.err);
    lladd_heap_cursor_close(&c);
    lladd_heap_close(h);
    ck_assert_int_eq(walked, rc ? rc : LLADD_END);
    return rc;
}

static int change_heap(struct structure *s, struct lladd_txn *txn)
{
    struct lladd_heap *h;
    int rc = lladd_heap_open(s->fixture.db, s->root, &h, &s->fixture.err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < ELEMENTS && !rc; i++)
        rc = lladd_heap_set(txn, h, s->rid[i], "other", 5);
    lladd_heap_close(h);
    return rc;
}

static void make_list(struct structure *s, struct lladd_txn *txn)
{
    unsigned char item[100];
    struct lladd_item at;
    struct lladd_list *l;
    ok(txn, lladd_list_create(txn, &s->root));
    ok_db(&s->fixture, lladd_list_open(s->fixture.db, s->root, &l, &s->fixture.err));
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        fill(item, sizeof item, i);
        ok(txn, lladd_list_append(txn, l, item, sizeof item, &at));
    }
    lladd_list_close(l);
}

static int read_list(struct structure *s)
{
    struct lladd_list *l;
    uint64_t n;
    int rc = lladd_list_open(s->fixture.db, s->root, &l, &s->fixture.err);
    if (rc)
        return rc;
    rc = lladd_list_check(l, &s->fixture.err);
    int counted = lladd_list_count(l, &n, &s->fixture.err); /* reads the pages that have items */
    ck_assert(counted == 0 || counted == rc);
    lladd_list_close(l);
    return rc;
}

static int change_list(struct structure *s, struct lladd_txn *txn)
{
    struct lladd_list *l;
    struct lladd_item at = LLADD_ITEM_NONE;
    int rc = lladd_list_open(s->fixture.db, s->root, &l, &s->fixture.err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < ELEMENTS && !rc; i++) {
        rc = lladd_list_next(l, at, &at, NULL, 0, NULL, &s->fixture.err);
        if (!rc)
            rc = lladd_list_write(txn, l, at, 0, "other", 5);
    }
    lladd_list_close(l);
    return rc;
}

/* ---- pages of records ------------------------------------------------------------------------ */

static void make_slotted(struct structure *s, struct lladd_txn *txn)
{
    unsigned char record[100];
    ok(txn, lladd_page_alloc(txn, &s->root));
    ok(txn, lladd_slotted_format(txn, s->root, 7));
    for (uint32_t i = 0; i < RECORDS; i++) {
        fill(record, sizeof record, i);
        ok(txn, lladd_slotted_alloc(txn, s->root, record, sizeof record, 0, &s->rid[i]));
    }
}

static int read_slotted(struct structure *s)
{
    unsigned char record[100];
    size_t len;
    int rc = 0;
    for (uint32_t i = 0; i < RECORDS && !rc; i++)
        rc = lladd_slotted_read(s->fixture.db, s->rid[i], record, sizeof record, &len, NULL,
                                &s->fixture.err);
    return rc;
}

/* Asserts that all these calls return the same result. */
static int change_slotted(struct structure *s, struct lladd_txn *txn)
{
    struct lladd_rid rid = s->rid[1];
    int rc = lladd_slotted_set(txn, rid, "other", 5, 1);
    ck_assert_int_eq(lladd_slotted_write(txn, rid, 0, "x", 1), rc);
    ck_assert_int_eq(lladd_slotted_resize(txn, rid, 50), rc);
    ck_assert_int_eq(lladd_slotted_add(txn, rid, 8, 1), rc);
    ck_assert_int_eq(lladd_slotted_free(txn, rid), rc);
    ck_assert_int_eq(lladd_slotted_alloc(txn, s->root, "new", 3, 0, &rid), rc);
    return rc;
}

static void make_fixed(struct structure *s, struct lladd_txn *txn)
{
    unsigned char record[40];
    ok(txn, lladd_page_alloc(txn, &s->root));
    ok(txn, lladd_fixed_format(txn, s->root, sizeof record));
    for (uint32_t i = 0; i < RECORDS; i++) {
        fill(record, sizeof record, i);
        ok(txn, lladd_fixed_alloc(txn, s->root, record, &s->rid[i]));
    }
}

static int read_fixed(struct structure *s)
{
    unsigned char record[40];
    int rc = 0;
    for (uint32_t i = 0; i < RECORDS && !rc; i++)
        rc = lladd_fixed_read(s->fixture.db, s->rid[i], record, sizeof record, &s->fixture.err);
    return rc;
}

static int change_fixed(struct structure *s, struct lladd_txn *txn)
{
    struct lladd_rid rid = s->rid[1];
    int rc = lladd_fixed_set(txn, rid, 0, "other", 5);
    ck_assert_int_eq(lladd_fixed_add(txn, rid, 8, 1), rc);
    ck_assert_int_eq(lladd_fixed_free(txn, rid), rc);
    ck_assert_int_eq(lladd_fixed_alloc(txn, s->root, NULL, &rid), rc);
    return rc;
}

/* ---- the catalogues of regions and of the journal -------------------------------------------- */

static void make_regions(struct structure *s, struct lladd_txn *txn)
{
    for (uint32_t i = 0; i < REGIONS; i++)
        ok(txn, lladd_region_create(txn, 1, LLADD_EXTENT_RAW, i, &s->rid[i].page));
}

static int see_region(void *ctx, const struct lladd_region *region)
{
    (void)region;
    ++*(uint32_t *)ctx;
    return 0;
}

static int read_regions(struct structure *s)
{
    struct lladd_region region;
    uint32_t n = 0;
    int rc = 0;
    for (uint32_t i = 0; i < REGIONS && !rc; i++)
        rc = lladd_region_get(s->fixture.db, s->rid[i].page, &region, &s->fixture.err);
    int each = lladd_region_each(s->fixture.db, see_region, &n, &s->fixture.err);
    ck_assert_int_eq(each, rc);
    return rc;
}

static int change_regions(struct structure *s, struct lladd_txn *txn)
{
    lladd_pageno first;
    int rc = 0;
    for (uint32_t i = 0; i < REGIONS && !rc; i++)
        rc = lladd_region_destroy(txn, s->rid[i].page);
    for (uint32_t i = 0; i < REGIONS && !rc; i++)
        rc = lladd_region_create(txn, 1, LLADD_EXTENT_RAW, i, &first);
    return rc;
}

static const char *name_of(uint32_t i, char name[32])
{
    (void)snprintf(name, 32, "a rather long name %u", i);
    return name;
}

static void make_journal(struct structure *s, struct lladd_txn *txn)
{
    char name[32];
    uint64_t tag;
    (void)s;
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        ok(txn, lladd_journal_acquire(txn, name_of(i, name), "test", &tag));
        if (i % 100 == 0)
            ok(txn, lladd_journal_append(txn, tag, lladd_span_of("entry", 5), NULL));
    }
}

/* lladd_open reads the catalogue of tags, so it may have reported the damage already. */
static int read_journal(struct structure *s)
{
    char name[32];
    uint64_t tag;
    int rc = 0;
    for (uint32_t i = 0; i < ELEMENTS && !rc; i++)
        rc = lladd_journal_find(s->fixture.db, name_of(i, name), &tag, &s->fixture.err);
    return rc;
}

static int change_journal(struct structure *s, struct lladd_txn *txn)
{
    char name[32];
    uint64_t tag;
    int rc = 0;
    for (uint32_t i = 0; i < ELEMENTS && !rc; i++) {
        rc = lladd_journal_find(s->fixture.db, name_of(i, name), &tag, lladd_txn_error_out(txn));
        if (!rc)
            rc = lladd_journal_release(txn, tag);
    }
    return rc;
}

/* ---- arrays, blobs, names, pages of bytes ---------------------------------------------------- */

static void make_array(struct structure *s, struct lladd_txn *txn)
{
    struct lladd_array *a;
    uint64_t element = 7;
    ok(txn, lladd_array_create(txn, sizeof element, 9 * ELEMENTS, &s->root));
    ok_db(&s->fixture, lladd_array_open(s->fixture.db, s->root, &a, &s->fixture.err));
    for (uint64_t i = 0; i < 9 * ELEMENTS; i++)
        ok(txn, lladd_array_set(txn, a, i, &element));
    lladd_array_close(a);
}

static int read_array(struct structure *s)
{
    struct lladd_array *a;
    uint64_t element;
    int rc = lladd_array_open(s->fixture.db, s->root, &a, &s->fixture.err);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < 9 * ELEMENTS && !rc; i++)
        rc = lladd_array_get(a, i, &element, &s->fixture.err);
    ck_assert_int_eq(lladd_array_check(a, &s->fixture.err), rc);
    lladd_array_close(a);
    return rc;
}

static int change_array(struct structure *s, struct lladd_txn *txn)
{
    struct lladd_array *a;
    uint64_t element = 9;
    int rc = lladd_array_open(s->fixture.db, s->root, &a, &s->fixture.err);
    if (rc)
        return rc;
    for (uint64_t i = 0; i < 9 * ELEMENTS && !rc; i++)
        rc = lladd_array_set(txn, a, i, &element);
    lladd_array_close(a);
    return rc;
}

static void make_blob(struct structure *s, struct lladd_txn *txn)
{
    unsigned char *bytes = malloc(BLOB);
    ck_assert_ptr_nonnull(bytes);
    fill(bytes, BLOB, 5);
    ok(txn, lladd_blob_create(txn, bytes, BLOB, &s->root));
    free(bytes);
}

static int read_blob(struct structure *s)
{
    unsigned char *bytes = malloc(BLOB);
    ck_assert_ptr_nonnull(bytes);
    int rc = lladd_blob_read(s->fixture.db, s->root, 0, bytes, BLOB, NULL, &s->fixture.err);
    free(bytes);
    ck_assert_int_eq(lladd_blob_check(s->fixture.db, s->root, &s->fixture.err), rc);
    return rc;
}

static int change_blob(struct structure *s, struct lladd_txn *txn)
{
    int rc = 0;
    for (uint64_t at = 0; at < BLOB && !rc; at += 1000)
        rc = lladd_blob_write(txn, s->root, at, "other", 5);
    return rc;
}

static void make_names(struct structure *s, struct lladd_txn *txn)
{
    char name[32];
    (void)s;
    for (uint32_t i = 0; i < ELEMENTS; i++)
        ok(txn, lladd_root_set(txn, name_of(i, name), (struct lladd_root_value){i, 0}));
}

static int read_names(struct structure *s)
{
    struct lladd_root_value v;
    char name[32];
    int rc = 0;
    for (uint32_t i = 0; i < ELEMENTS && !rc; i++)
        rc = lladd_root_get(s->fixture.db, name_of(i, name), &v, &s->fixture.err);
    return rc;
}

static int change_names(struct structure *s, struct lladd_txn *txn)
{
    char name[32];
    int rc = 0;
    (void)s;
    for (uint32_t i = 0; i < ELEMENTS && !rc; i++)
        rc = lladd_root_set(txn, name_of(i, name), (struct lladd_root_value){i, 1});
    return rc;
}

static void make_bytes(struct structure *s, struct lladd_txn *txn)
{
    ok(txn, lladd_page_alloc(txn, &s->root));
    ok(txn, lladd_bytes_format(txn, s->root));
}

static int read_bytes(struct structure *s)
{
    unsigned char byte;
    return lladd_bytes_get(s->fixture.db, s->root, 0, &byte, 1, &s->fixture.err);
}

static int change_bytes(struct structure *s, struct lladd_txn *txn)
{
    return lladd_bytes_set(txn, s->root, 0, "x", 1);
}

static int read_counter(struct structure *s)
{
    int64_t value;
    return lladd_counter_get(s->fixture.db, s->root, 8, &value, &s->fixture.err);
}

static int change_counter(struct structure *s, struct lladd_txn *txn)
{
    return lladd_counter_add(txn, s->root, 8, 1);
}

static const struct kind kinds[] = {
    {"slotted records", make_slotted, read_slotted, change_slotted},
    {"fixed records", make_fixed, read_fixed, change_fixed},
    {"regions", make_regions, read_regions, change_regions},
    {"journal", make_journal, read_journal, change_journal},
    {"counter", make_bytes, read_counter, change_counter},
    {"hash table, fixed", make_fixed_hash, read_hash, change_hash},
    {"hash table", make_var_hash, read_hash, change_hash},
    {"heap", make_heap, read_heap, change_heap},
    {"list", make_list, read_list, change_list},
    {"array", make_array, read_array, change_array},
    {"blob", make_blob, read_blob, change_blob},
    {"names", make_names, read_names, change_names},
    {"bytes", make_bytes, read_bytes, change_bytes},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- the test -------------------------------------------------------------------------------- */

static void begin(struct structure *s, const struct kind *k)
{
    memset(s, 0, sizeof *s);
    fixture_init(&s->fixture, 4096);
    ok_db(&s->fixture, lladd_journal_register(&s->fixture.options, &s->fixture.err));
    fixture_open(&s->fixture);
    struct lladd_txn *txn = fixture_begin(&s->fixture);
    k->make(s, txn);
    commit(txn);
}

static void end(struct structure *s)
{
    if (s->fixture.db)
        lladd_db_kill(s->fixture.db);
    s->fixture.db = NULL;
    fixture_free(&s->fixture);
}

/* Closes the database, and fills a page of its file with zeros. */
static void zero(struct structure *s, uint64_t page)
{
    static const unsigned char zeros[4096];
    struct lladd_device *dev = s->fixture.base;
    struct lladd_file *file;
    fixture_close(&s->fixture);
    ck_assert_int_eq(dev->ops->open(dev, "pages", 0, &file), 0);
    const struct lladd_iovec bytes = {zeros, sizeof zeros};
    ck_assert_int_eq(dev->ops->pwritev(dev, file, &bytes, 1, page * sizeof zeros), 0);
    ck_assert_int_eq(dev->ops->close(dev, file), 0);
}

/* Returns true if the page is in use and was formatted. */
static bool counts(struct structure *s, uint64_t page)
{
    enum lladd_page_use use;
    struct lladd_page *p;
    ok_db(&s->fixture,
          lladd_page_use_get(s->fixture.db, lladd_page_of(page), &use, &s->fixture.err));
    if (use != LLADD_USE_PAGED)
        return false;
    ok_db(&s->fixture, lladd_page_fix(s->fixture.db, lladd_page_of(page), LLADD_LATCH_SHARED, &p,
                                      &s->fixture.err));
    bool formatted = lladd_page_view(p).type != 0;
    lladd_page_unfix(s->fixture.db, p, LLADD_LATCH_SHARED);
    return formatted;
}

static void is_damage(const struct kind *k, const char *call, uint64_t page, int rc,
                      const struct lladd_error *err)
{
    ck_assert_msg(rc == LLADD_CORRUPT_PAGE, "%s: %s with zeros in page %llu: %s: %s", k->name, call,
                  (unsigned long long)page, lladd_code_name(rc), err->message);
}

/* Opens the database and uses the structure. */
static void use(struct structure *s, const struct kind *k, uint64_t page)
{
    int rc = fixture_try_open(&s->fixture);
    if (rc) {
        is_damage(k, "opening", page, rc, &s->fixture.err);
        return;
    }
    is_damage(k, "reading", page, k->read(s), &s->fixture.err);
    struct lladd_txn *txn = fixture_begin(&s->fixture);
    rc = k->change(s, txn);
    if (rc) /* not every change needs every page */
        is_damage(k, "changing", page, rc, lladd_txn_error(txn));
}

START_TEST(zeros_in_use_are_damage)
{
    const struct kind *k = &kinds[_i];
    struct structure s;
    unsigned found = 0;
    uint64_t page = 2; /* pages 0 and 1: the root page and the first allocation bitmap */
    for (bool more = true; more; page++) {
        begin(&s, k);
        more = page + 1 < lladd_page_count(s.fixture.db);
        if (page < lladd_page_count(s.fixture.db) && counts(&s, page)) {
            zero(&s, page);
            use(&s, k, page);
            found++;
        }
        end(&s);
    }
    ck_assert_uint_ge(found, 1);
}
END_TEST

/* A free page belongs to no structure, so zeros are valid there. A caller that still uses the page
 * gets LLADD_WRONG_TYPE, not LLADD_CORRUPT_PAGE. */
START_TEST(zeros_in_a_free_page_are_no_damage)
{
    struct structure s;
    unsigned char byte;
    begin(&s, &kinds[KINDS - 1]);
    struct lladd_txn *txn = fixture_begin(&s.fixture);
    ok(txn, lladd_page_free(txn, s.root));
    commit(txn);
    lladd_pageno root = s.root;
    zero(&s, root.v);
    fixture_open(&s.fixture);
    ck_assert_int_eq(lladd_bytes_get(s.fixture.db, root, 0, &byte, 1, &s.fixture.err),
                     LLADD_WRONG_TYPE);
    end(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("zeroed");
    TCase *tc = tcase_create("zeroed");
    tcase_add_loop_test(tc, zeros_in_use_are_damage, 0, KINDS);
    tcase_add_test(tc, zeros_in_a_free_page_are_no_damage);
    suite_add_tcase(suite, tc);
    return fixture_run(suite);
}
