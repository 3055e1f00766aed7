/* SPDX-License-Identifier: BSD-2-Clause */
/* The coordinators of a server: admission, sessions, and timers.
 *
 * A coordinator is identified by the uuid of its database. The table "cluster.coordinators" has,
 * for each coordinator ever seen, its highest incarnation and its instance, a random number drawn
 * when it started. So of two coordinators with the same uuid (a copied directory) only one is
 * admitted:
 *
 *   an older incarnation               LLADD_CONFLICT  a newer incarnation has replaced it
 *   the same incarnation, another      LLADD_LOCKED    two coordinators began as one incarnation
 *   instance
 *   a newer incarnation                LLADD_BUSY      while a session of an older one exists
 *   the same instance again            welcome: the coordinator has reconnected before this server
 *                                      noticed the loss; the old session ends
 */
#include "participant_private.h"

#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <lladd/twophase.h>
#include <stdlib.h>

#define TABLE_ROOT "cluster.table"
#define COORDINATORS_ROOT "cluster.coordinators"
#define CONNECTIONS_MAX 1000u

/* ---- sending --------------------------------------------------------------------------------- */

struct session *session_find(struct participant *p, uint64_t conn)
{
    struct session *s;
    TAILQ_FOREACH(s, &p->sessions, link)
        if (s->conn == conn)
            return s;
    return NULL;
}

void session_send(struct participant *p, struct session *s, struct message *m)
{
    if (p->error.code)
        return;
    channel_stamp(&s->channel, m);
    message_encode(m, p->buffer);
    p->io.send(p->io.ctx, s->conn, p->buffer, message_size(m));
}

void session_answer(struct participant *p, struct session *s, const struct message *m,
                    lladd_lsn after, bool urgent)
{
    struct message now = *m;
    if (after.v == 0 || after.v < lladd_durable_lsn(p->db).v) {
        session_send(p, s, &now);
        return;
    }
    struct answer *a = malloc(sizeof *a);
    if (!a) { /* the answer is lost, so the session must end */
        session_drop(p, s);
        return;
    }
    *a = (struct answer){.after = after,
                         .urgent = urgent,
                         .since_ms = p->io.now_ms(p->io.ctx),
                         .conn = s->conn,
                         .message = *m};
    STAILQ_INSERT_TAIL(&p->answers, a, link);
}

void session_drop(struct participant *p, struct session *s)
{
    uint64_t conn = s->conn;
    TAILQ_REMOVE(&p->sessions, s, link);
    branches_orphan(p, s);
    free(s);
    p->counts.connections--;
    p->io.drop(p->io.ctx, conn);
}

lladd_lsn participant_wants(const struct participant *p, bool urgent)
{
    lladd_lsn most = {0};
    const struct answer *a;
    STAILQ_FOREACH(a, &p->answers, link)
        if ((a->urgent || !urgent) && a->after.v > most.v)
            most = a->after;
    return most;
}

bool participant_alone(const struct participant *p)
{
    const struct branch *first = TAILQ_FIRST(&p->branches);
    return !first || !TAILQ_NEXT(first, link);
}

void participant_durable(struct participant *p, lladd_lsn lsn)
{
    struct answers later = STAILQ_HEAD_INITIALIZER(later);
    struct answer *a;
    while ((a = STAILQ_FIRST(&p->answers)) != NULL) {
        STAILQ_REMOVE_HEAD(&p->answers, link);
        if (a->after.v > lsn.v) {
            STAILQ_INSERT_TAIL(&later, a, link);
            continue;
        }
        struct session *s = session_find(p, a->conn);
        if (s)
            session_send(p, s, &a->message);
        free(a);
    }
    STAILQ_CONCAT(&p->answers, &later);
}

/* ---- admission ------------------------------------------------------------------------------- */

static void turn_out(struct participant *p, struct session *s, int code, const char *text)
{
    struct message m = {
        .type = MESSAGE_REFUSED, .code = code, .text = lladd_span_of(text, strlen(text))};
    p->counts.refused++;
    session_send(p, s, &m);
    session_drop(p, s);
}

/* Stores a new incarnation. WELCOME is sent when it is durable. */
static int note_incarnation(struct participant *p, const struct message *m)
{
    unsigned char value[16];
    struct lladd_txn *txn;
    lladd_lsn lsn = {0};
    lladd_put64(value, m->incarnation);
    lladd_put64(value + 8, m->instance);
    int rc = lladd_begin(p->db, NULL, &txn, NULL);
    if (rc)
        return rc;
    rc = lladd_hash_put(txn, p->coordinators, m->uuid, 16, value, sizeof value);
    rc = rc ? rc : lladd_commit_async(txn, &lsn);
    if (!rc && lsn.v > p->ended.v)
        p->ended = lsn;
    if (rc && lladd_code_root(rc) != LLADD_ROOT_POISONED) {
        int aborted = lladd_abort(txn);
        rc = aborted ? aborted : rc;
    }
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        participant_fail(p, rc, NULL);
    return rc;
}

static int admit(struct participant *p, const struct session *s, const struct message *m,
                 const char **why)
{
    unsigned char known[16] = {0};
    size_t len = 0;
    int rc = lladd_hash_get(p->coordinators, m->uuid, 16, known, sizeof known, &len, NULL);
    if (rc && rc != LLADD_NOT_FOUND) {
        *why = "the table of coordinators cannot be read";
        return rc;
    }
    uint64_t incarnation = rc ? 0 : lladd_get64(known), instance = lladd_get64(known + 8);
    *why = "a newer incarnation of this coordinator has been here";
    if (m->incarnation < incarnation || m->incarnation == 0)
        return LLADD_CONFLICT;
    *why = "another coordinator with this id has been here: is its directory a copy?";
    if (m->incarnation == incarnation && m->instance != instance)
        return LLADD_LOCKED;
    struct session *other, *next;
    *why = "another coordinator with this id is connected";
    for (other = TAILQ_FIRST(&p->sessions); other; other = next) {
        next = TAILQ_NEXT(other, link);
        if (other == s || !other->welcome || memcmp(other->uuid, m->uuid, 16) != 0)
            continue;
        if (other->instance != m->instance)
            return LLADD_BUSY;
        session_drop(p, other);
    }
    *why = "the coordinator's incarnation cannot be stored";
    return m->incarnation == incarnation ? 0 : note_incarnation(p, m);
}

static void hello(struct participant *p, struct session *s, const struct message *m)
{
    uint64_t id = 0;
    const char *why = "this server speaks another version of the protocol";
    int rc = m->version == WIRE_VERSION ? admit(p, s, m, &why) : LLADD_NEWER_FORMAT;
    if (!rc && (lladd_random_bytes(p->db, &id, sizeof id) || id == 0))
        rc = LLADD_NO_MEMORY;
    if (rc) {
        turn_out(p, s, rc, why);
        return;
    }
    memcpy(s->uuid, m->uuid, 16);
    s->incarnation = m->incarnation;
    s->instance = m->instance;
    s->welcome = true;
    s->channel.session = id;
    struct message reply = {.type = MESSAGE_WELCOME,
                            .attempt = m->attempt,
                            .timeline = lladd_db_timeline(p->db)};
    lladd_db_uuid(p->db, reply.uuid);
    session_answer(p, s, &reply, p->ended, true);
}

void participant_connected(struct participant *p, uint64_t conn)
{
    struct session *s = p->counts.connections < CONNECTIONS_MAX ? calloc(1, sizeof *s) : NULL;
    if (!s || p->error.code) {
        free(s);
        p->io.drop(p->io.ctx, conn);
        return;
    }
    s->conn = conn;
    s->heard_ms = p->io.now_ms(p->io.ctx);
    p->counts.connections++;
    TAILQ_INSERT_TAIL(&p->sessions, s, link);
}

void participant_disconnected(struct participant *p, uint64_t conn)
{
    struct session *s = session_find(p, conn);
    if (s)
        session_drop(p, s);
}

void participant_receive(struct participant *p, uint64_t conn, const unsigned char *frame,
                         size_t len)
{
    struct session *s = session_find(p, conn);
    struct message m;
    if (!s || p->error.code)
        return;
    if (message_decode(frame, len, &m) || !message_is_for_server(m.type)) {
        turn_out(p, s, LLADD_BAD_ARGUMENT, "not a message of this protocol");
        return;
    }
    enum channel_verdict verdict = channel_receive(&s->channel, &m);
    if (verdict == CHANNEL_REPEATED)
        return;
    s->heard_ms = p->io.now_ms(p->io.ctx);
    if (verdict == CHANNEL_GAP || (m.type == MESSAGE_HELLO) == s->welcome) {
        session_drop(p, s);
    } else if (m.type == MESSAGE_HELLO) {
        hello(p, s, &m);
    } else if (m.type == MESSAGE_PING) {
        struct message pong = {.type = MESSAGE_PONG};
        session_send(p, s, &pong);
    } else {
        branch_receive(p, s, &m, frame, len);
    }
}

/* ---- timers ---------------------------------------------------------------------------------- */

/* The session of the coordinator that began the branch, if it is connected. */
static struct session *session_of(struct participant *p, const struct branch *b)
{
    struct session *s;
    TAILQ_FOREACH(s, &p->sessions, link)
        if (s->welcome && memcmp(s->uuid, b->uuid, 16) == 0)
            return s;
    return NULL;
}

void participant_tick(struct participant *p)
{
    uint64_t now = p->io.now_ms(p->io.ctx);
    struct session *s, *next;
    for (s = TAILQ_FIRST(&p->sessions); s; s = next) {
        next = TAILQ_NEXT(s, link);
        if (now - s->heard_ms > p->options.silent_ms)
            session_drop(p, s);
    }
    struct branch *b;
    TAILQ_FOREACH(b, &p->branches, link)
        if (b->prepared && now - b->asked_ms >= p->options.inquire_ms &&
            (s = session_of(p, b)) != NULL && s->channel.sent > 0)
            branch_inquire(p, s, b);
    struct answer *a;
    STAILQ_FOREACH(a, &p->answers, link)
        a->urgent = a->urgent || now - a->since_ms >= p->options.lazy_ms;
}

/* ---- opening and closing --------------------------------------------------------------------- */

int participant_register(struct lladd_options *options, struct lladd_error *err)
{
    return lladd_lock_register(options, err);
}

static int make(struct lladd_txn *txn)
{
    struct lladd_hash_options fixed = LLADD_HASH_OPTIONS_INIT;
    fixed.key_size = fixed.value_size = 16;
    lladd_pageno table, coordinators;
    int rc = lladd_hash_create(txn, NULL, &table);
    rc = rc ? rc : lladd_hash_create(txn, &fixed, &coordinators);
    rc = rc ? rc : lladd_root_set(txn, TABLE_ROOT, (struct lladd_root_value){table.v, 0});
    return rc ? rc
              : lladd_root_set(txn, COORDINATORS_ROOT,
                               (struct lladd_root_value){coordinators.v, 0});
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
        return aborted ? lladd_error_set(err, aborted, "the tables cannot be rolled back") : rc;
    }
    rc = lladd_commit(txn);
    return rc ? lladd_error_set(err, rc, "the tables cannot be committed") : 0;
}

static int open_table(struct lladd_db *db, const char *root, struct lladd_hash **out,
                      struct lladd_error *err)
{
    struct lladd_root_value value;
    int rc = lladd_root_get(db, root, &value, err);
    return rc ? rc : lladd_hash_open(db, lladd_page_of(value.a), LLADD_HASH_LOGICAL, out, err);
}

/* Takes over a transaction that was prepared before the restart. Ignores transactions of other
 * owners. */
static int take_over(void *ctx, const struct lladd_in_doubt_info *info)
{
    struct participant *p = ctx;
    const struct lladd_gid *g = &info->gid;
    if (g->format != CLUSTER_GID_FORMAT || g->gtrid_length != CLUSTER_GID_LENGTH ||
        (g->bqual_length != 0 && g->bqual_length != CLUSTER_BQUAL_LENGTH))
        return 0;
    struct txn_id id = {lladd_get64(g->data + 16), lladd_get64(g->data + 24)};
    struct branch *b = branch_new(p, g->data, id);
    if (!b)
        return lladd_error_set(&p->error, LLADD_NO_MEMORY, "out of memory");
    b->prepared = true;
    b->timeline = g->bqual_length ? lladd_get32(g->data + CLUSTER_GID_LENGTH) : 0;
    p->counts.begun++;
    return lladd_in_doubt_claim(p->db, g, &b->txn, &p->error);
}

static int set_up(struct participant *p, struct lladd_error *err)
{
    struct lladd_root_value value;
    int rc = lladd_root_get(p->db, TABLE_ROOT, &value, err);
    if (rc == LLADD_NOT_FOUND)
        rc = create(p->db, err);
    rc = rc ? rc : open_table(p->db, TABLE_ROOT, &p->table, err);
    rc = rc ? rc : open_table(p->db, COORDINATORS_ROOT, &p->coordinators, err);
    if (rc)
        return rc;
    rc = lladd_in_doubt_each(p->db, take_over, p, err);
    if (rc && p->error.code)
        *err = p->error;
    return rc;
}

static uint64_t otherwise(uint64_t given, uint64_t standard)
{
    return given ? given : standard;
}

int participant_open(struct lladd_db *db, const struct participant_options *o,
                     const struct participant_io *io, struct participant **out,
                     struct lladd_error *err)
{
    struct participant *p = calloc(1, sizeof *p);
    if (p) {
        p->buffer = malloc(WIRE_LENGTH + WIRE_FRAME_MAX);
        p->value = malloc(WIRE_VALUE_MAX);
    }
    if (!p || !p->buffer || !p->value) {
        if (p)
            free(p->buffer);
        if (p)
            free(p->value);
        free(p);
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    }
    p->db = db;
    p->io = *io;
    p->options.lock_ms = otherwise(o->lock_ms, 1000);
    p->options.silent_ms = otherwise(o->silent_ms, 10000);
    p->options.inquire_ms = otherwise(o->inquire_ms, 1000);
    p->options.lazy_ms = otherwise(o->lazy_ms, 20);
    p->options.txns_max = otherwise(o->txns_max, 10000);
    p->options.waiting_max = otherwise(o->waiting_max, 4u << 20);
    TAILQ_INIT(&p->sessions);
    TAILQ_INIT(&p->branches);
    STAILQ_INIT(&p->answers);
    int rc = set_up(p, err);
    if (rc)
        participant_kill(p);
    else
        *out = p;
    return rc;
}

static void forget(struct participant *p)
{
    struct session *s;
    struct branch *b;
    struct answer *a;
    while ((s = TAILQ_FIRST(&p->sessions)) != NULL) {
        TAILQ_REMOVE(&p->sessions, s, link);
        free(s);
    }
    while ((b = TAILQ_FIRST(&p->branches)) != NULL) {
        b->session = NULL;
        branch_free(p, b);
    }
    while ((a = STAILQ_FIRST(&p->answers)) != NULL) {
        STAILQ_REMOVE_HEAD(&p->answers, link);
        free(a);
    }
    lladd_hash_close(p->table);
    lladd_hash_close(p->coordinators);
    free(p->buffer);
    free(p->value);
    free(p);
}

void participant_kill(struct participant *p)
{
    forget(p);
}

void participant_close(struct participant *p)
{
    struct session *s;
    while ((s = TAILQ_FIRST(&p->sessions)) != NULL)
        session_drop(p, s);
    forget(p);
}

int participant_error(const struct participant *p, struct lladd_error *err)
{
    if (p->error.code)
        *err = p->error;
    return p->error.code;
}

void participant_count(const struct participant *p, struct participant_counts *out)
{
    const struct branch *b;
    *out = p->counts;
    TAILQ_FOREACH(b, &p->branches, link) {
        out->prepared += b->prepared;
        out->active += !b->prepared;
    }
}

int participant_table_each(struct lladd_db *db, table_fn *fn, void *ctx, struct lladd_error *err)
{
    struct lladd_hash *table;
    struct lladd_hash_cursor walk = {.buffer = NULL};
    struct lladd_span key, value;
    int rc = open_table(db, TABLE_ROOT, &table, err);
    if (rc)
        return rc;
    while (!rc && !(rc = lladd_hash_cursor_next(table, &walk, &key, &value, err)))
        rc = fn(ctx, key, value);
    lladd_hash_cursor_close(table, &walk);
    lladd_hash_close(table);
    return rc == LLADD_END ? 0 : rc;
}
