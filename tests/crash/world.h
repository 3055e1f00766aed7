/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef CRASH_WORLD_H
#define CRASH_WORLD_H
/*
 * The database that is crashed, and what is known of it.
 *
 * Worker w makes transactions 1, 2, 3... one after the other. What the n-th of them does follows
 * from the round's seed, w and n (acts_of), so that the number of the last one says what everything
 * that belongs to w must be: elements of a hash table, values in blobs among them; bytes and a
 * counter of a page; entries of the system journal; a blob; rows of a managed dTable. Besides,
 * there are transactions that stay open until the process dies, with changes that nothing may be
 * left of; prepared ones; and pins of the log.
 *
 * The oracle lies in memory that processes share, and so survives them. The process that works
 * writes there what was asked for before a call, and what was promised after it.
 */
#include "crash_device.h"

#include <lladd/dtable_managed.h>
#include <lladd/hash.h>
#include <lladd/lladd.h>

#include <stdatomic.h>
#include <stdio.h>

enum { WORKERS = 3, SLOTS = 6, PINS = 2, KEYS = 24, ROWS = 16, ACTS = 24, BYTES = 256 };

/* What a round has, besides the rest; the bits of --without. */
enum feature {
    WITH_POWER = 1,    /* power failures; without: only kills */
    WITH_LIMIT = 2,    /* work up to the limit of the log */
    WITH_FULL = 4,     /* work up to a full disk */
    WITH_THREADS = 8,  /* the library's, and several that work */
    WITH_INSTANT = 16, /* instant recoveries among the full ones */
    WITH_JOURNAL = 32,
    WITH_MANAGED = 64,
    WITH_BLOBS = 128,
    WITH_DOUBT = 256,
    WITH_PINS = 512,
    WITH_LOSERS = 1024,
    WITH_ATOMIC = 2048, /* LLADD_OPT_ATOMIC_PAGES; a power failure then tears no write */
    WITH_SWITCH = 4096, /* it is opened sometimes with atomic pages, sometimes without */
    WITH_RELAXED = 8192,
    WITH_TIME = 16384, /* kills from outside, at some time */
    WITH_ALL = 32767,
    FEATURES = 15
};
extern const char *const feature_names[];

/* Everything that a seed decides about a round. */
struct plan {
    uint64_t seed;
    unsigned features;
    struct lladd_options o; /* without device, world and registry */
    unsigned cycles;        /* of working and crashing */
    unsigned steps;         /* transactions in each, by and large */
    unsigned keep_journal;  /* one transaction in so many gives up what it has in the journal */
    uint32_t value_max, entry_max, blob_max;
    unsigned losers, loser_size;
};
void plan_draw(struct plan *, uint64_t seed, unsigned features);
void plan_print(const struct plan *, FILE *);

/* ---- what is known --------------------------------------------------------------------------- */

enum stage {
    STAGE_OPENING,
    STAGE_BEHIND,
    STAGE_CHECKING,
    STAGE_WORKING,
    STAGE_CLOSING,
    STAGE_DONE
};

enum doubt_state {
    DOUBT_NONE,      /* nothing since `committed` */
    DOUBT_PREPARING, /* or nothing */
    DOUBT_PREPARED,
    DOUBT_COMMITTING, /* in doubt or committed */
    DOUBT_ABORTING    /* in doubt or gone */
};

struct slot {
    _Atomic uint32_t state;
    _Atomic uint32_t serial;    /* of the transaction the state is about, or of the last one */
    _Atomic uint32_t committed; /* the last serial that was; 0: none */
    _Atomic uint32_t commits;   /* how many were */
};

struct oracle {
    _Atomic uint64_t calls;  /* of the device since it was armed */
    _Atomic uint32_t killed; /* the device ended the process */
    _Atomic uint32_t stage;
    _Atomic uint32_t made;   /* the structures are there */
    _Atomic uint32_t behind; /* instant recovery had pages to redo when open returned */
    _Atomic uint64_t open_calls, open_ns;
    _Atomic uint64_t capacity; /* of the disk */
    _Atomic uint64_t chance;   /* how often the database asked for random bytes */
    struct {
        _Atomic uint32_t sure;   /* these transactions have to be there... */
        _Atomic uint32_t issued; /* ...and these may be */
    } worker[WORKERS];
    struct slot slot[SLOTS];
    struct {
        _Atomic uint64_t lsn; /* 0: none */
        _Atomic uint32_t sure;
    } pin[PINS];
    _Atomic uint32_t refused; /* LLADD_LOG_FULL and the like, answered to work */
    _Atomic uint32_t failed;
    char kind[64];
    char message[512];
};

/* The oracle as text, so that a process of another machine can go on; with them two numbers of the
 * conductor's. False, with errno: there is no such file, or it holds something else. */
bool oracle_save(struct oracle *, const uint64_t conductor[2], const char *path);
bool oracle_load(struct oracle *, uint64_t conductor[2], const char *path);

/* ---- one process with the database open ------------------------------------------------------ */

struct session {
    const struct plan *plan;
    struct oracle *oracle;
    struct crash_device *device;
    const char *dir;
    unsigned life; /* counts processes */
    struct lladd_world world; /* chance and the clock on the wall follow from the seed */
    struct lladd_db *db;
    struct lladd_hash *hash;
    struct lladd_managed *rows;
    lladd_pageno page, blobs[WORKERS];
    uint64_t tags[WORKERS], doubts; /* of the journal */
    struct lladd_txn *held[SLOTS];  /* prepared ones whose handle is here */
};

/* Notes the failure, if it is the first, and ends the process. */
void fail(struct oracle *, const char *kind, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
/* Fails unless rc is 0: the kind is `what` and the code's name. */
void must(struct oracle *, int rc, const char *what, const struct lladd_error *);
void must_txn(struct session *, int rc, const char *what, const struct lladd_txn *);
/* Is it an answer that work may get at the limits, and goes on after? Counted. */
bool refused(struct session *, int rc);
/* A checkpoint may want a new segment, and a full disk has none; at the limit of the log it must
 * not fail. */
bool no_space(struct session *, int rc);

/* Opens, makes the structures if they are not there, and finds them. */
void session_open(struct session *, bool instant, bool atomic);
void session_find(struct session *);
void session_close(struct session *);
/* What instant recovery has put off. */
void session_catch_up(struct session *);

/* ---- what transactions do -------------------------------------------------------------------- */

enum act_kind {
    ACT_PUT,
    ACT_DELETE,
    ACT_ADD,
    ACT_SET,
    ACT_APPEND, /* to the journal */
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
    bool detour; /* taken back by a rollback to a savepoint */
    uint32_t at, len;
};

/* A number that follows from others. */
uint64_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
unsigned acts_of(const struct plan *, unsigned w, uint32_t n, struct act acts[ACTS]);
/* What an act of transaction n writes; never the same twice. `bytes` has room for a->len. */
void act_bytes(const struct plan *, unsigned w, uint32_t n, unsigned index, const struct act *,
               void *bytes);
/* The key's bytes: kind 'W' of workers, 'N' their count, 'L' of losers, 'D' of slots. */
struct key {
    unsigned char bytes[9];
};
struct key key_of(char kind, uint32_t a, uint32_t b);
struct lladd_gid gid_of(unsigned slot, uint32_t serial);

/* What is there after n transactions of worker w. */
struct model {
    uint32_t value_n[KEYS], value_act[KEYS]; /* n 0: none */
    int64_t counter;
    unsigned char bytes[BYTES];
    uint32_t journal_from; /* first transaction whose entries are live */
    unsigned char *blob;
    uint32_t blob_len;
    uint32_t row_n[ROWS];
};
void model_of(const struct plan *, unsigned w, uint32_t n, struct model *out);
void model_end(struct model *);

/* ---- working, checking ----------------------------------------------------------------------- */

/* Transactions of all kinds until there were enough, or the database has no room for more. */
void work(struct session *);
/* One transaction of a worker: 0, or what refused it. */
int work_one(struct session *, unsigned w);
/* Everything that keeps log is given up; then there is room, and a transaction is possible. */
void work_relieve(struct session *);

/* All that the oracle knows; and it learns what has turned out. */
void check(struct session *);
/* lladd_inspect_verify finds no damage; after a close, nothing at all. */
void check_files(struct oracle *, const char *dir, bool closed);

#endif
