/* client/keylist_test.c - one test per promise of keylist.c. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "client/keylist.h"

enum { COUNT = 500 };

static uint64_t keys[COUNT];
static size_t live; /* blocks of the placements */

/* Of every number of shards that is used here, made once. */
static struct rbt_placement_map *placements[257];

static const struct rbt_placement_map *among(uint32_t shards)
{
    return placements[shards];
}

static const uint32_t shard_counts[] = {1, 2, 3, 5, 8, 256};
enum { SHARD_COUNTS = sizeof shard_counts / sizeof shard_counts[0] };

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHARD_COUNTS; i++) {
        rbt_placement_destroy(placements[shard_counts[i]]);
    }
    return rbt_alloc_live() == 0 ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHARD_COUNTS; i++) {
        const struct rbt_placement_options options = {.shard_count = shard_counts[i]};
        if (rbt_placement_create(&options, &placements[shard_counts[i]]) != RBT_OK) {
            return -1;
        }
    }
    live = rbt_alloc_live();
    for (uint64_t i = 0; i < COUNT; i++) {
        keys[i] = i * i * 7919;
    }
    keys[COUNT - 1] = UINT64_MAX;
    return 0;
}

static void every_key_is_dealt_to_its_shard_once_and_in_order(void **state)
{
    (void)state;
    for (size_t s = 0; s < SHARD_COUNTS; s++) {
        struct rbt_keylist *list = NULL;
        size_t total = 0;
        assert_ok(rbt_keylist_create(among(shard_counts[s]), &list));
        assert_ok(rbt_keylist_assign(list, keys, COUNT));
        for (uint32_t shard = 0; shard < shard_counts[s]; shard++) {
            const struct rbt_batch batch = rbt_keylist_batch(list, shard);
            for (size_t i = 0; i < batch.count; i++) {
                const size_t at = rbt_batch_position(&batch, i);
                assert_int_equal(batch.keys[at], keys[at]);
                assert_int_equal(rbt_placement_shard(among(shard_counts[s]), keys[at]), shard);
                assert_true(i == 0 || at > rbt_batch_position(&batch, i - 1));
            }
            total += batch.count;
        }
        assert_int_equal(total, COUNT);
        rbt_keylist_unref(list);
    }
    assert_int_equal(rbt_alloc_live(), live);
}

/* 5 standard deviations of a binomial with n = 10^5 and p = 1/8 are 523. */
static void shards_get_equal_shares_of_consecutive_keys(void **state)
{
    (void)state;
    int counts[8] = {0};
    for (uint64_t key = 0; key < 100000; key++) {
        counts[rbt_placement_shard(among(8), key)]++;
    }
    for (size_t i = 0; i < 8; i++) {
        assert_in_range(counts[i], 12500 - 523, 12500 + 523);
    }
}

static void slots_are_unknown_after_assign_and_absent_unless_asked_for(void **state)
{
    (void)state;
    struct rbt_keylist *list = NULL;
    assert_ok(rbt_keylist_create(among(2), &list));
    assert_ok(rbt_keylist_assign(list, keys, COUNT));
    struct rbt_batch batch = rbt_keylist_batch(list, 1);
    batch.slots[0] = 3;
    *batch.slots_complete = 9;
    assert_ok(rbt_keylist_assign(list, keys, COUNT));
    batch = rbt_keylist_batch(list, 1);
    assert_int_equal(batch.slots[0], RBT_SLOT_NONE);
    assert_int_equal(*batch.slots_complete, 0);
    rbt_keylist_unref(list);
}

static void a_shorter_list_uses_the_same_memory(void **state)
{
    (void)state;
    struct rbt_keylist *list = NULL;
    assert_ok(rbt_keylist_create(among(3), &list));
    assert_ok(rbt_keylist_assign(list, keys, COUNT));
    const uint64_t calls = rbt_alloc_calls();
    assert_ok(rbt_keylist_assign(list, keys + 7, 10));
    assert_ok(rbt_keylist_assign(list, NULL, 0));
    assert_int_equal(rbt_keylist_batch(list, 2).count, 0);
    assert_ok(rbt_keylist_assign(list, keys, COUNT));
    assert_int_equal(rbt_alloc_calls(), calls);
    rbt_keylist_unref(list);
}

static void a_list_lives_as_long_as_its_last_reference(void **state)
{
    (void)state;
    struct rbt_keylist *list = NULL;
    assert_ok(rbt_keylist_create(among(1), &list));
    list->references++;
    rbt_keylist_unref(list);
    assert_ok(rbt_keylist_assign(list, keys, 3));
    rbt_keylist_unref(list);
    rbt_keylist_unref(NULL);
    assert_int_equal(rbt_alloc_live(), live);
}

static void after_a_failed_assign_the_list_is_empty_and_can_be_used_again(void **state)
{
    (void)state;
    struct rbt_keylist *list = NULL;
    assert_ok(rbt_keylist_create(among(2), &list));
    for (unsigned nth = 1; nth <= 3; nth++) {
        assert_ok(rbt_keylist_assign(list, keys, 5 * nth));
        rbt_alloc_fail_nth(nth);
        assert_int_equal(rbt_keylist_assign(list, keys, COUNT), RBT_E_NOMEM);
        rbt_alloc_fail_nth(0);
        for (int round = 0; round < 2; round++) { /* as it is, and with no keys */
            assert_int_equal(list->count, 0);
            const struct rbt_batch batch = rbt_keylist_batch(list, 1);
            assert_int_equal(batch.count, 0);
            assert_int_equal(rbt_keylist_batch(list, 0).count, 0);
            assert_int_equal(batch.slots == NULL, batch.slots_complete == NULL);
            assert_ok(rbt_keylist_assign(list, keys, 0));
        }
    }
    assert_ok(rbt_keylist_assign(list, keys, COUNT));
    rbt_keylist_unref(list);
    assert_int_equal(rbt_alloc_live(), live);
}

static void create_survives_every_failed_allocation(void **state)
{
    (void)state;
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        struct rbt_keylist *list = NULL;
        rbt_alloc_fail_nth(nth);
        st = rbt_keylist_create(among(2), &list);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        rbt_keylist_unref(list);
        assert_int_equal(rbt_alloc_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_is_dealt_to_its_shard_once_and_in_order),
        cmocka_unit_test(shards_get_equal_shares_of_consecutive_keys),
        cmocka_unit_test(slots_are_unknown_after_assign_and_absent_unless_asked_for),
        cmocka_unit_test(a_shorter_list_uses_the_same_memory),
        cmocka_unit_test(a_list_lives_as_long_as_its_last_reference),
        cmocka_unit_test(after_a_failed_assign_the_list_is_empty_and_can_be_used_again),
        cmocka_unit_test(create_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
