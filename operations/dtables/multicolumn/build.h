/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLES_MULTICOLUMN_BUILD_H
#define LL_OPERATIONS_DTABLES_MULTICOLUMN_BUILD_H
/* The builder and the reader of a multicolumn_dtable. */
#include "operations/dtables/class/keys.h"
#include "operations/dtables/multicolumn/multicolumn.h"
#include "operations/shared/grow.h"

enum {
    LL_FOOTER_VERSION = 1,
    LL_FOOTER_HEAD = 16,
    LL_FOOTER_CODEC = 5, /* before the name of a codec */
    LL_FOOTER_MAX = LL_FOOTER_HEAD + LL_COLUMNS_MAX + LL_CODECS_MAX * (LL_FOOTER_CODEC + 31)
};

struct ll_multicolumn_builder {
    struct lladd_dtable_builder base;
    const struct ll_layout *l;
    struct ll_keys_builder nodes; /* for each page its first key; the mark is twice the place after
                                   * its last row */
    struct lladd_dtable_writer *out;
    uint32_t limit; /* bytes of a page */
    uint64_t rows, place; /* rows in all; place of the first row in memory */
    /* The rows in memory. */
    uint32_t n, cap;
    unsigned char **values; /* for each column its numbers */
    uint64_t *staged;       /* for each row the numbers of all columns: the row before; the last
                             * n_staged rows, which are not yet in `values`; the row that is being
                             * added */
    uint32_t n_staged;
    unsigned char *tombstone; /* a byte for each row */
    unsigned char **absent;   /* for each column of the values, if they are packed rows, likewise */
    unsigned char *key;     /* bytes of all keys, if a row is odd */
    size_t key_len, key_cap;
    uint32_t *key_end;      /* likewise */
    uint32_t first_tombstone, first_odd; /* the first row of its kind, or UINT32_MAX; odd: its key
                                          * is not in the fields */
    uint32_t *first_absent;              /* for each column */
    /* Planning. */
    struct ll_chosen *chosen; /* for each column */
    struct lladd_codec_plan *plans; /* for each column and codec */
    uint32_t good, next;      /* so many rows fit; plan again at so many */
    bool *absent_now;         /* of the row that is being added, for each column of the values */
    unsigned char *memory, *page;
};
int ll_multicolumn__begin(struct lladd_dtable_builder *);
int ll_multicolumn__add(struct lladd_dtable_builder *, const struct lladd_dtable_key *,
                        const struct lladd_dtable_value *);
int ll_multicolumn__finish(struct lladd_dtable_builder *);
void ll_multicolumn__discard(struct lladd_dtable_builder *);

struct ll_multicolumn_reader {
    struct lladd_dtable base;
    struct ll_keys nodes;
    const struct lladd_dtable_source *in;
    uint64_t n_pages;
    struct ll_pages pages;
};
int ll_multicolumn__open(struct lladd_dtable *, struct lladd_error *);
/* Pins a page. */
int ll_multicolumn__page(const struct ll_multicolumn_reader *, uint64_t page,
                         struct lladd_dtable_pin *, struct ll_page *, struct lladd_error *);

#endif
