/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_JOURNAL_SHELF_H
#define TESTS_JOURNAL_SHELF_H
/*
 * A bed (tests/operations) with a journal in it, and what its tests say about entries: they are
 * short texts, and what is live in a tag is written as one, "a b c".
 */
#include "bed.h"

#include <lladd/journal.h>

/* A database in memory, small segments, the journal registered. */
void shelf_init(struct bed *);
/* A tag of the owner "test", made in a transaction of its own if it is not there. */
uint64_t shelf_tag(struct bed *, const char *name);
void shelf_append(struct lladd_txn *, uint64_t tag, const char *text);
/* In a transaction of its own; words are entries. Returns the newest commit of the tag. */
lladd_lsn shelf_put(struct bed *, uint64_t tag, const char *words);
/* What is live, as text; to be freed. Asserts the order of commits and the statistics. */
char *shelf_text(struct bed *, uint64_t tag);
void shelf_expect(struct bed *, uint64_t tag, const char *words);
/* What lladd_journal_each tells of the tag; its texts are gone. LLADD_NOT_FOUND if there is none.
 */
int shelf_info(struct bed *, uint64_t tag, struct lladd_journal_info *);
/* Updates of a page, so that the log grows by more than so many bytes. */
void shelf_grow_log(struct bed *, uint64_t bytes);
struct lladd_stats shelf_stats(struct bed *);

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
