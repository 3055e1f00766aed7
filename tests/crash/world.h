/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_WORLD_H
#define CRASH_WORLD_H
/*
 * The database that is crashed, and what is known of it.
 *
 * Worker w makes transactions 1, 2, 3... in sequence. The round's seed, w and n determine what the
 * n-th transaction does (acts_of). So the number of the last transaction determines everything that
 * belongs to w:
 * - elements of a hash table, some of them with values in blobs;
 * - bytes and a counter of a page;
 * - entries of the system journal;
 * - a blob;
 * - rows of a managed dTable.
 * There are also prepared transactions, pins of the log, and transactions that stay open until the
 * process dies. Of the changes of these last transactions nothing may be left.
 *
 * The oracle is in memory that the processes share, so it survives them. Before a call the working
 * process writes there what it requests, and after the call what was promised.
 */
#include "crash_device.h"

#include <lladd/dtable_managed.h>
#include <lladd/hash.h>
#include <lladd/lladd.h>
#include <lladd/twophase.h>
#include <stdatomic.h>
#include <stdio.h>

enum { WORKERS = 3, SLOTS = 6, PINS = 2, KEYS = 24, ROWS = 16, ACTS = 24, BYTES = 256 };

/* Optional features of a round; the bits of --without. */
enum feature {
    WITH_POWER = 1,    /* power failures; otherwise kills only */
    WITH_LIMIT = 2,    /* fills the log to its limit */
    WITH_FULL = 4,     /* fills the disk */
    WITH_THREADS = 8,  /* the library's threads, and several workers */
    WITH_INSTANT = 16, /* some recoveries are instant */
    WITH_JOURNAL = 32,
    WITH_MANAGED = 64,
    WITH_BLOBS = 128,
    WITH_DOUBT = 256,
    WITH_PINS = 512,
    WITH_LOSERS = 1024,
    WITH_ATOMIC = 2048, /* LLADD_OPT_ATOMIC_PAGES; a power failure then tears no write */
    WITH_SWITCH = 4096, /* the option ATOMIC_PAGES changes between opens */
    WITH_RELAXED = 8192,
    WITH_TIME = 16384, /* kills from outside, at a random time */
    WITH_ALL = 32767,
    FEATURES = 15
};
extern const char *const feature_names[];

/* Everything that the seed determines about a round. */
struct plan {
    uint64_t seed;
    unsigned features;
    struct lladd_options o; /* without device, world and registry */
    unsigned cycles;        /* cycles of work and crash */
    unsigned steps;         /* approximate number of transactions of a worker in each cycle */
    unsigned keep_journal;  /* about one in this number of a worker's transactions discards the
                             * worker's journal entries */
    uint32_t value_max, entry_max, blob_max;
    unsigned losers, loser_size;
};
void plan_draw(struct plan *, uint64_t seed, unsigned features);
void plan_print(const struct plan *, FILE *);

/* ---- the oracle ------------------------------------------------------------------------------ */

enum stage {
    STAGE_OPENING,
    STAGE_PENDING,
    STAGE_CHECKING,
    STAGE_WORKING,
    STAGE_CLOSING,
    STAGE_DONE
};

enum doubt_state {
    DOUBT_NONE,      /* no transaction, or one that has ended */
    DOUBT_PREPARING, /* in doubt or absent */
    DOUBT_PREPARED,
    DOUBT_COMMITTING, /* in doubt or committed */
    DOUBT_ABORTING    /* in doubt or rolled back */
};

struct slot {
    _Atomic uint32_t state;
    _Atomic uint32_t serial;    /* serial of the current transaction, or of the last one */
    _Atomic uint32_t committed; /* the last serial that was committed; 0: no serial was */
    _Atomic uint32_t commits;   /* number of commits */
};

struct oracle {
    _Atomic uint64_t calls;  /* number of calls of the device since it was armed */
    _Atomic uint32_t killed; /* the device killed the process */
    _Atomic uint32_t stage;
    _Atomic uint32_t made;    /* the structures exist */
    _Atomic uint32_t pending; /* instant recovery had work left when open returned */
    _Atomic uint64_t open_calls, open_ns;
    _Atomic uint64_t capacity; /* bytes that fit on the disk */
    _Atomic uint64_t chance;   /* number of requests for random bytes */
    struct {
        _Atomic uint32_t sure;   /* the changes of transactions up to this one must be there */
        _Atomic uint32_t issued; /* the changes of transactions up to this one may be there */
    } worker[WORKERS];
    struct slot slot[SLOTS];
    struct {
        _Atomic uint64_t lsn; /* 0: none */
        _Atomic uint32_t sure;
    } pin[PINS];
    _Atomic uint32_t refused; /* how often a call of the work got LLADD_LOG_FULL or a similar
                               * code */
    _Atomic uint32_t failed;
    char kind[64];
    char message[512];
};

/* Save and load the oracle as text, so that a process on another machine can continue. The text
 * also has two numbers of the conductor. Return false, with errno set, if the file does not exist
 * or has other contents. */
bool oracle_save(struct oracle *, const uint64_t conductor[2], const char *path);
bool oracle_load(struct oracle *, uint64_t conductor[2], const char *path);

/* ---- one process with the database open ------------------------------------------------------ */

struct session {
    const struct plan *plan;
    struct oracle *oracle;
    struct crash_device *device;
    const char *dir;
    unsigned life;                  /* number of the process */
    struct lladd_environment world; /* random numbers and wall clock, derived from the seed */
    struct lladd_db *db;
    struct lladd_hash *hash;
    struct lladd_managed *rows;
    lladd_pageno page, blobs[WORKERS];
    uint64_t tags[WORKERS], doubts; /* tags of the journal */
    struct lladd_txn *held[SLOTS];  /* prepared transactions with a handle in this process */
};

/* Records the failure, if it is the first, and ends the process. */
void fail(struct oracle *, const char *kind, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* Does nothing if rc is 0. Otherwise records a failure, with `what` and the name of the code as its
 * kind. */
void must(struct oracle *, int rc, const char *what, const struct lladd_error *);
void must_txn(struct session *, int rc, const char *what, const struct lladd_txn *);
/* Returns true if rc is LLADD_BUSY, or the answer of a full log or disk. Then counts the answer,
 * and the work continues. */
bool refused(struct session *, int rc);
/* Returns true if rc is the answer of a full disk. A checkpoint may need room for a new segment. At
 * the limit of the log it must not fail. */
bool no_space(struct session *, int rc);

/* session_open opens the database. session_find finds the structures, or makes them. */
void session_open(struct session *, bool instant, bool atomic);
void session_find(struct session *);
/* Returns false if the disk is full and killed checkpoints have used the space that close needs. */
bool session_close(struct session *);
/* Finishes instant recovery. */
void session_catch_up(struct session *);

/* ---- transactions ---------------------------------------------------------------------------- */

enum act_kind {
    ACT_PUT,
    ACT_DELETE,
    ACT_ADD,
    ACT_SET,
    ACT_APPEND, /* an entry of the journal */
    ACT_DISCARD,
    ACT_BLOB_WRITE,
    ACT_BLOB_CUT,
    ACT_BLOB_REPLACE,
    ACT_ROW,
    ACT_ROW_DELETE,
    ACT_KINDS
};

struct act {
    enum act_kind kind;
    bool detour; /* the act is undone by a rollback to a savepoint */
    uint32_t at, len;
};

/* Derives a number from others. */
uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
unsigned acts_of(const struct plan *, unsigned w, uint32_t n, struct act acts[ACTS]);
/* Sets the bytes that an act of transaction n writes. No two acts write the same bytes. `bytes` has
 * room for a->len. */
void act_bytes(const struct plan *, unsigned w, uint32_t n, unsigned index, const struct act *,
               void *bytes);
/* The bytes of a key. Kinds: 'W' a worker's elements, 'N' the number of its last transaction,
 * 'L' losers, 'D' slots, 'Z' the key of work_relieve. */
struct key {
    unsigned char bytes[9];
};
struct key key_of(char kind, uint32_t a, uint32_t b);
struct lladd_gid gid_of(unsigned slot, uint32_t serial);

/* The contents after n transactions of worker w. */
struct model {
    uint32_t value_n[KEYS], value_act[KEYS]; /* `value_n` 0: there is no value */
    int64_t counter;
    unsigned char bytes[BYTES];
    uint32_t journal_from; /* the first transaction that has live journal entries */
    unsigned char *blob;
    uint32_t blob_len;
    uint32_t row_n[ROWS];
};
void model_of(const struct plan *, unsigned w, uint32_t n, struct model *out);
void model_end(struct model *);

/* ---- work and check -------------------------------------------------------------------------- */

/* Runs transactions of all kinds until there were enough, or the database has no room. */
void work(struct session *);
/* Runs one transaction of a worker. Returns 0, or the code that refused it. */
int work_one(struct session *, unsigned w);
/* Releases everything that keeps log. Then there is room, and a transaction must succeed. */
void work_relieve(struct session *);

/* Checks everything that the oracle knows, and updates the oracle. */
void check(struct session *);
/* Checks that lladd_inspect_verify finds no damage and, after a close, that it finds nothing at
 * all. */
void check_files(struct oracle *, const char *dir, bool closed);

#endif
