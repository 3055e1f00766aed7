/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DOCS_FIXTURE_H
#define TESTS_DOCS_FIXTURE_H
/*
 * The fixture of the tests of docs/what-happens-when.md. It has a small database in real files,
 * with counters, operations that can be made to misbehave, and functions that damage the files.
 */
#include <check.h>
#include <lladd/lladd.h>
#include <lladd/op.h>
#include <sys/types.h>

enum { PAGE = 4096, SEGMENT = 16384, CONTROL_COPY = 4096, CONTROL_BYTES = 256 };

/* The state of one case. */
extern char *dir;
extern struct lladd_db *db; /* NULL: not open */
extern struct lladd_options options;
extern struct lladd_error err;

#define OK(call) ck_assert_msg((call) == 0, "%s: %s", #call, err.message)
#define TXN_OK(call) ck_assert_msg((call) == 0, "%s: %s", #call, lladd_txn_error(txn)->message)

void fixture_init(void);   /* before every case */
void fixture_finish(void); /* after every case */

/* How the operations below misbehave. */
struct bad {
    bool refuses; /* validate refuses */
    bool fails;   /* compensate fails */
    bool forgets; /* undo does nothing */
};
extern struct bad bad;

/* An operation that adds the number in its eight redo bytes to the first word of a page of
 * bytes. */
extern const struct lladd_op word_add;
/* An operation with undo bytes that are the number of a page. Its undo subtracts one from the
 * counter on this page. */
extern const struct lladd_op logical_add;

void open_db(void);
void close_db(void);
void kill_db(void);
/* Asserts that an open is refused with this code, and that the message contains these words. */
void refused(int code, const char *words);

struct lladd_txn *begin(void);
lladd_op_id op_id(const struct lladd_op *);
lladd_pageno new_page(void);
/* Adds one to the page's counter, and commits. Returns the LSN of the transaction's first
 * record. */
lladd_lsn count(lladd_pageno page);
int64_t counted(lladd_pageno page);

void file_read(const char *name, void *bytes, size_t len, off_t at);
void file_write(const char *name, const void *bytes, size_t len, off_t at);
void file_flip(const char *name, off_t at); /* flips one bit */
void file_remove(const char *name);

#endif
