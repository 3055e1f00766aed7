/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_CHECK_PRIVATE_H
#define SHIP_CHECK_PRIVATE_H
/* A check of a store: check.c finds the backup and restores it in memory, check_objects.c reads the
 * objects that the restore needs. */
#include "ship/image_private.h"

struct ll_ship_check {
    struct lladd_store *store;
    unsigned threads;
    struct lladd_check_options opt;
    struct lladd_check_info info;
    struct ll_ship_mem mem;
    struct ll_ship_pace pace;
    struct ll_ship_manifest m;
    bool stopped;            /* the function for findings has stopped the check */
    uint64_t target;         /* the archive is whole up to here; 0: it has no log above the
                                backup's end, or is damaged */
    struct ll_ship_buf told; /* names of objects with a finding, each with its NUL */
    struct ll_ship_buf object;
    struct lladd_device *shown; /* the database as the store has it */
    const char *what; /* for `progress` */
    uint64_t done, all;
    struct lladd_error *err;
};

/* Tells a finding about an object, unless a finding about this object was told before. */
int ll_ship_check_tell(struct ll_ship_check *, enum lladd_finding_kind, int code,
                       const char *object, const char *message);
/* If the error is damage, tells it as a finding about the object that the error's message names, or
 * else about `object`. Returns any other error. */
int ll_ship_check_blame(struct ll_ship_check *, const struct lladd_error *why, const char *object);
/* Counts an object that was read, and its bytes. */
int ll_ship_check_read(struct ll_ship_check *, uint64_t bytes);

/* Reads the objects of the backup. */
int ll_ship_check_base(struct ll_ship_check *);
/* Reads what the archive has above the backup's end on the backup's timeline. Sets `target`. */
int ll_ship_check_archive(struct ll_ship_check *);
#endif
