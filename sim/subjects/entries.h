/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_SIM_ENTRIES_H
#define LL_SIM_ENTRIES_H
/* Numbered entries: a workload for the subjects of backups, archives and restores. The contents of
 * the database say which transaction was the last.
 *
 * Entry n is a transaction. It writes n into the head page, and a text into page 1 + n % 3. Every
 * second entry also replaces an extent that is written in bulk, and one entry makes an extent of
 * raw pages. So the contents after entry n are a function of n, and the contents of a restored copy
 * can be checked without a model. The head page also has the end of the durable log after each
 * entry: with this LSN as the target, a restore gives the contents after the entry. Entries of
 * a restored copy have another variant than those of the original. */
#include "sim/subjects/subjects.h"

#include <lladd/ship.h>

enum { LL_SIM_ENTRIES_MOST = 16, LL_SIM_ENTRY_SLOTS = 3 };

/* What the database has. */
struct ll_sim_entry {
    uint32_t number, variant; /* number 0: none */
};
struct ll_sim_entries {
    struct ll_sim_entry last;
    struct ll_sim_entry slot[LL_SIM_ENTRY_SLOTS];
    struct ll_sim_entry extent, raw;
    uint32_t doubt; /* 1: the contents of the transaction that is prepared */
};

/* Makes the pages. */
int ll_sim_entries_make(struct lladd_db *, struct lladd_error *);
/* Does entry `number`, which must be the next one. */
int ll_sim_entry_do(struct ll_sim_work *, uint32_t number, uint32_t variant);
/* Changes a page in a transaction that stays open. */
int ll_sim_entry_open(struct ll_sim_work *);
/* Rolls back a transaction that has changed pages and has written pages in bulk. */
int ll_sim_entry_roll_back(struct ll_sim_work *);
/* Changes a page in a transaction and prepares it. */
int ll_sim_entry_prepare(struct ll_sim_work *);

/* Reads the contents, and checks that they are those after an entry. If not, returns
 * LLADD_CORRUPT_PAGE. A backup copies what the disk returns, so a backup has wrong contents if the
 * disk has lost a write. */
int ll_sim_entries_read(struct lladd_db *, struct ll_sim_entries *, struct lladd_error *);
/* The number of the last entry. */
int ll_sim_entries_last(struct lladd_db *, uint32_t *, struct lladd_error *);
/* The end of the durable log after entry `number`, which must not be the last one. */
int ll_sim_entry_end(struct lladd_db *, uint32_t number, lladd_lsn *, struct lladd_error *);

/* Stores all of the log. */
int ll_sim_entries_store(struct lladd_archive *, struct lladd_error *);

/* What a database contains that is opened in memory, directly from a store: a backup, or a backup
 * with archived log up to a target. */
struct ll_sim_shown {
    struct ll_sim_entries has;
    uint32_t in_doubt; /* number of transactions in doubt */
    lladd_lsn end;     /* the contents are those at this LSN */
};
/* Opens the database that the store has for these options, and reads it. Writes nothing. If
 * `instant` is true, the open uses instant recovery. */
int ll_sim_entries_show(struct lladd_store *, const struct lladd_restore_options *, bool instant,
                        struct ll_sim_shown *, struct lladd_error *);
/* Opens and reads the database on a device, without changing the device. */
int ll_sim_entries_look(struct lladd_device *, bool instant, struct ll_sim_shown *,
                        struct lladd_error *);

/* Adds an entry to a model. */
void ll_sim_entries_add(struct ll_sim_entries *, struct ll_sim_entry);

/* Members of a subject. */
int ll_sim_entries_dump(void *ctx, struct lladd_db *, struct lladd_sink *, struct lladd_error *);
void ll_sim_entries_apply(void *ctx, void *model, struct lladd_span note);
int ll_sim_entries_model_dump(void *ctx, const void *model, struct lladd_sink *);
void ll_sim_entries_describe(void *ctx, struct lladd_span note, struct lladd_sink *);
int ll_sim_entries_pages(void *ctx, struct lladd_db *, int (*fn)(void *, lladd_pageno), void *arg,
                         struct lladd_error *);

#define LL_SIM_ENTRIES_MODEL \
    .dump = ll_sim_entries_dump, .model_size = sizeof(struct ll_sim_entries), \
    .model_apply = ll_sim_entries_apply, .model_dump = ll_sim_entries_model_dump, \
    .describe = ll_sim_entries_describe, .pages = ll_sim_entries_pages

#endif
