/* algo/linear/linear_step.c - what a worker does in a clock: steps on a copy of its own, or a
 * gradient. */
#include <float.h>
#include <math.h>

#include "algo/linear/linear_job.h"
#include "algo/linear/linear_lazy.h"
#include "algo/linear/linear_stream.h"
#include "math/choose.h"
#include "math/prox.h"

/* Measured by `rubato bench cost` on one of two cores of an Intel Xeon, with one worker in this
 * process and a clock per epoch. A weight is pulled, regularised and pushed once per clock; in this
 * process that includes what a server does with it. Further regularisation steps are part of the
 * cost of nonzeros. Gradients are taken to cost the same: they read and write as often, only
 * elsewhere. */
const struct rbt_algo_cost rbt_linear_costs[RBT_LINEAR_COSTS] = {
    [RBT_LINEAR_NONZERO] = {"nonzero", 1.5},
    [RBT_LINEAR_EXAMPLE] = {"example", 48.0},
    [RBT_LINEAR_WEIGHT] = {"weight", 16.0},
};

/* After so much work rows may travel early; it should be worth asking whether they can. */
static const double exchange_ns = 1000.0;

enum { GATHER_EXAMPLES = 4096 }; /* whose gradients are gathered at once */

/* Examples of a share: first .. end-1. */
struct range {
    size_t first;
    size_t end;
};

float rbt_linear_theta(const struct rbt_linear_config *config)
{
    return config->l1_method == RBT_L1_TRUNCATE ? (float)config->theta : INFINITY;
}

void rbt_linear_shrink_one(const struct rbt_linear_config *config, struct rbt_linear_worker *w,
                           size_t j, double amount)
{
    const size_t width = w->weights.width;
    float *u = &w->weights.values[j * width];
    if (config->l1 > 0.0) {
        for (size_t c = 0; c < width; c++) {
            u[c] = rbt_prox_truncate(u[c], (float)(amount * config->l1) * w->pulls[j],
                                     rbt_linear_theta(config) / w->scales[j]);
        }
    }
    const float decay = 1.0F + (float)(amount * config->l2) * w->decays[j] * w->decays[j];
    if (width == 1) {
        u[0] /= decay;
        return;
    }
    const float keep = 1.0F / decay;
    for (size_t c = 0; c < width; c++) {
        u[c] *= keep;
    }
}

/* The same for all features that can be due. */
static void regularise(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                       double amount)
{
    const struct rbt_linear_config *config = &linear->config;
    if (w->lazy != NULL) {
        rbt_linear_lazy_shrink(linear, w, amount);
        return;
    }
    if (linear->width > 1) {
        for (size_t j = 0; j < w->weights.count; j++) {
            rbt_linear_shrink_one(config, w, j, amount);
        }
        return;
    }
    const struct rbt_shrink shrink = {.scales = w->scales,
                                      .pulls = w->pulls,
                                      .decays = w->decays,
                                      .l1 = (float)(amount * config->l1),
                                      .l2 = (float)(amount * config->l2),
                                      .theta = rbt_linear_theta(config)};
    rbt_choose_kernels()->shrink(&shrink, w->weights.values, w->weights.count);
}

/* Steps over the examples at one step size. Returns the sum of losses. */
static double descend(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                      struct range range, float eta)
{
    const struct rbt_linear_config *config = &linear->config;
    const struct rbt_share *share = &w->share;
    const float *step_max = config->scale == RBT_SCALE_FEATURES ? w->step_max : NULL;
    if (linear->width > 1) {
        const struct rbt_softmax_run run = {.classes = linear->width,
                                            .offsets = share->offsets,
                                            .labels = share->labels,
                                            .indices = share->indices,
                                            .values = share->values,
                                            .step_max = step_max,
                                            .begin = range.first,
                                            .end = range.end,
                                            .weights = w->weights.values,
                                            .bias = w->bias.values,
                                            .rate = -eta,
                                            .batch = (size_t)config->batch,
                                            .target = w->weights.values,
                                            .bias_target = config->has_bias ? w->bias.values : NULL,
                                            .coefficients = w->coefficients};
        return rbt_choose_kernels()->softmax(&run);
    }
    struct rbt_sgd_run run = {.loss = (enum rbt_loss)config->loss,
                              .offsets = share->offsets,
                              .labels = share->labels,
                              .indices = share->indices,
                              .values = share->values,
                              .step_max = step_max,
                              .begin = range.first,
                              .end = range.end,
                              .weights = w->weights.values,
                              .bias = w->bias.values[0],
                              .bias_rate = config->has_bias ? 1.0F : 0.0F,
                              .eta = eta,
                              .batch = (size_t)config->batch,
                              .coefficients = w->coefficients};
    const double loss = rbt_choose_kernels()->sgd(&run);
    w->bias.values[0] = run.bias;
    return loss;
}

/* The step size after so many passes, in the units of the data. */
static double rate_at(const struct rbt_linear_job *linear, const struct rbt_linear_worker *w,
                      double passes)
{
    struct rbt_training_rate own = linear->rate;
    own.decay *= linear->is_blended ? w->progress : 1.0;
    const double rate = rbt_training_rate_at(&own, passes) * w->step_unit;
    const double end = linear->cool_passes;
    return end > 0.0 ? rate * fmax(0.0, 1.0 - passes / end) : rate;
}

/* Runs over the examples, step by step; the replicas move. Returns the sum of losses. */
static double follow(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                     struct range range, int64_t epoch)
{
    const struct rbt_linear_config *config = &linear->config;
    const size_t batch = (size_t)config->batch;
    const bool has_penalty = config->l1 > 0.0 || config->l2 > 0.0;
    double loss = 0.0;
    const size_t sweep = w->lazy != NULL ? rbt_linear_lazy_sweep(w) : w->sweep;
    struct range piece = range;
    for (; piece.first < range.end; piece.first = piece.end) {
        const double passes = (double)epoch + (double)piece.first / (double)w->share.count;
        const double eta = rate_at(linear, w, passes);
        piece.end = range.end - piece.first < sweep ? range.end : piece.first + sweep;
        rbt_linear_visit(w, piece.first, piece.end);
        loss += descend(linear, w, piece, (float)eta);
        if (has_penalty) {
            const double steps = (double)((piece.end - piece.first + batch - 1) / batch);
            regularise(linear, w, eta * steps);
        }
    }
    if (has_penalty && w->lazy != NULL) {
        rbt_linear_lazy_settle(linear, w);
    }
    return loss;
}

/* The worker's part of the gradient of l2/2 ||w||^2, in proportion to that of the losses; and with
 * features scaled, what makes the gradient in those coordinates a step in the true ones. */
static void complete_gradient(const struct rbt_linear_job *linear, struct rbt_linear_worker *w)
{
    const bool is_scaled = linear->config.scale == RBT_SCALE_FEATURES;
    const double examples = (double)linear->examples.count / (double)linear->clocks_per_epoch;
    const float l2 = (float)(linear->l2 * linear->gradient_factor * examples);
    const float *u = w->weights.values;
    const float unit = (float)w->step_unit;
    const size_t width = w->weights.width;
    float *gradient = rbt_replica_gradient(&w->weights);
    float *bias = rbt_replica_gradient(&w->bias);
    for (size_t j = 0; j < w->weights.count; j++) {
        const float r = is_scaled ? w->scales[j] : 1.0F;
        for (size_t k = j * width; k < (j + 1) * width; k++) {
            gradient[k] += l2 * w->shares[j] * r * r * u[k];
            gradient[k] *= is_scaled ? r * unit : 1.0F;
            if (linear->is_named && gradient[k] == 0.0F && u[k] != 0.0F) {
                gradient[k] = FLT_MIN;
            }
        }
    }
    for (size_t c = 0; c < width; c++) {
        bias[c] *= unit;
    }
}

/* Adds the gradient of these examples at the values that are there. Returns the sum of losses. */
static double gather(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                     struct range range)
{
    const struct rbt_share *share = &w->share;
    float *bias = rbt_replica_gradient(&w->bias);
    if (linear->width > 1) {
        const struct rbt_softmax_run run = {.classes = linear->width,
                                            .offsets = share->offsets,
                                            .labels = share->labels,
                                            .indices = share->indices,
                                            .values = share->values,
                                            .begin = range.first,
                                            .end = range.end,
                                            .weights = w->weights.values,
                                            .bias = w->bias.values,
                                            .rate = (float)linear->gradient_factor,
                                            .batch = 1,
                                            .target = rbt_replica_gradient(&w->weights),
                                            .bias_target = linear->config.has_bias ? bias : NULL,
                                            .coefficients = w->coefficients};
        return rbt_choose_kernels()->softmax(&run);
    }
    struct rbt_gradient_run run = {.loss = (enum rbt_loss)linear->config.loss,
                                   .offsets = share->offsets,
                                   .labels = share->labels,
                                   .indices = share->indices,
                                   .values = share->values,
                                   .weights = w->weights.values,
                                   .bias = w->bias.values[0],
                                   .factor = (float)linear->gradient_factor,
                                   .gradient = rbt_replica_gradient(&w->weights)};
    double loss = 0.0;
    for (run.begin = range.first; run.begin < range.end; run.begin = run.end) {
        const size_t left = range.end - run.begin; /* what is on disk comes in pieces */
        run.end = left < GATHER_EXAMPLES ? range.end : run.begin + GATHER_EXAMPLES;
        rbt_linear_visit(w, run.begin, run.end);
        loss += rbt_choose_kernels()->gradient(&run);
    }
    bias[0] += linear->config.has_bias ? run.bias_gradient : 0.0F;
    return loss;
}

/* The time that examples take, in ns; a row of several numbers costs less than as many rows. */
static double cost_of(const struct rbt_linear_job *linear, const struct rbt_share *share,
                      struct range range)
{
    const double row = (3.0 + (double)linear->width) / 4.0;
    const double nonzeros = (double)(share->offsets[range.end] - share->offsets[range.first]);
    return rbt_linear_costs[RBT_LINEAR_NONZERO].ns * row * nonzeros +
           rbt_linear_costs[RBT_LINEAR_EXAMPLE].ns * (double)(range.end - range.first);
}

/* The same for copies of weights that are pulled and pushed. */
static double cost_of_weights(const struct rbt_linear_job *linear,
                              const struct rbt_linear_worker *w)
{
    const double row = (3.0 + (double)linear->width) / 4.0;
    return rbt_linear_costs[RBT_LINEAR_WEIGHT].ns * row * (double)w->weights.count;
}

/* Says which rows the examples have given a gradient. If these are many, that is about all rows. */
static void touch(struct rbt_linear_worker *w, struct range range)
{
    const struct rbt_share *share = &w->share;
    const uint64_t first = share->offsets[range.first];
    const uint64_t count = share->offsets[range.end] - first;
    rbt_set_touch(w->bias.set, 0);
    if (count < 4 * w->weights.count) {
        rbt_set_touch_rows(w->weights.set, share->indices + first, (size_t)count);
        return;
    }
    for (size_t row = 0; row < w->weights.count; row++) {
        rbt_set_touch(w->weights.set, row);
    }
}

/* The same as gather(), with rows that come and go on the way. Their features are not scaled, so
 * that a gradient may go as it is; the penalty's part follows when the clock ends. */
static rbt_status gather_managed(const struct rbt_linear_job *linear, rbt_worker *worker,
                                 struct rbt_linear_worker *w, struct range range, double *sum)
{
    rbt_status st = RBT_OK;
    struct range piece = range;
    size_t touched = range.first; /* the examples before it */
    const double all = cost_of(linear, &w->share, range);
    const double pieces = fmax(1.0, all / exchange_ns);
    const size_t stride = (size_t)((double)(range.end - range.first) / pieces) + 1;
    for (; st == RBT_OK && piece.first < range.end; piece.first = piece.end) {
        const size_t left = range.end - piece.first;
        piece.end = piece.first + (left < stride ? left : stride);
        *sum += gather(linear, w, piece);
        rbt_worker_spend(worker, 1e-9 * cost_of(linear, &w->share, piece));
        if (rbt_worker_exchange_is_due(worker)) {
            touch(w, (struct range){touched, piece.end});
            touched = piece.end;
            st = rbt_worker_exchange(worker);
        }
    }
    touch(w, (struct range){touched, range.end});
    const bool has_more = linear->l2 > 0.0 || linear->is_named;
    for (size_t row = 0; has_more && row < w->weights.count; row++) {
        rbt_set_touch(w->weights.set, row);
    }
    return st;
}

/* Works through examples at the values that were pulled. */
static rbt_status walk(const struct rbt_linear_job *linear, rbt_worker *worker, struct range range,
                       int64_t epoch, double *loss)
{
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    if (!linear->rules.has_gradients) {
        *loss += follow(linear, w, range, epoch);
    } else if (linear->is_managed) {
        return gather_managed(linear, worker, w, range, loss);
    } else {
        *loss += gather(linear, w, range);
    }
    return RBT_OK;
}

rbt_status rbt_linear_walk(const struct rbt_linear_job *linear, rbt_worker *worker,
                           const struct rbt_piece *piece, int64_t epoch, double *loss)
{
    const struct range range = {(size_t)piece->first, (size_t)piece->end};
    const struct rbt_share *share = &linear->workers[rbt_worker_index(worker)].share;
    const rbt_status st = walk(linear, worker, range, epoch, loss);
    rbt_worker_spend(worker, 1e-9 * cost_of(linear, share, range));
    return st;
}

void rbt_linear_walk_end(const struct rbt_linear_job *linear, rbt_worker *worker)
{
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    if (linear->rules.has_gradients) {
        complete_gradient(linear, w);
    }
    rbt_worker_spend(worker, 1e-9 * cost_of_weights(linear, w));
}

/* All examples of a clock. */
static rbt_status pass(const struct rbt_linear_job *linear, rbt_worker *worker, struct range range,
                       int64_t epoch, double *loss)
{
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const rbt_status st = walk(linear, worker, range, epoch, loss);
    if (linear->rules.has_gradients) {
        complete_gradient(linear, w);
    }
    const double examples = linear->is_managed ? 0.0 : cost_of(linear, &w->share, range);
    rbt_worker_spend(worker, 1e-9 * (examples + cost_of_weights(linear, w)));
    return st;
}

rbt_status rbt_linear_work(void *context, rbt_worker *worker,
                           const struct rbt_training_chunk *chunk,
                           struct rbt_training_figures *figures)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const bool is_traded = linear->config.is_rebalanced;
    rbt_status st = is_traded ? rbt_linear_part_trade(linear, worker) : RBT_OK;
    if (st == RBT_OK) {
        st = rbt_replica_pull(&w->weights);
    }
    if (st == RBT_OK) {
        st = rbt_replica_pull(&w->bias);
    }
    if (st != RBT_OK) {
        return st;
    }
    const double began = rbt_worker_seconds(worker);
    const struct rbt_share *share = &w->share;
    const struct range range = {share->count * (size_t)chunk->index / (size_t)chunk->count,
                                share->count * (size_t)(chunk->index + 1) / (size_t)chunk->count};
    if (w->lazy != NULL) {
        rbt_linear_lazy_begin(linear, w, chunk->index, range.first, range.end);
    }
    st = pass(linear, worker, range, chunk->epoch, &figures->loss);
    figures->count += range.end - range.first;
    if (st != RBT_OK) {
        return st;
    }
    return is_traded ? rbt_rebalance_note(&linear->rebalance, worker, &w->hand,
                                          rbt_worker_seconds(worker) - began)
                     : RBT_OK;
}

rbt_status rbt_linear_push(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    rbt_status (*const send)(struct rbt_replica *) =
        linear->rules.has_gradients ? rbt_replica_push_gradient : rbt_replica_push;
    const rbt_status st = send(&w->weights);
    return st == RBT_OK && linear->config.has_bias ? send(&w->bias) : st;
}

/* Since the shares n_pj / n_j of a feature sum to 1, so do the workers' parts of its penalty. */
double rbt_linear_penalty(void *context, rbt_worker *worker)
{
    const struct rbt_linear_job *linear = context;
    const struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    double squares = 0.0;
    double sizes = 0.0;
    const size_t width = w->weights.width;
    for (size_t k = 0; k < w->weights.count * width; k++) {
        const size_t j = width == 1 ? k : k / width;
        const double weight = (double)w->weights.values[k] * (double)w->scales[j];
        squares += (double)w->shares[j] * weight * weight;
        sizes += (double)w->shares[j] * fabs(weight);
    }
    return linear->config.l2 / 2 * squares + linear->config.l1 * sizes;
}
