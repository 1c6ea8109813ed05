/* algo/kmeans/kmeans_points.c - examples as points, and centres that they can be compared with. */
#include "algo/kmeans/kmeans_points.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"
#include "data/sort.h"
#include "math/choose.h"

enum {
    DIMS_MAX = 1 << 20,   /* as wide as rows of models may be */
    FLAGS_MAX = 1 << 24,  /* keys up to here are marked, beyond they are sorted */
    EXACT_BITS = 52,      /* of sums; one less than doubles have, for rounding up */
    DENSE_SHARE = 10,     /* dense if one coordinate in so many is not zero */
    THREAD_POINTS = 4096, /* fewer are not worth a thread */
};

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for the points");
}

void rbt_kmeans_points_leave(struct rbt_kmeans_space *space)
{
    rbt_lookup_destroy(space->lookup);
    rbt_free(space->rounders);
    rbt_free(space->shift);
    rbt_free(space->keys);
    *space = (struct rbt_kmeans_space){0};
}

/* Different keys of all features, in order. */
static rbt_status list_keys(const struct rbt_examples *examples, uint64_t **keys, size_t *count)
{
    const size_t entries = examples->offsets[examples->count];
    uint64_t key_max = 0;
    for (size_t k = 0; k < entries; k++) {
        key_max = examples->keys[k] > key_max ? examples->keys[k] : key_max;
    }
    if (key_max > FLAGS_MAX) {
        struct rbt_sorted sorted = {0};
        uint32_t *positions = rbt_calloc(entries, sizeof *positions);
        const rbt_status st = positions == NULL
                                  ? no_memory()
                                  : rbt_sort_positions(examples->keys, entries, positions, &sorted);
        rbt_free(positions);
        *keys = sorted.keys;
        *count = sorted.count;
        return st;
    }
    uint8_t *flags = rbt_calloc(key_max + 1, 1);
    uint64_t *list = rbt_calloc(key_max + 1, sizeof *list);
    if (flags == NULL || list == NULL) {
        rbt_free(flags);
        rbt_free(list);
        return no_memory();
    }
    for (size_t k = 0; k < entries; k++) {
        flags[examples->keys[k]] = 1;
    }
    size_t found = 0;
    for (uint64_t key = 0; key <= key_max; key++) {
        list[found] = key;
        found += flags[key];
    }
    rbt_free(flags);
    *keys = list;
    *count = found;
    return RBT_OK;
}

rbt_status rbt_kmeans_points_space(const uint64_t *keys, const float *shift, size_t dims,
                                   bool is_dense, struct rbt_kmeans_space *space)
{
    struct rbt_kmeans_space made = {.dims = dims, .is_dense = is_dense};
    made.keys = rbt_calloc(dims, sizeof *made.keys);
    made.shift = rbt_calloc(dims, sizeof *made.shift);
    made.rounders = rbt_calloc(dims, sizeof *made.rounders);
    rbt_status st =
        made.keys == NULL || made.shift == NULL || made.rounders == NULL ? no_memory() : RBT_OK;
    if (st == RBT_OK) {
        memcpy(made.keys, keys, dims * sizeof *keys);
        if (shift != NULL) {
            memcpy(made.shift, shift, dims * sizeof *shift);
        }
        st = rbt_lookup_create(made.keys, dims, &made.lookup);
    }
    if (st != RBT_OK) {
        rbt_kmeans_points_leave(&made);
        return st;
    }
    *space = made;
    return RBT_OK;
}

/* What rounds numbers of at most `size` to a unit, so that `addends` of them have an exact sum. */
static double rounder(double size, double addends)
{
    int exponent = 0;
    int terms = 0;
    (void)frexp(size, &exponent);       /* size < 2^exponent */
    (void)frexp(addends - 0.5, &terms); /* addends <= 2^terms */
    const double unit = ldexp(1.0, exponent + terms - EXACT_BITS);
    return 1.5 * ldexp(unit, 52); /* the last bit of a double of this size is the unit */
}

static double round_to(double x, double rounder)
{
    return (x + rounder) - rounder; /* not in math/kernels.c: there it might be simplified */
}

/* Means of the coordinates of dense points, and the units. `sums` and `sizes` are (dims). Returns
 * the square of the farthest that a point can be from the mean. */
static double measure(const struct rbt_examples *examples, double addends,
                      struct rbt_kmeans_space *space, double *sums, double *sizes)
{
    const size_t entries = examples->offsets[examples->count];
    if (space->is_dense) {
        for (size_t k = 0; k < entries; k++) {
            sums[rbt_lookup_find(space->lookup, examples->keys[k])] += (double)examples->values[k];
        }
    }
    for (size_t j = 0; j < space->dims; j++) {
        space->shift[j] = (float)(sums[j] / (double)examples->count);
        sizes[j] = fabs((double)space->shift[j]); /* of a zero */
    }
    for (size_t k = 0; k < entries; k++) {
        const uint32_t j = rbt_lookup_find(space->lookup, examples->keys[k]);
        const double size = fabs((double)examples->values[k] - (double)space->shift[j]);
        sizes[j] = size > sizes[j] ? size : sizes[j];
    }
    double square = 0.0;
    for (size_t j = 0; j < space->dims; j++) {
        space->rounders[j] = rounder(sizes[j], addends);
        square += sizes[j] * sizes[j];
    }
    space->square_rounder = rounder(square, addends);
    return square;
}

rbt_status rbt_kmeans_points_survey(const struct rbt_examples *examples, double addends,
                                    struct rbt_kmeans_space *space)
{
    uint64_t *keys = NULL;
    size_t dims = 0;
    rbt_status st = list_keys(examples, &keys, &dims);
    if (st == RBT_OK && dims > DIMS_MAX) {
        st = rbt_fail(RBT_E_INVALID, "the data has %zu features; k-means takes up to %d", dims,
                      DIMS_MAX);
    }
    if (st == RBT_OK && dims == 0) {
        st = rbt_fail(RBT_E_DATA, "all points are zero");
    }
    if (st == RBT_OK) {
        const double cells = (double)dims * (double)examples->count;
        const double entries = (double)examples->offsets[examples->count];
        st = rbt_kmeans_points_space(keys, NULL, dims, entries * DENSE_SHARE >= cells, space);
    }
    rbt_free(keys);
    if (st != RBT_OK) {
        return st;
    }
    double *sums = rbt_calloc(dims, sizeof *sums);
    double *sizes = rbt_calloc(dims, sizeof *sizes);
    if (sums == NULL || sizes == NULL) {
        st = no_memory();
    } else if (!(4.0 * measure(examples, addends, space, sums, sizes) < (double)FLT_MAX)) {
        st = rbt_fail(RBT_E_DATA,
                      "distances between points overflow; divide the coordinates by a constant");
    }
    if (st != RBT_OK) {
        rbt_kmeans_points_leave(space);
    }
    rbt_free(sizes);
    rbt_free(sums);
    return st;
}

void rbt_kmeans_points_free(struct rbt_kmeans_points *points)
{
    rbt_free(points->squares);
    rbt_free(points->values);
    rbt_free(points->indices);
    rbt_free(points->offsets);
    rbt_free(points->matrix);
    *points = (struct rbt_kmeans_points){0};
}

/* What the threads that fill the points share. */
struct filling {
    const struct rbt_kmeans_space *space;
    const struct rbt_examples *examples;
    const struct rbt_kmeans_choice *choice;
    struct rbt_kmeans_points *points;
    const float *origin; /* (dims): a point without entries, of a dense space */
    uint32_t threads;
};

static size_t example_at(const struct rbt_kmeans_choice *choice, size_t i)
{
    return choice->order != NULL ? choice->order[choice->first + i] : choice->first + i;
}

static float place(const struct rbt_kmeans_space *space, size_t j, float value)
{
    const double x = (double)value - (double)space->shift[j];
    return (float)round_to(x, space->rounders[j]); /* still a multiple of the unit */
}

static double square_of(const float *x, size_t count)
{
    double sum = 0.0;
    for (size_t j = 0; j < count; j++) {
        sum += (double)x[j] * (double)x[j];
    }
    return sum;
}

/* Point i, without features that the space does not know. */
static void fill(const struct filling *filling, size_t i)
{
    const struct rbt_kmeans_space *space = filling->space;
    const struct rbt_examples *examples = filling->examples;
    struct rbt_kmeans_points *points = filling->points;
    const size_t from = example_at(filling->choice, i);
    const uint64_t begin = examples->offsets[from];
    const uint64_t end = examples->offsets[from + 1];
    float *row = points->matrix == NULL ? NULL : points->matrix + i * space->dims;
    uint64_t at = row == NULL ? points->offsets[i] : 0;
    if (row != NULL) {
        memcpy(row, filling->origin, space->dims * sizeof *row);
    }
    for (uint64_t k = begin; k < end; k++) {
        const uint32_t j = rbt_lookup_find(space->lookup, examples->keys[k]);
        const float value = examples->values[k];
        if (j == RBT_LOOKUP_MISSING) {
            continue;
        }
        if (row != NULL) {
            row[j] = place(space, j, value);
        } else {
            points->indices[at] = j;
            points->values[at++] = place(space, j, value);
        }
    }
    /* There was room for unknown features, too: zeros. */
    for (; row == NULL && at < points->offsets[i + 1]; at++) {
        points->indices[at] = 0;
        points->values[at] = 0.0F;
    }
    const double square =
        row != NULL ? square_of(row, space->dims)
                    : square_of(points->values + points->offsets[i], (size_t)(end - begin));
    points->squares[i] = round_to(square, space->square_rounder);
}

static rbt_status fill_part(void *argument, uint32_t index)
{
    const struct filling *filling = argument;
    const size_t count = filling->points->count;
    for (size_t i = count * index / filling->threads; i < count * (index + 1) / filling->threads;
         i++) {
        fill(filling, i);
    }
    return RBT_OK;
}

static bool make_room(const struct rbt_examples *examples, const struct rbt_kmeans_choice *choice,
                      struct rbt_kmeans_points *points)
{
    const size_t count = choice->count;
    points->squares = rbt_calloc(count, sizeof *points->squares);
    if (points->space->is_dense) {
        points->matrix = rbt_calloc(count * points->space->dims, sizeof *points->matrix);
        return points->squares != NULL && points->matrix != NULL;
    }
    points->offsets = rbt_calloc(count + 1, sizeof *points->offsets);
    if (points->offsets == NULL) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const size_t from = example_at(choice, i);
        points->offsets[i + 1] =
            points->offsets[i] + examples->offsets[from + 1] - examples->offsets[from];
    }
    points->indices = rbt_calloc(points->offsets[count], sizeof *points->indices);
    points->values = rbt_calloc(points->offsets[count], sizeof *points->values);
    return points->squares != NULL && points->indices != NULL && points->values != NULL;
}

rbt_status rbt_kmeans_points_take(const struct rbt_kmeans_space *space,
                                  const struct rbt_examples *examples,
                                  const struct rbt_kmeans_choice *choice,
                                  struct rbt_kmeans_points *points)
{
    struct rbt_kmeans_points made = {.space = space, .count = choice->count};
    float *origin = rbt_calloc(space->dims, sizeof *origin);
    rbt_status st = origin == NULL || !make_room(examples, choice, &made) ? no_memory() : RBT_OK;
    if (st == RBT_OK) {
        for (size_t j = 0; j < space->dims; j++) {
            origin[j] = place(space, j, 0.0F);
        }
        struct filling filling = {space, examples, choice, &made, origin, rbt_thread_cores()};
        filling.threads = made.count < THREAD_POINTS ? 1 : filling.threads;
        st = rbt_thread_run(filling.threads, fill_part, &filling);
    }
    rbt_free(origin);
    if (st != RBT_OK) {
        rbt_kmeans_points_free(&made);
        return st;
    }
    *points = made;
    return RBT_OK;
}

void rbt_kmeans_points_row(const struct rbt_kmeans_points *points, size_t i, float *row)
{
    const size_t dims = points->space->dims;
    if (points->matrix != NULL) {
        memcpy(row, points->matrix + i * dims, dims * sizeof *row);
        return;
    }
    memset(row, 0, dims * sizeof *row);
    for (uint64_t k = points->offsets[i]; k < points->offsets[i + 1]; k++) {
        row[points->indices[k]] += points->values[k];
    }
}

void rbt_kmeans_points_add(const struct rbt_kmeans_points *points, size_t i, double sign,
                           double *sums)
{
    if (points->matrix != NULL) {
        const float *x = points->matrix + i * points->space->dims;
        for (size_t j = 0; j < points->space->dims; j++) {
            sums[j] += sign * (double)x[j];
        }
        return;
    }
    for (uint64_t k = points->offsets[i]; k < points->offsets[i + 1]; k++) {
        sums[points->indices[k]] += sign * (double)points->values[k];
    }
}

/* --- Centres --------------------------------------------------------------------------------- */

rbt_status rbt_kmeans_centres_make(const struct rbt_kmeans_space *space, size_t count,
                                   struct rbt_kmeans_centres *centres)
{
    const size_t panels = (count + RBT_NEAREST_PANEL - 1) / RBT_NEAREST_PANEL;
    const size_t stride = panels * RBT_NEAREST_PANEL;
    struct rbt_kmeans_centres made = {.space = space, .count = count, .panel_count = panels};
    made.values = rbt_calloc(count * space->dims, sizeof *made.values);
    made.squares = rbt_calloc(count, sizeof *made.squares);
    /* rbt_calloc() aligns what has 64 bytes or more, and a row of a panel has. */
    made.packed = rbt_calloc(stride * space->dims, sizeof *made.packed);
    made.halves = rbt_calloc(stride, sizeof *made.halves);
    if (made.values == NULL || made.squares == NULL || made.packed == NULL || made.halves == NULL) {
        rbt_kmeans_centres_free(&made);
        return rbt_fail(RBT_E_NOMEM, "no memory for %zu centres of %zu coordinates", count,
                        space->dims);
    }
    *centres = made;
    return RBT_OK;
}

void rbt_kmeans_centres_free(struct rbt_kmeans_centres *centres)
{
    rbt_free(centres->halves);
    rbt_free(centres->packed);
    rbt_free(centres->squares);
    rbt_free(centres->values);
    *centres = (struct rbt_kmeans_centres){0};
}

void rbt_kmeans_centres_pack(struct rbt_kmeans_centres *centres)
{
    const size_t dims = centres->space->dims;
    const size_t stride = centres->panel_count * RBT_NEAREST_PANEL;
    centres->square_max = 0.0;
    for (size_t c = 0; c < stride; c++) {
        if (c >= centres->count) {
            centres->halves[c] = INFINITY;
            continue;
        }
        const float *row = centres->values + c * dims;
        float *to = centres->space->is_dense
                        ? centres->packed + c / RBT_NEAREST_PANEL * dims * RBT_NEAREST_PANEL +
                              c % RBT_NEAREST_PANEL
                        : centres->packed + c;
        const size_t step = centres->space->is_dense ? (size_t)RBT_NEAREST_PANEL : stride;
        for (size_t j = 0; j < dims; j++) {
            to[j * step] = row[j];
        }
        centres->squares[c] = square_of(row, dims);
        centres->halves[c] = (float)(0.5 * centres->squares[c]);
        centres->square_max = fmax(centres->square_max, centres->squares[c]);
    }
}

void rbt_kmeans_centres_search(const struct rbt_kmeans_centres *centres,
                               const struct rbt_kmeans_points *points,
                               const struct rbt_kmeans_search *search)
{
    if (points->matrix != NULL) {
        const struct rbt_nearest_run run = {.points = points->matrix,
                                            .dims = points->space->dims,
                                            .rows = search->rows,
                                            .count = search->count,
                                            .panels = centres->packed,
                                            .halves = centres->halves,
                                            .panel_count = centres->panel_count,
                                            .found = search->found};
        rbt_choose_kernels()->nearest(&run);
        return;
    }
    const struct rbt_nearest_sparse_run run = {.offsets = points->offsets,
                                               .indices = points->indices,
                                               .values = points->values,
                                               .rows = search->rows,
                                               .count = search->count,
                                               .columns = centres->packed,
                                               .halves = centres->halves,
                                               .stride = centres->panel_count * RBT_NEAREST_PANEL,
                                               .scores = search->scratch,
                                               .found = search->found};
    rbt_choose_kernels()->nearest_sparse(&run);
}

void rbt_kmeans_centres_distance(const struct rbt_kmeans_centres *centres,
                                 const struct rbt_kmeans_points *points,
                                 const struct rbt_kmeans_look *look)
{
    const size_t dims = points->space->dims;
    if (points->matrix != NULL) {
        const struct rbt_distance_run run = {.points = points->matrix,
                                             .dims = dims,
                                             .begin = look->begin,
                                             .end = look->end,
                                             .centres = centres->values,
                                             .nearest = look->nearest,
                                             .out = look->out};
        rbt_choose_kernels()->distance(&run);
        return;
    }
    for (size_t i = look->begin; i < look->end; i++) {
        const uint64_t first = points->offsets[i];
        const struct rbt_sparse x = {.indices = points->indices + first,
                                     .values = points->values + first,
                                     .count = (size_t)(points->offsets[i + 1] - first)};
        const size_t c = look->nearest[i];
        const double product = rbt_choose_kernels()->sparse_dot(&x, centres->values + c * dims);
        const double square = points->squares[i] - 2.0 * product + centres->squares[c];
        look->out[i - look->begin] = (float)fmax(square, 0.0);
    }
}
