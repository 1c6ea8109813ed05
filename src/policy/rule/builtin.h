/* policy/rule/builtin.h - the rules that come with Rubato, and what they share. Threads: none. */
#ifndef RUBATO_POLICY_RULE_BUILTIN_H
#define RUBATO_POLICY_RULE_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/rule.h>
#include <rubato/status.h>

#include "policy/create.h"
#include "policy/registry.h"
#include "policy/rule/list.h"

#define DECLARE(name) extern const struct rbt_policy rbt_rule_##name;
RBT_RULE_LIST(DECLARE)
#undef DECLARE

extern const struct rbt_policy rbt_rule_dealing; /* Rubato's own */

/* Reads a parameter, and refuses it with a sentence if it is out of its range or not a number. */
RBT_MUST_USE rbt_status rbt_builtin_number(const struct rbt_rule_setup *setup,
                                           const struct rbt_policy_parameter *parameter,
                                           double *value);

/* Reads all parameters, which end with a name of NULL, until one is refused. */
RBT_MUST_USE rbt_status rbt_builtin_numbers(const struct rbt_rule_setup *setup,
                                            const struct rbt_policy_parameter *parameters,
                                            double *values);

/* Reads a state that is one count, as it lies in memory. */
RBT_MUST_USE rbt_status rbt_builtin_load_count(const struct rbt_rule_source *source,
                                               uint64_t *count);

/* A count that is kept in a row's state. One float counts to 2^24, and two to 2^48. */
enum { RBT_BUILTIN_COUNT_WIDTH = 2, RBT_BUILTIN_COUNT_BITS = 24 };

/* Half of a count; a state that was loaded may have anything there. */
static inline uint32_t rbt_builtin_digit(float number)
{
    return number >= 0 && number < (float)(1U << RBT_BUILTIN_COUNT_BITS) ? (uint32_t)number : 0;
}

static inline uint64_t rbt_builtin_count(const float *state)
{
    return ((uint64_t)rbt_builtin_digit(state[1]) << RBT_BUILTIN_COUNT_BITS) +
           rbt_builtin_digit(state[0]);
}

static inline void rbt_builtin_set_count(float *state, uint64_t count)
{
    state[0] = (float)(uint32_t)(count % (1U << RBT_BUILTIN_COUNT_BITS));
    state[1] = (float)(uint32_t)(count >> RBT_BUILTIN_COUNT_BITS);
}

#endif
