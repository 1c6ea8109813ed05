/* net/spin_test.c - how often it is worth looking again; no test waits for time to pass. */
#include "base/test.h"

#include "base/thread.h"
#include "net/spin.h"

enum { MANY = 1000, LEFT_OUT = 31 };

static void skip_on_one_core(void)
{
    if (rbt_thread_cores() == 1) {
        skip();
    }
}

/* Tries `count` times, all with the same end. */
static void try_often(struct rbt_spin *spin, int count, bool has_paid)
{
    for (int i = 0; i < count; i++) {
        if (rbt_spin_begin(spin)) {
            rbt_spin_end(spin, has_paid);
        }
    }
}

static void it_is_tried_at_first_and_for_as_long_as_it_pays(void **state)
{
    (void)state;
    skip_on_one_core();
    struct rbt_spin spin = {0};
    for (int i = 0; i < MANY; i++) {
        assert_true(rbt_spin_begin(&spin));
        rbt_spin_end(&spin, true);
    }
}

static void what_does_not_pay_is_tried_once_in_a_while(void **state)
{
    (void)state;
    skip_on_one_core();
    struct rbt_spin spin = {0};
    try_often(&spin, MANY, false);
    while (!rbt_spin_begin(&spin)) { /* to the beginning of a round */
    }
    rbt_spin_end(&spin, false);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < LEFT_OUT; i++) {
            assert_false(rbt_spin_begin(&spin));
        }
        assert_true(rbt_spin_begin(&spin));
        rbt_spin_end(&spin, false);
    }
}

static void it_comes_back_when_it_pays_again(void **state)
{
    (void)state;
    skip_on_one_core();
    struct rbt_spin spin = {0};
    try_often(&spin, MANY, false);
    try_often(&spin, MANY, true);
    for (int i = 0; i < MANY; i++) {
        assert_true(rbt_spin_begin(&spin));
        rbt_spin_end(&spin, true);
    }
}

static void one_core_never_looks_again(void **state)
{
    (void)state;
    struct rbt_spin spin = {.budget = RBT_TIME_NEVER};
    for (int i = 0; i < MANY; i++) {
        assert_false(rbt_spin_begin(&spin));
    }
    spin = (struct rbt_spin){.until = RBT_TIME_NEVER};
    assert_true(rbt_spin_again(&spin));
    spin.until = 0;
    assert_false(rbt_spin_again(&spin));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_tried_at_first_and_for_as_long_as_it_pays),
        cmocka_unit_test(what_does_not_pay_is_tried_once_in_a_while),
        cmocka_unit_test(it_comes_back_when_it_pays_again),
        cmocka_unit_test(one_core_never_looks_again),
    };
    return cmocka_run_group_tests_name("net/spin", tests, NULL, NULL);
}
