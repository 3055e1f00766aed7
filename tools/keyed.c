/* SPDX-License-Identifier: BSD-2-Clause */
/* Tables from keys to values, for scripts: the verbs that hash.c and btree.c share. get recovers
 * the database in memory; put, del and create open the database. */
#include "keyed.h"

#include "dump_text.h"

#include <errno.h>
#include <lladd/pages.h>
#include <stdlib.h>
#include <string.h>

int keyed_take(void *ctx, int option, const char *value)
{
    struct keyed *h = ctx;
    switch (option) {
    case KEYED_HEX:
        h->hex = true;
        return 0;
    case KEYED_CREATE:
        h->create = true;
        return 0;
    case KEYED_KEY_SIZE:
        return tool_number_in("--key-size", value, 0, UINT32_MAX, &h->key_size) ? 0 : -1;
    case KEYED_VALUE_SIZE:
        return tool_number_in("--value-size", value, 0, UINT32_MAX, &h->value_size) ? 0 : -1;
    default:
        return -1;
    }
}

/* ---- keys and values ------------------------------------------------------------------------ */

static int no_memory(const struct keyed *h)
{
    return tool_fail(h->t, "out of memory");
}

int keyed_bytes(const struct keyed *h, const char *what, const char *text, unsigned char **out,
                size_t *len)
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
static int read_value(struct keyed *h)
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

static void print_bytes(const struct keyed *h, struct lladd_span s)
{
    const unsigned char *p = s.data;
    for (size_t i = 0; h->hex && i < s.len; i++)
        printf("%02x", p[i]);
    if (!h->hex && s.len)
        (void)fwrite(p, 1, s.len, stdout); /* tool_end checks for a write error */
}

static void print_json(const struct keyed *h, struct lladd_span key, struct lladd_span value)
{
    json_t *(*how)(const void *, size_t) = h->hex ? tool_json_hex : tool_json_bytes;
    tool_json_print(
        json_pack("{s:o, s:o}", "key", how(key.data, key.len), "value", how(value.data, value.len)),
        false);
}

/* ---- the table ------------------------------------------------------------------------------ */

int keyed_failed(struct keyed *h)
{
    return tool_failed(h->t, &h->err);
}

static int not_found(const struct keyed *h)
{
    if (h->t->json)
        tool_json_print(json_pack("{s:n}", "value"), false);
    return TOOL_FINDINGS;
}

/* Opens the table; LLADD_NOT_FOUND: no root has this name. */
static int open_table(struct keyed *h)
{
    struct lladd_root_value root;
    int rc = lladd_root_get(h->db, h->t->argv[0], &root, &h->err);
    if (rc)
        return rc;
    return h->calls->open(h->db, lladd_page_of(root.a), &h->table, &h->err);
}

static int get(struct keyed *h)
{
    unsigned char *buf = NULL;
    size_t len = 0;
    struct lladd_span key = {h->key, h->key_len};
    int rc = h->calls->get(h->table, key, NULL, 0, &len, &h->err);
    if (!rc && len) {
        buf = malloc(len);
        if (!buf)
            return no_memory(h);
        rc = h->calls->get(h->table, key, buf, len, &len, &h->err);
    }
    struct lladd_span value = {buf, len};
    if (!rc && h->t->json) {
        print_json(h, key, value);
    } else if (!rc) {
        print_bytes(h, value);
        putchar('\n');
    }
    free(buf);
    return rc == LLADD_NOT_FOUND ? not_found(h) : rc ? keyed_failed(h) : TOOL_FINE;
}

void keyed_print_row(const struct keyed *h, struct lladd_span key, struct lladd_span value)
{
    if (h->t->json) {
        print_json(h, key, value);
        return;
    }
    if (h->hex) {
        print_bytes(h, key);
        putchar(' ');
        print_bytes(h, value);
    } else {
        dump_quoted(stdout, key.data, key.len);
        putchar(' ');
        dump_quoted(stdout, value.data, value.len);
    }
    putchar('\n');
}

int keyed_look(struct keyed *h, int (*what)(struct keyed *))
{
    struct tool_peek peek;
    if (tool_peek(h->t, &peek, &h->err))
        return keyed_failed(h);
    h->db = peek.db;
    int code = open_table(h) ? keyed_failed(h) : what(h);
    if (h->table)
        h->calls->close(h->table);
    tool_peek_end(&peek);
    return code;
}

/* ---- changes -------------------------------------------------------------------------------- */

/* Makes the table and, if `key` is given, its first row in one transaction, so that a crash cannot
 * leave a table without this row. */
static int make(struct keyed *h, struct lladd_txn *txn, const struct lladd_span *key)
{
    struct lladd_span value = {h->value, h->value_len};
    lladd_pageno root;
    int rc = h->calls->make(txn, (uint32_t)h->key_size, (uint32_t)h->value_size, key, value, &root);
    if (!rc)
        rc = lladd_root_set(txn, h->t->argv[0], (struct lladd_root_value){root.v, 0});
    if (rc)
        h->err = *lladd_txn_error(txn);
    return rc;
}

static int change(struct keyed *h, struct lladd_txn *txn, bool put)
{
    struct lladd_span key = {h->key, h->key_len}, value = {h->value, h->value_len};
    int rc = open_table(h);
    if (rc == LLADD_NOT_FOUND && put && h->create)
        return make(h, txn, &key);
    if (rc) /* a missing table must not be reported as a missing key */
        return rc == LLADD_NOT_FOUND ? LLADD_BAD_ARGUMENT : rc;
    rc = put ? h->calls->put(txn, h->table, key, value) : h->calls->del(txn, h->table, key);
    if (rc)
        h->err = *lladd_txn_error(txn);
    return rc;
}

static int put_row(struct keyed *h, struct lladd_txn *txn)
{
    return change(h, txn, true);
}

static int del_row(struct keyed *h, struct lladd_txn *txn)
{
    return change(h, txn, false);
}

static int make_empty(struct keyed *h, struct lladd_txn *txn)
{
    struct lladd_root_value root;
    int rc = lladd_root_get(h->db, h->t->argv[0], &root, &h->err);
    if (rc == 0)
        return lladd_error_set(&h->err, LLADD_EXISTS, "\"%s\" already exists", h->t->argv[0]);
    return rc == LLADD_NOT_FOUND ? make(h, txn, NULL) : rc;
}

struct changing {
    struct keyed *h;
    int (*what)(struct keyed *, struct lladd_txn *);
};

static int run_change(void *ctx, struct lladd_txn *txn)
{
    const struct changing *c = ctx;
    return c->what(c->h, txn);
}

static int alter(struct keyed *h, int (*what)(struct keyed *, struct lladd_txn *))
{
    int rc = 0;
    if (what != del_row && h->create && !h->t->from)
        rc = lladd_open(h->t->dir, &h->t->options, &h->db, &h->err);
    else
        rc = tool_open(h->t, &h->db, &h->err);
    if (rc)
        return keyed_failed(h);
    rc = tool_change(h->db, run_change, &(struct changing){h, what}, &h->err);
    if (h->table)
        h->calls->close(h->table);
    int closed = lladd_close(h->db);
    if (rc == LLADD_NOT_FOUND)
        return not_found(h);
    if (rc)
        return keyed_failed(h);
    if (closed)
        return tool_fail(h->t,
                         "%s: the verb succeeded, but the database was not closed cleanly (%s)",
                         h->t->dir, lladd_code_name(closed));
    return TOOL_FINE;
}

/* ---- the verbs ------------------------------------------------------------------------------ */

static int take_key(struct keyed *h)
{
    return keyed_bytes(h, "KEY", h->t->argv[1], &h->key, &h->key_len);
}

int keyed_get(struct keyed *h)
{
    int code = take_key(h);
    return code ? code : keyed_look(h, get);
}

int keyed_put(struct keyed *h)
{
    const struct tool *t = h->t;
    int code = take_key(h);
    if (!code)
        code = t->argc > 2 ? keyed_bytes(h, "VALUE", t->argv[2], &h->value, &h->value_len)
                           : read_value(h);
    return code ? code : alter(h, put_row);
}

int keyed_del(struct keyed *h)
{
    int code = take_key(h);
    return code ? code : alter(h, del_row);
}

int keyed_create(struct keyed *h)
{
    h->create = true;
    return alter(h, make_empty);
}

int keyed_run(struct keyed *h, const struct keyed_verb *verbs, const char *names,
              const struct option *options, tool_option_fn *take, int argc, char **argv)
{
    struct tool *t = h->t;
    const struct keyed_verb *v = verbs;
    const char *what = argc > 1 ? argv[1] : "";
    int code;
    while (v->name && strcmp(what, v->name) != 0)
        v++;
    if (!v->name && *what != '-')
        return tool_fail(t, "expected %s, not \"%s\"", names, what);
    if (v->name) {
        t->verb = v->verb;
        t->more = v->more;
    }
    if (tool_parse(t, v->name ? argc - 1 : argc, v->name ? argv + 1 : argv, options, take, h,
                   v->wanted, &code))
        return tool_end(t, code);
    if (!v->name)
        return tool_end(t, tool_fail(t, "expected %s", names));
    code = v->run(h);
    free(h->key);
    free(h->value);
    return tool_end(t, code);
}
