/* cli/rule_line.h - what `--rule help` says: all rules, their parameters, and when to choose which.
 */
#ifndef RUBATO_CLI_RULE_LINE_H
#define RUBATO_CLI_RULE_LINE_H

#include <stdio.h>

void rbt_rule_line_help(FILE *out);

#endif
