/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_JOURNAL_FIXTURE_H
#define TESTS_JOURNAL_FIXTURE_H
/*
 * The fixture of tests/operations, extended by a journal and by functions for entries. Entries are
 * short texts. The live entries of a tag are written as one text, "a b c".
 */
#include "op_fixture.h"

#include <lladd/journal.h>
#include <lladd/stats.h>

/* Calls fixture_init, with pages of 4096 bytes, and registers the journal. */
void journal_init(struct fixture *);
/* Returns a tag of the owner "test". Creates the tag in a transaction of its own if it does not
 * exist. */
uint64_t journal_tag(struct fixture *, const char *name);
void journal_append(struct lladd_txn *, uint64_t tag, const char *text);
/* Appends each word as an entry, in a transaction that commits. Returns the newest commit of the
 * tag. */
lladd_lsn journal_put(struct fixture *, uint64_t tag, const char *words);
/* Returns the live entries as text, which the caller frees. Asserts the order of commits and the
 * statistics. */
char *journal_text(struct fixture *, uint64_t tag);
void journal_expect(struct fixture *, uint64_t tag, const char *words);
/* Gets what lladd_journal_each reports for the tag, except the name of the tag and that of its
 * owner. Returns LLADD_NOT_FOUND if there is no such tag. */
int journal_info(struct fixture *, uint64_t tag, struct lladd_journal_info *);
/* Updates a page until the log has grown by this many bytes. */
void journal_grow_log(struct fixture *, uint64_t bytes);
struct lladd_stats journal_stats(struct fixture *);

/* The entries of a replay as one text. `last`: the commit of the last entry. */
struct text_of {
    char *bytes;
    size_t len, cap;
    lladd_lsn last;
    unsigned entries;
};
/* A lladd_journal_fn: appends the entry. */
int text_add(void *text, const struct lladd_journal_entry *, struct lladd_error *);

#endif
