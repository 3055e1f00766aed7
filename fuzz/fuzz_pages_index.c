/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile indexes of a backup's pages (pages.idx). The input is a byte of flags, then changes of
 * the frames' entries in a good index, of four bytes each: u16 entry, u8 what, u8 value. The
 * manifest gets the size and the checksum of these entries, so that the reader must check them.
 * With FRAMES the entries get the checksums of the bytes that they name, as far as these bytes
 * exist.
 *
 * The library refuses an index or accepts it. With an accepted index each page can be read, or the
 * read fails with an error. The library reads only objects of the backup.
 */
#include "backup_store.h"

#include <stdio.h>

enum { FRAMES = 1 };
enum { ENTRY = 32, MOST = 1 << 16 };
enum { FIRST, PAGES, PART, OFFSET, BYTES, CRC, ZERO, FIELDS, AWAY = FIELDS, TWICE, SWAP, KINDS };

/* The offset and the bytes of each field of an entry (docs/backup.md). */
static const struct {
    unsigned at, bytes;
} fields[FIELDS] = {{0, 8}, {8, 4}, {12, 4}, {16, 4}, {20, 4}, {24, 4}, {28, 4}};

static void put_field(unsigned char *entry, unsigned field, unsigned value)
{
    static const uint64_t values[] = {0,          1,          15,         16,       17,
                                      0x7fffffff, 0x80000000, 0xffffffff, 67108864, 4096};
    enum { VALUES = sizeof values / sizeof *values };
    unsigned char *at = entry + fields[field].at;
    bool wide = fields[field].bytes == 8;
    uint64_t old = wide ? lladd_get64(at) : lladd_get32(at), v;
    if (value < VALUES)
        v = values[value];
    else if (value < 2 * VALUES)
        v = UINT64_MAX - values[value - VALUES];
    else
        v = old + value - 128;
    if (wide)
        lladd_put64(at, v);
    else
        lladd_put32(at, (uint32_t)v);
}

static void swap(unsigned char *a, unsigned char *b)
{
    unsigned char entry[ENTRY];
    memcpy(entry, a, ENTRY);
    memmove(a, b, ENTRY);
    memcpy(b, entry, ENTRY);
}

static void change(unsigned char *index, size_t *len, unsigned at, unsigned what, unsigned value)
{
    size_t n = *len / ENTRY, i = n ? at % n : 0;
    unsigned char *entry = index + i * ENTRY;
    what %= KINDS;
    if (n == 0)
        return;
    if (what < FIELDS) {
        put_field(entry, what, value);
    } else if (what == SWAP) {
        swap(entry, index + value % n * ENTRY);
    } else if (what == AWAY) {
        memmove(entry, entry + ENTRY, *len - (i + 1) * ENTRY);
        *len -= ENTRY;
    } else if (*len + ENTRY <= MOST) {
        memmove(entry + ENTRY, entry, *len - i * ENTRY);
        *len += ENTRY;
    }
}

/* Gives an entry the checksum of the bytes that it names. */
static void fix_entry(struct backup_store *s, unsigned char *entry)
{
    char name[32];
    uint64_t offset = lladd_get32(entry + fields[OFFSET].at);
    uint64_t bytes = lladd_get32(entry + fields[BYTES].at);
    (void)snprintf(name, sizeof name, "/pages.%u", lladd_get32(entry + fields[PART].at));
    const struct object *o = object_of(s, name);
    if (o && offset + bytes <= o->len)
        lladd_put32(entry + fields[CRC].at, lladd_crc32c(0, o->bytes + offset, bytes));
}

/* Returns the size of the frames' entries. The pages' entries follow them. */
static size_t frames_of(const struct object *manifest)
{
    char text[4096] = {0};
    unsigned long long bytes = 0;
    MUST(manifest->len < sizeof text);
    memcpy(text, manifest->bytes, manifest->len);
    const char *line = strstr(text, "\nindex ");
    MUST(line && sscanf(line, "\nindex %llu", &bytes) == 1);
    return (size_t)bytes;
}

/* Makes a manifest that fits the frames' entries. */
static void fit(const struct object *good, const struct object *index, struct object *out)
{
    enum { LAST_LINE = 13, SPARE = 64 };
    char *text = malloc(good->len + SPARE);
    MUST(text);
    memcpy(text, good->bytes, good->len);
    text[good->len] = 0;
    char *line = strstr(text, "\nindex ");
    MUST(line);
    const unsigned char *rest =
        good->bytes + (strchr(line + 1, '\n') - text); /* of the good manifest */
    size_t left = (size_t)(good->bytes + good->len - LAST_LINE - rest);
    size_t len = (size_t)(line - text);
    len += (size_t)snprintf(line, SPARE, "\nindex %zu %08x", index->len,
                            lladd_crc32c(0, index->bytes, index->len));
    memcpy(text + len, rest, left);
    len += left;
    len += (size_t)snprintf(text + len, SPARE / 2, "crc %08x\n", lladd_crc32c(0, text, len));
    out->bytes = (unsigned char *)text;
    out->len = len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct backup_store *s = backup_store();
    if (size < 1)
        return 0;
    struct object *index = object_of(s, "/pages.idx"), *manifest = object_of(s, "/manifest");
    MUST(index && manifest);
    struct object good = *index, good_manifest = *manifest;
    size_t frames = frames_of(manifest), pages = good.len - frames;
    MUST(good.len <= MOST && (index->bytes = malloc(MOST + pages)) != NULL);
    index->len = frames;
    memcpy(index->bytes, good.bytes, frames);
    for (size_t at = 1; at + 4 <= size; at += 4)
        change(index->bytes, &index->len, lladd_get16(data + at), data[at + 2], data[at + 3]);
    for (size_t at = 0; data[0] & FRAMES && at < index->len; at += ENTRY)
        fix_entry(s, index->bytes + at);
    fit(&good_manifest, index, manifest);
    memcpy(index->bytes + index->len, good.bytes + frames, pages);
    index->len += pages;
    int rc = backup_read(s);
    MUST(rc == 0 || (rc == LLADD_CORRUPT_BACKUP && size > 1));
    free(index->bytes);
    free(manifest->bytes);
    *index = good;
    *manifest = good_manifest;
    return 0;
}
