/* SPDX-License-Identifier: BSD-2-Clause */
/* Which bytes or which record a logged update has changed, for an isolation that locks them
 * (lladd_participant.protect). The functions take the answer from the undo bytes, and do not read
 * the page. */
#include "operations/operations_private.h"

#include <lladd/log_read.h>
#include <string.h>

#define OFFSET_BYTES 2u
#define SLOT_BYTES 2u
#define COUNTER_BYTES 8u

static bool is_of(const struct lladd_log_entry *e, const struct lladd_op *op)
{
    return e->op && strcmp(e->op, op->name) == 0 && e->op_version == op->version;
}

bool lladd_logged_bytes(const struct lladd_log_entry *e, uint32_t *offset, uint32_t *len)
{
    bool counter = is_of(e, &ll_operations__counter_add);
    if (e->undo.len < OFFSET_BYTES ||
        (!counter && !is_of(e, &ll_operations__set) && !is_of(e, &ll_operations__set_long)))
        return false;
    *offset = lladd_get16(e->undo.data);
    *len = counter ? COUNTER_BYTES : (uint32_t)e->undo.len - OFFSET_BYTES;
    return true;
}

bool lladd_logged_slot(const struct lladd_log_entry *e, uint32_t *slot)
{
    static const struct lladd_op *const of_slots[] = {
        &ll_operations__slotted_alloc, &ll_operations__slotted_free, &ll_operations__slotted_set,
        &ll_operations__slotted_add,   &ll_operations__fixed_alloc,  &ll_operations__fixed_free,
        &ll_operations__fixed_set,     &ll_operations__fixed_add};
    bool is = false;
    for (size_t i = 0; i < sizeof of_slots / sizeof of_slots[0]; i++)
        is = is || is_of(e, of_slots[i]);
    if (!is || e->undo.len < SLOT_BYTES)
        return false;
    *slot = lladd_get16(e->undo.data);
    return true;
}
