/* algo/frame/lookup_test.c - every key is found where it stands, and no other. */
#include "base/test.h"

#include "algo/frame/lookup.h"
#include "base/alloc.h"

static void finds_all_and_only_its_keys(void **state)
{
    (void)state;
    uint64_t keys[1000];
    for (size_t i = 0; i < 1000; i++) {
        keys[i] = i == 999 ? UINT64_MAX : (uint64_t)i * i * 3;
    }
    for (size_t count = 0; count <= 1000; count += 250) {
        rbt_lookup *lookup = NULL;
        assert_ok(rbt_lookup_create(keys, count, &lookup));
        for (size_t i = 0; i < 1000; i++) {
            const uint32_t expected = i < count ? (uint32_t)i : RBT_LOOKUP_MISSING;
            assert_int_equal(rbt_lookup_find(lookup, keys[i]), expected);
        }
        assert_int_equal(rbt_lookup_find(lookup, 1), RBT_LOOKUP_MISSING);
        rbt_lookup_destroy(lookup);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_all_and_only_its_keys)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
