/* client/stamps_test.c - stamps that copies hold, against looking at all copies. */
#include "client/stamps.h"

#include "base/test.h"

#include "base/alloc.h"
#include "base/rng.h"

static struct rbt_stamps *make(uint32_t shards)
{
    struct rbt_stamps *stamps = NULL;
    assert_int_equal(rbt_stamps_create(shards, &stamps), RBT_OK);
    return stamps;
}

static void hold(struct rbt_stamps *stamps, uint64_t *held, uint64_t stamp)
{
    assert_int_equal(rbt_stamps_reserve(stamps, 0), RBT_OK);
    rbt_stamps_note(stamps, 0, stamp);
    rbt_stamps_replace(stamps, 0, held, stamp);
    assert_int_equal(*held, stamp);
}

static void the_lowest_stamp_held_is_known(void **state)
{
    (void)state;
    struct rbt_stamps *stamps = make(2);
    uint64_t a = RBT_STAMP_NONE;
    uint64_t b = RBT_STAMP_NONE;
    assert_int_equal(rbt_stamps_least(stamps, 0, RBT_STAMP_NONE), RBT_STAMP_NONE);
    hold(stamps, &a, 5);
    hold(stamps, &b, 5);
    assert_int_equal(rbt_stamps_least(stamps, 0, RBT_STAMP_NONE), 5);
    assert_int_equal(rbt_stamps_least(stamps, 0, 5), 5); /* the other copy has it as well */
    hold(stamps, &a, 9);
    assert_int_equal(rbt_stamps_least(stamps, 0, 5), 9);
    assert_int_equal(rbt_stamps_least(stamps, 0, 9), 5);
    hold(stamps, &b, 9);
    assert_int_equal(rbt_stamps_least(stamps, 0, RBT_STAMP_NONE), 9);
    rbt_stamps_replace(stamps, 0, &a, RBT_STAMP_NONE);
    rbt_stamps_replace(stamps, 0, &b, RBT_STAMP_NONE);
    assert_int_equal(rbt_stamps_least(stamps, 0, RBT_STAMP_NONE), RBT_STAMP_NONE);
    assert_int_equal(rbt_stamps_least(stamps, 1, RBT_STAMP_NONE), RBT_STAMP_NONE);
    rbt_stamps_destroy(stamps);
}

static void an_update_names_its_copy_else_the_newest_read(void **state)
{
    (void)state;
    struct rbt_stamps *stamps = make(1);
    assert_int_equal(rbt_stamps_base(stamps, 0, RBT_STAMP_NONE), 0);
    rbt_stamps_note(stamps, 0, 7);
    rbt_stamps_note(stamps, 0, 4); /* an older copy was longer on its way */
    assert_int_equal(rbt_stamps_base(stamps, 0, RBT_STAMP_NONE), 7);
    assert_int_equal(rbt_stamps_base(stamps, 0, 4), 4);
    rbt_stamps_destroy(stamps);
}

enum { COPIES = 40, STEPS = 20000 };

/* Against the obvious: look at all copies. */
static void least_of(const uint64_t *held, size_t except, uint64_t *least)
{
    *least = RBT_STAMP_NONE;
    for (size_t i = 0; i < COPIES; i++) {
        if (i != except && held[i] < *least) {
            *least = held[i];
        }
    }
}

static void it_is_right_whatever_the_order(void **state)
{
    (void)state;
    struct rbt_stamps *stamps = make(1);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 17, 0, 0);
    uint64_t held[COPIES];
    for (size_t i = 0; i < COPIES; i++) {
        held[i] = RBT_STAMP_NONE;
    }
    for (uint64_t step = 0; step < STEPS; step++) {
        const size_t copy = (size_t)rbt_rng_below(&rng, COPIES);
        if (rbt_rng_below(&rng, 8) == 0) {
            rbt_stamps_replace(stamps, 0, &held[copy], RBT_STAMP_NONE);
        } else {
            hold(stamps, &held[copy], step + rbt_rng_below(&rng, 30)); /* nearly in order */
        }
        uint64_t all = 0;
        uint64_t others = 0;
        least_of(held, SIZE_MAX, &all);
        least_of(held, copy, &others);
        assert_int_equal(rbt_stamps_least(stamps, 0, RBT_STAMP_NONE), all);
        assert_int_equal(rbt_stamps_least(stamps, 0, held[copy]), others);
    }
    assert_true(stamps->shards[0].capacity <= (size_t)4 * COPIES); /* what is over is forgotten */
    rbt_stamps_destroy(stamps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_stamp_held_is_known),
        cmocka_unit_test(an_update_names_its_copy_else_the_newest_read),
        cmocka_unit_test(it_is_right_whatever_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
