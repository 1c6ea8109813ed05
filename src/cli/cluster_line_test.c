/* cli/cluster_line_test.c - what descriptions of clusters mean, and what is said about wrong ones.
 */
#include "base/test.h"

#include "base/alloc.h"
#include "base/error.h"
#include "cli/cluster_line.h"

static struct rbt_cluster_line cluster;
static struct rbt_cluster_line_plan plan;

/* Reads a description of 12 workers on 6 processes and 3 servers; the words end with NULL. */
static rbt_status read_words(char *const *words)
{
    const struct rbt_option_table table = {rbt_cluster_line_options, rbt_cluster_line_option_count,
                                           &cluster};
    const struct rbt_option_command command = {
        .name = "rubato simulate", .tables = &table, .table_count = 1, .section = "SIMULATE"};
    int count = 0;
    while (words[count] != NULL) {
        count++;
    }
    struct rbt_option_arguments arguments;
    rbt_cluster_line_free(&plan);
    rbt_status st = rbt_option_parse(&command, count, words, &arguments);
    if (st == RBT_OK) {
        cluster.workers = 12;
        cluster.servers = 3;
        cluster.threads = 2;
        st = rbt_cluster_line_read(&cluster, &plan);
    }
    return st;
}

#define READ(...) read_words((char *[]){__VA_ARGS__, NULL})

static int tear_down(void **state)
{
    (void)state;
    rbt_cluster_line_free(&plan);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

static void defaults_are_a_calm_gigabit_network(void **state)
{
    (void)state;
    assert_ok(read_words((char *[]){NULL}));
    assert_true(plan.options.bandwidth == 1.25e8);
    assert_true(plan.options.latency == 1e-4);
    assert_true(plan.options.jitter == 0);
    assert_true(plan.options.loss == 0);
    assert_true(plan.options.straggler_share == 0);
    assert_int_equal(plan.options.threads, 2);
    assert_int_equal(plan.options.seed, 1);
    assert_int_equal(plan.options.fault_count, 0);
    assert_null(plan.options.trace);
}

static void no_latency_is_not_the_default_latency(void **state)
{
    (void)state;
    assert_ok(READ("--latency", "0"));
    assert_true(plan.options.latency < 0);
}

static void rates_are_in_bits_or_bytes(void **state)
{
    (void)state;
    static const struct {
        char *text;
        double bytes;
    } cases[] = {{"1Gbit", 1.25e8}, {"100Mbit", 1.25e7}, {"8kbit", 1000}, {"8bit", 1},
                 {"125MB", 1.25e8}, {"2GB", 2e9},        {"1kB", 1e3},    {"5B", 5},
                 {"1e6", 1e6},      {"0.5Mbit", 62500}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(READ("--bandwidth", cases[i].text));
        assert_true(plan.options.bandwidth == cases[i].bytes);
    }
}

static void chances_are_shares_or_percentages(void **state)
{
    (void)state;
    assert_ok(READ("--loss", "5%", "--duplication", "0.25", "--spikes", "1%@50ms"));
    assert_true(plan.options.loss == 0.05);
    assert_true(plan.options.duplication == 0.25);
    assert_true(plan.options.spike_chance == 0.01);
    assert_true(plan.options.spike_seconds == 0.05);
}

static void stragglers_have_a_factor_or_a_range(void **state)
{
    (void)state;
    assert_ok(READ("--stragglers", "20%x2", "--slowdowns", "0.1x3"));
    assert_true(plan.options.straggler_share == 0.2);
    assert_true(plan.options.straggler_factor == 2);
    assert_true(plan.options.straggler_factor_max == 0);
    assert_true(plan.options.slowdown_chance == 0.1);
    assert_true(plan.options.slowdown_factor == 3);
    assert_ok(READ("--stragglers", "50%x1..4.5"));
    assert_true(plan.options.straggler_factor == 1);
    assert_true(plan.options.straggler_factor_max == 4.5);
}

static void racks_have_links(void **state)
{
    (void)state;
    assert_ok(READ("--racks", "2", "--oversubscription", "4"));
    assert_int_equal(plan.options.racks, 2);
    assert_true(plan.options.oversubscription == 4);
    assert_ok(READ("--racks", "6")); /* as many as there are worker processes */
    assert_int_equal(plan.options.racks, 6);
    assert_true(plan.options.oversubscription == 0);
    assert_fails(
        READ("--racks", "7"), RBT_E_INVALID,
        "option \"--racks\" is 7, but with 3 server processes and 6 worker processes there "
        "can be only 6");
    assert_fails(READ("--oversubscription", "4"), RBT_E_INVALID,
                 "option \"--oversubscription\" needs at least two racks");
}

static void faults_name_a_node_and_a_time(void **state)
{
    (void)state;
    assert_ok(READ("--crash", "server/2@1.5s", "worker/5@2s+500ms", "--pause", "coordinator@0+1s",
                   "--partition", "worker/0@1m+2m", "--slow-link", "server/0x10",
                   "--slow-link=worker/1x4@2s+1s"));
    const struct rbt_fault expected[] = {
        {RBT_FAULT_CRASH, "server/2", 1.5, 0, 0},    {RBT_FAULT_CRASH, "worker/5", 2, 0.5, 0},
        {RBT_FAULT_PAUSE, "coordinator", 0, 1, 0},   {RBT_FAULT_PARTITION, "worker/0", 60, 120, 0},
        {RBT_FAULT_SLOW_LINK, "server/0", 0, 0, 10}, {RBT_FAULT_SLOW_LINK, "worker/1", 2, 1, 4}};
    assert_int_equal(plan.options.fault_count, sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < plan.options.fault_count; i++) {
        const struct rbt_fault *fault = &plan.options.faults[i];
        assert_int_equal(fault->kind, expected[i].kind);
        assert_string_equal(fault->node, expected[i].node);
        assert_true(fault->at == expected[i].at);
        assert_true(fault->lasts == expected[i].lasts);
        assert_true(fault->factor == expected[i].factor);
    }
}

/* Texts that no unit test elsewhere quotes word by word: here only that they are refused. */
static void nonsense_is_refused(void **state)
{
    (void)state;
    static char *const cases[][2] = {
        {"--bandwidth", "0"},
        {"--bandwidth", "nan"},
        {"--bandwidth", "1Tbyte"},
        {"--bandwidth", "Gbit"},
        {"--bandwidth", "1e308Gbit"},
        {"--loss", "-1%"},
        {"--loss", "100%"},
        {"--loss", "nan"},
        {"--loss", "5%%"},
        {"--duplication", "1.01"},
        {"--spikes", "1%"},
        {"--spikes", "1%@0"},
        {"--spikes", "@5ms"},
        {"--stragglers", "20%"},
        {"--stragglers", "x2"},
        {"--stragglers", "20%x"},
        {"--stragglers", "20%xinf"},
        {"--stragglers", "20%x4..2"},
        {"--stragglers", "20%x2..nan"},
        {"--slowdowns", "10%x0.9"},
        {"--crash", "worker/1"},
        {"--crash", "worker/1@"},
        {"--crash", "worker/1@1s+"},
        {"--crash", "worker/1@-1s"},
        {"--crash", "@1s"},
        {"--crash", "worker/01@1s"},
        {"--crash", "worker/+1@1s"},
        {"--crash", "worker/@1s"},
        {"--crash", "worker@1s"},
        {"--crash", "server/1k@1s"},
        {"--pause", "worker/1@1s"},
        {"--partition", "worker/1@1s"},
        {"--pause", "worker/1@1s+0"},
        {"--slow-link", "worker/1"},
        {"--slow-link", "worker/1x0"},
        {"--slow-link", "worker/1x2@"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_fails(READ(cases[i][0], cases[i][1]), RBT_E_INVALID, cases[i][0]);
        assert_string_equal(rbt_last_hint(), "See \"rubato simulate --help\".");
    }
}

static void nodes_that_do_not_exist_are_named(void **state)
{
    (void)state;
    assert_fails(READ("--crash", "worker/6@1s"), RBT_E_INVALID,
                 "option \"--crash\" names \"worker/6\", but there are only 6 worker processes");
    assert_string_equal(rbt_last_hint(), "They are called worker/0 to worker/5.");
    assert_fails(READ("--pause", "server/3@1s+1s"), RBT_E_INVALID,
                 "option \"--pause\" names \"server/3\", but there are only 3 server processes");
    assert_string_equal(rbt_last_hint(), "They are called server/0 to server/2.");
}

static void a_plan_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= 2; nth++) {
        rbt_alloc_fail_nth(nth);
        const rbt_status st = READ("--crash", "worker/1@1s");
        rbt_alloc_fail_nth(0);
        assert_int_equal(st, RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    assert_ok(READ("--crash", "worker/1@1s"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(defaults_are_a_calm_gigabit_network, tear_down),
        cmocka_unit_test_teardown(no_latency_is_not_the_default_latency, tear_down),
        cmocka_unit_test_teardown(rates_are_in_bits_or_bytes, tear_down),
        cmocka_unit_test_teardown(chances_are_shares_or_percentages, tear_down),
        cmocka_unit_test_teardown(stragglers_have_a_factor_or_a_range, tear_down),
        cmocka_unit_test_teardown(racks_have_links, tear_down),
        cmocka_unit_test_teardown(faults_name_a_node_and_a_time, tear_down),
        cmocka_unit_test_teardown(nonsense_is_refused, tear_down),
        cmocka_unit_test_teardown(nodes_that_do_not_exist_are_named, tear_down),
        cmocka_unit_test_teardown(a_plan_survives_every_failed_allocation, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
