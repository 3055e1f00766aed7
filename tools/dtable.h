/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_DTABLE_H
#define TOOLS_DTABLE_H
/* What the files of `lladd dtable` share. */
#include "tool.h"

#include <lladd/ctable.h>

struct csv;

/* --group: columns, and the configuration of their layer. */
struct tabling_group {
    char *names, *config;
};

struct tabling {
    struct tool *t;
    bool hex, csv, graph, combine;
    enum lladd_dtable_type type; /* --key; 0: not given */
    uint64_t every, memory, batch;
    enum lladd_managed_schedule schedule;
    char *config, *combine_config, *keys_config; /* ours: the files' contents */
    char *names;                                 /* --columns; ours */
    struct tabling_group *groups;
    size_t n_groups;
    struct lladd_db *db;
    struct lladd_managed *table;
    struct lladd_ctable *columns; /* the same; NULL: it is no cTable */
    uint32_t *chosen;             /* of its columns */
    size_t n_chosen;
    const struct lladd_dtable *rows; /* as the transaction sees it */
    struct lladd_txn *txn;
    struct lladd_error err;
};

/* Says what is in d->err; the exit code. */
int tabling_failed(struct tabling *);

/* ---- dtable_rows.c: keys and values as text -------------------------------------------------- */

/* The key a text stands for, in `room` (as long as the text) if it has bytes. False: it is none,
 * and d->err says why. */
bool tabling_key(struct tabling *, struct lladd_span text, unsigned char *room,
                 struct lladd_dtable_key *);
/* The bytes a text stands for, likewise. */
bool tabling_bytes(struct tabling *, struct lladd_span text, unsigned char *room,
                   struct lladd_span *);
/* Parts of a row, as --csv and --hex say, and as JSON. */
void tabling_write_bytes(const struct tabling *, struct lladd_span);
void tabling_write_key(const struct tabling *, const struct lladd_dtable_key *);
json_t *tabling_json_key(const struct tabling *, const struct lladd_dtable_key *);
/* Writes a row to standard output, as --csv, --json and --hex say. */
void tabling_write(const struct tabling *, const struct lladd_dtable_key *, struct lladd_span);
/* What a lookup has found: the value alone, unless --json. */
void tabling_write_value(const struct tabling *, const struct lladd_dtable_key *,
                         struct lladd_span);

/* ---- dtable_columns.c: cTables --------------------------------------------------------------- */

/* In the transaction, with the columns that --columns names. */
int tabling_create(struct tabling *, const struct lladd_managed_options *);
/* The columns that --columns names, or all. */
int tabling_choose(struct tabling *);
/* COLUMN=VALUE, or COLUMN that has none any more, behind the key. */
int tabling_put_columns(struct tabling *, const struct lladd_dtable_key *);
/* The first line, which names the columns, and then the others. */
int tabling_put_header(struct tabling *, const struct csv *);
int tabling_put_fields(struct tabling *, const struct csv *);
/* LLADD_NOT_FOUND: there is no row, or no value where one column was asked for. */
int tabling_get_columns(struct tabling *, const struct lladd_dtable_key *);
int tabling_scan_columns(struct tabling *, const struct lladd_dtable_key *from,
                         const struct lladd_dtable_key *to);
void tabling_write_header(const struct tabling *);
void tabling_write_columns(const struct tabling *, const struct lladd_dtable_key *,
                           const struct lladd_dtable_value *);

/* ---- dtable_stat.c --------------------------------------------------------------------------- */

/* What there is of the open table; `first` of several. The codes of the library. */
int tabling_stat(struct tabling *, const char *name);
/* The same as a graph for Graphviz: begin, a table each, end. */
void tabling_graph_begin(void);
int tabling_graph(struct tabling *, const char *name);
void tabling_graph_end(void);

#endif
