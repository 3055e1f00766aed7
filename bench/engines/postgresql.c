/* SPDX-License-Identifier: BSD-2-Clause */
/* PostgreSQL, for W12 alone: a server of its own, which ends when the database is closed. The
 * directory of the database is the server's data directory. Beside it is a directory with the
 * server's socket, its log and the archive. Each thread has a connection.
 *
 * A transaction either inserts, by one COPY, or updates, by the statements of one pipeline. Either
 * is one implicit transaction of the server, so a transaction of one update takes one round trip.
 * Root may not run a server: then the user "postgres" does. */
#include "engine.h"

#include "common.h"
#include "program.h"

#include <endian.h>
#include <errno.h>
#include <libpq-fe.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* BENCH_POSTGRESQL: the directory of PostgreSQL's programs. */
#define PROGRAM(name) BENCH_POSTGRESQL "/" name
#define PORT "5432" /* a part of the socket's name */
#define BEGIN_MS 10 /* between two questions whether the server has begun */
/* The numbers of types in PostgreSQL's catalogue. */
#define TYPE_INT8 20
#define TYPE_BYTEA 17
#define TABLE "create table if not exists kv (k bigint primary key, v bytea not null)"
#define UPDATE "update kv set v = $2 where k = $1"

struct bench_db {
    char data[PATH_MAX], side[PATH_MAX + 16];
    char log[PATH_MAX + 32], to[PATH_MAX + 128]; /* to: how clients connect */
    struct bench_program server, client;
    struct bench_setup setup;
    PGconn *admin;
    pid_t pid; /* of the server; 0: none */
};

struct bench_thread {
    PGconn *c;
    uint32_t value_size;
    bool copies;      /* the transaction has a COPY that is not complete */
    unsigned pending; /* updates sent in the pipeline */
};

/* ---- messages -------------------------------------------------------------------------------- */

static int failed(const char *what, const char *text)
{
    char line[300];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(text, "\n"), text);
    return bench_failed("postgresql", what, line);
}

/* Frees the result. */
static int check(PGconn *c, PGresult *r, ExecStatusType wanted, const char *what)
{
    const char *why = r ? PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    int rc = r && PQresultStatus(r) == wanted ? 0 : failed(what, why ? why : PQerrorMessage(c));
    PQclear(r);
    return rc;
}

static int command(PGconn *c, const char *sql)
{
    return check(c, PQexec(c, sql), PGRES_COMMAND_OK, sql);
}

static int connect_to(const struct bench_db *b, PGconn **out)
{
    *out = PQconnectdb(b->to);
    return PQstatus(*out) == CONNECTION_OK ? 0 : failed("connect", PQerrorMessage(*out));
}

/* ---- the server ------------------------------------------------------------------------------ */

/* Makes a directory that belongs to the server's user. */
static int make_dir(const struct bench_db *b, const char *path)
{
    bool good = (mkdir(path, 0700) == 0 || errno == EEXIST) &&
                (b->server.uid == geteuid() || chown(path, b->server.uid, b->server.gid) == 0);
    return good ? 0 : failed(path, strerror(errno));
}

static int choose_user(struct bench_db *b)
{
    const struct passwd *user = geteuid() == 0 ? getpwnam("postgres") : NULL;
    if (geteuid() == 0 && !user)
        return failed("open", "root may not run a server, and there is no user \"postgres\"");
    b->client = (struct bench_program){"postgresql", b->log, geteuid(), getegid(), SIGTERM};
    b->server = b->client;
    b->server.death = SIGQUIT; /* the server ends at once, and with it all its processes */
    if (user) {
        b->server.uid = user->pw_uid;
        b->server.gid = user->pw_gid;
    }
    return 0;
}

static int choose_paths(struct bench_db *b, const char *dir)
{
    char archive[PATH_MAX + 32];
    if (!realpath(dir, b->data))
        return failed(dir, strerror(errno));
    snprintf(b->side, sizeof b->side, "%s-server", b->data);
    snprintf(b->log, sizeof b->log, "%s/log", b->side);
    snprintf(archive, sizeof archive, "%s/archive", b->side);
    snprintf(b->to, sizeof b->to,
             "host='%s' port=" PORT " user=bench dbname=postgres "
             "options='-c client_min_messages=warning'",
             b->side);
    int rc = choose_user(b);
    rc = rc ? rc : make_dir(b, b->data);
    rc = rc ? rc : make_dir(b, b->side);
    return rc ? rc : make_dir(b, archive);
}

/* A directory without the file PG_VERSION has no database yet. Only the server's user and root
 * reach the socket, so the server trusts its clients. */
static int make_database(const struct bench_db *b)
{
    char version[PATH_MAX + 16];
    const char *const argv[] = {PROGRAM("initdb"), "--pgdata", b->data, "--username=bench",
                                "--auth=trust", "--no-locale", NULL};
    snprintf(version, sizeof version, "%s/PG_VERSION", b->data);
    return access(version, F_OK) == 0 ? 0 : bench_program_run(&b->server, argv);
}

/* Waits until the server answers. */
static int await_server(struct bench_db *b)
{
    const struct timespec pause = {.tv_nsec = BEGIN_MS * 1000000};
    while (PQping(b->to) != PQPING_OK) {
        siginfo_t ended = {.si_pid = 0};
        if (waitid(P_PID, (id_t)b->pid, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            ended.si_pid != 0) {
            pid_t pid = b->pid;
            b->pid = 0;
            int rc = bench_program_wait(&b->server, pid, "the server");
            return rc ? rc : failed("open", "the server has ended");
        }
        nanosleep(&pause, NULL);
    }
    return 0;
}

static bool loads(const struct bench_db *b)
{
    return b->setup.level != BENCH_DISK;
}

/* After a load the file postgresql.auto.conf has smaller bounds of the log, see `shrink`; the
 * defaults on the command line take precedence. */
static int start_server(struct bench_db *b)
{
    char memory[64], archive[2 * PATH_MAX];
    const char *argv[32] = {PROGRAM("postgres"), "-D", b->data, "-k", b->side, "-p", PORT,
                            "-c", "listen_addresses=", "-c", memory, NULL};
    const char *const archiving[] = {"-c", "archive_mode=on", "-c", archive, "-c",
                                     "max_wal_size=1GB", "-c", "min_wal_size=80MB", NULL};
    size_t n = 0;
    snprintf(memory, sizeof memory, "shared_buffers=%lluMB",
             (unsigned long long)(b->setup.cache_bytes >> 20));
    snprintf(archive, sizeof archive, "archive_command=cp \"%%p\" \"%s/archive/%%f\"", b->side);
    while (argv[n])
        n++;
    if (!loads(b))
        memcpy(&argv[n], archiving, sizeof archiving);
    b->pid = bench_program_start(&b->server, argv);
    if (b->pid < 0) {
        b->pid = 0;
        return BENCH_FAILED;
    }
    return await_server(b);
}

static int open_it(const struct bench_setup *s, struct bench_db **out)
{
    struct bench_db *b = calloc(1, sizeof *b);
    if (!b)
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    int rc = choose_paths(b, s->dir);
    rc = rc ? rc : make_database(b);
    rc = rc ? rc : start_server(b);
    rc = rc ? rc : connect_to(b, &b->admin);
    return rc ? rc : command(b->admin, TABLE);
}

/* Ends a load as the manual says, by VACUUM and ANALYZE. Lets the server's last checkpoint remove
 * the files of the log; otherwise up to 1 GiB of them would count as the database. */
static int shrink(const struct bench_db *b)
{
    int rc = command(b->admin, "vacuum (analyze) kv");
    rc = rc ? rc : command(b->admin, "alter system set max_wal_size = '32MB'");
    rc = rc ? rc : command(b->admin, "alter system set min_wal_size = '32MB'");
    return rc ? rc : check(b->admin, PQexec(b->admin, "select pg_reload_conf()"),
                           PGRES_TUPLES_OK, "reload");
}

/* SIGINT: the server ends its connections, and takes a checkpoint. */
static int close_it(struct bench_db *b)
{
    int rc = loads(b) ? shrink(b) : 0;
    PQfinish(b->admin);
    int ended = bench_program_stop(&b->server, b->pid, SIGINT, "the server");
    bench_remove_dir(b->side);
    free(b);
    return rc ? rc : ended;
}

static int backup(struct bench_db *b, const char *dir)
{
    char to[PATH_MAX];
    const char *const argv[] = {PROGRAM("pg_basebackup"), "--pgdata", to, "--dbname", b->to,
                                "--wal-method=stream", "--checkpoint=fast", "--no-password", NULL};
    if (!realpath(dir, to))
        return failed(dir, strerror(errno));
    return bench_program_run(&b->client, argv);
}

/* ---- transactions ---------------------------------------------------------------------------- */

static int join(struct bench_db *b, struct bench_thread **out)
{
    const Oid types[] = {TYPE_INT8, TYPE_BYTEA};
    struct bench_thread *t = calloc(1, sizeof *t);
    *out = t;
    if (!t)
        return BENCH_FAILED;
    t->value_size = b->setup.value_size;
    int rc = connect_to(b, &t->c);
    return rc ? rc : check(t->c, PQprepare(t->c, "update", UPDATE, 2, types), PGRES_COMMAND_OK,
                           "prepare");
}

static void leave(struct bench_db *b, struct bench_thread *t)
{
    (void)b;
    PQfinish(t->c);
    free(t);
}

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    (void)b;
    t->copies = false;
    t->pending = 0;
    *out = (struct bench_txn *)t;
    return 0;
}

static int copied(const struct bench_thread *t, const void *bytes, size_t n)
{
    return PQputCopyData(t->c, bytes, (int)n) == 1 ? 0 : failed("copy", PQerrorMessage(t->c));
}

/* The head of COPY's binary format: a signature, no flags, no extension. */
static int start_copy(struct bench_thread *t)
{
    static const char head[19] = "PGCOPY\n\377\r\n\0";
    int rc = check(t->c, PQexec(t->c, "copy kv from stdin (format binary)"), PGRES_COPY_IN,
                   "copy");
    t->copies = !rc;
    return rc ? rc : copied(t, head, sizeof head);
}

/* A row of COPY: the number of its fields, and each field with its length before it. */
static int insert(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    struct bench_thread *t = (struct bench_thread *)txn;
    const uint16_t fields = htobe16(2);
    const uint32_t sizes[] = {htobe32(sizeof key), htobe32(t->value_size)};
    const uint64_t k = htobe64(key);
    unsigned char row[sizeof fields + sizeof sizes + sizeof k], *at = row;
    (void)b;
    int rc = t->copies ? 0 : start_copy(t);
    memcpy(at, &fields, sizeof fields);
    at += sizeof fields;
    memcpy(at, &sizes[0], sizeof sizes[0]);
    at += sizeof sizes[0];
    memcpy(at, &k, sizeof k);
    at += sizeof k;
    memcpy(at, &sizes[1], sizeof sizes[1]);
    rc = rc ? rc : copied(t, row, sizeof row);
    return rc ? rc : copied(t, value, t->value_size);
}

static int update(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    struct bench_thread *t = (struct bench_thread *)txn;
    const uint64_t k = htobe64(key);
    const char *const values[] = {(const char *)&k, value};
    const int sizes[] = {sizeof k, (int)t->value_size}, binary[] = {1, 1};
    (void)b;
    bool good = PQpipelineStatus(t->c) != PQ_PIPELINE_OFF || PQenterPipelineMode(t->c);
    good = good && PQsendQueryPrepared(t->c, "update", 2, values, sizes, binary, 0);
    t->pending += good;
    return good ? 0 : failed("update", PQerrorMessage(t->c));
}

static int end_copy(struct bench_thread *t)
{
    static const unsigned char end[] = {0xff, 0xff};
    int rc = copied(t, end, sizeof end);
    if (!rc && PQputCopyEnd(t->c, NULL) != 1)
        rc = failed("copy", PQerrorMessage(t->c));
    rc = rc ? rc : check(t->c, PQgetResult(t->c), PGRES_COMMAND_OK, "copy");
    PQclear(PQgetResult(t->c)); /* NULL: the end of the statement */
    return rc;
}

/* The result of one update. */
static int updated(struct bench_thread *t)
{
    PGresult *r = PQgetResult(t->c);
    bool absent = r && PQresultStatus(r) == PGRES_COMMAND_OK && strcmp(PQcmdTuples(r), "1") != 0;
    int rc = check(t->c, r, PGRES_COMMAND_OK, "update");
    PQclear(PQgetResult(t->c)); /* NULL: the end of the statement */
    return rc ? rc : absent ? BENCH_ABSENT : 0;
}

/* A pipeline's implicit transaction is committed at the synchronisation point. */
static int commit(struct bench_db *b, struct bench_txn *txn)
{
    struct bench_thread *t = (struct bench_thread *)txn;
    int rc = 0;
    (void)b;
    if (t->copies)
        return end_copy(t);
    if (t->pending == 0)
        return 0;
    if (!PQpipelineSync(t->c))
        return failed("commit", PQerrorMessage(t->c));
    for (; t->pending > 0; t->pending--) {
        int one = updated(t);
        rc = rc ? rc : one;
    }
    int synced = check(t->c, PQgetResult(t->c), PGRES_PIPELINE_SYNC, "commit");
    return rc ? rc : synced;
}

static const char *version(void)
{
    return BENCH_POSTGRESQL_VERSION;
}

/* No workload but W12 uses the engine. So it has no lookups, and no rollback, because its calls do
 * not return BENCH_AGAIN. */
const struct bench_engine bench_engine_postgresql = {
    .name = "postgresql",
    .version = version,
    .settings = "a server and a connection for each thread, on a Unix socket; defaults, except: "
                "shared_buffers is the row's cache; archive_mode = on, and cp as archive_command, "
                "except while loading; COPY to load; an update is a prepared statement and its "
                "own transaction; pg_basebackup --wal-method=stream --checkpoint=fast",
    .levels = BENCH_AT(BENCH_DISK),
    .backups_only = true,
    .apart = true,
    .open = open_it,
    .close = close_it,
    .join = join,
    .leave = leave,
    .begin = begin,
    .commit = commit,
    .insert = insert,
    .update = update,
    .backup = backup,
};
