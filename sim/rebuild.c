/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rebuild: checks that the page file from before the workload, and the log, yield the pages that
 * the workload has left, byte by byte (O7).
 *
 * For this check the library does media recovery: it opens an *archive* that is made from the
 * recording. The archive contains
 *
 *   - the page file as the setup has left it
 *   - the control file as it was before the workload's first write to the log
 *   - everything that was ever written to the log, including segments that were truncated and
 *     reused
 *
 * The log is complete, so recovery redoes everything and has nothing to undo. The result of each
 * change is compared with its result in the workload. At the end, the pages that the workload has
 * changed or written are compared. This detects a redo that depends on more than its page and
 * bytes, and a change of a page without a record. Redo takes no contents from page images: an image
 * copies a page of the workload, so it would hide the difference.
 *
 * Pages written in bulk are not logged, so the archive contains them as they were written. An
 * extension of the simulator is told of each such page (bulk_written). There are two violations: a
 * page was written past the cache and the extension was not told, or the extension was told of
 * bytes that were not written. The files of extensions are not logged either, so the archive
 * contains them too.
 *
 * Bytes that a page type or an operation excludes (mask, hole) are not compared.
 */
#include "sim/page_guard.h"

#include <lladd/pages.h>

#include <stdio.h>

/* ---- the archive ------------------------------------------------------------------------- */

struct ll_sim_archive {
    struct lladd_sim *sim;
    struct ll_sim_guard *guard;
    struct ll_sim_world world;
    uint32_t pages;                        /* name of the page file */
    const struct ll_sim_inode *old, *live; /* the page file of the archive, and of the workload */
    unsigned char *page[2];
    bool logged; /* something was written to the log */
};

static enum ll_sim_file_kind kind_of(const struct ll_sim_archive *a, uint32_t name)
{
    return a->sim->names.at[name].kind;
}

static bool is_named(const struct ll_sim_archive *a, uint32_t name, const char *text)
{
    return strcmp(a->sim->names.at[name].text, text) == 0;
}

/* Was this write of a page a write from the cache, not a bulk write? */
static bool comes_from_cache(struct ll_sim_archive *a, uint32_t call, uint64_t page)
{
    for (uint32_t i = 0; i < a->guard->n_written; i++) {
        struct ll_sim_written *w = &a->guard->written[i];
        if (w->met || w->page != page || w->call > call)
            continue;
        w->met = true;
        return true;
    }
    return false;
}

static int put(struct ll_sim_archive *a, const struct ll_sim_call *call, uint32_t from,
               uint32_t len)
{
    struct ll_sim_inode *inode = ll_sim_own(&a->guard->kept, &a->world.image, call->inode);
    return inode ? ll_sim_put(&a->guard->kept, inode, call->off + from, call->data + from, len,
                              false, false)
                 : LLADD_NO_MEMORY;
}

/* Has an extension heard of this write of a page? */
static bool was_told(struct ll_sim_archive *a, uint64_t page, const unsigned char *bytes)
{
    for (uint32_t i = 0; i < a->guard->n_told; i++) {
        struct ll_sim_told *t = &a->guard->told[i];
        if (t->met || t->page != page || memcmp(t->bytes, bytes, a->sim->page_size) != 0)
            continue;
        t->met = true;
        return true;
    }
    return false;
}

static bool is_zero(const unsigned char *bytes, uint32_t len)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, len - 1) == 0;
}

/* Puts into the archive those pages of a write that do not come from the cache. Extensions need not
 * be told of pages of zeros, because the library also writes such pages to extend the file. */
static int put_bulk(struct ll_sim_archive *a, const struct ll_sim_call *call, uint32_t number)
{
    uint32_t size = a->sim->page_size;
    int rc = 0;
    for (uint32_t at = 0; !rc && at < call->len; at += size) {
        uint64_t page = (call->off + at) / size;
        uint32_t len = call->len - at < size ? call->len - at : size;
        if (comes_from_cache(a, number, page))
            continue;
        if (!(len == size && was_told(a, page, call->data + at)) && !is_zero(call->data + at, len))
            (void)ll_sim_object(&a->sim->violation, LLADD_SIM_O_REBUILD,
                                "page %llu was written past the log and the cache, and no "
                                "extension has heard of it",
                                (unsigned long long)page);
        rc = put(a, call, at, len);
    }
    return rc;
}

static void check_told(const struct ll_sim_archive *a)
{
    for (uint32_t i = 0; i < a->guard->n_told; i++)
        if (!a->guard->told[i].met)
            (void)ll_sim_object(&a->sim->violation, LLADD_SIM_O_REBUILD,
                                "extensions have heard that page %llu was written in bulk, but "
                                "these bytes were not written",
                                (unsigned long long)a->guard->told[i].page);
}

/* Is a log segment about to be reused? */
static bool is_taken(const struct ll_sim_archive *a, const struct ll_sim_call *call)
{
    return kind_of(a, call->name) == LL_SIM_LOG && kind_of(a, call->to) == LL_SIM_LOG_NEW;
}

/* Keeps a copy of the segment under its old name. */
static int set_aside(struct ll_sim_archive *a, const struct ll_sim_call *call)
{
    struct ll_sim_image *image = &a->world.image;
    uint32_t copy = ll_sim_inode_new(&a->guard->kept, image, 0);
    if (copy == LL_SIM_NO_INODE)
        return LLADD_NO_MEMORY;
    image->inode[call->inode]->owner = NULL; /* so that the next write to the file copies it */
    *image->inode[copy] = *image->inode[call->inode];
    return ll_sim_bind(&a->guard->kept, image, call->name, copy);
}

static int archive_name(struct ll_sim_archive *a, const struct ll_sim_call *call)
{
    struct ll_sim_op op = {
        .kind = call->kind, .inode = call->inode, .name = call->name, .to = call->to};
    int rc = ll_sim_apply_name(&a->guard->kept, &a->world.image, &op);
    return !rc && call->kind == LL_SIM_RENAME && is_taken(a, call) ? set_aside(a, call) : rc;
}

static int archive_write(struct ll_sim_archive *a, const struct ll_sim_call *call, uint32_t c)
{
    a->logged |= kind_of(a, call->name) == LL_SIM_LOG;
    if (kind_of(a, call->name) == LL_SIM_PAGES)
        return put_bulk(a, call, c);
    if (is_named(a, call->name, "dwb") || (a->logged && is_named(a, call->name, "control")))
        return 0;
    return put(a, call, 0, call->len);
}

static int archive_call(struct ll_sim_archive *a, uint32_t c)
{
    const struct ll_sim_call *call = &a->sim->workload.trace[c];
    switch (call->kind) {
    case LL_SIM_WRITE:
        return archive_write(a, call, c);
    case LL_SIM_TRUNCATE: {
        struct ll_sim_inode *inode = ll_sim_own(&a->guard->kept, &a->world.image, call->inode);
        return inode ? ll_sim_set_size(&a->guard->kept, inode, call->off, false) : LLADD_NO_MEMORY;
    }
    case LL_SIM_UNLINK:
        return kind_of(a, call->name) == LL_SIM_LOG ? 0 : archive_name(a, call);
    case LL_SIM_CREATE:
    case LL_SIM_MKDIR:
    case LL_SIM_RENAME:
        return archive_name(a, call);
    default:
        return 0;
    }
}

static const struct ll_sim_inode *page_file(const struct ll_sim_archive *a,
                                            const struct ll_sim_image *image)
{
    const struct ll_sim_binding *b = ll_sim_find(image, a->pages);
    return b ? image->inode[b->inode] : NULL;
}

static int make_archive(struct ll_sim_archive *a)
{
    struct ll_sim_arena *kept = &a->guard->kept;
    const struct ll_sim_run *run = &a->sim->workload;
    int rc = ll_sim_image_copy(kept, &a->sim->start.image, &a->world.image);
    a->pages = ll_sim_intern(a->sim, "pages");
    for (unsigned i = 0; i < 2; i++)
        a->page[i] = ll_sim_take(kept, a->sim->page_size);
    if (a->pages == UINT32_MAX || !a->page[0] || !a->page[1])
        return LLADD_NO_MEMORY;
    /* Files have the inode numbers that they have in the recording. Copies of segments get higher
     * numbers. */
    while (!rc && a->world.image.n_inodes < run->live.n_inodes)
        if (ll_sim_inode_new(kept, &a->world.image, 0) == LL_SIM_NO_INODE)
            rc = LLADD_NO_MEMORY;
    for (uint32_t c = 0; !rc && c < run->n_calls; c++)
        rc = archive_call(a, c);
    if (!rc)
        check_told(a);
    a->old = page_file(a, &a->world.image);
    a->live = page_file(a, &run->live);
    return rc ? rc : a->old && a->live ? 0 : LLADD_NOT_FOUND;
}

/* ---- each page --------------------------------------------------------------------------- */

/* Lists the operations that have changed the page. */
static void tell_operations(const struct ll_sim_guard *g, uint64_t page, char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < g->n_changes && len + 70 < size; i++) {
        bool told = g->change[i].page != page;
        for (uint32_t k = 0; !told && k < i; k++)
            told = g->change[k].page == page && g->change[k].op == g->change[i].op;
        if (!told)
            len += (size_t)snprintf(out + len, size - len, "%s\"%s\"", len ? ", " : "",
                                    g->change[i].op->name);
    }
    if (len == 0)
        (void)snprintf(out, size, "no operation");
}

static bool same_page(struct ll_sim_guard *g, uint64_t page, const unsigned char *a,
                      const unsigned char *b, uint32_t *at)
{
    for (*at = 4; *at < LLADD_PAGE_HEADER; ++*at) /* the checksum follows from the rest */
        if (a[*at] != b[*at])
            return false;
    return ll_sim_guard_same(g, NULL, page, a, b, at);
}

/* Do both files share the page's blocks? Then the page is equal in both. */
static bool shared(const struct ll_sim_inode *x, const struct ll_sim_inode *y, uint64_t page,
                   uint32_t size)
{
    for (uint64_t i = page * size / LL_SIM_BLOCK; i * LL_SIM_BLOCK < (page + 1) * size; i++) {
        const unsigned char *a = i < x->n_blocks ? x->block[i].bytes : NULL;
        const unsigned char *b = i < y->n_blocks ? y->block[i].bytes : NULL;
        if (a != b)
            return false;
    }
    return true;
}

static int object_page(struct ll_sim_archive *a, uint64_t page, uint32_t at)
{
    char operations[200];
    tell_operations(a->guard, page, operations, sizeof operations);
    return ll_sim_object(&a->sim->violation, LLADD_SIM_O_REBUILD,
                         "page %llu, made of a copy and the log, is not as it was: byte %u is "
                         "0x%02x, and should be 0x%02x; it was changed by %s",
                         (unsigned long long)page, (unsigned)at, a->page[0][at], a->page[1][at],
                         operations);
}

/* Compares a rebuilt page with the page that the workload has left. */
static void compare_bytes(struct ll_sim_archive *a, uint64_t page, const unsigned char *made,
                          bool header)
{
    uint32_t size = a->sim->page_size, at;
    memcpy(a->page[0], made, size);
    memset(a->page[1], 0, size); /* a page that is not in the file reads as zeros */
    (void)ll_sim_get(a->live, page * size, a->page[1], size);
    bool same = header ? same_page(a->guard, page, a->page[0], a->page[1], &at)
                       : ll_sim_guard_same(a->guard, NULL, page, a->page[0], a->page[1], &at);
    if (!same)
        (void)object_page(a, page, at);
}

static int compare_page(struct ll_sim_archive *a, struct lladd_db *db, uint64_t page,
                        struct lladd_error *err)
{
    enum lladd_page_use use;
    struct lladd_page *made;
    const struct ll_sim_place *p = ll_sim_guard_place(a->sim, page);
    if (!p || p->moved)
        return p ? 0 : LLADD_NO_MEMORY;
    int rc = lladd_page_use_get(db, lladd_page_of(page), &use, err);
    if (rc || (use != LLADD_USE_PAGED && use != LLADD_USE_SYSTEM))
        return rc;
    rc = lladd_page_fix(db, lladd_page_of(page), LLADD_LATCH_SHARED, &made, err);
    if (rc)
        return rc;
    compare_bytes(a, page, made->bytes, true);
    lladd_page_unfix(db, made, LLADD_LATCH_SHARED);
    return 0;
}

/* ---- each change ------------------------------------------------------------------------- */

static const struct ll_sim_change *change_of(struct ll_sim_guard *g, uint64_t page, lladd_lsn lsn)
{
    for (uint32_t i = 0; i < g->n_changes; i++) { /* nearly always the next change is right */
        uint32_t at = (g->next + i) % g->n_changes;
        if (g->change[at].lsn.v != lsn.v || g->change[at].page != page)
            continue;
        g->next = at + 1;
        return &g->change[at];
    }
    return NULL;
}

/* At the checkpoint that ends recovery, an extension may change pages. Such a page is compared
 * before its first change, and not again. Its header is not compared, because it may have the LSN
 * of a new image. */
static void let_go(struct ll_sim_archive *a, const struct lladd_dst_change *c)
{
    uint64_t page = c->page->number.v;
    struct ll_sim_place *p = ll_sim_guard_place(a->sim, page);
    if (c->lsn.v <= a->guard->newest.v || !p || p->moved)
        return;
    p->moved = true;
    if (!c->op->formats)
        compare_bytes(a, page, c->page->bytes, false);
}

void ll_sim_rebuild_change(struct lladd_sim *sim, const struct lladd_dst_change *c)
{
    struct ll_sim_guard *g = sim->guard;
    const struct ll_sim_change *was = change_of(g, c->page->number.v, c->lsn);
    uint32_t at;
    if (!was)
        let_go(g->again, c);
    (c->undo ? c->op->undo : c->op->redo)(c->page, c->bytes);
    if (!was || ll_sim_guard_same(g, c->op, was->page, was->after, c->page->bytes, &at))
        return;
    (void)ll_sim_object(
        &sim->violation, LLADD_SIM_O_REBUILD,
        "%s of \"%s\" at LSN %llu makes something else of page %llu when the log is read again: "
        "byte %u is 0x%02x, and was 0x%02x",
        c->undo ? "undo" : "redo", c->op->name, (unsigned long long)c->lsn.v,
        (unsigned long long)was->page, (unsigned)at, c->page->bytes[at], was->after[at]);
}

/* ---- entry points ------------------------------------------------------------------------ */

/* Compares all pages that the workload has changed or written. */
static int compare(struct ll_sim_archive *a, struct lladd_db *db, struct lladd_error *err)
{
    uint64_t n = lladd_page_count(db);
    int rc = 0;
    for (uint64_t p = 0; !rc && p < n; p++)
        if (!shared(a->old, a->live, p, a->sim->page_size))
            rc = compare_page(a, db, p, err);
    for (uint32_t i = 0; !rc && i < a->guard->n_places; i++) {
        const struct ll_sim_place *p = &a->guard->place[i];
        if (p->last && p->page < n && shared(a->old, a->live, p->page, a->sim->page_size))
            rc = compare_page(a, db, p->page, err);
    }
    return rc;
}

/* Opens the archive, which recovers it, and compares the pages. Does not close the database, since
 * closing may change pages. */
static int recover(struct ll_sim_archive *a, struct ll_sim_run *run, struct lladd_error *err)
{
    struct lladd_db *db;
    int rc = ll_sim_open(a->sim, run, &db, err);
    if (rc)
        return rc;
    rc = compare(a, db, err);
    lladd_db_kill(db);
    return rc;
}

int ll_sim_rebuild(struct lladd_sim *sim)
{
    struct ll_sim_archive a = {.sim = sim, .guard = sim->guard};
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ll_sim_run run;
    int rc = make_archive(&a);
    /* The run has level 2. With LLADD_SIM_TURNS, a run of an even level has the options of the
     * workload. At an odd level the archive would be opened without LLADD_OPT_ATOMIC_PAGES, and
     * would log images of pages that it evicts after redo: an image raises the page LSN. */
    if (!rc)
        rc = ll_sim_run_init(sim, &run, &a.guard->kept, 2, &a.world, NULL);
    if (rc)
        return rc;
    void (*observe)(void *, const struct lladd_dst_event *) = sim->dst.observe;
    sim->dst.observe = NULL; /* no recovery from a crash, so it must not count as coverage */
    a.guard->again = &a;
    sim->dst.replay = true;
    rc = recover(&a, &run, &err);
    sim->dst.replay = false;
    a.guard->again = NULL;
    sim->dst.observe = observe;
    sim->running = &sim->workload;
    if (run.failed || rc == LLADD_NO_MEMORY)
        return LLADD_NO_MEMORY;
    if (rc)
        (void)ll_sim_object(&sim->violation, LLADD_SIM_O_REBUILD,
                            "no database can be recovered from a copy of the pages and the log: %s",
                            err.message);
    return 0;
}
