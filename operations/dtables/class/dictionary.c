/* SPDX-License-Identifier: BSD-2-Clause */
/* dictionary_dtable: stores each value as its number in a list of words. usstate_dtable: a
 * dictionary_dtable with the list of the Anvil paper (section 5.4).
 *
 * A number takes one byte, or two if there are more than 256 words; the "passthrough_value" counts
 * as a word. The passthrough value is stored unchanged. It has as many bytes as a number; it is
 * neither the number of a word nor a word. An exception_dtable above this table can store it in
 * place of other values, which are rejected. */
#include "operations/dtables/class/classes.h"

#include <lladd/extension.h>

/* The states, the federal district and Puerto Rico, in the order of their abbreviations. */
static const char states[] = "AKALARAZCACOCTDCDEFLGAHIIAIDILINKSKYLAMAMDMEMIMNMOMSMTNCNDNENHNJNM"
                             "NVNYOHOKORPAPRRISCSDTNTXUTVAVTWAWIWVWY";
enum { STATES = (sizeof states - 1) / 2 };

/* The parsed list, made by `configure`. */
struct words {
    uint32_t n, width;
    bool passes;
    uint64_t through; /* the passthrough value, as a number */
    struct lladd_span word[]; /* the words in the order of their numbers; after the last word the
                               * numbers, sorted by word, as u32 */
};

static const struct words *words_of(const struct lladd_dtable_config *c)
{
    return lladd_dtable_config_state(c);
}
static uint32_t *sorted_of(const struct words *w)
{
    return (uint32_t *)(uintptr_t)(w->word + w->n);
}

static int compare(struct lladd_span a, struct lladd_span b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? memcmp(a.data, b.data, n) : 0;
    return c ? c : a.len < b.len ? -1 : a.len > b.len;
}

/* Returns the number of a word, or w->n. */
static uint32_t number_of(const struct words *w, struct lladd_span word)
{
    const uint32_t *sorted = sorted_of(w);
    uint32_t low = 0, high = w->n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int c = compare(w->word[sorted[middle]], word);
        if (c == 0)
            return sorted[middle];
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return w->n;
}

/* Sorts the numbers by their words (heap sort). False if two words are equal. */
static bool sort(struct words *w)
{
    uint32_t *s = sorted_of(w);
    for (uint32_t i = 0; i < w->n; i++)
        s[i] = i;
    for (uint32_t begin = w->n / 2, end = w->n; end > 1;) {
        if (begin > 0) {
            begin--;
        } else {
            uint32_t top = s[0];
            s[0] = s[--end];
            s[end] = top;
        }
        for (uint32_t at = begin, child; (child = 2 * at + 1) < end; at = child) {
            child += child + 1 < end && compare(w->word[s[child]], w->word[s[child + 1]]) < 0;
            if (compare(w->word[s[at]], w->word[s[child]]) >= 0)
                break;
            uint32_t parent = s[at];
            s[at] = s[child];
            s[child] = parent;
        }
    }
    for (uint32_t i = 1; i < w->n; i++)
        if (compare(w->word[s[i - 1]], w->word[s[i]]) == 0)
            return false;
    return true;
}

static int check_words(struct lladd_dtable_config *c, struct words *w,
                       struct lladd_dtable_caps *caps, struct lladd_error *err)
{
    struct lladd_span through;
    w->passes = lladd_dtable_param_bytes(c, "passthrough_value", &through);
    w->width = w->n + w->passes > 256 ? 2 : 1;
    if (!sort(w))
        return lladd_error_set(err, LLADD_BAD_CONFIG, "a word occurs twice in a dictionary");
    if (w->n + w->passes > 65536)
        return lladd_error_set(err, LLADD_BAD_CONFIG, "a dictionary has at most 65536 words");
    if (w->passes && through.len == w->width)
        w->through = lladd_get_few(through.data, through.len);
    if (w->passes && (through.len != w->width || w->through < w->n || number_of(w, through) < w->n))
        return lladd_error_set(
            err, LLADD_BAD_CONFIG,
            "passthrough_value of a dictionary: expected %u bytes, a number (little-"
            "endian) of at least %u, and not one of its words",
            w->width, w->n);
    if (caps->value_size != LLADD_DTABLE_ANY_SIZE && caps->value_size != w->width)
        return lladd_error_set(err, LLADD_BAD_CONFIG,
                               "a dictionary's base has values of %llu bytes, and numbers have %u",
                               (unsigned long long)caps->value_size, w->width);
    int rc = ll_settle_base(c, caps, w->width, err);
    caps->value_size = w->n ? w->word[0].len : LLADD_DTABLE_ANY_SIZE;
    caps->empty = false;
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->word[i].len != caps->value_size)
            caps->value_size = LLADD_DTABLE_ANY_SIZE;
        caps->empty = caps->empty || w->word[i].len == 0;
    }
    if (w->passes && through.len != caps->value_size)
        caps->value_size = LLADD_DTABLE_ANY_SIZE;
    return rc;
}

static struct words *new_words(struct lladd_dtable_config *c, size_t n)
{
    size_t size = sizeof(struct words) + n * (sizeof(struct lladd_span) + sizeof(uint32_t));
    struct words *w = n <= 65536 ? lladd_mem_alloc(lladd_dtable_config_db(c), size) : NULL;
    if (w) {
        memset(w, 0, size);
        w->n = (uint32_t)n;
        lladd_dtable_config_state_set(c, w);
    }
    return w;
}

static int configure(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                     struct lladd_error *err)
{
    size_t n = lladd_dtable_param_words(c, "values");
    if (n > 65536)
        return lladd_error_set(err, LLADD_BAD_CONFIG, "a dictionary has at most 65536 words");
    struct words *w = new_words(c, n);
    if (!w)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a dictionary");
    for (size_t i = 0; i < n; i++)
        w->word[i] = lladd_dtable_param_word(c, "values", i);
    return check_words(c, w, caps, err);
}

static int configure_states(struct lladd_dtable_config *c, struct lladd_dtable_caps *caps,
                            struct lladd_error *err)
{
    struct words *w = new_words(c, STATES);
    if (!w)
        return lladd_error_set(err, LLADD_NO_MEMORY, "out of memory for a dictionary");
    for (uint32_t i = 0; i < STATES; i++)
        w->word[i] = lladd_span_of(states + 2 * i, 2);
    return check_words(c, w, caps, err);
}

static int encode(const struct lladd_dtable_config *c, struct lladd_span in, unsigned char *room,
                  struct lladd_span *out)
{
    const struct words *w = words_of(c);
    uint64_t number = number_of(w, in);
    if (number == w->n) {
        if (!w->passes || in.len != w->width || lladd_get_few(in.data, in.len) != w->through)
            return LLADD_DTABLE_REJECT;
        number = w->through;
    }
    lladd_put32(room, (uint32_t)number);
    *out = lladd_span_of(room, w->width);
    return 0;
}

static int decode(const struct lladd_dtable *t, const struct lladd_dtable_key *key,
                  struct lladd_dtable_pin *pin, struct lladd_dtable_value *value,
                  struct lladd_error *err)
{
    const struct words *w = words_of(t->config);
    (void)key;
    (void)pin;
    uint64_t number = value->bytes.len == w->width
                          ? lladd_get_few(value->bytes.data, value->bytes.len)
                          : UINT64_MAX;
    if (number < w->n)
        value->bytes = w->word[number];
    else if (!w->passes || number != w->through)
        return lladd_dtable_corrupt(t, err, "a number that no word has");
    return 0;
}

static const struct lladd_dtable_param params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for the numbers"},
    {"values", LLADD_DTABLE_PARAM_WORDS, true, 0, 0, 0, "the words; a word's place is its number"},
    {"passthrough_value", LLADD_DTABLE_PARAM_BYTES, false, 0, 0, 0,
     "a number without a word, stored as it is"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};
static const struct lladd_dtable_param state_params[] = {
    {"base", LLADD_DTABLE_PARAM_CHILD, true, 0, 0, 0, "the table for the numbers"},
    {"passthrough_value", LLADD_DTABLE_PARAM_BYTES, false, 0, 0, 0,
     "a number without a state, stored as it is"},
    {NULL, LLADD_DTABLE_PARAM_END, false, 0, 0, 0, NULL},
};

const struct lladd_dtable_class ll_dtable_class_dictionary = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "dictionary_dtable",
    .version = 1,
    .about = "values out of a list, as their numbers",
    .params = params,
    .configure = configure,
    .encode = encode,
    .decode = decode,
};

const struct lladd_dtable_class ll_dtable_class_usstate = {
    .struct_size = sizeof(struct lladd_dtable_class),
    .name = "usstate_dtable",
    .version = 1,
    .about = "abbreviations of states of the USA in a byte each",
    .params = state_params,
    .configure = configure_states,
    .encode = encode,
    .decode = decode,
};
