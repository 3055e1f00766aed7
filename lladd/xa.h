/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LLADD_XA_H
#define LLADD_XA_H
/**
 * @file
 * @brief A resource manager for X/Open XA (C193), in the shared object liblladd_xa.so.
 *
 * The transaction manager is configured with `lladd_xa_switch` and an open string; the application
 * works in the transaction that lladd_xa_txn returns. The structs of the standard are in <xa.h>,
 * which is installed next to this header's folder. docs/two-phase-commit.md has the details.
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
 * | threads | `each`, as in the standard; or `any`: one xa_open serves all threads, and any thread
 * may end and resume the association of another thread |
 *
 * Any other string is refused with XAER_INVAL; lladd_xa_error gives the reason. All rmids of a
 * process with the same `dir` share one database handle and must have the same values.
 *
 * Threads: any thread may make any of these calls at any time. As in the standard, an rmid is valid
 * in the whole process.
 */
#include <lladd/lladd.h>
#include <lladd/twophase.h>

#ifdef __cplusplus
extern "C" {
#endif

struct xa_switch_t;
struct xid_t;

/** The switch for the transaction manager. Its flags are TMNOFLAGS: no dynamic registration, no
 *  asynchronous calls; associations can migrate. */
extern LLADD_API struct xa_switch_t lladd_xa_switch;

/** Returns the transaction of the branch with which the calling thread is associated under this
 *  rmid; NULL if the thread has no active association. This thread may work in the transaction
 *  until xa_end. It must not end the transaction: the transaction manager does. Another thread may
 *  end the association (`threads=any`, lladd_xa_abandon) or the branch. If this thread is then in a
 *  call or in a nested top action, the other thread waits for the end of that call or action; with
 *  TMFAIL, a wait of this thread for a lock ends with LLADD_TAKEN. Each later call of this thread
 *  on the transaction returns LLADD_TAKEN. The handle may be passed to calls until this thread
 *  calls xa_start under the rmid, or until any thread calls xa_open after a failure. That xa_open
 *  closes the failed database. A thread that keeps a pin, cursor or view of the transaction between
 *  calls must enclose its use in lladd_use_begin and lladd_use_end (lladd/extension.h). */
LLADD_API struct lladd_txn *lladd_xa_txn(int rmid);
/** Returns the database that any thread has opened under this rmid; NULL if no thread has, or while
 *  it is opened again after a failure. The handle lives until the last xa_close, or until an
 *  xa_open after a failure. It may also be used for work outside of any branch. */
LLADD_API struct lladd_db *lladd_xa_db(int rmid);
/** Sets the options for the next xa_open of this rmid that opens a database: registrations, a
 *  device, an allocator. The open string overrides these options. They are not copied: they must
 *  live until the last xa_close. NULL removes the options. LLADD_BAD_STATE while the rmid is
 *  open. */
LLADD_API int lladd_xa_options(int rmid, const struct lladd_options *options);
/** Gets the error of a call of the switch: of the calling thread's last call, if that call was
 *  under this rmid; otherwise of the last call of any thread under this rmid. Returns the error's
 *  code and copies the error, with a message, to *out. Returns 0 and does not change *out if the
 *  call had no error. */
LLADD_API int lladd_xa_error(int rmid, struct lladd_error *out);

/** Ends the association of a branch with every thread, including suspended associations. Use it for
 *  threads that will not call xa_end (because they are blocked elsewhere, or went on without
 *  xa_end). Afterwards the branch can only be rolled back, by the next xa_rollback. The calling
 *  thread must have opened the rmid; it need not be associated with the branch. Waits for the end
 *  of a call in the branch, as xa_end with TMFAIL does. XA_OK; XAER_NOTA; XAER_PROTO: no thread is
 *  associated with the branch, or the caller has not opened the rmid; XAER_INVAL; XAER_RMFAIL. The
 *  call is not needed for a thread that has ended: the library ends the associations of a thread at
 *  the thread's end. */
LLADD_API int lladd_xa_abandon(int rmid, const struct xid_t *);

/** Ends a prepared branch by an administrator's decision (lladd_heuristic_end). The transaction
 *  manager gets that outcome for the branch until it calls xa_forget. XA_OK, or the code that
 *  xa_rollback would return in this state; XAER_PROTO if the branch is not prepared. The command
 *  `lladd resolve --heuristic` makes the same decision for a database that no process has open. */
LLADD_API int lladd_xa_heuristic(int rmid, const struct xid_t *, enum lladd_outcome);

#ifdef __cplusplus
}
#endif
#endif
