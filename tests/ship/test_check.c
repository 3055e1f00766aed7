/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A check of a store: what is whole is restored in memory; each damaged and each missing object is
 * named, and the restore that needs the object is refused and names it, too.
 */
#include "page_rig.h"

#include <lladd/btree.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a check -------------------------------------------------------------------------------- */

static struct {
    unsigned n, damage;
    char object[4][200], message[4][300];
} found;

static int see(void *ctx, const struct lladd_finding *f)
{
    (void)ctx;
    if (found.n < 4) {
        (void)snprintf(found.object[found.n], sizeof found.object[0], "%s", f->file);
        (void)snprintf(found.message[found.n], sizeof found.message[0], "%s", f->message);
    }
    found.n++;
    found.damage += f->kind == LLADD_FINDING_DAMAGE;
    return 0;
}

static int try_check(const char *base, struct lladd_check_info *info)
{
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    *info = (struct lladd_check_info){.struct_size = sizeof *info};
    memset(&found, 0, sizeof found);
    o.base = base;
    o.finding = see;
    return lladd_archive_check(&store.base, &o, info, &err);
}

static struct lladd_check_info checked(const char *base)
{
    struct lladd_check_info info;
    OK(try_check(base, &info));
    ck_assert_uint_eq(info.damage + info.repair + info.notes, found.n);
    ck_assert_uint_eq(info.damage, found.damage);
    return info;
}

static struct lladd_check_info expect_whole(const char *base)
{
    struct lladd_check_info info = checked(base);
    ck_assert_msg(found.n == 0, "%s: %s", found.object[0], found.message[0]);
    ck_assert_uint_ge(info.restored.v, info.end.v);
    ck_assert_uint_gt(info.pages, 10);
    ck_assert_uint_gt(info.records, 10);
    return info;
}

/* Is the object among the findings? A record that begins in one object may be damaged in the next
 * one; then the message has both. */
static bool named(const char *object)
{
    for (unsigned i = 0; i < found.n && i < 4; i++)
        if (strcmp(found.object[i], object) == 0 || strstr(found.message[i], object))
            return true;
    return false;
}

static void expect_named(const char *object, const char *how)
{
    struct lladd_check_info info = checked(NULL);
    ck_assert_msg(named(object), "%s, %s: %u findings, the first: %s: %s", object, how, found.n,
                  found.n ? found.object[0] : "", found.n ? found.message[0] : "");
    ck_assert_uint_gt(info.damage + info.repair + info.notes, 0);
}

static void new_copy(void)
{
    lladd_device_close(copy);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
}

/* A restore to the end of the archived log, or to the mark. */
static int try_restore(const char *mark)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    t.kind = mark ? LLADD_TO_MARK : LLADD_TO_END;
    t.mark = mark;
    o.target = &t;
    new_copy();
    err.message[0] = 0;
    return lladd_restore(&store.base, &o, copy, NULL, &err);
}

/* ---- stores --------------------------------------------------------------------------------- */

/* A backup, a mark, and archived log above them: closed segments, spools, and pieces. */
static void make_store(void)
{
    open_shop(disk, false);
    store_log();
    work(4);
    backed_up();
    work(4);
    store_log();
    OK(lladd_archive_mark(archive, "evening", NULL, &err));
    for (unsigned i = 0; i < 3; i++) {
        work(3);
        store_log();
    }
    shop_prepare(&shop, 100);
    store_log();
    close_shop(true);
    ck_assert_ptr_nonnull(memory_store_find(&store, ".part"));
    ck_assert_ptr_nonnull(memory_store_find(&store, ".blk"));
    ck_assert_ptr_nonnull(memory_store_find(&store, ".idx"));
}

static bool is(const struct memory_object *o, const char *part)
{
    return strstr(o->name, part) != NULL;
}

static uint64_t lsn_in(const char *name)
{
    return strtoull(strrchr(name, '/') + 1, NULL, 16);
}

/* Does a restore of the only backup need the object? Log below the end of the backup is in the
 * backup, too. */
static bool needed(const struct memory_object *o, uint64_t end)
{
    if (is(o, "/claim") || is(o, "/history"))
        return false;
    if (!is(o, "/log/") && !is(o, "/idx/") && !is(o, "/bulk/"))
        return true;
    if (is(o, "/bulk/"))
        return lsn_in(o->name) >= end;
    for (size_t i = 0; i < store.n; i++)
        if (is(&store.objects[i], "/log/") && lsn_in(store.objects[i].name) > lsn_in(o->name) &&
            lsn_in(store.objects[i].name) <= end)
            return false;
    return true;
}

/* The bytes after the end of the log in a segment have no meaning. */
static size_t length_of(const struct memory_object *o)
{
    size_t len = o->len;
    while (is(o, ".seg") && len > 64 && o->bytes[len - 1] == 0)
        len--;
    return len;
}

/* ---- whole ---------------------------------------------------------------------------------- */

static int look(void *ctx, struct lladd_db *db)
{
    struct shop opened = {.db = db};
    struct lladd_root_value root;
    unsigned *looked = ctx;
    OK(lladd_root_get(db, "table", &root, &err));
    OK(lladd_hash_open(db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &opened.table, &err));
    OK(lladd_root_get(db, "tree", &root, &err));
    OK(lladd_btree_open(db, lladd_page_of(root.a), &opened.tree, &err));
    shop_check(&opened, 1, gens);
    lladd_hash_close(opened.table);
    lladd_btree_close(opened.tree);
    ++*looked;
    return 0;
}

START_TEST(a_whole_store_is_restored_in_memory)
{
    unsigned looked = 0;
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    struct lladd_check_info info = {.struct_size = sizeof info};
    make_store();
    size_t n = store.n;
    info = expect_whole(NULL);
    ck_assert_uint_gt(info.restored.v, info.end.v);
    char name[64];
    memcpy(name, info.name, sizeof name);
    ck_assert_uint_eq(expect_whole(name).restored.v, info.restored.v);
    /* The restored database has all that the archive has. What it writes goes to files. */
    o.opened = look;
    o.opened_ctx = &looked;
    o.memory_bytes = 4096;
    o.spill_dir = "/tmp";
    OK(lladd_archive_check(&store.base, &o, &info, &err));
    ck_assert_uint_eq(looked, 1);
    ck_assert_uint_eq(gens[0], 5);
    ck_assert_uint_eq(store.n, n); /* nothing was written */
    OK(try_restore(NULL));
}
END_TEST

START_TEST(a_backup_without_an_archive_is_checked)
{
    shop_open(&shop, disk, LLADD_OPT_NO_THREADS);
    work(3);
    struct lladd_backup_info first = {.struct_size = sizeof first};
    OK(lladd_backup(shop.db, &store.base, NULL, &first, &err));
    work(3);
    struct lladd_backup_info second = {.struct_size = sizeof second};
    OK(lladd_backup(shop.db, &store.base, NULL, &second, &err));
    shop_close(&shop);
    struct lladd_check_info info = expect_whole(NULL);
    ck_assert_str_eq(info.name, second.name);
    ck_assert_uint_eq(info.restored.v, second.end.v);
    info = expect_whole(first.name);
    ck_assert_str_eq(info.name, first.name);
    ck_assert_uint_eq(info.restored.v, first.end.v);
}
END_TEST

/* ---- damaged -------------------------------------------------------------------------------- */

/* The object is damaged or missing. The restore that needs it names it. `unread`: the restore needs
 * the object, and not this byte. */
static void expect_refused(const char *name, const char *how, bool unread)
{
    size_t n = store.n;
    int rc = try_restore(strstr(name, "/mark/") ? "evening" : NULL);
    if (rc == 0) {
        bool read = !unread && !strstr(name, "/idx/") && !strstr(name, "/begun");
        ck_assert_msg(!read, "%s, %s: restored", name, how);
        memory_store_drop(&store, &store.objects[n]); /* the new history */
        return;
    }
    if (strstr(name, ".part") && strcmp(how, "missing") == 0)
        return; /* the message names the LSNs that can be restored */
    ck_assert_msg(strstr(err.message, name) != NULL || rc == LLADD_OUT_OF_RANGE ||
                      rc == LLADD_NOT_FOUND,
                  "%s, %s: %s", name, how, err.message);
}

/* `redo`: a restore needs no record below, since no transaction is open there. */
static void flip(size_t i, size_t at, uint64_t redo)
{
    char how[40], name[200];
    const struct memory_object *o = &store.objects[i];
    (void)snprintf(how, sizeof how, "byte %zu", at);
    memcpy(name, o->name, sizeof name);
    bool unread = is(o, ".seg") && at >= 64 && lsn_in(name) + at < redo;
    store.objects[i].bytes[at] ^= 0x10;
    expect_named(name, how);
    expect_refused(name, how, unread);
    store.objects[i].bytes[at] ^= 0x10;
}

/* Bytes of the header, and all over the object. */
static void flip_all(size_t i, uint64_t redo)
{
    size_t len = length_of(&store.objects[i]);
    for (size_t at = 0; at < len && at < 64; at += 7)
        flip(i, at, redo);
    for (size_t at = 64; at < len; at += len / 9 + 1)
        flip(i, at, redo);
    if (len > 64)
        flip(i, len - 1, redo);
}

static void shorten(size_t i)
{
    char name[200];
    size_t len = store.objects[i].len;
    memcpy(name, store.objects[i].name, sizeof name);
    store.objects[i].len = length_of(&store.objects[i]) - 1;
    expect_named(name, "shorter");
    expect_refused(name, "shorter", false);
    store.objects[i].len = len;
}

/* Damages each object that `part` selects. */
static void damage_each(const char *part)
{
    unsigned tried = 0;
    make_store();
    struct lladd_check_info info = expect_whole(NULL);
    uint64_t redo = strtoull(strchr(info.name, '-') + 1, NULL, 16), end = info.end.v;
    for (size_t i = 0; i < store.n; i++) {
        if (!is(&store.objects[i], part) || !needed(&store.objects[i], end))
            continue;
        flip_all(i, redo);
        shorten(i);
        tried++;
    }
    ck_assert_uint_gt(tried, 0);
    expect_whole(NULL);
}

static const char *const kinds[] = {"archive", "base/",  ".seg",  ".part",
                                    "/idx/",   "/bulk/", "/mark/"};

START_TEST(damage_of_each_object_is_named)
{
    damage_each(kinds[_i]);
}
END_TEST

/* The store cannot tell that the newest object of the log is missing. */
static bool is_newest(const struct memory_object *o)
{
    const char *folder = is(o, "/log/") ? "/log/" : is(o, "/idx/") ? "/idx/" : NULL;
    return folder && last_object(folder) == o;
}

START_TEST(each_missing_object_is_named)
{
    unsigned tried = 0;
    make_store();
    uint64_t end = expect_whole(NULL).end.v;
    for (size_t i = 0; i < store.n; i++) {
        const struct memory_object *o = &store.objects[i];
        char name[200];
        if (!needed(o, end) || is_newest(o) || is(o, "/mark/"))
            continue;
        memcpy(name, o->name, sizeof name);
        store.objects[i].name[0] = '#';
        if (strstr(name, "/manifest")) {
            struct lladd_check_info info;
            ck_assert_int_eq(try_check(NULL, &info), LLADD_NOT_FOUND);
            ck_assert(named(name));
        } else {
            expect_named(name, "missing");
        }
        expect_refused(name, "missing", false);
        memcpy(store.objects[i].name, name, sizeof name);
        tried++;
    }
    ck_assert_uint_gt(tried, 15);
    expect_whole(NULL);
}
END_TEST

/* All damaged objects are named at once, and the backup is restored without the archive. */
START_TEST(damage_of_several_objects)
{
    unsigned flipped = 0;
    make_store();
    uint64_t end = expect_whole(NULL).end.v;
    const char *names[2] = {NULL, NULL};
    for (size_t i = 0; i < store.n && flipped < 2; i++) {
        struct memory_object *o = &store.objects[i];
        if (!is(o, ".seg") || !needed(o, end))
            continue;
        o->bytes[length_of(o) / 2] ^= 1;
        names[flipped++] = o->name;
    }
    ck_assert_uint_eq(flipped, 2);
    struct lladd_check_info info = checked(NULL);
    ck_assert_uint_eq(found.damage, 2);
    ck_assert(named(names[0]) && named(names[1]));
    ck_assert_uint_eq(info.restored.v, info.end.v);
    struct memory_object *o = last_object("/pages.0");
    o->bytes[o->len / 2] ^= 1;
    info = checked(NULL);
    ck_assert(named(names[0]) && named(names[1]) && named(o->name));
    ck_assert_uint_eq(info.restored.v, 0);
}
END_TEST

/* A segment and its index are missing: the log above them shows the gap. */
START_TEST(a_gap_in_the_archive_is_named)
{
    make_store();
    uint64_t end = expect_whole(NULL).end.v;
    struct memory_object *gone = NULL;
    for (size_t i = 0; i < store.n; i++) {
        struct memory_object *o = &store.objects[i];
        if (is(o, ".seg") && needed(o, end) && lsn_in(o->name) > end &&
            (!gone || lsn_in(o->name) < lsn_in(gone->name)))
            gone = o;
    }
    ck_assert_ptr_nonnull(gone);
    char name[200], index[100];
    memcpy(name, gone->name, sizeof name);
    (void)snprintf(index, sizeof index, "idx/%016llx", (unsigned long long)lsn_in(name));
    memory_store_find(&store, index)->name[0] = '#';
    gone->name[0] = '#';
    struct lladd_check_info info = checked(NULL);
    ck_assert_uint_eq(info.damage, 1);
    ck_assert_str_eq(found.object[0], name);
    ck_assert_ptr_nonnull(strstr(found.message[0], "no object has the log"));
    ck_assert_uint_eq(info.restored.v, info.end.v);
}
END_TEST

/* A backup of a restored copy: damage of its timeline's history is found. */
START_TEST(a_damaged_history_is_named)
{
    make_store();
    OK(try_restore(NULL));
    open_shop(copy, false);
    store_log();
    backed_up();
    work(2);
    store_log();
    close_shop(true);
    struct lladd_check_info info = expect_whole(NULL);
    ck_assert_uint_eq(info.timeline, 1);
    ck_assert_uint_gt(info.restored.v, info.end.v);
    struct memory_object *o = memory_store_find(&store, "/history");
    struct lladd_device *own = copy;
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    for (size_t at = 0; at < o->len; at += 3) {
        o->bytes[at] ^= 0x10;
        expect_named("t00000001/history", "damaged");
        ck_assert_int_eq(try_restore(NULL), LLADD_CORRUPT_BACKUP);
        ck_assert_ptr_nonnull(strstr(err.message, "t00000001/history"));
        o->bytes[at] ^= 0x10;
    }
    o->name[0] = '#';
    expect_named("t00000001/history", "missing");
    ck_assert_int_eq(try_restore(NULL), LLADD_CORRUPT_BACKUP);
    lladd_device_close(own);
}
END_TEST

START_TEST(other_backups_are_looked_at)
{
    struct lladd_iovec piece = {"x", 1};
    make_store();
    char name[64];
    struct lladd_check_info info = expect_whole(NULL);
    memcpy(name, info.name, sizeof name);
    /* A backup that has not ended. */
    OK(store.base.ops->put(&store.base, "base/other/begun", &piece, 1, &err));
    info = checked(NULL);
    ck_assert_uint_eq(info.notes, 1);
    ck_assert_uint_eq(info.damage, 0);
    ck_assert(named("base/other/manifest"));
    ck_assert_uint_gt(info.restored.v, info.end.v);
    /* It is not known on which timeline the damaged backup is, nor whether it ended last. */
    OK(store.base.ops->put(&store.base, "base/other/manifest", &piece, 1, &err));
    info = checked(name);
    ck_assert_uint_eq(info.damage, 1);
    ck_assert(named("base/other/manifest"));
    ck_assert_uint_gt(info.restored.v, info.end.v);
    ck_assert_int_eq(try_restore(NULL), LLADD_CORRUPT_BACKUP);
}
END_TEST

static int64_t wall;

static int64_t wall_us(void *ctx)
{
    (void)ctx;
    return wall;
}

START_TEST(a_clock_that_was_set_back_is_noted)
{
    static const struct lladd_environment clock = {.wall_us = wall_us};
    lladd_lsn one, two;
    char text[200];
    open_shop(disk, false);
    store_log();
    work(2);
    backed_up();
    archive->opt.world = &clock;
    wall = 2000000;
    OK(lladd_archive_mark(archive, "one", &one, &err));
    wall = 1000000;
    OK(lladd_archive_mark(archive, "two", &two, &err));
    for (unsigned i = 0; i < 3; i++) {
        work(3);
        store_log();
    }
    close_shop(true);
    struct lladd_check_info info = checked(NULL);
    ck_assert_uint_eq(info.damage + info.repair, 0);
    ck_assert_uint_eq(info.notes, 1);
    (void)snprintf(text, sizeof text,
                   "the mark at LSN %llu has an earlier time than the mark at LSN %llu",
                   (unsigned long long)two.v, (unsigned long long)one.v);
    ck_assert_msg(strstr(found.message[0], text) != NULL, "%s", found.message[0]);
    ck_assert_uint_gt(info.restored.v, two.v);
}
END_TEST

/* ---- refused -------------------------------------------------------------------------------- */

static int stop_finding(void *ctx, const struct lladd_finding *f)
{
    (void)ctx, (void)f;
    return LLADD_TAKEN;
}

static int stop_progress(void *ctx, const char *what, uint64_t done, uint64_t all)
{
    unsigned *left = ctx;
    (void)what;
    ck_assert_uint_le(done, all);
    return (*left)-- == 0 ? LLADD_TAKEN : 0;
}

static int stop_opened(void *ctx, struct lladd_db *db)
{
    (void)ctx, (void)db;
    return LLADD_TAKEN;
}

START_TEST(a_check_can_be_stopped)
{
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    unsigned left;
    ck_assert_int_eq(lladd_archive_check(NULL, NULL, NULL, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_archive_check(&store.base, NULL, NULL, &err), LLADD_NOT_FOUND);
    make_store();
    o.base = "none";
    ck_assert_int_eq(lladd_archive_check(&store.base, &o, NULL, &err), LLADD_NOT_FOUND);
    o.base = NULL;
    o.memory_bytes = 1;
    ck_assert_int_eq(lladd_archive_check(&store.base, &o, NULL, &err), LLADD_BAD_ARGUMENT);
    o.memory_bytes = 0;
    o.progress = stop_progress;
    o.progress_ctx = &left;
    for (unsigned i = 0; i < 20; i += 3) {
        left = i;
        ck_assert_int_eq(lladd_archive_check(&store.base, &o, NULL, &err), LLADD_TAKEN);
    }
    o.progress = NULL;
    o.opened = stop_opened;
    ck_assert_int_eq(lladd_archive_check(&store.base, &o, NULL, &err), LLADD_TAKEN);
    o.opened = NULL;
    OK(lladd_archive_check(&store.base, &o, NULL, &err));
    last_object("/pages.0")->bytes[0] ^= 1;
    o.finding = stop_finding;
    ck_assert_int_eq(lladd_archive_check(&store.base, &o, NULL, &err), LLADD_TAKEN);
}
END_TEST

/* A store that fails is no damage. */
START_TEST(the_store_fails_at_each_call_of_a_check)
{
    struct lladd_check_info info;
    make_store();
    expect_whole(NULL);
    store.fail_on = _i != 0;
    for (uint64_t n = 1, fired = 1; fired; n += 1 + n / 20) {
        store.fail_at = store.calls + n;
        store.fired = 0;
        int rc = try_check(NULL, &info);
        fired = store.fired;
        store.fail_at = 0;
        ck_assert_int_eq(rc, fired ? LLADD_STORE_FAILED : 0);
        ck_assert_uint_eq(found.n, 0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("check");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_whole_store_is_restored_in_memory);
    tcase_add_test(tc, a_backup_without_an_archive_is_checked);
    tcase_add_loop_test(tc, damage_of_each_object_is_named, 0,
                        (int)(sizeof kinds / sizeof kinds[0]));
    tcase_add_test(tc, each_missing_object_is_named);
    tcase_add_test(tc, damage_of_several_objects);
    tcase_add_test(tc, a_gap_in_the_archive_is_named);
    tcase_add_test(tc, a_damaged_history_is_named);
    tcase_add_test(tc, other_backups_are_looked_at);
    tcase_add_test(tc, a_clock_that_was_set_back_is_noted);
    tcase_add_test(tc, a_check_can_be_stopped);
    tcase_add_loop_test(tc, the_store_fails_at_each_call_of_a_check, 0, 2);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
