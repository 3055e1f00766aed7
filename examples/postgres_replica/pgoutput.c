/* SPDX-License-Identifier: BSD-2-Clause */
#include "pgoutput.h"

#include <stdio.h>
#include <string.h>

static const char *take(struct reader *r, size_t n)
{
    if (n > r->left) {
        r->cut = true;
        return NULL;
    }
    const char *p = r->at;
    r->at += n;
    r->left -= n;
    return p;
}

uint64_t read_number(struct reader *r, unsigned bytes)
{
    const char *p = take(r, bytes);
    uint64_t n = 0;
    for (unsigned i = 0; p && i < bytes; i++)
        n = n << 8 | (unsigned char)p[i];
    return n;
}

const char *read_text(struct reader *r)
{
    const char *p = r->left ? memchr(r->at, 0, r->left) : NULL;
    if (!p) {
        r->cut = true;
        return "";
    }
    return take(r, (size_t)(p - r->at) + 1);
}

bool read_row(struct reader *r, struct sent *row, unsigned n)
{
    if (read_number(r, 2) != n)
        return false;
    for (unsigned i = 0; i < n && !r->cut; i++) {
        char kind = (char)read_number(r, 1);
        row[i] = (struct sent){.same = kind == 'u'};
        if (kind == 't') {
            row[i].field.len = (size_t)read_number(r, 4);
            row[i].field.text = take(r, row[i].field.len);
        } else if (kind != 'n' && kind != 'u') {
            return false;
        }
    }
    return !r->cut;
}

bool same_relation(struct reader *r, const struct table *t)
{
    const char *known = t->columns;
    (void)read_text(r); /* the schema and the name */
    (void)read_text(r);
    char identity = (char)read_number(r, 1);
    uint64_t n = read_number(r, 2);
    bool same = n == t->fields && (identity == 'd' || identity == 'f');
    for (uint64_t i = 0; i < n && same && !r->cut; i++) {
        char type[16];
        (void)read_number(r, 1);
        const char *name = read_text(r);
        size_t len = strlen(name);
        int digits = snprintf(type, sizeof type, " %lu", (unsigned long)read_number(r, 4));
        (void)read_number(r, 4);
        same = strncmp(known, name, len) == 0 &&
               strncmp(known + len, type, (size_t)digits) == 0;
        known += same ? len + (size_t)digits : 0;
        same = same && *known == (i + 1 < n ? ',' : 0);
        known += same && *known;
    }
    return same && !r->cut;
}
