/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The comma-separated values that `lladd dtable put --csv` reads. A refusal must give a reason. The
 * rows before a refusal must be the same after they were written and read again.
 */
#include "fuzz.h"
#include "csv.h"

#include <stdlib.h>
#include <string.h>

enum { FIELD_MAX = 100 };

static FILE *open_bytes(const void *bytes, size_t size)
{
    FILE *f = fmemopen((void *)(uintptr_t)bytes, size, "rb");
    MUST(f);
    return f;
}

/* Reads rows until the end or an error, and writes them to `to` (nullable). Returns the number of
 * rows; *got says why reading ended. */
static uint64_t copy(const void *bytes, size_t size, FILE *to, enum csv_got *got)
{
    struct csv c;
    uint64_t rows = 0;
    FILE *in = open_bytes(bytes, size);
    csv_begin(&c, in, FIELD_MAX);
    for (; (*got = csv_read(&c)) == CSV_ROW; rows++) {
        MUST(c.n > 0 && c.line > 0 && c.next >= c.line && c.next <= size + 1);
        for (size_t i = 0; i < c.n; i++) {
            struct lladd_span s = csv_field(&c, i);
            MUST(s.len <= FIELD_MAX);
            if (to && i)
                putc(',', to);
            if (to)
                csv_write(to, s.data, s.len);
        }
        if (to)
            putc('\n', to);
    }
    MUST((*got == CSV_WRONG) == (c.wrong != NULL));
    csv_free(&c);
    MUST(fclose(in) == 0);
    return rows;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *once = NULL, *twice = NULL;
    size_t once_len = 0, twice_len = 0;
    enum csv_got got;
    if (size == 0)
        return 0;
    FILE *to = open_memstream(&once, &once_len);
    MUST(to);
    uint64_t rows = copy(data, size, to, &got);
    MUST(fclose(to) == 0);
    if (once_len) {
        to = open_memstream(&twice, &twice_len);
        MUST(to);
        MUST(copy(once, once_len, to, &got) == rows && got == CSV_END);
        MUST(fclose(to) == 0);
        MUST(once_len == twice_len && memcmp(once, twice, once_len) == 0);
    }
    free(once);
    free(twice);
    return 0;
}
