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

struct rbt_loss_point rbt_loss_at(enum rbt_loss loss, double m, double y)
{
    switch (loss) {
    case RBT_LOSS_LOGISTIC:
        return rbt_loss_logistic(m, y);
    case RBT_LOSS_HINGE:
        return rbt_loss_hinge(m, y);
    case RBT_LOSS_SQUARED:
        return rbt_loss_squared(m, y);
    }
    RBT_UNREACHABLE();
}

double rbt_loss_curvature(enum rbt_loss loss)
{
    return loss == RBT_LOSS_LOGISTIC ? 0.25 : 1.0;
}
