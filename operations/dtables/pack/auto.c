/* SPDX-License-Identifier: BSD-2-Clause */
/* auto_dtable: any keys, any values. Values are stored in segments, each in one of several forms.
 *
 * Keys are in a column of their own (keys.c). A key's mark is twice the number of tombstones up to
 * and including its row, plus one if the row is a tombstone. The builder collects 1024 values, or
 * up to 64 KiB of values, and writes them to the stream "values" as one segment; segment.c chooses
 * its form (auto.h). A value longer than 64 KiB is a segment of its own, and is written
 * immediately. For each segment, the stream "segments" has the u64 number of its first value and
 * the u64 offset of the segment. This stream is in memory while the table is open.
 *
 * The position of a value in its segment is computed, with three exceptions. In the form "runs", a
 * binary search finds the value. In the form "numbers", a binary search finds a value that is
 * stored as an item and not as a code (auto.h). In the form "deltas", at most 31 differences are
 * added up.
 *
 * "encodings" lists the forms that may be chosen besides "plain". Without it all forms may be
 * chosen. */
#include "operations/dtables/class/keys.h"
#include "operations/dtables/pack/auto.h"
#include "operations/shared/grow.h"

#include <lladd/extension.h>

enum { WAITING = 64 << 10, ENTRY = 16 };

struct builder {
    struct lladd_dtable_builder base;
    struct ll_keys_builder keys;
    struct lladd_dtable_writer *values, *segments;
    struct ll_auto_values *wait;
    uint64_t tombstones, n, n_segments; /* n: number of values in segments */
    unsigned allowed;
};

struct reader {
    struct lladd_dtable base;
    struct ll_keys keys;
    const struct lladd_dtable_source *values;
    const unsigned char *segments;
    uint64_t n, n_segments;
};

/* ---- configuration --------------------------------------------------------------------------- */

static const char *const names[LL_AUTO_FORMS] = {"constant", "runs",       "numbers",
                                                 "deltas",   "dictionary", "plain"};

/* Returns the allowed forms as bits, or 0 if a word names no form. */
static unsigned forms_of(const struct lladd_dtable_config *c)
{
    size_t n = lladd_dtable_param_words(c, "encodings");
    unsigned forms = n ? 1u << LL_AUTO_PLAIN : (1u << LL_AUTO_FORMS) - 1;
    for (size_t i = 0; i < n; i++) {
        struct lladd_span s = lladd_dtable_param_word(c, "encodings", i);
        unsigned form = 0;
        while (form < LL_AUTO_FORMS &&
               (strlen(names[form]) != s.len || memcmp(names[form], s.data, s.len) != 0))
            form++;
        if (form == LL_AUTO_FORMS)
            return 0;
        forms |= 1u << form;
    }
    return forms;
}

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    caps->all_values = true;
    return forms_of(c) ? 0
                       : lladd_error_set(err, LLADD_BAD_CONFIG,
                                         "auto_dtable: encodings are constant, runs, numbers, "
                                         "deltas, dictionary, plain");
}

/* ---- building -------------------------------------------------------------------------------- */

static int no_memory(const struct builder *b)
{
    return lladd_error_set(b->base.error, LLADD_NO_MEMORY, "out of memory for an auto_dtable");
}

static int begin(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    b->allowed = forms_of(base->config);
    b->wait = lladd_mem_alloc(base->db, sizeof *b->wait);
    if (!b->wait)
        return no_memory(b);
    memset(b->wait, 0, sizeof *b->wait);
    TRY(ll_keys_begin(&b->keys, base));
    TRY(lladd_dtable_stream(base, "values", &b->values));
    return lladd_dtable_stream(base, "segments", &b->segments);
}

static int note_segment(struct builder *b, uint32_t values)
{
    unsigned char entry[ENTRY];
    lladd_put64(entry, b->n);
    lladd_put64(entry + 8, lladd_dtable_written(b->values));
    b->n += values;
    b->n_segments++;
    return lladd_dtable_write(b->segments, entry, sizeof entry);
}

static int write_waiting(struct builder *b)
{
    size_t len;
    if (b->wait->n == 0)
        return 0;
    int rc = ll_auto_segment(b->base.db, b->wait, b->allowed, &len) ? no_memory(b) : 0;
    rc = rc ? rc : note_segment(b, b->wait->n);
    rc = rc ? rc : lladd_dtable_write(b->values, b->wait->out, len);
    b->wait->n = 0;
    b->wait->len = 0;
    return rc;
}

static int write_long(struct builder *b, struct lladd_span v)
{
    unsigned char head[LL_AUTO_HEAD] = {LL_AUTO_PLAIN};
    lladd_put16(head + 4, 1);
    lladd_put16(head + 6, 1);
    lladd_put32(head + 16, (uint32_t)v.len);
    TRY(write_waiting(b));
    TRY(note_segment(b, 1));
    TRY(lladd_dtable_write(b->values, head, sizeof head));
    return lladd_dtable_write(b->values, v.data, v.len);
}

static int wait_for_more(struct builder *b, struct lladd_span v)
{
    struct ll_auto_values *w = b->wait;
    if (w->n == LL_AUTO_VALUES || w->len + v.len > WAITING)
        TRY(write_waiting(b));
    if (ll_operations__grow(b->base.db, &w->bytes, w->len + v.len, &w->cap, 1))
        return no_memory(b);
    if (v.len)
        lladd_copy(w->bytes + w->len, v.data, v.len);
    w->len += v.len;
    w->end[w->n++] = w->len;
    return 0;
}

static int add(struct lladd_dtable_builder *base, const struct lladd_dtable_key *key,
               const struct lladd_dtable_value *value)
{
    struct builder *b = (struct builder *)base;
    bool tombstone = value->state == LLADD_DTABLE_TOMBSTONE;
    int rc = 0;
    if (!tombstone)
        rc = value->bytes.len > WAITING ? write_long(b, value->bytes)
                                        : wait_for_more(b, value->bytes);
    b->tombstones += tombstone;
    return rc ? rc : ll_keys_add(&b->keys, key, b->tombstones * 2 + tombstone);
}

/* Footer: that of keys.c, then u64 values, u64 segments. */
static int finish(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    unsigned char more[16];
    int rc = write_waiting(b);
    lladd_put64(more, b->n);
    lladd_put64(more + 8, b->n_segments);
    return rc ? rc : ll_keys_finish(&b->keys, more, sizeof more);
}

static void discard(struct lladd_dtable_builder *base)
{
    struct builder *b = (struct builder *)base;
    ll_keys_discard(&b->keys);
    if (b->wait) {
        lladd_mem_free(base->db, b->wait->bytes);
        lladd_mem_free(base->db, b->wait->out);
    }
    lladd_mem_free(base->db, b->wait);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Returns the number of a segment's first value. For the segment after the last one, returns the
 * number of all values. */
static uint64_t first_of(const struct reader *r, uint64_t segment)
{
    return segment < r->n_segments ? lladd_get64(r->segments + ENTRY * segment) : r->n;
}

static bool in_order(const struct reader *r)
{
    if (first_of(r, 0) != 0)
        return false;
    for (uint64_t i = 0; i < r->n_segments; i++)
        if (first_of(r, i + 1) <= first_of(r, i) ||
            first_of(r, i + 1) - first_of(r, i) > LL_AUTO_VALUES)
            return false;
    return true;
}

static int open(struct lladd_dtable *base, struct lladd_error *err)
{
    struct reader *r = (struct reader *)base;
    const struct lladd_dtable_source *s;
    struct lladd_span more;
    TRY(ll_keys_open(&r->keys, base, &more, err));
    TRY(lladd_dtable_source_open(base, "values", &r->values, err));
    TRY(lladd_dtable_source_open(base, "segments", &s, err));
    TRY(lladd_dtable_load(base, s, &r->segments, err));
    if (more.len != 16)
        return lladd_dtable_corrupt(base, err, "its footer has the wrong length");
    r->n = lladd_get64(more.data);
    r->n_segments = lladd_get64((const unsigned char *)more.data + 8);
    uint64_t size = lladd_dtable_source_size(s);
    if (r->n_segments != size / ENTRY || size % ENTRY || !in_order(r))
        return lladd_dtable_corrupt(base, err,
                                    "invalid segments: expected segments in order of their rows");
    return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Value i of a segment of n values. `more` and `list` are offsets in the stream: of the form's own
 * data, and of the items' ends. The other members are fields of the segment (auto.h). */
struct place {
    const struct reader *r;
    struct lladd_dtable_pin *pin;
    struct lladd_error *err;
    uint64_t base, more, list;
    uint32_t i, n, items, item_len;
    unsigned form, bits, width, ends;
};

static int bad_segment(const struct place *p)
{
    return lladd_dtable_corrupt(&p->r->base, p->err,
                                "invalid segment: its values do not fit into it");
}

static int read_at(const struct place *p, uint64_t at, size_t len, const unsigned char **out)
{
    return lladd_dtable_read(p->pin, 1, p->r->values, at, len, out, p->err);
}

/* Returns the segment of value i. The first guess is right if all earlier segments have
 * LL_AUTO_VALUES values. Otherwise the segment is a later one. */
static uint64_t segment_of(const struct reader *r, uint64_t i)
{
    uint64_t low = i / LL_AUTO_VALUES, high = r->n_segments;
    if (i < first_of(r, low + 1))
        return low;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (first_of(r, middle) <= i)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int enter(struct place *p, uint64_t i)
{
    const struct reader *r = p->r;
    const unsigned char *head;
    uint64_t segment = segment_of(r, i), at = lladd_get64(r->segments + ENTRY * segment + 8);
    TRY(read_at(p, at, LL_AUTO_HEAD, &head));
    p->i = (uint32_t)(i - first_of(r, segment));
    p->form = head[0];
    p->bits = head[1];
    p->width = head[2];
    p->ends = head[3];
    p->n = lladd_get16(head + 4);
    p->items = lladd_get16(head + 6);
    p->base = lladd_get64(head + 8);
    p->item_len = lladd_get32(head + 16);
    p->more = at + LL_AUTO_HEAD;
    uint64_t codes = ((uint64_t)p->n * p->bits + 7) / 8;
    p->list = p->more + (p->form == LL_AUTO_RUNS         ? 2 * (uint64_t)p->items
                         : p->form == LL_AUTO_NUMBERS    ? codes + 2 * (uint64_t)p->items
                         : p->form == LL_AUTO_DICTIONARY ? codes
                                                         : 0);
    bool numbers = p->form == LL_AUTO_NUMBERS || p->form == LL_AUTO_DELTAS;
    return p->n != first_of(r, segment + 1) - first_of(r, segment) || p->bits > LL_AUTO_BITS ||
                   p->ends > 8 || (numbers && (p->width == 0 || p->width > 8))
               ? bad_segment(p)
               : 0;
}

static uint64_t few(const unsigned char *p, unsigned n)
{
    return n ? lladd_get64(p) & UINT64_MAX >> (64 - 8 * n) : 0;
}

static int item(const struct place *p, uint32_t i, struct lladd_dtable_value *out)
{
    const unsigned char *bytes;
    uint64_t from = (uint64_t)i * p->item_len, len = p->item_len;
    int rc = i < p->items ? 0 : bad_segment(p);
    if (!rc && p->ends) {
        unsigned before = i ? p->ends : 0;
        rc = read_at(p, p->list + (uint64_t)i * p->ends - before, before + p->ends, &bytes);
        if (rc)
            return rc;
        from = few(bytes, before);
        uint64_t to = few(bytes + before, p->ends);
        if (from > to || to - from > LLADD_DTABLE_VALUE_MAX || to > UINT32_MAX)
            return bad_segment(p);
        len = to - from;
        from += (uint64_t)p->items * p->ends;
    }
    if (!rc)
        rc = read_at(p, p->list + from, (size_t)len, &bytes);
    if (!rc)
        *out = lladd_dtable_value_of(bytes, (size_t)len);
    return rc;
}

static int code(const struct place *p, uint64_t codes, uint32_t i, uint64_t *out)
{
    uint64_t at = (uint64_t)i * p->bits;
    unsigned shift = at % 8;
    const unsigned char *bytes;
    *out = 0;
    if (p->bits == 0)
        return 0;
    int rc = read_at(p, codes + at / 8, (shift + p->bits + 7) / 8, &bytes);
    if (!rc)
        *out = lladd_get64(bytes) >> shift & UINT64_MAX >> (64 - p->bits);
    return rc;
}

static int number(const struct place *p, uint64_t v, struct lladd_dtable_value *out)
{
    unsigned char *room = lladd_dtable_room(p->r->base.db, p->pin, 8);
    lladd_put64(room, v);
    *out = lladd_dtable_value_of(room, p->width);
    return 0;
}

/* Returns how many of the n sorted u16 are less than v; if `equal`, less than or equal to v. */
static uint32_t count_up_to(const unsigned char *sorted, uint32_t n, uint32_t v, bool equal)
{
    uint32_t low = 0;
    while (n > 0) {
        uint32_t half = n / 2, there = lladd_get16(sorted + 2 * (low + half));
        bool go = there < v || (equal && there == v);
        low = go ? low + half + 1 : low;
        n = go ? n - half - 1 : half;
    }
    return low;
}

static int from_numbers(const struct place *p, struct lladd_dtable_value *out)
{
    const unsigned char *places;
    uint64_t c;
    int rc = code(p, p->more, p->i, &c);
    if (rc || p->bits == 0 || c != UINT64_MAX >> (64 - p->bits))
        return rc ? rc : number(p, p->base + c, out);
    TRY(read_at(p, p->list - 2 * (uint64_t)p->items, 2 * (size_t)p->items, &places));
    uint32_t at = count_up_to(places, p->items, p->i, false);
    if (at == p->items || lladd_get16(places + 2 * at) != p->i)
        return bad_segment(p);
    return item(p, at, out);
}

static int from_deltas(const struct place *p, struct lladd_dtable_value *out)
{
    const unsigned char *mark;
    uint32_t first = p->i - p->i % LL_AUTO_STRIDE;
    uint64_t marks = (p->n + LL_AUTO_STRIDE - 1) / LL_AUTO_STRIDE * 8, c;
    int rc = read_at(p, p->more + first / LL_AUTO_STRIDE * 8, 8, &mark);
    uint64_t v = rc ? 0 : lladd_get64(mark) + (p->i - first) * p->base;
    for (uint32_t i = first + 1; i <= p->i && !rc; i++) {
        rc = code(p, p->more + marks, i, &c);
        v += c;
    }
    return rc ? rc : number(p, v, out);
}

static int value_at(const struct place *p, struct lladd_dtable_value *out)
{
    const unsigned char *ends;
    uint64_t c = 0;
    int rc;
    switch (p->form) {
    case LL_AUTO_CONSTANT:
        return item(p, 0, out);
    case LL_AUTO_RUNS:
        rc = read_at(p, p->more, 2 * (size_t)p->items, &ends);
        return rc ? rc : item(p, count_up_to(ends, p->items, p->i, true), out);
    case LL_AUTO_NUMBERS:
        return from_numbers(p, out);
    case LL_AUTO_DELTAS:
        return from_deltas(p, out);
    case LL_AUTO_DICTIONARY:
        rc = code(p, p->more, p->i, &c);
        return rc ? rc : item(p, (uint32_t)(c < UINT32_MAX ? c : UINT32_MAX), out);
    case LL_AUTO_PLAIN:
        return item(p, p->i, out);
    default:
        return bad_segment(p);
    }
}

static int find(const struct lladd_dtable *base, const struct lladd_dtable_key *key,
                struct lladd_dtable_pin *pin, uint64_t *place, bool *exact,
                struct lladd_error *err)
{
    return ll_keys_find(&((const struct reader *)base)->keys, key, pin, place, exact, err);
}

static int at(const struct lladd_dtable *base, uint64_t place, struct lladd_dtable_pin *pin,
              struct lladd_dtable_key *key, struct lladd_dtable_value *value,
              struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct place p = {.r = r, .pin = pin, .err = err};
    uint64_t before, mark;
    int rc = ll_keys_at(&r->keys, place, pin, key, &before, &mark, err);
    if (rc || !value)
        return rc;
    *value = lladd_dtable_tombstone();
    if (mark & 1)
        return 0;
    if (mark / 2 > place || place - mark / 2 >= r->n)
        return lladd_dtable_corrupt(base, err, "a key refers to a value after the last one");
    rc = enter(&p, place - mark / 2);
    return rc ? rc : value_at(&p, value);
}

/* ---- many at a time -------------------------------------------------------------------------- */

/* Where n values of a segment are copied to. A struct place says which is the first one. Each value
 * has `width` bytes, and at `out` there are no gaps between them. */
struct interval {
    uint32_t n;
    unsigned width;
    unsigned char *out;
};

/* Reads the codes of n values, from value `from` on. The first code begins *shift bits after
 * *bytes. The caller may also read the eight bytes after the last code. */
static int codes_from(const struct place *p, uint64_t codes, uint32_t from, uint32_t n,
                      const unsigned char **bytes, uint64_t *shift)
{
    static const unsigned char nothing[8];
    uint64_t first = (uint64_t)from * p->bits, last = first + (uint64_t)n * p->bits;
    *shift = first % 8;
    *bytes = nothing;
    if (p->bits == 0)
        return 0;
    return read_at(p, codes + first / 8, (size_t)((last + 7) / 8 - first / 8), bytes);
}

static inline uint64_t code_in(const unsigned char *bytes, uint64_t at, uint64_t mask)
{
    return lladd_get64(bytes + at / 8) >> at % 8 & mask;
}

static inline void put_low(unsigned char *out, uint64_t v, unsigned width)
{
    v = LLADD_LE64(v);
    memcpy(out, &v, width);
}

/* Unpacks the codes of s->n values. Returns how many of these codes stand for items. Inlined, so
 * that the compiler knows `width`. */
static inline uint32_t unpack_as(const unsigned char *bytes, uint64_t at, unsigned bits,
                                 uint64_t base, const struct interval *s, unsigned width)
{
    uint64_t mask = UINT64_MAX >> (64 - bits);
    uint32_t none = 0;
    for (uint32_t i = 0; i < s->n; i++, at += bits) {
        uint64_t c = code_in(bytes, at, mask);
        none += c == mask;
        put_low(s->out + (size_t)i * width, base + c, width);
    }
    return none;
}

static uint32_t unpack(const unsigned char *bytes, uint64_t at, unsigned bits, uint64_t base,
                       const struct interval *s)
{
    switch (s->width) {
    case 1:
        return unpack_as(bytes, at, bits, base, s, 1);
    case 2:
        return unpack_as(bytes, at, bits, base, s, 2);
    case 4:
        return unpack_as(bytes, at, bits, base, s, 4);
    case 8:
        return unpack_as(bytes, at, bits, base, s, 8);
    default:
        return unpack_as(bytes, at, bits, base, s, s->width);
    }
}

/* Unpacks all codes, then copies the values that are items. If an item has another length, s->n
 * becomes the number of values before it. */
static int copy_numbers(const struct place *p, struct interval *s)
{
    const unsigned char *bytes, *places;
    uint64_t shift = 0;
    struct lladd_dtable_value v;
    int rc = p->bits ? codes_from(p, p->more, p->i, s->n, &bytes, &shift) : bad_segment(p);
    uint32_t none = rc ? 0 : unpack(bytes, shift, p->bits, p->base, s);
    if (rc || none == 0)
        return rc;
    rc = lladd_dtable_read(p->pin, 0, p->r->values, p->list - 2 * (uint64_t)p->items,
                           2 * (size_t)p->items, &places, p->err);
    uint32_t at = rc ? 0 : count_up_to(places, p->items, p->i, false);
    for (; !rc && at < p->items && none > 0; at++, none--) {
        uint32_t i = lladd_get16(places + 2 * at);
        if (i < p->i || i >= p->i + s->n)
            break;
        rc = item(p, at, &v);
        if (!rc && v.bytes.len != s->width) {
            s->n = i - p->i;
            return 0;
        }
        if (!rc)
            lladd_copy(s->out + (size_t)(i - p->i) * s->width, v.bytes.data, s->width);
    }
    return rc || none == 0 ? rc : bad_segment(p);
}

/* Adds up the differences. It begins at a value that is stored in full: value p->i, or the last
 * such value before it. Inlined, so that the compiler knows `width`. */
static inline void add_up_as(const struct place *p, const unsigned char *marks,
                             const unsigned char *codes, uint64_t at, const struct interval *s,
                             unsigned width)
{
    uint64_t mask = p->bits ? UINT64_MAX >> (64 - p->bits) : 0;
    uint32_t i = p->i - p->i % LL_AUTO_STRIDE, end = p->i + s->n;
    uint64_t v = lladd_get64(marks + i / LL_AUTO_STRIDE * 8);
    for (; i < p->i; i++)
        v += p->base + code_in(codes, at += p->bits, mask);
    put_low(s->out, v, width);
    for (i++; i < end; i++) {
        v += p->base + code_in(codes, at += p->bits, mask);
        if (i % LL_AUTO_STRIDE == 0)
            v = lladd_get64(marks + i / LL_AUTO_STRIDE * 8);
        put_low(s->out + (size_t)(i - p->i) * width, v, width);
    }
}

static int copy_deltas(const struct place *p, const struct interval *s)
{
    const unsigned char *codes, *marks;
    uint32_t first = p->i - p->i % LL_AUTO_STRIDE;
    uint64_t size = (p->n + LL_AUTO_STRIDE - 1) / LL_AUTO_STRIDE * 8, at = 0;
    int rc = lladd_dtable_read(p->pin, 0, p->r->values, p->more, (size_t)size, &marks, p->err);
    if (!rc)
        rc = codes_from(p, p->more + size, first, p->i + s->n - first, &codes, &at);
    if (!rc && s->width == 4)
        add_up_as(p, marks, codes, at, s, 4);
    else if (!rc && s->width == 8)
        add_up_as(p, marks, codes, at, s, 8);
    else if (!rc)
        add_up_as(p, marks, codes, at, s, s->width);
    return rc;
}

/* Copies values that are items. All items of the segment have s->width bytes. */
static int copy_items(const struct place *p, const struct interval *s)
{
    const unsigned char *list, *bytes = NULL;
    const size_t width = s->width;
    bool runs = p->form == LL_AUTO_RUNS;
    uint64_t at = 0, mask = p->bits ? UINT64_MAX >> (64 - p->bits) : 0;
    int rc = lladd_dtable_read(p->pin, 0, p->r->values, p->list, width * p->items, &list, p->err);
    if (!rc && runs)
        rc = read_at(p, p->more, 2 * (size_t)p->items, &bytes);
    else if (!rc && p->form == LL_AUTO_DICTIONARY)
        rc = codes_from(p, p->more, p->i, s->n, &bytes, &at);
    uint64_t now = runs && !rc ? count_up_to(bytes, p->items, p->i, true) : 0;
    for (uint32_t i = 0; i < s->n && !rc; i++, at += p->bits) {
        uint64_t which = p->form == LL_AUTO_PLAIN ? p->i + i : now;
        if (p->form == LL_AUTO_DICTIONARY)
            which = code_in(bytes, at, mask);
        while (runs && now < p->items && lladd_get16(bytes + 2 * now) <= p->i + i)
            which = ++now;
        if (which >= p->items)
            return bad_segment(p);
        lladd_copy(s->out + i * width, list + which * width, width);
    }
    return rc;
}

/* Copies values up to the first value of another length; s->n becomes the number copied. */
static int copy_interval(struct place *p, struct interval *s)
{
    struct lladd_dtable_value v;
    uint32_t n = s->n;
    bool numbers = p->form == LL_AUTO_NUMBERS || p->form == LL_AUTO_DELTAS;
    if (p->form == LL_AUTO_NUMBERS && p->width == s->width)
        return copy_numbers(p, s);
    if (p->form == LL_AUTO_DELTAS && p->width == s->width)
        return copy_deltas(p, s);
    if (!numbers && p->ends == 0 && p->item_len == s->width)
        return copy_items(p, s);
    for (s->n = 0; s->n < n; s->n++, p->i++) {
        int rc = value_at(p, &v);
        if (rc || v.bytes.len != s->width)
            return rc;
        lladd_copy(s->out + (size_t)s->n * s->width, v.bytes.data, s->width);
    }
    return 0;
}

/* Copies at most n values, from value `first` on, segment by segment. Stops before the first value
 * that differs in length from value `first`. *width is that length, and *got the number copied.
 * None of the rows may be a tombstone. */
static int copy_values(struct place *p, uint64_t first, size_t n, unsigned char *out, size_t room,
                       size_t *width, size_t *got)
{
    struct lladd_dtable_value v;
    int rc = enter(p, first);
    rc = rc ? rc : value_at(p, &v);
    if (rc || v.bytes.len == 0 || v.bytes.len > room || v.bytes.len > UINT32_MAX)
        return rc;
    *width = v.bytes.len;
    n = n < room / *width ? n : room / *width;
    while (*got < n && !rc) {
        rc = enter(p, first + *got);
        if (rc)
            break;
        uint32_t there = p->n - p->i;
        struct interval s = {n - *got < there ? (uint32_t)(n - *got) : there, (unsigned)*width,
                            out + *got * *width};
        uint32_t wanted = s.n;
        rc = copy_interval(p, &s);
        *got += rc ? 0 : s.n;
        if (s.n < wanted)
            break;
    }
    return rc;
}

static int copy(const struct lladd_dtable *base, uint64_t place, size_t n, unsigned char *out,
                size_t room, size_t *width, size_t *got, struct lladd_error *err)
{
    const struct reader *r = (const struct reader *)base;
    struct lladd_dtable_pin pin = LLADD_DTABLE_PIN_INIT;
    struct place p = {.r = r, .pin = &pin, .err = err};
    uint64_t before, mark, last = 0;
    int rc = ll_keys_at(&r->keys, place + n - 1, &pin, NULL, &before, &last, err);
    if (!rc)
        rc = ll_keys_at(&r->keys, place, &pin, NULL, &before, &mark, err);
    if (!rc && before / 2 == last / 2)
        rc = before / 2 > place || place + n - before / 2 > r->n
                 ? lladd_dtable_corrupt(base, err, "a key refers to a value after the last one")
                 : copy_values(&p, place - before / 2, n, out, room, width, got);
    lladd_dtable_unpin(&pin);
    return rc;
}

static const struct lladd_dtable_param params[] = {
    {"encodings", LLADD_DTABLE_PARAM_WORDS, false, 0, 0, 0,
     "the forms that segments may have: constant, runs, numbers, deltas, dictionary, plain"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_auto = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "auto_dtable",
    .version = 2,
    .about = "any keys and values, in the shortest of several forms",
    .params = params,
    .configure = configure,
    .builder_size = sizeof(struct builder),
    .begin = begin,
    .add = add,
    .finish = finish,
    .discard = discard,
    .reader_size = sizeof(struct reader),
    .open = open,
    .find = find,
    .at = at,
    .copy = copy,
};
