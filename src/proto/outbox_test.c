/* proto/outbox_test.c - what is written down is done in order, and nothing is lost or kept. */
#include "proto/outbox.h"

#include "base/alloc.h"
#include "base/test.h"

static void items_keep_their_order_and_a_reference(void **state)
{
    struct rbt_outbox outbox = {0};
    struct rbt_block *block = rbt_block_create(8);
    (void)state;
    assert_non_null(block);
    assert_int_equal(rbt_outbox_connect(&outbox, 3), RBT_OK);
    assert_int_equal(rbt_outbox_send(&outbox, 4, block), RBT_OK);
    assert_int_equal(rbt_outbox_cut(&outbox, 5), RBT_OK);
    rbt_block_unref(block);
    assert_int_equal(outbox.count, 3);
    assert_int_equal(outbox.items[0].kind, RBT_OUT_CONNECT);
    assert_int_equal(outbox.items[0].port, 3);
    assert_int_equal(outbox.items[1].kind, RBT_OUT_SEND);
    assert_int_equal(outbox.items[1].port, 4);
    assert_ptr_equal(outbox.items[1].block, block);
    assert_int_equal(block->references, 1); /* it is still there */
    assert_int_equal(outbox.items[2].kind, RBT_OUT_CUT);
    assert_int_equal(outbox.items[2].port, 5);
    rbt_outbox_deinit(&outbox);
}

static void blocks_that_were_not_sent_are_freed(void **state)
{
    struct rbt_outbox outbox = {0};
    struct rbt_block *block = rbt_block_create(8);
    (void)state;
    assert_non_null(block);
    assert_int_equal(rbt_outbox_send(&outbox, 0, block), RBT_OK);
    rbt_block_unref(block);
    rbt_outbox_deinit(&outbox);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
}

static void room_stays_when_items_are_done(void **state)
{
    struct rbt_outbox outbox = {0};
    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(rbt_outbox_connect(&outbox, i), RBT_OK);
    }
    const uint32_t room = outbox.max;
    rbt_outbox_clear(&outbox);
    rbt_alloc_fail_nth(1); /* no allocation may be needed now */
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(rbt_outbox_connect(&outbox, i), RBT_OK);
    }
    rbt_alloc_fail_nth(0);
    assert_int_equal(outbox.max, room);
    rbt_outbox_deinit(&outbox);
}

static void without_memory_nothing_is_added(void **state)
{
    struct rbt_outbox outbox = {0};
    struct rbt_block *block = rbt_block_create(8);
    (void)state;
    assert_non_null(block);
    rbt_alloc_fail_nth(1);
    assert_int_equal(rbt_outbox_send(&outbox, 0, block), RBT_E_NOMEM);
    rbt_alloc_fail_nth(0);
    assert_int_equal(outbox.count, 0);
    rbt_block_unref(block); /* the only reference: a second one would be a leak */
    rbt_outbox_deinit(&outbox);
    rbt_block_trim();
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_keep_their_order_and_a_reference),
        cmocka_unit_test(blocks_that_were_not_sent_are_freed),
        cmocka_unit_test(room_stays_when_items_are_done),
        cmocka_unit_test(without_memory_nothing_is_added),
    };
    return cmocka_run_group_tests_name("proto/outbox", tests, NULL, NULL);
}
