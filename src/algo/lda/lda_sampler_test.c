/* algo/lda/lda_sampler_test.c - every sampler draws from the exact distribution, and counts right.
 */
#include "base/test.h"

#include <math.h>
#include <stdlib.h>

#include "algo/lda/lda_sampler.h"
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

/* --- A document with several topics ---------------------------------------------------------- */

/* Four tokens of three words. Only six of the topics are likely, on both sides of a border of 64:
 * the others have so many tokens that a word is hardly ever theirs. */
enum { LONG = 4, LONG_WORDS = 3, LIKELY = 6, LONG_TOPICS = 70, LONG_DRAWS = 100000 };
enum { STATES = LIKELY * LIKELY * LIKELY * LIKELY };
static const size_t likely[LIKELY] = {1, 3, 40, 63, 64, 69};
static const uint64_t long_offsets[] = {0, LONG};
static const uint32_t long_tokens[LONG] = {0, 1, 0, 2};
static const float long_beta = 2.0F; /* much of the weight is n_dk b i_k */

struct document {
    float others[LONG_WORDS * LONG_TOPICS];
    float word_topics[LONG_WORDS * LONG_TOPICS];
    float sums[LONG_TOPICS];
    double exact[STATES]; /* P(z), z_0 the last digit to base LIKELY */
    uint32_t seen[STATES];
    uint32_t strangers; /* draws of topics that are not likely */
    uint16_t topics[LONG];
    double logs[LONG + 1];
    struct rbt_lda_sampler sampler;
};

/* The weight of a state: one token after the other is added. */
static double weight_of(const struct document *d, size_t at)
{
    double weight = 1;
    size_t drawn[LONG];
    for (size_t i = 0; i < LONG; i++, at /= LIKELY) {
        const size_t k = likely[at % LIKELY];
        double in_document = (double)alpha;
        double of_word = (double)d->others[long_tokens[i] * LONG_TOPICS + k] + (double)long_beta;
        double in_all = (double)d->sums[k] + (double)long_beta * (double)vocabulary;
        for (size_t j = 0; j < i; j++) {
            in_document += drawn[j] == k ? 1 : 0;
            in_all += drawn[j] == k ? 1 : 0;
            of_word += drawn[j] == k && long_tokens[j] == long_tokens[i] ? 1 : 0;
        }
        drawn[i] = k;
        weight *= in_document * of_word / in_all;
    }
    return weight;
}

static void fill_document(struct document *d, enum rbt_lda_kind kind)
{
    double total = 0;
    for (size_t k = 0; k < LONG_TOPICS; k++) {
        d->sums[k] = 1e7F;
    }
    for (size_t i = 0; i < LIKELY; i++) {
        const size_t k = likely[i];
        d->sums[k] = (float)(2 * i + 1); /* of words that do not occur here */
        for (size_t w = 0; w < LONG_WORDS; w++) {
            const float count = (i + w) % 3 == 0 ? (float)(i + 1) : 0.0F;
            d->others[w * LONG_TOPICS + k] = count;
            d->sums[k] += count;
        }
    }
    for (size_t at = 0; at < STATES; at++) {
        d->exact[at] = weight_of(d, at);
        total += d->exact[at];
    }
    for (size_t at = 0; at < STATES; at++) {
        d->exact[at] /= total;
    }
    memcpy(d->word_topics, d->others, sizeof d->others);
    for (size_t i = 0; i < LONG; i++) {
        d->topics[i] = (uint16_t)likely[i];
        d->word_topics[long_tokens[i] * LONG_TOPICS + likely[i]] += 1;
        d->sums[likely[i]] += 1;
    }
    for (size_t n = 0; n <= LONG; n++) {
        d->logs[n] = log((double)n + (double)alpha);
    }
    d->sampler.topics = (struct rbt_topics){.alpha = alpha,
                                            .beta = long_beta,
                                            .beta_sum = long_beta * vocabulary,
                                            .word_topics = d->word_topics,
                                            .sums = d->sums,
                                            .offsets = long_offsets,
                                            .words = long_tokens,
                                            .topics = d->topics,
                                            .logs = d->logs,
                                            .random = 9};
    assert_ok(rbt_lda_sampler_open(&d->sampler, kind, LONG_TOPICS, LONG_WORDS));
}

static void note_state(struct document *d)
{
    size_t at = 0;
    for (size_t i = LONG; i-- > 0;) {
        size_t digit = 0;
        while (digit < LIKELY && likely[digit] != d->topics[i]) {
            digit++;
        }
        if (digit == LIKELY) {
            d->strangers++;
            return;
        }
        at = at * LIKELY + digit;
    }
    d->seen[at]++;
}

static void draws_of_several_topics_are_exact(void **state)
{
    (void)state;
    static const enum rbt_lda_kind kinds[] = {RBT_LDA_DENSE, RBT_LDA_SPARSE, RBT_LDA_ALIAS};
    for (size_t kind = 0; kind < 3; kind++) {
        struct document *d = calloc(1, sizeof *d);
        assert_non_null(d);
        fill_document(d, kinds[kind]);
        for (int i = 0; i < LONG_DRAWS; i++) {
            if (i % 1000 == 0) {
                assert_ok(rbt_lda_sampler_refresh(&d->sampler));
            }
            for (int k = 0; k < (kinds[kind] == RBT_LDA_ALIAS ? 8 : 4); k++) {
                rbt_lda_sampler_run(&d->sampler, 0, 1);
            }
            note_state(d);
        }
        double statistic = 0;
        size_t freedom = 0;
        for (size_t at = 0; at < STATES; at++) {
            const double expected = d->exact[at] * LONG_DRAWS;
            if (expected >= 10) {
                statistic += (d->seen[at] - expected) * (d->seen[at] - expected) / expected;
                freedom++;
            }
        }
        const double limit = (double)freedom + 5 * sqrt(2 * (double)freedom);
        if (statistic > limit) {
            fail_msg("%s: %.1f is above %.1f", rbt_lda_kinds[kinds[kind]], statistic, limit);
        }
        assert_true(freedom > 500);
        assert_true(d->strangers < 50);
        rbt_lda_sampler_close(&d->sampler);
        free(d);
    }
}

/* --- Versions -------------------------------------------------------------------------------- */

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
        cmocka_unit_test(draws_of_several_topics_are_exact),
        cmocka_unit_test(versions_agree),
        cmocka_unit_test(the_documents_likelihood_is_exact),
    };
    return cmocka_run_group_tests_name("algo/lda_sampler", tests, NULL, NULL);
}
