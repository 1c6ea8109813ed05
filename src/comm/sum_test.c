/* comm/sum_test.c - sums of batches, by hand and against adding them to a table one by one. */
#include "base/test.h"

#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "comm/sum.h"

static struct rbt_sum sum;

static int tear_down(void **state)
{
    (void)state;
    rbt_sum_deinit(&sum);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

static const struct rbt_sum_kind pairs = {.merge = {RBT_I32, RBT_MERGE_ADD}, .width = 2};

static void rows_of_the_same_key_are_added(void **state)
{
    (void)state;
    const uint64_t first_keys[] = {2, 5};
    const uint64_t second_keys[] = {1, 5, 9};
    int32_t first[] = {1, 2, 3, 4};
    int32_t second[] = {10, 20, 30, 40, 50, 60};
    const struct rbt_batch a = {.table = 3, .count = 2, .keys = first_keys, .values = first};
    const struct rbt_batch b = {.table = 3, .count = 3, .keys = second_keys, .values = second};
    struct rbt_batch result;
    assert_ok(rbt_sum_batches(&sum, &pairs, (const struct rbt_batch *[]){&a, &b}, 2, &result));
    const uint64_t keys[] = {1, 2, 5, 9};
    const int32_t values[] = {10, 20, 1, 2, 33, 44, 50, 60};
    assert_int_equal(result.table, 3);
    assert_int_equal(result.count, 4);
    assert_memory_equal(result.keys, keys, sizeof keys);
    assert_memory_equal(result.values, values, sizeof values);
    assert_null(result.offsets);
}

static void other_merges_merge(void **state)
{
    (void)state;
    const uint64_t keys[] = {7};
    int32_t first[] = {1, 20};
    int32_t second[] = {10, 2};
    const struct rbt_batch a = {.count = 1, .keys = keys, .values = first};
    const struct rbt_batch b = {.count = 1, .keys = keys, .values = second};
    const struct rbt_sum_kind most = {.merge = {RBT_I32, RBT_MERGE_MAX}, .width = 2};
    struct rbt_batch result;
    assert_ok(rbt_sum_batches(&sum, &most, (const struct rbt_batch *[]){&a, &b}, 2, &result));
    assert_memory_equal(result.values, ((int32_t[]){10, 20}), 2 * sizeof(int32_t));
}

static void positions_select_rows(void **state)
{
    (void)state;
    const uint64_t keys[] = {1, 2, 3};
    const uint32_t positions[] = {0, 2};
    int32_t values[] = {1, 2, 3, 4, 5, 6};
    const struct rbt_batch all = {.count = 3, .keys = keys, .values = values};
    const struct rbt_batch some = {
        .count = 2, .keys = keys, .values = values, .positions = positions};
    struct rbt_batch result;
    assert_ok(rbt_sum_batches(&sum, &pairs, (const struct rbt_batch *[]){&all, &some}, 2, &result));
    assert_int_equal(result.count, 3);
    assert_memory_equal(result.values, ((int32_t[]){2, 4, 3, 4, 10, 12}), 6 * sizeof(int32_t));
}

static void lists_keep_their_name_if_they_are_the_same(void **state)
{
    (void)state;
    const uint64_t keys[] = {1, 2};
    int32_t values[] = {1, 2, 3, 4};
    const struct rbt_batch named = {.count = 2, .keys = keys, .values = values, .list = 77};
    const struct rbt_batch other = {.count = 1, .keys = keys, .values = values, .list = 78};
    struct rbt_batch result;
    assert_ok(
        rbt_sum_batches(&sum, &pairs, (const struct rbt_batch *[]){&named, &named}, 2, &result));
    assert_int_equal(result.list, 77);
    assert_ok(
        rbt_sum_batches(&sum, &pairs, (const struct rbt_batch *[]){&named, &other}, 2, &result));
    assert_int_equal(result.list, 0);
}

static void nothing_and_nothing_is_nothing(void **state)
{
    (void)state;
    const struct rbt_batch none = {.table = 1};
    struct rbt_batch result;
    assert_ok(
        rbt_sum_batches(&sum, &pairs, (const struct rbt_batch *[]){&none, &none}, 2, &result));
    assert_int_equal(result.count, 0);
}

/* --- Random batches -------------------------------------------------------------------------- */

enum { KEYS = 40, WIDTH = 8, MOST = 6 };

struct random_batch {
    uint64_t keys[KEYS];
    int64_t values[KEYS * WIDTH];
    uint32_t offsets[KEYS + 1];
    uint32_t elements[KEYS * WIDTH];
    struct rbt_batch batch;
};

/* Adds what it draws to the totals as well. */
static void draw(struct rbt_rng *rng, bool is_sparse, struct random_batch *b, int64_t *totals,
                 bool *has_key)
{
    size_t rows = 0;
    uint32_t count = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        if (rbt_rng_below(rng, 3) != 0) {
            continue;
        }
        b->keys[rows] = key;
        b->offsets[rows] = count;
        has_key[key] = true;
        for (uint32_t e = 0; e < WIDTH; e++) {
            const int64_t value = (int64_t)rbt_rng_below(rng, 100) - 50;
            if (is_sparse && rbt_rng_below(rng, 2) == 0) {
                continue;
            }
            b->elements[count] = e;
            b->values[is_sparse ? count : rows * WIDTH + e] = value;
            totals[key * WIDTH + e] += value;
            count++;
        }
        rows++;
    }
    b->offsets[rows] = count;
    b->batch = (struct rbt_batch){.count = rows,
                                  .keys = b->keys,
                                  .values = b->values,
                                  .offsets = is_sparse ? b->offsets : NULL,
                                  .elements = is_sparse ? b->elements : NULL};
}

/* Takes the result off the totals; all rows that were drawn are there once, in order. */
static void take_off(const struct rbt_batch *result, int64_t *totals, const bool *has_key)
{
    size_t rows = 0;
    const int64_t *values = result->values;
    for (size_t key = 0; key < KEYS; key++) {
        rows += has_key[key];
    }
    assert_int_equal(result->count, rows);
    for (size_t i = 0; i < result->count; i++) {
        const uint64_t key = result->keys[i];
        assert_true(has_key[key]);
        assert_true(i == 0 || result->keys[i - 1] < key);
        const size_t first = result->offsets != NULL ? result->offsets[i] : i * WIDTH;
        const size_t last = result->offsets != NULL ? result->offsets[i + 1] : first + WIDTH;
        for (size_t k = first; k < last; k++) {
            const size_t element = result->offsets != NULL ? result->elements[k] : k - first;
            assert_true(result->offsets == NULL || k == first || result->elements[k - 1] < element);
            totals[key * WIDTH + element] -= values[k];
        }
    }
}

static void a_sum_is_what_its_parts_are_together(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 3, 1, 4);
    for (int round = 0; round < 500; round++) {
        static struct random_batch drawn[MOST];
        const struct rbt_batch *batches[MOST];
        int64_t totals[KEYS * WIDTH] = {0};
        bool has_key[KEYS] = {false};
        const bool is_sparse = round % 2 == 1;
        const size_t count = 1 + rbt_rng_below(&rng, MOST);
        for (size_t i = 0; i < count; i++) {
            draw(&rng, is_sparse, &drawn[i], totals, has_key);
            batches[i] = &drawn[i].batch;
        }
        const struct rbt_sum_kind kind = {
            .merge = {RBT_I64, RBT_MERGE_ADD}, .width = WIDTH, .is_sparse = is_sparse};
        struct rbt_batch result;
        assert_ok(rbt_sum_batches(&sum, &kind, batches, count, &result));
        take_off(&result, totals, has_key);
        for (size_t i = 0; i < KEYS * WIDTH; i++) {
            assert_int_equal(totals[i], 0);
        }
    }
}

static void it_survives_every_failed_allocation(void **state)
{
    (void)state;
    struct rbt_rng rng;
    static struct random_batch drawn;
    int64_t totals[KEYS * WIDTH] = {0};
    bool has_key[KEYS] = {false};
    rbt_rng_init(&rng, 5, 1, 4);
    draw(&rng, true, &drawn, totals, has_key);
    const struct rbt_batch *batches[] = {&drawn.batch, &drawn.batch};
    const struct rbt_sum_kind kind = {
        .merge = {RBT_I64, RBT_MERGE_ADD}, .width = WIDTH, .is_sparse = true};
    unsigned nth = 1;
    rbt_status st = RBT_E_NOMEM;
    for (; st != RBT_OK; nth++) {
        struct rbt_batch result;
        rbt_sum_deinit(&sum);
        rbt_alloc_fail_nth(nth);
        st = rbt_sum_batches(&sum, &kind, batches, 2, &result);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
    }
    assert_true(nth > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(rows_of_the_same_key_are_added, tear_down),
        cmocka_unit_test_teardown(other_merges_merge, tear_down),
        cmocka_unit_test_teardown(positions_select_rows, tear_down),
        cmocka_unit_test_teardown(lists_keep_their_name_if_they_are_the_same, tear_down),
        cmocka_unit_test_teardown(nothing_and_nothing_is_nothing, tear_down),
        cmocka_unit_test_teardown(a_sum_is_what_its_parts_are_together, tear_down),
        cmocka_unit_test_teardown(it_survives_every_failed_allocation, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
