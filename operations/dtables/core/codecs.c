/* SPDX-License-Identifier: BSD-2-Clause */
/* The codecs that columns of pages can be stored with (lladd/column_codec.h): the library's own
 * ones, and those that the application has registered. */
#include "operations/dtables/core/dtable.h"
#include "operations/dtables/multicolumn/codec.h"

#define CODEC(name) &ll_codec_##name,
static const struct lladd_codec *const built_in[] = {LL_CODECS(CODEC) NULL};
#undef CODEC

static bool is_called(const struct lladd_codec *c, const char *name, size_t len)
{
    return strlen(c->name) == len && memcmp(c->name, name, len) == 0;
}

/* Called under the mutex. */
static const struct lladd_codec *find(const struct ll_dtables *d, const char *name, size_t len)
{
    for (size_t i = 0; built_in[i]; i++)
        if (is_called(built_in[i], name, len))
            return built_in[i];
    for (size_t i = 0; i < d->n_codecs; i++)
        if (is_called(d->codecs[i], name, len))
            return d->codecs[i];
    return NULL;
}

const struct lladd_codec *lladd_codec_find(struct lladd_db *db, const char *name, size_t len)
{
    struct ll_dtables *d = ll_dtables_of(db);
    lladd_mutex_lock(&d->cache.mutex);
    const struct lladd_codec *found = find(d, name, len);
    lladd_mutex_unlock(&d->cache.mutex);
    return found;
}

static int add(struct ll_dtables *d, const struct lladd_codec *c, struct lladd_error *err)
{
    const struct lladd_codec *old = find(d, c->name, strlen(c->name));
    if (old == c)
        return 0;
    if (old)
        return lladd_error_set(err, LLADD_EXISTS, "another codec is called \"%s\"", c->name);
    if (ll_operations__grow(d->db, &d->codecs, d->n_codecs + 1, &d->cap_codecs, sizeof *d->codecs))
        return ll_dtable__no_memory(err);
    d->codecs[d->n_codecs++] = c;
    return 0;
}

int lladd_codec_add(struct lladd_db *db, const struct lladd_codec *c, struct lladd_error *err)
{
    enum { NAME_MAX_BYTES = 31 };
    struct ll_dtables *d = ll_dtables_of(db);
    TRY(lladd_check_process(db, err));
    if (c->struct_size != sizeof *c || !ll_dtable__good_name(c->name) ||
        strlen(c->name) > NAME_MAX_BYTES || c->version == 0 || !c->plan || !c->encode ||
        !c->check || !c->at || !c->decode)
        return lladd_error_set(err, LLADD_BAD_REGISTRATION,
                               "a codec needs struct_size, a valid name, a version, plan, encode, "
                               "check, at and decode");
    lladd_mutex_lock(&d->cache.mutex);
    int rc = add(d, c, err);
    lladd_mutex_unlock(&d->cache.mutex);
    return rc;
}
