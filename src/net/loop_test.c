/* net/loop_test.c - the event loop: descriptors, timers, wake-ups from another thread, and handles
 * that are closed from within their own callbacks. Each test stops the loop itself. */
#include "base/test.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/loop.h"

#define MS ((rbt_time)1000000)

struct fixture {
    rbt_loop *loop;
    int pair[2];
    rbt_watch *watch;
    rbt_timer *timer;
    rbt_timer *other;
    rbt_time due;
    short events; /* that came last */
    int calls;
    int calls_max; /* then the loop is stopped */
    int sleeps;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.calls_max = 1};
    assert_ok(rbt_loop_create(&fixture.loop));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fixture.pair), 0);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_watch_close(f->watch);
    rbt_timer_close(f->timer);
    rbt_timer_close(f->other);
    rbt_loop_destroy(f->loop);
    (void)close(f->pair[0]);
    (void)close(f->pair[1]);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static void count(void *context)
{
    struct fixture *f = context;
    f->calls++;
    if (f->calls == f->calls_max) {
        rbt_loop_stop(f->loop);
    }
}

static void note(void *context, short events)
{
    struct fixture *f = context;
    f->events = events;
    count(f);
}

static void watch(struct fixture *f, short events)
{
    const struct rbt_watcher watcher = {.on_events = note, .context = f};
    assert_ok(rbt_loop_watch(f->loop, f->pair[0], events, &watcher, &f->watch));
}

static void what_is_possible_is_told(void **state)
{
    struct fixture *f = *state;
    watch(f, POLLIN | POLLOUT);
    rbt_loop_run(f->loop);
    assert_int_equal(f->events, POLLOUT);
    f->calls = 0;
    assert_int_equal(write(f->pair[1], "x", 1), 1);
    rbt_watch_change(f->watch, POLLIN);
    rbt_loop_run(f->loop);
    assert_int_equal(f->events, POLLIN);
    f->calls = 0;
    rbt_watch_change(f->watch, POLLIN | POLLOUT);
    rbt_loop_run(f->loop);
    assert_int_equal(f->events, POLLIN | POLLOUT);
}

static void nothing_is_told_that_was_not_asked_for(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(write(f->pair[1], "x", 1), 1);
    watch(f, 0);
    f->calls_max = 3;
    assert_ok(rbt_loop_every(f->loop, MS, count, f, &f->timer));
    rbt_loop_run(f->loop);
    assert_int_equal(f->events, 0);
    assert_true(f->calls >= 3); /* more, if the loop was late: it ends after the round */
}

static void a_peer_that_is_gone_is_told_again_and_again(void **state)
{
    struct fixture *f = *state;
    watch(f, POLLIN | POLLOUT);
    (void)close(f->pair[1]);
    f->pair[1] = -1;
    f->calls_max = 3;
    rbt_loop_run(f->loop);
    assert_int_equal(f->events, POLLIN | POLLOUT);
    assert_true(f->calls >= 3);
}

/* An error without anything to read: the far end is closed with bytes unread. */
static void an_error_counts_as_both(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(write(f->pair[0], "x", 1), 1);
    (void)close(f->pair[1]);
    f->pair[1] = -1;
    watch(f, POLLIN | POLLOUT);
    f->calls_max = 3;
    rbt_loop_run(f->loop);
    assert_int_equal(f->events, POLLIN | POLLOUT);
}

static void close_own(void *context, short events)
{
    struct fixture *f = context;
    (void)events;
    f->calls++;
    rbt_watch_close(f->watch);
    f->watch = NULL;
    (void)close(f->pair[0]);
    f->pair[0] = -1;
    rbt_loop_stop(f->loop);
}

static void a_callback_may_close_its_own_watch(void **state)
{
    struct fixture *f = *state;
    const struct rbt_watcher watcher = {.on_events = close_own, .context = f};
    assert_ok(rbt_loop_watch(f->loop, f->pair[0], POLLOUT, &watcher, &f->watch));
    rbt_loop_run(f->loop);
    assert_int_equal(f->calls, 1);
}

static void close_timer(void *context)
{
    struct fixture *f = context;
    f->calls++;
    rbt_timer_close(f->timer);
    f->timer = NULL;
    rbt_loop_stop(f->loop);
}

static void a_callback_may_close_its_own_timer(void **state)
{
    struct fixture *f = *state;
    assert_ok(rbt_loop_every(f->loop, 1, close_timer, f, &f->timer));
    rbt_loop_run(f->loop);
    assert_int_equal(f->calls, 1);
}

static void a_timer_comes_again_but_not_too_early(void **state)
{
    struct fixture *f = *state;
    f->calls_max = 3;
    const rbt_time begin = rbt_clock_now();
    assert_ok(rbt_loop_every(f->loop, 2 * MS, count, f, &f->timer));
    rbt_loop_run(f->loop);
    assert_int_equal(f->calls, 3);
    assert_true(rbt_clock_now() - begin >= 5 * MS); /* libuv counts in whole milliseconds */
}

static void set_again(void *context)
{
    struct fixture *f = context;
    assert_true(rbt_clock_now() >= f->due);
    f->due = rbt_clock_now() + MS;
    rbt_timer_set(f->timer, f->due);
    count(f);
}

static void a_timer_that_is_set_comes_once_and_not_too_early(void **state)
{
    struct fixture *f = *state;
    f->calls_max = 3;
    f->due = rbt_clock_now() + 2 * MS;
    assert_ok(rbt_loop_timer(f->loop, set_again, f, &f->timer));
    rbt_timer_set(f->timer, 0); /* replaced */
    rbt_timer_set(f->timer, f->due);
    rbt_loop_run(f->loop);
    assert_int_equal(f->calls, 3);
    rbt_timer_set(f->timer, RBT_TIME_NEVER);
    f->calls_max = 4;
    assert_ok(rbt_loop_every(f->loop, 3 * MS, count, f, &f->other));
    rbt_loop_run(f->loop); /* ends with the other one's first call */
    assert_int_equal(f->calls, 4);
}

static void note_sleep(void *context)
{
    struct fixture *f = context;
    f->sleeps++;
}

static void before_the_loop_sleeps_there_is_a_call(void **state)
{
    struct fixture *f = *state;
    rbt_loop_before_sleep(f->loop, note_sleep, f);
    f->calls_max = 3;
    watch(f, POLLOUT);
    rbt_loop_run(f->loop);
    const int sleeps = f->sleeps;
    assert_true(sleeps >= 3);
    rbt_loop_before_sleep(f->loop, NULL, NULL);
    f->calls = 0;
    rbt_loop_run(f->loop);
    assert_int_equal(f->sleeps, sleeps);
}

static void *wake(void *context)
{
    struct fixture *f = context;
    rbt_loop_wake(f->loop);
    return NULL;
}

static void *stop(void *context)
{
    struct fixture *f = context;
    rbt_loop_stop(f->loop);
    return NULL;
}

static void another_thread_wakes_and_stops_the_loop(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    rbt_loop_on_wake(f->loop, count, f);
    assert_int_equal(pthread_create(&thread, NULL, wake, f), 0);
    rbt_loop_run(f->loop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(f->calls, 1);
    rbt_loop_on_wake(f->loop, NULL, NULL);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(pthread_create(&thread, NULL, stop, f), 0);
        rbt_loop_run(f->loop);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static void a_loop_that_was_stopped_before_it_runs_ends_at_once(void **state)
{
    struct fixture *f = *state;
    rbt_loop_stop(f->loop);
    rbt_loop_run(f->loop);
}

static void a_lack_of_memory_is_survived(void **state)
{
    struct fixture *f = *state;
    const struct rbt_watcher watcher = {.on_events = note, .context = f};
    rbt_loop *loop = NULL;
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_loop_create(&loop), RBT_E_NOMEM, "out of memory");
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_loop_watch(f->loop, f->pair[0], POLLIN, &watcher, &f->watch), RBT_E_NOMEM,
                 "out of memory");
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_loop_every(f->loop, MS, count, f, &f->timer), RBT_E_NOMEM, "out of memory");
    rbt_alloc_fail_nth(0);
    assert_fails(rbt_loop_watch(f->loop, -1, POLLIN, &watcher, &f->watch), RBT_E_IO,
                 "could not watch a connection");
}

#define UNIT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNIT(what_is_possible_is_told),
        UNIT(nothing_is_told_that_was_not_asked_for),
        UNIT(a_peer_that_is_gone_is_told_again_and_again),
        UNIT(an_error_counts_as_both),
        UNIT(a_callback_may_close_its_own_watch),
        UNIT(a_callback_may_close_its_own_timer),
        UNIT(a_timer_comes_again_but_not_too_early),
        UNIT(a_timer_that_is_set_comes_once_and_not_too_early),
        UNIT(before_the_loop_sleeps_there_is_a_call),
        UNIT(another_thread_wakes_and_stops_the_loop),
        UNIT(a_loop_that_was_stopped_before_it_runs_ends_at_once),
        UNIT(a_lack_of_memory_is_survived),
    };
    return cmocka_run_group_tests_name("net/loop", tests, NULL, NULL);
}
