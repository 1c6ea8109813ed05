/* algo/fm/fm_step.c - what a worker does in a clock: gradients of a minibatch for the servers'
 * rules, or steps on a copy of its own. */
#include <math.h>

#include "algo/fm/fm_job.h"
#include "base/assert.h"
#include "base/error.h"

/* Measured by differences of processor time on one of two cores of a busy Intel Xeon, with one
 * worker in this process. An element of a row is pulled and pushed once per clock; in this process
 * that includes what a server does. Gradients are taken to cost the same. */
const struct rbt_algo_cost rbt_fm_costs[RBT_FM_COSTS] = {
    [RBT_FM_NONZERO] = {"nonzero", 12.0},
    [RBT_FM_NONZERO_RANK] = {"nonzero_rank", 1.0},
    [RBT_FM_EXAMPLE] = {"example", 60.0},
    [RBT_FM_ELEMENT] = {"element", 20.0},
};

/* By how much of itself the step size of embeddings falls until the end: long steps first, since
 * embeddings begin near zero, and short ones later, so that they come to rest. */
static const double lr_v_fall = 0.9;

static const float strong = 10.0F; /* a penalty that may leave nothing */
static const float tiny = 1e-12F;  /* an element that says nothing */

double rbt_fm_chance(double occurrences, double examples, double batch)
{
    RBT_ASSERT(examples > 0);
    const double share = fmin(occurrences / examples, 1.0);
    return share >= 1.0 ? 1.0 : -expm1(batch * log1p(-share));
}

double rbt_fm_shrinks(const struct rbt_fm_job *fm, double occurrences)
{
    const double n = (double)fm->examples.count;
    const double batches = fm->rules.has_gradients
                               ? (double)fm->clocks_per_epoch * (double)fm->worker_count
                               : RBT_FM_BATCHES;
    const double batch = fmax(1.0, n / batches);
    return rbt_fm_chance(occurrences, n, batch) / batch;
}

/* Where the worker's copy of w was moved by others, z must fit it again, since FTRL's state and
 * its weight say the same: w = (z - sign(z) l1) / ((beta + root) / lr + l2), with the penalties
 * that the worker's last step of w had. Where it is zero, |z| is at most l1, and what the worker
 * itself has seen is the best guess. */
static float fit(const struct rbt_fm_steps *steps, struct rbt_fm_paid paid, float w, float z,
                 float root)
{
    if (w == 0.0F) {
        return fminf(fmaxf(z, -paid.l1), paid.l1);
    }
    return w * ((steps->beta + root) / steps->lr + paid.l2) + copysignf(paid.l1, w);
}

/* Features of the run's examples have paid their shares of the penalties that are in force. What
 * others owe they pay with the next step. */
static void note_paid(struct rbt_fm_worker *w, const struct rbt_fm_run *run)
{
    for (uint64_t k = run->offsets[run->begin]; k < run->offsets[run->end]; k++) {
        const uint32_t j = run->indices[k];
        w->paid[j].l1 = w->shares[j] * w->steps.l1;
        w->paid[j].l2 = w->shares[j] * w->steps.l2;
    }
}

/* Where the penalty leaves nothing of embeddings they come near the smallest numbers that there
 * are, with which processors are many times slower: there they become zero. */
static void drop_tiny(struct rbt_fm_worker *w, float l2_v)
{
    const size_t count = l2_v >= strong ? w->embedded_count * w->embeddings.width : 0;
    float *v = w->embeddings.values;
    for (size_t e = 0; e < count; e++) {
        v[e] = fabsf(v[e]) < tiny ? 0.0F : v[e];
    }
}

/* Runs over the examples, step by step; the replicas move. Returns the sum of losses. The penalty
 * of so many passes stands against the gradients of as many; since the worker sees only its share
 * of a feature's examples, that share of it. */
static double follow(const struct rbt_fm_job *fm, rbt_worker *worker, struct rbt_fm_run *run,
                     double passes)
{
    struct rbt_fm_worker *w = &fm->workers[rbt_worker_index(worker)];
    struct rbt_fm_steps *steps = &w->steps;
    const struct rbt_fm_paid nothing = {0};
    const double weight_passes = passes + fm->start_passes;
    rbt_fm_combine_start(fm, w, passes - 1.0 / (double)fm->clocks_per_epoch);
    for (size_t j = 0; j < w->weights.count; j++) {
        steps->z[j] = fit(steps, w->paid[j], run->weights[j], steps->z[j], steps->root[j]);
    }
    steps->l1 = (float)(fm->config.l1 * weight_passes);
    steps->l2 = (float)(rbt_fm_tune_l2(fm, w->tuning.before) * weight_passes);
    const float l2_v = (float)rbt_fm_tune_l2_v(fm, w->tuning.before);
    for (size_t r = 0; r < w->embedded_count; r++) {
        w->l2_v[r] = l2_v * w->shrinks[r];
    }
    drop_tiny(w, l2_v);
    steps->lr_v = (float)(fm->config.lr_v * (1.0 - lr_v_fall * passes / (double)fm->epochs));
    steps->bias_z = fit(steps, nothing, run->bias, 0.0F, steps->bias_root);
    const double loss = rbt_choose_kernels()->fm_steps(run, steps);
    note_paid(w, run);
    const double count = fmax(1.0, (double)(run->end - run->begin));
    if (steps->has_bias) { /* else it was not pulled, and has no room */
        w->bias.values[0] = run->bias;
    }
    rbt_fm_combine_end(fm, w, rbt_job_staleness(rbt_worker_job(worker)), passes, 2 * loss / count);
    return loss;
}

/* Gathers the gradient at the values that were pulled. Returns the sum of losses. */
static double gather(const struct rbt_fm_job *fm, struct rbt_fm_worker *w,
                     const struct rbt_fm_run *run)
{
    struct rbt_fm_gradient gradient = {.factor = 1.0F,
                                       .weights = rbt_replica_gradient(&w->weights),
                                       .embeddings = rbt_replica_gradient(&w->embeddings)};
    const double loss = rbt_choose_kernels()->fm_gradient(run, &gradient);
    if (fm->config.has_bias) {
        rbt_replica_gradient(&w->bias)[0] = gradient.bias;
    }
    return loss;
}

static rbt_status pull(const struct rbt_fm_job *fm, struct rbt_fm_worker *w)
{
    rbt_status st = rbt_replica_pull(&w->weights);
    if (st == RBT_OK) {
        st = rbt_replica_pull(&w->embeddings);
    }
    if (st == RBT_OK && rbt_fm_is_tuned(fm)) {
        st = rbt_replica_pull(&w->tuning);
    }
    return st == RBT_OK && fm->config.has_bias ? rbt_replica_pull(&w->bias) : st;
}

/* The time that examples take, and elements that are pulled and pushed. */
static void spend(const struct rbt_fm_job *fm, rbt_worker *worker, const struct rbt_fm_run *run)
{
    const struct rbt_fm_worker *w = &fm->workers[rbt_worker_index(worker)];
    const double rank = (double)fm->config.rank;
    const double nonzeros = (double)(run->offsets[run->end] - run->offsets[run->begin]);
    const double elements = (double)w->weights.count + rank * (double)w->embeddings.count;
    rbt_worker_spend(worker,
                     1e-9 * (rbt_fm_costs[RBT_FM_NONZERO].ns * nonzeros +
                             rbt_fm_costs[RBT_FM_NONZERO_RANK].ns * nonzeros * rank +
                             rbt_fm_costs[RBT_FM_EXAMPLE].ns * (double)(run->end - run->begin) +
                             rbt_fm_costs[RBT_FM_ELEMENT].ns * elements));
}

void rbt_fm_spend(const struct rbt_fm_job *fm, rbt_worker *worker, const struct rbt_share *share)
{
    const double rank = (double)fm->config.rank;
    const double nonzeros = (double)share->offsets[share->count];
    rbt_worker_spend(worker, 1e-9 * (rbt_fm_costs[RBT_FM_NONZERO].ns * nonzeros +
                                     rbt_fm_costs[RBT_FM_NONZERO_RANK].ns * nonzeros * rank +
                                     rbt_fm_costs[RBT_FM_EXAMPLE].ns * (double)share->count));
}

rbt_status rbt_fm_work(void *context, rbt_worker *worker, const struct rbt_training_chunk *chunk,
                       struct rbt_training_figures *figures)
{
    struct rbt_fm_job *fm = context;
    struct rbt_fm_worker *w = &fm->workers[rbt_worker_index(worker)];
    const struct rbt_share *share = &w->share;
    rbt_status st = pull(fm, w);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_fm_chunk part = rbt_fm_part_chunk(w, chunk->index, chunk->count);
    const bool is_search = chunk->epoch < rbt_fm_tune_passes(fm->epochs);
    const size_t held_out = is_search ? part.held_out : 0;
    struct rbt_fm_run run = {.loss = fm->loss,
                             .offsets = share->offsets,
                             .labels = share->labels,
                             .indices = share->indices,
                             .values = share->values,
                             .begin = part.begin,
                             .end = part.end,
                             .rows = w->rows,
                             .rank = (size_t)fm->config.rank,
                             .is_shrunk = fm->config.is_shrunk,
                             .weights = w->weights.values,
                             .embeddings = w->embeddings.values,
                             .bias = fm->config.has_bias ? w->bias.values[0] : 0.0F,
                             .row_room = w->row_room,
                             .value_room = w->value_room,
                             .sum_room = w->sum_room};
    const double passes = (double)chunk->epoch + (double)(chunk->index + 1) / (double)chunk->count;
    if (rbt_worker_index(worker) == 0) {
        fm->passes = passes;
    }
    /* All count, so that everybody's figures are known to be there as soon as they are. */
    figures->count += run.end - run.begin;
    double held_out_loss = 0.0;
    spend(fm, worker, &run);
    if (held_out > 0) {
        struct rbt_fm_run rest = run;
        rest.begin = run.end - held_out;
        run.end = rest.begin;
        st = rbt_fm_tune_measure(fm, w, &rest, &held_out_loss);
    }
    const double loss =
        fm->rules.has_gradients ? gather(fm, w, &run) : follow(fm, worker, &run, passes);
    figures->loss += fm->scales.label_unit * fm->scales.label_unit * (loss + held_out_loss);
    if (st == RBT_OK && !isfinite(loss)) {
        st = rbt_fail(RBT_E_DATA, "training diverged in epoch %lld: the loss is %s",
                      (long long)chunk->epoch + 1, isnan(loss) ? "not a number" : "infinite");
        st = rbt_fail_hint(st, RBT_FM_DIVERGED_HINT);
    }
    return st;
}

rbt_status rbt_fm_push(void *context, rbt_worker *worker)
{
    struct rbt_fm_job *fm = context;
    struct rbt_fm_worker *w = &fm->workers[rbt_worker_index(worker)];
    rbt_status (*const send)(struct rbt_replica *) =
        fm->rules.has_gradients ? rbt_replica_push_gradient : rbt_replica_push;
    rbt_status st = send(&w->weights);
    if (st == RBT_OK) {
        st = send(&w->embeddings);
    }
    if (st == RBT_OK && rbt_fm_is_tuned(fm)) {
        st = rbt_replica_push(&w->tuning);
    }
    return st == RBT_OK && fm->config.has_bias ? send(&w->bias) : st;
}

/* Since the shares n_pj / n_j of a feature sum to 1, so do the workers' parts of its penalty. */
double rbt_fm_penalty(void *context, rbt_worker *worker)
{
    const struct rbt_fm_job *fm = context;
    const struct rbt_fm_worker *w = &fm->workers[rbt_worker_index(worker)];
    const size_t rank = (size_t)fm->config.rank;
    const float *row = w->tuning.before;
    double sizes = 0.0;
    double squares = 0.0;
    double embeddings = 0.0;
    for (size_t j = 0; j < w->weights.count; j++) {
        const double weight = (double)w->weights.values[j];
        const double share = (double)w->shares[j];
        sizes += share * fabs(weight);
        squares += share * weight * weight;
        if (w->rows[j] != RBT_FM_NONE && (weight != 0.0 || !fm->config.is_shrunk)) {
            const float *v = w->embeddings.values + (size_t)w->rows[j] * rank;
            embeddings += share * rbt_fm_shrinks(fm, w->occurrences[j]) *
                          rbt_choose_kernels()->norm2_squared(v, rank);
        }
    }
    const double penalty = (fm->config.l1 * sizes + rbt_fm_tune_l2(fm, row) / 2 * squares) /
                               (double)fm->examples.count +
                           rbt_fm_tune_l2_v(fm, row) / 2 * embeddings;
    return fm->scales.label_unit * fm->scales.label_unit * penalty;
}
