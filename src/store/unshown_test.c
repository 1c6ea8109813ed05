/* store/unshown_test.c - the first message that is not shown, in whatever order updates are. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "store/unshown.h"

static int setup(void **state)
{
    struct rbt_unshown *u = test_calloc(1, sizeof *u);
    assert_ok(rbt_unshown_init(u, 2));
    *state = u;
    return 0;
}

static int teardown(void **state)
{
    rbt_unshown_deinit(*state);
    test_free(*state);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static void hold(struct rbt_unshown *u, uint32_t worker, uint64_t sequence)
{
    assert_ok(rbt_unshown_reserve(u, worker));
    rbt_unshown_add(u, worker, sequence);
}

static void the_first_is_the_lowest_that_is_held(void **state)
{
    struct rbt_unshown *u = *state;
    assert_int_equal(rbt_unshown_first(u, 0), 0);
    hold(u, 0, 3);
    hold(u, 0, 3); /* of another table */
    hold(u, 0, 5);
    hold(u, 1, 2);
    assert_int_equal(rbt_unshown_first(u, 0), 3);
    assert_int_equal(rbt_unshown_first(u, 1), 2);
    rbt_unshown_remove(u, 0, 3);
    assert_int_equal(rbt_unshown_first(u, 0), 3);
    rbt_unshown_remove(u, 0, 3);
    assert_int_equal(rbt_unshown_first(u, 0), 5);
    rbt_unshown_remove(u, 0, 5);
    assert_int_equal(rbt_unshown_first(u, 0), 0);
    assert_int_equal(rbt_unshown_first(u, 1), 2);
}

static void a_message_that_is_taken_back_may_come_again(void **state)
{
    struct rbt_unshown *u = *state;
    hold(u, 0, 1);
    hold(u, 0, 2);
    rbt_unshown_remove(u, 0, 2);
    hold(u, 0, 2);
    rbt_unshown_remove(u, 0, 1);
    assert_int_equal(rbt_unshown_first(u, 0), 2);
}

/* Random holding and showing, against counts that are searched from the beginning. */
static void it_agrees_with_a_plain_count(void **state)
{
    enum { MESSAGES = 300 };
    struct rbt_unshown *u = *state;
    uint32_t counts[MESSAGES + 1] = {0};
    uint64_t newest = 1;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 7, 0, 0);
    for (int i = 0; i < 20000; i++) {
        const uint64_t which = 1 + rbt_rng_below(&rng, MESSAGES);
        if (rbt_rng_below(&rng, 2) == 0) {
            newest += newest < MESSAGES && rbt_rng_below(&rng, 3) == 0;
            hold(u, 1, newest);
            counts[newest]++;
        } else if (counts[which] > 0) {
            rbt_unshown_remove(u, 1, which);
            counts[which]--;
        }
        uint64_t first = 1;
        while (first <= MESSAGES && counts[first] == 0) {
            first++;
        }
        assert_int_equal(rbt_unshown_first(u, 1), first > MESSAGES ? 0 : first);
    }
}

static void without_memory_nothing_changes(void **state)
{
    struct rbt_unshown *u = *state;
    rbt_alloc_fail_nth(1);
    assert_int_equal(rbt_unshown_reserve(u, 0), RBT_E_NOMEM);
    rbt_alloc_fail_nth(0);
    assert_int_equal(rbt_unshown_first(u, 0), 0);
    hold(u, 0, 4);
    assert_int_equal(rbt_unshown_first(u, 0), 4);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(the_first_is_the_lowest_that_is_held),
        T(a_message_that_is_taken_back_may_come_again),
        T(it_agrees_with_a_plain_count),
        T(without_memory_nothing_changes),
    };
#undef T
    return cmocka_run_group_tests_name("store/unshown", tests, NULL, NULL);
}
