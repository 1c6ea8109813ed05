/* algo/registry.h - all algorithms by name.
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_REGISTRY_H
#define RUBATO_ALGO_REGISTRY_H

#include "algo/frame/algo.h"

/* All algorithms, in the order in which they are listed; ends with NULL. */
const struct rbt_algo *const *rbt_algo_all(void);

#endif
