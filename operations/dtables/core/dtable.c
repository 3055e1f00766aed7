/* SPDX-License-Identifier: BSD-2-Clause */
/* dTables: ordered tables that are composed of layers (Anvil, SOSP 2009).
 *
 *   key.c           keys and their order
 *   config*.c       configurations (which layers, with which parameters): parse, check, print
 *   build.c         building a run: one builder per layer
 *   stream.c        writing a stream of bytes into extents, block by block
 *   pack.c          compression of streams
 *   describe.c      a run's descriptor, stored in a blob
 *   run.c           open runs: one reader per layer
 *   cache.c         the block cache
 *   lookup.c        point lookups, for any class
 *   cursor.c        cursors, for any class
 *   row.c, columns.c       packed rows, and reading some columns of a row
 *   memory.c, overlay.c    tables that are not runs
 *   codecs.c        the codecs of multicolumn_dtable, by name
 *   ../class/       the classes, which include no header of this folder
 *   ../pack/        the classes that compress values
 *   ../multicolumn/ pages of compressed columns
 *
 * dTables have no log records and no recovery code of their own. A run's contents are not logged:
 * the builder writes them directly to extents that the transaction allocates (lladd/pages.h); a
 * rollback frees the extents. The builder syncs the contents, and then stores the descriptor in a
 * blob, so both are durable when the transaction's commit is durable. The blob's root page
 * identifies the run. */
#include "operations/dtables/core/dtable.h"

#include "operations/dtables/class/classes.h"

#define CACHE_LIMIT (UINT64_C(64) << 20)

#define CLASS(name) &ll_dtable_class_##name,
static const struct lladd_dtable_class *const built_in[] = {LL_DTABLE_CLASSES(CLASS) NULL};
#undef CLASS

/* ---- small things ---------------------------------------------------------------------------- */

int ll_dtable__no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a dTable");
}

void *ll_dtable__zeros(struct lladd_db *db, size_t n, size_t element)
{
    void *p = lladd_mem_alloc(db, (n + 1) * element);
    return p ? memset(p, 0, (n + 1) * element) : NULL;
}

unsigned char *ll_dtable__more(struct ll_dtable_bytes *b, size_t n)
{
    if (ll_operations__grow(b->db, &b->data, b->len + n, &b->cap, 1))
        return NULL;
    b->len += n;
    return b->data + (b->len - n);
}

int ll_dtable__append(struct ll_dtable_bytes *b, const void *bytes, size_t n)
{
    if (n == 0)
        return 0;
    unsigned char *at = ll_dtable__more(b, n);
    if (!at)
        return LLADD_NO_MEMORY;
    memcpy(at, bytes, n);
    return 0;
}

/* ---- registries ------------------------------------------------------------------------------ */

bool ll_dtable__good_name(const char *name)
{
    size_t len = name ? strlen(name) : 0;
    return len > 0 && len <= 63 && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_.-") == len;
}

static bool is_called(const struct lladd_dtable_class *c, const char *name, size_t len)
{
    return strlen(c->name) == len && memcmp(c->name, name, len) == 0;
}

static const struct lladd_dtable_class *find_class(const struct ll_dtables *d, const char *name,
                                                   size_t len)
{
    for (size_t i = 0; built_in[i]; i++)
        if (is_called(built_in[i], name, len))
            return built_in[i];
    for (size_t i = 0; i < d->n_classes; i++)
        if (is_called(d->classes[i], name, len))
            return d->classes[i];
    return NULL;
}

const struct lladd_dtable_class *ll_dtable__class(struct ll_dtables *d, const char *name,
                                                  size_t len)
{
    lladd_mutex_lock(&d->cache.mutex);
    const struct lladd_dtable_class *found = find_class(d, name, len);
    lladd_mutex_unlock(&d->cache.mutex);
    return found;
}

static const struct lladd_dtable_comparator *find_comparator(const struct ll_dtables *d,
                                                             const char *name)
{
    for (size_t i = 0; i < d->n_comparators; i++)
        if (strcmp(d->comparators[i]->name, name) == 0)
            return d->comparators[i];
    return NULL;
}

int ll_dtable__comparator(struct ll_dtables *d, const char *name,
                          const struct lladd_dtable_comparator **out, struct lladd_error *err)
{
    *out = NULL;
    if (!name || !*name)
        return 0;
    lladd_mutex_lock(&d->cache.mutex);
    *out = find_comparator(d, name);
    lladd_mutex_unlock(&d->cache.mutex);
    if (*out)
        return 0;
    return lladd_error_set(err, LLADD_NO_COMPARATOR, "comparator \"%s\" is not registered", name);
}

int lladd_dtable_comparator_add(struct lladd_db *db, const struct lladd_dtable_comparator *c,
                                struct lladd_error *err)
{
    struct ll_dtables *d = ll_dtables_of(db);
    TRY(lladd_check_process(db, err));
    if (c->struct_size != sizeof *c || !ll_dtable__good_name(c->name) || !c->compare)
        return lladd_error_set(err, LLADD_BAD_REGISTRATION,
                               "a comparator needs struct_size, a valid name, and compare");
    lladd_mutex_lock(&d->cache.mutex);
    const struct lladd_dtable_comparator *old = find_comparator(d, c->name);
    int rc = old == c ? 0 : old ? LLADD_EXISTS : 0;
    if (!old)
        rc = ll_operations__grow(db, &d->comparators, d->n_comparators + 1, &d->cap_comparators,
                             sizeof *d->comparators);
    if (!rc && !old)
        d->comparators[d->n_comparators++] = c;
    lladd_mutex_unlock(&d->cache.mutex);
    if (rc == LLADD_EXISTS)
        return lladd_error_set(err, rc, "another comparator is called \"%s\"", c->name);
    return rc ? ll_dtable__no_memory(err) : 0;
}

int lladd_dtable_order_of(struct lladd_db *db, enum lladd_dtable_type type, const char *comparator,
                          struct lladd_dtable_order *out, struct lladd_error *err)
{
    int rc = lladd_check_process(db, err);
    *out = (struct lladd_dtable_order){type, NULL};
    if (rc)
        return rc;
    if (!lladd_dtable_type_name(type) || (comparator && type != LLADD_DTABLE_BYTES))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a table without a valid type of keys, or a comparator for keys "
                               "that are not bytes");
    return ll_dtable__comparator(ll_dtables_of(db), comparator, &out->comparator, err);
}

static const char *incomplete(const struct lladd_dtable_class *c)
{
    if (c->struct_size != sizeof *c || !ll_dtable__good_name(c->name) || c->version == 0)
        return "struct_size, name or version is missing or invalid";
    if (c->builder_size && c->builder_size < sizeof(struct lladd_dtable_builder))
        return "builder_size is too small";
    if (c->reader_size && c->reader_size < sizeof(struct lladd_dtable))
        return "reader_size is too small";
    if (!c->find != !c->at && !ll_dtable__n_params(c))
        return "it has only one of find and at";
    if (!c->cursor_seek != !c->cursor_step || !c->cursor_seek != !c->cursor_row)
        return "a cursor needs seek, step and row";
    if (c->encode && !c->decode)
        return "encode needs decode";
    bool base = ll_dtable__param(c, "base", 4) >= 0;
    if (!base && !(c->find && c->at) && !(c->lookup && c->cursor_seek))
        return "it cannot be read";
    return !base && !c->add ? "nothing can be added" : NULL;
}

static int add_class(struct ll_dtables *d, const struct lladd_dtable_class *c,
                     struct lladd_error *err)
{
    const struct lladd_dtable_class *old = find_class(d, c->name, strlen(c->name));
    if (old == c)
        return 0;
    if (old)
        return lladd_error_set(err, LLADD_EXISTS, "another dTable class is called \"%s\"", c->name);
    if (ll_operations__grow(d->db, &d->classes, d->n_classes + 1, &d->cap_classes,
                        sizeof *d->classes))
        return ll_dtable__no_memory(err);
    d->classes[d->n_classes++] = c;
    return 0;
}

int lladd_dtable_class_add(struct lladd_db *db, const struct lladd_dtable_class *c,
                           struct lladd_error *err)
{
    struct ll_dtables *d = ll_dtables_of(db);
    const char *why = incomplete(c);
    TRY(lladd_check_process(db, err));
    if (why)
        return lladd_error_set(err, LLADD_BAD_REGISTRATION, "dTable class \"%s\": %s",
                               c->name ? c->name : "", why);
    lladd_mutex_lock(&d->cache.mutex);
    int rc = add_class(d, c, err);
    lladd_mutex_unlock(&d->cache.mutex);
    return rc;
}

/* ---- per handle ------------------------------------------------------------------------------ */

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    struct ll_dtables *d = state;
    (void)ctx;
    lladd_mutex_destroy(&d->cache.mutex);
    lladd_mem_free(db, d->classes);
    lladd_mem_free(db, d->comparators);
    lladd_mem_free(db, d->codecs);
    lladd_mem_free(db, d);
}

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    struct ll_dtables *d = lladd_mem_alloc(db, sizeof *d);
    (void)ctx;
    if (!d)
        return ll_dtable__no_memory(err);
    *d = (struct ll_dtables){.db = db, .cache.limit = CACHE_LIMIT};
    if (lladd_mutex_init(&d->cache.mutex, LL_DTABLE_RANK, "dtables")) {
        lladd_mem_free(db, d);
        return ll_dtable__no_memory(err);
    }
    *state = d;
    return 0;
}

const struct lladd_page_type ll_dtable__page = {
    .struct_size = sizeof(struct lladd_page_type),
    .name = "lladd.dtable",
    .version = 1,
};
static const struct lladd_page_type *const page_types[] = {&ll_dtable__page, NULL};

const struct lladd_extension ll_dtable__extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "lladd.dtable",
    .version = 1,
    .page_types = page_types,
    .attach = attach,
    .detach = detach,
};
