/* comm/limiter_test.c - no window of time carries more than its share, nothing is left unused, and
 * nothing drifts. The random traces are 10^6, of about twenty events each. */
#include "base/test.h"

#include "base/rng.h"
#include "comm/limiter.h"

__extension__ typedef __int128 wide;

enum { SECOND = 1000000000, EVENTS = 20, TRACES = 1000000 };

/* A limiter and the judge, which knows only what went when: over all windows that end now, the sum
 * of bytes minus rate * length is at most the burst. With sums from the beginning, S(t) - rate * t,
 * that is a comparison with the smallest one before. */
struct trace {
    struct rbt_rng rng;
    struct rbt_limiter limiter;
    rbt_time now;
    rbt_time begin;
    uint64_t sent; /* all */
    wide lowest;   /* of 10^9 * sent - rate * t, just before each send */
};

/* Between 1 and 2^bits, all sizes alike. */
static uint64_t draw(struct rbt_rng *rng, uint64_t bits)
{
    const uint64_t most = (uint64_t)1 << rbt_rng_below(rng, bits);
    return 1 + rbt_rng_below(rng, most) + most / 2;
}

static void begin(struct trace *trace, uint64_t number)
{
    rbt_rng_init(&trace->rng, 7, number, 0);
    const uint64_t rate = draw(&trace->rng, 34); /* to 16 GB/s */
    const uint64_t least = rate / 1000000 + 1;   /* a microsecond's */
    trace->begin = (rbt_time)rbt_rng_below(&trace->rng, (uint64_t)1 << 50);
    trace->now = trace->begin;
    trace->sent = 0;
    trace->lowest = 0;
    rbt_limiter_init(&trace->limiter, rate, least + draw(&trace->rng, 20), trace->now);
}

static void send(struct trace *trace, uint64_t bytes)
{
    const struct rbt_limiter *limiter = &trace->limiter;
    const wide leaked = (wide)limiter->rate * (trace->now - trace->begin);
    const wide before = (wide)trace->sent * SECOND - leaked;
    trace->lowest = before < trace->lowest || trace->sent == 0 ? before : trace->lowest;
    trace->sent += bytes;
    rbt_limiter_note(&trace->limiter, trace->now, bytes);
    const wide after = (wide)trace->sent * SECOND - leaked;
    if (after - trace->lowest > (wide)limiter->burst * SECOND) {
        fail_msg("more than rate * d + burst in a window");
    }
}

/* Waits, until it fits or longer, or not at all, and then sends something that fits. */
static void step(struct trace *trace)
{
    const uint64_t burst = trace->limiter.burst;
    const uint64_t wanted = 1 + rbt_rng_below(&trace->rng, burst);
    const uint64_t kind = rbt_rng_below(&trace->rng, 4);
    if (kind == 0) {
        trace->now += (rbt_time)draw(&trace->rng, 32);
    } else if (kind == 1) {
        const rbt_time when = rbt_limiter_when(&trace->limiter, wanted);
        trace->now = when > trace->now ? when : trace->now;
        assert_true(rbt_limiter_room(&trace->limiter, trace->now) >= wanted);
    }
    const uint64_t room = rbt_limiter_room(&trace->limiter, trace->now);
    const uint64_t bytes = room < wanted ? room : wanted;
    if (bytes > 0) {
        send(trace, bytes);
    }
}

static void no_window_carries_more_than_its_share(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < TRACES; number++) {
        struct trace trace;
        begin(&trace, number);
        for (int i = 0; i < EVENTS; i++) {
            step(&trace);
        }
    }
}

/* With a backlog, each message goes when the limiter says. From the first moment at which something
 * waits, all of the rate is used, but for less than a nanosecond per message. */
static void with_a_backlog_the_rate_is_used(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < TRACES; number++) {
        struct trace trace;
        begin(&trace, number);
        const uint64_t burst = trace.limiter.burst;
        send(&trace, burst); /* something waits from now on */
        const uint64_t sent = trace.sent;
        for (int i = 0; i < EVENTS; i++) {
            const uint64_t bytes = 1 + rbt_rng_below(&trace.rng, burst);
            const rbt_time when = rbt_limiter_when(&trace.limiter, bytes);
            trace.now = when > trace.now ? when : trace.now;
            send(&trace, bytes);
        }
        const wide time = trace.now - trace.begin;
        const wide used = (wide)(trace.sent - sent) * SECOND * 100;
        if (time >= 20 && used < 95 * (wide)trace.limiter.rate * time) {
            fail_msg("trace %d: less than 95%%", (int)number);
        }
        assert_true(used / 100 >= (wide)trace.limiter.rate * (time - EVENTS));
    }
}

/* Wei's thesis, chapter 2, computes the time of the next message from what was sent: it may go when
 * all that is above the burst has been paid for. In 10^-9 bytes, with the time at which the bucket
 * will be empty. */
static void the_next_event_form_gives_the_same_schedule(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < TRACES / 4; number++) {
        struct trace trace;
        begin(&trace, number);
        const wide rate = trace.limiter.rate;
        wide paid = trace.now * rate; /* all is paid for at the time paid / rate */
        for (int i = 0; i < EVENTS; i++) {
            const uint64_t bytes = 1 + rbt_rng_below(&trace.rng, trace.limiter.burst);
            trace.now += rbt_rng_below(&trace.rng, 2) == 0 ? 0 : (rbt_time)draw(&trace.rng, 24);
            const wide early = paid - (wide)(trace.limiter.burst - bytes) * SECOND;
            const wide next = early > trace.now * rate ? (early + rate - 1) / rate : trace.now;
            struct rbt_limiter copy = trace.limiter;
            assert_true(rbt_limiter_room(&copy, (rbt_time)next) >= bytes);
            copy = trace.limiter;
            assert_true(next == trace.now || rbt_limiter_room(&copy, (rbt_time)next - 1) < bytes);
            const rbt_time when = rbt_limiter_when(&trace.limiter, bytes);
            assert_true((when > trace.now ? when : trace.now) == next);
            trace.now = (rbt_time)next;
            rbt_limiter_note(&trace.limiter, trace.now, bytes);
            paid = (paid > trace.now * rate ? paid : trace.now * rate) + (wide)bytes * SECOND;
        }
    }
}

/* The end of a clock sends far more than there is room for: the next message waits until that is
 * paid, to the nanosecond, and then the rate is used as before. */
static void what_goes_without_asking_delays_the_rest(void **state)
{
    (void)state;
    struct rbt_limiter limiter;
    rbt_limiter_init(&limiter, 1000, 500, 0);
    rbt_limiter_note(&limiter, 0, 10000);
    assert_int_equal(rbt_limiter_room(&limiter, 0), 0);
    assert_int_equal(rbt_limiter_delay(&limiter), (int64_t)10 * SECOND);
    assert_int_equal(rbt_limiter_when(&limiter, 100), 9600 * (int64_t)(SECOND / 1000));
    assert_int_equal(rbt_limiter_room(&limiter, 9599 * (int64_t)(SECOND / 1000)), 99);
    assert_int_equal(rbt_limiter_when(&limiter, 100), 9600 * (int64_t)(SECOND / 1000));
    assert_int_equal(rbt_limiter_room(&limiter, 9600 * (int64_t)(SECOND / 1000)), 100);
}

/* A third of a byte per nanosecond, asked every nanosecond for a while: not a byte is lost. */
static void asking_often_loses_nothing(void **state)
{
    (void)state;
    struct rbt_limiter limiter;
    rbt_limiter_init(&limiter, SECOND / 3, 1000000, 0);
    rbt_limiter_note(&limiter, 0, 1000000);
    for (rbt_time now = 1; now <= 300000; now++) {
        assert_int_equal(rbt_limiter_room(&limiter, now), (uint64_t)now * (SECOND / 3) / SECOND);
    }
}

static void an_empty_bucket_saves_nothing_up(void **state)
{
    (void)state;
    struct rbt_limiter limiter;
    rbt_limiter_init(&limiter, 7, 10, 0);
    rbt_limiter_note(&limiter, 0, 1);
    assert_int_equal(rbt_limiter_room(&limiter, (int64_t)3600 * SECOND), 10);
    rbt_limiter_note(&limiter, (int64_t)3600 * SECOND, 10);
    assert_int_equal(rbt_limiter_room(&limiter, (int64_t)3600 * SECOND + SECOND / 7), 0);
    assert_int_equal(rbt_limiter_room(&limiter, (int64_t)3600 * SECOND + SECOND / 7 + 1), 1);
}

static void the_largest_numbers_are_handled(void **state)
{
    (void)state;
    struct rbt_limiter limiter;
    rbt_limiter_init(&limiter, UINT64_MAX, UINT64_MAX, 0);
    rbt_limiter_note(&limiter, 0, UINT64_MAX);
    rbt_limiter_note(&limiter, 0, UINT64_MAX);
    assert_int_equal(rbt_limiter_room(&limiter, 0), 0);
    assert_int_equal(rbt_limiter_when(&limiter, UINT64_MAX), SECOND);
    assert_true(rbt_limiter_room(&limiter, RBT_TIME_NEVER) == UINT64_MAX);
    rbt_limiter_init(&limiter, 1, UINT64_MAX, 5);
    rbt_limiter_note(&limiter, 5, UINT64_MAX);
    assert_true(rbt_limiter_when(&limiter, UINT64_MAX) == RBT_TIME_NEVER);
    assert_true(rbt_limiter_when(&limiter, 0) == 5);
}

static void without_a_rate_nothing_leaks(void **state)
{
    (void)state;
    struct rbt_limiter limiter;
    rbt_limiter_init(&limiter, 0, 100, 0);
    assert_int_equal(rbt_limiter_delay(&limiter), 0);
    rbt_limiter_note(&limiter, 0, 60);
    assert_int_equal(rbt_limiter_room(&limiter, SECOND), 40);
    assert_int_equal(rbt_limiter_when(&limiter, 40), SECOND);
    assert_true(rbt_limiter_when(&limiter, 41) == RBT_TIME_NEVER);
    assert_true(rbt_limiter_delay(&limiter) == RBT_TIME_NEVER);
}

static void a_time_that_has_passed_counts_as_the_last_one(void **state)
{
    (void)state;
    struct rbt_limiter limiter;
    rbt_limiter_init(&limiter, 1000, 1000, SECOND);
    rbt_limiter_note(&limiter, 2 * (rbt_time)SECOND, 1000);
    rbt_limiter_note(&limiter, SECOND, 10);
    assert_int_equal(rbt_limiter_room(&limiter, SECOND), 0);
    assert_int_equal(rbt_limiter_room(&limiter, 3 * (rbt_time)SECOND), 990);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_window_carries_more_than_its_share),
        cmocka_unit_test(with_a_backlog_the_rate_is_used),
        cmocka_unit_test(the_next_event_form_gives_the_same_schedule),
        cmocka_unit_test(what_goes_without_asking_delays_the_rest),
        cmocka_unit_test(asking_often_loses_nothing),
        cmocka_unit_test(an_empty_bucket_saves_nothing_up),
        cmocka_unit_test(the_largest_numbers_are_handled),
        cmocka_unit_test(without_a_rate_nothing_leaks),
        cmocka_unit_test(a_time_that_has_passed_counts_as_the_last_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
