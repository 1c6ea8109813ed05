/* policy/rule/builtin.h - the rules that come with Rubato, and what they share. Threads: none. */
#ifndef RUBATO_POLICY_RULE_BUILTIN_H
#define RUBATO_POLICY_RULE_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/rule.h>
#include <rubato/status.h>

extern const struct rbt_rule rbt_rule_add;
extern const struct rbt_rule rbt_rule_consgd;
extern const struct rbt_rule rbt_rule_dynsgd;
extern const struct rbt_rule rbt_rule_sgd;
extern const struct rbt_rule rbt_rule_adagrad;
extern const struct rbt_rule rbt_rule_adarev;
extern const struct rbt_rule rbt_rule_adadelay;
extern const struct rbt_rule rbt_rule_ftrl;
extern const struct rbt_rule rbt_rule_adam;
extern const struct rbt_rule rbt_rule_prox;
extern const struct rbt_rule rbt_rule_dealing; /* Rubato's own */

/* In front of a loop over arrays that do not overlap: compilers that do not see it from `restrict`
 * would test all pairs before every row, or give up on the vector units. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* sanitizers stand in its way, as they may */
#define RBT_BUILTIN_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define RBT_BUILTIN_APART _Pragma("GCC ivdep")
#endif

/* A parameter and the values that it may have. */
struct rbt_builtin_range {
    const char *name;
    double fallback;
    double min;
    double max;
    bool is_open;  /* `min` itself is not allowed */
    bool is_whole; /* nothing between whole numbers is allowed */
};

/* Reads a parameter, and refuses it with a sentence if it is out of its range or not a number. */
RBT_MUST_USE rbt_status rbt_builtin_number(const struct rbt_rule_setup *setup,
                                           const struct rbt_builtin_range *range, double *value);

/* Reads `count` parameters, until one is refused. `values` is (count). */
RBT_MUST_USE rbt_status rbt_builtin_numbers(const struct rbt_rule_setup *setup,
                                            const struct rbt_builtin_range *ranges, size_t count,
                                            double *values);

/* Zeroed memory for an instance. */
RBT_MUST_USE rbt_status rbt_builtin_new(const struct rbt_rule_setup *setup, size_t size,
                                        void **self);
void rbt_builtin_free(void *self);

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
