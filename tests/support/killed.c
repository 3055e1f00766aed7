/* SPDX-License-Identifier: BSD-2-Clause */
/* The child of killed.h. */
#include "support/killed.h"

#include "support/fixtures.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

struct killed killed_start(const char *dir, uint64_t seed)
{
    int fds[2];
    sure(pipe(fds) == 0, "pipe has failed");
    pid_t pid = fork();
    sure(pid >= 0, "fork has failed");
    if (pid == 0) {
        char seed_text[24], fd_text[16];
        (void)close(fds[0]);
        (void)snprintf(seed_text, sizeof seed_text, "%llu", (unsigned long long)seed);
        (void)snprintf(fd_text, sizeof fd_text, "%d", fds[1]);
        execl("/proc/self/exe", "test_kill", "child", dir, seed_text, fd_text, (char *)NULL);
        _exit(6);
    }
    (void)close(fds[1]);
    return (struct killed){pid, fds[0]};
}

void killed_tell(int fd, const void *message, size_t len)
{
    if (write(fd, message, len) != (ssize_t)len)
        _exit(4);
}

bool killed_hear(const struct killed *k, void *message, size_t len)
{
    return read(k->fd, message, len) == (ssize_t)len;
}

void killed_kill(const struct killed *k)
{
    int status;
    sure(kill(k->pid, SIGKILL) == 0, "the child cannot be killed");
    sure(waitpid(k->pid, &status, 0) == k->pid, "waitpid has failed");
    sure(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "the child has ended by itself");
}

void killed_close(const struct killed *k)
{
    (void)close(k->fd);
}
