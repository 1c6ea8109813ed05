/* comm/window_test.c - a network that does not keep up is noticed, left alone, and used again. */
#include "base/test.h"

#include "comm/limiter.h"
#include "comm/link_rig.h"
#include "comm/window.h"

enum {
    RATE = 10000000, /* bytes per second */
    BURST = 200000,
    MESSAGE = 50000,
    WAY = 5000000,    /* 5 ms */
    SLACK = 50000000, /* 50 ms */
    COUNT_MAX = 64,
    MILLISECOND = 1000000,
};

/* A sender with a budget, a window, and always something to send; the clock sends as well. */
struct play {
    struct link_rig link;
    struct rbt_limiter limiter;
    struct rbt_window window;
    bool has_window;
    uint64_t clock_bytes; /* sent without asking ... */
    rbt_time clock_time;  /* ... every so often; 0: never */
};

static struct play play;

static void begin(bool has_window)
{
    link_init(&play.link, RATE, WAY);
    rbt_limiter_init(&play.limiter, RATE, BURST, 0);
    rbt_window_init(&play.window, COUNT_MAX, SLACK);
    play.has_window = has_window;
    play.clock_time = 0;
}

static void send(uint64_t bytes)
{
    const uint64_t sequence = link_send(&play.link, bytes);
    rbt_limiter_note(&play.limiter, play.link.now, bytes);
    rbt_window_sent(&play.window, sequence, bytes, play.link.now, rbt_limiter_delay(&play.limiter));
}

/* So many seconds pass. Returns how much of RATE was carried. */
static double run(double seconds)
{
    struct link_rig *link = &play.link;
    const uint64_t before = link->carried_bytes;
    const rbt_time end = link->now + (rbt_time)(seconds * LINK_SECOND);
    link->wait_max = 0;
    while (link->now < end) {
        const uint64_t heard = link_step(link);
        if (heard > 0) {
            rbt_window_acknowledged(&play.window, heard, link->now);
        }
        if (play.clock_time > 0 && link->now % play.clock_time == 0) {
            send(play.clock_bytes);
        }
        while (rbt_limiter_room(&play.limiter, link->now) >= MESSAGE &&
               (rbt_window_is_open(&play.window, link->now) || !play.has_window)) {
            send(MESSAGE);
        }
    }
    return (double)(link->carried_bytes - before) / (seconds * RATE);
}

static void a_link_of_the_budgets_rate_is_used_without_a_pause(void **state)
{
    (void)state;
    begin(true);
    assert_true(run(30) > 0.99);
    assert_int_equal(play.window.pauses, 0);
    assert_true(play.link.wait_max <= 30 * MILLISECOND);
}

/* The rate falls for ten seconds, and comes back. How long a message may wait: see window.c. */
static void fall_to(uint64_t rate)
{
    const double second = LINK_SECOND;
    const double slack = SLACK + BURST * second / RATE;
    const double quickest = 2.0 * WAY + MESSAGE * second / (double)rate;
    const double at_once = BURST * second / (double)rate;
    const double wait_max = (at_once > slack ? at_once : slack) +
                            (quickest + slack) * (RATE / (double)rate - 1) +
                            2 * MESSAGE * second / (double)rate;
    begin(true);
    (void)run(5);
    play.link.rate = rate;
    const double slow = run(10) * RATE / (double)rate;
    assert_true((double)play.link.wait_max < wait_max);
    assert_true(slow > 0.85);
    assert_true(play.window.pauses > 0);
    play.link.rate = RATE;
    (void)run(2);
    const uint64_t pauses = play.window.pauses;
    assert_true(run(5) > 0.95);
    assert_int_equal(play.window.pauses, pauses);
}

static void a_link_that_falls_to_half_its_rate_is_left_alone_and_used_again(void **state)
{
    (void)state;
    fall_to(RATE / 2); /* 180 ms */
    fall_to(RATE / 4);
    fall_to(RATE / 10 * 9);
}

static void without_the_window_the_queue_grows(void **state)
{
    (void)state;
    begin(false);
    (void)run(5);
    play.link.rate = RATE / 2;
    (void)run(10);
    assert_true(play.link.wait_max > 4 * (rbt_time)LINK_SECOND);
}

/* Slower by so little that no ten seconds show it. */
static void a_queue_that_grows_slowly_does_not_grow_for_ever(void **state)
{
    (void)state;
    begin(true);
    (void)run(5);
    play.link.rate = RATE / 1000 * 998;
    assert_true(run(200) > 0.95);
    assert_true(play.link.wait_max < 2 * SLACK);
    assert_true(play.window.probes > 0);
    begin(false);
    play.link.rate = RATE / 1000 * 998;
    (void)run(200);
    assert_true(play.link.wait_max > 5 * SLACK);
}

static void a_longer_route_is_got_used_to(void **state)
{
    (void)state;
    begin(true);
    assert_true(run(5) > 0.95);
    play.link.way = 100 * MILLISECOND;
    assert_true(run(12) > 0.1); /* too late by what is known, but never for ever */
    assert_true(play.window.pauses > 0);
    const uint64_t pauses = play.window.pauses;
    assert_true(run(10) > 0.95);
    assert_int_equal(play.window.pauses, pauses);
    play.link.way = WAY;
    assert_true(run(5) > 0.95);
    assert_true(play.window.quickest < 40 * (rbt_time)MILLISECOND);
}

static void a_dead_link_gets_no_more_and_is_used_when_it_is_back(void **state)
{
    (void)state;
    begin(true);
    (void)run(5);
    play.link.rate = 0;
    const uint64_t sent = play.link.sent;
    (void)run(60);
    assert_true(play.link.sent - sent <= 20);
    play.clock_bytes = 1000; /* the clocks' end goes nevertheless, and overflows the ring */
    play.clock_time = 10 * MILLISECOND;
    (void)run(10);
    assert_true(play.link.sent - sent > 1000);
    assert_int_equal(play.window.count, RBT_WINDOW_MESSAGES);
    play.link.rate = RATE;
    (void)run(2);
    assert_true(run(5) > 0.95);
    assert_true(play.window.count < COUNT_MAX);
}

/* From the start: nothing is known of the link, and nothing comes back. */
static void before_the_first_answer_only_so_many_are_sent(void **state)
{
    (void)state;
    begin(true);
    play.link.rate = 0;
    (void)run(20);
    assert_int_equal(play.link.sent, COUNT_MAX);
    assert_false(rbt_window_is_open(&play.window, play.link.now));
}

/* Half a second's worth at once, every second: its own size makes it late, and that is forgiven. */
static void a_large_clock_is_not_taken_for_a_slow_link(void **state)
{
    (void)state;
    begin(true);
    play.clock_bytes = RATE / 2;
    play.clock_time = LINK_SECOND;
    (void)run(2);
    assert_true(run(20) > 0.97);
    assert_int_equal(play.window.pauses, 0);
    play.link.rate = RATE / 2;
    (void)run(5);
    assert_true(play.window.pauses > 0);
}

static void messages_beyond_the_ring_are_joined_and_none_is_lost(void **state)
{
    (void)state;
    struct rbt_window window;
    rbt_window_init(&window, RBT_WINDOW_MESSAGES, SLACK);
    for (uint64_t i = 1; i <= 1000; i++) {
        assert_int_equal(rbt_window_is_open(&window, 0), i <= RBT_WINDOW_MESSAGES);
        rbt_window_sent(&window, i, i, 0, 0);
    }
    assert_int_equal(window.bytes, 500500);
    rbt_window_acknowledged(&window, 255, 1);
    assert_int_equal(window.count, 1);
    assert_int_equal(window.bytes, 500500 - 255 * 128);
    rbt_window_acknowledged(&window, 999, 2);
    assert_int_equal(window.count, 1);
    rbt_window_acknowledged(&window, 1000, 3);
    assert_int_equal(window.count, 0);
    assert_int_equal(window.bytes, 0);
    assert_true(rbt_window_is_open(&window, 3));
}

static void what_is_acknowledged_twice_changes_nothing(void **state)
{
    (void)state;
    struct rbt_window window;
    rbt_window_init(&window, 4, SLACK);
    rbt_window_sent(&window, 5, 10, 0, 0);
    rbt_window_acknowledged(&window, 4, 1);
    assert_true(window.quickest == RBT_TIME_NEVER);
    rbt_window_acknowledged(&window, 5, 7);
    rbt_window_acknowledged(&window, 5, 1000);
    rbt_window_acknowledged(&window, 3, 1000);
    assert_int_equal(window.quickest, 7);
    assert_int_equal(window.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_of_the_budgets_rate_is_used_without_a_pause),
        cmocka_unit_test(a_link_that_falls_to_half_its_rate_is_left_alone_and_used_again),
        cmocka_unit_test(without_the_window_the_queue_grows),
        cmocka_unit_test(a_queue_that_grows_slowly_does_not_grow_for_ever),
        cmocka_unit_test(a_longer_route_is_got_used_to),
        cmocka_unit_test(a_dead_link_gets_no_more_and_is_used_when_it_is_back),
        cmocka_unit_test(before_the_first_answer_only_so_many_are_sent),
        cmocka_unit_test(a_large_clock_is_not_taken_for_a_slow_link),
        cmocka_unit_test(messages_beyond_the_ring_are_joined_and_none_is_lost),
        cmocka_unit_test(what_is_acknowledged_twice_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
