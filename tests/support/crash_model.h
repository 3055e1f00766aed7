/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_CRASH_MODEL_H
#define SUPPORT_CRASH_MODEL_H
/*
 * The bookkeeping of fault_device: what is durable on a device, and what was only written.
 *
 * The model has two tables of names: the names that the program sees, and the durable names. It has
 * one record per file, with the file's durable bytes and its present size, and the list of pending
 * operations in the order in which they were issued. The present contents are in the base device
 * only.
 */
#include "support/fault_device.h"

struct crash_model;
struct model_file;

struct crash_model *model_new(void);
void model_free(struct crash_model *);
/* Copies everything that the device holds. In the model all of it is durable. */
void model_load(struct crash_model *, struct lladd_device *);

/* These look at the names that the program sees. */
struct model_file *model_find(const struct crash_model *, const char *name);
bool model_is_dir(const struct crash_model *, const char *name); /* "" is a directory */
bool model_has_parent(const struct crash_model *, const char *name);
uint64_t model_file_size(const struct model_file *);
uint64_t model_bytes(const struct crash_model *); /* of all files with a name or a handle */
uint64_t model_pending(const struct crash_model *);

/* Keeps the record of an open file, until it is released. */
void model_hold(struct model_file *);
void model_release(struct crash_model *, struct model_file *);

/* Each of these records an operation that was done on the base, or was in progress. The operation
 * becomes pending. */
struct model_file *model_create(struct crash_model *, const char *name);
void model_mkdir(struct crash_model *, const char *name);
void model_rename(struct crash_model *, const char *from, const char *to);
void model_unlink(struct crash_model *, const char *name);
void model_write(struct crash_model *, struct model_file *, const struct lladd_iovec *, int n,
                 uint64_t off);
void model_truncate(struct crash_model *, struct model_file *, uint64_t size);

/* Makes the pending operations on the file, or in the directory, durable. */
void model_sync(struct crash_model *, struct model_file *);
void model_sync_dir(struct crash_model *, const char *name);
/* A sync of the file has failed. So the pending operations on the file never become durable,
 * although the kernel takes them for written. */
void model_sync_failed(struct crash_model *, const struct model_file *);

/* Fills an empty device with what a crash leaves. If `after` is not NULL, *after becomes a model of
 * that device, in which everything is durable. */
void model_crash(const struct crash_model *, const struct fault_crash *, struct lladd_device *into,
                 struct crash_model **after);

/* Like malloc and the other functions of these names, but end the test if there is no memory. */
void *model_alloc(size_t size);
char *model_strdup(const char *);
void model_fatal(const char *what, const char *name, int64_t rc) __attribute__((noreturn));

#endif
