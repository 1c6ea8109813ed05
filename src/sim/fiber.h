/* sim/fiber.h - functions that can stop half-way: one thread, many stacks.
 *
 * rbt_fiber_resume() runs a fiber until it calls rbt_fiber_yield() or its function returns. Each
 * fiber has its own error record (base/error.h). A fiber that is destroyed must have ended, or
 * never have run: what is on its stack is not cleaned up.
 *
 * Threads: fibers belong to the thread that made them. The sanitizers are told of every switch. */
#ifndef RUBATO_SIM_FIBER_H
#define RUBATO_SIM_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#include <rubato/export.h>
#include <rubato/status.h>

typedef struct rbt_fiber rbt_fiber;

typedef void (*rbt_fiber_function)(void *argument);

/* On success stores a fiber that the caller destroys. The stack is rounded up to pages, is never
 * smaller than 16 KiB, and ends in a page that cannot be touched; memory is taken as it is used.
 * Fails with RBT_E_NOMEM. */
RBT_MUST_USE rbt_status rbt_fiber_create(rbt_fiber_function function, void *argument,
                                         size_t stack_bytes, rbt_fiber **fiber);

/* Accepts NULL. */
void rbt_fiber_destroy(rbt_fiber *fiber);

/* Runs the fiber, which has not ended, from outside of any fiber. */
void rbt_fiber_resume(rbt_fiber *fiber);

/* Goes back to where the running fiber was resumed. */
void rbt_fiber_yield(void);

/* The fiber that is running, or NULL. */
rbt_fiber *rbt_fiber_running(void);

bool rbt_fiber_has_ended(const rbt_fiber *fiber);

#endif
