/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd replica tail: the changes of a database's tables as events, to standard output.
 *
 * A database is open in one process at a time. So the events of a database that a program has open
 * come when the program closes it, or from the program itself (lladd_replica_source_next).
 * --follow closes the database after each look, and looks again when another process has opened it
 * since: each open writes the process's number to the lock file. */
#include "tool.h"

#include <errno.h>
#include <inttypes.h>
#include <lladd/op.h>
#include <lladd/replica_source.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct tailing {
    struct tool *t;
    const struct tool_tail *o;
    size_t n; /* tables */
    struct lladd_db *db;
    struct lladd_replica_source *s;
    struct lladd_sink out;
    uint64_t from;        /* where the next look begins */
    uint64_t sent;        /* position of the last event in the output; 0: none */
    uint64_t acknowledge; /* what the replica has let go of, if it is not acknowledged yet */
    struct timespec seen; /* when the lock file was written last, at the end of the last look */
    bool waited;          /* and has said so */
    struct lladd_error err;
};

/* ---- the output ------------------------------------------------------------------------------ */

static int no_output(struct tailing *x)
{
    return lladd_error_set(&x->err, LLADD_NO_ACCESS, "the events cannot be written: %s",
                           strerror(errno));
}

static int write_bytes(void *ctx, const void *bytes, size_t len)
{
    struct tailing *x = ctx;
    return fwrite(bytes, 1, len, stdout) == len ? 0 : no_output(x);
}

/* The first event of a later look repeats what the last event has said. */
static int write_event(struct tailing *x, const struct lladd_replica_event *e)
{
    bool change = e->table != NULL;
    if (e->position < x->sent + !change)
        return 0;
    int rc = lladd_replica_encode(e, &x->out);
    if (rc)
        return x->err.code ? rc : lladd_error_set(&x->err, rc, "an event cannot be written");
    x->sent = e->position;
    if (!change && e->kind != LLADD_REPLICA_BEGIN)
        x->from = e->position + 1;
    tool_progress(x->t, "events up to position", e->position, 0);
    return 0;
}

static int write_all(struct tailing *x)
{
    struct lladd_replica_event e;
    int rc;
    while ((rc = lladd_replica_source_next(x->s, &e, &x->err)) == 0) {
        rc = write_event(x, &e);
        if (rc)
            return rc;
    }
    return rc != LLADD_END ? rc : fflush(stdout) ? no_output(x) : 0;
}

/* ---- a look into the database ---------------------------------------------------------------- */

/* Returns rc or, if that is 0, `closed`, the code of a close that has put its error into *why. */
static int first_error(struct tailing *x, int rc, int closed, const struct lladd_error *why)
{
    if (!rc && closed)
        x->err = *why;
    return rc ? rc : closed;
}

static int write_changes(struct tailing *x)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = lladd_replica_source_open(x->db, x->o->name, x->o->tables, x->n, x->from, &x->s,
                                       &x->err);
    if (rc)
        return rc;
    rc = write_all(x);
    if (!rc && x->acknowledge) {
        rc = lladd_replica_source_acknowledge(x->s, x->acknowledge, &x->err);
        x->acknowledge = rc ? x->acknowledge : 0;
    }
    return first_error(x, rc, lladd_replica_source_close(x->s, &why), &why);
}

/* Gets the time of the last open. */
static struct timespec last_open(const struct tailing *x)
{
    char path[4096];
    struct stat s = {0};
    int n = snprintf(path, sizeof path, "%s/lock", x->t->dir);
    if (n < 0 || (size_t)n >= sizeof path || stat(path, &s) != 0)
        memset(&s, 0, sizeof s); /* the open says what is wrong with the directory */
    return s.st_mtim;
}

/* Opens the database, writes what is new, closes it. */
static int look(struct tailing *x)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int rc = tool_open(x->t, &x->db, &x->err);
    if (rc)
        return rc;
    x->seen = last_open(x); /* while no other process can open it */
    rc = write_changes(x);
    tool_progress_end(x->t);
    int closed = lladd_close(x->db);
    if (closed)
        lladd_error_set(&why, closed, "the database was not closed cleanly");
    return first_error(x, rc, closed, &why);
}

/* ---- following ------------------------------------------------------------------------------- */

static bool same(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

/* Waits for the interval. Returns an error if the reader of the output has gone meanwhile. */
static int pause_for(struct tailing *x)
{
    struct pollfd out = {.fd = STDOUT_FILENO}; /* only POLLERR */
    if (poll(&out, 1, (int)(x->o->follow * 1000)) > 0) {
        errno = EPIPE;
        return no_output(x);
    }
    return 0;
}

/* A database in use is not an error: it is looked at later. */
static int look_or_wait(struct tailing *x)
{
    int rc = look(x);
    if (rc != LLADD_LOCKED || !x->o->follow)
        return rc;
    if (!x->waited)
        fprintf(stderr, "lladd %s: %s is in use; waiting\n", x->t->verb, x->t->dir);
    x->waited = true;
    x->err = (struct lladd_error)LLADD_ERROR_INIT;
    return 0;
}

/* Looks again and again, until an error. Looks when there was an open since the last look, and
 * none in the last interval, so that a script that opens the database often meets no lock. */
static int follow(struct tailing *x)
{
    struct timespec before = x->seen;
    int rc = 0;
    while (!rc) {
        rc = pause_for(x);
        struct timespec now = last_open(x);
        if (!rc && !same(now, x->seen) && same(now, before)) {
            rc = look_or_wait(x);
            now = last_open(x);
        }
        before = now;
    }
    return rc;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static const char *refused(const struct tool *t, const struct tool_tail *o)
{
    if (!o->tables)
        return "name the tables: --tables A,B,...";
    if (t->json)
        return "tail writes bytes, so it has no --json; lladd replica dump prints them";
    if (isatty(STDOUT_FILENO))
        return "events are bytes: write them to a pipe or a file (lladd replica dump prints them)";
    return NULL;
}

int tool_replica_tail(struct tool *t, const struct tool_tail *o)
{
    struct tailing x = {.t = t,
                        .o = o,
                        .from = o->from,
                        .acknowledge = o->acknowledge,
                        .err = LLADD_ERROR_INIT};
    const char *why = refused(t, o);
    if (why)
        return tool_fail(t, "%s", why);
    while (o->tables[x.n])
        x.n++;
    x.out = (struct lladd_sink){.ctx = &x, .write = write_bytes};
    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) /* so that the database is closed after an EPIPE */
        return tool_fail(t, "%s", strerror(errno));
    int rc = look_or_wait(&x);
    if (!rc && o->follow)
        rc = follow(&x);
    if (!rc)
        return TOOL_FINE;
    if (ferror(stdout)) { /* x.err says so; tool_end need not */
        __fpurge(stdout);
        clearerr(stdout);
    }
    return tool_failed(t, &x.err);
}
