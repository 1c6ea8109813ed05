/* policy/help.h - the pages of help about rules, filters and priorities. Threads: any. */
#ifndef RUBATO_POLICY_HELP_H
#define RUBATO_POLICY_HELP_H

#include <stdio.h>

#include "policy/registry.h"

/* Prints the page of a kind, in lines that fit a terminal: what the kind has to say, and each of
 * its policies with its parameters. */
void rbt_policy_help(FILE *out, const struct rbt_policy_kind *kind);

#endif
