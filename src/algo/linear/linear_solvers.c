/* algo/linear/linear_solvers.c - what the solvers of `train linear` beside sgd share. */
#include "algo/linear/linear_solvers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "algo/linear/linear_gap.h"
#include "base/alloc.h"
#include "base/error.h"
#include "math/loss.h"

/* A training is over when the last passes have made the objective smaller by less than this part.
 * What is missing is then some ten times that. */
static const double watch_tolerance = 2e-6;

rbt_status rbt_linear_refuse(const struct rbt_linear_job *linear, bool has_filters)
{
    const struct rbt_train_options *options = linear->options;
    const char *what = NULL;
    what = options->rule != NULL ? "--rule" : what;
    what = options->filter != NULL && !has_filters ? "--filter" : what;
    what = options->bandwidth > 0 ? "--bandwidth" : what;
    what = options->is_synchronised ? "--synchronise" : what;
    what = linear->config.is_rebalanced ? "--rebalance" : what;
    return what == NULL ? RBT_OK
                        : rbt_fail(RBT_E_INVALID, "solver \"%s\" excludes \"%s\"",
                                   linear->solver->name, what);
}

/* Whether somebody has said so: it is not the default, and not 0, which is none or as good as it.
 */
static bool is_said(double value, double fallback)
{
    return value != 0.0 && value != fallback;
}

rbt_status rbt_linear_refuse_foreign(const struct rbt_linear_job *linear)
{
    const struct rbt_linear_config *c = &linear->config;
    const struct {
        const char *option;
        const char *solver; /* how the names of those begin that know it */
        bool is_said;
    } all[] = {
        {"blocks", "dbpg", c->blocks != 0},
        {"blocks-by", "dbpg", c->blocks_by != 0},
        {"delay", "dbpg", c->delay != 0},
        {"kkt", "dbpg", is_said((double)c->kkt, 8)},
        {"kkt-margin", "dbpg", is_said(c->kkt_margin, 0.1)},
        {"minibatch", "emso", is_said((double)c->minibatch, 1e5)},
        {"gamma", "emso", is_said(c->gamma, 0.01)},
        {"inner", "emso", c->inner != 0},
        {"batch", "sgd", is_said((double)c->batch, 1)},
        {"schedule", "sgd", c->schedule != RBT_LINEAR_SCHEDULE_AUTO},
        {"l1-method", "sgd", c->l1_method != RBT_L1_PROXIMAL},
    };
    const char *name = linear->solver->name;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i].is_said && strncmp(name, all[i].solver, strlen(all[i].solver)) != 0) {
            const rbt_status st =
                rbt_fail(RBT_E_INVALID, "option \"--%s\" does not apply to solver \"%s\"",
                         all[i].option, name);
            return rbt_fail_hint(st, "Only --solver %s%s has this option.", all[i].solver,
                                 strcmp(all[i].solver, "emso") == 0 ? "-gd and emso-cd" : "");
        }
    }
    return RBT_OK;
}

rbt_status rbt_linear_refuse_loss(const struct rbt_linear_job *linear, const char *instead)
{
    const rbt_status st = rbt_fail(RBT_E_INVALID, "solver \"%s\" does not support this \"--loss\"",
                                   linear->solver->name);
    return rbt_fail_hint(st, "%s", instead);
}

rbt_status rbt_linear_refuse_clocks(const struct rbt_linear_job *linear)
{
    return linear->options->clocks_per_epoch == 0
               ? RBT_OK
               : rbt_fail(RBT_E_INVALID,
                          "solver \"%s\" excludes \"--clocks-per-epoch\": it sets the number of "
                          "clocks itself",
                          linear->solver->name);
}

rbt_status rbt_linear_check_smooth(struct rbt_linear_job *linear,
                                   const struct rbt_train_options *options)
{
    struct rbt_linear_config *config = &linear->config;
    rbt_status st = rbt_linear_refuse(linear, false);
    st = st != RBT_OK ? st : rbt_linear_refuse_clocks(linear);
    if (st == RBT_OK && config->loss == RBT_LOSS_HINGE) {
        st = rbt_linear_refuse_loss(linear, "It needs a loss that is smooth, which hinge is not.");
    }
    if (st == RBT_OK && config->l1 > 0) {
        st = rbt_fail(RBT_E_INVALID, "solver \"%s\" does not support \"--l1\"",
                      linear->solver->name);
        st = rbt_fail_hint(st, "Use --solver dbpg.");
    }
    if (st != RBT_OK) {
        return st;
    }
    linear->consistency = "bsp";
    config->scale = RBT_SCALE_NONE;
    st = rbt_rules_read(options, &linear->rules);
    linear->bias_rules = linear->rules;
    return st;
}

rbt_status rbt_linear_count(const struct rbt_linear_job *linear, rbt_worker *worker,
                            uint64_t *parameters)
{
    struct rbt_rows rows = {0};
    if (rbt_worker_index(worker) != 0) {
        return RBT_OK;
    }
    const rbt_status st =
        rbt_pull_range(worker, linear->usage, RBT_RANGE_ALL, RBT_STALENESS_OBSERVER, &rows);
    if (st == RBT_OK) {
        *parameters = rows.count + (linear->config.has_bias ? 1 : 0);
        rbt_rows_free(&rows);
    }
    return st;
}

rbt_status rbt_linear_shares(struct rbt_linear_job *linear, rbt_worker *worker,
                             const struct rbt_columns *columns, uint64_t *parameters)
{
    struct rbt_linear_worker *w = &linear->workers[rbt_worker_index(worker)];
    const struct rbt_replica_rows rows = {linear->usage, w->share.keys, w->share.key_count};
    double *all = rbt_calloc(w->share.key_count * RBT_USAGE_WIDTH, sizeof *all);
    if (all == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a worker's copy of its examples");
    }
    rbt_status st = rbt_replica_get_usage(worker, &rows, all);
    for (size_t c = 0; st == RBT_OK && c < columns->count; c++) {
        const uint32_t j = columns->features[c];
        const double mine = (double)(columns->starts[c + 1] - columns->starts[c]);
        w->shares[j] = (float)(mine / all[(size_t)j * RBT_USAGE_WIDTH + RBT_USAGE_COUNT]);
    }
    rbt_free(all);
    return st != RBT_OK ? st : rbt_linear_count(linear, worker, parameters);
}

double rbt_linear_penalty_of(const struct rbt_linear_job *linear, const struct rbt_linear_worker *w,
                             const float *weights)
{
    double squares = 0.0;
    double sizes = 0.0;
    for (size_t j = 0; j < w->share.key_count; j++) {
        for (size_t c = 0; c < linear->width; c++) {
            const double weight = (double)weights[j * linear->width + c];
            squares += (double)w->shares[j] * weight * weight;
            sizes += (double)w->shares[j] * fabs(weight);
        }
    }
    return linear->config.l2 / 2 * squares + linear->config.l1 * sizes;
}

bool rbt_linear_is_watched(const struct rbt_linear_job *linear)
{
    const struct rbt_train_options *options = linear->options;
    return linear->solver->is_watched && options->epochs == 0 && options->patience == 0 &&
           isnan(options->target) && options->consistency != NULL &&
           strcmp(options->consistency, "bsp") == 0;
}

static void watch_loaded(void *context, double load_seconds, uint64_t examples, uint64_t parameters)
{
    const struct rbt_observer *outer = ((const struct rbt_linear_watch *)context)->outer;
    if (outer->on_loaded != NULL) {
        outer->on_loaded(outer->context, load_seconds, examples, parameters);
    }
}

static void watch_event(void *context, const struct rbt_train_event *event)
{
    struct rbt_linear_watch *watch = context;
    double *oldest = &watch->recent[watch->count % RBT_LINEAR_WATCHED];
    if (watch->outer->on_event != NULL) {
        watch->outer->on_event(watch->outer->context, event);
    }
    const bool is_long = watch->count >= RBT_LINEAR_WATCHED;
    const double before = is_long ? *oldest : watch->recent[0];
    watch->gain =
        watch->count > 0 ? (before - event->objective) / fabs(event->objective) : (double)INFINITY;
    const bool is_ending = watch->is_ending && !rbt_linear_gap_is_known(watch->linear);
    if (is_ending && is_long && watch->gain <= watch_tolerance) {
        watch->options->target = INFINITY; /* the next pass is the last */
        watch->has_ended = true;
    }
    *oldest = event->objective;
    watch->count++;
}

static bool watch_is_interrupted(void *context)
{
    const struct rbt_observer *outer = ((const struct rbt_linear_watch *)context)->outer;
    return outer->is_interrupted != NULL && outer->is_interrupted(outer->context);
}

struct rbt_observer rbt_linear_watch_begin(struct rbt_linear_watch *watch,
                                           const struct rbt_observer *outer,
                                           struct rbt_train_options *options)
{
    *watch = (struct rbt_linear_watch){.outer = outer, .options = options};
    return (struct rbt_observer){.context = watch,
                                 .on_loaded = watch_loaded,
                                 .on_event = watch_event,
                                 .is_interrupted = watch_is_interrupted};
}

void rbt_linear_watch_note(const struct rbt_linear_watch *watch, struct rbt_train_summary *summary)
{
    if (watch->has_ended || watch->count == 0 || watch->gain <= watch_tolerance ||
        summary->unconverged[0] != '\0') {
        return;
    }
    const size_t passes = watch->count <= RBT_LINEAR_WATCHED ? watch->count : RBT_LINEAR_WATCHED;
    if (isinf(watch->gain)) {
        snprintf(summary->unconverged, sizeof summary->unconverged,
                 "the gain is unknown after one pass; use more --epochs");
        return;
    }
    snprintf(
        summary->unconverged, sizeof summary->unconverged,
        "the last %zu passes still made the objective smaller by %.2g%%; give it more --epochs",
        passes, 100.0 * watch->gain);
}
