/* sim/versions.c - simulated clusters with faults, and tables whose rule compares what it is told
 * with what updates were computed from (rules/audit.c).
 *
 *     versions AUDIT.SO FIRST LAST
 *
 * Compiled with RBT_MUTANTS, makes one mistake at a time (base/mutant.h) and sees to it that each
 * is noticed at one of these seeds. TAP: one line per mistake.
 *
 * The cluster, its network and its faults are those of the seed in sim/scenario.c. There are two
 * tables: of one all workers use all rows, as sets; of the other one row is updated by itself, and
 * another only read. Besides what the rule finds, no update must be lost or count twice, and
 * nothing must be kept when everybody is gone. Exits with 1 when something is wrong. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutant.h"
#include "base/rng.h"
#include "client/client.h"
#include "core/placement.h"
#include "sim/inspect.h"
#include "sim/scenario.h"

enum { KEYS = 9, WIDTH = 2, TABLES = 2 };

struct trial {
    struct sim_scenario plan;
    char rule[512];
    const char *consistency;
    rbt_simulation *simulation;
    rbt_job *job;
    rbt_table *tables[TABLES];
    double pushed[TABLES][SIM_WORKERS_MAX]; /* updates of each row; of row 0, of the second table */
    bool is_wrong;
};

static bool is_quiet;

/* An update that says what it was computed from. */
static void make_update(float *delta, const float *read)
{
    delta[0] += read[0] + 1;
    delta[1] += 1;
}

/* Reads the set and updates all of it; sometimes again from the same read, or from another one. */
static rbt_status use_set(struct trial *trial, rbt_worker *worker, struct rbt_rng *rng,
                          rbt_set *set)
{
    rbt_status st = rbt_set_pull(set);
    const uint64_t times = 1 + rbt_rng_below(rng, 3);
    for (uint64_t i = 0; st == RBT_OK && i < times; i++) {
        const float *values = rbt_set_values(set);
        float *deltas = rbt_set_deltas(set);
        for (uint32_t k = 0; k < KEYS; k++) {
            make_update(deltas + (size_t)WIDTH * k, values + (size_t)WIDTH * k);
        }
        rbt_worker_spend(worker, trial->plan.compute);
        st = rbt_set_push(set);
        if (st == RBT_OK) {
            trial->pushed[0][rbt_worker_index(worker)]++;
        }
        if (st == RBT_OK && rbt_rng_below(rng, 3) == 0) {
            st = rbt_set_pull(set);
        }
    }
    return st;
}

static rbt_status use_row(struct trial *trial, rbt_worker *worker, struct rbt_rng *rng)
{
    float values[WIDTH];
    const bool is_fresh = rbt_rng_below(rng, 4) == 0;
    if (rbt_rng_below(rng, 3) == 0) { /* nobody updates it, but it may take the other's place */
        const rbt_status other = rbt_get(worker, trial->tables[1], 6, values);
        if (other != RBT_OK || rbt_rng_below(rng, 2) == 0) {
            return other;
        }
    }
    rbt_status st = is_fresh ? rbt_get_within(worker, trial->tables[1], 5, 0, values)
                             : rbt_get(worker, trial->tables[1], 5, values);
    if (st == RBT_OK && rbt_rng_below(rng, 4) != 0) {
        float delta[WIDTH] = {0};
        make_update(delta, values);
        st = rbt_add(worker, trial->tables[1], 5, delta);
        if (st == RBT_OK) {
            trial->pushed[1][rbt_worker_index(worker)]++;
        }
    }
    return st;
}

static rbt_status work(rbt_worker *worker, void *argument)
{
    struct trial *trial = argument;
    const uint32_t me = rbt_worker_index(worker);
    struct rbt_rng rng;
    rbt_rng_init(&rng, trial->plan.seed, 77, me);
    uint64_t keys[KEYS];
    for (uint64_t k = 0; k < KEYS; k++) {
        keys[k] = k;
    }
    rbt_set *set = NULL;
    rbt_status st = rbt_set_create(worker, trial->tables[0], keys, KEYS, RBT_SET_DELTAS, &set);
    for (int64_t clock = 0; st == RBT_OK && clock < trial->plan.clocks[me]; clock++) {
        if (rbt_rng_below(&rng, 8) != 0) { /* else it does not read, or update, in this clock */
            st = use_set(trial, worker, &rng, set);
        }
        for (uint64_t i = rbt_rng_below(&rng, 4); st == RBT_OK && i > 0; i--) {
            st = use_row(trial, worker, &rng);
        }
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static rbt_status open_trial(struct trial *trial)
{
    struct rbt_table_options table = {.struct_size = sizeof table,
                                      .width = WIDTH,
                                      .rule = trial->rule,
                                      .consistency = trial->consistency};
    rbt_status st = rbt_simulation_open(&trial->plan.cluster, &trial->simulation);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_job_options options = {.struct_size = sizeof options,
                                            .workers = trial->plan.workers,
                                            .shards = trial->plan.servers,
                                            .simulation = trial->simulation};
    st = rbt_job_open(&options, &trial->job);
    st = st != RBT_OK ? st : rbt_table_open(trial->job, "sets", &table, &trial->tables[0]);
    table.cache_rows = trial->plan.seed % 3 == 0 ? 0 : 1;
    return st != RBT_OK ? st : rbt_table_open(trial->job, "row", &table, &trial->tables[1]);
}

static void complain(struct trial *trial, const char *what)
{
    if (!trial->is_wrong && !is_quiet) {
        printf("seed %llu, %s: %s\n", (unsigned long long)trial->plan.seed, trial->consistency,
               what);
        sim_scenario_print(&trial->plan, stdout);
    }
    trial->is_wrong = true;
}

/* The row as its server has it. */
static void read_row(const struct trial *trial, uint32_t table, uint64_t key, float *row)
{
    struct rbt_batch batch = {.table = table, .count = 1, .keys = &key, .values = row};
    struct rbt_shard_effect effects[2];
    struct rbt_shard_outbox out = {.effects = effects};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                          .table = table,
                                          .batches = &batch,
                                          .batch_count = 1,
                                          .need = RBT_CLOCK_ANY};
    const uint32_t server = rbt_placement_shard(trial->tables[table]->placement, key);
    rbt_shard_step(rbt_inspect_shard(trial->simulation, server), &event, &out);
}

/* Every update is there once. */
static void check_sums(struct trial *trial, uint32_t table)
{
    double made = 0;
    char text[128];
    for (uint32_t w = 0; w < trial->plan.workers; w++) {
        made += trial->pushed[table][w];
    }
    for (uint64_t k = table == 0 ? 0 : 5; k < (table == 0 ? KEYS : 6); k++) {
        float row[WIDTH] = {0};
        read_row(trial, table, k, row);
        if ((double)row[1] != made) {
            snprintf(text, sizeof text, "table %u, row %llu: %g updates of %g", table,
                     (unsigned long long)k, (double)row[1], made);
            complain(trial, text);
        }
    }
}

static void check_end(struct trial *trial, rbt_status st, uint64_t *snapshots)
{
    if (st != RBT_OK) {
        if (trial->plan.doomed[0] == '\0') {
            complain(trial, rbt_last_error());
        }
        return;
    }
    check_sums(trial, 0);
    check_sums(trial, 1);
    for (uint32_t i = 0; i < trial->plan.servers; i++) {
        struct rbt_shard_stats stats;
        rbt_shard_stats(rbt_inspect_shard(trial->simulation, i), &stats);
        *snapshots += stats.snapshots_max;
        if (stats.snapshots != 0) {
            complain(trial, "snapshots are kept for nobody");
        }
    }
}

static bool run_seed(uint64_t seed, const char *rule, uint64_t *snapshots)
{
    static const char *const consistencies[] = {"bsp",    "ssp:1",  "ssp:3",  "essp:1",
                                                "essp:2", "essp:6", "essp:0", "asp"};
    static struct trial trial;
    trial = (struct trial){.consistency = consistencies[seed % 8]};
    snprintf(trial.rule, sizeof trial.rule, "%s%s", rule, seed % 5 == 0 ? ":max=4" : "");
    sim_scenario_draw(seed, &trial.plan);
    rbt_status st = open_trial(&trial);
    if (st == RBT_OK) {
        st = rbt_job_run(trial.job, work, &trial);
    }
    check_end(&trial, st, snapshots);
    rbt_job_close(trial.job);
    if (rbt_simulation_close(trial.simulation) != RBT_OK) {
        complain(&trial, rbt_last_error());
    }
    return !trial.is_wrong;
}

struct seeds {
    const char *rule;
    uint64_t first;
    uint64_t last;
    uint64_t snapshots; /* that were made */
};

/* How many are wrong; ends with the first when nobody wants to hear of them. */
static uint64_t run_seeds(struct seeds *seeds)
{
    uint64_t wrong = 0;
    for (uint64_t seed = seeds->first; seed <= seeds->last && (wrong == 0 || !is_quiet); seed++) {
        wrong += !run_seed(seed, seeds->rule, &seeds->snapshots);
    }
    return wrong;
}

#ifdef RBT_MUTANTS

enum rbt_mutant rbt_mutant = RBT_MUTANT_NONE;

static int run_all(struct seeds *seeds)
{
    static const char *const texts[] = {
#define X(name, text) text,
        RBT_RULE_MUTANT_LIST(X)
#undef X
    };
    const int count = sizeof texts / sizeof *texts;
    bool is_good = true;
    is_quiet = true;
    printf("1..%d\n", count);
    for (int i = 0; i < count; i++) {
        rbt_mutant = (enum rbt_mutant)(RBT_MUTANT_COUNT + 1 + i);
        const bool is_caught = run_seeds(seeds) > 0;
        printf("%s %d - %s\n", is_caught ? "ok" : "not ok", i + 1, texts[i]);
        is_good = is_good && is_caught;
    }
    return is_good ? 0 : 1;
}

#else

static int run_all(struct seeds *seeds)
{
    const uint64_t wrong = run_seeds(seeds);
    printf("%llu wrong, %llu snapshots\n", (unsigned long long)wrong,
           (unsigned long long)seeds->snapshots);
    return wrong == 0 && seeds->snapshots > 0 ? 0 : 1;
}

#endif

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "versions: error: versions AUDIT.SO FIRST LAST\n");
        return 2;
    }
    struct seeds seeds = {
        .rule = argv[1], .first = strtoull(argv[2], NULL, 10), .last = strtoull(argv[3], NULL, 10)};
    return run_all(&seeds);
}
