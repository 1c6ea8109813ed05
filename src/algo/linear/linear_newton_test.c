/* algo/linear/linear_newton_test.c - the model of newton is where the gradient of the objective is
 * zero, as the test itself computes it, with any number of workers. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/frame/replica.h"
#include "algo/linear/linear.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "math/loss.h"

enum { ROWS = 300, COLUMNS = 5, CLASSES = 3, LBFGS = 5, NEWTON, AUTO };

struct fixture {
    char path[64];
    char model[80];
    double x[ROWS][COLUMNS];
    double y[ROWS];
    struct rbt_train_options options;
    struct rbt_linear_config config;
    struct rbt_train_summary summary;
};

/* A table whose columns are far from zero and of very different sizes. */
static void write_table(struct fixture *f)
{
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 7, 0, 0);
    for (int i = 0; i < ROWS; i++) {
        double score = 0.0;
        for (int j = 0; j < COLUMNS; j++) {
            const double z = rbt_rng_normal(&rng);
            f->x[i][j] = (double)(float)(pow(10, j - 2) * (50 + z));
            score += j % 2 == 0 ? z : -z;
            fprintf(file, "%.9g,", f->x[i][j]);
        }
        score += 2 * rbt_rng_normal(&rng);
        f->y[i] = f->config.loss == RBT_LOSS_SQUARED   ? (double)(float)(score + 1000)
                  : f->config.loss == RBT_LOSS_SOFTMAX ? (score > -1) + (score > 1)
                                                       : (score > 0);
        fprintf(file, "%.9g\n", f->y[i]);
    }
    assert_int_equal(fclose(file), 0);
    for (int j = 0; j < COLUMNS; j++) { /* standardised, for the test */
        double mean = 0.0;
        double squares = 0.0;
        for (int i = 0; i < ROWS; i++) {
            mean += f->x[i][j] / ROWS;
        }
        for (int i = 0; i < ROWS; i++) {
            squares += (f->x[i][j] - mean) * (f->x[i][j] - mean) / ROWS;
        }
        for (int i = 0; i < ROWS; i++) {
            f->x[i][j] = (f->x[i][j] - mean) / sqrt(squares);
        }
    }
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-newton-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_true(snprintf(f->model, sizeof f->model, "%s.rbt", f->path) > 0);
    f->options = (struct rbt_train_options){.format = RBT_FORMAT_CSV,
                                            .workers = 1,
                                            .servers = 1,
                                            .consistency = "bsp",
                                            .seed = 1,
                                            .label_column = -1,
                                            .model = f->model,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_linear_config){.l2 = 0.02,
                                           .lr = (double)NAN,
                                           .decay = (double)NAN,
                                           .schedule = RBT_LINEAR_SCHEDULE_AUTO,
                                           .scale = 2,
                                           .combine = RBT_COMBINE_AUTO,
                                           .batch = 1,
                                           .has_bias = true,
                                           .solver = NEWTON};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->path);
    (void)unlink(f->model); /* some tests write none */
    free(f);
    return 0;
}

static rbt_status train(struct fixture *f)
{
    const struct rbt_observer observer = {0};
    return rbt_linear.train(&f->options, &f->config, &observer, &f->summary);
}

/* Margins of the model file, on the table as it is in the file, for row i. */
static void margins_of(const struct rbt_model *model, const struct rbt_examples *rows, size_t i,
                       double *margins)
{
    const struct rbt_model_array *w = rbt_model_array_find(model, "weights");
    const struct rbt_model_array *b = rbt_model_array_find(model, "bias");
    for (size_t c = 0; c < w->width; c++) {
        margins[c] = (double)b->values[c];
        for (size_t j = 0; j < COLUMNS; j++) {
            const double x = (double)rows->values[rows->offsets[i] + j];
            margins[c] += x * (double)w->values[j * w->width + c];
        }
    }
}

/* The gradient of the objective, penalty on the standardised columns, is zero at the model. */
static void assert_minimum(struct fixture *f, double most)
{
    struct rbt_model model;
    struct rbt_examples rows;
    double sizes[COLUMNS] = {0};
    double slopes[COLUMNS + 1][CLASSES] = {{0}};
    const struct rbt_data_options data = {.paths = f->options.data.values,
                                          .path_count = 1,
                                          .format = RBT_FORMAT_CSV,
                                          .label_column = -1};
    assert_ok(rbt_model_read(f->model, &model));
    assert_ok(rbt_examples_read(&data, &rows));
    const struct rbt_model_array *w = rbt_model_array_find(&model, "weights");
    assert_int_equal(w->count, COLUMNS);
    for (size_t j = 0; j < COLUMNS; j++) { /* by how much a standardised column is smaller */
        const double raw =
            (double)rows.values[rows.offsets[1] + j] - (double)rows.values[rows.offsets[0] + j];
        sizes[j] = raw / (f->x[1][j] - f->x[0][j]);
    }
    for (size_t i = 0; i < ROWS; i++) {
        double at[CLASSES] = {0};
        margins_of(&model, &rows, i, at);
        if (f->config.loss == RBT_LOSS_SOFTMAX) {
            (void)rbt_loss_softmax(at, CLASSES, (size_t)f->y[i], at); /* for the slopes */
        } else {
            const double y = f->config.loss == RBT_LOSS_LOGISTIC ? 2 * f->y[i] - 1 : f->y[i];
            at[0] = rbt_loss_at((enum rbt_loss)f->config.loss, at[0], y).slope;
        }
        for (size_t c = 0; c < w->width; c++) {
            for (size_t j = 0; j < COLUMNS; j++) {
                slopes[j][c] += at[c] * f->x[i][j] / ROWS;
            }
            slopes[COLUMNS][c] += at[c] / ROWS;
        }
    }
    for (size_t c = 0; c < w->width; c++) {
        for (size_t j = 0; j < COLUMNS; j++) {
            const double weight = (double)w->values[j * w->width + c] * sizes[j];
            assert_true(fabs(slopes[j][c] + f->config.l2 * weight) < most);
        }
        assert_true(fabs(slopes[COLUMNS][c]) < most);
    }
    rbt_examples_free(&rows);
    rbt_model_free(&model);
}

static void it_ends_at_the_minimum_whatever_the_workers(void **state)
{
    struct fixture *f = *state;
    const enum rbt_loss losses[] = {RBT_LOSS_LOGISTIC, RBT_LOSS_SQUARED, RBT_LOSS_SOFTMAX};
    const double most[] = {2e-5, 2e-4, 2e-3};
    for (size_t i = 0; i < 3; i++) {
        f->config.loss = (int32_t)losses[i];
        write_table(f);
        for (int64_t workers = 1; workers <= 5; workers += 2) {
            f->options.workers = workers;
            f->options.consistency = workers == 3 ? "essp:2" : "bsp";
            assert_ok(train(f));
            assert_minimum(f, most[i]);
            assert_string_equal(f->summary.unconverged, "");
            assert_true(f->summary.epochs < 60);
        }
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void lbfgs_ends_there_too(void **state)
{
    struct fixture *f = *state;
    const enum rbt_loss losses[] = {RBT_LOSS_LOGISTIC, RBT_LOSS_SQUARED, RBT_LOSS_SOFTMAX};
    f->config.solver = LBFGS;
    for (size_t i = 0; i < 3; i++) {
        f->config.loss = (int32_t)losses[i];
        write_table(f);
        for (f->options.workers = 1; f->options.workers <= 32; f->options.workers *= 4) {
            assert_ok(train(f));
            assert_minimum(f, 2e-3);
            assert_string_equal(f->summary.unconverged, "");
        }
        f->options.workers = 1;
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void too_few_passes_are_said(void **state)
{
    struct fixture *f = *state;
    write_table(f);
    f->options.epochs = 2;
    assert_ok(train(f));
    assert_non_null(strstr(f->summary.unconverged, "another step would still gain"));
}

static void auto_takes_it_unless_steps_are_asked_for(void **state)
{
    struct fixture *f = *state;
    write_table(f);
    f->config.solver = AUTO;
    f->config.l2 = (double)NAN;
    assert_ok(train(f));
    assert_non_null(strstr(f->summary.chosen, "solver newton; l2 "));
    assert_non_null(strstr(f->summary.chosen, "found on 300 held-out examples"));
    f->config.l2 = 0.02;
    f->config.lr = 1.0;
    assert_ok(train(f));
    assert_string_equal(f->summary.chosen, "solver sgd");
    f->config.lr = (double)NAN;
    f->options.rule = "adagrad";
    assert_ok(train(f));
    assert_string_equal(f->summary.chosen, "solver sgd");
}

/* Too many features for newton; an example has every `step`-th. */
static void write_wide(struct fixture *f, int step)
{
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 9, 0, 0);
    for (int i = 0; i < 60; i++) {
        fprintf(file, "%d", i % CLASSES);
        for (int j = 1; j <= 1100; j++) {
            if ((i + j) % step == 0) {
                fprintf(file, " %d:%.3f", j, rbt_rng_normal(&rng) + (i % CLASSES == j % CLASSES));
            }
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

static void auto_takes_lbfgs_for_wide_examples_if_they_are_dense(void **state)
{
    struct fixture *f = *state;
    f->options.format = RBT_FORMAT_LIBSVM;
    f->config.solver = AUTO;
    f->config.loss = RBT_LOSS_SOFTMAX;
    write_wide(f, 1);
    assert_ok(train(f));
    assert_string_equal(f->summary.chosen, "solver lbfgs");
    const double one = f->summary.objective;
    f->options.workers = 32;
    assert_ok(train(f));
    assert_true(fabs(f->summary.objective - one) < 1e-4 * one);
    write_wide(f, 40);
    assert_ok(train(f));
    assert_string_equal(f->summary.chosen, "solver sgd");
    assert_int_equal(rbt_alloc_live(), 0);
}

static void hinge_and_l1_are_refused(void **state)
{
    struct fixture *f = *state;
    write_table(f);
    f->config.l1 = 0.1;
    assert_fails(train(f), RBT_E_INVALID, "does not support \"--l1\"");
    f->config.l1 = 0;
    f->config.loss = RBT_LOSS_HINGE;
    assert_fails(train(f), RBT_E_INVALID, "does not support this \"--loss\"");
    assert_int_equal(rbt_alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_ends_at_the_minimum_whatever_the_workers, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(lbfgs_ends_there_too, setup, teardown),
        cmocka_unit_test_setup_teardown(auto_takes_lbfgs_for_wide_examples_if_they_are_dense, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(too_few_passes_are_said, setup, teardown),
        cmocka_unit_test_setup_teardown(auto_takes_it_unless_steps_are_asked_for, setup, teardown),
        cmocka_unit_test_setup_teardown(hinge_and_l1_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
