/* test/priorities/case.c - what can be wrong with a user's priority. It is built once per case:
 * -DCASE_ABI, -DCASE_SIZE, ... */
#include <rubato/priority.h>
#include <stddef.h>

#if !defined(CASE_SYMBOL)
__attribute__((unused)) static float score(const struct rbt_priority_row *row)
{
    return (float)row->key;
}

RBT_PRIORITY_EXPORT const struct rbt_priority rbt_priority = {
#if defined(CASE_ABI)
    .abi = 99,
#else
    .abi = RBT_PRIORITY_ABI,
#endif
#if defined(CASE_SIZE)
    .struct_size = 8,
#else
    .struct_size = sizeof rbt_priority,
#endif
#if !defined(CASE_NAME)
    .name = "case",
#endif
#if !defined(CASE_SCORE)
    .score = score,
#endif
    .summary = "By the key."};
#else
RBT_PRIORITY_EXPORT const int something_else = 1;
#endif
