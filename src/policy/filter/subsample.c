/* policy/filter/subsample.c - a random part of the updates goes, scaled up for the others: skip,
 * sample.
 *
 *   skip:Q    each x goes with probability Q, as x/Q
 *   sample:N  N of the M elements that are not zero go, as x M/N, all choices equally likely
 *
 * Both are unbiased: the mean over all choices is x. What does not go is not kept, as the others
 * stand for it. The variance of skip is (1 - Q)/Q x^2.
 *
 * Threads: none. Cost: one pass with half a hash per element; sample has another one that counts.
 */
#include "policy/filter/builtin.h"

struct skip {
    uint64_t below; /* an element goes if its 32 random bits are below */
    float factor;   /* 1 / the probability that they are */
};

static rbt_status create_skip(const struct rbt_filter_setup *setup, void **self)
{
    static const struct rbt_filter_range range = {
        .name = "the probability", .is_required = true, .is_open = true, .min = 0, .max = 1};
    static const double ALL = 4294967296.0;
    double q;
    rbt_status st = rbt_filter_numbers(setup, &range, 1, &q);
    if (st == RBT_OK && q * ALL < 1) {
        st = setup->fail("the probability must be at least 2^-32, not %g", q);
    }
    if (st == RBT_OK) {
        st = rbt_filter_new(setup, sizeof(struct skip), self);
    }
    if (st == RBT_OK) {
        const uint64_t below = (uint64_t)(q * ALL);
        *(struct skip *)*self =
            (struct skip){.below = below, .factor = (float)(ALL / (double)below)};
    }
    return st;
}

static rbt_status select_skip(void *self, const struct rbt_filter_rows *rows)
{
    const struct skip *skip = self;
    const size_t count = rbt_filter_count(rows);
    const uint32_t last = (uint32_t)(skip->below - 1);
    const float factor = skip->factor;
    uint32_t random[RBT_FILTER_BLOCK];
    for (size_t first = 0; first < count; first += RBT_FILTER_BLOCK) {
        const size_t left = count - first;
        const size_t now = left < RBT_FILTER_BLOCK ? left : RBT_FILTER_BLOCK;
        float *restrict values = rows->values + first;
        uint8_t *restrict keep = rbt_filter_keep(rows) + first;
        rbt_filter_randoms(rows->seed, first, random);
        RBT_FILTER_APART
        for (size_t i = 0; i < now; i++) {
            const float scaled = values[i] * factor;
            values[i] = rbt_filter_pick_float(keep[i], scaled, values[i]);
            keep[i] &= random[i] <= last;
        }
    }
    return RBT_OK;
}

const struct rbt_filter rbt_filter_skip = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof rbt_filter_skip,
    .name = "skip",
    .summary = "Each update is sent with a probability and scaled up for those left out.",
    .kind = RBT_FILTER_SELECT,
    .use = RBT_FILTER_FOR_PUSH,
    .create = create_skip,
    .destroy = rbt_filter_free,
    .select = select_skip};

struct sample {
    size_t size;
};

static rbt_status create_sample(const struct rbt_filter_setup *setup, void **self)
{
    static const struct rbt_filter_range range = {
        .name = "the size", .is_required = true, .is_whole = true, .min = 1, .max = 4294967295.0};
    double size;
    rbt_status st = rbt_filter_numbers(setup, &range, 1, &size);
    if (st == RBT_OK) {
        st = rbt_filter_new(setup, sizeof(struct sample), self);
    }
    if (st == RBT_OK) {
        *(struct sample *)*self = (struct sample){.size = (size_t)size};
    }
    return st;
}

/* Goes through the elements and takes each with probability wanted/left, where `left` are those
 * that are still to come and `wanted` those that still are to be taken: in the end the sample is
 * full, and all samples are equally likely. A product of 32 and 64 random bits decides, which is
 * off by less than 2^-32. */
static rbt_status select_sample(void *self, const struct rbt_filter_rows *rows)
{
    const struct sample *sample = self;
    const size_t count = rbt_filter_count(rows);
    float *restrict values = rows->values;
    uint8_t *restrict keep = rbt_filter_keep(rows);
    size_t left = 0;
    for (size_t i = 0; i < count; i++) {
        keep[i] &= values[i] != 0; /* an update of zero need not go */
        left += keep[i];
    }
    if (left <= sample->size) {
        return RBT_OK;
    }
    const float factor = (float)((double)left / (double)sample->size);
    size_t wanted = sample->size;
    uint32_t random[RBT_FILTER_BLOCK];
    for (size_t first = 0; first < count; first += RBT_FILTER_BLOCK) {
        const size_t end =
            count - first < RBT_FILTER_BLOCK ? count : first + (size_t)RBT_FILTER_BLOCK;
        rbt_filter_randoms(rows->seed, first, random);
        for (size_t i = first; i < end; i++) {
            const uint64_t drawn = (uint64_t)random[i - first] * left >> 32; /* below `left` */
            const bool is_taken = keep[i] & (drawn < wanted);
            left -= keep[i];
            wanted -= is_taken;
            values[i] = rbt_filter_pick_float(is_taken, values[i] * factor, values[i]);
            keep[i] = is_taken;
        }
    }
    return RBT_OK;
}

const struct rbt_filter rbt_filter_sample = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof rbt_filter_sample,
    .name = "sample",
    .summary = "A sample of N updates is sent and scaled up for the others.",
    .kind = RBT_FILTER_SELECT,
    .use = RBT_FILTER_FOR_PUSH,
    .create = create_sample,
    .destroy = rbt_filter_free,
    .select = select_sample};
