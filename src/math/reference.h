/* math/reference.h - the obvious versions of all kernels; the judge of the fast ones. */
#ifndef RUBATO_MATH_REFERENCE_H
#define RUBATO_MATH_REFERENCE_H

#include "math/kernels.h"

extern const struct rbt_kernels rbt_reference;

#endif
