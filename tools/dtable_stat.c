/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd dtable stat: what a managed table is made of, as text, as JSON, and as a drawing. */
#include "dtable.h"

#include <inttypes.h>
#include <lladd/dtable_class.h>
#include <stdlib.h>
#include <string.h>

struct stats {
    struct lladd_managed_stats s;
    struct lladd_managed_run *runs;
    size_t n;
};

static int take(struct tabling *d, struct stats *out)
{
    *out = (struct stats){.s = {.struct_size = sizeof out->s}};
    int rc = lladd_managed_stats(d->table, &out->s, NULL, 0, &d->err);
    if (rc || !out->s.runs)
        return rc;
    out->n = (size_t)out->s.runs;
    out->runs = calloc(out->n, sizeof *out->runs);
    if (!out->runs)
        return lladd_error_set(&d->err, LLADD_NO_MEMORY, "out of memory");
    rc = lladd_managed_stats(d->table, &out->s, out->runs, out->n, &d->err);
    if (rc)
        free(out->runs);
    return rc;
}

/* ---- filters --------------------------------------------------------------------------------- */

/* The layer of a class in a run; NULL. */
static const struct lladd_dtable *layer(const struct lladd_dtable *t, const char *class_name)
{
    if (strcmp(t->kind->name, class_name) == 0)
        return t;
    for (const struct lladd_dtable_param *p = t->kind->params; p && p->type; p++) {
        const struct lladd_dtable *below;
        for (size_t i = 0; (below = lladd_dtable_layer(t, p->name, i)) != NULL; i++) {
            const struct lladd_dtable *found = layer(below, class_name);
            if (found)
                return found;
        }
    }
    return NULL;
}

/* Bits a key of the run's Bloom filter; 0: it has none. */
static int64_t filter_bits(const struct lladd_dtable *run)
{
    const struct lladd_dtable *bloom = layer(run, "bloom_dtable");
    return bloom ? lladd_dtable_param_int(bloom->config, "bits_per_key") : 0;
}

/* ---- as text --------------------------------------------------------------------------------- */

static void print_run(const struct lladd_managed_run *r, const struct lladd_dtable *t)
{
    char bytes[24];
    int64_t bits = filter_bits(t);
    printf("  run %-10" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12s  %s", r->generation, r->rows,
           r->tombstones, tool_bytes(r->bytes, bytes), t->kind->name);
    if (bits)
        printf(", filter of %" PRId64 " bits a key", bits);
    printf("\n");
}

static json_t *json_run(const struct lladd_managed_run *r, const struct lladd_dtable *t,
                        const char *config)
{
    json_t *o = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "generation", tool_json_u64(r->generation), "root",
        tool_json_u64(r->root.v), "rows", tool_json_u64(r->rows), "tombstones",
        tool_json_u64(r->tombstones), "bytes", tool_json_u64(r->bytes), "pages",
        tool_json_u64(r->pages), "config", config);
    if (filter_bits(t))
        json_object_set_new(o, "filter_bits_per_key", json_integer(filter_bits(t)));
    return o;
}

static int each_run(struct tabling *d, const struct stats *s, json_t *list)
{
    for (size_t i = 0; i < s->n; i++) {
        struct lladd_dtable_run_info info = {.struct_size = sizeof info};
        struct lladd_dtable *t;
        int rc = lladd_dtable_run_open(d->db, s->runs[i].root, &t, &d->err);
        if (rc)
            return rc;
        rc = lladd_dtable_run_info(t, &info, &d->err);
        if (!rc && list)
            rc = json_array_append_new(list, json_run(&s->runs[i], t, info.config))
                     ? lladd_error_set(&d->err, LLADD_NO_MEMORY, "out of memory")
                     : 0;
        else if (!rc)
            print_run(&s->runs[i], t);
        lladd_dtable_close(t);
        if (rc)
            return rc;
    }
    return 0;
}

static int print_text(struct tabling *d, const char *name, const struct stats *s)
{
    char bytes[24];
    printf("\"%s\": keys %s, %" PRIu64 " digest%s, %" PRIu64 " combine%s\n", name,
           lladd_dtable_type_name(lladd_dtable_key_type(d->rows)), s->s.digests,
           s->s.digests == 1 ? "" : "s", s->s.combines, s->s.combines == 1 ? "" : "s");
    printf("  %-14s %12s %12s %12s\n", "", "rows", "tombstones", "bytes");
    printf("  %-14s %12" PRIu64 " %12s %12s\n", "not digested", s->s.pending_rows, "",
           tool_bytes(s->s.pending_bytes, bytes));
    return each_run(d, s, NULL);
}

static int print_json(struct tabling *d, const char *name, const struct stats *s)
{
    json_t *runs = json_array();
    int rc = each_run(d, s, runs);
    if (rc) {
        json_decref(runs);
        return rc;
    }
    tool_json_print(
        json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", tool_json_text(name), "keys",
                  lladd_dtable_type_name(lladd_dtable_key_type(d->rows)), "pending_rows",
                  tool_json_u64(s->s.pending_rows), "pending_bytes",
                  tool_json_u64(s->s.pending_bytes), "digests", tool_json_u64(s->s.digests),
                  "combines", tool_json_u64(s->s.combines), "doomed", tool_json_u64(s->s.doomed),
                  "runs", runs),
        false);
    return 0;
}

int tabling_stat(struct tabling *d, const char *name)
{
    struct stats s;
    int rc = take(d, &s);
    if (rc)
        return rc;
    rc = d->t->json ? print_json(d, name, &s) : print_text(d, name, &s);
    free(s.runs);
    return rc;
}

/* ---- drawn ----------------------------------------------------------------------------------- */

void tabling_graph_begin(void)
{
    printf("digraph dtables {\n  node [shape=box, fontname=\"sans-serif\"];\n"
           "  edge [fontname=\"sans-serif\"];\n");
}

void tabling_graph_end(void)
{
    printf("}\n");
}

/* Text within quotation marks. */
static void draw_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < ' ' ? '?' : *text);
    }
}

/* A layer and those below it; returns its number among the run's nodes. */
static unsigned draw_layer(const struct lladd_dtable *t, uint64_t run, unsigned *nodes)
{
    unsigned number = (*nodes)++;
    printf("  \"run %" PRIu64 " layer %u\" [label=\"%s", run, number, t->kind->name);
    for (const struct lladd_dtable_param *p = t->kind->params; p && p->type; p++) {
        if (p->type == LLADD_DTABLE_PARAM_INT)
            printf("\\n%s %" PRId64, p->name, lladd_dtable_param_int(t->config, p->name));
        else if (p->type == LLADD_DTABLE_PARAM_BOOL)
            printf("\\n%s %s", p->name,
                   lladd_dtable_param_bool(t->config, p->name) ? "true" : "false");
    }
    printf("\"];\n");
    for (const struct lladd_dtable_param *p = t->kind->params; p && p->type; p++) {
        const struct lladd_dtable *below;
        for (size_t i = 0; (below = lladd_dtable_layer(t, p->name, i)) != NULL; i++)
            printf("  \"run %" PRIu64 " layer %u\" -> \"run %" PRIu64
                   " layer %u\" [label=\"%s\"];\n",
                   run, number, run, draw_layer(below, run, nodes), p->name);
    }
    return number;
}

static int draw_run(struct tabling *d, const char *name, const struct lladd_managed_run *r)
{
    struct lladd_dtable *t;
    char bytes[24];
    unsigned nodes = 0;
    int rc = lladd_dtable_run_open(d->db, r->root, &t, &d->err);
    if (rc)
        return rc;
    printf("  \"");
    draw_text(name);
    printf("\" -> \"run %" PRIu64 "\";\n  \"run %" PRIu64 "\" [label=\"run %" PRIu64 "\\n%" PRIu64
           " rows, %" PRIu64 " tombstones\\n%s\", shape=folder];\n",
           r->root.v, r->root.v, r->generation, r->rows, r->tombstones,
           tool_bytes(r->bytes, bytes));
    unsigned top = draw_layer(t, r->root.v, &nodes);
    printf("  \"run %" PRIu64 "\" -> \"run %" PRIu64 " layer %u\";\n", r->root.v, r->root.v, top);
    lladd_dtable_close(t);
    return 0;
}

int tabling_graph(struct tabling *d, const char *name)
{
    struct stats s;
    char bytes[24];
    int rc = take(d, &s);
    if (rc)
        return rc;
    printf("  \"");
    draw_text(name);
    printf("\" [label=\"");
    draw_text(name);
    printf("\\nmanaged, keys %s\\n%" PRIu64 " digests, %" PRIu64 " combines\", shape=ellipse];\n",
           lladd_dtable_type_name(lladd_dtable_key_type(d->rows)), s.s.digests, s.s.combines);
    printf("  \"memory ");
    draw_text(name);
    printf("\" [label=\"journal and memory\\n%" PRIu64 " rows\\n%s\", shape=note];\n  \"",
           s.s.pending_rows, tool_bytes(s.s.pending_bytes, bytes));
    draw_text(name);
    printf("\" -> \"memory ");
    draw_text(name);
    printf("\";\n");
    for (size_t i = 0; i < s.n && !rc; i++)
        rc = draw_run(d, name, &s.runs[i]);
    free(s.runs);
    return rc;
}
