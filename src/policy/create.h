/* policy/create.h - what the creation of rules and filters needs: numbers in ranges, memory, and
 * failures. Threads: any. */
#ifndef RUBATO_POLICY_CREATE_H
#define RUBATO_POLICY_CREATE_H

#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "policy/registry.h"

/* In front of a loop over arrays that do not overlap: compilers that do not see it from `restrict`
 * would test all pairs before every row, or give up on the vector units. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* sanitizers stand in its way, as they may */
#define RBT_POLICY_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define RBT_POLICY_APART _Pragma("GCC ivdep")
#endif

/* What sentences call a parameter. */
const char *rbt_policy_called(const struct rbt_policy_parameter *parameter);

/* Refuses a number that is out of the parameter's range, or none. */
RBT_MUST_USE rbt_status rbt_policy_check_number(const struct rbt_policy_parameter *parameter,
                                                double number);

/* Zeroed memory for an instance; `what` ("rule") and the table are for the sentence. */
RBT_MUST_USE rbt_status rbt_policy_new(size_t size, const char *what, const char *table,
                                       void **self);
void rbt_policy_free(void *self);

/* What rules and filters get as fail(): records the sentence and returns RBT_E_INVALID. */
rbt_status rbt_policy_fail(const char *format, ...) RBT_PRINTF(1, 2);

/* What has come of create(), which may have been a user's: `st` with the policy's name before its
 * sentence. If create() has recorded no sentence, it says what `st` means; and a failure of any
 * other kind is RBT_E_INVALID or RBT_E_NOMEM, for drivers have nothing to see to. The record must
 * have been empty before the call. */
rbt_status rbt_policy_created(rbt_status st, const char *what, const char *name);

#endif
