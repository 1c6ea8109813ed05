/* policy/filter/threshold.c - elements that have not moved enough wait: tiny, significant, changed.
 *
 *   tiny:T           push: x waits while |x| < T
 *   significant:T    push: x goes when |x| > T, where x is all that has gathered since it last went
 *                    pull: x goes when |x - known| > T, so that the receiver is never further off
 *   significant:T:1  the same with T/(turn + 1), the O(1/t) that convergence proofs ask for
 *   changed          pull: x goes unless the receiver has the same bits
 *
 * What waits in a push stays with the sender, and so nothing is lost. Comparisons are written so
 * that a NaN goes. Li's thesis tells of the second filter once as one of time ("not updated for
 * more than O(1/t) time slots"); its theorem 2 and section 6.4 have the magnitude, as here.
 *
 * Threads: none. Cost: one pass, at several GB/s of values. */
#include <math.h>
#include <string.h>

#include "policy/filter/builtin.h"

struct threshold {
    double least;
    bool shrinks; /* with every turn */
    bool is_push;
};

static rbt_status create_tiny(const struct rbt_filter_setup *setup, void **self)
{
    static const struct rbt_filter_range range = {
        .name = "the threshold", .is_required = true, .min = 0, .max = 1e30};
    double least;
    rbt_status st = rbt_filter_numbers(setup, &range, 1, &least);
    if (st == RBT_OK) {
        st = rbt_filter_new(setup, sizeof(struct threshold), self);
    }
    if (st == RBT_OK) {
        *(struct threshold *)*self = (struct threshold){.least = least};
    }
    return st;
}

static rbt_status select_tiny(void *self, const struct rbt_filter_rows *rows)
{
    const struct threshold *threshold = self;
    const double least = threshold->least;
    const size_t count = rbt_filter_count(rows);
    const float *restrict values = rows->values;
    uint8_t *restrict keep = rbt_filter_keep(rows);
    RBT_FILTER_APART
    for (size_t i = 0; i < count; i++) {
        keep[i] &= !(fabs((double)values[i]) < least);
    }
    return RBT_OK;
}

const struct rbt_filter rbt_filter_tiny = {.abi = RBT_FILTER_ABI,
                                           .struct_size = sizeof rbt_filter_tiny,
                                           .name = "tiny",
                                           .summary = "Tiny updates wait until they have grown.",
                                           .kind = RBT_FILTER_SELECT,
                                           .use = RBT_FILTER_FOR_PUSH,
                                           .keeps_rest = true,
                                           .create = create_tiny,
                                           .destroy = rbt_filter_free,
                                           .select = select_tiny};

static rbt_status create_significant(const struct rbt_filter_setup *setup, void **self)
{
    static const struct rbt_filter_range ranges[] = {
        {.name = "the threshold", .is_required = true, .min = 0, .max = 1e30},
        {.name = "the power", .fallback = 0, .min = 0, .max = 1, .is_whole = true}};
    double values[2];
    rbt_status st = rbt_filter_numbers(setup, ranges, 2, values);
    if (st == RBT_OK) {
        st = rbt_filter_new(setup, sizeof(struct threshold), self);
    }
    if (st == RBT_OK) {
        *(struct threshold *)*self =
            (struct threshold){.least = values[0],
                               .shrinks = values[1] == 1,
                               .is_push = setup->direction == RBT_FILTER_PUSH};
    }
    return st;
}

static rbt_status select_significant(void *self, const struct rbt_filter_rows *rows)
{
    const struct threshold *threshold = self;
    const double least = threshold->least / (threshold->shrinks ? (double)rows->turn + 1 : 1);
    const size_t count = rbt_filter_count(rows);
    const float *restrict values = rows->values;
    const float *restrict known = rows->known;
    uint8_t *restrict keep = rbt_filter_keep(rows);
    if (threshold->is_push) {
        RBT_FILTER_APART
        for (size_t i = 0; i < count; i++) {
            keep[i] &= !(fabs((double)values[i]) <= least);
        }
    } else if (known != NULL) {
        RBT_FILTER_APART
        for (size_t i = 0; i < count; i++) {
            keep[i] &= !(fabs((double)values[i] - (double)known[i]) <= least);
        }
    }
    return RBT_OK;
}

const struct rbt_filter rbt_filter_significant = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof rbt_filter_significant,
    .name = "significant",
    .summary = "Only elements that have changed by more than a threshold are sent.",
    .kind = RBT_FILTER_SELECT,
    .keeps_rest = true,
    .create = create_significant,
    .destroy = rbt_filter_free,
    .select = select_significant};

static rbt_status select_changed(void *self, const struct rbt_filter_rows *rows)
{
    (void)self;
    const size_t count = rbt_filter_count(rows);
    const float *restrict values = rows->values;
    const float *restrict known = rows->known;
    uint8_t *restrict keep = rbt_filter_keep(rows);
    if (known == NULL) {
        return RBT_OK;
    }
    RBT_FILTER_APART
    for (size_t i = 0; i < count; i++) {
        uint32_t here;
        uint32_t there;
        memcpy(&here, &values[i], sizeof here);
        memcpy(&there, &known[i], sizeof there);
        keep[i] &= here != there;
    }
    return RBT_OK;
}

const struct rbt_filter rbt_filter_changed = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof rbt_filter_changed,
    .name = "changed",
    .summary = "Only elements that the receiver does not have go.",
    .kind = RBT_FILTER_SELECT,
    .use = RBT_FILTER_FOR_PULL,
    .select = select_changed};
