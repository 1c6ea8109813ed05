/* algo/fm/fm_linear.c - see fm_linear.h.
 *
 * The objective is smooth, and minimised with second derivatives where features are few, else with
 * what descent remembers of them (descent.h). Sums are always made in PIECES pieces, whatever the
 * number of processors, so that rounding is the same everywhere. */
#include "algo/fm/fm_linear.h"

#include <math.h>
#include <string.h>

#include "algo/fm/fm_job.h"
#include "algo/frame/curvature.h"
#include "algo/frame/descent.h"
#include "algo/frame/penalty.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "math/cholesky.h"

enum {
    PIECES = 4,
    LOOKS_MAX = 100, /* at the objective */
    MEMORY = 8,      /* of descent */
};

static const double tolerance = 1e-6; /* of descent; a thousandth of it with second derivatives */

/* Second derivatives may take so many multiplications for each of a gradient's. */
static const double dear = 32.0;

/* One fit. */
struct fit {
    const struct rbt_share *share; /* its first `count` examples */
    size_t count;
    enum rbt_loss loss;
    bool has_bias;
    double total;        /* penalty */
    size_t size;         /* rows: features, and the bias */
    const double *point; /* that is looked at */
    uint32_t *places;    /* 0, 1, ...: (size) */
    double *gradients[PIECES];
    double *seconds[PIECES]; /* (size, size), or NULL */
    double *factors;         /* of their sum */
    double *diagonal;        /* 1 / second derivative, about: (size) */
    double losses[PIECES];
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for the weights of a linear model");
}

static bool is_small(const struct fit *fit)
{
    const struct rbt_share *share = fit->share;
    const double nonzeros = (double)share->offsets[fit->count];
    double squares = 0.0;
    for (size_t i = 0; i < fit->count; i++) {
        const double length = (double)(share->offsets[i + 1] - share->offsets[i]);
        squares += length * length;
    }
    return fit->size <= RBT_CURVATURE_ROWS_MAX &&
           rbt_curvature_cost((double)fit->count, nonzeros, squares, fit->size, 1) <=
               dear * nonzeros;
}

static void free_room(struct fit *fit)
{
    for (size_t p = 0; p < PIECES; p++) {
        rbt_free(fit->gradients[p]);
        rbt_free(fit->seconds[p]);
    }
    rbt_free(fit->factors);
    rbt_free(fit->diagonal);
    rbt_free(fit->places);
}

static rbt_status make_room(struct fit *fit)
{
    const bool has_second = is_small(fit);
    bool has_all = true;
    for (size_t p = 0; p < PIECES; p++) {
        fit->gradients[p] = rbt_calloc(fit->size, sizeof(double));
        has_all = has_all && fit->gradients[p] != NULL;
        if (has_second) {
            fit->seconds[p] = rbt_calloc(fit->size * fit->size, sizeof(double));
            has_all = has_all && fit->seconds[p] != NULL;
        }
    }
    fit->factors = has_second ? rbt_calloc(fit->size * fit->size, sizeof(double)) : NULL;
    fit->diagonal = rbt_calloc(fit->size, sizeof *fit->diagonal);
    fit->places = rbt_calloc(fit->size, sizeof *fit->places);
    if (!has_all || (has_second && fit->factors == NULL) || fit->diagonal == NULL ||
        fit->places == NULL) {
        return no_memory();
    }
    for (size_t j = 0; j < fit->size; j++) {
        fit->places[j] = (uint32_t)j;
    }
    return RBT_OK;
}

static bool is_free(const struct fit *fit, size_t j)
{
    return fit->has_bias && j == fit->size - 1;
}

static void fill_diagonal(struct fit *fit)
{
    const struct rbt_share *share = fit->share;
    const double curvature = rbt_loss_curvature(fit->loss);
    const double n = (double)fit->count;
    for (uint64_t k = 0; k < share->offsets[fit->count]; k++) {
        const double x = (double)share->values[k];
        fit->diagonal[share->indices[k]] += curvature * x * x / n;
    }
    for (size_t j = 0; j < fit->size; j++) {
        fit->diagonal[j] = is_free(fit, j) ? 1.0 / curvature
                                           : 1.0 / fmax(fit->diagonal[j] + fit->total / n, 1e-300);
    }
}

static rbt_status add_piece(void *argument, uint32_t index)
{
    struct fit *fit = argument;
    const struct rbt_share *share = fit->share;
    const size_t first = fit->count * index / PIECES;
    const size_t end = fit->count * (index + 1) / PIECES;
    const struct rbt_share some = {.count = end - first,
                                   .offsets = share->offsets + first,
                                   .labels = share->labels + first,
                                   .indices = share->indices,
                                   .values = share->values,
                                   .key_count = share->key_count};
    const struct rbt_curvature run = {.loss = fit->loss,
                                      .classes = 1,
                                      .size = fit->size,
                                      .has_bias = fit->has_bias,
                                      .share = &some,
                                      .places = fit->places,
                                      .point = fit->point,
                                      .gradient = fit->gradients[index],
                                      .second = fit->seconds[index]};
    memset(fit->gradients[index], 0, fit->size * sizeof(double));
    if (fit->seconds[index] != NULL) {
        memset(fit->seconds[index], 0, fit->size * fit->size * sizeof(double));
    }
    return rbt_curvature_add(&run, &fit->losses[index]);
}

static void solve(void *context, double *x)
{
    const struct fit *fit = context;
    rbt_cholesky_solve(fit->factors, fit->size, x);
}

/* The point that was looked at is taken: its second derivatives are what `solve` goes by. */
static void take_second(void *context)
{
    struct fit *fit = context;
    const double n = (double)fit->count;
    for (size_t a = 0; a < fit->size; a++) {
        for (size_t b = 0; b <= a; b++) {
            double sum = 0.0;
            for (size_t p = 0; p < PIECES; p++) {
                sum += fit->seconds[p][a * fit->size + b];
            }
            fit->factors[a * fit->size + b] = sum / n;
        }
        fit->factors[a * fit->size + a] += is_free(fit, a) ? 0.0 : fit->total / n;
    }
    (void)rbt_cholesky_factor(fit->factors, fit->size); /* rows left out do not move */
}

/* Looks at the objective at descent->at, and tells it. */
static rbt_status look(struct fit *fit, struct rbt_descent *descent)
{
    const double n = (double)fit->count;
    fit->point = descent->at;
    const rbt_status st = rbt_thread_run(PIECES, add_piece, fit);
    if (st != RBT_OK) {
        return st;
    }
    double *gradient = fit->gradients[0];
    double value = fit->losses[0];
    double squares = 0.0;
    for (size_t p = 1; p < PIECES; p++) {
        value += fit->losses[p];
        for (size_t j = 0; j < fit->size; j++) {
            gradient[j] += fit->gradients[p][j];
        }
    }
    for (size_t j = 0; j < fit->size; j++) {
        const double penalised = is_free(fit, j) ? 0.0 : descent->at[j];
        gradient[j] = (gradient[j] + fit->total * penalised) / n;
        squares += penalised * penalised;
    }
    rbt_descent_tell(descent, (value + fit->total / 2 * squares) / n, gradient,
                     fit->factors != NULL ? take_second : NULL);
    return RBT_OK;
}

/* Moves the point, (size), to the minimum. */
static rbt_status minimise(struct fit *fit, double *point)
{
    struct rbt_descent descent;
    rbt_status st = make_room(fit);
    st = st != RBT_OK ? st
                      : rbt_descent_init(&descent, fit->size, fit->factors != NULL ? 0 : MEMORY);
    if (st != RBT_OK) {
        free_room(fit);
        return st;
    }
    const bool has_second = fit->factors != NULL;
    const double row = (double)fit->share->offsets[fit->count] / fmax((double)fit->count, 1.0);
    fill_diagonal(fit);
    descent.tolerance = has_second ? tolerance / 1000 : tolerance;
    descent.diagonal = fit->diagonal;
    descent.first = 1.0 / (2.0 + row); /* no two features have more in common */
    descent.solve = has_second ? solve : NULL;
    descent.context = fit;
    memcpy(descent.at, point, fit->size * sizeof *point);
    for (int t = 0; st == RBT_OK && t < LOOKS_MAX && descent.state == RBT_DESCENT_ON; t++) {
        st = look(fit, &descent);
    }
    memcpy(point, descent.best, fit->size * sizeof *point);
    rbt_descent_free(&descent);
    free_room(fit);
    return st;
}

/* Weights and bias of the point become a model, in units of the examples. */
static rbt_status make_model(const struct rbt_fm_job *fm, const struct rbt_share *share,
                             const double *point, struct rbt_model *model)
{
    static const char *const names[] = {"weights", "embeddings", "bias"};
    const size_t counts[] = {share->key_count, 0, 1};
    model->kind = RBT_MODEL_FM;
    rbt_model_set(model, "loss", fm->loss);
    rbt_model_set(model, "rank", (double)fm->config.rank);
    for (size_t a = 0; a < (fm->config.has_bias ? 3 : 2); a++) {
        const size_t width = a == RBT_FM_EMBEDDINGS ? (size_t)fm->config.rank : 1;
        if (!rbt_model_array_make(&model->arrays[model->array_count++], names[a], counts[a],
                                  width)) {
            rbt_model_free(model);
            return no_memory();
        }
    }
    for (size_t j = 0; j < share->key_count; j++) {
        model->arrays[RBT_FM_WEIGHTS].keys[j] = share->keys[j];
        model->arrays[RBT_FM_WEIGHTS].values[j] =
            (float)point[j] * rbt_fm_scale_unit(&fm->scales, share->keys[j]);
    }
    if (fm->config.has_bias) {
        model->arrays[RBT_FM_BIAS].values[0] = (float)point[share->key_count];
    }
    return RBT_OK;
}

/* The share of all examples, of which those that are held out are the last; and without the units
 * that `train linear` does not know, since penalties depend on them. */
static rbt_status take_share(const struct rbt_fm_job *fm, struct rbt_share *share)
{
    const rbt_status st = rbt_share_of(&fm->examples, fm->order, fm->examples.count, share);
    float *units = st == RBT_OK ? rbt_calloc(share->key_count, sizeof *units) : NULL;
    if (units == NULL) {
        return st != RBT_OK ? st : no_memory();
    }
    for (size_t j = 0; j < share->key_count; j++) {
        units[j] = rbt_fm_scale_unit(&fm->scales, share->keys[j]);
    }
    for (uint64_t k = 0; k < share->offsets[share->count]; k++) {
        share->values[k] *= units[share->indices[k]];
    }
    rbt_free(units);
    return RBT_OK;
}

/* Moves the point, (key_count + 1), to the minimum of the first examples of the share. */
static rbt_status fit_share(const struct rbt_fm_job *fm, const struct rbt_share *share,
                            size_t count, double *point)
{
    struct fit fit = {.share = share,
                      .count = count,
                      .loss = fm->loss,
                      .has_bias = fm->config.has_bias,
                      .total = fm->linear.total,
                      .size = share->key_count + (fm->config.has_bias ? 1 : 0)};
    return minimise(&fit, point);
}

rbt_status rbt_fm_linear_sample(struct rbt_fm_job *fm)
{
    const struct rbt_examples *examples = &fm->examples;
    const uint64_t nonzeros = examples->offsets[examples->count];
    fm->linear.sample.seed = fm->seed;
    return rbt_sample_choose(&fm->linear.sample, examples,
                             rbt_penalty_examples(examples->count, nonzeros, 1));
}

/* Finds the penalty on the sample. */
static rbt_status find_penalty(struct rbt_fm_job *fm, struct rbt_penalty *found)
{
    struct rbt_sample *sample = &fm->linear.sample;
    const struct rbt_penalty_options options = {
        .loss = fm->loss, .classes = 1, .has_bias = fm->config.has_bias};
    struct rbt_share share = {0};
    rbt_status st = rbt_standard_apply(&fm->scales.standard, &sample->examples);
    st = st != RBT_OK ? st : rbt_sample_share(sample, &share);
    st = st != RBT_OK ? st : rbt_penalty_find(&share, &options, found);
    rbt_share_free(&share);
    rbt_sample_free(sample);
    return st;
}

rbt_status rbt_fm_linear_take(struct rbt_fm_job *fm)
{
    struct rbt_fm_linear *linear = &fm->linear;
    const size_t count = fm->examples.count - fm->held_out;
    struct rbt_penalty found = {.total = fm->config.l2 * fm->scales.common * fm->scales.common};
    struct rbt_share share = {0};
    rbt_status st = take_share(fm, &share);
    double *point = rbt_calloc(share.key_count + 1, sizeof *point);
    st = st != RBT_OK || point != NULL ? st : no_memory();
    if (st == RBT_OK && fm->is_l2_tuned) {
        st = find_penalty(fm, &found);
    }
    linear->total = found.total;
    st = st != RBT_OK ? st : fit_share(fm, &share, count, point);
    st = st != RBT_OK ? st : make_model(fm, &share, point, &linear->model);
    rbt_free(point);
    rbt_share_free(&share);
    return st;
}

rbt_status rbt_fm_linear_refit(const struct rbt_fm_job *fm, struct rbt_model *model)
{
    const struct rbt_model_array *weights = &fm->linear.model.arrays[RBT_FM_WEIGHTS];
    struct rbt_share share = {0};
    rbt_status st = take_share(fm, &share);
    double *point = rbt_calloc(share.key_count + 1, sizeof *point);
    st = st != RBT_OK || point != NULL ? st : no_memory();
    for (size_t j = 0; st == RBT_OK && j < share.key_count; j++) {
        point[j] =
            (double)weights->values[j] / (double)rbt_fm_scale_unit(&fm->scales, share.keys[j]);
    }
    if (st == RBT_OK && fm->config.has_bias) {
        point[share.key_count] = (double)fm->linear.model.arrays[RBT_FM_BIAS].values[0];
    }
    st = st != RBT_OK ? st : fit_share(fm, &share, share.count, point);
    st = st != RBT_OK ? st : make_model(fm, &share, point, model);
    rbt_free(point);
    rbt_share_free(&share);
    return st;
}

void rbt_fm_linear_free(struct rbt_fm_linear *linear)
{
    rbt_model_free(&linear->model);
    rbt_sample_free(&linear->sample);
    *linear = (struct rbt_fm_linear){0};
}
