/* SPDX-License-Identifier: BSD-2-Clause */
#include "stanzas.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)1 << 30)
#define READ_BYTES ((size_t)1 << 16)

__attribute__((format(printf, 3, 4))) static bool refuse(char *why, size_t size, const char *fmt,
                                                         ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, size, fmt, ap);
    va_end(ap);
    return false;
}

/* Reads everything there is; stops at the first byte that no text has, before it fills the memory
 * with a device. */
static bool slurp(struct stanzas *s, int fd, const char *path, char *why, size_t why_size)
{
    size_t room = 0;
    for (;;) {
        if (s->size == room) {
            room = room ? 2 * room : READ_BYTES;
            char *more = room <= 2 * FILE_MAX ? realloc(s->bytes, room) : NULL;
            if (!more)
                return refuse(why, why_size, "%s is too large: the limit is 1 GiB", path);
            s->bytes = more;
        }
        ssize_t n = read(fd, s->bytes + s->size, room - s->size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return refuse(why, why_size, "%s cannot be read: %s", path, strerror(errno));
        if (n == 0)
            return true;
        if (memchr(s->bytes + s->size, 0, (size_t)n))
            return refuse(why, why_size, "%s is not text: it contains zero bytes", path);
        s->size += (size_t)n;
        if (s->size > FILE_MAX)
            return refuse(why, why_size, "%s is too large: the limit is 1 GiB", path);
    }
}

static bool is_blank(const char *line, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static bool add(struct stanzas *s, size_t *room, const char *text, const char *end)
{
    if (s->count == *room) {
        *room = *room ? 2 * *room : 1024;
        struct stanza *more = realloc(s->list, *room * sizeof *more);
        if (!more)
            return false;
        s->list = more;
    }
    s->list[s->count++] = (struct stanza){text, (size_t)(end - text)};
    return true;
}

static bool split(struct stanzas *s)
{
    const char *end = s->bytes + s->size, *begin = NULL, *next;
    size_t room = 0;
    for (const char *line = s->bytes; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;
        next = newline ? newline + 1 : end;
        bool blank = is_blank(line, (size_t)(stop - line));
        if (blank && begin && !add(s, &room, begin, line))
            return false;
        if (blank)
            begin = NULL;
        else if (!begin)
            begin = line;
    }
    return !begin || add(s, &room, begin, end);
}

bool stanzas_read(struct stanzas *s, const char *path, char *why, size_t why_size)
{
    *s = (struct stanzas){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return refuse(why, why_size, "%s cannot be opened: %s", path, strerror(errno));
    bool good = fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode);
    if (!good)
        refuse(why, why_size, "%s is a directory, not a text file", path);
    good = good && slurp(s, fd, path, why, why_size);
    close(fd);
    if (good && !split(s))
        good = refuse(why, why_size, "no memory for the stanzas of %s", path);
    if (good && s->count == 0)
        good = refuse(why, why_size, "%s is empty: there is nothing to load", path);
    if (!good)
        stanzas_free(s);
    return good;
}

void stanzas_free(struct stanzas *s)
{
    free(s->bytes);
    free(s->list);
    *s = (struct stanzas){0};
}

struct stanza stanzas_of(const struct stanzas *s, uint64_t sequence)
{
    return s->list[sequence % s->count];
}

double stanzas_bytes(const struct stanzas *s, uint64_t n)
{
    double all = 0, rest = 0;
    for (size_t i = 0; i < s->count; i++) {
        all += (double)s->list[i].len;
        if (i < n % s->count)
            rest += (double)s->list[i].len;
    }
    return all * (double)(n / s->count) + rest;
}
