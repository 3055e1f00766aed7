/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unit: the crash units, i.e. what a crash leaves undetermined, and the variants of each unit.
 *
 *   names      which of the pending creations, renames and removals have arrived
 *   log        where the pending log ends, which sector is missing, or which sector alone arrived
 *   data       of one page, or of one file that is neither log nor pages: how many of the pending
 *              writes have arrived, and which sectors of the last write
 *   size       of one file: which of its sizes since the last sync has arrived
 *
 * The order of a unit's variants depends only on the world, so that a token can name a variant by
 * its number. In variant 0 nothing of the unit has arrived. Then come the variants in which no part
 * of the trace's last call has arrived. From variant `fresh` on, a part of this call has arrived.
 * The last variants of the log, from `fine` on, are the cuts inside a record. The explorer visits
 * the world after every call. In each world it takes, one after the other, the units that contain a
 * part of the last call. Of such a unit it enumerates only the variants from `fresh` on: it has
 * visited the others after an earlier call.
 *
 * A variant that leaves the same bytes as another variant is left out where that is easy to detect:
 * sectors that do not differ are not torn, and unchanged bytes are not cut apart.
 */
#include "sim/sim_private.h"

enum { ALL_SUBSETS_OF = 4, RANDOM_TEARS = 16, NAME_BITS = 64 };

static struct ll_sim_variant *add_variant(struct ll_sim_units *us, struct ll_sim_unit *u,
                                          unsigned kind, uint32_t count)
{
    struct ll_sim_variant *v = ll_sim_grow(us->arena, u->variants, u->n, &u->n_capacity, sizeof *v);
    if (!v)
        return NULL;
    u->variants = v;
    v = &v[u->n++];
    *v = (struct ll_sim_variant){.kind = (uint8_t)kind, .count = count};
    return v;
}

/* ---- finding the units ------------------------------------------------------------------- */

static struct ll_sim_unit *unit_for(struct ll_sim_units *us, unsigned kind, uint32_t inode,
                                    uint64_t page)
{
    for (uint32_t i = 0; i < us->count; i++) {
        struct ll_sim_unit *u = &us->at[i];
        if (u->kind == kind && u->inode == inode && u->page == page)
            return u;
    }
    struct ll_sim_unit *at = ll_sim_grow(us->arena, us->at, us->count, &us->capacity, sizeof *at);
    if (!at)
        return NULL;
    us->at = at;
    at = &at[us->count++];
    *at = (struct ll_sim_unit){.kind = (uint8_t)kind, .inode = inode, .page = page};
    return at;
}

static int give(struct ll_sim_units *us, struct ll_sim_unit *u, uint32_t op, bool fresh)
{
    if (!u)
        return LLADD_NO_MEMORY;
    uint32_t *ops = ll_sim_grow(us->arena, u->ops, u->n_ops, &u->ops_capacity, sizeof *ops);
    if (!ops)
        return LLADD_NO_MEMORY;
    u->ops = ops;
    ops[u->n_ops++] = op;
    u->file = us->world->ops[op].file;
    u->newest = fresh;
    return 0;
}

/* Returns the size that the operation's file had when the operation was issued. */
static uint64_t size_before(const struct ll_sim_world *w, uint32_t op)
{
    uint64_t size = w->image.inode[w->ops[op].inode]->size;
    for (uint32_t i = 0; i < op; i++) {
        const struct ll_sim_op *o = &w->ops[i];
        if (o->inode != w->ops[op].inode)
            continue;
        if (o->kind == LL_SIM_TRUNCATE || (o->kind == LL_SIM_WRITE && o->off + o->len > size))
            size = o->kind == LL_SIM_TRUNCATE ? o->off : o->off + o->len;
    }
    return size;
}

static int place_op(struct lladd_sim *sim, struct ll_sim_units *us, uint32_t i)
{
    const struct ll_sim_world *w = us->world;
    const struct ll_sim_op *op = &w->ops[i];
    bool fresh = i + w->fresh_ops >= w->n_ops;
    if (op->gone)
        return 0; /* the operation never arrives */
    if (op->kind != LL_SIM_WRITE && op->kind != LL_SIM_TRUNCATE)
        return give(us, unit_for(us, LL_SIM_UNIT_NAMES, 0, 0), i, fresh);
    uint64_t size = size_before(w, i);
    int rc = 0;
    if (op->kind == LL_SIM_TRUNCATE ? op->off != size : op->off + op->len > size)
        rc = give(us, unit_for(us, LL_SIM_UNIT_SIZE, op->inode, 0), i, fresh);
    if (rc || op->kind == LL_SIM_TRUNCATE)
        return rc;
    if (op->file == LL_SIM_LOG || op->file == LL_SIM_LOG_NEW)
        return give(us, unit_for(us, LL_SIM_UNIT_LOG, 0, 0), i, fresh);
    uint64_t page = op->file == LL_SIM_PAGES ? op->off / sim->page_size : 0;
    return give(us, unit_for(us, LL_SIM_UNIT_DATA, op->inode, page), i, fresh);
}

int ll_sim_units_of(struct lladd_sim *sim, struct ll_sim_arena *a, const struct ll_sim_world *w,
                    bool fine, struct ll_sim_units *out)
{
    *out = (struct ll_sim_units){.arena = a, .world = w, .fine = fine};
    for (uint32_t i = 0; i < w->n_ops; i++) {
        int rc = place_op(sim, out, i);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- names ------------------------------------------------------------------------------- */

/* Should this combination be tried? Not if the rename of a file has arrived and the creation of the
 * file has not: the effect is the same as if both had arrived. */
static bool sensible(const struct ll_sim_units *us, const struct ll_sim_unit *u, uint64_t mask)
{
    for (uint32_t i = 0; i < u->n_ops && i < NAME_BITS; i++) {
        const struct ll_sim_op *op = &us->world->ops[u->ops[i]];
        if (op->kind != LL_SIM_RENAME || !(mask >> i & 1))
            continue;
        for (uint32_t j = 0; j < i; j++) {
            const struct ll_sim_op *made = &us->world->ops[u->ops[j]];
            if (made->kind == LL_SIM_CREATE && made->inode == op->inode && !(mask >> j & 1))
                return false;
        }
    }
    return true;
}

static int add_names(struct ll_sim_units *us, struct ll_sim_unit *u, uint64_t mask)
{
    if (!sensible(us, u, mask))
        return 0;
    for (uint32_t i = 0; i < u->n; i++)
        if (u->variants[i].mask[0] == mask)
            return 0;
    struct ll_sim_variant *v = add_variant(us, u, LL_SIM_V_NAMES, 0);
    if (!v)
        return LLADD_NO_MEMORY;
    v->mask[0] = mask;
    return 0;
}

/* Adds the combinations with the last operation (`last`), or those without it. */
static int names_half(struct ll_sim_units *us, struct ll_sim_unit *u, uint32_t n, bool last)
{
    uint64_t top = (uint64_t)1 << (n - 1);
    uint64_t below = top - 1, plus = last ? top : 0;
    int rc = 0;
    if (n <= ALL_SUBSETS_OF) {
        for (uint64_t mask = 0; !rc && mask <= below; mask++)
            rc = add_names(us, u, mask | plus);
        return rc;
    }
    rc = add_names(us, u, plus);
    for (uint32_t i = 1; !rc && i < n; i++) /* the first i operations */
        rc = add_names(us, u, (((uint64_t)1 << i) - 1) | plus);
    for (uint32_t i = 0; !rc && i + 1 < n; i++) { /* all but operation i; operation i alone */
        rc = add_names(us, u, (below & ~((uint64_t)1 << i)) | plus);
        if (!rc)
            rc = add_names(us, u, ((uint64_t)1 << i) | plus);
    }
    return rc;
}

static int names_variants(struct ll_sim_units *us, struct ll_sim_unit *u)
{
    uint32_t n = u->n_ops < NAME_BITS ? u->n_ops : NAME_BITS;
    int rc = names_half(us, u, n, false);
    u->fresh = u->n;
    if (!rc)
        rc = names_half(us, u, n, true);
    if (!u->newest)
        u->fresh = u->n;
    u->fine = u->n;
    return rc;
}

static int names_apply(struct ll_sim_arena *a, const struct ll_sim_units *us,
                       const struct ll_sim_unit *u, uint64_t mask, struct ll_sim_image *image)
{
    for (uint32_t i = 0; i < u->n_ops; i++) {
        uint32_t bit = i < NAME_BITS ? i : NAME_BITS - 1;
        if (!(mask >> bit & 1))
            continue;
        int rc = ll_sim_apply_name(a, image, &us->world->ops[u->ops[i]]);
        if (rc)
            return rc;
    }
    return 0;
}

/* ---- sizes ------------------------------------------------------------------------------- */

static int size_variants(struct ll_sim_units *us, struct ll_sim_unit *u)
{
    for (uint32_t i = 0; i <= u->n_ops; i++)
        if (!add_variant(us, u, LL_SIM_V_PREFIX, i))
            return LLADD_NO_MEMORY;
    u->fresh = u->newest ? u->n - 1 : u->n;
    u->fine = u->n;
    return 0;
}

static int size_apply(struct ll_sim_arena *a, const struct ll_sim_units *us,
                      const struct ll_sim_unit *u, uint32_t count, struct ll_sim_image *image,
                      bool hashed)
{
    if (count == 0)
        return 0;
    const struct ll_sim_op *op = &us->world->ops[u->ops[count - 1]];
    struct ll_sim_inode *inode = ll_sim_own(a, image, u->inode);
    uint64_t size = op->kind == LL_SIM_TRUNCATE ? op->off : op->off + op->len;
    return inode ? ll_sim_set_size(a, inode, size, hashed) : LLADD_NO_MEMORY;
}

/* ---- data -------------------------------------------------------------------------------- */

/* Returns how many bytes of the last operation one bit of the mask stands for. */
static uint32_t granule_of(const struct ll_sim_op *op)
{
    uint64_t span = op->off % LL_SIM_SECTOR + op->len;
    uint64_t g = LL_SIM_SECTOR;
    while ((span + g - 1) / g > LL_SIM_MASK_BITS)
        g *= 2;
    return (uint32_t)g;
}

/* Sets [*from, *to) to the part of the operation that bit i stands for. Returns false if the part
 * lies beyond the operation's end. */
static bool part_of(const struct ll_sim_op *op, uint32_t i, uint32_t *from, uint32_t *to)
{
    uint32_t g = granule_of(op), into = (uint32_t)(op->off % LL_SIM_SECTOR);
    uint64_t begin = (uint64_t)i * g, end = begin + g;
    *from = begin > into ? (uint32_t)(begin - into) : 0;
    *to = end - into < op->len ? (uint32_t)(end - into) : op->len;
    return begin < (uint64_t)into + op->len;
}

struct tearing {
    struct ll_sim_units *us;
    struct ll_sim_unit *u;
    uint32_t differ[LL_SIM_MASK_BITS]; /* the bits of the parts that differ */
    uint32_t n;
    uint32_t count; /* number of earlier operations that have arrived */
};

/* Finds those parts of the last operation that change bytes, if only the first `count` operations
 * have arrived before it. */
static int find_differing(struct tearing *t)
{
    const struct ll_sim_world *w = t->us->world;
    const struct ll_sim_op *last = &w->ops[t->u->ops[t->u->n_ops - 1]];
    unsigned char *below = ll_sim_take(t->us->arena, last->len);
    if (!below)
        return LLADD_NO_MEMORY;
    size_t n = ll_sim_get(w->image.inode[last->inode], last->off, below, last->len);
    memset(below + n, 0, last->len - n);
    for (uint32_t i = 0; i < t->count; i++) {
        const struct ll_sim_op *op = &w->ops[t->u->ops[i]];
        uint64_t from = op->off > last->off ? op->off : last->off;
        uint64_t end = op->off + op->len, to = last->off + last->len;
        to = end < to ? end : to;
        if (from < to)
            memcpy(below + (from - last->off), op->data + (from - op->off), (size_t)(to - from));
    }
    uint32_t from, to;
    t->n = 0;
    for (uint32_t i = 0; i < LL_SIM_MASK_BITS && part_of(last, i, &from, &to); i++)
        if (memcmp(below + from, last->data + from, to - from) != 0)
            t->differ[t->n++] = i;
    return 0;
}

/* Adds a variant in which the differing parts with a bit in `chosen` have arrived. */
static int add_torn(struct tearing *t, const uint64_t chosen[LL_SIM_MASK_WORDS])
{
    uint64_t mask[LL_SIM_MASK_WORDS] = {0};
    for (uint32_t i = 0; i < t->n; i++)
        if (chosen[i / 64] >> (i % 64) & 1)
            mask[t->differ[i] / 64] |= (uint64_t)1 << (t->differ[i] % 64);
    for (uint32_t i = t->u->fresh; i < t->u->n; i++) {
        const struct ll_sim_variant *v = &t->u->variants[i];
        if (v->kind == LL_SIM_V_TORN && v->count == t->count && v->mask[0] == mask[0] &&
            v->mask[1] == mask[1])
            return 0;
    }
    struct ll_sim_variant *v = add_variant(t->us, t->u, LL_SIM_V_TORN, t->count);
    if (!v)
        return LLADD_NO_MEMORY;
    memcpy(v->mask, mask, sizeof mask);
    return 0;
}

/* Adds a variant with the differing parts a to b-1 or, if `inverse` is set, with all other
 * differing parts. */
static int add_range(struct tearing *t, uint32_t a, uint32_t b, bool inverse)
{
    uint64_t chosen[LL_SIM_MASK_WORDS] = {0};
    for (uint32_t i = 0; i < t->n; i++)
        if ((i >= a && i < b) != inverse)
            chosen[i / 64] |= (uint64_t)1 << (i % 64);
    return add_torn(t, chosen);
}

static int add_tears(struct lladd_sim *sim, struct tearing *t)
{
    int rc = find_differing(t);
    if (rc || t->n < 2)
        return rc;
    if (t->n <= ALL_SUBSETS_OF) {
        for (uint64_t m = 1; !rc && m + 1 < (uint64_t)1 << t->n; m++)
            rc = add_torn(t, (uint64_t[LL_SIM_MASK_WORDS]){m});
        return rc;
    }
    for (uint32_t i = 1; !rc && i < t->n; i++) {
        rc = add_range(t, 0, i, false); /* the first i parts */
        if (!rc)
            rc = add_range(t, i, t->n, false); /* all but the first i parts */
    }
    for (uint32_t i = 1; !rc && i + 1 < t->n; i++) {
        rc = add_range(t, i, i + 1, true); /* all but part i */
        if (!rc)
            rc = add_range(t, i, i + 1, false); /* part i alone */
    }
    uint64_t r = ll_sim_mix(sim->bounds.seed, t->n);
    for (int i = 0; !rc && i < RANDOM_TEARS; i++) {
        uint64_t some[LL_SIM_MASK_WORDS];
        some[0] = r = ll_sim_mix(r, 1);
        some[1] = r = ll_sim_mix(r, 2);
        rc = add_torn(t, some);
    }
    return rc;
}

static int data_variants(struct lladd_sim *sim, struct ll_sim_units *us, struct ll_sim_unit *u)
{
    for (uint32_t i = 0; i < u->n_ops; i++)
        if (!add_variant(us, u, LL_SIM_V_PREFIX, i))
            return LLADD_NO_MEMORY;
    u->fresh = u->n;
    if (!add_variant(us, u, LL_SIM_V_PREFIX, u->n_ops))
        return LLADD_NO_MEMORY;
    bool tears = u->file != LL_SIM_PAGES || !us->world->ops[u->ops[u->n_ops - 1]].whole;
    int rc = 0;
    /* The last operation is torn over each earlier version. A variant in which it has arrived
     * whole, but not all operations before it have, is stored as a tear with all parts. */
    for (uint32_t count = u->n_ops; tears && !rc && count-- > 0;) {
        struct tearing t = {.us = us, .u = u, .count = count};
        rc = add_tears(sim, &t);
        if (!rc && count + 1 < u->n_ops && t.n > 0)
            rc = add_range(&t, 0, t.n, false);
    }
    if (!u->newest)
        u->fresh = u->n;
    u->fine = u->n;
    return rc;
}

/* Writes bytes [from, to) of the operation, as far as they lie within the file's size. */
static int put_within(struct ll_sim_arena *a, struct ll_sim_inode *inode,
                      const struct ll_sim_op *op, uint32_t from, uint32_t to, bool hashed)
{
    uint64_t at = op->off + from;
    if (at >= inode->size || from >= to)
        return 0;
    uint64_t left = inode->size - at;
    size_t len = to - from < left ? to - from : (size_t)left;
    return ll_sim_put(a, inode, at, op->data + from, len, true, hashed);
}

static int data_apply(struct ll_sim_arena *a, const struct ll_sim_units *us,
                      const struct ll_sim_unit *u, const struct ll_sim_variant *v,
                      struct ll_sim_image *image, bool hashed)
{
    if (v->kind == LL_SIM_V_PREFIX && v->count == 0)
        return 0;
    struct ll_sim_inode *inode = ll_sim_own(a, image, u->inode);
    int rc = inode ? 0 : LLADD_NO_MEMORY;
    for (uint32_t i = 0; !rc && i < v->count; i++) {
        const struct ll_sim_op *op = &us->world->ops[u->ops[i]];
        rc = put_within(a, inode, op, 0, op->len, hashed);
    }
    if (v->kind != LL_SIM_V_TORN)
        return rc;
    const struct ll_sim_op *last = &us->world->ops[u->ops[u->n_ops - 1]];
    uint32_t from, to;
    for (uint32_t i = 0; !rc && i < LL_SIM_MASK_BITS && part_of(last, i, &from, &to); i++)
        if (v->mask[i / 64] >> (i % 64) & 1)
            rc = put_within(a, inode, last, from, to, hashed);
    return rc;
}

/* ---- the log ----------------------------------------------------------------------------- */

/* A position in the pending log is an offset into the bytes of all its operations, one after the
 * other. */
struct cutting {
    struct ll_sim_units *us;
    struct ll_sim_unit *u;
    uint32_t total, fresh_from; /* number of bytes; where the last call's bytes begin (`total`:
                                 * none) */
    unsigned char *at;          /* for each position, flags for the kinds of cuts there */
};
enum { CUT_RECORD = 1, CUT_SECTOR = 2, CUT_BYTE = 4, BLOCK_MAX = 65536, BLOCK_HEADER = 64 };

/* Marks the beginnings of records (docs/disk-format.md). A record has its length at byte 4. Block
 * headers are skipped. Bytes that are not a valid record are marked at every multiple of 8. */
static void mark_records(struct cutting *c)
{
    const struct ll_sim_world *w = c->us->world;
    uint64_t left = 0; /* bytes left of the record */
    uint32_t base = 0;
    for (uint32_t i = 0; i < c->u->n_ops; i++) {
        const struct ll_sim_op *op = &w->ops[c->u->ops[i]];
        uint64_t size = w->image.inode[op->inode]->size;
        uint64_t block = size && size < BLOCK_MAX ? size : BLOCK_MAX;
        for (uint32_t p = 0; p + 8 <= op->len;) {
            uint64_t into = (op->off + p) % block;
            if (into < BLOCK_HEADER) {
                p += (uint32_t)(BLOCK_HEADER - into);
                continue;
            }
            if (left == 0) {
                c->at[base + p] |= CUT_RECORD;
                left = lladd_get32(op->data + p + 4) & 0xffffffu;
                left = left < 8 || left % 8 ? 8 : left;
            }
            uint64_t step = block - into;
            step = left < step ? left : step;
            p += (uint32_t)step;
            left -= step;
        }
        base += op->len;
    }
}

/* Marks sector boundaries, and the position after each byte that differs from the old contents. */
static int mark_bytes(struct cutting *c)
{
    const struct ll_sim_world *w = c->us->world;
    uint32_t base = 0;
    for (uint32_t i = 0; i < c->u->n_ops; i++) {
        const struct ll_sim_op *op = &w->ops[c->u->ops[i]];
        unsigned char *old = ll_sim_take(c->us->arena, op->len);
        if (!old)
            return LLADD_NO_MEMORY;
        size_t n = ll_sim_get(w->image.inode[op->inode], op->off, old, op->len);
        memset(old + n, 0, op->len - n);
        for (uint32_t p = 0; p < op->len; p++) {
            if ((op->off + p) % LL_SIM_SECTOR == 0 || p == 0)
                c->at[base + p] |= CUT_SECTOR;
            if (old[p] != op->data[p])
                c->at[base + p + 1] |= CUT_BYTE;
        }
        base += op->len;
    }
    return 0;
}

/* Adds cuts at those positions in (from, to] that have one of the flags `with` and none of
 * `without`. */
static int add_cuts(struct cutting *c, uint32_t from, uint32_t to, int with, int without)
{
    for (uint32_t p = from + 1; p <= to; p++)
        if (c->at[p] & with && !(c->at[p] & without) && p < c->total &&
            !add_variant(c->us, c->u, LL_SIM_V_CUT, p))
            return LLADD_NO_MEMORY;
    return 0;
}

/* Adds variants with one sector missing, and with one sector alone. (A missing last sector, and the
 * first sector alone, are cuts.) With `fresh`, adds only variants in which a part of the last call
 * has arrived. */
static int add_sectors(struct cutting *c, bool fresh)
{
    for (uint32_t a = 0; a < c->total;) {
        uint32_t b = a + 1;
        while (b < c->total && !(c->at[b] & CUT_SECTOR))
            b++;
        struct ll_sim_variant *hole = NULL, *alone = NULL;
        if (b < c->total) {
            hole = add_variant(c->us, c->u, LL_SIM_V_HOLE, a);
            if (!hole)
                return LLADD_NO_MEMORY;
            hole->mask[0] = b;
        }
        if (a > 0 && (!fresh || b > c->fresh_from)) {
            alone = add_variant(c->us, c->u, LL_SIM_V_SURVIVOR, a);
            if (!alone)
                return LLADD_NO_MEMORY;
            alone->mask[0] = b;
        }
        a = b;
    }
    return 0;
}

static int log_variants(struct ll_sim_units *us, struct ll_sim_unit *u)
{
    struct cutting c = {.us = us, .u = u};
    for (uint32_t i = 0; i < u->n_ops; i++) {
        c.fresh_from = c.total;
        c.total += us->world->ops[u->ops[i]].len;
    }
    if (!u->newest)
        c.fresh_from = c.total;
    c.at = ll_sim_take(us->arena, c.total + 1);
    if (!c.at)
        return LLADD_NO_MEMORY;
    memset(c.at, 0, c.total + 1);
    mark_records(&c);
    int rc = mark_bytes(&c);
    const int coarse = CUT_RECORD | CUT_SECTOR;
    if (!rc && !add_variant(us, u, LL_SIM_V_CUT, 0))
        rc = LLADD_NO_MEMORY;
    if (!rc)
        rc = add_cuts(&c, 0, c.fresh_from, coarse, 0);
    u->fresh = u->newest ? u->n : UINT32_MAX;
    if (!rc && !add_variant(us, u, LL_SIM_V_CUT, c.total))
        rc = LLADD_NO_MEMORY;
    if (!rc)
        rc = add_cuts(&c, c.fresh_from, c.total, coarse, 0);
    if (!rc)
        rc = add_sectors(&c, u->newest);
    u->fine = u->n;
    if (!rc && us->fine)
        rc = add_cuts(&c, c.fresh_from, c.total, CUT_BYTE, coarse);
    if (!u->newest)
        u->fresh = u->n;
    return rc;
}

/* Says which pending bytes have arrived in a variant: [*from, *to), or all others if *inverse is
 * set. */
static void log_range(const struct ll_sim_variant *v, uint32_t *from, uint32_t *to, bool *inverse)
{
    *inverse = v->kind == LL_SIM_V_HOLE;
    *from = v->kind == LL_SIM_V_CUT ? 0 : v->count;
    *to = v->kind == LL_SIM_V_CUT ? v->count : (uint32_t)v->mask[0];
}

static int log_apply(struct ll_sim_arena *a, const struct ll_sim_units *us,
                     const struct ll_sim_unit *u, const struct ll_sim_variant *v,
                     struct ll_sim_image *image, bool hashed)
{
    uint32_t from, to, base = 0;
    bool inverse;
    int rc = 0;
    log_range(v, &from, &to, &inverse);
    for (uint32_t i = 0; !rc && i < u->n_ops; i++) {
        const struct ll_sim_op *op = &us->world->ops[u->ops[i]];
        uint32_t end = base + op->len;
        uint32_t f = from < base ? 0 : from < end ? from - base : op->len;
        uint32_t t = to < base ? 0 : to < end ? to - base : op->len;
        if (inverse ? f > 0 || t < op->len : f < t) {
            struct ll_sim_inode *inode = ll_sim_own(a, image, op->inode);
            if (!inode)
                return LLADD_NO_MEMORY;
            rc = put_within(a, inode, op, inverse ? 0 : f, inverse ? f : t, hashed);
            if (!rc && inverse)
                rc = put_within(a, inode, op, t, op->len, hashed);
        }
        base = end;
    }
    return rc;
}

/* ---- entry points ------------------------------------------------------------------------ */

int ll_sim_unit_variants(struct lladd_sim *sim, struct ll_sim_units *us, struct ll_sim_unit *u)
{
    if (u->made)
        return 0;
    u->made = true;
    switch (u->kind) {
    case LL_SIM_UNIT_NAMES:
        return names_variants(us, u);
    case LL_SIM_UNIT_SIZE:
        return size_variants(us, u);
    case LL_SIM_UNIT_LOG:
        return log_variants(us, u);
    default:
        return data_variants(sim, us, u);
    }
}

int ll_sim_unit_apply(struct ll_sim_arena *a, const struct ll_sim_units *us,
                      const struct ll_sim_unit *u, uint32_t number, struct ll_sim_image *image,
                      bool hashed)
{
    const struct ll_sim_variant *v = &u->variants[number];
    switch (u->kind) {
    case LL_SIM_UNIT_NAMES:
        return names_apply(a, us, u, v->mask[0], image);
    case LL_SIM_UNIT_SIZE:
        return size_apply(a, us, u, v->count, image, hashed);
    case LL_SIM_UNIT_LOG:
        return log_apply(a, us, u, v, image, hashed);
    default:
        return data_apply(a, us, u, v, image, hashed);
    }
}

/* ---- in words ---------------------------------------------------------------------------- */

static const char *name_of(const struct lladd_sim *sim, const struct ll_sim_op *op)
{
    return sim->names.at[op->name].text;
}

static int describe_names(const struct lladd_sim *sim, const struct ll_sim_units *us,
                          const struct ll_sim_unit *u, uint64_t mask, struct lladd_sink *sink)
{
    static const char *const verbs[] = {[LL_SIM_CREATE] = "creation of",
                                        [LL_SIM_MKDIR] = "creation of directory",
                                        [LL_SIM_RENAME] = "renaming of",
                                        [LL_SIM_UNLINK] = "removal of"};
    int rc = 0;
    for (uint32_t i = 0; !rc && i < u->n_ops; i++) {
        const struct ll_sim_op *op = &us->world->ops[u->ops[i]];
        bool there = mask >> (i < NAME_BITS ? i : NAME_BITS - 1) & 1;
        rc = lladd_sink_printf(sink, "%s%s %s%s%s: %s", i ? "; " : "", verbs[op->kind],
                               name_of(sim, op), op->kind == LL_SIM_RENAME ? " to " : "",
                               op->kind == LL_SIM_RENAME ? sim->names.at[op->to].text : "",
                               there ? "there" : "lost");
    }
    return rc;
}

static int describe_torn(const struct ll_sim_op *last, const struct ll_sim_variant *v,
                         struct lladd_sink *sink)
{
    uint32_t from, to;
    int rc = lladd_sink_printf(sink, ", and of the last one the bytes");
    for (uint32_t i = 0; !rc && i < LL_SIM_MASK_BITS && part_of(last, i, &from, &to); i++)
        if (v->mask[i / 64] >> (i % 64) & 1)
            rc = lladd_sink_printf(sink, " %u-%u", from, to - 1);
    return rc;
}

int ll_sim_unit_describe(const struct lladd_sim *sim, const struct ll_sim_units *us,
                         const struct ll_sim_unit *u, uint32_t number, struct lladd_sink *sink)
{
    const struct ll_sim_variant *v = &u->variants[number];
    const struct ll_sim_op *last = &us->world->ops[u->ops[u->n_ops - 1]];
    uint32_t from, to, total = 0;
    bool inverse;
    int rc;
    switch (u->kind) {
    case LL_SIM_UNIT_NAMES:
        return describe_names(sim, us, u, v->mask[0], sink);
    case LL_SIM_UNIT_SIZE:
        return lladd_sink_printf(sink, "size of %s: as after %u of %u changes", name_of(sim, last),
                                 v->count, u->n_ops);
    case LL_SIM_UNIT_LOG:
        for (uint32_t i = 0; i < u->n_ops; i++)
            total += us->world->ops[u->ops[i]].len;
        log_range(v, &from, &to, &inverse);
        return lladd_sink_printf(sink, "log: of %u pending bytes %s%u to %u arrived", total,
                                 inverse ? "all but " : "", from, to);
    default:
        break;
    }
    if (u->file == LL_SIM_PAGES)
        rc = lladd_sink_printf(sink, "page %llu: ", (unsigned long long)u->page);
    else
        rc = lladd_sink_printf(sink, "%s: ", name_of(sim, last));
    if (!rc)
        rc = lladd_sink_printf(sink, "%u of %u pending writes arrived", v->count, u->n_ops);
    return rc || v->kind != LL_SIM_V_TORN ? rc : describe_torn(last, v, sink);
}
