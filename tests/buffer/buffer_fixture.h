/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_BUFFER_FIXTURE_H
#define TESTS_BUFFER_FIXTURE_H
/*
 * The fixture: a buffer manager with each frame provider, on files and in memory, with an allocator
 * and a device that can be made to fail, with time and named points controlled by the test, and
 * with a gate instead of a log.
 *
 * Between the buffer manager and its device is a checker. It sees every write to the page file and
 * counts what must never happen: a page with an LSN that the gate does not report as durable
 * (BUF-1), a page that does not verify, a write to a page file of other than whole pages.
 * fixture_close() asserts that it has nothing to report.
 *
 * A test page holds one number, in every word of its body, and an LSN that the fixture's log
 * "wrote". A torn or half-copied page therefore shows.
 */
#include <check.h>

#include "buffer/buffer.h"
#include "support/fault_alloc.h"
#include "support/fault_device.h"
#include "support/test_world.h"

enum { FIXTURE_HEAP, FIXTURE_RESERVED, FIXTURE_HEAP_FILES, FIXTURE_RESERVED_FILES, FIXTURE_KINDS };
enum { FIXTURE_PAGE = 4096, FIXTURE_SALT = 0x5a17 };

/* A log that consists of two numbers. */
struct fixture_gate {
    uint64_t tail; /* the next LSN */
    uint64_t durable;
    uint64_t forces;
    int fails;              /* what force returns instead of working */
    void (*during)(void *); /* called in force, with `arg`; nullable */
    void *arg;
};

struct fixture_checker {
    struct lladd_device dev; /* what the buffer manager gets */
    struct lladd_device *below;
    struct lladd_device_ops ops;
    struct lladd_file *pages; /* the page file, while open */
    struct fixture_gate *gate;
    uint32_t page_size;
    uint32_t salt;
    bool raw;             /* bulk writes without page headers are allowed */
    uint64_t early;       /* pages written before their log record */
    uint64_t wrong;       /* writes of other than whole, valid pages */
    uint64_t page_writes; /* calls */
    uint64_t lose_every;  /* every n-th of them is acknowledged and not done; 0: none */
    uint64_t prefetched;  /* pages */
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

/* A new, empty page file, cached within a budget for at least `pages` pages (exactly that many in
 * the heap). The test may change cfg between the two. */
void fixture_init(struct fixture *, int kind, unsigned pages);
void fixture_create(struct fixture *);
/* Does both. */
void fixture_open(struct fixture *, int kind, unsigned pages);
/* Closes and opens again; unwritten changes are lost. */
void fixture_reopen(struct fixture *);
/* Closes, and asserts that nothing was leaked and the checker counted no violation. */
void fixture_close(struct fixture *);
/* The budget for this many pages in the heap. */
uint64_t fixture_budget(unsigned pages, uint32_t page_size);

/* ---- pages ---- */

/* Fixes a page, which must succeed. */
struct ll_frame *fixture_fix(struct fixture *, uint64_t n, unsigned how);
void fixture_unfix(struct fixture *, struct ll_frame *, unsigned how);
/* Returns what fixing returns; a page that was fixed is unfixed at once. */
int fixture_try(struct fixture *, uint64_t n, unsigned how);
/* Changes a page held exclusively, as a logged operation would; returns the record's LSN. */
uint64_t fixture_change(struct fixture *, struct ll_frame *, uint64_t value);
/* The same to a page that is not held; it is created if the file is too short. */
uint64_t fixture_put(struct fixture *, uint64_t n, uint64_t value);
/* Formats: the record is also the page's base. */
uint64_t fixture_format(struct fixture *, uint64_t n, uint64_t value);
/* The number that a page holds. Asserts that every word holds it. 0: a page of zeros. */
uint64_t fixture_value(const unsigned char *page, uint32_t page_size);
uint64_t fixture_get(struct fixture *, uint64_t n);
/* The same for the page in the file, read around the cache; asserts that it verifies. */
uint64_t fixture_stored(struct fixture *, uint64_t n);
/* True if every word of the body is the same. For threads, which must not assert. */
bool fixture_is_whole(const unsigned char *page, uint32_t page_size);
void fixture_stamp(unsigned char *page, uint32_t page_size, uint64_t n, uint64_t lsn,
                   uint64_t value);

void fixture_flush(struct fixture *); /* everything */
struct ll_buffer_stats fixture_stats(struct fixture *);
/* Changes bytes of the page file without the buffer manager's knowledge. */
void fixture_poke(struct fixture *, uint64_t off, const void *bytes, size_t len);
void fixture_peek(struct fixture *, uint64_t off, void *bytes, size_t len);

/* ---- the dirty-page table, as ll_buffer_dirty_each reports it ---- */

struct fixture_dirty {
    unsigned n;
    struct {
        uint64_t page, rec, base;
    } at[64];
};
void fixture_dirty(struct fixture *, struct fixture_dirty *);

#endif
