/* SPDX-License-Identifier: BSD-2-Clause */
/* The control block: what recovery must know before it can read the log.
 *
 * The file has two copies, LL_CONTROL_COPY bytes apart, so that no sector holds parts of both. The
 * first copy is written and synced before the second is written, so a crash leaves at least one
 * valid copy. The reader takes the valid copy with the higher sequence number, and the next write
 * begins with the other copy, which may be damaged. The first write of a new file has no older copy
 * to preserve, so one sync is enough for both copies.
 *
 * The witness follows the copies. A page is written only when the log is durable beyond the page
 * LSN (BUF-1). So at the next open the log must reach beyond the page LSN. The witness records the
 * durable end of the log. If the last witness does not cover a page that will be written, a new
 * witness is written first, without a sync. If the process dies, the newest witness survives. After
 * a loss of power the file may have an older witness, which covers less, or a torn witness, which
 * covers nothing.
 *
 * The bytes of the file: docs/disk-format.md, "control". */
#include "io/io.h"
#include "recovery/core.h"
#include "util/crc32c.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <string.h>

#define CONTROL_MAGIC 0x42444c4cu /* "LLDB" */
#define WITNESS_MAGIC 0x57444c4cu /* "LLDW" */
#define WITNESS_AT (2u * LL_CONTROL_COPY)
#define FLAG_CLEAN 1u
#define FLAG_ATOMIC_PAGES 2u

void ll_control_encode(const struct ll_control *c, unsigned char out[LL_CONTROL_BYTES])
{
    memset(out, 0, LL_CONTROL_BYTES);
    lladd_put32(out + 4, CONTROL_MAGIC);
    lladd_put32(out + 8, c->format);
    lladd_put32(out + 12, c->page_size);
    lladd_put64(out + 16, c->compatible);
    lladd_put64(out + 24, c->read_only_compatible);
    lladd_put64(out + 32, c->incompatible);
    memcpy(out + 40, c->uuid, 16);
    lladd_put64(out + 56, c->seq);
    lladd_put64(out + 64, c->incarnation);
    lladd_put64(out + 72, c->checkpoint.v);
    lladd_put64(out + 80, c->redo.v);
    lladd_put64(out + 88, c->watermark.v);
    lladd_put64(out + 96, c->end.v);
    lladd_put32(out + 104,
                (c->clean ? FLAG_CLEAN : 0u) | (c->atomic_pages ? FLAG_ATOMIC_PAGES : 0u));
    lladd_put64(out + 112, (uint64_t)c->created_us);
    lladd_put64(out + 120, c->segment.v);
    lladd_put64(out + 128, c->segment_bytes);
    lladd_put32(out, ll_crc32c(0, out + 4, LL_CONTROL_BYTES - 4));
}

int ll_control_decode(const unsigned char in[LL_CONTROL_BYTES], struct ll_control *c,
                      struct lladd_error *err)
{
    if (lladd_get32(in + 4) != CONTROL_MAGIC)
        return ll_fail(err, LLADD_NOT_A_DATABASE, "\"control\" is not an LLADD control file");
    if (lladd_get32(in) != ll_crc32c(0, in + 4, LL_CONTROL_BYTES - 4))
        return ll_fail(err, LLADD_CORRUPT_CONTROL, "\"control\": checksum is wrong");
    memset(c, 0, sizeof *c);
    c->format = lladd_get32(in + 8);
    c->page_size = lladd_get32(in + 12);
    c->compatible = lladd_get64(in + 16);
    c->read_only_compatible = lladd_get64(in + 24);
    c->incompatible = lladd_get64(in + 32);
    memcpy(c->uuid, in + 40, 16);
    c->seq = lladd_get64(in + 56);
    c->incarnation = lladd_get64(in + 64);
    c->checkpoint = lladd_lsn_of(lladd_get64(in + 72));
    c->redo = lladd_lsn_of(lladd_get64(in + 80));
    c->watermark = lladd_lsn_of(lladd_get64(in + 88));
    c->end = lladd_lsn_of(lladd_get64(in + 96));
    uint32_t flags = lladd_get32(in + 104);
    c->clean = flags & FLAG_CLEAN;
    c->atomic_pages = flags & FLAG_ATOMIC_PAGES;
    c->created_us = (int64_t)lladd_get64(in + 112);
    c->segment = lladd_lsn_of(lladd_get64(in + 120));
    c->segment_bytes = lladd_get64(in + 128);
    if (c->format > LL_FORMAT_VERSION)
        return ll_fail(err, LLADD_NEWER_FORMAT, "format version %u; this library knows up to %u",
                       c->format, LL_FORMAT_VERSION);
    if (c->incompatible & ~LL_FEATURES_KNOWN)
        return ll_fail(err, LLADD_NEWER_FORMAT, "the database uses unknown features 0x%llx",
                       (unsigned long long)(c->incompatible & ~LL_FEATURES_KNOWN));
    if (c->format == 0 || c->page_size < LL_PAGE_SIZE_MIN || c->page_size > LL_PAGE_SIZE_MAX ||
        !ll_power_of_two(c->page_size))
        return ll_fail(err, LLADD_CORRUPT_CONTROL,
                       "\"control\": invalid page size %u: expected a power of 2, %u to %u",
                       c->page_size, LL_PAGE_SIZE_MIN, LL_PAGE_SIZE_MAX);
    return 0;
}

int ll_control_read(struct lladd_device *dev, struct lladd_file *file, struct ll_control *out,
                    struct lladd_error *err)
{
    struct ll_control copy[2];
    struct lladd_error why[2] = {LLADD_ERROR_INIT, LLADD_ERROR_INIT};
    int rc[2];
    for (int i = 0; i < 2; i++) {
        unsigned char bytes[LL_CONTROL_BYTES];
        int io = ll_io_read_full(dev, file, bytes, sizeof bytes, (uint64_t)i * LL_CONTROL_COPY);
        if (io == -ENODATA)
            rc[i] =
                ll_fail(&why[i], LLADD_CORRUPT_CONTROL, "\"control\": copy %d is cut off", i + 1);
        else
            rc[i] = io ? ll_fail_io(&why[i], io, false, "read", "control")
                       : ll_control_decode(bytes, &copy[i], &why[i]);
    }
    /* A newer format in either copy is reported, and so is an error that is no damage. Otherwise
     * one valid copy is enough. Two bad copies give LLADD_NOT_A_DATABASE only if both are complete
     * and lack the magic number. If one of them cannot be read, the error is LLADD_READ_FAILED. */
    for (int i = 0; i < 2; i++) {
        if (rc[i] && rc[i] != LLADD_CORRUPT_CONTROL && rc[i] != LLADD_NOT_A_DATABASE &&
            rc[i] != LLADD_READ_FAILED) {
            if (err)
                *err = why[i];
            return rc[i];
        }
    }
    if (rc[0] && rc[1]) {
        int i = rc[0] == LLADD_NOT_A_DATABASE || rc[1] == LLADD_READ_FAILED;
        if (err)
            *err = why[i];
        return rc[i];
    }
    int best = rc[0] || (!rc[1] && copy[1].seq > copy[0].seq);
    *out = copy[best];
    out->written_first = !best;
    return 0;
}

int ll_control_may_write(const struct ll_control *c, struct lladd_error *err)
{
    uint64_t unknown = c->read_only_compatible & ~LL_FEATURES_KNOWN_TO_WRITE;
    if (unknown)
        return ll_fail(err, LLADD_NEWER_FORMAT,
                       "the database uses unknown features 0x%llx: it can be inspected, not opened",
                       (unsigned long long)unknown);
    return 0;
}

int ll_control_write(const struct ll_env *env, struct lladd_device *dev, struct lladd_file *file,
                     struct ll_control *c, struct lladd_error *err)
{
    unsigned char bytes[LL_CONTROL_BYTES];
    bool first = c->seq++ == 0;
    ll_control_encode(c, bytes);
    /* What the block states as durable must be durable, also when the database is created. */
    int rc = ll_io_settle(dev);
    if (rc)
        return ll_fail_io(err, rc, true, "sync", "what belongs to \"control\"");
    for (unsigned i = 0; i < 2; i++) {
        uint64_t copy = i ^ c->written_first;
        rc = ll_point(env, "control.write");
        if (!rc)
            rc = ll_io_pwrite(dev, file, bytes, sizeof bytes, copy * LL_CONTROL_COPY);
        if (!rc && !(first && i == 0) && !LLADD_PLANTED(LLADD_BUG_CONTROL_SYNC))
            rc = ll_io_sync(dev, file);
        if (rc)
            return ll_fail_io(err, rc, true, "write", "control");
    }
    return 0;
}

/* ---- the witness -------------------------------------------------------------------------- */

static void encode_witness(const struct ll_witness *w, uint32_t salt,
                           unsigned char out[LL_WITNESS_BYTES])
{
    memset(out, 0, LL_WITNESS_BYTES);
    lladd_put32(out + 4, WITNESS_MAGIC);
    lladd_put64(out + 8, w->durable.v);
    lladd_put64(out + 16, w->page.v);
    lladd_put64(out + 24, w->page_lsn.v);
    lladd_put32(out, ll_crc32c(salt, out + 4, LL_WITNESS_BYTES - 4));
}

bool ll_witness_decode(const unsigned char in[LL_WITNESS_BYTES], uint32_t salt,
                       struct ll_witness *out)
{
    if (lladd_get32(in) != ll_crc32c(salt, in + 4, LL_WITNESS_BYTES - 4) ||
        lladd_get32(in + 4) != WITNESS_MAGIC)
        return false;
    out->durable = lladd_lsn_of(lladd_get64(in + 8));
    out->page = lladd_page_of(lladd_get64(in + 16));
    out->page_lsn = lladd_lsn_of(lladd_get64(in + 24));
    return true;
}

int ll_witness_read(struct lladd_device *dev, struct lladd_file *file, uint32_t salt,
                    struct ll_witness *out, struct lladd_error *err)
{
    unsigned char in[LL_WITNESS_BYTES];
    memset(out, 0, sizeof *out);
    int rc = ll_io_read_full(dev, file, in, sizeof in, WITNESS_AT);
    if (rc == -ENODATA)
        return 0;
    out->room = true;
    if (rc && ll_io_code(rc, false) != LLADD_READ_FAILED)
        return ll_fail_io(err, rc, false, "read", "control");
    if (!rc)
        (void)ll_witness_decode(in, salt, out);
    return 0; /* a witness that is damaged or cannot be read covers nothing */
}

/* Writes without a sync. 0 or a negative errno. */
static int witness_write(const struct ll_env *env, struct lladd_device *dev,
                         struct lladd_file *file, uint32_t salt, const struct ll_witness *w)
{
    unsigned char bytes[LL_WITNESS_BYTES];
    encode_witness(w, salt, bytes);
    int rc = ll_point(env, "control.witness");
    return rc ? rc : ll_io_pwrite(dev, file, bytes, sizeof bytes, WITNESS_AT);
}

int ll_witness_check(const struct ll_witness *w, lladd_lsn end, struct lladd_error *err)
{
    if (w->durable.v <= end.v)
        return 0;
    int rc = ll_fail_page(err, LLADD_LOG_LOST, w->page,
                          "the log has lost its end: page %llu of \"pages\" was written with page "
                          "LSN %llu when all was durable below LSN %llu, and the log ends at LSN "
                          "%llu",
                          (unsigned long long)w->page.v, (unsigned long long)w->page_lsn.v,
                          (unsigned long long)w->durable.v, (unsigned long long)end.v);
    if (err)
        err->lsn = end;
    return rc;
}

/* ---- the control block of a handle -------------------------------------------------------- */

int ll_core_put_control(struct ll_core *core, struct ll_control *c, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    LL_ASSERT(lladd_mutex_mine(&core->control_mutex));
    int rc = ll_control_write(&core->env, core->dev, core->control_file, c, &why);
    if (rc) /* every failure poisons, even a full disk */
        return ll_poison_set(core->poison, LLADD_WRITE_FAILED, &why, err);
    core->control = *c;
    return 0;
}

int ll_core_mark_slow(struct ll_core *core, struct lladd_error *err)
{
    lladd_mutex_lock(&core->control_mutex);
    int rc = 0;
    if (!lladd_atomic_load32(&core->marked)) {
        struct ll_control c = core->control;
        c.clean = false;
        c.atomic_pages = core->no_images;
        c.incompatible |= LL_FEATURE_WRITE_BACK;
        c.segment = lladd_lsn_of(c.segment_bytes = 0);
        rc = ll_core_put_control(core, &c, err);
        if (!rc)
            lladd_atomic_store32(&core->marked, 1);
    }
    lladd_mutex_unlock(&core->control_mutex);
    return rc;
}

void ll_core_identify(struct ll_core *core)
{
    core->page_size = core->control.page_size;
    core->salt = ll_crc32c(0, core->control.uuid, sizeof core->control.uuid);
    memcpy(core->uuid, core->control.uuid, sizeof core->uuid);
    core->timeline = (uint32_t)(core->control.incarnation >> 32);
}

int ll_core_witness(struct ll_core *core, lladd_pageno page, lladd_lsn lsn, struct lladd_error *err)
{
    if (LL_LIKELY(lsn.v < lladd_atomic_load64(&core->witnessed)))
        return 0;
    int rc = 0;
    lladd_mutex_lock(&core->witness_mutex);
    if (lsn.v >= lladd_atomic_load64(&core->witnessed)) {
        struct ll_witness w = {.durable = ll_log_durable(core->log), .page = page, .page_lsn = lsn};
        /* Recovery has cut the log and continued it in a new segment, at `began`. While no record
         * in this segment is durable, a crash may lose the segment. So the witness can only state
         * the end of the accepted log. */
        if (w.durable.v <= core->began)
            w.durable.v = core->accepted;
        rc = witness_write(&core->env, core->dev, core->control_file, core->salt, &w);
        if (!rc)
            lladd_atomic_store64(&core->witnessed, w.durable.v);
    }
    lladd_mutex_unlock(&core->witness_mutex);
    return rc ? ll_poison_set_io(core->poison, rc, "write to", "control", err) : 0;
}

int ll_core_hear_witness(struct ll_core *core, lladd_lsn end, struct lladd_error *err)
{
    struct ll_witness w;
    int rc = ll_witness_read(core->dev, core->control_file, core->salt, &w, err);
    if (!rc && !core->control.clean)
        rc = ll_witness_check(&w, end, err);
    if (rc)
        return rc;
    lladd_atomic_store64(&core->witnessed, w.durable.v);
    if (w.room)
        return 0;
    /* An older version of the library has made the file without room for a witness. If the disk is
     * full, this handle writes no witnesses. */
    struct ll_witness none = {.room = true};
    int io = witness_write(&core->env, core->dev, core->control_file, core->salt, &none);
    if (io && lladd_code_root(ll_io_code(io, true)) != LLADD_ROOT_RESOURCE)
        return ll_fail_io(err, io, true, "write to", "control");
    if (io)
        lladd_atomic_store64(&core->witnessed, UINT64_MAX);
    return 0;
}

lladd_lsn ll_core_redo(struct ll_core *core)
{
    lladd_mutex_lock(&core->control_mutex);
    lladd_lsn redo = core->control.redo;
    lladd_mutex_unlock(&core->control_mutex);
    return redo;
}

int ll_core_feature(struct ll_core *core, uint64_t feature, struct lladd_error *err)
{
    int rc = 0;
    lladd_mutex_lock(&core->control_mutex);
    if (!(core->control.incompatible & feature)) {
        struct ll_control c = core->control;
        c.incompatible |= feature;
        rc = ll_core_put_control(core, &c, err);
    }
    lladd_mutex_unlock(&core->control_mutex);
    return rc;
}
