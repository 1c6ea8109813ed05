/* proto/strangers_test.c - who has to go when there are too many, and how often the log is told. */
#include "base/test.h"

#include "proto/strangers.h"

static const struct rbt_strangers_limits LIMITS = {.all = 4, .per_host = 3};

static void test_the_oldest_goes(void **state)
{
    (void)state;
    struct rbt_strangers strangers = {0};
    struct rbt_stranger s[4];
    static const char *const who[] = {"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "10.0.0.4:1"};
    for (size_t i = 0; i < 4; i++) {
        assert_null(rbt_strangers_displaced(&strangers, who[i], &LIMITS));
        rbt_strangers_add(&strangers, &s[i], who[i]);
    }
    assert_ptr_equal(rbt_strangers_displaced(&strangers, "10.0.0.5:1", &LIMITS), &s[0]);
    rbt_strangers_remove(&strangers, &s[1]);
    rbt_strangers_remove(&strangers, &s[1]); /* does nothing */
    assert_int_equal(strangers.count, 3);
    assert_null(rbt_strangers_displaced(&strangers, "10.0.0.5:1", &LIMITS));
    rbt_strangers_add(&strangers, &s[1], "10.0.0.2:2");
    rbt_strangers_remove(&strangers, &s[0]);
    rbt_strangers_add(&strangers, &s[0], "10.0.0.1:2");
    assert_ptr_equal(rbt_strangers_displaced(&strangers, "10.0.0.5:1", &LIMITS), &s[2]);
    for (size_t i = 0; i < 4; i++) {
        rbt_strangers_remove(&strangers, &s[i]);
    }
    assert_null(strangers.oldest);
    assert_null(strangers.newest);
    assert_int_equal(strangers.count, 0);
}

static void test_a_host_has_its_share(void **state)
{
    (void)state;
    struct rbt_strangers strangers = {0};
    struct rbt_stranger s[4];
    rbt_strangers_add(&strangers, &s[0], "10.0.0.1:1");
    rbt_strangers_add(&strangers, &s[1], "10.0.0.10:1"); /* begins alike, and is another one */
    rbt_strangers_add(&strangers, &s[2], "10.0.0.10:2");
    rbt_strangers_add(&strangers, &s[3], "10.0.0.10:3");
    assert_ptr_equal(rbt_strangers_displaced(&strangers, "10.0.0.10:4", &LIMITS), &s[1]);
    assert_ptr_equal(rbt_strangers_displaced(&strangers, "10.0.0.1:4", &LIMITS), &s[0]);
    const struct rbt_strangers_limits wide = {.all = 5, .per_host = 3};
    assert_null(rbt_strangers_displaced(&strangers, "10.0.0.1:4", &wide));
}

static void test_hosts_of_all_kinds(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"[::1]:1", "[::1]:2"},
                                           {"this host (pid 1)", "this host (pid 22)"},
                                           {"an unknown place", "an unknown place"}};
    const struct rbt_strangers_limits one = {.all = 9, .per_host = 1};
    for (size_t i = 0; i < 3; i++) {
        struct rbt_strangers strangers = {0};
        struct rbt_stranger stranger;
        rbt_strangers_add(&strangers, &stranger, pairs[i][0]);
        assert_ptr_equal(rbt_strangers_displaced(&strangers, pairs[i][1], &one), &stranger);
        assert_null(rbt_strangers_displaced(&strangers, pairs[(i + 1) % 3][1], &one));
    }
}

static void test_the_log_is_not_filled(void **state)
{
    (void)state;
    struct rbt_strangers strangers = {0};
    const rbt_time second = INT64_C(1000000000);
    for (rbt_time now = 5 * second; now < 7 * second; now += second) {
        for (uint32_t i = 0; i < 100; i++) {
            assert_int_equal(rbt_strangers_may_log(&strangers, now + i), i < 10);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_oldest_goes),
        cmocka_unit_test(test_a_host_has_its_share),
        cmocka_unit_test(test_hosts_of_all_kinds),
        cmocka_unit_test(test_the_log_is_not_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
