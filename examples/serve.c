/* serve.c - serves a model while it is being trained: serve TABLE KEY TIMES prints the value of a
 * row, as a group of its own that only reads, each time that training has changed it.
 *
 *     rubato worker --coordinator ADDR --namespace main --reader -- ./serve weights 7 10 */
#include <rubato/rubato.h>
#include <stdio.h>
#include <stdlib.h>

struct wish {
    rbt_table *table;
    uint64_t key;
    long times;
};

static rbt_status serve(rbt_worker *worker, void *argument)
{
    const struct wish *wish = argument;
    float shown = 0;
    rbt_status st = RBT_OK;
    for (long i = 0; st == RBT_OK && i < wish->times;) {
        float value = 0;
        st = rbt_get(worker, wish->table, wish->key, &value); /* as it is now; never waits */
        if (st == RBT_OK && value != shown) {
            printf("%.9g\n", (double)value);
            fflush(stdout);
            shown = value;
            i++;
        }
    }
    return st;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        return fprintf(stderr, "usage: serve TABLE KEY TIMES\n"), 2;
    }
    const struct rbt_cluster_options only_read = {sizeof only_read, .is_reader = 1};
    struct rbt_job_options options = {.struct_size = sizeof options};
    struct wish wish = {.key = strtoull(argv[2], NULL, 10), .times = strtol(argv[3], NULL, 10)};
    rbt_job *job = NULL;
    rbt_status st = rbt_cluster_join(&only_read, &options.cluster);
    st = st != RBT_OK ? st : rbt_job_open(&options, &job);
    st = st != RBT_OK ? st : rbt_table_open(job, argv[1], NULL, &wish.table);
    st = st != RBT_OK ? st : rbt_job_run(job, serve, &wish);
    if (st != RBT_OK) {
        fprintf(stderr, "serve: %s\n", rbt_last_error());
    }
    rbt_job_close(job);
    rbt_cluster_leave(options.cluster, st, rbt_last_error());
    return st == RBT_OK ? 0 : 1;
}
