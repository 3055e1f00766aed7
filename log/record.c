/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record: encodes and decodes records (log_format.h).
 *
 * A record is written in the narrow form unless a field does not fit: the depth is above 7; the
 * redo span has 64 KiB or more; or one of the LSNs `prev`, `txn` and `page_prev` is about 32 GiB or
 * more away or is no multiple of 8.
 *
 * The narrow form's header fields are stored as words of eight bytes, because the checksum reads
 * them back immediately: a load that spans several recent smaller stores would stall.
 *
 * The decoder trusts nothing that it has not checked (ERR-1). Even after the checksum it checks
 * that the fields are consistent, because a right checksum does not prove that this library wrote
 * the record.
 */
#include "log/log_private.h"
#include "util/crc32c.h"

#include <string.h>

enum {
    FORM_WIDE = LL_RECORD_FORM_WIDE,
    FORM_PADDING_SHIFT = 1,
    FORM_PADDING_MASK = 7,
    FORM_UNDO_NEXT = 16,
    FORM_DEPTH_SHIFT = 5
};

#define NARROW_NO_TXN UINT32_MAX
#define NARROW_NO_PAGE ((UINT64_C(1) << 48) - 1)

size_t ll_record_bound(size_t redo_len, size_t undo_len)
{
    return ll_log__align(LL_RECORD_WIDE + redo_len + undo_len);
}

uint32_t ll_record_salt(const unsigned char uuid[16], uint64_t incarnation)
{
    unsigned char bytes[24];
    memcpy(bytes, uuid, 16);
    lladd_put64(bytes + 16, incarnation);
    return ll_crc32c(0, bytes, sizeof bytes);
}

const char *ll_record_kind_name(unsigned kind)
{
    static const char *const names[LL_REC_KINDS] = {
        [LL_REC_NONE] = "none",
        [LL_REC_UPDATE] = "update",
        [LL_REC_CLR] = "clr",
        [LL_REC_CLR_END] = "clr-end",
        [LL_REC_UNDO_ONLY] = "undo-only",
        [LL_REC_ACTION_END] = "action-end",
        [LL_REC_COMMIT] = "commit",
        [LL_REC_END] = "end",
        [LL_REC_PREPARE] = "prepare",
        [LL_REC_PREPARE_BLOB] = "prepare-blob",
        [LL_REC_IMAGE] = "image",
        [LL_REC_OBJECT] = "object",
        [LL_REC_OBJECT_CLR] = "object-clr",
        [LL_REC_CATALOGUE] = "catalogue",
        [LL_REC_CHECKPOINT_BEGIN] = "checkpoint-begin",
        [LL_REC_CHECKPOINT_DATA] = "checkpoint-data",
        [LL_REC_CHECKPOINT_END] = "checkpoint-end",
        [LL_REC_SEAL] = "seal",
        [LL_REC_REDO_BARRIER] = "redo-barrier",
        [LL_REC_PIN] = "pin",
        [LL_REC_HEURISTIC] = "heuristic",
        [LL_REC_RELOCATED_UNDO] = "relocated-undo",
        [LL_REC_NOTE] = "note",
    };
    return kind < LL_REC_KINDS ? names[kind] : "unknown";
}

/* ---- writing ---- */

static uint64_t first_word(const struct ll_record *rec, unsigned form, uint32_t high)
{
    return rec->flags | form << 8 | rec->op << 16 | (uint64_t)high << 32;
}

/* The distance from `to` to this record, as the narrow form stores it; `none` encodes "no LSN". */
static uint32_t back(const struct ll_record *rec, lladd_lsn to, uint32_t none)
{
    return to.v ? (uint32_t)((rec->lsn.v - to.v) / LL_RECORD_ALIGN) : none;
}

static unsigned char *put_narrow(const struct ll_record *rec, unsigned padding, unsigned char *out)
{
    unsigned form = padding << FORM_PADDING_SHIFT | (rec->undo_next.v ? FORM_UNDO_NEXT : 0u) |
                    rec->depth << FORM_DEPTH_SHIFT;
    lladd_put64(out + 16, first_word(rec, form, back(rec, rec->prev, 0)));
    lladd_put64(out + 24,
                back(rec, rec->txn, NARROW_NO_TXN) | (uint64_t)back(rec, rec->page_prev, 0) << 32);
    /* LLADD_NO_PAGE becomes all ones. */
    lladd_put64(out + 32, (rec->page & NARROW_NO_PAGE) | (uint64_t)rec->redo.len << 48);
    if (!rec->undo_next.v)
        return out + LL_RECORD_NARROW;
    lladd_put64(out + LL_RECORD_NARROW, rec->undo_next.v);
    return out + LL_RECORD_NARROW + 8;
}

static unsigned char *put_wide(const struct ll_record *rec, unsigned padding, unsigned char *out)
{
    unsigned form = FORM_WIDE | padding << FORM_PADDING_SHIFT;
    lladd_put64(out + 16, first_word(rec, form, rec->depth));
    lladd_put64(out + 24, rec->prev.v);
    lladd_put64(out + 32, rec->txn.v);
    lladd_put64(out + 40, rec->page_prev.v);
    lladd_put64(out + 48, rec->page);
    lladd_put32(out + 56, (uint32_t)rec->redo.len);
    lladd_put32(out + 60, 0);
    lladd_put64(out + 64, rec->undo_next.v);
    return out + LL_RECORD_WIDE;
}

void ll_log__record_encode(const struct ll_record *rec, uint32_t salt, unsigned char *out)
{
    bool wide = rec->size != ll_log__narrow_size(rec);
    unsigned padding = rec->size - ll_log__raw_size(rec, wide);
    LL_ASSERT(padding < LL_RECORD_ALIGN);

    uint32_t head = rec->size | (uint32_t)rec->kind << 24;
    lladd_put32(out + 4, head);
    /* Zeros the padding, which is within the last eight bytes. */
    lladd_put64(out + rec->size - 8, 0);
    unsigned char *p = wide ? put_wide(rec, padding, out) : put_narrow(rec, padding, out);
    if (rec->redo.len > 0)
        memcpy(p, rec->redo.data, rec->redo.len);
    if (rec->undo.len > 0)
        memcpy(p + rec->redo.len, rec->undo.data, rec->undo.len);
    lladd_put32(out, ll_crc32c_split(salt, head, rec->lsn.v, out + 16, rec->size - 16));
}

/* ---- reading ---- */

static const char *get_narrow(const unsigned char *p, struct ll_record *rec, uint32_t *head)
{
    uint64_t lsn = rec->lsn.v;
    uint32_t prev = lladd_get32(p + 20), txn = lladd_get32(p + 24), page_prev = lladd_get32(p + 28);
    rec->depth = p[17] >> FORM_DEPTH_SHIFT;
    rec->prev.v = prev ? lsn - 8 * (uint64_t)prev : 0;
    rec->txn.v = txn != NARROW_NO_TXN ? lsn - 8 * (uint64_t)txn : 0;
    rec->page_prev.v = page_prev ? lsn - 8 * (uint64_t)page_prev : 0;
    rec->page = lladd_get48(p + 32);
    if (rec->page == NARROW_NO_PAGE)
        rec->page = LLADD_NO_PAGE;
    rec->redo.len = lladd_get16(p + 38);
    rec->undo_next.v = 0;
    *head = LL_RECORD_NARROW;
    if (p[17] & FORM_UNDO_NEXT) {
        if (rec->size < LL_RECORD_NARROW + 8)
            return "it is too short for its form";
        rec->undo_next.v = lladd_get64(p + LL_RECORD_NARROW);
        *head += 8;
    }
    return NULL;
}

static const char *get_wide(const unsigned char *p, struct ll_record *rec, uint32_t *head)
{
    if (rec->size < LL_RECORD_WIDE)
        return "it is too short for its form";
    rec->depth = lladd_get32(p + 20);
    rec->prev.v = lladd_get64(p + 24);
    rec->txn.v = lladd_get64(p + 32);
    rec->page_prev.v = lladd_get64(p + 40);
    rec->page = lladd_get64(p + 48);
    if (rec->page != LLADD_NO_PAGE && rec->page >= NARROW_NO_PAGE)
        return "its page number is too high";
    rec->redo.len = lladd_get32(p + 56);
    rec->undo_next.v = lladd_get64(p + 64);
    *head = LL_RECORD_WIDE;
    return NULL;
}

/* Returns NULL, or why the fields are inconsistent. */
static const char *get_fields(const unsigned char *p, struct ll_record *rec)
{
    uint32_t head;
    const char *why = p[17] & FORM_WIDE ? get_wide(p, rec, &head) : get_narrow(p, rec, &head);
    if (LL_UNLIKELY(why != NULL))
        return why;
    size_t padding = p[17] >> FORM_PADDING_SHIFT & FORM_PADDING_MASK;
    size_t rest = rec->size - head;
    if (LL_UNLIKELY(padding > rest || rec->redo.len > rest - padding))
        return "its spans do not fit into it";
    rec->undo.len = rest - padding - rec->redo.len;
    rec->redo.data = p + head;
    rec->undo.data = p + head + rec->redo.len;
    uint64_t lsn = rec->lsn.v;
    if (LL_UNLIKELY(rec->prev.v >= lsn || rec->txn.v > lsn || rec->page_prev.v >= lsn ||
                    rec->undo_next.v >= lsn))
        return "it refers to a record after itself";
    if (LL_UNLIKELY(rec->kind == LL_REC_NONE || rec->kind >= LL_REC_KINDS))
        return "its kind is unknown";
    return NULL;
}

static const char *decode(const unsigned char *p, size_t len, lladd_lsn lsn, uint32_t salt,
                          struct ll_record *rec)
{
    uint32_t size = ll_log__peek_size(p);
    if (LL_UNLIKELY(size < LL_RECORD_NARROW || size % LL_RECORD_ALIGN != 0))
        return "its length is invalid";
    if (LL_UNLIKELY(size > len))
        return "it extends beyond the available bytes";
    if (LL_UNLIKELY(lladd_get32(p) != ll_crc32c(salt, p + 4, size - 4)) &&
        !LLADD_PLANTED(LLADD_BUG_RECORD_CRC))
        return "its checksum is wrong";
    rec->lsn = lsn;
    rec->size = size;
    rec->kind = p[7];
    rec->flags = p[16];
    rec->op = lladd_get16(p + 18);
    return get_fields(p, rec);
}

int ll_record_decode(const unsigned char *bytes, size_t len, lladd_lsn lsn, uint32_t salt,
                     struct ll_record *rec, struct lladd_error *err)
{
    if (LL_UNLIKELY(len < LL_RECORD_NARROW ||
                    (ll_log__peek_lsn(bytes) != lsn.v && !LLADD_PLANTED(LLADD_BUG_STALE_RECORD))))
        return ll_fail_lsn(err, LLADD_END, lsn, "nothing was written at LSN %llu",
                           (unsigned long long)lsn.v);
    const char *why = decode(bytes, len, lsn, salt, rec);
    if (LL_LIKELY(why == NULL))
        return 0;
    return ll_fail_lsn(err, LLADD_CORRUPT_LOG, lsn, "the record at LSN %llu is damaged: %s",
                       (unsigned long long)lsn.v, why);
}
