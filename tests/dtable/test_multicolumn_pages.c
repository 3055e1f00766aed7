/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile pages of multicolumn_dtable. Pages are taken from runs of several layouts and changed,
 * byte by byte. A changed page is refused, or all of it can be read, and no access leads outside:
 * a page has memory of exactly its size here, so that sanitizers see it. Runs with changed pages,
 * and good checksums, are refused with LLADD_CORRUPT_RUN or read to their end.
 */
#include "model.h"
#include "operations/dtables/core/dtable.h"
#include "operations/dtables/multicolumn/build.h"

#include <lladd/blob.h>
#include <lladd/bytes.h>
#include <stdio.h>

static struct fixture b;
static uint64_t seed;

static uint64_t draw(uint64_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % n;
}

static void setup(void)
{
    seed = 1;
    fixture_init(&b, 4096);
    fixture_open(&b);
}

static void teardown(void)
{
    fixture_free(&b);
}

/* ---- runs to take pages from ----------------------------------------------------------------- */

static const struct source {
    const char *config;
    enum lladd_dtable_type type;
    bool rows;
} sources[] = {
    {"class(dt) multicolumn_dtable config [ \"key\" words [ \"u32\" \"u32\" ] \"columns\" words [ "
     "\"i16\" \"u8\" \"u32\" \"u64\" ] ]",
     LLADD_DTABLE_BYTES, false},
    {"class(dt) multicolumn_dtable config [ \"columns\" words [ \"i16\" \"u8\" \"u32\" \"u64\" ] ]",
     LLADD_DTABLE_STRING, false},
    {"class(dt) multicolumn_dtable config [ \"columns\" words [ \"i16\" \"u8\" \"u32\" \"u64\" "
     "\"text12\" ] \"rows\" bool true ]",
     LLADD_DTABLE_U32, true},
};
enum { SOURCES = sizeof sources / sizeof sources[0], ROWS = 1500 };

/* Columns for every codec: run lengths, a dictionary, exceptions, differences. */
static struct lladd_dtable_value value_of(uint32_t i, bool rows, unsigned char room[96])
{
    unsigned char v[15];
    size_t size;
    lladd_put16(v, (uint16_t)(i / 200));
    v[2] = (unsigned char)(i % 5 * 50);
    lladd_put32(v + 3, i % 70 ? 1000 + (uint32_t)draw(100) : UINT32_MAX - i);
    lladd_put64(v + 7, i * UINT64_C(1000003));
    if (i % 90 == 17)
        return lladd_dtable_tombstone();
    if (!rows) {
        memcpy(room, v, sizeof v);
        return lladd_dtable_value_of(room, sizeof v);
    }
    struct lladd_dtable_value all[5] = {
        lladd_dtable_value_of(v, 2), lladd_dtable_value_of(v + 2, 1),
        lladd_dtable_value_of(v + 3, 4), lladd_dtable_value_of(v + 7, 8),
        lladd_dtable_value_of("text", i % 5)};
    if (i % 13 == 0)
        all[1 + i % 2].state = LLADD_DTABLE_ABSENT;
    ok_db(&b, lladd_dtable_row_size(all, 5, &size, &b.err));
    lladd_dtable_row_pack(all, 5, room);
    return lladd_dtable_value_of(room, size);
}

static struct lladd_dtable *build(const struct source *s, lladd_pageno *root)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_run_builder *run;
    struct lladd_dtable *t;
    o.type = s->type;
    o.text = s->config;
    o.block_bytes = 4096;
    ok(txn, lladd_dtable_run_begin(txn, &o, &run));
    for (uint32_t i = 0; i < ROWS; i++) {
        char text[16];
        unsigned char room[96];
        (void)snprintf(text, sizeof text, "%08u%s", i * 7, i % 3 ? "" : "x");
        struct lladd_dtable_key key = s->type == LLADD_DTABLE_BYTES ? lladd_dtable_bytes(text, 8)
                                      : s->type == LLADD_DTABLE_U32 ? lladd_dtable_u32(i * 3)
                                                                    : lladd_dtable_string(text);
        struct lladd_dtable_value v = value_of(i, s->rows, room);
        ok(txn, lladd_dtable_run_add(run, &key, &v));
    }
    ok(txn, lladd_dtable_run_finish(run, root));
    commit(txn);
    ok_db(&b, lladd_dtable_run_open(b.db, *root, &t, &b.err));
    ok_db(&b, lladd_dtable_run_check(t, &b.err));
    return t;
}

/* ---- single pages ---------------------------------------------------------------------------- */

/* Reads all of a page that was accepted. */
static void read_page(const struct ll_pages *pages, const struct lladd_dtable_order *order,
                      const struct ll_page *p)
{
    static uint64_t numbers[LLADD_CODEC_ROWS];
    unsigned char room[LL_KEY_MAX], out[LL_TEXT_LENGTH];
    const struct ll_layout *l = pages->layout;
    uint32_t rows = ll_page_rows(p);
    for (uint32_t i = ll_page_skips(pages, ll_page_flags(p)); i < l->n; i++) {
        ll_page__numbers(pages, p, i, 0, rows, numbers);
        for (uint32_t k = 0; k < rows; k += 1 + rows / 50) {
            uint64_t v = ll_page__number(pages, p, i, k);
            ck_assert_uint_eq(v, ll_number(numbers, l->column[i].width, k));
            if (i >= l->n_key) {
                (void)ll_multicolumn__put(&l->column[i], v, out);
                (void)ll_bit(ll_page__absent(pages, p, i), k);
            }
        }
    }
    for (uint32_t k = 0; k < rows; k += 1 + rows / 20) {
        struct lladd_dtable_key key;
        bool exact;
        (void)ll_bit(ll_page__tombstones(pages, p), k);
        ll_page__key_at(pages, order->type, p, k, room, &key);
        uint32_t at = ll_page__find(pages, order, p, &key, room, &exact);
        ck_assert_uint_le(at, rows);
    }
}

static unsigned refused, accepted;

static void try_page(const struct ll_multicolumn_reader *r, const struct ll_page *p)
{
    uint32_t column;
    const char *why = ll_page__check(&r->pages, p, &column);
    refused += why != NULL;
    accepted += why == NULL;
    if (!why)
        read_page(&r->pages, &r->base.order, p);
}

static void change_page(const struct ll_multicolumn_reader *r, const struct ll_page *from)
{
    unsigned char *bytes = exact(from->bytes, from->len);
    struct ll_page p = {bytes, from->len};
    try_page(r, &p);
    ck_assert_uint_eq(accepted, 1);
    for (uint32_t i = 0; i < p.len; i++)
        for (unsigned turn = 0; turn < (i < 80 ? 256u : 3u); turn++) {
            unsigned char was = bytes[i];
            uint64_t now = i < 80      ? turn
                           : turn == 0 ? ~(uint64_t)was
                           : turn == 1 ? was ^ UINT64_C(1) << i % 8
                                       : draw(256);
            bytes[i] = (unsigned char)now;
            try_page(r, &p);
            bytes[i] = was;
        }
    for (unsigned turn = 0; turn < 3000; turn++) { /* several bytes, most of them in the header */
        unsigned char *all = exact(from->bytes, from->len);
        struct ll_page q = {all, from->len};
        for (unsigned i = 0; i < 2 + turn % 4; i++)
            all[draw(draw(2) ? 60 : q.len)] = (unsigned char)draw(256);
        try_page(r, &q);
        free(all);
    }
    free(bytes);
    for (uint32_t len = 0; len < from->len; len += len < 200 ? 1 : 37) { /* cut off */
        bytes = exact(from->bytes, len);
        p = (struct ll_page){bytes, len};
        try_page(r, &p);
        free(bytes);
    }
}

#ifdef LL_TEST_SHORT
enum { PAGES_APART = 2 }; /* only the first page */
#else
enum { PAGES_APART = 1 }; /* the first page and the last */
#endif

START_TEST(changed_pages)
{
    lladd_pageno root;
    struct lladd_dtable *t = build(&sources[_i], &root);
    const struct ll_multicolumn_reader *r = (const struct ll_multicolumn_reader *)t;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct ll_page p;
    ck_assert_uint_ge(r->n_pages, 2);
    for (uint64_t page = 0; page < r->n_pages; page += PAGES_APART * (r->n_pages - 1)) {
        refused = accepted = 0;
        ok_db(&b, ll_multicolumn__page(r, page, &pin, &p, &b.err));
        change_page(r, &p);
        ck_assert_uint_ge(refused, 5000);
        ck_assert_uint_ge(accepted, 1000);
    }
    lladd_dtable_unpin(&pin);
    lladd_dtable_close(t);
}
END_TEST

/* ---- runs with changed pages ----------------------------------------------------------------- */
/* A class with the layers of the other one, that writes given streams and a given footer. */

static struct forged {
    unsigned char *keys, *pages, *footer;
    unsigned char *own, *codecs; /* parts of the footer: the class's own, its list of codecs */
    size_t keys_len, pages_len, footer_len;
} forged;

static int raw_add(struct lladd_dtable_builder *raw, const struct lladd_dtable_key *key,
                   const struct lladd_dtable_value *value)
{
    (void)raw, (void)key, (void)value;
    return 0;
}
static int raw_finish(struct lladd_dtable_builder *raw)
{
    struct lladd_dtable_writer *w;
    TRY(lladd_dtable_stream(raw, "keys", &w));
    TRY(lladd_dtable_write(w, forged.keys, forged.keys_len));
    TRY(lladd_dtable_stream(raw, "pages", &w));
    TRY(lladd_dtable_write(w, forged.pages, forged.pages_len));
    return lladd_dtable_footer(raw, forged.footer, forged.footer_len);
}
static int raw_find(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                    struct lladd_dtable_pin *pin, uint64_t *place, bool *exact_,
                    struct lladd_error *err)
{
    (void)key, (void)pin, (void)place, (void)exact_;
    return lladd_dtable_corrupt(t, err, "is not read");
}
static int raw_at(const struct lladd_dtable *t, uint64_t place, struct lladd_dtable_pin *pin,
                  struct lladd_dtable_key *key, struct lladd_dtable_value *value,
                  struct lladd_error *err)
{
    (void)place, (void)pin, (void)key, (void)value;
    return lladd_dtable_corrupt(t, err, "is not read");
}
static const struct lladd_dtable_class raw = {
    .struct_size = sizeof raw,
    .name = "raw",
    .version = 1,
    .add = raw_add,
    .finish = raw_finish,
    .find = raw_find,
    .at = raw_at,
};

static unsigned char *copy_stream(const struct lladd_dtable_source *s, size_t *len)
{
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    const unsigned char *bytes;
    *len = (size_t)lladd_dtable_source_size(s);
    ok_db(&b, lladd_dtable_read(&pin, 0, s, 0, *len, &bytes, &b.err));
    unsigned char *out = exact(bytes, *len);
    lladd_dtable_unpin(&pin);
    return out;
}

static void take_streams(const struct lladd_dtable *t)
{
    const struct ll_multicolumn_reader *r = (const struct ll_multicolumn_reader *)t;
    forged.keys = copy_stream(r->nodes.in, &forged.keys_len);
    forged.pages = copy_stream(r->in, &forged.pages_len);
    forged.footer_len = t->footer.len;
    forged.footer = exact(t->footer.data, t->footer.len);
    size_t codecs = 0;
    for (uint32_t i = 0; i < r->pages.n_codecs; i++)
        codecs += LL_FOOTER_CODEC + strlen(r->pages.codecs[i]->name);
    forged.codecs = forged.footer + forged.footer_len - codecs;
    forged.own = forged.codecs - LL_FOOTER_HEAD - r->pages.layout->n;
}

/* Stores the streams as a run with the descriptor of `like`, in the transaction. */
static lladd_pageno forge(struct lladd_txn *txn, const struct ll_dtable_descriptor *like)
{
    struct lladd_dtable_run_options o = LLADD_DTABLE_RUN_OPTIONS_INIT;
    struct lladd_dtable_run_builder *run;
    struct ll_dtable_descriptor d;
    struct ll_dtable_bytes bytes = {.db = b.db};
    lladd_pageno root, out;
    o.type = like->type;
    o.text = "class(dt) raw";
    o.block_bytes = 4096;
    ok(txn, lladd_dtable_run_begin(txn, &o, &run));
    ok(txn, lladd_dtable_run_finish(run, &root));
    ok_db(&b, ll_dtable__read_descriptor(b.db, root, &d, &b.err));
    d.config = like->config;
    d.rows = like->rows;
    d.tombstones = like->tombstones;
    d.min = like->min;
    d.max = like->max;
    ck_assert_int_eq(ll_dtable__describe(&d, &bytes), 0);
    ok(txn, lladd_blob_create(txn, bytes.data, bytes.len, &out));
    lladd_mem_free(b.db, bytes.data);
    ll_dtable__descriptor_free(&d);
    return out;
}

/* Reads the forged run. Returns the code. */
static int read_run(const struct ll_dtable_descriptor *like)
{
    struct lladd_txn *txn = fixture_begin(&b);
    struct lladd_dtable_cursor *c;
    struct lladd_dtable *t;
    lladd_pageno root = forge(txn, like);
    int rc = lladd_dtable_run_open(b.db, root, &t, &b.err);
    if (!rc) {
        static unsigned char out[ROWS * 8];
        size_t width, got;
        rc = lladd_dtable_run_check(t, &b.err);
        ok_db(&b, lladd_dtable_cursor_open(t, LLADD_DTABLE_TOMBSTONES, &c, &b.err));
        int step = lladd_dtable_last(c, &b.err);
        while (!step)
            step = lladd_dtable_prev(c, &b.err);
        ck_assert(step == LLADD_END || step == LLADD_CORRUPT_RUN);
        lladd_dtable_cursor_close(c);
        for (uint32_t column = 0; column < 6; column++) {
            int copied = t->kind->copy_column(t, column, 0, ROWS, out, sizeof out, &width, &got,
                                              &b.err);
            ck_assert(copied == 0 || copied == LLADD_CORRUPT_RUN);
        }
        lladd_dtable_close(t);
    }
    abort_txn(txn);
    return rc;
}

START_TEST(changed_runs)
{
    struct ll_dtable_descriptor like;
    lladd_pageno root;
    unsigned corrupt = 0;
    ok_db(&b, lladd_dtable_class_add(b.db, &raw, &b.err));
    struct lladd_dtable *t = build(&sources[_i], &root);
    take_streams(t);
    lladd_dtable_close(t);
    ok_db(&b, ll_dtable__read_descriptor(b.db, root, &like, &b.err));
    ck_assert_int_eq(read_run(&like), 0);
    for (unsigned turn = 0; turn < 250; turn++) {
        unsigned char *p = turn % 3 == 0   ? forged.pages + draw(forged.pages_len)
                           : turn % 3 == 1 ? forged.footer + draw(forged.footer_len)
                                           : forged.keys + draw(forged.keys_len);
        unsigned char was = *p;
        *p = (unsigned char)(was + 1 + draw(255));
        int rc = read_run(&like);
        ck_assert_msg(rc == 0 || rc == LLADD_CORRUPT_RUN || rc == LLADD_BAD_CONFIG ||
                          rc == LLADD_NEWER_FORMAT,
                      "%s: %s", lladd_code_name(rc), b.err.message);
        corrupt += rc == LLADD_CORRUPT_RUN;
        *p = was;
    }
    ck_assert_uint_ge(corrupt, 50);
    /* A newer page, footer or codec, an unknown codec, a page that belongs to another place. */
    forged.pages[0]++;
    ck_assert_int_eq(read_run(&like), LLADD_CORRUPT_RUN);
    ck_assert_msg(strstr(b.err.message, "page 0: it has an unknown version") != NULL, "%s",
                  b.err.message);
    forged.pages[0]--;
    forged.own[0]++;
    ck_assert_int_eq(read_run(&like), LLADD_NEWER_FORMAT);
    forged.own[0]--;
    forged.codecs[0]++;
    ck_assert_int_eq(read_run(&like), LLADD_NEWER_FORMAT);
    ck_assert_ptr_nonnull(strstr(b.err.message, "codec nop of version 2; 1 is known"));
    forged.codecs[0]--;
    forged.codecs[LL_FOOTER_CODEC]++;
    ck_assert_int_eq(read_run(&like), LLADD_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(b.err.message, "the codec \"oop\" is not registered"));
    forged.codecs[LL_FOOTER_CODEC]--;
    forged.pages[10]++;
    ck_assert_int_eq(read_run(&like), LLADD_CORRUPT_RUN);
    ck_assert_ptr_nonnull(strstr(b.err.message, "page 0: its rows are not those of its node"));
    forged.pages[10]--;
    ck_assert_int_eq(read_run(&like), 0);
    ll_dtable__descriptor_free(&like);
    free(forged.keys);
    free(forged.pages);
    free(forged.footer);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("multicolumn_pages");
    TCase *tc = tcase_create("pages");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, changed_pages, 0, SOURCES);
    tcase_add_loop_test(tc, changed_runs, 0, SOURCES);
    suite_add_tcase(s, tc);
    return fixture_run(s);
}
