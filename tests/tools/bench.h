/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_TOOLS_BENCH_H
#define TESTS_TOOLS_BENCH_H
/* Functions that make a database (made.h) in memory, and read and change its files. If one of them
 * fails, the test fails. */
#include "made.h"

#include <lladd/inspect.h>

struct image_file {
    char *name;
    unsigned char *bytes;
    size_t len;
};

/* A copy of every file of a device. */
struct image {
    struct image_file *files;
    size_t n;
};

struct lladd_device *bench_make(enum made_kind, struct made *);
struct image bench_copy(struct lladd_device *);
void bench_free(struct image *);
bool bench_same(const struct image *, const struct image *);
/* Makes a device with these files. */
struct lladd_device *bench_device(const struct image *);
struct image_file *bench_file(struct image *, const char *name);

void bench_write(struct lladd_device *, const char *name, uint64_t at, const void *bytes,
                 size_t len);
void bench_read(struct lladd_device *, const char *name, uint64_t at, void *bytes, size_t len);
/* Changes the bits of `mask` in one byte. */
void bench_flip(struct lladd_device *, const char *name, uint64_t at, unsigned char mask);
void bench_truncate(struct lladd_device *, const char *name, uint64_t size);

/* Opens a view. If `known` is true, the application's operation is registered for the view. */
struct lladd_inspect *bench_look(struct lladd_device *, bool known);

struct lladd_inspect_info bench_info(const struct lladd_inspect *);
/* For lladd_inspect_log. */
int bench_ignore(void *ctx, const struct lladd_inspect_record *);
/* Runs `txns` transactions, each of which writes 256 bytes to the page. */
void bench_commits(struct lladd_db *, lladd_pageno, unsigned txns);

/* The findings of verify. */
#define FINDINGS_MAX 64
struct findings {
    struct {
        enum lladd_finding_kind kind;
        int code;
        char file[40];
        uint64_t offset, lsn, page;
        char message[420];
    } at[FINDINGS_MAX];
    size_t n; /* may exceed FINDINGS_MAX */
    struct lladd_verified count;
};
/* Runs verify on the view. Returns 0 or the error. */
int bench_verify(struct lladd_inspect *, struct findings *);
/* Returns the index of the first finding of this kind about the file, or SIZE_MAX if there is
 * none. */
size_t bench_find(const struct findings *, enum lladd_finding_kind, const char *file);
/* Asserts that no finding of damage states a wrong page type. */
void bench_no_page_accused(const struct findings *);
/* Opens a view of the files, and verifies. */
struct findings bench_verify_files(struct lladd_device *);
/* Commits one transaction that writes the text to the page. */
void bench_change(struct lladd_db *db, lladd_pageno page, const char *text);
/* A callback for lladd_inspect_log. It describes each record, and adds the length of the
 * description to `text`. */
struct bench_description {
    struct lladd_inspect *v;
    size_t text;
};
int bench_describe(void *bench_description, const struct lladd_inspect_record *);
/* The function of a sink. ctx points to a size_t, to which it adds the number of bytes. */
int bench_swallow(void *ctx, const void *bytes, size_t len);

#endif
