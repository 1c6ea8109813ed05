/* algo/fm/fm_combine.c - what becomes of the moves of several workers that train copies of their
 * own.
 *
 * Workers start a clock from the same values. Where each of them sees much of a parameter, each
 * gets to its own optimum, and the sum of their moves would be as many times too far; where each
 * sees little, their mean would be as many times too short. If the curvature of all workers'
 * examples of a clock is H and the rate r, one worker that saw them all would move about
 * r H / (1 + r H) of the way. A worker that has the share q = n_pj / n_j of the examples that use
 * the parameter moves q r H / (1 + q r H) of it. And if reads may be s clocks old, moves of s + 1
 * clocks start from the same values, and together must be what one worker would do with s + 1 times
 * the examples. So worker p's move of an embedding is multiplied with
 *
 *     (1 + q r H) / (1 + (s + 1) r H)
 *
 * from q / (s + 1), of frequent features in the beginning, to 1, a sum, of rare ones and whenever
 * rates have fallen. Embeddings begin near zero and grow with each other, so that with means only
 * many workers hardly get them started.
 *
 * Weights and the bias keep their own n, which makes rates 1 / sqrt(q) times too large, and so the
 * sum of short moves: in place of 1 / q it is sqrt(1 / q). They are more careful about sums, since
 * the weights of an example move together: there H counts as often as an example has features. For
 * stale reads, where means are in question, it counts once.
 *
 * H is what n of AdaGrad and FTRL grows by in a clock: the mean of g^2 is the curvature of the
 * logistic loss, and that of the squared loss if it is divided by the mean squared error. It is the
 * mean over all clocks, since what is multiplied with a factor that depends on the examples of the
 * clock is no longer fair: large gradients would count less than small ones. The same is true of
 * rates: with an n of its own, the worker with the one click on a rare feature would take shorter
 * steps than those with its many other examples. So n of a weight begins each clock with what the
 * worker's examples would have made of it if all gradients were equally large: the mean of g^2 of
 * all weights times the sum of x_j^2. (Generated clicks, 32 workers, weights alone: logloss 0.4095
 * after eight passes with what they had seen, 0.4019 so, and 0.3995 of one worker.)
 *
 * H of embeddings counts as many times as an example has features, since these move together. g^2
 * of embeddings counts 1 / q times (math/fm.h), so that their rates fall as those of one worker
 * would. The penalty of each use of an embedding adds to H. With one worker nothing is changed. */
#include <math.h>

#include "algo/fm/fm_job.h"
#include "base/alloc.h"
#include "base/error.h"

enum { UNBOUNDED = 3 }; /* clocks, where reads have no bound */

/* What all moves of a clock have in common. */
struct moves {
    float lr;
    float beta;
    float curvature; /* per g^2 */
    float company;   /* of weights: how many times more, when they move together */
    float staleness;
    float workers;
    float clocks; /* so far */
};

rbt_status rbt_fm_combine_open(const struct rbt_fm_job *fm, struct rbt_fm_worker *w)
{
    struct rbt_fm_combine *c = &w->combine;
    const size_t count = w->share.key_count;
    c->is_fitted = fm->is_fitted && fm->movers > 1;
    c->times_v = rbt_calloc(w->embedded_count, sizeof *c->times_v);
    c->uses = rbt_calloc(w->embedded_count, sizeof *c->uses);
    c->squares = rbt_calloc(c->is_fitted ? count : 0, sizeof *c->squares);
    if (c->times_v == NULL || c->uses == NULL || c->squares == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the lengths of steps");
    }
    for (uint64_t k = 0; c->is_fitted && k < w->share.offsets[w->share.count]; k++) {
        const float value = w->share.values[k];
        c->squares[w->share.indices[k]] += value * value;
        c->all += (double)(value * value);
    }
    for (size_t j = 0; j < count; j++) {
        const bool is_shared = c->is_fitted && w->shares[j] > 0; /* else its values are all 0 */
        if (w->rows[j] != RBT_FM_NONE) {
            c->times_v[w->rows[j]] = is_shared ? 1.0F / w->shares[j] : 1.0F;
            c->uses[w->rows[j]] = (float)(w->occurrences[j] / (double)fm->clocks_per_epoch);
        }
    }
    w->steps.times_v = c->times_v;
    return RBT_OK;
}

void rbt_fm_combine_free(struct rbt_fm_combine *c)
{
    rbt_free(c->squares);
    rbt_free(c->uses);
    rbt_free(c->times_v);
    *c = (struct rbt_fm_combine){0};
}

/* The sum of n of all weights. */
static double sum_squares(const struct rbt_fm_worker *w)
{
    double sum = 0.0;
    for (size_t j = 0; j < w->share.key_count; j++) {
        sum += (double)w->steps.root[j] * (double)w->steps.root[j];
    }
    return sum;
}

void rbt_fm_combine_start(const struct rbt_fm_job *fm, struct rbt_fm_worker *w, double passes)
{
    struct rbt_fm_combine *c = &w->combine;
    if (!c->is_fitted) {
        return;
    }
    const double mean = c->seen > 0 ? c->grown / c->seen : 0.0;
    for (size_t j = 0; j < w->share.key_count; j++) {
        w->steps.root[j] = sqrtf((float)(mean * (passes + fm->start_passes)) * c->squares[j]);
    }
    c->start = sum_squares(w);
}

float rbt_fm_combine_factor(float step, float times, float staleness)
{
    return (1 + step / times) / (1 + (1 + staleness) * step);
}

/* What the move of a parameter whose n is `now` is multiplied with, but for the worker's share;
 * `penalty` is what the curvature has besides. */
static float fit_move(const struct moves *m, float now, float times, float penalty)
{
    const float step = m->lr / (m->beta + sqrtf(now)) * (m->curvature * now / m->clocks + penalty);
    return times * rbt_fm_combine_factor(step, times, m->staleness);
}

/* The same of a weight whose n is `now`^2, and which the worker has a share of 1 / `times` of. */
static float fit_weight(const struct moves *m, float now, float times)
{
    const float mine = m->lr / (m->beta + now) * m->curvature * now * now / m->clocks;
    const float root = sqrtf(times);
    return rbt_fm_combine_factor(mine, 1.0F, m->staleness) * root *
           rbt_fm_combine_factor(m->company * mine * root, root, 0.0F);
}

static void fit_weights(struct rbt_fm_worker *w, const struct moves *m)
{
    struct rbt_replica *bias = &w->bias;
    const float by = fit_weight(m, w->steps.bias_root, m->workers);
    for (size_t j = 0; j < w->weights.count; j++) {
        const float was = w->weights.before[j];
        const float move = w->weights.values[j] - was;
        if (move != 0.0F && w->shares[j] > 0) {
            const float times = 1 / w->shares[j];
            w->weights.values[j] = was + fit_weight(m, w->steps.root[j], times) * move;
        }
    }
    if (w->steps.has_bias) {
        bias->values[0] = bias->before[0] + by * (bias->values[0] - bias->before[0]);
    }
}

static void fit_embeddings(struct rbt_fm_worker *w, const struct moves *m)
{
    const struct rbt_fm_combine *c = &w->combine;
    const size_t rank = w->embeddings.width;
    for (size_t r = 0; r < w->embedded_count; r++) {
        const float penalty = w->steps.l2_v[r] * c->uses[r];
        const float times = c->times_v[r];
        const float *restrict was = w->embeddings.before + r * rank;
        const float *restrict now = w->steps.squares + r * rank;
        float *restrict v = w->embeddings.values + r * rank;
        for (size_t f = 0; f < rank; f++) {
            v[f] = was[f] + fit_move(m, now[f], times, penalty) * (v[f] - was[f]);
        }
    }
}

void rbt_fm_combine_end(const struct rbt_fm_job *fm, struct rbt_fm_worker *w, int64_t staleness,
                        double passes, double error)
{
    if (!w->combine.is_fitted || w->share.count == 0) {
        return;
    }
    w->combine.grown += sum_squares(w) - w->combine.start;
    w->combine.seen = (passes + fm->start_passes) * w->combine.all;
    const float entries = (float)w->share.offsets[w->share.count] / (float)w->share.count;
    const float squared = fm->loss == RBT_LOSS_SQUARED && error > 0 ? (float)error : 1.0F;
    struct moves m = {.lr = w->steps.lr,
                      .beta = w->steps.beta,
                      .curvature = 1 / squared,
                      .company = 1 + entries,
                      .staleness = staleness == RBT_STALENESS_ANY ? UNBOUNDED : (float)staleness,
                      .workers = (float)fm->movers,
                      .clocks =
                          (float)((passes + fm->start_passes) * (double)fm->clocks_per_epoch)};
    fit_weights(w, &m);
    m.lr = w->steps.lr_v;
    m.clocks = (float)(passes * (double)fm->clocks_per_epoch);
    m.curvature *= m.company;
    fit_embeddings(w, &m);
}
