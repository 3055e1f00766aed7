/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Contract checks. For every promise there is an operation that breaks only this promise. The
 * report names the operation and the promise. An operation that crashes or loops does not affect
 * the check of the others.
 */
#include "support/text.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lladd/pages.h>
#include <lladd/records.h>
#include <lladd/sim_contract.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- an operation that keeps its promises ---------------------------------------------------- */

enum { PAGE = 4096, AT = 100, BYTES = 10 };

static unsigned char page[PAGE], other_page[PAGE];

static bool add_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)kind;
    return s.len == BYTES && lladd_get16(s.data) <= v.size - LLADD_PAGE_HEADER - 8;
}

static void add_by(struct lladd_page *p, struct lladd_span s, bool back)
{
    unsigned char *at = lladd_page_body(p) + lladd_get16(s.data);
    uint64_t by = lladd_get64((const unsigned char *)s.data + 2);
    lladd_put64(at, back ? lladd_get64(at) - by : lladd_get64(at) + by);
}
static void add_redo(struct lladd_page *p, struct lladd_span s)
{
    add_by(p, s, false);
}
static void add_undo(struct lladd_page *p, struct lladd_span s)
{
    add_by(p, s, true);
}

static const struct lladd_field add_fields[] = {
    {"offset", LLADD_FIELD_U16}, {"delta", LLADD_FIELD_I64}, {NULL, LLADD_FIELD_END}};

/* An operation that keeps its promises. A test changes a member to break one. */
static struct lladd_op good(const char *name)
{
    return (struct lladd_op){.struct_size = sizeof(struct lladd_op),
                             .name = name,
                             .version = 1,
                             .page_type = "test.page",
                             .redo_fields = add_fields,
                             .undo_fields = add_fields,
                             .record_max = 2 * BYTES,
                             .undo_kind = LLADD_UNDO_PAGE,
                             .validate = add_validate,
                             .redo = add_redo,
                             .undo = add_undo};
}

static unsigned char args[BYTES];

static struct lladd_sim_contract_report *check_samples(const struct lladd_sim_sample *s, size_t n)
{
    struct lladd_sim_contract in = LLADD_SIM_CONTRACT_INIT;
    struct lladd_sim_contract_report *r;
    struct lladd_error err = LLADD_ERROR_INIT;
    in.samples = s;
    in.n_samples = n;
    in.limit_ms = 100;
    int rc = lladd_sim_contract_check(&in, &r, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    return r;
}

static struct lladd_sim_contract_report *check_op(const struct lladd_op *op)
{
    lladd_put16(args, AT);
    lladd_put64(args + 2, 77);
    const struct lladd_sim_sample s[] = {
        {.op = op, .page = page, .number = 9, .args = {args, sizeof args}},
        {.op = op, .page = other_page, .number = 10, .args = {args, sizeof args}}};
    return check_samples(s, 2);
}

static void print_broken(const struct lladd_sim_contract_report *r)
{
    for (uint32_t i = 0; i < r->n_verdicts; i++)
        for (unsigned c = 0; c < LLADD_SIM_CHECKS_COUNT; c++)
            if (r->verdicts[i].result[c] == LLADD_SIM_BROKEN)
                printf("%s: %s: %s\n", r->verdicts[i].op, lladd_sim_check_name(c),
                       r->verdicts[i].message[c]);
    fflush(stdout);
}

/* Checks that exactly this promise is broken, and that the message contains `says`. */
static void breaks(const struct lladd_op *op, enum lladd_sim_check check, const char *says)
{
    struct lladd_sim_contract_report *r = check_op(op);
    ck_assert_uint_eq(r->n_verdicts, 1);
    const struct lladd_sim_kept *k = &r->verdicts[0];
    print_broken(r);
    ck_assert_str_eq(k->op, op->name);
    ck_assert_int_eq(k->result[check], LLADD_SIM_BROKEN);
    ck_assert_msg(strstr(k->message[check], says) != NULL, "%s", k->message[check]);
    ck_assert_uint_eq(r->broken, 1);
    lladd_sim_contract_free(r);
}

static void setup(void)
{
    for (size_t i = 0; i < PAGE; i++) {
        page[i] = (unsigned char)(i * 7);
        other_page[i] = (unsigned char)(i * 13);
    }
}

START_TEST(an_operation_that_keeps_all_promises)
{
    struct lladd_op op = good("test.good");
    struct lladd_sim_contract_report *r = check_op(&op);
    print_broken(r);
    ck_assert_uint_eq(r->broken, 0);
    static const enum lladd_sim_check tried[] = {
        LLADD_SIM_C_ONE_PAGE, LLADD_SIM_C_ACCEPTS, LLADD_SIM_C_PURE,   LLADD_SIM_C_HEADER,
        LLADD_SIM_C_RESTORES, LLADD_SIM_C_FIELDS,  LLADD_SIM_C_HOSTILE};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
        ck_assert_int_eq(r->verdicts[0].result[tried[i]], LLADD_SIM_KEPT);
        ck_assert_uint_ge(r->verdicts[0].runs[tried[i]], 2);
    }
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_PREFIXES], LLADD_SIM_NOT_APPLICABLE);
    lladd_sim_contract_free(r);
}
END_TEST

/* ---- one broken promise each ----------------------------------------------------------------- */

static uint64_t calls;

static void impure_redo(struct lladd_page *p, struct lladd_span s)
{
    add_redo(p, s);
    p->bytes[2000] = (unsigned char)++calls;
}
/* Restores the byte that redo has overwritten: undo does not know the byte, but the test does. So
 * the only broken promise is that redo depends on a counter. */
static void impure_undo(struct lladd_page *p, struct lladd_span s)
{
    add_undo(p, s);
    p->bytes[2000] = (unsigned char)(2000 * 7);
    if (p->number.v == 10)
        p->bytes[2000] = (unsigned char)(2000 * 13);
}

START_TEST(redo_that_reads_a_counter_of_its_own)
{
    struct lladd_op op = good("test.impure");
    op.redo = impure_redo;
    op.undo = impure_undo;
    breaks(&op, LLADD_SIM_C_PURE, "redo on a copy of the page: byte 2000");
}
END_TEST

static void before_redo(struct lladd_page *p, struct lladd_span s)
{
    add_redo(p, s);
    p->bytes[2000] = ((const unsigned char *)s.data)[-1];
}

START_TEST(redo_that_reads_what_lies_before_its_bytes)
{
    struct lladd_op op = good("test.before");
    op.redo = before_redo;
    op.undo = impure_undo;
    breaks(&op, LLADD_SIM_C_PURE, "redo on a copy of the page: byte 2000");
}
END_TEST

static void hole_of_page(struct lladd_view v, uint32_t *begin, uint32_t *end)
{
    *begin = 3000;
    *end = v.size;
}
static void hole_redo(struct lladd_page *p, struct lladd_span s)
{
    add_redo(p, s);
    p->bytes[2000] = (unsigned char)(p->bytes[2000] ^ p->bytes[3500]);
}
static void hole_undo(struct lladd_page *p, struct lladd_span s)
{
    add_undo(p, s);
    p->bytes[2000] = (unsigned char)(p->bytes[2000] ^ p->bytes[3500]);
}

/* A page image leaves the hole out, so after an image the hole has other contents. */
START_TEST(redo_that_reads_the_hole)
{
    const struct lladd_page_type type = {
        .struct_size = sizeof type, .name = "test.page", .version = 1, .hole = hole_of_page};
    struct lladd_op op = good("test.hole");
    op.redo = hole_redo;
    op.undo = hole_undo;
    lladd_put16(args, AT);
    const struct lladd_sim_sample s = {
        .op = &op, .type = &type, .page = page, .number = 9, .args = {args, sizeof args}};
    struct lladd_sim_contract_report *r = check_samples(&s, 1);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_PURE], LLADD_SIM_BROKEN);
    ck_assert_uint_eq(r->broken, 1);
    lladd_sim_contract_free(r);
}
END_TEST

static void neighbour_redo(struct lladd_page *p, struct lladd_span s)
{
    add_redo(p, s);
    p->bytes[p->size] = 1;
}
static void foreign_redo(struct lladd_page *p, struct lladd_span s)
{
    add_redo(p, s);
    other_page[50]++;
}
static void greedy_redo(struct lladd_page *p, struct lladd_span s)
{
    const volatile unsigned char *bytes = s.data;
    add_redo(p, s);
    if (bytes[s.len])
        return;
}

START_TEST(redo_that_writes_beyond_its_page)
{
    struct lladd_op op = good("test.neighbour");
    op.redo = neighbour_redo;
    breaks(&op, LLADD_SIM_C_ONE_PAGE,
           "redo of test.neighbour touches byte 4096 of its page of 4096 bytes");
}
END_TEST

START_TEST(redo_that_writes_to_another_page)
{
    struct lladd_op op = good("test.foreign");
    op.redo = foreign_redo;
    breaks(&op, LLADD_SIM_C_ONE_PAGE, "writes to the page of sample 1");
}
END_TEST

START_TEST(redo_that_reads_beyond_its_bytes)
{
    struct lladd_op op = good("test.greedy");
    op.redo = greedy_redo;
    breaks(&op, LLADD_SIM_C_ONE_PAGE, "byte 10 of its 10 bytes of arguments");
}
END_TEST

static void header_redo(struct lladd_page *p, struct lladd_span s)
{
    add_redo(p, s);
    p->bytes[8]++;
}
static void header_undo(struct lladd_page *p, struct lladd_span s)
{
    add_undo(p, s);
    p->bytes[8]--;
}
/* Refuses mangled bytes, so that nothing else is reported. */
static bool strict_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return add_validate(v, kind, s) && memcmp(s.data, args, BYTES) == 0;
}

START_TEST(redo_that_touches_the_header)
{
    struct lladd_op op = good("test.header");
    op.redo = header_redo;
    op.undo = header_undo;
    op.validate = strict_validate;
    breaks(&op, LLADD_SIM_C_HEADER, "redo changes byte 8 of the header");
}
END_TEST

static void forgetful_undo(struct lladd_page *p, struct lladd_span s)
{
    (void)p, (void)s;
}

START_TEST(undo_that_forgets)
{
    struct lladd_op op = good("test.forgetful");
    op.undo = forgetful_undo;
    breaks(&op, LLADD_SIM_C_RESTORES, "undo of redo: byte 132");
}
END_TEST

static bool first_is_odd(struct lladd_view v)
{
    return (v.bytes[LLADD_PAGE_HEADER + AT] & 1) == (page[LLADD_PAGE_HEADER + AT] & 1) ||
           v.number.v != 9;
}

START_TEST(redo_that_breaks_the_invariant)
{
    struct lladd_op op = good("test.invariant");
    op.check = first_is_odd;
    breaks(&op, LLADD_SIM_C_INVARIANT, "check does not hold after redo");
}
END_TEST

static bool never(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    return kind == LLADD_SPAN_REDO && add_validate(v, kind, s);
}

START_TEST(validate_that_refuses_what_it_should_not)
{
    struct lladd_op op = good("test.refuses");
    op.validate = never;
    breaks(&op, LLADD_SIM_C_ACCEPTS, "refuses the undo bytes after redo");
}
END_TEST

static const struct lladd_field short_fields[] = {
    {"offset", LLADD_FIELD_U16}, {"delta", LLADD_FIELD_U32}, {NULL, LLADD_FIELD_END}};
static const struct lladd_field long_fields[] = {
    {"offset", LLADD_FIELD_U32}, {"delta", LLADD_FIELD_U64}, {NULL, LLADD_FIELD_END}};

START_TEST(fields_that_do_not_cover)
{
    struct lladd_op op = good("test.fields");
    op.undo_fields = short_fields;
    breaks(&op, LLADD_SIM_C_FIELDS, "undo_fields describe 6 of 10 bytes");
    op.undo_fields = add_fields;
    op.redo_fields = long_fields;
    breaks(&op, LLADD_SIM_C_FIELDS, "redo_fields need more than the 10 bytes");
}
END_TEST

static int logical_prepare(void *ctx, struct lladd_view v, struct lladd_span given,
                           struct lladd_draft *d)
{
    (void)ctx, (void)v;
    memcpy(lladd_draft_redo(d, BYTES), given.data, BYTES);
    memcpy(lladd_draft_undo(d, BYTES), given.data, BYTES);
    return 0;
}
static int no_compensate(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx, (void)txn, (void)undo;
    return 0;
}

START_TEST(fields_that_do_not_cover_a_logical_undo)
{
    struct lladd_op op = good("test.logical");
    op.undo_kind = LLADD_UNDO_LOGICAL;
    op.undo = NULL;
    op.prepare = logical_prepare;
    op.compensate = no_compensate;
    op.undo_log_max = 1;
    op.undo_fields = short_fields;
    breaks(&op, LLADD_SIM_C_FIELDS, "undo_fields describe 6 of 10 bytes");
}
END_TEST

static bool credulous(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v, (void)kind;
    return s.len == BYTES;
}
static bool careless(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)kind;
    return lladd_get16(s.data) <= v.size - LLADD_PAGE_HEADER - 8 && s.len == BYTES;
}

START_TEST(validate_that_believes_anything)
{
    struct lladd_op op = good("test.credulous");
    op.validate = credulous;
    breaks(&op, LLADD_SIM_C_HOSTILE, "of its page of 4096 bytes on mangled bytes");
}
END_TEST

/* The first word of the page is a number n. Adds to word n + 1, which may be beyond the page. */
static void add_beyond(struct lladd_page *p, struct lladd_span s)
{
    unsigned char *body = lladd_page_body(p), *at = body + 8 * (1 + (size_t)lladd_get16(body));
    lladd_put64(at, lladd_get64(at) + lladd_get64((const unsigned char *)s.data + 2));
}
static void subtract_beyond(struct lladd_page *p, struct lladd_span s)
{
    unsigned char *body = lladd_page_body(p), *at = body + 8 * (1 + (size_t)lladd_get16(body));
    lladd_put64(at, lladd_get64(at) - lladd_get64((const unsigned char *)s.data + 2));
}
static bool looks(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    const unsigned char *body = lladd_view_body(v);
    (void)kind;
    return s.len == BYTES && 8 * (2 + (size_t)lladd_get16(body)) <= v.size - LLADD_PAGE_HEADER;
}

START_TEST(validate_that_does_not_look_at_the_page)
{
    struct lladd_op op = good("test.blind");
    lladd_put16(page + LLADD_PAGE_HEADER, 3);
    lladd_put16(other_page + LLADD_PAGE_HEADER, 4);
    op.redo = add_beyond;
    op.undo = subtract_beyond;
    op.validate = credulous;
    breaks(&op, LLADD_SIM_C_HOSTILE, "of its page of 4096 bytes on a mangled page");
    op.validate = looks;
    struct lladd_sim_contract_report *r = check_op(&op);
    print_broken(r);
    ck_assert_uint_eq(r->broken, 0);
    lladd_sim_contract_free(r);
}
END_TEST

START_TEST(validate_that_reads_more_than_there_is)
{
    struct lladd_op op = good("test.careless");
    op.validate = careless;
    breaks(&op, LLADD_SIM_C_HOSTILE, "validate of test.careless touches byte");
}
END_TEST

static void looping_redo(struct lladd_page *p, struct lladd_span s)
{
    for (volatile uint64_t i = 0; i != UINT64_MAX; i += 2)
        if (i == UINT64_MAX - 1)
            add_redo(p, s);
}

START_TEST(redo_that_loops)
{
    struct lladd_op op = good("test.loop");
    op.redo = looping_redo;
    breaks(&op, LLADD_SIM_C_ENDS, "redo of test.loop does not return within 100 ms");
}
END_TEST

static void crashing_redo(struct lladd_page *p, struct lladd_span s)
{
    (void)p;
    if (s.len)
        (void)raise(SIGFPE);
}

START_TEST(redo_that_crashes)
{
    struct lladd_op op = good("test.crash");
    op.redo = crashing_redo;
    breaks(&op, LLADD_SIM_C_SURVIVES, "redo of test.crash ends its process (signal 8)");
}
END_TEST

/* Works only for the records of the samples. */
static void dividing_redo(struct lladd_page *p, struct lladd_span s)
{
    if (lladd_get64((const unsigned char *)s.data + 2) != 77)
        (void)raise(SIGFPE);
    add_redo(p, s);
}

START_TEST(redo_that_crashes_on_mangled_bytes)
{
    struct lladd_op op = good("test.divide");
    op.redo = dividing_redo;
    breaks(&op, LLADD_SIM_C_HOSTILE, "redo of test.divide ends its process (signal 8)");
}
END_TEST

/* A bad operation does not prevent the check of the others. */
START_TEST(good_ones_among_bad_ones)
{
    struct lladd_op loop = good("test.loop"), crash = good("test.crash"), fine = good("test.good");
    loop.redo = looping_redo;
    crash.redo = crashing_redo;
    const struct lladd_op *ops[] = {&loop, &crash, &fine};
    struct lladd_sim_sample s[12];
    lladd_put16(args, AT);
    for (size_t i = 0; i < 12; i++)
        s[i] = (struct lladd_sim_sample){
            .op = ops[i % 3], .page = page, .number = 9, .args = {args, sizeof args}};
    struct lladd_sim_contract_report *r = check_samples(s, 12);
    ck_assert_uint_eq(r->n_verdicts, 3);
    ck_assert_uint_eq(r->broken, 2);
    ck_assert_int_eq(r->verdicts[2].result[LLADD_SIM_C_HOSTILE], LLADD_SIM_KEPT);
    ck_assert_uint_eq(r->verdicts[2].runs[LLADD_SIM_C_PURE], 8);
    lladd_sim_contract_free(r);
}
END_TEST

/* ---- histories ------------------------------------------------------------------------------- */

/* Redo adds to eight bytes, and undo restores the whole page. This is correct as long as only one
 * transaction changes the page, and wrong as soon as another transaction has changed it, too. */
static bool image_validate(struct lladd_view v, enum lladd_span_kind kind, struct lladd_span s)
{
    (void)v;
    return s.len == (kind == LLADD_SPAN_REDO ? BYTES : PAGE - LLADD_PAGE_HEADER) &&
           (kind == LLADD_SPAN_UNDO || lladd_get16(s.data) <= PAGE - LLADD_PAGE_HEADER - 8);
}
static void image_undo(struct lladd_page *p, struct lladd_span s)
{
    memcpy(lladd_page_body(p), s.data, s.len);
}

START_TEST(undo_that_puts_back_what_others_have_changed)
{
    struct lladd_op op = good("test.image");
    unsigned char pages[3][PAGE], redo[3][BYTES];
    struct lladd_sim_sample s[3];
    op.undo_fields = NULL;
    op.record_max = PAGE + BYTES;
    op.validate = image_validate;
    op.undo = image_undo;
    for (size_t i = 0; i < 3; i++) {
        memcpy(pages[i], i ? pages[i - 1] : page, PAGE);
        struct lladd_page p = {pages[i], PAGE, 0, {9}};
        if (i)
            add_redo(&p, lladd_span_of(redo[i - 1], BYTES));
        lladd_put16(redo[i], (uint16_t)(AT + 8 * i));
        lladd_put64(redo[i] + 2, 5);
        s[i] = (struct lladd_sim_sample){
            .op = &op,
            .page = pages[i],
            .number = 9,
            .redo = {redo[i], BYTES},
            .undo = {pages[i] + LLADD_PAGE_HEADER, PAGE - LLADD_PAGE_HEADER}};
    }
    struct lladd_sim_contract_report *r = check_samples(s, 3);
    ck_assert_uint_eq(r->broken, 0);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_PREFIXES], LLADD_SIM_KEPT);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_INTERLEAVED], LLADD_SIM_NOT_APPLICABLE);
    lladd_sim_contract_free(r);

    s[0].owner = s[2].owner = 1;
    s[1].owner = 2;
    r = check_samples(s, 3);
    print_broken(r);
    ck_assert_uint_eq(r->broken, 1);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_INTERLEAVED], LLADD_SIM_BROKEN);
    lladd_sim_contract_free(r);

    s[0].ended = 1; /* this transaction committed before the others began, so no interleaving
                     * reveals the mistake */
    s[1].ended = 2;
    r = check_samples(s, 3);
    ck_assert_uint_eq(r->broken, 0);
    lladd_sim_contract_free(r);
}
END_TEST

/* Redo remembers the old value for undo. This is correct for one record. After several records in a
 * row, only the last old value is left. */
static unsigned char remembered;

static void memory_redo(struct lladd_page *p, struct lladd_span s)
{
    remembered = p->bytes[LLADD_PAGE_HEADER + AT];
    p->bytes[LLADD_PAGE_HEADER + AT] = ((const unsigned char *)s.data)[2];
}
static void memory_undo(struct lladd_page *p, struct lladd_span s)
{
    (void)s;
    p->bytes[LLADD_PAGE_HEADER + AT] = remembered;
}

START_TEST(undo_that_is_right_for_the_last_record_only)
{
    struct lladd_op op = good("test.memory");
    unsigned char pages[2][PAGE], redo[2][BYTES] = {{0, 0, 1}, {0, 0, 2}};
    op.redo = memory_redo;
    op.undo = memory_undo;
    memcpy(pages[0], page, PAGE);
    memcpy(pages[1], page, PAGE);
    pages[1][LLADD_PAGE_HEADER + AT] = 1;
    const struct lladd_sim_sample s[] = {{.op = &op,
                                          .page = pages[0],
                                          .number = 9,
                                          .redo = {redo[0], BYTES},
                                          .undo = {redo[0], BYTES}},
                                         {.op = &op,
                                          .page = pages[1],
                                          .number = 9,
                                          .redo = {redo[1], BYTES},
                                          .undo = {redo[1], BYTES}}};
    struct lladd_sim_contract_report *r = check_samples(s, 2);
    print_broken(r);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_PREFIXES], LLADD_SIM_BROKEN);
    ck_assert_uint_eq(r->broken, 1);
    lladd_sim_contract_free(r);
}
END_TEST

/* ---- logical undos --------------------------------------------------------------------------- */

static lladd_pageno data_page(struct lladd_db *db)
{
    struct lladd_root_value v = {0, 0};
    struct lladd_error err;
    ck_assert_int_eq(lladd_root_get(db, "data", &v, &err), 0);
    return lladd_page_of(v.a);
}

static int undo_setup(void *ctx, struct lladd_db *db, struct lladd_error *err)
{
    struct lladd_txn *txn;
    lladd_pageno p;
    (void)ctx;
    int rc = lladd_begin(db, NULL, &txn, err);
    if (!rc)
        rc = lladd_page_alloc(txn, &p);
    if (!rc)
        rc = lladd_page_format(txn, p, "lladd.bytes");
    if (!rc)
        rc = lladd_root_set(txn, "data", (struct lladd_root_value){p.v, 0});
    return rc ? rc : lladd_commit(txn);
}

static int undo_dump(void *ctx, struct lladd_db *db, struct lladd_sink *to, struct lladd_error *err)
{
    unsigned char bytes[64];
    (void)ctx;
    int rc = lladd_bytes_get(db, data_page(db), 0, bytes, sizeof bytes, err);
    return rc ? rc : lladd_sink_write(to, bytes, sizeof bytes);
}

static int undo_effect(void *ctx, struct lladd_txn *txn)
{
    (void)ctx;
    return lladd_counter_add(txn, data_page(lladd_txn_db(txn)), 8, 5);
}

/* Sets the counter to 0, whatever it was. This is idempotent. */
static int reset(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    static const unsigned char zero[8];
    (void)ctx, (void)undo;
    return lladd_bytes_set(txn, data_page(lladd_txn_db(txn)), 8, zero, sizeof zero);
}
/* Subtracts, even if nothing was added. */
static int subtract(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    (void)ctx, (void)undo;
    return lladd_counter_add(txn, data_page(lladd_txn_db(txn)), 8, -5);
}
/* Subtracts what was added. When there is nothing to undo for the third time, changes another
 * word. */
static int subtract_then_spoil(void *ctx, struct lladd_txn *txn, struct lladd_span undo)
{
    int64_t now = 0;
    (void)ctx, (void)undo;
    struct lladd_db *db = lladd_txn_db(txn);
    int rc = lladd_counter_get(db, data_page(db), 8, &now, lladd_txn_error_out(txn));
    if (!rc && now == 5)
        return lladd_counter_add(txn, data_page(db), 8, -5);
    return rc ? rc : now == 0 && calls++ >= 2 ? lladd_counter_add(txn, data_page(db), 16, 1) : 0;
}

static int (*compensate)(void *, struct lladd_txn *, struct lladd_span);

static int undo_configure(void *ctx, struct lladd_options *o, struct lladd_error *err)
{
    static struct lladd_op op;
    (void)ctx;
    op = (struct lladd_op){.struct_size = sizeof op,
                           .name = "test.undo",
                           .version = 1,
                           .record_max = 64,
                           .undo_kind = LLADD_UNDO_LOGICAL,
                           .compensate = compensate,
                           .undo_log_max = 1000,
                           .undo_pages_max = 2};
    return lladd_register_op(o, &op, err);
}

static struct lladd_sim_contract_report *check_undo(int (*how)(void *, struct lladd_txn *,
                                                               struct lladd_span))
{
    const struct lladd_sim_undo undo = {"test.undo", {"", 0}, undo_effect};
    struct lladd_sim_contract in = LLADD_SIM_CONTRACT_INIT;
    struct lladd_sim_contract_report *r;
    struct lladd_error err = LLADD_ERROR_INIT;
    compensate = how;
    in.undos = &undo;
    in.n_undos = 1;
    in.configure = undo_configure;
    in.setup = undo_setup;
    in.dump = undo_dump;
    ck_assert_msg(lladd_sim_contract_check(&in, &r, &err) == 0, "%s", err.message);
    print_broken(r);
    ck_assert_uint_eq(r->n_verdicts, 1);
    return r;
}

START_TEST(logical_undos)
{
    struct lladd_sim_contract_report *r = check_undo(reset);
    ck_assert_uint_eq(r->broken, 0);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_ABSENT], LLADD_SIM_KEPT);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_RESTORES], LLADD_SIM_KEPT);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_TWICE], LLADD_SIM_KEPT);
    lladd_sim_contract_free(r);
    r = check_undo(subtract);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_ABSENT], LLADD_SIM_BROKEN);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_TWICE], LLADD_SIM_BROKEN);
    lladd_sim_contract_free(r);
    calls = 0;
    r = check_undo(subtract_then_spoil);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_ABSENT], LLADD_SIM_KEPT);
    ck_assert_int_eq(r->verdicts[0].result[LLADD_SIM_C_TWICE], LLADD_SIM_BROKEN);
    ck_assert_uint_eq(r->broken, 1);
    lladd_sim_contract_free(r);
}
END_TEST

/* ---- reports and bad input ------------------------------------------------------------------- */

START_TEST(reports)
{
    static struct text text, json;
    struct lladd_op op = good("test.forgetful");
    op.undo = forgetful_undo;
    struct lladd_sim_contract_report *r = check_op(&op);
    ck_assert_int_eq(lladd_sim_contract_text(r, text_fresh(&text)), 0);
    ck_assert_int_eq(lladd_sim_contract_json(r, text_fresh(&json)), 0);
    ck_assert_ptr_nonnull(strstr(text.bytes, "test.forgetful version 1\n"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "  restores     BROKEN"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "undo does not reverse redo"));
    ck_assert_ptr_nonnull(strstr(text.bytes, "1 operations, 1 promises broken\n"));
    ck_assert_ptr_nonnull(strstr(json.bytes, "\"restores\":{\"kept\":false,"));
    ck_assert_ptr_nonnull(strstr(json.bytes, "\"pure\":{\"kept\":true,"));
    ck_assert_int_eq(json.bytes[json.len - 1], '\n');
    lladd_sim_contract_free(r);
}
END_TEST

START_TEST(input_that_makes_no_sense)
{
    struct lladd_sim_contract in = LLADD_SIM_CONTRACT_INIT;
    struct lladd_sim_contract_report *r;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_op op = good("test.good");
    struct lladd_sim_sample s = {.op = &op, .page = page};
    ck_assert_int_eq(lladd_sim_contract_check(NULL, &r, &err), LLADD_BAD_ARGUMENT);
    ck_assert_int_eq(lladd_sim_contract_check(&in, &r, &err), LLADD_BAD_ARGUMENT);
    ck_assert_str_eq(err.message, "contract: there are no samples");
    in.samples = &s;
    in.n_samples = 1;
    in.page_size = 5000;
    ck_assert_int_eq(lladd_sim_contract_check(&in, &r, &err), LLADD_BAD_ARGUMENT);
    in.page_size = 0;
    op.validate = NULL;
    ck_assert_int_eq(lladd_sim_contract_check(&in, &r, &err), LLADD_BAD_ARGUMENT);
    ck_assert_str_eq(err.message, "contract: sample 0 needs an operation with a name, redo, "
                                  "validate, and undo if the undo kind is PAGE");
    ck_assert_ptr_null(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("contract checks");
    TCase *c = tcase_create("contract");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, an_operation_that_keeps_all_promises);
    tcase_add_test(c, redo_that_reads_a_counter_of_its_own);
    tcase_add_test(c, redo_that_reads_what_lies_before_its_bytes);
    tcase_add_test(c, redo_that_reads_the_hole);
    tcase_add_test(c, redo_that_writes_beyond_its_page);
    tcase_add_test(c, redo_that_writes_to_another_page);
    tcase_add_test(c, redo_that_reads_beyond_its_bytes);
    tcase_add_test(c, redo_that_touches_the_header);
    tcase_add_test(c, undo_that_forgets);
    tcase_add_test(c, redo_that_breaks_the_invariant);
    tcase_add_test(c, validate_that_refuses_what_it_should_not);
    tcase_add_test(c, fields_that_do_not_cover);
    tcase_add_test(c, fields_that_do_not_cover_a_logical_undo);
    tcase_add_test(c, validate_that_believes_anything);
    tcase_add_test(c, validate_that_does_not_look_at_the_page);
    tcase_add_test(c, validate_that_reads_more_than_there_is);
    tcase_add_test(c, redo_that_loops);
    tcase_add_test(c, redo_that_crashes);
    tcase_add_test(c, redo_that_crashes_on_mangled_bytes);
    tcase_add_test(c, good_ones_among_bad_ones);
    tcase_add_test(c, undo_that_puts_back_what_others_have_changed);
    tcase_add_test(c, undo_that_is_right_for_the_last_record_only);
    tcase_add_test(c, logical_undos);
    tcase_add_test(c, reports);
    tcase_add_test(c, input_that_makes_no_sense);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
