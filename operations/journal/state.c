/* SPDX-License-Identifier: BSD-2-Clause */
/* The journal of a handle: loading it, the log that it needs (JRN-2), and the mark (JRN-4). */
#include "operations/journal/table.h"

#include <lladd/log_read.h>
#include <lladd/stats.h>
#include <stdio.h>

int ll_operations__journal_of(struct lladd_db *db, struct ll_journal **out, struct lladd_error *err)
{
    *out = lladd_extension_state(db, &ll_operations__journal_extension);
    return *out ? lladd_check_process(db, err)
                : lladd_error_set(err, LLADD_BAD_STATE,
                                  "the database was opened without lladd_journal_register");
}

/* ---- attach, detach -------------------------------------------------------------------------- */

static int attach(void *ctx, struct lladd_db *db, void **state, struct lladd_error *err)
{
    (void)ctx;
    struct ll_journal *j = lladd_mem_alloc(db, sizeof *j);
    if (!j)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for the journal");
    memset(j, 0, sizeof *j);
    j->db = db;
    int rc = lladd_mutex_init(&j->mutex, LL_JOURNAL_RANK, "journal");
    if (!rc) {
        rc = lladd_cond_init(&j->cleaned);
        if (!rc) {
            rc = lladd_mutex_init(&j->create, LL_JOURNAL_RANK_CREATE, "making the journal");
            if (rc)
                lladd_cond_destroy(&j->cleaned);
        }
        if (rc)
            lladd_mutex_destroy(&j->mutex);
    }
    if (rc) {
        lladd_mem_free(db, j);
        return lladd_error_set(err, rc, "out of memory for the journal");
    }
    *state = j;
    return 0;
}

static void free_held(struct ll_journal *j)
{
    for (struct ll_journal_held *h = j->held, *next; h; h = next) {
        next = h->next;
        lladd_mem_free(j->db, h);
    }
}

static void detach(void *ctx, struct lladd_db *db, void *state)
{
    struct ll_journal *j = state;
    struct ll_index_node *n;
    (void)ctx;
    for (struct ll_journal_txn *t = j->all, *next; t; t = next) {
        next = t->next_all;
        ll_operations__journal_txn_free(j, t);
    }
    while ((n = ll_operations__index_next(&j->tags, NULL)) != NULL)
        ll_operations__journal_tag_free(j, (struct ll_journal_tag *)n);
    ll_operations__index_free(db, &j->tags);
    free_held(j);
    lladd_hash_close(j->catalogue);
    lladd_cond_destroy(&j->cleaned);
    lladd_mutex_destroy(&j->mutex);
    lladd_mutex_destroy(&j->create);
    lladd_mem_free(db, j);
}

/* ---- after recovery -------------------------------------------------------------------------- */

static int no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for the journal");
}

static int load_row(struct ll_journal *j, struct lladd_span key, struct lladd_span value,
                    struct lladd_error *err)
{
    char name[LLADD_JOURNAL_NAME_MAX + 1] = {0};
    struct ll_journal_row row;
    if (key.len == 0 || key.len > LLADD_JOURNAL_NAME_MAX || memchr(key.data, 0, key.len))
        return lladd_error_set(err, LLADD_BAD_RECORD, "the journal has a tag with an invalid name");
    memcpy(name, key.data, key.len);
    int rc = ll_operations__journal_row_get(value, &row);
    if (rc)
        return lladd_error_set(err, rc, "tag \"%s\" of the journal %s", name,
                               rc == LLADD_NEWER_FORMAT ? "was written by a newer version"
                                                        : "is invalid");
    if (ll_operations__journal_tag(j, row.tag))
        return lladd_error_set(err, LLADD_BAD_RECORD, "tag %llu of the journal has two names",
                               (unsigned long long)row.tag);
    struct ll_journal_tag *t = ll_operations__journal_tag_new(j, row.tag, name);
    if (!t)
        return no_memory(err);
    t->discarded = row.discarded;
    memcpy(t->owner, row.owner, sizeof t->owner);
    return 0;
}

static int load_catalogue(struct ll_journal *j, struct lladd_error *err)
{
    struct lladd_root_value root;
    struct lladd_hash_cursor walk = {.buffer = NULL};
    struct lladd_span key, value;
    int rc = lladd_root_get(j->db, LL_JOURNAL_ROOT, &root, err);
    if (rc)
        return rc == LLADD_NOT_FOUND ? 0 : rc;
    if (root.b > LL_JOURNAL_VERSION)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "the journal has version %llu, this library knows versions up to %d",
                               (unsigned long long)root.b, LL_JOURNAL_VERSION);
    TRY(lladd_hash_open(j->db, lladd_page_of(root.a), LLADD_HASH_LOGICAL, &j->catalogue, err));
    while ((rc = lladd_hash_cursor_next(j->catalogue, &walk, &key, &value, err)) == 0 &&
           (rc = load_row(j, key, value, err)) == 0) {
    }
    lladd_hash_cursor_close(j->catalogue, &walk);
    return rc == LLADD_END ? 0 : rc;
}

static int load_mark(struct ll_journal *j, struct lladd_error *err)
{
    struct lladd_root_value mark;
    int rc = lladd_root_get(j->db, LL_JOURNAL_MARK, &mark, err);
    j->mark = rc ? 0 : mark.a;
    lladd_atomic_store32(&j->named, rc == 0);
    return rc == LLADD_NOT_FOUND ? 0 : rc;
}

/* Creates the mark if it is missing although there is a catalogue: earlier versions created the
 * mark at a checkpoint. If a resource is missing, the mark stays at 0, so all of the log is
 * kept, and the next open or the next new tag tries again. */
static int name_mark(struct ll_journal *j, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    if (!lladd_atomic_load_ptr(&j->catalogue))
        return 0;
    int rc = ll_operations__journal_want_names(j, &why);
    if (lladd_code_root(rc) == LLADD_ROOT_RESOURCE || rc == LLADD_LOG_FULL)
        return 0;
    if (rc && err)
        *err = why;
    return rc;
}

static int fill(struct ll_journal *j, struct ll_journal_tag *tag,
                const struct ll_journal_scan *scan)
{
    size_t n;
    const struct ll_journal_item *it =
        ll_operations__journal_items(scan, tag->node.key, tag->discarded, UINT64_MAX, &n);
    for (size_t i = 0; i < n;) {
        struct ll_journal_bucket b = {.commit = it[i].commit, .first = UINT64_MAX};
        for (; i < n && it[i].commit == b.commit; i++) {
            b.entries++;
            b.bytes += it[i].len;
            b.first = it[i].begin < b.first ? it[i].begin : b.first;
            b.read_to = it[i].placed > b.read_to ? it[i].placed : b.read_to;
        }
        if (ll_operations__journal_bucket_room(j, tag))
            return LLADD_NO_MEMORY;
        ll_operations__journal_bucket_put(tag, b);
    }
    return ll_operations__journal_bucket_room(j, tag);
}

/* The log must reach back to the mark: truncation never passes it (JRN-4). */
static int check_mark(struct ll_journal *j, struct lladd_error *err)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    int rc = lladd_stats_get(j->db, &s);
    if (rc || j->mark == 0 || s.log_oldest <= j->mark)
        return rc;
    return lladd_error_set(err, LLADD_MISSING_FILE,
                           "the journal needs the log from LSN %llu on; it begins at %llu",
                           (unsigned long long)j->mark, (unsigned long long)s.log_oldest);
}

static int load_entries(struct ll_journal *j, struct lladd_error *err)
{
    struct ll_journal_scan scan;
    if (!j->tags.n)
        return 0;
    TRY(check_mark(j, err));
    int rc = ll_operations__journal_scan(j->db, j->mark, UINT64_MAX, &scan, err);
    for (struct ll_index_node *n = NULL;
         !rc && (n = ll_operations__index_next(&j->tags, n)) != NULL;)
        if (fill(j, (struct ll_journal_tag *)n, &scan))
            rc = no_memory(err);
    ll_operations__journal_scan_free(&scan);
    return rc;
}

static int recovered(void *ctx, struct lladd_db *db, void *state, struct lladd_error *err)
{
    struct ll_journal *j = state;
    (void)ctx;
    (void)db;
    int rc = load_catalogue(j, err);
    if (!rc)
        rc = ll_operations__journal_tie(j, err);
    if (!rc)
        rc = load_mark(j, err);
    if (!rc)
        rc = load_entries(j, err);
    if (!rc)
        rc = name_mark(j, err);
    lladd_mutex_lock(&j->mutex);
    j->loaded = rc == 0;
    lladd_mutex_unlock(&j->mutex);
    return rc;
}

/* ---- the class ------------------------------------------------------------------------------- */

void ll_operations__journal_keep_log(struct ll_journal *j, struct ll_journal_keep *h, uint64_t low)
{
    h->low = low;
    h->next = j->holds;
    h->at = &j->holds;
    if (h->next)
        h->next->at = &h->next;
    j->holds = h;
}

void ll_operations__journal_end_keep(struct ll_journal *j, struct ll_journal_keep *h)
{
    lladd_mutex_lock(&j->mutex);
    *h->at = h->next;
    if (h->next)
        h->next->at = h->at;
    lladd_mutex_unlock(&j->mutex);
}

/* The lowest LSN from which ll_journal.held keeps the log. Drops the elements with durable commits.
 * The caller holds the mutex. */
static uint64_t still_held(struct ll_journal *j)
{
    uint64_t durable = lladd_durable_lsn(j->db).v, low = UINT64_MAX;
    for (struct ll_journal_held **at = &j->held, *h; (h = *at) != NULL;) {
        if (h->commit < durable) {
            *at = h->next;
            lladd_mem_free(j->db, h);
        } else {
            low = h->low < low ? h->low : low;
            at = &h->next;
        }
    }
    return low;
}

/* The LSN of JRN-2. `tag` is nullable: if a bucket needs that LSN, *tag is set to the bucket's tag.
 * The caller holds the mutex. */
static uint64_t needed(struct ll_journal *j, const struct ll_journal_tag **tag)
{
    uint64_t low = still_held(j);
    for (const struct ll_journal_txn *t = j->newest; t; t = t->older) {
        uint64_t first = lladd_atomic_load64(&t->first);
        low = first < low ? first : low;
    }
    for (const struct ll_journal_keep *h = j->holds; h; h = h->next)
        low = h->low < low ? h->low : low;
    for (struct ll_index_node *n = NULL; (n = ll_operations__index_next(&j->tags, n)) != NULL;) {
        const struct ll_journal_tag *t = (const struct ll_journal_tag *)n;
        if (t->low > low || t->low == UINT64_MAX)
            continue;
        low = t->low;
        if (tag)
            *tag = t;
    }
    return low;
}

static void settle_mark(struct ll_journal *j)
{
    if (!j->mark_commit || j->mark_commit >= lladd_durable_lsn(j->db).v)
        return;
    j->mark = j->next_mark;
    j->mark_commit = 0;
}

/* The log is kept from this LSN on (JRN-2, JRN-4). Until the journal is loaded, its needs are
 * unknown: 0 keeps all of the log. */
static lladd_lsn durable_lsn(void *ctx, struct lladd_db *db)
{
    struct ll_journal *j = lladd_extension_state(db, &ll_operations__journal_extension);
    uint64_t low = 0;
    (void)ctx;
    if (!j)
        return lladd_lsn_of(0);
    lladd_mutex_lock(&j->mutex);
    if (j->loaded) {
        low = needed(j, NULL);
        settle_mark(j);
        low = j->mark < low ? j->mark : low;
    }
    lladd_mutex_unlock(&j->mutex);
    return lladd_lsn_of(low);
}

static void pins(void *ctx, struct lladd_db *db, char *text, size_t size)
{
    struct ll_journal *j = lladd_extension_state(db, &ll_operations__journal_extension);
    const struct ll_journal_tag *tag = NULL;
    (void)ctx;
    text[0] = 0;
    if (!j)
        return;
    lladd_mutex_lock(&j->mutex);
    if (j->loaded)
        (void)needed(j, &tag);
    if (tag)
        snprintf(text, size, "tag \"%s\" of \"%s\"", tag->name, tag->owner);
    lladd_mutex_unlock(&j->mutex);
}

/* The mark moves by at least MARK_STEP bytes, or by limit / MARK_PARTS if that is less, so that not
 * every checkpoint writes it. Up to this much log is kept and read without need. */
#define MARK_STEP 65536u
#define MARK_PARTS 16u

static uint64_t mark_step(const struct ll_journal *j)
{
    struct lladd_stats s = {.struct_size = sizeof s};
    if (lladd_stats_get(j->db, &s) || s.log_limit_bytes / MARK_PARTS > MARK_STEP)
        return MARK_STEP;
    return s.log_limit_bytes / MARK_PARTS;
}

static int write_mark(struct ll_journal *j, uint64_t low, bool force)
{
    struct lladd_txn_options o = LLADD_TXN_OPTIONS_INIT;
    struct lladd_txn *txn;
    lladd_lsn commit;
    o.system = o.frees_log = true;
    o.durability = LLADD_DURABLE_LATER;
    TRY(lladd_begin(j->db, &o, &txn, NULL));
    int rc = lladd_root_set(txn, LL_JOURNAL_MARK, (struct lladd_root_value){low, 0});
    if (!rc)
        rc = lladd_commit_async(txn, &commit);
    if (rc) {
        int aborted = lladd_code_root(rc) == LLADD_ROOT_POISONED ? rc : lladd_abort(txn);
        return aborted ? aborted : rc;
    }
    lladd_mutex_lock(&j->mutex);
    j->next_mark = low;
    j->mark_commit = commit.v;
    lladd_mutex_unlock(&j->mutex);
    return force ? lladd_log_force(j->db, commit, NULL) : 0;
}

int ll_operations__journal_move_mark(struct ll_journal *j, bool force)
{
    if (!lladd_atomic_load_ptr(&j->catalogue) || !lladd_atomic_load32(&j->named))
        return 0;
    /* The applied LSN is read before the list of transactions: a transaction with a record below
     * that LSN has set its `first` already (JRN-2). */
    uint64_t low = lladd_object_applied_lsn(j->db).v;
    lladd_mutex_lock(&j->mutex);
    uint64_t need = j->loaded ? needed(j, NULL) : 0;
    settle_mark(j);
    uint64_t mark = j->mark_commit ? j->next_mark : j->mark;
    lladd_mutex_unlock(&j->mutex);
    low = need < low ? need : low;
    return low < mark + mark_step(j) ? 0 : write_mark(j, low, force);
}

/* The checkpoint that calls this function makes the new mark durable. If writing the mark fails,
 * the old one remains valid. */
static int checkpoint(void *ctx, struct lladd_db *db)
{
    struct ll_journal *j = lladd_extension_state(db, &ll_operations__journal_extension);
    (void)ctx;
    int rc = j ? ll_operations__journal_move_mark(j, false) : 0;
    return lladd_code_root(rc) == LLADD_ROOT_POISONED ? rc : 0;
}

static void describe(void *ctx, struct lladd_sink *sink, enum lladd_span_kind kind,
                     struct lladd_span s)
{
    static const char *const names[LL_JOURNAL_KINDS] = {
        [LL_JOURNAL_ENTRY] = "entry",       [LL_JOURNAL_MAKE] = "make",
        [LL_JOURNAL_RELEASE] = "release",   [LL_JOURNAL_DISCARD] = "discard",
        [LL_JOURNAL_ROLLOVER] = "rollover", [LL_JOURNAL_ANNUL] = "annul",
        [LL_JOURNAL_CLEAN] = "clean",       [LL_JOURNAL_AGAIN] = "again"};
    struct ll_journal_record r;
    (void)ctx;
    (void)kind;
    if (!ll_operations__journal_get(s, &r)) {
        (void)lladd_sink_printf(sink, "invalid");
        return;
    }
    (void)lladd_sink_printf(sink, "%s", names[r.kind]); /* the sink remembers failures */
    if (r.tag)
        (void)lladd_sink_printf(sink, " tag=%llu", (unsigned long long)r.tag);
    if (r.other)
        (void)lladd_sink_printf(sink, " to=%llu", (unsigned long long)r.other);
    if (r.kind == LL_JOURNAL_AGAIN)
        (void)lladd_sink_printf(sink, " commit=%llu", (unsigned long long)r.from);
    else if (r.from || r.upto)
        (void)lladd_sink_printf(sink, " from=%llu upto=%llu", (unsigned long long)r.from,
                                (unsigned long long)r.upto);
    if (r.bytes.len)
        (void)lladd_sink_printf(sink, " bytes=%zu", r.bytes.len);
}

const struct lladd_object_class ll_operations__journal_class = {
    .struct_size = sizeof(struct lladd_object_class),
    .name = "journal",
    .version = 1,
    .durable_lsn = durable_lsn,
    .checkpoint = checkpoint,
    .advance = ll_operations__journal_advance,
    .describe = describe,
    .pins = pins,
};

/* ---- the extension --------------------------------------------------------------------------- */

static const struct lladd_object_class *const classes[] = {&ll_operations__journal_class, NULL};
static const struct lladd_participant *const participants[] = {&ll_operations__journal_participant,
                                                               NULL};

const struct lladd_extension ll_operations__journal_extension = {
    .struct_size = sizeof(struct lladd_extension),
    .name = "journal",
    .version = 1,
    .classes = classes,
    .participants = participants,
    .attach = attach,
    .recovered = recovered,
    .detach = detach,
};

int lladd_journal_register(struct lladd_options *o, struct lladd_error *err)
{
    return lladd_register_extension(o, &ll_operations__journal_extension, err);
}

/* ---- inspection ------------------------------------------------------------------------------ */

int lladd_journal_newest(struct lladd_db *db, uint64_t number, lladd_lsn *out,
                         struct lladd_error *err)
{
    struct ll_journal *j;
    TRY(ll_operations__journal_of(db, &j, err));
    lladd_mutex_lock(&j->mutex);
    const struct ll_journal_tag *tag = ll_operations__journal_tag(j, number);
    if (tag)
        *out = lladd_lsn_of(ll_journal_newest(tag));
    lladd_mutex_unlock(&j->mutex);
    if (tag)
        return 0;
    ll_operations__journal_wrong_tag(err, number);
    return LLADD_NOT_FOUND;
}

/* A copy of what lladd_journal_each shows of a tag, strings included. */
struct told {
    struct lladd_journal_info info;
    char name[LLADD_JOURNAL_NAME_MAX + 1], owner[LLADD_JOURNAL_OWNER_MAX + 1];
};

static void tell(const struct ll_journal_tag *t, struct told *out)
{
    memcpy(out->name, t->name, strlen(t->name) + 1);
    memcpy(out->owner, t->owner, sizeof out->owner);
    out->info = (struct lladd_journal_info){
        .tag = t->node.key,
        .entries = t->entries,
        .bytes = t->bytes,
        .oldest = lladd_lsn_of(t->low == UINT64_MAX ? 0 : t->low),
        .newest = lladd_lsn_of(ll_journal_newest(t)),
        .discarded = lladd_lsn_of(t->discarded),
        .attached = t->calls != NULL,
        .transactions = t->users,
    };
}

int lladd_journal_each(struct lladd_db *db, lladd_journal_info_fn *fn, void *ctx,
                       struct lladd_error *err)
{
    struct ll_journal *j;
    struct told *all = NULL;
    size_t n = 0;
    TRY(ll_operations__journal_of(db, &j, err));
    lladd_mutex_lock(&j->mutex);
    int rc = 0;
    if (j->tags.n && !(all = lladd_mem_alloc(db, j->tags.n * sizeof *all)))
        rc = no_memory(err);
    for (struct ll_index_node *at = NULL;
         !rc && (at = ll_operations__index_next(&j->tags, at)) != NULL;)
        tell((const struct ll_journal_tag *)at, &all[n++]);
    lladd_mutex_unlock(&j->mutex);
    for (size_t i = 0; !rc && i < n; i++) {
        all[i].info.name = all[i].name;
        all[i].info.owner = all[i].owner;
        rc = fn(ctx, &all[i].info);
    }
    lladd_mem_free(db, all);
    return rc;
}
