/* base/error.c - the calling thread's last error: a message, and perhaps what to do about it. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct rbt_error_record last;

/* Adds ": " and `text` to the message, which has `length` characters, as far as there is room. */
static void append(size_t length, const char *text)
{
    const char *const parts[] = {": ", text};
    for (size_t i = 0; i < 2; i++) {
        const size_t room = sizeof last.message - 1 - length;
        const size_t size = strnlen(parts[i], room);
        memcpy(last.message + length, parts[i], size);
        length += size;
    }
    last.message[length] = '\0';
}

rbt_status rbt_fail(rbt_status status, const char *format, ...)
{
    const int error = errno; /* before vsnprintf can change it */
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(last.message, sizeof last.message, format, args);
    va_end(args);
    last.hint[0] = '\0';
    if (status == RBT_E_IO && error != 0 && length >= 0 && (size_t)length < sizeof last.message) {
        char text[128];
        append((size_t)length, strerror_r(error, text, sizeof text));
    }
    return status;
}

rbt_status rbt_fail_in(rbt_status status, const char *format, ...)
{
    char inner[RBT_ERROR_MAX];
    memcpy(inner, last.message, sizeof inner);
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(last.message, sizeof last.message, format, args);
    va_end(args);
    if (length >= 0 && (size_t)length < sizeof last.message) {
        append((size_t)length, inner);
    }
    return status;
}

rbt_status rbt_fail_hint(rbt_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(last.hint, sizeof last.hint, format, args);
    va_end(args);
    return status;
}

const char *rbt_last_error(void)
{
    return last.message;
}

const char *rbt_last_hint(void)
{
    return last.hint;
}

void rbt_error_save(struct rbt_error_record *record)
{
    *record = last;
}

void rbt_error_restore(const struct rbt_error_record *record)
{
    last = *record;
}

const char *rbt_status_text(rbt_status status)
{
    switch (status) {
#define X(name, value, text)                                                                       \
    case RBT_##name:                                                                               \
        return text;
        RBT_STATUS_LIST(X)
#undef X
    }
    return "an unrecognised status";
}
