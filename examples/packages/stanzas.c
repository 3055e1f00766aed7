/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a file and finds its stanzas and their keys; see stanzas.h. */
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

/* Reads the whole file. Stops at the first zero byte, so that for example /dev/zero does not fill
 * the memory. */
static bool slurp(struct stanzas *s, int fd, const char *path, char *why, size_t why_size)
{
    size_t room = 0;
    for (;;) {
        if (s->size == room) {
            room = room ? 2 * room : READ_BYTES;
            char *more = room <= 2 * FILE_MAX ? realloc(s->bytes, room) : NULL;
            if (!more)
                return refuse(why, why_size, "no memory for %s", path);
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
    s->list[s->count++] = (struct stanza){.text = text, .len = (size_t)(end - text)};
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

/* ---- keys ------------------------------------------------------------------------------------ */

/* Finds the field: the text after the colon of the first line, or the whole line if the line has no
 * colon. A field that is too long for a key is truncated. */
static void find_field(struct stanza *z)
{
    const char *newline = memchr(z->text, '\n', z->len);
    const char *end = newline ? newline : z->text + z->len;
    const char *colon = memchr(z->text, ':', (size_t)(end - z->text));
    const char *begin = colon ? colon + 1 : z->text;
    while (begin < end && (*begin == ' ' || *begin == '\t'))
        begin++;
    while (end > begin && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    z->field = begin;
    z->field_len =
        (size_t)(end - begin) < STANZA_FIELD_MAX ? (size_t)(end - begin) : STANZA_FIELD_MAX;
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_field(const void *a, const void *b, void *list)
{
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    const struct stanza *x = (struct stanza *)list + i, *y = (struct stanza *)list + k;
    int order = compare(x->field, x->field_len, y->field, y->field_len);
    return order ? order : (i > k) - (i < k);
}

/* Sorts the stanzas by field, and numbers the stanzas with equal fields. */
static bool number(struct stanzas *s)
{
    s->by_field = calloc(s->count, sizeof *s->by_field);
    if (!s->by_field)
        return false;
    for (size_t i = 0; i < s->count; i++) {
        find_field(&s->list[i]);
        s->by_field[i] = i;
    }
    qsort_r(s->by_field, s->count, sizeof *s->by_field, by_field, s->list);
    for (size_t i = 0, next; i < s->count; i = next) {
        const struct stanza *first = &s->list[s->by_field[i]];
        for (next = i; next < s->count; next++) {
            struct stanza *z = &s->list[s->by_field[next]];
            if (compare(z->field, z->field_len, first->field, first->field_len) != 0)
                break;
            z->nth = next - i;
        }
        for (size_t k = i; k < next; k++)
            s->list[s->by_field[k]].same = next - i;
    }
    return true;
}

size_t stanzas_key(const struct stanzas *s, uint64_t sequence, char key[STANZA_KEY_MAX])
{
    const struct stanza *z = &s->list[sequence % s->count];
    uint64_t before = sequence / s->count * z->same + z->nth;
    memcpy(key, z->field, z->field_len);
    int n = snprintf(key + z->field_len, STANZA_KEY_MAX - z->field_len, " %llu",
                     (unsigned long long)before);
    return z->field_len + (size_t)n;
}

/* The first place in `by_field` with a field that is not before this field. */
static size_t lower_bound(const struct stanzas *s, const char *field, size_t len)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct stanza *z = &s->list[s->by_field[mid]];
        if (compare(z->field, z->field_len, field, len) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

bool stanzas_find(const struct stanzas *s, const char *key, size_t len, uint64_t *sequence)
{
    char again[STANZA_KEY_MAX], digits[24];
    const char *blank = len < STANZA_KEY_MAX ? memrchr(key, ' ', len) : NULL;
    size_t n = blank ? (size_t)(key + len - blank) - 1 : sizeof digits;
    if (n >= sizeof digits)
        return false;
    memcpy(digits, blank + 1, n);
    digits[n] = 0;
    size_t at = lower_bound(s, key, (size_t)(blank - key));
    if (at == s->count)
        return false;
    size_t same = s->list[s->by_field[at]].same;
    uint64_t before = strtoull(digits, NULL, 10);
    *sequence = before / same * s->count + s->by_field[at + before % same];
    /* The key can only belong to this transaction; compares the whole key. */
    return stanzas_key(s, *sequence, again) == len && memcmp(again, key, len) == 0;
}

/* ---- the file -------------------------------------------------------------------------------- */

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
    if (good && !number(s))
        good = refuse(why, why_size, "no memory for the keys of %s", path);
    if (!good)
        stanzas_free(s);
    return good;
}

void stanzas_free(struct stanzas *s)
{
    free(s->bytes);
    free(s->list);
    free(s->by_field);
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
