/* SPDX-License-Identifier: BSD-2-Clause */
/* bench-cluster-postgresql: the transfers of cluster-teller over two PostgreSQL servers, with
 * PREPARE TRANSACTION.
 *
 *   bench-cluster-postgresql --a CONNINFO --b CONNINFO [--accounts N] [--threads N]
 *                            [--seconds N] [--decision]
 *
 * Each transfer takes an amount from an account of one server and adds it to an account of the
 * other. The client sends the two updates in parallel; likewise the two prepares and the two
 * commits. With --decision the client stores, between prepares and commits, what a coordinator must
 * know after a crash: it commits a row durably, and after the two commits it deletes this row
 * without waiting for the disk. The program prints one line of JSON. */
#include <getopt.h>
#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SQL_MAX = 400 };

struct bench {
    const char *a, *b;
    uint64_t accounts, threads, seconds;
    bool decision;
    atomic_bool stop;
};

struct worker {
    struct bench *bench;
    pthread_t thread;
    PGconn *to[2], *log;
    unsigned number;
    uint64_t random, done, failed;
    bool broken;
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

/* Reads all results of the connection; false if one is an error. */
static bool finish(PGconn *c)
{
    bool good = true;
    PGresult *r;
    while ((r = PQgetResult(c)) != NULL) {
        ExecStatusType status = PQresultStatus(r);
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
            fprintf(stderr, "bench-cluster-postgresql: %s", PQerrorMessage(c));
            good = false;
        }
        PQclear(r);
    }
    return good;
}

static bool both(struct worker *w, const char *a, const char *b)
{
    bool sent = PQsendQuery(w->to[0], a) && PQsendQuery(w->to[1], b);
    bool first = finish(w->to[0]), second = finish(w->to[1]);
    return sent && first && second;
}

static bool one(PGconn *c, const char *sql)
{
    return PQsendQuery(c, sql) && finish(c);
}

static bool update(struct worker *w)
{
    char sql[2][SQL_MAX];
    int64_t amount = 1 + (int64_t)(draw(&w->random) % 100);
    for (int i = 0; i < 2; i++)
        (void)snprintf(sql[i], SQL_MAX,
                       "BEGIN; UPDATE accounts SET amount = amount + %" PRId64
                       " WHERE id = %" PRIu64,
                       i ? amount : -amount, draw(&w->random) % w->bench->accounts);
    return both(w, sql[0], sql[1]);
}

static bool transfer(struct worker *w)
{
    char prepare[SQL_MAX], commit[SQL_MAX], decide[SQL_MAX], forget[SQL_MAX];
    unsigned long long n = w->done;
    (void)snprintf(prepare, SQL_MAX, "PREPARE TRANSACTION 'bench-%u-%llu'", w->number, n);
    (void)snprintf(commit, SQL_MAX, "COMMIT PREPARED 'bench-%u-%llu'", w->number, n);
    (void)snprintf(decide, SQL_MAX, "INSERT INTO decisions VALUES ('bench-%u-%llu')", w->number, n);
    (void)snprintf(forget, SQL_MAX,
                   "BEGIN; SET LOCAL synchronous_commit = off; "
                   "DELETE FROM decisions WHERE id = 'bench-%u-%llu'; COMMIT",
                   w->number, n);
    return update(w) && both(w, prepare, prepare) &&
           (!w->bench->decision || one(w->log, decide)) && both(w, commit, commit) &&
           (!w->bench->decision || one(w->log, forget));
}

static void *work(void *arg)
{
    struct worker *w = arg;
    while (!atomic_load(&w->bench->stop) && !w->broken) {
        w->broken = !transfer(w);
        w->done += !w->broken;
    }
    return NULL;
}

static bool open_accounts(struct bench *b, const char *where)
{
    char sql[SQL_MAX];
    PGconn *c = PQconnectdb(where);
    (void)snprintf(sql, SQL_MAX,
                   "DROP TABLE IF EXISTS accounts, decisions; "
                   "CREATE TABLE accounts (id int PRIMARY KEY, amount bigint, rest bytea); "
                   "CREATE TABLE decisions (id text PRIMARY KEY); "
                   "INSERT INTO accounts SELECT i, 1000, decode(repeat('00', 56), 'hex') "
                   "FROM generate_series(0, %" PRIu64 ") i",
                   b->accounts - 1);
    bool good = PQstatus(c) == CONNECTION_OK && one(c, "SET client_min_messages = warning") &&
                one(c, sql) && one(c, "VACUUM ANALYZE accounts");
    if (!good)
        fprintf(stderr, "bench-cluster-postgresql: %s", PQerrorMessage(c));
    PQfinish(c);
    return good;
}

static bool start(struct bench *b, struct worker *w)
{
    w->to[0] = PQconnectdb(b->a);
    w->to[1] = PQconnectdb(b->b);
    w->log = PQconnectdb(b->a);
    return PQstatus(w->to[0]) == CONNECTION_OK && PQstatus(w->to[1]) == CONNECTION_OK &&
           PQstatus(w->log) == CONNECTION_OK && pthread_create(&w->thread, NULL, work, w) == 0;
}

static bool run(struct bench *b)
{
    struct worker *workers = calloc(b->threads, sizeof *workers);
    uint64_t done = 0, started = 0;
    bool good = workers && open_accounts(b, b->a) && open_accounts(b, b->b);
    double since = seconds();
    for (; good && started < b->threads; started++) {
        workers[started] = (struct worker){.bench = b, .number = (unsigned)started};
        workers[started].random = started * 7919;
        good = start(b, &workers[started]);
        if (!good)
            break;
    }
    struct timespec t = {(time_t)b->seconds, 0};
    if (good)
        (void)nanosleep(&t, NULL);
    atomic_store(&b->stop, true);
    for (uint64_t i = 0; i < started; i++) {
        good = pthread_join(workers[i].thread, NULL) == 0 && !workers[i].broken && good;
        done += workers[i].done;
        PQfinish(workers[i].to[0]);
        PQfinish(workers[i].to[1]);
        PQfinish(workers[i].log);
    }
    double took = seconds() - since;
    free(workers);
    if (good)
        printf("{\"done\": %" PRIu64 ", \"seconds\": %.3f}\n", done, took);
    return good;
}

static bool number(const char *text, uint64_t *out)
{
    char *end;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == 0 && *out > 0 && *out < 1000000;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"a", required_argument, NULL, 'a'},        {"b", required_argument, NULL, 'b'},
        {"accounts", required_argument, NULL, 'n'}, {"threads", required_argument, NULL, 't'},
        {"seconds", required_argument, NULL, 's'},  {"decision", no_argument, NULL, 'd'},
        {NULL, 0, NULL, 0}};
    struct bench b = {.accounts = 1000, .threads = 1, .seconds = 5};
    bool good = true;
    int c;
    while (good && (c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (c == 'a')
            b.a = optarg;
        else if (c == 'b')
            b.b = optarg;
        else if (c == 'd')
            b.decision = true;
        else
            good = (c == 'n' || c == 't' || c == 's') &&
                   number(optarg, c == 'n' ? &b.accounts : c == 't' ? &b.threads : &b.seconds);
    }
    if (!good || !b.a || !b.b || optind != argc) {
        fprintf(stderr, "usage: bench-cluster-postgresql --a CONNINFO --b CONNINFO [--accounts N] "
                        "[--threads N] [--seconds N] [--decision]\n");
        return 2;
    }
    return run(&b) ? 0 : 1;
}
