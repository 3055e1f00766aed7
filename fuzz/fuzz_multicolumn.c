/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Columns of multicolumn_dtable. The first byte selects what the input is: a segment of a codec, a
 * page, or numbers.
 *
 * A segment or a page is refused, or all of it can be read; no access may lead outside, and one row
 * read alone must be the row read with all others. Numbers must be the same after they were stored
 * with each codec that accepts them, and no codec may write more than it has planned.
 */
#include "fuzz.h"
#include "operations/dtables/multicolumn/build.h"

static struct lladd_db *db;
static bool refused;

#define ONE(name) &ll_codec_##name,
static const struct lladd_codec *const codecs[] = {LL_CODECS(ONE)};
#undef ONE
enum { CODECS = sizeof codecs / sizeof codecs[0], ROWS_MOST = 3000 };

static void *copy_of(const void *bytes, size_t len)
{
    void *p = malloc(len);
    MUST(p || len == 0);
    if (len)
        memcpy(p, bytes, len);
    return p;
}

/* ---- segments -------------------------------------------------------------------------------- */

static void read_segment(const struct lladd_codec *c, const struct lladd_codec_segment *s)
{
    unsigned char *all = malloc((size_t)s->rows * s->width), *some = malloc(all ? 64 * 8 : 1);
    MUST(all && some);
    c->decode(s, 0, s->rows, all);
    for (uint32_t i = 0; i < s->rows; i += 1 + s->rows / 97) {
        uint32_t n = s->rows - i < 64 ? s->rows - i : 64, first = 0, end = s->rows;
        uint64_t v = ll_number(all, s->width, i);
        MUST(c->at(s, i) == v);
        c->decode(s, i, n, some);
        MUST(memcmp(some, all + (size_t)i * s->width, (size_t)n * s->width) == 0);
        if (c->find)
            c->find(s, &first, &end, v);
    }
    free(all);
    free(some);
}

/* A codec, a width, u16 rows, the codec's own byte, u8 length of the exceptions, the rest. */
static void try_segment(const uint8_t *data, size_t size)
{
    if (size < 6)
        return;
    const struct lladd_codec *c = codecs[data[0] % CODECS];
    size_t len = size - 6, exceptions = data[5] < len ? data[5] : len;
    len -= exceptions;
    unsigned char *segment = copy_of(data + 6, len);
    unsigned char *last = copy_of(data + 6 + len, exceptions);
    struct lladd_codec_segment s = {.data = segment,
                                    .len = len,
                                    .exceptions = last,
                                    .exceptions_len = exceptions,
                                    .rows = 1 + lladd_get16(data + 2) % ROWS_MOST,
                                    .width = 1u << data[1] % 4,
                                    .version = c->version,
                                    .own = data[4]};
    refused = !c->check(&s);
    if (!refused)
        read_segment(c, &s);
    free(segment);
    free(last);
}

/* ---- pages ----------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    enum lladd_dtable_type type;
} layouts[] = {
    {"class(dt) multicolumn_dtable config [ \"columns\" words [ \"u32\" ] ]", LLADD_DTABLE_U64},
    {"class(dt) multicolumn_dtable config [ \"key\" words [ \"u32\" \"u16\" ] \"columns\" words [ "
     "\"u8\" \"i64\" \"text12\" ] ]",
     LLADD_DTABLE_BYTES},
    {"class(dt) multicolumn_dtable config [ \"rows\" bool true \"columns\" words [ \"u16\" \"u32\" "
     "\"u64\" ] ]",
     LLADD_DTABLE_STRING},
};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };
static struct lladd_dtable_config *configs[LAYOUTS];

static void read_page(const struct ll_pages *pages, const struct lladd_dtable_order *order,
                      const struct ll_page *p)
{
    uint32_t rows = ll_page_rows(p), step = 1 + rows / 31;
    unsigned char room[LL_KEY_MAX], out[LL_TEXT_LENGTH];
    for (uint32_t i = ll_page_skips(pages, ll_page_flags(p)); i < pages->layout->n; i++)
        for (uint32_t k = 0; k < rows; k += step) {
            uint64_t v = ll_page__number(pages, p, i, k);
            if (i < pages->layout->n_key)
                continue;
            (void)ll_multicolumn__put(&pages->layout->column[i], v, out);
            (void)ll_bit(ll_page__absent(pages, p, i), k);
        }
    for (uint32_t k = 0; k < rows; k += step) {
        struct lladd_dtable_key key;
        bool exact;
        (void)ll_bit(ll_page__tombstones(pages, p), k);
        ll_page__key_at(pages, order->type, p, k, room, &key);
        MUST(ll_page__find(pages, order, p, &key, room, &exact) <= rows);
    }
}

static void try_page(const uint8_t *data, size_t size)
{
    uint32_t versions[CODECS], column;
    unsigned which = size ? data[0] % LAYOUTS : 0;
    if (size < 2 || size > LL_PAGE_MAX)
        return;
    if (!configs[which])
        MUST(lladd_dtable_config_parse(db, layouts[which].text, &configs[which], NULL) == 0);
    const struct ll_layout *l = ll_multicolumn__layout(configs[which]);
    for (unsigned i = 0; i < CODECS; i++)
        versions[i] = codecs[i]->version;
    struct ll_pages pages = {l, l->codecs, versions, l->n_codecs};
    struct lladd_dtable_order order = {layouts[which].type, NULL};
    unsigned char *bytes = copy_of(data + 1, size - 1);
    struct ll_page p = {bytes, (uint32_t)(size - 1)};
    refused = ll_page__check(&pages, &p, &column) != NULL;
    if (!refused)
        read_page(&pages, &order, &p);
    free(bytes);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void try_numbers(const uint8_t *data, size_t size)
{
    uint32_t width = size ? 1u << data[0] % 4 : 1;
    uint32_t rows = size ? (uint32_t)((size - 1) / width) : 0;
    uint64_t memory[LLADD_CODEC_MEMORY / 8];
    if (rows == 0 || rows > LLADD_CODEC_ROWS)
        return;
    void *values = copy_of(data + 1, (size_t)rows * width);
    unsigned char *out = malloc((size_t)rows * width);
    MUST(out);
    for (unsigned i = 0; i < CODECS; i++) {
        struct lladd_codec_plan plan = {.memory = memory};
        struct lladd_codec_input in = {values, (rows + 1) / 2, width, SIZE_MAX};
        (void)codecs[i]->plan(&in, &plan);
        plan.again = true;
        in.rows = rows;
        if (codecs[i]->plan(&in, &plan) == LLADD_CODEC_CANNOT)
            continue;
        unsigned char *segment = malloc(plan.segment), *exceptions = malloc(plan.exceptions);
        MUST(segment && (exceptions || plan.exceptions == 0));
        codecs[i]->encode(&in, &plan, segment, exceptions);
        struct lladd_codec_segment s = {segment,         plan.segment, exceptions,
                                        plan.exceptions, rows,         width,
                                        1,               plan.own};
        MUST(codecs[i]->check(&s));
        codecs[i]->decode(&s, 0, rows, out);
        MUST(memcmp(out, values, (size_t)rows * width) == 0);
        read_segment(codecs[i], &s);
        free(segment);
        free(exceptions);
    }
    free(out);
    free(values);
}

bool fuzz_refused(void)
{
    return refused;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!db)
        db = fuzz_database(NULL);
    refused = false;
    if (size < 2)
        return 0;
    if (data[0] % 3 == 0)
        try_segment(data + 1, size - 1);
    else if (data[0] % 3 == 1)
        try_page(data + 1, size - 1);
    else
        try_numbers(data + 1, size - 1);
    return 0;
}
