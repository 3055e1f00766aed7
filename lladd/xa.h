/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_XA_H
#define LLADD_XA_H
/**
 * @file
 * @brief A resource manager for X/Open XA (C193), in the shared object liblladd_xa.so.
 *
 * The transaction manager is given `lladd_xa_switch` and an open string; the application does its
 * work in lladd_xa_txn. The structs of the standard are in <xa.h>, which is installed beside this
 * header's folder. docs/two-phase-commit.md has the details.
 *
 * Open string: `key=value` pairs, separated by `;`. A backslash makes the next character literal.
 *
 * | Key | Value |
 * |---|---|
 * | dir | directory of the database; required, unless lladd_xa_options gives a device |
 * | ops | plug-in with extensions (LLADD_PLUGIN_SYMBOL, as `lladd --ops`); may be repeated |
 * | create | `yes`: the database is made if it does not exist. Default `no` |
 * | cache, log_limit | bytes; a suffix K, M or G is allowed |
 * | owner | owner tag of the branches, at most 63 bytes. Default `xa` |
 * | mode | mode of new files, in octal: lladd_options.file_mode. Default 0600 |
 * | wait | seconds that a call waits for another thread in the branch. Default 60 |
 * | threads | `each`, as in the standard, or `any`: one thread opens, ends and resumes for all |
 *
 * Any other string is refused with XAER_INVAL; lladd_xa_error gives the reason. All rmids of a
 * process with the same `dir` share one database handle and must have the same string.
 *
 * Threads. Any thread may make any of these calls at any time. By the standard, rmids and threads
 * of control belong to the process; so does the state that this library keeps of them.
 */
#include <lladd/lladd.h>
#include <lladd/twophase.h>

#ifdef __cplusplus
extern "C" {
#endif

struct xa_switch_t;
struct xid_t;

/** The switch for the transaction manager. No TMREGISTER, no TMUSEASYNC; associations migrate. */
extern LLADD_API struct xa_switch_t lladd_xa_switch;

/** The transaction of the branch that the calling thread is associated with under this rmid; NULL
 *  if there is none. Only for work: the transaction manager ends it. This thread may use it until
 *  xa_end. When another thread ends the association (`threads=any`, lladd_xa_abandon) or the
 *  branch, the call in progress, or the open nested top action, runs to its end first; with TMFAIL
 *  a wait for a lock ends with LLADD_TAKEN. Each later call returns LLADD_TAKEN. The handle may be
 *  used in calls until this thread calls xa_start under the rmid, or any thread calls xa_open after
 *  a failure: that closes the failed database. A thread that keeps a pin, cursor or view of the
 *  transaction's own from call to call must put lladd_use_begin and lladd_use_end (lladd/op.h)
 *  around them. */
LLADD_API struct lladd_txn *lladd_xa_txn(int rmid);
/** The database that is open under this rmid, opened by any thread; NULL if none is. It lives until
 *  the last xa_close. It may also be used for work outside of any branch. */
LLADD_API struct lladd_db *lladd_xa_db(int rmid);
/** Options for the next xa_open of this rmid that opens a database: registrations, a device, an
 *  allocator. The open string overrides them. Nothing is copied: they must live until the last
 *  xa_close. NULL removes them. LLADD_BAD_STATE while the rmid is open. */
LLADD_API int lladd_xa_options(int rmid, const struct lladd_options *options);
/** The result of the last call of the switch under this rmid: that of the calling thread, or, if
 *  that thread's last call was under another rmid, that of any thread. Returns its error code and
 *  copies the error; its `message` says more than the standard's numbers can; returns 0 and
 *  leaves *out alone if there was no error. */
LLADD_API int lladd_xa_error(int rmid, struct lladd_error *out);

/** Ends the association of a branch with every thread, suspended ones included, because a thread
 *  does not come back (it is blocked elsewhere, or continued without xa_end). Afterwards the branch
 *  can only be rolled back, by the next xa_rollback. The calling thread must have opened the rmid;
 *  it need not know the branch. Waits for a call in progress as xa_end with TMFAIL does. XA_OK;
 *  XAER_NOTA; XAER_PROTO: no thread is associated with the branch, or the caller has not opened the
 *  rmid; XAER_INVAL; XAER_RMFAIL. A thread that exits without xa_end needs no call: the library
 *  notices. */
LLADD_API int lladd_xa_abandon(int rmid, const struct xid_t *);

/** Ends a prepared branch by an administrator's decision (lladd_heuristic_end). The transaction
 *  manager gets that outcome for the branch until it calls xa_forget. XA_OK, or what xa_rollback
 *  returns in this state; XAER_PROTO if the branch is not prepared. `lladd resolve --heuristic`
 *  does the same from outside. */
LLADD_API int lladd_xa_heuristic(int rmid, const struct xid_t *, enum lladd_outcome);

#ifdef __cplusplus
}
#endif
#endif
