/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_XA_BED_H
#define TESTS_XA_BED_H
/*
 * The fixture of the tests of xa/: a database in memory that is opened through the switch, with
 * some counters on one page, and that can crash.
 *
 *     struct bed b; bed_init(&b); a database, with the page; nothing is open xa_open for RMID with
 *     bed_info(): everything goes through `xa` bed_crash(&b, how); closes; changes that are not
 *     durable are lost bed_free(&b); closes what the calling thread has opened; asserts that
 *     nothing leaked
 */
#include "support/fault_alloc.h"
#include "support/fault_device.h"
#include "support/fixtures.h"
#include "xa/xa.h"

#include <check.h>
#include <lladd/lladd.h>
#include <lladd/xa.h>
#include <stdlib.h>
#include <string.h>

enum { RMID = 7, CELLS = 16 };

struct bed {
    struct lladd_device *base;
    struct fault_device *fd;
    struct fault_alloc mem;
    struct lladd_options options;
    struct lladd_error err;
    lladd_pageno page;
};

/* The calls of the switch, by their names in the standard. */
#define xa_open(info, rmid, flags) lladd_xa_switch.xa_open_entry(info, rmid, flags)
#define xa_close(info, rmid, flags) lladd_xa_switch.xa_close_entry(info, rmid, flags)
#define xa_start(xid, rmid, flags) lladd_xa_switch.xa_start_entry(xid, rmid, flags)
#define xa_end(xid, rmid, flags) lladd_xa_switch.xa_end_entry(xid, rmid, flags)
#define xa_rollback(xid, rmid, flags) lladd_xa_switch.xa_rollback_entry(xid, rmid, flags)
#define xa_prepare(xid, rmid, flags) lladd_xa_switch.xa_prepare_entry(xid, rmid, flags)
#define xa_commit(xid, rmid, flags) lladd_xa_switch.xa_commit_entry(xid, rmid, flags)
#define xa_recover(xids, n, rmid, flags) lladd_xa_switch.xa_recover_entry(xids, n, rmid, flags)
#define xa_forget(xid, rmid, flags) lladd_xa_switch.xa_forget_entry(xid, rmid, flags)
#define xa_complete(h, r, rmid, flags) lladd_xa_switch.xa_complete_entry(h, r, rmid, flags)

/* Asserts the code, and shows the library's error. */
#define gives(want, call) \
    do { \
        struct lladd_error gives_err = LLADD_ERROR_INIT; \
        int gives_rc = (call); \
        (void)lladd_xa_error(RMID, &gives_err); \
        ck_assert_msg(gives_rc == (want), "%s: %d, not %d: %s", #call, gives_rc, (int)(want), \
                      gives_err.message); \
    } while (0)

void bed_init(struct bed *);
void bed_free(struct bed *);
/* Opens RMID in the calling thread. */
void bed_open(struct bed *);
void bed_open_as(struct bed *, int rmid, const char *info);
void bed_close(struct bed *);
/* Closes, and leaves the state that a crash at this moment would leave. */
void bed_crash(struct bed *, const struct fault_crash *);
extern const struct fault_crash bed_power, bed_kill;

XID bed_xid(const char *text);
bool bed_same(const XID *, const XID *);
/* Adds to a counter in the branch that the thread is associated with. */
void bed_add(struct bed *, unsigned cell, int64_t delta);
void bed_add_in(struct bed *, struct lladd_txn *, unsigned cell, int64_t delta);
/* The value of a counter. */
int64_t bed_get(struct bed *, unsigned cell);
/* A branch that has added to a counter: active, idle, prepared. */
void bed_work(struct bed *, XID *, unsigned cell, int64_t delta);
void bed_prepared(struct bed *, XID *, unsigned cell, int64_t delta);

#endif
