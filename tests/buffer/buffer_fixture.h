/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_BUFFER_FIXTURE_H
#define TESTS_BUFFER_FIXTURE_H
/*
 * The fixture: a buffer manager with each frame provider, on files and in memory. The test can make
 * the allocator and the device fail, and controls the time and named points. A gate takes the place
 * of the log.
 *
 * Between the buffer manager and its device is a checker. It sees every write to the page file, and
 * counts the writes that must never happen:
 * - a write of a page with an LSN that is not yet durable in the gate (BUF-1);
 * - a write of a page that does not verify;
 * - a write of only a part of a page.
 * fixture_close() asserts that the checker has counted none of them.
 *
 * A test page holds the same number in every word of its body, so that a torn or half-copied page
 * is detected. The page's LSN comes from the gate.
 */
#include <check.h>

#include "buffer/buffer.h"
#include "support/fault_alloc.h"
#include "support/fault_device.h"
#include "support/test_world.h"

enum { FIXTURE_HEAP, FIXTURE_RESERVED, FIXTURE_HEAP_FILES, FIXTURE_RESERVED_FILES, FIXTURE_KINDS };
enum { FIXTURE_PAGE = 4096, FIXTURE_SALT = 0x5a17 };

/* The gate takes the place of the log. It has no records, but only the LSNs of the tail and of the
 * durable end. */
struct fixture_gate {
    uint64_t tail; /* the next LSN */
    uint64_t durable;
    uint64_t forces;
    int fails;              /* if not 0, a force fails with this code */
    void (*during)(void *); /* every force calls it with `arg`; may be NULL */
    void *arg;
};

struct fixture_checker {
    struct lladd_device dev; /* the device of the buffer manager */
    struct lladd_device *below;
    struct lladd_device_ops ops;
    struct lladd_file *pages; /* the page file, while open */
    struct fixture_gate *gate;
    uint32_t page_size;
    uint32_t salt;
    bool raw;             /* bulk writes without page headers are allowed */
    uint64_t early;       /* number of pages that were written before their log record was
                           * durable */
    uint64_t wrong;       /* number of invalid pages, and of writes and prefetches of a part of a
                           * page */
    uint64_t page_writes; /* number of write calls on the page file */
    uint64_t lose_every;  /* n: every n-th write call returns 0 and writes nothing; 0: none does */
    uint64_t prefetched;  /* number of pages prefetched */
};

struct fixture {
    struct ll_env env;
    struct test_world world;
    struct fault_alloc mem;
    char *dir; /* NULL: in memory */
    struct lladd_device *base;
    struct fault_device *fault;
    struct fixture_checker checker;
    struct fixture_gate gate;
    struct ll_buffer_config cfg;
    struct ll_buffer *b;
    struct lladd_error err;
    struct ll_poison poison;
};

/* fixture_init prepares a configuration for a new page file. The budget is enough for at least
 * `pages` frames; with frames in the heap, for exactly `pages` frames. fixture_create makes the
 * file. Between the two calls, the test may change `cfg`. */
void fixture_init(struct fixture *, int kind, unsigned pages);
void fixture_create(struct fixture *);
/* Calls fixture_init and fixture_create. */
void fixture_open(struct fixture *, int kind, unsigned pages);
/* Closes the buffer manager and opens it again. Dirty pages are not written, so their changes are
 * lost. */
void fixture_reopen(struct fixture *);
/* Closes the buffer manager. Asserts that no memory and no open file is left, and that the checker
 * has counted no write. */
void fixture_close(struct fixture *);
/* Returns the budget for this many pages in the heap. */
uint64_t fixture_budget(unsigned pages, uint32_t page_size);

/* ---- pages ---- */

/* Fixes a page, which must succeed. */
struct ll_frame *fixture_fix(struct fixture *, uint64_t n, unsigned how);
void fixture_unfix(struct fixture *, struct ll_frame *, unsigned how);
/* Fixes a page, and unfixes it if that succeeded. Returns the result of the fix. */
int fixture_try(struct fixture *, uint64_t n, unsigned how);
/* Changes a page that is fixed exclusively, as a logged operation would. Returns the LSN of the
 * change. */
uint64_t fixture_change(struct fixture *, struct ll_frame *, uint64_t value);
/* Fixes, changes and unfixes a page. The page is created if the file is too short. */
uint64_t fixture_put(struct fixture *, uint64_t n, uint64_t value);
/* Like fixture_put, but formats the page, so that the LSN of the change also becomes the page's
 * base. */
uint64_t fixture_format(struct fixture *, uint64_t n, uint64_t value);
/* Returns the number that the page holds; for a page of zeros, 0. Asserts that every word of the
 * body holds this number. */
uint64_t fixture_value(const unsigned char *page, uint32_t page_size);
uint64_t fixture_get(struct fixture *, uint64_t n);
/* Reads the page from the file, not from the cache, and returns the number that it holds. Asserts
 * that the page verifies. */
uint64_t fixture_stored(struct fixture *, uint64_t n);
/* Returns true if all words of the body are equal. Threads call this function, because they must
 * not assert. */
bool fixture_is_whole(const unsigned char *page, uint32_t page_size);
void fixture_stamp(unsigned char *page, uint32_t page_size, uint64_t n, uint64_t lsn,
                   uint64_t value);

void fixture_flush(struct fixture *); /* writes all dirty pages */
struct ll_buffer_stats fixture_stats(struct fixture *);
/* Write and read bytes of the page file without the buffer manager's knowledge. */
void fixture_poke(struct fixture *, uint64_t off, const void *bytes, size_t len);
void fixture_peek(struct fixture *, uint64_t off, void *bytes, size_t len);

/* ---- the dirty page table ---- */

/* Fills in the entries of the table: first the dirty pages, then the copies in flight. */

struct fixture_dirty {
    unsigned n;
    struct {
        uint64_t page, rec;
    } at[64];
};
void fixture_dirty(struct fixture *, struct fixture_dirty *);

/* A whole bulk write: begin, write, end. */
int fixture_bulk(struct fixture *, lladd_pageno first, uint64_t n, unsigned char *bytes,
                 bool paged);
#endif
