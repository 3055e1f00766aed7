/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd replica: the events of a source, from standard input into the tables of a database. apply
 * opens the database; status and check recover it in memory; dump needs no database. tail is in
 * replica_tail.c. */
#include "dtable.h"

#include <errno.h>
#include <inttypes.h>
#include <lladd/device.h>
#include <lladd/replica.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: lladd replica apply  [options] DIRECTORY NAME\n"
    "       lladd replica check  [options] DIRECTORY NAME\n"
    "       lladd replica status [options] DIRECTORY [NAME]\n"
    "       lladd replica dump   [options] FILE\n"
    "       lladd replica tail   --tables A,B,... [options] DIRECTORY NAME\n"
    "\n"
    "A replica is a set of unlogged dTables that follow the transactions of a source. The source\n"
    "sends events, from the restart position on, which status shows (docs/replication.md).\n"
    "\n"
    "  apply         reads events from standard input, to its end, and applies each transaction\n"
    "                when its commit has come. Then prints how far the replica is. Transactions\n"
    "                that have no end are dropped; the source sends them again\n"
    "  check         does the same in memory, changes nothing on disk, and compares each row\n"
    "                with what the source had before the change. Prints the first difference\n"
    "  status        shows the positions of a replica and its tables, or of all replicas\n"
    "  dump          prints the events in FILE (\"-\": standard input), one a line: position,\n"
    "                kind, transaction, and for changes: table, keys, values\n"
    "  tail          writes the committed changes of logged dTables to standard output, as events\n"
    "                for the replica NAME of another database. From now on the database keeps the\n"
    "                log that this replica may need (the pin \"replica.NAME\")\n"
    "\n"
    "A database in use is refused.\n"
    "\n"
    "  --tables A,B,...  apply, check: makes the replica, of these tables, which must exist\n"
    "                    (lladd dtable create --unlogged). tail: the tables to send\n"
    "  --source TEXT     apply, check: the source; a replica that follows another one is refused\n"
    "  --batch N         apply, check: commits after N transactions of the source, at most; 1000\n"
    "  --buffer BYTES    apply, check: a transaction with more bytes of events waits for its\n"
    "                    commit on disk; 16777216\n"
    "  --compare         apply: compares each row as check does, and stops at a difference\n"
    "  --from POSITION   tail: where to begin: \"from\" of the replica's apply --json or status\n"
    "                    --json; without it, at the first change\n"
    "  --acknowledge POSITION\n"
    "                    tail: the log before it is no longer kept: \"durable\" of apply --json\n"
    "  --follow SECONDS  tail: goes on. After another process has had the database open, and\n"
    "                    SECONDS without an open, writes what is new. Ends by a signal, or when\n"
    "                    nothing reads the events any more\n"
    "  --hex             dump: values, and keys that are not numbers, are hexadecimal\n"
    "  --json, --ops FILE.so    as for the other verbs\n"
    "\n"
    "Exit status: 0; 1 if the stream is broken or cut off, the replica differs from its source,\n"
    "or the database is damaged; 2 if the command could not be carried out.\n";

enum { TABLES = TOOL_OWN, SOURCE, BATCH, BUFFER, COMPARE, HEX, FROM, ACKNOWLEDGE, FOLLOW };

static const struct option options[] = {TOOL_COMMON,
                                        {"tables", required_argument, NULL, TABLES},
                                        {"source", required_argument, NULL, SOURCE},
                                        {"batch", required_argument, NULL, BATCH},
                                        {"buffer", required_argument, NULL, BUFFER},
                                        {"compare", no_argument, NULL, COMPARE},
                                        {"hex", no_argument, NULL, HEX},
                                        {"from", required_argument, NULL, FROM},
                                        {"acknowledge", required_argument, NULL, ACKNOWLEDGE},
                                        {"follow", required_argument, NULL, FOLLOW},
                                        {NULL, 0, NULL, 0}};

enum { LONGEST = 1000000 }; /* seconds of --follow */
enum { PIECE = 256 << 10, EVENTS = 1024 }; /* bytes that are read, and events that are applied, at
                                            * once */

struct replicating {
    struct tool *t;
    struct tabling rows; /* prints keys and values */
    char *names;         /* the text of --tables, cut into names; owned */
    const char **tables;
    struct lladd_replica_options o;
    uint64_t batch;
    struct tool_tail tail;
    struct lladd_db *db;
    struct lladd_replica *r;
    int in;
    unsigned char *bytes; /* read and not used yet */
    size_t len, room;
    uint64_t offset; /* of `bytes` in the input */
    bool cut_off;    /* the input ends in an event */
    struct lladd_replica_event *events; /* EVENTS of them */
    struct lladd_error err;
};

/* ---- arguments ------------------------------------------------------------------------------- */

static int no_memory(struct replicating *x)
{
    return lladd_error_set(&x->err, LLADD_NO_MEMORY, "out of memory");
}

static int take_tables(struct replicating *x, const char *value)
{
    size_t n = 0, most = strlen(value) / 2 + 2;
    free(x->names);
    free(x->tables);
    x->names = strdup(value);
    x->tables = calloc(most, sizeof *x->tables);
    if (!x->names || !x->tables)
        return (void)tool_fail(x->t, "out of memory"), -1;
    for (char *name, *rest = x->names; (name = strtok_r(rest, ",", &rest)) != NULL;)
        x->tables[n++] = name;
    x->o.tables = x->tables;
    return 0;
}

static int take_number(const char *option, const char *value, uint64_t *out)
{
    return tool_number_in(option, value, 1, UINT64_MAX, out) ? 0 : -1;
}

static int take(void *ctx, int option, const char *value)
{
    struct replicating *x = ctx;
    switch (option) {
    case TABLES:
        return take_tables(x, value);
    case SOURCE:
        x->o.source = value;
        return 0;
    case BATCH:
        return tool_number_in("--batch", value, 1, UINT32_MAX, &x->batch) ? 0 : -1;
    case BUFFER:
        return take_number("--buffer", value, &x->o.buffer_bytes);
    case COMPARE:
        x->o.flags |= LLADD_REPLICA_CHECK;
        return 0;
    case HEX:
        x->rows.hex = true;
        return 0;
    case FROM:
        return take_number("--from", value, &x->tail.from);
    case ACKNOWLEDGE:
        return take_number("--acknowledge", value, &x->tail.acknowledge);
    case FOLLOW:
        return tool_number_in("--follow", value, 1, LONGEST, &x->tail.follow) ? 0 : -1;
    default:
        return -1;
    }
}

/* ---- the input ------------------------------------------------------------------------------- */

/* Reads what there is, at least one byte. *end: the input has ended. */
static int read_more(struct replicating *x, size_t needed, bool *end)
{
    size_t room = x->len + (needed > x->len ? needed - x->len : 0);
    room = room < x->len + PIECE ? x->len + PIECE : room;
    if (room > x->room) {
        unsigned char *p = realloc(x->bytes, room);
        if (!p)
            return no_memory(x);
        x->bytes = p;
        x->room = room;
    }
    ssize_t n;
    do
        n = read(x->in, x->bytes + x->len, x->room - x->len);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return lladd_error_set(&x->err, LLADD_NO_ACCESS, "the events cannot be read: %s",
                               strerror(errno));
    *end = n == 0;
    x->len += (size_t)n;
    return 0;
}

/* Says where in the input the error is. */
static int at_offset(struct replicating *x, size_t used, int rc)
{
    struct lladd_error why = x->err;
    return lladd_error_set(&x->err, rc, "byte %" PRIu64 " of the events: %.200s", x->offset + used,
                           why.message);
}

typedef int use_fn(struct replicating *, const struct lladd_replica_event *, size_t n);

/* Passes the whole events that have been read to `use`. *needed gets the bytes of the next one. */
static int use_whole(struct replicating *x, use_fn *use, size_t *needed)
{
    size_t used = 0;
    int rc = 0;
    while (!rc) {
        size_t n = 0, bytes = 0;
        int more = 0;
        while (n < EVENTS && !more) {
            struct lladd_span rest = {x->bytes + used, x->len - used};
            more = lladd_replica_decode(rest, &x->events[n], &bytes, &x->err);
            if (!more) {
                n++;
                used += bytes;
            }
        }
        struct lladd_error why = x->err;
        rc = n ? use(x, x->events, n) : 0;
        if (!rc && more && more != LLADD_END) {
            x->err = why;
            rc = at_offset(x, used, more);
        }
        *needed = bytes;
        if (more == LLADD_END)
            break;
    }
    if (used)
        memmove(x->bytes, x->bytes + used, x->len - used);
    x->len -= used;
    x->offset += used;
    return rc;
}

/* Reads the whole input. */
static int use_all(struct replicating *x, use_fn *use)
{
    size_t needed = 0;
    bool end = false;
    x->events = calloc(EVENTS, sizeof *x->events);
    int rc = x->events ? 0 : no_memory(x);
    while (!rc && !end) {
        rc = read_more(x, needed, &end);
        if (!rc && !end)
            rc = use_whole(x, use, &needed);
    }
    x->cut_off = !rc && x->len;
    return rc;
}

/* ---- status ---------------------------------------------------------------------------------- */

static json_t *json_status(const char *name, const struct lladd_replica_info *i,
                           const struct lladd_replica_table *tables)
{
    json_t *all = json_array();
    for (uint64_t k = 0; k < i->tables; k++)
        json_array_append_new(
            all, json_pack("{s:o, s:o, s:o, s:b}", "name", tool_json_text(tables[k].name),
                           "commit", tool_json_u64(tables[k].position.commit), "from",
                           tool_json_u64(tables[k].position.from), "undigested",
                           (int)tables[k].undigested));
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "name",
                     tool_json_text(name), "source",
                     i->source ? tool_json_text(i->source) : json_null(), "from",
                     tool_json_u64(i->from), "applied", tool_json_u64(i->applied),
                     "consistent_from", tool_json_u64(i->consistent_from), "durable",
                     tool_json_u64(i->durable), "transactions", tool_json_u64(i->transactions),
                     "rows", tool_json_u64(i->rows), "dropped", tool_json_u64(i->dropped),
                     "tables", all);
}

static void print_status(const char *name, const struct lladd_replica_info *i,
                         const struct lladd_replica_table *tables)
{
    const struct {
        const char *what;
        uint64_t value;
    } lines[] = {{"next event needed", i->from},
                 {"applied up to", i->applied},
                 {"consistent from", i->consistent_from},
                 {"source may forget before", i->durable}};
    printf("replica %s\n", name);
    if (i->source)
        printf("  %-26s%s\n", "source", i->source);
    for (size_t k = 0; k < sizeof lines / sizeof lines[0]; k++)
        printf("  %-26s%" PRIu64 "\n", lines[k].what, lines[k].value);
    for (uint64_t k = 0; k < i->tables; k++)
        printf("  table %-20s%" PRIu64 ", the others from %" PRIu64 "%s\n", tables[k].name,
               tables[k].position.commit, tables[k].position.from,
               tables[k].undigested ? ", rows in memory" : "");
}

/* Prints the status of the open replica. */
static int show(struct replicating *x, const char *name)
{
    struct lladd_replica_info i = {.struct_size = sizeof i};
    int rc = lladd_replica_info_get(x->r, &i, NULL, 0, &x->err);
    if (rc)
        return rc;
    struct lladd_replica_table *tables = calloc(i.tables + 1, sizeof *tables);
    if (!tables)
        return no_memory(x);
    rc = lladd_replica_info_get(x->r, &i, tables, i.tables, &x->err);
    if (!rc && x->t->json)
        tool_json_print(json_status(name, &i, tables), false);
    else if (!rc)
        print_status(name, &i, tables);
    free(tables);
    return rc;
}

/* Closes the replica. Returns rc and keeps its error, or returns the error of the close. */
static int close_after(struct replicating *x, int rc)
{
    struct lladd_error why = x->err;
    int closed = lladd_replica_close(x->r, &x->err);
    if (rc)
        x->err = why;
    return rc ? rc : closed;
}

static int status_of(void *ctx, const char *name)
{
    struct replicating *x = ctx;
    int rc = lladd_replica_open(x->db, name, &x->o, &x->r, &x->err);
    if (rc)
        return rc;
    return close_after(x, show(x, name));
}

static int status(struct replicating *x)
{
    return x->t->argc ? status_of(x, x->t->argv[0])
                      : lladd_replica_each(x->db, status_of, x, &x->err);
}

/* ---- apply and check ------------------------------------------------------------------------- */

static int apply_some(struct replicating *x, const struct lladd_replica_event *events, size_t n)
{
    size_t done;
    int rc = lladd_replica_apply(x->r, events, n, &done, &x->err);
    if (!rc)
        tool_progress(x->t, "events up to position", events[n - 1].position, 0);
    return rc;
}

/* Applies the input, and closes the replica also after an error, so that what was applied stays. */
static int apply(struct replicating *x)
{
    const char *name = x->t->argv[0];
    x->o.batch = (uint32_t)x->batch;
    int rc = lladd_replica_open(x->db, name, &x->o, &x->r, &x->err);
    if (rc)
        return rc;
    rc = use_all(x, apply_some);
    tool_progress_end(x->t);
    if (!rc)
        rc = show(x, name);
    return close_after(x, rc);
}

static int check(struct replicating *x)
{
    x->o.flags |= LLADD_REPLICA_CHECK;
    return apply(x);
}

static int apply_beside_threads(struct replicating *x)
{
    int rc = lladd_managed_threads(x->db, 2, &x->err);
    return rc ? rc : apply(x);
}

/* ---- dump ------------------------------------------------------------------------------------ */

static const char *kind_name(enum lladd_replica_kind kind)
{
    static const char *const names[] = {NULL,  "begin",  "commit",       "abort",
                                        "put", "delete", "delete-range", "mark"};
    return names[kind];
}

static json_t *json_value(const struct replicating *x, const struct lladd_dtable_value *v)
{
    if (v->state != LLADD_DTABLE_FOUND)
        return json_null();
    return x->rows.hex ? tool_json_hex(v->bytes.data, v->bytes.len)
                       : tool_json_bytes(v->bytes.data, v->bytes.len);
}

static void print_json(const struct replicating *x, const struct lladd_replica_event *e)
{
    json_t *o = json_pack("{s:o, s:s, s:o}", "position", tool_json_u64(e->position), "kind",
                          kind_name(e->kind), "transaction", tool_json_u64(e->txn));
    if (e->table)
        json_object_set_new(o, "table", tool_json_text(e->table));
    if (e->key.type)
        json_object_set_new(o, "key", tabling_json_key(&x->rows, &e->key));
    if (e->to.type)
        json_object_set_new(o, "to", tabling_json_key(&x->rows, &e->to));
    if (e->before.state)
        json_object_set_new(o, "before", json_value(x, &e->before));
    if (e->after.state)
        json_object_set_new(o, "after", json_value(x, &e->after));
    tool_json_print(o, false);
}

static void print_key(const struct replicating *x, const struct lladd_dtable_key *key)
{
    putchar(' ');
    if (key->type)
        tabling_write_key(&x->rows, key);
    else
        putchar('-');
}

static void print_text(const struct replicating *x, const struct lladd_replica_event *e)
{
    printf("%" PRIu64 " %s %" PRIu64, e->position, kind_name(e->kind), e->txn);
    if (e->table) {
        printf(" %s", e->table);
        print_key(x, &e->key);
    }
    if (e->kind == LLADD_REPLICA_DELETE_RANGE)
        print_key(x, &e->to);
    if (e->after.state) {
        putchar(' ');
        tabling_write_bytes(&x->rows, e->after.bytes);
    }
    if (e->before.state) {
        printf(" before ");
        if (e->before.state == LLADD_DTABLE_FOUND)
            tabling_write_bytes(&x->rows, e->before.bytes);
        else
            putchar('-');
    }
    putchar('\n');
}

static int print_some(struct replicating *x, const struct lladd_replica_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++)
        (x->t->json ? print_json : print_text)(x, &events[i]);
    return 0;
}

/* FILE is the argument where other verbs have DIRECTORY. */
static int dump(struct replicating *x)
{
    FILE *file = strcmp(x->t->dir, "-") == 0 ? stdin : fopen(x->t->dir, "rb");
    if (!file)
        return lladd_error_set(&x->err, LLADD_NO_ACCESS, "%s: %s", x->t->dir, strerror(errno));
    x->in = fileno(file);
    int rc = use_all(x, print_some);
    if (file != stdin)
        (void)fclose(file); /* the file was only read */
    return rc;
}

/* ---- the verbs ------------------------------------------------------------------------------- */

static int failed(const struct replicating *x)
{
    int code = tool_failed(x->t, &x->err);
    return x->err.code == LLADD_DIVERGED ? TOOL_FINDINGS : code;
}

static int ended(const struct replicating *x)
{
    if (!x->cut_off)
        return TOOL_FINE;
    (void)tool_fail(x->t, "the events end in an event, at byte %" PRIu64, x->offset);
    return TOOL_FINDINGS;
}

/* Recovers the database in memory. */
static int look(struct replicating *x, int (*what)(struct replicating *))
{
    struct tool_peek peek;
    if (tool_peek(x->t, &peek, &x->err))
        return failed(x);
    x->db = peek.db;
    int rc = what(x);
    tool_peek_end(&peek);
    return rc ? failed(x) : ended(x);
}

static int look_at_status(struct replicating *x)
{
    return look(x, status);
}

static int look_for_differences(struct replicating *x)
{
    return look(x, check);
}

static int change(struct replicating *x)
{
    if (tool_open(x->t, &x->db, &x->err))
        return failed(x);
    int rc = apply_beside_threads(x);
    int closed = lladd_close(x->db);
    if (rc)
        return failed(x);
    if (closed)
        return tool_fail(x->t,
                         "%s: the verb succeeded, but the database was not closed cleanly (%s)",
                         x->t->dir, lladd_code_name(closed));
    return ended(x);
}

static int print_events(struct replicating *x)
{
    return dump(x) ? failed(x) : ended(x);
}

static int send_changes(struct replicating *x)
{
    x->tail.name = x->t->argv[0];
    x->tail.tables = x->o.tables;
    return tool_replica_tail(x->t, &x->tail);
}

int tool_replica(int argc, char **argv)
{
    static const struct {
        const char *name, *full;
        int wanted, more;
        int (*run)(struct replicating *); /* returns the exit code */
    } verbs[] = {{"apply", "replica apply", 1, 0, change},
                 {"check", "replica check", 1, 0, look_for_differences},
                 {"status", "replica status", 0, 1, look_at_status},
                 {"dump", "replica dump", 0, 0, print_events},
                 {"tail", "replica tail", 1, 0, send_changes}};
    enum { VERBS = sizeof verbs / sizeof verbs[0] };
    struct tool t = {.verb = "replica", .usage = usage};
    struct replicating x = {.t = &t,
                            .rows = {.t = &t},
                            .o = LLADD_REPLICA_OPTIONS_INIT,
                            .in = STDIN_FILENO,
                            .err = LLADD_ERROR_INIT};
    const char *what = argc > 1 ? argv[1] : "";
    size_t v = 0;
    int code;
    while (v < VERBS && strcmp(what, verbs[v].name) != 0)
        v++;
    if (v == VERBS && *what != '-')
        return tool_fail(&t, "expected apply, check, status, dump or tail, not \"%s\"", what);
    if (v < VERBS) {
        t.verb = verbs[v].full;
        t.more = verbs[v].more;
    }
    bool known = v < VERBS;
    if (!tool_parse(&t, known ? argc - 1 : argc, known ? argv + 1 : argv, options, take, &x,
                    known ? verbs[v].wanted : 0, &code))
        code = known ? verbs[v].run(&x)
                     : tool_fail(&t, "expected apply, check, status, dump or tail");
    free(x.names);
    free(x.tables);
    free(x.bytes);
    free(x.events);
    return tool_end(&t, code);
}
