/* policy/filter/filter.h - filters by their text.
 *
 * A text is a list, separated by commas, of [push.|pull.]NAME[:NUMBER...], where NAME is that of a
 * filter that comes with Rubato, or the path of a shared object, which has a '/' in it.
 *
 * Threads: any. */
#ifndef RUBATO_POLICY_FILTER_FILTER_H
#define RUBATO_POLICY_FILTER_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/filter.h>
#include <rubato/status.h>

#include "base/limits.h"
#include "policy/filter/chain.h"
#include "policy/registry.h"

/* Names that are not filters on the interface: what they ask for is done elsewhere. */
enum rbt_filter_trait {
    RBT_TRAIT_NONE, /* an ordinary filter */
    RBT_TRAIT_OFF,  /* "none" */
    RBT_TRAIT_KEYS,
    RBT_TRAIT_ZEROS,
};

extern const struct rbt_policy_kind rbt_policy_filters;

/* Of a filter that comes with Rubato: what its name asks for. */
enum rbt_filter_trait rbt_filter_trait(const struct rbt_policy *policy);

/* One piece of a text. */
struct rbt_filter_item {
    char name[RBT_TEXT_MAX]; /* or the path */
    enum rbt_filter_trait trait;
    const struct rbt_filter *filter; /* NULL for a trait */
    bool is_for_push;
    bool is_for_pull;
    uint32_t argument_count;
    double arguments[RBT_FILTER_ARGUMENTS_MAX];
};

/* Reads the piece at *text and moves to the next, or to the end. Shared objects are opened. Fails
 * with RBT_E_INVALID and a sentence. */
RBT_MUST_USE rbt_status rbt_filter_parse(const char **text, struct rbt_filter_item *item);

#endif
