/* comm/queue_test.c - every order takes what it says, nothing twice, and leaves nothing; judged by
 * a model that looks at all items each time. */
#include "base/test.h"

#include <math.h>
#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "comm/queue.h"

enum { ITEMS_MAX = 5000, ORDERS = 4 };

struct model {
    rbt_queue_order order;
    uint32_t capacity;
    uint32_t count;
    uint64_t ticks;
    uint32_t cursor;
    bool is_marked[ITEMS_MAX];
    uint64_t since[ITEMS_MAX]; /* when it was marked, or got another bucket */
    int bucket[ITEMS_MAX];
};

/* Eighths of octaves by another way than the queue's: through frexp(). */
static int bucket_of(const struct model *model, float score)
{
    int exponent = 0;
    if (model->order != RBT_ORDER_SCORE) {
        return 0;
    }
    if (!isfinite(score)) {
        return 1000000;
    }
    if (score < 0x1p-126F) { /* too small to be kept in full: eighths of the smallest octave */
        return -100000 + (int)(score / 0x1p-129F);
    }
    const float part = frexpf(score, &exponent); /* 0.5 .. 1 */
    return 8 * exponent + (int)((2 * part - 1) * 8);
}

static void model_mark(struct model *model, uint32_t item, float score)
{
    const int bucket = bucket_of(model, score);
    if (!model->is_marked[item] || model->bucket[item] != bucket) {
        model->since[item] = model->ticks++;
    }
    model->count += !model->is_marked[item];
    model->is_marked[item] = true;
    model->bucket[item] = bucket;
}

static bool is_before(const struct model *model, uint32_t a, uint32_t b)
{
    if (model->order == RBT_ORDER_WALK) {
        return (a < model->cursor) == (b < model->cursor) ? a < b : a >= model->cursor;
    }
    return model->bucket[a] != model->bucket[b] ? model->bucket[a] > model->bucket[b]
                                                : model->since[a] < model->since[b];
}

static uint32_t model_first(const struct model *model)
{
    uint32_t first = RBT_QUEUE_NONE;
    for (uint32_t i = 0; i < model->capacity; i++) {
        if (model->is_marked[i] && (first == RBT_QUEUE_NONE || is_before(model, i, first))) {
            first = i;
        }
    }
    return first;
}

static void take_and_compare(rbt_change_queue *queue, struct model *model)
{
    const uint32_t item = rbt_queue_take(queue);
    if (model->order == RBT_ORDER_RANDOM && item != RBT_QUEUE_NONE) {
        assert_true(item < model->capacity);
        assert_true(model->is_marked[item]);
    } else {
        assert_int_equal(item, model_first(model));
    }
    if (item != RBT_QUEUE_NONE) {
        assert_false(rbt_queue_is_marked(queue, item));
        model->is_marked[item] = false;
        model->count--;
        model->cursor = item + 1;
    }
    assert_int_equal(rbt_queue_count(queue), model->count);
}

static float random_score(struct rbt_rng *rng)
{
    static const float special[] = {0, -0.0F, NAN, INFINITY, 0x1p-149F, 0x1p-127F, 1, -NAN};
    if (rbt_rng_below(rng, 8) == 0) {
        return special[rbt_rng_below(rng, sizeof special / sizeof special[0])];
    }
    const int exponent = (int)rbt_rng_below(rng, rbt_rng_below(rng, 2) == 0 ? 4 : 200) - 100;
    return ldexpf((float)(1 + rbt_rng_uniform(rng)), exponent);
}

/* A random play: mostly marks, or mostly takes, by turns. */
static void play(rbt_queue_order order, uint64_t seed)
{
    static struct model model;
    struct rbt_rng rng;
    rbt_change_queue *queue = NULL;
    rbt_rng_init(&rng, seed, order, 0);
    model = (struct model){.order = order};
    model.capacity = (uint32_t)rbt_rng_below(&rng, seed % 2 == 0 ? 70 : 400);
    assert_ok(rbt_queue_create(order, model.capacity, seed, &queue));
    for (int i = 0; i < 1500; i++) {
        const uint64_t kind = rbt_rng_below(&rng, 100);
        const uint64_t marks = i / 300 % 2 == 0 ? 60 : 20;
        const uint32_t item =
            model.capacity == 0 ? 0 : (uint32_t)rbt_rng_below(&rng, model.capacity);
        if (kind == 0 || model.capacity == 0) {
            const uint32_t most = model.capacity * 4 + 3;
            model.capacity += (uint32_t)rbt_rng_below(&rng, 50);
            model.capacity = rbt_rng_below(&rng, 20) == 0 ? most : model.capacity;
            model.capacity = model.capacity < ITEMS_MAX ? model.capacity : ITEMS_MAX;
            assert_ok(rbt_queue_grow(queue, model.capacity));
        } else if (kind < marks) {
            const float score = random_score(&rng);
            rbt_queue_mark(queue, item, score);
            model_mark(&model, item, score);
        } else if (kind < marks + 10) {
            rbt_queue_unmark(queue, item);
            model.count -= model.is_marked[item];
            model.is_marked[item] = false;
        } else {
            take_and_compare(queue, &model);
        }
    }
    for (uint32_t i = 0; i < model.capacity; i++) {
        assert_int_equal(rbt_queue_is_marked(queue, i), model.is_marked[i]);
    }
    while (model.count > 0) {
        take_and_compare(queue, &model);
    }
    take_and_compare(queue, &model); /* none */
    rbt_queue_destroy(queue);
}

static void every_order_does_as_the_model_does(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        for (int order = 0; order < ORDERS; order++) {
            play((rbt_queue_order)order, seed);
        }
    }
}

static void take_all(rbt_change_queue *queue, const uint32_t *expected, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(rbt_queue_take(queue), expected[i]);
    }
    assert_int_equal(rbt_queue_take(queue), RBT_QUEUE_NONE);
    rbt_queue_destroy(queue);
}

/* Two readings of "round-robin" for the same marks. */
static void the_two_round_robins_differ(void **state)
{
    (void)state;
    static const uint32_t marks[] = {70, 3, 90, 3, 8};
    static const uint32_t oldest[] = {70, 3, 90, 8};
    static const uint32_t walk[] = {70, 90, 3, 8}; /* goes on behind the 64 that was taken */
    rbt_change_queue *queue = NULL;
    for (int i = 0; i < 2; i++) {
        assert_ok(rbt_queue_create(i == 0 ? RBT_ORDER_OLDEST : RBT_ORDER_WALK, 100, 1, &queue));
        rbt_queue_mark(queue, 64, 0);
        assert_int_equal(rbt_queue_take(queue), 64);
        for (size_t k = 0; k < sizeof marks / sizeof marks[0]; k++) {
            rbt_queue_mark(queue, marks[k], (float)k);
        }
        take_all(queue, i == 0 ? oldest : walk, 4);
    }
}

static void the_highest_score_goes_first_and_what_is_not_a_number_before_all(void **state)
{
    (void)state;
    static const float scores[] = {0, 1e-30F, NAN, 3, 3.1F, 1e30F, 3.6F, 1e-38F};
    static const uint32_t expected[] = {2, 5, 6, 3, 4, 1, 7, 0};
    rbt_change_queue *queue = NULL;
    assert_ok(rbt_queue_create(RBT_ORDER_SCORE, 8, 1, &queue));
    for (uint32_t i = 0; i < 8; i++) {
        rbt_queue_mark(queue, i, 1.5F);
        rbt_queue_mark(queue, i, scores[i]);
    }
    assert_int_equal(rbt_queue_count(queue), 8);
    take_all(queue, expected, 8);
}

/* 20 marked items of 1000; each is taken first alike: chi-square with 19 degrees of freedom is
 * above 43.8 one time in 1000, and the seed is fixed. Later takes as well. */
static void random_takes_all_alike(void **state)
{
    (void)state;
    rbt_change_queue *queue = NULL;
    uint32_t first[20] = {0};
    uint32_t third[20] = {0};
    assert_ok(rbt_queue_create(RBT_ORDER_RANDOM, 1000, 11, &queue));
    for (int round = 0; round < 20000; round++) {
        for (uint32_t i = 0; i < 20; i++) {
            rbt_queue_mark(queue, 50 * i, 1);
        }
        first[rbt_queue_take(queue) / 50]++;
        (void)rbt_queue_take(queue);
        third[rbt_queue_take(queue) / 50]++;
    }
    double squares[2] = {0};
    for (uint32_t i = 0; i < 20; i++) {
        squares[0] += pow((double)first[i] - 1000, 2) / 1000;
        squares[1] += pow((double)third[i] - 1000, 2) / 1000;
    }
    assert_true(squares[0] < 43.8);
    assert_true(squares[1] < 43.8);
    rbt_queue_destroy(queue);
}

static void equal_seeds_take_equal_items(void **state)
{
    (void)state;
    rbt_change_queue *queues[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        assert_ok(rbt_queue_create(RBT_ORDER_RANDOM, 300, 5, &queues[i]));
        for (uint32_t item = 0; item < 300; item++) {
            rbt_queue_mark(queues[i], item, 0);
        }
    }
    for (int i = 0; i < 300; i++) {
        assert_int_equal(rbt_queue_take(queues[0]), rbt_queue_take(queues[1]));
    }
    rbt_queue_destroy(queues[0]);
    rbt_queue_destroy(queues[1]);
}

/* Across all levels of the bitmaps: far apart, at the ends, and after growth by factors. */
static void a_large_queue_finds_the_few_that_are_marked(void **state)
{
    (void)state;
    static const uint32_t items[] = {0, 63, 64, 4095, 4096, 262143, 262144, 19999999};
    for (int order = 0; order < ORDERS; order++) {
        rbt_change_queue *queue = NULL;
        bool is_taken[8] = {false};
        assert_ok(rbt_queue_create((rbt_queue_order)order, 1, 3, &queue));
        for (uint32_t i = 0; i < 8; i++) {
            assert_ok(rbt_queue_grow(queue, items[i] + 1));
            rbt_queue_mark(queue, items[i], 1);
        }
        for (uint32_t i = 0; i < 8; i++) {
            const uint32_t item = rbt_queue_take(queue);
            for (uint32_t k = 0; k < 8; k++) {
                is_taken[k] = is_taken[k] != (items[k] == item);
            }
            assert_true(order == RBT_ORDER_RANDOM || item == items[i]);
        }
        for (uint32_t k = 0; k < 8; k++) {
            assert_true(is_taken[k]);
        }
        assert_int_equal(rbt_queue_take(queue), RBT_QUEUE_NONE);
        rbt_queue_destroy(queue);
    }
}

static void memory_is_at_most_12_bytes_per_item(void **state)
{
    (void)state;
    static const double most[ORDERS] = {12.1, 0.13, 8.1, 12.1};
    for (int order = 0; order < ORDERS; order++) {
        rbt_change_queue *queue = NULL;
        const size_t before = rbt_alloc_live_bytes();
        assert_ok(rbt_queue_create((rbt_queue_order)order, 1000000, 1, &queue));
        assert_true((double)rbt_queue_bytes(queue) < most[order] * 1e6);
        assert_true(rbt_alloc_live_bytes() - before >= rbt_queue_bytes(queue));
        rbt_queue_destroy(queue);
    }
}

static void without_memory_it_is_as_before(void **state)
{
    (void)state;
    for (int order = 0; order < ORDERS; order++) {
        rbt_change_queue *queue = NULL;
        const size_t live = rbt_alloc_live();
        rbt_status st = RBT_E_NOMEM;
        for (unsigned nth = 1; st == RBT_E_NOMEM; nth++) {
            rbt_alloc_fail_nth(nth);
            st = rbt_queue_create((rbt_queue_order)order, 100, 1, &queue);
            rbt_alloc_fail_nth(0);
            assert_true(st == RBT_OK || rbt_alloc_live() == live);
        }
        assert_ok(st);
        st = RBT_E_NOMEM;
        for (unsigned nth = 1; st == RBT_E_NOMEM; nth++) { /* 5 ends it for WALK, with 4 levels */
            if (nth % 2 == 0) {
                rbt_queue_mark(queue, 99, 1);
            }
            rbt_alloc_fail_nth(nth);
            st = rbt_queue_grow(queue, 300000);
            rbt_alloc_fail_nth(0);
            assert_int_equal(rbt_queue_is_marked(queue, 99), nth % 2 == 0);
            rbt_queue_unmark(queue, 99); /* what was made in part must not remember it */
        }
        assert_ok(st);
        rbt_queue_mark(queue, 299999, 1);
        assert_int_equal(rbt_queue_take(queue), 299999);
        assert_int_equal(rbt_queue_take(queue), RBT_QUEUE_NONE);
        rbt_queue_destroy(queue);
        assert_int_equal(rbt_alloc_live(), live);
    }
    rbt_queue_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order_does_as_the_model_does),
        cmocka_unit_test(the_two_round_robins_differ),
        cmocka_unit_test(the_highest_score_goes_first_and_what_is_not_a_number_before_all),
        cmocka_unit_test(random_takes_all_alike),
        cmocka_unit_test(equal_seeds_take_equal_items),
        cmocka_unit_test(a_large_queue_finds_the_few_that_are_marked),
        cmocka_unit_test(memory_is_at_most_12_bytes_per_item),
        cmocka_unit_test(without_memory_it_is_as_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
