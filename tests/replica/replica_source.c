/* SPDX-License-Identifier: BSD-2-Clause */
/* See replica_source.h. */
#include "replica_source.h"

#include "support/fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const source_tables[SOURCE_TABLES + 1] = {"rows", "more", NULL};

enum { OPEN = 4, CHANGES = 12 };

/* A change of one row; number 0: it is deleted. */
struct row {
    unsigned table, key;
    uint32_t number;
};

struct master {
    uint64_t txn; /* 0: none */
    struct row rows[CHANGES * 4];
    unsigned n, changes;
};

struct making {
    struct source *s;
    uint64_t rng, position, txns;
    uint32_t numbers; /* values are numbers that ascend */
    bool before;
    struct master open[OPEN];
    uint32_t committed[SOURCE_TABLES][SOURCE_KEYS];
};

static uint64_t draw(struct making *m, uint64_t n)
{
    return seeded_next(&m->rng) % n;
}

static struct lladd_replica_event *add(struct making *m, enum lladd_replica_kind kind, uint64_t txn)
{
    struct lladd_replica_event *e = &m->s->events[m->s->n++];
    m->position += 1 + draw(m, 5);
    *e = (struct lladd_replica_event){.kind = kind, .position = m->position, .txn = txn};
    return e;
}

static struct lladd_dtable_value text_of(struct making *m, unsigned which, uint32_t number)
{
    char *to = m->s->values[m->s->n - 1][which];
    return lladd_dtable_value_of(to, (size_t)snprintf(to, 16, "%u", (unsigned)number));
}

/* Does another open transaction change the key? */
static bool taken(const struct making *m, const struct master *me, unsigned table, unsigned key)
{
    for (unsigned i = 0; i < OPEN; i++)
        for (unsigned k = 0; &m->open[i] != me && m->open[i].txn && k < m->open[i].n; k++)
            if (m->open[i].rows[k].table == table && m->open[i].rows[k].key == key)
                return true;
    return false;
}

/* The row as the transaction sees it. */
static uint32_t now(const struct making *m, const struct master *me, unsigned table, unsigned key)
{
    uint32_t number = m->committed[table][key];
    for (unsigned i = 0; i < me->n; i++)
        if (me->rows[i].table == table && me->rows[i].key == key)
            number = me->rows[i].number;
    return number;
}

static void change_range(struct making *m, struct master *me, unsigned table, unsigned key)
{
    enum { LENGTH = 3 };
    for (unsigned k = key; k < key + LENGTH; k++)
        if (k == SOURCE_KEYS || taken(m, me, table, k))
            return;
    struct lladd_replica_event *e = add(m, LLADD_REPLICA_DELETE_RANGE, me->txn);
    e->table = source_tables[table];
    e->key = lladd_dtable_u32(key);
    e->to = lladd_dtable_u32(key + LENGTH);
    for (unsigned k = key; k < key + LENGTH; k++)
        me->rows[me->n++] = (struct row){table, k, 0};
    me->changes++;
}

static void change(struct making *m, struct master *me)
{
    unsigned table = (unsigned)draw(m, SOURCE_TABLES), key = (unsigned)draw(m, SOURCE_KEYS);
    unsigned kind = (unsigned)draw(m, 8);
    if (me->changes == CHANGES || taken(m, me, table, key))
        return;
    if (!kind) {
        change_range(m, me, table, key);
        return;
    }
    uint32_t was = now(m, me, table, key), number = kind < 3 ? 0 : ++m->numbers;
    struct lladd_replica_event *e =
        add(m, number ? LLADD_REPLICA_PUT : LLADD_REPLICA_DELETE, me->txn);
    e->table = source_tables[table];
    e->key = lladd_dtable_u32(key);
    if (m->before)
        e->before = was ? text_of(m, 0, was) : lladd_dtable_tombstone();
    if (number)
        e->after = text_of(m, 1, number);
    me->rows[me->n++] = (struct row){table, key, number};
    me->changes++;
}

static void end(struct making *m, struct master *me)
{
    bool aborts = draw(m, 4) == 0;
    add(m, aborts ? LLADD_REPLICA_ABORT : LLADD_REPLICA_COMMIT, me->txn);
    for (unsigned i = 0; !aborts && i < me->n; i++)
        m->committed[me->rows[i].table][me->rows[i].key] = me->rows[i].number;
    *me = (struct master){0};
}

void source_make(struct source *s, uint64_t seed, size_t n, bool before)
{
    struct making *m = calloc(1, sizeof *m);
    *s = (struct source){.events = calloc(n, sizeof *s->events),
                         .values = calloc(n, sizeof *s->values)};
    if (!m || !s->events || !s->values)
        abort();
    *m = (struct making){.s = s, .rng = seed, .before = before};
    while (s->n < n) {
        struct master *me = &m->open[draw(m, OPEN)];
        unsigned what = (unsigned)draw(m, 8);
        if (!me->txn) {
            me->txn = ++m->txns;
            add(m, LLADD_REPLICA_BEGIN, me->txn);
        } else if (what == 0) {
            end(m, me);
        } else if (what == 1 && draw(m, 4) == 0) {
            add(m, LLADD_REPLICA_MARK, 0);
        } else {
            change(m, me);
        }
    }
    free(m);
}

void source_free(struct source *s)
{
    free(s->events);
    free(s->values);
}

/* Applies the changes of the transaction that ends at `commit` to the rows. */
static void apply(const struct source *s, size_t commit, const char *table, const char **rows)
{
    size_t i = commit;
    while (s->events[i].txn != s->events[commit].txn || s->events[i].kind != LLADD_REPLICA_BEGIN)
        i--;
    for (; i < commit; i++) {
        const struct lladd_replica_event *e = &s->events[i];
        if (e->txn != s->events[commit].txn || !e->table || strcmp(e->table, table) != 0)
            continue;
        uint64_t to = e->kind == LLADD_REPLICA_DELETE_RANGE ? e->to.number : e->key.number + 1;
        for (uint64_t k = e->key.number; k < to; k++)
            rows[k] = e->after.state ? e->after.bytes.data : NULL;
    }
}

char *source_rows(const struct source *s, const char *table, uint64_t position)
{
    const char *rows[SOURCE_KEYS] = {NULL};
    char *text = calloc(SOURCE_KEYS, 24), *at = text;
    if (!text)
        abort();
    for (size_t i = 0; i < s->n && s->events[i].position <= position; i++)
        if (s->events[i].kind == LLADD_REPLICA_COMMIT)
            apply(s, i, table, rows);
    for (unsigned k = 0; k < SOURCE_KEYS; k++)
        if (rows[k])
            at += sprintf(at, "%s%u=%s", at == text ? "" : " ", k, rows[k]);
    return text;
}

size_t source_find(const struct source *s, uint64_t position)
{
    size_t i = 0;
    while (i < s->n && s->events[i].position < position)
        i++;
    return i;
}

uint64_t source_end(const struct source *s)
{
    return s->events[s->n - 1].position;
}

uint64_t source_last_commit(const struct source *s)
{
    size_t i = s->n - 1;
    while (s->events[i].kind != LLADD_REPLICA_COMMIT)
        i--;
    return s->events[i].position;
}
