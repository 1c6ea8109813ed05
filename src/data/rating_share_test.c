/* data/rating_share_test.c - users stay together, shares are about equal, nothing is lost.
 *
 * The fixture has ratings whose value is their number; user u has about 1 / u of them. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "data/examples.h"

enum { COUNT = 5000, USERS = 200, WORKERS = 4 };

static int set_up(void **state)
{
    struct rbt_ratings *ratings = rbt_calloc(1, sizeof *ratings);
    ratings->count = COUNT;
    ratings->users = rbt_calloc(COUNT, sizeof *ratings->users);
    ratings->items = rbt_calloc(COUNT, sizeof *ratings->items);
    ratings->values = rbt_calloc(COUNT, sizeof *ratings->values);
    for (size_t i = 0; i < COUNT; i++) {
        ratings->users[i] = 1000 + (i * i + i) % (1 + i % USERS);
        ratings->items[i] = UINT64_MAX - i % 97;
        ratings->values[i] = (float)i;
    }
    *state = ratings;
    return 0;
}

static int tear_down(void **state)
{
    rbt_ratings_free(*state);
    rbt_free(*state);
    return 0;
}

static void shares_hold_every_rating_once(void **state)
{
    const struct rbt_ratings *ratings = *state;
    size_t seen[COUNT] = {0};
    for (uint32_t index = 0; index < WORKERS; index++) {
        struct rbt_rating_share share = {0};
        assert_ok(rbt_rating_share_take(ratings, 3, index, WORKERS, &share));
        for (size_t i = 0; i < share.count; i++) {
            const size_t rating = (size_t)share.values[i];
            assert_int_equal(share.user_keys[share.users[i]], ratings->users[rating]);
            assert_true(share.item_keys[share.items[i]] == ratings->items[rating]);
            seen[rating]++;
        }
        rbt_rating_share_free(&share);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(seen[i], 1);
    }
}

static void users_are_on_one_worker_and_loads_are_level(void **state)
{
    uint32_t owners[USERS] = {0}; /* 0: none yet */
    for (uint32_t index = 0; index < WORKERS; index++) {
        struct rbt_rating_share share = {0};
        assert_ok(rbt_rating_share_take(*state, 3, index, WORKERS, &share));
        assert_in_range(share.count, COUNT / WORKERS - 5, COUNT / WORKERS + 5);
        for (size_t i = 0; i < share.user_count; i++) {
            assert_true(i == 0 || share.user_keys[i - 1] < share.user_keys[i]);
            assert_int_equal(owners[share.user_keys[i] - 1000], 0);
            owners[share.user_keys[i] - 1000] = index + 1;
        }
        for (size_t i = 1; i < share.item_count; i++) {
            assert_true(share.item_keys[i - 1] < share.item_keys[i]);
        }
        rbt_rating_share_free(&share);
    }
}

static void order_is_random_and_depends_on_the_seed_alone(void **state)
{
    struct rbt_rating_share a = {0};
    struct rbt_rating_share b = {0};
    struct rbt_rating_share c = {0};
    assert_ok(rbt_rating_share_take(*state, 3, 1, WORKERS, &a));
    assert_ok(rbt_rating_share_take(*state, 3, 1, WORKERS, &b));
    assert_ok(rbt_rating_share_take(*state, 4, 0, 1, &c));
    assert_int_equal(a.count, b.count);
    assert_memory_equal(a.values, b.values, a.count * sizeof *a.values);
    size_t rises = 0; /* half of the neighbours, give or take 5 standard deviations (20) */
    for (size_t i = 1; i < c.count; i++) {
        rises += c.values[i] > c.values[i - 1];
    }
    assert_in_range(rises, COUNT / 2 - 100, COUNT / 2 + 100);
    rbt_rating_share_free(&a);
    rbt_rating_share_free(&b);
    rbt_rating_share_free(&c);
}

static void more_workers_than_users_leaves_some_without(void **state)
{
    size_t total = 0;
    for (uint32_t index = 0; index < USERS + 50; index++) {
        struct rbt_rating_share share = {0};
        assert_ok(rbt_rating_share_take(*state, 3, index, USERS + 50, &share));
        assert_true(share.user_count <= 1);
        total += share.count;
        rbt_rating_share_free(&share);
    }
    assert_int_equal(total, COUNT);
}

static void taking_survives_every_failed_allocation(void **state)
{
    const size_t live = rbt_alloc_live();
    for (unsigned nth = 1;; nth++) { /* ends when nothing fails any more */
        struct rbt_rating_share share = {0};
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_rating_share_take(*state, 3, 0, 2, &share);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_rating_share_free(&share);
            assert_true(nth > 15);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(share.users);
        assert_int_equal(rbt_alloc_live(), live);
    }
    assert_int_equal(rbt_alloc_live(), live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_hold_every_rating_once),
        cmocka_unit_test(users_are_on_one_worker_and_loads_are_level),
        cmocka_unit_test(order_is_random_and_depends_on_the_seed_alone),
        cmocka_unit_test(more_workers_than_users_leaves_some_without),
        cmocka_unit_test(taking_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("data/rating_share", tests, set_up, tear_down);
}
