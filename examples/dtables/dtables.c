/* SPDX-License-Identifier: BSD-2-Clause */
/* dtables DIR [KEYS]: the two worked examples of the Anvil paper, on generated data. The data are
 * stored as runs, as managed tables and as cTables. Prints the size and the lookup time for each
 * configuration that the paper discusses, and for a few others. */
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>

enum { KEYS_DEFAULT = 1000000, KEYS_LEAST = 1000, KEYS_MOST = 100000000 };

static int run(struct lladd_db *db, uint32_t keys, struct lladd_error *err)
{
    lladd_dtable_cache_limit(db, UINT64_C(1) << 30);
    TRY(customers(db, keys, err));
    return moves(db, keys, err);
}

int main(int argc, char **argv)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_db *db;
    char *end = NULL;
    long keys = argc > 2 ? strtol(argv[2], &end, 10) : KEYS_DEFAULT;
    if (argc < 2 || argc > 3 || (end && *end) || keys < KEYS_LEAST || keys > KEYS_MOST) {
        fprintf(stderr, "usage: dtables DIR [KEYS], %d to %d\n", KEYS_LEAST, KEYS_MOST);
        return 2;
    }
    int rc = lladd_managed_register(&options, &err);
    if (!rc)
        rc = lladd_open(argv[1], &options, &db, &err);
    if (!rc) {
        rc = run(db, (uint32_t)keys, &err);
        int closed = lladd_close(db);
        rc = rc ? rc : closed;
    }
    lladd_options_release(&options);
    if (rc)
        fprintf(stderr, "%s: %s\n", lladd_code_name(rc), err.message);
    return rc != 0;
}
