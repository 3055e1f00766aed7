/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_BUILD_H
#define LL_OPERATIONS_DTABLE_BUILD_H
/* A run under construction: build.c, stream.c. */
#include "operations/dtables/core/dtable.h"

/* A stream being written. `stage` holds the bytes that are not written yet, in the layout of
 * pages. */
struct lladd_dtable_writer {
    struct lladd_dtable_run_builder *run;
    struct lladd_dtable_writer *next; /* the writer created after this one */
    struct ll_dtable_stream stream;
    uint32_t number;
    unsigned char *stage;
    size_t stage_pages; /* capacity */
    size_t fill;        /* bytes of contents in the stage */
    bool flushing;      /* the stage is being written */
    bool packs;         /* the stream is compressed (pack.c); otherwise the next members are
                         * unused */
    uint64_t size;      /* uncompressed bytes that the layer has written */
    void *lz4;                     /* LZ4's state; one allocation with the two buffers */
    unsigned char *plain, *packed; /* a block, and its compressed form */
    size_t plain_len;
    struct ll_dtable_packed {
        uint32_t len, crc;
    } *map; /* for each stored block */
    size_t n_map, cap_map;
};

struct lladd_dtable_run_builder {
    struct lladd_txn *txn;
    struct lladd_db *db;
    struct ll_dtables *all;
    struct lladd_error *error;
    struct lladd_dtable_order order;
    struct lladd_dtable_config *parsed; /* owned; NULL unless given as text */
    const struct lladd_dtable_config *config;
    struct lladd_dtable_builder *layers, *last_layer; /* linked by next_ */
    struct lladd_dtable_writer *writers, *last_writer;
    struct ll_dtable_descriptor d; /* the descriptor; its counts are kept up to date during the
                                    * build */
    struct ll_dtable_bytes min, last;
    uint64_t ranges;
    uint64_t range_number; /* range_number, range_end: the end of the newest range */
    struct ll_dtable_bytes range_end;
    bool range_open; /* the newest range has no end */
    /* The newest extent: its first page, the first of its spare pages, and the number of its spare
     * pages. Spare pages belong to no stream yet. */
    uint64_t spare_from, spare, spare_pages;
    uint64_t taken; /* pages of all extents */
    bool ending;    /* no layer will stage more bytes */
    char name[64];
    const uint32_t *alive; /* from lladd_db_alive */
    int broken; /* 0, or the error after which only discard is allowed */
};

int ll_dtable__writer(struct lladd_dtable_run_builder *, uint32_t layer, bool packs,
                      const char *name, struct lladd_dtable_writer **out);
/* Appends bytes to be stored uncompressed. */
int ll_dtable__write(struct lladd_dtable_writer *, const void *bytes, size_t len);
/* For compressed streams (pack.c). ll_dtable__pack appends bytes. ll_dtable__pack_end writes the
 * last block and the map. */
int ll_dtable__pack(struct lladd_dtable_writer *, const void *bytes, size_t len);
int ll_dtable__pack_end(struct lladd_dtable_writer *);
/* Writes what all streams have staged, and frees the spare pages. */
int ll_dtable__writers_end(struct lladd_dtable_run_builder *);
int ll_dtable__give_spare(struct lladd_dtable_run_builder *);
int ll_dtable__writer_discard(struct lladd_dtable_writer *);
void ll_dtable__writer_free(struct lladd_dtable_writer *);

#endif
