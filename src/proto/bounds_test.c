/* proto/bounds_test.c - the last change that concerns a table is the one that holds. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "proto/bounds.h"

static void note(struct rbt_bounds *bounds, uint64_t number, uint32_t table, int64_t staleness)
{
    assert_ok(rbt_bounds_note(
        bounds, &(struct rbt_bound){.number = number, .table = table, .staleness = staleness}));
}

static void the_last_change_holds(void **state)
{
    struct rbt_bounds b = {0};
    (void)state;
    assert_int_equal(rbt_bounds_find(&b, 3, true, 9), 9);
    note(&b, 1, 3, 5);
    assert_int_equal(rbt_bounds_find(&b, 3, true, 9), 5);
    assert_int_equal(rbt_bounds_find(&b, 2, true, 9), 9);
    note(&b, 2, RBT_CONTROL_ALL, 6);
    assert_int_equal(rbt_bounds_find(&b, 3, true, 9), 6);
    assert_int_equal(rbt_bounds_find(&b, 3, false, 9), 5); /* it does not follow the job */
    assert_int_equal(rbt_bounds_find(&b, RBT_CONTROL_ALL, true, 9), 6);
    note(&b, 3, 3, -1);
    assert_int_equal(rbt_bounds_find(&b, 3, true, 9), -1);
    assert_int_equal(rbt_bounds_find(&b, 2, true, 9), 6);
    note(&b, 2, 3, 7); /* again */
    assert_int_equal(rbt_bounds_find(&b, 3, true, 9), -1);
    assert_int_equal(b.count, 2);
    rbt_bounds_deinit(&b);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Somebody who hears some of the changes, and then all that are kept, ends with the same. */
static void who_is_told_again_ends_with_the_same(void **state)
{
    struct rbt_rng rng;
    (void)state;
    rbt_rng_init(&rng, 1, 0, 0);
    for (int round = 0; round < 200; round++) {
        struct rbt_bounds all = {0};
        struct rbt_bounds some = {0};
        const uint64_t heard = rbt_rng_below(&rng, 20);
        for (uint64_t number = 1; number <= 20; number++) {
            const uint64_t table = rbt_rng_below(&rng, 4);
            note(&all, number, table == 3 ? RBT_CONTROL_ALL : (uint32_t)table, (int64_t)number);
            if (number <= heard) {
                note(&some, number, table == 3 ? RBT_CONTROL_ALL : (uint32_t)table,
                     (int64_t)number);
            }
        }
        for (uint32_t i = 0; i < all.count; i++) {
            assert_ok(rbt_bounds_note(&some, &all.list[i]));
        }
        assert_int_equal(some.last, all.last);
        for (uint32_t table = 0; table < 4; table++) {
            for (int follows = 0; follows < 2; follows++) {
                assert_int_equal(rbt_bounds_find(&some, table, follows == 1, 0),
                                 rbt_bounds_find(&all, table, follows == 1, 0));
            }
        }
        rbt_bounds_deinit(&all);
        rbt_bounds_deinit(&some);
    }
}

static void without_memory_nothing_changes(void **state)
{
    struct rbt_bounds b = {0};
    (void)state;
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_bounds_note(&b, &(struct rbt_bound){.number = 1, .staleness = 2}), RBT_E_NOMEM,
                 "staleness");
    rbt_alloc_fail_nth(0);
    assert_int_equal(rbt_bounds_find(&b, 0, true, 9), 9);
    note(&b, 1, 0, 2);
    rbt_bounds_deinit(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_change_holds),
        cmocka_unit_test(who_is_told_again_ends_with_the_same),
        cmocka_unit_test(without_memory_nothing_changes),
    };
    return cmocka_run_group_tests_name("proto/bounds", tests, NULL, NULL);
}
