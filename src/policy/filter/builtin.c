/* policy/filter/builtin.c - how the filters that come with Rubato read their arguments.
 *
 * Nothing here knows more than a user's filter does. Threads: none. */
#include "policy/filter/builtin.h"

rbt_status rbt_filter_numbers(const struct rbt_filter_setup *setup,
                              const struct rbt_policy_parameter *parameters, double *values)
{
    size_t count = 0;
    while (parameters[count].name != NULL) {
        count++;
    }
    if (setup->argument_count > count) {
        return setup->fail("it takes %s%zu number%s, not %u", count == 0 ? "" : "at most ", count,
                           count == 1 ? "" : "s", setup->argument_count);
    }
    for (size_t i = 0; i < count; i++) {
        values[i] = parameters[i].fallback;
        if (i >= setup->argument_count && parameters[i].is_required) {
            return setup->fail("%s must be given, behind a \":\"",
                               rbt_policy_called(&parameters[i]));
        }
        if (i >= setup->argument_count) {
            continue;
        }
        const rbt_status st = rbt_policy_check_number(&parameters[i], setup->arguments[i]);
        if (st != RBT_OK) {
            return st;
        }
        values[i] = setup->arguments[i];
    }
    return RBT_OK;
}
