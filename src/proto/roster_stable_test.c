/* proto/roster_stable_test.c - which versions of a table all servers have, as the roster
 * learns it and tells it. */
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

static rbt_status tell(struct fixture *f, uint32_t peer, uint64_t job, uint32_t table,
                       uint64_t version)
{
    const struct rbt_control_version told = {.table = table, .version = version};
    return rbt_roster_version(f->roster, peer, job, &told, &f->out);
}

/* What was told since the last call: peer, table, version. */
static const char *told(struct fixture *f)
{
    size_t used = 0;
    f->text[0] = '\0';
    for (size_t i = 0; i < f->out.count; i++) {
        const struct rbt_roster_effect *effect = &f->out.effects[i];
        if (effect->kind == RBT_ROSTER_STABLE) {
            used += (size_t)snprintf(f->text + used, sizeof f->text - used, "%u:%u=%u ",
                                     effect->peer, effect->table, (unsigned)effect->number);
        }
    }
    f->out.count = 0;
    return f->text;
}

static void the_lowest_version_of_all_servers_is_told_when_it_grows(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_ok(tell(&f, 0, 1, 4, 5));
    assert_string_equal(told(&f), "");
    assert_ok(tell(&f, 1, 1, 4, 2));
    assert_string_equal(told(&f), "2:4=2 3:4=2 ");
    assert_ok(tell(&f, 1, 1, 4, 2)); /* again, after a cut */
    assert_ok(tell(&f, 1, 1, 4, 1)); /* never decreases */
    assert_ok(tell(&f, 0, 1, 4, 9));
    assert_string_equal(told(&f), "");
    assert_ok(tell(&f, 1, 1, 4, 7));
    assert_string_equal(told(&f), "2:4=7 3:4=7 ");
    assert_ok(tell(&f, 0, 1, 0, 1)); /* tables are apart */
    assert_ok(tell(&f, 1, 1, 0, 3));
    assert_string_equal(told(&f), "2:0=1 3:0=1 ");
    end(&f);
}

static void who_comes_back_is_told_again(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_ok(tell(&f, 0, 1, 4, 5));
    assert_ok(tell(&f, 1, 1, 4, 6));
    assert_ok(tell(&f, 0, 1, 7, 5)); /* not all have it */
    rbt_roster_cut(f.roster, 3, 1000 * MS);
    assert_string_equal(told(&f), "2:4=5 3:4=5 ");
    assert_int_equal(join(&f, RBT_ROLE_WORKER, 4), 3);
    assert_string_equal(told(&f), "3:4=5 ");
    end(&f);
}

static void only_servers_tell_and_only_of_jobs_that_run(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f);
    assert_fails(tell(&f, 2, 1, 4, 5), RBT_E_PROTOCOL, "only a server");
    assert_ok(tell(&f, 0, 2, 4, 5)); /* over, or not begun */
    assert_ok(tell(&f, 1, 2, 4, 5));
    assert_string_equal(told(&f), "");
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lowest_version_of_all_servers_is_told_when_it_grows),
        cmocka_unit_test(who_comes_back_is_told_again),
        cmocka_unit_test(only_servers_tell_and_only_of_jobs_that_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
