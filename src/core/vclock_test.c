/* core/vclock_test.c - one test per promise of vclock.c. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "core/vclock.h"

enum { CELLS = 256, NODES = 3 };

/* Cell c of the model stands for the keys c * 2^56 .. (c + 1) * 2^56 - 1: 0 and UINT64_MAX are in
 * the first and in the last one. */
static struct rbt_range cells(uint64_t first, uint64_t last)
{
    return (struct rbt_range){first << 56, (last << 56) | ((1ULL << 56) - 1)};
}

static rbt_vclock *create(uint32_t range_max)
{
    rbt_vclock *vclock = NULL;
    const struct rbt_vclock_options options = {.node_count = NODES, .range_max = range_max};
    assert_ok(rbt_vclock_create(&options, &vclock));
    return vclock;
}

static void at_the_start_one_range_has_time_zero(void **state)
{
    (void)state;
    rbt_vclock *vclock = create(4);
    for (uint32_t node = 0; node < NODES; node++) {
        assert_int_equal(rbt_vclock_ranges(vclock, node), 1);
        assert_int_equal(rbt_vclock_get(vclock, node, 0), 0);
        assert_int_equal(rbt_vclock_get(vclock, node, UINT64_MAX), 0);
        assert_int_equal(rbt_vclock_min(vclock, node, RBT_RANGE_ALL), 0);
    }
    rbt_vclock_destroy(vclock);
    rbt_vclock_destroy(NULL);
}

static void a_set_holds_for_its_range_and_its_node_alone(void **state)
{
    (void)state;
    rbt_vclock *vclock = create(4);
    assert_ok(rbt_vclock_set(vclock, 1, (struct rbt_range){100, 199}, 7));
    assert_int_equal(rbt_vclock_get(vclock, 1, 99), 0);
    assert_int_equal(rbt_vclock_get(vclock, 1, 100), 7);
    assert_int_equal(rbt_vclock_get(vclock, 1, 199), 7);
    assert_int_equal(rbt_vclock_get(vclock, 1, 200), 0);
    assert_int_equal(rbt_vclock_get(vclock, 0, 150), 0);
    assert_int_equal(rbt_vclock_get(vclock, 2, 150), 0);
    assert_int_equal(rbt_vclock_min(vclock, 1, (struct rbt_range){120, 130}), 7);
    assert_int_equal(rbt_vclock_min(vclock, 1, (struct rbt_range){120, 200}), 0);
    assert_int_equal(rbt_vclock_ranges(vclock, 1), 3);
    rbt_vclock_destroy(vclock);
}

static void both_ends_of_the_key_space_can_be_set_alone(void **state)
{
    (void)state;
    rbt_vclock *vclock = create(4);
    assert_ok(rbt_vclock_set(vclock, 0, (struct rbt_range){0, 0}, 3));
    assert_ok(rbt_vclock_set(vclock, 0, (struct rbt_range){UINT64_MAX, UINT64_MAX}, 4));
    assert_int_equal(rbt_vclock_get(vclock, 0, 0), 3);
    assert_int_equal(rbt_vclock_get(vclock, 0, 1), 0);
    assert_int_equal(rbt_vclock_get(vclock, 0, UINT64_MAX - 1), 0);
    assert_int_equal(rbt_vclock_get(vclock, 0, UINT64_MAX), 4);
    assert_int_equal(rbt_vclock_min(vclock, 0, (struct rbt_range){0, 0}), 3);
    assert_int_equal(rbt_vclock_ranges(vclock, 0), 3);
    rbt_vclock_destroy(vclock);
}

static void equal_neighbours_are_joined(void **state)
{
    (void)state;
    rbt_vclock *vclock = create(2 * CELLS);
    for (uint64_t i = 0; i < CELLS; i += 2) { /* every other cell, then the rest */
        assert_ok(rbt_vclock_set(vclock, 0, cells(i, i), 5));
    }
    assert_int_equal(rbt_vclock_ranges(vclock, 0), CELLS);
    for (uint64_t i = 1; i < CELLS; i += 2) {
        assert_ok(rbt_vclock_set(vclock, 0, cells(i, i), 5));
    }
    assert_int_equal(rbt_vclock_ranges(vclock, 0), 1);
    assert_int_equal(rbt_vclock_min(vclock, 0, RBT_RANGE_ALL), 5);
    rbt_vclock_destroy(vclock);
}

/* k different ranges that were set have at most 2k ends inside the key space. */
static void k_ranges_cost_at_most_twice_as_many_entries_and_one(void **state)
{
    (void)state;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 3, 0, 0);
    for (int round = 0; round < 50; round++) {
        rbt_vclock *vclock = create(1000);
        uint32_t before = 1;
        for (uint32_t k = 1; k <= 100; k++) {
            const uint64_t a = rbt_rng_next(&rng);
            const uint64_t b = rbt_rng_next(&rng);
            const struct rbt_range range = {a < b ? a : b, a < b ? b : a};
            assert_ok(rbt_vclock_set(vclock, 0, range, k));
            assert_true(rbt_vclock_ranges(vclock, 0) <= 2 * k + 1);
            assert_true(rbt_vclock_ranges(vclock, 0) <= before + 2);
            before = rbt_vclock_ranges(vclock, 0);
        }
        rbt_vclock_destroy(vclock);
    }
}

static uint64_t model_min(const uint64_t *model, uint64_t first, uint64_t last)
{
    uint64_t min = model[first];
    for (uint64_t i = first; i <= last; i++) {
        min = model[i] < min ? model[i] : min;
    }
    return min;
}

static uint32_t model_ranges(const uint64_t *model)
{
    uint32_t count = 1;
    for (size_t i = 1; i < CELLS; i++) {
        count += model[i] != model[i - 1];
    }
    return count;
}

/* 150 000 sets; few times, so that neighbours are often equal. */
static void it_agrees_with_a_clock_per_key(void **state)
{
    (void)state;
    static uint64_t model[NODES][CELLS];
    rbt_vclock *vclock = create(2 * CELLS);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, 0, 0);
    memset(model, 0, sizeof model);
    for (int i = 0; i < 150000; i++) {
        const uint32_t node = (uint32_t)rbt_rng_below(&rng, NODES);
        const uint64_t length = rbt_rng_below(&rng, i % 10 == 0 ? CELLS : 8);
        const uint64_t first = rbt_rng_below(&rng, CELLS - length);
        const uint64_t time = rbt_rng_below(&rng, i % 7 == 0 ? 1000 : 3);
        assert_ok(rbt_vclock_set(vclock, node, cells(first, first + length), time));
        for (uint64_t c = first; c <= first + length; c++) {
            model[node][c] = time;
        }
        const uint64_t a = rbt_rng_below(&rng, CELLS);
        const uint64_t b = a + rbt_rng_below(&rng, CELLS - a);
        assert_int_equal(rbt_vclock_get(vclock, node, cells(a, a).first), model[node][a]);
        assert_int_equal(rbt_vclock_get(vclock, node, cells(b, b).last), model[node][b]);
        assert_int_equal(rbt_vclock_min(vclock, node, cells(a, b)), model_min(model[node], a, b));
        assert_int_equal(rbt_vclock_ranges(vclock, node), model_ranges(model[node]));
    }
    rbt_vclock_destroy(vclock);
}

static void too_many_ranges_are_refused_and_nothing_changes(void **state)
{
    (void)state;
    rbt_vclock *vclock = create(2);
    assert_ok(rbt_vclock_set(vclock, 0, cells(10, 10), 1));
    assert_int_equal(rbt_vclock_ranges(vclock, 0), 3);
    assert_fails(rbt_vclock_set(vclock, 0, cells(20, 20), 2), RBT_E_BUSY, "node 0 has 3");
    assert_int_equal(rbt_vclock_ranges(vclock, 0), 3);
    assert_int_equal(rbt_vclock_get(vclock, 0, cells(20, 20).first), 0);
    assert_int_equal(rbt_vclock_get(vclock, 0, cells(10, 10).first), 1);
    assert_ok(rbt_vclock_set(vclock, 1, cells(20, 20), 2)); /* another node has its own limit */
    assert_ok(rbt_vclock_set(vclock, 0, RBT_RANGE_ALL, 9)); /* this makes room */
    assert_int_equal(rbt_vclock_ranges(vclock, 0), 1);
    assert_ok(rbt_vclock_set(vclock, 0, cells(20, 20), 2));
    rbt_vclock_destroy(vclock);
}

static void reset_sets_all_times_to_zero(void **state)
{
    (void)state;
    rbt_vclock *vclock = create(8);
    assert_ok(rbt_vclock_set(vclock, 0, cells(10, 10), 1));
    assert_ok(rbt_vclock_set(vclock, 2, RBT_RANGE_ALL, 5));
    rbt_vclock_reset(vclock);
    for (uint32_t node = 0; node < NODES; node++) {
        assert_int_equal(rbt_vclock_ranges(vclock, node), 1);
        assert_int_equal(rbt_vclock_get(vclock, node, cells(10, 10).first), 0);
    }
    rbt_vclock_destroy(vclock);
}

static void create_survives_every_failed_allocation(void **state)
{
    (void)state;
    const struct rbt_vclock_options options = {.node_count = 2, .range_max = 2};
    for (unsigned nth = 1;; nth++) {
        rbt_vclock *vclock = NULL;
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_vclock_create(&options, &vclock);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_vclock_destroy(vclock);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(vclock);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_start_one_range_has_time_zero),
        cmocka_unit_test(a_set_holds_for_its_range_and_its_node_alone),
        cmocka_unit_test(both_ends_of_the_key_space_can_be_set_alone),
        cmocka_unit_test(equal_neighbours_are_joined),
        cmocka_unit_test(k_ranges_cost_at_most_twice_as_many_entries_and_one),
        cmocka_unit_test(it_agrees_with_a_clock_per_key),
        cmocka_unit_test(too_many_ranges_are_refused_and_nothing_changes),
        cmocka_unit_test(reset_sets_all_times_to_zero),
        cmocka_unit_test(create_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
