/* SPDX-License-Identifier: BSD-2-Clause */
/* The transactions of a coordinator.
 *
 *   ACTIVE ──commit──► VOTING ──a YES, no NO──► LOGGING ──durable──► COMMITTED ──acks──► gone
 *     │ │                ├── all READ_ONLY ──► gone
 *     │ │                └── a NO, a lost session, time: ABORT to all ──► gone
 *     │ └─one server──► ONE_PHASE ──its answer, or no answer: unknown──► gone
 *     └──abort: ABORT to all──► gone
 *
 * A transaction without a durable decision counts as aborted after a crash (presumed abort): so
 * only a durable decision is sent to servers (COMMIT) and reported to the caller. A server that
 * inquires about an unknown transaction gets ABORT; an inquiry about a known transaction that is
 * not COMMITTED gets no answer. A COMMITTED transaction stays known, even after a crash, until
 * every server that voted YES has acknowledged. */
#include "coordinator_private.h"

#include <search.h>
#include <stdlib.h>

static int compare(const void *left, const void *right)
{
    const struct global *a = left, *b = right;
    if (a->id.incarnation != b->id.incarnation)
        return a->id.incarnation < b->id.incarnation ? -1 : 1;
    return (a->id.sequence > b->id.sequence) - (a->id.sequence < b->id.sequence);
}

struct global *global_find(struct coordinator *c, struct txn_id id)
{
    struct global key = {.id = id};
    void *found = tfind(&key, &c->index, compare);
    return found ? *(struct global *const *)found : NULL;
}

struct global *global_new(struct coordinator *c, struct txn_id id)
{
    struct global *g = calloc(1, sizeof *g + c->options.servers * sizeof g->parts[0]);
    if (!g)
        return NULL;
    g->id = id;
    TAILQ_INIT(&g->gets);
    if (!tsearch(g, &c->index, compare)) {
        free(g);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&c->globals, g, link);
    return g;
}

void global_free(struct coordinator *c, struct global *g)
{
    tdelete(g, &c->index, compare);
    TAILQ_REMOVE(&c->globals, g, link);
    free(g);
}

void coordinator_fail(struct coordinator *c, int rc, const char *text)
{
    if (!c->error.code)
        lladd_error_set(&c->error, rc, "%s", text);
}

static void finish(struct call *call, int code)
{
    call->code = code;
    call->done(call);
}

/* From now on the transaction can only be rolled back; its waiting reads end with the code. */
static void doom(struct global *g, int code)
{
    struct call *call;
    if (!g->code)
        g->code = code;
    while ((call = TAILQ_FIRST(&g->gets)) != NULL) {
        TAILQ_REMOVE(&g->gets, call, link);
        finish(call, code);
    }
}

/* Sends ABORT to all servers that may have a part of the transaction, and frees the transaction. */
static void roll_back(struct coordinator *c, struct global *g, int code)
{
    struct call *ending = g->ending;
    for (size_t i = 0; i < c->options.servers; i++) {
        struct message m = {.type = MESSAGE_ABORT, .txn = g->id};
        if (g->parts[i].touched && g->parts[i].vote != VOTE_READ_ONLY)
            peer_send(c, i, &m);
    }
    c->counts.aborted++;
    doom(g, code);
    global_free(c, g);
    if (ending)
        finish(ending, code);
}

/* ---- reading and writing --------------------------------------------------------------------- */

/* FNV-1a, and a step that mixes the upper half into the lower half. Must never change: a
 * different hash would look for stored keys at the wrong servers. */
size_t coordinator_place(size_t servers, const void *key, size_t len, size_t replica)
{
    const unsigned char *bytes = key;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    return (size_t)(h % servers + replica) % servers;
}

struct global *coordinator_begin(struct coordinator *c)
{
    struct txn_id id = {c->incarnation, c->sequence + 1};
    struct global *g = c->error.code ? NULL : global_new(c, id);
    c->sequence += g != NULL;
    return g;
}

static int check_key(struct global *g, const void *key, size_t len)
{
    if (!g->code && (!key || len < 1 || len > WIRE_KEY_MAX))
        doom(g, LLADD_KEY_SIZE);
    return g->code;
}

static void send_op(struct coordinator *c, struct global *g, size_t server, struct message *m)
{
    struct part *part = &g->parts[server];
    m->txn = g->id;
    part->touched = true;
    part->ops++;
    part->wrote = part->wrote || m->type != MESSAGE_GET;
    peer_send(c, server, m);
}

/* Finds the first of the key's servers that is connected. */
static bool reachable(const struct coordinator *c, const void *key, size_t len, size_t *server)
{
    for (size_t r = 0; r < c->options.replicas; r++) {
        *server = coordinator_place(c->options.servers, key, len, r);
        if (c->peers[*server].state == PEER_UP)
            return true;
    }
    return false;
}

void coordinator_get(struct coordinator *c, struct global *g, struct call *call, const void *key,
                     size_t len, bool update)
{
    size_t server = 0;
    call->len = 0;
    if (!check_key(g, key, len) && !reachable(c, key, len, &server))
        doom(g, LLADD_BUSY);
    if (g->code) {
        finish(call, g->code);
        return;
    }
    call->txn = g;
    call->server = server;
    call->request = ++g->requests;
    call->deadline_ms = c->io.now_ms(c->io.ctx) + c->options.call_ms;
    TAILQ_INSERT_TAIL(&g->gets, call, link);
    struct message m = {.type = MESSAGE_GET,
                        .request = call->request,
                        .update = update,
                        .key = lladd_span_of(key, len)};
    send_op(c, g, server, &m);
}

static int change(struct coordinator *c, struct global *g, struct message *m)
{
    check_key(g, m->key.data, m->key.len);
    if (!g->code && m->value.len > WIRE_VALUE_MAX)
        doom(g, LLADD_TOO_LARGE);
    for (size_t r = 0; !g->code && r < c->options.replicas; r++) {
        size_t server = coordinator_place(c->options.servers, m->key.data, m->key.len, r);
        if (c->peers[server].state == PEER_UP)
            send_op(c, g, server, m);
        else
            doom(g, LLADD_BUSY);
    }
    return g->code;
}

int coordinator_put(struct coordinator *c, struct global *g, const void *key, size_t len,
                    const void *value, size_t value_len)
{
    struct message m = {.type = MESSAGE_PUT,
                        .key = lladd_span_of(key, len),
                        .value = lladd_span_of(value, value_len)};
    return change(c, g, &m);
}

int coordinator_add(struct coordinator *c, struct global *g, const void *key, size_t len,
                    int64_t delta)
{
    struct message m = {
        .type = MESSAGE_ADD, .key = lladd_span_of(key, len), .delta = delta};
    return change(c, g, &m);
}

int coordinator_delete(struct coordinator *c, struct global *g, const void *key, size_t len)
{
    struct message m = {.type = MESSAGE_DELETE, .key = lladd_span_of(key, len)};
    return change(c, g, &m);
}

/* ---- commit and abort ------------------------------------------------------------------------ */

void coordinator_abort(struct coordinator *c, struct global *g)
{
    roll_back(c, g, LLADD_CLOSED);
}

void coordinator_commit(struct coordinator *c, struct global *g, struct call *call)
{
    size_t touched = 0;
    g->ending = call;
    call->txn = g;
    if (c->error.code)
        doom(g, c->error.code);
    else if (!TAILQ_EMPTY(&g->gets))
        doom(g, LLADD_BAD_STATE);
    if (g->code) {
        roll_back(c, g, g->code);
        return;
    }
    for (size_t i = 0; i < c->options.servers; i++)
        touched += g->parts[i].touched;
    if (touched == 0) {
        global_free(c, g);
        finish(call, 0);
        return;
    }
    g->state = touched == 1 ? GLOBAL_ONE_PHASE : GLOBAL_VOTING;
    g->deadline_ms = c->io.now_ms(c->io.ctx) + c->options.call_ms;
    for (size_t i = 0; i < c->options.servers; i++) {
        struct message m = {.type = touched == 1 ? MESSAGE_COMMIT_ONE : MESSAGE_PREPARE,
                            .txn = g->id,
                            .ops = g->parts[i].ops};
        if (g->parts[i].touched)
            peer_send(c, i, &m);
    }
}

/* Called for a transaction at one server only, if that server does not answer. */
static void give_up_one_phase(struct coordinator *c, struct global *g, size_t server, int code)
{
    struct call *ending = g->ending;
    code = g->parts[server].wrote ? CLUSTER_UNKNOWN : code;
    c->counts.unknown += code == CLUSTER_UNKNOWN;
    global_free(c, g);
    finish(ending, code);
}

static void decide(struct coordinator *c, struct global *g)
{
    bool yes = false;
    for (size_t i = 0; i < c->options.servers; i++) {
        struct part *part = &g->parts[i];
        if (part->touched && part->vote == VOTE_NONE)
            return;
        part->owes = part->vote == VOTE_YES;
        yes = yes || part->owes;
    }
    if (!yes) {
        struct call *ending = g->ending;
        c->counts.read_only++;
        global_free(c, g);
        finish(ending, 0);
        return;
    }
    if (c->error.code) {
        roll_back(c, g, c->error.code);
        return;
    }
    int rc = store_decide(c, g);
    if (rc && lladd_code_root(rc) != LLADD_ROOT_POISONED) {
        roll_back(c, g, rc);
        return;
    }
    g->state = GLOBAL_LOGGING;
    if (rc)
        coordinator_poisoned(c, rc);
}

/* It is unknown which of the decisions in state LOGGING are durable; the next incarnation finds
 * out. This incarnation sends none of them, and their callers get CLUSTER_UNKNOWN. */
void coordinator_poisoned(struct coordinator *c, int rc)
{
    struct global *g;
    coordinator_fail(c, rc, lladd_code_text(rc));
    TAILQ_FOREACH(g, &c->globals, link) {
        struct call *ending = g->ending;
        if (g->state != GLOBAL_LOGGING || !ending)
            continue;
        g->ending = NULL;
        c->counts.unknown++;
        finish(ending, CLUSTER_UNKNOWN);
    }
}

void coordinator_durable(struct coordinator *c, lladd_lsn lsn)
{
    struct global *g, *next;
    for (g = TAILQ_FIRST(&c->globals); g; g = next) {
        next = TAILQ_NEXT(g, link);
        if (g->state != GLOBAL_LOGGING || g->lsn.v == 0 || g->lsn.v > lsn.v)
            continue;
        struct call *ending = g->ending;
        g->state = GLOBAL_COMMITTED;
        g->ending = NULL;
        c->counts.committed++;
        for (size_t i = 0; i < c->options.servers; i++)
            if (g->parts[i].owes)
                peer_commit(c, i, g);
        if (ending)
            finish(ending, 0);
    }
}

lladd_lsn coordinator_wants(const struct coordinator *c)
{
    lladd_lsn most = {0};
    const struct global *g;
    TAILQ_FOREACH(g, &c->globals, link)
        if (g->state == GLOBAL_LOGGING && g->lsn.v > most.v)
            most = g->lsn;
    return most;
}

bool coordinator_alone(const struct coordinator *c)
{
    const struct global *g;
    size_t open = 0;
    TAILQ_FOREACH(g, &c->globals, link)
        open += g->state != GLOBAL_COMMITTED;
    return open <= 1;
}

/* ---- messages from servers ------------------------------------------------------------------- */

static void result(struct global *g, size_t server, const struct message *m)
{
    struct call *call;
    TAILQ_FOREACH(call, &g->gets, link)
        if (call->server == server && call->request == m->request)
            break;
    if (!call)
        return;
    TAILQ_REMOVE(&g->gets, call, link);
    if (m->code == 0) {
        call->len = m->value.len;
        size_t fits = call->len < call->size ? call->len : call->size;
        if (fits)
            memcpy(call->buf, m->value.data, fits);
    }
    finish(call, m->code);
    if (m->code && m->code != LLADD_NOT_FOUND)
        doom(g, m->code);
}

/* Called with the answer to COMMIT_ONE. */
static void word(struct coordinator *c, struct global *g, const struct message *m)
{
    struct call *ending = g->ending;
    int code = m->verdict == VERDICT_COMMITTED ? 0 : m->code ? m->code : LLADD_CONFLICT;
    c->counts.one_phase += code == 0;
    c->counts.aborted += code != 0;
    global_free(c, g);
    finish(ending, code);
}

static void vote(struct coordinator *c, struct global *g, size_t server, const struct message *m)
{
    struct part *part = &g->parts[server];
    if (g->state == GLOBAL_ONE_PHASE && part->touched &&
        (m->verdict == VERDICT_COMMITTED || m->verdict == VERDICT_NO)) {
        word(c, g, m);
    } else if (g->state != GLOBAL_VOTING || !part->touched || part->vote != VOTE_NONE) {
        return; /* too late */
    } else if (m->verdict == VERDICT_YES || m->verdict == VERDICT_READ_ONLY) {
        part->vote = m->verdict == VERDICT_YES ? VOTE_YES : VOTE_READ_ONLY;
        decide(c, g);
    } else {
        roll_back(c, g, m->code ? m->code : LLADD_CONFLICT);
    }
}

static void acknowledged(struct coordinator *c, struct global *g, size_t server)
{
    if (g->state != GLOBAL_COMMITTED)
        return;
    g->parts[server].owes = false;
    for (size_t i = 0; i < c->options.servers; i++)
        if (g->parts[i].owes)
            return;
    store_forget(c, g);
    global_free(c, g);
}

/* May the transaction, which is unknown, be presumed aborted? Not if the server's database was
 * restored after it had prepared the transaction: before, it may have acknowledged the commit, and
 * the decision was removed. Nor if the coordinator's database was restored after the transaction
 * had begun: it may lack the decision. */
static bool may_presume(const struct coordinator *c, size_t server, const struct message *m)
{
    return m->timeline == c->peers[server].timeline && m->txn.incarnation >= c->since;
}

/* Answers an inquiry. Presumed abort: an unknown transaction was not committed. Without an answer
 * the transaction stays in doubt until an administrator decides. */
static void inquiry(struct coordinator *c, const struct global *g, size_t server,
                    const struct message *m)
{
    struct message abort = {.type = MESSAGE_ABORT, .txn = m->txn};
    if (c->error.code)
        return; /* it is unknown which decisions are durable */
    if (!g && !may_presume(c, server, m))
        c->counts.unanswered++;
    else if (!g)
        peer_send(c, server, &abort);
    else if (g->state == GLOBAL_COMMITTED)
        peer_commit(c, server, g);
}

void global_receive(struct coordinator *c, size_t server, const struct message *m)
{
    struct global *g = global_find(c, m->txn);
    if (m->type == MESSAGE_INQUIRE)
        inquiry(c, g, server, m);
    else if (g && m->type == MESSAGE_RESULT)
        result(g, server, m);
    else if (g && m->type == MESSAGE_VOTE)
        vote(c, g, server, m);
    else if (g && m->type == MESSAGE_ACK)
        acknowledged(c, g, server);
}

/* ---- lost servers ---------------------------------------------------------------------------- */

void globals_lose(struct coordinator *c, size_t server)
{
    struct global *g, *next;
    for (g = TAILQ_FIRST(&c->globals); g; g = next) {
        next = TAILQ_NEXT(g, link);
        struct part *part = &g->parts[server];
        if (!part->touched)
            continue;
        if (g->state == GLOBAL_ACTIVE)
            doom(g, LLADD_BUSY);
        else if (g->state == GLOBAL_VOTING && part->vote == VOTE_NONE)
            roll_back(c, g, LLADD_BUSY);
        else if (g->state == GLOBAL_ONE_PHASE)
            give_up_one_phase(c, g, server, LLADD_BUSY);
    }
}

static size_t only_server(const struct coordinator *c, const struct global *g)
{
    size_t i = 0;
    while (i + 1 < c->options.servers && !g->parts[i].touched)
        i++;
    return i;
}

void globals_tick(struct coordinator *c, uint64_t now)
{
    struct global *g, *next;
    for (g = TAILQ_FIRST(&c->globals); g; g = next) {
        next = TAILQ_NEXT(g, link);
        const struct call *oldest = TAILQ_FIRST(&g->gets);
        if (g->state == GLOBAL_ACTIVE && oldest && now >= oldest->deadline_ms)
            doom(g, LLADD_TIMEOUT);
        else if (g->state == GLOBAL_VOTING && now >= g->deadline_ms)
            roll_back(c, g, LLADD_TIMEOUT);
        else if (g->state == GLOBAL_ONE_PHASE && now >= g->deadline_ms)
            give_up_one_phase(c, g, only_server(c, g), LLADD_TIMEOUT);
    }
}

void globals_close(struct coordinator *c)
{
    struct global *g, *next;
    for (g = TAILQ_FIRST(&c->globals); g; g = next) {
        next = TAILQ_NEXT(g, link);
        if (g->state == GLOBAL_ACTIVE)
            doom(g, LLADD_CLOSED);
        else if (g->state == GLOBAL_VOTING)
            roll_back(c, g, LLADD_CLOSED);
        else if (g->state == GLOBAL_ONE_PHASE)
            give_up_one_phase(c, g, only_server(c, g), LLADD_CLOSED);
    }
    coordinator_poisoned(c, LLADD_CLOSED); /* for decisions that are not durable yet */
}
