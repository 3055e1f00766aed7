/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_RECOVERY_AHEAD_H
#define LL_RECOVERY_AHEAD_H
/* Copies of records that will be wanted soon, and in another order than the log has them: what
 * lies close together is read once.
 *
 *     ll_ahead_want ... ll_ahead_want, ll_ahead_read, ll_ahead_find ... , ll_ahead_clear
 *
 * Nobody depends on it: what could not be read, or had no room, is not there, and who looks for it
 * reads it himself. Threads: none of its own. */
#include "log/log.h"
#include "util/vec.h"

struct ll_ahead {
    size_t most;          /* bytes, about */
    struct ll_vec wanted; /* uint64_t: LSNs */
    struct ll_vec records; /* struct ll_ahead_record, ascending */
    struct ll_vec bytes;
};

struct ll_ahead_record {
    struct ll_record rec; /* without its spans */
    size_t redo, undo;    /* where their bytes begin */
};

void ll_ahead_init(struct ll_ahead *, const struct ll_env *, size_t most);
void ll_ahead_free(struct ll_ahead *); /* can be used again */
void ll_ahead_clear(struct ll_ahead *); /* keeps the memory */

/* False: there is no room for more; it is not wanted. */
bool ll_ahead_want(struct ll_ahead *, lladd_lsn) LLADD_MUST_CHECK;
void ll_ahead_read(struct ll_ahead *, struct ll_log_cursor *);
/* False: it was not read. The spans are good until the next clear, want, read or free. */
bool ll_ahead_find(const struct ll_ahead *, lladd_lsn, struct ll_record *);

#endif
