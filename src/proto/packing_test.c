/* proto/packing_test.c - updates as bytes, and copies that answers are changes of. */
#include "base/test.h"

#include <string.h>

#include "base/alloc.h"
#include "proto/packing.h"

enum { ELEMENTS = 64, SET = 7, SHARD = 1 };

struct fixture {
    struct rbt_packing_filters *filters;
    struct rbt_packing packing;
    rbt_chain *shard; /* what the shard writes with */
    char bytes[2048];
    struct rbt_wire_answer head;
    struct rbt_wire_view view;
};

static int set_up(void **state)
{
    struct fixture *f = test_calloc(1, sizeof *f);
    static const struct rbt_spec spec = {.type = RBT_F32,
                                         .width = 1,
                                         .name = "t",
                                         .filter = "keys,push.significant:0.5,pull.changed,lz4"};
    assert_ok(rbt_packing_filters_create(&spec, 2, &f->filters));
    assert_true(f->filters->has_push && f->filters->has_pull);
    assert_true(f->filters->pull.has_select && f->filters->push.names_keys);
    struct rbt_chain_options options = f->filters->options;
    options.direction = RBT_FILTER_PULL;
    assert_ok(rbt_chain_create(&options, &f->shard));
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    rbt_packing_deinit(&f->packing);
    rbt_packing_filters_destroy(f->filters);
    rbt_chain_destroy(f->shard);
    test_free(f);
    assert_int_equal(rbt_alloc_live(), 0);
    return 0;
}

/* An answer with these elements, and those that go; NULL: all. */
static void answer(struct fixture *f, float *values, bool *keep, uint64_t base, uint64_t name)
{
    char scratch[4096];
    const struct rbt_chain_elements elements = {.count = ELEMENTS, .values = values, .keep = keep};
    f->head = (struct rbt_wire_answer){.has_copy = true, .copy_base = base, .copy = name};
    f->view = (struct rbt_wire_view){.count = ELEMENTS,
                                     .value_form = RBT_VALUES_FILTERED,
                                     .element_size = 4,
                                     .element_count = ELEMENTS,
                                     .values = f->bytes};
    f->view.value_bytes = rbt_chain_put(f->shard, &elements, f->bytes, scratch);
}

static rbt_status take(struct fixture *f, const void **values)
{
    const struct rbt_packing_answer come = {
        .asked = SET, .shard = SHARD, .head = &f->head, .view = &f->view};
    return rbt_packing_take(&f->packing, (struct rbt_packing_key){f->filters, 3}, &come, values);
}

static bool can_use(const struct fixture *f)
{
    return rbt_packing_can_use(&f->packing, SET, SHARD, &f->head);
}

static void test_copies(void **state)
{
    struct fixture *f = *state;
    float rows[ELEMENTS];
    bool keep[ELEMENTS] = {[5] = true};
    const void *got = NULL;
    for (size_t i = 0; i < ELEMENTS; i++) {
        rows[i] = (float)i;
    }
    assert_int_equal(rbt_packing_copy_name(&f->packing, SET, SHARD), 0);
    answer(f, rows, keep, 4, 5); /* a change of nothing */
    assert_false(can_use(f));
    assert_fails(take(f, &got), RBT_E_PROTOCOL, "does not have");
    answer(f, rows, NULL, 0, 8);
    assert_true(can_use(f));
    assert_ok(take(f, &got));
    assert_memory_equal(got, rows, sizeof rows);
    assert_int_equal(rbt_packing_copy_name(&f->packing, SET, SHARD), 8);
    assert_int_equal(rbt_packing_copy_name(&f->packing, SET, SHARD + 1), 0);
    rows[5] = -1;
    answer(f, rows, keep, 8, 9);
    assert_ok(take(f, &got));
    assert_memory_equal(got, rows, sizeof rows);
    assert_true(can_use(f)); /* once more: an answer that was kept */
    assert_ok(take(f, &got));
    assert_memory_equal(got, rows, sizeof rows);
    answer(f, rows, keep, 8, 10); /* of what is no longer there */
    assert_false(can_use(f));
    answer(f, rows, keep, 0, 11); /* whole: what it does not name is zero, not what was there */
    assert_true(can_use(f));
    assert_ok(take(f, &got));
    const float whole[ELEMENTS] = {[5] = -1};
    assert_memory_equal(got, whole, sizeof whole);
    assert_int_equal(rbt_packing_copy_name(&f->packing, SET, SHARD), 11);
    rbt_packing_forget(&f->packing, SET);
    assert_int_equal(rbt_packing_copy_name(&f->packing, SET, SHARD), 0);
}

/* A change of rows that were fewer, or more, is none. */
static void test_a_copy_of_another_size(void **state)
{
    struct fixture *f = *state;
    float rows[ELEMENTS] = {[3] = 1.0F};
    bool keep[ELEMENTS] = {[3] = true};
    const void *got = NULL;
    answer(f, rows, NULL, 0, 8);
    assert_ok(take(f, &got));
    answer(f, rows, keep, 8, 9);
    f->view.element_count++;
    assert_fails(take(f, &got), RBT_E_PROTOCOL, "rows that this worker does not have");
    assert_int_equal(rbt_packing_copy_name(&f->packing, SET, SHARD), 0);
}

/* After damage there is no copy, and so the next answer is whole. */
static void test_damage(void **state)
{
    struct fixture *f = *state;
    float rows[ELEMENTS] = {[3] = 1.0F};
    const void *got = NULL;
    unsigned refused = 0;
    answer(f, rows, NULL, 0, 8);
    const size_t bytes = f->view.value_bytes;
    for (size_t i = 0; i < bytes; i++) {
        answer(f, rows, NULL, 0, 8 + i);
        f->bytes[i] = (char)(f->bytes[i] ^ 0x41);
        const rbt_status st = take(f, &got);
        assert_true(st == RBT_OK || st == RBT_E_PROTOCOL);
        assert_int_equal(rbt_packing_copy_name(&f->packing, SET, SHARD), st == RBT_OK ? 8 + i : 0);
        refused += st != RBT_OK;
    }
    assert_true(refused > 0);
    float other[ELEMENTS];
    const struct rbt_packing_key none = {NULL, 0};
    assert_fails(rbt_packing_get(&f->packing, none, &f->view, other), RBT_E_PROTOCOL, "filtered");
}

/* Of updates only what was selected goes, whatever the order of their rows. */
static void test_updates(void **state)
{
    struct fixture *f = *state;
    uint64_t keys[ELEMENTS];
    uint32_t positions[ELEMENTS];
    float values[ELEMENTS] = {[8] = 3.0F};
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        keys[i] = i;
        positions[i] = ELEMENTS - 1 - i;
    }
    struct rbt_wire_rows rows = {.count = ELEMENTS,
                                 .keys = keys,
                                 .positions = positions,
                                 .values = values,
                                 .element_size = 4,
                                 .width = 1};
    const struct rbt_filter_code code = {0};
    assert_ok(rbt_packing_put(&f->packing, (struct rbt_packing_key){f->filters, 0}, &code, &rows));
    assert_non_null(rows.packed);
    assert_true(rows.packed_bytes < 16);
    struct rbt_chain_options options = f->filters->options;
    options.direction = RBT_FILTER_PUSH;
    rbt_chain *chain = NULL;
    float got[ELEMENTS] = {0};
    const struct rbt_chain_elements elements = {.count = ELEMENTS, .values = got};
    char scratch[4096];
    assert_ok(rbt_chain_create(&options, &chain));
    assert_ok(rbt_chain_get(chain, rows.packed, rows.packed_bytes, &elements, scratch));
    for (size_t i = 0; i < ELEMENTS; i++) {
        assert_true(got[i] == (i == ELEMENTS - 1 - 8 ? 3.0F : 0.0F));
    }
    rbt_chain_destroy(chain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_copy_of_another_size, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_damage, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_updates, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
