/* store/shard_order_test.c - messages that come twice, too early, or too late. */
#include "base/test.h"

#include "base/alloc.h"
#include "store/shard.h"

enum { WORKERS = 2, KEY = 1 };

struct fixture {
    rbt_shard *shard;
    struct rbt_shard_effect effects[WORKERS + 1];
    struct rbt_shard_outbox out;
};

/* A shard with one table of sums in which partial clocks are shown, or not. */
static void start(struct fixture *f, uint32_t workers, int64_t staleness, rbt_partial partial)
{
    const struct rbt_shard_options options = {
        .worker_count = workers, .table_max = 1, .parked_max = WORKERS};
    const struct rbt_spec spec = {
        .type = RBT_I64, .width = 1, .staleness = staleness, .partial = partial};
    const struct rbt_shard_event table = {.kind = RBT_SHARD_TABLE, .spec = &spec};
    *f = (struct fixture){0};
    f->out.effects = f->effects;
    assert_ok(rbt_shard_create(&options, &f->shard));
    rbt_shard_step(f->shard, &table, &f->out);
    assert_ok(f->out.status);
}

static void stop(struct fixture *f)
{
    rbt_shard_destroy(f->shard);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* A worker's message that ends the clock `sequence` - 1, with `value` for the key. */
static rbt_status push(struct fixture *f, uint32_t worker, uint64_t sequence, int64_t value)
{
    const uint64_t key = KEY;
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = &value};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = worker,
                                          .sequence = sequence,
                                          .clock = (int64_t)sequence - 1,
                                          .marker = (int64_t)sequence,
                                          .batches = &batch,
                                          .batch_count = 1};
    rbt_shard_step(f->shard, &event, &f->out);
    return f->out.status;
}

static void leave(struct fixture *f, uint32_t worker, uint64_t sequence)
{
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_LEAVE, .worker = worker, .sequence = sequence};
    rbt_shard_step(f->shard, &event, &f->out);
}

static int64_t look(struct fixture *f)
{
    const uint64_t key = KEY;
    int64_t value = -1;
    struct rbt_batch batch = {.count = 1, .keys = &key, .values = &value};
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_PULL, .batches = &batch, .batch_count = 1, .need = RBT_CLOCK_ANY};
    rbt_shard_step(f->shard, &event, &f->out);
    assert_int_equal(f->effects[0].kind, RBT_SHARD_ANSWERED);
    return value;
}

static void a_message_that_comes_again_is_dropped_whatever_it_says(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 1, 1, RBT_PARTIAL_SHOW);
    assert_ok(push(&f, 0, 1, 5));
    assert_ok(push(&f, 0, 1, 5));
    assert_ok(push(&f, 0, 1, 7)); /* other values make no difference */
    assert_int_equal(look(&f), 5);
    assert_ok(push(&f, 0, 2, 5));
    assert_ok(push(&f, 0, 1, 5)); /* older than the newest one */
    assert_int_equal(look(&f), 10);
    stop(&f);
}

static void a_message_before_its_predecessor_waits(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 1, 0, RBT_PARTIAL_HIDE);
    leave(&f, 0, 3);
    assert_int_equal(f.effects[0].kind, RBT_SHARD_EARLY);
    assert_ok(push(&f, 0, 2, 3));
    assert_int_equal(f.out.count, 1);
    assert_int_equal(f.effects[0].kind, RBT_SHARD_EARLY);
    assert_int_equal(rbt_shard_clock(f.shard, 0), 0); /* its marker does not count yet */
    assert_ok(push(&f, 0, 1, 4));
    assert_int_equal(f.out.count, 0);
    assert_ok(push(&f, 0, 2, 3));
    assert_int_equal(f.out.count, 0);
    leave(&f, 0, 3);
    assert_int_equal(rbt_shard_clock(f.shard, 0), RBT_CLOCK_GONE);
    assert_int_equal(look(&f), 7);
    stop(&f);
}

static void a_worker_that_was_given_up_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, 2, 0, RBT_PARTIAL_HIDE);
    assert_ok(push(&f, 0, 1, 4));
    leave(&f, 0, 0);              /* somebody says so for it */
    assert_ok(push(&f, 0, 1, 4)); /* a repetition: accepted, dropped */
    assert_int_equal(push(&f, 0, 2, 9), RBT_E_CLOSED);
    assert_ok(push(&f, 1, 1, 1));
    assert_int_equal(look(&f), 5);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_that_comes_again_is_dropped_whatever_it_says),
        cmocka_unit_test(a_message_before_its_predecessor_waits),
        cmocka_unit_test(a_worker_that_was_given_up_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
