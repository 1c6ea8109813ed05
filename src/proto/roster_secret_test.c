/* proto/roster_secret_test.c - who is told the secrets of a job, and who is let into it. */
#include "base/test.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "proto/roster.h"

#define MS INT64_C(1000000)

static const struct rbt_wire_secret PERMIT = {"permit"};
static const struct rbt_wire_secret READ_PERMIT = {"to read"};
static const struct rbt_wire_secret NONE;

struct fixture {
    rbt_roster *roster;
    struct rbt_roster_outbox out;
    uint64_t token;
    _Alignas(8) char frame[4096];
};

static rbt_status draw(void *bytes, size_t size)
{
    static unsigned char last;
    for (size_t i = 0; i < size; i++) {
        ((unsigned char *)bytes)[i] = ++last;
    }
    return RBT_OK;
}

static rbt_status refuse_to_draw(void *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    return rbt_fail(RBT_E_IO, "no random numbers");
}

static rbt_status join(struct fixture *f, enum rbt_role role, const char *space,
                       struct rbt_wire_secret permit, uint32_t *peer)
{
    static const char *const shards[] = {"unix:a"};
    struct rbt_control_join join = {
        .token = ++f->token, .role = role, .index = -1, .host = "host", .permit = permit};
    if (role == RBT_ROLE_SERVER) {
        join.shards = (struct rbt_control_shards){.count = 1, .texts = shards};
    } else {
        join.worker_count = role == RBT_ROLE_READER ? 1 : 2;
        join.thread_count = 1;
        join.read_permit = rbt_wire_is_secret(&permit, &PERMIT) ? READ_PERMIT : NONE;
        (void)snprintf(join.space, sizeof join.space, "%s", space);
    }
    const size_t bytes = rbt_control_put_join(f->frame, &join);
    const struct rbt_wire_cursor body = {f->frame + RBT_FRAME_HEADER, f->frame + bytes};
    struct rbt_control_join read;
    assert_ok(rbt_control_get_join(body, &read));
    return rbt_roster_join(f->roster, &read, 1000 * MS, &f->out, peer);
}

static uint32_t enter(struct fixture *f, enum rbt_role role, const char *space,
                      struct rbt_wire_secret permit)
{
    uint32_t peer = RBT_ROSTER_NOBODY;
    assert_ok(join(f, role, space, permit, &peer));
    return peer;
}

static void begin(struct fixture *f, rbt_status (*draws)(void *, size_t))
{
    const struct rbt_roster_options options = {.cluster = 9,
                                               .server_count = 1,
                                               .start_timeout = 30000 * MS,
                                               .silence_max = 10000 * MS,
                                               .cut_max = 3000 * MS,
                                               .draw = draws};
    *f = (struct fixture){0};
    assert_ok(rbt_roster_create(&options, 1000 * MS, &f->roster));
    assert_int_equal(enter(f, RBT_ROLE_SERVER, "", NONE), 0);
}

static void end(struct fixture *f)
{
    rbt_roster_destroy(f->roster);
    rbt_roster_outbox_deinit(&f->out);
    assert_int_equal(rbt_alloc_live(), 0);
}

static struct rbt_wire_secret secret_of(const struct fixture *f, uint32_t peer)
{
    struct rbt_control_plan plan;
    rbt_roster_plan(f->roster, peer, &plan);
    return plan.secret;
}

static bool is_told(const struct fixture *f, enum rbt_roster_effect_kind kind, uint32_t peer)
{
    for (size_t i = 0; i < f->out.count; i++) {
        if (f->out.effects[i].kind == kind && f->out.effects[i].peer == peer) {
            return true;
        }
    }
    return false;
}

static void every_job_has_secrets_of_its_own(void **state)
{
    (void)state;
    struct fixture f;
    struct rbt_control_job jobs[2];
    begin(&f, draw);
    struct rbt_wire_secret workers[4];
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(enter(&f, RBT_ROLE_WORKER, i < 2 ? "a" : "b", NONE), i + 1);
    }
    for (uint32_t i = 0; i < 4; i++) {
        workers[i] = secret_of(&f, i + 1);
    }
    assert_true(is_told(&f, RBT_ROSTER_JOB, 0));
    rbt_roster_job(f.roster, 1, &jobs[0]);
    rbt_roster_job(f.roster, 2, &jobs[1]);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(rbt_wire_is_secret(&workers[i], &jobs[i / 2].secret));
        assert_false(rbt_wire_is_secret(&workers[i], &jobs[i / 2].read_secret));
        assert_false(rbt_wire_is_secret(&workers[i], &jobs[1 - i / 2].secret));
    }
    const struct rbt_wire_secret reads =
        secret_of(&f, enter(&f, RBT_ROLE_READER, "b", NONE)); /* without permits anybody may */
    assert_true(rbt_wire_is_secret(&reads, &jobs[1].read_secret));
    const struct rbt_wire_secret server = secret_of(&f, 0);
    assert_true(rbt_wire_is_secret(&server, &NONE));
    end(&f);
}

static void a_server_that_comes_back_hears_of_all_jobs(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, draw);
    (void)enter(&f, RBT_ROLE_WORKER, "a", NONE);
    (void)enter(&f, RBT_ROLE_WORKER, "a", NONE);
    (void)enter(&f, RBT_ROLE_WORKER, "forming", NONE);
    f.out.count = 0;
    f.token = 0; /* the server's was 1 */
    rbt_roster_cut(f.roster, 0, 1000 * MS);
    assert_int_equal(enter(&f, RBT_ROLE_SERVER, "", NONE), 0);
    size_t told = 0;
    for (size_t i = 0; i < f.out.count; i++) {
        told += f.out.effects[i].kind == RBT_ROSTER_JOB && f.out.effects[i].job == 1 ? 1 : 0;
        assert_true(f.out.effects[i].kind != RBT_ROSTER_JOB || f.out.effects[i].job == 1);
    }
    assert_int_equal(told, 1);
    end(&f);
}

static void a_job_with_a_key_is_closed_to_others(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t peer;
    begin(&f, draw);
    (void)enter(&f, RBT_ROLE_WORKER, "a", PERMIT);
    assert_fails(join(&f, RBT_ROLE_WORKER, "a", NONE, &peer), RBT_E_INVALID, "another job key");
    assert_fails(join(&f, RBT_ROLE_WORKER, "a", READ_PERMIT, &peer), RBT_E_INVALID,
                 "another job key");
    const uint32_t early = enter(&f, RBT_ROLE_READER, "a", NONE); /* waits for the job */
    (void)enter(&f, RBT_ROLE_WORKER, "a", PERMIT);
    assert_true(is_told(&f, RBT_ROSTER_FAILED, early));
    assert_false(is_told(&f, RBT_ROSTER_PLAN, early));
    const uint32_t right = enter(&f, RBT_ROLE_READER, "a", READ_PERMIT);
    assert_true(is_told(&f, RBT_ROSTER_PLAN, right));
    const uint32_t wrong = enter(&f, RBT_ROLE_READER, "a", PERMIT);
    assert_true(is_told(&f, RBT_ROSTER_FAILED, wrong));
    assert_false(is_told(&f, RBT_ROSTER_PLAN, wrong));
    end(&f);
}

static void without_random_numbers_there_is_no_job(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t peer;
    begin(&f, refuse_to_draw);
    assert_fails(join(&f, RBT_ROLE_WORKER, "a", NONE, &peer), RBT_E_IO, "no random numbers");
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_has_secrets_of_its_own),
        cmocka_unit_test(a_server_that_comes_back_hears_of_all_jobs),
        cmocka_unit_test(a_job_with_a_key_is_closed_to_others),
        cmocka_unit_test(without_random_numbers_there_is_no_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
