/* math/prox.h - what pulls one weight towards zero. Threads: none; pure functions. */
#ifndef RUBATO_MATH_PROX_H
#define RUBATO_MATH_PROX_H

/* argmin_v (v - w)^2 / 2 + a |v|: moves w by `a` towards zero and stops there; a >= 0. */
float rbt_prox_soft(float w, float a);

/* Langford's truncated gradient T1(w, a, theta): the same, but only if |w| <= theta. */
float rbt_prox_truncate(float w, float a, float theta);

/* argmin_v (v - w)^2 / 2 + a v^2 / 2 = w / (1 + a); a >= 0. */
float rbt_prox_shrink(float w, float a);

#endif
