/* policy/filter/half_test.c - f16 and bf16 round to the nearest, as a slow and obvious judge has
 * it. */
#include "policy/filter/filter_rig.h"

#include <float.h>

#include "policy/filter/builtin.h"

/* The value of an f16, from its definition. */
static double value_of_f16(uint32_t code)
{
    const uint32_t exponent = code >> 10 & 31;
    const double fraction = (double)(code & 1023);
    const double sign = (code & 0x8000) != 0 ? -1 : 1;
    if (exponent == 31) {
        return fraction == 0 ? sign * (double)INFINITY : (double)NAN;
    }
    return sign *
           (exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, (int)exponent - 25));
}

static double value_of_bf16(uint32_t code)
{
    return (double)rig_float(code << 16);
}

struct format {
    const struct rbt_filter *filter;
    double (*value_of)(uint32_t code);
    uint32_t infinity;
    uint32_t quiet; /* the bit that makes a NaN quiet */
};

static const struct format formats[] = {{&rbt_filter_f16, value_of_f16, 0x7c00, 0x200},
                                        {&rbt_filter_bf16, value_of_bf16, 0x7f80, 0x40}};
enum { FORMATS = 2 };

static uint32_t code_of(const struct format *format, float value)
{
    static const struct rbt_filter_code code = {.bits = 16};
    uint32_t result;
    format->filter->encode(&code, &value, 1, &result);
    return result;
}

static float float_of(const struct format *format, uint32_t code)
{
    static const struct rbt_filter_code how = {.bits = 16};
    float result;
    format->filter->decode(&how, &code, 1, &result);
    return result;
}

static void all_codes_mean_what_they_should_and_come_back(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMATS; f++) {
        const struct format *format = &formats[f];
        for (uint32_t code = 0; code < 0x10000; code++) {
            const float value = float_of(format, code);
            const double expected = format->value_of(code);
            if (isnan(expected)) {
                assert_true(isnan(value));
                assert_int_equal(code_of(format, value), code | format->quiet);
                continue;
            }
            assert_true((double)value == expected);
            assert_int_equal(signbit(value) != 0, code >> 15);
            assert_int_equal(code_of(format, value), code);
        }
    }
}

/* Between all neighbours: just below the middle, the middle, just above. */
static void the_nearest_is_taken_and_ties_are_even(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMATS; f++) {
        const struct format *format = &formats[f];
        for (uint32_t code = 0; code < format->infinity; code++) {
            const double low = format->value_of(code);
            const double next = code + 1 == format->infinity
                                    ? 2 * low - format->value_of(code - 1) /* were it finite */
                                    : format->value_of(code + 1);
            const float middle = (float)((low + next) / 2); /* exact: f32 has the bits */
            if (!isfinite(middle)) {
                continue;
            }
            const uint32_t even = code % 2 == 0 ? code : code + 1;
            assert_int_equal(code_of(format, middle), even);
            assert_int_equal(code_of(format, -middle), even | 0x8000);
            assert_int_equal(code_of(format, nextafterf(middle, 0)), code);
            assert_int_equal(code_of(format, nextafterf(middle, INFINITY)), code + 1);
        }
    }
}

static void what_is_special_stays_so(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMATS; f++) {
        const struct format *format = &formats[f];
        assert_int_equal(code_of(format, INFINITY), format->infinity);
        assert_int_equal(code_of(format, -INFINITY), format->infinity | 0x8000);
        assert_true(isnan(float_of(format, code_of(format, NAN))));
        assert_true(isnan(float_of(format, code_of(format, rig_float(0x7f800001)))));
        assert_true(isnan(float_of(format, code_of(format, rig_float(0xffffffff)))));
        assert_int_equal(code_of(format, -0.0F), 0x8000);
        assert_int_equal(code_of(format, FLT_MAX), format->infinity);
    }
    assert_int_equal(code_of(&formats[0], 65504), 0x7bff);
    assert_int_equal(code_of(&formats[0], 0x1p-25F), 0); /* a tie with zero */
    assert_int_equal(code_of(&formats[0], rig_float(1)), 0);
    assert_int_equal(code_of(&formats[1], rig_float(0x10000)), 1); /* subnormal as well */
}

/* 16 bits of f32 are tried in full, all over; rounding a second time changes nothing. */
static void rounding_twice_is_rounding_once_and_halves_the_bytes(void **state)
{
    (void)state;
    static const char *const texts[] = {"f16", "bf16"};
    for (size_t f = 0; f < FORMATS; f++) {
        struct rig *rig = rig_open(texts[f], RBT_FILTER_PULL, 4096);
        static float once[4096];
        for (uint32_t part = 0; part < 16; part++) {
            for (uint32_t i = 0; i < 4096; i++) {
                rig->values[i] = rig_float((part << 28) + (i << 16) + (i * 2654435761U >> 16));
            }
            rig_apply(rig);
            memcpy(once, rig->values, sizeof once);
            assert_int_equal(rig_deliver(rig), 2 + 4096 * 2);
            rig_apply(rig);
            assert_memory_equal(once, rig->values, sizeof once);
        }
        rig_close(rig);
    }
}

static void what_waits_is_not_rounded(void **state)
{
    (void)state;
    struct rig *rig = rig_open("tiny:1,f16", RBT_FILTER_PUSH, 2);
    rig->values[0] = 0.1F;
    rig->values[1] = 1.1F;
    rig_apply(rig);
    assert_true(rig->values[0] == 0.1F && !rig->keep[0]);
    assert_true(rig->values[1] != 1.1F && rig->keep[1]);
    rig_close(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_codes_mean_what_they_should_and_come_back),
        cmocka_unit_test(the_nearest_is_taken_and_ties_are_even),
        cmocka_unit_test(what_is_special_stays_so),
        cmocka_unit_test(rounding_twice_is_rounding_once_and_halves_the_bytes),
        cmocka_unit_test(what_waits_is_not_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
