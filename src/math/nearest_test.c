/* math/nearest_test.c - every set of kernels against the obvious one, and itself in other company.
 */
#include "base/test.h"

#include <math.h>

#include "base/rng.h"
#include "math/choose.h"
#include "math/reference.h"

enum { POINTS = 211, CENTRES_MAX = 53, DIMS_MAX = 37, PANELS_MAX = 4 };

struct fixture {
    float points[POINTS * DIMS_MAX];
    float centres[CENTRES_MAX * DIMS_MAX];
    _Alignas(64) float panels[PANELS_MAX * DIMS_MAX * RBT_NEAREST_PANEL];
    _Alignas(64) float halves[PANELS_MAX * RBT_NEAREST_PANEL];
    uint32_t rows[POINTS];
    struct rbt_nearest_run run;
};

/* Where a run writes to. */
struct answers {
    uint32_t nearest[POINTS];
    float first[POINTS];
    float second[POINTS];
};

static struct fixture fixture;

static void make(size_t dims, size_t centres)
{
    struct fixture *f = &fixture;
    struct rbt_rng rng;
    rbt_rng_init(&rng, 1, dims, centres);
    for (size_t i = 0; i < POINTS * dims; i++) {
        f->points[i] = (float)rbt_rng_normal(&rng);
    }
    for (size_t i = 0; i < POINTS; i++) {
        f->rows[i] = (uint32_t)((i * 7) % POINTS);
    }
    const size_t panel_count = (centres + RBT_NEAREST_PANEL - 1) / RBT_NEAREST_PANEL;
    memset(f->panels, 0, sizeof f->panels);
    for (size_t c = 0; c < panel_count * RBT_NEAREST_PANEL; c++) {
        double half = 0;
        for (size_t j = 0; j < dims && c < centres; j++) {
            const float x = (float)rbt_rng_normal(&rng);
            const size_t panel = c / RBT_NEAREST_PANEL * dims;
            f->centres[c * dims + j] = x;
            f->panels[(panel + j) * RBT_NEAREST_PANEL + c % RBT_NEAREST_PANEL] = x;
            half += 0.5 * (double)x * (double)x;
        }
        f->halves[c] = c < centres ? (float)half : INFINITY;
    }
    f->run = (struct rbt_nearest_run){.points = f->points,
                                      .dims = dims,
                                      .rows = f->rows,
                                      .count = POINTS,
                                      .panels = f->panels,
                                      .halves = f->halves,
                                      .panel_count = panel_count};
}

static struct answers ask(const struct rbt_kernels *kernels, struct rbt_nearest_run run)
{
    static struct answers answers;
    run.found = (struct rbt_nearest_found){answers.nearest, answers.first, answers.second};
    kernels->nearest(&run);
    return answers;
}

static void assert_same(const struct answers *got, const struct answers *expected, size_t centres)
{
    for (size_t i = 0; i < POINTS; i++) {
        assert_true(got->nearest[i] == expected->nearest[i]); /* no two are that close here */
        assert_float_equal(got->first[i], expected->first[i], 1e-4F);
        if (centres > 1) {
            assert_float_equal(got->second[i], expected->second[i], 1e-4F);
        } else {
            assert_true(isinf(got->second[i]));
        }
    }
}

static void every_set_finds_the_two_nearest(void **state)
{
    (void)state;
    for (size_t dims = 1; dims <= DIMS_MAX; dims += 6) {
        for (size_t centres = 1; centres <= CENTRES_MAX; centres += 13) {
            make(dims, centres);
            const struct answers expected = ask(&rbt_reference, fixture.run);
            for (size_t k = 0; rbt_choose_available(k) != NULL; k++) {
                const struct answers got = ask(rbt_choose_available(k), fixture.run);
                assert_same(&got, &expected, centres);
            }
        }
    }
}

/* The same bits alone and among others, at any place of a tile. */
static void a_point_does_not_depend_on_its_neighbours(void **state)
{
    (void)state;
    make(19, 40);
    for (size_t k = 0; rbt_choose_available(k) != NULL; k++) {
        const struct answers all = ask(rbt_choose_available(k), fixture.run);
        for (size_t i = 0; i < POINTS; i++) {
            struct rbt_nearest_run one = fixture.run;
            one.rows = fixture.rows + i;
            one.count = 1;
            const struct answers alone = ask(rbt_choose_available(k), one);
            assert_int_equal(alone.nearest[0], all.nearest[i]);
            assert_memory_equal(&alone.first[0], &all.first[i], sizeof all.first[i]);
            assert_memory_equal(&alone.second[0], &all.second[i], sizeof all.second[i]);
        }
    }
}

/* Of equal centres the first one wins, in whatever lane and panel the others are. */
static void ties_go_to_the_first_centre(void **state)
{
    (void)state;
    make(5, 40);
    for (size_t c = 3; c < 40; c++) {
        const size_t to = c / RBT_NEAREST_PANEL * 5;
        for (size_t j = 0; j < 5; j++) {
            fixture.panels[(to + j) * RBT_NEAREST_PANEL + c % RBT_NEAREST_PANEL] =
                fixture.panels[j * RBT_NEAREST_PANEL + 2];
        }
        fixture.halves[c] = fixture.halves[2];
    }
    for (size_t k = 0; rbt_choose_available(k) != NULL; k++) {
        const struct answers got = ask(rbt_choose_available(k), fixture.run);
        for (size_t i = 0; i < POINTS; i++) {
            assert_true(got.nearest[i] <= 2);
            assert_true(got.nearest[i] != 2 || got.second[i] == got.first[i]);
        }
    }
}

static void sparse_points_agree_with_dense_ones(void **state)
{
    (void)state;
    enum { DIMS = 13, CENTRES = 21, STRIDE = 32 };
    static uint64_t offsets[POINTS + 1];
    static uint32_t indices[POINTS * DIMS];
    static float columns[DIMS * STRIDE];
    float scores[STRIDE];
    make(DIMS, CENTRES);
    for (size_t i = 0; i < POINTS * DIMS; i++) {
        indices[i] = (uint32_t)(i % DIMS);
        offsets[i / DIMS + 1] = i + 1;
    }
    for (size_t c = 0; c < STRIDE; c++) {
        for (size_t j = 0; j < DIMS; j++) {
            columns[j * STRIDE + c] = c < CENTRES ? fixture.centres[c * DIMS + j] : 0.0F;
        }
    }
    const struct answers expected = ask(&rbt_reference, fixture.run);
    for (size_t k = 0; rbt_choose_available(k) != NULL; k++) {
        struct answers got;
        const struct rbt_nearest_sparse_run run = {.offsets = offsets,
                                                   .indices = indices,
                                                   .values = fixture.points,
                                                   .rows = fixture.rows,
                                                   .count = POINTS,
                                                   .columns = columns,
                                                   .halves = fixture.halves,
                                                   .stride = STRIDE,
                                                   .scores = scores,
                                                   .found = {got.nearest, got.first, got.second}};
        rbt_choose_available(k)->nearest_sparse(&run);
        assert_same(&got, &expected, CENTRES);
    }
}

static void distances_are_those_of_the_reference(void **state)
{
    (void)state;
    make(29, 10);
    uint32_t nearest[POINTS];
    for (size_t i = 0; i < POINTS; i++) {
        nearest[i] = (uint32_t)(i % 10);
    }
    float expected[POINTS];
    float got[POINTS];
    struct rbt_distance_run run = {.points = fixture.points,
                                   .dims = 29,
                                   .begin = 3,
                                   .end = POINTS,
                                   .centres = fixture.centres,
                                   .nearest = nearest,
                                   .out = expected};
    rbt_reference.distance(&run);
    run.out = got;
    for (size_t k = 0; rbt_choose_available(k) != NULL; k++) {
        rbt_choose_available(k)->distance(&run);
        for (size_t i = 0; i < POINTS - 3; i++) {
            assert_float_equal(got[i], expected[i], 1e-4F * expected[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_set_finds_the_two_nearest),
        cmocka_unit_test(a_point_does_not_depend_on_its_neighbours),
        cmocka_unit_test(ties_go_to_the_first_centre),
        cmocka_unit_test(sparse_points_agree_with_dense_ones),
        cmocka_unit_test(distances_are_those_of_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
