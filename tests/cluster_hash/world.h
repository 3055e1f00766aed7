/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A cluster in one process: servers and coordinators over databases in memory, a network that
 * loses, repeats, reorders and delays messages, a clock that advances only between other events,
 * and crashes that keep what a power failure keeps. One seed determines everything.
 *
 *     struct world w;
 *     world_init(&w, &(struct world_options){.seed = 7, .servers = 3, .coordinators = 1});
 *     w.lose = 20;                              from now on about one message in 20 is lost
 *     world_run(&w, 500);                       500 events happen
 *     world_crash(&w, &w.servers[1]);
 *     world_restart(&w, &w.servers[1]);
 *     world_settle(&w);                         ends all faults, runs until nothing is left to do
 *     world_free(&w);
 */
#ifndef CLUSTER_HASH_WORLD_H
#define CLUSTER_HASH_WORLD_H
#include "coordinator.h"
#include "participant.h"
#include "support/fault_device.h"
#include "support/test_world.h"

#include <check.h>

enum { WORLD_SERVERS_MAX = 5, WORLD_COORDINATORS_MAX = 2 };

struct world;

struct node {
    struct world *world;
    bool is_server;
    size_t index;
    struct lladd_device *base;
    struct fault_device *fd;
    struct lladd_options options;
    struct test_world chance;
    struct lladd_db *db; /* NULL: the node is down */
    struct participant *participant;
    struct coordinator *coordinator;
    unsigned crashes;
};

struct connection {
    TAILQ_ENTRY(connection) link;
    uint64_t id;
    struct node *coordinator, *server;
    bool dialling;
    bool open_there, open_here; /* the server's end is open; the coordinator's end is open */
};

/* A frame in transit. With len 0 it is no frame, but the notice that the sender has closed its
 * end. */
struct packet {
    TAILQ_ENTRY(packet) link;
    uint64_t conn;
    bool to_server;
    uint64_t due_ms;
    size_t len;
    unsigned char bytes[];
};

/* A transaction that waits for a lock. */
struct sleeper {
    TAILQ_ENTRY(sleeper) link;
    struct node *node;
    struct lock_wait *wait;
    uint64_t until_ms;
};

struct world_options {
    uint64_t seed;
    size_t servers, coordinators, replicas;
};

struct world {
    struct world_options options;
    struct node servers[WORLD_SERVERS_MAX], coordinators[WORLD_COORDINATORS_MAX];
    TAILQ_HEAD(, connection) connections;
    TAILQ_HEAD(, packet) packets;
    TAILQ_HEAD(, sleeper) sleepers;
    uint64_t random, now_ms, conns, events;
    /* How often each fault happens: with n > 0 about one message in n has the fault, with 0 no
     * message. The message is lost, is repeated, may overtake other messages, is delayed, or goes
     * astray. A message that goes astray arrives on a later connection of the same two nodes. */
    unsigned lose, repeat, overtake, delay, astray;
    struct {
        uint64_t lost, repeated, overtook, delayed, astray, crashes;
    } happened;
};

void world_init(struct world *, const struct world_options *);
void world_free(struct world *);
uint64_t world_below(struct world *, uint64_t n); /* a random number below n */

/* The power of the node fails. A random part of the unsynced writes is kept. */
void world_crash(struct world *, struct node *);
void world_restart(struct world *, struct node *);
/* Makes one event happen: a message arrives, a log is forced, a wait for a lock or for a connection
 * ends, or the clock advances. */
void world_step(struct world *);
void world_run(struct world *, unsigned events);
/* Ends all faults, restarts the nodes that are down, and runs the world. Returns when no
 * transaction is open or in doubt, every decision is delivered, and each coordinator is connected
 * to all servers or has failed. Fails the test if that takes more than a minute of the world's
 * time. */
void world_settle(struct world *);
/* Returns true if the world has reached the state for which world_settle waits. */
bool world_quiet(struct world *);

struct coordinator *world_coordinator(struct world *, size_t);
struct participant_counts world_counts(struct world *, size_t server);
#endif
