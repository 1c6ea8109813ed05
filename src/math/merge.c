/* math/merge.c - element-wise updates, one plain loop per type and operation.
 *
 * The loops are written so that the compiler vectorises them. The order of the additions is that of
 * the calls, so equal calls give equal bits. Integer sums wrap around, as documented for tables. */
#include "math/merge.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"

/* One loop over two arrays of `type`; `expression` uses a (the old value) and b (the update). */
#define LOOP(type, expression)                                                                     \
    do {                                                                                           \
        type *restrict t = to;                                                                     \
        const type *restrict f = from;                                                             \
        for (size_t i = 0; i < count; i++) {                                                       \
            const type a = t[i];                                                                   \
            const type b = f[i];                                                                   \
            t[i] = (type)(expression);                                                             \
        }                                                                                          \
    } while (0)

size_t rbt_merge_size(rbt_type type)
{
    return type == RBT_F32 || type == RBT_I32 ? 4 : 8;
}

static void add(rbt_type type, void *restrict to, const void *restrict from, size_t count)
{
    switch (type) {
    case RBT_F32:
        LOOP(float, a + b);
        break;
    case RBT_F64:
        LOOP(double, a + b);
        break;
    case RBT_I32:
        LOOP(uint32_t, a + b); /* unsigned, so that overflow wraps */
        break;
    case RBT_I64:
        LOOP(uint64_t, a + b);
        break;
    }
}

static void maximum(rbt_type type, void *restrict to, const void *restrict from, size_t count)
{
    switch (type) {
    case RBT_F32:
        LOOP(float, a < b ? b : a);
        break;
    case RBT_F64:
        LOOP(double, a < b ? b : a);
        break;
    case RBT_I32:
        LOOP(int32_t, a < b ? b : a);
        break;
    case RBT_I64:
        LOOP(int64_t, a < b ? b : a);
        break;
    }
}

static void minimum(rbt_type type, void *restrict to, const void *restrict from, size_t count)
{
    switch (type) {
    case RBT_F32:
        LOOP(float, b < a ? b : a);
        break;
    case RBT_F64:
        LOOP(double, b < a ? b : a);
        break;
    case RBT_I32:
        LOOP(int32_t, b < a ? b : a);
        break;
    case RBT_I64:
        LOOP(int64_t, b < a ? b : a);
        break;
    }
}

void rbt_merge_apply(struct rbt_merge_kind kind, void *restrict to, const void *restrict from,
                     size_t count)
{
    switch (kind.merge) {
    case RBT_MERGE_ADD:
        add(kind.type, to, from, count);
        break;
    case RBT_MERGE_MAX:
        maximum(kind.type, to, from, count);
        break;
    case RBT_MERGE_MIN:
        minimum(kind.type, to, from, count);
        break;
    case RBT_MERGE_OR:
        RBT_ASSERT(kind.type == RBT_I32 || kind.type == RBT_I64);
        if (kind.type == RBT_I32) {
            LOOP(uint32_t, a | b);
        } else {
            LOOP(uint64_t, a | b);
        }
        break;
    }
}

void rbt_merge_subtract(rbt_type type, void *restrict to, const void *restrict from, size_t count)
{
    switch (type) {
    case RBT_F32:
        LOOP(float, a - b);
        break;
    case RBT_F64:
        LOOP(double, a - b);
        break;
    case RBT_I32:
        LOOP(uint32_t, a - b);
        break;
    case RBT_I64:
        LOOP(uint64_t, a - b);
        break;
    }
}

/* The bytes of one element that changes nothing. */
static void neutral(struct rbt_merge_kind kind, void *element)
{
    const bool is_max = kind.merge == RBT_MERGE_MAX;
    const float f32 = is_max ? -INFINITY : INFINITY;
    const double f64 = is_max ? -(double)INFINITY : (double)INFINITY;
    const int32_t i32 = is_max ? INT32_MIN : INT32_MAX;
    const int64_t i64 = is_max ? INT64_MIN : INT64_MAX;
    memset(element, 0, rbt_merge_size(kind.type));
    if (kind.merge == RBT_MERGE_ADD || kind.merge == RBT_MERGE_OR) {
        return;
    }
    switch (kind.type) {
    case RBT_F32:
        memcpy(element, &f32, sizeof f32);
        break;
    case RBT_F64:
        memcpy(element, &f64, sizeof f64);
        break;
    case RBT_I32:
        memcpy(element, &i32, sizeof i32);
        break;
    case RBT_I64:
        memcpy(element, &i64, sizeof i64);
        break;
    }
}

void rbt_merge_clear(struct rbt_merge_kind kind, void *to, size_t count)
{
    const size_t size = rbt_merge_size(kind.type);
    if (count == 0) {
        return; /* there may be no array at all */
    }
    if (kind.merge == RBT_MERGE_ADD || kind.merge == RBT_MERGE_OR) {
        memset(to, 0, count * size);
        return;
    }
    char element[8];
    neutral(kind, element);
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)to + i * size, element, size);
    }
}

size_t rbt_merge_count(struct rbt_merge_kind kind, const void *from, size_t count)
{
    uint64_t element = 0;
    neutral(kind, &element);
    size_t sum = 0;
    if (rbt_merge_size(kind.type) == sizeof(uint32_t)) {
        uint32_t half = 0;
        memcpy(&half, &element, sizeof half);
        const uint32_t *bits = from; /* compared bit by bit, so the type does not matter */
        for (size_t i = 0; i < count; i++) {
            sum += bits[i] != half;
        }
    } else {
        const uint64_t *bits = from;
        for (size_t i = 0; i < count; i++) {
            sum += bits[i] != element;
        }
    }
    return sum;
}

bool rbt_merge_is_neutral(struct rbt_merge_kind kind, const void *from, size_t count)
{
    const size_t size = rbt_merge_size(kind.type);
    char element[8];
    neutral(kind, element);
    for (size_t i = 0; i < count; i++) {
        if (memcmp((const char *)from + i * size, element, size) != 0) {
            return false;
        }
    }
    return true;
}

void rbt_merge_store(rbt_type type, void *to, double value)
{
    const float f32 = (float)value;
    switch (type) {
    case RBT_F32:
        memcpy(to, &f32, sizeof f32);
        break;
    case RBT_F64:
        memcpy(to, &value, sizeof value);
        break;
    case RBT_I32: {
        const int32_t i32 = (int32_t)lrint(value);
        memcpy(to, &i32, sizeof i32);
        break;
    }
    case RBT_I64: {
        const int64_t i64 = (int64_t)llrint(value);
        memcpy(to, &i64, sizeof i64);
        break;
    }
    }
}
