/* base/log.h - lines for people who watch a process: time, level, module, what happened, details.
 *
 *     12:03:44.250 info server: listening address=unix:/tmp/x
 *
 * Only programs log, and only the life of a process: who came, who went, who was refused. Threads:
 * any; a line is written whole. */
#ifndef RUBATO_BASE_LOG_H
#define RUBATO_BASE_LOG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <rubato/export.h>

enum rbt_log_level {
    RBT_LOG_INFO, /* life cycle */
    RBT_LOG_WARN, /* noticed; work goes on */
};

/* Writes one line to `log`, which may be NULL. `format` is a constant message in lower case, then
 * pairs key=value. */
void rbt_log(FILE *log, enum rbt_log_level level, const char *module, const char *format, ...)
    RBT_PRINTF(4, 5);
void rbt_log_list(FILE *log, enum rbt_log_level level, const char *module, const char *format,
                  va_list arguments);

/* Leaves out what is only information, in the whole process. */
void rbt_log_set_quiet(bool is_quiet);

#endif
