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

static const struct rbt_policy_parameter tiny_parameters[] = {
    {"T", "updates smaller than this wait", "the threshold", .is_required = true, .max = 1e30},
    {.name = NULL}};

static rbt_status create_tiny(const struct rbt_filter_setup *setup, void **self)
{
    double least;
    rbt_status st = rbt_filter_numbers(setup, tiny_parameters, &least);
    if (st == RBT_OK) {
        st = rbt_policy_new(sizeof(struct threshold), "filter", setup->table, self);
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
    RBT_POLICY_APART
    for (size_t i = 0; i < count; i++) {
        keep[i] &= !(fabs((double)values[i]) < least);
    }
    return RBT_OK;
}

static const struct rbt_filter tiny_filter = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof tiny_filter,
    .name = "tiny",
    .summary = "Tiny updates wait at the worker until they have grown.",
    .kind = RBT_FILTER_SELECT,
    .use = RBT_FILTER_FOR_PUSH,
    .keeps_rest = true,
    .create = create_tiny,
    .destroy = rbt_policy_free,
    .select = select_tiny};

const struct rbt_policy rbt_filter_tiny = {
    .code = &tiny_filter,
    .choose = "Updates many of which are far below what matters. Nothing is lost.",
    .formula = "push: x is sent if |x| >= T",
    .parameters = tiny_parameters};

static const struct rbt_policy_parameter significant_parameters[] = {
    {"T", "what has changed by this or less waits", "the threshold", .is_required = true,
     .max = 1e30},
    {"P", "1: the threshold is T/(turn + 1), which shrinks to nothing", "the power", .max = 1,
     .is_whole = true},
    {.name = NULL}};

static rbt_status create_significant(const struct rbt_filter_setup *setup, void **self)
{
    double values[2];
    rbt_status st = rbt_filter_numbers(setup, significant_parameters, values);
    if (st == RBT_OK) {
        st = rbt_policy_new(sizeof(struct threshold), "filter", setup->table, self);
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
        RBT_POLICY_APART
        for (size_t i = 0; i < count; i++) {
            keep[i] &= !(fabs((double)values[i]) <= least);
        }
    } else if (known != NULL) {
        RBT_POLICY_APART
        for (size_t i = 0; i < count; i++) {
            keep[i] &= !(fabs((double)values[i] - (double)known[i]) <= least);
        }
    }
    return RBT_OK;
}

static const struct rbt_filter significant_filter = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof significant_filter,
    .name = "significant",
    .summary = "Only elements that have changed by more than a threshold are sent.",
    .kind = RBT_FILTER_SELECT,
    .keeps_rest = true,
    .create = create_significant,
    .destroy = rbt_policy_free,
    .select = select_significant};

const struct rbt_policy rbt_filter_significant = {
    .code = &significant_filter,
    .choose = "Models most of which have settled. Receivers are never off by more than T.",
    .formula = "push: x is sent if |x| > T; pull: if |x - known| > T",
    .parameters = significant_parameters};

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
    RBT_POLICY_APART
    for (size_t i = 0; i < count; i++) {
        uint32_t here;
        uint32_t there;
        memcpy(&here, &values[i], sizeof here);
        memcpy(&there, &known[i], sizeof there);
        keep[i] &= here != there;
    }
    return RBT_OK;
}

static const struct rbt_filter changed_filter = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof changed_filter,
    .name = "changed",
    .summary = "Only elements that the worker does not have yet are sent.",
    .kind = RBT_FILTER_SELECT,
    .use = RBT_FILTER_FOR_PULL,
    .select = select_changed};

const struct rbt_policy rbt_filter_changed = {
    .code = &changed_filter,
    .choose = "Models of which few weights change between two reads. Exact.",
    .formula = "pull: x is sent if x != known, bit by bit"};
