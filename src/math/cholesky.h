/* math/cholesky.h - solves symmetric systems of linear equations.
 *
 * Threads: none; pure functions on the caller's arrays. */
#ifndef RUBATO_MATH_CHOLESKY_H
#define RUBATO_MATH_CHOLESKY_H

#include <stddef.h>

/* Replaces the lower triangle of the positive semidefinite matrix `a`, (n, n), row by row, by L
 * with L L' = a. Rows that depend on those before them, as far as doubles can tell, are left out:
 * then solutions are 0 there. Returns how many they are. */
size_t rbt_cholesky_factor(double *a, size_t n);

/* x becomes the solution of L L' y = x. */
void rbt_cholesky_solve(const double *l, size_t n, double *x);

#endif
