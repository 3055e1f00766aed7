/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile indexes of archived segments (docs/backup.md). The input is a byte of flags, then changes
 * of a good index, of four bytes each: u16 at, u8 what, u8 value. The index then gets its checksum,
 * so that the reader must check the fields. With WHOLE the bytes after the flags are the index.
 *
 * The library restores to the end of the log, or to a time, or refuses that. With CHECK the store
 * is checked, too. The library reads only what the store has.
 */
#include "backup_store.h"

#include <lladd/bulk.h>

enum { WHOLE = 1, TIME = 2, CHECK = 4 };
enum { PUT, ADD, HIGH, CUT, KINDS };
enum { CRC = 4 };

static void write_in_bulk(struct lladd_db *db)
{
    static unsigned char bytes[4096];
    struct lladd_txn *txn;
    lladd_pageno page;
    MUST(lladd_begin(db, NULL, &txn, NULL) == 0);
    MUST(lladd_extent_alloc(txn, 1, LLADD_EXTENT_BULK, &page) == 0);
    MUST(lladd_bulk_write(txn, page, 1, "lladd.bytes", bytes) == 0);
    MUST(lladd_bulk_sync(txn) == 0);
    MUST(lladd_commit(txn) == 0);
}

/* A backup, and archived log after it, with a mark and with pages that were written in bulk. */
static struct backup_store *archived(void)
{
    static struct backup_store store;
    struct lladd_archive_options a = LLADD_ARCHIVE_OPTIONS_INIT;
    struct lladd_backup_options b = LLADD_BACKUP_OPTIONS_INIT;
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_archive *archive;
    struct lladd_device *dev;
    struct lladd_db *db;
    bool more = true;
    if (store.n)
        return &store;
    store.face.ops = backup_ops();
    MUST(lladd_device_memory(&dev) == 0);
    o.device = dev;
    o.flags = LLADD_OPT_NO_THREADS;
    o.world = a.world = b.world = backup_world();
    o.log_segment_min = o.log_segment_max = 64 << 10;
    MUST(lladd_ship_register(&o, &store.face, &a, &archive, NULL) == 0);
    MUST(lladd_open(NULL, &o, &db, NULL) == 0);
    MUST(lladd_backup(db, &store.face, &b, NULL, NULL) == 0);
    write_in_bulk(db);
    MUST(lladd_archive_mark(archive, "fuzz", NULL, NULL) == 0);
    backup_fill(db);
    while (more)
        MUST(lladd_archive_step(archive, &more, NULL) == 0);
    lladd_db_kill(db);
    lladd_options_release(&o);
    lladd_archive_free(archive);
    lladd_device_close(dev);
    return &store;
}

static void change(unsigned char *index, size_t *len, const uint8_t *how)
{
    size_t at = *len ? lladd_get16(how) % *len : 0;
    unsigned what = how[2] % KINDS, value = how[3];
    if (*len == 0)
        return;
    if (what == PUT)
        index[at] = (unsigned char)value;
    else if (what == CUT)
        *len = at;
    else if (at + 8 <= *len)
        lladd_put64(index + at, what == ADD ? lladd_get64(index + at) + value - 128
                                            : UINT64_MAX >> value % 64);
}

static void use(struct backup_store *s, unsigned flags)
{
    struct lladd_restore_target to = LLADD_RESTORE_TARGET_INIT;
    struct lladd_restore_options o = LLADD_RESTORE_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_device *dev;
    to.kind = flags & TIME ? LLADD_TO_TIME : LLADD_TO_END;
    to.time_us = backup_wall(NULL);
    o.target = &to;
    int rc = lladd_store_device(&s->face, &o, &dev, &err);
    MUST(rc == err.code && (!rc || err.message[0]));
    if (!rc)
        lladd_store_device_close(dev);
    if (flags & CHECK) {
        err = (struct lladd_error)LLADD_ERROR_INIT;
        rc = lladd_archive_check(&s->face, NULL, NULL, &err);
        MUST(rc == err.code && (!rc || err.message[0]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct backup_store *s = archived();
    struct object *index = object_of(s, ".idx");
    if (size < 1)
        return 0;
    MUST(index);
    struct object good = *index;
    size_t len = data[0] & WHOLE ? size - 1 : good.len - CRC;
    MUST((index->bytes = malloc(len + CRC)) != NULL);
    memcpy(index->bytes, data[0] & WHOLE ? data + 1 : good.bytes, len);
    for (size_t at = 1; !(data[0] & WHOLE) && at + 4 <= size; at += 4)
        change(index->bytes, &len, data + at);
    lladd_put32(index->bytes + len, lladd_crc32c(0, index->bytes, len));
    index->len = len + CRC;
    use(s, data[0]);
    free(index->bytes);
    *index = good;
    return 0;
}
