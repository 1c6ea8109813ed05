/* cli/filter_line.h - what `--filter help` says: all filters, their numbers, and when to choose
 * which. */
#ifndef RUBATO_CLI_FILTER_LINE_H
#define RUBATO_CLI_FILTER_LINE_H

#include <stdio.h>

void rbt_filter_line_help(FILE *out);

#endif
