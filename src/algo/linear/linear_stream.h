/* algo/linear/linear_stream.h - examples of a linear model that stay on disk (--storage,
 * --memory-limit).
 *
 * A worker's share is then mapped from files (data/paged.h) and looks like one in memory, so that
 * everybody computes the same, bit for bit; only where a worker goes through many examples it says
 * where it is, with rbt_linear_visit(). */
#ifndef RUBATO_ALGO_LINEAR_LINEAR_STREAM_H
#define RUBATO_ALGO_LINEAR_LINEAR_STREAM_H

#include "algo/linear/linear_job.h"

enum rbt_storage {                   /* --storage */
                   RBT_STORAGE_AUTO, /* in memory; with a limit, in memory and on disk */
                   RBT_STORAGE_MEMORY,
                   RBT_STORAGE_DISK,
                   RBT_STORAGE_BOTH, /* in memory as far as it goes, and the rest on disk */
};

/* Before data is read: refuses what cannot be, and settles what AUTO is. */
RBT_MUST_USE rbt_status rbt_linear_stream_check(struct rbt_linear_job *linear);

/* Whether examples go to disk. */
bool rbt_linear_is_streamed(const struct rbt_linear_job *linear);

/* Instead of rbt_examples_read(): linear->examples then only has the number of examples, and what
 * the labels mean. */
RBT_MUST_USE rbt_status rbt_linear_stream_read(struct rbt_linear_job *linear,
                                               const struct rbt_data_options *data);

/* After all workers' parts. Accepts a job that never had anything on disk. */
void rbt_linear_stream_free(struct rbt_linear_job *linear);

/* All features that occur; until the job ends. */
const uint64_t *rbt_linear_stream_keys(const struct rbt_linear_job *linear, size_t *count);

/* Instead of rbt_share_take(); and the end of it, which accepts a worker without. */
RBT_MUST_USE rbt_status rbt_linear_stream_take(struct rbt_linear_job *linear, uint32_t index);
void rbt_linear_stream_drop(struct rbt_linear_worker *w);

/* Goes through all examples: finds how they are changed for solvers, and a sample of them, if it is
 * wanted and the limit leaves room for some. From now on shares are changed. */
RBT_MUST_USE rbt_status rbt_linear_stream_look(struct rbt_linear_job *linear,
                                               const struct rbt_standard_options *options,
                                               bool wants_sample);

/* Bytes that looking for a penalty may take. */
double rbt_linear_stream_spare(const struct rbt_linear_job *linear);

/* When everything else that the worker needs is there: what is left of the limit is used to keep
 * examples in memory. Fails with RBT_E_INVALID if nothing is left. */
RBT_MUST_USE rbt_status rbt_linear_stream_keep(struct rbt_linear_job *linear,
                                               struct rbt_linear_worker *w);

/* The worker is at examples first .. end-1 of its share; costs nothing if they are in memory. */
void rbt_linear_visit(const struct rbt_linear_worker *w, size_t first, size_t end);

#endif
