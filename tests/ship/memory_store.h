/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SHIP_MEMORY_STORE_H
#define TESTS_SHIP_MEMORY_STORE_H
/*
 * A store in memory. Chosen calls fail: before they have an effect, or, with `lost`, after it, as
 * if only the reply was lost. Objects can be damaged and removed.
 */
#include <lladd/ship.h>

struct memory_object {
    char name[200];
    unsigned char *bytes;
    size_t len;
};

struct memory_store {
    struct lladd_store base;
    struct memory_object *objects;
    size_t n;
    uint64_t calls;   /* counted from 1 */
    uint64_t fail_at; /* this call fails; 0: none */
    bool fail_on;     /* and so do all later ones */
    bool lost;
    unsigned fired;
};

void memory_store_init(struct memory_store *);
void memory_store_free(struct memory_store *);
/* Initialises a store with the objects of another one. */
void memory_store_copy(struct memory_store *, const struct memory_store *from);
/* The first object with `part` in its name; NULL: none. */
struct memory_object *memory_store_find(struct memory_store *, const char *part);
void memory_store_drop(struct memory_store *, struct memory_object *);
#endif
