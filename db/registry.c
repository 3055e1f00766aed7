/* SPDX-License-Identifier: BSD-2-Clause */
/* Registration: checks each descriptor once, so that all later code can rely on it. Registration is
 * not thread-safe: the options belong to one thread. */
#include "recovery/registry.h"
#include "db/db_private.h"

#include <stddef.h>
#include <string.h>

static int check_name(const char *what, const char *name, uint32_t version, struct lladd_error *err)
{
    size_t len = name ? strlen(name) : 0;
    if (len == 0 || len > 63)
        return ll_fail(err, LLADD_BAD_REGISTRATION, "%s: a name has 1 to 63 bytes", what);
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-'))
            return ll_fail(err, LLADD_BAD_REGISTRATION,
                           "%s \"%s\": a name consists of a-z, 0-9, '_', '.' and '-'", what, name);
    }
    if (version == 0)
        return ll_fail(err, LLADD_BAD_REGISTRATION, "%s \"%s\": versions count from 1", what, name);
    return 0;
}

int ll_registry_reserve(struct lladd_registry *reg, size_t items, struct lladd_error *err)
{
    if (items <= reg->cap)
        return 0;
    struct ll_registered *p = ll_resize(&reg->env, reg->items, items * sizeof *p);
    if (!p)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    reg->items = p;
    reg->cap = items;
    return 0;
}

void ll_registry_put(struct lladd_registry *reg, uint8_t kind, const void *desc)
{
    LL_ASSERT(reg->n < reg->cap);
    reg->items[reg->n++] = (struct ll_registered){.kind = kind, .desc = desc};
}

/* Every descriptor begins with struct_size, name and version, as a page type does. */
static bool same_name(const void *a, const void *b)
{
    const struct lladd_page_type *x = a, *y = b;
    return x->version == y->version && (x->name == y->name || strcmp(x->name, y->name) == 0);
}

/* The extension's descriptor of this kind with the name and version of `desc`; NULL: none. */
static const void *in_extension(const struct lladd_extension *e, uint8_t kind, const void *desc)
{
    for (size_t i = 0; kind == LL_NAME_PAGE_TYPE && e->page_types && e->page_types[i]; i++)
        if (same_name(e->page_types[i], desc))
            return e->page_types[i];
    for (size_t i = 0; kind == LL_NAME_OP && e->ops && e->ops[i]; i++)
        if (same_name(e->ops[i], desc))
            return e->ops[i];
    for (size_t i = 0; kind == LL_NAME_CLASS && e->classes && e->classes[i]; i++)
        if (same_name(e->classes[i], desc))
            return e->classes[i];
    for (size_t i = 0; kind == LL_NAME_PARTICIPANT && e->participants && e->participants[i]; i++)
        if (same_name(e->participants[i], desc))
            return e->participants[i];
    return kind == LL_REGISTERED_EXTENSION && same_name(e, desc) ? e : NULL;
}

int ll_registry_find(const struct lladd_registry *reg, uint8_t kind, const void *desc, bool *there,
                     struct lladd_error *err)
{
    const struct lladd_page_type *head = desc;
    const void *found = NULL;
    for (size_t i = 0; !found && reg->builtin && reg->builtin[i]; i++)
        found = in_extension(reg->builtin[i], kind, desc);
    for (size_t i = 0; !found && i < reg->n; i++)
        if (reg->items[i].kind == kind && same_name(reg->items[i].desc, desc))
            found = reg->items[i].desc;
    *there = found != NULL;
    if (!found || found == desc)
        return 0;
    return ll_fail(err, LLADD_BAD_REGISTRATION,
                   "\"%s\" version %u is registered already, with another descriptor", head->name,
                   head->version);
}

static void count_payload(struct ll_payloads *p, uint8_t kind, const void *desc)
{
    const struct lladd_page_type *head = desc;
    if (kind == LL_REGISTERED_EXTENSION)
        return; /* not in the catalogue */
    struct ll_name n = {.kind = kind, .name = head->name, .version = head->version, .desc = desc};
    size_t bytes = ll_op_catalog_payload(&n);
    p->names++;
    p->bytes += bytes;
    p->longest = bytes > p->longest ? bytes : p->longest;
}

static int add_to(struct lladd_registry *reg, uint8_t kind, const void *desc,
                  struct lladd_error *err)
{
    bool there;
    int rc = ll_registry_find(reg, kind, desc, &there, err);
    if (rc || there)
        return rc;
    if (reg->n == reg->cap)
        rc = ll_registry_reserve(reg, reg->cap ? reg->cap * 2 : 16, err);
    if (rc)
        return rc;
    ll_registry_put(reg, kind, desc);
    count_payload(&reg->payloads, kind, desc);
    return 0;
}

static int registry_of(struct lladd_options *o, struct lladd_error *err)
{
    if (!o || o->struct_size < sizeof *o)
        return ll_fail(err, LLADD_BAD_ARGUMENT, "options: use LLADD_OPTIONS_INIT");
    if (o->registry)
        return 0;
    struct ll_env env;
    ll_env_init(&env, o->allocator, o->world, false);
    o->registry = ll_alloc_zero(&env, sizeof *o->registry);
    if (!o->registry)
        return ll_fail(err, LLADD_NO_MEMORY, "out of memory");
    o->registry->env = env;
    return 0;
}

static int check_fields(const struct lladd_op *op, const struct lladd_field *f,
                        struct lladd_error *err)
{
    for (size_t n = 0; f && f->name; f++, n++) {
        bool last = f[1].name == NULL;
        if (f->type <= LLADD_FIELD_END || f->type > LLADD_FIELD_TEXT || strlen(f->name) > 63 ||
            n >= 255 || ((f->type == LLADD_FIELD_REST || f->type == LLADD_FIELD_TEXT) && !last))
            return ll_fail(err, LLADD_BAD_REGISTRATION,
                           "operation \"%s\", field \"%s\": it has an unknown type or a name of "
                           "more than 63 bytes, or is after the 255th field, or is a REST or TEXT "
                           "field and not the last one",
                           op->name, f->name);
    }
    return 0;
}

static int check_op(const struct lladd_op *op, struct lladd_error *err)
{
    int rc = check_name("operation", op->name, op->version, err);
    if (!rc)
        rc = check_fields(op, op->redo_fields, err);
    if (!rc)
        rc = check_fields(op, op->undo_fields, err);
    if (rc)
        return rc;
    const char *wrong = NULL;
    if (op->undo_kind < LLADD_UNDO_NONE || op->undo_kind > LLADD_UNDO_LOGICAL)
        wrong = "undo_kind must be set";
    else if (op->undo_kind == LLADD_UNDO_PAGE && (!op->undo || !op->redo))
        wrong = "undo kind PAGE needs undo and redo";
    else if (op->undo_kind == LLADD_UNDO_LOGICAL && (!op->compensate || op->undo_log_max == 0))
        wrong = "undo kind LOGICAL needs compensate and undo_log_max";
    else if (op->undo_kind != LLADD_UNDO_LOGICAL && op->undo_log_base)
        wrong = "undo_log_base is given but undo_kind is not LOGICAL";
    else if (op->undo_kind != LLADD_UNDO_PAGE && op->undo)
        wrong = "undo is given but undo_kind is not PAGE";
    else if (op->undo_kind != LLADD_UNDO_LOGICAL && op->compensate)
        wrong = "compensate is given but undo_kind is not LOGICAL";
    else if (!op->redo && op->undo_kind != LLADD_UNDO_LOGICAL)
        wrong = "redo is missing";
    else if (op->redo && !op->validate)
        wrong = "redo is given but not validate (OP-7)";
    else if (op->formats && (!op->page_type || op->undo_kind == LLADD_UNDO_PAGE))
        wrong = "formats needs a page type, and undo_kind must not be PAGE";
    else if (op->record_max > (1u << 22))
        wrong = "record_max exceeds 4 MiB";
    return wrong ? ll_fail(err, LLADD_BAD_REGISTRATION, "operation \"%s\": %s", op->name, wrong)
                 : 0;
}

static int add(struct lladd_options *o, uint8_t kind, const char *what, const void *desc,
               size_t want, struct lladd_error *err)
{
    const struct lladd_page_type *head = desc;
    int rc = registry_of(o, err);
    if (!rc && (!head || head->struct_size < want))
        rc = ll_fail(err, LLADD_BAD_REGISTRATION, "%s: struct_size is missing", what);
    if (!rc)
        rc = check_name(what, head->name, head->version, err);
    return rc ? rc : add_to(o->registry, kind, desc, err);
}

int lladd_register_op(struct lladd_options *o, const struct lladd_op *op, struct lladd_error *err)
{
    int rc = registry_of(o, err);
    if (!rc && (!op || op->struct_size < sizeof *op))
        rc = ll_fail(err, LLADD_BAD_REGISTRATION, "operation: struct_size is missing");
    if (!rc)
        rc = check_op(op, err);
    return rc ? rc : add_to(o->registry, LL_NAME_OP, op, err);
}

int lladd_register_page_type(struct lladd_options *o, const struct lladd_page_type *t,
                             struct lladd_error *err)
{
    return add(o, LL_NAME_PAGE_TYPE, "page type", t, sizeof *t, err);
}

int lladd_register_class(struct lladd_options *o, const struct lladd_object_class *c,
                         struct lladd_error *err)
{
    /* The members from `pins` on are optional. */
    size_t oldest = offsetof(struct lladd_object_class, pins);
    if (c && c->struct_size >= oldest && !c->redo && (!c->durable_lsn || c->undo))
        return ll_fail(err, LLADD_BAD_REGISTRATION,
                       "class: redo is missing; this is allowed only for a class that has "
                       "durable_lsn and no undo");
    if (c && c->struct_size >= oldest && LL_HAS(c, first) && c->first && (!c->redo || c->undo))
        return ll_fail(err, LLADD_BAD_REGISTRATION,
                       "class: a class that recovery redoes first has redo and no undo");
    return add(o, LL_NAME_CLASS, "class", c, oldest, err);
}

int lladd_register_participant(struct lladd_options *o, const struct lladd_participant *p,
                               struct lladd_error *err)
{
    /* The members from `undone` on are optional. */
    size_t oldest = offsetof(struct lladd_participant, undone);
    return add(o, LL_NAME_PARTICIPANT, "participant", p, oldest, err);
}

static int check_structure(const struct lladd_structure *s, struct lladd_error *err)
{
    if (s->struct_size < sizeof *s)
        return ll_fail(err, LLADD_BAD_REGISTRATION, "structure: struct_size is missing");
    int rc = check_name("structure", s->name, s->version, err);
    if (rc)
        return rc;
    const char *wrong = !s->check                   ? "check is missing"
                        : !s->page_type && !s->root ? "neither page_type nor root is given"
                                                    : NULL;
    return wrong ? ll_fail(err, LLADD_BAD_REGISTRATION, "structure \"%s\": %s", s->name, wrong) : 0;
}

static int check_structures(const struct lladd_extension *e, struct lladd_error *err)
{
    int rc = 0;
    if (!LL_HAS(e, structures))
        return 0;
    for (size_t i = 0; !rc && e->structures[i]; i++) {
        rc = check_structure(e->structures[i], err);
        for (size_t k = 0; !rc && k < i; k++)
            if (same_name(e->structures[k], e->structures[i]))
                rc = ll_fail(err, LLADD_BAD_REGISTRATION,
                             "structure \"%s\" version %u is there twice", e->structures[i]->name,
                             e->structures[i]->version);
    }
    return rc;
}

int lladd_register_extension(struct lladd_options *o, const struct lladd_extension *e,
                             struct lladd_error *err)
{
    /* The members from `structures` on are optional. */
    size_t oldest = offsetof(struct lladd_extension, structures);
    size_t before = o && o->registry ? o->registry->n : 0;
    struct ll_payloads payloads = {0};
    int rc = 0;
    if (before)
        payloads = o->registry->payloads;
    if (!e || e->struct_size < oldest)
        return ll_fail(err, LLADD_BAD_REGISTRATION, "extension: struct_size is missing");
    rc = check_structures(e, err);
    for (size_t i = 0; !rc && e->page_types && e->page_types[i]; i++)
        rc = lladd_register_page_type(o, e->page_types[i], err);
    for (size_t i = 0; !rc && e->ops && e->ops[i]; i++)
        rc = lladd_register_op(o, e->ops[i], err);
    for (size_t i = 0; !rc && e->classes && e->classes[i]; i++)
        rc = lladd_register_class(o, e->classes[i], err);
    for (size_t i = 0; !rc && e->participants && e->participants[i]; i++)
        rc = lladd_register_participant(o, e->participants[i], err);
    if (!rc)
        rc = add(o, LL_REGISTERED_EXTENSION, "extension", e, oldest, err);
    if (rc && o && o->registry) { /* register all of the extension or nothing */
        o->registry->n = before;
        o->registry->payloads = payloads;
    }
    return rc;
}

void lladd_options_release(struct lladd_options *o)
{
    if (!o || !o->registry)
        return;
    struct ll_env env = o->registry->env;
    ll_free(&env, o->registry->items);
    ll_free(&env, o->registry);
    o->registry = NULL;
}
