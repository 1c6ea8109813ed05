/* base/log.c - lines for people who watch a process. */
#include "base/log.h"

#include <stdatomic.h>
#include <time.h>

enum { NS_PER_MS = 1000000 };

static atomic_bool quiet; /* relaxed: a line more or less does not matter */

void rbt_log_set_quiet(bool is_quiet)
{
    atomic_store_explicit(&quiet, is_quiet, memory_order_relaxed);
}

void rbt_log_list(FILE *log, enum rbt_log_level level, const char *module, const char *format,
                  va_list arguments)
{
    if (log == NULL ||
        (level == RBT_LOG_INFO && atomic_load_explicit(&quiet, memory_order_relaxed))) {
        return;
    }
    struct timespec now = {0};
    struct tm broken = {0};
    char text[1024];
    (void)clock_gettime(CLOCK_REALTIME, &now);       /* cannot fail for this clock */
    (void)localtime_r(&now.tv_sec, &broken);         /* without it the time reads 00:00:00 */
    vsnprintf(text, sizeof text, format, arguments); /* a longer line is cut */
    for (char *c = text; *c != '\0'; c++) { /* peers choose some of it: a line stays a line */
        *c = (unsigned char)*c < ' ' || *c == 127 ? '?' : *c;
    }
    flockfile(log);
    fprintf(log, "%02d:%02d:%02d.%03ld %s %s: %s\n", broken.tm_hour, broken.tm_min, broken.tm_sec,
            now.tv_nsec / NS_PER_MS, level == RBT_LOG_INFO ? "info" : "warn", module, text);
    (void)fflush(log); /* who cannot be told need not know */
    funlockfile(log);
}

void rbt_log(FILE *log, enum rbt_log_level level, const char *module, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    rbt_log_list(log, level, module, format, arguments);
    va_end(arguments);
}
