/* core/aggregator_test.c - one test per promise of aggregator.c. */
#include "base/test.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "core/aggregator.h"

enum { MEMBERS = 3, SHARDS = 2, WAIT = 10, EFFECTS = 256 };

struct fixture {
    rbt_aggregator *aggregator;
    struct rbt_aggregator_effect effects[EFFECTS];
    struct rbt_aggregator_outbox out;
    char text[EFFECTS * 8]; /* what happened: "keep 1, take 1, send" */
};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){.out = {.effects = fixture.effects}};
    const struct rbt_aggregator_options options = {
        .member_count = MEMBERS, .shard_count = SHARDS, .wait = WAIT};
    assert_ok(rbt_aggregator_create(&options, &fixture.aggregator));
    assert_true(rbt_aggregator_effects_max(fixture.aggregator) <= EFFECTS);
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_aggregator_destroy(f->aggregator);
    return rbt_alloc_live() == 0 ? 0 : -1;
}

/* What the effects since the last call were, in words. */
static const char *effects_of(struct fixture *f)
{
    static const char *const names[] = {"keep", "take", "send", "forward", "release"};
    size_t length = 0;
    f->text[0] = '\0';
    for (size_t i = 0; i < f->out.count; i++) {
        const struct rbt_aggregator_effect *effect = &f->effects[i];
        const bool is_send = effect->kind == RBT_AGGREGATOR_SEND;
        const int written =
            snprintf(f->text + length, sizeof f->text - length, is_send ? "%s%s" : "%s%s %d",
                     i == 0 ? "" : ", ", names[effect->kind], (int)effect->cookie);
        length += (size_t)written;
    }
    f->out.count = 0;
    return f->text;
}

/* The cookie of member m's part of clock c is 10 c + m + 1. */
static const char *add_to(struct fixture *f, uint32_t shard, uint32_t member, int64_t clock,
                          rbt_time now)
{
    const struct rbt_aggregator_part part = {.shard = shard,
                                             .member = member,
                                             .clock = clock,
                                             .cookie = (uint64_t)clock * 10 + member + 1};
    rbt_aggregator_add(f->aggregator, &part, now, &f->out);
    return effects_of(f);
}

static const char *add(struct fixture *f, uint32_t member, int64_t clock, rbt_time now)
{
    return add_to(f, 0, member, clock, now);
}

static const char *expire(struct fixture *f, rbt_time now)
{
    rbt_aggregator_expire(f->aggregator, now, &f->out);
    return effects_of(f);
}

static const char *answer(struct fixture *f, uint64_t id, bool is_refused)
{
    rbt_aggregator_answered(f->aggregator, 0, id, is_refused, &f->out);
    return effects_of(f);
}

static void parts_go_together_when_all_are_there(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(add(f, 2, 0, 0), "keep 3");
    assert_string_equal(add(f, 0, 0, 1), "keep 1");
    assert_string_equal(add(f, 1, 0, 2), "keep 2, take 1, take 2, take 3, send");
    assert_true(rbt_aggregator_deadline(f->aggregator) == RBT_TIME_NEVER);
    assert_string_equal(answer(f, 1, false), "release 1, release 2, release 3");
    assert_string_equal(answer(f, 1, false), ""); /* a repetition */
}

static void shards_have_groups_of_their_own(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(add_to(f, 0, 0, 0, 0), "keep 1");
    assert_string_equal(add_to(f, 1, 1, 0, 0), "keep 2");
    assert_string_equal(add_to(f, 0, 2, 0, 0), "keep 3");
    assert_string_equal(add_to(f, 0, 1, 0, 0), "keep 2, take 1, take 2, take 3, send");
    assert_true(rbt_aggregator_deadline(f->aggregator) == WAIT);
}

static void nobody_waits_for_longer_than_was_said(void **state)
{
    struct fixture *f = *state;
    (void)add(f, 0, 0, 5);
    (void)add(f, 1, 0, 9);
    assert_true(rbt_aggregator_deadline(f->aggregator) == 5 + WAIT); /* of the first */
    assert_string_equal(expire(f, 4 + WAIT), "");
    assert_string_equal(expire(f, 5 + WAIT), "take 1, take 2, send");
    assert_string_equal(add(f, 2, 0, 100), "forward 3"); /* too late: by itself, at once */
}

static void a_single_part_goes_as_it_is(void **state)
{
    struct fixture *f = *state;
    (void)add(f, 0, 0, 0);
    assert_string_equal(expire(f, WAIT), "take 1, send, release 1");
}

static void who_was_too_late_is_not_awaited(void **state)
{
    struct fixture *f = *state;
    (void)add(f, 0, 0, 0);
    (void)add(f, 1, 0, 0);
    (void)expire(f, WAIT);
    (void)add(f, 0, 1, 20);
    assert_string_equal(add(f, 1, 1, 21), "keep 12, take 11, take 12, send");
    assert_string_equal(add(f, 2, 0, 22), "forward 3"); /* far too late */
    (void)add(f, 0, 2, 30);
    assert_string_equal(add(f, 1, 2, 31), "keep 22, take 21, take 22, send");
}

/* Else whoever is always the last by a little would be left out for good. */
static void who_would_have_been_in_time_is_awaited_again(void **state)
{
    struct fixture *f = *state;
    (void)add(f, 0, 0, 0);
    (void)add(f, 1, 0, 0);
    (void)expire(f, WAIT);
    (void)add(f, 0, 1, 20);
    (void)add(f, 1, 1, 21);
    assert_string_equal(add(f, 2, 1, 20 + WAIT), "forward 13");
    (void)add(f, 0, 2, 40);
    assert_string_equal(add(f, 1, 2, 40), "keep 22");
    assert_string_equal(add(f, 2, 2, 41), "keep 23, take 21, take 22, take 23, send");
}

static void clocks_go_in_their_order(void **state)
{
    struct fixture *f = *state;
    (void)add(f, 0, 1, 0); /* has overtaken its own clock 0 */
    (void)add(f, 1, 1, 1);
    assert_string_equal(add(f, 0, 0, 2), "keep 1");
    assert_string_equal(add(f, 2, 1, 3), "keep 13, take 1, send, release 1, take 11, take 12, "
                                         "take 13, send");
}

static void what_is_due_does_not_overtake_what_is_not(void **state)
{
    struct fixture *f = *state;
    (void)add(f, 0, 1, 0);
    (void)add(f, 0, 0, 5);
    assert_string_equal(expire(f, WAIT), "take 1, send, release 1, take 11, send, release 11");
}

static void repetitions_change_nothing(void **state)
{
    struct fixture *f = *state;
    (void)add(f, 0, 0, 0);
    assert_string_equal(add(f, 0, 0, 1), "");
    (void)add(f, 1, 0, 1);
    (void)add(f, 2, 0, 1);
    assert_string_equal(add(f, 1, 0, 2), ""); /* it is on its way with the others */
    (void)answer(f, 1, false);
    assert_string_equal(add(f, 1, 0, 3), "forward 2"); /* nobody knows any more; the shard does */
    (void)add(f, 0, 1, 20);
    assert_string_equal(add(f, 2, 1, 21), "keep 13"); /* member 1 is awaited as before */
}

static void what_is_refused_goes_one_by_one(void **state)
{
    struct fixture *f = *state;
    (void)add(f, 0, 0, 0);
    (void)add(f, 2, 0, 0);
    (void)expire(f, WAIT);
    assert_string_equal(answer(f, 7, true), "");
    assert_string_equal(answer(f, 1, true), "forward 1, forward 3, release 1, release 3");
}

static void what_is_kept_is_bounded(void **state)
{
    struct fixture *f = *state;
    for (int64_t clock = 0; clock < 8; clock++) { /* members 0 and 1 only */
        (void)add(f, 0, clock, clock);
        (void)add(f, 1, clock, clock);
    }
    assert_string_equal(add(f, 0, 8, 8), "take 1, take 2, send, release 1, release 2, keep 81");
    assert_string_equal(add(f, 2, 0, 9), "forward 3");
    assert_string_equal(answer(f, 1, true), ""); /* given up; the workers will repeat them */
}

static void a_memory_that_was_lost_is_empty(void **state)
{
    struct fixture *f = *state;
    (void)add(f, 0, 0, 0);
    (void)add(f, 1, 0, 0);
    (void)expire(f, WAIT);
    (void)add(f, 2, 5, 11);
    rbt_aggregator_forget(f->aggregator, 0, &f->out);
    assert_string_equal(effects_of(f), "release 1, release 2, take 53, release 53");
    assert_true(rbt_aggregator_deadline(f->aggregator) == RBT_TIME_NEVER);
    assert_string_equal(answer(f, 1, true), "");
    (void)add(f, 0, 0, 12);
    (void)add(f, 1, 0, 12);
    assert_string_equal(add(f, 2, 0, 12), "keep 3, take 1, take 2, take 3, send");
}

static void create_survives_every_failed_allocation(void **state)
{
    (void)state;
    const struct rbt_aggregator_options options = {.member_count = 2, .shard_count = 2};
    const size_t live = rbt_alloc_live();
    for (unsigned nth = 1;; nth++) {
        rbt_aggregator *aggregator = NULL;
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_aggregator_create(&options, &aggregator);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_aggregator_destroy(aggregator);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_int_equal(rbt_alloc_live(), live);
    }
}

int main(void)
{
#define EACH(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        EACH(parts_go_together_when_all_are_there),
        EACH(shards_have_groups_of_their_own),
        EACH(nobody_waits_for_longer_than_was_said),
        EACH(a_single_part_goes_as_it_is),
        EACH(who_was_too_late_is_not_awaited),
        EACH(who_would_have_been_in_time_is_awaited_again),
        EACH(clocks_go_in_their_order),
        EACH(what_is_due_does_not_overtake_what_is_not),
        EACH(repetitions_change_nothing),
        EACH(what_is_refused_goes_one_by_one),
        EACH(what_is_kept_is_bounded),
        EACH(a_memory_that_was_lost_is_empty),
        cmocka_unit_test(create_survives_every_failed_allocation),
    };
#undef EACH
    return cmocka_run_group_tests(tests, NULL, NULL);
}
