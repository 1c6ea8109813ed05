/* algo/fm/fm_tune.c - how strongly weights and embeddings are shrunk, found out on the way.
 *
 * No one number fits: where pairs of features mean nothing every embedding is noise, and what stops
 * the noise there stops everything where they mean much; and so with weights of rare features. So,
 * if nobody says --l2 or --l2-v, workers keep the last examples of every chunk back. With the
 * margin b + m + p, where m is what the weights say and p what the pairs say, the slope of the
 * held-out loss by the size of p is
 *
 *     G = sum of loss'(b + m + p) p,      z = G / sqrt(sum of the squares of its terms)
 *
 * and z is about normal with variance 1 if p is neither too large nor too small. If G > 0 the loss
 * would fall if embeddings were smaller: log l2_v moves by a part of z. The same with m and log l2.
 * Both are in the one row of a table, to which all workers add theirs, so that they have the same.
 * The squares are those of all workers in the clock that was seen last: a few examples divided by
 * the root of their own squares are no longer fair, since large terms of one sign count less than
 * many small ones of the other. In the last passes the examples that were kept back are trained on
 * as well, and penalties stay. These passes are few: steps of embeddings become shorter until the
 * end, and what long steps leave in them is noise, which asks for a larger penalty than what short
 * ones leave does (MovieLens 100K, two workers, six seeds: rmse 0.934 if the search ends after 0.7
 * of all passes, and 0.929 after 0.85).
 *
 * The idea of learning the penalty on held-out examples while training goes on is Rendle's
 * (Learning recommender systems with adaptive regularization, 2012). */
#include <math.h>
#include <string.h>

#include "algo/fm/fm_job.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { HELD_OUT = 20 }; /* one of so many */

static const double tuned_part = 0.85; /* of all passes */
static const double gain = 0.1;
static const double z_max = 3;      /* larger ones count as this */
static const double factor_log = 8; /* the factor is at most exp of it, and at least 1 / that */

size_t rbt_fm_tune_held_out(size_t count)
{
    return count / HELD_OUT;
}

int64_t rbt_fm_tune_passes(int64_t epochs)
{
    const int64_t passes = (int64_t)(tuned_part * (double)epochs); /* not the last one */
    return passes > 1 ? passes : 1;
}

static double factor_of(float row)
{
    return exp(fmax(-factor_log, fmin(factor_log, (double)row)));
}

double rbt_fm_tune_l2(const struct rbt_fm_job *fm, const float *row)
{
    return fm->config.l2 * (fm->is_l2_tuned ? factor_of(row[RBT_FM_TUNE_L2]) : 1.0);
}

double rbt_fm_tune_l2_v(const struct rbt_fm_job *fm, const float *row)
{
    return fm->config.l2_v * (fm->is_tuned ? factor_of(row[RBT_FM_TUNE_L2_V]) : 1.0);
}

/* What the model says about the examples of a run, each (count). */
struct sayings {
    float *margins;
    float *parts; /* of the margins: what the weights say, or the pairs */
};

/* Slope by the size of the parts, and the sum of the squares of its terms. */
struct slope {
    double sum;
    double squares;
};

static struct slope slope_of(const struct rbt_fm_run *run, const struct sayings *s)
{
    const size_t count = run->end - run->begin;
    struct slope slope = {0};
    for (size_t i = 0; i < count; i++) {
        const double label = (double)run->labels[run->begin + i];
        const double term =
            (double)s->parts[i] * rbt_loss_at(run->loss, (double)s->margins[i], label).slope;
        slope.sum += term;
        slope.squares += term * term;
    }
    return slope;
}

/* Adds what the slope says: `at` is the place of the penalty in the row, and behind it is that of
 * the squares. */
static void move(const struct rbt_fm_job *fm, struct rbt_fm_worker *w, const struct slope *slope,
                 size_t at, size_t count)
{
    const float *now = w->tuning.before;
    const double workers = (double)fm->movers;
    const double examples = (double)(now[RBT_FM_TUNE_COUNT] - w->tuned[RBT_FM_TUNE_COUNT]);
    const double squares = (double)(now[at + 1] - w->tuned[at + 1]);
    w->tuning.values[at + 1] += (float)slope->squares;
    if (examples > 0 && squares > 0) {
        /* Of the sum over all workers, to which each adds about 1 / sqrt(workers) by chance. If all
         * agree, in the beginning, the sum must not be many times what one worker may say: pairs
         * that were still noise have been shrunk to nothing so, for good. */
        const double z = slope->sum / sqrt(squares / examples * (double)count * workers);
        const double limit = z_max / sqrt(workers * sqrt(workers));
        w->tuning.values[at] += (float)(gain * fmax(-limit, fmin(limit, z)));
    }
}

static void measure(const struct rbt_fm_job *fm, struct rbt_fm_worker *w,
                    const struct rbt_fm_run *run, const struct sayings *s)
{
    const size_t count = run->end - run->begin;
    for (size_t i = 0; i < count; i++) {
        s->parts[i] = 0.0F;
        for (uint64_t k = run->offsets[run->begin + i]; k < run->offsets[run->begin + i + 1]; k++) {
            s->parts[i] += run->weights[run->indices[k]] * run->values[k];
        }
    }
    if (fm->is_l2_tuned) {
        const struct slope slope = slope_of(run, s);
        move(fm, w, &slope, RBT_FM_TUNE_L2, count);
    }
    for (size_t i = 0; i < count; i++) {
        s->parts[i] = s->margins[i] - run->bias - s->parts[i];
    }
    if (fm->is_tuned) {
        const struct slope slope = slope_of(run, s);
        move(fm, w, &slope, RBT_FM_TUNE_L2_V, count);
    }
    w->tuning.values[RBT_FM_TUNE_COUNT] += (float)count;
    memcpy(w->tuned, w->tuning.before, sizeof w->tuned);
}

rbt_status rbt_fm_tune_measure(const struct rbt_fm_job *fm, struct rbt_fm_worker *w,
                               const struct rbt_fm_run *run, double *loss)
{
    RBT_ASSERT(run->begin < run->end);
    const size_t count = run->end - run->begin;
    const struct sayings s = {rbt_calloc(count, sizeof *s.margins),
                              rbt_calloc(count, sizeof *s.parts)};
    const bool has_room = s.margins != NULL && s.parts != NULL;
    *loss = 0.0;
    if (has_room) {
        rbt_choose_kernels()->fm_margins(run, s.margins);
    }
    for (size_t i = 0; has_room && i < count; i++) {
        const double label = (double)run->labels[run->begin + i];
        *loss += rbt_loss_at(run->loss, (double)s.margins[i], label).value;
    }
    if (has_room && rbt_fm_is_tuned(fm)) {
        measure(fm, w, run, &s);
    }
    rbt_free(s.parts);
    rbt_free(s.margins);
    return has_room ? RBT_OK
                    : rbt_fail(RBT_E_NOMEM, "no memory for the margins of %zu examples", count);
}
