/* rubato/status.h - the one vocabulary of failure, shared by every function that can fail. */
#ifndef RUBATO_STATUS_H
#define RUBATO_STATUS_H

#include <rubato/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(NAME, value, "what it means, in lower case, without a full stop").
 * Values are part of the ABI and of the wire format: append, never renumber. */
#define RBT_STATUS_LIST(X)                                                                         \
    X(OK, 0, "success")                                                                            \
    X(E_NOMEM, -1, "out of memory")                                                                \
    X(E_INVALID, -2, "invalid argument")                                                           \
    X(E_NOTFOUND, -3, "no such object")                                                            \
    X(E_BUSY, -4, "something else must be finished first")                                         \
    X(E_TIMEOUT, -5, "the deadline passed")                                                        \
    X(E_CLOSED, -6, "the peer or the handle is closed")                                            \
    X(E_PROTOCOL, -7, "the peer sent something that is not allowed")                               \
    X(E_IO, -8, "the operating system reported an error")                                          \
    X(E_DATA, -9, "the content of a file is wrong")                                                \
    X(E_INTERRUPTED, -10, "the user asked to stop")                                                \
    X(E_TOO_SMALL, -11, "the room that the caller gave is too small")

typedef enum rbt_status {
#define X(name, value, text) RBT_##name = (value),
    RBT_STATUS_LIST(X)
#undef X
} rbt_status;

/* Returns the constant text for `status`; never NULL, even for a value from a newer peer. */
RBT_API const char *rbt_status_text(rbt_status status);

/* The message of the last failed call on the calling thread, outermost context first, or "".
 * Owned by the library; valid until the next Rubato call on this thread. */
RBT_API const char *rbt_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
