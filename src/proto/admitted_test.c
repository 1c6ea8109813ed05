/* proto/admitted_test.c - who may say HELLO for a job. */
#include "base/test.h"

#include "base/alloc.h"
#include "proto/admitted.h"

static const struct rbt_control_job FIRST = {
    .worker_count = 2, .secret = {"first"}, .read_secret = {"first, reading"}};
static const struct rbt_control_job SECOND = {
    .worker_count = 3, .secret = {"second"}, .read_secret = {"second, reading"}};

static struct rbt_wire_hello hello(uint64_t job, uint32_t workers, struct rbt_wire_secret secret)
{
    return (struct rbt_wire_hello){
        .job = job, .worker_count = workers, .secret = secret, .node = "somebody"};
}

static void expect(struct rbt_admitted *admitted, struct rbt_wire_hello said, rbt_status status)
{
    assert_int_equal(rbt_admitted_check(admitted, &said), status);
}

static void expect_reader(struct rbt_admitted *admitted, struct rbt_wire_hello said,
                          rbt_status status)
{
    said.is_reader = true;
    expect(admitted, said, status);
}

static void test_secrets(void **state)
{
    (void)state;
    struct rbt_admitted admitted = {0};
    expect(&admitted, hello(1, 2, FIRST.secret), RBT_E_NOTFOUND);
    expect(&admitted, hello(0, 2, (struct rbt_wire_secret){{0}}), RBT_E_NOTFOUND);
    rbt_admitted_add(&admitted, 1, &FIRST);
    rbt_admitted_add(&admitted, 2, &SECOND);
    expect(&admitted, hello(1, 2, FIRST.secret), RBT_OK);
    expect(&admitted, hello(2, 3, SECOND.secret), RBT_OK);
    expect(&admitted, hello(2, 3, FIRST.secret), RBT_E_PROTOCOL);
    expect(&admitted, hello(1, 2, (struct rbt_wire_secret){{0}}), RBT_E_PROTOCOL);
    expect(&admitted, hello(1, 3, FIRST.secret), RBT_E_PROTOCOL); /* another number of workers */
    expect_reader(&admitted, hello(1, 7, FIRST.read_secret), RBT_OK);
    expect_reader(&admitted, hello(1, 7, SECOND.read_secret), RBT_E_PROTOCOL);
    expect_reader(&admitted, hello(1, 2, FIRST.secret), RBT_E_PROTOCOL);
    expect(&admitted, hello(1, 2, FIRST.read_secret), RBT_E_PROTOCOL);
    struct rbt_wire_secret near_miss = FIRST.secret;
    near_miss.bytes[RBT_WIRE_SECRET - 1] ^= 1;
    expect(&admitted, hello(1, 2, near_miss), RBT_E_PROTOCOL);
    rbt_admitted_deinit(&admitted);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void test_jobs_come_and_go(void **state)
{
    (void)state;
    struct rbt_admitted admitted = {0};
    for (uint64_t i = 1; i <= 20; i++) {
        rbt_admitted_add(&admitted, i, i % 2 == 0 ? &FIRST : &SECOND);
        rbt_admitted_add(&admitted, i, &SECOND); /* what was told first holds */
    }
    assert_int_equal(admitted.workers, 50);
    rbt_admitted_remove(&admitted, 2);
    rbt_admitted_remove(&admitted, 2);
    assert_int_equal(admitted.workers, 48);
    expect(&admitted, hello(2, 2, FIRST.secret), RBT_E_NOTFOUND);
    expect(&admitted, hello(4, 2, FIRST.secret), RBT_OK);
    expect(&admitted, hello(20, 2, FIRST.secret), RBT_OK);
    rbt_admitted_deinit(&admitted);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secrets),
        cmocka_unit_test(test_jobs_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
