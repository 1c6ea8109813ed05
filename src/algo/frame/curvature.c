/* algo/frame/curvature.c - see curvature.h.
 *
 * Second derivatives are sum_i h_i x_i x_i'. If an example has a large part of the features, some
 * are spread out and added together, so that inner loops run along rows; else every pair of an
 * example's features is. */
#include "algo/frame/curvature.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { TOGETHER = 4 }; /* dense examples */

/* A part of the features from which on examples are dense. */
static const double dense_part = 0.3;

struct work {
    const struct rbt_curvature *run;
    bool is_dense;
    double *margins; /* (classes) */
    double *slopes;  /* (classes) */
    double *rows;    /* of dense examples: (TOGETHER, size) */
    size_t pairs;    /* of classes */
    double *factors; /* h: (TOGETHER, pairs) */
    size_t held;     /* rows that are there */
};

/* Slopes and second derivatives of one example's loss with respect to its margins. */
static double derive(const struct work *work, double label, double *h)
{
    const struct rbt_curvature *run = work->run;
    if (run->loss == RBT_LOSS_SOFTMAX) {
        const double loss =
            rbt_loss_softmax(work->margins, run->classes, (size_t)label, work->slopes);
        for (size_t c = 0; c < run->classes; c++) {
            const double p = work->slopes[c] + (c == (size_t)label ? 1.0 : 0.0);
            for (size_t d = 0; d < c; d++) {
                *h++ = -p * (work->slopes[d] + (d == (size_t)label ? 1.0 : 0.0));
            }
            *h++ = p * (1.0 - p);
        }
        return loss;
    }
    const struct rbt_loss_point at = rbt_loss_at(run->loss, work->margins[0], label);
    work->slopes[0] = at.slope;
    /* Of the logistic loss the slope is -y p, p being how likely the other label is. */
    h[0] = run->loss == RBT_LOSS_LOGISTIC ? fabs(at.slope) * (1.0 - fabs(at.slope)) : 1.0;
    return at.value;
}

static void add_margins(const struct work *work, uint64_t first, uint64_t end)
{
    const struct rbt_curvature *run = work->run;
    const struct rbt_share *share = run->share;
    const size_t classes = run->classes;
    for (size_t c = 0; c < classes; c++) {
        work->margins[c] = run->has_bias ? run->point[(run->size - 1) * classes + c] : 0.0;
    }
    for (uint64_t k = first; k < end; k++) {
        const double x = (double)share->values[k];
        const double *row = run->point + (size_t)run->places[share->indices[k]] * classes;
        for (size_t c = 0; c < classes; c++) {
            work->margins[c] += x * row[c];
        }
    }
}

static void add_gradient(const struct work *work, uint64_t first, uint64_t end)
{
    const struct rbt_curvature *run = work->run;
    const struct rbt_share *share = run->share;
    const size_t classes = run->classes;
    for (uint64_t k = first; k < end; k++) {
        const double x = (double)share->values[k];
        double *row = run->gradient + (size_t)run->places[share->indices[k]] * classes;
        for (size_t c = 0; c < classes; c++) {
            row[c] += x * work->slopes[c];
        }
    }
    for (size_t c = 0; run->has_bias && c < classes; c++) {
        run->gradient[(run->size - 1) * classes + c] += work->slopes[c];
    }
}

/* All pairs of features of an example. */
static void add_pairs(const struct work *work, uint64_t first, uint64_t end, const double *h)
{
    const struct rbt_curvature *run = work->run;
    const struct rbt_share *share = run->share;
    for (size_t c = 0; c < work->pairs; c++) {
        double *second = run->second + c * run->size * run->size;
        double *last = second + (run->size - 1) * run->size;
        for (uint64_t k = first; k < end; k++) {
            const double hx = h[c] * (double)share->values[k];
            const size_t place = run->places[share->indices[k]];
            double *row = second + place * run->size;
            for (uint64_t l = first; l <= k; l++) {
                row[run->places[share->indices[l]]] += hx * (double)share->values[l];
            }
            if (run->has_bias) {
                last[place] += hx;
            }
        }
        if (run->has_bias) {
            last[run->size - 1] += h[c];
        }
    }
}

/* The same for the dense examples that are held, which are then gone. */
static void add_held(struct work *work)
{
    const struct rbt_curvature *run = work->run;
    const size_t size = run->size;
    const double *x0 = work->rows;
    const double *x1 = x0 + size;
    const double *x2 = x1 + size;
    const double *x3 = x2 + size;
    for (size_t c = 0; c < work->pairs; c++) {
        const double *h = work->factors + c;
        for (size_t a = 0; a < size; a++) {
            const double t0 = h[0] * x0[a];
            const double t1 = h[work->pairs] * x1[a];
            const double t2 = h[2 * work->pairs] * x2[a];
            const double t3 = h[3 * work->pairs] * x3[a];
            double *row = run->second + (c * size + a) * size;
            if (t0 == 0.0 && t1 == 0.0 && t2 == 0.0 && t3 == 0.0) {
                continue;
            }
            for (size_t b = 0; b <= a; b++) {
                row[b] += t0 * x0[b] + t1 * x1[b] + t2 * x2[b] + t3 * x3[b];
            }
        }
    }
    memset(work->rows, 0, TOGETHER * size * sizeof *work->rows);
    memset(work->factors, 0, TOGETHER * work->pairs * sizeof *work->factors);
    work->held = 0;
}

static void hold(struct work *work, uint64_t first, uint64_t end)
{
    const struct rbt_curvature *run = work->run;
    const struct rbt_share *share = run->share;
    double *row = work->rows + work->held * run->size;
    for (uint64_t k = first; k < end; k++) {
        row[run->places[share->indices[k]]] = (double)share->values[k];
    }
    if (run->has_bias) {
        row[run->size - 1] = 1.0;
    }
    if (++work->held == TOGETHER) {
        add_held(work);
    }
}

static double add_all(struct work *work)
{
    const struct rbt_curvature *run = work->run;
    const struct rbt_share *share = run->share;
    double sum = 0.0;
    for (size_t i = 0; i < share->count; i++) {
        const uint64_t first = share->offsets[i];
        const uint64_t end = share->offsets[i + 1];
        double *h = work->factors + work->held * work->pairs;
        add_margins(work, first, end);
        sum += derive(work, (double)share->labels[i], h);
        add_gradient(work, first, end);
        if (run->second != NULL && work->is_dense) {
            hold(work, first, end);
        } else if (run->second != NULL) {
            add_pairs(work, first, end, h);
        }
    }
    if (work->held > 0) {
        add_held(work);
    }
    return sum;
}

rbt_status rbt_curvature_add(const struct rbt_curvature *run, double *loss)
{
    const size_t count = run->share->count;
    const double nonzeros = (double)(run->share->offsets[count] - run->share->offsets[0]);
    struct work work = {.run = run,
                        .is_dense = nonzeros > dense_part * (double)count * (double)run->size,
                        .margins = rbt_calloc(run->classes, sizeof(double)),
                        .slopes = rbt_calloc(run->classes, sizeof(double)),
                        .rows = rbt_calloc(TOGETHER * run->size, sizeof(double)),
                        .pairs = rbt_curvature_pairs(run->classes),
                        .factors = NULL};
    work.factors = rbt_calloc(TOGETHER * work.pairs, sizeof *work.factors);
    rbt_status st = RBT_OK;
    if (work.margins == NULL || work.slopes == NULL || work.rows == NULL || work.factors == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory for %zu second derivatives", run->size);
    } else {
        *loss = add_all(&work);
    }
    rbt_free(work.factors);
    rbt_free(work.rows);
    rbt_free(work.slopes);
    rbt_free(work.margins);
    return st;
}

double rbt_curvature_cost(double examples, double nonzeros, double squares, size_t size,
                          size_t classes)
{
    const bool is_dense = nonzeros > dense_part * examples * (double)size;
    const double pairs =
        is_dense ? 0.25 * examples * (double)size * (double)size : 0.5 * squares + nonzeros;
    return pairs * (double)rbt_curvature_pairs(classes);
}
