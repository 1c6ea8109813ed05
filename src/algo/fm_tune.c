/* algo/fm_tune.c - how strongly embeddings are shrunk, found out on the way.
 *
 * No one number fits: where pairs of features mean nothing every embedding is noise, and what stops
 * the noise there stops everything where they mean much. So, if nobody says --l2-v, workers keep
 * the last examples of every chunk back. With the margin m + p, where p is what the pairs say, the
 * slope of the held-out loss by the size of p is
 *
 *     G = sum of loss'(m + p) p,       z = G / sqrt(sum of (loss'(m + p) p)^2)
 *
 * and z is about normal with variance 1 if p is neither too large nor too small. If G > 0 the loss
 * would fall if embeddings were smaller: log l2_v moves by a part of z. It is the one row of a
 * table, to which all workers add theirs, so that they have the same. In the last passes the
 * examples that were kept back are trained on as well, and l2_v stays.
 *
 * The idea of learning the penalty on held-out examples while training goes on is Rendle's
 * (Learning recommender systems with adaptive regularization, 2012). */
#include <math.h>

#include "algo/fm_job.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { HELD_OUT = 20 }; /* one of so many */

static const double tuned_part = 0.7; /* of all passes */
static const double gain = 0.1;
static const double z_max = 3;      /* larger ones count as this */
static const double factor_log = 8; /* the factor is at most exp of it, and at least 1 / that */

size_t rbt_fm_tune_held_out(const struct rbt_fm_job *fm, const struct rbt_training_chunk *chunk,
                            size_t count)
{
    const bool is_early = (double)chunk->epoch < tuned_part * (double)fm->epochs;
    return fm->is_tuned && is_early ? count / HELD_OUT : 0;
}

double rbt_fm_tune_factor(double row)
{
    return exp(fmax(-factor_log, fmin(factor_log, row)));
}

/* z of the examples of the run with these margins. */
static double slope_of(const struct rbt_fm_run *run, const float *margins)
{
    double sum = 0.0;
    double squares = 0.0;
    for (size_t i = run->begin; i < run->end; i++) {
        const double margin = (double)margins[i - run->begin];
        double pairs = margin - (double)run->bias;
        for (uint64_t k = run->offsets[i]; k < run->offsets[i + 1]; k++) {
            pairs -= (double)run->weights[run->indices[k]] * (double)run->values[k];
        }
        const double term = pairs * rbt_loss_at(run->loss, margin, (double)run->labels[i]).slope;
        sum += term;
        squares += term * term;
    }
    return squares > 0 ? sum / sqrt(squares) : 0.0;
}

rbt_status rbt_fm_tune_measure(const struct rbt_fm_job *fm, struct rbt_fm_worker *w,
                               const struct rbt_fm_run *run)
{
    RBT_ASSERT(run->begin < run->end);
    const size_t count = run->end - run->begin;
    float *margins = rbt_calloc(count, sizeof *margins);
    if (margins == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the margins of %zu examples", count);
    }
    rbt_choose_kernels()->fm_margins(run, margins);
    const double workers = (double)fm->worker_count;
    /* What z would be of the examples of all workers; of which the mean is moved by. */
    const double z = slope_of(run, margins) * sqrt(workers);
    w->tuning.values[0] += (float)(gain * fmax(-z_max, fmin(z_max, z)) / workers);
    rbt_free(margins);
    return RBT_OK;
}
