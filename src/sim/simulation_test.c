/* sim/simulation_test.c - a simulation as its user sees it: options and their mistakes, jobs one
 * after the other, equal runs for equal seeds, traces, figures. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sim/trial.h"

/* Opening with these options must fail with this sentence and store nothing. */
static void refused(struct rbt_simulation_options options, const char *sentence)
{
    rbt_simulation *simulation = NULL;
    options.struct_size = sizeof options;
    assert_int_equal(rbt_simulation_open(&options, &simulation), RBT_E_INVALID);
    assert_string_equal(rbt_last_error(), sentence);
    assert_null(simulation);
    assert_int_equal(rbt_alloc_live(), 0);
}

#define WITH(...) ((struct rbt_simulation_options){__VA_ARGS__})

static void every_mistake_in_the_network_has_its_sentence(void **state)
{
    (void)state;
    refused(WITH(.bandwidth = -1), "the bandwidth must be more than 0");
    refused(WITH(.bandwidth = INFINITY), "the bandwidth must be more than 0");
    refused(WITH(.bandwidth = NAN), "the bandwidth must be more than 0");
    refused(WITH(.latency = INFINITY), "the latency is a number of seconds");
    refused(WITH(.latency = NAN), "the latency is a number of seconds");
    refused(WITH(.jitter = -1e-3), "the jitter is a number of seconds, 0 or more");
    refused(WITH(.jitter = NAN), "the jitter is a number of seconds, 0 or more");
    refused(WITH(.loss = 1), "the chance of loss is at least 0 and less than 1");
    refused(WITH(.loss = -0.1), "the chance of loss is at least 0 and less than 1");
    refused(WITH(.duplication = 1.5), "the chance of duplication is between 0 and 1");
    refused(WITH(.spike_chance = -0.5), "the chance of a spike is between 0 and 1");
    refused(WITH(.spike_seconds = -2), "a spike is a number of seconds, 0 or more");
}

static void every_mistake_in_the_speeds_has_its_sentence(void **state)
{
    (void)state;
    refused(WITH(.straggler_share = 1.2, .straggler_factor = 2),
            "the share of stragglers is between 0 and 1");
    refused(WITH(.straggler_share = 0.2), "stragglers are slow by a factor of 1 or more");
    refused(WITH(.straggler_share = 0.2, .straggler_factor = 0.5),
            "stragglers are slow by a factor of 1 or more");
    refused(WITH(.straggler_share = 0.2, .straggler_factor = INFINITY),
            "stragglers are slow by a finite factor");
    refused(WITH(.straggler_share = 0.2, .straggler_factor = 2, .straggler_factor_max = NAN),
            "stragglers are slow by a finite factor");
    refused(WITH(.slowdown_chance = 2, .slowdown_factor = 2),
            "the chance of a slowdown is between 0 and 1");
    refused(WITH(.slowdown_chance = 0.1), "a slowdown is by a factor of 1 or more");
    refused(WITH(.slowdown_chance = 0.1, .slowdown_factor = INFINITY),
            "a slowdown is by a factor of 1 or more");
}

static void every_mistake_in_the_racks_has_its_sentence(void **state)
{
    (void)state;
    refused(WITH(.racks = 2, .oversubscription = 0.5),
            "the oversubscription is a factor of 1 or more");
    refused(WITH(.racks = 2, .oversubscription = INFINITY),
            "the oversubscription is a factor of 1 or more");
    refused(WITH(.oversubscription = 4), "oversubscribed links need at least two racks");
}

static void refused_fault(struct rbt_fault fault, const char *sentence)
{
    const struct rbt_fault faults[2] = {{.kind = RBT_FAULT_PAUSE, .node = "worker/0", .lasts = 1},
                                        fault}; /* the second is wrong */
    refused(WITH(.faults = faults, .fault_count = 2), sentence);
}

static void every_mistake_in_a_fault_has_its_sentence(void **state)
{
    (void)state;
    refused_fault((struct rbt_fault){.kind = RBT_FAULT_CRASH}, "a fault needs the name of a node");
    refused_fault((struct rbt_fault){.kind = RBT_FAULT_CRASH, .node = "server/0", .at = -1},
                  "the fault of \"server/0\" begins and lasts 0 seconds or more");
    refused_fault((struct rbt_fault){.kind = RBT_FAULT_CRASH, .node = "server/0", .lasts = NAN},
                  "the fault of \"server/0\" begins and lasts 0 seconds or more");
    refused_fault((struct rbt_fault){.kind = RBT_FAULT_PAUSE, .node = "server/0"},
                  "the pause or partition of \"server/0\" must end some time");
    refused_fault((struct rbt_fault){.kind = RBT_FAULT_PARTITION, .node = "server/0"},
                  "the pause or partition of \"server/0\" must end some time");
    refused_fault((struct rbt_fault){.kind = RBT_FAULT_SLOW_LINK, .node = "worker/1"},
                  "the link of \"worker/1\" is slow by a factor of 1 or more");
    refused_fault(
        (struct rbt_fault){.kind = RBT_FAULT_SLOW_LINK, .node = "worker/1", .factor = INFINITY},
        "the link of \"worker/1\" is slow by a factor of 1 or more");
}

static void the_size_of_the_options_is_checked(void **state)
{
    (void)state;
    rbt_simulation *simulation = NULL;
    struct rbt_simulation_options options = {.struct_size = 0};
    assert_fails(rbt_simulation_open(&options, &simulation), RBT_E_INVALID,
                 "struct_size is 0; set it to the size of the struct");
    options.struct_size = sizeof options + 1;
    assert_fails(rbt_simulation_open(&options, &simulation), RBT_E_INVALID, "struct_size is ");
    options = WITH(.struct_size = offsetof(struct rbt_simulation_options, loss), .loss = 7);
    assert_ok(rbt_simulation_open(&options, &simulation)); /* an old program's: no `loss` in it */
    assert_ok(rbt_simulation_close(simulation));
    options = WITH(.struct_size = offsetof(struct rbt_simulation_options, racks),
                   .oversubscription = 0.1);
    assert_ok(rbt_simulation_open(&options, &simulation)); /* nor are there racks in this one */
    assert_ok(rbt_simulation_close(simulation));
    assert_ok(rbt_simulation_close(NULL));
    assert_int_equal(rbt_alloc_live(), 0);
}

static rbt_status open_job(rbt_simulation *simulation, uint32_t workers, rbt_job **job)
{
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = workers, .shards = 2, .simulation = simulation};
    return rbt_job_open(&options, job);
}

static void a_fault_of_a_node_that_does_not_exist_is_found_when_the_job_is_opened(void **state)
{
    (void)state;
    const struct rbt_fault fault = {.kind = RBT_FAULT_CRASH, .node = "worker/3"};
    struct rbt_simulation_options options =
        WITH(.struct_size = sizeof options, .faults = &fault, .fault_count = 1);
    rbt_simulation *simulation = NULL;
    rbt_job *job = NULL;
    assert_ok(rbt_simulation_open(&options, &simulation));
    assert_fails(open_job(simulation, 3, &job), RBT_E_INVALID,
                 "there is no node \"worker/3\" in a cluster of 2 servers and 3 worker processes");
    assert_null(job);
    assert_ok(open_job(simulation, 4, &job)); /* the simulation is free for another one */
    rbt_job_close(job);
    assert_ok(rbt_simulation_close(simulation));
    options.threads = 4;
    assert_ok(rbt_simulation_open(&options, &simulation));
    assert_fails(open_job(simulation, 4, &job), RBT_E_INVALID, "and 1 worker process");
    assert_ok(rbt_simulation_close(simulation));
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_simulation_has_one_job_at_a_time(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_job *second = NULL;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.clocks = 1});
    assert_fails(open_job(trial.simulation, 1, &second), RBT_E_BUSY,
                 "a simulation runs one job at a time");
    assert_null(second);
    assert_ok(
        rbt_job_run(trial.job, rbt_trial_walk, &trial)); /* nothing has happened to the first */
    rbt_trial_close(&trial);
}

static void a_simulation_runs_jobs_one_after_the_other(void **state)
{
    (void)state;
    struct rbt_trial trial;
    struct rbt_simulation_stats first = {.struct_size = sizeof first};
    rbt_trial_pass(&trial, &(struct rbt_trial_options){.workers = 3, .clocks = 4, .spends = 0.01});
    first = rbt_trial_stats(&trial);
    for (int i = 0; i < 2; i++) {
        rbt_job_close(trial.job);
        const struct rbt_job_options options = {.struct_size = sizeof options,
                                                .workers = 3,
                                                .consistency = "bsp",
                                                .simulation = trial.simulation};
        const struct rbt_table_options table = {.struct_size = sizeof table, .type = RBT_I64};
        assert_ok(rbt_job_open(&options, &trial.job));
        assert_ok(rbt_table_open(trial.job, "counts", &table, &trial.table));
        assert_ok(rbt_job_run(trial.job, rbt_trial_walk, &trial));
        assert_int_equal(trial.wrong_reads, 0);
        /* An equal job has equal figures: they are its own. */
        const struct rbt_simulation_stats again = rbt_trial_stats(&trial);
        assert_memory_equal(&again, &first, sizeof first);
    }
    rbt_trial_close(&trial);
}

static rbt_status add_one(rbt_worker *worker, void *argument)
{
    const struct rbt_trial *trial = argument;
    const int64_t one = 1;
    const rbt_status st = rbt_add(worker, trial->table, 0, &one);
    rbt_worker_spend(worker, 0.01);
    return st != RBT_OK ? st : rbt_clock(worker);
}

static void a_job_runs_several_times_and_figures_add_up(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){.workers = 3});
    for (int run = 1; run <= 3; run++) {
        assert_ok(rbt_job_run(trial.job, add_one, &trial));
        assert_int_equal(rbt_trial_value(&trial, 0), 3 * run); /* rows stay */
        assert_int_equal(rbt_trial_worker(&trial, 2).clocks, 1);
        rbt_trial_near(rbt_trial_worker(&trial, 2).compute_seconds, 0.01 * run, 1e-9);
        rbt_trial_near(rbt_trial_stats(&trial).compute_seconds, 0.03 * run, 1e-9);
        assert_true(rbt_trial_stats(&trial).seconds > 0.01 * run);
    }
    rbt_trial_close(&trial);
}

/* Everything random is on. */
static struct rbt_trial_options wild(uint64_t seed)
{
    return (struct rbt_trial_options){.cluster = {.seed = seed,
                                                  .threads = 2,
                                                  .jitter = 2e-3,
                                                  .loss = 0.05,
                                                  .duplication = 0.05,
                                                  .spike_chance = 0.01,
                                                  .spike_seconds = 0.05,
                                                  .straggler_share = 0.5,
                                                  .straggler_factor = 1.5,
                                                  .straggler_factor_max = 4,
                                                  .slowdown_chance = 0.2,
                                                  .slowdown_factor = 3},
                                      .workers = 6,
                                      .servers = 3,
                                      .rows = 50,
                                      .consistency = "essp:2",
                                      .clocks = 20,
                                      .spends = 0.003};
}

/* Runs it with a trace; stores what was written there, which the caller frees. */
static struct rbt_simulation_stats run_traced(uint64_t seed, char **text, size_t *length)
{
    char path[] = "/tmp/rubato-sim-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd); /* only its name is wanted */
    struct rbt_trial trial;
    struct rbt_trial_options options = wild(seed);
    options.cluster.trace = path;
    rbt_trial_pass(&trial, &options);
    const struct rbt_simulation_stats stats = rbt_trial_stats(&trial);
    rbt_trial_close(&trial);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *length = (size_t)ftell(file);
    rewind(file);
    *text = test_malloc(*length + 1);
    assert_int_equal(fread(*text, 1, *length, file), *length);
    (*text)[*length] = '\0';
    (void)fclose(file); /* it was only read */
    (void)remove(path); /* a leftover does no harm */
    return stats;
}

static void equal_seeds_give_equal_figures_and_equal_traces(void **state)
{
    (void)state;
    char *texts[3];
    size_t lengths[3];
    const struct rbt_simulation_stats one = run_traced(7, &texts[0], &lengths[0]);
    const struct rbt_simulation_stats same = run_traced(7, &texts[1], &lengths[1]);
    const struct rbt_simulation_stats other = run_traced(8, &texts[2], &lengths[2]);
    assert_memory_equal(&one, &same, sizeof one);
    assert_true(one.seconds != other.seconds);
    assert_true(one.compute_seconds != other.compute_seconds);
    assert_int_equal(lengths[0], lengths[1]);
    assert_memory_equal(texts[0], texts[1], lengths[0]);
    assert_true(lengths[0] != lengths[2] || memcmp(texts[0], texts[2], lengths[0]) != 0);
    static const char *const contents[] = {"coordinator", "server/2", "worker/2", "worker 5",
                                           "\"compute\"", "\"wait\"", "\"push\"", "\"rows\""};
    for (size_t i = 0; i < sizeof contents / sizeof contents[0]; i++) {
        assert_non_null(strstr(texts[0], contents[i]));
    }
    for (size_t i = 0; i < 3; i++) {
        test_free(texts[i]);
    }
}

static void a_trace_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    rbt_simulation *simulation = NULL;
    const struct rbt_simulation_options options =
        WITH(.struct_size = sizeof options, .trace = "/nowhere/at/all");
    assert_int_equal(rbt_simulation_open(&options, &simulation), RBT_E_IO);
    assert_null(simulation);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void figures_of_nodes_have_names_and_add_up(void **state)
{
    (void)state;
    static const char *const names[] = {"coordinator", "server/0", "server/1", "worker/0",
                                        "worker/1"};
    struct rbt_trial trial;
    struct rbt_simulation_node node = {.struct_size = sizeof node};
    uint64_t sent = 0;
    uint64_t received = 0;
    rbt_trial_pass(&trial, &(struct rbt_trial_options){
                               .cluster = {.threads = 2}, .workers = 3, .servers = 2, .clocks = 3});
    for (uint32_t i = 0; i < 5; i++) {
        assert_ok(rbt_simulation_node(trial.simulation, i, &node));
        assert_string_equal(node.name, names[i]);
        sent += node.bytes_sent;
        received += node.bytes_received;
    }
    assert_fails(rbt_simulation_node(trial.simulation, 5, &node), RBT_E_NOTFOUND, "no node 5");
    assert_int_equal(sent, rbt_trial_stats(&trial).bytes);
    assert_true(received <= sent); /* the last ones were still on their way */
    assert_true(received > 0);
    assert_int_equal(rbt_trial_worker(&trial, 2).clocks, 3);
    assert_int_equal(rbt_trial_worker(&trial, 3).clocks, 0); /* there is none */
    assert_true(rbt_trial_worker(&trial, 3).factor == 0);
    rbt_trial_close(&trial);
}

static rbt_status look_for_three(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    int64_t value = 0;
    const rbt_status st = rbt_get(worker, trial->table, 0, &value);
    trial->wrong_reads += value != 3;
    return st;
}

/* A simulated job is alone: it may have tables in any namespace, and each is another one. */
static void a_job_has_tables_in_several_namespaces(void **state)
{
    (void)state;
    struct rbt_trial trial;
    const struct rbt_table_options counts = {.struct_size = sizeof counts, .type = RBT_I64};
    rbt_trial_open(&trial, &(struct rbt_trial_options){.workers = 3, .servers = 2});
    assert_string_equal(rbt_table_name(trial.table), "main/counts");
    assert_ok(rbt_table_open(trial.job, "away/counts", &counts, &trial.table));
    assert_string_equal(rbt_table_name(trial.table), "away/counts");
    assert_ok(rbt_job_run(trial.job, add_one, &trial));
    assert_ok(rbt_job_run(trial.job, look_for_three, &trial));
    assert_int_equal(trial.wrong_reads, 0);
    assert_int_equal(rbt_trial_value(&trial, 0), 0); /* of the job's first table, main/counts */
    rbt_trial_close(&trial);
}

/* Asks with a struct that ends after its first figure, and with none of the sizes that there were.
 */
#define CHECK_SIZED(call, type, second)                                                            \
    do {                                                                                           \
        enum { CANARY = 0x5A };                                                                    \
        struct type figures;                                                                       \
        memset(&figures, CANARY, sizeof figures);                                                  \
        figures.struct_size = offsetof(struct type, second);                                       \
        assert_ok(call);                                                                           \
        assert_int_equal(figures.struct_size, offsetof(struct type, second));                      \
        for (size_t i = figures.struct_size; i < sizeof figures; i++) {                            \
            assert_int_equal(((const unsigned char *)&figures)[i], CANARY);                        \
        }                                                                                          \
        figures.struct_size = 0;                                                                   \
        assert_fails(call, RBT_E_INVALID, "struct_size is 0");                                     \
        figures.struct_size = sizeof figures + 1;                                                  \
        assert_fails(call, RBT_E_INVALID, "struct_size is");                                       \
    } while (0)

static void figures_end_where_an_older_program_ends(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_pass(&trial, &(struct rbt_trial_options){
                               .cluster = {.racks = 2}, .workers = 3, .servers = 2, .clocks = 3});
    rbt_simulation *simulation = trial.simulation;
    CHECK_SIZED(rbt_simulation_stats(simulation, &figures), rbt_simulation_stats, events);
    CHECK_SIZED(rbt_simulation_worker(simulation, 0, &figures), rbt_simulation_worker,
                transmit_seconds);
    CHECK_SIZED(rbt_simulation_node(simulation, 0, &figures), rbt_simulation_node, bytes_sent);
    CHECK_SIZED(rbt_simulation_rack(simulation, 0, &figures), rbt_simulation_rack, bytes_received);
    struct rbt_simulation_worker worker = {.struct_size = sizeof worker};
    assert_fails(rbt_simulation_worker(simulation, 3, &worker), RBT_E_NOTFOUND, "no worker 3");
    struct rbt_simulation_rack rack = {.struct_size = sizeof rack};
    assert_fails(rbt_simulation_rack(simulation, 2, &rack), RBT_E_NOTFOUND, "no rack 2");
    rbt_trial_close(&trial);
}

static void figures_stay_when_the_job_is_closed(void **state)
{
    (void)state;
    struct rbt_trial trial;
    rbt_trial_pass(&trial, &(struct rbt_trial_options){.workers = 2, .clocks = 3, .spends = 0.1});
    const struct rbt_simulation_stats before = rbt_trial_stats(&trial);
    rbt_job_close(trial.job);
    trial.job = NULL;
    const struct rbt_simulation_stats after = rbt_trial_stats(&trial);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(rbt_trial_worker(&trial, 1).clocks, 3);
    rbt_trial_close(&trial);
}

static void opening_survives_every_failed_allocation(void **state)
{
    (void)state;
    const struct rbt_fault fault = {.kind = RBT_FAULT_PAUSE, .node = "worker/0", .lasts = 1};
    const struct rbt_simulation_options options =
        WITH(.struct_size = sizeof options, .faults = &fault, .fault_count = 1);
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        rbt_simulation *simulation = NULL;
        rbt_job *job = NULL;
        rbt_alloc_fail_nth(nth);
        st = rbt_simulation_open(&options, &simulation);
        st = st != RBT_OK ? st : open_job(simulation, 2, &job);
        rbt_alloc_fail_nth(0);
        rbt_trial_check_memory(st);
        if (simulation != NULL && job == NULL) { /* it can be used all the same */
            assert_ok(open_job(simulation, 2, &job));
        }
        rbt_job_close(job);
        assert_ok(rbt_simulation_close(simulation));
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mistake_in_the_network_has_its_sentence),
        cmocka_unit_test(every_mistake_in_the_speeds_has_its_sentence),
        cmocka_unit_test(every_mistake_in_the_racks_has_its_sentence),
        cmocka_unit_test(every_mistake_in_a_fault_has_its_sentence),
        cmocka_unit_test(the_size_of_the_options_is_checked),
        cmocka_unit_test(a_fault_of_a_node_that_does_not_exist_is_found_when_the_job_is_opened),
        cmocka_unit_test(a_simulation_has_one_job_at_a_time),
        cmocka_unit_test(a_simulation_runs_jobs_one_after_the_other),
        cmocka_unit_test(a_job_runs_several_times_and_figures_add_up),
        cmocka_unit_test(equal_seeds_give_equal_figures_and_equal_traces),
        cmocka_unit_test(a_trace_that_cannot_be_written_is_an_error),
        cmocka_unit_test(figures_of_nodes_have_names_and_add_up),
        cmocka_unit_test(a_job_has_tables_in_several_namespaces),
        cmocka_unit_test(figures_end_where_an_older_program_ends),
        cmocka_unit_test(figures_stay_when_the_job_is_closed),
        cmocka_unit_test(opening_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
