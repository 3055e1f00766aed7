/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The codecs of multicolumn_dtable: what was stored is read back, for every number of bits, many
 * numbers of rows and several kinds of numbers; a plan that goes on from an earlier one is the plan
 * from the beginning; a changed segment is refused, or no access leads outside (segments have
 * memory of exactly their size, so that sanitizers see it).
 */
#include "op_fixture.h"
#include "operations/dtables/multicolumn/codec.h"

#include <lladd/column_codec.h>

#define ONE(name) &ll_codec_##name,
static const struct lladd_codec *const codecs[] = {LL_CODECS(ONE)};
#undef ONE
enum { CODECS = sizeof codecs / sizeof codecs[0] };

static uint64_t seed = 1;
static uint64_t draw(void)
{
    uint64_t x = seed += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---- numbers --------------------------------------------------------------------------------- */

enum kind { SPREAD, OUTLIERS, RUNS, STEPS, FEW, KINDS };

/* Draws numbers that need `bits` bits in one way or another. */
static void fill(void *values, uint32_t width, uint32_t rows, unsigned bits, enum kind kind)
{
    uint64_t mask = bits ? UINT64_MAX >> (64 - bits) : 0, base = draw(), v = base, words[16];
    for (unsigned i = 0; i < 16; i++)
        words[i] = draw() & mask;
    for (uint32_t i = 0; i < rows; i++) {
        if (kind == SPREAD || (kind == OUTLIERS && draw() % 40))
            v = base + (draw() & mask);
        else if (kind == OUTLIERS)
            v = draw();
        else if (kind == RUNS)
            v = draw() % 60 ? v : base + (draw() & mask);
        else if (kind == STEPS)
            v += draw() & mask;
        else
            v = words[draw() % 16];
        ll_number_set(values, width, i, v);
    }
}

struct stored {
    struct lladd_codec_segment s;
    unsigned char *segment, *exceptions;
};

/* Plans and encodes. Returns false if the codec cannot. */
static bool store(const struct lladd_codec *c, const void *values, uint32_t width, uint32_t rows,
                  struct stored *out)
{
    uint64_t memory[LLADD_CODEC_MEMORY / 8];
    struct lladd_codec_plan plan = {.memory = memory};
    struct lladd_codec_input in = {values, rows, width, SIZE_MAX};
    size_t size = c->plan(&in, &plan);
    if (size == LLADD_CODEC_CANNOT)
        return false;
    ck_assert_uint_eq(size, plan.segment + plan.exceptions);
    out->segment = malloc(plan.segment);
    out->exceptions = malloc(plan.exceptions);
    ck_assert(out->segment && (out->exceptions || plan.exceptions == 0));
    memset(out->segment, 0xee, plan.segment);
    c->encode(&in, &plan, out->segment, out->exceptions);
    out->s = (struct lladd_codec_segment){out->segment,    plan.segment, out->exceptions,
                                          plan.exceptions, rows,         width,
                                          c->version,      plan.own};
    return true;
}

static void stored_free(struct stored *s)
{
    free(s->segment);
    free(s->exceptions);
}

/* ---- there and back -------------------------------------------------------------------------- */

static void compare(const struct lladd_codec *c, const struct stored *s,
                    const unsigned char *values)
{
    uint32_t rows = s->s.rows, width = s->s.width, step = rows > 600 ? rows / 37 : 1;
    unsigned char *out = malloc((size_t)rows * width);
    ck_assert_ptr_nonnull(out);
    ck_assert(c->check(&s->s));
    c->decode(&s->s, 0, rows, out);
    ck_assert_mem_eq(out, values, (size_t)rows * width);
    for (uint32_t i = 0; i < rows; i += step)
        ck_assert_uint_eq(c->at(&s->s, i), ll_number(values, width, i));
    ck_assert_uint_eq(c->at(&s->s, rows - 1), ll_number(values, width, rows - 1));
    for (unsigned i = 0; i < 6; i++) {
        uint32_t from = (uint32_t)(draw() % rows), n = (uint32_t)(draw() % (rows - from)) + 1;
        memset(out, 0xdd, (size_t)rows * width);
        c->decode(&s->s, from, n, out);
        ck_assert_mem_eq(out, values + (size_t)from * width, (size_t)n * width);
    }
    free(out);
}

static void there_and_back(const struct lladd_codec *c, uint32_t width, uint32_t rows,
                           unsigned bits, enum kind kind)
{
    static uint64_t values[LLADD_CODEC_ROWS];
    struct stored s;
    fill(values, width, rows, bits, kind);
    if (!store(c, values, width, rows, &s))
        return;
    compare(c, &s, (const unsigned char *)values);
    stored_free(&s);
}

/* The numbers of rows: all around the sizes of groups and vectors, and up to 4096. */
static const uint32_t lengths[] = {1,   2,   3,   4,   5,    7,    8,    9,    15,   16,  17,
                                   31,  32,  33,  63,  64,   65,   100,  127,  128,  129, 200,
                                   255, 256, 257, 300, 511,  512,  513,  777,  1024, 1025,
                                   2000, 2048, 3001, 4095, 4096};

START_TEST(every_number_of_bits)
{
    const struct lladd_codec *c = codecs[_i];
    unsigned turn = 0;
    for (uint32_t width = 1; width <= 8; width *= 2)
        for (unsigned bits = 0; bits <= 8 * width; bits++)
            for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
                there_and_back(c, width, lengths[i], bits, (enum kind)(turn++ % KINDS));
}
END_TEST

START_TEST(every_number_of_rows)
{
    const struct lladd_codec *c = codecs[_i];
    for (uint32_t rows = 1; rows <= 4096; rows += rows < 600 ? 1 : 61)
        there_and_back(c, 1u << rows % 4, rows, rows % (8 * (1u << rows % 4) + 1),
                       (enum kind)(rows / 4 % KINDS));
    for (unsigned kind = 0; kind < KINDS; kind++)
        there_and_back(c, 4, LLADD_CODEC_ROWS, 9, (enum kind)kind);
}
END_TEST

/* Packed groups without a codec: every width and number of bits, at every number of rows. */
START_TEST(packed_groups)
{
    uint64_t values[LL_GROUP], out[LL_GROUP];
    for (uint32_t width = 1; width <= 8; width *= 2)
        for (unsigned bits = 0; bits <= 8 * width; bits++)
            for (uint32_t rows = 1; rows <= LL_GROUP; rows += bits % 3 + (rows < 40 ? 1 : 9)) {
                size_t size = ll_bits_size(width, bits, rows);
                unsigned char *packed = malloc(size);
                uint64_t base = draw() & ll_all_bits(width);
                ck_assert(packed || size == 0);
                for (uint32_t i = 0; i < rows; i++)
                    ll_number_set(values, width, i,
                                  base + (bits ? draw() >> (64 - bits) : 0));
                ll_bits_pack(values, width, base, bits, rows, packed);
                ll_bits_unpack(packed, width, base, bits, rows, out);
                ck_assert_mem_eq(values, out, rows * width);
                for (uint32_t i = 0; i < rows; i++)
                    ck_assert_uint_eq((base + ll_bits_at(packed, width, bits, i)) &
                                          ll_all_bits(width),
                                      ll_number(values, width, i));
                free(packed);
            }
}
END_TEST

/* The stored form of a group does not change: it is in files. */
START_TEST(packed_form)
{
    uint32_t values[LL_GROUP];
    unsigned char packed[32 * 5];
    for (uint32_t i = 0; i < LL_GROUP; i++)
        values[i] = 100 + i % 32;
    ck_assert_uint_eq(ll_bits_size(4, 5, LL_GROUP), sizeof packed);
    ll_bits_pack(values, 4, 100, 5, LL_GROUP, packed);
    /* Lane 3 has the numbers 3, 11, 19, 27, 3, 11, 19 (only two bits of it are in this word) ... */
    uint32_t word = 3 | 11u << 5 | 19u << 10 | 27u << 15 | 3u << 20 | 11u << 25 | 19u << 30;
    ck_assert_uint_eq(lladd_get32(packed + 4 * 3), word);
    ck_assert_uint_eq(lladd_get32(packed + 32 + 4 * 3) & 7, 19 >> 2);
}
END_TEST

/* ---- planning again -------------------------------------------------------------------------- */

struct planned {
    uint64_t memory[LLADD_CODEC_MEMORY / 8];
    struct lladd_codec_plan plan;
};

/* A plan that goes on from an earlier one is the plan from the beginning. */
static void plan_again(const struct lladd_codec *c, const struct lladd_codec_input *in,
                       struct planned *p)
{
    struct planned fresh = {.plan = {.memory = fresh.memory}};
    size_t size = c->plan(in, &p->plan), expected = c->plan(in, &fresh.plan);
    p->plan.again = true;
    ck_assert_uint_eq(size, expected);
    if (size == LLADD_CODEC_CANNOT)
        return;
    ck_assert_uint_eq(p->plan.segment, fresh.plan.segment);
    ck_assert_uint_eq(p->plan.exceptions, fresh.plan.exceptions);
    ck_assert_uint_eq(p->plan.own, fresh.plan.own);
    unsigned char *one = calloc(2, size);
    ck_assert_ptr_nonnull(one);
    unsigned char *other = one + size;
    c->encode(in, &p->plan, one, one + p->plan.segment);
    c->encode(in, &fresh.plan, other, other + p->plan.segment);
    ck_assert_mem_eq(one, other, size);
    free(one);
}

START_TEST(plans_go_on)
{
    const struct lladd_codec *c = codecs[_i];
    static uint64_t values[2000];
    for (unsigned turn = 0; turn < 400; turn++) {
        struct planned p = {.plan = {.memory = p.memory}};
        struct lladd_codec_input in = {values, 0, 1u << turn % 4, SIZE_MAX};
        fill(values, in.width, 2000, turn % (8 * in.width + 1), (enum kind)(turn / 4 % KINDS));
        for (unsigned i = 0; i < 12; i++) {
            uint32_t more = in.rows + 1 + (uint32_t)(draw() % 400);
            in.rows = draw() % 3 && more <= 2000 ? more : 1 + (uint32_t)(draw() % 2000);
            in.limit = draw() % 2 ? SIZE_MAX : draw() % ((size_t)in.rows * in.width + 20);
            plan_again(c, &in, &p);
        }
    }
}
END_TEST

/* ---- finding --------------------------------------------------------------------------------- */

static uint32_t below(const void *values, uint32_t width, uint32_t from, uint32_t to, uint64_t v,
                      bool or_equal)
{
    while (from < to && (ll_number(values, width, from) < v ||
                         (or_equal && ll_number(values, width, from) == v)))
        from++;
    return from;
}

START_TEST(finding)
{
    static uint64_t values[4096];
    for (size_t k = 0; k < CODECS; k++) {
        const struct lladd_codec *c = codecs[k];
        if (!c->find)
            continue;
        for (uint32_t turn = 0; turn < 400; turn++) {
            struct stored s;
            uint32_t width = 4, rows = 1 + (uint32_t)(draw() % (turn < 300 ? 700 : 4096));
            uint32_t v = (uint32_t)draw() % 1000;
            for (uint32_t i = 0; i < rows; i++) {
                v += draw() % (1 + turn % 9) ? 0 : (uint32_t)(draw() % 5);
                ll_number_set(values, width, i, v);
            }
            ck_assert(store(c, values, width, rows, &s));
            for (unsigned i = 0; i < 40; i++) {
                uint32_t from = (uint32_t)(draw() % rows);
                uint32_t to = from + (uint32_t)(draw() % (rows - from + 1)), first, end;
                uint64_t at = ll_number(values, width, draw() % rows);
                at += draw() % 3 - 1;
                first = from;
                end = to;
                c->find(&s.s, &first, &end, at);
                ck_assert_uint_eq(first, below(values, width, from, to, at, false));
                ck_assert_uint_eq(end, below(values, width, from, to, at, true));
            }
            stored_free(&s);
        }
    }
}
END_TEST

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t size_with(const struct lladd_codec *c, const void *values, uint32_t width,
                        uint32_t rows)
{
    struct stored s;
    if (!store(c, values, width, rows, &s))
        return SIZE_MAX;
    size_t size = s.s.len + s.s.exceptions_len;
    stored_free(&s);
    return size;
}

/* One number that is far from the others does not make the others larger. */
START_TEST(exceptions_keep_groups_small)
{
    uint32_t values[LL_GROUP];
    for (uint32_t low = 0; low < 2; low++)
        for (uint32_t where = 0; where < LL_GROUP; where += 5) {
            for (uint32_t i = 0; i < LL_GROUP; i++)
                values[i] = 1000000 + i % 16;
            values[where] = low ? 3 : 4000000000u;
            ck_assert_uint_le(size_with(&ll_codec_for, values, 4, LL_GROUP), 8 + 4 * 32 + 5);
        }
}
END_TEST

START_TEST(each_codec_has_its_use)
{
    static uint32_t values[4096];
    for (uint32_t i = 0; i < 4096; i++)
        values[i] = i / 1000 * 77777;
    ck_assert_uint_le(size_with(&ll_codec_rle, values, 4, 4096), 8 + 5 * 6);
    for (uint32_t i = 0; i < 4096; i++)
        values[i] = 5 + 3 * i;
    ck_assert_uint_le(size_with(&ll_codec_delta, values, 4, 4096), 16 * 9);
    for (uint32_t i = 0; i < 4096; i++)
        values[i] = (uint32_t)(draw() % 4) * 500000000;
    ck_assert_uint_le(size_with(&ll_codec_dict, values, 4, 4096), 24 + 4096 / 4);
    for (uint32_t i = 0; i < 4096; i++)
        values[i] = 7000 + (uint32_t)(draw() % 128);
    ck_assert_uint_le(size_with(&ll_codec_for, values, 4, 4096), 16 * 5 + 4096 * 7 / 8);
}
END_TEST

/* ---- hostile segments ------------------------------------------------------------------------ */

/* Reads all of a segment that `check` has accepted. */
static void read_all(const struct lladd_codec *c, const struct lladd_codec_segment *s)
{
    unsigned char *out = malloc((size_t)s->rows * s->width);
    uint32_t first = 0, end = s->rows;
    ck_assert_ptr_nonnull(out);
    for (uint32_t i = 0; i < s->rows; i++)
        (void)c->at(s, i);
    c->decode(s, 0, s->rows, out);
    c->decode(s, s->rows / 2, s->rows - s->rows / 2, out);
    if (c->find)
        c->find(s, &first, &end, ll_number(out, s->width, 0));
    free(out);
}

START_TEST(changed_segments)
{
    const struct lladd_codec *c = codecs[_i];
    static uint64_t values[700];
    unsigned refused = 0, accepted = 0;
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (uint32_t width = 1; width <= 8; width *= 2) {
            struct stored s;
            uint32_t rows = width == 2 ? 256 : 300 + 40 * width;
            fill(values, width, rows, width * 3, (enum kind)kind);
            if (!store(c, values, width, rows, &s))
                continue;
            for (size_t i = 0; i < s.s.len + s.s.exceptions_len; i++) {
                unsigned char *p = i < s.s.len ? s.segment + i : s.exceptions + (i - s.s.len);
                for (unsigned turn = 0; turn < 3; turn++) {
                    unsigned char was = *p;
                    uint64_t now = turn == 0 ? ~(uint64_t)was : turn == 1 ? UINT64_MAX : draw();
                    *p = (unsigned char)now;
                    bool good = c->check(&s.s);
                    refused += !good;
                    accepted += good;
                    if (good && (i < 64 || i % 16 == 0))
                        read_all(c, &s.s);
                    *p = was;
                }
            }
            s.s.rows++; /* the header of the page says something else */
            if (c->check(&s.s))
                read_all(c, &s.s);
            s.s.rows--;
            for (uint32_t len = 0; len < s.s.len; len += len < 40 ? 1 : 31) { /* cut off */
                struct lladd_codec_segment cut = s.s;
                unsigned char *bytes = malloc(len);
                ck_assert(bytes || len == 0);
                if (len)
                    memcpy(bytes, s.segment, len);
                cut.data = bytes;
                cut.len = len;
                if (c->check(&cut))
                    read_all(c, &cut);
                free(bytes);
            }
            stored_free(&s);
        }
    ck_assert_uint_ge(accepted, 100);
    ck_assert(refused > 10 || c == &ll_codec_nop);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("multicolumn_codecs");
    TCase *tc = tcase_create("codecs");
    tcase_add_loop_test(tc, every_number_of_bits, 0, CODECS);
    tcase_add_loop_test(tc, every_number_of_rows, 0, CODECS);
    tcase_add_test(tc, packed_groups);
    tcase_add_test(tc, packed_form);
    tcase_add_loop_test(tc, plans_go_on, 0, CODECS);
    tcase_add_test(tc, finding);
    tcase_add_test(tc, exceptions_keep_groups_small);
    tcase_add_test(tc, each_codec_has_its_use);
    tcase_add_loop_test(tc, changed_segments, 0, CODECS);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
