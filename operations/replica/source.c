/* SPDX-License-Identifier: BSD-2-Clause */
/* The source of a replica: the entries that a follower of the journal gives, as events
 * (lladd/journal.h).
 *
 * Transactions are sent one after the other, in the order of their commits. The LSN of a commit is
 * the position of its COMMIT event. Two commits are at least eight bytes apart. So the two
 * positions before it are free for the BEGIN and for all changes of the transaction, and the third
 * one for a mark that says that there is no commit up to there. */
#include "operations/dtables/managed/managed.h"
#include "operations/shared/try.h"

#include <lladd/journal.h>
#include <lladd/log_read.h>
#include <lladd/replica_source.h>
#include <stdio.h>
#include <string.h>

enum {
    PIN_STEP = 1 << 20, /* the pin moves by at least so much */
    BEGINS = 2,         /* distance of a BEGIN from its COMMIT */
    CHANGES = 1,
    MARKS = 3
};

#define PIN "replica."

struct lladd_replica_source {
    struct lladd_db *db;
    char pin[64];
    uint64_t pinned; /* the pin's LSN */
    bool pins;       /* the open has made the pin */
    struct lladd_managed **tables;
    size_t n;
    struct lladd_journal_follower *follower;
    uint64_t from, sent;             /* positions: where the source begins; of the last event */
    struct lladd_journal_entry next; /* the entry to send next, if has_next */
    bool has_next;
    uint64_t open; /* commit of a transaction: its COMMIT is not sent yet; 0: none */
};

/* ---- opening and closing --------------------------------------------------------------------- */

/* Makes the pin if it does not exist: at the oldest LSN, so that no log is lost before the follower
 * is open. It moves with the acknowledgements. A pin that exists stays where it is, because setting
 * it again needs log space, which there may not be until this source moves the pin. */
static int want_pin(struct lladd_replica_source *s, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    struct lladd_log_hold *hold;
    lladd_lsn at;
    int rc = lladd_pin_get(s->db, s->pin, &at, &why);
    if (rc == LLADD_NOT_FOUND) {
        TRY(lladd_log_keep(s->db, s->pin, lladd_lsn_of(0), &hold, err));
        at = lladd_log_hold_raise(hold, lladd_lsn_of(0));
        rc = lladd_pin_set(s->db, s->pin, at, &why);
        s->pins = !rc;
        lladd_log_release(hold);
    }
    if (rc && err)
        *err = why;
    s->pinned = at.v;
    return rc;
}

static int open_tables(struct lladd_replica_source *s, const char *const *names, size_t n,
                       struct lladd_error *err)
{
    for (size_t i = 0; i < n; i++) {
        TRY(lladd_managed_open(s->db, names[i], &s->tables[i], err));
        s->n++;
        if (s->tables[i]->unlogged)
            return lladd_error_set(err, LLADD_BAD_STATE,
                                   "table \"%s\" is unlogged: it cannot be a source", names[i]);
    }
    return 0;
}

/* From the pin on, the log has all that a replica may ask for that has let go only of what it has
 * acknowledged. For other positions the whole log is read. */
static int open_follower(struct lladd_replica_source *s, struct lladd_error *err)
{
    struct lladd_journal_position at = {.commit = lladd_lsn_of(s->from)};
    at.from = lladd_lsn_of(s->from >= s->pinned ? s->pinned : 0);
    uint64_t *tags = lladd_mem_alloc(s->db, s->n * sizeof *tags);
    if (!tags)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a source");
    for (size_t i = 0; i < s->n; i++)
        tags[i] = s->tables[i]->tag;
    int rc = lladd_journal_follow_open(s->db, tags, s->n, at, &s->follower, err);
    lladd_mem_free(s->db, tags);
    return rc;
}

int lladd_replica_source_open(struct lladd_db *db, const char *name, const char *const *tables,
                              size_t n, uint64_t from, struct lladd_replica_source **out,
                              struct lladd_error *err)
{
    TRY(lladd_check_process(db, err));
    size_t len = name ? strlen(name) : 0;
    if (!out || !tables || !n || !len || len >= sizeof out[0]->pin - strlen(PIN))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a source needs a name of at most 55 bytes, and tables");
    struct lladd_replica_source *s = lladd_mem_alloc(db, sizeof *s);
    struct lladd_managed **handles = lladd_mem_alloc(db, n * sizeof *handles);
    if (!s || !handles) {
        lladd_mem_free(db, s);
        lladd_mem_free(db, handles);
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a source");
    }
    memset(s, 0, sizeof *s);
    s->db = db;
    s->from = from;
    s->tables = handles;
    (void)snprintf(s->pin, sizeof s->pin, PIN "%s", name);
    int rc = open_tables(s, tables, n, err);
    if (!rc)
        rc = want_pin(s, err);
    if (!rc)
        rc = open_follower(s, err);
    if (!rc) {
        *out = s;
        return 0;
    }
    if (s->pins)
        (void)lladd_pin_clear(db, s->pin, NULL); /* `rc` is the error that counts */
    (void)lladd_replica_source_close(s, NULL);
    return rc;
}

int lladd_replica_source_close(struct lladd_replica_source *s, struct lladd_error *err)
{
    int rc = 0;
    if (!s)
        return 0;
    lladd_journal_follow_close(s->follower);
    for (size_t i = 0; i < s->n; i++) {
        int closed = lladd_managed_close(s->tables[i], rc ? NULL : err);
        rc = rc ? rc : closed;
    }
    lladd_mem_free(s->db, s->tables);
    lladd_mem_free(s->db, s);
    return rc;
}

/* ---- events ---------------------------------------------------------------------------------- */

static int change(const struct lladd_replica_source *s, struct lladd_replica_event *out,
                  struct lladd_error *err)
{
    struct lladd_managed *t = NULL;
    struct ll_entry e;
    for (size_t i = 0; !t && i < s->n; i++)
        t = s->tables[i]->tag == s->next.tag ? s->tables[i] : NULL;
    if (!t || !ll_managed__entry_get(&t->order, s->next.bytes, &e))
        return lladd_error_set(err, LLADD_BAD_RECORD,
                               "LSN %llu: no row of a table that is replicated",
                               (unsigned long long)s->next.lsn.v);
    out->table = t->name;
    if (e.range) {
        out->kind = LLADD_REPLICA_DELETE_RANGE;
        if (e.has_from)
            out->key = e.key;
        if (e.has_to)
            out->to = e.to;
        return 0;
    }
    out->key = e.key;
    out->kind =
        e.value.state == LLADD_DTABLE_FOUND ? LLADD_REPLICA_PUT : LLADD_REPLICA_DELETE;
    if (out->kind == LLADD_REPLICA_PUT)
        out->after = e.value;
    return 0;
}

/* The follower has no more commits for now. Ends the transaction, or sets a mark up to which there
 * is no other commit. */
static int at_end(struct lladd_replica_source *s, struct lladd_replica_event *out)
{
    uint64_t reached = lladd_journal_follow_position(s->follower, lladd_lsn_of(0)).commit.v;
    if (s->open) {
        out->kind = LLADD_REPLICA_COMMIT;
        out->position = out->txn = s->open;
        s->open = 0;
        return 0;
    }
    if (reached <= s->sent + MARKS)
        return LLADD_END;
    out->kind = LLADD_REPLICA_MARK;
    out->position = reached - MARKS;
    return 0;
}

/* The event that comes before or for the next entry. */
static int of_next(struct lladd_replica_source *s, struct lladd_replica_event *out,
                   struct lladd_error *err)
{
    uint64_t commit = s->next.commit.v;
    if (s->open && s->open != commit)
        return at_end(s, out);
    out->txn = commit;
    out->position = commit - (s->open ? CHANGES : BEGINS);
    if (!s->open && out->position <= s->sent)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a source cannot begin at position %llu, within the transaction "
                               "that committed at %llu",
                               (unsigned long long)s->from, (unsigned long long)commit);
    if (!s->open) {
        out->kind = LLADD_REPLICA_BEGIN;
        s->open = commit;
        return 0;
    }
    TRY(change(s, out, err));
    s->has_next = false;
    return 0;
}

/* The first event says from where on the source has all events. */
static bool begins(const struct lladd_replica_source *s, struct lladd_replica_event *out)
{
    if (s->sent || s->from < 2)
        return false;
    out->kind = LLADD_REPLICA_MARK;
    out->position = s->from - 1;
    out->txn = s->from;
    return true;
}

int lladd_replica_source_next(struct lladd_replica_source *s, struct lladd_replica_event *out,
                              struct lladd_error *err)
{
    int rc = 0;
    memset(out, 0, sizeof *out);
    if (!begins(s, out)) {
        if (!s->has_next) {
            rc = lladd_journal_follow_next(s->follower, &s->next, err);
            s->has_next = rc == 0;
        }
        if (rc == LLADD_END)
            rc = at_end(s, out);
        else if (!rc)
            rc = of_next(s, out, err);
    }
    if (!rc)
        s->sent = out->position;
    return rc;
}

int lladd_replica_source_acknowledge(struct lladd_replica_source *s, uint64_t position,
                                     struct lladd_error *err)
{
    if (position < s->from || !position)
        return 0;
    uint64_t from = lladd_journal_follow_position(s->follower, lladd_lsn_of(position)).from.v;
    if (from < s->pinned + PIN_STEP)
        return 0;
    TRY(lladd_pin_set(s->db, s->pin, lladd_lsn_of(from), err));
    s->pinned = from;
    return 0;
}
