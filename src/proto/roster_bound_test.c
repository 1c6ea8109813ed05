/* proto/roster_bound_test.c - how stale reads may be: the roster gives changes their order, tells
 * all, and knows when all have taken them. */
#include "base/test.h"

#include <stdio.h>

#include "base/alloc.h"
#include "proto/roster.h"

#define MS INT64_C(1000000)

struct fixture {
    rbt_roster *roster;
    struct rbt_roster_outbox out;
    _Alignas(8) char frame[4096];
    char text[256];
};

static uint32_t join(struct fixture *f, enum rbt_role role, uint64_t token)
{
    static const char *const shards[] = {"unix:a"};
    struct rbt_control_join join = {.token = token, .role = role, .index = -1, .host = "host"};
    if (role == RBT_ROLE_SERVER) {
        join.shards = (struct rbt_control_shards){.count = 1, .texts = shards};
    } else {
        join.worker_count = 2;
        join.thread_count = 1;
        (void)snprintf(join.space, sizeof join.space, "main");
    }
    const size_t bytes = rbt_control_put_join(f->frame, &join);
    const struct rbt_wire_cursor body = {f->frame + RBT_FRAME_HEADER, f->frame + bytes};
    struct rbt_control_join read;
    uint32_t peer = RBT_ROSTER_NOBODY;
    assert_ok(rbt_control_get_join(body, &read));
    assert_ok(rbt_roster_join(f->roster, &read, 1000 * MS, &f->out, &peer));
    return peer;
}

static rbt_status draw(void *bytes, size_t size)
{
    memset(bytes, 1, size);
    return RBT_OK;
}

/* Servers at 0 and 1, worker processes at 2 and 3. */
static void begin(struct fixture *f)
{
    const struct rbt_roster_options options = {.cluster = 9,
                                               .server_count = 2,
                                               .start_timeout = 30000 * MS,
                                               .silence_max = 10000 * MS,
                                               .cut_max = 3000 * MS,
                                               .draw = draw};
    *f = (struct fixture){0};
    assert_ok(rbt_roster_create(&options, 1000 * MS, &f->roster));
    assert_int_equal(join(f, RBT_ROLE_SERVER, 1), 0);
    assert_int_equal(join(f, RBT_ROLE_SERVER, 2), 1);
    assert_int_equal(join(f, RBT_ROLE_WORKER, 3), 2);
    assert_int_equal(join(f, RBT_ROLE_WORKER, 4), 3);
    f->out.count = 0;
}

static void end(struct fixture *f)
{
    rbt_roster_destroy(f->roster);
    rbt_roster_outbox_deinit(&f->out);
    assert_int_equal(rbt_alloc_live(), 0);
}

static rbt_status tell(struct fixture *f, uint32_t peer, uint64_t number, uint32_t table,
                       int64_t staleness)
{
    const struct rbt_control_bound bound = {.job = 1, .table = table, .staleness = staleness};
    return rbt_roster_bound(f->roster, peer, number, &bound, &f->out);
}

static void take(struct fixture *f, uint32_t peer, uint64_t number)
{
    assert_ok(rbt_roster_taken(f->roster, peer, 1, number, &f->out));
}

/* What was told since the last call: "peer:number table=staleness", or "peer:taken number". */
static const char *told(struct fixture *f)
{
    size_t used = 0;
    f->text[0] = '\0';
    for (size_t i = 0; i < f->out.count; i++) {
        const struct rbt_roster_effect *e = &f->out.effects[i];
        if (e->kind == RBT_ROSTER_BOUND) {
            used +=
                (size_t)snprintf(f->text + used, sizeof f->text - used, "%u:%u %d=%d, ", e->peer,
                                 (unsigned)e->number, (int)e->table, (int)e->staleness);
        } else if (e->kind == RBT_ROSTER_TAKEN) {
            used += (size_t)snprintf(f->text + used, sizeof f->text - used, "%u:taken %u, ",
                                     e->peer, (unsigned)e->number);
        }
    }
    f->out.count = 0;
    return f->text;
}

static void all_are_told_and_the_teller_hears_when_all_have_taken_it(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_ok(tell(&f, 2, 1, 4, 5));
    assert_string_equal(told(&f), "0:1 4=5, 1:1 4=5, 2:1 4=5, 3:1 4=5, ");
    take(&f, 0, 1);
    take(&f, 2, 1);
    take(&f, 3, 1);
    take(&f, 3, 1); /* again */
    assert_string_equal(told(&f), "");
    take(&f, 1, 1);
    assert_string_equal(told(&f), "2:taken 1, ");
    assert_ok(tell(&f, 2, 1, 4, 5)); /* the answer was lost */
    assert_string_equal(told(&f), "2:taken 1, ");
    end(&f);
}

static void two_who_tell_at_once_hear_one_order(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_ok(tell(&f, 3, 1, 4, 5));
    assert_ok(tell(&f, 2, 1, 4, 6));
    assert_string_equal(told(&f), "0:1 4=5, 1:1 4=5, 2:1 4=5, 3:1 4=5, "
                                  "0:2 4=6, 1:2 4=6, 2:2 4=6, 3:2 4=6, ");
    take(&f, 0, 2); /* and so the first */
    take(&f, 1, 2);
    take(&f, 2, 2);
    take(&f, 3, 1);
    assert_string_equal(told(&f), "3:taken 1, ");
    take(&f, 3, 2);
    assert_string_equal(told(&f), "2:taken 1, ");
    end(&f);
}

static void who_comes_back_is_told_the_latest_of_each_table(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_ok(tell(&f, 2, 1, 4, 5));
    assert_ok(tell(&f, 2, 2, RBT_CONTROL_ALL, 6));
    assert_ok(tell(&f, 2, 3, 4, 7));
    (void)told(&f);
    rbt_roster_cut(f.roster, 3, 1000 * MS);
    assert_int_equal(join(&f, RBT_ROLE_WORKER, 4), 3);
    assert_string_equal(told(&f), "3:2 -1=6, 3:3 4=7, ");
    rbt_roster_cut(f.roster, 1, 1000 * MS);
    assert_int_equal(join(&f, RBT_ROLE_SERVER, 2), 1);
    assert_string_equal(told(&f), "1:2 -1=6, 1:3 4=7, ");
    end(&f);
}

/* A change that was replaced is not told again: nobody who missed it has taken it before it has
 * taken the one that has replaced it. */
static void what_is_told_again_is_taken_as_a_whole(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_ok(tell(&f, 2, 1, 4, 5));
    assert_ok(tell(&f, 3, 1, RBT_CONTROL_ALL, 6));
    for (uint32_t peer = 0; peer < 3; peer++) {
        take(&f, peer, 2);
    }
    assert_ok(tell(&f, 3, 2, 4, 7)); /* replaces the first */
    rbt_roster_cut(f.roster, 3, 1000 * MS);
    assert_int_equal(join(&f, RBT_ROLE_WORKER, 4), 3);
    (void)told(&f);
    take(&f, 3, 2); /* has it the first one, or what has replaced it? Not yet. */
    assert_string_equal(told(&f), "");
    take(&f, 3, 3);
    assert_string_equal(told(&f), "2:taken 1, ");
    end(&f);
}

static void nobody_waits_for_a_process_that_has_left(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_ok(tell(&f, 2, 1, 4, 5));
    for (uint32_t peer = 0; peer < 3; peer++) {
        take(&f, peer, 1);
    }
    (void)told(&f);
    rbt_roster_leave(f.roster, 3, &(struct rbt_control_ending){.status = RBT_OK}, 1000 * MS,
                     &f.out);
    assert_string_equal(told(&f), "2:taken 1, ");
    end(&f);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    const struct rbt_control_bound other = {.job = 2, .staleness = 5};
    assert_fails(rbt_roster_bound(f.roster, 2, 1, &other, &f.out), RBT_E_PROTOCOL, "another job");
    assert_fails(tell(&f, 0, 1, 4, 5), RBT_E_PROTOCOL, "only a worker process");
    assert_fails(rbt_roster_taken(f.roster, 2, 1, 1, &f.out), RBT_E_PROTOCOL, "was not sent");
    assert_fails(rbt_roster_taken(f.roster, 2, 1, 0, &f.out), RBT_E_PROTOCOL, "without a number");
    assert_ok(rbt_roster_taken(f.roster, 2, 7, 1, &f.out)); /* a job that is over */
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_told_and_the_teller_hears_when_all_have_taken_it),
        cmocka_unit_test(two_who_tell_at_once_hear_one_order),
        cmocka_unit_test(who_comes_back_is_told_the_latest_of_each_table),
        cmocka_unit_test(what_is_told_again_is_taken_as_a_whole),
        cmocka_unit_test(nobody_waits_for_a_process_that_has_left),
        cmocka_unit_test(what_makes_no_sense_is_refused),
    };
    return cmocka_run_group_tests_name("proto/roster_bound", tests, NULL, NULL);
}
