/* policy/filter/half.c - elements of 16 bits: f16 (IEEE half precision) and bf16 (the upper half of
 * f32).
 *
 * Both round to the nearest, ties to even, and keep infinities and NaN (a NaN keeps the upper bits
 * of its payload, and is quiet). What is too large for f16 becomes infinite, what is small becomes
 * one of its subnormal numbers or zero. Written with bits and without branches, so that compilers
 * make vector code of it for any machine: _Float16 is a call of a library function per element
 * where the processor has no such instruction, which is what we build for.
 *
 * Threads: none. */
#include <string.h>

#include "policy/filter/builtin.h"

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* f32 has 8 bits of exponent, biased by 127, and 23 of fraction; f16 has 5, by 15, and 10. */
enum {
    F16_DROPPED = 13,              /* bits of fraction that f16 does not have */
    F16_REBIAS = (127 - 15) << 23, /* between the two exponents, at their place in f32 */
    F32_INFINITY = 0x7f800000,     /* greater ones are NaN */
    F16_NORMAL = 0x38800000,       /* 2^-14 as f32: smaller ones are subnormal in f16 */
    F16_OVERFLOW = 0x477ff000,     /* 65520: from here on the nearest is infinite */
    F16_INFINITY = 0x7c00,
    F16_QUIET = 0x7e00,
};

/* All kinds are computed, and the right one is taken. Subnormal: 0.5 has the unit in the last place
 * that f16's subnormal numbers have, 2^-24, so that adding it lets the processor round. */
static inline uint32_t f16_of(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t size = bits & 0x7fffffff;
    const uint32_t odd = size >> F16_DROPPED & 1;
    const uint32_t normal =
        (size - F16_REBIAS + ((1U << (F16_DROPPED - 1)) - 1) + odd) >> F16_DROPPED;
    const uint32_t subnormal = bits_of(float_of(size) + 0.5F) - bits_of(0.5F);
    const uint32_t nan = F16_QUIET | (size >> F16_DROPPED & 0x3ff);
    uint32_t code = rbt_filter_pick(size < F16_NORMAL, subnormal, normal);
    code = rbt_filter_pick(size >= F16_OVERFLOW, F16_INFINITY, code);
    code = rbt_filter_pick(size > F32_INFINITY, nan, code);
    return code | (bits >> 16 & 0x8000);
}

static inline float float_of_f16(uint32_t code)
{
    const uint32_t size = code & 0x7fff;
    const uint32_t normal = (size << F16_DROPPED) + F16_REBIAS;
    const uint32_t subnormal = bits_of((float)(int32_t)size * 0x1p-24F);
    uint32_t bits = rbt_filter_pick(size < 0x400, subnormal, normal);
    bits += F16_REBIAS & (0U - (uint32_t)(size >= F16_INFINITY)); /* all ones again */
    return float_of(bits | (code & 0x8000) << 16);
}

static inline uint32_t bf16_of(float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t nan = bits >> 16 | 0x40;
    return rbt_filter_pick((bits & 0x7fffffff) > F32_INFINITY, nan, rounded);
}

static inline float float_of_bf16(uint32_t code)
{
    return float_of(code << 16);
}

/* The same three loops for both. */
#define HALF(form, text)                                                                           \
    static rbt_status round_##form(void *self, const struct rbt_filter_rows *rows,                 \
                                   struct rbt_filter_code *code)                                   \
    {                                                                                              \
        (void)self;                                                                                \
        const size_t count = rbt_filter_count(rows);                                               \
        float *restrict values = rows->values;                                                     \
        const uint8_t *restrict keep = rbt_filter_keep(rows);                                      \
        *code = (struct rbt_filter_code){.bits = 16};                                              \
        RBT_FILTER_APART                                                                           \
        for (size_t i = 0; i < count; i++) {                                                       \
            const float rounded = float_of_##form(form##_of(values[i]));                           \
            values[i] = rbt_filter_pick_float(keep[i], rounded, values[i]);                        \
        }                                                                                          \
        return RBT_OK;                                                                             \
    }                                                                                              \
    static void encode_##form(const struct rbt_filter_code *code, const float *restrict values,    \
                              size_t count, uint32_t *restrict codes)                              \
    {                                                                                              \
        (void)code;                                                                                \
        RBT_FILTER_APART                                                                           \
        for (size_t i = 0; i < count; i++) {                                                       \
            codes[i] = form##_of(values[i]);                                                       \
        }                                                                                          \
    }                                                                                              \
    static void decode_##form(const struct rbt_filter_code *code, const uint32_t *restrict codes,  \
                              size_t count, float *restrict values)                                \
    {                                                                                              \
        (void)code;                                                                                \
        RBT_FILTER_APART                                                                           \
        for (size_t i = 0; i < count; i++) {                                                       \
            values[i] = float_of_##form(codes[i]);                                                 \
        }                                                                                          \
    }                                                                                              \
    const struct rbt_filter rbt_filter_##form = {.abi = RBT_FILTER_ABI,                            \
                                                 .struct_size = sizeof rbt_filter_##form,          \
                                                 .name = #form,                                    \
                                                 .summary = text,                                  \
                                                 .kind = RBT_FILTER_ROUND,                         \
                                                 .round = round_##form,                            \
                                                 .encode = encode_##form,                          \
                                                 .decode = decode_##form}

HALF(f16, "Half precision: 11 bits of precision, up to 65504.");
HALF(bf16, "The upper half of a float: 8 bits of precision, its full range.");
