/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Damage of the newest objects of a store, after which no object comes that would show it: a
 * restore names the object and does not end earlier, and an archive that begins again does not take
 * it for one of another copy.
 */
#include "calls.h"
#include "ledger.h"
#include "numbered.h"

#include "ship/ship_private.h"
#include "support/test_world.h"

#include <check.h>
#include <lladd/device.h>
#include <lladd/log_read.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct memory_store store;
static struct lladd_device *disk, *copy;
static struct lladd_error err;
static struct run run;
static struct test_world world;
static struct lladd_backup_info first_base;

static void archive(void)
{
    test_world_advance(&world, UINT64_C(2000000000));
    run_archive(&run, 0);
}

/* Opens a new database. `archived`: the library archives it. */
static void prepare(size_t segment, bool archived)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    memset(&run, 0, sizeof run);
    test_world_init(&world, 5);
    memory_store_init(&store);
    run.store = &store;
    run.world = archived ? &world.world : NULL;
    run.segment = segment;
    ck_assert_int_eq(lladd_device_memory(&disk), 0);
    ck_assert_int_eq(lladd_device_memory(&copy), 0);
    run_open(&run, disk, 0);
}

/* A backup at transaction 20, and archived log up to transaction 40. */
static void setup(void)
{
    prepare(1 << 13, true);
    run_work_to(&run, 20);
    first_base = (struct lladd_backup_info){.struct_size = sizeof first_base};
    OK(lladd_backup(run.db, &store.base, NULL, &first_base, &err));
    run_work_to(&run, 40);
    archive();
}

static void teardown(void)
{
    memory_store_free(&store);
    lladd_device_close(disk);
    lladd_device_close(copy);
    test_world_free(&world);
}

/* ---- objects -------------------------------------------------------------------------------- */

static uint64_t first_of(const struct memory_object *o)
{
    return strtoull(strrchr(o->name, '/') + 1, NULL, 16);
}

static bool ends(const char *name, const char *suffix)
{
    size_t len = strlen(name), n = strlen(suffix);
    return len > n && strcmp(name + len - n, suffix) == 0;
}

/* The newest object with this suffix, or NULL: a segment or index, or the piece of a segment that
 * ends last. */
static struct memory_object *newest(const char *suffix)
{
    struct memory_object *best = NULL;
    for (size_t i = 0; i < store.n; i++) {
        struct memory_object *o = &store.objects[i];
        if (ends(o->name, suffix) && (!best || strcmp(o->name, best->name) > 0))
            best = o;
    }
    return best;
}

/* Without the pieces after it, the newest segment is the newest log in the store. */
static struct memory_object *only_segments(void)
{
    struct memory_object *o;
    while ((o = newest(".part")) != NULL)
        memory_store_drop(&store, o);
    return newest(".seg");
}

/* Lets the store have pieces of the segment that is written; at least two. */
static struct memory_object *with_pieces(void)
{
    for (struct memory_object *o;; archive()) {
        unsigned n = 0;
        for (size_t i = 0; i < store.n; i++)
            n += ends(store.objects[i].name, ".part");
        o = newest(".part");
        if (n > 1)
            return o;
        run_work_to(&run, run.number + 1);
    }
}

/* ---- restores ------------------------------------------------------------------------------- */

/* Looks at the target as a restore does before it writes anything. *end: where the restored log
 * ends. */
static int look(const struct lladd_restore_target *t, uint64_t expected, uint64_t *end)
{
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_device *device;
    o.target = t;
    o.expected = lladd_lsn_of(expected);
    err = (struct lladd_error)LLADD_ERROR_INIT;
    int rc = lladd_store_device(&store.base, &o, &device, &err);
    if (rc)
        return rc;
    lladd_store_device_info(device, &info);
    *end = info.end.v;
    lladd_store_device_close(device);
    return 0;
}

static int look_at_end(uint64_t *end)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    t.kind = LLADD_TO_END;
    return look(&t, 0, end);
}

/* The restore names the object, or it ends where it did without the damage. */
static bool expect_end(const char *name, const char *what, size_t at, uint64_t end)
{
    uint64_t got = 0;
    int rc = look_at_end(&got);
    bool named = rc == LLADD_CORRUPT_BACKUP &&
                 (strstr(err.message, name) || strstr(err.message, "it goes on in"));
    ck_assert_msg(named || (rc == 0 && got == end), "%s, %s at %u: %d, LSN %llu for %llu: %s", name,
                  what, (unsigned)at, rc, (unsigned long long)got, (unsigned long long)end,
                  err.message);
    return named;
}

/* Bytes of the object change, its end becomes zeros, and its end is cut off. */
static unsigned damage_everywhere(struct memory_object *o, uint64_t end)
{
    unsigned named = 0;
    unsigned char *whole = malloc(o->len);
    size_t len = o->len;
    ck_assert_ptr_nonnull(whole);
    memcpy(whole, o->bytes, len);
    for (size_t at = 0; at < len; at += 5) {
        o->bytes[at] ^= 0x10;
        named += expect_end(o->name, "a bit", at, end);
        o->bytes[at] = whole[at];
    }
    for (size_t at = 0; at < len; at += 104) {
        memset(o->bytes + at, 0, len - at);
        named += expect_end(o->name, "zeros", at, end);
        memcpy(o->bytes + at, whole + at, len - at);
        o->len = at;
        ck_assert(expect_end(o->name, "cut", at, end));
        o->len = len;
    }
    free(whole);
    return named;
}

START_TEST(the_end_of_a_damaged_segment)
{
    uint64_t end = 0;
    struct memory_object *o = only_segments();
    ck_assert_uint_gt(first_of(o), run.end[20]);
    ck_assert_int_eq(look_at_end(&end), 0);
    ck_assert_uint_gt(end, first_of(o));
    ck_assert_uint_gt(damage_everywhere(o, end), o->len / 10);
    run_close(&run);
}
END_TEST

START_TEST(the_end_of_a_damaged_piece)
{
    uint64_t end = 0;
    struct memory_object *o = with_pieces();
    ck_assert_int_eq(look_at_end(&end), 0);
    ck_assert_uint_ge(end, run.end[run.number]);
    /* A piece has only records, so every byte counts. */
    ck_assert_uint_ge(damage_everywhere(o, end), o->len / 5);
    run_close(&run);
}
END_TEST

/* A piece in the middle is missing: the log ends above a gap. */
START_TEST(a_missing_piece_is_a_gap)
{
    uint64_t end;
    struct memory_object *last = with_pieces(), *o = NULL;
    for (size_t i = 0; i < store.n; i++)
        if (ends(store.objects[i].name, ".part") && &store.objects[i] != last)
            o = &store.objects[i];
    memory_store_drop(&store, o);
    ck_assert_int_eq(look_at_end(&end), LLADD_OUT_OF_RANGE);
    run_close(&run);
}
END_TEST

/* If the header of the newest segment is damaged, each target that needs it names it, also a time,
 * since the mark that ends the restore may be in it. The targets below can be restored. */
START_TEST(targets_in_a_damaged_segment)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct memory_object *o = only_segments();
    uint64_t end, k = run.number;
    while (run.end[k] > first_of(o))
        k--;
    o->bytes[20] ^= 1;
    for (unsigned i = 0; i < 5; i++) {
        t = (struct lladd_restore_target)LLADD_RESTORE_TARGET_INIT;
        t.kind = i == 0 ? LLADD_TO_END : i == 1 ? LLADD_TO_TIME : LLADD_TO_LSN;
        t.time_us = i == 1 ? INT64_MAX - 1 : 0;
        t.lsn = lladd_lsn_of(i < 2 ? 0 : i == 2 ? run.end[k + 1] : run.end[k]);
        int rc = look(&t, i == 4 ? run.end[run.number] : 0, &end);
        if (i == 3) {
            OK(rc);
            continue;
        }
        ck_assert_msg(rc == LLADD_CORRUPT_BACKUP, "target %u: %d %s", i, rc, err.message);
        ck_assert_ptr_nonnull(strstr(err.message, o->name));
    }
    run_close(&run);
}
END_TEST

/* ---- a check -------------------------------------------------------------------------------- */

struct found {
    const char *name;
    bool named;
};

static int see_finding(void *ctx, const struct lladd_finding *f)
{
    struct found *found = ctx;
    found->named = found->named || strcmp(f->file, found->name) == 0 ||
                   strstr(f->message, found->name);
    return 0;
}

static bool check_names(const char *name)
{
    struct lladd_check_options o = LLADD_CHECK_OPTIONS_INIT;
    struct lladd_check_info info = {.struct_size = sizeof info};
    struct found found = {name, false};
    o.finding = see_finding;
    o.finding_ctx = &found;
    OK(lladd_archive_check(&store.base, &o, &info, &err));
    return found.named;
}

/* ---- the first record ----------------------------------------------------------------------- */

/* What says where the first record begins that a restore needs? */
enum { THE_FIRST_LSN, THE_INDEX, THE_BLOCK };

static void pad(uint64_t to)
{
    static unsigned char bytes[3000];
    while (lladd_durable_lsn(run.db).v < to) {
        struct lladd_txn *txn = run_begin(&run);
        TXN(lladd_log_note(txn, "pad", lladd_span_of(bytes, sizeof bytes), NULL));
        OK(lladd_commit(txn));
    }
}

/* Makes a backup with a log that lies in one segment, which the archive gets, too. */
static struct lladd_backup_info back_up_in_a_segment(int what)
{
    struct lladd_backup_info info = {.struct_size = sizeof info};
    struct lladd_archive_status s = {.struct_size = sizeof s};
    run_close(&run);
    teardown();
    prepare(what == THE_BLOCK ? 1 << 17 : 1 << 15, what != THE_BLOCK);
    if (what == THE_FIRST_LSN)
        run_work_to(&run, 5);
    if (what == THE_BLOCK) {
        pad(75000);
        OK(lladd_pin_set(run.db, "all the log", lladd_durable_lsn(run.db), &err));
    }
    if (what == THE_INDEX) {
        OK(lladd_pin_clear(run.db, "all the log", &err));
        for (s.kept.v = 8; s.kept.v == 8;) {
            pad(lladd_durable_lsn(run.db).v + 1);
            archive();
            OK(lladd_archive_status_get(run.archive, &s, &err));
        }
    }
    OK(lladd_backup(run.db, &store.base, NULL, &info, &err));
    if (what == THE_INDEX)
        ck_assert_uint_eq(info.from.v, s.kept.v);
    run_work_to(&run, run.number + 10);
    if (what != THE_BLOCK)
        pad(info.end.v + (1 << 15));
    archive();
    return info;
}

/* Where the byte at the LSN is in the file of the segment. */
static size_t in_file(uint64_t first, uint64_t lsn)
{
    size_t block = run.segment < 1 << 16 ? run.segment : 1 << 16, payload = block - 64;
    size_t in = (size_t)(lsn - first);
    return in / payload * block + 64 + in % payload;
}

/* The object with the byte at the LSN, and where it is there. */
static struct memory_object *object_at(uint64_t lsn, size_t *at)
{
    for (size_t i = 0; i < store.n; i++) {
        struct memory_object *o = &store.objects[i];
        const char *dash = strchr(o->name, '-');
        if (strncmp(o->name, "t00000000/log/", 14) != 0 || first_of(o) > lsn)
            continue;
        uint64_t from = dash ? strtoull(strchr(o->name, '.') + 1, NULL, 16) : first_of(o);
        uint64_t end = dash ? strtoull(dash + 1, NULL, 16) : run_segment_end(&run, from);
        *at = in_file(first_of(o), lsn) - (from > first_of(o) ? in_file(first_of(o), from) : 0);
        if (from <= lsn && lsn < end)
            return o;
    }
    return NULL;
}

/* The first record that a restore needs is damaged, or its bytes are zeros: the restore does not
 * begin with the second one. */
START_TEST(the_first_record_is_damaged)
{
    struct lladd_backup_info info = back_up_in_a_segment(_i);
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry first, next;
    uint64_t end;
    size_t at = 0;
    OK(lladd_log_open(run.db, info.from, NULL, &cursor, &err));
    OK(lladd_log_next(cursor, &first, &err));
    OK(lladd_log_next(cursor, &next, &err));
    lladd_log_close(cursor);
    OK(look_at_end(&end));
    struct memory_object *o = object_at(first.lsn.v, &at);
    ck_assert_ptr_nonnull(o);
    size_t len = (size_t)(next.lsn.v - first.lsn.v);
    len = len < o->len - at ? len : o->len - at;
    for (size_t k = 0; k < len; k += k < 64 ? 1 : 13) {
        o->bytes[at + k] ^= 0x10;
        int rc = look_at_end(&end);
        ck_assert_msg(rc == LLADD_CORRUPT_BACKUP, "byte %u: %d %s", (unsigned)k, rc, err.message);
        ck_assert(strstr(err.message, o->name) || strstr(err.message, "it goes on in"));
        o->bytes[at + k] ^= 0x10;
    }
    memset(o->bytes + at, 0, len);
    ck_assert_int_eq(look_at_end(&end), LLADD_CORRUPT_BACKUP);
    run_close(&run);
}
END_TEST

/* ---- manifests ------------------------------------------------------------------------------ */

static struct memory_object *manifest(const struct lladd_backup_info *b)
{
    char name[100];
    (void)snprintf(name, sizeof name, "%s/manifest", b->name);
    struct memory_object *o = memory_store_find(&store, name);
    ck_assert_ptr_nonnull(o);
    return o;
}

static int count(void *ctx, const struct lladd_backup_info *info)
{
    unsigned *n = ctx;
    (void)info;
    (*n)++;
    return 0;
}

static int count_items(void *ctx, const struct lladd_archive_item *item)
{
    unsigned *n = ctx;
    *n += item->kind == LLADD_ARCHIVE_RANGE;
    return 0;
}

/* lsn 0: the end of the log; 1: the end of the last backup. `base`: NULL: any. */
static int look_at(uint64_t lsn, const char *base)
{
    struct lladd_restore_target t = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_device *device;
    t.kind = lsn == 0 ? LLADD_TO_END : lsn == 1 ? LLADD_TO_BASE : LLADD_TO_LSN;
    t.lsn = lladd_lsn_of(lsn > 1 ? lsn : 0);
    o.target = &t;
    o.base = base;
    err = (struct lladd_error)LLADD_ERROR_INIT;
    int rc = lladd_store_device(&store.base, &o, &device, &err);
    if (!rc)
        lladd_store_device_close(device);
    return rc;
}

static void expect_damaged(uint64_t lsn, const char *base, const struct memory_object *o)
{
    int rc = look_at(lsn, base);
    ck_assert_msg(rc == LLADD_CORRUPT_BACKUP, "%d: %s", rc, err.message);
    ck_assert_ptr_nonnull(strstr(err.message, o->name));
}

/* A list tells all other backups, and then the damaged one; a check names it. */
static void expect_listed(const struct memory_object *o)
{
    unsigned n = 0;
    ck_assert_int_eq(lladd_backup_each(&store.base, NULL, count, &n, &err), LLADD_CORRUPT_BACKUP);
    ck_assert_ptr_nonnull(strstr(err.message, o->name));
    ck_assert_uint_eq(n, 1);
    n = 0;
    ck_assert_int_eq(lladd_archive_each(&store.base, NULL, count_items, &n, &err),
                     LLADD_CORRUPT_BACKUP);
    ck_assert_ptr_nonnull(strstr(err.message, o->name));
    ck_assert_uint_eq(n, 1);
    ck_assert(check_names(o->name));
}

/* One of two backups has a damaged manifest. The other one is used, where it serves. */
START_TEST(a_damaged_manifest)
{
    struct lladd_backup_info a = first_base, b = {.struct_size = sizeof b};
    run_work_to(&run, 50);
    archive();
    OK(lladd_backup(run.db, &store.base, NULL, &b, &err));
    run_work_to(&run, 60);
    archive();
    struct memory_object *o = manifest(&b);
    o->bytes[30] ^= 1;
    OK(look_at(0, NULL));
    OK(look_at(0, a.name));
    OK(look_at(run.end[30], NULL));
    OK(look_at(run.end[55], NULL));
    OK(look_at(1, a.name));
    expect_damaged(1, NULL, o); /* it may be the backup that ended last */
    expect_damaged(0, b.name, o);
    expect_listed(o);
    o->bytes[30] ^= 1;
    o = manifest(&a);
    o->bytes[30] ^= 1;
    OK(look_at(0, NULL));
    OK(look_at(1, NULL));
    OK(look_at(run.end[55], NULL));
    expect_damaged(run.end[30], NULL, o);
    ck_assert_int_eq(look_at(run.end[30], b.name), LLADD_OUT_OF_RANGE);
    expect_listed(o);
    o->bytes[30] ^= 1;
    OK(look_at(run.end[30], NULL));
    run_close(&run);
}
END_TEST

/* The log between the backups, or above them, is not stored: only the damaged backup can serve. */
START_TEST(a_damaged_manifest_that_is_needed)
{
    struct lladd_backup_info b = {.struct_size = sizeof b};
    run_work_to(&run, 60);
    if (_i)
        archive();
    OK(lladd_backup(run.db, &store.base, NULL, &b, &err));
    struct memory_object *o = NULL;
    if (_i) { /* a gap */
        run_work_to(&run, 70);
        archive();
        uint64_t most = 0;
        for (size_t i = 0; i < store.n; i++)
            if (ends(store.objects[i].name, ".seg") && first_of(&store.objects[i]) > most &&
                first_of(&store.objects[i]) + run.segment < run.end[60])
                most = first_of(o = &store.objects[i]);
        memory_store_drop(&store, o);
    }
    o = manifest(&b);
    OK(look_at(0, NULL));
    o->bytes[30] ^= 1;
    expect_damaged(0, NULL, o);
    if (_i)
        expect_damaged(run.end[65], NULL, o);
    OK(look_at(run.end[25], NULL));
    run_close(&run);
}
END_TEST

START_TEST(a_check_names_what_is_damaged)
{
    struct memory_object *part = with_pieces(), *claim = memory_store_find(&store, "claim.1");
    struct memory_object *objects[] = {part, claim, newest(".idx")};
    for (unsigned i = 0; i < 3; i++) {
        struct memory_object *o = objects[i];
        size_t len = i == 1 ? 24 : o->len; /* of a claim: what all versions have */
        ck_assert(!check_names(o->name));
        for (size_t at = 0; at < len; at += len / 6 + 1) {
            o->bytes[at] ^= 4;
            ck_assert_msg(check_names(o->name), "%s at %u", o->name, (unsigned)at);
            o->bytes[at] ^= 4;
        }
        o->len -= 8;
        ck_assert_msg(i == 1 || check_names(o->name), "%s is cut", o->name);
        o->len += 8;
    }
    /* The newest log is a segment, of which the last records become zeros. A whole transaction is
     * among them: of a record that goes on in the next segment the checksum cannot be computed. */
    struct memory_object *o = only_segments();
    uint64_t end = 0, k = run.number;
    ck_assert(!check_names(o->name));
    OK(look_at_end(&end));
    while (run.end[k] > end)
        k--;
    ck_assert_uint_ge(run.end[k - 1], first_of(o));
    size_t from = in_file(first_of(o), run.end[k - 1]);
    memset(o->bytes + from, 0, o->len - from);
    ck_assert(check_names(o->name));
    run_close(&run);
}
END_TEST

/* ---- an archive that begins again ----------------------------------------------------------- */

/* The first step of the archive in a copy of the database and of the store. */
static int resume(void)
{
    struct memory_store in;
    struct run again = run;
    struct lladd_device *dev;
    bool more = true;
    int rc = 0;
    memory_store_copy(&in, &store);
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ledger_copy(disk, dev);
    again.store = &in;
    run_open(&again, dev, LLADD_OPT_MUST_EXIST);
    err = (struct lladd_error)LLADD_ERROR_INIT;
    while (more && !rc)
        rc = lladd_archive_step(again.archive, &more, &err);
    run_kill(&again);
    lladd_device_close(dev);
    memory_store_free(&in);
    return rc;
}

/* `head`: where the last record of a segment begins, which goes on in the next one. If its checksum
 * differs, it may be the record of another copy. */
static void resume_named(struct memory_object *o, size_t step, size_t head)
{
    OK(resume());
    for (size_t at = 0; at < o->len; at += step) {
        if (at >= head && at < head + 4)
            continue;
        o->bytes[at] ^= 0x10;
        int rc = resume();
        ck_assert_msg(rc == LLADD_CORRUPT_BACKUP, "%s at %u: %d %s", o->name, (unsigned)at, rc,
                      err.message);
        ck_assert_ptr_nonnull(strstr(err.message, o->name));
        o->bytes[at] ^= 0x10;
    }
    o->len -= 9;
    ck_assert_int_eq(resume(), LLADD_CORRUPT_BACKUP);
    o->len += 9;
}

START_TEST(an_archive_begins_at_a_damaged_segment)
{
    enum { WITHOUT_INDEX = 1 };
    uint64_t end = 0;
    struct memory_object *o = only_segments();
    OK(look_at_end(&end));
    run_close(&run);
    if (_i & WITHOUT_INDEX) { /* the archive stores the segment again, and finds its name taken */
        memory_store_drop(&store, newest(".idx"));
        o = newest(".seg");
    }
    resume_named(o, 61, in_file(first_of(o), end));
}
END_TEST

START_TEST(an_archive_begins_at_a_damaged_piece)
{
    struct memory_object *o = with_pieces();
    run_close(&run);
    for (size_t i = 0; i < store.n; i++)
        if (ends(store.objects[i].name, ".part"))
            resume_named(&store.objects[i], o == &store.objects[i] ? 13 : 61, SIZE_MAX - 4);
}
END_TEST

START_TEST(an_archive_begins_at_a_damaged_claim)
{
    run_close(&run);
    struct memory_object *o = memory_store_find(&store, "claim.1");
    OK(resume());
    for (size_t at = 0; at < o->len; at++) {
        o->bytes[at] ^= 0x10;
        int rc = resume();
        /* Without the zero byte before its checksum the claim looks like an older one. */
        ck_assert_int_eq(rc, at == o->len - 5 ? 0 : LLADD_CORRUPT_BACKUP);
        if (rc)
            ck_assert_ptr_nonnull(strstr(err.message, "t00000000/claim.1\" in the store"));
        o->bytes[at] ^= 0x10;
    }
    /* Earlier versions have put claims without a checksum. */
    o->len -= 5;
    OK(resume());
    o->bytes[3] ^= 1;
    ck_assert_int_eq(resume(), LLADD_DIVERGED);
}
END_TEST

/* An index says nothing that its segment does not say. */
START_TEST(an_archive_begins_at_a_damaged_index)
{
    uint64_t end = 0, again = 0;
    struct memory_object *o = newest(".idx");
    ck_assert_int_eq(look_at_end(&end), 0);
    run_close(&run);
    for (size_t at = 0; at < o->len; at += 31) {
        o->bytes[at] ^= 0x10;
        OK(resume());
        OK(look_at_end(&again));
        ck_assert_uint_eq(again, end);
        o->bytes[at] ^= 0x10;
    }
}
END_TEST

/* A piece was stored, and the reply was lost; so a longer one was stored. The archive goes on after
 * the longer one, as a restore does, whichever is listed first. */
START_TEST(an_archive_goes_on_after_the_longest_piece)
{
    char name[LL_SHIP_NAME_MAX];
    uint64_t end, k;
    struct memory_object *o = with_pieces();
    uint64_t first = first_of(o), from = strtoull(strchr(o->name, '.') + 1, NULL, 16);
    for (k = run.number; run.end[k - 1] > from; k--)
        continue;
    run_close(&run);
    /* A mark follows the transaction in the piece. */
    while (run.end[k] >= strtoull(strchr(o->name, '-') + 1, NULL, 16))
        k--;
    ck_assert_uint_gt(run.end[k], from);
    (void)snprintf(name, sizeof name, "t00000000/log/%016llx.%016llx-%016llx.part",
                   (unsigned long long)first, (unsigned long long)from,
                   (unsigned long long)run.end[k]);
    run_store_object(&run, name, o->bytes, (size_t)(run.end[k] - from));
    run_open(&run, disk, LLADD_OPT_MUST_EXIST);
    run_work_to(&run, run.number + 1);
    archive();
    OK(look_at_end(&end));
    ck_assert_uint_ge(end, run.end[run.number]);
    run_close(&run);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("damage");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, the_end_of_a_damaged_segment);
    tcase_add_test(tc, the_end_of_a_damaged_piece);
    tcase_add_test(tc, a_missing_piece_is_a_gap);
    tcase_add_test(tc, targets_in_a_damaged_segment);
    tcase_add_loop_test(tc, the_first_record_is_damaged, 0, 3);
    tcase_add_test(tc, a_damaged_manifest);
    tcase_add_loop_test(tc, a_damaged_manifest_that_is_needed, 0, 2);
    tcase_add_test(tc, a_check_names_what_is_damaged);
    tcase_add_loop_test(tc, an_archive_begins_at_a_damaged_segment, 0, 2);
    tcase_add_test(tc, an_archive_begins_at_a_damaged_piece);
    tcase_add_test(tc, an_archive_begins_at_a_damaged_claim);
    tcase_add_test(tc, an_archive_begins_at_a_damaged_index);
    tcase_add_test(tc, an_archive_goes_on_after_the_longest_piece);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
