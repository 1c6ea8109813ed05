/* base/block_test.c - blocks that are used again, and blocks whose end is elsewhere. */
#include "base/test.h"

#include <pthread.h>

#include "base/alloc.h"
#include "base/block.h"

enum {
    LARGE = 1 << 20,  /* bytes of a long block */
    SHORT = 32 << 10, /* most of a short one */
};

static int tear_down(void **state)
{
    (void)state;
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static struct rbt_block *create(size_t capacity)
{
    struct rbt_block *block = rbt_block_create(capacity);
    assert_non_null(block);
    assert_true(block->capacity >= capacity);
    assert_int_equal(block->references, 1);
    assert_int_equal(block->bytes, 0);
    assert_int_equal(block->sent, 0);
    assert_null(block->tail);
    return block;
}

static void a_long_block_is_used_again(void **state)
{
    (void)state;
    struct rbt_block *first = create(LARGE);
    first->bytes = 8; /* what the next user must not see */
    first->sent = 8;
    first->tail = "tail";
    rbt_block_ref(first);
    rbt_block_unref(first);
    struct rbt_block *second = create(LARGE);
    assert_ptr_not_equal(first, second); /* somebody still has the first one */
    rbt_block_unref(first);
    const uint64_t calls = rbt_alloc_calls();
    assert_ptr_equal(create(LARGE - 100), first);
    assert_int_equal(first->capacity, LARGE);
    assert_int_equal(rbt_alloc_calls(), calls);
    rbt_block_unref(first);
    rbt_block_unref(second);
}

static void a_block_far_too_large_or_too_small_is_not_used(void **state)
{
    (void)state;
    struct rbt_block *large = create(LARGE);
    rbt_block_unref(large);
    uint64_t calls = rbt_alloc_calls();
    struct rbt_block *half = create(LARGE / 2 - 1);
    assert_int_equal(rbt_alloc_calls(), calls + 1);
    struct rbt_block *longer = create(LARGE + 1);
    assert_int_equal(rbt_alloc_calls(), calls + 2);
    calls = rbt_alloc_calls();
    assert_ptr_equal(create(LARGE / 2), large);
    assert_int_equal(rbt_alloc_calls(), calls);
    rbt_block_unref(large);
    rbt_block_unref(longer);
    rbt_block_unref(half);
    assert_ptr_equal(create(LARGE * 3 / 4), large); /* the smallest that will do */
    rbt_block_unref(large);
}

/* Takes a block of every capacity up to that of short blocks, and gives it back at once. */
static void a_short_block_has_room_and_is_used_again(void **state)
{
    (void)state;
    for (size_t capacity = 0; capacity <= SHORT; capacity++) {
        struct rbt_block *block = create(capacity);
        assert_true(block->capacity <= 64 || block->capacity <= capacity * 5 / 4 + 64);
        memset(block->data, 1, block->capacity);
        rbt_block_unref(block);
        const uint64_t calls = rbt_alloc_calls();
        assert_ptr_equal(create(capacity), block); /* not one that was left by a shorter one */
        assert_int_equal(rbt_alloc_calls(), calls);
        rbt_block_unref(block);
    }
    assert_true(rbt_alloc_live() <= 33); /* so many capacities are told apart */
}

static void short_blocks_far_too_large_are_not_used(void **state)
{
    (void)state;
    struct rbt_block *block = create(4096);
    rbt_block_unref(block);
    struct rbt_block *shorter = create(1024);
    assert_ptr_not_equal(shorter, block);
    assert_ptr_equal(create(2100), block);
    rbt_block_unref(block);
    rbt_block_unref(shorter);
}

/* As many short blocks as a thread had are kept, up to some megabytes. */
static void short_blocks_are_kept_within_bounds(void **state)
{
    enum { MANY = 1000 };
    (void)state;
    struct rbt_block *blocks[MANY];
    uint64_t calls = 0;
    for (int round = 0; round < 2; round++) {
        calls = rbt_alloc_calls();
        for (size_t i = 0; i < MANY; i++) {
            blocks[i] = create(100);
        }
        calls = rbt_alloc_calls() - calls;
        for (size_t i = 0; i < MANY; i++) {
            rbt_block_unref(blocks[i]);
        }
    }
    assert_int_equal(calls, 0);
    for (size_t i = 0; i < MANY; i++) {
        blocks[i] = create(SHORT);
    }
    for (size_t i = 0; i < MANY; i++) {
        rbt_block_unref(blocks[i]);
    }
    assert_true(rbt_alloc_live_bytes() < MANY * SHORT / 4);
}

static void what_is_too_many_is_freed(void **state)
{
    enum { COUNT = 40 };
    (void)state;
    struct rbt_block *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = create(LARGE);
    }
    for (size_t i = 0; i < COUNT; i++) {
        rbt_block_unref(blocks[i]);
    }
    assert_true(rbt_alloc_live() > 1);
    assert_true(rbt_alloc_live() < COUNT);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    rbt_block_trim(); /* there is nothing any more */
    rbt_block_unref(NULL);
    assert_null(rbt_block_create(SIZE_MAX));
}

static void *leave_one(void *argument)
{
    (void)argument;
    rbt_block_unref(rbt_block_create(LARGE));
    return NULL;
}

static void a_thread_keeps_its_own_until_it_ends(void **state)
{
    (void)state;
    pthread_t thread;
    rbt_block_unref(create(LARGE));
    const size_t live = rbt_alloc_live();
    const uint64_t calls = rbt_alloc_calls();
    assert_int_equal(pthread_create(&thread, NULL, leave_one, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(rbt_alloc_calls() > calls);
    assert_int_equal(rbt_alloc_live(), live);
}

/* A block of which bytes 4 .. 9 are elsewhere. */
static struct rbt_block *create_with_tail(void)
{
    struct rbt_block *block = create(16);
    memcpy(block->data, "headxxxxxx+", 11);
    block->bytes = 10;
    block->tail = "012345";
    block->tail_at = 4;
    return block;
}

static void owning_copies_the_tail(void **state)
{
    (void)state;
    struct rbt_block *block = create_with_tail();
    block->sent = 6; /* it may be sent again: all of it is needed */
    rbt_block_own(block);
    assert_null(block->tail);
    assert_memory_equal(block->data, "head012345+", 11);
    memcpy(block->data, "HEADXXXXXX", 10);
    rbt_block_own(block); /* there is none any more */
    rbt_block_own_rest(block);
    assert_memory_equal(block->data, "HEADXXXXXX+", 11);
    rbt_block_unref(block);
}

static void owning_the_rest_copies_what_has_not_been_sent(void **state)
{
    static const struct {
        size_t sent;
        const char *data;
    } CASES[] = {{0, "head012345+"}, {3, "head012345+"}, {4, "head012345+"},
                 {5, "headx12345+"}, {9, "headxxxxx5+"}, {10, "headxxxxxx+"}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct rbt_block *block = create_with_tail();
        block->sent = CASES[i].sent;
        rbt_block_own_rest(block);
        assert_null(block->tail);
        assert_memory_equal(block->data, CASES[i].data, 11);
        rbt_block_unref(block);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_long_block_is_used_again, tear_down),
        cmocka_unit_test_teardown(a_block_far_too_large_or_too_small_is_not_used, tear_down),
        cmocka_unit_test_teardown(a_short_block_has_room_and_is_used_again, tear_down),
        cmocka_unit_test_teardown(short_blocks_far_too_large_are_not_used, tear_down),
        cmocka_unit_test_teardown(short_blocks_are_kept_within_bounds, tear_down),
        cmocka_unit_test_teardown(what_is_too_many_is_freed, tear_down),
        cmocka_unit_test_teardown(a_thread_keeps_its_own_until_it_ends, tear_down),
        cmocka_unit_test_teardown(owning_copies_the_tail, tear_down),
        cmocka_unit_test_teardown(owning_the_rest_copies_what_has_not_been_sent, tear_down),
    };
    return cmocka_run_group_tests_name("base/block", tests, NULL, NULL);
}
