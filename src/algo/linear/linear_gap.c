/* algo/linear/linear_gap.c - see linear_gap.h. */
#include "algo/linear/linear_gap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/linear/linear_solvers.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/loss.h"

enum { PASSES = 8 }; /* from one check to the next */

/* What the next clock does of a check; a clock begins it. */
enum { REST, DUAL, SCALES, CONJUGATES, VERDICT };

/* Elements of the only row of the sums. */
enum { LOSS, SLOPE, BEND, PENALTY, SCALE, CONJUGATE = SCALE + RBT_LINEAR_GAP_TRIES };
enum { WIDTH = CONJUGATE + RBT_LINEAR_GAP_TRIES };

/* A training is over when its objective is no more than this part above the minimum; or when what
 * further passes would gain, by what the last ones have, is less than the second part, twice. Gains
 * below the third are rounding. */
static const double tolerance = 1e-4;
static const double rest_tolerance = 3e-6;
static const double rounding = 1e-9;

static const double ns_per_nonzero = 2.0;
static const double ns_per_example = 20.0;

static const uint64_t only_key = 0;

void rbt_linear_gap_init(struct rbt_linear_gap *gap, struct rbt_train_options *options)
{
    *gap = (struct rbt_linear_gap){.options = options,
                                   .bound = -(double)INFINITY,
                                   .rests = {(double)INFINITY, (double)INFINITY}};
}

void rbt_linear_gap_settle(struct rbt_linear_gap *gap, const struct rbt_training *training)
{
    gap->epochs = training->epochs;
    gap->clocks_per_epoch = training->clocks_per_epoch;
}

rbt_status rbt_linear_gap_open(const struct rbt_linear_job *linear, struct rbt_linear_gap *gap,
                               rbt_job *job)
{
    const struct rbt_examples *examples = &linear->examples;
    const struct rbt_table_options sums = {
        .struct_size = sizeof sums, .type = RBT_F64, .width = WIDTH, .consistency = "bsp"};
    struct rbt_table_options dual = {
        .struct_size = sizeof dual, .type = RBT_F64, .consistency = "bsp"};
    rbt_training_place(linear->options, examples->keys, examples->offsets[examples->count], &dual);
    const rbt_status st = rbt_table_open(job, "gap", &sums, &gap->sums);
    return st != RBT_OK ? st : rbt_table_open(job, "dual", &dual, &gap->dual);
}

rbt_status rbt_linear_gap_ready(struct rbt_linear_gap *gap, struct rbt_linear_gap_part *part,
                                rbt_worker *worker, const struct rbt_share *share)
{
    *part = (struct rbt_linear_gap_part){.gap = gap, .share = share, .end = share->count};
    part->slopes = rbt_calloc(share->count, sizeof *part->slopes);
    if (rbt_worker_index(worker) == 0) {
        gap->has_root = true;
    }
    return part->slopes != NULL ? RBT_OK
                                : rbt_fail(RBT_E_NOMEM, "no memory for a bound of the objective");
}

void rbt_linear_gap_end(struct rbt_linear_gap_part *part)
{
    rbt_free(part->slopes);
    part->slopes = NULL;
}

bool rbt_linear_gap_is_due(const struct rbt_linear_job *linear, struct rbt_linear_gap_part *part,
                           const struct rbt_training_chunk *chunk)
{
    const struct rbt_linear_gap *gap = part->gap;
    /* The last check must be over before the training is. */
    const int64_t rest = (VERDICT + gap->clocks_per_epoch - 1) / gap->clocks_per_epoch;
    const bool is_last = chunk->epoch + 1 + rest == gap->epochs;
    const bool is_free = rbt_linear_gap_is_known(linear) && part->phase == REST;
    if (!is_free || chunk->index + 1 != chunk->count) {
        return false;
    }
    part->is_regular = (chunk->epoch + 1) % PASSES == 0;
    return part->is_regular || is_last;
}

/* The second derivative of an example's loss, which its slope tells. */
static double bend_of(const struct rbt_linear_job *linear, double slope)
{
    return linear->config.loss == RBT_LOSS_SQUARED ? 1.0 : fabs(slope) * (1.0 - fabs(slope));
}

rbt_status rbt_linear_gap_begin(const struct rbt_linear_job *linear,
                                struct rbt_linear_gap_part *part, rbt_worker *worker, double loss,
                                double penalty)
{
    double sums[WIDTH] = {[LOSS] = loss, [PENALTY] = penalty};
    for (size_t i = part->first; i < part->end; i++) {
        sums[SLOPE] += part->slopes[i];
        sums[BEND] += bend_of(linear, part->slopes[i]);
    }
    part->phase = DUAL;
    rbt_worker_spend(worker, 1e-9 * ns_per_example * (double)(part->end - part->first));
    return rbt_add(worker, part->gap->sums, only_key, sums);
}

/* Slopes with the sum 0, and what they make of the worker's features. */
static rbt_status push_dual(const struct rbt_linear_job *linear, struct rbt_linear_gap_part *part,
                            rbt_worker *worker)
{
    const struct rbt_linear_gap *gap = part->gap;
    const struct rbt_share *share = part->share;
    const double n = (double)linear->examples.count;
    double sums[WIDTH];
    const rbt_status st = rbt_get(worker, gap->sums, only_key, sums);
    if (st != RBT_OK) {
        return st;
    }
    double *z = rbt_calloc(share->key_count, sizeof *z);
    if (z == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a bound of the objective");
    }
    part->shift = linear->config.has_bias && sums[BEND] > 0.0 ? sums[SLOPE] / sums[BEND] : 0.0;
    for (size_t i = 0; i < share->count; i++) {
        part->slopes[i] -= part->shift * bend_of(linear, part->slopes[i]);
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            z[share->indices[k]] += part->slopes[i] * (double)share->values[k];
        }
    }
    for (size_t j = 0; j < share->key_count; j++) {
        z[j] /= n;
    }
    rbt_worker_spend(worker, 1e-9 * (ns_per_nonzero * (double)share->offsets[share->count] +
                                     ns_per_example * (double)share->count));
    const struct rbt_rows rows = {.keys = share->keys, .values = z, .count = share->key_count};
    const rbt_status pushed = rbt_push(worker, gap->dual, &rows);
    rbt_free(z);
    return pushed;
}

/* Worker 0: reads z, and takes it out of the table: x - x is 0. Says what s may be. */
static rbt_status choose_scales(const struct rbt_linear_job *linear, struct rbt_linear_gap *gap,
                                rbt_worker *worker)
{
    const double l1 = linear->config.l1;
    const double l2 = linear->config.l2;
    struct rbt_rows all = {0};
    rbt_status st = rbt_pull_range(worker, gap->dual, RBT_RANGE_ALL, 0, &all);
    if (st != RBT_OK) {
        return st;
    }
    double *z = all.values;
    double peak = 0.0;
    for (size_t j = 0; j < all.count; j++) {
        peak = fmax(peak, fabs(z[j]));
    }
    double sums[WIDTH] = {0};
    double *scales = sums + SCALE;
    scales[0] = peak > l1 ? l1 / peak : 1.0;
    scales[1] = l2 > 0.0 ? 1.0 : scales[0];
    for (int t = 0; t < RBT_LINEAR_GAP_TRIES; t++) {
        double squares = 0.0;
        for (size_t j = 0; l2 > 0.0 && j < all.count; j++) {
            const double more = fmax(scales[t] * fabs(z[j]) - l1, 0.0);
            squares += more * more;
        }
        gap->penalties[t] = l2 > 0.0 ? squares / (2.0 * l2) : 0.0;
    }
    for (size_t j = 0; j < all.count; j++) {
        z[j] = -z[j];
    }
    st = rbt_push(worker, gap->dual, &all);
    rbt_rows_free(&all);
    return st != RBT_OK ? st : rbt_add(worker, gap->sums, only_key, sums);
}

/* loss*(u). */
static double conjugate(const struct rbt_linear_job *linear, double u, double y)
{
    if (linear->config.loss == RBT_LOSS_SQUARED) {
        return u * u / 2 + u * y;
    }
    const double a = -u * y;
    return (a > 0.0 ? a * log(a) : 0.0) + (a < 1.0 ? (1.0 - a) * log1p(-a) : 0.0);
}

static rbt_status add_conjugates(const struct rbt_linear_job *linear,
                                 const struct rbt_linear_gap_part *part, rbt_worker *worker)
{
    const struct rbt_linear_gap *gap = part->gap;
    double sums[WIDTH];
    double more[WIDTH] = {0};
    const rbt_status st = rbt_get(worker, gap->sums, only_key, sums);
    if (st != RBT_OK) {
        return st;
    }
    for (int t = 0; t < RBT_LINEAR_GAP_TRIES; t++) {
        for (size_t i = part->first; i < part->end; i++) {
            more[CONJUGATE + t] += conjugate(linear, sums[SCALE + t] * part->slopes[i],
                                             (double)part->share->labels[i]);
        }
    }
    rbt_worker_spend(worker, 1e-9 * ns_per_example * RBT_LINEAR_GAP_TRIES *
                                 (double)(part->end - part->first));
    return rbt_add(worker, gap->sums, only_key, more);
}

/* Worker 0, with the objective at equal distances: gains that fall by the factor r from one to the
 * next leave g r / (1 - r). */
static void note_rest(struct rbt_linear_gap *gap, double value)
{
    const double gain = gap->values[0] - value;
    const double before = gap->values[1] - gap->values[0];
    const double part = gain < before ? gain / (before - gain) : (double)INFINITY;
    gap->rests[1] = gap->rests[0];
    gap->rests[0] = (double)INFINITY;
    if (gap->checks >= 2) {
        gap->rests[0] = gain <= rounding * fabs(value) ? 0.0 : gain * part / fabs(value);
    }
    gap->values[1] = gap->values[0];
    gap->values[0] = value;
    gap->checks++;
}

static bool is_over(const struct rbt_linear_gap *gap, double value)
{
    return value - gap->bound <= tolerance * fabs(value) ||
           fmax(gap->rests[0], gap->rests[1]) <= rest_tolerance;
}

/* Worker 0: what the check has found, which then leaves nothing in the tables. */
static rbt_status judge(const struct rbt_linear_job *linear, const struct rbt_linear_gap_part *part,
                        rbt_worker *worker)
{
    struct rbt_linear_gap *gap = part->gap;
    const double n = (double)linear->examples.count;
    double sums[WIDTH];
    const rbt_status st = rbt_get(worker, gap->sums, only_key, sums);
    if (st != RBT_OK) {
        return st;
    }
    /* With a larger shift some a is not between 0 and 1, and there is no bound. */
    const bool is_sound = linear->config.loss == RBT_LOSS_SQUARED || fabs(part->shift) <= 1.0;
    for (int t = 0; is_sound && t < RBT_LINEAR_GAP_TRIES; t++) {
        gap->bound = fmax(gap->bound, -sums[CONJUGATE + t] / n - gap->penalties[t]);
    }
    const double value = sums[LOSS] / n + sums[PENALTY];
    if (part->is_regular) {
        note_rest(gap, value);
    }
    if (rbt_linear_is_watched(linear) && is_over(gap, value)) {
        gap->options->target = (double)INFINITY; /* the next pass is the last */
    }
    for (int k = 0; k < WIDTH; k++) {
        sums[k] = -sums[k];
    }
    return rbt_add(worker, gap->sums, only_key, sums);
}

rbt_status rbt_linear_gap_step(const struct rbt_linear_job *linear,
                               struct rbt_linear_gap_part *part, rbt_worker *worker)
{
    const bool is_root = rbt_worker_index(worker) == 0;
    switch (part->phase) {
    case REST:
        return RBT_OK;
    case DUAL:
        part->phase = SCALES;
        return push_dual(linear, part, worker);
    case SCALES:
        part->phase = CONJUGATES;
        return is_root ? choose_scales(linear, part->gap, worker) : RBT_OK;
    case CONJUGATES:
        part->phase = VERDICT;
        return add_conjugates(linear, part, worker);
    default:
        part->phase = REST;
        return is_root ? judge(linear, part, worker) : RBT_OK;
    }
}

void rbt_linear_gap_note(const struct rbt_linear_job *linear, const struct rbt_linear_gap *gap,
                         struct rbt_train_summary *summary)
{
    const double missing = (summary->objective - gap->bound) / fabs(summary->objective);
    const bool is_by_target = isfinite(gap->options->target) || gap->options->patience > 0;
    if (!gap->has_root || is_by_target || !rbt_linear_gap_is_known(linear) ||
        summary->is_interrupted || is_over(gap, summary->objective)) {
        return;
    }
    if (isinf(missing)) {
        snprintf(summary->unconverged, sizeof summary->unconverged,
                 "the distance to the minimum is unknown after so few passes; use more --epochs");
        return;
    }
    snprintf(summary->unconverged, sizeof summary->unconverged,
             "the objective may be up to %.2g%% above the minimum; give it more --epochs",
             100.0 * missing);
}
