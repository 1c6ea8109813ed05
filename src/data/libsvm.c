/* data/libsvm.c - parses lines of LIBSVM, and says precisely what is wrong with those that are not.
 *
 * The loop only knows right and wrong. What exactly is wrong is found out by a second look at the
 * word, which may be slow.
 *
 * Threads: one per sink. */
#include "data/libsvm.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "data/builder.h"
#include "data/number.h"

/* Whether a word may end here. */
static bool is_border(const char *p, const char *end)
{
    return p == end || *p == ' ' || *p == '\t' || *p == '#';
}

static rbt_status label_failure(const char *p, const char *end)
{
    const struct rbt_word word = rbt_lines_word(p, end, "\t#");
    float label = 0;
    const char *next = rbt_number_float(p, &label);
    if (next != NULL && *next == ':') {
        return rbt_fail(RBT_E_DATA, "the label is missing; the line begins with feature \"%s\"",
                        word.text);
    }
    if (next != NULL && is_border(next, end)) {
        return rbt_fail(RBT_E_DATA, "label \"%s\" is too large", word.text);
    }
    return rbt_fail(RBT_E_DATA, "label \"%s\" is not a number", word.text);
}

static rbt_status value_failure(const char *colon, const char *end, uint64_t key)
{
    float value = 0;
    const char *next = rbt_number_float(colon + 1, &value);
    const struct rbt_word word = rbt_lines_word(colon + 1, end, "\t#");
    if (is_border(colon + 1, end)) {
        return rbt_fail(RBT_E_DATA, "feature %llu has no value", (unsigned long long)key);
    }
    const bool is_number = next != NULL && is_border(next, end);
    return rbt_fail(RBT_E_DATA, "feature %llu has the value \"%s\", which is %s",
                    (unsigned long long)key, word.text,
                    is_number ? "too large" : "not a finite number");
}

static rbt_status feature_failure(const char *p, const char *end)
{
    const struct rbt_word word = rbt_lines_word(p, end, "\t#");
    uint64_t key = 0;
    const char *next = rbt_number_u64(p, &key);
    if (next != NULL && *next == ':') {
        return value_failure(next, end, key);
    }
    if (word.text[0] == ':') {
        return rbt_fail(RBT_E_DATA, "\"%s\" has no feature number before the colon", word.text);
    }
    if (strncmp(word.text, "qid:", 4) == 0) {
        return rbt_fail(RBT_E_DATA, "\"%s\" is a query id; ranking data is not supported",
                        word.text);
    }
    if (next != NULL && is_border(next, end)) {
        return rbt_fail(RBT_E_DATA, "feature %llu has no value", (unsigned long long)key);
    }
    if (next == NULL && p[strspn(p, "0123456789")] == ':') {
        return rbt_fail(RBT_E_DATA, "feature \"%s\" is above 18446744073709551615", word.text);
    }
    return rbt_fail(RBT_E_DATA, "\"%s\" is not a feature; features look like 17:0.5", word.text);
}

/* `previous` is NULL at the first feature, which then must be 0. */
static rbt_status order_failure(uint64_t key, const uint64_t *previous)
{
    const unsigned long long number = key;
    if (previous == NULL) {
        const rbt_status st = rbt_fail(RBT_E_DATA, "feature 0; features start at 1");
        return rbt_fail_hint(st, "use --zero-based if yours start at 0");
    }
    if (key == *previous) {
        return rbt_fail(RBT_E_DATA, "feature %llu is given twice", number);
    }
    return rbt_fail(RBT_E_DATA, "feature %llu follows feature %llu; features must increase", number,
                    (unsigned long long)*previous);
}

/* Reads "key:value"; NULL: that is not what is there. */
static const char *read_feature(const char *p, const char *end, uint64_t *key, float *value)
{
    if (end - p >= RBT_NUMBER_ROOM_U64 + RBT_NUMBER_ROOM_FLOAT) {
        const char *colon = rbt_number_quick_u64(p, key);
        const char *next =
            colon != NULL && *colon == ':' ? rbt_number_quick_float(colon + 1, value) : NULL;
        if (next != NULL) {
            return next;
        }
    }
    const char *colon = rbt_number_u64(p, key);
    return colon != NULL && *colon == ':' ? rbt_number_float(colon + 1, value) : NULL;
}

rbt_status rbt_libsvm_line(void *context, const struct rbt_line *line)
{
    struct rbt_builder_sink *sink = context;
    const char *const end = line->end;
    const char *p = rbt_lines_skip(line->begin, end);
    float label = 0;
    const char *next = rbt_number_float(p, &label);
    if (next == NULL || !is_border(next, end) || !isfinite(label)) {
        return label_failure(p, end);
    }
    const size_t first = sink->nonzero_count;
    size_t count = first;
    for (p = rbt_lines_skip(next, end); p < end && *p != '#'; p = rbt_lines_skip(next, end)) {
        uint64_t key = 0;
        float value = 0;
        next = read_feature(p, end, &key, &value);
        if (next == NULL || !is_border(next, end) || !isfinite(value)) {
            return feature_failure(p, end);
        }
        if (count > first && key <= sink->keys[count - 1]) {
            return order_failure(key, &sink->keys[count - 1]);
        }
        if (key == 0 && !sink->options->is_zero_based) {
            return order_failure(key, NULL);
        }
        sink->keys[count] = key;
        sink->values[count] = value;
        count++;
    }
    rbt_builder_row(sink, label, count, line->number);
    return RBT_OK;
}
