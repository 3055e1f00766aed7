/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef SUPPORT_FIXTURES_H
#define SUPPORT_FIXTURES_H
/* Helpers for all tests: temporary directories, calls of a function that must abort,
 * assertions for threads, and random bytes from a seed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes an empty directory below $TMPDIR or /tmp; temp_dir_remove removes it with its contents.
 * Ends the test if that fails. */
char *temp_dir_new(void);
void temp_dir_remove(char *dir);
/* Returns dir/name; the caller frees it. */
char *temp_dir_path(const char *dir, const char *name);
/* Returns the number of files below dir if all of them have the mode `file`, and dir and all
 * directories below it have the mode `directory`. Otherwise prints a path that has another mode,
 * and returns 0. */
unsigned temp_dir_modes(const char *dir, unsigned file, unsigned directory);

/* Runs fn(arg) in a child process. Returns true if it aborts after printing `message` to stderr.
 * Use it to test the assertions of debug builds. It works whether Check forks for each test or
 * not. */
bool dies_saying(void (*fn)(void *), void *arg, const char *message);

/* An assertion for threads: prints `what` and aborts if the condition is false. An assertion of
 * Check would longjmp to the stack of another thread. */
void sure(bool condition, const char *what);

/* splitmix64: returns the next number of the sequence. */
uint64_t seeded_next(uint64_t *state);
void seeded_fill(uint64_t seed, void *buf, size_t len);

/* Returns true if the address space is large enough to reserve an address for every page of a file.
 * On 32-bit processors it is not. There, tests of reserved address space use frames in the heap. */
enum { LL_TEST_CAN_RESERVE = sizeof(void *) >= 8 };

#endif
