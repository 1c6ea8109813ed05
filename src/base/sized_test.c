/* base/sized_test.c - what an older caller does not know of is neither read nor overwritten. */
#include "base/test.h"

#include <stdint.h>
#include <string.h>

#include "base/sized.h"

/* A struct of today, and the same as it was before `third` was added, with what lies behind it. */
struct today {
    size_t struct_size;
    int64_t first;
    int32_t second;
    int64_t third;
};

struct before {
    size_t struct_size;
    int64_t first;
    int32_t second;
};

enum { CANARY = 0x5A };

struct owned {
    struct before figures;
    unsigned char behind[64];
};

static const struct today full = {.struct_size = 999, .first = 1, .second = 2, .third = 3};

static void sizes_of_today_get_everything(void **state)
{
    (void)state;
    struct today found = {.struct_size = sizeof found};
    assert_ok(rbt_sized_give(&found, &full, sizeof full));
    assert_int_equal(found.struct_size, sizeof found);
    assert_int_equal(found.first, 1);
    assert_int_equal(found.second, 2);
    assert_int_equal(found.third, 3);
    assert_ok(rbt_sized_take(&found, &(struct today){sizeof found, 4, 5, 6}, sizeof found));
    assert_int_equal(found.third, 6);
}

static void nothing_is_written_behind_an_older_struct(void **state)
{
    (void)state;
    struct owned owned = {.figures = {.struct_size = sizeof owned.figures}};
    memset(owned.behind, CANARY, sizeof owned.behind);
    assert_ok(rbt_sized_give(&owned.figures, &full, sizeof full));
    assert_int_equal(owned.figures.struct_size, sizeof owned.figures);
    assert_int_equal(owned.figures.first, 1);
    assert_int_equal(owned.figures.second, 2);
    for (size_t i = 0; i < sizeof owned.behind; i++) {
        assert_int_equal(owned.behind[i], CANARY);
    }
}

static void what_an_older_caller_lacks_has_its_default(void **state)
{
    (void)state;
    struct today options = {.struct_size = sizeof options, .third = 7};
    const struct owned owned = {.figures = {sizeof owned.figures, 4, 5},
                                .behind = {CANARY, CANARY, CANARY}};
    assert_ok(rbt_sized_take(&options, &owned.figures, sizeof options));
    assert_int_equal(options.first, 4);
    assert_int_equal(options.second, 5);
    assert_int_equal(options.third, 7);
}

static void sizes_that_never_were_are_refused(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, sizeof(struct today) + 1, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct today found = {.struct_size = sizes[i], .first = -1};
        assert_fails(rbt_sized_give(&found, &full, sizeof full), RBT_E_INVALID, "struct_size is");
        assert_int_equal(found.first, -1);
        struct today options = {.first = -1};
        assert_fails(rbt_sized_take(&options, &found, sizeof options), RBT_E_INVALID,
                     "struct_size is");
        assert_int_equal(options.first, -1);
    }
    struct today least = {.struct_size = sizeof(size_t), .first = -1};
    assert_ok(rbt_sized_give(&least, &full, sizeof full));
    assert_int_equal(least.first, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_today_get_everything),
        cmocka_unit_test(nothing_is_written_behind_an_older_struct),
        cmocka_unit_test(what_an_older_caller_lacks_has_its_default),
        cmocka_unit_test(sizes_that_never_were_are_refused),
    };
    return cmocka_run_group_tests_name("base/sized", tests, NULL, NULL);
}
