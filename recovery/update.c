/* SPDX-License-Identifier: BSD-2-Clause */
/* The write path: check, then log, then change (OP-3).
 *
 *   before the latch   credit, undo reserve, memory, catalogue number      ll_core_reserve_for
 *   under the latch    prepare: may fail, and changes nothing              prepare
 *                      dirty page table (BUF-4)                            log_apply
 *                      page image if the page has no base, because it was written in bulk (BUF-5)
 *                      reserve an LSN, publish the record
 *                      redo, the page LSN
 *
 * ll_core_update runs `prepare` of an operation that formats the page before the latch, because
 * such an operation does not read the page.
 *
 * The payload of a page image: docs/disk-format.md, "10 image". */
#include "recovery/core.h"

#include <lladd/bytes.h>
#include <lz4.h>
#include <string.h>

/* The steps of the hot path are too small for calls, so they are inlined into one function. */
#define INLINE inline __attribute__((always_inline))

#define IMAGE_HEAD 12u
/* LZ4's acceleration. With this value, compression of pages that are half random takes a third of
 * the time, and the result is at most a hundredth larger. */
#define LZ4_HASTE 4
#define NESTING 8u /* top actions and savepoints that compensations can open without allocating */

size_t ll_image_bound(uint32_t page_size)
{
    return ll_record_bound(IMAGE_HEAD + page_size, 0);
}

size_t ll_op_record_max(const struct lladd_op *op, uint32_t page_size)
{
    uint64_t pages = (uint64_t)op->record_pages * page_size;
    return pages && pages < op->record_max ? (size_t)pages : op->record_max;
}

size_t ll_op_credit(const struct lladd_op *op, uint32_t page_size)
{
    return ll_record_bound(ll_op_record_max(op, page_size), 0);
}

uint64_t ll_undo_need_base(void)
{
    return ll_record_bound(0, 0);
}

static uint64_t compensation_log(const struct lladd_op *op, size_t undo_len)
{
    uint64_t log = op->undo_log_base + (uint64_t)undo_len;
    return op->undo_log_base && log < op->undo_log_max ? log : op->undo_log_max;
}

uint64_t ll_undo_need_op(const struct lladd_op *op, size_t undo_len)
{
    switch (op->undo_kind) {
    case LLADD_UNDO_PAGE:
        return ll_record_bound(0, undo_len);
    case LLADD_UNDO_LOGICAL:
        return compensation_log(op, undo_len) + ll_record_bound(LL_CLR_END_BYTES, 0);
    case LLADD_UNDO_NONE:
        break;
    }
    return 0;
}

uint64_t ll_undo_need(const struct ll_core *core, const struct ll_record *rec)
{
    if (rec->kind == LL_REC_OBJECT) {
        const struct ll_name *n = ll_op_catalog_by_number(core, rec->op);
        const struct lladd_object_class *cls = n ? n->desc : NULL;
        return cls && !cls->undo ? 0 : ll_record_bound(0, rec->undo.len);
    }
    if (rec->kind == LL_REC_UPDATE && (rec->flags & LL_REC_UNDO_PAGE))
        return ll_record_bound(0, rec->undo.len);
    if ((rec->kind == LL_REC_UPDATE && (rec->flags & LL_REC_UNDO_LOGICAL)) ||
        rec->kind == LL_REC_UNDO_ONLY || (rec->kind == LL_REC_ACTION_END && rec->op != 0)) {
        const struct ll_name *n = ll_op_catalog_by_number(core, rec->op);
        if (n && n->desc)
            return ll_undo_need_op(n->desc, rec->undo.len);
    }
    return 0;
}

static size_t scratch_for(const struct ll_core *core, size_t record_max)
{
    return record_max + LL_IMAGE_ROOM(core->page_size);
}

static int want_scratch_bytes(struct lladd_txn *txn, size_t size)
{
    if (LL_LIKELY(txn->scratch_size >= size))
        return 0;
    unsigned char *p = ll_resize(&txn->core->env, txn->scratch, size);
    if (!p)
        return ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for a record");
    txn->scratch = p;
    txn->scratch_size = size;
    return 0;
}

int ll_core_want_scratch(struct lladd_txn *txn, size_t record_max)
{
    return want_scratch_bytes(txn, scratch_for(txn->core, record_max));
}

/* The memory must not move during a rollback, because it holds the undo bytes of running
 * compensations. What nested compensations need was allocated when the records to undo were
 * logged. */
int ll_core_want_copy(struct lladd_txn *txn, size_t size)
{
    if (txn->undo_copy_size >= size || txn->rolling_back)
        return 0;
    unsigned char *p = ll_resize(&txn->core->env, txn->undo_copy, size);
    if (!p)
        return ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for an undo");
    txn->undo_copy = p;
    txn->undo_copy_size = size;
    return 0;
}

int ll_core_want_nesting(struct lladd_txn *txn)
{
    const struct ll_env *env = &txn->core->env;
    if (ll_grow(env, &txn->actions, &txn->cap_actions, txn->n_actions + NESTING,
                sizeof *txn->actions))
        return ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for a top action");
    if (ll_grow(env, &txn->savepoints, &txn->cap_savepoints, txn->n_savepoints + NESTING,
                sizeof *txn->savepoints))
        return ll_fail(&txn->err, LLADD_NO_MEMORY, "out of memory for a savepoint");
    return 0;
}

static int reserve_undo(struct lladd_txn *txn, uint64_t bytes)
{
    struct ll_log *log = txn->core->log;
    return txn->frees_log ? ll_log_undo_reserve_owed(log, bytes, &txn->err)
                          : ll_log_undo_reserve(log, bytes, &txn->err);
}

/* *bytes: see ll_core_put_down. */
static int want_undo(struct lladd_txn *txn, uint64_t need, size_t *bytes)
{
    if (txn->id.v == 0)
        need += ll_undo_need_base();
    if (LL_LIKELY(txn->undo_spare >= need) || txn->rolling_back)
        return 0;
    if (!lladd_atomic_load_ptr(&txn->core->txns.spare_cursor)) {
        int made = ll_txns_spare(txn->core, &txn->err);
        if (made)
            return made;
    }
    uint64_t more = need - txn->undo_spare;
    uint64_t extra = ll_log_is_scarce(txn->core->log) ? 0 : ll_core_undo_ahead(txn);
    int rc = reserve_undo(txn, more + extra);
    if (rc && lladd_code_root(rc) != LLADD_ROOT_POISONED && ll_txns_release_credit(txn->core))
        rc = reserve_undo(txn, more + extra);
    if (!rc) {
        txn->undo_spare += more + extra;
        return 0;
    }
    if (lladd_code_root(rc) != LLADD_ROOT_RESOURCE && rc != LLADD_LOG_FULL)
        return rc;
    rc = reserve_undo(txn, more);
    uint64_t oldest = UINT64_MAX;
    if (rc == LLADD_LOG_FULL)
        ll_core_put_down(txn->core, &txn->credit, bytes);
    while (rc == LLADD_LOG_FULL && (rc = ll_core_relieve_log(txn->core, &oldest, &txn->err)) == 0)
        rc = reserve_undo(txn, more);
    if (!rc)
        txn->undo_spare += more;
    return rc;
}

void ll_core_needs(const struct ll_core *core, struct ll_name *name)
{
    const struct lladd_op *op = name->desc;
    size_t most = name->record_max = ll_op_record_max(op, core->page_size);
    name->need_credit = ll_op_credit(op, core->page_size);
    name->need_undo = ll_undo_need_op(op, most);
    /* A compensation must not allocate, so the records that it may log also count (REC-3). */
    size_t inside = op->undo_kind == LLADD_UNDO_LOGICAL ? op->undo_log_max : 0;
    name->need_scratch = scratch_for(core, inside > most ? inside : most);
    name->need_copy = op->undo_kind == LLADD_UNDO_NONE ? 0 : most + inside;
    name->need_nesting = op->undo_kind == LLADD_UNDO_LOGICAL ? NESTING : 0;
}

/* Allocates for the needs of all operations, because the needs of the transaction's own records
 * would be known only after reading these records again. */
int ll_core_want_rollback(struct lladd_txn *txn)
{
    struct ll_core *core = txn->core;
    size_t scratch = scratch_for(core, 0), copy = 0;
    for (uint32_t i = 1; i <= core->cat.n_numbers; i++) {
        const struct ll_name *name = ll_op_catalog_by_number(core, i);
        if (!name || !name->desc)
            continue;
        const struct lladd_object_class *cls = name->kind == LL_NAME_CLASS ? name->desc : NULL;
        size_t need = name->kind == LL_NAME_OP ? name->need_copy
                      : cls && cls->undo       ? ll_log_record_max(core->log)
                                               : 0;
        copy = need > copy ? need : copy;
        if (name->kind == LL_NAME_OP && name->need_scratch > scratch)
            scratch = name->need_scratch;
    }
    int rc = ll_txns_spare(core, &txn->err);
    /* This process may have logged no record yet, and may have no page in the cache. */
    rc = rc ? rc : ll_log_make_ring(core->log, &txn->err);
    rc = rc ? rc : ll_buffer_want_address_space(core->buffer, &txn->err);
    rc = rc ? rc : want_scratch_bytes(txn, scratch);
    rc = rc ? rc : ll_core_want_copy(txn, copy);
    return rc ? rc : ll_core_want_nesting(txn);
}

/* A transaction that begins to write also sets aside the missing space for the next checkpoints,
 * even if it has credit. */
static int want_credit(struct lladd_txn *txn, size_t bytes)
{
    struct ll_core *core = txn->core;
    bool begins = txn->id.v == 0 && ll_core_lacks_aside(core);
    if (LL_UNLIKELY(txn->frees_log && (begins || txn->credit.bytes < bytes)))
        return ll_core_credit_owed(core, &txn->credit, bytes, &txn->err);
    return LL_UNLIKELY(begins) ? ll_core_credit_slow(core, &txn->credit, bytes, &txn->err)
                               : ll_core_credit(core, &txn->credit, bytes, &txn->err);
}

static int memory_for(struct lladd_txn *txn, struct ll_name *name)
{
    struct ll_core *core = txn->core;
    const struct lladd_op *op = name->desc;
    int rc = ll_op_catalog_number(core, name, &txn->err);
    if (!rc)
        rc = want_scratch_bytes(txn, txn->rolling_back ? scratch_for(core, name->record_max)
                                                       : name->need_scratch);
    if (!rc && op->undo_kind == LLADD_UNDO_LOGICAL && !txn->rolling_back)
        rc = ll_core_want_nesting(txn);
    return rc ? rc : ll_core_want_copy(txn, name->need_copy);
}

int ll_core_reserve_all(struct lladd_txn *txn, const struct ll_want *wants, unsigned n)
{
    size_t bytes = 0;
    uint64_t undo = 0;
    unsigned images = 0;
    bool unknown = false;
    int rc = 0;
    for (unsigned i = 0; i < n; i++) {
        const struct ll_name *name = wants[i].name;
        size_t one = name ? name->need_credit : ll_record_bound(LL_ACTION_END_BYTES, 0);
        if (wants[i].image) /* a rollback has no reserve for images */
            one = txn->rolling_back ? 0 : ll_image_bound(txn->core->page_size);
        bytes += one * wants[i].count;
        images += wants[i].image ? wants[i].count : 0;
        undo += name ? name->need_undo * wants[i].count : 0;
        unknown |= name && !lladd_atomic_load32(&name->number);
    }
    if (unknown) /* the catalogue will append records too */
        ll_core_put_down(txn->core, &txn->credit, &bytes);
    for (unsigned i = 0; i < n && !rc; i++)
        rc = wants[i].name ? memory_for(txn, wants[i].name) : 0;
    txn->images = 0;
    if (!rc)
        rc = ll_core_reserve_plain(txn, bytes, undo);
    if (!rc)
        txn->images = images;
    if (lladd_code_root(rc) == LLADD_ROOT_POISONED)
        ll_log_credit_rests(&txn->credit);
    return rc;
}

int ll_core_reserve_slow(struct lladd_txn *txn, struct ll_name *name, unsigned count)
{
    const struct ll_want want = {name, count, false};
    return ll_core_reserve_all(txn, &want, 1);
}

int ll_core_reserve_plain(struct lladd_txn *txn, size_t bytes, uint64_t undo)
{
    int rc = want_undo(txn, undo, &bytes);
    if (rc)
        return rc;
    if (txn->rolling_back)
        return ll_log_credit_reserved(txn->core->log, &txn->credit, bytes, &txn->err);
    return want_credit(txn, bytes);
}

void ll_core_use_undo(struct lladd_txn *txn, uint64_t need)
{
    if (txn->rolling_back)
        return; /* covered by the undo reserve of the record that is undone */
    LL_ASSERT(txn->undo_spare >= need);
    ll_txn_set_undo_used(txn, txn->undo_used + need);
    txn->undo_spare -= need;
}

void ll_core_trim_undo(struct lladd_txn *txn)
{
    uint64_t keep = ll_core_undo_ahead(txn);
    ll_log_undo_release(txn->core->log, txn->undo_spare - keep);
    txn->undo_spare = keep;
}

static int wrong_page(struct lladd_txn *txn, const struct lladd_op *op, struct lladd_view view)
{
    return ll_fail_page(&txn->err, LLADD_WRONG_TYPE, view.number,
                        "operation \"%s\" on page %llu: the page is of another type (%u)", op->name,
                        (unsigned long long)view.number.v, view.type);
}

static int refused(struct lladd_txn *txn, const struct lladd_op *op, int rc)
{
    if (txn->err.code == rc)
        return rc;
    const char *text = lladd_code_text(rc);
    return ll_fail(&txn->err, rc, "operation \"%s\" refused: %s", op->name,
                   text ? text : "unknown code");
}

/* Will recovery accept these redo bytes? Recovery applies a format operation to a page of zeros.
 * For such an operation, this function builds the page of zeros in the scratch memory, in the room
 * for a page image. */
static bool fits(const struct lladd_txn *txn, const struct ll_name *name, struct lladd_view view,
                 struct lladd_span redo)
{
    const struct lladd_op *op = name->desc;
    if (!op->validate)
        return true;
    if (op->formats) {
        unsigned char *blank = txn->scratch + (txn->scratch_size - view.size);
        memset(blank, 0, view.size);
        ll_blank_header(blank, name, view.number);
        view.bytes = blank;
        view.type = ll_page_type(blank);
    }
    return op->validate(view, LLADD_SPAN_REDO, redo);
}

/* For an operation without `prepare`: logs its arguments. */
static int prepare_plain(struct lladd_txn *txn, const struct ll_name *name, struct lladd_view view,
                         struct lladd_span args, struct lladd_draft *d)
{
    const struct lladd_op *op = name->desc;
    size_t undo_len = op->undo_kind == LLADD_UNDO_PAGE ? args.len : 0;
    unsigned char *redo = lladd_draft_redo(d, args.len);
    unsigned char *undo = redo ? lladd_draft_undo(d, undo_len) : NULL;
    if (!undo)
        return ll_fail(&txn->err, LLADD_TOO_LARGE,
                       "operation \"%s\": %zu bytes are more than its record_max allows", op->name,
                       args.len);
    if (args.len)
        memcpy(redo, args.data, args.len);
    if (undo_len)
        memcpy(undo, args.data, undo_len);
    if (!fits(txn, name, view, lladd_span_of(redo, args.len)))
        return ll_fail(&txn->err, LLADD_BAD_ARGUMENT,
                       "operation \"%s\": arguments do not fit page %llu", op->name,
                       (unsigned long long)view.number.v);
    return 0;
}

/* The check of OP-3. The draft is in the transaction's scratch memory. */
static INLINE int prepare(struct lladd_txn *txn, const struct ll_name *name, struct lladd_view view,
                          struct lladd_span args, struct lladd_draft *d)
{
    const struct lladd_op *op = name->desc;
    uint32_t wanted = name->page_type ? name->page_type->number : view.type;
    if (LL_UNLIKELY((view.type != wanted || view.type == 0) && !op->formats))
        return wrong_page(txn, op, view);
    d->bytes = txn->scratch;
    d->max = name->record_max;
    d->redo_len = d->undo_len = 0;
    d->error = &txn->err;
    if (LL_UNLIKELY(!op->prepare))
        return prepare_plain(txn, name, view, args, d);
    txn->err.code = 0;
    LLADD_CALLING("prepare", op->name, view.number.v);
    int rc = op->prepare(op->ctx, view, args, d);
    LLADD_CALLED();
    return LL_LIKELY(!rc) ? 0 : refused(txn, op, rc);
}

/* Accounts for the undo reserve of the END record when the transaction logs its first record. */
static inline void begin_chain(struct lladd_txn *txn)
{
    if (LL_UNLIKELY(txn->id.v == 0))
        ll_core_use_undo(txn, ll_undo_need_base());
}

void ll_txn_append(struct lladd_txn *txn, struct ll_record *rec, const lladd_lsn *undo_next)
{
    rec->depth = txn->depth;
    if (txn->system)
        rec->flags |= LL_REC_SYSTEM;
    begin_chain(txn);
    ll_log_append(txn->core->log, &txn->credit, rec, &txn->chain, undo_next);
    if (LL_UNLIKELY(txn->rolling_back))
        txn->rolled += ll_record_bound(rec->redo.len, rec->undo.len);
}

/* Offset of the zeros at the end of the page. */
static uint32_t zeros_from(const unsigned char *page, uint32_t size)
{
    while (size > LLADD_PAGE_HEADER + 8 && lladd_get64(page + size - 8) == 0)
        size -= 8;
    return size;
}

/* An attempt to compress an image takes half of the time that logging the image takes. After
 * IN_VAIN attempts in vain, compression is tried for only one image out of TRIED. Threads may
 * miscount, which is harmless. */
static bool may_shrink(const struct ll_core *core)
{
    enum { IN_VAIN = 16, TRIED = 16 };
    return lladd_atomic_load32(&core->images_in_vain) < IN_VAIN ||
           lladd_atomic_load64_relaxed(&core->images) % TRIED == 0;
}

static void note_shrunk(struct ll_core *core, bool shrunk)
{
    uint32_t in_vain = lladd_atomic_load32(&core->images_in_vain);
    uint32_t now = shrunk ? 0 : in_vain + (in_vain < UINT32_MAX);
    if (now != in_vain)
        lladd_atomic_store32(&core->images_in_vain, now);
}

/* The size of LZ4's state. The state takes 16 KiB, and is not on the stack, because threads of an
 * application may have stacks of that size. */
size_t ll_image_packing(void)
{
    return (size_t)LZ4_sizeofState();
}

/* Compresses an image. Returns the compressed size, or 0 if compression does not save an eighth.
 * Without memory the image is logged uncompressed, for which the credit is always enough (OP-3). */
static int pack_image(struct ll_core *core, const unsigned char *raw, uint32_t len, void *state,
                      unsigned char *out)
{
    if (!state)
        return 0;
    int packed = LZ4_compress_fast_extState(state, (const char *)raw, (char *)out, (int)len,
                                            (int)(len - len / 8), LZ4_HASTE);
    note_shrunk(core, packed > 0);
    return packed;
}

static struct lladd_span build_image(struct ll_core *core, const struct lladd_page *p,
                                     unsigned char *room, void *packing, uint8_t *flags)
{
    const unsigned char *page = p->bytes;
    uint32_t size = core->page_size, begin = size, end = size;
    const struct lladd_page_type *pt = ll_op_catalog_page_type(core, ll_page_type(page));
    if (pt && pt->hole) {
        pt->hole(ll_view_of(p), &begin, &end);
        if (begin < LLADD_PAGE_HEADER || begin > end || end > size)
            begin = end = size;
    }
    if (begin == end) { /* no hole: skip zeros, for which LZ4 takes a microsecond per page */
        begin = zeros_from(page, size);
        end = size;
    }
    unsigned char *out = room, *raw = room + IMAGE_HEAD + size;
    uint32_t before = begin - LLADD_PAGE_HEADER, len = before + (size - end);
    memcpy(raw, page + LLADD_PAGE_HEADER, before);
    memcpy(raw + before, page + end, size - end);
    lladd_put16(out, ll_page_type(page));
    lladd_put16(out + 2, lladd_get16(page + 6));
    lladd_put32(out + 4, begin);
    lladd_put32(out + 8, end - begin);
    int packed = 0;
    if (len > 256 && may_shrink(core))
        packed = pack_image(core, raw, len, packing, out + IMAGE_HEAD);
    if (packed > 0) {
        *flags = LL_REC_COMPRESSED;
        return lladd_span_of(out, IMAGE_HEAD + (size_t)packed);
    }
    memcpy(out + IMAGE_HEAD, raw, len);
    *flags = 0;
    return lladd_span_of(out, IMAGE_HEAD + len);
}

void ll_image_log(struct ll_core *core, struct ll_credit *credit, struct lladd_page *page,
                  unsigned char *room, void *packing)
{
    struct ll_record rec = {
        .kind = LL_REC_IMAGE, .page = page->number.v, .page_prev = ll_page_lsn(page->bytes)};
    rec.redo = build_image(core, page, room, packing, &rec.flags);
    ll_log_reserve(core->log, credit, &rec, false);
    ll_log_publish(core->log, &rec);
    if (!LLADD_PLANTED(LLADD_BUG_IMAGE_LSN))
        ll_page_set_lsn(page->bytes, rec.lsn);
    ll_page_set_base(page->bytes, rec.lsn);
    lladd_atomic_count64(&core->images, 1);
}

bool ll_core_lacks_image(const struct lladd_txn *txn, const struct ll_name *name,
                         const struct ll_frame *f, bool promised)
{
    const struct lladd_op *op = name->desc;
    if (LL_LIKELY(ll_page_base(f->page.bytes).v != 0) || op->formats ||
        LLADD_PLANTED(LLADD_BUG_BULK_IMAGE))
        return false;
    return txn->rolling_back || (promised && txn->images == 0) ||
           txn->credit.bytes < name->need_credit + ll_image_bound(txn->core->page_size);
}

/* The page has no base, because it was written in bulk or has a redo barrier above its base. Its
 * newest write may not be durable, or may be torn, so an image precedes its next logged change. A
 * rollback has no log space for an image: it has synced the page file instead. */
static void image_of_bulk(struct lladd_txn *txn, struct ll_frame *f)
{
    size_t room = LL_IMAGE_ROOM(txn->core->page_size);
    if (txn->rolling_back || LLADD_PLANTED(LLADD_BUG_BULK_IMAGE))
        return;
    LL_ASSERT(txn->credit.bytes >= ll_image_bound(txn->core->page_size));
    txn->images -= txn->images != 0;
    void *packing = ll_alloc(&txn->core->env, ll_image_packing());
    ll_image_log(txn->core, &txn->credit, &f->page, txn->scratch + (txn->scratch_size - room),
                 packing);
    ll_free(&txn->core->env, packing);
}

int ll_image_apply(const struct ll_core *core, const struct ll_record *rec, unsigned char *page,
                   struct lladd_error *err)
{
    const unsigned char *p = rec->redo.data;
    uint32_t size = core->page_size;
    uint32_t begin = rec->redo.len >= IMAGE_HEAD ? lladd_get32(p + 4) : 0;
    uint32_t hole = rec->redo.len >= IMAGE_HEAD ? lladd_get32(p + 8) : 0;
    if (begin < LLADD_PAGE_HEADER || begin > size || hole > size - begin)
        return ll_fail_lsn(err, LLADD_BAD_RECORD, rec->lsn,
                           "LSN %llu: invalid page image: expected a hole within the page",
                           (unsigned long long)rec->lsn.v);
    uint32_t before = begin - LLADD_PAGE_HEADER, len = size - LLADD_PAGE_HEADER - hole;
    memset(page, 0, LLADD_PAGE_HEADER);
    unsigned char *body = page + LLADD_PAGE_HEADER;
    bool fine;
    if (rec->flags & LL_REC_COMPRESSED)
        fine = LZ4_decompress_safe((const char *)p + IMAGE_HEAD, (char *)body,
                                   (int)(rec->redo.len - IMAGE_HEAD), (int)len) == (int)len;
    else if ((fine = rec->redo.len - IMAGE_HEAD == len))
        memcpy(body, p + IMAGE_HEAD, len);
    if (!fine)
        return ll_fail_lsn(err, LLADD_BAD_RECORD, rec->lsn,
                           "LSN %llu: invalid page image: its bytes do not fill the page",
                           (unsigned long long)rec->lsn.v);
    memmove(page + begin + hole, body + before, len - before);
    memset(page + begin, 0, hole);
    ll_page_set_type(page, lladd_get16(p));
    lladd_put16(page + 6, lladd_get16(p + 2));
    ll_page_set_number(page, rec->page);
    ll_page_set_lsn(page, rec->lsn);
    ll_page_set_base(page, rec->lsn);
    return 0;
}

/* Enters the frame into the dirty page table. If the page is newer than all redo barriers, no
 * barrier is searched for. */
static INLINE void enter_dirty(struct ll_core *core, struct ll_frame *f)
{
    if (lladd_atomic_load64_relaxed(&f->rec_lsn) != 0)
        return;
    if (ll_page_lsn(f->page.bytes).v <= lladd_atomic_load64_relaxed(&core->newest_barrier))
        ll_redo_barrier_disown_page(core, f->page.number.v);
    if (!LLADD_PLANTED(LLADD_BUG_DIRTY_ENTRY))
        ll_buffer_dirty(core->buffer, f, ll_log_tail(core->log));
}

static void count_another(struct lladd_txn *txn, struct ll_name *name)
{
    if (txn->counted) {
        lladd_atomic_count64(&txn->counted->count, txn->counted_n);
        lladd_atomic_count64(&txn->counted->bytes, txn->counted_bytes);
    }
    lladd_atomic_store64_relaxed(&txn->counted_n, 0);
    lladd_atomic_store64_relaxed(&txn->counted_bytes, 0);
    lladd_atomic_store_ptr(&txn->counted, name);
}

static inline void count(struct lladd_txn *txn, struct ll_name *name, uint64_t bytes)
{
    if (LL_UNLIKELY(txn->counted != name))
        count_another(txn, name);
    lladd_atomic_store64_relaxed(&txn->counted_n, txn->counted_n + 1);
    lladd_atomic_store64_relaxed(&txn->counted_bytes, txn->counted_bytes + bytes);
}

/* The caller has latched the frame exclusively. Cannot fail. */
static INLINE void log_apply(struct lladd_txn *txn, struct ll_name *name, struct ll_frame *f,
                             const struct lladd_draft *d, enum ll_apply_how how)
{
    const struct lladd_op *op = name->desc;
    unsigned char *page = f->page.bytes;
    uint8_t flags = txn->system ? LL_REC_SYSTEM : 0;
    uint32_t undo_len = 0;
    if (op->undo_kind != LLADD_UNDO_NONE && how == LL_APPLY_NORMAL) {
        undo_len = (uint32_t)d->undo_len;
        flags |= op->undo_kind == LLADD_UNDO_PAGE ? LL_REC_UNDO_PAGE : LL_REC_UNDO_LOGICAL;
        ll_core_use_undo(txn, ll_undo_need_op(op, undo_len));
    }
    begin_chain(txn);
    lladd_atomic_store64_relaxed(&txn->busy, txn->last.v | 1);
    enter_dirty(txn->core, f);
    lladd_lsn page_prev = {0};
    if (LL_UNLIKELY(op->formats)) {
        ll_blank_header(page, name, f->page.number);
        flags |= LL_REC_FORMATS;
    } else {
        if (LL_UNLIKELY(ll_page_base(page).v == 0))
            image_of_bulk(txn, f);
        page_prev = ll_page_lsn(page);
    }
    struct ll_record rec = {.kind = LL_REC_UPDATE,
                            .flags = flags,
                            .op = name->number,
                            .depth = txn->depth,
                            .page = f->page.number.v,
                            .page_prev = page_prev,
                            .redo = lladd_span_of(d->bytes, d->redo_len),
                            .undo = lladd_span_of(d->bytes + d->redo_len, undo_len)};
    ll_log_append(txn->core->log, &txn->credit, &rec, &txn->chain, NULL);
    if (LL_UNLIKELY(txn->rolling_back))
        txn->rolled += ll_record_bound(d->redo_len, undo_len);
    if (LLADD_PLANTED(LLADD_BUG_DIRTY_ENTRY))
        ll_buffer_dirty(txn->core->buffer, f, ll_log_tail(txn->core->log));
    LLADD_CALLING("redo", op->name, rec.page);
    if (!LLADD_CHANGED(.op = op, .page = &f->page, .lsn = rec.lsn, .bytes = rec.redo,
                       .undoable = (flags & LL_REC_UNDO_PAGE) != 0, .undo_bytes = rec.undo))
        op->redo(&f->page, rec.redo);
    LLADD_CALLED();
    if (!LLADD_PLANTED(LLADD_BUG_LSN_STAMP))
        ll_page_set_lsn(page, rec.lsn);
    if (LL_UNLIKELY(op->formats)) {
        ll_page_set_base(page, rec.lsn);
        ll_page_formatted(txn->core, f->page.number);
    }
    LLADD_OBSERVE(.what = LLADD_DST_APPLY, .op = op->name, .op_version = name->version,
                  .lsn = rec.lsn, .txn = txn->id, .page = rec.page, .depth = rec.depth);
    lladd_atomic_store64(&txn->busy, UINT64_MAX);
    count(txn, name, rec.size);
}

/* Like ll_view_of, for a view that is passed on immediately. The view is stored in whole words:
 * passing it copies the first 16 bytes with one load, which would stall on narrower recent
 * stores. */
static INLINE struct lladd_view view_of(const struct lladd_page *page)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && \
    UINTPTR_MAX == UINT64_MAX
    _Static_assert(offsetof(struct lladd_view, size) == 8 &&
                       offsetof(struct lladd_view, type) == 12 &&
                       offsetof(struct lladd_view, number) == 16,
                   "three words");
    uint64_t words[3] = {(uintptr_t)page->bytes,
                         page->size | (uint64_t)ll_page_type(page->bytes) << 32, page->number.v};
    struct lladd_view v;
    memcpy(&v, words, sizeof v);
    return v;
#else
    return ll_view_of(page);
#endif
}

static INLINE int check(struct lladd_txn *txn, const struct ll_name *name, struct ll_frame *f,
                        struct lladd_span args, struct lladd_draft *d)
{
    int rc = prepare(txn, name, view_of(&f->page), args, d);
#ifdef LLADD_DEBUG
    if (!rc)
        rc = ll_contract_check(txn, name, &f->page, d);
#endif
    return rc;
}

static int format(struct lladd_txn *txn, struct ll_name *name, lladd_pageno page,
                  struct lladd_span args, enum ll_apply_how how)
{
    struct ll_core *core = txn->core;
    struct lladd_draft d;
    struct ll_frame *f;
    struct lladd_view nothing = {NULL, core->page_size, 0, page};
    int rc = prepare(txn, name, nothing, args, &d);
    if (!rc)
        rc = ll_buffer_fix(core->buffer, page, LL_FIX_EXCLUSIVE | LL_FIX_FRESH, &f, &txn->err);
    if (!rc) {
        LLADD_HELD(1);
        log_apply(txn, name, f, &d, how);
        LLADD_HELD(-1);
        ll_buffer_unfix(core->buffer, f, LL_FIX_EXCLUSIVE);
    }
    ll_core_rest(txn);
    return rc;
}

/* The caller holds no page. */
static int want_image(struct lladd_txn *txn, const struct ll_name *name)
{
    ll_log_credit_trim(txn->core->log, &txn->credit);
    if (!txn->rolling_back)
        return want_credit(txn, name->need_credit + ll_image_bound(txn->core->page_size));
    int rc = ll_buffer_sync(txn->core->buffer, &txn->err);
    return rc ? rc
              : ll_log_credit_reserved(txn->core->log, &txn->credit, name->need_credit, &txn->err);
}

int ll_core_update(struct lladd_txn *txn, struct ll_name *name, lladd_pageno page,
                   struct lladd_span args, enum ll_apply_how how)
{
    const struct lladd_op *op = name->desc;
    struct ll_core *core = txn->core;
    struct lladd_draft d;
    struct ll_frame *f;
    int rc = ll_core_reserve_for(txn, name, 1);
    if (LL_UNLIKELY(rc))
        return rc;
    if (LL_UNLIKELY(op->formats))
        return format(txn, name, page, args, how);
    rc = ll_buffer_fix(core->buffer, page, LL_FIX_EXCLUSIVE, &f, &txn->err);
    if (LL_UNLIKELY(!rc && ll_core_lacks_image(txn, name, f, false))) {
        ll_buffer_unfix(core->buffer, f, LL_FIX_EXCLUSIVE);
        rc = want_image(txn, name);
        if (!rc)
            rc = ll_buffer_fix(core->buffer, page, LL_FIX_EXCLUSIVE, &f, &txn->err);
    }
    if (LL_UNLIKELY(rc)) {
        ll_core_rest(txn);
        return rc;
    }
    LLADD_HELD(1);
    rc = check(txn, name, f, args, &d);
    if (LL_LIKELY(!rc))
        log_apply(txn, name, f, &d, how);
    LLADD_HELD(-1);
    ll_buffer_unfix(core->buffer, f, LL_FIX_EXCLUSIVE);
    ll_core_rest(txn);
    return rc;
}

int ll_core_update_held(struct lladd_txn *txn, struct ll_name *name, struct ll_frame *f,
                        struct lladd_span args)
{
    struct lladd_view nothing = {NULL, txn->core->page_size, 0, f->page.number};
    struct lladd_draft d;
    bool formats = ((const struct lladd_op *)name->desc)->formats;
    int rc = formats ? prepare(txn, name, nothing, args, &d) : check(txn, name, f, args, &d);
    if (!rc && ll_core_lacks_image(txn, name, f, true)) /* true only in a rollback */
        rc = ll_buffer_sync(txn->core->buffer, &txn->err);
    if (rc)
        return rc;
    if (formats) { /* ll_core_update need not do this, because LL_FIX_FRESH clears the page */
        ll_buffer_forget_private(txn->core->buffer, f);
        memset(f->page.bytes, 0, f->page.size);
    }
    log_apply(txn, name, f, &d, LL_APPLY_NORMAL);
    return 0;
}

void ll_core_apply_undo(struct lladd_txn *txn, struct ll_name *name, struct ll_frame *f,
                        const struct ll_record *undone)
{
    const struct lladd_op *op = name->desc;
    struct ll_record rec = {.kind = LL_REC_CLR,
                            .op = name->number,
                            .page = f->page.number.v,
                            .undo_next = undone->prev,
                            .undo = undone->undo};
    lladd_atomic_store64_relaxed(&txn->busy, txn->last.v | 1);
    enter_dirty(txn->core, f);
    rec.page_prev = ll_page_lsn(f->page.bytes);
    if (LLADD_PLANTED(LLADD_BUG_CLR))
        ll_txn_set_lsn(&txn->undo_next, rec.undo_next), rec.lsn = rec.page_prev;
    else
        ll_txn_append(txn, &rec, &rec.undo_next);
    if (LLADD_PLANTED(LLADD_BUG_DIRTY_ENTRY))
        ll_buffer_dirty(txn->core->buffer, f, ll_log_tail(txn->core->log));
    LLADD_CALLING("undo", op->name, rec.page);
    if (!LLADD_CHANGED(.op = op, .undo = true, .page = &f->page, .lsn = rec.lsn, .bytes = rec.undo))
        op->undo(&f->page, rec.undo);
    LLADD_CALLED();
    ll_page_set_lsn(f->page.bytes, rec.lsn);
    lladd_atomic_store64(&txn->busy, UINT64_MAX);
}

void ll_core_expect(struct ll_core *core, const struct ll_record *rec, struct lladd_span bytes)
{
    const struct ll_name *name = ll_op_catalog_by_number(core, rec->op);
    const struct lladd_op *op = name && name->kind == LL_NAME_OP ? name->desc : NULL;
    lladd_pageno page = lladd_page_of(rec->page);
    ll_buffer_expect(core->buffer, page);
    if (op && op->offset_first && bytes.len >= 2)
        ll_buffer_touch_span(core->buffer, page, LLADD_PAGE_HEADER + lladd_get16(bytes.data),
                             bytes.len < UINT32_MAX ? (uint32_t)bytes.len : UINT32_MAX);
}
