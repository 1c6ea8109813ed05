/* client/inbox_test.c - blocks from other threads come in order, and can be waited for. */
#include "base/test.h"

#include <poll.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/error.h"
#include "client/inbox.h"

enum {
    COUNT = 100,
    ROOM = 16, /* blocks that an inbox has room for at first */
};

static int tear_down(void **state)
{
    (void)state;
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static bool is_readable(const struct rbt_inbox *inbox)
{
    struct pollfd one = {.fd = inbox->event, .events = POLLIN};
    return poll(&one, 1, 0) == 1;
}

static void deliver(struct rbt_inbox *inbox, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct rbt_block *block = rbt_block_create(8);
        if (block != NULL) { /* or it is missed when it is taken */
            block->bytes = first + i;
            rbt_inbox_deliver(inbox, block);
        }
    }
}

static void expect(struct rbt_inbox *inbox, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct rbt_block *block = NULL;
        assert_false(rbt_inbox_is_empty(inbox));
        assert_ok(rbt_inbox_take(inbox, &block));
        assert_int_equal(block->bytes, first + i);
        assert_int_equal(block->references, 1);
        rbt_block_unref(block);
    }
}

static void expect_nothing(struct rbt_inbox *inbox)
{
    struct rbt_block *block = NULL;
    assert_int_equal(rbt_inbox_take(inbox, &block), RBT_E_BUSY);
    assert_null(block);
    assert_true(rbt_inbox_is_empty(inbox));
    assert_false(is_readable(inbox));
}

static void *deliver_all(void *argument)
{
    deliver(argument, 0, COUNT);
    return NULL;
}

static void another_thread_makes_it_readable(void **state)
{
    (void)state;
    struct rbt_inbox inbox;
    assert_ok(rbt_inbox_init(&inbox));
    expect_nothing(&inbox);
    for (int round = 0; round < 2; round++) {
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, deliver_all, &inbox), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(is_readable(&inbox));
        expect(&inbox, 0, COUNT);
        expect_nothing(&inbox);
    }
    rbt_inbox_deinit(&inbox);
}

/* Who delivers to itself looks into the inbox anyway: that needs no system call. */
static void the_owner_is_not_woken_by_itself(void **state)
{
    (void)state;
    struct rbt_inbox inbox;
    assert_ok(rbt_inbox_init(&inbox));
    deliver(&inbox, 0, 3);
    assert_false(is_readable(&inbox));
    expect(&inbox, 0, 2);
    deliver(&inbox, 3, 2);
    expect(&inbox, 2, 3);
    expect_nothing(&inbox);
    rbt_inbox_deinit(&inbox);
}

/* Also when the oldest is anywhere in it. */
static void an_inbox_that_has_grown_needs_no_memory(void **state)
{
    (void)state;
    struct rbt_inbox inbox;
    assert_ok(rbt_inbox_init(&inbox));
    deliver(&inbox, 0, ROOM);
    expect(&inbox, 0, 5);
    deliver(&inbox, ROOM, ROOM);
    expect(&inbox, 5, 2 * ROOM - 5);
    const uint64_t calls = rbt_alloc_calls();
    for (int round = 0; round < COUNT; round++) {
        deliver(&inbox, 0, ROOM);
        expect(&inbox, 0, ROOM);
    }
    assert_int_equal(rbt_alloc_calls(), calls);
    rbt_inbox_deinit(&inbox);
}

static void what_nobody_took_is_freed(void **state)
{
    (void)state;
    struct rbt_inbox inbox;
    assert_ok(rbt_inbox_init(&inbox));
    deliver(&inbox, 0, 3);
    rbt_inbox_deinit(&inbox);
}

static void a_block_that_is_lost_is_told(void **state)
{
    (void)state;
    struct rbt_inbox inbox;
    assert_ok(rbt_inbox_init(&inbox));
    deliver(&inbox, 0, ROOM);
    rbt_alloc_fail_nth(2); /* a block, and then room for more of them */
    deliver(&inbox, ROOM, 1);
    rbt_alloc_fail_nth(0);
    struct rbt_block *block = NULL;
    assert_false(rbt_inbox_is_empty(&inbox));
    assert_fails(rbt_inbox_take(&inbox, &block), RBT_E_NOMEM, "no memory");
    assert_fails(rbt_inbox_take(&inbox, &block), RBT_E_NOMEM, "no memory");
    rbt_inbox_deinit(&inbox);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(another_thread_makes_it_readable, tear_down),
        cmocka_unit_test_teardown(the_owner_is_not_woken_by_itself, tear_down),
        cmocka_unit_test_teardown(an_inbox_that_has_grown_needs_no_memory, tear_down),
        cmocka_unit_test_teardown(what_nobody_took_is_freed, tear_down),
        cmocka_unit_test_teardown(a_block_that_is_lost_is_told, tear_down),
    };
    return cmocka_run_group_tests_name("client/inbox", tests, NULL, NULL);
}
