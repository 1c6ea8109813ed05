/* algo/fm/fm_tune_test.c - which examples are kept back, and when. */
#include "base/test.h"

#include "algo/fm/fm_job.h"
#include "base/alloc.h"

/* Examples are kept back while steps are long and still when they are short, but not to the end. */
static void the_last_pass_has_all_examples(void **state)
{
    (void)state;
    assert_int_equal(rbt_fm_tune_held_out(100), 5);
    for (int64_t epochs = 2; epochs <= 40; epochs++) {
        assert_true(rbt_fm_tune_passes(epochs) < epochs);
        assert_true((double)rbt_fm_tune_passes(epochs) >= 0.85 * (double)epochs - 1);
    }
    assert_int_equal(rbt_fm_tune_passes(1), 1);
    assert_int_equal(rbt_fm_tune_passes(20), 17);
}

enum { COUNT = 103, HELD_OUT = 11, WORKERS = 3, CLOCKS = 4 };

/* Every example is in one share, once; and those that are held out are at the ends of chunks. */
static void every_chunk_has_its_part_of_what_is_held_out(void **state)
{
    (void)state;
    struct rbt_fm_worker workers[WORKERS] = {0};
    struct rbt_fm_job fm = {.seed = 1,
                            .worker_count = WORKERS,
                            .movers = WORKERS,
                            .clocks_per_epoch = CLOCKS,
                            .workers = workers,
                            .examples = {.count = COUNT,
                                         .offsets = rbt_calloc(COUNT + 1, sizeof(uint64_t)),
                                         .labels = rbt_calloc(COUNT, sizeof(float))}};
    uint32_t places[HELD_OUT];
    bool is_held_out[COUNT] = {false};
    bool is_seen[COUNT] = {false};
    for (size_t i = 0; i < COUNT; i++) {
        fm.examples.labels[i] = (float)i;
    }
    for (size_t i = 0; i < HELD_OUT; i++) {
        places[i] = (uint32_t)(9 * i);
        is_held_out[places[i]] = true;
    }
    assert_ok(rbt_fm_part_draw(&fm, places, HELD_OUT));
    for (uint32_t p = 0; p < WORKERS; p++) {
        struct rbt_fm_worker *w = &workers[p];
        size_t next = 0;
        assert_ok(rbt_fm_part_take(&fm, p));
        assert_in_range(w->held_out, HELD_OUT / WORKERS, HELD_OUT / WORKERS + 1);
        for (int64_t c = 0; c < CLOCKS; c++) {
            const struct rbt_fm_chunk chunk = rbt_fm_part_chunk(w, c, CLOCKS);
            assert_int_equal(chunk.begin, next);
            assert_true(chunk.held_out <= 1);
            for (; next < chunk.end; next++) {
                const size_t place = (size_t)w->share.labels[next];
                assert_false(is_seen[place]);
                assert_int_equal(is_held_out[place], next + chunk.held_out >= chunk.end);
                is_seen[place] = true;
            }
        }
        assert_int_equal(next, w->share.count);
        rbt_fm_part_free(w);
    }
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(is_seen[i]);
    }
    rbt_free(fm.order);
    rbt_free(fm.examples.labels);
    rbt_free(fm.examples.offsets);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_pass_has_all_examples),
        cmocka_unit_test(every_chunk_has_its_part_of_what_is_held_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
