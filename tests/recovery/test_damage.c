/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Damage: a bit is flipped anywhere in any file, or a file is cut off or missing. Either the
 * library repairs the file, or opening, reading or verifying returns an error that names it. The
 * library never returns wrong data, and never crashes. Some damage need not be found: to free
 * pages, the double-write area and unused log space, and a missing segment that is older than what
 * recovery reads. After an unclean stop, this also applies to the log beyond the newest watermark
 * in the log (LOG-3). There, damage looks like a write that the crash has interrupted, so the
 * newest commit may be lost as a whole.
 */
#include "support/fixtures.h"
#include "workload.h"

#include <errno.h>
#include <lladd/inspect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { D_PAGES = 6, D_CELLS = D_PAGES * H_CELLS, FILES_MAX = 24 };

struct file {
    char name[64];
    unsigned char *bytes;
    size_t len;
};

/* A stored database. */
static struct {
    struct file files[FILES_MAX];
    unsigned n_files;
    struct history h;
    bool clean;
    uint64_t log_end, redo; /* LSNs */
    char end_file[64];      /* the file with the log's end */
    uint64_t end_offset;
    bool used[256]; /* per page: is it in use? */
} saved;

static struct fixture r;
static bool other_uuid, pinned;

/* ---- making it --------------------------------------------------------------------------- */

static int add_name(void *ctx, const char *name)
{
    const char *dir = ctx;
    ck_assert_uint_lt(saved.n_files, FILES_MAX);
    if (strcmp(name, "lock") == 0 || strcmp(name, "log") == 0 || strcmp(name, "files") == 0)
        return 0;
    struct file *f = &saved.files[saved.n_files++];
    snprintf(f->name, sizeof f->name, "%s%s", dir, name);
    return 0;
}

static void put_on_shelf(void)
{
    ck_assert_int_eq(r.base->ops->list(r.base, "", add_name, (void *)(uintptr_t) ""), 0);
    ck_assert_int_eq(r.base->ops->list(r.base, "log", add_name, (void *)(uintptr_t) "log/"), 0);
    for (unsigned i = 0; i < saved.n_files; i++) {
        saved.files[i].bytes = fixture_file(&r, saved.files[i].name, &saved.files[i].len);
        ck_assert_ptr_nonnull(saved.files[i].bytes);
    }
}

static void look_at_log_end(void)
{
    struct lladd_inspect *view;
    struct lladd_inspect_info info = {.struct_size = sizeof info};
    char name[32];
    ok_db(&r, lladd_inspect_open(NULL, &r.options, &view, &r.err));
    ck_assert_int_eq(lladd_inspect_info_get(view, &info), 0);
    saved.log_end = info.log_end.v;
    saved.redo = info.clean ? info.checkpoint.v : info.redo.v; /* from here on recovery reads */
    ck_assert(lladd_inspect_place(view, lladd_lsn_of(info.log_end.v - 8), name, &saved.end_offset));
    snprintf(saved.end_file, sizeof saved.end_file, "%s", name);
    lladd_inspect_close(view);
}

static void commit_one(size_t cell, int64_t delta)
{
    struct step *t;
    ck_assert_int_eq(step_begin(&saved.h, r.db, NULL, &t), 0);
    ck_assert_int_eq(step_add(t, cell, delta), 0);
    ck_assert_int_eq(step_commit(t), 0);
}

static void make(bool clean)
{
    lladd_pageno pages[D_PAGES], freed;
    memset(&saved, 0, sizeof saved);
    saved.clean = clean;
    fixture_init(&r, 0);
    r.world.random += other_uuid;
    r.options.log_segment_min = r.options.log_segment_max = 8192;
    fixture_open(&r);
    fixture_pages(&r, pages, D_PAGES);
    history_init(&saved.h, pages, D_PAGES);
    if (pinned) /* keeps segments that recovery does not need */
        ok_db(&r, lladd_pin_set(r.db, "reader", lladd_lsn_of(8), &r.err));
    for (unsigned i = 0; i < (pinned ? 200 : 20); i++)
        commit_one(i % D_CELLS, 100 + i);
    ok_db(&r, lladd_checkpoint(r.db, &r.err));
    /* A page that was used and is free again. */
    freed = fixture_page(&r);
    struct lladd_txn *txn = fixture_begin(&r);
    ok(txn, lladd_page_free(txn, freed));
    done(lladd_commit(txn));
    for (unsigned i = 0; i < 14; i++) /* so many that the newest group is in one segment */
        commit_one(3 * i % D_CELLS, 7);
    struct step *loser = NULL;
    if (!clean) {
        ck_assert_int_eq(step_begin(&saved.h, r.db, NULL, &loser), 0);
        ck_assert_int_eq(step_bump(loser, 2, 1000), 0);
        commit_one(5, 1);
        commit_one(6, 1);
    }
    for (uint64_t p = 0; p < lladd_page_count(r.db) && p < 256; p++) {
        enum lladd_page_use use;
        ok_db(&r, lladd_page_use_get(r.db, lladd_page_of(p), &use, &r.err));
        saved.used[p] = use == LLADD_USE_PAGED || use == LLADD_USE_SYSTEM;
    }
    if (clean)
        fixture_close(&r);
    else
        fixture_crash(&r, &fault_kill);
    step_drop(loser);
    look_at_log_end();
    put_on_shelf();
}

static void throw_away(void)
{
    for (unsigned i = 0; i < saved.n_files; i++)
        free(saved.files[i].bytes);
    history_free(&saved.h);
    fixture_free(&r);
}

/* ---- damaging it ------------------------------------------------------------------------- */

/* Makes a device with the stored files. File number i gets other contents (NULL: is missing). */
static void mount(unsigned i, const unsigned char *bytes, size_t len)
{
    struct lladd_device *dev;
    struct lladd_file *f;
    ck_assert_int_eq(lladd_device_memory(&dev), 0);
    ck_assert_int_eq(dev->ops->mkdir(dev, "log"), 0);
    for (unsigned k = 0; k < saved.n_files; k++) {
        struct lladd_iovec piece = {saved.files[k].bytes, saved.files[k].len};
        if (k == i && !bytes)
            continue;
        if (k == i)
            piece = (struct lladd_iovec){bytes, len};
        ck_assert_int_eq(dev->ops->open(dev, saved.files[k].name, LLADD_OPEN_CREATE, &f), 0);
        if (piece.len)
            ck_assert_int_eq(dev->ops->pwritev(dev, f, &piece, 1, 0), 0);
        ck_assert_int_eq(dev->ops->close(dev, f), 0);
    }
    fault_device_free(r.fd);
    lladd_device_close(r.base);
    r.base = dev;
    r.fd = fault_device_new(dev);
    r.options.device = fault_device_dev(r.fd);
}

struct verdict {
    bool named;    /* an error named the file */
    bool complete; /* the database has every acknowledged commit */
    char said[400];
};

/* Returns the file's name without the directory, as in messages. */
static const char *short_name(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

struct verifying {
    struct verdict *v;
    const char *name;
};

static int see_finding(void *ctx, const struct lladd_finding *f)
{
    struct verifying *s = ctx;
    /* The finding about a record may name the segment in which the record begins, while the damage
     * is in the next one. */
    bool log = f->file && strncmp(f->file, "log/", 4) == 0 && strncmp(s->name, "log/", 4) == 0;
    if (f->kind != LLADD_FINDING_NOTE && f->file && (log || strstr(f->file, short_name(s->name))))
        s->v->named = true;
    return 0;
}

static void verify(const char *name, struct verdict *v)
{
    struct lladd_inspect *view;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct verifying s = {v, name};
    struct lladd_verified done_ = {.struct_size = sizeof done_};
    int rc = lladd_inspect_open(NULL, &r.options, &view, &err);
    if (rc) {
        v->named = v->named || strstr(err.message, short_name(name));
        return;
    }
    ck_assert_int_eq(lladd_inspect_verify(view, see_finding, &s, &done_, &err), 0);
    lladd_inspect_close(view);
}

static void check_error(int rc, const struct lladd_error *err, const char *name, const char *what,
                        struct verdict *v)
{
    enum lladd_root root = lladd_code_root(rc);
    ck_assert_msg(root == LLADD_ROOT_DATA || rc == LLADD_NOT_A_DATABASE ||
                      rc == LLADD_NEWER_FORMAT || rc == LLADD_UNDO_FAILED,
                  "%s: %s: %s", what, lladd_code_name(rc), err->message);
    snprintf(v->said, sizeof v->said, "%s: %s", lladd_code_name(rc), err->message);
    /* If a segment is absent, the message has the LSN that the segment should have. If a record
     * goes on into the next segment, the message names the segment where the record begins. */
    v->named = v->named || strstr(err->message, short_name(name)) || rc == LLADD_MISSING_FILE ||
               (strncmp(name, "log/", 4) == 0 && strstr(err->message, "log/"));
}

/* Asserts that the contents are those of one of the last states of the history. */
static void read_everything(const char *name, const char *what, struct verdict *v)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t actual[D_CELLS];
    bool all = true;
    for (size_t i = 0; i < D_CELLS; i++) {
        int rc = cell_read(r.db, history_cell(&saved.h, i), &actual[i], &err);
        if (rc) {
            check_error(rc, &err, name, what, v);
            all = false;
        }
    }
    if (!all)
        return;
    size_t newest = saved.h.n_states - 1, j = newest + 1;
    while (j > 0 && memcmp(saved.h.states[j - 1], actual, sizeof actual) != 0)
        j--;
    ck_assert_msg(j > 0, "%s: wrong data", what);
    ck_assert_msg(j > newest - 1, "%s: %zu commits are lost", what, newest + 1 - j);
    v->complete = j == newest + 1;
}

static struct verdict try(unsigned i, const char *what)
{
    struct verdict v = {.complete = true};
    const char *name = saved.files[i].name;
    verify(name, &v);
    int rc = fixture_try_open(&r);
    if (rc) {
        check_error(rc, &r.err, name, what, &v);
        return v;
    }
    read_everything(name, what, &v);
    lladd_db_kill(r.db);
    r.db = NULL;
    return v;
}

/* ---- where damage need not be found ------------------------------------------------------ */

static bool is_log(const struct file *f)
{
    return strncmp(f->name, "log/", 4) == 0;
}

/* Is this byte of the log after the log's end, and so unused? The end is in the same segment or in
 * an earlier one. */
static bool unused_log(const struct file *f, size_t at)
{
    if (strcmp(short_name(f->name), short_name(saved.end_file)) == 0)
        return at >= saved.end_offset + 8;
    /* A later segment was made in advance, or is free again and waits for its next use. */
    return strcmp(short_name(f->name), short_name(saved.end_file)) > 0;
}

static bool need_not_be_found(const struct file *f, size_t at)
{
    if (strcmp(f->name, "pages") == 0)
        return at / 4096 < 256 && !saved.used[at / 4096];
    return (is_log(f) && unused_log(f, at)) || strcmp(f->name, "dwb") == 0;
}

/* Is this byte in the newest group? After an unclean stop, no watermark covers that group. */
static bool newest_group(const struct file *f, size_t at)
{
    enum { GROUP = 400 }; /* bytes: an update, a commit, a seal, and the page's image */
    return !saved.clean && is_log(f) &&
           strcmp(short_name(f->name), short_name(saved.end_file)) == 0 &&
           at + GROUP >= saved.end_offset;
}

/* Does recovery not read this segment, because it is too old? Then only the repair of a page may
 * need it. */
static bool old_log(unsigned i)
{
    const char *next = NULL; /* the segment after this one */
    for (unsigned k = 0; k < saved.n_files; k++) {
        const char *name = saved.files[k].name;
        if (is_log(&saved.files[k]) && strcmp(name, saved.files[i].name) > 0 &&
            (!next || strcmp(name, next) < 0))
            next = name;
    }
    return next && strtoull(short_name(next), NULL, 16) <= saved.redo;
}

/* ---- cases ------------------------------------------------------------------------------- */

static size_t next_offset(size_t at, size_t len)
{
    if (getenv("LLADD_NIGHTLY"))
        return at + 1;
    if (at % 4096 < 96)
        return at + 5; /* in headers, tries every fifth byte */
    return at + (len > 40000 ? 911 : 97);
}

START_TEST(a_flipped_bit_is_named_or_put_right)
{
    unsigned flips = 0, named = 0, put_right = 0, harmless = 0, lost = 0;
    make(_i);
    for (unsigned i = 0; i < saved.n_files; i++) {
        struct file *f = &saved.files[i];
        unsigned char *bytes = malloc(f->len + 1);
        memcpy(bytes, f->bytes, f->len);
        for (size_t at = 0; at < f->len; at = next_offset(at, f->len)) {
            char what[128];
            unsigned char bit = (unsigned char)(1u << at % 8);
            snprintf(what, sizeof what, "%s: bit %u of byte %zu", f->name, (unsigned)(at % 8), at);
            bytes[at] ^= bit;
            mount(i, bytes, f->len);
            bytes[at] ^= bit;
            struct verdict v = try(i, what);
            flips++;
            named += v.named;
            if (!v.complete) {
                /* the newest group of an unclean log: no later seal states that it was durable */
                ck_assert_msg(newest_group(f, at), "%s: the newest commit is lost", what);
                lost++;
            } else if (v.named) {
                put_right += !v.said[0];
            } else {
                ck_assert_msg(need_not_be_found(f, at) || newest_group(f, at),
                              "%s: not noticed; %s", what, v.said);
                harmless++;
            }
        }
        free(bytes);
    }
    fprintf(stderr,
            "%u flips: %u named (%u of them put right), %u where nothing is, %u in the "
            "newest group\n",
            flips, named, put_right, harmless, lost);
    ck_assert_uint_gt(named, 200);
    ck_assert_uint_gt(harmless, 20);
    throw_away();
}
END_TEST

START_TEST(a_truncated_file_is_named)
{
    make(_i);
    for (unsigned i = 0; i < saved.n_files; i++) {
        struct file *f = &saved.files[i];
        for (unsigned part = 0; part < 8; part++) {
            char what[128];
            size_t len = f->len * part / 8;
            snprintf(what, sizeof what, "%s: %zu of %zu bytes", f->name, len, f->len);
            mount(i, f->bytes, len);
            struct verdict v = try(i, what);
            bool nothing_there = true;
            for (size_t at = len; at < f->len; at++)
                nothing_there = nothing_there && need_not_be_found(f, at);
            ck_assert_msg(v.complete || (!saved.clean && is_log(f)), "%s: a commit is lost", what);
            ck_assert_msg(v.named || nothing_there || !v.complete, "%s: not noticed; %s", what,
                          v.said);
        }
    }
    throw_away();
}
END_TEST

START_TEST(a_missing_file_is_named)
{
    make(_i);
    for (unsigned i = 0; i < saved.n_files; i++) {
        struct file *f = &saved.files[i];
        char what[128];
        snprintf(what, sizeof what, "%s is missing", f->name);
        mount(i, NULL, 0);
        struct verdict v = try(i, what);
        ck_assert_msg(v.named || need_not_be_found(f, 0) || (is_log(f) && old_log(i)),
                      "%s: not noticed; %s", what, v.said);
    }
    throw_away();
}
END_TEST

/* After a clean stop, some damage is found only at the first write. */
static void found_by_writing(const char *what)
{
    struct lladd_txn *txn;
    lladd_pageno page;
    ck_assert_int_eq(fixture_try_open(&r), 0);
    ck_assert_int_eq(lladd_begin(r.db, NULL, &txn, NULL), 0);
    int rc = lladd_page_alloc(txn, &page);
    ck_assert_msg(rc == LLADD_FOREIGN_FILE, "%s: it was written to", what);
    ck_assert_int_eq(lladd_abort(txn), 0);
    lladd_db_kill(r.db);
    r.db = NULL;
}

/* A file is replaced by the file of another database, where it is valid. */
START_TEST(a_foreign_file_is_named)
{
    struct file mine[FILES_MAX];
    make(true);
    unsigned n = saved.n_files;
    struct history h = saved.h;
    memcpy(mine, saved.files, sizeof mine);
    fixture_free(&r);
    other_uuid = true;
    make(true);
    other_uuid = false;
    ck_assert_uint_eq(saved.n_files, n);
    for (unsigned i = 0; i < n; i++) {
        char what[128];
        unsigned k = 0;
        while (k < n && strcmp(saved.files[k].name, mine[i].name) != 0)
            k++;
        ck_assert_uint_lt(k, n);
        snprintf(what, sizeof what, "foreign %s", saved.files[k].name);
        mount(k, mine[i].bytes, mine[i].len);
        struct verdict v = try(k, what);
        bool unused = need_not_be_found(&saved.files[k], 0);
        if (!v.named && !unused && is_log(&saved.files[k]) && old_log(k)) {
            found_by_writing(what);
            unused = true;
        }
        /* If the control file is that of the other database, all other files seem to be foreign. */
        ck_assert_msg(v.named || unused || strcmp(saved.files[k].name, "control") == 0,
                      "%s: not noticed; %s", what, v.said);
        ck_assert_msg(v.said[0] || v.named || unused, "%s: it was opened", what);
        free(mine[i].bytes);
    }
    history_free(&h);
    throw_away();
}
END_TEST

/* ---- pages ------------------------------------------------------------------------------- */

static unsigned file_index(const char *name)
{
    for (unsigned i = 0; i < saved.n_files; i++)
        if (strcmp(saved.files[i].name, name) == 0)
            return i;
    ck_abort_msg("there is no file %s", name);
    return 0;
}

/* BUF-2: a damaged page is rebuilt from its image or format record and the records after it, while
 * other transactions run. */
START_TEST(a_damaged_page_is_rebuilt_online)
{
    make(true);
    unsigned i = file_index("pages");
    fixture_want_trace(&r);
    struct file *f = &saved.files[i];
    unsigned char *bytes = malloc(f->len);
    for (unsigned p = 0; p < D_PAGES; p++) {
        size_t at = saved.h.pages[p].v * 4096 + 40 + 8 * p;
        memcpy(bytes, f->bytes, f->len);
        bytes[at] ^= 1;
        memset(bytes + saved.h.pages[p].v * 4096 + 2048, 0xa5, 1000);
        mount(i, bytes, f->len);
        fixture_open(&r);
        for (size_t c = 0; c < D_CELLS; c++)
            ck_assert_uint_eq(cell_get(r.db, history_cell(&saved.h, c)),
                              history_value(&saved.h, c));
        ck_assert_uint_eq(fixture_stats(&r).repairs, 1);
        fixture_set(&r, cell_of(saved.h.pages[p], 9), 4711);
        fixture_close(&r);
        fixture_open(&r);
        ck_assert_uint_eq(fixture_stats(&r).repairs, 0); /* the repaired page was written */
        fixture_expect(&r, cell_of(saved.h.pages[p], 9), 4711);
        ck_assert_uint_eq(cell_get(r.db, history_cell(&saved.h, p * H_CELLS)),
                          history_value(&saved.h, p * H_CELLS));
        fixture_close(&r);
    }
    free(bytes);
    throw_away();
}
END_TEST

/* BUF-2: a page that cannot be rebuilt is an error that names file and page, and affects no other
 * page.
 */
START_TEST(a_page_that_cannot_be_rebuilt_is_an_error_and_the_others_work)
{
    make(true);
    fixture_open(&r);
    for (unsigned k = 0; k < 3; k++) { /* checkpoints truncate the log that held the bases */
        struct lladd_txn *txn = fixture_begin(&r);
        for (unsigned n = 0; n < 12; n++)
            ok(txn, cell_put_wide(txn, cell_of(saved.h.pages[1], 9), n, 1000));
        done(lladd_commit(txn));
        ok_db(&r, lladd_checkpoint(r.db, &r.err));
    }
    fixture_close(&r);
    uint64_t value;
    size_t len;
    unsigned char *bytes = fixture_file(&r, "pages", &len);
    bytes[saved.h.pages[0].v * 4096 + 100] ^= 4;
    fixture_file_write(&r, "pages", bytes, len, 0);
    free(bytes);
    fixture_open(&r);
    char page[40];
    snprintf(page, sizeof page, "page %llu", (unsigned long long)saved.h.pages[0].v);
    for (int again = 0; again < 2; again++) {
        ck_assert_int_eq(cell_read(r.db, cell_of(saved.h.pages[0], 0), &value, &r.err),
                         LLADD_CORRUPT_PAGE);
        ck_contains(r.err.message, page);
        ck_contains(r.err.message, "pages");
        ck_assert_uint_eq(r.err.page.v, saved.h.pages[0].v);
    }
    struct lladd_txn *txn = fixture_begin(&r);
    refused(txn, LLADD_CORRUPT_PAGE, cell_put(txn, cell_of(saved.h.pages[0], 0), 1));
    ok(txn, cell_put(txn, cell_of(saved.h.pages[2], 9), 1)); /* the transaction can go on */
    done(lladd_commit(txn));
    ck_assert_int_eq(lladd_db_error(r.db, &r.err), 0);
    /* Formatting the page again makes it valid. */
    txn = fixture_begin(&r);
    ok(txn, cells_format(txn, saved.h.pages[0]));
    done(lladd_commit(txn));
    fixture_expect(&r, cell_of(saved.h.pages[0], 0), 0);
    throw_away();
}
END_TEST

/* BUF-5: after an unclean stop every page may be torn. Recovery rebuilds the pages that it redoes;
 * the other pages are rebuilt when they are read. */
START_TEST(torn_pages_are_rebuilt_in_recovery)
{
    make(false);
    unsigned i = file_index("pages");
    struct file *f = &saved.files[i];
    unsigned char *bytes = malloc(f->len);
    memcpy(bytes, f->bytes, f->len);
    for (unsigned p = 0; p < D_PAGES; p++)
        memset(bytes + saved.h.pages[p].v * 4096 + 512, 0xee, 1024); /* two sectors of garbage */
    mount(i, bytes, f->len);
    fixture_open(&r);
    history_check(&saved.h, r.db);
    history_go_on(&saved.h, r.db);
    free(bytes);
    throw_away();
}
END_TEST

/* ---- bad sectors --------------------------------------------------------------------------- */

enum { SECTOR = 4096 };

/* Opens with a sector that is noise, or that cannot be read. */
static struct verdict try_sector(unsigned i, size_t at, bool noise, bool *opens)
{
    struct file *f = &saved.files[i];
    size_t len = f->len - at < SECTOR ? f->len - at : SECTOR;
    char what[128];
    unsigned char *bytes = malloc(f->len);
    memcpy(bytes, f->bytes, f->len);
    if (noise)
        seeded_fill(at, bytes + at, len);
    mount(i, bytes, f->len);
    if (!noise)
        fault_device_bad_sector(r.fd, f->name, at + len / 2);
    snprintf(what, sizeof what, "%s, %s sector at %zu", f->name, noise ? "noise" : "bad", at);
    struct verdict v = try(i, what);
    *opens = v.said[0] == 0 && v.complete;
    free(bytes);
    return v;
}

/* A sector that cannot be read is tolerated where noise is tolerated. It is never taken for a write
 * that the crash has interrupted. */
START_TEST(a_bad_sector_is_tolerated_like_noise)
{
    unsigned tolerated = 0, refused = 0;
    pinned = _i & 2;
    make(_i & 1);
    for (unsigned i = 0; i < saved.n_files; i++)
        for (size_t at = 0; at < saved.files[i].len; at += SECTOR) {
            bool noise, bad;
            (void)try_sector(i, at, true, &noise);
            struct verdict v = try_sector(i, at, false, &bad);
            ck_assert_msg(bad || !noise, "%s: %zu: noise is tolerated; %s", saved.files[i].name, at,
                          v.said);
            ck_assert_msg(v.complete, "%s: %zu: a commit is lost", saved.files[i].name, at);
            ck_assert_msg(bad || v.named, "%s: %zu: not named", saved.files[i].name, at);
            tolerated += bad;
            refused += !bad;
        }
    printf("bad sectors: %u tolerated, %u refused\n", tolerated, refused);
    ck_assert_uint_gt(tolerated, 0);
    throw_away();
}
END_TEST

/* ---- the control block --------------------------------------------------------------------- */

/* A power failure may destroy the copy that is being written. The next write begins with the
 * destroyed copy, so a second power failure cannot destroy the other one. */
START_TEST(a_damaged_copy_of_the_control_block_is_written_first)
{
    enum { COPY = 4096, BLOCK = 256 };
    unsigned char noise[BLOCK];
    size_t damaged = (size_t)_i * COPY, whole = COPY - damaged, len;
    memset(noise, 0xee, sizeof noise);
    fixture_init(&r, 0);
    fixture_open(&r);
    struct cell cell = cell_of(fixture_page(&r), 1);
    fixture_set(&r, cell, 5);
    fixture_crash(&r, &fault_kill);
    fixture_file_write(&r, "control", noise, sizeof noise, damaged);
    unsigned char *before = fixture_file(&r, "control", &len);
    fault_device_only(r.fd, "control");
    fault_device_fail(r.fd, 2, FAULT_PWRITEV, EIO, true);
    ck_assert_int_ne(fixture_try_open(&r), 0);
    fault_device_fail(r.fd, 0, 0, 0, false);
    unsigned char *after = fixture_file(&r, "control", &len);
    ck_assert_mem_eq(after + whole, before + whole, BLOCK);
    ck_assert_mem_ne(after + damaged, noise, BLOCK);
    fixture_open(&r);
    fixture_expect(&r, cell, 5);
    fixture_free(&r);
    free(before);
    free(after);
}
END_TEST

enum { CONTROL_COPY = 4096, CONTROL_PARTS = 3 };

static struct cell cell_in_a_killed_database(void)
{
    fixture_init(&r, 0);
    fixture_open(&r);
    struct cell cell = cell_of(fixture_page(&r), 1);
    fixture_set(&r, cell, 5);
    fixture_crash(&r, &fault_kill);
    return cell;
}

/* The bad sector holds one of the two copies, or the witness. */
START_TEST(a_bad_sector_of_control_is_replaced)
{
    unsigned char bytes[(CONTROL_PARTS - 1) * CONTROL_COPY + 64];
    struct lladd_file *file;
    struct verdict v = {0};
    struct cell cell = cell_in_a_killed_database();
    fault_device_bad_sector(r.fd, "control", (uint64_t)_i * CONTROL_COPY + 32);
    verify("control", &v);
    ck_assert(v.named);
    fixture_open(&r);
    fixture_expect(&r, cell, 5);
    fixture_set(&r, cell, 6);
    fixture_close(&r);
    ck_assert_int_eq(r.options.device->ops->open(r.options.device, "control", 0, &file), 0);
    ck_assert_int_eq(r.options.device->ops->pread(r.options.device, file, bytes, sizeof bytes, 0),
                     (int64_t)sizeof bytes);
    ck_assert_int_eq(r.options.device->ops->close(r.options.device, file), 0);
    fixture_open(&r);
    fixture_expect(&r, cell, 6);
    fixture_free(&r);
}
END_TEST

/* One copy cannot be read. The other copy cannot be read either, is damaged, or is no copy. Only a
 * second read can tell what the unreadable copy holds, so the error does not say that both are
 * damaged. */
START_TEST(both_copies_of_control_are_bad_and_one_cannot_be_read)
{
    unsigned char noise[256];
    memset(noise, 0xee, sizeof noise);
    struct cell cell = cell_in_a_killed_database();
    size_t len, unread = (size_t)(_i % 2) * CONTROL_COPY, other = CONTROL_COPY - unread;
    unsigned char *before = fixture_file(&r, "control", &len);
    if (_i / 2 == 0)
        fault_device_bad_sector(r.fd, "control", other);
    else if (_i / 2 == 1)
        fixture_file_write(&r, "control", noise, 8, other + 32);
    else
        fixture_file_write(&r, "control", noise, sizeof noise, other);
    fault_device_bad_sector(r.fd, "control", unread);
    ck_assert_int_eq(fixture_try_open(&r), LLADD_READ_FAILED);
    ck_assert_ptr_nonnull(strstr(r.err.message, "control"));
    fault_device_bad_sector(r.fd, NULL, 0);
    fixture_file_write(&r, "control", before, len, 0);
    fixture_open(&r);
    fixture_expect(&r, cell, 5);
    fixture_free(&r);
    free(before);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("damage");
    TCase *tc = tcase_create("all");
    tcase_add_loop_test(tc, a_flipped_bit_is_named_or_put_right, 0, 2);
    tcase_add_loop_test(tc, a_truncated_file_is_named, 0, 2);
    tcase_add_loop_test(tc, a_missing_file_is_named, 0, 2);
    tcase_add_test(tc, a_foreign_file_is_named);
    tcase_add_test(tc, a_damaged_page_is_rebuilt_online);
    tcase_add_test(tc, a_page_that_cannot_be_rebuilt_is_an_error_and_the_others_work);
    tcase_add_test(tc, torn_pages_are_rebuilt_in_recovery);
    tcase_add_loop_test(tc, a_bad_sector_is_tolerated_like_noise, 0, 4);
    tcase_add_loop_test(tc, a_damaged_copy_of_the_control_block_is_written_first, 0, 2);
    tcase_add_loop_test(tc, a_bad_sector_of_control_is_replaced, 0, CONTROL_PARTS);
    tcase_add_loop_test(tc, both_copies_of_control_are_bad_and_one_cannot_be_read, 0, 6);
    suite_add_tcase(s, tc);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
