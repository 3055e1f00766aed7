/* SPDX-License-Identifier: BSD-2-Clause */
/* Parses configurations. The grammar:
 *
 *     text  := layer | config "[" item* "]"      the only items are "base" and "base_config"
 *     layer := class(dt) NAME [ config "[" item* "]" ]
 *     item  := "name" value
 *     value := bool true|false | int NUMBER | string "bytes" | blob HEX | blob empty
 *            | words "[" "bytes"* "]" | layers "[" layer* "]"
 *            | class(dt) NAME | config "[" item* "]"
 *
 * This is the Anvil paper's notation with additions: words, layers, comments (# to the end of the
 * line), escapes in strings (\\ \" \n \t \r \0 \xHH) and 64-bit integers. For a child "x", the item
 * "x" names the class, and the item "x_config" gives its parameters; they may come in either order.
 * Every other item is a parameter of the class. No item may appear twice. */
#include "operations/dtables/core/dtable.h"

struct place {
    const char *at;
    uint32_t line, column;
};
struct parser {
    struct lladd_db *db;
    struct ll_dtables *all;
    struct lladd_error *err;
    struct place now;   /* the place after the token */
    struct place token; /* where the token begins */
    const char *text;   /* the token */
    size_t len;         /* 0: the end of the text */
    bool quoted;
    struct ll_dtable_bytes bytes; /* contents of a quoted token */
};

static int expected(struct parser *p, const char *what)
{
    char found[40];
    size_t n = p->len < 24 ? p->len : 24;
    if (p->len == 0 && !p->quoted) {
        memcpy(found, "the end", 8);
    } else {
        for (size_t i = 0; i < n; i++)
            found[i] = p->text[i] >= ' ' && p->text[i] < 127 ? p->text[i] : '?';
        found[n] = 0;
    }
    return lladd_error_set(p->err, LLADD_BAD_CONFIG, "line %u, column %u: expected %s, found %s",
                           p->token.line, p->token.column, what, found);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static void step(struct parser *p)
{
    if (*p->now.at == '\n') {
        p->now.line++;
        p->now.column = 0;
    }
    p->now.column++;
    p->now.at++;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct parser *p)
{
    while (blank(*p->now.at) || *p->now.at == '#') {
        if (*p->now.at == '#')
            while (*p->now.at && *p->now.at != '\n')
                step(p);
        else
            step(p);
    }
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Parses an escape; the backslash has been read. Returns the byte that the escape stands for, or
 * -1. */
static int escaped(struct parser *p)
{
    static const char names[] = "ntr0\\\"", values[] = "\n\t\r\0\\\"";
    char c = *p->now.at;
    const char *found = c ? strchr(names, c) : NULL;
    if (found) {
        step(p);
        return (unsigned char)values[found - names];
    }
    if (c != 'x' || hex(p->now.at[1]) < 0 || hex(p->now.at[2]) < 0)
        return -1;
    int byte = hex(p->now.at[1]) * 16 + hex(p->now.at[2]);
    step(p);
    step(p);
    step(p);
    return byte;
}

static int next_quoted(struct parser *p)
{
    p->bytes.len = 0;
    step(p);
    while (*p->now.at != '"') {
        int byte = (unsigned char)*p->now.at;
        struct place here = p->now;
        if (byte == 0)
            return lladd_error_set(p->err, LLADD_BAD_CONFIG,
                                   "line %u, column %u: expected a quotation mark that ends this",
                                   p->token.line, p->token.column);
        step(p);
        if (byte == '\\')
            byte = escaped(p);
        if (byte < 0)
            return lladd_error_set(p->err, LLADD_BAD_CONFIG,
                                   "line %u, column %u: expected \\\\, \\\", \\n, \\t, \\r, \\0 or "
                                   "\\xHH",
                                   here.line, here.column);
        unsigned char one = (unsigned char)byte;
        if (ll_dtable__append(&p->bytes, &one, 1))
            return ll_dtable__no_memory(p->err);
    }
    step(p);
    p->quoted = true;
    p->len = p->bytes.len;
    p->text = p->len ? (const char *)p->bytes.data : "";
    return 0;
}

static int next(struct parser *p)
{
    skip_blanks(p);
    p->token = p->now;
    p->quoted = false;
    p->text = p->now.at;
    if (*p->now.at == '"')
        return next_quoted(p);
    if (*p->now.at == '[' || *p->now.at == ']')
        step(p);
    else
        while (*p->now.at && !blank(*p->now.at) && !strchr("[]\"#", *p->now.at))
            step(p);
    p->len = (size_t)(p->now.at - p->text);
    return 0;
}

static bool is(const struct parser *p, const char *word)
{
    return !p->quoted && p->len == strlen(word) && memcmp(p->text, word, p->len) == 0;
}

static int next_must_be(struct parser *p, const char *word, const char *what)
{
    int rc = next(p);
    return rc ? rc : is(p, word) ? 0 : expected(p, what);
}

/* ---- values ---------------------------------------------------------------------------------- */

static int parse_bool(struct parser *p, struct ll_dtable_param *out)
{
    TRY(next(p));
    if (!is(p, "true") && !is(p, "false"))
        return expected(p, "true or false");
    out->number = is(p, "true");
    return 0;
}

static int parse_int(struct parser *p, struct ll_dtable_param *out)
{
    TRY(next(p));
    const char *s = p->text, *end = s + p->len;
    bool minus = p->len && !p->quoted && *s == '-';
    uint64_t v = 0, most = minus ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    unsigned base = 10;
    s += minus;
    if (end - s > 2 && s[0] == '0' && s[1] == 'x') {
        base = 16;
        s += 2;
    }
    if (p->quoted || s == end)
        return expected(p, "a number");
    for (; s < end; s++) {
        int digit = hex(*s);
        if (digit < 0 || (unsigned)digit >= base)
            return expected(p, "a number");
        if (v > (most - (unsigned)digit) / base)
            return expected(p, "a number of 64 bits");
        v = v * base + (unsigned)digit;
    }
    out->number = minus ? (int64_t)(0 - v) : (int64_t)v;
    return 0;
}

static int parse_string(struct parser *p, struct ll_dtable_word *out)
{
    TRY(next(p));
    if (!p->quoted)
        return expected(p, "a string in quotation marks");
    if (ll_dtable__word_set(p->db, out, lladd_span_of(p->text, p->len)))
        return ll_dtable__no_memory(p->err);
    return 0;
}

static int parse_blob(struct parser *p, struct ll_dtable_word *out)
{
    TRY(next(p));
    size_t n = is(p, "empty") ? 0 : p->len / 2;
    if (p->quoted || (n * 2 != p->len && !is(p, "empty")) || (n == 0 && !is(p, "empty")))
        return expected(p, "an even number of hexadecimal digits, or empty");
    p->bytes.len = 0;
    unsigned char *bytes = ll_dtable__more(&p->bytes, n);
    if (!bytes)
        return ll_dtable__no_memory(p->err);
    for (size_t i = 0; i < n; i++) {
        int high = hex(p->text[2 * i]), low = hex(p->text[2 * i + 1]);
        if (high < 0 || low < 0)
            return expected(p, "an even number of hexadecimal digits, or empty");
        bytes[i] = (unsigned char)(high * 16 + low);
    }
    return ll_dtable__word_set(p->db, out, lladd_span_of(bytes, n)) ? ll_dtable__no_memory(p->err)
                                                                     : 0;
}

static int parse_words(struct parser *p, struct ll_dtable_param *out)
{
    int rc = next_must_be(p, "[", "[");
    while (!rc) {
        rc = next(p);
        if (rc || is(p, "]"))
            return rc;
        if (!p->quoted)
            return expected(p, "a string in quotation marks, or ]");
        if (ll_operations__grow(p->db, &out->words, out->n_words + 1, &out->cap_words,
                            sizeof *out->words))
            return ll_dtable__no_memory(p->err);
        out->words[out->n_words] = (struct ll_dtable_word){NULL, 0};
        rc = ll_dtable__word_set(p->db, &out->words[out->n_words],
                                 lladd_span_of(p->text, p->len))
                 ? ll_dtable__no_memory(p->err)
                 : 0;
        out->n_words += !rc;
    }
    return rc;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static int parse_items(struct parser *, struct lladd_dtable_config *, unsigned depth);

/* Parses the name of a class; class(dt) has been read. */
static int parse_class(struct parser *p, struct lladd_dtable_config **out)
{
    TRY(next(p));
    const struct lladd_dtable_class *kind =
        p->quoted ? NULL : ll_dtable__class(p->all, p->text, p->len);
    if (!kind)
        return expected(p, "the name of a dTable class");
    int rc = ll_dtable__config_of(p->db, kind, out, p->err);
    if (!rc) {
        (*out)->line = p->token.line;
        (*out)->column = p->token.column;
    }
    return rc;
}

/* Parses a layer in the short form; class(dt) has been read. */
static int parse_layer(struct parser *p, unsigned depth, struct lladd_dtable_config **out)
{
    struct parser ahead;
    TRY(parse_class(p, out));
    ahead = *p;
    int rc = next(&ahead);
    p->bytes = ahead.bytes;
    if (rc || !is(&ahead, "config"))
        return rc;
    *p = ahead;
    rc = next_must_be(p, "[", "[");
    return rc ? rc : parse_items(p, *out, depth);
}

static int parse_layers(struct parser *p, struct lladd_dtable_config *c,
                        struct ll_dtable_param *out, unsigned depth)
{
    int rc = next_must_be(p, "[", "[");
    while (!rc) {
        struct lladd_dtable_config *below = NULL;
        rc = next(p);
        if (rc || is(p, "]"))
            return rc;
        rc = is(p, "class(dt)") ? parse_layer(p, depth + 1, &below)
                                : expected(p, "class(dt), or ]");
        if (below) /* `below` is freed with its parent, complete or not */
            ll_dtable__adopt(c, out, below);
    }
    return rc;
}

static int parse_value(struct parser *p, struct lladd_dtable_config *c, int i, unsigned depth)
{
    const struct lladd_dtable_param *what = &c->kind->params[i];
    struct ll_dtable_param *out = &c->params[i];
    struct lladd_dtable_config *below = NULL;
    int rc = next(p);
    if (rc)
        return rc;
    switch (what->type) {
    case LLADD_DTABLE_PARAM_BOOL:
        return is(p, "bool") ? parse_bool(p, out) : expected(p, "bool");
    case LLADD_DTABLE_PARAM_INT:
        return is(p, "int") ? parse_int(p, out) : expected(p, "int");
    case LLADD_DTABLE_PARAM_WORDS:
        return is(p, "words") ? parse_words(p, out) : expected(p, "words");
    case LLADD_DTABLE_PARAM_CHILD:
        rc = is(p, "class(dt)") ? parse_class(p, &below) : expected(p, "class(dt)");
        if (below)
            ll_dtable__adopt(c, out, below);
        return rc;
    case LLADD_DTABLE_PARAM_LAYERS:
        return is(p, "layers") ? parse_layers(p, c, out, depth) : expected(p, "layers");
    default:
        return is(p, "string") ? parse_string(p, &out->bytes)
               : is(p, "blob") ? parse_blob(p, &out->bytes)
                               : expected(p, "string or blob");
    }
}

/* Where the text has "x_config" for a child x. These items are parsed last, because "x" may come
 * after "x_config". */
struct pending {
    struct place at;
    bool seen;
};

/* Skips the text up to the closing bracket; the opening one has been read. */
static int skip_brackets(struct parser *p)
{
    unsigned open = 1;
    while (open) {
        TRY(next(p));
        if (p->len == 0 && !p->quoted)
            return expected(p, "]");
        open += is(p, "[");
        open -= is(p, "]");
    }
    return 0;
}

/* Returns the index of the parameter x for the name "x_config", or -1. */
static int child_of(const struct lladd_dtable_class *kind, const char *name, size_t len)
{
    static const char suffix[] = "_config";
    size_t n = sizeof suffix - 1;
    if (len <= n || memcmp(name + len - n, suffix, n) != 0)
        return -1;
    int i = ll_dtable__param(kind, name, len - n);
    return i >= 0 && kind->params[i].type == LLADD_DTABLE_PARAM_CHILD ? i : -1;
}

static int parse_item(struct parser *p, struct lladd_dtable_config *c, struct pending *pending,
                      unsigned depth)
{
    char known[80];
    int i = ll_dtable__param(c->kind, p->text, p->len);
    int child = i < 0 ? child_of(c->kind, p->text, p->len) : -1;
    if (i < 0 && child < 0) {
        size_t n = strlen(c->kind->name) < 60 ? strlen(c->kind->name) : 60;
        memcpy(known, "a parameter of ", 15);
        memcpy(known + 15, c->kind->name, n);
        known[15 + n] = 0;
        return expected(p, known);
    }
    if (child >= 0 ? pending[child].seen : c->params[i].set)
        return lladd_error_set(p->err, LLADD_BAD_CONFIG,
                               "line %u, column %u: expected each parameter once", p->token.line,
                               p->token.column);
    if (child < 0) {
        int rc = parse_value(p, c, i, depth);
        c->params[i].set = !rc;
        return rc;
    }
    int rc = next_must_be(p, "config", "config");
    rc = rc ? rc : next_must_be(p, "[", "[");
    pending[child] = (struct pending){p->now, true};
    return rc ? rc : skip_brackets(p);
}

static int parse_pending(struct parser *p, struct lladd_dtable_config *c,
                         const struct pending *pending, unsigned depth)
{
    struct parser here = *p;
    size_t n = ll_dtable__n_params(c->kind);
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (!pending[i].seen)
            continue;
        here.now = here.token = pending[i].at;
        if (!c->params[i].child)
            rc = lladd_error_set(p->err, LLADD_BAD_CONFIG,
                                 "line %u, column %u: expected \"%s\" class(dt) beside its config",
                                 here.now.line, here.now.column, c->kind->params[i].name);
        else
            rc = parse_items(&here, c->params[i].child, depth + 1);
    }
    p->bytes = here.bytes;
    return rc;
}

/* Parses items up to the closing bracket; the opening one has been read. */
static int parse_items(struct parser *p, struct lladd_dtable_config *c, unsigned depth)
{
    size_t n = ll_dtable__n_params(c->kind);
    if (depth > LL_DTABLE_DEPTH_MAX)
        return ll_dtable__too_deep(c, p->err);
    struct pending *pending = lladd_mem_alloc(p->db, (n + 1) * sizeof *pending);
    if (!pending)
        return ll_dtable__no_memory(p->err);
    memset(pending, 0, (n + 1) * sizeof *pending);
    int rc = 0;
    for (;;) {
        rc = next(p);
        if (rc || is(p, "]"))
            break;
        rc = p->quoted ? parse_item(p, c, pending, depth)
                       : expected(p, "a name in quotation marks, or ]");
        if (rc)
            break;
    }
    if (!rc)
        rc = parse_pending(p, c, pending, depth);
    lladd_mem_free(p->db, pending);
    return rc;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static const struct lladd_dtable_param top_params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};
static const struct lladd_dtable_class top = {.name = "config", .params = top_params};

static int parse_top(struct parser *p, struct lladd_dtable_config **out)
{
    struct lladd_dtable_config *c = NULL;
    int rc = next_must_be(p, "[", "[");
    if (!rc)
        rc = ll_dtable__config_of(p->db, &top, &c, p->err);
    if (!rc)
        rc = parse_items(p, c, 0);
    if (!rc && !c->params[0].child)
        rc = expected(p, "\"base\" class(dt) before it");
    if (!rc) {
        *out = c->params[0].child;
        (*out)->parent = NULL;
        c->params[0].child = NULL;
    }
    lladd_dtable_config_free(c);
    return rc;
}

int lladd_dtable_config_parse(struct lladd_db *db, const char *text,
                              struct lladd_dtable_config **out, struct lladd_error *err)
{
    struct lladd_dtable_config *c = NULL;
    struct lladd_error none = LLADD_ERROR_INIT; /* takes the error if err is NULL */
    struct parser p = {.db = db, .all = ll_dtables_of(db), .now = {text, 1, 1}, .bytes.db = db};
    p.err = err ? err : &none;
    int rc = lladd_check_process(db, p.err);
    if (!rc)
        rc = next(&p);
    if (!rc)
        rc = is(&p, "config")      ? parse_top(&p, &c)
             : is(&p, "class(dt)") ? parse_layer(&p, 1, &c)
                                   : expected(&p, "config or class(dt)");
    if (!rc)
        rc = next(&p);
    if (!rc && (p.len || p.quoted))
        rc = expected(&p, "the end");
    lladd_mem_free(db, p.bytes.data);
    if (!rc)
        rc = lladd_dtable_config_check(c, (enum lladd_dtable_type)0, p.err);
    if (rc)
        lladd_dtable_config_free(c);
    else
        *out = c;
    return rc;
}
