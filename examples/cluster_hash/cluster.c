/* SPDX-License-Identifier: BSD-2-Clause */
/* Blocking calls over the coordinator's state machine (the machine), which one thread at a time
 * runs. The writes of a transaction stay in its struct until the transaction's next request.
 *
 * If no thread is running the machine, a caller runs it until the caller has its answer: this costs
 * less than to hand the request to another thread and to be woken by that thread
 * (docs/decisions/callers-run-the-coordinator.md). Other callers leave their requests with the
 * running thread. If other callers still wait when the caller returns, the keeper, a thread of the
 * cluster, takes over: it runs the machine until no caller waits. The keeper also takes over after
 * KEEPER_MS without a run, so that messages of servers are handled while the program makes no
 * calls; it then runs the machine until it has served a caller and no caller waits. */
#include "cluster.h"
#include "shell.h"

#include <arpa/inet.h>
#include <lladd/extension.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define KEEPER_MS UINT64_C(10) /* the interval of the shell's ticks */

enum request { REQUEST_GET, REQUEST_COMMIT, REQUEST_ABORT };

struct write {
    STAILQ_ENTRY(write) link;
    enum message_type how; /* PUT, DELETE or ADD */
    int64_t delta;
    size_t key_len, value_len;
    unsigned char bytes[]; /* key, value */
};

struct cluster_txn {
    STAILQ_ENTRY(cluster_txn) link; /* in the list of requests */
    struct cluster *cluster;
    struct global *global; /* the machine's struct for the transaction; NULL before the first
                            * request */
    STAILQ_HEAD(, write) writes;
    enum request request;
    struct cluster_query *queries;
    size_t n;
    bool update;
    struct call *calls; /* one per query */
    struct call end;
    size_t waiting; /* number of missing answers; under the mutex */
    struct lladd_cond answered;
};

struct cluster {
    struct lladd_db *db;
    struct coordinator *coordinator;
    struct shell shell;
    struct sockaddr_in *servers;
    size_t n_servers;
    struct lladd_thread keeper;
    struct lladd_mutex mutex; /* protects the members below */
    STAILQ_HEAD(, cluster_txn) requests;
    bool running;       /* a thread runs the machine; only that thread uses the coordinator and
                         * the shell (except shell_wake) */
    uint64_t runs;      /* number of runs so far */
    size_t asking;      /* callers that wait for answers */
    struct lladd_cond keep; /* the keeper must run the machine */
    bool stop;
    struct coordinator_counts counts;
    struct lladd_error error;
    struct lladd_cond changed; /* another number of servers is up, or there is an error */
};

/* ---- the thread that runs the machine -------------------------------------------------------- */

static void answer(struct cluster_txn *t, size_t n)
{
    struct cluster *c = t->cluster;
    lladd_mutex_lock(&c->mutex);
    t->waiting -= n;
    if (t->waiting == 0) {
        c->asking--;
        lladd_cond_signal(&t->answered);
    }
    lladd_mutex_unlock(&c->mutex);
}

static void done(struct call *call)
{
    answer(call->ctx, 1);
}

static void carry_out_writes(struct cluster *c, struct cluster_txn *t)
{
    struct write *w;
    while ((w = STAILQ_FIRST(&t->writes)) != NULL) {
        STAILQ_REMOVE_HEAD(&t->writes, link);
        if (w->how == MESSAGE_DELETE)
            (void)coordinator_delete(c->coordinator, t->global, w->bytes, w->key_len);
        else if (w->how == MESSAGE_ADD)
            (void)coordinator_add(c->coordinator, t->global, w->bytes, w->key_len, w->delta);
        else
            (void)coordinator_put(c->coordinator, t->global, w->bytes, w->key_len,
                                  w->bytes + w->key_len, w->value_len);
        free(w); /* the machine remembers an error: the transaction's next answer reports it */
    }
}

static void get(struct cluster *c, struct cluster_txn *t)
{
    for (size_t i = 0; i < t->n; i++) {
        struct cluster_query *q = &t->queries[i];
        t->calls[i] = (struct call){.buf = q->buf, .size = q->size, .done = done, .ctx = t};
        coordinator_get(c->coordinator, t->global, &t->calls[i], q->key, q->key_len, t->update);
    }
    answer(t, 1); /* the answer to the request itself: before this, the caller must not continue */
}

/* Called if no transaction can begin: answers all parts of the request with the error. */
static void turn_away(struct cluster *c, struct cluster_txn *t)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int rc = coordinator_error(c->coordinator, &err);
    rc = rc ? rc : LLADD_NO_MEMORY;
    for (size_t i = 0; t->request == REQUEST_GET && i < t->n; i++)
        t->calls[i] = (struct call){.code = rc};
    t->end.code = rc;
    answer(t, t->waiting);
}

static void carry_out(struct cluster *c, struct cluster_txn *t)
{
    if (!t->global)
        t->global = coordinator_begin(c->coordinator);
    if (!t->global) {
        turn_away(c, t);
        return;
    }
    carry_out_writes(c, t);
    if (t->request == REQUEST_GET) {
        get(c, t);
    } else if (t->request == REQUEST_COMMIT) {
        t->end = (struct call){.done = done, .ctx = t};
        coordinator_commit(c->coordinator, t->global, &t->end);
    } else {
        coordinator_abort(c->coordinator, t->global);
        answer(t, 1);
    }
}

static void carry_out_all(void *ctx)
{
    struct cluster *c = ctx;
    STAILQ_HEAD(, cluster_txn) todo = STAILQ_HEAD_INITIALIZER(todo);
    lladd_mutex_lock(&c->mutex);
    STAILQ_CONCAT(&todo, &c->requests);
    bool stop = c->stop;
    lladd_mutex_unlock(&c->mutex);
    struct cluster_txn *t;
    while ((t = STAILQ_FIRST(&todo)) != NULL) {
        STAILQ_REMOVE_HEAD(&todo, link);
        carry_out(c, t);
    }
    if (stop)
        shell_stop(&c->shell);
}

/* Copies the counts and the error, which callers read without a request. */
static void publish(struct cluster *c)
{
    struct coordinator_counts counts;
    coordinator_count(c->coordinator, &counts);
    lladd_mutex_lock(&c->mutex);
    bool changed = counts.up != c->counts.up;
    c->counts = counts;
    if (coordinator_error(c->coordinator, &c->error) || changed)
        lladd_cond_broadcast(&c->changed);
    lladd_mutex_unlock(&c->mutex);
}

static void connected(void *ctx, size_t peer, uint64_t conn)
{
    coordinator_connected(((struct cluster *)ctx)->coordinator, peer, conn);
}

static void unreachable(void *ctx, size_t peer)
{
    coordinator_unreachable(((struct cluster *)ctx)->coordinator, peer);
}

static void received(void *ctx, uint64_t conn, const unsigned char *frame, size_t len)
{
    coordinator_receive(((struct cluster *)ctx)->coordinator, conn, frame, len);
}

static void closed(void *ctx, uint64_t conn)
{
    coordinator_disconnected(((struct cluster *)ctx)->coordinator, conn);
}

static void durable(void *ctx, int rc, lladd_lsn lsn)
{
    struct cluster *c = ctx;
    if (rc)
        coordinator_poisoned(c->coordinator, rc);
    else
        coordinator_durable(c->coordinator, lsn);
}

static lladd_lsn wants(void *ctx)
{
    return coordinator_wants(((struct cluster *)ctx)->coordinator);
}

static bool alone(void *ctx)
{
    return coordinator_alone(((struct cluster *)ctx)->coordinator);
}

static void tick(void *ctx)
{
    struct cluster *c = ctx;
    coordinator_tick(c->coordinator);
    publish(c);
}

static const struct shell_events events = {.connected = connected,
                                           .unreachable = unreachable,
                                           .received = received,
                                           .closed = closed,
                                           .durable = durable,
                                           .wants = wants,
                                           .alone = alone,
                                           .tick = tick,
                                           .woken = carry_out_all};

static uint64_t now_ms(void *ctx)
{
    return shell_now_ms(&((struct cluster *)ctx)->shell);
}

static void dial(void *ctx, size_t server)
{
    struct cluster *c = ctx;
    shell_dial(&c->shell, server, &c->servers[server]);
}

static void send_frame(void *ctx, uint64_t conn, const void *bytes, size_t len)
{
    shell_send(&((struct cluster *)ctx)->shell, conn, bytes, len);
}

static void drop(void *ctx, uint64_t conn)
{
    shell_drop(&((struct cluster *)ctx)->shell, conn);
}

/* ---- taking turns ---------------------------------------------------------------------------- */

/* Called and returns with the mutex held; no thread may be running the machine. */
static void run(struct cluster *c, shell_done *until, void *ctx)
{
    c->running = true;
    lladd_mutex_unlock(&c->mutex);
    uv_update_time(&c->shell.loop); /* time has passed since the last run */
    carry_out_all(c);
    shell_run(&c->shell, until, ctx);
    lladd_mutex_lock(&c->mutex);
    c->running = false;
    c->runs++;
}

static bool answered(void *ctx)
{
    const struct cluster_txn *t = ctx;
    return t->waiting == 0; /* only the thread that runs the machine, which is this thread, changes
                             * `waiting` */
}

/* Runs the machine in a thread of the program. In this thread, a write to a server that has died
 * must not raise SIGPIPE. (Threads of lladd_thread_start block all signals.) */
static void run_for(struct cluster *c, struct cluster_txn *t)
{
    const struct timespec at_once = {0, 0};
    sigset_t broken, before;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    int rc = pthread_sigmask(SIG_BLOCK, &broken, &before);
    run(c, answered, t);
    if (c->asking)
        lladd_cond_signal(&c->keep);
    if (rc || sigismember(&before, SIGPIPE))
        return;
    while (sigtimedwait(&broken, NULL, &at_once) > 0)
        continue;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* The keeper's run ends when it has served a caller and no caller waits. */
struct service {
    struct cluster *cluster;
    bool served;
};

static bool no_caller_waits(void *ctx)
{
    struct service *v = ctx;
    lladd_mutex_lock(&v->cluster->mutex);
    bool waits = v->cluster->asking != 0;
    lladd_mutex_unlock(&v->cluster->mutex);
    bool leaves = v->served && !waits;
    v->served = v->served || waits;
    return leaves;
}

static void *keep(void *arg)
{
    struct cluster *c = arg;
    lladd_mutex_lock(&c->mutex);
    while (!c->stop) {
        uint64_t runs = c->runs;
        bool left_alone = runs == 0;
        if (c->running || !(c->asking || left_alone))
            left_alone = !lladd_cond_wait_for(&c->keep, &c->mutex, KEEPER_MS * 1000000) &&
                         c->runs == runs;
        if (!c->running && !c->stop && (c->asking || left_alone))
            run(c, no_caller_waits, &(struct service){.cluster = c});
    }
    lladd_mutex_unlock(&c->mutex);
    return NULL;
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* Parses an address like "127.0.0.1:4711". */
static bool parse_address(const char *text, struct sockaddr_in *out)
{
    char host[16] = {0}, *end = NULL;
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : sizeof host;
    if (len >= sizeof host || !colon[1])
        return false;
    memcpy(host, text, len);
    unsigned long port = strtoul(colon + 1, &end, 10);
    *out = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return *end == 0 && port >= 1 && port <= 65535 && inet_pton(AF_INET, host, &out->sin_addr) == 1;
}

static int parse_addresses(struct cluster *c, const struct cluster_options *o,
                           struct lladd_error *err)
{
    c->n_servers = o->n_servers;
    c->servers = calloc(o->n_servers ? o->n_servers : 1, sizeof *c->servers);
    if (!c->servers)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < o->n_servers; i++)
        if (!parse_address(o->servers[i], &c->servers[i]))
            return lladd_error_set(err, LLADD_BAD_ARGUMENT, "\"%s\" is no ADDRESS:PORT",
                                   o->servers[i]);
    return 0;
}

static int start(struct cluster *c, const struct cluster_options *o, struct lladd_error *err)
{
    struct coordinator_options shape = {
        .servers = o->n_servers, .replicas = o->replicas, .call_ms = o->call_ms};
    struct coordinator_io io = {c, now_ms, dial, send_frame, drop};
    int rc = shell_init(&c->shell, c->db, &events, c, err);
    if (rc)
        return rc;
    rc = coordinator_open(c->db, &shape, &io, &c->coordinator, err);
    if (!rc && (rc = lladd_thread_start(&c->keeper, keep, c)) != 0)
        lladd_error_set(err, rc, "the keeper thread could not be started");
    if (rc) {
        if (c->coordinator)
            coordinator_close(c->coordinator);
        shell_free(&c->shell);
    }
    return rc;
}

static void free_cluster(struct cluster *c)
{
    lladd_cond_destroy(&c->keep);
    lladd_cond_destroy(&c->changed);
    lladd_mutex_destroy(&c->mutex);
    free(c->servers);
    free(c);
}

int cluster_open(const struct cluster_options *o, struct cluster **out, struct lladd_error *err)
{
    struct cluster *c = calloc(1, sizeof *c);
    int rc = c ? lladd_mutex_init(&c->mutex, LLADD_RANK_EXTENSION, "cluster") : LLADD_NO_MEMORY;
    if (!rc && (rc = lladd_cond_init(&c->changed)) != 0)
        lladd_mutex_destroy(&c->mutex);
    if (!rc && (rc = lladd_cond_init(&c->keep)) != 0) {
        lladd_cond_destroy(&c->changed);
        lladd_mutex_destroy(&c->mutex);
    }
    if (rc) {
        free(c);
        return lladd_error_set(err, rc, "out of memory");
    }
    STAILQ_INIT(&c->requests);
    rc = parse_addresses(c, o, err);
    rc = rc ? rc : lladd_open(o->dir, NULL, &c->db, err);
    rc = rc ? rc : start(c, o, err);
    if (!rc) {
        *out = c;
        return 0;
    }
    if (c->db)
        (void)lladd_close(c->db); /* the first error is the one to report */
    free_cluster(c);
    return rc;
}

int cluster_close(struct cluster *c)
{
    lladd_mutex_lock(&c->mutex);
    c->stop = true;
    lladd_cond_signal(&c->keep);
    lladd_mutex_unlock(&c->mutex);
    shell_wake(&c->shell);
    lladd_thread_join(&c->keeper);
    coordinator_close(c->coordinator);
    shell_free(&c->shell);
    int rc = lladd_close(c->db);
    free_cluster(c);
    return rc;
}

int cluster_wait(struct cluster *c, uint64_t ms)
{
    uint64_t end = lladd_now_ns(c->db) + ms * 1000000, now = 0;
    size_t all = c->n_servers;
    lladd_mutex_lock(&c->mutex);
    while (c->counts.up < all && !c->error.code && (now = lladd_now_ns(c->db)) < end)
        (void)lladd_cond_wait_for(&c->changed, &c->mutex, end - now);
    int rc = c->error.code ? c->error.code : c->counts.up < all ? LLADD_TIMEOUT : 0;
    lladd_mutex_unlock(&c->mutex);
    return rc;
}

int cluster_error(struct cluster *c, struct lladd_error *err)
{
    lladd_mutex_lock(&c->mutex);
    int rc = c->error.code;
    if (rc)
        *err = c->error;
    lladd_mutex_unlock(&c->mutex);
    return rc;
}

void cluster_count(struct cluster *c, struct coordinator_counts *out)
{
    lladd_mutex_lock(&c->mutex);
    *out = c->counts;
    lladd_mutex_unlock(&c->mutex);
}

/* ---- transactions ---------------------------------------------------------------------------- */

int cluster_begin(struct cluster *c, struct cluster_txn **out)
{
    struct cluster_txn *t = calloc(1, sizeof *t);
    if (!t || lladd_cond_init(&t->answered)) {
        free(t);
        return LLADD_NO_MEMORY;
    }
    t->cluster = c;
    STAILQ_INIT(&t->writes);
    *out = t;
    return 0;
}

/* Leaves the request with the running thread, or runs the machine; waits for the answers. */
static void ask(struct cluster_txn *t, enum request request, size_t answers)
{
    struct cluster *c = t->cluster;
    lladd_mutex_lock(&c->mutex);
    t->request = request;
    t->waiting = answers;
    c->asking++;
    bool first = STAILQ_EMPTY(&c->requests);
    STAILQ_INSERT_TAIL(&c->requests, t, link);
    if (!c->running)
        run_for(c, t);
    else if (first)
        shell_wake(&c->shell);
    while (t->waiting)
        lladd_cond_wait(&t->answered, &c->mutex);
    lladd_mutex_unlock(&c->mutex);
}

static void free_txn(struct cluster_txn *t)
{
    struct write *w;
    while ((w = STAILQ_FIRST(&t->writes)) != NULL) {
        STAILQ_REMOVE_HEAD(&t->writes, link);
        free(w);
    }
    lladd_cond_destroy(&t->answered);
    free(t);
}

int cluster_get_many(struct cluster_txn *t, struct cluster_query *queries, size_t n, bool update)
{
    int rc = 0;
    if (n == 0)
        return 0;
    t->calls = calloc(n, sizeof *t->calls);
    if (!t->calls)
        return LLADD_NO_MEMORY;
    t->queries = queries;
    t->n = n;
    t->update = update;
    ask(t, REQUEST_GET, n + 1);
    for (size_t i = 0; i < n; i++) {
        queries[i].rc = t->calls[i].code;
        queries[i].len = t->calls[i].len;
        if (!rc && queries[i].rc && queries[i].rc != LLADD_NOT_FOUND)
            rc = queries[i].rc;
    }
    free(t->calls);
    return rc;
}

int cluster_get(struct cluster_txn *t, const void *key, size_t key_len, bool update, void *buf,
                size_t size, size_t *len)
{
    struct cluster_query q = {.key = key, .key_len = key_len, .buf = buf, .size = size};
    int rc = cluster_get_many(t, &q, 1, update);
    *len = q.len;
    return rc ? rc : q.rc;
}

static int add_write(struct cluster_txn *t, const struct write *like, const void *key,
                     const void *value)
{
    if (like->key_len < 1 || like->key_len > WIRE_KEY_MAX)
        return LLADD_KEY_SIZE;
    if (like->value_len > WIRE_VALUE_MAX)
        return LLADD_TOO_LARGE;
    struct write *w = malloc(sizeof *w + like->key_len + like->value_len);
    if (!w)
        return LLADD_NO_MEMORY;
    *w = *like;
    memcpy(w->bytes, key, w->key_len);
    if (value && w->value_len)
        memcpy(w->bytes + w->key_len, value, w->value_len);
    STAILQ_INSERT_TAIL(&t->writes, w, link);
    return 0;
}

int cluster_put(struct cluster_txn *t, const void *key, size_t key_len, const void *value,
                size_t value_len)
{
    struct write w = {.how = MESSAGE_PUT, .key_len = key_len, .value_len = value_len};
    return add_write(t, &w, key, value);
}

int cluster_add(struct cluster_txn *t, const void *key, size_t key_len, int64_t delta)
{
    struct write w = {.how = MESSAGE_ADD, .key_len = key_len, .delta = delta};
    return add_write(t, &w, key, NULL);
}

int cluster_delete(struct cluster_txn *t, const void *key, size_t key_len)
{
    struct write w = {.how = MESSAGE_DELETE, .key_len = key_len};
    return add_write(t, &w, key, NULL);
}

int cluster_commit(struct cluster_txn *t)
{
    ask(t, REQUEST_COMMIT, 1);
    int rc = t->end.code;
    free_txn(t);
    return rc;
}

void cluster_abort(struct cluster_txn *t)
{
    if (t->global)
        ask(t, REQUEST_ABORT, 1);
    free_txn(t);
}
