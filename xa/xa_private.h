/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_XA_PRIVATE_H
#define LL_XA_PRIVATE_H
/* The resource manager's state between calls.
 *
 *   rm      one resource manager instance: an rmid, its open string, its openings
 *   opening the state R1 of one thread (with `threads=any` of all threads) under an rmid, and its
 *           recovery scan
 *   store   one database, shared by the rmids with open strings for this database
 *   branch  a transaction branch that the store knows: states S1 to S5 (C193, table 6-4)
 *   assoc   an association of a thread with a branch: T1, or T2 if suspended (table 6-3). An
 *           active association that another thread has ended moves to the rm's list `taken`, which
 *           keeps the transaction's handle for the association's thread
 *
 * XA's calls get a number instead of a handle, so the state is in one variable of the process,
 * `ll_xa__all` (docs/decisions/xa-registry.md). Its mutex guards all structs of this file. A thread
 * holds the mutex only for short steps, not while it opens a database, prepares or ends a branch,
 * or takes a branch from another thread. A thread that begins such a long step marks the branch
 * busy or the store opening; afterwards it wakes the waiting threads.
 *
 * XA-1  A call changes state only if it returns XA_OK, XA_RDONLY, XA_RB*, XA_HEUR* or, for
 *       xa_recover, a count. Exceptions: if the handle is poisoned, xa_end ends the association
 *       although it returns XAER_RMFAIL; lladd_xa_abandon leaves the branch rollback-only when it
 *       returns an error; a branch that a program has ended or forgotten with calls of the library
 *       is removed when a call returns XAER_NOTA for it.
 * XA-2  At most one association of a branch is active: one thread at a time uses a transaction.
 * XA-3  A branch is not ended while a thread is associated with it, even if the association is
 *       suspended.
 * XA-4  Only the thread that is active in a branch uses the branch's transaction; if no thread is
 *       active, only the thread that has marked the branch busy. Both take the transaction first
 *       (lladd_txn_take) and give it back. */
#include "xa/xa.h"

#include <lladd/lladd.h>
#include <lladd/sync.h>
#include <lladd/xa.h>
#include <threads.h>

#define LL_XA__PLUGINS 8 /* most plug-ins of an open string */

enum ll_xa__state {
    LL_XA__ACTIVE = 1, /* S1 with an active association, otherwise S2 */
    LL_XA__PREPARED,   /* S3 */
    LL_XA__ROLLBACK_ONLY /* S4 */,
    LL_XA__HEURISTIC, /* S5 */
    LL_XA__ENDED      /* S0; not used: a branch that has ended is removed */
};

struct ll_xa__assoc {
    struct ll_xa__rm *rm;
    struct ll_xa__branch *branch;
    uint64_t thread; /* 0: the thread has ended or has closed the rm; the association is suspended
                      * and may migrate */
    bool suspended;
    bool migrates;                   /* suspended, and any thread may resume it */
    struct lladd_txn *txn;           /* in the list `taken`: the handle that the thread may still
                                      * pass to calls */
    struct ll_xa__assoc *next;       /* next association of the branch */
    struct ll_xa__assoc *next_of_rm; /* next association of the rm */
};

struct ll_xa__branch {
    struct lladd_gid gid;
    enum ll_xa__state state;
    bool busy;             /* a thread is preparing or ending the branch, or taking its transaction
                            * from another thread */
    int heuristic;         /* XA_HEURCOM or XA_HEURRB, in S5 */
    struct lladd_txn *txn; /* NULL: in doubt since the database was opened, and not claimed yet;
                            * heuristically ended; or lost because the handle is poisoned */
    struct ll_xa__assoc *assocs;
    struct ll_xa__branch *next; /* next branch in the bucket */
};

/* The contents of an open string. */
struct ll_xa__spec {
    char dir[MAXINFOSIZE], owner[64];
    char plugins[LL_XA__PLUGINS][MAXINFOSIZE];
    unsigned n_plugins;
    bool create, any_thread;
    uint64_t cache_bytes, log_limit_bytes, wait_ns;
    uint32_t file_mode;
};

struct ll_xa__store {
    struct ll_xa__spec spec;
    const struct lladd_options *given; /* lladd_xa_options of the rmid that has opened the
                                        * database */
    struct lladd_db *db;
    struct lladd_options options;
    void *plugins[LL_XA__PLUGINS];
    unsigned n_plugins;
    struct ll_xa__branch **buckets;
    size_t n_buckets, n_branches;
    size_t refs;               /* number of openings */
    bool opening;              /* a thread opens or closes the database; other threads wait for
                                * ll_xa__all.opened */
    struct lladd_cond changed; /* a branch is no longer busy, or an association has ended */
    struct ll_xa__store *next;
};

struct ll_xa__opening {
    uint64_t thread;
    bool scanning;
    struct lladd_gid *scan;
    size_t n_scan, scanned;
    struct ll_xa__opening *next;
};

struct ll_xa__rm {
    int rmid;
    char info[MAXINFOSIZE];
    struct ll_xa__store *store; /* NULL: not open */
    struct ll_xa__opening *openings;
    struct ll_xa__assoc *assocs;
    struct ll_xa__assoc *taken; /* associations of threads from which the transaction was taken */
    const struct lladd_options *options;
    struct lladd_error err;
    size_t calls; /* number of threads that are in a call under this rm */
    struct ll_xa__rm *next;
};

struct ll_xa__all {
    struct lladd_mutex mutex;
    struct lladd_cond opened;
    const struct lladd_allocator *memory; /* for the structs ll_xa__rm, which outlive databases;
                                           * NULL: malloc */
    tss_t mark; /* thread-specific key; its destructor runs at a thread's end */
    bool marks; /* `mark` has been created */
    struct ll_xa__rm *rms;
    struct ll_xa__store *stores;
};
extern struct ll_xa__all ll_xa__all;

/* ---- open_string.c ---- */

/* Parses an open string. LLADD_BAD_ARGUMENT: the message names the wrong part. */
int ll_xa__parse(const char *text, struct ll_xa__spec *out, struct lladd_error *err);

/* ---- memory.c ---- */

/* Zeroed memory; NULL: out of memory. `mem` is nullable. */
void *ll_xa__new(const struct lladd_allocator *mem, size_t n, size_t size);
void ll_xa__delete(const struct lladd_allocator *mem, void *);

/* ---- registry.c: under the mutex, except ll_xa__enter, ll_xa__xid_ok and ll_xa__gid ---- */

struct ll_xa__rm *ll_xa__rm_find(int rmid);
/* The rm, created if it does not exist; NULL: out of memory. */
struct ll_xa__rm *ll_xa__rm_of(int rmid);
/* Counts a call under the rm, and clears the last error of the rm and of the thread. */
void ll_xa__begin(struct ll_xa__rm *);
/* Counts the end of a call, and frees the rm if it is not open and has neither calls, options nor
 * an error. */
void ll_xa__rm_settle(struct ll_xa__rm *);
/* The calling thread's opening, or with `threads=any` the opening of all threads. NULL: R0. */
struct ll_xa__opening *ll_xa__opening_of(struct ll_xa__rm *);
/* Stores the error of a failed call, and returns the XA code. */
int ll_xa__say(struct ll_xa__rm *, int xa_code, int code, const char *fmt, ...) LLADD_PRINTF(4, 5);
/* As ll_xa__say, for an error of the library. */
int ll_xa__say_error(struct ll_xa__rm *, int xa_code, const struct lladd_error *);
/* Takes the mutex and finds the rm. XA_OK: *out is the rm, and the mutex is held. Otherwise the
 * mutex is not held: XAER_PROTO in R0, XAER_ASYNC, XAER_INVAL for a flag that is not in
 * `allowed`. */
int ll_xa__enter(int rmid, long flags, unsigned long allowed, struct ll_xa__rm **out);
/* Releases the mutex and returns rc. */
int ll_xa__leave(struct ll_xa__rm *, int rc);
/* XAER_RMFAIL if the handle is poisoned. */
int ll_xa__healthy(struct ll_xa__rm *);
bool ll_xa__xid_ok(const struct xid_t *);
struct lladd_gid ll_xa__gid(const struct xid_t *);

/* ---- store.c ---- */

/* Finds or opens the spec's store, and adds a reference. May release the mutex during the call. */
int ll_xa__store_open(struct ll_xa__rm *, const struct ll_xa__spec *, struct ll_xa__store **out);
void ll_xa__store_release(struct ll_xa__store *);
/* Closes and reopens a poisoned store if none of its branches has an active association or is
 * busy. */
int ll_xa__store_reopen(struct ll_xa__rm *);

/* ---- open.c, thread.c: under the mutex ---- */

/* Takes the opening's thread from R1 to R0. If this closes the database, releases the mutex during
 * the close. */
void ll_xa__opening_end(struct ll_xa__rm *, struct ll_xa__opening *);
/* Makes sure that the calling thread's associations and openings are ended at the thread's end.
 * False: out of memory. */
bool ll_xa__thread_mark(void);

/* ---- branch.c: under the mutex ---- */

struct ll_xa__branch *ll_xa__branch_find(struct ll_xa__store *, const struct lladd_gid *);
struct ll_xa__branch *ll_xa__branch_add(struct ll_xa__store *, const struct lladd_gid *);
void ll_xa__branch_remove(struct ll_xa__store *, struct ll_xa__branch *);
void ll_xa__branches_free(struct ll_xa__store *);
/* The active association of a branch, of any thread; NULL: none. */
struct ll_xa__assoc *ll_xa__active(const struct ll_xa__branch *);
/* Finds the branch, and waits while it is busy. XA_OK and *out NULL: the store has no such branch.
 * XAER_RMFAIL if the database was closed during the wait; XA_RETRY with `nowait` if the branch is
 * busy. */
int ll_xa__branch_idle(struct ll_xa__rm *, const struct lladd_gid *, bool nowait,
                       struct ll_xa__branch **out);
/* The calling thread's association with this branch under this rm; NULL: T0. */
struct ll_xa__assoc *ll_xa__mine(const struct ll_xa__branch *, const struct ll_xa__rm *);
/* The suspended association that the calling thread may resume: its own, or one that may migrate;
 * with `threads=any` the association of any thread. NULL: none. */
struct ll_xa__assoc *ll_xa__resumable(const struct ll_xa__branch *, const struct ll_xa__rm *);
/* Adds an active association of the calling thread. NULL: out of memory. */
struct ll_xa__assoc *ll_xa__assoc_add(struct ll_xa__branch *, struct ll_xa__rm *);
void ll_xa__assoc_remove(struct ll_xa__assoc *);
/* Moves an association to the list `taken`, because the transaction was taken from its thread. */
void ll_xa__assoc_taken(struct ll_xa__assoc *);
/* Frees the thread's entries in the rm's list `taken`; thread 0: all entries. */
void ll_xa__let_go(struct ll_xa__rm *, uint64_t thread);
/* The calling thread's active association under this rm; NULL: none. */
struct ll_xa__assoc *ll_xa__current(const struct ll_xa__rm *);
/* The thread's first association under this rm that cannot migrate, active or suspended; thread 0:
 * the first association of any thread, even if it can migrate. NULL: none. */
struct ll_xa__assoc *ll_xa__tied(const struct ll_xa__rm *, uint64_t thread);
/* Does an opening or an association under this rm have the thread's number? */
bool ll_xa__knows(const struct ll_xa__rm *, uint64_t thread);
/* Removes the thread's number from the associations that it has suspended for migration. */
void ll_xa__disown(struct ll_xa__rm *, uint64_t thread);

/* ---- the calls of the standard ---- */

int ll_xa__open(char *info, int rmid, long flags);
int ll_xa__close(char *info, int rmid, long flags);
int ll_xa__start(XID *, int rmid, long flags);
int ll_xa__end(XID *, int rmid, long flags);
int ll_xa__prepare(XID *, int rmid, long flags);
int ll_xa__commit(XID *, int rmid, long flags);
int ll_xa__rollback(XID *, int rmid, long flags);
int ll_xa__recover(XID *, long count, int rmid, long flags);
int ll_xa__forget(XID *, int rmid, long flags);

#endif
