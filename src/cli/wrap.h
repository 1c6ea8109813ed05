/* cli/wrap.h - sentences in lines that fit a terminal. */
#ifndef RUBATO_CLI_WRAP_H
#define RUBATO_CLI_WRAP_H

#include <stddef.h>
#include <stdio.h>

/* Prints sentences, starting at column `at` of a line, further lines indented as far. */
void rbt_wrap(FILE *out, const char *text, size_t at);

#endif
