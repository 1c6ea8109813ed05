/* tools/one_get.c - one rbt_get() of which tools/one-protocol says how many functions it passes.
 *
 *     one_get CONSISTENCY CLOCKS
 *
 * A job of one worker and one shard in one process. The worker has read and updated another row in
 * some clocks, so that all memory is there, and has an update of it that the shard does not know
 * yet. The row that it reads then is at the shard; its own copy is so many clocks old, which must
 * be too old, or with 0 it has none. */
#include <rubato/rubato.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/entered.h"

enum { ROWS = 16, CLOCKS = 5, READ = 3, OTHER = 4 };

struct plan {
    rbt_table *table;
    long clocks;
    bool is_fetched; /* the row was, by the last read */
};

static rbt_status add_one(rbt_worker *worker, const struct plan *plan, uint64_t key)
{
    const int64_t one = 1;
    return rbt_add(worker, plan->table, key, &one);
}

/* Ends clocks that have a read and an update each. */
static rbt_status pass_clocks(rbt_worker *worker, const struct plan *plan, long count)
{
    rbt_status st = RBT_OK;
    for (long i = 0; st == RBT_OK && i < count; i++) {
        int64_t value = 0;
        st = rbt_get(worker, plan->table, OTHER, &value);
        st = st != RBT_OK ? st : add_one(worker, plan, OTHER);
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    return st;
}

/* The first run: makes the rows. */
static rbt_status fill(rbt_worker *worker, void *argument)
{
    rbt_status st = RBT_OK;
    for (uint64_t key = 0; st == RBT_OK && key < ROWS; key++) {
        st = add_one(worker, argument, key);
    }
    return st != RBT_OK ? st : rbt_clock(worker);
}

/* The second: its worker begins without copies. */
static rbt_status read_row(rbt_worker *worker, void *argument)
{
    struct plan *plan = argument;
    int64_t value = 0;
    rbt_status st = pass_clocks(worker, plan, CLOCKS);
    if (st == RBT_OK && plan->clocks > 0) {
        st = rbt_get(worker, plan->table, READ, &value);
        st = st != RBT_OK ? st : pass_clocks(worker, plan, plan->clocks);
    }
    st = st != RBT_OK ? st : add_one(worker, plan, OTHER);
    if (st != RBT_OK) {
        return st;
    }
    entered_begin();
    st = rbt_get(worker, plan->table, READ, &value);
    entered_end();
    struct rbt_freshness freshness = {.struct_size = sizeof freshness};
    rbt_row_freshness(worker, plan->table, READ, &freshness);
    plan->is_fetched = value == 1 && freshness.staleness == 0;
    return st;
}

static rbt_status run(rbt_job *job, struct plan *plan)
{
    const struct rbt_table_options options = {.struct_size = sizeof options, .type = RBT_I64};
    rbt_status st = rbt_table_open(job, "counts", &options, &plan->table);
    st = st != RBT_OK ? st : rbt_job_run(job, fill, plan);
    return st != RBT_OK ? st : rbt_job_run(job, read_row, plan);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: one_get CONSISTENCY CLOCKS\n");
        return 2;
    }
    struct plan plan = {.clocks = strtol(argv[2], NULL, 10)};
    const struct rbt_job_options options = {
        .struct_size = sizeof options, .workers = 1, .shards = 1, .consistency = argv[1]};
    rbt_job *job = NULL;
    rbt_status st = rbt_job_open(&options, &job);
    st = st != RBT_OK ? st : run(job, &plan);
    if (st != RBT_OK) {
        fprintf(stderr, "one_get: %s\n", rbt_last_error());
    } else if (!plan.is_fetched) {
        fprintf(stderr, "one_get: the row was not fetched\n");
    }
    rbt_job_close(job);
    return st == RBT_OK && plan.is_fetched ? 0 : 1;
}
