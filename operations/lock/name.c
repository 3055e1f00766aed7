/* SPDX-License-Identifier: BSD-2-Clause */
/* Names as bytes. A component is u8 0 and u64 number, or u8 1, u32 length and that many bytes.
 * Two names are equal if and only if their bytes are equal. A prefix of a name that ends at the
 * end of a component is an ancestor. */
#include "operations/lock/table.h"

#include <stdio.h>

enum { PART_ID = 0, PART_BYTES = 1, ID_SIZE = 9, BYTES_HEAD = 5 };

size_t ll_operations__lock_name_size(struct lladd_lock_name name)
{
    size_t size = 0;
    if (!name.parts)
        return 0;
    for (size_t i = 0; i < name.n; i++) {
        size_t len = name.parts[i].bytes ? name.parts[i].len : 0;
        if (len > LLADD_LOCK_NAME_MAX)
            return SIZE_MAX;
        size += name.parts[i].bytes ? BYTES_HEAD + len : ID_SIZE;
        if (size > LLADD_LOCK_NAME_MAX)
            return SIZE_MAX;
    }
    return size;
}

size_t ll_operations__lock_part_put(unsigned char *out, const struct lladd_lock_part *part)
{
    if (!part->bytes) {
        out[0] = PART_ID;
        lladd_put64(out + 1, part->id);
        return ID_SIZE;
    }
    out[0] = PART_BYTES;
    lladd_put32(out + 1, (uint32_t)part->len);
    if (part->len)
        memcpy(out + BYTES_HEAD, part->bytes, part->len);
    return BYTES_HEAD + part->len;
}

size_t ll_operations__lock_part_size(const unsigned char *bytes, size_t left)
{
    if (left >= ID_SIZE && bytes[0] == PART_ID)
        return ID_SIZE;
    if (left < BYTES_HEAD || bytes[0] != PART_BYTES)
        return 0;
    size_t len = lladd_get32(bytes + 1);
    return len <= left - BYTES_HEAD ? BYTES_HEAD + len : 0;
}

/* An adversary may choose byte strings, so their hash is keyed SipHash. The hash of a number is
 * cheaper, and is keyed too. Different numbers with the same parent have different hashes if
 * hash_mask keeps all 64 bits. */
uint64_t ll_operations__lock_hash(const struct ll_locks *all, uint64_t parent,
                                  const unsigned char *part, size_t len)
{
    struct ll_siphash_key key = {all->key.k0 ^ parent, all->key.k1};
    uint64_t h;
    if (part[0] == PART_ID) {
        h = (lladd_get64(part + 1) ^ key.k0) * UINT64_C(0x9e3779b97f4a7c15);
        h = (h ^ h >> 32) * (key.k1 | 1);
        h ^= h >> 29;
    } else {
        h = ll_siphash(&key, part + BYTES_HEAD, len - BYTES_HEAD);
    }
    return h & lladd_atomic_load64_relaxed(&all->hash_mask);
}

static struct lladd_lock_part part_at(const unsigned char *p, size_t len)
{
    return p[0] == PART_ID ? lladd_lock_id(lladd_get64(p + 1))
                           : lladd_lock_bytes(p + BYTES_HEAD, len - BYTES_HEAD);
}

struct lladd_lock_part *ll_operations__lock_parts(struct lladd_db *db, const unsigned char *name,
                                                  size_t len, size_t *n)
{
    size_t count = 0;
    for (size_t at = 0; at < len; count++)
        at += ll_operations__lock_part_size(name + at, len - at);
    struct lladd_lock_part *parts = lladd_mem_alloc(db, count * sizeof *parts);
    if (!parts)
        return NULL;
    for (size_t at = 0, i = 0; i < count; i++) {
        size_t size = ll_operations__lock_part_size(name + at, len - at);
        parts[i] = part_at(name + at, size);
        at += size;
    }
    *n = count;
    return parts;
}

/* ---- as text --------------------------------------------------------------------------------- */

struct text {
    char *out;
    size_t size, len;
};

static void put_char(struct text *t, char c)
{
    if (t->len + 1 < t->size)
        t->out[t->len] = c;
    t->len++;
}

static void put_string(struct text *t, const char *s)
{
    while (*s)
        put_char(t, *s++);
}

/* Prints a number, or a byte string in quotes, with ", \ and unprintable bytes as \xx. */
static void put_part(struct text *t, const struct lladd_lock_part *part)
{
    char small[24];
    if (!part->bytes) {
        snprintf(small, sizeof small, "%llu", (unsigned long long)part->id);
        put_string(t, small);
        return;
    }
    const unsigned char *p = part->bytes;
    put_char(t, '"');
    for (size_t i = 0; i < part->len; i++) {
        bool plain = p[i] >= ' ' && p[i] < 127 && p[i] != '"' && p[i] != '\\';
        snprintf(small, sizeof small, plain ? "%c" : "\\%02x", p[i]);
        put_string(t, small);
    }
    put_char(t, '"');
}

static size_t finish(struct text *t)
{
    if (t->size)
        t->out[t->len < t->size ? t->len : t->size - 1] = 0;
    return t->len;
}

size_t lladd_lock_name_text(struct lladd_lock_name name, char *out, size_t size)
{
    struct text t = {out, out ? size : 0, 0};
    put_char(&t, '{');
    for (size_t i = 0; i < name.n; i++) {
        if (i)
            put_string(&t, ", ");
        put_part(&t, &name.parts[i]);
    }
    put_char(&t, '}');
    return finish(&t);
}

size_t ll_operations__lock_text(const unsigned char *name, size_t len, char *out, size_t size)
{
    struct text t = {out, size, 0};
    put_char(&t, '{');
    for (size_t at = 0; at < len;) {
        size_t n = ll_operations__lock_part_size(name + at, len - at);
        struct lladd_lock_part part = part_at(name + at, n);
        if (at)
            put_string(&t, ", ");
        put_part(&t, &part);
        at += n;
    }
    put_char(&t, '}');
    return finish(&t);
}
