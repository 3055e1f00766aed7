/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile messages for the cluster hash table (examples/cluster_hash). The input is a byte of
 * flags, then pieces. A piece is a byte n, then n bytes.
 *
 * First, the input after the flags is decoded as one message, and read in two halves as a stream of
 * frames. If a message is accepted, encoding it must give the same bytes.
 *
 * Then, as the flags say, a server and a coordinator with two open transactions receive the pieces
 * as messages; with DURABLE, the log is made durable after each piece. They must not crash or leak.
 * The coordinator must answer both of its calls. After the fuzzer has disconnected, the server must
 * have no active transaction, waiting request or connection.
 */
#include "fuzz.h"
#include "coordinator.h"
#include "participant.h"

#include <lladd/bytes.h>
#include <lladd/device.h>
#include <stdlib.h>

enum { TO_SERVER = 1, TO_COORDINATOR = 2, DURABLE = 4 };

/* ---- as bytes -------------------------------------------------------------------------------- */

static void check_bytes(const uint8_t *data, size_t size)
{
    struct message m;
    if (message_decode(data, size, &m))
        return;
    unsigned char *again = malloc(message_size(&m));
    MUST(again && message_size(&m) == size + WIRE_LENGTH);
    message_encode(&m, again);
    MUST(lladd_get32(again) == size && memcmp(again + WIRE_LENGTH, data, size) == 0);
    free(again);
}

static int frame(void *ctx, const unsigned char *bytes, size_t len)
{
    (void)ctx;
    MUST(len >= WIRE_HEAD && len <= WIRE_FRAME_MAX);
    check_bytes(bytes, len);
    return 0;
}

static void check_stream(const uint8_t *data, size_t size)
{
    struct frame_reader reader = {.bytes = NULL};
    size_t half = size / 2;
    int rc = frame_reader_feed(&reader, data, half, frame, NULL);
    rc = rc ? rc : frame_reader_feed(&reader, data + half, size - half, frame, NULL);
    MUST(rc == 0 || rc == LLADD_TOO_LARGE);
    MUST(reader.capacity <= 4 * size + 4096);
    frame_reader_free(&reader);
}

/* ---- as messages ----------------------------------------------------------------------------- */

struct side {
    struct lladd_device *dev;
    struct lladd_options options;
    struct lladd_db *db;
    struct participant *p;
    struct coordinator *c;
    struct channel channel; /* the fuzzer's end of the connection */
    struct lock_wait *wait;
    bool dropped;
    unsigned answers;
};

static uint64_t now(void *ctx)
{
    (void)ctx;
    return 1;
}

static void hear(void *ctx, uint64_t conn, const void *bytes, size_t len)
{
    struct side *s = ctx;
    struct message m;
    MUST(conn == 1 && !s->dropped);
    MUST(message_decode((const unsigned char *)bytes + WIRE_LENGTH, len - WIRE_LENGTH, &m) == 0);
    if (m.type == MESSAGE_WELCOME)
        s->channel.session = m.session;
}

static void drop(void *ctx, uint64_t conn)
{
    MUST(conn == 1);
    ((struct side *)ctx)->dropped = true;
}

static void wait_for_lock(void *ctx, struct lock_wait *wait)
{
    ((struct side *)ctx)->wait = wait;
}

static void dial(void *ctx, size_t server)
{
    (void)ctx, (void)server;
}

static void done(struct call *call)
{
    ((struct side *)call->ctx)->answers++;
}

static void open_side(struct side *s)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    memset(s, 0, sizeof *s);
    MUST(lladd_device_memory(&s->dev) == 0);
    s->options = (struct lladd_options)LLADD_OPTIONS_INIT;
    s->options.device = s->dev;
    s->options.flags = LLADD_OPT_NO_THREADS;
    s->options.frames = LLADD_FRAMES_HEAP;
    s->options.cache_bytes = 1u << 20;
    s->options.log_ring_bytes = 64u << 10;
    s->options.log_segment_min = 16u << 10;
    s->options.log_segment_max = 64u << 10;
    MUST(participant_register(&s->options, &err) == 0);
    MUST(lladd_open(NULL, &s->options, &s->db, &err) == 0);
}

static void close_side(struct side *s)
{
    MUST(lladd_close(s->db) == 0);
    lladd_options_release(&s->options);
    lladd_device_close(s->dev);
}

static void force(struct side *s)
{
    lladd_lsn lsn = s->p ? participant_wants(s->p, false) : coordinator_wants(s->c);
    MUST(lladd_wait_durable(s->db, lsn, NULL) == 0);
    if (s->p)
        participant_durable(s->p, lsn);
    else
        coordinator_durable(s->c, lsn);
}

static void deliver(struct side *s, unsigned char *bytes, size_t len)
{
    if (s->p)
        participant_receive(s->p, 1, bytes, len);
    else
        coordinator_receive(s->c, 1, bytes, len);
}

/* Delivers the pieces as frames, with valid heads. */
static void deliver_all(struct side *s, const uint8_t *data, size_t size, unsigned flags)
{
    unsigned char bytes[WIRE_HEAD + 256];
    for (size_t at = 0; at + 1 < size && !s->dropped;) {
        size_t len = data[at] < size - at - 1 ? data[at] : size - at - 1;
        memset(bytes, 0, WIRE_HEAD);
        if (len) {
            bytes[0] = data[at + 1];
            memcpy(bytes + WIRE_HEAD, data + at + 2, len - 1);
        }
        lladd_put64(bytes + 4, ++s->channel.sent);
        lladd_put64(bytes + 12, s->channel.session);
        deliver(s, bytes, WIRE_HEAD + (len ? len - 1 : 0));
        at += 1 + len;
        if (s->wait) {
            struct lock_wait *wait = s->wait;
            s->wait = NULL;
            participant_locked(s->p, wait, LLADD_TIMEOUT);
        }
        if (flags & DURABLE)
            force(s);
    }
}

static void say(struct side *s, struct message m)
{
    unsigned char bytes[256];
    channel_stamp(&s->channel, &m);
    MUST(message_size(&m) <= sizeof bytes);
    message_encode(&m, bytes);
    deliver(s, bytes + WIRE_LENGTH, message_size(&m) - WIRE_LENGTH);
}

static void check_server(const uint8_t *data, size_t size, unsigned flags)
{
    struct side s;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct participant_options options = {.txns_max = 50, .waiting_max = 4096};
    struct participant_io io = {&s, now, hear, drop, wait_for_lock};
    struct participant_counts counts;
    open_side(&s);
    MUST(participant_open(s.db, &options, &io, &s.p, &err) == 0);
    participant_connected(s.p, 1);
    say(&s, (struct message){.type = MESSAGE_HELLO, .version = WIRE_VERSION, .incarnation = 1});
    force(&s);
    MUST(s.channel.session != 0);
    deliver_all(&s, data, size, flags);
    participant_disconnected(s.p, 1);
    participant_count(s.p, &counts);
    MUST(counts.active + counts.waiting + counts.connections == 0);
    MUST(participant_error(s.p, &err) == 0);
    participant_close(s.p);
    close_side(&s);
}

static void check_coordinator(const uint8_t *data, size_t size, unsigned flags)
{
    struct side s;
    unsigned char value[8];
    struct lladd_error err = LLADD_ERROR_INIT;
    struct coordinator_options options = {.servers = 1};
    struct coordinator_io io = {&s, now, dial, hear, drop};
    open_side(&s);
    struct call get = {.buf = value, .size = sizeof value, .done = done, .ctx = &s}, end = get;
    MUST(coordinator_open(s.db, &options, &io, &s.c, &err) == 0);
    coordinator_tick(s.c);
    coordinator_connected(s.c, 0, 1);
    s.channel.session = 77;
    say(&s, (struct message){.type = MESSAGE_WELCOME, .attempt = 1});
    struct global *reads = coordinator_begin(s.c), *ends = coordinator_begin(s.c);
    MUST(reads && ends);
    coordinator_get(s.c, reads, &get, "k", 1, false);
    MUST(coordinator_put(s.c, ends, "k", 1, "v", 1) == 0);
    coordinator_commit(s.c, ends, &end);
    deliver_all(&s, data, size, flags);
    coordinator_abort(s.c, reads);
    coordinator_close(s.c);
    MUST(s.answers == 2);
    close_side(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    check_bytes(data + 1, size - 1);
    check_stream(data + 1, size - 1);
    if (data[0] & TO_SERVER)
        check_server(data + 1, size - 1, data[0]);
    if (data[0] & TO_COORDINATOR)
        check_coordinator(data + 1, size - 1, data[0]);
    return 0;
}
