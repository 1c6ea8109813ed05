/* algo/frame/lbfgs.c - limited memory BFGS. */
#include "algo/frame/lbfgs.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

rbt_status rbt_lbfgs_init(struct rbt_lbfgs *lbfgs, size_t n, size_t memory)
{
    RBT_ASSERT(memory >= 1);
    *lbfgs = (struct rbt_lbfgs){.n = n,
                                .memory = memory,
                                .steps = rbt_calloc(n * memory, sizeof *lbfgs->steps),
                                .changes = rbt_calloc(n * memory, sizeof *lbfgs->changes),
                                .inverses = rbt_calloc(memory, sizeof *lbfgs->inverses),
                                .factors = rbt_calloc(memory, sizeof *lbfgs->factors)};
    if (lbfgs->steps == NULL || lbfgs->changes == NULL || lbfgs->inverses == NULL ||
        lbfgs->factors == NULL) {
        rbt_lbfgs_deinit(lbfgs);
        return rbt_fail(RBT_E_NOMEM, "no memory for the last %zu steps of %zu weights", memory, n);
    }
    return RBT_OK;
}

void rbt_lbfgs_deinit(struct rbt_lbfgs *lbfgs)
{
    rbt_free(lbfgs->factors);
    rbt_free(lbfgs->inverses);
    rbt_free(lbfgs->changes);
    rbt_free(lbfgs->steps);
    *lbfgs = (struct rbt_lbfgs){0};
}

double rbt_lbfgs_dot(const double *a, const double *b, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

void rbt_lbfgs_note(struct rbt_lbfgs *lbfgs, const double *step, const double *change)
{
    const double curve = rbt_lbfgs_dot(step, change, lbfgs->n);
    if (curve <= 1e-12 * rbt_lbfgs_dot(change, change, lbfgs->n)) {
        return;
    }
    memcpy(lbfgs->steps + lbfgs->next * lbfgs->n, step, lbfgs->n * sizeof *step);
    memcpy(lbfgs->changes + lbfgs->next * lbfgs->n, change, lbfgs->n * sizeof *change);
    lbfgs->inverses[lbfgs->next] = 1.0 / curve;
    lbfgs->next = (lbfgs->next + 1) % lbfgs->memory;
    lbfgs->count += lbfgs->count < lbfgs->memory;
}

void rbt_lbfgs_forget(struct rbt_lbfgs *lbfgs)
{
    lbfgs->count = 0;
    lbfgs->next = 0;
}

static void add(double *to, double factor, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += factor * from[i];
    }
}

void rbt_lbfgs_direction(struct rbt_lbfgs *lbfgs, const double *gradient, double *direction)
{
    const size_t n = lbfgs->n;
    for (size_t i = 0; i < n; i++) {
        direction[i] = -gradient[i];
    }
    for (size_t k = 1; k <= lbfgs->count; k++) { /* from the newest to the oldest */
        const size_t at = (lbfgs->next + lbfgs->memory - k) % lbfgs->memory;
        lbfgs->factors[at] =
            lbfgs->inverses[at] * rbt_lbfgs_dot(lbfgs->steps + at * n, direction, n);
        add(direction, -lbfgs->factors[at], lbfgs->changes + at * n, n);
    }
    if (lbfgs->count > 0) {
        const size_t newest = (lbfgs->next + lbfgs->memory - 1) % lbfgs->memory;
        const double *y = lbfgs->changes + newest * n;
        const double scale = 1.0 / (lbfgs->inverses[newest] * rbt_lbfgs_dot(y, y, n));
        for (size_t i = 0; i < n; i++) {
            direction[i] *= scale;
        }
    }
    for (size_t k = lbfgs->count; k >= 1; k--) { /* and back */
        const size_t at = (lbfgs->next + lbfgs->memory - k) % lbfgs->memory;
        const double back =
            lbfgs->inverses[at] * rbt_lbfgs_dot(lbfgs->changes + at * n, direction, n);
        add(direction, lbfgs->factors[at] - back, lbfgs->steps + at * n, n);
    }
}

enum { TRIES = 30 };

struct rbt_lbfgs_line rbt_lbfgs_line_begin(double value, double slope, double size)
{
    return (struct rbt_lbfgs_line){
        .size = size, .value = value, .slope = slope, .low_slope = slope, .high = (double)INFINITY};
}

/* Where a parabola has its minimum, if it is well inside; or else where it may be. */
static double between(double low, double high, double guess)
{
    const double width = high - low;
    if (!isfinite(guess)) {
        return low + width / 2;
    }
    return fmin(fmax(guess, low + 0.1 * width), high - 0.1 * width);
}

enum rbt_lbfgs_verdict rbt_lbfgs_line_judge(struct rbt_lbfgs_line *line, double value, double slope)
{
    const double enough = 1e-4;
    const double flat = 0.9;
    const double rounding = 1e-12 * fabs(line->value);
    const double size = line->size;
    const bool is_lower = value <= line->value + enough * size * line->slope;
    const bool is_level =
        value <= line->value + rounding && slope <= (2.0 * enough - 1.0) * line->slope;
    if (!is_lower && !is_level) { /* or not a number */
        const double bend = 2.0 * (value - line->value - size * line->slope);
        const double guess = line->low == 0.0 ? -line->slope * size * size / bend : (double)NAN;
        line->high = size;
        line->size = between(line->low, line->high, guess);
    } else if (slope < flat * line->slope) {
        const double guess = size - slope * (size - line->low) / (slope - line->low_slope);
        line->low = size;
        line->low_slope = slope;
        line->size = isinf(line->high) ? fmin(fmax(guess, 2.0 * size), 10.0 * size)
                                       : between(line->low, line->high, guess);
    } else {
        return RBT_LINE_GOOD;
    }
    return ++line->tries < TRIES && isfinite(line->size) ? RBT_LINE_AGAIN : RBT_LINE_NOWHERE;
}
