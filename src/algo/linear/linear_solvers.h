/* algo/linear/linear_solvers.h - the solvers of `train linear`, and what those beside sgd share. */
#ifndef RUBATO_ALGO_LINEAR_LINEAR_SOLVERS_H
#define RUBATO_ALGO_LINEAR_LINEAR_SOLVERS_H

#include "algo/frame/columns.h"
#include "algo/linear/linear_job.h"

extern const struct rbt_linear_solver rbt_linear_sgd;     /* the default of many features */
extern const struct rbt_linear_solver rbt_linear_newton;  /* second derivatives: few features */
extern const struct rbt_linear_solver rbt_linear_dbpg;    /* delayed block proximal gradient */
extern const struct rbt_linear_solver rbt_linear_emso_gd; /* minibatches by gradient descent */
extern const struct rbt_linear_solver rbt_linear_emso_cd; /* minibatches by coordinate descent */
extern const struct rbt_linear_solver rbt_linear_cd;      /* parallel coordinate descent */
extern const struct rbt_linear_solver rbt_linear_lbfgs;   /* limited memory BFGS */

enum { RBT_LINEAR_L2_TOTAL = 25 }; /* --l2 times the number of examples, unless it is given */

/* --- linear_auto.c: what nobody has said --------------------------------------------------------
 */

/* Whether --solver auto may become something else than sgd, as far as options tell. `options` and
 * `config` are as they were given. */
bool rbt_linear_auto_is_open(const struct rbt_train_options *options,
                             const struct rbt_linear_config *config);

/* When the data is there: the solver for it. */
const struct rbt_linear_solver *rbt_linear_auto_solver(const struct rbt_linear_job *linear);

/* Adds words to what was chosen, for the summary. */
void rbt_linear_auto_say(struct rbt_linear_job *linear, const char *words);

/* Counts the nonzeros of some examples, before they are changed. */
void rbt_linear_auto_count(struct rbt_linear_job *linear, const struct rbt_examples *part);

/* When examples were read: changes them for solvers and, if l2 is no number yet, chooses those that
 * will tell it. When the solver is known: makes it a number. Fail with RBT_E_NOMEM, RBT_E_IO. */
RBT_MUST_USE rbt_status rbt_linear_auto_look(struct rbt_linear_job *linear);
RBT_MUST_USE rbt_status rbt_linear_auto_penalty(struct rbt_linear_job *linear);

/* --- linear_newton.c */

/* Whether second derivatives of this data take little time. */
bool rbt_linear_newton_fits(const struct rbt_linear_job *linear, size_t features);

/* --- linear_solvers.c
 * -----------------------------------------------------------------------------
 */

/* Refuses options that only other solvers know. Fails with RBT_E_INVALID. */
RBT_MUST_USE rbt_status rbt_linear_refuse_foreign(const struct rbt_linear_job *linear);

/* Refuses what such a solver cannot do: --rule, --bandwidth, --rebalance, and --filter unless it
 * has them. And: the loss, saying what it can do. */
RBT_MUST_USE rbt_status rbt_linear_refuse(const struct rbt_linear_job *linear, bool has_filters);
RBT_MUST_USE rbt_status rbt_linear_refuse_loss(const struct rbt_linear_job *linear,
                                               const char *instead);

/* Refuses --clocks-per-epoch, where a clock is something of the solver's own. */
RBT_MUST_USE rbt_status rbt_linear_refuse_clocks(const struct rbt_linear_job *linear);

/* All that `check` is for solvers that need a smooth objective and BSP. */
RBT_MUST_USE rbt_status rbt_linear_check_smooth(struct rbt_linear_job *linear,
                                                const struct rbt_train_options *options);

/* Fills in a worker's `shares` n_pj / n_j from everybody's usage of the features of `columns`,
 * which are all that its share has; worker 0 also stores how many parameters there are. */
RBT_MUST_USE rbt_status rbt_linear_shares(struct rbt_linear_job *linear, rbt_worker *worker,
                                          const struct rbt_columns *columns, uint64_t *parameters);

/* Worker 0 alone: how many parameters there are. */
RBT_MUST_USE rbt_status rbt_linear_count(const struct rbt_linear_job *linear, rbt_worker *worker,
                                         uint64_t *parameters);

/* The worker's part of the penalty of these weights of its features: (key_count, width). */
double rbt_linear_penalty_of(const struct rbt_linear_job *linear, const struct rbt_linear_worker *w,
                             const float *weights);

/* Whether the solver says when it is done. Not if workers may hear of it at different times: then
 * the result would depend on them. */
bool rbt_linear_is_watched(const struct rbt_linear_job *linear);

/* What ends a training of which nobody has said how long it should be, when passes hardly help any
 * more, if nothing better is known (linear_gap.h): an observer between the training and the true
 * one. Nothing but worker 0's thread uses it, which is the one that looks at the target. */
enum { RBT_LINEAR_WATCHED = 10 }; /* passes */
struct rbt_linear_watch {
    const struct rbt_observer *outer;
    const struct rbt_linear_job *linear; /* the caller's to set */
    struct rbt_train_options *options;   /* whose target becomes one that is reached */
    double recent[RBT_LINEAR_WATCHED];   /* objectives */
    size_t count;                        /* of all so far */
    bool is_ending;                      /* the caller's to set: it ends the training */
    bool has_ended;                      /* it has */
    double gain;                         /* of these passes, as a part of the objective */
};

/* The observer to train with: `watch` is the caller's and must stay. */
struct rbt_observer rbt_linear_watch_begin(struct rbt_linear_watch *watch,
                                           const struct rbt_observer *outer,
                                           struct rbt_train_options *options);

/* After training: says in the summary if passes still helped when it ended. */
void rbt_linear_watch_note(const struct rbt_linear_watch *watch, struct rbt_train_summary *summary);

#endif
