/* algo/fm/fm_scale.c - units in which numbers are near 1, and columns that are near 0.
 *
 * Steps of FTRL and AdaGrad have a size of their own, so a column in the thousands, or a label, is
 * never reached in small ones, and penalties weigh nothing. Therefore values become x / u_j, and
 * labels of the squared loss (y - shift) / U. Features have one unit in common, but for those whose
 * values are far from it: sizes that are near each other mean something (of TF-IDF, that a word is
 * rare), and units of their own would take it away (20 newsgroups, comp against sci: logloss 0.248
 * with units of their own, 0.217 with one in common). And steps turn back and forth between a
 * column that is far from 0, the bias and every other such column. Therefore columns of tables
 * become (x - mean_j) scale_j before (standard.h), where there is a bias; their common unit is 1.
 * Tables, penalties and steps are about these. Models are about the data as it is:
 *
 *     V_j = sqrt(U) f_j V'_j,                                            f_j = scale_j / u_j
 *     w_j = U f_j w'_j - <V_j, M - mean_j V_j>,                          M = sum_k mean_k V_k
 *     b = U b' + shift - sum_j mean_j U f_j w'_j + sum_{j<k} mean_j mean_k <V_j, V_k>
 *
 * for what is multiplied out is the margin of the data as it is. Units u_j are powers of two, and U
 * of four, so that they round nothing. All processes have all examples, and find the same. */
#include <math.h>
#include <string.h>

#include "algo/fm/fm_job.h"
#include "algo/frame/model.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/map.h"

static const double near_one = 4; /* a size from 1/4 to 4 stays */

/* Of two columns that are so many standard deviations away from 0, pairs are sums of terms of the
 * square of that, which numbers of type float must hold: columns that are farther away stay. */
static const double far_max = 256;

static rbt_status no_memory(void)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for the units of features");
}

/* The power of `base` nearest to a size; 1 if that is near 1, or nothing. */
static double unit_of(double size, double base)
{
    if (!(size > 0) || !isfinite(size) || (size >= 1 / near_one && size <= near_one)) {
        return 1.0;
    }
    return pow(base, round(log2(size) / log2(base)));
}

/* Squares and number of the values of features that have one that is far from the common unit. */
struct sizes {
    struct rbt_map map; /* to the position in the lists */
    uint64_t *keys;
    double *squares;
    double *counts;
    size_t count;
    size_t room;
};

static rbt_status sizes_add(struct sizes *sizes, uint64_t key)
{
    if (sizes->count == sizes->room) {
        const size_t room = 2 * sizes->room + 64;
        uint64_t *keys = rbt_realloc(sizes->keys, room, sizeof *keys);
        sizes->keys = keys != NULL ? keys : sizes->keys;
        if (keys == NULL || room > UINT32_MAX) {
            return no_memory();
        }
        sizes->room = room;
    }
    const rbt_status st = rbt_map_reserve(&sizes->map, 1);
    if (st == RBT_OK) {
        rbt_map_insert(&sizes->map, key, (uint32_t)sizes->count);
        sizes->keys[sizes->count++] = key;
    }
    return st;
}

/* The size that values have on average, by their logarithms: a few large columns do not count more
 * than others. A logarithm is taken of many at once, of their product. */
static double common_unit(const struct rbt_examples *examples)
{
    const double product_max = 0x1p800; /* times the largest value it is still a number */
    double product = 1.0;
    double sum = 0.0;
    double count = 0.0;
    for (uint64_t k = 0; k < examples->offsets[examples->count]; k++) {
        const double size = fabs((double)examples->values[k]);
        if (size > 0 && isfinite(size)) {
            product *= size;
            count += 1;
            if (product > product_max || product < 1 / product_max) {
                sum += log2(product);
                product = 1.0;
            }
        }
    }
    return unit_of(exp2((sum + log2(product)) / fmax(1, count)), 2);
}

static bool is_far(double value)
{
    const double size = fabs(value);
    return size > near_one || (size > 0 && size < 1 / near_one);
}

/* Which features have values that are far from the common unit, and how large theirs are. */
static rbt_status find_sizes(const struct rbt_examples *examples, double common,
                             struct sizes *sizes)
{
    const uint64_t entries = examples->offsets[examples->count];
    rbt_status st = RBT_OK;
    for (uint64_t k = 0; k < entries && st == RBT_OK; k++) {
        if (is_far((double)examples->values[k] / common) &&
            rbt_map_find(&sizes->map, examples->keys[k]) == RBT_MAP_NONE) {
            st = sizes_add(sizes, examples->keys[k]);
        }
    }
    if (st != RBT_OK || sizes->count == 0) {
        return st;
    }
    sizes->squares = rbt_calloc(sizes->count, sizeof *sizes->squares);
    sizes->counts = rbt_calloc(sizes->count, sizeof *sizes->counts);
    if (sizes->squares == NULL || sizes->counts == NULL) {
        return no_memory();
    }
    for (uint64_t k = 0; k < entries; k++) {
        const uint32_t at = rbt_map_find(&sizes->map, examples->keys[k]);
        const double value = (double)examples->values[k];
        if (at != RBT_MAP_NONE) {
            sizes->squares[at] += value * value;
            sizes->counts[at] += value != 0 ? 1 : 0;
        }
    }
    return RBT_OK;
}

/* Keeps the units that are not the common one, and divides by all. */
static rbt_status apply(const struct sizes *sizes, struct rbt_examples *examples,
                        struct rbt_fm_scales *scales)
{
    scales->units = rbt_calloc(sizes->count, sizeof *scales->units);
    if (scales->units == NULL) {
        return no_memory();
    }
    for (size_t i = 0; i < sizes->count; i++) {
        const double size = sqrt(sizes->squares[i] / fmax(1, sizes->counts[i]));
        scales->units[i] = (float)(scales->common * unit_of(size / scales->common, 2));
    }
    for (uint64_t k = 0; k < examples->offsets[examples->count]; k++) {
        const uint32_t at = rbt_map_find(&sizes->map, examples->keys[k]);
        examples->values[k] /= at == RBT_MAP_NONE ? (float)scales->common : scales->units[at];
    }
    return RBT_OK;
}

static rbt_status scale_features(struct rbt_examples *examples, struct rbt_fm_scales *scales)
{
    struct sizes sizes = {0};
    rbt_status st = rbt_map_init(&sizes.map, 64);
    scales->common = examples->column_count > 0 ? 1.0 : common_unit(examples);
    st = st != RBT_OK ? st : find_sizes(examples, scales->common, &sizes);
    if (st == RBT_OK && (sizes.count > 0 || scales->common != 1)) {
        st = apply(&sizes, examples, scales);
    }
    scales->map = sizes.map;
    rbt_free(sizes.counts);
    rbt_free(sizes.squares);
    rbt_free(sizes.keys);
    return st;
}

/* Columns of tables, but for those that are too far away, get the mean 0 and the deviation 1. */
static rbt_status standardise(struct rbt_fm_job *fm)
{
    struct rbt_standard *standard = &fm->scales.standard;
    const struct rbt_standard_options options = {.has_shift = true, .has_scale = true};
    if (fm->examples.column_count == 0 || !fm->config.has_bias) {
        return RBT_OK;
    }
    const rbt_status st = rbt_standard_find(&fm->examples, &options, standard);
    for (size_t j = 0; st == RBT_OK && j < standard->count; j++) {
        if (fabs(standard->means[j]) * standard->scales[j] > far_max) {
            standard->means[j] = 0.0;
            standard->scales[j] = 1.0;
        }
    }
    return st != RBT_OK ? st : rbt_standard_apply(standard, &fm->examples);
}

rbt_status rbt_fm_scale_take(struct rbt_fm_job *fm)
{
    struct rbt_fm_scales *scales = &fm->scales;
    float *labels = fm->examples.labels;
    const size_t n = fm->examples.count;
    scales->label_unit = 1.0;
    if (fm->loss == RBT_LOSS_SQUARED) {
        double sum = 0.0;
        double squares = 0.0;
        for (size_t i = 0; i < n; i++) {
            sum += (double)labels[i];
        }
        scales->label_shift = fm->config.has_bias ? (float)(sum / (double)n) : 0.0F;
        for (size_t i = 0; i < n; i++) {
            labels[i] -= scales->label_shift;
            squares += (double)labels[i] * (double)labels[i];
        }
        scales->label_unit = unit_of(sqrt(squares / (double)n), 4);
        for (size_t i = 0; i < n; i++) {
            labels[i] /= (float)scales->label_unit;
        }
    }
    const rbt_status st = standardise(fm);
    return st != RBT_OK ? st : scale_features(&fm->examples, scales);
}

void rbt_fm_scale_free(struct rbt_fm_scales *scales)
{
    rbt_map_deinit(&scales->map);
    rbt_free(scales->units);
    rbt_standard_free(&scales->standard);
    *scales = (struct rbt_fm_scales){0};
}

float rbt_fm_scale_unit(const struct rbt_fm_scales *scales, uint64_t key)
{
    const uint32_t at = scales->units == NULL ? RBT_MAP_NONE : rbt_map_find(&scales->map, key);
    return at == RBT_MAP_NONE ? (float)scales->common : scales->units[at];
}

/* The place of a key in the list of changed columns, from `at` on; keys increase. */
static size_t column_at(const struct rbt_standard *standard, size_t at, uint64_t key)
{
    while (at < standard->count && standard->keys[at] < key) {
        at++;
    }
    return at;
}

static bool is_column(const struct rbt_standard *standard, size_t at, uint64_t key)
{
    return at < standard->count && standard->keys[at] == key;
}

/* values = from * unit * f_j, or the other way round. */
static void convert_rows(const struct rbt_fm_scales *scales, struct rbt_model_array *array,
                         double unit, bool is_outward)
{
    const struct rbt_standard *standard = &scales->standard;
    size_t at = 0;
    for (size_t i = 0; i < array->count; i++) {
        const uint64_t key = array->keys[i];
        at = column_at(standard, at, key);
        const double scale = is_column(standard, at, key) ? standard->scales[at] : 1.0;
        const double factor = unit * scale / (double)rbt_fm_scale_unit(scales, key);
        const double by = is_outward ? factor : 1.0 / factor;
        for (size_t e = 0; e < array->width; e++) {
            float *value = &array->values[i * array->width + e];
            *value = (float)((double)*value * by);
        }
    }
}

static double dot(const double *sum, const float *row, double mean, size_t width)
{
    double all = 0.0;
    for (size_t e = 0; e < width; e++) {
        all += (double)row[e] * (sum[e] - mean * (double)row[e]);
    }
    return all;
}

/* M, and what pairs of means add to the bias: half of sum_j mean_j <V_j, M - mean_j V_j>. */
static double sum_means(const struct rbt_standard *standard, const struct rbt_model_array *v,
                        double *sum)
{
    double pairs = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t r = 0, at = 0; r < v->count; r++) {
            const float *row = v->values + r * v->width;
            at = column_at(standard, at, v->keys[r]);
            const double mean = is_column(standard, at, v->keys[r]) ? standard->means[at] : 0.0;
            for (size_t e = 0; pass == 0 && mean != 0.0 && e < v->width; e++) {
                sum[e] += mean * (double)row[e];
            }
            pairs += pass == 1 && mean != 0.0 ? mean * dot(sum, row, mean, v->width) / 2 : 0.0;
        }
    }
    return pairs;
}

/* What columns were shifted by goes into weights and bias, or out of them; all arrays are in the
 * units of the file. Every feature with an embedding has a weight. */
static rbt_status shift_model(const struct rbt_standard *standard, struct rbt_model *model,
                              bool is_outward)
{
    struct rbt_model_array *w = &model->arrays[RBT_FM_WEIGHTS];
    const struct rbt_model_array *v = &model->arrays[RBT_FM_EMBEDDINGS];
    double *sum = rbt_calloc(v->width, sizeof *sum);
    if (sum == NULL) {
        return no_memory();
    }
    double bias = sum_means(standard, v, sum);
    for (size_t i = 0, at = 0, r = 0; i < w->count; i++) {
        const uint64_t key = w->keys[i];
        at = column_at(standard, at, key);
        const double mean = is_column(standard, at, key) ? standard->means[at] : 0.0;
        while (r < v->count && v->keys[r] < key) {
            r++;
        }
        const bool is_embedded = r < v->count && v->keys[r] == key;
        const double pair = is_embedded ? dot(sum, v->values + r * v->width, mean, v->width) : 0.0;
        const double inside = is_outward ? (double)w->values[i] : (double)w->values[i] + pair;
        w->values[i] = (float)(is_outward ? inside - pair : inside);
        /* as it is rounded, so that the bias takes up what was rounded off at the mean */
        bias -= mean * (is_outward ? (double)w->values[i] + pair : inside);
    }
    rbt_free(sum);
    float *const b = model->arrays[RBT_FM_BIAS].values;
    *b = (float)((double)*b + (is_outward ? bias : -bias));
    return RBT_OK;
}

/* The bias, in units of labels. */
static void convert_bias(const struct rbt_fm_scales *scales, struct rbt_model *model,
                         bool is_outward)
{
    if (model->array_count > RBT_FM_BIAS && model->arrays[RBT_FM_BIAS].count > 0) {
        const float unit = (float)scales->label_unit;
        float *bias = model->arrays[RBT_FM_BIAS].values;
        *bias =
            is_outward ? *bias * unit + scales->label_shift : (*bias - scales->label_shift) / unit;
    }
}

rbt_status rbt_fm_scale_model(const struct rbt_fm_scales *scales, struct rbt_model *model,
                              bool is_outward)
{
    const bool has_shift = scales->standard.count > 0 && model->array_count > RBT_FM_BIAS &&
                           model->arrays[RBT_FM_BIAS].count > 0;
    rbt_status st = RBT_OK;
    if (has_shift && !is_outward) {
        st = shift_model(&scales->standard, model, false);
    }
    if (st == RBT_OK) {
        convert_rows(scales, &model->arrays[RBT_FM_WEIGHTS], scales->label_unit, is_outward);
        convert_rows(scales, &model->arrays[RBT_FM_EMBEDDINGS], sqrt(scales->label_unit),
                     is_outward);
        convert_bias(scales, model, is_outward);
    }
    if (st == RBT_OK && has_shift && is_outward) {
        st = shift_model(&scales->standard, model, true);
    }
    return st;
}

rbt_status rbt_fm_scale_copy(const struct rbt_fm_scales *scales, const struct rbt_model *model,
                             struct rbt_model *inner)
{
    memcpy(inner->settings, model->settings, sizeof inner->settings);
    inner->setting_count = model->setting_count;
    for (size_t a = 0; a < model->array_count && a <= RBT_FM_BIAS; a++) {
        if (!rbt_model_array_copy(&model->arrays[a], &inner->arrays[inner->array_count++])) {
            rbt_model_free(inner);
            return rbt_fail(RBT_E_NOMEM, "no memory for a copy of the model");
        }
    }
    const rbt_status st = rbt_fm_scale_model(scales, inner, false);
    if (st != RBT_OK) {
        rbt_model_free(inner);
    }
    return st;
}
