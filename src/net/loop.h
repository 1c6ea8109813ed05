/* net/loop.h - one thread's event loop: descriptors, timers, and being woken by other threads.
 *
 * A thin layer over libuv, so that nothing else includes its header. All callbacks run on the
 * thread that runs the loop; only rbt_loop_wake() and rbt_loop_stop() may be called by others. */
#ifndef RUBATO_NET_LOOP_H
#define RUBATO_NET_LOOP_H

#include <rubato/export.h>
#include <rubato/status.h>

#include "base/clock.h"

typedef struct rbt_loop rbt_loop;
typedef struct rbt_watch rbt_watch;
typedef struct rbt_timer rbt_timer;

RBT_MUST_USE rbt_status rbt_loop_create(rbt_loop **loop);

/* Watches and timers must have been closed before. */
void rbt_loop_destroy(rbt_loop *loop);

/* Runs until rbt_loop_stop(). Before the loop sleeps, `before_sleep` is called, if there is one:
 * the place to flush what the callbacks have queued. */
void rbt_loop_run(rbt_loop *loop);

/* Makes the loop look around for a moment before it sleeps, as long as that pays (net/spin.h): for
 * threads whose answers others wait for. */
void rbt_loop_set_spinning(rbt_loop *loop);
void rbt_loop_before_sleep(rbt_loop *loop, void (*callback)(void *context), void *context);
void rbt_loop_stop(rbt_loop *loop);

/* Runs `callback` soon on the loop's thread; several wakes may become one call. */
void rbt_loop_on_wake(rbt_loop *loop, void (*callback)(void *context), void *context);
void rbt_loop_wake(rbt_loop *loop);

/* Calls back with what of POLLIN and POLLOUT is possible (POLLERR and POLLHUP count as both). The
 * descriptor must be unwatched before it is closed; a callback may do so. */
struct rbt_watcher {
    void (*on_events)(void *context, short events);
    void *context;
};
RBT_MUST_USE rbt_status rbt_loop_watch(rbt_loop *loop, int descriptor, short events,
                                       const struct rbt_watcher *watcher, rbt_watch **watch);
void rbt_watch_change(rbt_watch *watch, short events); /* cheap if nothing changes */
void rbt_watch_close(rbt_watch *watch);

/* Calls back every `period`, first after that time. */
RBT_MUST_USE rbt_status rbt_loop_every(rbt_loop *loop, rbt_time period,
                                       void (*callback)(void *context), void *context,
                                       rbt_timer **timer);

/* Calls back once at each time that rbt_timer_set() names, and never before it; at first there is
 * none. A new time replaces the one before; RBT_TIME_NEVER is none. */
RBT_MUST_USE rbt_status rbt_loop_timer(rbt_loop *loop, void (*callback)(void *context),
                                       void *context, rbt_timer **timer);
void rbt_timer_set(rbt_timer *timer, rbt_time at); /* cheap if nothing changes */
void rbt_timer_close(rbt_timer *timer);

#endif
