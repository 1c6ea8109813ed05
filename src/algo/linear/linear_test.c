/* algo/linear/linear_test.c - training against a serial loop, bit for bit, and how it stops and
 * fails. */
#include "base/test.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/frame/replica.h"
#include "algo/frame/training.h"
#include "algo/linear/linear.h"
#include "algo/linear/linear_stream.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "math/choose.h"
#include "math/prox.h"

enum { EXAMPLES = 60, FEATURES = 25, EPOCHS = 3, CLOCKS_PER_EPOCH = 6 };

struct fixture {
    char path[64];
    struct rbt_train_options options;
    struct rbt_linear_config config;
    struct rbt_observer observer;
    struct rbt_train_summary summary;
    int events;
    atomic_int polls; /* by all workers */
};

static void on_event(void *context, const struct rbt_train_event *event)
{
    struct fixture *f = context;
    assert_true(isfinite(event->objective));
    f->events++;
}

static bool interrupt_at_third_poll(void *context)
{
    struct fixture *f = context;
    return atomic_fetch_add(&f->polls, 1) >= 2;
}

/* Labels follow feature 1, with some noise, so that there is something to learn. */
static void write_data(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 5, 0, 0);
    for (int i = 0; i < EXAMPLES; i++) {
        const double first = rbt_rng_normal(&rng);
        const bool is_positive = first + 0.3 * rbt_rng_normal(&rng) > 0;
        fprintf(file, "%s 1:%.4f", is_positive ? "+1" : "-1", first);
        for (int j = 2; j <= FEATURES; j++) {
            if (rbt_rng_below(&rng, 6) == 0) {
                fprintf(file, " %d:%.4f", j, rbt_rng_normal(&rng));
            }
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

/* All examples have all features, so that each of two workers has half of every feature's. */
static void write_dense(const char *path, int count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 5, 0, 0);
    for (int i = 0; i < count; i++) {
        const double first = rbt_rng_normal(&rng);
        const bool is_positive = first + 0.3 * rbt_rng_normal(&rng) > 0;
        fprintf(file, "%s 1:%.4f", is_positive ? "+1" : "-1", first);
        for (int j = 2; j <= 4; j++) {
            fprintf(file, " %d:%.4f", j, 0.1 + fabs(rbt_rng_normal(&rng)));
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-linear-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    write_data(f->path);
    f->options = (struct rbt_train_options){.format = RBT_FORMAT_LIBSVM,
                                            .epochs = EPOCHS,
                                            .clocks_per_epoch = CLOCKS_PER_EPOCH,
                                            .workers = 1,
                                            .servers = 1,
                                            .consistency = "bsp",
                                            .seed = 1,
                                            .label_column = -1,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_linear_config){
        .l2 = 0.01, .lr = 0.1, .schedule = RBT_SCHEDULE_CONSTANT, .scale = 1, .batch = 1};
    f->observer = (struct rbt_observer){.context = f, .on_event = on_event};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->path); /* a test that failed may have removed it */
    free(f);
    return 0;
}

static rbt_status train(struct fixture *f)
{
    return rbt_linear.train(&f->options, &f->config, &f->observer, &f->summary);
}

static void shrink(const struct fixture *f, float *w, double amount)
{
    *w = rbt_prox_truncate(*w, (float)(amount * f->config.l1), INFINITY);
    *w = rbt_prox_shrink(*w, (float)(amount * f->config.l2));
}

/* Which features the examples have; returns how many there are. */
static size_t find_used(const struct rbt_share *share, size_t first, size_t end, bool *is_used)
{
    size_t count = 0;
    memset(is_used, 0, FEATURES * sizeof *is_used);
    for (uint64_t k = share->offsets[first]; k < share->offsets[end]; k++) {
        count += !is_used[share->indices[k]];
        is_used[share->indices[k]] = true;
    }
    return count;
}

/* The same in one loop: textbook gradient descent with one regularisation step per sweep for the
 * features that the clock uses, and at its end one for all clocks that have not used them. A clock
 * ends with w = w_0 + (w - w_0), as the table adds what has changed. Returns how often a clock has
 * not used a feature. */
static size_t serial(const struct fixture *f, float *w, const struct rbt_share *share)
{
    const double row_mean = (double)(share->offsets[share->count] + 1) / (double)(EXAMPLES + 1);
    const size_t sweep = (size_t)((double)share->key_count / (2.0 * row_mean)) + 1;
    double since[FEATURES] = {0};
    double total = 0;
    size_t unused = 0;
    for (size_t clock = 0; clock < (size_t)EPOCHS * CLOCKS_PER_EPOCH; clock++) {
        float before[FEATURES];
        bool is_used[FEATURES];
        memcpy(before, w, sizeof before);
        const size_t first = EXAMPLES / CLOCKS_PER_EPOCH * (clock % CLOCKS_PER_EPOCH);
        const size_t last = first + EXAMPLES / CLOCKS_PER_EPOCH;
        unused += FEATURES - find_used(share, first, last, is_used);
        double done = 0;
        for (size_t at = first; at < last;) {
            const size_t end = at + sweep < last ? at + sweep : last;
            struct rbt_sgd_run run = {.loss = (enum rbt_loss)f->config.loss,
                                      .offsets = share->offsets,
                                      .labels = share->labels,
                                      .indices = share->indices,
                                      .values = share->values,
                                      .begin = at,
                                      .end = end,
                                      .weights = w,
                                      .eta = (float)f->config.lr,
                                      .batch = 1};
            (void)rbt_choose_kernels()->sgd(&run); /* the weights are what is compared */
            const double amount = f->config.lr * (double)(end - at);
            for (size_t j = 0; j < FEATURES; j++) {
                shrink(f, &w[j], is_used[j] ? amount : 0);
            }
            done += amount;
            at = end;
        }
        for (size_t j = 0; j < FEATURES; j++) {
            shrink(f, &w[j], is_used[j] ? total - since[j] : 0);
            since[j] = is_used[j] ? total + done : since[j];
            w[j] = before[j] + (w[j] - before[j]);
        }
        total += done;
    }
    return unused;
}

static void one_worker_equals_a_serial_loop(void **state)
{
    struct fixture *f = *state;
    for (int32_t loss = RBT_LOSS_LOGISTIC; loss <= RBT_LOSS_SQUARED; loss++) {
        struct rbt_examples examples;
        struct rbt_share share;
        const struct rbt_data_options data = {.paths = f->options.data.values,
                                              .path_count = 1,
                                              .format = RBT_FORMAT_LIBSVM,
                                              .has_binary_label = loss != RBT_LOSS_SQUARED};
        char model_path[80];
        assert_true(snprintf(model_path, sizeof model_path, "%s.rbt", f->path) > 0);
        f->options.model = model_path;
        f->config.loss = loss;
        f->config.l1 = loss == RBT_LOSS_HINGE ? 0.01 : 0.0;
        assert_ok(train(f));
        assert_ok(rbt_examples_read(&data, &examples));
        assert_ok(rbt_share_take(&examples, 1, 0, 1, &share));
        assert_int_equal(share.key_count, FEATURES);
        float expected[FEATURES] = {0};
        assert_true(serial(f, expected, &share) >= 10);
        struct rbt_model model;
        assert_ok(rbt_model_read(model_path, &model));
        assert_int_equal(rbt_model_digest(&model), f->summary.digest);
        size_t row = 0;
        for (size_t j = 0; j < FEATURES; j++) {
            const bool is_there =
                row < model.arrays[0].count && model.arrays[0].keys[row] == share.keys[j];
            const float weight = is_there ? model.arrays[0].values[row++] : 0.0F;
            assert_true(weight == expected[j]);
        }
        rbt_model_free(&model);
        rbt_share_free(&share);
        rbt_examples_free(&examples);
        assert_int_equal(unlink(model_path), 0);
    }
}

/* The same in one loop of minibatches: w -= lr (mean gradient + l2 w), or AdaGrad with sums. */
static void serial_gradients(const struct fixture *f, bool is_adagrad, float *w,
                             const struct rbt_share *share)
{
    float squares[FEATURES] = {0};
    const size_t chunk = EXAMPLES / CLOCKS_PER_EPOCH;
    for (size_t clock = 0; clock < (size_t)EPOCHS * CLOCKS_PER_EPOCH; clock++) {
        float g[FEATURES] = {0};
        struct rbt_gradient_run run = {.loss = RBT_LOSS_LOGISTIC,
                                       .offsets = share->offsets,
                                       .labels = share->labels,
                                       .indices = share->indices,
                                       .values = share->values,
                                       .begin = chunk * (clock % CLOCKS_PER_EPOCH),
                                       .weights = w,
                                       .factor = is_adagrad ? 1.0F : 1.0F / (float)chunk,
                                       .gradient = g};
        run.end = run.begin + chunk;
        (void)rbt_choose_kernels()->gradient(&run); /* the weights are what is compared */
        for (size_t j = 0; j < FEATURES; j++) {
            g[j] += (float)f->config.l2 * run.factor * (float)chunk * w[j];
            squares[j] += g[j] * g[j];
            const float rate = is_adagrad && g[j] != 0.0F ? 0.5F / sqrtf(squares[j]) : 0.5F;
            w[j] -= rate * g[j];
        }
    }
}

static void gradients_of_one_worker_equal_a_serial_loop(void **state)
{
    struct fixture *f = *state;
    char model_path[80];
    assert_true(snprintf(model_path, sizeof model_path, "%s.rbt", f->path) > 0);
    f->options.model = model_path;
    f->config.lr = (double)NAN;
    f->config.combine = RBT_COMBINE_AUTO;
    for (int is_adagrad = 0; is_adagrad < 2; is_adagrad++) {
        struct rbt_examples examples;
        struct rbt_share share;
        struct rbt_model model;
        const struct rbt_data_options data = {.paths = f->options.data.values,
                                              .path_count = 1,
                                              .format = RBT_FORMAT_LIBSVM,
                                              .has_binary_label = true};
        f->options.rule = is_adagrad ? "adagrad:lr=0.5" : "sgd:lr=0.5";
        f->config.schedule = RBT_LINEAR_SCHEDULE_AUTO;
        assert_ok(train(f));
        assert_string_equal(f->summary.rule, f->options.rule);
        assert_ok(rbt_examples_read(&data, &examples));
        assert_ok(rbt_share_take(&examples, 1, 0, 1, &share));
        float expected[FEATURES] = {0};
        serial_gradients(f, is_adagrad, expected, &share);
        assert_ok(rbt_model_read(model_path, &model));
        assert_int_equal(model.arrays[0].count, FEATURES);
        for (size_t j = 0; j < FEATURES; j++) {
            assert_true(fabsf(model.arrays[0].values[j] - expected[j]) < 1e-5F);
        }
        rbt_model_free(&model);
        rbt_share_free(&share);
        rbt_examples_free(&examples);
        assert_int_equal(unlink(model_path), 0);
    }
}

static void several_workers_repeat_under_bsp(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    f->config.has_bias = true;
    f->config.scale = 0;
    assert_ok(train(f));
    const uint64_t digest = f->summary.digest;
    for (int i = 0; i < 5; i++) {
        assert_ok(train(f));
        assert_int_equal(f->summary.digest, digest);
    }
    assert_int_equal(f->summary.examples, EXAMPLES * EPOCHS);
    assert_int_equal(f->summary.clocks, EPOCHS * CLOCKS_PER_EPOCH);
    assert_int_equal(f->events, 6 * EPOCHS);
    assert_true(f->summary.objective < log(2.0));
}

/* --clocks-per-epoch 2 is what an epoch has anyway. */
static void to_say_the_default_changes_nothing(void **state)
{
    struct fixture *f = *state;
    f->config.schedule = RBT_LINEAR_SCHEDULE_AUTO;
    f->options.clocks_per_epoch = 0;
    assert_ok(train(f));
    const uint64_t digest = f->summary.digest;
    f->options.clocks_per_epoch = 2;
    assert_ok(train(f));
    assert_int_equal(f->summary.digest, digest);
}

/* Where a clock is half a pass, workers of one process wait for each other by default: the model is
 * that of bsp, whoever comes first. With copies two clocks old, 300 examples of each feature would
 * be on their way at once, of which the moves of 100 may add up: then it is another model. */
static void two_workers_repeat_by_default(void **state)
{
    struct fixture *f = *state;
    write_dense(f->path, 200);
    f->options.workers = 2;
    f->options.clocks_per_epoch = 0;
    f->config.scale = 0;
    f->config.schedule = RBT_LINEAR_SCHEDULE_AUTO;
    f->config.combine = RBT_COMBINE_AUTO;
    assert_ok(train(f));
    const uint64_t digest = f->summary.digest;
    f->options.consistency = "essp:2";
    assert_ok(train(f));
    assert_int_equal(f->summary.digest, digest);
    f->options.consistency = NULL;
    assert_ok(train(f));
    assert_int_equal(f->summary.digest, digest);
    f->options.consistency = "ssp:2"; /* was asked for */
    assert_ok(train(f));
    assert_int_not_equal(f->summary.digest, digest);
}

/* Of hinge, the moves of up to 333 examples of a clock are summed up; here there are 300. */
static void moves_of_hinge_add_up(void **state)
{
    struct fixture *f = *state;
    write_dense(f->path, 600);
    f->options.workers = 2;
    f->options.clocks_per_epoch = 0;
    f->config.loss = RBT_LOSS_HINGE;
    f->config.scale = 0;
    f->config.schedule = RBT_LINEAR_SCHEDULE_AUTO;
    f->config.decay = 2.0; /* else it depends on how moves are combined */
    f->config.combine = RBT_COMBINE_SUM;
    assert_ok(train(f));
    const uint64_t digest = f->summary.digest;
    f->config.combine = RBT_COMBINE_AUTO;
    assert_ok(train(f));
    assert_int_equal(f->summary.digest, digest);
}

static void examples_on_disk_give_the_same_model(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    f->config.scale = 0;
    f->config.cache = "/tmp";
    for (int with_rule = 0; with_rule < 2; with_rule++) {
        uint64_t digest = 0;
        double objective = 0;
        f->options.rule = with_rule != 0 ? "adagrad" : NULL;
        f->config.schedule = RBT_LINEAR_SCHEDULE_AUTO;
        f->config.combine = RBT_COMBINE_AUTO;
        for (int32_t storage = RBT_STORAGE_MEMORY; storage <= RBT_STORAGE_BOTH; storage++) {
            f->config.storage = storage;
            assert_ok(train(f));
            assert_true(storage == RBT_STORAGE_MEMORY || digest == f->summary.digest);
            assert_true(storage == RBT_STORAGE_MEMORY || objective == f->summary.objective);
            digest = f->summary.digest;
            objective = f->summary.objective;
        }
    }
    assert_int_equal(rbt_alloc_live(), 0);
}

static void a_limit_that_cannot_be_kept_is_refused(void **state)
{
    struct fixture *f = *state;
    f->config.memory_limit = 1; /* the command line asks for more */
    assert_fails(train(f), RBT_E_INVALID, "the memory limit of 1 B is too small");
    f->config.storage = RBT_STORAGE_MEMORY;
    assert_fails(train(f), RBT_E_INVALID, "\"--storage memory\" exclude");
    f->config.storage = RBT_STORAGE_DISK;
    f->options.is_exact = true;
    assert_fails(train(f), RBT_E_INVALID, "\"--exact\" needs all examples in memory");
}

static void divergence_is_an_error_with_a_hint(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 2;
    f->config.loss = RBT_LOSS_SQUARED;
    f->config.lr = 1e30;
    assert_fails(train(f), RBT_E_DATA, "training diverged in epoch");
    assert_non_null(strstr(rbt_last_hint(), "--lr"));
}

static void interruption_and_target_stop_early(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 2;
    f->options.epochs = 1000;
    f->options.model = "/nowhere/m.rbt"; /* is not written */
    f->observer.is_interrupted = interrupt_at_third_poll;
    assert_ok(train(f));
    assert_true(f->summary.is_interrupted);
    assert_true(f->summary.clocks < 1000);
    f->options.model = NULL;
    f->observer.is_interrupted = NULL;
    f->options.target = 0.6;
    assert_ok(train(f));
    assert_false(f->summary.is_interrupted);
    assert_true(f->summary.clocks < 1000 * CLOCKS_PER_EPOCH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_worker_equals_a_serial_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(gradients_of_one_worker_equal_a_serial_loop, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(several_workers_repeat_under_bsp, setup, teardown),
        cmocka_unit_test_setup_teardown(to_say_the_default_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(two_workers_repeat_by_default, setup, teardown),
        cmocka_unit_test_setup_teardown(moves_of_hinge_add_up, setup, teardown),
        cmocka_unit_test_setup_teardown(examples_on_disk_give_the_same_model, setup, teardown),
        cmocka_unit_test_setup_teardown(a_limit_that_cannot_be_kept_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(divergence_is_an_error_with_a_hint, setup, teardown),
        cmocka_unit_test_setup_teardown(interruption_and_target_stop_early, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
