/* policy/rule/builtin.c - what the rules that come with Rubato share: how they read parameters, and
 * counts.
 *
 * Nothing here knows more than a user's rule does. Threads: none. */
#include "policy/rule/builtin.h"

#include <rubato/status.h>
#include <string.h>

rbt_status rbt_builtin_number(const struct rbt_rule_setup *setup,
                              const struct rbt_policy_parameter *parameter, double *value)
{
    const double number = setup->number(setup, parameter->name, parameter->fallback);
    const rbt_status st = rbt_policy_check_number(parameter, number);
    if (st == RBT_OK) {
        *value = number;
    }
    return st;
}

rbt_status rbt_builtin_numbers(const struct rbt_rule_setup *setup,
                               const struct rbt_policy_parameter *parameters, double *values)
{
    rbt_status st = RBT_OK;
    for (; st == RBT_OK && parameters->name != NULL; parameters++) {
        st = rbt_builtin_number(setup, parameters, values++);
    }
    return st;
}

rbt_status rbt_builtin_load_count(const struct rbt_rule_source *source, uint64_t *count)
{
    uint64_t saved = 0;
    if (source->count != sizeof saved) {
        return source->fail("a count has %zu bytes, not %zu", sizeof saved, source->count);
    }
    memcpy(&saved, source->bytes, sizeof saved);
    if (saved > INT64_MAX / 2) {
        return source->fail("nothing has happened %llu times", (unsigned long long)saved);
    }
    *count = saved;
    return RBT_OK;
}
