/* SPDX-License-Identifier: BSD-2-Clause */
/* cluster-teller: a bank over the cluster hash table.
 *
 *   cluster-teller work    --dir DIR --server A:P... [--replicas N] [--accounts N] [--threads N]
 *                          [--seconds N] [--until-eof] [--across] [--blind]
 *   cluster-teller audit   --dir DIR --server A:P... [--replicas N] [--accounts N] [--exclusive]
 *   cluster-teller inspect [--replicas N] [--accounts N] DIR...
 *
 * `work` opens the accounts if there are none, and moves money between them. Each transaction
 * changes two accounts; with --across these are on two servers. With --blind all transactions add
 * to the amounts without reading them, otherwise one in eight does. `work` prints a line about ten
 * times a second. `audit` reads all accounts in one transaction. With --exclusive it also writes
 * them back unchanged, and so locks every copy of every account and waits for all transactions in
 * doubt. `inspect` opens the databases of servers that are not running and compares their contents.
 * The exit status is 0 if work had no error, audit finds the right sum, or inspect finds the right
 * sum, equal copies, no other rows, and no transaction in doubt. */
#include "cluster.h"
#include "teller.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <lladd/bytes.h>
#include <lladd/sync.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RETRY_MIN_MS 2u
#define RETRY_MAX_MS 200u

struct teller {
    struct bank *bank;
    struct lladd_thread thread;
    uint64_t random, done, failed, unknown;
};

struct bank {
    struct bank_options o;
    struct cluster *cluster;
    uint32_t stop;
};

static double seconds(void)
{
    struct timespec t;
    return clock_gettime(CLOCK_MONOTONIC, &t) ? 0 : (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool failed(const char *what, int rc, const struct lladd_error *err)
{
    const char *name = lladd_code_name(rc);
    fprintf(stderr, "cluster-teller: %s: %s: %s\n", what, name ? name : "unknown outcome",
            err && err->code ? err->message : name ? lladd_code_text(rc) : "");
    return false;
}

/* ---- one transfer ---------------------------------------------------------------------------- */

/* [transfer] Reads both accounts in parallel. Every thread requests the accounts in the same order,
 * so two transfers do not deadlock at one server. Transfers of two programs may still deadlock over
 * two servers; the time limit of lock requests ends this deadlock. */
static int transfer(struct bank *b, uint64_t from, uint64_t to, int64_t amount)
{
    uint64_t account[2] = {from < to ? from : to, from < to ? to : from};
    unsigned char key[2][ACCOUNT_KEY], value[2][ACCOUNT_VALUE];
    struct cluster_query q[2];
    struct cluster_txn *txn;
    int rc = cluster_begin(b->cluster, &txn);
    if (rc)
        return rc;
    for (unsigned i = 0; i < 2; i++) {
        account_key(account[i], key[i]);
        q[i] = (struct cluster_query){
            .key = key[i], .key_len = ACCOUNT_KEY, .buf = value[i], .size = ACCOUNT_VALUE};
    }
    rc = cluster_get_many(txn, q, 2, true);
    for (unsigned i = 0; i < 2 && !rc; i++) {
        rc = q[i].rc;
        int64_t change = account[i] == from ? -amount : amount;
        lladd_put64(value[i], (uint64_t)((int64_t)lladd_get64(value[i]) + change));
        rc = rc ? rc : cluster_put(txn, key[i], ACCOUNT_KEY, value[i], ACCOUNT_VALUE);
    }
    if (!rc)
        return cluster_commit(txn);
    cluster_abort(txn);
    return rc;
}
/* [/transfer] */

/* The same transfer, without reading the accounts. */
static int add(struct bank *b, uint64_t from, uint64_t to, int64_t amount)
{
    unsigned char key[2][ACCOUNT_KEY];
    struct cluster_txn *txn;
    int rc = cluster_begin(b->cluster, &txn);
    if (rc)
        return rc;
    account_key(from < to ? from : to, key[0]);
    account_key(from < to ? to : from, key[1]);
    rc = cluster_add(txn, key[0], ACCOUNT_KEY, from < to ? -amount : amount);
    rc = rc ? rc : cluster_add(txn, key[1], ACCOUNT_KEY, from < to ? amount : -amount);
    if (!rc)
        return cluster_commit(txn);
    cluster_abort(txn);
    return rc;
}

/* After an error a program decides whether it retries. This program pauses before it retries, for a
 * random time. The upper limit of this time doubles with each try, up to RETRY_MAX_MS. */
static void pause_before_retry(unsigned tries, uint64_t *random)
{
    uint64_t ms = RETRY_MIN_MS << (tries < 7 ? tries : 7);
    ms = ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
    ms = 1 + draw(random) % ms;
    struct timespec t = {0, (long)(ms * 1000000)};
    (void)nanosleep(&t, NULL);
}

static bool same_server(const struct bank *b, uint64_t one, uint64_t other)
{
    unsigned char key[2][ACCOUNT_KEY];
    account_key(one, key[0]);
    account_key(other, key[1]);
    return coordinator_place(b->o.n_servers, key[0], ACCOUNT_KEY, 0) ==
           coordinator_place(b->o.n_servers, key[1], ACCOUNT_KEY, 0);
}

static void *tell(void *arg)
{
    struct teller *t = arg;
    struct bank *b = t->bank;
    while (!lladd_atomic_load32(&b->stop)) {
        uint64_t from = draw(&t->random) % b->o.accounts;
        uint64_t to = (from + 1 + draw(&t->random) % (b->o.accounts - 1)) % b->o.accounts;
        int64_t amount = 1 + (int64_t)(draw(&t->random) % 100);
        if (b->o.across && same_server(b, from, to))
            continue;
        unsigned tries = 0;
        int rc;
        bool blind = b->o.blind || draw(&t->random) % 8 == 0;
        while ((rc = (blind ? add : transfer)(b, from, to, amount)) != 0 && rc != CLUSTER_UNKNOWN &&
               !lladd_atomic_load32(&b->stop)) {
            lladd_atomic_count64(&t->failed, 1);
            pause_before_retry(tries++, &t->random);
        }
        lladd_atomic_count64(rc == CLUSTER_UNKNOWN ? &t->unknown : &t->done, rc == 0 || rc > 0);
    }
    return NULL;
}

/* ---- opening and counting the accounts ------------------------------------------------------- */

/* Accounts per transaction, so that no transaction is too large. */
#define BATCH 500u

static int open_accounts(struct bank *b)
{
    unsigned char key[ACCOUNT_KEY], value[ACCOUNT_VALUE] = {0};
    size_t len;
    int rc = 0;
    lladd_put64(value, ACCOUNT_OPENING);
    for (uint64_t first = 0; !rc && first < b->o.accounts; first += BATCH) {
        struct cluster_txn *txn;
        rc = cluster_begin(b->cluster, &txn);
        if (rc)
            return rc;
        account_key(first, key);
        rc = cluster_get(txn, key, ACCOUNT_KEY, true, NULL, 0, &len);
        if (rc != LLADD_NOT_FOUND) { /* created before a restart or a failure; or an error */
            cluster_abort(txn);
            continue;
        }
        rc = 0;
        for (uint64_t i = first; !rc && i < first + BATCH && i < b->o.accounts; i++) {
            account_key(i, key);
            rc = cluster_put(txn, key, ACCOUNT_KEY, value, ACCOUNT_VALUE);
        }
        if (rc)
            cluster_abort(txn);
        else
            rc = cluster_commit(txn);
    }
    return rc;
}

static int sum_up(struct bank *b, int64_t *sum)
{
    struct cluster_query *q = calloc(b->o.accounts, sizeof *q);
    unsigned char(*key)[ACCOUNT_KEY] = calloc(b->o.accounts, sizeof *key);
    unsigned char(*value)[ACCOUNT_VALUE] = calloc(b->o.accounts, sizeof *value);
    struct cluster_txn *txn;
    int rc = q && key && value ? cluster_begin(b->cluster, &txn) : LLADD_NO_MEMORY;
    *sum = 0;
    if (!rc) {
        for (uint64_t i = 0; i < b->o.accounts; i++) {
            account_key(i, key[i]);
            q[i] = (struct cluster_query){
                .key = key[i], .key_len = ACCOUNT_KEY, .buf = value[i], .size = ACCOUNT_VALUE};
        }
        rc = cluster_get_many(txn, q, b->o.accounts, b->o.exclusive);
        for (uint64_t i = 0; !rc && i < b->o.accounts; i++) {
            rc = q[i].rc;
            *sum += (int64_t)lladd_get64(value[i]);
            if (!rc && b->o.exclusive)
                rc = cluster_put(txn, key[i], ACCOUNT_KEY, value[i], ACCOUNT_VALUE);
        }
        if (rc)
            cluster_abort(txn);
        else
            rc = cluster_commit(txn);
    }
    free(q);
    free(key);
    free(value);
    return rc;
}

/* ---- the commands ---------------------------------------------------------------------------- */

/* Waits for a tenth of a second at most; true if the standard input has ended. */
static bool left_alone(const struct bank *b)
{
    char nothing[64];
    struct pollfd p = {.fd = b->o.until_eof ? 0 : -1, .events = POLLIN};
    return poll(&p, 1, 100) > 0 && read(0, nothing, sizeof nothing) <= 0;
}

static void report(const struct teller *tellers, size_t n, double since, bool last)
{
    uint64_t done = 0, again = 0, unknown = 0;
    for (size_t i = 0; i < n; i++) {
        done += lladd_atomic_load64(&tellers[i].done);
        again += lladd_atomic_load64(&tellers[i].failed);
        unknown += lladd_atomic_load64(&tellers[i].unknown);
    }
    printf("%s %" PRIu64 " again %" PRIu64 " unknown %" PRIu64 " seconds %.3f\n",
           last ? "total" : "done", done, again, unknown, seconds() - since);
    (void)fflush(stdout);
}

static bool work(struct bank *b)
{
    struct teller *tellers = calloc(b->o.threads, sizeof *tellers);
    struct lladd_error err = LLADD_ERROR_INIT;
    uint64_t seed = (uint64_t)(seconds() * 1e9) ^ (uint64_t)getpid();
    size_t started = 0;
    int rc = tellers ? 0 : LLADD_NO_MEMORY;
    for (unsigned tries = 0; !rc && (rc = open_accounts(b)) != 0 && tries < 100 &&
                             lladd_code_root(rc) == LLADD_ROOT_RETRY;
         tries++, rc = 0)
        pause_before_retry(tries, &seed);
    double since = seconds();
    for (size_t i = 0; !rc && i < b->o.threads; i++) {
        tellers[i] = (struct teller){.bank = b, .random = seed + i};
        rc = lladd_thread_start(&tellers[i].thread, tell, &tellers[i]);
        started += !rc;
    }
    while (!rc && seconds() - since < (double)b->o.seconds && !left_alone(b) &&
           (rc = cluster_error(b->cluster, &err)) == 0)
        report(tellers, started, since, false);
    lladd_atomic_store32(&b->stop, 1);
    for (size_t i = 0; i < started; i++)
        lladd_thread_join(&tellers[i].thread);
    if (!rc)
        report(tellers, started, since, true);
    free(tellers);
    return rc ? failed("work", rc, &err) : true;
}

static bool audit(struct bank *b)
{
    int64_t sum, right = (int64_t)b->o.accounts * ACCOUNT_OPENING;
    uint64_t random = 1;
    unsigned tries = 0;
    int rc;
    while ((rc = sum_up(b, &sum)) != 0 && lladd_code_root(rc) == LLADD_ROOT_RETRY && tries < 100)
        pause_before_retry(tries++, &random);
    if (rc)
        return failed("audit", rc, NULL);
    struct coordinator_counts counts;
    cluster_count(b->cluster, &counts);
    printf("sum %" PRId64 " of %" PRId64 " undelivered %zu\n", sum, right, counts.undelivered);
    return sum == right;
}

static bool with_cluster(struct bank *b, bool (*command)(struct bank *))
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct cluster_options options = {.dir = b->o.dir,
                                      .servers = b->o.servers,
                                      .n_servers = b->o.n_servers,
                                      .replicas = b->o.replicas};
    int rc = cluster_open(&options, &b->cluster, &err);
    if (rc)
        return failed("open", rc, &err);
    rc = cluster_wait(b->cluster, 10000);
    if (rc && cluster_error(b->cluster, &err))
        rc = err.code;
    bool good = rc ? failed("servers", rc, &err) : command(b);
    rc = cluster_close(b->cluster);
    return rc ? failed("close", rc, NULL) : good;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: cluster-teller work --dir DIR --server ADDRESS:PORT... [--replicas N]\n"
            "                      [--accounts N] [--threads N] [--seconds N] [--until-eof]\n"
            "                      [--across] [--blind]\n"
            "       cluster-teller audit --dir DIR --server ADDRESS:PORT... [--replicas N]\n"
            "                      [--accounts N] [--exclusive]\n"
            "       cluster-teller inspect [--replicas N] [--accounts N] DIR...\n");
    return 2;
}

static bool number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == 0 && !errno && *out >= min && *out <= max;
}

static bool parse(struct bank_options *o, int argc, char **argv)
{
    static const struct option known[] = {{"dir", required_argument, NULL, 'd'},
                                          {"server", required_argument, NULL, 's'},
                                          {"replicas", required_argument, NULL, 'r'},
                                          {"accounts", required_argument, NULL, 'a'},
                                          {"threads", required_argument, NULL, 't'},
                                          {"seconds", required_argument, NULL, 'n'},
                                          {"until-eof", no_argument, NULL, 'e'},
                                          {"across", no_argument, NULL, 'w'},
                                          {"blind", no_argument, NULL, 'b'},
                                          {"exclusive", no_argument, NULL, 'x'},
                                          {NULL, 0, NULL, 0}};
    int c;
    bool good = true;
    while (good && (c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (c == 'd')
            o->dir = optarg;
        else if (c == 's')
            o->servers[o->n_servers++] = optarg; /* there is room for every argument */
        else if (c == 'r')
            good = number(optarg, 1, 1000, &o->replicas);
        else if (c == 'a')
            good = number(optarg, 2, 1000000, &o->accounts);
        else if (c == 't')
            good = number(optarg, 1, 1000, &o->threads);
        else if (c == 'n')
            good = number(optarg, 1, 1000000, &o->seconds);
        else if (c == 'b')
            o->blind = true;
        else if (c == 'w')
            o->across = true;
        else if (c == 'x')
            o->exclusive = true;
        else
            good = o->until_eof = c == 'e';
    }
    return good;
}

int main(int argc, char **argv)
{
    struct bank b = {
        .o = {.replicas = 1, .accounts = 100, .threads = 8, .seconds = UINT64_C(1000000)}};
    b.o.servers = calloc((size_t)argc, sizeof *b.o.servers);
    if (!b.o.servers || argc < 2 || !parse(&b.o, argc - 1, argv + 1))
        return free(b.o.servers), usage();
    const char *command = argv[1];
    char **rest = argv + 1 + optind;
    size_t n = (size_t)(argc - 1 - optind);
    int status = 2;
    if (strcmp(command, "inspect") == 0 && n)
        status = !inspect(&b.o, rest, n);
    else if (n || !b.o.dir || !b.o.n_servers)
        (void)usage();
    else if (strcmp(command, "work") == 0)
        status = !with_cluster(&b, work);
    else if (strcmp(command, "audit") == 0)
        status = !with_cluster(&b, audit);
    else
        (void)usage();
    free(b.o.servers);
    return status;
}
