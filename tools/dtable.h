/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_DTABLE_H
#define TOOLS_DTABLE_H
/* What the files of `lladd dtable` share. */
#include "tool.h"

#include <lladd/ctable.h>

struct csv;

/* --group: columns, and the configuration of their table. */
struct tabling_group {
    char *names, *config;
};

/* The purpose of a configuration. */
enum { FOR_TABLE, FOR_COLUMN, FOR_RUN };

struct tabling {
    struct tool *t;
    bool hex, csv, graph, combine, salvage;
    bool left_out; /* with --salvage: rows that cannot be read */
    enum lladd_dtable_type type; /* --key; 0: not given */
    uint64_t every, memory, max_rows, interval, batch; /* interval: nanoseconds */
    unsigned given; /* LLADD_MANAGED_...: options that alter changes */
    enum lladd_managed_schedule schedule;
    int purpose; /* --for */
    char *config, *combine_config, *keys_config; /* owned: the contents of the files */
    char *names;                                 /* --columns; owned */
    struct tabling_group *groups;
    size_t n_groups;
    struct lladd_db *db;
    struct lladd_managed *table;
    struct lladd_ctable *columns; /* the open cTable; NULL: it is not a cTable */
    uint32_t *chosen;             /* of its columns */
    size_t n_chosen;
    const struct lladd_dtable *rows; /* the rows as the transaction sees them */
    uint64_t done;                   /* rows, to show the progress */
    struct lladd_txn *txn;
    struct lladd_error err;
};

/* Counts one more row that was read or written. */
void tabling_tell_row(struct tabling *);
/* Reports d->err; returns the exit code. */
int tabling_failed(struct tabling *);

/* ---- dtable_rows.c: keys and values as text -------------------------------------------------- */

/* Parses a key. Its bytes, if any, are stored in `room`, which is as long as the text. Returns
 * false if the text is no key, with the reason in d->err. */
bool tabling_key(struct tabling *, struct lladd_span text, unsigned char *room,
                 struct lladd_dtable_key *);
/* Parses bytes in the same way. */
bool tabling_bytes(struct tabling *, struct lladd_span text, unsigned char *room,
                   struct lladd_span *);
/* Write parts of a row, as --csv and --hex request, and as JSON. */
void tabling_write_bytes(const struct tabling *, struct lladd_span);
void tabling_write_key(const struct tabling *, const struct lladd_dtable_key *);
json_t *tabling_json_key(const struct tabling *, const struct lladd_dtable_key *);
/* Writes a row to standard output, as --csv, --json and --hex request. */
void tabling_write(const struct tabling *, const struct lladd_dtable_key *, struct lladd_span);
/* Writes the result of a lookup: the value only, unless --json is given. */
void tabling_write_value(const struct tabling *, const struct lladd_dtable_key *,
                         struct lladd_span);

/* ---- dtable_columns.c: cTables --------------------------------------------------------------- */

/* Makes the table in the transaction, with the columns that --columns names. */
int tabling_create(struct tabling *, const struct lladd_managed_options *);
/* Changes the groups of an open table, and its configurations. */
int tabling_alter(struct tabling *, const struct lladd_managed_options *);
/* Sets the chosen columns: those that --columns names, or all. */
int tabling_choose(struct tabling *);
/* Sets the columns from the arguments after the key: COLUMN=VALUE, or COLUMN to remove its value.
 */
int tabling_put_columns(struct tabling *, const struct lladd_dtable_key *);
/* Reads the first line of CSV, which names the columns, and the other lines. */
int tabling_put_header(struct tabling *, const struct csv *);
int tabling_put_fields(struct tabling *, const struct csv *);
/* LLADD_NOT_FOUND: there is no row, or the only column asked for has no value. */
int tabling_get_columns(struct tabling *, const struct lladd_dtable_key *);
void tabling_write_header(const struct tabling *);
void tabling_write_columns(const struct tabling *, const struct lladd_dtable_key *,
                           const struct lladd_dtable_value *);

/* ---- dtable_scan.c --------------------------------------------------------------------------- */

/* Prints the rows from one key to another, as the command line says. */
int tabling_scan(struct tabling *);

/* ---- dtable_stat.c --------------------------------------------------------------------------- */

/* Prints what an open table consists of; `first` of several. Returns the library's codes. */
int tabling_stat(struct tabling *, const char *name);
/* Print the same as a graph for Graphviz: begin, one call per table, end. */
void tabling_graph_begin(void);
int tabling_graph(struct tabling *, const char *name);
void tabling_graph_end(void);

#endif
