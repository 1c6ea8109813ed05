/* algo/column_options.c - what is said about columns with text, in options and in models.
 *
 * In a model it is an array "columns", with the kind and the scale of every column, and some
 * settings. */
#include "algo/column_options.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { KIND, SCALE, WIDTH }; /* values of a row of it */
static const char array_name[] = "columns";
static const char count_name[] = "column_count";

void rbt_column_options_apply(const struct rbt_column_config *config, struct rbt_column_plan *plan,
                              struct rbt_data_options *data)
{
    *plan = (struct rbt_column_plan){.categorical = config->categorical, .skipped = config->skip};
    if (config->positive != NULL) {
        plan->positive = rbt_fields_positive(config->positive, strlen(config->positive));
    }
    data->hash_bits = (uint32_t)config->hash_bits;
    data->plan = plan;
}

rbt_status rbt_column_options_store(const struct rbt_data_options *data, struct rbt_model *model)
{
    const struct rbt_column_plan *plan = data->plan;
    if (data->hash_bits > 0) {
        rbt_model_set(model, "hash_bits", data->hash_bits);
    }
    if (plan == NULL || plan->count == 0 || model->array_count == RBT_MODEL_ARRAYS_MAX) {
        return RBT_OK;
    }
    struct rbt_model_array *array = &model->arrays[model->array_count];
    array->keys = rbt_calloc(plan->count, sizeof *array->keys);
    array->values = rbt_calloc(plan->count * WIDTH, sizeof *array->values);
    if (array->keys == NULL || array->values == NULL) {
        rbt_free(array->keys);
        rbt_free(array->values);
        *array = (struct rbt_model_array){0};
        return rbt_fail(RBT_E_NOMEM, "no memory for the columns of a model");
    }
    (void)snprintf(array->name, sizeof array->name, "%s", array_name);
    array->width = WIDTH;
    array->count = plan->count;
    for (size_t i = 0; i < plan->count; i++) {
        array->keys[i] = i;
        array->values[i * WIDTH + KIND] = (float)plan->kinds[i];
        array->values[i * WIDTH + SCALE] = plan->scales[i];
    }
    model->array_count++;
    rbt_model_set(model, "label_column",
                  (double)(plan->label < plan->count ? plan->label : plan->count));
    rbt_model_set(model, "label_hash", (double)plan->positive);
    rbt_model_set(model, "format", plan->format);
    return RBT_OK;
}

/* A setting that must be a whole number from 0 to `max`. */
static bool read_whole(const struct rbt_model *model, const char *name, double max, uint64_t *value)
{
    const double number = rbt_model_setting(model, name, 0);
    if (!(number >= 0 && number <= max)) {
        return false;
    }
    *value = (uint64_t)number;
    return true;
}

void rbt_column_options_keep_count(size_t count, struct rbt_model *model)
{
    if (count > 0) {
        rbt_model_set(model, count_name, (double)count);
    }
}

void rbt_column_options_keep_label(const struct rbt_data_options *data, size_t count,
                                   struct rbt_model *model)
{
    const int64_t label = data->label_column;
    const bool is_planned = data->plan != NULL && data->plan->count > 0; /* that has it, too */
    if (count > 0 && !is_planned && !data->is_unlabelled) {
        rbt_model_set(model, "label_column", (double)(label < 0 ? label + (int64_t)count : label));
    }
}

size_t rbt_column_options_count(const struct rbt_model *model)
{
    uint64_t count = 0;
    return read_whole(model, count_name, RBT_LINE_SIZE_MAX, &count) ? (size_t)count : 0;
}

void rbt_column_options_describe(const struct rbt_model *model, FILE *out)
{
    struct rbt_column_plan plan;
    struct rbt_data_options data = {0};
    if (rbt_column_options_load(model, &plan, &data) != RBT_OK || plan.count == 0) {
        return;
    }
    size_t numbers = 0;
    size_t skipped = 0;
    const size_t labels = plan.label < plan.count ? 1 : 0;
    for (size_t i = 0; i < plan.count; i++) {
        numbers += i != plan.label && plan.kinds[i] == RBT_COLUMN_NUMBER;
        skipped += i != plan.label && plan.kinds[i] == RBT_COLUMN_SKIPPED;
    }
    fprintf(out, "  %zu columns   %zu of numbers, %zu of categories, %zu skipped", plan.count,
            numbers, plan.count - numbers - skipped - labels, skipped);
    fprintf(out, labels > 0 ? "; the label is column %zu (from 0).\n" : ".\n", plan.label);
}

float rbt_column_options_unit(const struct rbt_model *model, uint64_t key)
{
    const struct rbt_model_array *array = rbt_model_array_find(model, array_name);
    if (array == NULL || array->width != WIDTH || key == 0 || key > array->count ||
        array->values[(key - 1) * WIDTH + KIND] != (float)RBT_COLUMN_NUMBER) {
        return 1;
    }
    return array->values[(key - 1) * WIDTH + SCALE];
}

rbt_status rbt_column_options_load(const struct rbt_model *model, struct rbt_column_plan *plan,
                                   struct rbt_data_options *data)
{
    const struct rbt_model_array *array = rbt_model_array_find(model, array_name);
    uint64_t bits = 0;
    uint64_t label = 0;
    uint64_t format = 0;
    *plan = (struct rbt_column_plan){.is_loaded = true};
    bool is_good = read_whole(model, "hash_bits", 62, &bits) &&
                   read_whole(model, "format", RBT_FORMAT_AVAZU, &format) &&
                   read_whole(model, "label_hash", (double)(UINT64_C(1) << 52), &plan->positive) &&
                   read_whole(model, "label_column", RBT_FIELDS_MAX - 1, &label);
    if (is_good && array != NULL) {
        is_good = array->width == WIDTH && array->count <= RBT_FIELDS_MAX &&
                  label <= array->count; /* equal: there is none */
        plan->count = is_good ? array->count : 0;
        plan->label = label < array->count ? (size_t)label : SIZE_MAX;
        plan->format = (enum rbt_format)format;
        for (size_t i = 0; is_good && i < array->count; i++) {
            const float kind = array->values[i * WIDTH + KIND];
            plan->scales[i] = array->values[i * WIDTH + SCALE];
            is_good = kind >= 0 && kind <= RBT_COLUMN_SKIPPED && isfinite(plan->scales[i]);
            plan->kinds[i] = is_good ? (uint8_t)kind : 0;
        }
    }
    if (!is_good) {
        return rbt_fail(RBT_E_DATA, "the model's columns make no sense");
    }
    data->hash_bits = (uint32_t)bits;
    data->plan = plan;
    data->column_count = rbt_column_options_count(model);
    const bool has_label = rbt_model_setting(model, "label_column", -1) >= 0;
    const bool is_last = label + 1 == data->column_count; /* which -1 is, whatever the files have */
    if (array == NULL && has_label && !is_last && data->label_column == -1) {
        data->label_column = (int64_t)label;
    }
    return RBT_OK;
}
