/* SPDX-License-Identifier: BSD-2-Clause */
/* See journal_fixture.h. */
#include "journal_fixture.h"

#include <lladd/pages.h>
#include <lladd/records.h>

void journal_init(struct fixture *b)
{
    fixture_init(b, 4096);
    ok_db(b, lladd_journal_register(&b->options, &b->err));
}

uint64_t journal_tag(struct fixture *b, const char *name)
{
    struct lladd_txn *txn = fixture_begin(b);
    uint64_t tag = 0;
    ok(txn, lladd_journal_acquire(txn, name, "test", &tag));
    commit(txn);
    ck_assert_uint_ne(tag, 0);
    return tag;
}

void journal_append(struct lladd_txn *txn, uint64_t tag, const char *text)
{
    lladd_lsn lsn = {0};
    ok(txn, lladd_journal_append(txn, tag, lladd_span_of(text, strlen(text)), &lsn));
    ck_assert_uint_ne(lsn.v, 0);
}

lladd_lsn journal_put(struct fixture *b, uint64_t tag, const char *words)
{
    struct lladd_txn *txn = fixture_begin(b);
    char *copy = strdup(words), *rest = copy;
    lladd_lsn newest = {0};
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        journal_append(txn, tag, word);
    free(copy);
    commit(txn);
    ok_db(b, lladd_journal_newest(b->db, tag, &newest, &b->err));
    return newest;
}

int text_add(void *ctx, const struct lladd_journal_entry *e, struct lladd_error *err)
{
    struct text_of *t = ctx;
    (void)err;
    ck_assert_uint_ge(e->commit.v, t->last.v);
    t->last = e->commit;
    if (t->cap < t->len + e->bytes.len + 2) {
        t->cap = 2 * (t->len + e->bytes.len + 2);
        t->bytes = realloc(t->bytes, t->cap);
        ck_assert_ptr_nonnull(t->bytes);
    }
    if (t->len)
        t->bytes[t->len++] = ' ';
    memcpy(t->bytes + t->len, e->bytes.data, e->bytes.len);
    t->len += e->bytes.len;
    t->bytes[t->len] = 0;
    t->entries++;
    return 0;
}

char *journal_text(struct fixture *b, uint64_t tag)
{
    struct text_of t = {.bytes = calloc(1, 1), .cap = 1};
    struct lladd_journal_info info;
    ok_db(b, lladd_journal_replay(b->db, tag, text_add, &t, &b->err));
    ck_assert_int_eq(journal_info(b, tag, &info), 0);
    ck_assert_uint_eq(info.entries, t.entries);
    ck_assert_uint_eq(info.bytes + (t.entries ? t.entries - 1 : 0), t.len);
    return t.bytes;
}

void journal_expect(struct fixture *b, uint64_t tag, const char *words)
{
    char *text = journal_text(b, tag);
    ck_assert_str_eq(text, words);
    free(text);
}

struct wanted {
    uint64_t tag;
    struct lladd_journal_info *out;
};

static int find_info(void *ctx, const struct lladd_journal_info *info)
{
    const struct wanted *w = ctx;
    if (info->tag != w->tag)
        return 0;
    *w->out = *info;
    w->out->name = w->out->owner = NULL;
    return LLADD_EXISTS;
}

int journal_info(struct fixture *b, uint64_t tag, struct lladd_journal_info *out)
{
    struct wanted w = {tag, out};
    int rc = lladd_journal_each(b->db, find_info, &w, &b->err);
    return rc == LLADD_EXISTS ? 0 : rc ? rc : LLADD_NOT_FOUND;
}

void journal_grow_log(struct fixture *b, uint64_t bytes)
{
    unsigned char fill[2000];
    lladd_pageno page;
    uint64_t until = journal_stats(b).log_tail + bytes;
    struct lladd_txn *txn = fixture_begin(b);
    ok(txn, lladd_page_alloc(txn, &page));
    ok(txn, lladd_bytes_format(txn, page));
    commit(txn);
    for (unsigned i = 0; journal_stats(b).log_tail < until; i++) {
        txn = fixture_begin(b);
        memset(fill, (int)i, sizeof fill);
        ok(txn, lladd_bytes_set(txn, page, 0, fill, sizeof fill));
        commit(txn);
    }
    txn = fixture_begin(b);
    ok(txn, lladd_page_free(txn, page));
    commit(txn);
}

struct lladd_stats journal_stats(struct fixture *b)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    ck_assert_int_eq(lladd_stats_get(b->db, &s), 0);
    return s;
}
