/* algo/kmeans/kmeans_init.c - where centres begin.
 *
 * k-means++ takes a random point as the first centre, and then points one by one, each with a
 * probability in proportion to D(x) = min |x - c|^2 over the centres so far. Of 2 + log k points
 * drawn so, the one that makes the sum of D smallest is taken (greedy k-means++). Where two of few
 * clusters get one centre together, much is lost that Lloyd's steps do not bring back: of up to 64
 * centres five sets are drawn, and the one with the smallest sum of D is taken.
 *
 * It looks at the first max(20000, 20 k) points, which are a random sample since points come in
 * random order. What it costs does not grow with the data, so every process draws the centres for
 * itself, from the same seed, instead of sending points and distances round.
 *
 * Most distances need not be computed: a point whose centre is at least 2 sqrt(D) away from the
 * candidate is not nearer to that (the triangle inequality). Centres of sparse data are dense, and
 * their distances cost more than they save.
 *
 * Sums are made of sums of blocks, so that results do not depend on the number of threads. */
#include "algo/kmeans/kmeans_init.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "base/thread.h"
#include "math/choose.h"

enum {
    STREAM = 0x6b6d2b2b, /* "km++": whose random numbers these are */
    SAMPLE_MIN = 20000,
    SAMPLE_PER_CENTRE = 20,
    BLOCK = 256,     /* points whose distances are added up together */
    TRIALS_MAX = 32, /* 2 + log k for any k */
    SETS = 5,        /* of centres that are drawn, */
    SETS_K_MAX = 64, /* if they are not more than this */
};

struct drawing {
    const struct rbt_kmeans_points *points;
    size_t count;       /* of the sample */
    size_t block_count; /* of BLOCK points */
    uint32_t threads;
    size_t trials;
    struct rbt_kmeans_centres candidates;
    uint32_t *nearest; /* (trials, BLOCK): candidate t in row t, as a search expects it */
    float *distances;  /* (count): D */
    uint32_t *owners;  /* (count): which centre has it */
    float *gaps;       /* (trials, k): squared distances of candidates to centres; or NULL */
    size_t k;
    float *tried; /* (trials, count): min of D and the distance to candidate t */
    double *sums; /* (trials, block_count): of them */
};

void rbt_kmeans_init_random(const struct rbt_kmeans_points *points,
                            struct rbt_kmeans_centres *centres)
{
    for (size_t c = 0; c < centres->count; c++) {
        rbt_kmeans_points_row(points, c, centres->values + c * points->space->dims);
    }
}

static void drawing_free(struct drawing *drawing)
{
    rbt_free(drawing->sums);
    rbt_free(drawing->tried);
    rbt_free(drawing->gaps);
    rbt_free(drawing->owners);
    rbt_free(drawing->distances);
    rbt_free(drawing->nearest);
    rbt_kmeans_centres_free(&drawing->candidates);
}

static rbt_status drawing_make(const struct rbt_kmeans_points *points, size_t k,
                               struct drawing *drawing)
{
    const size_t wanted = k * SAMPLE_PER_CENTRE > SAMPLE_MIN ? k * SAMPLE_PER_CENTRE : SAMPLE_MIN;
    const size_t count = points->count < wanted ? points->count : wanted;
    const size_t blocks = (count + BLOCK - 1) / BLOCK;
    const size_t trials = 2 + (size_t)log((double)k);
    const uint32_t cores = rbt_thread_cores();
    *drawing = (struct drawing){.points = points,
                                .count = count,
                                .block_count = blocks,
                                .k = k,
                                .threads = blocks < 4 * (size_t)cores ? 1 : cores,
                                .trials = trials < TRIALS_MAX ? trials : TRIALS_MAX};
    drawing->nearest = rbt_calloc(drawing->trials * count, sizeof *drawing->nearest);
    drawing->distances = rbt_calloc(count, sizeof *drawing->distances);
    drawing->owners = rbt_calloc(count, sizeof *drawing->owners);
    if (points->matrix != NULL) {
        drawing->gaps = rbt_calloc(drawing->trials * k, sizeof *drawing->gaps);
    }
    drawing->tried = rbt_calloc(drawing->trials * count, sizeof *drawing->tried);
    drawing->sums = rbt_calloc(drawing->trials * blocks, sizeof *drawing->sums);
    if (drawing->nearest == NULL || drawing->distances == NULL || drawing->tried == NULL ||
        drawing->sums == NULL || drawing->owners == NULL ||
        (points->matrix != NULL && drawing->gaps == NULL)) {
        return rbt_fail(RBT_E_NOMEM, "no memory for distances of %zu points", count);
    }
    for (size_t t = 0; t < drawing->trials; t++) {
        for (size_t i = 0; i < count; i++) {
            drawing->nearest[t * count + i] = (uint32_t)t;
        }
    }
    return rbt_kmeans_centres_make(points->space, drawing->trials, &drawing->candidates);
}

/* Whether candidate t could be nearer to point i than its centre is; rounding is allowed for. */
static bool may_gain(const struct drawing *drawing, size_t t, size_t i)
{
    return drawing->gaps == NULL ||
           !(drawing->gaps[t * drawing->k + drawing->owners[i]] > 4.001F * drawing->distances[i]);
}

/* Tries candidate t on points begin .. end-1; returns the sum of what D would be. */
static double try_block(struct drawing *drawing, size_t t, size_t begin, size_t end)
{
    float *tried = drawing->tried + t * drawing->count;
    for (size_t i = begin; i < end;) {
        size_t last = i;
        while (last < end && may_gain(drawing, t, last)) {
            last++;
        }
        if (last > i) {
            const struct rbt_kmeans_look look = {i, last, drawing->nearest + t * drawing->count,
                                                 tried + i};
            rbt_kmeans_centres_distance(&drawing->candidates, drawing->points, &look);
        }
        for (i = last; i < end && !may_gain(drawing, t, i); i++) {
            tried[i] = drawing->distances[i];
        }
    }
    double sum = 0.0;
    for (size_t i = begin; i < end; i++) {
        tried[i] = fminf(tried[i], drawing->distances[i]);
        sum += (double)tried[i];
    }
    return sum;
}

/* Tries all candidates on a thread's blocks; a block is looked at once, while it is in the cache.
 */
static rbt_status try_part(void *argument, uint32_t index)
{
    struct drawing *drawing = argument;
    const size_t first = drawing->block_count * index / drawing->threads;
    const size_t last = drawing->block_count * (index + 1) / drawing->threads;
    for (size_t block = first; block < last; block++) {
        const size_t begin = block * BLOCK;
        const size_t end = begin + BLOCK < drawing->count ? begin + BLOCK : drawing->count;
        for (size_t t = 0; t < drawing->trials; t++) {
            drawing->sums[t * drawing->block_count + block] = try_block(drawing, t, begin, end);
        }
    }
    return RBT_OK;
}

static double total(const struct drawing *drawing, size_t trial)
{
    double sum = 0.0;
    for (size_t block = 0; block < drawing->block_count; block++) {
        sum += drawing->sums[trial * drawing->block_count + block];
    }
    return sum;
}

/* A point with a probability in proportion to its distance, whose sums by block are `sums`. */
static size_t draw(const struct drawing *drawing, const double *sums, double sum,
                   struct rbt_rng *rng)
{
    double left = rbt_rng_uniform(rng) * sum;
    size_t block = 0;
    while (block + 1 < drawing->block_count && left >= sums[block]) {
        left -= sums[block++];
    }
    const size_t begin = block * BLOCK;
    const size_t end = begin + BLOCK < drawing->count ? begin + BLOCK : drawing->count;
    size_t i = begin;
    while (i + 1 < end && left >= (double)drawing->distances[i]) {
        left -= (double)drawing->distances[i++];
    }
    return i;
}

/* Takes the best of the candidates; `sums` become those of the new distances. */
static double settle(struct drawing *drawing, size_t c, float *centre, double *sums)
{
    size_t best = 0;
    double least = INFINITY;
    for (size_t t = 0; t < drawing->trials; t++) {
        const double sum = total(drawing, t);
        if (sum < least) {
            least = sum;
            best = t;
        }
    }
    const size_t dims = drawing->points->space->dims;
    memcpy(centre, drawing->candidates.values + best * dims, dims * sizeof *centre);
    const float *tried = drawing->tried + best * drawing->count;
    for (size_t i = 0; i < drawing->count; i++) {
        drawing->owners[i] = tried[i] < drawing->distances[i] ? (uint32_t)c : drawing->owners[i];
    }
    memcpy(drawing->distances, drawing->tried + best * drawing->count,
           drawing->count * sizeof *drawing->distances);
    memcpy(sums, drawing->sums + best * drawing->block_count, drawing->block_count * sizeof *sums);
    return least;
}

/* Distances of the candidates to the first `count` centres. */
static void find_gaps(struct drawing *drawing, const float *centres, size_t count)
{
    for (size_t t = 0; drawing->gaps != NULL && t < drawing->trials; t++) {
        const struct rbt_distance_run run = {.points = centres,
                                             .dims = drawing->points->space->dims,
                                             .begin = 0,
                                             .end = count,
                                             .centres = drawing->candidates.values,
                                             .nearest = drawing->nearest + t * drawing->count,
                                             .out = drawing->gaps + t * drawing->k};
        rbt_choose_kernels()->distance(&run);
    }
}

/* Draws a set of centres; `least` becomes the sum of D. */
static rbt_status draw_set(struct drawing *drawing, struct rbt_rng *rng, double *sums,
                           float *values, double *least)
{
    const size_t dims = drawing->points->space->dims;
    double sum = 0.0;
    for (size_t i = 0; i < drawing->count; i++) {
        drawing->distances[i] = INFINITY;
        drawing->owners[i] = 0;
    }
    for (size_t c = 0; c < drawing->k; c++) {
        for (size_t t = 0; t < drawing->trials; t++) {
            /* Without a distance all points are on centres already: any will do. */
            const size_t i = c == 0 || !(sum > 0.0) ? rbt_rng_below(rng, drawing->count)
                                                    : draw(drawing, sums, sum, rng);
            rbt_kmeans_points_row(drawing->points, i, drawing->candidates.values + t * dims);
        }
        rbt_kmeans_centres_pack(&drawing->candidates);
        find_gaps(drawing, values, c);
        const rbt_status st = rbt_thread_run(drawing->threads, try_part, drawing);
        if (st != RBT_OK) {
            return st;
        }
        sum = settle(drawing, c, values + c * dims, sums);
    }
    *least = sum;
    return RBT_OK;
}

/* Draws sets of centres and keeps the best. */
static rbt_status draw_all(struct drawing *drawing, uint64_t seed, double *sums,
                           struct rbt_kmeans_centres *centres)
{
    const size_t size = drawing->k * drawing->points->space->dims;
    const uint64_t sets = drawing->k <= SETS_K_MAX ? SETS : 1;
    float *values = rbt_calloc(size, sizeof *values);
    double best = INFINITY;
    rbt_status st = values != NULL ? RBT_OK : rbt_fail(RBT_E_NOMEM, "no memory for first centres");
    for (uint64_t s = 0; s < sets && st == RBT_OK; s++) {
        struct rbt_rng rng;
        double sum = 0.0;
        rbt_rng_init(&rng, seed, STREAM, s);
        st = draw_set(drawing, &rng, sums, values, &sum);
        if (st == RBT_OK && (s == 0 || sum < best)) {
            memcpy(centres->values, values, size * sizeof *values);
            best = sum;
        }
    }
    rbt_free(values);
    return st;
}

rbt_status rbt_kmeans_init_plus(const struct rbt_kmeans_points *points, uint64_t seed,
                                struct rbt_kmeans_centres *centres)
{
    struct drawing drawing;
    rbt_status st = drawing_make(points, centres->count, &drawing);
    double *sums = st == RBT_OK ? rbt_calloc(drawing.block_count, sizeof *sums) : NULL;
    if (st == RBT_OK) {
        st = sums != NULL ? draw_all(&drawing, seed, sums, centres)
                          : rbt_fail(RBT_E_NOMEM, "no memory for sums of distances");
    }
    rbt_free(sums);
    drawing_free(&drawing);
    return st;
}
