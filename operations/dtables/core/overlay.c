/* SPDX-License-Identifier: BSD-2-Clause */
/* Overlays (Anvil paper, section 5.3): one table made of several, the newest first.
 *
 * A cursor merges one cursor of each table, called a side. While the merge moves forward, no side
 * is before the current key; while it moves backward, none is after it. When the direction changes,
 * all sides seek the current key again. If several tables have a key, the row of the newest table
 * is shown. The rival is the side with the next row among the sides that are not shown. As long as
 * the side shown is before the rival, a step compares only these two.
 *
 * Range tombstones of a table (lladd_dtable_interval_at) hide rows of older tables. The sides of
 * the older tables seek to the end of the range instead of stepping through it. For each table with
 * range tombstones, the cursor remembers the interval around its position, so that most rows cost
 * two comparisons per such table and no search. */
#include "operations/dtables/core/dtable.h"

struct table {
    struct lladd_dtable base;
    size_t n;
    const struct lladd_dtable *tables[];
};

/* Asks the tables from `i` on. Not inlined, so that `lookup` saves no registers if only the last
 * table can have the key. */
static __attribute__((noinline)) int ask_from(const struct table *t, size_t i,
                                              const struct lladd_dtable_key *key,
                                              struct lladd_dtable_pin *pin,
                                              struct lladd_dtable_value *out,
                                              struct lladd_error *err)
{
    uint64_t prefix = lladd_dtable_prefix(&t->base.order, key);
    int rc = 0;
    for (; i < t->n && !rc && out->state == LLADD_DTABLE_ABSENT; i++)
        if (lladd_dtable_key_range_has(&t->tables[i]->key_range, prefix))
            rc = lladd_dtable_ask(t->tables[i], key, pin, out, err);
    return rc;
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    const struct table *t = (const struct table *)base;
    uint64_t prefix = lladd_dtable_prefix(&base->order, key);
    size_t i = 0;
    while (i < t->n && !lladd_dtable_key_range_has(&t->tables[i]->key_range, prefix))
        i++;
    if (i + 1 == t->n)
        return lladd_dtable_ask(t->tables[i], key, pin, out, err);
    return ask_from(t, i, key, pin, out, err);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Copies an endpoint into `pin`. The original is in a pin that is used again for the next table. */
static int keep_end(const struct lladd_dtable *t, struct lladd_dtable_pin *pin,
                    const struct lladd_dtable_key *from, struct lladd_dtable_key *to,
                    struct lladd_error *err)
{
    *to = *from;
    if (from->bytes.len == 0)
        return 0;
    unsigned char *copy = lladd_dtable_room(t->db, pin, from->bytes.len);
    if (!copy)
        return ll_dtable__no_memory(err);
    memcpy(copy, from->bytes.data, from->bytes.len);
    to->bytes.data = copy;
    return 0;
}

/* Intersects *out with one table's interval. */
static int narrow(const struct lladd_dtable *t, const struct lladd_dtable_interval *by,
                  struct lladd_dtable_pin pins[2], struct lladd_dtable_interval *out,
                  struct lladd_error *err)
{
    int rc = 0;
    if (by->has_from &&
        (!out->has_from || lladd_dtable_compare(&t->order, &by->from, &out->from) > 0)) {
        out->has_from = true;
        rc = keep_end(t, &pins[0], &by->from, &out->from, err);
    }
    if (!rc && by->has_to &&
        (!out->has_to || lladd_dtable_compare(&t->order, &by->to, &out->to) < 0)) {
        out->has_to = true;
        rc = keep_end(t, &pins[1], &by->to, &out->to, err);
    }
    return rc;
}

/* If a table has deleted the key, *out becomes the interval of the newest such table. Otherwise
 * *out becomes an interval around the key in which no table has deleted a key. */
static int interval(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                   struct lladd_dtable_pin pins[2], struct lladd_dtable_interval *out,
                   struct lladd_error *err)
{
    const struct table *t = (const struct table *)base;
    struct lladd_dtable_pin own[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    int rc = 0;
    *out = (struct lladd_dtable_interval){.deleted = false};
    for (size_t i = 0; i < t->n && !rc && !out->deleted; i++) {
        struct lladd_dtable_interval s;
        if (t->tables[i]->ranges == 0)
            continue;
        rc = lladd_dtable_interval_at(t->tables[i], key, own, &s, err);
        if (!rc && s.deleted)
            *out = (struct lladd_dtable_interval){.deleted = true};
        if (!rc)
            rc = narrow(base, &s, pins, out, err);
    }
    lladd_dtable_unpin(&own[0]);
    lladd_dtable_unpin(&own[1]);
    return rc;
}

/* ---- cursors --------------------------------------------------------------------------------- */

/* The interval around the cursor's last position, for a table with range tombstones. */
struct ranged {
    struct lladd_dtable_pin pins[2];
    struct lladd_dtable_interval interval;
    bool known;
};

struct side {
    struct lladd_dtable_cursor *cursor;
    struct lladd_dtable_key key; /* key of the side's current row; key and value are fetched only
                                  * once */
    uint64_t prefix[2]; /* prefixes of the key, and of the key's bytes from the ninth on; usually
                         * enough to compare */
    struct lladd_dtable_value value; /* not fetched if `later` */
    bool there; /* the cursor is at a row */
    bool later; /* the class assembles the value from columns: ll_dtable__value_later */
    struct ranged *ranged; /* NULL: the table has no range tombstones, or is the oldest */
};

/* After this many consecutive rows of one side, the search that begins a lead
 * (lladd_dtable_cursor_lead_to) is worth its cost. If the rows of several tables alternate, the
 * search costs more than it saves. */
enum { ALONE = 12 };

struct cursor {
    struct side *sides; /* one per table */
    size_t now;         /* the side shown */
    size_t rival;       /* the other side with the next row; t->n: none */
    bool tie;           /* the rival's row has the same key */
    bool forward;       /* true: the other sides are at or after the current key; false: at or
                         * before it */
    bool led;           /* the cursor of the side shown is a leader, and may have moved
                         * (cursor_lead) */
    uint32_t alone;     /* steps since another side was shown, counted up to ALONE */
    bool ranged;        /* some table besides the oldest has range tombstones */
    struct ll_dtable_bytes key;
};

/* Prefetches the value, which may be shown only some rows later. */
static void come_closer(const struct lladd_dtable_value *v)
{
    enum { LINE = 64, MOST = 512 };
    size_t len = v->bytes.len < MOST ? v->bytes.len : MOST;
    for (size_t i = 0; i < len; i += LINE)
        __builtin_prefetch((const char *)v->bytes.data + i);
    if (len)
        __builtin_prefetch((const char *)v->bytes.data + len - 1);
}

/* Takes two prefixes, because keys that begin alike, such as numbers of a fixed length, often
 * differ only after the first 8 bytes. */
static void take_prefix(const struct table *t, struct side *s)
{
    const struct lladd_dtable_order *o = &t->base.order;
    struct lladd_dtable_key rest = s->key;
    s->prefix[0] = lladd_dtable_prefix(o, &rest);
    s->prefix[1] = 0;
    if (o->type < LLADD_DTABLE_STRING || rest.bytes.len <= sizeof s->prefix[0])
        return;
    rest.bytes.data = (const unsigned char *)rest.bytes.data + sizeof s->prefix[0];
    rest.bytes.len -= sizeof s->prefix[0];
    s->prefix[1] = lladd_dtable_prefix(o, &rest);
}

/* Updates a side after its cursor has moved. `rc` is what the move returned. */
static int moved(const struct table *t, struct side *s, int rc, struct lladd_error *err)
{
    s->there = rc == 0;
    if (rc == LLADD_END)
        return 0;
    struct lladd_dtable_value *value = s->later ? NULL : &s->value;
    rc = rc ? rc : lladd_dtable_row(s->cursor, &s->key, value, err);
    if (!rc)
        take_prefix(t, s);
    if (!rc && value && value->state == LLADD_DTABLE_FOUND)
        come_closer(value);
    return rc;
}

/* Updates the side shown, if its cursor has moved as a leader. */
static int catch_up(const struct table *t, struct cursor *c, struct lladd_error *err)
{
    if (!c->led)
        return 0;
    c->led = false;
    return moved(t, &c->sides[c->now], 0, err);
}

/* Returns less than 0 if, in the current direction, `one` comes before `other`. */
static int order_of(const struct table *t, const struct cursor *c, size_t one, size_t other)
{
    const struct side *a = &c->sides[one], *b = &c->sides[other];
    unsigned i = a->prefix[0] == b->prefix[0];
    int order = a->prefix[i] != b->prefix[i]
                    ? (a->prefix[i] < b->prefix[i] ? -1 : 1)
                    : lladd_dtable_compare(&t->base.order, &a->key, &b->key);
    return c->forward ? order : -order;
}

/* Chooses the side to show: the side with the first row in the current direction. If several sides
 * have the same key, the newest table's side is shown. Also chooses the rival. */
static int choose(const struct table *t, struct cursor *c)
{
    size_t best = t->n, second = t->n;
    bool tie = false;
    for (size_t i = 0; i < t->n; i++) {
        if (!c->sides[i].there)
            continue;
        int order = best == t->n ? -1 : order_of(t, c, i, best);
        if (order < 0) {
            second = best;
            best = i;
            tie = false;
        } else if (second == t->n || order_of(t, c, i, second) < 0) {
            second = i;
            tie = order == 0;
        }
    }
    if (best == t->n)
        return LLADD_END;
    c->alone = c->now == best ? c->alone : 0;
    c->now = best;
    c->rival = second;
    c->tie = tie;
    return 0;
}

/* ---- deleted ranges -------------------------------------------------------------------------- */

static bool is_within(const struct lladd_dtable_order *o, const struct lladd_dtable_interval *s,
                      const struct lladd_dtable_key *key)
{
    return (!s->has_from || lladd_dtable_compare(o, &s->from, key) <= 0) &&
           (!s->has_to || lladd_dtable_compare(o, key, &s->to) < 0);
}

/* Sets *by to the newest table that has deleted the key of the side shown and is newer than this
 * side; t->n: none. */
static int deleted_by(const struct table *t, const struct cursor *c, size_t *by,
                      struct lladd_error *err)
{
    const struct lladd_dtable_key *key = &c->sides[c->now].key;
    int rc = 0;
    *by = t->n;
    for (size_t i = 0; i < c->now && !rc; i++) {
        struct ranged *r = c->sides[i].ranged;
        if (!r)
            continue;
        if (!r->known || !is_within(&t->base.order, &r->interval, key))
            rc = lladd_dtable_interval_at(t->tables[i], key, r->pins, &r->interval, err);
        r->known = rc == 0;
        if (!rc && r->interval.deleted) {
            *by = i;
            break;
        }
    }
    return rc;
}

/* Moves a side to the first row after a deleted range, in the current direction. */
static int lead_out(const struct table *t, const struct cursor *c, struct side *s,
                    const struct lladd_dtable_interval *gone, struct lladd_error *err)
{
    if (c->forward ? !gone->has_to : !gone->has_from) {
        s->there = false;
        return 0;
    }
    TRY(moved(t, s,
              lladd_dtable_go(s->cursor,
                              c->forward ? LLADD_DTABLE_NOT_BEFORE : LLADD_DTABLE_NOT_AFTER,
                              c->forward ? &gone->to : &gone->from, err),
              err));
    if (!c->forward && s->there && lladd_dtable_compare(&t->base.order, &s->key, &gone->from) == 0)
        return moved(t, s, lladd_dtable_prev(s->cursor, err), err);
    return 0;
}

/* Chooses a row that no newer table has deleted. */
static int choose_shown(const struct table *t, struct cursor *c, struct lladd_error *err)
{
    int rc = choose(t, c);
    while (!rc && c->ranged) {
        size_t by;
        rc = deleted_by(t, c, &by, err);
        if (rc || by == t->n)
            break;
        const struct lladd_dtable_interval *gone = &c->sides[by].ranged->interval;
        for (size_t i = by + 1; i < t->n && !rc; i++) {
            struct side *s = &c->sides[i];
            if (s->there && is_within(&t->base.order, gone, &s->key))
                rc = lead_out(t, c, s, gone, err);
        }
        rc = rc ? rc : choose(t, c);
    }
    return rc;
}

/* Called on a seek, because tables may have got range tombstones since the last seek. Skips the
 * oldest table: its range tombstones hide no rows of the overlay. */
static int look_for_ranges(const struct table *t, struct cursor *c, struct lladd_error *err)
{
    for (size_t i = 0; i + 1 < t->n; i++) {
        struct side *s = &c->sides[i];
        if (s->ranged)
            s->ranged->known = false;
        if (s->ranged || t->tables[i]->ranges == 0)
            continue;
        s->ranged = lladd_mem_alloc(t->base.db, sizeof *s->ranged);
        if (!s->ranged)
            return ll_dtable__no_memory(err);
        memset(s->ranged, 0, sizeof *s->ranged);
        c->ranged = true;
    }
    return 0;
}

/* ---- moving ---------------------------------------------------------------------------------- */

static int cursor_seek(const struct lladd_dtable *base, void *cursor, enum lladd_dtable_where where,
                       const struct lladd_dtable_key *key, struct lladd_error *err)
{
    const struct table *t = (const struct table *)base;
    struct cursor *c = cursor;
    int rc = look_for_ranges(t, c, err);
    c->led = false;
    c->forward = where == LLADD_DTABLE_FIRST || where == LLADD_DTABLE_NOT_BEFORE;
    for (size_t i = 0; i < t->n && !rc; i++) {
        struct side *s = &c->sides[i];
        rc = moved(t, s, lladd_dtable_go(s->cursor, where, key, err), err);
    }
    return rc ? rc : choose_shown(t, c, err);
}

/* Steps every side that is at `key`. */
static int pass(const struct table *t, struct cursor *c, const struct lladd_dtable_key *key,
                struct lladd_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < t->n && !rc; i++) {
        struct side *s = &c->sides[i];
        if (!s->there || lladd_dtable_compare(&t->base.order, &s->key, key) != 0)
            continue;
        rc = moved(t, s,
                   c->forward ? lladd_dtable_next(s->cursor, err)
                              : lladd_dtable_prev(s->cursor, err),
                   err);
    }
    return rc;
}

/* Steps the side shown, if only this side has the current key. Chooses again in three cases: the
 * side is no longer before the rival, the side is at its end, or there are range tombstones. */
static int step_alone(const struct table *t, struct cursor *c, struct lladd_error *err)
{
    struct side *s = &c->sides[c->now];
    int rc = c->forward ? lladd_dtable_next(s->cursor, err) : lladd_dtable_prev(s->cursor, err);
    rc = moved(t, s, rc, err);
    c->alone += c->alone < ALONE;
    bool first = s->there && (c->rival == t->n || order_of(t, c, c->now, c->rival) < 0);
    if (rc || (first && !c->ranged))
        return rc;
    return choose_shown(t, c, err);
}

static int cursor_step(const struct lladd_dtable *base, void *cursor, bool forward,
                       struct lladd_error *err)
{
    const struct table *t = (const struct table *)base;
    struct cursor *c = cursor;
    int rc = catch_up(t, c, err);
    if (rc || (forward == c->forward && !c->tie))
        return rc ? rc : step_alone(t, c, err);
    struct lladd_dtable_key key = c->sides[c->now].key;
    if (key.bytes.len) { /* copies the key, because the side is about to leave the key's row */
        c->key.db = base->db;
        c->key.len = 0;
        if (ll_dtable__append(&c->key, key.bytes.data, key.bytes.len))
            return ll_dtable__no_memory(err);
        key.bytes.data = c->key.data;
    }
    if (forward != c->forward) {
        rc = cursor_seek(base, cursor,
                         forward ? LLADD_DTABLE_NOT_BEFORE : LLADD_DTABLE_NOT_AFTER, &key, err);
        rc = rc == LLADD_END ? 0 : rc;
    }
    if (!rc)
        rc = pass(t, c, &key, err);
    return rc ? rc : choose_shown(t, c, err);
}

/* The side shown may lead up to the rival's row, or to the end of its table. If any table besides
 * the oldest has range tombstones, no side leads: each row must be checked. */
static bool cursor_lead(const struct lladd_dtable *base, void *cursor,
                        struct lladd_dtable_lead *out)
{
    const struct table *t = (const struct table *)base;
    struct cursor *c = cursor;
    if (c->tie || c->led || c->ranged || c->alone < ALONE)
        return false;
    const struct lladd_dtable_key *end = c->rival < t->n ? &c->sides[c->rival].key : NULL;
    c->led = lladd_dtable_cursor_lead(c->sides[c->now].cursor, out) &&
             lladd_dtable_cursor_lead_to(out, c->forward, end);
    return c->led;
}

static int cursor_row(const struct lladd_dtable *base, void *cursor, struct lladd_dtable_key *key,
                      struct lladd_dtable_value *value, struct lladd_error *err)
{
    struct cursor *c = cursor;
    int rc = catch_up((const struct table *)base, c, err);
    struct side *now = &c->sides[c->now];
    if (!rc && value && now->later)
        rc = lladd_dtable_row(now->cursor, &now->key, &now->value, err);
    if (key)
        *key = now->key;
    if (value)
        *value = now->value;
    return rc;
}

static int lookup_columns(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    const struct table *t = (const struct table *)base;
    uint64_t prefix = lladd_dtable_prefix(&base->order, key);
    int rc = 0;
    for (size_t i = 0; i < t->n && !rc && *state == LLADD_DTABLE_ABSENT; i++)
        if (lladd_dtable_key_range_has(&t->tables[i]->key_range, prefix))
            rc = lladd_dtable_lookup_columns(t->tables[i], key, want, state, err);
    return rc;
}

static int cursor_columns(const struct lladd_dtable *t, void *cursor,
                          const struct lladd_dtable_columns *want, enum lladd_dtable_state *state,
                          struct lladd_error *err)
{
    struct cursor *c = cursor;
    const struct side *now = &c->sides[c->now];
    (void)t;
    if (want->n == 0 && !c->led && !now->later) {
        *state = now->value.state;
        return 0;
    }
    return lladd_dtable_row_columns(now->cursor, want, state, err);
}

static void cursor_close(const struct lladd_dtable *base, void *cursor)
{
    const struct table *t = (const struct table *)base;
    struct cursor *c = cursor;
    for (size_t i = 0; c->sides && i < t->n; i++) {
        struct ranged *r = c->sides[i].ranged;
        lladd_dtable_cursor_close(c->sides[i].cursor);
        if (r) {
            lladd_dtable_unpin(&r->pins[0]);
            lladd_dtable_unpin(&r->pins[1]);
            lladd_mem_free(base->db, r);
        }
    }
    lladd_mem_free(base->db, c->sides);
    lladd_mem_free(base->db, c->key.data);
}

static int cursor_open(const struct lladd_dtable *base, void *cursor, struct lladd_error *err)
{
    const struct table *t = (const struct table *)base;
    struct cursor *c = cursor;
    c->sides = lladd_mem_alloc(base->db, (t->n + 1) * sizeof *c->sides);
    if (!c->sides)
        return ll_dtable__no_memory(err);
    memset(c->sides, 0, (t->n + 1) * sizeof *c->sides);
    int rc = 0;
    for (size_t i = 0; i < t->n && !rc; i++) {
        struct side *s = &c->sides[i];
        rc = lladd_dtable_cursor_open(t->tables[i], LLADD_DTABLE_TOMBSTONES, &s->cursor, err);
        s->later = !rc && ll_dtable__value_later(s->cursor);
    }
    if (rc)
        cursor_close(base, cursor);
    return rc;
}

/* ---- made and gone --------------------------------------------------------------------------- */

static void close(struct lladd_dtable *t)
{
    (void)t;
}

static const struct lladd_dtable_class overlay_class = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "overlay_dtable",
    .version = 1,
    .about = "several tables as one, newer ones in front of older ones",
    .close = close,
    .lookup = lookup,
    .cursor_size = sizeof(struct cursor),
    .cursor_open = cursor_open,
    .cursor_close = cursor_close,
    .cursor_seek = cursor_seek,
    .cursor_step = cursor_step,
    .cursor_row = cursor_row,
    .cursor_lead = cursor_lead,
    .interval = interval,
    .lookup_columns = lookup_columns,
    .cursor_columns = cursor_columns,
};

int lladd_dtable_overlay(struct lladd_db *db, struct lladd_dtable *const *tables, size_t n,
                         struct lladd_dtable **out, struct lladd_error *err)
{
    TRY(lladd_check_process(db, err));
    if (n == 0 || n > SIZE_MAX / 64)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "an overlay of %zu tables", n);
    for (size_t i = 1; i < n; i++)
        if (tables[i]->order.type != tables[0]->order.type ||
            tables[i]->order.comparator != tables[0]->order.comparator)
            return lladd_error_set(err, LLADD_WRONG_TYPE,
                                   "table %zu of an overlay has keys of another type or order", i);
    struct table *t = lladd_mem_alloc(db, sizeof *t + n * sizeof t->tables[0]);
    if (!t)
        return ll_dtable__no_memory(err);
    memset(t, 0, sizeof *t);
    t->base = (struct lladd_dtable){
        .kind = &overlay_class, .db = db, .order = tables[0]->order};
    t->n = n;
    for (size_t i = 0; i < n; i++) {
        t->tables[i] = tables[i];
        t->base.ranges += tables[i]->ranges;
    }
    *out = &t->base;
    return 0;
}
