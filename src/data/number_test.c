/* data/number_test.c - numbers are read exactly, and nothing else is taken for one. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "data/number.h"

static void whole_numbers_reach_up_to_64_bits(void **state)
{
    (void)state;
    static const char text[] = "18446744073709551615:";
    uint64_t value = 0;
    assert_ptr_equal(rbt_number_u64(text, &value), text + 20);
    assert_true(value == UINT64_MAX);
    assert_non_null(rbt_number_u64("00000000000000000000000017 ", &value));
    assert_int_equal(value, 17);
}

static void whole_numbers_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    uint64_t value = 7;
    assert_null(rbt_number_u64("18446744073709551616", &value));
    assert_null(rbt_number_u64("99999999999999999999999", &value));
    assert_null(rbt_number_u64("-1", &value));
    assert_null(rbt_number_u64("+1", &value));
    assert_null(rbt_number_u64("", &value));
    assert_int_equal(value, 7);
}

static void floats_end_where_the_number_ends(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        float value;
    } cases[] = {
        {"1", 1, 1},       {"-2.5,", 4, -2.5F},        {"+3e2 ", 4, 300}, {".5\n", 2, .5F},
        {"5.", 2, 5},      {"1E-3:", 4, 1e-3F},        {"-0", 2, 0},      {"0x10", 1, 0},
        {"1e+2x", 4, 100}, {"1e-99999999999 ", 14, 0}, {"0.1#", 3, .1F},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float value = -1;
        assert_ptr_equal(rbt_number_float(cases[i].text, &value), cases[i].text + cases[i].size);
        assert_true(value == cases[i].value);
    }
}

static void words_are_not_floats(void **state)
{
    (void)state;
    static const char *const words[] = {"",    "abc", "nan", "inf", "-inf", ".",  "-",
                                        "+-1", "e5",  "1e",  "1e+", "--1",  " 1", "infinity"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        float value = 7;
        assert_null(rbt_number_float(words[i], &value));
        assert_true(value == 7);
    }
}

static void floats_too_large_become_infinite(void **state)
{
    (void)state;
    float value = 0;
    assert_non_null(rbt_number_float("1e39", &value));
    assert_true(value == INFINITY);
    assert_non_null(rbt_number_float("-1e99999999999999999999", &value));
    assert_true(value == -INFINITY);
    assert_non_null(rbt_number_float("3.4028235e38", &value));
    assert_true(value == 3.4028235e38F);
}

/* Compares with strtof() on numbers of all shapes, among them those near the middle between two
 * floats, where rounding twice goes wrong. */
static void floats_are_rounded_like_the_library_does(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    for (int i = 0; i < 300000; i++) {
        char text[64];
        const uint64_t digits = rbt_rng_next(&rng) >> rbt_rng_below(&rng, 64);
        const int exponent = (int)rbt_rng_below(&rng, 60) - 40;
        const uint32_t bits = (uint32_t)rbt_rng_below(&rng, UINT64_C(1) << 30);
        float low = 0;
        memcpy(&low, &bits, sizeof low);
        const double middle = ((double)low + (double)nextafterf(low, INFINITY)) / 2;
        switch (i % 3) {
        case 0:
            (void)snprintf(text, sizeof text, "%llue%d", (unsigned long long)digits, exponent);
            break;
        case 1:
            (void)snprintf(text, sizeof text, "-%.*g", 1 + i % 20, (double)digits * 1e-9);
            break;
        default:
            (void)snprintf(text, sizeof text, "%.*g", 8 + i % 11, middle);
        }
        float value = 0;
        assert_non_null(rbt_number_float(text, &value));
        const float expected = strtof(text, NULL);
        if (memcmp(&value, &expected, sizeof value) != 0) {
            fail_msg("%s is read as %.9g, not %.9g", text, (double)value, (double)expected);
        }
    }
}

/* Whether the quick way has an answer; it must be that of the other. There is no more room behind
 * the text than it says it needs, and something in it. */
static bool is_quick(const char *text)
{
    const size_t size = strlen(text) + 1;
    const size_t room = size > RBT_NUMBER_ROOM_FLOAT ? size : RBT_NUMBER_ROOM_FLOAT;
    char *copy = rbt_alloc(room);
    assert_non_null(copy);
    memset(copy, '7', room);
    memcpy(copy, text, size);
    float value = 0;
    float quick = 0;
    const char *end = rbt_number_float(copy, &value);
    const char *quick_end = rbt_number_quick_float(copy, &quick);
    if (quick_end != NULL && (quick_end != end || memcmp(&value, &quick, sizeof value) != 0)) {
        fail_msg("\"%s\" is read as %.9g, not %.9g", text, (double)quick, (double)value);
    }
    uint64_t whole = 0;
    uint64_t quick_whole = 0;
    end = rbt_number_u64(copy, &whole);
    const char *quick_whole_end = rbt_number_quick_u64(copy, &quick_whole);
    assert_true(quick_whole_end == NULL || (quick_whole_end == end && quick_whole == whole));
    rbt_free(copy);
    return quick_end != NULL;
}

static void short_numbers_are_read_quickly(void **state)
{
    (void)state;
    static const char *const short_ones[] = {"0",   "1 ",        "-1:",        "9999999,",
                                             "-.5", "5.",        "0.99999999", "9999999.99999999",
                                             "-0",  "0000012.5", "1.5#",       "3.25/"};
    for (size_t i = 0; i < sizeof short_ones / sizeof short_ones[0]; i++) {
        assert_true(is_quick(short_ones[i]));
    }
    static const char *const others[] = {
        "",      "-",   ".",           "+1",  "12345678", "1e5",
        "1.5E2", "nan", "0.123456789", "--1", " 1",       "0.5000000298023223876953125"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_false(is_quick(others[i]));
    }
}

/* Numbers of all lengths, and characters next to digits where none belong. */
static void short_numbers_are_read_alike(void **state)
{
    (void)state;
    static const char near[] = "0123456789./:;,-+eE \t\xb0\xff";
    struct rbt_rng rng;
    rbt_rng_init(&rng, 2, 0, 0);
    size_t quick_count = 0;
    for (int i = 0; i < 300000; i++) {
        char text[64];
        if (i % 2 == 0) {
            (void)snprintf(text, sizeof text, "%.*f", (int)rbt_rng_below(&rng, 10),
                           rbt_rng_normal(&rng) * pow(10, (double)rbt_rng_below(&rng, 9)));
        } else {
            const size_t size = rbt_rng_below(&rng, 20);
            for (size_t k = 0; k < size; k++) {
                text[k] = near[rbt_rng_below(&rng, k % 4 == 0 ? sizeof near - 1 : 11)];
            }
            text[size] = '\0';
        }
        quick_count += is_quick(text);
    }
    assert_true(quick_count > 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_reach_up_to_64_bits),
        cmocka_unit_test(whole_numbers_that_do_not_fit_are_refused),
        cmocka_unit_test(floats_end_where_the_number_ends),
        cmocka_unit_test(words_are_not_floats),
        cmocka_unit_test(floats_too_large_become_infinite),
        cmocka_unit_test(floats_are_rounded_like_the_library_does),
        cmocka_unit_test(short_numbers_are_read_quickly),
        cmocka_unit_test(short_numbers_are_read_alike),
    };
    return cmocka_run_group_tests_name("data/number", tests, NULL, NULL);
}
