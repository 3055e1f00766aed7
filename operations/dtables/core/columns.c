/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads some columns of a row. Uses the class's own function, if it has one; otherwise reads the
 * packed row. */
#include "operations/dtables/core/dtable.h"

int lladd_dtable_row_unpack(const struct lladd_dtable_value *row,
                            const struct lladd_dtable_columns *want,
                            enum lladd_dtable_state *state, struct lladd_error *err)
{
    *state = row->state;
    if (row->state != LLADD_DTABLE_FOUND)
        return 0;
    for (size_t i = 0; i < want->n; i++)
        if (!lladd_dtable_row_column(row->bytes, want->numbers[i], &want->values[i]))
            return lladd_error_set(err, LLADD_BAD_RECORD, "the value is not a packed row");
    return 0;
}

int lladd_dtable_lookup_columns(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                                const struct lladd_dtable_columns *want,
                                enum lladd_dtable_state *state, struct lladd_error *err)
{
    struct lladd_dtable_value row = {.state = LLADD_DTABLE_ABSENT};
    TRY(ll_dtable__here(t, err));
    TRY(lladd_dtable_check_key(&t->order, key, err));
    *state = LLADD_DTABLE_ABSENT;
    if (t->kind->lookup_columns)
        return t->kind->lookup_columns(t, key, want, state, err);
    int rc = lladd_dtable_ask(t, key, &want->pins[want->n], &row, err);
    return rc ? rc : lladd_dtable_row_unpack(&row, want, state, err);
}
