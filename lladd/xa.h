/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_XA_H
#define LLADD_XA_H
/**
 * @file
 * @brief A resource manager for X/Open XA (C193), in the shared object liblladd_xa.so.
 *
 * A transaction manager is given `lladd_xa_switch` and an open string; an application does its work
 * in lladd_xa_txn. The structs of the standard are in <xa.h>, which is installed beside this
 * header's folder. docs/two-phase-commit.md tells the whole.
 *
 * Open string: `key=value` pairs, separated by `;`. A backslash takes the next character as it is.
 *
 * | Key | Value |
 * |---|---|
 * | dir | directory of the database; wanted, unless lladd_xa_options gives a device |
 * | ops | plug-in with extensions (LLADD_PLUGIN_SYMBOL, as `lladd --ops`); may come again |
 * | create | `yes`: the database is made if it is not there. Default `no` |
 * | cache, log_limit | bytes, with K, M or G behind the number if wanted |
 * | owner | owner tag of the branches, at most 63 bytes. Default `xa` |
 * | mode | of files that are made, in octal: lladd_options.file_mode. Default 0600 |
 * | wait | seconds that a call waits for another thread in the branch. Default 60 |
 * | threads | `each`, as in the standard, or `any`: one thread opens, ends and resumes for all |
 *
 * A string that says anything else is refused with XAER_INVAL; lladd_xa_error tells why. Every
 * rmid of a process with the same `dir` shares one database handle, and must say the same.
 *
 * Threads. All of these may be called by any thread at any time; rmids and threads of control are
 * the process's by the standard, and so is what this library keeps of them.
 * @ingroup xa
 */
#include <lladd/lladd.h>

#ifdef __cplusplus
extern "C" {
#endif

struct xa_switch_t;
struct xid_t;

/** What a transaction manager is given. No TMREGISTER, no TMUSEASYNC; associations migrate. */
extern LLADD_API struct xa_switch_t lladd_xa_switch;

/** The transaction of the branch that the calling thread is associated with under this rmid; NULL
 *  if there is none. For work only: the transaction manager ends it. Used by this thread until
 *  xa_end. When another thread ends the association (`threads=any`, lladd_xa_abandon) or
 *  the branch, the call in progress, or the nested top action that is open, runs to its end first;
 *  with TMFAIL a wait for a lock ends with LLADD_TAKEN. Each later call returns LLADD_TAKEN. The
 *  handle may be named until this thread calls xa_start under the rmid. A thread that keeps a pin,
 *  a cursor or a view of the transaction's own from call to call puts lladd_use_begin and
 *  lladd_use_end (lladd/op.h) around them. */
LLADD_API struct lladd_txn *lladd_xa_txn(int rmid);
/** The database that is open under this rmid, by whichever thread; NULL if none is. It lives until
 *  the last xa_close. Work outside any branch may be done in it, too. */
LLADD_API struct lladd_db *lladd_xa_db(int rmid);
/** Options for the next xa_open of this rmid that opens a database: registrations, a device, an
 *  allocator. What the open string says comes first. Nothing is copied: they must live until the
 *  last xa_close. NULL takes them away. LLADD_BAD_STATE while the rmid is open. */
LLADD_API int lladd_xa_options(int rmid, const struct lladd_options *options);
/** Says what the last call of the switch under this rmid came to: the calling thread's own, or if
 *  that thread's last call was none under this rmid, that of whichever thread. Returns its code and
 *  copies what it had to say, `message`, which tells more than the standard's numbers can; 0 and
 *  *out untouched if it had nothing to say. */
LLADD_API int lladd_xa_error(int rmid, struct lladd_error *out);

/** Ends the association of a branch with every thread, suspended ones included, because the thread
 *  does not come back (it is blocked elsewhere, or went on without xa_end). The branch can only be
 *  rolled back then, by the next xa_rollback. The calling thread has opened the rmid; it need not
 *  know the branch. Waits for a call in progress as xa_end with TMFAIL does. XA_OK; XAER_NOTA;
 *  XAER_PROTO: no thread is associated with the branch, or the caller has not opened the rmid;
 *  XAER_INVAL; XAER_RMFAIL. Threads that end without xa_end need no call: the library notices. */
LLADD_API int lladd_xa_abandon(int rmid, const struct xid_t *);

/** An administrator ends a prepared branch (lladd_heuristic); a transaction manager is told when it
 *  comes, until it has said xa_forget. XA_OK, or what xa_rollback returns in this state; XAER_PROTO
 *  if the branch is not prepared. `lladd resolve --heuristic` does the same from outside. */
LLADD_API int lladd_xa_heuristic(int rmid, const struct xid_t *, enum lladd_outcome);

#ifdef __cplusplus
}
#endif
#endif
