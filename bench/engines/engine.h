/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_ENGINE_H
#define LL_BENCH_ENGINE_H
/* One table of engines, ours and the peers', so that a workload is written once.
 *
 * An engine is a way to store fixed-length values under 64-bit integer keys, in transactions. The
 * workload hands out keys as numbers; each engine encodes them in its best form, `key_size` bytes
 * long. To add one: see bench/README.md.
 *
 * Calls return 0, BENCH_ABSENT, BENCH_AGAIN (roll back, try again) or BENCH_FAILED with a message
 * on stderr. Of those that are NULL the engine is not capable; workloads skip it by name. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_ABSENT = 1, BENCH_AGAIN = 2, BENCH_FAILED = -1 };

/* Where a commit is when it returns. */
enum bench_level {
    BENCH_DISK,   /* on the device: survives power loss */
    BENCH_OS,     /* handed to the operating system: survives the process */
    BENCH_PROCESS /* may be in the process */
};

struct bench_setup {
    const char *dir; /* empty, or that of the database to be opened again */
    uint64_t cache_bytes;
    uint64_t expected; /* elements: a hint for those who can use it */
    uint64_t txn_ops;  /* operations of each transaction, likewise */
    uint32_t key_size; /* 4, 8 or 16 */
    uint32_t value_size;
    uint32_t threads; /* that will be using it */
    enum bench_level level;
    bool keep_log; /* no checkpoint of its own: a crash leaves all to recovery */
};

struct bench_db;     /* each engine's own */
struct bench_thread; /* likewise: what a thread needs, a session for instance */
struct bench_txn;    /* likewise */

struct bench_engine {
    const char *name;
    const char *(*version)(void);
    const char *settings;  /* one line */
    const char *log_files; /* a part of the names of its log files, several separated by blanks;
                              NULL: it has none, or `io` says how much it has logged */
    unsigned levels;       /* BENCH_AT(...) of those it has */
    bool numbered;         /* keys can only be 0, 1, 2 ..., and are inserted in that order */
    bool one_changer;      /* one transaction at a time may be changing it; others are refused */

    /* Creates, or opens what is there. */
    int (*open)(const struct bench_setup *, struct bench_db **);
    int (*close)(struct bench_db *); /* cleanly, everything on the disk */
    /* For each thread before its first call on the database, and after its last; NULL: needs
     * nothing, and is called with a NULL thread. */
    int (*join)(struct bench_db *, struct bench_thread **);
    void (*leave)(struct bench_db *, struct bench_thread *);

    int (*begin)(struct bench_db *, struct bench_thread *, struct bench_txn **);
    int (*commit)(struct bench_db *, struct bench_txn *); /* durable as the setup's level says */
    int (*abort)(struct bench_db *, struct bench_txn *);
    /* Commits without waiting, and waits until that is on the device. */
    int (*commit_async)(struct bench_db *, struct bench_txn *, uint64_t *ticket);
    int (*wait)(struct bench_db *, uint64_t ticket);

    /* A key that is not there. */
    int (*insert)(struct bench_db *, struct bench_txn *, uint64_t key, const void *value);
    /* A key that is there. */
    int (*update)(struct bench_db *, struct bench_txn *, uint64_t key, const void *value);
    int (*lookup)(struct bench_db *, struct bench_thread *, uint64_t key, void *value);
    /* n keys at a time; found[i] says which were there. */
    int (*lookup_many)(struct bench_db *, const uint64_t *keys, size_t n, void *values,
                       unsigned char *found);
    /* The values of the record and of those whose keys follow, n in all if there are so many, one
     * after the other; *seen is how many. NULL: it has no order. */
    int (*scan)(struct bench_db *, struct bench_thread *, uint64_t key, uint32_t n, void *values,
                uint32_t *seen);
    /* W2: are keys 0, 1, 2 ... as good as record numbers? And a call that takes `count` of them
     * from `first` on, none of which is there; NULL: `insert`, for each. */
    bool records;
    int (*fill)(struct bench_db *, struct bench_txn *, uint64_t first, uint64_t count,
                const void *values);
    /* What bounds recovery: changed pages to the disk, the log cut off. */
    int (*checkpoint)(struct bench_db *);
    /* Log bytes written and pages read and written since it was opened. */
    void (*io)(struct bench_db *, uint64_t *log_bytes, uint64_t *pages_read,
               uint64_t *pages_written);
};

#define BENCH_AT(level) (1u << (level))
#define BENCH_AT_ALL (BENCH_AT(BENCH_DISK) | BENCH_AT(BENCH_OS) | BENCH_AT(BENCH_PROCESS))
/* Transactions from this many operations on are bulk loads to those who make a difference. */
#define BENCH_BULK 1000u
/* Lookups in one read transaction, where a lookup needs one. */
#define BENCH_READS 100u

/* Those that were found at configure time, in an array that ends with NULL. */
extern const struct bench_engine *const bench_engines[];
/* Those that were not, and why; ends with NULL names. */
struct bench_missing {
    const char *names; /* separated by blanks */
    const char *why;
};
extern const struct bench_missing bench_engines_missing[];
/* Says on stderr what failed; returns BENCH_FAILED. */
int bench_failed(const char *engine, const char *what, const char *why);
#define BENCH_KEY_MAX 16u
/* The key for engines that compare bytes: big-endian, `size` of them, at most 8. */
void bench_key(unsigned char out[8], uint64_t key, uint32_t size);
/* The same for those that scan: of more bytes, decimal digits. */
void bench_digits(unsigned char out[BENCH_KEY_MAX], uint64_t key, uint32_t size);

#endif
