/* math/prox.c - what pulls one weight towards zero. */
#include "math/prox.h"

#include <math.h>

float rbt_prox_soft(float w, float a)
{
    const float size = fabsf(w) - a;
    return copysignf(size <= 0.0F ? 0.0F : size, w); /* not a number stays so */
}

float rbt_prox_truncate(float w, float a, float theta)
{
    return fabsf(w) <= theta ? rbt_prox_soft(w, a) : w;
}

float rbt_prox_shrink(float w, float a)
{
    return w / (1.0F + a);
}
