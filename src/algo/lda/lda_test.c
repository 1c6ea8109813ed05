/* algo/lda/lda_test.c - topics are found, counts are exact, and workers do not change what is
 * right. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/lda/lda.h"
#include "algo/lda/lda_model.h"
#include "algo/lda/lda_sampler.h"
#include "algo/lda/lda_words.h"
#include "base/error.h"
#include "base/rng.h"

/* Documents that are about one of two things, in words of their own and words of all. */
enum { DOCUMENTS = 60, TOKENS = 40, EPOCHS = 12 };
static const char *const own[2][4] = {{"moon", "star", "orbit", "comet"},
                                      {"bread", "flour", "oven", "yeast"}};
static const char *const shared[2] = {"and", "then"};

struct fixture {
    char path[64];
    char model_path[80];
    struct rbt_train_options options;
    struct rbt_lda_config config;
    struct rbt_observer observer;
    struct rbt_train_summary summary;
    double objectives[EPOCHS + 1];
    size_t event_count;
};

static void on_event(void *context, const struct rbt_train_event *event)
{
    struct fixture *f = context;
    assert_true(f->event_count <= EPOCHS);
    f->objectives[f->event_count++] = event->objective;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-lda-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 3, 0, 0);
    for (int d = 0; d < DOCUMENTS; d++) {
        for (int i = 0; i < TOKENS; i++) {
            const bool is_own = rbt_rng_below(&rng, 4) > 0;
            fprintf(file, "%s ",
                    is_own ? own[d % 2][rbt_rng_below(&rng, 4)] : shared[rbt_rng_below(&rng, 2)]);
        }
        fputs("\n", file);
    }
    assert_int_equal(fclose(file), 0);
    assert_true(snprintf(f->model_path, sizeof f->model_path, "%s.rbt", f->path) > 0);
    f->options = (struct rbt_train_options){.epochs = EPOCHS,
                                            .workers = 1,
                                            .servers = 1,
                                            .consistency = "bsp",
                                            .seed = 1,
                                            .model = f->model_path,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_lda_config){.topics = 2, .alpha = 0.1, .beta = 0.1, .min_count = 2};
    f->observer = (struct rbt_observer){.context = f, .on_event = on_event};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->model_path); /* a test that failed may not have written it */
    (void)unlink(f->path);
    free(f);
    return 0;
}

static rbt_status train(struct fixture *f)
{
    f->event_count = 0;
    return rbt_lda.train(&f->options, &f->config, &f->observer, &f->summary);
}

/* Which subject a word is of: 0, 1, or 2 for words of all. */
static int subject_of(const char *word)
{
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < 4; i++) {
            if (strcmp(own[s][i], word) == 0) {
                return s;
            }
        }
    }
    return 2;
}

/* The name of the word with this key. */
static const char *name_of(const struct rbt_model *model, uint64_t key)
{
    const char *at = rbt_model_texts_find(model, "words")->bytes;
    for (uint64_t i = 1; i < key; i++) {
        at += strlen(at) + 1;
    }
    return at;
}

static void topics_are_found(void **state)
{
    struct fixture *f = *state;
    static const enum rbt_lda_kind kinds[] = {RBT_LDA_DENSE, RBT_LDA_SPARSE, RBT_LDA_ALIAS};
    for (size_t kind = 0; kind < 3; kind++) {
        struct rbt_model model = {0};
        f->config.sampler = (int32_t)kinds[kind];
        assert_ok(train(f));
        assert_ok(rbt_model_read(f->model_path, &model));
        const struct rbt_model_array *words = rbt_model_array_find(&model, "words");
        assert_non_null(words);
        assert_int_equal(words->count, 10);
        const struct rbt_lda_rows rows = {words->keys, words->values, words->count, words->width};
        int subjects[2] = {2, 2};
        for (size_t k = 0; k < 2; k++) {
            uint64_t keys[4];
            assert_int_equal(rbt_lda_words_top(&rows, k, 4, keys), 4);
            for (size_t i = 0; i < 4; i++) {
                const int subject = subject_of(name_of(&model, keys[i]));
                subjects[k] = subjects[k] == 2 ? subject : subjects[k];
                assert_true(subject == 2 || subject == subjects[k]);
            }
        }
        assert_true(subjects[0] + subjects[1] == 1);
        rbt_model_free(&model);
    }
}

static void the_likelihood_rises(void **state)
{
    struct fixture *f = *state;
    assert_ok(train(f));
    assert_int_equal(f->event_count, EPOCHS);
    assert_true(f->objectives[EPOCHS - 1] < f->objectives[0] - 0.2);
    assert_true(f->objectives[EPOCHS - 1] == f->summary.objective);
    assert_int_equal(f->summary.examples, EPOCHS * DOCUMENTS * TOKENS);
}

/* With one worker and one clock per epoch nothing is stale: the figures of an epoch are exact. */
static void figures_of_epochs_are_those_of_the_model(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    f->options.clocks_per_epoch = 1;
    assert_ok(train(f));
    const double told = f->objectives[EPOCHS - 2];
    f->options.epochs = EPOCHS - 1;
    assert_ok(train(f));
    assert_true(fabs(told - f->summary.objective) < 0.05 * told);
    f->options.workers = 1;
    f->options.epochs = EPOCHS;
    assert_ok(train(f));
    const double alone = f->objectives[EPOCHS - 2];
    f->options.epochs = EPOCHS - 1;
    assert_ok(train(f));
    assert_true(fabs(alone - f->summary.objective) < 1e-5);
}

/* With such priors counts say nothing, and topics follow from random numbers alone: those of
 * another pass must be others, and those of another worker, too. Two workers with equal ones would
 * give every topic an even number of tokens. */
static void random_numbers_are_never_used_twice(void **state)
{
    struct fixture *f = *state;
    f->config.topics = 16;
    f->config.alpha = 1e9;
    f->config.beta = 1e9;
    f->options.epochs = 1;
    assert_ok(train(f));
    const uint64_t once = f->summary.digest;
    f->options.epochs = 2;
    assert_ok(train(f));
    assert_true(f->summary.digest != once);
    struct rbt_model model = {0};
    f->options.workers = 2;
    assert_ok(train(f));
    assert_ok(rbt_model_read(f->model_path, &model));
    const struct rbt_model_array *words = rbt_model_array_find(&model, "words");
    size_t odd_count = 0;
    for (size_t k = 0; k < words->width; k++) {
        double sum = 0;
        for (size_t i = 0; i < words->count; i++) {
            sum += (double)words->values[i * words->width + k];
        }
        odd_count += fmod(sum, 2) != 0 ? 1 : 0;
    }
    assert_true(odd_count > 0);
    rbt_model_free(&model);
}

/* Training checks the counts itself; that it did not fail is the test. */
static void counts_are_exact_whatever_is_stale(void **state)
{
    struct fixture *f = *state;
    static const char *const all[] = {"bsp", "ssp:1", "essp:2", "asp"};
    for (size_t i = 0; i < 4; i++) {
        struct rbt_model model = {0};
        f->options.workers = 3;
        f->options.servers = 2;
        f->options.clocks_per_epoch = 3;
        f->options.consistency = all[i];
        assert_ok(train(f));
        assert_ok(rbt_model_read(f->model_path, &model));
        const struct rbt_model_array *words = rbt_model_array_find(&model, "words");
        double sum = 0;
        for (size_t k = 0; k < words->count * words->width; k++) {
            assert_true(words->values[k] >= 0);
            sum += (double)words->values[k];
        }
        assert_true(sum == DOCUMENTS * TOKENS);
        rbt_model_free(&model);
    }
}

/* Counts are whole numbers: how they travel changes no bit, and sparse rows lose none either. */
static void sparse_rows_hold_the_same(void **state)
{
    struct fixture *f = *state;
    static const char *const all[] = {"ssp:1", "essp:2", "asp"};
    f->options.workers = 3;
    f->options.servers = 2;
    assert_ok(train(f));
    const uint64_t dense = f->summary.digest;
    f->config.rows = RBT_LDA_ROWS_SPARSE;
    assert_ok(train(f));
    assert_true(f->summary.digest == dense);
    f->options.eval = f->options.data;
    for (size_t i = 0; i < 3; i++) { /* training checks the counts */
        f->options.consistency = all[i];
        assert_ok(train(f));
        assert_int_equal(f->summary.eval.count, 2);
    }
    f->options.is_exact = true;
    assert_fails(train(f), RBT_E_INVALID, "--rows sparse");
}

/* A training of some epochs and one of the rest, from the state of the first, make a whole one. */
static void a_state_is_gone_on_with(void **state)
{
    struct fixture *f = *state;
    char directory[] = "/tmp/rubato-lda-state-XXXXXX";
    assert_non_null(mkdtemp(directory));
    f->options.workers = 2;
    assert_ok(train(f));
    const uint64_t whole = f->summary.digest;
    f->config.state = directory;
    f->options.epochs = 5;
    assert_ok(train(f));
    assert_true(f->summary.digest != whole);
    f->options.epochs = EPOCHS - 5;
    f->options.clocks_per_epoch = 4; /* the default: other parts would draw in another order */
    assert_ok(train(f));
    assert_true(f->summary.digest == whole);
    f->config.topics = 3;
    assert_fails(train(f), RBT_E_INVALID, "with 2 topics, not 3");
    for (int p = 0; p < 2; p++) {
        char path[64];
        assert_true(snprintf(path, sizeof path, "%s/topics.%d", directory, p) > 0);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(directory), 0);
}

/* Weighted by their tokens, the figures of two workers are the objective, but for staleness. */
static void workers_tell_their_likelihood(void **state)
{
    struct fixture *f = *state;
    const struct rbt_metrics *by_worker = &f->summary.by_worker;
    f->options.workers = 2;
    assert_ok(train(f));
    assert_int_equal(by_worker->count, 3);
    assert_true(by_worker->values[0] < by_worker->values[2]);
    const double middle = (by_worker->values[0] + by_worker->values[2]) / 2;
    assert_true(fabs(by_worker->values[1] - middle) < 1e-12);
    assert_true(fabs(middle + f->summary.objective) < 0.05);
}

static void early_rows_keep_counts_exact(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    f->options.consistency = "essp:2";
    f->options.bandwidth = 1e9;
    f->options.priority = "relative";
    assert_ok(train(f));
}

static void documents_are_completed(void **state)
{
    struct fixture *f = *state;
    f->options.eval = f->options.data;
    assert_ok(train(f));
    assert_int_equal(f->summary.eval.count, 2);
    assert_string_equal(f->summary.eval.names[1], "perplexity");
    /* Four own words, three times out of four, or one of two. */
    const double entropy = -(0.75 * log(0.75 / 4) + 0.25 * log(0.25 / 2));
    assert_true(fabs(f->summary.eval.values[1] - exp(entropy)) < 0.25);
    assert_true(fabs(log(f->summary.eval.values[1]) + f->summary.eval.values[0]) < 1e-9);
}

static void wrong_options_are_refused(void **state)
{
    struct fixture *f = *state;
    f->options.rule = "adagrad";
    assert_fails(train(f), RBT_E_INVALID, "--rule");
    f->options.rule = NULL;
    f->options.bandwidth = 1e6;
    f->config.sampler = RBT_LDA_SPARSE;
    assert_fails(train(f), RBT_E_INVALID, "--sampler dense");
    f->options.bandwidth = 0;
    f->config.min_count = 1000000;
    assert_fails(train(f), RBT_E_DATA, "no words");
    f->config.vocabulary = "words";
    f->config.stop_words = "words";
    assert_fails(train(f), RBT_E_INVALID, "exclude each other");
}

/* Damaged models are refused by what reads them. */
static void impossible_models_are_refused(void **state)
{
    (void)state;
    uint64_t keys[] = {1, 9};
    float values[] = {1, 2, 3, -4};
    char texts[] = "a\0b";
    struct rbt_model model = {.kind = RBT_MODEL_LDA, .array_count = 1};
    rbt_lda_model *scorer = NULL;
    rbt_model_set(&model, "alpha", 0.1);
    rbt_model_set(&model, "beta", 0.1);
    rbt_model_set(&model, "vocabulary", 3);
    model.arrays[0] = (struct rbt_model_array){"words", 2, 2, keys, values};
    assert_fails(rbt_lda_model_open(&model, &scorer), RBT_E_DATA, "not in its vocabulary");
    keys[1] = 3;
    assert_fails(rbt_lda_model_open(&model, &scorer), RBT_E_DATA, "negative");
    values[3] = 4;
    model.texts[0] = (struct rbt_model_texts){"words", 2, 4, texts};
    model.text_count = 1;
    assert_fails(rbt_lda_model_open(&model, &scorer), RBT_E_DATA, "list of words");
    model.settings[1].value = 0;
    assert_fails(rbt_lda_model_open(&model, &scorer), RBT_E_DATA, "settings");
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(topics_are_found),
        TEST(the_likelihood_rises),
        TEST(figures_of_epochs_are_those_of_the_model),
        TEST(random_numbers_are_never_used_twice),
        TEST(counts_are_exact_whatever_is_stale),
        TEST(sparse_rows_hold_the_same),
        TEST(a_state_is_gone_on_with),
        TEST(workers_tell_their_likelihood),
        TEST(early_rows_keep_counts_exact),
        TEST(documents_are_completed),
        TEST(wrong_options_are_refused),
        cmocka_unit_test(impossible_models_are_refused),
    };
#undef TEST
    return cmocka_run_group_tests_name("algo/lda", tests, NULL, NULL);
}
