/* policy/priority/priority.c - which of the rows that have changed matter most.
 *
 * Sums run in eight lanes which are added in a fixed order, so that a row costs an eighth of the
 * operations and every processor gets the same bits: the order of messages follows from the scores.
 * A float's precision is far more than queues look at. */
#include "policy/priority/priority.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

enum { LANES = 8 };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lane_bits __attribute__((vector_size(LANES * sizeof(int32_t))));

ALWAYS_INLINE float sum_lanes(const lanes *sums)
{
    const lanes s = *sums;
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* The elements i to i + 7 of a row; of its end, with zeros behind. */
ALWAYS_INLINE void load(lanes *to, const float *row, uint32_t i, uint32_t width)
{
    if (i + LANES <= width) {
        memcpy(to, row + i, sizeof *to);
        return;
    }
    *to = (lanes){0};
    memcpy(to, row + i, (width - i) * sizeof *row);
}

ALWAYS_INLINE void add_absolute(lanes *sums, const lanes *terms)
{
    *sums += (lanes)((lane_bits)*terms & INT32_MAX);
}

/* sum |d_i| */
ALWAYS_INLINE float magnitude_of(const struct rbt_priority_row *row)
{
    const uint32_t width = row->width;
    lanes sums = {0};
    RBT_ASSERT(row->change != NULL);
    for (uint32_t i = 0; i < width; i += LANES) {
        lanes d;
        load(&d, row->change, i, width);
        add_absolute(&sums, &d);
    }
    return sum_lanes(&sums);
}

/* sum |d_i / a_i|, with |d_i| where a_i is zero. */
ALWAYS_INLINE float relative_of(const struct rbt_priority_row *row)
{
    const uint32_t width = row->width;
    const lanes ones = {1, 1, 1, 1, 1, 1, 1, 1};
    lanes sums = {0};
    RBT_ASSERT(row->change != NULL);
    if (row->value == NULL) {
        return magnitude_of(row);
    }
    for (uint32_t i = 0; i < width; i += LANES) {
        lanes d;
        lanes a;
        load(&d, row->change, i, width);
        load(&a, row->value, i, width);
        const lane_bits is_zero = a == 0;
        a = (lanes)(((lane_bits)a & ~is_zero) | ((lane_bits)ones & is_zero));
        d /= a;
        add_absolute(&sums, &d);
    }
    return sum_lanes(&sums);
}

static float score_magnitude(const struct rbt_priority_row *row)
{
    return magnitude_of(row);
}

static float score_relative(const struct rbt_priority_row *row)
{
    return relative_of(row);
}

#if defined(__x86_64__)
/* The eight lanes at once; the bits are the same. */
__attribute__((target("avx2"))) static float magnitude_avx2(const struct rbt_priority_row *row)
{
    return magnitude_of(row);
}

__attribute__((target("avx2"))) static float relative_avx2(const struct rbt_priority_row *row)
{
    return relative_of(row);
}
#endif

/* The same score, as this processor does it best. */
static rbt_priority_score best_of(rbt_priority_score score)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) {
        return score == score_magnitude  ? magnitude_avx2
               : score == score_relative ? relative_avx2
                                         : score;
    }
#endif
    return score;
}

static const struct rbt_priority_policy policies[] = {
    {"oldest", RBT_ORDER_OLDEST, NULL, false},
    {"walk", RBT_ORDER_WALK, NULL, false},
    {"sweep", RBT_ORDER_WALK, NULL, true},
    {"random", RBT_ORDER_RANDOM, NULL, false},
    {"magnitude", RBT_ORDER_SCORE, score_magnitude, false},
    {"relative", RBT_ORDER_SCORE, score_relative, false},
};

static const char *missing(const void *found)
{
    const struct rbt_priority *priority = found;
    RBT_ASSERT(priority->abi == RBT_PRIORITY_ABI);
    return priority->name == NULL ? "name" : priority->score == NULL ? "score function" : NULL;
}

static const struct rbt_plugin_kind kind = {
    .what = "priority",
    .symbol = "rbt_priority",
    .definition = "RBT_PRIORITY_EXPORT const struct rbt_priority rbt_priority",
    .header = "rubato/priority.h",
    .abi = RBT_PRIORITY_ABI,
    .struct_size = sizeof(struct rbt_priority),
    .missing = missing,
};

/* One that comes with Rubato, or NULL. */
static const struct rbt_priority_policy *find_named(const char *text)
{
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        RBT_ASSERT((policies[i].order == RBT_ORDER_SCORE) == (policies[i].score != NULL));
        if (strcmp(policies[i].name, text) == 0) {
            return &policies[i];
        }
    }
    return NULL;
}

static rbt_status fail_unknown(const char *text)
{
    RBT_ASSERT(text != NULL);
    return rbt_fail_hint(rbt_fail(RBT_E_INVALID, "there is no priority \"%s\"", text),
                         "The priorities are oldest, walk, sweep, random, magnitude, relative. One "
                         "of your own is named by its path: ./mine.so.");
}

rbt_status rbt_priority_find(const char *text, struct rbt_priority_policy *policy)
{
    const struct rbt_priority_policy *named = find_named(text);
    const void *found = NULL;
    if (named != NULL) {
        *policy = *named;
        policy->score = best_of(named->score);
        return RBT_OK;
    }
    if (strchr(text, '/') == NULL) {
        return fail_unknown(text);
    }
    const rbt_status st = rbt_plugin_find(&kind, text, &found);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_priority *priority = found;
    RBT_ASSERT(priority->score != NULL);
    *policy = (struct rbt_priority_policy){
        .name = priority->name, .order = RBT_ORDER_SCORE, .score = priority->score};
    return RBT_OK;
}

rbt_status rbt_priority_resolve(const char *text, char resolved[RBT_PLUGIN_PATH_MAX])
{
    if (find_named(text) != NULL) {
        RBT_ASSERT(strlen(text) < RBT_PLUGIN_PATH_MAX);
        memcpy(resolved, text, strlen(text) + 1);
        return RBT_OK;
    }
    return strchr(text, '/') == NULL ? fail_unknown(text)
                                     : rbt_plugin_resolve(&kind, text, resolved);
}
