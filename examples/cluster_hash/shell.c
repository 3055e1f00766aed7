/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets and a clock for a state machine; see shell.h.
 *
 * The frames that the machine sends in one turn of the loop are written in one write for each
 * connection, just before the loop waits again; so answers to messages that came together are sent
 * together. If the socket does not take all bytes of a write, libuv writes the rest later. */
#include "shell.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 10u
#define BACKLOG 64
#define OUT_KEPT 65536u
#define UNSENT_MAX (UINT32_C(64) << 20) /* the connection of a peer that reads too slowly is
                                         * closed */

struct link {
    TAILQ_ENTRY(link) link;
    uv_tcp_t tcp;
    uv_connect_t connect;
    struct shell *shell;
    uint64_t conn;
    size_t peer;
    bool dialling, broken;
    bool closed; /* the machine does not use the link any more */
    struct frame_reader reader;
    unsigned char *out;
    size_t len, capacity;
};

struct outgoing {
    uv_write_t request;
    unsigned char *bytes;
};

static struct link *link_of(struct shell *s, uint64_t conn)
{
    struct link *l;
    TAILQ_FOREACH(l, &s->links, link)
        if (l->conn == conn && !l->closed)
            return l;
    return NULL;
}

uint64_t shell_now_ms(struct shell *s)
{
    return uv_now(&s->loop);
}

/* ---- the thread that waits for the log ------------------------------------------------------- */

static void *flush(void *arg)
{
    struct shell *s = arg;
    struct flusher *f = &s->flusher;
    lladd_mutex_lock(&f->mutex);
    while (!f->stop) {
        if (f->rc || f->wanted.v <= f->done.v) {
            lladd_cond_wait(&f->changed, &f->mutex);
            continue;
        }
        lladd_lsn wanted = f->wanted;
        lladd_mutex_unlock(&f->mutex);
        int rc = lladd_wait_durable(s->db, wanted, NULL);
        lladd_mutex_lock(&f->mutex);
        f->rc = rc;
        if (!rc)
            f->done = wanted;
        (void)uv_async_send(&s->flushed);
    }
    lladd_mutex_unlock(&f->mutex);
    return NULL;
}

static int flusher_start(struct shell *s, struct lladd_error *err)
{
    struct flusher *f = &s->flusher;
    int rc = lladd_mutex_init(&f->mutex, LLADD_RANK_EXTENSION, "cluster.flusher");
    if (!rc && (rc = lladd_cond_init(&f->changed)) != 0)
        lladd_mutex_destroy(&f->mutex);
    f->made = !rc;
    rc = rc ? rc : lladd_thread_start(&f->thread, flush, s);
    return rc ? lladd_error_set(err, rc, "the thread that waits for the log cannot be started") : 0;
}

static void flusher_stop(struct shell *s)
{
    struct flusher *f = &s->flusher;
    if (!f->made)
        return;
    lladd_mutex_lock(&f->mutex);
    f->stop = true;
    lladd_cond_signal(&f->changed);
    lladd_mutex_unlock(&f->mutex);
    lladd_thread_join(&f->thread);
    lladd_cond_destroy(&f->changed);
    lladd_mutex_destroy(&f->mutex);
    f->made = false;
}

static void on_flushed(uv_async_t *async)
{
    struct shell *s = async->data;
    struct flusher *f = &s->flusher;
    lladd_mutex_lock(&f->mutex);
    lladd_lsn done = f->done;
    int rc = f->rc;
    lladd_mutex_unlock(&f->mutex);
    s->events->durable(s->ctx, rc, done);
}

/* ---- connections ----------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    struct link *l = handle->data;
    TAILQ_REMOVE(&l->shell->links, l, link);
    frame_reader_free(&l->reader);
    free(l->out);
    free(l);
}

static void close_link(struct link *l)
{
    l->closed = true;
    if (!uv_is_closing((uv_handle_t *)&l->tcp))
        uv_close((uv_handle_t *)&l->tcp, on_closed);
}

/* The peer or the network has ended the connection. */
static void lost(struct link *l)
{
    struct shell *s = l->shell;
    uint64_t conn = l->conn;
    if (l->closed)
        return;
    close_link(l);
    s->events->closed(s->ctx, conn);
}

static void on_written(uv_write_t *request, int status)
{
    struct outgoing *o = (struct outgoing *)request;
    struct link *l = request->handle->data;
    if (status)
        lost(l);
    free(o->bytes);
    free(o);
}

/* Hands the bytes that the socket has not taken to libuv. */
static void send_later(struct link *l, size_t taken)
{
    struct outgoing *o = malloc(sizeof *o);
    if (!o) {
        lost(l);
        return;
    }
    uv_buf_t buffer = uv_buf_init((char *)l->out + taken, (unsigned)(l->len - taken));
    o->bytes = l->out;
    l->out = NULL;
    l->len = l->capacity = 0;
    if (uv_write(&o->request, (uv_stream_t *)&l->tcp, &buffer, 1, on_written)) {
        free(o->bytes);
        free(o);
        lost(l);
    }
}

/* All bytes were sent. The buffer is kept, unless it is unusually large. */
static void empty(struct link *l)
{
    l->len = 0;
    if (l->capacity <= OUT_KEPT)
        return;
    free(l->out);
    l->out = NULL;
    l->capacity = 0;
}

static void send_out(struct link *l)
{
    if (l->len == 0 || uv_is_closing((uv_handle_t *)&l->tcp))
        return;
    uv_buf_t buffer = uv_buf_init((char *)l->out, (unsigned)l->len);
    int n = uv_try_write((uv_stream_t *)&l->tcp, &buffer, 1);
    if (n < 0 && n != UV_EAGAIN)
        lost(l);
    else if (n == (int)l->len)
        empty(l);
    else
        send_later(l, n < 0 ? 0 : (size_t)n);
}

void shell_send(struct shell *s, uint64_t conn, const void *bytes, size_t len)
{
    struct link *l = link_of(s, conn);
    if (!l)
        return;
    if (l->capacity - l->len < len) {
        size_t capacity = 2 * (l->len + len) < 4096 ? 4096 : 2 * (l->len + len);
        unsigned char *grown = realloc(l->out, capacity);
        if (!grown) { /* a frame is lost; in the next turn the machine gets `closed` */
            l->broken = true;
            return;
        }
        l->out = grown;
        l->capacity = capacity;
    }
    memcpy(l->out + l->len, bytes, len);
    l->len += len;
}

void shell_drop(struct shell *s, uint64_t conn)
{
    struct link *l = link_of(s, conn);
    if (!l)
        return;
    l->closed = true; /* first, because send_out may fail */
    send_out(l);
    close_link(l);
}

static int on_frame(void *ctx, const unsigned char *frame, size_t len)
{
    struct link *l = ctx;
    l->shell->events->received(l->shell->ctx, l->conn, frame, len);
    return l->closed ? LLADD_END : 0;
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    (void)handle;
    *buffer = uv_buf_init(malloc(suggested), (unsigned)suggested);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct link *l = stream->data;
    int rc = n < 0 ? LLADD_END : 0;
    if (n > 0 && !l->closed)
        rc = frame_reader_feed(&l->reader, (const unsigned char *)buffer->base, (size_t)n, on_frame,
                               l);
    free(buffer->base);
    if (rc)
        lost(l);
}

static struct link *link_new(struct shell *s)
{
    struct link *l = calloc(1, sizeof *l);
    if (!l || uv_tcp_init(&s->loop, &l->tcp)) {
        free(l);
        return NULL;
    }
    l->tcp.data = l;
    l->connect.data = l;
    l->shell = s;
    l->conn = ++s->conns;
    TAILQ_INSERT_TAIL(&s->links, l, link);
    return l;
}

static bool start_reading(struct link *l)
{
    return uv_tcp_nodelay(&l->tcp, 1) == 0 &&
           uv_read_start((uv_stream_t *)&l->tcp, on_room, on_read) == 0;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct shell *s = listener->data;
    struct link *l = status || s->stopping ? NULL : link_new(s);
    if (!l)
        return;
    if (uv_accept(listener, (uv_stream_t *)&l->tcp) || !start_reading(l)) {
        close_link(l);
        return;
    }
    s->events->accepted(s->ctx, l->conn);
}

/* A program that repeatedly connects to a local port on which no program listens may get this port
 * as its source port, and is then connected to itself. */
static bool is_oneself(struct link *l)
{
    struct sockaddr_in here = {.sin_port = 0}, there = {.sin_port = 0};
    int n = sizeof here, m = sizeof there;
    return uv_tcp_getsockname(&l->tcp, (struct sockaddr *)&here, &n) ||
           uv_tcp_getpeername(&l->tcp, (struct sockaddr *)&there, &m) ||
           (here.sin_port == there.sin_port && here.sin_addr.s_addr == there.sin_addr.s_addr);
}

static void on_connect(uv_connect_t *request, int status)
{
    struct link *l = request->data;
    struct shell *s = l->shell;
    size_t peer = l->peer;
    l->dialling = false;
    if (l->closed) /* the shell is being freed */
        return;
    if (status || is_oneself(l) || !start_reading(l)) {
        close_link(l);
        s->events->unreachable(s->ctx, peer);
        return;
    }
    s->events->connected(s->ctx, peer, l->conn);
}

void shell_dial(struct shell *s, size_t peer, const struct sockaddr_in *to)
{
    struct link *l = link_new(s);
    if (!l) {
        s->events->unreachable(s->ctx, peer);
        return;
    }
    l->peer = peer;
    l->dialling = true;
    if (uv_tcp_connect(&l->connect, &l->tcp, (const struct sockaddr *)to, on_connect)) {
        close_link(l);
        s->events->unreachable(s->ctx, peer);
    }
}

/* ---- the loop -------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *timer)
{
    struct shell *s = timer->data;
    s->events->tick(s->ctx);
}

static void on_wake(uv_async_t *async)
{
    struct shell *s = async->data;
    if (s->events->woken)
        s->events->woken(s->ctx);
}

static void send_all(struct shell *s)
{
    struct link *l, *next;
    for (l = TAILQ_FIRST(&s->links); l; l = next) {
        next = TAILQ_NEXT(l, link);
        if (l->closed || l->dialling)
            continue;
        send_out(l);
        if (l->broken || uv_stream_get_write_queue_size((uv_stream_t *)&l->tcp) > UNSENT_MAX)
            lost(l);
    }
}

/* Called before the loop waits. */
static void hand_out(struct shell *s)
{
    struct flusher *f = &s->flusher;
    send_all(s);
    lladd_lsn wants = s->events->wants(s->ctx);
    if (wants.v && s->events->alone(s->ctx)) {
        s->events->durable(s->ctx, lladd_wait_durable(s->db, wants, NULL), wants);
        send_all(s);
        wants = s->events->wants(s->ctx);
    }
    lladd_mutex_lock(&f->mutex);
    if (wants.v > f->wanted.v) {
        f->wanted = wants;
        lladd_cond_signal(&f->changed);
    }
    lladd_mutex_unlock(&f->mutex);
}

int shell_init(struct shell *s, struct lladd_db *db, const struct shell_events *events, void *ctx,
               struct lladd_error *err)
{
    *s = (struct shell){.events = events, .ctx = ctx, .db = db};
    TAILQ_INIT(&s->links);
    int rc = uv_loop_init(&s->loop);
    if (rc)
        return lladd_error_set(err, LLADD_NO_FILES, "no event loop: %s", uv_strerror(rc));
    s->timer.data = s->flushed.data = s->wake.data = s;
    rc = uv_timer_init(&s->loop, &s->timer);
    rc = rc ? rc : uv_async_init(&s->loop, &s->flushed, on_flushed);
    rc = rc ? rc : uv_async_init(&s->loop, &s->wake, on_wake);
    rc = rc ? rc : uv_timer_start(&s->timer, on_tick, TICK_MS, TICK_MS);
    if (rc)
        lladd_error_set(err, LLADD_NO_FILES, "no event loop: %s", uv_strerror(rc));
    else
        rc = flusher_start(s, err);
    if (rc)
        shell_free(s);
    return rc ? err->code : 0;
}

int shell_listen(struct shell *s, unsigned port, unsigned *out, struct lladd_error *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int len = sizeof at, rc = uv_tcp_init(&s->loop, &s->listener);
    s->listening = rc == 0;
    s->listener.data = s;
    rc = rc ? rc : uv_tcp_bind(&s->listener, (const struct sockaddr *)&at, 0);
    rc = rc ? rc : uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
    rc = rc ? rc : uv_tcp_getsockname(&s->listener, (struct sockaddr *)&at, &len);
    if (rc)
        return lladd_error_set(err, rc == UV_EADDRINUSE ? LLADD_BUSY : LLADD_NO_ACCESS,
                               "127.0.0.1:%u: %s", port, uv_strerror(rc));
    *out = ntohs(at.sin_port);
    return 0;
}

void shell_run(struct shell *s, shell_done *done, void *ctx)
{
    while (!s->stopping) {
        hand_out(s);
        if (done && done(ctx))
            return;
        (void)uv_run(&s->loop, UV_RUN_ONCE);
    }
}

void shell_stop(struct shell *s)
{
    s->stopping = true;
    uv_stop(&s->loop);
}

void shell_wake(struct shell *s)
{
    (void)uv_async_send(&s->wake);
}

static void close_any(uv_handle_t *handle, void *ctx)
{
    (void)ctx;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void shell_free(struct shell *s)
{
    struct link *l;
    flusher_stop(s);
    TAILQ_FOREACH(l, &s->links, link)
        close_link(l);
    uv_walk(&s->loop, close_any, NULL);
    (void)uv_run(&s->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&s->loop);
}
