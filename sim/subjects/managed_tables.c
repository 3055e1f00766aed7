/* SPDX-License-Identifier: BSD-2-Clause */
/* Managed dTables with keys of 32 bits, of several subjects. */
#include "sim/subjects/managed_tables.h"

#include <lladd/bytes.h>

int ll_sim_managed_make(struct lladd_db *db, const char *name, enum lladd_managed_schedule schedule,
                        uint32_t flags, struct lladd_managed **out, struct lladd_error *err)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.type = LLADD_DTABLE_U32;
    o.schedule = schedule;
    o.flags = flags;
    return lladd_managed_create_open(db, name, &o, out, err);
}

int ll_sim_managed_number(struct lladd_txn *txn, struct lladd_managed *t, uint32_t key,
                          uint32_t *out)
{
    struct lladd_dtable_key k = lladd_dtable_u32(key);
    unsigned char bytes[8];
    size_t len;
    int rc = lladd_managed_get(txn, t, &k, bytes, sizeof bytes, &len);
    *out = rc ? 0 : lladd_get32(bytes);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}
