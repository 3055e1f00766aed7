/* SPDX-License-Identifier: BSD-2-Clause */
/* The journal's part of a prepare record.
 *
 *   u8    version, 1
 *   u64   LSN of the transaction's first journal record
 *   u64   LSN of its last journal record
 *   u32   number of parts with entries; for each part:
 *         u64   tag
 *         u64   LSN of the first entry
 *         u64   LSN of the last entry that was appended, rolled back or not
 *         u64   number of entries
 *         u64   bytes of the entries
 *   u32   number of changes; for each change:
 *         u8    kind (enum ll_journal_kind): MAKE, RELEASE or DISCARD
 *         u64   tag
 *         u64   LSN of the change's record
 *         u64   upto
 *         u64   `discarded` of the tag before the transaction
 *         u8    length of the tag's owner
 *         u8    length of the tag's name
 *         owner, name
 *
 * The entries are in the log. Redo repeats the transaction's changes of the catalogue; the prepare
 * record therefore has the old contents of the changed rows. */
#include "operations/journal/table.h"

enum { VERSION = 1, HEAD = 17, PART = 40, CHANGE = 35 };

struct doubt_change {
    unsigned kind;
    uint64_t tag, lsn, upto, discarded;
    char owner[LLADD_JOURNAL_OWNER_MAX + 1];
    char name[LLADD_JOURNAL_NAME_MAX + 1];
};

struct ll_journal_in_doubt {
    size_t n;
    struct doubt_change changes[];
};

/* ---- writing --------------------------------------------------------------------------------- */

static int put_change(const struct ll_journal_change *c, struct lladd_sink *sink)
{
    unsigned char b[CHANGE];
    size_t owner = strlen(c->tag->owner), name = strlen(c->tag->name);
    b[0] = c->kind;
    lladd_put64(b + 1, c->tag->node.key);
    lladd_put64(b + 9, c->lsn);
    lladd_put64(b + 17, c->upto);
    lladd_put64(b + 25, c->tag->discarded);
    b[33] = (unsigned char)owner;
    b[34] = (unsigned char)name;
    TRY(lladd_sink_write(sink, b, sizeof b));
    TRY(lladd_sink_write(sink, c->tag->owner, owner));
    return lladd_sink_write(sink, c->tag->name, name);
}

/* A part without entries is not written: a rollback may have removed its tag. */
static uint32_t count_parts(const struct ll_journal_txn *t)
{
    uint32_t n = 0;
    for (size_t i = 0; i < t->n_parts; i++)
        n += t->parts[i]->entries != 0;
    return n;
}

int ll_operations__journal_blob(const struct ll_journal_txn *t, struct lladd_sink *sink)
{
    unsigned char b[PART] = {VERSION};
    lladd_put64(b + 1, t->first);
    lladd_put64(b + 9, t->last);
    int rc = lladd_sink_write(sink, b, HEAD);
    lladd_put32(b, count_parts(t));
    if (!rc)
        rc = lladd_sink_write(sink, b, 4);
    for (size_t i = 0; !rc && i < t->n_parts; i++) {
        const struct ll_journal_part *p = t->parts[i];
        if (!p->entries)
            continue;
        lladd_put64(b, p->id);
        lladd_put64(b + 8, p->first);
        lladd_put64(b + 16, p->last);
        lladd_put64(b + 24, p->entries);
        lladd_put64(b + 32, p->bytes);
        rc = lladd_sink_write(sink, b, PART);
    }
    lladd_put32(b, (uint32_t)t->n_changes);
    if (!rc)
        rc = lladd_sink_write(sink, b, 4);
    for (size_t i = 0; !rc && i < t->n_changes; i++)
        rc = put_change(&t->changes[i], sink);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int damaged(struct lladd_error *err, const char *how)
{
    return lladd_error_set(err, LLADD_BAD_RECORD, "journal state of a transaction in doubt: %s",
                           how);
}

static int no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for the journal");
}

struct input {
    const unsigned char *p;
    size_t left;
};

static const unsigned char *take(struct input *in, size_t n)
{
    const unsigned char *p = in->p;
    if (in->left < n)
        return NULL;
    in->p += n;
    in->left -= n;
    return p;
}

static int get_parts(struct ll_journal_txn *t, struct input *in, struct lladd_error *err)
{
    const unsigned char *b = take(in, 4);
    uint32_t n = b ? lladd_get32(b) : 0;
    if (!b || n > in->left / PART)
        return damaged(err, "truncated");
    for (uint32_t i = 0; i < n; i++) {
        b = take(in, PART);
        if (ll_operations__journal_part_room(t))
            return no_memory(err);
        struct ll_journal_part *p = t->parts[t->n_parts];
        struct ll_journal_was *was = p->was;
        size_t cap = p->cap_was;
        *p = (struct ll_journal_part){.id = lladd_get64(b),
                                      .first = lladd_get64(b + 8),
                                      .last = lladd_get64(b + 16),
                                      .entries = lladd_get64(b + 24),
                                      .bytes = lladd_get64(b + 32),
                                      .was = was,
                                      .cap_was = cap};
        for (size_t k = 0; k < t->n_parts; k++)
            if (t->parts[k]->id == p->id)
                return damaged(err, "a tag comes twice");
        t->n_parts++;
    }
    return 0;
}

static bool get_text(struct input *in, size_t len, size_t min, char *out)
{
    const unsigned char *b = take(in, len);
    if (!b || len < min || memchr(b, 0, len))
        return false;
    memcpy(out, b, len);
    out[len] = 0;
    return true;
}

static int get_changes(struct ll_journal_txn *t, struct input *in, struct lladd_error *err)
{
    const unsigned char *b = take(in, 4);
    uint32_t n = b ? lladd_get32(b) : 0;
    if (!b || n > in->left / CHANGE)
        return damaged(err, "truncated");
    if (!n)
        return 0;
    t->doubt = lladd_mem_alloc(t->all->db, sizeof *t->doubt + n * sizeof(struct doubt_change));
    if (!t->doubt)
        return no_memory(err);
    t->doubt->n = n;
    for (uint32_t i = 0; i < n; i++) {
        struct doubt_change *c = &t->doubt->changes[i];
        b = take(in, CHANGE);
        if (!b)
            return damaged(err, "truncated");
        c->kind = b[0];
        c->tag = lladd_get64(b + 1);
        c->lsn = lladd_get64(b + 9);
        c->upto = lladd_get64(b + 17);
        c->discarded = lladd_get64(b + 25);
        bool known = c->kind == LL_JOURNAL_MAKE || c->kind == LL_JOURNAL_RELEASE ||
                     c->kind == LL_JOURNAL_DISCARD;
        if (!known || !c->tag || b[33] > LLADD_JOURNAL_OWNER_MAX ||
            !get_text(in, b[33], 1, c->owner) || !get_text(in, b[34], 1, c->name))
            return damaged(err, "a change is invalid");
    }
    return 0;
}

static int get_all(struct ll_journal_txn *t, struct lladd_span blob, struct lladd_error *err)
{
    struct input in = {blob.data, blob.len};
    const unsigned char *b = take(&in, HEAD);
    if (!b)
        return damaged(err, "truncated");
    if (b[0] != VERSION)
        return b[0] > VERSION
                   ? lladd_error_set(
                         err, LLADD_NEWER_FORMAT,
                         "the journal state of a transaction in doubt is of a newer version")
                   : damaged(err, "invalid version");
    lladd_atomic_store64(&t->first, lladd_get64(b + 1));
    t->last = lladd_get64(b + 9);
    int rc = get_parts(t, &in, err);
    if (!rc)
        rc = get_changes(t, &in, err);
    return !rc && in.left ? damaged(err, "there are bytes after the end") : rc;
}

int ll_operations__journal_unblob(struct ll_journal *j, struct lladd_txn *txn,
                                  struct lladd_span blob)
{
    struct lladd_error *err = lladd_txn_error_out(txn);
    struct ll_journal_txn *t;
    if (!j)
        return damaged(err, "the database has no journal");
    TRY(ll_operations__journal_join_new(j, txn, &t));
    t->in_doubt = true;
    t->id = lladd_txn_id(txn).v;
    int rc = get_all(t, blob, err);
    if (rc) { /* the open fails */
        t->n_parts = 0;
        ll_operations__journal_doubt_free(j, t->doubt);
        t->doubt = NULL;
    }
    return rc;
}

void ll_operations__journal_doubt_free(struct ll_journal *j, struct ll_journal_in_doubt *d)
{
    lladd_mem_free(j->db, d);
}

/* ---- connecting transactions and tags -------------------------------------------------------- */

static int tie_change(struct ll_journal *j, struct ll_journal_txn *t, const struct doubt_change *c,
                      struct lladd_error *err)
{
    struct ll_journal_tag *tag = ll_operations__journal_tag(j, c->tag);
    if (tag && (strcmp(tag->name, c->name) != 0 || (tag->changing && tag->changing != t)))
        return damaged(err, "a tag belongs to another transaction");
    if (!tag)
        tag = ll_operations__journal_tag_new(j, c->tag, c->name);
    if (!tag || ll_operations__grow(j->db, &t->changes, t->n_changes + 1, &t->cap_changes,
                                    sizeof *t->changes))
        return no_memory(err);
    if (!t->held && !(t->held = lladd_mem_alloc(j->db, sizeof *t->held)))
        return no_memory(err);
    memcpy(tag->owner, c->owner, sizeof tag->owner);
    tag->discarded = c->discarded;
    if (c->kind == LL_JOURNAL_MAKE) {
        tag->made = true;
        tag->state = LL_TAG_MAKING;
    }
    if (c->kind == LL_JOURNAL_RELEASE)
        tag->state = LL_TAG_GOING;
    ll_operations__journal_touch(t, tag);
    t->changes[t->n_changes++] = (struct ll_journal_change){
        .kind = (uint8_t)c->kind, .tag = tag, .lsn = c->lsn, .upto = c->upto};
    return 0;
}

static int tie_part(struct ll_journal *j, struct ll_journal_part *p, struct lladd_error *err)
{
    struct ll_journal_tag *tag = ll_operations__journal_tag(j, p->id);
    if (!tag)
        return damaged(err, "a tag does not exist");
    tag->users++;
    p->tag = tag;
    return ll_operations__journal_bucket_room(j, tag) ? no_memory(err) : 0;
}

static int tie(struct ll_journal *j, struct ll_journal_txn *t, struct lladd_error *err)
{
    int rc = 0;
    ll_operations__journal_list(t);
    for (size_t i = 0; !rc && t->doubt && i < t->doubt->n; i++)
        rc = tie_change(j, t, &t->doubt->changes[i], err);
    for (size_t i = 0; !rc && i < t->n_parts; i++)
        rc = tie_part(j, t->parts[i], err);
    ll_operations__journal_doubt_free(j, t->doubt);
    t->doubt = NULL;
    return rc;
}

int ll_operations__journal_tie(struct ll_journal *j, struct lladd_error *err)
{
    int rc = 0;
    lladd_mutex_lock(&j->mutex);
    for (struct ll_journal_txn *t = j->all; !rc && t; t = t->next_all)
        if (t->in_doubt)
            rc = tie(j, t, err);
    lladd_mutex_unlock(&j->mutex);
    return rc;
}
