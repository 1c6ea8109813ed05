/* launch/blame_test.c - tests of launch/blame.c. */
#include "base/test.h"

#include "base/error.h"
#include "launch/blame.h"

static const struct rbt_relay_record silent = {.line_count = 2, .last = {"one", "two"}};
static const struct rbt_relay_record own = {.error = "no room", .hint = "Make some."};
static const struct rbt_relay_record echo = {.error = "lost worker/2: it has closed the line"};

static void who_was_killed_is_to_blame(void **state)
{
    (void)state;
    const struct rbt_blame_end ends[] = {
        {.name = "coordinator", .host = "vm", .status = 1, .order = 1, .record = &echo},
        {.name = "worker/0", .host = "vm", .status = 1, .order = 2, .record = &own},
        {.name = "worker/2", .host = "vm", .pid = 4711, .signal = 9, .order = 3, .record = &silent},
    };
    assert_true(rbt_blame_is_echo(&ends[0]));
    assert_fails(rbt_blame(ends, 3), RBT_E_CLOSED,
                 "lost worker/2 on vm (pid 4711): killed by signal 9 (SIGKILL); its last lines "
                 "were: one | two");
}

static void own_complaints_go_before_echoes(void **state)
{
    (void)state;
    const struct rbt_blame_end ends[] = {
        {.name = "coordinator", .host = "vm", .status = 1, .order = 1, .record = &echo},
        {.name = "worker/3", .host = "vm", .status = 1, .order = 3, .record = &own},
        {.name = "worker/2", .host = "vm", .record = &silent}, /* it has not ended */
    };
    assert_fails(rbt_blame(ends, 3), RBT_E_CLOSED, "worker/3: no room");
    assert_string_equal(rbt_last_hint(), "Make some.");
    assert_fails(rbt_blame(ends, 1), RBT_E_CLOSED, "lost worker/2: it has closed the line");
    assert_null(strstr(rbt_last_error(), "coordinator"));
    static const struct rbt_relay_record report = {.error = "worker/3 on vm failed: no room"};
    const struct rbt_blame_end other = {.name = "worker/1", .order = 1, .record = &report};
    assert_true(rbt_blame_is_echo(&other));
}

static void the_plain_one_speaks_for_all_who_say_the_same(void **state)
{
    (void)state;
    const struct rbt_blame_end ends[] = {
        {.name = "worker/1", .host = "vm", .status = 2, .order = 1, .record = &own},
        {.name = "worker/0",
         .host = "vm",
         .status = 2,
         .order = 2,
         .is_plain = true,
         .record = &own},
    };
    assert_int_equal(rbt_blame(ends, 2), RBT_E_INVALID); /* wrong usage stays wrong usage */
    assert_string_equal(rbt_last_error(), "no room");
}

static void the_first_of_equals_is_to_blame(void **state)
{
    (void)state;
    static const struct rbt_relay_record nothing;
    const struct rbt_blame_end ends[] = {
        {.name = "server/1", .host = "vm", .status = 3, .order = 2, .record = &nothing},
        {.name = "server/0", .host = "vm", .status = 4, .order = 1, .record = &nothing},
    };
    assert_int_equal(rbt_blame(ends, 2), RBT_E_CLOSED);
    assert_string_equal(rbt_last_error(), "lost server/0 on vm: exit status 4");
}

static void ssh_speaks_for_a_host_that_does_not_answer(void **state)
{
    (void)state;
    static const struct rbt_relay_record refused = {
        .line_count = 1, .last = {"ssh: connect to host node7 port 22: Connection refused"}};
    struct rbt_blame_end end = {.name = "worker/1",
                                .host = "node7",
                                .is_remote = true,
                                .status = 255,
                                .order = 1,
                                .record = &refused};
    assert_fails(rbt_blame(&end, 1), RBT_E_CLOSED,
                 "could not start worker/1 on host \"node7\": ssh: connect to host node7");
    static const struct rbt_relay_record started = {.pid = 99};
    end.record = &started;
    end.pid = 99;
    assert_fails(rbt_blame(&end, 1), RBT_E_CLOSED,
                 "lost worker/1 on node7 (pid 99): killed, or its host is down");
    end.status = 137;
    assert_fails(rbt_blame(&end, 1), RBT_E_CLOSED, "killed by signal 9 (SIGKILL)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_killed_is_to_blame),
        cmocka_unit_test(own_complaints_go_before_echoes),
        cmocka_unit_test(the_plain_one_speaks_for_all_who_say_the_same),
        cmocka_unit_test(the_first_of_equals_is_to_blame),
        cmocka_unit_test(ssh_speaks_for_a_host_that_does_not_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
