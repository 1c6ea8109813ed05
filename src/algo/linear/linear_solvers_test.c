/* algo/linear/linear_solvers_test.c - every solver against a serial one that is obviously right. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/frame/replica.h"
#include "algo/frame/training.h"
#include "algo/linear/linear.h"
#include "base/rng.h"
#include "math/loss.h"

enum { EXAMPLES = 90, FEATURES = 30, BIAS = FEATURES, COORDINATES };
enum { SGD, DBPG, EMSO_GD, EMSO_CD, CD, LBFGS }; /* --solver */
enum { SCALE_FEATURES, SCALE_NONE };

struct fixture {
    char path[64];
    char model[80];
    struct rbt_train_options options;
    struct rbt_linear_config config;
    struct rbt_train_summary summary;
    double x[EXAMPLES][COORDINATES]; /* in the order of the share; the last column is ones */
    double y[EXAMPLES];
};

/* Labels follow the first features, with some noise. Feature 30 is very rare. */
static void write_data(const char *path, bool is_regression)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 5, 0, 0);
    for (int i = 0; i < EXAMPLES; i++) {
        const double first = rbt_rng_normal(&rng);
        const double target = 0.4 + first + 0.5 * rbt_rng_normal(&rng);
        fprintf(file, "%.4f 1:%.4f", is_regression ? target : target > 0 ? 1 : -1, first);
        for (int j = 2; j <= FEATURES; j++) {
            if (j == FEATURES ? i % 40 == 7 : rbt_rng_below(&rng, 4) == 0) {
                fprintf(file, " %d:%.4f", j, rbt_rng_normal(&rng));
            }
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

/* The examples in the order in which one worker has them. */
static void read_data(struct fixture *f)
{
    struct rbt_examples examples;
    struct rbt_share share;
    const struct rbt_data_options data = {.paths = f->options.data.values,
                                          .path_count = 1,
                                          .format = RBT_FORMAT_LIBSVM,
                                          .has_binary_label = f->config.loss != RBT_LOSS_SQUARED};
    assert_ok(rbt_examples_read(&data, &examples));
    assert_ok(rbt_share_take(&examples, (uint64_t)f->options.seed, 0, 1, &share));
    assert_int_equal(share.key_count, FEATURES);
    memset(f->x, 0, sizeof f->x);
    for (size_t i = 0; i < EXAMPLES; i++) {
        f->y[i] = (double)share.labels[i];
        f->x[i][BIAS] = f->config.has_bias ? 1 : 0;
        for (uint64_t k = share.offsets[i]; k < share.offsets[i + 1]; k++) {
            f->x[i][share.indices[k]] = (double)share.values[k];
        }
    }
    rbt_share_free(&share);
    rbt_examples_free(&examples);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-solvers-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_true(snprintf(f->model, sizeof f->model, "%s.rbt", f->path) > 0);
    f->options = (struct rbt_train_options){.format = RBT_FORMAT_LIBSVM,
                                            .workers = 1,
                                            .servers = 2,
                                            .consistency = "bsp",
                                            .seed = 1,
                                            .label_column = -1,
                                            .model = f->model,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_linear_config){.lr = (double)NAN,
                                           .schedule = RBT_LINEAR_SCHEDULE_AUTO,
                                           .scale = 2,
                                           .batch = 1,
                                           .combine = RBT_COMBINE_AUTO,
                                           .has_bias = true,
                                           .kkt = 8,
                                           .kkt_margin = 0.1,
                                           .minibatch = 100000,
                                           .gamma = 0.01};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->path);  /* a test that failed may have removed it */
    (void)unlink(f->model); /* or never made it */
    free(f);
    return 0;
}

static void choose(struct fixture *f, int32_t solver, enum rbt_loss loss)
{
    f->config.blocks = solver == DBPG ? 12 : 0;
    f->config.solver = solver;
    f->config.loss = (int32_t)loss;
    write_data(f->path, loss == RBT_LOSS_SQUARED);
    read_data(f);
}

static rbt_status train(struct fixture *f)
{
    const struct rbt_observer observer = {0};
    return rbt_linear.train(&f->options, &f->config, &observer, &f->summary);
}

/* Trains and reads the model, the bias last. */
static void learn(struct fixture *f, double *w)
{
    struct rbt_model model;
    assert_ok(train(f));
    assert_ok(rbt_model_read(f->model, &model));
    memset(w, 0, COORDINATES * sizeof *w);
    for (size_t i = 0; i < model.arrays[0].count; i++) {
        w[model.arrays[0].keys[i] - 1] = (double)model.arrays[0].values[i];
    }
    w[BIAS] = f->config.has_bias ? (double)model.arrays[1].values[0] : 0;
    rbt_model_free(&model);
}

/* The objective, and the slope of its smooth part with respect to each coordinate (or NULL). */
static double objective_at(const struct fixture *f, const double *w, double *slopes)
{
    double sum = 0;
    for (size_t j = 0; slopes != NULL && j < COORDINATES; j++) {
        slopes[j] = j == BIAS ? 0 : f->config.l2 * w[j];
    }
    for (size_t i = 0; i < EXAMPLES; i++) {
        double margin = 0;
        for (size_t j = 0; j < COORDINATES; j++) {
            margin += f->x[i][j] * w[j];
        }
        const struct rbt_loss_point at =
            rbt_loss_at((enum rbt_loss)f->config.loss, margin, f->y[i]);
        sum += at.value / EXAMPLES;
        for (size_t j = 0; slopes != NULL && j < COORDINATES; j++) {
            slopes[j] += at.slope * f->x[i][j] / EXAMPLES;
        }
    }
    for (size_t j = 0; j < FEATURES; j++) {
        sum += f->config.l1 * fabs(w[j]) + f->config.l2 / 2 * w[j] * w[j];
    }
    return sum;
}

/* Coordinate descent with a bound of the curvature, in doubles, until nothing moves. */
static double minimise(const struct fixture *f, double *w)
{
    const double curvature = rbt_loss_curvature((enum rbt_loss)f->config.loss);
    memset(w, 0, COORDINATES * sizeof *w);
    for (int pass = 0; pass < 4000; pass++) {
        double moved = 0;
        for (size_t j = 0; j < COORDINATES; j++) {
            double slopes[COORDINATES];
            double h = j == BIAS ? 0 : f->config.l2;
            (void)objective_at(f, w, slopes); /* for the slopes */
            for (size_t i = 0; i < EXAMPLES; i++) {
                h += curvature * f->x[i][j] * f->x[i][j] / EXAMPLES;
            }
            if (h <= 0) {
                continue;
            }
            const double x = w[j] - slopes[j] / h;
            const double size = fabs(x) - (j == BIAS ? 0 : f->config.l1 / h);
            const double to = size <= 0 ? 0 : copysign(size, x);
            moved += fabs(to - w[j]);
            w[j] = to;
        }
        if (moved < 1e-9) {
            break;
        }
    }
    return objective_at(f, w, NULL);
}

static void assert_reaches(struct fixture *f, double best, double tolerance)
{
    double w[COORDINATES];
    learn(f, w);
    const double reached = objective_at(f, w, NULL);
    assert_true(fabs(reached - f->summary.objective) < 1e-5);
    assert_true(reached > best - 1e-7);
    assert_true(reached < best + tolerance * best);
}

/* --- dbpg --------------------------------------------------------------------------------------
 */

static void dbpg_reaches_the_minimum_with_every_delay(void **state)
{
    struct fixture *f = *state;
    for (int is_squared = 0; is_squared < 2; is_squared++) {
        double best[COORDINATES];
        f->config.l1 = 0.02;
        f->config.l2 = 0.001;
        f->options.epochs = 200;
        choose(f, DBPG, is_squared ? RBT_LOSS_SQUARED : RBT_LOSS_LOGISTIC);
        const double value = minimise(f, best);
        for (f->config.delay = 0; f->config.delay <= 6; f->config.delay += 3) {
            for (f->options.workers = 1; f->options.workers <= 3; f->options.workers += 2) {
                assert_reaches(f, value, 1e-4);
                assert_true(f->summary.inactive > 0.2 && f->summary.inactive < 1);
            }
        }
    }
}

/* What workers read does not depend on when they read it. */
static void dbpg_gives_the_same_bits_with_a_delay(void **state)
{
    struct fixture *f = *state;
    f->config.l1 = 0.01;
    f->options.epochs = 5;
    f->options.workers = 3;
    f->config.delay = 4;
    choose(f, DBPG, RBT_LOSS_LOGISTIC);
    assert_ok(train(f));
    const uint64_t digest = f->summary.digest;
    for (int i = 0; i < 5; i++) {
        f->options.consistency = i % 2 == 0 ? "essp:2" : "asp"; /* --delay is what counts */
        assert_ok(train(f));
        assert_int_equal(f->summary.digest, digest);
    }
    f->config.delay = 0;
    assert_ok(train(f));
    assert_int_not_equal(f->summary.digest, digest);
}

/* Left alone or not, weights end where they should. */
static void dbpg_leaves_weights_alone_without_harm(void **state)
{
    struct fixture *f = *state;
    double best[COORDINATES];
    f->config.l1 = 0.03;
    f->options.epochs = 200;
    choose(f, DBPG, RBT_LOSS_LOGISTIC);
    const double value = minimise(f, best);
    for (int i = 0; i < 4; i++) {
        f->config.kkt = i == 0 ? 1 : 16;
        f->config.kkt_margin = i == 1 ? 0 : i == 2 ? 0.1 : 1;
        assert_reaches(f, value, 1e-4);
    }
}

/* At the minimum: as many as are zero with a gradient below l1 by the margin, by our own count. */
static void dbpg_leaves_alone_what_the_margin_says(void **state)
{
    struct fixture *f = *state;
    const double margins[] = {0.1, 0.3, 0.5, 0.7, 0.9};
    f->config.l1 = 0.03;
    f->options.epochs = 400;
    choose(f, DBPG, RBT_LOSS_LOGISTIC);
    double last = 1;
    for (size_t i = 0; i < sizeof margins / sizeof margins[0]; i++) {
        double w[COORDINATES];
        double slopes[COORDINATES];
        int count = 0;
        f->config.kkt_margin = margins[i];
        learn(f, w);
        (void)objective_at(f, w, slopes); /* for the slopes */
        for (size_t j = 0; j < FEATURES; j++) {
            count += w[j] == 0 && fabs(slopes[j]) <= f->config.l1 * (1 - margins[i]);
        }
        assert_true(fabs(f->summary.inactive - (double)count / FEATURES) < 1e-9);
        assert_true(f->summary.inactive < last); /* the margin says which */
        last = f->summary.inactive;
    }
}

/* --- emso --------------------------------------------------------------------------------------
 */

/* The slope of the subproblem of one clock from w = 0, which is what is minimised. */
static void assert_subproblem_is_solved(struct fixture *f)
{
    double w[COORDINATES];
    double slopes[COORDINATES];
    learn(f, w);
    (void)objective_at(f, w, slopes); /* for the slopes */
    for (size_t j = 0; j < COORDINATES; j++) {
        assert_true(fabs(slopes[j] + f->config.gamma * w[j]) < 2e-5);
    }
}

static void emso_solves_least_squares_when_it_has_the_time(void **state)
{
    struct fixture *f = *state;
    f->config.l2 = 0.05;
    f->config.gamma = 0.3;
    f->config.scale = SCALE_NONE;
    f->options.epochs = 1;
    f->config.inner = 2000;
    choose(f, EMSO_CD, RBT_LOSS_SQUARED);
    assert_subproblem_is_solved(f);
    f->config.lr = 0.3;
    choose(f, EMSO_GD, RBT_LOSS_SQUARED);
    assert_subproblem_is_solved(f);
}

/* Algorithm 7 from w = 0. */
static void emso_gd_of_one_worker_is_algorithm_7(void **state)
{
    struct fixture *f = *state;
    double w[COORDINATES];
    double expected[COORDINATES] = {0};
    f->config.gamma = 0.2;
    f->config.lr = 0.5;
    f->config.scale = SCALE_NONE;
    f->options.epochs = 1;
    choose(f, EMSO_GD, RBT_LOSS_LOGISTIC);
    learn(f, w);
    const double eta = 0.5 / (1 + 0.5 * 0.2);
    for (int step = 0; step < 5; step++) {
        double slopes[COORDINATES];
        (void)objective_at(f, expected, slopes); /* for the slopes */
        for (size_t j = 0; j < COORDINATES; j++) {
            expected[j] -= eta * (slopes[j] + 0.2 * expected[j]);
        }
    }
    for (size_t j = 0; j < COORDINATES; j++) {
        assert_true(fabs(w[j] - expected[j]) < 1e-6);
    }
}

/* With steps that do not know of gamma it would diverge. */
static void emso_gd_stands_any_gamma(void **state)
{
    struct fixture *f = *state;
    double w[COORDINATES];
    f->config.gamma = 1e5;
    f->options.epochs = 20;
    choose(f, EMSO_GD, RBT_LOSS_LOGISTIC);
    learn(f, w);
    for (size_t j = 0; j < COORDINATES; j++) {
        assert_true(fabs(w[j]) < 0.1);
    }
}

/* A Newton step of coordinate j, as algorithm 8 has it, with the curvature at the current w. */
static void newton(const struct fixture *f, double *w, size_t j)
{
    double slopes[COORDINATES];
    double h = f->config.gamma;
    (void)objective_at(f, w, slopes); /* for the slopes */
    for (size_t i = 0; i < EXAMPLES; i++) {
        double margin = 0;
        for (size_t k = 0; k < COORDINATES; k++) {
            margin += f->x[i][k] * w[k];
        }
        const double p = 1 / (1 + exp(-margin));
        h += fmax(p * (1 - p), 1.0 / 64) * f->x[i][j] * f->x[i][j] / EXAMPLES;
    }
    w[j] -= (slopes[j] + f->config.gamma * w[j]) / h;
}

static void emso_cd_of_one_worker_is_algorithm_8(void **state)
{
    struct fixture *f = *state;
    double w[COORDINATES];
    double expected[COORDINATES] = {0};
    uint32_t order[FEATURES];
    struct rbt_rng rng;
    f->options.epochs = 1;
    choose(f, EMSO_CD, RBT_LOSS_LOGISTIC);
    learn(f, w);
    rbt_rng_init(&rng, 1, 1, 0);
    for (int pass = 0; pass < 2; pass++) {
        rbt_rng_permutation(&rng, order, FEATURES);
        newton(f, expected, BIAS);
        for (size_t at = 0; at < FEATURES; at++) {
            newton(f, expected, order[at]);
        }
    }
    for (size_t j = 0; j < COORDINATES; j++) {
        assert_true(fabs(w[j] - expected[j]) < 1e-4 * (1 + fabs(expected[j])));
    }
}

/* Averaged models of several workers and several minibatches get near the minimum, and better
 * the closer they stay. */
static void emso_of_several_workers_gets_near_the_minimum(void **state)
{
    struct fixture *f = *state;
    double best[COORDINATES];
    f->config.l2 = 0.05;
    f->options.workers = 3;
    f->options.epochs = 40;
    f->config.minibatch = 45;
    for (int32_t solver = EMSO_GD; solver <= EMSO_CD; solver++) {
        f->config.gamma = 2;
        choose(f, solver, RBT_LOSS_LOGISTIC);
        assert_reaches(f, minimise(f, best), 0.02);
        const uint64_t digest = f->summary.digest;
        const double near = f->summary.objective;
        assert_int_equal(f->summary.clocks, 80);
        assert_ok(train(f));
        assert_int_equal(f->summary.digest, digest);
        f->config.gamma = 0.01;
        assert_ok(train(f));
        assert_true(f->summary.objective > near);
    }
}

/* --- cd and lbfgs ------------------------------------------------------------------------------
 */

static void cd_is_the_lasso(void **state)
{
    struct fixture *f = *state;
    double best[COORDINATES];
    f->config.l1 = 0.03;
    f->options.epochs = 600;
    for (int has_l2 = 0; has_l2 < 2; has_l2++) {
        f->config.l2 = has_l2 ? 0.02 : 0;
        choose(f, CD, RBT_LOSS_SQUARED);
        const double value = minimise(f, best);
        for (f->options.workers = 1; f->options.workers <= 4; f->options.workers += 3) {
            f->options.consistency = "bsp";
            assert_reaches(f, value, 1e-6);
            f->options.consistency = "ssp:2";
            f->options.clocks_per_epoch = f->options.workers == 1 ? 3 : 0;
            assert_reaches(f, value, 1e-5);
            f->options.clocks_per_epoch = 0;
        }
    }
}

/* All features say nearly the same: workers that made full steps at the same time would go four
 * times too far, and back, and further. */
static void cd_does_not_go_too_far_with_features_that_are_alike(void **state)
{
    struct fixture *f = *state;
    double best[COORDINATES];
    struct rbt_rng rng;
    FILE *file = fopen(f->path, "w");
    assert_non_null(file);
    rbt_rng_init(&rng, 6, 0, 0);
    for (int i = 0; i < EXAMPLES; i++) {
        const double x = rbt_rng_normal(&rng);
        fprintf(file, "%.4f", 3 * x + 0.1 * rbt_rng_normal(&rng));
        for (int j = 1; j <= FEATURES; j++) {
            fprintf(file, " %d:%.4f", j, x + 0.1 * rbt_rng_normal(&rng));
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
    f->config.solver = CD;
    f->config.loss = RBT_LOSS_SQUARED;
    f->config.l1 = 0.01;
    f->config.l2 = 0.01;
    f->options.workers = 4;
    f->options.epochs = 600;
    read_data(f);
    const double value = minimise(f, best);
    assert_reaches(f, value, 0.02);
}

static void lbfgs_reaches_the_minimum(void **state)
{
    struct fixture *f = *state;
    double best[COORDINATES];
    f->config.l2 = 0.01;
    f->options.epochs = 100;
    f->options.consistency = "asp"; /* it does not mind */
    for (int is_squared = 0; is_squared < 2; is_squared++) {
        choose(f, LBFGS, is_squared ? RBT_LOSS_SQUARED : RBT_LOSS_LOGISTIC);
        const double value = minimise(f, best);
        for (f->options.workers = 1; f->options.workers <= 3; f->options.workers += 2) {
            assert_reaches(f, value, 1e-6);
        }
    }
}

/* Columns of a table as people have them: far from zero, of very different sizes, and some alike.
 */
static void write_table(const char *path, bool is_regression)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 8, 0, 0);
    for (int i = 0; i < EXAMPLES; i++) {
        double x[FEATURES];
        for (int j = 0; j < FEATURES; j++) {
            const double alike = j % 5 == 4 ? 5 * x[j - 1] / pow(10, (j - 1) % 7 - 3) : 0;
            x[j] = (j % 3 * 20 + alike + rbt_rng_normal(&rng)) * pow(10, j % 7 - 3);
        }
        const double target = 1e3 * x[0] - 20 + 0.5 * rbt_rng_normal(&rng);
        fprintf(file, "%.6g", is_regression ? 1e5 * target : target > -20 ? 1.0 : -1.0);
        for (int j = 0; j < FEATURES; j++) {
            fprintf(file, " %d:%.6g", j + 1, x[j]);
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

/* Solves h d = -g by elimination; h and g are lost. */
static void solve(double h[COORDINATES][COORDINATES], double *g, double *d)
{
    for (size_t k = 0; k < COORDINATES; k++) {
        for (size_t i = k + 1; i < COORDINATES; i++) {
            const double factor = h[i][k] / h[k][k];
            for (size_t j = k; j < COORDINATES; j++) {
                h[i][j] -= factor * h[k][j];
            }
            g[i] -= factor * g[k];
        }
    }
    for (size_t k = COORDINATES; k-- > 0;) {
        double rest = -g[k];
        for (size_t j = k + 1; j < COORDINATES; j++) {
            rest -= h[k][j] * d[j];
        }
        d[k] = rest / h[k][k];
    }
}

/* Newton's method in doubles, with halved steps where whole ones do not help. */
static double minimise_by_newton(const struct fixture *f, double *w)
{
    memset(w, 0, COORDINATES * sizeof *w);
    double value = objective_at(f, w, NULL);
    for (int step = 0; step < 200; step++) {
        static double h[COORDINATES][COORDINATES];
        double g[COORDINATES];
        double d[COORDINATES];
        double next[COORDINATES];
        (void)objective_at(f, w, g); /* for the slopes */
        memset(h, 0, sizeof h);
        for (size_t j = 0; j < FEATURES; j++) {
            h[j][j] = f->config.l2;
        }
        for (size_t i = 0; i < EXAMPLES; i++) {
            double margin = 0;
            for (size_t j = 0; j < COORDINATES; j++) {
                margin += f->x[i][j] * w[j];
            }
            const double p = 1 / (1 + exp(-margin));
            const double c = f->config.loss == RBT_LOSS_SQUARED ? 1 : fmax(p * (1 - p), 1e-12);
            for (size_t j = 0; j < COORDINATES; j++) {
                for (size_t k = 0; k < COORDINATES; k++) {
                    h[j][k] += c * f->x[i][j] * f->x[i][k] / EXAMPLES;
                }
            }
        }
        solve(h, g, d);
        double reached = value;
        for (double size = 1; size > 1e-6 && !(reached < value); size /= 2) {
            for (size_t j = 0; j < COORDINATES; j++) {
                next[j] = w[j] + size * d[j];
            }
            reached = objective_at(f, next, NULL);
        }
        if (!(reached < value)) {
            break;
        }
        memcpy(w, next, sizeof next);
        value = reached;
    }
    return value;
}

/* Columns as they are, without a word about epochs; it says that it is done. */
static void lbfgs_needs_no_scaled_columns(void **state)
{
    struct fixture *f = *state;
    double best[COORDINATES];
    f->config.l2 = 1e-5;
    for (int is_squared = 0; is_squared < 2; is_squared++) {
        choose(f, LBFGS, is_squared ? RBT_LOSS_SQUARED : RBT_LOSS_LOGISTIC);
        write_table(f->path, is_squared);
        read_data(f);
        const double value = minimise_by_newton(f, best);
        for (f->options.workers = 1; f->options.workers <= 32; f->options.workers *= 2) {
            assert_ok(train(f));
            assert_true(f->summary.objective < value * (1 + 1e-4));
            assert_true(f->summary.objective > value * (1 - 1e-4));
            assert_string_equal(f->summary.unconverged, "");
        }
    }
}

static void lbfgs_says_that_it_has_not_converged(void **state)
{
    struct fixture *f = *state;
    f->config.l2 = 0.01;
    f->options.epochs = 4;
    choose(f, LBFGS, RBT_LOSS_LOGISTIC);
    assert_ok(train(f));
    assert_non_null(strstr(f->summary.unconverged, "--epochs"));
    f->options.epochs = 0;
    assert_ok(train(f));
    assert_string_equal(f->summary.unconverged, "");
}

/* Passes that still help are said, and no word is said after enough of them. */
static void solvers_say_that_passes_still_helped(void **state)
{
    struct fixture *f = *state;
    const int32_t solvers[] = {DBPG, CD, EMSO_GD, EMSO_CD};
    for (size_t i = 0; i < sizeof solvers / sizeof solvers[0]; i++) {
        f->config.l1 = solvers[i] == DBPG || solvers[i] == CD ? 0.01 : 0;
        f->config.l2 = solvers[i] == DBPG || solvers[i] == CD ? 0 : 0.001;
        f->options.epochs = 3;
        choose(f, solvers[i], RBT_LOSS_SQUARED);
        f->summary.unconverged[0] = '\0';
        assert_ok(train(f));
        assert_non_null(strstr(f->summary.unconverged, "--epochs"));
        if (solvers[i] == DBPG || solvers[i] == CD) {
            double best[COORDINATES];
            f->options.epochs = 0;
            f->summary.unconverged[0] = '\0';
            assert_reaches(f, minimise(f, best), 1e-4);
            assert_string_equal(f->summary.unconverged, "");
        }
    }
}

/* How far above the minimum the summary says that the objective may be, as a part of it; 0 if it
 * says nothing. */
static double said(const struct fixture *f)
{
    const char *words = strstr(f->summary.unconverged, "up to ");
    if (words == NULL) {
        assert_string_equal(f->summary.unconverged, "");
        return 0.0;
    }
    return strtod(words + strlen("up to "), NULL) / 100;
}

/* Of a training that is too short. The bound is never below the truth, and it gets smaller. */
static void assert_bound(struct fixture *f, double value)
{
    double before = 1e9;
    for (f->options.epochs = 6; f->options.epochs <= 384; f->options.epochs *= 8) {
        f->summary.unconverged[0] = '\0';
        assert_ok(train(f));
        const double above = (f->summary.objective - value) / f->summary.objective;
        assert_true(above <= fmax(1.05 * said(f), 1e-4)); /* it is said with two digits */
        assert_true(said(f) <= before);
        before = said(f);
    }
    assert_true(before == 0.0);
    f->options.epochs = 0;
}

static void dbpg_and_cd_know_how_far_the_minimum_is(void **state)
{
    struct fixture *f = *state;
    double best[COORDINATES];
    const struct {
        int32_t solver;
        enum rbt_loss loss;
        double l1;
        double l2;
    } all[] = {{DBPG, RBT_LOSS_LOGISTIC, 0.01, 0},
               {DBPG, RBT_LOSS_SQUARED, 0.02, 0},
               {DBPG, RBT_LOSS_LOGISTIC, 0.005, 0.01},
               {DBPG, RBT_LOSS_SQUARED, 0, 0.02},
               {CD, RBT_LOSS_SQUARED, 0.02, 0},
               {CD, RBT_LOSS_SQUARED, 0.01, 0.02},
               {CD, RBT_LOSS_SQUARED, 5, 0}};
    for (size_t i = 0; i < 2 * sizeof all / sizeof all[0]; i++) {
        f->config.l1 = all[i / 2].l1;
        f->config.l2 = all[i / 2].l2;
        f->options.workers = i % 2 == 0 ? 1 : 3;
        choose(f, all[i / 2].solver, all[i / 2].loss);
        const double value = minimise(f, best);
        assert_bound(f, value);
        f->summary.unconverged[0] = '\0';
        assert_reaches(f, value, 1e-4);
        assert_string_equal(f->summary.unconverged, "");
        assert_true(f->summary.epochs < 1000);
    }
}

/* Without penalties no bound is known, and passes that do not help any more end it. */
static void dbpg_ends_without_penalties(void **state)
{
    struct fixture *f = *state;
    f->config.l1 = f->config.l2 = 0;
    choose(f, DBPG, RBT_LOSS_SQUARED);
    assert_ok(train(f));
    assert_true(f->summary.epochs < 2000);
    assert_string_equal(f->summary.unconverged, "");
}

/* --- Options -----------------------------------------------------------------------------------
 */

static void refuse(struct fixture *f, int32_t solver, const char *sentence)
{
    f->config.solver = solver;
    assert_fails(train(f), RBT_E_INVALID, sentence);
}

static void solvers_refuse_what_they_cannot_do(void **state)
{
    struct fixture *f = *state;
    write_data(f->path, false);
    f->config.loss = RBT_LOSS_HINGE;
    for (int32_t solver = DBPG; solver <= LBFGS; solver++) {
        refuse(f, solver, "does not support this \"--loss\"");
    }
    f->config.loss = RBT_LOSS_LOGISTIC;
    f->config.gamma = 3;
    refuse(f, LBFGS, "option \"--gamma\" does not apply to solver \"lbfgs\"");
    f->config.gamma = 0.01;
    refuse(f, CD, "solver \"cd\" does not support this \"--loss\"");
    f->config.l1 = 0.1;
    refuse(f, LBFGS, "solver \"lbfgs\" does not support \"--l1\"");
    f->options.rule = "adagrad";
    refuse(f, DBPG, "solver \"dbpg\" excludes \"--rule\"");
    f->options.rule = NULL;
    f->options.filter = "keys,kkt";
    refuse(f, DBPG, "excludes filter \"kkt\"");
    refuse(f, EMSO_CD, "solver \"emso-cd\" excludes \"--filter\"");
    f->options.filter = NULL;
    f->config.is_rebalanced = true;
    refuse(f, EMSO_GD, "\"--rebalance\"");
    f->config.is_rebalanced = false;
    f->config.delay = 13;
    f->config.blocks = 12;
    refuse(f, DBPG, "--delay 13 needs more than 12 blocks");
    f->options.clocks_per_epoch = 3;
    refuse(f, DBPG, "excludes \"--clocks-per-epoch\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(dbpg_reaches_the_minimum_with_every_delay),
        CASE(dbpg_gives_the_same_bits_with_a_delay),
        CASE(dbpg_leaves_weights_alone_without_harm),
        CASE(dbpg_leaves_alone_what_the_margin_says),
        CASE(emso_solves_least_squares_when_it_has_the_time),
        CASE(emso_gd_of_one_worker_is_algorithm_7),
        CASE(emso_gd_stands_any_gamma),
        CASE(emso_cd_of_one_worker_is_algorithm_8),
        CASE(emso_of_several_workers_gets_near_the_minimum),
        CASE(cd_is_the_lasso),
        CASE(cd_does_not_go_too_far_with_features_that_are_alike),
        CASE(lbfgs_reaches_the_minimum),
        CASE(lbfgs_needs_no_scaled_columns),
        CASE(lbfgs_says_that_it_has_not_converged),
        CASE(solvers_say_that_passes_still_helped),
        CASE(dbpg_and_cd_know_how_far_the_minimum_is),
        CASE(dbpg_ends_without_penalties),
        CASE(solvers_refuse_what_they_cannot_do),
#undef CASE
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
