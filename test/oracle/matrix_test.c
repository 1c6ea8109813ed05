/* oracle/matrix_test.c - every element type, layout, merge and path.
 *
 * Values are small whole numbers, exact in every type, so one expectation serves all four. */
#include "base/test.h"

#include <stdio.h>

#include "oracle/rig.h"

enum { KEYS = 6, WIDTH = 4, CLOCKS = 5, WORKERS = 3 };

/* How updates are made and rows are read. */
enum path {
    PATH_ROW,      /* rbt_add(), rbt_get() */
    PATH_AT,       /* rbt_add_at(), rbt_get() or rbt_get_sparse() */
    PATH_ELEMENTS, /* rbt_add_elements() */
    PATH_DELTAS,   /* a set */
    PATH_IN_PLACE, /* a set, in place */
    PATH_LIST,     /* rbt_push(), rbt_pull() */
    PATH_RANGE,    /* a set pushed in two ranges, rbt_pull_range() */
};
enum { PATHS = PATH_RANGE + 1 };

struct cell {
    rbt_table *table;
    rbt_layout layout;
    enum path path;
    rbt_merge merge;
    double start;   /* the initial value of all elements */
    uint32_t order; /* in which the workers end their first clock, as a permutation number */
    struct rig_gate gate;
};

/* Room for a row or a set of any type. */
union values {
    float f32[KEYS * WIDTH];
    double f64[KEYS * WIDTH];
    int32_t i32[KEYS * WIDTH];
    int64_t i64[KEYS * WIDTH];
};

static double load(rbt_type type, const void *values, size_t place)
{
    switch (type) {
    case RBT_F32:
        return (double)((const float *)values)[place];
    case RBT_F64:
        return ((const double *)values)[place];
    case RBT_I32:
        return (double)((const int32_t *)values)[place];
    case RBT_I64:
        return (double)((const int64_t *)values)[place];
    }
    return -1;
}

static void store(rbt_type type, void *values, size_t place, double value)
{
    switch (type) {
    case RBT_F32:
        ((float *)values)[place] = (float)value;
        break;
    case RBT_F64:
        ((double *)values)[place] = value;
        break;
    case RBT_I32:
        ((int32_t *)values)[place] = (int32_t)value;
        break;
    case RBT_I64:
        ((int64_t *)values)[place] = (int64_t)value;
        break;
    }
}

static uint64_t key_at(size_t row)
{
    return row * (UINT64_MAX / (KEYS - 1));
}

/* The update of a worker in a clock; element 1 of each row is never touched, except by paths that
 * update whole rows. */
static double update_at(uint32_t worker, int64_t clock, size_t row, size_t element)
{
    return (double)((int64_t)((row + 1) * (element + 3)) * (clock % 2 == 0 ? 1 : -2) +
                    (int64_t)worker + 1);
}

static double merged(rbt_merge merge, double a, double b)
{
    switch (merge) {
    case RBT_MERGE_ADD:
        return a + b;
    case RBT_MERGE_MAX:
        return a > b ? a : b;
    case RBT_MERGE_MIN:
        return a < b ? a : b;
    case RBT_MERGE_OR:
        return (double)((int64_t)a | (int64_t)b);
    }
    return -1;
}

static bool is_touched(enum path path, size_t element)
{
    return element != 1 || path == PATH_ROW || path == PATH_LIST;
}

static double expected_at(const struct cell *cell, int64_t clocks, size_t row, size_t element)
{
    double value = cell->start;
    for (int64_t c = 0; c < clocks; c++) {
        for (uint32_t p = 0; p < WORKERS && is_touched(cell->path, element); p++) {
            value = merged(cell->merge, value, update_at(p, c, row, element));
        }
    }
    return value;
}

static rbt_status update_row(rbt_worker *worker, struct cell *cell, int64_t clock, size_t row)
{
    const rbt_type type = rbt_table_type(cell->table);
    const uint32_t me = rbt_worker_index(worker);
    union values values = {{0}};
    uint32_t index[WIDTH];
    struct rbt_elements elements = {index, &values, 0, WIDTH};
    for (uint32_t e = 0; e < WIDTH; e++) {
        const double value = update_at(me, clock, row, e);
        if (cell->path == PATH_ROW) {
            store(type, &values, e, value);
        } else if (cell->path == PATH_AT && is_touched(PATH_AT, e)) {
            store(type, &values, 0, value);
            TRY(rbt_add_at(worker, cell->table, key_at(row), e, &values));
        } else if (is_touched(cell->path, e)) {
            index[elements.count] = e;
            store(type, &values, elements.count++, value);
        }
    }
    if (cell->path == PATH_ROW) {
        TRY(rbt_add(worker, cell->table, key_at(row), &values));
    } else if (cell->path == PATH_ELEMENTS) {
        TRY(rbt_add_elements(worker, cell->table, key_at(row), &elements));
    }
    return RBT_OK;
}

static rbt_status update_all(rbt_worker *worker, struct cell *cell, int64_t clock, rbt_set *set)
{
    const rbt_type type = rbt_table_type(cell->table);
    const bool is_in_place = cell->path == PATH_IN_PLACE;
    uint64_t keys[KEYS];
    union values list = {{0}};
    void *target = set == NULL ? &list : is_in_place ? rbt_set_values(set) : rbt_set_deltas(set);
    for (size_t row = 0; row < KEYS; row++) {
        keys[row] = key_at(row);
        if (cell->path < PATH_DELTAS) {
            TRY(update_row(worker, cell, clock, row));
            continue;
        }
        for (size_t e = 0; e < WIDTH; e++) {
            const size_t place = row * WIDTH + e;
            const double value = update_at(rbt_worker_index(worker), clock, row, e);
            if (is_touched(cell->path, e)) {
                store(type, target, place, is_in_place ? value + load(type, target, place) : value);
            }
        }
    }
    if (cell->path == PATH_LIST) {
        const struct rbt_rows rows = {keys, &list, KEYS};
        TRY(rbt_push(worker, cell->table, &rows));
    } else if (cell->path == PATH_RANGE) {
        TRY(rbt_set_push_range(set, (struct rbt_range){key_at(2), key_at(4)}));
        TRY(rbt_set_push_range(set, RBT_RANGE_ALL));
    } else if (set != NULL) {
        TRY(rbt_set_push(set));
    }
    return RBT_OK;
}

static rbt_status read_row(rbt_worker *worker, struct cell *cell, size_t row, void *values)
{
    const rbt_type type = rbt_table_type(cell->table);
    if (cell->layout == RBT_DENSE) {
        return rbt_get(worker, cell->table, key_at(row), values);
    }
    union values found;
    uint32_t index[WIDTH];
    struct rbt_elements elements = {index, &found, 0, WIDTH};
    TRY(rbt_get_sparse(worker, cell->table, key_at(row), &elements));
    for (size_t e = 0; e < WIDTH; e++) {
        store(type, values, e, 0);
    }
    for (size_t i = 0; i < elements.count; i++) {
        store(type, values, index[i], load(type, &found, i));
    }
    return RBT_OK;
}

/* Reads all rows by the path of the cell and compares them. */
static rbt_status check_all(rbt_worker *worker, struct cell *cell, int64_t clocks, rbt_set *set)
{
    const rbt_type type = rbt_table_type(cell->table);
    uint64_t keys[KEYS];
    union values list;
    struct rbt_rows rows = {keys, &list, KEYS};
    const void *values = &list;
    for (size_t row = 0; row < KEYS; row++) {
        keys[row] = key_at(row);
    }
    if (cell->path == PATH_LIST) {
        TRY(rbt_pull(worker, cell->table, &rows));
    } else if (cell->path == PATH_RANGE && clocks > 0) {
        TRY(rbt_pull_range(worker, cell->table, RBT_RANGE_ALL, 0, &rows));
        CHECK(rows.count == KEYS);
        CHECK(memcmp(rows.keys, keys, sizeof keys) == 0);
        values = rows.values;
    } else if (set != NULL) {
        TRY(rbt_set_pull(set));
        values = rbt_set_values(set);
    }
    for (size_t row = 0; row < KEYS; row++) {
        union values one;
        if (cell->path < PATH_DELTAS) {
            TRY(read_row(worker, cell, row, &one));
        }
        for (size_t e = 0; e < WIDTH; e++) {
            const double value = cell->path < PATH_DELTAS ? load(type, &one, e)
                                                          : load(type, values, row * WIDTH + e);
            CHECK(value == expected_at(cell, clocks, row, e));
        }
    }
    if (cell->path == PATH_RANGE && clocks > 0) {
        rbt_rows_free(&rows);
    }
    return RBT_OK;
}

/* Where in the permutation `order` of three the worker stands. */
static int turn_of(uint32_t worker, uint32_t order)
{
    static const int turns[6][WORKERS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    return turns[order % 6][worker];
}

static rbt_status run_cell(rbt_worker *worker, void *argument)
{
    struct cell *cell = argument;
    const bool has_set =
        cell->path == PATH_DELTAS || cell->path == PATH_IN_PLACE || cell->path == PATH_RANGE;
    uint64_t keys[KEYS];
    rbt_set *set = NULL;
    for (size_t row = 0; row < KEYS; row++) {
        keys[row] = key_at(row);
    }
    if (has_set) {
        TRY(rbt_set_create(worker, cell->table, keys, KEYS,
                           cell->path == PATH_IN_PLACE ? RBT_SET_IN_PLACE : RBT_SET_DELTAS, &set));
    }
    for (int64_t c = 0; c < CLOCKS; c++) {
        TRY(check_all(worker, cell, c, set));
        TRY(update_all(worker, cell, c, set));
        AWAIT(&cell->gate, (int)c * WORKERS + turn_of(rbt_worker_index(worker), cell->order));
        TRY(rbt_clock(worker));
        rig_post(&cell->gate);
    }
    TRY(check_all(worker, cell, CLOCKS, set));
    rbt_set_destroy(set);
    return RBT_OK;
}

static void run_table(struct cell cell, rbt_type type, uint32_t shards)
{
    rbt_job *job = rig_job(WORKERS, shards, "bsp");
    const struct rbt_table_options options = {.type = type,
                                              .layout = cell.layout,
                                              .width = WIDTH,
                                              .merge = cell.merge,
                                              .init = cell.start != 0 ? RBT_INIT_CONSTANT
                                                                      : RBT_INIT_ZERO,
                                              .init_value = cell.start,
                                              .cache = (rbt_cache)(cell.order % 4)};
    cell.table = rig_table(job, "cells", options);
    rig_run(job, run_cell, &cell);
    rbt_job_close(job);
}

static void dense_rows_of_every_type_take_every_path(void **state)
{
    (void)state;
    uint32_t order = 0;
    for (int type = RBT_F32; type <= RBT_I64; type++) {
        for (int path = 0; path < PATHS; path++) {
            for (uint32_t shards = 1; shards <= 5; shards += 2) {
                const struct cell cell = {
                    .path = (enum path)path, .start = path % 2 == 0 ? 0 : 8, .order = order++};
                run_table(cell, (rbt_type)type, shards);
            }
        }
    }
}

static void sparse_rows_of_every_type_take_every_path(void **state)
{
    (void)state;
    uint32_t order = 0;
    for (int type = RBT_F32; type <= RBT_I64; type++) {
        for (int path = PATH_AT; path <= PATH_ELEMENTS; path++) {
            for (uint32_t shards = 1; shards <= 5; shards += 2) {
                const struct cell cell = {
                    .layout = RBT_SPARSE, .path = (enum path)path, .order = order++};
                run_table(cell, (rbt_type)type, shards);
            }
        }
    }
}

/* With all six orders in which three workers may end their clocks. The start is such that an
 * update with zero, which is neutral for ADD only, would be noticed. */
static void merges_give_the_same_in_every_order_of_arrival(void **state)
{
    (void)state;
    static const enum path paths[] = {PATH_ROW,    PATH_AT,   PATH_ELEMENTS,
                                      PATH_DELTAS, PATH_LIST, PATH_RANGE};
    static const double starts[] = {3, -500, 500, 4};
    for (int merge = RBT_MERGE_ADD; merge <= RBT_MERGE_OR; merge++) {
        for (int type = merge == RBT_MERGE_OR ? RBT_I32 : RBT_F32; type <= RBT_I64; type++) {
            for (uint32_t i = 0; i < 36; i++) {
                const struct cell cell = {.path = paths[i / 6],
                                          .merge = (rbt_merge)merge,
                                          .start = starts[merge],
                                          .order = i % 6};
                run_table(cell, (rbt_type)type, 1 + i % 2);
            }
        }
    }
}

static rbt_status exceed_53_bits(rbt_worker *worker, void *argument)
{
    rbt_table *table = argument;
    const int64_t big = INT64_C(1) << 53;
    int64_t value = 0;
    TRY(rbt_add(worker, table, 1, &big));
    const int64_t one = 1;
    TRY(rbt_add(worker, table, 1, &one));
    TRY(rbt_clock(worker));
    TRY(rbt_get(worker, table, 1, &value));
    CHECK(value == big + 1); /* a double would have lost the 1 */
    return RBT_OK;
}

static void i64_tables_are_exact_beyond_double(void **state)
{
    (void)state;
    rbt_job *job = rig_job(1, 1, "bsp");
    rig_run(job, exceed_53_bits, rig_counts(job, 1));
    rbt_job_close(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_rows_of_every_type_take_every_path),
        cmocka_unit_test(sparse_rows_of_every_type_take_every_path),
        cmocka_unit_test(merges_give_the_same_in_every_order_of_arrival),
        cmocka_unit_test(i64_tables_are_exact_beyond_double),
    };
    return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
