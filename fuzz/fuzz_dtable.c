/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dTables: hostile configurations, run descriptors, run contents and packed rows. The first byte
 * selects one of these.
 *
 * A configuration is refused with LLADD_BAD_CONFIG, or accepted. If accepted, it is printed; the
 * text must not change when it is parsed and printed again. A descriptor with a good checksum is
 * refused, or must have the same length when it is encoded again. For contents, the fuzzer builds a
 * run with any streams, any footer and good checksums, and reads the run as one of several dTables.
 * Reads may return nonsense or LLADD_CORRUPT_RUN, but no access may be out of bounds and every call
 * must return. A packed row is refused, or must be the same bytes when its columns are packed
 * again.
 */
#include "fuzz.h"
#include "operations/dtables/core/dtable.h"

#include <lladd/blob.h>
#include <lladd/bytes.h>
#include <stdlib.h>

static struct lladd_db *db; /* all inputs use it; an input leaves no data in it */
static bool refused;        /* a configuration, a descriptor, a run or a row was refused */

/* ---- a class that writes the input ----------------------------------------------------------- */
/* The footer and each stream are a piece of the input: a byte n, then 16 n bytes. */

static struct {
    const uint8_t *data;
    size_t size;
} input;

static size_t take(const uint8_t **out, size_t most)
{
    size_t n = input.size ? input.data[0] * 16u : 0;
    input.data += input.size > 0;
    input.size -= input.size > 0;
    n = n < input.size ? n : input.size;
    n = n < most ? n : most;
    *out = input.data;
    input.data += n;
    input.size -= n;
    return n;
}

static int raw_add(struct lladd_dtable_builder *b, const struct lladd_dtable_key *key,
                   const struct lladd_dtable_value *value)
{
    (void)b, (void)key, (void)value;
    return 0;
}

/* Writes all streams that any class reads. */
static int raw_finish(struct lladd_dtable_builder *b)
{
    static const char *const names[] = {"keys", "values", "cells", "leaves", "places", "levels",
                                        "filter", "words", "ends", "landmarks",
                                        "segments"};
    const uint8_t *bytes;
    size_t n = take(&bytes, 4096);
    int rc = lladd_dtable_footer(b, bytes, n);
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !rc; i++) {
        struct lladd_dtable_writer *w;
        rc = lladd_dtable_stream(b, names[i], &w);
        n = take(&bytes, SIZE_MAX);
        if (!rc)
            rc = lladd_dtable_write(w, bytes, n);
    }
    return rc;
}

static int raw_find(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                    struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                    struct lladd_error *err)
{
    (void)key, (void)pin, (void)place, (void)exact;
    return lladd_dtable_corrupt(t, err, "is not read");
}
static int raw_at(const struct lladd_dtable *t, uint64_t place, struct lladd_dtable_pin *pin,
                  struct lladd_dtable_key *key, struct lladd_dtable_value *value,
                  struct lladd_error *err)
{
    (void)place, (void)pin, (void)key, (void)value;
    return lladd_dtable_corrupt(t, err, "is not read");
}

static const struct lladd_dtable_param raw_params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, false, 0, 0, 0, "below"},
    {"beside", LLADD_DTABLE_PARAM_CHILD, false, 0, 0, 0, "the second one below"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};
static const struct lladd_dtable_class raw = {
    .struct_size = sizeof raw,
    .name = "raw",
    .version = 1,
    .params = raw_params,
    .add = raw_add,
    .finish = raw_finish,
    .find = raw_find,
    .at = raw_at,
};

static void open_once(void)
{
    if (db)
        return;
    db = fuzz_database(NULL);
    MUST(lladd_dtable_class_add(db, &raw, NULL) == 0);
}

/* ---- configurations -------------------------------------------------------------------------- */

static int append(void *ctx, const void *bytes, size_t len)
{
    return ll_dtable__append(ctx, bytes, len);
}

static char *printed(const struct lladd_dtable_config *c)
{
    struct ll_dtable_bytes b = {.db = db};
    struct lladd_sink sink = {.ctx = &b, .write = append};
    MUST(lladd_dtable_config_print(c, &sink) == 0);
    MUST(ll_dtable__append(&b, "", 1) == 0);
    return (char *)b.data;
}

static void try_config(const uint8_t *data, size_t size)
{
    struct lladd_dtable_config *c, *again;
    struct lladd_error err = LLADD_ERROR_INIT;
    char *text = malloc(size + 1);
    MUST(text);
    memcpy(text, data, size);
    text[size] = 0;
    int rc = lladd_dtable_config_parse(db, text, &c, &err);
    free(text);
    MUST(rc == 0 || (rc == LLADD_BAD_CONFIG && strncmp(err.message, "line ", 5) == 0));
    refused = rc != 0;
    if (rc)
        return;
    char *first = printed(c);
    MUST(lladd_dtable_config_parse(db, first, &again, &err) == 0);
    char *second = printed(again);
    MUST(strcmp(first, second) == 0);
    lladd_mem_free(db, first);
    lladd_mem_free(db, second);
    lladd_dtable_config_free(c);
    lladd_dtable_config_free(again);
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void try_descriptor(const uint8_t *data, size_t size)
{
    struct ll_dtable_descriptor d;
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned char *bytes = lladd_mem_alloc(db, size + 12);
    MUST(bytes);
    memcpy(bytes, "LLADDrun", 8);
    memcpy(bytes + 8, data, size);
    lladd_put32(bytes + 8 + size, lladd_crc32c(0, bytes, 8 + size));
    int rc = ll_dtable__understand(db, bytes, size + 12, &d, &err);
    MUST(rc == 0 || rc == LLADD_CORRUPT_RUN || rc == LLADD_NEWER_FORMAT || rc == LLADD_WRONG_TYPE);
    refused = rc != 0;
    if (rc) {
        lladd_mem_free(db, bytes);
        return;
    }
    struct ll_dtable_bytes again = {.db = db};
    MUST(ll_dtable__describe(&d, &again) == 0);
    MUST(again.len == size + 12);
    lladd_mem_free(db, again.data);
    ll_dtable__descriptor_free(&d);
}

/* ---- contents -------------------------------------------------------------------------------- */

static const char *const read_as[] = {
    "class(dt) linear_dtable",
    "class(dt) fixed_dtable",
    "class(dt) array_dtable",
    "class(dt) smallint_dtable config [ \"base\" class(dt) linear_dtable \"bytes\" int 2 ]",
    "class(dt) bloom_dtable config [ \"base\" class(dt) linear_dtable ]",
    "class(dt) btree_dtable config [ \"base\" class(dt) array_dtable ]",
    "class(dt) usstate_dtable config [ \"base\" class(dt) fixed_dtable ]",
    "class(dt) ustring_dtable config [ \"base\" class(dt) linear_dtable ]",
    "class(dt) deltaint_dtable config [ \"base\" class(dt) array_dtable ]",
    "class(dt) cache_dtable config [ \"base\" class(dt) fixed_dtable ]",
    "class(dt) exist_dtable config [ \"base\" class(dt) array_dtable \"tombstones\" class(dt) "
    "linear_dtable ]",
    "class(dt) keydiv_dtable config [ \"below\" class(dt) linear_dtable \"from\" class(dt) "
    "array_dtable \"divider\" int 9 ]",
    "class(dt) compress_dtable config [ \"base\" class(dt) array_dtable ]",
    "class(dt) auto_dtable",
    "class(dt) column_dtable config [ \"base\" class(dt) linear_dtable \"columns\" words [ \"0\" ] "
    "\"groups\" layers [ class(dt) fixed_dtable ] ]",
    "class(dt) column_dtable config [ \"base\" class(dt) array_dtable \"columns\" words [ "
    "\"2 0\" ] \"groups\" layers [ class(dt) linear_dtable ] ]",
    "class(dt) ranges_dtable config [ \"base\" class(dt) linear_dtable \"ranges\" class(dt) "
    "linear_dtable ]",
    "class(dt) versions_dtable config [ \"base\" class(dt) linear_dtable \"absent\" class(dt) "
    "linear_dtable ]",
};

/* Builds a run of the class `raw` from the input, and gives it the descriptor of the dTable `text`,
 * so that this dTable reads the streams. The descriptor says that the run has 3 rows, with the
 * first key 1 and the last key 3. If `wide`, or if keys are bytes, the first key is the smallest
 * possible key, and the last key is a large one. */
static lladd_pageno forge(struct lladd_txn *txn, const char *text, enum lladd_dtable_type type,
                          bool wide)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    struct ll_dtable_descriptor d;
    struct ll_dtable_bytes bytes = {.db = db};
    lladd_pageno root, forged;
    static const unsigned char last[20] = {255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                                           255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    static const char *const raws[] = {
        "class(dt) raw", "class(dt) raw config [ \"base\" class(dt) raw ]",
        "class(dt) raw config [ \"base\" class(dt) raw \"beside\" class(dt) raw ]"};
    unsigned below = 0;
    for (const char *at = text; (at = strstr(at + 1, "class(dt)")) != NULL;)
        below++;
    o.type = type;
    o.text = raws[below];
    o.block_bytes = 4096;
    MUST(lladd_dtable_run_begin(txn, &o, &run) == 0);
    MUST(lladd_dtable_run_finish(run, &root) == 0);
    MUST(ll_dtable__read_descriptor(db, root, &d, NULL) == 0);
    d.config = text;
    d.rows = 3;
    d.min = type == LLADD_DTABLE_BYTES ? lladd_dtable_bytes("", 0) : lladd_dtable_u32(!wide);
    d.max = type == LLADD_DTABLE_BYTES ? lladd_dtable_bytes(last, sizeof last)
                                       : lladd_dtable_u32(wide ? UINT32_MAX : 3);
    MUST(ll_dtable__describe(&d, &bytes) == 0);
    MUST(lladd_blob_create(txn, bytes.data, bytes.len, &forged) == 0);
    lladd_mem_free(db, bytes.data);
    ll_dtable__descriptor_free(&d);
    return forged;
}

static void expect(int rc)
{
    MUST(rc == 0 || rc == LLADD_CORRUPT_RUN || rc == LLADD_END || rc == LLADD_NO_MEMORY);
}

/* An interval must contain the key that was passed. The first call passes no key. */
static void read_intervals(const struct lladd_dtable *t, struct lladd_dtable_key key)
{
    struct lladd_dtable_pin pins[2] = {LLADD_DTABLE_PIN_INIT, LLADD_DTABLE_PIN_INIT};
    struct lladd_dtable_interval s;
    for (unsigned i = 0; i < 20; i++) {
        int rc = lladd_dtable_interval_at(t, i ? &key : NULL, pins, &s, NULL);
        expect(rc);
        if (rc)
            continue;
        MUST(!i || !s.has_from || lladd_dtable_compare(&t->order, &s.from, &key) <= 0);
        MUST(!i || !s.has_to || lladd_dtable_compare(&t->order, &key, &s.to) < 0);
        key.number = i;
    }
    lladd_dtable_unpin(&pins[0]);
    lladd_dtable_unpin(&pins[1]);
}

static void read_all(const struct lladd_dtable *t, struct lladd_dtable_key key)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct lladd_dtable_value v;
    struct lladd_dtable_cursor *c;
    int rc;
    for (unsigned i = 0; i < 20; i++) {
        key.number = i < 16 ? i : UINT32_MAX >> (i - 16) * 8;
        expect(lladd_dtable_lookup(t, &key, &pin, &v, NULL));
    }
    lladd_dtable_unpin(&pin);
    read_intervals(t, key);
    MUST(lladd_dtable_cursor_open(t, 0, &c, NULL) == 0);
    /* A forged array can have as many rows as it has bytes, so the number of steps is limited. */
    for (unsigned i = 0; i < 5000 && (rc = lladd_dtable_next(c, NULL)) == 0; i++)
        expect(lladd_dtable_row(c, NULL, &v, NULL));
    for (unsigned i = 0; i < 5000 && (rc = lladd_dtable_prev(c, NULL)) == 0; i++)
        expect(lladd_dtable_row(c, NULL, &v, NULL));
    expect(lladd_dtable_seek(c, &key, NULL));
    lladd_dtable_cursor_close(c);
}

/* Reads the older version of a table without rows, if the run is a difference. */
static void read_version(struct lladd_dtable *difference, struct lladd_dtable_key key)
{
    struct lladd_dtable *newer, *older;
    MUST(lladd_dtable_memory(db, key.type, NULL, &newer, NULL) == 0);
    int rc = lladd_dtable_version(db, difference, newer, &older, NULL);
    MUST(rc == 0 || rc == LLADD_WRONG_TYPE);
    if (rc == 0) {
        read_all(older, key);
        lladd_dtable_close(older);
    }
    lladd_dtable_close(newer);
}

static void try_contents(const uint8_t *data, size_t size)
{
    struct lladd_txn *txn;
    struct lladd_dtable *t;
    struct lladd_error err = LLADD_ERROR_INIT;
    const char *text = read_as[data[0] % 64 % (sizeof read_as / sizeof read_as[0])];
    bool wide = data[0] & 64;
    bool bytes = data[0] & 128 && !strstr(text, "array") && !strstr(text, "btree");
    input.data = data + 1;
    input.size = size - 1;
    MUST(lladd_begin(db, NULL, &txn, NULL) == 0);
    lladd_pageno root = forge(txn, text, bytes ? LLADD_DTABLE_BYTES : LLADD_DTABLE_U32, wide);
    int rc = lladd_dtable_run_open(db, root, &t, &err);
    expect(rc);
    refused = rc != 0;
    if (rc == 0) {
        struct lladd_dtable_key key =
            bytes ? lladd_dtable_bytes(data, size < 20 ? size : 20) : lladd_dtable_u32(1);
        read_all(t, key);
        read_version(t, key);
        expect(lladd_dtable_run_check(t, &err));
        lladd_dtable_close(t);
    }
    MUST(lladd_abort(txn) == 0);
}

/* ---- packed rows ----------------------------------------------------------------------------- */

/* Each column's bytes must lie inside the row, even if the row is invalid. A valid row must be the
 * same when its columns are packed again. */
static void try_row(const uint8_t *data, size_t size)
{
    struct lladd_dtable_value v[LLADD_DTABLE_COLUMNS_MAX];
    struct lladd_span row = lladd_span_of(data, size);
    size_t n = 0, again = 0;
    bool good = lladd_dtable_row_check(row, &n);
    refused = !good;
    for (uint32_t i = 0; i < LLADD_DTABLE_COLUMNS_MAX; i++) {
        bool here = lladd_dtable_row_column(row, i, &v[i]);
        const uint8_t *at = v[i].bytes.data;
        MUST(here || (!good && v[i].state == LLADD_DTABLE_ABSENT));
        MUST(v[i].state == LLADD_DTABLE_ABSENT ||
             (at >= data && (size_t)(at - data) <= size &&
              v[i].bytes.len <= size - (size_t)(at - data)));
    }
    if (!good)
        return;
    MUST(lladd_dtable_row_size(v, n, &again, NULL) == 0 && again == size);
    unsigned char *packed = malloc(size);
    MUST(packed);
    lladd_dtable_row_pack(v, n, packed);
    MUST(memcmp(packed, data, size) == 0);
    free(packed);
}

bool fuzz_refused(void)
{
    return refused;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_once();
    if (size < 2)
        return 0;
    if (data[0] % 4 == 0)
        try_config(data + 1, size - 1);
    else if (data[0] % 4 == 1)
        try_descriptor(data + 1, size - 1);
    else if (data[0] % 4 == 2)
        try_contents(data + 1, size - 1);
    else
        try_row(data + 1, size - 1);
    return 0;
}
