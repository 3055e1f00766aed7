/* SPDX-License-Identifier: BSD-2-Clause */
/* The xa_switch_t that a transaction manager uses. */
#include "xa/xa_private.h"

/* The resource manager has no asynchronous calls, so no handle is valid. */
static int complete(int *handle, int *retval, int rmid, long flags)
{
    struct ll_xa__rm *rm;
    int rc = ll_xa__enter(rmid, flags, TMMULTIPLE | TMNOWAIT, &rm);
    (void)handle;
    (void)retval;
    return rc ? rc
              : ll_xa__leave(rm, ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT,
                                            "asynchronous calls (TMASYNC) are not supported"));
}

struct xa_switch_t lladd_xa_switch = {
    .name = "LLADD",
    .flags = TMNOFLAGS,
    .version = 0,
    .xa_open_entry = ll_xa__open,
    .xa_close_entry = ll_xa__close,
    .xa_start_entry = ll_xa__start,
    .xa_end_entry = ll_xa__end,
    .xa_rollback_entry = ll_xa__rollback,
    .xa_prepare_entry = ll_xa__prepare,
    .xa_commit_entry = ll_xa__commit,
    .xa_recover_entry = ll_xa__recover,
    .xa_forget_entry = ll_xa__forget,
    .xa_complete_entry = complete,
};
