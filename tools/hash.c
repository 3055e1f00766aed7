/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd hash: hash tables for scripts. get and scan recover the database in memory; put and del
 * open the database. */
#include "keyed.h"

#include <lladd/hash.h>

static const char usage[] =
    "usage: lladd hash get  [options] DIRECTORY ROOT KEY\n"
    "       lladd hash put  [options] DIRECTORY ROOT KEY [VALUE]\n"
    "       lladd hash del  [options] DIRECTORY ROOT KEY\n"
    "       lladd hash scan [options] DIRECTORY ROOT\n"
    "       lladd hash get|scan [options] --from STORE [--to TARGET] ROOT [KEY]\n"
    "\n"
    "Works on the hash table with the root name ROOT. get prints the value and a newline.\n"
    "scan prints every key and value, one pair a line, in quotation marks, with bytes that\n"
    "are not printable as \\xHH, in no particular order. get and scan change nothing on disk. put\n"
    "sets the value of KEY, new or not, and del deletes KEY, each in a durable transaction.\n"
    "Without VALUE the value is read from standard input, to its end. A database in use is\n"
    "refused.\n"
    "\n"
    "  --hex             keys and values are written and read in hexadecimal\n"
    "  --create          put: makes the database and the table if they do not exist\n"
    "  --key-size N      with --create: every key has N bytes\n"
    "  --value-size N    with --create: every value has N bytes\n"
    "  --from STORE      get, scan: reads the table from a store, as it was at a target, and\n"
    "                    restores nothing; --to, --timeline, --base, --expect-lsn, --endpoint,\n"
    "                    --region and --host-style as for lladd restore\n"
    "  --json, --ops FILE.so    as for the other verbs\n"
    "\n"
    "Exit status: 0; 1 if KEY does not exist, or the database is damaged; 2 if the database\n"
    "cannot be read or there is no such table.\n";

static const struct option options[] = {KEYED_OPTIONS, TOOL_FROM_STORE, {NULL, 0, NULL, 0}};

static int open_table(struct lladd_db *db, lladd_pageno root, void **out, struct lladd_error *err)
{
    struct lladd_hash *table;
    int rc = lladd_hash_open(db, root, 0, &table, err);
    if (!rc)
        *out = table;
    return rc;
}

static void close_table(void *table)
{
    lladd_hash_close(table);
}

static int get(void *table, struct lladd_span key, void *buf, size_t size, size_t *len,
               struct lladd_error *err)
{
    return lladd_hash_get(table, key.data, key.len, buf, size, len, err);
}

static int put(struct lladd_txn *txn, void *table, struct lladd_span key, struct lladd_span value)
{
    return lladd_hash_put(txn, table, key.data, key.len, value.data, value.len);
}

static int del(struct lladd_txn *txn, void *table, struct lladd_span key)
{
    return lladd_hash_delete(txn, table, key.data, key.len);
}

static int make(struct lladd_txn *txn, uint32_t key_size, uint32_t value_size,
                const struct lladd_span *key, struct lladd_span value, lladd_pageno *root)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    struct lladd_hash *table;
    o.key_size = key_size;
    o.value_size = value_size;
    int rc = lladd_hash_create_open(txn, &o, 0, root, &table);
    if (rc)
        return rc;
    if (key)
        rc = put(txn, table, *key, value);
    lladd_hash_close(table);
    return rc;
}

static int print_all(struct keyed *h)
{
    struct lladd_hash_cursor walk = {{0}, NULL, 0};
    struct lladd_span key, value;
    int rc;
    while ((rc = lladd_hash_cursor_next(h->table, &walk, &key, &value, &h->err)) == 0)
        keyed_print_row(h, key, value);
    lladd_hash_cursor_close(h->table, &walk);
    return rc == LLADD_END ? TOOL_FINE : keyed_failed(h);
}

static int scan(struct keyed *h)
{
    return keyed_look(h, print_all);
}

int tool_hash(int argc, char **argv)
{
    static const struct keyed_calls calls = {open_table, close_table, get, put, del, make};
    static const struct keyed_verb verbs[] = {{"get", "hash get", 2, 0, keyed_get},
                                              {"put", "hash put", 2, 1, keyed_put},
                                              {"del", "hash del", 2, 0, keyed_del},
                                              {"scan", "hash scan", 1, 0, scan},
                                              {NULL, NULL, 0, 0, NULL}};
    struct tool t = {.verb = "hash", .usage = usage};
    struct keyed h = {.t = &t, .calls = &calls, .err = LLADD_ERROR_INIT};
    return keyed_run(&h, verbs, "get, put, del or scan", options, keyed_take, argc, argv);
}
