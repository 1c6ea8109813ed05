/* algo/frame/descent.h - minimises a smooth convex function of which others compute value and
 * gradient.
 *
 * Ask for both at `at`, tell them, and again, until it is over:
 *
 *     while (descent.state == RBT_DESCENT_ON) {
 *         compute value and gradient at descent.at;
 *         rbt_descent_tell(&descent, value, gradient);
 *     }
 *
 * The direction is -H g: H is what the caller's `solve` does, the inverse of second derivatives or
 * something like it, improved by what the last steps have shown of them (limited memory BFGS, the
 * two-loop recursion of Nocedal, 1980). With an exact `solve` and no memory that is Newton's
 * method. A step is taken if it gains at least 1e-4 of what the slope promises, else it is made
 * shorter.
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_FRAME_DESCENT_H
#define RUBATO_ALGO_FRAME_DESCENT_H

#include <stdbool.h>
#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "algo/frame/room.h"

enum rbt_descent_state {
    RBT_DESCENT_ON,
    RBT_DESCENT_DONE,  /* another step would gain less than the tolerance */
    RBT_DESCENT_STUCK, /* no step helps any more: doubles cannot tell the values apart */
};

struct rbt_descent {
    struct rbt_room room; /* of all arrays */
    size_t n;
    size_t memory;    /* steps that are remembered at most */
    double tolerance; /* what a step must promise to gain, as a part of the value,
                         or of 0.001 of the first one if that is more */
    double first;     /* length of the first step without `solve`, as a factor of the gradient */
    const double *diagonal; /* without `solve`, what it is multiplied by, too: (n); NULL: 1 */
    void (*solve)(void *context, double *x); /* NULL: multiplies by a number */
    void *context;
    enum rbt_descent_state state;
    double value;  /* at `best` */
    double start;  /* the first one */
    double gain;   /* that the next step promises, at least about */
    bool has_best; /* a point was told of */
    bool is_new;   /* `best` is the point that was last told of */
    size_t steps;  /* that were taken */
    double size;   /* of the step that is being tried */
    size_t count;  /* steps that are remembered */
    size_t next;   /* where the next one goes */
    double *at;    /* (n): the caller may set it before the first value */
    double *best;  /* (n) */
    double *slope; /* (n): gradient at `best` */
    double *direction;
    double *moves;    /* (memory, n) */
    double *changes;  /* of the gradient: (memory, n) */
    double *inverses; /* 1 / move'change: (memory) */
    double *factors;  /* scratch: (memory) */
};

/* `at` is zero, the tolerance 1e-10. Fails with RBT_E_NOMEM, and then leaves an empty one. */
RBT_MUST_USE rbt_status rbt_descent_init(struct rbt_descent *descent, size_t n, size_t memory);

/* Goes on from `best` with another function; nothing is remembered. */
void rbt_descent_restart(struct rbt_descent *descent);

/* What the function is at `at`; moves `at`, or ends. A value that is not a number is too large. If
 * `solve` needs to know of the point, `accepted` is called first when it is taken; may be NULL. */
void rbt_descent_tell(struct rbt_descent *descent, double value, const double *gradient,
                      void (*accepted)(void *context));

/* Accepts an empty one and leaves one. */
void rbt_descent_free(struct rbt_descent *descent);

#endif
