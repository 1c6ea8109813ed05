/* algo/registry.h - all algorithms by name.
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_REGISTRY_H
#define RUBATO_ALGO_REGISTRY_H

#include "algo/frame/algo.h"

/* All algorithms, in the order in which they are listed; ends with NULL. */
const struct rbt_algo *const *rbt_algo_all(void);

/* The first of them whose models are of this kind, or NULL. */
const struct rbt_algo *rbt_algo_of_kind(uint32_t kind);

#endif
