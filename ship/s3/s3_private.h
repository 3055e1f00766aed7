/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SHIP_S3_S3_PRIVATE_H
#define SHIP_S3_S3_PRIVATE_H
/* What the files of ship/s3/ share. place.c finds out where the bucket is, and with which
 * credentials; curl.c loads libcurl; request.c sends requests; reply.c reads XML; store_s3.c is the
 * store. */
#include "ship/ship_private.h"

#include <curl/curl.h>

/* ---- place.c -------------------------------------------------------------------------------- */

/* Where the objects are. The strings are freed with ll_s3_place_free. */
struct ll_s3_place {
    struct ll_ship_mem mem;
    char *url;    /* of the bucket, with a '/' at the end */
    char *bucket; /* for messages, too */
    char *prefix; /* of all names: "", or with a '/' at the end */
    char *region;
    char *key_id, *secret;
    char *token;   /* NULL: none */
    char *ca_file; /* NULL: the system's */
    uint64_t timeout_ns;
    uint32_t attempts;
};
/* Takes what the options lack from the environment. `where`: "BUCKET/PREFIX". */
int ll_s3_place_find(struct ll_s3_place *, const char *where, const struct lladd_s3_options *,
                     struct lladd_error *);
/* Overwrites the credentials before it frees them. */
void ll_s3_place_free(struct ll_s3_place *);

/* ---- reply.c -------------------------------------------------------------------------------- */

/* An object in a list: a struct ll_s3_entry and then its key with a NUL, without padding. */
struct ll_s3_entry {
    uint64_t size;
    uint64_t key_len; /* with the NUL */
};
/* One page of a list. */
struct ll_s3_page {
    struct ll_ship_buf entries;
    struct ll_ship_buf token;  /* text with a NUL; len 0: no page follows */
    struct ll_ship_buf before; /* the token with which the page was asked for */
};
/* Reads the reply to ListObjectsV2 of the page that page->token names. LLADD_STORE_FAILED: it is
 * not such a reply, or incomplete. */
int ll_s3_page_read(struct ll_s3_page *, const void *bytes, size_t len, struct lladd_error *);
/* Reads the code and the message of an error; "" if the bytes are not an error of S3. */
void ll_s3_error_read(const void *bytes, size_t len, char *code, size_t code_size, char *message,
                      size_t message_size);

/* ---- curl.c --------------------------------------------------------------------------------- */

/* The functions of libcurl, by their names without "curl_". */
struct ll_s3_curl {
    void *library;
    __typeof__(&curl_global_init) global_init;
    __typeof__(&curl_global_cleanup) global_cleanup;
    __typeof__(&curl_version_info) version_info;
    __typeof__(&curl_easy_init) easy_init;
    __typeof__(&curl_easy_cleanup) easy_cleanup;
    __typeof__(&curl_easy_setopt) easy_setopt;
    __typeof__(&curl_easy_getinfo) easy_getinfo;
    __typeof__(&curl_easy_perform) easy_perform;
    __typeof__(&curl_easy_strerror) easy_strerror;
    __typeof__(&curl_slist_append) slist_append;
    __typeof__(&curl_slist_free_all) slist_free_all;
};
int ll_s3_curl_load(struct ll_s3_curl *, struct lladd_error *);
void ll_s3_curl_unload(struct ll_s3_curl *);

/* ---- request.c ------------------------------------------------------------------------------ */

enum ll_s3_method { LL_S3_GET, LL_S3_PUT, LL_S3_DELETE };

/* A connection to the server. */
struct ll_s3_link {
    struct ll_s3_place place;
    struct lladd_environment world;
    struct ll_s3_curl lib;
    CURL *curl;
    bool global;                     /* curl_global_cleanup is due */
    struct curl_slist *token_header; /* NULL: no session token */
    char error[CURL_ERROR_SIZE];
};
int ll_s3_link_open(struct ll_s3_link *, struct lladd_error *);
void ll_s3_link_close(struct ll_s3_link *);

struct ll_s3_request {
    enum ll_s3_method method;
    const char *key;   /* with the prefix; "": the bucket itself */
    const char *query; /* as in the signature: sorted and escaped; NULL: none */
    /* A put, with If-None-Match: the contents. */
    const struct lladd_iovec *pieces;
    int n;
    /* A get: `len` bytes from `offset` on go to `into`. NULL: the reply goes to `text`. */
    void *into;
    uint64_t offset;
    size_t len;
    /* What the server has answered. */
    long status;
    size_t got;                  /* bytes in `into` */
    struct ll_ship_buf text;     /* the reply, if it did not go to `into` */
    char code[64], message[160]; /* of S3's error, or "" */
};
/* Sends the request, several times if the server fails. Returns 0 if there is an answer, of
 * whatever status, that is not a failure of the server. */
int ll_s3_send(struct ll_s3_link *, struct ll_s3_request *, struct lladd_error *);
/* The error of a request that was answered with an unexpected status. */
int ll_s3_refused(const struct ll_s3_link *, const struct ll_s3_request *, struct lladd_error *);
void ll_s3_request_free(struct ll_s3_request *);
#endif
