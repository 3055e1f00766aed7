/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_KEYED_H
#define TOOLS_KEYED_H
/* What `lladd hash` and `lladd btree` have in common: tables from keys to values, under the name of
 * a root. */
#include "tool.h"

/* The library's functions for one kind of table. `table` is an open handle. */
struct keyed_calls {
    int (*open)(struct lladd_db *, lladd_pageno root, void **table, struct lladd_error *);
    void (*close)(void *table);
    int (*get)(void *table, struct lladd_span key, void *buf, size_t size, size_t *len,
               struct lladd_error *);
    int (*put)(struct lladd_txn *, void *table, struct lladd_span key, struct lladd_span value);
    int (*del)(struct lladd_txn *, void *table, struct lladd_span key);
    /* Makes a table with one row; without a row if `key` is NULL. */
    int (*make)(struct lladd_txn *, uint32_t key_size, uint32_t value_size,
                const struct lladd_span *key, struct lladd_span value, lladd_pageno *root);
};

struct keyed {
    struct tool *t;
    const struct keyed_calls *calls;
    bool hex, create;
    uint64_t key_size, value_size;
    unsigned char *key, *value; /* owned */
    size_t key_len, value_len;
    struct lladd_db *db;
    void *table; /* NULL: not open */
    void *own;   /* the command's own options */
    struct lladd_error err;
};

/* The options that both commands have; a command's own options begin at KEYED_OWN. */
enum { KEYED_HEX = TOOL_OWN, KEYED_CREATE, KEYED_KEY_SIZE, KEYED_VALUE_SIZE, KEYED_OWN };
#define KEYED_OPTIONS \
    TOOL_COMMON, {"hex", no_argument, NULL, KEYED_HEX}, \
        {"create", no_argument, NULL, KEYED_CREATE}, \
        {"key-size", required_argument, NULL, KEYED_KEY_SIZE}, \
    { \
        "value-size", required_argument, NULL, KEYED_VALUE_SIZE \
    }
/* A tool_option_fn with a struct keyed as ctx. */
int keyed_take(void *ctx, int option, const char *value);

/* A verb of the command, with `wanted` arguments and at most `more` optional ones. For example,
 * `name` is "get" and `verb` is "hash get". */
struct keyed_verb {
    const char *name, *verb;
    int wanted, more;
    int (*run)(struct keyed *); /* returns the exit code */
};
/* Parses the command line and runs the verb. An element without a name ends the array of verbs.
 * `names` lists the verbs for a message. */
int keyed_run(struct keyed *, const struct keyed_verb *, const char *names, const struct option *,
              tool_option_fn *, int argc, char **argv);

/* Verbs. */
int keyed_get(struct keyed *);
int keyed_put(struct keyed *);
int keyed_del(struct keyed *);
/* Makes a new table, which must not exist yet, and the database if there is none. */
int keyed_create(struct keyed *);
/* Recovers the database in memory, opens the table and runs `what`, which returns an exit code. */
int keyed_look(struct keyed *, int (*what)(struct keyed *));

/* Parses the bytes of an argument into memory that the caller frees. Returns 0 or the exit code. */
int keyed_bytes(const struct keyed *, const char *what, const char *text, unsigned char **out,
                size_t *len);
/* Reports the error in `err`; returns the exit code. */
int keyed_failed(struct keyed *);
/* Prints a row of a scan. */
void keyed_print_row(const struct keyed *, struct lladd_span key, struct lladd_span value);

#endif
