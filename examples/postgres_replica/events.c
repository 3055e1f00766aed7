/* SPDX-License-Identifier: BSD-2-Clause */
#include "events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void events_drop(struct events *e)
{
    for (size_t i = 0; i < e->n; i++)
        free(e->memory[i]);
    e->n = 0;
}

int events_apply(struct events *e, struct lladd_error *err)
{
    size_t done;
    int rc = e->n ? lladd_replica_apply(e->to, e->list, e->n, &done, err) : 0;
    events_drop(e);
    return rc;
}

/* Adds an event, and takes over `memory`, which its key and value are in. */
static int add(struct events *e, struct lladd_replica_event event, void *memory,
               struct lladd_error *err)
{
    e->list[e->n] = event;
    e->memory[e->n++] = memory;
    e->last = event.position;
    return e->n == EVENTS ? events_apply(e, err) : 0;
}

static int add_plain(struct events *e, enum lladd_replica_kind kind, uint64_t position,
                     uint64_t txn, struct lladd_error *err)
{
    return add(e, (struct lladd_replica_event){.kind = kind, .position = position, .txn = txn},
               NULL, err);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A field as in PostgreSQL's COPY; returns the end of what was written. */
static char *write_field(char *to, const struct field *f)
{
    static const char plain[] = "\b\f\n\r\t\v\\", escaped[] = "bfnrtv\\";
    if (!f->text) {
        memcpy(to, "\\N", 2);
        return to + 2;
    }
    for (size_t i = 0; i < f->len; i++) {
        const char *special = f->text[i] ? strchr(plain, f->text[i]) : NULL;
        if (special)
            *to++ = '\\';
        *to++ = special ? escaped[special - plain] : f->text[i];
    }
    return to;
}

static int bad(const struct events *e, const struct table *t, const char *what,
               struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_BAD_RECORD,
                           "table %s, transaction with the commit record at %" PRIX32 "/%" PRIX32
                           ": %s",
                           t->name, (uint32_t)(e->lsn >> 32), (uint32_t)e->lsn, what);
}

/* The key of a row; its bytes are those of the field. */
static int key_of(const struct events *e, const struct table *t, const struct field *f,
                  struct lladd_dtable_key *key, struct lladd_error *err)
{
    *key = (struct lladd_dtable_key){LLADD_DTABLE_STRING, 0, {f->text, f->len}};
    if (!f->text)
        return bad(e, t, "the primary key was not sent", err);
    if (!t->number)
        return 0;
    *key = lladd_dtable_u64(0);
    for (size_t i = 0; i < f->len; i++) {
        if (f->text[i] < '0' || f->text[i] > '9')
            return bad(e, t, "a negative key", err);
        key->number = 10 * key->number + (uint64_t)(f->text[i] - '0');
    }
    return 0;
}

/* PUT, or without `fields` DELETE, of a row. */
static int change(struct events *e, const struct table *t, const struct field *key,
                  const struct field *fields, struct lladd_error *err)
{
    struct lladd_replica_event event = {.kind = fields ? LLADD_REPLICA_PUT : LLADD_REPLICA_DELETE,
                                        .position = e->lsn + 1,
                                        .txn = e->xid,
                                        .table = t->name};
    TRY(key_of(e, t, key, &event.key, err));
    size_t size = key->len + 1;
    for (unsigned i = 0; fields && i < t->fields; i++)
        size += 2 * fields[i].len + 3; /* each byte may be escaped; \N, and a tab */
    char *memory = malloc(size), *at = memory;
    if (!memory)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    if (!t->number) {
        memcpy(memory, key->text, key->len);
        event.key.bytes.data = memory;
        at += key->len;
    }
    char *value = at;
    for (unsigned i = 0; fields && i < t->fields; i++) {
        if (i)
            *at++ = '\t';
        at = write_field(at, &fields[i]);
    }
    if (fields)
        event.after = lladd_dtable_value_of(value, (size_t)(at - value));
    return add(e, event, memory, err);
}

static int delete_all(struct events *e, const struct table *t, struct lladd_error *err)
{
    struct lladd_replica_event event = {.kind = LLADD_REPLICA_DELETE_RANGE,
                                        .position = e->lsn + 1,
                                        .txn = e->xid,
                                        .table = t->name};
    return add(e, event, NULL, err);
}

/* ---- messages -------------------------------------------------------------------------------- */

static int cut_off(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_BAD_RECORD, "a message of PostgreSQL cannot be read");
}

static int find(const struct events *e, uint64_t oid, const struct table **t,
                struct lladd_error *err)
{
    *t = NULL;
    for (size_t i = 0; i < e->from->n && !*t; i++)
        if (e->from->tables[i].oid == oid)
            *t = &e->from->tables[i];
    if (*t)
        return 0;
    return lladd_error_set(err, LLADD_BAD_RECORD,
                           "the stream has a table with the OID %" PRIu64
                           ", which the publication did not have at the start",
                           oid);
}

/* Reads the old row and the new one, whichever are there; *new_row: there is a new one. */
static int read_rows(const struct events *e, const struct table *t, struct reader *r,
                     struct sent *old, struct sent *now, bool *old_row, bool *new_row,
                     struct lladd_error *err)
{
    char kind = (char)read_number(r, 1);
    *old_row = kind == 'K' || kind == 'O';
    if (*old_row && !read_row(r, old, t->fields))
        return cut_off(err);
    bool whole = kind == 'O';
    if (*old_row && r->left)
        kind = (char)read_number(r, 1);
    *new_row = kind == 'N';
    if (*new_row && !read_row(r, now, t->fields))
        return cut_off(err);
    for (unsigned i = 0; *new_row && i < t->fields; i++) {
        if (now[i].same && (!whole || old[i].same))
            return bad(e, t,
                       "a long value that has not changed was not sent: ALTER TABLE ... REPLICA "
                       "IDENTITY FULL, and copy the tables anew",
                       err);
        if (now[i].same)
            now[i].field = old[i].field;
    }
    return 0;
}

static bool same_key(const struct field *a, const struct field *b)
{
    return a->text && b->text && a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* Turns the two rows into events. `rows` has room for two rows, `fields` for one. */
static int take_rows(struct events *e, const struct table *t, struct reader *r, struct sent *rows,
                     struct field *fields, struct lladd_error *err)
{
    struct sent *old = rows, *now = rows + t->fields;
    bool old_row, new_row;
    TRY(read_rows(e, t, r, old, now, &old_row, &new_row, err));
    const struct field *old_key = &old[t->key].field, *key = &now[t->key].field;
    if (old_row && !(new_row && same_key(old_key, key)))
        TRY(change(e, t, old_key, NULL, err));
    for (unsigned i = 0; new_row && i < t->fields; i++)
        fields[i] = now[i].field;
    return new_row ? change(e, t, key, fields, err) : 0;
}

/* INSERT, UPDATE and DELETE differ only in which rows they have. */
static int take_change(struct events *e, struct reader *r, struct lladd_error *err)
{
    const struct table *t;
    TRY(find(e, read_number(r, 4), &t, err));
    struct sent *rows = calloc(2 * t->fields + 1, sizeof *rows);
    struct field *fields = calloc(t->fields + 1, sizeof *fields);
    int rc = rows && fields ? take_rows(e, t, r, rows, fields, err)
                            : lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
    free(rows);
    free(fields);
    return rc;
}

static int take_truncate(struct events *e, struct reader *r, struct lladd_error *err)
{
    uint64_t n = read_number(r, 4);
    (void)read_number(r, 1); /* options, which do not concern a replica */
    for (uint64_t i = 0; i < n && !r->cut; i++) {
        const struct table *t;
        TRY(find(e, read_number(r, 4), &t, err));
        TRY(delete_all(e, t, err));
    }
    return 0;
}

static int take_relation(struct events *e, struct reader *r, struct lladd_error *err)
{
    const struct table *t;
    TRY(find(e, read_number(r, 4), &t, err));
    return same_relation(r, t)
               ? 0
               : bad(e, t, "its columns have changed: make the replica anew", err);
}

static int begin(struct events *e, struct reader *r, struct lladd_error *err)
{
    e->lsn = read_number(r, 8);
    (void)read_number(r, 8); /* the time */
    e->xid = read_number(r, 4);
    return r->cut ? 0 : add_plain(e, LLADD_REPLICA_BEGIN, e->lsn, e->xid, err);
}

static int commit(struct events *e, struct lladd_error *err)
{
    uint64_t position = e->lsn + 2;
    e->lsn = 0;
    return add_plain(e, LLADD_REPLICA_COMMIT, position, e->xid, err);
}

int events_take(struct events *e, const char *message, size_t len, struct lladd_error *err)
{
    struct reader r = {message, len, false};
    int rc = 0;
    switch (read_number(&r, 1)) {
    case 'B':
        rc = begin(e, &r, err);
        break;
    case 'C':
        rc = commit(e, err);
        break;
    case 'R':
        rc = take_relation(e, &r, err);
        break;
    case 'I':
    case 'U':
    case 'D':
        rc = take_change(e, &r, err);
        break;
    case 'T':
        rc = take_truncate(e, &r, err);
        break;
    default: /* origins, types, and messages of programs */
        break;
    }
    return rc || !r.cut ? rc : cut_off(err);
}

/* ---- marks, and the copy --------------------------------------------------------------------- */

int events_reached(struct events *e, uint64_t lsn, struct lladd_error *err)
{
    /* a message within a transaction tells of an LSN before its commit record */
    if (e->lsn || lsn < 2 || lsn - 1 <= e->last)
        return 0;
    return add_plain(e, LLADD_REPLICA_MARK, lsn - 1, 0, err);
}

int events_first(struct events *e, uint64_t lsn, struct lladd_error *err)
{
    TRY(add_plain(e, LLADD_REPLICA_MARK, lsn - 1, lsn, err));
    return events_apply(e, err);
}

static int copy_row(void *ctx, const struct table *t, const struct field *fields,
                    struct lladd_error *err)
{
    return change(ctx, t, &fields[t->key], fields, err);
}

int events_copy(struct events *e, struct postgres *p, uint64_t lsn, struct lladd_error *err)
{
    e->lsn = e->xid = 1; /* before all others */
    TRY(add_plain(e, LLADD_REPLICA_BEGIN, 1, e->xid, err));
    for (size_t i = 0; i < p->n; i++) {
        TRY(delete_all(e, &p->tables[i], err)); /* rows of an earlier copy that has not ended */
        TRY(postgres_rows(p, &p->tables[i], copy_row, e, err));
    }
    e->lsn = 0;
    TRY(add_plain(e, LLADD_REPLICA_COMMIT, lsn - 1, e->xid, err));
    return events_apply(e, err);
}
