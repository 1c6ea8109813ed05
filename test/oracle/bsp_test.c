/* oracle/bsp_test.c - bulk-synchronous runs against serial programs, and bit for bit against
 * themselves: the same bits on every run.
 *
 * The program is A(t) = A(t-1) + sum over p of D(A(t-1), p, t) with a D that depends on every bit
 * of what was read, so that one wrong read changes everything after it. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>

#include "base/hash.h"
#include "oracle/rig.h"

enum { ROWS = 7, WIDTH = 3, CLOCKS = 30, WORKERS_MAX = 8 };

struct run {
    rbt_table *table;
    int64_t integers[ROWS][WIDTH]; /* the final table, as worker 0 reads it */
    float reals[ROWS][WIDTH];
    double doubles[ROWS][WIDTH];
};

static uint64_t key_of(int row)
{
    return rbt_hash_key((uint64_t)row + 1);
}

static int64_t delta_of(int64_t value, uint32_t worker, int64_t clock, int place)
{
    const uint64_t mixed = rbt_hash_key((uint64_t)value * 31 + worker * 17 + (uint64_t)clock);
    return (int64_t)(mixed >> 40) - (int64_t)(1U << 23) + place;
}

/* Small and large, so that the order of additions changes the last bits. */
static float real_delta_of(float value, uint32_t worker, int64_t clock)
{
    static const float scale[] = {0.1F, 0.37F, -0.23F, 1000.0F / 3.0F};
    return scale[worker % 4] * (1.0F + 0.1F * sinf(value + (float)clock));
}

static void run_serially(uint32_t workers, int64_t table[ROWS][WIDTH])
{
    for (int64_t c = 0; c < CLOCKS; c++) {
        for (int i = 0; i < ROWS * WIDTH; i++) {
            int64_t sum = 0;
            for (uint32_t p = 0; p < workers; p++) {
                sum += delta_of(table[i / WIDTH][i % WIDTH], p, c, i);
            }
            table[i / WIDTH][i % WIDTH] += sum;
        }
    }
}

static rbt_status step_integers(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    int64_t values[WIDTH];
    for (int64_t c = 0; c < CLOCKS; c++) {
        for (int row = 0; row < ROWS; row++) {
            int64_t deltas[WIDTH];
            TRY(rbt_get(worker, run->table, key_of(row), values));
            for (int i = 0; i < WIDTH; i++) {
                deltas[i] = delta_of(values[i], rbt_worker_index(worker), c, row * WIDTH + i);
            }
            TRY(rbt_add(worker, run->table, key_of(row), deltas));
        }
        TRY(rbt_clock(worker));
    }
    for (int row = 0; row < ROWS; row++) {
        TRY(rbt_get(worker, run->table, key_of(row), values));
        if (rbt_worker_index(worker) == 0) {
            memcpy(run->integers[row], values, sizeof values);
        }
    }
    return RBT_OK;
}

static void integer_tables_equal_the_serial_program_for_any_number_of_workers(void **state)
{
    (void)state;
    static const uint32_t shards[] = {1, 2, 5};
    for (uint32_t workers = 1; workers <= WORKERS_MAX; workers *= 2) {
        int64_t serial[ROWS][WIDTH] = {{0}};
        run_serially(workers, serial);
        for (int i = 0; i < 3; i++) {
            rbt_job *job = rig_job(workers, shards[i], "bsp");
            struct run run = {.table = rig_counts(job, WIDTH)};
            rig_run(job, step_integers, &run);
            assert_memory_equal(run.integers, serial, sizeof serial);
            rbt_job_close(job);
        }
    }
}

static rbt_status step_doubles(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    for (int64_t c = 0; c < CLOCKS; c++) {
        for (int row = 0; row < ROWS; row++) {
            double values[WIDTH];
            TRY(rbt_get(worker, run->table, key_of(row), values));
            for (int i = 0; i < WIDTH; i++) {
                values[i] = sin(values[i] + row + i) / 3.0;
            }
            TRY(rbt_add(worker, run->table, key_of(row), values));
        }
        TRY(rbt_clock(worker));
    }
    for (int row = 0; row < ROWS; row++) {
        TRY(rbt_get(worker, run->table, key_of(row), run->doubles[row]));
    }
    return RBT_OK;
}

/* Floating point: one update per clock leaves no order to differ in. */
static void one_worker_reproduces_the_serial_program_bit_by_bit(void **state)
{
    (void)state;
    double serial[ROWS][WIDTH] = {{0}};
    for (int64_t c = 0; c < CLOCKS; c++) {
        for (int row = 0; row < ROWS; row++) {
            for (int i = 0; i < WIDTH; i++) {
                serial[row][i] += sin(serial[row][i] + row + i) / 3.0;
            }
        }
    }
    rbt_job *job = rig_job(1, 2, "bsp");
    struct run run = {
        .table =
            rig_table(job, "doubles", (struct rbt_table_options){.type = RBT_F64, .width = WIDTH})};
    rig_run(job, step_doubles, &run);
    assert_memory_equal(run.doubles, serial, sizeof serial);
    rbt_job_close(job);
}

/* Rows one by one with rbt_get(), several updates per clock. */
static rbt_status step_reals(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    const uint32_t me = rbt_worker_index(worker);
    float values[WIDTH];
    for (int64_t c = 0; c < CLOCKS; c++) {
        for (int row = 0; row < ROWS; row++) {
            TRY(rbt_get(worker, run->table, key_of(row), values));
            for (uint32_t i = 0; i < WIDTH; i++) {
                const float delta = real_delta_of(values[i], me, c);
                TRY(rbt_add_at(worker, run->table, key_of(row), i, &delta));
            }
            rig_yield((int)((me * 5 + (uint32_t)c + (uint32_t)row) % 3));
        }
        TRY(rbt_clock(worker));
    }
    for (int row = 0; row < ROWS; row++) {
        TRY(rbt_get(worker, run->table, key_of(row), values));
        if (me == 0) {
            memcpy(run->reals[row], values, sizeof values);
        }
    }
    return RBT_OK;
}

/* The same program on a set, in place. */
static rbt_status step_real_set(rbt_worker *worker, void *argument)
{
    struct run *run = argument;
    const uint32_t me = rbt_worker_index(worker);
    uint64_t keys[ROWS];
    rbt_set *set = NULL;
    for (int row = 0; row < ROWS; row++) {
        keys[row] = key_of(row);
    }
    CHECK(rbt_keys_sort(keys, ROWS) == ROWS);
    TRY(rbt_set_create(worker, run->table, keys, ROWS, RBT_SET_DELTAS, &set));
    for (int64_t c = 0; c < CLOCKS; c++) {
        TRY(rbt_set_pull(set));
        const float *values = rbt_set_values(set);
        float *deltas = rbt_set_deltas(set);
        for (int i = 0; i < ROWS * WIDTH; i++) {
            deltas[i] = real_delta_of(values[i], me, c);
        }
        rig_yield((int)(me + (uint32_t)c) % 3);
        TRY(rbt_set_push(set));
        TRY(rbt_clock(worker));
    }
    TRY(rbt_set_pull(set));
    for (int row = 0; me == 0 && row < ROWS; row++) {
        const size_t place = rbt_keys_find(keys, ROWS, key_of(row));
        CHECK(place < ROWS);
        memcpy(run->reals[row], (float *)rbt_set_values(set) + place * WIDTH,
               sizeof run->reals[row]);
    }
    rbt_set_destroy(set);
    return RBT_OK;
}

static void run_reals(rbt_worker_function step, uint32_t shards, float result[ROWS][WIDTH])
{
    rbt_job *job = rig_job(4, shards, "bsp");
    struct run run = {
        .table =
            rig_table(job, "reals", (struct rbt_table_options){.type = RBT_F32, .width = WIDTH})};
    rig_run(job, step, &run);
    memcpy(result, run.reals, sizeof run.reals);
    rbt_job_close(job);
}

static void check_ten_runs(rbt_worker_function step)
{
    static const uint32_t shards[] = {1, 2, 5};
    float first[ROWS][WIDTH];
    run_reals(step, 1, first);
    for (int i = 0; i < 30; i++) {
        float again[ROWS][WIDTH];
        run_reals(step, shards[i % 3], again);
        assert_memory_equal(again, first, sizeof first);
    }
}

static void float_sums_have_the_same_bits_in_ten_runs_and_for_any_shards(void **state)
{
    (void)state;
    check_ten_runs(step_reals);
}

static void float_sets_have_the_same_bits_in_ten_runs_and_for_any_shards(void **state)
{
    (void)state;
    check_ten_runs(step_real_set);
}

/* Rows and sets are two faces of one thing: with one update per clock, the same bits. */
static void rows_and_sets_give_the_same_bits(void **state)
{
    (void)state;
    float rows[ROWS][WIDTH];
    float sets[ROWS][WIDTH];
    run_reals(step_reals, 2, rows);
    run_reals(step_real_set, 5, sets);
    assert_memory_equal(rows, sets, sizeof rows);
}

/* The test above means something only if the order does change the sum. */
static void the_order_of_these_additions_matters(void **state)
{
    (void)state;
    int differing = 0;
    for (int64_t c = 0; c < CLOCKS; c++) {
        float upwards = 0;
        float downwards = 0;
        for (uint32_t p = 0; p < 4; p++) {
            upwards += real_delta_of((float)c, p, c);
            downwards += real_delta_of((float)c, 3 - p, c);
        }
        differing += upwards != downwards;
    }
    assert_true(differing > CLOCKS / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integer_tables_equal_the_serial_program_for_any_number_of_workers),
        cmocka_unit_test(one_worker_reproduces_the_serial_program_bit_by_bit),
        cmocka_unit_test(float_sums_have_the_same_bits_in_ten_runs_and_for_any_shards),
        cmocka_unit_test(float_sets_have_the_same_bits_in_ten_runs_and_for_any_shards),
        cmocka_unit_test(rows_and_sets_give_the_same_bits),
        cmocka_unit_test(the_order_of_these_additions_matters),
    };
    return cmocka_run_group_tests_name("bsp", tests, NULL, NULL);
}
