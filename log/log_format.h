/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_LOG_FORMAT_H
#define LL_LOG_FORMAT_H
/* The format of the log on disk; docs/disk-format.md describes it in prose.
 *
 * A segment file `log/<first LSN, 16 hex digits>.seg` is a sequence of blocks of one size, each
 * min(64 KiB, segment size). A block is a header of 64 bytes and payload. LSNs count payload bytes
 * only. Records start at multiples of 8 (LSN % 8 == 0) and span blocks and segments. All numbers
 * are little-endian. A file has this name only while its header and its space are complete and
 * synced; create.c describes the other names.
 *
 * Block header (immutable once written):
 *   0  u32 CRC-32C of bytes 4..63 (not salted: a block of another database can be recognised)
 *   4  u32 magic "LLB1"
 *   8  u64 incarnation; the same in the whole segment
 *  16  u64 LSN of the first payload byte
 *  24  u32 payload offset of the first record that starts in this block; LL_LOG_BLOCK_NONE = no
 *          record starts here; LL_LOG_BLOCK_UNKNOWN = not known, so a reader begins in an earlier
 *          block (only in block 0: its header is written when the segment is made)
 *  28  u32 block size
 *  32  u64 first LSN of the segment
 *  40  u64 end of the log before this segment: LSNs from here to the segment's first do not exist
 *          (a cut tail, LOG-2); = first LSN if no cut was made
 *  48  u32 segment size
 *  52  u32 block index in the segment
 *  56  u64 hash of the database uuid
 *
 * Record, narrow form (40 bytes + payload):
 *   0  u32 CRC-32C of the record from byte 4 on, seeded with CRC-32C(uuid, incarnation)
 *   4  u24 size in bytes, a multiple of 8
 *   7  u8  kind
 *   8  u64 LSN
 *  16  u8  flags of the record (ll_record.flags)
 *  17  u8  form: bit 0: wide; bits 1-3: number of padding bytes; bit 4: undo_next is present; bits
 *          5-7: depth (0 in the wide form)
 *  18  u16 op
 *  20  u32 (LSN - prev) / 8; 0 = none
 *  24  u32 (LSN - transaction id) / 8; UINT32_MAX = no transaction
 *  28  u32 (LSN - page_prev) / 8; 0 = none
 *  32  u48 page; all ones = none
 *  38  u16 redo length
 *  40  u64 undo_next, if bit 4 of the form is set
 *  then the redo bytes, the undo bytes, padding zeros
 *
 * Wide form (72 bytes + payload), used when a field does not fit: bytes 0 to 19 as in the narrow
 * form, then
 *  20  u32 depth
 *  24  u64 prev
 *  32  u64 txn
 *  40  u64 page_prev
 *  48  u64 page; all ones = none
 *  56  u32 redo length
 *  60  u32 reserved: 0
 *  64  u64 undo_next (bit 4 of the form is 0)
 *  72  the redo bytes, the undo bytes, padding zeros
 *
 * The redo span of a seal (kind LL_REC_SEAL) is a u64, the watermark: every byte below the
 * watermark was durable when the seal was logged. */
#include <lladd/bytes.h>
#include <lladd/types.h>

#define LL_LOG_BLOCK_MAX 65536u
#define LL_LOG_BLOCK_HEADER 64u
#define LL_LOG_BLOCK_MAGIC 0x31424c4cu /* "LLB1" */
#define LL_LOG_BLOCK_NONE UINT32_MAX
#define LL_LOG_BLOCK_UNKNOWN (UINT32_MAX - 1)
#define LL_LOG_SEGMENT_MIN 4096u
#define LL_LOG_SEGMENT_MAX (1u << 31)
#define LL_RECORD_NARROW 40u
#define LL_RECORD_WIDE 72u
#define LL_RECORD_ALIGN 8u
#define LL_RECORD_SIZE_MAX ((1u << 24) - LL_RECORD_ALIGN)
/* The first LSN of a log, unless ll_log_config.first sets another one. */
#define LL_LOG_FIRST_LSN 8u
/* Every LSN is below this, so that the sum of an LSN and a length does not overflow. */
#define LL_LOG_LSN_END (UINT64_MAX / 4)
#define LL_LOG_SEAL_SIZE (LL_RECORD_NARROW + 8u)

#define LL_LOG_DIR "log"
#define LL_LOG_SUFFIX ".seg"
#define LL_LOG_NEW_SUFFIX ".new"
#define LL_LOG_TMP_NAME "new.tmp"
/* "log/" + 16 hex digits + a suffix + 0 byte */
#define LL_LOG_NAME_SIZE 25u

/* Kinds of file names in log/. */
enum ll_log__kind {
    LL_LOG__SEGMENT, /* <first>.seg: a segment */
    LL_LOG__NEW,     /* <first>.new: an old segment file that is being reused */
    LL_LOG__TMP,     /* new.tmp: a new segment file that is being made */
    LL_LOG__OTHER    /* not a file of the log */
};

/* A block header in memory. */
struct ll_log__block {
    uint64_t incarnation;
    uint64_t lsn;
    uint32_t first_record;
    uint32_t block_size;
    uint64_t segment_first;
    uint64_t cut;
    uint32_t segment_size;
    uint32_t index;
    uint64_t uuid_hash;
};

static inline uint32_t ll_log__block_size(uint32_t segment_size)
{
    return segment_size < LL_LOG_BLOCK_MAX ? segment_size : LL_LOG_BLOCK_MAX;
}

/* Read fields of a record that is not verified yet. */
static inline uint32_t ll_log__peek_size(const unsigned char *p)
{
    return lladd_get32(p + 4) & 0xffffffu;
}
static inline uint64_t ll_log__peek_lsn(const unsigned char *p)
{
    return lladd_get64(p + 8);
}

/* Bit 0 of a record's form byte. */
enum { LL_RECORD_FORM_WIDE = 1 };
/* The page field of a record that is not verified yet; arbitrary if the record is too short for its
 * form. Without a branch, because the processor cannot predict the forms of successive records. */
static inline uint64_t ll_log__peek_page(const unsigned char *p, uint32_t size)
{
    bool wide = (p[17] & LL_RECORD_FORM_WIDE) & (size >= LL_RECORD_WIDE);
    return lladd_get64(p + (wide ? 48 : 32)) & ((UINT64_C(1) << 48) - 1);
}

/* Writes 64 bytes, with the checksum. */
void ll_log__block_encode(const struct ll_log__block *, unsigned char out[LL_LOG_BLOCK_HEADER]);
/* True if the header's checksum is right and its fields are consistent. The caller checks the
 * database and the place that the header names. */
bool ll_log__block_decode(const unsigned char in[LL_LOG_BLOCK_HEADER], struct ll_log__block *);
/* A 64-bit hash of the database uuid. A file with another hash belongs to another database. */
uint64_t ll_log__uuid_hash(const unsigned char uuid[16]);
/* log/<first>.seg, log/<first>.new or log/new.tmp */
void ll_log__name(enum ll_log__kind, uint64_t first, char out[LL_LOG_NAME_SIZE]);
static inline void ll_log__segment_name(uint64_t first, char out[LL_LOG_NAME_SIZE])
{
    ll_log__name(LL_LOG__SEGMENT, first, out);
}
/* The inverse of ll_log__name, for a name without "log/". *first is 0 if the name holds no LSN. */
enum ll_log__kind ll_log__parse_name(const char *name, uint64_t *first);

#endif
