/* base/thread_test.c - one test per promise of thread.c. Members meet at barriers; nobody sleeps.
 */
#include "base/test.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/error.h"
#include "base/thread.h"

enum { MEMBERS = 8 };

struct team {
    pthread_barrier_t barrier;
    atomic_uint runs[MEMBERS];
};

static rbt_status meet(void *argument, uint32_t index)
{
    struct team *team = argument;
    (void)pthread_barrier_wait(&team->barrier); /* never returns unless all run at once */
    atomic_fetch_add(&team->runs[index], 1);
    return RBT_OK;
}

static void members_may_wait_for_each_other(void **state)
{
    (void)state;
    struct team team = {0};
    assert_int_equal(pthread_barrier_init(&team.barrier, NULL, MEMBERS), 0);
    for (unsigned round = 1; round <= 400; round++) {
        assert_ok(rbt_thread_run(MEMBERS, meet, &team));
        for (uint32_t i = 0; i < MEMBERS; i++) {
            assert_int_equal(atomic_load(&team.runs[i]), round);
        }
    }
    assert_int_equal(pthread_barrier_destroy(&team.barrier), 0);
    assert_int_equal(rbt_alloc_live(), 0);
}

static rbt_status fail_from_three_on(void *argument, uint32_t index)
{
    atomic_fetch_add((atomic_uint *)argument, 1);
    if (index < 3) {
        return RBT_OK;
    }
    (void)rbt_fail(index == 3 ? RBT_E_BUSY : RBT_E_CLOSED, "member %u failed", index);
    return rbt_fail_hint(index == 3 ? RBT_E_BUSY : RBT_E_CLOSED, "Ask %u.", index);
}

static void the_first_failure_by_number_is_returned_and_all_are_waited_for(void **state)
{
    (void)state;
    atomic_uint runs = 0;
    assert_fails(rbt_thread_run(MEMBERS, fail_from_three_on, &runs), RBT_E_BUSY, "member 3 failed");
    assert_string_equal(rbt_last_hint(), "Ask 3.");
    assert_int_equal(atomic_load(&runs), MEMBERS);
}

static void without_memory_nobody_runs(void **state)
{
    (void)state;
    atomic_uint runs = 0;
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_thread_run(MEMBERS, fail_from_three_on, &runs), RBT_E_NOMEM, "8 threads");
    rbt_alloc_fail_nth(0);
    assert_int_equal(atomic_load(&runs), 0);
    assert_ok(rbt_thread_run(0, fail_from_three_on, &runs));
    assert_int_equal(rbt_alloc_live(), 0);
}

static void there_is_at_least_one_core(void **state)
{
    (void)state;
    assert_true(rbt_thread_cores() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_may_wait_for_each_other),
        cmocka_unit_test(the_first_failure_by_number_is_returned_and_all_are_waited_for),
        cmocka_unit_test(without_memory_nobody_runs),
        cmocka_unit_test(there_is_at_least_one_core),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
