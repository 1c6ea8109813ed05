/* algo/linear/linear_class_test.c - softmax against a serial loop; labels, and what is said about
 * them. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/frame/replica.h"
#include "algo/frame/training.h"
#include "algo/linear/linear.h"
#include "base/error.h"
#include "base/rng.h"
#include "math/choose.h"

enum { EXAMPLES = 60, FEATURES = 12, CLASSES = 3, EPOCHS = 3, CLOCKS_PER_EPOCH = 6 };

static const char *const labels[CLASSES] = {"-3", "0.5", "700"};

struct fixture {
    char path[64];
    char model_path[80];
    struct rbt_train_options options;
    struct rbt_linear_config config;
    struct rbt_observer observer;
    struct rbt_train_summary summary;
};

/* Each class has a feature of its own, with some noise. */
static void write_data(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 5, 0, 0);
    for (size_t i = 0; i < EXAMPLES; i++) {
        const size_t y = (size_t)rbt_rng_below(&rng, CLASSES);
        fprintf(file, "%s", labels[y]);
        for (size_t j = 0; j < FEATURES; j++) {
            if (j < CLASSES || rbt_rng_below(&rng, 2) == 0) {
                fprintf(file, " %zu:%.4f", j + 1,
                        (j == y ? 1.0 : 0.0) + 0.5 * rbt_rng_normal(&rng));
            }
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-class-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_true(snprintf(f->model_path, sizeof f->model_path, "%s.rbt", f->path) > 0);
    write_data(f->path);
    f->options = (struct rbt_train_options){.format = RBT_FORMAT_LIBSVM,
                                            .epochs = EPOCHS,
                                            .clocks_per_epoch = CLOCKS_PER_EPOCH,
                                            .workers = 1,
                                            .servers = 1,
                                            .consistency = "bsp",
                                            .seed = 1,
                                            .label_column = -1,
                                            .model = f->model_path,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_linear_config){.loss = RBT_LOSS_SOFTMAX,
                                           .lr = 0.1,
                                           .schedule = RBT_SCHEDULE_CONSTANT,
                                           .scale = 1,
                                           .batch = 1,
                                           .has_bias = true};
    f->observer = (struct rbt_observer){.context = f};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->path);
    (void)unlink(f->model_path); /* most tests leave none */
    free(f);
    return 0;
}

static rbt_status train(struct fixture *f)
{
    return rbt_linear.train(&f->options, &f->config, &f->observer, &f->summary);
}

/* Examples in the worker's order, with places of labels in the list instead of them. */
static void take_share(const struct fixture *f, struct rbt_share *share)
{
    struct rbt_examples examples;
    const struct rbt_data_options data = {
        .paths = f->options.data.values, .path_count = 1, .format = RBT_FORMAT_LIBSVM};
    assert_ok(rbt_examples_read(&data, &examples));
    assert_ok(rbt_share_take(&examples, 1, 0, 1, share));
    rbt_examples_free(&examples);
    assert_int_equal(share->key_count, FEATURES);
    for (size_t i = 0; i < share->count; i++) {
        size_t place = 0;
        while (strtof(labels[place], NULL) != share->labels[i]) {
            place++;
        }
        share->labels[i] = (float)place;
    }
}

/* The gradient of the losses of examples first .. end-1, by the formula. */
static void add_gradient(const struct rbt_share *share, size_t first, size_t end,
                         double (*w)[CLASSES], double (*g)[CLASSES])
{
    for (size_t i = first; i < end; i++) {
        double m[CLASSES];
        memcpy(m, w[FEATURES], sizeof m);
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            for (size_t c = 0; c < CLASSES; c++) {
                m[c] += (double)share->values[k] * w[share->indices[k]][c];
            }
        }
        (void)rbt_loss_softmax(m, CLASSES, (size_t)share->labels[i], m);
        for (uint64_t k = share->offsets[i]; k < share->offsets[i + 1]; k++) {
            for (size_t c = 0; c < CLASSES; c++) {
                g[share->indices[k]][c] += (double)share->values[k] * m[c];
            }
        }
        for (size_t c = 0; c < CLASSES; c++) {
            g[FEATURES][c] += m[c];
        }
    }
}

/* The model's weights, then the bias, are those of `w`; its classes are the labels. */
static void assert_model(const struct fixture *f, double (*w)[CLASSES])
{
    struct rbt_model model;
    assert_ok(rbt_model_read(f->model_path, &model));
    const struct rbt_model_array *weights = rbt_model_array_find(&model, "weights");
    const struct rbt_model_array *bias = rbt_model_array_find(&model, "bias");
    const struct rbt_model_array *classes = rbt_model_array_find(&model, "classes");
    assert_non_null(weights);
    assert_non_null(bias);
    assert_non_null(classes);
    assert_int_equal(weights->count, FEATURES);
    assert_int_equal(weights->width, CLASSES);
    assert_int_equal(classes->count, CLASSES);
    for (size_t c = 0; c < CLASSES; c++) {
        assert_true(classes->values[c] == strtof(labels[c], NULL));
        assert_true(fabs((double)bias->values[c] - w[FEATURES][c]) < 1e-4);
        for (size_t j = 0; j < FEATURES; j++) {
            assert_true(fabs((double)weights->values[j * CLASSES + c] - w[j][c]) < 1e-4);
        }
    }
    rbt_model_free(&model);
}

static void steps_of_one_worker_equal_a_serial_loop(void **state)
{
    struct fixture *f = *state;
    struct rbt_share share;
    double w[FEATURES + 1][CLASSES] = {0};
    take_share(f, &share);
    for (size_t step = 0; step < EXAMPLES * EPOCHS; step++) {
        double g[FEATURES + 1][CLASSES] = {0};
        add_gradient(&share, step % EXAMPLES, step % EXAMPLES + 1, w, g);
        for (size_t j = 0; j <= FEATURES; j++) {
            for (size_t c = 0; c < CLASSES; c++) {
                w[j][c] -= f->config.lr * g[j][c];
            }
        }
    }
    f->config.l2 = 0.0;
    assert_ok(train(f));
    assert_model(f, w);
    rbt_share_free(&share);
}

static void gradients_of_one_worker_equal_a_serial_loop(void **state)
{
    struct fixture *f = *state;
    struct rbt_share share;
    double w[FEATURES + 1][CLASSES] = {0};
    double squares[FEATURES + 1][CLASSES] = {0};
    const size_t chunk = EXAMPLES / CLOCKS_PER_EPOCH;
    const double l2 = 0.01;
    take_share(f, &share);
    for (size_t clock = 0; clock < (size_t)EPOCHS * CLOCKS_PER_EPOCH; clock++) {
        const size_t first = chunk * (clock % CLOCKS_PER_EPOCH);
        double g[FEATURES + 1][CLASSES] = {0};
        add_gradient(&share, first, first + chunk, w, g);
        for (size_t j = 0; j <= FEATURES; j++) {
            for (size_t c = 0; c < CLASSES; c++) {
                g[j][c] += j < FEATURES ? l2 * (double)chunk * w[j][c] : 0.0;
                squares[j][c] += g[j][c] * g[j][c];
                w[j][c] -= 0.5 * g[j][c] / sqrt(squares[j][c]);
            }
        }
    }
    f->config.l2 = l2;
    f->config.lr = (double)NAN;
    f->config.combine = RBT_COMBINE_AUTO;
    f->options.rule = "adagrad:lr=0.5";
    f->config.schedule = RBT_LINEAR_SCHEDULE_AUTO;
    assert_ok(train(f));
    assert_model(f, w);
    rbt_share_free(&share);
}

/* Shrinks rows of several numbers, scales them, and leaves out those that are all zero. */
static void penalties_and_scales_do_what_they_say(void **state)
{
    struct fixture *f = *state;
    struct rbt_model model;
    f->options.workers = 2;
    f->options.epochs = 30;
    f->config.lr = 2.0;
    f->config.schedule = RBT_SCHEDULE_DECAY;
    f->config.decay = 4.0;
    f->config.scale = 0;
    assert_ok(train(f));
    const double plain = f->summary.objective;
    assert_true(plain < 0.8 * log(CLASSES));
    f->config.l1 = 0.1;
    assert_ok(train(f));
    assert_true(f->summary.objective > plain);
    assert_true(f->summary.objective < log(CLASSES));
    assert_ok(rbt_model_read(f->model_path, &model));
    const struct rbt_model_array *weights = rbt_model_array_find(&model, "weights");
    assert_true(weights->count < FEATURES); /* what is noise is gone */
    assert_true(weights->count >= 1);
    for (size_t i = 0; i < weights->count; i++) {
        bool has_some = false;
        for (size_t c = 0; c < CLASSES; c++) {
            has_some = has_some || weights->values[i * CLASSES + c] != 0.0F;
        }
        assert_true(has_some);
    }
    rbt_model_free(&model);
}

static void wrong_labels_are_refused(void **state)
{
    struct fixture *f = *state;
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    fprintf(file, "3 1:1\n3 2:1\n");
    assert_int_equal(fclose(file), 0);
    assert_fails(train(f), RBT_E_DATA, "needs two different labels");
    file = fopen(f->path, "w");
    assert_non_null(file);
    for (int i = 0; i < 5000; i++) {
        fprintf(file, "%d.25 1:1\n", i);
    }
    assert_int_equal(fclose(file), 0);
    assert_fails(train(f), RBT_E_DATA, "more than 4096 different labels");
    assert_non_null(strstr(rbt_last_hint(), "squared"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_of_one_worker_equal_a_serial_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(gradients_of_one_worker_equal_a_serial_loop, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(penalties_and_scales_do_what_they_say, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_labels_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
