/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLES_MULTICOLUMN_READ_H
#define LL_OPERATIONS_DTABLES_MULTICOLUMN_READ_H
/* The reader's callbacks of the class: see <lladd/dtable_class.h>. */
#include "operations/dtables/multicolumn/build.h"

int ll_multicolumn__find(const struct lladd_dtable *, const struct lladd_dtable_key *,
                         struct lladd_dtable_pin *, uint64_t *place, bool *exact,
                         struct lladd_error *);
int ll_multicolumn__at(const struct lladd_dtable *, uint64_t place, struct lladd_dtable_pin *,
                       struct lladd_dtable_key *, struct lladd_dtable_value *,
                       struct lladd_error *);
int ll_multicolumn__lookup(const struct lladd_dtable *, const struct lladd_dtable_key *,
                           struct lladd_dtable_pin *, struct lladd_dtable_value *,
                           struct lladd_error *);
int ll_multicolumn__columns_at(const struct lladd_dtable *, uint64_t place,
                               const struct lladd_dtable_columns *, enum lladd_dtable_state *,
                               struct lladd_error *);
int ll_multicolumn__lookup_columns(const struct lladd_dtable *, const struct lladd_dtable_key *,
                                   const struct lladd_dtable_columns *, enum lladd_dtable_state *,
                                   struct lladd_error *);
int ll_multicolumn__copy(const struct lladd_dtable *, uint64_t place, size_t n,
                         unsigned char *out, size_t room, size_t *width, size_t *got,
                         struct lladd_error *);
int ll_multicolumn__copy_column(const struct lladd_dtable *, uint32_t column, uint64_t place,
                                size_t n, unsigned char *out, size_t room, size_t *width,
                                size_t *got, struct lladd_error *);

#endif
