/* hello_table.c - two workers count together. */
#include <rubato/rubato.h>
#include <stdio.h>

static rbt_status count(rbt_worker *worker, void *table)
{
    int64_t sum = 0;
    rbt_status st = rbt_add(worker, table, 42, &(int64_t){1}); /* row 42 is there when touched */
    st = st != RBT_OK ? st : rbt_clock(worker);                /* from now on others may see it */
    st = st != RBT_OK ? st : rbt_get(worker, table, 42, &sum); /* waits for the other worker */
    printf("worker %u: %lld\n", rbt_worker_index(worker), (long long)sum);
    return st;
}

int main(void)
{
    rbt_job *job = NULL;
    rbt_table *table = NULL;
    const struct rbt_job_options two = {sizeof two, .workers = 2, .consistency = "bsp"};
    const struct rbt_table_options counts = {sizeof counts, .type = RBT_I64};
    rbt_status st = rbt_job_open(&two, &job);
    st = st != RBT_OK ? st : rbt_table_open(job, "counts", &counts, &table);
    st = st != RBT_OK ? st : rbt_job_run(job, count, table);
    if (st != RBT_OK) {
        fprintf(stderr, "%s\n", rbt_last_error());
    }
    rbt_job_close(job);
    return st == RBT_OK ? 0 : 1;
}
