/* algo/lda/lda_counts.h - a worker's copy of its words' counts, and how they travel.
 *
 * The servers hold a row of K counts per word. Dense rows are a working set: whole rows come, and
 * what has changed in the copy goes. Of many topics a word has few, and a sparse row holds only
 * these: the servers need less memory, and the worker no second copy to compare with; but rows
 * travel one at a time.
 *
 *     st = rbt_lda_counts_open(lda, worker, w);
 *     st = rbt_lda_counts_pull(lda, worker, w);
 *     rbt_lda_counts_before(w, count);         // of the topics in the view
 *     ... tokens of the view get other topics ...
 *     st = rbt_lda_counts_after(lda, worker, w, count);
 *     st = rbt_lda_counts_push(lda, worker, w);
 *     rbt_lda_counts_close(w);
 *
 * Threads: the worker's own. */
#ifndef RUBATO_ALGO_LDA_LDA_COUNTS_H
#define RUBATO_ALGO_LDA_LDA_COUNTS_H

#include "algo/lda/lda_job.h"

/* The kind of rows that is meant by AUTO with so many topics. */
enum rbt_lda_rows_kind rbt_lda_counts_choose(enum rbt_lda_rows_kind kind, size_t topic_count);

RBT_MUST_USE rbt_status rbt_lda_counts_open(const struct rbt_lda_job *lda, rbt_worker *worker,
                                            struct rbt_lda_worker *w);
void rbt_lda_counts_close(struct rbt_lda_worker *w);

/* The copy, (words, topics); where a first count of a token is added: in the copy, or beside it. */
float *rbt_lda_counts_values(struct rbt_lda_worker *w);
float *rbt_lda_counts_first(const struct rbt_lda_job *lda, struct rbt_lda_worker *w);

/* Brings the copy up to date, at most `staleness` clocks old; sends what has changed. */
RBT_MUST_USE rbt_status rbt_lda_counts_pull(const struct rbt_lda_job *lda, rbt_worker *worker,
                                            struct rbt_lda_worker *w, int64_t staleness);
RBT_MUST_USE rbt_status rbt_lda_counts_push(const struct rbt_lda_job *lda, rbt_worker *worker,
                                            struct rbt_lda_worker *w);

/* Sparse rows: remembers `count` topics from `first` on of the view, and after they have been drawn
 * again finds those that have changed. Dense rows: nothing. */
void rbt_lda_counts_before(struct rbt_lda_worker *w, size_t first, size_t count);
RBT_MUST_USE rbt_status rbt_lda_counts_after(const struct rbt_lda_job *lda, rbt_worker *worker,
                                             struct rbt_lda_worker *w, size_t first, size_t count);

/* Sparse rows: tokens first .. first+count-1 of the view are new. Dense rows: nothing. */
RBT_MUST_USE rbt_status rbt_lda_counts_add(const struct rbt_lda_job *lda, rbt_worker *worker,
                                           struct rbt_lda_worker *w, size_t first, size_t count);

/* All rows of the table that have counts, as an array of a model. */
RBT_MUST_USE rbt_status rbt_lda_counts_collect(const struct rbt_lda_job *lda, rbt_worker *worker,
                                               int64_t staleness, struct rbt_model_array *array);

#endif
