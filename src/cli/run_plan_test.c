/* cli/run_plan_test.c - tests of cli/run_plan.c: the command lines of a run. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"
#include "cli/run_plan.h"

static char *const job[] = {"train", "linear", NULL};

static struct rbt_run_plan_options small(void)
{
    return (struct rbt_run_plan_options){
        .program = "/bin/rubato",
        .far_program = "/opt/rubato",
        .workers = 3,
        .threads = 2,
        .servers = 1,
        .server_threads = 1,
        .own_name = "me",
        .ssh = "ssh -T",
        .start_timeout = 30,
        .timeout = 10,
        .job = job,
        .parent = 4711,
    };
}

/* The words, joined with spaces, into a static text. */
static const char *line_of(const struct rbt_launch_process *process)
{
    static char text[1024];
    size_t used = 0;
    for (char *const *word = process->argv; *word != NULL; word++) {
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "", *word);
        assert_true(used < sizeof text);
    }
    return text;
}

static void on_one_host_they_meet_at_unix_sockets(void **state)
{
    (void)state;
    struct rbt_run_plan_options options = small();
    options.directory = "/tmp/d";
    options.columns = 90;
    struct rbt_run_plan plan;
    assert_ok(rbt_run_plan_build(&options, &plan));
    assert_int_equal(plan.count, 4);
    assert_string_equal(line_of(&plan.processes[0]),
                        "/bin/rubato coordinator --once --servers=1 --listen "
                        "unix:/tmp/d/coordinator --start-timeout=30 --timeout=10 --die-with-stdin");
    assert_string_equal(line_of(&plan.processes[1]),
                        "/bin/rubato server --index=0 --threads=1 --listen=unix:/tmp/d/server-0 "
                        "--coordinator unix:/tmp/d/coordinator --start-timeout=30 --timeout=10 "
                        "--die-with-stdin");
    assert_string_equal(line_of(&plan.processes[3]),
                        "/bin/rubato worker --index=1 --workers=3 --threads=1 --coordinator "
                        "unix:/tmp/d/coordinator --start-timeout=30 --timeout=10 --die-with-stdin "
                        "-- train linear");
    assert_string_equal(plan.processes[0].input, "parent 4711\ngo\n");
    assert_string_equal(plan.processes[2].input, "parent 4711\nset RUBATO_TERMINAL=90\ngo\n");
    assert_true(plan.processes[2].is_plain);
    assert_true(plan.processes[2].is_worker);
    assert_false(plan.processes[3].is_plain);
    assert_string_equal(plan.processes[3].name, "worker/1");
    assert_string_equal(plan.processes[3].host, "me");
    rbt_run_plan_deinit(&plan);
}

static void over_tcp_they_wait_for_the_address(void **state)
{
    (void)state;
    const struct rbt_run_plan_options options = small();
    struct rbt_run_plan plan;
    assert_ok(rbt_run_plan_build(&options, &plan));
    assert_non_null(strstr(line_of(&plan.processes[0]), "--listen 127.0.0.1:0 "));
    assert_non_null(strstr(line_of(&plan.processes[1]), "--listen=127.0.0.1:0 "));
    assert_non_null(strstr(line_of(&plan.processes[1]), "--coordinator {address} "));
    assert_non_null(strstr(line_of(&plan.processes[2]), "--coordinator {address} "));
    rbt_run_plan_deinit(&plan);
}

static void other_hosts_are_reached_with_ssh(void **state)
{
    (void)state;
    struct rbt_run_plan_options options = small();
    struct rbt_hosts hosts;
    assert_ok(rbt_hosts_parse("far address=10.0.0.9\nme\n", "hosts", "me", &hosts));
    char *const environment[] = {"RUBATO_SEED=3", "PATH=/bin", NULL};
    options.hosts = &hosts;
    options.key = "abc";
    options.folder = "/data";
    options.environment = environment;
    options.servers = 2;
    struct rbt_run_plan plan;
    assert_ok(rbt_run_plan_build(&options, &plan));
    assert_string_equal(line_of(&plan.processes[0]),
                        "ssh -T far exec '/opt/rubato' 'coordinator' '--once' '--servers=2' "
                        "'--listen' '10.0.0.9:0' '--start-timeout=30' '--timeout=10' "
                        "'--die-with-stdin'");
    assert_true(plan.processes[0].is_remote);
    assert_string_equal(plan.processes[0].host, "far");
    assert_string_equal(plan.processes[0].input,
                        "key abc\ndirectory /data\nset RUBATO_SEED=3\ngo\n");
    assert_non_null(strstr(line_of(&plan.processes[2]), "/bin/rubato server --index=1"));
    assert_non_null(strstr(line_of(&plan.processes[2]), "--listen=me:0"));
    assert_string_equal(plan.processes[2].input, "parent 4711\nkey abc\ngo\n");
    for (size_t i = 0; i < plan.count; i++) {
        assert_null(strstr(line_of(&plan.processes[i]), "abc")); /* never on a command line */
    }
    rbt_run_plan_deinit(&plan);
    rbt_hosts_deinit(&hosts);
}

static void localhost_means_nothing_to_others(void **state)
{
    (void)state;
    struct rbt_run_plan_options options = small();
    struct rbt_hosts hosts;
    assert_ok(rbt_hosts_parse("localhost\nfar\n", "hosts", "me", &hosts));
    options.hosts = &hosts;
    struct rbt_run_plan plan;
    assert_fails(rbt_run_plan_build(&options, &plan), RBT_E_INVALID,
                 "cannot connect to the name \"localhost\"");
    options.listen = "10.0.0.1";
    assert_ok(rbt_run_plan_build(&options, &plan));
    assert_non_null(strstr(line_of(&plan.processes[0]), "--listen 10.0.0.1:0"));
    rbt_run_plan_deinit(&plan);
    rbt_hosts_deinit(&hosts);
}

static void a_lack_of_memory_is_an_error(void **state)
{
    (void)state;
    const struct rbt_run_plan_options options = small();
    const size_t live = rbt_alloc_live();
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        struct rbt_run_plan plan = {0};
        rbt_alloc_fail_nth(nth);
        st = rbt_run_plan_build(&options, &plan);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        rbt_run_plan_deinit(&plan);
        assert_int_equal(rbt_alloc_live(), live);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_one_host_they_meet_at_unix_sockets),
        cmocka_unit_test(over_tcp_they_wait_for_the_address),
        cmocka_unit_test(other_hosts_are_reached_with_ssh),
        cmocka_unit_test(localhost_means_nothing_to_others),
        cmocka_unit_test(a_lack_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
