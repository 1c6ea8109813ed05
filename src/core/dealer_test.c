/* core/dealer_test.c - passes follow each other without waiting; who is slow loses its part; random
 * histories finish every part of every pass once. */
#include "base/test.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "core/dealer.h"

enum { PARTS = 12, WORKERS = 3, PASSES = 5 };

static rbt_dealer *make(uint64_t least)
{
    rbt_dealer *dealer = NULL;
    const struct rbt_dealer_options options = {
        .part_count = PARTS, .worker_count = WORKERS, .patience = 4, .least = least, .first = 1000};
    assert_ok(rbt_dealer_create(&options, &dealer));
    return dealer;
}

static enum rbt_parts_answer take(rbt_dealer *dealer, const struct rbt_dealer_ask *ask,
                                  struct rbt_dealt *dealt)
{
    enum rbt_parts_answer answer = RBT_PARTS_DONE;
    assert_ok(rbt_dealer_take(dealer, ask, &answer, dealt));
    return answer;
}

static void a_pass_begins_while_another_one_ends(void **state)
{
    (void)state;
    rbt_dealer *dealer = make(0);
    struct rbt_dealt slow = {0};
    struct rbt_dealt dealt = {0};
    bool is_first = false;
    const struct rbt_dealer_ask other = {.worker = 1, .pass = 0, .limit = PARTS};
    struct rbt_dealer_ask ask = {.worker = 0, .pass = 0, .limit = PARTS};
    assert_int_equal(take(dealer, &other, &slow), RBT_PARTS_GIVEN);
    for (uint32_t i = 1; i < PARTS; i++) {
        assert_int_equal(take(dealer, &ask, &dealt), RBT_PARTS_GIVEN);
        assert_int_equal(dealt.part, i);
        assert_ok(rbt_dealer_finish(dealer, 0, &dealt, 0, &is_first));
        assert_true(is_first);
    }
    assert_int_equal(take(dealer, &ask, &dealt), RBT_PARTS_WAIT);
    ask.pass = 1;
    ask.limit = 2;
    assert_int_equal(take(dealer, &ask, &dealt), RBT_PARTS_GIVEN);
    assert_int_equal(dealt.pass, 1);
    assert_ok(rbt_dealer_finish(dealer, 0, &dealt, 0, &is_first));
    assert_ok(rbt_dealer_finish(dealer, 1, &slow, 0, &is_first));
    assert_true(is_first);
    assert_int_equal(take(dealer, &other, &dealt), RBT_PARTS_DONE);
    assert_int_equal(rbt_dealer_finished(dealer, 0), PARTS);
    assert_int_equal(rbt_dealer_finished(dealer, 1), 1);
    assert_int_equal(rbt_dealer_returned(dealer), 0);
    rbt_dealer_destroy(dealer);
}

static void who_is_slow_loses_its_part(void **state)
{
    (void)state;
    rbt_dealer *dealer = make(0);
    struct rbt_dealt slow = {0};
    struct rbt_dealt dealt = {0};
    bool is_first = false;
    struct rbt_dealer_ask ask = {.worker = 1, .limit = PARTS};
    assert_int_equal(take(dealer, &ask, &slow), RBT_PARTS_GIVEN);
    ask.worker = 0;
    for (uint32_t i = 1; i < PARTS; i++) { /* a part takes 10 */
        assert_int_equal(take(dealer, &ask, &dealt), RBT_PARTS_GIVEN);
        ask.now += 10;
        assert_ok(rbt_dealer_finish(dealer, 0, &dealt, ask.now, &is_first));
        if (i == 4) { /* at 40 it has had it for four medians; now for more */
            break;
        }
    }
    assert_int_equal(take(dealer, &ask, &dealt), RBT_PARTS_GIVEN);
    assert_int_equal(dealt.part, 5);
    ask.now++;
    assert_ok(rbt_dealer_finish(dealer, 0, &dealt, ask.now, &is_first));
    assert_int_equal(take(dealer, &ask, &dealt), RBT_PARTS_GIVEN);
    assert_int_equal(dealt.part, slow.part);
    assert_int_equal(rbt_dealer_returned(dealer), 1);
    assert_ok(rbt_dealer_finish(dealer, 0, &dealt, ask.now, &is_first));
    assert_true(is_first);
    assert_ok(rbt_dealer_finish(dealer, 1, &slow, ask.now, &is_first));
    assert_false(is_first);
    rbt_dealer_destroy(dealer);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    rbt_dealer *dealer = make(0);
    struct rbt_dealt dealt = {0};
    enum rbt_parts_answer answer = RBT_PARTS_DONE;
    bool is_first = false;
    struct rbt_dealer_ask ask = {.worker = 0, .pass = 1, .limit = PARTS};
    assert_int_equal(rbt_dealer_take(dealer, &ask, &answer, &dealt), RBT_E_INVALID);
    assert_int_equal(rbt_dealer_finish(dealer, 0, &dealt, 0, &is_first), RBT_E_INVALID);
    ask.pass = 0;
    assert_int_equal(take(dealer, &ask, &dealt), RBT_PARTS_GIVEN);
    assert_int_equal(take(dealer, &ask, &dealt), RBT_PARTS_GIVEN); /* the first one came back */
    assert_int_equal(dealt.part, 0);
    rbt_alloc_fail_nth(1);
    ask.pass = 1;
    assert_int_equal(rbt_dealer_take(dealer, &ask, &answer, &dealt), RBT_E_NOMEM);
    rbt_alloc_fail_nth(0);
    rbt_dealer_destroy(dealer);
}

/* Workers at random speeds, one of which may stop for good. */
static void random_histories_finish_every_part_once(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct rbt_rng rng;
        rbt_rng_init(&rng, seed, 0, 0);
        rbt_dealer *dealer = make(rbt_rng_below(&rng, 20));
        uint32_t counted[PASSES][PARTS] = {{0}};
        uint64_t pass[WORKERS] = {0};
        bool is_busy[WORKERS] = {false};
        struct rbt_dealt held[WORKERS];
        const uint64_t dies_at = rbt_rng_below(&rng, 200);
        uint64_t now = 0;
        while (pass[0] < PASSES) {
            assert_true(now < 100000);
            const uint32_t p = (uint32_t)rbt_rng_below(&rng, WORKERS);
            now++;
            if (pass[p] == PASSES || (p == 2 && now > dies_at)) {
                continue;
            }
            if (is_busy[p]) {
                bool is_first = false;
                assert_ok(rbt_dealer_finish(dealer, p, &held[p], now, &is_first));
                counted[held[p].pass][held[p].part] += is_first;
            }
            const struct rbt_dealer_ask ask = {
                .worker = p, .pass = pass[p], .limit = PARTS, .now = now};
            const enum rbt_parts_answer answer = take(dealer, &ask, &held[p]);
            is_busy[p] = answer == RBT_PARTS_GIVEN;
            const bool is_last = pass[p] + 1 == PASSES; /* then it waits for all */
            pass[p] += answer == RBT_PARTS_DONE || (answer == RBT_PARTS_WAIT && !is_last);
        }
        for (uint32_t i = 0; i < PASSES * PARTS; i++) {
            assert_int_equal(counted[i / PARTS][i % PARTS], 1);
        }
        rbt_dealer_destroy(dealer);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

/* A random history; at a random step the dealer is saved and loaded, and both go on alike. */
static void a_loaded_dealer_deals_what_the_saved_one_does(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct rbt_rng rng;
        rbt_rng_init(&rng, seed, 0, 0);
        rbt_dealer *dealers[2] = {make(5), make(5)};
        struct rbt_dealt held[WORKERS] = {{0}};
        bool has_one[WORKERS] = {false};
        uint64_t passes[WORKERS] = {0};
        const uint64_t when = rbt_rng_below(&rng, 150);
        for (uint64_t step = 0; step < 200; step++) {
            if (step == when) {
                struct rbt_sink sink = {0};
                rbt_dealer_save(dealers[0], &sink);
                assert_ok(sink.status);
                struct rbt_source source = {.at = sink.bytes, .end = sink.bytes + sink.count};
                rbt_dealer_load(dealers[1], &source);
                rbt_source_finish(&source);
                assert_ok(source.status);
                rbt_sink_deinit(&sink);
            }
            const uint32_t worker = (uint32_t)rbt_rng_below(&rng, WORKERS);
            const uint64_t now = step * 10 + rbt_rng_below(&rng, 30);
            const struct rbt_dealer_ask ask = {
                .worker = worker, .pass = passes[worker], .limit = PARTS, .now = now};
            const bool finishes = has_one[worker] && rbt_rng_below(&rng, 5) > 0;
            enum rbt_parts_answer answers[2] = {RBT_PARTS_DONE, RBT_PARTS_DONE};
            struct rbt_dealt dealt[2] = {{0}};
            bool is_first[2] = {false, false};
            for (size_t i = 0; i < (step < when ? 1 : 2); i++) {
                if (finishes) {
                    assert_ok(
                        rbt_dealer_finish(dealers[i], worker, &held[worker], now, &is_first[i]));
                } else {
                    assert_ok(rbt_dealer_take(dealers[i], &ask, &answers[i], &dealt[i]));
                }
            }
            has_one[worker] = !finishes && answers[0] == RBT_PARTS_GIVEN;
            held[worker] = dealt[0];
            passes[worker] += !finishes && answers[0] == RBT_PARTS_DONE ? 1 : 0;
            if (step >= when) {
                assert_int_equal(is_first[0], is_first[1]);
                assert_int_equal(answers[0], answers[1]);
                assert_int_equal(dealt[0].pass, dealt[1].pass);
                assert_int_equal(dealt[0].part, dealt[1].part);
                assert_int_equal(rbt_dealer_returned(dealers[0]), rbt_dealer_returned(dealers[1]));
            }
        }
        rbt_dealer_destroy(dealers[0]);
        rbt_dealer_destroy(dealers[1]);
        assert_int_equal(rbt_alloc_live(), 0);
    }
}

/* A saved dealer of which some bytes are others: it is refused, or deals as well as it can. */
static void a_damaged_dealer_breaks_nothing(void **state)
{
    (void)state;
    struct rbt_rng rng;
    uint32_t loaded = 0;
    rbt_rng_init(&rng, 1, 0, 0);
    for (int i = 0; i < 4000; i++) {
        rbt_dealer *dealer = make(5);
        struct rbt_dealt dealt = {0};
        struct rbt_sink sink = {0};
        bool is_first = false;
        for (uint32_t step = 0; step < 40; step++) {
            const struct rbt_dealer_ask ask = {
                .worker = step % WORKERS, .pass = step / 30, .limit = PARTS, .now = step * 20};
            if (take(dealer, &ask, &dealt) == RBT_PARTS_GIVEN && rbt_rng_below(&rng, 3) > 0) {
                assert_ok(rbt_dealer_finish(dealer, ask.worker, &dealt, ask.now, &is_first));
            }
        }
        rbt_dealer_save(dealer, &sink);
        rbt_dealer_destroy(dealer);
        for (uint64_t k = rbt_rng_below(&rng, 3); k < 3; k++) {
            char *byte = &sink.bytes[rbt_rng_below(&rng, sink.count)];
            *byte = (char)(*byte ^ 1 << rbt_rng_below(&rng, 8));
        }
        dealer = make(5);
        struct rbt_source source = {.at = sink.bytes, .end = sink.bytes + sink.count};
        rbt_dealer_load(dealer, &source);
        rbt_source_finish(&source);
        for (uint32_t step = 0; source.status == RBT_OK && step < 30; step++) {
            const struct rbt_dealer_ask ask = {.worker = (uint32_t)rbt_rng_below(&rng, WORKERS),
                                               .pass = rbt_rng_below(&rng, 4),
                                               .limit = PARTS,
                                               .now = 10000 + step};
            enum rbt_parts_answer answer = RBT_PARTS_DONE;
            const rbt_status st = rbt_dealer_take(dealer, &ask, &answer, &dealt);
            if (st == RBT_OK && answer == RBT_PARTS_GIVEN && rbt_rng_below(&rng, 2) == 0) {
                assert_ok(rbt_dealer_finish(dealer, ask.worker, &dealt, ask.now, &is_first));
            }
        }
        loaded += source.status == RBT_OK;
        rbt_dealer_destroy(dealer);
        rbt_sink_deinit(&sink);
    }
    assert_true(loaded > 100);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pass_begins_while_another_one_ends),
        cmocka_unit_test(who_is_slow_loses_its_part),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(random_histories_finish_every_part_once),
        cmocka_unit_test(a_loaded_dealer_deals_what_the_saved_one_does),
        cmocka_unit_test(a_damaged_dealer_breaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
