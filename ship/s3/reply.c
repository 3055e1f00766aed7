/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the XML that S3 answers: pages of a list, and errors. A list that is not whole is an error,
 * because a caller would take the objects that the list lacks for missing. */
#include "ship/s3/s3_private.h"

#include <expat.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 3, NAME = 32 };

struct reader {
    XML_Parser parser;
    const char *root; /* the name that the outermost element must have */
    unsigned depth;
    char path[DEEPEST][NAME]; /* names of the open elements, the outermost first */
    struct ll_ship_buf text;  /* of the innermost element */
    struct ll_s3_page *page;  /* a list; NULL: an error */
    struct ll_ship_buf key;   /* of the object that is being read */
    uint64_t size;
    bool sized, truncated, said, wrong, no_memory;
    char *code, *message;
    size_t code_size, message_size;
};

static void stop(struct reader *r, bool *why)
{
    *why = true;
    (void)XML_StopParser(r->parser, XML_FALSE); /* fails only if it was stopped before */
}

/* Copies the text as one line with a NUL, shortened if there is no room. */
static void copy_text(const struct reader *r, char *out, size_t size)
{
    size_t len = r->text.len < size ? r->text.len : size - 1;
    for (size_t i = 0; i < len; i++)
        out[i] = r->text.data[i] < ' ' ? ' ' : (char)r->text.data[i];
    out[len] = 0;
}

static bool is(const struct reader *r, const char *one, const char *two)
{
    return r->depth == (two ? 3 : 2) && strcmp(r->path[1], one) == 0 &&
           (!two || strcmp(r->path[2], two) == 0);
}

static bool text_is(const struct reader *r, const char *what)
{
    return r->text.len == strlen(what) && memcmp(r->text.data, what, r->text.len) == 0;
}

static bool keep(struct ll_ship_buf *b, const struct reader *r)
{
    b->len = 0;
    return ll_ship_append(b, r->text.data, r->text.len, NULL) == 0 &&
           ll_ship_append(b, "", 1, NULL) == 0;
}

static bool number(const struct reader *r, uint64_t *out)
{
    char digits[24], *end;
    copy_text(r, digits, sizeof digits);
    *out = strtoull(digits, &end, 10);
    return r->text.len > 0 && r->text.len < 20 && digits[0] >= '0' && digits[0] <= '9' && !*end;
}

static void begin(void *ctx, const XML_Char *name, const XML_Char **attributes)
{
    struct reader *r = ctx;
    (void)attributes;
    if (r->depth < DEEPEST) {
        size_t len = strlen(name);
        len = len < NAME ? len : NAME - 1;
        memcpy(r->path[r->depth], name, len);
        r->path[r->depth][len] = 0;
    }
    if (r->depth == 0 && strcmp(r->path[0], r->root) != 0)
        stop(r, &r->wrong);
    r->depth++;
    r->text.len = 0;
    if (is(r, "Contents", NULL)) {
        r->key.len = 0;
        r->sized = false;
    }
}

static void add_entry(struct reader *r)
{
    struct ll_s3_entry e = {r->size, r->key.len};
    if (!r->sized || !r->key.len)
        stop(r, &r->wrong);
    else if (ll_ship_append(&r->page->entries, &e, sizeof e, NULL) ||
             ll_ship_append(&r->page->entries, r->key.data, r->key.len, NULL))
        stop(r, &r->no_memory);
}

static void end_in_list(struct reader *r)
{
    if (is(r, "IsTruncated", NULL)) {
        r->truncated = text_is(r, "true");
        r->said = r->truncated || text_is(r, "false");
    } else if (is(r, "NextContinuationToken", NULL)) {
        if (!keep(&r->page->token, r))
            stop(r, &r->no_memory);
    } else if (is(r, "Contents", "Key")) {
        if (!keep(&r->key, r))
            stop(r, &r->no_memory);
    } else if (is(r, "Contents", "Size")) {
        r->sized = number(r, &r->size);
    } else if (is(r, "Contents", NULL)) {
        add_entry(r);
    }
}

static void end(void *ctx, const XML_Char *name)
{
    struct reader *r = ctx;
    (void)name;
    if (r->page)
        end_in_list(r);
    else if (is(r, "Code", NULL))
        copy_text(r, r->code, r->code_size);
    else if (is(r, "Message", NULL))
        copy_text(r, r->message, r->message_size);
    r->depth--;
    r->text.len = 0;
}

static void text(void *ctx, const XML_Char *bytes, int len)
{
    struct reader *r = ctx;
    if (ll_ship_append(&r->text, bytes, (size_t)len, NULL))
        stop(r, &r->no_memory);
}

/* Refuses a reply with a document type, which could define entities. S3's replies have none. */
static void document_type(void *ctx, const XML_Char *name, const XML_Char *system,
                          const XML_Char *public_id, int internal)
{
    struct reader *r = ctx;
    (void)name, (void)system, (void)public_id, (void)internal;
    stop(r, &r->wrong);
}

static bool parse(struct reader *r, struct ll_ship_mem mem, const void *bytes, size_t len)
{
    r->parser = XML_ParserCreate(NULL);
    r->text.mem = r->key.mem = mem;
    if (!r->parser) {
        r->no_memory = true;
        return false;
    }
    XML_SetUserData(r->parser, r);
    XML_SetElementHandler(r->parser, begin, end);
    XML_SetCharacterDataHandler(r->parser, text);
    XML_SetStartDoctypeDeclHandler(r->parser, document_type);
    bool good = XML_Parse(r->parser, bytes, (int)len, XML_TRUE) == XML_STATUS_OK && !r->wrong;
    r->no_memory = r->no_memory || XML_GetErrorCode(r->parser) == XML_ERROR_NO_MEMORY;
    XML_ParserFree(r->parser);
    ll_ship_buf_free(&r->text);
    ll_ship_buf_free(&r->key);
    return good;
}

int ll_s3_page_read(struct ll_s3_page *page, const void *bytes, size_t len, struct lladd_error *err)
{
    struct reader r = {.root = "ListBucketResult", .page = page};
    struct ll_ship_buf before = page->token;
    page->token = page->before;
    page->before = before;
    page->entries.len = page->token.len = 0;
    bool good = parse(&r, page->entries.mem, bytes, len);
    if (r.no_memory)
        return ll_ship_no_memory(err);
    if (!good || !r.said || (r.truncated && page->token.len < 2))
        return lladd_error_set(err, LLADD_STORE_FAILED, "the server's list of objects is damaged");
    if (r.truncated && page->token.len == before.len &&
        memcmp(page->token.data, before.data, before.len) == 0)
        return lladd_error_set(err, LLADD_STORE_FAILED, "the server's list of objects has no end");
    if (!r.truncated)
        page->token.len = 0;
    return 0;
}

void ll_s3_error_read(const void *bytes, size_t len, char *code, size_t code_size, char *message,
                      size_t message_size)
{
    struct reader r = {.root = "Error",
                       .code = code,
                       .code_size = code_size,
                       .message = message,
                       .message_size = message_size};
    code[0] = message[0] = 0;
    if (len && !parse(&r, (struct ll_ship_mem){NULL}, bytes, len))
        code[0] = message[0] = 0;
}
