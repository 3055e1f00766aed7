/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the log to find each tag's live entries, in the order of their commits.
 *
 * One pass reads the log from the oldest entry needed, or from before it. It keeps a transaction's
 * records in memory until it reads the commit record, and then carries them out in the order
 * logged, so each tag's items are sorted by commit. If the pass begins in the middle of a
 * transaction, none of the transaction's earlier entries is needed (JRN-2).
 *
 * While recovery's rollbacks are not durable, losers look like open transactions. That does no
 * harm: neither an open transaction nor an aborted one has items. */
#include "operations/journal/table.h"

#include <lladd/log_read.h>

static int no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory to read the journal");
}

int ll_operations__journal_bad(struct lladd_error *err, lladd_lsn lsn, const char *how)
{
    int rc = lladd_error_set(err, LLADD_BAD_RECORD, "LSN %llu: a record of the journal %s",
                             (unsigned long long)lsn.v, how);
    if (err)
        err->lsn = lsn;
    return rc;
}

/* ---- open transactions ----------------------------------------------------------------------- */

void ll_operations__journal_forget(struct ll_journal_scan *s, struct ll_journal_open *o)
{
    ll_operations__index_drop(&s->open, &o->node);
    lladd_mem_free(s->db, o->steps);
    lladd_mem_free(s->db, o->records);
    lladd_mem_free(s->db, o->annuls);
    lladd_mem_free(s->db, o);
}

struct ll_journal_open *ll_operations__journal_open_of(struct ll_journal_scan *s, uint64_t txn)
{
    struct ll_journal_open *o = (struct ll_journal_open *)ll_operations__index_find(&s->open, txn);
    if (o || ll_operations__index_room(s->db, &s->open))
        return o;
    o = lladd_mem_alloc(s->db, sizeof *o);
    if (!o)
        return NULL;
    memset(o, 0, sizeof *o);
    o->node.key = txn;
    ll_operations__index_add(&s->open, &o->node);
    return o;
}

/* The annulments are disjoint and in ascending order. */
bool ll_operations__journal_annulled(const struct ll_journal_open *o, uint64_t lsn)
{
    size_t from = 0, to = o->n_annuls;
    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (lsn > o->annuls[mid].upto)
            from = mid + 1;
        else
            to = mid;
    }
    return from < o->n_annuls && lsn > o->annuls[from].since;
}

/* Adds an annulment, and merges it with those that it overlaps. Most annulments come last, or
 * overlap the last ones. Earlier versions of the library logged annulments again after a refused
 * commit, so an annulment may also repeat an earlier one. */
static int see_annulment(struct ll_journal_scan *s, struct ll_journal_open *o,
                         const struct lladd_log_entry *e, const struct ll_journal_record *r,
                         struct lladd_error *err)
{
    struct ll_journal_annul one = {r->from, r->upto};
    if (r->from >= r->upto || r->upto >= e->lsn.v)
        return ll_operations__journal_bad(err, e->lsn, "annuls a range that is invalid");
    size_t end = o->n_annuls;
    while (end && o->annuls[end - 1].since >= one.upto)
        end--;
    size_t begin = end;
    for (; begin && o->annuls[begin - 1].upto > r->from; begin--) {
        const struct ll_journal_annul *a = &o->annuls[begin - 1];
        one.since = a->since < one.since ? a->since : one.since;
        one.upto = a->upto > one.upto ? a->upto : one.upto;
    }
    if (begin == end && ll_operations__grow(s->db, &o->annuls, o->n_annuls + 1, &o->cap_annuls,
                                                    sizeof *o->annuls))
        return no_memory(err);
    if (end < o->n_annuls)
        memmove(&o->annuls[begin + 1], &o->annuls[end], (o->n_annuls - end) * sizeof one);
    o->annuls[begin] = one;
    o->n_annuls -= end - begin;
    o->n_annuls++;
    return 0;
}

int ll_operations__journal_see(struct ll_journal_scan *s, const struct lladd_log_entry *e,
                               struct lladd_error *err)
{
    struct ll_journal_record r;
    struct lladd_db *db = s->db;
    if (!ll_operations__journal_get(e->redo, &r))
        return ll_operations__journal_bad(err, e->lsn, "is invalid");
    if (r.kind == LL_JOURNAL_MAKE || r.kind == LL_JOURNAL_RELEASE || r.kind == LL_JOURNAL_DISCARD)
        return 0; /* the record's effect is in the journal's catalogue, which page recovery
                   * restores */
    struct ll_journal_open *o = ll_operations__journal_open_of(s, e->txn.v);
    if (!o)
        return no_memory(err);
    if (r.kind == LL_JOURNAL_ANNUL)
        return see_annulment(s, o, e, &r, err);
    struct ll_journal_step step = {.lsn = e->lsn.v, .tag = r.tag, .len = (uint32_t)r.bytes.len};
    if (r.kind != LL_JOURNAL_ENTRY) {
        if (ll_operations__grow(db, &o->records, o->n_records + 1, &o->cap_records, sizeof r))
            return no_memory(err);
        r.bytes = lladd_span_of(NULL, r.bytes.len);
        o->records[o->n_records++] = r;
        step.more = (uint32_t)o->n_records;
    }
    if (ll_operations__grow(db, &o->steps, o->n_steps + 1, &o->cap_steps, sizeof step))
        return no_memory(err);
    o->steps[o->n_steps++] = step;
    return 0;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static struct ll_journal_list *list_of(struct ll_journal_scan *s, uint64_t tag)
{
    struct ll_journal_list *l = (struct ll_journal_list *)ll_operations__index_find(&s->lists, tag);
    if (l || ll_operations__index_room(s->db, &s->lists))
        return l;
    l = lladd_mem_alloc(s->db, sizeof *l);
    if (!l)
        return NULL;
    memset(l, 0, sizeof *l);
    l->node.key = tag;
    ll_operations__index_add(&s->lists, &l->node);
    return l;
}

static int room(struct ll_journal_scan *s, struct ll_journal_list *l, size_t n)
{
    return ll_operations__grow(s->db, &l->items, l->n + n, &l->cap, sizeof *l->items);
}

/* Index of the first item with a commit after `commit`. */
static size_t first_after(const struct ll_journal_list *l, uint64_t commit)
{
    size_t low = 0, high = l->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (l->items[mid].commit > commit)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Moves the tail of the list, which begins at index `from`, to index `to`. */
static void shift(struct ll_journal_list *l, size_t from, size_t to)
{
    if (from < l->n)
        memmove(&l->items[to], &l->items[from], (l->n - from) * sizeof *l->items);
}

static void cut(struct ll_journal_list *l, size_t from, size_t to)
{
    shift(l, to, from);
    l->n -= to - from;
}

/* Carries out a ROLLOVER record of the transaction that commits at `commit`. */
static int roll_over(struct ll_journal_scan *s, const struct ll_journal_record *r, uint64_t commit)
{
    struct ll_journal_list *from = list_of(s, r->tag), *to = list_of(s, r->other);
    if (!from || !to)
        return LLADD_NO_MEMORY;
    for (int own = 0; own < 2; own++) {
        size_t begin = first_after(from, own ? commit - 1 : r->from);
        size_t end = first_after(from, own ? commit : r->upto);
        if (room(s, to, end - begin))
            return LLADD_NO_MEMORY;
        for (size_t i = begin; i < end; i++) {
            struct ll_journal_item it = from->items[i];
            it.commit = it.placed = commit;
            to->items[to->n++] = it;
        }
        cut(from, begin, end);
    }
    return 0;
}

/* Replaces the items in (from, upto] by the copies in the AGAIN steps after the CLEAN step *i.
 * Advances *i to the last AGAIN step. */
static int clean(struct ll_journal_scan *s, const struct ll_journal_open *o, size_t *i,
                 uint64_t commit)
{
    const struct ll_journal_record *r = &o->records[o->steps[*i].more - 1];
    struct ll_journal_list *l = list_of(s, r->tag);
    uint64_t begin = o->steps[*i].lsn;
    size_t n = 0;
    if (!l)
        return LLADD_NO_MEMORY;
    while (*i + 1 + n < o->n_steps && o->steps[*i + 1 + n].more &&
           o->records[o->steps[*i + 1 + n].more - 1].kind == LL_JOURNAL_AGAIN &&
           o->steps[*i + 1 + n].tag == r->tag)
        n++;
    size_t at = first_after(l, r->from);
    cut(l, at, first_after(l, r->upto));
    if (room(s, l, n))
        return LLADD_NO_MEMORY;
    shift(l, at, at + n);
    for (size_t k = 0; k < n; k++) {
        const struct ll_journal_step *again = &o->steps[*i + 1 + k];
        l->items[at + k] = (struct ll_journal_item){.commit = o->records[again->more - 1].from,
                                                    .lsn = again->lsn,
                                                    .begin = begin,
                                                    .placed = commit,
                                                    .len = again->len};
    }
    l->n += n;
    *i += n;
    return 0;
}

/* Do the copies belong to commits in (from, upto], in ascending order? Checked because damaged
 * records can be valid one by one. */
static bool cleans(const struct ll_journal_open *o, size_t i)
{
    const struct ll_journal_record *r = &o->records[o->steps[i].more - 1];
    uint64_t last = r->from + 1;
    for (size_t k = i + 1; k < o->n_steps && o->steps[k].more; k++) {
        const struct ll_journal_record *a = &o->records[o->steps[k].more - 1];
        if (a->kind != LL_JOURNAL_AGAIN)
            break;
        if (a->tag != r->tag || a->from < last || a->from > r->upto)
            return false;
        last = a->from;
    }
    return true;
}

/* Carries out one step of a committed transaction. Ignores an AGAIN step without a CLEAN step: the
 * pass began between the two, so this copy is not needed (JRN-2). */
static int carry_out(struct ll_journal_scan *s, const struct ll_journal_open *o, size_t *i,
                     const struct lladd_log_entry *e, struct lladd_error *err)
{
    const struct ll_journal_step *step = &o->steps[*i];
    const struct ll_journal_record *r = step->more ? &o->records[step->more - 1] : NULL;
    if (ll_operations__journal_annulled(o, step->lsn))
        return 0;
    if (r && r->kind == LL_JOURNAL_AGAIN)
        return 0;
    if (r && (r->upto >= e->lsn.v || r->tag == r->other ||
              (r->kind == LL_JOURNAL_CLEAN && !cleans(o, *i))))
        return ll_operations__journal_bad(err, e->lsn, "commits invalid records");
    int rc = 0;
    if (r && r->kind == LL_JOURNAL_ROLLOVER)
        rc = roll_over(s, r, e->lsn.v);
    else if (r)
        rc = clean(s, o, i, e->lsn.v);
    else {
        struct ll_journal_list *l = list_of(s, step->tag);
        rc = l ? room(s, l, 1) : LLADD_NO_MEMORY;
        if (!rc)
            l->items[l->n++] = (struct ll_journal_item){.commit = e->lsn.v,
                                                        .lsn = step->lsn,
                                                        .begin = step->lsn,
                                                        .placed = e->lsn.v,
                                                        .len = step->len};
    }
    return rc ? no_memory(err) : 0;
}

static int see_end(struct ll_journal_scan *s, const struct lladd_log_entry *e, bool committed,
                   struct lladd_error *err)
{
    struct ll_journal_open *o =
        (struct ll_journal_open *)ll_operations__index_find(&s->open, e->txn.v);
    int rc = 0;
    if (!o)
        return 0;
    for (size_t i = 0; committed && !rc && i < o->n_steps; i++)
        rc = carry_out(s, o, &i, e, err);
    ll_operations__journal_forget(s, o);
    return rc;
}

/* ---- the whole structure --------------------------------------------------------------------- */

void ll_operations__journal_kinds(struct ll_journal_kinds *k)
{
    memset(k, 0, sizeof *k);
    for (unsigned i = 1; i < 64; i++) {
        const char *name = lladd_log_kind_name(i);
        if (!name)
            continue;
        if (strcmp(name, "commit") == 0)
            k->commit = i;
        else if (strcmp(name, "end") == 0)
            k->end = i;
        else if (strcmp(name, "object") == 0)
            k->object = i;
    }
}

bool ll_operations__journal_has(const struct ll_journal_kinds *k, const struct lladd_log_entry *e)
{
    return e->kind == k->object && e->op && strcmp(e->op, ll_operations__journal_class.name) == 0;
}

int ll_operations__journal_scan(struct lladd_db *db, uint64_t from, uint64_t to,
                                struct ll_journal_scan *s, struct lladd_error *err)
{
    struct lladd_log_cursor *c;
    struct lladd_log_entry e;
    struct ll_journal_kinds k;
    memset(s, 0, sizeof *s);
    s->db = db;
    ll_operations__journal_kinds(&k);
    TRY(lladd_log_open(db, lladd_lsn_of(from), NULL, &c, err));
    int rc = 0;
    while (!rc && (rc = lladd_log_next(c, &e, err)) == 0 && e.lsn.v <= to) {
        if (e.kind == k.commit || e.kind == k.end)
            rc = see_end(s, &e, e.kind == k.commit, err);
        else if (ll_operations__journal_has(&k, &e))
            rc = ll_operations__journal_see(s, &e, err);
    }
    lladd_log_close(c);
    return rc == LLADD_END ? 0 : rc;
}

void ll_operations__journal_scan_free(struct ll_journal_scan *s)
{
    struct ll_index_node *n;
    while ((n = ll_operations__index_next(&s->open, NULL)) != NULL)
        ll_operations__journal_forget(s, (struct ll_journal_open *)n);
    while ((n = ll_operations__index_next(&s->lists, NULL)) != NULL) {
        struct ll_journal_list *l = (struct ll_journal_list *)n;
        ll_operations__index_drop(&s->lists, n);
        lladd_mem_free(s->db, l->items);
        lladd_mem_free(s->db, l);
    }
    ll_operations__index_free(s->db, &s->open);
    ll_operations__index_free(s->db, &s->lists);
}

struct ll_journal_item *ll_operations__journal_items(const struct ll_journal_scan *s, uint64_t tag,
                                                     uint64_t from, uint64_t upto, size_t *n)
{
    const struct ll_journal_list *l =
        (const struct ll_journal_list *)ll_operations__index_find(&s->lists, tag);
    size_t begin = l ? first_after(l, from) : 0;
    *n = l && upto > from ? first_after(l, upto) - begin : 0;
    return *n ? &l->items[begin] : NULL;
}

int ll_operations__journal_read(struct lladd_log_cursor *c, uint64_t tag, uint64_t lsn,
                                struct lladd_span *out, struct lladd_error *err)
{
    struct lladd_log_entry e;
    struct ll_journal_record r;
    TRY(lladd_log_read(c, lladd_lsn_of(lsn), &e, err));
    int rc = 0;
    if (!ll_operations__journal_get(e.redo, &r) ||
        (r.kind != LL_JOURNAL_ENTRY && r.kind != LL_JOURNAL_AGAIN)) {
        rc = lladd_error_set(err, LLADD_BAD_RECORD, "LSN %llu, tag %llu: no entry of the journal",
                             (unsigned long long)lsn, (unsigned long long)tag);
        if (err)
            err->lsn = lladd_lsn_of(lsn);
        return rc;
    }
    *out = r.bytes;
    return 0;
}
