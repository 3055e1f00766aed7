/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes configurations as text, the parameters in the order of their class. Numbers and booleans
 * are written even if they are defaults, so that the text means the same in a later version of the
 * library with other defaults. */
#include "operations/dtables/core/dtable.h"

static int print_bytes(struct lladd_sink *s, const struct ll_dtable_word *w)
{
    int rc = lladd_sink_printf(s, "\"");
    for (size_t i = 0; i < w->len && !rc; i++) {
        unsigned char c = w->bytes[i];
        if (c == '"' || c == '\\')
            rc = lladd_sink_printf(s, "\\%c", c);
        else if (c >= ' ' && c < 127)
            rc = lladd_sink_printf(s, "%c", c);
        else
            rc = lladd_sink_printf(s, "\\x%02x", c);
    }
    return rc ? rc : lladd_sink_printf(s, "\"");
}

static int print_layer(struct lladd_sink *, const char *name, const struct lladd_dtable_config *);
static int print_layers(struct lladd_sink *, const char *name, const struct lladd_dtable_config *);

static int print_param(struct lladd_sink *s, const struct lladd_dtable_param *what,
                       const struct ll_dtable_param *p)
{
    int rc = 0;
    if (what->type == LLADD_DTABLE_PARAM_BOOL)
        return lladd_sink_printf(s, " \"%s\" bool %s", what->name, p->number ? "true" : "false");
    if (what->type == LLADD_DTABLE_PARAM_INT)
        return lladd_sink_printf(s, " \"%s\" int %lld", what->name, (long long)p->number);
    if (!p->set)
        return 0;
    if (what->type == LLADD_DTABLE_PARAM_CHILD)
        return print_layer(s, what->name, p->child);
    if (what->type == LLADD_DTABLE_PARAM_LAYERS)
        return print_layers(s, what->name, p->child);
    if (what->type == LLADD_DTABLE_PARAM_BYTES) {
        rc = lladd_sink_printf(s, " \"%s\" string ", what->name);
        return rc ? rc : print_bytes(s, &p->bytes);
    }
    rc = lladd_sink_printf(s, " \"%s\" words [", what->name);
    for (size_t i = 0; i < p->n_words; i++) {
        TRY(lladd_sink_printf(s, " "));
        TRY(print_bytes(s, &p->words[i]));
    }
    return lladd_sink_printf(s, " ]");
}

static int print_params(struct lladd_sink *s, const struct lladd_dtable_config *c)
{
    size_t n = ll_dtable__n_params(c->kind);
    int rc = lladd_sink_printf(s, " config [");
    for (size_t i = 0; i < n && !rc; i++)
        rc = print_param(s, &c->kind->params[i], &c->params[i]);
    return rc ? rc : lladd_sink_printf(s, " ]");
}

static int print_layer(struct lladd_sink *s, const char *name, const struct lladd_dtable_config *c)
{
    int rc = lladd_sink_printf(s, " \"%s\" class(dt) %s", name, c->kind->name);
    if (rc || ll_dtable__n_params(c->kind) == 0)
        return rc;
    rc = lladd_sink_printf(s, " \"%s_config\"", name);
    return rc ? rc : print_params(s, c);
}

/* Writes the layers in the short form, because layers of a list have no names. */
static int print_layers(struct lladd_sink *s, const char *name,
                        const struct lladd_dtable_config *first)
{
    int rc = lladd_sink_printf(s, " \"%s\" layers [", name);
    for (const struct lladd_dtable_config *c = first; c && !rc; c = c->next) {
        rc = lladd_sink_printf(s, " class(dt) %s", c->kind->name);
        if (!rc && ll_dtable__n_params(c->kind))
            rc = print_params(s, c);
    }
    return rc ? rc : lladd_sink_printf(s, " ]");
}

int lladd_dtable_config_print(const struct lladd_dtable_config *c, struct lladd_sink *s)
{
    TRY(lladd_check_process(c->db, NULL));
    TRY(lladd_sink_printf(s, "config ["));
    TRY(print_layer(s, "base", c));
    return lladd_sink_printf(s, " ]");
}

static int keep(void *ctx, const void *bytes, size_t len)
{
    return ll_dtable__append(ctx, bytes, len);
}

int lladd_dtable_config_text(const struct lladd_dtable_config *c, char **out,
                             struct lladd_error *err)
{
    struct ll_dtable_bytes b = {.db = c->db};
    struct lladd_sink sink = {.ctx = &b, .write = keep};
    TRY(lladd_check_process(c->db, err));
    if (lladd_dtable_config_print(c, &sink) || ll_dtable__append(&b, "", 1)) {
        lladd_mem_free(c->db, b.data);
        return ll_dtable__no_memory(err);
    }
    *out = (char *)b.data;
    return 0;
}
