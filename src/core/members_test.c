/* core/members_test.c - one test per promise of members.c, and random runs judged by a second
 * opinion. The fixture holds three nodes, suspected after 10 and given up after 30. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "core/members.h"

enum { NODES = 3, SUSPECT_AFTER = 10, DOWN_AFTER = 30, START = 100 };

struct fixture {
    rbt_members *members;
    struct rbt_member_effect effects[2 * NODES];
    struct rbt_members_outbox out;
};

static const struct rbt_members_options OPTIONS = {
    .node_count = NODES, .suspect_after = SUSPECT_AFTER, .down_after = DOWN_AFTER};

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){0};
    assert_ok(rbt_members_create(&OPTIONS, START, &fixture.members));
    fixture.out.effects = fixture.effects;
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_members_destroy(f->members);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

static void hear(struct fixture *f, uint32_t node, rbt_time now)
{
    f->out.count = 0;
    rbt_members_hear(f->members, node, now, &f->out);
}

static void expire(struct fixture *f, rbt_time now)
{
    f->out.count = 0;
    rbt_members_expire(f->members, now, &f->out);
}

static void assert_effect(const struct fixture *f, size_t i, uint32_t node,
                          enum rbt_member_state state)
{
    assert_true(i < f->out.count);
    assert_int_equal(f->effects[i].node, node);
    assert_int_equal(f->effects[i].state, state);
}

static void at_the_start_all_are_up(void **state)
{
    struct fixture *f = *state;
    for (uint32_t node = 0; node < NODES; node++) {
        assert_int_equal(rbt_members_state(f->members, node), RBT_MEMBER_UP);
    }
    assert_int_equal(rbt_members_deadline(f->members), START + SUSPECT_AFTER);
    expire(f, START + SUSPECT_AFTER - 1);
    assert_int_equal(f->out.count, 0);
}

static void the_silent_are_suspected_then_given_up_each_once(void **state)
{
    struct fixture *f = *state;
    hear(f, 1, 105);
    assert_int_equal(f->out.count, 0); /* it was up before */
    expire(f, 110);
    assert_int_equal(f->out.count, 2);
    assert_effect(f, 0, 0, RBT_MEMBER_SUSPECT);
    assert_effect(f, 1, 2, RBT_MEMBER_SUSPECT);
    assert_int_equal(rbt_members_state(f->members, 1), RBT_MEMBER_UP);
    assert_int_equal(rbt_members_deadline(f->members), 115);

    hear(f, 1, 114);
    expire(f, 120);
    assert_int_equal(f->out.count, 0);
    hear(f, 1, 121);
    expire(f, 130);
    assert_int_equal(f->out.count, 2);
    assert_effect(f, 0, 0, RBT_MEMBER_DOWN);
    assert_effect(f, 1, 2, RBT_MEMBER_DOWN);
    assert_int_equal(rbt_members_state(f->members, 0), RBT_MEMBER_DOWN);
    assert_int_equal(rbt_members_deadline(f->members), 131);
    hear(f, 1, 130);
    expire(f, 131);
    assert_int_equal(f->out.count, 0);
}

static void a_suspect_that_is_heard_of_is_up_again(void **state)
{
    struct fixture *f = *state;
    expire(f, 110);
    assert_int_equal(f->out.count, NODES);
    assert_int_equal(rbt_members_deadline(f->members), 130);
    hear(f, 1, 112);
    assert_int_equal(f->out.count, 1);
    assert_effect(f, 0, 1, RBT_MEMBER_UP);
    assert_int_equal(rbt_members_state(f->members, 1), RBT_MEMBER_UP);
    assert_int_equal(rbt_members_deadline(f->members), 122); /* before the other suspects */
    expire(f, 122);
    assert_int_equal(f->out.count, 1);
    assert_effect(f, 0, 1, RBT_MEMBER_SUSPECT); /* a second silence */
}

static void a_late_look_tells_both_stages(void **state)
{
    struct fixture *f = *state;
    hear(f, 1, 125);
    rbt_members_leave(f->members, 2);
    expire(f, 140);
    assert_int_equal(f->out.count, 3);
    assert_effect(f, 0, 0, RBT_MEMBER_SUSPECT);
    assert_effect(f, 1, 0, RBT_MEMBER_DOWN);
    assert_effect(f, 2, 1, RBT_MEMBER_SUSPECT);
    expire(f, 1000);
    assert_int_equal(f->out.count, 1);
    assert_effect(f, 0, 1, RBT_MEMBER_DOWN);
}

static void who_speaks_before_anybody_looks_was_not_silent(void **state)
{
    struct fixture *f = *state;
    for (uint32_t node = 0; node < NODES; node++) {
        hear(f, node, 500);
        assert_int_equal(f->out.count, 0);
    }
    expire(f, 505);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(rbt_members_deadline(f->members), 510);
}

static void whoever_has_been_given_up_stays_so(void **state)
{
    struct fixture *f = *state;
    expire(f, 130);
    assert_int_equal(f->out.count, 2 * NODES);
    hear(f, 0, 131);
    rbt_members_leave(f->members, 1);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(rbt_members_state(f->members, 0), RBT_MEMBER_DOWN);
    assert_int_equal(rbt_members_state(f->members, 1), RBT_MEMBER_DOWN);
    assert_true(rbt_members_deadline(f->members) == RBT_TIME_NEVER);
    expire(f, 1000);
    assert_int_equal(f->out.count, 0);
}

static void whoever_has_left_is_not_watched(void **state)
{
    struct fixture *f = *state;
    rbt_members_leave(f->members, 0);
    expire(f, 110);
    assert_int_equal(f->out.count, 2);
    rbt_members_leave(f->members, 1); /* a suspect can leave */
    hear(f, 0, 111);
    hear(f, 1, 111);
    assert_int_equal(f->out.count, 0);
    rbt_members_leave(f->members, 1); /* a repetition */
    assert_int_equal(rbt_members_deadline(f->members), 130);
    rbt_members_leave(f->members, 2);
    assert_true(rbt_members_deadline(f->members) == RBT_TIME_NEVER);
    expire(f, 1000);
    assert_int_equal(f->out.count, 0);
    for (uint32_t node = 0; node < NODES; node++) {
        assert_int_equal(rbt_members_state(f->members, node), RBT_MEMBER_LEFT);
    }
}

/* --- Random runs ------------------------------------------------------------------------------
 *
 * The checker keeps for each node when it was heard of and what was last said about it:
 *   safety      nobody is suspected or given up who spoke in time, nor comes back from the dead;
 *   promptness  after a look no silence is left unnoticed, and the deadline is never too late;
 *   limits      the effects of one look fit into twice the number of nodes;
 *   liveness    looking at the deadlines alone gives up everybody who stays silent. */

enum { MANY = 6 };

struct checker {
    rbt_members *members;
    struct rbt_rng rng;
    rbt_time now;
    rbt_time heard[MANY];
    enum rbt_member_state states[MANY];
    struct rbt_member_effect effects[2 * MANY];
    struct rbt_members_outbox out;
};

static bool is_over(enum rbt_member_state state)
{
    return state == RBT_MEMBER_DOWN || state == RBT_MEMBER_LEFT;
}

static void judge(struct checker *c, const struct rbt_member_effect *effect)
{
    enum rbt_member_state *state = &c->states[effect->node];
    const rbt_time silence = c->now - c->heard[effect->node];
    switch (effect->state) {
    case RBT_MEMBER_UP:
        assert_int_equal(*state, RBT_MEMBER_SUSPECT);
        assert_int_equal(silence, 0);
        break;
    case RBT_MEMBER_SUSPECT:
        assert_int_equal(*state, RBT_MEMBER_UP);
        assert_true(silence >= SUSPECT_AFTER);
        break;
    case RBT_MEMBER_DOWN:
        assert_int_equal(*state, RBT_MEMBER_SUSPECT);
        assert_true(silence >= DOWN_AFTER);
        break;
    case RBT_MEMBER_LEFT:
        fail_msg("nobody needs to be told who left");
    }
    *state = effect->state;
}

static void check(struct checker *c, bool has_looked)
{
    assert_true(c->out.count <= 2 * (size_t)MANY);
    for (size_t i = 0; i < c->out.count; i++) {
        judge(c, &c->effects[i]);
    }
    bool is_anybody_watched = false;
    for (uint32_t node = 0; node < MANY; node++) {
        assert_int_equal(rbt_members_state(c->members, node), c->states[node]);
        if (is_over(c->states[node])) {
            continue;
        }
        is_anybody_watched = true;
        const rbt_time due =
            c->heard[node] + (c->states[node] == RBT_MEMBER_UP ? SUSPECT_AFTER : DOWN_AFTER);
        assert_true(!has_looked || c->now < due);
        assert_true(rbt_members_deadline(c->members) <= due);
    }
    assert_int_equal(rbt_members_deadline(c->members) == RBT_TIME_NEVER, !is_anybody_watched);
}

static void look(struct checker *c)
{
    c->out.count = 0;
    rbt_members_expire(c->members, c->now, &c->out);
    check(c, true);
    assert_true(rbt_members_deadline(c->members) > c->now);
}

static void random_step(struct checker *c)
{
    const uint32_t node = (uint32_t)rbt_rng_below(&c->rng, MANY);
    const uint64_t what = rbt_rng_below(&c->rng, 100);
    c->now += (rbt_time)rbt_rng_below(&c->rng, 4);
    c->out.count = 0;
    if (what < 70) {
        if (!is_over(c->states[node])) {
            c->heard[node] = c->now;
        }
        rbt_members_hear(c->members, node, c->now, &c->out);
        assert_int_equal(c->out.count, c->states[node] == RBT_MEMBER_SUSPECT);
        check(c, false);
    } else if (what < 72) {
        rbt_members_leave(c->members, node);
        c->states[node] = is_over(c->states[node]) ? c->states[node] : RBT_MEMBER_LEFT;
        check(c, false);
    } else {
        look(c);
    }
}

static void random_runs_keep_every_promise(void **state)
{
    (void)state;
    const struct rbt_members_options options = {
        .node_count = MANY, .suspect_after = SUSPECT_AFTER, .down_after = DOWN_AFTER};
    for (uint64_t seed = 0; seed < 2000; seed++) {
        struct checker c = {0}; /* RBT_MEMBER_UP is 0 */
        c.out.effects = c.effects;
        rbt_rng_init(&c.rng, seed, 0, 0);
        assert_ok(rbt_members_create(&options, 0, &c.members));
        for (int i = 0; i < 100; i++) {
            random_step(&c);
        }
        int looks = 0; /* per node: one too early, one for each stage */
        while (rbt_members_deadline(c.members) != RBT_TIME_NEVER) {
            c.now =
                rbt_members_deadline(c.members) > c.now ? rbt_members_deadline(c.members) : c.now;
            look(&c);
            assert_true(++looks <= 3 * MANY);
        }
        for (uint32_t node = 0; node < MANY; node++) {
            assert_true(is_over(c.states[node]));
        }
        rbt_members_destroy(c.members);
    }
}

static void create_survives_every_failed_allocation(void **state)
{
    (void)state;
    for (unsigned nth = 1;; nth++) {
        rbt_members *members = NULL;
        rbt_alloc_fail_nth(nth);
        const rbt_status st = rbt_members_create(&OPTIONS, 0, &members);
        rbt_alloc_fail_nth(0);
        if (st == RBT_OK) {
            rbt_members_destroy(members);
            break;
        }
        assert_int_equal(st, RBT_E_NOMEM);
        assert_null(members);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    rbt_members_destroy(NULL);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void somebody_new_may_take_a_place(void **state)
{
    struct fixture *f = *state;
    rbt_members_leave(f->members, 0);
    expire(f, START + DOWN_AFTER);
    assert_int_equal(rbt_members_state(f->members, 1), RBT_MEMBER_DOWN);
    assert_int_equal(rbt_members_deadline(f->members), RBT_TIME_NEVER);
    rbt_members_enter(f->members, 0, START + DOWN_AFTER);
    rbt_members_enter(f->members, 1, START + DOWN_AFTER + 5);
    assert_int_equal(rbt_members_state(f->members, 0), RBT_MEMBER_UP);
    assert_int_equal(rbt_members_deadline(f->members), START + DOWN_AFTER + SUSPECT_AFTER);
    expire(f, START + DOWN_AFTER + SUSPECT_AFTER);
    assert_int_equal(rbt_members_state(f->members, 0), RBT_MEMBER_SUSPECT);
    assert_int_equal(rbt_members_state(f->members, 1), RBT_MEMBER_UP);
    assert_int_equal(rbt_members_state(f->members, 2), RBT_MEMBER_DOWN);
}

static void a_list_may_be_empty_at_first(void **state)
{
    const struct rbt_members_options options = {.node_count = 3,
                                                .suspect_after = SUSPECT_AFTER,
                                                .down_after = DOWN_AFTER,
                                                .is_empty = true};
    rbt_members *members = NULL;
    (void)state;
    assert_ok(rbt_members_create(&options, START, &members));
    assert_int_equal(rbt_members_state(members, 2), RBT_MEMBER_LEFT);
    assert_int_equal(rbt_members_deadline(members), RBT_TIME_NEVER);
    rbt_members_enter(members, 2, START + 5);
    assert_int_equal(rbt_members_state(members, 2), RBT_MEMBER_UP);
    assert_true(rbt_members_deadline(members) <= START + 5 + SUSPECT_AFTER);
    rbt_members_destroy(members);
}

#define WITH_MEMBERS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_MEMBERS(at_the_start_all_are_up),
        cmocka_unit_test(a_list_may_be_empty_at_first),
        WITH_MEMBERS(the_silent_are_suspected_then_given_up_each_once),
        WITH_MEMBERS(a_suspect_that_is_heard_of_is_up_again),
        WITH_MEMBERS(a_late_look_tells_both_stages),
        WITH_MEMBERS(who_speaks_before_anybody_looks_was_not_silent),
        WITH_MEMBERS(whoever_has_been_given_up_stays_so),
        WITH_MEMBERS(whoever_has_left_is_not_watched),
        WITH_MEMBERS(somebody_new_may_take_a_place),
        cmocka_unit_test(random_runs_keep_every_promise),
        cmocka_unit_test(create_survives_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
