/* sim/early.c - rows that travel before a clock ends change when they are seen, and nothing
 * else.
 *
 * Worker p adds ones to element p of rows, piece by piece, so that every element says how many of
 * whose additions are in it. After every pull and every exchange, what a worker at clock c sees
 * with staleness s must contain all that anybody has added in clocks <= c-s-1, nothing of clock c+s
 * or later, and exactly what it has added itself; and no row may get older. In the end nothing is
 * missing, and nothing was added twice. Networks lose, repeat and reorder messages.
 *
 *     early AUDIT.SO    the rule that compares what it is told with what updates were computed from
 *
 * Compiled with RBT_MUTANTS, makes one mistake at a time (base/mutant.h) and exits with 1 if one of
 * them is not noticed. */
#include "base/test.h"

#include <stdio.h>
#include <stdlib.h>

#include <rubato/rubato.h>
#include <rubato/simulate.h>

#include "base/alloc.h"
#include "base/mutant.h"
#include "base/rng.h"

enum { WORKERS_MAX = 5, ROWS_MAX = 24, CLOCKS_MAX = 6, PIECES_MAX = 5 };

struct trial {
    uint64_t seed;
    uint32_t workers;
    uint32_t rows;
    int64_t clocks;
    int64_t staleness; /* RBT_STALENESS_ANY: asp */
    bool has_rule;
    rbt_table *table;
    /* By worker, clock and row: what it adds in that clock. Decided before the run. */
    int added[WORKERS_MAX][CLOCKS_MAX][ROWS_MAX];
    char wrong[256]; /* the first thing that was */
    uint64_t looks;
};

static int sum_of(const struct trial *t, uint32_t worker, int64_t clocks, uint32_t row)
{
    int sum = 0;
    for (int64_t clock = 0; clock < clocks && clock < t->clocks; clock++) {
        sum += t->added[worker][clock][row];
    }
    return sum;
}

/* What one worker knows. */
struct view {
    struct trial *trial;
    rbt_worker *worker;
    rbt_set *set;
    int own[ROWS_MAX];                 /* added so far */
    float seen[ROWS_MAX][WORKERS_MAX]; /* the last look */
};

static void complain(struct view *view, uint32_t row, uint32_t other, const char *what)
{
    struct trial *t = view->trial;
    if (t->wrong[0] == '\0') {
        snprintf(t->wrong, sizeof t->wrong,
                 "seed %llu: worker %u at clock %lld sees %g of worker %u in row %u: %s",
                 (unsigned long long)t->seed, rbt_worker_index(view->worker),
                 (long long)rbt_worker_clock(view->worker), (double)view->seen[row][other], other,
                 row, what);
    }
}

static void look(struct view *view, bool is_pull)
{
    struct trial *t = view->trial;
    const float *values = rbt_set_values(view->set);
    const uint32_t self = rbt_worker_index(view->worker);
    const int64_t clock = rbt_worker_clock(view->worker);
    const bool is_bounded = t->staleness != RBT_STALENESS_ANY;
    t->looks++;
    for (uint32_t row = 0; row < t->rows; row++) {
        for (uint32_t p = 0; p < t->workers; p++) {
            const float value = values[row * t->workers + p];
            const float before = view->seen[row][p];
            view->seen[row][p] = value;
            if (value < before && !(is_pull && !is_bounded)) {
                complain(view, row, p, "less than before");
            }
            if (p == self && !t->has_rule && value != (float)view->own[row]) {
                complain(view, row, p, "not what it has added itself");
            }
            if (is_bounded && value < (float)sum_of(t, p, clock - t->staleness, row)) {
                complain(view, row, p, "too old");
            }
            if (is_bounded && p != self && value > (float)sum_of(t, p, clock + t->staleness, row)) {
                complain(view, row, p, "too new");
            }
        }
    }
}

/* Adds what the worker adds to a row in this clock, or a part of it. */
static void add(struct view *view, uint32_t row, int count)
{
    const uint32_t self = rbt_worker_index(view->worker);
    const size_t at = row * view->trial->workers + self;
    ((float *)rbt_set_deltas(view->set))[at] += (float)count;
    if (!view->trial->has_rule) { /* as a worker does that shows itself its own updates */
        ((float *)rbt_set_values(view->set))[at] += (float)count;
    }
    view->own[row] += count;
    rbt_set_touch(view->set, row);
}

static rbt_status work_a_clock(struct view *view, struct rbt_rng *rng)
{
    struct trial *t = view->trial;
    const uint32_t self = rbt_worker_index(view->worker);
    int left[ROWS_MAX];
    memcpy(left, t->added[self][rbt_worker_clock(view->worker)], sizeof left);
    rbt_status st = RBT_OK;
    for (int piece = 0; st == RBT_OK && piece < PIECES_MAX; piece++) {
        for (uint32_t row = 0; row < t->rows; row++) {
            const int count = piece == PIECES_MAX - 1
                                  ? left[row]
                                  : (int)rbt_rng_below(rng, (uint64_t)left[row] + 1);
            left[row] -= count;
            if (count > 0) {
                add(view, row, count);
            }
        }
        rbt_worker_spend(view->worker, rbt_rng_uniform(rng) * 2e-3);
        st = rbt_worker_exchange(view->worker);
        if (st == RBT_OK) {
            look(view, false);
        }
    }
    return st;
}

static rbt_status work(rbt_worker *worker, void *argument)
{
    struct view view = {.trial = argument, .worker = worker};
    struct trial *t = argument;
    struct rbt_rng rng;
    uint64_t keys[ROWS_MAX];
    for (uint64_t i = 0; i < t->rows; i++) {
        keys[i] = i;
    }
    rbt_rng_init(&rng, t->seed, 77, rbt_worker_index(worker));
    rbt_status st = rbt_set_create(worker, t->table, keys, t->rows, RBT_SET_DELTAS, &view.set);
    st = st != RBT_OK ? st : rbt_set_manage(view.set);
    for (int64_t clock = 0; st == RBT_OK && clock < t->clocks; clock++) {
        st = rbt_set_pull(view.set);
        if (st == RBT_OK) {
            look(&view, true);
            st = work_a_clock(&view, &rng);
        }
        st = st != RBT_OK ? st : rbt_set_push(view.set);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    if (st == RBT_OK && t->staleness != RBT_STALENESS_ANY) {
        st = rbt_set_pull_within(view.set, 0);
    }
    rbt_set_destroy(view.set);
    return st;
}

static void draw(struct trial *t, struct rbt_rng *rng)
{
    t->workers = 2 + (uint32_t)rbt_rng_below(rng, WORKERS_MAX - 1);
    t->rows = 1 + (uint32_t)rbt_rng_below(rng, ROWS_MAX);
    t->clocks = 1 + (int64_t)rbt_rng_below(rng, CLOCKS_MAX);
    for (uint32_t p = 0; p < t->workers; p++) {
        for (int64_t clock = 0; clock < t->clocks; clock++) {
            for (uint32_t row = 0; row < t->rows; row++) {
                t->added[p][clock][row] = (int)rbt_rng_below(rng, 4);
            }
        }
    }
}

/* With the rule that compares: every update says which update of the row it was computed from. */
static rbt_status work_audited(rbt_worker *worker, void *argument)
{
    struct trial *t = argument;
    struct rbt_rng rng;
    uint64_t keys[ROWS_MAX];
    rbt_set *set = NULL;
    for (uint64_t i = 0; i < t->rows; i++) {
        keys[i] = i;
    }
    rbt_rng_init(&rng, t->seed, 78, rbt_worker_index(worker));
    rbt_status st = rbt_set_create(worker, t->table, keys, t->rows, RBT_SET_DELTAS, &set);
    st = st != RBT_OK ? st : rbt_set_manage(set);
    for (int64_t clock = 0; st == RBT_OK && clock < t->clocks; clock++) {
        st = rbt_set_pull(set);
        for (int piece = 0; st == RBT_OK && piece < PIECES_MAX; piece++) {
            const float *values = rbt_set_values(set);
            float *deltas = rbt_set_deltas(set);
            for (uint32_t row = 0; row < t->rows; row++) {
                if (rbt_rng_below(&rng, 3) == 0) {
                    deltas[2 * row] += values[2 * row] + 1;
                    deltas[2 * row + 1] += 1;
                    rbt_set_touch(set, row);
                    t->looks++; /* here: updates made */
                }
            }
            rbt_worker_spend(worker, rbt_rng_uniform(&rng) * 2e-3);
            st = rbt_worker_exchange(worker);
        }
        st = st != RBT_OK ? st : rbt_set_push(set);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    rbt_set_destroy(set);
    return st;
}

static rbt_status count_audited(rbt_worker *worker, void *argument)
{
    struct trial *t = argument;
    struct rbt_rows rows = {0};
    if (rbt_worker_index(worker) != 0) {
        return RBT_OK;
    }
    const rbt_status st = rbt_pull_range(worker, t->table, RBT_RANGE_ALL, RBT_STALENESS_ANY, &rows);
    double sum = 0;
    for (size_t i = 0; i < rows.count; i++) {
        sum += (double)((const float *)rows.values)[2 * i + 1];
    }
    if (sum != (double)t->looks) {
        snprintf(t->wrong, sizeof t->wrong, "seed %llu: %g of %llu updates have arrived",
                 (unsigned long long)t->seed, sum, (unsigned long long)t->looks);
    }
    rbt_rows_free(&rows);
    return st;
}

/* What the shards have in the end. */
static rbt_status read_all(rbt_worker *worker, void *argument)
{
    struct trial *t = argument;
    struct rbt_rows rows = {0};
    if (rbt_worker_index(worker) != 0) {
        return RBT_OK;
    }
    rbt_status st = rbt_pull_range(worker, t->table, RBT_RANGE_ALL, RBT_STALENESS_ANY, &rows);
    float sums[ROWS_MAX][WORKERS_MAX] = {{0}};
    for (size_t i = 0; i < rows.count; i++) {
        memcpy(sums[rows.keys[i]], (const float *)rows.values + i * t->workers,
               t->workers * sizeof(float));
    }
    for (uint32_t row = 0; row < t->rows; row++) {
        for (uint32_t p = 0; p < t->workers; p++) {
            if (sums[row][p] != (float)sum_of(t, p, t->clocks, row)) {
                snprintf(t->wrong, sizeof t->wrong,
                         "seed %llu: row %u has %g of worker %u in the end, not %d",
                         (unsigned long long)t->seed, row, (double)sums[row][p], p,
                         sum_of(t, p, t->clocks, row));
            }
        }
    }
    rbt_rows_free(&rows);
    return st;
}

static const char *const consistencies[] = {"bsp", "ssp:1", "ssp:2", "essp:1", "essp:3", "asp"};
static const int64_t stalenesses[] = {0, 1, 2, 1, 3, RBT_STALENESS_ANY};
static const char *const priorities[] = {"oldest", "walk",      "sweep",
                                         "random", "magnitude", "relative"};

enum mode { PLAIN, RULED, AUDITED };
static const char *audit_path;

/* One cluster, as the seed has it; returns how many rows went early. */
static uint64_t try_seed(uint64_t seed, enum mode mode)
{
    const size_t live = rbt_alloc_live();
    struct trial t = {.seed = seed, .has_rule = mode != PLAIN};
    struct rbt_rng rng;
    char audit[512];
    rbt_rng_init(&rng, seed, 1, 2);
    draw(&t, &rng);
    const uint64_t consistency = rbt_rng_below(&rng, 6);
    t.staleness = stalenesses[consistency];
    snprintf(audit, sizeof audit, "%s:rows=1%s", audit_path,
             rbt_rng_below(&rng, 3) == 0 ? ",max=20" : "");
    const struct rbt_simulation_options cluster = {
        .struct_size = sizeof cluster,
        .seed = seed,
        .threads = 1 + (uint32_t)rbt_rng_below(&rng, 2),
        .jitter = rbt_rng_uniform(&rng) * 2e-3,
        .loss = rbt_rng_below(&rng, 2) == 0 ? 0 : 0.002 * rbt_rng_uniform(&rng),
        .duplication = rbt_rng_below(&rng, 2) == 0 ? 0 : 0.2 * rbt_rng_uniform(&rng),
        .straggler_share = 0.3,
        .straggler_factor = 1 + 5 * rbt_rng_uniform(&rng)};
    rbt_simulation *simulation = NULL;
    rbt_job *job = NULL;
    assert_ok(rbt_simulation_open(&cluster, &simulation));
    const struct rbt_job_options options = {.struct_size = sizeof options,
                                            .workers = t.workers,
                                            .shards = 1 + (uint32_t)rbt_rng_below(&rng, 3),
                                            .consistency = consistencies[consistency],
                                            .simulation = simulation,
                                            .bandwidth = UINT64_C(1000) << rbt_rng_below(&rng, 12),
                                            .priority = priorities[rbt_rng_below(&rng, 6)]};
    const struct rbt_table_options table = {.struct_size = sizeof table,
                                            .type = RBT_F32,
                                            .width = mode == AUDITED ? 2 : t.workers,
                                            .rule = mode == AUDITED ? audit
                                                    : mode == RULED ? "add"
                                                                    : NULL};
    assert_ok(rbt_job_open(&options, &job));
    assert_ok(rbt_table_open(job, "counts", &table, &t.table));
    if (rbt_job_run(job, mode == AUDITED ? work_audited : work, &t) != RBT_OK) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, rbt_last_error());
    }
    struct rbt_job_stats stats = {.struct_size = sizeof stats};
    rbt_job_stats(job, &stats);
    assert_true(mode != AUDITED || strstr(audit, "max") == NULL || stats.snapshots_max <= 20);
    assert_ok(rbt_job_run(job, mode == AUDITED ? count_audited : read_all, &t));
    if (t.wrong[0] != '\0') {
        fail_msg("%s (%s, %s)", t.wrong, options.consistency, options.priority);
    }
    rbt_job_close(job);
    assert_ok(rbt_simulation_close(simulation));
    if (mode != AUDITED || seed > 1) { /* the shared object stays when it has been loaded */
        assert_int_equal(rbt_alloc_live(), live);
    }
    return stats.early_sent + stats.early_received;
}

static uint64_t seed_count(uint64_t usual)
{
    const char *text = getenv("RUBATO_SEEDS");
    return text == NULL ? usual : strtoull(text, NULL, 10);
}

static void what_travels_early_changes_nothing_else(void **state)
{
    uint64_t early = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(1000); seed++) {
        early += try_seed(seed, PLAIN);
    }
    assert_true(early > 1000);
}

static void the_same_with_a_rule(void **state)
{
    uint64_t early = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(1000); seed++) {
        early += try_seed(seed, RULED);
    }
    assert_true(early > 1000);
}

static void updates_name_the_read_that_they_were_computed_from(void **state)
{
    uint64_t early = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= seed_count(1000); seed++) {
        early += try_seed(seed, AUDITED);
    }
    assert_true(early > 1000);
}

#ifdef RBT_MUTANTS

enum rbt_mutant rbt_mutant = RBT_MUTANT_NONE;

/* The number of mistakes that were not noticed. */
static int run_all(const struct CMUnitTest *tests, size_t count)
{
    static const enum rbt_mutant mutants[] = {
#define X(name, text) RBT_MUTANT_##name,
        RBT_EARLY_MUTANT_LIST(X)
#undef X
    };
    int missed = 0;
    for (size_t i = 0; i < sizeof mutants / sizeof *mutants; i++) {
        rbt_mutant = mutants[i];
        missed += _cmocka_run_group_tests("early", tests, count, NULL, NULL) == 0;
    }
    return missed;
}

#else

static int run_all(const struct CMUnitTest *tests, size_t count)
{
    return _cmocka_run_group_tests("early", tests, count, NULL, NULL);
}

#endif

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: early AUDIT.SO\n", stderr);
        return 2;
    }
    audit_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_travels_early_changes_nothing_else),
        cmocka_unit_test(the_same_with_a_rule),
        cmocka_unit_test(updates_name_the_read_that_they_were_computed_from),
    };
    return run_all(tests, sizeof tests / sizeof *tests);
}
