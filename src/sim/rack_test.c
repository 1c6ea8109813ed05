/* sim/rack_test.c - clusters of racks: who is where, what crosses the links between them, and what
 * may cross them early. */
#include "base/test.h"

#include "base/alloc.h"
#include "sim/trial.h"

#define WITH(...) ((struct rbt_simulation_options){__VA_ARGS__})

static struct rbt_simulation_rack rack_of(const struct rbt_trial *trial, uint32_t index)
{
    struct rbt_simulation_rack rack = {0};
    assert_true(rbt_simulation_rack(trial->simulation, index, &rack));
    return rack;
}

/* Bytes from one node to others, by name. */
static uint64_t sent_by(const struct rbt_trial *trial, const char *name)
{
    struct rbt_simulation_node node = {0};
    for (uint32_t i = 0; rbt_simulation_node(trial->simulation, i, &node); i++) {
        if (strcmp(node.name, name) == 0) {
            return node.bytes_sent;
        }
    }
    fail();
    return 0;
}

static const struct rbt_trial_options walk = {
    .workers = 4, .servers = 2, .rows = 512, .clocks = 6, .spends = 0.01, .width = 16};

static void what_is_within_a_rack_stays_there(void **state)
{
    (void)state;
    struct rbt_trial trial;
    struct rbt_trial_options options = walk;
    options.workers = 1; /* in rack 0 with server 0; server 1 is in rack 1 */
    options.cluster = WITH(.racks = 2);
    rbt_trial_pass(&trial, &options);
    const struct rbt_simulation_rack first = rack_of(&trial, 0);
    const struct rbt_simulation_rack second = rack_of(&trial, 1);
    assert_int_equal(first.bytes_sent, second.bytes_received);
    assert_int_equal(second.bytes_sent, first.bytes_received);
    assert_true(second.bytes_sent <= sent_by(&trial, "server/1")); /* the last may be on its way */
    assert_true(second.bytes_sent + 1000 > sent_by(&trial, "server/1"));
    assert_true(first.bytes_sent > sent_by(&trial, "worker/0") / 3);
    assert_true(first.bytes_sent < sent_by(&trial, "worker/0") * 2 / 3);
    struct rbt_simulation_rack none;
    assert_false(rbt_simulation_rack(trial.simulation, 2, &none));
    rbt_trial_close(&trial);
}

static void without_racks_there_are_no_links_between_them(void **state)
{
    (void)state;
    struct rbt_trial trial;
    struct rbt_simulation_rack none;
    rbt_trial_pass(&trial, &walk);
    const struct rbt_simulation_stats plain = rbt_trial_stats(&trial);
    assert_false(rbt_simulation_rack(trial.simulation, 0, &none));
    rbt_trial_close(&trial);
    struct rbt_trial_options options = walk;
    options.cluster = WITH(.racks = 1);
    rbt_trial_pass(&trial, &options);
    assert_true(rbt_trial_stats(&trial).seconds == plain.seconds);
    assert_int_equal(rbt_trial_stats(&trial).events, plain.events);
    rbt_trial_close(&trial);
}

static double seconds_with(double oversubscription)
{
    struct rbt_trial trial;
    struct rbt_trial_options options = walk;
    options.cluster = WITH(.racks = 2, .oversubscription = oversubscription, .bandwidth = 1e6);
    rbt_trial_pass(&trial, &options);
    const double seconds = rbt_trial_stats(&trial).seconds;
    rbt_trial_close(&trial);
    return seconds;
}

/* A rack has three nodes, half of whose traffic crosses: up to a factor of two nobody notices. */
static void oversubscribed_links_take_longer(void **state)
{
    (void)state;
    const double full = seconds_with(1);
    assert_true(seconds_with(30) > 5 * full);
    assert_true(seconds_with(60) > 1.8 * seconds_with(30));
}

static rbt_status open_job(struct rbt_simulation_options cluster, struct rbt_job_options options)
{
    rbt_simulation *simulation = NULL;
    rbt_job *job = NULL;
    cluster.struct_size = sizeof cluster;
    assert_ok(rbt_simulation_open(&cluster, &simulation));
    options.struct_size = sizeof options;
    options.simulation = simulation;
    const rbt_status st = rbt_job_open(&options, &job);
    rbt_job_close(job);
    assert_ok(rbt_simulation_close(simulation));
    assert_int_equal(rbt_alloc_live(), 0);
    return st;
}

#define JOB(...) ((struct rbt_job_options){.workers = 4, .shards = 2, __VA_ARGS__})

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    assert_fails(open_job(WITH(.racks = 5), JOB(.bandwidth = 0)), RBT_E_INVALID,
                 "of 5 racks some would be empty: there are only 2 servers and 4 worker processes");
    assert_ok(open_job(WITH(.racks = 4), JOB(.bandwidth = 0)));
    assert_fails(open_job(WITH(.racks = 3, .threads = 2), JOB(.bandwidth = 0)), RBT_E_INVALID,
                 "of 3 racks some would be empty: there are only 2 servers and 2 worker processes");
    assert_fails(open_job(WITH(.racks = 2, .rack_budget = 1e6), JOB(.bandwidth = 0)), RBT_E_INVALID,
                 "the budget of a rack is for rows that travel early, but the job has no bandwidth "
                 "for them");
    assert_fails(open_job(WITH(.racks = 2, .rack_budget = 1e6),
                          JOB(.bandwidth = 1000000, .priority = "sweep")),
                 RBT_E_INVALID,
                 "a sweep sends all rows in turn, near or far: it cannot keep to the "
                 "budget of a rack");
    assert_ok(open_job(WITH(.racks = 2, .rack_budget = 1e6), JOB(.bandwidth = 1000000)));
}

/* --- Budgets --------------------------------------------------------------------------------- */

enum { ROWS = 4096, WIDTH = 32, CLOCKS = 3, STEPS = 1000, WORKERS = 4, SERVERS = 4 };

struct rig {
    uint32_t servers; /* 0: SERVERS */
    rbt_simulation *simulation;
    rbt_job *job;
    rbt_table *table;
    struct rbt_job_stats stats;
    uint64_t crossed; /* bytes between racks */
    double seconds;
};

/* Changes rows all the time, more of them than may go: a clock takes a second. */
static rbt_status change(rbt_worker *worker, void *argument)
{
    const struct rig *rig = argument;
    static uint64_t keys[ROWS];
    rbt_set *set = NULL;
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i;
    }
    rbt_status st = rbt_set_create(worker, rig->table, keys, ROWS, RBT_SET_DELTAS, &set);
    st = st != RBT_OK ? st : rbt_set_manage(set);
    for (int clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        st = rbt_set_pull(set);
        for (uint32_t step = 0; st == RBT_OK && step < STEPS; step++) {
            float *deltas = rbt_set_deltas(set);
            for (uint32_t i = 0; i < ROWS; i += 16) {
                const uint32_t row = (i + step) % ROWS;
                deltas[(size_t)row * WIDTH] += 1;
                rbt_set_touch(set, row);
            }
            rbt_spend(worker, 1.0 / STEPS);
            st = rbt_exchange(worker);
        }
        st = st != RBT_OK ? st : rbt_set_push(set);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static float totals[ROWS * WIDTH];

static void check_sums(void)
{
    for (size_t i = 0; i < ROWS; i++) { /* every row 1000 / 16 times a clock, or once more */
        const float sum = totals[i * WIDTH];
        assert_true(sum >= WORKERS * CLOCKS * 62.0F && sum <= WORKERS * CLOCKS * 63.0F);
    }
}

static rbt_status read_all(rbt_worker *worker, void *argument)
{
    const struct rig *rig = argument;
    struct rbt_rows rows = {0};
    const rbt_status st = rbt_pull_range(worker, rig->table, RBT_RANGE_ALL, 0, &rows);
    if (st == RBT_OK && rows.count == ROWS) {
        memcpy(totals, rows.values, sizeof totals);
    }
    rbt_rows_free(&rows);
    return st;
}

static void run_rig(struct rig *rig, struct rbt_simulation_options cluster, uint64_t bandwidth)
{
    *rig = (struct rig){.servers = rig->servers};
    cluster.struct_size = sizeof cluster;
    assert_ok(rbt_simulation_open(&cluster, &rig->simulation));
    const struct rbt_job_options job = {.struct_size = sizeof job,
                                        .workers = WORKERS,
                                        .shards = rig->servers == 0 ? SERVERS : rig->servers,
                                        .consistency = "essp:1",
                                        .bandwidth = bandwidth,
                                        .simulation = rig->simulation};
    const struct rbt_table_options table = {
        .struct_size = sizeof table, .type = RBT_F32, .width = WIDTH};
    assert_ok(rbt_job_open(&job, &rig->job));
    assert_ok(rbt_table_open(rig->job, "rows", &table, &rig->table));
    assert_ok(rbt_job_run(rig->job, change, rig));
    struct rbt_simulation_rack rack;
    for (uint32_t i = 0; rbt_simulation_rack(rig->simulation, i, &rack); i++) {
        rig->crossed += rack.bytes_sent;
    }
    struct rbt_simulation_stats stats;
    rbt_simulation_stats(rig->simulation, &stats);
    rig->seconds = stats.seconds;
    rbt_job_stats(rig->job, &rig->stats);
    memset(totals, 0, sizeof totals);
    assert_ok(rbt_job_run(rig->job, read_all, rig));
    check_sums();
    rbt_job_close(rig->job);
    assert_ok(rbt_simulation_close(rig->simulation));
}

/* G23: 4 MB/s for a node; 1 MB/s for a rack, so 250 kB/s for each of its four nodes. */
static void a_rack_keeps_to_its_budget_and_its_nodes_to_theirs(void **state)
{
    (void)state;
    struct rig flat = {0};
    struct rig linked = {0};
    run_rig(&flat, WITH(.racks = 2), 4000000);
    run_rig(&linked, WITH(.racks = 2, .rack_budget = 1e6), 4000000);
    /* Clock ends and reads cross in any case: 512 kB out and in, for half of the rows, per worker;
     * headers are less than a tenth. */
    const double clocks = WORKERS * (2.0 * CLOCKS + 1) * ROWS / 2 * (8 + 4 * WIDTH);
    const double bursts = 2.0 * (WORKERS + SERVERS) * 2 * 65536;
    const double budget = 2 * 1e6 * linked.seconds;
    assert_true((double)linked.crossed < 1.1 * (clocks + budget) + bursts);
    assert_true((double)linked.crossed > 0.8 * budget);
    assert_true(flat.crossed > 2 * linked.crossed);
    /* What may not cross leaves room for what need not. */
    assert_true(linked.stats.early_bytes_sent > flat.stats.early_bytes_sent * 3 / 4);
    assert_true((double)linked.stats.early_bytes_sent < 4e6 * WORKERS * linked.seconds);
    assert_int_equal(linked.stats.early_pauses, 0);
}

/* A rack has one server and two workers, who together may receive twice what the server may send.
 */
static void servers_keep_to_their_part(void **state)
{
    (void)state;
    struct rig plain = {.servers = 2};
    struct rig linked = {.servers = 2};
    run_rig(&plain, WITH(.racks = 2), 0);
    run_rig(&linked, WITH(.racks = 2, .rack_budget = 4e6), 16000000);
    const double budget = 2 * 4e6 * linked.seconds; /* not all of it is used */
    assert_true((double)(linked.crossed - plain.crossed) < 0.8 * budget);
    assert_true((double)(linked.crossed - plain.crossed) > 0.6 * budget);
}

/* Two of four workers have no server in their rack, the others have none elsewhere. */
static void a_rack_need_not_have_a_server(void **state)
{
    (void)state;
    struct rig plain = {.servers = 1};
    struct rig linked = {.servers = 1};
    run_rig(&plain, WITH(.racks = 2), 0);
    run_rig(&linked, WITH(.racks = 2, .rack_budget = 1e6), 4000000);
    assert_true(linked.crossed > plain.crossed + 1000000);
    assert_int_equal(linked.stats.early_pauses, 0);
}

static void a_budget_that_is_no_limit_changes_little(void **state)
{
    (void)state;
    struct rig flat = {0};
    struct rig linked = {0};
    run_rig(&flat, WITH(.racks = 2), 1000000);
    run_rig(&linked, WITH(.racks = 2, .rack_budget = 1e9), 1000000);
    assert_true(linked.crossed > flat.crossed * 9 / 10);
    assert_true(linked.crossed < flat.crossed * 11 / 10);
    assert_true(linked.stats.early_sent > flat.stats.early_sent * 9 / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_within_a_rack_stays_there),
        cmocka_unit_test(without_racks_there_are_no_links_between_them),
        cmocka_unit_test(oversubscribed_links_take_longer),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_rack_keeps_to_its_budget_and_its_nodes_to_theirs),
        cmocka_unit_test(servers_keep_to_their_part),
        cmocka_unit_test(a_rack_need_not_have_a_server),
        cmocka_unit_test(a_budget_that_is_no_limit_changes_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
