/* sim/stable_test.c - partition synchronisation: no read sees more of one server than of another.
 *
 * Every worker adds 1 to all rows in every clock, and with dynsgd a version counts with the mean of
 * its updates: so a row's value is the number of versions that its server has shown. Rows of
 * different servers that differ in a read are the mixture that must not be. */
#include "base/test.h"

#include "client/client.h"
#include "sim/inspect.h"
#include "sim/trial.h"
#include "store/shard.h"

enum { WORKERS = 6, SERVERS = 4, ROWS = 16, CLOCKS = 60 };

struct walk {
    struct rbt_trial trial;
    rbt_table *weights;
    int64_t mixed;     /* reads with rows that differ */
    int64_t decreased; /* reads with less than the worker's last */
    int64_t wide;      /* reads of what not all servers have */
    float newest;      /* the largest value that anybody has read */
    float seen[WORKERS];
};

/* The lowest version of all servers, as it is at this moment. */
static uint64_t lowest(const struct walk *w)
{
    uint64_t version = UINT64_MAX;
    for (uint32_t i = 0; i < SERVERS; i++) {
        const rbt_shard *shard = rbt_inspect_shard(w->trial.simulation, i);
        const uint64_t other = rbt_shard_version(shard, w->weights->spec.number);
        version = other < version ? other : version;
    }
    return version;
}

static void judge(struct walk *w, uint32_t worker, const float *values)
{
    bool is_mixed = false;
    for (uint32_t i = 1; i < ROWS; i++) {
        is_mixed = is_mixed || values[i] != values[0];
    }
    w->mixed += is_mixed;
    w->decreased += values[0] < w->seen[worker];
    w->wide += values[0] > (float)lowest(w);
    w->seen[worker] = values[0];
    w->newest = values[0] > w->newest ? values[0] : w->newest;
}

static rbt_status walk(rbt_worker *worker, void *argument)
{
    struct walk *w = argument;
    uint64_t keys[ROWS];
    for (uint64_t i = 0; i < ROWS; i++) {
        keys[i] = i;
    }
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, w->weights, keys, ROWS, RBT_SET_DELTAS, &set);
    for (int clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        st = rbt_set_pull(set);
        if (st != RBT_OK) {
            break;
        }
        judge(w, rbt_worker_index(worker), rbt_set_values(set));
        rbt_worker_spend(worker, 1e-3);
        float *deltas = rbt_set_deltas(set);
        for (size_t i = 0; i < ROWS; i++) {
            deltas[i] = 1;
        }
        st = rbt_set_push(set);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static void open_walk(struct walk *w, const struct rbt_simulation_options *cluster,
                      const char *consistency, bool is_synchronised)
{
    *w = (struct walk){0};
    rbt_trial_open(&w->trial, &(struct rbt_trial_options){.cluster = *cluster,
                                                          .workers = WORKERS,
                                                          .servers = SERVERS,
                                                          .consistency = consistency});
    const struct rbt_table_experiments experiments = {.struct_size = sizeof experiments,
                                                      .is_synchronised = is_synchronised};
    const struct rbt_table_options options = {.struct_size = sizeof options,
                                              .type = RBT_F32,
                                              .placement = RBT_PLACE_ROUND_ROBIN,
                                              .rule = "dynsgd",
                                              .experiments = &experiments};
    assert_ok(rbt_table_open(w->trial.job, "weights", &options, &w->weights));
}

/* What a row is when all versions have been folded into it for good. */
static float final_value(const struct walk *w, uint64_t key)
{
    float value = -1;
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = &value};
    struct rbt_shard_effect effects[2];
    struct rbt_shard_outbox out = {.effects = effects};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                          .table = w->weights->spec.number,
                                          .batches = &batch,
                                          .batch_count = 1,
                                          .need = RBT_CLOCK_ANY};
    const uint32_t server = rbt_placement_shard(w->weights->placement, key);
    rbt_shard_step(rbt_inspect_shard(w->trial.simulation, server), &event, &out);
    return value;
}

static struct walk pass(const struct rbt_simulation_options *cluster, const char *consistency,
                        bool is_synchronised)
{
    struct walk w;
    open_walk(&w, cluster, consistency, is_synchronised);
    assert_ok(rbt_job_run(w.trial.job, walk, &w));
    for (uint64_t key = 1; is_synchronised && key < ROWS; key++) { /* the same versions */
        assert_true(final_value(&w, key) == final_value(&w, 0));
    }
    rbt_trial_close(&w.trial);
    return w;
}

/* Some messages take longer than a clock, so that parts of updates come late. */
static const struct rbt_simulation_options late = {
    .jitter = 1e-3, .spike_chance = 0.05, .spike_seconds = 5e-3};

static const char *const consistencies[] = {"ssp:1", "ssp:3", "essp:3", "asp"};

static void reads_never_mix_versions(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct rbt_simulation_options cluster = late;
        cluster.seed = seed;
        cluster.threads = 1 + (uint32_t)seed % 2;
        const char *consistency = consistencies[seed % 4];
        const struct walk without = pass(&cluster, consistency, false);
        assert_true(without.mixed > WORKERS * CLOCKS / 20);
        const struct walk with = pass(&cluster, consistency, true);
        assert_int_equal(with.mixed, 0);
        assert_int_equal(with.decreased, 0);
        assert_int_equal(with.wide, 0);
        assert_true(with.newest > CLOCKS / 2); /* and goes on all the same */
    }
}

static void losses_are_made_good(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct rbt_simulation_options cluster = late;
        cluster.seed = seed;
        cluster.loss = 0.01;
        cluster.duplication = 0.1;
        const struct walk w = pass(&cluster, consistencies[seed % 4], true);
        /* An update that the staleness promises is shown, at all servers, also if its version is
         * beyond the clocks that have begun: some reads are wide. */
        assert_int_equal(w.mixed, 0);
        assert_int_equal(w.decreased, 0);
        assert_true(w.newest > CLOCKS / 3);
    }
}

/* All clocks before are in every server: there is nothing to hide, and nothing is mixed. */
static void reads_that_wait_for_everybody_are_as_without(void **state)
{
    (void)state;
    const struct walk without = pass(&late, "bsp", false);
    const struct walk with = pass(&late, "bsp", true);
    assert_int_equal(without.mixed, 0);
    assert_int_equal(with.mixed, 0);
    assert_true(with.newest == CLOCKS - 1);
    assert_true(with.newest == without.newest);
}

/* A second run goes on where the first has ended, and starts with all of it. */
static void the_next_run_knows_the_versions_of_the_last(void **state)
{
    (void)state;
    struct walk w;
    open_walk(&w, &late, "ssp:3", true);
    assert_ok(rbt_job_run(w.trial.job, walk, &w));
    const uint64_t after = lowest(&w);
    assert_true(after > CLOCKS / 2);
    assert_ok(rbt_job_run(w.trial.job, walk, &w));
    assert_int_equal(w.mixed, 0);
    assert_int_equal(w.decreased, 0);
    assert_true(w.newest > (float)after + CLOCKS / 3);
    rbt_trial_close(&w.trial);
}

/* A table without the option costs nothing. */
static void nobody_is_told_who_has_not_asked(void **state)
{
    (void)state;
    const struct rbt_simulation_options plain = {.seed = 1};
    uint64_t messages[2];
    for (int i = 0; i < 2; i++) {
        struct walk w;
        open_walk(&w, &plain, "ssp:3", i == 1);
        assert_ok(rbt_job_run(w.trial.job, walk, &w));
        messages[i] = rbt_trial_stats(&w.trial).messages;
        rbt_trial_close(&w.trial);
    }
    /* at least, each server says each of its versions, and each process is told of each */
    assert_true(messages[1] > messages[0] + (SERVERS + WORKERS) * CLOCKS / 2);
}

static rbt_status refusal(const char *rule)
{
    struct rbt_trial trial;
    rbt_trial_open(&trial, &(struct rbt_trial_options){0});
    const struct rbt_table_experiments experiments = {.struct_size = sizeof experiments,
                                                      .is_synchronised = true};
    const struct rbt_table_options options = {
        .struct_size = sizeof options, .type = RBT_F32, .rule = rule, .experiments = &experiments};
    rbt_table *table = NULL;
    const rbt_status st = rbt_table_open(trial.job, "weights", &options, &table);
    rbt_trial_close(&trial);
    return st;
}

static void only_rules_with_versions_can_be_synchronised(void **state)
{
    (void)state;
    assert_int_equal(refusal(NULL), RBT_E_INVALID);
    assert_non_null(strstr(rbt_last_error(), "needs a rule with versions"));
    assert_int_equal(refusal("adagrad:lr=0.1"), RBT_E_INVALID);
    assert_non_null(strstr(rbt_last_error(), "rule \"adagrad\" has no versions"));
    assert_int_equal(refusal("dynsgd"), RBT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_never_mix_versions),
        cmocka_unit_test(losses_are_made_good),
        cmocka_unit_test(reads_that_wait_for_everybody_are_as_without),
        cmocka_unit_test(the_next_run_knows_the_versions_of_the_last),
        cmocka_unit_test(nobody_is_told_who_has_not_asked),
        cmocka_unit_test(only_rules_with_versions_can_be_synchronised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
