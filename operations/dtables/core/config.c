/* SPDX-License-Identifier: BSD-2-Clause */
/* Configurations: a tree of layers, each with the parameters of its class. */
#include "operations/dtables/core/dtable.h"

size_t ll_dtable__n_params(const struct lladd_dtable_class *c)
{
    size_t n = 0;
    while (c->params && c->params[n].type != LLADD_DTABLE_PARAM_END)
        n++;
    return n;
}

int ll_dtable__param(const struct lladd_dtable_class *c, const char *name, size_t len)
{
    size_t n = ll_dtable__n_params(c);
    for (size_t i = 0; i < n; i++)
        if (strlen(c->params[i].name) == len && memcmp(c->params[i].name, name, len) == 0)
            return (int)i;
    return -1;
}

int ll_dtable__word_set(struct lladd_db *db, struct ll_dtable_word *w, struct lladd_span s)
{
    unsigned char *bytes = lladd_mem_alloc(db, s.len + 1);
    if (!bytes)
        return LLADD_NO_MEMORY;
    if (s.len)
        memcpy(bytes, s.data, s.len);
    bytes[s.len] = 0;
    lladd_mem_free(db, w->bytes);
    *w = (struct ll_dtable_word){bytes, s.len};
    return 0;
}

int ll_dtable__config_of(struct lladd_db *db, const struct lladd_dtable_class *kind,
                         struct lladd_dtable_config **out, struct lladd_error *err)
{
    size_t n = ll_dtable__n_params(kind);
    struct lladd_dtable_config *c = lladd_mem_alloc(db, sizeof *c);
    struct ll_dtable_param *p = lladd_mem_alloc(db, (n + 1) * sizeof *p);
    if (!c || !p) {
        lladd_mem_free(db, c);
        lladd_mem_free(db, p);
        return ll_dtable__no_memory(err);
    }
    *c = (struct lladd_dtable_config){.db = db, .kind = kind, .params = p};
    for (size_t i = 0; i < n; i++)
        p[i] = (struct ll_dtable_param){.number = kind->params[i].otherwise};
    *out = c;
    return 0;
}

void lladd_dtable_config_free(struct lladd_dtable_config *c)
{
    if (!c)
        return;
    size_t n = ll_dtable__n_params(c->kind);
    for (size_t i = 0; i < n; i++) {
        struct ll_dtable_param *p = &c->params[i];
        for (size_t w = 0; w < p->n_words; w++)
            lladd_mem_free(c->db, p->words[w].bytes);
        lladd_mem_free(c->db, p->words);
        lladd_mem_free(c->db, p->bytes.bytes);
        for (struct lladd_dtable_config *below = p->child, *next; below; below = next) {
            next = below->next;
            lladd_dtable_config_free(below);
        }
    }
    lladd_mem_free(c->db, c->state);
    lladd_mem_free(c->db, c->params);
    lladd_mem_free(c->db, c);
}

/* ---- made by calls --------------------------------------------------------------------------- */

int lladd_dtable_config_new(struct lladd_db *db, const char *class_name,
                            struct lladd_dtable_config **out, struct lladd_error *err)
{
    TRY(lladd_check_process(db, err));
    const struct lladd_dtable_class *kind =
        ll_dtable__class(ll_dtables_of(db), class_name, strlen(class_name));
    if (!kind)
        return lladd_error_set(err, LLADD_BAD_CONFIG, "there is no dTable class \"%s\"",
                               class_name);
    return ll_dtable__config_of(db, kind, out, err);
}

static const char *const type_names[] = {"", "bool", "int", "string or blob", "words",
                                         "class(dt)", "layers"};

void ll_dtable__adopt(struct lladd_dtable_config *c, struct ll_dtable_param *p,
                      struct lladd_dtable_config *child)
{
    if (p->last)
        p->last->next = child;
    else
        p->child = child;
    p->last = child;
    child->parent = c;
}

/* Finds the parameter with this name and type. LLADD_BAD_STATE if the configuration was checked. */
static int to_set(struct lladd_dtable_config *c, const char *name,
                  enum lladd_dtable_param_type type, struct ll_dtable_param **out,
                  struct lladd_error *err)
{
    int i = ll_dtable__param(c->kind, name, strlen(name));
    TRY(lladd_check_process(c->db, err));
    if (i < 0)
        return lladd_error_set(err, LLADD_BAD_CONFIG, "%s has no parameter \"%s\"", c->kind->name,
                               name);
    if (c->kind->params[i].type != type)
        return lladd_error_set(err, LLADD_BAD_CONFIG, "\"%s\" of %s is of type %s, not %s", name,
                               c->kind->name, type_names[c->kind->params[i].type],
                               type_names[type]);
    if (c->checked)
        return lladd_error_set(err, LLADD_BAD_STATE, "the configuration has been checked");
    *out = &c->params[i];
    return 0;
}

static int set_number(struct lladd_dtable_config *c, const char *name,
                      enum lladd_dtable_param_type type, int64_t v, struct lladd_error *err)
{
    struct ll_dtable_param *p;
    TRY(to_set(c, name, type, &p, err));
    p->set = true;
    p->number = v;
    return 0;
}

int lladd_dtable_config_set_bool(struct lladd_dtable_config *c, const char *name, bool v,
                                 struct lladd_error *err)
{
    return set_number(c, name, LLADD_DTABLE_PARAM_BOOL, v, err);
}

int lladd_dtable_config_set_int(struct lladd_dtable_config *c, const char *name, int64_t v,
                                struct lladd_error *err)
{
    return set_number(c, name, LLADD_DTABLE_PARAM_INT, v, err);
}

int lladd_dtable_config_set_bytes(struct lladd_dtable_config *c, const char *name,
                                  struct lladd_span v, struct lladd_error *err)
{
    struct ll_dtable_param *p;
    TRY(to_set(c, name, LLADD_DTABLE_PARAM_BYTES, &p, err));
    if (ll_dtable__word_set(c->db, &p->bytes, v))
        return ll_dtable__no_memory(err);
    p->set = true;
    return 0;
}

int lladd_dtable_config_add_word(struct lladd_dtable_config *c, const char *name,
                                 struct lladd_span v, struct lladd_error *err)
{
    struct ll_dtable_param *p;
    struct ll_dtable_word w = {NULL, 0};
    TRY(to_set(c, name, LLADD_DTABLE_PARAM_WORDS, &p, err));
    if (ll_dtable__word_set(c->db, &w, v))
        return ll_dtable__no_memory(err);
    if (ll_operations__grow(c->db, &p->words, p->n_words + 1, &p->cap_words, sizeof w)) {
        lladd_mem_free(c->db, w.bytes);
        return ll_dtable__no_memory(err);
    }
    p->words[p->n_words++] = w;
    p->set = true;
    return 0;
}

int lladd_dtable_config_set_child(struct lladd_dtable_config *c, const char *name,
                                  struct lladd_dtable_config *child, struct lladd_error *err)
{
    struct ll_dtable_param *p;
    int i = ll_dtable__param(c->kind, name, strlen(name));
    bool list = i >= 0 && c->kind->params[i].type == LLADD_DTABLE_PARAM_LAYERS;
    int rc = to_set(c, name, list ? LLADD_DTABLE_PARAM_LAYERS : LLADD_DTABLE_PARAM_CHILD, &p, err);
    if (!rc && p->child && !list)
        rc = lladd_error_set(err, LLADD_BAD_CONFIG, "\"%s\" of %s already exists", name,
                             c->kind->name);
    const struct lladd_dtable_config *above = c;
    while (above && above != child)
        above = above->parent;
    if (!rc && (!child || above || child->parent))
        rc = lladd_error_set(err, LLADD_BAD_ARGUMENT, "\"%s\" of %s: %s", name, c->kind->name,
                             !child  ? "no layer is given"
                             : above ? "the layer would be below itself"
                                     : "the layer already has a parent");
    if (rc)
        return rc;
    ll_dtable__adopt(c, p, child);
    p->set = true;
    return 0;
}

/* ---- for classes ----------------------------------------------------------------------------- */

static const struct ll_dtable_param *param_of(const struct lladd_dtable_config *c,
                                              const char *name)
{
    static const struct ll_dtable_param none = {.set = false};
    int i = ll_dtable__param(c->kind, name, strlen(name));
    return i < 0 ? &none : &c->params[i];
}

bool lladd_dtable_param_bool(const struct lladd_dtable_config *c, const char *name)
{
    return param_of(c, name)->number != 0;
}

int64_t lladd_dtable_param_int(const struct lladd_dtable_config *c, const char *name)
{
    return param_of(c, name)->number;
}

bool lladd_dtable_param_bytes(const struct lladd_dtable_config *c, const char *name,
                              struct lladd_span *out)
{
    const struct ll_dtable_param *p = param_of(c, name);
    *out = lladd_span_of(p->bytes.bytes, p->bytes.len);
    return p->set;
}

size_t lladd_dtable_param_words(const struct lladd_dtable_config *c, const char *name)
{
    return param_of(c, name)->n_words;
}

struct lladd_span lladd_dtable_param_word(const struct lladd_dtable_config *c, const char *name,
                                          size_t i)
{
    const struct ll_dtable_param *p = param_of(c, name);
    if (i >= p->n_words)
        return lladd_span_of(NULL, 0);
    return lladd_span_of(p->words[i].bytes, p->words[i].len);
}

void lladd_dtable_settle_int(struct lladd_dtable_config *c, const char *name, int64_t v)
{
    int i = ll_dtable__param(c->kind, name, strlen(name));
    if (i < 0 || c->params[i].number == v)
        return;
    c->params[i].number = v;
    c->settled = true;
}

struct lladd_dtable_config *lladd_dtable_param_child(const struct lladd_dtable_config *c,
                                                     const char *name)
{
    return param_of(c, name)->child;
}

struct lladd_dtable_config *lladd_dtable_param_layer(const struct lladd_dtable_config *c,
                                                     const char *name, size_t i)
{
    struct lladd_dtable_config *below = param_of(c, name)->child;
    while (below && i--)
        below = below->next;
    return below;
}

const struct lladd_dtable_caps *lladd_dtable_caps_get(const struct lladd_dtable_config *c)
{
    return &c->caps;
}

void lladd_dtable_config_state_set(struct lladd_dtable_config *c, void *state)
{
    lladd_mem_free(c->db, c->state);
    c->state = state;
}

void *lladd_dtable_config_state(const struct lladd_dtable_config *c)
{
    return c->state;
}

struct lladd_db *lladd_dtable_config_db(const struct lladd_dtable_config *c)
{
    return c->db;
}

int lladd_dtable_accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                         struct lladd_error *err)
{
    struct lladd_dtable_config *base = lladd_dtable_param_child(c, "base");
    struct lladd_dtable_value below = *v;
    unsigned char room[16];
    if (!ll_dtable__can_store(&c->caps, v))
        return LLADD_DTABLE_REJECT;
    if (c->kind->accepts)
        return c->kind->accepts(c, v, err);
    int rc = 0;
    if (c->kind->encode && v->state == LLADD_DTABLE_FOUND)
        rc = c->kind->encode(c, v->bytes, room, &below.bytes);
    return rc || !base ? rc : lladd_dtable_accepts(base, &below, err);
}

/* ---- checked --------------------------------------------------------------------------------- */

/* Puts the layer's line and column in front of the message, unless the message already begins with
 * a line. */
static int placed(const struct lladd_dtable_config *c, int rc, struct lladd_error *err)
{
    struct lladd_error was;
    if (!err || rc != LLADD_BAD_CONFIG || !c->line || strncmp(err->message, "line ", 5) == 0)
        return rc;
    was = *err;
    return lladd_error_set(err, rc, "line %u, column %u: %.200s", c->line, c->column, was.message);
}

int ll_dtable__too_deep(const struct lladd_dtable_config *c, struct lladd_error *err)
{
    int rc = lladd_error_set(err, LLADD_BAD_CONFIG, "more than %d layers, one below the other",
                             LL_DTABLE_DEPTH_MAX);
    return placed(c, rc, err);
}

static int check_params(const struct lladd_dtable_config *c, struct lladd_error *err)
{
    size_t n = ll_dtable__n_params(c->kind);
    for (size_t i = 0; i < n; i++) {
        const struct lladd_dtable_param *p = &c->kind->params[i];
        if (p->required && !c->params[i].set)
            return lladd_error_set(err, LLADD_BAD_CONFIG, "%s expects \"%s\": %s", c->kind->name,
                                   p->name, p->about);
        int64_t v = c->params[i].number;
        if (p->type == LLADD_DTABLE_PARAM_INT && c->params[i].set && (v < p->min || v > p->max))
            return lladd_error_set(err, LLADD_BAD_CONFIG,
                                   "\"%s\" of %s is from %lld to %lld, not %lld", p->name,
                                   c->kind->name, (long long)p->min, (long long)p->max,
                                   (long long)v);
    }
    return 0;
}

/* Does the class leave rows and lookups entirely to its base? */
static bool changes_nothing(const struct lladd_dtable_class *k)
{
    return !k->add && !k->find && !k->at && !k->lookup && !k->encode && !k->decode &&
           !k->cursor_seek;
}

/* Refuses a layer that stores deleted ranges if it is below another layer, except as the base of a
 * layer that changes nothing. Any other layer above it would look up rows by itself, and miss the
 * deleted ranges. Refuses a layer that stores keys without a row if it is below any layer. */
static int check_outermost(const struct lladd_dtable_config *c, struct lladd_error *err)
{
    size_t n = ll_dtable__n_params(c->kind);
    for (size_t i = 0; i < n; i++) {
        bool passes = strcmp(c->kind->params[i].name, "base") == 0 && changes_nothing(c->kind);
        for (const struct lladd_dtable_config *below = c->params[i].child; below;
             below = below->next) {
            if (below->caps.absent)
                return lladd_error_set(err, LLADD_BAD_CONFIG,
                                       "%s cannot be below a %s: it must be at the top",
                                       below->kind->name, c->kind->name);
            if (below->caps.ranges && !passes)
                return lladd_error_set(err, LLADD_BAD_CONFIG,
                                       "%s cannot be below a %s: it must be at the top, or only "
                                       "below layers that pass every call on",
                                       below->kind->name, c->kind->name);
        }
    }
    return 0;
}

static int check(struct lladd_dtable_config *c, unsigned depth, struct lladd_error *err)
{
    size_t n = ll_dtable__n_params(c->kind);
    if (depth + (c->checked ? c->height - 1 : 0) > LL_DTABLE_DEPTH_MAX)
        return ll_dtable__too_deep(c, err);
    if (c->checked)
        return 0;
    int rc = check_params(c, err);
    c->height = c->layers = 1;
    for (size_t i = 0; i < n && !rc; i++) {
        struct lladd_dtable_config *child = c->params[i].child;
        for (; child && !rc; child = child->next) {
            rc = check(child, depth + 1, err);
            if (!rc && child->height >= c->height)
                c->height = child->height + 1;
            c->layers += child->layers;
        }
    }
    if (!rc && c->layers > LL_DTABLE_LAYERS_MAX)
        rc = lladd_error_set(err, LLADD_BAD_CONFIG, "more than %d layers", LL_DTABLE_LAYERS_MAX);
    if (!rc)
        rc = check_outermost(c, err);
    if (rc)
        return placed(c, rc, err);
    const struct lladd_dtable_config *base = lladd_dtable_param_child(c, "base");
    c->caps = base ? base->caps
                   : (struct lladd_dtable_caps){LLADD_DTABLE_ALL_TYPES, c->kind->find != NULL, true,
                                                true, LLADD_DTABLE_ANY_SIZE, false,
                                                false, false, false};
    c->caps.all_values = c->caps.all_values && !c->kind->encode;
    rc = c->kind->configure ? c->kind->configure(c, &c->caps, err) : 0;
    c->checked = !rc;
    return placed(c, rc, err);
}

int ll_dtable__config_has(const struct lladd_dtable_config *c, enum lladd_dtable_type type,
                          struct lladd_error *err)
{
    size_t n = ll_dtable__n_params(c->kind);
    if (type == 0 || c->caps.types & 1u << type)
        return 0;
    for (size_t i = 0; i < n; i++) /* finds the layer at fault */
        for (const struct lladd_dtable_config *below = c->params[i].child; below;
             below = below->next)
            if (!(below->caps.types & 1u << type))
                return ll_dtable__config_has(below, type, err);
    int rc = lladd_error_set(err, LLADD_BAD_CONFIG,
                             "%s, as it is configured, has no keys of type %s", c->kind->name,
                             lladd_dtable_type_name(type));
    return placed(c, rc, err);
}

/* Returns whether a layer has settled a number since the last check, and clears `settled` in all
 * layers. If a layer has settled a number, all layers are checked again, because the layers above
 * were checked with the old number. */
static bool again(struct lladd_dtable_config *c)
{
    bool settled = c->settled;
    size_t n = ll_dtable__n_params(c->kind);
    c->settled = false;
    for (size_t i = 0; i < n; i++)
        for (struct lladd_dtable_config *child = c->params[i].child; child; child = child->next)
            settled = again(child) || settled;
    return settled;
}

static void uncheck(struct lladd_dtable_config *c)
{
    size_t n = ll_dtable__n_params(c->kind);
    c->checked = false;
    for (size_t i = 0; i < n; i++)
        for (struct lladd_dtable_config *child = c->params[i].child; child; child = child->next)
            uncheck(child);
}

/* Sets `done` in all layers. Layers may settle numbers only while `done` is false. */
static void set_done(struct lladd_dtable_config *c, bool done)
{
    size_t n = ll_dtable__n_params(c->kind);
    c->done = done;
    for (size_t i = 0; i < n; i++)
        for (struct lladd_dtable_config *child = c->params[i].child; child; child = child->next)
            set_done(child, done);
}

bool lladd_dtable_config_done(const struct lladd_dtable_config *c)
{
    return c->done;
}

/* Checks the whole tree. A layer that was checked before is checked again only if a layer has
 * settled a number. */
static int check_all(struct lladd_dtable_config *c, struct lladd_error *err)
{
    set_done(c, false);
    int rc = check(c, 1, err);
    while (!rc && again(c)) { /* ends, because a layer settles a number once */
        uncheck(c);
        rc = check(c, 1, err);
    }
    if (!rc)
        set_done(c, true);
    return rc;
}

/* ---- requirements of tables that transactions write to --------------------------------------- */

/* Returns LLADD_BAD_CONFIG if a layer takes the size of its values from the first value that is
 * added. The message names a layer that does so while no layer below it does. */
int lladd_dtable_config_settled(const struct lladd_dtable_config *c, struct lladd_error *err)
{
    size_t n = ll_dtable__n_params(c->kind);
    int rc = lladd_check_process(c->db, err);
    if (rc || !c->caps.learned)
        return rc;
    for (size_t i = 0; i < n; i++)
        for (const struct lladd_dtable_config *below = c->params[i].child; below;
             below = below->next)
            if (below->caps.learned)
                return lladd_dtable_config_settled(below, err);
    rc = lladd_error_set(err, LLADD_BAD_CONFIG,
                         "%s: the size of its values must be given, or set by the layer above "
                         "it",
                         c->kind->name);
    return placed(c, rc, err);
}

int lladd_dtable_config_deletes(struct lladd_dtable_config *c, struct lladd_error *err)
{
    const struct lladd_dtable_value gone = {.state = LLADD_DTABLE_TOMBSTONE};
    size_t n = ll_dtable__n_params(c->kind);
    int rc = lladd_check_process(c->db, err);
    if (!rc)
        rc = lladd_dtable_accepts(c, &gone, err);
    for (size_t i = 0; rc == LLADD_DTABLE_REJECT && i < n; i++)
        for (struct lladd_dtable_config *below = c->params[i].child; below; below = below->next)
            if (lladd_dtable_accepts(below, &gone, err) == LLADD_DTABLE_REJECT)
                return lladd_dtable_config_deletes(below, err);
    if (rc != LLADD_DTABLE_REJECT)
        return rc;
    rc = lladd_error_set(err, LLADD_BAD_CONFIG,
                         "%s, as it is configured, stores no tombstones: no row could be deleted",
                         c->kind->name);
    return placed(c, rc, err);
}

int lladd_dtable_config_check(struct lladd_dtable_config *c, enum lladd_dtable_type type,
                              struct lladd_error *err)
{
    int rc = lladd_check_process(c->db, err);
    if (!rc && !(c->checked && c->done)) /* a configuration that is done is only read: other threads
                                          * may be using it */
        rc = check_all(c, err);
    return rc ? rc : ll_dtable__config_has(c, type, err);
}
