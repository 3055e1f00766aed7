/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a bucket is, and the credentials: from the options, or from the environment variables that
 * Amazon's tools read. Credentials are never a part of a URL or of a message. */
#include "ship/s3/s3_private.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_REGION "us-east-1"
#define DEFAULT_TIMEOUT_NS 60000000000u
#define SECOND_NS 1000000000u
enum { DEFAULT_ATTEMPTS = 5, BUCKET_MIN = 3, BUCKET_MAX = 63, TEXT_MAX = 1024, TOKEN_MAX = 16384 };

/* The value of the first variable that is set and not empty; NULL: there is none. */
static const char *variable(const char *name, const char *other)
{
    const char *value = getenv(name);
    if ((!value || !*value) && other)
        value = getenv(other);
    return value && *value ? value : NULL;
}

/* A copy of the texts, one after the other. A NULL ends the arguments. */
static char *join(struct ll_ship_mem mem, const char *first, ...)
{
    size_t len = 0, at = 0;
    va_list ap;
    va_start(ap, first);
    for (const char *text = first; text; text = va_arg(ap, const char *))
        len += strlen(text);
    va_end(ap);
    char *all = ll_ship_new(mem, len + 1);
    va_start(ap, first);
    for (const char *text = first; text && all; text = va_arg(ap, const char *)) {
        size_t n = strlen(text);
        memcpy(all + at, text, n + 1);
        at += n;
    }
    va_end(ap);
    return all;
}

/* Does the text consist of letters, digits and these characters only? */
static bool plain(const char *text, size_t len, const char *others)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c && strchr(others, c))))
            return false;
    }
    return true;
}

/* Can the text be sent in a header? */
static bool printable(const char *text, size_t most)
{
    size_t len = strlen(text);
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len > 0 && len <= most;
}

static int no_memory_if(bool without, struct lladd_error *err)
{
    return without ? ll_ship_no_memory(err) : 0;
}

/* Refuses text with credentials, and does not repeat it. */
static int check_text(const char *text, struct lladd_error *err)
{
    return strchr(text, '@') ? lladd_error_set(err, LLADD_BAD_ARGUMENT,
                                               "a URL for S3 has no credentials in it: set "
                                               "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
                             : 0;
}

static int find_names(struct ll_s3_place *p, const char *where, struct lladd_error *err)
{
    size_t len = strcspn(where, "/"), rest = strlen(where + len);
    if (len < BUCKET_MIN || len > BUCKET_MAX || !plain(where, len, ".-_") || where[0] == '.')
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "\"s3://%.100s\" does not begin with the name of a bucket", where);
    const char *prefix = where + len + (rest > 0);
    rest = strlen(prefix);
    p->bucket = join(p->mem, where, NULL);
    p->prefix = join(p->mem, prefix, "/", NULL);
    if (!p->bucket || !p->prefix)
        return ll_ship_no_memory(err);
    p->bucket[len] = 0;
    if (rest && prefix[rest - 1] == '/')
        rest--;
    p->prefix[rest] = 0;
    if (rest && !ll_ship_name_ok(p->prefix))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "\"%.100s\" cannot be the prefix of a store: it has components of "
                               "letters, digits and \"._-\"",
                               prefix);
    if (rest) {
        p->prefix[rest] = '/';
        p->prefix[rest + 1] = 0;
    }
    return 0;
}

/* The URL of the bucket. */
static int find_url(struct ll_s3_place *p, const struct lladd_s3_options *o,
                    struct lladd_error *err)
{
    const char *endpoint =
        o->endpoint ? o->endpoint : variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    if (!endpoint) {
        bool dot = strchr(p->bucket, '.') != NULL; /* the certificate allows only one component */
        p->url = join(p->mem, "https://", dot ? "" : p->bucket, dot ? "" : ".", "s3.", p->region,
                      ".amazonaws.com/", dot ? p->bucket : "", dot ? "/" : "", NULL);
        return no_memory_if(!p->url, err);
    }
    int rc = check_text(endpoint, err);
    if (rc)
        return rc;
    const char *scheme = "https://", *host = strstr(endpoint, "://");
    host = host ? host + 3 : endpoint;
    if (strncmp(endpoint, "http://", 7) == 0)
        scheme = "http://";
    else if (host != endpoint && strncmp(endpoint, "https://", 8) != 0)
        host = "";
    size_t len = strlen(host);
    while (len && host[len - 1] == '/')
        len--;
    if (len == 0 || len > TEXT_MAX || !plain(host, len, ".-_:[]/"))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "\"%.100s\" is no endpoint: expected HOST:PORT", endpoint);
    char *server = join(p->mem, host, NULL);
    if (!server)
        return ll_ship_no_memory(err);
    server[len] = 0;
    p->url = join(p->mem, scheme, o->host_style ? p->bucket : "", o->host_style ? "." : "", server,
                  "/", o->host_style ? "" : p->bucket, o->host_style ? "" : "/", NULL);
    ll_ship_delete(p->mem, server);
    return no_memory_if(!p->url, err);
}

static int find_credentials(struct ll_s3_place *p, const struct lladd_s3_options *o,
                            struct lladd_error *err)
{
    bool given = o->access_key_id != NULL;
    const char *id = given ? o->access_key_id : variable("AWS_ACCESS_KEY_ID", NULL);
    const char *secret = given ? o->secret_access_key : variable("AWS_SECRET_ACCESS_KEY", NULL);
    const char *token = given ? o->session_token : variable("AWS_SESSION_TOKEN", NULL);
    if (!id || !secret)
        return lladd_error_set(err, LLADD_NO_ACCESS,
                               "no credentials for the bucket \"%s\": set AWS_ACCESS_KEY_ID and "
                               "AWS_SECRET_ACCESS_KEY",
                               p->bucket);
    if (!printable(id, TEXT_MAX) || !printable(secret, TEXT_MAX) ||
        (token && !printable(token, TOKEN_MAX)))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "the credentials for the bucket \"%s\" have characters that "
                               "credentials cannot have",
                               p->bucket);
    p->key_id = join(p->mem, id, NULL);
    p->secret = join(p->mem, secret, NULL);
    p->token = token ? join(p->mem, token, NULL) : NULL;
    return no_memory_if(!p->key_id || !p->secret || (token && !p->token), err);
}

static int find_attempts(struct ll_s3_place *p, const struct lladd_s3_options *o,
                         struct lladd_error *err)
{
    const char *text = o->attempts ? NULL : variable("AWS_MAX_ATTEMPTS", NULL);
    char *end = NULL;
    unsigned long n = text ? strtoul(text, &end, 10) : 0;
    if (text && (n == 0 || n > UINT32_MAX || *end || !plain(text, strlen(text), "")))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT,
                               "AWS_MAX_ATTEMPTS is \"%.40s\", which is no number above 0", text);
    p->attempts = o->attempts ? o->attempts : text ? (uint32_t)n : DEFAULT_ATTEMPTS;
    p->timeout_ns = o->timeout_ns ? o->timeout_ns : DEFAULT_TIMEOUT_NS;
    /* libcurl takes this time as a long, in seconds. */
    if (p->timeout_ns / SECOND_NS >= LONG_MAX / 1000)
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "timeout_ns is too long");
    return 0;
}

int ll_s3_place_find(struct ll_s3_place *p, const char *where, const struct lladd_s3_options *o,
                     struct lladd_error *err)
{
    int rc = check_text(where, err);
    if (!rc)
        rc = find_names(p, where, err);
    if (rc)
        return rc;
    const char *region = o->region ? o->region : variable("AWS_REGION", "AWS_DEFAULT_REGION");
    region = region ? region : DEFAULT_REGION;
    if (!*region || strlen(region) > BUCKET_MAX || !plain(region, strlen(region), "-"))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "\"%.100s\" is no region", region);
    const char *ca_file = o->ca_file ? o->ca_file : variable("AWS_CA_BUNDLE", NULL);
    p->region = join(p->mem, region, NULL);
    p->ca_file = ca_file ? join(p->mem, ca_file, NULL) : NULL;
    if (!p->region || (ca_file && !p->ca_file))
        return ll_ship_no_memory(err);
    rc = find_url(p, o, err);
    if (!rc)
        rc = find_credentials(p, o, err);
    return rc ? rc : find_attempts(p, o, err);
}

static void forget(struct ll_ship_mem mem, char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    ll_ship_delete(mem, secret);
}

void ll_s3_place_free(struct ll_s3_place *p)
{
    ll_ship_delete(p->mem, p->url);
    ll_ship_delete(p->mem, p->bucket);
    ll_ship_delete(p->mem, p->prefix);
    ll_ship_delete(p->mem, p->region);
    ll_ship_delete(p->mem, p->ca_file);
    forget(p->mem, p->key_id);
    forget(p->mem, p->secret);
    forget(p->mem, p->token);
}
