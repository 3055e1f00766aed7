/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hostile manifests of backups. The input is a byte of flags. With WHOLE, a manifest without its
 * last line follows. Otherwise changes of a good manifest follow, of four bytes each: u16 at, u8
 * what, u8 value. With FIX the manifest gets a last line with the right checksum, so that the
 * reader must check the fields.
 *
 * The library refuses a manifest with LLADD_CORRUPT_BACKUP or LLADD_NEWER_FORMAT, or accepts it. If
 * it is accepted, its fields must be consistent, and reading the backup must not crash, even if the
 * other objects do not fit it.
 */
#include "backup_store.h"

#include <stdio.h>

enum { FIX = 1, WHOLE = 2 };
enum { PUT, FLIP, NUMBER, LINE_AWAY, LINE_TWICE, KINDS };
enum { MOST = 16 << 10, LAST_LINE = 13 /* "crc 01234567\n" */, SPARE = 512 };

struct text {
    char *at;
    size_t len; /* at most MOST */
};

/* Replaces text[from, to) by another text. */
static void splice(struct text *t, size_t from, size_t to, const char *by, size_t len)
{
    if (t->len - (to - from) + len > MOST)
        return;
    memmove(t->at + from + len, t->at + to, t->len - to);
    memcpy(t->at + from, by, len);
    t->len = t->len - (to - from) + len;
}

/* Finds the beginning and the end of line n, or of the last line if there are fewer lines. */
static void line_of(const struct text *t, unsigned n, size_t *from, size_t *to)
{
    *from = *to = 0;
    for (unsigned i = 0; i <= n && *to < t->len; i++) {
        const char *end = memchr(t->at + *to, '\n', t->len - *to);
        *from = *to;
        *to = end ? (size_t)(end - t->at) + 1 : t->len;
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Gives the first number at or after `at` another value. */
static void put_number(struct text *t, size_t at, unsigned value)
{
    static const char *const values[] = {"0",
                                         "1",
                                         "8",
                                         "4096",
                                         "65536",
                                         "4294967295",
                                         "4294967296",
                                         "67108865",
                                         "9223372036854775808",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "140737488355327",
                                         "32",
                                         "00000000000000000000001"};
    const char *by = values[value % (sizeof values / sizeof *values)];
    while (at < t->len && !is_digit(t->at[at]))
        at++;
    size_t to = at;
    while (to < t->len && is_digit(t->at[to]))
        to++;
    splice(t, at, to, by, strlen(by));
}

static void change(struct text *t, size_t at, unsigned what, unsigned char value)
{
    size_t from, to;
    char line[SPARE];
    if (t->len == 0)
        return;
    at %= t->len;
    line_of(t, value, &from, &to);
    switch (what % KINDS) {
    case PUT:
        t->at[at] = (char)value;
        break;
    case FLIP:
        t->at[at] = (char)(t->at[at] ^ 1 << value % 8);
        break;
    case NUMBER:
        put_number(t, at, value);
        break;
    case LINE_AWAY:
        splice(t, from, to, "", 0);
        break;
    default:
        if (to - from < sizeof line) {
            memcpy(line, t->at + from, to - from);
            splice(t, to, to, line, to - from);
        }
    }
}

static void build(struct text *t, const struct object *good, const uint8_t *data, size_t size)
{
    unsigned flags = data[0];
    char crc[LAST_LINE + 1];
    data++, size--;
    if (flags & WHOLE) {
        t->len = size < MOST ? size : MOST;
        if (t->len)
            memcpy(t->at, data, t->len);
    } else {
        t->len = good->len;
        MUST(t->len <= MOST && t->len > LAST_LINE);
        memcpy(t->at, good->bytes, t->len);
        if (flags & FIX)
            t->len -= LAST_LINE;
        for (; size >= 4; data += 4, size -= 4)
            change(t, lladd_get16(data), data[2], data[3]);
    }
    if (flags & FIX) {
        (void)snprintf(crc, sizeof crc, "crc %08x\n", lladd_crc32c(0, t->at, t->len));
        memcpy(t->at + t->len, crc, LAST_LINE); /* the text has room for it */
        t->len += LAST_LINE;
    }
}

static int see(void *ctx, const struct lladd_backup_info *info)
{
    ++*(unsigned *)ctx;
    MUST(info->page_size >= 4096 && info->page_size <= 65536 &&
         (info->page_size & (info->page_size - 1)) == 0);
    MUST(info->from.v <= info->end.v);
    MUST(memchr(info->name, 0, sizeof info->name) && memchr(info->label, 0, sizeof info->label));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct backup_store *s = backup_store();
    struct lladd_error err = LLADD_ERROR_INIT;
    unsigned n = 0;
    if (size < 1)
        return 0;
    struct object *o = object_of(s, "/manifest");
    MUST(o);
    struct object good = *o;
    struct text t = {malloc(MOST + LAST_LINE), 0};
    MUST(t.at);
    build(&t, &good, data, size);
    o->bytes = (unsigned char *)t.at;
    o->len = t.len;
    int rc = lladd_backup_each(&s->face, NULL, see, &n, &err);
    MUST(rc == 0 || ((rc == LLADD_CORRUPT_BACKUP || rc == LLADD_NEWER_FORMAT) && rc == err.code));
    MUST(n == (rc == 0));
    MUST(rc == 0 || size > 1 || data[0] & WHOLE); /* without a change it is good */
    int opened = backup_read(s);
    MUST(!rc || opened == rc);
    *o = good;
    free(t.at);
    return 0;
}
