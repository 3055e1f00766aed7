/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes deleted ranges into runs. Deleted intervals that touch are written as one range, even if
 * they are of different tables. */
#include "operations/dtables/managed/managed.h"

/* A copy of a key. */
struct end {
    bool there;
    struct lladd_dtable_key key;
    unsigned char bytes[LLADD_DTABLE_KEY_MAX];
};

struct walk {
    const struct lladd_dtable *t;
    struct lladd_dtable_pin pins[2];
    struct end from, to; /* the current range; the search continues at `to` */
    bool done;
};

static void keep(struct end *e, bool there, const struct lladd_dtable_key *key)
{
    e->there = there;
    if (!there)
        return;
    e->key = *key;
    if (key->type < LLADD_DTABLE_STRING)
        return;
    lladd_copy(e->bytes, key->bytes.data, key->bytes.len);
    e->key.bytes.data = e->bytes;
}

static struct walk *walk_begin(const struct lladd_dtable *t)
{
    struct walk *w = lladd_mem_alloc(t->db, sizeof *w);
    if (w)
        *w = (struct walk){.t = t};
    return w;
}

static void walk_end(struct walk *w)
{
    lladd_dtable_unpin(&w->pins[0]);
    lladd_dtable_unpin(&w->pins[1]);
    lladd_mem_free(w->t->db, w);
}

/* Moves to the next range: 0 or LLADD_END. */
static int walk_next(struct walk *w, struct lladd_error *err)
{
    struct lladd_dtable_interval s;
    bool within = false;
    while (!w->done) {
        TRY(lladd_dtable_interval_at(w->t, w->to.there ? &w->to.key : NULL, w->pins, &s, err));
        if (within && !s.deleted)
            return 0; /* the range ends where this interval begins */
        if (s.deleted && !within)
            keep(&w->from, w->to.there, &w->to.key);
        within = s.deleted;
        keep(&w->to, s.has_to, &s.to);
        w->done = !s.has_to;
    }
    return within ? 0 : LLADD_END;
}

int ll_managed__any_ranges(const struct lladd_dtable *t, bool *out, struct lladd_error *err)
{
    *out = false;
    if (t->ranges == 0)
        return 0;
    struct walk *w = walk_begin(t);
    if (!w)
        return ll_managed__no_memory(err);
    int rc = walk_next(w, err);
    *out = rc == 0;
    walk_end(w);
    return rc == LLADD_END ? 0 : rc;
}

int ll_managed__add_ranges(struct lladd_dtable_run_builder *b, const struct lladd_dtable *t,
                           uint64_t *n, struct lladd_error *err)
{
    int rc = 0;
    if (t->ranges == 0)
        return 0;
    struct walk *w = walk_begin(t);
    if (!w)
        return ll_managed__no_memory(err);
    while (!rc && (rc = walk_next(w, err)) == 0) {
        rc = lladd_dtable_run_add_range(b, w->from.there ? &w->from.key : NULL,
                                        w->to.there ? &w->to.key : NULL);
        *n += rc == 0;
    }
    walk_end(w);
    return rc == LLADD_END ? 0 : rc;
}

/* ---- configurations with ranges -------------------------------------------------------------- */

static int add_child(struct lladd_managed *t, struct lladd_dtable_config *c, const char *name,
                     const char *text, struct lladd_error *err)
{
    struct lladd_dtable_config *child;
    TRY(lladd_dtable_config_parse(t->db, text, &child, err));
    int rc = lladd_dtable_config_set_child(c, name, child, err);
    if (rc)
        lladd_dtable_config_free(child);
    return rc;
}

int ll_managed__around(struct lladd_managed *t, const char *class_name,
                       const struct lladd_dtable_config *base, const char *other, bool alike,
                       struct lladd_dtable_config **out, struct lladd_error *err)
{
    static const char linear[] = "class(dt) linear_dtable";
    char *text = NULL;
    *out = NULL;
    int rc = base ? lladd_dtable_config_text(base, &text, err) : 0;
    if (!rc)
        rc = lladd_dtable_config_new(t->db, class_name, out, err);
    if (!rc)
        rc = add_child(t, *out, "base", text ? text : linear, err);
    if (!rc)
        rc = add_child(t, *out, other, alike && text ? text : linear, err);
    if (!rc)
        rc = lladd_dtable_config_check(*out, t->order.type, err);
    lladd_mem_free(t->db, text);
    if (rc) {
        lladd_dtable_config_free(*out);
        *out = NULL;
    }
    return rc;
}
