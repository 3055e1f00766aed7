/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd load: makes structures from the text that `lladd dump` writes.
 *
 * A structure gets its name after its last line has been read and verified. Without --batch the
 * whole file is loaded in one transaction. With --batch many transactions load the file; until the
 * last transaction of a structure, the structure has the name "lladd.load" (PENDING). If the
 * program dies, the next load first removes the structure with this name. */
#include "dump_text.h"
#include "tool.h"

#include <lladd/array.h>
#include <lladd/blob.h>
#include <lladd/btree.h>
#include <lladd/hash.h>
#include <lladd/list.h>

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: lladd load [--create] [--replace] [--batch N] [--json] [--ops FILE.so]\n"
    "                  DIRECTORY [FILE]\n"
    "\n"
    "Makes the structures that FILE, or standard input, describes (written by \"lladd dump\";\n"
    "docs/dump-format.md) under their names. All or nothing: everything is loaded in one\n"
    "transaction, and a file that is malformed, cut off, or does not match its checksums\n"
    "changes nothing.\n"
    "\n"
    "  --create     makes the database if there is none\n"
    "  --replace    replaces a structure that has the same name; otherwise such a name is refused\n"
    "  --batch N    commits after every N records, for a file that is larger than the limit of\n"
    "               the log. Each structure still appears as a whole. Structures that were\n"
    "               complete before an error stay\n"
    "\n"
    "Exit status: 0; 1 if something in the database is damaged; 2 if FILE or DIRECTORY cannot\n"
    "be read, or FILE is refused.\n";

enum { CREATE = TOOL_OWN, REPLACE, BATCH };

static const struct option options[] = {TOOL_COMMON,
                                        {"create", no_argument, NULL, CREATE},
                                        {"replace", no_argument, NULL, REPLACE},
                                        {"batch", required_argument, NULL, BATCH},
                                        {NULL, 0, NULL, 0}};

#define PENDING "lladd.load"
#define CHUNK (1u << 18) /* bytes of an array or a blob that are written in one call */

struct loading {
    struct tool *tool;
    uint64_t done; /* records of the current structure */
    bool create, replace;
    uint64_t batch;
    struct lladd_db *db;
    struct lladd_txn *txn;
    uint64_t in_txn; /* number of records in the current transaction */
    uint64_t records, structures;
    /* The structure being loaded: */
    struct dump_head head;
    const struct tool_kind *kind; /* kind of the structure; NULL: no structure is being loaded */
    lladd_pageno root;
    bool taken; /* the structure's name is in use */
    struct lladd_root_value old;
    struct lladd_hash *hash;
    struct lladd_btree *tree;          /* with --batch */
    struct lladd_btree_loader *loader; /* without --batch */
    unsigned char *last;               /* the last key of a B+tree */
    size_t last_len, last_size;
    struct lladd_array *array;
    struct lladd_list *list;
    uint64_t at;           /* index of the first element, or of the first byte of a blob, in the
                            * buffer */
    unsigned char *buffer; /* elements of an array or bytes of a blob that are not written yet */
    size_t len, size;
};

static int take(void *ctx, int option, const char *value)
{
    struct loading *l = ctx;
    l->create = l->create || option == CREATE;
    l->replace = l->replace || option == REPLACE;
    if (option != BATCH)
        return option == CREATE || option == REPLACE ? 0 : -1;
    return tool_number_in("--batch", value, 1, UINT64_MAX, &l->batch) ? 0 : -1;
}

/* ---- transactions --------------------------------------------------------------------------- */

static int begin(struct loading *l, struct lladd_error *err)
{
    l->in_txn = 0;
    return l->txn ? 0 : lladd_begin(l->db, NULL, &l->txn, err);
}

/* If rc is an error of a call on the transaction, copies the error to *err. */
static int of_txn(struct loading *l, int rc, struct lladd_error *err)
{
    if (rc)
        *err = *lladd_txn_error(l->txn);
    return rc;
}

static int commit(struct loading *l, struct lladd_error *err)
{
    int rc = lladd_commit(l->txn);
    if (!rc) {
        l->txn = NULL;
    } else if (lladd_code_root(rc) == LLADD_ROOT_POISONED) {
        l->txn = NULL;
        (void)lladd_db_error(l->db, err); /* the error of the handle is the cause */
    } else {
        *err = *lladd_txn_error(l->txn);
    }
    return rc;
}

static int abort_txn(struct loading *l, struct lladd_error *err)
{
    int rc = l->txn ? lladd_abort(l->txn) : 0;
    l->txn = NULL;
    if (rc)
        (void)lladd_db_error(l->db, err); /* the abort returns an error only if the handle is
                                           * poisoned */
    return rc;
}

/* ---- remains of an earlier load -------------------------------------------------------------- */

/* Removes the structure named PENDING, if it exists. */
static int sweep(struct loading *l, struct lladd_error *err)
{
    struct lladd_root_value value;
    const struct tool_kind *kind;
    int rc = lladd_root_get(l->db, PENDING, &value, NULL);
    if (rc == LLADD_NOT_FOUND)
        return 0;
    rc = rc ? lladd_root_get(l->db, PENDING, &value, err) : 0;
    rc = rc ? rc : tool_kind_of(l->db, value.a, &kind, err);
    rc = rc ? rc : begin(l, err);
    if (rc)
        return rc;
    if (kind)
        rc = of_txn(l, kind->destroy(l->txn, lladd_page_of(value.a)), err);
    rc = rc ? rc : of_txn(l, lladd_root_delete(l->txn, PENDING), err);
    rc = rc ? rc : commit(l, err);
    if (rc && l->txn) {
        struct lladd_error second = LLADD_ERROR_INIT;
        int undone = abort_txn(l, &second);
        return undone ? undone : rc;
    }
    return rc;
}

/* ---- one structure -------------------------------------------------------------------------- */

/* Checks that the name is not in use, or that it names a structure that may be replaced. */
static int check_name(struct loading *l, struct lladd_error *err)
{
    const struct tool_kind *old;
    if (strcmp(l->head.name, PENDING) == 0)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "the name \"" PENDING "\" is reserved for lladd load");
    int rc = lladd_root_get(l->db, l->head.name, &l->old, err);
    l->taken = rc == 0;
    if (rc == LLADD_NOT_FOUND) {
        *err = (struct lladd_error)LLADD_ERROR_INIT;
        return 0;
    }
    if (rc)
        return rc;
    if (!l->replace)
        return lladd_error_set(err, LLADD_EXISTS, "\"%s\" already exists (--replace replaces it)",
                               l->head.name);
    rc = tool_kind_of(l->db, l->old.a, &old, err);
    if (!rc && !old)
        rc = lladd_error_set(err, LLADD_WRONG_TYPE,
                             "\"%s\" already exists, and is not an array, hash table, B+tree, list "
                             "or blob",
                             l->head.name);
    return rc;
}

static int make_array(struct loading *l, struct lladd_error *err)
{
    uint64_t size = l->head.element_size;
    if (size > lladd_array_element_max(l->db))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "elements have %" PRIu64 " bytes; the pages of this database allow "
                               "at most %" PRIu32,
                               size, lladd_array_element_max(l->db));
    int rc = of_txn(l, lladd_array_create(l->txn, (uint32_t)size, l->head.count, &l->root), err);
    return rc ? rc : lladd_array_open(l->db, l->root, &l->array, err);
}

static int make_hash(struct loading *l, struct lladd_error *err)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    if (l->head.key_size > UINT32_MAX || l->head.value_size > UINT32_MAX)
        return lladd_error_set(err, LLADD_KEY_SIZE,
                               "hash tables do not allow keys or values of this length");
    o.key_size = (uint32_t)l->head.key_size;
    o.value_size = (uint32_t)l->head.value_size;
    int rc = of_txn(l, lladd_hash_create(l->txn, &o, &l->root), err);
    return rc ? rc : lladd_hash_open(l->db, l->root, 0, &l->hash, err);
}

/* With --batch, one transaction makes the tree, and several later ones put its rows. */
static int make_btree(struct loading *l, struct lladd_error *err)
{
    struct lladd_btree_options o = LLADD_BTREE_OPTIONS_INIT;
    if (l->head.key_size > UINT32_MAX || l->head.value_size > UINT32_MAX)
        return lladd_error_set(err, LLADD_KEY_SIZE,
                               "B+trees do not allow keys or values of this length");
    o.key_size = (uint32_t)l->head.key_size;
    o.value_size = (uint32_t)l->head.value_size;
    return of_txn(l,
                  l->batch ? lladd_btree_create(l->txn, &o, &l->root)
                           : lladd_btree_load_begin(l->txn, &o, &l->loader),
                  err);
}

/* Commits, because a new tree takes rows only after its transaction has committed. */
static int open_btree(struct loading *l, struct lladd_error *err)
{
    int rc = commit(l, err);
    rc = rc ? rc : begin(l, err);
    return rc ? rc : lladd_btree_open(l->db, l->root, &l->tree, err);
}

static int make(struct loading *l, struct lladd_error *err)
{
    int rc = 0;
    switch (l->kind->id) {
    case TOOL_ARRAY:
        return make_array(l, err);
    case TOOL_HASH:
        return make_hash(l, err);
    case TOOL_LIST:
        rc = of_txn(l, lladd_list_create(l->txn, &l->root), err);
        return rc ? rc : lladd_list_open(l->db, l->root, &l->list, err);
    case TOOL_BLOB:
        return of_txn(l, lladd_blob_create(l->txn, NULL, 0, &l->root), err);
    case TOOL_BTREE:
        return make_btree(l, err);
    case TOOL_RUN: /* a dump contains no sorted runs */
    case TOOL_KINDS:
        break;
    }
    return LLADD_BAD_ARGUMENT;
}

static int head(void *ctx, const struct dump_head *h, struct lladd_error *err)
{
    struct loading *l = ctx;
    l->head = *h;
    l->at = 0;
    l->len = 0;
    l->done = 0;
    l->last_len = SIZE_MAX;
    int rc = check_name(l, err);
    rc = rc ? rc : begin(l, err);
    if (rc)
        return rc;
    l->kind = tool_kind_named(h->kind);
    rc = make(l, err);
    if (!rc && l->batch)
        rc = of_txn(l, lladd_root_set(l->txn, PENDING, (struct lladd_root_value){l->root.v, 0}),
                    err);
    if (!rc && l->batch && l->kind->id == TOOL_BTREE)
        rc = open_btree(l, err);
    return rc;
}

static void close_handles(struct loading *l)
{
    if (l->tree)
        lladd_btree_close(l->tree);
    l->tree = NULL;
    if (l->hash)
        lladd_hash_close(l->hash);
    if (l->array)
        lladd_array_close(l->array);
    if (l->list)
        lladd_list_close(l->list);
    l->hash = NULL;
    l->array = NULL;
    l->list = NULL;
    l->kind = NULL;
}

/* Writes the buffered elements or bytes. */
static int flush(struct loading *l, struct lladd_error *err)
{
    int rc = 0;
    if (l->len == 0)
        return 0;
    if (l->kind->id == TOOL_ARRAY) {
        uint64_t n = l->len / l->head.element_size;
        rc = of_txn(l, lladd_array_set_range(l->txn, l->array, l->at, n, l->buffer), err);
        l->at += n;
    } else {
        rc = of_txn(l, lladd_blob_append(l->txn, l->root, l->buffer, l->len), err);
        l->at += l->len;
    }
    l->len = 0;
    return rc;
}

static int gather(struct loading *l, struct lladd_span s, struct lladd_error *err)
{
    int rc = l->len + s.len > CHUNK ? flush(l, err) : 0;
    if (!rc && l->len + s.len > l->size) {
        size_t size = s.len > CHUNK ? s.len : CHUNK;
        unsigned char *p = realloc(l->buffer, size);
        if (!p)
            return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for %zu bytes", size);
        l->buffer = p;
        l->size = size;
    }
    if (!rc && s.len) {
        memcpy(l->buffer + l->len, s.data, s.len);
        l->len += s.len;
    }
    return rc;
}

static int insert(struct loading *l, struct lladd_span key, struct lladd_span value,
                  struct lladd_error *err)
{
    int rc = lladd_hash_insert(l->txn, l->hash, key.data, key.len, value.data, value.len);
    if (rc == LLADD_EXISTS)
        return lladd_error_set(err, rc, "the key occurs twice");
    return of_txn(l, rc, err);
}

/* Adds a row to the tree; the keys ascend. */
static int add_row(struct loading *l, struct lladd_span key, struct lladd_span value,
                   struct lladd_error *err)
{
    bool first = l->last_len == SIZE_MAX;
    size_t n = first || key.len < l->last_len ? key.len : l->last_len;
    int c = first ? 1 : n ? memcmp(key.data, l->last, n) : 0;
    if (!first && c == 0)
        c = (key.len > l->last_len) - (key.len < l->last_len);
    if (c <= 0)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "%s",
                               c ? "the keys of a B+tree must ascend" : "the key occurs twice");
    if (key.len >= l->last_size) {
        unsigned char *p = realloc(l->last, key.len + 64);
        if (!p)
            return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory");
        l->last = p;
        l->last_size = key.len + 64;
    }
    memcpy(l->last, key.data, key.len);
    l->last_len = key.len;
    return of_txn(
        l,
        l->loader ? lladd_btree_load_add(l->loader, key.data, key.len, value.data, value.len)
                  : lladd_btree_insert(l->txn, l->tree, key.data, key.len, value.data, value.len),
        err);
}

static void tell_record(struct loading *l)
{
    bool counted = l->kind->id != TOOL_ARRAY && l->kind->id != TOOL_BLOB;
    char text[64];
    l->done++;
    if (l->tool->progress.on) {
        snprintf(text, sizeof text, "%.40s", l->head.name);
        tool_progress(l->tool, text, counted ? l->done : l->at, l->head.count);
    }
}

static int record(void *ctx, struct lladd_span s, struct lladd_span value, struct lladd_error *err)
{
    struct loading *l = ctx;
    struct lladd_item item;
    int rc;
    if (l->kind->id == TOOL_HASH)
        rc = insert(l, s, value, err);
    else if (l->kind->id == TOOL_BTREE)
        rc = add_row(l, s, value, err);
    else if (l->kind->id == TOOL_LIST)
        rc = of_txn(l, lladd_list_append(l->txn, l->list, s.data, s.len, &item), err);
    else
        rc = gather(l, s, err);
    if (rc)
        return rc;
    l->records++;
    tell_record(l);
    if (!l->batch || ++l->in_txn < l->batch)
        return 0;
    rc = flush(l, err);
    rc = rc ? rc : commit(l, err);
    return rc ? rc : begin(l, err);
}

static int zeros(void *ctx, uint64_t n, struct lladd_error *err)
{
    struct loading *l = ctx;
    int rc = flush(l, err);
    l->at += n;
    l->records++;
    if (!rc && l->kind->id == TOOL_BLOB) /* the elements of a new array are already zero */
        rc = of_txn(l, lladd_blob_truncate(l->txn, l->root, l->at), err);
    return rc;
}

/* Sets the structure's name. If another structure had the name, that structure is freed in the same
 * transaction. */
static int tail(void *ctx, struct lladd_error *err)
{
    struct loading *l = ctx;
    const struct tool_kind *old;
    int rc = flush(l, err);
    if (!rc && l->loader) {
        rc = of_txn(l, lladd_btree_load_finish(l->loader, &l->root), err);
        l->loader = rc ? l->loader : NULL;
    }
    if (!rc && l->taken) {
        rc = tool_kind_of(l->db, l->old.a, &old, err);
        if (!rc && old)
            rc = of_txn(l, old->destroy(l->txn, lladd_page_of(l->old.a)), err);
    }
    struct lladd_root_value value = {l->root.v, 0};
    rc = rc ? rc : of_txn(l, lladd_root_set(l->txn, l->head.name, value), err);
    if (!rc && l->batch)
        rc = of_txn(l, lladd_root_delete(l->txn, PENDING), err);
    if (rc)
        return rc;
    l->structures++;
    rc = l->batch ? commit(l, err) : 0;
    close_handles(l);
    return rc;
}

static int done(void *ctx, struct lladd_error *err)
{
    struct loading *l = ctx;
    return l->txn ? commit(l, err) : 0;
}

/* ---- entry points --------------------------------------------------------------------------- */

/* Puts the file's name before the message. */
static void name_file(const struct tool *t, struct lladd_error *err)
{
    char text[sizeof err->message];
    (void)snprintf(text, sizeof text, "%s", err->message);
    (void)snprintf(err->message, sizeof err->message, "%.60s, %.190s",
                   t->argc ? t->argv[0] : "standard input", text);
}

static int load(const struct tool *t, struct loading *l, FILE *from, struct lladd_error *err)
{
    const struct dump_reader reader = {l, head, record, zeros, tail, done};
    struct lladd_error second = LLADD_ERROR_INIT;
    int rc = sweep(l, err);
    if (rc)
        return rc;
    rc = dump_read(from, &reader, err);
    if (rc)
        name_file(t, err);
    if (rc == LLADD_LOG_FULL && !l->batch)
        fprintf(stderr, "lladd load: with --batch N the log need not hold the whole file\n");
    int undone = rc ? abort_txn(l, &second) : 0;
    (void)lladd_btree_load_discard(l->loader); /* the transaction has ended */
    l->loader = NULL;
    close_handles(l);
    free(l->buffer);
    free(l->last);
    if (rc && !undone && l->batch)
        undone = sweep(l, &second);
    if (undone)
        *err = second; /* a failed rollback or sweep is more serious than *err */
    return undone ? undone : rc;
}

/* Opens the database; makes it if it does not exist and --create is given. */
static int open_db(struct tool *t, struct loading *l, struct lladd_error *err)
{
    if (!l->create)
        return tool_open(t, &l->db, err);
    t->options.flags = 0;
    return lladd_open(t->dir, &t->options, &l->db, err);
}

static int run(struct tool *t, struct loading *l, FILE *from)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    if (open_db(t, l, &err))
        return tool_failed(t, &err);
    int rc = load(t, l, from, &err);
    int closed = lladd_close(l->db);
    if (rc)
        return tool_failed(t, &err);
    if (closed)
        return tool_fail(t,
                         "%s: the load succeeded, but the database was not closed cleanly (%s)",
                         t->dir, lladd_code_name(closed));
    if (t->json)
        tool_json_print(json_pack("{s:o, s:o}", "structures", tool_json_u64(l->structures),
                                  "records", tool_json_u64(l->records)),
                        true);
    return TOOL_FINE;
}

int tool_load(int argc, char **argv)
{
    struct tool t = {.verb = "load", .usage = usage, .more = 1};
    struct loading l = {.tool = &t};
    int code;
    if (tool_parse(&t, argc, argv, options, take, &l, 0, &code))
        return tool_end(&t, code);
    FILE *from = t.argc ? fopen(t.argv[0], "rbe") : stdin;
    if (!from)
        return tool_end(&t, tool_fail(&t, "%s: %s", t.argv[0], strerror(errno)));
    code = run(&t, &l, from);
    if (t.argc)
        (void)fclose(from); /* the file was only read */
    return tool_end(&t, code);
}
