/* math/cholesky.c - see cholesky.h. By rows, so that all sums run along them. */
#include "math/cholesky.h"

#include <math.h>
#include <stdbool.h>

enum { LANES = 8 }; /* sums that are kept apart, so that a processor can do several at once */

/* What is left of a diagonal element, as a part of it, below which a row depends on others. */
static const double dependent = 1e-11;

static double dot(const double *a, const double *b, size_t n)
{
    double sums[LANES] = {0};
    size_t k = 0;
    for (; k + LANES <= n; k += LANES) {
        for (size_t u = 0; u < LANES; u++) {
            sums[u] += a[k + u] * b[k + u];
        }
    }
    double sum = 0.0;
    for (; k < n; k++) {
        sum += a[k] * b[k];
    }
    for (size_t u = 0; u < LANES; u++) {
        sum += sums[u];
    }
    return sum;
}

size_t rbt_cholesky_factor(double *a, size_t n)
{
    size_t left_out = 0;
    for (size_t i = 0; i < n; i++) {
        double *row = a + i * n;
        for (size_t j = 0; j < i; j++) {
            const double *other = a + j * n;
            row[j] = (row[j] - dot(row, other, j)) / other[j];
        }
        const double pivot = row[i] - dot(row, row, i);
        const bool is_dependent = !(pivot > dependent * row[i]);
        row[i] = is_dependent ? (double)INFINITY : sqrt(pivot);
        left_out += is_dependent;
    }
    return left_out;
}

void rbt_cholesky_solve(const double *l, size_t n, double *x)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (x[i] - dot(l + i * n, x, i)) / l[i * n + i];
    }
    for (size_t i = n; i-- > 0;) {
        x[i] /= l[i * n + i];
        for (size_t j = 0; j < i; j++) {
            x[j] -= l[i * n + j] * x[i];
        }
    }
}
