/* store/bins_test.c - one test per promise of bins.c. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "store/bins.h"

enum { WIDTH = 8, ROWS = 6 };

static const struct rbt_spec dense = {.type = RBT_F32, .layout = RBT_DENSE, .width = WIDTH};
static const struct rbt_spec sparse = {.type = RBT_I64, .layout = RBT_SPARSE, .width = 1000};

/* Rows 5, 4, 3, ... of six, the first `filled` values of each not neutral. */
struct sample {
    uint64_t keys[ROWS];
    uint32_t positions[ROWS];
    float values[ROWS * WIDTH];
    struct rbt_batch batch;
};

static void make_sample(struct sample *s, struct rbt_merge_kind kind, uint32_t filled)
{
    rbt_merge_clear(kind, s->values, (size_t)ROWS * WIDTH);
    for (uint32_t i = 0; i < ROWS; i++) {
        s->keys[i] = 100 + i;
        s->positions[i] = ROWS - 1 - i;
        for (uint32_t k = 0; k < filled; k++) {
            s->values[i * WIDTH + (k * 3 + i) % WIDTH] = (float)(i + k + 1);
        }
    }
    s->batch = (struct rbt_batch){.table = 4,
                                  .count = ROWS - 1,
                                  .keys = s->keys,
                                  .positions = s->positions,
                                  .values = s->values};
}

/* What comes out of the bin is what was put in, row by row. */
static void assert_unpacks_to(const struct rbt_bin *bin, const struct rbt_spec *spec,
                              const struct sample *s)
{
    float scratch[WIDTH];
    struct rbt_batch batch;
    size_t row = 0;
    for (size_t i = 0; rbt_bins_unpack(bin, spec, i, scratch, &batch); i++) {
        assert_int_equal(batch.table, 4);
        assert_null(batch.offsets);
        for (size_t k = 0; k < batch.count; k++, row++) {
            const size_t at = s->positions[row];
            assert_int_equal(batch.keys[k], s->keys[at]);
            assert_memory_equal((const float *)batch.values + k * WIDTH, s->values + at * WIDTH,
                                WIDTH * sizeof(float));
        }
    }
    assert_int_equal(row, s->batch.count);
}

static void bins_come_out_by_clock_worker_and_sequence(void **state)
{
    (void)state;
    struct rbt_bins bins = {0};
    struct sample s;
    make_sample(&s, rbt_spec_kind(&dense), WIDTH);
    uint32_t order[27];
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    rbt_rng_permutation(&rng, order, 27);
    for (size_t i = 0; i < 27; i++) {
        const struct rbt_bin_id id = {order[i] / 9, order[i] / 3 % 3, order[i] % 3};
        assert_ok(rbt_bins_hold(&bins, &dense, &id, &s.batch, s.batch.count));
    }
    for (uint32_t i = 0; i < 27; i++) {
        const struct rbt_bin *bin = rbt_bins_at(&bins, 0);
        assert_int_equal(bin->id.clock * 9 + bin->id.worker * 3 + (int64_t)bin->id.sequence, i);
        rbt_bins_drop(&bins, 0);
    }
    assert_null(rbt_bins_at(&bins, 0));
    rbt_bins_deinit(&bins);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void bins_of_one_message_stay_in_order(void **state)
{
    (void)state;
    struct rbt_bins bins = {0};
    const struct rbt_bin_id id = {1, 1, 1};
    for (uint64_t key = 0; key < 5; key++) {
        float value[WIDTH] = {1, 1, 1, 1, 1};
        const struct rbt_batch batch = {.count = 1, .keys = &key, .values = value};
        assert_ok(rbt_bins_hold(&bins, &dense, &id, &batch, batch.count));
    }
    for (uint64_t key = 0; key < 5; key++) {
        assert_int_equal(rbt_bins_at(&bins, 0)->keys[0], key);
        rbt_bins_drop(&bins, 0);
    }
    rbt_bins_deinit(&bins);
}

static void rows_that_say_little_are_packed_and_come_back_the_same(void **state)
{
    (void)state;
    const rbt_merge merges[] = {RBT_MERGE_ADD, RBT_MERGE_MAX, RBT_MERGE_MIN};
    const struct rbt_bin_id id = {0, 0, 1};
    for (size_t m = 0; m < 3; m++) {
        struct rbt_spec spec = dense;
        spec.merge = merges[m];
        for (uint32_t filled = 0; filled <= WIDTH; filled++) {
            struct rbt_bins bins = {0};
            struct sample s;
            make_sample(&s, rbt_spec_kind(&spec), filled);
            assert_ok(rbt_bins_hold(&bins, &spec, &id, &s.batch, s.batch.count));
            const struct rbt_bin *bin = rbt_bins_at(&bins, 0);
            assert_int_equal(bin->is_packed, 2 * filled < WIDTH); /* exactly half is not */
            assert_unpacks_to(bin, &spec, &s);
            rbt_bins_deinit(&bins);
        }
    }
}

static void a_held_update_is_a_copy(void **state)
{
    (void)state;
    struct rbt_bins bins = {0};
    struct sample s;
    make_sample(&s, rbt_spec_kind(&dense), WIDTH);
    const struct sample before = s;
    assert_ok(rbt_bins_hold(&bins, &dense, &(struct rbt_bin_id){0, 0, 1}, &s.batch, s.batch.count));
    memset(s.values, 0, sizeof s.values);
    memset(s.keys, 0, sizeof s.keys);
    assert_unpacks_to(rbt_bins_at(&bins, 0), &dense, &before);
    rbt_bins_deinit(&bins);
}

static void sparse_rows_keep_their_elements(void **state)
{
    (void)state;
    struct rbt_bins bins = {0};
    const uint64_t keys[] = {1, 2, 3};
    const uint32_t offsets[] = {0, 2, 2, 5};
    const uint32_t elements[] = {7, 9, 1, 2, 3};
    int64_t values[] = {70, 90, 10, 20, 30};
    const uint32_t positions[] = {2, 0};
    const struct rbt_batch batch = {.count = 2,
                                    .keys = keys,
                                    .positions = positions,
                                    .values = values,
                                    .offsets = offsets,
                                    .elements = elements};
    assert_ok(rbt_bins_hold(&bins, &sparse, &(struct rbt_bin_id){0, 0, 1}, &batch, batch.count));
    assert_int_equal(bins.missing, 2);
    struct rbt_batch out;
    assert_true(rbt_bins_unpack(rbt_bins_at(&bins, 0), &sparse, 0, NULL, &out));
    assert_int_equal(out.count, 2);
    assert_int_equal(out.keys[0], 3);
    assert_int_equal(out.keys[1], 1);
    const uint32_t expected_offsets[] = {0, 3, 5};
    const uint32_t expected_elements[] = {1, 2, 3, 7, 9};
    const int64_t expected_values[] = {10, 20, 30, 70, 90};
    assert_memory_equal(out.offsets, expected_offsets, sizeof expected_offsets);
    assert_memory_equal(out.elements, expected_elements, sizeof expected_elements);
    assert_memory_equal(out.values, expected_values, sizeof expected_values);
    assert_false(rbt_bins_unpack(rbt_bins_at(&bins, 0), &sparse, 1, NULL, &out));
    rbt_bins_drop(&bins, 0);
    assert_int_equal(bins.missing, 0);
    rbt_bins_deinit(&bins);
}

static void remove_forgets_all_bins_of_a_message_and_no_others(void **state)
{
    (void)state;
    struct rbt_bins bins = {0};
    struct sample s;
    make_sample(&s, rbt_spec_kind(&dense), WIDTH);
    for (uint64_t i = 0; i < 9; i++) {
        const struct rbt_bin_id id = {1, 1, i % 3};
        assert_ok(rbt_bins_hold(&bins, &dense, &id, &s.batch, s.batch.count));
    }
    rbt_bins_remove(&bins, &(struct rbt_bin_id){1, 1, 1});
    rbt_bins_remove(&bins, &(struct rbt_bin_id){1, 2, 2}); /* nobody's */
    assert_int_equal(bins.count, 6);
    assert_int_equal(bins.missing, 6 * s.batch.count);
    for (uint64_t i = 0; i < 6; i++) {
        assert_int_equal(rbt_bins_at(&bins, 0)->id.sequence, i < 3 ? 0 : 2);
        rbt_bins_drop(&bins, 0);
    }
    rbt_bins_deinit(&bins);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_steady_state_allocates_nothing(void **state)
{
    (void)state;
    struct rbt_bins bins = {0};
    struct sample s;
    uint64_t calls = 0;
    for (uint64_t i = 0; i < 200; i++) {
        make_sample(&s, rbt_spec_kind(&dense),
                    i % 8 < 4 ? WIDTH : 1); /* dense and packed take turns */
        if (i == 100) {
            calls = rbt_alloc_calls();
        }
        assert_ok(rbt_bins_hold(&bins, &dense, &(struct rbt_bin_id){(int64_t)i, 0, i}, &s.batch,
                                s.batch.count));
        if (bins.count > 3) {
            rbt_bins_drop(&bins, 0);
        }
    }
    assert_int_equal(rbt_alloc_calls(), calls);
    rbt_bins_deinit(&bins);
}

static void a_failed_hold_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t filled = 1; filled <= WIDTH; filled += WIDTH - 1) {
        struct rbt_bins bins = {0};
        struct sample s;
        make_sample(&s, rbt_spec_kind(&dense), filled);
        rbt_status st = RBT_E_NOMEM;
        for (unsigned nth = 1; st != RBT_OK; nth++) {
            rbt_alloc_fail_nth(nth);
            st = rbt_bins_hold(&bins, &dense, &(struct rbt_bin_id){0, 0, 1}, &s.batch,
                               s.batch.count);
            rbt_alloc_fail_nth(0);
            assert_int_equal(bins.count, st == RBT_OK);
            assert_int_equal(bins.missing, st == RBT_OK ? s.batch.count : 0);
            assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        }
        assert_unpacks_to(rbt_bins_at(&bins, 0), &dense, &s);
        rbt_bins_deinit(&bins);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

/* What waits counts from when it comes, and its memory goes on counting when it is kept for later.
 */
static void bytes_are_those_of_the_arrays(void **state)
{
    (void)state;
    struct rbt_bins bins = {0};
    struct sample s;
    make_sample(&s, rbt_spec_kind(&dense), WIDTH);
    assert_int_equal(rbt_bins_bytes(&bins), 0);
    size_t before = 0;
    for (int64_t clock = 0; clock < 4; clock++) {
        assert_ok(rbt_bins_hold(&bins, &dense, &(struct rbt_bin_id){clock, 0, 0}, &s.batch, 0));
        const size_t bytes = rbt_bins_bytes(&bins);
        const size_t rows = s.batch.count * (sizeof(uint64_t) + WIDTH * sizeof(float));
        assert_true(bytes >= before + rows);
        assert_true(bytes <= before + 2 * rows + sizeof(struct rbt_bin) + 256);
        before = bytes;
    }
    rbt_bins_drop(&bins, 0);
    assert_int_equal(rbt_bins_bytes(&bins), before);
    make_sample(&s, rbt_spec_kind(&dense), 1); /* packed */
    assert_ok(rbt_bins_hold(&bins, &dense, &(struct rbt_bin_id){4, 0, 0}, &s.batch, 0));
    const size_t elements = s.batch.count * sizeof(uint32_t);
    assert_true(rbt_bins_bytes(&bins) >= before + 2 * elements); /* and where rows begin */
    rbt_bins_deinit(&bins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_come_out_by_clock_worker_and_sequence),
        cmocka_unit_test(bins_of_one_message_stay_in_order),
        cmocka_unit_test(rows_that_say_little_are_packed_and_come_back_the_same),
        cmocka_unit_test(a_held_update_is_a_copy),
        cmocka_unit_test(sparse_rows_keep_their_elements),
        cmocka_unit_test(remove_forgets_all_bins_of_a_message_and_no_others),
        cmocka_unit_test(a_steady_state_allocates_nothing),
        cmocka_unit_test(a_failed_hold_changes_nothing),
        cmocka_unit_test(bytes_are_those_of_the_arrays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
