/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects of a store: their names, putting and getting them, and the formats of the small binary
 * objects (docs/backup.md). */
#include "ship/ship_private.h"

#include <lladd/bytes.h>
#include <lladd/dst.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define ARCHIVE "archive"
#define ARCHIVE_MAGIC "LLARCH1"
enum { ARCHIVE_BYTES = 32, COMPARE = 65536, TEXT_MOST = 4096 };

bool ll_ship_name_ok(const char *name)
{
    size_t len = name ? strlen(name) : 0;
    if (len == 0 || len >= LL_SHIP_NAME_MAX || name[len - 1] == '/')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool begins = i == 0 || name[i - 1] == '/';
        char c = name[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-' || c == '.';
        if (begins ? !plain || c == '.' : !plain && c != '/')
            return false;
    }
    return true;
}

int ll_ship_corrupt(struct lladd_error *err, const char *name, const char *what)
{
    return lladd_error_set(err, LLADD_CORRUPT_BACKUP, "\"%.150s\" in the store: %s", name, what);
}

/* ---- put and get ---------------------------------------------------------------------------- */

/* Are the contents of the object of this name the same as the pieces? An encrypting filter may make
 * other bytes of them each time. */
static int compare(struct lladd_store *store, struct ll_ship_mem mem, const char *name,
                   const struct lladd_iovec *pieces, int n, bool *same, struct lladd_error *err)
{
    uint64_t size = 0, have = 0, at = 0;
    int rc = ll_ship_size(store, name, &have, err);
    for (int i = 0; i < n; i++)
        size += pieces[i].len;
    *same = !rc && have == size;
    unsigned char *bytes = *same ? ll_ship_new(mem, COMPARE) : NULL;
    if (*same && !bytes)
        return ll_ship_no_memory(err);
    for (int i = 0; i < n && *same && !rc; i++) {
        const unsigned char *mine = pieces[i].data;
        for (size_t done = 0; done < pieces[i].len && *same && !rc;) {
            size_t len = pieces[i].len - done < COMPARE ? pieces[i].len - done : COMPARE;
            rc = ll_ship_get(store, name, at, bytes, len, err);
            *same = !rc && memcmp(bytes, mine + done, len) == 0;
            done += len;
            at += len;
        }
    }
    ll_ship_delete(mem, bytes);
    return rc;
}

int ll_ship_put(struct lladd_store *store, struct ll_ship_mem mem, const char *name,
                const struct lladd_iovec *pieces, int n, struct lladd_error *err)
{
    struct lladd_error local = LLADD_ERROR_INIT;
    bool same = false;
    if (!err)
        err = &local;
    int rc = store->ops->put(store, name, pieces, n, err);
    if (rc == LLADD_EXISTS && LLADD_PLANTED(LLADD_BUG_NAME_TAKEN))
        rc = 0;
    if (rc != LLADD_EXISTS)
        return rc;
    rc = compare(store, mem, name, pieces, n, &same, err);
    if (!rc && !same && !ll_ship_has_sizes(store))
        rc = ll_ship_unfiltered(store, name, err);
    if (rc || same)
        return rc;
    return lladd_error_set(err, LLADD_EXISTS,
                           "\"%.150s\" is in the store already, with other contents", name);
}

struct sought {
    const char *name;
    uint64_t size;
    bool found;
};

static int see_size(void *ctx, const char *name, uint64_t size)
{
    struct sought *s = ctx;
    if (strcmp(name, s->name) == 0) {
        s->size = size;
        s->found = true;
    }
    return 0;
}

int ll_ship_stored_size(struct lladd_store *store, const char *name, uint64_t *out,
                        struct lladd_error *err)
{
    struct sought s = {name, 0, false};
    int rc = store->ops->list(store, name, see_size, &s, err);
    if (!rc && !s.found)
        rc = lladd_error_set(err, LLADD_NOT_FOUND, "\"%.150s\" is not in the store", name);
    *out = s.size;
    return rc;
}

bool ll_ship_has_sizes(const struct lladd_store *store)
{
    size_t known = offsetof(struct lladd_store_ops, size) + sizeof store->ops->size;
    return store->ops->struct_size >= known && store->ops->size;
}

int ll_ship_size(struct lladd_store *store, const char *name, uint64_t *out,
                 struct lladd_error *err)
{
    return ll_ship_has_sizes(store) ? store->ops->size(store, name, out, err)
                                    : ll_ship_stored_size(store, name, out, err);
}

int ll_ship_get_all(struct lladd_store *store, const char *name, uint64_t most,
                    struct ll_ship_buf *out, struct lladd_error *err)
{
    uint64_t size;
    int rc = ll_ship_size(store, name, &size, err);
    if (rc)
        return rc;
    if (size > most) {
        rc = ll_ship_has_sizes(store) ? 0 : ll_ship_unfiltered(store, name, err);
        return rc ? rc : ll_ship_corrupt(err, name, "it is larger than it can be");
    }
    void *room = ll_ship_room(out, size + 1);
    if (!room)
        return ll_ship_no_memory(err);
    rc = ll_ship_get(store, name, 0, room, size, err);
    if (!rc)
        out->len += size;
    return rc;
}

/* ---- small texts ---------------------------------------------------------------------------- */

int ll_ship_text_end(struct ll_ship_buf *text, struct lladd_error *err)
{
    return ll_ship_print(text, err, "crc %08x\n", lladd_crc32c(0, text->data, text->len));
}

int ll_ship_text_get(struct lladd_store *store, const char *name, unsigned lines,
                     struct ll_ship_buf *out, struct lladd_error *err)
{
    enum { TAIL = 13 }; /* "crc 01234567\n" */
    char want[TAIL + 1];
    unsigned n = 0;
    int rc = ll_ship_get_all(store, name, TEXT_MOST, out, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < out->len; i++)
        n += out->data[i] == '\n';
    bool ok = out->len > TAIL && out->data[out->len - 1] == '\n';
    const unsigned char *tail = out->data + (ok ? out->len - TAIL : 0);
    bool old = ok && n == lines && memcmp(tail, "crc ", 4) != 0;
    ok = ok && (old || n == lines + 1);
    if (ok && !old) {
        out->len -= TAIL;
        (void)snprintf(want, sizeof want, "crc %08x\n", lladd_crc32c(0, out->data, out->len));
        ok = memcmp(out->data + out->len, want, TAIL) == 0;
    }
    out->data[out->len] = 0; /* ll_ship_get_all leaves room */
    return ok ? 0 : ll_ship_corrupt(err, name, "it is damaged");
}

/* ---- "archive" ------------------------------------------------------------------------------ */

static int check_archive(const unsigned char *bytes, const unsigned char uuid[16],
                         uint32_t page_size, struct lladd_error *err)
{
    if (memcmp(bytes, ARCHIVE_MAGIC, 8) != 0 ||
        lladd_get32(bytes + 28) != lladd_crc32c(0, bytes, 28))
        return ll_ship_corrupt(err, ARCHIVE, "it is damaged");
    if (memcmp(bytes + 8, uuid, 16) != 0)
        return lladd_error_set(err, LLADD_OTHER_DATABASE,
                               "the store has backups of another database");
    if (lladd_get32(bytes + 24) != page_size)
        return ll_ship_corrupt(err, ARCHIVE, "it has another page size");
    return 0;
}

int ll_ship_claim_store(struct lladd_store *store, struct ll_ship_mem mem,
                        const unsigned char uuid[16], uint32_t page_size, struct lladd_error *err)
{
    unsigned char bytes[ARCHIVE_BYTES], there[ARCHIVE_BYTES];
    struct lladd_iovec piece = {bytes, sizeof bytes};
    memcpy(bytes, ARCHIVE_MAGIC, 8);
    memcpy(bytes + 8, uuid, 16);
    lladd_put32(bytes + 24, page_size);
    lladd_put32(bytes + 28, lladd_crc32c(0, bytes, 28));
    int rc = ll_ship_put(store, mem, ARCHIVE, &piece, 1, err);
    if (rc != LLADD_EXISTS)
        return rc;
    rc = ll_ship_get(store, ARCHIVE, 0, there, sizeof there, err);
    if (!rc)
        rc = check_archive(there, uuid, page_size, err);
    /* The fields are the same, but the bytes differ: the object is longer. */
    return rc ? rc : ll_ship_corrupt(err, ARCHIVE, "it is damaged");
}

int ll_ship_store_uuid(struct lladd_store *store, unsigned char uuid[16], struct lladd_error *err)
{
    unsigned char there[ARCHIVE_BYTES];
    int rc = ll_ship_get(store, ARCHIVE, 0, there, sizeof there, err);
    if (!rc)
        rc = check_archive(there, there + 8, lladd_get32(there + 24), err);
    if (!rc)
        memcpy(uuid, there + 8, 16);
    return rc;
}

/* ---- names of a base ------------------------------------------------------------------------ */

void ll_ship_base_name(const char *base, const char *what, char out[LL_SHIP_NAME_MAX])
{
    (void)snprintf(out, LL_SHIP_NAME_MAX, "base/%.63s/%s", base, what);
}

void ll_ship_pages_name(const char *base, size_t part, char out[LL_SHIP_NAME_MAX])
{
    char what[40];
    (void)snprintf(what, sizeof what, "pages.%zu", part);
    ll_ship_base_name(base, what, out);
}

void ll_ship_log_name(const char *base, const struct ll_ship_log_part *part,
                      char out[LL_SHIP_NAME_MAX])
{
    char what[64];
    (void)snprintf(what, sizeof what, "log.%016llx.%llu", (unsigned long long)part->first,
                   (unsigned long long)(part->offset / LL_SHIP_OBJECT_MAX));
    ll_ship_base_name(base, what, out);
}

/* ---- frames --------------------------------------------------------------------------------- */

void ll_ship_frame_encode(const struct ll_ship_frame *f, unsigned char out[LL_SHIP_FRAME_ENTRY])
{
    memset(out, 0, LL_SHIP_FRAME_ENTRY);
    lladd_put64(out, f->first);
    lladd_put32(out + 8, f->n);
    lladd_put32(out + 12, f->part);
    lladd_put32(out + 16, f->offset);
    lladd_put32(out + 20, f->bytes);
    lladd_put32(out + 24, f->crc);
}

void ll_ship_frame_decode(const unsigned char in[LL_SHIP_FRAME_ENTRY], struct ll_ship_frame *f)
{
    f->first = lladd_get64(in);
    f->n = lladd_get32(in + 8);
    f->part = lladd_get32(in + 12);
    f->offset = lladd_get32(in + 16);
    f->bytes = lladd_get32(in + 20);
    f->crc = lladd_get32(in + 24);
}

/* ---- files of a database -------------------------------------------------------------------- */

enum {
    CONTROL_PAGE_SIZE = 12,
    CONTROL_INCOMPATIBLE = 32,
    CONTROL_UUID = 40,
    CONTROL_SEQUENCE = 56,
    CONTROL_INCARNATION = 64,
    CONTROL_CHECKPOINT = 72,
    CONTROL_REDO = 80,
    CONTROL_WATERMARK = 88,
    CONTROL_END = 96,
    CONTROL_FLAGS = 104,
    CONTROL_SEGMENT = 120,
    CONTROL_CLEAN = 1,
    FEATURE_HEURISTIC = 1,
    FEATURE_WRITE_BACK = 2,
    PAGE_NUMBER = 24
};

bool ll_ship_control_ok(const unsigned char c[LL_SHIP_CONTROL])
{
    return memcmp(c + 4, "LLDB", 4) == 0 &&
           lladd_get32(c) == lladd_crc32c(0, c + 4, LL_SHIP_CONTROL - 4);
}

int ll_ship_control_read(struct lladd_device *dev, unsigned char out[LL_SHIP_CONTROL],
                         struct lladd_error *err)
{
    unsigned char copy[2][LL_SHIP_CONTROL];
    struct lladd_file *file;
    bool good[2] = {false, false};
    int rc = dev->ops->open(dev, "control", LLADD_OPEN_READ_ONLY, &file);
    if (rc)
        return ll_ship_fail_io(err, rc, "open", "control");
    for (unsigned i = 0; i < 2 && !rc; i++) {
        int64_t got = dev->ops->pread(dev, file, copy[i], LL_SHIP_CONTROL,
                                      (uint64_t)i * LL_SHIP_CONTROL_COPY);
        rc = got < 0 ? (int)got : 0;
        /* A copy that is being written at this moment fails the check. */
        good[i] = got == LL_SHIP_CONTROL && ll_ship_control_ok(copy[i]);
    }
    int late = dev->ops->close(dev, file);
    if (rc || late)
        return ll_ship_fail_io(err, rc ? rc : late, "read", "control");
    if (!good[0] && !good[1])
        return lladd_error_set(err, LLADD_CORRUPT_CONTROL, "both copies of \"control\" are bad");
    bool second = !good[0] || (good[1] && lladd_get64(copy[1] + CONTROL_SEQUENCE) >
                                              lladd_get64(copy[0] + CONTROL_SEQUENCE));
    memcpy(out, copy[second], LL_SHIP_CONTROL);
    return 0;
}

uint64_t ll_ship_control_redo(const unsigned char c[LL_SHIP_CONTROL])
{
    return lladd_get64(c + CONTROL_REDO);
}

uint64_t ll_ship_control_checkpoint(const unsigned char c[LL_SHIP_CONTROL])
{
    return lladd_get64(c + CONTROL_CHECKPOINT);
}

uint64_t ll_ship_control_watermark(const unsigned char c[LL_SHIP_CONTROL])
{
    return lladd_get64(c + CONTROL_WATERMARK);
}

bool ll_ship_control_clean(const unsigned char c[LL_SHIP_CONTROL])
{
    return (lladd_get32(c + CONTROL_FLAGS) & CONTROL_CLEAN) != 0;
}

void ll_ship_control_uuid(const unsigned char c[LL_SHIP_CONTROL], unsigned char out[16])
{
    memcpy(out, c + CONTROL_UUID, 16);
}

uint32_t ll_ship_control_page_size(const unsigned char c[LL_SHIP_CONTROL])
{
    return lladd_get32(c + CONTROL_PAGE_SIZE);
}

uint32_t ll_ship_control_timeline(const unsigned char c[LL_SHIP_CONTROL])
{
    return lladd_get32(c + CONTROL_INCARNATION + 4);
}

void ll_ship_control_copy(unsigned char c[LL_SHIP_CONTROL], uint32_t timeline, bool heuristic)
{
    uint64_t features = lladd_get64(c + CONTROL_INCOMPATIBLE) | FEATURE_WRITE_BACK;
    lladd_put64(c + CONTROL_INCOMPATIBLE, features | (heuristic ? FEATURE_HEURISTIC : 0));
    lladd_put32(c + CONTROL_INCARNATION + 4, timeline);
    lladd_put64(c + CONTROL_END, 0);
    lladd_put32(c + CONTROL_FLAGS, lladd_get32(c + CONTROL_FLAGS) & ~(uint32_t)CONTROL_CLEAN);
    lladd_put64(c + CONTROL_SEGMENT, 0);
    lladd_put64(c + CONTROL_SEGMENT + 8, 0);
    lladd_put32(c, lladd_crc32c(0, c + 4, LL_SHIP_CONTROL - 4));
}

void ll_ship_control_fork(unsigned char c[LL_SHIP_CONTROL], uint32_t timeline)
{
    lladd_put64(c + CONTROL_SEQUENCE, lladd_get64(c + CONTROL_SEQUENCE) + 1);
    ll_ship_control_copy(c, timeline, false);
}

void ll_ship_control_at(unsigned char c[LL_SHIP_CONTROL], uint64_t checkpoint, uint64_t redo,
                        uint64_t watermark, uint64_t incarnation)
{
    lladd_put64(c + CONTROL_CHECKPOINT, checkpoint);
    lladd_put64(c + CONTROL_REDO, redo);
    lladd_put64(c + CONTROL_WATERMARK, watermark);
    lladd_put32(c + CONTROL_INCARNATION, (uint32_t)incarnation);
}

static bool is_zero(const unsigned char *page, uint32_t size)
{
    return page[0] == 0 && memcmp(page, page + 1, size - 1) == 0;
}

bool ll_ship_page_ok(const unsigned char uuid[16], uint64_t number, const unsigned char *page,
                     uint32_t size)
{
    unsigned char seed[12];
    lladd_put32(seed, lladd_crc32c(0, uuid, 16));
    lladd_put64(seed + 4, number);
    uint32_t crc = lladd_crc32c(lladd_crc32c(0, seed, sizeof seed), page + 4, size - 4);
    return (lladd_get32(page) == crc && lladd_get64(page + PAGE_NUMBER) == number) ||
           is_zero(page, size);
}
