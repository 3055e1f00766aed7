/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_ARRAY_H
#define LL_OPERATIONS_ARRAY_H
/* Internals of arrays: the root page (page.c), arrays in memory (memory.c), the calls (array.c). */
#include "operations/shared/extents.h"

#include <lladd/array.h>

/* ---- the root page --------------------------------------------------------------------------- */

#define LL_ARRAY_RUN 32u /* offset of the extent sequence in the body */
#define LL_ARRAY_FORMAT_BYTES 8u
#define LL_ARRAY_BYTES_MAX (UINT64_C(1) << 48)

enum { LL_ARRAY_NOTHING = 0, LL_ARRAY_ALIVE = 1, LL_ARRAY_DESTROYED = 2 };
/* Fields of 8 bytes: offset in the root page's body, divided by 8. */
enum { LL_ARRAY_STATE = 1, LL_ARRAY_LENGTH = 2, LL_ARRAY_FORMATTED = 3 };

struct ll_array_root {
    uint32_t size, serial;
    uint64_t state, length, formatted, maker;
};

/* Arguments of lladd.array.put. */
struct ll_array_put {
    uint8_t field;
    uint64_t value;
};

/* Operations by their index in ll_operations__array_extension. */
enum ll_array_op { LL_ARRAY_FORMAT, LL_ARRAY_PUT };

extern const struct lladd_op ll_operations__array_format;
extern const struct lladd_op ll_operations__array_put;
extern const struct lladd_page_type ll_operations__array_page;

static inline uint64_t ll_array_length_max(uint32_t size)
{
    return LL_ARRAY_BYTES_MAX / size;
}

/* Reads a root page. LLADD_WRONG_TYPE: the page is not the root page of an array.
 * LLADD_CORRUPT_PAGE: its values are impossible. */
int ll_operations__array_read(struct lladd_db *, lladd_pageno, struct ll_array_root *,
                              struct lladd_error *);

/* ---- in memory ------------------------------------------------------------------------------- */

struct ll_arrays;

struct lladd_array {
    struct ll_index_node node; /* key: the root page; under the extension's mutex */
    struct lladd_db *db;
    uint64_t length;    /* atomic; 0: read the root page */
    uint64_t formatted; /* atomic */
    uint64_t inverse;   /* 2^64 divided by per_page, rounded up */
    uint32_t size, per_page;
    struct ll_extents run;
    uint32_t serial;           /* serial number of the root page: see memory.c */
    struct lladd_mutex change; /* held by a thread that changes length, formatted pages or state */
    /* Protected by the extension's mutex: */
    struct ll_arrays *all;
    uint64_t users;
    uint64_t looks;   /* counts changes of the root page, also by rollbacks (memory.c) */
    uint64_t changes; /* counts changes of length or state, and rollbacks that may undo one */
    bool gone;        /* the array is destroyed, or its creation rolled back */
    bool cut;         /* the pages beyond `cut_to` may be freed (A3 in array.c) */
    uint64_t cut_to;  /* the length after the shrink */
};

/* A transaction's changes of one array's root page. */
struct ll_array_note {
    struct ll_array_note *next;
    struct lladd_array *array;
    bool made, cut;
    lladd_savepoint_id destroyed; /* 0: not destroyed; else lladd_txn_now.next when the transaction
                                   * destroyed the array */
    uint64_t changes, cut_to;
};

struct ll_array_owner {
    struct ll_txn_part owner;
    struct ll_arrays *all;
    struct ll_array_note *notes;
};

struct ll_arrays {
    struct lladd_db *db;
    struct lladd_mutex mutex;
    struct ll_index table;
    struct ll_txn_parts owners;
    uint32_t serial;
    uint32_t first_op; /* atomic: see ll_operations__nth_op */
};

static inline struct ll_arrays *ll_arrays_of(struct lladd_db *db)
{
    return lladd_extension_state(db, &ll_operations__array_extension);
}

/* acquire returns the struct of the array, created if necessary, with a reference. release drops
 * the reference. */
int ll_operations__array_acquire(struct lladd_db *, lladd_pageno, struct lladd_array **,
                                 struct lladd_error *);
void ll_operations__array_release(struct lladd_array *);
/* Reads the root page and updates the copy in memory. LLADD_DESTROYED if the array is gone. */
int ll_operations__array_look(struct lladd_array *, struct ll_array_root *, struct lladd_error *);
/* Invalidates the copy of the root page in memory. `made`: the transaction that created the array
 * has rolled back changes, perhaps the formatting of pages. The caller holds the extension's
 * mutex. */
void ll_operations__array_forget(struct lladd_array *, bool made);
/* Returns the transaction's note about the array, created if necessary. Called before the
 * transaction changes length or state of an existing array. */
int ll_operations__array_note(struct lladd_txn *, struct lladd_array *, struct ll_array_note **);

#endif
