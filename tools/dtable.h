/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_DTABLE_H
#define TOOLS_DTABLE_H
/* Declarations for the files of `lladd dtable`. */
#include "tool.h"

#include <lladd/ctable.h>

struct csv;

/* An option --group: the names of the columns, separated by commas, and the contents of the
 * file. */
struct tabling_group {
    char *names, *config;
};

/* Values of --for: what a configuration is for. */
enum { FOR_TABLE, FOR_COLUMN, FOR_RUN };

struct tabling {
    struct tool *t;
    bool hex, csv, graph, combine, salvage;
    bool left_out; /* with --salvage: rows were left out because they could not be read */
    enum lladd_dtable_type type; /* --key; 0: not given */
    uint64_t every, memory, max_rows, interval, batch; /* `interval` is in nanoseconds */
    uint64_t block_bytes;
    bool unlogged;
    unsigned given; /* LLADD_MANAGED_... flags of the table options on the command line */
    enum lladd_managed_schedule schedule;
    int purpose; /* FOR_TABLE, FOR_COLUMN or FOR_RUN */
    /* The contents of the files that --config, --combine-config and --keys name; owned by the
     * struct. */
    char *config, *combine_config, *keys_config;
    char *names;                                 /* the text of --columns; owned by the struct */
    struct tabling_group *groups;
    size_t n_groups;
    struct lladd_db *db;
    struct lladd_managed *table;
    struct lladd_ctable *columns; /* the open cTable; NULL: the table is not a cTable */
    uint32_t *chosen;             /* numbers of the chosen columns */
    size_t n_chosen;
    const struct lladd_dtable *rows; /* the rows as the transaction sees them */
    uint64_t done;                   /* number of rows read or written, to show the progress */
    struct lladd_txn *txn;
    struct lladd_error err;
};

/* Counts a row that was read or written, and shows the progress. */
void tabling_tell_row(struct tabling *);
/* Reports the error in `err`. Returns the exit code. */
int tabling_failed(struct tabling *);
/* Returns LLADD_BAD_STATE if the open table is unlogged: only the program that has its source can
 * write to it. */
int tabling_writable(struct tabling *, const char *name);

/* ---- dtable_rows.c: keys and values as text -------------------------------------------------- */

/* Parses a key. `room` must be one byte longer than the text. If the table's keys are bytes or
 * strings and --hex is given, the key's bytes are stored in `room`. Otherwise the key's bytes are
 * those of the text. Returns false if the text is not a key; `err` then has the reason. */
bool tabling_key(struct tabling *, struct lladd_span text, unsigned char *room,
                 struct lladd_dtable_key *);
/* Parses a value. `room` must be one byte longer than the text. With --hex the value's bytes are
 * stored in `room`; otherwise they are those of the text. Returns false if the text is not a value;
 * `err` then has the reason. */
bool tabling_bytes(struct tabling *, struct lladd_span text, unsigned char *room,
                   struct lladd_span *);
/* These functions write parts of a row: as text in the form of --csv or --hex, or as JSON. */
void tabling_write_bytes(const struct tabling *, struct lladd_span);
void tabling_write_key(const struct tabling *, const struct lladd_dtable_key *);
json_t *tabling_json_key(const struct tabling *, const struct lladd_dtable_key *);
/* Writes a row to standard output, in the form of --csv, --json or --hex. */
void tabling_write(const struct tabling *, const struct lladd_dtable_key *, struct lladd_span);
/* Writes the result of a lookup: with --json or --csv the row, otherwise only the value. */
void tabling_write_value(const struct tabling *, const struct lladd_dtable_key *,
                         struct lladd_span);

/* ---- dtable_columns.c: cTables --------------------------------------------------------------- */

/* Makes the table in the current transaction, with the columns that --columns names. */
int tabling_create(struct tabling *, const struct lladd_managed_options *);
/* Changes the open cTable: its groups, the configuration of its keys, and the options in
 * `given`. */
int tabling_alter(struct tabling *, const struct lladd_managed_options *);
/* Sets the chosen columns: the columns that --columns names, or all columns. */
int tabling_choose(struct tabling *);
/* Sets columns of a row from the arguments after the key: COLUMN=VALUE, or COLUMN to remove the
 * column's value. */
int tabling_put_columns(struct tabling *, const struct lladd_dtable_key *);
/* tabling_put_header reads the first line of CSV, which names the columns; tabling_put_fields reads
 * one of the other lines, and changes its row. */
int tabling_put_header(struct tabling *, const struct csv *);
int tabling_put_fields(struct tabling *, const struct csv *);
/* Prints the chosen columns of a row. LLADD_NOT_FOUND: the row does not exist, or the only chosen
 * column has no value. */
int tabling_get_columns(struct tabling *, const struct lladd_dtable_key *);
void tabling_write_header(const struct tabling *);
void tabling_write_columns(const struct tabling *, const struct lladd_dtable_key *,
                           const struct lladd_dtable_value *);

/* ---- dtable_scan.c --------------------------------------------------------------------------- */

/* Prints the rows in the range of keys on the command line. */
int tabling_scan(struct tabling *);

/* ---- dtable_page.c --------------------------------------------------------------------------- */

/* Prints a page of columns of the open table; the command line has its number. */
int tabling_page(struct tabling *);

/* ---- dtable_stat.c --------------------------------------------------------------------------- */

/* Prints the parts and sizes of an open table. Returns a code of the library. */
int tabling_stat(struct tabling *, const char *name);
/* Reads the table's statistics and its runs, the newest first. The caller frees *runs; NULL: there
 * are no runs. Returns a code of the library. */
int tabling_runs(struct tabling *, struct lladd_managed_stats *, struct lladd_managed_run **runs);
/* These functions print the parts and sizes as a graph for Graphviz. Call `begin` once, then the
 * second function for each table, then `end` once. */
void tabling_graph_begin(void);
int tabling_graph(struct tabling *, const char *name);
void tabling_graph_end(void);

#endif
