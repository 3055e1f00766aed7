/* SPDX-License-Identifier: BSD-2-Clause */
/* Packs groups of 256 numbers with any number of bits, and finds out how many bits they need.
 *
 * Numbers of B bits (16, 32 or 64; numbers of one byte are packed as numbers of 16 bits) are in
 * L = 256 / B lanes of vectors of 32 bytes. Lane l has the numbers l, L + l, 2 L + l ..., one after
 * the other, from the lowest bit upwards: B numbers of w bits are exactly w words. Word k of all
 * lanes is vector k. So the shifts are the same in all lanes, and a group that ends early ends
 * after the vectors with its last rows.
 *
 * The kernels use vectors of the compiler (GCC, clang), which become the instructions that there
 * are. On x86-64 they are compiled a second time, for AVX2. */
#include "operations/dtables/multicolumn/codec.h"

#define INLINE static inline __attribute__((always_inline))

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define LITTLE(T, v, lanes) \
    for (unsigned swap = 0; swap < (lanes); swap++) \
    (v)[swap] = sizeof(T) == 2   ? (T)__builtin_bswap16((uint16_t)(v)[swap]) \
                : sizeof(T) == 4 ? (T)__builtin_bswap32((uint32_t)(v)[swap]) \
                                 : (T)__builtin_bswap64((uint64_t)(v)[swap])
#else
#define LITTLE(T, v, lanes) ((void)0)
#endif

/* In pack_, the numbers of a lane that are not written yet are in `word`, from bit 0 up to bit
 * `have`. In unpack_, a number is in one word or in two; if it is in one, the bits of the second
 * word are shifted to where the mask hides them. The second word of the last number is never
 * needed, so no vector after the last one is read. */
#define KERNELS(T, B) \
    typedef T vector_##B __attribute__((vector_size(32))); \
    INLINE void pack_##B(const unsigned char *in, T base, unsigned w, unsigned char *out) \
    { \
        const unsigned step = sizeof(vector_##B); \
        const T mask = (T)((T) ~(T)0 >> (B - w)); \
        vector_##B word = {0}, v; \
        unsigned have = 0; \
        for (unsigned row = 0; row < B; row++) { \
            memcpy(&v, in + row * step, sizeof v); \
            v = (v - base) & mask; \
            word |= v << (T)have; \
            have += w; \
            if (have >= B) { \
                LITTLE(T, word, 256 / B); \
                memcpy(out, &word, sizeof word); \
                out += step; \
                have -= B; \
                word = have ? v >> (T)(w - have) : (vector_##B){0}; \
            } \
        } \
    } \
    INLINE void unpack_##B(const unsigned char *in, T base, unsigned w, unsigned char *out) \
    { \
        const unsigned step = sizeof(vector_##B); \
        const T mask = (T)((T) ~(T)0 >> (B - w)); \
        for (unsigned row = 0; row < B; row++) { \
            unsigned bit = row * w, k = bit / B, s = bit % B, next = k + 1 < w ? k + 1 : k; \
            vector_##B low, high; \
            memcpy(&low, in + k * step, sizeof low); \
            memcpy(&high, in + next * step, sizeof high); \
            LITTLE(T, low, 256 / B); \
            LITTLE(T, high, 256 / B); \
            low = ((low >> (T)s | (high << (T)1) << (T)(B - 1 - s)) & mask) + base; \
            memcpy(out + row * step, &low, sizeof low); \
        } \
    }

KERNELS(uint16_t, 16)
KERNELS(uint32_t, 32)
KERNELS(uint64_t, 64)

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Loops that compilers turn into vector instructions. */
#define RANGES(T, S, B) \
    INLINE void range_##B(const void *values, uint32_t n, uint64_t *min, uint64_t *max) \
    { \
        const T *v = values; \
        T low = v[0], high = v[0]; \
        for (uint32_t i = 0; i < n; i++) { \
            low = v[i] < low ? v[i] : low; \
            high = v[i] > high ? v[i] : high; \
        } \
        *min = low; \
        *max = high; \
    } \
    INLINE void steps_##B(const void *values, uint32_t n, int64_t *min, int64_t *max) \
    { \
        const T *v = values; \
        S low = (S)(T)(v[1] - v[0]), high = low; \
        for (uint32_t i = 0; i < n; i++) { \
            S step = (S)(T)(v[i + 1] - v[i]); \
            low = step < low ? step : low; \
            high = step > high ? step : high; \
        } \
        *min = low; \
        *max = high; \
    } \
    INLINE uint32_t changes_##B(const void *values, uint32_t n) \
    { \
        const T *v = values; \
        uint32_t changes = 0; \
        for (uint32_t i = 1; i < n; i++) \
            changes += v[i] != v[i - 1]; \
        return changes; \
    }

RANGES(uint8_t, int8_t, 8)
RANGES(uint16_t, int16_t, 16)
RANGES(uint32_t, int32_t, 32)
RANGES(uint64_t, int64_t, 64)

/* ---- for each kind of processor -------------------------------------------------------------- */

#define EACH(attributes, kind) \
    attributes static void pack_##kind(const unsigned char *in, uint32_t width, uint64_t base, \
                                       unsigned bits, unsigned char *out) \
    { \
        if (width == 4) \
            pack_32(in, (uint32_t)base, bits, out); \
        else if (width == 8) \
            pack_64(in, base, bits, out); \
        else \
            pack_16(in, (uint16_t)base, bits, out); \
    } \
    attributes static void unpack_##kind(const unsigned char *in, uint32_t width, uint64_t base, \
                                         unsigned bits, unsigned char *out) \
    { \
        if (width == 4) \
            unpack_32(in, (uint32_t)base, bits, out); \
        else if (width == 8) \
            unpack_64(in, base, bits, out); \
        else \
            unpack_16(in, (uint16_t)base, bits, out); \
    } \
    attributes static void range_##kind(const void *v, uint32_t width, uint32_t n, uint64_t *min, \
                                        uint64_t *max) \
    { \
        if (width == 4) \
            range_32(v, n, min, max); \
        else if (width == 8) \
            range_64(v, n, min, max); \
        else if (width == 2) \
            range_16(v, n, min, max); \
        else \
            range_8(v, n, min, max); \
    } \
    attributes static void steps_##kind(const void *v, uint32_t width, uint32_t n, int64_t *min, \
                                        int64_t *max) \
    { \
        if (width == 4) \
            steps_32(v, n, min, max); \
        else if (width == 8) \
            steps_64(v, n, min, max); \
        else if (width == 2) \
            steps_16(v, n, min, max); \
        else \
            steps_8(v, n, min, max); \
    } \
    attributes static uint32_t changes_##kind(const void *v, uint32_t width, uint32_t n) \
    { \
        return width == 4   ? changes_32(v, n) \
               : width == 8 ? changes_64(v, n) \
               : width == 2 ? changes_16(v, n) \
                            : changes_8(v, n); \
    }

EACH(, plain)
#if defined(__x86_64__) && defined(__GNUC__)
EACH(__attribute__((target("avx2"))), avx2)
#define PICK(function, ...) \
    (__builtin_cpu_supports("avx2") ? function##_avx2(__VA_ARGS__) : function##_plain(__VA_ARGS__))
#else
#define PICK(function, ...) function##_plain(__VA_ARGS__)
#endif

void ll_bits_range(const void *values, uint32_t width, uint32_t n, uint64_t *min, uint64_t *max)
{
    PICK(range, values, width, n, min, max);
}

void ll_bits_steps(const void *values, uint32_t width, uint32_t first, uint32_t n, int64_t *min,
                   int64_t *max)
{
    const unsigned char *v = values;
    PICK(steps, v + (size_t)(first - 1) * width, width, n, min, max);
}

uint32_t ll_bits_changes(const void *values, uint32_t width, uint32_t n)
{
    return PICK(changes, values, width, n);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The bits of a word. */
static inline unsigned word_bits(uint32_t width)
{
    return width < 2 ? 16 : 8 * width;
}

size_t ll_bits_size(uint32_t width, unsigned bits, uint32_t rows)
{
    unsigned word = word_bits(width), lanes = LL_GROUP / word;
    uint32_t deep = (rows + lanes - 1) / lanes;
    return (size_t)((deep * bits + word - 1) / word) * 32;
}

/* Packs a whole group. */
static void pack_group(const unsigned char *values, uint32_t width, uint64_t base, unsigned bits,
                       unsigned char *out)
{
    uint16_t wide[LL_GROUP];
    if (width == 1) {
        for (unsigned i = 0; i < LL_GROUP; i++)
            wide[i] = values[i];
        values = (const unsigned char *)wide;
    }
    PICK(pack, values, width, base, bits, out);
}

static void unpack_group(const unsigned char *in, uint32_t width, uint64_t base, unsigned bits,
                         unsigned char *out)
{
    uint16_t wide[LL_GROUP];
    if (width != 1) {
        PICK(unpack, in, width, base, bits, out);
        return;
    }
    PICK(unpack, in, width, base, bits, (unsigned char *)wide);
    for (unsigned i = 0; i < LL_GROUP; i++)
        out[i] = (unsigned char)wide[i];
}

void ll_bits_pack(const void *values, uint32_t width, uint64_t base, unsigned bits, uint32_t rows,
                  unsigned char *out)
{
    unsigned char all[LL_GROUP_BYTES], packed[LL_GROUP_BYTES];
    if (bits == 0)
        return;
    if (rows == LL_GROUP) {
        pack_group(values, width, base, bits, out);
        return;
    }
    memcpy(all, values, (size_t)rows * width);
    for (uint32_t i = rows; i < LL_GROUP; i++)
        ll_number_set(all, width, i, base);
    pack_group(all, width, base, bits, packed);
    memcpy(out, packed, ll_bits_size(width, bits, rows));
}

static void repeat(void *out, uint32_t width, uint64_t v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ll_number_set(out, width, i, v);
}

void ll_bits_unpack(const unsigned char *in, uint32_t width, uint64_t base, unsigned bits,
                    uint32_t rows, void *out)
{
    unsigned char all[LL_GROUP_BYTES], packed[LL_GROUP_BYTES];
    if (bits == 0) {
        repeat(out, width, base, rows);
        return;
    }
    if (rows == LL_GROUP) {
        unpack_group(in, width, base, bits, out);
        return;
    }
    size_t size = ll_bits_size(width, bits, rows);
    memcpy(packed, in, size);
    memset(packed + size, 0, (size_t)bits * 32 - size);
    unpack_group(packed, width, base, bits, all);
    memcpy(out, all, (size_t)rows * width);
}

uint64_t ll_bits_at(const unsigned char *in, uint32_t width, unsigned bits, uint32_t i)
{
    if (bits == 0)
        return 0;
    unsigned word = word_bits(width), lanes = LL_GROUP / word, bytes = word / 8;
    uint32_t bit = i / lanes * bits, s = bit % word;
    const unsigned char *p = in + (size_t)(bit / word) * 32 + i % lanes * bytes;
    uint64_t v = ll_stored(p, bytes) >> s;
    if (s + bits > word)
        v |= ll_stored(p + 32, bytes) << (word - s);
    return v & UINT64_MAX >> (64 - bits);
}
