/* SPDX-License-Identifier: BSD-2-Clause */
/* What a machine (participant.h, coordinator.h) stands on: sockets, a clock, and a thread that
 * waits for the log. One loop of libuv, one thread at a time; only shell_wake may be called from
 * others meanwhile. */
#ifndef CLUSTER_HASH_SHELL_H
#define CLUSTER_HASH_SHELL_H
#include "wire.h"

#include <lladd/lladd.h>
#include <lladd/sync.h>
#include <sys/queue.h>
#include <uv.h>

/** What the machine gets to know. All but `wants` may be NULL where they cannot happen. */
struct shell_events {
    void (*accepted)(void *ctx, uint64_t conn);
    void (*connected)(void *ctx, size_t peer, uint64_t conn);
    void (*unreachable)(void *ctx, size_t peer);
    void (*received)(void *ctx, uint64_t conn, const unsigned char *frame, size_t len);
    void (*closed)(void *ctx, uint64_t conn); /**< by the other side */
    void (*durable)(void *ctx, int rc, lladd_lsn lsn); /**< what lladd_wait(lsn) returned */
    lladd_lsn (*wants)(void *ctx); /**< what should become durable; 0: nothing */
    bool (*alone)(void *ctx);      /**< does nobody else need the loop while it waits for that? */
    void (*tick)(void *ctx);
    void (*woken)(void *ctx); /**< somebody has called shell_wake */
};

/** Waits for the log, so that the loop does not (unless nobody else needs it: then two hand-overs
 *  between threads would be all that was won). While it waits the loop goes on; what was logged
 *  meanwhile becomes durable with the next wait, all at once (group commit). */
struct flusher {
    struct lladd_thread thread;
    struct lladd_mutex mutex;
    struct lladd_cond changed;
    bool made, stop;
    lladd_lsn wanted, done;
    int rc;
};

struct link;
struct shell {
    uv_loop_t loop;
    uv_async_t flushed, wake;
    uv_timer_t timer;
    uv_tcp_t listener;
    bool listening, stopping;
    const struct shell_events *events;
    void *ctx;
    struct lladd_db *db;
    struct flusher flusher;
    uint64_t conns;
    TAILQ_HEAD(, link) links;
};

/** The shell must not move in memory afterwards. */
int shell_init(struct shell *, struct lladd_db *, const struct shell_events *, void *ctx,
               struct lladd_error *);
/** On 127.0.0.1 only; port 0: the kernel chooses. *out gets the port. */
int shell_listen(struct shell *, unsigned port, unsigned *out, struct lladd_error *);
/** Is what the loop is run for done? Asked when nothing is left that could be sent. */
typedef bool shell_done(void *ctx);
/** Until shell_stop, or until it is done; `done` may be NULL. Another thread may go on then. */
void shell_run(struct shell *, shell_done *done, void *ctx);
void shell_stop(struct shell *);
/** Closes every connection and frees all. */
void shell_free(struct shell *);
void shell_wake(struct shell *);

uint64_t shell_now_ms(struct shell *);
void shell_dial(struct shell *, size_t peer, const struct sockaddr_in *);
void shell_send(struct shell *, uint64_t conn, const void *bytes, size_t len);
void shell_drop(struct shell *, uint64_t conn);
#endif
