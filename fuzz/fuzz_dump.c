/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The text that `lladd load` reads (docs/dump-format.md). The input is a byte of flags, then the
 * text. With FIX, the fuzzer corrects every checksum, so that the checks after it are reached.
 *
 * The reader must not crash. Its callbacks must come in the right order. A refusal must give a line
 * number. Accepted text must have the same contents after it was written and read again.
 */
#include "fuzz.h"
#include "dump_text.h"

#include "util/crc32c.h"

#include <stdlib.h>
#include <string.h>

enum { FIX = 1 };

/* What the reader's callbacks have got. */
struct heard {
    uint32_t digest;       /* a checksum of all heads and records */
    struct dump_head head; /* of the current structure */
    uint64_t count, structures;
    bool inside, done;
    struct dump_out *out; /* if not NULL, the callbacks write the text again */
};

static void add(struct heard *h, const void *bytes, size_t len)
{
    h->digest = ll_crc32c(ll_crc32c(h->digest, &len, sizeof len), bytes, len);
}

static int head(void *ctx, const struct dump_head *d, struct lladd_error *err)
{
    struct heard *h = ctx;
    (void)err;
    MUST(!h->inside && !h->done);
    MUST(d->name[0] && strlen(d->name) <= LLADD_ROOT_NAME_MAX);
    MUST(strcmp(d->kind, "array") != 0 || d->element_size > 0);
    add(h, d->kind, strlen(d->kind));
    add(h, d->name, strlen(d->name));
    add(h, &d->element_size, 8);
    add(h, &d->key_size, 8);
    add(h, &d->value_size, 8);
    add(h, &d->count, 8);
    h->head = *d;
    h->inside = true;
    h->count = 0;
    if (h->out)
        dump_head(h->out, d);
    return 0;
}

static bool is_zero(struct lladd_span s)
{
    const unsigned char *p = s.data;
    for (size_t i = 0; i < s.len; i++)
        if (p[i])
            return false;
    return true;
}

static int record(void *ctx, struct lladd_span s, struct lladd_span value, struct lladd_error *err)
{
    struct heard *h = ctx;
    bool hash = dump_has_pairs(h->head.kind), blob = strcmp(h->head.kind, "blob") == 0;
    (void)err;
    MUST(h->inside);
    bool array = strcmp(h->head.kind, "array") == 0, nothing = (array || blob) && is_zero(s);
    if (!nothing) /* zeros are written again as a line of zeros, which zeros() does not add */
        add(h, s.data, s.len);
    if (hash)
        add(h, value.data, value.len);
    h->count += blob ? s.len : 1;
    MUST(h->count <= h->head.count);
    if (h->out && hash)
        dump_pair(h->out, s, value);
    else if (h->out && array)
        dump_element(h->out, s.data, s.len);
    else if (h->out && blob)
        dump_piece(h->out, s);
    else if (h->out)
        dump_item(h->out, s);
    return 0;
}

static int zeros(void *ctx, uint64_t n, struct lladd_error *err)
{
    struct heard *h = ctx;
    (void)err;
    MUST(h->inside && n > 0);
    MUST(strcmp(h->head.kind, "array") == 0 || strcmp(h->head.kind, "blob") == 0);
    h->count += n; /* not in the digest: the writer joins adjacent lines of zeros */
    if (h->out) {
        h->out->zeros += n;
        h->out->count += n;
    }
    return 0;
}

static int tail(void *ctx, struct lladd_error *err)
{
    struct heard *h = ctx;
    (void)err;
    MUST(h->inside && h->count == h->head.count);
    h->inside = false;
    h->structures++;
    if (h->out)
        dump_tail(h->out);
    return 0;
}

static int done(void *ctx, struct lladd_error *err)
{
    struct heard *h = ctx;
    (void)err;
    MUST(!h->inside && !h->done);
    h->done = true;
    if (h->out)
        dump_end(h->out);
    return 0;
}

static int read_text(char *text, size_t len, struct heard *h)
{
    const struct dump_reader reader = {h, head, record, zeros, tail, done};
    struct lladd_error err = LLADD_ERROR_INIT;
    FILE *from = len ? fmemopen(text, len, "r") : fopen("/dev/null", "r");
    MUST(from);
    int rc = dump_read(from, &reader, &err);
    MUST(fclose(from) == 0);
    MUST(h->done == (rc == 0));
    if (rc) {
        MUST(rc == LLADD_BAD_ARGUMENT && err.code == rc);
        MUST(strncmp(err.message, "line ", 5) == 0);
    }
    return rc;
}

/* Puts the right checksum into lines "end N crc HHHHHHHH". */
static void fix(char *text, size_t len)
{
    uint32_t crc = 0;
    bool first = true;
    for (size_t at = 0, next; at < len; at = next) {
        const char *end = memchr(text + at, '\n', len - at);
        next = end ? (size_t)(end - text) + 1 : len;
        size_t n = next - at;
        if (n >= 18 && memcmp(text + at, "end ", 4) == 0 &&
            memcmp(text + next - 14, " crc ", 5) == 0) {
            char digits[9];
            (void)snprintf(digits, sizeof digits, "%08x", crc);
            memcpy(text + next - 9, digits, 8);
            crc = 0;
        } else if (!first) { /* the first line belongs to no structure */
            crc = ll_crc32c(crc, text + at, n);
        }
        first = false;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    size_t len = size - 1, written = 0;
    char *text = malloc(len + 1), *again = NULL;
    MUST(text);
    memcpy(text, data + 1, len);
    if (data[0] & FIX)
        fix(text, len);
    struct dump_out out;
    struct heard first = {.out = &out}, second = {.out = NULL};
    FILE *to = open_memstream(&again, &written);
    MUST(to);
    dump_begin(&out, to);
    int rc = read_text(text, len, &first);
    MUST(fclose(to) == 0);
    if (rc == 0) {
        MUST(read_text(again, written, &second) == 0);
        MUST(second.structures == first.structures && second.digest == first.digest);
    }
    free(again);
    free(text);
    return 0;
}
