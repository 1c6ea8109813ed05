/* math/choose.h - picks the kernels for this processor. Threads: any. */
#ifndef RUBATO_MATH_CHOOSE_H
#define RUBATO_MATH_CHOOSE_H

#include <stddef.h>

#include "math/kernels.h"

/* The fastest kernels that this processor runs, or those that the environment variable
 * RUBATO_KERNELS names (baseline, avx2, avx512) if it runs them. The same on every call. */
const struct rbt_kernels *rbt_choose_kernels(void);

/* Set number `index` of those that this processor runs, slowest first; NULL after the last. */
const struct rbt_kernels *rbt_choose_available(size_t index);

#endif
