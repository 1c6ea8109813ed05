/* proto/membership_test.c - what a member says, says again, and makes of the answers. */
#include "proto/membership_fixture.h"

static void a_process_joins_and_knows_its_plan(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    assert_int_equal(f->m.plan.index, 1);
    assert_int_equal(f->m.plan.shard_count, 2);
    assert_string_equal(f->m.plan.shards[1], "unix:b");
    hear_plan(f); /* it may be said again */
    assert_false(f->has_woken);
}

static void read_join(const struct fixture *f, struct rbt_control_join *join)
{
    const struct rbt_wire_cursor body = {.at = f->last_body, .end = f->last_body + f->last_size};
    assert_ok(rbt_control_get_join(body, join));
}

/* The process would divide by how many shards and workers there are. */
static void a_plan_must_be_one_to_work_by(void **state)
{
    struct fixture *f = *state;
    const struct rbt_control_plan good = {.cluster = 9,
                                          .job = 1,
                                          .process_count = 2,
                                          .worker_count = 4,
                                          .worker_first = 2,
                                          .thread_count = 2,
                                          .process_size = 2,
                                          .map_version = 1,
                                          .shards = {.count = 2, .texts = fixture_shards}};
    struct rbt_control_plan plans[6] = {good, good, good, good, good, good};
    plans[0].shards.count = 0;
    plans[1].job = 0;
    plans[2].process_size = 0;
    plans[3].thread_count = 0;
    plans[4].process_size = 1;
    plans[5].worker_first = 1;
    for (size_t i = 0; i < 6; i++) {
        meet(f, RBT_ROLE_WORKER);
        (void)rbt_control_put_plan(f->message, &plans[i]);
        hear(f);
        assert_failure(f, RBT_E_PROTOCOL, "the coordinator sent a plan with");
        assert_false(rbt_membership_has_plan(&f->m));
        rbt_membership_deinit(&f->m);
    }
    meet(f, RBT_ROLE_WORKER);
    (void)rbt_control_put_plan(f->message, &good);
    hear(f);
    assert_true(rbt_membership_has_plan(&f->m));
}

static void a_job_must_have_a_number(void **state)
{
    struct fixture *f = *state;
    const struct rbt_control_job job = {.worker_count = 2};
    meet(f, RBT_ROLE_SERVER);
    (void)rbt_control_put_job(f->message, 1, &job);
    hear(f);
    assert_int_equal(f->news.kind, RBT_MEMBERSHIP_JOB);
    memset(f->message + RBT_FRAME_HEADER - sizeof(uint64_t), 0, sizeof(uint64_t)); /* its id */
    hear(f);
    assert_int_equal(f->news.kind, RBT_MEMBERSHIP_NO_NEWS);
    assert_failure(f, RBT_E_PROTOCOL, "announced a job without a number");
}

static void what_it_says_when_it_joins(void **state)
{
    struct fixture *f = *state;
    struct rbt_control_join said;
    meet(f, RBT_ROLE_SERVER);
    assert_string_equal(f->said, "join");
    read_join(f, &said);
    assert_int_equal(said.token, 4711);
    assert_int_equal(said.role, RBT_ROLE_SERVER);
    assert_int_equal(said.pid, 12);
    assert_int_equal(said.worker_count, 0);
    assert_int_equal(said.shards.count, 2);
    assert_string_equal(said.host, "near");
    assert_false(said.is_return);
    hear_beat(f);
    reconnect(f);
    read_join(f, &said);
    assert_true(said.is_return);
}

static void a_round_is_gathered(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    gather(f, "own");
    assert_string_equal(f->said, "gather");
    assert_int_equal(f->last_id, 1);
    assert_true(rbt_membership_is_gathering(&f->m));
    hear_gathered(f, 1);
    assert_true(f->has_woken);
    assert_false(rbt_membership_is_gathering(&f->m));
    struct rbt_block *gathered = rbt_membership_take_gathered(&f->m);
    assert_non_null(gathered);
    assert_memory_equal(gathered->data, f->message + RBT_FRAME_HEADER, gathered->bytes);
    rbt_block_unref(gathered);
    gather(f, "more");
    assert_int_equal(f->last_id, 2);
}

static void a_part_is_said_again_after_a_cut(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    gather(f, "own");
    reconnect(f);
    assert_string_equal(f->said, "join gather");
    assert_int_equal(f->last_id, 1);
    hear_gathered(f, 1);
    rbt_block_unref(rbt_membership_take_gathered(&f->m));
    reconnect(f);
    assert_string_equal(f->said, "join"); /* it was answered */
}

static void a_part_of_a_process_that_is_cut_off_is_said_later(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    step_down(f, RBT_E_CLOSED, "closed");
    gather(f, "own");
    assert_string_equal(f->said, "");
    sleep_for(f, 0);
    assert_string_equal(f->said, "connect");
    step_up(f);
    assert_string_equal(f->said, "join gather");
}

static void an_answer_of_an_old_round_is_ignored(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    gather(f, "a");
    hear_gathered(f, 1);
    rbt_block_unref(rbt_membership_take_gathered(&f->m));
    hear_gathered(f, 1); /* between rounds */
    assert_null(rbt_membership_take_gathered(&f->m));
    gather(f, "b");
    hear_gathered(f, 1);
    assert_false(f->has_woken);
    assert_true(rbt_membership_is_gathering(&f->m));
    assert_null(rbt_membership_take_gathered(&f->m));
    hear_gathered(f, 2);
    assert_false(rbt_membership_is_gathering(&f->m));
    rbt_block_unref(rbt_membership_take_gathered(&f->m));
}

static void a_failure_ends_a_round(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    gather(f, "own");
    hear_ending(f, RBT_FRAME_FAILED, RBT_E_DATA, "worker/0 was lost");
    assert_true(f->has_woken);
    assert_failure(f, RBT_E_DATA, "worker/0 was lost");
    assert_false(rbt_membership_is_gathering(&f->m));
    assert_null(rbt_membership_take_gathered(&f->m));
    hear_ending(f, RBT_FRAME_FAILED, RBT_E_IO, "something else");
    assert_failure(f, RBT_E_DATA, "worker/0 was lost"); /* the first one counts */
    gather(f, "again");
    assert_string_equal(f->said, "");
    assert_false(rbt_membership_is_gathering(&f->m));
}

static void a_server_hears_of_jobs(void **state)
{
    struct fixture *f = *state;
    struct rbt_control_job job = {.worker_count = 3};
    const struct rbt_control_version stable = {.table = 4, .version = 11};
    join(f, RBT_ROLE_SERVER);
    memset(&job.secret, 1, sizeof job.secret);
    memset(&job.read_secret, 2, sizeof job.read_secret);
    (void)rbt_control_put_job(f->message, 5, &job);
    hear(f);
    assert_int_equal(f->news.kind, RBT_MEMBERSHIP_JOB);
    assert_int_equal(f->news.number, 5);
    assert_int_equal(f->news.job.worker_count, 3);
    (void)rbt_control_put_version(f->message, RBT_FRAME_STABLE, 5, &stable);
    hear(f);
    assert_int_equal(f->news.kind, RBT_MEMBERSHIP_STABLE);
    assert_int_equal(f->news.stable.table, 4);
    assert_int_equal(f->news.stable.version, 11);
    (void)rbt_control_put_plain(f->message, RBT_FRAME_DROP, 5);
    hear(f);
    assert_int_equal(f->news.kind, RBT_MEMBERSHIP_DROP);
    assert_int_equal(f->news.number, 5);
}

static void versions_are_told_a_moment_apart(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_SERVER);
    tell_version(f, 0, 5);
    assert_true(rbt_membership_deadline(&f->m) > f->now); /* the other shard has none */
    tell_version(f, 1, 4);
    assert_true(rbt_membership_deadline(&f->m) <= f->now);
    sleep_for(f, 0);
    assert_string_equal(f->said, "version");
    tell_version(f, 1, 5);
    tell_version(f, 0, 7);
    tell_version(f, 1, 7);
    sleep_for(f, 0);
    assert_string_equal(f->said, ""); /* not yet */
    pass(f, 1);
    assert_string_equal(f->said, "version");
    reconnect(f);
    pass(f, 1);
    assert_string_equal(f->said, "version"); /* again */
    (void)rbt_control_put_plain(f->message, RBT_FRAME_DROP, 1);
    hear(f);
    reconnect(f);
    pass(f, 1);
    assert_string_equal(f->said, "");
}

static void goodbye_is_answered(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    hear_ending(f, RBT_FRAME_GOODBYE, RBT_OK, ""); /* nobody has asked */
    assert_false(rbt_membership_has_left(&f->m));
    leave(f, RBT_OK, NULL);
    assert_string_equal(f->said, "goodbye");
    assert_false(rbt_membership_has_left(&f->m));
    hear_ending(f, RBT_FRAME_GOODBYE, RBT_OK, "");
    assert_true(rbt_membership_has_left(&f->m));
    assert_true(f->has_woken);
    assert_string_equal(f->said, "cut");
    assert_int_equal(rbt_membership_deadline(&f->m), RBT_TIME_NEVER);
}

static void goodbye_is_the_last_word(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_SERVER);
    tell_version(f, 0, 5);
    tell_version(f, 1, 5);
    advise_bound(f, 1);
    leave(f, RBT_OK, NULL);
    assert_string_equal(f->said, "goodbye");
    advise_bound(f, 2);
    hear_bound(f, 1, 2);
    assert_string_equal(f->said, "");
    tell_version(f, 0, 6);
    tell_version(f, 1, 6);
    assert_string_equal(f->said, "");
    pass(f, 999);
    assert_string_equal(f->said, "");
    reconnect(f);
    assert_string_equal(f->said, "join bound version goodbye");
}

static void an_unanswered_goodbye_ends_after_a_second(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    leave(f, RBT_E_DATA, "it makes no sense");
    pass(f, 999);
    assert_false(rbt_membership_has_left(&f->m));
    pass(f, 1);
    assert_true(rbt_membership_has_left(&f->m));
    assert_string_equal(f->said, "cut");
}

static void goodbye_is_said_again_and_forgone(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    leave(f, RBT_OK, NULL);
    reconnect(f);
    assert_string_equal(f->said, "join goodbye");
    step_down(f, RBT_E_CLOSED, "closed");
    assert_false(rbt_membership_has_left(&f->m)); /* it is tried again */
    pass(f, 1000);
    assert_true(rbt_membership_has_left(&f->m));
}

static void who_has_failed_and_has_no_connection_leaves_at_once(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    step(f, &(struct rbt_membership_event){.kind = RBT_MEMBERSHIP_GIVE_UP,
                                           .ending = {.status = RBT_E_DATA, .why = "no"}});
    assert_true(f->has_woken);
    assert_failure(f, RBT_E_DATA, "no");
    step_down(f, RBT_E_CLOSED, "closed");
    assert_int_equal(rbt_membership_deadline(&f->m), RBT_TIME_NEVER); /* no new connection */
    leave(f, RBT_E_DATA, "no");
    assert_true(rbt_membership_has_left(&f->m));
    assert_string_equal(f->said, "");
}

static void a_server_hears_that_the_cluster_has_ended(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_SERVER);
    hear_ending(f, RBT_FRAME_FAILED, RBT_OK, "");
    assert_true(f->has_woken);
    assert_true(rbt_membership_has_ended(&f->m));
    assert_int_equal(f->m.failure, RBT_OK);
    pass(f, 3 * SILENCE_MS); /* it does not matter any more who is silent */
    assert_int_equal(f->m.failure, RBT_OK);
    leave(f, RBT_OK, NULL);
    assert_string_equal(f->said, "goodbye");
}

static void who_is_refused_fails_with_the_coordinators_sentence(void **state)
{
    struct fixture *f = *state;
    meet(f, RBT_ROLE_WORKER);
    hear_ending(f, RBT_FRAME_FAILED, RBT_E_INVALID, "worker/0 is there already");
    assert_failure(f, RBT_E_INVALID, "worker/0 is there already");
    leave(f, RBT_E_INVALID, f->m.failure_text);
    assert_string_equal(f->said, "goodbye");
    step_down(f, RBT_E_CLOSED, "closed");
    assert_true(rbt_membership_has_left(&f->m));
}

static void what_makes_no_sense_is_not_tried_again(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    rbt_frame_put(f->message, &(struct rbt_frame){.kind = RBT_FRAME_JOIN});
    hear(f);
    assert_failure(f, RBT_E_PROTOCOL, "the coordinator at unix:c: the coordinator sent a message");
    assert_string_equal(f->said, "cut");
}

static void without_memory_the_job_fails(void **state)
{
    struct fixture *f = *state;
    join(f, RBT_ROLE_WORKER);
    rbt_block_trim();
    rbt_alloc_fail_nth(1);
    gather(f, "own");
    rbt_alloc_fail_nth(0);
    assert_failure(f, RBT_E_NOMEM, "could not allocate a message to the coordinator");
    assert_false(rbt_membership_is_gathering(&f->m));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_joins_and_knows_its_plan),
        TEST(a_plan_must_be_one_to_work_by),
        TEST(a_job_must_have_a_number),
        TEST(what_it_says_when_it_joins),
        TEST(a_round_is_gathered),
        TEST(a_part_is_said_again_after_a_cut),
        TEST(a_part_of_a_process_that_is_cut_off_is_said_later),
        TEST(an_answer_of_an_old_round_is_ignored),
        TEST(a_failure_ends_a_round),
        TEST(a_server_hears_of_jobs),
        TEST(versions_are_told_a_moment_apart),
        TEST(goodbye_is_answered),
        TEST(goodbye_is_the_last_word),
        TEST(an_unanswered_goodbye_ends_after_a_second),
        TEST(goodbye_is_said_again_and_forgone),
        TEST(who_has_failed_and_has_no_connection_leaves_at_once),
        TEST(a_server_hears_that_the_cluster_has_ended),
        TEST(who_is_refused_fails_with_the_coordinators_sentence),
        TEST(what_makes_no_sense_is_not_tried_again),
        TEST(without_memory_the_job_fails),
    };
    return cmocka_run_group_tests_name("proto/membership", tests, NULL, NULL);
}
