/* algo/fm/fm_measure.c - how good a model is: its exact objective, and whether it is of any use. */
#include <math.h>

#include "algo/fm/fm_job.h"
#include "algo/fm/fm_model.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

/* A model whose loss is so many times that of the constant that fits best has diverged. */
static const double useless = 1.5;

static const double steps_min = 10000;

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for the margins of examples");
}

static rbt_status measure_share(const struct rbt_fm_job *fm, const struct rbt_share *share,
                                double *loss)
{
    float *margins = rbt_calloc(share->count, sizeof *margins);
    if (margins == NULL) {
        return no_memory();
    }
    const rbt_status st = rbt_fm_model_margins(fm->model, share, margins);
    *loss = 0.0;
    for (size_t i = 0; st == RBT_OK && i < share->count; i++) {
        *loss += rbt_loss_at(fm->loss, (double)margins[i], (double)share->labels[i]).value;
    }
    rbt_free(margins);
    return st;
}

/* Measures a part of the examples: a worker's share, or while workers are at work a part of the
 * whole. A worker that was lost at once has not taken its share; its examples count all the same.
 */
static rbt_status measure(void *argument, uint32_t index)
{
    struct rbt_fm_job *fm = argument;
    struct rbt_fm_worker *w = &fm->workers[index];
    if (fm->whole.offsets != NULL) {
        const uint64_t n = fm->examples.count;
        const uint64_t first = n * index / fm->measured_parts;
        struct rbt_share part = fm->whole;
        part.offsets += first;
        part.labels += first;
        part.count = n * (index + UINT64_C(1)) / fm->measured_parts - first;
        return measure_share(fm, &part, &w->loss);
    }
    const rbt_status st = w->share.offsets == NULL ? rbt_fm_part_take(fm, index) : RBT_OK;
    return st != RBT_OK ? st : measure_share(fm, &w->share, &w->loss);
}

/* The sum of squares of the weights; of the linear model as it was penalised, without units. */
static double squares_of(const struct rbt_fm_job *fm, const struct rbt_model_array *w)
{
    double sum = 0.0;
    for (size_t i = 0; fm->watch.is_linear && i < w->count; i++) {
        const float weight = w->values[i] / rbt_fm_scale_unit(&fm->scales, w->keys[i]);
        sum += (double)weight * (double)weight;
    }
    return fm->watch.is_linear ? sum : rbt_choose_kernels()->norm2_squared(w->values, w->count);
}

/* The penalty of a model, per example. */
static double penalty_of(const struct rbt_fm_job *fm, const struct rbt_model *model)
{
    const struct rbt_kernels *kernels = rbt_choose_kernels();
    const struct rbt_model_array *w = rbt_model_array_find(model, "weights");
    const struct rbt_model_array *v = rbt_model_array_find(model, "embeddings");
    const double *usage = fm->counts.values;
    double embeddings = 0.0;
    size_t at = 0; /* both lists of keys increase, and all keys are counted */
    for (size_t i = 0; i < v->count; i++) {
        while (at < fm->counts.count && fm->counts.keys[at] < v->keys[i]) {
            at++;
        }
        const double n =
            at < fm->counts.count ? usage[at * RBT_USAGE_WIDTH + RBT_USAGE_COUNT] : 0.0;
        embeddings +=
            rbt_fm_shrinks(fm, n) * kernels->norm2_squared(v->values + i * v->width, v->width);
    }
    return (rbt_model_setting(model, "l1", 0) * kernels->norm1(w->values, w->count) +
            rbt_model_setting(model, "l2", 0) / 2 * squares_of(fm, w)) /
               (double)fm->examples.count +
           rbt_model_setting(model, "l2_v", 0) / 2 * embeddings;
}

/* The mean loss of the best constant; of 0 without a bias, or if there were too few steps for a
 * bias to get there. */
static double loss_of_constant(const struct rbt_fm_job *fm)
{
    const float *labels = fm->examples.labels;
    const size_t n = fm->examples.count;
    const double steps = fm->passes * (double)n / (double)fm->movers;
    double constant = 0.0;
    if (fm->config.has_bias && steps >= steps_min) {
        double sum = 0.0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)labels[i];
        }
        const double mean = sum / (double)n;
        constant = fm->loss == RBT_LOSS_SQUARED ? mean : log1p(mean) - log1p(-mean);
    }
    if (!isfinite(constant)) {
        return 0.0; /* all labels are alike */
    }
    double loss = 0.0;
    for (size_t i = 0; i < n; i++) {
        loss += rbt_loss_at(fm->loss, constant, (double)labels[i]).value;
    }
    return loss / (double)n;
}

/* Refuses the final model if it knows less than no model would: `loss` is its mean. */
static rbt_status check_use(const struct rbt_fm_job *fm, double loss, double penalty)
{
    if (!fm->is_over) {
        return RBT_OK; /* it may still get better */
    }
    const double constant = loss_of_constant(fm);
    rbt_status st = RBT_OK;
    if (!isfinite(loss) || !isfinite(penalty)) {
        st = rbt_fail(RBT_E_DATA, "training diverged: the objective is not a finite number");
    } else if (constant > 0 && loss > useless * constant) {
        const double unit = fm->scales.label_unit * fm->scales.label_unit;
        st = rbt_fail(
            RBT_E_DATA,
            "training diverged: the loss is %.6g per example, but %.6g for a constant prediction",
            unit * loss, unit * constant);
    }
    return st == RBT_OK ? st : rbt_fail_hint(st, RBT_FM_DIVERGED_HINT);
}

rbt_status rbt_fm_objective(void *context, const struct rbt_model *model, double *objective)
{
    struct rbt_fm_job *fm = context;
    const uint32_t cores = rbt_thread_cores();
    const bool has_whole = fm->whole.offsets != NULL;
    struct rbt_model inner = {0};
    rbt_status st = rbt_fm_scale_copy(&fm->scales, model, &inner);
    if (st != RBT_OK) {
        return st;
    }
    fm->model = &inner;
    fm->measured_parts = has_whole && cores < fm->worker_count ? cores : fm->worker_count;
    st = rbt_thread_run(fm->measured_parts, measure, fm);
    fm->model = NULL;
    const double penalty = penalty_of(fm, &inner);
    fm->found_l2 = rbt_model_setting(&inner, "l2", 0);
    fm->found_l2_v = rbt_model_setting(&inner, "l2_v", 0);
    rbt_model_free(&inner);
    if (st != RBT_OK) {
        return st;
    }
    double loss = 0.0;
    for (uint32_t p = 0; p < fm->measured_parts; p++) {
        loss += fm->workers[p].loss;
    }
    const double mean = loss / (double)fm->examples.count;
    *objective = fm->scales.label_unit * fm->scales.label_unit * (mean + penalty);
    return check_use(fm, mean, penalty);
}

rbt_status rbt_fm_evaluate(void *context, const struct rbt_model *model,
                           struct rbt_metrics *metrics)
{
    const struct rbt_fm_job *fm = context;
    return rbt_fm_model_measure(model, &fm->eval_share, metrics);
}
