/* SPDX-License-Identifier: BSD-2-Clause */
/* Formats numbers, times, bytes and identifiers as text and as JSON. */
#include "tool.h"

#include <inttypes.h>
#include <lladd/bytes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DUMP_LINE 16u

const char *tool_bytes(uint64_t bytes, char out[24])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t u = 0;
    double v = (double)bytes;
    for (; v >= 1024 && u + 1 < sizeof units / sizeof units[0]; u++)
        v /= 1024;
    snprintf(out, 24, u ? "%.1f %s" : "%.0f %s", v, units[u]);
    return out;
}

const char *tool_time(int64_t us, char out[48])
{
    time_t s = (time_t)(us / 1000000);
    struct tm tm;
    if (!gmtime_r(&s, &tm) || !strftime(out, 48, "%Y-%m-%d %H:%M:%S UTC", &tm))
        snprintf(out, 48, "%" PRId64 " us since 1970", us);
    return out;
}

const char *tool_uuid(const unsigned char uuid[16], char out[40])
{
    char *p = out;
    for (int i = 0; i < 16; i++)
        p += snprintf(p, 4, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    return out;
}

int tool_lsn_width(const struct lladd_inspect_info *i)
{
    uint64_t most = i->log_end.v > i->watermark.v ? i->log_end.v : i->watermark.v;
    int n = snprintf(NULL, 0, "%" PRIu64, most);
    return n < 6 ? 6 : n;
}

const char *tool_lsn(lladd_lsn lsn, char out[24])
{
    if (lsn.v)
        snprintf(out, 24, "%" PRIu64, lsn.v);
    else
        snprintf(out, 24, "-");
    return out;
}

/* ---- global ids ----------------------------------------------------------------------------- */

const char *tool_gid(const struct lladd_gid *g, char out[TOOL_GID_MAX])
{
    char *p = out + snprintf(out, 32, "%" PRId64 ":", g->format);
    uint32_t n = g->gtrid_length + g->bqual_length;
    for (uint32_t i = 0; i < n; i++) {
        if (i == g->gtrid_length)
            *p++ = ':';
        p += snprintf(p, 3, "%02x", g->data[i]);
    }
    if (g->bqual_length == 0)
        *p++ = ':';
    *p = 0;
    return out;
}

static int digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Parses hexadecimal digits up to the first other character, at most `max` bytes. */
static bool parse_hex(const char **text, unsigned char *out, uint32_t max, uint32_t *len)
{
    const char *p = *text;
    for (*len = 0; digit(p[0]) >= 0; p += 2, (*len)++) {
        if (*len == max || digit(p[1]) < 0)
            return false;
        out[*len] = (unsigned char)(digit(p[0]) * 16 + digit(p[1]));
    }
    *text = p;
    return true;
}

bool tool_hex(const char *text, unsigned char *out, size_t *len)
{
    size_t n = 0;
    for (; text[2 * n]; n++) {
        int high = digit(text[2 * n]), low = high < 0 ? -1 : digit(text[2 * n + 1]);
        if (low < 0)
            return false;
        out[n] = (unsigned char)(high * 16 + low);
    }
    *len = n;
    return true;
}

bool tool_parse_gid(const char *text, struct lladd_gid *g)
{
    char *end;
    memset(g, 0, sizeof *g);
    g->format = strtoll(text, &end, 10);
    if (end == text || *end != ':')
        return false;
    const char *p = end + 1;
    if (!parse_hex(&p, g->data, 64, &g->gtrid_length) || g->gtrid_length == 0)
        return false;
    if (*p == ':')
        p++;
    return parse_hex(&p, g->data + g->gtrid_length, 64, &g->bqual_length) && *p == 0;
}

/* ---- dumps ---------------------------------------------------------------------------------- */

static void dump_line(const char *indent, const unsigned char *p, size_t n, uint64_t offset)
{
    printf("%s%06" PRIx64 " ", indent, offset);
    for (size_t i = 0; i < DUMP_LINE; i++) {
        if (i < n)
            printf(" %02x", p[i]);
        else
            printf("   ");
    }
    printf("  ");
    for (size_t i = 0; i < n; i++)
        putchar(p[i] >= 0x20 && p[i] < 0x7f ? p[i] : '.');
    putchar('\n');
}

void tool_hexdump(const char *indent, const void *bytes, size_t len, uint64_t offset)
{
    const unsigned char *p = bytes;
    bool skipping = false;
    for (size_t at = 0; at < len; at += DUMP_LINE) {
        size_t n = len - at < DUMP_LINE ? len - at : DUMP_LINE;
        bool same = at && n == DUMP_LINE && at + n < len &&
                    memcmp(p + at, p + at - DUMP_LINE, DUMP_LINE) == 0;
        if (!same)
            dump_line(indent, p + at, n, offset + at);
        else if (!skipping)
            printf("%s*\n", indent);
        skipping = same;
    }
}

/* ---- text ----------------------------------------------------------------------------------- */

static int gather(void *ctx, const void *bytes, size_t len)
{
    struct tool_text *t = ctx;
    if (len >= t->size - t->len) {
        size_t size = t->len + len + 256;
        char *p = realloc(t->text, size);
        if (!p)
            return LLADD_NO_MEMORY;
        t->text = p;
        t->size = size;
    }
    memcpy(t->text + t->len, bytes, len);
    t->len += len;
    t->text[t->len] = 0;
    return 0;
}

void tool_text_init(struct tool_text *t)
{
    memset(t, 0, sizeof *t);
    t->sink.write = gather;
}

void tool_text_clear(struct tool_text *t)
{
    t->sink.ctx = t; /* set for each call, because the struct may have moved */
    t->sink.failed = 0;
    t->len = 0;
    if (t->text)
        t->text[0] = 0;
}

const char *tool_text_get(const struct tool_text *t)
{
    if (t->sink.failed)
        return "(out of memory)";
    return t->text ? t->text : "";
}

void tool_text_free(struct tool_text *t)
{
    free(t->text);
    t->text = NULL;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

json_t *tool_json_text(const char *text)
{
    return tool_json_bytes(text, strlen(text));
}

json_t *tool_json_u64(uint64_t v)
{
    char text[24];
    if (v <= INT64_MAX)
        return json_integer((json_int_t)v);
    snprintf(text, sizeof text, "%" PRIu64, v);
    return json_string(text);
}

json_t *tool_json_hex(const void *bytes, size_t len)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = bytes;
    char *text = malloc(2 * len + 1);
    if (!text)
        return NULL;
    for (size_t i = 0; i < len; i++) {
        text[2 * i] = digits[p[i] >> 4];
        text[2 * i + 1] = digits[p[i] & 15];
    }
    json_t *out = json_stringn(text, 2 * len);
    free(text);
    return out;
}

json_t *tool_json_bytes(const void *bytes, size_t len)
{
    if (len == 0)
        return json_string("");
    json_t *text = memchr(bytes, 0, len) ? NULL : json_stringn(bytes, len);
    return text ? text : json_pack("{s:o*}", "hex", tool_json_hex(bytes, len));
}

void tool_json_lsn(json_t *object, const char *key, lladd_lsn lsn)
{
    if (lsn.v)
        json_object_set_new(object, key, tool_json_u64(lsn.v));
}

struct lladd_inspect_info tool_info(const struct lladd_inspect *view)
{
    struct lladd_inspect_info i = {.struct_size = sizeof i};
    int rc = lladd_inspect_info_get(view, &i);
    if (rc)
        i = (struct lladd_inspect_info){.log_end_kind = LLADD_LOG_END_UNKNOWN};
    return i;
}

struct tool_gap tool_gap_of(const struct lladd_inspect *view)
{
    struct lladd_inspect_info i = tool_info(view);
    return (struct tool_gap){i.recycled_bytes, i.recycled_to};
}

void tool_recycled(const struct tool *t, const struct tool_gap *gap)
{
    char bytes[24];
    if (gap->bytes && !t->json)
        fprintf(stderr,
                "lladd %s: %s of log below LSN %" PRIu64
                " were truncated before they could be read, and are left out\n",
                t->verb, tool_bytes(gap->bytes, bytes), gap->to.v);
}

void tool_json_recycled(json_t *object, const struct tool_gap *gap)
{
    if (gap->bytes)
        json_object_set_new(object, "recycled",
                            json_pack("{s:o, s:o}", "bytes", tool_json_u64(gap->bytes), "to",
                                      tool_json_u64(gap->to.v)));
}

json_t *tool_json_gid(const struct lladd_gid *g)
{
    char text[TOOL_GID_MAX];
    return json_string(tool_gid(g, text));
}

/* Decodes one field. Returns its length, or SIZE_MAX if the bytes are too few. */
static size_t get_field(enum lladd_field_type type, const unsigned char *p, size_t left,
                        json_t **out)
{
    static const size_t fixed[] = {
        [LLADD_FIELD_U8] = 1,  [LLADD_FIELD_U16] = 2,  [LLADD_FIELD_U32] = 4, [LLADD_FIELD_U64] = 8,
        [LLADD_FIELD_I64] = 8, [LLADD_FIELD_PAGE] = 8, [LLADD_FIELD_LSN] = 8};
    if (type == LLADD_FIELD_BYTES16) {
        if (left < 2 || lladd_get16(p) > left - 2)
            return SIZE_MAX;
        *out = tool_json_bytes(p + 2, lladd_get16(p));
        return 2u + lladd_get16(p);
    }
    if (type == LLADD_FIELD_REST || type == LLADD_FIELD_TEXT) {
        *out = type == LLADD_FIELD_TEXT ? tool_json_bytes(p, left) : tool_json_hex(p, left);
        return left;
    }
    size_t n = type > LLADD_FIELD_END && type <= LLADD_FIELD_LSN ? fixed[type] : SIZE_MAX;
    if (n > left)
        return SIZE_MAX;
    if (n == 1)
        *out = json_integer(p[0]);
    else if (n == 2)
        *out = json_integer(lladd_get16(p));
    else if (n == 4)
        *out = json_integer(lladd_get32(p));
    else if (type == LLADD_FIELD_I64)
        *out = json_integer((json_int_t)lladd_get64(p));
    else
        *out = tool_json_u64(lladd_get64(p));
    return n;
}

json_t *tool_json_fields(const struct lladd_field *f, struct lladd_span s)
{
    const unsigned char *p = s.data;
    size_t left = s.len;
    json_t *out = json_object();
    for (; f && f->name; f++) {
        json_t *value = NULL;
        size_t n = get_field(f->type, p, left, &value);
        if (n == SIZE_MAX)
            break;
        json_object_set_new(out, f->name, value);
        p += n;
        left -= n;
    }
    if (!f || f->name || left) { /* no layout, or the bytes do not fit the layout */
        json_decref(out);
        out = json_pack("{s:o*}", "hex", tool_json_hex(s.data, s.len));
    }
    return out;
}

void tool_json_print(json_t *value, bool pretty)
{
    size_t flags = JSON_PRESERVE_ORDER | (pretty ? JSON_INDENT(2) : JSON_COMPACT);
    if (!value) {
        fprintf(stderr, "lladd: out of memory\n");
        exit(TOOL_CANNOT);
    }
    if (json_dumpf(value, stdout, flags) == 0)
        putchar('\n');
    json_decref(value);
}
