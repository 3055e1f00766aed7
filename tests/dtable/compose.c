/* SPDX-License-Identifier: BSD-2-Clause */
/* See compose.h. A composition is a number: the template, then those of its holes. */
#include "compose.h"

#include <stdio.h>
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
};
/* $: a table of the depth below; @: another one beside it, a leaf. Their names follow. */
static const char *const layers[] = {
    "exception_dtable|$base @alt \"reject_value\" string \"_____\"",
    "exception_dtable|$base @alt \"reject_value\" blob ff000000",
    "exception_dtable|$base @alt \"reject_value\" string \"_\"",
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
    "keydiv_dtable|$below @from \"divider\" int 1300",
    "keydiv_dtable|$below @from \"divider_bytes\" string \"000002000\"",
};
enum {
    LEAVES = sizeof leaves / sizeof leaves[0],
    LAYERS = sizeof layers / sizeof layers[0],
};

static bool two_holes(const char *layer)
{
    return strchr(layer, '@') != NULL;
}

static uint64_t count(unsigned depth)
{
    uint64_t n = 0, below = depth > 1 ? count(depth - 1) : 0;
    if (depth == 1)
        return LEAVES;
    for (size_t i = 0; i < LAYERS; i++)
        n += below * (two_holes(layers[i]) ? LEAVES : 1);
    return n;
}

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

static void write_layer(struct out *, const char *slot, unsigned depth, uint64_t which);

static void write_template(struct out *o, const char *slot, const char *what, unsigned depth,
                           uint64_t below, uint64_t beside)
{
    const char *bar = strchr(what, '|');
    say(o, " \"");
    say(o, slot);
    say(o, "\" class(dt) ");
    put(o, what, bar ? (size_t)(bar - what) : strlen(what));
    if (!bar)
        return;
    say(o, " \"");
    say(o, slot);
    say(o, "_config\" config [ ");
    for (const char *p = bar + 1; *p; p++) {
        char name[16] = "";
        char hole = *p;
        if (hole == '$' || hole == '@') {
            size_t n = strcspn(p + 1, " ");
            memcpy(name, p + 1, n < sizeof name ? n : 0);
            p += n;
        }
        if (hole == '$')
            write_layer(o, name, depth - 1, below);
        else if (hole == '@')
            write_layer(o, name, 1, beside);
        else
            put(o, p, 1);
    }
    say(o, " ]");
}

static void write_layer(struct out *o, const char *slot, unsigned depth, uint64_t which)
{
    if (depth == 1) {
        write_template(o, slot, leaves[which % LEAVES], 1, 0, 0);
        return;
    }
    uint64_t below = count(depth - 1);
    for (size_t i = 0; i < LAYERS; i++) {
        uint64_t n = below * (two_holes(layers[i]) ? LEAVES : 1);
        if (which < n) {
            write_template(o, slot, layers[i], depth, which % below, which / below);
            return;
        }
        which -= n;
    }
}

void compose_begin(struct composer *c, unsigned depth)
{
    *c = (struct composer){.depth = depth, .n = count(depth)};
}

bool compose_next(struct composer *c, char text[COMPOSE_MAX])
{
    struct out o = {text, 0};
    if (c->at == c->n)
        return false;
    text[0] = 0;
    say(&o, "config [");
    write_layer(&o, "base", c->depth, c->at++);
    say(&o, " ]");
    return true;
}
