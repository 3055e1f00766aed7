/* SPDX-License-Identifier: BSD-2-Clause */
/* Segments of the log, read as docs/disk-format.md says: block headers, records, and the chain of
 * the segments in a database's directory. All that is read is checked. */
#include "ship/ship_private.h"

#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = LL_SHIP_BLOCK_HEADER };
enum {
    AT_MAGIC = 4,
    AT_INCARNATION = 8,
    AT_LSN = 16,
    AT_FIRST_RECORD = 24,
    AT_BLOCK = 28,
    AT_FIRST = 32,
    AT_CUT = 40,
    AT_SIZE = 48,
    AT_INDEX = 52,
    AT_UUID = 56
};
enum { NARROW = 40, WIDE = 72, ALIGN = 8, FORM_WIDE = 1, FORM_UNDO_NEXT = 16, KINDS = 23 };
#define NO_TXN UINT32_MAX
#define NO_PAGE ((UINT64_C(1) << 48) - 1)
#define FIRST_UNKNOWN UINT32_C(0xfffffffe)

/* ---- headers -------------------------------------------------------------------------------- */

static bool block_ok(const unsigned char *h)
{
    return memcmp(h + AT_MAGIC, "LLB1", 4) == 0 &&
           lladd_get32(h) == lladd_crc32c(0, h + AT_MAGIC, HEADER - AT_MAGIC);
}

static bool power_of_two(uint64_t v, uint64_t least, uint64_t most)
{
    return v >= least && v <= most && (v & (v - 1)) == 0;
}

const char *ll_ship_segment_head(const unsigned char h[HEADER], uint64_t first,
                                 struct ll_ship_segment *out)
{
    if (!block_ok(h) || lladd_get32(h + AT_INDEX) != 0 || lladd_get64(h + AT_FIRST) != first)
        return "its header is damaged";
    *out = (struct ll_ship_segment){.first = first,
                                    .cut = lladd_get64(h + AT_CUT),
                                    .size = lladd_get32(h + AT_SIZE),
                                    .block = lladd_get32(h + AT_BLOCK),
                                    .incarnation = lladd_get64(h + AT_INCARNATION),
                                    .uuid_hash = lladd_get64(h + AT_UUID)};
    uint32_t record = lladd_get32(h + AT_FIRST_RECORD);
    if (!power_of_two(out->size, 4096, UINT64_C(1) << 31) ||
        out->block != (out->size < 65536 ? out->size : 65536) || out->cut > first || first % ALIGN)
        return "its header is inconsistent";
    out->start = record < FIRST_UNKNOWN && record < out->block ? first + record : 0;
    return NULL;
}

uint64_t ll_ship_segment_end(const struct ll_ship_segment *s)
{
    return s->first + s->size / s->block * (s->block - HEADER);
}

uint64_t ll_ship_segment_offset(const struct ll_ship_segment *s, uint64_t lsn)
{
    uint64_t payload = s->block - HEADER, at = lsn - s->first, rest = at % payload;
    return at / payload * s->block + (rest ? HEADER + rest : 0);
}

static uint64_t uuid_hash(const unsigned char uuid[16])
{
    uint64_t h = lladd_get64(uuid) * UINT64_C(0x9e3779b97f4a7c15);
    return (h ^ h >> 32) + lladd_get64(uuid + 8) * UINT64_C(0xc2b2ae3d27d4eb4f);
}

/* Offset in the file of the byte at `lsn`, and the number of payload bytes that are contiguous
 * there. */
static uint64_t place(const struct ll_ship_segment *s, uint64_t lsn, uint64_t *run)
{
    uint64_t payload = s->block - HEADER, at = lsn - s->first;
    *run = payload - at % payload;
    return at / payload * s->block + HEADER + at % payload;
}

static const unsigned char *byte_at(const struct ll_ship_walk *w, uint64_t lsn, uint64_t *run)
{
    return w->bytes + (place(&w->seg, lsn, run) - w->skip);
}

void ll_ship_segment_payload(const struct ll_ship_segment *s, const unsigned char *bytes,
                             uint64_t skip, uint64_t lsn, uint64_t len, unsigned char *out)
{
    while (len) {
        uint64_t run, at = place(s, lsn, &run);
        run = run < len ? run : len;
        memcpy(out, bytes + (at - skip), run);
        out += run;
        lsn += run;
        len -= run;
    }
}

/* ---- records -------------------------------------------------------------------------------- */

/* Returns NULL, or a text that says what is wrong. */
static const char *decode(const unsigned char *p, uint32_t size, uint64_t lsn, uint32_t salt,
                          struct ll_ship_record *out)
{
    bool wide = (p[17] & FORM_WIDE) != 0;
    uint32_t head = wide ? WIDE : p[17] & FORM_UNDO_NEXT ? NARROW + 8 : NARROW;
    uint32_t padding = p[17] >> 1 & 7;
    if (lladd_get64(p + 8) != lsn || lladd_get32(p) != lladd_crc32c(salt, p + 4, size - 4))
        return "the record's checksum is wrong";
    if (size < head)
        return "the record is too short for its form";
    *out = (struct ll_ship_record){.lsn = lsn, .end = lsn + size, .kind = p[7], .flags = p[16]};
    uint32_t txn = lladd_get32(p + 24);
    if (wide) {
        out->txn = lladd_get64(p + 32);
        out->page = lladd_get64(p + 48);
        out->redo.len = lladd_get32(p + 56);
    } else {
        out->txn = txn == NO_TXN ? 0 : lsn - ALIGN * (uint64_t)txn;
        out->page = lladd_get48(p + 32);
        out->redo.len = lladd_get16(p + 38);
    }
    if (out->page == NO_PAGE)
        out->page = LLADD_NO_PAGE;
    out->redo.data = p + head;
    if (padding > size - head || out->redo.len > size - head - padding || out->txn > lsn ||
        out->kind == 0 || out->kind >= KINDS)
        return "the record's fields do not fit together";
    return NULL;
}

static int fail_at(const struct ll_ship_walk *w, uint64_t lsn, const char *what,
                   struct lladd_error *err)
{
    int rc = lladd_error_set(err, w->code, "%s: at LSN %llu: %s", w->name, (unsigned long long)lsn,
                             what);
    if (err)
        err->lsn = lladd_lsn_of(lsn);
    return rc;
}

static int check_blocks(const struct ll_ship_walk *w, struct lladd_error *err)
{
    const struct ll_ship_segment *s = &w->seg;
    uint64_t payload = s->block - HEADER, i = w->skip / s->block, lsn = s->first + i * payload;
    for (; i == 0 || lsn < w->stop; i++, lsn += payload) {
        const unsigned char *h = w->bytes + (i * s->block - w->skip);
        if (!block_ok(h) || lladd_get32(h + AT_INDEX) != i || lladd_get64(h + AT_LSN) != lsn ||
            lladd_get64(h + AT_FIRST) != s->first || lladd_get32(h + AT_SIZE) != s->size ||
            lladd_get64(h + AT_INCARNATION) != s->incarnation)
            return fail_at(w, lsn, "the header of a block is damaged", err);
        if (lladd_get64(h + AT_UUID) != uuid_hash(w->uuid))
            return fail_at(w, lsn, "the block is of another database", err);
    }
    return 0;
}

/* Finds the bytes of the record at `lsn`. *out points into the segment's bytes if the record is
 * contiguous there, otherwise to a copy in `scratch`. *out is NULL if the record goes on after the
 * segment's log and `after` lacks some of the rest. */
static int whole(struct ll_ship_walk *w, uint64_t lsn, uint32_t size, const unsigned char **out,
                 struct lladd_error *err)
{
    uint64_t run, here = (w->stop ? w->stop : ll_ship_segment_end(&w->seg)) - lsn;
    *out = byte_at(w, lsn, &run);
    if (size <= run && size <= here)
        return 0;
    here = here < size ? here : size;
    if (size - here > w->after_len) {
        *out = NULL;
        return 0;
    }
    w->scratch.len = 0;
    unsigned char *room = ll_ship_room(&w->scratch, size);
    if (!room)
        return ll_ship_no_memory(err);
    ll_ship_segment_payload(&w->seg, w->bytes, w->skip, lsn, here, room);
    if (size > here)
        memcpy(room + here, w->after, size - here);
    *out = room;
    return 0;
}

static uint32_t salt_of(const struct ll_ship_walk *w)
{
    unsigned char bytes[24];
    memcpy(bytes, w->uuid, 16);
    lladd_put64(bytes + 16, w->seg.incarnation);
    return lladd_crc32c(0, bytes, sizeof bytes);
}

static uint32_t size_at(const struct ll_ship_walk *w, uint64_t lsn)
{
    uint64_t run;
    return lladd_get32(byte_at(w, lsn, &run) + 4) & 0xffffff;
}

/* Visits the record at `lsn` if all of its bytes are available; *there: whether they are. */
static int visit(struct ll_ship_walk *w, uint64_t lsn, bool *there, struct lladd_error *err)
{
    struct ll_ship_record r;
    const unsigned char *bytes;
    uint32_t size = size_at(w, lsn);
    if (size < NARROW || size % ALIGN)
        return fail_at(w, lsn, "the length of a record is invalid", err);
    w->next = lsn + size;
    int rc = whole(w, lsn, size, &bytes, err);
    *there = !rc && bytes;
    if (!*there)
        return rc;
    const char *why = decode(bytes, size, lsn, salt_of(w), &r);
    return why ? fail_at(w, lsn, why, err) : w->fn(w->ctx, &r, err);
}

/* The LSN after the last byte that is not zero. */
static uint64_t zeros_from(const struct ll_ship_walk *w)
{
    uint64_t n = w->seg.size, in;
    while (n > HEADER && w->bytes[n - 1] == 0)
        n--;
    in = n % w->seg.block;
    return w->seg.first + n / w->seg.block * (w->seg.block - HEADER) +
           (in > HEADER ? in - HEADER : 0);
}

int ll_ship_walk(struct ll_ship_walk *w, struct lladd_error *err)
{
    bool there = true, zeros = w->stop == 0;
    uint64_t end = ll_ship_segment_end(&w->seg), data = zeros ? zeros_from(w) : w->stop;
    w->stop = data;
    int rc = check_blocks(w, err);
    w->stop = zeros ? end : data;
    w->partial_at = 0;
    for (w->next = w->start; !rc && there && w->next < data;) {
        uint64_t lsn = w->next;
        rc = visit(w, lsn, &there, err);
        w->partial_at = rc || there ? 0 : lsn;
    }
    if (zeros && w->next < end)
        w->stop = w->next;
    return rc;
}

int ll_ship_walk_rest(struct ll_ship_walk *w, struct lladd_error *err)
{
    bool there = true;
    return w->partial_at ? visit(w, w->partial_at, &there, err) : 0;
}

bool ll_ship_find_record(struct ll_ship_walk *w)
{
    struct ll_ship_record r;
    const unsigned char *bytes;
    uint32_t salt = salt_of(w);
    uint64_t end = w->stop ? w->stop : zeros_from(w);
    for (uint64_t lsn = w->seg.first; lsn + NARROW <= end; lsn += ALIGN) {
        unsigned char head[16];
        uint32_t size = size_at(w, lsn);
        if (size < NARROW || size % ALIGN || size > end - lsn)
            continue;
        ll_ship_segment_payload(&w->seg, w->bytes, w->skip, lsn, sizeof head, head);
        if (lladd_get64(head + 8) == lsn && whole(w, lsn, size, &bytes, NULL) == 0 && bytes &&
            !decode(bytes, size, lsn, salt, &r)) {
            w->start = lsn;
            return true;
        }
    }
    w->start = end;
    return false;
}

/* ---- a database's segments ------------------------------------------------------------------ */

struct names {
    struct ll_ship_buf firsts; /* uint64_t */
    struct lladd_error *err;
};

static int see_name(void *ctx, const char *name)
{
    struct names *n = ctx;
    char *end;
    if (strlen(name) != 20 || strcmp(name + 16, ".seg") != 0)
        return 0;
    uint64_t first = strtoull(name, &end, 16);
    return end == name + 16 ? ll_ship_append(&n->firsts, &first, sizeof first, n->err) : 0;
}

static int fail_file(uint64_t first, int rc, const char *what, struct lladd_error *err)
{
    char name[40];
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)first);
    return ll_ship_fail_io(err, rc, what, name);
}

int ll_ship_segment_open(struct lladd_device *dev, uint64_t first, struct lladd_file **out,
                         struct lladd_error *err)
{
    char name[40];
    (void)snprintf(name, sizeof name, "log/%016llx.seg", (unsigned long long)first);
    int rc = dev->ops->open(dev, name, LLADD_OPEN_READ_ONLY, out);
    return rc ? fail_file(first, rc, "open", err) : 0;
}

int ll_ship_segment_fail(uint64_t first, const char *what, struct lladd_error *err)
{
    int rc = lladd_error_set(err, LLADD_CORRUPT_LOG, "log segment %016llx.seg: %s",
                             (unsigned long long)first, what);
    if (err)
        err->lsn = lladd_lsn_of(first);
    return rc;
}

int ll_ship_segment_get(struct lladd_device *dev, uint64_t first, struct ll_ship_segment *out,
                        struct lladd_error *err)
{
    unsigned char h[HEADER];
    struct lladd_file *file;
    int rc = ll_ship_segment_open(dev, first, &file, err);
    if (rc)
        return rc;
    int64_t got = dev->ops->pread(dev, file, h, sizeof h, 0);
    rc = dev->ops->close(dev, file);
    if (got < 0 || rc)
        return fail_file(first, got < 0 ? (int)got : rc, "read", err);
    const char *why = got == HEADER ? ll_ship_segment_head(h, first, out) : "it is too short";
    return why ? ll_ship_segment_fail(first, why, err) : 0;
}

/* Finds the segment with the byte before `lsn`. With `begins`, a segment that begins at `lsn` is
 * preferred. */
static int find_segment(struct lladd_device *dev, const struct ll_ship_buf *firsts, uint64_t lsn,
                        bool begins, struct ll_ship_segment *out, struct lladd_error *err)
{
    const uint64_t *at = (const void *)firsts->data;
    uint64_t best = 0;
    for (size_t i = 0; i < firsts->len / sizeof *at; i++)
        if ((at[i] < lsn || (begins && at[i] == lsn)) && at[i] > best)
            best = at[i];
    int rc = ll_ship_segment_get(dev, best, out, err);
    return !rc && ll_ship_segment_end(out) < lsn
               ? ll_ship_segment_fail(best, "the log after it is missing", err)
               : rc;
}

int ll_ship_segments(struct lladd_device *dev, uint64_t from, uint64_t end, struct ll_ship_buf *out,
                     struct lladd_error *err)
{
    struct names n = {{.mem = out->mem}, err};
    struct ll_ship_segment s = {0};
    int rc = dev->ops->list(dev, "log", see_name, &n);
    if (rc < 0 && !lladd_code_name(rc))
        rc = ll_ship_fail_io(err, rc, "list", "log");
    for (uint64_t before = end; !rc; before = s.cut) {
        rc = find_segment(dev, &n.firsts, before, out->len == 0, &s, err);
        if (!rc)
            rc = ll_ship_append(out, &s, sizeof s, err);
        if (s.first <= from || s.cut <= from)
            break;
    }
    ll_ship_buf_free(&n.firsts);
    return rc;
}

int ll_ship_segment_read(struct lladd_device *dev, struct lladd_file *file, uint64_t first,
                         uint64_t offset, void *out, uint64_t len, struct lladd_error *err)
{
    for (uint64_t done = 0; done < len;) {
        int64_t got =
            dev->ops->pread(dev, file, (unsigned char *)out + done, len - done, offset + done);
        if (got <= 0)
            return got ? fail_file(first, (int)got, "read", err)
                       : ll_ship_segment_fail(first, "it is too short", err);
        done += (uint64_t)got;
    }
    return 0;
}
