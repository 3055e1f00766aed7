/* SPDX-License-Identifier: BSD-2-Clause */
/* Acts: what the n-th transaction of a worker does, and the contents of the database after it. */
#include "support/fixtures.h"
#include "world.h"

#include <lladd/bytes.h>
#include <stdlib.h>
#include <string.h>

static uint64_t below(uint64_t *rng, uint64_t n)
{
    return seeded_next(rng) % n;
}

struct key key_of(char kind, uint32_t a, uint32_t b)
{
    struct key k;
    k.bytes[0] = (unsigned char)kind;
    lladd_put32(k.bytes + 1, a);
    lladd_put32(k.bytes + 5, b);
    return k;
}

static struct act draw_act(const struct plan *p, uint64_t *rng)
{
    struct act a = {ACT_PUT, false, (uint32_t)below(rng, KEYS), 0};
    switch (below(rng, 12)) {
    case 0:
        a.kind = ACT_DELETE;
        break;
    case 1:
        a.kind = ACT_ADD;
        a.len = 1 + (uint32_t)below(rng, 1000);
        break;
    case 2:
        a.kind = ACT_SET;
        a.len = 1 + (uint32_t)below(rng, 64);
        a.at = (uint32_t)below(rng, BYTES - a.len + 1);
        break;
    case 3:
    case 4:
        a.kind = p->features & WITH_JOURNAL ? ACT_APPEND : ACT_PUT;
        break;
    case 5:
        a.kind = p->features & WITH_BLOBS ? (enum act_kind)(ACT_BLOB_WRITE + below(rng, 3))
                                          : ACT_PUT;
        break;
    case 6:
    case 7:
        a.kind = !(p->features & WITH_MANAGED) ? ACT_PUT : below(rng, 4) ? ACT_ROW : ACT_ROW_DELETE;
        break;
    default:
        break;
    }
    if (a.kind == ACT_PUT)
        a.len = (uint32_t)below(rng, p->value_max);
    if (a.kind == ACT_APPEND)
        a.len = 8 + (uint32_t)below(rng, p->entry_max);
    if (a.kind == ACT_BLOB_WRITE || a.kind == ACT_BLOB_REPLACE || a.kind == ACT_BLOB_CUT) {
        a.at = (uint32_t)below(rng, p->blob_max);
        a.len = a.kind == ACT_BLOB_CUT ? 0 : 1 + (uint32_t)below(rng, p->blob_max);
    }
    if (a.kind == ACT_ROW || a.kind == ACT_ROW_DELETE)
        a.at = (uint32_t)below(rng, ROWS);
    return a;
}

unsigned acts_of(const struct plan *p, unsigned w, uint32_t n, struct act acts[ACTS])
{
    uint64_t rng = mix(p->seed, 'a', w, n);
    unsigned count = 0, before = (unsigned)below(&rng, 4), after = 1 + (unsigned)below(&rng, 5);
    unsigned detour = below(&rng, 3) ? 0 : 1 + (unsigned)below(&rng, 4);
    for (unsigned i = 0; i < before + detour + after; i++) {
        acts[count] = draw_act(p, &rng);
        acts[count++].detour = i >= before && i < before + detour;
    }
    if ((p->features & WITH_JOURNAL) && below(&rng, p->keep_journal) == 0)
        acts[count++] = (struct act){.kind = ACT_DISCARD};
    return count;
}

void act_bytes(const struct plan *p, unsigned w, uint32_t n, unsigned index, const struct act *a,
               void *bytes)
{
    seeded_fill(mix(p->seed, 'b' + w, n, index), bytes, a->len);
    if (a->kind == ACT_APPEND)
        lladd_put32(bytes, n);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void blob_resize(struct model *m, uint32_t len)
{
    if (len > m->blob_len) {
        m->blob = realloc(m->blob, len);
        if (!m->blob)
            abort();
        memset(m->blob + m->blob_len, 0, len - m->blob_len);
    }
    m->blob_len = len;
}

static void apply_blob(const struct plan *p, struct model *m, unsigned w, uint32_t n, unsigned i,
                       const struct act *a)
{
    uint32_t at = a->kind == ACT_BLOB_REPLACE ? 0 : a->at % (m->blob_len + 1);
    if (a->kind != ACT_BLOB_WRITE)
        blob_resize(m, at);
    if (a->kind == ACT_BLOB_CUT)
        return;
    if (at + a->len > m->blob_len)
        blob_resize(m, at + a->len);
    act_bytes(p, w, n, i, a, m->blob + at);
}

static void apply(const struct plan *p, struct model *m, unsigned w, uint32_t n, unsigned i,
                  const struct act *a)
{
    switch (a->kind) {
    case ACT_PUT:
        m->value_n[a->at] = n;
        m->value_act[a->at] = i;
        break;
    case ACT_DELETE:
        m->value_n[a->at] = 0;
        break;
    case ACT_ADD:
        m->counter += a->len;
        break;
    case ACT_SET:
        act_bytes(p, w, n, i, a, m->bytes + a->at);
        break;
    case ACT_DISCARD:
        m->journal_from = n;
        break;
    case ACT_BLOB_WRITE:
    case ACT_BLOB_CUT:
    case ACT_BLOB_REPLACE:
        apply_blob(p, m, w, n, i, a);
        break;
    case ACT_ROW:
        m->row_n[a->at] = n;
        break;
    case ACT_ROW_DELETE:
        m->row_n[a->at] = 0;
        break;
    case ACT_APPEND: /* is derived from journal_from and the acts */
    case ACT_KINDS:
        break;
    }
}

void model_of(const struct plan *p, unsigned w, uint32_t n, struct model *out)
{
    memset(out, 0, sizeof *out);
    out->journal_from = 1;
    for (uint32_t k = 1; k <= n; k++) {
        struct act acts[ACTS];
        unsigned count = acts_of(p, w, k, acts);
        for (unsigned i = 0; i < count; i++) {
            if (!acts[i].detour)
                apply(p, out, w, k, i, &acts[i]);
        }
    }
}

void model_end(struct model *m)
{
    free(m->blob);
    m->blob = NULL;
}
