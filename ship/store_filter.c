/* SPDX-License-Identifier: BSD-2-Clause */
/* A store with a filter: the contents of all objects pass through functions of the program, which
 * encrypt or compress them, on their way to the store inside and back.
 *
 * The contents are cut into blocks, and the filter gets one block at a time. So a part of an object
 * is read without the rest of it, and memory is bounded. The format of the objects is in
 * docs/backup.md. Two checksums tell damage from a wrong key: one of the bytes that the filter has
 * made, in the table of the object; and one of the contents, which passes through the filter with
 * them, so that the store does not learn it. */
#include "ship/ship_private.h"

#include <lladd/bytes.h>
#include <stddef.h>
#include <string.h>

#define MAGIC "LLFILT1"
enum {
    HEADER = 64,
    AT_NAME = 8,
    AT_SIZE = 40,
    AT_BLOCK = 48,
    AT_TABLE_CRC = 52,
    AT_CRC = 60,
    NAME_MOST = 31,
    ENTRY = 8, /* of the table: u32 bytes, u32 CRC */
    SUM = 4    /* the CRC that follows the contents of a block */
};
#define BLOCK LLADD_FILTER_BLOCK
#define SIZE_MOST (UINT64_C(1) << 40)

/* A block as it is stored. */
struct block {
    uint64_t at; /* offset in the object */
    uint32_t bytes, crc;
};

struct filtered {
    struct lladd_store base;
    struct ll_ship_mem mem;
    struct lladd_store *inside;
    struct lladd_store_filter filter;
    char name[NAME_MOST + 1]; /* of the filter */
    unsigned char *plain;     /* contents of a block, and their CRC */
    unsigned char *packed;    /* what the filter has made of a block */
    /* the object that was read last */
    char object[LL_SHIP_NAME_MAX]; /* "": none */
    uint64_t size;                 /* of its contents */
    struct ll_ship_buf blocks;     /* struct block */
    uint64_t loaded;               /* the number of the block in `plain`; UINT64_MAX: none */
};

static struct filtered *of(struct lladd_store *s)
{
    return (struct filtered *)s;
}

static uint64_t blocks_of(uint64_t size)
{
    return size ? (size + BLOCK - 1) / BLOCK : 1;
}

/* Bytes of the contents in a block. */
static size_t block_len(uint64_t size, uint64_t i)
{
    uint64_t left = size - i * BLOCK;
    return left < BLOCK ? (size_t)left : BLOCK;
}

/* ---- which filter --------------------------------------------------------------------------- */

static bool name_ok(const char *name)
{
    size_t len = name ? strlen(name) : 0;
    for (size_t i = 0; i < len; i++)
        if (name[i] < '!' || name[i] > '~')
            return false;
    return len > 0 && len <= NAME_MOST;
}

static bool header_ok(const unsigned char h[HEADER])
{
    return lladd_get32(h + AT_CRC) == lladd_crc32c(0, h + AT_NAME, AT_CRC - AT_NAME) &&
           h[AT_NAME + NAME_MOST] == 0 && name_ok((const char *)h + AT_NAME);
}

int ll_ship_unfiltered(struct lladd_store *store, const char *name, struct lladd_error *err)
{
    unsigned char h[HEADER];
    size_t len = strlen(name);
    /* These objects may begin with any bytes. */
    if (strstr(name, "/pages.") || (len > 5 && strcmp(name + len - 5, ".part") == 0))
        return 0;
    int rc = store->ops->get(store, name, 0, h, sizeof h, err);
    if (rc == LLADD_CORRUPT_BACKUP) /* it is shorter */
        return 0;
    if (rc || memcmp(h, MAGIC, sizeof MAGIC) != 0 || !header_ok(h))
        return rc;
    return lladd_error_set(err, LLADD_OTHER_FILTER,
                           "\"%.150s\" in the store was stored with the filter \"%s\", and the "
                           "store was opened without a filter",
                           name, (const char *)h + AT_NAME);
}

int ll_ship_get(struct lladd_store *store, const char *name, uint64_t offset, void *out, size_t len,
                struct lladd_error *err)
{
    int rc = store->ops->get(store, name, offset, out, len, err);
    if (rc || offset || len < sizeof MAGIC || memcmp(out, MAGIC, sizeof MAGIC) != 0)
        return rc;
    return ll_ship_unfiltered(store, name, err);
}

/* ---- reading -------------------------------------------------------------------------------- */

static int read_header(struct filtered *f, const char *name, unsigned char h[HEADER],
                       struct lladd_error *err)
{
    int rc = f->inside->ops->get(f->inside, name, 0, h, HEADER, err);
    bool shorter = rc == LLADD_CORRUPT_BACKUP;
    if (shorter)
        rc = f->inside->ops->get(f->inside, name, 0, h, sizeof MAGIC, err);
    if (rc)
        return rc;
    bool magic = memcmp(h, MAGIC, sizeof MAGIC) == 0, ok = !shorter && header_ok(h);
    if (!magic && !ok)
        return lladd_error_set(err, LLADD_OTHER_FILTER,
                               "\"%.150s\" in the store was stored without a filter, and the store "
                               "was opened with the filter \"%s\"",
                               name, f->name);
    if (!magic || !ok)
        return ll_ship_corrupt(err, name, "its header is damaged");
    if (strcmp((const char *)h + AT_NAME, f->name) != 0)
        return lladd_error_set(err, LLADD_OTHER_FILTER,
                               "\"%.150s\" in the store was stored with the filter \"%s\", and the "
                               "store was opened with the filter \"%s\"",
                               name, (const char *)h + AT_NAME, f->name);
    if (lladd_get32(h + AT_BLOCK) != BLOCK || lladd_get64(h + AT_SIZE) > SIZE_MOST)
        return lladd_error_set(err, LLADD_NEWER_FORMAT,
                               "\"%.150s\" in the store is from a newer version of the library",
                               name);
    return 0;
}

static int read_table(struct filtered *f, const char *name, const unsigned char h[HEADER],
                      struct lladd_error *err)
{
    uint64_t size = lladd_get64(h + AT_SIZE), n = blocks_of(size), at = HEADER + n * ENTRY;
    struct ll_ship_buf table = {.mem = f->mem};
    unsigned char *bytes = ll_ship_room(&table, n * ENTRY);
    int rc = bytes ? f->inside->ops->get(f->inside, name, HEADER, bytes, n * ENTRY, err)
                   : ll_ship_no_memory(err);
    if (!rc && lladd_crc32c(0, bytes, n * ENTRY) != lladd_get32(h + AT_TABLE_CRC))
        rc = ll_ship_corrupt(err, name, "its table of blocks is damaged");
    for (uint64_t i = 0; i < n && !rc; i++) {
        struct block b = {at, lladd_get32(bytes + i * ENTRY), lladd_get32(bytes + i * ENTRY + 4)};
        if (b.bytes > LLADD_FILTER_ROOM(block_len(size, i) + SUM))
            rc = ll_ship_corrupt(err, name, "its table of blocks is inconsistent");
        else
            rc = ll_ship_append(&f->blocks, &b, sizeof b, err);
        at += b.bytes;
    }
    ll_ship_buf_free(&table);
    f->size = size;
    return rc;
}

/* Reads the header and the table of an object, unless it was read last. */
static int open_object(struct filtered *f, const char *name, struct lladd_error *err)
{
    unsigned char h[HEADER];
    if (strcmp(f->object, name) == 0 && *name)
        return 0;
    f->object[0] = 0;
    f->loaded = UINT64_MAX;
    f->blocks.len = 0;
    int rc = read_header(f, name, h, err);
    if (!rc)
        rc = read_table(f, name, h, err);
    if (!rc && strlen(name) < sizeof f->object)
        memcpy(f->object, name, strlen(name) + 1);
    return rc;
}

/* The error of the program's function. */
static int refused(const struct filtered *f, const char *object, int rc, int instead,
                   const struct lladd_error *why, struct lladd_error *err)
{
    bool resource = lladd_code_root(rc) == LLADD_ROOT_RESOURCE;
    return lladd_error_set(err, resource ? rc : instead,
                           "\"%.150s\" in the store: the filter \"%s\" has refused it%s%.150s",
                           object, f->name, why->message[0] ? ": " : "", why->message);
}

static int take_in(struct filtered *f, const char *name, uint64_t i, struct lladd_error *err)
{
    const struct block *b = (const struct block *)(const void *)f->blocks.data + i;
    struct lladd_filter_block block = {name, i * BLOCK, f->size};
    struct lladd_error why = LLADD_ERROR_INIT;
    size_t len = block_len(f->size, i) + SUM, made = 0;
    int rc = f->filter.in(f->filter.ctx, &block, f->packed, b->bytes, f->plain, len, &made, &why);
    if (rc)
        return refused(f, name, rc, LLADD_OTHER_FILTER, &why, err);
    if (made != len ||
        lladd_crc32c(0, f->plain, len - SUM) != lladd_get32(f->plain + len - SUM))
        return lladd_error_set(err, LLADD_OTHER_FILTER,
                               "\"%.150s\" in the store: the filter \"%s\" does not give back what "
                               "was stored; was it stored with another key?",
                               name, f->name);
    return 0;
}

static int load(struct filtered *f, const char *name, uint64_t i, struct lladd_error *err)
{
    const struct block *b = (const struct block *)(const void *)f->blocks.data + i;
    if (f->loaded == i)
        return 0;
    f->loaded = UINT64_MAX;
    int rc = f->inside->ops->get(f->inside, name, b->at, f->packed, b->bytes, err);
    if (!rc && lladd_crc32c(0, f->packed, b->bytes) != b->crc)
        rc = ll_ship_corrupt(err, name, "it is damaged");
    if (!rc)
        rc = take_in(f, name, i, err);
    if (!rc)
        f->loaded = i;
    return rc;
}

static int filtered_get(struct lladd_store *s, const char *name, uint64_t offset, void *bytes,
                        size_t len, struct lladd_error *err)
{
    struct filtered *f = of(s);
    unsigned char *to = bytes;
    int rc = open_object(f, name, err);
    if (!rc && (offset > f->size || len > f->size - offset))
        rc = ll_ship_corrupt(err, name, "it is too short");
    while (len && !rc) {
        uint64_t i = offset / BLOCK;
        size_t in = (size_t)(offset % BLOCK), n = block_len(f->size, i) - in;
        n = n < len ? n : len;
        rc = load(f, name, i, err);
        if (!rc)
            memcpy(to, f->plain + in, n);
        to += n;
        offset += n;
        len -= n;
    }
    return rc;
}

static int filtered_size(struct lladd_store *s, const char *name, uint64_t *out,
                         struct lladd_error *err)
{
    int rc = open_object(of(s), name, err);
    *out = rc ? 0 : of(s)->size;
    return rc;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The pieces of an object that is put. */
struct source {
    const struct lladd_iovec *piece;
    size_t used; /* of the piece */
};

static void gather(struct source *from, unsigned char *to, size_t len)
{
    while (len) {
        size_t n = from->piece->len - from->used;
        n = n < len ? n : len;
        if (n)
            memcpy(to, (const unsigned char *)from->piece->data + from->used, n);
        from->used += n;
        to += n;
        len -= n;
        if (from->used == from->piece->len) {
            from->piece++;
            from->used = 0;
        }
    }
}

/* Appends a block; *entry is its entry in the table. */
static int put_block(struct filtered *f, struct source *from, const struct lladd_filter_block *b,
                     unsigned char *entry, struct ll_ship_buf *out, struct lladd_error *err)
{
    struct lladd_error why = LLADD_ERROR_INIT;
    size_t len = block_len(b->size, b->offset / BLOCK), made = 0;
    size_t room = LLADD_FILTER_ROOM(len + SUM);
    unsigned char *to = out->data + out->len;
    gather(from, f->plain, len);
    lladd_put32(f->plain + len, lladd_crc32c(0, f->plain, len));
    int rc = f->filter.out(f->filter.ctx, b, f->plain, len + SUM, to, room, &made, &why);
    if (!rc && made > room)
        rc = lladd_error_set(&why, LLADD_BUG, "it has made too many bytes");
    if (rc)
        return refused(f, b->object, rc, LLADD_STORE_FAILED, &why, err);
    lladd_put32(entry, (uint32_t)made);
    lladd_put32(entry + 4, lladd_crc32c(0, to, made));
    out->len += made;
    return 0;
}

static void make_header(const struct filtered *f, uint64_t size, unsigned char *h)
{
    const unsigned char *table = h + HEADER;
    memset(h, 0, HEADER);
    memcpy(h, MAGIC, sizeof MAGIC);
    memcpy(h + AT_NAME, f->name, strlen(f->name));
    lladd_put64(h + AT_SIZE, size);
    lladd_put32(h + AT_BLOCK, BLOCK);
    lladd_put32(h + AT_TABLE_CRC, lladd_crc32c(0, table, blocks_of(size) * ENTRY));
    lladd_put32(h + AT_CRC, lladd_crc32c(0, h + AT_NAME, AT_CRC - AT_NAME));
}

static int filtered_put(struct lladd_store *s, const char *name, const struct lladd_iovec *pieces,
                        int n, struct lladd_error *err)
{
    struct filtered *f = of(s);
    struct ll_ship_buf out = {.mem = f->mem};
    struct source from = {pieces, 0};
    uint64_t size = 0;
    for (int i = 0; i < n; i++)
        size += pieces[i].len;
    if (size > SIZE_MOST)
        return lladd_error_set(err, LLADD_TOO_LARGE, "\"%.150s\" is too large for a filter", name);
    uint64_t blocks = blocks_of(size), head = HEADER + blocks * ENTRY;
    /* All blocks but the last one have full length, so this is room for all of them. */
    out.cap = head + blocks * LLADD_FILTER_ROOM((uint64_t)BLOCK + SUM);
    if (blocks == 1)
        out.cap = head + LLADD_FILTER_ROOM(size + SUM);
    out.data = ll_ship_new(f->mem, out.cap);
    if (!out.data)
        return ll_ship_no_memory(err);
    f->object[0] = 0; /* `plain` gets other bytes; and the name may have been taken anew */
    out.len = head;
    int rc = 0;
    for (uint64_t i = 0; i < blocks && !rc; i++) {
        struct lladd_filter_block b = {name, i * BLOCK, size};
        rc = put_block(f, &from, &b, out.data + HEADER + i * ENTRY, &out, err);
    }
    struct lladd_iovec piece = {out.data, out.len};
    if (!rc) {
        make_header(f, size, out.data);
        rc = f->inside->ops->put(f->inside, name, &piece, 1, err);
    }
    ll_ship_buf_free(&out);
    return rc;
}

/* ---- the rest ------------------------------------------------------------------------------- */

static int filtered_list(struct lladd_store *s, const char *prefix, lladd_store_list_fn *fn,
                         void *ctx, struct lladd_error *err)
{
    return of(s)->inside->ops->list(of(s)->inside, prefix, fn, ctx, err);
}

static int filtered_remove(struct lladd_store *s, const char *name, struct lladd_error *err)
{
    of(s)->object[0] = 0;
    return of(s)->inside->ops->remove(of(s)->inside, name, err);
}

static void release(struct filtered *f)
{
    ll_ship_buf_free(&f->blocks);
    ll_ship_delete(f->mem, f->plain);
    ll_ship_delete(f->mem, f->packed);
    ll_ship_delete(f->mem, f);
}

static void filtered_close(struct lladd_store *s)
{
    lladd_store_close(of(s)->inside);
    release(of(s));
}

static const struct lladd_store_ops filtered_ops = {
    .struct_size = sizeof filtered_ops,
    .put = filtered_put,
    .get = filtered_get,
    .list = filtered_list,
    .remove = filtered_remove,
    .close = filtered_close,
    .size = filtered_size,
};

int ll_ship_filter_open(struct lladd_store *inside, const struct lladd_store_filter *filter,
                        struct ll_ship_mem mem, struct lladd_store **out, struct lladd_error *err)
{
    struct lladd_store_filter given = LLADD_STORE_FILTER_INIT;
    memcpy(&given, filter,
           filter->struct_size < sizeof given ? filter->struct_size : sizeof given);
    if (!name_ok(given.name) || !given.out || !given.in)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "a filter needs two functions, and a name of 1 to %d visible "
                               "characters",
                               NAME_MOST);
    struct filtered *f = ll_ship_new(mem, sizeof *f);
    if (!f)
        return ll_ship_no_memory(err);
    f->base.ops = &filtered_ops;
    f->mem = f->blocks.mem = mem;
    f->inside = inside;
    f->filter = given;
    memcpy(f->name, given.name, strlen(given.name));
    f->filter.name = f->name;
    f->loaded = UINT64_MAX;
    f->plain = ll_ship_new(mem, (size_t)BLOCK + SUM);
    f->packed = ll_ship_new(mem, LLADD_FILTER_ROOM((size_t)BLOCK + SUM));
    if (!f->plain || !f->packed) {
        release(f);
        return ll_ship_no_memory(err);
    }
    *out = &f->base;
    return 0;
}
