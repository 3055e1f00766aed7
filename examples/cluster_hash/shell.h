/* SPDX-License-Identifier: BSD-2-Clause */
/* The shell of a machine (participant.h, coordinator.h): sockets, a clock, and a thread that waits
 * for the log. One libuv loop, run by one thread at a time; only shell_wake may be called from
 * other threads meanwhile. */
#ifndef CLUSTER_HASH_SHELL_H
#define CLUSTER_HASH_SHELL_H
#include "wire.h"

#include <lladd/lladd.h>
#include <lladd/sync.h>
#include <sys/queue.h>
#include <uv.h>

/** The machine's events. Those that cannot happen may be NULL, except `wants`. */
struct shell_events {
    void (*accepted)(void *ctx, uint64_t conn);
    void (*connected)(void *ctx, size_t peer, uint64_t conn);
    void (*unreachable)(void *ctx, size_t peer);
    void (*received)(void *ctx, uint64_t conn, const unsigned char *frame, size_t len);
    void (*closed)(void *ctx, uint64_t conn); /**< by the peer */
    void (*durable)(void *ctx, int rc, lladd_lsn lsn); /**< what lladd_wait_durable(lsn) returned */
    lladd_lsn (*wants)(void *ctx); /**< what should become durable; 0: nothing */
    bool (*alone)(void *ctx);      /**< true: nothing else needs the loop during that wait */
    void (*tick)(void *ctx);
    void (*woken)(void *ctx); /**< a thread has called shell_wake */
};

/** Waits for the log, so that the loop does not. (If nothing else needs the loop, it waits itself,
 *  which saves two hand-overs between threads.) While the thread waits, the loop goes on; what is
 *  logged meanwhile becomes durable with the next wait, all at once (group commit). */
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
/** Listens on 127.0.0.1 only; port 0: the kernel chooses. *out is the port. */
int shell_listen(struct shell *, unsigned port, unsigned *out, struct lladd_error *);
/** True if the run may end. Asked when nothing is left to be sent. */
typedef bool shell_done(void *ctx);
/** Runs the loop until shell_stop, or until `done` (nullable) says so. Then another thread may run
 * it. */
void shell_run(struct shell *, shell_done *done, void *ctx);
void shell_stop(struct shell *);
/** Closes every connection and frees everything. */
void shell_free(struct shell *);
void shell_wake(struct shell *);

uint64_t shell_now_ms(struct shell *);
void shell_dial(struct shell *, size_t peer, const struct sockaddr_in *);
void shell_send(struct shell *, uint64_t conn, const void *bytes, size_t len);
void shell_drop(struct shell *, uint64_t conn);
#endif
