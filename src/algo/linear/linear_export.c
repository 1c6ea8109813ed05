/* algo/linear/linear_export.c - linear models as tables, and as liblinear's model files.
 *
 * These name a solver, the labels, and then a line of numbers for each feature from 1 on: one
 * number, or with several classes one for each; a constant of 1 stands behind the last feature for
 * the bias. The solver only tells liblinear how to read the rest: a positive margin is for the
 * first label; of several classes the largest margin wins ("MCSVM_CS": with logistic regression it
 * would offer probabilities that are not those of softmax). */
#include <inttypes.h>
#include <string.h>

#include "algo/frame/column_options.h"
#include "algo/linear/linear_model.h"
#include "base/error.h"

static const uint64_t feature_max = INT32_MAX - 1; /* liblinear counts them with an int */

static const char *solver_of(const struct rbt_model *model)
{
    switch (rbt_linear_model_loss(model)) {
    case RBT_LOSS_LOGISTIC:
        return rbt_model_setting(model, "l1", 0.0) > 0 ? "L1R_LR" : "L2R_LR";
    case RBT_LOSS_HINGE:
        return "L2R_L1LOSS_SVC_DUAL";
    case RBT_LOSS_SQUARED:
        return "L2R_L2LOSS_SVR";
    case RBT_LOSS_SOFTMAX:
        break;
    }
    return "MCSVM_CS";
}

/* Labels are whole numbers there; the list of a model with two has the positive one first. */
static rbt_status write_labels(const struct rbt_model *model, FILE *out)
{
    const struct rbt_model_array *classes = rbt_model_array_find(model, "classes");
    const enum rbt_loss loss = rbt_linear_model_loss(model);
    if (loss == RBT_LOSS_SQUARED) {
        fprintf(out, "nr_class 2\n"); /* what liblinear writes for a regression */
        return RBT_OK;
    }
    if (loss != RBT_LOSS_SOFTMAX) {
        const double positive = rbt_model_setting(model, "label_positive", 1.0);
        const double negative = rbt_model_setting(model, "label_negative", positive == 2 ? 1 : -1);
        fprintf(out, "nr_class 2\nlabel %.0f %.0f\n", positive, negative);
        return RBT_OK;
    }
    for (size_t c = 0; c < classes->count; c++) {
        const double label = (double)classes->values[c];
        if (!(label >= INT32_MIN && label <= INT32_MAX) || label != (double)(int64_t)label) {
            return rbt_fail(RBT_E_INVALID, "liblinear's labels are whole numbers, not %.9g", label);
        }
    }
    fprintf(out, "nr_class %zu\nlabel", classes->count);
    for (size_t c = 0; c < classes->count; c++) {
        fprintf(out, " %.0f", (double)classes->values[c]);
    }
    fprintf(out, "\n");
    return RBT_OK;
}

/* A feature's line, its weights times `unit`; NULL: of zeros. */
static void write_row(const float *row, float unit, size_t width, FILE *out)
{
    for (size_t c = 0; c < width; c++) {
        fprintf(out, "%.9g ", row == NULL ? 0.0 : (double)(row[c] * unit));
    }
    fprintf(out, "\n");
}

/* Whether keys up to `last` are not numbers that somebody gave to features. */
static bool has_hashes(const struct rbt_model *model, uint64_t last)
{
    const bool has_columns = rbt_model_array_find(model, "columns") != NULL;
    const bool is_hashed = rbt_model_setting(model, "hash_bits", 0) > 0;
    return last > feature_max ? has_columns || is_hashed : has_columns && is_hashed;
}

rbt_status rbt_linear_model_export(const struct rbt_model *model, FILE *out)
{
    rbt_status st = rbt_linear_model_check(model);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_model_array *weights = rbt_model_array_find(model, "weights");
    const struct rbt_model_array *bias = rbt_model_array_find(model, "bias");
    const size_t width = rbt_linear_model_width(model);
    const bool has_bias = bias != NULL && bias->count > 0;
    const uint64_t last = weights->count == 0 ? 1 : weights->keys[weights->count - 1];
    if (weights->count > 0 && has_hashes(model, last)) {
        const bool has_columns = rbt_model_array_find(model, "columns") != NULL;
        st = rbt_fail(RBT_E_INVALID,
                      "the model's features are hashes%s, which liblinear's format cannot hold",
                      has_columns ? " of categories" : "");
        return has_columns ? rbt_fail_hint(st, "Train with --dictionary, which numbers them.") : st;
    }
    if (weights->count > 0 && (weights->keys[0] == 0 || last > feature_max)) {
        st = rbt_fail(RBT_E_INVALID,
                      "liblinear's features are 1 to %" PRIu64
                      ", but the model has feature %" PRIu64,
                      feature_max, weights->keys[0] == 0 ? 0 : last);
        return rbt_fail_hint(st, "Number the features of the data from 1 and train again.");
    }
    fprintf(out, "solver_type %s\n", solver_of(model));
    st = write_labels(model, out);
    if (st != RBT_OK) {
        return st;
    }
    fprintf(out, "nr_feature %" PRIu64 "\nbias %d\nw\n", last, has_bias ? 1 : -1);
    size_t row = 0;
    for (uint64_t key = 1; key <= last; key++) {
        const bool is_there = row < weights->count && weights->keys[row] == key;
        write_row(is_there ? weights->values + width * row++ : NULL,
                  rbt_column_options_unit(model, key), width, out);
    }
    if (has_bias) {
        write_row(bias->values, 1, width, out);
    }
    return RBT_OK;
}

/* "weight", or the names of classes. */
static void write_head(const struct rbt_model *model, size_t width, FILE *out)
{
    const struct rbt_model_array *classes = rbt_model_array_find(model, "classes");
    const struct rbt_model_texts *texts = rbt_model_texts_find(model, "classes");
    const char *text = texts != NULL && texts->count == width ? texts->bytes : NULL;
    fprintf(out, width == 1 ? "feature,weight" : "feature");
    for (size_t c = 0; width > 1 && c < width; c++) {
        fprintf(out, ",");
        if (text != NULL) {
            rbt_column_options_write_cell(text, out);
            text += strlen(text) + 1;
        } else {
            fprintf(out, "%.9g", (double)classes->values[c]);
        }
    }
    fprintf(out, "\n");
}

static void write_cells(const float *row, float unit, size_t width, FILE *out)
{
    for (size_t c = 0; c < width; c++) {
        fprintf(out, ",%.9g", (double)(row[c] * unit));
    }
    fprintf(out, "\n");
}

rbt_status rbt_linear_model_export_csv(const struct rbt_model *model, FILE *out)
{
    const rbt_status st = rbt_linear_model_check(model);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_model_array *weights = rbt_model_array_find(model, "weights");
    const struct rbt_model_array *bias = rbt_model_array_find(model, "bias");
    const size_t width = rbt_linear_model_width(model);
    struct rbt_feature_names names = rbt_column_options_names(model);
    write_head(model, width, out);
    if (bias != NULL && bias->count > 0) {
        fprintf(out, "(bias)");
        write_cells(bias->values, 1, width, out);
    }
    for (size_t i = 0; i < weights->count; i++) {
        rbt_column_options_write_feature(&names, weights->keys[i], out);
        write_cells(weights->values + i * width, rbt_column_options_unit(model, weights->keys[i]),
                    width, out);
    }
    return RBT_OK;
}
