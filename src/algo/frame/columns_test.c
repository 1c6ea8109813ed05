/* algo/frame/columns_test.c - examples by feature hold what the examples hold, in order. */
#include "base/test.h"

#include "algo/frame/columns.h"
#include "base/alloc.h"
#include "base/rng.h"

enum { EXAMPLES = 40, FEATURES = 30, MOST = EXAMPLES * FEATURES };

struct room {
    uint64_t offsets[EXAMPLES + 1];
    uint32_t indices[MOST];
    float values[MOST];
    uint64_t keys[FEATURES];
};

/* Some features occur nowhere, and some examples are empty. */
static struct rbt_share random_share(struct room *room, uint64_t seed)
{
    struct rbt_rng rng;
    rbt_rng_init(&rng, seed, 0, 0);
    uint64_t next = 0;
    room->offsets[0] = 0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        for (uint32_t j = 0; j < FEATURES; j++) {
            if (j % 7 != 3 && rbt_rng_below(&rng, 5) == 0) {
                room->indices[next] = j;
                room->values[next++] = (float)rbt_rng_normal(&rng);
            }
        }
        room->offsets[i + 1] = next;
    }
    return (struct rbt_share){.count = EXAMPLES,
                              .offsets = room->offsets,
                              .indices = room->indices,
                              .values = room->values,
                              .keys = room->keys,
                              .key_count = FEATURES};
}

static void assert_same(const struct rbt_share *share, size_t first, size_t end,
                        const struct rbt_columns *columns)
{
    float expected[EXAMPLES][FEATURES] = {{0}};
    uint64_t nonzeros = 0;
    for (size_t i = first; i < end; i++) {
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            expected[i - first][share->indices[k]] = share->values[k];
            nonzeros++;
        }
    }
    assert_int_equal(columns->starts[columns->count], nonzeros);
    for (size_t c = 0; c < columns->count; c++) {
        assert_true(c == 0 || columns->features[c] > columns->features[c - 1]);
        assert_true(columns->starts[c + 1] > columns->starts[c]); /* empty ones are left out */
        for (uint64_t k = columns->starts[c]; k < columns->starts[c + 1]; k++) {
            assert_true(k == columns->starts[c] || columns->rows[k] > columns->rows[k - 1]);
            float *cell = &expected[columns->rows[k]][columns->features[c]];
            assert_true(columns->values[k] == *cell && *cell != 0.0F);
            *cell = 0.0F; /* each once */
        }
    }
}

static void columns_hold_what_the_examples_hold(void **state)
{
    (void)state;
    struct room room = {0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct rbt_share share = random_share(&room, seed);
        const size_t ends[][2] = {{0, EXAMPLES}, {7, 20}, {5, 5}, {EXAMPLES - 1, EXAMPLES}};
        for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
            struct rbt_columns columns = {0};
            assert_ok(rbt_columns_take(&share, ends[i][0], ends[i][1], &columns));
            assert_same(&share, ends[i][0], ends[i][1], &columns);
            rbt_columns_free(&columns);
            assert_null(columns.rows);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_hold_what_the_examples_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
