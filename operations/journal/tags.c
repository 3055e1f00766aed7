/* SPDX-License-Identifier: BSD-2-Clause */
/* Tags in memory, and their buckets, which say where in the log the live entries are. All functions
 * run under the journal's mutex. */
#include "operations/journal/table.h"

struct ll_journal_tag *ll_operations__journal_tag(const struct ll_journal *j, uint64_t tag)
{
    return (struct ll_journal_tag *)ll_operations__index_find(&j->tags, tag);
}

struct ll_journal_tag *ll_operations__journal_named(const struct ll_journal *j, const char *name,
                                                    const struct ll_journal_txn *txn)
{
    for (struct ll_index_node *n = NULL; (n = ll_operations__index_next(&j->tags, n)) != NULL;) {
        struct ll_journal_tag *t = (struct ll_journal_tag *)n;
        bool gone = t->state == LL_TAG_GOING && t->changing == txn;
        if (!gone && t->name && strcmp(t->name, name) == 0)
            return t;
    }
    return NULL;
}

struct ll_journal_tag *ll_operations__journal_tag_new(struct ll_journal *j, uint64_t tag,
                                                      const char *name)
{
    size_t len = strlen(name);
    if (ll_operations__index_room(j->db, &j->tags))
        return NULL;
    struct ll_journal_tag *t = lladd_mem_alloc(j->db, sizeof *t);
    char *copy = lladd_mem_alloc(j->db, len + 1);
    if (!t || !copy) {
        lladd_mem_free(j->db, t);
        lladd_mem_free(j->db, copy);
        return NULL;
    }
    memset(t, 0, sizeof *t);
    memcpy(copy, name, len + 1);
    t->name = copy;
    t->node.key = tag;
    t->state = LL_TAG_THERE;
    t->low = UINT64_MAX;
    ll_operations__index_add(&j->tags, &t->node);
    return t;
}

void ll_operations__journal_tag_free(struct ll_journal *j, struct ll_journal_tag *t)
{
    ll_operations__index_drop(&j->tags, &t->node);
    lladd_mem_free(j->db, t->buckets);
    lladd_mem_free(j->db, t->name);
    lladd_mem_free(j->db, t);
}

/* ---- buckets --------------------------------------------------------------------------------- */

static void lowest(struct ll_journal_tag *t)
{
    t->low = UINT64_MAX;
    for (size_t i = 0; i < t->n_buckets; i++)
        if (t->buckets[i].first < t->low)
            t->low = t->buckets[i].first;
}

/* Merges b, the later bucket, into a. */
static void join(struct ll_journal_bucket *a, const struct ll_journal_bucket *b)
{
    a->commit = b->commit > a->commit ? b->commit : a->commit;
    a->first = b->first < a->first ? b->first : a->first;
    a->read_to = b->read_to > a->read_to ? b->read_to : a->read_to;
    a->entries += b->entries;
    a->bytes += b->bytes;
}

/* Merges a tag's buckets in pairs if there are many. That makes the buckets less precise, but keeps
 * no more log: `low` stays. Does nothing while a transaction changes the tag, because that
 * transaction relies on the commits of the buckets. */
static void condense(struct ll_journal_tag *t)
{
    size_t n = 0;
    if (t->n_buckets < LL_JOURNAL_MANY_BUCKETS || t->changing)
        return;
    for (size_t i = 0; i < t->n_buckets; i += 2) {
        t->buckets[n] = t->buckets[i];
        if (i + 1 < t->n_buckets)
            join(&t->buckets[n], &t->buckets[i + 1]);
        n++;
    }
    t->n_buckets = n;
}

int ll_operations__journal_bucket_room(struct ll_journal *j, struct ll_journal_tag *t)
{
    return ll_operations__grow(j->db, &t->buckets, t->n_buckets + t->users + 2, &t->cap_buckets,
                               sizeof *t->buckets);
}

void ll_operations__journal_bucket_put(struct ll_journal_tag *t, struct ll_journal_bucket b)
{
    condense(t);
    t->entries += b.entries;
    t->bytes += b.bytes;
    if (b.first < t->low)
        t->low = b.first;
    if (t->n_buckets && t->buckets[t->n_buckets - 1].commit == b.commit)
        join(&t->buckets[t->n_buckets - 1], &b);
    else
        t->buckets[t->n_buckets++] = b;
}

static bool within(const struct ll_journal_bucket *b, uint64_t from, uint64_t upto)
{
    return b->commit > from && b->commit <= upto;
}

/* A bucket may count entries that are not live any more. Cleaning counts the live entries of these
 * buckets together; the difference is subtracted from the first buckets. */
void ll_operations__journal_bucket_move(struct ll_journal_tag *t, uint64_t from, uint64_t upto,
                                        const struct ll_journal_bucket *own, uint64_t commit)
{
    struct ll_journal_bucket gone = {.entries = 0};
    size_t kept = 0;
    for (size_t i = 0; i < t->n_buckets; i++)
        if (within(&t->buckets[i], from, upto)) {
            gone.entries += t->buckets[i].entries;
            gone.bytes += t->buckets[i].bytes;
        }
    gone.entries -= own->entries;
    gone.bytes -= own->bytes;
    t->entries -= gone.entries;
    t->bytes -= gone.bytes;
    for (size_t i = 0; i < t->n_buckets; i++) {
        struct ll_journal_bucket *b = &t->buckets[i];
        if (within(b, from, upto)) {
            uint64_t entries = gone.entries < b->entries ? gone.entries : b->entries;
            uint64_t bytes = gone.bytes < b->bytes ? gone.bytes : b->bytes;
            b->entries -= entries;
            b->bytes -= bytes;
            gone.entries -= entries;
            gone.bytes -= bytes;
            b->first = own->first;
            b->read_to = commit;
            if (!b->entries)
                continue;
        }
        t->buckets[kept++] = *b;
    }
    t->n_buckets = kept;
    lowest(t);
}

void ll_operations__journal_bucket_take(struct ll_journal_tag *t, uint64_t from, uint64_t upto,
                                        struct ll_journal_bucket *sum)
{
    size_t kept = 0;
    *sum = (struct ll_journal_bucket){.first = UINT64_MAX};
    for (size_t i = 0; i < t->n_buckets; i++) {
        const struct ll_journal_bucket *b = &t->buckets[i];
        if (within(b, from, upto))
            join(sum, b);
        else
            t->buckets[kept++] = *b;
    }
    t->n_buckets = kept;
    t->entries -= sum->entries;
    t->bytes -= sum->bytes;
    if (sum->first <= t->low)
        lowest(t);
}
