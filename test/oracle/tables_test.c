/* oracle/tables_test.c - tables and rows, and their initial values.
 *
 * What belongs to types and layouts on every path is in matrix_test.c. */
#include "base/test.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/rng.h"
#include "oracle/rig.h"

enum { TABLES = 1000 };

static rbt_status fill_many_tables(rbt_worker *worker, void *argument)
{
    rbt_table **tables = argument;
    for (int64_t i = 0; i < TABLES; i++) {
        const int64_t value = i + 1;
        TRY(rbt_add_at(worker, tables[i], 5, (uint32_t)(i % 3), &value));
    }
    TRY(rbt_clock(worker));
    for (int64_t i = 0; i < TABLES; i++) {
        int64_t row[3];
        TRY(rbt_get(worker, tables[i], 5, row));
        for (int64_t e = 0; e < 3; e++) {
            CHECK(row[e] == (e == i % 3 ? 2 * (i + 1) : 0));
        }
    }
    return RBT_OK;
}

static void a_thousand_tables_are_independent(void **state)
{
    (void)state;
    static rbt_table *tables[TABLES];
    rbt_job *job = rig_job(2, 2, "bsp");
    for (int i = 0; i < TABLES; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "main/table-%d", i);
        tables[i] = rig_table(job, strchr(name, '/') + 1,
                              (struct rbt_table_options){.type = RBT_I64, .width = 3});
        assert_string_equal(rbt_table_name(tables[i]), name); /* with its namespace */
        assert_int_equal(rbt_table_width(tables[i]), 3);
        assert_int_equal(rbt_table_type(tables[i]), RBT_I64);
    }
    rig_run(job, fill_many_tables, tables);
    assert_int_equal(rig_stats(job).rows, TABLES);
    rbt_job_close(job);
}

static rbt_status fill_namespaces(rbt_worker *worker, void *argument)
{
    rbt_table **tables = argument;
    for (int64_t i = 0; i < 3; i++) {
        const int64_t value = i + 1;
        TRY(rbt_add(worker, tables[i], 1, &value));
    }
    TRY(rbt_clock(worker));
    for (int64_t i = 0; i < 3; i++) {
        int64_t value = 0;
        TRY(rbt_get(worker, tables[i], 1, &value));
        CHECK(value == i + 1);
    }
    return RBT_OK;
}

static void the_same_name_in_two_namespaces_is_two_tables(void **state)
{
    (void)state;
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 1, .consistency = "bsp", .name_space = "home"};
    const struct rbt_table_options counts = {.type = RBT_I64};
    rbt_job *job = NULL;
    assert_ok(rbt_job_open(&options, &job));
    rbt_table *tables[] = {rig_table(job, "x", counts), rig_table(job, "away/x", counts),
                           rig_table(job, "main/x", counts)};
    assert_ptr_equal(rig_table(job, "home/x", counts), tables[0]);
    assert_ptr_equal(rig_table(job, "x", counts), tables[0]);
    assert_ptr_not_equal(tables[0], tables[1]);
    rig_run(job, fill_namespaces, tables);
    rbt_job_close(job);
}

/* In a cluster another namespace is another job, whose tables these are not. */
static void a_job_in_a_cluster_has_the_tables_of_its_namespace(void **state)
{
    (void)state;
    const struct rbt_table_options counts = {.struct_size = sizeof counts, .type = RBT_I64};
    rbt_job *job = rig_job(1, 2, "bsp");
    rbt_table *table = rig_table(job, "x", counts);
    assert_string_equal(rbt_table_name(table), "main/x");
    assert_ptr_equal(rig_table(job, "main/x", counts), table);
    static const char *const others[] = {"away/x", "mai/x", "main2/x", "/x"};
    const bool is_alone = getenv("RIG_CLUSTER") == NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        rbt_table *other = NULL;
        if (is_alone) {
            assert_ok(rbt_table_open(job, others[i], &counts, &other));
            assert_string_equal(rbt_table_name(other), others[i]);
            continue;
        }
        assert_fails(rbt_table_open(job, others[i], &counts, &other), RBT_E_INVALID,
                     "is in another namespace than its job, \"main\"");
        assert_null(other);
    }
    rbt_job_close(job);
}

enum { TORN_WIDTH = 61, TORN_CLOCKS = 150 };

/* Everybody adds the same number to all elements, and reads. */
static rbt_status look_for_torn_rows(rbt_worker *worker, void *argument)
{
    rbt_table *table = argument;
    int64_t row[TORN_WIDTH];
    for (int64_t c = 0; c < TORN_CLOCKS; c++) {
        for (int i = 0; i < TORN_WIDTH; i++) {
            row[i] = c + 1;
        }
        TRY(rbt_add(worker, table, 9, row));
        for (int turn = 0; turn < 3; turn++) {
            TRY(rbt_get(worker, table, 9, row));
            for (int i = 1; i < TORN_WIDTH; i++) {
                CHECK(row[i] == row[0]);
            }
        }
        TRY(rbt_clock(worker));
    }
    return RBT_OK;
}

static void elements_that_are_written_together_are_read_together(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"asp", "ssp:2", "essp:1"};
    for (int i = 0; i < 3 * 4 * 3; i++) {
        rbt_job *job = rig_job(4, 1, consistencies[i % 3]);
        const struct rbt_table_options options = {
            .type = RBT_I64,
            .width = TORN_WIDTH,
            .cache = (rbt_cache)(i / 3 % 4),
            .overlay = i / 12 == 2 ? RBT_OVERLAY_PROCESS : RBT_OVERLAY_OWN,
            .partial = i / 12 == 1 ? RBT_PARTIAL_SHOW : RBT_PARTIAL_HIDE};
        rig_run(job, look_for_torn_rows, rig_table(job, "rows", options));
        rbt_job_close(job);
    }
}

struct pair {
    rbt_table *table;
    struct rig_gate gate;
};

/* Worker 0's subtraction is seen by worker 1 after worker 0's clock and not before. */
static rbt_status subtract(rbt_worker *worker, void *argument)
{
    struct pair *pair = argument;
    const int64_t minus = -5;
    int64_t value = 1;
    if (rbt_worker_index(worker) == 0) {
        TRY(rbt_add(worker, pair->table, 3, &minus));
        TRY(rbt_get(worker, pair->table, 3, &value));
        CHECK(value == -5);
        rig_post(&pair->gate);
        AWAIT(&pair->gate, 2);
        TRY(rbt_clock(worker));
        rig_post(&pair->gate);
        AWAIT(&pair->gate, 4);
        return RBT_OK;
    }
    AWAIT(&pair->gate, 1);
    TRY(rbt_get(worker, pair->table, 3, &value));
    CHECK(value == 0);
    rig_post(&pair->gate);
    AWAIT(&pair->gate, 3);
    TRY(rbt_clock(worker));
    TRY(rbt_get_within(worker, pair->table, 3, 0, &value));
    CHECK(value == -5);
    rig_post(&pair->gate);
    return RBT_OK;
}

static void updates_may_be_negative_and_are_seen_by_others_after_the_clock(void **state)
{
    (void)state;
    static const char *const consistencies[] = {"bsp", "ssp:3", "essp:3", "asp"};
    for (int i = 0; i < 16; i++) {
        rbt_job *job = rig_job(2, 1, consistencies[i % 4]);
        struct pair pair = {.table = rig_table(job, "counts",
                                               (struct rbt_table_options){
                                                   .type = RBT_I64, .cache = (rbt_cache)(i / 4)})};
        rig_run(job, subtract, &pair);
        rbt_job_close(job);
    }
}

static rbt_status add_elements_and_singles(rbt_worker *worker, void *argument)
{
    rbt_table *table = argument;
    uint32_t index[] = {0, 3, 9};
    int64_t values[] = {5, -7, 11};
    const struct rbt_elements elements = {index, values, 3, 3};
    TRY(rbt_add_elements(worker, table, 1, &elements));
    for (size_t i = 0; i < 3; i++) {
        TRY(rbt_add_at(worker, table, 2, index[i], &values[i]));
    }
    TRY(rbt_clock(worker));
    int64_t one[10];
    int64_t two[10];
    TRY(rbt_get(worker, table, 1, one));
    TRY(rbt_get(worker, table, 2, two));
    CHECK(memcmp(one, two, sizeof one) == 0);
    CHECK(one[0] == 10 && one[3] == -14 && one[9] == 22 && one[1] == 0);
    return RBT_OK;
}

static void several_elements_at_once_equal_one_by_one(void **state)
{
    (void)state;
    rbt_job *job = rig_job(2, 1, "bsp");
    rig_run(job, add_elements_and_singles, rig_counts(job, 10));
    rbt_job_close(job);
}

/* --- Many threads, mixed operations, nothing is lost ----------------------------------------- */

enum { MIX_TABLES = 4, MIX_KEYS = 50, MIX_WIDTH = 4 };

struct mix {
    rbt_table *tables[MIX_TABLES];
    int operations;
    uint64_t seed;
    _Atomic int64_t sums[MIX_TABLES];
};

static rbt_status mix_once(rbt_worker *worker, struct mix *mix, struct rbt_rng *rng)
{
    const size_t which = rbt_rng_below(rng, MIX_TABLES);
    rbt_table *table = mix->tables[which];
    const uint64_t key = rbt_hash_key(rbt_rng_below(rng, MIX_KEYS));
    const int64_t amount = (int64_t)rbt_rng_below(rng, 21) - 10;
    int64_t row[MIX_WIDTH] = {amount, amount, amount, amount};
    uint32_t index[MIX_WIDTH] = {0, 1, 2, 3};
    struct rbt_elements elements = {index, row, MIX_WIDTH, MIX_WIDTH};
    switch (rbt_rng_below(rng, 8)) {
    case 0:
    case 1:
        atomic_fetch_add(&mix->sums[which], amount);
        return rbt_add_at(worker, table, key, (uint32_t)rbt_rng_below(rng, MIX_WIDTH), row);
    case 2:
        atomic_fetch_add(&mix->sums[which], MIX_WIDTH * amount);
        return rbt_add_elements(worker, table, key, &elements);
    case 3:
    case 4:
        return which == 1 ? rbt_get_sparse(worker, table, key, &elements)
                          : rbt_get(worker, table, key, row);
    case 5: {
        uint64_t one_key = key;
        const struct rbt_rows rows = {&one_key, row, 1};
        if (which == 1) {
            return RBT_OK;
        }
        atomic_fetch_add(&mix->sums[which], MIX_WIDTH * amount);
        return rbt_push(worker, table, &rows);
    }
    case 6: {
        uint64_t one_key = key;
        const struct rbt_rows rows = {&one_key, row, 1};
        return which == 1 ? RBT_OK : rbt_pull(worker, table, &rows);
    }
    default:
        return rbt_rng_below(rng, 4) == 0 ? rbt_clock(worker) : RBT_OK;
    }
}

static rbt_status mix_all(rbt_worker *worker, void *argument)
{
    struct mix *mix = argument;
    struct rbt_rng rng;
    rbt_rng_init(&rng, mix->seed, rbt_worker_index(worker), 0);
    for (int i = 0; i < mix->operations; i++) {
        TRY(mix_once(worker, mix, &rng));
    }
    return RBT_OK;
}

static rbt_status sum_up(rbt_worker *worker, void *argument)
{
    struct mix *mix = argument;
    for (size_t which = 0; which < MIX_TABLES; which++) {
        int64_t sum = 0;
        for (uint64_t key = 0; key < MIX_KEYS; key++) {
            int64_t row[MIX_WIDTH] = {0};
            uint32_t index[MIX_WIDTH];
            struct rbt_elements elements = {index, row, 0, MIX_WIDTH};
            size_t count = MIX_WIDTH;
            if (which == 1) {
                TRY(rbt_get_sparse(worker, mix->tables[which], rbt_hash_key(key), &elements));
                count = elements.count;
            } else {
                TRY(rbt_get(worker, mix->tables[which], rbt_hash_key(key), row));
            }
            for (size_t i = 0; i < count; i++) {
                sum += row[i];
            }
        }
        CHECK(sum == mix->sums[which]);
    }
    return RBT_OK;
}

/* Exactly once, also for what was pending when a worker's function returned. */
static void sums_are_conserved_by_any_mix_of_operations(void **state)
{
    (void)state;
    const char *percent = getenv("RUBATO_ORACLE_SCALE");
    const int scale = percent != NULL ? (int)strtol(percent, NULL, 10) : 100;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        rbt_job *job = rig_job(16, seed == 2 ? 5 : 2, NULL);
        struct mix mix = {.operations = 200 * scale, .seed = seed};
        const struct rbt_table_options options[] = {
            {.type = RBT_I64, .width = MIX_WIDTH, .consistency = "asp"},
            {.type = RBT_I64, .width = MIX_WIDTH, .consistency = "ssp:2", .layout = RBT_SPARSE},
            {.type = RBT_I64,
             .width = MIX_WIDTH,
             .consistency = "essp:1",
             .cache = RBT_CACHE_PROCESS},
            {.type = RBT_I64,
             .width = MIX_WIDTH,
             .consistency = "ssp:3",
             .overlay = RBT_OVERLAY_PROCESS,
             .partial = RBT_PARTIAL_SHOW}};
        for (size_t i = 0; i < MIX_TABLES; i++) {
            char name[] = {(char)('a' + i), '\0'};
            mix.tables[i] = rig_table(job, name, options[i]);
        }
        rig_run(job, mix_all, &mix);
        rig_run(job, sum_up, &mix);
        rbt_job_close(job);
    }
}

/* --- Keys and rows that nobody has written ---------------------------------------------------- */

static rbt_status use_raw_keys(rbt_worker *worker, void *argument)
{
    rbt_table *table = argument;
    static const uint64_t keys[] = {
        0, 1, UINT64_MAX, UINT64_MAX - 1, 1ULL << 63, 0x123456789abcdef};
    const size_t count = sizeof keys / sizeof *keys;
    for (size_t i = 0; i < count; i++) {
        const int64_t value = (int64_t)i + 1;
        TRY(rbt_add(worker, table, keys[i], &value));
    }
    TRY(rbt_clock(worker));
    uint64_t sorted[sizeof keys / sizeof *keys];
    int64_t values[sizeof keys / sizeof *keys];
    memcpy(sorted, keys, sizeof sorted);
    CHECK(rbt_keys_sort(sorted, count) == count);
    const struct rbt_rows rows = {sorted, values, count};
    TRY(rbt_pull(worker, table, &rows));
    for (size_t i = 0; i < count; i++) {
        int64_t value = 0;
        TRY(rbt_get(worker, table, keys[i], &value));
        CHECK(value == (int64_t)i + 1);
        CHECK(values[rbt_keys_find(sorted, count, keys[i])] == value);
    }
    return RBT_OK;
}

static void any_64_bit_number_is_a_key(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 5; shards += 2) {
        rbt_job *job = rig_job(1, shards, "bsp");
        rig_run(job, use_raw_keys, rig_counts(job, 1));
        assert_int_equal(rig_stats(job).rows, 6);
        rbt_job_close(job);
    }
}

static rbt_status read_absent_rows(rbt_worker *worker, void *argument)
{
    rbt_table **tables = argument;
    uint64_t keys[] = {3, 77, UINT64_MAX};
    int64_t values[3];
    const struct rbt_rows rows = {keys, values, 3};
    rbt_set *set = NULL;
    for (int turn = 0; turn < 3; turn++) {
        memset(values, 0xff, sizeof values);
        TRY(rbt_pull(worker, tables[0], &rows));
        CHECK(values[0] == 4 && values[1] == 4 && values[2] == 4);
        TRY(rbt_get(worker, tables[0], 1000 + (uint64_t)turn, values));
        CHECK(values[0] == 4);
        struct rbt_elements elements = {(uint32_t[1]){0}, values, 9, 1};
        TRY(rbt_get_sparse(worker, tables[1], 5, &elements));
        CHECK(elements.count == 0);
        TRY(rbt_clock(worker));
    }
    TRY(rbt_set_create(worker, tables[0], keys, 3, RBT_SET_DELTAS, &set));
    CHECK(((int64_t *)rbt_set_values(set))[1] == 4); /* initial values before the first pull */
    TRY(rbt_set_pull(set));
    CHECK(((int64_t *)rbt_set_values(set))[2] == 4);
    rbt_set_destroy(set);
    return RBT_OK;
}

static void reading_what_nobody_wrote_gives_initial_values_and_makes_no_rows(void **state)
{
    (void)state;
    rbt_job *job = rig_job(2, 2, "ssp:1");
    rbt_table *tables[] = {
        rig_table(job, "fours",
                  (struct rbt_table_options){
                      .type = RBT_I64, .init = RBT_INIT_CONSTANT, .init_value = 4}),
        rig_table(job, "sparse",
                  (struct rbt_table_options){.type = RBT_I64, .layout = RBT_SPARSE, .width = 100})};
    rig_run(job, read_absent_rows, tables);
    assert_int_equal(rig_stats(job).rows, 0);
    rbt_job_close(job);
}

/* --- Initial values --------------------------------------------------------------------------- */

enum { INIT_KEYS = 2000, INIT_WIDTH = 5 };

struct init_run {
    rbt_table *table;
    bool is_backward;
    bool is_touched; /* add 0 first, so that rows exist */
    float values[INIT_KEYS][INIT_WIDTH];
};

static rbt_status read_initial(rbt_worker *worker, void *argument)
{
    struct init_run *run = argument;
    for (size_t i = 0; i < INIT_KEYS; i++) {
        const size_t place = run->is_backward ? INIT_KEYS - 1 - i : i;
        const uint64_t key = rbt_hash_key(place);
        const float zero[INIT_WIDTH] = {0};
        if (run->is_touched) {
            TRY(rbt_add(worker, run->table, key, zero));
        }
    }
    TRY(rbt_clock(worker));
    for (size_t i = 0; i < INIT_KEYS; i++) {
        const size_t place = run->is_backward ? INIT_KEYS - 1 - i : i;
        TRY(rbt_get(worker, run->table, rbt_hash_key(place), run->values[place]));
    }
    return RBT_OK;
}

static struct init_run *run_initial(struct rbt_table_options options, uint32_t variant)
{
    static const uint32_t shards[] = {1, 2, 5};
    struct init_run *run = calloc(1, sizeof *run);
    assert_non_null(run);
    rbt_job *job = rig_job(1, shards[variant % 3], "bsp");
    run->table = rig_table(job, "init", options);
    run->is_backward = variant % 2 == 1;
    run->is_touched = variant / 2 % 2 == 1;
    rig_run(job, read_initial, run);
    rbt_job_close(job);
    return run;
}

/* Mean and standard deviation of 10^4 values; 5 sigma of the mean is 0.05 standard deviations. */
static void check_moments(const struct init_run *run, double mean, double deviation)
{
    const double count = (double)INIT_KEYS * INIT_WIDTH;
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < INIT_KEYS * INIT_WIDTH; i++) {
        const double value = (double)run->values[i / INIT_WIDTH][i % INIT_WIDTH];
        sum += value;
        squares += (value - mean) * (value - mean);
    }
    assert_true(fabs(sum / count - mean) < 0.05 * deviation);
    assert_true(fabs(sqrt(squares / count) - deviation) < 0.05 * deviation);
}

static void initial_values_depend_on_key_element_and_seed_alone(void **state)
{
    (void)state;
    const struct rbt_table_options kinds[] = {
        {.width = INIT_WIDTH, .init = RBT_INIT_CONSTANT, .init_value = 2.5},
        {.width = INIT_WIDTH, .init = RBT_INIT_UNIFORM, .init_low = -1, .init_high = 3, .seed = 7},
        {.width = INIT_WIDTH,
         .init = RBT_INIT_NORMAL,
         .init_mean = 1,
         .init_deviation = 2,
         .seed = 7}};
    for (int kind = 0; kind < 3; kind++) {
        struct init_run *first = run_initial(kinds[kind], 0);
        for (uint32_t variant = 1; variant < 6; variant++) {
            struct init_run *again = run_initial(kinds[kind], variant);
            assert_memory_equal(again->values, first->values, sizeof first->values);
            free(again);
        }
        struct rbt_table_options reseeded = kinds[kind];
        reseeded.seed = 8;
        struct init_run *other = run_initial(reseeded, 0);
        const bool is_same = memcmp(other->values, first->values, sizeof first->values) == 0;
        assert_int_equal(is_same, kind == 0);
        free(other);
        if (kind != 0) {
            check_moments(first, 1, kind == 1 ? 4 / sqrt(12) : 2);
        }
        for (int i = 0; kind == 1 && i < INIT_KEYS * INIT_WIDTH; i++) {
            const float value = first->values[i / INIT_WIDTH][i % INIT_WIDTH];
            assert_true(value >= -1.0F && value < 3.0F);
        }
        free(first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_tables_are_independent),
        cmocka_unit_test(the_same_name_in_two_namespaces_is_two_tables),
        cmocka_unit_test(a_job_in_a_cluster_has_the_tables_of_its_namespace),
        cmocka_unit_test(elements_that_are_written_together_are_read_together),
        cmocka_unit_test(updates_may_be_negative_and_are_seen_by_others_after_the_clock),
        cmocka_unit_test(several_elements_at_once_equal_one_by_one),
        cmocka_unit_test(sums_are_conserved_by_any_mix_of_operations),
        cmocka_unit_test(any_64_bit_number_is_a_key),
        cmocka_unit_test(reading_what_nobody_wrote_gives_initial_values_and_makes_no_rows),
        cmocka_unit_test(initial_values_depend_on_key_element_and_seed_alone),
    };
    return cmocka_run_group_tests_name("tables", tests, NULL, NULL);
}
