/* algo/linear/linear_assign.c - linear models whose examples go to whoever is idle (--assign
 * dynamic).
 *
 * Part i of P is the examples n i/P .. n (i+1)/P - 1 of the random order that all agree on, and a
 * clock has its own parts of the pass (assign.h). Any worker may get any part. So every process
 * holds all examples, scaled once for all its workers, and every worker a copy of all weights.
 *
 * How a worker's move counts (replica.h) is only known when the clock ends: feature j's with the
 * rate n_pj / (n_j / C), n_pj being how often the parts of this clock have used it, n_j how often a
 * pass does, and C the clocks of a pass; with one clock that is what shares have, and with more it
 * is right on average. It is at most 1.
 *
 * What is regularised follows the same thought. With q_j = 1 - exp(-n_j / (C P)), P now being the
 * number of workers, the chance that a worker meets feature j in a clock, its penalty is divided by
 * q_j, since moves of clocks without it do not count. */
#include <math.h>
#include <string.h>

#include "algo/linear/linear_job.h"
#include "algo/linear/linear_stream.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { PARTS_PER_CLOCK = 8 }; /* for each worker */
enum { PARTS_MAX = 1000000 };

static const uint64_t bias_key = 0;

/* What a worker has besides its struct rbt_linear_worker. */
struct hand {
    struct rbt_assign_turn turn;
    float *counts;     /* n_pj of this clock: (key_count) */
    uint64_t examples; /* of this clock */
};

struct rbt_linear_assign {
    struct rbt_assign assign;
    int64_t epochs;
    float *values;    /* of the whole's share, scaled */
    float *step_max;  /* (examples) */
    float *scales;    /* r: (key_count) */
    double step_unit; /* 1 / (L R) */
    struct hand *hands;
};

rbt_status rbt_linear_assign_check(const struct rbt_linear_job *linear)
{
    const struct rbt_linear_config *config = &linear->config;
    if (config->assign == RBT_ASSIGN_STATIC) {
        const rbt_status st =
            config->parts == 0
                ? RBT_OK
                : rbt_fail(RBT_E_INVALID, "option \"--parts\" needs \"--assign dynamic\"");
        return st;
    }
    const char *what = strcmp(linear->solver->name, "sgd") != 0 ? "--solver"
                       : rbt_linear_is_streamed(linear)         ? "--storage and --memory-limit"
                       : config->is_rebalanced                  ? "--rebalance"
                       : linear->is_managed                     ? "--bandwidth"
                                                                : NULL;
    if (what != NULL) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "option \"--assign dynamic\" excludes \"%s\"", what);
        return rbt_fail_hint(
            st, "Dynamic assignment works with --solver sgd and all examples in memory.");
    }
    return RBT_OK;
}

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for examples that any worker may get");
}

/* Scales, the examples with them, and their steps; the same for all workers. */
static void scale(const struct rbt_linear_job *linear, struct rbt_linear_assign *assign)
{
    const struct rbt_linear_whole *whole = &linear->whole;
    const double n = (double)linear->examples.count;
    const bool is_scaled = linear->config.scale == RBT_SCALE_FEATURES;
    for (size_t j = 0; j < whole->share.key_count; j++) {
        const double mean_square = whole->usage[j * RBT_USAGE_WIDTH + RBT_USAGE_SQUARES] / n;
        assign->scales[j] = is_scaled && mean_square > 0 ? (float)pow(mean_square, -0.25) : 1.0F;
    }
    memcpy(assign->values, whole->share.values,
           whole->share.offsets[whole->share.count] * sizeof *assign->values);
    assign->step_unit = 1.0;
    if (is_scaled) {
        struct rbt_linear_worker all = {
            .share = whole->share, .scales = assign->scales, .step_max = assign->step_max};
        all.share.values = assign->values;
        rbt_linear_part_scale(linear, &all);
        assign->step_unit = all.step_unit;
    }
}

rbt_status rbt_linear_assign_settle(struct rbt_linear_job *linear, int64_t epochs)
{
    const struct rbt_share *share = &linear->whole.share;
    struct rbt_linear_assign *assign = rbt_calloc(1, sizeof *assign);
    if (assign == NULL) {
        return no_memory();
    }
    linear->assign = assign;
    const double usual =
        (double)PARTS_PER_CLOCK * (double)linear->worker_count * (double)linear->clocks_per_epoch;
    const double wanted = linear->config.parts > 0 ? (double)linear->config.parts : usual;
    const double most = fmin((double)share->count, PARTS_MAX);
    assign->epochs = epochs;
    assign->assign.options =
        (struct rbt_assign_options){.parts = (uint32_t)fmin(wanted, most),
                                    .workers = linear->worker_count,
                                    .is_simulated = linear->options->simulation != NULL};
    assign->values = rbt_calloc((size_t)share->offsets[share->count], sizeof *assign->values);
    assign->step_max = rbt_calloc(share->count, sizeof *assign->step_max);
    assign->scales = rbt_calloc(share->key_count, sizeof *assign->scales);
    assign->hands = rbt_calloc(linear->worker_count, sizeof *assign->hands);
    if (assign->values == NULL || assign->step_max == NULL || assign->scales == NULL ||
        assign->hands == NULL) {
        return no_memory();
    }
    scale(linear, assign);
    return RBT_OK;
}

void rbt_linear_assign_free(struct rbt_linear_job *linear)
{
    struct rbt_linear_assign *assign = linear->assign;
    if (assign == NULL) {
        return;
    }
    for (uint32_t p = 0; assign->hands != NULL && p < linear->worker_count; p++) {
        rbt_free(assign->hands[p].counts);
    }
    rbt_free(assign->hands);
    rbt_free(assign->scales);
    rbt_free(assign->step_max);
    rbt_free(assign->values);
    rbt_free(assign);
    linear->assign = NULL;
}

static rbt_status open(void *context, rbt_job *job)
{
    struct rbt_linear_job *linear = context;
    struct rbt_assign *assign = &linear->assign->assign;
    const struct rbt_assign_options options = assign->options;
    const rbt_status st = rbt_linear_open(context, job);
    return st != RBT_OK ? st : rbt_assign_open(assign, &options, job);
}

static rbt_status begin(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    const struct rbt_linear_assign *assign = linear->assign;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    struct hand *hand = &linear->assign->hands[rbt_worker_index(worker)];
    w->is_borrowed = true;
    w->share = linear->whole.share;
    w->share.values = assign->values;
    w->step_max = assign->step_max;
    hand->counts = rbt_calloc(w->share.key_count, sizeof *hand->counts);
    return hand->counts == NULL ? no_memory() : rbt_linear_part_room(linear, w);
}

static rbt_status ready(void *context, rbt_worker *worker, uint64_t *parameters)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const double workers = (double)linear->worker_count;
    const double clocks = (double)linear->clocks_per_epoch;
    const bool is_mean = linear->config.combine == RBT_COMBINE_MEAN;
    for (size_t j = 0; j < w->share.key_count; j++) {
        const double count = linear->whole.usage[j * RBT_USAGE_WIDTH + RBT_USAGE_COUNT];
        const double chance = is_mean ? -expm1(-count / (clocks * workers)) : 1.0;
        w->scales[j] = linear->assign->scales[j];
        w->shares[j] = (float)(1.0 / workers);
        w->pulls[j] = w->scales[j] / (float)chance;
        w->decays[j] = w->scales[j] / sqrtf((float)chance);
    }
    w->step_unit = linear->assign->step_unit;
    rbt_linear_part_sweep(linear, w);
    *parameters = (w->share.key_count + (linear->config.has_bias ? 1 : 0)) * linear->width;
    const struct rbt_replica_rows weights = {linear->weights, w->share.keys, w->share.key_count};
    const struct rbt_replica_rows bias = {linear->bias, &bias_key, 1};
    rbt_status st = rbt_replica_open(worker, &weights, &w->weights);
    if (st == RBT_OK) {
        st = rbt_replica_open(worker, &bias, &w->bias);
    }
    const bool has_scales =
        linear->config.scale == RBT_SCALE_FEATURES || !linear->rules.has_gradients;
    return st != RBT_OK ? st : rbt_replica_tune(&w->weights, NULL, has_scales ? w->scales : NULL);
}

/* Counts which features the examples use. */
static void count_used(const struct rbt_share *share, const struct rbt_piece *piece,
                       struct hand *hand)
{
    for (uint64_t k = share->offsets[piece->first]; k < share->offsets[piece->end]; k++) {
        hand->counts[share->indices[k]] += 1.0F;
    }
    hand->examples += piece->end - piece->first;
}

/* What the moves of this clock count, and makes ready for the next one's. */
static void weigh(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                  struct hand *hand)
{
    const float clocks = (float)linear->clocks_per_epoch;
    const float n = (float)linear->examples.count;
    for (size_t j = 0; j < w->share.key_count; j++) {
        const float all = (float)linear->whole.usage[j * RBT_USAGE_WIDTH + RBT_USAGE_COUNT];
        w->weights.rates[j] = w->scales[j] * fminf(1.0F, hand->counts[j] * clocks / all);
        hand->counts[j] = 0.0F;
    }
    w->bias.rates[0] = fminf(1.0F, (float)hand->examples * clocks / n);
    hand->examples = 0;
}

/* Part after part, until all of the clock have been dealt. */
static rbt_status work_through(const struct rbt_linear_job *linear, rbt_worker *worker,
                               int64_t epoch, struct rbt_training_figures *figures)
{
    const struct rbt_assign *assign = &linear->assign->assign;
    const struct rbt_share *share = &linear->whole.share;
    struct hand *hand = &linear->assign->hands[rbt_worker_index(worker)];
    struct rbt_assign_turn *turn = &hand->turn;
    const bool is_mean = linear->config.combine == RBT_COMBINE_MEAN;
    const uint64_t n = share->count;
    const uint64_t parts = assign->options.parts;
    rbt_status st = rbt_assign_next(assign, worker, turn);
    while (st == RBT_OK && turn->has_part) {
        const struct rbt_piece piece = {n * turn->part / parts, n * (turn->part + 1) / parts};
        double loss = 0.0;
        st = rbt_linear_walk(linear, worker, &piece, epoch, &loss);
        if (is_mean) {
            count_used(share, &piece, hand);
        }
        st = st != RBT_OK ? st : rbt_assign_next(assign, worker, turn);
        if (st == RBT_OK && turn->is_first) {
            figures->loss += loss;
            figures->count += piece.end - piece.first;
        }
    }
    return st;
}

static rbt_status work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct rbt_linear_job *linear = context;
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    struct hand *hand = &linear->assign->hands[rbt_worker_index(worker)];
    const int64_t parts = linear->assign->assign.options.parts;
    rbt_status st = rbt_replica_pull(&w->weights);
    if (st == RBT_OK) {
        st = rbt_replica_pull(&w->bias);
    }
    if (st != RBT_OK) {
        return st;
    }
    const bool is_end = chunk->index + 1 == chunk->count;
    RBT_ASSERT(!hand->turn.has_part);
    hand->turn.pass = (uint64_t)chunk->epoch;
    hand->turn.limit = (uint32_t)(parts * (chunk->index + 1) / chunk->count);
    hand->turn.is_last = is_end && chunk->epoch + 1 == linear->assign->epochs;
    st = work_through(linear, worker, chunk->epoch, figures);
    if (st == RBT_OK) {
        rbt_linear_walk_end(linear, worker);
    }
    if (st == RBT_OK && !linear->rules.has_gradients &&
        linear->config.combine == RBT_COMBINE_MEAN) {
        weigh(linear, w, hand);
    }
    return st;
}

static void end(void *context, rbt_worker *worker)
{
    struct rbt_linear_job *linear = context;
    struct rbt_assign *assign = &linear->assign->assign;
    if (rbt_worker_index(worker) == 0 && assign->table != NULL) {
        const rbt_status st = rbt_assign_count(assign, worker);
        (void)st; /* only figures are missing then */
    }
    rbt_linear_end(context, worker);
}

void rbt_linear_assign_take(struct rbt_training_task *task)
{
    task->open = open;
    task->begin = begin;
    task->ready = ready;
    task->work = work;
    task->end = end;
}

void rbt_linear_assign_summarise(const struct rbt_linear_job *linear,
                                 struct rbt_train_summary *summary)
{
    const struct rbt_assign *assign = &linear->assign->assign;
    summary->parts_returned = assign->returned;
    summary->worker_count = linear->worker_count;
    for (uint32_t p = 0; p < linear->worker_count && p < RBT_JOB_WORKERS_MAX; p++) {
        summary->worker_parts[p] = assign->finished[p];
    }
}
