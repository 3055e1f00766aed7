/* SPDX-License-Identifier: BSD-2-Clause */
/* bloom_dtable: a Bloom filter that answers most lookups of absent keys without asking the base
 * (Anvil paper, section 5.2).
 *
 * The filter has "bits_per_key" bits for each key; keys of tombstones count too. The bits of a key
 * are within one line of 64 bytes, so a lookup reads one line of the filter. The filter is in
 * memory while the table is open. With 10 bits per key, about one absent key in 80 is looked up in
 * the base. Cursors do not use the filter.
 *
 * For a key that is present, reading the filter only costs time, and usually a cache miss. After
 * about 128 consecutive lookups that found their keys, lookups skip the filter until a lookup finds
 * nothing. */
#include "operations/dtables/class/classes.h"

#include <lladd/extension.h>
#include <lladd/sync.h>

enum { LINE = 64, PROBES_MAX = 12, FOUND_MAX = 8, COUNTED = 16 };

struct builder {
    struct lladd_dtable_builder base;
    uint64_t *hashes;
    size_t n, cap;
};

struct reader {
    struct lladd_dtable base;
    const unsigned char *bits;
    uint64_t lines;
    unsigned probes;
    uint32_t found; /* atomic; consecutive lookups that found their keys, counted for one key in
                     * COUNTED */
};

/* The optimum is ln 2 (about 7/10) times the bits per key. The result is at most PROBES_MAX. */
static unsigned probes_of(const struct lladd_dtable_config *c)
{
    unsigned n = (unsigned)lladd_dtable_param_int(c, "bits_per_key") * 7 / 10;
    return n < 1 ? 1 : n > PROBES_MAX ? PROBES_MAX : n;
}

/* The high half of the hash chooses the line, as evenly as a remainder would, without a
 * division. */
static uint64_t line_of(uint64_t hash, uint64_t lines)
{
    return ((hash >> 32) * lines) >> 32;
}

/* Each probe takes nine bits of a word, which choose one of the line's 512 bits. After six probes
 * the hash is mixed into a second word. */
static inline uint64_t next_bits(uint64_t bits, uint64_t hash, unsigned i)
{
    return i == 5 ? (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9) : bits << 9;
}

static void set_bits(unsigned char *line, uint64_t hash, unsigned probes)
{
    uint64_t bits = hash * UINT64_C(0x9e3779b97f4a7c15);
    for (unsigned i = 0; i < probes; i++) {
        line[bits >> 58] |= (unsigned char)(1u << (bits >> 55 & 7));
        bits = next_bits(bits, hash, i);
    }
}

/* Checks all bits without an early exit: the bits are in one line, and the processor could not
 * predict the branch. */
static bool has_bits(const unsigned char *line, uint64_t hash, unsigned probes)
{
    uint64_t bits = hash * UINT64_C(0x9e3779b97f4a7c15);
    unsigned all = 1;
    for (unsigned i = 0; i < probes; i++) {
        all &= (unsigned)line[bits >> 58] >> (bits >> 55 & 7);
        bits = next_bits(bits, hash, i);
    }
    return all & 1;
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    if (ll_operations__grow(base->db, &b->hashes, b->n + 1, &b->cap, sizeof *b->hashes))
        return lladd_error_set(base->error, LLADD_NO_MEMORY, "out of memory for a filter");
    int rc = lladd_dtable_add(base->base, key, value);
    if (!rc)
        b->hashes[b->n++] = lladd_dtable_hash(&base->order, key);
    return rc;
}

/* Footer: u64 lines, u32 probes, u32 0. */
static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    struct lladd_dtable_writer *out;
    unsigned char footer[16];
    uint64_t bits = (uint64_t)lladd_dtable_param_int(base->config, "bits_per_key") * b->n;
    uint64_t lines = (bits + 8 * LINE - 1) / (8 * LINE);
    unsigned probes = probes_of(base->config);
    TRY(lladd_dtable_stream(base, "filter", &out));
    lines = lines < UINT32_MAX ? lines : UINT32_MAX;
    lladd_put64(footer, lines);
    lladd_put32(footer + 8, probes);
    lladd_put32(footer + 12, 0);
    unsigned char *filter = lladd_mem_alloc(base->db, (size_t)lines * LINE + 1);
    if (!filter)
        return lladd_error_set(base->error, LLADD_NO_MEMORY, "out of memory for a filter");
    memset(filter, 0, (size_t)lines * LINE);
    for (size_t i = 0; i < b->n; i++)
        set_bits(filter + line_of(b->hashes[i], lines) * LINE, b->hashes[i], probes);
    int rc = lladd_dtable_write(out, filter, (size_t)lines * LINE);
    lladd_mem_free(base->db, filter);
    return rc ? rc : lladd_dtable_footer(base, footer, sizeof footer);
}

static void discard(struct lladd_dtable_builder *base)
{
    lladd_mem_free(base->db, ((struct builder *)base)->hashes);
}

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    const struct lladd_dtable_source *s;
    TRY(lladd_dtable_source_open(base, "filter", &s, err));
    if (base->footer.len != 16)
        return lladd_dtable_corrupt(base, err, "its footer has the wrong length");
    r->lines = lladd_get64(base->footer.data);
    r->probes = lladd_get32((const unsigned char *)base->footer.data + 8);
    if (r->lines > UINT32_MAX || r->probes > PROBES_MAX ||
        r->lines * LINE != lladd_dtable_source_size(s))
        return lladd_dtable_corrupt(base, err, "its filter has the wrong length");
    return lladd_dtable_load(base, s, &r->bits, err);
}

static bool may_have(const struct lladd_dtable *base, const struct lladd_dtable_key *key)
{
    const struct reader *r = (const struct reader *)base;
    uint64_t hash = lladd_dtable_hash(&base->order, key);
    return r->lines && has_bits(r->bits + line_of(hash, r->lines) * LINE, hash, r->probes);
}

/* Counts only lookups of one key in COUNTED, so that threads rarely write the shared word. */
static void note(struct reader *r, uint64_t hash, uint32_t found, bool there)
{
    if (!there && found)
        lladd_atomic_store32(&r->found, 0);
    else if (there && (hash >> 7) % COUNTED == 0)
        lladd_atomic_store32(&r->found, found + 1);
}

static int lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                  struct lladd_error *err)
{
    struct reader *r = (struct reader *)(uintptr_t)base;
    uint32_t found = lladd_atomic_load32(&r->found);
    uint64_t hash = 0;
    if (found < FOUND_MAX) {
        hash = lladd_dtable_hash(&base->order, key);
        if (r->lines == 0 ||
            !has_bits(r->bits + line_of(hash, r->lines) * LINE, hash, r->probes)) {
            note(r, hash, found, false);
            return 0;
        }
    }
    int rc = lladd_dtable_ask(base->base, key, pin, out, err);
    bool there = out->state != LLADD_DTABLE_ABSENT;
    if (!rc && (found < FOUND_MAX || !there))
        note(r, hash, found, there);
    return rc;
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for which the filter answers"},
    {"bits_per_key", LLADD_DTABLE_PARAM_INT, false, 10, 1, 32, "bits of the filter for each key"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_bloom = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "bloom_dtable",
    .version = 1,
    .about = "a filter for keys that are not there",
    .params = params,
    .builder_size = sizeof(struct builder),
    .add = add,
    .finish = finish,
    .discard = discard,
    .reader_size = sizeof(struct reader),
    .open = open,
    .lookup = lookup,
    .may_have = may_have,
};
