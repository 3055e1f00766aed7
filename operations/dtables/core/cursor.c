/* SPDX-License-Identifier: BSD-2-Clause */
/* Cursors over any dTable. There are three kinds:
 *
 *   - A class may have its own cursor (cursor_seek, cursor_step, cursor_row).
 *   - If rows have places (row numbers), and their layer has no cursor of its own, the cursor is a
 *     place.
 *   - Otherwise the cursor wraps a cursor of the base and decodes its values.
 *
 * Opening a cursor on a filter returns a cursor on the base. So does opening a cursor on an index,
 * if the base's rows come from a layer with a cursor of its own. For all kinds, this file handles
 * the ends of the table, and skips tombstones unless the caller has asked for them. */
#include "operations/dtables/core/dtable.h"

enum end { BEFORE, AT_ROW, AFTER };

struct lladd_dtable_cursor {
    const struct lladd_dtable *t;
    unsigned flags;
    enum end end;
    uint64_t place;
    struct lladd_dtable_pin pin, state_pin;
    struct lladd_dtable_key key; /* key of the current row, if the cursor is a place */
    struct lladd_dtable_value value;
    struct lladd_dtable_cursor *base;
    void *own;
    /* A class's own cursor may follow another cursor, the leader. `lead` has the leader, the range
     * of places at which the leader's row is the row to show, and a word. The lead ends if the word
     * differs from `word_was`. lead.cursor NULL: no lead. */
    struct lladd_dtable_lead lead;
    uint64_t word_was;
    bool lead_forward;     /* direction of the lead. A change of direction ends the lead: the class
                            * then seeks in all its tables again, and shows the rows that were
                            * added to them meanwhile */
    unsigned steps;        /* steps since the class was last asked for a leader */
    const uint32_t *alive; /* from lladd_db_alive */
};

/* Does what ll_dtable__here does. */
static inline int here(const struct lladd_dtable_cursor *c, struct lladd_error *err)
{
    return c->alive && lladd_atomic_load32(c->alive) ? 0 : lladd_check_process(c->t->db, err);
}

/* Steps between two requests for a leader: asking costs time. */
enum { STEPS = 16 };

/* ---- opening --------------------------------------------------------------------------------- */

/* Do the rows come from a layer, this one or one below, that has its own cursor? */
static bool has_cursor(const struct lladd_dtable *t)
{
    while (t && !t->kind->cursor_seek && !t->kind->at)
        t = t->base;
    return t && t->kind->cursor_seek;
}

int lladd_dtable_cursor_open(const struct lladd_dtable *t, unsigned flags,
                             struct lladd_dtable_cursor **out, struct lladd_error *err)
{
    const struct lladd_dtable_class *kind = t->kind;
    TRY(ll_dtable__here(t, err));
    /* The class is a filter or an index: its rows are those of the base. */
    if (t->base && !kind->cursor_seek && !kind->at && !kind->decode &&
        (!kind->find || has_cursor(t->base)))
        return lladd_dtable_cursor_open(t->base, flags, out, err);
    if (flags & ~(unsigned)LLADD_DTABLE_TOMBSTONES)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "unknown flags %#x", flags);
    struct lladd_dtable_cursor *c = lladd_mem_alloc(t->db, sizeof *c);
    if (!c)
        return ll_dtable__no_memory(err);
    *c = (struct lladd_dtable_cursor){.t = t, .flags = flags, .alive = lladd_db_alive(t->db)};
    int rc = 0;
    if (kind->cursor_seek) {
        c->own = lladd_mem_alloc(t->db, kind->cursor_size + 1);
        if (c->own)
            memset(c->own, 0, kind->cursor_size + 1);
        rc = c->own ? 0 : ll_dtable__no_memory(err);
        if (!rc && kind->cursor_open) {
            rc = kind->cursor_open(t, c->own, err);
            if (rc) {
                lladd_mem_free(t->db, c->own);
                c->own = NULL;
            }
        }
    } else if (!t->has_places || has_cursor(t)) {
        rc = lladd_dtable_cursor_open(t->base, LLADD_DTABLE_TOMBSTONES, &c->base, err);
    }
    if (rc)
        lladd_mem_free(t->db, c);
    else
        *out = c;
    return rc;
}

void lladd_dtable_cursor_close(struct lladd_dtable_cursor *c)
{
    if (!c)
        return;
    struct lladd_db *db = c->t->db; /* read now: after cursor_close another thread may free a
                                     * managed table */
    if (c->own && c->t->kind->cursor_close)
        c->t->kind->cursor_close(c->t, c->own);
    lladd_mem_free(db, c->own);
    lladd_dtable_cursor_close(c->base);
    lladd_dtable_unpin(&c->pin);
    lladd_dtable_unpin(&c->state_pin);
    lladd_mem_free(db, c);
}

/* ---- by place -------------------------------------------------------------------------------- */

/* Columns to ask for if only the row's state is wanted: none. */
static struct lladd_dtable_columns no_columns(struct lladd_dtable_cursor *c)
{
    return (struct lladd_dtable_columns){.pins = &c->state_pin};
}

/* Reads the row at a place. If the class assembles values from columns, reads only the key and the
 * state. */
static int look(struct lladd_dtable_cursor *c, uint64_t place, struct lladd_error *err)
{
    const struct lladd_dtable *t = c->t;
    struct lladd_dtable_columns none = no_columns(c);
    bool later = t->kind->columns_at != NULL;
    c->value.state = LLADD_DTABLE_ABSENT;
    TRY(ll_dtable__at(t, place, &c->pin, &c->key, later ? NULL : &c->value, err));
    if (later)
        return t->kind->columns_at(t, place, &none, &c->value.state, err);
    return 0;
}

bool ll_dtable__value_later(const struct lladd_dtable_cursor *c)
{
    const struct lladd_dtable_class *kind = c->t->kind;
    return !c->base && kind->columns_at && (!c->own || kind->cursor_columns);
}

/* Moves to the first place, from `place` on in this direction, that is not a hole (a place without
 * a row). LLADD_END: there is none. */
static int settle(struct lladd_dtable_cursor *c, uint64_t place, bool forward,
                  struct lladd_error *err)
{
    const struct lladd_dtable *t = c->t;
    for (; place < t->places; place += forward ? 1 : UINT64_MAX) {
        TRY(look(c, place, err));
        if (c->value.state != LLADD_DTABLE_ABSENT) {
            c->place = place;
            return 0;
        }
    }
    return LLADD_END;
}

static int go_to_place(struct lladd_dtable_cursor *c, enum lladd_dtable_where where,
                       const struct lladd_dtable_key *key, struct lladd_error *err)
{
    const struct lladd_dtable *t = c->t;
    uint64_t place;
    bool exact;
    if (where == LLADD_DTABLE_FIRST || where == LLADD_DTABLE_LAST)
        return settle(c, where == LLADD_DTABLE_FIRST ? 0 : t->places - 1,
                      where == LLADD_DTABLE_FIRST, err);
    TRY(lladd_dtable_find(t, key, &c->pin, &place, &exact, err));
    if (where == LLADD_DTABLE_NOT_BEFORE)
        return settle(c, place, true, err);
    return settle(c, exact ? place : place - 1, false, err);
}

/* ---- any kind of cursor ---------------------------------------------------------------------- */

static int go(struct lladd_dtable_cursor *c, enum lladd_dtable_where where,
              const struct lladd_dtable_key *key, struct lladd_error *err)
{
    c->lead.cursor = NULL;
    if (c->own)
        return c->t->kind->cursor_seek(c->t, c->own, where, key, err);
    if (!c->base)
        return go_to_place(c, where, key, err);
    return lladd_dtable_go(c->base, where, key, err);
}

static int step(struct lladd_dtable_cursor *c, bool forward, struct lladd_error *err)
{
    c->lead.cursor = NULL;
    if (c->own)
        return c->t->kind->cursor_step(c->t, c->own, forward, err);
    if (c->base)
        return forward ? lladd_dtable_next(c->base, err) : lladd_dtable_prev(c->base, err);
    return settle(c, forward ? c->place + 1 : c->place - 1, forward, err);
}

static int row(struct lladd_dtable_cursor *c, struct lladd_dtable_key *key,
               struct lladd_dtable_value *value, struct lladd_error *err)
{
    c = c->lead.cursor ? c->lead.cursor : c;
    if (c->own)
        return c->t->kind->cursor_row(c->t, c->own, key, value, err);
    if (c->base) {
        struct lladd_dtable_key own;
        if (!key)
            key = &own;
        int rc = row(c->base, key, value, err);
        bool decodes = value && value->state == LLADD_DTABLE_FOUND && c->t->kind->decode;
        return rc || !decodes ? rc : c->t->kind->decode(c->t, key, &c->pin, value, err);
    }
    int rc = value && c->t->kind->columns_at
                 ? ll_dtable__at(c->t, c->place, &c->pin, &c->key, &c->value, err)
                 : 0;
    if (key)
        *key = c->key;
    if (value)
        *value = c->value;
    return rc;
}

static int columns(struct lladd_dtable_cursor *c, const struct lladd_dtable_columns *want,
                   enum lladd_dtable_state *state, struct lladd_error *err)
{
    c = c->lead.cursor && !c->lead.led_columns ? c->lead.cursor : c;
    const struct lladd_dtable_class *kind = c->t->kind;
    struct lladd_dtable_value value;
    if (c->own && kind->cursor_columns)
        return kind->cursor_columns(c->t, c->own, want, state, err);
    if (!c->own && !c->base) {
        *state = c->value.state;
        if (want->n == 0)
            return 0;
        if (kind->columns_at)
            return kind->columns_at(c->t, c->place, want, state, err);
    }
    int rc = row(c, NULL, &value, err);
    return rc ? rc : lladd_dtable_row_unpack(&value, want, state, err);
}

/* Moves a cursor that is at a tombstone on to the first row that is not one. */
static int pass_tombstones(struct lladd_dtable_cursor *c, bool forward, struct lladd_error *err)
{
    struct lladd_dtable_columns none = no_columns(c);
    enum lladd_dtable_state state = LLADD_DTABLE_FOUND;
    int rc = columns(c, &none, &state, err);
    while (!rc && state != LLADD_DTABLE_FOUND) {
        rc = step(c, forward, err);
        rc = rc ? rc : columns(c, &none, &state, err);
    }
    return rc;
}

/* Completes a move in this direction. `rc` is what the move returned. */
static inline int arrived(struct lladd_dtable_cursor *c, int rc, bool forward,
                          struct lladd_error *err)
{
    if (!rc && !(c->flags & LLADD_DTABLE_TOMBSTONES))
        rc = pass_tombstones(c, forward, err);
    c->end = rc == 0 ? AT_ROW : rc == LLADD_END && forward ? AFTER : BEFORE;
    if (rc == LLADD_END)
        return lladd_error_set(err, LLADD_END, "no more rows");
    return rc;
}

/* ---- leaders --------------------------------------------------------------------------------- */

bool lladd_dtable_cursor_lead(struct lladd_dtable_cursor *c, struct lladd_dtable_lead *out)
{
    static const uint64_t never;
    if (c->end != AT_ROW || !(c->flags & LLADD_DTABLE_TOMBSTONES) || c->t->kind->columns_at)
        return false;
    if (c->lead.cursor) {
        *out = c->lead;
        return lladd_atomic_load64(c->lead.word) == c->word_was;
    }
    if (c->own)
        return c->t->kind->cursor_lead && c->t->kind->cursor_lead(c->t, c->own, out);
    *out = (struct lladd_dtable_lead){c, 0, c->t->places, &never, false};
    return !c->base;
}

bool lladd_dtable_cursor_lead_to(struct lladd_dtable_lead *lead, bool forward,
                                 const struct lladd_dtable_key *key)
{
    const struct lladd_dtable_cursor *l = lead->cursor;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    uint64_t place = forward ? lead->to : lead->from;
    bool exact = false;
    int rc = key ? lladd_dtable_find(l->t, key, &pin, &place, &exact, NULL) : 0;
    lladd_dtable_unpin(&pin);
    uint64_t from = forward ? l->place : place + exact, to = forward ? place : l->place + 1;
    lead->from = from > lead->from ? from : lead->from;
    lead->to = to < lead->to ? to : lead->to;
    return rc == 0;
}

/* Tries to move to the neighbouring row by moving the leader. True: the move is complete, or has
 * failed; *rc is its result. False: the neighbouring row is not the leader's, and the lead is over;
 * the leader may have moved on to a tombstone before that row. Places are counted modulo 2^64: the
 * place before the first one is greater than all others. */
static inline bool follow(struct lladd_dtable_cursor *c, bool forward, int *rc,
                          struct lladd_error *err)
{
    struct lladd_dtable_cursor *l = c->lead.cursor;
    const uint64_t by = forward ? 1 : UINT64_MAX;
    uint64_t place = l->place + by;
    *rc = 0;
    for (; lladd_atomic_load64(c->lead.word) == c->word_was && place >= c->lead.from &&
           place < c->lead.to && !*rc;
         place += by) {
        *rc = look(l, place, err);
        if (*rc || l->value.state == LLADD_DTABLE_ABSENT)
            continue;
        l->place = place;
        if (l->value.state == LLADD_DTABLE_FOUND || c->flags & LLADD_DTABLE_TOMBSTONES)
            return true;
    }
    c->lead.cursor = NULL;
    if (!*rc && place != l->place + by) /* the loop has read holes: reads the leader's row again */
        *rc = look(l, l->place, err);
    if (*rc)
        c->end = BEFORE;
    return *rc != 0;
}

static void ask_for_lead(struct lladd_dtable_cursor *c, bool forward)
{
    c->steps = 0;
    c->lead_forward = forward;
    if (c->t->kind->cursor_lead(c->t, c->own, &c->lead))
        c->word_was = lladd_atomic_load64(c->lead.word);
    else
        c->lead.cursor = NULL;
}

/* ---- moves ----------------------------------------------------------------------------------- */

int lladd_dtable_first(struct lladd_dtable_cursor *c, struct lladd_error *err)
{
    int rc = here(c, err);
    return rc ? rc : arrived(c, go(c, LLADD_DTABLE_FIRST, NULL, err), true, err);
}

int lladd_dtable_last(struct lladd_dtable_cursor *c, struct lladd_error *err)
{
    int rc = here(c, err);
    return rc ? rc : arrived(c, go(c, LLADD_DTABLE_LAST, NULL, err), false, err);
}

static inline int move(struct lladd_dtable_cursor *c, bool forward, struct lladd_error *err)
{
    int rc = 0;
    if (c->base && c->flags & LLADD_DTABLE_TOMBSTONES) { /* its rows are those of the base */
        rc = forward ? lladd_dtable_next(c->base, err) : lladd_dtable_prev(c->base, err);
        c->end = c->base->end;
        return rc;
    }
    TRY(here(c, err));
    if (c->lead.cursor && c->lead_forward != forward)
        c->lead.cursor = NULL;
    if (c->lead.cursor && follow(c, forward, &rc, err))
        return rc;
    if (c->end == (forward ? BEFORE : AFTER))
        return forward ? lladd_dtable_first(c, err) : lladd_dtable_last(c, err);
    rc = arrived(c, c->end == AT_ROW ? step(c, forward, err) : LLADD_END, forward, err);
    if (c->own && !rc && c->t->kind->cursor_lead && ++c->steps == STEPS)
        ask_for_lead(c, forward);
    return rc;
}

int lladd_dtable_next(struct lladd_dtable_cursor *c, struct lladd_error *err)
{
    return move(c, true, err);
}

int lladd_dtable_prev(struct lladd_dtable_cursor *c, struct lladd_error *err)
{
    return move(c, false, err);
}

static int seek(struct lladd_dtable_cursor *c, enum lladd_dtable_where where,
                const struct lladd_dtable_key *key, struct lladd_error *err)
{
    TRY(here(c, err));
    TRY(lladd_dtable_check_key(&c->t->order, key, err));
    return arrived(c, go(c, where, key, err), where == LLADD_DTABLE_NOT_BEFORE, err);
}

int lladd_dtable_seek(struct lladd_dtable_cursor *c, const struct lladd_dtable_key *key,
                      struct lladd_error *err)
{
    return seek(c, LLADD_DTABLE_NOT_BEFORE, key, err);
}

int lladd_dtable_seek_for_prev(struct lladd_dtable_cursor *c, const struct lladd_dtable_key *key,
                               struct lladd_error *err)
{
    return seek(c, LLADD_DTABLE_NOT_AFTER, key, err);
}

int lladd_dtable_go(struct lladd_dtable_cursor *c, enum lladd_dtable_where where,
                    const struct lladd_dtable_key *key, struct lladd_error *err)
{
    switch (where) {
    case LLADD_DTABLE_FIRST:
        return lladd_dtable_first(c, err);
    case LLADD_DTABLE_LAST:
        return lladd_dtable_last(c, err);
    case LLADD_DTABLE_NOT_BEFORE:
        return lladd_dtable_seek(c, key, err);
    default:
        return lladd_dtable_seek_for_prev(c, key, err);
    }
}

int lladd_dtable_row(struct lladd_dtable_cursor *c, struct lladd_dtable_key *key,
                     struct lladd_dtable_value *value, struct lladd_error *err)
{
    TRY(here(c, err));
    if (c->end != AT_ROW)
        return lladd_error_set(err, LLADD_BAD_STATE, "the cursor is at no row");
    return row(c, key, value, err);
}

int lladd_dtable_row_columns(struct lladd_dtable_cursor *c, const struct lladd_dtable_columns *want,
                             enum lladd_dtable_state *state, struct lladd_error *err)
{
    TRY(here(c, err));
    if (c->end != AT_ROW)
        return lladd_error_set(err, LLADD_BAD_STATE, "the cursor is at no row");
    return columns(c, want, state, err);
}

/* ---- many rows ------------------------------------------------------------------------------- */

static int more_rows(struct lladd_dtable_batch *b, size_t max, struct lladd_db *db)
{
    b->db_ = db;
    if (max <= b->rows_)
        return 0;
    lladd_dtable_batch_free(b);
    b->db_ = db;
    b->numbers = lladd_mem_alloc(db, max * sizeof *b->numbers);
    b->states = lladd_mem_alloc(db, max);
    b->key_begin = lladd_mem_alloc(db, 4 * max * sizeof *b->key_begin);
    if (!b->numbers || !b->states || !b->key_begin) {
        lladd_dtable_batch_free(b);
        return LLADD_NO_MEMORY;
    }
    b->key_end = b->key_begin + max;
    b->value_begin = b->key_end + max;
    b->value_end = b->value_begin + max;
    b->rows_ = max;
    return 0;
}

static int keep(struct lladd_dtable_batch *b, struct lladd_span s, size_t *begin, size_t *end)
{
    if (s.len > b->size_ - b->used_) {
        size_t size = b->size_ * 2 > b->used_ + s.len ? b->size_ * 2 : b->used_ + s.len + 256;
        unsigned char *bytes = lladd_mem_resize(b->db_, b->bytes, size);
        if (!bytes)
            return LLADD_NO_MEMORY;
        b->bytes = bytes;
        b->size_ = size;
    }
    if (s.len)
        memcpy(b->bytes + b->used_, s.data, s.len);
    *begin = b->used_;
    b->used_ += s.len;
    *end = b->used_;
    return 0;
}

static int keep_row(struct lladd_dtable_batch *b, const struct lladd_dtable_key *key,
                    const struct lladd_dtable_value *value)
{
    struct lladd_span none = {NULL, 0};
    bool bytes = key->type >= LLADD_DTABLE_STRING, found = value->state == LLADD_DTABLE_FOUND;
    b->numbers[b->n] = key->number;
    b->states[b->n] = (uint8_t)value->state;
    int rc = keep(b, bytes ? key->bytes : none, &b->key_begin[b->n], &b->key_end[b->n]);
    if (!rc)
        rc = keep(b, found ? value->bytes : none, &b->value_begin[b->n], &b->value_end[b->n]);
    b->n += !rc;
    return rc;
}

int lladd_dtable_next_n(struct lladd_dtable_cursor *c, size_t max, struct lladd_dtable_batch *b,
                        struct lladd_error *err)
{
    int rc = here(c, err);
    b->n = b->used_ = 0;
    if (rc)
        return rc;
    if (max == 0 || max > SIZE_MAX / 64)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "a batch of %zu rows", max);
    if (more_rows(b, max, c->t->db))
        return ll_dtable__no_memory(err);
    while (b->n < max) {
        struct lladd_dtable_key key;
        struct lladd_dtable_value value;
        rc = lladd_dtable_next(c, err);
        if (rc == LLADD_END && b->n > 0) {
            /* The cursor has passed the last row. Moves it back to that row, which is the last of
             * the batch. */
            rc = lladd_dtable_prev(c, err);
            return rc;
        }
        if (rc == 0)
            rc = lladd_dtable_row(c, &key, &value, err);
        if (rc == 0 && keep_row(b, &key, &value))
            rc = ll_dtable__no_memory(err);
        if (rc)
            return rc;
    }
    return 0;
}

void lladd_dtable_batch_free(struct lladd_dtable_batch *b)
{
    if (b->db_) {
        lladd_mem_free(b->db_, b->numbers);
        lladd_mem_free(b->db_, b->states);
        lladd_mem_free(b->db_, b->key_begin);
        lladd_mem_free(b->db_, b->bytes);
    }
    *b = (struct lladd_dtable_batch){.n = 0};
}
