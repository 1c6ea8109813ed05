/* algo/fm_watch_test.c - which model is the result, when training begins to learn by heart. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/fm_job.h"
#include "algo/fm_model.h"
#include "base/rng.h"

enum { EXAMPLES = 3200 };

struct fixture {
    char path[64];
    char model_path[80];
    struct rbt_train_options options;
    struct rbt_fm_config config;
    struct rbt_observer observer;
    struct rbt_train_summary summary;
    struct rbt_model model;
};

/* Nothing keeps the model from learning by heart. */
static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-fm-watch-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_true(snprintf(f->model_path, sizeof f->model_path, "%s.rbt", f->path) > 0);
    f->options = (struct rbt_train_options){.format = RBT_FORMAT_LIBSVM,
                                            .workers = 2,
                                            .servers = 1,
                                            .consistency = "bsp",
                                            .seed = 1,
                                            .label_column = -1,
                                            .model = f->model_path,
                                            .tiny = (double)NAN,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_fm_config){.rank = 4,
                                       .min_count = 1,
                                       .lr = (double)NAN,
                                       .lr_v = (double)NAN,
                                       .stops_early = true,
                                       .has_bias = true,
                                       .combine = RBT_COMBINE_AUTO};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rbt_model_free(&f->model);
    (void)unlink(f->model_path);
    (void)unlink(f->path);
    free(f);
    return 0;
}

static rbt_status train(struct fixture *f)
{
    rbt_model_free(&f->model);
    f->model = (struct rbt_model){0};
    const rbt_status st = rbt_fm.train(&f->options, &f->config, &f->observer, &f->summary);
    return st != RBT_OK ? st : rbt_model_read(f->model_path, &f->model);
}

static struct rbt_share take_share(const struct fixture *f)
{
    struct rbt_examples examples;
    struct rbt_share share;
    const struct rbt_data_options data = {.paths = f->options.data.values,
                                          .path_count = 1,
                                          .format = RBT_FORMAT_LIBSVM,
                                          .has_binary_label = true};
    assert_ok(rbt_examples_read(&data, &examples));
    assert_ok(rbt_share_take(&examples, 1, 0, 1, &share));
    rbt_examples_free(&examples);
    return share;
}

/* Losses that differ by chance do not, and those that differ a little everywhere do. */
static void losses_differ_if_chance_does_not_explain_it(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    float losses[COUNT];
    float others[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        losses[i] = 1.0F;
        others[i] = i % 2 == 0 ? 2.1F : 0.0F;
    }
    assert_false(rbt_fm_watch_is_better(losses, others, COUNT));
    assert_false(rbt_fm_watch_is_better(losses, losses, COUNT));
    for (size_t i = 0; i < COUNT; i++) {
        others[i] = i % 2 == 0 ? 1.2F : 0.9F;
    }
    assert_true(rbt_fm_watch_is_better(losses, others, COUNT));
    assert_false(rbt_fm_watch_is_better(others, losses, COUNT));
}

/* Examples of two features out of forty whose labels are drawn: a model can only learn by heart. */
static void write_noise(const char *path, uint64_t seed, int count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, seed, 0, 0);
    for (int i = 0; i < count; i++) {
        const bool is_click = rbt_rng_below(&rng, 2) == 0;
        const uint64_t first = 1 + rbt_rng_below(&rng, 20);
        const uint64_t second = 21 + rbt_rng_below(&rng, 20);
        fprintf(file, "%s %llu:1 %llu:1\n", is_click ? "+1" : "-1", (unsigned long long)first,
                (unsigned long long)second);
    }
    assert_int_equal(fclose(file), 0);
}

/* A model that has begun to learn by heart is not the result; and if nobody wants to know, it is.
 */
static void overfitting_is_noticed(void **state)
{
    struct fixture *f = *state;
    double losses[2];
    for (int stops = 0; stops < 2; stops++) {
        struct rbt_metrics metrics = {0};
        f->config.stops_early = stops == 1;
        write_noise(f->path, 1, EXAMPLES);
        assert_ok(train(f));
        assert_int_equal(strstr(f->summary.chosen, "stopped after pass") != NULL, stops);
        assert_int_equal(f->summary.epochs < 20, stops);
        write_noise(f->path, 2, EXAMPLES);
        struct rbt_share share = take_share(f);
        assert_ok(rbt_fm_model_measure(&f->model, &share, &metrics));
        rbt_share_free(&share);
        losses[stops] = metrics.values[0];
    }
    assert_true(losses[0] > 0.71);
    assert_true(losses[1] < 0.70); /* log 2 is 0.693 */
}

/* Who says how many passes gets them; with patience, as many as bring something. */
static void epochs_are_a_promise(void **state)
{
    struct fixture *f = *state;
    f->options.epochs = 20;
    write_noise(f->path, 1, EXAMPLES);
    assert_ok(train(f));
    assert_true(f->summary.epochs == 20);
    assert_string_equal(f->summary.chosen, "");
    f->options.patience = 2;
    assert_ok(train(f));
    assert_true(f->summary.epochs < 10);
    assert_non_null(strstr(f->summary.chosen, " of 20, pass "));
}

/* Where a penalty leaves nothing of embeddings, it does so at once: no number is close to the
 * smallest that there are. */
static void tiny_embeddings_are_zero(void **state)
{
    struct fixture *f = *state;
    f->options.epochs = 20;
    f->options.workers = 1;
    f->config.l2_v = 30;
    f->config.lr_v = 0.02;
    write_noise(f->path, 1, EXAMPLES);
    assert_ok(train(f));
    const struct rbt_model_array *v = rbt_model_array_find(&f->model, "embeddings");
    assert_non_null(v);
    for (size_t e = 0; e < v->count * v->width; e++) {
        assert_true(v->values[e] == 0.0F || fabsf(v->values[e]) > 1e-30F);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(losses_differ_if_chance_does_not_explain_it),
        cmocka_unit_test_setup_teardown(overfitting_is_noticed, setup, teardown),
        cmocka_unit_test_setup_teardown(epochs_are_a_promise, setup, teardown),
        cmocka_unit_test_setup_teardown(tiny_embeddings_are_zero, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
