/* algo/frame/column_options.c - what is said about columns with text, in options and in models.
 *
 * In a model it is an array "columns", with the kind and the scale of every column, a list of texts
 * "columns" with their names, another one "classes" with labels that are texts, and some settings.
 */
#include "algo/frame/column_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

enum { KIND, SCALE, WIDTH }; /* values of a row of it */
enum { TITLES_SHOWN = 40 };
static const char array_name[] = "columns";
static const char classes_name[] = "classes";
static const char label_name[] = "label_column";
static const char count_name[] = "column_count";
static const char hash_name[] = "text_hash"; /* which hash the keys of texts are */

void rbt_column_options_apply(const struct rbt_column_config *config, struct rbt_column_plan *plan,
                              struct rbt_data_options *data)
{
    *plan = (struct rbt_column_plan){.categorical = config->categorical, .skipped = config->skip};
    if (config->positive != NULL) {
        plan->positive = rbt_fields_positive(config->positive, strlen(config->positive));
    }
    plan->is_spread = data->ignores_label; /* distances matter to those who want no labels */
    data->hash_bits = (uint32_t)config->hash_bits;
    data->plan = plan;
}

/* Whether texts of columns are features. */
static bool has_texts(const struct rbt_column_plan *plan)
{
    bool is_found = false;
    for (size_t i = 0; i < plan->count; i++) {
        is_found |= i != plan->label && plan->kinds[i] != RBT_COLUMN_NUMBER &&
                    plan->kinds[i] != RBT_COLUMN_SKIPPED;
    }
    return is_found;
}

static rbt_status store_texts(const struct rbt_titles *titles, const char *name,
                              struct rbt_model *model)
{
    if (titles->count == 0 || model->text_count == RBT_MODEL_TEXTS_MAX) {
        return RBT_OK;
    }
    struct rbt_model_texts *texts = &model->texts[model->text_count];
    char *bytes = rbt_calloc(titles->size, 1);
    if (bytes == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the columns of a model");
    }
    memcpy(bytes, titles->bytes, titles->size);
    *texts = (struct rbt_model_texts){.count = titles->count, .size = titles->size, .bytes = bytes};
    (void)snprintf(texts->name, sizeof texts->name, "%s", name);
    model->text_count++;
    return RBT_OK;
}

/* Keeps the names of columns and classes, and the label's column of tables without a plan. */
static rbt_status store_titles(const struct rbt_column_plan *plan, struct rbt_model *model)
{
    if (plan->count == 0 && plan->width > 0 && plan->target != SIZE_MAX &&
        rbt_model_setting(model, label_name, -1) < 0) {
        rbt_model_set(model, label_name, (double)plan->target);
    }
    const rbt_status st = store_texts(&plan->titles, array_name, model);
    return st != RBT_OK ? st : store_texts(&plan->classes, classes_name, model);
}

rbt_status rbt_column_options_store(const struct rbt_data_options *data, struct rbt_model *model)
{
    const struct rbt_column_plan *plan = data->plan;
    if (data->hash_bits > 0) {
        rbt_model_set(model, "hash_bits", data->hash_bits);
    }
    const rbt_status st = plan == NULL ? RBT_OK : store_titles(plan, model);
    if (st != RBT_OK) {
        return st;
    }
    if (plan == NULL || plan->count == 0 || model->array_count == RBT_MODEL_ARRAYS_MAX) {
        return RBT_OK;
    }
    struct rbt_model_array *array = &model->arrays[model->array_count];
    if (!rbt_model_array_make(array, array_name, plan->count, WIDTH)) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the columns of a model");
    }
    for (size_t i = 0; i < plan->count; i++) {
        array->values[i * WIDTH + KIND] = (float)plan->kinds[i];
        array->values[i * WIDTH + SCALE] = plan->scales[i];
    }
    model->array_count++;
    rbt_model_set(model, label_name,
                  (double)(plan->label < plan->count ? plan->label : plan->count));
    rbt_model_set(model, "label_hash", (double)plan->positive);
    rbt_model_set(model, "format", plan->format);
    if (has_texts(plan) && plan->dictionary == NULL) {
        rbt_model_set(model, hash_name, RBT_FIELDS_HASH_VERSION);
    }
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
    rbt_model_set(model, count_name, (double)count);
}

void rbt_column_options_keep_label(const struct rbt_data_options *data, size_t count,
                                   struct rbt_model *model)
{
    const int64_t label = data->label_column;
    const bool is_planned = data->plan != NULL && data->plan->count > 0; /* that has it, too */
    if (count > 0 && !is_planned && !data->is_unlabelled) {
        const int64_t known =
            data->plan != NULL && data->plan->width > 0 ? (int64_t)data->plan->target : label;
        rbt_model_set(model, label_name, (double)(known < 0 ? known + (int64_t)count : known));
    }
}

size_t rbt_column_options_count(const struct rbt_model *model)
{
    uint64_t count = 0;
    return read_whole(model, count_name, RBT_LINE_SIZE_MAX, &count) ? (size_t)count : 0;
}

/* What is known of columns of any table; the user may say where the label of other files is. */
static void load_titles(const struct rbt_model *model, struct rbt_column_plan *plan,
                        const struct rbt_data_options *data)
{
    const struct rbt_model_texts *texts = rbt_model_texts_find(model, array_name);
    const double label = rbt_model_setting(model, label_name, -1);
    const char *asked = data->label_name;
    const struct rbt_model_texts *classes = rbt_model_texts_find(model, classes_name);
    plan->has_classes = true;
    plan->is_libsvm = rbt_model_setting(model, count_name, -1) == 0; /* older models do not say */
    if (classes != NULL) {
        plan->classes = (struct rbt_titles){
            .count = classes->count, .size = classes->size, .bytes = classes->bytes};
    }
    plan->width = plan->count != 0 ? plan->count : data->column_count;
    plan->target = plan->count != 0      ? plan->label
                   : data->is_unlabelled ? SIZE_MAX
                   : label >= 0          ? (size_t)label
                                         : plan->width - 1;
    plan->target = plan->target < plan->width ? plan->target : SIZE_MAX;
    plan->label_asked = asked == NULL || strcmp(asked, "-1") == 0 ? NULL : asked;
    if (texts != NULL && texts->count == plan->width) {
        plan->titles =
            (struct rbt_titles){.count = texts->count, .size = texts->size, .bytes = texts->bytes};
    }
}

/* Reads it without a look at the hash. */
static rbt_status load(const struct rbt_model *model, struct rbt_column_plan *plan,
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
                   read_whole(model, label_name, RBT_LINE_SIZE_MAX, &label);
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
        return rbt_fail(RBT_E_DATA,
                        "the model's list of columns is damaged: a column has no number or kind");
    }
    data->hash_bits = (uint32_t)bits;
    data->plan = plan;
    data->column_count = rbt_column_options_count(model);
    load_titles(model, plan, data);
    return RBT_OK;
}

/* A text without bytes that a terminal would act on. */
static void write_text(const char *text, FILE *out)
{
    for (; *text != '\0'; text++) {
        const unsigned char byte = (unsigned char)*text;
        (void)fputc(byte < 0x20 || byte == 0x7f ? '?' : byte, out); /* the caller looks */
    }
}

/* Names, or the first of them. */
static void describe_titles(const char *what, const struct rbt_titles *titles, FILE *out)
{
    const char *title = titles->bytes;
    fprintf(out, "  %-13s", what);
    for (size_t i = 0; i < titles->count && i < TITLES_SHOWN; i++) {
        fprintf(out, i == 0 ? "" : ", ");
        write_text(title, out);
        title += strlen(title) + 1;
    }
    if (titles->count > TITLES_SHOWN) {
        fprintf(out, " and %zu more", titles->count - TITLES_SHOWN);
    }
    fprintf(out, "\n");
}

/* What the columns of a table with text hold. */
static void describe_kinds(const struct rbt_column_plan *plan, FILE *out)
{
    size_t numbers = 0;
    size_t skipped = 0;
    const size_t labels = plan->label < plan->count ? 1 : 0;
    for (size_t i = 0; i < plan->count; i++) {
        numbers += i != plan->label && plan->kinds[i] == RBT_COLUMN_NUMBER;
        skipped += i != plan->label && plan->kinds[i] == RBT_COLUMN_SKIPPED;
    }
    fprintf(out, "  %zu columns   %zu of numbers, %zu of categories, %zu skipped", plan->count,
            numbers, plan->count - numbers - skipped - labels, skipped);
    if (labels > 0 && plan->titles.count > 0) {
        fprintf(out, "; the label is column %zu, ", plan->label);
        write_text(rbt_titles_at(&plan->titles, plan->label), out);
    } else if (labels > 0) {
        fprintf(out, "; the label is column %zu (from 0)", plan->label);
    }
    fprintf(out, ".\n");
}

void rbt_column_options_describe(const struct rbt_model *model, FILE *out)
{
    struct rbt_column_plan plan;
    struct rbt_data_options data = {0};
    if (load(model, &plan, &data) != RBT_OK) {
        return;
    }
    if (plan.count > 0) {
        describe_kinds(&plan, out);
    }
    if (plan.titles.count > 0) {
        describe_titles("names", &plan.titles, out);
    }
    if (plan.classes.count > 0) {
        describe_titles("classes", &plan.classes, out);
    }
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

void rbt_column_options_write_cell(const char *text, FILE *out)
{
    const bool needs_quotes = strpbrk(text, ",\"\r\n") != NULL;
    fprintf(out, needs_quotes ? "\"" : "");
    for (; *text != '\0'; text++) {
        fprintf(out, needs_quotes && *text == '"' ? "\"\"" : "%c", *text);
    }
    fprintf(out, needs_quotes ? "\"" : "");
}

/* A list of the model, or an empty one. */
static struct rbt_titles list_of(const struct rbt_model *model, const char *name)
{
    const struct rbt_model_texts *texts = rbt_model_texts_find(model, name);
    return texts == NULL ? (struct rbt_titles){0}
                         : (struct rbt_titles){
                               .count = texts->count, .size = texts->size, .bytes = texts->bytes};
}

struct rbt_feature_names rbt_column_options_names(const struct rbt_model *model)
{
    const bool is_hashed = rbt_model_setting(model, "hash_bits", 0) > 0;
    struct rbt_feature_names names = {.column_count = rbt_column_options_count(model)};
    if (!is_hashed) {
        names.columns.list = list_of(model, array_name);
        names.words.list = list_of(model, "dictionary");
    }
    return names;
}

/* A word "3=blue" of a dictionary with the name of its column in place of the number. */
static void write_word(struct rbt_feature_names *names, const char *word, FILE *out)
{
    char text[1024];
    char *equals = NULL;
    const unsigned long column = strtoul(word, &equals, 10);
    if (column < names->columns.list.count && *equals == '=') {
        (void)snprintf(text, sizeof text, "%s%s", rbt_titles_seek(&names->columns, column), equals);
        word = text;
    }
    rbt_column_options_write_cell(word, out);
}

void rbt_column_options_write_feature(struct rbt_feature_names *names, uint64_t key, FILE *out)
{
    const uint64_t count = names->column_count;
    if (key >= 1 && key <= names->columns.list.count) {
        rbt_column_options_write_cell(rbt_titles_seek(&names->columns, (size_t)key - 1), out);
    } else if (key > count && key - count <= names->words.list.count) {
        write_word(names, rbt_titles_seek(&names->words, (size_t)(key - count - 1)), out);
    } else {
        fprintf(out, "%llu", (unsigned long long)key);
    }
}

rbt_status rbt_column_options_load(const struct rbt_model *model, struct rbt_column_plan *plan,
                                   struct rbt_data_options *data)
{
    const rbt_status st = load(model, plan, data);
    const bool is_hashed = has_texts(plan) && rbt_model_texts_find(model, "dictionary") == NULL;
    if (st == RBT_OK && is_hashed &&
        rbt_model_setting(model, hash_name, 1) != RBT_FIELDS_HASH_VERSION) {
        return rbt_fail(RBT_E_DATA, "the model hashes texts of columns in a way that this Rubato "
                                    "does not read; train it again");
    }
    return st;
}
