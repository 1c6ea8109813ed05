/* what_if.c - what would staleness bring on a cluster of 32 machines that are slow now and then?
 *
 * The workers are those of a real job. The cluster is not: it is simulated, and time is virtual. */
#include <rubato/rubato.h>
#include <stdio.h>

enum { CLOCKS = 50, WORKERS = 32, SERVERS = 8 };

/* 50 clocks of 10 ms of work each, on a row that all share. */
static rbt_status work(rbt_worker *worker, void *table)
{
    rbt_status st = RBT_OK;
    for (int clock = 0; st == RBT_OK && clock < CLOCKS; clock++) {
        double sum = 0;
        st = rbt_get(worker, table, 7, &sum);
        rbt_worker_spend(worker, 0.010);
        st = st != RBT_OK ? st : rbt_add(worker, table, 7, &(double){1.0});
        st = st != RBT_OK ? st : rbt_clock(worker);
    }
    return st;
}

static rbt_status try_it(const char *consistency)
{
    /* One clock in ten takes a worker four times as long. */
    const struct rbt_simulation_options cluster = {sizeof cluster, .seed = 1,
                                                   .slowdown_chance = 0.1, .slowdown_factor = 4};
    const struct rbt_table_options sums = {sizeof sums, .type = RBT_F64};
    struct rbt_job_options options = {sizeof options, .workers = WORKERS, .shards = SERVERS,
                                      .consistency = consistency};
    rbt_job *job = NULL;
    rbt_table *table = NULL;
    rbt_status st = rbt_simulation_open(&cluster, &options.simulation);
    st = st != RBT_OK ? st : rbt_job_open(&options, &job);
    st = st != RBT_OK ? st : rbt_table_open(job, "sums", &sums, &table);
    st = st != RBT_OK ? st : rbt_job_run(job, work, table);
    if (st == RBT_OK) {
        struct rbt_simulation_stats stats = {.struct_size = sizeof stats};
        rbt_simulation_stats(options.simulation, &stats);
        printf("%-6s  %.2f s, of which a worker computes %.2f s\n", consistency, stats.seconds,
               stats.compute_seconds / WORKERS);
    }
    rbt_job_close(job);
    (void)rbt_simulation_close(options.simulation); /* the run has said how it went */
    return st;
}

int main(void)
{
    const char *const consistencies[] = {"bsp", "ssp:1", "ssp:3", "ssp:7", "asp"};
    for (size_t i = 0; i < sizeof consistencies / sizeof consistencies[0]; i++) {
        if (try_it(consistencies[i]) != RBT_OK) {
            fprintf(stderr, "%s\n", rbt_last_error());
            return 1;
        }
    }
    return 0;
}
