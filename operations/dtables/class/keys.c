/* SPDX-License-Identifier: BSD-2-Clause */
/* A column of sorted keys, each with a number, its mark. The stream "keys" consists of blocks; each
 * block can be read alone. "Numbers" and "bytes" say which keys a field is for:
 *
 *     0    u64  mark of the row before the first row, without the tombstone flag
 *     8    u64  numbers: the first key; bytes: 0
 *     16   u32  rows
 *     20   u8   k: bytes of a row's first field (see below); 0: keys are evenly spaced (numbers),
 *               or have one length (bytes)
 *     21   u8   m: bytes of a row's second field; EVEN: marks are evenly spaced
 *     22   u16  if k is 0: the difference of two keys (numbers), or the length of each key (bytes);
 *               otherwise 0
 *     24   u64  only if m is EVEN: the difference of two marks
 *               then, for each row:
 *                 k bytes: the key minus the first one (numbers), or the offset of its end (bytes)
 *                 m bytes, not if m is EVEN: the mark, minus the mark at 0
 *               then the keys, one after the other (bytes)
 *
 * k and m are as small as the block's rows allow.
 *
 * A reader keeps the index in memory: the first key and the first place of each block. The index is
 * in the footer or, if longer than 4 KiB, in the stream "index": the u64 first keys (bytes: the
 * offsets of their ends), the u64 places, then the keys that are bytes. A lookup reads one block.
 *
 * Keys that are bytes are found by binary search. Without a comparator, the search skips the prefix
 * that all keys of the index, or of the block, have in common. It compares the heads of two keys,
 * and the whole keys only if the heads are equal. A head is the eight bytes after the prefix. The
 * heads of the index are kept in memory as numbers. */
#include "operations/dtables/class/keys.h"
#include "operations/shared/grow.h"

#include <lladd/extension.h>

/* EVEN_MAX: most rows of a block if keys and marks are evenly spaced. Such rows take no bytes in
 * the block, but the builder keeps them in memory. */
enum { HEAD = 24, FOOTER = 32, INDEX_IN_FOOTER = 4096, EVEN_MAX = 1 << 17, STEP_MAX = 65535 };
enum { EVEN = 0x80, STEP_LENGTH = 8 };

static unsigned width_of(uint64_t v)
{
    return v ? (71u - (unsigned)__builtin_clzll(v)) / 8 : 0;
}

static uint64_t get_n(const unsigned char *p, unsigned width)
{
    return width ? lladd_get64(p) & (UINT64_MAX >> (64 - 8 * width)) : 0;
}

/* ---- built ----------------------------------------------------------------------------------- */

static int no_memory(const struct ll_keys_builder *k)
{
    return lladd_error_set(k->owner->error, LLADD_NO_MEMORY, "out of memory for a run's keys");
}

int ll_keys_begin(struct ll_keys_builder *k, struct lladd_dtable_builder *owner)
{
    k->owner = owner;
    k->numbers = owner->order.type < LLADD_DTABLE_STRING;
    k->block_size = lladd_dtable_block_size(owner);
    k->scratch = lladd_mem_alloc(owner->db, k->block_size);
    if (!k->scratch)
        return no_memory(k);
    return lladd_dtable_stream(owner, "keys", &k->out);
}

/* Grows two arrays of the same length by one element. */
static bool grow_pair(struct lladd_db *db, uint64_t **a, uint64_t **b, size_t n, size_t *cap)
{
    size_t both = *cap;
    return !ll_operations__grow(db, a, n + 1, &both, sizeof **a) &&
           !ll_operations__grow(db, b, n + 1, cap, sizeof **b);
}

static bool append(struct lladd_db *db, unsigned char **bytes, size_t *len, size_t *cap,
                   struct lladd_span s)
{
    if (ll_operations__grow(db, bytes, *len + s.len, cap, 1))
        return false;
    if (s.len)
        memcpy(*bytes + *len, s.data, s.len);
    *len += s.len;
    return true;
}

/* Returns k of the current block if a row with this key, or offset, is added. */
static unsigned key_width(const struct ll_keys_builder *k, uint64_t last)
{
    unsigned w = width_of(k->numbers && k->n ? last - k->key[0] : k->numbers ? 0 : last);
    return w ? w : 1;
}

/* Are the keys still evenly spaced with this key added? For keys that are bytes, `key` is the
 * offset where the key ends, so the first difference is the first key's length. */
static bool stays_even(const struct ll_keys_builder *k, uint64_t key)
{
    uint64_t step = key - (k->n ? k->key[k->n - 1] : 0);
    if (k->n == 0)
        return k->numbers || step <= STEP_MAX;
    return k->even && (k->numbers && k->n == 1 ? step <= STEP_MAX : step == k->step);
}

static bool stays_marked(const struct ll_keys_builder *k, uint64_t mark)
{
    return k->n == 0 || (k->marked && mark - k->mark[k->n - 1] == k->mark[0] - k->base);
}

static bool fits(const struct ll_keys_builder *k, uint64_t key, size_t bytes, uint64_t mark)
{
    size_t rows = k->n + 1, marks = rows * width_of((mark - k->base) | k->odd | (mark & 1));
    bool even = stays_even(k, key), marked = marks == 0 || stays_marked(k, mark);
    size_t columns = marked && marks > STEP_LENGTH ? STEP_LENGTH : marks;
    if (even && marked && rows > EVEN_MAX)
        return false;
    if (!even)
        columns += rows * key_width(k, key);
    return HEAD + columns + bytes <= k->block_size;
}

static int note_block(struct ll_keys_builder *k)
{
    struct lladd_db *db = k->owner->db;
    struct lladd_span first = {k->bytes, k->numbers ? 0 : (size_t)k->key[0]};
    if (!grow_pair(db, &k->first, &k->place, (size_t)k->blocks, &k->index_cap) ||
        !append(db, &k->index_bytes, &k->index_len, &k->index_bytes_cap, first))
        return no_memory(k);
    k->first[k->blocks] = k->numbers ? k->key[0] : k->index_len;
    k->place[k->blocks++] = k->rows - k->n;
    return 0;
}

static int write_block(struct ll_keys_builder *k)
{
    unsigned char *p = k->scratch;
    if (k->n == 0)
        return 0;
    TRY(note_block(k));
    unsigned kw = k->even ? 0 : key_width(k, k->key[k->n - 1]);
    unsigned mw = width_of((k->mark[k->n - 1] - k->base) | k->odd);
    uint64_t first = k->numbers ? k->key[0] : 0, more = k->mark[0] - k->base;
    bool marked = k->marked && mw && k->n * mw >= STEP_LENGTH;
    lladd_put64(p, k->base);
    lladd_put64(p + 8, first);
    lladd_put32(p + 16, (uint32_t)k->n);
    p[20] = (unsigned char)kw;
    p[21] = marked ? EVEN : (unsigned char)mw;
    lladd_put16(p + 22, k->even && (k->n > 1 || !k->numbers) ? (uint16_t)k->step : 0);
    p += HEAD;
    if (marked) {
        lladd_put64(p, more);
        p += STEP_LENGTH;
        mw = 0;
    }
    for (size_t i = 0; i < k->n && kw + mw > 0; i++) {
        uint64_t key = k->key[i] - first, mark = k->mark[i] - k->base;
        for (unsigned b = 0; b < kw; b++, key >>= 8)
            *p++ = (unsigned char)key;
        for (unsigned b = 0; b < mw; b++, mark >>= 8)
            *p++ = (unsigned char)mark;
    }
    int rc = lladd_dtable_pad(k->out);
    if (!rc)
        rc = lladd_dtable_write(k->out, k->scratch, (size_t)(p - k->scratch));
    if (!rc)
        rc = lladd_dtable_write(k->out, k->bytes, k->bytes_len);
    k->base = k->mark[k->n - 1] & ~UINT64_C(1);
    k->odd = 0;
    k->n = 0;
    k->bytes_len = 0;
    return rc;
}

int ll_keys_add(struct ll_keys_builder *k, const struct lladd_dtable_key *key, uint64_t mark)
{
    uint64_t last = k->numbers ? key->number : k->bytes_len + key->bytes.len;
    size_t bytes = k->numbers ? 0 : k->bytes_len + key->bytes.len;
    int rc = 0;
    if (k->n && !fits(k, last, bytes, mark)) {
        rc = write_block(k);
        last = k->numbers ? last : key->bytes.len;
    }
    if (rc)
        return rc;
    if (!grow_pair(k->owner->db, &k->key, &k->mark, k->n, &k->cap) ||
        (!k->numbers && !append(k->owner->db, &k->bytes, &k->bytes_len, &k->bytes_cap, key->bytes)))
        return no_memory(k);
    k->even = stays_even(k, last);
    k->marked = stays_marked(k, mark);
    k->step = k->n ? last - k->key[k->n - 1] : k->numbers ? 0 : last;
    k->key[k->n] = last;
    k->mark[k->n++] = mark;
    k->odd |= mark & 1;
    k->rows++;
    return 0;
}

static int put_index(struct ll_keys_builder *k, struct lladd_dtable_writer *out,
                     unsigned char *into)
{
    int rc = 0;
    for (size_t i = 0; i < 2 * k->blocks && !rc; i++) {
        unsigned char b[8];
        lladd_put64(b, i < k->blocks ? k->first[i] : k->place[i - k->blocks]);
        if (out)
            rc = lladd_dtable_write(out, b, sizeof b);
        else
            memcpy(into + 8 * i, b, sizeof b);
    }
    if (!out && k->index_len)
        memcpy(into + 16 * k->blocks, k->index_bytes, k->index_len);
    return rc || !out ? rc : lladd_dtable_write(out, k->index_bytes, k->index_len);
}

/* Footer: u64 rows, u64 blocks, u64 bytes of the index, u8 1 if the index is in the footer (else
 * 0), u8[7] 0, the index if it is in the footer, `more`. */
int ll_keys_finish(struct ll_keys_builder *k, const void *more, size_t len)
{
    struct lladd_dtable_writer *out = NULL;
    int rc = write_block(k);
    size_t index = 16 * (size_t)k->blocks + k->index_len;
    bool here = index <= INDEX_IN_FOOTER;
    size_t size = FOOTER + (here ? index : 0) + len;
    unsigned char *footer = rc ? NULL : lladd_mem_alloc(k->owner->db, size);
    if (rc || !footer)
        return rc ? rc : no_memory(k);
    memset(footer, 0, FOOTER);
    lladd_put64(footer, k->rows);
    lladd_put64(footer + 8, k->blocks);
    lladd_put64(footer + 16, index);
    footer[24] = here;
    if (!here)
        rc = lladd_dtable_stream(k->owner, "index", &out);
    if (!rc)
        rc = put_index(k, out, footer + FOOTER);
    if (len)
        memcpy(footer + size - len, more, len);
    if (!rc)
        rc = lladd_dtable_footer(k->owner, footer, size);
    lladd_mem_free(k->owner->db, footer);
    return rc;
}

void ll_keys_discard(struct ll_keys_builder *k)
{
    if (!k->owner)
        return;
    struct lladd_db *db = k->owner->db;
    lladd_mem_free(db, k->key);
    lladd_mem_free(db, k->mark);
    lladd_mem_free(db, k->bytes);
    lladd_mem_free(db, k->first);
    lladd_mem_free(db, k->place);
    lladd_mem_free(db, k->index_bytes);
    lladd_mem_free(db, k->scratch);
}

/* ---- read ------------------------------------------------------------------------------------ */

static uint64_t first_of(const struct ll_keys *k, uint64_t block)
{
    return lladd_get64(k->first + 8 * block);
}
static uint64_t place_of(const struct ll_keys *k, uint64_t block)
{
    return block < k->blocks ? lladd_get64(k->place + 8 * block) : k->rows;
}
/* Returns the first key of a block, for keys that are bytes. */
static struct lladd_span bytes_of(const struct ll_keys *k, uint64_t block)
{
    uint64_t from = block ? first_of(k, block - 1) : 0;
    return lladd_span_of(k->index_bytes + from, (size_t)(first_of(k, block) - from));
}

/* Do the index's numbers and places ascend? Has each block a possible number of rows? Rows that
 * take no bytes are at most EVEN_MAX; other rows are limited by the size of the block. */
static bool index_in_order(const struct ll_keys *k)
{
    uint64_t last = 0, most = lladd_dtable_source_block(k->in);
    most = most > EVEN_MAX ? most : EVEN_MAX;
    for (uint64_t i = 0; i < k->blocks; i++) {
        uint64_t from = place_of(k, i), to = place_of(k, i + 1);
        if (from >= to || to - from > most || (i == 0 && from != 0) ||
            (i && (k->numbers ? first_of(k, i) <= last : first_of(k, i) < last)) ||
            (!k->numbers && first_of(k, i) > k->index_len))
            return false;
        last = first_of(k, i);
    }
    return k->blocks > 0 || k->rows == 0;
}

static size_t in_common(struct lladd_span a, struct lladd_span b)
{
    const unsigned char *x = a.data, *y = b.data;
    size_t n = a.len < b.len ? a.len : b.len, i = 0;
    while (i < n && x[i] == y[i])
        i++;
    return i;
}

/* Returns the head of a key: the eight bytes after the common prefix, as a number. */
static uint64_t head_of(const struct ll_keys *k, struct lladd_span s, size_t common)
{
    struct lladd_dtable_key rest = {.type = k->owner->order.type};
    if (s.len > common)
        rest.bytes = lladd_span_of((const unsigned char *)s.data + common, s.len - common);
    return lladd_dtable_prefix(&k->owner->order, &rest);
}

static int take_heads(struct ll_keys *k, struct lladd_dtable *owner, struct lladd_error *err)
{
    if (k->numbers || owner->order.comparator || k->blocks == 0)
        return 0;
    uint64_t *heads = lladd_dtable_keep(owner, (size_t)k->blocks * sizeof *heads);
    if (!heads)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for an index");
    k->common = in_common(bytes_of(k, 0), bytes_of(k, k->blocks - 1));
    for (uint64_t i = 0; i < k->blocks; i++)
        heads[i] = head_of(k, bytes_of(k, i), k->common);
    k->heads = heads;
    return 0;
}

int ll_keys_open(struct ll_keys *k, struct lladd_dtable *owner, struct lladd_span *more,
                 struct lladd_error *err)
{
    const unsigned char *f = owner->footer.data, *index;
    size_t len = owner->footer.len;
    *k = (struct ll_keys){.owner = owner, .numbers = owner->order.type < LLADD_DTABLE_STRING};
    int rc = lladd_dtable_source_open(owner, "keys", &k->in, err);
    if (rc || len < FOOTER)
        return rc ? rc : lladd_dtable_corrupt(owner, err, "its footer is too short");
    k->rows = lladd_get64(f);
    k->blocks = lladd_get64(f + 8);
    uint64_t size = lladd_get64(f + 16);
    bool here = f[24] != 0;
    if (k->blocks != lladd_dtable_source_blocks(k->in) || k->blocks > size / 16 ||
        (here && size > len - FOOTER))
        return lladd_dtable_corrupt(owner, err,
                                    "invalid footer: expected the number of blocks of keys");
    if (here) {
        index = f + FOOTER;
    } else {
        const struct lladd_dtable_source *s;
        rc = lladd_dtable_source_open(owner, "index", &s, err);
        if (!rc && lladd_dtable_source_size(s) != size)
            rc = lladd_dtable_corrupt(owner, err, "its index has the wrong length");
        if (!rc)
            rc = lladd_dtable_load(owner, s, &index, err);
        if (rc)
            return rc;
    }
    size_t used = FOOTER + (here ? (size_t)size : 0);
    *more = lladd_span_of(f + used, len - used);
    k->first = index;
    k->place = index + 8 * k->blocks;
    k->index_bytes = index + 16 * k->blocks;
    k->index_len = (size_t)(size - 16 * k->blocks);
    owner->places = k->rows;
    if (!index_in_order(k))
        return lladd_dtable_corrupt(owner, err, "its index is out of order");
    return take_heads(k, owner, err);
}

/* A block, decoded. */
struct block {
    const unsigned char *rows, *bytes;
    uint64_t base, first, step;
    uint32_t n, width, bytes_len;
    unsigned kw, mw;
    bool marked; /* marks are evenly spaced; the difference is stored before `rows` */
};

static int hold(const struct ll_keys *k, uint64_t block, struct lladd_dtable_pin *pin,
                struct block *b, struct lladd_error *err)
{
    const unsigned char *p;
    uint32_t len;
    TRY(lladd_dtable_block(pin, 0, k->in, block, &p, &len, err));
    if (len < HEAD)
        return lladd_dtable_corrupt(k->owner, err, "a block of keys is too short");
    b->base = lladd_get64(p);
    b->first = lladd_get64(p + 8);
    b->n = lladd_get32(p + 16);
    b->kw = p[20];
    b->mw = p[21];
    b->step = lladd_get16(p + 22);
    b->marked = b->mw == EVEN && len >= HEAD + STEP_LENGTH;
    if (b->marked) {
        b->mw = 0;
        p += STEP_LENGTH;
        len -= STEP_LENGTH;
    }
    b->width = b->kw + b->mw;
    b->rows = p + HEAD;
    if ((b->kw == 0 && b->step == 0 && b->n > 1) || b->kw > 8 || b->mw > 8 ||
        (uint64_t)b->n * b->width > len - HEAD ||
        b->n != place_of(k, block + 1) - place_of(k, block))
        return lladd_dtable_corrupt(
            k->owner, err, "invalid block of keys: expected key widths and a count that fit");
    b->bytes = b->rows + (size_t)b->n * b->width;
    b->bytes_len = len - HEAD - b->n * b->width;
    return 0;
}

/* Returns a key that is a number, minus the block's first key. */
static uint64_t key_at(const struct block *b, uint32_t i)
{
    return b->kw ? get_n(b->rows + (size_t)i * b->width, b->kw) : i * b->step;
}

/* Returns the offset where a key ends, for keys that are bytes. */
static uint64_t end_at(const struct block *b, uint32_t i)
{
    return b->kw ? get_n(b->rows + (size_t)i * b->width, b->kw) : (i + UINT64_C(1)) * b->step;
}

static uint64_t mark_at(const struct block *b, uint32_t i)
{
    if (b->marked)
        return b->base + (i + UINT64_C(1)) * lladd_get64(b->rows - STEP_LENGTH);
    return b->base + get_n(b->rows + (size_t)i * b->width + b->kw, b->mw);
}

/* Returns a key that is bytes, or an empty one if its offsets are outside the block. */
static struct lladd_span span_at(const struct block *b, uint32_t i)
{
    uint64_t from = i ? end_at(b, i - 1) : 0, to = end_at(b, i);
    if (from > to || to > b->bytes_len)
        return lladd_span_of(b->bytes, 0);
    return lladd_span_of(b->bytes + from, (size_t)(to - from));
}

/* A key that is searched for. */
struct probe {
    struct lladd_span key;
    size_t common; /* length of the prefix that all keys of the index or block have in common */
    uint64_t head;
    bool heads; /* the key has this prefix, and `head` is valid */
};

static struct probe probe_of(const struct ll_keys *k, struct lladd_span key, struct lladd_span one,
                             size_t common)
{
    bool shares =
        k->heads && key.len >= common && (common == 0 || memcmp(key.data, one.data, common) == 0);
    return (struct probe){key, common, shares ? head_of(k, key, common) : 0, shares};
}

/* Compares the key `other`, which has this head, with the probe. */
static inline int against(const struct ll_keys *k, uint64_t head, struct lladd_span other,
                          const struct probe *p)
{
    if (p->heads && head != p->head)
        return head < p->head ? -1 : 1;
    return lladd_dtable_compare_bytes(&k->owner->order, other, p->key);
}

static uint64_t block_for_bytes(const struct ll_keys *k, struct lladd_span key)
{
    struct probe p = probe_of(k, key, bytes_of(k, 0), k->common);
    uint64_t low = 0;
    for (uint64_t n = k->blocks; n > 1; n -= n / 2) {
        uint64_t middle = low + n / 2;
        if (against(k, p.heads ? k->heads[middle] : 0, bytes_of(k, middle), &p) <= 0)
            low = middle;
    }
    return low;
}

/* Returns the last block with a first key not above the key, or block 0. */
static uint64_t block_for(const struct ll_keys *k, const struct lladd_dtable_key *key)
{
    uint64_t low = 0;
    if (!k->numbers)
        return block_for_bytes(k, key->bytes);
    for (uint64_t n = k->blocks; n > 1; n -= n / 2)
        low = first_of(k, low + n / 2) <= key->number ? low + n / 2 : low;
    return low;
}

/* Returns the first row from `low` on with a key not below `key`, or `high`. */
static uint32_t halve(const struct block *b, uint64_t key, uint32_t low, uint32_t high)
{
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (key_at(b, middle) < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the first row with a key not below `key`, or the number of rows. Interpolates, then moves
 * away from the result in growing steps until the row is enclosed, then uses binary search. */
static uint32_t row_for(const struct block *b, uint64_t key)
{
    if (b->kw == 0 && b->n > 1) {
        uint64_t i = (b->step == 1 ? key : key / b->step) + (b->step > 1 && key % b->step != 0);
        return i < b->n ? (uint32_t)i : b->n;
    }
    uint64_t last = key_at(b, b->n - 1);
    if (key == 0 || key > last)
        return key ? b->n : 0;
    uint32_t at = (uint32_t)((double)key / (double)last * (b->n - 1)), step = 1;
    at = at < b->n - 1 ? at : b->n - 1;
    if (key_at(b, at) < key) {
        uint32_t low = at + 1;
        while (low < b->n && key_at(b, low) < key && b->n - low > step) {
            uint32_t next = low + step;
            if (key_at(b, next) >= key)
                return halve(b, key, low + 1, next);
            low = next;
            step *= 2;
        }
        return low < b->n && key_at(b, low) >= key ? low : halve(b, key, low, b->n);
    }
    while (at > 0 && key_at(b, at - 1) >= key) {
        uint32_t next = at > step ? at - step : 0;
        if (key_at(b, next) < key)
            return halve(b, key, next + 1, at);
        at = next;
        step *= 2;
    }
    return at;
}

/* Prefetches the rows that binary search compares first, and their keys, so that the cache misses
 * overlap. Assumes that all keys have the same length. */
static void come_halves(const struct block *b, uint32_t low, uint32_t high, unsigned parts)
{
    uint32_t length = b->bytes_len / b->n;
    for (unsigned i = 1; i < parts; i++) {
        uint32_t at = low + (uint32_t)((uint64_t)(high - low) * i / parts);
        if (b->kw)
            __builtin_prefetch(b->rows + (size_t)at * b->width);
        __builtin_prefetch(b->bytes + (size_t)at * length);
    }
}

/* Returns the first row with a key not below `key`, for keys that are bytes. All keys of a block
 * begin with the prefix that its first key and the next block's first key have in common. */
static uint32_t row_for_bytes(const struct ll_keys *k, uint64_t block, const struct block *b,
                              struct lladd_span key)
{
    enum { PARTS = 8, MANY = 32 };
    struct lladd_span first = bytes_of(k, block);
    size_t common = block + 1 < k->blocks ? in_common(first, bytes_of(k, block + 1)) : 0;
    struct probe p = probe_of(k, key, first, common);
    uint32_t low = 0, high = b->n;
    if (high > MANY)
        come_halves(b, low, high, PARTS);
    while (low < high) {
        uint32_t n = high - low, middle = low + n / 2;
        if (n > MANY / 2 && n <= MANY)
            come_halves(b, low, high, PARTS);
        struct lladd_span s = span_at(b, middle);
        if (against(k, p.heads ? head_of(k, s, common) : 0, s, &p) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The result of a search. Row i of `block` is the block's first row with a key not below the key
 * that is searched for. If there is none, i is the number of rows. */
struct found {
    struct block b;
    uint64_t block;
    uint32_t i;
    bool exact;
};

/* Finds the block and row for a key. The table must have rows. */
static int search(const struct ll_keys *k, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct found *f, struct lladd_error *err)
{
    f->block = block_for(k, key);
    TRY(hold(k, f->block, pin, &f->b, err));
    if (k->numbers) {
        bool before = key->number < f->b.first;
        uint64_t distance = key->number - f->b.first;
        f->i = before ? 0 : row_for(&f->b, distance);
        f->exact = !before && f->i < f->b.n && key_at(&f->b, f->i) == distance;
    } else {
        f->i = row_for_bytes(k, f->block, &f->b, key->bytes);
        f->exact = f->i < f->b.n && lladd_dtable_compare_bytes(
                                        &k->owner->order, span_at(&f->b, f->i), key->bytes) == 0;
    }
    return 0;
}

int ll_keys_find(const struct ll_keys *k, const struct lladd_dtable_key *key,
                 struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                 struct lladd_error *err)
{
    struct found f;
    *place = 0;
    *exact = false;
    if (k->rows == 0)
        return 0;
    TRY(search(k, key, pin, &f, err));
    *exact = f.exact;
    *place = place_of(k, f.block) + f.i;
    return 0;
}

static int marks_at(const struct ll_keys *k, const struct block *b, uint32_t i, uint64_t *before,
                    uint64_t *mark, struct lladd_error *err)
{
    *mark = mark_at(b, i);
    *before = i ? mark_at(b, i - 1) : b->base;
    return *before / 2 <= *mark / 2 ? 0 : lladd_dtable_corrupt(k->owner, err, "its values overlap");
}

/* ll_keys_find and ll_keys_at in one: finds the key's place and marks. *exact: the key is there. */
static int ask(const struct ll_keys *k, const struct lladd_dtable_key *key,
               struct lladd_dtable_pin *pin, bool *exact, uint64_t *place, uint64_t *before,
               uint64_t *mark, struct lladd_error *err)
{
    struct found f;
    *exact = false;
    if (k->rows == 0)
        return 0;
    int rc = search(k, key, pin, &f, err);
    if (rc || !f.exact)
        return rc;
    *exact = true;
    *place = place_of(k, f.block) + f.i;
    return marks_at(k, &f.b, f.i, before, mark, err);
}

/* Returns the block of a place. Interpolates, because blocks usually have similar numbers of rows.
 * If that fails, uses binary search. */
static uint64_t block_at(const struct ll_keys *k, uint64_t place)
{
    uint64_t block = (uint64_t)((double)place / (double)k->rows * (double)k->blocks);
    block = block < k->blocks ? block : k->blocks - 1;
    if (place_of(k, block) <= place && place < place_of(k, block + 1))
        return block;
    if (block > 0 && place_of(k, block - 1) <= place && place < place_of(k, block))
        return block - 1;
    uint64_t low = 0, n = k->blocks;
    while (n > 1) {
        uint64_t half = n / 2;
        low = place_of(k, low + half) <= place ? low + half : low;
        n -= half;
    }
    return low;
}

int ll_keys_at(const struct ll_keys *k, uint64_t place, struct lladd_dtable_pin *pin,
               struct lladd_dtable_key *key, uint64_t *before, uint64_t *mark,
               struct lladd_error *err)
{
    struct block b;
    uint64_t block = block_at(k, place);
    TRY(hold(k, block, pin, &b, err));
    uint32_t i = (uint32_t)(place - place_of(k, block));
    if (key) {
        key->type = k->owner->order.type;
        key->number = k->numbers ? b.first + key_at(&b, i) : 0;
        key->bytes = k->numbers ? lladd_span_of(NULL, 0) : span_at(&b, i);
    }
    return marks_at(k, &b, i, before, mark, err);
}

/* ---- for classes ----------------------------------------------------------------------------- */

static const struct ll_keys *keys_of(const struct lladd_dtable *base)
{
    return &((const struct ll_keys_reader *)base)->keys;
}

int ll_keys_class_find(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                       struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                       struct lladd_error *err)
{
    return ll_keys_find(keys_of(base), key, pin, place, exact, err);
}

int ll_keys_class_at(const struct lladd_dtable *base, uint64_t place, struct lladd_dtable_pin *pin,
                     struct lladd_dtable_key *key, struct lladd_dtable_value *value,
                     struct lladd_error *err)
{
    uint64_t before, mark;
    int rc = ll_keys_at(keys_of(base), place, pin, key, &before, &mark, err);
    return rc || !value ? rc : base->kind->at_mark(base, place, before, mark, pin, value, err);
}

int ll_keys_class_lookup(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                         struct lladd_dtable_pin *pin, struct lladd_dtable_value *out,
                         struct lladd_error *err)
{
    uint64_t place = 0, before = 0, mark = 0;
    bool exact;
    int rc = ask(keys_of(base), key, pin, &exact, &place, &before, &mark, err);
    return rc || !exact ? rc : base->kind->at_mark(base, place, before, mark, pin, out, err);
}
