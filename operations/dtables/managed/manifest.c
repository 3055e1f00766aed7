/* SPDX-License-Identifier: BSD-2-Clause */
/* A table's manifest, which is the table's row in the catalogue. See docs/disk-format.md. */
#include "operations/dtables/managed/managed.h"

/* HEAD_2: with position.from and block_bytes, in version 2. */
enum { HEAD = 96, HEAD_2 = 112, RUN = 48, DOOMED = 8, TEXTS = 3 };

static bool is_version_2(const struct ll_manifest *m)
{
    return m->schedule == LLADD_MANAGED_LEVELS || m->flags || m->block_bytes;
}

bool ll_managed__block_bytes_ok(const struct ll_manifest *m)
{
    return m->block_bytes <= 1u << 20 && m->block_bytes % lladd_page_size(m->db) == 0;
}

static size_t length(const struct ll_manifest *m)
{
    size_t n = (is_version_2(m) ? HEAD_2 : HEAD) + (size_t)m->n_runs * RUN +
               (size_t)m->n_obsolete * DOOMED;
    for (int i = 0; i < TEXTS; i++)
        n += 4 + strlen(m->texts[i]);
    return n;
}

int ll_managed__manifest_put(const struct ll_manifest *m, unsigned char **out, size_t *len)
{
    *len = length(m);
    unsigned char *p = lladd_mem_alloc(m->db, *len);
    if (!p)
        return LLADD_NO_MEMORY;
    *out = p;
    bool second = is_version_2(m);
    memset(p, 0, second ? HEAD_2 : HEAD);
    p[0] = second ? LL_MANAGED_VERSION_2 : LL_MANAGED_VERSION;
    p[1] = (unsigned char)m->type;
    p[2] = (unsigned char)m->schedule;
    p[3] = (unsigned char)m->flags;
    lladd_put32(p + 4, m->n_runs);
    lladd_put32(p + 8, m->n_obsolete);
    lladd_put32(p + 12, m->every);
    const uint64_t numbers[] = {m->tag,         m->cutoff,     m->memory_bytes, m->max_rows,
                                m->interval_ns, m->generation, m->digests,      m->combines,
                                m->fresh};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        lladd_put64(p + 16 + 8 * i, numbers[i]);
    if (second) {
        lladd_put64(p + 88, m->position.commit);
        lladd_put64(p + 96, m->position.from);
        lladd_put32(p + 104, m->block_bytes);
    }
    p += second ? HEAD_2 : HEAD;
    for (int i = 0; i < TEXTS; i++) {
        size_t n = strlen(m->texts[i]);
        lladd_put32(p, (uint32_t)n);
        lladd_copy(p + 4, m->texts[i], n);
        p += 4 + n;
    }
    for (uint32_t i = 0; i < m->n_runs; i++, p += RUN) {
        const struct lladd_managed_run *r = &m->runs[i];
        const uint64_t of_run[] = {r->root.v, r->generation, r->rows,
                                   r->tombstones, r->bytes, r->pages};
        for (size_t k = 0; k < sizeof of_run / sizeof of_run[0]; k++)
            lladd_put64(p + 8 * k, of_run[k]);
    }
    for (uint32_t i = 0; i < m->n_obsolete; i++, p += DOOMED)
        lladd_put64(p, m->obsolete[i].v);
    return 0;
}

void ll_managed__manifest_free(struct ll_manifest *m)
{
    for (int i = 0; i < TEXTS; i++)
        lladd_mem_free(m->db, m->texts[i]);
    lladd_mem_free(m->db, m->runs);
    lladd_mem_free(m->db, m->obsolete);
    memset(m->texts, 0, sizeof m->texts);
    m->runs = NULL;
    m->obsolete = NULL;
}

static int damaged(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_BAD_RECORD, "invalid description of a managed table");
}

char *ll_managed__string(struct lladd_db *db, const void *bytes, size_t n)
{
    char *to = lladd_mem_alloc(db, n + 1);
    if (to) {
        lladd_copy(to, bytes, n);
        to[n] = 0;
    }
    return to;
}

static int get_lists(const unsigned char *p, struct ll_manifest *m)
{
    m->runs = lladd_mem_alloc(m->db, ((size_t)m->n_runs + 1) * sizeof *m->runs);
    m->obsolete = lladd_mem_alloc(m->db, ((size_t)m->n_obsolete + 1) * sizeof *m->obsolete);
    if (!m->runs || !m->obsolete)
        return LLADD_NO_MEMORY;
    for (uint32_t i = 0; i < m->n_runs; i++, p += RUN)
        m->runs[i] = (struct lladd_managed_run){.root = lladd_page_of(lladd_get64(p)),
                                                .generation = lladd_get64(p + 8),
                                                .rows = lladd_get64(p + 16),
                                                .tombstones = lladd_get64(p + 24),
                                                .bytes = lladd_get64(p + 32),
                                                .pages = lladd_get64(p + 40)};
    for (uint32_t i = 0; i < m->n_obsolete; i++, p += DOOMED)
        m->obsolete[i] = lladd_page_of(lladd_get64(p));
    return 0;
}

static int get(const unsigned char *p, size_t left, struct ll_manifest *m, struct lladd_error *err)
{
    uint64_t *const numbers[] = {&m->tag,         &m->cutoff,     &m->memory_bytes, &m->max_rows,
                                 &m->interval_ns, &m->generation, &m->digests,      &m->combines,
                                 &m->fresh};
    m->type = p[1];
    m->schedule = p[2];
    m->n_runs = lladd_get32(p + 4);
    m->n_obsolete = lladd_get32(p + 8);
    m->every = lladd_get32(p + 12);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        *numbers[i] = lladd_get64(p + 16 + 8 * i);
    bool second = p[0] == LL_MANAGED_VERSION_2;
    m->flags = p[3];
    m->position.commit = lladd_get64(p + 88);
    m->position.from = second ? lladd_get64(p + 96) : 0;
    m->block_bytes = second ? lladd_get32(p + 104) : 0;
    if (!lladd_dtable_type_name(m->type) || m->schedule > LLADD_MANAGED_LEVELS ||
        second != is_version_2(m) || m->flags > LLADD_MANAGED_UNLOGGED || m->every == 0 ||
        m->memory_bytes == 0 || (second && lladd_get32(p + 108)) ||
        !ll_managed__block_bytes_ok(m) ||
        (!m->flags && (m->position.commit || m->position.from)))
        return damaged(err);
    p += second ? HEAD_2 : HEAD;
    left -= second ? HEAD_2 : HEAD;
    for (int i = 0; i < TEXTS; i++) {
        size_t n = left >= 4 ? lladd_get32(p) : 0;
        if (left < 4 || n > left - 4 || memchr(p + 4, 0, n))
            return damaged(err);
        m->texts[i] = ll_managed__string(m->db, p + 4, n);
        if (!m->texts[i])
            return ll_managed__no_memory(err);
        p += 4 + n;
        left -= 4 + n;
    }
    if ((uint64_t)m->n_runs * RUN + (uint64_t)m->n_obsolete * DOOMED != left)
        return damaged(err);
    if (get_lists(p, m))
        return ll_managed__no_memory(err);
    for (uint32_t i = 0; i < m->n_runs; i++)
        if (m->runs[i].generation >= m->generation)
            return damaged(err);
    return 0;
}

int ll_managed__manifest_get(struct lladd_db *db, struct lladd_span s, struct ll_manifest *out,
                             struct lladd_error *err)
{
    const unsigned char *p = s.data;
    *out = (struct ll_manifest){.db = db};
    if (s.len && p[0] > LL_MANAGED_VERSION_2)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "a managed table was written by a newer version");
    if (s.len < HEAD || p[0] < LL_MANAGED_VERSION ||
        (p[0] == LL_MANAGED_VERSION_2 && s.len < HEAD_2))
        return damaged(err);
    int rc = get(p, s.len, out, err);
    if (rc)
        ll_managed__manifest_free(out);
    return rc;
}

int ll_managed__manifest_copy(const struct ll_manifest *m, uint32_t obsolete,
                              struct ll_manifest *out)
{
    *out = *m;
    memset(out->texts, 0, sizeof out->texts);
    out->runs = lladd_mem_alloc(m->db, ((size_t)m->n_runs + 2) * sizeof *m->runs);
    out->obsolete =
        lladd_mem_alloc(m->db, ((size_t)m->n_obsolete + obsolete + 1) * sizeof *m->obsolete);
    bool all = out->runs && out->obsolete;
    for (int i = 0; i < TEXTS; i++) {
        out->texts[i] = ll_managed__string(m->db, m->texts[i], strlen(m->texts[i]));
        all = all && out->texts[i];
    }
    if (!all) {
        ll_managed__manifest_free(out);
        return LLADD_NO_MEMORY;
    }
    if (m->n_runs)
        memcpy(out->runs, m->runs, m->n_runs * sizeof *m->runs);
    if (m->n_obsolete)
        memcpy(out->obsolete, m->obsolete, m->n_obsolete * sizeof *m->obsolete);
    return 0;
}
