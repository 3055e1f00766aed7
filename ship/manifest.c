/* SPDX-License-Identifier: BSD-2-Clause */
/* The manifest of a backup: text, so that a person can read it (docs/backup.md). It is put last, so
 * a backup with a manifest is complete. */
#include "ship/ship_private.h"

#include <errno.h>
#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANIFEST_MOST = 256 << 20 };
#define INDEX_MOST (UINT64_C(1) << 40)
#define HEAD "LLADD backup "
enum { WITHOUT_PAGE_ENTRIES = 1, VERSION = 2 };

void ll_ship_manifest_init(struct ll_ship_manifest *m, struct ll_ship_mem mem)
{
    memset(m, 0, sizeof *m);
    m->info.struct_size = sizeof m->info;
    m->pages.mem = m->log.mem = mem;
}

void ll_ship_manifest_free(struct ll_ship_manifest *m)
{
    ll_ship_buf_free(&m->pages);
    ll_ship_buf_free(&m->log);
}

/* ---- written -------------------------------------------------------------------------------- */

int ll_ship_manifest_write(const struct ll_ship_manifest *m, struct ll_ship_buf *out,
                           struct lladd_error *err)
{
    const struct lladd_backup_info *i = &m->info;
    char uuid[33];
    for (unsigned k = 0; k < 16; k++)
        (void)snprintf(uuid + 2 * k, 3, "%02x", i->uuid[k]);
#define NUMBER(key, v) \
    if (!rc) \
    rc = ll_ship_print(out, err, key " %llu\n", (unsigned long long)(v))
    int rc = ll_ship_print(out, err, HEAD "%d\nname %s\nuuid %s\n",
                           m->page_entries ? VERSION : WITHOUT_PAGE_ENTRIES, i->name, uuid);
    NUMBER("page_size", i->page_size);
    NUMBER("timeline", i->timeline);
    NUMBER("from", i->from.v);
    NUMBER("redo", m->redo.v);
    NUMBER("end", i->end.v);
    NUMBER("pages", i->pages);
    NUMBER("stored", i->stored_bytes);
    NUMBER("damaged", i->damaged_pages);
    NUMBER("begun_us", i->begun_us);
    NUMBER("ended_us", i->ended_us);
    NUMBER("heuristic", m->heuristic);
#undef NUMBER
    if (!rc)
        rc = ll_ship_print(out, err, "control %08x\nindex %llu %08x\n", m->control_crc,
                           (unsigned long long)m->index_bytes, m->index_crc);
    if (!rc && m->page_entries)
        rc = ll_ship_print(out, err, "entries %llu %08x\n", (unsigned long long)m->page_entries,
                           m->page_entries_crc);
    for (size_t k = 0; !rc && k < ll_ship_pages_parts(m); k++) {
        const struct ll_ship_pages_part *p = ll_ship_pages_part(m, k);
        rc = ll_ship_print(out, err, "part %llu %08x\n", (unsigned long long)p->bytes, p->crc);
    }
    for (size_t k = 0; !rc && k < ll_ship_log_parts(m); k++) {
        const struct ll_ship_log_part *p = ll_ship_log_part(m, k);
        rc = ll_ship_print(out, err, "log %llu %llu %llu %llu %08x\n", (unsigned long long)p->first,
                           (unsigned long long)p->segment_size, (unsigned long long)p->offset,
                           (unsigned long long)p->bytes, p->crc);
    }
    if (!rc && i->label[0])
        rc = ll_ship_print(out, err, "label %s\n", i->label);
    return rc ? rc : ll_ship_print(out, err, "crc %08x\n", lladd_crc32c(0, out->data, out->len));
}

/* ---- read ----------------------------------------------------------------------------------- */

struct text {
    const char *at, *end; /* `end` is a NUL */
};

/* Takes the key if the text goes on with it. */
static bool take(struct text *t, const char *key)
{
    size_t len = strlen(key);
    if ((size_t)(t->end - t->at) < len || memcmp(t->at, key, len) != 0)
        return false;
    t->at += len;
    return true;
}

/* Takes a number of at most 64 bits. */
static bool digits(struct text *t, int base, uint64_t *out)
{
    char *end;
    char c = *t->at;
    if (!((c >= '0' && c <= '9') || (base == 16 && c >= 'a' && c <= 'f')))
        return false;
    errno = 0;
    unsigned long long v = strtoull(t->at, &end, base);
    if (errno)
        return false;
    t->at = end;
    *out = v;
    return true;
}

static bool number(struct text *t, const char *key, uint64_t *out)
{
    return take(t, key) && take(t, " ") && digits(t, 10, out) && take(t, "\n");
}

static bool crc_of(struct text *t, uint32_t *out)
{
    uint64_t v;
    if (!digits(t, 16, &v) || v > UINT32_MAX || !take(t, "\n"))
        return false;
    *out = (uint32_t)v;
    return true;
}

static bool line(struct text *t, char *out, size_t size)
{
    const char *end = memchr(t->at, '\n', (size_t)(t->end - t->at));
    if (!end || (size_t)(end - t->at) >= size)
        return false;
    memcpy(out, t->at, (size_t)(end - t->at));
    out[end - t->at] = 0;
    t->at = end + 1;
    return true;
}

static bool uuid_of(struct text *t, unsigned char out[16])
{
    char hex[33];
    if (!take(t, "uuid ") || !line(t, hex, sizeof hex) || strlen(hex) != 32)
        return false;
    for (unsigned k = 0; k < 16; k++) {
        char two[3] = {hex[2 * k], hex[2 * k + 1], 0};
        struct text one = {two, two + 2};
        uint64_t v;
        if (!digits(&one, 16, &v) || one.at != one.end)
            return false;
        out[k] = (unsigned char)v;
    }
    return true;
}

static bool power_of_two(uint64_t v, uint64_t least, uint64_t most)
{
    return v >= least && v <= most && (v & (v - 1)) == 0;
}

/* A part must continue the segment of the part before it, or begin a later segment. */
static bool fits(const struct ll_ship_manifest *m, const struct ll_ship_log_part *p)
{
    size_t n = ll_ship_log_parts(m);
    const struct ll_ship_log_part *last = n ? ll_ship_log_part(m, n - 1) : NULL;
    if (!power_of_two(p->segment_size, 4096, 1ull << 31) || p->bytes == 0 ||
        p->bytes > LL_SHIP_OBJECT_MAX || p->offset > p->segment_size ||
        p->bytes > p->segment_size - p->offset)
        return false;
    if (p->offset)
        return last && last->first == p->first && last->segment_size == p->segment_size &&
               last->offset + last->bytes == p->offset;
    return !last || last->first < p->first;
}

static int read_parts(struct ll_ship_manifest *m, struct text *t, bool *ok, struct lladd_error *err)
{
    int rc = 0;
    while (!rc && *ok && take(t, "part ")) {
        struct ll_ship_pages_part p = {0};
        *ok = digits(t, 10, &p.bytes) && take(t, " ") && crc_of(t, &p.crc) && p.bytes &&
              p.bytes <= LL_SHIP_OBJECT_MAX;
        rc = ll_ship_append(&m->pages, &p, sizeof p, err);
    }
    while (!rc && *ok && take(t, "log ")) {
        struct ll_ship_log_part p = {0};
        *ok = digits(t, 10, &p.first) && take(t, " ") && digits(t, 10, &p.segment_size) &&
              take(t, " ") && digits(t, 10, &p.offset) && take(t, " ") && digits(t, 10, &p.bytes) &&
              take(t, " ") && crc_of(t, &p.crc) && fits(m, &p);
        rc = ll_ship_append(&m->log, &p, sizeof p, err);
    }
    return rc;
}

/* What the two parts of "pages.idx" have. */
static bool read_index(struct ll_ship_manifest *m, struct text *t, uint64_t version)
{
    bool ok = take(t, "index ") && digits(t, 10, &m->index_bytes) && take(t, " ") &&
              crc_of(t, &m->index_crc);
    if (ok && version > WITHOUT_PAGE_ENTRIES)
        ok = take(t, "entries ") && digits(t, 10, &m->page_entries) && take(t, " ") &&
             crc_of(t, &m->page_entries_crc);
    return ok && m->index_bytes % LL_SHIP_FRAME_ENTRY == 0 &&
           m->page_entries % LL_SHIP_PAGE_ENTRY == 0 && m->index_bytes <= INDEX_MOST &&
           m->page_entries <= INDEX_MOST;
}

static bool read_head(struct ll_ship_manifest *m, struct text *t, uint64_t version)
{
    struct lladd_backup_info *i = &m->info;
    uint64_t page_size, timeline, begun, ended, heuristic;
    bool ok = take(t, "name ") && line(t, i->name, sizeof i->name) &&
              uuid_of(t, i->uuid) && number(t, "page_size", &page_size) &&
              number(t, "timeline", &timeline) && number(t, "from", &i->from.v) &&
              number(t, "redo", &m->redo.v) && number(t, "end", &i->end.v) &&
              number(t, "pages", &i->pages) && number(t, "stored", &i->stored_bytes) &&
              number(t, "damaged", &i->damaged_pages) && number(t, "begun_us", &begun) &&
              number(t, "ended_us", &ended) && number(t, "heuristic", &heuristic) &&
              take(t, "control ") && crc_of(t, &m->control_crc) && read_index(m, t, version);
    if (!ok || !power_of_two(page_size, 4096, 65536) || timeline > UINT32_MAX || heuristic > 1 ||
        i->pages >= (1ull << 47) || i->from.v > m->redo.v || m->redo.v > i->end.v)
        return false;
    i->page_size = (uint32_t)page_size;
    i->timeline = (uint32_t)timeline;
    i->begun_us = (int64_t)begun;
    i->ended_us = (int64_t)ended;
    m->heuristic = heuristic != 0;
    return true;
}

int ll_ship_manifest_read(struct ll_ship_manifest *m, const char *name, const void *bytes,
                          size_t len, struct lladd_error *err)
{
    enum { TAIL = 13 }; /* "crc 01234567\n" */
    const char *text = bytes;
    char want[LL_SHIP_NAME_MAX];
    uint32_t crc;
    uint64_t version = 0;
    struct text t = {text, text + len};
    struct text tail = {text + (len > TAIL ? len - TAIL : 0), text + len};
    if (!take(&t, HEAD))
        return ll_ship_corrupt(err, name, "it is no manifest");
    if (len <= TAIL || !take(&tail, "crc ") || !crc_of(&tail, &crc) ||
        crc != lladd_crc32c(0, text, len - TAIL))
        return ll_ship_corrupt(err, name, "it is damaged");
    bool ok = digits(&t, 10, &version) && take(&t, "\n");
    if (ok && version > VERSION)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "\"%.150s\" in the store is from a newer version", name);
    ok = ok && version && read_head(m, &t, version);
    int rc = ok ? read_parts(m, &t, &ok, err) : 0;
    if (rc)
        return rc;
    if (ok && take(&t, "label "))
        ok = line(&t, m->info.label, sizeof m->info.label);
    ll_ship_base_name(m->info.name, "manifest", want);
    if (!ok || t.at != text + len - TAIL || strcmp(want, name) != 0 || !ll_ship_log_parts(m))
        return ll_ship_corrupt(err, name, "its lines do not fit together");
    return 0;
}

/* ---- found ---------------------------------------------------------------------------------- */

struct listing {
    struct ll_ship_buf names; /* char[LL_SHIP_NAME_MAX] each */
    struct lladd_error *err;
};

static int see_object(void *ctx, const char *name, uint64_t size)
{
    struct listing *l = ctx;
    char padded[LL_SHIP_NAME_MAX] = "";
    const char *slash = strrchr(name, '/');
    (void)size;
    if (!slash || strcmp(slash, "/manifest") != 0 || strlen(name) >= sizeof padded)
        return 0;
    memcpy(padded, name, strlen(name));
    return ll_ship_append(&l->names, padded, sizeof padded, l->err);
}

static int read_one(struct lladd_store *store, const char *name, struct ll_ship_manifest *m,
                    struct lladd_error *err)
{
    struct ll_ship_buf text = {.mem = m->pages.mem};
    int rc = ll_ship_get_all(store, name, MANIFEST_MOST, &text, err);
    if (!rc) {
        text.data[text.len] = 0; /* ll_ship_get_all leaves room */
        rc = ll_ship_manifest_read(m, name, text.data, text.len, err);
    }
    ll_ship_buf_free(&text);
    return rc;
}

static int by_time(const void *a, const void *b)
{
    const struct lladd_backup_info *x = a, *y = b;
    if (x->ended_us != y->ended_us)
        return x->ended_us < y->ended_us ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Notes a backup that cannot be used, with what is known of it. */
static int note_broken(struct lladd_store *store, struct ll_ship_mem mem, const char *manifest,
                       const struct lladd_error *why, struct ll_ship_buf *broken,
                       struct lladd_error *err)
{
    enum { BEGIN = 5, END = 9 }; /* "base/" and "/manifest" */
    struct ll_ship_broken b = {.why = *why, .timeline = UINT32_MAX, .begun_us = INT64_MAX};
    struct lladd_error unused = LLADD_ERROR_INIT;
    unsigned timeline;
    unsigned long long redo;
    uint64_t from;
    size_t len = strlen(manifest) - BEGIN - END;
    if (len < sizeof b.name)
        memcpy(b.name, manifest + BEGIN, len);
    if (sscanf(b.name, "%8x-%16llx-", &timeline, &redo) == 2) {
        b.timeline = timeline;
        b.redo = redo;
    }
    int rc = ll_ship_begun_read(store, mem, b.name, &from, &b.begun_us, &unused);
    if (ll_ship_unusable(rc)) {
        b.begun_us = INT64_MAX;
        rc = 0;
    }
    if (rc && err)
        *err = unused;
    return rc ? rc : ll_ship_append(broken, &b, sizeof b, err);
}

int ll_ship_bases(struct lladd_store *store, struct ll_ship_mem mem, struct ll_ship_buf *infos,
                  struct ll_ship_buf *broken, struct lladd_error *err)
{
    struct listing l = {{.mem = mem}, err};
    int rc = store->ops->list(store, "base/", see_object, &l, err);
    for (size_t at = 0; !rc && at < l.names.len; at += LL_SHIP_NAME_MAX) {
        const char *name = (const char *)l.names.data + at;
        struct lladd_error why = LLADD_ERROR_INIT;
        struct ll_ship_manifest m;
        ll_ship_manifest_init(&m, mem);
        rc = read_one(store, name, &m, &why);
        if (rc == LLADD_CORRUPT_BACKUP || rc == LLADD_NEWER_FORMAT)
            rc = note_broken(store, mem, name, &why, broken, err);
        else if (rc && err)
            *err = why;
        else if (!rc)
            rc = ll_ship_append(infos, &m.info, sizeof m.info, err);
        ll_ship_manifest_free(&m);
    }
    ll_ship_buf_free(&l.names);
    if (!rc && infos->len)
        qsort(infos->data, infos->len / sizeof(struct lladd_backup_info),
              sizeof(struct lladd_backup_info), by_time);
    return rc;
}

int ll_ship_broken_fail(const struct ll_ship_broken *b, struct lladd_error *err)
{
    if (err)
        *err = b->why;
    return b->why.code;
}

const struct ll_ship_broken *ll_ship_broken_newest(const struct ll_ship_buf *infos,
                                                   const struct ll_ship_buf *broken)
{
    const struct ll_ship_broken *b = (const void *)broken->data, *best = NULL;
    const struct lladd_backup_info *last = (const void *)infos->data;
    int64_t since = INT64_MIN;
    if (infos->len)
        since = last[infos->len / sizeof *last - 1].begun_us;
    for (size_t i = 0; i < broken->len / sizeof *b; i++)
        if (b[i].begun_us > since && (!best || b[i].begun_us > best->begun_us))
            best = &b[i];
    return best;
}

int lladd_backup_each(struct lladd_store *store, const struct lladd_allocator *allocator,
                      lladd_backup_fn *fn, void *ctx, struct lladd_error *err)
{
    struct ll_ship_buf infos = {.mem = {allocator}}, broken = {.mem = {allocator}};
    int rc = ll_ship_bases(store, infos.mem, &infos, &broken, err);
    for (size_t at = 0; !rc && at < infos.len; at += sizeof(struct lladd_backup_info))
        rc = fn(ctx, (const struct lladd_backup_info *)(const void *)(infos.data + at));
    if (!rc && broken.len)
        rc = ll_ship_broken_fail((const void *)broken.data, err);
    ll_ship_buf_free(&infos);
    ll_ship_buf_free(&broken);
    return rc;
}

/* Sets `newest` to the name of the backup that ended last. */
static int find_newest(struct lladd_store *store, struct ll_ship_mem mem, char newest[64],
                       struct lladd_error *err)
{
    struct ll_ship_buf infos = {.mem = mem}, broken = {.mem = mem};
    int rc = ll_ship_bases(store, mem, &infos, &broken, err);
    const struct ll_ship_broken *later = rc ? NULL : ll_ship_broken_newest(&infos, &broken);
    if (later) {
        rc = ll_ship_broken_fail(later, err);
    } else if (!rc && infos.len) {
        const struct lladd_backup_info *last =
            (const void *)(infos.data + infos.len - sizeof *last);
        memcpy(newest, last->name, sizeof last->name);
    } else if (!rc) {
        rc = lladd_error_set(err, LLADD_NOT_FOUND, "the store has no complete backup");
    }
    ll_ship_buf_free(&infos);
    ll_ship_buf_free(&broken);
    return rc;
}

int ll_ship_manifest_find(struct lladd_store *store, const char *base, struct ll_ship_manifest *m,
                          struct lladd_error *err)
{
    char name[LL_SHIP_NAME_MAX], newest[64] = "";
    int rc = base ? 0 : find_newest(store, m->pages.mem, newest, err);
    if (!base)
        base = newest;
    if (rc)
        return rc;
    if (strlen(base) > 63)
        return lladd_error_set(err, LLADD_NOT_FOUND, "no backup is called \"%.100s\"", base);
    ll_ship_base_name(base, "manifest", name);
    if (!ll_ship_name_ok(name))
        return lladd_error_set(err, LLADD_NOT_FOUND, "no backup is called \"%s\"", base);
    rc = read_one(store, name, m, err);
    return rc == LLADD_NOT_FOUND
               ? lladd_error_set(err, rc, "no complete backup is called \"%s\"", base)
               : rc;
}

int ll_ship_begun_read(struct lladd_store *store, struct ll_ship_mem mem, const char *base,
                       uint64_t *from, int64_t *begun_us, struct lladd_error *err)
{
    struct ll_ship_buf bytes = {.mem = mem};
    char name[LL_SHIP_NAME_MAX];
    uint64_t when = 0;
    ll_ship_base_name(base, "begun", name);
    int rc = ll_ship_text_get(store, name, 2, &bytes, err);
    if (!rc) {
        struct text t = {(const char *)bytes.data, (const char *)bytes.data + bytes.len};
        if (!number(&t, "from", from) || !number(&t, "begun_us", &when) || t.at != t.end)
            rc = ll_ship_corrupt(err, name, "it is damaged");
    }
    ll_ship_buf_free(&bytes);
    *begun_us = (int64_t)when;
    return rc;
}
