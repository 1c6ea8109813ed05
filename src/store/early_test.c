/* store/early_test.c - which rows are sent early: the most changed, to everybody who has them,
 * once.
 */
#include "base/test.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "store/early.h"

enum { WIDTH = 2, ROWS = 50 };

struct rig {
    struct rbt_spec spec;
    rbt_row_store *rows;
    rbt_early *early;
    uint64_t all[ROWS];
};

static float magnitude(const struct rbt_priority_row *row)
{
    float sum = 0;
    for (uint32_t i = 0; i < row->width; i++) {
        sum += row->change[i] < 0 ? -row->change[i] : row->change[i];
    }
    return sum;
}

static void open_rig_with(struct rig *rig, float start, const struct rbt_priority_policy *priority)
{
    *rig = (struct rig){
        .spec = {.type = RBT_F32, .init = RBT_INIT_CONSTANT, .width = WIDTH, .a = (double)start}};
    const struct rbt_initial initial = rbt_spec_initial(&rig->spec);
    assert_ok(rbt_rows_create(&rig->spec, 0, &rig->rows));
    assert_ok(rbt_early_create(priority, &initial, &rig->early));
    for (uint64_t i = 0; i < ROWS; i++) {
        rig->all[i] = i;
    }
}

static void open_rig(struct rig *rig, float start)
{
    const struct rbt_priority_policy priority = {
        .name = "test", .order = RBT_ORDER_SCORE, .score = magnitude};
    open_rig_with(rig, start, &priority);
}

static void close_rig(struct rig *rig)
{
    rbt_early_destroy(rig->early);
    rbt_rows_destroy(rig->rows);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void change(struct rig *rig, uint64_t key, float by)
{
    float values[WIDTH] = {by, -by};
    const struct rbt_batch batch = {.count = 1, .keys = &key, .values = values};
    assert_ok(rbt_rows_reserve(rig->rows, 1));
    rbt_rows_merge(rig->rows, &batch);
    rbt_early_note(rig->early, rig->rows, &batch);
}

/* An early read of a worker that has keys first .. ROWS-1; returns how many came. */
static uint32_t read_from(struct rig *rig, uint32_t worker, uint64_t first, uint32_t room,
                          uint64_t *keys)
{
    struct rbt_batch batch = {.count = ROWS - first, .keys = rig->all + first};
    struct rbt_shard_early early = {.room = room, .keys = keys};
    const struct rbt_shard_event event = {.kind = RBT_SHARD_PULL,
                                          .worker = worker,
                                          .subscription = 1,
                                          .batches = &batch,
                                          .batch_count = 1,
                                          .early = &early};
    rbt_early_choose(rig->early, rig->rows, &event);
    assert_true(early.count <= room);
    return early.count;
}

static void the_most_changed_go_first(void **state)
{
    struct rig rig;
    uint64_t keys[ROWS];
    (void)state;
    open_rig(&rig, 100);
    change(&rig, 7, 1);
    change(&rig, 3, 50);
    change(&rig, 9, 5);
    change(&rig, 3, -49.5F); /* and nearly back: it is what it is that counts */
    assert_int_equal(read_from(&rig, 0, 0, 2, keys), 2);
    assert_int_equal(keys[0], 7);
    assert_int_equal(keys[1], 9);
    assert_int_equal(read_from(&rig, 0, 0, 2, keys), 1);
    assert_int_equal(keys[0], 3);
    assert_int_equal(read_from(&rig, 0, 0, 2, keys), 0);
    close_rig(&rig);
}

static void everybody_gets_what_was_chosen_and_has(void **state)
{
    struct rig rig;
    uint64_t keys[ROWS];
    (void)state;
    open_rig(&rig, 0);
    change(&rig, 1, 1);
    change(&rig, 20, 8);
    change(&rig, 30, 4);
    assert_int_equal(read_from(&rig, 1, 10, 0, keys), 0); /* it has 10 and above */
    assert_int_equal(read_from(&rig, 0, 0, 2, keys), 2);  /* 20 and 30, for both */
    assert_int_equal(read_from(&rig, 1, 10, 9, keys), 2);
    assert_int_equal(keys[0], 20);
    assert_int_equal(keys[1], 30);
    assert_int_equal(read_from(&rig, 0, 0, 9, keys), 1);
    assert_int_equal(keys[0], 1);
    change(&rig, 20, 1);
    assert_int_equal(read_from(&rig, 1, 10, 9, keys), 1);
    rbt_early_leave(rig.early, 0);
    assert_int_equal(read_from(&rig, 0, 0, 9, keys), 0); /* as one that is new */
    close_rig(&rig);
}

static void what_was_read_completely_is_not_due(void **state)
{
    struct rig rig;
    uint64_t keys[ROWS];
    (void)state;
    open_rig(&rig, 0);
    assert_int_equal(read_from(&rig, 0, 0, 1, keys), 0);
    change(&rig, 4, 1);
    change(&rig, 5, 2);
    assert_int_equal(read_from(&rig, 0, 0, 1, keys), 1); /* 4 is left */
    rbt_early_take_all(rig.early, 0, 1);
    assert_int_equal(read_from(&rig, 0, 0, 9, keys), 0);
    change(&rig, 4, 1);
    assert_int_equal(read_from(&rig, 0, 0, 9, keys), 1);
    assert_int_equal(keys[0], 4);
    close_rig(&rig);
}

/* Whatever happens in whatever order: a row that has changed since a worker last got it comes, and
 * no other does. */
/* All that it has go round and round, changed or not, and none twice in one answer. */
static void a_sweep_goes_round_and_round(void **state)
{
    const struct rbt_priority_policy priority = {
        .name = "sweep", .order = RBT_ORDER_WALK, .is_sweep = true};
    struct rig rig;
    uint64_t keys[ROWS];
    (void)state;
    open_rig_with(&rig, 0, &priority);
    assert_int_equal(read_from(&rig, 0, 0, 4, keys), 0); /* there are none */
    for (uint64_t key = 0; key < 12; key += 2) {
        change(&rig, key, 1);
    }
    assert_int_equal(read_from(&rig, 0, 4, 3, keys), 3); /* of 4, 6, 8 and 10 */
    assert_int_equal(keys[0], 4);
    assert_int_equal(keys[2], 8);
    assert_int_equal(read_from(&rig, 0, 4, 3, keys), 3); /* in order of keys, as always */
    assert_int_equal(keys[0], 4);
    assert_int_equal(keys[1], 6);
    assert_int_equal(keys[2], 10);
    assert_int_equal(read_from(&rig, 0, 4, 9, keys), 4);
    rbt_early_take_all(rig.early, 0, 1);
    assert_int_equal(read_from(&rig, 0, 4, 1, keys), 1);
    assert_int_equal(keys[0], 8);
    close_rig(&rig);
}

static void nothing_is_lost_and_nothing_comes_twice(void **state)
{
    struct rig rig;
    uint64_t keys[ROWS];
    struct rbt_rng rng;
    bool is_due[2][ROWS] = {{false}};
    (void)state;
    rbt_rng_init(&rng, 1, 2, 3);
    open_rig(&rig, 1);
    for (uint32_t w = 0; w < 2; w++) {
        assert_int_equal(read_from(&rig, w, 0, 1, keys), 0);
    }
    for (int step = 0; step < 20000; step++) {
        const uint32_t w = (uint32_t)(rbt_rng_uniform(&rng) * 2);
        const double what = rbt_rng_uniform(&rng);
        if (what < 0.7) {
            const uint64_t key = (uint64_t)(rbt_rng_uniform(&rng) * ROWS);
            change(&rig, key, (float)(rbt_rng_uniform(&rng) + 0.01));
            is_due[0][key] = is_due[1][key] = true;
        } else if (what < 0.99) {
            const uint32_t room = (uint32_t)(rbt_rng_uniform(&rng) * 6);
            const uint32_t count = read_from(&rig, w, 0, room, keys);
            for (uint32_t i = 0; i < count; i++) {
                assert_true(is_due[w][keys[i]]);
                assert_true(i == 0 || keys[i] > keys[i - 1]);
                is_due[w][keys[i]] = false;
            }
        } else {
            rbt_early_take_all(rig.early, w, 1);
            memset(is_due[w], 0, sizeof is_due[w]);
        }
    }
    for (uint32_t w = 0; w < 2; w++) {
        const uint32_t count = read_from(&rig, w, 0, ROWS, keys);
        for (uint32_t i = 0; i < count; i++) {
            is_due[w][keys[i]] = false;
        }
        for (uint32_t i = 0; i < ROWS; i++) {
            assert_false(is_due[w][i]);
        }
    }
    assert_true(rbt_early_bytes(rig.early) > 0);
    close_rig(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_changed_go_first),
        cmocka_unit_test(everybody_gets_what_was_chosen_and_has),
        cmocka_unit_test(what_was_read_completely_is_not_due),
        cmocka_unit_test(a_sweep_goes_round_and_round),
        cmocka_unit_test(nothing_is_lost_and_nothing_comes_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
