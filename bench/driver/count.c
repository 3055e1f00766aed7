/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts the syncs and writes of the engines. The program exports the functions below, so that they
 * take precedence over those of the C library, for the program and for the shared libraries that it
 * loads. So all engines are counted alike, whatever they report about themselves. */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES_MAX 4096
#define SECTOR 512 /* bytes; the unit of /sys/dev/block, whatever the device's sectors are */
#define COUNTED __attribute__((used, visibility("default")))

/* What is known about a descriptor; forgotten when it is closed. */
enum { FILE_KNOWN = 1, FILE_LOG = 2, FILE_SYNC = 4 };
static unsigned char files[FILES_MAX];
static uint64_t n_syncs, n_written, n_log_bytes;
static const char *log_files;

static void add(uint64_t *counter, uint64_t n)
{
    __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}

static bool is_log(const char *path)
{
    char names[128];
    const char *file = strrchr(path, '/');
    snprintf(names, sizeof names, "%s", log_files ? log_files : "");
    char *rest = names;
    for (char *name; (name = strsep(&rest, " ")) != NULL;)
        if (*name && strstr(file ? file : path, name))
            return true;
    return false;
}

static unsigned char look_at(int fd)
{
    char link[64], path[1024];
    unsigned char known = FILE_KNOWN;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0 && flags & (O_SYNC | O_DSYNC))
        known |= FILE_SYNC;
    return is_log(path) ? known | FILE_LOG : known;
}

static long written(int fd, long n)
{
    if (n <= 0)
        return n;
    add(&n_written, (uint64_t)n);
    if (fd >= FILES_MAX)
        return n;
    unsigned char known = __atomic_load_n(&files[fd], __ATOMIC_RELAXED);
    if (!known) {
        known = look_at(fd);
        __atomic_store_n(&files[fd], known, __ATOMIC_RELAXED);
    }
    if (known & FILE_LOG)
        add(&n_log_bytes, (uint64_t)n);
    if (known & FILE_SYNC)
        add(&n_syncs, 1);
    return n;
}

COUNTED int close(int fd)
{
    if (fd >= 0 && fd < FILES_MAX)
        __atomic_store_n(&files[fd], 0, __ATOMIC_RELAXED);
    return (int)syscall(SYS_close, fd);
}

COUNTED int fsync(int fd)
{
    add(&n_syncs, 1);
    return (int)syscall(SYS_fsync, fd);
}

COUNTED int fdatasync(int fd)
{
    add(&n_syncs, 1);
    return (int)syscall(SYS_fdatasync, fd);
}

COUNTED int msync(void *at, size_t len, int flags)
{
    add(&n_syncs, (flags & MS_SYNC) != 0);
    return (int)syscall(SYS_msync, at, len, flags);
}

COUNTED ssize_t write(int fd, const void *bytes, size_t n)
{
    return written(fd, syscall(SYS_write, fd, bytes, n));
}

COUNTED ssize_t pwrite(int fd, const void *bytes, size_t n, off_t at)
{
    return written(fd, syscall(SYS_pwrite64, fd, bytes, n, at));
}

/* The system call takes the offset in two words; the second is unused here. */
COUNTED ssize_t pwritev(int fd, const struct iovec *v, int n, off_t at)
{
    return written(fd, syscall(SYS_pwritev, fd, v, n, at, 0L));
}

COUNTED ssize_t writev(int fd, const struct iovec *v, int n)
{
    return written(fd, syscall(SYS_writev, fd, v, n));
}

#ifdef __GLIBC__
/* Another name of pwrite where file offsets have 64 bits. */
_Static_assert(sizeof(off_t) == 8, "the bench is for 64-bit machines");
COUNTED ssize_t pwrite64(int fd, const void *bytes, size_t n, off_t at)
{
    return pwrite(fd, bytes, n, at);
}
#endif

void count_log_files(const char *names)
{
    log_files = names;
}

void count_read(struct counts *out)
{
    out->syncs = __atomic_load_n(&n_syncs, __ATOMIC_RELAXED);
    out->written_bytes = __atomic_load_n(&n_written, __ATOMIC_RELAXED);
    out->log_bytes = __atomic_load_n(&n_log_bytes, __ATOMIC_RELAXED);
}

/* Does not use /proc/self/io, which counts a whole folio of the page cache, up to 2 MiB, when one
 * byte makes the folio dirty. */
double count_device_bytes(const char *dir)
{
    struct stat st;
    char path[64];
    unsigned long long sectors = 0;
    if (stat(dir, &st) != 0)
        return NAN;
    snprintf(path, sizeof path, "/sys/dev/block/%u:%u/stat", major(st.st_dev), minor(st.st_dev));
    FILE *f = fopen(path, "r");
    if (!f)
        return NAN;
    int found = fscanf(f, "%*u %*u %*u %*u %*u %*u %llu", &sectors);
    fclose(f);
    return found == 1 ? (double)sectors * SECTOR : NAN;
}
