/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd hash: hash tables for scripts. get and scan recover the database in memory; put and del
 * open the database. */
#include "dump_text.h"
#include "tool.h"

#include <lladd/hash.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: lladd hash get  [options] DIRECTORY ROOT KEY\n"
    "       lladd hash put  [options] DIRECTORY ROOT KEY [VALUE]\n"
    "       lladd hash del  [options] DIRECTORY ROOT KEY\n"
    "       lladd hash scan [options] DIRECTORY ROOT\n"
    "\n"
    "Works on the hash table with the root name ROOT. get prints the value and a newline.\n"
    "scan prints every key and value, one pair a line, in quotation marks, with bytes that\n"
    "are not printable as \\xHH, in no particular order. Neither changes anything on disk. put\n"
    "sets the value of KEY, new or not, and del deletes KEY, each in a durable transaction.\n"
    "Without VALUE the value is read from standard input, to its end. A database in use is\n"
    "refused.\n"
    "\n"
    "  --hex             keys and values are written and read in hexadecimal\n"
    "  --create          put: makes the database and the table if they do not exist\n"
    "  --key-size N      with --create: every key has N bytes\n"
    "  --value-size N    with --create: every value has N bytes\n"
    "  --json, --ops FILE.so    as for the other verbs\n"
    "\n"
    "Exit status: 0; 1 if KEY does not exist, or the database is damaged; 2 if the database\n"
    "cannot be read or there is no such table.\n";

enum { HEX = TOOL_OWN, CREATE, KEY_SIZE, VALUE_SIZE };

static const struct option options[] = {TOOL_COMMON,
                                        {"hex", no_argument, NULL, HEX},
                                        {"create", no_argument, NULL, CREATE},
                                        {"key-size", required_argument, NULL, KEY_SIZE},
                                        {"value-size", required_argument, NULL, VALUE_SIZE},
                                        {NULL, 0, NULL, 0}};

struct hashing {
    struct tool *t;
    bool hex, create;
    uint64_t key_size, value_size;
    unsigned char *key, *value; /* owned */
    size_t key_len, value_len;
    struct lladd_db *db;
    struct lladd_hash *table;
    struct lladd_error err;
};

static int take(void *ctx, int option, const char *value)
{
    struct hashing *h = ctx;
    switch (option) {
    case HEX:
        h->hex = true;
        return 0;
    case CREATE:
        h->create = true;
        return 0;
    case KEY_SIZE:
        return tool_number_in("--key-size", value, 0, UINT32_MAX, &h->key_size) ? 0 : -1;
    case VALUE_SIZE:
        return tool_number_in("--value-size", value, 0, UINT32_MAX, &h->value_size) ? 0 : -1;
    default:
        return -1;
    }
}

/* ---- keys and values ------------------------------------------------------------------------ */

static int no_memory(const struct hashing *h)
{
    return tool_fail(h->t, "out of memory");
}

/* Parses the bytes of an argument. Returns 0 or the exit code. */
static int bytes_of(const struct hashing *h, const char *what, const char *text,
                    unsigned char **out, size_t *len)
{
    size_t n = strlen(text);
    *out = malloc(n + 1);
    if (!*out)
        return no_memory(h);
    if (!h->hex) {
        memcpy(*out, text, n + 1);
        *len = n;
        return 0;
    }
    if (!tool_hex(text, *out, len))
        return tool_fail(h->t, "%s: \"%s\" is not hexadecimal", what, text);
    return 0;
}

/* Reads the value from standard input, to its end. */
static int read_value(struct hashing *h)
{
    size_t size = 0, n;
    do {
        if (size - h->value_len < 4096) {
            size = 2 * size + 8192;
            unsigned char *p = realloc(h->value, size);
            if (!p)
                return no_memory(h);
            h->value = p;
        }
        n = fread(h->value + h->value_len, 1, size - h->value_len - 1, stdin);
        h->value_len += n;
    } while (n);
    if (ferror(stdin))
        return tool_fail(h->t, "standard input: %s", strerror(errno));
    if (!h->hex)
        return 0;
    while (h->value_len && strchr("\r\n", h->value[h->value_len - 1]))
        h->value_len--;
    h->value[h->value_len] = '\0';
    if (strlen((char *)h->value) != h->value_len ||
        !tool_hex((char *)h->value, h->value, &h->value_len))
        return tool_fail(h->t, "standard input is not hexadecimal");
    return 0;
}

static void print_bytes(const struct hashing *h, struct lladd_span s)
{
    const unsigned char *p = s.data;
    for (size_t i = 0; h->hex && i < s.len; i++)
        printf("%02x", p[i]);
    if (!h->hex && s.len)
        (void)fwrite(p, 1, s.len, stdout); /* tool_end checks for a write error */
}

static void print_json(const struct hashing *h, struct lladd_span key, struct lladd_span value)
{
    json_t *(*how)(const void *, size_t) = h->hex ? tool_json_hex : tool_json_bytes;
    tool_json_print(
        json_pack("{s:o, s:o}", "key", how(key.data, key.len), "value", how(value.data, value.len)),
        false);
}

/* ---- the table ------------------------------------------------------------------------------ */

static int failed(struct hashing *h)
{
    return tool_failed(h->t, &h->err);
}

static int not_found(const struct hashing *h)
{
    if (h->t->json)
        tool_json_print(json_pack("{s:n}", "value"), false);
    return TOOL_FINDINGS;
}

/* Opens the table; LLADD_NOT_FOUND: no root has this name. */
static int open_table(struct hashing *h)
{
    struct lladd_root_value root;
    int rc = lladd_root_get(h->db, h->t->argv[0], &root, &h->err);
    if (rc)
        return rc;
    return lladd_hash_open(h->db, lladd_page_of(root.a), 0, &h->table, &h->err);
}

static int get(struct hashing *h)
{
    unsigned char *buf = NULL;
    size_t len = 0;
    int rc = lladd_hash_get(h->table, h->key, h->key_len, NULL, 0, &len, &h->err);
    if (!rc && len) {
        buf = malloc(len);
        if (!buf)
            return no_memory(h);
        rc = lladd_hash_get(h->table, h->key, h->key_len, buf, len, &len, &h->err);
    }
    struct lladd_span key = {h->key, h->key_len}, value = {buf, len};
    if (!rc && h->t->json) {
        print_json(h, key, value);
    } else if (!rc) {
        print_bytes(h, value);
        putchar('\n');
    }
    free(buf);
    return rc == LLADD_NOT_FOUND ? not_found(h) : rc ? failed(h) : TOOL_FINE;
}

static int scan(struct hashing *h)
{
    struct lladd_hash_cursor walk = {{0}, NULL, 0};
    struct lladd_span key, value;
    int rc;
    while ((rc = lladd_hash_cursor_next(h->table, &walk, &key, &value, &h->err)) == 0) {
        if (h->t->json) {
            print_json(h, key, value);
        } else if (h->hex) {
            print_bytes(h, key);
            putchar(' ');
            print_bytes(h, value);
            putchar('\n');
        } else {
            dump_quoted(stdout, key.data, key.len);
            putchar(' ');
            dump_quoted(stdout, value.data, value.len);
            putchar('\n');
        }
    }
    lladd_hash_cursor_close(h->table, &walk);
    return rc == LLADD_END ? TOOL_FINE : failed(h);
}

static int look(struct hashing *h, int (*what)(struct hashing *))
{
    struct tool_peek peek;
    if (tool_peek(h->t, &peek, &h->err))
        return failed(h);
    h->db = peek.db;
    int code = open_table(h) ? failed(h) : what(h);
    if (h->table)
        lladd_hash_close(h->table);
    tool_peek_end(&peek);
    return code;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* Makes the table, in the transaction that adds the first element, so that a crash cannot leave an
 * empty table. */
static int create_table(struct hashing *h, struct lladd_txn *txn)
{
    struct lladd_hash_options o = LLADD_HASH_OPTIONS_INIT;
    lladd_pageno root;
    o.key_size = (uint32_t)h->key_size;
    o.value_size = (uint32_t)h->value_size;
    int rc = lladd_hash_create(txn, &o, &root);
    if (!rc)
        rc = lladd_root_set(txn, h->t->argv[0], (struct lladd_root_value){root.v, 0});
    if (rc) {
        h->err = *lladd_txn_error(txn);
        return rc;
    }
    return lladd_hash_open(h->db, root, 0, &h->table, &h->err);
}

static int change(struct hashing *h, struct lladd_txn *txn, bool put)
{
    int rc = open_table(h);
    if (rc == LLADD_NOT_FOUND && put && h->create)
        rc = create_table(h, txn);
    if (rc) /* a missing table must not be reported as a missing key */
        return rc == LLADD_NOT_FOUND ? LLADD_BAD_ARGUMENT : rc;
    rc = put ? lladd_hash_put(txn, h->table, h->key, h->key_len, h->value, h->value_len)
             : lladd_hash_delete(txn, h->table, h->key, h->key_len);
    if (rc)
        h->err = *lladd_txn_error(txn);
    return rc;
}

static int run_change(struct hashing *h, bool put)
{
    struct lladd_txn *txn;
    int rc = lladd_begin(h->db, NULL, &txn, &h->err);
    if (rc)
        return rc;
    rc = change(h, txn, put);
    if (!rc) {
        rc = lladd_commit(txn);
        if (!rc)
            return 0;
        if (lladd_code_root(rc) == LLADD_ROOT_POISONED) {
            (void)lladd_db_error(h->db, &h->err); /* the error of the handle is the cause of rc */
            return rc;
        }
        h->err = *lladd_txn_error(txn);
    }
    int undone = lladd_abort(txn);
    if (undone)
        (void)lladd_db_error(h->db, &h->err);
    return undone ? undone : rc;
}

static int alter(struct hashing *h, bool put)
{
    int rc = 0;
    if (put && h->create)
        rc = lladd_open(h->t->dir, &h->t->options, &h->db, &h->err);
    else
        rc = tool_open(h->t, &h->db, &h->err);
    if (rc)
        return failed(h);
    rc = run_change(h, put);
    if (h->table)
        lladd_hash_close(h->table);
    int closed = lladd_close(h->db);
    if (rc == LLADD_NOT_FOUND)
        return not_found(h);
    if (rc)
        return failed(h);
    if (closed)
        return tool_fail(h->t, "%s: done, but not closed cleanly (%s)", h->t->dir,
                         lladd_code_name(closed));
    return TOOL_FINE;
}

/* ---- the verbs ------------------------------------------------------------------------------ */

static int run(struct hashing *h, const char *what)
{
    struct tool *t = h->t;
    int code = strcmp(what, "scan") == 0 ? 0 : bytes_of(h, "KEY", t->argv[1], &h->key, &h->key_len);
    if (code)
        return code;
    if (strcmp(what, "get") == 0)
        return look(h, get);
    if (strcmp(what, "scan") == 0)
        return look(h, scan);
    if (strcmp(what, "del") == 0)
        return alter(h, false);
    code = t->argc > 2 ? bytes_of(h, "VALUE", t->argv[2], &h->value, &h->value_len) : read_value(h);
    return code ? code : alter(h, true);
}

int tool_hash(int argc, char **argv)
{
    static const struct {
        const char *name, *verb;
        int wanted, more;
    } verbs[] = {{"get", "hash get", 2, 0},
                 {"put", "hash put", 2, 1},
                 {"del", "hash del", 2, 0},
                 {"scan", "hash scan", 1, 0}};
    struct tool t = {.verb = "hash", .usage = usage};
    struct hashing h = {.t = &t, .err = LLADD_ERROR_INIT};
    int code, wanted = 0;
    const char *what = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(what, verbs[i].name) != 0)
            continue;
        t.verb = verbs[i].verb;
        t.more = verbs[i].more;
        wanted = verbs[i].wanted;
    }
    if (!wanted && *what != '-')
        return tool_fail(&t, "get, put, del or scan, not \"%s\"", what);
    if (tool_parse(&t, wanted ? argc - 1 : argc, wanted ? argv + 1 : argv, options, take, &h,
                   wanted, &code))
        return tool_end(&t, code);
    if (!wanted)
        return tool_end(&t, tool_fail(&t, "expected get, put, del or scan"));
    code = run(&h, what);
    free(h.key);
    free(h.value);
    return tool_end(&t, code);
}
