/* proto/numbering_test.c - numbers for processes, in whatever order they come. */
#include "base/test.h"

#include "proto/numbering.h"

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof *(array)))

static void any_takes_what_is_free(void **state)
{
    (void)state;
    struct rbt_numbering_entry entries[] = {{-1, 1, 0}, {0, 1, 0}, {-1, 1, 0}, {2, 1, 0}};
    struct rbt_numbering_shape shape;
    assert_ok(rbt_numbering_place(entries, COUNT(entries), 4, "server", &shape));
    assert_true(shape.is_complete);
    assert_int_equal(shape.process_count, 4);
    assert_int_equal(entries[0].index, 1);
    assert_int_equal(entries[1].index, 0);
    assert_int_equal(entries[2].index, 3);
    assert_int_equal(entries[3].index, 2);
}

static void the_smaller_process_is_the_last(void **state)
{
    (void)state;
    struct rbt_numbering_entry entries[] = {{-1, 1, 0}, {-1, 2, 0}, {-1, 2, 0}};
    struct rbt_numbering_shape shape;
    assert_ok(rbt_numbering_place(entries, 1, 5, "worker", &shape));
    assert_int_equal(shape.process_count, 5); /* as far as is known by now */
    assert_false(shape.is_complete);
    assert_ok(rbt_numbering_place(entries, 3, 5, "worker", &shape));
    assert_true(shape.is_complete);
    assert_int_equal(shape.process_count, 3);
    assert_int_equal(shape.process_size, 2);
    assert_int_equal(entries[0].index, 2);
    assert_int_equal(entries[1].index, 0);
    assert_int_equal(entries[2].index, 1);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct rbt_numbering_shape shape;
    struct rbt_numbering_entry sizes[] = {{-1, 2, 0}, {-1, 1, 0}};
    assert_fails(rbt_numbering_place(sizes, 2, 4, "worker", &shape), RBT_E_INVALID,
                 "do not add up");
    struct rbt_numbering_entry two_small[] = {{-1, 3, 0}, {-1, 2, 0}, {-1, 2, 0}};
    assert_fails(rbt_numbering_place(two_small, 3, 8, "worker", &shape), RBT_E_INVALID, "add up");
    struct rbt_numbering_entry too_many[] = {{-1, 1, 0}, {-1, 1, 0}, {-1, 1, 0}};
    assert_fails(rbt_numbering_place(too_many, 3, 2, "worker", &shape), RBT_E_INVALID,
                 "2 of the 2 workers have already joined");
    struct rbt_numbering_entry twice[] = {{1, 1, 0}, {1, 1, 0}};
    assert_fails(rbt_numbering_place(twice, 2, 2, "worker", &shape), RBT_E_INVALID,
                 "worker/1 has already joined");
    struct rbt_numbering_entry beyond[] = {{2, 1, 0}};
    assert_fails(rbt_numbering_place(beyond, 1, 2, "server", &shape), RBT_E_INVALID,
                 "server/2 does not exist");
    struct rbt_numbering_entry small_first[] = {{0, 1, 0}, {-1, 2, 0}};
    assert_fails(rbt_numbering_place(small_first, 2, 3, "worker", &shape), RBT_E_INVALID,
                 "worker/0 of 2 has 1 workers instead of 2");
}

static void the_missing_are_named(void **state)
{
    (void)state;
    struct rbt_numbering_entry entries[] = {{1, 1, 1}};
    struct rbt_numbering_shape shape = {.process_size = 1, .process_count = 3};
    struct rbt_text_buffer text = {0};
    rbt_numbering_missing(entries, 1, &shape, "worker", &text);
    assert_string_equal(rbt_text_data(&text), "worker/0, worker/2");
    rbt_text_clear(&text);
    shape.process_count = 20;
    rbt_numbering_missing(entries, 0, &shape, "w", &text);
    assert_string_equal(rbt_text_data(&text), "w/0, w/1, w/2, w/3, w/4, w/5, w/6, w/7 and 12 more");
    rbt_text_deinit(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_takes_what_is_free),
        cmocka_unit_test(the_smaller_process_is_the_last),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(the_missing_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
