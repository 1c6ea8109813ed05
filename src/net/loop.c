/* net/loop.c - one thread's event loop over libuv.
 *
 * Every libuv handle is the first member of an object of ours and lives until libuv has called back
 * that it is closed, which needs another turn of the loop; destroying the loop takes those turns.
 *
 * Being stopped and being woken share one uv_async: a flag tells them apart.
 *
 * Threads: see loop.h; `must_stop` is the only thing that other threads write. */
#include "net/loop.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "net/spin.h"

#define NS_PER_MS 1000000

struct call {
    void (*function)(void *context);
    void *context;
};

struct rbt_loop {
    uv_loop_t uv; /* first: libuv's pointer is ours */
    uv_async_t async;
    uv_prepare_t prepare;
    bool has_async; /* the handle was made, and must be closed */
    struct call on_wake;
    struct call before_sleep;
    atomic_bool must_stop; /* set by any thread */
    bool is_stopped;       /* the loop's own note of it */
    bool is_spinning;
    struct rbt_spin spin;
    uint64_t events; /* that watches and others have told of */
};

struct rbt_watch {
    uv_poll_t uv; /* first: libuv's pointer is ours */
    struct rbt_watcher watcher;
    short events; /* asked for */
};

struct rbt_timer {
    uv_timer_t uv; /* first: libuv's pointer is ours */
    struct call call;
    rbt_time at; /* see rbt_timer_set() */
};

/* libuv returns the negative of errno. */
static rbt_status fail_uv(int error, const char *what)
{
    errno = error == UV_ENOMEM ? 0 : -error;
    return rbt_fail(error == UV_ENOMEM ? RBT_E_NOMEM : RBT_E_IO, "could not %s", what);
}

static void free_handle(uv_handle_t *handle)
{
    rbt_free(handle);
}

static void run_call(const struct call *call)
{
    if (call->function != NULL) {
        call->function(call->context);
    }
}

static void on_async(uv_async_t *handle)
{
    rbt_loop *loop = handle->data;
    run_call(&loop->on_wake);
    /* acquire: pairs with the release in rbt_loop_stop() */
    if (atomic_exchange_explicit(&loop->must_stop, false, memory_order_acquire)) {
        uv_stop(&loop->uv);
        loop->is_stopped = true;
    }
    loop->events++;
}

static void on_prepare(uv_prepare_t *handle)
{
    const rbt_loop *loop = handle->data;
    run_call(&loop->before_sleep);
}

rbt_status rbt_loop_create(rbt_loop **loop)
{
    rbt_loop *created = rbt_calloc(1, sizeof *created);
    if (created == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not make an event loop: out of memory");
    }
    int error = uv_loop_init(&created->uv);
    if (error != 0) {
        rbt_free(created);
        return fail_uv(error, "make an event loop");
    }
    error = uv_async_init(&created->uv, &created->async, on_async);
    if (error != 0) {
        rbt_loop_destroy(created);
        return fail_uv(error, "make an event loop");
    }
    created->has_async = true;
    created->async.data = created;
    error = uv_prepare_init(&created->uv, &created->prepare);
    RBT_ASSERT(error == 0); /* it only fills in a structure */
    created->prepare.data = created;
    *loop = created;
    return RBT_OK;
}

void rbt_loop_destroy(rbt_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    if (loop->has_async) {
        uv_close((uv_handle_t *)&loop->async, NULL);
        uv_close((uv_handle_t *)&loop->prepare, NULL);
    }
    /* What is left are handles that are closing; each needs its call back. */
    (void)uv_run(&loop->uv, UV_RUN_DEFAULT);
    const int error = uv_loop_close(&loop->uv);
    RBT_ASSERT(error == 0); /* else a watch or a timer is still open */
    rbt_free(loop);
}

void rbt_loop_set_spinning(rbt_loop *loop)
{
    loop->is_spinning = true;
}

/* Looks for more without sleeping, until nothing has come for a while. */
static void spin(rbt_loop *loop)
{
    while (!loop->is_stopped && rbt_spin_begin(&loop->spin)) {
        const uint64_t before = loop->events;
        do {
            (void)uv_run(&loop->uv, UV_RUN_NOWAIT); /* handles are left, always */
        } while (loop->events == before && rbt_spin_again(&loop->spin));
        rbt_spin_end(&loop->spin, loop->events != before);
        if (loop->events == before) {
            return;
        }
    }
}

void rbt_loop_run(rbt_loop *loop)
{
    loop->is_stopped = false;
    while (!loop->is_stopped) {
        if (loop->is_spinning) {
            spin(loop);
        }
        if (!loop->is_stopped) { /* else a stop would be forgotten, and the loop sleep */
            (void)uv_run(&loop->uv, UV_RUN_ONCE); /* handles are left, always */
        }
    }
}

void rbt_loop_before_sleep(rbt_loop *loop, void (*callback)(void *context), void *context)
{
    loop->before_sleep = (struct call){callback, context};
    const int error = callback != NULL ? uv_prepare_start(&loop->prepare, on_prepare)
                                       : uv_prepare_stop(&loop->prepare);
    RBT_ASSERT(error == 0);
}

void rbt_loop_stop(rbt_loop *loop)
{
    /* release: what was done before is seen by who returns from rbt_loop_run() */
    atomic_store_explicit(&loop->must_stop, true, memory_order_release);
    rbt_loop_wake(loop);
}

void rbt_loop_on_wake(rbt_loop *loop, void (*callback)(void *context), void *context)
{
    loop->on_wake = (struct call){callback, context};
}

void rbt_loop_wake(rbt_loop *loop)
{
    const int error = uv_async_send(&loop->async);
    RBT_ASSERT(error == 0);
}

static void on_poll(uv_poll_t *handle, int status, int events);

static void listen_for(rbt_watch *watch, short events)
{
    const int wanted =
        ((events & POLLIN) != 0 ? UV_READABLE : 0) | ((events & POLLOUT) != 0 ? UV_WRITABLE : 0);
    const int error =
        wanted != 0 ? uv_poll_start(&watch->uv, wanted, on_poll) : uv_poll_stop(&watch->uv);
    RBT_ASSERT(error == 0); /* it fails only for a handle that is closing */
    watch->events = events;
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
    ((rbt_loop *)handle->loop)->events++; /* libuv's loop is the first member of ours */
    rbt_watch *watch = (rbt_watch *)handle;
    if (status < 0) {
        listen_for(watch, watch->events); /* libuv has stopped it; whoever reads finds the error */
        events = UV_READABLE | UV_WRITABLE;
    }
    const int found =
        ((events & UV_READABLE) != 0 ? POLLIN : 0) | ((events & UV_WRITABLE) != 0 ? POLLOUT : 0);
    watch->watcher.on_events(watch->watcher.context, (short)found);
}

rbt_status rbt_loop_watch(rbt_loop *loop, int descriptor, short events,
                          const struct rbt_watcher *watcher, rbt_watch **watch)
{
    rbt_watch *created = rbt_calloc(1, sizeof *created);
    if (created == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not watch a connection: out of memory");
    }
    const int error = uv_poll_init(&loop->uv, &created->uv, descriptor);
    if (error != 0) {
        rbt_free(created);
        return fail_uv(error, "watch a connection");
    }
    created->watcher = *watcher;
    listen_for(created, events);
    *watch = created;
    return RBT_OK;
}

void rbt_watch_change(rbt_watch *watch, short events)
{
    if (watch->events != events) {
        listen_for(watch, events);
    }
}

void rbt_watch_close(rbt_watch *watch)
{
    if (watch != NULL) {
        uv_close((uv_handle_t *)&watch->uv, free_handle);
    }
}

static void on_timer(uv_timer_t *handle)
{
    rbt_timer *timer = (rbt_timer *)handle;
    timer->at = RBT_TIME_NEVER; /* the callback may set it again, or close the timer */
    run_call(&timer->call);
}

rbt_status rbt_loop_timer(rbt_loop *loop, void (*callback)(void *context), void *context,
                          rbt_timer **timer)
{
    rbt_timer *created = rbt_calloc(1, sizeof *created);
    if (created == NULL) {
        return rbt_fail(RBT_E_NOMEM, "could not make a timer: out of memory");
    }
    const int error = uv_timer_init(&loop->uv, &created->uv);
    RBT_ASSERT(error == 0); /* it only fills in a structure */
    created->call = (struct call){callback, context};
    created->at = RBT_TIME_NEVER;
    *timer = created;
    return RBT_OK;
}

static uint64_t round_up(rbt_time time)
{
    return (uint64_t)(time / NS_PER_MS + (time % NS_PER_MS != 0));
}

void rbt_timer_set(rbt_timer *timer, rbt_time at)
{
    if (at == timer->at) {
        return;
    }
    timer->at = at;
    int error;
    if (at == RBT_TIME_NEVER) {
        error = uv_timer_stop(&timer->uv);
    } else {
        const rbt_time left = at - rbt_clock_now();
        uv_update_time(timer->uv.loop); /* which is up to a millisecond behind: hence one more */
        error = uv_timer_start(&timer->uv, on_timer, left <= 0 ? 0 : round_up(left) + 1, 0);
    }
    RBT_ASSERT(error == 0); /* it fails only for a handle that is closing */
}

rbt_status rbt_loop_every(rbt_loop *loop, rbt_time period, void (*callback)(void *context),
                          void *context, rbt_timer **timer)
{
    RBT_ASSERT(period > 0);
    const rbt_status st = rbt_loop_timer(loop, callback, context, timer);
    if (st == RBT_OK) {
        uv_update_time(&loop->uv); /* or it would count from when this turn of the loop began */
        const int error =
            uv_timer_start(&(*timer)->uv, on_timer, round_up(period), round_up(period));
        RBT_ASSERT(error == 0); /* it fails only for a handle that is closing */
    }
    return st;
}

void rbt_timer_close(rbt_timer *timer)
{
    if (timer != NULL) {
        uv_close((uv_handle_t *)&timer->uv, free_handle);
    }
}
