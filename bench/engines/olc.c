/* SPDX-License-Identifier: BSD-2-Clause */
/* A B+tree in memory. It shows how fast a tree is without transactions, log and deletions; no
 * target refers to it. Its nodes have 4 KiB and are synchronised by optimistic lock coupling (Leis,
 * Haubenschild, Neumann: "Optimistic Lock Coupling", 2019). Keys are 64-bit numbers. Another
 * process of the workload may open the tree, so the close writes the rows to a file, without a
 * sync.
 *
 * The version of a node is odd while a writer holds the node. A reader notes the version, reads,
 * and checks that the version is unchanged; otherwise it begins again at the top. When it descends,
 * it notes the version of the child and then checks that of the parent, so it never trusts a
 * pointer from a node that has changed. A writer locks one leaf. A full node is split on the
 * way down, so a split locks the node and its parent, and the parent has room. Nodes are freed at
 * the close only. All words that readers see are atomic. */
#include "engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODE 4096u
#define HEAD 24u /* version, level, count, next */
#define VALUES_MAX (NODE - HEAD)

struct node {
    _Atomic uint64_t version; /* odd: locked */
    _Atomic uint32_t level;   /* 0: leaf */
    _Atomic uint32_t count;
    _Atomic(struct node *) next; /* of a leaf: the next leaf */
    /* Keys, then values or children. In an inner node child i has keys below key i, and the last
     * child has the rest: count keys, count + 1 children. */
    _Atomic uint64_t words[(NODE - HEAD) / 8];
};

struct bench_db {
    struct bench_setup setup;
    uint32_t leaf_most, inner_most; /* keys in a node */
    uint32_t value_words;
    _Atomic(struct node *) top;
    struct node *first; /* the first leaf */
    pthread_mutex_t nodes_mutex;
    struct node **nodes; /* all nodes, to be freed */
    size_t n_nodes, cap_nodes;
};

#define LOAD(p) atomic_load_explicit(p, memory_order_acquire)
#define STORE(p, v) atomic_store_explicit(p, v, memory_order_release)

static struct node *new_node(struct bench_db *b, uint32_t level)
{
    struct node *n = aligned_alloc(64, NODE);
    if (!n)
        return NULL;
    memset(n, 0, NODE);
    STORE(&n->level, level);
    pthread_mutex_lock(&b->nodes_mutex);
    if (b->n_nodes == b->cap_nodes) {
        size_t cap = b->cap_nodes ? 2 * b->cap_nodes : 1024;
        struct node **more = realloc(b->nodes, cap * sizeof *more);
        if (!more) {
            pthread_mutex_unlock(&b->nodes_mutex);
            free(n);
            return NULL;
        }
        b->nodes = more;
        b->cap_nodes = cap;
    }
    b->nodes[b->n_nodes++] = n;
    pthread_mutex_unlock(&b->nodes_mutex);
    return n;
}

/* ---- versions -------------------------------------------------------------------------------- */

static uint64_t note(struct node *n)
{
    uint64_t v;
    for (unsigned tries = 0; (v = LOAD(&n->version)) & 1; tries++)
        if (tries > 64)
            sched_yield();
    return v;
}

/* The loads of words are acquire loads, so this load comes after them. */
static bool unchanged(struct node *n, uint64_t v)
{
    return LOAD(&n->version) == v;
}

static bool lock(struct node *n, uint64_t v)
{
    return atomic_compare_exchange_strong_explicit(&n->version, &v, v + 1, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

static void unlock(struct node *n)
{
    atomic_fetch_add_explicit(&n->version, 1, memory_order_release);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Returns the index of the first of `count` keys that is not less than `key` or, with `above`, is
 * greater than `key`. */
static uint32_t find(struct node *n, uint32_t count, uint64_t key, bool above)
{
    uint32_t lo = 0;
    while (count > 0) {
        uint32_t half = count / 2;
        uint64_t k = LOAD(&n->words[lo + half]);
        bool right = above ? k <= key : k < key;
        lo += right ? half + 1 : 0;
        count = right ? count - half - 1 : half;
    }
    return lo;
}

static uint32_t most(const struct bench_db *b, uint32_t level)
{
    return level ? b->inner_most : b->leaf_most;
}

/* A reader may see a count that does not fit the level, while a writer changes the node. Such a
 * count becomes 0, so that the reader stays inside the node until it checks the version. */
static uint32_t count_of(const struct bench_db *b, struct node *n, uint32_t level)
{
    uint32_t count = LOAD(&n->count);
    return count <= most(b, level) ? count : 0;
}

static struct node *child(const struct bench_db *b, struct node *n, uint32_t i)
{
    return (struct node *)(uintptr_t)LOAD(&n->words[b->inner_most + i]);
}

static _Atomic uint64_t *value_at(const struct bench_db *b, struct node *n, uint32_t i)
{
    return &n->words[b->leaf_most + i * b->value_words];
}

static void move(_Atomic uint64_t *to, _Atomic uint64_t *from, uint32_t n)
{
    if (to <= from)
        for (uint32_t i = 0; i < n; i++)
            STORE(&to[i], LOAD(&from[i]));
    else
        for (uint32_t i = n; i > 0; i--)
            STORE(&to[i - 1], LOAD(&from[i - 1]));
}

static void value_in(const struct bench_db *b, _Atomic uint64_t *to, const void *value)
{
    for (uint32_t i = 0, at = 0; i < b->value_words; i++, at += 8) {
        uint64_t w = 0;
        memcpy(&w, (const char *)value + at, b->setup.value_size - at < 8 ? b->setup.value_size - at
                                                                           : 8);
        STORE(&to[i], w);
    }
}

static void value_out(const struct bench_db *b, _Atomic uint64_t *from, void *value)
{
    for (uint32_t i = 0, at = 0; i < b->value_words; i++, at += 8) {
        uint64_t w = LOAD(&from[i]);
        memcpy((char *)value + at, &w, b->setup.value_size - at < 8 ? b->setup.value_size - at : 8);
    }
}

/* ---- descents -------------------------------------------------------------------------------- */

/* A node and its parent, with their versions. The top node has no parent. */
struct path {
    struct node *parent, *at;
    uint64_t parent_v, v;
    bool full;
};

/* Descends to the leaf of the key. With `inserts`, it stops at the first full node. Returns false
 * if a node has changed meanwhile: begin again. */
static bool descend(struct bench_db *b, uint64_t key, bool inserts, struct path *p)
{
    *p = (struct path){.at = LOAD(&b->top)};
    p->v = note(p->at);
    if (LOAD(&b->top) != p->at) /* the top node has been split meanwhile */
        return false;
    for (;;) {
        uint32_t level = LOAD(&p->at->level), count = count_of(b, p->at, level);
        p->full = inserts && count == most(b, level);
        if (level == 0 || p->full)
            return unchanged(p->at, p->v);
        struct node *next = child(b, p->at, find(p->at, count, key, true));
        if (!unchanged(p->at, p->v)) /* if unchanged, `next` is a node */
            return false;
        uint64_t v = note(next);
        if (!unchanged(p->at, p->v))
            return false;
        *p = (struct path){p->at, next, p->v, v, false};
    }
}

/* Moves the upper half of a locked node, or with `at_end` only its last key, to a new node; *key
 * divides the two. */
static struct node *divide(struct bench_db *b, struct node *n, bool at_end, uint64_t *key)
{
    uint32_t level = LOAD(&n->level), count = LOAD(&n->count);
    uint32_t keep = at_end ? count - 1 : count / 2, from = level ? keep + 1 : keep;
    struct node *right = new_node(b, level);
    if (!right)
        return NULL;
    *key = LOAD(&n->words[keep]);
    move(right->words, n->words + from, count - from);
    if (level)
        move(right->words + b->inner_most, n->words + b->inner_most + from, count - from + 1);
    else
        move(value_at(b, right, 0), value_at(b, n, from), (count - from) * b->value_words);
    STORE(&right->count, count - from);
    STORE(&right->next, LOAD(&n->next));
    STORE(&n->next, right);
    STORE(&n->count, keep);
    return right;
}

static void add_child(struct bench_db *b, struct node *n, uint64_t key, struct node *right)
{
    uint32_t count = LOAD(&n->count), i = find(n, count, key, true);
    _Atomic uint64_t *children = n->words + b->inner_most;
    move(n->words + i + 1, n->words + i, count - i);
    move(children + i + 2, children + i + 1, count - i);
    STORE(&n->words[i], key);
    STORE(&children[i + 1], (uintptr_t)right);
    STORE(&n->count, count + 1);
}

static int split_locked(struct bench_db *b, struct node *parent, struct node *n, uint64_t key)
{
    uint64_t middle;
    bool at_end = !LOAD(&n->next) && LOAD(&n->words[LOAD(&n->count) - 1]) < key;
    struct node *top = parent ? NULL : new_node(b, LOAD(&n->level) + 1);
    struct node *right = parent || top ? divide(b, n, at_end, &middle) : NULL;
    if (!right)
        return bench_failed("olc", "split", "no memory");
    if (!top) {
        add_child(b, parent, middle, right);
        return 0;
    }
    STORE(&top->words[0], middle);
    STORE(&top->words[b->inner_most], (uintptr_t)n);
    STORE(&top->words[b->inner_most + 1], (uintptr_t)right);
    STORE(&top->count, 1);
    STORE(&b->top, top);
    return 0;
}

/* Splits the full node of the path, if nothing has changed meanwhile. */
static int split(struct bench_db *b, const struct path *p, uint64_t key)
{
    if (p->parent && !lock(p->parent, p->parent_v))
        return 0;
    int rc = 0;
    if (lock(p->at, p->v)) {
        if (p->parent || LOAD(&b->top) == p->at)
            rc = split_locked(b, p->parent, p->at, key);
        unlock(p->at);
    }
    if (p->parent)
        unlock(p->parent);
    return rc;
}

/* ---- the engine ------------------------------------------------------------------------------ */

static int begin(struct bench_db *b, struct bench_thread *t, struct bench_txn **out)
{
    (void)t;
    *out = (struct bench_txn *)b;
    return 0;
}

static int commit(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    (void)txn;
    return 0;
}

static int roll_back(struct bench_db *b, struct bench_txn *txn)
{
    (void)b;
    (void)txn;
    return bench_failed("olc", "abort", "it has no transactions");
}

static int store(struct bench_db *b, struct node *leaf, uint64_t key, const void *value)
{
    uint32_t count = LOAD(&leaf->count), i = find(leaf, count, key, false);
    if (i == count || LOAD(&leaf->words[i]) != key) {
        move(leaf->words + i + 1, leaf->words + i, count - i);
        move(value_at(b, leaf, i + 1), value_at(b, leaf, i), (count - i) * b->value_words);
        STORE(&leaf->words[i], key);
        STORE(&leaf->count, count + 1);
    }
    value_in(b, value_at(b, leaf, i), value);
    return 0;
}

static int put(struct bench_db *b, struct bench_txn *txn, uint64_t key, const void *value)
{
    struct path p;
    int rc = 0;
    (void)txn;
    while (!rc) {
        if (!descend(b, key, true, &p))
            continue;
        if (p.full) {
            rc = split(b, &p, key);
        } else if (lock(p.at, p.v)) {
            rc = store(b, p.at, key, value);
            unlock(p.at);
            break;
        }
    }
    return rc;
}

static int lookup(struct bench_db *b, struct bench_thread *t, uint64_t key, void *value)
{
    struct path p;
    (void)t;
    for (;;) {
        if (!descend(b, key, false, &p))
            continue;
        uint32_t count = count_of(b, p.at, 0), i = find(p.at, count, key, false);
        bool found = i < count && LOAD(&p.at->words[i]) == key;
        if (found)
            value_out(b, value_at(b, p.at, i), value);
        if (unchanged(p.at, p.v))
            return found ? 0 : BENCH_ABSENT;
    }
}

/* Copies the leaf's values from the key on; *last gets the last key. Returns false if the leaf has
 * changed meanwhile: begin again. */
static bool scan_leaf(struct bench_db *b, const struct path *p, uint64_t key, uint32_t n,
                      char *values, uint32_t *seen, struct node **next, uint64_t *last)
{
    uint32_t count = count_of(b, p->at, 0), i = find(p->at, count, key, false), at = *seen;
    uint64_t final = *last;
    for (; i < count && at < n; i++, at++) {
        value_out(b, value_at(b, p->at, i), values + (size_t)at * b->setup.value_size);
        final = LOAD(&p->at->words[i]);
    }
    *next = LOAD(&p->at->next);
    if (!unchanged(p->at, p->v))
        return false;
    *seen = at;
    *last = final;
    return true;
}

static int scan(struct bench_db *b, struct bench_thread *t, uint64_t key, uint32_t n, void *values,
                uint32_t *seen)
{
    struct node *next = NULL;
    struct path p;
    uint64_t last = 0;
    (void)t;
    *seen = 0;
    do {
        uint64_t from = *seen ? last + 1 : key;
        if (next)
            p = (struct path){.at = next, .v = note(next)};
        else if (!descend(b, from, false, &p))
            continue;
        if (!scan_leaf(b, &p, from, n, values, seen, &next, &last))
            next = NULL;
        else if (!next)
            return 0;
    } while (*seen < n);
    return 0;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static FILE *open_file(const struct bench_db *b, const char *mode)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/rows", b->setup.dir);
    return fopen(path, mode);
}

static int read_rows(struct bench_db *b)
{
    unsigned char value[NODE];
    uint64_t key;
    FILE *f = open_file(b, "r");
    int rc = 0;
    if (!f)
        return 0; /* a new tree */
    while (!rc && fread(&key, sizeof key, 1, f) == 1)
        rc = fread(value, b->setup.value_size, 1, f) == 1 ? put(b, NULL, key, value) : BENCH_FAILED;
    fclose(f);
    return rc;
}

static int open_it(const struct bench_setup *s, struct bench_db **out)
{
    struct bench_db *b = calloc(1, sizeof *b);
    if (!b || pthread_mutex_init(&b->nodes_mutex, NULL))
        return BENCH_FAILED;
    *out = b;
    b->setup = *s;
    b->value_words = (s->value_size + 7) / 8;
    b->leaf_most = VALUES_MAX / (8 + 8 * b->value_words);
    b->inner_most = (VALUES_MAX / 8 - 1) / 2;
    b->first = b->leaf_most < 2 ? NULL : new_node(b, 0);
    STORE(&b->top, b->first);
    if (!b->first)
        return bench_failed("olc", "open", "no memory, or values longer than half a node");
    return read_rows(b);
}

static int write_rows(struct bench_db *b)
{
    unsigned char value[NODE];
    FILE *f = open_file(b, "w");
    bool fine = f != NULL;
    for (struct node *n = b->first; fine && n; n = LOAD(&n->next))
        for (uint32_t i = 0; fine && i < LOAD(&n->count); i++) {
            uint64_t key = LOAD(&n->words[i]);
            value_out(b, value_at(b, n, i), value);
            fine = fwrite(&key, sizeof key, 1, f) == 1 &&
                   fwrite(value, b->setup.value_size, 1, f) == 1;
        }
    if (f && fclose(f))
        fine = false;
    return fine ? 0 : bench_failed("olc", "close", "the rows cannot be written");
}

static int close_it(struct bench_db *b)
{
    int rc = write_rows(b);
    for (size_t i = 0; i < b->n_nodes; i++)
        free(b->nodes[i]);
    free(b->nodes);
    pthread_mutex_destroy(&b->nodes_mutex);
    free(b);
    return rc;
}

static const char *version(void)
{
    return "1";
}

const struct bench_engine bench_engine_olc = {
    .name = "olc",
    .version = version,
    .settings = "a B+tree in memory: no transactions, no log; nodes of 4 KiB; 64-bit keys",
    .in_memory = true,
    .open = open_it,
    .close = close_it,
    .begin = begin,
    .commit = commit,
    .abort = roll_back,
    .insert = put,
    .update = put,
    .lookup = lookup,
    .scan = scan,
    .records = true,
};
