/* data/scales.c - how large the numbers of a table's columns are.
 *
 * The variance comes from distances to the column's first number, since squares of large numbers
 * that hardly differ, such as years, would leave nothing of it. */
#include "data/scales.h"

#include <float.h>
#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

enum { EXPONENT_MAX = 60 };

rbt_status rbt_scales_open(struct rbt_scales *scales, size_t count)
{
    if (scales->columns != NULL) {
        RBT_ASSERT(scales->count == count);
        return RBT_OK;
    }
    scales->columns = rbt_calloc(count, sizeof *scales->columns);
    scales->count = count;
    return scales->columns == NULL ? rbt_fail(RBT_E_NOMEM, "no memory for the scales of columns")
                                   : RBT_OK;
}

void rbt_scales_free(struct rbt_scales *scales)
{
    rbt_free(scales->columns);
    *scales = (struct rbt_scales){0};
}

void rbt_scales_add(struct rbt_scales *scales, const struct rbt_examples *examples, size_t first)
{
    const uint64_t end = examples->offsets[examples->count];
    for (uint64_t k = examples->offsets[first]; k < end; k++) {
        const uint64_t key = examples->keys[k];
        if (key == 0 || key > scales->count) {
            continue;
        }
        struct rbt_scale_sums *column = &scales->columns[key - 1];
        const double value = (double)examples->values[k];
        if (column->nonzeros == 0) {
            column->origin = value;
        }
        const double distance = value - column->origin;
        column->nonzeros++;
        column->sum += distance;
        column->squares += distance * distance;
        column->pure += value * value;
    }
}

/* The root of the mean square, or the standard deviation; 0 if nothing can be said. */
static double size_of(const struct rbt_scale_sums *column, bool is_spread)
{
    const double count = (double)column->numbers;
    if (column->numbers == 0) {
        return 0;
    }
    if (!is_spread) {
        return sqrt(column->pure / count);
    }
    const double zeros = count - (double)column->nonzeros;
    const double mean = (column->sum - zeros * column->origin) / count;
    const double square = (column->squares + zeros * column->origin * column->origin) / count;
    return sqrt(fmax(square - mean * mean, 0));
}

void rbt_scales_settle(const struct rbt_scales *scales, struct rbt_column_plan *plan)
{
    for (size_t i = 0; i < scales->count; i++) {
        double size = size_of(&scales->columns[i], plan->is_spread);
        size = size > 0 && isfinite(size) ? size : size_of(&scales->columns[i], false);
        size = size > 0 && isfinite(size) ? size : 1;
        const double exponent = fmin(round(log2(size)), EXPONENT_MAX);
        plan->scales[i] = (float)exp2(-fmax(exponent, -EXPONENT_MAX));
    }
    plan->is_measuring = false;
}

float rbt_scales_times(float value, float scale)
{
    return fmaxf(fminf(value * scale, FLT_MAX), -FLT_MAX);
}

void rbt_scales_apply(const struct rbt_column_plan *plan, struct rbt_examples *examples)
{
    const uint64_t end = examples->count == 0 ? 0 : examples->offsets[examples->count];
    for (uint64_t k = 0; k < end; k++) {
        const uint64_t key = examples->keys[k];
        if (key > 0 && key <= plan->count) {
            examples->values[k] = rbt_scales_times(examples->values[k], plan->scales[key - 1]);
        }
    }
}
