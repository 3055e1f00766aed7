/* SPDX-License-Identifier: BSD-2-Clause */
/* The shell of a state machine (participant.h, coordinator.h): sockets, a clock, and a thread that
 * waits for the log. It has one libuv loop, which one thread at a time runs; meanwhile other
 * threads may only call shell_wake. */
#ifndef CLUSTER_HASH_SHELL_H
#define CLUSTER_HASH_SHELL_H
#include "wire.h"

#include <lladd/lladd.h>
#include <lladd/sync.h>
#include <sys/queue.h>
#include <uv.h>

/** The machine's functions for events. `accepted`, `connected` and `unreachable` may be NULL if
 *  their event cannot happen; `woken` may be NULL. */
struct shell_events {
    void (*accepted)(void *ctx, uint64_t conn);
    void (*connected)(void *ctx, size_t peer, uint64_t conn);
    void (*unreachable)(void *ctx, size_t peer);
    void (*received)(void *ctx, uint64_t conn, const unsigned char *frame, size_t len);
    void (*closed)(void *ctx, uint64_t conn); /**< the peer or the network has closed the
                                                   connection */
    void (*durable)(void *ctx, int rc, lladd_lsn lsn); /**< the result of lladd_wait_durable(lsn) */
    lladd_lsn (*wants)(void *ctx); /**< returns the LSN that should become durable; 0: none */
    bool (*alone)(void *ctx);      /**< returns true if nothing else needs the loop while it waits
                                        for the log */
    void (*tick)(void *ctx);
    void (*woken)(void *ctx); /**< a thread has called shell_wake */
};

/** A thread that waits for the log, so that the loop need not wait. (If nothing else needs the
 *  loop, the loop itself waits for the log, which saves two hand-overs between threads.) While the
 *  thread waits, the loop goes on; all records that are logged meanwhile become durable in the next
 *  wait (group commit). */
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
/** Returns true if the run may end. Called when nothing is left to be sent. */
typedef bool shell_done(void *ctx);
/** Runs the loop until shell_stop, or until `done` (nullable) returns true. Afterwards another
 * thread may run it. */
void shell_run(struct shell *, shell_done *done, void *ctx);
void shell_stop(struct shell *);
/** Closes every connection and frees the shell. */
void shell_free(struct shell *);
void shell_wake(struct shell *);

uint64_t shell_now_ms(struct shell *);
void shell_dial(struct shell *, size_t peer, const struct sockaddr_in *);
void shell_send(struct shell *, uint64_t conn, const void *bytes, size_t len);
void shell_drop(struct shell *, uint64_t conn);
#endif
