/* SPDX-License-Identifier: BSD-2-Clause */
/* multicolumn_dtable: pages of compressed columns (Rose; Sears, Callaghan and Brewer, VLDB 2008).
 *
 *   layout.c        what the configuration says: which columns keys and values have
 *   build.c         adding rows: where a page ends
 *   choose.c        which codec a column of a page gets
 *   page.c          the bytes of a page, and their check
 *   find.c          searching in a page
 *   read.c          pages of a run: lookups, places, columns
 *   cursor.c        cursors, which decode groups of rows
 *   inspect.c       what a page consists of, for tools
 *   bits.c          packing numbers into bits
 *   nop.c for.c rle.c dict.c delta.c    the codecs (lladd/column_codec.h)
 *
 * A page is a block of the stream "pages". It has whole rows, column by column, each column with a
 * codec of its own. The fields of a key are columns, too; a row has no other copy of its key. The
 * first keys and places of the pages, the nodes, are a column of keys (../class/keys.c), which is
 * not compressed and is read through the cache; only the first keys of its blocks are in memory.
 *
 * Keys that are not in the configured fields, such as a string of another length, are stored, too:
 * a page with such a key has the bytes of its keys. So the class rejects rows only because of their
 * values. */
#include "operations/dtables/class/classes.h"
#include "operations/dtables/multicolumn/read.h"

static int accepts(struct lladd_dtable_config *c, const struct lladd_dtable_value *v,
                   struct lladd_error *err)
{
    const struct ll_layout *l = ll_multicolumn__layout(c);
    uint64_t number[LL_COLUMNS_MAX] = {0};
    bool absent[LL_COLUMNS_MAX];
    struct ll_row row = {number, absent};
    (void)err;
    if (v->state != LLADD_DTABLE_FOUND)
        return 0;
    return ll_multicolumn__split(l, v->bytes, &row) ? 0 : LLADD_DTABLE_REJECT;
}

static const struct lladd_dtable_param params[] = {
    {"key", LLADD_DTABLE_PARAM_WORDS, false, 0, 0, 0,
     "fields of the key: bits of a number key, such as \"16\" \"16\" \"32\", or types of a bytes "
     "key, such as \"u32\" \"i32\""},
    {"columns", LLADD_DTABLE_PARAM_WORDS, false, 0, 0, 0,
     "types of the columns of a value: u8, u16, u32, u64, i8, i16, i32, i64, text12"},
    {"rows", LLADD_DTABLE_PARAM_BOOL, false, 0, 0, 0,
     "values are packed rows (true), or have the columns one after the other"},
    {"codecs", LLADD_DTABLE_PARAM_WORDS, false, 0, 0, 0,
     "names of the codecs to choose from, besides \"nop\"; if left out, all of the library"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_multicolumn = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "multicolumn_dtable",
    .version = 1,
    .about = "pages of compressed columns",
    .params = params,
    .configure = ll_multicolumn__configure,
    .accepts = accepts,
    .builder_size = sizeof(struct ll_multicolumn_builder),
    .begin = ll_multicolumn__begin,
    .add = ll_multicolumn__add,
    .finish = ll_multicolumn__finish,
    .discard = ll_multicolumn__discard,
    .reader_size = sizeof(struct ll_multicolumn_reader),
    .open = ll_multicolumn__open,
    .find = ll_multicolumn__find,
    .at = ll_multicolumn__at,
    .lookup = ll_multicolumn__lookup,
    .columns_at = ll_multicolumn__columns_at,
    .lookup_columns = ll_multicolumn__lookup_columns,
    .copy = ll_multicolumn__copy,
    .copy_column = ll_multicolumn__copy_column,
    .cursor_size = sizeof(struct ll_multicolumn_cursor),
    .cursor_close = ll_multicolumn__cursor_close,
    .cursor_seek = ll_multicolumn__cursor_seek,
    .cursor_step = ll_multicolumn__cursor_step,
    .cursor_row = ll_multicolumn__cursor_row,
    .cursor_columns = ll_multicolumn__cursor_columns,
};
