/* oracle/filters_test.c - tables with filters: what is kept back comes later, what is rounded is
 * what everybody sees, and what loses nothing changes nothing. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "oracle/rig.h"

enum { KEYS = 12, WIDTH = 3, COUNT = KEYS * WIDTH, WORKERS = 3, CLOCKS = 40 };

struct trial {
    rbt_table *table;
    rbt_set_flags flags;
    uint32_t pushes; /* in a clock */
    /* Written by the worker whose number it has. */
    double made[WORKERS][COUNT];
    double rest[WORKERS][COUNT];
    float seen[WORKERS][COUNT]; /* by the last read that sees everything */
    bool flushes;
    float last[WORKERS][COUNT]; /* with `flushes`: seen after that */
    float left[WORKERS][COUNT]; /* seen when all have left */
};

static uint64_t key_at(size_t row)
{
    return row * row * 1000003;
}

/* Updates are quarters, of which sums are exact. */
static void change(struct trial *trial, struct rbt_rng *rng, uint32_t me, rbt_set *set)
{
    const bool is_in_place = trial->flags == RBT_SET_IN_PLACE;
    float *to = is_in_place ? rbt_set_values(set) : rbt_set_deltas(set);
    for (size_t i = 0; i < COUNT; i++) {
        if (rbt_rng_uniform(rng) < 0.5) {
            const float update = (float)((double)rbt_rng_below(rng, 17) - 8) / 4;
            to[i] += update;
            trial->made[me][i] += (double)update;
        }
    }
}

/* What the set shows, of which `seen` is subtracted later: the difference is what it holds back. */
static void note_rest(struct trial *trial, uint32_t me, rbt_set *set)
{
    const float *deltas = rbt_set_deltas(set);
    for (size_t i = 0; i < COUNT; i++) {
        trial->rest[me][i] = (double)((float *)rbt_set_values(set))[i];
        assert_true(deltas == NULL || deltas[i] == 0); /* they are the worker's own */
    }
}

static rbt_status work(rbt_worker *worker, void *argument)
{
    struct trial *trial = argument;
    const uint32_t me = rbt_worker_index(worker);
    uint64_t keys[KEYS];
    struct rbt_rng rng;
    rbt_set *set = NULL;
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = key_at(i);
    }
    rbt_rng_init(&rng, 3, me, 0);
    TRY(rbt_set_create(worker, trial->table, keys, KEYS, trial->flags, &set));
    for (int clock = 0; clock < CLOCKS; clock++) {
        TRY(rbt_set_pull(set));
        for (uint32_t i = 0; i < trial->pushes; i++) {
            change(trial, &rng, me, set);
            TRY(rbt_set_push(set));
        }
        TRY(rbt_clock(worker));
    }
    TRY(rbt_set_pull_within(set, 0));
    note_rest(trial, me, set);
    const struct rbt_rows rows = {keys, trial->seen[me], KEYS};
    TRY(rbt_pull(worker, trial->table, &rows));
    for (size_t i = 0; i < COUNT; i++) {
        trial->rest[me][i] -= (double)trial->seen[me][i];
    }
    TRY(rbt_clock(worker)); /* nobody flushes before all have looked */
    TRY(rbt_set_pull_within(set, 0));
    if (trial->flushes) {
        TRY(rbt_worker_flush(worker));
        TRY(rbt_clock(worker));
        TRY(rbt_set_pull_within(set, 0));
        memcpy(trial->last[me], rbt_set_values(set), sizeof trial->last[me]);
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

/* What is there when all have left. */
static rbt_status look(rbt_worker *worker, void *argument)
{
    struct trial *trial = argument;
    uint64_t keys[KEYS];
    for (size_t i = 0; i < KEYS; i++) {
        keys[i] = key_at(i);
    }
    const struct rbt_rows rows = {keys, trial->left[rbt_worker_index(worker)], KEYS};
    return rbt_pull(worker, trial->table, &rows);
}

static void run_trial(const char *filter, const char *consistency, struct trial *trial)
{
    rbt_job *job = rig_job(WORKERS, 2, consistency);
    const struct rbt_table_options options = {
        .type = RBT_F32, .width = WIDTH, .seed = 7, .filter = filter};
    trial->table = rig_table(job, "t", options);
    rig_run(job, work, trial);
    rig_run(job, look, trial);
    rbt_job_close(job);
}

/* Workers 0, 1, ... have made these updates, of which this is what has arrived and what has not. */
static double made(const struct trial *trial, size_t i)
{
    double sum = 0;
    for (uint32_t w = 0; w < WORKERS; w++) {
        sum += trial->made[w][i];
    }
    return sum;
}

static double rest(const struct trial *trial, size_t i)
{
    double sum = 0;
    for (uint32_t w = 0; w < WORKERS; w++) {
        sum += trial->rest[w][i];
    }
    return sum;
}

static void nothing_that_is_kept_back_is_lost(void **state)
{
    (void)state;
    const rbt_set_flags flags[] = {RBT_SET_DELTAS, RBT_SET_IN_PLACE};
    const char *const consistencies[] = {"bsp", "ssp:2", "essp:2"};
    const char *const filters[] = {"push.significant:1", "tiny:1.25", "keys,tiny:0.5,push.skip:1"};
    for (int c = 0; c < 36; c++) {
        static struct trial trial;
        trial =
            (struct trial){.flags = flags[c % 2], .pushes = c % 4 < 2 ? 1 : 3, .flushes = c >= 18};
        run_trial(filters[c % 18 / 6], consistencies[c / 2 % 3], &trial);
        double waiting = 0;
        for (size_t i = 0; i < COUNT; i++) {
            assert_true((double)trial.seen[0][i] + rest(&trial, i) == made(&trial, i));
            waiting += fabs(rest(&trial, i));
            assert_true(!trial.flushes || (double)trial.last[0][i] == made(&trial, i));
            assert_true((double)trial.left[0][i] == made(&trial, i));
        }
        assert_true(waiting > 0);
    }
}

/* --- How long updates wait ------------------------------------------------------------------- */

enum { TURNS = 64, LOOKS = 3 * TURNS }; /* docs/filters.md has the first */

struct wait {
    rbt_table *table;
    float seen[LOOKS]; /* by worker 1, of what worker 0 holds back */
};

static rbt_status push_a_little(rbt_worker *worker, void *argument)
{
    struct wait *wait = argument;
    const uint64_t key = 5;
    const bool is_pusher = rbt_worker_index(worker) == 0;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, wait->table, &key, 1, RBT_SET_DELTAS, &set));
    for (int clock = 0; clock < LOOKS; clock++) {
        TRY(rbt_set_pull(set));
        if (!is_pusher) {
            wait->seen[clock] = *(float *)rbt_set_values(set);
        } else {
            *(float *)rbt_set_deltas(set) = clock % TURNS == 0 ? 1 : 0; /* once, and never again */
            TRY(rbt_set_push(set));
        }
        TRY(rbt_clock(worker));
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

static void no_update_waits_for_more_than_so_many_pushes(void **state)
{
    (void)state;
    static struct wait wait;
    rbt_job *job = rig_job(2, 1, "bsp");
    wait.table =
        rig_table(job, "t", (struct rbt_table_options){.type = RBT_F32, .filter = "tiny:1000"});
    rig_run(job, push_a_little, &wait);
    for (int clock = 0; clock < LOOKS; clock++) {
        assert_true(wait.seen[clock] == (float)(clock / TURNS));
    }
    rbt_job_close(job);
}

/* Pulls differ from what the shards have by no more than they may. */
static void reads_are_as_exact_as_the_filter_says(void **state)
{
    (void)state;
    static struct trial trial;
    trial = (struct trial){.flags = RBT_SET_IN_PLACE, .pushes = 1};
    run_trial("pull.significant:1.5", "bsp", &trial);
    double most = 0;
    for (uint32_t w = 0; w < WORKERS; w++) {
        for (size_t i = 0; i < COUNT; i++) { /* here it is the error of the set's copy */
            most = fmax(most, fabs(trial.rest[w][i]));
        }
    }
    assert_true(most > 0);
    assert_true(most <= 1.5);
}

static void what_loses_nothing_changes_nothing(void **state)
{
    (void)state;
    const char *const filters[] = {"keys,changed,zeros,lz4", "zstd", "push.skip:1,tiny:0,changed",
                                   "none", ""};
    static struct trial plain;
    plain = (struct trial){.flags = RBT_SET_DELTAS, .pushes = 2};
    run_trial(NULL, "bsp", &plain);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        static struct trial trial;
        trial = (struct trial){.flags = RBT_SET_DELTAS, .pushes = 2};
        run_trial(filters[i], "bsp", &trial);
        assert_memory_equal(trial.seen, plain.seen, sizeof plain.seen);
        assert_memory_equal(trial.left, plain.left, sizeof plain.left);
    }
}

static void random_filters_do_the_same_every_time(void **state)
{
    (void)state;
    static struct trial first;
    static struct trial second;
    first = (struct trial){.flags = RBT_SET_DELTAS, .pushes = 2};
    second = first;
    run_trial("skip:0.5,fixed:6", "bsp", &first);
    run_trial("skip:0.5,fixed:6", "bsp", &second);
    assert_memory_equal(first.seen, second.seen, sizeof first.seen);
}

/* --- Rounding -------------------------------------------------------------------------------- */

static const float odd = 1.0F + 0x1p-12F; /* f16 makes 1 of it */

static rbt_status round_rows(rbt_worker *worker, void *argument)
{
    rbt_table *table = *(rbt_table **)argument;
    const uint64_t key = 5;
    float value = 0;
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, table, &key, 1, RBT_SET_DELTAS, &set));
    for (int i = 0; i < 2; i++) { /* one by one: the sum would be 2 + 2^-11, and be rounded anew */
        *(float *)rbt_set_deltas(set) = odd;
        TRY(rbt_set_push(set));
        CHECK(*(float *)rbt_set_deltas(set) == 0);
    }
    TRY(rbt_set_pull(set));
    CHECK(*(float *)rbt_set_values(set) == 2); /* own updates are seen as the shards will */
    TRY(rbt_clock(worker));
    TRY(rbt_set_pull_within(set, 0));
    CHECK(*(float *)rbt_set_values(set) == 2);
    const struct rbt_rows rows = {(uint64_t *)&key, (float *)&odd, 1};
    TRY(rbt_push(worker, table, &rows));
    TRY(rbt_add(worker, table, key, &odd));
    TRY(rbt_clock(worker));
    TRY(rbt_get_within(worker, table, key, 0, &value));
    CHECK(value == 4);
    rbt_set_destroy(set);
    return RBT_OK;
}

static void rounded_updates_are_what_everybody_sees(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "ssp:1");
    const struct rbt_table_options options = {.type = RBT_F32, .filter = "push.f16"};
    rbt_table *table = rig_table(job, "t", options);
    rig_run(job, round_rows, &table);
    rbt_job_close(job);
}

static rbt_status read_rounded(rbt_worker *worker, void *argument)
{
    rbt_table *table = *(rbt_table **)argument;
    const uint64_t key = 5;
    float value = 0;
    TRY(rbt_add(worker, table, key, &odd));
    TRY(rbt_clock(worker));
    TRY(rbt_get_within(worker, table, key, 0, &value));
    CHECK(value == 1);
    struct rbt_rows rows = {(uint64_t *)&key, &value, 1};
    value = 0;
    TRY(rbt_pull(worker, table, &rows));
    CHECK(value == 1);
    TRY(rbt_pull_range(worker, table, RBT_RANGE_ALL, 0, &rows)); /* as it is */
    CHECK(*(float *)rows.values == odd);
    rbt_rows_free(&rows);
    return RBT_OK;
}

static void rows_that_are_read_are_rounded(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "bsp");
    const struct rbt_table_options options = {.type = RBT_F32, .filter = "pull.f16"};
    rbt_table *table = rig_table(job, "t", options);
    rig_run(job, read_rounded, &table);
    rbt_job_close(job);
}

/* --- Options --------------------------------------------------------------------------------- */

static void wrong_filters_are_refused(void **state)
{
    (void)state;
    const struct {
        rbt_type type;
        const char *filter;
        const char *says;
    } wrong[] = {{RBT_F32, "quux", "no filter \"quux\""},
                 {RBT_F32, "fixed:99", "at most 24"},
                 {RBT_F32, "f16,bf16", "both round"},
                 {RBT_I64, "tiny:1", "dense tables of f32 that add"},
                 {RBT_F64, "keys,f16", "dense tables of f32 that add"},
                 {RBT_F32, "pull.kkt:1", "for updates (push) only"}};
    rbt_job *job = rig_job(1, 1, "bsp");
    rbt_table *table = NULL;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const struct rbt_table_options options = {
            .struct_size = sizeof options, .type = wrong[i].type, .filter = wrong[i].filter};
        assert_fails(rbt_table_open(job, "t", &options, &table), RBT_E_INVALID, wrong[i].says);
    }
    struct rbt_table_options options = {.struct_size = sizeof options, .filter = "keys,lz4"};
    assert_ok(rbt_table_open(job, "t", &options, &table));
    assert_ok(rbt_table_open(job, "t", &options, &table));
    options.filter = "keys";
    assert_fails(rbt_table_open(job, "t", &options, &table), RBT_E_INVALID, "other options");
    options.filter = NULL;
    assert_fails(rbt_table_open(job, "t", &options, &table), RBT_E_INVALID, "other options");
    options.filter = "none";
    assert_ok(rbt_table_open(job, "u", &options, &table));
    options.filter = NULL;
    assert_ok(rbt_table_open(job, "u", &options, &table));
    rbt_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_that_is_kept_back_is_lost),
        cmocka_unit_test(no_update_waits_for_more_than_so_many_pushes),
        cmocka_unit_test(reads_are_as_exact_as_the_filter_says),
        cmocka_unit_test(what_loses_nothing_changes_nothing),
        cmocka_unit_test(random_filters_do_the_same_every_time),
        cmocka_unit_test(rounded_updates_are_what_everybody_sees),
        cmocka_unit_test(rows_that_are_read_are_rounded),
        cmocka_unit_test(wrong_filters_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
