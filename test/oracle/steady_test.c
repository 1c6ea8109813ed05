/* oracle/steady_test.c - a worker in its stride takes nothing from the heap, and neither does the
 * server: memory grows when a table is opened, a list is named, rows are first used.
 *
 * Worker and server are threads of this program, and all allocations of both are counted. */
#include "oracle/rig.h"

#include "base/alloc.h"

enum { KEYS = 300, WIDTH = 4, ROWS = 7, WARM_UP = 600, CLOCKS = 10000 };

struct steady {
    rbt_table *table;
    uint32_t flags; /* of the set */
    uint64_t taken; /* from the heap, by everybody, once all are warm */
};

/* All that a worker does in a clock. */
static rbt_status step(rbt_worker *worker, rbt_table *table, rbt_set *set)
{
    const float one[WIDTH] = {1, 1, 1, 1};
    float row[WIDTH];
    TRY(rbt_set_pull(set));
    float *deltas = rbt_set_deltas(set);
    for (int i = 0; i < KEYS * WIDTH; i++) {
        deltas[i] = 0.5F;
    }
    TRY(rbt_set_push(set));
    for (uint64_t key = 0; key < ROWS; key++) {
        TRY(rbt_add(worker, table, 1000 + key, one));
        TRY(rbt_get(worker, table, 1000 + key, row));
    }
    return rbt_clock(worker);
}

static rbt_status stride(rbt_worker *worker, void *argument)
{
    struct steady *steady = argument;
    uint64_t keys[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) {
        keys[i] = i * 3;
    }
    rbt_set *set = NULL;
    TRY(rbt_set_create(worker, steady->table, keys, KEYS, steady->flags, &set));
    for (int clock = 0; clock < WARM_UP; clock++) {
        TRY(step(worker, steady->table, set));
    }
    const uint64_t calls = rbt_alloc_calls();
    for (int clock = 0; clock < CLOCKS; clock++) {
        TRY(step(worker, steady->table, set));
    }
    steady->taken = rbt_alloc_calls() - calls;
    rbt_set_destroy(set);
    return RBT_OK;
}

static void expect_none(const char *consistency)
{
    rbt_job *job = rig_job(1, 2, consistency);
    struct steady steady = {
        .flags = RBT_SET_DELTAS,
        .table =
            rig_table(job, "steady", (struct rbt_table_options){.type = RBT_F32, .width = WIDTH})};
    rig_run(job, stride, &steady);
    rbt_job_close(job);
    assert_int_equal(steady.taken, 0);
}

static void bsp_takes_nothing_from_the_heap(void **state)
{
    (void)state;
    expect_none("bsp");
}

static void ssp_takes_nothing_from_the_heap(void **state)
{
    (void)state;
    expect_none("ssp:2");
}

static void essp_takes_nothing_from_the_heap(void **state)
{
    (void)state;
    expect_none("essp:2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bsp_takes_nothing_from_the_heap),
        cmocka_unit_test(ssp_takes_nothing_from_the_heap),
        cmocka_unit_test(essp_takes_nothing_from_the_heap),
    };
    return cmocka_run_group_tests_name("oracle/steady", tests, NULL, NULL);
}
