/* comm/manager_test.c - early messages stay within the budget, the end of a clock always goes and
 * makes them wait, and all is counted. */
#include "base/test.h"

#include <stdbool.h>

#include "base/rng.h"
#include "comm/link_rig.h"
#include "comm/manager.h"

enum { RATE = 10000000, MILLISECOND = 1000000 };

static void send(struct rbt_comm *comm, rbt_time now, rbt_comm_class class, size_t bytes)
{
    rbt_comm_sent(comm, now, 0, bytes, class);
}

static void defaults_are_filled_in(void **state)
{
    (void)state;
    struct rbt_comm comm;
    rbt_comm_init(&comm, &(struct rbt_comm_options){.rate = 100000000}, 0);
    assert_int_equal(comm.options.burst, 2000000);
    assert_int_equal(comm.options.message_max, 1000000);
    assert_int_equal(comm.options.message_min, 500000);
    assert_int_equal(comm.options.unacknowledged_max, 8);
    assert_int_equal(comm.options.slack, 50 * MILLISECOND);
    rbt_comm_init(&comm, &(struct rbt_comm_options){.rate = 10000}, 0);
    assert_int_equal(comm.options.message_max, 65536);
    assert_int_equal(comm.options.unacknowledged_max, 64);
    assert_int_equal(comm.options.burst, 131072);
    assert_int_equal(comm.options.message_min, 1024);
    rbt_comm_init(&comm, &(struct rbt_comm_options){.rate = 10000, .message_max = 100}, 0);
    assert_int_equal(comm.options.message_min, 50);
    assert_int_equal(comm.options.burst, 200);
    rbt_comm_init(&comm, &(struct rbt_comm_options){.rate = 1, .message_min = 1000000}, 0);
    assert_int_equal(comm.options.message_max, 1000000);
}

static void without_a_rate_nothing_is_sent_early_and_all_else_is(void **state)
{
    (void)state;
    struct rbt_comm comm;
    rbt_comm_init(&comm, &(struct rbt_comm_options){.rate = 0}, 5);
    assert_int_equal(rbt_comm_grant(&comm, 5), 0);
    assert_true(rbt_comm_when(&comm, 5) == RBT_TIME_NEVER);
    rbt_comm_sent(&comm, 5, 1, 1000000000, RBT_COMM_CLOCK);
    rbt_comm_acknowledged(&comm, 6, 1);
    assert_int_equal(comm.bytes[RBT_COMM_CLOCK], 1000000000);
    assert_int_equal(rbt_comm_grant(&comm, RBT_TIME_NEVER), 0);
}

/* Random plays: a driver that asks when it is told to, and sends all of
 * a grant or some of it; the clock sends what it likes. */
static void grants_stay_within_the_budget_and_use_it(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct rbt_rng rng;
        struct rbt_comm comm;
        rbt_time now = 0;
        uint64_t early = 0;
        uint64_t clock = 0;
        bool is_greedy = seed % 2 == 0;
        rbt_rng_init(&rng, seed, 0, 0);
        const uint64_t rate = 10000 + rbt_rng_below(&rng, RATE);
        rbt_comm_init(&comm, &(struct rbt_comm_options){.rate = rate}, now);
        for (int i = 0; i < 2000; i++) {
            size_t bytes = rbt_comm_grant(&comm, now);
            assert_true(bytes == 0 || bytes >= comm.options.message_min);
            assert_true(bytes <= comm.options.message_max);
            if (bytes > 0) {
                bytes = is_greedy ? bytes : 1 + rbt_rng_below(&rng, bytes);
                send(&comm, now, RBT_COMM_EARLY, bytes);
                early += bytes;
                const double most = (double)rate * (double)now / 1e9 + (double)comm.options.burst;
                assert_true((double)(early + clock) <= most || clock > 0);
            } else {
                const rbt_time when = rbt_comm_when(&comm, now);
                assert_true(when > now); /* or it would have been granted */
                now = is_greedy ? when : when + (rbt_time)rbt_rng_below(&rng, MILLISECOND);
            }
            if (seed % 3 == 0 && rbt_rng_below(&rng, 100) == 0) {
                clock += rate / 4;
                send(&comm, now, RBT_COMM_CLOCK, rate / 4);
            }
        }
        const double all = (double)(early + clock);
        const double due = (double)rate * (double)now / 1e9;
        assert_true(!is_greedy || all > 0.99 * due);
        assert_true(all <= due + (double)comm.options.burst + (double)rate / 4);
        assert_int_equal(comm.bytes[RBT_COMM_EARLY], early);
        assert_int_equal(comm.bytes[RBT_COMM_CLOCK], clock);
    }
}

static void the_end_of_a_clock_goes_and_makes_early_messages_wait(void **state)
{
    (void)state;
    struct rbt_comm comm;
    const struct rbt_comm_options options = {
        .rate = 1000000, .burst = 100000, .message_max = 50000, .message_min = 10000};
    rbt_comm_init(&comm, &options, 0);
    assert_int_equal(rbt_comm_grant(&comm, 0), 50000);
    send(&comm, 0, RBT_COMM_CLOCK, 1000000);
    assert_int_equal(rbt_comm_grant(&comm, 0), 0);
    assert_int_equal(rbt_comm_when(&comm, 0), 910 * MILLISECOND);
    send(&comm, 500 * MILLISECOND, RBT_COMM_CLOCK, 1000000);
    assert_int_equal(rbt_comm_when(&comm, 0), 1910 * (rbt_time)MILLISECOND);
    assert_int_equal(rbt_comm_grant(&comm, 1910 * (rbt_time)MILLISECOND), 10000);
}

static void all_is_counted_by_its_class(void **state)
{
    (void)state;
    struct rbt_comm comm;
    rbt_comm_init(&comm, &(struct rbt_comm_options){.rate = RATE}, 0);
    for (int class = 0; class < RBT_COMM_CLASSES; class ++) {
        for (int i = 0; i <= class; i++) {
            send(&comm, i, (rbt_comm_class) class, 100 + (size_t) class);
        }
    }
    for (int class = 0; class < RBT_COMM_CLASSES; class ++) {
        assert_int_equal(comm.messages[class], class + 1);
        assert_int_equal(comm.bytes[class], (class + 1) * (100 + class));
    }
    assert_int_equal(comm.window.count, 0); /* none was to be acknowledged */
}

static void too_many_on_their_way_make_early_messages_wait_for_an_answer(void **state)
{
    (void)state;
    struct rbt_comm comm;
    rbt_comm_init(&comm, &(struct rbt_comm_options){.rate = RATE, .unacknowledged_max = 2}, 0);
    for (uint64_t i = 1; i <= 2; i++) {
        assert_true(rbt_comm_grant(&comm, 0) > 0);
        rbt_comm_sent(&comm, 0, i, 100, RBT_COMM_EARLY);
    }
    assert_int_equal(rbt_comm_grant(&comm, MILLISECOND), 0);
    assert_true(rbt_comm_when(&comm, MILLISECOND) == RBT_TIME_NEVER);
    rbt_comm_acknowledged(&comm, MILLISECOND, 1);
    assert_int_equal(rbt_comm_when(&comm, MILLISECOND), MILLISECOND);
    assert_true(rbt_comm_grant(&comm, MILLISECOND) > 0);
}

/* A driver on a link with this rate, for so many seconds: it asks when it is told to and when it
 * hears something. Returns how much of RATE was carried. */
static double drive(struct rbt_comm *comm, struct link_rig *link, double seconds)
{
    const uint64_t before = link->carried_bytes;
    const rbt_time end = link->now + (rbt_time)(seconds * LINK_SECOND);
    rbt_time when = link->now;
    while (link->now < end) {
        const uint64_t heard = link_step(link);
        if (heard > 0) {
            rbt_comm_acknowledged(comm, link->now, heard);
            when = link->now;
        }
        while (when <= link->now) {
            const size_t bytes = rbt_comm_grant(comm, link->now);
            if (bytes == 0) {
                when = rbt_comm_when(comm, link->now);
                continue;
            }
            const uint64_t sequence = link_send(link, bytes);
            rbt_comm_sent(comm, link->now, sequence, bytes, RBT_COMM_EARLY);
        }
    }
    return (double)(link->carried_bytes - before) / (seconds * RATE);
}

/* With the defaults: the driver only asks when it is told to. */
static void a_link_that_falls_to_half_its_rate_is_used_again_within_two_seconds(void **state)
{
    (void)state;
    static struct link_rig link;
    struct rbt_comm comm;
    link_init(&link, RATE, 5 * MILLISECOND);
    rbt_comm_init(&comm, &(struct rbt_comm_options){.rate = RATE}, 0);
    assert_true(drive(&comm, &link, 5) > 0.95);
    assert_int_equal(comm.window.pauses, 0);
    link.rate = RATE / 2;
    link.wait_max = 0;
    assert_true(drive(&comm, &link, 10) > 0.45);
    assert_true(comm.window.pauses > 0);
    assert_true(link.wait_max < 250 * (rbt_time)MILLISECOND);
    link.rate = RATE;
    (void)drive(&comm, &link, 2);
    assert_true(drive(&comm, &link, 5) > 0.95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_filled_in),
        cmocka_unit_test(without_a_rate_nothing_is_sent_early_and_all_else_is),
        cmocka_unit_test(grants_stay_within_the_budget_and_use_it),
        cmocka_unit_test(the_end_of_a_clock_goes_and_makes_early_messages_wait),
        cmocka_unit_test(all_is_counted_by_its_class),
        cmocka_unit_test(too_many_on_their_way_make_early_messages_wait_for_an_answer),
        cmocka_unit_test(a_link_that_falls_to_half_its_rate_is_used_again_within_two_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
