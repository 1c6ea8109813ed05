/* test/rules/case.c - a user's rule that doubles every update, and what can be wrong with one. It
 * is built once per case: -DCASE_GOOD, -DCASE_ABI, ... */
#include <rubato/rule.h>
#include <stddef.h>

#if !defined(CASE_SYMBOL)
__attribute__((unused)) static rbt_status create(const struct rbt_rule_setup *setup,
                                                 struct rbt_rule_needs *needs, void **self)
{
    (void)setup;
    needs->input = RBT_RULE_MOVES;
    *self = NULL;
    return RBT_OK;
}

__attribute__((unused)) static rbt_status apply(void *self, const struct rbt_rule_message *message,
                                                const struct rbt_rule_row *row)
{
    (void)self;
    (void)message;
    for (uint32_t i = 0; i < row->width; i++) {
        row->values[i] += 2 * row->delta[i];
    }
    return RBT_OK;
}

#if defined(CASE_SAVE)
static rbt_status save(const void *self, struct rbt_rule_sink *sink)
{
    (void)self;
    (void)sink;
    return RBT_OK;
}
#endif

#if defined(CASE_ABI)
#define ABI 99
#elif defined(CASE_OLD)
#define ABI 1
#else
#define ABI RBT_RULE_ABI
#endif
#if defined(CASE_SIZE)
#define SIZE 16
#else
#define SIZE sizeof rbt_rule
#endif
#if defined(CASE_NAME)
#define NAME NULL
#else
#define NAME "twice"
#endif

RBT_RULE_EXPORT const struct rbt_rule rbt_rule = {.abi = ABI,
                                                  .struct_size = SIZE,
                                                  .name = NAME,
#if !defined(CASE_CREATE)
                                                  .create = create,
#endif
#if !defined(CASE_APPLY)
                                                  .apply = apply,
#endif
#if defined(CASE_SAVE)
                                                  .save = save,
#endif
                                                  .summary = "Adds every update twice."};
#else
RBT_RULE_EXPORT const int something_else = 1;
#endif
