/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_ARRAY_H
#define LL_OPERATIONS_ARRAY_H
/* Arrays inside: the root page (array_page.c), what memory knows of it (array_memory.c), the calls
 * (array.c, where it says how all that works together). */
#include "operations/run.h"

#include <lladd/array.h>

/* ---- the root page --------------------------------------------------------------------------- */

#define LL_ARRAY_RUN 32u /* where the run is, in the body */
#define LL_ARRAY_FORMAT_BYTES 8u
#define LL_ARRAY_BYTES_MAX (UINT64_C(1) << 48)

enum { LL_ARRAY_NOTHING = 0, LL_ARRAY_ALIVE = 1, LL_ARRAY_DESTROYED = 2 };
/* Fields of 8 bytes: where in the root page's body, in eights. */
enum { LL_ARRAY_STATE = 1, LL_ARRAY_LENGTH = 2, LL_ARRAY_FORMATTED = 3 };

/* What a root page says. */
struct ll_array_root {
    uint32_t size, serial;
    uint64_t state, length, formatted, maker;
};

/* Arguments of lladd.array.put. */
struct ll_array_put {
    uint8_t field;
    uint64_t value;
};

extern const struct lladd_op ll_operations__array_format;
extern const struct lladd_op ll_operations__array_put;
extern const struct lladd_page_type ll_operations__array_page;

static inline uint64_t ll_array_length_max(uint32_t size)
{
    return LL_ARRAY_BYTES_MAX / size;
}

/* LLADD_WRONG_TYPE if it is no array's root page, LLADD_CORRUPT_PAGE if no array's can look so. */
int ll_operations__array_read(struct lladd_db *, lladd_pageno, struct ll_array_root *,
                              struct lladd_error *);

/* ---- in memory ------------------------------------------------------------------------------- */

struct ll_arrays;

struct lladd_array {
    struct lladd_db *db;
    uint64_t length;    /* atomic; 0: ask the root page */
    uint64_t formatted; /* atomic */
    uint64_t inverse;   /* of per_page, in 2^64ths */
    uint32_t size, per_page;
    struct ll_run run;
    lladd_op_id put;
    uint32_t serial;
    struct lladd_mutex change;
    /* Under the extension's mutex: */
    struct ll_arrays *all;
    struct lladd_array *next;
    uint64_t users;
    uint64_t looks;   /* answers of the root page that are older do not count */
    uint64_t changes; /* of the length, and rollbacks that may have been */
    bool gone;        /* for good */
    bool cut;         /* pages above `cut_to` are nobody's any more */
    uint64_t cut_to;  /* elements */
};

/* What a transaction has to do with an array, beyond its elements. */
struct ll_array_note {
    struct ll_array_note *next;
    struct lladd_array *array;
    bool made, destroyed, cut;
    uint64_t changes, cut_to;
};

struct ll_array_owner {
    struct ll_owner owner;
    struct ll_arrays *all;
    struct ll_array_note *notes;
};

struct ll_arrays {
    struct lladd_db *db;
    struct lladd_mutex mutex;
    struct lladd_array **buckets;
    size_t n_buckets, n;
    struct ll_owners owners;
    uint32_t serial;
};

static inline struct ll_arrays *ll_arrays_of(struct lladd_db *db)
{
    return lladd_state(db, &ll_operations__array_extension);
}

/* The one in memory, made if need be; release gives it back. */
int ll_operations__array_acquire(struct lladd_db *, lladd_pageno, struct lladd_array **,
                                 struct lladd_error *);
void ll_operations__array_release(struct lladd_array *);
/* Asks the root page, and has it in memory then. LLADD_DESTROYED */
int ll_operations__array_look(struct lladd_array *, struct ll_array_root *, struct lladd_error *);
/* What memory says of the root page does not hold any more; `made`: only the transaction that made
 * it knows the array. Under the extension's mutex. */
void ll_operations__array_forget(struct lladd_array *, bool made);
/* The transaction is about to change the root page. */
int ll_operations__array_note(struct lladd_txn *, struct lladd_array *, struct ll_array_note **);

#endif
