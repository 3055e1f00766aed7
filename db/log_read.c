/* SPDX-License-Identifier: BSD-2-Clause */
/* Log cursors for extensions, backups and standbys. lladd_log_next returns durable records only.
 * One thread at a time uses a cursor. lladd_log_decode and lladd_page_redo take records
 * from elsewhere. */
#include "db/db_private.h"

#include <string.h>

struct lladd_log_cursor {
    struct lladd_db *db;
    struct ll_log_cursor *cursor;
    lladd_lsn from;
    lladd_lsn next; /* end of the last record, if `started` */
    bool started;
    char name[64]; /* "": every record */
};

const char *lladd_log_kind_name(unsigned kind)
{
    return ll_record_kind_name(kind);
}

lladd_lsn lladd_durable_lsn(struct lladd_db *db)
{
    return ll_log_durable(db->core.log);
}

int lladd_log_open(struct lladd_db *db, lladd_lsn from, const char *name,
                   struct lladd_log_cursor **out, struct lladd_error *err)
{
    int rc = ll_db_enter(db, err);
    if (rc)
        return rc;
    if (!out || (name && strlen(name) > 63))
        return ll_fail(err, LLADD_BAD_ARGUMENT, "out is NULL, or the name has more than 63 bytes");
    struct lladd_log_cursor *c = ll_alloc_zero(&db->core.env, sizeof *c);
    if (!c)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory for a cursor");
    rc = ll_log_cursor_open(db->core.log, &c->cursor);
    if (rc) {
        ll_free(&db->core.env, c);
        return ll_fail(err, rc, "out of memory for a cursor");
    }
    c->db = db;
    c->from = from;
    if (name)
        strncpy(c->name, name, sizeof c->name - 1);
    *out = c;
    return 0;
}

void lladd_log_close(struct lladd_log_cursor *c)
{
    if (!c)
        return;
    ll_log_cursor_close(c->cursor);
    ll_free(&c->db->core.env, c);
}

/* Finds the first record at or after `from`. LLADD_MISSING_FILE if the log at `from` is missing
 * although it is pinned. */
static int first_record(struct lladd_log_cursor *c, struct ll_record *rec, struct lladd_error *err)
{
    struct ll_core *core = &c->db->core;
    lladd_lsn oldest = ll_log_whole_from(core->log);
    if (c->from.v == 0)
        return ll_log_cursor_seek(c->cursor, ll_log_oldest(core->log), rec, err);
    int rc = ll_log_cursor_follow(c->cursor, c->from, rec, err);
    if (!rc && c->from.v < oldest.v && rec->lsn.v >= oldest.v &&
        ll_pin_lowest(core, oldest, true, NULL).v <= c->from.v)
        return ll_fail_lsn(err, LLADD_MISSING_FILE, c->from,
                           "LSN %llu is pinned, and the log begins at LSN %llu",
                           (unsigned long long)c->from.v, (unsigned long long)oldest.v);
    return rc;
}

int lladd_log_next(struct lladd_log_cursor *c, struct lladd_log_entry *out, struct lladd_error *err)
{
    struct ll_record rec;
    for (;;) {
        int rc;
        /* At the end of the log the next segment may not exist yet. */
        lladd_lsn goal = c->started ? c->next : c->from;
        if (goal.v >= ll_log_durable(c->db->core.log).v)
            return LLADD_END;
        if (c->started) {
            rc = ll_log_cursor_next(c->cursor, &rec, err);
        } else {
            rc = first_record(c, &rec, err);
            c->started = rc == 0;
        }
        if (rc)
            return rc;
        c->next = lladd_lsn_of(rec.lsn.v + rec.size);
        if (rec.lsn.v >= ll_log_durable(c->db->core.log).v) {
            c->from = rec.lsn; /* the record may be durable at the next call */
            c->started = false;
            return LLADD_END;
        }
        *out = ll_log_entry_of(&c->db->core, &rec);
        /* The record that defines a name in the catalogue is not a record of that name. */
        if (!c->name[0] ||
            (out->op && rec.kind != LL_REC_CATALOGUE && strcmp(out->op, c->name) == 0))
            return 0;
    }
}

int lladd_log_read(struct lladd_log_cursor *c, lladd_lsn lsn, struct lladd_log_entry *out,
                   struct lladd_error *err)
{
    struct ll_record rec;
    int rc = ll_log_cursor_read(c->cursor, lsn, &rec, err);
    if (rc)
        return rc;
    c->started = true;
    c->next = lladd_lsn_of(rec.lsn.v + rec.size);
    *out = ll_log_entry_of(&c->db->core, &rec);
    return 0;
}

static int decode(struct ll_core *core, const void *record, size_t len, lladd_lsn lsn,
                  uint64_t incarnation, struct ll_record *out, struct lladd_error *err)
{
    int rc = ll_record_decode(record, len, lsn, ll_record_salt(core->uuid, incarnation), out, err);
    return rc == LLADD_END ? ll_fail_lsn(err, LLADD_CORRUPT_LOG, lsn,
                                         "there is no record at LSN %llu",
                                         (unsigned long long)lsn.v)
                           : rc;
}

int lladd_log_decode(struct lladd_db *db, const void *record, size_t len, lladd_lsn lsn,
                     uint64_t incarnation, struct lladd_log_entry *out, struct lladd_error *err)
{
    struct ll_record rec;
    int rc = decode(&db->core, record, len, lsn, incarnation, &rec, err);
    if (!rc)
        *out = ll_log_entry_of(&db->core, &rec);
    return rc;
}

int lladd_page_redo(struct lladd_db *db, lladd_pageno number, const void *record, size_t len,
                    lladd_lsn lsn, uint64_t incarnation, void *page, bool *empty,
                    struct lladd_error *err)
{
    struct ll_record rec;
    int rc = decode(&db->core, record, len, lsn, incarnation, &rec, err);
    return rc ? rc : ll_rebuild_with(&db->core, number, &rec, page, empty, err);
}
