/* algo/frame/rules.h - what --rule and --filter ask of an algorithm: which updates to push, and
 * into what tables.
 *
 * A rule that takes moves is for workers that train a copy of their own and push how far it has
 * moved; the rule weighs the moves, so that nothing else may (--combine sum). A rule that takes
 * gradients makes the step itself; a clock is then a minibatch at fixed values. "add", and no rule
 * at all, is what tables do anyway.
 *
 *     struct rbt_rules rules;
 *     st = rbt_rules_read(options, &rules);
 *     st = rbt_rules_give(&rules, "lr", 0.1);     // unless the user has said lr=...
 *     rbt_rules_apply(&rules, &table_options);    // for every table of parameters
 *
 * Threads: none. */
#ifndef RUBATO_ALGO_FRAME_RULES_H
#define RUBATO_ALGO_FRAME_RULES_H

#include "algo/frame/algo.h"
#include "base/limits.h"

struct rbt_rules {
    bool is_plain;      /* there is none, or "add" */
    bool has_gradients; /* workers push gradients, else moves */
    bool is_own;        /* a user's: nothing is known of its parameters */
    const struct rbt_train_options *options;
    char name[32]; /* of a rule that comes with Rubato, or "" */
    char text[RBT_TEXT_MAX];
    char alone[RBT_TEXT_MAX];                 /* see rbt_rules_apply_alone() */
    char filter[RBT_TEXT_MAX];                /* "": none */
    bool is_unfiltered;                       /* it was "none" that was asked for */
    struct rbt_table_experiments experiments; /* of tables that it was applied to */
};

/* Refuses --bandwidth to those whose rows do not travel early. */
rbt_status rbt_rules_refuse_bandwidth(const char *needs);

/* Refuses --schedule to rules that make the steps themselves. */
rbt_status rbt_rules_refuse_schedule(const struct rbt_rules *rules);

/* What the options say. Fails with RBT_E_INVALID if there is no such rule. */
RBT_MUST_USE rbt_status rbt_rules_read(const struct rbt_train_options *options,
                                       struct rbt_rules *rules);

/* The same for algorithms that add up and leave it at that: fails with RBT_E_INVALID if there is a
 * rule, and for --bandwidth. `who` is the algorithm and what it adds up, for the message; `filter`
 * is what it has as filters if the options name none. */
RBT_MUST_USE rbt_status rbt_rules_read_sums(const struct rbt_train_options *options,
                                            const char *who, const char *filter,
                                            struct rbt_rules *rules);

/* Whether it is one of the rules that come with Rubato, by its name. */
bool rbt_rules_is(const struct rbt_rules *rules, const char *name);

/* Whether the text gives the parameter. */
bool rbt_rules_has(const struct rbt_rules *rules, const char *parameter);

/* Adds the parameter, unless the text gives it. Fails with RBT_E_INVALID if the text gets too long.
 */
RBT_MUST_USE rbt_status rbt_rules_give(struct rbt_rules *rules, const char *parameter,
                                       double value);

/* The step size of a rule for an algorithm, which the rule's own does not fit. */
struct rbt_rules_rate {
    const char *rule;
    double lr;
};

/* Adds the step size: what the user said, `lr`, or if that is not a number what `rates` has, which
 * ends with a rule of NULL, or else the rule's own. A user's rule is left to its own default. Fails
 * with RBT_E_INVALID if both --lr and the rule's own are given. */
RBT_MUST_USE rbt_status rbt_rules_give_lr(struct rbt_rules *rules, double lr,
                                          const struct rbt_rules_rate *rates);

/* Takes the parameter out of the text, if it is there. */
void rbt_rules_drop(struct rbt_rules *rules, const char *parameter);

/* What --combine means: `combine`, or if it is AUTO the sum for rules that weigh moves, and else
 * the mean. Fails with RBT_E_INVALID if the user wants the mean of moves that a rule weighs. */
RBT_MUST_USE rbt_status rbt_rules_combine(const struct rbt_rules *rules, int32_t *combine);

/* Whether the text, as it is now, is right for rows of this width. Fails with RBT_E_INVALID. */
RBT_MUST_USE rbt_status rbt_rules_check(const struct rbt_rules *rules, uint32_t width);

/* The number that the text gives the parameter, or `fallback`. */
double rbt_rules_number(const struct rbt_rules *rules, const char *parameter, double fallback);

/* Whether the filters have one with this name and no numbers; and gives each of them one. `text` is
 * a list of filters, `to` has room for RBT_TEXT_MAX. Fails with RBT_E_INVALID if it gets
 * too long. */
bool rbt_rules_has_bare(const char *text, const char *filter);
RBT_MUST_USE rbt_status rbt_rules_complete(const char *text, const char *filter, double value,
                                           char *to);

/* What a table of parameters is told of filters; NULL: nothing. */
const char *rbt_rules_filter(const struct rbt_rules *rules);

/* Makes a table of parameters one with this rule and these filters; the texts must stay where they
 * are. */
void rbt_rules_apply(struct rbt_rules *rules, struct rbt_table_options *table);

/* The same for a table of which every row belongs to one worker: it reads all that it has done to
 * it, waits for nobody, and is never late. There AdaRevision has the values of AdaGrad, bit by bit,
 * which has a third of its state and no copies; not if rows travel early, when there may be many
 * updates from one read, which are one for AdaRevision alone. */
void rbt_rules_apply_alone(struct rbt_rules *rules, struct rbt_table_options *table);

#endif
