/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stores with a filter: everything that is stored passes through it, and comes back. Another key,
 * another filter, and none are told from damage.
 */
#include "contract.h"
#include "filters.h"
#include "ledger.h"
#include "page_rig.h"

#include "support/fixtures.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/sync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct ll_ship_mem mem;
static struct test_filter filter;

static void use(enum filter_kind kind)
{
    test_filter_init(&filter, kind, 1);
    used = test_filter_over(&store.base, &filter);
}

static void unuse(void)
{
    lladd_store_close(used);
    used = NULL;
}

/* ---- calls on a store with a closed database ------------------------------------------------- */

static int see_backup(void *ctx, const struct lladd_backup_info *info)
{
    (void)ctx, (void)info;
    return 0;
}

static int call_each(struct lladd_store *s)
{
    return lladd_backup_each(s, NULL, see_backup, NULL, &err);
}

static int see_item(void *ctx, const struct lladd_archive_item *item)
{
    (void)ctx, (void)item;
    return 0;
}

static int call_list(struct lladd_store *s)
{
    return lladd_archive_each(s, NULL, see_item, NULL, &err);
}

static int call_backup(struct lladd_store *s)
{
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    int rc = lladd_backup(shop.db, s, NULL, NULL, &err);
    shop_close(&shop);
    return rc;
}

static int call_step(struct lladd_store *s)
{
    struct lladd_store *before = used;
    bool more = true;
    int rc = 0;
    used = s;
    open_shop(disk, false);
    used = before;
    work(1);
    while (!rc && more)
        rc = lladd_archive_step(archive, &more, &err);
    close_shop(false);
    return rc;
}

static int call_push(struct lladd_store *s)
{
    return lladd_archive_push(disk, s, NULL, NULL, &err);
}

static int call_adopt(struct lladd_store *s)
{
    return lladd_archive_adopt(disk, s, NULL, NULL, &err);
}

static int restored_to(struct lladd_store *s, enum lladd_target_kind kind, const char *mark)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    t.kind = kind;
    t.mark = mark;
    o.target = &t;
    return lladd_restore(s, &o, copy, NULL, &err);
}

static int call_restore(struct lladd_store *s)
{
    return restored_to(s, LLADD_TO_END, NULL);
}

static int call_check(struct lladd_store *s)
{
    return lladd_archive_check(s, NULL, NULL, &err);
}

static int call_expire(struct lladd_store *s)
{
    struct lladd_keep keep = LLADD_KEEP_INIT;
    keep.backups = 1;
    return lladd_archive_expire(s, &keep, NULL, NULL, NULL, &err);
}

static int call_roll(struct lladd_store *s)
{
    return lladd_archive_roll(s, NULL, NULL, &err);
}

static int call_verify(struct lladd_store *s)
{
    struct lladd_device *overlay;
    struct shop peek;
    ck_assert_int_eq(lladd_device_overlay(disk, &overlay), 0);
    shop_open_as(&peek, overlay, LLADD_OPT_NO_THREADS, NULL, LLADD_RECOVER_INSTANT);
    int rc = lladd_archive_verify(peek.db, disk, s, NULL, NULL, &err);
    shop_kill(&peek);
    lladd_device_close(overlay);
    return rc;
}

static const struct {
    const char *name;
    int (*fn)(struct lladd_store *);
} calls[] = {{"each", call_each},       {"list", call_list},     {"backup", call_backup},
             {"step", call_step},       {"push", call_push},     {"adopt", call_adopt},
             {"restore", call_restore}, {"check", call_check},   {"expire", call_expire},
             {"roll", call_roll},       {"verify", call_verify}};
enum { CALLS = sizeof calls / sizeof calls[0] };

/* A backup, a mark, segments, pieces and spools; the database is closed. */
static void make_store(void)
{
    open_with_pages();
    OK(lladd_archive_mark(archive, "evening", NULL, &err));
    shop_check(&shop, 0, gens);
    work(2);
    store_log();
    close_shop(false);
    ck_assert_ptr_nonnull(memory_store_find(&store, ".part"));
    ck_assert_ptr_nonnull(memory_store_find(&store, ".seg"));
    ck_assert_ptr_nonnull(memory_store_find(&store, ".blk"));
}

/* ---- the contract --------------------------------------------------------------------------- */

static void open_dir(char **dir, enum filter_kind kind)
{
    struct lladd_store_options o = LLADD_STORE_OPTIONS_INIT;
    char url[300];
    *dir = temp_dir_new();
    (void)snprintf(url, sizeof url, "dir:%s/store", *dir);
    test_filter_init(&filter, kind, 1);
    o.filter = &filter.filter;
    OK(lladd_store_open(url, &o, &used, &err));
}

static void close_dir(char *dir)
{
    unuse();
    temp_dir_remove(dir);
}

static void sizes(struct lladd_store *s)
{
    contract_sizes(s, 2500000);
}

START_TEST(a_filtered_store_keeps_the_contract)
{
    static void (*const contracts[])(struct lladd_store *) = {contract_objects, sizes,
                                                              contract_sequence,
                                                              contract_taken_names};
    for (size_t i = 0; i < sizeof contracts / sizeof contracts[0]; i++) {
        char *dir;
        open_dir(&dir, (enum filter_kind)_i);
        contracts[i](used);
        close_dir(dir);
    }
}
END_TEST

/* A part of an object is read without the rest; one block at a time is in memory. */
START_TEST(parts_of_an_object_are_read)
{
    enum { SIZE = 5 * LLADD_FILTER_BLOCK + 100, STEP = 50000 };
    unsigned char *bytes = malloc(SIZE), *back = malloc(STEP);
    struct lladd_iovec piece = {bytes, SIZE};
    uint64_t size = 0, stored = 0;
    ck_assert(bytes && back);
    seeded_fill(3, bytes, SIZE / 2);
    memset(bytes + SIZE / 2, 0, SIZE - SIZE / 2);
    use((enum filter_kind)_i);
    OK(used->ops->put(used, "base/x/pages.0", &piece, 1, &err));
    ck_assert_uint_eq(filter.outs, 6);
    for (size_t at = 0, n; at < SIZE; at += n) {
        n = SIZE - at < STEP ? SIZE - at : STEP;
        OK(used->ops->get(used, "base/x/pages.0", at, back, n, &err));
        ck_assert_mem_eq(back, bytes + at, n);
    }
    ck_assert_uint_eq(filter.ins, 6);
    OK(used->ops->get(used, "base/x/pages.0", 3 * LLADD_FILTER_BLOCK - 7, back, 14, &err));
    ck_assert_mem_eq(back, bytes + 3 * LLADD_FILTER_BLOCK - 7, 14);
    ck_assert_uint_eq(filter.ins, 8);
    ck_assert_int_eq(used->ops->get(used, "base/x/pages.0", SIZE - 3, back, 4, &err),
                     LLADD_CORRUPT_BACKUP);
    OK(ll_ship_size(used, "base/x/pages.0", &size, &err));
    OK(ll_ship_stored_size(used, "base/x/pages.0", &stored, &err));
    ck_assert_uint_eq(size, SIZE);
    ck_assert_uint_eq(stored, store.objects[0].len);
    if (_i == FILTER_SQUEEZE)
        ck_assert_uint_lt(stored, SIZE * 2 / 3);
    else
        ck_assert_uint_gt(stored, SIZE);
    ck_assert_int_eq(ll_ship_size(used, "base/y", &size, &err), LLADD_NOT_FOUND);
    unuse();
    free(bytes);
    free(back);
}
END_TEST

/* ---- everything through a filter ------------------------------------------------------------ */

static void expect_whole(void)
{
    struct lladd_check_info info = {.struct_size = sizeof info};
    OK(lladd_archive_check(used, NULL, &info, &err));
    ck_assert_uint_eq(info.damage + info.repair, 0);
    ck_assert_uint_gt(info.restored.v, info.end.v - 1);
}

static void expect_copy(const uint64_t want[SHOP_WORKERS])
{
    struct shop opened;
    uint64_t got[SHOP_WORKERS];
    shop_open(&opened, copy, LLADD_OPT_MUST_EXIST | LLADD_OPT_NO_THREADS);
    shop_check(&opened, 0, got);
    ck_assert_mem_eq(got, want, sizeof got);
    shop_close(&opened);
    shop_verify(copy);
}

START_TEST(everything_passes_through_a_filter)
{
    struct lladd_keep keep = LLADD_KEEP_INIT;
    struct lladd_expire_info expired = {.struct_size = sizeof expired};
    struct lladd_scrub_info scrubbed = {.struct_size = sizeof scrubbed};
    uint64_t evening[SHOP_WORKERS];
    use((enum filter_kind)_i);
    make_store();
    memcpy(evening, gens, sizeof evening);
    for (size_t i = 0; i < store.n; i++) {
        ck_assert_mem_eq(store.objects[i].bytes, "LLFILT1", 8);
        ck_assert_str_eq((char *)store.objects[i].bytes + 8, filter.filter.name);
    }
    /* Pages come from the archive. */
    damage_all(disk);
    open_shop(disk, false);
    shop_check(&shop, 0, gens);
    ck_assert_uint_gt(status().pages_given, 20);
    OK(lladd_scrub(archive, NULL, &scrubbed, &err));
    ck_assert(scrubbed.compared);
    ck_assert_uint_eq(scrubbed.damaged + scrubbed.lost, 0);
    work(3);
    shop_check(&shop, 0, gens);
    close_shop(true);
    OK(call_push(used));
    OK(call_list(used));
    OK(call_verify(used));
    expect_whole();
    OK(restored_to(used, LLADD_TO_MARK, "evening"));
    expect_copy(evening);
    OK(call_restore(used));
    expect_copy(gens);
    /* A roll, and an expiry of what lies below. */
    OK(call_roll(used));
    expect_whole();
    keep.backups = 1;
    OK(lladd_archive_expire(used, &keep, NULL, NULL, &expired, &err));
    ck_assert_uint_eq(expired.expired, 1);
    ck_assert_uint_gt(expired.objects, 6);
    expect_whole();
    OK(call_restore(used));
    expect_copy(gens);
    /* A copy takes the archive over. */
    ck_assert_int_eq(disk->ops->unlink(disk, "files/ship/claim"), 0);
    OK(call_adopt(used));
    OK(call_step(used));
    OK(call_backup(used));
    expect_whole();
    unuse();
}
END_TEST

/* An encrypting filter makes other bytes each time. What was stored, and only the reply was lost,
 * is known again. */
START_TEST(a_lost_reply_is_known_again)
{
    struct lladd_iovec same = {"mine", 4}, other = {"your", 4};
    use(FILTER_SEAL);
    OK(ll_ship_put(used, mem, "archive", &same, 1, &err));
    uint64_t outs = filter.outs;
    OK(ll_ship_put(used, mem, "archive", &same, 1, &err));
    ck_assert_uint_eq(filter.outs, outs + 1);
    ck_assert_int_eq(ll_ship_put(used, mem, "archive", &other, 1, &err), LLADD_EXISTS);
    memory_store_drop(&store, &store.objects[0]);
    open_shop(disk, false);
    work(2);
    OK(lladd_backup(shop.db, archive->store, NULL, NULL, &err));
    store.lost = true;
    for (uint64_t n = 1; n < 60; n++) {
        bool more = true;
        work(n % 4 == 0);
        store.fail_at = store.calls + n % 9 + 1;
        store.fired = 0;
        int rc = lladd_archive_step(archive, &more, &err);
        store.fail_at = 0;
        ck_assert_int_eq(rc, store.fired ? LLADD_STORE_FAILED : 0);
    }
    store_log();
    ck_assert(!status().diverged);
    close_shop(false);
    expect_whole();
    unuse();
}
END_TEST

/* ---- another filter ------------------------------------------------------------------------- */

/* The store's objects, to see that a call changes nothing. */
static uint64_t sum_of_store(void)
{
    uint64_t sum = store.n;
    for (size_t i = 0; i < store.n; i++)
        sum += lladd_crc32c(lladd_crc32c(0, store.objects[i].name, strlen(store.objects[i].name)),
                            store.objects[i].bytes, store.objects[i].len);
    return sum;
}

static void expect_refused(struct lladd_store *s, const char *what)
{
    uint64_t sum = sum_of_store();
    for (size_t i = 0; i < CALLS; i++) {
        err = (struct lladd_error)LLADD_ERROR_INIT;
        int rc = calls[i].fn(s);
        ck_assert_msg(rc == LLADD_OTHER_FILTER, "%s: %d, %s", calls[i].name, rc, err.message);
        ck_assert_msg(strstr(err.message, what) != NULL, "%s: %s", calls[i].name, err.message);
        ck_assert_uint_eq(sum_of_store(), sum);
    }
    OK(restored_to(used, LLADD_TO_MARK, "evening"));
}

START_TEST(another_filter_is_no_damage)
{
    struct test_filter other;
    struct lladd_store *wrong;
    use(FILTER_SEAL);
    make_store();
    expect_refused(&store.base, "the store was opened without a filter");
    test_filter_init(&other, FILTER_SQUEEZE, 1);
    wrong = test_filter_over(&store.base, &other);
    expect_refused(wrong, "the store was opened with the filter \"squeeze\"");
    lladd_store_close(wrong);
    test_filter_init(&other, FILTER_SEAL, 2);
    wrong = test_filter_over(&store.base, &other);
    expect_refused(wrong, "the filter \"seal\" has refused it: the tag is wrong");
    lladd_store_close(wrong);
    unuse();
}
END_TEST

/* The filter does not notice that it has another key; the checksum does. */
START_TEST(a_key_that_the_filter_does_not_notice)
{
    struct test_filter other;
    use(FILTER_BLIND);
    make_store();
    test_filter_init(&other, FILTER_BLIND, 2);
    struct lladd_store *wrong = test_filter_over(&store.base, &other);
    expect_refused(wrong, "was it stored with another key?");
    lladd_store_close(wrong);
    unuse();
}
END_TEST

START_TEST(a_store_without_a_filter_is_no_damage)
{
    struct test_filter other;
    make_store();
    test_filter_init(&other, FILTER_SQUEEZE, 1);
    struct lladd_store *wrong = test_filter_over(&store.base, &other);
    expect_refused(wrong, "was stored without a filter");
    lladd_store_close(wrong);
}
END_TEST

/* Replaces the bytes of an object by those that another filter makes of its contents; NULL: by its
 * contents. */
static void store_with(struct memory_object *o, struct test_filter *other)
{
    uint64_t size;
    OK(ll_ship_size(used, o->name, &size, &err));
    unsigned char *bytes = malloc(size + 1);
    struct lladd_iovec piece = {bytes, size};
    char name[200];
    ck_assert_ptr_nonnull(bytes);
    OK(used->ops->get(used, o->name, 0, bytes, size, &err));
    memcpy(name, o->name, sizeof name);
    memory_store_drop(&store, o);
    struct lladd_store *to = other ? test_filter_over(&store.base, other) : &store.base;
    OK(to->ops->put(to, name, &piece, 1, &err));
    lladd_store_close(to);
    free(bytes);
}

static const char *const kinds[] = {"archive",    "/manifest", "/begun", "/control",
                                    "/pages.0",   "/pages.idx", "/log.", ".seg",
                                    ".part",      ".idx",       ".blk",  "/mark/"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* One object was stored with another filter, or with none. */
START_TEST(mixed_filters_are_named)
{
    struct test_filter other;
    use(FILTER_SEAL);
    make_store();
    for (int i = 0; i < 2 * KINDS; i++) {
        char name[200];
        struct memory_object *o = last_object(kinds[i / 2]), had = *o;
        had.bytes = malloc(o->len);
        memcpy(had.bytes, o->bytes, o->len);
        memcpy(name, o->name, sizeof name);
        test_filter_init(&other, FILTER_SQUEEZE, 1);
        store_with(o, i % 2 ? &other : NULL);
        unuse();
        used = test_filter_over(&store.base, &filter);
        int rc = call_check(used);
        ck_assert_msg(rc == LLADD_OTHER_FILTER, "%s: %d, %s", name, rc, err.message);
        ck_assert_msg(strstr(err.message, name) != NULL, "%s: %s", name, err.message);
        free(last_object(name)->bytes);
        *last_object(name) = had;
        unuse();
        used = test_filter_over(&store.base, &filter);
    }
    expect_whole();
    unuse();
}
END_TEST

/* One object of a store without a filter was stored with one. Pages and pieces of the log may begin
 * with any bytes, so there it cannot be told from damage. */
START_TEST(an_object_with_a_filter_among_others)
{
    struct test_filter other;
    make_store();
    for (int i = 0; i < KINDS; i++) {
        char name[200];
        struct memory_object *o = last_object(kinds[i]), had = *o;
        struct lladd_check_info info = {.struct_size = sizeof info};
        had.bytes = malloc(o->len);
        memcpy(had.bytes, o->bytes, o->len);
        memcpy(name, o->name, sizeof name);
        test_filter_init(&other, FILTER_SEAL, 1);
        store_with(o, &other);
        int rc = lladd_archive_check(&store.base, NULL, &info, &err);
        if (strstr(name, "/pages.") || strstr(name, ".part"))
            ck_assert_msg(rc == 0 && info.damage > 0, "%s: %d, %s", name, rc, err.message);
        else
            ck_assert_msg(rc == LLADD_OTHER_FILTER && strstr(err.message, name), "%s: %d, %s",
                          name, rc, err.message);
        free(last_object(name)->bytes);
        *last_object(name) = had;
    }
    expect_whole();
}
END_TEST

/* Raw pages may begin with the bytes that an object with a filter begins with. */
START_TEST(contents_that_look_filtered)
{
    static const unsigned char looks[64] = "LLFILT1\0x";
    unsigned char back[64];
    struct lladd_iovec piece = {looks, sizeof looks};
    OK(ll_ship_put(&store.base, mem, "base/x/pages.1", &piece, 1, &err));
    OK(ll_ship_get(&store.base, "base/x/pages.1", 0, back, sizeof back, &err));
    OK(ll_ship_put(&store.base, mem, "base/x/log.0.0", &piece, 1, &err));
    OK(ll_ship_get(&store.base, "base/x/log.0.0", 0, back, sizeof back, &err)); /* the CRC */
    ck_assert_mem_eq(back, looks, sizeof back);
}
END_TEST

/* ---- damage --------------------------------------------------------------------------------- */

/* Every byte of an object that is stored, and every length: that is damage, and not another
 * filter. */
START_TEST(damage_is_no_other_filter)
{
    static unsigned char text[3000], back[3000];
    struct lladd_iovec piece = {text, sizeof text};
    seeded_fill(9, text, sizeof text / 2);
    use((enum filter_kind)_i);
    OK(used->ops->put(used, "archive", &piece, 1, &err));
    struct memory_object *o = &store.objects[0];
    for (size_t at = 0; at < o->len; at++) {
        struct lladd_store *again = test_filter_over(&store.base, &filter);
        o->bytes[at] ^= 0x10;
        ck_assert_int_eq(again->ops->get(again, "archive", 0, back, sizeof back, &err),
                         LLADD_CORRUPT_BACKUP);
        ck_assert_ptr_nonnull(strstr(err.message, "archive"));
        o->bytes[at] ^= 0x10;
        OK(again->ops->get(again, "archive", 0, back, sizeof back, &err));
        ck_assert_mem_eq(back, text, sizeof back);
        lladd_store_close(again);
    }
    size_t len = o->len;
    for (o->len = 0; o->len < len; o->len++) {
        struct lladd_store *again = test_filter_over(&store.base, &filter);
        ck_assert_int_eq(again->ops->get(again, "archive", 0, back, sizeof back, &err),
                         LLADD_CORRUPT_BACKUP);
        lladd_store_close(again);
    }
    unuse();
}
END_TEST

START_TEST(damage_of_each_object_is_found)
{
    use((enum filter_kind)_i);
    make_store();
    for (int i = 0; i < 3 * KINDS; i++) {
        struct memory_object *o = last_object(kinds[i / 3]);
        size_t at = i % 3 == 0 ? 44 : i % 3 == 1 ? 65 : o->len - 2;
        struct lladd_check_info info = {.struct_size = sizeof info};
        struct lladd_store *again = test_filter_over(&store.base, &filter);
        o->bytes[at] ^= 1;
        int rc = lladd_archive_check(again, NULL, &info, &err);
        ck_assert_msg(rc == 0, "%s, %zu: %d, %s", o->name, at, rc, err.message);
        ck_assert_msg(info.damage + info.repair + info.notes > 0, "%s, %zu", o->name, at);
        o->bytes[at] ^= 1;
        lladd_store_close(again);
    }
    expect_whole();
    /* An expiry does not need a damaged segment. */
    OK(call_roll(used));
    OK(call_backup(used));
    memory_store_find(&store, ".seg")->bytes[44] ^= 1;
    unuse();
    used = test_filter_over(&store.base, &filter);
    OK(call_expire(used));
    unuse();
}
END_TEST

/* ---- a filter that fails -------------------------------------------------------------------- */

/* The filter fails at each of its calls in each call on the store. The next call succeeds. A roll
 * reads pages one by one if it cannot read them together, and goes on if that succeeds. */
START_TEST(the_filter_fails_at_each_call)
{
    static const struct {
        int with, out, in;
    } codes[] = {{LLADD_NO_MEMORY, LLADD_NO_MEMORY, LLADD_NO_MEMORY},
                 {-1, LLADD_STORE_FAILED, LLADD_OTHER_FILTER},
                 {LLADD_CORRUPT_BACKUP, LLADD_STORE_FAILED, LLADD_OTHER_FILTER},
                 {LLADD_NOT_FOUND, LLADD_STORE_FAILED, LLADD_OTHER_FILTER}};
    use(FILTER_SQUEEZE);
    make_store();
    unsigned fired = 0;
    for (uint64_t n = 1, now = 1; now; n += 1 + n / 8, fired++) {
        int with = codes[n % 4].with;
        err = (struct lladd_error)LLADD_ERROR_INIT;
        unuse();
        used = test_filter_over(&store.base, &filter); /* with nothing in memory */
        filter.fail_at = filter.calls + n;
        filter.fail_with = with;
        filter.fail_text = n % 2 ? "told to fail" : NULL;
        filter.fired = 0;
        int rc = calls[_i].fn(used);
        now = filter.fired;
        filter.fail_at = 0;
        bool survived = rc == 0 && calls[_i].fn == call_roll;
        ck_assert_msg(now ? rc == codes[n % 4].out || rc == codes[n % 4].in || survived : rc == 0,
                      "%s, call %u: %d, %s", calls[_i].name, (unsigned)n, rc, err.message);
        if (survived)
            continue;
        if (now)
            ck_assert_msg(strstr(err.message, "the filter \"squeeze\" has refused it"), "%s: %s",
                          calls[_i].name, err.message);
        if (now && n % 2)
            ck_assert_msg(strstr(err.message, "told to fail"), "%s", err.message);
    }
    ck_assert_uint_gt(fired, 1);
    OK(calls[_i].fn(used));
    expect_whole();
    unuse();
}
END_TEST

static int make_too_much(void *ctx, const struct lladd_filter_block *b, const void *bytes,
                         size_t len, void *to, size_t room, size_t *made, struct lladd_error *e)
{
    (void)ctx, (void)b, (void)bytes, (void)to, (void)e;
    *made = room + len;
    return 0;
}

START_TEST(wrong_filters_are_refused)
{
    static const char *const names[] = {NULL, "", "two words", "12345678901234567890123456789012",
                                        "\x80"};
    struct lladd_store_options o = LLADD_STORE_OPTIONS_INIT;
    struct lladd_iovec piece = {"text", 4};
    char *dir = temp_dir_new(), url[300];
    (void)snprintf(url, sizeof url, "dir:%s/store", dir);
    test_filter_init(&filter, FILTER_SEAL, 1);
    o.filter = &filter.filter;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        filter.filter.name = names[i];
        ck_assert_int_eq(lladd_store_open(url, &o, &used, &err), LLADD_BAD_ARGUMENT);
    }
    filter.filter.name = "1234567890123456789012345678901";
    for (int i = 0; i < 2; i++) {
        struct lladd_store_filter had = filter.filter;
        *(i ? &filter.filter.in : &filter.filter.out) = NULL;
        ck_assert_int_eq(lladd_store_open(url, &o, &used, &err), LLADD_BAD_ARGUMENT);
        filter.filter = had;
    }
    ck_assert_int_eq(lladd_store_over(NULL, &filter.filter, NULL, &used, &err),
                     LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_store_over(&store.base, NULL, NULL, &used, &err), LLADD_BAD_ARGUMENT);
    filter.filter.out = make_too_much;
    OK(lladd_store_open(url, &o, &used, &err));
    ck_assert_int_eq(used->ops->put(used, "archive", &piece, 1, &err), LLADD_STORE_FAILED);
    ck_assert_ptr_nonnull(strstr(err.message, "too many bytes"));
    unuse();
    temp_dir_remove(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("filter");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, a_filtered_store_keeps_the_contract, 0, FILTER_KINDS);
    tcase_add_loop_test(tc, parts_of_an_object_are_read, 0, FILTER_KINDS);
    tcase_add_loop_test(tc, everything_passes_through_a_filter, 0, FILTER_KINDS);
    tcase_add_test(tc, a_lost_reply_is_known_again);
    tcase_add_test(tc, another_filter_is_no_damage);
    tcase_add_test(tc, a_key_that_the_filter_does_not_notice);
    tcase_add_test(tc, a_store_without_a_filter_is_no_damage);
    tcase_add_test(tc, mixed_filters_are_named);
    tcase_add_test(tc, an_object_with_a_filter_among_others);
    tcase_add_test(tc, contents_that_look_filtered);
    tcase_add_loop_test(tc, damage_is_no_other_filter, 0, FILTER_KINDS);
    tcase_add_loop_test(tc, damage_of_each_object_is_found, 0, FILTER_KINDS);
    tcase_add_loop_test(tc, the_filter_fails_at_each_call, 0, CALLS);
    tcase_add_test(tc, wrong_filters_are_refused);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
