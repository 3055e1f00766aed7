/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables in memory (Anvil paper, section 5.1, "memory dTable"): a skip list under a mutex. Before a
 * lookup locks the mutex, it compares the key with the range of all keys ever inserted.
 *
 * A lookup copies the value into the caller's pin. A cursor keeps a copy of its row. At each step
 * the cursor searches for the neighbour of its key. It therefore shows rows that were inserted
 * after it was opened, and does not show rows that were deleted. */
#include "operations/dtables/core/dtable.h"

enum { LEVELS = 24 };

struct node {
    struct lladd_dtable_key key; /* the key's bytes follow `next` */
    enum lladd_dtable_state state;
    unsigned char *value;
    size_t len;
    struct node *next[]; /* one per level */
};

struct table {
    struct lladd_dtable base;
    struct lladd_mutex mutex;
    struct node *head[LEVELS];
    int height; /* levels in use */
    uint64_t random, rows;
};

/* ---- the list, under the mutex --------------------------------------------------------------- */

/* Returns the first node with a key not below `key`, or NULL. `links` (nullable) receives for each
 * level the address of the pointer to the first such node. */
static struct node *search(struct table *t, const struct lladd_dtable_key *key,
                           struct node ***links)
{
    struct node **next = t->head, *found = NULL;
    for (int level = LEVELS - 1; links && level >= t->height; level--)
        links[level] = &t->head[level];
    for (int level = t->height - 1; level >= 0; level--) {
        while (next[level] && lladd_dtable_compare(&t->base.order, &next[level]->key, key) < 0)
            next = next[level]->next;
        found = next[level];
        if (links)
            links[level] = &next[level];
    }
    return found;
}

/* Returns the last node with a key below `key` or, if `at`, not above it; key NULL: the last
 * node. */
static struct node *search_back(struct table *t, const struct lladd_dtable_key *key, bool at)
{
    struct node **next = t->head, *last = NULL;
    for (int level = t->height - 1; level >= 0; level--)
        while (next[level]) {
            int c = key ? lladd_dtable_compare(&t->base.order, &next[level]->key, key) : -1;
            if (c > 0 || (c == 0 && !at))
                break;
            last = next[level];
            next = last->next;
        }
    return last;
}

static struct node *new_node(struct table *t, const struct lladd_dtable_key *key, unsigned *levels)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    *levels = 1;
    for (uint64_t r = t->random; (r & 3) == 0 && *levels < LEVELS; r >>= 2)
        ++*levels;
    size_t links = *levels * sizeof(struct node *);
    size_t bytes = t->base.order.type < LLADD_DTABLE_STRING ? 0 : key->bytes.len;
    struct node *n = lladd_mem_alloc(t->base.db, sizeof *n + links + bytes);
    if (!n)
        return NULL;
    unsigned char *copy = (unsigned char *)n->next + links;
    *n = (struct node){.key = {key->type, key->number, {copy, bytes}}};
    if (bytes)
        memcpy(copy, key->bytes.data, bytes);
    return n;
}

static int put(struct table *t, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct node **links[LEVELS];
    struct node *n = search(t, key, links);
    bool there = n && lladd_dtable_compare(&t->base.order, &n->key, key) == 0;
    unsigned levels = 0;
    size_t len = value->state == LLADD_DTABLE_FOUND ? value->bytes.len : 0;
    unsigned char *bytes = lladd_mem_alloc(t->base.db, len + 1);
    if (!there && bytes)
        n = new_node(t, key, &levels);
    if (!bytes || !n) {
        lladd_mem_free(t->base.db, bytes);
        return LLADD_NO_MEMORY;
    }
    if (len)
        memcpy(bytes, value->bytes.data, len);
    lladd_dtable_key_range_widen(&t->base.key_range, lladd_dtable_prefix(&t->base.order, key));
    lladd_mem_free(t->base.db, n->value);
    n->value = bytes;
    n->len = len;
    n->state = value->state;
    t->height = t->height < (int)levels ? (int)levels : t->height;
    for (unsigned i = 0; i < levels; i++) {
        n->next[i] = *links[i];
        *links[i] = n;
    }
    t->rows += !there;
    return 0;
}

static void take_out(struct table *t, const struct lladd_dtable_key *key)
{
    struct node **links[LEVELS];
    struct node *n = search(t, key, links);
    if (!n || lladd_dtable_compare(&t->base.order, &n->key, key) != 0)
        return;
    for (int i = 0; i < LEVELS && *links[i] == n; i++)
        *links[i] = n->next[i];
    lladd_mem_free(t->base.db, n->value);
    lladd_mem_free(t->base.db, n);
    t->rows--;
}

int lladd_dtable_put(struct lladd_dtable *base, const struct lladd_dtable_key *key,
                     const struct lladd_dtable_value *value, struct lladd_error *err)
{
    TRY(ll_dtable__here(base, err));
    if (base->kind != &ll_dtable__memory_class)
        return lladd_error_set(err, LLADD_WRONG_TYPE, "a %s cannot be written to",
                               base->kind->name);
    struct table *t = (struct table *)base;
    TRY(lladd_dtable_check_key(&base->order, key, err));
    if (value->state == LLADD_DTABLE_FOUND && value->bytes.len > LLADD_DTABLE_VALUE_MAX)
        return lladd_error_set(err, LLADD_TOO_LARGE, "a value of %zu bytes", value->bytes.len);
    lladd_mutex_lock(&t->mutex);
    int rc = 0;
    if (value->state == LLADD_DTABLE_ABSENT)
        take_out(t, key);
    else
        rc = put(t, key, value);
    lladd_mutex_unlock(&t->mutex);
    return rc ? ll_dtable__no_memory(err) : 0;
}

/* ---- looking --------------------------------------------------------------------------------- */

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    struct table *t = (struct table *)(uintptr_t)base;
    int rc = 0;
    if (!lladd_dtable_key_range_has(&base->key_range, lladd_dtable_prefix(&base->order, key)))
        return 0;
    lladd_mutex_lock(&t->mutex);
    const struct node *n = search(t, key, NULL);
    if (n && lladd_dtable_compare(&base->order, &n->key, key) == 0) {
        unsigned char *copy = lladd_dtable_room(base->db, pin, n->len + 1);
        if (copy && n->len)
            memcpy(copy, n->value, n->len);
        *out = (struct lladd_dtable_value){n->state, {copy, n->len}};
        rc = copy ? 0 : LLADD_NO_MEMORY;
    }
    lladd_mutex_unlock(&t->mutex);
    return rc ? ll_dtable__no_memory(err) : 0;
}

struct cursor {
    struct ll_dtable_bytes bytes; /* bytes of the key, then of the value */
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
};

static int at_node(const struct lladd_dtable *t, struct cursor *c, const struct node *n)
{
    if (!n)
        return LLADD_END;
    c->bytes.db = t->db;
    c->bytes.len = 0;
    if (ll_dtable__append(&c->bytes, n->key.bytes.data, n->key.bytes.len) ||
        ll_dtable__append(&c->bytes, n->value, n->len))
        return LLADD_NO_MEMORY;
    c->key = (struct lladd_dtable_key){
        n->key.type, n->key.number, {c->bytes.data, n->key.bytes.len}};
    c->value = (struct lladd_dtable_value){
        n->state,
        {c->bytes.data ? c->bytes.data + n->key.bytes.len : (const unsigned char *)"", n->len}};
    return 0;
}

static int cursor_seek(const struct lladd_dtable *base, void *cursor, enum lladd_dtable_where where,
                       const struct lladd_dtable_key *key, struct lladd_error *err)
{
    struct table *t = (struct table *)(uintptr_t)base;
    lladd_mutex_lock(&t->mutex);
    const struct node *n = where == LLADD_DTABLE_FIRST        ? t->head[0]
                           : where == LLADD_DTABLE_LAST       ? search_back(t, NULL, true)
                           : where == LLADD_DTABLE_NOT_BEFORE ? search(t, key, NULL)
                                                              : search_back(t, key, true);
    int rc = at_node(base, cursor, n);
    lladd_mutex_unlock(&t->mutex);
    return rc == LLADD_NO_MEMORY ? ll_dtable__no_memory(err) : rc;
}

static int cursor_step(const struct lladd_dtable *base, void *cursor, bool forward,
                       struct lladd_error *err)
{
    struct table *t = (struct table *)(uintptr_t)base;
    struct cursor *c = cursor;
    lladd_mutex_lock(&t->mutex);
    const struct node *n = forward ? search(t, &c->key, NULL) : search_back(t, &c->key, false);
    if (forward && n && lladd_dtable_compare(&base->order, &n->key, &c->key) == 0)
        n = n->next[0];
    int rc = at_node(base, c, n);
    lladd_mutex_unlock(&t->mutex);
    return rc == LLADD_NO_MEMORY ? ll_dtable__no_memory(err) : rc;
}

static int cursor_row(const struct lladd_dtable *t, void *cursor, struct lladd_dtable_key *key,
                      struct lladd_dtable_value *value, struct lladd_error *err)
{
    const struct cursor *c = cursor;
    (void)t;
    (void)err;
    if (key)
        *key = c->key;
    if (value)
        *value = c->value;
    return 0;
}

static void cursor_close(const struct lladd_dtable *t, void *cursor)
{
    lladd_mem_free(t->db, ((struct cursor *)cursor)->bytes.data);
}

/* ---- made and gone --------------------------------------------------------------------------- */

static void close(struct lladd_dtable *base)
{
    struct table *t = (struct table *)base;
    for (struct node *n = t->head[0], *next; n; n = next) {
        next = n->next[0];
        lladd_mem_free(base->db, n->value);
        lladd_mem_free(base->db, n);
    }
    lladd_mutex_destroy(&t->mutex);
}

const struct lladd_dtable_class ll_dtable__memory_class = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "memory_dtable",
    .version = 1,
    .about = "in memory, can be written to",
    .close = close,
    .lookup = lookup,
    .cursor_size = sizeof(struct cursor),
    .cursor_close = cursor_close,
    .cursor_seek = cursor_seek,
    .cursor_step = cursor_step,
    .cursor_row = cursor_row,
};

int lladd_dtable_memory(struct lladd_db *db, enum lladd_dtable_type type, const char *comparator,
                        struct lladd_dtable **out, struct lladd_error *err)
{
    struct lladd_dtable_order order;
    TRY(lladd_dtable_order_of(db, type, comparator, &order, err));
    struct table *t = lladd_mem_alloc(db, sizeof *t);
    if (!t)
        return ll_dtable__no_memory(err);
    memset(t, 0, sizeof *t);
    t->random = UINT64_C(0x9e3779b97f4a7c15);
    t->base = (struct lladd_dtable){.kind = &ll_dtable__memory_class,
                                    .db = db,
                                    .order = order,
                                    .key_range = LLADD_DTABLE_KEY_RANGE_EMPTY};
    if (lladd_mutex_init(&t->mutex, LL_DTABLE_RANK_MEMORY, "memory dtable")) {
        lladd_mem_free(db, t);
        return ll_dtable__no_memory(err);
    }
    *out = &t->base;
    return 0;
}
