/* policy/filter/kkt.c - gradients that would leave a weight at zero are not sent: for L1 problems.
 *
 *   kkt:L[:D[:R]]   g does not go if w = 0 and |g| <= (L - D)/workers
 *
 * A weight that is zero stays zero as long as the gradient of all workers together is within L (the
 * Karush-Kuhn-Tucker conditions). If the part of every worker is within its share of L - D, the sum
 * is within L - D, and what is not sent would have changed nothing; D is for the gradient being
 * outdated. D = 0 drops the most, D = L only gradients that are zero.
 *
 * Both w and the share may be wrong: w is as old as the last read, and gradients differ between
 * workers. So every R-th turn, the first included, everything goes.
 *
 * Not for updates that are moves of the weights: L is in units of what is pushed. What is dropped
 * is not kept: it would gather until it looks like a large gradient, which it never was.
 *
 * Threads: none. Cost: one pass, at several GB/s of values. */
#include <math.h>

#include "policy/filter/builtin.h"

struct kkt {
    double most;
    uint64_t every;
};

static rbt_status create(const struct rbt_filter_setup *setup, void **self)
{
    static const struct rbt_filter_range ranges[] = {
        {.name = "the penalty", .is_required = true, .is_open = true, .min = 0, .max = 1e30},
        {.name = "the margin", .fallback = 0, .min = 0, .max = 1e30},
        {.name = "the number of turns", .fallback = 8, .is_whole = true, .min = 1, .max = 1e9}};
    double values[3];
    rbt_status st = rbt_filter_numbers(setup, ranges, 3, values);
    if (st == RBT_OK && values[1] > values[0]) {
        st =
            setup->fail("the margin must be at most the penalty, %g, not %g", values[0], values[1]);
    }
    if (st == RBT_OK) {
        st = rbt_filter_new(setup, sizeof(struct kkt), self);
    }
    if (st == RBT_OK) {
        const uint32_t workers = setup->worker_count == 0 ? 1 : setup->worker_count;
        *(struct kkt *)*self =
            (struct kkt){.most = (values[0] - values[1]) / workers, .every = (uint64_t)values[2]};
    }
    return st;
}

static rbt_status choose(void *self, const struct rbt_filter_rows *rows)
{
    const struct kkt *kkt = self;
    const double most = kkt->most;
    const size_t count = rbt_filter_count(rows);
    const float *restrict values = rows->values;
    const float *restrict known = rows->known;
    uint8_t *restrict keep = rbt_filter_keep(rows);
    if (known == NULL || rows->turn % kkt->every == 0) {
        return RBT_OK;
    }
    RBT_FILTER_APART
    for (size_t i = 0; i < count; i++) {
        const bool is_inactive = (known[i] == 0) & (fabs((double)values[i]) <= most);
        keep[i] &= !is_inactive;
    }
    return RBT_OK;
}

const struct rbt_filter rbt_filter_kkt = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof rbt_filter_kkt,
    .name = "kkt",
    .summary = "Gradients that would leave a weight at zero are not sent.",
    .kind = RBT_FILTER_SELECT,
    .use = RBT_FILTER_FOR_PUSH,
    .create = create,
    .destroy = rbt_filter_free,
    .select = choose};
