/* cli/halves.h - a command line of two halves: a cluster in front of "--", what to run behind it.
 *
 * What belongs to both, such as the number of workers, may stand on either side, but not on both.
 * Threads: none. */
#ifndef RUBATO_CLI_HALVES_H
#define RUBATO_CLI_HALVES_H

#include <stdbool.h>
#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/option.h"

/* The command line, cut at "--"; points into it. */
struct rbt_halves {
    int front; /* words in front */
    bool is_cut;
    char *const *behind; /* ends with NULL if the whole does */
    int behind_count;
};

/* Without a "--" the front ends at "train", so that a mistake in front of it is found first. */
struct rbt_halves rbt_halves_cut(int argc, char *const *argv);

/* Whether an option ("--workers") stands behind "--", with its value behind it or after "=". */
bool rbt_halves_has(const struct rbt_halves *halves, const char *option);

/* An option of both sides, and whether the front has it. */
struct rbt_halves_shared {
    const char *option;
    bool is_given;
};

/* Fails with RBT_E_INVALID when one of them stands on both sides. */
RBT_MUST_USE rbt_status rbt_halves_check(const struct rbt_halves *halves, const char *command,
                                         const struct rbt_halves_shared *shared, size_t count);

/* After "train" has refused what stands behind "--": adds a hint if it belongs in front of it, that
 * is, into this table. Returns `st`. */
rbt_status rbt_halves_hint(rbt_status st, const struct rbt_halves *halves,
                           const struct rbt_option_table *table);

#endif
