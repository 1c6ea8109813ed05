/* data/share_test.c - the shares together are the examples, each once, and depend on the seed only.
 *
 * The fixture has examples whose label is their number, with 0 to 4 features that follow from it.
 */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/thread.h"
#include "data/examples.h"

enum { COUNT = 1003 };

static uint64_t key_of(size_t example, size_t k)
{
    return (example * 7 % 500) * 10 + k;
}

static int set_up(void **state)
{
    struct rbt_examples *examples = rbt_calloc(1, sizeof *examples);
    examples->count = COUNT;
    examples->offsets = rbt_calloc(COUNT + 1, sizeof *examples->offsets);
    examples->labels = rbt_calloc(COUNT, sizeof *examples->labels);
    examples->keys = rbt_calloc(COUNT * 4, sizeof *examples->keys);
    examples->values = rbt_calloc(COUNT * 4, sizeof *examples->values);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t next = examples->offsets[i];
        for (size_t k = 0; k < i % 5; k++) {
            examples->keys[next] = key_of(i, k);
            examples->values[next] = (float)(i + k);
            next++;
        }
        examples->labels[i] = (float)i;
        examples->offsets[i + 1] = next;
    }
    *state = examples;
    return 0;
}

static int tear_down(void **state)
{
    rbt_examples_free(*state);
    rbt_free(*state);
    return 0;
}

/* The share holds the example with this label, feature by feature. */
static void assert_holds(const struct rbt_share *share, size_t at)
{
    const size_t example = (size_t)share->labels[at];
    assert_int_equal(share->offsets[at + 1] - share->offsets[at], example % 5);
    for (size_t k = 0; k < example % 5; k++) {
        const uint64_t place = share->offsets[at] + k;
        assert_true(share->indices[place] < share->key_count);
        assert_int_equal(share->keys[share->indices[place]], key_of(example, k));
        assert_true(share->values[place] == (float)(example + k));
    }
}

static void shares_hold_every_example_once(void **state)
{
    for (uint32_t count = 1; count <= 8; count++) {
        size_t seen[COUNT] = {0};
        for (uint32_t index = 0; index < count; index++) {
            struct rbt_share share = {0};
            assert_ok(rbt_share_take(*state, 5, index, count, &share));
            assert_true(share.count == COUNT / count || share.count == COUNT / count + 1);
            for (size_t i = 0; i < share.count; i++) {
                assert_holds(&share, i);
                seen[(size_t)share.labels[i]]++;
            }
            for (size_t i = 1; i < share.key_count; i++) {
                assert_true(share.keys[i - 1] < share.keys[i]);
            }
            rbt_share_free(&share);
        }
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(seen[i], 1);
        }
    }
}

static void order_depends_on_the_seed_alone(void **state)
{
    struct rbt_share a = {0};
    struct rbt_share b = {0};
    struct rbt_share c = {0};
    assert_ok(rbt_share_take(*state, 5, 1, 3, &a));
    assert_ok(rbt_share_take(*state, 5, 1, 3, &b));
    assert_ok(rbt_share_take(*state, 6, 1, 3, &c));
    assert_memory_equal(a.labels, b.labels, a.count * sizeof *a.labels);
    assert_memory_not_equal(a.labels, c.labels, a.count * sizeof *a.labels);
    rbt_share_free(&a);
    rbt_share_free(&b);
    rbt_share_free(&c);
}

static void more_workers_than_examples_leaves_some_without(void **state)
{
    size_t total = 0;
    for (uint32_t index = 0; index < COUNT + 5; index += 1) {
        struct rbt_share share = {0};
        assert_ok(rbt_share_take(*state, 5, index, COUNT + 5, &share));
        assert_true(share.count <= 1);
        total += share.count;
        rbt_share_free(&share);
    }
    assert_int_equal(total, COUNT);
}

static rbt_status take_one(void *argument, uint32_t index)
{
    struct rbt_share share = {0};
    const rbt_status st = rbt_share_take(argument, 5, index, 4, &share);
    rbt_share_free(&share);
    return st;
}

static void shares_may_be_taken_at_the_same_time(void **state)
{
    assert_ok(rbt_thread_run(4, take_one, *state));
}

static void taking_survives_every_failed_allocation(void **state)
{
    const size_t live = rbt_alloc_live();
    for (unsigned nth = 1;; nth++) { /* ends when nothing fails any more */
        struct rbt_share share = {0};
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_share_take(*state, 5, 0, 2, &share);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_share_free(&share);
            assert_true(nth > 6);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(share.labels);
        assert_int_equal(rbt_alloc_live(), live);
    }
    assert_int_equal(rbt_alloc_live(), live);
}

/* Keys that are far apart are numbered in another way, with the same result. */
static void far_keys_are_numbered_alike(void **state)
{
    struct rbt_examples *examples = *state;
    const uint64_t nonzeros = examples->offsets[COUNT];
    struct rbt_share near = {0};
    struct rbt_share far = {0};
    assert_ok(rbt_share_take(examples, 5, 1, 3, &near));
    for (uint64_t k = 0; k < nonzeros; k++) {
        examples->keys[k] <<= 40;
    }
    assert_ok(rbt_share_take(examples, 5, 1, 3, &far));
    const uint64_t count = near.offsets[near.count];
    assert_int_equal(far.offsets[far.count], count);
    assert_memory_equal(far.indices, near.indices, count * sizeof *near.indices);
    assert_memory_equal(far.values, near.values, count * sizeof *near.values);
    assert_int_equal(far.key_count, near.key_count);
    for (size_t j = 0; j < near.key_count; j++) {
        assert_int_equal(far.keys[j], near.keys[j] << 40);
    }
    for (uint64_t k = 0; k < nonzeros; k++) {
        examples->keys[k] >>= 40;
    }
    rbt_share_free(&near);
    rbt_share_free(&far);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_hold_every_example_once),
        cmocka_unit_test(far_keys_are_numbered_alike),
        cmocka_unit_test(order_depends_on_the_seed_alone),
        cmocka_unit_test(more_workers_than_examples_leaves_some_without),
        cmocka_unit_test(shares_may_be_taken_at_the_same_time),
        cmocka_unit_test(taking_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests_name("data/share", tests, set_up, tear_down);
}
