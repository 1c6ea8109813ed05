/* policy/rule/builtin.c - what the rules that come with Rubato share: parameters in ranges, and
 * memory.
 *
 * Nothing here knows more than a user's rule does. Threads: none. */
#include "policy/rule/builtin.h"

#include <math.h>
#include <rubato/status.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

rbt_status rbt_builtin_number(const struct rbt_rule_setup *setup,
                              const struct rbt_builtin_range *range, double *value)
{
    const double number = setup->number(setup, range->name, range->fallback);
    if (isnan(number)) {
        return setup->fail("%s must be a number", range->name);
    }
    if (number > range->max) {
        return setup->fail("%s must be at most %g, not %g", range->name, range->max, number);
    }
    if (range->is_open && number <= range->min) {
        return setup->fail("%s must be above %g, not %g", range->name, range->min, number);
    }
    if (number < range->min) {
        return setup->fail("%s must be at least %g, not %g", range->name, range->min, number);
    }
    if (range->is_whole && number != floor(number)) {
        return setup->fail("%s must be a whole number, not %g", range->name, number);
    }
    *value = number;
    return RBT_OK;
}

rbt_status rbt_builtin_numbers(const struct rbt_rule_setup *setup,
                               const struct rbt_builtin_range *ranges, size_t count, double *values)
{
    for (size_t i = 0; i < count; i++) {
        const rbt_status st = rbt_builtin_number(setup, &ranges[i], &values[i]);
        if (st != RBT_OK) {
            return st;
        }
    }
    return RBT_OK;
}

rbt_status rbt_builtin_new(const struct rbt_rule_setup *setup, size_t size, void **self)
{
    void *made = rbt_calloc(1, size);
    if (made == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for the rule of table \"%s\"", setup->table);
    }
    *self = made;
    return RBT_OK;
}

void rbt_builtin_free(void *self)
{
    rbt_free(self);
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
