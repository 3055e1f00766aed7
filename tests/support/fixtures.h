/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_FIXTURES_H
#define SUPPORT_FIXTURES_H
/* Small things every test needs: a directory to write in, a function that must die, bytes from a
 * seed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A new empty directory below $TMPDIR or /tmp; release with temp_dir_remove, which removes what is
 * in it as well. Ends the test if there is none to be had. */
char *temp_dir_new(void);
void temp_dir_remove(char *dir);
/* dir/name, to be freed. */
char *temp_dir_path(const char *dir, const char *name);

/* Runs fn(arg) in a child process. Was it ended by an abort, after saying `message` on stderr? For
 * assertions in debug builds; works in whichever way Check runs its cases. */
bool dies_saying(void (*fn)(void *), void *arg, const char *message);

/* splitmix64: the next number of the sequence that *state is in. */
uint64_t seeded_next(uint64_t *state);
void seeded_fill(uint64_t seed, void *buf, size_t len);

#endif
