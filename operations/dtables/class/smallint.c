/* SPDX-License-Identifier: BSD-2-Clause */
/* smallint_dtable: unsigned integers of four bytes (little-endian), stored in one to three bytes
 * (Anvil paper, section 5.4). Rejects values of other sizes, and numbers that do not fit into
 * "bytes" bytes. */
#include "operations/dtables/class/classes.h"

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    uint64_t bytes = (uint64_t)lladd_dtable_param_int(c, "bytes");
    if (caps->value_size != LLADD_DTABLE_ANY_SIZE && caps->value_size != bytes)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "smallint_dtable: its base has values of %llu bytes, not %llu",
                               (unsigned long long)caps->value_size, (unsigned long long)bytes);
    int rc = ll_settle_base(c, caps, bytes, err);
    caps->value_size = 4;
    caps->empty = false;
    return rc;
}

static int encode(const struct lladd_dtable_config *c, struct lladd_span in, unsigned char *room,
                  struct lladd_span *out)
{
    unsigned bytes = (unsigned)lladd_dtable_param_int(c, "bytes");
    if (in.len != 4 || lladd_get32(in.data) >> (8 * bytes))
        return LLADD_DTABLE_REJECT;
    memcpy(room, in.data, bytes);
    *out = lladd_span_of(room, bytes);
    return 0;
}

static int decode(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *value,
                  struct lladd_error *err)
{
    unsigned char *room = lladd_dtable_room(t->db, pin, 4);
    (void)key;
    if (!room)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a smallint_dtable");
    if (value->bytes.len == 0 || value->bytes.len > 3)
        return lladd_dtable_corrupt(t, err, "a value has the wrong size");
    uint32_t v = (uint32_t)lladd_get_few(value->bytes.data, value->bytes.len);
    lladd_put32(room, v);
    value->bytes = lladd_span_of(room, 4);
    return 0;
}

/* Reads the short integers into the end of the buffer. Then widens the integers, in order, to the
 * beginning of the buffer. */
static int copy(const struct lladd_dtable *t, uint64_t place, size_t n, unsigned char *out,
                size_t room, size_t *width, size_t *got, struct lladd_error *err)
{
    size_t bytes = (size_t)lladd_dtable_param_int(t->config, "bytes"), has;
    n = n < room / 4 ? n : room / 4;
    const unsigned char *in = out + n * (4 - bytes);
    int rc = lladd_dtable_copy(t->base, place, n, out + n * (4 - bytes), n * bytes, &has, got, err);
    if (rc || has != bytes)
        *got = 0;
    *width = 4;
    for (size_t i = 0; i < *got; i++)
        lladd_put32(out + 4 * i, (uint32_t)lladd_get_few(in + bytes * i, bytes));
    return rc;
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for the short numbers"},
    {"bytes", LLADD_DTABLE_PARAM_INT, true, 0, 1, 3, "bytes that a stored number takes"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_smallint = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "smallint_dtable",
    .version = 1,
    .about = "integers of four bytes in one to three",
    .params = params,
    .configure = configure,
    .encode = encode,
    .decode = decode,
    .copy = copy,
};
