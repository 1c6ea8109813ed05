/* algo/linear/linear_emso.c - efficient minibatch training: every minibatch is made the most of.
 *
 * Li's thesis, algorithms 6 to 9. A minibatch I is dealt out to the workers. Each minimises, from
 * the weights v that it has pulled, over its part I_k of it
 *
 *     (1/|I_k|) sum_i loss(w'x_i + b, y_i) + penalty(w) + gamma/2 (||w - v||^2 + (b - b_v)^2)
 *
 * but only roughly, and what the workers arrive at is averaged. Feature j's mean is weighted by how
 * often each worker's examples have it (replica.h), and its penalty at a worker by how often this
 * part of the minibatch has it, (n_Ij / |I_k|) / (n_j / n), so that both are right on average.
 *
 *     emso-gd   5 steps of gradient descent, of size eta / (1 + eta gamma), eta = lr / (L R), so
 *               that no gamma is too large; features are scaled as in linear.c, and gamma with
 *               them; the penalty is a proximal step
 *     emso-cd   2 passes over the coordinates in random order: Newton steps of one coordinate,
 *
 *                   w_j <- w_j - lr (g_j + gamma (w_j - v_j)) / (h_j + gamma)
 *
 *               and the proximal step of the penalty; h_j is the curvature at the current w (the
 *               thesis prints: at the first, and coordinates from 0), counting at least 1/16 of
 *               its bound for each example
 *
 * A clock is a minibatch (--minibatch), of all workers together. --inner says how many steps, or
 * passes. gamma is not increased over time, as in the experiments of the thesis. */
#include <math.h>
#include <string.h>

#include "algo/frame/columns.h"
#include "algo/linear/linear_job.h"
#include "algo/linear/linear_solvers.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "math/choose.h"
#include "math/loss.h"
#include "math/prox.h"

enum { EPOCHS_DEFAULT = 10, GD_STEPS = 5, CD_PASSES = 2 };

/* Measured like those of linear_step.c: a nonzero of a coordinate descent is read twice, and has an
 * exponential of its own. */
static const double cd_ns_per_nonzero = 12.0;

/* A minibatch of the worker. */
struct batch {
    size_t first; /* its examples in the share */
    size_t end;
    struct rbt_columns columns; /* rows from `first` on */
    float *pulls;               /* the penalty of each column, relative: (columns.count) */
};

struct part {
    struct batch *batches;
    size_t batch_count;
    float *gradient; /* (key_count), zero between uses */
    float *margins;  /* (largest batch) */
    uint32_t *order; /* of columns: (most columns) */
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's minibatches");
}

static bool is_cd(const struct rbt_linear_job *linear)
{
    return linear->solver == &rbt_linear_emso_cd;
}

static rbt_status check(struct rbt_linear_job *linear, struct rbt_train_options *options)
{
    struct rbt_linear_config *config = &linear->config;
    rbt_status st = rbt_linear_refuse(linear, false);
    if (st == RBT_OK && config->loss != RBT_LOSS_LOGISTIC && config->loss != RBT_LOSS_SQUARED) {
        st = rbt_linear_refuse_loss(linear, "It needs a loss with a curvature: logistic or "
                                            "squared.");
    }
    if (st != RBT_OK) {
        return st;
    }
    if (config->scale == RBT_SCALE_AUTO || is_cd(linear)) {
        config->scale = is_cd(linear) ? RBT_SCALE_NONE : RBT_SCALE_FEATURES;
    }
    config->combine = config->combine == RBT_COMBINE_AUTO ? RBT_COMBINE_MEAN : config->combine;
    config->lr = isnan(config->lr) ? 1.0 : config->lr;
    if (config->inner == 0) {
        config->inner = is_cd(linear) ? CD_PASSES : GD_STEPS;
    }
    st = rbt_rules_read(options, &linear->rules);
    linear->bias_rules = linear->rules;
    return st;
}

static rbt_status settle(struct rbt_linear_job *linear, struct rbt_training *training)
{
    struct rbt_linear_config *config = &linear->config;
    const double n = (double)linear->examples.count;
    config->l2 = isnan(config->l2) ? RBT_LINEAR_L2_TOTAL / n : config->l2;
    const double batches = ceil(n / (double)config->minibatch);
    training->clocks_per_epoch = linear->options->clocks_per_epoch > 0
                                     ? linear->options->clocks_per_epoch
                                     : (int64_t)fmax(batches, 1.0);
    linear->clocks_per_epoch = training->clocks_per_epoch;
    return RBT_OK;
}

/* --- Minibatches -------------------------------------------------------------------------------
 */

static rbt_status take_batch(const struct rbt_linear_job *linear, const struct rbt_linear_worker *w,
                             const double *totals, struct batch *batch)
{
    const rbt_status st = rbt_columns_take(&w->share, batch->first, batch->end, &batch->columns);
    if (st != RBT_OK) {
        return st;
    }
    batch->pulls = rbt_calloc(batch->columns.count, sizeof *batch->pulls);
    if (batch->pulls == NULL) {
        return no_memory();
    }
    const double more = (double)linear->examples.count / (double)(batch->end - batch->first);
    for (size_t c = 0; c < batch->columns.count; c++) {
        const double here = (double)(batch->columns.starts[c + 1] - batch->columns.starts[c]);
        batch->pulls[c] = (float)(more * here / totals[batch->columns.features[c]]);
    }
    return RBT_OK;
}

/* How often all examples have each of the worker's features: n_j = n_pj / share. NULL: no memory.
 */
static double *count_all(const struct rbt_linear_worker *w)
{
    const struct rbt_share *share = &w->share;
    double *totals = rbt_calloc(share->key_count, sizeof *totals);
    for (uint64_t k = 0; totals != NULL && k < share->offsets[share->count]; k++) {
        totals[share->indices[k]] += 1.0 / (double)w->shares[share->indices[k]];
    }
    return totals;
}

static rbt_status take_batches(const struct rbt_linear_job *linear,
                               const struct rbt_linear_worker *w, struct part *part)
{
    double *totals = count_all(w);
    part->batches = rbt_calloc((size_t)linear->clocks_per_epoch, sizeof *part->batches);
    part->gradient = rbt_calloc(w->share.key_count, sizeof *part->gradient);
    part->order = rbt_calloc(w->share.key_count, sizeof *part->order);
    part->margins = rbt_calloc(w->share.count, sizeof *part->margins);
    rbt_status st = totals == NULL || part->batches == NULL || part->gradient == NULL ||
                            part->order == NULL || part->margins == NULL
                        ? no_memory()
                        : RBT_OK;
    const size_t count = (size_t)linear->clocks_per_epoch;
    for (size_t b = 0; st == RBT_OK && b < count; b++) {
        part->batches[b].first = w->share.count * b / count;
        part->batches[b].end = w->share.count * (b + 1) / count;
        part->batch_count = b + 1;
        st = take_batch(linear, w, totals, &part->batches[b]);
    }
    rbt_free(totals);
    return st;
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const rbt_status st = rbt_linear_ready(context, worker, parameters);
    struct part *part = rbt_calloc(1, sizeof *part);
    w->own = part;
    if (st != RBT_OK) {
        return st;
    }
    return part == NULL ? no_memory() : take_batches(linear, w, part);
}

static void end(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    struct part *part = w->own;
    for (size_t b = 0; part != NULL && b < part->batch_count; b++) {
        rbt_columns_free(&part->batches[b].columns);
        rbt_free(part->batches[b].pulls);
    }
    if (part != NULL) {
        rbt_free(part->margins);
        rbt_free(part->order);
        rbt_free(part->gradient);
        rbt_free(part->batches);
    }
    rbt_free(part);
    w->own = NULL;
    rbt_linear_end(context, worker);
}

/* --- Gradient descent --------------------------------------------------------------------------
 */

/* The proximal step of the penalty of column c, in scaled coordinates, for a step of this size. */
static float shrink(const struct rbt_linear_config *config, float u, float scale, double amount)
{
    const float r = scale;
    const float v = config->l1 > 0.0 ? rbt_prox_soft(u, (float)(amount * config->l1) * r) : u;
    return v / (1.0F + (float)(amount * config->l2) * r * r);
}

/* One step; returns the sum of losses before it. */
static double descend(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                      const struct batch *batch)
{
    const struct rbt_linear_config *config = &linear->config;
    struct part *part = w->own;
    struct rbt_gradient_run run = {.loss = (enum rbt_loss)config->loss,
                                   .offsets = w->share.offsets,
                                   .labels = w->share.labels,
                                   .indices = w->share.indices,
                                   .values = w->share.values,
                                   .begin = batch->first,
                                   .end = batch->end,
                                   .weights = w->weights.values,
                                   .bias = w->bias.values[0],
                                   .factor = (float)(1.0 / (double)(batch->end - batch->first)),
                                   .gradient = part->gradient};
    const double loss = rbt_choose_kernels()->gradient(&run);
    const double eta = config->lr * w->step_unit;
    float *u = w->weights.values;
    for (size_t c = 0; c < batch->columns.count; c++) {
        const uint32_t j = batch->columns.features[c];
        const float r = w->scales[j];
        const double gamma = config->gamma * (double)(r * r);
        const double near = gamma * (double)(u[j] - w->weights.before[j]);
        const double step = eta / (1.0 + eta * gamma);
        u[j] = shrink(config, u[j] - (float)(step * ((double)part->gradient[j] + near)), r,
                      step * (double)batch->pulls[c]);
        part->gradient[j] = 0.0F;
    }
    if (config->has_bias) {
        const double near = config->gamma * (double)(w->bias.values[0] - w->bias.before[0]);
        const double step = eta / (1.0 + eta * config->gamma);
        w->bias.values[0] -= (float)(step * ((double)run.bias_gradient + near));
    }
    return loss;
}

/* --- Coordinate descent ------------------------------------------------------------------------
 */

/* What a column of examples says about its coordinate. */
struct lean {
    double g; /* the mean of loss' x */
    double h; /* the mean of loss'' x^2 */
};

static inline void add_lean(enum rbt_loss loss, float margin, float y, struct lean *sum, double x)
{
    if (loss == RBT_LOSS_SQUARED) {
        sum->g += (double)(margin - y) * x;
        sum->h += x * x;
        return;
    }
    const float p = 1.0F / (1.0F + expf(y * margin)); /* of being wrong */
    sum->g -= (double)(y * p) * x;
    sum->h += fmax((double)(p * (1.0F - p)), 1.0 / 64.0) * x * x;
}

/* A Newton step of one coordinate at w, which was v, with its penalties; how far it goes. */
static double step_of(const struct rbt_linear_config *config, struct lean lean, float w, float v,
                      double pull)
{
    const double h = lean.h + config->gamma;
    if (h <= 0.0) {
        return 0.0;
    }
    const double x = (double)w - config->lr * (lean.g + config->gamma * (double)(w - v)) / h;
    const double size = fabs(x) - config->lr * pull * config->l1 / h;
    const double to =
        size <= 0.0 ? 0.0 : copysign(size, x) / (1.0 + config->lr * pull * config->l2 / h);
    return (double)(float)to - (double)w;
}

static void step_bias(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                      const struct batch *batch)
{
    struct part *part = w->own;
    const size_t count = batch->end - batch->first;
    struct lean lean = {0};
    for (size_t i = 0; i < count; i++) {
        add_lean((enum rbt_loss)linear->config.loss, part->margins[i],
                 w->share.labels[batch->first + i], &lean, 1.0);
    }
    lean.g /= (double)count;
    lean.h /= (double)count;
    const double step = step_of(&linear->config, lean, w->bias.values[0], w->bias.before[0], 0.0);
    w->bias.values[0] += (float)step;
    for (size_t i = 0; i < count; i++) {
        part->margins[i] += (float)step;
    }
}

/* One pass over the coordinates of the minibatch. */
static void pass(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                 const struct batch *batch, struct rbt_rng *rng)
{
    const struct rbt_columns *columns = &batch->columns;
    struct part *part = w->own;
    const enum rbt_loss loss = (enum rbt_loss)linear->config.loss;
    const double count = (double)(batch->end - batch->first);
    const float *labels = w->share.labels + batch->first;
    rbt_rng_permutation(rng, part->order, columns->count);
    if (linear->config.has_bias) {
        step_bias(linear, w, batch);
    }
    for (size_t at = 0; at < columns->count; at++) {
        const uint32_t c = part->order[at];
        const uint32_t j = columns->features[c];
        struct lean lean = {0};
        for (uint64_t k = columns->starts[c]; k < columns->starts[c + 1]; k++) {
            const uint32_t i = columns->rows[k];
            add_lean(loss, part->margins[i], labels[i], &lean, (double)columns->values[k]);
        }
        lean.g /= count;
        lean.h /= count;
        const double step = step_of(&linear->config, lean, w->weights.values[j],
                                    w->weights.before[j], (double)batch->pulls[c]);
        if (step == 0.0) {
            continue;
        }
        w->weights.values[j] += (float)step;
        for (uint64_t k = columns->starts[c]; k < columns->starts[c + 1]; k++) {
            part->margins[columns->rows[k]] += (float)step * columns->values[k];
        }
    }
}

/* Margins of the minibatch at the weights that were pulled; returns the sum of losses. */
static double look(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                   const struct batch *batch)
{
    const struct rbt_share *share = &w->share;
    struct part *part = w->own;
    double sum = 0.0;
    for (size_t i = batch->first; i < batch->end; i++) {
        const struct rbt_sparse x = {share->indices + share->offsets[i],
                                     share->values + share->offsets[i],
                                     (size_t)(share->offsets[i + 1] - share->offsets[i])};
        const double margin =
            rbt_choose_kernels()->sparse_dot(&x, w->weights.values) + (double)w->bias.values[0];
        part->margins[i - batch->first] = (float)margin;
        sum +=
            rbt_loss_at((enum rbt_loss)linear->config.loss, margin, (double)share->labels[i]).value;
    }
    return sum;
}

/* --- A clock -----------------------------------------------------------------------------------
 */

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct rbt_linear_job *linear = context;
    const uint32_t index = rbt_worker_index(worker);
    struct rbt_linear_worker *w = &linear->workers[index];
    const struct part *part = w->own;
    const struct batch *batch = &part->batches[chunk->index];
    const double count = (double)(batch->end - batch->first);
    rbt_status st = rbt_replica_pull(&w->weights);
    st = st != RBT_OK ? st : rbt_replica_pull(&w->bias);
    if (st != RBT_OK || batch->end == batch->first) {
        return st;
    }
    const double nonzeros = (double)batch->columns.starts[batch->columns.count];
    double ns = rbt_linear_costs[RBT_LINEAR_WEIGHT].ns * (double)batch->columns.count;
    struct rbt_rng rng;
    rbt_rng_init(&rng, linear->seed, index + UINT64_C(1),
                 (uint64_t)(chunk->epoch * chunk->count + chunk->index));
    figures->loss += is_cd(linear) ? look(linear, w, batch) : descend(linear, w, batch);
    ns += rbt_linear_costs[RBT_LINEAR_NONZERO].ns * nonzeros +
          rbt_linear_costs[RBT_LINEAR_EXAMPLE].ns * count;
    for (int64_t step = 0; is_cd(linear) && step < linear->config.inner; step++) {
        pass(linear, w, batch, &rng);
        ns += cd_ns_per_nonzero * (nonzeros + count);
    }
    for (int64_t step = 1; !is_cd(linear) && step < linear->config.inner; step++) {
        (void)descend(linear, w, batch); /* the loss that counts is that of the first */
        ns += rbt_linear_costs[RBT_LINEAR_NONZERO].ns * nonzeros +
              rbt_linear_costs[RBT_LINEAR_EXAMPLE].ns * count;
    }
    figures->count += batch->end - batch->first;
    rbt_worker_spend(worker, 1e-9 * ns);
    return RBT_OK;
}

const struct rbt_linear_solver rbt_linear_emso_gd = {
    .name = "emso-gd",
    .epochs_default = EPOCHS_DEFAULT,
    .check = check,
    .settle = settle,
    .task = {.ready = ready, .work = work, .end = end}};

const struct rbt_linear_solver rbt_linear_emso_cd = {
    .name = "emso-cd",
    .epochs_default = EPOCHS_DEFAULT,
    .check = check,
    .settle = settle,
    .task = {.ready = ready, .work = work, .end = end}};
