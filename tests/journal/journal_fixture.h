/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_JOURNAL_FIXTURE_H
#define TESTS_JOURNAL_FIXTURE_H
/*
 * The fixture of tests/operations with a journal, and functions for entries: they are short texts,
 * and the live entries of a tag are written as one, "a b c".
 */
#include "op_fixture.h"

#include <lladd/journal.h>
#include <lladd/stats.h>

/* A database in memory, small segments, the journal registered. */
void journal_init(struct fixture *);
/* A tag of the owner "test", created in a transaction of its own if it does not exist. */
uint64_t journal_tag(struct fixture *, const char *name);
void journal_append(struct lladd_txn *, uint64_t tag, const char *text);
/* In a transaction of its own; each word is an entry. Returns the newest commit of the tag. */
lladd_lsn journal_put(struct fixture *, uint64_t tag, const char *words);
/* The live entries as text, which the caller frees. Asserts the order of commits and the
 * statistics. */
char *journal_text(struct fixture *, uint64_t tag);
void journal_expect(struct fixture *, uint64_t tag, const char *words);
/* What lladd_journal_each reports for the tag, without its texts. LLADD_NOT_FOUND if there is none.
 */
int journal_info(struct fixture *, uint64_t tag, struct lladd_journal_info *);
/* Updates a page until the log has grown by this many bytes. */
void journal_grow_log(struct fixture *, uint64_t bytes);
struct lladd_stats journal_stats(struct fixture *);

/* A text that grows. */
struct text_of {
    char *bytes;
    size_t len, cap;
    lladd_lsn last;
    unsigned entries;
};
/* A lladd_journal_fn: appends the entry. */
int text_add(void *text, const struct lladd_journal_entry *, struct lladd_error *);

#endif
