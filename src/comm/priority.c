/* comm/priority.c - which of the rows that have changed matter most.
 *
 * Sums run in eight lanes which are added in a fixed order, so that compilers make vectors of them
 * and every processor gets the same bits: the order of messages follows from the scores. A float's
 * precision is far more than queues look at. */
#include "comm/priority.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

enum { LANES = 8 };

static float sum_lanes(const float lanes[LANES])
{
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/* sum |d_i| */
static float score_magnitude(const struct rbt_priority_row *row)
{
    const float *restrict d = row->change;
    float lanes[LANES] = {0};
    uint32_t i = 0;
    RBT_ASSERT(d != NULL);
    for (; i + LANES <= row->width; i += LANES) {
        for (uint32_t k = 0; k < LANES; k++) {
            lanes[k] += fabsf(d[i + k]);
        }
    }
    for (; i < row->width; i++) {
        lanes[i % LANES] += fabsf(d[i]);
    }
    return sum_lanes(lanes);
}

/* |d / a|, or |d| if a is zero. */
static inline float ratio(float d, float a)
{
    return fabsf(d / (a == 0 ? 1 : a));
}

/* sum |d_i / a_i| */
static float score_relative(const struct rbt_priority_row *row)
{
    const float *restrict d = row->change;
    const float *restrict a = row->value;
    float lanes[LANES] = {0};
    uint32_t i = 0;
    if (a == NULL) {
        return score_magnitude(row);
    }
    RBT_ASSERT(d != NULL);
    for (; i + LANES <= row->width; i += LANES) {
        for (uint32_t k = 0; k < LANES; k++) {
            lanes[k] += ratio(d[i + k], a[i + k]);
        }
    }
    for (; i < row->width; i++) {
        lanes[i % LANES] += ratio(d[i], a[i]);
    }
    return sum_lanes(lanes);
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
