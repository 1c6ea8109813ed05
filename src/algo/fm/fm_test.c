/* algo/fm/fm_test.c - training against a serial loop, what constraints promise, and models. */
#include "base/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algo/fm/fm.h"
#include "algo/fm/fm_job.h"
#include "algo/fm/fm_model.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/rng.h"
#include "math/choose.h"

enum { EXAMPLES = 400, COLUMNS = 4, RANK = 4, EPOCHS = 5 };
static const uint64_t sizes[COLUMNS] = {2, 6, 20, 200}; /* values of a column */

struct fixture {
    char path[64];
    char model_path[80];
    struct rbt_train_options options;
    struct rbt_fm_config config;
    struct rbt_observer observer;
    struct rbt_train_summary summary;
    struct rbt_model model;
};

/* A click depends on whether the first two columns agree, so on a pair of features. Values of the
 * last column are rare, and there are some of the second that occur in a few examples only. With
 * noise, in so many of ten, clicks are drawn. */
static void write_data(const char *path, int count, uint64_t noise)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 5, 0, 0);
    for (int i = 0; i < count; i++) {
        uint64_t picks[COLUMNS];
        uint64_t first = 1;
        for (size_t c = 0; c < COLUMNS; c++) {
            picks[c] = rbt_rng_below(&rng, sizes[c]);
        }
        const bool is_noise = noise > 0 && rbt_rng_below(&rng, 10) < noise;
        const bool is_click = is_noise
                                  ? rbt_rng_below(&rng, 2) == 0
                                  : (picks[0] == picks[1] % 2) != (rbt_rng_below(&rng, 20) == 0);
        fprintf(file, "%s", is_click ? "+1" : "-1");
        for (size_t c = 0; c < COLUMNS; c++) {
            fprintf(file, " %llu:1", (unsigned long long)(first + picks[c]));
            first += sizes[c];
        }
        fprintf(file, "\n");
    }
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(snprintf(f->path, sizeof f->path, "/tmp/rubato-fm-XXXXXX") > 0);
    const int fd = mkstemp(f->path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_true(snprintf(f->model_path, sizeof f->model_path, "%s.rbt", f->path) > 0);
    write_data(f->path, EXAMPLES, 0);
    f->options = (struct rbt_train_options){.format = RBT_FORMAT_LIBSVM,
                                            .epochs = EPOCHS,
                                            .clocks_per_epoch = 2,
                                            .workers = 1,
                                            .servers = 1,
                                            .consistency = "bsp",
                                            .seed = 1,
                                            .label_column = -1,
                                            .model = f->model_path,
                                            .tiny = (double)NAN,
                                            .target = (double)NAN};
    f->options.data.values[0] = f->path;
    f->options.data.count = 1;
    f->config = (struct rbt_fm_config){.rank = RANK,
                                       .is_shrunk = true,
                                       .l1 = (double)NAN,
                                       .l2_v = (double)NAN,
                                       .lr = (double)NAN,
                                       .lr_v = (double)NAN,
                                       .has_bias = true,
                                       .combine = RBT_COMBINE_AUTO};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    rbt_model_free(&f->model);
    (void)unlink(f->model_path); /* not every test writes it */
    (void)unlink(f->path);
    free(f);
    return 0;
}

static rbt_status train(struct fixture *f)
{
    rbt_model_free(&f->model);
    f->model = (struct rbt_model){0};
    const rbt_status st = rbt_fm.train(&f->options, &f->config, &f->observer, &f->summary);
    if (st == RBT_OK && f->options.model != NULL) {
        assert_ok(rbt_model_read(f->model_path, &f->model));
        assert_int_equal(rbt_model_digest(&f->model), f->summary.digest);
    }
    return st;
}

static const struct rbt_model_array *array(const struct fixture *f, const char *name)
{
    const struct rbt_model_array *found = rbt_model_array_find(&f->model, name);
    assert_non_null(found);
    return found;
}

/* The row of a key, or SIZE_MAX. */
static size_t row_of(const struct rbt_model_array *a, uint64_t key)
{
    return rbt_keys_find(a->keys, a->count, key);
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

static void learns_what_is_in_pairs(void **state)
{
    struct fixture *f = *state;
    static const char *const rules[] = {NULL, "ftrl", "add"};
    f->options.epochs = 30;
    f->config.l1 = 0; /* weights alone know nothing here */
    f->config.l2_v = 0.001;
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        f->options.rule = rules[r];
        f->options.clocks_per_epoch = r == 1 ? 20 : 2;
        for (int64_t workers = 1; workers <= 2; workers++) {
            f->options.workers = workers;
            assert_ok(train(f));
            struct rbt_metrics metrics = {0};
            struct rbt_share share = take_share(f);
            assert_ok(rbt_fm_model_measure(&f->model, &share, &metrics));
            rbt_share_free(&share);
            assert_string_equal(metrics.names[0], "logloss");
            assert_true(metrics.values[0] < 0.4); /* without pairs it is about log 2 */
            assert_string_equal(metrics.names[4], "v_nonzeros");
            assert_true(metrics.values[4] > 0);
        }
    }
}

/* Frequent features have an embedding, rare ones and those without a weight have none. */
static void constraints_hold(void **state)
{
    struct fixture *f = *state;
    for (int is_ftrl = 0; is_ftrl < 2; is_ftrl++) {
        f->options.rule = is_ftrl ? "ftrl" : NULL;
        f->config.min_count = 0; /* twice the rank: 8 */
        f->config.l1 = 0.5;
        assert_ok(train(f));
        struct rbt_share share = take_share(f);
        const struct rbt_model_array *w = array(f, "weights");
        const struct rbt_model_array *v = array(f, "embeddings");
        size_t rare = 0;
        size_t dropped = 0;
        size_t late = 0; /* weights that came too late to move their embedding */
        assert_int_equal(v->width, RANK);
        for (uint32_t j = 0; j < share.key_count; j++) {
            size_t count = 0;
            for (uint64_t k = 0; k < share.offsets[share.count]; k++) {
                count += share.indices[k] == j;
            }
            const bool has_weight = row_of(w, share.keys[j]) != SIZE_MAX;
            const bool has_one = row_of(v, share.keys[j]) != SIZE_MAX;
            assert_true(!has_one || (count >= (size_t)2 * RANK && has_weight));
            late += !has_one && count >= (size_t)2 * RANK && has_weight;
            rare += count < (size_t)2 * RANK;
            dropped += !has_weight;
        }
        for (size_t i = 0; i < w->count; i++) {
            assert_true(w->values[i] != 0.0F);
        }
        assert_true(rare > 0 && dropped > 0 && v->count > 10 && late <= 2);
        rbt_share_free(&share);
    }
}

static void without_constraints_all_have_embeddings(void **state)
{
    struct fixture *f = *state;
    f->config.min_count = 1;
    f->config.is_shrunk = false;
    f->config.l1 = 1e6;
    assert_ok(train(f));
    struct rbt_share share = take_share(f);
    assert_int_equal(array(f, "embeddings")->count, share.key_count);
    assert_int_equal(array(f, "weights")->count, share.key_count); /* all zero */
    f->config.is_shrunk = true;
    assert_ok(train(f));
    assert_int_equal(array(f, "embeddings")->count, 0);
    assert_int_equal(array(f, "weights")->count, 0);
    rbt_share_free(&share);
}

/* The same in one loop of minibatches: sums of gradients, and equations 10.18 and 10.19. */
static void servers_equal_a_serial_loop(void **state)
{
    struct fixture *f = *state;
    f->options.rule = "ftrl:lr=0.2,l1=0.5";
    f->config.min_count = 1;
    f->config.is_shrunk = false;
    f->config.has_bias = false;
    f->config.lr_v = 0.3;
    f->config.l2_v = 0.01;
    f->options.epochs = 1;
    f->options.clocks_per_epoch = 1;
    assert_ok(train(f));
    const struct rbt_model_array *w = array(f, "weights");
    const struct rbt_model_array *v = array(f, "embeddings");
    struct rbt_share share = take_share(f);
    /* All weights are zero, and embeddings tiny, in the only step that there is: the slope of each
     * loss is close to -y / 2. */
    for (uint32_t j = 0; j < share.key_count; j++) {
        float g = 0.0F;
        for (size_t i = 0; i < share.count; i++) {
            for (uint64_t k = share.offsets[i]; k < share.offsets[i + 1]; k++) {
                g += share.indices[k] == j ? -share.labels[i] / 2 : 0.0F;
            }
        }
        const float size = fabsf(g) - 0.5F;
        const float expected = size <= 0 ? 0.0F : copysignf(size, -g) / ((1.0F + fabsf(g)) / 0.2F);
        const size_t row = row_of(w, share.keys[j]);
        assert_true(row != SIZE_MAX && fabsf(w->values[row] - expected) < 1e-3F);
        for (size_t e = 0; e < RANK; e++) {
            const float element = v->values[row_of(v, share.keys[j]) * RANK + e];
            assert_true(fabsf(element) < 0.3F && element != 0.0F);
        }
    }
    rbt_share_free(&share);
}

/* How many minibatches of a hundredth of the examples have the feature, per example that has it. */
static float shrinks_of(const struct rbt_share *share, uint32_t j)
{
    double count = 0;
    for (uint64_t k = 0; k < share->offsets[share->count]; k++) {
        count += share->indices[k] == j;
    }
    const double batch = EXAMPLES / 100.0;
    return (float)((1.0 - pow(1.0 - count / EXAMPLES, batch)) / batch * EXAMPLES / count);
}

/* The model that was trained against that of a run. */
static void compare_with(const struct fixture *f, const struct rbt_share *share,
                         const struct rbt_fm_run *run)
{
    const struct rbt_model_array *weights = array(f, "weights");
    const struct rbt_model_array *embeddings = array(f, "embeddings");
    for (uint32_t j = 0; j < share->key_count; j++) {
        const size_t row = row_of(weights, share->keys[j]);
        const size_t row_v = row_of(embeddings, share->keys[j]);
        assert_true(row != SIZE_MAX && row_v != SIZE_MAX);
        assert_true(fabsf(weights->values[row] - run->weights[j]) < 1e-4F);
        for (size_t e = 0; e < RANK; e++) {
            assert_true(fabsf(embeddings->values[row_v * RANK + e] -
                              run->embeddings[j * RANK + e]) < 1e-4F);
        }
    }
    assert_true(fabsf(array(f, "bias")->values[0] - run->bias) < 1e-4F);
}

/* One worker is one loop over the examples: penalties that grow with the passes, steps of
 * embeddings that fall to a tenth, and embeddings that are shrunk by how frequent their feature is.
 */
static void one_worker_equals_a_serial_loop(void **state)
{
    struct fixture *f = *state;
    enum { CLOCKS = 2, KEYS_MAX = 256 };
    static float w[KEYS_MAX], z[KEYS_MAX], root[KEYS_MAX], ones[KEYS_MAX], l2_v[KEYS_MAX];
    static float v[KEYS_MAX * RANK], squares[KEYS_MAX * RANK];
    uint32_t rows[KEYS_MAX];
    uint32_t row_room[COLUMNS];
    float value_room[COLUMNS];
    float sum_room[RANK];
    struct rbt_share share = take_share(f);
    assert_true(share.key_count <= KEYS_MAX);
    f->config.min_count = 1;
    f->config.is_shrunk = false;
    f->config.l1 = 0.2;
    f->config.l2 = 0.7;
    f->config.l2_v = 2;
    f->config.lr_v = 1e-7; /* embeddings as they begin */
    assert_ok(train(f));
    for (uint32_t j = 0; j < share.key_count; j++) {
        const struct rbt_model_array *begin = array(f, "embeddings");
        const size_t row = row_of(begin, share.keys[j]);
        assert_true(row != SIZE_MAX);
        memcpy(v + (size_t)j * RANK, begin->values + row * RANK, RANK * sizeof *v);
        l2_v[j] = 2 * shrinks_of(&share, j);
        ones[j] = 1;
        rows[j] = j;
    }
    struct rbt_fm_run run = {.loss = RBT_LOSS_LOGISTIC,
                             .offsets = share.offsets,
                             .labels = share.labels,
                             .indices = share.indices,
                             .values = share.values,
                             .rows = rows,
                             .rank = RANK,
                             .weights = w,
                             .embeddings = v,
                             .row_room = row_room,
                             .value_room = value_room,
                             .sum_room = sum_room};
    struct rbt_fm_steps steps = {.lr = 0.3F,
                                 .beta = 1,
                                 .shares = ones,
                                 .l2_v = l2_v,
                                 .times_v = ones,
                                 .z = z,
                                 .root = root,
                                 .squares = squares,
                                 .has_bias = true};
    for (int t = 0; t < EPOCHS * CLOCKS; t++) {
        const float passes = (float)(t + 1) / CLOCKS;
        run.begin = (size_t)(t % CLOCKS) * EXAMPLES / CLOCKS;
        run.end = run.begin + EXAMPLES / CLOCKS;
        steps.lr_v = 0.5F * (1 - 0.9F * passes / EPOCHS);
        steps.l1 = 0.2F * passes;
        steps.l2 = 0.7F * passes;
        (void)rbt_choose_kernels()->fm_steps(&run, &steps); /* the model is what is compared */
    }
    f->config.lr_v = 0.5;
    assert_ok(train(f));
    compare_with(f, &share, &run);
    rbt_share_free(&share);
}

/* Lemma 22: the chance that a minibatch has a feature, by drawing; and its ends. */
static void shrinking_follows_frequency(void **state)
{
    (void)state;
    struct rbt_rng rng;
    enum { N = 50, OCCURRENCES = 3, BATCH = 10, DRAWS = 20000 };
    int hits = 0;
    rbt_rng_init(&rng, 3, 0, 0);
    for (int d = 0; d < DRAWS; d++) {
        bool is_hit = false;
        for (int i = 0; i < BATCH; i++) {
            is_hit = is_hit || rbt_rng_below(&rng, N) < OCCURRENCES;
        }
        hits += is_hit;
    }
    assert_true(fabs((double)hits / DRAWS - rbt_fm_chance(OCCURRENCES, N, BATCH)) < 0.02);
    assert_true(fabs(rbt_fm_chance(OCCURRENCES, N, 1) - 0.06) < 1e-12); /* in proportion */
    assert_true(rbt_fm_chance(1, 1e6, 1e9) > 0.999);                    /* all alike */
    assert_true(rbt_fm_chance(N, N, 1) == 1.0);
    assert_true(rbt_fm_chance(0, N, BATCH) == 0.0);
    struct rbt_fm_job fm = {.clocks_per_epoch = 5, .worker_count = 1};
    fm.examples.count = N;
    assert_true(fabs(rbt_fm_shrinks(&fm, OCCURRENCES) - 0.06) < 1e-12); /* one by one */
    fm.examples.count = (size_t)N * RBT_FM_BATCHES;
    assert_true(fabs(rbt_fm_shrinks(&fm, (double)fm.examples.count) * N - 1) <
                1e-12); /* in all of them */
    fm.examples.count = N;
    fm.rules.has_gradients = true;
    assert_true(fabs(rbt_fm_shrinks(&fm, OCCURRENCES) -
                     rbt_fm_chance(OCCURRENCES, N, BATCH) / BATCH) < 1e-12);
}

static void objective_is_loss_and_penalty(void **state)
{
    struct fixture *f = *state;
    f->config.l1 = 0.5;
    f->config.l2 = 2;
    f->config.l2_v = 0.1;
    f->config.min_count = 1;
    assert_ok(train(f));
    struct rbt_share share = take_share(f);
    const struct rbt_model_array *w = array(f, "weights");
    const struct rbt_model_array *v = array(f, "embeddings");
    double sum = 0.0;
    float margins[EXAMPLES];
    assert_ok(rbt_fm_model_margins(&f->model, &share, margins));
    for (size_t i = 0; i < share.count; i++) {
        sum += rbt_loss_at(RBT_LOSS_LOGISTIC, (double)margins[i], (double)share.labels[i]).value;
    }
    for (uint32_t j = 0; j < share.key_count; j++) {
        const size_t row = row_of(v, share.keys[j]);
        const double batches = RBT_FM_BATCHES; /* of which the feature is in so many on average: */
        double count = 0;
        for (uint64_t k = 0; k < share.offsets[share.count]; k++) {
            count += share.indices[k] == j;
        }
        const double hits = batches * (1.0 - pow(1.0 - count / EXAMPLES, EXAMPLES / batches));
        for (size_t e = 0; row != SIZE_MAX && e < RANK; e++) {
            const double element = (double)v->values[row * RANK + e];
            sum += 0.1 / 2 * hits * element * element;
        }
    }
    for (size_t i = 0; i < w->count; i++) {
        const double weight = (double)w->values[i];
        sum += 0.5 * fabs(weight) + 2.0 / 2 * weight * weight;
    }
    assert_true(fabs(f->summary.objective - sum / EXAMPLES) < 1e-5);
    f->options.is_exact = true;
    f->options.workers = 3;
    assert_ok(train(f));
    assert_true(isfinite(f->summary.objective));
    rbt_share_free(&share);
}

static void keep_objective(void *context, const struct rbt_train_event *event)
{
    double *objectives = context;
    if (event->epoch == floor(event->epoch)) {
        objectives[(int)event->epoch] = event->objective;
    }
}

/* What workers tell is about right late in training; each run has another term as a good part. */
static void events_tell_the_objective(void **state)
{
    struct fixture *f = *state;
    enum { LATE = 39 };
    static const double penalties[][3] = {{0.1, 3, 0.05}, {0.3, 0, 0}, {0, 0.5, 0}, {0, 0, 0.1}};
    f->config.is_shrunk = false;
    f->options.epochs = LATE + 1;
    f->options.workers = 2;
    for (size_t i = 0; i < sizeof penalties / sizeof penalties[0]; i++) {
        double told[LATE + 2] = {0}, exact[LATE + 2] = {0};
        f->config.l1 = penalties[i][0];
        f->config.l2 = penalties[i][1];
        f->config.l2_v = penalties[i][2];
        f->config.min_count = f->config.l2_v > 0 ? 1 : EXAMPLES;
        f->options.is_exact = false;
        f->observer = (struct rbt_observer){.context = told, .on_event = keep_objective};
        assert_ok(train(f));
        f->options.is_exact = true;
        f->observer.context = exact;
        assert_ok(train(f));
        struct rbt_share share = take_share(f);
        struct rbt_metrics metrics = {0};
        assert_ok(rbt_fm_model_measure(&f->model, &share, &metrics));
        rbt_share_free(&share);
        assert_true(f->summary.objective > 1.06 * metrics.values[0]);
        assert_true(exact[LATE] > 0 && fabs(told[LATE] / exact[LATE] - 1) < 0.02);
    }
}

/* The penalty becomes small where pairs are everything, and large where labels are drawn, and stays
 * as it is if somebody gives one. */
static void penalties_are_found(void **state)
{
    struct fixture *f = *state;
    f->options.epochs = 30;
    f->options.workers = 2;
    f->config.l1 = 0;
    write_data(f->path, 4 * EXAMPLES, 0);
    assert_ok(train(f));
    const double of_pairs = rbt_model_setting(&f->model, "l2_v", 0);
    struct rbt_share share = take_share(f);
    struct rbt_metrics metrics = {0};
    assert_ok(rbt_fm_model_measure(&f->model, &share, &metrics));
    assert_true(metrics.values[0] < 0.4);
    rbt_share_free(&share);
    write_data(f->path, 4 * EXAMPLES, 10);
    assert_ok(train(f));
    const double of_noise = rbt_model_setting(&f->model, "l2_v", 0);
    assert_true(of_pairs > 0 && of_pairs < 0.2 && of_noise > 5 * of_pairs);
    f->config.l2_v = 0.01;
    assert_ok(train(f));
    assert_true(rbt_model_setting(&f->model, "l2_v", 0) == 0.01);
}

static void several_workers_repeat_under_bsp(void **state)
{
    struct fixture *f = *state;
    f->options.workers = 3;
    for (int is_ftrl = 0; is_ftrl < 2; is_ftrl++) {
        f->options.rule = is_ftrl ? "ftrl" : NULL;
        assert_ok(train(f));
        const uint64_t digest = f->summary.digest;
        for (int i = 0; i < 3; i++) {
            assert_ok(train(f));
            assert_int_equal(f->summary.digest, digest);
        }
    }
    assert_int_equal(f->summary.examples, EXAMPLES * EPOCHS);
}

static void squared_loss_and_other_rules_work(void **state)
{
    struct fixture *f = *state;
    static const char *const rules[] = {NULL, "ftrl", "adagrad", "adarev", "adam", "dynsgd", "sgd"};
    f->config.loss = 1;
    f->options.workers = 2;
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        f->options.rule = rules[r];
        assert_ok(train(f));
        assert_true(f->summary.objective < 0.55); /* of a model that knows nothing: 0.5 */
        assert_true(rbt_fm_model_loss(&f->model) == RBT_LOSS_SQUARED);
    }
    f->options.rule = NULL;
    f->options.filter = "fixed:8";
    assert_ok(train(f));
    assert_true(f->summary.objective < 0.55);
}

/* Labels of about `unit`, which depend on a pair, and a column of about `size`. */
static void write_quantities(const char *path, int unit, int size)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    struct rbt_rng rng;
    rbt_rng_init(&rng, 6, 0, 0);
    for (int i = 0; i < EXAMPLES; i++) {
        const uint64_t a = rbt_rng_below(&rng, 2);
        const uint64_t b = rbt_rng_below(&rng, 2);
        const double x = (double)size * (rbt_rng_below(&rng, 2) == 0 ? 0.75 : 1.25);
        const double y = (a == b ? 3 : 1) + 0.5 * x / size;
        fprintf(file, "%.9g %d:1 %d:1 9:%.9g\n", unit * y, 1 + (int)a, 3 + (int)b, x);
    }
    assert_int_equal(fclose(file), 0);
}

/* The same data in other units is the same training, and predictions are in the data's units. */
static void units_do_not_matter(void **state)
{
    struct fixture *f = *state;
    static const char *const rules[] = {NULL, "ftrl"};
    enum { UNIT = 256, SIZE = 1024 };
    f->config.loss = 1;
    f->options.workers = 2;
    f->options.epochs = 20;
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        double objectives[2];
        struct rbt_metrics metrics[2];
        f->options.rule = rules[r];
        for (int is_large = 0; is_large < 2; is_large++) {
            const struct rbt_predict_options options = {
                .data = f->options.data, .format = RBT_FORMAT_LIBSVM, .label_column = -1};
            write_quantities(f->path, is_large ? UNIT : 1, is_large ? SIZE : 1);
            assert_ok(train(f));
            objectives[is_large] = f->summary.objective;
            assert_ok(rbt_fm.evaluate(&f->model, &options, &metrics[is_large]));
        }
        assert_string_equal(metrics[0].names[0], "rmse");
        assert_true(r == 1 || metrics[0].values[0] < 0.3); /* without pairs it is about 1 */
        assert_true(fabs(metrics[1].values[0] / UNIT / metrics[0].values[0] - 1) < 1e-3);
        assert_true(fabs(objectives[1] / UNIT / UNIT / objectives[0] - 1) < 1e-3);
    }
}

static void contradictions_are_refused(void **state)
{
    struct fixture *f = *state;
    f->options.rule = "adam";
    f->config.l1 = 1;
    assert_fails(train(f), RBT_E_INVALID, "rule \"adam\" does not support \"--l1\"");
    f->config.l1 = 0;
    f->config.l2_v = 1;
    assert_fails(train(f), RBT_E_INVALID, "does not support \"--l2-v\"");
    f->config.l2_v = 0;
    f->config.combine = RBT_COMBINE_MEAN;
    assert_fails(train(f), RBT_E_INVALID, "\"--combine\" excludes rule");
    f->config.combine = RBT_COMBINE_AUTO;
    f->options.rule = "ftrl:lr=1";
    f->config.lr = 2;
    assert_fails(train(f), RBT_E_INVALID, "the step size is given twice");
    f->config.lr = (double)NAN;
    f->options.rule = NULL;
    f->options.bandwidth = 1e6;
    assert_fails(train(f), RBT_E_INVALID, "\"--bandwidth\" needs");
}

/* A move counts in full where steps are short, as a mean where they are long, and less if reads are
 * stale; and the moves of all workers together never exceed what one would do. */
static void moves_add_up_to_those_of_one_worker(void **state)
{
    (void)state;
    static const float steps[] = {1e-6F, 1e-3F, 0.1F, 1, 10, 1000};
    for (float times = 1; times <= 64; times *= 2) {
        float before = 2;
        for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
            const float factor = rbt_fm_combine_factor(steps[i], times, 0);
            const float mine = steps[i] / times;
            const float all = factor * times * mine / (1 + mine);
            assert_true(fabsf(all - steps[i] / (1 + steps[i])) <= 1e-5F * all);
            assert_true(factor <= before && (times > 1 || factor == 1.0F));
            before = factor;
        }
        assert_true(fabsf(rbt_fm_combine_factor(1e-9F, times, 2) - 1) < 1e-6F);
        assert_true(fabsf(rbt_fm_combine_factor(1e6F, times, 0) * times - 1) < 1e-3F);
        assert_true(fabsf(rbt_fm_combine_factor(1e6F, times, 2) * times * 3 - 1) < 1e-3F);
    }
}

/* The loss on all examples. */
static double loss_of(struct fixture *f)
{
    struct rbt_share share = take_share(f);
    struct rbt_metrics metrics = {0};
    assert_ok(rbt_fm_model_measure(&f->model, &share, &metrics));
    rbt_share_free(&share);
    assert_string_equal(metrics.names[0], "logloss");
    return metrics.values[0];
}

/* What is in pairs is learnt with many workers almost as with one. */
static void many_workers_learn_pairs(void **state)
{
    struct fixture *f = *state;
    f->options.epochs = 20;
    f->options.clocks_per_epoch = 4;
    f->config.l1 = 0.1;
    write_data(f->path, 8 * EXAMPLES, 0);
    assert_ok(train(f));
    const double alone = loss_of(f);
    f->options.workers = 16;
    assert_ok(train(f));
    const double together = loss_of(f);
    assert_true(alone < 0.2 && together < 1.3 * alone);
}

/* A feature pays its penalty, however rare it is and whoever has its examples. */
static void penalties_do_not_depend_on_workers(void **state)
{
    struct fixture *f = *state;
    static const double penalties[] = {3, 40};
    f->options.epochs = 20;
    f->options.clocks_per_epoch = 4;
    f->config.l1 = 0;
    f->config.l2_v = 1000;
    for (size_t p = 0; p < 2; p++) {
        double norms[2] = {0};
        double objectives[2] = {0};
        f->config.l2 = penalties[p];
        for (size_t many = 0; many < 2; many++) {
            f->options.workers = many ? 8 : 1;
            assert_ok(train(f));
            const struct rbt_model_array *w = array(f, "weights");
            norms[many] = rbt_choose_kernels()->norm1(w->values, w->count);
            objectives[many] = f->summary.objective;
        }
        assert_true(fabs(norms[1] / norms[0] - 1) < 0.06);
        assert_true(objectives[1] < 1.01 * objectives[0]);
    }
}

/* However large the penalty, embeddings become zero and what is left is a linear model. */
static void large_penalties_do_no_harm(void **state)
{
    struct fixture *f = *state;
    static const char *const rules[] = {NULL, "ftrl"};
    static const double penalties[] = {20, 1e3, 1e6};
    f->config.loss = 1;
    f->options.workers = 2;
    f->options.epochs = 30;
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        f->options.rule = rules[r];
        for (size_t p = 0; p < sizeof penalties / sizeof penalties[0]; p++) {
            f->config.l2_v = penalties[p];
            assert_ok(train(f));
            assert_true(f->summary.objective < 0.55); /* of a model that knows nothing: 0.5 */
        }
    }
}

/* A run that ends with less than nothing fails with a sentence, and writes no model. */
static void divergence_is_said(void **state)
{
    struct fixture *f = *state;
    f->options.epochs = 30; /* steps enough to judge */
    f->config.l1 = 0;
    f->config.l2_v = 0;
    f->config.lr_v = 500;
    for (int32_t loss = 0; loss < 2; loss++) {
        f->config.loss = loss;
        assert_fails(train(f), RBT_E_DATA, "training diverged");
        assert_non_null(strstr(rbt_last_hint(), "--lr-v"));
        assert_int_not_equal(access(f->model_path, F_OK), 0);
    }
    f->options.rule = "ftrl";
    f->config.lr_v = 0.1;
    f->config.l2_v = 20;
    assert_fails(train(f), RBT_E_INVALID, "must be below 2");
}

/* A model by hand: keys 1 and 4 have embeddings, key 3 has none. */
static void fill_model(struct rbt_model *model)
{
    static uint64_t weight_keys[] = {1, 3, 4};
    static float weights[] = {0.5F, -1.0F, 2.0F};
    static uint64_t embedding_keys[] = {1, 4};
    static float embeddings[] = {1.0F, 2.0F, -3.0F, 0.5F};
    static uint64_t bias_key[] = {0};
    static float bias[] = {0.125F};
    *model = (struct rbt_model){.kind = RBT_MODEL_FM,
                                .arrays = {{"weights", 1, 3, weight_keys, weights},
                                           {"embeddings", 2, 2, embedding_keys, embeddings},
                                           {"bias", 1, 1, bias_key, bias}},
                                .array_count = 3};
}

static void export_is_libfm_text(void **state)
{
    (void)state;
    struct rbt_model model;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    fill_model(&model);
    assert_string_equal(rbt_fm.exports[0].name, "libfm");
    assert_ok(rbt_fm.exports[0].write(&model, out));
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, "#global bias W0\n0.125\n#unary interactions Wj\n0\n0.5\n0\n-1\n2\n"
                              "#pairwise interactions Vj,f\n0 0\n1 2\n0 0\n0 0\n-3 0.5\n");
    free(text);
    model.arrays[0].keys[2] = UINT64_MAX;
    out = fopen("/dev/null", "w");
    assert_non_null(out);
    assert_fails(rbt_fm.exports[0].write(&model, out), RBT_E_INVALID, "is too large for that");
    assert_int_equal(fclose(out), 0);
    model.arrays[0].keys[2] = 4;
    model.array_count = 1;
    assert_fails(rbt_fm.exports[0].write(&model, NULL), RBT_E_DATA, "has no embeddings");
}

/* 0.125 + 0.5 x_1 - x_3 + 2 x_4 + x_1 x_4 (1 * -3 + 2 * 0.5); key 7 is not known. */
static void predictions_follow_the_formula(void **state)
{
    struct fixture *f = *state;
    struct rbt_model model;
    struct rbt_predict_options options = {.format = RBT_FORMAT_LIBSVM, .label_column = -1};
    FILE *data = fopen(f->path, "w");
    char *text = NULL;
    size_t size = 0;
    options.out = open_memstream(&text, &size);
    assert_true(data != NULL && options.out != NULL);
    fprintf(data, "1 1:1 4:0.5\n-1 3:2 7:5\n1\n");
    assert_int_equal(fclose(data), 0);
    options.data.values[0] = f->path;
    options.data.count = 1;
    fill_model(&model);
    rbt_model_set(&model, "loss", RBT_LOSS_SQUARED);
    assert_ok(rbt_fm.predict(&model, &options));
    assert_int_equal(fclose(options.out), 0);
    assert_string_equal(text, "0.625\n-1.875\n0.125\n");
    free(text);
    struct rbt_metrics metrics;
    assert_ok(rbt_fm.evaluate(&model, &options, &metrics));
    assert_string_equal(metrics.names[0], "rmse");
    assert_true(metrics.values[1] == 3 && metrics.values[2] == 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(learns_what_is_in_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(constraints_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(without_constraints_all_have_embeddings, setup, teardown),
        cmocka_unit_test_setup_teardown(servers_equal_a_serial_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(one_worker_equals_a_serial_loop, setup, teardown),
        cmocka_unit_test(shrinking_follows_frequency),
        cmocka_unit_test_setup_teardown(objective_is_loss_and_penalty, setup, teardown),
        cmocka_unit_test_setup_teardown(events_tell_the_objective, setup, teardown),
        cmocka_unit_test_setup_teardown(penalties_are_found, setup, teardown),
        cmocka_unit_test_setup_teardown(several_workers_repeat_under_bsp, setup, teardown),
        cmocka_unit_test_setup_teardown(squared_loss_and_other_rules_work, setup, teardown),
        cmocka_unit_test_setup_teardown(units_do_not_matter, setup, teardown),
        cmocka_unit_test(moves_add_up_to_those_of_one_worker),
        cmocka_unit_test_setup_teardown(many_workers_learn_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(penalties_do_not_depend_on_workers, setup, teardown),
        cmocka_unit_test_setup_teardown(large_penalties_do_no_harm, setup, teardown),
        cmocka_unit_test_setup_teardown(divergence_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(contradictions_are_refused, setup, teardown),
        cmocka_unit_test(export_is_libfm_text),
        cmocka_unit_test_setup_teardown(predictions_follow_the_formula, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
