/* algo/frame/replica.c - a worker's own copy of rows of one table, which it changes as it likes. */
#include "algo/frame/replica.h"

#include <string.h>

#include "algo/frame/model.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "math/choose.h"

static rbt_status no_memory(size_t count)
{
    return rbt_fail(RBT_E_NOMEM, "no memory for a copy of %zu rows", count);
}

rbt_status rbt_replica_open(rbt_worker *worker, const struct rbt_replica_rows *rows,
                            struct rbt_replica *replica)
{
    *replica = (struct rbt_replica){.count = rows->count, .width = rbt_table_width(rows->table)};
    RBT_ASSERT(rbt_table_type(rows->table) == RBT_F32);
    rbt_status st =
        rbt_set_create(worker, rows->table, rows->keys, rows->count, RBT_SET_DELTAS, &replica->set);
    if (st != RBT_OK) {
        return st;
    }
    replica->before = rbt_calloc(rows->count * replica->width, sizeof *replica->before);
    replica->rates = rbt_calloc(rows->count, sizeof *replica->rates);
    if (replica->before == NULL || replica->rates == NULL) {
        rbt_replica_close(replica);
        return no_memory(rows->count);
    }
    for (size_t i = 0; i < rows->count; i++) {
        replica->rates[i] = 1.0F;
    }
    return RBT_OK;
}

void rbt_replica_close(struct rbt_replica *replica)
{
    rbt_free(replica->inverses);
    rbt_free(replica->scales);
    rbt_free(replica->rates);
    rbt_free(replica->before);
    rbt_set_destroy(replica->set);
    *replica = (struct rbt_replica){0};
}

rbt_status rbt_replica_tune(struct rbt_replica *replica, const float *shares, const float *scales)
{
    if (scales != NULL && replica->scales == NULL) {
        replica->scales = rbt_calloc(replica->count, sizeof *replica->scales);
        replica->inverses = rbt_calloc(replica->count, sizeof *replica->inverses);
        if (replica->scales == NULL || replica->inverses == NULL) {
            return no_memory(replica->count);
        }
    }
    for (size_t i = 0; i < replica->count; i++) {
        const float share = shares == NULL ? 1.0F : shares[i];
        const float scale = scales == NULL ? 1.0F : scales[i];
        replica->rates[i] = share * scale;
        if (scales != NULL) {
            replica->scales[i] = scale;
            replica->inverses[i] = 1.0F / scale;
        }
    }
    return RBT_OK;
}

rbt_status rbt_replica_pull(struct rbt_replica *replica)
{
    const rbt_status st = rbt_set_pull(replica->set);
    if (st != RBT_OK) {
        return st;
    }
    replica->values = rbt_set_values(replica->set);
    if (replica->inverses != NULL && replica->width == 1) {
        for (size_t i = 0; i < replica->count; i++) {
            replica->values[i] *= replica->inverses[i];
        }
    } else if (replica->inverses != NULL) {
        for (size_t i = 0; i < replica->count * replica->width; i++) {
            replica->values[i] *= replica->inverses[i / replica->width];
        }
    }
    memcpy(replica->before, replica->values,
           replica->count * replica->width * sizeof *replica->before);
    return RBT_OK;
}

rbt_status rbt_replica_push(struct rbt_replica *replica)
{
    const struct rbt_difference difference = {.now = replica->values,
                                              .before = replica->before,
                                              .rates = replica->rates,
                                              .count = replica->count,
                                              .width = replica->width};
    rbt_choose_kernels()->difference(&difference, rbt_set_deltas(replica->set));
    return rbt_set_push(replica->set);
}

float *rbt_replica_gradient(struct rbt_replica *replica)
{
    return rbt_set_deltas(replica->set);
}

rbt_status rbt_replica_push_gradient(struct rbt_replica *replica)
{
    return rbt_set_push(replica->set);
}

rbt_status rbt_replica_add_usage(rbt_worker *worker, const struct rbt_replica_rows *rows,
                                 double *mine)
{
    RBT_ASSERT(rbt_table_width(rows->table) == RBT_USAGE_WIDTH);
    rbt_set *set = NULL;
    rbt_status st =
        rbt_set_create(worker, rows->table, rows->keys, rows->count, RBT_SET_DELTAS, &set);
    if (st == RBT_OK) {
        memcpy(rbt_set_deltas(set), mine, rows->count * RBT_USAGE_WIDTH * sizeof *mine);
        st = rbt_set_push(set);
    }
    rbt_set_destroy(set);
    return st;
}

rbt_status rbt_replica_get_usage(rbt_worker *worker, const struct rbt_replica_rows *rows,
                                 double *all)
{
    rbt_set *set = NULL;
    rbt_status st =
        rbt_set_create(worker, rows->table, rows->keys, rows->count, RBT_SET_DELTAS, &set);
    if (st == RBT_OK) {
        st = rbt_set_pull_within(set, 0);
    }
    if (st == RBT_OK) {
        memcpy(all, rbt_set_values(set), rows->count * RBT_USAGE_WIDTH * sizeof *all);
    }
    rbt_set_destroy(set);
    return st;
}

rbt_status rbt_replica_collect(rbt_worker *worker, rbt_table *table, int64_t staleness,
                               struct rbt_model_array *array)
{
    struct rbt_rows rows = {0};
    const rbt_status st = rbt_pull_range(worker, table, RBT_RANGE_ALL, staleness, &rows);
    if (st != RBT_OK) {
        return st;
    }
    const uint32_t width = rbt_table_width(table);
    const char *name = rbt_table_name(table);
    const char *slash = strrchr(name, '/');
    name = slash == NULL ? name : slash + 1;
    if (!rbt_model_array_make(array, name, rows.count, width)) {
        rbt_rows_free(&rows);
        return no_memory(rows.count);
    }
    if (rows.count > 0) {
        memcpy(array->keys, rows.keys, rows.count * sizeof *array->keys);
        memcpy(array->values, rows.values, rows.count * width * sizeof *array->values);
    }
    rbt_rows_free(&rows);
    return RBT_OK;
}
