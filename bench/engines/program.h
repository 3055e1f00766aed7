/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_BENCH_PROGRAM_H
#define LL_BENCH_PROGRAM_H
/* Programs that an engine runs beside the bench. Only the main thread may call these functions: the
 * kernel ends a program when the thread that started it ends (PR_SET_PDEATHSIG). So no program
 * outlives the bench, even if the bench is killed. */
#include <sys/types.h>

struct bench_program {
    const char *engine; /* for messages */
    const char *log;    /* file to which the program's output is appended */
    uid_t uid;          /* the user that runs the program, if the bench runs as root */
    gid_t gid;
    int death; /* the signal that ends the program when the bench dies */
};

/* Starts argv[0], a path, in the root directory. Returns -1 with a message on stderr, or the
 * process's id, which the caller waits for. */
pid_t bench_program_start(const struct bench_program *, const char *const argv[]);
/* Waits until the process ends. If the program failed, the message is the last line of its log. */
int bench_program_wait(const struct bench_program *, pid_t, const char *what);
/* Sends the signal, and waits. A program that the signal itself has ended did not fail. */
int bench_program_stop(const struct bench_program *, pid_t, int signal, const char *what);
/* Starts, and waits. */
int bench_program_run(const struct bench_program *, const char *const argv[]);

#endif
