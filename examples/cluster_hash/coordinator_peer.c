/* SPDX-License-Identifier: BSD-2-Clause */
/* A coordinator's connections to its servers: connecting, HELLO, loss; opening and closing the
 * coordinator; timers. */
#include "coordinator_private.h"

#include <stdlib.h>

void peer_send(struct coordinator *c, size_t server, struct message *m)
{
    struct peer *peer = &c->peers[server];
    if (peer->state < PEER_GREETED || (peer->state == PEER_GREETED && m->type != MESSAGE_HELLO))
        return;
    channel_stamp(&peer->channel, m);
    message_encode(m, c->buffer);
    c->io.send(c->io.ctx, peer->conn, c->buffer, message_size(m));
}

void peer_commit(struct coordinator *c, size_t server, const struct global *g)
{
    struct message m = {.type = MESSAGE_COMMIT, .txn = g->id};
    peer_send(c, server, &m);
}

static void down(struct coordinator *c, struct peer *peer)
{
    enum peer_state was = peer->state;
    peer->state = PEER_DOWN;
    peer->retry_ms = c->io.now_ms(c->io.ctx) + c->options.retry_ms;
    if (was == PEER_UP) {
        c->counts.up--;
        globals_lose(c, (size_t)(peer - c->peers));
    }
}

void peer_drop(struct coordinator *c, struct peer *peer)
{
    uint64_t conn = peer->conn;
    down(c, peer);
    c->io.drop(c->io.ctx, conn);
}

static struct peer *peer_of(struct coordinator *c, uint64_t conn)
{
    for (size_t i = 0; i < c->options.servers; i++)
        if (c->peers[i].state >= PEER_GREETED && c->peers[i].conn == conn)
            return &c->peers[i];
    return NULL;
}

/* ---- connecting and disconnecting ------------------------------------------------------------ */

void coordinator_connected(struct coordinator *c, size_t server, uint64_t conn)
{
    struct peer *peer = &c->peers[server];
    if (peer->state != PEER_DIALLING) {
        c->io.drop(c->io.ctx, conn);
        return;
    }
    peer->state = PEER_GREETED;
    peer->conn = conn;
    peer->channel = (struct channel){.session = 0};
    peer->heard_ms = peer->pinged_ms = c->io.now_ms(c->io.ctx);
    struct message m = {.type = MESSAGE_HELLO,
                        .version = WIRE_VERSION,
                        .incarnation = c->incarnation,
                        .instance = c->instance,
                        .attempt = peer->attempt = ++c->attempts};
    memcpy(m.uuid, c->uuid, 16);
    peer_send(c, server, &m);
}

void coordinator_unreachable(struct coordinator *c, size_t server)
{
    if (c->peers[server].state == PEER_DIALLING)
        down(c, &c->peers[server]);
}

void coordinator_disconnected(struct coordinator *c, uint64_t conn)
{
    struct peer *peer = peer_of(c, conn);
    if (peer)
        down(c, peer);
}

static void welcome(struct coordinator *c, struct peer *peer, const struct message *m)
{
    size_t server = (size_t)(peer - c->peers);
    int rc = store_server(c, server, m->uuid);
    if (rc) { /* the number belongs to another server, or no space: do not use the server */
        if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
            coordinator_poisoned(c, rc);
        peer_drop(c, peer);
        return;
    }
    peer->timeline = m->timeline;
    peer->channel.session = m->session;
    peer->channel.received = 1;
    peer->state = PEER_UP;
    c->counts.up++;
    c->counts.connections++;
    const struct global *g;
    TAILQ_FOREACH(g, &c->globals, link)
        if (g->state == GLOBAL_COMMITTED && g->parts[server].owes)
            peer_commit(c, server, g);
}

/* LLADD_CONFLICT and LLADD_LOCKED mean that another coordinator has this id: then this coordinator
 * must not decide any more. */
static void refused(struct coordinator *c, struct peer *peer, const struct message *m)
{
    char text[WIRE_TEXT_MAX + 1] = {0};
    memcpy(text, m->text.data, m->text.len);
    if (m->code == LLADD_CONFLICT || m->code == LLADD_LOCKED)
        coordinator_fail(c, m->code, text);
    peer_drop(c, peer);
}

void coordinator_receive(struct coordinator *c, uint64_t conn, const unsigned char *frame,
                         size_t len)
{
    struct peer *peer = peer_of(c, conn);
    struct message m;
    if (!peer)
        return;
    if (message_decode(frame, len, &m) || message_is_for_server(m.type)) {
        peer_drop(c, peer);
        return;
    }
    if (m.type == MESSAGE_REFUSED && m.session == peer->channel.session) {
        refused(c, peer, &m);
        return;
    }
    if (peer->state == PEER_GREETED) { /* any frame but the answer to this HELLO is of an earlier
                                        * session */
        if (m.type == MESSAGE_WELCOME && m.attempt == peer->attempt && m.number == 1)
            welcome(c, peer, &m);
        return;
    }
    enum channel_verdict verdict = channel_receive(&peer->channel, &m);
    if (verdict == CHANNEL_REPEATED)
        return;
    peer->heard_ms = c->io.now_ms(c->io.ctx);
    if (verdict == CHANNEL_GAP || m.type == MESSAGE_WELCOME)
        peer_drop(c, peer);
    else if (m.type != MESSAGE_PONG)
        global_receive(c, (size_t)(peer - c->peers), &m);
}

void coordinator_tick(struct coordinator *c)
{
    uint64_t now = c->io.now_ms(c->io.ctx);
    for (size_t i = 0; i < c->options.servers; i++) {
        struct peer *peer = &c->peers[i];
        if (peer->state == PEER_DOWN && now >= peer->retry_ms) {
            peer->state = PEER_DIALLING;
            c->io.dial(c->io.ctx, i);
        } else if (peer->state >= PEER_GREETED && now - peer->heard_ms > c->options.silent_ms) {
            peer_drop(c, peer);
        } else if (peer->state == PEER_UP && now - peer->pinged_ms >= c->options.ping_ms) {
            struct message m = {.type = MESSAGE_PING};
            peer->pinged_ms = now;
            peer_send(c, i, &m);
        }
    }
    globals_tick(c, now);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static uint64_t otherwise(uint64_t given, uint64_t standard)
{
    return given ? given : standard;
}

static void forget(struct coordinator *c)
{
    struct global *g;
    while ((g = TAILQ_FIRST(&c->globals)) != NULL)
        global_free(c, g);
    lladd_hash_close(c->decisions);
    free(c->buffer);
    free(c);
}

int coordinator_open(struct lladd_db *db, const struct coordinator_options *o,
                     const struct coordinator_io *io, struct coordinator **out,
                     struct lladd_error *err)
{
    size_t replicas = o->replicas ? o->replicas : 1;
    if (o->servers < 1 || o->servers > UINT32_MAX || replicas > o->servers)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a cluster has at least one server, and at most as many replicas "
                               "as servers");
    struct coordinator *c = calloc(1, sizeof *c + o->servers * sizeof c->peers[0]);
    unsigned char *buffer = malloc(WIRE_LENGTH + WIRE_FRAME_MAX);
    if (!c || !buffer) {
        free(c);
        free(buffer);
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    }
    c->db = db;
    c->io = *io;
    c->buffer = buffer;
    c->options = *o;
    c->options.replicas = replicas;
    c->options.call_ms = otherwise(o->call_ms, 5000);
    c->options.ping_ms = otherwise(o->ping_ms, 1000);
    c->options.silent_ms = otherwise(o->silent_ms, 5000);
    c->options.retry_ms = otherwise(o->retry_ms, 100);
    TAILQ_INIT(&c->globals);
    int rc = store_open(c, err);
    if (rc)
        forget(c);
    else
        *out = c;
    return rc;
}

void coordinator_kill(struct coordinator *c)
{
    forget(c);
}

void coordinator_close(struct coordinator *c)
{
    coordinator_fail(c, LLADD_CLOSED, "the cluster is closed");
    globals_close(c);
    for (size_t i = 0; i < c->options.servers; i++)
        if (c->peers[i].state >= PEER_GREETED)
            peer_drop(c, &c->peers[i]);
    forget(c);
}

int coordinator_error(const struct coordinator *c, struct lladd_error *err)
{
    if (c->error.code)
        *err = c->error;
    return c->error.code;
}

void coordinator_count(const struct coordinator *c, struct coordinator_counts *out)
{
    const struct global *g;
    *out = c->counts;
    TAILQ_FOREACH(g, &c->globals, link) {
        out->open += g->state != GLOBAL_COMMITTED;
        out->undelivered += g->state == GLOBAL_COMMITTED;
    }
}
