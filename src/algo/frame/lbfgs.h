/* algo/frame/lbfgs.h - limited memory BFGS: directions of descent from the last few steps, and how
 * far to go along them.
 *
 * With the steps s_k and the changes of the gradient y_k the direction is -H g, where H is what
 * BFGS makes of (s'y / y'y) I of the newest pair and the pairs that are kept:
 *
 *     H <- (I - r s y') H (I - r y s') + r s s',   r = 1 / y's
 *
 * found by the two-loop recursion without ever writing H down (Nocedal, 1980). Threads: none. */
#ifndef RUBATO_ALGO_FRAME_LBFGS_H
#define RUBATO_ALGO_FRAME_LBFGS_H

#include <stddef.h>

#include <rubato/status.h>

struct rbt_lbfgs {
    size_t n;
    size_t memory;    /* pairs that are kept at most */
    size_t count;     /* pairs that are kept */
    size_t next;      /* where the next one goes */
    double *steps;    /* (memory, n) */
    double *changes;  /* (memory, n) */
    double *inverses; /* 1 / s'y: (memory) */
    double *factors;  /* scratch: (memory) */
};

/* Fails with RBT_E_NOMEM, and then leaves an empty one. */
RBT_MUST_USE rbt_status rbt_lbfgs_init(struct rbt_lbfgs *lbfgs, size_t n, size_t memory);
void rbt_lbfgs_deinit(struct rbt_lbfgs *lbfgs); /* accepts an empty one */

/* Notes a step and the change of the gradient on it, unless they say that the function is not
 * convex there. Both are (n). */
void rbt_lbfgs_note(struct rbt_lbfgs *lbfgs, const double *step, const double *change);

/* Forgets all steps. */
void rbt_lbfgs_forget(struct rbt_lbfgs *lbfgs);

/* direction = -H gradient; without steps -gradient. */
void rbt_lbfgs_direction(struct rbt_lbfgs *lbfgs, const double *gradient, double *direction);

double rbt_lbfgs_dot(const double *a, const double *b, size_t n);

/* --- How far -----------------------------------------------------------------------------------
 *
 * A step of size a along d is good if it falls enough and if the function has become flatter:
 *
 *     f(x + a d) <= f(x) + 1e-4 a g'd        and        g(x + a d)'d >= 0.9 g'd
 *
 * so that y's > 0 and the pair can be kept. Otherwise the size is looked for between the largest
 * that was too short and the smallest that was too long. Near the minimum, where differences of f
 * are rounding, the slope alone decides (Hager and Zhang, 2005). */

enum rbt_lbfgs_verdict {
    RBT_LINE_GOOD,
    RBT_LINE_AGAIN,  /* with line->size */
    RBT_LINE_NOWHERE /* no size is good: the direction, or what doubles can tell, is exhausted */
};

struct rbt_lbfgs_line {
    double size; /* to try: a */
    double value;
    double slope;     /* g'd at 0, below 0 */
    double low;       /* too short */
    double low_slope; /* there */
    double high;      /* too long; INFINITY: none yet */
    int tries;
};

/* From a point with this value, along a direction with this slope. */
struct rbt_lbfgs_line rbt_lbfgs_line_begin(double value, double slope, double size);

/* What was found at line->size. */
enum rbt_lbfgs_verdict rbt_lbfgs_line_judge(struct rbt_lbfgs_line *line, double value,
                                            double slope);

#endif
