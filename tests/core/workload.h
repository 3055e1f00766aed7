/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_CORE_WORKLOAD_H
#define TESTS_CORE_WORKLOAD_H
/*
 * One workload that uses all of these features: checkpoints of the application and of maintenance,
 * truncation, segment switches, savepoints, top actions (open, closed, nested), the undo-only
 * mechanism, logical undo, eviction of uncommitted pages, page images, prepared transactions that
 * commit and abort, asynchronous commits. At its end there are open transactions, an open top
 * action and a prepared transaction.
 *
 * It is deterministic on a fixture without threads.
 */
#include "history.h"
#include "db_fixture.h"

enum { W_PAGES = 24 };

/* Sets the options for the workload: the smallest segments, ring and cache. Call it before
 * fixture_open. */
void workload_options(struct fixture *);
/* Formats the pages of a new database and makes the model; asserts. */
void workload_prepare(struct fixture *, struct history *);
/* Runs the workload. Stops at the first call that fails, and returns the call's code; *err has the
 * details. */
int workload_run(struct fixture *, struct history *, struct lladd_error *err);

#endif
