/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef LL_OPERATIONS_DTABLE_BUILD_H
#define LL_OPERATIONS_DTABLE_BUILD_H
/* A run under construction: build.c, stream.c. */
#include "operations/dtable/dtable.h"

/* A stream being written. `stage` holds what has not been written yet, page headers included. */
struct lladd_dtable_writer {
    struct lladd_dtable_run_builder *run;
    struct lladd_dtable_writer *next; /* the writer created after this one */
    struct ll_dtable_stream stream;
    uint32_t number;
    unsigned char *stage;
    size_t stage_pages; /* room */
    size_t fill;        /* bytes of contents in it */
    uint64_t spare;     /* pages of the last extent that nothing was written to */
    bool packs;         /* what follows is of one that is compressed: pack.c */
    uint64_t size;      /* bytes that its layer has written */
    void *lz4;                     /* state of LZ4, and the memory that these are in: */
    unsigned char *plain, *packed; /* a block, and room for what is made of it */
    size_t plain_len;
    struct ll_dtable_packed {
        uint32_t len, crc;
    } *map; /* length and CRC of each block as stored */
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
    struct ll_dtable_descriptor d; /* its counts are kept up to date */
    struct ll_dtable_bytes min, last;
    uint64_t ranges;
    uint64_t range_number; /* with `range_end`: where the newest range ends */
    struct ll_dtable_bytes range_end;
    bool range_open; /* it has no end */
    char name[64];
    int broken; /* the error after which only discard is possible */
};

int ll_dtable__writer(struct lladd_dtable_run_builder *, uint32_t layer, bool packs,
                      const char *name, struct lladd_dtable_writer **out);
/* Appends bytes to be stored uncompressed. */
int ll_dtable__write(struct lladd_dtable_writer *, const void *bytes, size_t len);
/* Appends bytes to a compressed stream; ll_dtable__pack_end writes its map: pack.c. */
int ll_dtable__pack(struct lladd_dtable_writer *, const void *bytes, size_t len);
int ll_dtable__pack_end(struct lladd_dtable_writer *);
/* Writes what is left and gives back what was taken in vain. */
int ll_dtable__writer_end(struct lladd_dtable_writer *);
/* Gives back all its pages. */
int ll_dtable__writer_discard(struct lladd_dtable_writer *);
void ll_dtable__writer_free(struct lladd_dtable_writer *);

#endif
