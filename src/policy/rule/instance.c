/* policy/rule/instance.c - instances of rules: their parameters are read, checked and used up.
 *
 * Threads: none of its own. Memory: an instance is what its rule makes of it. */
#include <rubato/status.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "policy/create.h"
#include "policy/rule/rule.h"

enum { PARAMETERS_MAX = 32, NAME_MAX_BYTES = 64 };

struct parameter {
    char name[NAME_MAX_BYTES];
    double value;
    bool is_used;
};

struct parameters {
    struct parameter all[PARAMETERS_MAX];
    size_t count;
};

/* Where the parameters start: behind the name and its ':'. */
static const char *parameters_of(const char *text)
{
    const struct rbt_policy_piece piece = rbt_policy_piece(&rbt_policy_rules, text);
    const char *end = piece.name + piece.name_size;
    return *end == '\0' ? end : end + 1;
}

/* Reads one "name=value" (or "name", for 1) of `size` bytes. */
static rbt_status read_parameter(const char *from, size_t size, struct parameter *parameter)
{
    const char *equals = memchr(from, '=', size);
    const size_t name_size = equals == NULL ? size : (size_t)(equals - from);
    char value[NAME_MAX_BYTES] = "1";
    const size_t value_size = equals == NULL ? 1 : size - name_size - 1;
    if (name_size == 0 || name_size >= sizeof parameter->name || value_size == 0 ||
        value_size >= sizeof value) {
        return rbt_fail(RBT_E_INVALID, "\"%.*s\" is not a parameter of a rule, NAME=NUMBER",
                        (int)size, from);
    }
    memcpy(parameter->name, from, name_size);
    parameter->name[name_size] = '\0';
    if (equals != NULL) {
        memcpy(value, equals + 1, value_size);
        value[value_size] = '\0';
    }
    char *end = NULL;
    parameter->value = strtod(value, &end);
    if (end == value || *end != '\0') {
        return rbt_fail(RBT_E_INVALID, "\"%s\" is not a number, as the rule's parameter %s must be",
                        value, parameter->name);
    }
    return RBT_OK;
}

static rbt_status read_parameters(const char *text, struct parameters *parameters)
{
    const char *at = parameters_of(text);
    while (*at != '\0') {
        const size_t size = strcspn(at, ",");
        if (parameters->count == PARAMETERS_MAX) {
            return rbt_fail(RBT_E_INVALID, "a rule has at most %d parameters", PARAMETERS_MAX);
        }
        struct parameter *parameter = &parameters->all[parameters->count];
        const rbt_status st = read_parameter(at, size, parameter);
        if (st != RBT_OK) {
            return st;
        }
        for (size_t i = 0; i < parameters->count; i++) {
            if (strcmp(parameters->all[i].name, parameter->name) == 0) {
                return rbt_fail(RBT_E_INVALID, "the rule's parameter %s is given twice",
                                parameter->name);
            }
        }
        parameters->count++;
        at += size + (at[size] == ',' ? 1 : 0);
    }
    return RBT_OK;
}

static double number(const struct rbt_rule_setup *setup, const char *name, double fallback)
{
    struct parameters *parameters = setup->host;
    for (size_t i = 0; i < parameters->count; i++) {
        if (strcmp(parameters->all[i].name, name) == 0) {
            parameters->all[i].is_used = true;
            return parameters->all[i].value;
        }
    }
    return fallback;
}

/* What does not depend on the rule: whether what it asks for can be. */
static rbt_status check_needs(const struct rbt_rule *rule, const struct rbt_rule_needs *needs,
                              bool is_aggregated)
{
    if (needs->input != RBT_RULE_MOVES && needs->input != RBT_RULE_GRADIENTS) {
        return rbt_fail(RBT_E_INVALID, "rule \"%s\" takes neither moves nor gradients: input is %d",
                        rule->name, (int)needs->input);
    }
    if (needs->parts != RBT_PARTS_NONE && needs->parts != RBT_PARTS_SHOWN &&
        needs->parts != RBT_PARTS_HIDDEN) {
        return rbt_fail(RBT_E_INVALID, "rule \"%s\" wants parts of an unknown kind, %d", rule->name,
                        (int)needs->parts);
    }
    if (needs->parts == RBT_PARTS_HIDDEN && (rule->map != NULL || rule->expire != NULL)) {
        return rbt_fail(RBT_E_INVALID,
                        "rule \"%s\" has hidden versions, which are clocks, and therefore no use "
                        "for %s()",
                        rule->name, rule->map != NULL ? "map" : "expire");
    }
    if (needs->snapshot_width > needs->state_width) {
        return rbt_fail(RBT_E_INVALID, "rule \"%s\" wants snapshots of %u values but keeps only %u",
                        rule->name, needs->snapshot_width, needs->state_width);
    }
    if (needs->parts == RBT_PARTS_SHOWN && rule->fold == NULL) {
        return rbt_fail(RBT_E_INVALID, "rule \"%s\" has versions but no fold()", rule->name);
    }
    if (is_aggregated && needs->parts != RBT_PARTS_NONE) {
        return rbt_fail(RBT_E_INVALID, "rule \"%s\" has versions of its own: it cannot aggregate",
                        rule->name);
    }
    return RBT_OK;
}

/* Calls create(). */
static rbt_status create_self(const struct rbt_rule_setup *setup,
                              struct rbt_rule_instance *instance)
{
    static const struct rbt_error_record none = {.message = ""};
    RBT_ASSERT(setup->number != NULL && setup->fail != NULL);
    rbt_error_restore(&none);
    const rbt_status st = instance->rule->create(setup, &instance->needs, &instance->self);
    return rbt_policy_created(st, "rule", instance->rule->name);
}

rbt_status rbt_rule_create(const struct rbt_rule *rule, const char *text,
                           const struct rbt_rule_table *table, struct rbt_rule_instance *instance)
{
    RBT_ASSERT(rule->create != NULL);
    RBT_ASSERT(rule->apply != NULL);
    struct parameters parameters = {.count = 0};
    *instance = (struct rbt_rule_instance){0};
    rbt_status st = read_parameters(text, &parameters);
    if (st != RBT_OK) {
        return st;
    }
    instance->rule = rule;
    const struct rbt_rule_setup setup = {.struct_size = sizeof setup,
                                         .table = table->name,
                                         .width = table->width,
                                         .worker_count = table->worker_count,
                                         .host = &parameters,
                                         .number = number,
                                         .fail = rbt_policy_fail};
    st = create_self(&setup, instance);
    if (st != RBT_OK) {
        *instance = (struct rbt_rule_instance){0};
        return st;
    }
    const bool is_aggregated = number(&setup, "aggregate", 0) != 0;
    st = check_needs(rule, &instance->needs, is_aggregated);
    for (size_t i = 0; st == RBT_OK && i < parameters.count; i++) {
        if (!parameters.all[i].is_used) {
            st = rbt_fail(RBT_E_INVALID, "rule \"%s\" has no parameter \"%s\"", rule->name,
                          parameters.all[i].name);
        }
    }
    if (st != RBT_OK) {
        rbt_rule_destroy(instance);
        return st;
    }
    if (is_aggregated) {
        instance->needs.parts = RBT_PARTS_HIDDEN;
    }
    return RBT_OK;
}

void rbt_rule_destroy(struct rbt_rule_instance *instance)
{
    if (instance->rule != NULL && instance->rule->destroy != NULL) {
        instance->rule->destroy(instance->self);
    }
    *instance = (struct rbt_rule_instance){0};
}

/* --- State ------------------------------------------------------------------------------------ */

static void put(struct rbt_rule_sink *sink, const void *bytes, size_t count)
{
    rbt_sink_put(sink->host, bytes, count);
}

/* The rule's own failure, with its sentence if it had one. */
static rbt_status own_failure(const struct rbt_rule_instance *instance, rbt_status st)
{
    if (rbt_last_error()[0] == '\0') {
        (void)rbt_fail(RBT_E_DATA, "%s", rbt_status_text(st));
    }
    return rbt_fail_in(st == RBT_E_NOMEM ? st : RBT_E_DATA, "the state of rule \"%s\"",
                       instance->rule->name);
}

void rbt_rule_save(const struct rbt_rule_instance *instance, struct rbt_sink *sink)
{
    static const struct rbt_error_record none = {.message = ""};
    RBT_ASSERT(instance->rule != NULL);
    RBT_ASSERT((instance->rule->save == NULL) == (instance->rule->load == NULL));
    struct rbt_sink own = {0};
    struct rbt_rule_sink to = {.host = &own, .put = put};
    rbt_status st = RBT_OK;
    if (instance->rule->save != NULL) {
        rbt_error_restore(&none);
        st = instance->rule->save(instance->self, &to);
        st = st != RBT_OK ? own_failure(instance, st) : own.status;
    }
    rbt_sink_put_u8(sink, instance->rule->save != NULL ? 1 : 0);
    rbt_sink_put_u32(sink, instance->rule->state_version);
    rbt_sink_put_u64(sink, own.count);
    rbt_sink_put(sink, own.bytes, own.count);
    sink->status = sink->status != RBT_OK ? sink->status : st;
    rbt_sink_deinit(&own);
}

void rbt_rule_load(struct rbt_rule_instance *instance, struct rbt_source *source)
{
    static const struct rbt_error_record none = {.message = ""};
    const struct rbt_rule *rule = instance->rule;
    RBT_ASSERT(rule != NULL);
    const bool has_state = rbt_source_get_bool(source);
    struct rbt_rule_source from = {.version = rbt_source_get_u32(source), .fail = rbt_policy_fail};
    from.count = (size_t)rbt_source_get_count(source, 1);
    from.bytes = rbt_source_take(source, from.count);
    if (!rbt_source_is_good(source)) {
        return;
    }
    if (has_state != (rule->load != NULL) || (!has_state && from.count > 0)) {
        rbt_source_refuse(source, "it is of another version of a rule, or of another rule");
        return;
    }
    if (from.version > rule->state_version) {
        rbt_source_refuse(source, "it is of a newer version of a rule");
        return;
    }
    if (has_state) {
        rbt_error_restore(&none);
        const rbt_status st = rule->load(instance->self, &from);
        source->status = st == RBT_OK ? RBT_OK : own_failure(instance, st);
    }
}
