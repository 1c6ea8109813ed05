/* policy/rule/rule.c - the kind of policy that rules are: where they come from, and what help says
 * of them.
 *
 * Threads: any. Memory: none. */
#include "policy/rule/rule.h"

#include <rubato/rule.h>
#include <rubato/status.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "policy/rule/builtin.h"

RBT_POLICY_BEGINS(struct rbt_rule);

static const struct rbt_policy *const all[] = {
#define ENTRY(name) &rbt_rule_##name,
    RBT_RULE_LIST(ENTRY)
#undef ENTRY
        NULL};

static const struct rbt_policy_parameter common[] = {
    {.name = "aggregate",
     .help = "1: sum the updates of all workers of a clock, then apply them as one"},
    {.name = NULL}};

static const char before[] =
    "Usage: rubato train ALGO --rule NAME[:parameter=value,...] ...\n\n"
    "A rule is what a server does with an update. Some rules take moves: every worker\n"
    "trains a copy of its own with step size --lr and sends the change; the rule\n"
    "weighs the changes. Other rules take gradients: a clock is a minibatch, and the\n"
    "server makes the step; --lr then sets the rule's parameter lr.\n\n"
    "Which one?\n"
    "  equally fast machines             add, which is the default\n"
    "  some machines slower than others  dynsgd; consgd if memory is scarce\n"
    "  no wish to tune the step size     adarev:trust; adagrad with few workers\n"
    "  gradients that arrive very late   adarev; adadelay if memory is scarce\n"
    "  most weights exactly zero         ftrl or prox, with --l1\n";

static const char after[] =
    "\n"
    "Without lr, training uses a default that fits the algorithm instead of the one\n"
    "above; the full summary reports it.\n"
    "\n"
    "Yours: --rule ./mine.so:k=v names a shared object that is written in C against\n"
    "rubato/rule.h and linked with nothing; see docs/rules.md and examples/rule.c.\n"
    "\n"
    "Examples:\n"
    "  rubato train linear --data train.svm --rule dynsgd --consistency ssp:3\n"
    "  rubato train mf --data ratings.csv --rule adarev:lr=0.2\n"
    "  rubato train linear --data train.svm --rule ftrl --l1 1e-5\n";

static void print_title(FILE *out, const struct rbt_policy *policy)
{
    struct rbt_rule_needs needs = {0};
    const bool has_gradients = rbt_rule_check(rbt_policy_name(policy), 1, &needs) == RBT_OK &&
                               needs.input == RBT_RULE_GRADIENTS;
    fprintf(out, ", takes %s", has_gradients ? "gradients" : "moves");
}

static const char *missing(const void *found)
{
    const struct rbt_rule *rule = found;
    return rule->create == NULL                       ? "create function"
           : rule->apply == NULL                      ? "apply function"
           : rule->save == NULL && rule->load != NULL ? "save function, but a load function"
           : rule->save != NULL && rule->load == NULL ? "load function, but a save function"
                                                      : NULL;
}

const struct rbt_policy_kind rbt_policy_rules = {
    .plugin = {.what = "rule",
               .symbol = "rbt_rule",
               .definition = "RBT_RULE_EXPORT const struct rbt_rule rbt_rule",
               .header = "rubato/rule.h",
               .manual = "docs/rules.md",
               .abi = RBT_RULE_ABI,
               .struct_size = sizeof(struct rbt_rule),
               .missing = missing},
    .plural = "rules",
    .text = "a rule's text",
    .text_max = RBT_TEXT_MAX,
    .has_parameters = true,
    .all = all,
    .internal = &rbt_rule_dealing,
    .before = before,
    .after = after,
    .print_title = print_title,
    .common = common};

rbt_status rbt_rule_find(const char *text, const struct rbt_rule **rule)
{
    const void *code = NULL;
    const rbt_status st = rbt_policy_find(&rbt_policy_rules, text, &code);
    if (st == RBT_OK) {
        *rule = code;
    }
    return st;
}

double rbt_rule_default(const char *text, const char *parameter)
{
    const struct rbt_policy_piece piece = rbt_policy_piece(&rbt_policy_rules, text);
    const struct rbt_policy *policy = rbt_policy_named(&rbt_policy_rules, &piece);
    const struct rbt_policy_parameter *at = policy == NULL ? NULL : policy->parameters;
    for (; at != NULL && at->name != NULL; at++) {
        if (strcmp(at->name, parameter) == 0) {
            return at->fallback;
        }
    }
    return 0;
}

rbt_status rbt_rule_check(const char *text, uint32_t width, struct rbt_rule_needs *needs)
{
    if (text == NULL || width == 0) {
        return rbt_fail(RBT_E_INVALID, "a rule needs a text, and rows of at least one value");
    }
    const struct rbt_rule *rule = NULL;
    rbt_status st = rbt_rule_find(text, &rule);
    if (st != RBT_OK) {
        return st;
    }
    const struct rbt_rule_table table = {.name = "", .width = width, .worker_count = 1};
    struct rbt_rule_instance instance;
    st = rbt_rule_create(rule, text, &table, &instance);
    if (st != RBT_OK) {
        return st;
    }
    if (needs != NULL) {
        *needs = instance.needs;
    }
    rbt_rule_destroy(&instance);
    return RBT_OK;
}
