/* algo/fm/fm_watch_test.c - which model is the result, when training begins to learn by heart. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/fm/fm_job.h"
#include "algo/fm/fm_model.h"
#include "base/alloc.h"
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
    assert_non_null(strstr(f->summary.chosen, " of 20, pairs bring nothing on "));
}

/* The slopes of the objective by the weights and the bias of a model without pairs, the largest. */
static double steepest(const struct fixture *f)
{
    struct rbt_share share = take_share(f);
    const struct rbt_model_array *w = rbt_model_array_find(&f->model, "weights");
    const double l2 = rbt_model_setting(&f->model, "l2", 0);
    float *margins = calloc(share.count, sizeof *margins);
    double *slopes = calloc(share.key_count + 1, sizeof *slopes);
    assert_non_null(margins);
    assert_non_null(slopes);
    assert_int_equal(w->count, share.key_count);
    assert_ok(rbt_fm_model_margins(&f->model, &share, margins));
    for (size_t i = 0; i < share.count; i++) {
        const double slope =
            rbt_loss_at(RBT_LOSS_LOGISTIC, (double)margins[i], (double)share.labels[i]).slope;
        slopes[share.key_count] += slope;
        for (uint64_t k = share.offsets[i]; k < share.offsets[i + 1]; k++) {
            slopes[share.indices[k]] += slope * (double)share.values[k];
        }
    }
    double most = fabs(slopes[share.key_count]);
    for (size_t j = 0; j < share.key_count; j++) {
        most = fmax(most, fabs(slopes[j] + l2 * (double)w->values[j]));
    }
    free(slopes);
    free(margins);
    rbt_share_free(&share);
    return most;
}

/* Where pairs mean nothing the result is the minimum of the linear model, of all examples. */
static void without_pairs_it_is_a_linear_model(void **state)
{
    struct fixture *f = *state;
    f->config.l1 = (double)NAN;
    f->config.l2 = (double)NAN;
    f->config.l2_v = (double)NAN;
    write_noise(f->path, 1, EXAMPLES);
    assert_ok(train(f));
    assert_non_null(strstr(f->summary.chosen, ": a linear model"));
    assert_int_equal(rbt_model_array_find(&f->model, "embeddings")->count, 0);
    assert_true(rbt_model_setting(&f->model, "l2", 0) > 1);
    assert_true(steepest(f) < 0.01); /* sums of some 80 slopes of 0.5 */
}

/* Features of all examples are moved by one worker, however many there are. */
static void dense_examples_are_one_workers(void **state)
{
    struct fixture *f = *state;
    f->config.l2_v = 0.01;
    f->config.l2 = 1;
    f->options.consistency = "essp:2";
    write_noise(f->path, 1, EXAMPLES);
    f->options.workers = 1;
    assert_ok(train(f));
    const uint64_t alone = f->summary.digest;
    assert_null(strstr(f->summary.chosen, "workers trained"));
    f->options.workers = 8;
    assert_ok(train(f));
    assert_int_equal(f->summary.digest, alone);
    assert_non_null(strstr(f->summary.chosen, "; 1 of 8 workers trained"));
}

/* A training as it is after its last look, whose best model is the linear one. */
static void begin_end(struct fixture *f, struct rbt_fm_job *fm)
{
    enum { HELD = 200 };
    const struct rbt_data_options data = {.paths = f->options.data.values,
                                          .path_count = 1,
                                          .format = RBT_FORMAT_LIBSVM,
                                          .has_binary_label = true};
    uint32_t places[HELD];
    for (uint32_t i = 0; i < HELD; i++) {
        places[i] = i;
    }
    *fm = (struct rbt_fm_job){.options = f->options,
                              .config = f->config,
                              .loss = RBT_LOSS_LOGISTIC,
                              .epochs = 20,
                              .is_l2_tuned = true};
    write_noise(f->path, 1, EXAMPLES);
    assert_ok(rbt_examples_read(&data, &fm->examples));
    assert_ok(rbt_fm_part_draw(fm, places, HELD));
    assert_ok(rbt_fm_linear_sample(fm));
    assert_ok(rbt_fm_scale_take(fm));
    assert_ok(rbt_fm_watch_take(fm, places, HELD));
    assert_ok(rbt_fm_linear_take(fm));
    assert_ok(rbt_fm_watch_take_linear(fm));
    assert_ok(rbt_fm_scale_copy(&fm->scales, &fm->linear.model, &fm->watch.best));
    for (size_t i = 0; i < HELD; i++) { /* a little better everywhere */
        fm->watch.best_losses[i] = fm->watch.linear_losses[i] - 0.001F;
    }
    fm->watch.loss = fm->watch.linear_loss - 0.001 * HELD;
}

/* What goes wrong in the last passes, which nobody has watched, is undone. */
static void a_bad_end_is_undone(void **state)
{
    struct fixture *f = *state;
    for (int is_bad = 0; is_bad < 2; is_bad++) {
        struct rbt_fm_job fm;
        struct rbt_model last = {0};
        begin_end(f, &fm);
        assert_ok(rbt_fm_scale_copy(&fm.scales, &fm.linear.model, &last));
        struct rbt_model_array *w = &last.arrays[RBT_FM_WEIGHTS];
        const float first = w->values[0];
        for (size_t j = 0; j < w->count; j++) {
            w->values[j] *= is_bad ? -30.0F : 1.0F;
        }
        fm.watch.linear_loss += is_bad ? 0.0 : 1.0; /* the last one is better than that */
        for (size_t i = 0; !is_bad && i < fm.watch.held.count; i++) {
            fm.watch.best_losses[i] += 0.001F;
        }
        assert_ok(rbt_fm_watch_settle(&fm, &last));
        assert_int_equal(fm.watch.is_over, is_bad);
        assert_true(last.arrays[RBT_FM_WEIGHTS].values[0] == first);
        rbt_model_free(&last);
        rbt_fm_watch_free(&fm.watch);
        rbt_fm_linear_free(&fm.linear);
        rbt_fm_scale_free(&fm.scales);
        rbt_free(fm.order);
        rbt_examples_free(&fm.examples);
    }
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
        cmocka_unit_test_setup_teardown(without_pairs_it_is_a_linear_model, setup, teardown),
        cmocka_unit_test_setup_teardown(dense_examples_are_one_workers, setup, teardown),
        cmocka_unit_test_setup_teardown(a_bad_end_is_undone, setup, teardown),
        cmocka_unit_test_setup_teardown(tiny_embeddings_are_zero, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
