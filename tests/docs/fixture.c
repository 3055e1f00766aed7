/* SPDX-License-Identifier: BSD-2-Clause */
#include "fixture.h"

#include "support/fixtures.h"

#include <fcntl.h>
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *dir;
struct lladd_db *db;
struct lladd_options options;
struct lladd_error err;

/* ---- operations that can be made to misbehave (struct bad) ----------------------------------- */

struct bad bad;

static bool word_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    return s.len == 8 && !bad.refuses;
}

static void word_redo(struct lladd_page *page, struct lladd_span redo)
{
    unsigned char *word = lladd_page_body(page);
    lladd_put64(word, lladd_get64(word) + lladd_get64(redo.data));
}

static void word_undo(struct lladd_page *page, struct lladd_span undo)
{
    unsigned char *word = lladd_page_body(page);
    if (!bad.forgets)
        lladd_put64(word, lladd_get64(word) - lladd_get64(undo.data));
}

const struct lladd_op word_add = {
    .struct_size = sizeof word_add,
    .name = "doc.word.add",
    .version = 2,
    .page_type = "lladd.bytes",
    .record_max = 16,
    .undo_kind = LLADD_UNDO_PAGE,
    .validate = word_validate,
    .redo = word_redo,
    .undo = word_undo,
};

static bool logical_validate(struct lladd_view page, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)page;
    (void)kind;
    return s.len == 8;
}

static int logical_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx;
    if (bad.fails)
        return lladd_error_set(lladd_txn_error_out(txn), LLADD_READ_FAILED, "out of order");
    return lladd_counter_add(txn, lladd_page_of(lladd_get64(undo.data)), 0, -1);
}

const struct lladd_op logical_add = {
    .struct_size = sizeof logical_add,
    .name = "doc.logical",
    .version = 1,
    .record_max = 8,
    .undo_kind = LLADD_UNDO_LOGICAL,
    .validate = logical_validate,
    .compensate = logical_compensate,
    .undo_log_max = 512,
    .undo_pages_max = 1,
};
/* ---- fixture --------------------------------------------------------------------------------- */

void fixture_init(void)
{
    dir = temp_dir_new();
    db = NULL;
    memset(&err, 0, sizeof err);
    memset(&bad, 0, sizeof bad);
    options = (struct lladd_options)LLADD_OPTIONS_INIT;
    options.flags = LLADD_OPT_NO_THREADS;
    options.cache_bytes = 4u << 20;
    options.log_ring_bytes = 1u << 16;
    options.log_segment_min = options.log_segment_max = SEGMENT;
    OK(lladd_register_op(&options, &word_add, &err));
    OK(lladd_register_op(&options, &logical_add, &err));
}

void fixture_finish(void)
{
    if (db)
        lladd_db_kill(db);
    lladd_options_release(&options);
    temp_dir_remove(dir);
}

void open_db(void)
{
    OK(lladd_open(dir, &options, &db, &err));
}

void close_db(void)
{
    int rc = lladd_close(db);
    db = NULL;
    ck_assert_int_eq(rc, 0);
}

void kill_db(void)
{
    lladd_db_kill(db);
    db = NULL;
}

void refused(int code, const char *words)
{
    err = (struct lladd_error)LLADD_ERROR_INIT;
    ck_assert_int_eq(lladd_open(dir, &options, &db, &err), code);
    ck_assert_ptr_null(db);
    ck_assert_msg(strstr(err.message, words) != NULL, "\"%s\" says nothing of \"%s\"", err.message,
                  words);
}

struct lladd_txn *begin(void)
{
    struct lladd_txn *txn = NULL;
    OK(lladd_begin(db, NULL, &txn, &err));
    return txn;
}

lladd_pageno new_page(void)
{
    struct lladd_txn *txn = begin();
    lladd_pageno page;
    TXN_OK(lladd_page_alloc(txn, &page));
    TXN_OK(lladd_bytes_format(txn, page));
    TXN_OK(lladd_commit(txn));
    return page;
}

lladd_lsn count(lladd_pageno page)
{
    struct lladd_txn *txn = begin();
    TXN_OK(lladd_counter_add(txn, page, 0, 1));
    lladd_lsn id = lladd_txn_id(txn);
    TXN_OK(lladd_commit(txn));
    return id;
}

int64_t counted(lladd_pageno page)
{
    int64_t n = -1;
    OK(lladd_counter_get(db, page, 0, &n, &err));
    return n;
}

lladd_op_id op_id(const struct lladd_op *op)
{
    lladd_op_id id;
    OK(lladd_op_lookup(db, op->name, op->version, &id));
    return id;
}
/* ---- files ----------------------------------------------------------------------------------- */

void file_read(const char *name, void *bytes, size_t len, off_t at)
{
    char *path = temp_dir_path(dir, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s", path);
    ck_assert_int_eq(pread(fd, bytes, len, at), (ssize_t)len);
    ck_assert_int_eq(close(fd), 0);
    free(path);
}

void file_write(const char *name, const void *bytes, size_t len, off_t at)
{
    char *path = temp_dir_path(dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    ck_assert_msg(fd >= 0, "%s", path);
    ck_assert_int_eq(pwrite(fd, bytes, len, at), (ssize_t)len);
    ck_assert_int_eq(close(fd), 0);
    free(path);
}

void file_flip(const char *name, off_t at)
{
    unsigned char byte;
    file_read(name, &byte, 1, at);
    byte ^= 0x10;
    file_write(name, &byte, 1, at);
}

void file_remove(const char *name)
{
    char *path = temp_dir_path(dir, name);
    ck_assert_int_eq(unlink(path), 0);
    free(path);
}
