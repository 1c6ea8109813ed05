/* store/ledger_test.c - who holds which reads, and for how long. */
#include "base/test.h"

#include "base/alloc.h"
#include "store/ledger.h"

enum { WORKERS = 3 };

static void start(struct rbt_ledger *ledger)
{
    assert_ok(rbt_ledger_init(ledger, WORKERS));
}

static void stop(struct rbt_ledger *ledger)
{
    rbt_ledger_deinit(ledger);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* The worker reads; its tag is ten times the stamp. */
static void hold(struct rbt_ledger *ledger, uint32_t worker, uint64_t stamp, uint64_t least)
{
    const struct rbt_ledger_read read = {.stamp = stamp, .tag = stamp * 10, .least = least};
    assert_ok(rbt_ledger_hold(ledger, worker, &read));
}

/* The same, ahead of messages up to `overtaken`. */
static void hold_early(struct rbt_ledger *ledger, uint32_t worker, uint64_t stamp,
                       uint64_t overtaken)
{
    const struct rbt_ledger_read read = {
        .stamp = stamp, .tag = stamp * 10, .least = stamp, .overtaken = overtaken};
    assert_ok(rbt_ledger_hold(ledger, worker, &read));
}

/* The stamps that the worker holds, as digits: 1, 4 and 7 are 147. */
static uint64_t held(const struct rbt_ledger *ledger, uint32_t worker)
{
    const struct rbt_ledger_worker *w = &ledger->workers[worker];
    uint64_t digits = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        assert_true(i == 0 || w->holds[i - 1].stamp < w->holds[i].stamp);
        digits = digits * 10 + w->holds[i].stamp;
    }
    return digits;
}

static void everybody_holds_the_beginning(void **state)
{
    (void)state;
    struct rbt_ledger ledger;
    start(&ledger);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(ledger.workers[i].count, 1);
        assert_int_equal(rbt_ledger_find(&ledger, i, 7)->stamp, 0);
        assert_true(rbt_ledger_find(&ledger, i, 7)->version == RBT_RULE_NO_VERSION);
    }
    assert_int_equal(rbt_ledger_lowest(&ledger), 0);
    rbt_ledger_reset(&ledger, 9, 5);
    assert_int_equal(held(&ledger, 2), 9);
    assert_int_equal(rbt_ledger_find(&ledger, 2, 0)->tag, 5);
    assert_int_equal(rbt_ledger_lowest(&ledger), 9);
    assert_int_equal(rbt_ledger_highest(&ledger), 9);
    stop(&ledger);
}

static void a_read_replaces_what_is_below_its_least(void **state)
{
    (void)state;
    struct rbt_ledger ledger;
    start(&ledger);
    hold(&ledger, 0, 3, RBT_STAMP_NONE);
    assert_int_equal(held(&ledger, 0), 3);
    hold(&ledger, 0, 5, 3);
    hold(&ledger, 0, 6, 3);
    hold(&ledger, 0, 8, 3);
    assert_int_equal(held(&ledger, 0), 3568);
    hold(&ledger, 0, 9, 4); /* no such read: the next one is the lowest */
    assert_int_equal(held(&ledger, 0), 5689);
    assert_int_equal(rbt_ledger_lowest(&ledger), 0); /* the others' */
    assert_int_equal(rbt_ledger_highest(&ledger), 9);
    stop(&ledger);
}

static void a_second_read_at_the_same_stamp_is_the_same_hold(void **state)
{
    (void)state;
    struct rbt_ledger ledger;
    start(&ledger);
    hold(&ledger, 0, 4, RBT_STAMP_NONE);
    rbt_ledger_pin(&ledger, 0, 4);
    rbt_ledger_find(&ledger, 0, 4)->version = 77;
    hold(&ledger, 0, 4, RBT_STAMP_NONE);
    assert_int_equal(held(&ledger, 0), 4);
    assert_int_equal(rbt_ledger_find(&ledger, 0, 4)->version, 77);
    const struct rbt_ledger_read other = {.stamp = 4, .tag = 3, .least = RBT_STAMP_NONE};
    assert_ok(rbt_ledger_hold(&ledger, 0, &other)); /* other versions of the rows */
    assert_int_equal(rbt_ledger_find(&ledger, 0, 4)->tag, 3);
    assert_true(rbt_ledger_find(&ledger, 0, 4)->version == RBT_RULE_NO_VERSION);
    rbt_ledger_release(&ledger, 0, 1, RBT_STAMP_NONE);
    assert_int_equal(held(&ledger, 0), 4); /* the pin has stayed */
    rbt_ledger_unpin(&ledger, 0, 4);
    assert_int_equal(ledger.workers[0].count, 0);
    stop(&ledger);
}

static void an_update_belongs_to_its_read_or_to_the_next_one(void **state)
{
    (void)state;
    struct rbt_ledger ledger;
    start(&ledger);
    hold(&ledger, 1, 2, RBT_STAMP_NONE);
    hold(&ledger, 1, 5, 2);
    hold(&ledger, 1, 9, 2);
    const uint64_t expected[] = {2, 2, 2, 5, 5, 5, 9, 9, 9, 9, 9};
    for (uint64_t base = 0; base <= 10; base++) {
        assert_int_equal(rbt_ledger_find(&ledger, 1, base)->stamp, expected[base]);
        assert_int_equal(rbt_ledger_find(&ledger, 1, base)->tag, expected[base] * 10);
    }
    rbt_ledger_release(&ledger, 1, 1, RBT_STAMP_NONE);
    assert_null(rbt_ledger_find(&ledger, 1, 5));
    stop(&ledger);
}

static void what_waits_keeps_its_read(void **state)
{
    (void)state;
    struct rbt_ledger ledger;
    start(&ledger);
    hold(&ledger, 0, 3, RBT_STAMP_NONE);
    rbt_ledger_pin(&ledger, 0, 3);
    rbt_ledger_pin(&ledger, 0, 3);
    hold(&ledger, 0, 6, RBT_STAMP_NONE);
    hold(&ledger, 0, 8, RBT_STAMP_NONE);
    assert_int_equal(held(&ledger, 0), 38);
    rbt_ledger_unpin(&ledger, 0, 3);
    assert_int_equal(held(&ledger, 0), 38);
    rbt_ledger_release(&ledger, 0, 1, RBT_STAMP_NONE);
    assert_int_equal(held(&ledger, 0), 3);
    assert_int_equal(rbt_ledger_highest(&ledger), 3);
    rbt_ledger_unpin(&ledger, 0, 3);
    assert_int_equal(ledger.workers[0].count, 0);
    stop(&ledger);
}

static void nobody_holds_anything_after_all_have_let_go(void **state)
{
    (void)state;
    struct rbt_ledger ledger;
    start(&ledger);
    for (uint32_t i = 0; i < WORKERS; i++) {
        assert_int_equal(rbt_ledger_lowest(&ledger), 0);
        rbt_ledger_release(&ledger, i, 1, RBT_STAMP_NONE);
    }
    assert_true(rbt_ledger_lowest(&ledger) == RBT_STAMP_NONE);
    assert_int_equal(rbt_ledger_highest(&ledger), 0);
    stop(&ledger);
}

static void a_read_that_overtakes_messages_lets_nothing_go(void **state)
{
    (void)state;
    struct rbt_ledger ledger;
    start(&ledger);
    hold(&ledger, 0, 2, RBT_STAMP_NONE);
    hold_early(&ledger, 0, 5, 7); /* messages 6 and 7 are still to come */
    assert_int_equal(held(&ledger, 0), 25);
    hold_early(&ledger, 0, 6, 8);
    rbt_ledger_release(&ledger, 0, 6, 2);
    assert_int_equal(held(&ledger, 0), 256);
    rbt_ledger_release(&ledger, 0, 7, RBT_STAMP_NONE); /* it knew of no read */
    assert_int_equal(held(&ledger, 0), 56);
    rbt_ledger_release(&ledger, 0, 8, RBT_STAMP_NONE); /* it knew of the first */
    assert_int_equal(held(&ledger, 0), 6);
    rbt_ledger_release(&ledger, 0, 9, 6); /* it knows of both */
    assert_int_equal(held(&ledger, 0), 6);
    hold_early(&ledger, 0, 7, 10);
    hold(&ledger, 0, 9, 9); /* all messages before this read have come */
    rbt_ledger_release(&ledger, 0, 11, RBT_STAMP_NONE);
    assert_int_equal(ledger.workers[0].count, 0);
    stop(&ledger);
}

static void the_ledger_survives_every_failed_allocation(void **state)
{
    (void)state;
    struct rbt_ledger ledger;
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        rbt_alloc_fail_nth(nth);
        st = rbt_ledger_init(&ledger, WORKERS);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        assert_true(st == RBT_OK || rbt_alloc_live() == 0);
        assert_true(st != RBT_OK || nth > WORKERS + 1);
    }
    hold(&ledger, 0, 1, 0);
    const struct rbt_ledger_read read = {.stamp = 2, .least = 0};
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_ledger_hold(&ledger, 0, &read), RBT_E_NOMEM, "read of worker 0");
    rbt_alloc_fail_nth(0);
    assert_int_equal(ledger.workers[0].count, 2); /* as it was */
    assert_int_equal(rbt_ledger_highest(&ledger), 1);
    assert_ok(rbt_ledger_hold(&ledger, 0, &read));
    assert_int_equal(held(&ledger, 0), 12);
    stop(&ledger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_holds_the_beginning),
        cmocka_unit_test(a_read_replaces_what_is_below_its_least),
        cmocka_unit_test(a_second_read_at_the_same_stamp_is_the_same_hold),
        cmocka_unit_test(an_update_belongs_to_its_read_or_to_the_next_one),
        cmocka_unit_test(what_waits_keeps_its_read),
        cmocka_unit_test(nobody_holds_anything_after_all_have_let_go),
        cmocka_unit_test(a_read_that_overtakes_messages_lets_nothing_go),
        cmocka_unit_test(the_ledger_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
