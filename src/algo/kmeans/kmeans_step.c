/* algo/kmeans/kmeans_step.c - what a worker does in a clock: centres from rows, and points to
 * centres. The mathematics is in kmeans.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/kmeans/kmeans_job.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/rng.h"

static const double split_step = 0.1; /* standard deviations: about half of the points are nearer */

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory to fill empty clusters");
}

/* The sum of squared distances in a cluster. */
struct weight {
    double squares;
    size_t centre;
};

static int compare_weights(const void *a, const void *b)
{
    const struct weight *x = a;
    const struct weight *y = b;
    if (x->squares != y->squares) {
        return x->squares > y->squares ? -1 : 1;
    }
    return x->centre < y->centre ? -1 : 1;
}

double rbt_kmeans_step_count(const struct rbt_kmeans_job *job, const double *rows, size_t c)
{
    return rows[c * job->width + job->space.dims + 1];
}

static double squares_of(const struct rbt_kmeans_job *job, const double *rows, size_t c)
{
    const double *row = rows + c * job->width;
    const double n = rbt_kmeans_step_count(job, rows, c);
    double sum = 0.0;
    for (size_t j = 0; n > 0 && j < job->space.dims; j++) {
        sum += row[j] * row[j];
    }
    return n > 0 ? fmax(row[job->space.dims] - sum / n, 0.0) : 0.0;
}

/* Puts the clusters without points beside others. */
static rbt_status fill_empty(const struct rbt_kmeans_job *job, const double *rows, float *values)
{
    const size_t dims = job->space.dims;
    struct weight *weights = rbt_calloc(job->k, sizeof *weights);
    if (weights == NULL) {
        return no_memory();
    }
    for (size_t c = 0; c < job->k; c++) {
        weights[c] = (struct weight){squares_of(job, rows, c), c};
    }
    qsort(weights, job->k, sizeof *weights, compare_weights);
    size_t next = 0;
    for (size_t c = 0; c < job->k; c++) {
        if (rbt_kmeans_step_count(job, rows, c) > 0) {
            continue;
        }
        const struct weight *donor = &weights[next++];
        const double n = fmax(rbt_kmeans_step_count(job, rows, donor->centre), 1.0);
        const double deviation = sqrt(donor->squares / (n * (double)dims));
        const uint64_t key = ((uint64_t)RBT_KMEANS_STREAM + c) ^ rbt_hash_key((uint64_t)n);
        for (size_t j = 0; j < dims; j++) {
            const double step = rbt_rng_normal_at((uint64_t)job->options->seed, key, j);
            values[c * dims + j] =
                (float)((double)values[donor->centre * dims + j] + split_step * deviation * step);
        }
    }
    rbt_free(weights);
    return RBT_OK;
}

/* values (k, dims) become the centres of the rows. */
rbt_status rbt_kmeans_step_settle(const struct rbt_kmeans_job *job, const double *rows,
                                  float *values)
{
    const size_t dims = job->space.dims;
    double total = 0.0;
    size_t empty_count = 0;
    for (size_t c = 0; c < job->k; c++) {
        const double n = rbt_kmeans_step_count(job, rows, c);
        total += n;
        empty_count += n > 0 ? 0 : 1;
        for (size_t j = 0; j < dims; j++) {
            values[c * dims + j] =
                n > 0 ? (float)(rows[c * job->width + j] / n) : job->initial.values[c * dims + j];
        }
    }
    /* Before all points are assigned, a cluster is only empty because others are late. */
    return empty_count > 0 && total >= (double)job->points.count ? fill_empty(job, rows, values)
                                                                 : RBT_OK;
}

/* The largest distance between a centre and where it was. */
static double largest_move(const struct rbt_kmeans_job *job, const float *now, const float *before)
{
    const size_t dims = job->space.dims;
    double most = 0.0;
    for (size_t c = 0; c < job->k; c++) {
        double sum = 0.0;
        for (size_t j = c * dims; j < (c + 1) * dims; j++) {
            const double d = (double)now[j] - (double)before[j];
            sum += d * d;
        }
        most = fmax(most, sum);
    }
    return sqrt(most);
}

/* Gets the centres of this clock. */
rbt_status rbt_kmeans_step_pull(const struct rbt_kmeans_job *job, struct rbt_kmeans_worker *w)
{
    rbt_status st = rbt_set_pull(w->set);
    if (st != RBT_OK) {
        return st;
    }
    const size_t bytes = job->k * job->space.dims * sizeof *w->before;
    memcpy(w->before, w->centres.values, bytes);
    st = rbt_kmeans_step_settle(job, rbt_set_values(w->set), w->centres.values);
    if (st == RBT_OK && w->has_before) {
        w->drift += largest_move(job, w->centres.values, w->before);
    }
    w->has_before = true;
    rbt_kmeans_centres_pack(&w->centres);
    return st;
}

void rbt_kmeans_step_count_in(const struct rbt_kmeans_job *job, double *deltas, size_t i,
                              uint32_t centre, double sign)
{
    double *row = deltas + centre * job->width;
    rbt_kmeans_points_add(&job->points, i, sign, row);
    row[job->space.dims] += sign * job->points.squares[i];
    row[job->space.dims + 1] += sign;
}

/* How near another centre can be, from the second smallest score: less what floats may be wrong by
 * in a product of so many terms. */
static float lower_bound(const struct rbt_kmeans_job *job, const struct rbt_kmeans_worker *w,
                         size_t i, float second)
{
    const struct rbt_kmeans_points *points = &job->points;
    const double terms = points->matrix != NULL
                             ? (double)job->space.dims
                             : (double)(points->offsets[i + 1] - points->offsets[i]);
    const double error = (terms + 16) * 0x1p-23 * (points->squares[i] + w->centres.square_max);
    const double square = points->squares[i] + 2.0 * (double)second - error;
    return (float)((sqrt(fmax(square, 0.0)) + w->drift) * (1 - 0x1p-20));
}

static void search(const struct rbt_kmeans_job *job, struct rbt_kmeans_worker *w, size_t count)
{
    const struct rbt_kmeans_search search = {.rows = w->rows,
                                             .count = count,
                                             .scratch = w->scratch,
                                             .found = {w->nearest, w->first, w->second}};
    rbt_kmeans_centres_search(&w->centres, &job->points, &search);
}

/* Lists those of points begin .. end-1 that may have changed; `distances` are to their centres. */
static size_t list_doubtful(const struct rbt_kmeans_job *job, struct rbt_kmeans_worker *w,
                            size_t begin, size_t end)
{
    size_t count = 0;
    for (size_t i = begin; i < end; i++) {
        const double bound = (double)job->lower[i] - w->drift;
        const double distance = (double)w->distances[i - begin];
        w->rows[count] = (uint32_t)i;
        count += bound > 0 && distance < bound * bound ? 0 : 1;
    }
    return count;
}

/* Lloyd's step for points begin .. end-1, at most RBT_KMEANS_BLOCK; returns how many were searched.
 */
static size_t step_lloyd(struct rbt_kmeans_job *job, struct rbt_kmeans_worker *w, size_t begin,
                         size_t end)
{
    double *deltas = rbt_set_deltas(w->set);
    const struct rbt_kmeans_look look = {begin, end, job->nearest, w->distances};
    const bool is_first =
        job->nearest[begin] == RBT_KMEANS_NO_CENTRE; /* a chunk is assigned as a whole */
    size_t count = end - begin;
    if (is_first) {
        for (size_t i = begin; i < end; i++) {
            w->rows[i - begin] = (uint32_t)i;
        }
    } else {
        rbt_kmeans_centres_distance(&w->centres, &job->points, &look);
        count = list_doubtful(job, w, begin, end);
    }
    search(job, w, count);
    bool has_changed = is_first;
    for (size_t r = 0; r < count; r++) {
        const size_t i = w->rows[r];
        job->lower[i] = lower_bound(job, w, i, w->second[r]);
        if (job->nearest[i] == w->nearest[r]) {
            continue;
        }
        if (!is_first) {
            rbt_kmeans_step_count_in(job, deltas, i, job->nearest[i], -1.0);
        }
        rbt_kmeans_step_count_in(job, deltas, i, w->nearest[r], 1.0);
        job->nearest[i] = w->nearest[r];
        has_changed = true;
    }
    if (has_changed) {
        rbt_kmeans_centres_distance(&w->centres, &job->points, &look);
    }
    return count;
}

/* The same with minibatches: nothing is remembered. */
static size_t step_batch(struct rbt_kmeans_job *job, struct rbt_kmeans_worker *w, size_t begin,
                         size_t end)
{
    double *deltas = rbt_set_deltas(w->set);
    for (size_t i = begin; i < end; i++) {
        w->rows[i - begin] = (uint32_t)i;
    }
    search(job, w, end - begin);
    for (size_t i = begin; i < end; i++) {
        job->nearest[i] = w->nearest[i - begin];
        rbt_kmeans_step_count_in(job, deltas, i, job->nearest[i], 1.0);
    }
    const struct rbt_kmeans_look look = {begin, end, job->nearest, w->distances};
    rbt_kmeans_centres_distance(&w->centres, &job->points, &look);
    return end - begin;
}

size_t rbt_kmeans_step_assign(struct rbt_kmeans_job *job, struct rbt_kmeans_worker *w, size_t begin,
                              size_t end, double *loss)
{
    size_t searched = 0;
    for (size_t first = begin; first < end; first += RBT_KMEANS_BLOCK) {
        const size_t last = end - first < RBT_KMEANS_BLOCK ? end : first + RBT_KMEANS_BLOCK;
        searched += job->config.batch > 0 ? step_batch(job, w, first, last)
                                          : step_lloyd(job, w, first, last);
        for (size_t i = 0; i < last - first; i++) {
            *loss += (double)w->distances[i];
        }
    }
    return searched;
}
