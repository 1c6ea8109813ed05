/* algo/kmeans/kmeans_points.h - examples as points, and centres that they can be compared with.
 *
 * A space says which feature is which coordinate. Points of a dense space are rows of a matrix,
 * moved so that their mean is about 0, which keeps distances exact wherever the data lies; those of
 * a sparse space stay lists of entries.
 *
 * Coordinates are rounded to multiples of a unit, a power of two for each dimension, that is so
 * large that no sum over all points needs more than 53 bits: 2^-33 of the largest coordinate for
 * 500,000 points, less than a float can tell. Sums of doubles are then exact, and do not depend on
 * their order: the same model comes out on any number of workers.
 *
 * Threads: none while they are made; any, at the same time, to look. */
#ifndef RUBATO_ALGO_KMEANS_KMEANS_POINTS_H
#define RUBATO_ALGO_KMEANS_KMEANS_POINTS_H

#include "algo/frame/lookup.h"
#include "data/examples.h"
#include "math/nearest.h"

struct rbt_kmeans_space {
    size_t dims;
    uint64_t *keys; /* (dims): features, increasing */
    rbt_lookup *lookup;
    float *shift;          /* (dims): subtracted from dense points; else zero */
    double *rounders;      /* (dims): x + r - r is x rounded; 0: not rounded */
    double square_rounder; /* the same for |x|^2 */
    bool is_dense;
};

/* The space of the examples' features, for points of which sums have at most `addends` terms. Fails
 * with RBT_E_INVALID (too many features) and RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_kmeans_points_survey(const struct rbt_examples *examples,
                                                 double addends, struct rbt_kmeans_space *space);

/* One with these features and shifts, which are copied, without rounding. */
RBT_MUST_USE rbt_status rbt_kmeans_points_space(const uint64_t *keys, const float *shift,
                                                size_t dims, bool is_dense,
                                                struct rbt_kmeans_space *space);
void rbt_kmeans_points_leave(struct rbt_kmeans_space *space);

struct rbt_kmeans_points {
    const struct rbt_kmeans_space *space; /* borrowed */
    size_t count;
    float *matrix;     /* (count, dims) of a dense space, else NULL */
    uint64_t *offsets; /* (count + 1) of a sparse one */
    uint32_t *indices;
    float *values;
    double *squares; /* (count): |x|^2 */
};

/* Makes points, without features that the space does not know, of examples order[first .. first +
 * count - 1], or first, first + 1, ... if order is NULL, on all cores. Fails with RBT_E_NOMEM. */
struct rbt_kmeans_choice {
    const uint32_t *order;
    size_t first;
    size_t count;
};
RBT_MUST_USE rbt_status rbt_kmeans_points_take(const struct rbt_kmeans_space *space,
                                               const struct rbt_examples *examples,
                                               const struct rbt_kmeans_choice *choice,
                                               struct rbt_kmeans_points *points);
void rbt_kmeans_points_free(struct rbt_kmeans_points *points);

/* Writes point i as a dense row. */
void rbt_kmeans_points_row(const struct rbt_kmeans_points *points, size_t i, float *row);

/* sums += sign x_i. */
void rbt_kmeans_points_add(const struct rbt_kmeans_points *points, size_t i, double sign,
                           double *sums);

/* --- Centres --------------------------------------------------------------------------------- */

struct rbt_kmeans_centres {
    const struct rbt_kmeans_space *space; /* borrowed */
    size_t count;
    float *values;      /* (count, dims): the caller's to change */
    double *squares;    /* (count): |c|^2 */
    double square_max;  /* of them */
    float *packed;      /* panels or columns, math/nearest.h */
    float *halves;      /* (stride) */
    size_t panel_count; /* of 16 */
};

/* Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_kmeans_centres_make(const struct rbt_kmeans_space *space, size_t count,
                                                struct rbt_kmeans_centres *centres);
void rbt_kmeans_centres_free(struct rbt_kmeans_centres *centres);

/* Prepares for searching, after values have changed. */
void rbt_kmeans_centres_pack(struct rbt_kmeans_centres *centres);

/* The two nearest of points rows[0 .. count-1]. `scratch` has room for a float per centre, rounded
 * up to 16. */
struct rbt_kmeans_search {
    const uint32_t *rows;
    size_t count;
    float *scratch;
    struct rbt_nearest_found found;
};
void rbt_kmeans_centres_search(const struct rbt_kmeans_centres *centres,
                               const struct rbt_kmeans_points *points,
                               const struct rbt_kmeans_search *search);

/* out[i - begin] = |x_i - c|^2 of centre nearest[i], for points begin .. end-1. */
struct rbt_kmeans_look {
    size_t begin;
    size_t end;
    const uint32_t *nearest; /* of all points */
    float *out;
};
void rbt_kmeans_centres_distance(const struct rbt_kmeans_centres *centres,
                                 const struct rbt_kmeans_points *points,
                                 const struct rbt_kmeans_look *look);

#endif
