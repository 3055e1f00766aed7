/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * scan: reads the log at open, and distinguishes a torn tail from damage (LOG-3).
 *
 * The scan reads record by record, and skips the gaps that cuts declare, until it finds an LSN
 * without a good record: call it B. Either the log ends at B, because a crash may leave any part of
 * the last, unfinished group; or records that had been durable are lost. Three things prove a loss:
 * - the control file states a watermark, or the end of a clean stop, above B;
 * - a later segment declares a cut above B: an earlier recovery accepted the log up to that cut and
 *   made it durable;
 * - a seal after B states a watermark above B.
 *
 * For the third proof, the rest of the log is searched at every multiple of eight bytes, even where
 * block headers are damaged. The search accepts a seal if the seal holds the LSN of its place and
 * its salted checksum is right. A sector that cannot be read counts as zeros, because most of what
 * is searched was never written. The search skips the payload of good records, because a payload
 * that looks like a seal proves nothing.
 *
 * Without proof the log ends at B: damage in the last group cannot be told from a group torn by a
 * crash. After a clean stop no group can be torn, so damage in what the scan reads is detected.
 */
#include "log/log_private.h"

#include <string.h>

/* ---- search after damage ---- */

static const unsigned char zeros[1024];

/* bytes[0] has LSN `lsn`. Returns the offset of the first word in bytes[0..len) that could be the
 * LSN field of a record, or len. */
static size_t find_own_lsn(const unsigned char *bytes, size_t len, uint64_t lsn)
{
    size_t i = 0;
    for (; i + 64 <= len; i += 64) {
        uint64_t hit = 0;
        /* Skips zeros, which are the common case: no record has LSN 0. */
        if (i % sizeof zeros == 0)
            while (i + sizeof zeros + 64 <= len && memcmp(bytes + i, zeros, sizeof zeros) == 0)
                i += sizeof zeros;
        for (size_t k = 0; k < 64; k += 8)
            hit |= lladd_get64(bytes + i + k) == lsn + i + k - 8;
        if (hit)
            break;
    }
    for (; i + 8 <= len; i += 8) {
        if (lladd_get64(bytes + i) == lsn + i - 8)
            return i;
    }
    return len;
}

/* Moves *word forward to the next LSN at which the LSN field of a record may be; LLADD_END after
 * the last segment. */
static int next_candidate(struct ll_log__reader *r, uint64_t *word, struct lladd_error *err)
{
    for (;;) {
        const unsigned char *bytes;
        struct ll_log__seg *seg = NULL;
        size_t len;
        uint64_t where;
        int rc = ll_log__reader_bytes(r, *word, SIZE_MAX, &bytes, &len, &seg, err);
        if (rc == LLADD_OUT_OF_RANGE && r->exists > *word) {
            *word = r->exists;
            continue;
        }
        if (rc == 0) {
            size_t at = find_own_lsn(bytes, len, *word);
            *word += at;
            if (at < len)
                return 0;
            continue;
        }
        if (rc != LLADD_END && rc != LLADD_CORRUPT_LOG && rc != LLADD_MISSING_FILE &&
            !ll_log__goes_over(r->log, *word, rc))
            return rc;
        /* The file is short, or its header is damaged or unread: continue with the next segment. */
        int found = ll_log__seg_after(r->log, *word, &where);
        if (found)
            return ll_fail_lsn(err, found, lladd_lsn_of(*word), "no record follows");
        *word = where;
    }
}

int ll_log__find_record(struct ll_log__reader *r, uint64_t lsn, struct ll_record *rec,
                        struct lladd_error *err)
{
    uint64_t word = lsn + 8;
    LL_ASSERT(r->lenient);
    for (;;) {
        int rc = next_candidate(r, &word, err);
        if (rc)
            return rc;
        rc = ll_log__reader_record(r, word - 8, rec, err);
        if (rc == 0)
            return 0;
        if (rc != LLADD_END && rc != LLADD_CORRUPT_LOG && rc != LLADD_OUT_OF_RANGE)
            return rc;
        word += 8;
    }
}

static bool watermark_of(const struct ll_record *rec, uint64_t *watermark)
{
    if (rec->kind != LL_REC_SEAL || rec->redo.len != 8)
        return false;
    *watermark = lladd_get64(rec->redo.data);
    return *watermark <= rec->lsn.v;
}

/* Searches for a seal after lsn that states a watermark above lsn. *proof: the LSN of the seal, or
 * 0. */
static int find_proof(struct ll_log *log, uint64_t lsn, uint64_t *proof, uint64_t *watermark,
                      struct lladd_error *err)
{
    struct ll_log__reader r;
    struct ll_record rec;
    struct lladd_error ignored = LLADD_ERROR_INIT;
    ll_log__reader_init(&r, log);
    r.lenient = true;
    r.failed = &ignored;
    uint64_t from = lsn + LL_RECORD_ALIGN;
    int rc;
    *proof = 0;
    for (;;) {
        rc = ll_log__find_record(&r, from, &rec, err);
        if (rc)
            break;
        if (watermark_of(&rec, watermark) && *watermark > lsn) {
            *proof = rec.lsn.v;
            break;
        }
        from = rec.lsn.v + rec.size;
    }
    ll_log__reader_free(&r);
    return rc == LLADD_END ? 0 : rc;
}

/* ---- the end of the log ---- */

static int fail_damaged(struct ll_log *log, uint64_t lsn, const struct lladd_error *what,
                        const char *because, uint64_t said, struct lladd_error *err)
{
    char name[LL_LOG_NAME_SIZE];
    bool file = ll_log__file_of(log, lsn, name);
    return ll_fail_lsn(err, LLADD_CORRUPT_LOG, lladd_lsn_of(lsn),
                       "the log is damaged at LSN %llu (%s): %s; %s %llu", (unsigned long long)lsn,
                       file ? name : "no file holds it", what->message, because,
                       (unsigned long long)said);
}

int ll_log__judge(struct ll_log *log, uint64_t lsn, const struct lladd_error *what,
                  struct lladd_error *err)
{
    uint64_t stated = log->start.watermark.v;
    if (LLADD_PLANTED(LLADD_BUG_WATERMARK))
        return 0;
    /* A header that could not be read may say that the log ends at lsn. This happens in inspection
     * only: an open needs all headers above start.from. */
    lladd_mutex_lock(&log->segs->mutex);
    int rc = ll_log__fail_unread(log->segs, lsn, err);
    lladd_mutex_unlock(&log->segs->mutex);
    if (rc)
        return rc;
    if (log->start.clean && log->start.end.v > stated)
        stated = log->start.end.v;
    if (stated > lsn)
        return fail_damaged(log, lsn, what, "the control file says that all was durable below LSN",
                            stated, err);
    uint64_t cut = ll_log__cut_above(log, lsn);
    if (cut)
        return fail_damaged(log, lsn, what, "a later segment says that the log went on to LSN", cut,
                            err);
    uint64_t proof, watermark = 0;
    rc = find_proof(log, lsn, &proof, &watermark, err);
    if (!rc && proof)
        rc = fail_damaged(log, lsn, what, "a seal says that all was durable below LSN", watermark,
                          err);
    return rc;
}

/* ---- the scan ---- */

struct scan {
    struct ll_log *log;
    ll_log_visit *visit;
    void *ctx;
    uint64_t lsn;
    uint64_t sealed;
    bool stopped; /* by the visitor, or by an error other than damage */
};

/* Scans up to the first place without a good record and returns the error of that read; 0 at the
 * end of a log that was stopped cleanly. */
static int scan_records(struct scan *s, struct ll_log__reader *r, struct lladd_error *err)
{
    const struct ll_log_start *start = &s->log->start;
    struct ll_record rec;
    uint64_t watermark;
    while (!start->clean || s->lsn < start->end.v) {
        int rc = ll_log__reader_record(r, s->lsn, &rec, err);
        if (rc == LLADD_OUT_OF_RANGE && r->jump > s->lsn) {
            s->lsn = r->jump;
            continue;
        }
        if (rc) {
            s->stopped = rc != LLADD_END && rc != LLADD_CORRUPT_LOG && rc != LLADD_OUT_OF_RANGE;
            return rc;
        }
        if (LL_UNLIKELY(rec.kind == LL_REC_SEAL) && watermark_of(&rec, &watermark) &&
            watermark > s->sealed)
            s->sealed = watermark;
        s->lsn += rec.size;
        rc = s->visit(s->ctx, &rec, err);
        if (rc) {
            s->stopped = true;
            return rc;
        }
    }
    return 0;
}

int ll_log_scan(struct ll_log *log, ll_log_visit *visit, void *ctx, struct lladd_error *err)
{
    struct ll_log__reader r;
    struct lladd_error what = LLADD_ERROR_INIT;
    struct scan s = {log, visit, ctx, log->start.from.v, 0, false};
    if (log->life == LL_LOG__READY)
        return ll_fail(err, LLADD_BAD_STATE, "the log is in use");
    int rc = 0;
    if (s.lsn == 0) {
        lladd_mutex_lock(&log->segs->mutex);
        rc = ll_log__ensure_listed(log, err);
        s.lsn = log->segs->chain;
        lladd_mutex_unlock(&log->segs->mutex);
    }
    if (rc)
        return rc;
    ll_log__reader_init(&r, log);
    rc = scan_records(&s, &r, &what);
    ll_log__reader_free(&r);
    if (rc && !s.stopped)
        rc = ll_log__judge(log, s.lsn, &what, err);
    else if (rc && err)
        *err = what;
    else if (log->start.clean && s.lsn != log->start.end.v)
        rc = ll_fail_lsn(err, LLADD_CORRUPT_LOG, log->start.end,
                         "the clean end that the control file states, LSN %llu, is inside a record",
                         (unsigned long long)log->start.end.v);
    if (rc)
        return rc;
    log->scan_end = s.lsn;
    log->sealed = s.sealed;
    log->life = LL_LOG__SCANNED;
    return 0;
}
