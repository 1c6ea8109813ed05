/* algo/fm_scale.c - units in which numbers are near 1.
 *
 * Steps of FTRL and AdaGrad have a size of their own, so a column in the thousands, or a label, is
 * never reached in small ones, and penalties weigh nothing. Therefore features whose values are far
 * from 1 are divided by a unit u_j, and the labels of the squared loss become (y - shift) / U.
 * Tables, penalties and steps are about these. Models are about the data as it is:
 *
 *     w_j = U / u_j w'_j,     V_j = sqrt(U) / u_j V'_j,     b = U b' + shift
 *
 * Units are powers of two, and U of four, so that nothing is rounded. All processes have all
 * examples, and find the same. */
#include <math.h>
#include <string.h>

#include "algo/fm_job.h"
#include "algo/model.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/map.h"

static const double near_one = 4; /* a size from 1/4 to 4 stays */

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

/* Squares and number of the values of features that have one that is not near 1. */
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

static bool is_far(float value)
{
    const double size = fabs((double)value);
    return size > near_one || (size > 0 && size < 1 / near_one);
}

/* Which features have values that are far from 1, and how large theirs are. */
static rbt_status find_sizes(const struct rbt_examples *examples, struct sizes *sizes)
{
    const uint64_t entries = examples->offsets[examples->count];
    rbt_status st = RBT_OK;
    for (uint64_t k = 0; k < entries && st == RBT_OK; k++) {
        if (is_far(examples->values[k]) &&
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

/* Keeps the units that are not 1, and divides by them. */
static rbt_status apply(const struct sizes *sizes, struct rbt_examples *examples,
                        struct rbt_fm_scales *scales)
{
    scales->units = rbt_calloc(sizes->count, sizeof *scales->units);
    if (scales->units == NULL) {
        return no_memory();
    }
    for (size_t i = 0; i < sizes->count; i++) {
        const double size = sqrt(sizes->squares[i] / fmax(1, sizes->counts[i]));
        scales->units[i] = (float)unit_of(size, 2);
    }
    for (uint64_t k = 0; k < examples->offsets[examples->count]; k++) {
        const uint32_t at = rbt_map_find(&sizes->map, examples->keys[k]);
        examples->values[k] /= at == RBT_MAP_NONE ? 1.0F : scales->units[at];
    }
    return RBT_OK;
}

static rbt_status scale_features(struct rbt_examples *examples, struct rbt_fm_scales *scales)
{
    struct sizes sizes = {0};
    rbt_status st = rbt_map_init(&sizes.map, 64);
    st = st != RBT_OK ? st : find_sizes(examples, &sizes);
    if (st == RBT_OK && sizes.count > 0) {
        st = apply(&sizes, examples, scales);
    }
    scales->map = sizes.map;
    rbt_free(sizes.counts);
    rbt_free(sizes.squares);
    rbt_free(sizes.keys);
    return st;
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
    return scale_features(&fm->examples, scales);
}

void rbt_fm_scale_free(struct rbt_fm_scales *scales)
{
    rbt_map_deinit(&scales->map);
    rbt_free(scales->units);
    *scales = (struct rbt_fm_scales){0};
}

static float unit_at(const struct rbt_fm_scales *scales, uint64_t key)
{
    const uint32_t at = scales->units == NULL ? RBT_MAP_NONE : rbt_map_find(&scales->map, key);
    return at == RBT_MAP_NONE ? 1.0F : scales->units[at];
}

/* values = from * unit / u_j, or the other way round. */
static void convert_rows(const struct rbt_fm_scales *scales, struct rbt_model_array *array,
                         double unit, bool is_outward)
{
    for (size_t i = 0; i < array->count; i++) {
        const double factor = unit / (double)unit_at(scales, array->keys[i]);
        const float by = (float)(is_outward ? factor : 1.0 / factor);
        for (size_t e = 0; e < array->width; e++) {
            array->values[i * array->width + e] *= by;
        }
    }
}

void rbt_fm_scale_model(const struct rbt_fm_scales *scales, struct rbt_model *model,
                        bool is_outward)
{
    const float unit = (float)scales->label_unit;
    convert_rows(scales, &model->arrays[RBT_FM_WEIGHTS], scales->label_unit, is_outward);
    convert_rows(scales, &model->arrays[RBT_FM_EMBEDDINGS], sqrt(scales->label_unit), is_outward);
    if (model->array_count > RBT_FM_BIAS && model->arrays[RBT_FM_BIAS].count > 0) {
        float *bias = model->arrays[RBT_FM_BIAS].values;
        *bias =
            is_outward ? *bias * unit + scales->label_shift : (*bias - scales->label_shift) / unit;
    }
}

rbt_status rbt_fm_scale_copy(const struct rbt_fm_scales *scales, const struct rbt_model *model,
                             struct rbt_model *inner)
{
    memcpy(inner->settings, model->settings, sizeof inner->settings);
    inner->setting_count = model->setting_count;
    for (size_t a = 0; a < model->array_count && a <= RBT_FM_BIAS; a++) {
        const struct rbt_model_array *from = &model->arrays[a];
        struct rbt_model_array *to = &inner->arrays[inner->array_count++];
        const size_t values = from->count * from->width;
        *to = *from;
        to->keys = rbt_calloc(from->count, sizeof *to->keys);
        to->values = rbt_calloc(values, sizeof *to->values);
        if (to->keys == NULL || to->values == NULL) {
            rbt_model_free(inner);
            return rbt_fail(RBT_E_NOMEM, "no memory for a copy of the model");
        }
        memcpy(to->keys, from->keys, from->count * sizeof *to->keys);
        memcpy(to->values, from->values, values * sizeof *to->values);
    }
    rbt_fm_scale_model(scales, inner, false);
    return RBT_OK;
}
