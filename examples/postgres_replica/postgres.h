/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection to PostgreSQL: its tables, a slot, and the messages of the slot. */
#ifndef POSTGRES_H
#define POSTGRES_H
#include <lladd/replica.h>
#include <libpq-fe.h>

#define TRY(call) \
    do { \
        int try_rc = (call); \
        if (try_rc) \
            return try_rc; \
    } while (0)

/* A column of a row, as text that need not end with a zero byte; NULL: SQL's NULL. */
struct field {
    const char *text;
    size_t len;
};

/* A table of the publication. The strings belong to struct postgres. */
struct table {
    uint32_t oid;
    const char *name;    /* of the managed table */
    const char *query;   /* selects all rows, with the columns that pgoutput sends */
    const char *columns; /* "name type,...", with the OIDs of the types: what is compared with the
                          * relation messages */
    unsigned fields, key; /* number of columns, and which of them is the primary key */
    bool number;          /* the key is an integer */
};

struct postgres {
    PGconn *c;
    PGresult *catalog; /* owns the strings of the tables */
    struct table *tables;
    size_t n;
    char source[200]; /* identifies the cluster and the database */
};

/* Connects, and reads which tables the publication has. */
int postgres_open(struct postgres *, const char *conninfo, const char *publication,
                  struct lladd_error *);
void postgres_close(struct postgres *);

/* Begins a transaction, and makes the slot anew. The transaction sees all tables as they are at
 * *lsn, where the slot begins. */
int postgres_slot(struct postgres *, const char *slot, uint64_t *lsn, struct lladd_error *);
typedef int row_fn(void *ctx, const struct table *, const struct field *, struct lladd_error *);
/* Passes all rows of a table to `fn`. */
int postgres_rows(struct postgres *, const struct table *, row_fn *, void *ctx,
                  struct lladd_error *);
/* Ends the transaction. */
int postgres_commit(struct postgres *, struct lladd_error *);

/* Gets the LSN from which on the slot has all transactions. */
int postgres_confirmed(struct postgres *, const char *slot, uint64_t *lsn, struct lladd_error *);
/* Begins to stream the transactions with commit records at `from` or later. */
int postgres_stream(struct postgres *, const char *slot, const char *publication, uint64_t from,
                    struct lladd_error *);
/* Gets the next message; the caller frees it with PQfreemem. Without `wait`, *message is NULL if
 * there is none now. */
int postgres_next(struct postgres *, bool wait, char **message, size_t *len,
                  struct lladd_error *);
/* Tells the server what was received, and what it may forget. */
int postgres_status(struct postgres *, uint64_t received, uint64_t durable, struct lladd_error *);

#endif
