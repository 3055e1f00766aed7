/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests to S3, signed by libcurl (version 4).
 *
 * A request is sent again, after a pause, if the server could not be reached, has not answered, has
 * closed the connection, or says that it is too busy. A put may have succeeded although its reply
 * was lost. Then the next attempt finds that the name is taken, and the caller compares the object
 * (ll_ship_put). */
#include "ship/s3/s3_private.h"

#include <stdio.h>
#include <string.h>

#define PAUSE_FIRST_NS 100000000u
#define PAUSE_MOST_NS 5000000000u
#define SECOND_NS 1000000000u
/* The longest reply that is not an object. A page of a list has 1,000 keys of up to 1,024 bytes,
 * and each character may be written as an entity of six characters. */
enum { TEXT_MAX = 16 << 20 };
/* A header that S3 demands. It has the hash of no bytes. For a put, it has the word that stands for
 * the hash of the contents. */
#define NO_BYTES \
    "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define UNSIGNED "x-amz-content-sha256: UNSIGNED-PAYLOAD"

/* A request that is being sent. */
struct sending {
    struct ll_s3_link *link;
    struct ll_s3_request *request;
    int piece; /* of the contents of a put; the next byte to send is at `at` in it */
    size_t at;
    bool too_long, no_memory;
};

static bool is_good(long status)
{
    return status >= 200 && status < 300;
}

static size_t take_reply(char *bytes, size_t size, size_t n, void *ctx)
{
    struct sending *s = ctx;
    struct ll_s3_request *r = s->request;
    long status = 0;
    (void)size; /* 1 */
    if (s->link->lib.easy_getinfo(s->link->curl, CURLINFO_RESPONSE_CODE, &status) != CURLE_OK)
        return 0;
    if (r->into && status == 206) {
        s->too_long = n > r->len - r->got;
        if (s->too_long)
            return 0;
        memcpy((char *)r->into + r->got, bytes, n);
        r->got += n;
        return n;
    }
    /* 200: the server ignores the range, and sends the whole object. */
    s->too_long = (r->into && status == 200) || n > TEXT_MAX - r->text.len;
    if (s->too_long)
        return 0;
    s->no_memory = ll_ship_append(&r->text, bytes, n, NULL) != 0;
    return s->no_memory ? 0 : n;
}

static size_t give_contents(char *out, size_t size, size_t n, void *ctx)
{
    struct sending *s = ctx;
    const struct ll_s3_request *r = s->request;
    size_t done = 0;
    (void)size; /* 1 */
    while (done < n && s->piece < r->n) {
        const struct lladd_iovec *piece = &r->pieces[s->piece];
        size_t left = piece->len - s->at, len = left < n - done ? left : n - done;
        if (len)
            memcpy(out + done, (const char *)piece->data + s->at, len);
        done += len;
        s->at += len;
        if (s->at == piece->len) {
            s->piece++;
            s->at = 0;
        }
    }
    return done;
}

/* libcurl goes back to the begin if a connection that it has kept open turns out to be closed. */
static int go_back(void *ctx, curl_off_t offset, int origin)
{
    struct sending *s = ctx;
    if (origin != SEEK_SET || offset != 0)
        return CURL_SEEKFUNC_CANTSEEK;
    s->piece = 0;
    s->at = 0;
    return CURL_SEEKFUNC_OK;
}

/* ---- the connection ------------------------------------------------------------------------- */

#define SET(option, value) (ok = ok && l->lib.easy_setopt(l->curl, option, value) == CURLE_OK)

static bool set_up(struct ll_s3_link *l)
{
    char sign[128];
    const struct ll_s3_place *p = &l->place;
    long seconds = (long)((p->timeout_ns + SECOND_NS - 1) / SECOND_NS);
    bool ok = snprintf(sign, sizeof sign, "aws:amz:%s:s3", p->region) > 0;
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "https,http");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_AWS_SIGV4, sign);
    SET(CURLOPT_USERNAME, p->key_id);
    SET(CURLOPT_PASSWORD, p->secret);
    if (p->ca_file)
        SET(CURLOPT_CAINFO, p->ca_file);
    SET(CURLOPT_ERRORBUFFER, l->error);
    SET(CURLOPT_CONNECTTIMEOUT, seconds);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, seconds);
    SET(CURLOPT_WRITEFUNCTION, take_reply);
    SET(CURLOPT_READFUNCTION, give_contents);
    SET(CURLOPT_SEEKFUNCTION, go_back);
    return ok;
}

int ll_s3_link_open(struct ll_s3_link *l, struct lladd_error *err)
{
    struct ll_ship_buf header = {.mem = l->place.mem};
    const char *token = l->place.token;
    int rc = ll_s3_curl_load(&l->lib, err);
    if (rc)
        return rc;
    l->global = l->lib.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    l->curl = l->global ? l->lib.easy_init() : NULL;
    if (!l->curl)
        return lladd_error_set(err, LLADD_STORE_FAILED, "libcurl could not be initialised");
    if (token) {
        static const char name[] = "x-amz-security-token: ";
        rc = ll_ship_append(&header, name, sizeof name - 1, err);
        if (!rc)
            rc = ll_ship_append(&header, token, strlen(token) + 1, err);
        l->token_header = rc ? NULL : l->lib.slist_append(NULL, (const char *)header.data);
        if (header.data)
            explicit_bzero(header.data, header.len);
        ll_ship_buf_free(&header);
    }
    if ((token && !l->token_header) || !set_up(l))
        return lladd_error_set(err, LLADD_STORE_FAILED, "libcurl refuses the options for S3");
    return 0;
}

void ll_s3_link_close(struct ll_s3_link *l)
{
    if (l->curl)
        l->lib.easy_cleanup(l->curl);
    if (l->token_header)
        explicit_bzero(l->token_header->data, strlen(l->token_header->data));
    if (l->token_header)
        l->lib.slist_free_all(l->token_header);
    if (l->global)
        l->lib.global_cleanup();
    ll_s3_curl_unload(&l->lib);
    ll_s3_place_free(&l->place);
}

/* ---- one request ---------------------------------------------------------------------------- */

static int append_url(const struct ll_s3_link *l, const struct ll_s3_request *r,
                      struct ll_ship_buf *url, struct lladd_error *err)
{
    const char *parts[] = {l->place.url, r->key, r->query ? "?" : "", r->query ? r->query : ""};
    int rc = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0] && !rc; i++)
        rc = ll_ship_append(url, parts[i], strlen(parts[i]), err);
    return rc ? rc : ll_ship_append(url, "", 1, err);
}

/* The list of headers. The header with the session token is the last. libcurl signs all of them. */
static struct curl_slist *list_headers(const struct ll_s3_link *l, const struct ll_s3_request *r,
                                       struct curl_slist own[2])
{
    bool put = r->method == LL_S3_PUT;
    own[0] =
        (struct curl_slist){(char *)(put ? UNSIGNED : NO_BYTES), put ? &own[1] : l->token_header};
    own[1] = (struct curl_slist){(char *)"If-None-Match: *", l->token_header};
    return own;
}

static bool set_request(struct ll_s3_link *l, struct sending *s, const char *url,
                        struct curl_slist *headers, const char *range)
{
    const struct ll_s3_request *r = s->request;
    curl_off_t length = 0;
    bool ok = true, put = r->method == LL_S3_PUT;
    for (int i = 0; put && i < r->n; i++)
        length += (curl_off_t)r->pieces[i].len;
    SET(CURLOPT_UPLOAD, put ? 1L : 0L);
    if (!put)
        SET(CURLOPT_HTTPGET, 1L);
    SET(CURLOPT_CUSTOMREQUEST, r->method == LL_S3_DELETE ? "DELETE" : NULL);
    SET(CURLOPT_INFILESIZE_LARGE, put ? length : -1);
    SET(CURLOPT_RANGE, r->into ? range : NULL);
    SET(CURLOPT_URL, url);
    SET(CURLOPT_HTTPHEADER, headers);
    SET(CURLOPT_WRITEDATA, s);
    SET(CURLOPT_READDATA, s);
    SET(CURLOPT_SEEKDATA, s);
    return ok;
}

static const char *verb(const struct ll_s3_request *r)
{
    return r->method == LL_S3_PUT ? "PUT" : r->method == LL_S3_DELETE ? "DELETE" : "GET";
}

/* Can the same request succeed if it is sent again? */
static bool passes(CURLcode rc)
{
    static const CURLcode all[] = {
        CURLE_COULDNT_RESOLVE_PROXY, CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT,
        CURLE_PARTIAL_FILE,          CURLE_OPERATION_TIMEDOUT,   CURLE_SSL_CONNECT_ERROR,
        CURLE_GOT_NOTHING,           CURLE_SEND_ERROR,           CURLE_RECV_ERROR,
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (rc == all[i])
            return true;
    return false;
}

/* Is the answer a failure of the server, or a request to come back later? 409: another request for
 * the same name is under way. */
static bool is_busy(const struct ll_s3_request *r)
{
    return r->status == 408 || r->status == 409 || r->status == 429 || r->status == 500 ||
           (r->status >= 502 && r->status <= 504) ||
           (r->status == 400 && strcmp(r->code, "RequestTimeout") == 0);
}

static int failed(struct ll_s3_link *l, const struct sending *s, CURLcode why,
                  struct lladd_error *err)
{
    const struct ll_s3_request *r = s->request;
    const char *text = r->into && r->status == 200 ? "the server ignores the range of a request"
                       : s->too_long               ? "the reply is too long"
                       : l->error[0]               ? l->error
                                                   : l->lib.easy_strerror(why);
    if (s->no_memory || why == CURLE_OUT_OF_MEMORY)
        return ll_ship_no_memory(err);
    return lladd_error_set(err, LLADD_STORE_FAILED, "%s \"s3://%s/%.110s\": %.100s", verb(r),
                           l->place.bucket, r->key, text);
}

/* Sends the request once. *again: it failed, and may be sent again. */
static int send_once(struct ll_s3_link *l, struct ll_s3_request *r, const char *url, bool *again,
                     struct lladd_error *err)
{
    struct sending s = {.link = l, .request = r};
    struct curl_slist own[2];
    char range[64];
    (void)snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)r->offset,
                   (unsigned long long)(r->offset + r->len - 1));
    r->status = 0;
    r->got = r->text.len = 0;
    r->code[0] = r->message[0] = 0;
    l->error[0] = 0;
    *again = false;
    if (!set_request(l, &s, url, list_headers(l, r, own), range))
        return ll_ship_no_memory(err);
    CURLcode rc = l->lib.easy_perform(l->curl);
    if (l->lib.easy_getinfo(l->curl, CURLINFO_RESPONSE_CODE, &r->status) != CURLE_OK)
        r->status = 0;
    if (rc != CURLE_OK) {
        *again = passes(rc);
        return failed(l, &s, rc, err);
    }
    if (!is_good(r->status))
        ll_s3_error_read(r->text.data, r->text.len, r->code, sizeof r->code, r->message,
                         sizeof r->message);
    *again = is_busy(r);
    return *again ? ll_s3_refused(l, r, err) : 0;
}

/* Waits for half to all of a time that doubles with each attempt. The random share keeps clients
 * that failed together from coming back together. */
static int pause_before(struct ll_s3_link *l, uint32_t attempt, struct lladd_error *err)
{
    uint64_t ns = PAUSE_FIRST_NS;
    uint32_t random;
    int rc = ll_ship_random(&l->world, &random, sizeof random, err);
    if (rc)
        return rc;
    for (uint32_t i = 1; i < attempt && ns < PAUSE_MOST_NS; i++)
        ns *= 2;
    ns = ns < PAUSE_MOST_NS ? ns : PAUSE_MOST_NS;
    return ll_ship_pause(ns / 2 + random % (ns / 2), err);
}

int ll_s3_send(struct ll_s3_link *l, struct ll_s3_request *r, struct lladd_error *err)
{
    struct ll_ship_buf url = {.mem = l->place.mem};
    bool again = true;
    r->text.mem = l->place.mem;
    int rc = append_url(l, r, &url, err);
    if (rc)
        again = false;
    for (uint32_t attempt = 1; again; attempt++) {
        rc = send_once(l, r, (const char *)url.data, &again, err);
        again = again && attempt < l->place.attempts;
        int woken = again ? pause_before(l, attempt, err) : 0;
        if (woken) {
            rc = woken;
            again = false;
        }
    }
    ll_ship_buf_free(&url);
    return rc;
}

int ll_s3_refused(const struct ll_s3_link *l, const struct ll_s3_request *r,
                  struct lladd_error *err)
{
    int code = r->status == 401 || r->status == 403 ? LLADD_NO_ACCESS
               : r->status == 507                   ? LLADD_NO_SPACE
                                                    : LLADD_STORE_FAILED;
    return lladd_error_set(err, code, "%s \"s3://%s/%.90s\": HTTP status %ld%s%s%s%.80s", verb(r),
                           l->place.bucket, r->key, r->status, r->code[0] ? ", " : "", r->code,
                           r->message[0] ? ": " : "", r->message);
}

void ll_s3_request_free(struct ll_s3_request *r)
{
    ll_ship_buf_free(&r->text);
}
