/* SPDX-License-Identifier: BSD-2-Clause */
/* postgres-replica: a replica of the tables of a PostgreSQL publication.
 *
 * The first run copies the tables. Then the program follows a logical replication slot. It may be
 * killed at any time, and so may the server: start it again, and it goes on. The server keeps the
 * log that the replica may need, and no more. See docs/replication.md. */
#include "events.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: postgres-replica [--lag BYTES] [--until LSN] DIRECTORY SLOT PUBLICATION CONNINFO\n"
    "\n"
    "  --lag BYTES   the server keeps about this much log for the replica; 67108864\n"
    "  --until LSN   ends when the replica has all transactions that were committed before\n";

struct follower {
    const char *dir, *slot, *publication, *conninfo;
    uint64_t lag, until;
    struct postgres pg;
    struct lladd_db *db;
    struct lladd_replica *replica;
    struct events events;
    uint64_t received, durable; /* LSNs that the server was told, or that it told */
};

/* ---- the database ---------------------------------------------------------------------------- */

static int make_table(struct follower *f, const struct table *t, struct lladd_error *err)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    struct lladd_managed *made;
    struct lladd_error why = LLADD_ERROR_INIT;
    o.type = t->number ? LLADD_DTABLE_U64 : LLADD_DTABLE_STRING;
    o.flags = LLADD_MANAGED_UNLOGGED;
    o.schedule = LLADD_MANAGED_LEVELS;
    int rc = lladd_managed_create_open(f->db, t->name, &o, &made, &why);
    if (rc == LLADD_EXISTS)
        return 0;
    if (!rc)
        return lladd_managed_close(made, err);
    *err = why;
    return rc;
}

static int open_replica(struct follower *f, struct lladd_error *err)
{
    struct lladd_replica_options o = LLADD_REPLICA_OPTIONS_INIT;
    const char **names = calloc(f->pg.n + 1, sizeof *names);
    if (!names)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < f->pg.n; i++)
        names[i] = f->pg.tables[i].name;
    o.tables = names;
    o.source = f->pg.source;
    o.lag_bytes = f->lag;
    int rc = lladd_replica_open(f->db, f->slot, &o, &f->replica, err);
    free(names);
    f->events = (struct events){.from = &f->pg, .to = f->replica};
    return rc;
}

static int close_replica(struct follower *f, struct lladd_error *err)
{
    struct lladd_replica *r = f->replica;
    events_drop(&f->events);
    f->replica = NULL;
    return lladd_replica_close(r, err);
}

static int open_all(struct follower *f, struct lladd_error *err)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    TRY(lladd_replica_register(&o, err));
    int rc = lladd_open(f->dir, &o, &f->db, err);
    lladd_options_release(&o);
    TRY(rc);
    for (size_t i = 0; i < f->pg.n; i++)
        TRY(make_table(f, &f->pg.tables[i], err));
    TRY(lladd_managed_threads(f->db, 2, err));
    return open_replica(f, err);
}

/* ---- following ------------------------------------------------------------------------------- */

/* Copies the tables if the replica has nothing yet. The close makes the copy durable; after a crash
 * before that the replica still has nothing, and the next run copies again. */
static int copy(struct follower *f, struct lladd_error *err)
{
    uint64_t from, lsn;
    TRY(lladd_replica_from(f->replica, &from));
    if (from > 1)
        return 0;
    TRY(postgres_slot(&f->pg, f->slot, &lsn, err));
    TRY(events_copy(&f->events, &f->pg, lsn, err));
    TRY(postgres_commit(&f->pg, err));
    TRY(close_replica(f, err));
    return open_replica(f, err);
}

static int start(struct follower *f, struct lladd_error *err)
{
    uint64_t from;
    TRY(postgres_confirmed(&f->pg, f->slot, &f->durable, err));
    TRY(events_first(&f->events, f->durable, err)); /* has the server what the replica needs? */
    TRY(lladd_replica_from(f->replica, &from));
    f->received = f->durable;
    return postgres_stream(&f->pg, f->slot, f->publication, from, err);
}

/* Tells the server what it may forget: what no crash takes back. After a digest the log must be
 * forced for that. */
static int report(struct follower *f, struct lladd_error *err)
{
    struct lladd_replica_info i = {.struct_size = sizeof i};
    uint64_t durable;
    TRY(lladd_replica_info_get(f->replica, &i, NULL, 0, err));
    if (i.restart > i.durable)
        TRY(lladd_checkpoint(f->db, err));
    TRY(lladd_replica_durable(f->replica, &durable, err));
    if (durable > f->durable)
        f->durable = durable;
    return postgres_status(&f->pg, f->received, f->durable, err);
}

/* Takes a message of the replication protocol: data of the slot, or how far the server has sent. */
static int take(struct follower *f, const char *message, size_t len, struct lladd_error *err)
{
    struct reader r = {message, len, false};
    char kind = (char)read_number(&r, 1);
    uint64_t start = read_number(&r, 8);
    (void)read_number(&r, kind == 'w' ? 8 : 0); /* the end of the server's log */
    (void)read_number(&r, 8);                   /* the time */
    if (r.cut)
        return lladd_error_set(err, LLADD_BAD_RECORD, "a message of PostgreSQL is cut off");
    if (kind == 'w')
        return events_take(&f->events, r.at, r.left, err);
    if (start > f->received)
        f->received = start;
    return events_reached(&f->events, start, err);
}

/* Waits for a message, and takes those that are there, but not so many that the server would wait
 * too long for a report. */
static int take_some(struct follower *f, struct lladd_error *err)
{
    for (unsigned i = 0; i < EVENTS; i++) {
        char *message;
        size_t len;
        TRY(postgres_next(&f->pg, i == 0, &message, &len, err));
        if (!message)
            return 0;
        int rc = take(f, message, len, err);
        PQfreemem(message);
        TRY(rc);
    }
    return 0;
}

static int follow(struct follower *f, struct lladd_error *err)
{
    TRY(start(f, err));
    do {
        TRY(take_some(f, err));
        TRY(events_apply(&f->events, err));
        TRY(report(f, err));
    } while (!f->until || f->events.last + 1 < f->until || f->events.lsn);
    return 0;
}

/* ---- the program ----------------------------------------------------------------------------- */

static int run(struct follower *f, struct lladd_error *err)
{
    TRY(postgres_open(&f->pg, f->conninfo, f->publication, err));
    TRY(open_all(f, err));
    TRY(copy(f, err));
    return follow(f, err);
}

/* Closes everything, also after an error: what was applied stays. */
static int end(struct follower *f, int rc, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    int closed = f->replica ? close_replica(f, &why) : 0;
    if (f->db && !closed)
        closed = lladd_close(f->db);
    else if (f->db)
        (void)lladd_close(f->db); /* the first error is reported */
    postgres_close(&f->pg);
    if (!rc && closed)
        *err = why;
    return rc ? rc : closed;
}

static bool parse_lsn(const char *text, uint64_t *lsn)
{
    uint32_t high, low;
    char more;
    if (sscanf(text, "%" SCNx32 "/%" SCNx32 "%c", &high, &low, &more) != 2)
        return false;
    *lsn = (uint64_t)high << 32 | low;
    return true;
}

static bool parse(struct follower *f, int argc, char **argv)
{
    static const struct option options[] = {{"lag", required_argument, NULL, 'l'},
                                            {"until", required_argument, NULL, 'u'},
                                            {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        char *rest = NULL;
        if (c == 'l')
            f->lag = strtoull(optarg, &rest, 10);
        if (c == 'u' ? !parse_lsn(optarg, &f->until) : c != 'l' || *rest)
            return false;
    }
    if (argc - optind != 4)
        return false;
    f->dir = argv[optind];
    f->slot = argv[optind + 1];
    f->publication = argv[optind + 2];
    f->conninfo = argv[optind + 3];
    return true;
}

int main(int argc, char **argv)
{
    struct follower f = {.lag = 0};
    struct lladd_error err = LLADD_ERROR_INIT;
    if (!parse(&f, argc, argv)) {
        (void)fputs(usage, stderr);
        return 2;
    }
    int rc = end(&f, run(&f, &err), &err);
    if (rc)
        (void)fprintf(stderr, "postgres-replica: %s\n", err.message);
    return rc ? 1 : 0;
}
