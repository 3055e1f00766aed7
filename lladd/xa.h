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
 * | wait | seconds that xa_start waits for another thread's association. Default 60 |
 * | threads | `each`, as in the standard, or `any`: what one thread opens is open for all |
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
 *  xa_end. */
LLADD_API struct lladd_txn *lladd_xa_txn(int rmid);
/** The database that is open under this rmid, by whichever thread; NULL if none is. It lives until
 *  the last xa_close. Work outside any branch may be done in it, too. */
LLADD_API struct lladd_db *lladd_xa_db(int rmid);
/** Options for the next xa_open of this rmid that opens a database: registrations, a device, an
 *  allocator. What the open string says comes first. Nothing is copied: they must live until the
 *  last xa_close. NULL takes them away. LLADD_BAD_STATE while the rmid is open. */
LLADD_API int lladd_xa_options(int rmid, const struct lladd_options *options);
/** Copies what the last call under this rmid that failed had to say, of whichever thread, and
 *  returns its code; 0 and *out untouched if none has failed. `message` tells more than the
 *  standard's numbers can. */
LLADD_API int lladd_xa_error(int rmid, struct lladd_error *out);

/** An administrator ends a prepared branch (lladd_heuristic); a transaction manager is told when it
 *  comes, until it has said xa_forget. XA_OK, or what xa_rollback returns in this state; XAER_PROTO
 *  if the branch is not prepared. `lladd resolve --heuristic` does the same from outside. */
LLADD_API int lladd_xa_heuristic(int rmid, const struct xid_t *, enum lladd_outcome);

#ifdef __cplusplus
}
#endif
#endif
