/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_CLASS_CLASSES_H
#define LL_OPERATIONS_DTABLE_CLASS_CLASSES_H
/* The classes that every database has. */
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
    X(keydiv) \
    X(column)

#define LL_DTABLE_CLASS(name) extern const struct lladd_dtable_class ll_dtable_class_##name;
LL_DTABLE_CLASSES(LL_DTABLE_CLASS)
#undef LL_DTABLE_CLASS

/* A cell fits into a block of the smallest size. */
#define LL_DTABLE_CELL_MAX 4000

#endif
