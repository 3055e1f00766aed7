/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_PAGE_RIG_H
#define TESTS_SHIP_PAGE_RIG_H
/*
 * What the tests of damaged pages share: a shop with an archive in a store in memory, and damage.
 */
#include "calls.h"
#include "memory_store.h"
#include "shop.h"

#include "ship/archive_private.h"

#include <check.h>
#include <lladd/device.h>
#include <lladd/stats.h>

enum { PAGE = 4096, WORKERS = 4 };

extern struct memory_store store;
extern struct lladd_store *used; /* by the archive */
extern struct lladd_device *disk, *copy;
extern struct shop shop;
extern struct lladd_archive *archive;
extern struct lladd_error err;
extern uint64_t gens[SHOP_WORKERS];

void setup(void);
void teardown(void);

/* `flags`: LLADD_OPT_NO_THREADS, or the archive has a thread of its own. */
void open_shop_as(struct lladd_device *, unsigned flags, bool instant);
void open_shop(struct lladd_device *, bool instant);
void close_shop(bool kill);
void store_log(void);
struct lladd_stats stats(void);
struct lladd_archive_status status(void);
/* Returns the end of the backup. */
uint64_t backed_up(void);
void work(unsigned times);
/* Stores the log and lets go of it. */
void forget_log(void);

/* All bytes of the page file; the caller frees them. */
unsigned char *read_pages(struct lladd_device *, uint64_t *n);
void write_page(struct lladd_device *, uint64_t page, const void *bytes);
bool is_typed(const unsigned char uuid[16], const unsigned char *pages, uint64_t page);
void uuid_of(struct lladd_device *, unsigned char uuid[16]);
/* Damages every page that has a header. Returns their number. */
unsigned damage_all(struct lladd_device *);

/* The page of a typed extent that a transaction writes in bulk, and a page that changes. */
extern uint64_t bulk_page, bulk_txn, changed_page;
void make_bulk_page(void);
void change_page(uint64_t value);
void expect_change(uint64_t value);
/* Opens a shop with these two pages, of which the archive alone has what they need. */
void open_with_pages(void);

/* The object with the highest name of those that contain `part`. */
struct memory_object *last_object(const char *part);
#endif
