/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd dump: writes structures as text. */
#include "dump_text.h"
#include "tool.h"

#include "util/vec.h"

#include <lladd/array.h>
#include <lladd/blob.h>
#include <lladd/btree.h>
#include <lladd/dtable_managed.h>
#include <lladd/hash.h>
#include <lladd/list.h>

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: lladd dump [--salvage] [--json] [--ops FILE.so] [--memory BYTES] DIRECTORY [ROOT...]\n"
    "       lladd dump [...] --from STORE [--to TARGET] [ROOT...]\n"
    "\n"
    "Writes the arrays, hash tables, B+trees, lists and blobs with the root names ROOT..., or all\n"
    "of them, as text that \"lladd load\" reads (docs/dump-format.md). If the database was not\n"
    "closed, its contents are those after recovery; nothing on disk is changed. A database in\n"
    "use is refused. Managed dTables and cTables are left out: \"lladd dtable scan --csv\" writes\n"
    "their rows.\n"
    "\n"
    "  --json    one JSON object a line instead, which load does not read\n"
    "  --salvage  writes what can be read of a damaged database, as text that load accepts, and\n"
    "            reports on standard error what is left out. Elements of an array and bytes of a\n"
    "            blob that cannot be read are written as zeros; rows of a B+tree are left out\n"
    "            from the first damaged node to the last\n"
    "            (for managed dTables: \"lladd dtable scan --csv --salvage\")\n"
    "  --memory BYTES  as for \"lladd verify\"\n"
    "  --from STORE  reads the database from a store, as it was at a target, and restores\n"
    "            nothing; --to, --timeline, --base, --expect-lsn, --endpoint, --region and\n"
    "            --host-style as for \"lladd restore\"\n"
    "\n"
    "Exit status: 0; 1 if something in the database is damaged; 2 if the database cannot be\n"
    "read. After damage the text has no end, so load refuses it; with --salvage the text has an\n"
    "end, but lacks what could not be read.\n";

enum { SALVAGE = TOOL_OWN };

static const struct option options[] = {
    TOOL_COMMON,
    TOOL_BOUNDED,
    TOOL_FROM_STORE,
    {"salvage", no_argument, NULL, SALVAGE},
    {NULL, 0, NULL, 0}};

#define PIECE 1024u      /* bytes of a blob per line */
#define CHUNK (1u << 16) /* bytes read at a time */

struct named {
    char name[LLADD_ROOT_NAME_MAX + 1];
    uint64_t page, b; /* the two words of the root's value */
    const struct tool_kind *kind;
};

struct dumping {
    struct tool *t;
    struct lladd_db *db;
    struct dump_out out;
    struct lladd_error *err;
    struct ll_vec names;  /* struct named */
    struct ll_vec tables; /* char *: managed dTables */
    bool journal;         /* the database has a journal */
    unsigned char *buffer;
    size_t size;
    /* With --salvage: */
    bool salvage;
    uint64_t left_out; /* number of messages about parts that were left out */
    const char *name;  /* name of the current structure */
    bool counting;     /* items are counted in `counted` and not written */
    uint64_t counted;
    uint64_t done, all; /* items of the current structure: number written so far, and total number;
                         * total 0: unknown */
};

static int take(void *ctx, int option, const char *value)
{
    struct dumping *d = ctx;
    (void)value;
    d->salvage = option == SALVAGE;
    return d->salvage ? 0 : -1;
}

/* ---- damage --------------------------------------------------------------------------------- */

/* Is rc damage that --salvage skips? */
static bool pass(const struct dumping *d, int rc)
{
    return d->salvage && lladd_code_root(rc) == LLADD_ROOT_DATA;
}

/* Reports which part is left out, and why. */
LLADD_PRINTF(2, 3) static void leave_out(struct dumping *d, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    tool_progress_end(d->t);
    fprintf(stderr, "lladd dump: ");
    vfprintf(stderr, fmt, args);
    fprintf(stderr, ": %s\n", d->err->message);
    va_end(args);
    d->left_out++;
}

/* ---- what to dump ---------------------------------------------------------------------------- */

static int gather(void *ctx, const char *name, struct lladd_root_value value)
{
    struct named *n = ll_vec_push(ctx);
    if (!n)
        return LLADD_NO_MEMORY;
    snprintf(n->name, sizeof n->name, "%s", name);
    n->page = value.a;
    n->b = value.b;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/* The format does not include sorted runs of dTables (docs/dump-format.md). */
static int kind_of(const struct dumping *d, struct named *n)
{
    int rc = tool_kind_of(d->db, n->page, &n->kind, d->err);
    if (!rc && n->kind && n->kind->id == TOOL_RUN)
        n->kind = NULL;
    return rc;
}

/* Is the structure a catalogue of the library, for managed dTables or the journal? A catalogue is
 * not dumped, because it contains page numbers and LSNs of this database. The second word of its
 * root is a version, not 0; an application's root with the catalogue's name may have 0 there. */
static bool is_catalogue(struct dumping *d, const struct named *n)
{
    static const char columns[] = "ctable:";
    size_t len = strlen(columns);
    if (strcmp(n->name, "journal") == 0 && n->b) {
        fprintf(stderr, "lladd dump: the journal is left out\n");
        return d->journal = true;
    }
    if (strcmp(n->name, "journal.mark") == 0) /* the names are sorted */
        return d->journal;
    if (strcmp(n->name, "managed") == 0)
        return n->b != 0;
    for (size_t i = 0; i < d->tables.len; i++)
        if (strncmp(n->name, columns, len) == 0 &&
            strcmp(n->name + len, *(char *const *)ll_vec_at(&d->tables, i)) == 0)
            return true;
    return false;
}

static int note_table(void *ctx, const char *name)
{
    char **table = ll_vec_push(ctx);
    if (!table)
        return LLADD_NO_MEMORY;
    *table = strdup(name);
    return *table ? 0 : LLADD_NO_MEMORY;
}

/* Prints the names of the managed dTables, and the command that prints their rows. */
static int find_tables(struct dumping *d)
{
    int rc = lladd_managed_each(d->db, note_table, &d->tables, d->err);
    if (rc == LLADD_NO_MEMORY)
        return lladd_error_set(d->err, rc, "out of memory");
    if (pass(d, rc)) {
        leave_out(d, "names of managed dTables are left out");
        rc = 0;
    }
    for (size_t i = 0; i < d->tables.len && !rc; i++)
        fprintf(stderr,
                "lladd dump: the managed dTable \"%s\" is left out: \"lladd dtable scan --csv%s\" "
                "writes its rows\n",
                *(char *const *)ll_vec_at(&d->tables, i), d->salvage ? " --salvage" : "");
    return rc;
}

/* Finds the kind of each structure that a root points to. */
static int find_kinds(struct dumping *d)
{
    int rc = find_tables(d);
    for (size_t i = 0; i < d->names.len && !rc; i++) {
        struct named *n = ll_vec_at(&d->names, i);
        if (strcmp(n->name, LLADD_REGIONS_ROOT) == 0) {
            fprintf(stderr, "lladd dump: \"%s\" is left out: it lists pages of this database\n",
                    n->name);
            continue;
        }
        if (is_catalogue(d, n))
            continue;
        rc = kind_of(d, n);
        if (pass(d, rc)) {
            leave_out(d, "\"%s\" is left out", n->name);
            rc = 0;
        } else if (!rc && !n->kind) {
            fprintf(stderr,
                    "lladd dump: \"%s\" is left out: it is not an array, hash table, B+tree, list "
                    "or blob\n",
                    n->name);
        }
    }
    return rc;
}

/* Collects all roots in the order of names, so that dumps of two databases can be compared. */
static int all_roots(struct dumping *d)
{
    int rc = lladd_root_each(d->db, gather, &d->names, d->err);
    if (rc == LLADD_NO_MEMORY)
        return lladd_error_set(d->err, rc, "out of memory");
    if (rc)
        return rc;
    if (d->names.len > 1)
        qsort(d->names.data, d->names.len, sizeof(struct named), by_name);
    return find_kinds(d);
}

static int named_root(struct dumping *d, const char *name)
{
    struct lladd_root_value value;
    int rc = lladd_root_get(d->db, name, &value, d->err);
    if (!rc && gather(&d->names, name, value))
        rc = lladd_error_set(d->err, LLADD_NO_MEMORY, "out of memory");
    if (rc)
        return rc;
    struct named *n = ll_vec_at(&d->names, d->names.len - 1);
    rc = kind_of(d, n);
    if (!rc && !n->kind)
        rc = lladd_error_set(d->err, LLADD_WRONG_TYPE,
                             "the root \"%s\" is not an array, hash table, B+tree, list or blob",
                             name);
    return rc;
}

static int named_roots(struct dumping *d)
{
    int rc = 0;
    for (int i = 0; i < d->t->argc && !rc; i++) {
        rc = named_root(d, d->t->argv[i]);
        if (pass(d, rc)) {
            leave_out(d, "\"%s\" is left out", d->t->argv[i]);
            rc = 0;
        }
    }
    return rc;
}

static int room(struct dumping *d, size_t size)
{
    if (size <= d->size)
        return 0;
    unsigned char *p = realloc(d->buffer, size);
    if (!p)
        return lladd_error_set(d->err, LLADD_NO_MEMORY, "out of memory for %zu bytes", size);
    d->buffer = p;
    d->size = size;
    return 0;
}

/* ---- one record ----------------------------------------------------------------------------- */

static void write_head(struct dumping *d, const struct dump_head *h)
{
    d->done = 0;
    d->all = h->count;
    if (d->counting)
        return;
    if (!d->t->json) {
        dump_head(&d->out, h);
        return;
    }
    json_t *o = json_pack("{s:s, s:o, s:o}", "structure", h->kind, "name", tool_json_text(h->name),
                          "count", tool_json_u64(h->count));
    if (strcmp(h->kind, "array") == 0)
        json_object_set_new(o, "element_size", tool_json_u64(h->element_size));
    if (dump_has_pairs(h->kind)) {
        json_object_set_new(o, "key_size", tool_json_u64(h->key_size));
        json_object_set_new(o, "value_size", tool_json_u64(h->value_size));
    }
    tool_json_print(o, false);
}

static void write_tail(struct dumping *d)
{
    if (!d->t->json && !d->counting)
        dump_tail(&d->out);
}

/* Counts the items read, and shows the progress unless the text goes to a terminal. */
static void tell_item(struct dumping *d, uint64_t items)
{
    char text[64];
    d->done += items;
    if (d->t->progress.on) {
        snprintf(text, sizeof text, "%.40s%s", d->name, d->counting ? ", counting" : "");
        tool_progress(d->t, text, d->done, d->all);
    }
}

static void write_item(struct dumping *d, const char *what, struct lladd_span s)
{
    tell_item(d, strcmp(what, "bytes") == 0 ? s.len : 1);
    if (d->counting)
        d->counted++;
    else if (d->t->json)
        tool_json_print(json_pack("{s:o}", what, tool_json_bytes(s.data, s.len)), false);
    else if (strcmp(what, "element") == 0)
        dump_element(&d->out, s.data, s.len);
    else if (strcmp(what, "bytes") == 0)
        dump_piece(&d->out, s);
    else
        dump_item(&d->out, s);
}

static void write_pair(struct dumping *d, struct lladd_span key, struct lladd_span value)
{
    tell_item(d, 1);
    if (d->counting)
        d->counted++;
    else if (d->t->json)
        tool_json_print(json_pack("{s:o, s:o}", "key", tool_json_bytes(key.data, key.len), "value",
                                  tool_json_bytes(value.data, value.len)),
                        false);
    else
        dump_pair(&d->out, key, value);
}

/* ---- one structure -------------------------------------------------------------------------- */

/* A range of elements of an array, or of bytes of a blob. */
struct range {
    int (*read)(struct dumping *, struct range *, uint64_t at, uint64_t n, unsigned char *to);
    struct lladd_array *array;
    lladd_pageno root;
    const char *what;
    uint64_t unit;      /* an unreadable range of at most this length is not divided further */
    size_t size;        /* bytes of an element */
    uint64_t from, end; /* the last unreadable range, which has not been reported yet */
};

static int read_elements(struct dumping *d, struct range *r, uint64_t at, uint64_t n,
                         unsigned char *to)
{
    return lladd_array_get_range(r->array, at, n, to, d->err);
}

static int read_bytes(struct dumping *d, struct range *r, uint64_t at, uint64_t n,
                      unsigned char *to)
{
    return lladd_blob_read(d->db, r->root, at, to, n, NULL, d->err);
}

static void tell_range(struct dumping *d, struct range *r)
{
    if (r->from < r->end)
        leave_out(d, "\"%s\": %s %" PRIu64 " to %" PRIu64 " are left out, zeros stand for them",
                  d->name, r->what, r->from, r->end - 1);
    r->from = r->end = 0;
}

/* Reads n elements from `at` on. With --salvage, if one call cannot read all of them, reads each
 * half. */
static int read_range(struct dumping *d, struct range *r, uint64_t at, uint64_t n,
                      unsigned char *to)
{
    int rc = r->read(d, r, at, n, to);
    if (!pass(d, rc))
        return rc;
    if (n > r->unit) {
        uint64_t half = n / 2;
        rc = read_range(d, r, at, half, to);
        return rc ? rc : read_range(d, r, at + half, n - half, to + half * r->size);
    }
    if (r->end != at) {
        tell_range(d, r);
        r->from = at;
    }
    r->end = at + n;
    memset(to, 0, n * r->size);
    return 0;
}

static int dump_array(struct dumping *d, struct dump_head *h, lladd_pageno root)
{
    struct lladd_array *a;
    int rc = lladd_array_open(d->db, root, &a, d->err);
    if (rc)
        return rc;
    uint32_t size = lladd_array_element_size(a);
    uint64_t most = CHUNK / size ? CHUNK / size : 1;
    struct range r = {.read = read_elements, .array = a, .what = "elements", .unit = 1,
                      .size = size};
    h->element_size = size;
    rc = lladd_array_length(a, &h->count, d->err);
    rc = rc ? rc : room(d, (size_t)most * size);
    if (!rc)
        write_head(d, h);
    for (uint64_t i = 0; i < h->count && !rc; i += most) {
        uint64_t n = h->count - i < most ? h->count - i : most;
        rc = read_range(d, &r, i, n, d->buffer);
        for (uint64_t k = 0; k < n && !rc; k++)
            write_item(d, "element", (struct lladd_span){d->buffer + k * size, size});
    }
    tell_range(d, &r);
    lladd_array_close(a);
    return rc;
}

/* Writes all elements. With --salvage, leaves out damaged elements, and buckets with a damaged
 * page. */
static int walk_hash(struct dumping *d, struct lladd_hash *t, uint64_t most)
{
    struct lladd_hash_cursor walk = {{0}, NULL, 0};
    struct lladd_span key, value;
    int rc = 0;
    /* Stops after `most` + 1 elements, because a chain with a cycle would never end. The caller
     * then compares the number of elements with the table's count. */
    for (uint64_t n = 0; !rc && n <= most; n++) {
        rc = lladd_hash_cursor_next(t, &walk, &key, &value, d->err);
        if (!rc) {
            write_pair(d, key, value);
        } else if (pass(d, rc)) {
            if (!d->counting)
                leave_out(d, "\"%s\": elements are left out", d->name);
            rc = lladd_hash_cursor_skip(t, &walk, d->err);
        }
    }
    lladd_hash_cursor_close(t, &walk);
    return rc == LLADD_END ? 0 : rc;
}

static int dump_hash(struct dumping *d, struct dump_head *h, lladd_pageno root)
{
    struct lladd_hash *t;
    int rc = lladd_hash_open(d->db, root, 0, &t, d->err);
    if (rc)
        return rc;
    h->key_size = lladd_hash_key_size(t);
    h->value_size = lladd_hash_value_size(t);
    if (d->salvage) {
        d->counting = true;
        d->counted = 0;
        rc = walk_hash(d, t, UINT64_MAX - 1);
        d->counting = false;
        h->count = d->counted;
    } else {
        rc = lladd_hash_count(t, &h->count, d->err);
    }
    if (!rc) {
        write_head(d, h);
        rc = walk_hash(d, t, d->salvage ? UINT64_MAX - 1 : h->count);
    }
    lladd_hash_close(t);
    return rc;
}

/* Finds the first row after all damage, going back from the last row. *len is SIZE_MAX if there is
 * none. */
static int find_after(struct dumping *d, struct lladd_btree *t, unsigned char *key, size_t *len)
{
    struct lladd_btree_cursor *c;
    struct lladd_span at;
    *len = SIZE_MAX;
    int rc = lladd_btree_cursor_open(t, &c, d->err);
    if (rc)
        return rc;
    while ((rc = lladd_btree_cursor_prev(c, d->err)) == 0 &&
           (rc = lladd_btree_cursor_row(c, &at, NULL, d->err)) == 0) {
        memcpy(key, at.data, at.len);
        *len = at.len;
    }
    lladd_btree_cursor_close(c);
    return pass(d, rc) || rc == LLADD_END ? 0 : rc;
}

/* Writes a row. With --salvage, leaves it out if its value cannot be read. */
static int write_row(struct dumping *d, struct lladd_btree_cursor *c)
{
    struct lladd_span key, value;
    int rc = lladd_btree_cursor_row(c, &key, &value, d->err);
    if (!rc)
        write_pair(d, key, value);
    else if (pass(d, rc) && !d->counting)
        leave_out(d, "\"%s\": a row is left out", d->name);
    return pass(d, rc) ? 0 : rc;
}

/* Writes all rows. With --salvage, leaves out those from the first damaged node to the last. */
static int walk_rows(struct dumping *d, struct lladd_btree *t, struct lladd_btree_cursor *c)
{
    bool skipped = false;
    size_t len = 0;
    int rc;
    if (room(d, lladd_btree_key_max(d->db)))
        return d->err->code;
    while ((rc = lladd_btree_cursor_next(c, d->err)) == 0 && (rc = write_row(d, c)) == 0) {
    }
    while (pass(d, rc) && !skipped) {
        if (!d->counting)
            leave_out(d, "\"%s\": rows are left out", d->name);
        skipped = true;
        rc = find_after(d, t, d->buffer, &len);
        if (rc || len == SIZE_MAX)
            return rc;
        rc = lladd_btree_cursor_seek(c, d->buffer, len, d->err);
        while (rc == 0 && (rc = write_row(d, c)) == 0)
            rc = lladd_btree_cursor_next(c, d->err);
    }
    return rc == LLADD_END ? 0 : rc;
}

static int walk_btree(struct dumping *d, struct lladd_btree *t)
{
    struct lladd_btree_cursor *c;
    int rc = lladd_btree_cursor_open(t, &c, d->err);
    if (rc)
        return rc;
    rc = walk_rows(d, t, c);
    lladd_btree_cursor_close(c);
    return rc;
}

static int count_rows(struct dumping *d, struct lladd_btree *t, uint64_t *out)
{
    struct lladd_btree_stats s = {.struct_size = sizeof s};
    int rc;
    if (d->salvage) {
        d->counting = true;
        d->counted = 0;
        rc = walk_btree(d, t);
        d->counting = false;
        *out = d->counted;
        return rc;
    }
    rc = lladd_btree_stats_get(t, &s, d->err);
    *out = s.rows;
    return rc;
}

static int dump_btree(struct dumping *d, struct dump_head *h, lladd_pageno root)
{
    struct lladd_btree *t;
    int rc = lladd_btree_open(d->db, root, &t, d->err);
    if (rc)
        return rc;
    h->key_size = lladd_btree_key_size(t);
    h->value_size = lladd_btree_value_size(t);
    rc = count_rows(d, t, &h->count);
    if (!rc) {
        write_head(d, h);
        rc = walk_btree(d, t);
    }
    lladd_btree_close(t);
    return rc;
}

/* Writes up to `most` items; with d->counting only adds their number to d->counted. */
static int walk_list(struct dumping *d, struct lladd_list *l, uint64_t most)
{
    struct lladd_item at = LLADD_ITEM_NONE;
    size_t len;
    int rc = 0;
    for (uint64_t n = 0; !rc && n < most; n++)
        if ((rc = lladd_list_next(l, at, &at, d->buffer, d->size, &len, d->err)) == 0)
            write_item(d, "item", (struct lladd_span){d->buffer, len});
    return rc == LLADD_END ? 0 : rc;
}

static int dump_list(struct dumping *d, struct dump_head *h, lladd_pageno root)
{
    struct lladd_list *l;
    int rc = lladd_list_open(d->db, root, &l, d->err);
    if (rc)
        return rc;
    rc = room(d, lladd_list_item_max(d->db));
    rc = rc ? rc : lladd_list_count(l, &h->count, d->err);
    if (pass(d, rc)) { /* the damaged page contains the links to the items after it */
        leave_out(d, "\"%s\": everything after the damage is left out", d->name);
        d->counting = true;
        d->counted = 0;
        rc = walk_list(d, l, 2 * (lladd_page_count(d->db) * lladd_page_size(d->db)));
        d->counting = false;
        h->count = d->counted;
        rc = pass(d, rc) ? 0 : rc;
        if (!rc) {
            write_head(d, h);
            rc = walk_list(d, l, h->count);
        }
    } else if (!rc) {
        write_head(d, h);
        rc = walk_list(d, l, h->count + 1); /* one item more than the count shows a cycle, as in
                                             * walk_hash */
    }
    lladd_list_close(l);
    return rc;
}

static int dump_blob(struct dumping *d, struct dump_head *h, lladd_pageno root)
{
    struct range r = {.read = read_bytes, .root = root, .what = "bytes", .unit = 64, .size = 1};
    int rc = lladd_blob_length(d->db, root, &h->count, d->err);
    rc = rc ? rc : room(d, CHUNK);
    if (!rc)
        write_head(d, h);
    for (uint64_t at = 0; at < h->count && !rc;) {
        uint64_t n = h->count - at < CHUNK ? h->count - at : CHUNK;
        rc = read_range(d, &r, at, n, d->buffer);
        for (uint64_t k = 0; k < n && !rc; k += PIECE) {
            size_t len = n - k < PIECE ? (size_t)(n - k) : PIECE;
            write_item(d, "bytes", (struct lladd_span){d->buffer + k, len});
        }
        at += n;
    }
    tell_range(d, &r);
    return rc;
}

static int dump_one(struct dumping *d, const struct named *n)
{
    static int (*const how[])(struct dumping *, struct dump_head *,
                              lladd_pageno) = {[TOOL_ARRAY] = dump_array,
                                               [TOOL_LIST] = dump_list,
                                               [TOOL_BLOB] = dump_blob,
                                               [TOOL_HASH] = dump_hash,
                                               [TOOL_BTREE] = dump_btree};
    struct dump_head h = {.kind = n->kind->name};
    snprintf(h.name, sizeof h.name, "%s", n->name);
    d->name = n->name;
    d->done = d->all = 0;
    int rc = how[n->kind->id](d, &h, lladd_page_of(n->page));
    if (!rc && !d->t->json && d->out.count != h.count)
        rc = lladd_error_set(d->err, LLADD_CORRUPT_PAGE,
                             "\"%s\" has a count of %" PRIu64 ", but %" PRIu64 " were found",
                             n->name, h.count, d->out.count);
    if (!rc)
        write_tail(d);
    return rc;
}

static int dump_all(struct dumping *d)
{
    int rc = d->t->argc ? named_roots(d) : all_roots(d);
    if (rc)
        return rc;
    if (!d->t->json)
        dump_begin(&d->out, stdout);
    for (size_t i = 0; i < d->names.len && !rc && !ferror(stdout); i++) {
        const struct named *n = ll_vec_at(&d->names, i);
        if (n->kind)
            rc = dump_one(d, n);
        if (rc == LLADD_DESTROYED) { /* the structure is partly destroyed
                                      * (lladd_hash_destroy_some) */
            fprintf(stderr, "lladd dump: \"%s\" is left out: it is being destroyed\n", n->name);
            rc = 0;
        }
        if (rc == LLADD_BUSY) { /* a B+tree made by a transaction in doubt */
            fprintf(stderr, "lladd dump: \"%s\" is left out: %s\n", n->name, d->err->message);
            rc = 0;
        }
        if (pass(d, rc)) { /* the root page is damaged; no part of the structure was written */
            leave_out(d, "\"%s\" is left out", n->name);
            rc = 0;
        }
    }
    if (!rc && !d->t->json)
        dump_end(&d->out);
    return rc;
}

int tool_dump(int argc, char **argv)
{
    struct tool t = {.verb = "dump", .usage = usage, .more = INT_MAX - 2};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct dumping d = {.t = &t, .err = &err};
    struct tool_peek peek;
    struct ll_env env;
    int code;
    if (tool_parse(&t, argc, argv, options, take, &d, 0, &code))
        return tool_end(&t, code);
    t.progress.on = t.progress.on && !isatty(STDOUT_FILENO);
    int rc = (d.salvage ? tool_peek_damaged : tool_peek)(&t, &peek, &err);
    if (rc)
        return tool_end(&t, tool_failed(&t, &err));
    ll_env_init(&env, NULL, NULL, false);
    d.db = peek.db;
    ll_vec_init(&d.names, &env, sizeof(struct named));
    ll_vec_init(&d.tables, &env, sizeof(char *));
    rc = dump_all(&d);
    free(d.buffer);
    ll_vec_free(&d.names);
    for (size_t i = 0; i < d.tables.len; i++)
        free(*(char **)ll_vec_at(&d.tables, i));
    ll_vec_free(&d.tables);
    tool_peek_end(&peek);
    code = d.left_out ? TOOL_FINDINGS : TOOL_FINE;
    return tool_end(&t, rc ? tool_failed(&t, &err) : code);
}
