/* cli/complain.h - error messages of the command line. */
#ifndef RUBATO_CLI_COMPLAIN_H
#define RUBATO_CLI_COMPLAIN_H

#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

/* Prints the complaint to `err` and returns `code`, so that main() can `return rbt_complain(...)`.
 * `hint` may be NULL. Neither text ends with a newline; the hint is a sentence. */
int rbt_complain(FILE *err, int code, const char *hint, const char *format, ...) RBT_PRINTF(4, 5);

/* The same with the calling thread's last error and hint. Returns RBT_EXIT_USAGE when `status` is
 * RBT_E_INVALID, RBT_EXIT_FAILED otherwise. */
int rbt_complain_last(FILE *err, rbt_status status);

#endif
