/* SPDX-License-Identifier: BSD-2-Clause */
/* The history: the last waits that have ended, and what blocked them. */
#include "operations/lock/table.h"

static void forget_one(struct ll_locks *all, struct ll_lock_past *p)
{
    lladd_mem_free(all->db, p->name);
    lladd_mem_free(all->db, p->text);
    memset(p, 0, sizeof *p);
}

static struct ll_lock_past *past_at(const struct ll_locks *all, size_t i)
{
    return &all->past[(all->first_past + i) % all->cap_past];
}

/* The place for the next event: an unused place, or that of the oldest event. NULL: no memory. */
static struct ll_lock_past *next_place(struct ll_locks *all)
{
    if (all->n_past == all->cap_past && all->cap_past < all->past_max) {
        size_t cap = all->cap_past ? all->cap_past * 2 : 16;
        cap = cap < all->past_max ? cap : all->past_max;
        struct ll_lock_past *fresh = lladd_mem_alloc(all->db, cap * sizeof *fresh);
        if (fresh) {
            memset(fresh, 0, cap * sizeof *fresh);
            for (size_t i = 0; i < all->n_past; i++)
                fresh[i] = *past_at(all, i);
            lladd_mem_free(all->db, all->past);
            all->past = fresh;
            all->cap_past = cap;
            all->first_past = 0;
        }
    }
    if (all->n_past < all->cap_past)
        return past_at(all, all->n_past++);
    if (!all->cap_past)
        return NULL;
    struct ll_lock_past *oldest = past_at(all, 0);
    all->first_past = (all->first_past + 1) % all->cap_past;
    forget_one(all, oldest);
    return oldest;
}

void ll_operations__lock_remember(struct ll_locks *all, const struct lladd_lock_event *event,
                                  const unsigned char *name, size_t len, const char *text)
{
    size_t text_size = strlen(text) + 1;
    struct ll_lock_past p = {.event = *event, .name_len = len};
    p.name = lladd_mem_alloc(all->db, len);
    p.text = lladd_mem_alloc(all->db, text_size);
    if (p.name && p.text) {
        memcpy(p.name, name, len);
        memcpy(p.text, text, text_size);
        lladd_mutex_lock(&all->history_mutex);
        struct ll_lock_past *place = next_place(all);
        if (place) {
            *place = p;
            p.name = NULL;
            p.text = NULL;
        }
        lladd_mutex_unlock(&all->history_mutex);
    }
    lladd_mem_free(all->db, p.name);
    lladd_mem_free(all->db, p.text);
}

void ll_operations__lock_forget(struct ll_locks *all)
{
    for (size_t i = 0; i < all->n_past; i++)
        forget_one(all, past_at(all, i));
    lladd_mem_free(all->db, all->past);
    all->past = NULL;
    all->n_past = all->cap_past = all->first_past = 0;
}

/* Copies one event; the caller frees its name and text. */
static int copy_out(struct ll_locks *all, const struct ll_lock_past *from, struct ll_lock_past *to)
{
    size_t text_size = strlen(from->text) + 1;
    *to = *from;
    to->name = lladd_mem_alloc(all->db, from->name_len);
    to->text = lladd_mem_alloc(all->db, text_size);
    if (!to->name || !to->text) {
        forget_one(all, to);
        return LLADD_NO_MEMORY;
    }
    memcpy(to->name, from->name, from->name_len);
    memcpy(to->text, from->text, text_size);
    return 0;
}

static int copy_all(struct ll_locks *all, struct ll_lock_past **out, size_t *n)
{
    int rc = 0;
    *n = 0;
    *out = NULL;
    lladd_mutex_lock(&all->history_mutex);
    if (all->n_past) {
        *out = lladd_mem_alloc(all->db, all->n_past * sizeof **out);
        rc = *out ? 0 : LLADD_NO_MEMORY;
        for (size_t i = 0; !rc && i < all->n_past; i++) {
            rc = copy_out(all, past_at(all, i), &(*out)[i]);
            *n += !rc;
        }
    }
    lladd_mutex_unlock(&all->history_mutex);
    return rc;
}

int lladd_lock_history(struct lladd_db *db, lladd_lock_event_fn *fn, void *ctx,
                       struct lladd_error *err)
{
    struct ll_locks *all;
    struct ll_lock_past *events;
    size_t n;
    TRY(ll_operations__locks_of(db, &all, err));
    int rc = copy_all(all, &events, &n);
    if (rc)
        lladd_error_set(err, rc, "out of memory for old locks");
    for (size_t i = 0; i < n; i++) {
        struct lladd_lock_event *e = &events[i].event;
        struct lladd_lock_part *parts = NULL;
        if (!rc) {
            parts = ll_operations__lock_parts(db, events[i].name, events[i].name_len, &e->name.n);
            if (!parts)
                rc = lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for old locks");
        }
        e->name.parts = parts;
        e->text = events[i].text;
        if (!rc)
            rc = fn(ctx, e);
        lladd_mem_free(db, parts);
        forget_one(all, &events[i]);
    }
    lladd_mem_free(db, events);
    return rc;
}
