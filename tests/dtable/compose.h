/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_DTABLE_COMPOSE_H
#define TESTS_DTABLE_COMPOSE_H
/* Compositions of dTables as configurations: templates of layers, with holes for other layers. Some
 * compositions are impossible, and parsing refuses them. A layer above a refused composition is
 * refused, too. So larger compositions are made only from smaller ones that were accepted. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COMPOSE_MAX = 8192, COMPOSE_DEPTH = 4 };

/* - layer: the template of each layer, from the top to the bottom.
 * - beside: for each layer with a template that has a second hole, the leaf in this hole. */
struct composition {
    unsigned char depth, layer[COMPOSE_DEPTH], beside[COMPOSE_DEPTH];
};
struct compositions {
    struct composition *all;
    size_t n, cap;
};

void compose_text(const struct composition *, char text[COMPOSE_MAX]);
/* Returns the number of compositions that have one layer on top of a composition of `below`, valid
 * or not. If `below` is empty, returns the number of compositions of one layer. */
uint64_t compose_count(const struct compositions *below);
struct composition compose_at(const struct compositions *below, uint64_t i);
void compose_add(struct compositions *, const struct composition *);
void compose_free(struct compositions *);

/* A template is a class with some parameters. Templates have numbers from 0 to
 * compose_templates() - 1. */
unsigned compose_templates(void);
void compose_class_name(unsigned template, char name[64]);
/* Returns the number of the layer's template at a level; level 0 is the top. */
unsigned compose_template(const struct composition *, unsigned level);
/* Returns true if the composition has a layer of the class, at any level. */
bool compose_has(const struct composition *, const char *class_name);

#endif
