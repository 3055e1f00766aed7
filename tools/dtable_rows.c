/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd dtable: keys and values on the command line, in CSV and in JSON. */
#include "csv.h"
#include "dtable.h"
#include "dump_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void tabling_tell_row(struct tabling *d)
{
    tool_progress(d->t, "rows", ++d->done, 0);
}

int tabling_failed(struct tabling *d)
{
    return tool_failed(d->t, &d->err);
}

enum { NUMBER_MAX = 64 };

static bool refuse(struct tabling *d, struct lladd_span text, const char *why)
{
    size_t len = text.len < NUMBER_MAX ? text.len : NUMBER_MAX;
    lladd_error_set(&d->err, LLADD_BAD_ARGUMENT, "\"%.*s\" %s", (int)len, (const char *)text.data,
                    why);
    return false;
}

static bool whole(struct tabling *d, struct lladd_span text, uint64_t most, uint64_t *out)
{
    char digits[NUMBER_MAX + 1], *end;
    if (text.len == 0 || text.len > NUMBER_MAX)
        return refuse(d, text, "is not a number");
    memcpy(digits, text.data, text.len);
    digits[text.len] = 0;
    errno = 0;
    unsigned long long v = strtoull(digits, &end, 10);
    if (digits[0] < '0' || digits[0] > '9' || *end || strlen(digits) != text.len)
        return refuse(d, text, "is not a number");
    if (errno || v > most)
        return refuse(d, text,
                      most == UINT32_MAX ? "is not a number below 2^32"
                                         : "is not a number below 2^64");
    *out = v;
    return true;
}

static bool real(struct tabling *d, struct lladd_span text, double *out)
{
    char digits[NUMBER_MAX + 1], *end;
    if (text.len == 0 || text.len > NUMBER_MAX)
        return refuse(d, text, "is not a number");
    memcpy(digits, text.data, text.len);
    digits[text.len] = 0;
    *out = strtod(digits, &end);
    if (*end || end == digits || strlen(digits) != text.len || digits[0] == ' ')
        return refuse(d, text, "is not a number");
    if (*out != *out)
        return refuse(d, text, "is not a key");
    return true;
}

bool tabling_bytes(struct tabling *d, struct lladd_span text, unsigned char *room,
                   struct lladd_span *out)
{
    if (!d->hex) {
        *out = text;
        return true;
    }
    size_t len = text.len / 2;
    if (text.len)
        memcpy(room, text.data, text.len);
    room[text.len] = 0;
    if (strlen((char *)room) != text.len || !tool_hex((char *)room, room, &len))
        return refuse(d, text, "is not hexadecimal");
    *out = (struct lladd_span){room, len};
    return true;
}

bool tabling_key(struct tabling *d, struct lladd_span text, unsigned char *room,
                 struct lladd_dtable_key *key)
{
    uint64_t number;
    double value;
    *key = (struct lladd_dtable_key){.type = lladd_dtable_key_type(d->rows)};
    switch (key->type) {
    case LLADD_DTABLE_U32:
        if (!whole(d, text, UINT32_MAX, &number))
            return false;
        *key = lladd_dtable_u32((uint32_t)number);
        return true;
    case LLADD_DTABLE_U64:
        if (!whole(d, text, UINT64_MAX, &number))
            return false;
        *key = lladd_dtable_u64(number);
        return true;
    case LLADD_DTABLE_DOUBLE:
        if (!real(d, text, &value))
            return false;
        *key = lladd_dtable_double(value);
        return true;
    case LLADD_DTABLE_STRING:
    case LLADD_DTABLE_BYTES:
        return tabling_bytes(d, text, room, &key->bytes);
    }
    return refuse(d, text, "is a key of an unknown type");
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool is_text(const struct lladd_dtable_key *key)
{
    return key->type == LLADD_DTABLE_STRING || key->type == LLADD_DTABLE_BYTES;
}

/* Returns a number as text. */
static const char *number_of(const struct lladd_dtable_key *key, char out[NUMBER_MAX])
{
    if (key->type == LLADD_DTABLE_DOUBLE)
        snprintf(out, NUMBER_MAX, "%.17g", lladd_dtable_as_double(key));
    else
        snprintf(out, NUMBER_MAX, "%" PRIu64, key->number);
    return out;
}

void tabling_write_bytes(const struct tabling *d, struct lladd_span s)
{
    const unsigned char *p = s.data;
    if (d->hex)
        for (size_t i = 0; i < s.len; i++)
            printf("%02x", p[i]);
    else if (d->csv)
        csv_write(stdout, s.data, s.len);
    else
        dump_quoted(stdout, s.data, s.len);
}

void tabling_write_key(const struct tabling *d, const struct lladd_dtable_key *key)
{
    char number[NUMBER_MAX];
    if (is_text(key))
        tabling_write_bytes(d, key->bytes);
    else
        printf("%s", number_of(key, number));
}

json_t *tabling_json_key(const struct tabling *d, const struct lladd_dtable_key *key)
{
    char number[NUMBER_MAX];
    if (is_text(key))
        return d->hex ? tool_json_hex(key->bytes.data, key->bytes.len)
                      : tool_json_bytes(key->bytes.data, key->bytes.len);
    return key->type == LLADD_DTABLE_DOUBLE ? tool_json_text(number_of(key, number))
                                            : tool_json_u64(key->number);
}

static void write_json(const struct tabling *d, const struct lladd_dtable_key *key,
                       struct lladd_span value)
{
    json_t *v = d->hex ? tool_json_hex(value.data, value.len)
                       : tool_json_bytes(value.data, value.len);
    tool_json_print(json_pack("{s:o, s:o}", "key", tabling_json_key(d, key), "value", v), false);
}

void tabling_write(const struct tabling *d, const struct lladd_dtable_key *key,
                   struct lladd_span value)
{
    if (d->t->json) {
        write_json(d, key, value);
        return;
    }
    tabling_write_key(d, key);
    putchar(d->csv ? ',' : ' ');
    tabling_write_bytes(d, value);
    putchar('\n');
}

void tabling_write_value(const struct tabling *d, const struct lladd_dtable_key *key,
                         struct lladd_span value)
{
    if (d->t->json || d->csv) {
        tabling_write(d, key, value);
        return;
    }
    if (d->hex)
        tabling_write_bytes(d, value);
    else if (value.len)
        (void)fwrite(value.data, 1, value.len, stdout); /* tool_end checks for a write error */
    putchar('\n');
}
