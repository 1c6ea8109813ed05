/* store/rows_test.c - one test per promise of rows.c. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "store/rows.h"

enum { LONG = 1300 }; /* rows of a batch: more than two waves */

static struct rbt_spec spec_of(rbt_type type, rbt_merge merge, uint32_t width)
{
    return (struct rbt_spec){.type = type, .merge = merge, .layout = RBT_DENSE, .width = width};
}

static rbt_row_store *create(const struct rbt_spec *spec)
{
    rbt_row_store *rows = NULL;
    assert_ok(rbt_rows_create(spec, spec->state_width, &rows));
    return rows;
}

static void merge(rbt_row_store *rows, const struct rbt_batch *batch)
{
    assert_ok(rbt_rows_reserve(rows, batch->count));
    rbt_rows_merge(rows, batch);
}

static void every_type_and_width_is_stored(void **state)
{
    (void)state;
    for (int type = RBT_F32; type <= RBT_I64; type++) {
        const size_t size = rbt_merge_size((rbt_type)type);
        for (uint32_t width = 1; width <= 3; width++) {
            const struct rbt_spec spec = spec_of((rbt_type)type, RBT_MERGE_ADD, width);
            rbt_row_store *rows = create(&spec);
            _Alignas(8) char update[2 * 3 * 8];
            _Alignas(8) char read[2 * 3 * 8];
            _Alignas(8) char expected[2 * 3 * 8];
            for (size_t i = 0; i < 2 * width; i++) {
                rbt_merge_store((rbt_type)type, update + i * size, (double)i + 1);
                rbt_merge_store((rbt_type)type, expected + i * size, 2 * ((double)i + 1));
            }
            const uint64_t keys[] = {0, UINT64_MAX};
            struct rbt_batch batch = {.count = 2, .keys = keys, .values = update};
            merge(rows, &batch);
            merge(rows, &batch);
            batch.values = read;
            rbt_rows_read(rows, &batch);
            assert_memory_equal(read, expected, 2 * width * size);
            assert_int_equal(rbt_rows_count(rows), 2);
            assert_int_equal(rbt_rows_key(rows, 1), UINT64_MAX);
            assert_memory_equal(rbt_rows_values(rows, 0), expected, width * size);
            rbt_rows_destroy(rows);
        }
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void rows_never_written_read_as_initial_values_and_create_nothing(void **state)
{
    (void)state;
    struct rbt_spec spec = spec_of(RBT_F32, RBT_MERGE_ADD, 1);
    for (uint32_t width = 1; width <= 2; width++) {
        for (int init = RBT_INIT_ZERO; init <= RBT_INIT_NORMAL; init++) {
            spec.width = width;
            spec.init = (rbt_init)init;
            spec.a = 2;
            spec.b = 3;
            spec.seed = 7;
            const struct rbt_initial initial = {RBT_F32, (rbt_init)init, width, 2, 3, 7};
            rbt_row_store *rows = create(&spec);
            const uint64_t keys[] = {0, 5, UINT64_MAX};
            float read[6];
            float expected[6];
            rbt_rows_read(rows, &(struct rbt_batch){.count = 3, .keys = keys, .values = read});
            for (size_t i = 0; i < 3; i++) {
                rbt_initial_values(&initial, keys[i], expected + i * width);
            }
            assert_memory_equal(read, expected, 3 * width * sizeof(float));
            assert_int_equal(rbt_rows_count(rows), 0);
            rbt_rows_destroy(rows);
        }
    }
}

static void a_first_update_is_merged_with_the_initial_values(void **state)
{
    (void)state;
    struct rbt_spec spec = spec_of(RBT_F64, RBT_MERGE_MAX, 1);
    spec.init = RBT_INIT_CONSTANT;
    spec.a = 10;
    rbt_row_store *rows = create(&spec);
    const uint64_t keys[] = {3, 4};
    double values[] = {9, 11};
    const struct rbt_batch batch = {.count = 2, .keys = keys, .values = values};
    merge(rows, &batch);
    rbt_rows_read(rows, &batch);
    assert_true(values[0] == 10 && values[1] == 11);
    rbt_rows_destroy(rows);
}

static void updates_that_change_nothing_create_nothing(void **state)
{
    (void)state;
    for (int m = RBT_MERGE_ADD; m <= RBT_MERGE_OR; m++) {
        const struct rbt_spec spec = spec_of(RBT_I32, (rbt_merge)m, 3);
        rbt_row_store *rows = create(&spec);
        const uint64_t key = 8;
        int32_t values[3];
        rbt_merge_clear(rbt_spec_kind(&spec), values, 3);
        const struct rbt_batch batch = {.count = 1, .keys = &key, .values = values};
        merge(rows, &batch);
        assert_int_equal(rbt_rows_count(rows), 0);
        values[2] = 1;
        merge(rows, &batch);
        assert_int_equal(rbt_rows_count(rows), 1);
        rbt_rows_destroy(rows);
    }
}

static void state_begins_at_zero(void **state)
{
    (void)state;
    struct rbt_spec spec = spec_of(RBT_F32, RBT_MERGE_ADD, 2);
    spec.state_width = 3;
    rbt_row_store *rows = create(&spec);
    const uint64_t keys[] = {1, 2};
    float values[] = {1, 2, 3, 4};
    merge(rows, &(struct rbt_batch){.count = 2, .keys = keys, .values = values});
    const float zeros[3] = {0};
    assert_memory_equal(rbt_rows_values(rows, 1), values + 2, 2 * sizeof *values);
    assert_memory_equal(rbt_rows_state(rows, 1), zeros, sizeof zeros);
    rbt_rows_destroy(rows);
    spec.state_width = 0;
    rows = create(&spec);
    merge(rows, &(struct rbt_batch){.count = 2, .keys = keys, .values = values});
    assert_non_null(rbt_rows_state(rows, 1)); /* of no length */
    rbt_rows_destroy(rows);
}

/* A batch of every third position of a long list. */
static void positions_select_rows_in_batches_longer_than_a_wave(void **state)
{
    (void)state;
    for (uint32_t width = 1; width <= 2; width++) {
        const struct rbt_spec spec = spec_of(RBT_F32, RBT_MERGE_ADD, width);
        rbt_row_store *rows = create(&spec);
        static uint64_t keys[3 * LONG];
        static uint32_t positions[LONG];
        static float values[3 * LONG * 2];
        static float read[3 * LONG * 2];
        for (uint32_t i = 0; i < 3 * LONG; i++) {
            keys[i] = i * 1000003ULL;
            values[i * width] = (float)(i + 1);
            read[i * width] = -1;
        }
        for (uint32_t i = 0; i < LONG; i++) {
            positions[i] = 3 * i;
        }
        struct rbt_batch batch = {
            .count = LONG, .keys = keys, .positions = positions, .values = values};
        merge(rows, &batch);
        assert_int_equal(rbt_rows_count(rows), LONG);
        batch.values = read;
        rbt_rows_read(rows, &batch);
        for (uint32_t i = 0; i < 3 * LONG; i++) {
            assert_true(read[i * width] == (i % 3 == 0 ? (float)(i + 1) : -1));
        }
        rbt_rows_destroy(rows);
    }
}

/* Ours remembers slots; another list without them creates rows in between. */
static void remembered_slots_notice_rows_that_others_create(void **state)
{
    (void)state;
    const struct rbt_spec spec = spec_of(RBT_F32, RBT_MERGE_ADD, 1);
    rbt_row_store *rows = create(&spec);
    static uint64_t keys[LONG];
    static uint32_t slots[LONG];
    static float read[LONG];
    uint64_t complete = 0;
    memset(slots, 0xff, sizeof slots);
    for (uint64_t i = 0; i < LONG; i++) {
        keys[i] = i;
    }
    const struct rbt_batch ours = {
        .count = LONG, .keys = keys, .values = read, .slots = slots, .slots_complete = &complete};
    for (uint64_t round = 0; round < 20; round++) {
        const uint64_t key = round * 67 % LONG;
        float one = 1;
        rbt_rows_read(rows, &ours);
        assert_true(read[key] == 0);
        merge(rows, &(struct rbt_batch){.count = 1, .keys = &key, .values = &one});
        rbt_rows_read(rows, &ours);
        assert_true(read[key] == 1);
        memset(read, 0, sizeof read); /* an update of ours: creates one row per round */
        read[(key + 1) % LONG] = 5;
        merge(rows, &ours);
        const uint64_t next = (key + 1) % LONG;
        rbt_rows_read(rows, &(struct rbt_batch){.count = 1, .keys = &next, .values = &one});
        assert_true(one == 5);
    }
    assert_int_equal(rbt_rows_count(rows), 40);
    rbt_rows_destroy(rows);
}

/* Once with remembered slots and once without; first it is missing, then others create it. */
static void a_row_by_itself_is_read_like_many(void **state)
{
    (void)state;
    const struct rbt_spec spec = spec_of(RBT_F32, RBT_MERGE_ADD, 1);
    static const uint64_t keys[] = {5, 10, 15};
    static const uint32_t position = 1;
    for (int has_slots = 0; has_slots < 2; has_slots++) {
        rbt_row_store *rows = create(&spec);
        uint32_t slots[] = {RBT_SLOT_NONE, RBT_SLOT_NONE, RBT_SLOT_NONE};
        uint64_t complete = 0;
        float read[] = {-1, -1, -1};
        const struct rbt_batch ours = {.count = 1,
                                       .keys = keys,
                                       .positions = &position,
                                       .values = read,
                                       .slots = has_slots == 1 ? slots : NULL,
                                       .slots_complete = has_slots == 1 ? &complete : NULL};
        rbt_rows_read(rows, &ours);
        assert_true(read[1] == 0);
        float values[] = {1, 2, 3};
        merge(rows, &(struct rbt_batch){.count = 3, .keys = keys, .values = values});
        for (int round = 0; round < 2; round++) { /* the second time the slot is known */
            complete = round == 0 ? 0 : complete;
            rbt_rows_read(rows, &ours);
            assert_true(read[0] == -1 && read[1] == 2 && read[2] == -1);
            read[1] = -1;
        }
        rbt_rows_destroy(rows);
    }
}

enum { SPACE = 700 };

struct model {
    int64_t values[SPACE][2];
    uint64_t factor; /* spreads the keys */
    uint32_t slots[SPACE];
    uint64_t complete;
    uint64_t keys[SPACE];
};

/* A random increasing selection, half of the time with remembered slots. */
static struct rbt_batch draw(struct rbt_rng *rng, struct model *m, uint32_t *positions)
{
    const uint64_t share = rbt_rng_below(rng, 10);
    size_t count = 0;
    for (uint32_t i = 0; i < SPACE; i++) {
        if (rbt_rng_below(rng, 10) < share) {
            positions[count++] = i;
        }
    }
    return (struct rbt_batch){.count = count, .keys = m->keys, .positions = positions};
}

static void use_slots(struct rbt_batch *batch, struct model *m, const uint32_t *all)
{
    batch->slots = m->slots;
    batch->slots_complete = &m->complete;
    batch->positions = all; /* slots are remembered for one list, always the same */
    batch->count = SPACE;
}

static void it_agrees_with_an_array(void **state)
{
    (void)state;
    const struct rbt_spec spec = spec_of(RBT_I64, RBT_MERGE_ADD, 2);
    static uint32_t all[SPACE];
    static uint32_t positions[SPACE];
    static int64_t values[SPACE][2];
    for (uint64_t seed = 0; seed < 40; seed++) {
        static struct model m;
        struct rbt_rng rng;
        m = (struct model){.factor = seed % 2 == 0 ? 1 : 0x9e3779b97f4a7c15U};
        memset(m.slots, 0xff, sizeof m.slots);
        for (uint32_t i = 0; i < SPACE; i++) {
            m.keys[i] = i * m.factor;
            all[i] = i;
        }
        rbt_rng_init(&rng, seed, 0, 0);
        rbt_row_store *rows = create(&spec);
        for (int step = 0; step < 20; step++) {
            struct rbt_batch batch = draw(&rng, &m, positions);
            if (rbt_rng_below(&rng, 2) == 0) {
                use_slots(&batch, &m, all);
            }
            batch.values = values;
            for (size_t i = 0; i < SPACE; i++) {
                const int64_t big = (int64_t)rbt_rng_below(&rng, 3);
                values[i][0] = rbt_rng_below(&rng, 20) == 0 ? big : 0;
                values[i][1] = big / 2;
            }
            for (size_t i = 0; i < batch.count; i++) {
                const size_t at = rbt_batch_position(&batch, i);
                m.values[at][0] += values[at][0];
                m.values[at][1] += values[at][1];
            }
            merge(rows, &batch);
            rbt_rows_read(rows, &batch);
            for (size_t i = 0; i < batch.count; i++) {
                const size_t at = rbt_batch_position(&batch, i);
                assert_memory_equal(values[at], m.values[at], sizeof values[at]);
            }
        }
        rbt_rows_destroy(rows);
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_reserve_is_enough_for_all_rows_and_rows_stay_while_it_grows(void **state)
{
    (void)state;
    const struct rbt_spec spec = spec_of(RBT_I64, RBT_MERGE_ADD, 4);
    rbt_row_store *rows = create(&spec);
    for (uint64_t begin = 0; begin < 100000; begin = begin * 3 + 100) {
        const uint64_t end = begin * 3 + 100;
        assert_ok(rbt_rows_reserve(rows, end - begin));
        const uint64_t calls = rbt_alloc_calls();
        for (uint64_t key = begin; key < end; key++) {
            int64_t values[] = {(int64_t)key, 1, 2, 3};
            rbt_rows_merge(rows, &(struct rbt_batch){.count = 1, .keys = &key, .values = values});
        }
        assert_int_equal(rbt_alloc_calls(), calls);
        for (uint64_t key = 1; key < end; key += 7) {
            int64_t values[4] = {0};
            rbt_rows_read(rows, &(struct rbt_batch){.count = 1, .keys = &key, .values = values});
            assert_int_equal(values[0], key);
            assert_int_equal(values[3], 3);
        }
    }
    rbt_rows_destroy(rows);
}

static const struct rbt_spec sparse = {.type = RBT_I64, .layout = RBT_SPARSE, .width = 1000000};

/* Elements count, and those that have become zero are given back. */
static void the_elements_of_sparse_rows_are_memory(void **state)
{
    (void)state;
    enum { ELEMENTS = 1000 };
    rbt_row_store *rows = create(&sparse);
    static uint32_t index[ELEMENTS];
    static int64_t values[ELEMENTS];
    const uint64_t key = 7;
    const uint32_t offsets[2] = {0, ELEMENTS};
    struct rbt_batch batch = {
        .keys = &key, .count = 1, .values = values, .offsets = offsets, .elements = index};
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        index[i] = i;
        values[i] = 3;
    }
    const size_t least = ELEMENTS * (sizeof *index + sizeof *values);
    const size_t before = rbt_rows_bytes(rows);
    assert_ok(rbt_rows_promise(rows, &batch));
    rbt_rows_merge(rows, &batch);
    const size_t full = rbt_rows_bytes(rows);
    assert_true(full >= before + least && full < before + 2 * least);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        values[i] = i == 500 ? 0 : -3;
    }
    assert_ok(rbt_rows_promise(rows, &batch));
    rbt_rows_merge(rows, &batch);
    assert_int_equal(rbt_rows_peek_sparse(rows, key).count, 1);
    assert_true(rbt_rows_bytes(rows) < before + least / 10);
    rbt_rows_destroy(rows);
}

static void sparse_rows_gather_elements(void **state)
{
    (void)state;
    rbt_row_store *rows = create(&sparse);
    const uint64_t keys[] = {0, UINT64_MAX};
    const uint32_t offsets[] = {0, 2, 3};
    const uint32_t elements[] = {5, 999999, 0};
    int64_t values[] = {50, 60, 70};
    struct rbt_batch batch = {
        .count = 2, .keys = keys, .values = values, .offsets = offsets, .elements = elements};
    assert_int_equal(rbt_rows_peek_sparse(rows, 0).count, 0);
    assert_int_equal(rbt_rows_count(rows), 0);
    for (int i = 0; i < 2; i++) {
        assert_ok(rbt_rows_promise(rows, &batch)); /* one that is taken back, */
        assert_ok(rbt_rows_promise(rows, &batch)); /* and one that is kept */
        rbt_rows_take_back(rows, &batch);
        rbt_rows_merge(rows, &batch);
    }
    const struct rbt_sparse_view first = rbt_rows_peek_sparse(rows, 0);
    const int64_t expected[] = {100, 120};
    assert_int_equal(first.count, 2);
    assert_memory_equal(first.index, elements, 2 * sizeof elements[0]);
    assert_memory_equal(first.values, expected, sizeof expected);
    assert_int_equal(rbt_rows_peek_sparse(rows, UINT64_MAX).count, 1);
    rbt_rows_destroy(rows);
    assert_int_equal(rbt_alloc_live(), 0);
}

static void rows_side_by_side_can_be_viewed(void **state)
{
    (void)state;
    struct rbt_spec spec = spec_of(RBT_F32, RBT_MERGE_ADD, 2);
    static const uint64_t keys[] = {10, 11, 30, 5, 40}; /* slots in this order; 40 is missing */
    static const uint32_t positions[] = {1, 2};
    float values[] = {1, 2, 3, 4, 5, 6, 7, 8};
    float read[10];
    rbt_row_store *rows = create(&spec);
    struct rbt_batch batch = {.count = 4, .keys = keys, .values = values};
    assert_null(rbt_rows_view(rows, &batch)); /* none exists */
    merge(rows, &batch);
    for (size_t first = 0; first < 4; first++) {
        for (size_t count = 1; first + count <= 5; count++) {
            uint32_t slots[5];
            uint64_t slots_complete = 0;
            batch = (struct rbt_batch){.count = count, .keys = keys + first};
            const void *expected = rbt_rows_values(rows, (uint32_t)first);
            expected = first + count == 5 ? NULL : expected;
            assert_ptr_equal(rbt_rows_view(rows, &batch), expected);
            batch.slots = slots;
            batch.slots_complete = &slots_complete;
            batch.values = read;
            rbt_rows_read(rows, &batch); /* from now on slots are known */
            assert_ptr_equal(rbt_rows_view(rows, &batch), expected);
        }
    }
    assert_memory_equal(rbt_rows_view(rows, &(struct rbt_batch){.count = 2, .keys = keys + 1}),
                        values + 2, 4 * sizeof(float));
    assert_null(rbt_rows_view(rows, &(struct rbt_batch){.count = 1, .keys = keys + 4}));
    const uint64_t apart[] = {10, 30};
    assert_null(rbt_rows_view(rows, &(struct rbt_batch){.count = 2, .keys = apart}));
    const uint64_t backwards[] = {11, 10};
    assert_null(rbt_rows_view(rows, &(struct rbt_batch){.count = 2, .keys = backwards}));
    batch = (struct rbt_batch){.count = 2, .keys = keys, .positions = positions};
    assert_null(rbt_rows_view(rows, &batch));
    assert_null(rbt_rows_view(rows, &(struct rbt_batch){.keys = keys}));
    rbt_rows_destroy(rows);
    spec.state_width = 1; /* nothing lies in between */
    rows = create(&spec);
    merge(rows, &(struct rbt_batch){.count = 4, .keys = keys, .values = values});
    assert_memory_equal(rbt_rows_view(rows, &(struct rbt_batch){.count = 2, .keys = keys}), values,
                        4 * sizeof(float));
    rbt_rows_destroy(rows);
}

static void long_batches_are_not_viewed(void **state)
{
    (void)state;
    const struct rbt_spec spec = spec_of(RBT_I64, RBT_MERGE_ADD, 1);
    uint64_t keys[LONG];
    int64_t values[LONG];
    for (size_t i = 0; i < LONG; i++) {
        keys[i] = 3 * i;
        values[i] = (int64_t)i + 1;
    }
    rbt_row_store *rows = create(&spec);
    merge(rows, &(struct rbt_batch){.count = LONG, .keys = keys, .values = values});
    assert_null(rbt_rows_view(rows, &(struct rbt_batch){.count = LONG, .keys = keys}));
    const void *view = rbt_rows_view(rows, &(struct rbt_batch){.count = 512, .keys = keys + 7});
    assert_non_null(view);
    assert_memory_equal(view, values + 7, 512 * sizeof(int64_t));
    rbt_rows_destroy(rows);
}

static void create_and_reserve_survive_every_failed_allocation(void **state)
{
    (void)state;
    struct rbt_spec spec = spec_of(RBT_F32, RBT_MERGE_ADD, 4);
    spec.rows_expected = 100;
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        rbt_row_store *rows = NULL;
        rbt_alloc_fail_nth(nth);
        st = rbt_rows_create(&spec, 0, &rows);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
        rbt_rows_destroy(rows);
        assert_int_equal(rbt_alloc_live(), 0);
    }
    spec.rows_expected = 0;
    rbt_row_store *rows = create(&spec);
    st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        rbt_alloc_fail_nth(nth);
        st = rbt_rows_reserve(rows, 1000);
        rbt_alloc_fail_nth(0);
        assert_true(st == RBT_OK || st == RBT_E_NOMEM);
    }
    assert_int_equal(rbt_rows_reserve(rows, UINT32_MAX), RBT_E_BUSY);
    rbt_rows_destroy(rows);
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_and_width_is_stored),
        cmocka_unit_test(rows_never_written_read_as_initial_values_and_create_nothing),
        cmocka_unit_test(a_first_update_is_merged_with_the_initial_values),
        cmocka_unit_test(updates_that_change_nothing_create_nothing),
        cmocka_unit_test(state_begins_at_zero),
        cmocka_unit_test(positions_select_rows_in_batches_longer_than_a_wave),
        cmocka_unit_test(remembered_slots_notice_rows_that_others_create),
        cmocka_unit_test(a_row_by_itself_is_read_like_many),
        cmocka_unit_test(it_agrees_with_an_array),
        cmocka_unit_test(a_reserve_is_enough_for_all_rows_and_rows_stay_while_it_grows),
        cmocka_unit_test(the_elements_of_sparse_rows_are_memory),
        cmocka_unit_test(sparse_rows_gather_elements),
        cmocka_unit_test(rows_side_by_side_can_be_viewed),
        cmocka_unit_test(long_batches_are_not_viewed),
        cmocka_unit_test(create_and_reserve_survive_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
