/* SPDX-License-Identifier: BSD-2-Clause */
/* make_ordered KIND DIR makes a database with a structure of examples/ordered under the root
 * "ordered", and one structure of the library. Prints the page of the first leaf. KIND:
 *     sound  without mistakes
 *     stray  a key is on a leaf where it does not belong; the page itself is valid
 *     leak   a page is allocated, but nothing points to it
 *     two    a second root has the same value, and a third points to another structure
 *     doubt  the process dies with keys that no transaction committed */
#include "examples/ordered/ordered.h"
#include "examples/ordered/page.h"

#include <lladd/extension.h>
#include <lladd/hash.h>
#include <lladd/pages.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

enum { ROOM = 12, KEYS = 40 };

static int first_leaf(void *ctx, lladd_pageno page)
{
    lladd_pageno *pages = ctx;
    if (pages[0].v && !pages[1].v)
        pages[1] = page;
    if (!pages[0].v)
        pages[0] = page;
    return 0;
}

static int fill(struct lladd_txn *txn, const char *name, lladd_pageno *root)
{
    TRY(ordered_create(txn, ROOM, root));
    for (uint64_t key = 1; key <= KEYS; key++)
        TRY(ordered_put(txn, *root, key, key * key));
    return lladd_root_set(txn, name, (struct lladd_root_value){root->v, 0});
}

static int stray(struct lladd_txn *txn, lladd_pageno leaf)
{
    unsigned char entry[ENTRY];
    const struct splice last = {.at = ROOM / 2, .n = 1, .bytes = entry};
    lladd_op_id op;
    TRY(lladd_op_lookup(lladd_txn_db(txn), ordered_splice.name, 1, &op));
    entry_make(entry, 1000, LIVE, 1);
    return lladd_update(txn, op, leaf, &last, sizeof last);
}

static int make(struct lladd_txn *txn, const char *kind, lladd_pageno *leaf)
{
    struct lladd_db *db = lladd_txn_db(txn);
    lladd_pageno root, other, pages[2] = {{0}, {0}};
    TRY(fill(txn, "ordered", &root));
    TRY(lladd_hash_create(txn, NULL, &other));
    TRY(lladd_root_set(txn, "table", (struct lladd_root_value){other.v, 0}));
    TRY(ordered_pages(db, root, first_leaf, pages, lladd_txn_error_out(txn)));
    *leaf = pages[1];
    if (strcmp(kind, "stray") == 0)
        return stray(txn, *leaf);
    if (strcmp(kind, "leak") == 0)
        return lladd_page_alloc(txn, &other);
    if (strcmp(kind, "two") == 0) {
        TRY(lladd_root_set(txn, "alias", (struct lladd_root_value){root.v, 0}));
        return fill(txn, "second", &other);
    }
    return 0;
}

static int lose(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_root_value root;
    struct lladd_txn *txn;
    TRY(lladd_root_get(db, "ordered", &root, err));
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = 0;
    for (uint64_t key = 100; !rc && key <= 120; key++)
        rc = ordered_put(txn, lladd_page_of(root.a), key, key);
    if (rc)
        *err = *lladd_txn_error(txn);
    return rc ? rc : lladd_checkpoint(db, err);
}

static int fail(const struct lladd_error *err)
{
    fprintf(stderr, "make_ordered: %s\n", err->message);
    return 1;
}

int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    lladd_pageno leaf = {0};
    struct lladd_db *db;
    struct lladd_txn *txn;
    if (argc != 3)
        return fprintf(stderr, "usage: make_ordered KIND DIR\n"), 2;
    if (ordered_register(&options, &err) || lladd_open(argv[2], &options, &db, &err) ||
        lladd_begin(db, NULL, &txn, &err))
        return fail(&err);
    lladd_options_release(&options);
    if (make(txn, argv[1], &leaf))
        return fail(lladd_txn_error(txn));
    if (lladd_commit(txn))
        return fail(lladd_txn_error(txn));
    printf("%llu\n", (unsigned long long)leaf.v);
    if (fflush(stdout))
        return 1;
    if (strcmp(argv[1], "doubt") == 0) {
        if (lose(db, &err))
            return fail(&err);
        _exit(0);
    }
    return lladd_close(db) ? 1 : 0;
}
