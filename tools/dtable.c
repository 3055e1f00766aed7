/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd dtable: managed dTables for scripts. get, scan and stat recover the database in memory;
 * create, put, del, maintain and alter open it. */
#include "dtable.h"

#include "csv.h"

#include <errno.h>
#include <lladd/device.h>
#include <lladd/dtable_class.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: lladd dtable create   [options] DIRECTORY TABLE\n"
    "       lladd dtable put      [options] DIRECTORY TABLE KEY [VALUE]\n"
    "       lladd dtable put      [options] DIRECTORY TABLE KEY COLUMN=VALUE...\n"
    "       lladd dtable put --csv [options] DIRECTORY TABLE\n"
    "       lladd dtable get      [options] DIRECTORY TABLE KEY\n"
    "       lladd dtable del      [options] DIRECTORY TABLE KEY\n"
    "       lladd dtable del --range [options] DIRECTORY TABLE [FROM [TO]]\n"
    "       lladd dtable scan     [options] DIRECTORY TABLE [FROM [TO]]\n"
    "       lladd dtable maintain [options] DIRECTORY TABLE\n"
    "       lladd dtable alter    [options] DIRECTORY TABLE\n"
    "       lladd dtable stat     [options] DIRECTORY [TABLE]\n"
    "       lladd dtable page     [options] DIRECTORY TABLE N\n"
    "       lladd dtable get|scan|stat [options] --from STORE [--to TARGET] ...\n"
    "       lladd dtable config-check [options] FILE\n"
    "\n"
    "Managed dTables: tables that transactions write to, made of a journal and sorted runs.\n"
    "\n"
    "  create        makes a table, and the database if there is none\n"
    "  put           sets the value of KEY, new or not, in a durable transaction. Without VALUE\n"
    "                it is read from standard input, to its end. With --csv standard input has\n"
    "                rows \"key,value\", put in one transaction; a row with only a key deletes it\n"
    "  get           prints the value of KEY\n"
    "  del           deletes KEY, or with --range all keys from FROM up to, not including, TO, in\n"
    "                a durable transaction. TO may be left out, and \"\" stands for no FROM\n"
    "  scan          prints the rows from FROM to TO, both included\n"
    "  maintain      flushes the journal to a sorted run (digest), and compacts runs (combine)\n"
    "                if that is due\n"
    "  alter         changes the options given, and no others, for runs made from then on\n"
    "  stat          shows what a table consists of\n"
    "  page          shows page N of a table that is stored in pages of columns\n"
    "                (multicolumn_dtable), column by column. Pages are counted from 0, over all\n"
    "                runs in the order in which stat shows them\n"
    "  config-check  checks whether create would accept a configuration, and prints it with all\n"
    "                defaults\n"
    "\n"
    "A database in use is refused.\n"
    "\n"
    "A table made with --columns has rows of named columns. put changes the columns that it\n"
    "names: COLUMN alone removes the value. get and scan print columns by name. With --csv,\n"
    "input and output have a first line \"key,column,...\"; an empty field means no value, \"\" is "
    "a\n"
    "value of no bytes.\n"
    "\n"
    "  --key TYPE        create, config-check: type of the keys: u32, u64, double, string or\n"
    "                    bytes; create's default is string\n"
    "  --config FILE     create, alter: how runs are stored (docs/dtables.md)\n"
    "  --combine-config FILE    create, alter: how compacted runs are stored\n"
    "  --columns A,B,... create: the table's columns; get, scan: the columns to print\n"
    "  --group A,B=FILE  create, alter: stores these columns together, apart from the others,\n"
    "                    with this configuration; alter replaces all groups, --keys and\n"
    "                    both configurations: give each one that is to stay\n"
    "  --keys FILE       create, alter: the configuration of the layer that stores all keys\n"
    "  --schedule WHICH  create, alter: when runs are compacted: ruler (the default), tiered,\n"
    "                    levels or never\n"
    "  --every N         create, alter: runs are compacted after N digests (ruler), or when there\n"
    "                    are N runs of similar sizes (tiered)\n"
    "  --memory BYTES    create, alter: a digest is due when the rows since the last digest take\n"
    "                    this many bytes\n"
    "  --rows N          create, alter: a digest is also due when there are N rows since the\n"
    "                    last digest (0: no limit)\n"
    "  --interval SECONDS    create, alter: a digest is also due this long after the last one,\n"
    "                    if there are rows since then (0: no limit)\n"
    "  --block-bytes N   create, alter: size of a block of a run: a multiple of the page size, at\n"
    "                    most 1048576 (0: the default)\n"
    "  --unlogged        create: the rows are not logged. A program writes them, with positions\n"
    "                    of a source that can send them again; put and del refuse the table\n"
    "  --for WHAT        config-check: what the configuration is for: table (the default; as\n"
    "                    --config of create), column (as --group), or run (a run that a\n"
    "                    program makes itself)\n"
    "  --csv             put: reads rows of CSV; get, scan: print them\n"
    "  --salvage         scan: leaves out all rows from the first damaged place to the last, and\n"
    "                    prints on standard error the keys next to this gap; the status is\n"
    "                    then 1. A scan of a range within the gap may print some of its rows\n"
    "  --batch N         put --csv: commits after every N rows\n"
    "  --hex             values, and keys that are not numbers, are hexadecimal\n"
    "  --range           del: deletes a range of keys\n"
    "  --from STORE      get, scan, stat: reads the table from a store, as it was at a target,\n"
    "                    and restores nothing; --to, --timeline, --base, --expect-lsn,\n"
    "                    --endpoint, --region and --host-style as for lladd restore\n"
    "  --combine         maintain: compacts all runs into one\n"
    "  --graph           stat: prints a graph for Graphviz\n"
    "  --json, --ops FILE.so    as for the other verbs\n"
    "\n"
    "Exit status: 0; 1 if KEY does not exist, or the database is damaged; 2 if the database\n"
    "cannot be read or there is no such table.\n";

enum { HEX = TOOL_OWN, CSV, KEY, CONFIG, COMBINE_CONFIG, SCHEDULE, EVERY, MEMORY, BATCH, COMBINE,
       GRAPH, COLUMNS, GROUP, KEYS, RANGE, FOR, ROWS, INTERVAL, SALVAGE, BLOCK_BYTES, UNLOGGED };

static const struct option options[] = {TOOL_COMMON,
                                        TOOL_FROM_STORE,
                                        {"hex", no_argument, NULL, HEX},
                                        {"csv", no_argument, NULL, CSV},
                                        {"salvage", no_argument, NULL, SALVAGE},
                                        {"key", required_argument, NULL, KEY},
                                        {"config", required_argument, NULL, CONFIG},
                                        {"combine-config", required_argument, NULL, COMBINE_CONFIG},
                                        {"schedule", required_argument, NULL, SCHEDULE},
                                        {"every", required_argument, NULL, EVERY},
                                        {"memory", required_argument, NULL, MEMORY},
                                        {"rows", required_argument, NULL, ROWS},
                                        {"interval", required_argument, NULL, INTERVAL},
                                        {"block-bytes", required_argument, NULL, BLOCK_BYTES},
                                        {"unlogged", no_argument, NULL, UNLOGGED},
                                        {"batch", required_argument, NULL, BATCH},
                                        {"combine", no_argument, NULL, COMBINE},
                                        {"graph", no_argument, NULL, GRAPH},
                                        {"columns", required_argument, NULL, COLUMNS},
                                        {"group", required_argument, NULL, GROUP},
                                        {"keys", required_argument, NULL, KEYS},
                                        {"range", no_argument, NULL, RANGE},
                                        {"for", required_argument, NULL, FOR},
                                        {NULL, 0, NULL, 0}};

/* ---- arguments ------------------------------------------------------------------------------- */

static int no_memory(struct tabling *d)
{
    return lladd_error_set(&d->err, LLADD_NO_MEMORY, "out of memory");
}

/* Reads a whole file into *out, and appends a 0 byte. */
static int read_all(struct tabling *d, FILE *in, const char *name, unsigned char **out, size_t *len)
{
    size_t size = 0, n;
    *len = 0;
    do {
        if (size - *len < 4096) {
            size = 2 * size + 8192;
            unsigned char *p = realloc(*out, size);
            if (!p)
                return no_memory(d);
            *out = p;
        }
        n = fread(*out + *len, 1, size - *len - 1, in);
        *len += n;
    } while (n);
    (*out)[*len] = 0;
    return ferror(in) ? lladd_error_set(&d->err, LLADD_NO_ACCESS, "%s: %s", name, strerror(errno))
                      : 0;
}

static int read_text(struct tabling *d, const char *name, char **out)
{
    unsigned char *bytes = NULL;
    size_t len = 0;
    FILE *in = strcmp(name, "-") == 0 ? stdin : fopen(name, "r");
    if (!in)
        return lladd_error_set(&d->err, LLADD_NO_ACCESS, "%s: %s", name, strerror(errno));
    int rc = read_all(d, in, name, &bytes, &len);
    if (!rc && strlen((char *)bytes) != len)
        rc = lladd_error_set(&d->err, LLADD_BAD_CONFIG, "%s: it contains a zero byte", name);
    if (in != stdin)
        (void)fclose(in); /* the file was only read */
    if (rc)
        free(bytes);
    else
        *out = (char *)bytes;
    return rc;
}

static int take_text(struct tabling *d, const char *name, char **out)
{
    free(*out);
    *out = NULL;
    return read_text(d, name, out) ? (void)tool_fail(d->t, "%s", d->err.message), -1 : 0;
}

static int take_group(struct tabling *d, const char *value)
{
    struct tabling_group *groups = realloc(d->groups, (d->n_groups + 1) * sizeof *groups);
    const char *file = strchr(value, '=');
    if (!groups)
        return (void)tool_fail(d->t, "out of memory"), -1;
    d->groups = groups;
    if (!file)
        return (void)tool_fail(d->t, "--group: expected COLUMNS=FILE, not \"%s\"", value), -1;
    struct tabling_group *g = &groups[d->n_groups];
    *g = (struct tabling_group){.names = strndup(value, (size_t)(file - value))};
    if (!g->names)
        return (void)tool_fail(d->t, "out of memory"), -1;
    d->n_groups++;
    return take_text(d, file + 1, &g->config);
}

static int take_names(struct tabling *d, const char *value)
{
    free(d->names);
    d->names = strdup(value);
    return d->names ? 0 : ((void)tool_fail(d->t, "out of memory"), -1);
}

static int take_word(const struct tabling *d, const char *what, const char *value,
                     const char *const *words, int n, int *out)
{
    for (*out = 0; *out < n; ++*out)
        if (words[*out] && strcmp(words[*out], value) == 0)
            return 0;
    (void)tool_fail(d->t, "%s: there is no \"%s\"", what, value);
    return -1;
}

/* Returns the LLADD_MANAGED_ flag of the table option that a command-line option sets; 0: none. */
static unsigned option_of(int option)
{
    switch (option) {
    case CONFIG:
        return LLADD_MANAGED_CONFIG;
    case COMBINE_CONFIG:
        return LLADD_MANAGED_COMBINE_CONFIG;
    case SCHEDULE:
        return LLADD_MANAGED_SCHEDULE;
    case EVERY:
        return LLADD_MANAGED_EVERY;
    case MEMORY:
        return LLADD_MANAGED_MEMORY_BYTES;
    case ROWS:
        return LLADD_MANAGED_ROWS;
    case INTERVAL:
        return LLADD_MANAGED_INTERVAL;
    case BLOCK_BYTES:
        return LLADD_MANAGED_BLOCK_BYTES;
    default:
        return 0;
    }
}

static int take_interval(struct tabling *d, const char *value)
{
    enum { NANOSECONDS = 1000000000 };
    if (!tool_number_in("--interval", value, 0, UINT32_MAX, &d->interval))
        return -1;
    d->interval *= NANOSECONDS;
    return 0;
}

static int take(void *ctx, int option, const char *value)
{
    static const char *const schedules[] = {"ruler", "tiered", "never", "levels"};
    static const char *const purposes[] = {"table", "column", "run"};
    static const char *const types[] = {NULL, "u32", "u64", "double", "string", "bytes"};
    struct tabling *d = ctx;
    int word, rc;
    d->given |= option_of(option);
    switch (option) {
    case HEX:
        d->hex = true;
        return 0;
    case CSV:
        d->csv = true;
        return 0;
    case SALVAGE:
        d->salvage = true;
        return 0;
    case COMBINE:
        d->combine = true;
        return 0;
    case GRAPH:
        d->graph = true;
        return 0;
    case UNLOGGED:
        d->unlogged = true;
        return 0;
    case RANGE: /* the option selects the verb */
        return 0;
    case KEY:
        rc = take_word(d, "--key", value, types, 6, &word);
        d->type = rc ? d->type : (enum lladd_dtable_type)word;
        return rc;
    case SCHEDULE:
        rc = take_word(d, "--schedule", value, schedules, 4, &word);
        d->schedule = rc ? d->schedule : (enum lladd_managed_schedule)word;
        return rc;
    case FOR:
        return take_word(d, "--for", value, purposes, 3, &d->purpose);
    case CONFIG:
        return take_text(d, value, &d->config);
    case COMBINE_CONFIG:
        return take_text(d, value, &d->combine_config);
    case KEYS:
        return take_text(d, value, &d->keys_config);
    case COLUMNS:
        return take_names(d, value);
    case GROUP:
        return take_group(d, value);
    case EVERY:
        return tool_number_in("--every", value, 0, UINT32_MAX, &d->every) ? 0 : -1;
    case MEMORY:
        return tool_number("--memory", value, &d->memory) ? 0 : -1;
    case ROWS:
        return tool_number("--rows", value, &d->max_rows) ? 0 : -1;
    case INTERVAL:
        return take_interval(d, value);
    case BLOCK_BYTES:
        return tool_number_in("--block-bytes", value, 0, UINT32_MAX, &d->block_bytes) ? 0 : -1;
    case BATCH:
        return tool_number_in("--batch", value, 1, UINT64_MAX, &d->batch) ? 0 : -1;
    default:
        return -1;
    }
}

static struct lladd_span span_of(const char *text)
{
    return (struct lladd_span){text, strlen(text)};
}

/* ---- transactions ---------------------------------------------------------------------------- */

static int of_txn(struct tabling *d, int rc)
{
    if (rc)
        d->err = *lladd_txn_error(d->txn);
    return rc;
}

static int begin(struct tabling *d)
{
    int rc = lladd_begin(d->db, NULL, &d->txn, &d->err);
    return rc || !d->table ? rc : of_txn(d, lladd_managed_table(d->txn, d->table, &d->rows));
}

/* Commits; aborts if rc is an error, or if the commit fails. If the commit or the abort finds the
 * handle poisoned, reports the error that has poisoned the handle. */
static int end(struct tabling *d, int rc)
{
    if (!d->txn)
        return rc;
    if (!rc) {
        rc = lladd_commit(d->txn);
        if (!rc || lladd_code_root(rc) == LLADD_ROOT_POISONED) {
            d->txn = NULL;
            if (rc)
                (void)lladd_db_error(d->db, &d->err); /* the error of the handle is the cause of
                                                       * rc */
            return rc;
        }
        d->err = *lladd_txn_error(d->txn);
    }
    int undone = lladd_abort(d->txn);
    d->txn = NULL;
    if (undone)
        (void)lladd_db_error(d->db, &d->err);
    return undone ? undone : rc;
}

static int open_table(struct tabling *d, const char *name)
{
    int rc = strlen(name) <= LLADD_CTABLE_NAME_MAX
                 ? lladd_ctable_open(d->db, name, &d->columns, &d->err)
                 : LLADD_WRONG_TYPE;
    d->table = rc ? NULL : lladd_ctable_managed(d->columns);
    if (rc == LLADD_WRONG_TYPE) {
        d->columns = NULL;
        rc = lladd_managed_open(d->db, name, &d->table, &d->err);
    }
    return rc == LLADD_NOT_FOUND ? LLADD_BAD_ARGUMENT : rc; /* a missing file or table must not be
                                                             * reported as a missing key */
}

/* Closes the table. Returns rc, or the error of the close if rc is 0. */
static int close_table(struct tabling *d, int rc)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    int closed = lladd_managed_close(d->table, &err); /* closes the cTable, too */
    d->table = NULL;
    d->columns = NULL;
    free(d->chosen);
    d->chosen = NULL;
    if (!rc && closed)
        d->err = err;
    return rc ? rc : closed;
}

/* Opens the table and runs `what` in a transaction. */
static int with_table(struct tabling *d, const char *name, bool writes,
                      int (*what)(struct tabling *))
{
    int rc = open_table(d, name);
    if (rc)
        return rc;
    if (d->names && !d->columns)
        rc = lladd_error_set(&d->err, LLADD_BAD_ARGUMENT, "table \"%s\" has no columns", name);
    if (!rc && writes)
        rc = tabling_writable(d, name);
    if (!rc)
        rc = begin(d);
    return close_table(d, end(d, rc ? rc : what(d)));
}

/* ---- reading --------------------------------------------------------------------------------- */

static int show(struct tabling *d, const struct lladd_dtable_key *key, struct lladd_span value)
{
    tabling_write_value(d, key, value);
    return 0;
}

/* Looks up the key of the command line and passes the row to `use`. Returns LLADD_NOT_FOUND if
 * there is no row. */
static int find(struct tabling *d, int (*use)(struct tabling *, const struct lladd_dtable_key *,
                                              struct lladd_span value))
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value value;
    struct lladd_dtable_key key;
    struct lladd_span text = span_of(d->t->argv[1]);
    unsigned char *room = malloc(text.len + 1);
    if (!room)
        return no_memory(d);
    int rc = tabling_key(d, text, room, &key) ? 0 : d->err.code;
    if (!rc && d->columns && use == show) {
        rc = tabling_get_columns(d, &key);
        free(room);
        return rc;
    }
    if (!rc)
        rc = of_txn(d, lladd_managed_lookup(d->txn, d->table, &key, &pin, &value));
    if (!rc && value.state != LLADD_DTABLE_FOUND)
        rc = LLADD_NOT_FOUND;
    if (!rc)
        rc = use(d, &key, value.bytes);
    lladd_dtable_unpin(&pin);
    free(room);
    return rc;
}

static int get(struct tabling *d)
{
    return find(d, show);
}

static int stat_one(struct tabling *d)
{
    return d->graph ? tabling_graph(d, d->t->argv[0]) : tabling_stat(d, d->t->argv[0]);
}

struct names {
    char **at;
    size_t n;
};

static int note_name(void *ctx, const char *name)
{
    struct names *all = ctx;
    char **at = realloc(all->at, (all->n + 1) * sizeof *at);
    if (!at)
        return LLADD_NO_MEMORY;
    all->at = at;
    at[all->n] = strdup(name);
    return at[all->n++] ? 0 : LLADD_NO_MEMORY;
}

/* Prints one table, or all tables. */
static int stat_all(struct tabling *d)
{
    struct names all = {NULL, 0};
    char **given = d->t->argv;
    int rc = 0;
    if (d->graph)
        tabling_graph_begin();
    if (d->t->argc)
        rc = with_table(d, given[0], false, stat_one);
    else if (lladd_managed_each(d->db, note_name, &all, &d->err))
        rc = d->err.code ? d->err.code : no_memory(d);
    for (size_t i = 0; i < all.n; i++) {
        d->t->argv = &all.at[i];
        if (!rc)
            rc = with_table(d, all.at[i], false, stat_one);
        free(all.at[i]);
    }
    d->t->argv = given;
    free(all.at);
    if (d->graph)
        tabling_graph_end();
    return rc;
}

/* ---- changes --------------------------------------------------------------------------------- */

static int put_one(struct tabling *d, struct lladd_span key_text, const struct lladd_span *value)
{
    struct lladd_dtable_key key;
    struct lladd_dtable_value v = lladd_dtable_tombstone();
    unsigned char *room = malloc(key_text.len + (value ? value->len : 0) + 2);
    if (!room)
        return no_memory(d);
    int rc = tabling_key(d, key_text, room, &key) ? 0 : d->err.code;
    if (!rc && value) {
        v.state = LLADD_DTABLE_FOUND;
        rc = tabling_bytes(d, *value, room + key_text.len + 1, &v.bytes) ? 0 : d->err.code;
    }
    if (!rc)
        rc = of_txn(d, lladd_managed_put(d->txn, d->table, &key, &v));
    free(room);
    return rc;
}

/* Sets the columns of a row that the command line names. */
static int put_columns(struct tabling *d)
{
    struct lladd_dtable_key key;
    struct lladd_span text = span_of(d->t->argv[1]);
    unsigned char *room = malloc(text.len + 1);
    if (!room)
        return no_memory(d);
    int rc = tabling_key(d, text, room, &key) ? tabling_put_columns(d, &key) : d->err.code;
    free(room);
    return rc;
}

static int put(struct tabling *d)
{
    const struct tool *t = d->t;
    unsigned char *bytes = NULL;
    size_t len = 0;
    struct lladd_span value;
    int rc = 0;
    if (d->columns)
        return put_columns(d);
    if (t->argc > 3)
        return lladd_error_set(&d->err, LLADD_BAD_ARGUMENT, "table \"%s\" has no columns",
                               t->argv[0]);
    if (t->argc > 2) {
        value = span_of(t->argv[2]);
    } else {
        rc = read_all(d, stdin, "standard input", &bytes, &len);
        while (!rc && d->hex && len && strchr("\r\n", bytes[len - 1]))
            len--;
        value = (struct lladd_span){bytes, len};
    }
    if (!rc)
        rc = put_one(d, span_of(t->argv[1]), &value);
    free(bytes);
    return rc;
}

static int take_away(struct tabling *d, const struct lladd_dtable_key *key, struct lladd_span value)
{
    struct lladd_dtable_value gone = lladd_dtable_tombstone();
    (void)value;
    return of_txn(d, lladd_managed_put(d->txn, d->table, key, &gone));
}

static int del(struct tabling *d)
{
    return find(d, take_away);
}

/* Parses an end of the range if the argument is given and not empty; else sets *out to NULL. */
static int take_end(struct tabling *d, int arg, unsigned char **room, struct lladd_dtable_key *key,
                    const struct lladd_dtable_key **out)
{
    *out = NULL;
    if (arg >= d->t->argc || !*d->t->argv[arg])
        return 0;
    struct lladd_span text = span_of(d->t->argv[arg]);
    *room = malloc(text.len + 1);
    if (!*room)
        return no_memory(d);
    *out = key;
    return tabling_key(d, text, *room, key) ? 0 : d->err.code;
}

static int del_range(struct tabling *d)
{
    struct lladd_dtable_key keys[2];
    const struct lladd_dtable_key *from, *to = NULL;
    unsigned char *room[2] = {NULL, NULL};
    int rc = take_end(d, 1, &room[0], &keys[0], &from);
    if (!rc)
        rc = take_end(d, 2, &room[1], &keys[1], &to);
    if (!rc)
        rc = of_txn(d, lladd_managed_delete_range(d->txn, d->table, from, to));
    free(room[0]);
    free(room[1]);
    return rc;
}

static int put_row(struct tabling *d, const struct csv *c)
{
    struct lladd_span value;
    if (d->columns && !d->chosen)
        return tabling_put_header(d, c);
    if (d->columns)
        return tabling_put_fields(d, c);
    if (c->n > 2)
        return lladd_error_set(&d->err, LLADD_BAD_ARGUMENT, "the row has more than two fields");
    if (c->n == 2)
        value = csv_field(c, 1);
    return put_one(d, csv_field(c, 0), c->n == 2 ? &value : NULL);
}

/* Adds the line number to the message. */
static int at_line(struct tabling *d, const struct csv *c, int rc)
{
    char why[sizeof d->err.message];
    snprintf(why, sizeof why, "%s", d->err.message);
    return lladd_error_set(&d->err, rc, "line %llu: %s", (unsigned long long)c->line, why);
}

static int put_csv(struct tabling *d)
{
    struct csv c;
    enum csv_got got = CSV_ROW;
    int rc = 0;
    csv_begin(&c, stdin, LLADD_DTABLE_VALUE_MAX * (d->hex ? (size_t)2 : 1));
    while (!rc && (got = csv_read(&c)) == CSV_ROW) {
        if (c.n == 1 && c.end[0] == 0)
            continue; /* an empty line is not a row */
        rc = put_row(d, &c);
        if (rc) {
            rc = at_line(d, &c, rc);
            break;
        }
        tabling_tell_row(d);
        if (d->batch && d->done % d->batch == 0) {
            rc = end(d, 0);
            rc = rc ? rc : begin(d);
        }
    }
    if (!rc && got == CSV_WRONG) {
        lladd_error_set(&d->err, LLADD_BAD_ARGUMENT, "%s", c.wrong);
        rc = at_line(d, &c, LLADD_BAD_ARGUMENT);
    }
    csv_free(&c);
    return rc;
}

/* Runs `what` on an empty database in memory, because the dTable classes are registered only with a
 * handle. */
static int in_memory(struct tabling *d, int (*what)(struct tabling *))
{
    struct lladd_options o = d->t->options;
    struct lladd_device *memory;
    if (lladd_device_memory(&memory))
        return no_memory(d);
    o.device = memory;
    o.flags = LLADD_OPT_NO_THREADS;
    int rc = lladd_open(NULL, &o, &d->db, &d->err);
    if (!rc) {
        rc = what(d);
        lladd_db_kill(d->db);
    }
    d->db = NULL;
    lladd_device_close(memory);
    return rc;
}

static struct lladd_managed_options options_of(const struct tabling *d)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    o.type = d->type ? d->type : LLADD_DTABLE_STRING;
    o.config = d->config;
    o.combine_config = d->combine_config;
    o.schedule = d->schedule;
    o.every = (uint32_t)d->every;
    o.memory_bytes = d->memory;
    o.rows = d->max_rows;
    o.interval_ns = d->interval;
    o.block_bytes = (uint32_t)d->block_bytes;
    o.flags = d->unlogged ? LLADD_MANAGED_UNLOGGED : 0;
    return o;
}

static int create(struct tabling *d)
{
    struct lladd_managed_options o = options_of(d);
    int rc = begin(d);
    if (!rc)
        rc = d->names ? tabling_create(d, &o)
                      : of_txn(d, lladd_managed_create(d->txn, d->t->argv[0], &o));
    return end(d, rc);
}

/* Changes the options given on the command line. All groups and both configurations are replaced
 * together. */
static int alter_table(struct tabling *d)
{
    struct lladd_managed_options o = options_of(d);
    bool groups = d->n_groups || d->keys_config;
    int rc = open_table(d, d->t->argv[0]);
    if (rc)
        return rc;
    if (!d->given && !groups)
        rc = lladd_error_set(&d->err, LLADD_BAD_ARGUMENT, "no option to change is given");
    if (!rc && d->unlogged)
        rc = lladd_error_set(&d->err, LLADD_BAD_ARGUMENT,
                             "--unlogged is an option of create: it cannot be changed");
    if (!rc && groups && !d->columns)
        rc = lladd_error_set(&d->err, LLADD_BAD_ARGUMENT, "table \"%s\" has no columns",
                             d->t->argv[0]);
    if (!rc)
        rc = groups ? tabling_alter(d, &o)
                    : lladd_managed_alter(d->table, d->given, &o, &d->err);
    return close_table(d, rc);
}

/* Digests all committed rows, and does the combines that are then due. */
static int maintain(struct tabling *d)
{
    bool more = true;
    int rc = open_table(d, d->t->argv[0]);
    if (rc)
        return rc;
    tool_progress(d->t, "flushing the journal", 0, 0);
    rc = lladd_managed_digest(d->table, &d->err);
    if (!rc && d->combine) {
        tool_progress(d->t, "compacting all runs", 0, 0);
        rc = lladd_managed_combine(d->table, 0, &d->err);
    }
    for (uint64_t steps = 0; !rc && more; steps++) {
        tool_progress(d->t, "compacting runs", steps, 0);
        rc = lladd_managed_maintain(d->table, &more, &d->err);
    }
    return close_table(d, rc);
}

/* ---- config-check ---------------------------------------------------------------------------- */

static int print_text(void *ctx, const void *bytes, size_t len)
{
    (void)ctx;
    return fwrite(bytes, 1, len, stdout) == len ? 0 : LLADD_NO_ACCESS;
}

/* Checks a configuration file; FILE is the argument where other verbs have DIRECTORY. */
static int check_file(struct tabling *d)
{
    struct lladd_sink sink = {.ctx = NULL, .write = print_text};
    struct lladd_dtable_config *c = NULL;
    char *text = NULL;
    int rc = read_text(d, d->t->dir, &text);
    if (rc)
        return rc;
    rc = lladd_dtable_config_parse(d->db, text, &c, &d->err);
    if (!rc)
        rc = lladd_dtable_config_check(c, d->type, &d->err);
    if (!rc && d->purpose != FOR_RUN)
        rc = lladd_dtable_config_settled(c, &d->err);
    if (!rc && d->purpose == FOR_TABLE)
        rc = lladd_dtable_config_deletes(c, &d->err);
    if (!rc) {
        rc = lladd_dtable_config_print(c, &sink);
        putchar('\n');
    }
    lladd_dtable_config_free(c);
    free(text);
    return rc;
}

static int config_check(struct tabling *d)
{
    return in_memory(d, check_file);
}

/* ---- the verbs ------------------------------------------------------------------------------- */

enum how { LOOK, ALTER, MAKE, ALONE };

static const struct verb {
    const char *name, *full;
    int wanted, more;
    enum how how;
    int (*run)(struct tabling *);
    bool whole; /* the verb opens the tables itself */
} verbs[] = {{"create", "dtable create", 1, 0, MAKE, create, true},
             {"put", "dtable put", 2, LLADD_DTABLE_COLUMNS_MAX, ALTER, put, false},
             {"put", "dtable put --csv", 1, 0, ALTER, put_csv, false},
             {"get", "dtable get", 2, 0, LOOK, get, false},
             {"del", "dtable del", 2, 0, ALTER, del, false},
             {"del", "dtable del --range", 1, 2, ALTER, del_range, false},
             {"scan", "dtable scan", 1, 2, LOOK, tabling_scan, false},
             {"maintain", "dtable maintain", 1, 0, ALTER, maintain, true},
             {"alter", "dtable alter", 1, 0, ALTER, alter_table, true},
             {"stat", "dtable stat", 0, 1, LOOK, stat_all, true},
             {"page", "dtable page", 2, 0, LOOK, tabling_page, false},
             {"config-check", "dtable config-check", 0, 0, ALONE, config_check, true}};

static int run(struct tabling *d, const struct verb *v)
{
    return v->whole ? v->run(d) : with_table(d, d->t->argv[0], v->how == ALTER, v->run);
}

static int not_found(const struct tabling *d)
{
    if (d->t->json)
        tool_json_print(json_pack("{s:n}", "value"), false);
    return TOOL_FINDINGS;
}

static int look(struct tabling *d, const struct verb *v)
{
    struct tool_peek peek;
    if ((d->salvage ? tool_peek_damaged : tool_peek)(d->t, &peek, &d->err))
        return tabling_failed(d);
    d->db = peek.db;
    int rc = run(d, v);
    tool_peek_end(&peek);
    if (rc)
        return rc == LLADD_NOT_FOUND ? not_found(d) : tabling_failed(d);
    return d->left_out ? TOOL_FINDINGS : TOOL_FINE;
}

static int alter(struct tabling *d, const struct verb *v)
{
    int rc = v->how == MAKE ? in_memory(d, v->run) : 0; /* checks the table's options before a
                                                         * database is made */
    if (!rc)
        rc = v->how == MAKE && !d->t->from
                 ? lladd_open(d->t->dir, &d->t->options, &d->db, &d->err)
                 : tool_open(d->t, &d->db, &d->err);
    if (rc)
        return tabling_failed(d);
    rc = run(d, v);
    int closed = lladd_close(d->db);
    if (rc)
        return rc == LLADD_NOT_FOUND ? not_found(d) : tabling_failed(d);
    if (closed)
        return tool_fail(d->t,
                         "%s: the verb succeeded, but the database was not closed cleanly (%s)",
                         d->t->dir, lladd_code_name(closed));
    return TOOL_FINE;
}

static bool has(int argc, char **argv, const char *option)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], option) == 0)
            return true;
    return false;
}

/* The verb of this name. Of two verbs with the same name, the one with an option in its full name
 * is chosen if that option is given. */
static const struct verb *verb_of(const char *what, int argc, char **argv)
{
    const struct verb *found = NULL;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        const char *option = strstr(verbs[i].full, "--");
        if (strcmp(what, verbs[i].name) == 0 && (!option || has(argc, argv, option)))
            found = &verbs[i];
    }
    return found;
}

int tool_dtable(int argc, char **argv)
{
    static const char which[] = "create, put, get, del, scan, maintain, alter, stat, page or "
                                "config-check";
    struct tool t = {.verb = "dtable", .usage = usage};
    struct tabling d = {.t = &t, .err = LLADD_ERROR_INIT};
    int code;
    const char *what = argc > 1 ? argv[1] : "";
    const struct verb *v = verb_of(what, argc, argv);
    if (!v && *what != '-')
        return tool_fail(&t, "expected %s, not \"%s\"", which, what);
    if (v) {
        t.verb = v->full;
        t.more = v->more;
    }
    if (tool_parse(&t, v ? argc - 1 : argc, v ? argv + 1 : argv, options, take, &d,
                   v ? v->wanted : 0, &code))
        goto end;
    if (!v)
        code = tool_fail(&t, "expected %s", which);
    else if (v->how == ALONE)
        code = config_check(&d) ? tabling_failed(&d) : TOOL_FINE;
    else
        code = v->how == LOOK ? look(&d, v) : alter(&d, v);
end:
    free(d.config);
    free(d.combine_config);
    free(d.keys_config);
    free(d.names);
    for (size_t i = 0; i < d.n_groups; i++) {
        free(d.groups[i].names);
        free(d.groups[i].config);
    }
    free(d.groups);
    return tool_end(&t, code);
}
