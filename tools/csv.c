/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and writes rows of comma-separated values (tools/csv.h). */
#include "csv.h"

#include <stdlib.h>
#include <string.h>

void csv_begin(struct csv *c, FILE *in, size_t field_max)
{
    *c = (struct csv){.in = in, .field_max = field_max, .next = 1};
}

void csv_free(struct csv *c)
{
    free(c->bytes);
    free(c->end);
    free(c->marked);
}

bool csv_quoted(const struct csv *c, size_t i)
{
    return c->marked[i] != 0;
}

struct lladd_span csv_field(const struct csv *c, size_t i)
{
    size_t from = i ? c->end[i - 1] : 0;
    if (c->end[i] == from) /* c->bytes may still be NULL */
        return (struct lladd_span){"", 0};
    return (struct lladd_span){c->bytes + from, c->end[i] - from};
}

static enum csv_got wrong(struct csv *c, const char *why)
{
    c->wrong = why;
    return CSV_WRONG;
}

/* Makes room for `n` elements. Returns false if there is no memory. */
static bool reserve(void *array, size_t n, size_t *cap, size_t element)
{
    void *p;
    memcpy(&p, array, sizeof p);
    if (n <= *cap)
        return true;
    size_t more = 2 * *cap + 64;
    p = more > SIZE_MAX / element ? NULL : realloc(p, more * element);
    if (!p)
        return false;
    memcpy(array, &p, sizeof p);
    *cap = more;
    return true;
}

static enum csv_got add(struct csv *c, int byte)
{
    size_t from = c->n ? c->end[c->n - 1] : 0;
    if (c->len - from >= c->field_max)
        return wrong(c, "a field that is too long");
    if (!reserve(&c->bytes, c->len + 1, &c->size, 1))
        return wrong(c, "out of memory");
    c->bytes[c->len++] = (unsigned char)byte;
    c->next += byte == '\n';
    return CSV_ROW;
}

/* Returns the next byte; CR LF is returned as one '\n'. */
static int take(struct csv *c)
{
    int byte = getc(c->in);
    if (byte != '\r')
        return byte;
    int then = getc(c->in);
    if (then == '\n')
        return then;
    if (then != EOF)
        (void)ungetc(then, c->in); /* ungetc of one byte cannot fail */
    return byte;
}

/* Reads the rest of a field after its opening quotation mark; *last gets the byte after the closing
 * quotation mark. */
static enum csv_got quoted(struct csv *c, int *last)
{
    for (;;) {
        int byte = getc(c->in); /* between quotation marks a CR is text */
        if (byte == EOF)
            return wrong(c, "a quotation mark that is never closed");
        if (byte == '"') {
            byte = take(c);
            if (byte != '"') {
                *last = byte;
                return byte == ',' || byte == '\n' || byte == EOF
                           ? CSV_ROW
                           : wrong(c, "something after a quotation mark that is neither a comma "
                                      "nor the line's end");
            }
        }
        enum csv_got got = add(c, byte);
        if (got)
            return got;
    }
}

static enum csv_got plain(struct csv *c, int byte, int *last)
{
    for (; byte != ',' && byte != '\n' && byte != EOF; byte = take(c)) {
        if (byte == '"')
            return wrong(c, "a quotation mark inside a field that does not begin with one");
        enum csv_got got = add(c, byte);
        if (got)
            return got;
    }
    *last = byte;
    return CSV_ROW;
}

enum csv_got csv_read(struct csv *c)
{
    int last = ',';
    c->line = c->next;
    c->len = c->n = 0;
    while (last == ',') {
        int byte = take(c);
        if (byte == EOF && c->n == 0)
            return ferror(c->in) ? wrong(c, "a read error") : CSV_END;
        enum csv_got got = byte == '"' ? quoted(c, &last) : plain(c, byte, &last);
        if (got)
            return got;
        if (!reserve(&c->end, c->n + 1, &c->cap, sizeof *c->end) ||
            !reserve(&c->marked, c->n + 1, &c->cap_marked, 1))
            return wrong(c, "out of memory");
        c->marked[c->n] = byte == '"';
        c->end[c->n++] = c->len;
    }
    c->next += last == '\n';
    return ferror(c->in) ? wrong(c, "a read error") : CSV_ROW;
}

void csv_write(FILE *to, const void *bytes, size_t len)
{
    const char *p = bytes;
    bool quote = false;
    for (size_t i = 0; i < len && !quote; i++)
        quote = p[i] == ',' || p[i] == '"' || p[i] == '\r' || p[i] == '\n';
    if (!quote) {
        if (len)
            (void)fwrite(p, 1, len, to); /* the stream remembers a write error */
        return;
    }
    putc('"', to);
    for (size_t i = 0; i < len; i++) {
        if (p[i] == '"')
            putc('"', to);
        putc(p[i], to);
    }
    putc('"', to);
}
