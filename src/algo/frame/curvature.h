/* algo/frame/curvature.h - loss, gradient and second derivatives of a share of the examples.
 *
 * Weights of all features and, if there is one, the bias as the last row make a vector of `size`
 * rows with a number for each class. Of softmax, second derivatives are a matrix for each pair of
 * classes c >= d, number c (c + 1) / 2 + d: by the weights of c and by those of d.
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_FRAME_CURVATURE_H
#define RUBATO_ALGO_FRAME_CURVATURE_H

#include "data/examples.h"
#include "math/loss.h"

enum { RBT_CURVATURE_ROWS_MAX = 512 }; /* of more rows, second derivatives cost too much */

struct rbt_curvature {
    enum rbt_loss loss; /* not hinge */
    size_t classes;     /* 1, or of softmax how many */
    size_t size;        /* rows */
    bool has_bias;
    const struct rbt_share *share;
    const uint32_t *places; /* rows of the share's features: (key_count), increasing */
    const double *point;    /* (size, classes) */
    double *gradient;       /* (size, classes): sums are added */
    double *second;         /* (pairs, size, size): the same, lower triangles of matrices that are
                               symmetric; NULL: not wanted */
};

/* How many pairs of classes there are. */
static inline size_t rbt_curvature_pairs(size_t classes)
{
    return classes * (classes + 1) / 2;
}

/* Adds what the examples add; `loss` becomes the sum of their losses. Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_curvature_add(const struct rbt_curvature *run, double *loss);

/* How many multiplications the second derivatives of a share take. */
double rbt_curvature_cost(double examples, double nonzeros, double squares, size_t size,
                          size_t classes);

#endif
