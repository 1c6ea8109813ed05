/* client/buffer_test.c - one test per promise of buffer.c. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "client/buffer.h"

enum { SPACE = 60, WIDTH = 2 };

/* Of 1 to 5 shards, made once. */
enum { SHARDS_MAX = 5 };
static struct rbt_placement_map *placements[SHARDS_MAX + 1];
static size_t live; /* their blocks */

static int set_up(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= SHARDS_MAX; shards++) {
        const struct rbt_placement_options options = {.shard_count = shards};
        if (rbt_placement_create(&options, &placements[shards]) != RBT_OK) {
            return -1;
        }
    }
    live = rbt_alloc_live();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= SHARDS_MAX; shards++) {
        rbt_placement_destroy(placements[shards]);
    }
    return rbt_alloc_live() == 0 ? 0 : -1;
}

static struct rbt_keylist *make_list(uint32_t shards, const uint64_t *keys, size_t count)
{
    struct rbt_keylist *list = NULL;
    assert_ok(rbt_keylist_create(placements[shards], &list));
    assert_ok(rbt_keylist_assign(list, keys, count));
    return list;
}

static struct rbt_buffer buffer_of(uint32_t shards, uint32_t width)
{
    return (struct rbt_buffer){
        .kind = {RBT_I64, RBT_MERGE_ADD}, .width = width, .placement = placements[shards]};
}

static struct rbt_update *append(struct rbt_buffer *buffer, uint64_t sequence,
                                 struct rbt_keylist *keys, int64_t value)
{
    struct rbt_update *update = NULL;
    const size_t values = keys->count * buffer->width;
    assert_ok(rbt_buffer_append(buffer, sequence, keys, values * sizeof(int64_t), &update));
    for (size_t i = 0; i < values; i++) {
        ((int64_t *)update->values)[i] = value;
    }
    return update;
}

/* Sends everything that is unsent, which `update` is the last of. */
static void send(struct rbt_buffer *buffer, const struct rbt_update *update, int64_t clock)
{
    assert_ptr_equal(buffer->last, update);
    rbt_buffer_mark_sent(buffer, update->sequence, clock);
}

static int64_t overlaid(const struct rbt_buffer *buffer, struct rbt_keylist *keys, uint64_t applied)
{
    int64_t values[8] = {0};
    const struct rbt_buffer_target target = {.keys = keys, .values = (char *)values};
    assert_ok(rbt_buffer_overlay(buffer, 0, applied, &target));
    return values[0];
}

static void a_refill_gets_back_what_the_shard_does_not_show_yet(void **state)
{
    (void)state;
    const uint64_t key = 5;
    struct rbt_keylist *keys = make_list(1, &key, 1);
    struct rbt_buffer buffer = buffer_of(1, 1);
    send(&buffer, append(&buffer, 1, keys, 1), 0);
    send(&buffer, append(&buffer, 2, keys, 10), 1);
    append(&buffer, 3, keys, 100);
    assert_int_equal(overlaid(&buffer, keys, 0), 111);
    assert_int_equal(overlaid(&buffer, keys, 1), 110);
    assert_int_equal(overlaid(&buffer, keys, 2), 100);
    assert_int_equal(overlaid(&buffer, keys, 3), 0);
    rbt_buffer_deinit(&buffer);
    rbt_keylist_unref(keys);
    assert_int_equal(rbt_alloc_live(), live);
}

static void drop_forgets_sent_updates_of_visible_clocks_only(void **state)
{
    (void)state;
    const uint64_t key = 5;
    struct rbt_keylist *keys = make_list(1, &key, 1);
    struct rbt_buffer buffer = buffer_of(1, 1);
    send(&buffer, append(&buffer, 1, keys, 1), 0);
    send(&buffer, append(&buffer, 2, keys, 10), 1);
    append(&buffer, 3, keys, 100);
    rbt_buffer_drop(&buffer, 0, UINT64_MAX);
    assert_int_equal(overlaid(&buffer, keys, 0), 111);
    rbt_buffer_drop(&buffer, 1, UINT64_MAX);
    assert_int_equal(overlaid(&buffer, keys, 0), 110);
    rbt_buffer_drop(&buffer, 99, UINT64_MAX); /* what has not been sent stays */
    assert_int_equal(overlaid(&buffer, keys, 0), 100);
    assert_int_equal(buffer.dropped, 2);
    rbt_buffer_deinit(&buffer);
    rbt_keylist_unref(keys);
}

/* Whoever copies values need not ask whether there are any. */
static void an_update_of_nothing_has_an_array(void **state)
{
    (void)state;
    struct rbt_buffer buffer = buffer_of(1, WIDTH);
    struct rbt_keylist *nothing = make_list(1, NULL, 0);
    struct rbt_update *update = NULL;
    assert_ok(rbt_buffer_append(&buffer, 1, nothing, 0, &update));
    assert_non_null(update->values);
    rbt_buffer_deinit(&buffer);
    rbt_keylist_unref(nothing);
}

static void take_back_removes_the_last_update(void **state)
{
    (void)state;
    const uint64_t key = 5;
    struct rbt_keylist *keys = make_list(1, &key, 1);
    struct rbt_buffer buffer = buffer_of(1, 1);
    append(&buffer, 1, keys, 1);
    append(&buffer, 1, keys, 10);
    rbt_buffer_take_back(&buffer);
    assert_int_equal(overlaid(&buffer, keys, 0), 1);
    assert_int_equal(buffer.unsent_count, 1);
    rbt_buffer_take_back(&buffer);
    assert_int_equal(overlaid(&buffer, keys, 0), 0);
    append(&buffer, 1, keys, 7);
    assert_int_equal(overlaid(&buffer, keys, 0), 7);
    rbt_buffer_deinit(&buffer);
    assert_int_equal(keys->references, 1);
    rbt_keylist_unref(keys);
}

/* A second push of a set in one clock finds the first one and adds to it. */
static void an_unsent_update_of_the_same_list_is_found(void **state)
{
    (void)state;
    const uint64_t key = 5;
    struct rbt_keylist *keys = make_list(1, &key, 1);
    struct rbt_keylist *others = make_list(1, &key, 1);
    struct rbt_buffer buffer = buffer_of(1, 1);
    assert_null(rbt_buffer_find_unsent(&buffer, keys, NULL));
    struct rbt_update *first = append(&buffer, 1, keys, 1);
    assert_ptr_equal(rbt_buffer_find_unsent(&buffer, keys, NULL), first);
    assert_null(rbt_buffer_find_unsent(&buffer, others, NULL));
    send(&buffer, first, 0);
    append(&buffer, 2, others, 1);
    assert_null(rbt_buffer_find_unsent(&buffer, keys, NULL));
    struct rbt_update *second = append(&buffer, 2, keys, 1);
    assert_ptr_equal(rbt_buffer_find_unsent(&buffer, keys, NULL), second);
    rbt_buffer_deinit(&buffer);
    rbt_keylist_unref(keys);
    rbt_keylist_unref(others);
    assert_int_equal(rbt_alloc_live(), live);
}

static size_t draw_keys(struct rbt_rng *rng, uint64_t *keys)
{
    const uint64_t share = 1 + rbt_rng_below(rng, 9);
    size_t count = 0;
    for (uint64_t i = 0; i < SPACE; i++) {
        if (rbt_rng_below(rng, 10) < share) {
            keys[count++] = i * 61; /* which is i modulo SPACE */
        }
    }
    return count;
}

/* Adds one update of random keys to the buffer and to the model. */
static void append_random(struct rbt_rng *rng, struct rbt_buffer *buffer, struct rbt_keylist *list,
                          int64_t (*model)[WIDTH])
{
    struct rbt_update *u = append(buffer, 1, list, 0);
    for (size_t i = 0; i < list->count; i++) {
        for (size_t k = 0; k < WIDTH; k++) {
            const int64_t value = (int64_t)rbt_rng_below(rng, 100);
            ((int64_t *)u->values)[i * WIDTH + k] = value;
            model[list->keys[i] % SPACE][k] += value;
        }
    }
}

/* Lists of all lengths, the target's own among them; each shard completes its rows alone. */
static void overlays_agree_with_an_array_for_any_lists_and_shards(void **state)
{
    (void)state;
    const uint32_t shard_counts[] = {1, 2, 5};
    for (uint64_t seed = 0; seed < 300; seed++) {
        const uint32_t shards = shard_counts[seed % 3];
        struct rbt_rng rng;
        struct rbt_buffer buffer = buffer_of(shards, WIDTH);
        uint64_t keys[SPACE];
        int64_t model[SPACE][WIDTH] = {{0}};
        int64_t values[SPACE][WIDTH] = {{0}};
        rbt_rng_init(&rng, seed, 0, 0);
        struct rbt_keylist *own = make_list(shards, keys, draw_keys(&rng, keys));
        for (int i = 0; i < 4; i++) {
            struct rbt_keylist *list =
                i % 2 == 0 ? own : make_list(shards, keys, draw_keys(&rng, keys));
            append_random(&rng, &buffer, list, model);
            if (list != own) {
                rbt_keylist_unref(list);
            }
        }
        const struct rbt_buffer_target target = {.keys = own, .values = (char *)values};
        for (uint32_t shard = 0; shard < shards; shard++) {
            assert_ok(rbt_buffer_overlay(&buffer, shard, 0, &target));
            for (size_t i = 0; i < own->count; i++) {
                const int64_t *row = model[own->keys[i] % SPACE];
                const bool is_done = rbt_placement_shard(placements[shards], own->keys[i]) <= shard;
                assert_int_equal(values[i][0], is_done ? row[0] : 0);
                assert_int_equal(values[i][1], is_done ? row[1] : 0);
            }
        }
        rbt_buffer_deinit(&buffer);
        rbt_keylist_unref(own);
    }
    assert_int_equal(rbt_alloc_live(), live);
}

static void sparse_rows_are_completed_element_by_element(void **state)
{
    (void)state;
    struct rbt_buffer buffer = buffer_of(2, 100);
    struct rbt_update *update = NULL;
    struct rbt_sparse_row row = {0};
    const uint64_t keys[] = {3, 9};
    buffer.is_sparse = true;
    for (uint64_t sequence = 1; sequence <= 2; sequence++) {
        const uint32_t offsets[] = {0, 1, 3};
        const uint32_t elements[] = {50, 7, (uint32_t)(7 + sequence)};
        const int64_t values[] = {1, 2, 3};
        assert_ok(rbt_buffer_append(&buffer, sequence, NULL, sizeof values, &update));
        assert_ok(rbt_keylist_assign(update->keys, keys, 2));
        assert_ok(rbt_buffer_reserve_elements(update, 2, 3));
        memcpy(update->offsets, offsets, sizeof offsets);
        memcpy(update->elements, elements, sizeof elements);
        memcpy(update->values, values, sizeof values);
    }
    struct rbt_keylist *target_keys = make_list(2, &keys[1], 1);
    const struct rbt_buffer_target target = {.keys = target_keys, .sparse = &row};
    assert_ok(rbt_buffer_overlay(&buffer, rbt_placement_shard(placements[2], 9), 0, &target));
    const uint32_t index[] = {7, 8, 9};
    const int64_t sums[] = {4, 3, 3};
    assert_int_equal(row.count, 3);
    assert_memory_equal(row.index, index, sizeof index);
    assert_memory_equal(row.values, sums, sizeof sums);
    const struct rbt_batch batch =
        rbt_buffer_batch(update, 6, rbt_placement_shard(placements[2], 3));
    assert_int_equal(batch.table, 6);
    assert_ptr_equal(batch.elements, update->elements);
    rbt_sparse_row_deinit(&row);
    rbt_keylist_unref(target_keys);
    rbt_buffer_deinit(&buffer);
    assert_int_equal(rbt_alloc_live(), live);
}

/* Updates of sets, and updates with lists of their own. */
static void a_steady_state_allocates_nothing(void **state)
{
    (void)state;
    const uint64_t keys[] = {1, 2, 3};
    for (int is_own = 0; is_own < 2; is_own++) {
        struct rbt_keylist *list = make_list(2, keys, 3);
        struct rbt_buffer buffer = buffer_of(2, 1);
        uint64_t calls = 0;
        for (uint64_t clock = 0; clock < 30; clock++) {
            struct rbt_update *update = NULL;
            calls = clock == 10 ? rbt_alloc_calls() : calls;
            assert_ok(rbt_buffer_append(&buffer, clock + 1, is_own ? NULL : list, 24, &update));
            if (is_own) {
                assert_ok(rbt_keylist_assign(update->keys, keys, 3));
            }
            send(&buffer, update, (int64_t)clock);
            rbt_buffer_drop(&buffer, (int64_t)clock - 2, UINT64_MAX);
        }
        assert_int_equal(rbt_alloc_calls(), calls);
        rbt_buffer_deinit(&buffer);
        rbt_keylist_unref(list);
    }
    assert_int_equal(rbt_alloc_live(), live);
}

static void a_failed_append_changes_nothing(void **state)
{
    (void)state;
    struct rbt_buffer buffer = buffer_of(2, 1);
    rbt_status st = RBT_E_NOMEM;
    for (unsigned nth = 1; st != RBT_OK; nth++) {
        struct rbt_update *update = NULL;
        rbt_alloc_fail_nth(nth);
        st = rbt_buffer_append(&buffer, 1, NULL, 100, &update);
        rbt_alloc_fail_nth(0);
        assert_int_equal(update != NULL, st == RBT_OK);
        assert_int_equal(buffer.unsent_count, st == RBT_OK);
        assert_ptr_equal(buffer.first, update);
    }
    for (unsigned nth = 1; nth <= 2; nth++) {
        rbt_alloc_fail_nth(nth);
        assert_int_equal(rbt_buffer_reserve_elements(buffer.first, 10 * nth, 10), RBT_E_NOMEM);
        rbt_alloc_fail_nth(0);
    }
    rbt_buffer_deinit(&buffer);
    assert_int_equal(rbt_alloc_live(), live);
}

static void updates_with_other_bases_are_kept_apart(void **state)
{
    (void)state;
    const uint64_t all[] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct rbt_keylist *keys = make_list(2, all, 8);
    struct rbt_buffer buffer = buffer_of(1, 2);
    buffer.has_bases = true;
    assert_int_equal(rbt_buffer_least(&buffer, 0), RBT_STAMP_NONE);
    struct rbt_update *first = append(&buffer, 1, keys, 8);
    first->bases[0] = 5;
    first->bases[1] = 6;
    assert_ptr_equal(rbt_buffer_find_unsent(&buffer, keys, (uint64_t[]){5, 6}), first);
    assert_null(rbt_buffer_find_unsent(&buffer, keys, (uint64_t[]){5, 7}));
    struct rbt_update *second = append(&buffer, 1, keys, 8);
    second->bases[0] = 4;
    second->bases[1] = 7;
    assert_ptr_equal(rbt_buffer_find_unsent(&buffer, keys, (uint64_t[]){4, 7}), second);
    assert_int_equal(rbt_buffer_least(&buffer, 0), 4);
    assert_int_equal(rbt_buffer_least(&buffer, 1), 6);
    assert_int_equal(rbt_buffer_batch(second, 0, 1).base, 7);
    rbt_buffer_mark_sent(&buffer, 1, 0);
    assert_int_equal(rbt_buffer_least(&buffer, 0), RBT_STAMP_NONE);
    rbt_buffer_deinit(&buffer);
    rbt_keylist_unref(keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refill_gets_back_what_the_shard_does_not_show_yet),
        cmocka_unit_test(drop_forgets_sent_updates_of_visible_clocks_only),
        cmocka_unit_test(an_update_of_nothing_has_an_array),
        cmocka_unit_test(take_back_removes_the_last_update),
        cmocka_unit_test(an_unsent_update_of_the_same_list_is_found),
        cmocka_unit_test(overlays_agree_with_an_array_for_any_lists_and_shards),
        cmocka_unit_test(sparse_rows_are_completed_element_by_element),
        cmocka_unit_test(a_steady_state_allocates_nothing),
        cmocka_unit_test(a_failed_append_changes_nothing),
        cmocka_unit_test(updates_with_other_bases_are_kept_apart),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
