/* SPDX-License-Identifier: BSD-2-Clause */
/* See pairs.h. The compositions are visited in a scattered order. Each valid composition that has a
 * new pair is used. */
#include "pairs.h"

enum { MET = UINT16_MAX };

/* A pair is two levels of a composition, with the template of each. */
struct pairs {
    unsigned depth, templates, patience;
    uint16_t *levels; /* for each pair: MET, or how many compositions with the pair were refused */
    /* For each template: the types of keys and the kinds of rows with which it was tried. */
    bool (*types)[SHAPE_TYPES], (*kinds)[SHAPE_KINDS];
};

/* ---- shapes ---------------------------------------------------------------------------------- */

struct shape shape_of(enum lladd_dtable_type type, unsigned kind)
{
    static const struct shape kinds[SHAPE_KINDS] = {
        {.rows = 0, .gap = 1},
        {.rows = 1, .first = 6, .gap = 1},
        {.rows = 120, .first = 0, .gap = 1},
        {.rows = 100, .first = 1000, .gap = 4, .tombstones = 7},
        {.rows = 40, .first = 4294967000, .gap = 4, .tombstones = 2},
        {.rows = 80, .first = 1100, .gap = 3, .tombstones = 5, .packed = true},
        {.rows = 60, .first = 100, .gap = 50},
    };
    struct shape s = kinds[kind];
    s.type = type;
    return s;
}

struct shape shape_for(const struct composition *c, enum lladd_dtable_type type, unsigned kind)
{
    struct shape s = shape_of(type, kind);
    char text[COMPOSE_MAX];
    compose_text(c, text);
    s.packed = s.packed || compose_has(c, "column_dtable") || strstr(text, "\"rows\" bool true");
    return s;
}

/* ---- compositions ---------------------------------------------------------------------------- */

bool pairs_admit(struct fixture *b, const struct composition *c, bool open, unsigned *types)
{
    struct lladd_dtable_config *config;
    char text[COMPOSE_MAX];
    compose_text(c, text);
    int rc = lladd_dtable_config_parse(b->db, text, &config, &b->err);
    if (rc) {
        ck_assert_msg(rc == LLADD_BAD_CONFIG, "%s: %s", text, b->err.message);
        return false;
    }
    *types = lladd_dtable_caps_get(config)->types;
    /* If a value in a column_dtable has another size than the first one, the run cannot be
     * finished. */
    bool settled = lladd_dtable_config_settled(config, &b->err) == 0;
    bool good = open ? settled || !compose_has(c, "column_dtable")
                     : settled && lladd_dtable_config_deletes(config, &b->err) == 0;
    lladd_dtable_config_free(config);
    return good;
}

struct compositions pairs_all(struct fixture *b, unsigned depth, bool open)
{
    struct compositions below = {NULL, 0, 0}, all = {NULL, 0, 0};
    unsigned types;
    if (depth > 1)
        below = pairs_all(b, depth - 1, true); /* the layer above may settle sizes */
    uint64_t n = compose_count(&below);
    for (uint64_t i = 0; i < n; i++) {
        struct composition c = compose_at(&below, i);
        if (pairs_admit(b, &c, open, &types))
            compose_add(&all, &c);
    }
    compose_free(&below);
    return all;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static uint16_t *pair(const struct pairs *p, const struct composition *c, unsigned i, unsigned k)
{
    size_t at = (size_t)i * p->depth + k;
    at = at * p->templates + compose_template(c, i);
    return &p->levels[at * p->templates + compose_template(c, k)];
}

/* True if the composition has a pair that was not met yet and was not given up. */
static bool wanted(const struct pairs *p, const struct composition *c)
{
    for (unsigned i = 0; i < c->depth; i++)
        for (unsigned k = i; k < c->depth; k++) {
            unsigned tries = *pair(p, c, i, k);
            if (tries != MET && (!p->patience || tries < p->patience))
                return true;
        }
    return false;
}

static void note(const struct pairs *p, const struct composition *c, bool admitted)
{
    for (unsigned i = 0; i < c->depth; i++)
        for (unsigned k = i; k < c->depth; k++) {
            uint16_t *tries = pair(p, c, i, k);
            if (*tries != MET)
                *tries = admitted ? MET : (uint16_t)(*tries + (*tries < MET - 1));
        }
}

static unsigned new_data(const struct pairs *p, const struct composition *c, unsigned type,
                         unsigned kind)
{
    unsigned n = 0;
    for (unsigned i = 0; i < c->depth; i++) {
        unsigned of = compose_template(c, i);
        n += (p->types[of][type] ? 0u : 1u) + (p->kinds[of][kind] ? 0u : 1u);
    }
    return n;
}

static void take(struct pairs *p, struct trials *t, const struct composition *c, unsigned types,
                 unsigned type, unsigned kind)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? t->cap * 2 : 256;
        t->all = realloc(t->all, t->cap * sizeof *t->all);
        ck_assert_ptr_nonnull(t->all);
    }
    t->all[t->n++] = (struct trial){*c, shape_for(c, LLADD_DTABLE_U32 + type, kind), types};
    for (unsigned i = 0; i < c->depth; i++) {
        unsigned of = compose_template(c, i);
        p->types[of][type] = p->kinds[of][kind] = true;
    }
}

/* Adds the composition to the selection, with the data that are new to most of its layers. If no
 * data are new to any layer, adds it only if `must` is true, with drawn data. */
static void take_best(struct pairs *p, struct trials *t, const struct composition *c,
                      unsigned types, uint64_t *random, bool must)
{
    unsigned best = 0, best_type = 0, best_kind = 0;
    uint64_t from = seeded_next(random);
    if (!types)
        return;
    for (unsigned k = 0; k < SHAPE_TYPES * SHAPE_KINDS; k++) {
        unsigned at = (unsigned)((from + k) % (SHAPE_TYPES * SHAPE_KINDS));
        unsigned type = at % SHAPE_TYPES, kind = at / SHAPE_TYPES;
        if (!(types & 1u << (LLADD_DTABLE_U32 + type)))
            continue;
        unsigned n = 1 + new_data(p, c, type, kind);
        if (n > best) {
            best = n;
            best_type = type;
            best_kind = kind;
        }
    }
    if (best > 1 || must)
        take(p, t, c, types, best_type, best_kind);
}

/* ---- the selection --------------------------------------------------------------------------- */

static void pairs_begin(struct pairs *p, unsigned depth, unsigned patience)
{
    size_t n = compose_templates();
    *p = (struct pairs){.depth = depth, .templates = (unsigned)n, .patience = patience};
    p->levels = calloc((size_t)depth * depth * n * n, sizeof *p->levels);
    p->types = calloc(n, sizeof *p->types);
    p->kinds = calloc(n, sizeof *p->kinds);
    ck_assert(p->levels && p->types && p->kinds);
}

/* Adds to *t the pairs that were met, and the pairs for which no valid composition was found. */
static void pairs_end(struct pairs *p, struct trials *t)
{
    size_t n = (size_t)p->depth * p->depth * p->templates * p->templates;
    for (size_t i = 0; i < n; i++) {
        t->met += p->levels[i] == MET;
        t->unmet += p->levels[i] != MET && p->levels[i] != 0;
    }
    for (unsigned i = 0; i < p->templates; i++) {
        bool any = false;
        size_t met = 0;
        for (unsigned k = 0; k < SHAPE_TYPES; k++)
            met += p->types[i][k];
        for (unsigned k = 0; k < SHAPE_KINDS; k++) {
            any = any || p->kinds[i][k];
            met += p->kinds[i][k];
        }
        t->met_data += met;
        t->unmet_data += any ? SHAPE_TYPES + SHAPE_KINDS - met : 0;
    }
    free(p->levels);
    free(p->types);
    free(p->kinds);
}

struct trials pairs_select(struct fixture *b, const struct compositions *below, bool open,
                           unsigned patience)
{
    enum { STRIDE = 1000003 }; /* a prime number that does not divide n, so all compositions are
                                * visited */
    struct trials t = {.all = NULL};
    struct pairs p;
    uint64_t n = compose_count(below), random = 1, at = 0;
    unsigned types = 0;
    ck_assert_uint_ne(n % STRIDE, 0);
    pairs_begin(&p, below->n ? below->all[0].depth + 1u : 1, patience);
    for (uint64_t i = 0; i < n; i++, at = (at + STRIDE) % n) {
        struct composition c = compose_at(below, at);
        if (!wanted(&p, &c))
            continue;
        bool admitted = pairs_admit(b, &c, open, &types);
        note(&p, &c, admitted);
        t.refused += !admitted;
        if (admitted)
            take_best(&p, &t, &c, types, &random, true);
    }
    for (size_t i = 0, first = t.n; i < first; i++) { /* takes each composition again, with data
                                                       * that are new to its layers */
        struct trial one = t.all[i];
        for (unsigned k = 0; k < SHAPE_TYPES + SHAPE_KINDS; k++)
            take_best(&p, &t, &one.what, one.types, &random, false);
    }
    pairs_end(&p, &t);
    return t;
}

void pairs_free(struct trials *t)
{
    free(t->all);
    t->all = NULL;
}

bool pairs_draw(struct fixture *b, const struct composition *c, bool open, uint64_t *random,
                struct trial *out)
{
    unsigned types = 0, at = (unsigned)(seeded_next(random) % (SHAPE_TYPES * SHAPE_KINDS));
    if (!pairs_admit(b, c, open, &types) || !types)
        return false;
    while (!(types & 1u << (LLADD_DTABLE_U32 + at % SHAPE_TYPES)))
        at++;
    *out = (struct trial){
        *c, shape_for(c, LLADD_DTABLE_U32 + at % SHAPE_TYPES, at / SHAPE_TYPES % SHAPE_KINDS),
        types};
    return true;
}
