/* comm/touched_test.c - rows are looked at in the order in which they were first touched, once for
 * however many changes, and none is forgotten; judged by a model. */
#include "base/test.h"

#include <string.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "comm/touched.h"

enum { ITEMS = 60 };

/* The touched items, oldest first; those that were left keep their place until it is their turn. */
struct model {
    uint32_t list[ITEMS];
    bool is_left[ITEMS];
    uint32_t count;
};

static uint32_t model_find(const struct model *model, uint32_t item)
{
    uint32_t at = 0;
    while (at < model->count && model->list[at] != item) {
        at++;
    }
    return at;
}

static void model_add(struct model *model, uint32_t item)
{
    const uint32_t at = model_find(model, item);
    model->list[at] = item;
    model->is_left[at] = false;
    model->count += at == model->count;
}

static uint32_t model_take(struct model *model)
{
    uint32_t taken = 0;
    while (taken < model->count && model->is_left[taken]) {
        taken++;
    }
    const uint32_t item = taken < model->count ? model->list[taken] : RBT_TOUCHED_NONE;
    taken += taken < model->count;
    model->count -= taken;
    memmove(model->list, model->list + taken, model->count * sizeof *model->list);
    memmove(model->is_left, model->is_left + taken, model->count * sizeof *model->is_left);
    return item;
}

static void check(const struct rbt_touched *touched, const struct model *model)
{
    assert_int_equal(rbt_touched_count(touched), model->count);
    for (uint32_t item = 0; item < touched->capacity; item++) {
        const uint32_t at = model_find(model, item);
        assert_int_equal(rbt_touched_has(touched, item), at < model->count && !model->is_left[at]);
    }
}

static void it_does_what_the_model_does(void **state)
{
    struct rbt_rng rng;
    (void)state;
    rbt_rng_init(&rng, 1, 2, 3);
    for (int round = 0; round < 300; round++) {
        struct rbt_touched touched = {0};
        struct model model = {0};
        const uint32_t items = 1 + (uint32_t)rbt_rng_below(&rng, ITEMS / 2);
        const uint64_t takes = 1 + rbt_rng_below(&rng, 6); /* of ten */
        assert_ok(rbt_touched_grow(&touched, items));
        for (int step = 0; step < 400; step++) {
            const uint64_t what = rbt_rng_below(&rng, 200);
            const uint32_t item = (uint32_t)rbt_rng_below(&rng, touched.capacity);
            if (what == 0) {
                rbt_touched_clear(&touched);
                model.count = 0;
            } else if (what == 1) {
                assert_ok(rbt_touched_grow(&touched, items + (uint32_t)step % (ITEMS / 2)));
            } else if (what < 20) {
                const uint32_t at = model_find(&model, item);
                rbt_touched_leave(&touched, item);
                if (at < model.count) {
                    model.is_left[at] = true;
                }
            } else if (what % 10 < takes) {
                assert_int_equal(rbt_touched_take(&touched), model_take(&model));
            } else {
                rbt_touched_add(&touched, item);
                model_add(&model, item);
            }
            check(&touched, &model);
        }
        assert_true(rbt_touched_bytes(&touched) > 9 * (size_t)items);
        rbt_touched_deinit(&touched);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void an_empty_list_has_nothing(void **state)
{
    struct rbt_touched touched = {0};
    (void)state;
    assert_ok(rbt_touched_grow(&touched, 0));
    assert_int_equal(rbt_touched_take(&touched), RBT_TOUCHED_NONE);
    assert_int_equal(rbt_touched_count(&touched), 0);
    rbt_touched_deinit(&touched);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_does_what_the_model_does),
        cmocka_unit_test(an_empty_list_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
