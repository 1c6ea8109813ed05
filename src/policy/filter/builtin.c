/* policy/filter/builtin.c - what the filters that come with Rubato share: arguments in ranges, and
 * memory.
 *
 * Nothing here knows more than a user's filter does. Threads: none. */
#include "policy/filter/builtin.h"

#include <math.h>

#include "base/alloc.h"
#include "base/error.h"

static rbt_status check_number(const struct rbt_filter_setup *setup,
                               const struct rbt_filter_range *range, double number)
{
    if (number > range->max) {
        return setup->fail("%s must be at most %g, not %g", range->name, range->max, number);
    }
    if (range->is_open && !(number > range->min)) {
        return setup->fail("%s must be above %g, not %g", range->name, range->min, number);
    }
    if (!(number >= range->min)) {
        return setup->fail("%s must be at least %g, not %g", range->name, range->min, number);
    }
    if (range->is_whole && number != floor(number)) {
        return setup->fail("%s must be a whole number, not %g", range->name, number);
    }
    return RBT_OK;
}

rbt_status rbt_filter_numbers(const struct rbt_filter_setup *setup,
                              const struct rbt_filter_range *ranges, size_t count, double *values)
{
    if (setup->argument_count > count) {
        return setup->fail("it takes %s%zu number%s, not %u", count == 0 ? "" : "at most ", count,
                           count == 1 ? "" : "s", setup->argument_count);
    }
    for (size_t i = 0; i < count; i++) {
        if (i >= setup->argument_count) {
            if (ranges[i].is_required) {
                return setup->fail("%s must be given, behind a \":\"", ranges[i].name);
            }
            values[i] = ranges[i].fallback;
            continue;
        }
        const rbt_status st = check_number(setup, &ranges[i], setup->arguments[i]);
        if (st != RBT_OK) {
            return st;
        }
        values[i] = setup->arguments[i];
    }
    return RBT_OK;
}

rbt_status rbt_filter_new(const struct rbt_filter_setup *setup, size_t size, void **self)
{
    void *made = rbt_calloc(1, size);
    if (made == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a filter of table \"%s\"", setup->table);
    }
    *self = made;
    return RBT_OK;
}

void rbt_filter_free(void *self)
{
    rbt_free(self);
}
