/* algo/linear_step.c - what a worker does in a clock: steps on a copy of its own, or a gradient. */
#include <float.h>
#include <math.h>

#include "algo/linear_job.h"
#include "algo/linear_stream.h"
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

enum { LIST_EXAMPLES = 256 }; /* whose features are listed before the place is told again */

/* Examples of a share: first .. end-1. */
struct range {
    size_t first;
    size_t end;
};

/* Regularisation of features that the clock's examples do not have can wait for a clock whose do;
 * then nothing is sent for them. With --rebalance it does not: the part may be another one by then.
 */
static bool is_lazy(const struct rbt_linear_job *linear)
{
    return linear->clocks_per_epoch > 1 && !linear->config.is_rebalanced;
}

/* Lists the features that the examples have; without a branch, which would be a guess. */
static void list_used(struct rbt_linear_worker *w, struct range range)
{
    const struct rbt_share *share = &w->share;
    size_t count = 0;
    w->mark++;
    for (size_t first = range.first; first < range.end; first += LIST_EXAMPLES) {
        const size_t left = range.end - first;
        const size_t end = left < LIST_EXAMPLES ? range.end : first + LIST_EXAMPLES;
        rbt_linear_visit(w, first, end);
        for (uint64_t k = share->offsets[first]; k < share->offsets[end]; k++) {
            const uint32_t j = share->indices[k];
            w->used[count] = j;
            count += w->marks[j] != w->mark;
            w->marks[j] = w->mark;
        }
    }
    w->used_count = count;
}

static float theta_of(const struct rbt_linear_config *config)
{
    return config->l1_method == RBT_L1_TRUNCATE ? (float)config->theta : INFINITY;
}

/* One regularisation step of feature j that stands for steps whose sizes have this sum. */
static void shrink_one(const struct rbt_linear_config *config, struct rbt_linear_worker *w,
                       uint32_t j, double amount)
{
    float *u = &w->weights.values[j];
    if (config->l1 > 0.0) {
        *u = rbt_prox_truncate(*u, (float)(amount * config->l1) * w->pulls[j],
                               theta_of(config) / w->scales[j]);
    }
    *u /= 1.0F + (float)(amount * config->l2) * w->decays[j] * w->decays[j];
}

/* The same for all features that can be due. */
static void regularise(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                       double amount)
{
    const struct rbt_linear_config *config = &linear->config;
    if (is_lazy(linear)) {
        for (size_t i = 0; i < w->used_count; i++) {
            shrink_one(config, w, w->used[i], amount);
        }
        return;
    }
    const struct rbt_shrink shrink = {.scales = w->scales,
                                      .pulls = w->pulls,
                                      .decays = w->decays,
                                      .l1 = (float)(amount * config->l1),
                                      .l2 = (float)(amount * config->l2),
                                      .theta = theta_of(config)};
    rbt_choose_kernels()->shrink(&shrink, w->weights.values, w->weights.count);
}

/* After a clock whose steps had this sum: makes up for what the features that it used have missed.
 * It comes after the gradients, so that a weight is at rest where they and its penalty are even. */
static void settle(const struct rbt_linear_config *config, struct rbt_linear_worker *w,
                   double amount)
{
    for (size_t i = 0; i < w->used_count; i++) {
        const uint32_t j = w->used[i];
        if (w->due > w->settled[j]) {
            shrink_one(config, w, j, w->due - w->settled[j]);
        }
        w->settled[j] = w->due + amount;
    }
    w->due += amount;
}

/* Runs over the examples, step by step; the replicas move. Returns the sum of losses. */
static double follow(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                     struct range range, int64_t epoch)
{
    const struct rbt_linear_config *config = &linear->config;
    const struct rbt_share *share = &w->share;
    const size_t batch = (size_t)config->batch;
    const bool has_penalty = config->l1 > 0.0 || config->l2 > 0.0;
    double loss = 0.0;
    double amount = 0.0;
    struct rbt_sgd_run run = {.loss = (enum rbt_loss)config->loss,
                              .offsets = share->offsets,
                              .labels = share->labels,
                              .indices = share->indices,
                              .values = share->values,
                              .step_max = config->scale == RBT_SCALE_FEATURES ? w->step_max : NULL,
                              .weights = w->weights.values,
                              .bias = w->bias.values[0],
                              .bias_rate = config->has_bias ? 1.0F : 0.0F,
                              .batch = batch,
                              .coefficients = w->coefficients};
    if (has_penalty && is_lazy(linear)) {
        list_used(w, range);
    }
    for (run.begin = range.first; run.begin < range.end; run.begin = run.end) {
        const double passes = (double)epoch + (double)run.begin / (double)share->count;
        const double eta = rbt_training_rate_at(&linear->rate, passes) * w->step_unit;
        run.end = range.end - run.begin < w->sweep ? range.end : run.begin + w->sweep;
        run.eta = (float)eta;
        rbt_linear_visit(w, run.begin, run.end);
        loss += rbt_choose_kernels()->sgd(&run);
        if (has_penalty) {
            const double steps = (double)((run.end - run.begin + batch - 1) / batch);
            regularise(linear, w, eta * steps);
            amount += eta * steps;
        }
    }
    if (has_penalty && is_lazy(linear)) {
        settle(config, w, amount);
    }
    w->bias.values[0] = run.bias;
    return loss;
}

/* The worker's part of the gradient of l2/2 ||w||^2, in proportion to that of the losses; and with
 * features scaled, what makes the gradient in those coordinates a step in the true ones. */
static void complete_gradient(const struct rbt_linear_job *linear,
                              const struct rbt_linear_worker *w, float *gradient)
{
    const bool is_scaled = linear->config.scale == RBT_SCALE_FEATURES;
    const double examples = (double)linear->examples.count / (double)linear->clocks_per_epoch;
    const float l2 = (float)(linear->l2 * linear->gradient_factor * examples);
    const float *u = w->weights.values;
    const float unit = (float)w->step_unit;
    for (size_t j = 0; j < w->weights.count; j++) {
        const float r = is_scaled ? w->scales[j] : 1.0F;
        gradient[j] += l2 * w->shares[j] * r * r * u[j];
        gradient[j] *= is_scaled ? r * unit : 1.0F;
        if (linear->is_named && gradient[j] == 0.0F && u[j] != 0.0F) {
            gradient[j] = FLT_MIN;
        }
    }
}

/* Gathers the gradient at the values that were pulled. Returns the sum of losses. */
static double gather(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                     struct range range)
{
    const struct rbt_share *share = &w->share;
    struct rbt_gradient_run run = {.loss = (enum rbt_loss)linear->config.loss,
                                   .offsets = share->offsets,
                                   .labels = share->labels,
                                   .indices = share->indices,
                                   .values = share->values,
                                   .begin = range.first,
                                   .end = range.end,
                                   .weights = w->weights.values,
                                   .bias = w->bias.values[0],
                                   .factor = (float)linear->gradient_factor,
                                   .gradient = rbt_replica_gradient(&w->weights)};
    rbt_linear_visit(w, range.first, range.end);
    const double loss = rbt_choose_kernels()->gradient(&run);
    complete_gradient(linear, w, run.gradient);
    rbt_replica_gradient(&w->bias)[0] = run.bias_gradient * (float)w->step_unit;
    return loss;
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
    figures->loss += linear->rules.has_gradients ? gather(linear, w, range)
                                                 : follow(linear, w, range, chunk->epoch);
    figures->count += range.end - range.first;
    const uint64_t nonzeros = share->offsets[range.end] - share->offsets[range.first];
    rbt_spend(worker,
              1e-9 * (rbt_linear_costs[RBT_LINEAR_NONZERO].ns * (double)nonzeros +
                      rbt_linear_costs[RBT_LINEAR_EXAMPLE].ns * (double)(range.end - range.first) +
                      rbt_linear_costs[RBT_LINEAR_WEIGHT].ns * (double)w->weights.count));
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
    for (size_t j = 0; j < w->weights.count; j++) {
        const double weight = (double)w->weights.values[j] * (double)w->scales[j];
        squares += (double)w->shares[j] * weight * weight;
        sizes += (double)w->shares[j] * fabs(weight);
    }
    return linear->config.l2 / 2 * squares + linear->config.l1 * sizes;
}
