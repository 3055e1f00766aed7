/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * log_samples: makes samples for the contract checks from the log of a database.
 *
 * The log has every change of a page since the page was formatted, so the page can be rebuilt
 * record by record. A sample is the bytes of a record, and the page's contents just before this
 * record is applied. Some changes cannot be followed: a page image, an unknown operation, a bulk
 * write. After such a change the page gives no samples until it is formatted again.
 */
#include <lladd/bytes.h>
#include <lladd/extension.h>
#include <lladd/log_read.h>
#include <lladd/sim_contract.h>
#include <stdlib.h>
#include <string.h>

enum { TYPE_AT = 4, NUMBER_AT = 24, FIRST = 64 };

struct followed {
    uint64_t number;
    unsigned char *bytes; /* NULL: contents unknown */
};

/* The header of each allocation that belongs to the samples. */
struct piece {
    struct piece *next;
};

struct collect {
    struct lladd_db *db;
    struct lladd_sim_samples *out;
    struct followed *page;
    size_t n_pages, pages_room, samples_room;
    uint32_t size;
};

static int no_memory(struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NO_MEMORY, "no memory for samples");
}

/* Copies the bytes into memory that is freed with the samples. */
static void *keep(struct lladd_sim_samples *out, const void *bytes, size_t len)
{
    struct piece *p = malloc(sizeof *p + len + 1);
    if (!p)
        return NULL;
    p->next = out->private_;
    out->private_ = p;
    if (len)
        memcpy(p + 1, bytes, len);
    return p + 1;
}

static void *grow(void *at, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return at;
    size_t more = *room ? 2 * *room : FIRST;
    void *p = realloc(at, more * size);
    if (p)
        *room = more;
    return p;
}

static struct followed *page_of(struct collect *c, uint64_t number)
{
    for (size_t i = 0; i < c->n_pages; i++)
        if (c->page[i].number == number)
            return &c->page[i];
    struct followed *p = grow(c->page, c->n_pages, &c->pages_room, sizeof *p);
    if (!p)
        return NULL;
    c->page = p;
    p[c->n_pages] = (struct followed){number, NULL};
    return &p[c->n_pages++];
}

static int sample(struct collect *c, const struct lladd_op *op, const struct lladd_log_entry *e,
                  const struct followed *page, struct lladd_error *err)
{
    struct lladd_sim_samples *out = c->out;
    struct lladd_sim_sample *s = grow(out->at, out->count, &c->samples_room, sizeof *s);
    if (!s)
        return no_memory(err);
    out->at = s;
    s += out->count;
    *s = (struct lladd_sim_sample){.op = op, .number = page->number};
    s->type = op->page_type ? lladd_page_type_descriptor(c->db, op->page_type) : NULL;
    /* Records of a top action get no owner. Other transactions may have seen the changes of the top
     * action, so its records are no longer undone one by one. */
    s->owner = e->depth ? 0 : e->txn.v;
    s->page = keep(out, page->bytes, c->size);
    s->redo = lladd_span_of(keep(out, e->redo.data, e->redo.len), e->redo.len);
    if (e->undo.len)
        s->undo = lladd_span_of(keep(out, e->undo.data, e->undo.len), e->undo.len);
    if (!s->page || !s->redo.data || (e->undo.len && !s->undo.data))
        return no_memory(err);
    out->count++;
    return 0;
}

/* Makes the page that the library passes to an operation that formats a page. */
static int start_page(struct collect *c, struct followed *page, const struct lladd_op *op,
                      struct lladd_error *err)
{
    if (!page->bytes)
        page->bytes = malloc(c->size);
    if (!page->bytes)
        return no_memory(err);
    memset(page->bytes, 0, c->size);
    lladd_put16(page->bytes + TYPE_AT, lladd_page_type_number(c->db, op->page_type));
    lladd_put64(page->bytes + NUMBER_AT, page->number);
    return 0;
}

static void lose(struct followed *page)
{
    free(page->bytes);
    page->bytes = NULL;
}

static int change(struct collect *c, const struct lladd_log_entry *e, bool back,
                  struct lladd_error *err)
{
    const struct lladd_op *op = e->op ? lladd_op_descriptor(c->db, e->op, e->op_version) : NULL;
    struct followed *page = page_of(c, e->page);
    int rc = page ? 0 : no_memory(err);
    if (rc)
        return rc;
    if (!op || (back && !op->undo)) {
        lose(page);
        return 0;
    }
    if (op->formats)
        rc = start_page(c, page, op, err);
    if (rc || !page->bytes)
        return rc;
    if (!back)
        rc = sample(c, op, e, page, err);
    struct lladd_page p = {page->bytes, c->size, 0, lladd_page_of(page->number)};
    if (!rc)
        (back ? op->undo : op->redo)(&p, back ? e->undo : e->redo);
    return rc;
}

static void ended(struct collect *c, lladd_lsn txn)
{
    for (size_t i = 0; i < c->out->count; i++)
        if (c->out->at[i].owner == txn.v)
            c->out->at[i].ended = c->out->count;
}

/* The pages that a redo barrier names are written without logging, so their contents are not known
 * from now on. */
static void lose_barred(struct collect *c, struct lladd_span barrier)
{
    const unsigned char *p = barrier.data;
    for (size_t i = 0; barrier.len >= 16 && i < c->n_pages; i++)
        if (c->page[i].number - lladd_get64(p) < lladd_get64(p + 8))
            lose(&c->page[i]);
}

static int see(struct collect *c, const struct lladd_log_entry *e, struct lladd_error *err)
{
    const char *kind = lladd_log_kind_name(e->kind);
    if (strcmp(kind, "redo-barrier") == 0)
        lose_barred(c, e->redo);
    if (strcmp(kind, "update") == 0 && e->page != LLADD_NO_PAGE)
        return change(c, e, false, err);
    if (strcmp(kind, "clr") == 0)
        return change(c, e, true, err);
    if (strcmp(kind, "commit") == 0 || strcmp(kind, "end") == 0)
        ended(c, e->txn);
    if (strcmp(kind, "image") != 0)
        return 0;
    struct followed *page = page_of(c, e->page);
    if (!page)
        return no_memory(err);
    lose(page);
    return 0;
}

int lladd_sim_collect(struct lladd_db *db, struct lladd_sim_samples *out, struct lladd_error *err)
{
    struct collect c = {.db = db, .out = out, .size = lladd_page_size(db)};
    struct lladd_log_cursor *cursor;
    struct lladd_log_entry e;
    memset(out, 0, sizeof *out);
    int rc = lladd_log_open(db, lladd_lsn_of(0), NULL, &cursor, err);
    if (rc)
        return rc;
    while (!rc && (rc = lladd_log_next(cursor, &e, err)) == 0)
        rc = see(&c, &e, err);
    lladd_log_close(cursor);
    for (size_t i = 0; i < c.n_pages; i++)
        free(c.page[i].bytes);
    free(c.page);
    if (rc == LLADD_END)
        return 0;
    lladd_sim_samples_free(out);
    return rc;
}

void lladd_sim_samples_free(struct lladd_sim_samples *s)
{
    for (struct piece *p = s->private_, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    free(s->at);
    memset(s, 0, sizeof *s);
}
