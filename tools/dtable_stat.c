/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd dtable stat: the parts and sizes of a managed table, as text, as JSON, and as a graph. */
#include "dtable.h"

#include <inttypes.h>
#include <lladd/dtable_class.h>
#include <lladd/extension.h>
#include <stdlib.h>
#include <string.h>

struct stats {
    struct lladd_managed_stats s;
    struct lladd_managed_run *runs;
    size_t n;
};

int tabling_runs(struct tabling *d, struct lladd_managed_stats *s, struct lladd_managed_run **runs)
{
    *s = (struct lladd_managed_stats){.struct_size = sizeof *s};
    *runs = NULL;
    int rc = lladd_managed_stats_get(d->table, s, NULL, 0, &d->err);
    if (rc || !s->runs)
        return rc;
    size_t n = (size_t)s->runs;
    *runs = calloc(n, sizeof **runs);
    if (!*runs)
        return lladd_error_set(&d->err, LLADD_NO_MEMORY, "out of memory");
    rc = lladd_managed_stats_get(d->table, s, *runs, n, &d->err);
    if (rc) {
        free(*runs);
        *runs = NULL;
    }
    return rc;
}

static int take(struct tabling *d, struct stats *out)
{
    int rc = tabling_runs(d, &out->s, &out->runs);
    out->n = out->runs ? (size_t)out->s.runs : 0;
    return rc;
}

/* ---- filters --------------------------------------------------------------------------------- */

/* Returns the first filter among the layers of a sorted run; NULL: none. */
static const struct lladd_dtable *filter_of(const struct lladd_dtable *t)
{
    if (t->kind->may_have)
        return t;
    for (const struct lladd_dtable_param *p = t->kind->params; p && p->type; p++) {
        const struct lladd_dtable *below;
        for (size_t i = 0; (below = lladd_dtable_layer(t, p->name, i)) != NULL; i++) {
            const struct lladd_dtable *found = filter_of(below);
            if (found)
                return found;
        }
    }
    return NULL;
}

/* The effect of a filter, measured with absent keys that lie between the table's keys. */
struct filter {
    int64_t bits; /* bits per key; 0: the table has no filter */
    uint64_t asked, passed;
};
enum { PROBES = 4096, TRIES = 4 * PROBES };

static uint64_t drawn(uint64_t *random)
{
    uint64_t x = *random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static int probe(const struct lladd_dtable *filter, const struct lladd_dtable_key *key,
                 struct lladd_dtable_pin *pin, struct filter *out, struct lladd_error *err)
{
    struct lladd_dtable_value v;
    int rc = lladd_dtable_lookup(filter->base, key, pin, &v, err);
    if (rc || v.state != LLADD_DTABLE_ABSENT)
        return rc;
    out->asked++;
    out->passed += filter->kind->may_have(filter, key);
    return 0;
}

/* Asks the filter for a row's key with one more byte. In most orders this longer key follows the
 * row's key directly, so it is seldom the key of a row. */
static int probe_next(const struct lladd_dtable *filter, const struct lladd_dtable_key *key,
                        struct lladd_dtable_pin *pin, struct filter *out, struct lladd_error *err)
{
    unsigned char bytes[LLADD_DTABLE_KEY_MAX];
    struct lladd_dtable_key next = *key;
    if (key->bytes.len >= sizeof bytes)
        return 0;
    if (key->bytes.len)
        memcpy(bytes, key->bytes.data, key->bytes.len);
    bytes[key->bytes.len] = 1;
    next.bytes = (struct lladd_span){bytes, key->bytes.len + 1};
    return probe(filter, &next, pin, out, err);
}

static int probe_bytes(const struct lladd_dtable *filter, uint64_t rows,
                       struct lladd_dtable_pin *pin, struct filter *out, struct lladd_error *err)
{
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key;
    uint64_t step = rows / PROBES + 1, at = 0;
    int rc = lladd_dtable_cursor_open(filter->base, LLADD_DTABLE_TOMBSTONES, &c, err);
    if (rc)
        return rc;
    for (rc = lladd_dtable_first(c, err); !rc; rc = lladd_dtable_next(c, err)) {
        if (at++ % step)
            continue;
        rc = lladd_dtable_row(c, &key, NULL, err);
        if (!rc)
            rc = probe_next(filter, &key, pin, out, err);
        if (rc)
            break;
    }
    lladd_dtable_cursor_close(c);
    return rc == LLADD_END ? 0 : rc;
}

static int probe_numbers(const struct lladd_dtable *filter, const struct lladd_dtable_run_info *i,
                         struct lladd_dtable_pin *pin, struct filter *out, struct lladd_error *err)
{
    struct lladd_dtable_key key = i->min;
    uint64_t between = i->max.number - i->min.number, random = 1;
    int rc = 0;
    for (unsigned n = 0; between && n < TRIES && out->asked < PROBES && !rc; n++) {
        key.number = i->min.number + drawn(&random) % between;
        rc = probe(filter, &key, pin, out, err);
    }
    return rc;
}

static int measure(const struct lladd_dtable *run, const struct lladd_dtable_run_info *info,
                   struct filter *out, struct lladd_error *err)
{
    const struct lladd_dtable *filter = filter_of(run);
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    *out = (struct filter){.bits = 0};
    if (!filter || !filter->base)
        return 0;
    out->bits = lladd_dtable_param_int(filter->config, "bits_per_key");
    int rc = info->rows == 0                    ? 0
             : info->type >= LLADD_DTABLE_STRING ? probe_bytes(filter, info->rows, &pin, out, err)
                                                 : probe_numbers(filter, info, &pin, out, err);
    lladd_dtable_unpin(&pin);
    return rc;
}

static double answered(const struct filter *f)
{
    return f->asked ? 100.0 * (double)(f->asked - f->passed) / (double)f->asked : 0;
}

/* ---- as text --------------------------------------------------------------------------------- */

static void print_run(const struct lladd_managed_run *r, const struct lladd_dtable *t,
                      const struct filter *f)
{
    char bytes[24];
    printf("  run %-10" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12s  %s", r->generation, r->rows,
           r->tombstones, tool_bytes(r->bytes, bytes), t->kind->name);
    if (f->bits)
        printf(", filter of %" PRId64 " bits a key", f->bits);
    if (f->asked)
        printf(", answers %.1f %% of %" PRIu64 " absent keys", answered(f), f->asked);
    if (r->ranges)
        printf(", %" PRIu64 " range%s deleted", r->ranges, r->ranges == 1 ? "" : "s");
    printf("\n");
}

static json_t *json_run(const struct lladd_managed_run *r, const struct filter *f,
                        const char *config)
{
    json_t *o = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "generation", tool_json_u64(r->generation), "root",
        tool_json_u64(r->root.v), "rows", tool_json_u64(r->rows), "tombstones",
        tool_json_u64(r->tombstones), "bytes", tool_json_u64(r->bytes), "pages",
        tool_json_u64(r->pages), "config", config);
    if (f->bits) {
        json_object_set_new(o, "filter_bits_per_key", json_integer(f->bits));
        json_object_set_new(o, "filter_probed_absent", tool_json_u64(f->asked));
        json_object_set_new(o, "filter_let_pass", tool_json_u64(f->passed));
    }
    if (r->ranges)
        json_object_set_new(o, "ranges", tool_json_u64(r->ranges));
    return o;
}

static int each_run(struct tabling *d, const struct stats *s, json_t *list)
{
    for (size_t i = 0; i < s->n; i++) {
        struct lladd_dtable_run_info info = {.struct_size = sizeof info};
        struct filter f = {.bits = 0};
        struct lladd_dtable *t;
        int rc = lladd_dtable_run_open(d->db, s->runs[i].root, &t, &d->err);
        if (rc)
            return rc;
        rc = lladd_dtable_run_info_get(t, &info, &d->err);
        if (!rc)
            rc = measure(t, &info, &f, &d->err);
        if (!rc && list)
            rc = json_array_append_new(list, json_run(&s->runs[i], &f, info.config))
                     ? lladd_error_set(&d->err, LLADD_NO_MEMORY, "out of memory")
                     : 0;
        else if (!rc)
            print_run(&s->runs[i], t, &f);
        lladd_dtable_close(t);
        if (rc)
            return rc;
    }
    return 0;
}

/* ", columns a, b" of a cTable. */
static void print_columns(const struct tabling *d, const char *before)
{
    size_t n = d->columns ? lladd_ctable_columns(d->columns) : 0;
    for (size_t i = 0; i < n; i++)
        printf("%s%s", i ? ", " : before, lladd_ctable_column_name(d->columns, (uint32_t)i));
}

static json_t *json_columns(const struct tabling *d)
{
    json_t *all = json_array();
    for (size_t i = 0; i < lladd_ctable_columns(d->columns); i++)
        json_array_append_new(
            all, tool_json_text(lladd_ctable_column_name(d->columns, (uint32_t)i)));
    return all;
}

/* ---- settings -------------------------------------------------------------------------------- */

static const char *const schedules[] = {"ruler", "tiered", "never", "levels"};

int tabling_writable(struct tabling *d, const char *name)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char *strings;
    int rc = lladd_managed_settings(d->table, &o, &strings, &d->err);
    if (rc)
        return rc;
    lladd_mem_free(d->db, strings);
    if (o.flags & LLADD_MANAGED_UNLOGGED)
        return lladd_error_set(&d->err, LLADD_BAD_STATE,
                               "table \"%s\" is unlogged: only the program that has the source of "
                               "its rows can change it",
                               name);
    return 0;
}

static int print_position(struct tabling *d)
{
    struct lladd_managed_position p;
    int rc = lladd_managed_position_get(d->table, false, &p, &d->err);
    if (!rc)
        printf("  unlogged; has the source's transactions up to %" PRIu64
               ", the others begin at %" PRIu64 "\n",
               p.commit, p.from);
    return rc;
}

static int print_settings(struct tabling *d)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char bytes[24], *strings;
    int rc = lladd_managed_settings(d->table, &o, &strings, &d->err);
    if (rc)
        return rc;
    printf("  schedule %s, every %" PRIu32 "; digest after %s", schedules[o.schedule], o.every,
           tool_bytes(o.memory_bytes, bytes));
    if (o.rows)
        printf(", %" PRIu64 " rows", o.rows);
    if (o.interval_ns)
        printf(", %g s", (double)o.interval_ns / 1e9);
    if (o.block_bytes)
        printf("; blocks of %s", tool_bytes(o.block_bytes, bytes));
    printf("\n");
    lladd_mem_free(d->db, strings);
    return o.flags & LLADD_MANAGED_UNLOGGED ? print_position(d) : 0;
}

/* A configuration, or null. */
static json_t *json_config(const char *text)
{
    return text ? tool_json_text(text) : json_null();
}

static int json_settings(struct tabling *d, json_t **out)
{
    struct lladd_managed_options o = LLADD_MANAGED_OPTIONS_INIT;
    char *strings;
    int rc = lladd_managed_settings(d->table, &o, &strings, &d->err);
    if (rc)
        return rc;
    *out = json_pack("{s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:I, s:b}", "schedule",
                     schedules[o.schedule],
                     "every", (json_int_t)o.every, "memory_bytes", tool_json_u64(o.memory_bytes),
                     "rows", tool_json_u64(o.rows), "interval_ns", tool_json_u64(o.interval_ns),
                     "config", json_config(o.config), "combine_config",
                     json_config(o.combine_config), "block_bytes", (json_int_t)o.block_bytes,
                     "unlogged", (o.flags & LLADD_MANAGED_UNLOGGED) != 0);
    lladd_mem_free(d->db, strings);
    return 0;
}

/* The position of an unlogged table; of others, NULL. */
static int json_position(struct tabling *d, const json_t *settings, json_t **out)
{
    struct lladd_managed_position p;
    *out = NULL;
    if (!json_is_true(json_object_get(settings, "unlogged")))
        return 0;
    int rc = lladd_managed_position_get(d->table, false, &p, &d->err);
    if (!rc)
        *out = json_pack("{s:o, s:o}", "commit", tool_json_u64(p.commit), "from",
                         tool_json_u64(p.from));
    return rc;
}

/* ---- levels ---------------------------------------------------------------------------------- */

/* The bytes of the components of a table with the schedule of levels. */
struct levels {
    uint64_t front, frozen;   /* C0; frozen: the rows that a digest in progress takes */
    uint64_t c1, merging, c2; /* merging: C1', which a combine merges into C2 */
};

/* False: the table has another schedule. A lone run is C2 if a digest would not absorb it, because
 * it has more than twice the bytes at which C1 is combined. */
static bool levels_of(const struct stats *s, struct levels *out)
{
    if (!s->s.level_bytes)
        return false;
    bool alone = s->n == 1 && s->runs[0].bytes <= 2 * s->s.level_bytes;
    *out = (struct levels){.front = s->s.pending_bytes - s->s.frozen_bytes,
                           .frozen = s->s.frozen_bytes};
    for (size_t i = 0; i < s->n; i++) {
        bool last = i + 1 == s->n && !alone;
        *(last ? &out->c2 : i ? &out->merging : &out->c1) += s->runs[i].bytes;
    }
    return true;
}

static void print_levels(const struct stats *s)
{
    char front[24], frozen[24], c1[24], merging[24], c2[24], full[24];
    struct levels l;
    if (levels_of(s, &l))
        printf("  C0 %s (frozen %s), C1 %s, C1' %s, C2 %s; C1 is combined at %s\n",
               tool_bytes(l.front, front), tool_bytes(l.frozen, frozen), tool_bytes(l.c1, c1),
               tool_bytes(l.merging, merging), tool_bytes(l.c2, c2),
               tool_bytes(s->s.level_bytes, full));
}

static json_t *json_levels(const struct stats *s, const struct levels *l)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "c0_front", tool_json_u64(l->front),
                     "c0_frozen", tool_json_u64(l->frozen), "c1", tool_json_u64(l->c1),
                     "c1_merging", tool_json_u64(l->merging), "c2", tool_json_u64(l->c2),
                     "level_bytes", tool_json_u64(s->s.level_bytes));
}

/* ---- entry points ---------------------------------------------------------------------------- */

static int print_text(struct tabling *d, const char *name, const struct stats *s)
{
    char bytes[24];
    printf("\"%s\": keys %s, %" PRIu64 " digest%s, %" PRIu64 " combine%s\n", name,
           lladd_dtable_type_name(lladd_dtable_key_type(d->rows)), s->s.digests,
           s->s.digests == 1 ? "" : "s", s->s.combines, s->s.combines == 1 ? "" : "s");
    print_columns(d, "  columns ");
    if (d->columns)
        printf("\n");
    int rc = print_settings(d);
    if (rc)
        return rc;
    print_levels(s);
    if (s->s.obsolete) /* open snapshots end with their process, so no reader has them */
        printf("  %" PRIu64 " obsolete run%s, to be freed by maintain\n", s->s.obsolete,
               s->s.obsolete == 1 ? "" : "s");
    printf("  %-14s %12s %12s %12s\n", "", "rows", "tombstones", "bytes");
    printf("  %-14s %12" PRIu64 " %12s %12s\n", "not digested", s->s.pending_rows, "",
           tool_bytes(s->s.pending_bytes, bytes));
    return each_run(d, s, NULL);
}

static int print_json(struct tabling *d, const char *name, const struct stats *s)
{
    json_t *runs = json_array(), *settings = NULL, *position = NULL;
    struct levels levels;
    int rc = each_run(d, s, runs);
    if (!rc)
        rc = json_settings(d, &settings);
    if (!rc)
        rc = json_position(d, settings, &position);
    if (rc) {
        json_decref(runs);
        json_decref(settings);
        return rc;
    }
    json_t *o =
        json_pack("{s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "name", tool_json_text(name), "keys",
                  lladd_dtable_type_name(lladd_dtable_key_type(d->rows)), "pending_rows",
                  tool_json_u64(s->s.pending_rows), "pending_bytes",
                  tool_json_u64(s->s.pending_bytes), "digests", tool_json_u64(s->s.digests),
                  "combines", tool_json_u64(s->s.combines), "doomed", tool_json_u64(s->s.obsolete),
                  "runs", runs);
    json_object_set_new(o, "settings", settings);
    if (position)
        json_object_set_new(o, "position", position);
    if (levels_of(s, &levels))
        json_object_set_new(o, "levels", json_levels(s, &levels));
    if (d->columns)
        json_object_set_new(o, "columns", json_columns(d));
    tool_json_print(o, false);
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

/* ---- as a graph ------------------------------------------------------------------------------ */

void tabling_graph_begin(void)
{
    printf("digraph dtables {\n  node [shape=box, fontname=\"sans-serif\"];\n"
           "  edge [fontname=\"sans-serif\"];\n");
}

void tabling_graph_end(void)
{
    printf("}\n");
}

/* Writes text in quotation marks. */
static void draw_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < ' ' ? '?' : *text);
    }
}

static void draw_columns(const struct tabling *d)
{
    size_t n = d->columns ? lladd_ctable_columns(d->columns) : 0;
    for (size_t i = 0; i < n; i++) {
        printf("%s", i ? ", " : "\\ncolumns ");
        draw_text(lladd_ctable_column_name(d->columns, (uint32_t)i));
    }
}

/* Draws a layer and the layers below it; returns the layer's number among the run's nodes. */
static unsigned draw_layer(const struct lladd_dtable *t, uint64_t run, const struct filter *f,
                           unsigned *nodes)
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
    if (t->kind->may_have && f->asked)
        printf("\\nanswers %.1f %% of %" PRIu64 " absent keys", answered(f), f->asked);
    printf("\"];\n");
    for (const struct lladd_dtable_param *p = t->kind->params; p && p->type; p++) {
        const struct lladd_dtable *below;
        for (size_t i = 0; (below = lladd_dtable_layer(t, p->name, i)) != NULL; i++)
            printf("  \"run %" PRIu64 " layer %u\" -> \"run %" PRIu64
                   " layer %u\" [label=\"%s\"];\n",
                   run, number, run, draw_layer(below, run, f, nodes), p->name);
    }
    return number;
}

static int draw_run(struct tabling *d, const char *name, const struct lladd_managed_run *r)
{
    struct lladd_dtable_run_info info = {.struct_size = sizeof info};
    struct filter f = {.bits = 0};
    struct lladd_dtable *t;
    char bytes[24];
    unsigned nodes = 0;
    int rc = lladd_dtable_run_open(d->db, r->root, &t, &d->err);
    if (rc)
        return rc;
    rc = lladd_dtable_run_info_get(t, &info, &d->err);
    if (!rc)
        rc = measure(t, &info, &f, &d->err);
    if (rc) {
        lladd_dtable_close(t);
        return rc;
    }
    printf("  \"");
    draw_text(name);
    printf("\" -> \"run %" PRIu64 "\";\n  \"run %" PRIu64 "\" [label=\"run %" PRIu64 "\\n%" PRIu64
           " rows, %" PRIu64 " tombstones\\n%s\", shape=folder];\n",
           r->root.v, r->root.v, r->generation, r->rows, r->tombstones,
           tool_bytes(r->bytes, bytes));
    unsigned top = draw_layer(t, r->root.v, &f, &nodes);
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
    draw_columns(d);
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
