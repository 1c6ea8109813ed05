/* algo/frame/descent.c - see descent.h. */
#include "algo/frame/descent.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

static const double enough = 1e-4;    /* of the promised gain */
static const double size_min = 1e-12; /* shorter steps are none */
static const double tolerance = 1e-10;

rbt_status rbt_descent_init(struct rbt_descent *descent, size_t n, size_t memory)
{
    *descent = (struct rbt_descent){.n = n, .memory = memory, .tolerance = tolerance, .first = 1};
    descent->at = rbt_room_take(&descent->room, n, sizeof *descent->at);
    descent->best = rbt_room_take(&descent->room, n, sizeof *descent->best);
    descent->slope = rbt_room_take(&descent->room, n, sizeof *descent->slope);
    descent->direction = rbt_room_take(&descent->room, n, sizeof *descent->direction);
    descent->moves = rbt_room_take(&descent->room, memory * n, sizeof *descent->moves);
    descent->changes = rbt_room_take(&descent->room, memory * n, sizeof *descent->changes);
    descent->inverses = rbt_room_take(&descent->room, memory, sizeof *descent->inverses);
    descent->factors = rbt_room_take(&descent->room, memory, sizeof *descent->factors);
    if (descent->room.is_short) {
        rbt_descent_free(descent);
        return rbt_fail(RBT_E_NOMEM, "no memory for %zu weights", n);
    }
    return RBT_OK;
}

void rbt_descent_free(struct rbt_descent *descent)
{
    rbt_room_free(&descent->room);
    *descent = (struct rbt_descent){0};
}

void rbt_descent_restart(struct rbt_descent *descent)
{
    if (descent->has_best) {
        memcpy(descent->at, descent->best, descent->n * sizeof *descent->at);
    }
    descent->has_best = false;
    descent->state = RBT_DESCENT_ON;
    descent->count = 0;
    descent->next = 0;
}

static double dot(const double *a, const double *b, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

static void add(double *to, double factor, const double *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] += factor * from[i];
    }
}

/* Remembers the step to `at`, whose gradient is told, unless it does not curve upwards. */
static void remember(struct rbt_descent *descent, const double *gradient)
{
    const size_t n = descent->n;
    if (descent->memory == 0) {
        return;
    }
    double *move = descent->moves + descent->next * n;
    double *change = descent->changes + descent->next * n;
    for (size_t i = 0; i < n; i++) {
        move[i] = descent->at[i] - descent->best[i];
        change[i] = gradient[i] - descent->slope[i];
    }
    const double product = dot(move, change, n);
    if (product > 1e-14 * sqrt(dot(move, move, n) * dot(change, change, n))) {
        descent->inverses[descent->next] = 1.0 / product;
        descent->next = (descent->next + 1) % descent->memory;
        descent->count += descent->count < descent->memory;
    }
}

/* H without what was remembered. */
static void solve(const struct rbt_descent *descent, double *x)
{
    const size_t n = descent->n;
    const double *diagonal = descent->diagonal;
    double factor = descent->first;
    if (descent->solve != NULL) {
        descent->solve(descent->context, x);
        return;
    }
    if (descent->count > 0) {
        const size_t newest = (descent->next + descent->memory - 1) % descent->memory;
        const double *change = descent->changes + newest * n;
        double squares = 0.0;
        for (size_t i = 0; i < n; i++) {
            squares += change[i] * change[i] * (diagonal != NULL ? diagonal[i] : 1.0);
        }
        factor = 1.0 / (descent->inverses[newest] * squares);
    }
    for (size_t i = 0; i < n; i++) {
        x[i] *= factor * (diagonal != NULL ? diagonal[i] : 1.0);
    }
}

static void turn(struct rbt_descent *descent)
{
    const size_t n = descent->n;
    double *d = descent->direction;
    for (size_t i = 0; i < n; i++) {
        d[i] = -descent->slope[i];
    }
    for (size_t k = 1; k <= descent->count; k++) { /* from the newest to the oldest */
        const size_t at = (descent->next + descent->memory - k) % descent->memory;
        descent->factors[at] = descent->inverses[at] * dot(descent->moves + at * n, d, n);
        add(d, -descent->factors[at], descent->changes + at * n, n);
    }
    solve(descent, d);
    for (size_t k = descent->count; k >= 1; k--) { /* and back */
        const size_t at = (descent->next + descent->memory - k) % descent->memory;
        const double back = descent->inverses[at] * dot(descent->changes + at * n, d, n);
        add(d, descent->factors[at] - back, descent->moves + at * n, n);
    }
}

/* Takes the point, and finds where to go from it. */
static void take(struct rbt_descent *descent, double value, const double *gradient)
{
    const size_t n = descent->n;
    if (descent->has_best) {
        remember(descent, gradient);
        descent->steps++;
    }
    memcpy(descent->best, descent->at, n * sizeof *descent->best);
    memcpy(descent->slope, gradient, n * sizeof *descent->slope);
    descent->value = value;
    descent->start = descent->has_best ? descent->start : value;
    descent->has_best = true;
    turn(descent);
    double lean = -dot(descent->direction, descent->slope, n);
    if (!(lean > 0.0) && descent->count > 0) {
        descent->count = 0;
        turn(descent);
        lean = -dot(descent->direction, descent->slope, n);
    }
    descent->gain = lean / 2;
    descent->size = 1.0;
    const double size = fmax(fabs(value), 1e-3 * fabs(descent->start));
    const bool is_sure = descent->solve != NULL || descent->count > 0;
    if (!(lean > 0.0) || (is_sure && descent->gain <= descent->tolerance * size)) {
        descent->state = RBT_DESCENT_DONE;
    }
}

/* The step was too long: where the parabola through what is known has its minimum. */
static void shorten(struct rbt_descent *descent, double value)
{
    const double lean = 2 * descent->gain;
    const double size = descent->size;
    const double excess = value - descent->value + size * lean;
    const double minimum = isfinite(excess) && excess > 0 ? lean * size * size / (2 * excess) : 0;
    descent->size = fmin(fmax(minimum, 0.1 * size), 0.5 * size);
    if (descent->size < size_min) {
        descent->state = RBT_DESCENT_STUCK;
    }
}

void rbt_descent_tell(struct rbt_descent *descent, double value, const double *gradient,
                      void (*accepted)(void *context))
{
    const size_t n = descent->n;
    const double most = descent->value - enough * descent->size * 2 * descent->gain;
    /* Near the end rounding hides what is gained. */
    const double rounding = 1e-13 * fabs(descent->value);
    descent->is_new = !descent->has_best || value <= most + rounding;
    if (descent->is_new) {
        if (accepted != NULL) {
            accepted(descent->context);
        }
        take(descent, value, gradient);
    } else {
        shorten(descent, value);
    }
    if (descent->state != RBT_DESCENT_ON) {
        memcpy(descent->at, descent->best, n * sizeof *descent->at);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        descent->at[i] = descent->best[i] + descent->size * descent->direction[i];
    }
}
