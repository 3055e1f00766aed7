/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_CLASS_CLASSES_H
#define LL_OPERATIONS_DTABLE_CLASS_CLASSES_H
/* The dTable classes that every database has. */
#include "operations/shared/grow.h"
#include "operations/shared/try.h"

#include <lladd/dtable_class.h>

#define LL_DTABLE_CLASSES(X) \
    X(linear) \
    X(fixed) \
    X(array) \
    X(empty) \
    X(btree) \
    X(bloom) \
    X(exception) \
    X(dictionary) \
    X(usstate) \
    X(smallint) \
    X(ustring) \
    X(deltaint) \
    X(cache) \
    X(auto) \
    X(compress) \
    X(exist) \
    X(ranges) \
    X(versions) \
    X(keydiv) \
    X(column) \
    X(multicolumn)

#define LL_DTABLE_CLASS(name) extern const struct lladd_dtable_class ll_dtable_class_##name;
LL_DTABLE_CLASSES(LL_DTABLE_CLASS)
#undef LL_DTABLE_CLASS

/* Called in `configure`: tells the base that its values will have `bytes` bytes, at most 8. Layers
 * below then use this size instead of the size of the first value added. A rejection is ignored
 * here: a value that the base cannot store is rejected when it is added. */
static inline int ll_settle_base(struct lladd_dtable_config *c,
                                 const struct lladd_dtable_caps *base, uint64_t bytes,
                                 struct lladd_error *err)
{
    static const unsigned char zeros[8];
    struct lladd_dtable_value v = lladd_dtable_value_of(zeros, (size_t)bytes);
    if (!base->learned)
        return 0;
    int rc = lladd_dtable_accepts(lladd_dtable_param_child(c, "base"), &v, err);
    return rc == LLADD_DTABLE_REJECT ? 0 : rc;
}

/* Copies n cells of `cell` bytes, from cell `first` on, to `out`. */
static inline int ll_cells_copy(struct lladd_dtable_pin *pin, const struct lladd_dtable_source *s,
                                uint32_t cell, uint64_t first, size_t n, unsigned char *out,
                                struct lladd_error *err)
{
    uint32_t per = lladd_dtable_source_block(s) / cell, len;
    for (size_t done = 0, some; done < n; done += some) {
        uint64_t block = (first + done) / per, from = (first + done) % per;
        const unsigned char *bytes;
        some = n - done < per - from ? n - done : (size_t)(per - from);
        int rc = lladd_dtable_block(pin, 1, s, block, &bytes, &len, err);
        if (rc)
            return rc;
        if (len < (from + some) * cell)
            return lladd_error_set(err, LLADD_CORRUPT_RUN, "a run's cells are missing");
        memcpy(out + done * cell, bytes + from * cell, some * cell);
    }
    return 0;
}

/* Largest size of a value in a cell. A cell must fit into a block of the smallest size. */
#define LL_DTABLE_CELL_MAX 4000

#endif
