/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_MANAGED_H
#define LL_OPERATIONS_DTABLE_MANAGED_H
/* Managed dTables: the internal interface. state.c has an overview. Besides operations_private.h
 * and shared/try.h, the code uses only the public headers <lladd/...>. */
#include "operations/shared/try.h"

#include <lladd/bytes.h>
#include <lladd/dtable_class.h>
#include <lladd/dtable_managed.h>
#include <lladd/extension.h>
#include <lladd/hash.h>
#include <lladd/journal.h>
#include <lladd/snapshot.h>
#include <lladd/sync.h>

enum {
    LL_MANAGED_VERSION = 1,
    LL_MANAGED_VERSION_2 = 2, /* of the manifest of a table with LLADD_MANAGED_LEVELS, flags or
                               * block_bytes, so that an older library says LLADD_NEWER_FORMAT */
    LL_MANAGED_RANK_CREATE = LLADD_RANK_EXTENSION - 120, /* held while the catalogue is created, or
                                                          * the number of threads is changed */
    LL_MANAGED_RANK_SWAP = LLADD_RANK_EXTENSION - 90,    /* held while a list of runs is changed */
    LL_MANAGED_RANK = LLADD_RANK_LEAF + 80,
    LL_MANAGED_RANK_TABLE = LLADD_RANK_LEAF + 81
};
#define LL_MANAGED_ROOT "managed" /* a: root page of the catalogue, b: version */
#define LL_MANAGED_OWNER "managed"
#define LL_MANAGED_TAG "managed:" /* with the table's name after it: the name of the table's journal
                                   * tag */
/* A named root of this prefix and the table's name may point to a blob that a layer above (cTables)
 * keeps with the table. The blob is freed when the table is dropped. */
#define LL_MANAGED_BESIDE "ctable:"
#define LL_MANAGED_TAKEN_BACK UINT64_MAX

struct ll_managed;
struct ll_use;
struct ll_version;

int ll_managed__no_memory(struct lladd_error *);

/* ---- memtable.c: row versions in memory ------------------------------------------------------ */

enum { LL_MEM_CHUNKS = 256, LL_MEM_FILTERS = 10 };

/* A sorted list of keys. Each key has a node, identified by its offset. */
struct ll_mem_list {
    uint32_t first; /* atomic; a node before all keys; 0: the list was never used */
    uint32_t root;  /* atomic: root of the index */
};

/* A memtable: a list of keys with an index (memindex.c). Each key has a chain of versions, the
 * newest first. A part is all that one transaction writes to the memtable; it has the transaction's
 * commit. A part has segments. A new segment begins with the first write after a savepoint or
 * rollback, and with each deletion of a range. Each version belongs to a segment. Nodes, versions,
 * segments and parts are in chunks, are addressed by four-byte offsets, and stay in place until the
 * memtable is freed. One thread at a time adds to the memtable, under the table's mutex, while any
 * number of threads read. */
struct ll_mem_filter;
struct ll_memtable {
    struct lladd_db *db;
    struct lladd_dtable_order order;
    uint64_t refs;                       /* atomic */
    uint64_t writers;                    /* atomic: parts of transactions that have not ended */
    uint64_t newest;                     /* atomic: newest commit */
    uint64_t bytes;                      /* atomic: used bytes of its chunks and filters */
    struct lladd_dtable_key_range key_range; /* range of the rows' keys, without deleted ranges */
    uint32_t has_ranges;                 /* atomic; in the cache line that every lookup reads */
    struct ll_mem_list rows;
    struct ll_mem_list endpoints;  /* endpoints of deleted ranges: memrange.c */
    uint32_t keys; /* nodes of `rows`; under the table's mutex */
    uint32_t n_chunks, fill, room; /* fill, room: of the last chunk, in units of four bytes */
    unsigned char *chunks[LL_MEM_CHUNKS];
    uint32_t n_filters, unfiltered; /* atomic */
    uint32_t placed; /* atomic; of an unlogged table: the newest part, with its position */
    struct ll_mem_filter *filters[LL_MEM_FILTERS];
};

struct ll_mem_part {
    uint64_t commit;      /* atomic; 0: in progress; LL_MANAGED_TAKEN_BACK: rolled back */
    uint64_t bytes, rows; /* a range is one row; a rollback to a savepoint subtracts nothing */
    uint64_t ranges;      /* ranges deleted in the part so far, refused ones included */
    struct ll_memtable *m;
    uint32_t self;
    uint32_t segment; /* the newest */
};

/* False if the key is outside the memtable's key range. This is common when rows are added at one
 * end and lookups ask for others. */
static inline bool ll_managed__mem_may_have(const struct ll_memtable *m,
                                            const struct lladd_dtable_key *key)
{
    return lladd_dtable_key_range_has(&m->key_range, lladd_dtable_prefix(&m->order, key));
}
int ll_managed__mem_new(struct lladd_db *, const struct lladd_dtable_order *,
                        struct ll_memtable **out);
void ll_managed__mem_drop(struct ll_memtable *); /* drops one reference */
/* The functions up to ll_managed__mem_undelete are called under the table's mutex. Without memory,
 * ll_managed__mem_part returns NULL; ll_managed__mem_segment and ll_managed__mem_node return 0. */
struct ll_mem_part *ll_managed__mem_part(struct ll_memtable *);
/* A part with more members after it. `size` is the size of both together. */
struct ll_mem_part *ll_managed__mem_part_of_size(struct ll_memtable *, size_t size);
uint32_t ll_managed__mem_segment(struct ll_mem_part *, lladd_savepoint_id next);
uint32_t ll_managed__mem_node(struct ll_mem_part *, const struct lladd_dtable_key *);
/* Adds a version to the node: 0 or LLADD_NO_MEMORY. *before receives the version that was the
 * newest, for ll_managed__mem_unpush. */
int ll_managed__mem_push(struct ll_mem_part *, uint32_t node, const struct lladd_dtable_key *,
                         const struct lladd_dtable_value *, uint32_t *before);
void ll_managed__mem_unpush(struct ll_mem_part *, uint32_t node, uint32_t before);
/* Deletes a range, in a new segment; a NULL end is open. 0 or LLADD_NO_MEMORY.
 * ll_managed__mem_undelete undoes the deletion; it must be the next call for the part. */
int ll_managed__mem_delete(struct ll_mem_part *, const struct lladd_dtable_key *from,
                           const struct lladd_dtable_key *to, lladd_savepoint_id next);
void ll_managed__mem_undelete(struct ll_mem_part *);
/* Was the newest segment begun when `next` was the number of the next savepoint, and is it not
 * rolled back? */
bool ll_managed__mem_segment_is(const struct ll_mem_part *, lladd_savepoint_id next);
/* Rolls back the segments that were begun when the number of the next savepoint was above `to`. */
void ll_managed__mem_undo(struct ll_mem_part *, lladd_savepoint_id to);
/* filter.c: adds a key, before its node can be found. Called under the table's mutex. */
void ll_managed__filter_add(struct ll_memtable *, const struct lladd_dtable_key *);
/* For any thread. False: the memtable has no node for the key that the caller must find (FIL-1). */
bool ll_managed__filter_may_have(const struct ll_memtable *, const struct lladd_dtable_key *);
void ll_managed__filters_free(struct ll_memtable *);
/* For any thread. ll_managed__mem_find returns the node of the key, and ll_managed__mem_not_before
 * the first node at or after the key. 0: none. */
uint32_t ll_managed__mem_find(const struct ll_memtable *, const struct lladd_dtable_key *);
uint32_t ll_managed__mem_not_before(const struct ll_memtable *, const struct lladd_dtable_key *);
/* Returns the last node before the key or, if `at`, at the key. Key NULL: the last node. */
uint32_t ll_managed__mem_not_after(const struct ll_memtable *, const struct lladd_dtable_key *,
                                   bool at);
uint32_t ll_managed__mem_first(const struct ll_memtable *);
uint32_t ll_managed__mem_next(const struct ll_memtable *, uint32_t node);
/* Prefetches the next node. */
void ll_managed__mem_next_soon(const struct ll_memtable *, uint32_t node);
/* The node's key. To find a position, it is as good as the key of any version (MEM-4). */
struct lladd_dtable_key ll_managed__mem_key(const struct ll_memtable *, uint32_t node);
/* Finds the newest version committed in (after, upto], and the key (nullable) that this version was
 * put with. False: there is none, or a range deletion is newer. */
bool ll_managed__mem_seen(const struct ll_memtable *, uint32_t node, uint64_t after, uint64_t upto,
                          struct lladd_dtable_key *, struct lladd_dtable_value *out);
/* Like ll_managed__mem_seen, but finds the part's own newest version. */
bool ll_managed__mem_own(const struct ll_mem_part *, uint32_t node, struct lladd_dtable_key *,
                         struct lladd_dtable_value *out);
/* Like ll_managed__mem_seen and ll_managed__mem_own, but look up a key. If a range has deleted the
 * key, the result is a tombstone. */
bool ll_managed__mem_ask(const struct ll_memtable *, const struct lladd_dtable_key *,
                         uint64_t after, uint64_t upto, struct lladd_dtable_value *out);
bool ll_managed__mem_ask_own(const struct ll_mem_part *, const struct lladd_dtable_key *,
                             struct lladd_dtable_value *out);
/* Finds the interval around a key (NULL: around the first key) in which either everything or
 * nothing is deleted. If `own` is NULL, the ranges committed in (after, upto] count; otherwise the
 * ranges of the part. The memtable must have ranges. */
void ll_managed__mem_interval(const struct ll_memtable *, const struct lladd_dtable_key *,
                              uint64_t after, uint64_t upto, const struct ll_mem_part *own,
                              struct lladd_dtable_interval *out);
/* Returns the writer of the newest version that counts (MEM-2). LL_MEM_NO_WRITER: there is none.
 * LL_MEM_MINE: the part, even if another transaction in progress has a newer version (RNG-3).
 * LL_MEM_OTHER: another transaction in progress. LL_MEM_COMMITTED: a transaction that committed at
 * *commit. */
enum { LL_MEM_NO_WRITER, LL_MEM_MINE, LL_MEM_OTHER, LL_MEM_COMMITTED };
int ll_managed__mem_writer(const struct ll_memtable *, uint32_t node, const struct ll_mem_part *,
                           uint64_t *commit);
/* Like ll_managed__mem_writer, for the newest deleted range that contains the key. */
int ll_managed__mem_range_writer(const struct ll_memtable *, const struct lladd_dtable_key *,
                                 const struct ll_mem_part *, uint64_t *commit);
/* Called for a part that has just deleted a range; `snapshot` is that of the part's transaction.
 * LL_MEM_OTHER or LL_MEM_COMMITTED: another transaction has written in the range, and conflicts.
 * LL_MEM_NO_WRITER: none has. */
int ll_managed__mem_others(const struct ll_memtable *, const struct ll_mem_part *,
                           const struct lladd_dtable_key *from, const struct lladd_dtable_key *to,
                           uint64_t snapshot);
/* Called when the part's transaction ends. Uses only atomics, because the caller may hold the latch
 * of the commit order. */
void ll_managed__mem_end(struct lladd_managed *, struct ll_mem_part *, uint64_t commit);

/* ---- snapshot_iter.c: a memtable as a dTable ------------------------------------------------- */

struct ll_snapshot_iter {
    struct lladd_dtable base;
    struct ll_memtable *m;
    uint64_t after, upto;
    struct ll_use *own; /* not NULL: shows only what this use has written */
};
void ll_managed__snapshot_iter(struct ll_snapshot_iter *, struct lladd_managed *,
                               struct ll_memtable *, uint64_t after, uint64_t upto);
/* An overlay: the rows that a use (nullable) has written, above what a snapshot sees of a
 * version. */
struct ll_layers {
    struct ll_snapshot_iter *slices; /* the first is for the use's own rows */
    struct lladd_dtable **tables;
    struct lladd_dtable *all; /* an overlay of `tables` */
};
int ll_managed__layers(struct lladd_managed *, const struct ll_version *, uint64_t snapshot,
                       struct ll_use *own, struct ll_layers *, struct lladd_error *);
void ll_managed__layers_drop(struct lladd_db *, struct ll_layers *);
/* A cursor over layers. */
struct ll_rows {
    struct ll_layers layers;
    struct lladd_dtable_cursor *cursor;
    unsigned char *key; /* a copy of a key's bytes; NULL: none was made */
    size_t cap_key;
};
/* Opens the cursor on the layers that ll_managed__layers makes. After an error *rows is empty. */
int ll_managed__rows_open(struct lladd_managed *, const struct ll_version *, uint64_t snapshot,
                          struct ll_use *own, struct ll_rows *, struct lladd_error *);
void ll_managed__rows_close(struct lladd_db *, struct ll_rows *);
/* Copies the key's bytes to rows->key, because the memory that they are in may be released. */
int ll_managed__rows_keep(struct lladd_db *, struct ll_rows *, struct lladd_dtable_key *,
                          struct lladd_error *);
/* Gets the key at which the cursor is, as such a copy: the cursor is about to leave its row. */
int ll_managed__rows_key(struct lladd_db *, struct ll_rows *, struct lladd_dtable_key *,
                         struct lladd_error *);
/* The cursor has searched the row of a key in this direction: moves on if it is at this key. */
int ll_managed__rows_pass(struct ll_rows *, const struct lladd_dtable_order *,
                          const struct lladd_dtable_key *, bool forward, struct lladd_error *);
/* Called for an iterator over a transaction's own rows, when the transaction may have deleted
 * ranges since the last call. */
void ll_managed__snapshot_iter_again(struct ll_snapshot_iter *);

/* ---- manifest.c: the stored description of a table ------------------------------------------- */

struct ll_managed_run;
struct ll_manifest {
    struct lladd_db *db;
    enum lladd_dtable_type type;
    enum lladd_managed_schedule schedule;
    uint32_t every, flags, block_bytes;
    struct lladd_managed_position position; /* of an unlogged table */
    uint64_t tag, cutoff, memory_bytes, max_rows, interval_ns, generation, digests, combines, fresh;
    char *texts[3]; /* comparator; configuration of digests, "": the default; configuration of
                     * combines, "": that of digests */
    struct lladd_managed_run *runs;
    lladd_pageno *obsolete;
    uint32_t n_runs, n_obsolete;
};
enum { LL_MANIFEST_COMPARATOR = 0, LL_MANIFEST_CONFIG = 1, LL_MANIFEST_COMBINE = 2 };
/* Encodes the manifest. *out is allocated from the handle; the caller frees it. */
int ll_managed__manifest_put(const struct ll_manifest *, unsigned char **out, size_t *len);
/* A zero-terminated copy; NULL: no memory. */
char *ll_managed__string(struct lladd_db *, const void *bytes, size_t);
int ll_managed__manifest_get(struct lladd_db *, struct lladd_span, struct ll_manifest *,
                             struct lladd_error *);
/* Copies the manifest, with room for one more run and for `obsolete` more obsolete runs. */
int ll_managed__manifest_copy(const struct ll_manifest *, uint32_t obsolete, struct ll_manifest *);
void ll_managed__manifest_free(struct ll_manifest *);
/* Can a run have blocks of m->block_bytes bytes? */
bool ll_managed__block_bytes_ok(const struct ll_manifest *);

/* ---- version.c: the memtables and runs of a table -------------------------------------------- */

struct ll_managed_run {
    struct lladd_managed *t;
    uint64_t refs;              /* atomic */
    struct lladd_dtable *table; /* NULL: it is not open, and waits to be freed */
    struct lladd_managed_run info;
    bool obsolete;           /* a merge has replaced it; under the table's mutex, as the next one */
    bool input;              /* a merge in progress reads it (LEV-1) */
    bool difference;         /* it is a difference (difference.c); never changes, like the next two
                              * members */
    bool over;               /* the difference is from the run after it, or from the difference */
    uint64_t age[2];         /* the oldest and the newest flush of which it has rows, by their
                              * numbers (HLD-6) */
    uint64_t counted;        /* the number of the last count that has counted it */
    struct ll_managed_run *next; /* the next run in the list of runs to be freed */
};

/* Runs as tables, the newest first. A difference and what it is from are one table. */
struct ll_version_tables {
    struct lladd_dtable **tables, **made; /* made: those to be closed */
    uint32_t n, n_made;
};

/* A version: the memtables and runs of a table at one time, as in LevelDB. It is immutable. Its
 * runs have the newest row of each key up to commit `cutoff`. Only later commits count in its
 * memtables. */
struct ll_version {
    uint64_t refs; /* atomic */
    uint64_t replaced; /* atomic; 1: the held version has been replaced (HLD-8) */
    uint64_t cutoff;
    uint64_t until;          /* a retired version is for snapshots before this */
    struct ll_version *next; /* in the list of retired or of held versions */
    uint32_t n_mems, n_runs;
    struct ll_memtable **mems; /* the newest first; the first one is written to */
    struct ll_managed_run **runs;
    struct ll_version_tables layered; /* if there are differences; otherwise `tables` is NULL */
};
/* True if the memtable has nothing for the key in this version. This is so if the runs have all of
 * the memtable's commits, or if the memtable has no deleted ranges and the key is outside its key
 * range. A snapshot that was acquired before this check sees no later commit. */
static inline bool ll_managed__version_skips(const struct ll_version *v,
                                             const struct ll_memtable *m,
                                             const struct lladd_dtable_key *key)
{
    return lladd_atomic_load64(&m->newest) <= v->cutoff ||
           (!ll_managed__mem_may_have(m, key) && !lladd_atomic_load32(&m->has_ranges));
}
struct ll_version *ll_managed__version_new(struct lladd_db *, uint32_t mems, uint32_t runs);
void ll_managed__version_retain(struct ll_version *);
void ll_managed__version_release(struct lladd_managed *, struct ll_version *);
/* Makes the tables of n runs; if there is an error, frees them. */
int ll_managed__tables_make(struct lladd_db *, struct ll_managed_run *const *runs, uint32_t n,
                            struct ll_version_tables *, struct lladd_error *);
void ll_managed__tables_free(struct lladd_db *, struct ll_version_tables *);
/* Returns the version for a snapshot, with a reference. NULL: it is no longer kept. Called under
 * the table's mutex. */
struct ll_version *ll_managed__version_for(struct lladd_managed *, uint64_t snapshot);
/* Makes this version the current one. Called under the table's mutex. When the caller has released
 * the mutex, it drops its reference to *gone. */
void ll_managed__version_set(struct lladd_managed *, struct ll_version *, struct ll_version **gone);
/* Releases retired versions that no snapshot needs. */
void ll_managed__retire(struct lladd_managed *);
/* Calls ll_managed__retire for all tables. Called when a transaction's snapshot has ended. */
void ll_managed__retire_all(struct ll_managed *);
/* Calls `what` for all tables with retired versions or, if `each`, for all tables. No table is
 * closed meanwhile. */
void ll_managed__each_table(struct ll_managed *, bool each, void (*what)(struct lladd_managed *));
int ll_managed__run_open(struct lladd_managed *, const struct lladd_managed_run *,
                         struct ll_managed_run **out, struct lladd_error *);
void ll_managed__run_drop(struct ll_managed_run *);
/* Closes a run that no version has, because its transaction is about to be rolled back. NULL does
 * nothing. */
void ll_managed__run_discard(struct lladd_managed *, struct ll_managed_run *);
/* Looks a key up in a version, as a snapshot sees it. The key has been checked. */
int ll_managed__version_get(const struct ll_version *, uint64_t snapshot,
                            const struct lladd_dtable_key *, struct lladd_dtable_pin *,
                            struct lladd_dtable_value *, struct lladd_error *);
/* Reads columns of a key's row in the version's runs. *state is ABSENT before the call. */
int ll_managed__version_columns(const struct ll_version *, const struct lladd_dtable_key *,
                                const struct lladd_dtable_columns *want,
                                enum lladd_dtable_state *, struct lladd_error *);

/* ---- tables ---------------------------------------------------------------------------------- */

/* A flush or compaction in progress; all zero: there is none. */
struct ll_managed_merge {
    uint64_t rows, done; /* rows of its inputs, and how many of them it has read */
    uint64_t bytes;      /* of memory, that a flush takes */
    uint64_t absorbed;   /* bytes of the run that a flush absorbs */
    uint64_t newer;      /* bytes that were in newer runs when a compaction began */
    bool urgent;         /* the journal has asked for this flush */
};

struct lladd_managed {
    struct ll_managed *all;
    struct lladd_db *db;
    struct lladd_managed *next; /* under the handle's mutex, like the next seven members */
    uint32_t opens;
    uint32_t workers;  /* threads that work on the table */
    uint64_t retry_ns; /* after a failure, no maintenance thread works on the table before this
                        * time */
    uint64_t served;   /* value of all->served when a thread worked on it last */
    uint64_t first;    /* an unlogged table has no rows for open snapshots with lower numbers */
    bool opening;
    void *companion; /* memory of a layer above (cTables), freed with the table */
    char *name;
    uint64_t tag;                    /* the tag in the manifest; never changes */
    uint64_t memory_bytes, max_rows; /* atomic; as in the manifest, like the next two members */
    uint32_t every, schedule;
    struct lladd_dtable_order order;
    /* Configurations for digests and for combines. Read under the mutex, or by the thread that
     * digests or combines. */
    struct lladd_dtable_config *config[2];
    struct lladd_mutex swap;     /* held while the manifest and the version change */
    struct ll_manifest manifest; /* as committed; changes under both mutexes */
    struct lladd_mutex mutex;    /* a leaf: protects the members below, and adding to memtables */
    struct lladd_cond changed;   /* used with the mutex; signalled when work has ended */
    struct ll_version *view, *retired;
    struct ll_version *held; /* for open snapshots that are older than `view` (hold.c) */
    uint64_t cutoff;         /* atomic: that of `view` */
    uint64_t counts;         /* counts of held runs */
    uint64_t flushes;        /* flushes begun since the open; under the mutex (HLD-6) */
    struct ll_managed_run *ready; /* list of runs to be freed */
    uint64_t users;           /* uses of the table */
    bool digesting, combining, freeing, closing;
    bool free_failed; /* the last attempt to free a run failed: other work goes first */
    struct ll_use *free_uses;
    struct ll_mem_part *replayed;         /* during open: the part of the entry replayed last */
    uint64_t newest;                      /* atomic: newest commit of a row */
    uint64_t pending_bytes, pending_rows; /* atomic; bytes and rows in memtables, of transactions
                                           * that have ended; pending_bytes includes aborted ones */
    uint64_t conflicts, waits, failures;  /* atomic */
    uint64_t fresh;                       /* atomic: runs made by digests and not combined yet */
    uint32_t hurry;                       /* atomic: the table is being closed, work stops early */
    uint32_t asked;       /* atomic: the journal wants a digest */
    uint32_t has_retired; /* atomic */
    int last_failure;
    uint64_t digested_ns;                      /* under the mutex, like the next members */
    struct ll_managed_merge flush, compaction; /* in progress */
    double row_memory;      /* bytes of memory that a key took in the last flush; 0: unknown */
    int flush_failed;       /* the code of the last flush, if it failed */
    bool compaction_failed; /* the last compaction failed: a flush goes first */
    /* Of an unlogged table (unlogged.c). */
    bool unlogged;    /* never changes */
    uint32_t writing; /* atomic: a transaction in progress writes to it */
    struct lladd_managed_position committed; /* of the newest commit; belongs to the writer */
    struct lladd_managed_position durable;   /* a position that no crash takes back */
    lladd_lsn stored; /* commit of the manifest; its position is durable if the commit is */
};

/* A transaction's use of a table. */
struct ll_use {
    struct lladd_dtable base; /* the table as the transaction sees it */
    struct lladd_managed *t;
    struct ll_use *next;
    uint64_t refs; /* the transaction and its cursors; atomic */
    uint64_t snapshot;
    struct ll_version *view;
    struct ll_memtable *target; /* the memtable that it writes to, with a reference; NULL: it has
                                 * written nothing */
    struct ll_mem_part *part;
    bool told; /* the journal knows the part */
    uint64_t puts; /* counts changes of the use's own rows and ranges; cursors compare it */
    unsigned char *scratch;
    size_t cap_scratch;
};

struct ll_managed_txn {
    struct ll_managed *all;
    struct ll_managed_txn *next, **at; /* under the handle's mutex */
    uint64_t snapshot;
    struct ll_use *uses;
};

/* A table as an open snapshot sees it. */
struct ll_snapshot_table {
    struct lladd_dtable base;
    struct lladd_managed *t;
    struct lladd_managed_snapshot *of;
    struct ll_snapshot_table *next;
};

/* An open snapshot (lladd_managed_snapshot_open). */
struct lladd_managed_snapshot {
    struct ll_managed *all;
    uint64_t refs;                       /* the program and its cursors; atomic */
    uint64_t snapshot;
    uint64_t number;                     /* 1, 2, ... in the order in which they were opened */
    uint64_t opened_ns;
    struct lladd_managed_snapshot *next; /* under the handle's mutex, like the next member */
    struct ll_snapshot_table *tables;
};

/* Per handle. */
struct ll_managed {
    struct lladd_db *db;
    struct lladd_mutex mutex; /* a leaf */
    struct lladd_mutex create;
    struct lladd_cond wake;       /* used with the mutex; signalled when something is due */
    struct lladd_cond idle;       /* used with the mutex; signalled when a thread has finished with
                                   * a table */
    struct lladd_hash *catalogue; /* atomic; NULL: not created yet */
    struct lladd_managed *tables;
    struct ll_managed_txn *txns, *free_txns;
    struct lladd_managed_snapshot *snapshots; /* the open ones */
    uint64_t opened; /* counts them */
    uint64_t flushed; /* the largest cutoff of a flush that has read the list of open snapshots */
    uint64_t retired; /* atomic: tables with versions that are kept for old snapshots */
    unsigned joining; /* transactions that are acquiring their snapshot */
    struct lladd_thread *threads;
    unsigned n_threads;
    uint32_t running; /* atomic: there are threads */
    uint64_t wakes;  /* counts signals of `wake` */
    uint64_t served; /* counts the times that a thread has chosen a table */
    bool stopping;
};
extern const struct lladd_extension ll_managed__extension;
extern const struct lladd_participant ll_managed__participant;
extern const struct lladd_participant ll_managed__unlogged; /* refuses to be prepared */
extern const struct lladd_journal_owner ll_managed__owner;
extern const struct lladd_dtable_class ll_managed__table_class;

int ll_managed__of(struct lladd_db *, struct ll_managed **, struct lladd_error *);
/* Reads a table's row of the catalogue; the manifest's memory is allocated from the handle.
 * LLADD_NOT_FOUND if there is no such table. */
int ll_managed__row_read(struct ll_managed *, const char *name, struct ll_manifest *,
                         struct lladd_error *);
/* Creates a table in a transaction of its own, and commits it. */
typedef int ll_managed_make_fn(struct lladd_txn *, const char *name, const void *options);
int ll_managed__alone(struct lladd_db *, ll_managed_make_fn *, const char *name,
                      const void *options, struct lladd_error *);
int ll_managed__row_write(struct lladd_txn *, struct ll_managed *, const char *name,
                          const struct ll_manifest *);
/* True if a transaction is creating or dropping the table. */
bool ll_managed__is_changing(struct lladd_db *, const char *name);
/* table_catalog.c. ll_managed__settle checks a configuration and returns the text that is stored.
 * ll_managed__set_triggers puts the options in `which` into the manifest and checks them. */
int ll_managed__settle(struct lladd_db *, const char *config, enum lladd_dtable_type, bool combines,
                       char **out, struct lladd_error *);
int ll_managed__set_triggers(const struct lladd_managed_options *, unsigned which,
                             struct ll_manifest *, struct lladd_error *);
/* open.c. ll_managed__read_config parses a stored text; *out is NULL if the text is empty.
 * ll_managed__take_triggers copies the triggers from the manifest into the table. */
int ll_managed__read_config(struct lladd_managed *, const char *text,
                            struct lladd_dtable_config **out, struct lladd_error *);
void ll_managed__take_triggers(struct lladd_managed *, const struct ll_manifest *);
/* Returns the table of this name if it is open, or being opened or closed; otherwise NULL. Called
 * under the handle's mutex. */
struct lladd_managed *ll_managed__open_one(const struct ll_managed *, const char *name);
void ll_managed__table_free(struct lladd_managed *);
/* Returns the transaction's use of the table, and creates it if necessary. */
int ll_managed__use(struct lladd_txn *, struct lladd_managed *, struct ll_use **);
void ll_managed__use_drop(struct ll_use *);
void ll_managed__txn_forget(struct ll_managed *, struct ll_managed_txn *);

/* ---- open snapshots: snapshot.c, hold.c, difference.c, snapshot_read.c ----------------------- */

extern const struct lladd_dtable_class ll_managed__snapshot_class;
/* Drops one reference. */
void ll_managed__snapshot_drop(struct lladd_managed_snapshot *);
/* Frees the memory of all open snapshots. Called when the handle closes. */
void ll_managed__snapshots_free(struct ll_managed *);
/* Returns the version that has the rows of an open snapshot; NULL: the table has none (HLD-2). Held
 * versions have no memtables. Called under the table's mutex; the caller takes a reference. */
struct ll_version *ll_managed__version_held(const struct lladd_managed *,
                                            const struct lladd_managed_snapshot *);
/* Releases held versions of which the snapshot was closed. */
void ll_managed__unhold(struct lladd_managed *);
/* Fills in what open snapshots hold. Called under both mutexes. */
void ll_managed__held_stats(struct lladd_managed *, uint64_t now, struct lladd_managed_stats *);

/* ---- writing: write.c, delete.c -------------------------------------------------------------- */

/* Makes sure that the use has a part, and that the journal knows the part. */
int ll_managed__begin_writing(struct lladd_txn *, struct ll_use *);
/* Returns LLADD_CONFLICT. `how` says what another transaction does to the key or range. */
int ll_managed__conflict(struct lladd_txn *, struct lladd_managed *, const char *how);
/* Returns the length of the longest entry that the journal takes. */
size_t ll_managed__entry_most(const struct lladd_managed *);
bool ll_managed__same(const struct lladd_dtable_value *, const struct lladd_dtable_value *);

/* ---- unlogged tables: unlogged.c ------------------------------------------------------------- */

/* Ends the part of a use. Uses only atomics, because the caller may hold the latch of the commit
 * order. */
void ll_managed__unlogged_end(struct ll_use *, uint64_t commit);
bool ll_managed__has_position(const struct ll_use *);
/* Takes back the positions that were set when the number of the next savepoint was above `to`. */
void ll_managed__position_undo(struct ll_use *, lladd_savepoint_id to);
/* Sets *out to the position of the newest commit up to the cutoff, if the memtables have one. */
void ll_managed__position_upto(const struct ll_version *, uint64_t cutoff,
                               struct lladd_managed_position *out);
/* Called under the mutex, before the manifest with this commit replaces the present one. */
void ll_managed__position_stored(struct lladd_managed *, lladd_lsn commit);

/* ---- entries of the journal: entry.c --------------------------------------------------------- */

int ll_managed__entry_put(struct ll_use *, const struct lladd_dtable_key *,
                          const struct lladd_dtable_value *, struct lladd_span *out);
/* Like ll_managed__entry_put, for a deleted range. A NULL end is open. */
int ll_managed__entry_put_range(struct ll_use *, const struct lladd_dtable_key *from,
                                const struct lladd_dtable_key *to, struct lladd_span *out);
struct ll_entry {
    bool range, has_from, has_to;
    struct lladd_dtable_key key, to; /* a range is from `key` to `to` */
    struct lladd_dtable_value value;
};
bool ll_managed__entry_get(const struct lladd_dtable_order *, struct lladd_span, struct ll_entry *);
/* Puts a replayed or pending entry into the memtable. */
int ll_managed__restore(struct lladd_managed *, struct ll_mem_part *,
                        const struct lladd_journal_entry *, struct lladd_error *);

/* ---- ranges of runs: runrange.c -------------------------------------------------------------- */

/* *out: does the table have deleted ranges? */
int ll_managed__any_ranges(const struct lladd_dtable *, bool *out, struct lladd_error *);
/* Adds the table's ranges to a run, and their number to *n. */
int ll_managed__add_ranges(struct lladd_dtable_run_builder *, const struct lladd_dtable *,
                           uint64_t *n, struct lladd_error *);
/* Makes the configuration of a layer of the class. Its base is a copy of `base`, or a linear_dtable
 * if `base` is NULL. The child of the name `other` is equal to the base if `alike` is set,
 * otherwise a linear_dtable. */
int ll_managed__around(struct lladd_managed *, const char *class_name,
                       const struct lladd_dtable_config *base, const char *other, bool alike,
                       struct lladd_dtable_config **out, struct lladd_error *);

/* ---- flush.c, compact.c, reclaim.c, change.c, schedule.c, pool.c ----------------------------- */

enum ll_managed_work { LL_DIGEST = 1, LL_COMBINE = 2, LL_FREE = 3 };
/* Keeps digests and combines from starting, and waits until those in progress have ended.
 * LLADD_BUSY if the table is being closed. */
int ll_managed__work_stop(struct lladd_managed *, struct lladd_error *);
void ll_managed__work_go_on(struct lladd_managed *);
/* Each does one kind of work. Called between work_begin and work_end (schedule.c). */
int ll_managed__flush_now(struct lladd_managed *, struct lladd_error *);
/* Compacts the newest n runs, or all if there are fewer; 0: the runs that are due, if any. */
int ll_managed__compact_now(struct lladd_managed *, uint32_t n, struct lladd_error *);
int ll_managed__reclaim_now(struct lladd_managed *, struct lladd_error *);
/* Changes the manifest, but not the version, in a transaction. `edit` changes a copy of the
 * manifest. *commit (nullable) receives the transaction's commit. */
int ll_managed__manifest_edit(struct lladd_managed *,
                              int (*edit)(void *ctx, struct lladd_txn *, struct ll_manifest *),
                              void *ctx, lladd_lsn *commit, struct lladd_error *);
/* Returns how many runs, from number *first on, are to be combined now. Called under the mutex. */
uint32_t ll_managed__combine_due(const struct lladd_managed *, uint32_t *first);
/* Returns the work that is due at `now`, or 0. */
int ll_managed__due(struct lladd_managed *, uint64_t now);
/* Returns the time until the table's interval makes a digest due: the rest of the interval or, if
 * it is over, one whole interval. 0: never. */
uint64_t ll_managed__interval_left(struct lladd_managed *, uint64_t now);
int ll_managed__step(struct lladd_managed *, int due, struct lladd_error *);
/* level.c, for LLADD_MANAGED_LEVELS. The first three are called under the mutex.
 * ll_managed__level_target returns the bytes at which C1 is merged into C2.
 * ll_managed__level_absorbs: does a flush that begins now absorb the newest run?
 * ll_managed__level_due returns how many runs, from number *first on, are to be merged now.
 * ll_managed__level_pace makes the calling writer wait for the flush.
 * ll_managed__level_progress says how many rows a flush or compaction has read. A flush may wait
 * in it for the compaction. */
double ll_managed__level_target(const struct lladd_managed *);
bool ll_managed__level_absorbs(const struct lladd_managed *);
uint32_t ll_managed__level_due(const struct lladd_managed *, uint32_t *first);
int ll_managed__level_pace(struct lladd_managed *, struct lladd_error *);
void ll_managed__level_progress(struct lladd_managed *, bool flush, uint64_t rows);
/* Wakes a maintenance thread, because something may have become due. */
void ll_managed__wake(struct ll_managed *);
/* Wakes a maintenance thread if the bytes or rows in memory make a digest due. */
void ll_managed__nudge(struct lladd_managed *);
/* Delays the calling writer if maintenance has a large backlog: by 10 ms at most, or as level.c
 * says. Returns 0, or the error of a flush that fails while the memory is full. */
int ll_managed__stall(struct lladd_managed *, struct lladd_error *);
void ll_managed__threads_stop(struct ll_managed *);

#endif
