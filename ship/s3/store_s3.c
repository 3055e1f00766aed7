/* SPDX-License-Identifier: BSD-2-Clause */
/* The store in an S3 bucket.
 *
 * An object of the store is an object of the bucket, put by one request: it is whole and durable
 * when it is there. A put has the condition "If-None-Match: *", so it never replaces an object. A
 * server that ignores the condition would break every store. So the first put of a store tests the
 * server: it puts a certain object twice, and the server must refuse the second put.
 *
 * A request takes long, and a restore reads an object in small pieces from its begin to its end. So
 * a get that goes on where the last get has ended reads ahead. The bytes that were read ahead are
 * right, because an object never changes. If the object was deleted meanwhile, the reader does not
 * notice at once. */
#include "ship/s3/s3_private.h"

#include <string.h>

/* The name begins with a dot, so no object of a store can have this name. */
#define PROOF ".put-if-absent"
#define PUT_MOST (5ull << 30) /* the maximum number of bytes that one request may put */
#define AHEAD_FIRST (256u << 10)
#define AHEAD_MOST (8u << 20)
enum { KEY_SIZE = 1024, HTTP_EXISTS = 412, HTTP_RANGE = 416, HTTP_NOT_FOUND = 404 };

/* What was read last, and what was read ahead of it. */
struct ahead {
    char name[LL_SHIP_NAME_MAX]; /* name of the object; "": no object was read */
    uint64_t next;               /* the last get has ended here */
    uint64_t offset;             /* offset of `bytes` in the object */
    struct ll_ship_buf bytes;
    size_t window; /* the number of bytes that were asked for; 0: none were read ahead */
};

struct store_s3 {
    struct lladd_store base;
    struct ll_s3_link link;
    bool proved; /* the server heeds If-None-Match */
    struct ahead ahead;
};

static struct store_s3 *s3_of(struct lladd_store *s)
{
    return (struct store_s3 *)s;
}

static bool is_good(const struct ll_s3_request *r)
{
    return r->status >= 200 && r->status < 300;
}

/* The key of the object: the prefix and its name. */
static int key_of(const struct store_s3 *s, const char *name, char out[KEY_SIZE],
                  struct lladd_error *err)
{
    size_t prefix = strlen(s->link.place.prefix), len = strlen(name);
    if (prefix + len >= KEY_SIZE)
        return lladd_error_set(err, LLADD_TOO_LARGE, "the key of \"%.100s\" is too long", name);
    memcpy(out, s->link.place.prefix, prefix);
    memcpy(out + prefix, name, len + 1);
    return 0;
}

static int key_of_object(const struct store_s3 *s, const char *name, char out[KEY_SIZE],
                         struct lladd_error *err)
{
    if (!ll_ship_name_ok(name))
        return lladd_error_set(err, LLADD_BAD_ARGUMENT, "\"%.100s\" is no name of an object", name);
    return key_of(s, name, out, err);
}

static int not_found(const char *name, struct lladd_error *err)
{
    return lladd_error_set(err, LLADD_NOT_FOUND, "\"%.150s\" is not in the store", name);
}

/* A server also answers 404 if the bucket is missing, or if the server is no S3 server. */
static bool is_missing(const struct ll_s3_request *r)
{
    return r->status == HTTP_NOT_FOUND && strcmp(r->code, "NoSuchKey") == 0;
}

/* ---- put ------------------------------------------------------------------------------------ */

/* *taken: there is an object of this name. */
static int put_absent(struct store_s3 *s, const char *key, const struct lladd_iovec *pieces, int n,
                      bool *taken, struct lladd_error *err)
{
    struct ll_s3_request r = {.method = LL_S3_PUT, .key = key, .pieces = pieces, .n = n};
    int rc = ll_s3_send(&s->link, &r, err);
    *taken = !rc && r.status == HTTP_EXISTS;
    if (!rc && !*taken && !is_good(&r))
        rc = ll_s3_refused(&s->link, &r, err);
    ll_s3_request_free(&r);
    return rc;
}

static int prove(struct store_s3 *s, struct lladd_error *err)
{
    static const char text[] = "lladd puts this object twice.\n";
    struct lladd_iovec piece = {text, sizeof text - 1};
    char key[KEY_SIZE];
    int rc = s->proved ? 0 : key_of(s, PROOF, key, err);
    for (int i = 0; i < 2 && !rc && !s->proved; i++)
        rc = put_absent(s, key, &piece, 1, &s->proved, err);
    if (!rc && !s->proved)
        rc = lladd_error_set(err, LLADD_STORE_FAILED,
                             "the server of \"s3://%s/%.90s\" ignores \"If-None-Match: *\", so it "
                             "cannot have a store",
                             s->link.place.bucket, key);
    return rc;
}

static int s3_put(struct lladd_store *store, const char *name, const struct lladd_iovec *pieces,
                  int n, struct lladd_error *err)
{
    struct store_s3 *s = s3_of(store);
    char key[KEY_SIZE];
    bool taken = false;
    uint64_t size = 0;
    for (int i = 0; i < n; i++)
        size += pieces[i].len;
    int rc = key_of_object(s, name, key, err);
    if (!rc && size > PUT_MOST)
        rc = lladd_error_set(err, LLADD_TOO_LARGE, "\"%.150s\" is larger than 5 GiB", name);
    if (!rc)
        rc = prove(s, err);
    if (!rc)
        rc = put_absent(s, key, pieces, n, &taken, err);
    if (!rc && taken)
        rc = lladd_error_set(err, LLADD_EXISTS, "\"%.150s\" is in the store already", name);
    return rc;
}

/* ---- get, remove ---------------------------------------------------------------------------- */

/* Reads bytes from the object; *got, which may be less than `len`, says how many. For an empty
 * object a server sends the whole object (200), or says that there is no such range (416). */
static int get_some(struct store_s3 *s, const char *name, uint64_t offset, void *bytes, size_t len,
                    size_t *got, struct lladd_error *err)
{
    char key[KEY_SIZE];
    struct ll_s3_request r = {
        .method = LL_S3_GET, .key = key, .into = bytes, .offset = offset, .len = len};
    int rc = key_of_object(s, name, key, err);
    if (!rc)
        rc = ll_s3_send(&s->link, &r, err);
    *got = r.got;
    if (!rc && is_missing(&r))
        rc = not_found(name, err);
    else if (!rc && r.status != HTTP_RANGE && r.status != 206 && r.status != 200)
        rc = ll_s3_refused(&s->link, &r, err);
    ll_s3_request_free(&r);
    return rc;
}

/* LLADD_NOT_FOUND if there is no such object. */
static int find(struct store_s3 *s, const char *name, struct lladd_error *err)
{
    char byte;
    size_t got;
    return get_some(s, name, 0, &byte, 1, &got, err);
}

static void forget_ahead(struct store_s3 *s)
{
    s->ahead.name[0] = 0;
    s->ahead.bytes.len = s->ahead.window = 0;
}

/* Are all of these bytes there already? False for the first bytes of an object: a caller may ask
 * for the first bytes to learn whether the object exists. */
static bool is_ahead(const struct ahead *a, uint64_t offset, size_t len)
{
    return a->bytes.len && offset > 0 && offset >= a->offset &&
           offset - a->offset <= a->bytes.len && len <= a->bytes.len - (offset - a->offset);
}

/* Reads at least `len` bytes ahead, if the object has as many. */
static int read_ahead(struct store_s3 *s, const char *name, uint64_t offset, size_t len,
                      struct lladd_error *err)
{
    struct ahead *a = &s->ahead;
    size_t window = a->window ? 2 * a->window : AHEAD_FIRST;
    window = window < AHEAD_MOST ? window : AHEAD_MOST;
    window = window > len ? window : len;
    a->bytes.len = 0;
    a->bytes.mem = s->link.place.mem;
    void *room = ll_ship_room(&a->bytes, window);
    if (!room)
        return ll_ship_no_memory(err);
    int rc = get_some(s, name, offset, room, window, &a->bytes.len, err);
    a->offset = offset;
    a->window = window;
    return rc;
}

static int s3_get(struct lladd_store *store, const char *name, uint64_t offset, void *bytes,
                  size_t len, struct lladd_error *err)
{
    struct store_s3 *s = s3_of(store);
    struct ahead *a = &s->ahead;
    size_t got = len;
    int rc = 0;
    if (len == 0)
        return find(s, name, err);
    bool same = strcmp(name, a->name) == 0;
    bool goes_on = same && offset > 0 && offset == a->next;
    if (!goes_on && !(same && is_ahead(a, offset, len))) {
        forget_ahead(s);
        rc = get_some(s, name, offset, bytes, len, &got, err);
    } else {
        if (!is_ahead(a, offset, len))
            rc = read_ahead(s, name, offset, len, err);
        got = !rc && is_ahead(a, offset, len) ? len : 0;
        if (got)
            memcpy(bytes, a->bytes.data + (offset - a->offset), len);
    }
    if (rc || got < len) {
        forget_ahead(s);
        return rc ? rc : ll_ship_corrupt(err, name, "it is too short");
    }
    memcpy(a->name, name, strlen(name) + 1);
    a->next = offset + len;
    return 0;
}

/* S3 does not say whether the object that it deletes exists. */
static int s3_remove(struct lladd_store *store, const char *name, struct lladd_error *err)
{
    struct store_s3 *s = s3_of(store);
    char key[KEY_SIZE];
    struct ll_s3_request r = {.method = LL_S3_DELETE, .key = key};
    int rc = key_of_object(s, name, key, err);
    forget_ahead(s);
    if (!rc)
        rc = find(s, name, err);
    if (!rc)
        rc = ll_s3_send(&s->link, &r, err);
    if (!rc && !is_good(&r) && !is_missing(&r))
        rc = ll_s3_refused(&s->link, &r, err);
    ll_s3_request_free(&r);
    return rc;
}

/* ---- list ----------------------------------------------------------------------------------- */

/* Appends "name=value", with the value escaped as in the signature. */
static int append_value(struct ll_ship_buf *query, const char *name, const char *value,
                        struct lladd_error *err)
{
    static const char hex[] = "0123456789ABCDEF";
    int rc = query->len ? ll_ship_append(query, "&", 1, err) : 0;
    if (!rc)
        rc = ll_ship_append(query, name, strlen(name), err);
    if (!rc)
        rc = ll_ship_append(query, "=", 1, err);
    for (const char *c = value; *c && !rc; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                     (*c >= '0' && *c <= '9') || strchr("-._~", *c);
        unsigned char byte = (unsigned char)*c;
        char escaped[3] = {'%', hex[byte >> 4], hex[byte & 15]};
        rc = ll_ship_append(query, plain ? c : escaped, plain ? 1 : sizeof escaped, err);
    }
    return rc;
}

/* The names of the values are sorted, as in the signature. */
static int make_query(struct ll_ship_buf *query, const struct ll_s3_page *page, const char *prefix,
                      struct lladd_error *err)
{
    int rc = 0;
    query->len = 0;
    if (page->token.len)
        rc = append_value(query, "continuation-token", (const char *)page->token.data, err);
    if (!rc)
        rc = append_value(query, "list-type", "2", err);
    if (!rc)
        rc = append_value(query, "prefix", prefix, err);
    return rc ? rc : ll_ship_append(query, "", 1, err);
}

/* Gets the next page of the list. */
static int next_page(struct store_s3 *s, struct ll_s3_page *page, const char *prefix,
                     struct lladd_error *err)
{
    struct ll_ship_buf query = {.mem = s->link.place.mem};
    struct ll_s3_request r = {.method = LL_S3_GET, .key = ""};
    int rc = make_query(&query, page, prefix, err);
    if (!rc) {
        r.query = (const char *)query.data;
        rc = ll_s3_send(&s->link, &r, err);
    }
    if (!rc && r.status != 200)
        rc = ll_s3_refused(&s->link, &r, err);
    if (!rc)
        rc = ll_s3_page_read(page, r.text.data, r.text.len, err);
    ll_s3_request_free(&r);
    ll_ship_buf_free(&query);
    return rc;
}

/* Calls fn for the objects of the page. Other keys in the bucket are no objects of the store. */
static int tell(const struct store_s3 *s, const struct ll_s3_page *page, const char *prefix,
                lladd_store_list_fn *fn, void *ctx)
{
    size_t skip = strlen(s->link.place.prefix);
    int rc = 0;
    for (size_t at = 0; at < page->entries.len && !rc;) {
        struct ll_s3_entry e;
        memcpy(&e, page->entries.data + at, sizeof e);
        const char *key = (const char *)page->entries.data + at + sizeof e;
        at += sizeof e + (size_t)e.key_len;
        if (strncmp(key, prefix, strlen(prefix)) == 0 && ll_ship_name_ok(key + skip))
            rc = fn(ctx, key + skip, e.size);
    }
    return rc;
}

/* A page is complete in memory before fn is called, because fn may use the store. */
static int s3_list(struct lladd_store *store, const char *prefix, lladd_store_list_fn *fn,
                   void *ctx, struct lladd_error *err)
{
    struct store_s3 *s = s3_of(store);
    struct ll_ship_mem mem = s->link.place.mem;
    struct ll_s3_page page = {
        .entries = {.mem = mem}, .token = {.mem = mem}, .before = {.mem = mem}};
    char key[KEY_SIZE];
    int rc = key_of(s, prefix, key, err);
    do {
        if (!rc)
            rc = next_page(s, &page, key, err);
        if (!rc)
            rc = tell(s, &page, key, fn, ctx);
    } while (!rc && page.token.len);
    ll_ship_buf_free(&page.entries);
    ll_ship_buf_free(&page.token);
    ll_ship_buf_free(&page.before);
    return rc;
}

/* ---- open, close ---------------------------------------------------------------------------- */

static void s3_close(struct lladd_store *store)
{
    struct store_s3 *s = s3_of(store);
    struct ll_ship_mem mem = s->link.place.mem;
    ll_ship_buf_free(&s->ahead.bytes);
    ll_s3_link_close(&s->link);
    ll_ship_delete(mem, s);
}

static const struct lladd_store_ops s3_ops = {
    .struct_size = sizeof s3_ops,
    .put = s3_put,
    .get = s3_get,
    .list = s3_list,
    .remove = s3_remove,
    .close = s3_close,
};

int ll_ship_s3_open(const char *where, const struct lladd_store_options *options,
                    struct lladd_store **out, struct lladd_error *err)
{
    struct lladd_store_options o = LLADD_STORE_OPTIONS_INIT;
    struct lladd_s3_options s3 = LLADD_S3_OPTIONS_INIT;
    if (options)
        memcpy(&o, options, options->struct_size < sizeof o ? options->struct_size : sizeof o);
    if (o.s3)
        memcpy(&s3, o.s3, o.s3->struct_size < sizeof s3 ? o.s3->struct_size : sizeof s3);
    struct ll_ship_mem mem = {o.allocator};
    struct store_s3 *s = ll_ship_new(mem, sizeof *s);
    if (!s)
        return ll_ship_no_memory(err);
    s->base.ops = &s3_ops;
    s->link.place.mem = mem;
    if (o.world)
        s->link.world = *o.world;
    int rc = ll_s3_place_find(&s->link.place, where, &s3, err);
    if (!rc)
        rc = ll_s3_link_open(&s->link, err);
    if (rc) {
        s3_close(&s->base);
        return rc;
    }
    *out = &s->base;
    return 0;
}
