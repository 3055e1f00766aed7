/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes and reads the text of a dump (docs/dump-format.md). The reader does not trust the file: it
 * checks sizes, counts and checksums, and allocates memory only for bytes that it has read, not for
 * the sizes in a structure's first line. */
#include "dump_text.h"

#include "util/crc32c.h"

#include <errno.h>
#include <inttypes.h>
#include <lladd/op.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing -------------------------------------------------------------------------------- */

static const char digits[] = "0123456789abcdef";

static void put(struct dump_out *o, const char *bytes, size_t len)
{
    o->crc = ll_crc32c(o->crc, bytes, len);
    (void)fwrite(bytes, 1, len, o->to); /* the caller checks for errors later with ferror */
}

LLADD_PRINTF(2, 3) static void say(struct dump_out *o, const char *fmt, ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    put(o, text, n < 0 ? 0 : (size_t)n);
}

/* Escapes as many bytes as fit into `out`, and returns their number. *used: the length of the
 * escaped text. */
static size_t escape(const unsigned char *p, size_t len, char *out, size_t size, size_t *used)
{
    size_t i = 0;
    *used = 0;
    for (; i < len && size - *used >= 4; i++) {
        char *to = out + *used;
        if (p[i] == '"' || p[i] == '\\') {
            to[0] = '\\';
            to[1] = (char)p[i];
            *used += 2;
        } else if (p[i] >= 0x20 && p[i] < 0x7f) {
            to[0] = (char)p[i];
            *used += 1;
        } else {
            to[0] = '\\';
            to[1] = 'x';
            to[2] = digits[p[i] >> 4];
            to[3] = digits[p[i] & 15];
            *used += 4;
        }
    }
    return i;
}

static void put_quoted(struct dump_out *o, struct lladd_span s)
{
    char text[1024];
    size_t used;
    put(o, "\"", 1);
    for (size_t done = 0; done < s.len;) {
        done +=
            escape((const unsigned char *)s.data + done, s.len - done, text, sizeof text, &used);
        put(o, text, used);
    }
    put(o, "\"", 1);
}

void dump_quoted(FILE *to, const void *bytes, size_t len)
{
    struct dump_out o = {.to = to};
    put_quoted(&o, (struct lladd_span){bytes, len});
}

static void flush_zeros(struct dump_out *o)
{
    if (o->zeros)
        say(o, "zeros %" PRIu64 "\n", o->zeros);
    o->zeros = 0;
}

void dump_begin(struct dump_out *o, FILE *to)
{
    *o = (struct dump_out){.to = to};
    say(o, "lladd dump %u\n", DUMP_VERSION);
}

bool dump_has_pairs(const char *kind)
{
    return strcmp(kind, "hash") == 0 || strcmp(kind, "btree") == 0;
}

void dump_head(struct dump_out *o, const struct dump_head *h)
{
    o->crc = 0;
    o->count = 0;
    say(o, "%s ", h->kind);
    put_quoted(o, (struct lladd_span){h->name, strlen(h->name)});
    if (strcmp(h->kind, "array") == 0)
        say(o, " element %" PRIu64, h->element_size);
    if (dump_has_pairs(h->kind))
        say(o, " key %" PRIu64 " value %" PRIu64, h->key_size, h->value_size);
    say(o, " count %" PRIu64 "\n", h->count);
}

static bool all_zero(const unsigned char *p, size_t len)
{
    return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

/* Writes a line: one array element (`counts` is 1), or `counts` bytes of a blob. If all bytes are
 * zero, only adds to the zeros: flush_zeros writes one line for all consecutive zeros. */
static void put_line(struct dump_out *o, struct lladd_span s, uint64_t counts)
{
    o->count += counts;
    if (all_zero(s.data, s.len)) {
        o->zeros += counts;
        return;
    }
    flush_zeros(o);
    put_quoted(o, s);
    put(o, "\n", 1);
}

void dump_element(struct dump_out *o, const void *bytes, size_t len)
{
    put_line(o, (struct lladd_span){bytes, len}, 1);
}

void dump_piece(struct dump_out *o, struct lladd_span piece)
{
    put_line(o, piece, piece.len);
}

void dump_pair(struct dump_out *o, struct lladd_span key, struct lladd_span value)
{
    put_quoted(o, key);
    put(o, " ", 1);
    put_quoted(o, value);
    put(o, "\n", 1);
    o->count++;
}

void dump_item(struct dump_out *o, struct lladd_span item)
{
    put_quoted(o, item);
    put(o, "\n", 1);
    o->count++;
}

void dump_tail(struct dump_out *o)
{
    flush_zeros(o);
    uint32_t crc = o->crc;
    say(o, "end %" PRIu64 " crc %08" PRIx32 "\n", o->count, crc);
    o->structures++;
}

void dump_end(struct dump_out *o)
{
    say(o, "done %" PRIu64 "\n", o->structures);
}

/* ---- reading -------------------------------------------------------------------------------- */

struct reading {
    FILE *from;
    const struct dump_reader *to;
    struct lladd_error *err;
    char *line; /* the current line, without its newline, with a 0 at its end */
    size_t size, len, at;
    uint64_t number; /* number of the line */
    uint32_t crc;
    struct dump_head head;
    bool inside; /* the line is inside a structure */
    uint64_t count, structures;
};

/* Sets the error: "line 7: " and the message. */
LLADD_PRINTF(2, 3) static int wrong(struct reading *r, const char *fmt, ...)
{
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return lladd_error_set(r->err, LLADD_BAD_ARGUMENT, "line %" PRIu64 ": %s", r->number, text);
}

/* "line 7: expected ..., found ...". */
static int expected(struct reading *r, const char *what)
{
    char found[4 * 24 + 1];
    size_t left = r->len - r->at, used, n;
    n = escape((const unsigned char *)r->line + r->at, left, found, sizeof found - 1, &used);
    found[used] = '\0';
    if (left == 0)
        return wrong(r, "expected %s, found the end of the line", what);
    return wrong(r, "expected %s, found %s%s", what, found, n < left ? "..." : "");
}

/* Returns rc, a callback's result. If rc is an error, puts the line number before the message. */
static int failed(struct reading *r, int rc)
{
    char why[sizeof r->err->message];
    if (rc == 0)
        return 0;
    (void)snprintf(why, sizeof why, "%s", r->err->code ? r->err->message : lladd_code_text(rc));
    (void)snprintf(r->err->message, sizeof r->err->message, "line %" PRIu64 ": %.200s", r->number,
                   why);
    r->err->code = rc;
    return rc;
}

/* Returns LLADD_END after the last line. */
static int next_line(struct reading *r)
{
    errno = 0;
    ssize_t n = getline(&r->line, &r->size, r->from);
    if (n < 0 && feof(r->from) && !ferror(r->from))
        return LLADD_END;
    if (n < 0 && errno == ENOMEM)
        return lladd_error_set(r->err, LLADD_NO_MEMORY, "line %" PRIu64 ": out of memory",
                               r->number + 1);
    if (n < 0)
        return lladd_error_set(r->err, LLADD_BAD_ARGUMENT, "after line %" PRIu64 ": %s", r->number,
                               strerror(errno));
    r->number++;
    r->at = 0;
    r->len = (size_t)n;
    if (r->line[n - 1] != '\n')
        return wrong(r, "the file ends in the middle of a line");
    r->line[--r->len] = '\0';
    return 0;
}

/* If the word comes next in the line, skips it and returns true. */
static bool word(struct reading *r, const char *text)
{
    size_t n = strlen(text);
    if (r->len - r->at < n || memcmp(r->line + r->at, text, n) != 0)
        return false;
    r->at += n;
    return true;
}

static int must(struct reading *r, const char *text, const char *what)
{
    return word(r, text) ? 0 : expected(r, what);
}

static int line_end(struct reading *r)
{
    return r->at == r->len ? 0 : expected(r, "the end of the line");
}

/* Reads a decimal number without leading zeros. */
static int number(struct reading *r, const char *what, uint64_t *out)
{
    const char *p = r->line + r->at;
    uint64_t v = 0;
    size_t n = 0;
    for (; p[n] >= '0' && p[n] <= '9'; n++)
        if (__builtin_mul_overflow(v, 10u, &v) ||
            __builtin_add_overflow(v, (uint64_t)(p[n] - '0'), &v))
            return expected(r, what);
    if (n == 0 || (n > 1 && p[0] == '0'))
        return expected(r, what);
    r->at += n;
    *out = v;
    return 0;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes the character or escape at *p into one byte, and moves *p past it. Returns false if *p is
 * not at a printable character or a complete, known escape. */
static bool unescape(const char **p, const char *end, char *out)
{
    const char *s = *p;
    int high, low;
    if (*s != '\\') {
        *out = *s;
        *p = s + 1;
        return *s >= 0x20 && *s < 0x7f;
    }
    if (end - s >= 2 && (s[1] == '"' || s[1] == '\\')) {
        *out = s[1];
        *p = s + 2;
        return true;
    }
    if (end - s < 4 || s[1] != 'x' || (high = hex_digit(s[2])) < 0 || (low = hex_digit(s[3])) < 0)
        return false;
    *out = (char)(high * 16 + low);
    *p = s + 4;
    return true;
}

/* Decodes the string in place: the decoded bytes are never longer than the text. */
static int quoted(struct reading *r, const char *what, struct lladd_span *out)
{
    if (!word(r, "\""))
        return expected(r, what);
    char *to = r->line + r->at;
    const char *p = to, *end = r->line + r->len;
    *out = (struct lladd_span){to, 0};
    while (p < end && *p != '"') {
        const char *here = p;
        if (!unescape(&p, end, to)) {
            r->at = (size_t)(here - r->line);
            return expected(r, "a printable character, \\\\, \\\" or \\xHH");
        }
        to++;
    }
    r->at = (size_t)(p - r->line);
    out->len = (size_t)(to - (char *)(uintptr_t)out->data);
    return must(r, "\"", "a closing quotation mark");
}

/* ---- lines ---------------------------------------------------------------------------------- */

static int sizes(struct reading *r)
{
    struct dump_head *h = &r->head;
    int rc = 0;
    if (strcmp(h->kind, "array") == 0) {
        rc = must(r, " element ", "\" element \" and the size of one");
        rc = rc ? rc : number(r, "the size of an element", &h->element_size);
        if (!rc && h->element_size == 0)
            rc = wrong(r, "an element of 0 bytes");
    } else if (dump_has_pairs(h->kind)) {
        rc = must(r, " key ", "\" key \" and the size of one");
        rc = rc ? rc : number(r, "the size of a key", &h->key_size);
        rc = rc ? rc : must(r, " value ", "\" value \" and the size of one");
        rc = rc ? rc : number(r, "the size of a value", &h->value_size);
    }
    return rc;
}

static int read_head(struct reading *r)
{
    static const char *const kinds[] = {"array", "hash", "btree", "list", "blob"};
    struct lladd_span name;
    r->head = (struct dump_head){.kind = NULL};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !r->head.kind; i++)
        if (word(r, kinds[i]))
            r->head.kind = kinds[i];
    if (!r->head.kind)
        return expected(r, "array, hash, btree, list, blob or done");
    int rc = must(r, " ", "a blank and a name");
    r->crc = ll_crc32c(0, r->line, r->len); /* computed before strings are decoded in place */
    r->crc = ll_crc32c(r->crc, "\n", 1);
    rc = rc ? rc : quoted(r, "a name in quotation marks", &name);
    if (rc)
        return rc;
    if (name.len == 0 || name.len > LLADD_ROOT_NAME_MAX || memchr(name.data, 0, name.len))
        return wrong(r, "a name has 1 to %u bytes, and none of them is zero", LLADD_ROOT_NAME_MAX);
    memcpy(r->head.name, name.data, name.len);
    rc = sizes(r);
    rc = rc ? rc : must(r, " count ", "\" count \" and how many");
    rc = rc ? rc : number(r, "a count", &r->head.count);
    rc = rc ? rc : line_end(r);
    r->inside = !rc;
    r->count = 0;
    return rc ? rc : failed(r, r->to->head(r->to->ctx, &r->head, r->err));
}

static int read_tail(struct reading *r)
{
    uint64_t count;
    char want[9];
    int rc = number(r, "a count", &count);
    rc = rc ? rc : must(r, " crc ", "\" crc \" and a checksum");
    if (rc)
        return rc;
    if (count != r->count || r->count != r->head.count)
        return wrong(r,
                     "the first line states a count of %" PRIu64 ", the end %" PRIu64 "; %" PRIu64
                     " were read",
                     r->head.count, count, r->count);
    (void)snprintf(want, sizeof want, "%08" PRIx32, r->crc);
    if (!word(r, want)) {
        char what[48];
        (void)snprintf(what, sizeof what, "the checksum %s of the lines above", want);
        return expected(r, what);
    }
    r->inside = false;
    r->structures++;
    rc = line_end(r);
    return rc ? rc : failed(r, r->to->tail(r->to->ctx, r->err));
}

static int counted(struct reading *r, uint64_t n)
{
    if (n > r->head.count - r->count)
        return wrong(r, "more than the count in the first line, %" PRIu64, r->head.count);
    r->count += n;
    return 0;
}

static int sized(struct reading *r, const char *what, struct lladd_span s, uint64_t size)
{
    return s.len == size ? 0 : wrong(r, "%s of %zu bytes instead of %" PRIu64, what, s.len, size);
}

static int read_zeros(struct reading *r)
{
    uint64_t n = 0;
    if (strcmp(r->head.kind, "array") != 0 && strcmp(r->head.kind, "blob") != 0)
        return wrong(r, "only an array or a blob may have a line \"zeros\"");
    int rc = number(r, "how many zeros", &n);
    rc = rc ? rc : line_end(r);
    if (!rc && n == 0)
        return wrong(r, "the number of zeros must be at least 1");
    rc = rc ? rc : counted(r, n);
    return rc ? rc : failed(r, r->to->zeros(r->to->ctx, n, r->err));
}

static int read_record(struct reading *r)
{
    bool pair = dump_has_pairs(r->head.kind);
    struct lladd_span s = {NULL, 0}, value = {NULL, 0};
    int rc = quoted(r, "a string in quotation marks, or end", &s);
    if (pair) {
        rc = rc ? rc : must(r, " ", "a blank and a value");
        rc = rc ? rc : quoted(r, "a value in quotation marks", &value);
    }
    rc = rc ? rc : line_end(r);
    if (!rc && pair && r->head.key_size)
        rc = sized(r, "a key", s, r->head.key_size);
    if (!rc && pair && r->head.value_size)
        rc = sized(r, "a value", value, r->head.value_size);
    if (!rc && strcmp(r->head.kind, "array") == 0)
        rc = sized(r, "an element", s, r->head.element_size);
    rc = rc ? rc : counted(r, strcmp(r->head.kind, "blob") == 0 ? s.len : 1);
    return rc ? rc : failed(r, r->to->record(r->to->ctx, s, value, r->err));
}

static int read_inside(struct reading *r)
{
    if (word(r, "end "))
        return read_tail(r);
    r->crc = ll_crc32c(r->crc, r->line, r->len);
    r->crc = ll_crc32c(r->crc, "\n", 1);
    return word(r, "zeros ") ? read_zeros(r) : read_record(r);
}

static int read_done(struct reading *r)
{
    uint64_t n;
    int rc = number(r, "how many structures there were", &n);
    rc = rc ? rc : line_end(r);
    if (!rc && n != r->structures)
        return wrong(r, "%" PRIu64 " structures instead of %" PRIu64, r->structures, n);
    if (!rc && (rc = next_line(r)) == 0)
        return wrong(r, "expected the end of the file");
    return rc == LLADD_END ? failed(r, r->to->done(r->to->ctx, r->err)) : rc;
}

static int read_version(struct reading *r)
{
    uint64_t version;
    int rc = next_line(r);
    if (rc == LLADD_END)
        return lladd_error_set(r->err, LLADD_BAD_ARGUMENT, "line 1: the file is empty");
    rc = rc ? rc : must(r, "lladd dump ", "\"lladd dump 1\"");
    rc = rc ? rc : number(r, "a version", &version);
    rc = rc ? rc : line_end(r);
    if (!rc && version != DUMP_VERSION)
        return wrong(r, "the format has version %" PRIu64 ", this program reads version %u",
                     version, DUMP_VERSION);
    return rc;
}

int dump_read(FILE *from, const struct dump_reader *to, struct lladd_error *err)
{
    struct reading r = {.from = from, .to = to, .err = err};
    int rc = read_version(&r);
    bool done = false;
    while (!rc && !done && (rc = next_line(&r)) == 0) {
        if (r.inside)
            rc = read_inside(&r);
        else if ((done = word(&r, "done ")))
            rc = read_done(&r);
        else
            rc = read_head(&r);
    }
    if (rc == LLADD_END)
        rc = lladd_error_set(err, LLADD_BAD_ARGUMENT,
                             "line %" PRIu64 ": the file is cut off: expected %s", r.number + 1,
                             r.inside ? "more records, or end" : "another structure, or done");
    free(r.line);
    return rc;
}
