/* SPDX-License-Identifier: BSD-2-Clause */
/* archived DIRECTORY STORE: a table that is archived and backed up while it is in use.
 *
 * Reads commands from standard input, a line each, and says "ok" after each:
 *
 *   put KEY VALUE   sets a value
 *   del KEY         removes a key
 *   mark NAME       makes a mark, to which the table can be restored
 *   backup LABEL    makes a backup, while the archive goes on
 *
 * A thread of the library archives the log. docs/backup.md restores the table from the store. */
#include <lladd/hash.h>
#include <lladd/pages.h>
#include <lladd/ship.h>

#include <stdio.h>
#include <string.h>

struct archived {
    struct lladd_db *db;
    struct lladd_hash *table;
    struct lladd_store *backups;
    struct lladd_archive *archive;
    struct lladd_error err;
};

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

/* Opens the table; creates it in a new database. */
static int open_table(struct archived *a)
{
    struct lladd_root_value root = {0, 0};
    struct lladd_txn *txn;
    lladd_pageno page;
    int rc = lladd_root_get(a->db, "table", &root, &a->err);
    if (rc != LLADD_NOT_FOUND)
        return rc ? rc
                  : lladd_hash_open(a->db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &a->table,
                                    &a->err);
    TRY(lladd_begin(a->db, NULL, &txn, &a->err));
    rc = lladd_hash_create_open(txn, NULL, LLADD_HASH_LOGICAL, &page, &a->table);
    if (!rc)
        rc = lladd_root_set(txn, "table", (struct lladd_root_value){page.v, 0});
    if (!rc)
        return lladd_commit(txn);
    a->err = *lladd_txn_error(txn);
    (void)lladd_abort(txn);
    return rc;
}

static int change(struct archived *a, const char *key, const char *value)
{
    struct lladd_txn *txn;
    TRY(lladd_begin(a->db, NULL, &txn, &a->err));
    int rc = value ? lladd_hash_put(txn, a->table, key, strlen(key), value, strlen(value))
                   : lladd_hash_delete(txn, a->table, key, strlen(key));
    if (!rc)
        return lladd_commit(txn);
    a->err = *lladd_txn_error(txn);
    (void)lladd_abort(txn);
    return rc;
}

static int backup(struct archived *a, const char *label)
{
    struct lladd_backup_options o = LLADD_BACKUP_OPTIONS_INIT;
    o.label = label;
    return lladd_backup(a->db, a->backups, &o, NULL, &a->err);
}

static int obey(struct archived *a, char *line)
{
    char *what = strtok(line, " \n"), *name = strtok(NULL, " \n"), *value = strtok(NULL, "\n");
    if (what && name && strcmp(what, "put") == 0)
        return change(a, name, value ? value : "");
    if (what && name && strcmp(what, "del") == 0)
        return change(a, name, NULL);
    if (what && name && strcmp(what, "mark") == 0)
        return lladd_archive_mark(a->archive, name, NULL, &a->err);
    if (what && name && strcmp(what, "backup") == 0)
        return backup(a, name);
    return lladd_error_set(&a->err, LLADD_BAD_ARGUMENT, "put, del, mark or backup");
}

static int run(struct archived *a)
{
    char line[1024];
    TRY(open_table(a));
    while (fgets(line, sizeof line, stdin)) {
        TRY(obey(a, line));
        puts("ok");
        (void)fflush(stdout);
    }
    return 0;
}

/* The archive has a store handle of its own, because only one thread at a time may use a store
 * handle. */
static int run_on(struct archived *a, const char *dir, struct lladd_store *store)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_archive_options ao = LLADD_ARCHIVE_OPTIONS_INIT;
    ao.thread = true;
    int rc = lladd_ship_register(&o, store, &ao, &a->archive, &a->err);
    if (!rc)
        rc = lladd_open(dir, &o, &a->db, &a->err);
    if (!rc) {
        rc = run(a);
        lladd_hash_close(a->table);
        int closed = lladd_close(a->db);
        rc = rc ? rc : closed;
    }
    lladd_options_release(&o);
    lladd_archive_free(a->archive);
    return rc;
}

int main(int argc, char **argv)
{
    struct archived a = {.err = LLADD_ERROR_INIT};
    struct lladd_store *store = NULL;
    if (argc != 3)
        return fputs("archived DIRECTORY STORE\n", stderr), 2;
    int rc = lladd_store_open(argv[2], NULL, &store, &a.err);
    if (!rc)
        rc = lladd_store_open(argv[2], NULL, &a.backups, &a.err);
    if (!rc)
        rc = run_on(&a, argv[1], store);
    lladd_store_close(a.backups);
    lladd_store_close(store);
    if (rc)
        fprintf(stderr, "archived: %s: %s\n", lladd_code_text(rc), a.err.message);
    return rc != 0;
}
