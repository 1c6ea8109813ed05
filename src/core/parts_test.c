/* core/parts_test.c - every part is finished once in a pass, by whoever is fast; parts of workers
 * that are lost or slow are given again; and a thousand random histories keep the books. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "core/parts.h"

enum { PARTS = 60, WORKERS = 3 };

static rbt_parts *make(void)
{
    rbt_parts *parts = NULL;
    const struct rbt_parts_options options = {.part_count = PARTS, .worker_count = WORKERS};
    assert_ok(rbt_parts_create(&options, &parts));
    return parts;
}

static enum rbt_parts_answer take(rbt_parts *parts, uint32_t worker, uint64_t now, uint32_t *part)
{
    const struct rbt_parts_turn turn = {.now = now, .limit = PARTS};
    return rbt_parts_take(parts, worker, &turn, part);
}

static void fast_workers_do_more(void **state)
{
    (void)state;
    const uint64_t duration[WORKERS] = {1, 2, 4}; /* of a part */
    uint64_t free_at[WORKERS] = {0};
    uint32_t held[WORKERS];
    bool is_busy[WORKERS] = {false};
    uint32_t done[WORKERS] = {0};
    uint32_t times[PARTS] = {0};
    rbt_parts *parts = make();
    for (int pass = 0; pass < 2; pass++) {
        for (uint64_t now = 0; rbt_parts_finished(parts) < PARTS; now++) {
            assert_true(now < 1000);
            for (uint32_t p = 0; p < WORKERS; p++) {
                const uint64_t t = (uint64_t)pass * 1000 + now;
                if (is_busy[p] && t >= free_at[p]) {
                    assert_true(rbt_parts_finish(parts, p, held[p]));
                    is_busy[p] = false;
                    done[p]++;
                    times[held[p]]++;
                }
                if (!is_busy[p] && take(parts, p, t, &held[p]) == RBT_PARTS_GIVEN) {
                    is_busy[p] = true;
                    free_at[p] = t + duration[p];
                }
            }
        }
        uint32_t none = 0;
        assert_int_equal(take(parts, 0, 5000, &none), RBT_PARTS_DONE);
        rbt_parts_begin_pass(parts);
    }
    for (uint32_t i = 0; i < PARTS; i++) {
        assert_int_equal(times[i], 2);
    }
    assert_in_range(done[0], 2 * done[1] - 6, 2 * done[1] + 6); /* in proportion to their speed */
    assert_in_range(done[1], 2 * done[2] - 6, 2 * done[2] + 6);
    assert_int_equal(rbt_parts_stats(parts).given, 2 * PARTS);
    assert_int_equal(rbt_parts_stats(parts).returned, 0);
    rbt_parts_destroy(parts);
}

static void parts_of_lost_workers_come_back_first(void **state)
{
    (void)state;
    rbt_parts *parts = make();
    uint32_t first = 0;
    uint32_t second = 0;
    uint32_t again = 0;
    assert_int_equal(take(parts, 0, 0, &first), RBT_PARTS_GIVEN);
    assert_int_equal(take(parts, 1, 0, &second), RBT_PARTS_GIVEN);
    assert_true(rbt_parts_lose(parts, 0));
    assert_false(rbt_parts_lose(parts, 0)); /* he has nothing any more */
    assert_int_equal(take(parts, 2, 1, &again), RBT_PARTS_GIVEN);
    assert_int_equal(again, first);
    assert_true(rbt_parts_finish(parts, 2, again));
    assert_true(rbt_parts_finish(parts, 1, second));
    assert_int_equal(rbt_parts_finished(parts), 2);
    assert_int_equal(take(parts, 0, 2, &again), RBT_PARTS_GIVEN); /* he is back */
    assert_int_equal(again, 2);
    assert_int_equal(rbt_parts_stats(parts).returned, 1);
    rbt_parts_destroy(parts);
}

static void new_parts_are_given_up_to_the_limit(void **state)
{
    (void)state;
    rbt_parts *parts = make();
    uint32_t part = 0;
    const struct rbt_parts_turn turn = {.limit = 1};
    assert_int_equal(rbt_parts_take(parts, 0, &turn, &part), RBT_PARTS_GIVEN);
    assert_int_equal(rbt_parts_take(parts, 1, &turn, &part), RBT_PARTS_WAIT);
    assert_true(rbt_parts_lose(parts, 0));
    assert_int_equal(rbt_parts_take(parts, 1, &turn, &part), RBT_PARTS_GIVEN); /* it is not new */
    assert_int_equal(part, 0);
    rbt_parts_destroy(parts);
}

static void the_first_to_finish_counts(void **state)
{
    (void)state;
    rbt_parts *parts = make();
    uint32_t slow = 0;
    uint32_t fast = 0;
    assert_int_equal(take(parts, 0, 0, &slow), RBT_PARTS_GIVEN);
    assert_int_equal(rbt_parts_expire(parts, 10, 10), 0);
    assert_int_equal(rbt_parts_expire(parts, 11, 10), 1);
    assert_int_equal(rbt_parts_expire(parts, 12, 10), 0); /* it is nobody's now */
    assert_int_equal(take(parts, 1, 12, &fast), RBT_PARTS_GIVEN);
    assert_int_equal(fast, slow);
    assert_true(rbt_parts_finish(parts, 0, slow)); /* after all */
    assert_false(rbt_parts_finish(parts, 1, fast));
    assert_int_equal(rbt_parts_stats(parts).repeated, 1);
    /* Taken back, and finished before anybody else got it: it is not given again. */
    assert_int_equal(take(parts, 0, 20, &slow), RBT_PARTS_GIVEN);
    assert_int_equal(rbt_parts_expire(parts, 40, 10), 1);
    assert_true(rbt_parts_finish(parts, 0, slow));
    assert_int_equal(take(parts, 1, 41, &fast), RBT_PARTS_GIVEN);
    assert_true(fast != slow);
    /* A worker that lost its part to another one and is then lost changes nothing. */
    assert_int_equal(rbt_parts_expire(parts, 60, 10), 1);
    assert_int_equal(take(parts, 2, 60, &slow), RBT_PARTS_GIVEN);
    assert_int_equal(slow, fast);
    assert_false(rbt_parts_lose(parts, 1));
    assert_true(rbt_parts_finish(parts, 2, slow));
    rbt_parts_destroy(parts);
}

/* What a random history knows. */
struct history {
    rbt_parts *parts;
    uint64_t timeout;
    uint32_t held[WORKERS];
    bool is_busy[WORKERS];
    uint32_t counted[PARTS]; /* in this pass */
};

static void step(struct history *h, struct rbt_rng *rng, uint64_t now)
{
    const uint32_t p = (uint32_t)rbt_rng_below(rng, WORKERS);
    const uint64_t what = rbt_rng_below(rng, 10);
    if (what == 0) {
        (void)rbt_parts_lose(h->parts, p);
        h->is_busy[p] = false;
    } else if (what == 1) {
        (void)rbt_parts_expire(h->parts, now, h->timeout);
    } else if (h->is_busy[p]) {
        h->counted[h->held[p]] += rbt_parts_finish(h->parts, p, h->held[p]);
        h->is_busy[p] = false;
    } else {
        h->is_busy[p] = take(h->parts, p, now, &h->held[p]) == RBT_PARTS_GIVEN;
    }
}

static void random_histories_finish_every_part_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        struct rbt_rng rng;
        rbt_rng_init(&rng, seed, 0, 0);
        struct history h = {.parts = make(), .timeout = 1 + rbt_rng_below(&rng, 8)};
        uint64_t now = 0;
        for (int pass = 0; pass < 3; pass++) {
            memset(h.counted, 0, sizeof h.counted);
            while (rbt_parts_finished(h.parts) < PARTS) {
                assert_true(now < 100000);
                step(&h, &rng, now++);
            }
            for (uint32_t i = 0; i < PARTS; i++) {
                assert_int_equal(h.counted[i], 1);
            }
            rbt_parts_begin_pass(h.parts); /* some may still hold a part of the last one */
        }
        const struct rbt_parts_stats stats = rbt_parts_stats(h.parts);
        assert_true(stats.given >= UINT64_C(3) * PARTS);
        assert_true(stats.given <= UINT64_C(3) * PARTS + stats.returned);
        rbt_parts_destroy(h.parts);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void creating_survives_failed_allocations(void **state)
{
    (void)state;
    const struct rbt_parts_options options = {.part_count = 5, .worker_count = 2};
    for (unsigned nth = 1; nth <= 4; nth++) {
        rbt_parts *parts = NULL;
        rbt_alloc_fail_nth(nth);
        assert_int_equal(rbt_parts_create(&options, &parts), RBT_E_NOMEM);
        assert_null(parts);
    }
    rbt_alloc_fail_nth(0);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fast_workers_do_more),
        cmocka_unit_test(parts_of_lost_workers_come_back_first),
        cmocka_unit_test(new_parts_are_given_up_to_the_limit),
        cmocka_unit_test(the_first_to_finish_counts),
        cmocka_unit_test(random_histories_finish_every_part_once),
        cmocka_unit_test(creating_survives_failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
