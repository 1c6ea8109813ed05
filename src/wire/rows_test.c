/* wire/rows_test.c - rows of every form survive the way, and nothing else is believed.
 *
 * The fixture has room for the rows of a test: what is sent, the message, and what has come out of
 * it. Rows are drawn from a seed; a stray position takes them from a larger array. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "wire/frame.h"
#include "wire/rows.h"

enum {
    ROOM = 1 << 20,   /* bytes of the message, and of values */
    COUNT_MAX = 6000, /* rows */
    ELEMENTS_MAX = 24000,
};

struct fixture {
    struct rbt_rng rng;
    struct rbt_wire_rows rows;
    uint64_t keys[2 * COUNT_MAX];
    uint32_t positions[COUNT_MAX];
    uint32_t offsets[2 * COUNT_MAX + 1];
    uint32_t elements[2 * ELEMENTS_MAX];
    _Alignas(8) char values[2 * ELEMENTS_MAX * sizeof(uint64_t)];
    _Alignas(8) char message[ROOM];
    _Alignas(8) char scratch[ROOM];
    size_t bytes;
    struct rbt_wire_view view;
    uint64_t keys_got[COUNT_MAX];
    char values_got[ROOM];
};

static int set_up(void **state)
{
    struct fixture *f = rbt_calloc(1, sizeof *f);
    assert_non_null(f);
    rbt_rng_init(&f->rng, 1, 2, 3);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    rbt_free(*state);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* `count` keys, each up to `gap` above the one before it. */
static void draw_keys(struct fixture *f, size_t count, uint64_t gap)
{
    uint64_t key = rbt_rng_below(&f->rng, gap);
    for (size_t i = 0; i < count; i++) {
        f->keys[i] = key;
        key += 1 + rbt_rng_below(&f->rng, gap);
    }
    f->rows.keys = f->keys;
    f->rows.count = count;
    f->rows.table = 7;
}

/* Values of which `zeros` in 1000 are zero, and the others differ in `bits` bits. */
static void draw_values(struct fixture *f, size_t count, uint32_t zeros, unsigned bits)
{
    const uint32_t size = f->rows.element_size;
    assert_true(count * size <= sizeof f->values);
    memset(f->values, 0, sizeof f->values);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = 1 + (rbt_rng_next(&f->rng) >> (64 - bits));
        if (rbt_rng_below(&f->rng, 1000) < zeros) {
            value = 0;
        } else if (rbt_rng_below(&f->rng, 20) == 0) {
            value = size == 4 ? UINT32_C(1) << 31 : UINT64_C(1) << 63; /* -0.0 */
        }
        memcpy(f->values + i * size, &value, size);
    }
    f->rows.values = f->values;
}

/* About half of the first 2 * count positions, in order. */
static size_t draw_positions(struct fixture *f, size_t count)
{
    size_t taken = 0;
    for (size_t p = 0; p < 2 * count && taken < count; p++) {
        if (rbt_rng_below(&f->rng, 2) == 0) {
            f->positions[taken++] = (uint32_t)p;
        }
    }
    f->rows.positions = f->positions;
    f->rows.count = taken;
    return taken;
}

/* Sparse rows at `count` positions; the array begins in the middle of another's. */
static size_t draw_places(struct fixture *f, size_t count)
{
    uint32_t at = 5;
    for (size_t p = 0; p < count; p++) {
        f->offsets[p] = at;
        uint32_t index = 0;
        for (uint64_t k = rbt_rng_below(&f->rng, 4); k > 0; k--) {
            index += 1 + (uint32_t)rbt_rng_below(&f->rng, 1000);
            f->elements[at++] = index;
        }
    }
    f->offsets[count] = at;
    f->rows.offsets = f->offsets;
    f->rows.elements = f->elements;
    return at;
}

static size_t position(const struct fixture *f, size_t i)
{
    return f->rows.positions == NULL ? i : f->rows.positions[i];
}

static void compare_values(struct fixture *f)
{
    const struct rbt_wire_rows *rows = &f->rows;
    const uint32_t size = rows->element_size;
    memset(f->values_got, 0x55, sizeof f->values_got);
    assert_ok(rbt_wire_view_values(&f->view, f->values_got));
    size_t at = 0;
    for (size_t i = 0; i < rows->count; i++) {
        const size_t p = position(f, i);
        size_t first = p * rows->width;
        size_t count = rows->width;
        if (rows->offsets != NULL) {
            first = rows->offsets[p];
            count = rows->offsets[p + 1] - first;
            assert_int_equal(f->view.offsets[i], at);
            assert_int_equal(f->view.offsets[i + 1], at + count);
            assert_memory_equal(f->view.elements + at, rows->elements + first, count * 4);
        }
        assert_memory_equal(f->values_got + at * size, f->values + first * size, count * size);
        at += count;
    }
    assert_int_equal(at, f->view.element_count);
    assert_int_equal(f->values_got[at * size], 0x55);
}

/* Sends the rows and compares what comes. */
static void round_trip(struct fixture *f)
{
    const struct rbt_wire_rows *rows = &f->rows;
    const size_t bound = rbt_wire_rows_bound(rows);
    assert_true(bound + 8 <= ROOM);
    memset(f->message, 0x77, bound + 8);
    f->bytes = rbt_wire_rows_put(f->message, rows,
                                 rows->compression >= RBT_COMPRESSION_LZ4 ? f->scratch : NULL);
    assert_true(f->bytes <= bound);
    assert_int_equal(f->bytes % 8, 0);
    assert_int_equal(f->message[bound], 0x77);
    const char *at = f->message;
    assert_ok(rbt_wire_rows_get(&at, f->message + f->bytes, &f->view));
    assert_ptr_equal(at, f->message + f->bytes);
    assert_int_equal(f->view.table, rows->table);
    assert_int_equal(f->view.count, rows->count);
    assert_int_equal(f->view.list, rows->list);
    if (rows->keys == NULL) {
        assert_int_equal(f->view.key_form, RBT_KEYS_NAMED);
        assert_fails(rbt_wire_view_keys(&f->view, f->keys_got), RBT_E_PROTOCOL, "name");
    } else {
        assert_ok(rbt_wire_view_keys(&f->view, f->keys_got));
        for (size_t i = 0; i < rows->count; i++) {
            assert_int_equal(f->keys_got[i], rows->keys[position(f, i)]);
        }
    }
    if (rows->values == NULL) {
        assert_int_equal(f->view.value_form, RBT_VALUES_NONE);
        assert_int_equal(f->view.element_count, 0);
    } else {
        compare_values(f);
    }
}

static void test_key_forms(void **state)
{
    struct fixture *f = *state;
    static const struct {
        size_t count;
        uint64_t gap;
        enum rbt_key_form form;
    } CASES[] = {
        {0, 1, RBT_KEYS_RAW},
        {1, 1000, RBT_KEYS_RUN},
        {1000, 1, RBT_KEYS_RUN},
        {2, 1000, RBT_KEYS_RAW}, /* a key, widths and a word are no shorter */
        {4, 1000, RBT_KEYS_DELTA},
        {128, 1000, RBT_KEYS_DELTA},
        {129, 2, RBT_KEYS_DELTA},
        {130, UINT64_C(1) << 40, RBT_KEYS_DELTA},
        {5000, 10, RBT_KEYS_DELTA},
        {5000, UINT64_C(1) << 50, RBT_KEYS_DELTA},
        {100, UINT64_C(1) << 57, RBT_KEYS_RAW},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        draw_keys(f, CASES[i].count, CASES[i].gap);
        round_trip(f);
        assert_int_equal(f->view.key_form, CASES[i].form);
        assert_true(f->view.key_bytes <= 8 * CASES[i].count);
    }
    draw_keys(f, 5000, 1000); /* differences below 1024 take 10 bits */
    round_trip(f);
    assert_int_equal(f->view.key_bytes, 8 + 40 + (39 * 128 * 10 + (7 * 10 + 63) / 64 * 64) / 8);
}

/* Runs with gaps: blocks of width 0 between wide ones. */
static void test_key_blocks(void **state)
{
    struct fixture *f = *state;
    for (unsigned width = 0; width <= 64; width++) {
        draw_keys(f, 1000, 1 + width % 2);
        const uint64_t jump = width == 0 ? 0 : UINT64_C(1) << (width - 1) | 1;
        for (size_t i = 257; i < 1000; i++) { /* the first of the third block */
            f->keys[i] += jump;
        }
        round_trip(f);
        assert_int_equal(f->view.key_form, width == 0 ? RBT_KEYS_RUN : RBT_KEYS_DELTA);
    }
    for (size_t i = 0; i < 5; i++) { /* the largest keys there are */
        f->keys[i] = UINT64_MAX - 4 + i - (i == 0);
    }
    f->rows.count = 5;
    round_trip(f);
}

static void test_named(void **state)
{
    struct fixture *f = *state;
    draw_keys(f, 1000, 1000);
    f->rows.list = rbt_wire_list_name(f->keys, NULL, 1000);
    f->rows.keys = NULL;
    round_trip(f);
    assert_int_equal(f->bytes, RBT_WIRE_ROWS_BYTES);
    assert_int_equal(f->view.list, f->rows.list);
}

static void test_value_forms(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum rbt_compression compression;
        uint32_t zeros; /* in 1000 */
        unsigned bits;
        enum rbt_value_form form;
    } CASES[] = {
        {RBT_COMPRESSION_NONE, 950, 32, RBT_VALUES_RAW},
        {RBT_COMPRESSION_ZEROS, 0, 32, RBT_VALUES_RAW},
        {RBT_COMPRESSION_ZEROS, 100, 32, RBT_VALUES_RAW},
        {RBT_COMPRESSION_ZEROS, 500, 32, RBT_VALUES_SPARSE},
        {RBT_COMPRESSION_ZEROS, 950, 32, RBT_VALUES_SPARSE},
        {RBT_COMPRESSION_ZEROS, 1000, 32, RBT_VALUES_SPARSE},
        {RBT_COMPRESSION_LZ4, 0, 32, RBT_VALUES_RAW},
        {RBT_COMPRESSION_LZ4, 0, 1, RBT_VALUES_LZ4},
        {RBT_COMPRESSION_LZ4, 950, 32, RBT_VALUES_SPARSE},
        {RBT_COMPRESSION_ZSTD, 0, 32, RBT_VALUES_RAW},
        {RBT_COMPRESSION_ZSTD, 0, 8, RBT_VALUES_ZSTD},
        {RBT_COMPRESSION_ZSTD, 600, 2, RBT_VALUES_ZSTD},
    };
    for (uint32_t size = 4; size <= 8; size += 4) {
        for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
            draw_keys(f, 5000, 1000);
            f->rows.element_size = size;
            f->rows.width = 2;
            f->rows.compression = CASES[i].compression;
            draw_values(f, 10000, CASES[i].zeros, CASES[i].bits == 32 ? 8 * size : CASES[i].bits);
            round_trip(f);
            assert_int_equal(f->view.value_form, CASES[i].form);
            assert_true(f->view.value_bytes <= 10000 * size);
            if (CASES[i].form == RBT_VALUES_RAW) {
                assert_non_null(rbt_wire_view_raw(&f->view));
            } else {
                assert_null(rbt_wire_view_raw(&f->view));
            }
        }
    }
}

/* A sample can be wrong: zeros where it looks, and hardly any elsewhere. */
static void test_misleading_sample(void **state)
{
    struct fixture *f = *state;
    static const uint32_t WIDTHS[] = {8192, 48000}; /* an eighth is zero; a 47th, less than a bit */
    for (int i = 0; i < 2; i++) {
        draw_keys(f, 1, 1000);
        f->rows.element_size = 4;
        f->rows.width = WIDTHS[i];
        f->rows.compression = RBT_COMPRESSION_ZEROS;
        draw_values(f, WIDTHS[i], 0, 32);
        for (size_t k = 0; k < 1024; k++) {
            memset(f->values + k * 7919 % WIDTHS[i] * 4, 0, 4);
        }
        round_trip(f);
        assert_int_equal(f->view.value_form, i == 0 ? RBT_VALUES_SPARSE : RBT_VALUES_RAW);
    }
}

/* zstd makes equal values smaller than a reader believes. */
static void test_equal_values(void **state)
{
    struct fixture *f = *state;
    draw_keys(f, 4, 1);
    f->rows.element_size = 8;
    f->rows.width = 6000;
    f->rows.compression = RBT_COMPRESSION_ZSTD;
    draw_values(f, 24000, 0, 1);
    memset(f->values, 1, sizeof f->values);
    round_trip(f);
    assert_true(f->view.value_form != RBT_VALUES_ZSTD);
    assert_true(f->bytes < 3000);
}

static void test_random_rows(void **state)
{
    struct fixture *f = *state;
    for (unsigned trial = 0; trial < 400; trial++) {
        f->rows = (struct rbt_wire_rows){0};
        const size_t count = (size_t)rbt_rng_below(&f->rng, trial % 10 == 0 ? 3000 : 100);
        draw_keys(f, 2 * count, UINT64_C(1) << rbt_rng_below(&f->rng, 50));
        f->rows.count = count;
        if (rbt_rng_below(&f->rng, 2) == 0) {
            (void)draw_positions(f, count); /* it has set the count */
        }
        f->rows.element_size = rbt_rng_below(&f->rng, 2) == 0 ? 4 : 8;
        f->rows.compression = (enum rbt_compression)rbt_rng_below(&f->rng, 4);
        f->rows.width =
            rbt_rng_below(&f->rng, 2) == 0 ? 1 : 1 + (uint32_t)rbt_rng_below(&f->rng, 4);
        const uint32_t zeros = (uint32_t)rbt_rng_below(&f->rng, 1001);
        const unsigned bits = 1 + (unsigned)rbt_rng_below(&f->rng, 8 * f->rows.element_size - 1);
        const uint64_t layout = rbt_rng_below(&f->rng, 3);
        if (layout == 1) {
            draw_values(f, 2 * count * f->rows.width, zeros, bits);
        } else if (layout == 2) {
            draw_values(f, draw_places(f, 2 * count), zeros, bits);
        }
        round_trip(f);
    }
}

/* The second time the keys are a name; zeros are not sent; both together. */
static void test_savings(void **state)
{
    struct fixture *f = *state;
    size_t bytes[2][2];
    draw_keys(f, 6000, 1000);
    for (size_t i = 0; i < 6000; i++) { /* far jumps in every block: differences do not help */
        f->keys[i] += i / 100 << 57;
    }
    f->rows.keys = f->keys;
    f->rows.element_size = 8;
    f->rows.width = 1;
    draw_values(f, 6000, 950, 60);
    for (int named = 0; named < 2; named++) {
        for (int without = 0; without < 2; without++) {
            f->rows.list = rbt_wire_list_name(f->keys, NULL, 6000);
            f->rows.keys = named ? NULL : f->keys;
            f->rows.compression = without ? RBT_COMPRESSION_ZEROS : RBT_COMPRESSION_NONE;
            bytes[named][without] = rbt_wire_rows_put(f->message, &f->rows, NULL);
        }
    }
    const double plain = (double)bytes[0][0];
    const double naming = (double)bytes[1][0] / plain;
    const double skipping = (double)bytes[0][1] / plain;
    assert_int_equal(bytes[1][0], 6000 * 8 + RBT_WIRE_ROWS_BYTES); /* values and a constant */
    assert_true(naming < 0.501);
    assert_true((double)bytes[1][1] * 10 <= (double)bytes[1][0]);
    assert_true((double)bytes[1][1] <= plain * naming * skipping * 1.1);
    f->rows.element_size = 4; /* floats, too */
    draw_values(f, 6000, 950, 30);
    f->rows.compression = RBT_COMPRESSION_ZEROS;
    assert_true(10 * rbt_wire_rows_put(f->message, &f->rows, NULL) <= 6000 * 4);
}

/* Rows that were reserved are, once their values are there, as if they had been put. */
static void test_reserve(void **state)
{
    struct fixture *f = *state;
    for (unsigned trial = 0; trial < 48; trial++) {
        const size_t count = trial % 3 * 33; /* 0 as well */
        f->rows = (struct rbt_wire_rows){.element_size = 4 + trial % 2 * 4,
                                         .width = 1 + trial % 5,
                                         .compression = RBT_COMPRESSION_NONE};
        draw_keys(f, count, trial % 7 == 0 ? 1 : UINT64_C(1) << trial);
        draw_values(f, count * f->rows.width, 500, 20);
        if (trial % 4 == 0) {
            f->rows.list = rbt_wire_list_name(f->keys, NULL, count);
            f->rows.keys = NULL;
        }
        f->rows.has_base = trial % 5 == 1;
        f->rows.base = trial;
        f->rows.least = trial % 2 == 0 ? UINT64_MAX : 0;
        round_trip(f);
        assert_int_equal(f->view.value_form, RBT_VALUES_RAW);
        assert_int_equal(f->view.has_base, f->rows.has_base);
        assert_int_equal(f->view.base, f->rows.has_base ? trial : 0);
        assert_true(f->view.least == (f->rows.has_base ? f->rows.least : 0));
        f->rows.values = f->rows.has_base ? f->values : NULL; /* not there yet */
        const size_t bound = rbt_wire_rows_reserve_bytes(&f->rows);
        const size_t value_bytes = count * f->rows.width * f->rows.element_size;
        memset(f->scratch, 0x77, bound + 8);
        void *values = NULL;
        assert_int_equal(rbt_wire_rows_reserve(f->scratch, &f->rows, &values), f->bytes);
        assert_true(f->bytes <= bound);
        assert_int_equal(f->scratch[bound], 0x77);
        memcpy(values, f->values, value_bytes);
        assert_memory_equal(f->scratch, f->message, f->bytes);
        if (f->rows.keys == NULL && !f->rows.has_base) {
            assert_int_equal(f->bytes, bound);
            memset(f->scratch, 0x77, RBT_WIRE_ROWS_BYTES + 8);
            rbt_wire_rows_reserve_head(f->scratch, &f->rows);
            assert_memory_equal(f->scratch, f->message, RBT_WIRE_ROWS_BYTES);
            assert_int_equal(f->scratch[RBT_WIRE_ROWS_BYTES], 0x77);
        }
    }
}

/* It says what putting the rows would do. */
static void test_has_zeros(void **state)
{
    struct fixture *f = *state;
    static const uint32_t ZEROS[] = {0, 100, 500, 950, 1000};
    for (size_t i = 0; i < 10; i++) {
        f->rows = (struct rbt_wire_rows){
            .element_size = i < 5 ? 4 : 8, .width = 3, .compression = RBT_COMPRESSION_ZEROS};
        draw_keys(f, 2000, 1);
        draw_values(f, 6000, ZEROS[i % 5], 30);
        round_trip(f);
        assert_int_equal(rbt_wire_rows_has_zeros(&f->rows), ZEROS[i % 5] >= 500);
        assert_int_equal(rbt_wire_rows_has_zeros(&f->rows),
                         f->view.value_form == RBT_VALUES_SPARSE);
    }
    f->rows.count = 0;
    assert_false(rbt_wire_rows_has_zeros(&f->rows));
}

static void test_list_names(void **state)
{
    struct fixture *f = *state;
    draw_keys(f, 4000, 1000);
    for (uint32_t i = 0; i < 4000; i++) {
        f->positions[i] = i;
    }
    const uint64_t name = rbt_wire_list_name(f->keys, NULL, 4000);
    assert_int_equal(rbt_wire_list_name(f->keys, f->positions, 4000), name);
    assert_int_not_equal(rbt_wire_list_name(f->keys, NULL, 3999), name);
    f->keys[2000]++;
    assert_int_not_equal(rbt_wire_list_name(f->keys, NULL, 4000), name);
    assert_int_not_equal(rbt_wire_list_name(NULL, NULL, 0), 0);
}

/* --- What is refused ------------------------------------------------------------------------- */

/* Writes a number into the head of the message and expects the sentence. */
static void expect_refusal(struct fixture *f, size_t place, uint32_t number, const char *text)
{
    char head[RBT_WIRE_ROWS_BYTES];
    memcpy(head, f->message, sizeof head);
    memcpy(f->message + place, &number, place >= 16 && place < 20 ? 1 : 4);
    const char *at = f->message;
    assert_fails(rbt_wire_rows_get(&at, f->message + f->bytes, &f->view), RBT_E_PROTOCOL, text);
    assert_ptr_equal(at, f->message);
    memcpy(f->message, head, sizeof head);
}

static void test_heads(void **state)
{
    struct fixture *f = *state;
    draw_keys(f, 100, 1000);
    f->rows.element_size = 4;
    f->rows.width = 3;
    draw_values(f, 300, 0, 32);
    round_trip(f);
    expect_refusal(f, 4, 101, "differs from key to key");
    expect_refusal(f, 4, 50, "50 keys in a wrong number of bytes");
    expect_refusal(f, 4, UINT32_MAX, "more keys");
    expect_refusal(f, 4, 0, "from key to key");
    expect_refusal(f, 16, 4, "form");
    expect_refusal(f, 16, RBT_KEYS_NAMED, "wrong number of bytes");
    expect_refusal(f, 16, RBT_KEYS_RUN, "wrong number of bytes");
    expect_refusal(f, 16, RBT_KEYS_RAW, "wrong number of bytes");
    expect_refusal(f, 17, 6, "form");
    expect_refusal(f, 17, RBT_VALUES_NONE, "should not have");
    expect_refusal(f, 17, RBT_VALUES_SPARSE, "wrong number of bytes");
    expect_refusal(f, 17, RBT_VALUES_ZSTD, "wrong number of bytes");
    expect_refusal(f, 18, 2, "4 nor 8");
    expect_refusal(f, 18, 8, "wrong number of bytes");
    expect_refusal(f, 19, 3, "form");
    expect_refusal(f, 19, 2, "too early"); /* 16 bytes are missing */
    expect_refusal(f, 19, 1, "elements");
    expect_refusal(f, 20, 400, "wrong number of bytes");
    expect_refusal(f, 20, 0, "from key to key");
    expect_refusal(f, 20, UINT32_MAX, "more values");
    expect_refusal(f, 24, UINT32_MAX, "too early");
    expect_refusal(f, 24, 16, "wrong number of bytes");
    expect_refusal(f, 28, UINT32_MAX, "too early");
    expect_refusal(f, 28, 1192, "wrong number of bytes");
}

static void test_keys_out_of_order(void **state)
{
    struct fixture *f = *state;
    const uint64_t last = UINT64_MAX - 2;
    draw_keys(f, 10, 1);
    round_trip(f);
    memcpy(f->message + RBT_WIRE_ROWS_BYTES, &last, sizeof last); /* a run past the end */
    assert_fails(rbt_wire_view_keys(&f->view, f->keys_got), RBT_E_PROTOCOL, "do not increase");
    draw_keys(f, 200, 1000);
    round_trip(f);
    assert_int_equal(f->view.key_form, RBT_KEYS_DELTA);
    memcpy(f->message + RBT_WIRE_ROWS_BYTES, &last, sizeof last);
    assert_fails(rbt_wire_view_keys(&f->view, f->keys_got), RBT_E_PROTOCOL, "do not increase");
    draw_keys(f, 600, 1000); /* narrow and full blocks */
    for (size_t i = 400; i < 600; i++) {
        f->keys[i] += UINT64_C(1) << 62;
    }
    round_trip(f);
    assert_int_equal(f->view.key_form, RBT_KEYS_DELTA);
    memcpy(f->message + RBT_WIRE_ROWS_BYTES, &last, sizeof last);
    assert_fails(rbt_wire_view_keys(&f->view, f->keys_got), RBT_E_PROTOCOL, "do not increase");
    draw_keys(f, 60, UINT64_C(1) << 58);
    round_trip(f);
    assert_int_equal(f->view.key_form, RBT_KEYS_RAW);
    memcpy(f->message + RBT_WIRE_ROWS_BYTES + 80, f->message + RBT_WIRE_ROWS_BYTES + 72, 8);
    assert_fails(rbt_wire_view_keys(&f->view, f->keys_got), RBT_E_PROTOCOL, "do not increase");
}

/* In a block of whole words keys can go round and come out above where they were. */
static void test_keys_go_round(void **state)
{
    struct fixture *f = *state;
    const uint64_t half = UINT64_C(1) << 63;
    draw_keys(f, 600, 1000);
    for (size_t i = 400; i < 600; i++) {
        f->keys[i] += UINT64_C(1) << 62;
    }
    round_trip(f);
    assert_int_equal(f->view.key_form, RBT_KEYS_DELTA);
    assert_int_equal(f->view.keys[8 + 3], 64); /* the block of keys 385 to 512 */
    char *block = f->message + RBT_WIRE_ROWS_BYTES + 8 + 8 + 3 * 160;
    memcpy(block, &half, sizeof half);
    memcpy(block + 8, &half, sizeof half);
    assert_fails(rbt_wire_view_keys(&f->view, f->keys_got), RBT_E_PROTOCOL, "do not increase");
}

static void test_widths(void **state)
{
    struct fixture *f = *state;
    draw_keys(f, 200, 1000);
    round_trip(f);
    char *widths = f->message + RBT_WIRE_ROWS_BYTES + 8;
    static const char WRONG[] = {57, 65, (char)255, 9, 11};
    for (size_t i = 0; i < sizeof WRONG; i++) {
        const char *at = f->message;
        const char width = widths[1];
        widths[1] = WRONG[i];
        assert_fails(rbt_wire_rows_get(&at, f->message + f->bytes, &f->view), RBT_E_PROTOCOL,
                     "wrong number of bytes");
        widths[1] = width;
    }
    widths[2] = 1; /* behind the last */
    const char *at = f->message;
    assert_fails(rbt_wire_rows_get(&at, f->message + f->bytes, &f->view), RBT_E_PROTOCOL,
                 "wrong number of bytes");
    draw_keys(f, 130, 1000); /* the last block is a word whatever its width */
    round_trip(f);
    widths[1] = 57;
    assert_fails(rbt_wire_rows_get(&at, f->message + f->bytes, &f->view), RBT_E_PROTOCOL,
                 "wrong number of bytes");
}

static void test_places(void **state)
{
    struct fixture *f = *state;
    static const uint32_t OFFSETS[] = {0, 2, 2, 3, 6};
    static const uint32_t ELEMENTS[] = {4, 9, 1, 3, 5, 7};
    draw_keys(f, 4, 1);
    f->rows.element_size = 8;
    f->rows.offsets = OFFSETS;
    f->rows.elements = ELEMENTS;
    f->rows.width = 1;
    draw_values(f, 6, 0, 64);
    round_trip(f);
    static const struct {
        size_t place; /* in numbers of 4 bytes behind the keys */
        uint32_t number;
    } WRONG[] = {{0, 1}, {1, 3}, {2, 1}, {3, 7}, {4, 5}, {5, 1}, {6, 9}, {10, 3}, {11, 4}};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        char *place = f->message + RBT_WIRE_ROWS_BYTES + 8 + 4 * WRONG[i].place;
        uint32_t right;
        memcpy(&right, place, sizeof right);
        memcpy(place, &WRONG[i].number, sizeof right);
        const char *at = f->message;
        assert_fails(rbt_wire_rows_get(&at, f->message + f->bytes, &f->view), RBT_E_PROTOCOL,
                     "elements");
        memcpy(place, &right, sizeof right);
    }
}

/* Compressed values that are not what they say: cut, changed, too many, too few. */
static void test_bombs(void **state)
{
    struct fixture *f = *state;
    for (int form = RBT_COMPRESSION_LZ4; form <= RBT_COMPRESSION_ZSTD; form++) {
        draw_keys(f, 1, 1);
        f->rows.element_size = 4;
        f->rows.width = 20000;
        f->rows.compression = (enum rbt_compression)form;
        draw_values(f, 20000, 0, 3);
        round_trip(f);
        assert_int_equal(f->view.value_form,
                         form == RBT_COMPRESSION_LZ4 ? RBT_VALUES_LZ4 : RBT_VALUES_ZSTD);
        expect_refusal(f, 20, UINT32_C(1) << 28, "wrong number of bytes");
        const char *at = f->message;
        assert_ok(rbt_wire_rows_get(&at, f->message + f->bytes, &f->view));
        struct rbt_wire_view wrong = f->view;
        wrong.element_count++;
        assert_fails(rbt_wire_view_values(&wrong, f->values_got), RBT_E_PROTOCOL, "unpack");
        wrong.element_count -= 2;
        assert_fails(rbt_wire_view_values(&wrong, f->values_got), RBT_E_PROTOCOL, "unpack");
        wrong = f->view;
        wrong.value_bytes -= 9;
        assert_fails(rbt_wire_view_values(&wrong, f->values_got), RBT_E_PROTOCOL, "unpack");
    }
}

static void test_bits(void **state)
{
    struct fixture *f = *state;
    draw_keys(f, 100, 1);
    f->rows.element_size = 4;
    f->rows.width = 1;
    f->rows.compression = RBT_COMPRESSION_ZEROS;
    draw_values(f, 100, 900, 32);
    round_trip(f);
    assert_int_equal(f->view.value_form, RBT_VALUES_SPARSE);
    char *bits = f->message + RBT_WIRE_ROWS_BYTES + 8;
    static const size_t FLIPPED[] = {0, 63, 99, 100, 127};
    for (size_t i = 0; i < sizeof FLIPPED / sizeof *FLIPPED; i++) {
        bits[FLIPPED[i] / 8] = (char)(bits[FLIPPED[i] / 8] ^ 1 << FLIPPED[i] % 8);
        const char *at = f->message;
        assert_fails(rbt_wire_rows_get(&at, f->message + f->bytes, &f->view), RBT_E_PROTOCOL,
                     "wrong number of bytes");
        bits[FLIPPED[i] / 8] = (char)(bits[FLIPPED[i] / 8] ^ 1 << FLIPPED[i] % 8);
    }
    uint64_t words[2];
    memcpy(words, bits, sizeof words);
    assert_true(words[0] != 0);
    words[0] &= words[0] - 1; /* as many bits, but one has no element */
    words[1] |= UINT64_C(1) << 63;
    memcpy(bits, words, sizeof words);
    const char *at = f->message;
    assert_fails(rbt_wire_rows_get(&at, f->message + f->bytes, &f->view), RBT_E_PROTOCOL,
                 "wrong number of bytes");
}

/* No message that has been cut off is believed, wherever it was. */
static void test_truncation(void **state)
{
    struct fixture *f = *state;
    for (unsigned trial = 0; trial < 60; trial++) {
        f->rows = (struct rbt_wire_rows){.width = 1 + trial % 3, .element_size = 4 + trial % 2 * 4};
        draw_keys(f, 70, trial % 5 == 0 ? 1 : UINT64_C(1) << trial % 57);
        f->rows.compression = (enum rbt_compression)(trial % 4);
        if (trial % 3 == 1) {
            draw_values(f, 70 * f->rows.width, 800, 2);
        } else if (trial % 3 == 2) {
            draw_values(f, draw_places(f, 70), 800, 2);
        }
        round_trip(f);
        char *copy = rbt_calloc(f->bytes + 8, 1);
        assert_non_null(copy);
        for (size_t bytes = 0; bytes < f->bytes; bytes++) {
            memset(copy, 0, f->bytes);
            memcpy(copy, f->message, bytes);
            const char *at = copy;
            assert_int_equal(rbt_wire_rows_get(&at, copy + bytes, &f->view), RBT_E_PROTOCOL);
        }
        rbt_free(copy);
    }
}

/* What filters have made of values travels as it is, and is not for rows.c to read. */
static void test_filtered(void **state)
{
    struct fixture *f = *state;
    const char bytes[11] = "0123456789";
    f->rows = (struct rbt_wire_rows){.width = 1, .element_size = 4};
    draw_keys(f, 70, 1);
    draw_values(f, 70, 500, 2);
    f->rows.compression = RBT_COMPRESSION_ZEROS;
    f->rows.packed = bytes;
    f->rows.packed_bytes = sizeof bytes;
    const size_t size = rbt_wire_rows_put(f->message, &f->rows, NULL);
    assert_true(size <= rbt_wire_rows_bound(&f->rows));
    const char *at = f->message;
    assert_ok(rbt_wire_rows_get(&at, f->message + size, &f->view));
    assert_int_equal(f->view.value_form, RBT_VALUES_FILTERED);
    assert_int_equal(f->view.element_count, 70);
    assert_int_equal(f->view.value_bytes, sizeof bytes);
    assert_memory_equal(f->view.values, bytes, sizeof bytes);
    assert_null(rbt_wire_view_raw(&f->view));
    uint32_t values[70];
    assert_fails(rbt_wire_view_values(&f->view, values), RBT_E_PROTOCOL, "were filtered");
    for (size_t cut = 8; cut < size; cut += 8) { /* in every place */
        at = f->message;
        assert_int_equal(rbt_wire_rows_get(&at, f->message + cut, &f->view), RBT_E_PROTOCOL);
    }
}

/* Few bytes may be many values, but not any number of them; as many bytes are for values as they
 * are. */
static void test_filtered_bytes(void **state)
{
    (void)state;
    const uint64_t free_bytes = RBT_WIRE_FILTERED_FREE;
    assert_true(rbt_wire_can_filter(280, 1));
    assert_true(rbt_wire_can_filter(280, 279));
    assert_false(rbt_wire_can_filter(280, 280));
    assert_false(rbt_wire_can_filter(280, 0));
    assert_false(rbt_wire_can_filter(0, 0));
    assert_true(rbt_wire_can_filter(free_bytes, 1));
    assert_false(rbt_wire_can_filter(free_bytes + 256, (free_bytes + 256) / 256));
    assert_true(rbt_wire_can_filter(free_bytes + 256, (free_bytes + 256) / 256 + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_key_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_key_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_value_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_misleading_sample, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_equal_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_random_rows, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_savings, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reserve, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_has_zeros, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_list_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_heads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_out_of_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_go_round, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_widths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bombs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_truncation, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_filtered, set_up, tear_down),
        cmocka_unit_test(test_filtered_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
