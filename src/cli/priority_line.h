/* cli/priority_line.h - what `--priority help` says: all priorities, and when to choose which. */
#ifndef RUBATO_CLI_PRIORITY_LINE_H
#define RUBATO_CLI_PRIORITY_LINE_H

#include <stdio.h>

void rbt_priority_line_help(FILE *out);

#endif
