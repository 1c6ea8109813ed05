/* algo/lda_sampler_test.c - every sampler draws from the exact distribution, and counts right. */
#include "base/test.h"

#include <math.h>
#include <stdlib.h>

#include "algo/lda_sampler.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "math/choose.h"

/* One document with a token of word 0 and one of word 1; other documents have words, too. */
enum { WORDS = 2, TOPICS_MAX = 130, DRAWS = 60000 };
static const float alpha = 0.3F;
static const float beta = 0.2F;
static const float vocabulary = 4; /* two words do not occur here */

struct fixture {
    size_t topic_count;
    float others[WORDS * TOPICS_MAX]; /* counts of the other documents */
    float word_topics[WORDS * TOPICS_MAX];
    float sums[TOPICS_MAX];
    double exact[TOPICS_MAX * TOPICS_MAX]; /* P(z_0 = i, z_1 = j) */
    uint32_t seen[TOPICS_MAX * TOPICS_MAX];
    uint16_t topics[2];
    struct rbt_lda_sampler sampler;
};

static const uint64_t offsets[] = {0, 2};
static const uint32_t tokens[] = {0, 1};
static double logs[3];

static void fill(struct fixture *f, enum rbt_lda_kind kind, size_t topic_count)
{
    f->topic_count = topic_count;
    double sums[TOPICS_MAX] = {0};
    for (size_t i = 0; i < WORDS * topic_count; i++) {
        const double u = rbt_rng_uniform_at(7, topic_count, i);
        f->others[i] = u < 0.6 ? 0 : (float)floor(20 * u * u);
        sums[i % topic_count] += (double)f->others[i];
    }
    double total = 0;
    for (size_t i = 0; i < topic_count; i++) {
        for (size_t j = 0; j < topic_count; j++) {
            const double document = (double)alpha * ((double)alpha + (i == j ? 1 : 0));
            const double words = ((double)f->others[i] + (double)beta) *
                                 ((double)f->others[topic_count + j] + (double)beta);
            const double smooth = (double)beta * (double)vocabulary;
            const double all = (sums[i] + smooth) * (sums[j] + smooth + (i == j ? 1 : 0));
            f->exact[i * topic_count + j] = document * words / all;
            total += document * words / all;
        }
    }
    for (size_t i = 0; i < topic_count * topic_count; i++) {
        f->exact[i] /= total;
    }
    for (size_t k = 0; k < topic_count; k++) {
        f->sums[k] = (float)sums[k];
    }
    memcpy(f->word_topics, f->others, sizeof f->others);
    f->word_topics[0] += 1; /* both begin with topic 0 */
    f->word_topics[topic_count] += 1;
    f->sums[0] += 2;
    for (size_t n = 0; n < 3; n++) {
        logs[n] = log((double)n + (double)alpha);
    }
    f->sampler.topics = (struct rbt_topics){.alpha = alpha,
                                            .beta = beta,
                                            .beta_sum = beta * vocabulary,
                                            .word_topics = f->word_topics,
                                            .sums = f->sums,
                                            .offsets = offsets,
                                            .words = tokens,
                                            .topics = f->topics,
                                            .logs = logs,
                                            .random = 5};
    assert_ok(rbt_lda_sampler_open(&f->sampler, kind, topic_count, WORDS));
}

/* The statistic of Pearson's test; cells with little in them count as one. */
static double chi_square(const struct fixture *f, size_t *freedom)
{
    double statistic = 0;
    double rest_exact = 0;
    double rest_seen = 0;
    *freedom = 0;
    for (size_t i = 0; i < f->topic_count * f->topic_count; i++) {
        const double expected = f->exact[i] * DRAWS;
        if (expected < 10) {
            rest_exact += expected;
            rest_seen += (double)f->seen[i];
        } else {
            const double difference = (double)f->seen[i] - expected;
            statistic += difference * difference / expected;
            ++*freedom;
        }
    }
    if (rest_exact > 10) {
        statistic += (rest_seen - rest_exact) * (rest_seen - rest_exact) / rest_exact;
    }
    return statistic;
}

/* Counts are what they were at the beginning, and the two tokens. */
static void check_counts(const struct fixture *f)
{
    const size_t topic_count = f->topic_count;
    float sum = 0;
    for (size_t k = 0; k < topic_count; k++) {
        for (size_t w = 0; w < WORDS; w++) {
            const float own = f->topics[w] == k ? 1 : 0;
            assert_true(f->word_topics[w * topic_count + k] ==
                        f->others[w * topic_count + k] + own);
        }
        assert_true(f->sums[k] == f->word_topics[k] + f->word_topics[topic_count + k]);
        const int moved = (f->topics[0] == k) + (f->topics[1] == k) - (k == 0 ? 2 : 0);
        assert_int_equal(f->sampler.topics.sum_moves[k], moved);
        assert_int_equal(f->sampler.topics.document[k], 0);
        sum += f->sums[k];
    }
    assert_true(sum > 2);
}

static void try(enum rbt_lda_kind kind, size_t topic_count)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    fill(f, kind, topic_count);
    const int thinning = kind == RBT_LDA_ALIAS ? 6 : 4;
    for (int i = 0; i < DRAWS; i++) {
        if (i % 1000 == 0) {
            assert_ok(rbt_lda_sampler_refresh(&f->sampler));
        }
        for (int k = 0; k < thinning; k++) { /* so that draws are nearly independent */
            rbt_lda_sampler_run(&f->sampler, 0, 1);
        }
        f->seen[f->topics[0] * topic_count + f->topics[1]]++;
    }
    check_counts(f);
    size_t freedom = 0;
    const double statistic = chi_square(f, &freedom);
    /* Its mean is the number of degrees of freedom, and its variance twice that. */
    const double limit = (double)freedom + 5 * sqrt(2 * (double)freedom);
    if (statistic > limit) {
        fail_msg("%s, %zu topics: %.1f is above %.1f", rbt_lda_kinds[kind], topic_count, statistic,
                 limit);
    }
    assert_true(freedom > 8);
    rbt_lda_sampler_close(&f->sampler);
    free(f);
    assert_int_equal(rbt_alloc_live(), 0);
}

/* Few topics, whole blocks of 16, a rest, more than 64 bits. */
static const size_t topic_counts[] = {5, 16, 23, 32, 100, TOPICS_MAX};
enum { TRIES = sizeof topic_counts / sizeof topic_counts[0] };

static void dense_draws_are_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRIES; i++) {
        try(RBT_LDA_DENSE, topic_counts[i]);
    }
}

static void sparse_draws_are_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRIES; i++) {
        try(RBT_LDA_SPARSE, topic_counts[i]);
    }
}

static void alias_draws_are_exact(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRIES; i++) {
        try(RBT_LDA_ALIAS, topic_counts[i]);
    }
}

/* The same draws whatever the processor, but for rounding: one sweep over random counts. */
static void versions_agree(void **state)
{
    (void)state;
    void (*const versions[])(struct rbt_topics *, size_t, size_t) = {
        rbt_topics_dense_baseline,
#if defined(__x86_64__)
        rbt_topics_dense_avx2,
        rbt_topics_dense_avx512
#endif
    };
    uint16_t first[2] = {0};
    for (size_t i = 0; rbt_choose_available(i) != NULL; i++) {
        struct fixture *f = calloc(1, sizeof *f);
        assert_non_null(f);
        fill(f, RBT_LDA_DENSE, 100);
        assert_ok(rbt_lda_sampler_refresh(&f->sampler));
        for (int k = 0; k < 100; k++) {
            versions[i](&f->sampler.topics, 0, 1);
        }
        check_counts(f);
        if (i == 0) {
            memcpy(first, f->topics, sizeof first);
        }
        assert_memory_equal(first, f->topics, sizeof first);
        rbt_lda_sampler_close(&f->sampler);
        free(f);
    }
}

static void the_documents_likelihood_is_exact(void **state)
{
    (void)state;
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    fill(f, RBT_LDA_DENSE, 20);
    assert_ok(rbt_lda_sampler_refresh(&f->sampler));
    rbt_lda_sampler_run(&f->sampler, 0, 1);
    const double a = (double)alpha;
    const double expected =
        f->topics[0] == f->topics[1] ? lgamma(2 + a) - lgamma(a) : 2 * (lgamma(1 + a) - lgamma(a));
    assert_true(fabs(f->sampler.topics.log_documents - expected) < 1e-6);
    rbt_lda_sampler_close(&f->sampler);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_draws_are_exact),
        cmocka_unit_test(sparse_draws_are_exact),
        cmocka_unit_test(alias_draws_are_exact),
        cmocka_unit_test(versions_agree),
        cmocka_unit_test(the_documents_likelihood_is_exact),
    };
    return cmocka_run_group_tests_name("algo/lda_sampler", tests, NULL, NULL);
}
