/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_CRASH_MODEL_H
#define SUPPORT_CRASH_MODEL_H
/*
 * What a device holds for good and what it was merely told: the bookkeeping of fault_device.
 *
 * The model has two tables of names (as the program sees them, as they are durable), one record per
 * file (its durable bytes, its present size), and the list of pending operations in the order in
 * which they were issued. It does not hold the present contents; the base device does.
 */
#include "support/fault_device.h"

struct crash_model;
struct model_file;

struct crash_model *model_new(void);
void model_free(struct crash_model *);
/* Takes over all that a device holds, as durable. */
void model_load(struct crash_model *, struct lladd_device *);

/* As the program sees it. */
struct model_file *model_find(const struct crash_model *, const char *name);
bool model_is_dir(const struct crash_model *, const char *name); /* "" is one */
bool model_has_parent(const struct crash_model *, const char *name);
uint64_t model_file_size(const struct model_file *);
uint64_t model_bytes(const struct crash_model *); /* of all files with a name or open */
uint64_t model_pending(const struct crash_model *);

/* A file that is open keeps its record. */
void model_hold(struct model_file *);
void model_release(struct crash_model *, struct model_file *);

/* What was done to the base, or was under way. Each becomes pending. */
struct model_file *model_create(struct crash_model *, const char *name);
void model_mkdir(struct crash_model *, const char *name);
void model_rename(struct crash_model *, const char *from, const char *to);
void model_unlink(struct crash_model *, const char *name);
void model_write(struct crash_model *, struct model_file *, const struct lladd_iovec *, int n,
                 uint64_t off);
void model_truncate(struct crash_model *, struct model_file *, uint64_t size);

/* What is pending for the file, or in the directory, is durable now... */
void model_sync(struct crash_model *, struct model_file *);
void model_sync_dir(struct crash_model *, const char *name);
/* ...or never will be: marked clean without having been written. */
void model_sync_failed(struct crash_model *, const struct model_file *);

/* Fills an empty device with what a crash leaves. With `after`, makes a model of that device, where
 * everything is durable. */
void model_crash(const struct crash_model *, const struct fault_crash *, struct lladd_device *into,
                 struct crash_model **after);

/* malloc and friends that end the test when there is no memory. */
void *model_alloc(size_t size);
char *model_strdup(const char *);
void model_fatal(const char *what, const char *name, int64_t rc) __attribute__((noreturn));

#endif
