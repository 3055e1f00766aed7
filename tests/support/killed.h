/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef TESTS_SUPPORT_KILLED_H
#define TESTS_SUPPORT_KILLED_H
/* A child process that works on a database, tells its parent through a pipe how far it is, and is
 * killed. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct killed {
    pid_t pid;
    int fd;
};

/* Starts this program again, with the arguments "child", the directory, the seed in decimal digits,
 * and the number of the file descriptor to which the child writes. Ends the test if that fails. */
struct killed killed_start(const char *dir, uint64_t seed);
/* For the child: writes a message of at most PIPE_BUF bytes, so that it arrives as a whole. */
void killed_tell(int fd, const void *message, size_t len);
/* Reads the next message of `len` bytes. Returns false when the child has ended and all of its
 * messages were read. */
bool killed_hear(const struct killed *, void *message, size_t len);
/* Kills the child with SIGKILL. What it wrote before it died can be read. Ends the test if the
 * child has ended by itself. */
void killed_kill(const struct killed *);
void killed_close(const struct killed *);

#endif
