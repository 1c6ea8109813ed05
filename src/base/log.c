/* base/log.c - lines for people who watch a process. */
#include "base/log.h"

#include <stdarg.h>
#include <time.h>

void rbt_log(FILE *log, enum rbt_log_level level, const char *module, const char *what,
             const char *format, ...)
{
    if (log == NULL) {
        return;
    }
    const time_t now = time(NULL);
    struct tm broken = {0};
    (void)localtime_r(&now, &broken); /* without it the time reads 00:00:00 */
    char details[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(details, sizeof details, format, arguments);
    va_end(arguments);
    for (char *c = details; *c != '\0'; c++) { /* peers choose some of it: a line stays a line */
        *c = (unsigned char)*c < ' ' || *c == 127 ? '?' : *c;
    }
    flockfile(log);
    fprintf(log, "%02d:%02d:%02d %s %s: %s%s%s\n", broken.tm_hour, broken.tm_min, broken.tm_sec,
            level == RBT_LOG_INFO ? "info" : "warn", module, what, details[0] != '\0' ? " " : "",
            details);
    (void)fflush(log);
    funlockfile(log);
}
