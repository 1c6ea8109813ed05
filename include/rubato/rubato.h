/* rubato/rubato.h - the whole public API. A complete program:
 *
 *     #include <rubato/rubato.h>
 *     #include <stdio.h>
 *
 *     static rbt_status work(rbt_worker *worker, void *argument)
 *     {
 *         rbt_table *counts = argument;
 *         for (int clock = 0; clock < 10; clock++) {
 *             const int64_t one = 1;
 *             int64_t sum = 0;
 *             rbt_status st = rbt_get(worker, counts, 42, &sum); // waits for slow workers
 *             st = st != RBT_OK ? st : rbt_add(worker, counts, 42, &one);
 *             st = st != RBT_OK ? st : rbt_clock(worker);
 *             if (st != RBT_OK) {
 *                 return st;
 *             }
 *         }
 *         return RBT_OK;
 *     }
 *
 *     int main(void)
 *     {
 *         struct rbt_job_options options = {.struct_size = sizeof options, .workers = 2};
 *         struct rbt_table_options table = {.struct_size = sizeof table, .type = RBT_I64};
 *         rbt_job *job = NULL;
 *         rbt_table *counts = NULL;
 *         rbt_status st = rbt_job_open(&options, &job);
 *         st = st != RBT_OK ? st : rbt_table_open(job, "counts", &table, &counts);
 *         st = st != RBT_OK ? st : rbt_job_run(job, work, counts);
 *         if (st != RBT_OK) {
 *             fprintf(stderr, "%s\n", rbt_last_error());
 *         }
 *         rbt_job_close(job);
 *         return st == RBT_OK ? 0 : 1;
 *     }
 *
 * Build it with: cc program.c $(pkg-config --cflags --libs rubato)
 *
 * Functions are called rbt_OBJECT_VERB: rbt_table_open(), rbt_worker_leave(), rbt_ticket_wait().
 * Five families have no object, for they are the words of the API, said by a worker to a table:
 * rbt_get..., rbt_add..., rbt_pull..., rbt_push... and rbt_clock(). */
#ifndef RUBATO_RUBATO_H
#define RUBATO_RUBATO_H

#include <rubato/cluster.h>
#include <rubato/experiments.h>
#include <rubato/export.h>
#include <rubato/filter.h>
#include <rubato/job.h>
#include <rubato/priority.h>
#include <rubato/rule.h>
#include <rubato/set.h>
#include <rubato/simulate.h>
#include <rubato/status.h>
#include <rubato/table.h>
#include <rubato/version.h>

#endif
