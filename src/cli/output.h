/* cli/output.h - files that are there whole or not at all.
 *
 * A regular file is written under a temporary name beside it and renamed when it is complete.
 * Standard output and devices are written directly. Threads: none. */
#ifndef RUBATO_CLI_OUTPUT_H
#define RUBATO_CLI_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/option.h"

struct rbt_output {
    FILE *file;
    char *path;      /* owned; NULL for standard output */
    char *temporary; /* owned; NULL when written directly */
};

/* Opens `path`; NULL and "-" are standard output. */
RBT_MUST_USE rbt_status rbt_output_open(const char *path, struct rbt_output *output);

/* Completes the file: flushes, closes, renames. Whatever happens, the output is closed. */
RBT_MUST_USE rbt_status rbt_output_close(struct rbt_output *output);

/* Closes and leaves nothing behind; what was at the path before is still there. */
void rbt_output_drop(struct rbt_output *output);

/* Whether a file can be put at `path` by renaming: its directory can be written to and there is
 * nothing but perhaps a regular file. Changes nothing. `kind` is for the message: "model". */
RBT_MUST_USE rbt_status rbt_output_check(const char *path, const char *kind);

/* Refuses, with RBT_E_INVALID, to write over a file that is read: one of the inputs, which may be
 * files, directories and patterns. `path` may be NULL. */
RBT_MUST_USE rbt_status rbt_output_spare(const char *path, const char *option,
                                         const struct rbt_option_list *inputs);

/* Whether both paths lead to the same file, or would if there was one. */
bool rbt_output_is_same(const char *a, const char *b);

#endif
