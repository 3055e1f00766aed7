/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_CORE_TESTOPS_H
#define TESTS_CORE_TESTOPS_H
/*
 * A small extension, as an application would have, with operations of several kinds. Most tests of
 * the core use these operations instead of those in operations/.
 *
 * Page type "test.cells": CELLS integers of 64 bits, CELL_STRIDE bytes apart; the rest of the page
 * is a hole of zeros.
 *
 *   test.cells.format
 *                  formats a page, no undo
 *   test.add       cell += delta; undo subtracts. Redo and undo are not idempotent; additions of
 *                  several transactions commute
 *   test.put       cell = value; undo restores the old value
 *   test.poke      cell = value, never undone
 *   test.bump      cell += delta; its undo is logical: two ordinary updates, each of which
 *                  subtracts half of delta
 *   test.transfer  no page: logical undo of moving an amount from one cell to another, on any pages
 *   test.restore   no page: logical undo that pokes a value back; it is idempotent
 *   test.wide      test.put with filler bytes, for long records
 */
#include <lladd/lladd.h>
#include <lladd/op.h>

enum { CELLS = 64, CELL_STRIDE = 56 };

/* Where a cell begins in the page's body. Cells lie in seven of the eight sectors of a page, so
 * that a torn page is detected. */
static inline size_t cell_offset(unsigned index)
{
    return (size_t)index * CELL_STRIDE;
}

extern const struct lladd_op test_format, test_add, test_put, test_poke, test_bump, test_transfer,
    test_restore, test_wide;
extern const struct lladd_page_type test_cells;
extern const struct lladd_extension test_extension;

/* The ids of these operations in one database. */
struct test_ids {
    lladd_op_id format, add, put, poke, bump, transfer, restore, wide;
};
/* Asserts that all of them are registered. */
struct test_ids test_ids_of(struct lladd_db *);

/* If not 0, `compensate` of test.transfer fails with this code. A test that sets this variable must
 * reset it. */
extern int test_transfer_fails;

/* A cell: a page, and an index on the page. */
struct cell {
    lladd_pageno page;
    unsigned index;
};
static inline struct cell cell_of(lladd_pageno page, unsigned index)
{
    return (struct cell){page, index};
}

/* Changes of cells. All return what lladd_update returns. */
int cells_format(struct lladd_txn *, lladd_pageno);
int cell_add(struct lladd_txn *, struct cell, int64_t delta);
int cell_put(struct lladd_txn *, struct cell, uint64_t value);
int cell_poke(struct lladd_txn *, struct cell, uint64_t value);
int cell_bump(struct lladd_txn *, struct cell, int64_t delta);
/* Like cell_put, but with `len` filler bytes in redo and in undo. */
int cell_put_wide(struct lladd_txn *, struct cell, uint64_t value, size_t len);
/* Moves an amount in a nested top action, which test.transfer closes. */
int cells_transfer(struct lladd_txn *, struct cell from, struct cell to, int64_t amount);
/* The undo bytes of test.transfer and test.restore. */
enum { TRANSFER_BYTES = 28, RESTORE_BYTES = 18, WIDE_MAX = 8192 };
void transfer_encode(unsigned char out[TRANSFER_BYTES], struct cell from, struct cell to,
                     int64_t amount);
void restore_encode(unsigned char out[RESTORE_BYTES], struct cell, uint64_t value);

/* Reads a cell; 0 or the error of lladd_page_fix. */
int cell_read(struct lladd_db *, struct cell, uint64_t *out, struct lladd_error *);
/* Returns the value of a cell; asserts that it can be read. */
uint64_t cell_get(struct lladd_db *, struct cell);

#endif
