/* math/loss.h - losses of one example, and their slopes.
 *
 * With the margin m = w'x + b and the label y:
 *
 *     logistic  log(1 + exp(-y m))    y is -1 or +1
 *     hinge     max(0, 1 - y m)       y is -1 or +1
 *     squared   (m - y)^2 / 2         y is any number
 *
 * and with a margin m_c = w_c'x + b_c for each of C classes, of which y is the right one
 *
 *     softmax   log(sum_c exp(m_c)) - m_y
 *
 * Threads: none; pure functions. */
#ifndef RUBATO_MATH_LOSS_H
#define RUBATO_MATH_LOSS_H

#include <stddef.h>

enum rbt_loss {
    RBT_LOSS_LOGISTIC, /* probabilities */
    RBT_LOSS_HINGE,    /* support vector machine */
    RBT_LOSS_SQUARED,  /* regression */
    RBT_LOSS_SOFTMAX,  /* probabilities of several classes */
};

struct rbt_loss_point {
    double value; /* of the loss */
    double slope; /* d loss / d m */
};

struct rbt_loss_point rbt_loss_logistic(double m, double y);
struct rbt_loss_point rbt_loss_hinge(double m, double y);
struct rbt_loss_point rbt_loss_squared(double m, double y);

/* Softmax: slopes[c] becomes p_c - [c = y] with the probabilities p_c = exp(m_c) / sum exp(m); the
 * loss is returned. y < classes. The arrays may be the same. */
double rbt_loss_softmax(const double *margins, size_t classes, size_t y, double *slopes);

/* The same as the first three, chosen by `loss`, which is not softmax. */
struct rbt_loss_point rbt_loss_at(enum rbt_loss loss, double m, double y);

/* An upper bound of d^2 loss / dm^2: 1/4, 1, 1, and of softmax, where it is that of the eigenvalues
 * of diag(p) - p p', 1/2. (The hinge has none; 1 makes its step end where the margin is 1 at the
 * latest.) A step of 1 / (bound ||x||^2) never passes the example's optimum. */
double rbt_loss_curvature(enum rbt_loss loss);

#endif
