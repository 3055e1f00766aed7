/* SPDX-License-Identifier: BSD-2-Clause */
/* Stores: a store is one database handle, shared by all rmids with open strings for one directory.
 *
 * A store is in the list as soon as a thread begins to open it; `opening` makes the other threads
 * wait. Transactions in doubt and remembered heuristic outcomes become branches before any thread
 * uses the store. */
#include "xa/xa_private.h"

#include <dlfcn.h>
#include <limits.h>
#include <lladd/device.h>
#include <lladd/inspect.h>
#include <lladd/op.h>
#include <string.h>

/* ---- plug-ins -------------------------------------------------------------------------------- */

/* A plug-in is not linked with the library: it needs the library's symbols in the global scope
 * (lladd/inspect.h). If this library was loaded with RTLD_LOCAL, this function makes the library's
 * symbols global. */
static void show_library(void)
{
    Dl_info info;
    const char *(*fn)(void) = lladd_version;
    void *address;
    memcpy(&address, &fn, sizeof address);
    if (dladdr(address, &info) && info.dli_fname)
        (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

static int register_all(struct ll_xa__store *s, const struct lladd_extension *const *list,
                        struct lladd_error *err)
{
    int rc = 0;
    for (; !rc && list && *list; list++)
        rc = lladd_register_extension(&s->options, *list, err);
    return rc;
}

static int load_plugin(struct ll_xa__store *s, const char *path, struct lladd_error *err)
{
    show_library();
    void *so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!so)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "cannot load the plug-in: %s", dlerror());
    s->plugins[s->n_plugins++] = so;
    void *symbol = dlsym(so, LLADD_PLUGIN_SYMBOL);
    if (!symbol)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "%s does not export \"%s\"", path,
                               LLADD_PLUGIN_SYMBOL);
    lladd_plugin_fn *fn;
    memcpy(&fn, &symbol, sizeof fn); /* ISO C has no other way from void * to a function */
    return register_all(s, fn(), err);
}

static int load_plugins(struct ll_xa__store *s, struct lladd_error *err)
{
    int rc = 0;
    if (s->spec.n_plugins && s->given && s->given->registry)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "plug-ins and registered options do not go together");
    for (unsigned i = 0; !rc && i < s->spec.n_plugins; i++)
        rc = load_plugin(s, s->spec.plugins[i], err);
    return rc;
}

/* ---- opening and closing --------------------------------------------------------------------- */

static int add_in_doubt(void *ctx, const struct lladd_in_doubt_info *info)
{
    struct ll_xa__branch *b = ll_xa__branch_add(ctx, &info->gid);
    if (!b)
        return LLADD_NO_MEMORY;
    b->state = LL_XA__PREPARED;
    return 0;
}

static int add_outcome(void *ctx, const struct lladd_heuristic_info *info)
{
    struct ll_xa__branch *b = ll_xa__branch_add(ctx, &info->gid);
    if (!b)
        return LLADD_NO_MEMORY;
    b->state = LL_XA__HEURISTIC;
    b->heuristic = info->outcome == LLADD_OUTCOME_COMMIT ? XA_HEURCOM : XA_HEURRB;
    return 0;
}

static int open_db(struct ll_xa__store *s, struct lladd_error *err)
{
    struct lladd_options o = s->options;
    if (!s->spec.create)
        o.flags |= LLADD_OPT_MUST_EXIST;
    if (s->spec.cache_bytes)
        o.cache_bytes = s->spec.cache_bytes;
    if (s->spec.file_mode)
        o.file_mode = s->spec.file_mode;
    if (s->spec.log_limit_bytes)
        o.log_limit_bytes = s->spec.log_limit_bytes;
    int rc = lladd_open(s->spec.dir, &o, &s->db, err);
    if (rc)
        return rc;
    rc = lladd_in_doubt_each(s->db, add_in_doubt, s, err);
    if (!rc)
        rc = lladd_heuristic_each(s->db, add_outcome, s, err);
    if (rc == LLADD_NO_MEMORY)
        lladd_error_set(err, rc, "out of memory for what is in doubt");
    if (rc) {
        ll_xa__branches_free(s);
        (void)lladd_close(s->db); /* no thread has used the handle yet */
        s->db = NULL;
    }
    return rc;
}

/* The caller does not hold the mutex if the database is open, and the store is marked `opening` or
 * is in no list. */
static void close_db(struct ll_xa__store *s)
{
    ll_xa__branches_free(s);
    if (s->db)
        (void)lladd_close(s->db); /* if the close fails, the next open recovers */
    s->db = NULL;
}

static void destroy(struct ll_xa__store *s)
{
    close_db(s);
    const struct lladd_allocator *mem = s->options.allocator;
    if (!s->given || !s->given->registry)
        lladd_options_release(&s->options); /* otherwise the caller of lladd_xa_options owns the
                                             * registry */
    for (unsigned i = 0; i < s->n_plugins; i++)
        (void)dlclose(s->plugins[i]);
    lladd_cond_destroy(&s->changed);
    ll_xa__delete(mem, s);
}

static struct ll_xa__store *make(const struct ll_xa__spec *spec, const struct lladd_options *given)
{
    const struct lladd_allocator *mem = given ? given->allocator : NULL;
    struct ll_xa__store *s = ll_xa__new(mem, 1, sizeof *s);
    if (s && lladd_cond_init(&s->changed)) {
        ll_xa__delete(mem, s);
        return NULL;
    }
    if (!s)
        return NULL;
    s->spec = *spec;
    s->given = given;
    s->options = given ? *given : (struct lladd_options)LLADD_OPTIONS_INIT;
    return s;
}

static void unlist(struct ll_xa__store *s)
{
    struct ll_xa__store **place = &ll_xa__all.stores;
    while (*place != s)
        place = &(*place)->next;
    *place = s->next;
}

static bool same_spec(const struct ll_xa__spec *a, const struct ll_xa__spec *b)
{
    bool same = a->n_plugins == b->n_plugins && a->create == b->create &&
                a->any_thread == b->any_thread && a->cache_bytes == b->cache_bytes &&
                a->log_limit_bytes == b->log_limit_bytes && a->wait_ns == b->wait_ns &&
                a->file_mode == b->file_mode && strcmp(a->dir, b->dir) == 0 &&
                strcmp(a->owner, b->owner) == 0;
    for (unsigned i = 0; same && i < a->n_plugins; i++)
        same = strcmp(a->plugins[i], b->plugins[i]) == 0;
    return same;
}

static bool same_place(const struct ll_xa__store *s, const struct ll_xa__spec *spec,
                       const struct lladd_options *given)
{
    struct lladd_device *a = s->given ? s->given->device : NULL;
    struct lladd_device *b = given ? given->device : NULL;
    return a == b && (a || strcmp(s->spec.dir, spec->dir) == 0);
}

static int failed(struct ll_xa__rm *rm, const struct lladd_error *err)
{
    bool ours = lladd_code_root(err->code) == LLADD_ROOT_MISUSE && err->code != LLADD_LOCKED;
    return ll_xa__say_error(rm, ours ? XAER_INVAL : XAER_RMERR, err);
}

/* Releases the mutex. Until end_opening, which takes the mutex again, other threads cannot open or
 * close the store. */
static void begin_opening(struct ll_xa__store *s)
{
    s->opening = true;
    lladd_mutex_unlock(&ll_xa__all.mutex);
}

static void end_opening(struct ll_xa__store *s)
{
    lladd_mutex_lock(&ll_xa__all.mutex);
    s->opening = false;
    lladd_cond_broadcast(&ll_xa__all.opened);
}

void ll_xa__store_release(struct ll_xa__store *s)
{
    if (--s->refs)
        return;
    begin_opening(s);
    close_db(s);
    end_opening(s);
    unlist(s);
    destroy(s);
}

static struct ll_xa__store *find(const struct ll_xa__spec *spec, const struct lladd_options *given)
{
    struct ll_xa__store *s = ll_xa__all.stores;
    while (s) {
        if (!same_place(s, spec, given)) {
            s = s->next;
        } else if (s->opening) {
            lladd_cond_wait(&ll_xa__all.opened, &ll_xa__all.mutex);
            s = ll_xa__all.stores; /* the list may have changed meanwhile */
        } else {
            break;
        }
    }
    return s;
}

int ll_xa__store_open(struct ll_xa__rm *rm, const struct ll_xa__spec *spec,
                      struct ll_xa__store **out)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ll_xa__store *s = find(spec, rm->options);
    *out = s;
    if (s && !same_spec(&s->spec, spec))
        return ll_xa__say(rm, XAER_INVAL, LLADD_BAD_ARGUMENT,
                          "another rmid has opened the database with another open string");
    if (s) {
        s->refs++;
        return XA_OK;
    }
    s = make(spec, rm->options);
    if (!s)
        return ll_xa__say(rm, XAER_RMERR, LLADD_NO_MEMORY, "out of memory for a database");
    s->next = ll_xa__all.stores;
    ll_xa__all.stores = s;
    begin_opening(s);
    int rc = load_plugins(s, &err);
    if (!rc)
        rc = open_db(s, &err);
    end_opening(s);
    if (!rc) {
        s->refs = 1;
        *out = s;
        return XA_OK;
    }
    unlist(s);
    destroy(s);
    return failed(rm, &err);
}

static bool in_use(struct ll_xa__store *s)
{
    for (size_t i = 0; i < s->n_buckets; i++)
        for (struct ll_xa__branch *b = s->buckets[i]; b; b = b->next)
            if (ll_xa__active(b) || b->busy)
                return true;
    return false;
}

int ll_xa__store_reopen(struct ll_xa__rm *rm)
{
    struct ll_xa__store *s = rm->store;
    struct lladd_error err = LLADD_ERROR_INIT;
    while (s->opening)
        lladd_cond_wait(&ll_xa__all.opened, &ll_xa__all.mutex);
    if (ll_xa__healthy(rm) == XA_OK)
        return XA_OK; /* another thread has reopened the database */
    if (in_use(s))
        return ll_xa__say(rm, XAER_RMFAIL, LLADD_BUSY,
                          "threads are still active in branches of the failed handle");
    for (struct ll_xa__rm *other = ll_xa__all.rms; other; other = other->next)
        if (other->store == s)
            ll_xa__let_go(other, 0);
    ll_xa__branches_free(s); /* the mutex guards the lists of associations */
    begin_opening(s);
    close_db(s);
    int rc = open_db(s, &err);
    end_opening(s);
    return rc ? ll_xa__say_error(rm, XAER_RMFAIL, &err) : XA_OK;
}
