/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests one server, message by message: what the server promises and when, which peers may connect,
 * and what a restart leaves. Malformed messages must do no harm. The log becomes durable only when
 * a test calls force().
 */
#include "participant.h"
#include "support/fault_device.h"
#include "support/fixtures.h"
#include "support/test_world.h"

#include <check.h>
#include <errno.h>
#include <lladd/bytes.h>
#include <stdlib.h>

enum { HEARD_MAX = 64 };

struct heard {
    uint64_t conn;
    struct message m;
    unsigned char frame[2048];
};

static struct fixture {
    struct lladd_device *base;
    struct fault_device *fd;
    struct test_world chance;
    struct lladd_options options;
    struct lladd_db *db;
    struct participant *p;
    uint64_t now_ms;
    struct heard heard[HEARD_MAX];
    size_t n;
    uint64_t dropped[HEARD_MAX];
    size_t drops;
    struct lock_wait *wait; /* the newest wait for a lock */
} r;

/* A coordinator as the server sees it. */
struct peer {
    uint64_t conn;
    struct channel channel;
    unsigned char uuid[16];
    uint64_t incarnation, instance;
};

/* ---- fixture --------------------------------------------------------------------------------- */

static uint64_t now(void *ctx)
{
    (void)ctx;
    return r.now_ms;
}

static void hear(void *ctx, uint64_t conn, const void *bytes, size_t len)
{
    (void)ctx;
    ck_assert_uint_lt(r.n, HEARD_MAX);
    struct heard *h = &r.heard[r.n++];
    ck_assert_uint_le(len, sizeof h->frame);
    ck_assert_uint_eq(lladd_get32(bytes), len - WIRE_LENGTH);
    memcpy(h->frame, bytes, len);
    h->conn = conn;
    ck_assert_int_eq(message_decode(h->frame + WIRE_LENGTH, len - WIRE_LENGTH, &h->m), 0);
    ck_assert(!message_is_for_server(h->m.type));
}

static void drop(void *ctx, uint64_t conn)
{
    (void)ctx;
    ck_assert_uint_lt(r.drops, HEARD_MAX);
    r.dropped[r.drops++] = conn;
}

static void wait_for_lock(void *ctx, struct lock_wait *wait)
{
    (void)ctx;
    r.wait = wait;
}

static struct participant_options limits;

static void start(void)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct participant_io io = {NULL, now, hear, drop, wait_for_lock};
    int rc = lladd_open(NULL, &r.options, &r.db, &err);
    rc = rc ? rc : participant_open(r.db, &limits, &io, &r.p, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
}

static void begin_case(void)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    memset(&r, 0, sizeof r);
    limits = (struct participant_options){.lock_ms = 300, .lazy_ms = 20};
    r.now_ms = 5000;
    ck_assert_int_eq(lladd_device_memory(&r.base), 0);
    r.fd = fault_device_new(r.base);
    test_world_init(&r.chance, 3);
    r.options = (struct lladd_options)LLADD_OPTIONS_INIT;
    r.options.device = fault_device_dev(r.fd);
    r.options.world = &r.chance.world;
    r.options.flags = LLADD_OPT_NO_THREADS;
    r.options.frames = LLADD_FRAMES_HEAP;
    r.options.cache_bytes = 1u << 20;
    r.options.log_ring_bytes = 64u << 10;
    r.options.log_segment_min = 16u << 10;
    r.options.log_segment_max = 64u << 10;
    ck_assert_int_eq(participant_register(&r.options, &err), 0);
    start();
}

static void end_case(void)
{
    participant_close(r.p);
    ck_assert_int_eq(lladd_close(r.db), 0);
    lladd_options_release(&r.options);
    ck_assert_uint_eq(fault_device_open_files(r.fd), 0);
    fault_device_free(r.fd);
    lladd_device_close(r.base);
    test_world_free(&r.chance);
}

/* Simulates a power failure, which loses changes that were not forced. Restarts the server. */
static void crash(void)
{
    static const struct fault_crash power = {FAULT_POWER, 0, false};
    participant_kill(r.p);
    lladd_db_kill(r.db);
    fault_device_power_cycle(r.fd, &power);
    r.n = r.drops = 0;
    r.wait = NULL;
    start();
}

static void force(void)
{
    lladd_lsn lsn = participant_wants(r.p, false);
    ck_assert_uint_ne(lsn.v, 0);
    ck_assert_int_eq(lladd_wait_durable(r.db, lsn, NULL), 0);
    participant_durable(r.p, lsn);
    ck_assert_uint_eq(participant_wants(r.p, false).v, 0);
}

static void say(struct peer *c, struct message m)
{
    unsigned char frame[4096];
    channel_stamp(&c->channel, &m);
    ck_assert_uint_le(message_size(&m), sizeof frame);
    message_encode(&m, frame);
    participant_receive(r.p, c->conn, frame + WIRE_LENGTH, message_size(&m) - WIRE_LENGTH);
}

/* Returns the next message that the server has sent. Asserts that it has this type. */
static struct message heard(const struct peer *c, enum message_type type)
{
    ck_assert_msg(r.n > 0, "nothing was heard, not even %s", message_name(type));
    struct message m = r.heard[0].m;
    ck_assert_uint_eq(r.heard[0].conn, c->conn);
    ck_assert_msg(m.type == type, "%s instead of %s", message_name(m.type), message_name(type));
    static unsigned char value[2048]; /* a copy, because memmove overwrites the frame */
    if (m.value.len)
        memcpy(value, m.value.data, m.value.len);
    m.value.data = value;
    memmove(r.heard, r.heard + 1, --r.n * sizeof r.heard[0]);
    for (size_t i = 0; i < r.n; i++)
        ck_assert_int_eq(message_decode(r.heard[i].frame + WIRE_LENGTH,
                                        lladd_get32(r.heard[i].frame), &r.heard[i].m),
                         0);
    return m;
}

static void silence(void)
{
    ck_assert_msg(r.n == 0, "%s was heard", message_name(r.heard[0].m.type));
}

static uint64_t conns;

/* Connects a coordinator and sends HELLO. */
static struct peer call(const char *name, uint64_t incarnation, uint64_t instance)
{
    struct peer c = {.conn = ++conns, .incarnation = incarnation, .instance = instance};
    memset(c.uuid, name[0], sizeof c.uuid);
    participant_connected(r.p, c.conn);
    struct message m = {.type = MESSAGE_HELLO,
                        .version = WIRE_VERSION,
                        .incarnation = incarnation,
                        .instance = instance,
                        .attempt = c.conn};
    memcpy(m.uuid, c.uuid, 16);
    say(&c, m);
    return c;
}

/* Like call; then receives WELCOME. */
static struct peer greet(const char *name, uint64_t incarnation, uint64_t instance)
{
    struct peer c = call(name, incarnation, instance);
    if (r.n == 0)
        force();
    struct message m = heard(&c, MESSAGE_WELCOME);
    ck_assert_uint_eq(m.attempt, c.conn);
    ck_assert_uint_ne(m.session, 0);
    c.channel.session = m.session;
    return c;
}

static struct txn_id txn(const struct peer *c, uint64_t sequence)
{
    return (struct txn_id){c->incarnation, sequence};
}

static void put(struct peer *c, uint64_t sequence, const char *key, const char *value)
{
    say(c, (struct message){.type = MESSAGE_PUT,
                            .txn = txn(c, sequence),
                            .key = lladd_span_of(key, strlen(key)),
                            .value = lladd_span_of(value, strlen(value))});
}

static void get(struct peer *c, uint64_t sequence, const char *key, bool update)
{
    say(c, (struct message){.type = MESSAGE_GET,
                            .txn = txn(c, sequence),
                            .request = 7,
                            .update = update,
                            .key = lladd_span_of(key, strlen(key))});
}

static void tell(struct peer *c, enum message_type type, uint64_t sequence, uint32_t ops)
{
    say(c, (struct message){.type = type, .txn = txn(c, sequence), .ops = ops});
}

static void expect_value(struct peer *c, uint64_t sequence, const char *key, const char *value)
{
    get(c, sequence, key, false);
    struct message m = heard(c, MESSAGE_RESULT);
    ck_assert_int_eq(m.code, value ? 0 : LLADD_NOT_FOUND);
    ck_assert_uint_eq(m.value.len, value ? strlen(value) : 0);
    if (value)
        ck_assert_int_eq(memcmp(m.value.data, value, m.value.len), 0);
    tell(c, MESSAGE_ABORT, sequence, 0);
}

static void expect_vote(struct peer *c, enum verdict verdict, int code)
{
    struct message m = heard(c, MESSAGE_VOTE);
    ck_assert_int_eq(m.verdict, verdict);
    ck_assert_int_eq(m.code, code);
}

static void commit_one(struct peer *c, uint64_t sequence, const char *key, const char *value)
{
    put(c, sequence, key, value);
    tell(c, MESSAGE_COMMIT_ONE, sequence, 1);
    force();
    expect_vote(c, VERDICT_COMMITTED, 0);
}

static struct participant_counts counts(void)
{
    struct participant_counts n;
    participant_count(r.p, &n);
    return n;
}

static bool was_dropped(const struct peer *c)
{
    for (size_t i = 0; i < r.drops; i++)
        if (r.dropped[i] == c->conn)
            return true;
    return false;
}

/* ---- what is promised, and when -------------------------------------------------------------- */

START_TEST(a_vote_leaves_when_the_log_is_durable)
{
    begin_case();
    struct peer a = greet("a", 1, 1);
    put(&a, 1, "k", "v");
    tell(&a, MESSAGE_PREPARE, 1, 1);
    silence();
    crash(); /* no vote was sent: the transaction is gone */
    ck_assert_uint_eq(counts().prepared, 0);
    a = greet("a", 1, 1);
    put(&a, 2, "k", "v");
    tell(&a, MESSAGE_PREPARE, 2, 1);
    ck_assert_uint_ne(participant_wants(r.p, true).v, 0);
    force();
    expect_vote(&a, VERDICT_YES, 0);
    crash();
    ck_assert_uint_eq(counts().prepared, 1);
    end_case();
}
END_TEST

START_TEST(an_acknowledgement_leaves_when_the_log_is_durable)
{
    begin_case();
    struct peer a = greet("a", 1, 1);
    put(&a, 1, "k", "v");
    tell(&a, MESSAGE_PREPARE, 1, 1);
    force();
    expect_vote(&a, VERDICT_YES, 0);
    tell(&a, MESSAGE_COMMIT, 1, 0);
    silence();
    tell(&a, MESSAGE_COMMIT, 1, 0); /* the same message again: the server has forgotten the
                                     * transaction, but the transaction's commit is not durable
                                     * yet */
    silence();
    ck_assert_uint_eq(participant_wants(r.p, true).v, 0); /* the ACK can wait for a later force */
    r.now_ms += 30;
    participant_tick(r.p);
    ck_assert_uint_ne(participant_wants(r.p, true).v, 0); /* after lazy_ms it waits no longer */
    force();
    (void)heard(&a, MESSAGE_ACK);
    (void)heard(&a, MESSAGE_ACK);
    expect_value(&a, 2, "k", "v");
    end_case();
}
END_TEST

/* A transaction has read data that is committed but not yet durable. Its outcome waits, because a
 * crash could still undo what it has read. */
START_TEST(a_reader_waits_for_what_it_has_read)
{
    begin_case();
    struct peer a = greet("a", 1, 1), b = greet("b", 1, 1);
    put(&a, 1, "k", "v");
    tell(&a, MESSAGE_COMMIT_ONE, 1, 1);
    silence();
    get(&b, 1, "k", false);
    struct message m = heard(&b, MESSAGE_RESULT);
    ck_assert_int_eq(m.code, 0);
    tell(&b, MESSAGE_PREPARE, 1, 1);
    silence();
    force();
    expect_vote(&a, VERDICT_COMMITTED, 0);
    expect_vote(&b, VERDICT_READ_ONLY, 0);
    ck_assert_uint_eq(counts().read_only, 1);
    end_case();
}
END_TEST

/* After the server's device has failed, the server sends nothing any more, and reports the reason
 * to its operator. */
START_TEST(a_server_with_a_failed_log_falls_silent)
{
    begin_case();
    struct peer a = greet("a", 1, 1);
    struct lladd_error err = LLADD_ERROR_INIT;
    commit_one(&a, 1, "k", "v");
    put(&a, 2, "k", "w");
    tell(&a, MESSAGE_PREPARE, 2, 1);
    put(&a, 3, "other", "w");
    fault_device_fail(r.fd, 1, FAULT_SYNC, EIO, true);
    ck_assert_int_ne(lladd_wait_durable(r.db, participant_wants(r.p, true), NULL), 0);
    tell(&a, MESSAGE_PREPARE, 3, 1);
    ck_assert_int_eq(lladd_code_root(participant_error(r.p, &err)), LLADD_ROOT_POISONED);
    put(&a, 4, "k", "x");
    say(&a, (struct message){.type = MESSAGE_PING});
    silence();
    fault_device_fail(r.fd, 0, 0, 0, false);
    crash();
    a = greet("a", 2, 2);
    participant_tick(r.p);
    if (counts().prepared) {
        struct message m = heard(&a, MESSAGE_INQUIRE);
        say(&a, (struct message){.type = MESSAGE_ABORT, .txn = m.txn});
    }
    expect_value(&a, 1, "k", "v");
    end_case();
}
END_TEST

START_TEST(half_a_transaction_is_not_prepared)
{
    begin_case();
    struct peer a = greet("a", 1, 1);
    put(&a, 1, "k", "v");
    tell(&a, MESSAGE_PREPARE, 1, 2); /* only one of two changes has arrived */
    expect_vote(&a, VERDICT_NO, LLADD_CONFLICT);
    tell(&a, MESSAGE_PREPARE, 2, 1); /* the only change has not arrived */
    expect_vote(&a, VERDICT_NO, LLADD_CONFLICT);
    put(&a, 3, "k", "v");
    tell(&a, MESSAGE_COMMIT_ONE, 3, 5);
    expect_vote(&a, VERDICT_NO, LLADD_CONFLICT);
    expect_value(&a, 4, "k", NULL);
    ck_assert_uint_eq(counts().active, 0);
    end_case();
}
END_TEST

START_TEST(a_read_only_transaction_ends_at_prepare)
{
    begin_case();
    struct peer a = greet("a", 1, 1);
    say(&a, (struct message){
                .type = MESSAGE_DELETE, .txn = txn(&a, 1), .key = lladd_span_of("none", 4)});
    tell(&a, MESSAGE_PREPARE, 1, 1);
    if (r.n == 0)
        force();
    expect_vote(&a, VERDICT_READ_ONLY, 0);
    ck_assert_uint_eq(counts().active + counts().prepared, 0);
    end_case();
}
END_TEST

START_TEST(add_changes_the_number_in_a_value)
{
    begin_case();
    struct peer a = greet("a", 1, 1);
    static const char *const keys[] = {"number", "number", "short", "none", "full"};
    static const int codes[] = {0, 0, LLADD_OUT_OF_RANGE, LLADD_NOT_FOUND, LLADD_OUT_OF_RANGE};
    commit_one(&a, 1, "number", "\x05\x01\x01\x01\x01\x01\x01\x01 and more");
    commit_one(&a, 2, "short", "1234567");
    commit_one(&a, 3, "full", "\xff\xff\xff\xff\xff\xff\xff\x7f");
    for (unsigned i = 0; i < 5; i++) {
        say(&a, (struct message){.type = MESSAGE_ADD,
                                 .txn = txn(&a, 4 + i),
                                 .key = lladd_span_of(keys[i], strlen(keys[i])),
                                 .delta = i ? 3 : -1});
        tell(&a, MESSAGE_COMMIT_ONE, 4 + i, 1);
        if (r.n == 0)
            force();
        expect_vote(&a, codes[i] ? VERDICT_NO : VERDICT_COMMITTED, codes[i]);
    }
    expect_value(&a, 20, "number", "\x07\x01\x01\x01\x01\x01\x01\x01 and more");
    expect_value(&a, 21, "none", NULL);
    end_case();
}
END_TEST

/* ---- locks ----------------------------------------------------------------------------------- */

START_TEST(what_is_in_doubt_stays_locked_until_it_is_resolved)
{
    begin_case();
    struct peer a = greet("a", 1, 1);
    commit_one(&a, 1, "k", "old");
    put(&a, 2, "k", "new");
    tell(&a, MESSAGE_PREPARE, 2, 1);
    force();
    expect_vote(&a, VERDICT_YES, 0);
    crash();
    struct peer b = greet("b", 1, 1);
    get(&b, 1, "k", false);
    silence();
    ck_assert_ptr_nonnull(r.wait);
    ck_assert_int_eq(lock_wait_take(r.wait, LLADD_LOCK_TRY), LLADD_BUSY);
    participant_locked(r.p, r.wait, LLADD_TIMEOUT);
    ck_assert_int_eq(heard(&b, MESSAGE_RESULT).code, LLADD_TIMEOUT);
    tell(&b, MESSAGE_ABORT, 1, 0);
    participant_tick(r.p);
    silence(); /* the branch's coordinator is not connected; the server asks no other */
    a = greet("a", 2, 9);
    participant_tick(r.p);
    struct message m = heard(&a, MESSAGE_INQUIRE);
    ck_assert_uint_eq(m.txn.incarnation, 1);
    ck_assert_uint_eq(m.txn.sequence, 2);
    participant_tick(r.p);
    silence(); /* so soon, the server does not ask again */
    say(&a, (struct message){.type = MESSAGE_COMMIT, .txn = m.txn});
    force();
    (void)heard(&a, MESSAGE_ACK);
    expect_value(&b, 2, "k", "new");
    end_case();
}
END_TEST

START_TEST(requests_after_a_lock_wait_go_on_in_order)
{
    begin_case();
    struct peer a = greet("a", 1, 1), b = greet("b", 1, 1);
    put(&a, 1, "k", "1");
    put(&b, 1, "k", "2");
    put(&b, 1, "other", "3");
    tell(&b, MESSAGE_PREPARE, 1, 2);
    silence();
    ck_assert_uint_eq(counts().waiting, 1);
    tell(&a, MESSAGE_ABORT, 1, 0);
    ck_assert_int_eq(lock_wait_take(r.wait, LLADD_LOCK_TRY), 0);
    participant_locked(r.p, r.wait, 0);
    force();
    expect_vote(&b, VERDICT_YES, 0);
    tell(&b, MESSAGE_ABORT, 1, 0);
    expect_value(&a, 2, "k", NULL);
    end_case();
}
END_TEST

START_TEST(a_lost_session_is_rolled_back_when_its_lock_wait_is_over)
{
    begin_case();
    struct peer a = greet("a", 1, 1), b = greet("b", 1, 1);
    put(&b, 1, "mine", "x");
    put(&a, 1, "k", "1");
    put(&b, 1, "k", "2");
    struct lock_wait *wait = r.wait;
    participant_disconnected(r.p, b.conn);
    ck_assert_uint_eq(counts().active, 2);
    participant_locked(r.p, wait, LLADD_TIMEOUT);
    ck_assert_uint_eq(counts().active, 1);
    expect_value(&a, 2, "mine", NULL);
    end_case();
}
END_TEST

START_TEST(the_end_of_a_session_rolls_back_what_is_not_prepared)
{
    begin_case();
    struct peer a = greet("a", 1, 1), b = greet("b", 1, 1);
    put(&a, 1, "lost", "x");
    put(&a, 2, "kept", "x");
    tell(&a, MESSAGE_PREPARE, 2, 1);
    force();
    expect_vote(&a, VERDICT_YES, 0);
    r.now_ms += 6000;
    say(&b, (struct message){.type = MESSAGE_PING});
    (void)heard(&b, MESSAGE_PONG);
    r.now_ms += 6000; /* meanwhile only b has sent a message */
    participant_tick(r.p);
    ck_assert(was_dropped(&a) && !was_dropped(&b));
    ck_assert_uint_eq(counts().active, 0);
    ck_assert_uint_eq(counts().prepared, 1);
    expect_value(&b, 1, "lost", NULL);
    a = greet("a", 1, 1);
    tell(&a, MESSAGE_ABORT, 2, 0);
    ck_assert_uint_eq(counts().prepared, 0);
    end_case();
}
END_TEST

/* ---- sessions -------------------------------------------------------------------------------- */

static void expect_refusal(struct peer *c, int code)
{
    ck_assert_int_eq(heard(c, MESSAGE_REFUSED).code, code);
    ck_assert(was_dropped(c));
}

START_TEST(one_of_two_coordinators_with_one_id_is_admitted)
{
    begin_case();
    struct peer first = greet("a", 5, 1);
    struct peer copy = call("a", 5, 2); /* another instance, with the same incarnation */
    expect_refusal(&copy, LLADD_LOCKED);
    copy = call("a", 6, 2); /* a later incarnation, while the first instance is connected */
    expect_refusal(&copy, LLADD_BUSY);
    copy = call("a", 4, 2);
    expect_refusal(&copy, LLADD_CONFLICT);
    copy = call("a", 0, 2);
    expect_refusal(&copy, LLADD_CONFLICT);
    put(&first, 1, "k", "v"); /* the first instance was not disturbed */
    ck_assert_uint_eq(counts().active, 1);
    participant_disconnected(r.p, first.conn);
    copy = greet("a", 6, 2);
    first = call("a", 5, 1); /* now the first instance has the older incarnation */
    expect_refusal(&first, LLADD_CONFLICT);
    crash(); /* the server remembers the newest incarnation */
    first = call("a", 5, 1);
    expect_refusal(&first, LLADD_CONFLICT);
    copy = call("a", 6, 3);
    expect_refusal(&copy, LLADD_LOCKED);
    copy = greet("a", 6, 2);
    end_case();
}
END_TEST

START_TEST(a_peer_that_lost_its_connection_is_admitted_again)
{
    begin_case();
    struct peer old = greet("a", 1, 1);
    put(&old, 1, "k", "v");
    struct peer again = greet("a", 1, 1);
    ck_assert(was_dropped(&old));
    ck_assert_uint_eq(counts().active, 0);
    ck_assert_uint_eq(counts().connections, 1);
    expect_value(&again, 2, "k", NULL);
    end_case();
}
END_TEST

START_TEST(another_version_is_refused)
{
    begin_case();
    struct peer c = {.conn = ++conns};
    participant_connected(r.p, c.conn);
    say(&c, (struct message){.type = MESSAGE_HELLO, .version = 99, .incarnation = 1});
    expect_refusal(&c, LLADD_NEWER_FORMAT);
    end_case();
}
END_TEST

START_TEST(repeated_frames_pass_and_missing_ones_end_the_session)
{
    begin_case();
    struct peer a = greet("a", 1, 1);
    struct channel before = a.channel;
    commit_one(&a, 1, "k", "1");
    a.channel = before;
    put(&a, 1, "k", "1"); /* a message with this number has come already */
    silence();
    ck_assert_uint_eq(counts().active, 0);
    a.channel.sent = before.sent + 5;
    put(&a, 2, "k", "2");
    ck_assert(was_dropped(&a));
    struct peer other = greet("a", 1, 1);
    other.channel.session ^= 1;
    put(&other, 3, "k", "3"); /* the server ignores a message of another session */
    ck_assert_uint_eq(counts().active, 0);
    ck_assert(!was_dropped(&other));
    end_case();
}
END_TEST

/* ---- limits, and malformed messages ---------------------------------------------------------- */

START_TEST(the_resources_of_one_coordinator_are_limited)
{
    begin_case();
    participant_close(r.p);
    ck_assert_int_eq(lladd_close(r.db), 0);
    limits.txns_max = 3;
    limits.waiting_max = 500;
    start();
    struct peer a = greet("a", 1, 1), b = greet("b", 1, 1);
    for (uint64_t i = 1; i <= 3; i++)
        put(&a, i, i == 1 ? "one" : i == 2 ? "two" : "three", "x");
    put(&a, 4, "four", "x");
    tell(&a, MESSAGE_PREPARE, 4, 1);
    expect_vote(&a, VERDICT_NO, LLADD_CONFLICT);
    get(&a, 5, "five", false);
    ck_assert_int_eq(heard(&a, MESSAGE_RESULT).code, LLADD_BUSY);
    for (uint64_t i = 0; i < 20 && !was_dropped(&b); i++)
        put(&b, 1, "one", "a value that takes room while it waits");
    ck_assert(was_dropped(&b));
    participant_locked(r.p, r.wait, LLADD_TIMEOUT);
    ck_assert_uint_eq(counts().active, 3);
    end_case();
}
END_TEST

START_TEST(messages_in_a_wrong_state_end_the_connection)
{
    begin_case();
    struct peer c = {.conn = ++conns};
    participant_connected(r.p, c.conn);
    put(&c, 1, "k", "v");
    ck_assert(was_dropped(&c));
    struct peer a = greet("a", 1, 1);
    put(&a, 1, "k", "v");
    tell(&a, MESSAGE_COMMIT, 1, 0); /* the transaction was never prepared */
    ck_assert(was_dropped(&a));
    a = greet("a", 1, 1);
    put(&a, 2, "k", "v");
    tell(&a, MESSAGE_PREPARE, 2, 1);
    force();
    expect_vote(&a, VERDICT_YES, 0);
    put(&a, 2, "k", "w"); /* the transaction is prepared already */
    ck_assert(was_dropped(&a));
    ck_assert_uint_eq(counts().prepared, 1);
    end_case();
}
END_TEST

/* Random bytes arrive instead of frames. The table does not change, and no transaction and no
 * further connection remains. */
START_TEST(nonsense_changes_nothing)
{
    uint64_t random = 17;
    begin_case();
    struct peer a = greet("a", 1, 1);
    commit_one(&a, 1, "k", "v");
    for (unsigned i = 0; i < 20000; i++) {
        unsigned char frame[80];
        struct peer c = {.conn = ++conns};
        bool greeted = i % 2;
        if (greeted)
            c = greet("b", 1, 1);
        else
            participant_connected(r.p, c.conn);
        seeded_fill(seeded_next(&random), frame, sizeof frame);
        size_t len = seeded_next(&random) % sizeof frame;
        if (i % 4) { /* a valid head, so that the fields are parsed */
            frame[0] = (unsigned char)(1 + seeded_next(&random) % 12);
            memset(frame + 1, 0, 3);
            lladd_put64(frame + 4, c.channel.sent + 1);
            lladd_put64(frame + 12, c.channel.session);
        }
        participant_receive(r.p, c.conn, frame, len);
        participant_disconnected(r.p, c.conn);
        r.n = r.drops = 0;
        ck_assert_uint_eq(counts().connections, 1);
        ck_assert_uint_eq(counts().active + counts().prepared + counts().waiting, 0);
    }
    expect_value(&a, 2, "k", "v");
    struct lladd_error err = LLADD_ERROR_INIT;
    ck_assert_int_eq(participant_error(r.p, &err), 0);
    end_case();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("server");
    TCase *tc = tcase_create("messages");
    tcase_add_test(tc, a_vote_leaves_when_the_log_is_durable);
    tcase_add_test(tc, an_acknowledgement_leaves_when_the_log_is_durable);
    tcase_add_test(tc, a_reader_waits_for_what_it_has_read);
    tcase_add_test(tc, a_server_with_a_failed_log_falls_silent);
    tcase_add_test(tc, half_a_transaction_is_not_prepared);
    tcase_add_test(tc, a_read_only_transaction_ends_at_prepare);
    tcase_add_test(tc, add_changes_the_number_in_a_value);
    tcase_add_test(tc, what_is_in_doubt_stays_locked_until_it_is_resolved);
    tcase_add_test(tc, requests_after_a_lock_wait_go_on_in_order);
    tcase_add_test(tc, a_lost_session_is_rolled_back_when_its_lock_wait_is_over);
    tcase_add_test(tc, the_end_of_a_session_rolls_back_what_is_not_prepared);
    tcase_add_test(tc, one_of_two_coordinators_with_one_id_is_admitted);
    tcase_add_test(tc, a_peer_that_lost_its_connection_is_admitted_again);
    tcase_add_test(tc, another_version_is_refused);
    tcase_add_test(tc, repeated_frames_pass_and_missing_ones_end_the_session);
    tcase_add_test(tc, the_resources_of_one_coordinator_are_limited);
    tcase_add_test(tc, messages_in_a_wrong_state_end_the_connection);
    tcase_add_test(tc, nonsense_changes_nothing);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
