/* policy/rule/trust.h - rows that find their own steps: adagrad and adarev with `trust`. Threads:
 * none. */
#ifndef RUBATO_POLICY_RULE_TRUST_H
#define RUBATO_POLICY_RULE_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include <rubato/rule.h>

struct rbt_trust {
    float lr;
    float beta;
    float trust; /* c; 0: rows do not find their own steps */
    void (*descend)(const struct rbt_trust *t, const struct rbt_rule_message *message,
                    const struct rbt_rule_row *row);
};

/* Chooses the code for this processor; the bits do not depend on it. `is_revised`: late gradients
 * take back what they should not have done, and rows have a `before`. */
void rbt_trust_choose(struct rbt_trust *t, bool is_revised);

/* What a row keeps. */
uint32_t rbt_trust_state_width(uint32_t width, bool is_revised);

#endif
