/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log reader on hostile files. The input is a byte of flags, then changes to a good log of two
 * segments. A change is four bytes: two bytes for segment and offset, an action, a value. With
 * WHOLE_FILE, the input's bytes overwrite the first segment instead. Checksums would reject every
 * change, so the flags say whether headers and records get new checksums afterwards. Other
 * flags say whether the log is opened with a clean end or with a watermark.
 *
 * First, the fuzzer decodes the input as one record. Then it reads the log as inspection does, from
 * the beginning and past damage. Then it opens the log, scans it, starts it and appends a record,
 * as recovery does. There must be no crash, hang or access out of bounds. If open, scan and start
 * succeed, the append must succeed, and the next open must find the record.
 */
#include "fuzz.h"
#include "io/io.h"
#include "log/log.h"
#include "log/log_format.h"
#include "util/crc32c.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    SEGMENT = 4096,
    SEGMENTS = 2,
    FIX_HEADERS = 1,
    FIX_RECORDS = 2,
    WHOLE_FILE = 4,
    CLEAN = 8,
    WATERMARK = 16
};

static const unsigned char uuid[16] = "a fuzzed log";

static struct ll_poison poison;

static void configure(struct ll_log_config *c, const struct ll_env *env, struct lladd_device *dev)
{
    memset(c, 0, sizeof *c);
    c->env = env;
    ll_poison_init(&poison);
    c->poison = &poison;
    c->dev = dev;
    memcpy(c->uuid, uuid, sizeof uuid);
    c->incarnation = 1;
    c->segment_min = SEGMENT;
    c->segment_max = SEGMENT;
    c->ring_bytes = 16384;
}

static lladd_lsn append(struct ll_log *log, unsigned kind, size_t len)
{
    static const unsigned char bytes[2048] = {1, 2, 3};
    struct ll_credit credit = {0};
    struct ll_record rec = {.kind = (uint8_t)kind, .page = 3, .redo = {bytes, len}};
    if (kind == LL_REC_CLR)
        rec.undo_next.v = 8;
    MUST(ll_log_credit(log, &credit, ll_record_bound(len, 0), NULL) == 0);
    ll_log_reserve(log, &credit, &rec, true);
    ll_log_publish(log, &rec);
    ll_log_credit_return(log, &credit);
    return rec.lsn;
}

/* Writes records of several lengths until both segments are in use. Forces each third record, so
 * that the log contains seals. */
static void build(const struct ll_log_config *cfg, lladd_lsn *end)
{
    struct ll_log *log;
    lladd_lsn lsn = {0};
    MUST(ll_log_create(cfg, &log, NULL) == 0);
    for (unsigned i = 0; lsn.v < 6500; i++) {
        lsn = append(log, 1 + i % (LL_REC_KINDS - 1), i % 7 == 6 ? 1500 : i * 37 % 300);
        if (i % 3 == 2)
            MUST(ll_log_force(log, lsn, NULL) == 0);
    }
    MUST(ll_log_finish(log, end, NULL) == 0);
    ll_log_close(log);
}

/* ---- changing the files ------------------------------------------------------------------ */

static void name_of(unsigned segment, char name[32])
{
    static const char digits[] = "0123456789abcdef";
    uint64_t first = LL_LOG_FIRST_LSN + segment * (SEGMENT - LL_LOG_BLOCK_HEADER);
    strcpy(name, "log/0000000000000000.seg");
    for (unsigned i = 0; i < 16; i++)
        name[4 + i] = digits[first >> (60 - 4 * i) & 15];
}

static void load(struct lladd_device *dev, unsigned char files[SEGMENTS][SEGMENT], int writing)
{
    for (unsigned i = 0; i < SEGMENTS; i++) {
        char name[32];
        struct lladd_file *file;
        name_of(i, name);
        MUST(ll_io_open(dev, name, 0, &file) == 0);
        if (writing)
            MUST(ll_io_pwrite(dev, file, files[i], SEGMENT, 0) == 0);
        else
            MUST(ll_io_read_full(dev, file, files[i], SEGMENT, 0) == 0);
        MUST(ll_io_close(dev, file) == 0);
    }
}

static void change(unsigned char files[SEGMENTS][SEGMENT], const uint8_t *data, size_t size)
{
    for (; size >= 4; data += 4, size -= 4) {
        unsigned at = data[0] | (unsigned)data[1] << 8;
        unsigned char *byte = &files[at >> 12 & 1][at & 4095];
        switch (data[2] & 3) {
        case 0:
            *byte = data[3];
            break;
        case 1:
            *byte ^= data[3];
            break;
        case 2: /* a run of zeros */
            memset(byte, 0, data[3] < SEGMENT - (at & 4095) ? data[3] : 1);
            break;
        default: /* eight bytes of the first segment, so that a record has another record's head */
            if ((at & 4095) <= SEGMENT - 8)
                memmove(byte, &files[0][8 * data[3]], 8);
            break;
        }
    }
}

static void fix_headers(unsigned char files[SEGMENTS][SEGMENT])
{
    for (unsigned i = 0; i < SEGMENTS; i++)
        lladd_put32(files[i], ll_crc32c(0, files[i] + 4, LL_LOG_BLOCK_HEADER - 4));
}

/* Finds records by their lengths, from the first LSN on, and gives them new checksums. Stops at the
 * first length that is invalid. */
static void fix_records(unsigned char files[SEGMENTS][SEGMENT])
{
    enum { ROOM = SEGMENT - LL_LOG_BLOCK_HEADER };
    static unsigned char all[SEGMENTS * ROOM];
    for (unsigned i = 0; i < SEGMENTS; i++)
        memcpy(all + i * ROOM, files[i] + LL_LOG_BLOCK_HEADER, ROOM);
    uint32_t salt = ll_record_salt(uuid, 1);
    for (size_t at = 0; at + LL_RECORD_NARROW <= sizeof all;) {
        size_t size = lladd_get32(all + at + 4) & 0xffffff;
        if (size < LL_RECORD_NARROW || size > sizeof all - at || size % 8 != 0)
            break;
        lladd_put32(all + at, ll_crc32c(salt, all + at + 4, size - 4));
        at += size;
    }
    for (unsigned i = 0; i < SEGMENTS; i++)
        memcpy(files[i] + LL_LOG_BLOCK_HEADER, all + i * ROOM, ROOM);
}

/* ---- reading them ------------------------------------------------------------------------ */

/* Reads all bytes that a record points to, so that a sanitizer checks them. */
static unsigned touch(const struct ll_record *rec)
{
    unsigned sum = 0;
    for (size_t i = 0; i < rec->redo.len; i++)
        sum += ((const unsigned char *)rec->redo.data)[i];
    for (size_t i = 0; i < rec->undo.len; i++)
        sum += ((const unsigned char *)rec->undo.data)[i];
    return sum + (ll_record_kind_name(rec->kind)[0] == 'n');
}

static int visit(void *ctx, const struct ll_record *rec, struct lladd_error *err)
{
    uint64_t *last = ctx;
    (void)err;
    if (rec->lsn.v <= *last || touch(rec) == 0xffffffff)
        abort();
    *last = rec->lsn.v;
    return 0;
}

static void inspect(struct ll_log_config cfg, const struct ll_log_start *start)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ll_log_cursor *c;
    struct ll_record rec;
    struct ll_log *log;
    uint64_t last = 0;
    cfg.read_only = cfg.lenient = true;
    if (ll_log_open(&cfg, start, &log, &err))
        return;
    MUST(ll_log_cursor_open(log, &c) == 0);
    int rc = ll_log_cursor_seek(c, ll_log_oldest(log), &rec, &err);
    for (unsigned damaged = 0; damaged < 50;) {
        if (rc == 0) {
            MUST(visit(&last, &rec, NULL) == 0);
            rc = ll_log_cursor_next(c, &rec, &err);
        } else if (rc == LLADD_END) {
            break;
        } else {
            damaged++;
            rc = ll_log_cursor_seek(c, lladd_lsn_of((err.lsn.v > last ? err.lsn.v : last) + 8),
                                    &rec, &err);
        }
    }
    ll_log_cursor_close(c);
    ll_log_close(log);
}

static void recover(struct ll_log_config cfg, const struct ll_log_start *start)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct ll_log_start again = *start;
    struct ll_log *log;
    uint64_t last = 0;
    cfg.incarnation = 2;
    if (ll_log_open(&cfg, start, &log, &err))
        return;
    int rc = ll_log_scan(log, visit, &last, &err);
    if (!rc)
        rc = ll_log_start(log, &err);
    if (rc) {
        ll_log_close(log);
        return;
    }
    lladd_lsn lsn = append(log, LL_REC_NOTE, 100), end;
    if (lsn.v <= last)
        abort();
    MUST(ll_log_force(log, lsn, NULL) == 0);
    MUST(ll_log_finish(log, &end, NULL) == 0);
    ll_log_close(log);
    again.clean = false;
    again.watermark = end;
    last = 0;
    MUST(ll_log_open(&cfg, &again, &log, NULL) == 0);
    MUST(ll_log_scan(log, visit, &last, NULL) == 0);
    if (last < lsn.v)
        abort();
    ll_log_close(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static unsigned char files[SEGMENTS][SEGMENT];
    struct lladd_device *dev;
    struct ll_log_config cfg;
    struct ll_log_start start = {.from = {LL_LOG_FIRST_LSN}};
    struct ll_record rec;
    struct ll_env env;
    lladd_lsn end;
    if (size == 0)
        return 0;
    unsigned flags = *data++;
    size--;

    /* The input as one record, at the LSN that is in its head. */
    uint64_t lsn = size >= 16 ? lladd_get64(data + 8) : 0;
    if (ll_record_decode(data, size, lladd_lsn_of(lsn), ll_record_salt(uuid, 1), &rec, NULL) == 0 &&
        touch(&rec) == 0xffffffff)
        abort();

    ll_env_init(&env, NULL, NULL, false);
    MUST(lladd_device_memory(&dev) == 0);
    configure(&cfg, &env, dev);
    build(&cfg, &end);
    load(dev, files, 0);
    if (flags & WHOLE_FILE)
        memcpy(files[0], data, size < SEGMENT ? size : SEGMENT);
    else
        change(files, data, size);
    if (flags & FIX_RECORDS)
        fix_records(files);
    if (flags & FIX_HEADERS)
        fix_headers(files);
    load(dev, files, 1);
    if (flags & CLEAN) {
        start.clean = true;
        start.end = end;
    }
    if (flags & WATERMARK)
        start.watermark.v = lladd_get16(files[0] + 100);
    inspect(cfg, &start);
    recover(cfg, &start);
    lladd_device_close(dev);
    return 0;
}
