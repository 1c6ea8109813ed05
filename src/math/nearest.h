/* math/nearest.h - which of many centres is nearest to each of many points.
 *
 * Of the squared distance |x - c|^2 = |x|^2 + 2 (|c|^2/2 - x'c) only the score s = |c|^2/2 - x'c
 * depends on the centre. Scores of dense points are a product of matrices; they are computed in
 * small tiles that stay in registers, and only the two smallest of each point are kept.
 *
 * A point's results depend on the point and the centres alone, not on its neighbours, so that it
 * does not matter who computes them. Threads: none; the caller owns all arrays. */
#ifndef RUBATO_MATH_NEAREST_H
#define RUBATO_MATH_NEAREST_H

#include <stddef.h>
#include <stdint.h>

enum { RBT_NEAREST_PANEL = 16 }; /* centres side by side */

/* What is found out about point rows[i]: the centre with the smallest score, the first of equals;
 * its score; and the smallest score of all others, INFINITY if there are none. Each is (count). */
struct rbt_nearest_found {
    uint32_t *nearest;
    float *first;
    float *second;
};

struct rbt_nearest_run {
    const float *points; /* (any, dims), row-major */
    size_t dims;
    const uint32_t *rows; /* (count): which points */
    size_t count;
    /* Centre c is column c % 16 of panel c / 16; a panel is (dims, 16), and 64-byte aligned. */
    const float *panels;
    const float *halves; /* (panel_count * 16): |c|^2/2; INFINITY behind the last centre */
    size_t panel_count;
    struct rbt_nearest_found found;
};

/* The same for sparse points: point i has entries offsets[i] .. offsets[i+1]-1. */
struct rbt_nearest_sparse_run {
    const uint64_t *offsets;
    const uint32_t *indices;
    const float *values;
    const uint32_t *rows; /* (count) */
    size_t count;
    const float *columns; /* (dims, stride): element c of row j is coordinate j of centre c */
    const float *halves;  /* (stride): INFINITY behind the last centre */
    size_t stride;
    float *scores; /* (stride), scratch */
    struct rbt_nearest_found found;
};

/* out[i - begin] = |x_i - c|^2 for the centre c = centres[nearest[i]], points begin .. end-1. */
struct rbt_distance_run {
    const float *points; /* (end, dims) */
    size_t dims;
    size_t begin;
    size_t end;
    const float *centres; /* (any, dims), row-major */
    const uint32_t *nearest;
    float *out;
};

#endif
