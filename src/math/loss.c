/* math/loss.c - losses of one example, and their slopes. */
#include "math/loss.h"

#include <math.h>

#include "base/assert.h"

/* log(1 + exp(-z)) with z = y m, written so that exp() never overflows:
 *     t = exp(-|z|);  value = log(1 + t) + max(0, -z);  slope = -y / (1 + exp(z)) */
struct rbt_loss_point rbt_loss_logistic(double m, double y)
{
    const double z = y * m;
    const double t = exp(-fabs(z));
    const double p_wrong = (z > 0 ? t : 1.0) / (1.0 + t);
    return (struct rbt_loss_point){.value = log1p(t) + (z > 0 ? 0.0 : -z), .slope = -y * p_wrong};
}

/* Written so that a margin that is not a number gives a value that is none either. */
struct rbt_loss_point rbt_loss_hinge(double m, double y)
{
    const double gap = 1.0 - y * m;
    const int is_met = gap <= 0.0;
    return (struct rbt_loss_point){.value = is_met ? 0.0 : gap, .slope = is_met ? 0.0 : -y};
}

struct rbt_loss_point rbt_loss_squared(double m, double y)
{
    const double e = m - y;
    return (struct rbt_loss_point){.value = 0.5 * e * e, .slope = e};
}

/* The largest margin is taken off first, so that exp() never overflows. */
double rbt_loss_softmax(const double *margins, size_t classes, size_t y, double *slopes)
{
    RBT_ASSERT(y < classes);
    double largest = margins[0];
    for (size_t c = 1; c < classes; c++) {
        largest = fmax(largest, margins[c]);
    }
    const double right = margins[y] - largest;
    double sum = 0.0;
    for (size_t c = 0; c < classes; c++) {
        slopes[c] = exp(margins[c] - largest);
        sum += slopes[c];
    }
    for (size_t c = 0; c < classes; c++) {
        slopes[c] /= sum;
    }
    slopes[y] -= 1.0;
    return log(sum) - right;
}

struct rbt_loss_point rbt_loss_at(enum rbt_loss loss, double m, double y)
{
    switch (loss) {
    case RBT_LOSS_LOGISTIC:
        return rbt_loss_logistic(m, y);
    case RBT_LOSS_HINGE:
        return rbt_loss_hinge(m, y);
    case RBT_LOSS_SQUARED:
        return rbt_loss_squared(m, y);
    case RBT_LOSS_SOFTMAX:
        break; /* has several margins */
    }
    RBT_UNREACHABLE();
}

double rbt_loss_curvature(enum rbt_loss loss)
{
    return loss == RBT_LOSS_LOGISTIC ? 0.25 : loss == RBT_LOSS_SOFTMAX ? 0.5 : 1.0;
}
