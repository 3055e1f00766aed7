/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd btree: B+trees for scripts. get, scan, stat and check recover the database in memory;
 * create, put and del open the database. */
#include "keyed.h"

#include <lladd/btree.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: lladd btree create [options] DIRECTORY ROOT\n"
    "       lladd btree get    [options] DIRECTORY ROOT KEY\n"
    "       lladd btree put    [options] DIRECTORY ROOT KEY [VALUE]\n"
    "       lladd btree del    [options] DIRECTORY ROOT KEY\n"
    "       lladd btree scan   [options] DIRECTORY ROOT\n"
    "       lladd btree stat   [options] DIRECTORY ROOT\n"
    "       lladd btree check  [options] DIRECTORY ROOT\n"
    "\n"
    "Works on the B+tree with the root name ROOT. get prints the value and a newline. scan\n"
    "prints keys and values in the order of the keys' bytes, one pair a line, in quotation\n"
    "marks, with bytes that are not printable as \\xHH. stat prints sizes and counts. check\n"
    "prints the first damage that it finds, or \"no damage\". These verbs change nothing on disk.\n"
    "create makes a tree, and the database if there is none; put sets the value of KEY, new or\n"
    "not, and del deletes KEY, each in a durable transaction. Without VALUE the value is read\n"
    "from standard input, to its end. A database in use is refused.\n"
    "\n"
    "  --from KEY        scan: only this key and those after it\n"
    "  --to KEY          scan: only keys before this one\n"
    "  --reverse         scan: the last key first\n"
    "  --limit N         scan: at most N rows\n"
    "  --hex             keys and values are written and read in hexadecimal\n"
    "  --create          put: makes the database and the tree if they do not exist\n"
    "  --key-size N      create, put --create: every key has N bytes\n"
    "  --value-size N    create, put --create: every value has N bytes\n"
    "  --json, --ops FILE.so    as for the other verbs\n"
    "\n"
    "Exit status: 0; 1 if KEY does not exist, or the database is damaged; 2 if the database\n"
    "cannot be read or there is no such tree.\n";

enum { FROM = KEYED_OWN, TO, REVERSE, LIMIT };

static const struct option options[] = {KEYED_OPTIONS,
                                        {"from", required_argument, NULL, FROM},
                                        {"to", required_argument, NULL, TO},
                                        {"reverse", no_argument, NULL, REVERSE},
                                        {"limit", required_argument, NULL, LIMIT},
                                        {NULL, 0, NULL, 0}};

/* The options of scan. */
struct scan {
    const char *from, *to; /* NULL: not given */
    bool reverse;
    uint64_t limit;
    unsigned char *low, *high; /* owned */
    size_t low_len, high_len;
};

static int take(void *ctx, int option, const char *value)
{
    struct keyed *h = ctx;
    struct scan *s = h->own;
    switch (option) {
    case FROM:
        s->from = value;
        return 0;
    case TO:
        s->to = value;
        return 0;
    case REVERSE:
        s->reverse = true;
        return 0;
    case LIMIT:
        return tool_number("--limit", value, &s->limit) ? 0 : -1;
    default:
        return keyed_take(ctx, option, value);
    }
}

/* ---- the library's calls --------------------------------------------------------------------- */

static int open_tree(struct lladd_db *db, lladd_pageno root, void **out, struct lladd_error *err)
{
    struct lladd_btree *tree;
    int rc = lladd_btree_open(db, root, &tree, err);
    if (!rc)
        *out = tree;
    return rc;
}

static void close_tree(void *tree)
{
    lladd_btree_close(tree);
}

static int get(void *tree, struct lladd_span key, void *buf, size_t size, size_t *len,
               struct lladd_error *err)
{
    return lladd_btree_get(tree, key.data, key.len, buf, size, len, err);
}

static int put(struct lladd_txn *txn, void *tree, struct lladd_span key, struct lladd_span value)
{
    return lladd_btree_put(txn, tree, key.data, key.len, value.data, value.len);
}

static int del(struct lladd_txn *txn, void *tree, struct lladd_span key)
{
    return lladd_btree_delete(txn, tree, key.data, key.len);
}

/* Makes the tree with a load, because a new tree takes rows in no other way until its transaction
 * has committed. */
static int make(struct lladd_txn *txn, uint32_t key_size, uint32_t value_size,
                const struct lladd_span *key, struct lladd_span value, lladd_pageno *root)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    struct lladd_btree_loader *l;
    o.key_size = key_size;
    o.value_size = value_size;
    int rc = lladd_btree_load_begin(txn, &o, &l);
    if (rc)
        return rc;
    if (key)
        rc = lladd_btree_load_add(l, key->data, key->len, value.data, value.len);
    rc = rc ? rc : lladd_btree_load_finish(l, root);
    struct lladd_error why = *lladd_txn_error(txn);
    if (rc && lladd_btree_load_discard(l) == 0)
        *lladd_txn_error_out(txn) = why;
    return rc;
}

/* ---- verbs ----------------------------------------------------------------------------------- */

static int print_rows(struct keyed *h)
{
    const struct scan *s = h->own;
    struct lladd_btree_cursor *c;
    struct lladd_span key, value;
    int (*move)(struct lladd_btree_cursor *, struct lladd_error *) =
        s->reverse ? lladd_btree_cursor_prev : lladd_btree_cursor_next;
    int rc = lladd_btree_cursor_open(h->table, &c, &h->err);
    if (rc)
        return keyed_failed(h);
    if (s->from || s->to)
        rc = lladd_btree_cursor_bounds(c, s->low, s->low_len, s->high, s->high_len, &h->err);
    for (uint64_t n = 0; n < s->limit && !rc && (rc = move(c, &h->err)) == 0; n++) {
        rc = lladd_btree_cursor_row(c, &key, &value, &h->err);
        if (!rc)
            keyed_print_row(h, key, value);
    }
    lladd_btree_cursor_close(c);
    return !rc || rc == LLADD_END ? TOOL_FINE : keyed_failed(h);
}

static int scan(struct keyed *h)
{
    struct scan *s = h->own;
    int code = s->from ? keyed_bytes(h, "--from", s->from, &s->low, &s->low_len) : 0;
    if (!code && s->to)
        code = keyed_bytes(h, "--to", s->to, &s->high, &s->high_len);
    if (!code)
        code = keyed_look(h, print_rows);
    free(s->low);
    free(s->high);
    return code;
}

static void print_stat(const struct keyed *h, const struct lladd_btree_stats *s)
{
    const struct {
        const char *name, *json;
        uint64_t value;
    } lines[] = {{"rows", "rows", s->rows},
                 {"ghost records", "ghosts", s->ghosts},
                 {"values in blobs", "blobs", s->blobs},
                 {"levels", "levels", s->height},
                 {"leaves", "leaves", s->leaves},
                 {"inner nodes", "inner", s->inner},
                 {"spare pages", "spare", s->spare},
                 {"bytes of rows", "used_bytes", s->used_bytes},
                 {"bytes of a key", "key_size", lladd_btree_key_size(h->table)},
                 {"bytes of a value", "value_size", lladd_btree_value_size(h->table)}};
    json_t *all = h->t->json ? json_object() : NULL;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        bool any = lines[i].value == 0 && strncmp(lines[i].name, "bytes of a ", 11) == 0;
        if (h->t->json)
            json_object_set_new(all, lines[i].json, tool_json_u64(lines[i].value));
        else if (any)
            printf("%-22s any\n", lines[i].name);
        else
            printf("%-22s %" PRIu64 "\n", lines[i].name, lines[i].value);
    }
    if (h->t->json)
        tool_json_print(all, true);
}

static int look_at_stat(struct keyed *h)
{
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    if (lladd_btree_stats_get(h->table, &s, &h->err))
        return keyed_failed(h);
    print_stat(h, &s);
    return TOOL_FINE;
}

static int stat_verb(struct keyed *h)
{
    return keyed_look(h, look_at_stat);
}

static int look_for_damage(struct keyed *h)
{
    if (lladd_btree_check(h->table, &h->err))
        return keyed_failed(h);
    if (h->t->json)
        tool_json_print(json_pack("{s:b}", "damaged", 0), false);
    else
        printf("no damage\n");
    return TOOL_FINE;
}

static int check(struct keyed *h)
{
    return keyed_look(h, look_for_damage);
}

int tool_btree(int argc, char **argv)
{
    static const struct keyed_calls calls = {open_tree, close_tree, get, put, del, make};
    static const struct keyed_verb verbs[] = {{"create", "btree create", 1, 0, keyed_create},
                                              {"get", "btree get", 2, 0, keyed_get},
                                              {"put", "btree put", 2, 1, keyed_put},
                                              {"del", "btree del", 2, 0, keyed_del},
                                              {"scan", "btree scan", 1, 0, scan},
                                              {"stat", "btree stat", 1, 0, stat_verb},
                                              {"check", "btree check", 1, 0, check},
                                              {NULL, NULL, 0, 0, NULL}};
    struct tool t = {.verb = "btree", .usage = usage};
    struct scan s = {.limit = UINT64_MAX};
    struct keyed h = {.t = &t, .calls = &calls, .own = &s, .err = LLADD_ERROR_INIT};
    return keyed_run(&h, verbs, "create, get, put, del, scan, stat or check", options, take, argc,
                     argv);
}
