/* SPDX-License-Identifier: BSD-2-Clause */
/* See compose.h. */
#include "compose.h"

#include <stdlib.h>
#include <string.h>

static const char *const leaves[] = {
    "linear_dtable",
    "fixed_dtable",
    "fixed_dtable|\"value_size\" int 4",
    "array_dtable",
    "array_dtable|\"value_size\" int 5",
    ("array_dtable|\"tag_byte\" bool false \"hole_value\" string \"\\xfe\" "
     "\"tombstone_value\" blob ff"),
    "empty_dtable",
    "auto_dtable",
    "auto_dtable|\"encodings\" words [ \"numbers\" ]",
    "multicolumn_dtable",
    "multicolumn_dtable|\"columns\" words [ \"u8\" \"i32\" ]",
    "multicolumn_dtable|\"columns\" words [ \"i32\" \"text12\" \"u8\" \"u32\" ] "
    "\"rows\" bool true",
};
/* In a template, $ stands for a composition with one layer less, and @ for a leaf. The name of the
 * parameter follows the sign; in a list of layers no name follows. */
static const char *const layers[] = {
    "exception_dtable|$base @alt \"reject_value\" string \"_____\"",
    "exception_dtable|$base @alt \"reject_value\" blob ff000000",
    "exception_dtable|$base @alt \"reject_value\" string \"_\"",
    "exception_dtable|$base @alt \"reject_value\" blob 010000",
    "smallint_dtable|$base \"bytes\" int 1",
    "smallint_dtable|$base \"bytes\" int 3",
    "btree_dtable|$base",
    "bloom_dtable|$base",
    "bloom_dtable|$base \"bits_per_key\" int 1",
    "usstate_dtable|$base",
    "usstate_dtable|$base \"passthrough_value\" string \"_\"",
    "dictionary_dtable|$base \"values\" words [ \"\" \"CA\" \"_____\" \"\\xff\\0\\0\\0\" ]",
    "ustring_dtable|$base",
    "ustring_dtable|$base \"bytes\" int 0 \"window_bytes\" int 900",
    "ustring_dtable|$base \"bytes\" int 1",
    "deltaint_dtable|$base \"skip_count\" int 3",
    "cache_dtable|$base \"cache_size\" int 20",
    "compress_dtable|$base",
    "exist_dtable|$base @tombstones",
    "ranges_dtable|$base @ranges",
    "versions_dtable|$base @absent",
    "keydiv_dtable|$below @from \"divider\" int 1300",
    "keydiv_dtable|$below @from \"divider_bytes\" string \"000002000\"",
    "keydiv_dtable|@below $from \"divider\" int 1100",
    "column_dtable|$base \"groups\" layers [ @ class(dt) linear_dtable ] "
    "\"columns\" words [ \"0\" \"1 2\" ]",
    "column_dtable|@base \"groups\" layers [ $ class(dt) auto_dtable ] "
    "\"columns\" words [ \"0\" \"2 1\" ]",
    "column_dtable|\"base\" class(dt) linear_dtable \"groups\" layers [ "
    "class(dt) linear_dtable $ ] \"columns\" words [ \"2\" \"0 1\" ]",
};
enum {
    LEAVES = sizeof leaves / sizeof leaves[0],
    LAYERS = sizeof layers / sizeof layers[0],
};

static const char *template_of(const struct composition *c, unsigned level)
{
    return level + 1u == c->depth ? leaves[c->layer[level]] : layers[c->layer[level]];
}

static bool two_holes(const char *layer)
{
    return strchr(layer, '@') != NULL;
}

/* ---- text --------------------------------------------------------------------------------- */

struct out {
    char *text;
    size_t len;
};

static void put(struct out *o, const char *s, size_t n)
{
    if (n < COMPOSE_MAX - o->len) {
        memcpy(o->text + o->len, s, n);
        o->len += n;
        o->text[o->len] = 0;
    }
}
static void say(struct out *o, const char *s)
{
    put(o, s, strlen(s));
}

static void write_level(struct out *, const char *slot, const struct composition *, unsigned level);

/* Writes the template as the parameter named `slot`, or as the next layer of a list. */
static void write_template(struct out *o, const char *slot, const char *what,
                           const struct composition *c, unsigned level)
{
    const char *bar = strchr(what, '|');
    if (*slot) {
        say(o, " \"");
        say(o, slot);
        say(o, "\"");
    }
    say(o, " class(dt) ");
    put(o, what, bar ? (size_t)(bar - what) : strlen(what));
    if (!bar)
        return;
    if (*slot) {
        say(o, " \"");
        say(o, slot);
        say(o, "_config\"");
    }
    say(o, " config [ ");
    for (const char *p = bar + 1; *p; p++) {
        char name[16] = "";
        char hole = *p;
        if (hole == '$' || hole == '@') {
            size_t n = strcspn(p + 1, " ");
            memcpy(name, p + 1, n < sizeof name ? n : 0);
            p += n;
        }
        if (hole == '$')
            write_level(o, name, c, level + 1);
        else if (hole == '@')
            write_template(o, name, leaves[c->beside[level]], c, level);
        else
            put(o, p, 1);
    }
    say(o, " ]");
}

static void write_level(struct out *o, const char *slot, const struct composition *c,
                        unsigned level)
{
    write_template(o, slot, template_of(c, level), c, level);
}

void compose_text(const struct composition *c, char text[COMPOSE_MAX])
{
    struct out o = {text, 0};
    text[0] = 0;
    say(&o, "config [");
    write_level(&o, "base", c, 0);
    say(&o, " ]");
}

/* ---- counts ------------------------------------------------------------------------------- */

static uint64_t tops(void)
{
    uint64_t n = 0;
    for (size_t i = 0; i < LAYERS; i++)
        n += two_holes(layers[i]) ? LEAVES : 1;
    return n;
}

uint64_t compose_count(const struct compositions *below)
{
    return below->n ? below->n * tops() : LEAVES;
}

struct composition compose_at(const struct compositions *below, uint64_t i)
{
    struct composition c = {.depth = 1};
    if (below->n == 0) {
        c.layer[0] = (unsigned char)i;
        return c;
    }
    const struct composition *b = &below->all[i % below->n];
    uint64_t top = i / below->n;
    c.depth = (unsigned char)(b->depth + 1);
    memcpy(c.layer + 1, b->layer, COMPOSE_DEPTH - 1);
    memcpy(c.beside + 1, b->beside, COMPOSE_DEPTH - 1);
    for (unsigned k = 0;; k++) {
        unsigned n = two_holes(layers[k]) ? LEAVES : 1;
        if (top < n) {
            c.layer[0] = (unsigned char)k;
            c.beside[0] = (unsigned char)top;
            return c;
        }
        top -= n;
    }
}

void compose_add(struct compositions *to, const struct composition *c)
{
    if (to->n == to->cap) {
        to->cap = to->cap ? to->cap * 2 : 1024;
        struct composition *all = realloc(to->all, to->cap * sizeof *all);
        if (!all)
            abort();
        to->all = all;
    }
    to->all[to->n++] = *c;
}

void compose_free(struct compositions *c)
{
    free(c->all);
    *c = (struct compositions){NULL, 0, 0};
}

/* ---- classes ------------------------------------------------------------------------------ */

static const char *numbered(unsigned i)
{
    return i < LEAVES ? leaves[i] : layers[i - LEAVES];
}

static bool of_class(const char *template, const char *name, size_t len)
{
    return strncmp(template, name, len) == 0 && (template[len] == '|' || template[len] == 0);
}

unsigned compose_templates(void)
{
    return LEAVES + LAYERS;
}

void compose_class_name(unsigned template, char name[64])
{
    size_t len = strcspn(numbered(template), "|");
    memcpy(name, numbered(template), len);
    name[len] = 0;
}

unsigned compose_template(const struct composition *c, unsigned level)
{
    return level + 1u == c->depth ? c->layer[level] : LEAVES + c->layer[level];
}

bool compose_has(const struct composition *c, const char *class_name)
{
    for (unsigned i = 0; i < c->depth; i++)
        if (of_class(template_of(c, i), class_name, strlen(class_name)))
            return true;
    return false;
}
