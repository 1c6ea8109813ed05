/* algo/linear/linear_part.c - a worker's part of the examples: its share, how it is scaled, and
 * copies of the rows that it needs. */
#include <math.h>
#include <string.h>

#include "algo/linear/linear_job.h"
#include "algo/linear/linear_lazy.h"
#include "algo/linear/linear_stream.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/loss.h"

enum { SWEEP_MAX = 4096 };

static const uint64_t bias_key = 0;

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its examples");
}

/* How often the share uses each of its features: (key_count, RBT_USAGE_WIDTH); NULL: no memory.
 * `w` is who has the share, or NULL for one that is not a worker's. */
static double *count_usage(const struct rbt_share *share, const struct rbt_linear_worker *w)
{
    double *usage = rbt_calloc(share->key_count * RBT_USAGE_WIDTH, sizeof *usage);
    if (usage == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < share->count; i++) {
        if (w != NULL) {
            rbt_linear_visit(w, i, i + 1);
        }
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            double *row = usage + (size_t)share->indices[k] * RBT_USAGE_WIDTH;
            row[RBT_USAGE_COUNT] += 1.0;
            row[RBT_USAGE_SQUARES] += (double)share->values[k] * (double)share->values[k];
        }
    }
    return usage;
}

rbt_status rbt_linear_part_room(const struct rbt_linear_job *linear, struct rbt_linear_worker *w)
{
    w->scales = rbt_calloc(w->share.key_count, sizeof *w->scales);
    w->shares = rbt_calloc(w->share.key_count, sizeof *w->shares);
    w->pulls = rbt_calloc(w->share.key_count, sizeof *w->pulls);
    w->decays = rbt_calloc(w->share.key_count, sizeof *w->decays);
    if (w->source == NULL && !w->is_borrowed) {
        w->step_max = rbt_calloc(w->share.count, sizeof *w->step_max);
    }
    w->coefficients =
        rbt_calloc((size_t)linear->config.batch * linear->width, sizeof *w->coefficients);
    if (w->scales == NULL || w->shares == NULL || w->pulls == NULL || w->decays == NULL ||
        (w->step_max == NULL && w->share.count > 0) || w->coefficients == NULL) {
        return no_memory();
    }
    for (size_t j = 0; j < w->share.key_count; j++) {
        w->scales[j] = 1.0F;
    }
    return linear->is_lazy ? rbt_linear_lazy_open(linear, w) : RBT_OK;
}

rbt_status rbt_linear_part_take(struct rbt_linear_job *linear, uint32_t index)
{
    struct rbt_linear_worker *w = &linear->workers[index];
    const rbt_status st = rbt_linear_is_streamed(linear)
                              ? rbt_linear_stream_take(linear, index)
                              : rbt_share_take(&linear->examples, linear->seed, index,
                                               linear->worker_count, &w->share);
    return st != RBT_OK ? st : rbt_linear_part_room(linear, w);
}

void rbt_linear_part_free(struct rbt_linear_worker *w)
{
    rbt_linear_lazy_close(w);
    rbt_linear_stream_drop(w);
    if (w->is_borrowed) {
        w->is_borrowed = false;
        w->share = (struct rbt_share){0};
        w->step_max = NULL;
    }
    rbt_free(w->coefficients);
    rbt_free(w->step_max);
    rbt_free(w->decays);
    rbt_free(w->pulls);
    rbt_free(w->shares);
    rbt_free(w->scales);
    w->coefficients = w->step_max = w->decays = w->pulls = w->shares = w->scales = NULL;
    rbt_share_free(&w->share);
}

rbt_status rbt_linear_begin(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    const struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    rbt_status st = rbt_linear_part_take(linear, rbt_worker_index(worker));
    if (st != RBT_OK) {
        return st;
    }
    double *usage = count_usage(&w->share, w);
    if (usage == NULL) {
        st = no_memory();
    } else {
        const struct rbt_replica_rows rows = {linear->usage, w->share.keys, w->share.key_count};
        st = rbt_replica_add_usage(worker, &rows, usage);
    }
    rbt_free(usage);
    return st;
}

void rbt_linear_part_scale(const struct rbt_linear_job *linear, struct rbt_linear_worker *w)
{
    struct rbt_share *share = &w->share;
    const double curvature = rbt_loss_curvature((enum rbt_loss)linear->config.loss);
    const double bias = linear->config.has_bias ? 1.0 : 0.0;
    double sum = 0.0;
    for (size_t i = 0; i < share->count; i++) {
        double squares = bias;
        rbt_linear_visit(w, i, i + 1);
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            share->values[k] *= w->scales[share->indices[k]];
            squares += (double)share->values[k] * (double)share->values[k];
        }
        sum += squares;
        w->step_max[i] = squares > 0 ? (float)(1.0 / (curvature * squares)) : INFINITY;
    }
    w->step_unit = sum > 0 ? (double)share->count / (curvature * sum) : 1.0;
}

void rbt_linear_part_sweep(const struct rbt_linear_job *linear, struct rbt_linear_worker *w)
{
    const size_t nonzeros = (size_t)w->share.offsets[w->share.count];
    const size_t batch = (size_t)linear->config.batch;
    const double row_mean = (double)(nonzeros + 1) / (double)(w->share.count + 1);
    const double cost = linear->width == 1 ? 2.0 : 0.25; /* classes tend to have dense examples */
    const double sweep = fmin((double)w->share.key_count / (cost * row_mean), SWEEP_MAX);
    w->sweep = ((size_t)sweep / batch + 1) * batch;
}

/* What follows from everybody's usage: shares n_pj / n_j and scales r_j. */
static rbt_status use_usage(struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                            const double *all)
{
    const double n = (double)linear->examples.count;
    double *mine = count_usage(&w->share, w);
    if (mine == NULL) {
        return no_memory();
    }
    const bool is_scaled = linear->config.scale == RBT_SCALE_FEATURES;
    const float more = (float)(n / (double)w->share.count);
    for (size_t j = 0; j < w->share.key_count; j++) {
        const double *row = all + j * RBT_USAGE_WIDTH;
        const double mean_square = row[RBT_USAGE_SQUARES] / n;
        w->shares[j] = (float)(mine[j * RBT_USAGE_WIDTH + RBT_USAGE_COUNT] / row[RBT_USAGE_COUNT]);
        w->scales[j] = is_scaled && mean_square > 0 ? (float)pow(mean_square, -0.25) : 1.0F;
        w->pulls[j] = w->scales[j] * w->shares[j] * more;
        w->decays[j] = w->scales[j] * sqrtf(w->shares[j] * more);
    }
    rbt_free(mine);
    w->step_unit = 1.0;
    if (is_scaled) {
        rbt_linear_part_scale(linear, w);
    }
    rbt_linear_part_sweep(linear, w);
    const bool is_mean = linear->config.combine == RBT_COMBINE_MEAN;
    const float bias_share = is_mean ? (float)((double)w->share.count / n) : 1.0F;
    rbt_status st = rbt_replica_tune(&w->bias, &bias_share, NULL);
    const bool has_scales = is_scaled || !linear->rules.has_gradients;
    float *rates = linear->is_blended ? rbt_calloc(w->share.key_count, sizeof *rates) : NULL;
    if (st == RBT_OK && linear->is_blended) {
        st = rates == NULL ? no_memory() : rbt_linear_rates(linear, w, all, rates);
    }
    const float *shares = is_mean ? w->shares : NULL;
    if (st == RBT_OK) {
        st = rbt_replica_tune(&w->weights, rates != NULL ? rates : shares,
                              has_scales ? w->scales : NULL);
    }
    rbt_free(rates);
    return st;
}

static rbt_status count_parameters(const struct rbt_linear_job *linear, rbt_worker *worker,
                                   uint64_t *count)
{
    struct rbt_rows rows = {0};
    const rbt_status st =
        rbt_pull_range(worker, linear->usage, RBT_RANGE_ALL, RBT_STALENESS_OBSERVER, &rows);
    if (st == RBT_OK) {
        *count = (rows.count + (linear->config.has_bias ? 1 : 0)) * linear->width;
        rbt_rows_free(&rows);
    }
    return st;
}

/* Copies of the rows of the share's features, with rates and scales. */
static rbt_status open_replicas(struct rbt_linear_job *linear, rbt_worker *worker,
                                struct rbt_linear_worker *w, const double *all)
{
    const struct rbt_replica_rows weights = {linear->weights, w->share.keys, w->share.key_count};
    const struct rbt_replica_rows bias = {linear->bias, &bias_key, 1};
    rbt_status st = rbt_replica_open(worker, &weights, &w->weights);
    if (st == RBT_OK) {
        st = rbt_replica_open(worker, &bias, &w->bias);
    }
    if (st == RBT_OK && linear->is_managed) {
        st = rbt_set_manage(w->weights.set);
    }
    if (st == RBT_OK && linear->is_managed && linear->config.has_bias) {
        st = rbt_set_manage(w->bias.set);
    }
    return st != RBT_OK ? st : use_usage(linear, w, all);
}

rbt_status rbt_linear_ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_linear_job *linear = context;
    const uint32_t index = rbt_worker_index(worker);
    struct rbt_linear_worker *w = &linear->workers[index];
    const struct rbt_replica_rows usage = {linear->usage, w->share.keys, w->share.key_count};
    double *all = rbt_calloc(w->share.key_count * RBT_USAGE_WIDTH, sizeof *all);
    if (all == NULL) {
        return no_memory();
    }
    rbt_status st = rbt_replica_get_usage(worker, &usage, all);
    if (st == RBT_OK) {
        st = open_replicas(linear, worker, w, all);
    }
    rbt_free(all);
    if (st == RBT_OK && linear->config.is_rebalanced) {
        const uint64_t n = linear->examples.count;
        const struct rbt_piece own = {n * index / linear->worker_count,
                                      n * (index + UINT64_C(1)) / linear->worker_count};
        st = rbt_rebalance_begin(&linear->rebalance, worker, own, &w->hand);
    }
    st = st != RBT_OK ? st : rbt_linear_stream_keep(linear, w);
    if (st == RBT_OK && index == 0) {
        st = count_parameters(linear, worker, parameters);
    }
    return st;
}

void rbt_linear_end(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    rbt_rebalance_end(&w->hand);
    rbt_replica_close(&w->bias);
    rbt_replica_close(&w->weights);
}

rbt_status rbt_linear_whole_take(struct rbt_linear_job *linear)
{
    struct rbt_linear_whole *whole = &linear->whole;
    const rbt_status st = rbt_share_take(&linear->examples, linear->seed, 0, 1, &whole->share);
    if (st != RBT_OK) {
        return st;
    }
    whole->usage = count_usage(&whole->share, NULL);
    return whole->usage == NULL ? no_memory() : RBT_OK;
}

void rbt_linear_whole_free(struct rbt_linear_whole *whole)
{
    rbt_free(whole->usage);
    whole->usage = NULL;
    rbt_share_free(&whole->share);
}

/* The examples of a hand, as if they were all there are. `examples` is empty at first, and the
 * caller's to free. */
static rbt_status copy_hand(const struct rbt_share *whole, const struct rbt_hand *hand,
                            struct rbt_examples *examples)
{
    uint64_t count = 0;
    uint64_t nonzeros = 0;
    for (size_t i = 0; i < hand->piece_count; i++) {
        const struct rbt_piece piece = hand->pieces[i];
        count += piece.end - piece.first;
        nonzeros += whole->offsets[piece.end] - whole->offsets[piece.first];
    }
    examples->offsets = rbt_calloc(count + 1, sizeof *examples->offsets);
    examples->labels = rbt_calloc(count, sizeof *examples->labels);
    examples->keys = rbt_calloc(nonzeros, sizeof *examples->keys);
    examples->values = rbt_calloc(nonzeros, sizeof *examples->values);
    if (examples->offsets == NULL || examples->labels == NULL || examples->keys == NULL ||
        examples->values == NULL) {
        return no_memory();
    }
    uint64_t next = 0;
    for (size_t i = 0; i < hand->piece_count; i++) {
        for (uint64_t from = hand->pieces[i].first; from < hand->pieces[i].end; from++) {
            for (uint64_t k = whole->offsets[from]; k < whole->offsets[from + 1]; k++) {
                examples->keys[next] = whole->keys[whole->indices[k]];
                examples->values[next++] = whole->values[k];
            }
            examples->labels[examples->count++] = whole->labels[from];
            examples->offsets[examples->count] = next;
        }
    }
    return RBT_OK;
}

/* A share of what is in the worker's hand, instead of the one that it had. */
static rbt_status take_hand(const struct rbt_linear_job *linear, struct rbt_linear_worker *w)
{
    struct rbt_examples examples = {0};
    rbt_linear_part_free(w);
    rbt_status st = copy_hand(&linear->whole.share, &w->hand, &examples);
    if (st == RBT_OK) {
        st = rbt_share_take(&examples, linear->seed, 0, 1, &w->share);
    }
    rbt_examples_free(&examples);
    return st != RBT_OK ? st : rbt_linear_part_room(linear, w);
}

rbt_status rbt_linear_part_trade(struct rbt_linear_job *linear, rbt_worker *worker)
{
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const struct rbt_linear_whole *whole = &linear->whole;
    bool has_changed = false;
    rbt_status st = rbt_rebalance_step(&linear->rebalance, worker, &w->hand, &has_changed);
    if (st != RBT_OK || !has_changed) {
        return st;
    }
    rbt_replica_close(&w->bias);
    rbt_replica_close(&w->weights);
    st = take_hand(linear, w);
    double *all = rbt_calloc(w->share.key_count * RBT_USAGE_WIDTH, sizeof *all);
    if (st == RBT_OK && all == NULL) {
        st = no_memory();
    }
    if (st == RBT_OK) {
        size_t at = 0; /* both lists of keys increase, and the whole has them all */
        for (size_t j = 0; j < w->share.key_count; j++) {
            while (whole->share.keys[at] != w->share.keys[j]) {
                at++;
            }
            memcpy(all + j * RBT_USAGE_WIDTH, whole->usage + at * RBT_USAGE_WIDTH,
                   RBT_USAGE_WIDTH * sizeof *all);
        }
        st = open_replicas(linear, worker, w, all);
    }
    rbt_free(all);
    return st;
}
