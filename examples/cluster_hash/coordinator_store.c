/* SPDX-License-Identifier: BSD-2-Clause */
/* The coordinator's database. Roots have the coordinator's incarnation, the shape of its cluster
 * (servers, replicas) and, if the database was restored, the first incarnation after that. The
 * table "cluster.decisions" has these elements:
 *
 *   u64 incarnation, u64 sequence  ->  u32 servers       a decision to commit, and the numbers of
 *                                                        the servers that voted YES
 *   u32 server                     ->  16 bytes          the uuid of the server's database */
#include "coordinator_private.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/pages.h>
#include <stdlib.h>

#define DECISIONS_ROOT "cluster.decisions"
#define INCARNATION_ROOT "cluster.incarnation" /* incarnation, instance */
#define SHAPE_ROOT "cluster.shape"             /* servers, replicas */
#define TIMELINE_ROOT "cluster.timeline"       /* timeline; first incarnation on it */
#define DECISION_KEY 16u

static void decision_key(struct txn_id id, unsigned char key[DECISION_KEY])
{
    lladd_put64(key, id.incarnation);
    lladd_put64(key + 8, id.sequence);
}

/* Ends a transaction: commits if rc is 0, otherwise aborts. */
static int end(struct lladd_txn *txn, int rc, lladd_lsn *lsn)
{
    if (!rc)
        rc = lladd_commit_async(txn, lsn);
    if (rc && lladd_code_root(rc) != LLADD_ROOT_POISONED) {
        int aborted = lladd_abort(txn);
        rc = aborted ? aborted : rc;
    }
    return rc;
}

int store_decide(struct coordinator *c, struct global *g)
{
    unsigned char key[DECISION_KEY];
    struct lladd_txn *txn;
    size_t n = 0;
    unsigned char *servers = malloc(4 * c->options.servers);
    if (!servers)
        return LLADD_NO_MEMORY;
    for (size_t i = 0; i < c->options.servers; i++)
        if (g->parts[i].owes)
            lladd_put32(servers + 4 * n++, (uint32_t)i);
    decision_key(g->id, key);
    int rc = lladd_begin(c->db, NULL, &txn, NULL);
    if (!rc) {
        rc = lladd_hash_put(txn, c->decisions, key, sizeof key, servers, 4 * n);
        rc = end(txn, rc, &g->lsn);
    }
    free(servers);
    return rc;
}

void store_forget(struct coordinator *c, const struct global *g)
{
    struct lladd_txn_options later = LLADD_TXN_OPTIONS_INIT;
    unsigned char key[DECISION_KEY];
    struct lladd_txn *txn;
    lladd_lsn lsn;
    later.durability = LLADD_DURABLE_LATER;
    decision_key(g->id, key);
    int rc = lladd_begin(c->db, &later, &txn, NULL);
    if (!rc) {
        rc = lladd_hash_delete(txn, c->decisions, key, sizeof key);
        rc = end(txn, rc, &lsn);
    }
    /* If a decision could not be removed for lack of space, the next incarnation sends it again. */
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        coordinator_poisoned(c, rc);
}

int store_server(struct coordinator *c, size_t server, const unsigned char uuid[16])
{
    struct peer *peer = &c->peers[server];
    unsigned char key[4];
    struct lladd_txn *txn;
    lladd_lsn lsn;
    if (peer->known)
        return memcmp(peer->uuid, uuid, 16) ? LLADD_OTHER_DATABASE : 0;
    lladd_put32(key, (uint32_t)server);
    int rc = lladd_begin(c->db, NULL, &txn, NULL);
    if (rc)
        return rc;
    rc = lladd_hash_put(txn, c->decisions, key, sizeof key, uuid, 16);
    rc = end(txn, rc, &lsn);
    if (!rc) {
        peer->known = true;
        memcpy(peer->uuid, uuid, 16);
    }
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int load_row(struct coordinator *c, struct lladd_span key, struct lladd_span value)
{
    const unsigned char *k = key.data, *v = value.data;
    size_t servers = c->options.servers;
    if (key.len == 4 && value.len == 16 && lladd_get32(k) < servers) {
        struct peer *peer = &c->peers[lladd_get32(k)];
        peer->known = true;
        memcpy(peer->uuid, v, 16);
        return 0;
    }
    if (key.len != DECISION_KEY || value.len % 4)
        return LLADD_BAD_RECORD;
    struct txn_id id = {lladd_get64(k), lladd_get64(k + 8)};
    struct global *g = global_new(c, id);
    if (!g)
        return LLADD_NO_MEMORY;
    g->state = GLOBAL_COMMITTED;
    for (size_t i = 0; i < value.len; i += 4) {
        uint32_t server = lladd_get32(v + i);
        if (server >= servers)
            return LLADD_BAD_RECORD;
        g->parts[server].touched = g->parts[server].owes = true;
        g->parts[server].vote = VOTE_YES;
    }
    return 0;
}

static int load(struct coordinator *c, struct lladd_error *err)
{
    struct lladd_hash_cursor walk = {.buffer = NULL};
    struct lladd_span key, value;
    int rc;
    while ((rc = lladd_hash_cursor_next(c->decisions, &walk, &key, &value, err)) == 0) {
        rc = load_row(c, key, value);
        if (rc) {
            lladd_error_set(err, rc, "the table of decisions: %s", lladd_code_text(rc));
            break;
        }
    }
    lladd_hash_cursor_close(c->decisions, &walk);
    return rc == LLADD_END ? 0 : rc;
}

static int check_shape(struct coordinator *c, struct lladd_error *err)
{
    struct lladd_root_value shape;
    int rc = lladd_root_get(c->db, SHAPE_ROOT, &shape, err);
    if (rc == LLADD_NOT_FOUND ||
        (!rc && shape.a == c->options.servers && shape.b == c->options.replicas))
        return 0;
    if (rc)
        return rc;
    return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                           "this coordinator's cluster has %llu servers and %llu replicas, not %zu "
                           "and %zu",
                           (unsigned long long)shape.a, (unsigned long long)shape.b,
                           c->options.servers, c->options.replicas);
}

/* If the database was restored, it has another timeline than at the last start. */
static int note_timeline(struct coordinator *c, struct lladd_txn *txn)
{
    struct lladd_root_value known = {0, 1};
    uint32_t timeline = lladd_db_timeline(c->db);
    int rc = lladd_root_get(c->db, TIMELINE_ROOT, &known, lladd_txn_error_out(txn));
    if (rc && rc != LLADD_NOT_FOUND)
        return rc;
    c->since = known.a == timeline ? known.b : c->incarnation;
    known = (struct lladd_root_value){timeline, c->since};
    return c->since == c->incarnation ? lladd_root_set(txn, TIMELINE_ROOT, known) : 0;
}

/* Stores the next incarnation; in a new database also creates the roots and the table. */
static int begin_life(struct coordinator *c, struct lladd_txn *txn, bool fresh)
{
    struct lladd_root_value shape = {c->options.servers, c->options.replicas};
    struct lladd_root_value life = {c->incarnation, c->instance};
    lladd_pageno root;
    int rc = 0;
    if (fresh) {
        rc = lladd_hash_create(txn, NULL, &root);
        rc = rc ? rc : lladd_root_set(txn, DECISIONS_ROOT, (struct lladd_root_value){root.v, 0});
        rc = rc ? rc : lladd_root_set(txn, SHAPE_ROOT, shape);
    }
    rc = rc ? rc : note_timeline(c, txn);
    return rc ? rc : lladd_root_set(txn, INCARNATION_ROOT, life);
}

static int live(struct coordinator *c, struct lladd_error *err)
{
    struct lladd_root_value life = {0, 0};
    struct lladd_txn *txn;
    lladd_lsn lsn;
    int rc = lladd_root_get(c->db, INCARNATION_ROOT, &life, err);
    if (rc && rc != LLADD_NOT_FOUND)
        return rc;
    c->incarnation = life.a + 1;
    if (lladd_random_bytes(c->db, &c->instance, sizeof c->instance))
        return lladd_error_set(err, LLADD_NO_ACCESS, "no random numbers");
    bool fresh = rc == LLADD_NOT_FOUND;
    rc = lladd_begin(c->db, NULL, &txn, err);
    if (rc)
        return rc;
    rc = begin_life(c, txn, fresh);
    if (rc)
        *err = *lladd_txn_error(txn);
    int ended = end(txn, rc, &lsn);
    if (!rc && ended)
        lladd_error_set(err, ended, "the new incarnation could not be logged");
    return ended ? ended : lladd_wait_durable(c->db, lsn, err);
}

int store_open(struct coordinator *c, struct lladd_error *err)
{
    struct lladd_root_value root;
    lladd_db_uuid(c->db, c->uuid);
    int rc = check_shape(c, err);
    rc = rc ? rc : live(c, err);
    rc = rc ? rc : lladd_root_get(c->db, DECISIONS_ROOT, &root, err);
    rc = rc ? rc
            : lladd_hash_open(c->db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &c->decisions, err);
    return rc ? rc : load(c, err);
}
