/* SPDX-License-Identifier: BSD-2-Clause */
/* A database and timed reads for the benchmarks of dTables; see common_dtable.h. */
#include "common_dtable.h"

#include <lladd/device.h>

void bench_dtable_open(struct lladd_device **dev, struct lladd_db **db)
{
    struct lladd_options o = LLADD_OPTIONS_INIT;
    struct lladd_error err = LLADD_ERROR_INIT;
    bench_must(lladd_device_memory(dev), "device");
    o.device = *dev;
    o.cache_bytes = 64u << 20;
    o.log_limit_bytes = UINT64_MAX;
    o.durability = LLADD_DURABLE_LATER;
    bench_must(lladd_managed_register(&o, &err), "register");
    bench_must(lladd_open(NULL, &o, db, &err), "open");
    lladd_options_release(&o);
    lladd_dtable_cache_limit(*db, UINT64_C(1) << 30);
}

static double scan(const struct lladd_dtable *t, uint64_t rows, bool forward)
{
    struct lladd_dtable_cursor *c;
    struct lladd_dtable_key key;
    struct lladd_dtable_value value;
    uint64_t seen = 0, sum = 0, t0 = bench_now_ns();
    bench_must(lladd_dtable_cursor_open(t, 0, &c, NULL), "cursor");
    int rc = forward ? lladd_dtable_first(c, NULL) : lladd_dtable_last(c, NULL);
    for (; rc == 0; rc = forward ? lladd_dtable_next(c, NULL) : lladd_dtable_prev(c, NULL)) {
        bench_must(lladd_dtable_row(c, &key, &value, NULL), "row");
        sum += key.number + value.bytes.len;
        seen++;
    }
    double took = (double)(bench_now_ns() - t0) / 1000;
    lladd_dtable_cursor_close(c);
    bench_must(rc == LLADD_END && seen == rows && sum > seen ? 0 : -1, "seeing all");
    return (double)seen / took;
}

bool bench_dtable_seen(const struct lladd_dtable_value *v)
{
    if (v->state != LLADD_DTABLE_FOUND)
        return false;
    if (v->bytes.len)
        (void)*(const volatile unsigned char *)v->bytes.data;
    return true;
}

double bench_dtable_scan(const struct lladd_dtable *t, uint64_t rows)
{
    return scan(t, rows, true);
}

double bench_dtable_scan_back(const struct lladd_dtable *t, uint64_t rows)
{
    return scan(t, rows, false);
}

void bench_dtable_read(struct bench_reads *r, const struct lladd_dtable *t, uint64_t rows,
                       double lookup, bool counts)
{
    double f = bench_dtable_scan(t, rows), b = bench_dtable_scan_back(t, rows);
    if (!counts)
        return;
    bench_add(&r->lookup, lookup);
    bench_add(&r->forward, f);
    bench_add(&r->backward, b);
}
