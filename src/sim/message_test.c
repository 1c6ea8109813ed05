/* sim/message_test.c - copies of events and answers to them: what they hold, and what they weigh.
 *
 * Table 0 is dense with rows of two i64; table 1 is sparse with values of four bytes. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "sim/message.h"

enum { HEADER = 64, KEYS = 5 };

static const struct rbt_message_table tables[] = {
    {.element_size = 8, .row_size = 16},
    {.element_size = 4, .row_size = 400, .is_sparse = true},
};

static const uint64_t keys[KEYS] = {10, 20, 30, 40, 50};
static const uint32_t positions[3] = {0, 2, 4};

/* Row i of `values` is {10 * key, 10 * key + 1}. */
static void fill(int64_t values[2 * KEYS])
{
    for (int64_t i = 0; i < KEYS; i++) {
        values[2 * i] = 10 * (int64_t)keys[i];
        values[2 * i + 1] = values[2 * i] + 1;
    }
}

static struct rbt_batch dense(int64_t *values, bool is_selection)
{
    return (struct rbt_batch){.count = is_selection ? 3 : KEYS,
                              .keys = keys,
                              .positions = is_selection ? positions : NULL,
                              .values = values};
}

static struct rbt_shard_event pull_of(struct rbt_batch *batch)
{
    return (struct rbt_shard_event){.kind = RBT_SHARD_PULL,
                                    .worker = 3,
                                    .table = batch->table,
                                    .batches = batch,
                                    .batch_count = 1,
                                    .need = 7};
}

static void a_push_keeps_the_rows_after_their_owner_has_changed_them(void **state)
{
    (void)state;
    int64_t values[2 * KEYS];
    struct rbt_batch batches[2] = {dense(values, false), dense(values, true)};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PUSH,
                                          .worker = 3,
                                          .sequence = 9,
                                          .clock = 4,
                                          .marker = 5,
                                          .batches = batches,
                                          .batch_count = 2};
    fill(values);
    struct rbt_message *message = rbt_message_copy(&event, tables);
    assert_non_null(message);
    memset(values, 0xff, sizeof values);
    assert_int_equal(message->kind, RBT_MESSAGE_PUSH);
    assert_int_equal(message->worker, 3);
    assert_int_equal(message->event.sequence, 9);
    assert_int_equal(message->event.marker, 5);
    const struct rbt_batch *whole = &message->event.batches[0];
    const struct rbt_batch *part = &message->event.batches[1];
    assert_int_equal(whole->count, KEYS);
    assert_int_equal(part->count, 3);
    assert_null(part->positions); /* packed */
    for (size_t i = 0; i < 3; i++) {
        const int64_t *row = (const int64_t *)part->values + 2 * i;
        assert_int_equal(part->keys[i], keys[positions[i]]);
        assert_int_equal(row[0], 10 * keys[positions[i]]);
        assert_int_equal(row[1], 10 * keys[positions[i]] + 1);
    }
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(whole->keys[i], keys[i]);
        assert_int_equal(((const int64_t *)whole->values)[2 * i], 10 * keys[i]);
    }
    rbt_message_unref(message);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_push_weighs_a_header_keys_and_values(void **state)
{
    (void)state;
    int64_t values[2 * KEYS];
    struct rbt_batch batches[2] = {dense(values, false), dense(values, true)};
    struct rbt_shard_event event = {
        .kind = RBT_SHARD_PUSH, .worker = 3, .batches = batches, .batch_count = 2};
    fill(values);
    struct rbt_message *message = rbt_message_copy(&event, tables);
    assert_int_equal(message->bytes, HEADER + (KEYS + 3) * (8 + 16));
    rbt_message_unref(message);
    event.kind = RBT_SHARD_LEAVE;
    event.batch_count = 0;
    message = rbt_message_copy(&event, tables);
    assert_int_equal(message->kind, RBT_MESSAGE_PUSH); /* the last of the stream */
    assert_int_equal(message->bytes, HEADER);
    rbt_message_unref(message);
}

/* Rows 10 and 30 of the positions have 3 and 1 elements; row 20, which is left out, has 2. */
static void a_sparse_push_is_packed(void **state)
{
    (void)state;
    static const uint32_t offsets[KEYS + 1] = {0, 3, 5, 6, 6, 6};
    static const uint32_t elements[6] = {1, 5, 9, 2, 3, 77};
    float values[6] = {0.1F, 0.5F, 0.9F, 0.2F, 0.3F, 7.7F};
    struct rbt_batch batch = {.table = 1,
                              .count = 3,
                              .keys = keys,
                              .positions = positions,
                              .values = values,
                              .offsets = offsets,
                              .elements = elements};
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_PUSH, .batches = &batch, .batch_count = 1};
    struct rbt_message *message = rbt_message_copy(&event, tables);
    const struct rbt_batch *copy = &message->event.batches[0];
    static const uint32_t packed_offsets[4] = {0, 3, 4, 4};
    static const uint32_t packed_elements[4] = {1, 5, 9, 77};
    static const float packed_values[4] = {0.1F, 0.5F, 0.9F, 7.7F};
    assert_memory_equal(copy->offsets, packed_offsets, sizeof packed_offsets);
    assert_memory_equal(copy->elements, packed_elements, sizeof packed_elements);
    assert_memory_equal(copy->values, packed_values, sizeof packed_values);
    assert_int_equal(message->bytes, HEADER + 3 * 8 + 4 * (4 + 4));
    rbt_message_unref(message);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Does what a shard does with a pull: writes {10 * key, 10 * key + 1} to each row. */
static void serve(struct rbt_message *answer)
{
    struct rbt_batch *batch = &answer->event.batches[0];
    int64_t *values = batch->values;
    for (size_t i = 0; i < batch->count; i++) {
        const size_t at = rbt_batch_position(batch, i);
        values[2 * at] = 10 * (int64_t)batch->keys[at];
        values[2 * at + 1] = values[2 * at] + 1;
    }
    for (uint32_t i = 0; i < answer->event.applied_count; i++) {
        answer->event.applied[i] = 100 + i;
    }
    rbt_message_weigh(answer, tables);
}

static void a_pull_comes_back_to_where_it_was_asked_for(void **state)
{
    (void)state;
    for (int is_selection = 0; is_selection <= 1; is_selection++) {
        int64_t values[2 * KEYS] = {0};
        uint64_t applied[2] = {0};
        struct rbt_batch batch = dense(values, is_selection);
        struct rbt_shard_event event = pull_of(&batch);
        event.applied = applied;
        event.applied_first = 3;
        event.applied_count = 2;
        struct rbt_message *request = rbt_message_copy(&event, tables);
        assert_int_equal(request->kind, RBT_MESSAGE_PULL);
        assert_int_equal(request->bytes, HEADER + batch.count * 8);
        request->from = 8;
        request->to = 1;
        request->id = 44;
        struct rbt_message *answer = rbt_message_answer(request, tables);
        rbt_message_unref(request); /* it may be gone before its answer */
        serve(answer);
        assert_int_equal(answer->kind, RBT_MESSAGE_ROWS);
        assert_int_equal(answer->from, 1);
        assert_int_equal(answer->to, 8);
        assert_int_equal(answer->worker, 3);
        assert_int_equal(answer->id, 44);
        assert_int_equal(answer->bytes, HEADER + 2 * 8 + batch.count * 16);
        assert_int_equal(values[0], 0); /* nothing is there before it is unpacked */
        rbt_message_unpack(answer, &event, tables);
        for (size_t i = 0; i < KEYS; i++) {
            const bool is_asked = !is_selection || i % 2 == 0;
            assert_int_equal(values[2 * i], is_asked ? 10 * keys[i] : 0);
            assert_int_equal(values[2 * i + 1], is_asked ? 10 * keys[i] + 1 : 0);
        }
        assert_int_equal(applied[0], 100);
        assert_int_equal(applied[1], 101);
        rbt_message_unref(answer);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Says how many rows there are; more than the room that was asked for, perhaps. */
static void a_scan_brings_what_there_is_room_for_and_says_how_much_there_is(void **state)
{
    (void)state;
    for (size_t found = 1; found <= 4; found++) {
        uint64_t own_keys[3] = {0};
        int64_t own_values[6] = {0};
        struct rbt_shard_scan scan = {
            .range = {5, 60}, .keys = own_keys, .values = (char *)own_values, .capacity = 3};
        const struct rbt_shard_event event = {.kind = RBT_SHARD_SCAN, .scan = &scan};
        struct rbt_message *request = rbt_message_copy(&event, tables);
        assert_int_equal(request->bytes, HEADER);
        struct rbt_message *answer = rbt_message_answer(request, tables);
        const size_t rows = found < 3 ? found : 3;
        assert_int_equal(answer->event.scan->range.last, 60);
        assert_int_equal(answer->event.scan->capacity, 3);
        for (size_t i = 0; i < rows; i++) {
            answer->event.scan->keys[i] = keys[i];
            ((int64_t *)answer->event.scan->values)[2 * i] = (int64_t)keys[i] + 1;
        }
        answer->event.scan->count = found;
        rbt_message_weigh(answer, tables);
        assert_int_equal(answer->bytes, HEADER + rows * (8 + 16));
        rbt_message_unpack(answer, &event, tables);
        assert_int_equal(scan.count, found);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(own_keys[i], i < rows ? keys[i] : 0);
            assert_int_equal(own_values[2 * i], i < rows ? keys[i] + 1 : 0);
        }
        rbt_message_unref(answer);
        rbt_message_unref(request);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

struct sink {
    uint32_t index[4];
    float values[4];
    size_t count;
};

static void take(void *context, const uint32_t *index, const void *values, size_t count)
{
    struct sink *sink = context;
    sink->count = count;
    memcpy(sink->index, index, count * sizeof *index);
    memcpy(sink->values, values, count * sizeof(float));
}

static void the_elements_of_a_sparse_row_survive_the_shards_step(void **state)
{
    (void)state;
    struct sink sink = {0};
    struct rbt_batch batch = {.table = 1, .count = 1, .keys = keys};
    struct rbt_shard_event event = pull_of(&batch);
    event.on_elements = take;
    event.context = &sink;
    struct rbt_message *request = rbt_message_copy(&event, tables);
    struct rbt_message *answer = rbt_message_answer(request, tables);
    uint32_t index[2] = {6, 8};
    float values[2] = {0.6F, 0.8F};
    answer->event.on_elements(answer->event.context, index, values, 2);
    memset(index, 0, sizeof index);
    memset(values, 0, sizeof values);
    assert_true(answer->has_elements);
    rbt_message_weigh(answer, tables);
    assert_int_equal(answer->bytes, HEADER + 2 * (4 + 4));
    rbt_message_unpack(answer, &event, tables);
    assert_int_equal(sink.count, 2);
    assert_int_equal(sink.index[0], 6);
    assert_int_equal(sink.index[1], 8);
    assert_float_equal(sink.values[0], 0.6F, 0);
    assert_float_equal(sink.values[1], 0.8F, 0);
    rbt_message_unref(answer);
    rbt_message_unref(request);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void an_answer_fits_requests_for_the_same_rows_only(void **state)
{
    (void)state;
    int64_t values[2 * KEYS];
    struct rbt_batch batch = dense(values, true);
    struct rbt_shard_event event = pull_of(&batch);
    struct rbt_message *request = rbt_message_copy(&event, tables);
    struct rbt_message *answer = rbt_message_answer(request, tables);
    assert_true(rbt_message_fits(answer, &event));
    event.need = 99; /* how fresh it must be is another question */
    assert_true(rbt_message_fits(answer, &event));
    event.applied_count = 1;
    assert_false(rbt_message_fits(answer, &event));
    event = pull_of(&batch);
    event.applied_first = 1;
    assert_false(rbt_message_fits(answer, &event));
    event = pull_of(&batch);
    event.table = 1;
    assert_false(rbt_message_fits(answer, &event));
    event.table = 0;
    batch.count = 2;
    assert_false(rbt_message_fits(answer, &event));
    batch.count = 3;
    static const uint32_t first_differs[3] = {1, 2, 4};
    static const uint32_t last_differs[3] = {0, 2, 3};
    batch.positions = first_differs;
    assert_false(rbt_message_fits(answer, &event));
    batch.positions = last_differs;
    assert_false(rbt_message_fits(answer, &event));
    rbt_message_unref(answer);
    rbt_message_unref(request);
}

static void a_message_lives_as_long_as_somebody_holds_it(void **state)
{
    (void)state;
    struct rbt_message_pool pool = {0};
    struct rbt_message *message = rbt_message_create(&pool, RBT_MESSAGE_ACK);
    assert_int_equal(message->bytes, HEADER);
    assert_string_equal(rbt_message_names[message->kind], "ack");
    rbt_message_ref(message);
    rbt_message_unref(message);
    assert_null(pool.first);
    rbt_message_unref(message);
    assert_ptr_equal(pool.first, message); /* to be used again */
    assert_ptr_equal(rbt_message_create(&pool, RBT_MESSAGE_BEAT), message);
    assert_int_equal(message->references, 1);
    rbt_message_unref(message);
    rbt_message_free_pool(&pool);
    assert_int_equal(rbt_alloc_live(), 0);
    rbt_message_unref(NULL);
}

static void a_sum_holds_its_parts_and_weighs_one_of_them_and_their_names(void **state)
{
    (void)state;
    int64_t values[2 * KEYS];
    struct rbt_batch batch = dense(values, false);
    const struct rbt_shard_event event = {
        .kind = RBT_SHARD_PUSH, .marker = 1, .batches = &batch, .batch_count = 1};
    fill(values);
    struct rbt_message *parts[2] = {rbt_message_copy(&event, tables),
                                    rbt_message_copy(&event, tables)};
    struct rbt_message *sum = rbt_message_merge(&event, parts, 2, tables);
    assert_string_equal(rbt_message_names[sum->kind], "merged");
    assert_int_equal(sum->bytes, parts[0]->bytes + 2 * 16);
    assert_int_equal(sum->part_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_ptr_equal(sum->parts[i], parts[i]);
        rbt_message_unref(parts[i]);
        assert_int_equal(parts[i]->references, 1);
    }
    rbt_message_unref(sum);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* A request, its answer and the elements in it; returns whether all of it was there. */
static bool make_all(const struct rbt_shard_event *event)
{
    static const uint32_t index[2] = {6, 8};
    static const float values[2] = {0.6F, 0.8F};
    struct rbt_message_pool pool = {0};
    struct rbt_message *plain = rbt_message_create(&pool, RBT_MESSAGE_BEAT);
    struct rbt_message *request = rbt_message_copy(event, tables);
    struct rbt_message *answer = request == NULL ? NULL : rbt_message_answer(request, tables);
    bool is_whole = false;
    if (answer != NULL) {
        answer->event.on_elements(answer->event.context, index, values, 2);
        is_whole = plain != NULL && answer->has_elements;
        assert_int_equal(answer->element_count, answer->has_elements ? 2 : 0);
    }
    rbt_message_unref(answer);
    rbt_message_unref(request);
    rbt_message_unref(plain);
    rbt_message_free_pool(&pool);
    return is_whole;
}

static void messages_survive_every_failed_allocation(void **state)
{
    (void)state;
    struct rbt_batch batch = {.table = 1, .count = 1, .keys = keys};
    const struct rbt_shard_event event = pull_of(&batch);
    unsigned nth = 0;
    bool is_whole = false;
    while (!is_whole) {
        rbt_alloc_fail_nth(++nth);
        is_whole = make_all(&event);
        rbt_alloc_fail_nth(0);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    assert_int_equal(nth, 6); /* one each, two for elements and their values; then none failed */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_keeps_the_rows_after_their_owner_has_changed_them),
        cmocka_unit_test(a_push_weighs_a_header_keys_and_values),
        cmocka_unit_test(a_sparse_push_is_packed),
        cmocka_unit_test(a_pull_comes_back_to_where_it_was_asked_for),
        cmocka_unit_test(a_scan_brings_what_there_is_room_for_and_says_how_much_there_is),
        cmocka_unit_test(the_elements_of_a_sparse_row_survive_the_shards_step),
        cmocka_unit_test(an_answer_fits_requests_for_the_same_rows_only),
        cmocka_unit_test(a_message_lives_as_long_as_somebody_holds_it),
        cmocka_unit_test(a_sum_holds_its_parts_and_weighs_one_of_them_and_their_names),
        cmocka_unit_test(messages_survive_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
