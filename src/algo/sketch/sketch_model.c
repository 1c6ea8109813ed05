/* algo/sketch/sketch_model.c - cells of a CountMin sketch, and what they say about keys. */
#include "algo/sketch/sketch_model.h"

#include <math.h>
#include <string.h>

#include "algo/frame/metrics.h"
#include "algo/sketch/sketch.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "data/sort.h"

enum { STREAM = 0x636d696e }; /* "cmin": whose random numbers these are */
enum { BATCH = 32 };          /* keys whose cells are on their way from memory at a time */
enum { HALF_BITS = 24 };      /* of a count, in a float */

struct rbt_sketch_shape rbt_sketch_model_shape(uint32_t depth, uint32_t width, uint64_t seed)
{
    struct rbt_sketch_shape shape = {.depth = depth, .width = width, .seed = seed};
    struct rbt_rng rng;
    rbt_rng_init(&rng, seed, STREAM, 0);
    for (uint32_t r = 0; r < depth; r++) {
        shape.multipliers[r] = rbt_rng_next(&rng) | 1;
    }
    return shape;
}

static size_t cell_count(const struct rbt_sketch_shape *shape)
{
    return (size_t)shape->depth * shape->width;
}

size_t rbt_sketch_model_rows(const struct rbt_sketch_shape *shape)
{
    return (cell_count(shape) + RBT_SKETCH_ROW - 1) / RBT_SKETCH_ROW;
}

static inline size_t cell_of(const struct rbt_sketch_shape *shape, uint32_t row, uint64_t hash)
{
    const uint64_t upper = (hash * shape->multipliers[row]) >> 32;
    return (size_t)row * shape->width + (size_t)((upper * shape->width) >> 32);
}

/* The loop of insert(); `depth` and whether there are counts are constants where it is called.
 * Cells are somewhere in many megabytes: those of the next keys are fetched while those before are
 * added to. */
static inline __attribute__((always_inline)) void
add_keys(const struct rbt_sketch_shape *restrict shape, const uint64_t *restrict hashes,
         const uint64_t *restrict counts, size_t count, int64_t *restrict cells, uint32_t depth)
{
    uint32_t at[2][BATCH * RBT_SKETCH_DEPTH_MAX];
    size_t ready = 0; /* keys whose cells are known */
    for (size_t batch = 0; batch * BATCH < count + BATCH; batch++) {
        uint32_t *next = at[batch % 2];
        const size_t begin = ready;
        ready = count - begin < BATCH ? count : begin + BATCH;
        for (size_t i = begin; i < ready; i++) {
            for (uint32_t r = 0; r < depth; r++) {
                const size_t cell = cell_of(shape, r, hashes[i]);
                __builtin_prefetch(cells + cell, 1);
                next[(i - begin) * depth + r] = (uint32_t)cell;
            }
        }
        if (batch == 0) {
            continue;
        }
        const uint32_t *last = at[(batch - 1) % 2];
        const size_t from = (batch - 1) * BATCH;
        for (size_t i = from; i < begin; i++) {
            const int64_t more = counts == NULL ? 1 : (int64_t)counts[i];
            for (uint32_t r = 0; r < depth; r++) {
                cells[last[(i - from) * depth + r]] += more;
            }
        }
    }
}

void rbt_sketch_model_insert(const struct rbt_sketch_shape *shape,
                             const struct rbt_sketch_stream *stream, size_t first, size_t end,
                             int64_t *cells)
{
    const uint64_t *hashes = stream->hashes + first;
    const uint64_t *counts = stream->counts == NULL ? NULL : stream->counts + first;
    const size_t count = end - first;
    if (shape->depth == 4 && counts == NULL) {
        add_keys(shape, hashes, NULL, count, cells, 4);
    } else if (counts == NULL) {
        add_keys(shape, hashes, NULL, count, cells, shape->depth);
    } else {
        add_keys(shape, hashes, counts, count, cells, shape->depth);
    }
}

uint64_t rbt_sketch_model_estimate(const struct rbt_sketch_shape *shape, const int64_t *cells,
                                   uint64_t hash)
{
    int64_t least = INT64_MAX;
    for (uint32_t r = 0; r < shape->depth; r++) {
        const int64_t cell = cells[cell_of(shape, r, hash)];
        least = cell < least ? cell : least;
    }
    return (uint64_t)least;
}

double rbt_sketch_model_bound(const struct rbt_sketch_shape *shape, double total)
{
    return M_E * total / (double)shape->width;
}

/* --- Models ---------------------------------------------------------------------------------- */

static bool has_count(const int64_t *row, size_t count, int bits)
{
    for (size_t i = 0; i < count; i++) {
        if (row[i] >> bits != 0) {
            return true;
        }
    }
    return false;
}

/* Cells of row `key` that there are. */
static size_t row_size(const struct rbt_sketch_shape *shape, size_t key)
{
    const size_t left = cell_count(shape) - key * RBT_SKETCH_ROW;
    return left < RBT_SKETCH_ROW ? left : RBT_SKETCH_ROW;
}

/* Adds the array of bits `shift` to shift + 23 of the cells; rows without any are left out. */
static rbt_status add_array(const struct rbt_sketch_shape *shape, const int64_t *cells, int shift,
                            struct rbt_model *model)
{
    const size_t rows = rbt_sketch_model_rows(shape);
    size_t count = 0;
    for (size_t key = 0; key < rows; key++) {
        count += has_count(cells + key * RBT_SKETCH_ROW, row_size(shape, key), shift) ? 1 : 0;
    }
    if (count == 0 && shift > 0) {
        return RBT_OK;
    }
    struct rbt_model_array *array = &model->arrays[model->array_count++];
    if (!rbt_model_array_make(array, shift > 0 ? "upper" : "cells", count, RBT_SKETCH_ROW)) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a sketch of %zu rows", count);
    }
    size_t at = 0;
    for (size_t key = 0; key < rows; key++) {
        const int64_t *row = cells + key * RBT_SKETCH_ROW;
        const size_t size = row_size(shape, key);
        if (!has_count(row, size, shift)) {
            continue;
        }
        array->keys[at] = key;
        for (size_t i = 0; i < size; i++) {
            const int64_t mask = ((int64_t)1 << HALF_BITS) - 1;
            array->values[at * RBT_SKETCH_ROW + i] = (float)((row[i] >> shift) & mask);
        }
        at++;
    }
    return RBT_OK;
}

rbt_status rbt_sketch_model_write(const struct rbt_sketch_shape *shape, const int64_t *cells,
                                  struct rbt_model *model)
{
    double total = 0.0;
    for (uint32_t i = 0; i < shape->width; i++) {
        total += (double)cells[i];
    }
    model->kind = RBT_MODEL_SKETCH;
    rbt_model_set(model, "depth", (double)shape->depth);
    rbt_model_set(model, "width", (double)shape->width);
    rbt_model_set(model, "total", total);
    rbt_model_set(model, "seed_lower", (double)(shape->seed & UINT32_MAX));
    rbt_model_set(model, "seed_upper", (double)(shape->seed >> 32));
    const rbt_status st = add_array(shape, cells, 0, model);
    return st != RBT_OK ? st : add_array(shape, cells, HALF_BITS, model);
}

/* A setting that is a whole number from `min` to `max`. */
static bool read_setting(const struct rbt_model *model, const char *name, double min, double max,
                         double *value)
{
    *value = rbt_model_setting(model, name, -1);
    return *value >= min && *value <= max && floor(*value) == *value;
}

/* Adds what an array holds to the cells. */
static bool read_array(const struct rbt_model *model, const char *name, double factor,
                       const struct rbt_sketch_shape *shape, int64_t *cells)
{
    const struct rbt_model_array *array = rbt_model_array_find(model, name);
    if (array == NULL) {
        return true;
    }
    const size_t rows = rbt_sketch_model_rows(shape);
    for (size_t k = 0; k < array->count * array->width; k++) {
        const size_t key = array->keys[k / array->width];
        const float value = array->values[k];
        if (array->width != RBT_SKETCH_ROW || key >= rows || !(value >= 0 && value < 0x1p24F)) {
            return false;
        }
        if (k % RBT_SKETCH_ROW < row_size(shape, key)) {
            cells[key * RBT_SKETCH_ROW + k % RBT_SKETCH_ROW] += (int64_t)((double)value * factor);
        }
    }
    return true;
}

rbt_status rbt_sketch_model_open(const struct rbt_model *model, struct rbt_sketch_shape *shape,
                                 int64_t **cells)
{
    double depth = 0;
    double width = 0;
    double lower = 0;
    double upper = 0;
    if (!read_setting(model, "depth", 1, RBT_SKETCH_DEPTH_MAX, &depth) ||
        !read_setting(model, "width", 1, 0x1p31, &width) ||
        !read_setting(model, "seed_lower", 0, UINT32_MAX, &lower) ||
        !read_setting(model, "seed_upper", 0, UINT32_MAX, &upper) || depth * width > 0x1p32) {
        return rbt_fail(RBT_E_DATA, "the model has no dimensions of its sketch");
    }
    *shape = rbt_sketch_model_shape((uint32_t)depth, (uint32_t)width,
                                    (uint64_t)upper << 32 | (uint64_t)lower);
    int64_t *made = rbt_calloc(rbt_sketch_model_rows(shape) * RBT_SKETCH_ROW, sizeof *made);
    if (made == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a sketch of %zu cells", cell_count(shape));
    }
    if (!read_array(model, "cells", 1, shape, made) ||
        !read_array(model, "upper", 0x1p24, shape, made)) {
        rbt_free(made);
        return rbt_fail(RBT_E_DATA, "the model's cells do not fit its sketch");
    }
    *cells = made;
    return RBT_OK;
}

/* --- Estimates ------------------------------------------------------------------------------- */

/* How estimates compare with the truth. */
struct errors {
    double sum;
    double most;
    size_t within; /* the bound */
    size_t below;  /* the truth: never */
};

static rbt_status add_up(const struct rbt_sketch_stream *stream, struct rbt_sorted *sorted,
                         uint64_t **truth)
{
    uint32_t *positions = rbt_calloc(stream->count, sizeof *positions);
    rbt_status st = positions == NULL
                        ? rbt_fail(RBT_E_NOMEM, "no memory to count %zu keys", stream->count)
                        : rbt_sort_positions(stream->hashes, stream->count, positions, sorted);
    uint64_t *counts = st == RBT_OK ? rbt_calloc(sorted->count, sizeof *counts) : NULL;
    if (st == RBT_OK && counts == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory to count %zu keys", sorted->count);
    }
    for (size_t i = 0; st == RBT_OK && i < stream->count; i++) {
        counts[positions[i]] += stream->counts == NULL ? 1 : stream->counts[i];
    }
    rbt_free(positions);
    *truth = counts;
    return st;
}

rbt_status rbt_sketch_model_measure(const struct rbt_model *model,
                                    const struct rbt_sketch_stream *stream,
                                    struct rbt_metrics *metrics)
{
    struct rbt_sketch_shape shape;
    int64_t *cells = NULL;
    struct rbt_sorted sorted = {0};
    uint64_t *truth = NULL;
    rbt_status st = rbt_sketch_model_open(model, &shape, &cells);
    st = st != RBT_OK ? st : add_up(stream, &sorted, &truth);
    if (st == RBT_OK) {
        const double total = rbt_model_setting(model, "total", 0);
        const double bound = rbt_sketch_model_bound(&shape, total);
        struct errors errors = {0};
        for (size_t i = 0; i < sorted.count; i++) {
            const uint64_t estimate = rbt_sketch_model_estimate(&shape, cells, sorted.keys[i]);
            const double error = (double)estimate - (double)truth[i];
            errors.sum += error;
            errors.most = fmax(errors.most, error);
            errors.within += error <= bound ? 1 : 0;
            errors.below += error < 0 ? 1 : 0;
        }
        const double n = (double)sorted.count;
        rbt_metrics_add(metrics, "keys", n);
        rbt_metrics_add(metrics, "error_mean", errors.sum / n);
        rbt_metrics_add(metrics, "error_max", errors.most);
        rbt_metrics_add(metrics, "bound", bound);
        rbt_metrics_add(metrics, "within", (double)errors.within / n);
        rbt_metrics_add(metrics, "below", (double)errors.below);
    }
    rbt_free(truth);
    rbt_free(sorted.keys);
    rbt_free(cells);
    return st;
}

static rbt_status read_stream(const struct rbt_predict_options *options,
                              struct rbt_sketch_stream *stream)
{
    if (options->format != RBT_FORMAT_AUTO) {
        return rbt_fail(
            RBT_E_INVALID,
            "option \"--format\" does not apply to a stream, which has one key per line");
    }
    return rbt_sketch_stream_read(&options->data, stream);
}

rbt_status rbt_sketch_model_predict(const struct rbt_model *model,
                                    const struct rbt_predict_options *options)
{
    struct rbt_sketch_stream stream = {0};
    struct rbt_sketch_shape shape;
    int64_t *cells = NULL;
    rbt_status st = read_stream(options, &stream);
    st = st != RBT_OK ? st : rbt_sketch_model_open(model, &shape, &cells);
    for (size_t i = 0; st == RBT_OK && i < stream.count; i++) {
        const uint64_t estimate = rbt_sketch_model_estimate(&shape, cells, stream.hashes[i]);
        fprintf(options->out, "%llu\n", (unsigned long long)estimate);
    }
    rbt_free(cells);
    rbt_sketch_stream_free(&stream);
    return st;
}

rbt_status rbt_sketch_model_evaluate(const struct rbt_model *model,
                                     const struct rbt_predict_options *options,
                                     struct rbt_metrics *metrics)
{
    struct rbt_sketch_stream stream = {0};
    rbt_status st = read_stream(options, &stream);
    *metrics = (struct rbt_metrics){0};
    st = st != RBT_OK ? st : rbt_sketch_model_measure(model, &stream, metrics);
    rbt_sketch_stream_free(&stream);
    return st;
}

static rbt_status write_csv(const struct rbt_model *model, FILE *out)
{
    struct rbt_sketch_shape shape;
    int64_t *cells = NULL;
    const rbt_status st = rbt_sketch_model_open(model, &shape, &cells);
    if (st != RBT_OK) {
        return st;
    }
    fprintf(out, "row,column,count\n");
    for (size_t i = 0; i < cell_count(&shape); i++) {
        if (cells[i] > 0) {
            fprintf(out, "%zu,%zu,%lld\n", i / shape.width, i % shape.width, (long long)cells[i]);
        }
    }
    rbt_free(cells);
    return RBT_OK;
}

const struct rbt_algo_export rbt_sketch_model_exports[] = {
    {"csv", "a line per cell that is not zero: row, column, count", write_csv}, {0}};
