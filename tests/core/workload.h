/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_CORE_WORKLOAD_H
#define TESTS_CORE_WORKLOAD_H
/*
 * One workload that uses all of this: checkpoints of both sorts, truncation, segment switches,
 * savepoints, top actions open and closed and nested, the undo-only mechanism, logical undo,
 * eviction of uncommitted pages, page images, prepare, commit and abort of what was prepared,
 * asynchronous commits. At its end transactions, a top action and a prepared transaction are open.
 *
 * It is deterministic on a fixture without threads.
 */
#include "history.h"
#include "db_fixture.h"

enum { W_PAGES = 24 };

/* Options for it: the smallest segments, ring and cache. Before fixture_open. */
void workload_options(struct fixture *);
/* Formats the pages of a new database and makes the model; asserts. */
void workload_prepare(struct fixture *, struct history *);
/* Runs it. Stops at the first call that fails and returns its code; *err says more. */
int workload_run(struct fixture *, struct history *, struct lladd_error *err);

#endif
