/* SPDX-License-Identifier: BSD-2-Clause */
/* Open strings: `key=value` pairs separated by `;`, with a backslash as the escape character
 * (lladd/xa.h). For an unknown key, or a repeated key other than `ops`, the message names the
 * key. */
#include "xa/xa_private.h"

#include <lladd/op.h>
#include <stdlib.h>
#include <string.h>

#define REFUSE(...) return lladd_error_set(err, LLADD_BAD_ARGUMENT, __VA_ARGS__)

/* Reads one word, up to an unescaped `stop` or ';'. *at then points at the byte that ended the
 * word. */
static int word(const char **at, char stop, char out[MAXINFOSIZE], struct lladd_error *err)
{
    size_t n = 0;
    const char *p = *at;
    while (*p && *p != stop && *p != ';') {
        if (*p == '\\' && *++p == 0)
            REFUSE("the open string ends after a backslash");
        out[n++] = *p++; /* in bounds, because the length of the open string was checked */
    }
    out[n] = 0;
    *at = p;
    return 0;
}

static bool size_of(const char *text, uint64_t *out)
{
    uint64_t v = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (v > (UINT64_MAX >> 32) / 10)
            return false;
        v = v * 10 + (uint64_t)(*p - '0');
    }
    unsigned shift = *p == 'K' ? 10 : *p == 'M' ? 20 : *p == 'G' ? 30 : 0;
    if (p == text || p[shift ? 1 : 0] != 0)
        return false;
    *out = v << shift;
    return true;
}

static int take_size(const char *key, const char *value, uint64_t *out, struct lladd_error *err)
{
    if (!size_of(value, out) || *out == 0)
        REFUSE("%s=%s: not a number of bytes", key, value);
    return 0;
}

static int take_choice(const char *key, const char *value, const char *no, const char *yes,
                       bool *out, struct lladd_error *err)
{
    *out = strcmp(value, yes) == 0;
    if (!*out && strcmp(value, no) != 0)
        REFUSE("%s=%s: expected %s or %s", key, value, no, yes);
    return 0;
}

static int take_text(const char *key, const char *value, char *out, size_t room,
                     struct lladd_error *err)
{
    if (*value == 0 || strlen(value) >= room)
        REFUSE("%s: 1 to %zu bytes", key, room - 1);
    memcpy(out, value, strlen(value) + 1);
    return 0;
}

static int take_wait(const char *value, uint64_t *ns, struct lladd_error *err)
{
    uint64_t seconds;
    if (!size_of(value, &seconds) || seconds > 86400)
        REFUSE("wait=%s: not a number of seconds up to 86400", value);
    *ns = seconds * UINT64_C(1000000000);
    return 0;
}

static int take_mode(const char *value, uint32_t *mode, struct lladd_error *err)
{
    char *end;
    unsigned long v = strtoul(value, &end, 8);
    if (*value < '0' || *value > '7' || *end || v > 0666 || (v & 0600) != 0600 || v & 0111)
        REFUSE("mode=%s: expected the mode of a file, from 0600 to 0666", value);
    *mode = (uint32_t)v;
    return 0;
}

static int take_plugin(const char *value, struct ll_xa__spec *s, struct lladd_error *err)
{
    if (s->n_plugins == LL_XA__PLUGINS)
        REFUSE("ops: at most %d plug-ins", LL_XA__PLUGINS);
    return take_text("ops", value, s->plugins[s->n_plugins++], MAXINFOSIZE, err);
}

static const char *const keys[] = {"dir",   "ops",  "create", "cache", "log_limit",
                                   "owner", "wait", "mode",   "threads"};
enum { DIR, OPS, CREATE, CACHE, LOG_LIMIT, OWNER, WAIT, MODE, THREADS, KEYS };

static int take(unsigned key, const char *value, struct ll_xa__spec *s, struct lladd_error *err)
{
    switch (key) {
    case DIR:
        return take_text("dir", value, s->dir, sizeof s->dir, err);
    case OPS:
        return take_plugin(value, s, err);
    case CREATE:
        return take_choice("create", value, "no", "yes", &s->create, err);
    case CACHE:
        return take_size("cache", value, &s->cache_bytes, err);
    case LOG_LIMIT:
        return take_size("log_limit", value, &s->log_limit_bytes, err);
    case OWNER:
        return take_text("owner", value, s->owner, sizeof s->owner, err);
    case WAIT:
        return take_wait(value, &s->wait_ns, err);
    case MODE:
        return take_mode(value, &s->file_mode, err);
    default:
        return take_choice("threads", value, "each", "any", &s->any_thread, err);
    }
}

int ll_xa__parse(const char *text, struct ll_xa__spec *out, struct lladd_error *err)
{
    char key[MAXINFOSIZE], value[MAXINFOSIZE];
    unsigned seen = 0;
    memset(out, 0, sizeof *out);
    memcpy(out->owner, "xa", 3);
    out->wait_ns = UINT64_C(60000000000);
    if (strnlen(text, MAXINFOSIZE) == MAXINFOSIZE)
        REFUSE("an open string has at most %d bytes", MAXINFOSIZE - 1);
    for (const char *p = text; *p; p += *p == ';') {
        if (word(&p, '=', key, err))
            return err ? err->code : LLADD_BAD_ARGUMENT;
        if (*p != '=')
            REFUSE("\"%.100s\": expected key=value", key);
        p++;
        if (word(&p, ';', value, err))
            return err ? err->code : LLADD_BAD_ARGUMENT;
        unsigned k = 0;
        while (k < KEYS && strcmp(keys[k], key) != 0)
            k++;
        if (k == KEYS)
            REFUSE("\"%.100s\" is not a key of an open string", key);
        if (k != OPS && (seen & (1u << k)))
            REFUSE("%s is given twice", key);
        seen |= 1u << k;
        int rc = take(k, value, out, err);
        if (rc)
            return rc;
    }
    return 0;
}
