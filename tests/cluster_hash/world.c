/* SPDX-License-Identifier: BSD-2-Clause */
/* See world.h. */
#include "world.h"

#include "support/fixtures.h"

#include <lladd/bytes.h>
#include <lladd/lock.h>
#include <stdlib.h>

#define CHOICES 8u

uint64_t world_below(struct world *w, uint64_t n)
{
    return seeded_next(&w->random) % n;
}

static bool one_in(struct world *w, unsigned n)
{
    return n && world_below(w, n) == 0;
}

static struct connection *connection_of(struct world *w, uint64_t id)
{
    struct connection *c;
    TAILQ_FOREACH(c, &w->connections, link)
    if (c->id == id)
        return c;
    return NULL;
}

static uint64_t now(void *ctx)
{
    return ((struct node *)ctx)->world->now_ms;
}

/* ---- packets --------------------------------------------------------------------------------- */

static void post(struct world *w, uint64_t conn, bool to_server, const void *bytes, size_t len)
{
    struct packet *p = malloc(sizeof *p + len);
    ck_assert_ptr_nonnull(p);
    p->conn = conn;
    p->to_server = to_server;
    p->due_ms = w->now_ms;
    p->len = len;
    if (len)
        memcpy(p->bytes, bytes, len);
    if (len && one_in(w, w->delay)) {
        p->due_ms += world_below(w, 3000);
        w->happened.delayed++;
    }
    TAILQ_INSERT_TAIL(&w->packets, p, link);
}

static void node_send(void *ctx, uint64_t conn, const void *bytes, size_t len)
{
    struct node *n = ctx;
    struct world *w = n->world;
    ck_assert_uint_eq(lladd_get32(bytes), len - WIRE_LENGTH);
    if (one_in(w, w->lose)) {
        w->happened.lost++;
        return;
    }
    post(w, conn, !n->is_server, bytes, len);
    if (one_in(w, w->repeat)) {
        post(w, conn, !n->is_server, bytes, len);
        w->happened.repeated++;
    }
}

static void node_drop(void *ctx, uint64_t conn)
{
    struct node *n = ctx;
    struct connection *c = connection_of(n->world, conn);
    bool *open = !c ? NULL : n->is_server ? &c->open_there : &c->open_here;
    if (!open || !*open)
        return;
    *open = false;
    post(n->world, conn, !n->is_server, NULL, 0);
}

static void node_dial(void *ctx, size_t server)
{
    struct node *n = ctx;
    struct connection *c = calloc(1, sizeof *c);
    ck_assert_ptr_nonnull(c);
    c->id = ++n->world->conns;
    c->coordinator = n;
    c->server = &n->world->servers[server];
    c->dialling = true;
    TAILQ_INSERT_TAIL(&n->world->connections, c, link);
}

static void node_wait(void *ctx, struct lock_wait *wait)
{
    struct node *n = ctx;
    struct sleeper *s = malloc(sizeof *s);
    ck_assert_ptr_nonnull(s);
    *s = (struct sleeper){
        .node = n, .wait = wait, .until_ms = n->world->now_ms + wait->timeout_ns / 1000000};
    TAILQ_INSERT_TAIL(&n->world->sleepers, s, link);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void node_init(struct world *w, struct node *n, bool is_server, size_t index)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    *n = (struct node){.world = w, .is_server = is_server, .index = index};
    ck_assert_int_eq(lladd_device_memory(&n->base), 0);
    n->fd = fault_device_new(n->base);
    test_world_init(&n->chance, w->options.seed * 16 + index * 2 + is_server);
    n->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    n->options.device = fault_device_dev(n->fd);
    n->options.world = &n->chance.world;
    n->options.flags = LLADD_OPT_NO_THREADS;
    n->options.frames = LLADD_FRAMES_HEAP;
    n->options.cache_bytes = 1u << 20;
    n->options.log_ring_bytes = 64u << 10;
    n->options.log_segment_min = 16u << 10;
    n->options.log_segment_max = 64u << 10;
    n->options.redo_threads = 1;
    ck_assert_msg(participant_register(&n->options, &err) == 0, "%s", err.message);
}

void world_restart(struct world *w, struct node *n)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct participant_options server = {.lock_ms = 300, .silent_ms = 4000, .inquire_ms = 500};
    struct coordinator_options shape = {.servers = w->options.servers,
                                        .replicas = w->options.replicas,
                                        .call_ms = 2000,
                                        .ping_ms = 300,
                                        .silent_ms = 1500};
    struct participant_io pio = {n, now, node_send, node_drop, node_wait};
    struct coordinator_io cio = {n, now, node_dial, node_send, node_drop};
    ck_assert_ptr_null(n->db);
    int rc = lladd_open(NULL, &n->options, &n->db, &err);
    if (!rc && n->is_server)
        rc = participant_open(n->db, &server, &pio, &n->participant, &err);
    else if (!rc)
        rc = coordinator_open(n->db, &shape, &cio, &n->coordinator, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
}

/* Closes the node's ends of all connections, and removes the node's waits for locks. What the node
 * has sent may still arrive. */
static void cut(struct world *w, struct node *n)
{
    struct sleeper *s, *next;
    struct connection *c;
    TAILQ_FOREACH(c, &w->connections, link)
    if (c->server == n || c->coordinator == n)
        node_drop(n, c->id);
    for (s = TAILQ_FIRST(&w->sleepers); s; s = next) {
        next = TAILQ_NEXT(s, link);
        if (s->node == n) {
            TAILQ_REMOVE(&w->sleepers, s, link);
            free(s);
        }
    }
}

void world_crash(struct world *w, struct node *n)
{
    struct fault_crash how = {.mode = FAULT_SUBSET, .seed = seeded_next(&w->random), .torn = true};
    cut(w, n);
    if (n->participant)
        participant_kill(n->participant);
    if (n->coordinator)
        coordinator_kill(n->coordinator);
    lladd_db_kill(n->db);
    n->participant = NULL;
    n->coordinator = NULL;
    n->db = NULL;
    n->crashes++;
    w->happened.crashes++;
    fault_device_power_cycle(n->fd, &how);
}

static void node_free(struct node *n)
{
    if (n->db) {
        cut(n->world, n);
        if (n->participant)
            participant_close(n->participant);
        if (n->coordinator)
            coordinator_close(n->coordinator);
        ck_assert_int_eq(lladd_close(n->db), 0);
    }
    lladd_options_release(&n->options);
    test_world_free(&n->chance);
    fault_device_free(n->fd);
    lladd_device_close(n->base);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void connect(struct connection *c)
{
    struct node *here = c->coordinator, *there = c->server;
    c->dialling = false;
    if (!here->db)
        return;
    if (!there->db) {
        coordinator_unreachable(here->coordinator, there->index);
        return;
    }
    c->open_here = c->open_there = true;
    participant_connected(there->participant, c->id);
    coordinator_connected(here->coordinator, there->index, c->id);
}

static bool step_connect(struct world *w)
{
    struct connection *c;
    TAILQ_FOREACH(c, &w->connections, link)
    if (c->dialling && world_below(w, 2)) {
        connect(c);
        return true;
    }
    return false;
}

/* Returns the newest connection of the same two nodes. */
static struct connection *newest_like(struct world *w, const struct connection *old)
{
    struct connection *c, *found = NULL;
    TAILQ_FOREACH(c, &w->connections, link)
    if (c->server == old->server && c->coordinator == old->coordinator)
        found = c;
    return found;
}

static void arrive(struct world *w, const struct packet *p)
{
    struct connection *c = connection_of(w, p->conn);
    if (p->len && one_in(w, w->astray)) {
        struct connection *newer = newest_like(w, c);
        w->happened.astray += newer != c;
        c = newer;
    }
    struct node *n = p->to_server ? c->server : c->coordinator;
    bool *open = p->to_server ? &c->open_there : &c->open_here;
    if (!*open || !n->db)
        return;
    if (p->len == 0) {
        *open = false;
        if (n->is_server)
            participant_disconnected(n->participant, c->id);
        else
            coordinator_disconnected(n->coordinator, c->id);
    } else if (n->is_server) {
        participant_receive(n->participant, c->id, p->bytes + WIRE_LENGTH, p->len - WIRE_LENGTH);
    } else {
        coordinator_receive(n->coordinator, c->id, p->bytes + WIRE_LENGTH, p->len - WIRE_LENGTH);
    }
}

/* True if no earlier packet of the same connection is in transit in the same direction. */
static bool is_first(struct world *w, const struct packet *p)
{
    const struct packet *q;
    TAILQ_FOREACH(q, &w->packets, link)
    if (q->conn == p->conn && q->to_server == p->to_server)
        return q == p;
    return true;
}

static bool step_deliver(struct world *w)
{
    size_t n = 0, skip;
    struct packet *p;
    TAILQ_FOREACH(p, &w->packets, link)
    n++;
    skip = n ? world_below(w, n) : 0;
    bool overtake = one_in(w, w->overtake);
    /* Tries all packets: first from a random one to the last one, and then from the first one
     * on. */
    for (unsigned pass = 0; pass < 2; pass++)
        TAILQ_FOREACH(p, &w->packets, link)
        {
            if (pass == 0 && skip) {
                skip--;
                continue;
            }
            bool first = is_first(w, p);
            if (p->due_ms > w->now_ms || (!first && !overtake))
                continue;
            w->happened.overtook += !first;
            TAILQ_REMOVE(&w->packets, p, link);
            arrive(w, p);
            free(p);
            return true;
        }
    return false;
}

static bool force(struct node *n, bool urgent)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    if (!n->db)
        return false;
    lladd_lsn lsn = n->is_server ? participant_wants(n->participant, urgent)
                                 : coordinator_wants(n->coordinator);
    if (lsn.v == 0)
        return false;
    int rc = lladd_wait_durable(n->db, lsn, &err);
    ck_assert_msg(rc == 0 || !n->is_server, "%s", err.message);
    if (rc)
        coordinator_poisoned(n->coordinator, rc);
    else if (n->is_server)
        participant_durable(n->participant, lsn);
    else
        coordinator_durable(n->coordinator, lsn);
    return true;
}

static bool step_force(struct world *w)
{
    size_t all = w->options.servers + w->options.coordinators, at = world_below(w, all);
    for (size_t i = 0; i < all; i++) {
        size_t k = (at + i) % all;
        struct node *n =
            k < w->options.servers ? &w->servers[k] : &w->coordinators[k - w->options.servers];
        if (force(n, true))
            return true;
    }
    return false;
}

static bool step_lock(struct world *w)
{
    struct sleeper *s;
    TAILQ_FOREACH(s, &w->sleepers, link)
    {
        int rc = lock_wait_take(s->wait, LLADD_LOCK_TRY);
        if (rc == LLADD_BUSY && w->now_ms < s->until_ms)
            continue;
        TAILQ_REMOVE(&w->sleepers, s, link);
        participant_locked(s->node->participant, s->wait, rc);
        free(s);
        return true;
    }
    return false;
}

static void tick(struct world *w)
{
    w->now_ms += 1 + world_below(w, 30);
    for (size_t i = 0; i < w->options.servers; i++)
        if (w->servers[i].db)
            participant_tick(w->servers[i].participant);
    for (size_t i = 0; i < w->options.coordinators; i++)
        if (w->coordinators[i].db)
            coordinator_tick(w->coordinators[i].coordinator);
}

/* Frees connections that no node uses and that have no packets in transit. */
static void sweep(struct world *w)
{
    struct connection *c, *next;
    for (c = TAILQ_FIRST(&w->connections); c; c = next) {
        const struct packet *p;
        next = TAILQ_NEXT(c, link);
        bool used = c->dialling || c->open_here || c->open_there;
        TAILQ_FOREACH(p, &w->packets, link)
        used = used || p->conn == c->id;
        if (used)
            continue;
        TAILQ_REMOVE(&w->connections, c, link);
        free(c);
    }
}

void world_step(struct world *w)
{
    w->events++;
    switch (world_below(w, CHOICES)) {
    case 0:
        if (step_force(w))
            return;
        break;
    case 1:
        if (step_lock(w) || step_connect(w))
            return;
        break;
    default:
        if (step_deliver(w))
            return;
    }
    if (!one_in(w, 4) && (step_deliver(w) || step_force(w) || step_lock(w) || step_connect(w)))
        return;
    tick(w);
    sweep(w);
}

void world_run(struct world *w, unsigned events)
{
    while (events--)
        world_step(w);
}

/* ---- the end --------------------------------------------------------------------------------- */

bool world_quiet(struct world *w)
{
    bool quiet = TAILQ_EMPTY(&w->sleepers);
    for (size_t i = 0; i < w->options.servers; i++) {
        struct participant_counts counts = world_counts(w, i);
        quiet = quiet && counts.active == 0 && counts.prepared == 0 && counts.waiting == 0 &&
                participant_wants(w->servers[i].participant, false).v == 0;
    }
    for (size_t i = 0; i < w->options.coordinators; i++) {
        struct coordinator_counts counts;
        coordinator_count(w->coordinators[i].coordinator, &counts);
        quiet = quiet && counts.open == 0 && counts.undelivered == 0 &&
                (counts.up == w->options.servers ||
                 coordinator_error(w->coordinators[i].coordinator,
                                   &(struct lladd_error)LLADD_ERROR_INIT));
    }
    return quiet;
}

void world_settle(struct world *w)
{
    w->lose = w->repeat = w->overtake = w->delay = w->astray = 0;
    for (size_t i = 0; i < w->options.servers; i++)
        if (!w->servers[i].db)
            world_restart(w, &w->servers[i]);
    for (size_t i = 0; i < w->options.coordinators; i++)
        if (!w->coordinators[i].db)
            world_restart(w, &w->coordinators[i]);
    uint64_t end = w->now_ms + 60000;
    while (!world_quiet(w)) {
        ck_assert_msg(w->now_ms < end, "seed %llu: not quiet after a minute",
                      (unsigned long long)w->options.seed);
        world_step(w);
    }
}

struct coordinator *world_coordinator(struct world *w, size_t i)
{
    return w->coordinators[i].coordinator;
}

struct participant_counts world_counts(struct world *w, size_t server)
{
    struct participant_counts counts;
    participant_count(w->servers[server].participant, &counts);
    return counts;
}

void world_init(struct world *w, const struct world_options *o)
{
    memset(w, 0, sizeof *w);
    w->options = *o;
    w->random = o->seed;
    w->now_ms = 1000000;
    TAILQ_INIT(&w->connections);
    TAILQ_INIT(&w->packets);
    TAILQ_INIT(&w->sleepers);
    for (size_t i = 0; i < o->servers; i++)
        node_init(w, &w->servers[i], true, i);
    for (size_t i = 0; i < o->coordinators; i++)
        node_init(w, &w->coordinators[i], false, i);
    for (size_t i = 0; i < o->servers; i++)
        world_restart(w, &w->servers[i]);
    for (size_t i = 0; i < o->coordinators; i++)
        world_restart(w, &w->coordinators[i]);
}

void world_free(struct world *w)
{
    struct connection *c;
    struct packet *p;
    for (size_t i = 0; i < w->options.coordinators; i++)
        node_free(&w->coordinators[i]);
    for (size_t i = 0; i < w->options.servers; i++)
        node_free(&w->servers[i]);
    while ((p = TAILQ_FIRST(&w->packets)) != NULL) {
        TAILQ_REMOVE(&w->packets, p, link);
        free(p);
    }
    while ((c = TAILQ_FIRST(&w->connections)) != NULL) {
        TAILQ_REMOVE(&w->connections, c, link);
        free(c);
    }
}
