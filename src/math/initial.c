/* math/initial.c - initial values, drawn by (seed, key, element) and therefore the same wherever
 * and whenever the row is first touched. */
#include "math/initial.h"

#include <string.h>

#include "base/rng.h"
#include "math/merge.h"

void rbt_initial_values(const struct rbt_initial *initial, uint64_t key, void *values)
{
    const size_t size = rbt_merge_size(initial->type);
    if (initial->init == RBT_INIT_ZERO) {
        memset(values, 0, initial->width * size);
        return;
    }
    for (uint32_t i = 0; i < initial->width; i++) {
        double value = initial->a;
        if (initial->init == RBT_INIT_UNIFORM) {
            value += (initial->b - initial->a) * rbt_rng_uniform_at(initial->seed, key, i);
        } else if (initial->init == RBT_INIT_NORMAL) {
            value += initial->b * rbt_rng_normal_at(initial->seed, key, i);
        }
        rbt_merge_store(initial->type, (char *)values + i * size, value);
    }
}
