/* policy/filter/fixed_test.c - fixed point: right in the mean, off by less than a bin, found again
 * exactly, and of as many bits as it says. Seeds are fixed; see subsample_test.c about the limits.
 */
#include "policy/filter/filter_rig.h"

#include <float.h>
#include <stdio.h>

#include "policy/filter/builtin.h"

static struct rig *open_fixed(uint32_t bits, size_t count)
{
    char text[32];
    (void)snprintf(text, sizeof text, "fixed:%u,zeros:0", bits);
    return rig_open(text, RBT_FILTER_PUSH, count);
}

/* All codes of all sizes, with scales of all kinds: 2^24 of them for the largest size. */
static void codes_are_found_again(void **state)
{
    (void)state;
    static const float scales[] = {1,       0.1F,           3.1415927F,    0x1p-100F,
                                   FLT_MAX, 0x1.fffffep-1F, 0x1.000002p+3F};
    enum { PIECE = 4096 };
    static uint32_t codes[PIECE];
    static uint32_t again[PIECE];
    static float values[PIECE];
    for (uint32_t bits = 2; bits <= 24; bits++) {
        const uint32_t count = 1U << bits; /* and the one for FLT_MIN */
        const size_t scale_count = bits < 16 ? 7 : bits < 24 ? 1 : 2;
        for (size_t s = 0; s < scale_count; s++) {
            const struct rbt_filter_code code = {.bits = bits, .scale = scales[s]};
            for (uint32_t first = 0; first < count; first += PIECE) {
                const size_t now = count - first < PIECE ? count - first : PIECE;
                for (uint32_t i = 0; i < now; i++) {
                    codes[i] = first + i;
                }
                rbt_filter_fixed.decode(&code, codes, now, values);
                rbt_filter_fixed.encode(&code, values, now, again);
                assert_true(memcmp(codes, again, now * sizeof *codes) == 0);
            }
        }
    }
}

/* And with the smallest scale that is coded, which is the hardest. */
static void small_scales_are_coded_or_travel_as_they_are(void **state)
{
    (void)state;
    static const float scales[] = {0x1p-149F, 0x1p-126F,   0x1p-120F, 0x1p-119F,
                                   0x1p-103F, 0x1.8p-103F, 0x1p-50F};
    for (size_t s = 0; s < sizeof scales / sizeof scales[0]; s++) {
        for (uint32_t bits = 2; bits <= 24; bits += 2) {
            struct rig *rig = open_fixed(bits, 1000);
            for (size_t i = 0; i < 1000; i++) {
                rig->values[i] = scales[s] * ((float)i / 999) * (i % 2 == 0 ? 1 : -1);
            }
            rig_apply(rig);
            const double step = (double)scales[s] / ((1U << (bits - 1)) - 1);
            assert_int_equal(rig->code.bits, step < 0x1p-126 ? 32 : bits);
            (void)rig_deliver(rig);
            rig_close(rig);
        }
    }
}

static void errors_are_below_one_bin(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 31, 0, 0);
    for (uint32_t bits = 2; bits <= 24; bits++) {
        struct rig *rig = open_fixed(bits, RIG_MAX);
        static float before[RIG_MAX];
        double b = 0;
        for (size_t i = 0; i < RIG_MAX; i++) {
            before[i] = rig->values[i] = (float)rbt_rng_normal(&rng);
            b = fabs((double)before[i]) > b ? fabs((double)before[i]) : b;
        }
        rig_apply(rig);
        const double bin = b / ((1U << (bits - 1)) - 1);
        assert_true((double)rig->code.scale == b);
        for (size_t i = 0; i < RIG_MAX; i++) {
            const double off = fabs((double)rig->values[i] - (double)before[i]);
            assert_true(off <= bin * (1 + 1e-6) + b * 0x1p-24); /* and the rounding to a float */
            assert_true(fabs((double)rig->values[i]) <= b);
        }
        assert_int_equal(rig_deliver(rig), 6 + (RIG_MAX * bits + 7) / 8);
        rig_close(rig);
    }
}

/* An element is z or z + 1 bins, and the mean of many is right: a Bernoulli variable of probability
 * p has the variance p (1 - p), in bins. */
static void the_mean_is_right(void **state)
{
    (void)state;
    enum { ELEMENTS = 41, TIMES = 20000 };
    static const uint32_t sizes[] = {2, 4, 8, 16, 24};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct rig *rig = open_fixed(sizes[s], ELEMENTS);
        const int levels = (1 << (sizes[s] - 1)) - 1;
        double sums[ELEMENTS] = {0};
        float x[ELEMENTS];
        for (size_t i = 0; i < ELEMENTS; i++) {
            x[i] = i == 0 ? -1 : sinf((float)i) * 0.99F; /* b is 1 */
        }
        for (int time = 0; time < TIMES; time++) {
            memcpy(rig->values, x, sizeof x);
            rig_apply(rig);
            for (size_t i = 0; i < ELEMENTS; i++) {
                sums[i] += (double)rig->values[i] - (double)x[i];
            }
        }
        for (size_t i = 0; i < ELEMENTS; i++) {
            const double place = (double)x[i] * levels;
            const double p = place - floor(place);
            const double deviation = sqrt(p * (1 - p) / TIMES) / levels;
            const double float_error = sizes[s] == 24 ? 0x1p-25 : 1e-9;
            assert_true(fabs(sums[i] / TIMES) <= 4 * deviation + float_error);
        }
        rig_close(rig);
    }
}

static void what_cannot_be_coded_travels_as_it_is(void **state)
{
    (void)state;
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t k = 0; k < 3; k++) {
        struct rig *rig = open_fixed(8, 100);
        for (size_t i = 0; i < 100; i++) {
            rig->values[i] = (float)i;
        }
        rig->values[50] = odd[k];
        rig_apply(rig);
        assert_int_equal(rig->code.bits, 32);
        assert_true(rig->values[49] == 49);
        assert_int_equal(rig_deliver(rig), 1 + 400);
        rig_close(rig);
    }
}

/* If nothing is kept, nothing is sent; if all are zero, they still have a code. */
static void nothing_and_zeros_have_codes(void **state)
{
    (void)state;
    struct rig *rig = rig_open("kkt:4:4,fixed:8", RBT_FILTER_PUSH, 3);
    rig->rows.known = rig->known;
    rig->rows.turn = 1;
    rig_apply(rig); /* nothing is kept */
    assert_int_equal(rig_deliver(rig), 1);
    rig_close(rig);
    rig = open_fixed(8, 100);
    rig->values[3] = -0.0F;
    rig_apply(rig); /* zeros */
    assert_int_equal(rig->code.bits, 8);
    assert_int_equal(rig_bits(rig->values[3]), 0);
    assert_int_equal(rig_deliver(rig), 2 + 100);
    rig_close(rig);
}

/* Next to a large one small elements become zero or a bin in the mean, but arrive as something. */
static void what_is_not_zero_stays_so(void **state)
{
    (void)state;
    enum { COUNT = 999 };
    for (uint32_t bits = 2; bits <= 24; bits += 2) {
        struct rig *rig = open_fixed(bits, COUNT);
        for (size_t i = 1; i < COUNT; i++) {
            rig->values[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 1e-12F : -FLT_MIN;
        }
        rig->values[0] = 1;
        rig_apply(rig);
        assert_int_equal(rig->code.bits, bits);
        for (size_t i = 1; i < COUNT; i++) {
            assert_true(rig->values[i] == (i % 3 == 0 ? 0 : FLT_MIN));
        }
        assert_int_equal(rig_deliver(rig), 6 + (COUNT * bits + 7) / 8);
        rig_close(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_found_again),
        cmocka_unit_test(small_scales_are_coded_or_travel_as_they_are),
        cmocka_unit_test(errors_are_below_one_bin),
        cmocka_unit_test(the_mean_is_right),
        cmocka_unit_test(what_cannot_be_coded_travels_as_it_is),
        cmocka_unit_test(nothing_and_zeros_have_codes),
        cmocka_unit_test(what_is_not_zero_stays_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
