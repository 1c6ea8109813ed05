/* store/index_test.c - one test per promise of index.c. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/rng.h"
#include "store/index.h"

enum { SPACE = 8192, KEYS_MAX = 6000 };

/* What rows.c does: a key and its slot. */
static void add(struct rbt_index *index, uint64_t *keys, uint64_t key)
{
    assert_ok(rbt_index_reserve(index, keys, 1));
    const uint32_t slot = rbt_index_add(index, key);
    keys[slot] = key;
}

static void keys_at_both_ends_are_keys_like_others(void **state)
{
    (void)state;
    struct rbt_index index = {0};
    uint64_t keys[2];
    assert_int_equal(rbt_index_find(&index, NULL, 0), RBT_SLOT_NONE);
    add(&index, keys, UINT64_MAX);
    assert_int_equal(rbt_index_find(&index, keys, 0), RBT_SLOT_NONE);
    add(&index, keys, 0);
    assert_int_equal(rbt_index_find(&index, keys, UINT64_MAX), 0);
    assert_int_equal(rbt_index_find(&index, keys, 0), 1);
    assert_int_equal(rbt_index_find(&index, keys, 1), RBT_SLOT_NONE);
    rbt_index_deinit(&index);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* The key with this hash: the inverse of rbt_hash_key(). */
static uint64_t unhash(uint64_t z)
{
    z ^= z >> 31 ^ z >> 62;
    z *= 0x319642b2d24d8ec3U;
    z ^= z >> 27 ^ z >> 54;
    z *= 0x96de1b173f119089U;
    return z ^ z >> 30 ^ z >> 60;
}

/* Keys of a small space spread in several ways; the last have few tags and few lines, so that lines
 * overflow, also from the last to the first, and tags say nothing. */
static uint64_t spread(size_t way, uint64_t at)
{
    static const uint64_t factors[] = {1, 1ULL << 51, 0x9e3779b97f4a7c15U};
    if (way < 3) {
        return at * factors[way];
    }
    return unhash((at / 4) << 33 | (at % 2 << 32) | (at % 4 < 2 ? UINT32_MAX : 0x7fffffffU));
}

static void it_agrees_with_an_array_while_it_grows(void **state)
{
    (void)state;
    for (uint64_t key = 1; key < 1000; key += 7) {
        assert_int_equal(rbt_hash_key(unhash(key * 0x123456789abcdefU)), key * 0x123456789abcdefU);
    }
    for (size_t way = 0; way < 4; way++) {
        uint32_t model[SPACE];
        uint64_t wanted[SPACE];
        uint32_t slots[SPACE];
        uint64_t keys[KEYS_MAX];
        struct rbt_index index = {0};
        struct rbt_rng rng;
        rbt_rng_init(&rng, 1, way, 0);
        memset(model, 0xff, sizeof model);
        for (uint32_t i = 0; i < KEYS_MAX; i++) {
            const uint64_t at = rbt_rng_below(&rng, SPACE);
            if (model[at] == RBT_SLOT_NONE) {
                model[at] = (uint32_t)index.count;
                add(&index, keys, spread(way, at));
            }
        }
        for (uint64_t i = 0; i < SPACE; i++) {
            wanted[i] = spread(way, i);
            assert_int_equal(rbt_index_find(&index, keys, wanted[i]), model[i]);
        }
        rbt_index_find_batch(&index, keys, wanted, SPACE, slots);
        assert_memory_equal(slots, model, sizeof model);
        rbt_index_deinit(&index);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void batches_of_any_length_find_what_single_look_ups_find(void **state)
{
    (void)state;
    struct rbt_index index = {0};
    uint64_t wanted[100];
    uint64_t keys[100];
    uint32_t slots[101];
    for (uint32_t i = 0; i < 100; i++) {
        wanted[i] = i * 77;
    }
    rbt_index_find_batch(&index, NULL, wanted, 100, slots);
    assert_int_equal(slots[99], RBT_SLOT_NONE); /* in an empty one */
    for (uint32_t i = 1; i < 100; i += 2) {
        add(&index, keys, wanted[i]);
    }
    for (size_t count = 0; count <= 100; count++) {
        slots[count] = 12345;
        rbt_index_find_batch(&index, keys, wanted, count, slots);
        assert_int_equal(slots[count], 12345); /* nothing is written behind the end */
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(slots[i], i % 2 == 0 ? RBT_SLOT_NONE : i / 2);
        }
    }
    rbt_index_deinit(&index);
}

static void a_reserve_is_enough_for_all_keys(void **state)
{
    (void)state;
    struct rbt_index index = {0};
    assert_ok(rbt_index_reserve(&index, NULL, 5000));
    const uint64_t calls = rbt_alloc_calls();
    for (uint32_t i = 0; i < 5000; i++) {
        assert_int_equal(rbt_index_add(&index, i), i);
    }
    assert_int_equal(rbt_alloc_calls(), calls);
    rbt_index_deinit(&index);
}

/* Of the 24 that a row of width 1 may take, key and value are 12. */
static void it_takes_at_most_twelve_bytes_per_key(void **state)
{
    (void)state;
    enum { MANY = 300000 };
    struct rbt_index index = {0};
    uint64_t *keys = rbt_calloc(MANY, sizeof *keys);
    assert_non_null(keys);
    const size_t before = rbt_alloc_live_bytes();
    for (uint64_t i = 0; i < MANY; i++) {
        add(&index, keys, i * i);
        assert_true(i < 1000 || rbt_alloc_live_bytes() - before <= (i + 1) * 12);
    }
    rbt_index_deinit(&index);
    const size_t empty = rbt_alloc_live_bytes();
    assert_ok(rbt_index_reserve(&index, NULL, MANY)); /* known beforehand: hardly more than 9 */
    assert_true(rbt_alloc_live_bytes() - empty <= (size_t)MANY * 92 / 10);
    rbt_index_deinit(&index);
    rbt_free(keys);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void failed_allocations_change_nothing(void **state)
{
    (void)state;
    struct rbt_index index = {0};
    uint64_t keys[1];
    rbt_alloc_fail_nth(1);
    assert_int_equal(rbt_index_reserve(&index, NULL, 1), RBT_E_NOMEM);
    rbt_alloc_fail_nth(0);
    add(&index, keys, 42);
    rbt_alloc_fail_nth(1);
    assert_int_equal(rbt_index_reserve(&index, keys, 1000), RBT_E_NOMEM);
    rbt_alloc_fail_nth(0);
    assert_int_equal(rbt_index_find(&index, keys, 42), 0);
    assert_int_equal(index.count, 1);
    rbt_index_deinit(&index);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_at_both_ends_are_keys_like_others),
        cmocka_unit_test(it_agrees_with_an_array_while_it_grows),
        cmocka_unit_test(batches_of_any_length_find_what_single_look_ups_find),
        cmocka_unit_test(a_reserve_is_enough_for_all_keys),
        cmocka_unit_test(it_takes_at_most_twelve_bytes_per_key),
        cmocka_unit_test(failed_allocations_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
