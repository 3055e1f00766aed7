/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs that an engine runs; see program.h. */
#include "program.h"

#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_RUN = 127 };

static bool redirect(const char *path, int flags, int fd)
{
    int from = open(path, flags | O_CLOEXEC, 0600);
    return from >= 0 && dup2(from, fd) == fd;
}

/* Runs in the child of fork. The death signal is set last, because setuid clears it; if the parent
 * has ended meanwhile, no signal would come. */
static void become(const struct bench_program *p, const char *const argv[], pid_t parent)
{
    bool good = redirect(p->log, O_WRONLY | O_CREAT | O_APPEND, STDOUT_FILENO) &&
                dup2(STDOUT_FILENO, STDERR_FILENO) == STDERR_FILENO &&
                redirect("/dev/null", O_RDONLY, STDIN_FILENO) && chdir("/") == 0;
    if (good && p->uid != geteuid())
        good = setgroups(0, NULL) == 0 && setgid(p->gid) == 0 && setuid(p->uid) == 0;
    good = good && prctl(PR_SET_PDEATHSIG, p->death) == 0 && getppid() == parent;
    if (good)
        execv(argv[0], (char *const *)(uintptr_t)argv);
    perror(argv[0]);
    _exit(CANNOT_RUN);
}

pid_t bench_program_start(const struct bench_program *p, const char *const argv[])
{
    pid_t parent = getpid(), pid = fork();
    if (pid == 0)
        become(p, argv, parent);
    return pid < 0 ? bench_failed(p->engine, argv[0], strerror(errno)) : pid;
}

/* Copies the last line of the file that is not empty. */
static void last_line(const char *path, char *out, size_t size)
{
    char line[512];
    FILE *f = fopen(path, "re");
    snprintf(out, size, "it failed without a message");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (*line)
            snprintf(out, size, "%s", line);
    }
    if (f)
        fclose(f);
}

static int wait_for(const struct bench_program *p, pid_t pid, const char *what, int signal)
{
    char why[512];
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return bench_failed(p->engine, what, strerror(errno));
    if (WIFEXITED(status) ? WEXITSTATUS(status) == 0 : signal && WTERMSIG(status) == signal)
        return 0;
    last_line(p->log, why, sizeof why);
    return bench_failed(p->engine, what, why);
}

int bench_program_wait(const struct bench_program *p, pid_t pid, const char *what)
{
    return wait_for(p, pid, what, 0);
}

int bench_program_stop(const struct bench_program *p, pid_t pid, int signal, const char *what)
{
    if (kill(pid, signal) != 0)
        return bench_failed(p->engine, what, strerror(errno));
    return wait_for(p, pid, what, signal);
}

int bench_program_run(const struct bench_program *p, const char *const argv[])
{
    const char *name = strrchr(argv[0], '/');
    pid_t pid = bench_program_start(p, argv);
    return pid < 0 ? BENCH_FAILED : bench_program_wait(p, pid, name ? name + 1 : argv[0]);
}
