/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TOOLS_DTABLE_H
#define TOOLS_DTABLE_H
/* What the files of `lladd dtable` share. */
#include "tool.h"

#include <lladd/dtable_managed.h>

struct tabling {
    struct tool *t;
    bool hex, csv, graph, combine;
    enum lladd_dtable_type type; /* --key; 0: not given */
    uint64_t every, memory, batch;
    enum lladd_managed_schedule schedule;
    char *config, *combine_config; /* ours: the files' contents */
    struct lladd_db *db;
    struct lladd_managed *table;
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
/* Writes a row to standard output, as --csv, --json and --hex say. */
void tabling_write(const struct tabling *, const struct lladd_dtable_key *, struct lladd_span);
/* What a lookup has found: the value alone, unless --json. */
void tabling_write_value(const struct tabling *, const struct lladd_dtable_key *,
                         struct lladd_span);

/* ---- dtable_stat.c --------------------------------------------------------------------------- */

/* What there is of the open table; `first` of several. The codes of the library. */
int tabling_stat(struct tabling *, const char *name);
/* The same as a graph for Graphviz: begin, a table each, end. */
void tabling_graph_begin(void);
int tabling_graph(struct tabling *, const char *name);
void tabling_graph_end(void);

#endif
