/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the records of a log image, and notes what a restore must know. This is where the log ends,
 * how many pages there are, which transactions have written in bulk, and which are in doubt.
 *
 * Every block header and every record is checked, so that damage is found before anything is
 * written. The log may end at an LSN after which its last segment has only zeros. It may also end
 * inside a record that goes on in the next segment. Everything else that is no record is damage. */
#include "ship/image_private.h"

#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <lladd/twophase.h>
#include <stdio.h>
#include <string.h>

enum { HEADER = LL_SHIP_BLOCK_HEADER };
enum { NARROW = 40, WIDE = 72, ALIGN = 8, FORM_WIDE = 1, FORM_UNDO_NEXT = 16, HEAD = 16 };
enum { PART_PAGES = 5 }; /* a part of checkpoint data (docs/disk-format.md) */
#define NO_TXN UINT32_MAX
#define NO_PAGE ((UINT64_C(1) << 48) - 1)

struct reader {
    struct ll_ship_image *im;
    struct lladd_error *err;
    size_t segment;           /* with the LSN that is read */
    struct ll_ship_buf block; /* block `block_index` of segment `block_segment` */
    size_t block_segment;
    uint32_t block_index;
    struct ll_ship_buf whole; /* a record that goes over the end of a block */
};

/* ---- bytes ---------------------------------------------------------------------------------- */

static const struct ll_ship_image_segment *seg(const struct reader *r, size_t i)
{
    return ll_ship_image_at(r->im, i);
}

static bool is_last(const struct reader *r, size_t segment)
{
    return segment + 1 == ll_ship_image_segments(r->im);
}

/* Does the log go on in the next segment without a cut? */
static bool goes_on(const struct reader *r, size_t segment)
{
    return !is_last(r, segment) && seg(r, segment)->limit == seg(r, segment + 1)->first;
}

/* The LSN up to which the log goes on without a cut. */
static uint64_t run_end(const struct reader *r, size_t segment)
{
    while (goes_on(r, segment))
        segment++;
    return seg(r, segment)->limit;
}

static int load_block(struct reader *r, size_t segment, uint32_t index)
{
    const struct ll_ship_image_segment *s = seg(r, segment);
    if (r->block.len && r->block_segment == segment && r->block_index == index)
        return 0;
    r->block.len = 0;
    unsigned char *room = ll_ship_room(&r->block, s->block);
    if (!room)
        return ll_ship_no_memory(r->err);
    int rc = ll_ship_image_read(r->im, segment, room, s->block, (uint64_t)index * s->block, r->err);
    if (!rc)
        rc = ll_ship_image_block(r->im, segment, index, room, r->err);
    if (rc)
        return rc;
    r->block.len = s->block;
    r->block_segment = segment;
    r->block_index = index;
    return 0;
}

/* *out: the payload at `lsn`; *len: how much of it follows in the block. */
static int payload(struct reader *r, size_t segment, uint64_t lsn, const unsigned char **out,
                   uint64_t *len)
{
    const struct ll_ship_image_segment *s = seg(r, segment);
    uint64_t room = s->block - HEADER, at = lsn - s->first;
    int rc = load_block(r, segment, (uint32_t)(at / room));
    *out = r->block.data + HEADER + at % room;
    *len = room - at % room;
    if (*len > s->limit - lsn)
        *len = s->limit - lsn;
    return rc;
}

/* Copies payload, from the reader's segment on. */
static int copy(struct reader *r, uint64_t lsn, unsigned char *out, uint64_t len)
{
    size_t segment = r->segment;
    int rc = 0;
    while (len && !rc) {
        const unsigned char *bytes;
        uint64_t n;
        while (lsn >= seg(r, segment)->limit)
            segment++;
        rc = payload(r, segment, lsn, &bytes, &n);
        n = n < len ? n : len;
        if (!rc)
            memcpy(out, bytes, n);
        out += n;
        lsn += n;
        len -= n;
    }
    return rc;
}

/* *out: the bytes of a record that the image has whole. */
static int bytes_of(struct reader *r, uint64_t lsn, uint32_t size, const unsigned char **out)
{
    uint64_t len;
    int rc = payload(r, r->segment, lsn, out, &len);
    if (rc || size <= len)
        return rc;
    r->whole.len = 0;
    unsigned char *room = ll_ship_room(&r->whole, size);
    if (!room)
        return ll_ship_no_memory(r->err);
    *out = room;
    return copy(r, lsn, room, size);
}

/* ---- records -------------------------------------------------------------------------------- */

static uint32_t salt_of(const struct reader *r)
{
    unsigned char bytes[24];
    memcpy(bytes, r->im->uuid, 16);
    lladd_put64(bytes + 16, seg(r, r->segment)->incarnation);
    return lladd_crc32c(0, bytes, sizeof bytes);
}

static bool decode(const struct reader *r, const unsigned char *p, uint32_t size, uint64_t lsn,
                   struct ll_ship_logged *out)
{
    bool wide = (p[17] & FORM_WIDE) != 0;
    uint32_t head = wide ? WIDE : p[17] & FORM_UNDO_NEXT ? NARROW + 8 : NARROW;
    if (lladd_get32(p) != lladd_crc32c(salt_of(r), p + 4, size - 4) || size < head)
        return false;
    *out = (struct ll_ship_logged){.lsn = lsn,
                                   .size = size,
                                   .kind = p[7],
                                   .redo = p + head,
                                   .bytes = p,
                                   .incarnation = seg(r, r->segment)->incarnation};
    uint32_t txn = lladd_get32(p + 24);
    if (wide) {
        out->txn = lladd_get64(p + 32);
        out->page = lladd_get64(p + 48);
        out->redo_len = lladd_get32(p + 56);
    } else {
        out->txn = txn == NO_TXN ? 0 : lsn - ALIGN * (uint64_t)txn;
        out->page = lladd_get48(p + 32);
        out->redo_len = lladd_get16(p + 38);
    }
    return out->redo_len <= size - head && out->txn <= lsn;
}

/* `size`: the size of the record, as far as it is known. The record may go on in another object. */
static int damaged(struct reader *r, uint64_t lsn, uint64_t size, const char *what)
{
    char name[LL_SHIP_NAME_MAX], other[LL_SHIP_NAME_MAX], text[192];
    size_t last = r->segment;
    uint64_t end = lsn + (size ? size - 1 : 0);
    while (!is_last(r, last) && end >= seg(r, last)->limit)
        last++;
    ll_ship_image_name(r->im, r->segment, lsn, name);
    ll_ship_image_name(r->im, last, end, other);
    bool two = strcmp(name, other) != 0;
    (void)snprintf(text, sizeof text, "at LSN %llu: %s%s%.80s%s", (unsigned long long)lsn, what,
                   two ? "; it goes on in \"" : "", two ? other : "", two ? "\"" : "");
    int rc = ll_ship_corrupt(r->err, name, text);
    if (r->err)
        r->err->lsn = lladd_lsn_of(lsn);
    return rc;
}

/* *found: a record begins between two LSNs. A record has its own LSN 8 bytes after its begin. */
static int look_for_record(struct reader *r, uint64_t from, uint64_t to, bool *found)
{
    unsigned char word[8];
    int rc = 0;
    *found = false;
    for (uint64_t at = from + 8; at + 8 <= to && !rc && !*found; at += ALIGN) {
        rc = copy(r, at, word, sizeof word);
        *found = !rc && lladd_get64(word) == at - 8;
    }
    return rc;
}

/* *found: something in the rest of the last segment is not zero. Blocks without records have no
 * header yet. */
static int look_for_bytes(struct reader *r, uint64_t lsn, bool *found)
{
    const struct ll_ship_image_segment *s = seg(r, r->segment);
    unsigned char bytes[4096];
    uint64_t at = ll_ship_image_offset(s, lsn), end = ll_ship_image_offset(s, s->limit);
    int rc = 0;
    *found = false;
    while (at < end && !rc && !*found) {
        size_t len = end - at < sizeof bytes ? (size_t)(end - at) : sizeof bytes;
        rc = ll_ship_image_read(r->im, r->segment, bytes, len, at, r->err);
        *found = !rc && (bytes[0] != 0 || memcmp(bytes, bytes + 1, len - 1) != 0);
        at += len;
    }
    return rc;
}

/* There is no record at `lsn`: LLADD_END if the log ends there, else damage. */
static int no_record(struct reader *r, uint64_t lsn)
{
    bool found = true;
    int rc = is_last(r, r->segment) ? look_for_bytes(r, lsn, &found) : 0;
    if (rc)
        return rc;
    if (!found && seg(r, r->segment)->next > lsn)
        return damaged(r, lsn, HEAD, "there are zeros, and the index says that records follow");
    return found ? damaged(r, lsn, HEAD,
                           "there is no record, and no later segment says that the log "
                           "ends there")
                 : LLADD_END;
}

/* The record that begins at `lsn` goes on after the last byte of the image. `size`: of the record;
 * 0: not known. Returns LLADD_END, or damage if records follow. */
static int cut_off(struct reader *r, uint64_t lsn, uint32_t size, uint64_t to, bool *more)
{
    uint64_t end = run_end(r, r->segment);
    size_t last = r->segment;
    bool found;
    while (goes_on(r, last))
        last++;
    /* The stored pieces of a segment that is still being written end after a record. */
    uint64_t next = seg(r, last)->next;
    bool wrong = next && (size ? lsn + size != next : next <= end);
    if (!is_last(r, last) || end < ll_ship_image_end(seg(r, last)) || wrong)
        return damaged(r, lsn, 0, "the record is damaged");
    int rc = look_for_record(r, lsn + HEAD, to < end ? to : end, &found);
    *more = true;
    return rc ? rc : found ? damaged(r, lsn, 0, "the record is damaged") : LLADD_END;
}

/* Reads the record at *lsn, or at the LSN where the log goes on after a cut. LLADD_END: the log
 * ends there, or the record ends above `to`. *more: the log goes on above `to`. */
static int next(struct reader *r, uint64_t *lsn, uint64_t to, struct ll_ship_logged *out,
                bool *more)
{
    unsigned char head[HEAD];
    const unsigned char *bytes;
    while (*lsn >= seg(r, r->segment)->limit && !is_last(r, r->segment)) {
        uint64_t first = seg(r, r->segment + 1)->first;
        *more = first > to;
        if (first > to)
            return LLADD_END;
        r->segment++;
        *lsn = *lsn < first ? first : *lsn;
    }
    if (*lsn >= to || *lsn >= seg(r, r->segment)->limit)
        return LLADD_END;
    uint64_t have = run_end(r, r->segment) - *lsn;
    if (have < HEAD)
        return cut_off(r, *lsn, 0, to, more);
    int rc = copy(r, *lsn, head, sizeof head);
    uint32_t size = lladd_get32(head + 4) & 0xffffff;
    if (rc)
        return rc;
    if (lladd_get64(head + 8) != *lsn || size < NARROW || size % ALIGN)
        return no_record(r, *lsn);
    if (size > have)
        return cut_off(r, *lsn, size, to, more);
    rc = bytes_of(r, *lsn, size, &bytes);
    if (rc)
        return rc;
    if (!decode(r, bytes, size, *lsn, out))
        return damaged(r, *lsn, size, "the record is damaged");
    *more = *lsn + size > to;
    return *more ? LLADD_END : 0;
}

/* ---- facts ---------------------------------------------------------------------------------- */

struct writers {
    struct ll_ship_buf txns; /* uint64_t: they have redo barriers, and have not ended */
    struct ll_ship_clock *clock;
    struct ll_ship_facts *facts;
    uint64_t since;
};

void ll_ship_facts_free(struct ll_ship_facts *f)
{
    ll_ship_buf_free(&f->bulk);
    ll_ship_buf_free(&f->barriers);
    ll_ship_buf_free(&f->prepared);
}

static void most(uint64_t *v, uint64_t at_least)
{
    if (*v < at_least)
        *v = at_least;
}

static uint64_t *writer_of(struct writers *w, uint64_t txn)
{
    uint64_t *at = (void *)w->txns.data;
    for (size_t i = 0; i < w->txns.len / sizeof *at; i++)
        if (at[i] == txn)
            return at + i;
    return NULL;
}

static int note_barrier(struct writers *w, struct ll_ship_facts *f, const struct ll_ship_logged *r,
                        struct lladd_error *err)
{
    if (r->redo_len != 16)
        return 0;
    struct ll_ship_barrier barrier = {lladd_get64(r->redo), lladd_get64(r->redo + 8), r->lsn,
                                      r->txn};
    most(&f->pages, barrier.first + barrier.n);
    int rc = ll_ship_append(&f->barriers, &barrier, sizeof barrier, err);
    if (rc || writer_of(w, r->txn))
        return rc;
    return ll_ship_append(&w->txns, &r->txn, sizeof r->txn, err);
}

/* `kept`: the transaction's pages belong to the target. */
static int note_writer(struct writers *w, struct ll_ship_facts *f, const struct ll_ship_logged *r,
                       bool kept, struct lladd_error *err)
{
    uint64_t *at = writer_of(w, r->txn);
    struct ll_ship_bulk bulk = {r->txn, r->lsn};
    if (!at)
        return 0;
    w->txns.len -= sizeof *at;
    *at = *(uint64_t *)(void *)(w->txns.data + w->txns.len);
    return kept ? ll_ship_append(&f->bulk, &bulk, sizeof bulk, err) : 0;
}

static int note_prepared(struct ll_ship_facts *f, const struct ll_ship_logged *r,
                         struct lladd_error *err)
{
    enum { GTRID = 8, BQUAL = 12, WHEN = 16, OWNER = 28, NAMES = 29 };
    struct lladd_in_doubt_info i = {.txn = lladd_lsn_of(r->txn)};
    const unsigned char *b = r->redo;
    if (r->redo_len < NAMES)
        return 0;
    uint32_t gtrid = lladd_get32(b + GTRID), bqual = lladd_get32(b + BQUAL), owner = b[OWNER];
    if (gtrid > 64 || bqual > 64 || owner > 63 || r->redo_len < NAMES + gtrid + bqual + owner)
        return 0;
    i.gid.format = (int64_t)lladd_get64(b);
    i.gid.gtrid_length = gtrid;
    i.gid.bqual_length = bqual;
    memcpy(i.gid.data, b + NAMES, gtrid + bqual);
    memcpy(i.owner, b + NAMES + gtrid + bqual, owner);
    i.prepared_us = (int64_t)lladd_get64(b + WHEN);
    return ll_ship_append(&f->prepared, &i, sizeof i, err);
}

static void forget_prepared(struct ll_ship_facts *f, uint64_t txn)
{
    struct lladd_in_doubt_info *i = (void *)f->prepared.data;
    size_t n = f->prepared.len / sizeof *i;
    for (size_t k = 0; k < n; k++) {
        if (i[k].txn.v != txn)
            continue;
        i[k] = i[n - 1];
        f->prepared.len -= sizeof *i;
        return;
    }
}

static void note_pages(struct ll_ship_facts *f, const unsigned char *b, size_t len)
{
    while (len >= 5) {
        uint32_t part = lladd_get32(b + 1);
        if (part > len - 5)
            return;
        if (b[0] == PART_PAGES && part == 8)
            most(&f->pages, lladd_get64(b + 5));
        b += 5 + part;
        len -= 5 + part;
    }
}

bool ll_ship_taken(uint32_t page_size, const struct ll_ship_logged *r, uint64_t *first, uint64_t *n)
{
    enum { MAP_HEADER = 64, TAKE = 9 };
    uint64_t span = (page_size - MAP_HEADER) / 2 * 8, group = r->page == 1 ? 0 : r->page;
    if (r->kind != LL_SHIP_REC_UPDATE || r->redo_len != TAKE || r->page == 0 ||
        group % span != 0)
        return false;
    *first = group + lladd_get32(r->redo);
    *n = lladd_get32(r->redo + 4);
    return *first + *n <= group + span;
}

/* A database extends its file before it takes pages. Pages may be taken long before the log has
 * another record of them. So the record with which an allocation bitmap takes pages counts. */
static void note_taken(struct ll_ship_facts *f, const struct ll_ship_logged *r)
{
    uint64_t first, n;
    if (f->page_size && ll_ship_taken(f->page_size, r, &first, &n))
        most(&f->pages, first + n);
}

/* LLADD_END: the mark is later than the target. */
static int note_mark(struct ll_ship_clock *c, const struct ll_ship_logged *r)
{
    enum { MAGIC = 8, WHEN = 16, MARK = 24 };
    if (!c || r->redo_len < MARK || memcmp(r->redo, "LLMARK1", MAGIC) != 0)
        return 0;
    int64_t when = (int64_t)lladd_get64(r->redo + WHEN);
    uint64_t end = lladd_get64(r->redo + MAGIC);
    c->later = when > c->target_us;
    if (c->later && !LLADD_PLANTED(LLADD_BUG_MARK_AFTER))
        return LLADD_END;
    c->last_us = when;
    c->lsn = end ? end : r->lsn + r->size;
    return c->later ? LLADD_END : 0;
}

static int note(void *ctx, const struct ll_ship_logged *r, struct lladd_error *err)
{
    struct writers *w = ctx;
    struct ll_ship_facts *f = w->facts;
    uint64_t since = w->since;
    int rc = 0;
    switch (r->kind) {
    case LL_SHIP_REC_UPDATE:
    case LL_SHIP_REC_CLR:
    case LL_SHIP_REC_IMAGE:
        if (r->page < NO_PAGE)
            most(&f->pages, r->page + 1);
        if (r->kind == LL_SHIP_REC_UPDATE)
            note_taken(f, r);
        return 0;
    case LL_SHIP_REC_PREPARE:
        rc = note_prepared(f, r, err);
        return rc ? rc : note_writer(w, f, r, r->lsn >= since, err);
    case LL_SHIP_REC_COMMIT:
    case LL_SHIP_REC_END:
        /* A commit record with a payload ends a transaction that was ended heuristically. */
        f->heuristic = f->heuristic || (r->kind == LL_SHIP_REC_COMMIT && r->redo_len != 0);
        forget_prepared(f, r->txn);
        return note_writer(w, f, r, r->kind == LL_SHIP_REC_COMMIT && r->lsn >= since, err);
    case LL_SHIP_REC_HEURISTIC: /* the transaction is being rolled back */
        f->heuristic = true;
        forget_prepared(f, r->txn);
        return 0;
    case LL_SHIP_REC_REDO_BARRIER:
        return note_barrier(w, f, r, err);
    case LL_SHIP_REC_NOTE:
        return note_mark(w->clock, r);
    case LL_SHIP_REC_CHECKPOINT_DATA:
        note_pages(f, r->redo, r->redo_len);
        return 0;
    default:
        return 0;
    }
}

/* ---- the first record ----------------------------------------------------------------------- */

/* Reads the head of the record at the LSN; *size: its length, 0 if it is impossible. */
static int read_size(struct reader *r, uint64_t lsn, unsigned char head[HEAD], uint32_t *size)
{
    uint64_t end = run_end(r, r->segment);
    *size = 0;
    if (end < lsn + NARROW)
        return 0;
    int rc = copy(r, lsn, head, HEAD);
    uint32_t len = rc ? 0 : lladd_get32(head + 4) & 0xffffff;
    *size = len >= NARROW && len % ALIGN == 0 ? len : 0;
    return rc;
}

/* *whole: the record at the LSN has the right checksum. */
static int is_whole(struct reader *r, uint64_t lsn, uint32_t size, bool *whole)
{
    struct ll_ship_logged out;
    const unsigned char *bytes;
    *whole = false;
    if (size == 0 || size > run_end(r, r->segment) - lsn)
        return 0;
    int rc = bytes_of(r, lsn, size, &bytes);
    *whole = !rc && lladd_get64(bytes + 8) == lsn && decode(r, bytes, size, lsn, &out);
    return rc;
}

/* The header of the block says where the first record in it begins. Of the first block of a
 * segment, the segment's index says it. From there *out is found: the LSN of the first record at or
 * above `lsn`. *known is false if neither says it, or if a record below `lsn` is damaged. */
static int walk_block(struct reader *r, uint64_t lsn, uint64_t *out, bool *known)
{
    enum { AT_FIRST_RECORD = 24, FIRST_LSN = 8 };
    const struct ll_ship_image_segment *s = seg(r, r->segment);
    unsigned char head[HEAD];
    uint64_t room = s->block - HEADER, index = (lsn - s->first) / room;
    int rc = load_block(r, r->segment, (uint32_t)index);
    uint64_t in = rc ? 0 : lladd_get32(r->block.data + AT_FIRST_RECORD);
    if (index == 0 && (s->cut < s->first || s->first == FIRST_LSN))
        in = 0;
    else if (index == 0 && s->start)
        in = s->start - s->first;
    *out = s->first + index * room + in;
    *known = !rc && (in < room || (index == 0 && s->start >= lsn));
    while (!rc && *known && *out < lsn) {
        uint32_t size;
        rc = read_size(r, *out, head, &size);
        if (!rc)
            rc = is_whole(r, *out, size, known);
        *out += size;
    }
    return rc;
}

/* *is: with the right LSN in its head, the record at `lsn` has the right checksum. So a record
 * begins there, of which the LSN is damaged. */
static int is_renamed(struct reader *r, uint64_t lsn, uint32_t size, bool *is)
{
    struct ll_ship_logged out;
    *is = false;
    if (size == 0 || size > run_end(r, r->segment) - lsn)
        return 0;
    r->whole.len = 0;
    unsigned char *room = ll_ship_room(&r->whole, size);
    if (!room)
        return ll_ship_no_memory(r->err);
    int rc = copy(r, lsn, room, size);
    lladd_put64(room + 8, lsn);
    *is = !rc && decode(r, room, size, lsn, &out);
    return rc;
}

/* Finds the first record with a right checksum from *lsn on. Any bytes may look like the begin of a
 * record. But if a record begins at the first LSN, it is the one that is found, even if it is
 * damaged. */
static int search(struct reader *r, uint64_t *lsn, uint64_t to)
{
    unsigned char head[HEAD] = {0};
    uint64_t begin = *lsn;
    bool found = false;
    int rc = 0;
    while (*lsn < to) {
        uint32_t size;
        while (!is_last(r, r->segment) && *lsn >= seg(r, r->segment)->limit)
            r->segment++;
        if (*lsn < seg(r, r->segment)->first)
            *lsn = seg(r, r->segment)->first;
        if (*lsn >= run_end(r, r->segment))
            break;
        rc = read_size(r, *lsn, head, &size);
        if (!rc && *lsn == begin && lladd_get64(head + 8) == begin)
            found = true;
        else if (!rc && *lsn == begin)
            rc = is_renamed(r, begin, size, &found);
        if (!rc && !found && lladd_get64(head + 8) == *lsn)
            rc = is_whole(r, *lsn, size, &found);
        if (rc || found)
            break;
        *lsn += ALIGN;
    }
    return rc;
}

/* Finds the first record at or above *lsn. Usually it begins at *lsn. But a pin may keep the log
 * from an LSN at which no record begins. */
static int find_first(struct reader *r, uint64_t *lsn, uint64_t to)
{
    bool known = false;
    uint64_t first = *lsn;
    int rc = 0;
    while (!is_last(r, r->segment) && *lsn >= seg(r, r->segment)->limit)
        r->segment++;
    if (*lsn < seg(r, r->segment)->first)
        *lsn = seg(r, r->segment)->first;
    if (*lsn < to && *lsn < seg(r, r->segment)->limit)
        rc = walk_block(r, *lsn, &first, &known);
    if (rc || !known)
        return rc ? rc : search(r, lsn, to);
    *lsn = first;
    return 0;
}

int ll_ship_scan(struct ll_ship_image *im, uint64_t from, uint64_t to, ll_ship_scan_fn *fn,
                 void *ctx, uint64_t *end, bool *more, struct lladd_error *err)
{
    struct reader r = {.im = im, .err = err, .block = {.mem = im->mem}, .whole = {.mem = im->mem}};
    struct ll_ship_logged record;
    *end = from;
    int rc = find_first(&r, end, to);
    while (!rc && (rc = next(&r, end, to, &record, more)) == 0) {
        *end += record.size;
        rc = fn(ctx, &record, err);
    }
    ll_ship_buf_free(&r.block);
    ll_ship_buf_free(&r.whole);
    return rc == LLADD_END ? 0 : rc;
}

int ll_ship_replay(struct ll_ship_image *im, uint64_t from, uint64_t since, uint64_t to,
                   struct ll_ship_clock *clock, struct ll_ship_facts *f, struct lladd_error *err)
{
    struct writers w = {{.mem = im->mem}, clock, f, since};
    f->bulk.mem = f->barriers.mem = f->prepared.mem = im->mem;
    int rc = ll_ship_scan(im, from, to, note, &w, &f->end, &f->more, err);
    ll_ship_buf_free(&w.txns);
    return rc;
}
