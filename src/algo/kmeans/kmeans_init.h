/* algo/kmeans/kmeans_init.h - where centres begin. Threads: makes its own. */
#ifndef RUBATO_ALGO_KMEANS_KMEANS_INIT_H
#define RUBATO_ALGO_KMEANS_KMEANS_INIT_H

#include "algo/kmeans/kmeans_points.h"

/* The first points, which are in random order. */
void rbt_kmeans_init_random(const struct rbt_kmeans_points *points,
                            struct rbt_kmeans_centres *centres);

/* k-means++ on a sample of the points. Fails with RBT_E_NOMEM or RBT_E_IO. */
RBT_MUST_USE rbt_status rbt_kmeans_init_plus(const struct rbt_kmeans_points *points, uint64_t seed,
                                             struct rbt_kmeans_centres *centres);

#endif
