/* algo/lbfgs.h - limited memory BFGS: directions of descent from the last few steps.
 *
 * With the steps s_k and the changes of the gradient y_k the direction is -H g, where H is what
 * BFGS makes of (s'y / y'y) I of the newest pair and the pairs that are kept:
 *
 *     H <- (I - r s y') H (I - r y s') + r s s',   r = 1 / y's
 *
 * found by the two-loop recursion without ever writing H down (Nocedal, 1980). Threads: none. */
#ifndef RUBATO_ALGO_LBFGS_H
#define RUBATO_ALGO_LBFGS_H

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

#endif
