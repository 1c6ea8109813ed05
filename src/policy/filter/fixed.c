/* policy/filter/fixed.c - fixed point of N bits, rounded at random so that the mean is right.
 *
 *   fixed:N    z = floor(x/b L + u),  b = max |x|,  L = 2^(N-1) - 1,  u uniform in [0, 1)
 *
 * E[z] = x/b L, and what arrives, z b/L, is less than one bin of b/L away from x. Li's thesis
 * prints the scale 2^n, with which z would take n + 2 bits (eq. 10.23); with L it has values -L ..
 * L, which are N bits. b is of all elements of a call that are kept.
 *
 * Codes are z + L, 0 .. 2L, and are found again from the rounded elements. With step = b/L in
 * double (relative error e1 <= 2^-53), the element is v = z step (1 + e2), where e2 <= 2^-24 +
 * 2^-53 as long as v is a normal float: a product in double, rounded to float. The reader of v
 * computes v (L/b) = z (1 + e), |e| < 2^-24 + 2^-50, so that it is off by less than |z| (2^-24 +
 * 2^-50) <= (2^23 - 1)(2^-24 + 2^-50) < 1/2 - 2^-24 + 2^-27 for N <= 24, and adding L + 1/2 in
 * double, below 2^25, by 2^-28 more: below 1/2, so that cutting off what is behind the point gives
 * z + L. No v but zero is subnormal if b/L >= 2^-126; calls with a smaller b, which is not zero,
 * are not coded, and neither are those with an infinity or a NaN: their elements travel as they are
 * (32 bits).
 *
 * What is not zero stays so: if z is 0 and x is not, FLT_MIN arrives, which has the code that is
 * left over, 2L + 1. It is next to nothing in a sum, but rows of zeros are no updates, and a rule
 * like prox, whose every update also shrinks, would not get to see them. (If some z step is
 * FLT_MIN, that code means the same.)
 *
 * Adding u and L to x/b L in double is off by 2^-29 of a bin, and u has 32 bits: this is how
 * unbiased it is, apart from the rounding of v to a float, and FLT_MIN.
 *
 * Threads: none. Cost: two passes; half a hash per element. */
#include <float.h>
#include <string.h>

#include "base/assert.h"
#include "policy/filter/builtin.h"

struct fixed {
    uint32_t bits;
};

enum { BITS_MIN = 2, BITS_MAX = 24, FLOAT_INFINITY = 0x7f800000 };

static rbt_status create(const struct rbt_filter_setup *setup, void **self)
{
    static const struct rbt_filter_range range = {.name = "the number of bits",
                                                  .is_required = true,
                                                  .is_whole = true,
                                                  .min = BITS_MIN,
                                                  .max = BITS_MAX};
    double bits;
    rbt_status st = rbt_filter_numbers(setup, &range, 1, &bits);
    if (st == RBT_OK) {
        st = rbt_filter_new(setup, sizeof(struct fixed), self);
    }
    if (st == RBT_OK) {
        *(struct fixed *)*self = (struct fixed){.bits = (uint32_t)bits};
    }
    return st;
}

/* L. A damaged message may have other bits than round() says. */
static int32_t levels_of(uint32_t bits)
{
    RBT_ASSERT(bits >= 1 && bits < 32);
    return (int32_t)((1U << (bits - 1)) - 1);
}

/* The code that no z has. */
static uint32_t spare_of(uint32_t bits)
{
    RBT_ASSERT(bits >= 1 && bits < 32);
    return (1U << bits) - 1;
}

static double step_of(float scale, int32_t levels)
{
    return levels == 0 ? 0 : (double)scale / levels;
}

/* The largest |x| of those kept, as the bits of a float, which have the same order. */
static int32_t largest(const struct rbt_filter_rows *rows)
{
    const size_t count = rbt_filter_count(rows);
    const float *restrict values = rows->values;
    const uint8_t *restrict keep = rbt_filter_keep(rows);
    int32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        int32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits &= 0x7fffffff & -(int32_t)keep[i];
        most = bits > most ? bits : most;
    }
    return most;
}

static rbt_status round_all(void *self, const struct rbt_filter_rows *rows,
                            struct rbt_filter_code *code)
{
    const struct fixed *fixed = self;
    const size_t count = rbt_filter_count(rows);
    const int32_t levels = levels_of(fixed->bits);
    const int32_t most = largest(rows);
    float b;
    memcpy(&b, &most, sizeof b);
    if (most >= FLOAT_INFINITY || (most != 0 && step_of(b, levels) < 0x1p-126)) {
        *code = (struct rbt_filter_code){.bits = 32};
        return RBT_OK;
    }
    *code = (struct rbt_filter_code){.bits = fixed->bits, .scale = b};
    const double step = step_of(b, levels);
    const double inverse = most == 0 ? 0 : (double)levels / (double)b;
    uint32_t random[RBT_FILTER_BLOCK];
    for (size_t first = 0; first < count; first += RBT_FILTER_BLOCK) {
        const size_t left = count - first;
        const size_t now = left < RBT_FILTER_BLOCK ? left : RBT_FILTER_BLOCK;
        float *restrict values = rows->values + first;
        const uint8_t *restrict keep = rbt_filter_keep(rows) + first;
        rbt_filter_randoms(rows->seed, first, random);
        RBT_FILTER_APART
        for (size_t i = 0; i < now; i++) {
            /* What is not kept may be anything. */
            const double x = (double)rbt_filter_pick_float(keep[i], values[i], 0);
            const double u = ((double)(int32_t)random[i] + 0x1p31) * 0x1p-32;
            const int32_t z = (int32_t)(x * inverse + levels + u) - levels;
            const float exact = (float)((z - (z > levels)) * step);
            const float rounded = exact == 0 && x != 0 ? FLT_MIN : exact;
            values[i] = rbt_filter_pick_float(keep[i], rounded, values[i]);
        }
    }
    return RBT_OK;
}

static void encode(const struct rbt_filter_code *code, const float *restrict values, size_t count,
                   uint32_t *restrict codes)
{
    const int32_t levels = levels_of(code->bits);
    const uint32_t spare = spare_of(code->bits);
    const double inverse = code->scale == 0 ? 0 : (double)levels / (double)code->scale;
    RBT_FILTER_APART
    for (size_t i = 0; i < count; i++) {
        const uint32_t number = (uint32_t)(int32_t)((double)values[i] * inverse + levels + 0.5);
        codes[i] = values[i] == FLT_MIN ? spare : number;
    }
}

static void decode(const struct rbt_filter_code *code, const uint32_t *restrict codes, size_t count,
                   float *restrict values)
{
    const int32_t levels = levels_of(code->bits);
    const uint32_t spare = spare_of(code->bits);
    const double step = step_of(code->scale, levels);
    RBT_FILTER_APART
    for (size_t i = 0; i < count; i++) {
        const float value = (float)(((int32_t)codes[i] - levels) * step);
        values[i] = codes[i] == spare ? FLT_MIN : value;
    }
}

const struct rbt_filter rbt_filter_fixed = {
    .abi = RBT_FILTER_ABI,
    .struct_size = sizeof rbt_filter_fixed,
    .name = "fixed",
    .summary = "Fixed point of N bits, rounded at random so that the mean is right.",
    .kind = RBT_FILTER_ROUND,
    .create = create,
    .destroy = rbt_filter_free,
    .round = round_all,
    .encode = encode,
    .decode = decode};
