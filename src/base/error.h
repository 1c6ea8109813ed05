/* base/error.h - record why a call failed, once, where it is known.
 *
 * The function that first knows the cause calls rbt_fail(). Callers that can say what they were
 * doing wrap it with rbt_fail_in(). Nobody else writes a message, and library code never logs one:
 * the top of the program decides what to do with rbt_last_error().
 *
 * A second sentence, the hint, may say what to do next; the command line prints it on a line of its
 * own. Threads: the record belongs to the calling thread. */
#ifndef RUBATO_BASE_ERROR_H
#define RUBATO_BASE_ERROR_H

#include <rubato/export.h>
#include <rubato/status.h>

enum { RBT_ERROR_MAX = 1024 }; /* longest message, with its terminating zero */

/* Sets the thread's error message, clears its hint, and returns `status`, so that
 * `return rbt_fail(...)` reads well. For RBT_E_IO the text of errno is appended. */
rbt_status rbt_fail(rbt_status status, const char *format, ...) RBT_PRINTF(2, 3);

/* Puts "<context>: " in front of the message already recorded and returns `status` unchanged. */
rbt_status rbt_fail_in(rbt_status status, const char *format, ...) RBT_PRINTF(2, 3);

/* Adds what to do about the failure just recorded: a sentence. Returns `status` unchanged. */
rbt_status rbt_fail_hint(rbt_status status, const char *format, ...) RBT_PRINTF(2, 3);

/* The hint of the last failure on this thread, or "". */
const char *rbt_last_hint(void);

/* Copies this thread's record out, and into another thread's: for failures of helper threads. */
struct rbt_error_record {
    char message[RBT_ERROR_MAX];
    char hint[RBT_ERROR_MAX];
};
void rbt_error_save(struct rbt_error_record *record);
void rbt_error_restore(const struct rbt_error_record *record);

#endif
