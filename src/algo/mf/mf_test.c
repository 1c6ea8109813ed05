/* algo/mf/mf_test.c - factorisation against a serial loop, bit for bit, and against what made it.
 */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "algo/frame/replica.h"
#include "algo/frame/training.h"
#include "algo/mf/mf.h"
#include "algo/mf/mf_model.h"
#include "base/hash.h"
#include "base/rng.h"
#include "math/choose.h"

enum { USERS = 20, ITEMS = 15, RATINGS = 200, RANK = 3, EPOCHS = 3 };

struct fixture {
    char path[64];
    char model_path[80];
    struct rbt_train_options options;
    struct rbt_mf_config config;
    struct rbt_observer observer;
    struct rbt_train_summary summary;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-mf-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    for (uint64_t k = 0; k < RATINGS; k++) {
        const uint64_t user = k % USERS;
        const uint64_t item = k * 7 % ITEMS;
        const double rating = 3.0 + rbt_rng_normal_at(1, user, 0) * rbt_rng_normal_at(2, item, 0);
        fprintf(file, "%d\t%d\t%.3f\n", (int)user + 1, (int)item + 1, rating);
    }
    assert_int_equal(fclose(file), 0);
    assert_true(snprintf(f->model_path, sizeof f->model_path, "%s.rbt", f->path) > 0);
    f->options = (struct rbt_train_options){.format = RBT_FORMAT_RATINGS,
                                            .epochs = EPOCHS,
                                            .clocks_per_epoch = 1,
                                            .workers = 1,
                                            .servers = 1,
                                            .consistency = "bsp",
                                            .seed = 1,
                                            .model = f->model_path,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_mf_config){
        .rank = RANK, .l2 = 0.05, .lr = 0.05, .schedule = RBT_SCHEDULE_CONSTANT};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)unlink(f->model_path); /* a test that failed may have removed it */
    (void)unlink(f->path);
    free(f);
    return 0;
}

static rbt_status train(struct fixture *f)
{
    return rbt_mf.train(&f->options, &f->config, &f->observer, &f->summary);
}

static void fill(float *factors, const uint64_t *keys, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count * RANK; i++) {
        factors[i] = (float)(0.1 * rbt_rng_normal_at(seed, keys[i / RANK], i % RANK));
    }
}

/* A clock ends with w = w_0 + (w - w_0), as the table adds what has changed. */
static void serial(const struct fixture *f, const struct rbt_rating_share *share, float *p,
                   float *q)
{
    fill(p, share->user_keys, share->user_count, 1);
    fill(q, share->item_keys, share->item_count, rbt_hash_key(2));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float p_before[USERS * RANK];
        float q_before[ITEMS * RANK];
        memcpy(p_before, p, sizeof p_before);
        memcpy(q_before, q, sizeof q_before);
        const struct rbt_mf_run run = {.users = share->users,
                                       .items = share->items,
                                       .values = share->values,
                                       .end = share->count,
                                       .user_factors = p,
                                       .item_factors = q,
                                       .rank = RANK,
                                       .eta = (float)f->config.lr,
                                       .l2 = (float)f->config.l2};
        (void)rbt_choose_kernels()->mf(&run); /* the factors are what is compared */
        for (size_t j = 0; j < USERS * RANK; j++) {
            p[j] = p_before[j] + (p[j] - p_before[j]);
        }
        for (size_t j = 0; j < ITEMS * RANK; j++) {
            q[j] = q_before[j] + (q[j] - q_before[j]);
        }
    }
}

static void one_worker_equals_a_serial_loop(void **state)
{
    struct fixture *f = *state;
    struct rbt_ratings ratings;
    struct rbt_rating_share share;
    struct rbt_model model;
    const struct rbt_data_options data = {
        .paths = f->options.data.values, .path_count = 1, .format = RBT_FORMAT_RATINGS};
    assert_ok(train(f));
    assert_ok(rbt_ratings_read(&data, &ratings));
    assert_ok(rbt_rating_share_take(&ratings, 1, 0, 1, &share));
    assert_int_equal(share.user_count, USERS);
    assert_int_equal(share.item_count, ITEMS);
    float p[USERS * RANK];
    float q[ITEMS * RANK];
    serial(f, &share, p, q);
    assert_ok(rbt_model_read(f->model_path, &model));
    assert_int_equal(model.array_count, 2);
    assert_memory_equal(rbt_model_array_find(&model, "users")->values, p, sizeof p);
    assert_memory_equal(rbt_model_array_find(&model, "items")->values, q, sizeof q);
    rbt_model_free(&model);
    rbt_rating_share_free(&share);
    rbt_ratings_free(&ratings);
}

/* Every row takes one step per clock, along the sum of its ratings' gradients. */
static void gradients_of_one_worker_equal_a_serial_loop(void **state)
{
    struct fixture *f = *state;
    struct rbt_ratings ratings;
    struct rbt_rating_share share;
    struct rbt_model model;
    const struct rbt_data_options data = {
        .paths = f->options.data.values, .path_count = 1, .format = RBT_FORMAT_RATINGS};
    f->options.rule = "sgd:lr=0.01";
    f->config.schedule = RBT_MF_SCHEDULE_AUTO;
    f->config.lr = (double)NAN;
    f->config.combine = RBT_COMBINE_AUTO;
    assert_ok(train(f));
    assert_ok(rbt_ratings_read(&data, &ratings));
    assert_ok(rbt_rating_share_take(&ratings, 1, 0, 1, &share));
    float p[USERS * RANK];
    float q[ITEMS * RANK];
    fill(p, share.user_keys, share.user_count, 1);
    fill(q, share.item_keys, share.item_count, rbt_hash_key(2));
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        float gp[USERS * RANK] = {0};
        float gq[ITEMS * RANK] = {0};
        const struct rbt_mf_run run = {.users = share.users,
                                       .items = share.items,
                                       .values = share.values,
                                       .end = share.count,
                                       .user_factors = p,
                                       .item_factors = q,
                                       .rank = RANK,
                                       .l2 = (float)f->config.l2};
        const struct rbt_mf_gradient_run gradient = {
            .at = &run, .user_factors = gp, .item_factors = gq};
        (void)rbt_choose_kernels()->mf_gradient(&gradient); /* the factors are compared */
        for (size_t j = 0; j < USERS * RANK; j++) {
            p[j] -= 0.01F * gp[j];
        }
        for (size_t j = 0; j < ITEMS * RANK; j++) {
            q[j] -= 0.01F * gq[j];
        }
    }
    assert_ok(rbt_model_read(f->model_path, &model));
    for (size_t j = 0; j < USERS * RANK; j++) {
        assert_true(fabsf(rbt_model_array_find(&model, "users")->values[j] - p[j]) < 1e-5F);
    }
    for (size_t j = 0; j < ITEMS * RANK; j++) {
        assert_true(fabsf(rbt_model_array_find(&model, "items")->values[j] - q[j]) < 1e-5F);
    }
    rbt_model_free(&model);
    rbt_rating_share_free(&share);
    rbt_ratings_free(&ratings);
}

static void strangers_get_the_mean(void **state)
{
    struct fixture *f = *state;
    struct rbt_model model;
    rbt_mf_model *scorer = NULL;
    f->config.has_bias = true;
    assert_ok(train(f));
    assert_ok(rbt_model_read(f->model_path, &model));
    assert_ok(rbt_mf_model_open(&model, &scorer));
    const double mean = rbt_model_setting(&model, "mean", 0.0);
    const float bias = rbt_model_array_find(&model, "item_bias")->values[0]; /* of item 1 */
    assert_true(rbt_mf_model_score(scorer, 999, 999) == (float)mean);
    assert_true(rbt_mf_model_score(scorer, 999, 1) == (float)(mean + (double)bias));
    rbt_mf_model_close(scorer);
    rbt_model_free(&model);
}

static void no_factor_is_negative(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    f->options.epochs = 20;
    f->options.consistency = "ssp:2";
    f->config.has_bias = true; /* which does not count then */
    f->config.is_nonnegative = true;
    assert_int_equal(train(f), RBT_OK);
    struct rbt_model model;
    assert_int_equal(rbt_model_read(f->model_path, &model), RBT_OK);
    assert_int_equal(model.array_count, 2);
    for (size_t i = 0; i < model.array_count; i++) {
        for (size_t j = 0; j < model.arrays[i].count * RANK; j++) {
            assert_true(model.arrays[i].values[j] >= 0.0F);
        }
    }
    assert_true(f->summary.objective < 2.0); /* the variance of the ratings is about 1 */
    rbt_model_free(&model);
    f->config.combine = RBT_COMBINE_AUTO;
    f->options.rule = "adarev";
    assert_int_equal(train(f), RBT_E_INVALID);
    assert_string_equal(
        rbt_last_error(),
        "rule \"adarev\" excludes \"--non-negative\", which servers cannot enforce");
}

/* Rows of a table by their keys, which count from 1. */
struct rows {
    float values[USERS][RANK]; /* items are fewer */
};

static void read_rows(const struct fixture *f, struct rows *users, struct rows *items)
{
    struct rbt_model model;
    assert_ok(rbt_model_read(f->model_path, &model));
    for (size_t i = 0; i < 2; i++) {
        const struct rbt_model_array *array = &model.arrays[i];
        for (size_t j = 0; j < array->count; j++) {
            memcpy((i == 0 ? users : items)->values[array->keys[j] - 1], array->values + j * RANK,
                   RANK * sizeof(float));
        }
    }
    rbt_model_free(&model);
}

static void copy_rows(const struct rows *rows, const uint64_t *keys, size_t count, float *copy)
{
    for (size_t j = 0; j < count * RANK; j++) {
        copy[j] = rows->values[keys[j / RANK] - 1][j % RANK];
    }
}

static void add_rows(struct rows *rows, const uint64_t *keys, size_t count, const float *moves)
{
    for (size_t j = 0; j < count * RANK; j++) {
        rows->values[keys[j / RANK] - 1][j % RANK] += moves[j];
    }
}

/* What each of two workers adds to an item to lift it from -1 to 0: its part of the ratings. */
static void share_lifts(const struct rbt_rating_share shares[2], struct rows lifts[2])
{
    float counts[2][USERS] = {0};
    for (size_t p = 0; p < 2; p++) {
        for (size_t i = 0; i < shares[p].count; i++) {
            counts[p][shares[p].item_keys[shares[p].items[i]] - 1]++;
        }
    }
    for (size_t j = 0; j < USERS * RANK; j++) {
        const float all = counts[0][j / RANK] + counts[1][j / RANK];
        lifts[0].values[j / RANK][j % RANK] = counts[0][j / RANK] / all;
        lifts[1].values[j / RANK][j % RANK] = counts[1][j / RANK] / all;
    }
}

/* Adds what one worker's clock moves users and items, which begins at `before`; returns how many
 * values it found below zero. */
static size_t clock_of(const struct fixture *f, const struct rbt_rating_share *share,
                       const struct rows *lifts, const struct rows before[2], struct rows after[2])
{
    float lift[USERS * RANK] = {0};
    float found[2][USERS * RANK] = {0};
    float p[USERS * RANK];
    float q[USERS * RANK];
    size_t negative = 0;
    copy_rows(&before[0], share->user_keys, share->user_count, found[0]);
    copy_rows(&before[1], share->item_keys, share->item_count, found[1]);
    copy_rows(lifts, share->item_keys, share->item_count, lift);
    for (size_t j = 0; j < USERS * RANK; j++) {
        negative += found[1][j] < 0.0F ? 1 : 0;
        p[j] = fmaxf(found[0][j], 0.0F);
        q[j] = fmaxf(found[1][j], 0.0F);
    }
    const struct rbt_mf_run run = {.users = share->users,
                                   .items = share->items,
                                   .values = share->values,
                                   .end = share->count,
                                   .user_factors = p,
                                   .item_factors = q,
                                   .rank = RANK,
                                   .eta = (float)f->config.lr,
                                   .l2 = (float)f->config.l2,
                                   .is_nonnegative = true};
    (void)rbt_choose_kernels()->mf(&run); /* the factors are compared */
    for (size_t j = 0; j < USERS * RANK; j++) {
        p[j] -= found[0][j];
        q[j] -= found[1][j] < 0.0F ? found[1][j] * lift[j] : found[1][j];
    }
    add_rows(&after[0], share->user_keys, share->user_count, p);
    add_rows(&after[1], share->item_keys, share->item_count, q);
    return negative;
}

/* The sum of two workers' moves may take an item below zero. They go on from zero, to which they
 * lift it together, and not each of them. */
static void sums_below_zero_are_read_as_zero(void **state)
{
    struct fixture *f = *state;
    const struct rbt_data_options data = {
        .paths = f->options.data.values, .path_count = 1, .format = RBT_FORMAT_RATINGS};
    struct rbt_ratings ratings;
    struct rbt_rating_share shares[2];
    struct rows rows[2] = {0};
    struct rows found[2] = {0};
    struct rows lifts[2] = {0};
    size_t negative = 0;
    assert_ok(rbt_ratings_read(&data, &ratings));
    f->options.workers = 2;
    f->config.is_nonnegative = true;
    f->config.combine = RBT_COMBINE_SUM;
    f->config.lr = 1e-6; /* the model is nearly what training begins with */
    f->options.epochs = 1;
    assert_ok(train(f));
    read_rows(f, &rows[0], &rows[1]);
    f->config.lr = 0.1;
    f->config.l2 = 4.0; /* each of them takes items most of the way to zero */
    f->options.epochs = EPOCHS;
    assert_ok(train(f));
    read_rows(f, &found[0], &found[1]);
    for (uint32_t p = 0; p < 2; p++) {
        assert_ok(rbt_rating_share_take(&ratings, 1, p, 2, &shares[p]));
    }
    share_lifts(shares, lifts);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        const struct rows before[2] = {rows[0], rows[1]};
        for (uint32_t p = 0; p < 2; p++) {
            negative += clock_of(f, &shares[p], &lifts[p], before, rows);
        }
    }
    assert_true(negative > 0);
    for (size_t j = 0; j < USERS * RANK; j++) {
        for (size_t i = 0; i < 2; i++) {
            const float expected = fmaxf(rows[i].values[j / RANK][j % RANK], 0.0F);
            assert_true(fabsf(found[i].values[j / RANK][j % RANK] - expected) < 1e-4F);
        }
    }
    for (uint32_t p = 0; p < 2; p++) {
        rbt_rating_share_free(&shares[p]);
    }
    rbt_ratings_free(&ratings);
}

static void several_workers_learn_and_repeat(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    f->options.epochs = 60;
    f->config.has_bias = true;
    f->config.l2 = 0.01;
    assert_ok(train(f));
    const uint64_t digest = f->summary.digest;
    assert_true(f->summary.objective < 0.3); /* the ratings' variance is about 1 */
    assert_ok(train(f));
    assert_int_equal(f->summary.digest, digest);
    assert_int_equal(f->summary.examples, RATINGS * 60);
}

/* Three workers whose steps are by row; and a given step size means what it says. */
static void adaptive_steps_learn_and_repeat(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    f->options.epochs = 20;
    f->config.lr = (double)NAN;
    f->config.has_bias = true;
    f->config.schedule = RBT_SCHEDULE_DECAY;
    f->config.decay = 0.3;
    f->config.combine = RBT_COMBINE_MEAN;
    assert_ok(train(f));
    const double same_for_all = f->summary.objective;
    const uint64_t digest_decay = f->summary.digest;
    f->config.schedule = RBT_MF_SCHEDULE_AUTO;
    assert_ok(train(f));
    const uint64_t digest = f->summary.digest;
    assert_true(f->summary.objective < same_for_all);
    f->config.schedule = RBT_MF_SCHEDULE_ADAPTIVE;
    assert_ok(train(f));
    assert_int_equal(f->summary.digest, digest);
    f->config.schedule = RBT_MF_SCHEDULE_AUTO;
    f->config.lr = 0.08;
    assert_ok(train(f));
    assert_int_equal(f->summary.digest, digest_decay);
}

/* Workers that share items with few ratings hear of each other more often; what is said counts. */
static void clocks_go_by_workers_and_ratings(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int64_t workers;
        int64_t said;
        int64_t clocks; /* per epoch */
    } cases[] = {{1, 0, 1}, {2, 0, 3}, {3, 0, 5}, {6, 0, 8}, {3, 2, 2}};
    f->config.lr = (double)NAN;
    f->config.has_bias = true;
    f->config.schedule = RBT_MF_SCHEDULE_AUTO;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        f->options.workers = cases[i].workers;
        f->options.clocks_per_epoch = cases[i].said;
        assert_ok(train(f));
        assert_int_equal(f->summary.clocks, EPOCHS * cases[i].clocks);
    }
    f->config.lr = 0.05; /* which is the old way */
    f->options.clocks_per_epoch = 0;
    assert_ok(train(f));
    assert_int_equal(f->summary.clocks, EPOCHS);
}

static void on_event(void *context, const struct rbt_train_event *event)
{
    double *objectives = context;
    if (event->epoch <= 2) {
        objectives[(size_t)event->epoch] = event->objective;
    }
}

/* When steps have become tiny, the figures of a pass are those of the model, penalties and all. */
static void figures_of_epochs_are_those_of_the_model(void **state)
{
    struct fixture *f = *state;
    double objectives[3] = {0};
    f->observer = (struct rbt_observer){.context = objectives, .on_event = on_event};
    f->config.has_bias = true;
    f->config.l2 = 0.5;
    f->config.lr = 0.3;
    f->config.schedule = RBT_SCHEDULE_DECAY;
    f->config.decay = 1e6;
    for (int64_t workers = 1; workers <= 3; workers += 2) {
        f->options.workers = workers;
        f->options.epochs = 3;
        assert_ok(train(f));
        assert_true(fabs(objectives[2] - f->summary.objective) < 1e-4 * objectives[2]);
        assert_true(objectives[2] > 0.1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_worker_equals_a_serial_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(gradients_of_one_worker_equal_a_serial_loop, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(strangers_get_the_mean, setup, teardown),
        cmocka_unit_test_setup_teardown(no_factor_is_negative, setup, teardown),
        cmocka_unit_test_setup_teardown(sums_below_zero_are_read_as_zero, setup, teardown),
        cmocka_unit_test_setup_teardown(clocks_go_by_workers_and_ratings, setup, teardown),
        cmocka_unit_test_setup_teardown(several_workers_learn_and_repeat, setup, teardown),
        cmocka_unit_test_setup_teardown(adaptive_steps_learn_and_repeat, setup, teardown),
        cmocka_unit_test_setup_teardown(figures_of_epochs_are_those_of_the_model, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
