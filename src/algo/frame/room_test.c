/* algo/frame/room_test.c - arrays of a room come zeroed and go together, also if one is missing. */
#include "algo/frame/room.h"

#include "base/alloc.h"
#include "base/test.h"

static void arrays_are_freed_together(void **state)
{
    (void)state;
    struct rbt_room room = {0};
    const size_t live = rbt_alloc_live();
    const double *first = rbt_room_take(&room, 100, sizeof *first);
    const char *empty = rbt_room_take(&room, 0, sizeof *empty);
    assert_true(first != NULL && empty != NULL && !room.is_short);
    assert_true(first[0] == 0.0 && first[99] == 0.0);
    assert_int_equal(rbt_alloc_live(), live + 2);
    rbt_room_free(&room);
    assert_int_equal(rbt_alloc_live(), live);
    assert_int_equal(room.count, 0);
    rbt_room_free(&room); /* an empty one */
}

static void a_missing_array_is_noticed(void **state)
{
    (void)state;
    struct rbt_room room = {0};
    const size_t live = rbt_alloc_live();
    rbt_alloc_fail_nth(2);
    assert_non_null(rbt_room_take(&room, 10, 8));
    assert_null(rbt_room_take(&room, 10, 8));
    rbt_alloc_fail_nth(0);
    assert_non_null(rbt_room_take(&room, 10, 8));
    assert_true(room.is_short);
    rbt_room_free(&room);
    assert_int_equal(rbt_alloc_live(), live);
    assert_false(room.is_short);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_are_freed_together),
        cmocka_unit_test(a_missing_array_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
