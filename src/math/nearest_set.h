/* math/nearest_set.h - names of the functions of nearest.c in the set that is being compiled, for
 * kernels.c, which puts them into the set. */
#ifndef RUBATO_MATH_NEAREST_SET_H
#define RUBATO_MATH_NEAREST_SET_H

#include "math/nearest.h"

#define RBT_NEAREST_PASTE(name, set)  rbt_nearest_##name##_##set
#define RBT_NEAREST_EXPAND(name, set) RBT_NEAREST_PASTE(name, set)
#define RBT_NEAREST(name)             RBT_NEAREST_EXPAND(name, RBT_KERNELS)

#ifdef RBT_KERNELS
void RBT_NEAREST(nearest)(const struct rbt_nearest_run *run);
void RBT_NEAREST(sparse)(const struct rbt_nearest_sparse_run *run);
void RBT_NEAREST(distance)(const struct rbt_distance_run *run);
#endif

#endif
