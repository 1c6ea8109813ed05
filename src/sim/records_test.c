/* sim/records_test.c - records are zeroed, apart from each other, and used again. */
#include "base/test.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "sim/records.h"

enum { COUNT = 5000 };

struct thing {
    struct thing *next;
    uint64_t values[6];
};

static uint32_t visited;

static void visit(void *record)
{
    assert_non_null(record);
    visited++;
}

static void records_are_zeroed_and_used_again(void **state)
{
    (void)state;
    static struct thing *things[COUNT];
    struct rbt_records records = {.size = sizeof(struct thing)};
    for (uint32_t round = 0; round < 2; round++) {
        const uint64_t before = rbt_alloc_calls();
        for (uint32_t i = 0; i < COUNT; i++) {
            things[i] = rbt_records_take(&records);
            assert_non_null(things[i]);
            for (uint32_t k = 0; k < 6; k++) {
                assert_int_equal(things[i]->values[k], 0);
                things[i]->values[k] = i;
            }
        }
        assert_int_equal(rbt_alloc_calls() > before, round == 0);
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_int_equal(things[i]->values[5], i);
            rbt_records_give(&records, things[i]);
        }
    }
    rbt_records_visit(&records, visit);
    assert_true(visited >= COUNT);
    rbt_records_deinit(&records);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void without_memory_there_is_no_record(void **state)
{
    (void)state;
    struct rbt_records records = {.size = sizeof(struct thing)};
    rbt_alloc_fail_nth(1);
    assert_null(rbt_records_take(&records));
    rbt_alloc_fail_nth(0);
    assert_non_null(rbt_records_take(&records));
    rbt_records_deinit(&records);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_zeroed_and_used_again),
        cmocka_unit_test(without_memory_there_is_no_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
