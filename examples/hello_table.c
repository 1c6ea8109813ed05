/* hello_table.c - two workers count together. */
#include <rubato/rubato.h>
#include <stdio.h>

static rbt_status count(rbt_worker *worker, void *table)
{
    const int64_t one = 1;
    int64_t sum = 0;
    rbt_status st = rbt_add(worker, table, 42, &one); /* row 42 appears when it is first touched */
    st = st != RBT_OK ? st : rbt_clock(worker);       /* from now on others may see the update */
    st = st != RBT_OK ? st : rbt_get(worker, table, 42, &sum); /* waits for the other worker */
    printf("worker %u: %lld\n", rbt_worker_index(worker), (long long)sum);
    return st;
}

int main(void)
{
    const struct rbt_job_options job_options = {sizeof job_options, .workers = 2,
                                                .consistency = "bsp"};
    const struct rbt_table_options table_options = {sizeof table_options, .type = RBT_I64};
    rbt_job *job = NULL;
    rbt_table *table = NULL;
    const bool is_done = rbt_job_open(&job_options, &job) == RBT_OK &&
                         rbt_table_open(job, "counts", &table_options, &table) == RBT_OK &&
                         rbt_job_run(job, count, table) == RBT_OK;
    if (!is_done) {
        fprintf(stderr, "%s\n", rbt_last_error());
    }
    rbt_job_close(job);
    return is_done ? 0 : 1;
}
