/* policy/create.c - what the creation of rules and filters needs: numbers in ranges, memory, and
 * failures.
 *
 * Threads: any. Memory: instances belong to their creators. */
#include "policy/create.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"

const char *rbt_policy_called(const struct rbt_policy_parameter *parameter)
{
    return parameter->called == NULL ? parameter->name : parameter->called;
}

rbt_status rbt_policy_check_number(const struct rbt_policy_parameter *parameter, double number)
{
    const char *name = rbt_policy_called(parameter);
    if (isnan(number)) {
        return rbt_fail(RBT_E_INVALID, "%s must be a number", name);
    }
    if (number > parameter->max) {
        return rbt_fail(RBT_E_INVALID, "%s must be at most %g, not %g", name, parameter->max,
                        number);
    }
    if (parameter->is_open && number <= parameter->min) {
        return rbt_fail(RBT_E_INVALID, "%s must be above %g, not %g", name, parameter->min, number);
    }
    if (number < parameter->min) {
        return rbt_fail(RBT_E_INVALID, "%s must be at least %g, not %g", name, parameter->min,
                        number);
    }
    if (parameter->is_whole && number != floor(number)) {
        return rbt_fail(RBT_E_INVALID, "%s must be a whole number, not %g", name, number);
    }
    return RBT_OK;
}

rbt_status rbt_policy_new(size_t size, const char *what, const char *table, void **self)
{
    void *made = rbt_calloc(1, size);
    if (made == NULL) {
        return rbt_fail(RBT_E_NOMEM, "no memory for a %s of table \"%s\"", what, table);
    }
    *self = made;
    return RBT_OK;
}

void rbt_policy_free(void *self)
{
    rbt_free(self);
}

rbt_status rbt_policy_fail(const char *format, ...)
{
    char text[RBT_ERROR_MAX / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return rbt_fail(RBT_E_INVALID, "%s", text);
}

rbt_status rbt_policy_created(rbt_status st, const char *what, const char *name)
{
    if (st == RBT_OK) {
        return RBT_OK;
    }
    if (rbt_last_error()[0] == '\0') {
        (void)rbt_fail(RBT_E_INVALID, "%s", rbt_status_text(st));
    }
    return rbt_fail_in(st == RBT_E_NOMEM ? st : RBT_E_INVALID, "%s \"%s\"", what, name);
}
