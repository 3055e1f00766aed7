/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules for all built-in operations. Their descriptors are complete. Their ids follow from the
 * order of registration. Tools can print their records. For random bytes in a record or a page,
 * either `validate` refuses the bytes (OP-7), or redo and undo access only the page and do not
 * change its header. On a valid page they keep the invariant of the page type.
 */
#include "op_fixture.h"

#include "operations/operations.h"
#include "recovery/registry.h"
#include "support/text.h"

#ifdef LL_TEST_SHORT
enum { PAGES = 6 };
#else
enum { PAGES = 10 };
#endif
enum { MANY = 200, RECORD_MAX = 1 << 17 };

static const struct lladd_op *ops_of_all[MANY];
static const struct lladd_page_type *types_of_all[MANY];
static uint32_t n_ops, n_types;

/* Collects operations and page types of the built-in extensions, in the order of registration. */
static void collect(void)
{
    for (const struct lladd_extension *const *e = ll_operations_builtin(); *e; e++) {
        for (size_t i = 0; (*e)->ops && (*e)->ops[i]; i++)
            if (n_ops < MANY - 1)
                ops_of_all[n_ops++] = (*e)->ops[i];
        /* Pages of an extension without operations are bulk-written, and may have any bytes. */
        for (size_t i = 0; (*e)->ops && (*e)->page_types && (*e)->page_types[i]; i++)
            if (n_types < MANY - 1)
                types_of_all[n_types++] = (*e)->page_types[i];
    }
}

static const struct lladd_op *const *all_ops(void)
{
    return ops_of_all;
}

static const struct lladd_page_type *const *all_types(void)
{
    return types_of_all;
}

/* Returns the page type of an operation, or NULL if the operation applies to pages of any type or
 * to no page. */
static const struct lladd_page_type *type_of(const struct lladd_op *op)
{
    const struct lladd_page_type *const *types = all_types();
    for (size_t i = 0; types[i]; i++)
        if (op->page_type && strcmp(types[i]->name, op->page_type) == 0)
            return types[i];
    return NULL;
}

START_TEST(every_operation_is_complete)
{
    ck_assert_uint_lt(n_ops, MANY - 1);
    ck_assert_uint_lt(n_types, MANY - 1);
    for (size_t n = 0; all_ops()[n]; n++) {
        const struct lladd_op *op = all_ops()[n];
        ck_assert_uint_eq(op->struct_size, sizeof *op);
        ck_assert_int_eq(strncmp(op->name, "lladd.", 6), 0);
        ck_assert_uint_ge(op->version, 1);
        ck_assert(op->undo_kind == LLADD_UNDO_LOGICAL || op->redo);
        ck_assert_ptr_nonnull(op->validate);
        ck_assert(!op->page_type || type_of(op));
        ck_assert_uint_le(op->record_max, RECORD_MAX);
        ck_assert((op->undo_kind == LLADD_UNDO_PAGE) == (op->undo != NULL));
        ck_assert(op->record_max == 0 || !op->redo || op->redo_fields != NULL);
        ck_assert(op->undo_kind == LLADD_UNDO_NONE || op->undo_fields != NULL);
        for (size_t k = 0; k < n; k++)
            ck_assert(strcmp(op->name, all_ops()[k]->name) != 0 ||
                      op->version != all_ops()[k]->version);
    }
    size_t first = 0;
    while (ll_operations_builtin()[0]->ops[first])
        first++;
    ck_assert_uint_eq(first, LL_OPERATIONS_COUNT);
}
END_TEST

/* The library's descriptors must pass the checks that registration makes for an application's. */
START_TEST(every_operation_passes_the_checks_of_registration)
{
    struct lladd_options options = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    for (const struct lladd_extension *const *e = ll_operations_builtin(); *e; e++)
        ck_assert_int_eq(lladd_register_extension(&options, *e, &err), 0);
    /* lladd_open uses these constants, and does not measure the built-in extensions. */
    const struct ll_payloads *p = &options.registry->payloads;
    ck_assert_uint_eq(p->names, ll_extensions_builtin.names);
    ck_assert_uint_eq(p->bytes, ll_extensions_builtin.bytes);
    ck_assert_uint_eq(p->longest, ll_extensions_builtin.longest);
    lladd_options_release(&options);
}
END_TEST

START_TEST(ids_follow_the_order_of_registration)
{
    struct fixture b;
    fixture_init(&b, 4096);
    fixture_open(&b);
    for (size_t i = 0; all_ops()[i]; i++) {
        lladd_op_id id = LLADD_NO_OP;
        ck_assert_int_eq(lladd_op_lookup(b.db, all_ops()[i]->name, all_ops()[i]->version, &id), 0);
        ck_assert_uint_eq(id, i);
    }
    fixture_free(&b);
}
END_TEST

/* ---- hostile bytes --------------------------------------------------------------------------- */

struct random {
    uint64_t state;
};

static uint32_t below(struct random *r, uint32_t n)
{
    return n ? (uint32_t)(seeded_next(&r->state) % n) : 0;
}

/* A number as records have them: small, within a page, or random. */
static uint64_t make_number(struct random *r, uint32_t page_size)
{
    switch (below(r, 6)) {
    case 0:
        return below(r, 3);
    case 1:
        return below(r, 20);
    case 2:
        return below(r, 300);
    case 3:
        return page_size - below(r, 80);
    case 4:
        return below(r, page_size) & ~3u;
    default:
        return seeded_next(&r->state);
    }
}

/* Makes bytes with the fields that the operation declares, or random bytes. */
static size_t make_bytes(struct random *r, const struct lladd_op *op, enum lladd_span_kind kind,
                         unsigned char *out, uint32_t page_size)
{
    const struct lladd_field *f = kind == LLADD_SPAN_REDO ? op->redo_fields : op->undo_fields;
    static const uint32_t rests[] = {1, 8, 20, 60, 300};
    size_t len = 0, rest = below(r, below(r, 9) ? rests[below(r, 5)] : op->record_max + 1);
    if (rest > op->record_max)
        rest = op->record_max;
    size_t most = rest + 64 < op->record_max ? rest + 64 : op->record_max;
    seeded_fill(seeded_next(&r->state), out, most);
    if (below(r, 8) == 0 || !f)
        return rest;
    for (; f->name; f++) {
        uint64_t v = f->type == LLADD_FIELD_U8 ? below(r, 5) : make_number(r, page_size);
        unsigned char bytes[8];
        size_t n = 0;
        lladd_put64(bytes, v);
        switch (f->type) {
        case LLADD_FIELD_U8:
            n = 1;
            break;
        case LLADD_FIELD_U16:
            n = 2;
            break;
        case LLADD_FIELD_U32:
            n = 4;
            break;
        case LLADD_FIELD_REST:
        case LLADD_FIELD_TEXT:
            if (below(r, 2))
                memset(out + len, 0, rest < op->record_max - len ? rest : op->record_max - len);
            len += rest;
            break;
        default:
            n = 8;
        }
        if (len + n <= op->record_max)
            memcpy(out + len, bytes, n);
        len += n;
    }
    return len < op->record_max ? len : op->record_max;
}

/* Makes a new page of the type. It is formatted with the first random bytes that `validate`
 * accepts. */
static void make_page(struct random *r, struct scratch *s, uint32_t size,
                      const struct lladd_page_type *type)
{
    enum { TRIES = 1000000 };
    static unsigned char bytes[RECORD_MAX];
    const struct lladd_op *formatter = NULL;
    struct lladd_view blank;
    size_t len = 0;
    for (size_t i = 0; all_ops()[i]; i++)
        if (all_ops()[i]->formats && type_of(all_ops()[i]) == type)
            formatter = all_ops()[i];
    ck_assert_ptr_nonnull(formatter);
    unsigned char *page = calloc(1, size);
    ck_assert_ptr_nonnull(page);
    blank = (struct lladd_view){page, size, 7, lladd_page_of(1)};
    unsigned tries = 0;
    do
        len = make_bytes(r, formatter, LLADD_SPAN_REDO, bytes, size);
    while (!formatter->validate(blank, LLADD_SPAN_REDO, lladd_span_of(bytes, len)) &&
           ++tries < TRIES);
    free(page);
    ck_assert_msg(tries < TRIES, "%s accepts nothing", formatter->name);
    scratch_init(s, size, 1, formatter, lladd_span_of(bytes, len));
}

static void apply(struct random *r, struct scratch *s, const struct lladd_page_type *type,
                  bool sane, uint64_t *applied)
{
    static unsigned char bytes[RECORD_MAX];
    enum lladd_span_kind kind = below(r, 4) ? LLADD_SPAN_REDO : LLADD_SPAN_UNDO;
    unsigned char header[LLADD_PAGE_HEADER];
    const struct lladd_op *op;
    do
        op = all_ops()[below(r, n_ops)];
    while (!op->redo || (type_of(op) && type_of(op) != type) || (op->formats && below(r, 50)) ||
           (!type_of(op) && below(r, 50)));
    if (kind == LLADD_SPAN_UNDO && !op->undo)
        return;
    size_t len = make_bytes(r, op, kind, bytes, s->page.size);
    unsigned char *copy = exact(bytes, len);
    struct lladd_span span = lladd_span_of(copy, len);
    memcpy(header, s->bytes, sizeof header);
    bool anybodys = !type_of(op); /* applies to any page type, so it runs on a copy of the page */
    struct scratch other = *s;
    if (anybodys)
        scratch_copy(&other, s);
    if (op->validate(scratch_view(s), kind, span)) {
        (kind == LLADD_SPAN_REDO ? op->redo : op->undo)(&other.page, span);
        ck_assert_mem_eq(other.bytes, header, sizeof header);
        if (sane && !anybodys && type->check)
            ck_assert_msg(type->check(scratch_view(s)), "%s breaks the page", op->name);
        *applied += !anybodys;
    }
    if (anybodys)
        scratch_free(&other);
    free(copy);
}

static const uint32_t sizes[] = {4096, 8192, 16384, 32768, 65536};

START_TEST(hostile_records_on_good_pages)
{
    const struct lladd_page_type *const *types = all_types();
    struct random r = {(uint64_t)_i + 1};
    for (size_t t = 0; types[t]; t++) {
        uint64_t applied = 0;
        for (int round = 0; round < PAGES; round++) {
            struct scratch s;
            make_page(&r, &s, sizes[_i], types[t]);
            for (int i = 0; i < 1000; i++)
                apply(&r, &s, types[t], true, &applied);
            scratch_free(&s);
        }
        ck_assert_msg(applied > 100, "%s: only %llu records were accepted", types[t]->name,
                      (unsigned long long)applied);
    }
}
END_TEST

/* The page gets random bytes, like a damaged page that was not checked. No callback may access
 * bytes outside the page. */
START_TEST(hostile_records_on_hostile_pages)
{
    const struct lladd_page_type *const *types = all_types();
    struct random r = {(uint64_t)_i + 100};
    uint64_t applied = 0;
    for (size_t t = 0; types[t]; t++) {
        for (int round = 0; round < 3 * PAGES; round++) {
            struct scratch s;
            make_page(&r, &s, sizes[_i], types[t]);
            for (int i = 0; i < 100; i++)
                apply(&r, &s, types[t], true, &applied);
            for (uint32_t k = below(&r, 40); k > 0; k--)
                s.bytes[LLADD_PAGE_HEADER + below(&r, round % 2 ? 64 : 600)] =
                    (unsigned char)(below(&r, 3) ? below(&r, 8) : below(&r, 256));
            for (int i = 0; i < 200; i++)
                apply(&r, &s, types[t], false, &applied);
            uint32_t begin = 0, end = 0;
            if (types[t]->hole) {
                types[t]->hole(scratch_view(&s), &begin, &end);
                ck_assert(begin >= LLADD_PAGE_HEADER && begin <= end && end <= s.page.size);
            }
            if (types[t]->mask)
                types[t]->mask(types[t]->ctx, &s.page);
            if (types[t]->check)
                types[t]->check(scratch_view(&s));
            scratch_free(&s);
        }
    }
    ck_assert_uint_gt(applied, 1000);
}
END_TEST

/* ---- printing for tools ---------------------------------------------------------------------- */

START_TEST(records_print_as_their_fields_say)
{
    static struct text t;
    unsigned char add[10];
    lladd_put16(add, 40);
    lladd_put64(add + 2, (uint64_t)-5);
    ck_assert(lladd_fields_print(ll_operations__counter_add.redo_fields,
                                 lladd_span_of(add, sizeof add), text_fresh(&t)));
    ck_assert_str_eq(t.bytes, "offset=40 delta=-5");
    unsigned char alloc[] = {3, 0, 1, 5, 0, 'h', 'e', 'l', 'l', 'o'};
    ck_assert(lladd_fields_print(ll_operations__slotted_alloc.redo_fields,
                                 lladd_span_of(alloc, sizeof alloc), text_fresh(&t)));
    ck_assert_str_eq(t.bytes, "slot=3 tag=1 length=5 bytes=\"hello\"");
    unsigned char purge[] = {1, 0, 7, 1};
    ll_operations__slotted_purge.describe(NULL, text_fresh(&t), LLADD_SPAN_REDO,
                                          lladd_span_of(purge, sizeof purge));
    ck_assert_str_eq(t.bytes, "1 263");
    unsigned char runs[] = {9, 0, 2, 0, 'a', 'b', 50, 0, 1, 0, 'c'};
    ll_operations__set_range.describe(NULL, text_fresh(&t), LLADD_SPAN_REDO,
                                      lladd_span_of(runs, sizeof runs));
    ck_assert_str_eq(t.bytes, "9+2 50+1");
}
END_TEST

START_TEST(pages_describe_themselves)
{
    const struct lladd_page_type *const *types = all_types();
    static struct text t;
    struct random r = {5};
    for (size_t k = 0; types[k]; k++) {
        struct scratch s;
        uint64_t applied = 0;
        make_page(&r, &s, 4096, types[k]);
        for (int i = 0; i < 500; i++)
            apply(&r, &s, types[k], true, &applied);
        if (types[k]->describe) {
            types[k]->describe(types[k]->ctx, text_fresh(&t), scratch_view(&s));
            ck_assert_uint_gt(t.len, 5);
        } else {
            ck_assert_str_eq(types[k]->name, "lladd.bytes");
        }
        scratch_free(&s);
    }
}
END_TEST

int main(void)
{
    collect();
    Suite *s = suite_create("built-in operations");
    TCase *c = tcase_create("descriptors");
    tcase_add_test(c, every_operation_is_complete);
    tcase_add_test(c, every_operation_passes_the_checks_of_registration);
    tcase_add_test(c, ids_follow_the_order_of_registration);
    tcase_add_loop_test(c, hostile_records_on_good_pages, 0, 5);
    tcase_add_loop_test(c, hostile_records_on_hostile_pages, 0, 5);
    tcase_add_test(c, records_print_as_their_fields_say);
    tcase_add_test(c, pages_describe_themselves);
    suite_add_tcase(s, c);
    return fixture_run(s);
}
