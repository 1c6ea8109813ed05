/* algo/frame/standard.c - see standard.h.
 *
 * Which features may change is found first: of tables all that have a value other than 0 and 1; of
 * other formats those that half of the examples have, as a sample tells, because others are not
 * shifted. Then all examples are looked at once. Keys of examples and of the list both increase, so
 * that both are walked along together. */
#include "algo/frame/standard.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/sort_u64.h"

enum {
    SAMPLE = 1000, /* examples that tell which features are frequent */
    LISTED_MAX = 1 << 16,
};

/* In so many examples of the sample a feature must be. If its mean is larger than its standard
 * deviation, it is in more than half of all. */
static const double frequent = 0.4;

/* How many standard deviations a mean is away from zero, outside of tables, where a shift is worth
 * the entries that it adds: counts of words are nearer. */
static const double far_sparse = 2.0;

/* What is known of a feature, its values being taken from the first one. */
struct rbt_standard_moments {
    double first;
    double sum;
    double squares;
    uint64_t count;
    bool is_binary;
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory to look at the features of the examples");
}

/* Puts a key at a place of the list, if the list is not too long. */
static rbt_status insert(struct rbt_standard_finder *finder, size_t at, uint64_t key)
{
    if (finder->key_count == LISTED_MAX) {
        return RBT_OK;
    }
    if (finder->key_count == finder->room) {
        const size_t room = finder->room == 0 ? 64 : 2 * finder->room;
        uint64_t *keys = rbt_realloc(finder->keys, room, sizeof *keys);
        if (keys == NULL) {
            return no_memory();
        }
        finder->keys = keys;
        finder->room = room;
    }
    memmove(finder->keys + at + 1, finder->keys + at,
            (finder->key_count - at) * sizeof *finder->keys);
    finder->keys[at] = key;
    finder->key_count++;
    return RBT_OK;
}

/* Lists features of tables that have a value other than 1. */
static rbt_status list_numbers(struct rbt_standard_finder *finder,
                               const struct rbt_examples *examples)
{
    rbt_status st = RBT_OK;
    for (size_t i = 0; st == RBT_OK && i < examples->count; i++) {
        size_t at = 0;
        for (uint64_t k = examples->offsets[i]; st == RBT_OK && k < examples->offsets[i + 1]; k++) {
            const uint64_t key = examples->keys[k];
            if (examples->values[k] == 1.0F) {
                continue;
            }
            while (at < finder->key_count && finder->keys[at] < key) {
                at++;
            }
            if (at == finder->key_count || finder->keys[at] != key) {
                st = insert(finder, at, key);
            }
        }
    }
    return st;
}

/* Draws the features of a sample, evenly from all examples. */
static rbt_status draw(struct rbt_standard_finder *finder, const struct rbt_examples *part)
{
    const size_t count = finder->count < SAMPLE ? finder->count : SAMPLE;
    while (finder->sampled < count) {
        const size_t i = finder->count * finder->sampled / count - finder->listed;
        if (i >= part->count) {
            return RBT_OK;
        }
        const size_t length = (size_t)(part->offsets[i + 1] - part->offsets[i]);
        const size_t needed = finder->drawn_count + length;
        if (needed > finder->drawn_room) {
            uint64_t *drawn = rbt_realloc(finder->drawn, 2 * needed, sizeof *drawn);
            if (drawn == NULL) {
                return no_memory();
            }
            finder->drawn = drawn;
            finder->drawn_room = 2 * needed;
        }
        if (length > 0) {
            memcpy(finder->drawn + finder->drawn_count, part->keys + part->offsets[i],
                   length * sizeof *finder->drawn);
        }
        finder->drawn_count = needed;
        finder->sampled++;
    }
    return RBT_OK;
}

rbt_status rbt_standard_list(struct rbt_standard_finder *finder, const struct rbt_examples *part)
{
    rbt_status st = RBT_OK;
    if (finder->options.has_scale) {
        st = list_numbers(finder, part);
    } else if (finder->options.has_shift) {
        st = draw(finder, part);
    }
    finder->listed += part->count;
    return st;
}

rbt_status rbt_standard_listed(struct rbt_standard_finder *finder)
{
    rbt_status st = RBT_OK;
    rbt_sort_u64(finder->drawn, finder->drawn_count);
    for (size_t first = 0, end = 0; st == RBT_OK && first < finder->drawn_count; first = end) {
        while (end < finder->drawn_count && finder->drawn[end] == finder->drawn[first]) {
            end++;
        }
        if ((double)(end - first) >= frequent * (double)finder->sampled) {
            st = insert(finder, finder->key_count, finder->drawn[first]);
        }
    }
    finder->moments = rbt_calloc(finder->key_count, sizeof *finder->moments);
    for (size_t j = 0; finder->moments != NULL && j < finder->key_count; j++) {
        finder->moments[j].is_binary = true;
    }
    return st == RBT_OK && finder->moments == NULL ? no_memory() : st;
}

void rbt_standard_look(struct rbt_standard_finder *finder, const struct rbt_examples *part)
{
    for (size_t i = 0; i < part->count; i++) {
        size_t at = 0;
        finder->labels += (double)part->labels[i];
        for (uint64_t k = part->offsets[i]; k < part->offsets[i + 1]; k++) {
            const uint64_t key = part->keys[k];
            while (at < finder->key_count && finder->keys[at] < key) {
                at++;
            }
            if (at == finder->key_count) {
                break;
            }
            if (finder->keys[at] != key) {
                continue;
            }
            struct rbt_standard_moments *m = &finder->moments[at];
            const double x = (double)part->values[k];
            m->first = m->count == 0 ? x : m->first;
            m->sum += x - m->first;
            m->squares += (x - m->first) * (x - m->first);
            m->is_binary = m->is_binary && (x == 0.0 || x == 1.0);
            m->count++;
        }
    }
}

/* What becomes of a feature. Returns whether anything does. */
static bool choose(const struct rbt_standard_moments *m, double n,
                   const struct rbt_standard_options *options, double *mean, double *scale)
{
    const double zeros = n - (double)m->count;
    const double shift = (m->sum - zeros * m->first) / n;
    const double squares = (m->squares + zeros * m->first * m->first) / n - shift * shift;
    const double variance = fmax(squares, 0.0);
    const double all = m->first + shift;
    const bool has_spread = variance > 1e-12 * (all * all + shift * shift);
    *mean = 0.0;
    *scale = 1.0;
    if (m->is_binary || m->count == 0) {
        return false;
    }
    const double far = options->has_scale ? 1.0 : far_sparse;
    if (options->has_shift && all * all > far * far * variance) {
        *mean = all;
    }
    if (options->has_scale && has_spread) {
        *scale = 1.0 / sqrt(variance);
    }
    return *mean != 0.0 || *scale != 1.0;
}

rbt_status rbt_standard_make(const struct rbt_standard_finder *finder,
                             struct rbt_standard *standard)
{
    const size_t count = finder->key_count;
    if (count > 0) {
        standard->keys = rbt_calloc(count, sizeof *standard->keys);
        standard->means = rbt_calloc(count, sizeof *standard->means);
        standard->scales = rbt_calloc(count, sizeof *standard->scales);
    }
    if (count > 0 &&
        (standard->keys == NULL || standard->means == NULL || standard->scales == NULL)) {
        rbt_standard_free(standard);
        return no_memory();
    }
    for (size_t j = 0; j < count; j++) {
        const size_t at = standard->count;
        standard->keys[at] = finder->keys[j];
        standard->count += choose(&finder->moments[j], (double)finder->count, &finder->options,
                                  &standard->means[at], &standard->scales[at]);
    }
    if (finder->options.has_label && finder->options.has_shift && finder->count > 0) {
        standard->label = (double)(float)(finder->labels / (double)finder->count);
    }
    return RBT_OK;
}

void rbt_standard_finder_free(struct rbt_standard_finder *finder)
{
    rbt_free(finder->keys);
    rbt_free(finder->drawn);
    rbt_free(finder->moments);
    *finder = (struct rbt_standard_finder){0};
}

rbt_status rbt_standard_find(const struct rbt_examples *examples,
                             const struct rbt_standard_options *options,
                             struct rbt_standard *standard)
{
    struct rbt_standard_finder finder = {.options = *options, .count = examples->count};
    rbt_status st = rbt_standard_list(&finder, examples);
    st = st != RBT_OK ? st : rbt_standard_listed(&finder);
    if (st == RBT_OK) {
        rbt_standard_look(&finder, examples);
        st = rbt_standard_make(&finder, standard);
    }
    rbt_standard_finder_free(&finder);
    return st;
}

/* The place of the next feature from `at` on whose values are there even if they are 0. */
static size_t next_shifted(const struct rbt_standard *standard, size_t at)
{
    while (at < standard->count && standard->means[at] == 0.0) {
        at++;
    }
    return at;
}

/* How many entries the examples will have. */
static uint64_t count_all(const struct rbt_standard *standard, const struct rbt_examples *examples)
{
    uint64_t shifted = 0;
    for (size_t j = 0; j < standard->count; j++) {
        shifted += standard->means[j] != 0.0;
    }
    uint64_t present = 0;
    for (size_t i = 0; shifted > 0 && i < examples->count; i++) {
        size_t at = 0;
        for (uint64_t k = examples->offsets[i]; k < examples->offsets[i + 1]; k++) {
            while (at < standard->count && standard->keys[at] < examples->keys[k]) {
                at++;
            }
            present += at < standard->count && standard->keys[at] == examples->keys[k] &&
                       standard->means[at] != 0.0;
        }
    }
    return examples->offsets[examples->count] + shifted * examples->count - present;
}

/* Where changed entries go. */
struct target {
    uint64_t *keys;
    float *values;
    uint64_t next;
};

static void put(struct target *target, uint64_t key, double value)
{
    target->keys[target->next] = key;
    target->values[target->next++] = (float)value;
}

/* Changes one example. */
static void change(const struct rbt_standard *standard, const struct rbt_examples *examples,
                   uint64_t first, uint64_t end, struct target *target)
{
    size_t at = 0;                              /* of the features that are there */
    size_t shifted = next_shifted(standard, 0); /* of those that will be */
    for (uint64_t k = first; k < end; k++) {
        const uint64_t key = examples->keys[k];
        const double x = (double)examples->values[k];
        for (; shifted < standard->count && standard->keys[shifted] < key;
             shifted = next_shifted(standard, shifted + 1)) {
            put(target, standard->keys[shifted],
                -standard->means[shifted] * standard->scales[shifted]);
        }
        if (shifted < standard->count && standard->keys[shifted] == key) {
            shifted = next_shifted(standard, shifted + 1);
        }
        while (at < standard->count && standard->keys[at] < key) {
            at++;
        }
        const bool is_changed = at < standard->count && standard->keys[at] == key;
        put(target, key, is_changed ? (x - standard->means[at]) * standard->scales[at] : x);
    }
    for (; shifted < standard->count; shifted = next_shifted(standard, shifted + 1)) {
        put(target, standard->keys[shifted], -standard->means[shifted] * standard->scales[shifted]);
    }
}

rbt_status rbt_standard_apply(const struct rbt_standard *standard, struct rbt_examples *examples)
{
    const uint64_t before = examples->offsets[examples->count];
    const uint64_t all = standard->count > 0 ? count_all(standard, examples) : before;
    struct target target = {.keys = examples->keys, .values = examples->values};
    if (all > before) {
        target.keys = rbt_alloc((size_t)all * sizeof *target.keys);
        target.values = rbt_alloc((size_t)all * sizeof *target.values);
        if (target.keys == NULL || target.values == NULL) {
            rbt_free(target.keys);
            rbt_free(target.values);
            return no_memory();
        }
    }
    for (size_t i = 0; i < examples->count && standard->label != 0.0; i++) {
        examples->labels[i] = (float)((double)examples->labels[i] - standard->label);
    }
    uint64_t first = 0;
    for (size_t i = 0; i < examples->count && standard->count > 0; i++) {
        const uint64_t end = examples->offsets[i + 1];
        change(standard, examples, first, end, &target);
        examples->offsets[i + 1] = target.next;
        first = end;
    }
    if (all > before) {
        rbt_free(examples->keys);
        rbt_free(examples->values);
        examples->keys = target.keys;
        examples->values = target.values;
    }
    return RBT_OK;
}

/* The one row of the bias, which may not have been made yet. */
static rbt_status need_bias(struct rbt_model_array *bias, size_t width)
{
    if (bias->count > 0) {
        return RBT_OK;
    }
    struct rbt_model_array made;
    if (!rbt_model_array_make(&made, bias->name, 1, width)) {
        return no_memory();
    }
    rbt_model_array_free(bias);
    *bias = made;
    return RBT_OK;
}

/* Weights become those of the file, or those of the solver; sums are those of mean times weight, of
 * the file's. */
static void convert(const struct rbt_standard *standard, bool is_folded,
                    struct rbt_model_array *weights, double *sums)
{
    const size_t width = weights->width;
    size_t at = 0;
    for (size_t i = 0; i < weights->count && at < standard->count; i++) {
        while (at < standard->count && standard->keys[at] < weights->keys[i]) {
            at++;
        }
        if (at == standard->count || standard->keys[at] != weights->keys[i]) {
            continue;
        }
        for (size_t c = 0; c < width; c++) {
            float *w = &weights->values[i * width + c];
            const float other = (float)(is_folded ? (double)*w * standard->scales[at]
                                                  : (double)*w / standard->scales[at]);
            sums[c] += standard->means[at] * (double)(is_folded ? other : *w);
            *w = other;
        }
    }
}

static rbt_status turn(const struct rbt_standard *standard, bool is_folded,
                       struct rbt_model_array *weights, struct rbt_model_array *bias)
{
    const size_t width = weights->width;
    if (standard->count == 0 && standard->label == 0.0) {
        return RBT_OK;
    }
    double *sums = rbt_calloc(width, sizeof *sums);
    rbt_status st = sums == NULL ? no_memory() : RBT_OK;
    if (st == RBT_OK) {
        convert(standard, is_folded, weights, sums);
        st = bias != NULL ? need_bias(bias, width) : RBT_OK;
    }
    for (size_t c = 0; st == RBT_OK && bias != NULL && c < width; c++) {
        const double shift = standard->label - sums[c];
        bias->values[c] = (float)((double)bias->values[c] + (is_folded ? shift : -shift));
    }
    rbt_free(sums);
    return st;
}

rbt_status rbt_standard_fold(const struct rbt_standard *standard, struct rbt_model_array *weights,
                             struct rbt_model_array *bias)
{
    return turn(standard, true, weights, bias);
}

rbt_status rbt_standard_unfold(const struct rbt_standard *standard, struct rbt_model_array *weights,
                               struct rbt_model_array *bias)
{
    return turn(standard, false, weights, bias);
}

void rbt_standard_free(struct rbt_standard *standard)
{
    rbt_free(standard->keys);
    rbt_free(standard->means);
    rbt_free(standard->scales);
    *standard = (struct rbt_standard){0};
}
