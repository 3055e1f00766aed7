/* SPDX-License-Identifier: BSD-2-Clause */
/* cluster-server: one server of the cluster hash table, on 127.0.0.1.
 *
 *   cluster-server --dir DIR [--port N] [--until-eof]
 *
 * Prints "listening N in-doubt M" when it has recovered and accepts connections. Ends on SIGTERM
 * and SIGINT, and with --until-eof at the end of its standard input, so that it does not outlive
 * its parent process.
 *
 * This is the shell of participant.c: one thread runs the state machine, one thread waits for the
 * log (shell.c), and each lock request waits in a thread of libuv's pool. */
#include "participant.h"
#include "shell.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCK_THREADS "64" /* number of requests that wait for locks at a time; further requests
                           * queue */

struct server {
    struct shell shell;
    struct participant *participant;
    struct lladd_db *db;
    uv_signal_t term, interrupt;
    uv_pipe_t parent;
    char heard[64]; /* buffer for input from the parent, which is ignored */
    size_t lock_waits;
    bool failed;
};

/* ---- waiting for locks ----------------------------------------------------------------------- */

struct lock_work {
    uv_work_t work;
    struct server *server;
    struct lock_wait *wait;
    int rc;
};

static void take_lock(uv_work_t *work)
{
    struct lock_work *w = (struct lock_work *)work;
    w->rc = lock_wait_take(w->wait, w->wait->timeout_ns);
}

static void taken(uv_work_t *work, int status)
{
    struct lock_work *w = (struct lock_work *)work;
    w->server->lock_waits--;
    participant_locked(w->server->participant, w->wait, status ? LLADD_BUSY : w->rc);
    free(w);
}

static void wait_for_lock(void *ctx, struct lock_wait *wait)
{
    struct server *s = ctx;
    struct lock_work *w = malloc(sizeof *w);
    if (w)
        *w = (struct lock_work){.server = s, .wait = wait};
    if (!w || uv_queue_work(&s->shell.loop, &w->work, take_lock, taken)) {
        free(w);
        participant_locked(s->participant, wait, LLADD_NO_MEMORY);
        return;
    }
    s->lock_waits++;
}

/* ---- the machine's calls --------------------------------------------------------------------- */

static uint64_t now_ms(void *ctx)
{
    return shell_now_ms(&((struct server *)ctx)->shell);
}

static void send_frame(void *ctx, uint64_t conn, const void *bytes, size_t len)
{
    shell_send(&((struct server *)ctx)->shell, conn, bytes, len);
}

static void drop(void *ctx, uint64_t conn)
{
    shell_drop(&((struct server *)ctx)->shell, conn);
}

static void accepted(void *ctx, uint64_t conn)
{
    participant_connected(((struct server *)ctx)->participant, conn);
}

static void received(void *ctx, uint64_t conn, const unsigned char *frame, size_t len)
{
    participant_receive(((struct server *)ctx)->participant, conn, frame, len);
}

static void closed(void *ctx, uint64_t conn)
{
    participant_disconnected(((struct server *)ctx)->participant, conn);
}

static lladd_lsn wants(void *ctx)
{
    return participant_wants(((struct server *)ctx)->participant, true);
}

static bool alone(void *ctx)
{
    return participant_alone(((struct server *)ctx)->participant);
}

/* The log has failed, so the server stops. When it is started again, it recovers. */
static void fail(struct server *s, const struct lladd_error *err)
{
    if (!s->failed)
        fprintf(stderr, "cluster-server: %s: %s\n", lladd_code_name(err->code), err->message);
    s->failed = true;
    shell_stop(&s->shell);
}

static void durable(void *ctx, int rc, lladd_lsn lsn)
{
    struct server *s = ctx;
    struct lladd_error err = LLADD_ERROR_INIT;
    if (rc) {
        (void)lladd_db_error(s->db, &err);
        fail(s, &err);
    } else {
        participant_durable(s->participant, lsn);
    }
}

static void tick(void *ctx)
{
    struct server *s = ctx;
    struct lladd_error err = LLADD_ERROR_INIT;
    participant_tick(s->participant);
    if (participant_error(s->participant, &err))
        fail(s, &err);
}

static const struct shell_events events = {.accepted = accepted,
                                           .received = received,
                                           .closed = closed,
                                           .durable = durable,
                                           .wants = wants,
                                           .alone = alone,
                                           .tick = tick};

/* ---- shutdown -------------------------------------------------------------------------------- */

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    shell_stop(&((struct server *)signal->data)->shell);
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer)
{
    struct server *s = handle->data;
    (void)suggested;
    *buffer = uv_buf_init(s->heard, sizeof s->heard);
}

static void on_parent(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    (void)buffer;
    if (n < 0)
        shell_stop(&((struct server *)stream->data)->shell);
}

static int watch(struct server *s, bool until_eof)
{
    uv_loop_t *loop = &s->shell.loop;
    s->term.data = s->interrupt.data = s->parent.data = s;
    int rc = uv_signal_init(loop, &s->term);
    rc = rc ? rc : uv_signal_init(loop, &s->interrupt);
    rc = rc ? rc : uv_signal_start(&s->term, on_signal, SIGTERM);
    rc = rc ? rc : uv_signal_start(&s->interrupt, on_signal, SIGINT);
    if (rc || !until_eof)
        return rc;
    rc = uv_pipe_init(loop, &s->parent, 0);
    rc = rc ? rc : uv_pipe_open(&s->parent, 0);
    return rc ? rc : uv_read_start((uv_stream_t *)&s->parent, on_room, on_parent);
}

/* ---- main ------------------------------------------------------------------------------------ */

static int serve(struct server *s, unsigned port, bool until_eof, struct lladd_error *err)
{
    struct participant_options options = {.lock_ms = 0};
    struct participant_io io = {s, now_ms, send_frame, drop, wait_for_lock};
    struct participant_counts counts = {0};
    int rc = shell_init(&s->shell, s->db, &events, s, err);
    if (rc)
        return rc;
    rc = participant_open(s->db, &options, &io, &s->participant, err);
    rc = rc ? rc : shell_listen(&s->shell, port, &port, err);
    if (!rc && watch(s, until_eof))
        rc = lladd_error_set(err, LLADD_NO_FILES, "signals or standard input cannot be watched");
    if (!rc)
        participant_count(s->participant, &counts);
    if (!rc && (printf("listening %u in-doubt %zu\n", port, counts.prepared) < 0 || fflush(stdout)))
        rc = lladd_error_set(err, LLADD_NO_ACCESS, "standard output: %s", strerror(errno));
    if (!rc)
        shell_run(&s->shell, NULL, NULL);
    while (s->lock_waits) /* at most one second for every LOCK_THREADS requests */
        (void)uv_run(&s->shell.loop, UV_RUN_ONCE);
    if (s->participant && !s->failed)
        participant_close(s->participant);
    else if (s->participant)
        participant_kill(s->participant);
    s->participant = NULL;
    shell_free(&s->shell);
    return rc;
}

static int run(const char *dir, unsigned port, bool until_eof)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct server s = {.db = NULL};
    int rc = participant_register(&options, &err);
    rc = rc ? rc : lladd_open(dir, &options, &s.db, &err);
    lladd_options_release(&options);
    rc = rc ? rc : serve(&s, port, until_eof, &err);
    if (rc)
        fprintf(stderr, "cluster-server: %s: %s\n", lladd_code_name(rc), err.message);
    if (s.db && s.failed)
        lladd_db_kill(s.db);
    else if (s.db && lladd_close(s.db) && !rc)
        rc = LLADD_WRITE_FAILED;
    return rc || s.failed;
}

static int usage(void)
{
    fprintf(stderr, "usage: cluster-server --dir DIR [--port N] [--until-eof]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"dir", required_argument, NULL, 'd'},
                                          {"port", required_argument, NULL, 'p'},
                                          {"until-eof", no_argument, NULL, 'e'},
                                          {NULL, 0, NULL, 0}};
    const char *dir = NULL;
    unsigned long port = 0;
    bool until_eof = false;
    int c;
    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        char *end = NULL;
        if (c == 'd')
            dir = optarg;
        else if (c == 'e')
            until_eof = true;
        else if (c != 'p' || (port = strtoul(optarg, &end, 10)) > 65535 || *end || !*optarg)
            return usage();
    }
    if (!dir || optind != argc || setenv("UV_THREADPOOL_SIZE", LOCK_THREADS, 0))
        return usage();
    /* Writing to a dead coordinator is an ordinary error. */
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR)
        return perror("cluster-server: signal"), 1;
    return run(dir, (unsigned)port, until_eof) ? 1 : 0;
}
