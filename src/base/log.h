/* base/log.h - lines for people who watch a process: time, level, module, what happened, details.
 *
 *     12:03:44 info  server: listening address=unix:/tmp/x
 *
 * Only programs log, and only the life of a process: who came, who went, who was refused. Threads:
 * any; a line is written whole. */
#ifndef RUBATO_BASE_LOG_H
#define RUBATO_BASE_LOG_H

#include <stdio.h>

#include <rubato/export.h>

enum rbt_log_level {
    RBT_LOG_INFO, /* life cycle */
    RBT_LOG_WARN, /* noticed; work goes on */
};

/* Writes one line to `log`, which may be NULL. `what` is constant; `format` makes pairs key=value.
 */
void rbt_log(FILE *log, enum rbt_log_level level, const char *module, const char *what,
             const char *format, ...) RBT_PRINTF(5, 6);

#endif
