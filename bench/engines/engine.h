/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_ENGINE_H
#define LL_BENCH_ENGINE_H
/* One interface for the engines of this library and of its peers: a workload is written once.
 *
 * An engine stores fixed-length values under 64-bit integer keys, in transactions. The workload
 * gives keys as numbers; each engine encodes them in its best form, `key_size` bytes long. To add
 * an engine, see bench/README.md.
 *
 * Calls return 0, BENCH_ABSENT, BENCH_AGAIN (roll back, try again) or BENCH_FAILED with a message
 * on stderr. Unless the function's comment says otherwise, a NULL function means that the engine
 * lacks the capability; workloads that need the capability skip the engine, and print why. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_ABSENT = 1, BENCH_AGAIN = 2, BENCH_FAILED = -1 };

/* Where the changes of a transaction are when its commit returns. */
enum bench_level {
    BENCH_DISK,   /* on the device: survives power loss */
    BENCH_OS,     /* handed to the operating system: survives the process's death */
    BENCH_PROCESS /* may still be in the process */
};

struct bench_setup {
    const char *dir; /* a directory that is empty or has the database to be opened again */
    uint64_t cache_bytes;
    uint64_t expected; /* elements: a hint that an engine may use */
    uint64_t txn_ops;  /* operations of each transaction: another hint */
    uint32_t key_size; /* 4, 8 or 16 */
    uint32_t value_size;
    uint32_t threads; /* threads that will use the database */
    enum bench_level level;
    bool keep_log; /* the engine takes no checkpoints, so recovery repeats all transactions */
    uint64_t checkpoint_log; /* bytes of log between two checkpoints; 0: the engine's default */
};

struct bench_db;     /* defined by each engine */
struct bench_thread; /* defined by each engine: what a thread needs, e.g. a session */
struct bench_txn;    /* defined by each engine */

struct bench_engine {
    const char *name;
    const char *(*version)(void);
    const char *settings;  /* one line */
    const char *log_files; /* parts of the log files' names, separated by blanks; NULL: there are
                              no log files, or `io` reports the log's bytes */
    unsigned levels;       /* BENCH_AT(...) of the supported levels, combined with | */
    bool numbered;         /* keys can only be the numbers from 0 on, inserted in that order */
    bool in_memory;        /* it has no transactions, and a commit does nothing */
    bool one_changer;      /* while one transaction changes the database, others cannot */
    bool checkpoints;      /* the engine itself takes checkpoints, as setup.checkpoint_log says */
    bool backups_only;     /* it takes part in W12 alone */
    bool apart;            /* other processes do a part of the work: the driver does not count the
                              memory, the processor time, the writes and the syncs of the cell */

    /* Creates the database, or opens an existing one. */
    int (*open)(const struct bench_setup *, struct bench_db **);
    int (*close)(struct bench_db *); /* a clean close: afterwards everything is on the disk */
    /* Called by each thread before its first call on the database, and after its last. NULL: not
     * needed; the other calls then get a NULL thread. */
    int (*join)(struct bench_db *, struct bench_thread **);
    void (*leave)(struct bench_db *, struct bench_thread *);

    int (*begin)(struct bench_db *, struct bench_thread *, struct bench_txn **);
    int (*commit)(struct bench_db *, struct bench_txn *); /* durable as the setup's level says */
    int (*abort)(struct bench_db *, struct bench_txn *);
    /* Commits without waiting; `wait` waits until the commit is on the device. */
    int (*commit_async)(struct bench_db *, struct bench_txn *, uint64_t *ticket);
    int (*wait)(struct bench_db *, uint64_t ticket);

    /* The key must be absent. */
    int (*insert)(struct bench_db *, struct bench_txn *, uint64_t key, const void *value);
    /* The key must be present. */
    int (*update)(struct bench_db *, struct bench_txn *, uint64_t key, const void *value);
    int (*lookup)(struct bench_db *, struct bench_thread *, uint64_t key, void *value);
    /* Looks up n keys at once; found[i] says whether key i was present. */
    int (*lookup_many)(struct bench_db *, const uint64_t *keys, size_t n, void *values,
                       unsigned char *found);
    /* Copies the values of the record with `key` and of the records that follow it in the order of
     * keys, at most n in all; *seen is their number. NULL: no ordered keys, or not implemented. */
    int (*scan)(struct bench_db *, struct bench_thread *, uint64_t key, uint32_t n, void *values,
                uint32_t *seen);
    /* `records`: the engine takes part in W2 (an array), because its keys can serve as record
     * numbers, from 0 on. `fill` inserts `count` absent keys from `first` on; NULL: `insert` is
     * called for each. */
    bool records;
    int (*fill)(struct bench_db *, struct bench_txn *, uint64_t first, uint64_t count,
                const void *values);
    /* Bounds recovery: writes changed pages, and truncates the log. */
    int (*checkpoint)(struct bench_db *);
    /* Copies the open database into the empty directory, while transactions may change the
     * database. When the call returns, the copy is durable. */
    int (*backup)(struct bench_db *, const char *dir);
    /* Log bytes written, and pages read and written, since the database was opened. */
    void (*io)(struct bench_db *, uint64_t *log_bytes, uint64_t *pages_read,
               uint64_t *pages_written);
};

#define BENCH_AT(level) (1u << (level))
#define BENCH_AT_ALL (BENCH_AT(BENCH_DISK) | BENCH_AT(BENCH_OS) | BENCH_AT(BENCH_PROCESS))
/* A transaction of at least this many operations is a bulk load. Some engines use other settings
 * for bulk loads. */
#define BENCH_BULK 1000u
/* Lookups in one read transaction, for engines that need a transaction to look up. */
#define BENCH_READS 100u

/* The engines found at configure time, ending with NULL. */
extern const struct bench_engine *const bench_engines[];
/* The engines not found, with the reason; ends with NULL names. */
struct bench_missing {
    const char *names; /* separated by blanks */
    const char *why;
};
extern const struct bench_missing bench_engines_missing[];
/* Prints what failed on stderr; returns BENCH_FAILED. */
int bench_failed(const char *engine, const char *what, const char *why);
/* Copies a file, and syncs the copy. */
int bench_copy(const char *from, const char *to);
#define BENCH_KEY_MAX 16u
/* The key for engines that compare keys as bytes: the number in `size` bytes (1 to 8), big-endian;
 * the rest of `out` is zeros. */
void bench_key(unsigned char out[8], uint64_t key, uint32_t size);
/* The key for engines that scan. If `size` is at most 8, it is bench_key's key, otherwise the
 * number in decimal digits. */
void bench_digits(unsigned char out[BENCH_KEY_MAX], uint64_t key, uint32_t size);

#endif
