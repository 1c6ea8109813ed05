/* algo/linear/linear_sgd.c - solver `sgd`: what options and data mean for steps, rules and
 * penalties. The steps themselves are linear_step.c's, and linear.c says how long they are. */
#include <math.h>
#include <string.h>

#include "algo/linear/linear_job.h"
#include "algo/linear/linear_solvers.h"
#include "base/error.h"

enum { LR_DEFAULT = 2, DECAY_DEFAULT = 4, COOL_DECAY_DEFAULT = 2 };
enum { COOL_CLOCKS = 2 };                           /* of an epoch: see linear.c */
enum { PROMPT_MAX = 100000 };                       /* examples: see is_prompt() */
enum { SHARED_CLOCKS = 64, CLOCKS_PER_WORKER = 8 }; /* of an epoch, with more than two workers */
enum { CHUNK_MIN = 8 }; /* examples of a worker and clock, where there may be more clocks */

/* Step sizes, when nobody gives one, for rules whose own does not fit (docs/choosing-rules.md). */
static const struct rbt_rules_rate gradient_rates[] = {{"adam", 0.005}, {"sgd", 10}, {NULL, 0}};

/* For plain gradient descent long steps at first are worth much, if they become shorter. */
static const double sgd_lr = 30;
static const double sgd_alpha = 0.05;

/* Whether the rule takes --l1 and --l2 over. */
static bool has_own_penalty(const struct rbt_rules *rules)
{
    return rbt_rules_is(rules, "ftrl") || rbt_rules_is(rules, "prox");
}

/* Rules that adapt to the size of gradients get sums over a chunk, so that their own constants,
 * made for gradients of examples, hardly matter. The others get means over all that the workers do
 * in a clock, so that the step does not depend on their number. */
static bool wants_sums(const struct rbt_rules *rules)
{
    const bool is_prox_unscaled =
        rbt_rules_is(rules, "prox") && rbt_rules_number(rules, "scale", 0) == 0;
    return !rules->is_own && !rbt_rules_is(rules, "sgd") && !is_prox_unscaled;
}

/* The parameters of the rule that nobody has given. */
static rbt_status give_parameters(struct rbt_rules *rules, double lr)
{
    rbt_status st = RBT_OK;
    if (strcmp(rules->text, "sgd") == 0 && isnan(lr)) {
        st = rbt_rules_give(rules, "lr", sgd_lr);
        return st != RBT_OK ? st : rbt_rules_give(rules, "alpha", sgd_alpha);
    }
    st = rbt_rules_give_lr(rules, lr, gradient_rates);
    if (st == RBT_OK && rbt_rules_is(rules, "prox")) {
        st = rbt_rules_give(rules, "scale", 1);
    }
    return st;
}

/* Whether "kkt" needs no number because the penalty is known; without data. */
static rbt_status check_kkt(const struct rbt_linear_job *linear)
{
    const struct rbt_rules *rules = &linear->rules;
    const bool has_penalty =
        has_own_penalty(rules) && (linear->config.l1 > 0 || rbt_rules_number(rules, "l1", 0) > 0);
    if (!rbt_rules_has_bare(rules->filter, "kkt") || has_penalty) {
        return RBT_OK;
    }
    const rbt_status st = rbt_fail(
        RBT_E_INVALID, "filter \"kkt\" needs a rule that takes gradients and an L1 penalty");
    return rbt_fail_hint(
        st,
        "Use --l1 with --rule prox or --rule ftrl, or give the penalty to the filter: kkt:0.01.");
}

/* Tells "kkt" the penalty, in the units of what all workers push in a clock. Of "prox", which takes
 * its part of it with every update, that is exactly where a weight of zero stays zero. */
static rbt_status settle_kkt(struct rbt_linear_job *linear)
{
    struct rbt_rules *rules = &linear->rules;
    if (!rbt_rules_has_bare(rules->filter, "kkt")) {
        return RBT_OK;
    }
    const double n = (double)linear->examples.count;
    const double all =
        linear->config.l1 * linear->gradient_factor * n / (double)linear->clocks_per_epoch;
    const double lambda = rbt_rules_is(rules, "prox")
                              ? rbt_rules_number(rules, "l1", 0) * (double)linear->worker_count
                              : all;
    char filter[RBT_TEXT_MAX];
    const rbt_status st = rbt_rules_complete(rules->filter, "kkt", lambda, filter);
    memcpy(rules->filter, filter, sizeof filter);
    return st;
}

/* Whether rows travel early. Scaled features are not for that: rows come as the servers have them.
 */
static rbt_status settle_bandwidth(struct rbt_linear_job *linear)
{
    const struct rbt_linear_config *config = &linear->config;
    const struct rbt_rules *rules = &linear->rules;
    linear->is_managed = linear->options->bandwidth > 0;
    if (!linear->is_managed) {
        return RBT_OK;
    }
    if (!rules->has_gradients) {
        return rbt_rules_refuse_bandwidth("a rule that takes gradients, such as adarev");
    }
    if (config->scale == RBT_SCALE_FEATURES) {
        const rbt_status st = rbt_fail(
            RBT_E_INVALID, "options \"--bandwidth\" and \"--scale features\" exclude each other");
        return rbt_fail_hint(st, "Omit --scale, or use --scale none.");
    }
    if (rbt_rules_is(rules, "prox") && (config->l1 > 0 || rbt_rules_number(rules, "l1", 0) > 0)) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "rule \"prox\" with \"--l1\" excludes \"--bandwidth\": rows "
                                    "sent early would shrink more often");
        return rbt_fail_hint(st, "Use rule \"ftrl\".");
    }
    if (rbt_rules_is(rules, "sgd") && isnan(config->lr) && !rbt_rules_has(rules, "lr")) {
        const rbt_status st =
            rbt_fail(RBT_E_INVALID, "rule \"sgd\" with \"--bandwidth\" needs \"--lr\"");
        return rbt_fail_hint(
            st, "The default of --lr is for scaled features. Rule \"adarev\" needs no --lr.");
    }
    return RBT_OK;
}

/* The schedule of a worker's own steps. */
static void settle_rate(struct rbt_linear_job *linear)
{
    struct rbt_linear_config *config = &linear->config;
    if (config->schedule == RBT_LINEAR_SCHEDULE_AUTO) {
        const struct rbt_train_options *options = linear->options;
        const bool has_end = isnan(options->target) && options->patience == 0;
        const bool is_cool = has_end && linear->rules.is_plain;
        config->schedule = is_cool ? RBT_LINEAR_COOL : RBT_SCHEDULE_DECAY;
    }
    const bool is_cool = config->schedule == RBT_LINEAR_COOL;
    /* The mean of what m workers do moves as far as one of them, and is m times less noisy. */
    const double mean_decay = COOL_DECAY_DEFAULT / (double)linear->worker_count;
    const double cool_decay = linear->is_blended ? COOL_DECAY_DEFAULT : mean_decay;
    const double decay = is_cool ? cool_decay : DECAY_DEFAULT;
    config->lr = isnan(config->lr) ? LR_DEFAULT : config->lr;
    config->decay = isnan(config->decay) ? decay : config->decay;
    linear->rate = (struct rbt_training_rate){is_cool ? RBT_SCHEDULE_DECAY
                                                      : (enum rbt_schedule)config->schedule,
                                              config->lr, config->decay};
}

/* What the options say about the rule, before data is read. */
static rbt_status check_sgd(struct rbt_linear_job *linear, struct rbt_train_options *options)
{
    (void)options;
    struct rbt_linear_config *config = &linear->config;
    struct rbt_rules *rules = &linear->rules;
    rbt_status st = rbt_rules_read(linear->options, rules);
    /* Each of several workers that pull a weight to zero goes the whole way there: their sum would
     * go beyond it. */
    const bool is_auto = config->combine == RBT_COMBINE_AUTO && config->l1 == 0.0;
    linear->is_blended = st == RBT_OK && is_auto && rules->is_plain && linear->worker_count > 1 &&
                         !config->is_rebalanced && config->assign == RBT_ASSIGN_STATIC;
    if (st == RBT_OK) {
        st = rbt_rules_combine(rules, &config->combine);
    }
    st = st != RBT_OK ? st : check_kkt(linear);
    if (st != RBT_OK) {
        return st;
    }
    st = settle_bandwidth(linear);
    if (st != RBT_OK) {
        return st;
    }
    if (config->scale == RBT_SCALE_AUTO) {
        const bool is_scaled =
            !rules->has_gradients || (rbt_rules_is(rules, "sgd") && !linear->is_managed);
        config->scale = is_scaled ? RBT_SCALE_FEATURES : RBT_SCALE_NONE;
    }
    if (!rules->has_gradients) {
        settle_rate(linear);
        linear->bias_rules = *rules;
        linear->bias_rules.filter[0] = '\0'; /* one number, and not regularised */
        return RBT_OK;
    }
    if (config->schedule != RBT_LINEAR_SCHEDULE_AUTO) {
        return rbt_rules_refuse_schedule(rules);
    }
    if (config->l1 > 0 && !has_own_penalty(rules)) {
        st = rbt_fail(RBT_E_INVALID, "rule \"%s\" does not support \"--l1\"", rules->text);
        return rbt_fail_hint(
            st, "Use rule \"ftrl\" or \"prox\", or a rule that takes moves, such as \"add\".");
    }
    st = give_parameters(rules, config->lr);
    linear->bias_rules = *rules;
    rbt_rules_drop(&linear->bias_rules, "l1");
    rbt_rules_drop(&linear->bias_rules, "l2");
    linear->bias_rules.filter[0] = '\0';
    return st != RBT_OK ? st : rbt_rules_check(rules, 1);
}

/* What follows from the number of examples: how gradients are counted, and who regularises. */
static rbt_status settle_penalty(struct rbt_linear_job *linear, int64_t epochs)
{
    struct rbt_linear_config *config = &linear->config;
    struct rbt_rules *rules = &linear->rules;
    const double n = (double)linear->examples.count;
    config->l2 = isnan(config->l2) ? RBT_LINEAR_L2_TOTAL / n : config->l2;
    linear->l2 = config->l2;
    linear->gradient_factor = wants_sums(rules) ? 1.0 : (double)linear->clocks_per_epoch / n;
    if (!rules->has_gradients || !has_own_penalty(rules)) {
        return RBT_OK;
    }
    rbt_status st = RBT_OK;
    if (rbt_rules_is(rules, "ftrl")) {
        /* Its penalty stands against the sum of all gradients that it will have seen. */
        const double seen = n * (double)epochs;
        linear->l2 = 0.0;
        st = rbt_rules_give(rules, "l1", config->l1 * seen);
        return st != RBT_OK ? st : rbt_rules_give(rules, "l2", config->l2 * seen);
    }
    /* It shrinks with every update, of which a clock has one of each worker; l2 stays with the
     * worker, in the gradient. */
    const double updates = (double)linear->clocks_per_epoch * (double)linear->worker_count;
    const double one = linear->gradient_factor * n / updates;
    linear->is_named = config->l1 > 0;
    return rbt_rules_give(rules, "l1", config->l1 * one);
}

/* Whether the penalty of features that a clock's examples do not have waits for a clock whose do;
 * then nothing is sent for them. It does not if a clock is half a pass, which has most of them, nor
 * if the worker's part may be another one by then. */
static bool is_lazy(const struct rbt_linear_job *linear)
{
    const struct rbt_linear_config *config = &linear->config;
    const bool has_penalty = config->l1 > 0.0 || config->l2 > 0.0;
    return linear->clocks_per_epoch > COOL_CLOCKS && !linear->rules.has_gradients && has_penalty &&
           !config->is_rebalanced && config->assign == RBT_ASSIGN_STATIC;
}

/* The clocks of an epoch, unless they are given. The more workers move at once, the sooner they
 * must hear of each other: measured on reviews with 1 to 32 workers, reads up to two clocks late
 * cost nothing at SHARED_CLOCKS, and up to 4% of the loss with as many clocks as workers. */
static int64_t cool_clocks(const struct rbt_linear_job *linear)
{
    const int64_t m = (int64_t)linear->worker_count;
    const int64_t most = (int64_t)linear->examples.count / (CHUNK_MIN * m);
    const int64_t wanted =
        m * CLOCKS_PER_WORKER > SHARED_CLOCKS ? m * CLOCKS_PER_WORKER : SHARED_CLOCKS;
    const int64_t clocks = wanted < most ? wanted : most;
    const bool is_shared = linear->is_blended && m > COOL_CLOCKS;
    return is_shared && clocks > COOL_CLOCKS ? clocks : COOL_CLOCKS;
}

/* Whether workers wait for each other's moves, clock by clock, although nobody has said so. By
 * default copies may be two clocks old. If a clock is half a pass, that is a tenth of all the work
 * there is, and how old they happen to be changes the test loss of reviews by 0.3% from run to run.
 * Workers of one process are about equally fast, but waiting and holding updates back costs a third
 * of the time on two cores. Of few examples that is nothing; of many (generated, 160,000) the loss
 * changes by less than 0.1% anyway. */
static bool is_prompt(const struct rbt_linear_job *linear)
{
    const struct rbt_train_options *options = linear->options;
    const bool is_default =
        options->consistency == NULL ||
        (!options->names_consistency && strcmp(options->consistency, "essp:2") == 0);
    return is_default && linear->examples.count <= PROMPT_MAX && options->cluster == NULL &&
           options->simulation == NULL && linear->is_blended &&
           linear->clocks_per_epoch <= COOL_CLOCKS;
}

static rbt_status settle_sgd(struct rbt_linear_job *linear, struct rbt_training *training)
{
    const struct rbt_train_options *options = linear->options;
    const bool is_cool = !linear->rules.has_gradients && linear->config.schedule == RBT_LINEAR_COOL;
    training->clocks_per_epoch = rbt_training_clocks(options, &linear->rules);
    if (is_cool && options->clocks_per_epoch == 0) {
        training->clocks_per_epoch = cool_clocks(linear);
    }
    linear->clocks_per_epoch = training->clocks_per_epoch;
    linear->cool_passes = is_cool ? (double)training->epochs : 0.0;
    if (is_cool && is_prompt(linear)) {
        linear->consistency = "bsp"; /* of weights and bias */
        rbt_linear_auto_say(linear, "workers wait for each other, as with bsp");
    }
    rbt_status st = settle_penalty(linear, training->epochs);
    linear->is_lazy = is_lazy(linear);
    if (st == RBT_OK && linear->rules.has_gradients) {
        st = rbt_rules_check(&linear->rules, (uint32_t)linear->width);
    }
    return st != RBT_OK ? st : settle_kkt(linear);
}

const struct rbt_linear_solver rbt_linear_sgd = {
    .name = "sgd", .epochs_default = RBT_LINEAR_EPOCHS, .check = check_sgd, .settle = settle_sgd};
