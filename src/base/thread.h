/* base/thread.h - run a function on several threads and collect how it went. */
#ifndef RUBATO_BASE_THREAD_H
#define RUBATO_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#include <rubato/export.h>
#include <rubato/status.h>

/* How many threads can run at once on this machine, as this process may use it; at least 1. */
uint32_t rbt_thread_cores(void);

/* Every thread has at least so much stack, whatever "ulimit -s" says. */
enum { RBT_THREAD_STACK = 1 << 20 };

/* pthread_create() with that stack. */
int rbt_thread_create(pthread_t *thread, void *(*function)(void *argument), void *argument);

/* Calls `function(argument, index)` for index 0 .. count-1, each on a thread of its own, and waits
 * for all. Returns RBT_OK or the first failure by index, whose message and hint become the
 * caller's. If a thread cannot be started, those already started are waited for and RBT_E_IO is
 * returned: `function` must therefore not wait for a thread with a higher index to start. */
RBT_MUST_USE rbt_status rbt_thread_run(uint32_t count,
                                       rbt_status (*function)(void *argument, uint32_t index),
                                       void *argument);

#endif
