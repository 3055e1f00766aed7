/* SPDX-License-Identifier: BSD-2-Clause */
#include "filters.h"

#include "ship/ship_private.h"

#include <check.h>
#include <lladd/bytes.h>
#include <lz4.h>
#include <string.h>

enum { NONCE = 8, TAG = 4 };

static bool fails(struct test_filter *f)
{
    bool now = ++f->calls == f->fail_at;
    f->fired += now;
    return now;
}

static int failed(const struct test_filter *f, struct lladd_error *err)
{
    if (f->fail_text)
        (void)lladd_error_set(err, LLADD_STORE_FAILED, "%s", f->fail_text);
    return f->fail_with;
}

/* ---- compression ---------------------------------------------------------------------------- */

static int squeeze(void *ctx, const struct lladd_filter_block *b, const void *bytes, size_t len,
                   void *to, size_t room, size_t *made, struct lladd_error *err)
{
    struct test_filter *f = ctx;
    f->outs++;
    (void)b;
    if (fails(f))
        return failed(f, err);
    ck_assert_uint_ge(room, LLADD_FILTER_ROOM(len));
    int n = LZ4_compress_default(bytes, to, (int)len, (int)room);
    *made = (size_t)n;
    return n > 0 ? 0 : -1;
}

static int unsqueeze(void *ctx, const struct lladd_filter_block *b, const void *bytes, size_t len,
                     void *to, size_t room, size_t *made, struct lladd_error *err)
{
    struct test_filter *f = ctx;
    f->ins++;
    (void)b;
    if (fails(f))
        return failed(f, err);
    int n = LZ4_decompress_safe(bytes, to, (int)len, (int)room);
    *made = n < 0 ? 0 : (size_t)n;
    return n >= 0 ? 0 : -1;
}

/* ---- encryption ----------------------------------------------------------------------------- */

static uint64_t mix(uint64_t v)
{
    v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
    return v ^ v >> 31;
}

static void scramble(uint64_t key, uint64_t nonce, unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] ^= (unsigned char)(mix(mix(key ^ nonce) + i / 8) >> i % 8 * 8);
}

static uint32_t tag_of(uint64_t key, const struct lladd_filter_block *b, const void *bytes,
                       size_t len)
{
    unsigned char where[24];
    lladd_put64(where, key);
    lladd_put64(where + 8, b->offset);
    lladd_put64(where + 16, b->size);
    uint32_t crc = lladd_crc32c(0, where, sizeof where);
    crc = lladd_crc32c(crc, b->object, strlen(b->object));
    return lladd_crc32c(crc, bytes, len);
}

static int seal(void *ctx, const struct lladd_filter_block *b, const void *bytes, size_t len,
                void *to, size_t room, size_t *made, struct lladd_error *err)
{
    struct test_filter *f = ctx;
    unsigned char *out = to;
    f->outs++;
    if (fails(f))
        return failed(f, err);
    ck_assert_uint_ge(room, NONCE + len + TAG);
    f->nonce = mix(f->nonce + 1);
    lladd_put64(out, f->nonce);
    memcpy(out + NONCE, bytes, len);
    lladd_put32(out + NONCE + len, tag_of(f->key, b, bytes, len));
    scramble(f->key, f->nonce, out + NONCE, len + TAG);
    *made = NONCE + len + TAG;
    return 0;
}

static int open_sealed(void *ctx, const struct lladd_filter_block *b, const void *bytes, size_t len,
                       void *to, size_t room, size_t *made, struct lladd_error *err)
{
    struct test_filter *f = ctx;
    const unsigned char *in = bytes;
    unsigned char tag[TAG];
    f->ins++;
    if (fails(f))
        return failed(f, err);
    if (len != NONCE + room + TAG)
        return -1;
    uint64_t nonce = lladd_get64(in);
    unsigned char *out = to;
    memcpy(out, in + NONCE, room);
    scramble(f->key, nonce, out, room);
    for (size_t i = 0; i < TAG; i++)
        tag[i] = in[NONCE + room + i] ^
                 (unsigned char)(mix(mix(f->key ^ nonce) + (room + i) / 8) >> (room + i) % 8 * 8);
    *made = room;
    if (lladd_get32(tag) == tag_of(f->key, b, out, room))
        return 0;
    return lladd_error_set(err, LLADD_BAD_ARGUMENT, "the tag is wrong");
}

static int blind(void *ctx, const struct lladd_filter_block *b, const void *bytes, size_t len,
                 void *to, size_t room, size_t *made, struct lladd_error *err)
{
    int rc = seal(ctx, b, bytes, len, to, room, made, err);
    *made = rc ? 0 : NONCE + len;
    return rc;
}

static int see_blindly(void *ctx, const struct lladd_filter_block *b, const void *bytes, size_t len,
                       void *to, size_t room, size_t *made, struct lladd_error *err)
{
    struct test_filter *f = ctx;
    f->ins++;
    (void)b;
    if (fails(f))
        return failed(f, err);
    ck_assert_uint_eq(len, NONCE + room);
    memcpy(to, (const unsigned char *)bytes + NONCE, room);
    scramble(f->key, lladd_get64(bytes), to, room);
    *made = room;
    return 0;
}

/* ---- the whole ------------------------------------------------------------------------------ */

void test_filter_init(struct test_filter *f, enum filter_kind kind, uint64_t key)
{
    static const struct {
        const char *name;
        lladd_filter_fn *out, *in;
    } kinds[] = {[FILTER_SQUEEZE] = {"squeeze", squeeze, unsqueeze},
                 [FILTER_SEAL] = {"seal", seal, open_sealed},
                 [FILTER_BLIND] = {"blind", blind, see_blindly}};
    *f = (struct test_filter){.filter = LLADD_STORE_FILTER_INIT, .key = key, .nonce = key * 7};
    f->filter.name = kinds[kind].name;
    f->filter.out = kinds[kind].out;
    f->filter.in = kinds[kind].in;
    f->filter.ctx = f;
}

struct lladd_store *test_filter_over(struct lladd_store *inside, struct test_filter *f)
{
    struct lladd_error err = LLADD_ERROR_INIT;
    struct lladd_store *store = NULL;
    int rc = lladd_store_over(inside, &f->filter, NULL, &store, &err);
    ck_assert_msg(rc == 0, "%s", err.message);
    return store;
}
