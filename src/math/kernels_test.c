/* math/kernels_test.c - every set of kernels that this processor runs against the reference. */
#include "base/test.h"

#include <math.h>

#include "base/rng.h"
#include "math/choose.h"
#include "math/reference.h"

enum { DIM = 301, EXAMPLES = 40, ROW_MAX = 70 };

struct problem {
    uint64_t offsets[EXAMPLES + 1];
    float labels[EXAMPLES];
    float step_max[EXAMPLES];
    uint32_t indices[EXAMPLES * ROW_MAX];
    float values[EXAMPLES * ROW_MAX];
    float weights[DIM];
};

/* Rows of 0 .. ROW_MAX-1 entries with increasing indices. */
static void draw(struct problem *p, uint64_t seed)
{
    struct rbt_rng rng;
    rbt_rng_init(&rng, seed, 0, 0);
    size_t at = 0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        p->offsets[i] = at;
        const size_t n = i < ROW_MAX ? i : ROW_MAX - 1;
        uint32_t index = (uint32_t)rbt_rng_below(&rng, 3);
        for (size_t k = 0; k < n; k++) {
            p->indices[at] = index;
            p->values[at++] = (float)rbt_rng_normal(&rng);
            index += 1 + (uint32_t)rbt_rng_below(&rng, 4);
        }
        p->labels[i] = rbt_rng_below(&rng, 2) == 0 ? -1.0F : 1.0F;
        p->step_max[i] = (float)rbt_rng_uniform(&rng) * 0.2F;
    }
    p->offsets[EXAMPLES] = at;
    for (size_t j = 0; j < DIM; j++) {
        p->weights[j] = (float)rbt_rng_normal(&rng);
    }
}

static void assert_near(const float *x, const float *y, size_t n, double tolerance)
{
    for (size_t k = 0; k < n; k++) {
        const double error = fabs((double)x[k] - (double)y[k]);
        assert_true(error <= tolerance * (1.0 + fabs((double)y[k])));
    }
}

static struct rbt_sgd_run run_of(const struct problem *p, enum rbt_loss loss, float *weights)
{
    return (struct rbt_sgd_run){.loss = loss,
                                .offsets = p->offsets,
                                .labels = p->labels,
                                .indices = p->indices,
                                .values = p->values,
                                .begin = 0,
                                .end = EXAMPLES,
                                .weights = weights,
                                .bias = 0.1F,
                                .bias_rate = 1.0F,
                                .eta = 0.05F,
                                .batch = 1};
}

static void check_sgd(const struct rbt_kernels *set, size_t batch, int is_limited)
{
    const enum rbt_loss losses[] = {RBT_LOSS_LOGISTIC, RBT_LOSS_HINGE, RBT_LOSS_SQUARED};
    for (size_t l = 0; l < 3; l++) {
        struct problem p;
        float expected[DIM];
        float scratch[EXAMPLES];
        draw(&p, 7 + l);
        memcpy(expected, p.weights, sizeof expected);
        struct rbt_sgd_run fast = run_of(&p, losses[l], p.weights);
        fast.batch = batch;
        fast.eta = losses[l] == RBT_LOSS_SQUARED ? 0.005F : 0.05F; /* or it would diverge */
        fast.coefficients = scratch;
        fast.step_max = is_limited ? p.step_max : NULL;
        struct rbt_sgd_run slow = fast;
        slow.weights = expected;
        const double sum = rbt_reference.sgd(&slow);
        assert_true(fabs(set->sgd(&fast) - sum) < 1e-4 * (1 + sum));
        assert_near(p.weights, expected, DIM, 1e-4);
        assert_near(&fast.bias, &slow.bias, 1, 1e-4);
    }
}

static void sgd_matches(void **state)
{
    (void)state;
    for (size_t s = 0; rbt_choose_available(s) != NULL; s++) {
        for (int is_limited = 0; is_limited < 2; is_limited++) {
            check_sgd(rbt_choose_available(s), 1, is_limited);
            check_sgd(rbt_choose_available(s), 7, is_limited);
        }
    }
}

/* Steps or a gradient, with so many classes and in such batches. */
static void check_softmax(const struct rbt_kernels *set, size_t classes, size_t batch, int is_step)
{
    enum { CLASSES_MAX = 20 };
    struct problem p;
    static float weights[3][DIM * CLASSES_MAX]; /* fast, slow, and where gradients are taken */
    float biases[3][CLASSES_MAX];
    float scratch[EXAMPLES * CLASSES_MAX];
    struct rbt_rng rng;
    draw(&p, 11 + classes);
    rbt_rng_init(&rng, 3, 0, 0);
    for (size_t i = 0; i < EXAMPLES; i++) {
        p.labels[i] = (float)rbt_rng_below(&rng, classes);
    }
    for (size_t k = 0; k < DIM * classes; k++) {
        weights[0][k] = weights[1][k] = weights[2][k] = (float)rbt_rng_normal(&rng) * 0.3F;
    }
    for (size_t c = 0; c < classes; c++) {
        biases[0][c] = biases[1][c] = biases[2][c] = (float)c * 0.1F;
    }
    double sums[2];
    for (size_t i = 0; i < 2; i++) {
        const struct rbt_softmax_run run = {.classes = classes,
                                            .offsets = p.offsets,
                                            .labels = p.labels,
                                            .indices = p.indices,
                                            .values = p.values,
                                            .step_max = is_step ? p.step_max : NULL,
                                            .begin = 2,
                                            .end = EXAMPLES,
                                            .weights = weights[is_step ? i : 2],
                                            .bias = biases[is_step ? i : 2],
                                            .rate = is_step ? -0.05F : 2.0F,
                                            .batch = batch,
                                            .target = weights[i],
                                            .bias_target = classes == 3 ? NULL : biases[i],
                                            .coefficients = scratch};
        sums[i] = i == 0 ? set->softmax(&run) : rbt_reference.softmax(&run);
    }
    assert_true(fabs(sums[0] - sums[1]) < 1e-4 * (1 + sums[1]));
    assert_near(weights[0], weights[1], DIM * classes, 1e-4);
    assert_near(biases[0], biases[1], classes, 1e-4);
}

static void softmax_matches(void **state)
{
    (void)state;
    const size_t classes[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 16, 20};
    for (size_t s = 0; rbt_choose_available(s) != NULL; s++) {
        for (size_t i = 0; i < sizeof classes / sizeof classes[0]; i++) {
            check_softmax(rbt_choose_available(s), classes[i], 1, 0);
            check_softmax(rbt_choose_available(s), classes[i], 1, 1);
            check_softmax(rbt_choose_available(s), classes[i], 7, 1);
        }
    }
}

static void gradient_matches(void **state)
{
    (void)state;
    const enum rbt_loss losses[] = {RBT_LOSS_LOGISTIC, RBT_LOSS_HINGE, RBT_LOSS_SQUARED};
    for (size_t s = 0; rbt_choose_available(s) != NULL; s++) {
        for (size_t l = 0; l < 3; l++) {
            struct problem p;
            float fast[DIM] = {0.5F};
            float slow[DIM] = {0.5F};
            draw(&p, 7 + l);
            struct rbt_gradient_run run = {.loss = losses[l],
                                           .offsets = p.offsets,
                                           .labels = p.labels,
                                           .indices = p.indices,
                                           .values = p.values,
                                           .begin = 3,
                                           .end = EXAMPLES,
                                           .weights = p.weights,
                                           .bias = 0.1F,
                                           .factor = 0.25F,
                                           .gradient = slow,
                                           .bias_gradient = 2.0F};
            struct rbt_gradient_run other = run;
            const double sum = rbt_reference.gradient(&run);
            other.gradient = fast;
            assert_true(fabs(rbt_choose_available(s)->gradient(&other) - sum) < 1e-4 * (1 + sum));
            assert_near(fast, slow, DIM, 1e-4);
            assert_near(&other.bias_gradient, &run.bias_gradient, 1, 1e-4);
        }
    }
}

/* A step of SGD over a batch of everything is one along the mean of the gradients. */
static void gradient_is_what_sgd_follows(void **state)
{
    (void)state;
    struct problem p;
    float gradient[DIM] = {0};
    float scratch[EXAMPLES];
    draw(&p, 9);
    struct rbt_gradient_run run = {.loss = RBT_LOSS_LOGISTIC,
                                   .offsets = p.offsets,
                                   .labels = p.labels,
                                   .indices = p.indices,
                                   .values = p.values,
                                   .end = EXAMPLES,
                                   .weights = p.weights,
                                   .bias = 0.1F,
                                   .factor = 1.0F / EXAMPLES,
                                   .gradient = gradient};
    (void)rbt_choose_kernels()->gradient(&run); /* the losses are not the question here */
    float weights[DIM];
    memcpy(weights, p.weights, sizeof weights);
    struct rbt_sgd_run sgd = run_of(&p, RBT_LOSS_LOGISTIC, weights);
    sgd.batch = EXAMPLES;
    sgd.coefficients = scratch;
    (void)rbt_choose_kernels()->sgd(&sgd);
    for (size_t j = 0; j < DIM; j++) {
        p.weights[j] -= sgd.eta * gradient[j];
    }
    assert_near(p.weights, weights, DIM, 1e-6);
    assert_true(fabsf(0.1F - sgd.eta * run.bias_gradient - sgd.bias) < 1e-6F);
}

static void sparse_vectors_match(void **state)
{
    (void)state;
    for (size_t s = 0; rbt_choose_available(s) != NULL; s++) {
        const struct rbt_kernels *set = rbt_choose_available(s);
        struct problem p;
        float expected[DIM];
        draw(&p, 3);
        memcpy(expected, p.weights, sizeof expected);
        for (size_t i = 0; i < EXAMPLES; i++) {
            const struct rbt_sparse x = {.indices = p.indices + p.offsets[i],
                                         .values = p.values + p.offsets[i],
                                         .count = (size_t)(p.offsets[i + 1] - p.offsets[i])};
            const double sum = rbt_reference.sparse_dot(&x, expected);
            assert_true(fabs(set->sparse_dot(&x, expected) - sum) < 1e-12 * (1 + fabs(sum)));
            set->sparse_axpy(0.3F, &x, p.weights);
            rbt_reference.sparse_axpy(0.3F, &x, expected);
        }
        assert_near(p.weights, expected, DIM, 1e-6);
    }
}

static void dense_vectors_match(void **state)
{
    (void)state;
    struct problem a;
    struct problem b;
    draw(&a, 1);
    draw(&b, 2);
    for (size_t s = 0; rbt_choose_available(s) != NULL; s++) {
        const struct rbt_kernels *set = rbt_choose_available(s);
        for (size_t n = 0; n < DIM; n += 1 + n / 8) {
            const float *x = a.weights;
            const float *y = b.weights;
            assert_true(fabs(set->dot(x, y, n) - rbt_reference.dot(x, y, n)) < 1e-10);
            assert_true(fabs(set->norm1(x, n) - rbt_reference.norm1(x, n)) < 1e-10);
            assert_true(fabs(set->norm2_squared(x, n) - rbt_reference.norm2_squared(x, n)) < 1e-10);
        }
    }
}

static void check_shrink(const struct rbt_kernels *set, const struct rbt_shrink *shrink)
{
    struct problem p;
    float expected[DIM];
    draw(&p, 11);
    memcpy(expected, p.weights, sizeof expected);
    set->shrink(shrink, p.weights, DIM);
    rbt_reference.shrink(shrink, expected, DIM);
    assert_near(p.weights, expected, DIM, 1e-6);
}

static void shrink_and_difference_match(void **state)
{
    (void)state;
    struct problem p;
    struct problem before;
    float scales[DIM];
    float pulls[DIM];
    float decays[DIM];
    draw(&p, 5);
    draw(&before, 6);
    for (size_t j = 0; j < DIM; j++) {
        scales[j] = 0.5F + fabsf(p.weights[j]);
        pulls[j] = 0.1F + fabsf(before.weights[j]);
        decays[j] = 0.2F + fabsf(before.weights[DIM - 1 - j]);
    }
    for (size_t s = 0; rbt_choose_available(s) != NULL; s++) {
        const struct rbt_kernels *set = rbt_choose_available(s);
        check_shrink(set, &(struct rbt_shrink){scales, pulls, decays, 0.1F, 0.0F, INFINITY});
        check_shrink(set, &(struct rbt_shrink){scales, pulls, decays, 0.1F, 0.2F, INFINITY});
        check_shrink(set, &(struct rbt_shrink){scales, pulls, decays, 0.0F, 0.2F, 0.8F});
        for (size_t width = 1; width < 18; width++) {
            const struct rbt_difference d = {p.weights, before.weights, scales, DIM / width, width};
            float fast[DIM] = {0};
            float slow[DIM] = {0};
            set->difference(&d, fast);
            rbt_reference.difference(&d, slow);
            assert_memory_equal(fast, slow, sizeof fast);
        }
    }
}

static void mf_matches(void **state)
{
    (void)state;
    enum { USERS = 9, ITEMS = 7, RATINGS = 60, RANK_MAX = 64 };
    static float factors[4][USERS * RANK_MAX];
    struct problem p;
    uint32_t users[RATINGS];
    uint32_t items[RATINGS];
    struct rbt_mf_steps steps[USERS + ITEMS];
    draw(&p, 13);
    for (uint32_t k = 0; k < RATINGS; k++) {
        users[k] = k * 5 % USERS;
        items[k] = k * 11 % ITEMS;
    }
    for (size_t i = 0; i < USERS + ITEMS; i++) {
        steps[i] = (struct rbt_mf_steps){0.005F * (float)i, 0.08F - 0.005F * (float)i};
    }
    for (size_t s = 0; rbt_choose_available(s) != NULL; s++) {
        for (size_t rank = 1; rank <= RANK_MAX; rank += rank < 18 ? 1 : 7) {
            for (size_t j = 0; j < USERS * RANK_MAX; j++) {
                factors[0][j] = factors[1][j] = (float)rbt_rng_normal_at(1, j, 0) * 0.3F;
                factors[2][j] = factors[3][j] = (float)rbt_rng_normal_at(2, j, 0) * 0.3F;
            }
            float biases[2][USERS + ITEMS] = {0};
            struct rbt_mf_run run = {users,
                                     items,
                                     p.values,
                                     0,
                                     RATINGS,
                                     factors[0],
                                     factors[2],
                                     rank,
                                     NULL,
                                     NULL,
                                     0.5F,
                                     0.02F,
                                     0.1F,
                                     rank % 3 == 0,
                                     rank % 4 < 2 ? steps : NULL,
                                     rank % 4 < 2 ? steps + USERS : NULL};
            run.user_biases = rank % 2 == 0 ? biases[0] : NULL;
            run.item_biases = rank % 2 == 0 ? biases[0] + USERS : NULL;
            const double fast = rbt_choose_available(s)->mf(&run);
            run.user_factors = factors[1];
            run.item_factors = factors[3];
            run.user_biases = rank % 2 == 0 ? biases[1] : NULL;
            run.item_biases = rank % 2 == 0 ? biases[1] + USERS : NULL;
            const double slow = rbt_reference.mf(&run);
            assert_true(fabs(fast - slow) < 1e-3 * (1 + slow));
            assert_near(factors[0], factors[1], USERS * rank, 1e-4);
            assert_near(factors[2], factors[3], ITEMS * rank, 1e-4);
            assert_near(biases[0], biases[1], USERS + ITEMS, 1e-4);
        }
    }
}

static void mf_gradient_matches(void **state)
{
    (void)state;
    enum { USERS = 9, ITEMS = 7, RATINGS = 60, RANK_MAX = 64, ALL = USERS + ITEMS };
    static float factors[ALL * RANK_MAX];
    static float gradients[2][ALL * RANK_MAX];
    struct problem p;
    uint32_t users[RATINGS];
    uint32_t items[RATINGS];
    draw(&p, 13);
    for (uint32_t k = 0; k < RATINGS; k++) {
        users[k] = k * 5 % USERS;
        items[k] = k * 11 % ITEMS;
    }
    for (size_t j = 0; j < ALL * RANK_MAX; j++) {
        factors[j] = (float)rbt_rng_normal_at(1, j, 0) * 0.3F;
    }
    for (size_t s = 0; rbt_choose_available(s) != NULL; s++) {
        for (size_t rank = 1; rank <= RANK_MAX; rank += rank < 18 ? 1 : 7) {
            float biases[ALL];
            float bias_gradients[2][ALL] = {0};
            double sums[2];
            memcpy(biases, factors, sizeof biases);
            memset(gradients, 0, sizeof gradients);
            struct rbt_mf_run at = {users, items, p.values, 2,    RATINGS, factors, NULL, rank,
                                    NULL,  NULL,  0.5F,     0.0F, 0.1F,    false,   NULL, NULL};
            at.item_factors = factors + USERS * rank;
            at.user_biases = rank % 2 == 0 ? biases : NULL;
            at.item_biases = rank % 2 == 0 ? biases + USERS : NULL;
            for (int which = 0; which < 2; which++) {
                struct rbt_mf_gradient_run run = {.at = &at, .user_factors = gradients[which]};
                run.item_factors = gradients[which] + USERS * rank;
                run.user_biases = rank % 2 == 0 ? bias_gradients[which] : NULL;
                run.item_biases = rank % 2 == 0 ? bias_gradients[which] + USERS : NULL;
                sums[which] = which == 0 ? rbt_choose_available(s)->mf_gradient(&run)
                                         : rbt_reference.mf_gradient(&run);
            }
            assert_true(fabs(sums[0] - sums[1]) < 1e-3 * (1 + sums[1]));
            assert_near(gradients[0], gradients[1], ALL * rank, 1e-4);
            assert_near(bias_gradients[0], bias_gradients[1], ALL, 1e-4);
        }
    }
}

/* The step of one rating is along the negative gradient of (e^2 + l2 (|p|^2 + |q|^2)) / 2. */
static void mf_step_descends(void **state)
{
    (void)state;
    const uint32_t zero = 0;
    const float rating = 3.0F;
    for (int which = 0; which < 8; which++) {
        float f[8] = {0.3F, -0.2F, 0.5F, 0.1F, 0.4F, 0.7F, -0.6F, 0.2F};
        const double h = 1e-4;
        double objective[2];
        for (int side = 0; side < 2; side++) {
            double g[8];
            for (int j = 0; j < 8; j++) {
                g[j] = (double)f[j] + (j == which ? (side == 0 ? -h : h) : 0.0);
            }
            const double e = 3.0 - (g[0] * g[4] + g[1] * g[5] + g[2] * g[6] + g[3] * g[7]);
            objective[side] = e * e / 2;
            for (int j = 0; j < 8; j++) {
                objective[side] += 0.1 * g[j] * g[j] / 2;
            }
        }
        const double slope = (objective[1] - objective[0]) / (2 * h);
        const double old = (double)f[which];
        const struct rbt_mf_run run = {&zero, &zero, &rating, 0,     1,    f,     f + 4, 4,
                                       NULL,  NULL,  0.0F,    0.01F, 0.1F, false, NULL,  NULL};
        (void)rbt_choose_kernels()->mf(&run); /* the sum of errors is not the question here */
        assert_true(fabs((double)f[which] - (old - 0.01 * slope)) < 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_matches),
        cmocka_unit_test(softmax_matches),
        cmocka_unit_test(gradient_matches),
        cmocka_unit_test(gradient_is_what_sgd_follows),
        cmocka_unit_test(sparse_vectors_match),
        cmocka_unit_test(dense_vectors_match),
        cmocka_unit_test(shrink_and_difference_match),
        cmocka_unit_test(mf_matches),
        cmocka_unit_test(mf_gradient_matches),
        cmocka_unit_test(mf_step_descends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
