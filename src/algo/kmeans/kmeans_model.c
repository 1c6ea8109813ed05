/* algo/kmeans/kmeans_model.c - what centres say about points. */
#include "algo/kmeans/kmeans_model.h"

#include <string.h>

#include "algo/frame/column_options.h"
#include "algo/frame/inputs.h"
#include "algo/frame/metrics.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

enum { BLOCK = 1024 }; /* points that are searched and added up together */

/* Reads examples as those that the model was trained on were read. */
static rbt_status read_examples(const struct rbt_model *model,
                                const struct rbt_predict_options *options,
                                struct rbt_examples *examples)
{
    struct rbt_data_options data = rbt_inputs_prediction(options);
    data.is_unlabelled = !(rbt_model_setting(model, "labelled", 0) > 0);
    data.ignores_label = true;
    return rbt_inputs_read(model, &data, examples, NULL);
}

/* What the threads of rbt_kmeans_model_assign() share. */
struct assignment {
    const struct rbt_kmeans_centres *centres;
    const struct rbt_kmeans_points *points;
    uint32_t *nearest;
    double *sums; /* of blocks */
    size_t block_count;
    uint32_t threads;
};

/* Scratch of a thread. */
struct scratch {
    uint32_t rows[BLOCK];
    float first[BLOCK];
    float second[BLOCK];
    float scores[];
};

static void assign_block(const struct assignment *assignment, struct scratch *scratch, size_t block)
{
    const size_t begin = block * BLOCK;
    const size_t left = assignment->points->count - begin;
    const size_t count = left < BLOCK ? left : BLOCK;
    for (size_t i = 0; i < count; i++) {
        scratch->rows[i] = (uint32_t)(begin + i);
    }
    const struct rbt_kmeans_search search = {
        .rows = scratch->rows,
        .count = count,
        .scratch = scratch->scores,
        .found = {assignment->nearest + begin, scratch->first, scratch->second}};
    rbt_kmeans_centres_search(assignment->centres, assignment->points, &search);
    const struct rbt_kmeans_look look = {begin, begin + count, assignment->nearest, scratch->first};
    rbt_kmeans_centres_distance(assignment->centres, assignment->points, &look);
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) {
        sum += (double)scratch->first[i];
    }
    assignment->sums[block] = sum;
}

static rbt_status assign_part(void *argument, uint32_t index)
{
    const struct assignment *assignment = argument;
    const size_t stride = assignment->centres->panel_count * RBT_NEAREST_PANEL;
    struct scratch *scratch = rbt_calloc(1, sizeof *scratch + stride * sizeof scratch->scores[0]);
    if (scratch == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for distances to %zu centres", stride);
    }
    const size_t first = assignment->block_count * index / assignment->threads;
    const size_t last = assignment->block_count * (index + 1) / assignment->threads;
    for (size_t block = first; block < last; block++) {
        assign_block(assignment, scratch, block);
    }
    rbt_free(scratch);
    return RBT_OK;
}

rbt_status rbt_kmeans_model_assign(const struct rbt_kmeans_centres *centres,
                                   const struct rbt_kmeans_points *points, uint32_t *nearest,
                                   double *inertia)
{
    const size_t blocks = (points->count + BLOCK - 1) / BLOCK;
    const uint32_t cores = rbt_thread_cores();
    uint32_t *own = nearest == NULL ? rbt_calloc(points->count, sizeof *own) : NULL;
    struct assignment assignment = {.centres = centres,
                                    .points = points,
                                    .nearest = nearest == NULL ? own : nearest,
                                    .sums = rbt_calloc(blocks, sizeof *assignment.sums),
                                    .block_count = blocks,
                                    .threads = blocks < cores ? 1 : cores};
    rbt_status st = RBT_OK;
    if (assignment.nearest == NULL || assignment.sums == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory to assign %zu points", points->count);
    }
    st = st != RBT_OK ? st : rbt_thread_run(assignment.threads, assign_part, &assignment);
    if (st == RBT_OK) {
        *inertia = 0.0;
        for (size_t block = 0; block < blocks; block++) {
            *inertia += assignment.sums[block];
        }
    }
    rbt_free(assignment.sums);
    rbt_free(own);
    return st;
}

rbt_status rbt_kmeans_model_centres(const struct rbt_model *model,
                                    const struct rbt_kmeans_space *space,
                                    struct rbt_kmeans_centres *centres)
{
    const struct rbt_model_array *array = rbt_model_array_find(model, "centres");
    if (array == NULL || array->width != space->dims || array->count == 0) {
        return rbt_fail(RBT_E_DATA, "the model's centres do not fit its features");
    }
    const rbt_status st = rbt_kmeans_centres_make(space, array->count, centres);
    if (st != RBT_OK) {
        return st;
    }
    for (size_t i = 0; i < array->count * space->dims; i++) {
        centres->values[i] =
            (float)((double)array->values[i] - (double)space->shift[i % space->dims]);
    }
    rbt_kmeans_centres_pack(centres);
    return RBT_OK;
}

/* The space of the model's own features. */
static rbt_status open_space(const struct rbt_model *model, struct rbt_kmeans_space *space)
{
    const struct rbt_model_array *features = rbt_model_array_find(model, "features");
    if (features == NULL || features->width != 1 || features->count == 0) {
        return rbt_fail(RBT_E_DATA, "the model has no list of features");
    }
    const bool is_dense = rbt_model_setting(model, "dense", 0) > 0;
    return rbt_kmeans_points_space(features->keys, features->values, features->count, is_dense,
                                   space);
}

/* Clusters of all examples and the sum of their squared distances. */
static rbt_status assign_examples(const struct rbt_model *model,
                                  const struct rbt_examples *examples, uint32_t *nearest,
                                  double *inertia)
{
    struct rbt_kmeans_space space = {0};
    struct rbt_kmeans_centres centres = {0};
    struct rbt_kmeans_points points = {0};
    const struct rbt_kmeans_choice all = {.count = examples->count};
    rbt_status st = open_space(model, &space);
    st = st != RBT_OK ? st : rbt_kmeans_model_centres(model, &space, &centres);
    st = st != RBT_OK ? st : rbt_kmeans_points_take(&space, examples, &all, &points);
    st = st != RBT_OK ? st : rbt_kmeans_model_assign(&centres, &points, nearest, inertia);
    rbt_kmeans_points_free(&points);
    rbt_kmeans_centres_free(&centres);
    rbt_kmeans_points_leave(&space);
    return st;
}

rbt_status rbt_kmeans_model_measure(const struct rbt_model *model,
                                    const struct rbt_examples *examples,
                                    struct rbt_metrics *metrics)
{
    double inertia = 0.0;
    const rbt_status st = assign_examples(model, examples, NULL, &inertia);
    if (st == RBT_OK) {
        rbt_metrics_add(metrics, "distance", inertia / (double)examples->count);
        rbt_metrics_add(metrics, "inertia", inertia);
    }
    return st;
}

rbt_status rbt_kmeans_model_predict(const struct rbt_model *model,
                                    const struct rbt_predict_options *options)
{
    struct rbt_examples examples = {0};
    double inertia = 0.0;
    rbt_status st = read_examples(model, options, &examples);
    if (st != RBT_OK) {
        return st;
    }
    uint32_t *nearest = rbt_calloc(examples.count, sizeof *nearest);
    st = nearest == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for %zu clusters", examples.count)
                         : assign_examples(model, &examples, nearest, &inertia);
    for (size_t i = 0; st == RBT_OK && i < examples.count; i++) {
        fprintf(options->out, "%u\n", nearest[i]);
    }
    rbt_free(nearest);
    rbt_examples_free(&examples);
    return st;
}

rbt_status rbt_kmeans_model_evaluate(const struct rbt_model *model,
                                     const struct rbt_predict_options *options,
                                     struct rbt_metrics *metrics)
{
    struct rbt_examples examples = {0};
    rbt_status st = read_examples(model, options, &examples);
    *metrics = (struct rbt_metrics){0};
    st = st != RBT_OK ? st : rbt_kmeans_model_measure(model, &examples, metrics);
    rbt_examples_free(&examples);
    return st;
}

/* What coordinates of a feature were multiplied with when it was read. */
static double scale_of(const struct rbt_column_plan *plan, const struct rbt_data_options *data,
                       uint64_t key)
{
    const bool is_column = data->hash_bits == 0 && key > 0 && key <= plan->count &&
                           plan->kinds[key - 1] == RBT_COLUMN_NUMBER;
    return is_column && plan->scales[key - 1] > 0 ? (double)plan->scales[key - 1] : 1.0;
}

/* A line per cluster: its number, its size, and its centre; the header names the features. */
static rbt_status write_csv(const struct rbt_model *model, FILE *out)
{
    const struct rbt_model_array *centres = rbt_model_array_find(model, "centres");
    const struct rbt_model_array *features = rbt_model_array_find(model, "features");
    const struct rbt_model_array *sizes = rbt_model_array_find(model, "sizes");
    if (centres == NULL || features == NULL || features->count != centres->width || sizes == NULL ||
        sizes->count != centres->count || sizes->width != 1) {
        return rbt_fail(RBT_E_DATA, "the model's centres do not fit its features");
    }
    struct rbt_column_plan plan;
    struct rbt_data_options data = {0};
    const rbt_status st = rbt_column_options_load(model, &plan, &data);
    if (st != RBT_OK) {
        return st;
    }
    struct rbt_feature_names names = rbt_column_options_names(model);
    fprintf(out, "cluster,size");
    for (size_t j = 0; j < features->count; j++) {
        fprintf(out, ",");
        rbt_column_options_write_feature(&names, features->keys[j], out);
    }
    fprintf(out, "\n");
    for (size_t c = 0; c < centres->count; c++) {
        fprintf(out, "%llu,%.9g", (unsigned long long)centres->keys[c], (double)sizes->values[c]);
        for (size_t j = 0; j < features->count; j++) {
            fprintf(out, ",%.9g",
                    (double)centres->values[c * centres->width + j] /
                        scale_of(&plan, &data, features->keys[j]));
        }
        fprintf(out, "\n");
    }
    return RBT_OK;
}

const struct rbt_algo_export rbt_kmeans_model_exports[] = {
    {"csv", "a line per cluster: its number, its size, its centre", write_csv}, {0}};
