/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints a row: a line for humans, and a line of JSON. */
#include "driver.h"

#include <linux/magic.h>
#include <math.h>
#include <string.h>
#include <sys/vfs.h>
#include <time.h>

static const char *level_name(enum bench_level level)
{
    static const char *const names[] = {"disk", "os", "process"};
    return names[level];
}

static const char *filesystem(const char *dir)
{
    struct statfs s;
    if (statfs(dir, &s) != 0)
        return "unknown";
    switch ((unsigned long)s.f_type) {
    case EXT4_SUPER_MAGIC:
        return "ext4";
    case TMPFS_MAGIC:
        return "tmpfs";
    case XFS_SUPER_MAGIC:
        return "xfs";
    case BTRFS_SUPER_MAGIC:
        return "btrfs";
    case OVERLAYFS_SUPER_MAGIC:
        return "overlay";
    default:
        return "other";
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_text(FILE *f, const char *name, const char *text)
{
    fprintf(f, ",\"%s\":\"", name);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(f, "\\%c", c);
        else if (c < ' ')
            fprintf(f, "\\u%04x", c);
        else
            fputc(c, f);
    }
    fputc('"', f);
}

static void put_whole(FILE *f, const char *name, uint64_t value)
{
    fprintf(f, ",\"%s\":%llu", name, (unsigned long long)value);
}

static void put_number(FILE *f, const char *name, double value)
{
    if (isfinite(value))
        fprintf(f, ",\"%s\":%.6g", name, value);
    else
        fprintf(f, ",\"%s\":null", name);
}

static void put_cell(FILE *f, const struct plan *p, const struct cell *c, const struct row *r)
{
    char text[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    fprintf(f, "{\"workload\":\"%s\"", c->c->workload);
    put_text(f, "case", *r->name ? r->name : c->c->name);
    put_text(f, "engine", c->engine->name);
    put_text(f, "version", c->engine->version());
    put_text(f, "settings", c->engine->settings);
    put_text(f, "level", level_name(c->c->level));
    put_whole(f, "n", c->n ? c->n : r->ops);
    put_whole(f, "ops", r->ops);
    put_whole(f, "records", c->records);
    put_whole(f, "threads", c->threads);
    put_whole(f, "key_size", c->key_size);
    put_whole(f, "value_size", c->value_size);
    put_whole(f, "cache_mib", c->cache >> 20);
    put_text(f, "filesystem", filesystem(p->dir));
    put_whole(f, "run", (uint64_t)c->run);
    put_text(f, "time", text);
}

static void put_slices(FILE *f, const struct row *r)
{
    put_number(f, "slice_s", r->n_slices ? r->slice_s : NAN);
    fputs(",\"slices\":[", f);
    for (uint32_t i = 0; i < r->n_slices; i++)
        fprintf(f, "%s%u", i ? "," : "", r->slices[i]);
    fputs("]", f);
    put_number(f, "checkpoint_from_s", r->mark_from_s);
    put_number(f, "checkpoint_to_s", r->mark_to_s);
}

static void put_json(const struct plan *p, const struct cell *c, const struct row *r)
{
    FILE *f = p->json;
    const double ops = (double)r->ops;
    put_cell(f, p, c, r);
    put_number(f, "elapsed_s", r->elapsed_s);
    put_number(f, "ops_per_s", ops / r->elapsed_s);
    put_number(f, "p50_us", r->p50_us);
    put_number(f, "p99_us", r->p99_us);
    put_number(f, "p999_us", r->p999_us);
    put_number(f, "cpu_us_per_op", r->cpu_us / ops);
    put_number(f, "log_bytes_per_op", r->log_bytes / ops);
    put_number(f, "written_bytes_per_op", r->written_bytes / ops);
    put_number(f, "device_bytes_per_op", r->device_bytes / ops);
    put_number(f, "syncs_per_op", r->syncs / ops);
    put_number(f, "pages_read_per_op", r->pages_read / ops);
    put_number(f, "pages_written_per_op", r->pages_written / ops);
    put_whole(f, "retries", r->retries);
    put_number(f, "close_s", r->close_s);
    put_number(f, "peak_memory_mib", r->peak_mib);
    put_slices(f, r);
    if (*r->failure)
        put_text(f, "failure", r->failure);
    else
        fputs(",\"failure\":null", f);
    fputs("}\n", f);
    fflush(f);
}

/* ---- table ----------------------------------------------------------------------------------- */

static const char *shown(double value, char text[16])
{
    if (!isfinite(value))
        snprintf(text, 16, "-");
    else if (value >= 1e6)
        snprintf(text, 16, "%.2f M", value / 1e6);
    else if (value >= 1e4)
        snprintf(text, 16, "%.1f k", value / 1e3);
    else if (value >= 100)
        snprintf(text, 16, "%.0f", value);
    else
        snprintf(text, 16, "%.3g", value);
    return text;
}

void rows_head(const struct plan *p)
{
    if (p->quiet)
        return;
    printf("%-2s %-21s %-20s %7s %7s %9s %8s %8s %8s %8s %8s %8s %7s %7s\n", "", "case", "engine",
           "n", "threads", "ops/s", "p50 us", "p99 us", "p999 us", "cpu us", "log B", "dev B",
           "syncs", "MiB");
    fflush(stdout);
}

static void put_line(const struct cell *c, const struct row *r)
{
    char t[10][16];
    const double ops = (double)r->ops;
    printf("%-2s %-21s %-20s %7s %7u ", c->c->workload, *r->name ? r->name : c->c->name,
           c->engine->name, shown((double)(c->n ? c->n : r->ops), t[0]), c->threads);
    if (*r->failure)
        printf("failed: %s\n", r->failure);
    else
        printf("%9s %8s %8s %8s %8s %8s %8s %7s %7s\n", shown(ops / r->elapsed_s, t[1]),
               shown(r->p50_us, t[2]), shown(r->p99_us, t[3]), shown(r->p999_us, t[4]),
               shown(r->cpu_us / ops, t[5]), shown(r->log_bytes / ops, t[6]),
               shown(r->device_bytes / ops, t[7]), shown(r->syncs / ops, t[8]),
               shown(r->peak_mib, t[9]));
    fflush(stdout);
}

void rows_put(const struct plan *p, const struct cell *c, const struct row *r)
{
    if (!p->quiet)
        put_line(c, r);
    if (p->json)
        put_json(p, c, r);
}

void rows_skipped(const struct plan *p, const char *workload, const char *engine, const char *why)
{
    fprintf(stderr, "skipped: %s %s: %s\n", workload, engine, why);
    if (!p->json)
        return;
    fprintf(p->json, "{\"workload\":\"%s\"", workload);
    put_text(p->json, "engine", engine);
    put_text(p->json, "skipped", why);
    fputs("}\n", p->json);
    fflush(p->json);
}
