/* policy/filter/elements_test.c - what is written comes back bit by bit, whatever it is, in as few
 * bytes as promised; and what is damaged is refused. */
#include "policy/filter/filter_rig.h"

#include "policy/filter/elements.h"

enum { COUNT_MAX = 4200 };

static uint64_t values[COUNT_MAX];
static uint64_t got[COUNT_MAX];
static bool keep[COUNT_MAX];
static bool there[COUNT_MAX];

static rbt_chain *open_chain(const char *text, uint32_t element_size)
{
    struct rbt_chain_options options = rig_options(text, RBT_FILTER_PUSH);
    rbt_chain *chain = NULL;
    options.type = element_size == 4 ? RBT_F32 : RBT_F64;
    assert_ok(rbt_chain_create(&options, &chain));
    return chain;
}

/* Anything: NaN with payloads, infinities, -0.0 and subnormal numbers among them. */
static uint32_t draw(struct rbt_rng *rng)
{
    static const uint32_t special[] = {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000,
                                       0x7f800001, 0xffffffff, 1,          0x807fffff, 0x7f7fffff};
    const uint64_t number = rbt_rng_next(rng);
    switch (number % 4) {
    case 0:
        return special[(number >> 8) % (sizeof special / sizeof special[0])];
    case 1:
        return 0;
    default:
        return (uint32_t)(number >> 32);
    }
}

/* Elements of `size` bytes, of which one in `one_in` is kept; NULL as well if that is 1. */
static void fill(struct rbt_rng *rng, size_t count, uint32_t size, uint64_t one_in)
{
    char *at = (char *)values;
    for (size_t i = 0; i < count; i++) {
        const uint32_t low = draw(rng);
        const uint32_t high = draw(rng);
        memcpy(at + i * size, &low, sizeof low);
        if (size == 8) {
            memcpy(at + i * size + 4, &high, sizeof high);
        }
        keep[i] = one_in == 1 || (one_in != 0 && rbt_rng_below(rng, one_in) == 0);
    }
}

static bool is_zero(size_t i, size_t size)
{
    static const char zeros[8] = {0};
    return memcmp((char *)values + i * size, zeros, size) == 0;
}

/* There and back; what is not sent leaves the receiver's as they were. */
static size_t check(const char *text, size_t count, uint32_t size, bool has_keep)
{
    rbt_chain *chain = open_chain(text, size);
    rbt_chain *receiver = open_chain(text, size);
    const struct rbt_chain_elements elements = {
        .count = count, .values = values, .keep = has_keep ? keep : NULL};
    static const char before[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const bool skips_zeros = rbt_chain_traits(chain).skips_zeros;
    for (size_t i = 0; i < count; i++) {
        memcpy((char *)got + i * size, before, size);
    }
    const size_t bytes = rig_send(chain, receiver, &elements, got, there);
    for (size_t i = 0; i < count; i++) {
        /* Where all may go, zeros that are few are there: to name the others would take more. */
        const bool is_left_out = skips_zeros && is_zero(i, size) && (has_keep || !there[i]);
        const bool goes = (!has_keep || keep[i]) && !is_left_out;
        const char *expected = goes ? (char *)values + i * size : before;
        assert_memory_equal((char *)got + i * size, expected, size);
        assert_int_equal(there[i], goes);
    }
    rbt_chain_destroy(chain);
    rbt_chain_destroy(receiver);
    return bytes;
}

static void everything_comes_back_bit_by_bit(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "lz4",       "zstd", "zeros", "lz4,zstd", "zeros,lz4", "zstd:9,zeros", "lz4,lz4,zstd,lz4",
        "zstd:3,lz4"};
    static const size_t counts[] = {0, 1, 7, 8, 64, 65, 1024, 1025, 4200};
    static const uint64_t one_in[] = {0, 2, 9, 300};
    struct rbt_rng rng;
    rbt_rng_init(&rng, 7, 0, 0);
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (size_t k = 0; k < sizeof one_in / sizeof one_in[0]; k++) {
                for (uint32_t size = 4; size <= 8; size += 4) {
                    fill(&rng, counts[c], size, one_in[k]);
                    check(texts[t], counts[c], size, true);
                    check(texts[t], counts[c], size, false);
                }
            }
        }
    }
}

static void zeros_that_are_few_take_no_more_than_their_own_bytes(void **state)
{
    (void)state;
    enum { COUNT = 1024, BITS = COUNT / 8 };
    for (size_t zeros = 0; zeros < 100; zeros++) {
        for (size_t i = 0; i < COUNT; i++) {
            const float value = i < zeros ? 0.0F : 1.0F;
            memcpy((char *)values + i * sizeof value, &value, sizeof value);
        }
        const size_t bytes = check("zeros", COUNT, 4, false);
        const size_t left_out = 1 + BITS + (COUNT - zeros) * sizeof(float);
        const size_t plain = 1 + COUNT * sizeof(float);
        assert_int_equal(bytes, left_out < plain ? left_out : plain);
    }
}

static void nothing_needs_no_arrays(void **state)
{
    (void)state;
    rbt_chain *chain = open_chain("zeros,tiny:1,fixed:8,lz4", 4);
    const struct rbt_chain_elements elements = {.count = 0};
    const struct rbt_filter_rows rows = {.row_count = 0, .width = 3};
    struct rbt_filter_code code;
    char bytes[512];
    char scratch[1024];
    assert_true(rbt_chain_bound(chain, 0) <= sizeof bytes);
    assert_ok(rbt_chain_apply(chain, &rows, &code));
    assert_int_equal(code.bits, 32);
    assert_int_equal(rbt_chain_put(chain, &elements, bytes, scratch), 1);
    assert_ok(rbt_chain_get(chain, bytes, 1, &elements, scratch));
    rbt_chain_destroy(chain);
}

static void few_elements_take_few_bytes(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 3, 0, 0);
    memset(values, 1, sizeof values);
    memset(keep, 0, sizeof keep);
    assert_int_equal(check("zeros", 4000, 4, true), 1); /* none */
    assert_int_equal(check("zeros", 4000, 4, false), 1 + 4000 * 4);
    keep[3999] = true;
    assert_int_equal(check("zeros", 4000, 4, true), 1 + 4 + 2 + 4); /* one, and its place */
    for (size_t i = 0; i < 4000; i += 100) {
        keep[i] = true;
    }
    assert_int_equal(check("zeros", 4000, 4, true), 1 + 4 + 41 + 41 * 4); /* a byte for a gap */
    for (size_t i = 0; i < 4000; i += 2) {
        keep[i] = true;
    }
    assert_int_equal(check("zeros", 4000, 4, true), 1 + 500 + 2001 * 4); /* a bit for each */
}

/* Of values of which 95% are zero, a tenth of the bytes is left. */
static void zeros_are_a_tenth_of_the_bytes(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 5, 0, 0);
    uint32_t *at = (uint32_t *)values;
    for (size_t i = 0; i < 4000; i++) {
        at[i] = rbt_rng_below(&rng, 20) == 0 ? rig_bits((float)rbt_rng_normal(&rng)) : 0;
    }
    assert_true(check("zeros", 4000, 4, false) * 10 < 4000 * 4);
}

/* --- Codes of every size --------------------------------------------------------------------- */

static void encode_bits(const struct rbt_filter_code *code, const float *from, size_t count,
                        uint32_t *codes)
{
    (void)code;
    memcpy(codes, from, count * sizeof *codes);
}

static void decode_bits(const struct rbt_filter_code *code, const uint32_t *codes, size_t count,
                        float *to)
{
    (void)code;
    memcpy(to, codes, count * sizeof *codes);
}

static const struct rbt_filter plain = {.encode = encode_bits, .decode = decode_bits};

static void codes_take_exactly_their_bits(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 3, 8, 1023, 1024, 1025, 4001};
    static char body[8 * COUNT_MAX];
    static char scratch[8 * COUNT_MAX];
    const struct rbt_elements_form form = {.round = &plain, .element_size = 4};
    struct rbt_rng rng;
    rbt_rng_init(&rng, 11, 0, 0);
    for (uint32_t bits = 1; bits < 32; bits++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            uint32_t *codes = (uint32_t *)values;
            const size_t count = counts[c];
            for (size_t i = 0; i < count; i++) {
                codes[i] = (uint32_t)rbt_rng_next(&rng) & ((1U << bits) - 1);
                keep[i] = rbt_rng_below(&rng, 3) > 0;
            }
            for (int has_keep = 0; has_keep < 2; has_keep++) {
                struct rbt_chain_elements elements = {.count = count,
                                                      .values = values,
                                                      .keep = has_keep ? keep : NULL,
                                                      .code = {.bits = bits, .scale = 2.5F}};
                uint32_t flags;
                const size_t size = rbt_elements_put(&form, &elements, body, &flags, scratch);
                if (has_keep == 0) {
                    assert_int_equal(size, 5 + (count * bits + 7) / 8);
                }
                const struct rbt_elements_body back = {.flags = flags, .bytes = body, .size = size};
                elements.values = got;
                elements.keep = there;
                assert_ok(rbt_elements_get(&form, &back, &elements));
                for (size_t i = 0; i < count; i++) {
                    if (has_keep == 0 || keep[i]) {
                        assert_int_equal(((uint32_t *)got)[i], codes[i]);
                    }
                    assert_int_equal(there[i], has_keep == 0 || keep[i]);
                }
            }
        }
    }
}

/* --- Damage ---------------------------------------------------------------------------------- */

static void refuse(const void *bytes, size_t size, size_t count, const char *sentence)
{
    rbt_chain *chain = open_chain("f16,lz4", 4);
    char *scratch = rbt_alloc(2 * rbt_chain_bound(chain, count));
    const struct rbt_chain_elements elements = {.count = count, .values = got, .keep = there};
    assert_fails(rbt_chain_get(chain, bytes, size, &elements, scratch), RBT_E_PROTOCOL, sentence);
    rbt_free(scratch);
    rbt_chain_destroy(chain);
}

static void what_nobody_writes_is_refused(void **state)
{
    (void)state;
    refuse("", 0, 4, "no filtered values at all");
    refuse("\x00\x00\x00\x00", 4, 1, "of another size than they say");
    refuse("\x20", 1, 1, "packed by a filter that this table does not have");
    refuse("\x08", 1, 1, "with a scale but no codes");
    refuse("\x03", 1, 0, "more than that there are none");
    refuse("\x07\x10", 2, 1, "more than that there are none");
    refuse("\x04\x10", 2, 0, "with codes of nothing");
    refuse("\x04\x00", 2, 1, "of a size that there is not");
    refuse("\x04\x20", 2, 1, "of a size that there is not");
    refuse("\x0c\x10\x00\x00\x00\x00\x01\x00", 8, 1, "a scale that need not be there");
    refuse("\x0c\x10\x00\x00", 4, 1, "codes of a filter that this table does not have");
    refuse("\x01", 1, 4, "end too early");
    refuse("\x01\x1f", 2, 4, "behind the last element");
    refuse("\x01\x0f", 2, 4, "bits that need not be there");
    refuse("\x01\x00", 2, 4, "bits that need not be there");
    refuse("\x02\x01\x00\x00", 4, 4, "end too early");
    refuse("\x02\x04\x00\x00\x00", 5, 4, "gaps that need not be there");
    refuse("\x02\x01\x00\x00\x00\x04", 6, 4, "behind the last element");
    refuse("\x02\x02\x00\x00\x00\x03\x00", 7, 4, "behind the last element");
    refuse("\x02\x01\x00\x00\x00\x80\x00", 7, 4, "behind the last element");
    refuse("\x04\x03\xff", 3, 1, "behind the last code");
    refuse("\x10\x01\x00\x00", 4, 4, "without their head");
    refuse("\x10\xff\xff\xff\x7f\x00", 6, 4, "say they are 2147483647");
    refuse("\x10\x10\x00\x00\x00\x00\x00", 7, 4, "lz4 cannot unpack");
}

static void a_table_without_codes_refuses_them(void **state)
{
    (void)state;
    rbt_chain *chain = open_chain("zstd", 4);
    char scratch[1024];
    const struct rbt_chain_elements elements = {.count = 1, .values = got};
    assert_fails(rbt_chain_get(chain, "\x04\x10\x00\x00", 4, &elements, scratch), RBT_E_PROTOCOL,
                 "a filter that this table does not have");
    assert_fails(rbt_chain_get(chain, "\x10\x08\x00\x00\x00\x00\x00", 7, &elements, scratch),
                 RBT_E_PROTOCOL, "zstd cannot unpack");
    rbt_chain_destroy(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_comes_back_bit_by_bit),
        cmocka_unit_test(zeros_that_are_few_take_no_more_than_their_own_bytes),
        cmocka_unit_test(nothing_needs_no_arrays),
        cmocka_unit_test(few_elements_take_few_bytes),
        cmocka_unit_test(zeros_are_a_tenth_of_the_bytes),
        cmocka_unit_test(codes_take_exactly_their_bits),
        cmocka_unit_test(what_nobody_writes_is_refused),
        cmocka_unit_test(a_table_without_codes_refuses_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
