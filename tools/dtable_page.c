/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd dtable page: a page of a multicolumn_dtable, column by column. */
#include "dtable.h"

#include <errno.h>
#include <inttypes.h>
#include <lladd/dtable_class.h>
#include <lladd/dtable_multicolumn.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS_MOST = 255 };

struct page {
    uint64_t generation, number, of; /* of the run; of the page in the run; pages of the run */
    bool rows;                       /* values are packed rows */
    struct lladd_multicolumn_page page;
    struct lladd_multicolumn_column columns[COLUMNS_MOST];
};

/* ---- columns as text ------------------------------------------------------------------------- */

static void write_type(const struct lladd_multicolumn_column *c, char out[16])
{
    if (c->is_text)
        snprintf(out, 16, "text12");
    else
        snprintf(out, 16, "%c%u", c->is_signed ? 'i' : 'u', 8 * c->width);
}

/* A number of the column. The highest bit of a signed one is inverted. */
static void write_number(const struct lladd_multicolumn_column *c, uint64_t v, char out[24])
{
    unsigned unused = 64 - 8 * c->width;
    if (c->is_text)
        snprintf(out, 24, "-");
    else if (!c->is_signed)
        snprintf(out, 24, "%" PRIu64, v);
    else
        snprintf(out, 24, "%" PRId64,
                 (int64_t)((v ^ UINT64_C(1) << (63 - unused)) << unused) >> unused);
}

static void write_name(const struct tabling *d, const struct page *p, uint32_t i, char out[40])
{
    uint32_t keys = p->page.key_fields, column = i - keys;
    bool named = d->columns && p->rows && i >= keys && column < lladd_ctable_columns(d->columns);
    if (i < keys)
        snprintf(out, 40, "key %" PRIu32, i);
    else if (named)
        snprintf(out, 40, "%s", lladd_ctable_column_name(d->columns, column));
    else
        snprintf(out, 40, "%" PRIu32, column);
}

static void print_page(const struct tabling *d, const struct page *p)
{
    const struct lladd_multicolumn_page *q = &p->page;
    printf("run %" PRIu64 ", page %" PRIu64 " of %" PRIu64 ": %" PRIu32 " row%s from place %" PRIu64
           ", %" PRIu32 " tombstone%s\n",
           p->generation, p->number, p->of, q->rows, q->rows == 1 ? "" : "s", q->first,
           q->tombstones, q->tombstones == 1 ? "" : "s");
    printf("  %" PRIu32 " bytes, %" PRIu32 " in use, %.2f a row\n", q->bytes, q->used,
           (double)q->used / q->rows);
    if (q->key_bytes)
        printf("  keys of %" PRIu32 " bytes, not in columns\n", q->key_bytes);
    printf("  %-16s %-6s %-8s %8s %10s %8s %20s %20s\n", "column", "type", "codec", "bytes",
           "exceptions", "absent", "smallest", "largest");
    for (uint32_t i = 0; i < q->columns; i++) {
        const struct lladd_multicolumn_column *c = &p->columns[i];
        char name[40], type[16], min[24], max[24];
        write_name(d, p, i, name);
        write_type(c, type);
        write_number(c, c->min, min);
        write_number(c, c->max, max);
        printf("  %-16s %-6s %-8s %8" PRIu32 " %10" PRIu32 " %8" PRIu32 " %20s %20s\n", name, type,
               c->codec, c->segment, c->exceptions, c->absent, min, max);
    }
}

static json_t *json_column(const struct tabling *d, const struct page *p, uint32_t i)
{
    const struct lladd_multicolumn_column *c = &p->columns[i];
    char name[40], type[16], text[24];
    write_name(d, p, i, name);
    write_type(c, type);
    json_t *o = json_pack("{s:o, s:b, s:s, s:s, s:I, s:I, s:I}", "name", tool_json_text(name),
                          "key", (int)c->is_key, "type", type, "codec", c->codec, "bytes",
                          (json_int_t)c->segment, "exception_bytes", (json_int_t)c->exceptions,
                          "absent", (json_int_t)c->absent);
    if (!c->is_text) {
        write_number(c, c->min, text);
        json_object_set_new(o, "smallest", json_string(text));
        write_number(c, c->max, text);
        json_object_set_new(o, "largest", json_string(text));
    }
    return o;
}

static void print_json(const struct tabling *d, const struct page *p)
{
    const struct lladd_multicolumn_page *q = &p->page;
    json_t *columns = json_array();
    for (uint32_t i = 0; i < q->columns; i++)
        json_array_append_new(columns, json_column(d, p, i));
    json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:o}", "run",
                          tool_json_u64(p->generation), "page", tool_json_u64(p->number), "pages",
                          tool_json_u64(p->of), "first", tool_json_u64(q->first), "rows",
                          (json_int_t)q->rows, "tombstones", (json_int_t)q->tombstones, "bytes",
                          (json_int_t)q->bytes, "used", (json_int_t)q->used, "key_bytes",
                          (json_int_t)q->key_bytes, "columns", columns);
    tool_json_print(o, false);
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* Prints the page if it is in this run; otherwise subtracts the run's pages from *number. */
static int look(struct tabling *d, const struct lladd_managed_run *run, uint64_t *number,
                struct page *p, bool *found)
{
    struct lladd_dtable *t;
    int rc = lladd_dtable_run_open(d->db, run->root, &t, &d->err);
    if (rc)
        return rc;
    const struct lladd_dtable *layer = lladd_multicolumn_layer(t);
    p->of = layer ? lladd_multicolumn_pages(layer) : 0;
    *found = *number < p->of;
    if (*found) {
        p->generation = run->generation;
        p->number = *number;
        p->page.struct_size = sizeof p->page;
        p->rows = lladd_dtable_param_bool(layer->config, "rows");
        rc = lladd_multicolumn_page_get(layer, *number, &p->page, p->columns, COLUMNS_MOST,
                                        &d->err);
        if (!rc && d->t->json)
            print_json(d, p);
        else if (!rc)
            print_page(d, p);
    } else {
        *number -= p->of;
    }
    lladd_dtable_close(t);
    return rc;
}

int tabling_page(struct tabling *d)
{
    struct lladd_managed_stats s;
    struct lladd_managed_run *runs;
    const char *text = d->t->argv[1];
    char *end;
    bool found = false;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10), left = number;
    if (*text < '0' || *text > '9' || *end || errno)
        return lladd_error_set(&d->err, LLADD_BAD_ARGUMENT, "\"%s\" is not the number of a page",
                               text);
    struct page *p = calloc(1, sizeof *p);
    if (!p)
        return lladd_error_set(&d->err, LLADD_NO_MEMORY, "out of memory");
    int rc = tabling_runs(d, &s, &runs);
    for (size_t i = 0; !rc && runs && i < s.runs && !found; i++)
        rc = look(d, &runs[i], &left, p, &found);
    if (!rc && !found)
        rc = lladd_error_set(&d->err, LLADD_BAD_ARGUMENT,
                             "table \"%s\" has no page %" PRIu64 " of columns; it has %" PRIu64,
                             d->t->argv[0], number, number - left);
    free(p);
    free(runs);
    return rc;
}
