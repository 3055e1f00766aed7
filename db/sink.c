/* SPDX-License-Identifier: BSD-2-Clause */
/* Text sinks, printing stored bytes by their field layout, and lladd_error_set. */
#include "util/env.h"

#include <lladd/bytes.h>
#include <lladd/op.h>
#include <stdarg.h>
#include <stdio.h>

static int set_error(struct lladd_error *err, const char *source, int line, int code,
                     const char *fmt, va_list ap) __attribute__((format(printf, 5, 0)));

static int set_error(struct lladd_error *err, const char *source, int line, int code,
                     const char *fmt, va_list ap)
{
    if (!err)
        return code;
    ll_fail_at(err, source, line, code, "%s", "");
    vsnprintf(err->message, sizeof err->message, fmt, ap);
    return code;
}

int lladd_error_set_at(struct lladd_error *err, const char *source, int line, int code,
                       const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_error(err, source, line, code, fmt, ap);
    va_end(ap);
    return code;
}

/* The parentheses keep the macro of the same name from expanding. */
int(lladd_error_set)(struct lladd_error *err, int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_error(err, "extension", 0, code, fmt, ap);
    va_end(ap);
    return code;
}

int lladd_sink_write(struct lladd_sink *s, const void *bytes, size_t len)
{
    if (!s->failed)
        s->failed = s->write(s->ctx, bytes, len);
    return s->failed;
}

int lladd_sink_printf(struct lladd_sink *s, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return s->failed = s->failed ? s->failed : LLADD_BAD_ARGUMENT;
    return lladd_sink_write(s, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static void print_hex(const unsigned char *p, size_t len, struct lladd_sink *sink)
{
    for (size_t i = 0; i < len; i++)
        lladd_sink_printf(sink, "%02x", p[i]);
}

static void print_text(const unsigned char *p, size_t len, struct lladd_sink *sink)
{
    lladd_sink_write(sink, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        if (p[i] == '"' || p[i] == '\\')
            lladd_sink_printf(sink, "\\%c", p[i]);
        else if (p[i] >= 0x20 && p[i] < 0x7f)
            lladd_sink_write(sink, &p[i], 1);
        else
            lladd_sink_printf(sink, "\\x%02x", p[i]);
    }
    lladd_sink_write(sink, "\"", 1);
}

/* Length of the field in bytes; SIZE_MAX if it is longer than the bytes that are left. */
static size_t field_size(enum lladd_field_type type, const unsigned char *p, size_t left)
{
    size_t want = 8;
    switch (type) {
    case LLADD_FIELD_U8:
        want = 1;
        break;
    case LLADD_FIELD_U16:
        want = 2;
        break;
    case LLADD_FIELD_U32:
        want = 4;
        break;
    case LLADD_FIELD_BYTES16:
        want = left < 2 ? SIZE_MAX : 2u + lladd_get16(p);
        break;
    case LLADD_FIELD_REST:
    case LLADD_FIELD_TEXT:
        want = left;
        break;
    case LLADD_FIELD_END:
        want = SIZE_MAX;
        break;
    default:
        break;
    }
    return want > left ? SIZE_MAX : want;
}

static uint64_t number(const unsigned char *p, size_t size)
{
    return size == 1   ? p[0]
           : size == 2 ? lladd_get16(p)
           : size == 4 ? lladd_get32(p)
                       : lladd_get64(p);
}

static void print_field(enum lladd_field_type type, const unsigned char *p, size_t size,
                        struct lladd_sink *sink)
{
    switch (type) {
    case LLADD_FIELD_I64:
        lladd_sink_printf(sink, "%lld", (long long)lladd_get64(p));
        break;
    case LLADD_FIELD_BYTES16:
        print_text(p + 2, size - 2, sink);
        break;
    case LLADD_FIELD_TEXT:
        print_text(p, size, sink);
        break;
    case LLADD_FIELD_REST:
        print_hex(p, size, sink);
        break;
    default:
        lladd_sink_printf(sink, "%llu", (unsigned long long)number(p, size));
    }
}

bool lladd_fields_print(const struct lladd_field *f, struct lladd_span bytes,
                        struct lladd_sink *sink)
{
    const unsigned char *p = bytes.data;
    size_t left = bytes.len;
    for (; f && f->name; f++) {
        size_t size = field_size(f->type, p, left);
        if (size == SIZE_MAX)
            return false;
        lladd_sink_printf(sink, "%s=", f->name);
        print_field(f->type, p, size, sink);
        if (f[1].name)
            lladd_sink_write(sink, " ", 1);
        p += size;
        left -= size;
    }
    return left == 0;
}
