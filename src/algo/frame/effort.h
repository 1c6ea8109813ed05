/* algo/frame/effort.h - what the processes of a cluster have read, waited and sent, all together.
 *
 * A process knows the figures of its own workers. Written as numbers that add up, those of all
 * processes make a row of a table.
 *
 * Threads: no state. */
#ifndef RUBATO_ALGO_FRAME_EFFORT_H
#define RUBATO_ALGO_FRAME_EFFORT_H

#include <rubato/job.h>

enum { RBT_EFFORT_WIDTH = 14 + 2 * RBT_TRAFFIC_CLASSES + RBT_LAG_COUNTS };

/* The figures of this process, to be added to those of others. */
void rbt_effort_pack(const struct rbt_job_stats *stats, double row[RBT_EFFORT_WIDTH]);

/* Sums of such rows replace what `stats` has of one process; the rest stays. */
void rbt_effort_unpack(const double row[RBT_EFFORT_WIDTH], struct rbt_job_stats *stats);

#endif
