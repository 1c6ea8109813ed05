/* algo/fm/fm_model.c - what a factorisation machine says about examples, and its other formats. */
#include "algo/fm/fm_model.h"

#include <inttypes.h>

#include "algo/frame/column_options.h"
#include "algo/frame/lookup.h"
#include "algo/frame/metrics.h"
#include "algo/frame/scores.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/choose.h"

enum {
    LIBFM_KEY_MAX = (1 << 28) - 1
}; /* libFM has a line for every key: what one would wait for */

enum rbt_loss rbt_fm_model_loss(const struct rbt_model *model)
{
    const double loss = rbt_model_setting(model, "loss", RBT_LOSS_LOGISTIC);
    return loss == RBT_LOSS_SQUARED ? RBT_LOSS_SQUARED : RBT_LOSS_LOGISTIC;
}

/* The arrays of a model. */
struct parts {
    const struct rbt_model_array *weights;
    const struct rbt_model_array *embeddings;
    float bias;
};

static rbt_status open_parts(const struct rbt_model *model, struct parts *parts)
{
    parts->weights = rbt_model_array_find(model, "weights");
    parts->embeddings = rbt_model_array_find(model, "embeddings");
    const struct rbt_model_array *bias = rbt_model_array_find(model, "bias");
    parts->bias = bias == NULL || bias->count == 0 ? 0.0F : bias->values[0];
    if (parts->weights == NULL || parts->weights->width != 1) {
        return rbt_fail(RBT_E_DATA, "the model has no weights");
    }
    if (parts->embeddings == NULL || parts->embeddings->width == 0) {
        return rbt_fail(RBT_E_DATA, "the model has no embeddings");
    }
    return RBT_OK;
}

/* rows[i] becomes the row that keys[i] has in the array; keys increase in both. */
static void match(const struct rbt_model_array *array, const uint64_t *keys, size_t count,
                  uint32_t *rows)
{
    size_t row = 0;
    for (size_t i = 0; i < count; i++) {
        while (row < array->count && array->keys[row] < keys[i]) {
            row++;
        }
        const bool is_there = row < array->count && array->keys[row] == keys[i];
        rows[i] = is_there ? (uint32_t)row : RBT_FM_NONE;
    }
}

/* Examples whose entries are positions in lists of weights and rows. */
struct matrix {
    size_t count;
    const uint64_t *offsets;
    const uint32_t *indices;
    const float *values;
    float *weights;
    const uint32_t *rows;
};

static rbt_status run_margins(const struct parts *parts, const struct matrix *x, float *margins)
{
    size_t entries_max = 0;
    for (size_t i = 0; i < x->count; i++) {
        const size_t entries = (size_t)(x->offsets[i + 1] - x->offsets[i]);
        entries_max = entries > entries_max ? entries : entries_max;
    }
    struct rbt_fm_run run = {.offsets = x->offsets,
                             .indices = x->indices,
                             .values = x->values,
                             .end = x->count,
                             .rows = x->rows,
                             .rank = parts->embeddings->width,
                             .weights = x->weights,
                             .embeddings = parts->embeddings->values,
                             .bias = parts->bias,
                             .row_room = rbt_calloc(entries_max, sizeof *run.row_room),
                             .value_room = rbt_calloc(entries_max, sizeof *run.value_room),
                             .sum_room =
                                 rbt_calloc(parts->embeddings->width, sizeof *run.sum_room)};
    rbt_status st = RBT_OK;
    if (run.row_room == NULL || run.value_room == NULL || run.sum_room == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory to score %zu examples", x->count);
    } else {
        rbt_choose_kernels()->fm_margins(&run, margins);
    }
    rbt_free(run.sum_room);
    rbt_free(run.value_room);
    rbt_free(run.row_room);
    return st;
}

rbt_status rbt_fm_model_margins(const struct rbt_model *model, const struct rbt_share *share,
                                float *margins)
{
    struct parts parts;
    rbt_status st = open_parts(model, &parts);
    if (st != RBT_OK) {
        return st;
    }
    float *weights = rbt_calloc(share->key_count, sizeof *weights);
    uint32_t *rows = rbt_calloc(share->key_count, sizeof *rows);
    if (weights == NULL || rows == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory to score %zu examples", share->count);
    } else {
        const struct matrix x = {share->count,  share->offsets, share->indices,
                                 share->values, weights,        rows};
        rbt_model_array_rows(parts.weights, share->keys, share->key_count, weights);
        match(parts.embeddings, share->keys, share->key_count, rows);
        st = run_margins(&parts, &x, margins);
    }
    rbt_free(rows);
    rbt_free(weights);
    return st;
}

static double nonzeros(const struct rbt_model_array *array)
{
    size_t count = 0;
    for (size_t i = 0; array != NULL && i < array->count * array->width; i++) {
        count += array->values[i] != 0.0F;
    }
    return (double)count;
}

/* The figures of the model's size. */
static void add_sizes(const struct rbt_model *model, struct rbt_metrics *metrics)
{
    rbt_metrics_add(metrics, "w_nonzeros", nonzeros(rbt_model_array_find(model, "weights")));
    rbt_metrics_add(metrics, "v_nonzeros", nonzeros(rbt_model_array_find(model, "embeddings")));
}

rbt_status rbt_fm_model_measure(const struct rbt_model *model, const struct rbt_share *share,
                                struct rbt_metrics *metrics)
{
    float *margins = rbt_calloc(share->count, sizeof *margins);
    if (margins == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory to evaluate %zu examples", share->count);
    }
    rbt_status st = rbt_fm_model_margins(model, share, margins);
    if (st == RBT_OK) {
        const struct rbt_scores scores = {.loss = rbt_fm_model_loss(model),
                                          .width = 1,
                                          .margins = margins,
                                          .labels = share->labels,
                                          .count = share->count};
        st = rbt_scores_measure(&scores, metrics);
    }
    if (st == RBT_OK) {
        add_sizes(model, metrics);
    }
    rbt_free(margins);
    return st;
}

/* What scoring examples in their own order needs: features that the model does not know are all
 * the one behind the last, which has no weight and no embedding. */
struct scoring {
    rbt_lookup *lookup;
    float *weights;    /* (known + 1) */
    uint32_t *rows;    /* (known + 1) */
    uint32_t *indices; /* (entries) */
};

static void end_scoring(struct scoring *scoring)
{
    rbt_free(scoring->indices);
    rbt_free(scoring->rows);
    rbt_free(scoring->weights);
    rbt_lookup_destroy(scoring->lookup);
}

static rbt_status margins_of(const struct rbt_model *model, const struct rbt_examples *examples,
                             float *margins)
{
    struct parts parts;
    rbt_status st = open_parts(model, &parts);
    if (st != RBT_OK) {
        return st;
    }
    const size_t known = parts.weights->count;
    const uint64_t entries = examples->offsets[examples->count];
    struct scoring scoring = {.weights = rbt_calloc(known + 1, sizeof *scoring.weights),
                              .rows = rbt_calloc(known + 1, sizeof *scoring.rows),
                              .indices = rbt_calloc(entries, sizeof *scoring.indices)};
    if (scoring.weights == NULL || scoring.rows == NULL || scoring.indices == NULL) {
        st = rbt_fail(RBT_E_NOMEM, "no memory to score %zu examples", examples->count);
    } else {
        st = rbt_lookup_create(parts.weights->keys, known, &scoring.lookup);
    }
    if (st == RBT_OK) {
        for (size_t j = 0; j < known; j++) {
            scoring.weights[j] = parts.weights->values[j];
        }
        match(parts.embeddings, parts.weights->keys, known, scoring.rows);
        scoring.rows[known] = RBT_FM_NONE;
        for (uint64_t k = 0; k < entries; k++) {
            const uint32_t row = rbt_lookup_find(scoring.lookup, examples->keys[k]);
            scoring.indices[k] = row == RBT_LOOKUP_MISSING ? (uint32_t)known : row;
        }
        const struct matrix x = {examples->count,  examples->offsets, scoring.indices,
                                 examples->values, scoring.weights,   scoring.rows};
        st = run_margins(&parts, &x, margins);
    }
    end_scoring(&scoring);
    return st;
}

rbt_status rbt_fm_model_predict(const struct rbt_model *model,
                                const struct rbt_predict_options *options)
{
    const struct rbt_scorer scorer = {rbt_fm_model_loss(model), 1, margins_of};
    return rbt_scores_predict(&scorer, model, options);
}

rbt_status rbt_fm_model_evaluate(const struct rbt_model *model,
                                 const struct rbt_predict_options *options,
                                 struct rbt_metrics *metrics)
{
    const struct rbt_scorer scorer = {rbt_fm_model_loss(model), 1, margins_of};
    const rbt_status st = rbt_scores_evaluate(&scorer, model, options, metrics);
    if (st == RBT_OK) {
        add_sizes(model, metrics);
    }
    return st;
}

const char *rbt_fm_model_why_uncertain(const struct rbt_model *model)
{
    return rbt_scores_why_uncertain(rbt_fm_model_loss(model));
}

void rbt_fm_model_describe(const struct rbt_model *model, FILE *out)
{
    const enum rbt_loss loss = rbt_fm_model_loss(model);
    fprintf(out, "  loss %d is    %s.\n", (int)loss,
            loss == RBT_LOSS_SQUARED ? "squared" : "logistic");
    rbt_column_options_describe(model, out);
}

/* Feature j is on line j of each section, from 0, also if it has no weight or embedding. */
rbt_status rbt_fm_model_write_libfm(const struct rbt_model *model, FILE *out)
{
    struct parts parts;
    const rbt_status st = open_parts(model, &parts);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_model_array *w = parts.weights;
    const struct rbt_model_array *v = parts.embeddings;
    const uint64_t lines = w->count == 0 ? 0 : w->keys[w->count - 1] + 1;
    if (w->count > 0 && w->keys[w->count - 1] > LIBFM_KEY_MAX) {
        return rbt_fail(RBT_E_INVALID,
                        "libFM numbers features from 0, and key %" PRIu64 " is too large for that",
                        w->keys[w->count - 1]);
    }
    if (rbt_model_array_find(model, "columns") != NULL &&
        rbt_model_setting(model, "hash_bits", 0) > 0) {
        return rbt_fail(
            RBT_E_INVALID,
            "the model's features are hashes of columns, which other programs cannot compute");
    }
    fprintf(out, "#global bias W0\n%.9g\n#unary interactions Wj\n", (double)parts.bias);
    for (uint64_t key = 0, row = 0; key < lines; key++) {
        const bool is_there = w->keys[row] == key; /* the last key has the last line */
        const float unit = rbt_column_options_unit(model, key);
        fprintf(out, "%.9g\n", is_there ? (double)(w->values[row] * unit) : 0.0);
        row += is_there ? 1 : 0;
    }
    fprintf(out, "#pairwise interactions Vj,f\n");
    for (uint64_t key = 0, row = 0; key < lines; key++) {
        const bool is_there = row < v->count && v->keys[row] == key;
        const float unit = rbt_column_options_unit(model, key);
        for (uint32_t f = 0; f < v->width; f++) {
            const double value = is_there ? (double)(v->values[row * v->width + f] * unit) : 0.0;
            fprintf(out, "%s%.9g", f == 0 ? "" : " ", value);
        }
        fputc('\n', out);
        row += is_there ? 1 : 0;
    }
    return RBT_OK;
}
