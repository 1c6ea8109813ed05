/* net/nearby_test.c - shards in this very process are found by their address. */
#include "base/test.h"

#include <stdio.h>

#include "base/error.h"
#include "net/nearby.h"

enum { MANY = 1000 };

/* A shard hands out itself as the connection, and remembers the inbox. */
struct shard {
    rbt_status status;
    const struct rbt_nearby_inbox *inbox;
};

static rbt_status open_shard(void *argument, const struct rbt_nearby_inbox *inbox,
                             void **connection)
{
    struct shard *shard = argument;
    shard->inbox = inbox;
    *connection = shard;
    return shard->status;
}

static const struct rbt_nearby_ops OPS = {.open = open_shard};

static rbt_status add(const char *address, struct shard *shard)
{
    return rbt_nearby_add(address, &(struct rbt_nearby){.ops = &OPS, .shard = shard});
}

static void expect(const char *address, struct shard *shard)
{
    const struct rbt_nearby_inbox inbox = {0};
    struct rbt_nearby_connection connection = {0};
    const rbt_status st = rbt_nearby_open(address, &inbox, &connection);
    if (shard == NULL) {
        assert_int_equal(st, RBT_E_NOTFOUND);
        return;
    }
    assert_int_equal(st, shard->status);
    assert_ptr_equal(connection.ops, &OPS);
    assert_ptr_equal(connection.connection, shard);
    assert_ptr_equal(shard->inbox, &inbox);
    shard->inbox = NULL;
}

static void shards_are_found_until_they_are_removed(void **state)
{
    (void)state;
    struct shard shards[3] = {{.status = RBT_OK}, {.status = RBT_E_BUSY}, {.status = RBT_OK}};
    expect("host:1", NULL);
    assert_ok(add("host:1", &shards[0]));
    assert_ok(add("host:12", &shards[1]));
    assert_ok(add("host:3", &shards[2]));
    expect("host:1", &shards[0]);
    expect("host:12", &shards[1]); /* whose failure is passed on */
    expect("host:3", &shards[2]);
    expect("host:", NULL);
    rbt_nearby_remove("host:1");
    rbt_nearby_remove("host:1"); /* it is not there */
    expect("host:1", NULL);
    expect("host:12", &shards[1]);
    expect("host:3", &shards[2]);
    rbt_nearby_remove("host:3");
    rbt_nearby_remove("host:12");
    expect("host:3", NULL);
    expect("host:12", NULL);
}

static void too_many_are_refused(void **state)
{
    (void)state;
    struct shard shard = {.status = RBT_OK};
    char address[32];
    int count = 0;
    rbt_status st = RBT_OK;
    while (count < MANY && st == RBT_OK) {
        snprintf(address, sizeof address, "host:%d", count);
        st = add(address, &shard);
        count += st == RBT_OK;
    }
    assert_fails(st, RBT_E_BUSY, "at most");
    for (int i = 0; i < count; i++) {
        snprintf(address, sizeof address, "host:%d", i);
        expect(address, &shard);
        rbt_nearby_remove(address);
    }
    assert_ok(add("host:0", &shard)); /* there is room again */
    rbt_nearby_remove("host:0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_are_found_until_they_are_removed),
        cmocka_unit_test(too_many_are_refused),
    };
    return cmocka_run_group_tests_name("net/nearby", tests, NULL, NULL);
}
