/* SPDX-License-Identifier: BSD-2-Clause */
/* compress_dtable: compresses the streams of the layers below it (operations/dtables/core/pack.c).
 * Blocks in the block cache are uncompressed. */
#include "operations/dtables/class/classes.h"

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table that is compressed"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_compress = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "compress_dtable",
    .version = 1,
    .about = "compresses what the tables below it store",
    .params = params,
    .packs = true,
};
