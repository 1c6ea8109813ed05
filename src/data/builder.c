/* data/builder.c - arrays that several threads fill and one closes up.
 *
 *   offsets  0 | chunk 0 ..gap | chunk 1 ..gap | ...      one entry per line at most
 *   keys     chunk 0 ..gap | chunk 1 ..gap | ...          one entry per mark at most
 *
 * In a file without comments and blank lines there are no gaps, and nothing is moved.
 *
 * Labels: the meaning of a label depends on all the others (1 is the positive class beside 0, the
 * negative one beside 2), so they are translated at the end. Until then every thread notes the
 * first line of each different label. */
#include "data/builder.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "data/fields.h"

enum { SORT_FEW = 64 };

#define HASH_SALT UINT64_C(0x9e3779b97f4a7c15) /* so that feature 0 is hashed, too */

static bool grow(void **block, size_t count, size_t size)
{
    void *grown = rbt_realloc(*block, count, size);
    if (grown == NULL) {
        return false;
    }
    *block = grown;
    return true;
}

/* The capacity that makes room for `more`: doubled, so that many small files cost no more. */
static size_t widen(size_t capacity, size_t used, size_t more)
{
    const size_t least = used + more;
    if (least <= capacity) {
        return capacity;
    }
    return least > capacity * 2 ? least : capacity * 2;
}

/* Makes the arrays large enough; those that have grown stay so when another one fails. */
static bool make_room(struct rbt_builder *builder, size_t rows, size_t nonzeros)
{
    struct rbt_examples *examples = &builder->examples;
    const size_t capacity = widen(builder->capacity, examples->count, rows);
    if (capacity > builder->capacity || examples->offsets == NULL) {
        if (!grow((void **)&examples->offsets, capacity + 1, sizeof *examples->offsets) ||
            !grow((void **)&examples->labels, capacity, sizeof *examples->labels)) {
            return false;
        }
        builder->capacity = capacity;
    }
    const size_t wanted = widen(builder->nonzero_capacity, builder->nonzero_count, nonzeros);
    if (wanted > builder->nonzero_capacity || examples->keys == NULL) {
        if (!grow((void **)&examples->keys, wanted, sizeof *examples->keys) ||
            !grow((void **)&examples->values, wanted, sizeof *examples->values)) {
            return false;
        }
        builder->nonzero_capacity = wanted;
    }
    return true;
}

rbt_status rbt_builder_reserve(struct rbt_builder *builder, const struct rbt_chunks *chunks,
                               const size_t *nonzero_max, struct rbt_builder_sink **sinks)
{
    size_t rows = 0;
    size_t nonzeros = 0;
    for (uint32_t i = 0; i < chunks->count; i++) {
        rows += chunks->items[i].line_count;
        nonzeros += nonzero_max[i];
    }
    struct rbt_builder_sink *list = rbt_calloc(chunks->count, sizeof *list);
    if (list == NULL || !make_room(builder, rows, nonzeros)) {
        rbt_free(list);
        return rbt_fail(RBT_E_NOMEM, "cannot read \"%s\": out of memory", chunks->items[0].name);
    }
    const struct rbt_examples *examples = &builder->examples;
    size_t row = examples->count;
    size_t nonzero = builder->nonzero_count;
    for (uint32_t i = 0; i < chunks->count; i++) {
        list[i].ends = examples->offsets + 1 + row;
        list[i].labels = examples->labels + row;
        list[i].keys = examples->keys + nonzero;
        list[i].values = examples->values + nonzero;
        row += chunks->items[i].line_count;
        nonzero += nonzero_max[i];
    }
    RBT_ASSERT(row <= builder->capacity);
    RBT_ASSERT(nonzero <= builder->nonzero_capacity);
    *sinks = list;
    return RBT_OK;
}

static void note_label(struct rbt_builder_sink *sink, float label, size_t line)
{
    for (size_t i = 0; i < sink->place_count; i++) {
        if (sink->places[i].label == label) {
            return;
        }
    }
    if (sink->place_count < RBT_LABELS_MAX) {
        sink->places[sink->place_count++] = (struct rbt_label_place){.label = label, .line = line};
    }
}

/* Sorts keys, and values with them: by insertion, since examples are short or nearly sorted. */
static void sort_few(uint64_t *keys, float *values, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const uint64_t key = keys[i];
        const float value = values[i];
        size_t at = i;
        for (; at > 0 && keys[at - 1] > key; at--) {
            keys[at] = keys[at - 1];
            values[at] = values[at - 1];
        }
        keys[at] = key;
        values[at] = value;
    }
}

/* Moves the entry at `root` of a heap down to where it belongs. */
static void sift(uint64_t *keys, float *values, size_t root, size_t count)
{
    const uint64_t key = keys[root];
    const float value = values[root];
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        child += child + 1 < count && keys[child + 1] > keys[child];
        if (keys[child] <= key) {
            break;
        }
        keys[root] = keys[child];
        values[root] = values[child];
        root = child;
    }
    keys[root] = key;
    values[root] = value;
}

/* The same by a heap, for lines of any length. */
static void sort_many(uint64_t *keys, float *values, size_t count)
{
    for (size_t i = count / 2; i > 0; i--) {
        sift(keys, values, i - 1, count);
    }
    for (size_t left = count - 1; left > 0; left--) {
        const uint64_t key = keys[0];
        const float value = values[0];
        keys[0] = keys[left];
        values[0] = values[left];
        keys[left] = key;
        values[left] = value;
        sift(keys, values, 0, left);
    }
}

size_t rbt_builder_tidy(struct rbt_builder_sink *sink, size_t nonzero_count)
{
    uint64_t *keys = sink->keys + sink->nonzero_count;
    float *values = sink->values + sink->nonzero_count;
    const size_t count = nonzero_count - sink->nonzero_count;
    if (count == 0) {
        return nonzero_count;
    }
    (count <= SORT_FEW ? sort_few : sort_many)(keys, values, count);
    size_t last = 0;
    for (size_t i = 1; i < count; i++) {
        if (keys[i] == keys[last]) {
            values[last] = fmaxf(fminf(values[last] + values[i], FLT_MAX), -FLT_MAX);
        } else {
            last++;
            keys[last] = keys[i];
            values[last] = values[i];
        }
    }
    return sink->nonzero_count + last + 1;
}

/* Hashes the features behind sink->nonzero_count, up to `nonzero_count`; says where they end. */
static size_t hash_row(struct rbt_builder_sink *sink, size_t nonzero_count, uint32_t bits)
{
    for (size_t k = sink->nonzero_count; k < nonzero_count; k++) {
        const uint64_t hash = rbt_hash_key(sink->keys[k] + HASH_SALT);
        sink->keys[k] = (hash >> (64 - bits)) + 1;
    }
    return rbt_builder_tidy(sink, nonzero_count);
}

void rbt_builder_hash(struct rbt_builder *builder, uint32_t bits)
{
    struct rbt_examples *examples = &builder->examples;
    struct rbt_builder_sink row = {.keys = examples->keys, .values = examples->values};
    uint64_t begin = 0;
    size_t kept = 0;
    for (size_t i = 0; i < examples->count; i++) {
        const uint64_t end = examples->offsets[i + 1];
        const size_t count = (size_t)(end - begin);
        memmove(examples->keys + kept, examples->keys + begin, count * sizeof *examples->keys);
        memmove(examples->values + kept, examples->values + begin,
                count * sizeof *examples->values);
        row.nonzero_count = kept;
        kept = hash_row(&row, kept + count, bits);
        examples->offsets[i + 1] = kept;
        begin = end;
    }
    builder->nonzero_count = kept;
}

void rbt_builder_row(struct rbt_builder_sink *sink, float label, size_t nonzero_count, size_t line)
{
    RBT_ASSERT(nonzero_count >= sink->nonzero_count);
    const struct rbt_column_plan *plan = sink->options->plan;
    if (sink->options->hash_bits > 0 && (plan == NULL || !plan->is_measuring)) {
        nonzero_count = hash_row(sink, nonzero_count, sink->options->hash_bits);
    }
    const bool is_named = plan != NULL && plan->positive != 0; /* it is asked whether it occurs */
    if (sink->options->has_binary_label || is_named) {
        note_label(sink, label, line);
    }
    sink->nonzero_count = nonzero_count;
    sink->ends[sink->count] = nonzero_count;
    sink->labels[sink->count] = label;
    sink->count++;
}

void rbt_builder_gather(struct rbt_builder *builder, const struct rbt_builder_sink *sinks,
                        uint32_t count)
{
    struct rbt_examples *examples = &builder->examples;
    for (uint32_t i = 0; i < count; i++) {
        const struct rbt_builder_sink *sink = &sinks[i];
        uint64_t *ends = examples->offsets + 1 + examples->count;
        RBT_ASSERT(ends <= sink->ends); /* to the left: nothing is overwritten before it is moved */
        for (size_t k = 0; k < sink->count; k++) {
            ends[k] = sink->ends[k] + builder->nonzero_count;
        }
        memmove(examples->labels + examples->count, sink->labels,
                sink->count * sizeof *sink->labels);
        memmove(examples->keys + builder->nonzero_count, sink->keys,
                sink->nonzero_count * sizeof *sink->keys);
        memmove(examples->values + builder->nonzero_count, sink->values,
                sink->nonzero_count * sizeof *sink->values);
        examples->count += sink->count;
        builder->nonzero_count += sink->nonzero_count;
    }
    RBT_ASSERT(examples->offsets[0] == 0);
    RBT_ASSERT(examples->offsets[examples->count] == builder->nonzero_count);
}

static bool is_pair(float a, float b)
{
    const float low = a < b ? a : b;
    const float high = a < b ? b : a;
    return (high == 1 && (low == -1 || low == 0)) || (low == 1 && high == 2);
}

/* Adds a label to those met before it, or says why it does not go with them. */
static rbt_status admit(struct rbt_builder *builder, float label)
{
    static const char rule[] = "labels must be -1 and 1, 0 and 1, or 1 and 2";
    const float *labels = builder->labels;
    for (size_t i = 0; i < builder->label_count; i++) {
        if (labels[i] == label) {
            return RBT_OK;
        }
    }
    const double number = (double)label;
    if (label != -1 && label != 0 && label != 1 && label != 2) {
        return rbt_fail(RBT_E_DATA, "label %g; %s", number, rule);
    }
    if (builder->label_count == 2) {
        return rbt_fail(RBT_E_DATA, "label %g, after labels %g and %g; %s", number,
                        (double)labels[0], (double)labels[1], rule);
    }
    if (builder->label_count == 1 && !is_pair(labels[0], label)) {
        return rbt_fail(RBT_E_DATA, "label %g, after label %g; %s", number, (double)labels[0],
                        rule);
    }
    builder->labels[builder->label_count++] = label;
    return RBT_OK;
}

rbt_status rbt_builder_check(struct rbt_builder *builder, const char *name,
                             const struct rbt_builder_sink *sinks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sinks[i].place_count; k++) {
            const struct rbt_label_place *place = &sinks[i].places[k];
            if (builder->label_count == 0) {
                builder->label_name = name;
                builder->label_line = place->line;
            }
            const rbt_status st = admit(builder, place->label);
            if (st != RBT_OK) {
                return rbt_fail_in(st, "cannot read \"%s\", line %zu", name, place->line);
            }
        }
    }
    return RBT_OK;
}

rbt_status rbt_builder_classify(struct rbt_builder *builder, float positive)
{
    const float *labels = builder->labels;
    if (builder->label_count == 1 && labels[0] == 2 && positive == 0) {
        return rbt_fail(RBT_E_DATA,
                        "cannot read \"%s\", line %zu: all labels are 2; a file with one label "
                        "needs -1, 0 or 1",
                        builder->label_name, builder->label_line);
    }
    const bool has_two = builder->label_count == 2 && (labels[0] == 2 || labels[1] == 2);
    if (positive == 0) {
        positive = has_two ? 2 : 1;
    }
    if (has_two && positive != 2) {
        return rbt_fail(RBT_E_DATA,
                        "cannot read \"%s\": labels are 1 and 2, but the model was trained with "
                        "1 as the larger one",
                        builder->label_name);
    }
    builder->examples.label_positive = positive;
    builder->examples.label_negative = positive == 2 ? 1 : -1;
    for (size_t i = 0; i < builder->label_count; i++) {
        if (labels[i] == 0) {
            builder->examples.label_negative = 0;
        }
    }
    for (size_t i = 0; i < builder->examples.count; i++) {
        builder->examples.labels[i] = builder->examples.labels[i] == positive ? 1 : -1;
    }
    return RBT_OK;
}
