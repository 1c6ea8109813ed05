/* sim/weigh_test.c - messages of tables with filters weigh what their encoding does. */
#include "base/test.h"

#include <string.h>

#include "sim/message.h"
#include "sim/weigh.h"

enum { HEADER = 64, KEYS = 64, NAME = 8 };

/* A table of one f32 per row, its filters, and a batch of all rows. */
struct rig {
    struct rbt_message_table table;
    uint64_t keys[KEYS];
    float values[KEYS];
    struct rbt_batch batch;
};

static void open_rig(struct rig *rig, const char *filter)
{
    const struct rbt_shard_table schema = {
        .type = RBT_F32, .width = 1, .name = "main/t", .filter = filter};
    *rig = (struct rig){.table = {.element_size = 4, .row_size = 4}};
    for (uint32_t i = 0; i < KEYS; i++) {
        rig->keys[i] = i * UINT64_C(1000);
        rig->values[i] = 1.0F + (float)(i * i) * 0.37F;
    }
    rig->batch =
        (struct rbt_batch){.count = KEYS, .keys = rig->keys, .values = rig->values, .list = 4711};
    assert_ok(rbt_weigher_create(&schema, 4, &rig->table.weigher));
}

static size_t weigh(struct rig *rig, enum rbt_shard_kind kind, uint32_t worker, uint32_t shard)
{
    const struct rbt_shard_event event = {.kind = kind,
                                          .worker = worker,
                                          .sequence = 1,
                                          .marker = RBT_MARKER_NONE,
                                          .batches = &rig->batch,
                                          .batch_count = 1};
    struct rbt_message *message = rbt_message_copy(&event, &rig->table);
    assert_non_null(message);
    rbt_weigh_request(message, shard, &rig->table);
    const size_t bytes = message->bytes;
    rbt_message_unref(message);
    return bytes;
}

static void lists_of_keys_travel_once(void **state)
{
    (void)state;
    struct rig rig;
    struct rbt_job_stats stats = {0};
    open_rig(&rig, "keys");
    const size_t rows = HEADER + KEYS * sizeof(float);
    assert_int_equal(weigh(&rig, RBT_SHARD_PUSH, 0, 0), rows + KEYS * 8);
    assert_int_equal(weigh(&rig, RBT_SHARD_PUSH, 0, 0), rows + NAME);
    assert_int_equal(weigh(&rig, RBT_SHARD_PULL, 0, 0), HEADER + NAME);
    assert_int_equal(weigh(&rig, RBT_SHARD_PULL, 0, 1), HEADER + KEYS * 8); /* another server */
    assert_int_equal(weigh(&rig, RBT_SHARD_PULL, 1, 0), HEADER + KEYS * 8); /* another worker */
    rig.batch.list = 0;
    assert_int_equal(weigh(&rig, RBT_SHARD_PULL, 0, 0), HEADER + KEYS * 8);
    rbt_weigher_reset(rig.table.weigher);
    rig.batch.list = 4711;
    assert_int_equal(weigh(&rig, RBT_SHARD_PULL, 0, 0), HEADER + KEYS * 8);
    rbt_weigher_stats(rig.table.weigher, &stats);
    assert_int_equal(stats.filter_keys_in, 7 * KEYS * 8);
    assert_int_equal(stats.filter_keys_out, 5 * KEYS * 8 + 2 * NAME);
    assert_int_equal(stats.filter_push_in, stats.filter_push_out);
    rbt_weigher_destroy(rig.table.weigher);
}

static void updates_weigh_what_is_left_of_them(void **state)
{
    (void)state;
    struct rig rig;
    const size_t keys = HEADER + KEYS * 8;
    open_rig(&rig, "push.tiny:1");
    assert_in_range(weigh(&rig, RBT_SHARD_PUSH, 0, 0), keys + KEYS * 4, keys + KEYS * 4 + 2);
    memset(rig.values, 0, sizeof rig.values);
    rig.values[7] = 3;
    assert_in_range(weigh(&rig, RBT_SHARD_PUSH, 0, 0), keys + 4, keys + 16);
    rbt_weigher_destroy(rig.table.weigher);
    open_rig(&rig, "f16");
    rig.batch.code = (struct rbt_filter_code){.bits = 16};
    for (size_t i = 0; i < KEYS; i++) {
        rig.values[i] = (float)i;
    }
    assert_in_range(weigh(&rig, RBT_SHARD_PUSH, 0, 0), keys + KEYS * 2, keys + KEYS * 2 + 16);
    rbt_weigher_destroy(rig.table.weigher);
}

static void answers_weigh_what_goes(void **state)
{
    (void)state;
    struct rig rig;
    uint64_t copy = 5;
    open_rig(&rig, "changed");
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_PULL, .batches = &rig.batch, .batch_count = 1, .copy = &copy};
    struct rbt_message *request = rbt_message_copy(&event, &rig.table);
    assert_non_null(request);
    copy = 6; /* what was asked is what the reader had then */
    assert_int_equal(*request->event.copy, 5);
    struct rbt_message *answer = rbt_message_answer(request, &rig.table);
    assert_non_null(answer);
    assert_int_equal(*answer->event.copy, 5);
    for (size_t i = 0; i < KEYS; i++) { /* as a shard would */
        ((float *)answer->batch.values)[i] = rig.values[i];
        answer->event.sent->keep[i] = i == 3;
    }
    *answer->event.copy = 7;
    rbt_message_weigh(answer, &rig.table);
    assert_in_range(answer->bytes, HEADER + 4, HEADER + 16);
    float read[KEYS] = {0};
    rig.batch.values = read;
    rbt_message_unpack(answer, &event, &rig.table);
    assert_memory_equal(read, rig.values, sizeof read);
    assert_int_equal(copy, 7);
    rbt_message_unref(answer);
    rbt_message_unref(request);
    rbt_weigher_destroy(rig.table.weigher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_of_keys_travel_once),
        cmocka_unit_test(updates_weigh_what_is_left_of_them),
        cmocka_unit_test(answers_weigh_what_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
