/* store/versions_test.c - versions in their order, and parts that are paged or not. */
#include "base/test.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/rng.h"
#include "store/versions.h"

static struct rbt_version *at(struct rbt_versions *versions, uint64_t id)
{
    struct rbt_version *version = NULL;
    assert_ok(rbt_versions_at(versions, id, &version));
    assert_int_equal(version->id, id);
    return version;
}

static void stop(struct rbt_versions *versions)
{
    rbt_versions_deinit(versions);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Adds 1, 2, ... times `value` to the row's part. */
static void add(struct rbt_versions *versions, uint64_t id, uint32_t slot, uint64_t rows,
                float value)
{
    float *part = rbt_versions_part(versions, at(versions, id), slot, rows);
    assert_non_null(part);
    for (uint32_t i = 0; i < versions->width; i++) {
        part[i] += value * (float)(i + 1);
    }
}

/* What was added; a row without a part has nothing. */
static float sum(struct rbt_versions *versions, uint64_t id, uint32_t slot)
{
    const float *part = rbt_versions_peek(versions, at(versions, id), slot);
    for (uint32_t i = 1; part != NULL && i < versions->width; i++) {
        assert_true(part[i] == part[0] * (float)(i + 1));
    }
    return part == NULL ? 0 : part[0];
}

static void versions_are_kept_in_their_order(void **state)
{
    (void)state;
    const uint64_t ids[] = {7, 3, 9, 3, 1, 12, 8, 2, 4, 5, 6, UINT64_MAX - 1};
    const uint64_t sorted[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, UINT64_MAX - 1};
    struct rbt_versions versions;
    rbt_versions_init(&versions, 1);
    for (size_t i = 0; i < 12; i++) {
        at(&versions, ids[i])->messages++;
        add(&versions, ids[i], 0, 1, (float)(ids[i] % 1000));
    }
    assert_int_equal(versions.count, 11);
    for (size_t i = 0; i < 11; i++) {
        assert_true(versions.live[i].id == sorted[i]);
        assert_int_equal(versions.live[i].messages, sorted[i] == 3 ? 2 : 1);
    }
    rbt_versions_drop(&versions);
    rbt_versions_drop(&versions);
    assert_int_equal(versions.live[0].id, 3);
    assert_true(sum(&versions, 3, 0) == 6);
    assert_int_equal(versions.count, 9);
    assert_int_equal(versions.count_max, 11);
    stop(&versions);
}

static void a_part_is_zero_at_first_and_found_again(void **state)
{
    (void)state;
    struct rbt_versions versions;
    rbt_versions_init(&versions, 3);
    assert_null(rbt_versions_peek(&versions, at(&versions, 0), 5));
    const float *part = rbt_versions_part(&versions, at(&versions, 0), 5, 1000000);
    assert_true(part[0] == 0 && part[1] == 0 && part[2] == 0);
    add(&versions, 0, 5, 1000000, 2);
    add(&versions, 0, 5, 1000000, 1);
    assert_true(sum(&versions, 0, 5) == 3);
    assert_null(rbt_versions_peek(&versions, at(&versions, 0), 4));
    assert_null(rbt_versions_peek(&versions, at(&versions, 1), 5));
    stop(&versions);
}

/* One row in sixteen makes a version paged, which takes less at once; from then on there is
 * little besides the parts, however many there are. */
static void many_parts_are_paged(void **state)
{
    (void)state;
    enum { ROWS = 5000 };
    for (uint32_t width = 1; width <= 41; width += 20) {
        struct rbt_versions versions;
        rbt_versions_init(&versions, width);
        const size_t empty = rbt_versions_bytes(&versions);
        for (uint32_t i = 0; i < ROWS; i++) {
            const uint32_t slot = i * 7 % ROWS;
            const size_t before = rbt_versions_bytes(&versions);
            const bool was_paged = at(&versions, 0)->pages != NULL;
            add(&versions, 0, slot, ROWS, (float)slot + 1);
            const bool is_paged = at(&versions, 0)->pages != NULL;
            assert_int_equal(is_paged, 16 * (i + 1) > ROWS);
            assert_true(was_paged || !is_paged || rbt_versions_bytes(&versions) < before);
            assert_true(!is_paged || rbt_versions_bytes(&versions) - empty <
                                         (i + 1) * width * sizeof(float) + ROWS / 2 + 1000);
            if (i == ROWS / 16 - 1 || i == ROWS / 16 || i == ROWS - 1) { /* before it, and after */
                for (uint32_t k = 0; k < ROWS; k++) {
                    assert_true(sum(&versions, 0, k * 7 % ROWS) ==
                                (k <= i ? (float)(k * 7 % ROWS) + 1 : 0));
                }
            }
        }
        const size_t live = rbt_alloc_live_bytes();
        assert_int_equal(rbt_versions_bytes(&versions), live);
        stop(&versions);
    }
}

static void a_few_parts_of_a_large_table_take_little(void **state)
{
    (void)state;
    enum { ROWS = 1000000, PARTS = 1000 };
    struct rbt_versions versions;
    rbt_versions_init(&versions, 1);
    for (uint32_t i = 0; i < PARTS; i++) {
        add(&versions, 0, i * 999, ROWS, 1);
    }
    assert_null(at(&versions, 0)->pages);
    assert_true(rbt_versions_bytes(&versions) < 2 * PARTS * 8 + 1000);
    assert_true(rbt_alloc_live_bytes() < 2 * PARTS * 8 + 2000);
    rbt_versions_drop(&versions);
    assert_true(rbt_versions_bytes(&versions) < 1000);
    stop(&versions);
}

/* Random parts in tables that grow, against a plain array; visited once each, paged or not. */
static void parts_are_what_was_added(void **state)
{
    (void)state;
    enum { ROWS = 2500, VERSIONS = 4 };
    for (uint64_t seed = 0; seed < 300; seed++) {
        static float expected[VERSIONS][ROWS];
        struct rbt_rng rng;
        struct rbt_versions versions;
        rbt_rng_init(&rng, seed, 0, 0);
        rbt_versions_init(&versions, 1 + (uint32_t)(seed % 20));
        memset(expected, 0, sizeof expected);
        uint64_t rows = 1 + rbt_rng_below(&rng, ROWS / 2);
        const uint64_t steps = rbt_rng_below(&rng, 2 * rows + 600);
        for (uint64_t i = 0; i < steps; i++) {
            const uint64_t id = rbt_rng_below(&rng, VERSIONS);
            const uint32_t slot = (uint32_t)rbt_rng_below(&rng, rows);
            add(&versions, id, slot, rows, (float)i + 1);
            expected[id][slot] += (float)i + 1;
            rows += rows < ROWS && rbt_rng_below(&rng, 3) == 0;
        }
        for (uint64_t id = 0; id < VERSIONS; id++) {
            bool is_seen[ROWS] = {false};
            uint64_t place = 0;
            uint32_t slot = 0;
            const float *part = NULL;
            const struct rbt_version *version = at(&versions, id);
            while ((part = rbt_versions_next(&versions, version, &place, &slot)) != NULL) {
                assert_true(slot < rows && part[0] == expected[id][slot] && part[0] != 0);
                assert_false(is_seen[slot]);
                is_seen[slot] = true;
            }
            for (uint32_t k = 0; k < rows; k++) {
                assert_true(sum(&versions, id, k) == expected[id][k]);
                assert_true(is_seen[k] || expected[id][k] == 0);
            }
        }
        stop(&versions);
    }
}

/* Whatever fails, what was there stays. */
static void versions_survive_every_failed_allocation(void **state)
{
    (void)state;
    struct rbt_versions versions;
    rbt_versions_init(&versions, 2);
    struct rbt_version *version = NULL;
    rbt_alloc_fail_nth(1);
    assert_fails(rbt_versions_at(&versions, 4, &version), RBT_E_NOMEM, "versions");
    rbt_alloc_fail_nth(0);
    assert_null(version);
    unsigned failures = 0;
    for (uint32_t slot = 0; slot < 200; slot++) {
        const float *part = NULL;
        for (unsigned nth = 1; part == NULL; nth++) {
            version = at(&versions, 4);
            rbt_alloc_fail_nth(nth);
            part = rbt_versions_part(&versions, version, slot, 200);
            rbt_alloc_fail_nth(0);
            failures += part == NULL;
            assert_true(nth < 10);
            for (uint32_t k = 0; k < slot; k++) {
                assert_true(sum(&versions, 4, k) == (float)k + 1);
            }
        }
        add(&versions, 4, slot, 200, (float)slot + 1);
    }
    assert_true(failures >= 10);
    stop(&versions);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_are_kept_in_their_order),
        cmocka_unit_test(a_part_is_zero_at_first_and_found_again),
        cmocka_unit_test(many_parts_are_paged),
        cmocka_unit_test(a_few_parts_of_a_large_table_take_little),
        cmocka_unit_test(parts_are_what_was_added),
        cmocka_unit_test(versions_survive_every_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
