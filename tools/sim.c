/* SPDX-License-Identifier: BSD-2-Clause */
/* lladd sim: runs lladd-sim from the directory of this program, or else from the search path.
 * lladd-sim is a program of its own, because one program cannot contain both builds of the
 * library. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "lladd-sim"

/* Makes a path in this program's directory. Returns false if the directory is unknown or the path
 * is too long. */
static bool beside_us(char *path, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", path, size - 1);
    if (n <= 0)
        return false;
    path[n] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash + 1 - path) + sizeof PROGRAM > size)
        return false;
    memcpy(slash + 1, PROGRAM, sizeof PROGRAM);
    return true;
}

int tool_sim(int argc, char **argv)
{
    char path[4096];
    char *program = argv[0];
    (void)argc;
    argv[0] = (char *)(uintptr_t)PROGRAM;
    if (beside_us(path, sizeof path))
        execv(path, argv);
    execvp(PROGRAM, argv);
    fprintf(stderr, "lladd %s: cannot run " PROGRAM ": %s\n", program, strerror(errno));
    return TOOL_CANNOT;
}
