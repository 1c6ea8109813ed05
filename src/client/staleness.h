/* client/staleness.h - how a job's staleness changes, beside the public functions; in table.c.
 *
 * Over processes a change is the coordinator's: whoever wants it tells it, and takes it over when
 * it comes back, as everybody does. Threads: any. */
#ifndef RUBATO_CLIENT_STALENESS_H
#define RUBATO_CLIENT_STALENESS_H

#include <stdint.h>

#include <rubato/export.h>
#include <rubato/job.h>
#include <rubato/status.h>

/* Takes over a staleness that the process at `place` (client/driver.h) was told, of a table or,
 * with RBT_CONTROL_ALL, of all that follow the job; the job's mutex is held, if there are threads.
 */
void rbt_job_follow_staleness(rbt_job *job, uint32_t place, uint32_t table, int64_t staleness);

/* As rbt_job_set_staleness(), but it waits for no other process. */
RBT_MUST_USE rbt_status rbt_job_set_staleness_soon(rbt_job *job, int64_t staleness);

#endif
