/* SPDX-License-Identifier: BSD-2-Clause */
/* One named root has the hash table, another the page with the tally. One transaction creates both,
 * so that neither ever exists alone. */
#include "store.h"

#include <lladd/extension.h>

#define TABLE_ROOT "packages"
#define TALLY_ROOT "packages.tally"
#define CACHE_BYTES (UINT64_C(512) << 20)
#define CHECKPOINT_BYTES (UINT64_C(256) << 20)

static int make(struct lladd_txn *txn)
{
    lladd_pageno table, tally;
    int rc = lladd_hash_create(txn, NULL, &table);
    if (!rc)
        rc = lladd_root_set(txn, TABLE_ROOT, (struct lladd_root_value){table.v, 0});
    if (!rc)
        rc = lladd_page_alloc(txn, &tally);
    if (!rc)
        rc = lladd_page_format(txn, tally, TALLY_TYPE);
    return rc ? rc : lladd_root_set(txn, TALLY_ROOT, (struct lladd_root_value){tally.v, 0});
}

static int create(struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = make(txn);
    if (rc) {
        *err = *lladd_txn_error(txn);
        int aborted = lladd_abort(txn);
        return aborted ? lladd_error_set(err, aborted, "the table cannot be rolled back") : rc;
    }
    rc = lladd_commit(txn);
    return rc ? lladd_error_set(err, rc, "the table cannot be committed") : 0;
}

/* Finds the table and the tally; creates them in a new database. */
static int find(struct store *s, struct lladd_error *err)
{
    struct lladd_root_value table, tally;
    int rc = lladd_root_get(s->db, TABLE_ROOT, &table, err);
    if (rc == LLADD_NOT_FOUND) {
        rc = create(s->db, err);
        rc = rc ? rc : lladd_root_get(s->db, TABLE_ROOT, &table, err);
    }
    rc = rc ? rc : lladd_root_get(s->db, TALLY_ROOT, &tally, err);
    rc = rc ? rc : tally_lookup(s->db, &s->count, err);
    if (rc)
        return rc;
    s->tally = lladd_page_of(tally.a);
    return lladd_hash_open(s->db, lladd_page_of(table.a), LLADD_HASH_LOGICAL, &s->table, err);
}

int store_open(struct store *s, const char *dir, lladd_trace_fn *trace, void *ctx,
               struct lladd_error *err)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    /* A hash table touches pages all over the file. */
    options.cache_bytes = CACHE_BYTES;
    options.checkpoint_bytes = CHECKPOINT_BYTES;
    options.trace = trace;
    options.callback_ctx = ctx;
    *s = (struct store){.db = NULL};
    int rc = tally_register(&options, err);
    if (!rc)
        rc = lladd_open(dir, &options, &s->db, err);
    lladd_options_release(&options);
    if (rc)
        return rc;
    rc = find(s, err);
    if (rc)
        lladd_db_kill(s->db); /* the next open recovers the database */
    return rc;
}

int store_close(struct store *s)
{
    lladd_hash_close(s->table);
    return lladd_close(s->db);
}

void store_kill(struct store *s)
{
    lladd_hash_close(s->table);
    lladd_db_kill(s->db);
}

int store_put(struct store *s, struct lladd_txn *txn, const struct stanzas *stanzas,
              uint64_t sequence)
{
    char key[STANZA_KEY_MAX];
    size_t len = stanzas_key(stanzas, sequence, key);
    struct stanza text = stanzas_of(stanzas, sequence);
    return lladd_hash_insert(txn, s->table, key, len, text.text, text.len);
}

int store_count(struct store *s, struct lladd_txn *txn, const struct stanzas *stanzas,
                uint64_t sequence)
{
    struct stanza text = stanzas_of(stanzas, sequence);
    struct tally_count count = {tally_cell(text.field, text.field_len), {1, (int64_t)text.len}};
    return lladd_update(txn, s->count, s->tally, &count, sizeof count);
}
