/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_XA_FIXTURE_H
#define TESTS_XA_FIXTURE_H
/*
 * The fixture of the tests of xa/: a database on a memory device, with counters on one page. Tests
 * open the database through the switch, and can simulate crashes.
 *
 *     struct fixture b;
 *     fixture_init(&b);                     makes the database and its page; leaves it closed
 *     fixture_open(&b);                     opens RMID through the switch
 *     fixture_crash(&b, how);               makes the files what a crash `how` would leave now, and
 *                                           closes the database
 *     fixture_free(&b);                     closes RMID in the calling thread; asserts that nothing
 *                                           leaked
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

struct fixture {
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

/* Asserts that the call returns `want`; a failure shows the library's error. */
#define gives(want, call) \
    do { \
        struct lladd_error gives_err = LLADD_ERROR_INIT; \
        int gives_rc = (call); \
        (void)lladd_xa_error(RMID, &gives_err); \
        ck_assert_msg(gives_rc == (want), "%s: %d, not %d: %s", #call, gives_rc, (int)(want), \
                      gives_err.message); \
    } while (0)

void fixture_init(struct fixture *);
void fixture_free(struct fixture *);
/* Opens RMID in the calling thread. */
void fixture_open(struct fixture *);
void fixture_open_as(struct fixture *, int rmid, const char *info);
void fixture_close(struct fixture *);
/* Makes the files what a crash `how` would leave now, and closes the database. */
void fixture_crash(struct fixture *, const struct fault_crash *how);
extern const struct fault_crash fixture_power, fixture_kill;

XID fixture_xid(const char *text);
bool fixture_same(const XID *, const XID *);
/* Adds to a counter, in the branch with which the thread is associated. */
void fixture_add(struct fixture *, unsigned cell, int64_t delta);
void fixture_add_in(struct fixture *, struct lladd_txn *, unsigned cell, int64_t delta);
int64_t fixture_get(struct fixture *, unsigned cell);
/* Make a branch that has added to a counter. fixture_work leaves the branch idle; fixture_prepared
 * prepares it. */
void fixture_work(struct fixture *, XID *, unsigned cell, int64_t delta);
void fixture_prepared(struct fixture *, XID *, unsigned cell, int64_t delta);

#endif
