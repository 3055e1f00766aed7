/* SPDX-License-Identifier: BSD-2-Clause */
/* make_db KIND DIR: makes a database for test_tools.py (made.h), and prints the places of its
 * contents, one "name number" per line. make_db --hold KIND DIR does not close the database: it
 * prints "ready" and waits for the end of its input, while the database is in use. make_db --churn
 * DIR opens a database and commits until its input ends, with background threads.
 *
 * These make a database:
 *     --journal DIR      with a journal; it crashes
 *     --run DIR          with a sorted run of a dTable
 *     --large MIB DIR    with MIB mebibytes of log, and about as many of pages; it crashes
 *     --doubt DIR        with a managed dTable that a transaction in doubt has changed; it crashes
 *     --doubt-makes DIR  with a table that a transaction in doubt has made
 *     --doubt-drops DIR  with a table that a transaction in doubt has dropped
 *     --regions DIR      with three regions
 *     --bwtree DIR       with a logged Bw-tree "index" of 1000 rows
 *
 * These change an existing database:
 *     --forget DIR NAME     removes a root, so that its structure is lost
 *     --alias DIR NAME      gives the value of a root a second name
 *     --root DIR NAME       makes a root that points to no page
 *     --begin-end DIR NAME  destroys some, but not all, pages of the root's hash table
 *     --send DIR            puts a row into the unlogged table "t", at the position 20 from 15
 *     --keep DIR            puts rows into the logged table "t", and digests them while a snapshot
 *                           is open, so that there is an obsolete run
 *     --free-last DIR       frees the last allocated page, even though it is in use */
#include "made.h"

#include <lladd/bwtree.h>
#include <lladd/bytes.h>
#include <lladd/dtable.h>
#include <lladd/dtable_managed.h>
#include <lladd/hash.h>
#include <lladd/journal.h>
#include <lladd/records.h>
#include <lladd/stats.h>
#include <lladd/twophase.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print(const struct made *m)
{
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {{"bytes", m->bytes.v},    {"slotted", m->slotted.v}, {"freed", m->freed.v},
                {"raw", m->raw.v},        {"bulk", m->bulk.v},       {"heap", m->heap.v},
                {"tree", m->tree.v},      {"active", m->active.v},   {"prepared", m->prepared.v},
                {"aborted", m->aborted.v}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        printf("%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
}

static int fail(const struct lladd_error *err)
{
    fprintf(stderr, "make_db: %s\n", err->message);
    return 1;
}

static void wait_for_end(void)
{
    char c;
    printf("ready\n");
    (void)fflush(stdout); /* if this fails, the waiting test fails */
    while (read(STDIN_FILENO, &c, 1) > 0) {
    }
}

static bool input_ended(void)
{
    struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&p, 1, 0) > 0;
}

/* Commits changes of one page, with checkpoints, as fast as possible. */
static int churn(const char *dir)
{
    struct lladd_options o = made_options(NULL);
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_root_value root;
    struct lladd_db *db;
    struct lladd_txn *txn;
    o.flags = 0;
    o.world = NULL;
    o.durability = LLADD_DURABLE_OS;
    o.checkpoint_bytes = 1u << 16;
    int rc = lladd_open(dir, &o, &db, &err);
    lladd_options_release(&o);
    if (!rc)
        rc = lladd_root_get(db, "bytes", &root, &err);
    if (rc)
        return fail(&err);
    printf("ready\n");
    (void)fflush(stdout); /* if this fails, the waiting test fails */
    for (unsigned i = 0; !rc && !input_ended(); i++) {
        rc = lladd_begin(db, NULL, &txn, &err);
        for (unsigned k = 0; !rc && k < 8; k++)
            rc = lladd_bytes_set(txn, lladd_page_of(root.a), 512 + 64 * k, &i, sizeof i);
        if (!rc)
            rc = lladd_commit(txn);
    }
    int closed = lladd_close(db);
    return rc || closed ? fail(&err) : 0;
}

enum { LARGE_TXN = 256, LARGE_SET = 2000 };

/* Allocates and formats LARGE_TXN pages in one transaction. */
static int large_pages(struct lladd_db *db, lladd_pageno pages[LARGE_TXN])
{
    struct lladd_txn *txn;
    int rc = lladd_begin(db, NULL, &txn, NULL);
    for (unsigned i = 0; !rc && i < LARGE_TXN; i++) {
        rc = lladd_page_alloc(txn, &pages[i]);
        if (!rc)
            rc = lladd_bytes_format(txn, pages[i]);
    }
    return rc ? rc : lladd_commit(txn);
}

/* Changes each of the pages in one transaction, which commits if `over` is true. */
static int large_change(struct lladd_db *db, const lladd_pageno pages[LARGE_TXN], unsigned round,
                        bool over)
{
    unsigned char bytes[LARGE_SET];
    struct lladd_txn *txn;
    memset(bytes, (int)round + 1, sizeof bytes);
    int rc = lladd_begin(db, NULL, &txn, NULL);
    for (unsigned i = 0; !rc && i < LARGE_TXN; i++)
        rc = lladd_bytes_set(txn, pages[i], 0, bytes, sizeof bytes);
    return rc || !over ? rc : lladd_commit(txn);
}

/* Makes the database without a checkpoint, so that all of the log must be redone. The transaction
 * before the last one stays open. */
static int large(const char *dir, uint64_t mib)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_stats s = {.struct_size = sizeof s};
    lladd_pageno pages[LARGE_TXN];
    struct lladd_db *db;
    o.durability = LLADD_DURABLE_OS;
    o.log_limit_bytes = UINT64_MAX;
    o.checkpoint_bytes = UINT64_MAX / 2;
    int rc = lladd_open(dir, &o, &db, &err);
    lladd_options_release(&o);
    for (unsigned round = 0; !rc && s.log_bytes < mib << 20; round++) {
        rc = large_pages(db, pages);
        if (!rc)
            rc = large_change(db, pages, round, true);
        if (!rc)
            rc = lladd_stats_get(db, &s);
    }
    if (!rc)
        rc = large_change(db, pages, 0, false);
    if (!rc)
        rc = large_pages(db, pages);
    lladd_db_kill(db);
    return rc ? fail(&err) : 0;
}

/* Runs one transaction, which appends n entries; with n 0 it discards all entries. */
static int journal_txn(struct lladd_db *db, const char *name, int n)
{
    static const char entry[100];
    struct lladd_txn *txn;
    uint64_t tag;
    int rc = lladd_begin(db, NULL, &txn, NULL);
    if (rc)
        return rc;
    rc = lladd_journal_acquire(txn, name, "shop", &tag);
    if (!rc && n == 0)
        rc = lladd_journal_discard(txn, tag, lladd_lsn_of(0));
    while (!rc && n-- > 0)
        rc = lladd_journal_append(txn, tag, lladd_span_of(entry, sizeof entry), NULL);
    return rc ? rc : lladd_commit(txn);
}

static int journal_fill(struct lladd_db *db, struct lladd_error *err)
{
    int rc = journal_txn(db, "bulk", 1000);
    if (!rc)
        rc = journal_txn(db, "bulk", 0);
    if (!rc)
        rc = lladd_checkpoint(db, err); /* moves the journal's mark */
    if (!rc)
        rc = journal_txn(db, "orders", 5);
    return rc ? rc : journal_txn(db, "bulk", 7);
}

/* Makes a journal. Its mark (operations/journal/table.h) is a root that points to no page. */
static int journal(const char *dir)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    o.flags = LLADD_OPT_NO_THREADS;
    o.durability = LLADD_DURABLE_OS;
    int rc = lladd_journal_register(&o, &err);
    if (!rc)
        rc = lladd_open(dir, &o, &db, &err);
    lladd_options_release(&o);
    if (rc)
        return fail(&err);
    rc = journal_fill(db, &err);
    lladd_db_kill(db);
    return rc ? fail(&err) : 0;
}

enum doubt { DOUBT_WRITES, DOUBT_MAKES, DOUBT_DROPS };

static int doubt_write(struct lladd_db *db, struct lladd_txn *txn, struct lladd_error *err)
{
    struct lladd_dtable_key key = lladd_dtable_u32(7);
    struct lladd_dtable_value value = lladd_dtable_value_of("the value", 9);
    struct lladd_managed *table;
    int rc = lladd_managed_open(db, "rows", &table, err);
    return rc ? rc : lladd_managed_put(txn, table, &key, &value);
}

static int doubt_txn(struct lladd_db *db, enum doubt what, struct lladd_error *err)
{
    struct lladd_gid gid = {.format = 1, .gtrid_length = 1, .data = "d"};
    struct lladd_managed_options m = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_txn *txn;
    m.type = LLADD_DTABLE_U32;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (!rc)
        rc = lladd_managed_create(txn, "rows", &m);
    if (!rc)
        rc = lladd_commit(txn);
    if (!rc)
        rc = lladd_begin(db, NULL, &txn, err);
    if (!rc)
        rc = what == DOUBT_MAKES   ? lladd_managed_create(txn, "more", &m)
             : what == DOUBT_DROPS ? lladd_managed_destroy(txn, "rows")
                                   : doubt_write(db, txn, err);
    return rc ? rc : lladd_prepare(txn, &gid);
}

static int doubt(const char *dir, enum doubt what)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    o.flags = LLADD_OPT_NO_THREADS;
    int rc = lladd_managed_register(&o, &err);
    if (!rc)
        rc = lladd_open(dir, &o, &db, &err);
    lladd_options_release(&o);
    if (rc)
        return fail(&err);
    rc = doubt_txn(db, what, &err);
    lladd_db_kill(db);
    return rc ? fail(&err) : 0;
}

static int build_run(struct lladd_txn *txn)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    lladd_pageno root;
    o.type = LLADD_DTABLE_U32;
    int rc = lladd_dtable_run_begin(txn, &o, &run);
    for (uint32_t i = 0; !rc && i < 1000; i++) {
        struct lladd_dtable_key key = lladd_dtable_u32(i);
        struct lladd_dtable_value value = lladd_dtable_value_of("the value", 9);
        rc = lladd_dtable_run_add(run, &key, &value);
    }
    if (!rc)
        rc = lladd_dtable_run_finish(run, &root);
    return rc ? rc : lladd_root_set(txn, "rows", (struct lladd_root_value){root.v, 0});
}

static int make_run(const char *dir)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    struct lladd_txn *txn;
    int rc = lladd_open(dir, NULL, &db, &err);
    if (rc)
        return fail(&err);
    rc = lladd_begin(db, NULL, &txn, &err);
    if (!rc)
        rc = build_run(txn);
    if (!rc)
        rc = lladd_commit(txn);
    int closed = lladd_close(db);
    return rc || closed ? fail(&err) : 0;
}

static int put_rows(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_bwtree *tree;
    struct lladd_txn *txn;
    unsigned char key[8];
    int rc = lladd_bwtree_open(db, "index", &tree, err);
    rc = rc ? rc : lladd_begin(db, NULL, &txn, err);
    for (uint64_t i = 0; !rc && i < 1000; i++) {
        lladd_put64(key, i);
        rc = lladd_bwtree_txn_put(txn, tree, key, sizeof key, "value", 5);
    }
    rc = rc ? rc : lladd_commit(txn);
    lladd_bwtree_close(tree); /* writes the tree to the store */
    return rc;
}

static int make_bwtree(const char *dir)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    struct lladd_txn *txn;
    int rc = lladd_bwtree_register(&o, &err);
    if (!rc)
        rc = lladd_open(dir, &o, &db, &err);
    lladd_options_release(&o);
    if (rc)
        return fail(&err);
    rc = lladd_begin(db, NULL, &txn, &err);
    rc = rc ? rc : lladd_bwtree_create(txn, "index", NULL);
    rc = rc ? rc : lladd_commit(txn);
    rc = rc ? rc : put_rows(db, &err);
    int closed = lladd_close(db);
    return rc || closed ? fail(&err) : 0;
}

static int make_regions(const char *dir)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    struct lladd_txn *txn;
    lladd_pageno first;
    int rc = lladd_open(dir, NULL, &db, &err);
    if (rc)
        return fail(&err);
    rc = lladd_begin(db, NULL, &txn, &err);
    for (unsigned kind = LLADD_EXTENT_PAGED; !rc && kind <= LLADD_EXTENT_RAW; kind++)
        rc = lladd_region_create(txn, 3, kind, kind, &first);
    if (!rc)
        rc = lladd_commit(txn);
    int closed = lladd_close(db);
    return rc || closed ? fail(&err) : 0;
}

static int send_row(struct lladd_txn *txn, struct lladd_managed *table)
{
    struct lladd_managed_position p = {20, 15};
    struct lladd_dtable_key key = lladd_dtable_u32(7);
    struct lladd_dtable_value value = lladd_dtable_value_of("seven", 5);
    int rc = lladd_managed_position_set(txn, table, &p);
    rc = rc ? rc : lladd_managed_put(txn, table, &key, &value);
    return rc ? rc : lladd_commit(txn);
}

static int put_7(struct lladd_db *db, struct lladd_managed *table, const char *text,
                 struct lladd_error *err)
{
    struct lladd_txn *txn;
    struct lladd_dtable_key key = lladd_dtable_u32(7);
    struct lladd_dtable_value value = lladd_dtable_value_of(text, strlen(text));
    int rc = lladd_begin(db, NULL, &txn, err);
    rc = rc ? rc : lladd_managed_put(txn, table, &key, &value);
    return rc ? rc : lladd_commit(txn);
}

/* Closing the database closes the snapshot. */
static int keep_rows(struct lladd_db *db, struct lladd_managed *table, struct lladd_error *err)
{
    struct lladd_managed_snapshot *snapshot;
    int rc = put_7(db, table, "six", err);
    rc = rc ? rc : lladd_managed_snapshot_open(db, &snapshot, err);
    rc = rc ? rc : put_7(db, table, "seven", err);
    return rc ? rc : lladd_managed_digest(table, err);
}

static int send_rows(struct lladd_db *db, struct lladd_managed *table, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(db, NULL, &txn, err);
    rc = rc ? rc : send_row(txn, table);
    return rc ? rc : lladd_managed_digest(table, err);
}

static int change_table(const char *dir, int (*change)(struct lladd_db *, struct lladd_managed *,
                                                       struct lladd_error *))
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_managed *table;
    struct lladd_db *db;
    int rc = lladd_managed_register(&o, &err);
    if (!rc)
        rc = lladd_open(dir, &o, &db, &err);
    lladd_options_release(&o);
    if (rc)
        return fail(&err);
    rc = lladd_managed_open(db, "t", &table, &err);
    if (!rc)
        rc = change(db, table, &err);
    int closed = lladd_close(db);
    return rc || closed ? fail(&err) : 0;
}

static int free_last(struct lladd_txn *txn)
{
    struct lladd_db *db = lladd_txn_db(txn);
    for (uint64_t page = lladd_page_count(db); page-- > 0;) {
        enum lladd_page_use use;
        int rc = lladd_page_use_get(db, lladd_page_of(page), &use, NULL);
        if (rc || use == LLADD_USE_PAGED || use == LLADD_USE_RAW)
            return rc ? rc : lladd_extent_free(txn, lladd_page_of(page), 1);
    }
    return LLADD_NOT_FOUND;
}

static int change(struct lladd_txn *txn, const char *what, const char *name)
{
    struct lladd_root_value value = {UINT64_MAX, 0};
    if (strcmp(what, "--free-last") == 0)
        return free_last(txn);
    if (strcmp(what, "--forget") == 0)
        return lladd_root_delete(txn, name);
    if (strcmp(what, "--root") == 0)
        return lladd_root_set(txn, name, value);
    int rc = lladd_root_get(lladd_txn_db(txn), name, &value, NULL);
    uint64_t left = 0;
    if (!rc && strcmp(what, "--begin-end") == 0)
        return lladd_hash_destroy_some(txn, lladd_page_of(value.a), 3, &left);
    return rc ? rc : lladd_root_set(txn, "alias", value);
}

/* Makes one of the changes of change() in a transaction, which damages the database. */
static int spoil(const char *dir, const char *what, const char *name)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    struct lladd_txn *txn;
    int rc = lladd_open(dir, NULL, &db, &err);
    if (rc)
        return fail(&err);
    rc = lladd_begin(db, NULL, &txn, &err);
    if (!rc)
        rc = change(txn, what, name);
    if (!rc)
        rc = lladd_commit(txn);
    int closed = lladd_close(db);
    return rc || closed ? fail(&err) : 0;
}

static bool is_spoiling(int argc, char **argv)
{
    return (argc == 3 && strcmp(argv[1], "--free-last") == 0) ||
           (argc == 4 && (strcmp(argv[1], "--forget") == 0 || strcmp(argv[1], "--alias") == 0 ||
                          strcmp(argv[1], "--begin-end") == 0 || strcmp(argv[1], "--root") == 0));
}

int main(int argc, char **argv)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    struct made m = {0};
    if (argc == 3 && strcmp(argv[1], "--churn") == 0)
        return churn(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--journal") == 0)
        return journal(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--run") == 0)
        return make_run(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--doubt") == 0)
        return doubt(argv[2], DOUBT_WRITES);
    if (argc == 3 && strcmp(argv[1], "--doubt-makes") == 0)
        return doubt(argv[2], DOUBT_MAKES);
    if (argc == 3 && strcmp(argv[1], "--doubt-drops") == 0)
        return doubt(argv[2], DOUBT_DROPS);
    if (argc == 3 && strcmp(argv[1], "--send") == 0)
        return change_table(argv[2], send_rows);
    if (argc == 3 && strcmp(argv[1], "--keep") == 0)
        return change_table(argv[2], keep_rows);
    if (argc == 3 && strcmp(argv[1], "--bwtree") == 0)
        return make_bwtree(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--regions") == 0)
        return make_regions(argv[2]);
    if (argc == 4 && strcmp(argv[1], "--large") == 0)
        return large(argv[3], strtoull(argv[2], NULL, 10));
    if (is_spoiling(argc, argv))
        return spoil(argv[2], argv[1], argc == 4 ? argv[3] : NULL);
    bool hold = argc == 4 && strcmp(argv[1], "--hold") == 0;
    if (!hold && argc != 3)
        return 2;
    const char *name = argv[argc - 2], *dir = argv[argc - 1];
    for (unsigned kind = 0; kind < MADE_KINDS; kind++) {
        if (strcmp(name, made_names[kind]) != 0)
            continue;
        if (!hold) {
            if (made_make(dir, NULL, (enum made_kind)kind, &m, &err))
                return fail(&err);
            print(&m);
            return 0;
        }
        if (made_open(dir, NULL, (enum made_kind)kind, &m, &db, &err))
            return fail(&err);
        print(&m);
        wait_for_end();
        lladd_db_kill(db);
        return 0;
    }
    return 2;
}
