/* SPDX-License-Identifier: BSD-2-Clause */
/* TPC-H's lineitem as CSV on standard output. A line has the row's number, from 1 up, and all
 * columns or one.
 *
 *   bench-lineitem SCALE [COLUMN [SEED]]
 *   bench-lineitem 0.01 l_shipmode | lladd dtable put --csv shop modes
 *
 * Scale 1 has about six million rows. */
#include "common_lineitem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int column_of(const char *name)
{
    for (int c = 0; c < LINEITEM_COLUMNS; c++)
        if (strcmp(lineitem_name((enum lineitem_column)c), name) == 0)
            return c;
    return LINEITEM_COLUMNS;
}

static void put(const struct lineitem_row *row, int column)
{
    char text[64];
    size_t len = lineitem_print(row, (enum lineitem_column)column, text);
    bool quoted = column == L_COMMENT; /* the grammar of comments includes commas */
    printf(quoted ? ",\"%.*s\"" : ",%.*s", (int)len, text);
}

int main(int argc, char **argv)
{
    struct lineitem_row row;
    int only = argc > 2 ? column_of(argv[2]) : -1;
    struct lineitem *l = argc > 1 && argc < 5 && only < LINEITEM_COLUMNS
                             ? lineitem_new(strtod(argv[1], NULL),
                                            argc > 3 ? strtoull(argv[3], NULL, 10) : 1)
                             : NULL;
    if (!l) {
        fputs("usage: bench-lineitem SCALE [COLUMN [SEED]]\n", stderr);
        return 2;
    }
    for (uint32_t n = 1; lineitem_next(l, &row); n++) {
        printf("%u", n);
        for (int c = only < 0 ? 0 : only; c < (only < 0 ? LINEITEM_COLUMNS : only + 1); c++)
            put(&row, c);
        putchar('\n');
    }
    lineitem_free(l);
    return ferror(stdout) || fflush(stdout) ? 1 : 0;
}
