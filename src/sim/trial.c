/* sim/trial.c - what the tests of the simulator have in common. */
#include "sim/trial.h"

#include <math.h>

#include "base/alloc.h"
#include "client/client.h"
#include "sim/inspect.h"
#include "store/shard.h"

static void fill_defaults(struct rbt_trial_options *options)
{
    options->cluster.struct_size = sizeof options->cluster;
    options->workers = options->workers == 0 ? 1 : options->workers;
    options->servers = options->servers == 0 ? 1 : options->servers;
    options->consistency = options->consistency == NULL ? "bsp" : options->consistency;
    options->width = options->width == 0 ? 1 : options->width;
    options->rows = options->rows == 0 ? 1 : options->rows;
}

void rbt_trial_open(struct rbt_trial *trial, const struct rbt_trial_options *options)
{
    *trial = (struct rbt_trial){.options = *options, .live = rbt_alloc_live()};
    fill_defaults(&trial->options);
    assert_true(trial->options.rows <= RBT_TRIAL_ROWS_MAX);
    assert_ok(rbt_simulation_open(&trial->options.cluster, &trial->simulation));
    rbt_inspect_frames(trial->simulation, &trial->options.frames);
    const struct rbt_job_options job = {.struct_size = sizeof job,
                                        .workers = trial->options.workers,
                                        .shards = trial->options.servers,
                                        .consistency = trial->options.consistency,
                                        .simulation = trial->simulation};
    const struct rbt_table_options table = {
        .struct_size = sizeof table, .type = RBT_I64, .width = trial->options.width};
    assert_ok(rbt_job_open(&job, &trial->job));
    assert_ok(rbt_table_open(trial->job, "counts", &table, &trial->table));
}

void rbt_trial_close(struct rbt_trial *trial)
{
    rbt_job_close(trial->job);
    assert_ok(rbt_simulation_close(trial->simulation));
    assert_int_equal(rbt_alloc_live(), trial->live);
}

void rbt_trial_pass(struct rbt_trial *trial, const struct rbt_trial_options *options)
{
    rbt_trial_open(trial, options);
    assert_ok(rbt_job_run(trial->job, rbt_trial_walk, trial));
    assert_int_equal(trial->wrong_reads, 0);
    for (uint32_t row = 0; !options->is_reading && row < trial->options.rows; row++) {
        assert_int_equal(rbt_trial_value(trial, row), options->clocks * trial->options.workers);
    }
}

static void note_pull(struct rbt_trial *trial, rbt_worker *worker, const rbt_set *set, double began)
{
    const int64_t clock = rbt_worker_clock(worker);
    const int64_t lag = clock - rbt_set_clock(set);
    const double seconds = rbt_worker_seconds(worker) - began;
    trial->lags[lag < 0 ? 0 : lag < RBT_TRIAL_LAGS ? lag : RBT_TRIAL_LAGS - 1]++;
    if (rbt_worker_index(worker) == 0) {
        trial->first_pull_seconds = clock == 0 ? seconds : trial->first_pull_seconds;
        trial->last_pull_seconds = seconds;
    }
}

/* What everybody has added when everybody has ended `clock` clocks. */
static int64_t due(const struct rbt_trial *trial, int64_t clock)
{
    if (trial->options.is_reading) {
        return clock > 0;
    }
    return clock * trial->options.workers;
}

static void judge(struct rbt_trial *trial, rbt_worker *worker, rbt_set *set)
{
    const int64_t *values = rbt_set_values(set);
    const size_t count = rbt_set_count(set) * trial->options.width;
    const int64_t wanted = due(trial, rbt_worker_clock(worker));
    for (size_t i = 0; strcmp(trial->options.consistency, "bsp") == 0 && i < count; i++) {
        trial->wrong_reads += values[i] != wanted;
    }
}

static rbt_status update(struct rbt_trial *trial, rbt_worker *worker, rbt_set *set)
{
    int64_t *deltas = rbt_set_deltas(set);
    if (trial->options.is_reading &&
        (rbt_worker_index(worker) != 0 || rbt_worker_clock(worker) != 0)) {
        return RBT_OK;
    }
    for (size_t i = 0; i < rbt_set_count(set) * trial->options.width; i++) {
        deltas[i] = 1;
    }
    return rbt_set_push(set);
}

rbt_status rbt_trial_walk(rbt_worker *worker, void *argument)
{
    struct rbt_trial *trial = argument;
    uint64_t keys[RBT_TRIAL_ROWS_MAX];
    for (uint64_t i = 0; i < trial->options.rows; i++) {
        keys[i] = i;
    }
    rbt_set *set = NULL;
    rbt_status st =
        rbt_set_create(worker, trial->table, keys, trial->options.rows, RBT_SET_DELTAS, &set);
    for (int64_t clock = 0; st == RBT_OK && clock < trial->options.clocks; clock++) {
        const double began = rbt_worker_seconds(worker);
        st = rbt_set_pull(set);
        if (st == RBT_OK) {
            note_pull(trial, worker, set, began);
            judge(trial, worker, set);
            rbt_worker_spend(worker, trial->options.spends);
            st = update(trial, worker, set);
        }
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    if (rbt_worker_index(worker) < sizeof trial->ended_seconds / sizeof(double)) {
        trial->ended_seconds[rbt_worker_index(worker)] = rbt_worker_seconds(worker);
    }
    return st;
}

int64_t rbt_trial_value(struct rbt_trial *trial, uint64_t key)
{
    int64_t row[64] = {0};
    assert_true(trial->options.width <= 64);
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = row};
    struct rbt_shard_effect effects[2];
    struct rbt_shard_outbox out = {.effects = effects};
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_PULL, .batches = &batch, .batch_count = 1, .need = RBT_CLOCK_ANY};
    const uint32_t server = rbt_placement_shard(trial->table->placement, key);
    rbt_shard_step(rbt_inspect_shard(trial->simulation, server), &event, &out);
    return row[0];
}

struct rbt_simulation_stats rbt_trial_stats(const struct rbt_trial *trial)
{
    struct rbt_simulation_stats stats = {.struct_size = sizeof stats};
    rbt_simulation_stats(trial->simulation, &stats);
    return stats;
}

struct rbt_simulation_worker rbt_trial_worker(const struct rbt_trial *trial, uint32_t index)
{
    struct rbt_simulation_worker worker = {.struct_size = sizeof worker};
    rbt_simulation_worker(trial->simulation, index, &worker);
    return worker;
}

void rbt_trial_check_memory(rbt_status st)
{
    const char *why = rbt_last_error();
    const bool is_told = strstr(why, "memory") != NULL || strstr(why, "allocate") != NULL;
    if (st != RBT_OK && st != RBT_E_NOMEM && !is_told) {
        fail_msg("%s: %s", rbt_status_text(st), rbt_last_error());
    }
}

void rbt_trial_near(double a, double b, double slack)
{
    if (!(fabs(a - b) <= slack)) {
        fail_msg("%.9g is not within %.3g of %.9g", a, slack, b);
    }
}
