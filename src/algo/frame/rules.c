/* algo/frame/rules.c - what --rule and --filter ask of an algorithm. */
#include "algo/frame/rules.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/frame/replica.h"
#include "base/assert.h"
#include "base/error.h"

/* What Jiang et al. 2017, section 5.3, leave out of versions. */
static const double tiny_dynsgd = 1e-6;

/* The parameters of a text, behind the ':' of its last part; or its end. */
static const char *parameters_of(const char *text)
{
    const char *slash = strrchr(text, '/');
    const char *last = slash == NULL ? text : slash;
    const char *colon = strchr(last, ':');
    return colon == NULL ? last + strlen(last) : colon + 1;
}

/* Shards can be synchronised by versions, and by nothing else. */
static rbt_status check_synchronised(const struct rbt_rules *rules, rbt_rule_parts parts)
{
    if (!rules->options->is_synchronised || parts == RBT_PARTS_SHOWN) {
        return RBT_OK;
    }
    const rbt_status st = rbt_fail(
        RBT_E_INVALID, "option \"--synchronise\" excludes rule \"%s\", which has no versions",
        rules->is_plain ? "add" : rules->text);
    return rbt_fail_hint(st, "Omit --synchronise, or use --rule dynsgd.");
}

rbt_status rbt_rules_refuse_bandwidth(const char *needs)
{
    const rbt_status st = rbt_fail(
        RBT_E_INVALID, "option \"--bandwidth\" needs %s: nothing else sends rows early", needs);
    return rbt_fail_hint(st, "Omit --bandwidth; see docs/communication.md.");
}

rbt_status rbt_rules_refuse_schedule(const struct rbt_rules *rules)
{
    const rbt_status st =
        rbt_fail(RBT_E_INVALID,
                 "rule \"%s\" excludes \"--schedule\": it sets the step sizes itself", rules->text);
    return rbt_fail_hint(st, "Omit --schedule; \"--rule help\" lists the parameters of the rule.");
}

rbt_status rbt_rules_read(const struct rbt_train_options *options, struct rbt_rules *rules)
{
    const char *text = options->rule;
    *rules = (struct rbt_rules){.options = options};
    const char *filter = options->filter == NULL ? "" : options->filter;
    if (strlen(filter) >= sizeof rules->filter) {
        return rbt_fail(RBT_E_INVALID, "the list of filters is too long: %zu bytes",
                        strlen(filter));
    }
    rules->is_unfiltered = strcmp(filter, "none") == 0;
    if (!rules->is_unfiltered) {
        memcpy(rules->filter, filter, strlen(filter) + 1);
    }
    rules->is_plain = text == NULL || strcmp(text, "add") == 0;
    if (rules->is_plain) {
        return check_synchronised(rules, RBT_PARTS_NONE);
    }
    if (strlen(text) >= sizeof rules->text) {
        return rbt_fail(RBT_E_INVALID, "the rule's text is too long: %zu bytes", strlen(text));
    }
    memcpy(rules->text, text, strlen(text) + 1);
    rules->is_own = strchr(text, '/') != NULL;
    const size_t size = strcspn(text, ":");
    if (!rules->is_own && size < sizeof rules->name) {
        memcpy(rules->name, text, size);
    }
    struct rbt_rule_needs needs = {0};
    const rbt_status st = rbt_rule_check(text, 1, &needs);
    rules->has_gradients = needs.input == RBT_RULE_GRADIENTS;
    return st != RBT_OK ? st : check_synchronised(rules, needs.parts);
}

bool rbt_rules_is(const struct rbt_rules *rules, const char *name)
{
    return strcmp(rules->name, name) == 0;
}

bool rbt_rules_has(const struct rbt_rules *rules, const char *parameter)
{
    const size_t size = strlen(parameter);
    const char *at = parameters_of(rules->text);
    while (*at != '\0') {
        const size_t whole = strcspn(at, ",");
        if (strcspn(at, "=,") == size && memcmp(at, parameter, size) == 0) {
            return true;
        }
        at += at[whole] == ',' ? whole + 1 : whole;
    }
    return false;
}

double rbt_rules_number(const struct rbt_rules *rules, const char *parameter, double fallback)
{
    const size_t size = strlen(parameter);
    const char *at = parameters_of(rules->text);
    while (*at != '\0') {
        const size_t whole = strcspn(at, ",");
        if (strcspn(at, "=,") == size && memcmp(at, parameter, size) == 0 && at[size] == '=') {
            return strtod(at + size + 1, NULL);
        }
        at += at[whole] == ',' ? whole + 1 : whole;
    }
    return fallback;
}

/* Whether the first piece of a list is the filter without numbers; its size. */
static bool is_bare(const char *text, const char *filter, size_t *size)
{
    *size = strcspn(text, ",");
    const bool is_one_way = strncmp(text, "push.", 5) == 0 || strncmp(text, "pull.", 5) == 0;
    const char *name = text + (is_one_way ? 5 : 0);
    const size_t length = *size - (size_t)(name - text);
    return length == strlen(filter) && memcmp(name, filter, length) == 0;
}

bool rbt_rules_has_bare(const char *text, const char *filter)
{
    size_t size = 0;
    for (; *text != '\0'; text += size + (text[size] == ',' ? 1 : 0)) {
        if (is_bare(text, filter, &size)) {
            return true;
        }
    }
    return false;
}

rbt_status rbt_rules_complete(const char *text, const char *filter, double value, char *to)
{
    size_t size = 0;
    size_t used = 0;
    to[0] = '\0';
    for (; *text != '\0'; text += size + (text[size] == ',' ? 1 : 0)) {
        char number[32] = "";
        if (is_bare(text, filter, &size)) {
            snprintf(number, sizeof number, ":%.9g", value);
        }
        const int added = snprintf(to + used, RBT_TEXT_MAX - used, "%.*s%s%s", (int)size, text,
                                   number, text[size] == ',' ? "," : "");
        used += (size_t)added;
        if (added < 0 || used >= RBT_TEXT_MAX) {
            return rbt_fail(RBT_E_INVALID, "the list of filters is too long");
        }
    }
    return RBT_OK;
}

rbt_status rbt_rules_read_sums(const struct rbt_train_options *options, const char *who,
                               const char *filter, struct rbt_rules *rules)
{
    const rbt_status st = rbt_rules_read(options, rules);
    if (st != RBT_OK) {
        return st;
    }
    if (!rules->is_plain) {
        return rbt_fail(RBT_E_INVALID, "option \"--rule %s\" does not apply to %s", options->rule,
                        who);
    }
    if (options->filter == NULL) {
        RBT_ASSERT(strlen(filter) < sizeof rules->filter);
        memcpy(rules->filter, filter, strlen(filter) + 1);
    }
    return options->bandwidth > 0 ? rbt_rules_refuse_bandwidth("lda, linear or mf") : RBT_OK;
}

rbt_status rbt_rules_give(struct rbt_rules *rules, const char *parameter, double value)
{
    if (rbt_rules_has(rules, parameter)) {
        return RBT_OK;
    }
    const size_t used = strlen(rules->text);
    const size_t left = sizeof rules->text - used;
    const char *parameters = parameters_of(rules->text);
    const char *before = parameters[-1] != ':' ? ":" : *parameters == '\0' ? "" : ",";
    const int added = snprintf(rules->text + used, left, "%s%s=%.9g", before, parameter, value);
    return added > 0 && (size_t)added < left
               ? RBT_OK
               : rbt_fail(RBT_E_INVALID, "the rule's text is too long to add %s", parameter);
}

rbt_status rbt_rules_give_lr(struct rbt_rules *rules, double lr, const struct rbt_rules_rate *rates)
{
    RBT_ASSERT(rules->has_gradients);
    if (isnan(lr)) {
        while (rates->rule != NULL && !rbt_rules_is(rules, rates->rule)) {
            rates++;
        }
        const double fitting = rates->rule == NULL ? rules->options->rule_lr : rates->lr;
        return fitting > 0 ? rbt_rules_give(rules, "lr", fitting) : RBT_OK;
    }
    if (rbt_rules_has(rules, "lr")) {
        return rbt_fail(RBT_E_INVALID, "the step size is given twice, by \"--lr\" and by \"%s\"",
                        rules->text);
    }
    return rbt_rules_give(rules, "lr", lr);
}

rbt_status rbt_rules_combine(const struct rbt_rules *rules, int32_t *combine)
{
    const bool is_weighing = !rules->is_plain && !rules->has_gradients;
    if (is_weighing && *combine == RBT_COMBINE_MEAN) {
        const rbt_status st = rbt_fail(
            RBT_E_INVALID, "option \"--combine mean\" excludes rule \"%s\", which weighs moves",
            rules->text);
        return rbt_fail_hint(st, "Omit --combine, or use --rule add.");
    }
    if (rules->has_gradients && *combine != RBT_COMBINE_AUTO) {
        const rbt_status st = rbt_fail(
            RBT_E_INVALID, "option \"--combine\" excludes rule \"%s\", which takes gradients",
            rules->text);
        return rbt_fail_hint(st, "Omit --combine: the rule combines gradients itself.");
    }
    if (*combine == RBT_COMBINE_AUTO) {
        *combine = is_weighing ? RBT_COMBINE_SUM : RBT_COMBINE_MEAN;
    }
    return RBT_OK;
}

void rbt_rules_drop(struct rbt_rules *rules, const char *parameter)
{
    char *const start = rules->text + (parameters_of(rules->text) - rules->text);
    const size_t size = strlen(parameter);
    for (char *at = start; *at != '\0';) {
        const size_t whole = strcspn(at, ",");
        char *next = at + whole + (at[whole] == ',' ? 1 : 0);
        if (strcspn(at, "=,") == size && memcmp(at, parameter, size) == 0) {
            memmove(at, next, strlen(next) + 1);
        } else {
            at = next;
        }
    }
    const size_t left = strlen(start);
    if (left > 0 && start[left - 1] == ',') {
        start[left - 1] = '\0';
    }
}

rbt_status rbt_rules_check(const struct rbt_rules *rules, uint32_t width)
{
    struct rbt_rule_needs needs = {0};
    return rules->is_plain ? RBT_OK : rbt_rule_check(rules->text, width, &needs);
}

const char *rbt_rules_filter(const struct rbt_rules *rules)
{
    return rules->is_unfiltered ? "none" : rules->filter[0] == '\0' ? NULL : rules->filter;
}

void rbt_rules_apply(struct rbt_rules *rules, struct rbt_table_options *table)
{
    table->filter = rbt_rules_filter(rules);
    if (rules->is_plain) {
        return;
    }
    const double tiny = rules->options->tiny;
    table->rule = rules->text;
    rules->experiments =
        (struct rbt_table_experiments){.struct_size = sizeof rules->experiments,
                                       .tiny = !isnan(tiny)                    ? tiny
                                               : rbt_rules_is(rules, "dynsgd") ? tiny_dynsgd
                                                                               : 0.0,
                                       .is_synchronised = rules->options->is_synchronised};
    table->experiments = &rules->experiments;
    if (rules->has_gradients) {
        table->overlay = RBT_OVERLAY_NONE;
    } else {
        table->overlay = RBT_OVERLAY_REPLICA;
        rules->experiments.slack = rules->options->pull == RBT_PULL_PRINTED ? 1 : 0;
    }
}

void rbt_rules_apply_alone(struct rbt_rules *rules, struct rbt_table_options *table)
{
    rbt_rules_apply(rules, table);
    table->consistency = "asp"; /* the newest there is, and no clock to wait for */
    const bool is_early = rules->options->bandwidth > 0;
    if (is_early || !rbt_rules_is(rules, "adarev")) {
        return;
    }
    struct rbt_rules others = *rules;
    rbt_rules_drop(&others, "max"); /* of copies */
    const int size =
        snprintf(rules->alone, sizeof rules->alone, "adagrad:%s", parameters_of(others.text));
    if (size > 0 && (size_t)size < sizeof rules->alone) {
        table->rule = rules->alone;
    }
}
