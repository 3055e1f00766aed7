/* SPDX-License-Identifier: BSD-2-Clause */
#include "postgres.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const struct postgres *p, const char *what, struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_ACCESS, "%s: %.200s", what, PQerrorMessage(p->c));
}

/* Runs a command. *out (nullable) gets its result, which the caller clears. */
static int run(struct postgres *p, const char *sql, PGresult **out, struct lladd_error *err)
{
    PGresult *r = PQexec(p->c, sql);
    ExecStatusType status = PQresultStatus(r);
    int rc = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || status == PGRES_COPY_BOTH
                 ? 0
                 : failed(p, "PostgreSQL", err);
    if (out && !rc)
        *out = r;
    else
        PQclear(r);
    return rc;
}

/* Runs a command in which `format` has a %s for a quoted text. */
static int run_with(struct postgres *p, const char *format, char *quoted, PGresult **out,
                    struct lladd_error *err)
{
    size_t size = strlen(format) + (quoted ? strlen(quoted) : 0) + 1;
    char *sql = quoted ? malloc(size) : NULL;
    int rc = sql ? 0 : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    if (!rc) {
        (void)snprintf(sql, size, format, quoted);
        rc = run(p, sql, out, err);
    }
    free(sql);
    PQfreemem(quoted);
    return rc;
}

static char *literal(struct postgres *p, const char *text)
{
    return PQescapeLiteral(p->c, text, strlen(text));
}

static char *identifier(struct postgres *p, const char *text)
{
    return PQescapeIdentifier(p->c, text, strlen(text));
}

static uint64_t lsn_of(const char *text)
{
    char *end;
    uint64_t high = strtoull(text, &end, 16);
    return high << 32 | (*end == '/' ? strtoull(end + 1, NULL, 16) : 0);
}

/* ---- the connection and the tables ----------------------------------------------------------- */

/* pgoutput sends no generated columns. */
#define COLUMNS(what, separator) \
    "(SELECT string_agg(" what ", '" separator "' ORDER BY a.attnum) FROM pg_attribute a" \
    " WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '')"
#define COUNT(which) \
    "(SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0" \
    " AND NOT a.attisdropped AND a.attgenerated = ''" which ")"

static const char catalog[] =
    "SELECT c.oid,"
    " CASE n.nspname WHEN 'public' THEN c.relname ELSE n.nspname || '.' || c.relname END,"
    " format('SELECT %%s FROM ONLY %%I.%%I', " COLUMNS("quote_ident(a.attname)", ", ")
    ", n.nspname, c.relname), " COLUMNS("a.attname || ' ' || a.atttypid", ",") ", " COUNT("") ", "
    COUNT(" AND a.attnum < k.attnum") ","
    " k.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype),"
    " k.attnum IS NOT NULL AND c.relreplident IN ('d', 'f')"
    " FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname"
    " JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename"
    " LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary AND i.indnkeyatts = 1"
    " LEFT JOIN pg_attribute k ON k.attrelid = c.oid AND k.attnum = i.indkey[0]"
    " WHERE p.pubname = %s ORDER BY 2";

static int read_tables(struct postgres *p, const char *publication, struct lladd_error *err)
{
    TRY(run_with(p, catalog, literal(p, publication), &p->catalog, err));
    p->n = (size_t)PQntuples(p->catalog);
    p->tables = calloc(p->n + 1, sizeof *p->tables);
    if (!p->tables)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    for (int i = 0; i < (int)p->n; i++) {
        const PGresult *r = p->catalog;
        p->tables[i] = (struct table){.oid = (uint32_t)strtoul(PQgetvalue(r, i, 0), NULL, 10),
                                      .name = PQgetvalue(r, i, 1),
                                      .query = PQgetvalue(r, i, 2),
                                      .columns = PQgetvalue(r, i, 3),
                                      .fields = (unsigned)atoi(PQgetvalue(r, i, 4)),
                                      .key = (unsigned)atoi(PQgetvalue(r, i, 5)),
                                      .number = *PQgetvalue(r, i, 6) == 't'};
        if (*PQgetvalue(r, i, 7) != 't')
            return lladd_error_set(err, LLADD_BAD_STATE,
                                   "table %s needs a primary key of one column, and the replica "
                                   "identity DEFAULT or FULL",
                                   p->tables[i].name);
    }
    if (!p->n)
        return lladd_error_set(err, LLADD_NOT_FOUND, "publication %s has no tables", publication);
    return 0;
}

static int identify(struct postgres *p, struct lladd_error *err)
{
    PGresult *r;
    TRY(run(p, "IDENTIFY_SYSTEM", &r, err));
    (void)snprintf(p->source, sizeof p->source, "PostgreSQL %s, database %s", PQgetvalue(r, 0, 0),
                   PQgetvalue(r, 0, 3));
    PQclear(r);
    return 0;
}

int postgres_open(struct postgres *p, const char *conninfo, const char *publication,
                  struct lladd_error *err)
{
    /* rows are texts, so the settings that their form depends on are fixed */
    const char *const names[] = {"dbname", "replication", "client_encoding", "options", NULL};
    const char *const values[] = {conninfo, "database", "UTF8",
                                  "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC "
                                  "-c extra_float_digits=3 -c bytea_output=hex",
                                  NULL};
    *p = (struct postgres){.c = PQconnectdbParams(names, values, 1)};
    if (PQstatus(p->c) != CONNECTION_OK)
        return failed(p, "no connection", err);
    TRY(identify(p, err));
    return read_tables(p, publication, err);
}

void postgres_close(struct postgres *p)
{
    free(p->tables);
    PQclear(p->catalog);
    PQfinish(p->c);
}

/* ---- the first copy -------------------------------------------------------------------------- */

static int drop_slot(struct postgres *p, const char *slot, struct lladd_error *err)
{
    PGresult *r;
    TRY(run_with(p, "SELECT 1 FROM pg_replication_slots WHERE slot_name = %s", literal(p, slot), &r,
                 err));
    int there = PQntuples(r);
    PQclear(r);
    return there ? run_with(p, "DROP_REPLICATION_SLOT %s WAIT", identifier(p, slot), NULL, err) : 0;
}

int postgres_slot(struct postgres *p, const char *slot, uint64_t *lsn, struct lladd_error *err)
{
    PGresult *r;
    TRY(drop_slot(p, slot, err));
    TRY(run(p, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", NULL, err));
    TRY(run_with(p, "CREATE_REPLICATION_SLOT %s LOGICAL pgoutput USE_SNAPSHOT", identifier(p, slot),
                 &r, err));
    *lsn = lsn_of(PQgetvalue(r, 0, 1));
    PQclear(r);
    return 0;
}

static int pass_row(const PGresult *r, const struct table *t, struct field *fields, row_fn *fn,
                    void *ctx, struct lladd_error *err)
{
    for (int i = 0; i < (int)t->fields; i++)
        fields[i] = PQgetisnull(r, 0, i) ? (struct field){NULL, 0}
                                         : (struct field){PQgetvalue(r, 0, i),
                                                          (size_t)PQgetlength(r, 0, i)};
    return fn(ctx, t, fields, err);
}

int postgres_rows(struct postgres *p, const struct table *t, row_fn *fn, void *ctx,
                  struct lladd_error *err)
{
    struct field *fields = calloc(t->fields + 1, sizeof *fields);
    int rc = fields ? 0 : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    if (!rc && (!PQsendQuery(p->c, t->query) || !PQsetSingleRowMode(p->c)))
        rc = failed(p, t->name, err);
    for (PGresult *r; !rc && (r = PQgetResult(p->c)) != NULL; PQclear(r)) {
        if (PQresultStatus(r) == PGRES_SINGLE_TUPLE)
            rc = pass_row(r, t, fields, fn, ctx, err);
        else if (PQresultStatus(r) != PGRES_TUPLES_OK)
            rc = failed(p, t->name, err);
    }
    free(fields);
    return rc;
}

int postgres_commit(struct postgres *p, struct lladd_error *err)
{
    return run(p, "COMMIT", NULL, err);
}

/* ---- the stream ------------------------------------------------------------------------------ */

int postgres_confirmed(struct postgres *p, const char *slot, uint64_t *lsn,
                       struct lladd_error *err)
{
    PGresult *r;
    TRY(run_with(p, "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s",
                 literal(p, slot), &r, err));
    bool there = PQntuples(r) == 1;
    if (there)
        *lsn = lsn_of(PQgetvalue(r, 0, 0));
    PQclear(r);
    return there ? 0
                 : lladd_error_set(err, LLADD_OUT_OF_RANGE,
                                   "slot %s is gone: copy the tables anew", slot);
}

int postgres_stream(struct postgres *p, const char *slot, const char *publication, uint64_t from,
                    struct lladd_error *err)
{
    static const char format[] = "START_REPLICATION SLOT %s LOGICAL %" PRIX32 "/%" PRIX32
                                 " (proto_version '1', publication_names %%s)";
    char sql[400];
    char *name = identifier(p, slot), *list = identifier(p, publication);
    int n = name ? snprintf(sql, sizeof sql, format, name, (uint32_t)(from >> 32), (uint32_t)from)
                 : -1;
    int rc = n < 0 || n >= (int)sizeof sql || !list
                 ? lladd_error_set(err, LLADD_BAD_ARGUMENT, "the slot's name cannot be used")
                 : run_with(p, sql, literal(p, list), NULL, err);
    PQfreemem(name);
    PQfreemem(list);
    return rc;
}

int postgres_next(struct postgres *p, bool wait, char **message, size_t *len,
                  struct lladd_error *err)
{
    *message = NULL;
    int n = PQgetCopyData(p->c, message, !wait);
    if (n == 0 && !PQconsumeInput(p->c))
        return failed(p, "the connection", err);
    if (n == 0)
        n = PQgetCopyData(p->c, message, 1);
    if (n < 0) {
        PQclear(PQgetResult(p->c)); /* for its message */
        return failed(p, "the stream has ended", err);
    }
    *len = (size_t)n;
    return 0;
}

int postgres_status(struct postgres *p, uint64_t received, uint64_t durable,
                    struct lladd_error *err)
{
    const uint64_t numbers[] = {received, durable, durable, 0}; /* 0: a time, which is not used */
    char m[34] = {'r'};
    for (unsigned i = 0; i < 4; i++)
        for (unsigned k = 0; k < 8; k++)
            m[1 + 8 * i + k] = (char)(numbers[i] >> (56 - 8 * k));
    if (PQputCopyData(p->c, m, sizeof m) != 1 || PQflush(p->c))
        return failed(p, "the connection", err);
    return 0;
}
