/* store/outgoing_test.c - readers have what the shard believes they have, whatever is lost. */
#include "base/test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "store/outgoing.h"

enum { KEYS = 40, WIDTH = 3, COUNT = KEYS * WIDTH };

/* A reader's end: its copy, as it is put together from what goes. */
struct reader {
    uint32_t worker;
    uint64_t asked;
    uint64_t copy;
    float values[COUNT];
};

static rbt_outgoing *make(const char *filter, size_t bytes_max)
{
    struct rbt_spec spec = {.type = RBT_F32, .width = WIDTH, .name = "main/t"};
    memcpy(spec.filter, filter, strlen(filter) + 1);
    const struct rbt_outgoing_options options = {
        .spec = &spec, .worker_count = 4, .bytes_max = bytes_max};
    rbt_outgoing *outgoing = NULL;
    assert_ok(rbt_outgoing_create(&options, &outgoing));
    return outgoing;
}

/* Reads rows that are `now`; returns how many elements go. Unless the answer is lost, the reader
 * puts it together by itself, and must have what the shard says. */
static size_t read_rows(rbt_outgoing *outgoing, struct reader *reader, const float *now,
                        bool is_lost)
{
    uint64_t keys[KEYS];
    uint32_t positions[KEYS];
    float rows[COUNT];
    bool keep[COUNT];
    uint64_t copy = reader->copy;
    for (uint32_t i = 0; i < KEYS; i++) {
        keys[i] = i * UINT64_C(77);
        positions[i] = KEYS - 1 - i;
    }
    memcpy(rows, now, sizeof rows);
    struct rbt_batch batch = {.count = KEYS, .keys = keys, .positions = positions, .values = rows};
    struct rbt_shard_sent sent = {.keep = keep};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                          .worker = reader->worker,
                                          .asked = reader->asked,
                                          .batches = &batch,
                                          .batch_count = 1,
                                          .copy = &copy,
                                          .sent = &sent};
    assert_ok(rbt_outgoing_filter(outgoing, &event));
    size_t gone = 0;
    float own[COUNT];
    memcpy(own, reader->values, sizeof own);
    for (size_t i = 0; i < COUNT; i++) {
        const size_t at = positions[i / WIDTH] * (size_t)WIDTH + i % WIDTH;
        gone += keep[i];
        own[at] = keep[i] ? rows[at] : own[at];
    }
    if (!is_lost) {
        assert_memory_equal(own, rows, sizeof own);
        memcpy(reader->values, own, sizeof own);
        reader->copy = copy;
    }
    return gone;
}

static void move(struct rbt_rng *rng, float *now, double chance, double size)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (rbt_rng_uniform(rng) < chance) {
            now[i] += (float)((rbt_rng_uniform(rng) - 0.5) * size);
        }
    }
}

static void readers_are_never_further_off_than_the_threshold(void **state)
{
    (void)state;
    rbt_outgoing *outgoing = make("pull.significant:0.25", 0);
    struct reader readers[3] = {
        {.worker = 0, .asked = 1}, {.worker = 0, .asked = 2}, {.worker = 3, .asked = 1}};
    struct rbt_rng rng;
    float now[COUNT] = {0};
    size_t gone = 0;
    size_t all = 0;
    rbt_rng_init(&rng, 11, 0, 0);
    for (int turn = 0; turn < 3000; turn++) {
        move(&rng, now, 0.3, 0.2);
        struct reader *reader = &readers[rbt_rng_below(&rng, 3)];
        const bool is_lost = rbt_rng_uniform(&rng) < 0.1;
        gone += read_rows(outgoing, reader, now, is_lost);
        all += COUNT;
        for (size_t i = 0; !is_lost && i < COUNT; i++) {
            assert_true(fabs((double)now[i] - (double)reader->values[i]) <= 0.25);
        }
        if (turn % 1000 == 999) {
            rbt_outgoing_leave(outgoing, 3);
        }
    }
    assert_in_range(gone, all / 10, all / 2); /* what is lost costs a whole read */
    rbt_outgoing_destroy(outgoing);
}

static void what_has_not_changed_does_not_go(void **state)
{
    (void)state;
    rbt_outgoing *outgoing = make("changed,f16", 0);
    struct reader reader = {.worker = 1, .asked = 9};
    struct rbt_rng rng;
    float now[COUNT] = {0};
    rbt_rng_init(&rng, 5, 0, 0);
    move(&rng, now, 1, 3);
    assert_int_equal(read_rows(outgoing, &reader, now, false), COUNT);
    assert_int_equal(read_rows(outgoing, &reader, now, false), 0);
    now[17] += 1;
    assert_int_equal(read_rows(outgoing, &reader, now, false), 1);
    assert_int_equal(read_rows(outgoing, &reader, now, true), 0);
    assert_int_equal(read_rows(outgoing, &reader, now, false), COUNT); /* it has an older copy */
    assert_int_equal(read_rows(outgoing, &reader, now, false), 0);
    rbt_outgoing_reset(outgoing);
    assert_int_equal(read_rows(outgoing, &reader, now, false), COUNT);
    rbt_outgoing_leave(outgoing, 1);
    assert_int_equal(read_rows(outgoing, &reader, now, false), COUNT);
    rbt_outgoing_destroy(outgoing);
}

static void who_leaves_takes_all_copies_along(void **state)
{
    (void)state;
    rbt_outgoing *outgoing = make("changed", 0);
    struct reader stays = {.worker = 2, .asked = 1};
    const float now[COUNT] = {1, 2, 3};
    (void)read_rows(outgoing, &stays, now, false);
    const size_t before = rbt_outgoing_bytes(outgoing);
    for (uint64_t set = 1; set <= 4; set++) {
        struct reader leaves = {.worker = 1, .asked = set};
        (void)read_rows(outgoing, &leaves, now, false);
    }
    assert_true(rbt_outgoing_bytes(outgoing) > before);
    rbt_outgoing_leave(outgoing, 1);
    assert_int_equal(rbt_outgoing_bytes(outgoing), before);
    assert_int_equal(read_rows(outgoing, &stays, now, false), 0);
    rbt_outgoing_destroy(outgoing);
}

static void the_oldest_copies_are_forgotten(void **state)
{
    (void)state;
    const size_t one = COUNT * sizeof(float);
    rbt_outgoing *outgoing = make("changed", 2 * one + 1);
    struct reader readers[3] = {{.asked = 1}, {.asked = 2}, {.asked = 3}};
    const float now[COUNT] = {1, 2, 3};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read_rows(outgoing, &readers[i], now, false), COUNT);
    }
    assert_int_equal(read_rows(outgoing, &readers[2], now, false), 0);
    assert_int_equal(read_rows(outgoing, &readers[1], now, false), 0);
    assert_int_equal(read_rows(outgoing, &readers[0], now, false), COUNT); /* takes 3's place */
    assert_int_equal(read_rows(outgoing, &readers[1], now, false), 0);
    assert_int_equal(read_rows(outgoing, &readers[2], now, false), COUNT);
    rbt_outgoing_destroy(outgoing);

    outgoing = make("changed", one - 1); /* no copy at all */
    assert_int_equal(read_rows(outgoing, &readers[0], now, false), COUNT);
    assert_int_equal(read_rows(outgoing, &readers[0], now, false), COUNT);
    assert_int_equal(readers[0].copy, 0);
    rbt_outgoing_destroy(outgoing);
}

static void reads_without_a_copy_are_only_rounded(void **state)
{
    (void)state;
    rbt_outgoing *outgoing = make("significant:100,f16", 0);
    struct reader reader = {.worker = 2};
    float now[COUNT] = {0};
    now[3] = 1.0009765F; /* beside a number of f16 */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(read_rows(outgoing, &reader, now, false), COUNT);
        assert_true(fabs((double)reader.values[3] - 1.0009765625) < 1e-7);
    }
    rbt_outgoing_destroy(outgoing);
    outgoing = make("lz4,keys,push.f16", 0); /* nothing to do with what is read */
    assert_null(outgoing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_are_never_further_off_than_the_threshold),
        cmocka_unit_test(what_has_not_changed_does_not_go),
        cmocka_unit_test(who_leaves_takes_all_copies_along),
        cmocka_unit_test(the_oldest_copies_are_forgotten),
        cmocka_unit_test(reads_without_a_copy_are_only_rounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
