/* proto/lists_test.c - lists of keys: who refers to them, and what is remembered with them. */
#include "base/test.h"

#include "base/alloc.h"
#include "proto/lists.h"
#include "wire/rows.h"

static struct rbt_list *make(uint64_t first, uint32_t count, uint64_t name)
{
    struct rbt_list *list = NULL;
    assert_ok(rbt_list_create(count, &list));
    for (uint32_t i = 0; i < count; i++) {
        list->keys[i] = first + i;
    }
    list->count = count;
    list->name = name;
    return list;
}

static void test_same_name_is_one_list(void **state)
{
    (void)state;
    struct rbt_lists lists;
    assert_ok(rbt_lists_init(&lists));
    struct rbt_list *first = rbt_lists_add(&lists, make(10, 3, 7));
    assert_non_null(first);
    struct rbt_list *again = rbt_lists_add(&lists, make(10, 3, 7));
    assert_ptr_equal(again, first);
    assert_int_equal(first->references, 3); /* the lists', and two of ours */
    assert_ptr_equal(rbt_lists_find(&lists, 7), first);
    assert_null(rbt_lists_find(&lists, 8));
    rbt_list_unref(first);
    rbt_list_unref(again);
    rbt_lists_deinit(&lists);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void test_sweep_keeps_what_is_used(void **state)
{
    (void)state;
    struct rbt_lists lists;
    struct rbt_list *mine[100];
    assert_ok(rbt_lists_init(&lists));
    for (uint32_t i = 0; i < 100; i++) {
        mine[i] = rbt_lists_add(&lists, make(i, 2, i + 1));
    }
    for (uint32_t i = 0; i < 100; i++) {
        if (i % 3 != 0) {
            rbt_list_unref(mine[i]);
        }
    }
    rbt_lists_sweep(&lists);
    assert_int_equal(lists.count, 34);
    for (uint32_t i = 0; i < 100; i++) {
        assert_ptr_equal(rbt_lists_find(&lists, i + 1), i % 3 == 0 ? mine[i] : NULL);
    }
    struct rbt_list *fresh = rbt_lists_add(&lists, make(5, 2, 2)); /* a name that was used before */
    assert_ptr_equal(rbt_lists_find(&lists, 2), fresh);
    rbt_list_unref(fresh);
    for (uint32_t i = 0; i < 100; i += 3) {
        rbt_list_unref(mine[i]);
    }
    rbt_lists_sweep(&lists);
    assert_int_equal(lists.count, 0);
    rbt_lists_deinit(&lists);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void test_slots_belong_to_a_table(void **state)
{
    (void)state;
    struct rbt_list *named = make(10, 3, 7);
    const struct rbt_batch of_zero = rbt_list_batch(named, 0);
    const struct rbt_batch of_five = rbt_list_batch(named, 5);
    assert_ptr_equal(of_zero.keys, named->keys);
    assert_int_equal(of_zero.count, 3);
    assert_int_equal(of_five.table, 5);
    assert_ptr_not_equal(of_zero.slots, of_five.slots);
    assert_int_equal(of_zero.slots[2], RBT_SLOT_NONE);
    of_zero.slots[1] = 4;
    *of_zero.slots_complete = 9;
    const struct rbt_batch again = rbt_list_batch(named, 0);
    assert_int_equal(again.slots[1], 4);
    assert_int_equal(*again.slots_complete, 9);
    rbt_list_unref(named);
    struct rbt_list *scratch = make(10, 3, 0);
    assert_null(rbt_list_batch(scratch, 0).slots); /* its keys will be others */
    rbt_list_unref(scratch);
    rbt_list_unref(NULL);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void test_same_keys(void **state)
{
    (void)state;
    struct rbt_list *a = make(10, 3, 7);
    struct rbt_list *b = make(10, 3, 7);
    struct rbt_list *shorter = make(10, 2, 7);
    assert_true(rbt_list_is_same(a, b));
    assert_false(rbt_list_is_same(a, shorter));
    b->keys[2] = 99;
    assert_false(rbt_list_is_same(a, b));
    rbt_list_unref(a);
    rbt_list_unref(b);
    rbt_list_unref(shorter);
}

static void test_without_memory(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth < 12; nth++) {
        struct rbt_lists lists;
        struct rbt_list *list = NULL;
        rbt_alloc_fail_nth(nth);
        rbt_status st = rbt_lists_init(&lists);
        if (st == RBT_OK) {
            st = rbt_list_create(4, &list);
            if (st == RBT_OK) {
                list->name = 1;
                list->count = 4;
                list = rbt_lists_add(&lists, list);
            }
            if (list != NULL) {
                (void)rbt_list_batch(list, 0); /* without slots, if need be */
            }
            rbt_list_unref(list);
            rbt_lists_deinit(&lists);
        }
        rbt_alloc_fail_nth(0);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest list[] = {
        cmocka_unit_test(test_same_name_is_one_list),
        cmocka_unit_test(test_sweep_keeps_what_is_used),
        cmocka_unit_test(test_slots_belong_to_a_table),
        cmocka_unit_test(test_same_keys),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
