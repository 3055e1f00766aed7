/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DTABLE_COMPOSE_H
#define TESTS_DTABLE_COMPOSE_H
/* Compositions of dTables as configurations: templates of layers, in whose holes stand others. What
 * cannot be is in there, too: parsing has to refuse it. What stands above something that was
 * refused is refused as well, so larger ones are made of smaller ones that were not. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMPOSE_MAX = 8192, COMPOSE_DEPTH = 4 };

/* Templates from the top to the bottom, and the leaves in their second holes. */
struct composition {
    unsigned char depth, layer[COMPOSE_DEPTH], beside[COMPOSE_DEPTH];
};
struct compositions {
    struct composition *all;
    size_t n, cap;
};

void compose_text(const struct composition *, char text[COMPOSE_MAX]);
/* What can be put on top of one of these, admitted or not; without any: what stands by itself. */
uint64_t compose_count(const struct compositions *below);
struct composition compose_at(const struct compositions *below, uint64_t i);
void compose_add(struct compositions *, const struct composition *);
void compose_free(struct compositions *);

/* Templates have numbers below compose_templates(): a class, with some parameters. */
unsigned compose_templates(void);
void compose_class_name(unsigned template, char name[64]);
/* Of the layer at a level, 0 at the top. */
unsigned compose_template(const struct composition *, unsigned level);
/* Is a layer of the class in it, anywhere? */
bool compose_has(const struct composition *, const char *class_name);

#endif
