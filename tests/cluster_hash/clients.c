/* SPDX-License-Identifier: BSD-2-Clause */
/* See clients.h. */
#include "clients.h"

#include <lladd/bytes.h>
#include <stdio.h>

size_t clients_key(unsigned account, unsigned char key[8])
{
    return (size_t)snprintf((char *)key, 8, "acc%u", account);
}

static struct coordinator *coordinator_of(struct client *c)
{
    return world_coordinator(c->all->world, c->coordinator);
}

static void got(struct call *call)
{
    struct client *c = call->ctx;
    ck_assert_uint_gt(c->waiting, 0);
    c->waiting--;
}

static void ended(struct call *call)
{
    struct client *c = call->ctx;
    ck_assert(!c->ended);
    c->ended = true;
}

/* ---- a task ------------------------------------------------------------------------------- */

static void choose(struct client *c)
{
    struct world *w = c->all->world;
    static const unsigned likely[] = {ERRAND_TRANSFER, ERRAND_TRANSFER, ERRAND_TRANSFER,
                                      ERRAND_TRANSFER, ERRAND_AUDIT,    ERRAND_ONE,
                                      ERRAND_BLIND,    ERRAND_GIVE_UP};
    c->errand = likely[world_below(w, sizeof likely / sizeof *likely)];
    c->n = c->errand == ERRAND_AUDIT   ? CLIENTS_ACCOUNTS
           : c->errand == ERRAND_ONE   ? 1
           : c->errand == ERRAND_BLIND ? 2
                                       : 2 + (unsigned)world_below(w, 2);
    for (unsigned i = 0; i < CLIENTS_ACCOUNTS; i++)
        c->account[i] = i;
    for (unsigned i = 0; i < c->n && c->errand != ERRAND_AUDIT; i++) {
        unsigned k = i + (unsigned)world_below(w, CLIENTS_ACCOUNTS - i), other = c->account[k];
        c->account[k] = c->account[i];
        c->account[i] = other;
    }
}

/* Sorts the accounts, as a client that avoids deadlocks does. */
static void sort(struct client *c)
{
    for (unsigned i = 1; i < c->n; i++)
        for (unsigned k = i; k > 0 && c->account[k] < c->account[k - 1]; k--) {
            unsigned other = c->account[k];
            c->account[k] = c->account[k - 1];
            c->account[k - 1] = other;
        }
}

static void begin(struct client *c)
{
    struct coordinator *coordinator = coordinator_of(c);
    c->txn = coordinator ? coordinator_begin(coordinator) : NULL;
    if (!c->txn)
        return;
    choose(c);
    if (world_below(c->all->world, 4))
        sort(c);
    c->state = CLIENT_READING;
    c->waiting = c->errand == ERRAND_BLIND ? 0 : c->n;
    if (c->errand == ERRAND_BLIND)
        return;
    for (unsigned i = 0; i < c->n; i++) {
        unsigned char key[8];
        size_t len = clients_key(c->account[i], key);
        c->call[i] = (struct call){.buf = c->value[i], .size = 16, .done = got, .ctx = c};
        coordinator_get(coordinator, c->txn, &c->call[i], key, len, c->errand != ERRAND_AUDIT);
    }
}

/* Returns 0 or the first failure. */
static int readings(const struct client *c)
{
    for (unsigned i = 0; i < c->n; i++)
        if (c->call[i].code)
            return c->call[i].code;
    return 0;
}

static void write_back(struct client *c)
{
    int64_t moved = 1 + (int64_t)world_below(c->all->world, 50);
    for (unsigned i = 0; i < c->n; i++) {
        unsigned char key[8], *value = c->value[i];
        int64_t share = i + 1 < c->n ? moved : -moved * (int64_t)(c->n - 1);
        if (c->errand == ERRAND_ONE)
            share = 0;
        ck_assert_uint_eq(c->call[i].len, 16);
        lladd_put64(value, (uint64_t)((int64_t)lladd_get64(value) + share));
        lladd_put64(value + 8, lladd_get64(value + 8) + 1);
        size_t len = clients_key(c->account[i], key);
        (void)coordinator_put(coordinator_of(c), c->txn, key, len, value, 16);
    }
}

static void add(struct client *c)
{
    for (unsigned i = 0; i < 2; i++) {
        unsigned char key[8];
        size_t len = clients_key(c->account[i], key);
        (void)coordinator_add(coordinator_of(c), c->txn, key, len, i ? 5 : -5);
        c->call[i].code = 0;
    }
}

static void end(struct client *c)
{
    if (c->errand == ERRAND_BLIND)
        add(c);
    if (readings(c) || c->errand == ERRAND_GIVE_UP) {
        if (!readings(c))
            write_back(c);
        coordinator_abort(coordinator_of(c), c->txn);
        c->state = CLIENT_IDLE;
        return;
    }
    if (c->errand != ERRAND_AUDIT && c->errand != ERRAND_BLIND)
        write_back(c);
    c->state = CLIENT_ENDING;
    c->ended = false;
    c->end = (struct call){.done = ended, .ctx = c};
    coordinator_commit(coordinator_of(c), c->txn, &c->end);
}

/* An audit that was acknowledged as committed must have seen all accounts as of one moment. */
static void check_audit(const struct client *c)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < CLIENTS_ACCOUNTS; i++) {
        uint64_t changes = lladd_get64(c->value[i] + 8), *seen = &c->all->seen[i];
        sum += (int64_t)lladd_get64(c->value[i]);
        *seen = changes > *seen ? changes : *seen;
    }
    ck_assert_msg(sum == CLIENTS_ACCOUNTS * CLIENTS_EACH, "seed %llu: an audit has seen %lld",
                  (unsigned long long)c->all->world->options.seed, (long long)sum);
}

static void note(struct client *c, int code)
{
    struct clients *b = c->all;
    bool writes = c->errand == ERRAND_TRANSFER || c->errand == ERRAND_ONE;
    for (unsigned i = 0; i < c->n && writes; i++) {
        b->least[c->account[i]] += code == 0;
        b->perhaps[c->account[i]] += code == CLUSTER_UNKNOWN;
    }
    b->transfers += code == 0 && c->errand == ERRAND_TRANSFER;
    b->audits += code == 0 && c->errand == ERRAND_AUDIT;
    b->ones += code == 0 && c->errand == ERRAND_ONE;
    b->unknown += code == CLUSTER_UNKNOWN;
    b->failures += code < 0;
    if (code == 0 && c->errand == ERRAND_AUDIT)
        check_audit(c);
    c->state = CLIENT_IDLE;
}

static void step(struct client *c)
{
    if (c->state == CLIENT_IDLE)
        begin(c);
    else if (c->state == CLIENT_READING && c->waiting == 0)
        end(c);
    else if (c->state == CLIENT_ENDING && c->ended)
        note(c, c->end.code);
}

void clients_step(struct clients *b)
{
    step(&b->clients[world_below(b->world, CLIENTS_COUNT)]);
}

void clients_lose(struct clients *b, size_t coordinator)
{
    for (unsigned i = 0; i < CLIENTS_COUNT; i++) {
        struct client *c = &b->clients[i];
        if (c->coordinator != coordinator)
            continue;
        if (c->state == CLIENT_ENDING)
            note(c, c->ended ? c->end.code : CLUSTER_UNKNOWN);
        c->state = CLIENT_IDLE;
    }
}

/* ---- the beginning and the end ------------------------------------------------------------ */

void clients_init(struct clients *b, struct world *w)
{
    memset(b, 0, sizeof *b);
    b->world = w;
    for (unsigned i = 0; i < CLIENTS_COUNT; i++) {
        b->clients[i].all = b;
        b->clients[i].coordinator = i % w->options.coordinators;
    }
    world_settle(w);
    struct client *c = &b->clients[0];
    c->txn = coordinator_begin(coordinator_of(c));
    ck_assert_ptr_nonnull(c->txn);
    for (unsigned i = 0; i < CLIENTS_ACCOUNTS; i++) {
        unsigned char key[8], value[16] = {0};
        size_t len = clients_key(i, key);
        lladd_put64(value, CLIENTS_EACH);
        ck_assert_int_eq(coordinator_put(coordinator_of(c), c->txn, key, len, value, 16), 0);
    }
    c->end = (struct call){.done = ended, .ctx = c};
    coordinator_commit(coordinator_of(c), c->txn, &c->end);
    while (!c->ended)
        world_step(w);
    ck_assert_int_eq(c->end.code, 0);
    world_settle(w);
}

void clients_finish(struct clients *b)
{
    uint64_t limit = b->world->now_ms + 60000;
    for (unsigned i = 0; i < CLIENTS_COUNT; i++)
        while (b->clients[i].state != CLIENT_IDLE) {
            ck_assert_msg(b->world->now_ms < limit, "seed %llu: a client waits for ever",
                          (unsigned long long)b->world->options.seed);
            step(&b->clients[i]);
            world_step(b->world);
        }
}

struct found {
    int64_t amount[WORLD_SERVERS_MAX][CLIENTS_ACCOUNTS];
    uint64_t changes[WORLD_SERVERS_MAX][CLIENTS_ACCOUNTS];
    unsigned copies[CLIENTS_ACCOUNTS];
    size_t server;
};

static int look(void *ctx, struct lladd_span key, struct lladd_span value)
{
    struct found *f = ctx;
    char text[9] = {0};
    unsigned account;
    ck_assert_uint_le(key.len, 8);
    memcpy(text, key.data, key.len);
    ck_assert_int_eq(sscanf(text, "acc%u", &account), 1);
    ck_assert_uint_lt(account, CLIENTS_ACCOUNTS);
    ck_assert_uint_eq(value.len, 16);
    f->amount[f->server][account] = (int64_t)lladd_get64(value.data);
    f->changes[f->server][account] = lladd_get64((const unsigned char *)value.data + 8);
    f->copies[account]++;
    return 0;
}

void clients_check(struct clients *b)
{
    struct found f = {.server = 0};
    struct world *w = b->world;
    unsigned long long seed = w->options.seed;
    int64_t sum = 0;
    for (; f.server < w->options.servers; f.server++)
        ck_assert_int_eq(participant_table_each(w->servers[f.server].db, look, &f, NULL), 0);
    for (unsigned i = 0; i < CLIENTS_ACCOUNTS; i++) {
        unsigned char key[8];
        size_t len = clients_key(i, key);
        size_t first = coordinator_place(w->options.servers, key, len, 0);
        ck_assert_uint_eq(f.copies[i], w->options.replicas);
        for (size_t r = 1; r < w->options.replicas; r++) {
            size_t other = coordinator_place(w->options.servers, key, len, r);
            ck_assert_msg(f.amount[first][i] == f.amount[other][i] &&
                              f.changes[first][i] == f.changes[other][i],
                          "seed %llu: replicas of account %u differ", seed, i);
        }
        ck_assert_msg(f.changes[first][i] >= b->least[i] &&
                          f.changes[first][i] <= b->least[i] + b->perhaps[i],
                      "seed %llu: account %u was changed %llu times, not %llu (and perhaps %llu)",
                      seed, i, (unsigned long long)f.changes[first][i],
                      (unsigned long long)b->least[i], (unsigned long long)b->perhaps[i]);
        ck_assert_msg(f.changes[first][i] >= b->seen[i],
                      "seed %llu: what an audit has seen of account %u is gone", seed, i);
        sum += f.amount[first][i];
    }
    ck_assert_msg(sum == CLIENTS_ACCOUNTS * CLIENTS_EACH, "seed %llu: the sum is %lld", seed,
                  (long long)sum);
}
