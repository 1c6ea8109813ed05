/* algo/linear/linear_rates.c - how much of a worker's moves counts when several move at once.
 *
 * In a clock m workers start from the same weights, make their steps, and what they have moved is
 * added up, each move times a rate. With rate 1 all steps count as if one worker had made them one
 * after the other, but none knows of the others: that is too far where many examples push in one
 * direction. With the mean it never is, but then m workers get no further in a pass than one in
 * 1/m of it. A feature that c examples of a clock have, of about k workers, gets
 *
 *     rate = min(1, max(1/k, 1/(c f)))        k = m (1 - exp(-c/m))
 *
 * so that rare features are summed up, and common ones averaged. f is what is common to all
 * features: it starts where the steps of 100 examples may add up, and grows until the sum of
 * the steps of a clock is not too long in any direction:
 *
 *     n/clocks  max over |v| = 1 of  mean_i  eta_i L (sum_j sqrt(rate_j) x_ij v_j)^2  <=  reach
 *
 * Of squared loss, whose slopes grow with the distance, the sum must not go beyond the minimum:
 * reach is 1. The slopes of logistic loss and softmax are bounded, and L is far above their
 * curvature near the minimum: there 20 is good for reviews and for images. Hinge has no curvature
 * at all: an example pushes with all its might until its margin is 1, and then not at all, so that
 * a sum goes too far by a step of each at most. There f is such that the steps of 333 examples of a
 * clock add up, and the age of copies does not matter. On reviews with 2 workers, larger f cost up
 * to 4% of the test loss, and the mean 1%; other data does not care.
 *
 * The direction v is found by the power method with some examples, and the mean is taken over
 * others, because among few examples each has directions of its own.
 *
 * Steps become shorter with the progress that is made: the decay is that of one worker times the
 * harmonic mean of the rates, in which the slowest features count most.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/linear/linear_job.h"
#include "algo/linear/linear_stream.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/loss.h"

enum { SAMPLE = 256, ROUNDS = 4 };
enum { LATE = 2, LATE_MAX = 16 }; /* clocks */

static const double f_min = 0.01;
static const double f_max = 100.0;
static const double f_step = 1.4;
static const double f_hinge = 0.003; /* if all copies are current */
static const double reach_squared = 1.0;
static const double reach_bounded = 20.0;

struct rates {
    const struct rbt_linear_job *linear;
    const struct rbt_linear_worker *w;
    const double *all; /* everybody's usage */
    double *roots;     /* sqrt(rate): (key_count + 1), the last of the bias */
    double *v;         /* (key_count + 1) */
    double *next;
};

/* Clocks whose steps may not know of each other. Copies that may be of any age are as a rule not
 * older than those of the default. */
static double window_of(const struct rbt_linear_job *linear)
{
    const char *own = linear->consistency;
    const char *consistency = own != NULL ? own : linear->options->consistency;
    const bool is_bounded = consistency != NULL && strncmp(consistency, "auto", 4) != 0;
    const char *colon = is_bounded ? strchr(consistency, ':') : NULL;
    if (consistency != NULL && strcmp(consistency, "bsp") == 0) {
        return 1.0;
    }
    return 1.0 + (colon != NULL ? fmin(fmax(strtod(colon + 1, NULL), 0.0), LATE_MAX) : LATE);
}

/* The rate of a feature that so many examples have. */
static double rate_of(const struct rbt_linear_job *linear, double examples, double f)
{
    const double m = (double)linear->worker_count;
    const double c = window_of(linear) * examples / (double)linear->clocks_per_epoch;
    const double k = fmax(1.0, m * (1.0 - exp(-c / m)));
    return fmin(1.0, fmax(1.0 / k, 1.0 / (c * f)));
}

static void set_roots(struct rates *r, double f)
{
    const size_t count = r->w->share.key_count;
    for (size_t j = 0; j < count; j++) {
        const double examples = r->all[j * RBT_USAGE_WIDTH + RBT_USAGE_COUNT];
        r->roots[j] = sqrt(rate_of(r->linear, examples, f));
    }
    r->roots[count] = r->linear->config.has_bias ? sqrt(1.0 / (double)r->linear->worker_count) : 0;
}

/* The margin of example i in direction v; and adds so much of the example to `next`. */
static double margin_of(const struct rates *r, size_t i)
{
    const struct rbt_share *share = &r->w->share;
    double sum = r->roots[share->key_count] * r->v[share->key_count];
    for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
        const uint32_t j = share->indices[k];
        sum += (double)share->values[k] * r->roots[j] * r->v[j];
    }
    return sum;
}

static void add_example(const struct rates *r, size_t i, double step)
{
    const struct rbt_share *share = &r->w->share;
    r->next[share->key_count] += step * r->roots[share->key_count];
    for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
        const uint32_t j = share->indices[k];
        r->next[j] += step * (double)share->values[k] * r->roots[j];
    }
}

/* The step of example i at the start, times the curvature. */
static double step_of(const struct rates *r, size_t i)
{
    const struct rbt_linear_config *config = &r->linear->config;
    const double curvature = rbt_loss_curvature((enum rbt_loss)config->loss);
    const double eta = config->lr * r->w->step_unit;
    const bool is_scaled = config->scale == RBT_SCALE_FEATURES;
    return curvature * (is_scaled ? fmin(eta, (double)r->w->step_max[i]) : eta);
}

/* How far the examples of a clock go together, 1 being to the minimum. */
static double reach(struct rates *r, size_t sample)
{
    const size_t count = r->w->share.key_count + 1;
    const size_t half = sample / 2;
    for (size_t j = 0; j < count; j++) {
        r->v[j] = 1.0;
    }
    for (int round = 0; round < ROUNDS; round++) {
        double squares = 0.0;
        for (size_t j = 0; j < count; j++) {
            r->next[j] = 0.0;
        }
        for (size_t i = 0; i < half; i++) {
            add_example(r, i, step_of(r, i) * margin_of(r, i));
        }
        for (size_t j = 0; j < count; j++) {
            squares += r->next[j] * r->next[j];
        }
        const double length = sqrt(squares);
        for (size_t j = 0; j < count; j++) {
            r->v[j] = length > 0.0 ? r->next[j] / length : 0.0;
        }
    }
    double sum = 0.0;
    for (size_t i = half; i < sample; i++) {
        const double margin = margin_of(r, i);
        sum += step_of(r, i) * margin * margin;
    }
    const double examples = window_of(r->linear) * (double)r->linear->examples.count /
                            (double)r->linear->clocks_per_epoch;
    return sample > half ? examples * sum / (double)(sample - half) : 0.0;
}

/* Chooses f, and sets the roots. */
static void choose_roots(struct rates *r, size_t sample)
{
    const enum rbt_loss loss = (enum rbt_loss)r->linear->config.loss;
    const double reach_max = loss == RBT_LOSS_SQUARED ? reach_squared : reach_bounded;
    double f = f_min;
    if (loss == RBT_LOSS_HINGE) {
        set_roots(r, f_hinge / window_of(r->linear));
        return;
    }
    set_roots(r, f);
    while (reach(r, sample) > reach_max && f < f_max) {
        f *= f_step;
        set_roots(r, f);
    }
}

rbt_status rbt_linear_rates(const struct rbt_linear_job *linear, struct rbt_linear_worker *w,
                            const double *all, float *rates)
{
    const size_t count = w->share.key_count;
    const size_t sample = w->share.count < SAMPLE ? w->share.count : SAMPLE;
    struct rates r = {.linear = linear, .w = w, .all = all};
    r.roots = rbt_calloc(count + 1, sizeof *r.roots);
    r.v = rbt_calloc(count + 1, sizeof *r.v);
    r.next = rbt_calloc(count + 1, sizeof *r.next);
    const bool has_all = r.roots != NULL && r.v != NULL && r.next != NULL;
    if (has_all) {
        rbt_linear_visit(w, 0, sample);
        choose_roots(&r, sample);
        double slowness = 0.0;
        double weights = 0.0;
        for (size_t j = 0; j < count; j++) {
            const double rate = r.roots[j] * r.roots[j];
            const double scale = (double)w->scales[j];
            const double weight = all[j * RBT_USAGE_WIDTH + RBT_USAGE_SQUARES] * scale * scale;
            slowness += weight / rate;
            weights += weight;
            rates[j] = fminf(1.0F, (float)rate * w->shares[j] * (float)linear->worker_count);
        }
        w->progress = slowness > 0.0 ? weights / slowness : 1.0;
    }
    rbt_free(r.next);
    rbt_free(r.v);
    rbt_free(r.roots);
    return has_all ? RBT_OK : rbt_fail(RBT_E_NOMEM, "no memory for the rates of features");
}
