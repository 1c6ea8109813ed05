/* math/fm_test.c - every set of kernels against the sum over pairs, finite differences, and the
 * textbook's steps. */
#include "base/test.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"
#include "math/choose.h"

enum { FEATURES = 12, EXAMPLES = 9, ENTRIES = 5, RANK_MAX = 20 };

/* A model and examples at random; features 0, 5 and 10 have no embedding, 3 and 5 no weight. */
struct fixture {
    uint64_t offsets[EXAMPLES + 1];
    float labels[EXAMPLES];
    uint32_t indices[EXAMPLES * ENTRIES];
    float values[EXAMPLES * ENTRIES];
    uint32_t rows[FEATURES];
    float weights[FEATURES];
    float embeddings[FEATURES * RANK_MAX];
    uint32_t row_room[ENTRIES];
    float value_room[ENTRIES];
    float sum_room[RANK_MAX];
    struct rbt_fm_run run;
};

static const size_t ranks[] = {1, 4, 7, 8, 16, 20};
enum { RANKS = sizeof ranks / sizeof ranks[0] };

static void fill(struct fixture *f, size_t rank, enum rbt_loss loss)
{
    struct rbt_rng rng;
    uint32_t row = 0;
    *f = (struct fixture){0};
    rbt_rng_init(&rng, 11, rank, 0);
    for (uint32_t j = 0; j < FEATURES; j++) {
        f->rows[j] = j % 5 == 0 ? RBT_FM_NONE : row++;
        f->weights[j] = j == 3 || j == 5 ? 0.0F : (float)rbt_rng_normal(&rng);
    }
    for (size_t k = 0; k < row * rank; k++) {
        f->embeddings[k] = 0.5F * (float)rbt_rng_normal(&rng);
    }
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        const uint32_t count = i % (ENTRIES + 1); /* the first has none */
        f->offsets[i + 1] = f->offsets[i] + count;
        f->labels[i] = rbt_rng_below(&rng, 2) == 0 ? -1.0F : 1.0F;
        for (uint32_t k = 0; k < count; k++) {
            f->indices[f->offsets[i] + k] = (i + 3 * k) % FEATURES; /* all different */
            f->values[f->offsets[i] + k] = (float)rbt_rng_normal(&rng);
        }
    }
    f->run = (struct rbt_fm_run){.loss = loss,
                                 .offsets = f->offsets,
                                 .labels = f->labels,
                                 .indices = f->indices,
                                 .values = f->values,
                                 .end = EXAMPLES,
                                 .rows = f->rows,
                                 .rank = rank,
                                 .weights = f->weights,
                                 .embeddings = f->embeddings,
                                 .bias = 0.25F,
                                 .row_room = f->row_room,
                                 .value_room = f->value_room,
                                 .sum_room = f->sum_room};
}

/* V_i, or NULL if it counts as zero. */
static const float *embedding(const struct rbt_fm_run *run, uint32_t j)
{
    const bool is_off = run->is_shrunk && run->weights[j] == 0.0F;
    return run->rows[j] == RBT_FM_NONE || is_off ? NULL
                                                 : run->embeddings + run->rows[j] * run->rank;
}

/* b + w'x + sum over pairs of x_i x_j V_i'V_j. */
static double pairwise(const struct rbt_fm_run *run, size_t i)
{
    double m = (double)run->bias;
    for (uint64_t k = run->offsets[i]; k < run->offsets[i + 1]; k++) {
        m += (double)run->weights[run->indices[k]] * (double)run->values[k];
        for (uint64_t l = run->offsets[i]; l < k; l++) {
            const float *a = embedding(run, run->indices[k]);
            const float *b = embedding(run, run->indices[l]);
            for (size_t f = 0; a != NULL && b != NULL && f < run->rank; f++) {
                m += (double)run->values[k] * (double)run->values[l] * (double)a[f] * (double)b[f];
            }
        }
    }
    return m;
}

static void margins_equal_the_sum_over_pairs(void **state)
{
    (void)state;
    struct fixture f;
    for (size_t set = 0; rbt_choose_available(set) != NULL; set++) {
        for (size_t r = 0; r < 2 * RANKS; r++) {
            float margins[EXAMPLES];
            fill(&f, ranks[r % RANKS], RBT_LOSS_LOGISTIC);
            f.run.is_shrunk = r >= RANKS;
            rbt_choose_available(set)->fm_margins(&f.run, margins);
            for (size_t i = 0; i < EXAMPLES; i++) {
                assert_true(fabs((double)margins[i] - pairwise(&f.run, i)) < 1e-4);
            }
        }
    }
}

static double loss_of(const struct rbt_fm_run *run)
{
    double sum = 0.0;
    for (size_t i = 0; i < EXAMPLES; i++) {
        sum += rbt_loss_at(run->loss, pairwise(run, i), (double)run->labels[i]).value;
    }
    return sum;
}

/* The slope of the loss if *parameter changes. */
static double difference(struct rbt_fm_run *run, float *parameter)
{
    const float before = *parameter;
    const float step = 1.0F / 512;
    *parameter = before + step;
    const double more = loss_of(run);
    *parameter = before - step;
    const double less = loss_of(run);
    *parameter = before;
    return (more - less) / (2.0 * (double)step);
}

static void gradients_are_finite_differences(void **state)
{
    (void)state;
    struct fixture f;
    for (size_t set = 0; rbt_choose_available(set) != NULL; set++) {
        for (size_t r = 0; r < 2 * RANKS; r++) {
            float weights[FEATURES] = {0};
            float embeddings[FEATURES * RANK_MAX] = {0};
            fill(&f, ranks[r % RANKS], r < RANKS ? RBT_LOSS_LOGISTIC : RBT_LOSS_SQUARED);
            struct rbt_fm_gradient gradient = {
                .factor = 2.0F, .weights = weights, .embeddings = embeddings};
            const double loss = rbt_choose_available(set)->fm_gradient(&f.run, &gradient);
            assert_true(fabs(loss - loss_of(&f.run)) < 1e-3);
            for (size_t j = 0; j < FEATURES; j++) {
                const double slope = difference(&f.run, &f.weights[j]);
                assert_true(fabs((double)weights[j] - 2.0 * slope) < 2e-3 * (1 + fabs(slope)));
            }
            for (size_t k = 0; k < FEATURES * f.run.rank; k++) {
                const double slope = difference(&f.run, &f.embeddings[k]);
                assert_true(fabs((double)embeddings[k] - 2.0 * slope) < 2e-3 * (1 + fabs(slope)));
            }
            const double slope = difference(&f.run, &f.run.bias);
            assert_true(fabs((double)gradient.bias - 2.0 * slope) < 2e-3 * (1 + fabs(slope)));
        }
    }
}

static void embeddings_of_zero_weights_have_no_gradient(void **state)
{
    (void)state;
    struct fixture f;
    float weights[FEATURES] = {0};
    float embeddings[FEATURES * RANK_MAX] = {0};
    fill(&f, 8, RBT_LOSS_LOGISTIC);
    f.run.is_shrunk = true;
    struct rbt_fm_gradient gradient = {
        .factor = 1.0F, .weights = weights, .embeddings = embeddings};
    (void)rbt_choose_kernels()->fm_gradient(&f.run, &gradient);
    for (size_t k = 0; k < 8; k++) {
        assert_true(embeddings[f.rows[3] * 8 + k] == 0.0F);
        assert_true(embeddings[f.rows[4] * 8 + k] != 0.0F);
    }
    assert_true(weights[3] != 0.0F); /* so that it can come back */
}

/* Equation 10.19 in double; *n and *z are its state. */
static double ftrl(const struct rbt_fm_steps *s, double share, double g, double w, double *z,
                   double *n)
{
    const double sigma = (sqrt(*n + g * g) - sqrt(*n)) / (double)s->lr;
    *z += sigma * w - g;
    *n += g * g;
    const double size = fabs(*z) - share * (double)s->l1;
    const double l2 = share * (double)s->l2;
    return size <= 0 ? 0.0
                     : copysign(size, *z) / (((double)s->beta + sqrt(*n)) / (double)s->lr + l2);
}

enum { STEP_RANK = 8, PASSES = 3 };

/* The textbook's model and state; its weights and embeddings are rounded after each step. */
struct textbook {
    struct fixture f;
    double z[FEATURES + 1]; /* the last is the bias's */
    double n[FEATURES + 1];
    double squares[FEATURES * STEP_RANK];
};

/* Equation 10.18 for one feature, with the penalty at the new V. */
static void adagrad(struct textbook *t, const struct rbt_fm_steps *s, uint64_t k, double g,
                    const double *sum)
{
    const double x = (double)t->f.values[k];
    const size_t row = t->f.rows[t->f.indices[k]];
    for (size_t e = 0; e < STEP_RANK; e++) {
        const size_t at = row * STEP_RANK + e;
        const double v = (double)t->f.embeddings[at];
        const double d = g * (x * sum[e] - x * x * v);
        t->squares[at] += (double)s->times_v[row] * d * d;
        const double rate = (double)s->lr_v / ((double)s->beta + sqrt(t->squares[at]));
        t->f.embeddings[at] = (float)((v - rate * d) / (1 + rate * (double)s->l2_v[row]));
    }
}

/* One example, as printed. */
static void textbook_step(struct textbook *t, const struct rbt_fm_steps *s, size_t i)
{
    struct fixture *f = &t->f;
    double sum[STEP_RANK] = {0};
    const double g = rbt_loss_at(f->run.loss, pairwise(&f->run, i), (double)f->labels[i]).slope;
    for (uint64_t k = f->offsets[i]; k < f->offsets[i + 1]; k++) {
        const float *v = embedding(&f->run, f->indices[k]);
        for (size_t e = 0; v != NULL && e < STEP_RANK; e++) {
            sum[e] += (double)f->values[k] * (double)v[e];
        }
    }
    for (uint64_t k = f->offsets[i]; k < f->offsets[i + 1]; k++) {
        const uint32_t j = f->indices[k];
        if (embedding(&f->run, j) != NULL) {
            adagrad(t, s, k, g, sum);
        }
        f->weights[j] = (float)ftrl(s, (double)s->shares[j], g * (double)f->values[k],
                                    (double)f->weights[j], &t->z[j], &t->n[j]);
    }
    f->run.bias = (float)ftrl(s, 0.0, g, (double)f->run.bias, &t->z[FEATURES], &t->n[FEATURES]);
}

static void compare_steps(const struct rbt_kernels *kernels)
{
    static struct textbook t; /* zero but for what is filled in here */
    struct fixture f;
    float shares[FEATURES];
    float l2_v[FEATURES];
    float times_v[FEATURES];
    float z[FEATURES] = {0};
    float root[FEATURES] = {0};
    float squares[FEATURES * STEP_RANK] = {0};
    struct rbt_fm_steps s = {.lr = 0.3F,
                             .lr_v = 0.2F,
                             .beta = 1.0F,
                             .l1 = 0.5F,
                             .l2 = 1.0F,
                             .shares = shares,
                             .l2_v = l2_v,
                             .times_v = times_v,
                             .z = z,
                             .root = root,
                             .squares = squares,
                             .has_bias = true};
    t = (struct textbook){0};
    fill(&f, STEP_RANK, RBT_LOSS_LOGISTIC);
    memset(f.weights, 0, sizeof f.weights);
    f.run.bias = 0.0F;
    f.run.is_shrunk = true;
    t.f = f;
    t.f.run.weights = t.f.weights;
    t.f.run.embeddings = t.f.embeddings;
    for (size_t j = 0; j < FEATURES; j++) {
        shares[j] = 0.1F + 0.1F * (float)j;
        l2_v[j] = 0.02F + 0.01F * (float)j;
        times_v[j] = 1.0F + 0.5F * (float)j;
    }
    for (size_t step = 0; step < (size_t)PASSES * EXAMPLES; step++) {
        textbook_step(&t, &s, step % EXAMPLES);
    }
    for (int pass = 0; pass < PASSES; pass++) {
        (void)kernels->fm_steps(&f.run, &s); /* the model is what is compared */
    }
    size_t zeros = 0;
    for (size_t j = 0; j < FEATURES; j++) {
        assert_true(fabsf(f.weights[j] - t.f.weights[j]) < 1e-4F);
        zeros += f.weights[j] == 0.0F;
    }
    for (size_t k = 0; k < (size_t)FEATURES * STEP_RANK; k++) {
        assert_true(fabsf(f.embeddings[k] - t.f.embeddings[k]) < 1e-4F);
    }
    assert_true(fabsf(f.run.bias - t.f.run.bias) < 1e-4F);
    assert_true(zeros > 0 && zeros < FEATURES);
}

static void steps_equal_the_textbook(void **state)
{
    (void)state;
    for (size_t set = 0; rbt_choose_available(set) != NULL; set++) {
        compare_steps(rbt_choose_available(set));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(margins_equal_the_sum_over_pairs),
        cmocka_unit_test(gradients_are_finite_differences),
        cmocka_unit_test(embeddings_of_zero_weights_have_no_gradient),
        cmocka_unit_test(steps_equal_the_textbook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
