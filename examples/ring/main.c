/* SPDX-License-Identifier: BSD-2-Clause */
/* ring-queue DIR put WORD... | ring-queue DIR take: a queue of words in a database. All words of
 * one call are put in one transaction. */
#include "ring.h"

#include <lladd/pages.h>

#include <stdio.h>
#include <string.h>

enum { WORD = 32, WORDS_PAGES = 8 };

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

static int open_ring(struct lladd_txn *txn, lladd_pageno *ring)
{
    struct lladd_root_value root;
    int rc = lladd_root_get(lladd_txn_db(txn), "ring", &root, lladd_txn_error_out(txn));
    *ring = lladd_page_of(rc ? 0 : root.a);
    if (rc != LLADD_NOT_FOUND)
        return rc;
    TRY(ring_create(txn, WORD, 0, WORDS_PAGES, ring));
    return lladd_root_set(txn, "ring", (struct lladd_root_value){ring->v, 0});
}

static int put_words(struct lladd_txn *txn, lladd_pageno ring, char **words)
{
    uint64_t number;
    for (; *words; words++) {
        char item[WORD] = {0};
        if (strlen(*words) >= WORD)
            return lladd_error_set(lladd_txn_error_out(txn), LLADD_TOO_LARGE,
                                   "the word is too long");
        memcpy(item, *words, strlen(*words));
        TRY(ring_put(txn, ring, item, &number));
    }
    return 0;
}

static int run(struct lladd_db *db, char **words, char *taken, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno ring;
    uint64_t number;
    TRY(lladd_begin(db, NULL, &txn, err));
    int rc = open_ring(txn, &ring);
    if (!rc)
        rc = words ? put_words(txn, ring, words) : ring_take(txn, ring, taken, &number);
    if (!rc)
        rc = lladd_commit(txn);
    if (!rc)
        return 0;
    *err = *lladd_txn_error(txn);
    (void)lladd_abort(txn);
    return rc;
}

int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    char taken[WORD] = "";
    bool puts_words = argc > 3 && strcmp(argv[2], "put") == 0;
    if (!puts_words && (argc != 3 || strcmp(argv[2], "take") != 0))
        return fprintf(stderr, "usage: ring-queue DIR put WORD... | ring-queue DIR take\n"), 2;
    int rc = ring_register(&options, &err);
    if (!rc)
        rc = lladd_open(argv[1], &options, &db, &err);
    lladd_options_release(&options);
    if (!rc) {
        rc = run(db, puts_words ? argv + 3 : NULL, taken, &err);
        int closed = lladd_close(db);
        rc = rc ? rc : closed;
    }
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    else if (!puts_words)
        printf("%s\n", taken);
    return rc != 0;
}
