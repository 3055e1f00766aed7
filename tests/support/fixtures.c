/* SPDX-License-Identifier: BSD-2-Clause */
/* See fixtures.h. */
#include "support/fixtures.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <lladd/bytes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void give_up(const char *what)
{
    (void)fprintf(stderr, "test fixture: %s: %s\n", what, strerror(errno));
    abort();
}

char *temp_dir_path(const char *dir, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", dir, name) < 0)
        give_up("asprintf");
    return path;
}

char *temp_dir_new(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = temp_dir_path(base && *base ? base : "/tmp", "lladd-test-XXXXXX");
    if (!mkdtemp(dir))
        give_up(dir);
    return dir;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

void temp_dir_remove(char *dir)
{
    if (dir && nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        give_up(dir);
    free(dir);
}

static unsigned file_mode, directory_mode, files; /* nftw passes no context */

static int check_mode(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    bool directory = flag == FTW_D;
    unsigned mode = st->st_mode & 07777;
    (void)ftw;
    files += !directory;
    if (mode == (directory ? directory_mode : file_mode))
        return 0;
    (void)fprintf(stderr, "%s has mode 0%o\n", path, mode);
    return 1;
}

unsigned temp_dir_modes(const char *dir, unsigned file, unsigned directory)
{
    file_mode = file;
    directory_mode = directory;
    files = 0;
    int rc = nftw(dir, check_mode, 16, FTW_PHYS);
    if (rc < 0)
        give_up(dir);
    return rc ? 0 : files;
}

bool dies_saying(void (*fn)(void *), void *arg, const char *message)
{
    FILE *said = tmpfile();
    if (!said)
        give_up("tmpfile");
    (void)fflush(NULL); /* so that buffered output is not printed twice */
    pid_t pid = fork();
    if (pid < 0)
        give_up("fork");
    if (pid == 0) {
        if (dup2(fileno(said), STDERR_FILENO) < 0)
            _exit(2);
        fn(arg);
        _exit(0);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            give_up("waitpid");
    }
    char text[4096];
    rewind(said);
    size_t n = fread(text, 1, sizeof text - 1, said);
    text[n] = '\0';
    (void)fclose(said);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, message) != NULL;
}

void sure(bool condition, const char *what)
{
    if (condition)
        return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

uint64_t seeded_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void seeded_fill(uint64_t seed, void *buf, size_t len)
{
    unsigned char *p = buf;
    while (len > 0) {
        unsigned char x[8];
        size_t n = len < sizeof x ? len : sizeof x;
        lladd_put64(x, seeded_next(&seed));
        memcpy(p, x, n);
        p += n;
        len -= n;
    }
}
